/* SPDX-License-Identifier: MIT */
/* Cross-correlation of two sets of positions near one shift: a histogram of the differences of
 * their positions. It equals the correlation of their images at these shifts, however fine the
 * pixels, and costs no more than the pairs that are near; no image and no Fourier transform is
 * needed. */
#ifndef TOOLS_FIT_CORRELATE_H
#define TOOLS_FIT_CORRELATE_H

#include <stdbool.h>
#include <stdint.h>

/* Positions sorted into square cells. */
typedef struct cell_grid {
  double cell, left, top;
  int64_t rows, columns;
  int64_t *begin;  /* [rows · columns + 1] of each cell's positions */
  int64_t *number; /* of a position among those given */
  double *x, *y;
} cell_grid;

/* false when out of memory. `cell` > 0 becomes larger if there would be too many. */
bool cell_grid_make(const double *x, const double *y, int64_t count, double cell, cell_grid *grid);
void cell_grid_release(cell_grid *grid);

/* Adds to histogram[side][side], with bins as wide as `bin`, the differences b − a of all pairs;
 * the middle of the middle bin (side is odd) is the difference (dx, dy). Returns the number of
 * pairs. */
int64_t correlate(const cell_grid *a, const cell_grid *b, double dx, double dy, double bin,
                  int32_t side, float *histogram);

/* Adds to histogram[bins] the differences of a third coordinate, b's − a's, of all pairs that are
 * at most `reach` apart along x and along y; the middle of the histogram is 0. `a_third`,
 * `b_third`: in the order in which the positions were given; pairs with a NaN are left out. */
void correlate_third(const cell_grid *a, const cell_grid *b, const double *a_third,
                     const double *b_third, double reach, double bin, int32_t bins,
                     double *histogram);

/* The bin with the highest sum under a 5 × 5 binomial. */
void correlation_peak(const float *histogram, int32_t side, int32_t *row, int32_t *column);

#endif
