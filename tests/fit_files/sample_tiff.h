/* SPDX-License-Identifier: MIT */
/* Writes valid and invalid TIFFs byte by byte. libtiff is the reader under test, so this writer
 * does not use it. */
#ifndef FIT_FILES_SAMPLE_TIFF_H
#define FIT_FILES_SAMPLE_TIFF_H

#include <stdbool.h>
#include <stdint.h>

/* One page, in one uncompressed strip. Zero selects the default. */
typedef struct sample_page {
  uint32_t rows, columns;
  uint16_t bits;        /* 0: 16 */
  uint16_t format;      /* 0: tag absent */
  uint16_t samples;     /* 0: 1 */
  uint16_t photometric; /* 0: dark is 0 (1) */
  bool white_is_0;      /* photometric 0; a zero field means 1 */
  uint16_t compression; /* 0: none (1) */
  const char *description;
  const void *pixels; /* `bytes` of them, in the file's byte order */
  uint32_t bytes;
  uint32_t claimed_bytes;  /* of the strip; 0: the true size */
  uint32_t claimed_offset; /* of the strip; 0: the true offset */
} sample_page;

typedef struct sample_tiff {
  bool big_endian, big; /* BigTIFF */
  int pages;
  const sample_page *page;
  int next_of_last; /* the page after the last: a cycle; −1: none */
} sample_tiff;

/* Writes the file. Failure fails the test. */
void sample_tiff_write(const char *path, const sample_tiff *tiff);

#endif
