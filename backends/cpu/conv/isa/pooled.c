/* SPDX-License-Identifier: MIT */
/* Max pooling of square blocks (loops: pooled_table.h; compilation: core/isa.h). Elements are
 * compared in the order of a separate pooling kernel, rows of a block first. So zeros of either
 * sign give the same result.
 *
 * For short windows, above all with one channel, the micro-kernel of products has more work around
 * its loop than in it; only one result in four is kept. So here the sums of some blocks stay in
 * registers, and only the maxima are finished and stored. */
#include <stdbool.h>
#include <string.h>

#include "floats.h"
#include "pooled_table.h"
#include "program/isa/limits.h"

#if defined(__AVX512F__)
#define NAN_OR(a, x) ((floats)_mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a))
#elif defined(__AVX2__) && defined(__FMA__)
#define NAN_OR(a, x) ((floats)_mm256_blendv_ps(x, a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q)))
#else
#define NAN_OR(a, x) ((floats)CPU_CHOOSE((a) != (a), a, x))
#endif

enum {
  VECTORS = 2,                         /* of a panel */
  BLOCKS = VECTOR_BYTES == 64 ? 3 : 1, /* with sums in registers: 24 vectors of 32, or 8 of 16 */
  TOGETHER = 3,                        /* windows per pointer, within the reach of an address */
  GROUPS = (2 * BLOCKS + TOGETHER - 1) / TOGETHER
};

/* ---- Results in memory ----------------------------------------------------------------------- */

/* The larger number; b if both are equal, NaN if either is. */
INLINE float larger(float a, float b) {
  const float larger = a > b ? a : b;
  return a != a ? a : larger;
}

/* Pools one block. `pool` is a constant in specialized loops. */
INLINE void pool_block(const int64_t pool, const float *x, int64_t x_pixel, int64_t x_row,
                       int64_t channels, float *restrict y) {
  for (int64_t c = 0; c < channels; c++) {
    float largest = 0;
    for (int64_t j = 0; j < pool; j++) {
      float column = x[j * x_pixel + c];
      for (int64_t i = 1; i < pool; i++) column = larger(column, x[i * x_row + j * x_pixel + c]);
      largest = j == 0 ? column : larger(largest, column);
    }
    y[c] = largest;
  }
}

INLINE void pool_panel(const int64_t pool, const cpu_pooled_panel *p) {
  const int64_t x_row = pool * p->columns * p->x_pixel;
  for (int64_t row = 0; row < p->rows; row++)
    for (int64_t q = 0; q < p->columns; q++)
      pool_block(pool, p->x + row * pool * x_row + q * pool * p->x_pixel, p->x_pixel, x_row,
                 p->channels, p->y + row * p->y_row + q * p->y_pixel);
}

static void run(const cpu_pooled_panel *p) {
  if (p->pool == 2)
    pool_panel(2, p);
  else
    pool_panel(p->pool, p);
}

/* ---- Sums in registers ----------------------------------------------------------------------- */

INLINE floats larger_of(floats a, floats b) {
  return NAN_OR(a, (floats)CPU_AT_LEAST(a, b));
}

/* Finds the maximum before applying the limits: these preserve order. */
INLINE void store_block(const cpu_pooled_windows *w, floats sum[2][2], int v, float *y) {
  const floats none = {0}, low = w->low - none, zero = w->zero - none, high = w->high - none;
  if (w->bias) {
    const floats bias = *(const floats_at *)(w->bias + v * LANES);
    UNROLL
    for (int i = 0; i < 4; i++) sum[i / 2][i % 2] += bias;
  }
  floats x = larger_of(larger_of(sum[0][0], sum[1][0]), larger_of(sum[0][1], sum[1][1]));
  x = (floats)CPU_AT_LEAST(low, x) + zero;
  *(floats_at *)(y + v * LANES) = (floats)CPU_AT_MOST(high, x);
}

/* Adds a run of the windows to the sums of `rows` rows of them, from row `top` on. */
INLINE void add_run(const int blocks, const int top, const int rows, const cpu_pooled_windows *w,
                    const float *x, const float *filter, floats sum[BLOCKS][VECTORS][2][2]) {
  const int64_t pixel = w->x_pixel;
  const float *from[2][GROUPS];
  UNROLL
  for (int g = 0; g * TOGETHER < 2 * blocks; g++) {
    from[0][g] = x + g * TOGETHER * pixel;
    from[1][g] = from[0][g] + w->x_row;
    __asm__("" : "+r"(from[0][g]), "+r"(from[1][g]));
  }
  for (int64_t k = w->run; k > 0; k--, filter += VECTORS * LANES) {
    floats right[VECTORS];
    UNROLL
    for (int v = 0; v < VECTORS; v++) {
      right[v] = *(const floats_at *)(filter + v * LANES);
      PIN(right[v]);
    }
    UNROLL
    for (int i = 0; i < 2 * rows * blocks; i++) {
      const int row = top + i / (2 * blocks), column = i % (2 * blocks);
      floats left = from[row][column / TOGETHER][column % TOGETHER * pixel] - (floats){0};
      PIN(left); /* one load for all vectors */
      UNROLL
      for (int v = 0; v < VECTORS; v++) {
        floats *to = &sum[column / 2][v][row][column % 2];
        *to = MULTIPLY_ADD_FLOATS(left, right[v], *to);
      }
    }
    UNROLL
    for (int g = 0; g * TOGETHER < 2 * blocks; g++) {
      from[0][g]++;
      from[1][g]++;
    }
  }
}

/* Computes `blocks` adjacent blocks; `blocks` is a constant. `inside`: both rows use all runs. */
INLINE void make_blocks(const int blocks, const bool inside, const cpu_pooled_windows *w,
                        const float *x, float *y) {
  const float *filter = w->filter;
  floats sum[BLOCKS][VECTORS][2][2];
  UNROLL
  for (int i = 0; i < blocks * VECTORS * 4; i++)
    sum[i / (4 * VECTORS)][i / 4 % VECTORS][i / 2 % 2][i % 2] = (floats){0};
  for (int64_t r = 0; r < w->runs; r++, x += w->x_run, filter += w->run * VECTORS * LANES) {
    const bool upper = inside || (r >= w->first[0] && r < w->past[0]);
    const bool lower = inside || (r >= w->first[1] && r < w->past[1]);
    if (upper && lower)
      add_run(blocks, 0, 2, w, x, filter, sum);
    else if (upper)
      add_run(blocks, 0, 1, w, x, filter, sum);
    else if (lower)
      add_run(blocks, 1, 1, w, x, filter, sum);
  }
  __asm__("" : "+r"(w)); /* keeps the limits out of the loop's registers */
  UNROLL
  for (int i = 0; i < blocks * VECTORS; i++)
    store_block(w, sum[i / VECTORS][i % VECTORS], i % VECTORS, y + i / VECTORS * w->y_pixel);
}

INLINE void make_row(const bool inside, const cpu_pooled_windows *w, const float *x, float *y) {
  int64_t q = 0;
  for (; q + BLOCKS <= w->columns; q += BLOCKS)
    make_blocks(BLOCKS, inside, w, x + 2 * q * w->x_pixel, y + q * w->y_pixel);
  if (BLOCKS > 2 && q + 2 == w->columns)
    make_blocks(BLOCKS > 2 ? 2 : 1, inside, w, x + 2 * q * w->x_pixel, y + q * w->y_pixel);
  else if (q < w->columns)
    make_blocks(1, inside, w, x + 2 * q * w->x_pixel, y + q * w->y_pixel);
}

static void convolve(const cpu_pooled_windows *windows) {
  const cpu_pooled_windows own = *windows, *const w = &own; /* a copy that no store can alias */
  const int64_t first = w->first[0] > w->first[1] ? w->first[0] : w->first[1];
  const int64_t past = w->past[0] < w->past[1] ? w->past[0] : w->past[1];
  for (int64_t row = 0; row < w->rows; row++) {
    const float *x = w->x + 2 * row * w->x_row;
    float *y = w->y + row * w->y_row;
    if (first == 0 && past == w->runs)
      make_row(true, w, x, y);
    else
      make_row(false, w, x, y);
  }
}

static bool is_finite(const float *x, int64_t count) {
  static const uint32_t exponent = 0x7f800000;
  uint32_t found = 0;
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, x + i, sizeof bits);
    found |= (bits & exponent) == exponent;
  }
  return !found;
}

const cpu_pooled_table CPU_SYMBOL(cpu_pooled) = {
    .run = run, .convolve = convolve, .is_finite = is_finite};
