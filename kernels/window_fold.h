/* Folds the window of a result, row by row. Configured as window.h; leaves VALUE folded. */
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
