/* Rows whose neighbours lie side by side while their elements do not, for CPUs: the body of a
 * kernel. An item that is a group of its own handles shape.run tiles of ROW_WIDTH neighbouring rows
 * at once; vectors run across the rows. The last tile of a line begins so that it ends with the
 * line: what it shares with the one before is computed twice, to the same values. Elements are read
 * three times, sums start anew every 64 positions.
 *
 * Macros as in row_held.h; ELEMENT and FINISH refer to row number `lane` of the tile. */
#define ROW_EACH(lane) for (int lane = 0; lane < ROW_WIDTH; lane++)
ROW_STEPS
const INDEX first_tile = (INDEX)GROUP_ID_X * shape.run;
const INDEX tiles = shape.tiles - first_tile < shape.run ? shape.tiles - first_tile : shape.run;
for (INDEX tile = first_tile; tile < first_tile + tiles; tile++) {
  const INDEX line = tile / shape.pieces, piece = (tile - line * shape.pieces) * ROW_WIDTH;
  const INDEX start = shape.inner - piece < ROW_WIDTH ? shape.inner - ROW_WIDTH : piece;
  const INDEX row = line * shape.inner + start;
  ROW_OFFSETS(row)
  VALUE part[ROW_WIDTH], sums[ROW_WIDTH], lost[ROW_WIDTH], shifts[ROW_WIDTH], scales[ROW_WIDTH];
  INDEX position = 0;
#if ROW_OPERATION == ROW_IS_NORMALIZE
  VALUE square[ROW_WIDTH], spreads[ROW_WIDTH], lost_squares[ROW_WIDTH];
  const VALUE count = (VALUE)shape.length;
  ROW_EACH(lane) shifts[lane] = lost[lane] = 0;
  while (position < shape.length) {
    const INDEX stop = shape.length - position < 64 ? shape.length : position + 64;
    ROW_EACH(lane) part[lane] = 0;
    for (; position < stop; position++) ROW_EACH(lane) part[lane] += ELEMENT(position);
    ROW_EACH(lane) shifts[lane] = compensated(shifts[lane], part[lane], &lost[lane]);
  }
  ROW_EACH(lane) {
    shifts[lane] /= count;
    sums[lane] = spreads[lane] = lost[lane] = lost_squares[lane] = 0;
  }
  for (position = 0; position < shape.length;) {
    const INDEX stop = shape.length - position < 64 ? shape.length : position + 64;
    ROW_EACH(lane) part[lane] = square[lane] = 0;
    for (; position < stop; position++) {
      ROW_EACH(lane) {
        const VALUE away = ELEMENT(position) - shifts[lane];
        part[lane] += away;
        square[lane] += away * away;
      }
    }
    ROW_EACH(lane) {
      sums[lane] = compensated(sums[lane], part[lane], &lost[lane]);
      spreads[lane] = compensated(spreads[lane], square[lane], &lost_squares[lane]);
    }
  }
  ROW_EACH(lane) {
    const VALUE offset = sums[lane] / count;
    scales[lane] = row_scale(spreads[lane] - sums[lane] * offset, count, (VALUE)shape.epsilon);
    sums[lane] = offset;
  }
#else
  ROW_EACH(lane) shifts[lane] = -ROW_INFINITY;
  for (; position < shape.length; position++)
    ROW_EACH(lane) shifts[lane] = row_higher(shifts[lane], ELEMENT(position));
  ROW_EACH(lane) {
    scales[lane] = row_finite(shifts[lane]);
    sums[lane] = lost[lane] = 0;
  }
  for (position = 0; position < shape.length;) {
    const INDEX stop = shape.length - position < 64 ? shape.length : position + 64;
    ROW_EACH(lane) part[lane] = 0;
    for (; position < stop; position++)
      ROW_EACH(lane) part[lane] += ROW_EXP(ELEMENT(position) - scales[lane]);
    ROW_EACH(lane) sums[lane] = compensated(sums[lane], part[lane], &lost[lane]);
  }
  ROW_EACH(lane) {
    const VALUE total = row_total(shifts[lane], sums[lane]);
    scales[lane] = 1 / total;
#if ROW_OPERATION == ROW_IS_LOG_SOFTMAX
    sums[lane] = ROW_LOG(total);
#endif
  }
#endif
  for (position = 0; position < shape.length; position++) {
    INDEPENDENT ROW_EACH(lane) {
      const VALUE x = ELEMENT(position);
#if ROW_OPERATION == ROW_IS_SOFTMAX
      const VALUE finished = ROW_EXP(x - shifts[lane]) * scales[lane];
#elif ROW_OPERATION == ROW_IS_NORMALIZE
      const VALUE finished = (x - shifts[lane] - sums[lane]) * scales[lane];
#else
      const VALUE finished = x - shifts[lane] - sums[lane];
#endif
      FINISH(position, finished)
    }
  }
}
#undef ROW_EACH
