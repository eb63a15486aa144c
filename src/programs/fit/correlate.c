/* SPDX-License-Identifier: MIT */
/* See correlate.h. */
#include "programs/fit/correlate.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_CELLS_PER_POSITION = 4, LEAST_CELLS = 1024 };

static int64_t cell_at(const cell_grid *g, double x, double y) {
  const int64_t row = (int64_t)((y - g->top) / g->cell),
                column = (int64_t)((x - g->left) / g->cell);
  return row * g->columns + column;
}

/* Chooses extent and cell size. The cells grow until their number is not much larger than the
 * number of positions. */
static void choose_cells(const double *x, const double *y, int64_t count, cell_grid *g) {
  double right = count ? x[0] : 0, bottom = count ? y[0] : 0;
  g->left = right;
  g->top = bottom;
  for (int64_t i = 0; i < count; i++) {
    g->left = fmin(g->left, x[i]);
    g->top = fmin(g->top, y[i]);
    right = fmax(right, x[i]);
    bottom = fmax(bottom, y[i]);
  }
  const double most = (double)(MOST_CELLS_PER_POSITION * count + LEAST_CELLS);
  for (;; g->cell *= 2) {
    const double columns = floor((right - g->left) / g->cell) + 1,
                 rows = floor((bottom - g->top) / g->cell) + 1;
    if (!(rows * columns <= most)) continue;
    g->rows = (int64_t)rows;
    g->columns = (int64_t)columns;
    return;
  }
}

bool cell_grid_make(const double *x, const double *y, int64_t count, double cell, cell_grid *g) {
  *g = (cell_grid){.cell = cell};
  choose_cells(x, y, count, g);
  const size_t cells = (size_t)(g->rows * g->columns);
  g->begin = calloc(cells + 2, sizeof *g->begin);
  g->number = malloc((size_t)(count + 1) * sizeof *g->number);
  g->x = malloc((size_t)(count + 1) * sizeof *g->x);
  g->y = malloc((size_t)(count + 1) * sizeof *g->y);
  if (!g->begin || !g->number || !g->x || !g->y) {
    cell_grid_release(g);
    return false;
  }
  /* The counts are stored two places later, so that filling leaves begin[c] at the cell's first
   * position. */
  for (int64_t i = 0; i < count; i++) g->begin[cell_at(g, x[i], y[i]) + 2]++;
  for (size_t c = 1; c < cells + 1; c++) g->begin[c + 1] += g->begin[c];
  for (int64_t i = 0; i < count; i++) {
    const int64_t to = g->begin[cell_at(g, x[i], y[i]) + 1]++;
    g->number[to] = i;
    g->x[to] = x[i];
    g->y[to] = y[i];
  }
  return true;
}

void cell_grid_release(cell_grid *g) {
  free(g->begin);
  free(g->number);
  free(g->x);
  free(g->y);
  *g = (cell_grid){0};
}

static int64_t limited(double place, int64_t count) {
  return place < 0 ? 0 : place >= (double)count ? count - 1 : (int64_t)place;
}

/* The cells that a rectangle touches. Returns false if there are none. */
typedef struct cell_range {
  int64_t first, last, row, last_row; /* columns, rows */
} cell_range;

static bool cells_within(const cell_grid *g, double left, double top, double width,
                         cell_range *range) {
  const double right = left + width, bottom = top + width;
  if (right < g->left || bottom < g->top || left > g->left + (double)g->columns * g->cell ||
      top > g->top + (double)g->rows * g->cell)
    return false;
  range->first = limited((left - g->left) / g->cell, g->columns);
  range->last = limited((right - g->left) / g->cell, g->columns);
  range->row = limited((top - g->top) / g->cell, g->rows);
  range->last_row = limited((bottom - g->top) / g->cell, g->rows);
  return true;
}

int64_t correlate(const cell_grid *a, const cell_grid *b, double dx, double dy, double bin,
                  int32_t side, float *histogram) {
  const double reach = bin * side / 2;
  const int64_t count = a->begin[a->rows * a->columns];
  int64_t pairs = 0;
  for (int64_t i = 0; i < count; i++) {
    /* The corner of the histogram, as a position in b. */
    const double left = a->x[i] + dx - reach, top = a->y[i] + dy - reach;
    cell_range range;
    if (!cells_within(b, left, top, 2 * reach, &range)) continue;
    for (int64_t row = range.row; row <= range.last_row; row++) {
      const int64_t end = b->begin[row * b->columns + range.last + 1];
      for (int64_t k = b->begin[row * b->columns + range.first]; k < end; k++) {
        const double across = (b->x[k] - left) / bin, down = (b->y[k] - top) / bin;
        if (!(across >= 0 && down >= 0 && across < side && down < side)) continue;
        histogram[(int32_t)down * side + (int32_t)across]++;
        pairs++;
      }
    }
  }
  return pairs;
}

void correlate_third(const cell_grid *a, const cell_grid *b, const double *a_third,
                     const double *b_third, double reach, double bin, int32_t bins,
                     double *histogram) {
  const int64_t count = a->begin[a->rows * a->columns];
  for (int64_t i = 0; i < count; i++) {
    const double x = a->x[i], y = a->y[i], lowest = a_third[a->number[i]] - bin * bins / 2;
    cell_range range;
    if (!cells_within(b, x - reach, y - reach, 2 * reach, &range)) continue;
    for (int64_t row = range.row; row <= range.last_row; row++) {
      const int64_t end = b->begin[row * b->columns + range.last + 1];
      for (int64_t k = b->begin[row * b->columns + range.first]; k < end; k++) {
        if (!(fabs(b->x[k] - x) <= reach && fabs(b->y[k] - y) <= reach)) continue;
        const double place = (b_third[b->number[k]] - lowest) / bin;
        if (place >= 0 && place < bins) histogram[(int32_t)place]++;
      }
    }
  }
}

void correlation_peak(const float *histogram, int32_t side, int32_t *row, int32_t *column) {
  static const float weight[] = {1, 4, 6, 4, 1};
  float most = -1;
  *row = *column = side / 2;
  for (int32_t i = 0; i < side; i++) {
    for (int32_t j = 0; j < side; j++) {
      float sum = 0;
      for (int32_t k = 0; k < 25; k++) {
        const int32_t y = i + k / 5 - 2, x = j + k % 5 - 2;
        if (y >= 0 && y < side && x >= 0 && x < side)
          sum += weight[k / 5] * weight[k % 5] * histogram[y * side + x];
      }
      if (sum <= most) continue;
      most = sum;
      *row = i;
      *column = j;
    }
  }
}
