/* Loops over elements of a row that lie in private memory, for items that handle rows alone.
 * ROW_WIDTH lanes make them vectors, and keep rounding errors small. */
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
/* Turns the elements into their distances from the shift. */
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
