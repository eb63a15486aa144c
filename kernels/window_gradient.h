/* Gathers the gradient of an element of the data from the windows that it lies in. Configured as
 * window.h; WINDOW_PLACES: whether `places` says where maxima are. Leaves VALUE folded. */
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
