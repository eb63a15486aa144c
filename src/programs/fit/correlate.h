/* SPDX-License-Identifier: MIT */
/* Cross-correlation of two sets of positions near one shift, as a histogram of position
 * differences.
 *
 * The histogram equals the correlation of their images at these shifts, for any pixel size. Its
 * cost depends only on the number of near pairs, and it needs no image and no Fourier transform. */
#ifndef TOOLS_FIT_CORRELATE_H
#define TOOLS_FIT_CORRELATE_H

#include <stdbool.h>
#include <stdint.h>

/* Positions sorted into square cells. */
typedef struct cell_grid {
  double cell, left, top;
  int64_t rows, columns;
  int64_t *begin;  /* [rows · columns + 1]: first position of each cell */
  int64_t *number; /* original index of each position */
  double *x, *y;
} cell_grid;

/* Sorts positions into cells. `cell` > 0 becomes larger if there would be too many cells. Returns
 * false when out of memory. */
bool cell_grid_make(const double *x, const double *y, int64_t count, double cell, cell_grid *grid);
void cell_grid_release(cell_grid *grid);

/* Adds the differences b − a of all pairs to histogram[side][side], with bins of width `bin`.
 * `side` is odd, and the middle of the middle bin is the difference (dx, dy). Returns the number of
 * pairs. */
int64_t correlate(const cell_grid *a, const cell_grid *b, double dx, double dy, double bin,
                  int32_t side, float *histogram);

/* Adds the differences b − a of a third coordinate to histogram[bins], for all pairs that are at
 * most `reach` apart along x and along y. The middle of the histogram is 0. `a_third` and `b_third`
 * have the original order of the positions. Pairs with a NaN are omitted. */
void correlate_third(const cell_grid *a, const cell_grid *b, const double *a_third,
                     const double *b_third, double reach, double bin, int32_t bins,
                     double *histogram);

/* Finds the bin with the highest sum under a 5 × 5 binomial. */
void correlation_peak(const float *histogram, int32_t side, int32_t *row, int32_t *column);

#endif
