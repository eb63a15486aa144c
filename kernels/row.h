/* SPDX-License-Identifier: MIT */
/* What the row operations compute with. Configured by
 *
 *   VALUE               type of the elements
 *   ROW_OPERATION       one of the three below
 *   ROW_EXP, ROW_LOG, ROW_ROOT
 *   ROW_INFINITY, ROW_NAN
 *
 * and for groups of items by ROW_LANES, the items that share a row, and ROW_PITCH, how far apart
 * they are.
 *
 * A row has two or three statistics: softmax and log-softmax its peak and the sum of exp(x − peak);
 * normalize a shift near its mean, the sum of x − shift, and that of its squares, from which mean
 * and variance come without cancellation (Chan, Golub & LeVeque, "Algorithms for computing the
 * sample variance", 1983). */
//@ row
#define ROW_IS_SOFTMAX     0
#define ROW_IS_LOG_SOFTMAX 1
#define ROW_IS_NORMALIZE   2

#if ROW_OPERATION == ROW_IS_NORMALIZE
/* Whether the shift is closer to the mean than the standard deviation. False for NaN. */
DEVICE boolean row_is_near(VALUE sum, VALUE squares, VALUE count) {
  return 2 * sum * sum <= squares * count;
}
/* Rounding may leave a spread below zero; a NaN stays. */
DEVICE VALUE row_scale(VALUE spread, VALUE count, VALUE epsilon) {
  return 1 / ROW_ROOT((spread < 0 ? 0 : spread) / count + epsilon);
}
#define ROW_FINISHED(x) (((x)-shift - offset) * factor)
#else
DEVICE VALUE row_higher(VALUE a, VALUE b) {
  return b > a ? b : a;
}
/* A peak of nothing but −infinity: subtracting it would make NaNs. */
DEVICE VALUE row_finite(VALUE peak) {
  return peak == -ROW_INFINITY ? 0 : peak;
}
/* What a sum relative to `peak` must be multiplied with to be relative to `highest`. A sum of
 * nothing is 0 or NaN and stays so. */
DEVICE VALUE row_relative(VALUE peak, VALUE highest) {
  return peak == -ROW_INFINITY ? 1 : ROW_EXP(peak - highest);
}
/* A row of nothing but −infinity, and one with +infinity in it, is NaN throughout, as the formula
 * says. */
DEVICE VALUE row_total(VALUE peak, VALUE total) {
  return peak == ROW_INFINITY || peak == -ROW_INFINITY ? ROW_NAN : total;
}
#if ROW_OPERATION == ROW_IS_SOFTMAX
#define ROW_FINISHED(x) (ROW_EXP((x)-shift) * factor)
#else
#define ROW_FINISHED(x) ((x)-shift - offset)
#endif
#endif

#ifdef ROW_LANES
#define ROW_TREE(name, combination)                                                                \
  DEVICE VALUE name(LOCAL VALUE *room, u32 item, u32 lane, VALUE mine) {                           \
    BARRIER();                                                                                     \
    room[item] = mine;                                                                             \
    for (u32 step = ROW_LANES / 2; step > 0; step /= 2) {                                          \
      BARRIER();                                                                                   \
      if (lane < step) {                                                                           \
        const VALUE other = room[item + step * ROW_PITCH];                                         \
        mine = combination;                                                                        \
        room[item] = mine;                                                                         \
      }                                                                                            \
    }                                                                                              \
    BARRIER();                                                                                     \
    return room[item - lane * ROW_PITCH];                                                          \
  }
ROW_TREE(row_tree_sum, mine + other)
#if ROW_OPERATION != ROW_IS_NORMALIZE
ROW_TREE(row_tree_peak, row_higher(mine, other))
#endif
#define ROW_SUM(mine)  row_tree_sum(room, item, lane, mine)
#define ROW_PEAK(mine) row_tree_peak(room, item, lane, mine)
#endif
