/* SPDX-License-Identifier: MIT */
/* Windows along one dimension. Configured by
 *
 *   VALUE                 type of sums
 *   WINDOW_IS_MAX         1 for maxima, of which a NaN is the largest; 0 for averages
 *   WINDOW_START          what a fold begins with
 *   WINDOW_FOLD(a, b)
 *   WINDOW_IS_NAN(a)      0 for integers
 *   WINDOW_DILATED        whether elements of a window lie apart in either dimension
 *   WINDOW_COUNT_PADDING  whether averages count what lies in the padding
 *   ELEMENT0(place)       the first input; ELEMENT1 the second, where there is one
 *
 * window_fold, window_places and window_gradient are bodies of a loop over results, or over
 * the data, with the row, the column and the offsets of planes as at_row, at_column, at_in0. */
//@ window
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
                              INDEX behind) {
  window_span span;
  const INDEX room = extent - start;
  const INDEX reached = room > 0 ? WINDOW_STEPS(room, dilation) : 0;
  const INDEX first = start < 0 ? WINDOW_STEPS(-start, dilation) : 0;
  span.end = reached < size ? reached : size;
  span.first = first < span.end ? first : span.end;
#if WINDOW_COUNT_PADDING
  const INDEX padded = room + behind, all = padded > 0 ? WINDOW_STEPS(padded, dilation) : 0;
  span.counted = all < size ? all : size;
#else
  span.counted = span.end - span.first;
#endif
  return span;
}
#define WINDOW_ROWS(top)                                                                           \
  window_cut(top, shape.size_h, shape.dilation_h, shape.data_rows, shape.behind_h)
#define WINDOW_COLUMNS(left)                                                                       \
  window_cut(left, shape.size_v, shape.dilation_v, shape.data_columns, shape.behind_v)

/* The windows first … end − 1 that may reach an element, which lies `place` after the beginning of
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

/* Folds the window of a result, row by row. Configured as window; leaves VALUE folded. */
//@ window_fold
const INDEX top = at_row * shape.stride_h - shape.padding_h;
const INDEX left = at_column * shape.stride_v - shape.padding_v;
const window_span rows = WINDOW_ROWS(top), columns = WINDOW_COLUMNS(left);
const INDEX width = columns.end - columns.first, apart = shape.dilation_v * shape.in0_v;
VALUE total = WINDOW_START;
for (INDEX r = rows.first; r < rows.end; r++) {
  const INDEX line = at_in0 + (top + r * shape.dilation_h) * shape.in0_h +
                     (left + columns.first * shape.dilation_v) * shape.in0_v;
  VALUE part = WINDOW_START;
  for (INDEX s = 0; s < width; s++) {
    const VALUE element = ELEMENT0(line + s * apart);
    part = WINDOW_FOLD(part, element);
  }
  total = WINDOW_FOLD(total, part);
}
#if WINDOW_IS_MAX
const VALUE folded = total;
#else
const INDEX counted = rows.counted * columns.counted;
const VALUE folded = counted > 0 ? total / (VALUE)counted : 0;
#endif

/* Gathers the gradient of an element of the data from the windows that it lies in. Configured as
 * window; WINDOW_PLACES: whether `places` says where maxima are. Leaves VALUE folded. */
//@ window_gradient
const INDEX down = at_row + shape.padding_h, along = at_column + shape.padding_v;
const window_range lines =
    window_around(down, shape.size_h, shape.dilation_h, shape.stride_h, shape.rows);
const window_range sides =
    window_around(along, shape.size_v, shape.dilation_v, shape.stride_v, shape.columns);
VALUE folded = 0;
#if WINDOW_IS_MAX && !WINDOW_PLACES
const VALUE own = ELEMENT0(at_in0 + at_row * shape.in0_h + at_column * shape.in0_v);
#endif
for (INDEX p = lines.first; p < lines.end; p++) {
#if WINDOW_DILATED
  if ((down - p * shape.stride_h) % shape.dilation_h != 0) continue;
#endif
#if !WINDOW_PLACES
  const INDEX top = p * shape.stride_h - shape.padding_h;
  const window_span rows = WINDOW_ROWS(top);
#endif
  for (INDEX q = sides.first; q < sides.end; q++) {
#if WINDOW_DILATED
    if ((along - q * shape.stride_v) % shape.dilation_v != 0) continue;
#endif
#if WINDOW_PLACES
    if (places[(at_plane * shape.rows + p) * shape.columns + q] ==
        at_row * shape.data_columns + at_column)
      folded += ELEMENT1(at_in1 + p * shape.in1_h + q * shape.in1_v);
#else
    const INDEX left = q * shape.stride_v - shape.padding_v;
    const window_span columns = WINDOW_COLUMNS(left);
#if WINDOW_IS_MAX
    boolean wins = 1;
    for (INDEX r = rows.first; r < rows.end && wins; r++) {
      const INDEX row = top + r * shape.dilation_h;
      for (INDEX s = columns.first; s < columns.end; s++) {
        const INDEX column = left + s * shape.dilation_v;
        const VALUE other = ELEMENT0(at_in0 + row * shape.in0_h + column * shape.in0_v);
        const boolean before = (row < at_row) | ((row == at_row) & (column < at_column));
        const boolean more = (other > own) | ((other != other) & (own == own));
        const boolean alike = (other == own) | ((other != other) & (own != own));
        if (more | (before & alike)) wins = 0;
      }
    }
    if (wins) folded += ELEMENT1(at_in1 + p * shape.in1_h + q * shape.in1_v);
#else
    const INDEX counted = rows.counted * columns.counted;
    folded += ELEMENT0(at_in0 + p * shape.in0_h + q * shape.in0_v) / (VALUE)counted;
#endif
#endif
  }
}

/* Where in its plane the first largest element of a window lies, −1 for a window without elements.
 * Configured as window; leaves INDEX found. */
//@ window_places
const INDEX top = at_row * shape.stride_h - shape.padding_h;
const INDEX left = at_column * shape.stride_v - shape.padding_v;
const window_span rows = WINDOW_ROWS(top), columns = WINDOW_COLUMNS(left);
VALUE largest = WINDOW_START;
INDEX found = -1;
for (INDEX r = rows.first; r < rows.end; r++) {
  const INDEX row = top + r * shape.dilation_h;
  for (INDEX s = columns.first; s < columns.end; s++) {
    const INDEX column = left + s * shape.dilation_v;
    const VALUE element = ELEMENT0(at_in0 + row * shape.in0_h + column * shape.in0_v);
    const boolean more =
        (element > largest) | (WINDOW_IS_NAN(element) & !WINDOW_IS_NAN(largest));
    if (more | (found < 0)) {
      largest = element;
      found = row * shape.data_columns + column;
    }
  }
}
