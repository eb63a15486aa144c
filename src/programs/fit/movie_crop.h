/* SPDX-License-Identifier: MIT */
/* A part of a movie: some of its frames, and a rectangle of each. */
#ifndef TOOLS_FIT_MOVIE_CROP_H
#define TOOLS_FIT_MOVIE_CROP_H

#include "programs/fit/movie_file.h"

typedef struct movie_part {
  int64_t frame, frames; /* the first frame, and their number */
  int64_t row, column;   /* of the first pixel */
  int64_t rows, columns;
} movie_part;

/* Replaces *file by a movie of that part, which must be within the images. On failure *file is
 * unchanged. */
compute_status movie_crop(movie **file, const movie_part *part, failure *why);

#endif
