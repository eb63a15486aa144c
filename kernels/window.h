/* Windows along one dimension. Configured by
 *
 *   VALUE                 type of sums
 *   WINDOW_IS_MAX         1 for maxima, of which a NaN is the largest; 0 for averages
 *   WINDOW_START          what a fold begins with
 *   WINDOW_FOLD(a, b)
 *   WINDOW_DILATED        whether elements of a window lie apart in either dimension
 *   WINDOW_COUNT_PADDING  whether averages count what lies in the padding
 *   ELEMENT0(place)       the first input; ELEMENT1 the second, where there is one
 *
 * window_fold.h, window_places.h and window_gradient.h are bodies of a loop over results, or over
 * the data, with the row, the column and the offsets of planes as at_row, at_column, at_in0. */
#if WINDOW_DILATED
#define WINDOW_STEPS(reach, dilation) (((reach) + (dilation)-1) / (dilation))
#else
#define WINDOW_STEPS(reach, dilation) (reach)
#endif

/* Elements first … end − 1 of a window lie in the data; counted are those that averages count. */
typedef struct {
  INDEX first, end, counted;
} window_span;

DEVICE window_span window_cut(INDEX start, INDEX size, INDEX dilation, INDEX extent,
                              INDEX padding) {
  window_span span;
  const INDEX room = extent - start;
  const INDEX reached = room > 0 ? WINDOW_STEPS(room, dilation) : 0;
  const INDEX first = start < 0 ? WINDOW_STEPS(-start, dilation) : 0;
  span.end = reached < size ? reached : size;
  span.first = first < span.end ? first : span.end;
#if WINDOW_COUNT_PADDING
  const INDEX padded = room + padding, all = padded > 0 ? WINDOW_STEPS(padded, dilation) : 0;
  span.counted = all < size ? all : size;
#else
  span.counted = span.end - span.first;
#endif
  return span;
}
#define WINDOW_ROWS(top)                                                                           \
  window_cut(top, shape.size_h, shape.dilation_h, shape.data_rows, shape.padding_h)
#define WINDOW_COLUMNS(left)                                                                       \
  window_cut(left, shape.size_v, shape.dilation_v, shape.data_columns, shape.padding_v)

/* The windows first … end − 1 that may reach an element, which lies `place` behind the beginning of
 * the padding. */
typedef struct {
  INDEX first, end;
} window_range;

DEVICE window_range window_around(INDEX place, INDEX size, INDEX dilation, INDEX stride,
                                  INDEX count) {
  window_range range;
  const INDEX before = place - (size - 1) * dilation, last = place / stride + 1;
  range.first = before > 0 ? (before + stride - 1) / stride : 0;
  range.end = last < count ? last : count;
  return range;
}
