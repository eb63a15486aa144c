/* SPDX-License-Identifier: MIT */
/* The loop of depthwise convolution for one type of data. Who includes this defines DATA, its type;
 * SUM, that of weights and sums; SUMS and SUMS_AT, vectors of these; LOAD(from), data as such a
 * vector; MULTIPLY_ADD(weight, data, sum); and NAME(x), its own name for x. */

/* `pixels` results from number q on, a constant, for the channels from c on: taps first … end − 1
 * of each filter row. */
INLINE void NAME(tile)(const int pixels, const cpu_depthwise_line *l, int64_t q, int64_t c,
                       int64_t first, int64_t end) {
  SUMS sum[MOST_PIXELS];
  const int64_t step = l->stride * l->pixel;
  UNROLL
  for (int i = 0; i < pixels; i++) sum[i] = (SUMS){0};
  for (int64_t r = 0; r < l->filter_rows; r++) {
    if (!l->rows[r]) continue;
    const SUM *weights =
        (const SUM *)l->weights + (r * l->filter_columns + first) * l->weights_tap + c;
    const DATA *from = (const DATA *)l->rows[r] +
                       (q * l->stride + first * l->dilation - l->padding) * l->pixel + c;
    for (int64_t s = first; s < end; s++) {
      const SUMS weight = *(const SUMS_AT *)weights;
      UNROLL
      for (int i = 0; i < pixels; i++) sum[i] = MULTIPLY_ADD(weight, LOAD(from + i * step), sum[i]);
      weights += l->weights_tap;
      from += l->dilation * l->pixel;
    }
  }
  UNROLL
  for (int i = 0; i < pixels; i++)
    *(SUMS_AT *)((SUM *)l->sums + (q + i) * l->sums_pixel + c) = sum[i];
}

/* A result at an edge of the row: the taps that lie in it. */
static void NAME(edge)(const cpu_depthwise_line *l, int64_t q, int64_t c) {
  const int64_t at = q * l->stride - l->padding;
  const int64_t first = at < 0 ? (-at + l->dilation - 1) / l->dilation : 0;
  const int64_t left = l->width - 1 - at;
  int64_t end = left < 0 ? 0 : left / l->dilation + 1;
  if (end > l->filter_columns) end = l->filter_columns;
  NAME(tile)(1, l, q, c, first, end < first ? first : end);
}

/* Results low … high − 1 have all taps in the row. */
static void NAME(run_channels)(const cpu_depthwise_line *l, int64_t low, int64_t high, int64_t c) {
  const int64_t taps = l->filter_columns;
  int64_t q = 0;
  for (; q < low; q++) NAME(edge)(l, q, c);
  for (; q + 8 <= high; q += 8) NAME(tile)(8, l, q, c, 0, taps);
  if (q + 4 <= high) {
    NAME(tile)(4, l, q, c, 0, taps);
    q += 4;
  }
  if (q + 2 <= high) {
    NAME(tile)(2, l, q, c, 0, taps);
    q += 2;
  }
  if (q < high) NAME(tile)(1, l, q++, c, 0, taps);
  for (; q < l->count; q++) NAME(edge)(l, q, c);
}

static void NAME(run)(const cpu_depthwise_line *l) {
  const int64_t reach = (l->filter_columns - 1) * l->dilation;
  int64_t low = (l->padding + l->stride - 1) / l->stride;
  const int64_t last = l->width - 1 - reach + l->padding;
  int64_t high = last < 0 ? 0 : last / l->stride + 1;
  if (high > l->count) high = l->count;
  if (low > l->count) low = l->count;
  if (high < low) high = low;
  int64_t c = 0;
  for (; c + LANES <= l->channels; c += LANES) NAME(run_channels)(l, low, high, c);
  if (c < l->channels)
    NAME(run_channels)(l, low, high, l->channels - LANES); /* some of them again */
}

#undef DATA
#undef SUM
#undef SUMS
#undef SUMS_AT
#undef LOAD
#undef MULTIPLY_ADD
#undef NAME
