/* SPDX-License-Identifier: MIT */
/* Loops over elements of a row in private memory, for items that process rows alone. With ROW_WIDTH
 * lanes the loops become vector code, and rounding errors stay small. */
//@ row_lines
#define ROW_LANE_LOOP(count, body)                                                                 \
  {                                                                                                \
    int at_lane = 0;                                                                               \
    for (; at_lane + ROW_WIDTH <= count; at_lane += ROW_WIDTH)                                     \
      for (int l = 0; l < ROW_WIDTH; l++) {                                                        \
        const int i = at_lane + l;                                                                 \
        body                                                                                       \
      }                                                                                            \
    for (int l = 0; l < count - at_lane; l++) {                                                    \
      const int i = at_lane + l;                                                                   \
      body                                                                                         \
    }                                                                                              \
  }
DEVICE VALUE row_lane_sum(VALUE *lane) {
  for (int step = ROW_WIDTH / 2; step > 0; step /= 2)
    for (int l = 0; l < step; l++) lane[l] += lane[l + step];
  return lane[0];
}
#if ROW_OPERATION == ROW_IS_NORMALIZE
DEVICE VALUE row_line_sum(const VALUE *value, int count) {
  VALUE lane[ROW_WIDTH];
  for (int l = 0; l < ROW_WIDTH; l++) lane[l] = 0;
  ROW_LANE_LOOP(count, lane[l] += value[i];)
  return row_lane_sum(lane);
}
/* Replaces the elements by their deviations from the shift. */
DEVICE VALUE row_line_deviations(VALUE *value, int count, VALUE shift, VALUE *squares) {
  VALUE lane[ROW_WIDTH], square[ROW_WIDTH];
  for (int l = 0; l < ROW_WIDTH; l++) lane[l] = square[l] = 0;
  ROW_LANE_LOOP(count, value[i] -= shift; lane[l] += value[i]; square[l] += value[i] * value[i];)
  *squares = row_lane_sum(square);
  return row_lane_sum(lane);
}
#else
DEVICE VALUE row_line_peak(const VALUE *value, int count) {
  VALUE lane[ROW_WIDTH];
  for (int l = 0; l < ROW_WIDTH; l++) lane[l] = -ROW_INFINITY;
  ROW_LANE_LOOP(count, lane[l] = row_higher(lane[l], value[i]);)
  for (int step = ROW_WIDTH / 2; step > 0; step /= 2)
    for (int l = 0; l < step; l++) lane[l] = row_higher(lane[l], lane[l + step]);
  return lane[0];
}
/* Softmax keeps the exponentials. */
DEVICE VALUE row_line_powers(VALUE *value, int count, VALUE shift) {
  VALUE lane[ROW_WIDTH];
  for (int l = 0; l < ROW_WIDTH; l++) lane[l] = 0;
#if ROW_OPERATION == ROW_IS_SOFTMAX
  ROW_LANE_LOOP(count, value[i] = ROW_EXP(value[i] - shift); lane[l] += value[i];)
#else
  ROW_LANE_LOOP(count, lane[l] += ROW_EXP(value[i] - shift);)
#endif
  return row_lane_sum(lane);
}
#endif

/* The body of a kernel for CPUs: each item is a group and processes rows alone. An item handles
 * shape.run consecutive rows, in blocks of ROW_HELD elements in private memory. A row of one block
 * is read once, a longer row twice. If there are fewer rows than the device needs, rows are cut
 * into parts as in row_long.
 *
 * Macros as in row_held. */
//@ row_item
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
#if ROW_OPERATION == ROW_IS_NORMALIZE
#define ROW_FILL(start, held)                                                                      \
  for (int i = 0; i < (int)held; i++) value[i] = ROW_UNIT(unit, ELEMENT(start + i));
  VALUE shift = 0, sum = 0, squares = 0, unit = 1;
#if ROW_MEASURE
  for (int round = 0;; round++) {
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
    const VALUE wanted = row_unit_of_squares(squares, (VALUE)(end - first), (VALUE)shape.epsilon);
    if (unit == 1 && wanted != 1) { /* restart */
      unit = wanted;
      round = -1;
      continue;
    }
    if (round == 1 || row_is_near(sum, squares, (VALUE)(end - first))) break;
    shift += sum / (VALUE)(end - first);
  }
#if !ROW_APPLY
  const INDEX statistic = row * shape.splits + (INDEX)GROUP_ID_Y;
  shifts[statistic] = shift;
  sums[statistic] = sum;
  spreads[statistic] = squares;
#if ROW_RESCALES
  units[statistic] = unit;
#endif
#endif
#else
  const INDEX base = row * shape.splits;
#if ROW_RESCALES
  unit = units[base];
  for (INDEX part = 1; part < shape.splits; part++)
    unit = row_common_unit(unit, units[base + part]);
#define ROW_RATIO(part) (unit / units[base + (part)])
#else
#define ROW_RATIO(part) ((VALUE)1)
#endif
  shift = ROW_UNIT(ROW_RATIO(0), shifts[base]);
  for (int round = 0; round < 2; round++) {
    for (INDEX part = 0; part < shape.splits; part++) {
      const INDEX after = shape.length - part * shape.share;
      const VALUE count = (VALUE)(after < shape.share ? after : shape.share);
      const VALUE ratio = ROW_RATIO(part), own = ROW_UNIT(ratio, sums[base + part]);
      const VALUE middle = own / count, away = ROW_UNIT(ratio, shifts[base + part]) - shift;
      if (round == 0) {
        sum += away * count + own;
      } else {
        const VALUE apart = away + middle - sum / (VALUE)shape.length;
        squares += ROW_UNIT(ratio, ROW_UNIT(ratio, spreads[base + part])) - own * middle +
                   count * apart * apart;
      }
    }
  }
#undef ROW_RATIO
#endif
#if ROW_APPLY
  const VALUE offset = sum / (VALUE)shape.length;
#if ROW_MEASURE
  squares -= sum * offset;
#endif
  const VALUE factor = row_scale(squares, (VALUE)shape.length, (VALUE)shape.epsilon, unit);
#endif
#else
#define ROW_FILL(start, held)                                                                      \
  for (int i = 0; i < (int)held; i++) value[i] = ELEMENT(start + i);
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
  /* True if the measured block is still in private memory. */
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

/* The body of a kernel for CPUs, for rows whose neighbours are contiguous while their elements are
 * not. Each item is a group and processes shape.run tiles of ROW_WIDTH neighbouring rows at once,
 * with vectors across the rows. The last tile of a line ends with the line. The rows that it shares
 * with the previous tile are computed twice, with the same values. Elements are read three times;
 * sums restart every 64 positions.
 *
 * Macros as in row_held; ELEMENT and FINISH refer to row number `lane` of the tile. */
//@ row_across
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
#if ROW_RESCALES
  VALUE units[ROW_WIDTH];
  ROW_EACH(lane) units[lane] = 1;
#endif
  for (boolean again = 1; again;) {
    ROW_EACH(lane) shifts[lane] = lost[lane] = 0;
    for (position = 0; position < shape.length;) {
      const INDEX stop = shape.length - position < 64 ? shape.length : position + 64;
      ROW_EACH(lane) part[lane] = 0;
      for (; position < stop; position++)
        ROW_EACH(lane) part[lane] += ROW_UNIT(units[lane], ELEMENT(position));
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
          const VALUE away = ROW_UNIT(units[lane], ELEMENT(position)) - shifts[lane];
          part[lane] += away;
          square[lane] += away * away;
        }
      }
      ROW_EACH(lane) {
        sums[lane] = compensated(sums[lane], part[lane], &lost[lane]);
        spreads[lane] = compensated(spreads[lane], square[lane], &lost_squares[lane]);
      }
    }
    again = 0;
#if ROW_RESCALES
    ROW_EACH(lane) {
      const VALUE wanted = row_unit_of_squares(spreads[lane], count, (VALUE)shape.epsilon);
      const boolean other = units[lane] == 1 && wanted != 1;
      units[lane] = other ? wanted : units[lane];
      again |= other;
    }
#endif
  }
  ROW_EACH(lane) {
    const VALUE offset = sums[lane] / count;
    scales[lane] = row_scale(spreads[lane] - sums[lane] * offset, count, (VALUE)shape.epsilon,
                             ROW_UNIT(units[lane], (VALUE)1));
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
      const VALUE finished = (ROW_UNIT(units[lane], x) - shifts[lane] - sums[lane]) * scales[lane];
#else
      const VALUE finished = x - shifts[lane] - sums[lane];
#endif
      FINISH(position, finished)
    }
  }
}
#undef ROW_EACH
