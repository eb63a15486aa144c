/* SPDX-License-Identifier: MIT */
/* The loop of depthwise convolution for one dtype of data. The including file defines:
 *
 *   DATA                           the data's type
 *   SUM                            the type of weights and sums
 *   SUMS, SUMS_AT                  vectors of SUM
 *   LOAD(from)                     loads data as such a vector
 *   MULTIPLY_ADD(weight, data, sum)
 *   RESULT                         the type of finished sums
 *   FINISH(finish, c, sums, to)    finishes the sums of the channels from c on
 *   NAME(x)                        this loop's name for x
 *   PAIRS                          if there is window_pairs */

typedef void NAME(inner_loop)(const cpu_depthwise_line *l, int64_t q, int64_t pixels);

/* Stores the sums of result q's channels from c on, finished or unchanged. */
INLINE void NAME(put)(const cpu_depthwise_line *l, const cpu_depthwise_finish *finish, int64_t q,
                      int64_t c, SUMS sum) {
  const int64_t at = q * l->sums_pixel + c;
  if (l->finish)
    FINISH(finish, c, sum, (RESULT *)l->sums + at);
  else
    *(SUMS_AT *)((SUM *)l->sums + at) = sum;
}

/* Computes `pixels` results from q on, for `vectors` vectors of the channels from c on. Each filter
 * row contributes taps first … end − 1. `pixels` and `vectors` are constants. */
INLINE void NAME(tile)(const int pixels, const int vectors, const cpu_depthwise_line *l, int64_t q,
                       int64_t c, int64_t first, int64_t end) {
  SUMS sum[MOST_PIXELS][EDGE_VECTORS];
  const int64_t step = l->stride * l->pixel;
  UNROLL
  for (int i = 0; i < pixels; i++) {
    UNROLL
    for (int v = 0; v < vectors; v++) sum[i][v] = (SUMS){0};
  }
  for (int64_t r = 0; r < l->filter_rows; r++) {
    if (!l->rows[r]) continue;
    const SUM *weights =
        (const SUM *)l->weights + (r * l->filter_columns + first) * l->weights_tap + c;
    const DATA *from = (const DATA *)l->rows[r] +
                       (q * l->stride + first * l->dilation - l->padding) * l->pixel + c;
    for (int64_t s = first; s < end; s++) {
      UNROLL
      for (int v = 0; v < vectors; v++) {
        const SUMS weight = *(const SUMS_AT *)(weights + v * LANES);
        UNROLL
        for (int i = 0; i < pixels; i++)
          sum[i][v] = MULTIPLY_ADD(weight, LOAD(from + i * step + v * LANES), sum[i][v]);
      }
      weights += l->weights_tap;
      from += l->dilation * l->pixel;
    }
  }
  UNROLL
  for (int i = 0; i < pixels; i++) {
    UNROLL
    for (int v = 0; v < vectors; v++) NAME(put)(l, l->finish, q + i, c + v * LANES, sum[i][v]);
  }
}

/* The same for all channels, several vectors at a time. */
INLINE void NAME(channels)(const int pixels, const int vectors, const cpu_depthwise_line *l,
                           int64_t q, int64_t first, int64_t end) {
  int64_t c = 0;
  for (; c + vectors * LANES <= l->channels; c += vectors * LANES)
    NAME(tile)(pixels, vectors, l, q, c, first, end);
  for (; c < l->channels; c += LANES) { /* the last vector may repeat channels */
    const int64_t last = l->channels - LANES;
    NAME(tile)(pixels, 1, l, q, c < last ? c : last, first, end);
  }
}

/* Computes a result at an edge of the row: only taps inside the row. */
static void NAME(edge)(const cpu_depthwise_line *l, int64_t q) {
  const int64_t at = q * l->stride - l->padding;
  const int64_t first = at < 0 ? (-at + l->dilation - 1) / l->dilation : 0;
  const int64_t left = l->width - 1 - at;
  int64_t end = left < 0 ? 0 : left / l->dilation + 1;
  if (end > l->filter_columns) end = l->filter_columns;
  NAME(channels)(1, EDGE_VECTORS, l, q, first, end < first ? first : end);
}

static void NAME(inner)(const cpu_depthwise_line *l, int64_t q, int64_t pixels) {
  const int64_t taps = l->filter_columns;
  switch (pixels) {
  case 1: NAME(channels)(1, TILE_VECTORS, l, q, 0, taps); break;
  case 2: NAME(channels)(2, TILE_VECTORS, l, q, 0, taps); break;
  case 3: NAME(channels)(3, TILE_VECTORS, l, q, 0, taps); break;
  case 4: NAME(channels)(4, TILE_VECTORS, l, q, 0, taps); break;
  case 5: NAME(channels)(5, TILE_VECTORS, l, q, 0, taps); break;
  case 6: NAME(channels)(6, TILE_VECTORS, l, q, 0, taps); break;
  default: NAME(channels)(7, 1, l, q, 0, taps); break;
  }
}

/* Computes `pixels` results from q on, for one vector of the channels from c on. Windows are inside
 * the row; they have `taps` adjacent columns and are `stride` apart. The first three parameters are
 * constants: each vector of data is loaded once for all its taps, and each weight once for all
 * pixels. */
INLINE void NAME(window)(const int pixels, const int taps, const int stride,
                         const cpu_depthwise_line *l, const cpu_depthwise_finish *finish, int64_t q,
                         int64_t c) {
  const SUM *weights = (const SUM *)l->weights + c;
  const int64_t at = (q * stride - l->padding) * l->pixel + c;
  SUMS sum[MOST_PIXELS];
  UNROLL
  for (int i = 0; i < pixels; i++) sum[i] = (SUMS){0};
  for (int64_t r = 0; r < l->filter_rows; r++, weights += taps * l->weights_tap) {
    if (!l->rows[r]) continue;
    const DATA *from = (const DATA *)l->rows[r] + at;
    SUMS weight[MOST_TAPS];
    UNROLL
    for (int s = 0; s < taps; s++) weight[s] = *(const SUMS_AT *)(weights + s * l->weights_tap);
    UNROLL
    for (int j = 0; j < (pixels - 1) * stride + taps; j++, from += l->pixel) {
      const SUMS x = LOAD(from);
      UNROLL
      for (int s = 0; s < taps; s++)
        if (j >= s && (j - s) % stride == 0 && (j - s) / stride < pixels)
          sum[(j - s) / stride] = MULTIPLY_ADD(weight[s], x, sum[(j - s) / stride]);
    }
  }
  UNROLL
  for (int i = 0; i < pixels; i++) NAME(put)(l, finish, q + i, c, sum[i]);
}

/* The same for all channels. */
INLINE void NAME(windows)(const int pixels, const int taps, const int stride,
                          const cpu_depthwise_line *l, int64_t q) {
  const cpu_depthwise_finish finish = l->finish ? *l->finish : (cpu_depthwise_finish){0};
  const int64_t last = l->channels - LANES;
  int64_t c = 0;
#ifdef PAIRS
  for (; l->finish && c + 2 * LANES <= l->channels; c += 2 * LANES)
    window_pairs(pixels, taps, stride, l, &finish, q, c);
#endif
  for (; c < l->channels; c += LANES) /* the last vector may repeat channels */
    NAME(window)(pixels, taps, stride, l, &finish, q, c < last ? c : last);
}

INLINE void NAME(inner_windows)(const int taps, const int stride, const cpu_depthwise_line *l,
                                int64_t q, int64_t pixels) {
  switch (pixels) {
  case 1: NAME(windows)(1, taps, stride, l, q); break;
  case 2: NAME(windows)(2, taps, stride, l, q); break;
  case 3: NAME(windows)(3, taps, stride, l, q); break;
  case 4: NAME(windows)(4, taps, stride, l, q); break;
  case 5: NAME(windows)(5, taps, stride, l, q); break;
  case 6: NAME(windows)(6, taps, stride, l, q); break;
  default: NAME(windows)(7, taps, stride, l, q); break;
  }
}

static void NAME(inner3)(const cpu_depthwise_line *l, int64_t q, int64_t pixels) {
  NAME(inner_windows)(3, 1, l, q, pixels);
}

static void NAME(inner3s2)(const cpu_depthwise_line *l, int64_t q, int64_t pixels) {
  NAME(inner_windows)(3, 2, l, q, pixels);
}

static void NAME(inner5)(const cpu_depthwise_line *l, int64_t q, int64_t pixels) {
  NAME(inner_windows)(5, 1, l, q, pixels);
}

static void NAME(inner5s2)(const cpu_depthwise_line *l, int64_t q, int64_t pixels) {
  NAME(inner_windows)(5, 2, l, q, pixels);
}

/* Picks the loop for this window shape. */
static NAME(inner_loop) * NAME(find_inner)(const cpu_depthwise_line *l) {
  if (l->dilation != 1 || l->stride > 2) return NAME(inner);
  if (l->filter_columns == 3) return l->stride == 1 ? NAME(inner3) : NAME(inner3s2);
  if (l->filter_columns == 5) return l->stride == 1 ? NAME(inner5) : NAME(inner5s2);
  return NAME(inner);
}

/* Results low … high − 1 have all taps in the row: they form tiles of nearly equal width. */
static void NAME(run)(const cpu_depthwise_line *l) {
  const int64_t reach = (l->filter_columns - 1) * l->dilation;
  int64_t low = (l->padding + l->stride - 1) / l->stride;
  const int64_t last = l->width - 1 - reach + l->padding;
  int64_t high = last < 0 ? 0 : last / l->stride + 1;
  if (high > l->count) high = l->count;
  if (low > l->count) low = l->count;
  if (high < low) high = low;
  const int64_t tiles = (high - low + MOST_PIXELS - 1) / MOST_PIXELS;
  NAME(inner_loop) *const inner = NAME(find_inner)(l);
  int64_t q = 0;
  for (; q < low; q++) NAME(edge)(l, q);
  finish_after(l, 0, low);
  for (int64_t t = 0; t < tiles; t++) {
    const int64_t pixels = (high - low) / tiles + (t < (high - low) % tiles);
    inner(l, q, pixels);
    finish_after(l, q, pixels);
    q += pixels;
  }
  for (; q < l->count; q++) NAME(edge)(l, q);
  finish_after(l, high, l->count - high);
}

#undef DATA
#undef SUM
#undef SUMS
#undef SUMS_AT
#undef LOAD
#undef MULTIPLY_ADD
#undef RESULT
#undef FINISH
#undef PAIRS
#undef NAME
