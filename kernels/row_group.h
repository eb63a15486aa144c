/* SPDX-License-Identifier: MIT */
/* Rows that a group of items can hold: the body of a kernel. ROW_LANES items share a row, each
 * keeps ROW_ITEMS of its elements, ROW_LANES apart. Each element is read once.
 *
 * Around it stand the macros ROW_STEPS, ROW_OFFSETS(row), ELEMENT(position) and FINISH(position,
 * value). */
//@ row_held
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

/* Rows of any length by groups of items: the body of a kernel. Elements are read twice: to measure
 * the row, and to apply the operation. If there are fewer rows than the device needs, each is cut
 * into parts (GROUP_ID_Y): one launch measures them (ROW_MEASURE) and leaves their statistics in
 * the workspace, a second merges these and applies (ROW_APPLY). Else one launch does both.
 *
 * Macros as in row_held. */
//@ row_long
LOCAL_ARRAY(VALUE, room, ROW_GROUP);
const u32 item = LOCAL_ID_X;
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
  VALUE shift, sum = 0, squares = 0;
#if ROW_MEASURE
  const VALUE count = (VALUE)(end - first);
  const INDEX few = end - first < ROW_LANES ? end - first : ROW_LANES;
  shift = active && (INDEX)lane < few ? ELEMENT(first + (INDEX)lane) : 0;
  shift = ROW_SUM(shift) / (VALUE)few;
  boolean near = 0;
  for (int round = 0; round < 2; round++) {
    VALUE some = 0, some_squares = 0, lost = 0, lost_squares = 0;
    if (active && !near) {
      for (INDEX at = first + (INDEX)lane; at < end; at += ROW_ITEMS * ROW_LANES) {
        VALUE part = 0, part_squares = 0;
        UNROLL for (int u = 0; u < ROW_ITEMS; u++) {
          const INDEX place = at + u * ROW_LANES;
          const VALUE away = place < end ? ELEMENT(place) - shift : 0;
          part += away;
          part_squares += away * away;
        }
        some = compensated(some, part, &lost);
        some_squares = compensated(some_squares, part_squares, &lost_squares);
      }
    }
    some = ROW_SUM(some);
    some_squares = ROW_SUM(some_squares);
    if (!near) {
      sum = some;
      squares = some_squares;
      near = row_is_near(sum, squares, count);
      if (!near && round == 0) shift += sum / count;
    }
  }
#if !ROW_APPLY
  if (active && lane == 0) {
    const INDEX statistic = row * shape.splits + (INDEX)GROUP_ID_Y;
    shifts[statistic] = shift;
    sums[statistic] = sum;
    spreads[statistic] = squares;
  }
#endif
#else
  /* The parts' means are merged relative to the first shift: Chan, Golub & LeVeque, "Updating
   * formulae and a pairwise algorithm for computing sample variances", 1979. */
  const INDEX base = there * shape.splits;
  shift = shifts[base];
  for (INDEX part = (INDEX)lane; part < shape.splits; part += ROW_LANES) {
    const INDEX after = shape.length - part * shape.share;
    const VALUE count = (VALUE)(after < shape.share ? after : shape.share);
    sum += (shifts[base + part] - shift) * count + sums[base + part];
  }
  sum = ROW_SUM(sum);
  for (INDEX part = (INDEX)lane; part < shape.splits; part += ROW_LANES) {
    const INDEX after = shape.length - part * shape.share;
    const VALUE count = (VALUE)(after < shape.share ? after : shape.share);
    const VALUE middle = sums[base + part] / count;
    const VALUE away = shifts[base + part] - shift + middle;
    squares += spreads[base + part] - sums[base + part] * middle + count * away * away;
  }
  squares = ROW_SUM(squares);
#endif
#if ROW_APPLY
  const VALUE offset = sum / (VALUE)shape.length;
  const VALUE factor = row_scale(squares - sum * offset, (VALUE)shape.length, (VALUE)shape.epsilon);
#endif
#else
  VALUE shift = -ROW_INFINITY, total = 0;
#if ROW_MEASURE
  VALUE peak = -ROW_INFINITY, lost = 0;
  if (active) {
    for (INDEX at = first + (INDEX)lane; at < end; at += ROW_ITEMS * ROW_LANES) {
      VALUE value[ROW_ITEMS], highest = -ROW_INFINITY, part = 0;
      UNROLL for (int u = 0; u < ROW_ITEMS; u++) {
        const INDEX place = at + u * ROW_LANES;
        value[u] = place < end ? ELEMENT(place) : -ROW_INFINITY;
        highest = row_higher(highest, value[u]);
      }
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
  shift = ROW_PEAK(peak);
  total = ROW_SUM(total * row_relative(peak, shift));
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
  shift = ROW_PEAK(shift);
  for (INDEX part = (INDEX)lane; part < shape.splits; part += ROW_LANES)
    total += sums[base + part] * row_relative(shifts[base + part], shift);
  total = ROW_SUM(total);
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
    for (INDEX at = first + (INDEX)lane; at < end; at += ROW_ITEMS * ROW_LANES) {
      VALUE value[ROW_ITEMS];
      UNROLL for (int u = 0; u < ROW_ITEMS; u++) {
        const INDEX place = at + u * ROW_LANES;
        value[u] = place < end ? ELEMENT(place) : 0;
      }
      UNROLL for (int u = 0; u < ROW_ITEMS; u++) {
        const INDEX place = at + u * ROW_LANES;
        if (place < end) {
          const VALUE finished = ROW_FINISHED(value[u]);
          FINISH(place, finished)
        }
      }
    }
  }
#endif
}
