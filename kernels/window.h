/* SPDX-License-Identifier: MIT */
/* Pooling windows. Configured by
 *
 *   VALUE                 type of sums
 *   WINDOW_IS_MAX         1 for maxima, with NaN as the largest; 0 for averages
 *   WINDOW_START          the initial value of a fold
 *   WINDOW_FOLD(a, b)
 *   WINDOW_IS_NAN(a)      0 for integers
 *   WINDOW_DILATED        1: a window's elements are not adjacent in some dimension
 *   WINDOW_COUNT_PADDING  1: averages count the padding
 *   ELEMENT0(place)       the first input; ELEMENT1 the second, if there is one
 *
 * window_fold, window_places and window_gradient are bodies of a loop over results, or over the
 * data. The loop sets the row, the column and the offsets of planes: at_row, at_column, at_in0. */
//@ window
#if WINDOW_DILATED
#define WINDOW_STEPS(reach, dilation) (((reach) + (dilation)-1) / (dilation))
#else
#define WINDOW_STEPS(reach, dilation) (reach)
#endif

/* A window's elements first … end − 1 are in the data; averages divide by `counted`. */
typedef struct {
  INDEX first, end, counted;
} window_span;

DEVICE window_span window_cut(INDEX start, INDEX size, INDEX dilation, INDEX extent, INDEX behind) {
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

/* The windows first … end − 1 that may contain an element; `place` counts from the start of the
 * padding. */
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

/* Gathers the gradient of an element of the data from its windows. Configured as window, and by
 * WINDOW_PLACES: 1 if `places` has the positions of maxima. Leaves VALUE folded. */
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

/* Finds the position in its plane of a window's first largest element, or −1 for a window without
 * elements. Configured as window; leaves INDEX found. */
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
    const boolean more = (element > largest) | (WINDOW_IS_NAN(element) & !WINDOW_IS_NAN(largest));
    if (more | (found < 0)) {
      largest = element;
      found = row * shape.data_columns + column;
    }
  }
}

/* Computes an item's results in blocks of neighbours. WINDOW_SIZE_H x WINDOW_SIZE_V elements,
 * WINDOW_STRIDE_H and WINDOW_STRIDE_V apart, are constants here. So all loops unroll, and all of an
 * item's loads are pending at once. Configured as window, and by
 *
 *   BLOCK_RESULTS    windows of an item, side by side
 *   WINDOW_NATURAL   the unsigned INDEX
 *   WINDOW_WHOLE     1: every window of every item is inside the data
 *   WINDOW_COUNTED   the divisor of averages if it is the same for all windows, else 0
 *
 * cell_row, cell_column and the offsets of planes are for the block's first result. Leaves VALUE
 * folded[1][BLOCK_RESULTS]. */
//@ window_block_inside
#define WINDOW_INSIDE(at, size) ((WINDOW_NATURAL)(at) < (WINDOW_NATURAL)(size))

//@ window_block
#define BLOCK_REACH ((BLOCK_RESULTS - 1) * WINDOW_STRIDE_V + WINDOW_SIZE_V)
VALUE folded[1][BLOCK_RESULTS];
{
  const INDEX top = cell_row * WINDOW_STRIDE_H - shape.padding_h;
  const INDEX left = cell_column * WINDOW_STRIDE_V - shape.padding_v;
  VALUE line[WINDOW_SIZE_H][BLOCK_REACH];
  UNROLL for (int r = 0; r < WINDOW_SIZE_H; r++) {
    const INDEX row = top + r;
    const boolean inside = WINDOW_WHOLE || WINDOW_INSIDE(row, shape.data_rows);
    UNROLL for (int s = 0; s < BLOCK_REACH; s++) {
      const INDEX column = left + s;
      line[r][s] = WINDOW_START;
      if (WINDOW_WHOLE || (inside & WINDOW_INSIDE(column, shape.data_columns)))
        line[r][s] = ELEMENT0(cell_in0 + row * shape.in0_h + column * shape.in0_v);
    }
  }
  UNROLL for (int result = 0; result < BLOCK_RESULTS; result++) {
    VALUE total = WINDOW_START;
    UNROLL for (int r = 0; r < WINDOW_SIZE_H; r++) {
      VALUE part = WINDOW_START;
      UNROLL for (int s = 0; s < WINDOW_SIZE_V; s++) {
        const VALUE element = line[r][result * WINDOW_STRIDE_V + s];
        part = WINDOW_FOLD(part, element);
      }
      total = WINDOW_FOLD(total, part);
    }
#if WINDOW_IS_MAX
    folded[0][result] = total;
#elif WINDOW_COUNTED
    folded[0][result] = total / (VALUE)WINDOW_COUNTED;
#else
    const window_span rows = WINDOW_ROWS(top);
    const window_span columns = WINDOW_COLUMNS(left + result * WINDOW_STRIDE_V);
    const INDEX counted = rows.counted * columns.counted;
    folded[0][result] = counted > 0 ? total / (VALUE)counted : 0;
#endif
  }
}

/* The gradient of the WINDOW_STRIDE_H rows and WINDOW_STRIDE_V columns by which each of
 * BLOCK_RESULTS windows advances. Each window that contains one of these elements is visited once.
 * Configured as window_block; WINDOW_WHOLE also guarantees a window for every such block. cell_row
 * and cell_column count from the start of the padding. Leaves VALUE
 * folded[WINDOW_STRIDE_H][WINDOW_STRIDE_V * BLOCK_RESULTS]. */
//@ window_block_gradient
#define BLOCK_DOWN   ((WINDOW_SIZE_H - 1) / WINDOW_STRIDE_H)
#define BLOCK_ALONG  ((WINDOW_SIZE_V - 1) / WINDOW_STRIDE_V)
#define BLOCK_HEIGHT (BLOCK_DOWN * WINDOW_STRIDE_H + WINDOW_SIZE_H)
#define BLOCK_WIDTH  ((BLOCK_ALONG + BLOCK_RESULTS - 1) * WINDOW_STRIDE_V + WINDOW_SIZE_V)
#define BLOCK_ROW    (BLOCK_DOWN * WINDOW_STRIDE_H)
#define BLOCK_COLUMN (BLOCK_ALONG * WINDOW_STRIDE_V)
VALUE folded[WINDOW_STRIDE_H][WINDOW_STRIDE_V * BLOCK_RESULTS];
{
  const INDEX first_p = cell_row / WINDOW_STRIDE_H - BLOCK_DOWN;
  const INDEX first_q = cell_column / WINDOW_STRIDE_V - BLOCK_ALONG;
  VALUE received[BLOCK_DOWN + 1][BLOCK_ALONG + BLOCK_RESULTS];
  UNROLL for (int i = 0; i <= BLOCK_DOWN; i++) {
    const INDEX p = first_p + i;
    const boolean exists = WINDOW_WHOLE || WINDOW_INSIDE(p, shape.rows);
    UNROLL for (int j = 0; j < BLOCK_ALONG + BLOCK_RESULTS; j++) {
      const INDEX q = first_q + j;
      received[i][j] = 0;
      if (WINDOW_WHOLE || (exists & WINDOW_INSIDE(q, shape.columns))) {
#if WINDOW_IS_MAX
        received[i][j] = ELEMENT1(cell_in1 + p * shape.in1_h + q * shape.in1_v);
#elif WINDOW_COUNTED
        received[i][j] =
            ELEMENT0(cell_in0 + p * shape.in0_h + q * shape.in0_v) / (VALUE)WINDOW_COUNTED;
#else
        const window_span rows = WINDOW_ROWS(p * WINDOW_STRIDE_H - shape.padding_h);
        const window_span columns = WINDOW_COLUMNS(q * WINDOW_STRIDE_V - shape.padding_v);
        const INDEX counted = rows.counted * columns.counted;
        if (counted > 0)
          received[i][j] = ELEMENT0(cell_in0 + p * shape.in0_h + q * shape.in0_v) / (VALUE)counted;
#endif
      }
    }
  }
#if WINDOW_IS_MAX
  const INDEX top = cell_row - shape.padding_h - BLOCK_ROW;
  const INDEX left = cell_column - shape.padding_v - BLOCK_COLUMN;
  VALUE data[BLOCK_HEIGHT][BLOCK_WIDTH];
  boolean in_row[BLOCK_HEIGHT], in_column[BLOCK_WIDTH];
  UNROLL for (int s = 0; s < BLOCK_WIDTH; s++) in_column[s] =
      WINDOW_WHOLE || ((left + s >= 0) & (left + s < shape.data_columns));
  UNROLL for (int r = 0; r < BLOCK_HEIGHT; r++) {
    in_row[r] = WINDOW_WHOLE || WINDOW_INSIDE(top + r, shape.data_rows);
    UNROLL for (int s = 0; s < BLOCK_WIDTH; s++) {
      data[r][s] = WINDOW_START;
      if (in_row[r] & in_column[s])
        data[r][s] = ELEMENT0(cell_in0 + (top + r) * shape.in0_h + (left + s) * shape.in0_v);
    }
  }
#endif
  UNROLL for (int r = 0; r < WINDOW_STRIDE_H; r++) {
    UNROLL for (int s = 0; s < WINDOW_STRIDE_V * BLOCK_RESULTS; s++) folded[r][s] = 0;
  }
  UNROLL for (int i = 0; i <= BLOCK_DOWN; i++) {
    UNROLL for (int j = 0; j < BLOCK_ALONG + BLOCK_RESULTS; j++) {
#if WINDOW_IS_MAX
      VALUE largest = WINDOW_START;
      int found = -1;
      UNROLL for (int r = 0; r < WINDOW_SIZE_H; r++) {
        UNROLL for (int s = 0; s < WINDOW_SIZE_V; s++) {
          const int row = i * WINDOW_STRIDE_H + r, column = j * WINDOW_STRIDE_V + s;
          const VALUE element = data[row][column];
          /* A missing element never wins. */
          const boolean more = !(element <= largest) & !WINDOW_IS_NAN(largest);
          if (more | ((found < 0) & in_row[row] & in_column[column])) {
            largest = element;
            found = r * WINDOW_SIZE_V + s;
          }
        }
      }
#endif
      UNROLL for (int r = 0; r < WINDOW_SIZE_H; r++) {
        UNROLL for (int s = 0; s < WINDOW_SIZE_V; s++) {
          const int row = i * WINDOW_STRIDE_H + r - BLOCK_ROW;
          const int column = j * WINDOW_STRIDE_V + s - BLOCK_COLUMN;
          if (row < 0 || row >= WINDOW_STRIDE_H || column < 0 ||
              column >= WINDOW_STRIDE_V * BLOCK_RESULTS)
            continue;
#if WINDOW_IS_MAX
          if (found == r * WINDOW_SIZE_V + s)
#endif
            folded[row][column] += received[i][j];
        }
      }
    }
  }
}
