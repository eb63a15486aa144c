/* The kernel's body up to an ROI of its own: `roi`, `inside` and `source`. What fit_roi.h makes of
 * them follows, and two braces. The words are explained in fit_kernel.h. */
#if HELD
LOCAL_ARRAY(HELD_TYPE, held, HELD_COUNT);
#if VARIANCE_MAP
LOCAL_ARRAY(f32, held_extra, HELD_COUNT);
#endif
#endif
#if SHARED
LOCAL_ARRAY(f32, partial, PARTIAL_COUNT);
LOCAL_ARRAY(fit_axes, shared_axes, 1);
#endif
for (i64 tile = (i64)GROUP_ID_X; tile < shape.tiles; tile += (i64)GROUP_COUNT_X) {
#if HELD
  BARRIER();
  for (int i = (int)LOCAL_ID_X; i < TILE * ROWS * COLUMNS; i += GROUP_ITEMS) {
    const int number = i / (ROWS * COLUMNS), pixel = i - number * (ROWS * COLUMNS);
    const int row = pixel / COLUMNS, column = pixel - row * COLUMNS;
    const int at = pixel * HELD_STEP + number;
    const i64 place = tile * TILE + number;
    if (place < shape.count) {
      FIND_ROI(place)
      PLACE_ROI
#if HELD == 2
      held[at] = inside ? FIT_PIXEL(&input, row, column) : (u16)0;
#else
      f32 extra = 0.0f;
      held[at] = inside ? fit_read(&input, row, column, &extra) : 0.0f;
#if VARIANCE_MAP
      held_extra[at] = extra;
#endif
#endif
    }
  }
  BARRIER();
  const int lane = SHARED ? 0 : (int)LOCAL_ID_X;
  const i64 roi = tile * TILE + lane;
  if (roi < shape.count) {
    FIND_ROI(roi)
    fit_source source;
    source.held = held + lane;
#if VARIANCE_MAP
    source.extra = held_extra + lane;
#else
    source.variance = shape.variance;
#endif
#if HELD == 2
    source.offset = shape.offset;
    source.gain = shape.gain;
    source.variance = shape.variance;
#endif
#if SHARED
    source.partial = partial;
    source.axes = shared_axes;
#endif
#else
  const i64 first_roi = (tile * GROUP_ITEMS + (i64)LOCAL_ID_X) * shape.run;
  for (i64 roi = first_roi; roi < first_roi + shape.run && roi < shape.count; roi++) {
    FIND_ROI(roi)
    PLACE_ROI
    fit_source source;
    source.input = input;
#endif
