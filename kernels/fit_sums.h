/* SPDX-License-Identifier: MIT */
/* Sums over an ROI's pixels: gradient, information, and goodness of fit.
 *
 * The model is the product of a column's share and a row's share, and so are its derivatives. Along
 * a row, only the sums that depend on the columns are accumulated; the row's factors are applied
 * once at its end. So an item holds the columns' shares (rows come one after the other), and a
 * pixel costs a dozen operations.
 *
 * SHARED: the items of a group share one ROI. Rows, cut into SEGMENTS pieces of SEGMENT columns,
 * are distributed in turn. Shares of columns and rows are in local memory, and all items get the
 * same totals. All items must then call every function here together.
 *
 * The order of parameters inside kernels is x, y, N, bg, then widths or z. WIDTHS is the number of
 * widths. ASTIGMATIC: the fifth parameter is z. SLOPES: derivatives by widths are needed. */
//@ fit_setup

typedef struct fit_setup {
  f32 lower[PARAMETERS], upper[PARAMETERS], start[PARAMETERS]; /* NaN: to be estimated */
#if SPLINE
  GLOBAL const f32 *coefficients;
  int cell_planes, cell_rows, cell_columns;
  f32 spot_x, spot_y, z_first, per_step;
#else
  f32 sigma_x, sigma_y;
  f32 depth, gamma, a_x, b_x, a_y, b_y;
#endif
  f32 epsilon;
  f32 used, typical; /* pixels that count, and the mean of their photo-electrons */
  u32 fixed;
  int iterations;
} fit_setup;

#if UNROLL_COLUMNS
#define FOR_COLUMNS UNROLL for (int column = 0; column < COLUMNS; column++)
#elif SHARED
#define FOR_COLUMNS for (int column = first; column < end; column++)
#else
#define FOR_COLUMNS for (int column = 0; column < COLUMNS; column++)
#endif

/* The shape of a spot: Gaussians of these widths. */
//@ fit_shares

/* Widths, and their first and second derivatives by the fifth parameter. */
typedef struct fit_widths {
  fit_width x, y;
  f32 slope_x, slope_y, bend_x, bend_y;
} fit_widths;

#if ASTIGMATIC
/* sigma = sigma_0 sqrt(alpha), alpha = 1 + t^2 + A t^3 + B t^4, bounded away from 0. */
DEVICE f32 fit_defocus(f32 sigma, f32 t, f32 per_z, f32 a, f32 b, f32 *slope, f32 *bend) {
  const f32 square = t * t;
  const f32 alpha = MAD_f32(square, MAD_f32(t, MAD_f32(b, t, a), 1.0f), 1.0f);
  const boolean regular = alpha > 0.001f;
  const f32 inverse_root = FAST_RSQRT(regular ? alpha : 0.001f);
  const f32 first = t * MAD_f32(t, MAD_f32(4.0f * b, t, 3.0f * a), 2.0f) * per_z;
  const f32 second = MAD_f32(t, MAD_f32(12.0f * b, t, 6.0f * a), 2.0f) * per_z * per_z;
  const f32 half_sigma = 0.5f * sigma * inverse_root;
  *slope = regular ? half_sigma * first : 0.0f;
  *bend = regular ? half_sigma * MAD_f32(-0.5f * first * first, inverse_root * inverse_root, second)
                  : 0.0f;
  return sigma * (regular ? alpha : 0.001f) * inverse_root;
}
#endif

DEVICE fit_widths fit_widths_of(const fit_setup *setup, const f32 *p) {
  fit_widths widths;
  widths.slope_x = widths.slope_y = 1.0f;
  widths.bend_x = widths.bend_y = 0.0f;
#if ASTIGMATIC
  const f32 per_z = FAST_RECIPROCAL(setup->depth);
  widths.x = fit_width_of(fit_defocus(setup->sigma_x, (p[4] - setup->gamma) * per_z, per_z,
                                      setup->a_x, setup->b_x, &widths.slope_x, &widths.bend_x));
  widths.y = fit_width_of(fit_defocus(setup->sigma_y, (p[4] + setup->gamma) * per_z, per_z,
                                      setup->a_y, setup->b_y, &widths.slope_y, &widths.bend_y));
#elif WIDTHS == 0
  widths.x = fit_width_of(setup->sigma_x);
  widths.y = fit_width_of(setup->sigma_y);
#else
  widths.x = fit_width_of(p[4]);
  widths.y = fit_width_of(p[3 + WIDTHS]);
#endif
  return widths;
}

/* ---- Shares ---------------------------------------------------------------------------------- */

typedef struct fit_axes {
  f32 column_share[COLUMNS], column_centre[COLUMNS];
#if SLOPES
  f32 column_sigma[COLUMNS];
#endif
#if CURVED
  f32 column_twice[COLUMNS];
#endif
#if SHARED
  fit_cell row[ROWS];
#endif
} fit_axes;

#if SLOPES
#define KEEP_SIGMA(axes, column, cell) (axes)->column_sigma[column] = (cell).by_sigma;
#else
#define KEEP_SIGMA(axes, column, cell)
#endif
#if CURVED
#define KEEP_TWICE(axes, column, cell) (axes)->column_twice[column] = (cell).by_sigma_twice;
#else
#define KEEP_TWICE(axes, column, cell)
#endif
#define KEEP_COLUMN(axes, column, cell)                                                            \
  (axes)->column_share[column] = (cell).share;                                                     \
  (axes)->column_centre[column] = (cell).by_centre;                                                \
  KEEP_SIGMA(axes, column, cell)                                                                   \
  KEEP_TWICE(axes, column, cell)

#if SHARED
DEVICE void fit_place(const fit_source *source, const f32 *p, const fit_widths *widths) {
  LOCAL fit_axes *axes = source->axes;
  BARRIER();
  for (int number = (int)LOCAL_ID_X; number < COLUMNS + ROWS; number += GROUP_ITEMS) {
    const boolean is_column = number < COLUMNS;
    const int place = is_column ? number : number - COLUMNS;
    const fit_width width = is_column ? widths->x : widths->y;
    fit_edge edge = FIT_FIRST_EDGE((f32)place - 0.5f - (is_column ? p[0] : p[1]), width);
    const fit_cell cell = fit_cell_next(&edge, width);
    if (is_column) {
      KEEP_COLUMN(axes, place, cell)
    } else {
      axes->row[place] = cell;
    }
  }
  BARRIER();
}
#define BEGIN_LINES(source, p, widths)                                                             \
  LOCAL const fit_axes *axes = (source)->axes;                                                     \
  fit_place(source, p, widths);                                                                    \
  for (int number = (int)LOCAL_ID_X; number < ROWS * SEGMENTS; number += GROUP_ITEMS) {            \
    const int row = number / SEGMENTS, first = (number - row * SEGMENTS) * SEGMENT;                \
    const int end = first + SEGMENT < COLUMNS ? first + SEGMENT : COLUMNS;                         \
    const fit_cell cell = axes->row[row];
#else
DEVICE void fit_place(fit_axes *axes, f32 x, fit_width width) {
  fit_edge edge = FIT_FIRST_EDGE(-0.5f - x, width);
  FOR_COLUMNS {
    const fit_cell cell = fit_cell_next(&edge, width);
    KEEP_COLUMN(axes, column, cell)
  }
}
#define BEGIN_LINES(source, p, widths)                                                             \
  fit_axes held_axes;                                                                              \
  const fit_axes *axes = &held_axes;                                                               \
  fit_place(&held_axes, (p)[0], (widths)->x);                                                      \
  fit_edge edge = FIT_FIRST_EDGE(-0.5f - (p)[1], (widths)->y);                                     \
  for (int row = 0; row < ROWS; row++) {                                                           \
    const fit_cell cell = fit_cell_next(&edge, (widths)->y);
#endif
#define END_LINES }
#define LINE_LEVEL (light * cell.share)
#define PIXEL_MEAN(widths, level, row, column)                                                     \
  MAD_f32(level, axes->column_share[column], background)

//@ fit_total
/* Adds up the values of a group's items, always in the same order. */
DEVICE void fit_total(const fit_source *source, f32 *values, int count) {
#if SHARED
  LOCAL f32 *partial = source->partial;
  const int item = (int)LOCAL_ID_X;
  BARRIER();
  UNROLL for (int i = 0; i < count; i++) partial[i * (GROUP_ITEMS + 1) + item] = values[i];
  BARRIER();
  for (int i = item; i < count; i += GROUP_ITEMS) {
    f32 sum = 0.0f;
    for (int k = 0; k < GROUP_ITEMS; k++) sum += partial[i * (GROUP_ITEMS + 1) + k];
    partial[i * (GROUP_ITEMS + 1)] = sum;
  }
  BARRIER();
  UNROLL for (int i = 0; i < count; i++) values[i] = partial[i * (GROUP_ITEMS + 1)];
#endif
}

/* `values` has the gradient, then the lower triangle of the information, and for Newton's method
 * the amounts that second derivatives subtract from its diagonal. */
#if CURVED
#define VALUES (2 * PARAMETERS + PACKED)
#else
#define VALUES (PARAMETERS + PACKED)
#endif
#define INFORMATION(a, b) values[PARAMETERS + AT(a, b)]

//@ fit_sums
/* ---- Gradient and information ---------------------------------------------------------------- */

/* SOLVER: 0 Fisher scoring, 1 Newton, 2 Levenberg–Marquardt, 3 least squares. In the `last` pass,
 * all of them get the Fisher information. */
DEVICE void fit_evaluate(const fit_source *source, const f32 *p, const fit_widths *widths,
                         boolean last, f32 *values) {
  UNROLL for (int i = 0; i < VALUES; i++) values[i] = 0.0f;
  const f32 light = p[2], background = p[3];
  BEGIN_LINES(source, p, widths)
  const f32 level = light * cell.share;
  f32 q = 0.0f, q_share = 0.0f, q_centre = 0.0f;
  f32 w = 0.0f, w_share = 0.0f, w_centre = 0.0f;
  f32 w_share_share = 0.0f, w_share_centre = 0.0f, w_centre_centre = 0.0f;
#if SLOPES
  f32 q_sigma = 0.0f;
#endif
#if WIDTHS
  f32 w_sigma = 0.0f, w_share_sigma = 0.0f, w_centre_sigma = 0.0f, w_sigma_sigma = 0.0f;
#if CURVED
  f32 q_twice = 0.0f;
#endif
#endif
  FOR_COLUMNS {
    f32 extra;
    const f32 electrons = fit_take(source, row, column, &extra);
    const f32 share = axes->column_share[column], centre = axes->column_centre[column];
#if CAMERA == 2
    const f32 mean = MAD_f32(level, share, background) + extra;
#else
    const f32 mean = MAD_f32(level, share, background);
#endif
    f32 weight;
    const f32 score = fit_step_score(electrons, mean, extra, last, &weight);
    const f32 of_share = weight * share, of_centre = weight * centre;
    q += score;
    q_share = MAD_f32(score, share, q_share);
    q_centre = MAD_f32(score, centre, q_centre);
    w += weight;
    w_share += of_share;
    w_centre += of_centre;
    w_share_share = MAD_f32(of_share, share, w_share_share);
    w_share_centre = MAD_f32(of_share, centre, w_share_centre);
    w_centre_centre = MAD_f32(of_centre, centre, w_centre_centre);
#if SLOPES
    const f32 sigma = axes->column_sigma[column];
    q_sigma = MAD_f32(score, sigma, q_sigma);
#endif
#if WIDTHS
    const f32 of_sigma = weight * sigma;
    w_sigma += of_sigma;
    w_share_sigma = MAD_f32(of_share, sigma, w_share_sigma);
    w_centre_sigma = MAD_f32(of_centre, sigma, w_centre_sigma);
    w_sigma_sigma = MAD_f32(of_sigma, sigma, w_sigma_sigma);
#if CURVED
    q_twice = MAD_f32(score, axes->column_twice[column], q_twice);
#endif
#endif
  }
  /* The row's factors of the columns' derivatives by x, y and N. */
  const f32 x = level, y = light * cell.by_centre, n = cell.share;
  values[0] = MAD_f32(x, q_centre, values[0]);
  values[1] = MAD_f32(y, q_share, values[1]);
  values[2] = MAD_f32(n, q_share, values[2]);
  values[3] += q;
  const f32 x_centre = x * w_share_centre, y_share = y * w_share_share, n_share = n * w_share_share;
  INFORMATION(0, 0) = MAD_f32(x * x, w_centre_centre, INFORMATION(0, 0));
  INFORMATION(1, 0) = MAD_f32(x_centre, y, INFORMATION(1, 0));
  INFORMATION(1, 1) = MAD_f32(y_share, y, INFORMATION(1, 1));
  INFORMATION(2, 0) = MAD_f32(x_centre, n, INFORMATION(2, 0));
  INFORMATION(2, 1) = MAD_f32(y_share, n, INFORMATION(2, 1));
  INFORMATION(2, 2) = MAD_f32(n_share, n, INFORMATION(2, 2));
  INFORMATION(3, 0) = MAD_f32(x, w_centre, INFORMATION(3, 0));
  INFORMATION(3, 1) = MAD_f32(y, w_share, INFORMATION(3, 1));
  INFORMATION(3, 2) = MAD_f32(n, w_share, INFORMATION(3, 2));
  INFORMATION(3, 3) += w;
#if WIDTHS == 1
  /* by the width: `a` times the column's by_sigma and `b` times its share */
  const f32 a = level * widths->slope_x, b = light * cell.by_sigma * widths->slope_y;
  values[4] = MAD_f32(a, q_sigma, MAD_f32(b, q_share, values[4]));
  const f32 with_centre = MAD_f32(a, w_centre_sigma, b * w_share_centre);
  const f32 with_share = MAD_f32(a, w_share_sigma, b * w_share_share);
  const f32 with_sigma = MAD_f32(a, w_sigma_sigma, b * w_share_sigma);
  INFORMATION(4, 0) = MAD_f32(x, with_centre, INFORMATION(4, 0));
  INFORMATION(4, 1) = MAD_f32(y, with_share, INFORMATION(4, 1));
  INFORMATION(4, 2) = MAD_f32(n, with_share, INFORMATION(4, 2));
  INFORMATION(4, 3) = MAD_f32(a, w_sigma, MAD_f32(b, w_share, INFORMATION(4, 3)));
  INFORMATION(4, 4) = MAD_f32(a, with_sigma, MAD_f32(b, with_share, INFORMATION(4, 4)));
#elif WIDTHS == 2
  const f32 a = level, b = light * cell.by_sigma;
  values[4] = MAD_f32(a, q_sigma, values[4]);
  values[5] = MAD_f32(b, q_share, values[5]);
  const f32 a_share = a * w_share_sigma, b_share = b * w_share_share;
  INFORMATION(4, 0) = MAD_f32(x * a, w_centre_sigma, INFORMATION(4, 0));
  INFORMATION(4, 1) = MAD_f32(y, a_share, INFORMATION(4, 1));
  INFORMATION(4, 2) = MAD_f32(n, a_share, INFORMATION(4, 2));
  INFORMATION(4, 3) = MAD_f32(a, w_sigma, INFORMATION(4, 3));
  INFORMATION(4, 4) = MAD_f32(a * a, w_sigma_sigma, INFORMATION(4, 4));
  INFORMATION(5, 0) = MAD_f32(x_centre, b, INFORMATION(5, 0));
  INFORMATION(5, 1) = MAD_f32(y, b_share, INFORMATION(5, 1));
  INFORMATION(5, 2) = MAD_f32(n, b_share, INFORMATION(5, 2));
  INFORMATION(5, 3) = MAD_f32(b, w_share, INFORMATION(5, 3));
  INFORMATION(5, 4) = MAD_f32(a_share, b, INFORMATION(5, 4));
  INFORMATION(5, 5) = MAD_f32(b_share, b, INFORMATION(5, 5));
#endif
#if CURVED
#define SECOND(a) values[PARAMETERS + PACKED + (a)]
  SECOND(0) = MAD_f32(level * widths->x.inverse, q_sigma, SECOND(0));
  SECOND(1) = MAD_f32(light * cell.by_sigma * widths->y.inverse, q_share, SECOND(1));
#if WIDTHS == 1
  const f32 slope_x = widths->slope_x, slope_y = widths->slope_y;
  const f32 by_row =
      MAD_f32(cell.by_sigma_twice * slope_y, slope_y, cell.by_sigma * widths->bend_y);
  SECOND(4) += light * (cell.share * (slope_x * slope_x * q_twice + widths->bend_x * q_sigma) +
                        2.0f * slope_x * slope_y * cell.by_sigma * q_sigma + by_row * q_share);
#elif WIDTHS == 2
  SECOND(4) = MAD_f32(level, q_twice, SECOND(4));
  SECOND(5) = MAD_f32(light * cell.by_sigma_twice, q_share, SECOND(5));
#endif
#endif
  END_LINES
  fit_total(source, values, VALUES);
}
