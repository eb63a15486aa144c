/* SPDX-License-Identifier: MIT */
/* libhdf5's reason for a failure. */
#ifndef TOOLS_FIT_HDF5_WORDS_H
#define TOOLS_FIT_HDF5_WORDS_H

#include <hdf5.h>
#include <stdio.h>

enum { HDF5_WORDS = 256 };

/* Keeps the innermost of the library's messages, which names the actual cause. */
static inline herr_t hdf5_take_words(unsigned n, const H5E_error2_t *error, void *words) {
  if (n == 0 && error->desc) snprintf(words, HDF5_WORDS, "%s", error->desc);
  return 0;
}

/* Returns libhdf5's reason, in `words`, or `otherwise`. */
static inline const char *hdf5_words(char words[HDF5_WORDS], const char *otherwise) {
  words[0] = '\0';
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, hdf5_take_words, words);
  return words[0] ? words : otherwise;
}

#endif
