/* SPDX-License-Identifier: MIT */
/* The kernel's body up to one ROI: `roi`, `inside` and `source`. fit_roi follows, and two closing
 * braces. fit_kernel explains the names. */
//@ fit_tile
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

/* One ROI, from its inputs to its record: the rest of the kernel's body after `roi` is chosen.
 * `source` reads its pixels; `inside` is true if they exist.
 *
 * START, LOWER, UPPER, SIGMA: inputs, if WITH_START … is 1. OUTER(a): the place of parameter a in
 * the callers' arrays. COLUMN_…: the first column of an output in the record, or -1. */
//@ fit_roi
#define OUT(column) out0[out_first + (i64)(column)*shape.out_column]
const i64 out_first = roi * shape.out_roi;
fit_setup setup;
boolean good = inside;
const f32 lower_of_all[PARAMETERS] = LIST_LOWER;
const f32 upper_of_all[PARAMETERS] = LIST_UPPER;
const f32 start_of_all[PARAMETERS] = LIST_START;
UNROLL for (int a = 0; a < PARAMETERS; a++) {
  setup.lower[a] = lower_of_all[a];
  setup.upper[a] = upper_of_all[a];
  setup.start[a] = shape.start_set >> a & 1u ? start_of_all[a] : NAN_f32;
#if WITH_LOWER
  const f32 lower = LOWER[roi * shape.lower_roi + OUTER(a) * shape.lower_column];
  setup.lower[a] = lower > setup.lower[a] ? lower : setup.lower[a];
#endif
#if WITH_UPPER
  const f32 upper = UPPER[roi * shape.upper_roi + OUTER(a) * shape.upper_column];
  setup.upper[a] = upper < setup.upper[a] ? upper : setup.upper[a];
#endif
#if WITH_START
  const f32 start = START[roi * shape.start_roi + OUTER(a) * shape.start_column];
  setup.start[a] = start == start ? start : setup.start[a];
  if (start != start && (shape.fixed >> a & 1u)) good = 0;
#endif
  if (setup.lower[a] > setup.upper[a]) good = 0;
}
#if SPLINE
setup.coefficients = COEFFICIENTS;
setup.cell_planes = (int)shape.cell_planes;
setup.cell_rows = (int)shape.cell_rows;
setup.cell_columns = (int)shape.cell_columns;
setup.spot_x = shape.spot_x;
setup.spot_y = shape.spot_y;
setup.z_first = shape.z_first;
setup.per_step = shape.per_step;
#else
#if WITH_SIGMA
setup.sigma_x = SIGMA[roi * shape.sigma_roi];
setup.sigma_y = SIGMA[roi * shape.sigma_roi + shape.sigma_column];
if (!(setup.sigma_x > 0.0f && setup.sigma_x < INFINITY_f32)) good = 0;
if (!(setup.sigma_y > 0.0f && setup.sigma_y < INFINITY_f32)) good = 0;
#else
setup.sigma_x = shape.sigma_x;
setup.sigma_y = shape.sigma_y;
#endif
setup.depth = shape.depth;
setup.gamma = shape.gamma;
setup.a_x = shape.a_x;
setup.b_x = shape.b_x;
setup.a_y = shape.a_y;
setup.b_y = shape.b_y;
#endif
setup.epsilon = shape.epsilon;
setup.fixed = shape.fixed;
setup.iterations = (int)shape.iterations;

fit_result result;
UNROLL for (int a = 0; a < PARAMETERS; a++) result.p[a] = NAN_f32;
UNROLL for (int i = 0; i < COMPARED; i++) result.totals[i] = NAN_f32;
result.steps = 0;
result.status = STATUS_BAD;
if (good) good = fit_begin(&source, &setup, (int)shape.free_parameters, result.p);
if (good) {
#if HAS_Z
  const f32 z_list[Z_STARTS] = LIST_Z_STARTS;
  const boolean one = setup.start[4] == setup.start[4];
  const int starts = one ? 1 : (int)shape.z_start_count;
  fit_result now;
  int steps = 0;
  UNROLL for (int a = 0; a < PARAMETERS; a++) now.p[a] = result.p[a];
  f32 first[PARAMETERS];
  UNROLL for (int a = 0; a < PARAMETERS; a++) first[a] = result.p[a];
  for (int number = 0; number < starts; number++) {
    f32 z = 0.0f;
    UNROLL for (int i = 0; i < Z_STARTS; i++) z = i == number ? z_list[i] : z;
    UNROLL for (int a = 0; a < PARAMETERS; a++) now.p[a] = first[a];
    if (!one) now.p[4] = fit_between(z, setup.lower[4], setup.upper[4]);
    fit_run(&source, &setup, &now);
    steps += now.steps;
    if (number == 0 || fit_preferred(&now, &result)) result = now;
  }
  result.steps = steps;
#else
  fit_run(&source, &setup, &result);
#endif
}

#if WANT_SIGNIFICANCE
const f32 significance = good ? fit_significance(&source, &setup, result.p) : NAN_f32;
#endif
#if SHARED
if (LOCAL_ID_X == 0) {
#else
{
#endif
  const boolean sure = good && result.status != STATUS_SINGULAR;
#if COLUMN_PARAMETERS >= 0
  UNROLL for (int a = 0; a < PARAMETERS; a++) OUT(COLUMN_PARAMETERS + OUTER(a)) = result.p[a];
#endif
#if COLUMN_STD >= 0
  UNROLL for (int a = 0; a < PARAMETERS; a++) {
    const f32 variance = sure ? VARIANCE_FACTOR * fit_inverse(result.factor, a, a) : NAN_f32;
    OUT(COLUMN_STD + OUTER(a)) = sure && (result.still >> a & 1u) ? 0.0f : sqrt_f32(variance);
  }
#endif
#if COLUMN_COVARIANCE >= 0
  UNROLL for (int a = 0; a < PARAMETERS; a++) {
    UNROLL for (int b = 0; b <= a; b++) {
      const boolean held_fixed = sure && ((result.still >> a & 1u) || (result.still >> b & 1u));
      const f32 entry = sure ? VARIANCE_FACTOR * fit_inverse(result.factor, a, b) : NAN_f32;
      OUT(COLUMN_COVARIANCE + OUTER(a) * PARAMETERS + OUTER(b)) = held_fixed ? 0.0f : entry;
      OUT(COLUMN_COVARIANCE + OUTER(b) * PARAMETERS + OUTER(a)) = held_fixed ? 0.0f : entry;
    }
  }
#endif
#if COLUMN_RATIO >= 0
  OUT(COLUMN_RATIO) = result.totals[0];
#endif
#if COLUMN_P_RAW >= 0
  {
    /* An electron multiplier doubles the deviance. */
    const f32 freedom = setup.used - (f32)shape.free_parameters;
    OUT(COLUMN_P_RAW) =
        sure ? fit_survival(0.5f * freedom, -result.totals[0] * (1.0f / VARIANCE_FACTOR)) : NAN_f32;
  }
#endif
#if COLUMN_P_VALUE >= 0
  {
    const f32 taken = (f32)shape.free_parameters * PER_PARAMETER;
    /* Corrects for the error of the fitted background: fit_moments. */
    const boolean sharp = !sure || (result.still >> 3 & 1u);
    const f32 spread = sharp ? 0.0f : VARIANCE_FACTOR * fit_inverse(result.factor, 3, 3);
    const f32 slope = result.totals[4], curvature = result.totals[5];
    const f32 mean = result.totals[1] - taken - 0.5f * curvature * spread;
    const f32 variance = result.totals[2] - 2.0f * PER_PARAMETER * taken - slope * slope * spread;
    const boolean known = sure && mean > 0.0f && variance > 0.0f;
    OUT(COLUMN_P_VALUE) =
        known ? fit_survival(mean * mean / variance, -2.0f * result.totals[0] * mean / variance)
              : NAN_f32;
  }
#endif
#if COLUMN_ITERATIONS >= 0
  OUT(COLUMN_ITERATIONS) = (f32)result.steps;
#endif
#if COLUMN_STATUS >= 0
  OUT(COLUMN_STATUS) = (f32)result.status;
#endif
#if WANT_SIGNIFICANCE
  OUT(COLUMN_SIGNIFICANCE) = significance;
#endif
}
