/* SPDX-License-Identifier: MIT */
/* The start of a fit: the background from the ROI's border, the position from the centre of mass
 * above the background, N from the sum. Also rejects data that cannot be fitted. */
//@ fit_start

#define USED   0 /* pixels that count */
#define LIGHT  1 /* their photo-electrons */
#define BAD    2 /* pixels that are NaN */
#define BORDER 3 /* sums over first and last row, first and last column; then their pixel counts */
#define SUMMED 11

#if SHARED
#define FOR_PIXELS for (int pixel = (int)LOCAL_ID_X; pixel < ROWS * COLUMNS; pixel += GROUP_ITEMS)
#else
#define FOR_PIXELS for (int pixel = 0; pixel < ROWS * COLUMNS; pixel++)
#endif

DEVICE f32 fit_between(f32 x, f32 lower, f32 upper) {
  return x < lower ? lower : x > upper ? upper : x;
}

DEVICE boolean fit_begin(const fit_source *source, fit_setup *setup, int free_parameters, f32 *p) {
  f32 sums[SUMMED], mass[3];
  UNROLL for (int i = 0; i < SUMMED; i++) sums[i] = 0.0f;
  FOR_PIXELS {
    const int row = pixel / COLUMNS, column = pixel - row * COLUMNS;
    f32 extra;
    const f32 electrons = fit_take(source, row, column, &extra);
    const boolean bad = electrons != electrons, used = FIT_COUNTS(electrons);
    const f32 value = used ? electrons - FIT_ON_TOP(extra) : 0.0f, one = used ? 1.0f : 0.0f;
    sums[USED] += one;
    sums[LIGHT] += value;
    sums[BAD] += bad ? 1.0f : 0.0f;
    sums[BORDER] += row == 0 ? value : 0.0f;
    sums[BORDER + 1] += row == ROWS - 1 ? value : 0.0f;
    sums[BORDER + 2] += column == 0 ? value : 0.0f;
    sums[BORDER + 3] += column == COLUMNS - 1 ? value : 0.0f;
#if MASKED
    sums[BORDER + 4] += row == 0 ? one : 0.0f;
    sums[BORDER + 5] += row == ROWS - 1 ? one : 0.0f;
    sums[BORDER + 6] += column == 0 ? one : 0.0f;
    sums[BORDER + 7] += column == COLUMNS - 1 ? one : 0.0f;
#endif
  }
  fit_total(source, sums, SUMMED);
#if !MASKED
  sums[BORDER + 4] = sums[BORDER + 5] = (f32)COLUMNS;
  sums[BORDER + 6] = sums[BORDER + 7] = (f32)ROWS;
#endif
  setup->used = sums[USED];
  setup->typical = sums[LIGHT] / (sums[USED] > 0.0f ? sums[USED] : 1.0f);
  if (sums[BAD] > 0.0f || !(sums[LIGHT] > 0.0f) || !(sums[LIGHT] < INFINITY_f32) ||
      sums[USED] < (f32)free_parameters)
    return 0;
  f32 background = INFINITY_f32;
  UNROLL for (int i = BORDER; i < BORDER + 4; i++) {
    const f32 mean = sums[i] / sums[i + 4];
    background = sums[i + 4] > 0.0f && mean < background ? mean : background;
  }
  background = background < INFINITY_f32 ? background : 0.0f;
  background = setup->start[3] == setup->start[3] ? setup->start[3] : background;
  background = fit_between(background, setup->lower[3], setup->upper[3]);

  UNROLL for (int i = 0; i < 3; i++) mass[i] = 0.0f;
  FOR_PIXELS {
    const int row = pixel / COLUMNS, column = pixel - row * COLUMNS;
    f32 extra;
    const f32 electrons = fit_take(source, row, column, &extra);
    const f32 above = electrons - FIT_ON_TOP(extra) - background;
    const f32 weight = FIT_COUNTS(electrons) && above > 0.0f ? above : 0.0f;
    mass[0] += weight;
    mass[1] = MAD_f32(weight, (f32)column, mass[1]);
    mass[2] = MAD_f32(weight, (f32)row, mass[2]);
  }
  fit_total(source, mass, 3);
  const boolean some = mass[0] > 0.0f;
  const f32 excess = sums[LIGHT] - background * sums[USED], eighth = 0.125f * mass[0];
  p[0] = some ? mass[1] / mass[0] : 0.5f * (f32)(COLUMNS - 1);
  p[1] = some ? mass[2] / mass[0] : 0.5f * (f32)(ROWS - 1);
  p[2] = excess > eighth ? excess : eighth;
  p[3] = background;
#if WIDTHS
#if WIDTHS == 2
  p[4] = setup->sigma_x;
  p[5] = setup->sigma_y;
#else
  p[4] = sqrt_f32(setup->sigma_x * setup->sigma_y);
#endif
#endif
  UNROLL for (int a = 0; a < PARAMETERS; a++) {
    const f32 given = setup->start[a];
    p[a] = fit_between(given == given ? given : p[a], setup->lower[a], setup->upper[a]);
  }
  return 1;
}
