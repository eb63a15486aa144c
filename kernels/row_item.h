/* Rows by items that are a group each, for CPUs: the body of a kernel. An item handles shape.run
 * rows one after the other, in blocks of ROW_HELD elements that it keeps in private memory: a row
 * of one block is read once, a longer one twice. Where there are fewer rows than the device needs,
 * rows are cut into parts as in row_long.h.
 *
 * Macros as in row_held.h. */
ROW_STEPS
const INDEX first = (INDEX)GROUP_ID_Y * shape.share;
const INDEX end = shape.length - first < shape.share ? shape.length : first + shape.share;
const INDEX first_row = (INDEX)GROUP_ID_X * shape.run;
const INDEX rows = shape.rows - first_row < shape.run ? shape.rows - first_row : shape.run;
for (INDEX row = first_row; row < first_row + rows; row++) {
  VALUE value[ROW_HELD];
  ROW_OFFSETS(row)
#define ROW_BLOCKS(start, held)                                                                    \
  for (INDEX start = first, held = end - first < ROW_HELD ? end - first : ROW_HELD; start < end;   \
       start += held, held = end - start < ROW_HELD ? end - start : ROW_HELD)
#define ROW_FILL(start, held)                                                                      \
  for (int i = 0; i < (int)held; i++) value[i] = ELEMENT(start + i);
#if ROW_OPERATION == ROW_IS_NORMALIZE
  VALUE shift = 0, sum = 0, squares = 0;
#if ROW_MEASURE
  for (int round = 0; round < 2; round++) {
    VALUE lost = 0, lost_squares = 0;
    sum = squares = 0;
    ROW_BLOCKS(start, held) {
      ROW_FILL(start, held)
      if (round == 0 && start == first) shift = row_line_sum(value, (int)held) / (VALUE)held;
      VALUE part_squares;
      const VALUE part = row_line_deviations(value, (int)held, shift, &part_squares);
      sum = compensated(sum, part, &lost);
      squares = compensated(squares, part_squares, &lost_squares);
    }
    if (round == 1 || row_is_near(sum, squares, (VALUE)(end - first))) break;
    shift += sum / (VALUE)(end - first);
  }
#if !ROW_APPLY
  const INDEX statistic = row * shape.splits + (INDEX)GROUP_ID_Y;
  shifts[statistic] = shift;
  sums[statistic] = sum;
  spreads[statistic] = squares;
#endif
#else
  const INDEX base = row * shape.splits;
  shift = shifts[base];
  for (int round = 0; round < 2; round++) {
    for (INDEX part = 0; part < shape.splits; part++) {
      const INDEX after = shape.length - part * shape.share;
      const VALUE count = (VALUE)(after < shape.share ? after : shape.share);
      const VALUE middle = sums[base + part] / count, away = shifts[base + part] - shift;
      if (round == 0) {
        sum += away * count + sums[base + part];
      } else {
        const VALUE apart = away + middle - sum / (VALUE)shape.length;
        squares += spreads[base + part] - sums[base + part] * middle + count * apart * apart;
      }
    }
  }
#endif
#if ROW_APPLY
  const VALUE offset = sum / (VALUE)shape.length;
#if ROW_MEASURE
  squares -= sum * offset;
#endif
  const VALUE factor = row_scale(squares, (VALUE)shape.length, (VALUE)shape.epsilon);
#endif
#else
  VALUE shift = -ROW_INFINITY, total = 0;
#if ROW_MEASURE
  VALUE lost = 0;
  ROW_BLOCKS(start, held) {
    ROW_FILL(start, held)
    const VALUE highest = row_line_peak(value, (int)held);
    if (highest > shift) {
      const VALUE smaller = ROW_EXP(shift - highest);
      total *= smaller;
      lost *= smaller;
      shift = highest;
    }
    total = compensated(total, row_line_powers(value, (int)held, row_finite(shift)), &lost);
  }
#if !ROW_APPLY
  const INDEX statistic = row * shape.splits + (INDEX)GROUP_ID_Y;
  shifts[statistic] = shift;
  sums[statistic] = total;
#endif
#else
  const INDEX base = row * shape.splits;
  for (INDEX part = 0; part < shape.splits; part++) shift = row_higher(shift, shifts[base + part]);
  for (INDEX part = 0; part < shape.splits; part++)
    total += sums[base + part] * row_relative(shifts[base + part], shift);
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
  /* Whether the block that was measured is still there. */
  const boolean kept = ROW_MEASURE && end - first <= ROW_HELD;
  ROW_BLOCKS(start, held) {
    if (!kept) {
      ROW_FILL(start, held)
#if ROW_OPERATION == ROW_IS_SOFTMAX
      for (int i = 0; i < (int)held; i++) value[i] = ROW_EXP(value[i] - shift);
#elif ROW_OPERATION == ROW_IS_NORMALIZE
      for (int i = 0; i < (int)held; i++) value[i] -= shift;
#endif
    }
    INDEPENDENT for (int i = 0; i < (int)held; i++) {
#if ROW_OPERATION == ROW_IS_SOFTMAX
      const VALUE finished = value[i] * factor;
#elif ROW_OPERATION == ROW_IS_NORMALIZE
      const VALUE finished = (value[i] - offset) * factor;
#else
      const VALUE finished = value[i] - shift - offset;
#endif
      FINISH(start + i, finished)
    }
  }
#endif
}
#undef ROW_BLOCKS
#undef ROW_FILL
