/* Notes where in its plane the first largest element of a window lies, −1 for a window without
 * elements. Configured as window.h. */
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
    const boolean more = (element > largest) | ((element != element) & (largest == largest));
    if (more | (found < 0)) {
      largest = element;
      found = row * shape.data_columns + column;
    }
  }
}
places[at] = found;
