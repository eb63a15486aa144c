/* Rows that a group of items can hold: the body of a kernel. ROW_LANES items share a row, each
 * keeps ROW_ITEMS of its elements, ROW_LANES apart. Each element is read once.
 *
 * Around it stand the macros ROW_STEPS, ROW_OFFSETS(row), ELEMENT(position) and FINISH(position,
 * value). */
LOCAL_ARRAY(VALUE, room, ROW_GROUP);
const u32 item = LOCAL_ID_X;
#if ROW_ACROSS
const u32 lane = item / ROW_ROWS, slot = item % ROW_ROWS;
#else
const u32 lane = item % ROW_LANES, slot = item / ROW_LANES;
#endif
ROW_STEPS
for (INDEX tile = (INDEX)GROUP_ID_X; tile < shape.tiles; tile += (INDEX)GROUP_COUNT_X) {
  const INDEX row = tile * ROW_ROWS + (INDEX)slot;
  const boolean active = row < shape.rows;
  const INDEX there = active ? row : 0;
  ROW_OFFSETS(there)
  VALUE value[ROW_ITEMS];
#if ROW_OPERATION == ROW_IS_NORMALIZE
  VALUE sum = 0, squares = 0;
  UNROLL for (int u = 0; u < ROW_ITEMS; u++) {
    const INDEX at = (INDEX)lane + u * ROW_LANES;
    value[u] = active && at < shape.length ? ELEMENT(at) : 0;
    sum += value[u];
  }
  const VALUE shift = ROW_SUM(sum) / (VALUE)shape.length;
  sum = 0;
  UNROLL for (int u = 0; u < ROW_ITEMS; u++) {
    const INDEX at = (INDEX)lane + u * ROW_LANES;
    const VALUE away = active && at < shape.length ? value[u] - shift : 0;
    sum += away;
    squares += away * away;
  }
  sum = ROW_SUM(sum);
  squares = ROW_SUM(squares);
  const VALUE offset = sum / (VALUE)shape.length;
  const VALUE factor = row_scale(squares - sum * offset, (VALUE)shape.length, (VALUE)shape.epsilon);
#else
  VALUE peak = -ROW_INFINITY, total = 0;
  UNROLL for (int u = 0; u < ROW_ITEMS; u++) {
    const INDEX at = (INDEX)lane + u * ROW_LANES;
    value[u] = active && at < shape.length ? ELEMENT(at) : -ROW_INFINITY;
    peak = row_higher(peak, value[u]);
  }
  const VALUE shift = ROW_PEAK(peak), subtracted = row_finite(shift);
  UNROLL for (int u = 0; u < ROW_ITEMS; u++) {
    const VALUE power = ROW_EXP(value[u] - subtracted);
#if ROW_OPERATION == ROW_IS_SOFTMAX
    value[u] = power;
#endif
    total += power;
  }
  total = row_total(shift, ROW_SUM(total));
#if ROW_OPERATION == ROW_IS_SOFTMAX
  const VALUE factor = 1 / total;
#else
  const VALUE offset = ROW_LOG(total);
#endif
#endif
  UNROLL for (int u = 0; u < ROW_ITEMS; u++) {
    const INDEX at = (INDEX)lane + u * ROW_LANES;
    if (active && at < shape.length) {
#if ROW_OPERATION == ROW_IS_SOFTMAX
      const VALUE finished = value[u] * factor;
#else
      const VALUE finished = ROW_FINISHED(value[u]);
#endif
      FINISH(at, finished)
    }
  }
}
