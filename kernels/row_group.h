/* SPDX-License-Identifier: MIT */
/* The body of a kernel for rows that fit a group of items. ROW_LANES items share a row, and each
 * holds ROW_ITEMS of its elements. Each element is read once.
 *
 * The surrounding code defines the macros ROW_STEPS, ROW_OFFSETS(row), ELEMENT(position) and
 * FINISH(position, value), and for vectors VECTOR_ELEMENTS(position, values) and
 * VECTOR_FINISH(position, inside, values). */
//@ row_held
LOCAL_ARRAY(VALUE, room, 2 * ROW_ROOM);
const u32 item = LOCAL_ID_X;
const boolean whole = ROW_ALIGNED;
u32 turn = 0;
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
  const INDEX held = ROW_HOLD(active ? shape.length : 0);
  ROW_OFFSETS(there)
  VALUE value[ROW_ITEMS];
#if ROW_OPERATION == ROW_IS_NORMALIZE
  VALUE span[2] = {0, 0}, sums[2] = {0, 0};
  ROW_READ(0, 0)
  UNROLL for (int u = 0; u < ROW_ITEMS; u++) {
    span[0] += ROW_UNIT(ROW_LESS, value[u]);
    span[1] = row_magnitude(span[1], value[u]);
  }
  ROW_SPAN(span);
  const VALUE unit = row_unit_of_peak(span[1], (VALUE)shape.epsilon);
  const VALUE shift = ROW_UNIT(unit, ROW_UNIT(ROW_MORE, span[0] / (VALUE)shape.length));
  UNROLL for (int u = 0; u < ROW_ITEMS; u++) {
    const VALUE away = u < held ? ROW_UNIT(unit, value[u]) - shift : 0;
    sums[0] += away;
    sums[1] += away * away;
  }
  ROW_SUMS(sums);
  const VALUE offset = sums[0] / (VALUE)shape.length;
  const VALUE factor =
      row_scale(sums[1] - sums[0] * offset, (VALUE)shape.length, (VALUE)shape.epsilon, unit);
#else
  VALUE peak = -ROW_INFINITY, total = 0;
  ROW_READ(0, -ROW_INFINITY)
  UNROLL for (int u = 0; u < ROW_ITEMS; u++) peak = row_higher(peak, value[u]);
  ROW_PEAK(peak);
  const VALUE shift = peak, subtracted = row_finite(peak);
  UNROLL for (int u = 0; u < ROW_ITEMS; u++) {
    const VALUE power = ROW_EXP(value[u] - subtracted);
#if ROW_OPERATION == ROW_IS_SOFTMAX
    value[u] = power;
#endif
    total += power;
  }
  ROW_SUM(total);
  total = row_total(shift, total);
#if ROW_OPERATION == ROW_IS_SOFTMAX
  const VALUE factor = 1 / total;
#else
  const VALUE offset = ROW_LOG(total);
#endif
#endif
  UNROLL for (int u = 0; u < ROW_ITEMS; u++) {
#if ROW_OPERATION == ROW_IS_SOFTMAX
    value[u] *= factor;
#else
    value[u] = ROW_FINISHED(value[u]);
#endif
  }
  ROW_WRITE(0)
}

/* The body of a kernel for rows of any length, by groups of items. Elements are read twice: to
 * measure the row, and to apply the operation. If there are fewer rows than the device needs, each
 * row is cut into parts (GROUP_ID_Y). One launch then measures them (ROW_MEASURE) and leaves their
 * statistics in the workspace; a second launch merges these and applies the operation (ROW_APPLY).
 * Otherwise one launch does both.
 *
 * Macros as in row_held. */
//@ row_long
LOCAL_ARRAY(VALUE, room, 2 * ROW_ROOM);
const u32 item = LOCAL_ID_X;
const boolean whole = ROW_ALIGNED;
u32 turn = 0;
#if ROW_ACROSS
const u32 lane = item / ROW_ROWS, slot = item % ROW_ROWS;
#else
const u32 lane = item % ROW_LANES, slot = item / ROW_LANES;
#endif
const INDEX first = (INDEX)GROUP_ID_Y * shape.share;
const INDEX end = shape.length - first < shape.share ? shape.length : first + shape.share;
ROW_STEPS
for (INDEX tile = (INDEX)GROUP_ID_X; tile < shape.tiles; tile += (INDEX)GROUP_COUNT_X) {
  const INDEX row = tile * ROW_ROWS + (INDEX)slot;
  const boolean active = row < shape.rows;
  const INDEX there = active ? row : 0;
  ROW_OFFSETS(there)
#if ROW_OPERATION == ROW_IS_NORMALIZE
  VALUE shift, sum = 0, squares = 0, unit = 1;
#if ROW_MEASURE
  const VALUE count = (VALUE)(end - first);
  const INDEX few = end - first < ROW_LANES ? end - first : ROW_LANES;
  shift = active && (INDEX)lane < few ? ROW_UNIT(ROW_LESS, ELEMENT(first + (INDEX)lane)) : 0;
  ROW_SUM(shift);
  shift = ROW_UNIT(ROW_MORE, shift / (VALUE)few);
  boolean near = 0;
  for (int round = 0; round < 2; round++) {
    VALUE some[2] = {0, 0}, lost = 0, lost_squares = 0;
    if (active && !near) {
      for (INDEX start = first; start < end; start += ROW_ITEMS * ROW_LANES) {
        const INDEX held = ROW_HOLD(end - start);
        VALUE value[ROW_ITEMS], part = 0, part_squares = 0;
        ROW_READ(start, 0)
        UNROLL for (int u = 0; u < ROW_ITEMS; u++) {
          const VALUE away = u < held ? ROW_UNIT(unit, value[u]) - shift : 0;
          part += away;
          part_squares += away * away;
        }
        some[0] = compensated(some[0], part, &lost);
        some[1] = compensated(some[1], part_squares, &lost_squares);
      }
    }
    ROW_SUMS(some);
    if (!near) {
      sum = some[0];
      squares = some[1];
      if (round == 0) unit = row_unit_of_squares(squares, count, (VALUE)shape.epsilon);
      near = unit == 1 && row_is_near(sum, squares, count);
      if (!near && round == 0) shift = unit == 1 ? shift + sum / count : ROW_UNIT(unit, shift);
    }
  }
#if !ROW_APPLY
  if (active && lane == 0) {
    const INDEX statistic = row * shape.splits + (INDEX)GROUP_ID_Y;
    shifts[statistic] = shift;
    sums[statistic] = sum;
    spreads[statistic] = squares;
#if ROW_RESCALES
    units[statistic] = unit;
#endif
  }
#endif
#else
  /* Merges the parts' means relative to the first shift: Chan, Golub & LeVeque, "Updating formulae
   * and a pairwise algorithm for computing sample variances", 1979. */
  const INDEX base = there * shape.splits;
#if ROW_RESCALES
  unit = units[base];
  for (INDEX part = (INDEX)lane; part < shape.splits; part += ROW_LANES)
    unit = row_common_unit(unit, units[base + part]);
  ROW_UNIT_OF_ALL(unit);
#define ROW_RATIO(part) (unit / units[base + (part)])
#else
#define ROW_RATIO(part) ((VALUE)1)
#endif
  shift = ROW_UNIT(ROW_RATIO(0), shifts[base]);
  for (INDEX part = (INDEX)lane; part < shape.splits; part += ROW_LANES) {
    const INDEX after = shape.length - part * shape.share;
    const VALUE count = (VALUE)(after < shape.share ? after : shape.share);
    sum += (ROW_UNIT(ROW_RATIO(part), shifts[base + part]) - shift) * count +
           ROW_UNIT(ROW_RATIO(part), sums[base + part]);
  }
  ROW_SUM(sum);
  for (INDEX part = (INDEX)lane; part < shape.splits; part += ROW_LANES) {
    const INDEX after = shape.length - part * shape.share;
    const VALUE count = (VALUE)(after < shape.share ? after : shape.share);
    const VALUE ratio = ROW_RATIO(part), own = ROW_UNIT(ratio, sums[base + part]);
    const VALUE middle = own / count;
    const VALUE away = ROW_UNIT(ratio, shifts[base + part]) - shift + middle;
    squares +=
        ROW_UNIT(ratio, ROW_UNIT(ratio, spreads[base + part])) - own * middle + count * away * away;
  }
  ROW_SUM(squares);
#undef ROW_RATIO
#endif
#if ROW_APPLY
  const VALUE offset = sum / (VALUE)shape.length;
  const VALUE factor =
      row_scale(squares - sum * offset, (VALUE)shape.length, (VALUE)shape.epsilon, unit);
#endif
#else
  VALUE shift = -ROW_INFINITY, total = 0;
#if ROW_MEASURE
  VALUE peak = -ROW_INFINITY, lost = 0;
  if (active) {
    for (INDEX start = first; start < end; start += ROW_ITEMS * ROW_LANES) {
      const INDEX held = ROW_HOLD(end - start);
      VALUE value[ROW_ITEMS], highest = -ROW_INFINITY, part = 0;
      ROW_READ(start, -ROW_INFINITY)
      UNROLL for (int u = 0; u < ROW_ITEMS; u++) highest = row_higher(highest, value[u]);
      if (highest > peak) {
        const VALUE smaller = ROW_EXP(peak - highest);
        total *= smaller;
        lost *= smaller;
        peak = highest;
      }
      const VALUE subtracted = row_finite(peak);
      UNROLL for (int u = 0; u < ROW_ITEMS; u++) part += ROW_EXP(value[u] - subtracted);
      total = compensated(total, part, &lost);
    }
  }
  shift = peak;
  ROW_PEAK(shift);
  total *= row_relative(peak, shift);
  ROW_SUM(total);
#if !ROW_APPLY
  if (active && lane == 0) {
    const INDEX statistic = row * shape.splits + (INDEX)GROUP_ID_Y;
    shifts[statistic] = shift;
    sums[statistic] = total;
  }
#endif
#else
  const INDEX base = there * shape.splits;
  for (INDEX part = (INDEX)lane; part < shape.splits; part += ROW_LANES)
    shift = row_higher(shift, shifts[base + part]);
  ROW_PEAK(shift);
  for (INDEX part = (INDEX)lane; part < shape.splits; part += ROW_LANES)
    total += sums[base + part] * row_relative(shifts[base + part], shift);
  ROW_SUM(total);
#endif
#if ROW_APPLY
  total = row_total(shift, total);
#if ROW_OPERATION == ROW_IS_SOFTMAX
  const VALUE factor = 1 / total;
#else
  const VALUE offset = ROW_LOG(total);
#endif
#endif
#endif
#if ROW_APPLY
  if (active) {
    for (INDEX start = first; start < end; start += ROW_ITEMS * ROW_LANES) {
      const INDEX held = ROW_HOLD(end - start);
      VALUE value[ROW_ITEMS];
      ROW_READ(start, 0)
      UNROLL for (int u = 0; u < ROW_ITEMS; u++) value[u] = ROW_FINISHED(value[u]);
      ROW_WRITE(start)
    }
  }
#endif
}
