/* SPDX-License-Identifier: MIT */
/* The internals of an open movie, shared by the file formats. */
#ifndef TOOLS_FIT_MOVIE_PRIVATE_H
#define TOOLS_FIT_MOVIE_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#include "compute/dtype.h"
#include "programs/fit/movie_file.h"

/* The largest plausible image, in pixels; a larger one means a damaged file. */
#define MOVIE_MAX_PIXELS ((int64_t)1 << 30)

struct movie {
  movie_info info;
  char *path;
  int descriptor;
  compute_dtype stored; /* dtype of the pixels in the file */
  compute_status (*read)(movie *file, int64_t first, int64_t count, void *pixels, failure *why);
  void (*close_state)(void *state); /* NULL: none */
  void *state;                      /* of the file format */
  bool inverted;                    /* 0 is white: unsigned integers only */
  char *description;                /* of a TIFF's first page; NULL: none */

  /* For files with contiguous pixels. */
  uint64_t offset;
  bool swapped;
};

/* Each function completes a movie whose path, descriptor and file size are set. */
compute_status movie_tiff_open(movie *file, failure *why);
compute_status movie_raw_open(movie *file, failure *why);

/* Opens one file with all its images, in file order. */
compute_status movie_open_file(const char *path, movie **opened, failure *why);

/* Returns true if the bytes begin like a TIFF. */
bool movie_is_tiff(const unsigned char *bytes, size_t length);

/* Checks and sets the description of the images in info. */
compute_status movie_set_size(movie *file, compute_dtype stored, int64_t count, int64_t rows,
                              int64_t columns, failure *why);

/* Sets `read` for a file with contiguous pixels. `offset`, `swapped` and info must be set. */
void movie_use_flat(movie *file);

/* Reads all `bytes` at `offset` of the file, or fails. */
compute_status movie_read_at(const movie *file, void *data, uint64_t bytes, uint64_t offset,
                             failure *why);

/* The dtype that pixels of dtype `stored` are converted to; COMPUTE_DTYPE_NONE if images cannot
 * have dtype `stored`. */
compute_dtype pixels_dtype(compute_dtype stored);

/* Converts `count` pixels. `swapped`: the source has the opposite byte order. `target` may be
 * `source` if both dtypes have the same size; otherwise they must not overlap. */
void pixels_convert(compute_dtype stored, bool swapped, const void *source, void *target,
                    size_t count);

#endif
