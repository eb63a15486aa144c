/* SPDX-License-Identifier: MIT */
/* Depthwise convolution with channels last; core/isa.h says how this file is compiled,
 * depthwise_table.h what the loop does.
 *
 * A vector holds channels of one pixel. The sums of some neighbouring pixels stay in registers
 * while the taps run, so that each weight is loaded once for them. */
#include "depthwise_table.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#define VECTOR_BYTES          64
#define MULTIPLY_ADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define VECTOR_BYTES          32
#define MULTIPLY_ADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#else
#define VECTOR_BYTES          16
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

#define LANES  (VECTOR_BYTES / 4)
#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

typedef float vector __attribute__((vector_size(VECTOR_BYTES)));
typedef float vector_at __attribute__((vector_size(VECTOR_BYTES), aligned(4)));

enum { MOST_PIXELS = 8 };

/* `pixels` results from number q on, a constant, for the channels from c on: taps first … end − 1
 * of each filter row. */
INLINE void tile(const int pixels, const cpu_depthwise_line *l, int64_t q, int64_t c, int64_t first,
                 int64_t end) {
  vector sum[MOST_PIXELS];
  const int64_t step = l->stride * l->pixel;
  UNROLL
  for (int i = 0; i < pixels; i++) sum[i] = (vector){0};
  for (int64_t r = 0; r < l->filter_rows; r++) {
    if (!l->rows[r]) continue;
    const float *weights = l->weights + (r * l->filter_columns + first) * l->weights_tap + c;
    const float *from =
        l->rows[r] + (q * l->stride + first * l->dilation - l->padding) * l->pixel + c;
    for (int64_t s = first; s < end; s++) {
      const vector weight = *(const vector_at *)weights;
      UNROLL
      for (int i = 0; i < pixels; i++)
        sum[i] = MULTIPLY_ADD(weight, *(const vector_at *)(from + i * step), sum[i]);
      weights += l->weights_tap;
      from += l->dilation * l->pixel;
    }
  }
  UNROLL
  for (int i = 0; i < pixels; i++) *(vector_at *)(l->sums + (q + i) * l->sums_pixel + c) = sum[i];
}

/* A result at an edge of the row: the taps that lie in it. */
static void edge(const cpu_depthwise_line *l, int64_t q, int64_t c) {
  const int64_t at = q * l->stride - l->padding;
  const int64_t first = at < 0 ? (-at + l->dilation - 1) / l->dilation : 0;
  const int64_t left = l->width - 1 - at;
  int64_t end = left < 0 ? 0 : left / l->dilation + 1;
  if (end > l->filter_columns) end = l->filter_columns;
  tile(1, l, q, c, first, end < first ? first : end);
}

/* Results low … high − 1 have all taps in the row. */
static void run_channels(const cpu_depthwise_line *l, int64_t low, int64_t high, int64_t c) {
  const int64_t taps = l->filter_columns;
  int64_t q = 0;
  for (; q < low; q++) edge(l, q, c);
  for (; q + 8 <= high; q += 8) tile(8, l, q, c, 0, taps);
  if (q + 4 <= high) {
    tile(4, l, q, c, 0, taps);
    q += 4;
  }
  if (q + 2 <= high) {
    tile(2, l, q, c, 0, taps);
    q += 2;
  }
  if (q < high) tile(1, l, q++, c, 0, taps);
  for (; q < l->count; q++) edge(l, q, c);
}

static void run(const cpu_depthwise_line *l) {
  const int64_t reach = (l->filter_columns - 1) * l->dilation;
  int64_t low = (l->padding + l->stride - 1) / l->stride;
  const int64_t last = l->width - 1 - reach + l->padding;
  int64_t high = last < 0 ? 0 : last / l->stride + 1;
  if (high > l->count) high = l->count;
  if (low > l->count) low = l->count;
  if (high < low) high = low;
  int64_t c = 0;
  for (; c + LANES <= l->channels; c += LANES) run_channels(l, low, high, c);
  if (c < l->channels) run_channels(l, low, high, l->channels - LANES); /* some of them again */
}

const cpu_depthwise_table CPU_SYMBOL(cpu_depthwise) = {.lanes = LANES, .run = run};
