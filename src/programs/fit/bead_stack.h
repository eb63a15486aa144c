/* SPDX-License-Identifier: MIT */
/* Beads in a stack of images at ascending heights. Finds their positions, reads their pixels, and
 * moves the pixels by fractions of pixels and frames. */
#ifndef TOOLS_FIT_BEAD_STACK_H
#define TOOLS_FIT_BEAD_STACK_H

#include "programs/fit/movie_file.h"
#include "programs/fit/table.h"

enum { BEAD_MARGIN = 2 }; /* pixels beyond the side, as a margin for moving */

typedef struct bead {
  double x, y;       /* mean position in the frames */
  int64_t rows;      /* rows of the table */
  double shift[3];   /* of the spot from the window's middle, in pixels; in z, in frames */
  double photons;    /* in a window, without the background */
  double background; /* per pixel */
  float *pixels;     /* [frames, window, window] */
} bead;

typedef struct bead_stack {
  int32_t side, window; /* pixels of each bead: the result, and with the margin */
  int64_t frames, count;
  int64_t found; /* beads before those near others or the border were removed */
  bead *beads;
} bead_stack;

/* Finds objects that are at one place in a third of all frames. Keeps only beads with a complete
 * window that is apart from others. `side` must be odd. On COMPUTE_ERROR_OUT_OF_MEMORY nothing has
 * to be released. */
compute_status bead_stack_find(const spots *s, int64_t frames, int64_t rows, int64_t columns,
                               int32_t side, bead_stack *stack, failure *why);

/* Reads the pixels, and estimates photons and backgrounds from the middle third of the frames. */
compute_status bead_stack_read(bead_stack *stack, movie *images, failure *why);

void bead_stack_release(bead_stack *stack);

/* Removes bead number i. */
void bead_stack_drop(bead_stack *stack, int64_t i);

/* Adds the bead's light to `sum` [frames, side, side]. The light is moved so that its shift becomes
 * zero. Returns false when out of memory. */
bool bead_add_moved(const bead_stack *stack, const bead *b, double *sum);

#endif
