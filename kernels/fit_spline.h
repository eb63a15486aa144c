/* SPDX-License-Identifier: MIT */
/* Measured spots: a cubic spline instead of a product of two Gaussians. Replaces fit_shares and
 * fit_sums.
 *
 * All pixels of an ROI are at the same position within their cells of the spline. Each cell has 64
 * coefficients: number 16 k + 4 j + i is the factor of z^k y^j x^i. */
//@ fit_spline

/* The spot's place: the first pixel's cell, and the position within it. */
typedef struct fit_widths {
  GLOBAL const f32 *cell;
  i64 line; /* from one row of cells to the next */
  f32 x, y, z, per_step;
} fit_widths;

/* A pixel's share of the light, and its derivatives by the spot's position. */
typedef struct fit_voxel {
  f32 share, by_x, by_y, by_z;
} fit_voxel;

#if SHARED
typedef struct fit_axes {
  f32 none;
} fit_axes;
#endif

/* The cell that contains `at`, or the nearest of 0 … last. */
DEVICE int fit_cell_of(f32 at, int last) {
  return at >= (f32)last ? last : at > 0.0f ? (int)at : 0;
}

DEVICE fit_widths fit_widths_of(const fit_setup *setup, const f32 *p) {
  fit_widths widths;
  const f32 x = setup->spot_x - p[0], y = setup->spot_y - p[1];
  const f32 z = (p[4] - setup->z_first) * setup->per_step;
  const int column = fit_cell_of(x, setup->cell_columns - COLUMNS);
  const int row = fit_cell_of(y, setup->cell_rows - ROWS);
  const int plane = fit_cell_of(z, setup->cell_planes - 1);
  const i64 cell = ((i64)plane * setup->cell_rows + row) * setup->cell_columns + column;
  widths.cell = setup->coefficients + cell * 64;
  widths.line = (i64)setup->cell_columns * 64;
  widths.x = x - (f32)column;
  widths.y = y - (f32)row;
  widths.z = z - (f32)plane;
  widths.per_step = setup->per_step;
  return widths;
}

/* Horner's scheme along z, then x, then y, including the derivatives. */
DEVICE fit_voxel fit_voxel_at(const fit_widths *at, int row, int column) {
  GLOBAL const f32 *c = at->cell + row * at->line + (i64)column * 64;
  const f32 x = at->x, y = at->y, z = at->z;
  f32 e = 0.0f, e_x = 0.0f, e_y = 0.0f, e_z = 0.0f;
  UNROLL for (int j = 3; j >= 0; j--) {
    f32 line = 0.0f, line_x = 0.0f, line_z = 0.0f;
    UNROLL for (int i = 3; i >= 0; i--) {
      const int n = 4 * j + i;
      f32 slope = c[48 + n];
      f32 value = MAD_f32(slope, z, c[32 + n]);
      slope = MAD_f32(slope, z, value);
      value = MAD_f32(value, z, c[16 + n]);
      slope = MAD_f32(slope, z, value);
      value = MAD_f32(value, z, c[n]);
      line_x = MAD_f32(line_x, x, line);
      line = MAD_f32(line, x, value);
      line_z = MAD_f32(line_z, x, slope);
    }
    e_y = MAD_f32(e_y, y, e);
    e = MAD_f32(e, y, line);
    e_x = MAD_f32(e_x, y, line_x);
    e_z = MAD_f32(e_z, y, line_z);
  }
  fit_voxel voxel;
  voxel.share = e;
  voxel.by_x = -e_x;
  voxel.by_y = -e_y;
  voxel.by_z = e_z * at->per_step;
  return voxel;
}

/* The mean of a pixel, kept positive: a measured spot may be negative where there is no light. */
DEVICE f32 fit_lit(f32 light, f32 share, f32 background) {
  const f32 mean = MAD_f32(light, share, background);
  return mean > LEAST_PHOTONS ? mean : LEAST_PHOTONS;
}

#if SHARED
#define BEGIN_LINES(source, p, widths)                                                             \
  for (int number = (int)LOCAL_ID_X; number < ROWS * SEGMENTS; number += GROUP_ITEMS) {            \
    const int row = number / SEGMENTS, first = (number - row * SEGMENTS) * SEGMENT;                \
    const int end = first + SEGMENT < COLUMNS ? first + SEGMENT : COLUMNS;
#else
#define BEGIN_LINES(source, p, widths) for (int row = 0; row < ROWS; row++) {
#endif
#define END_LINES  }
#define LINE_LEVEL light
#define PIXEL_MEAN(widths, level, row, column)                                                     \
  fit_lit(level, fit_voxel_at(widths, row, column).share, background)

/* The same as fit_evaluate of fit_sums. */
//@ fit_spline_sums
DEVICE void fit_evaluate(const fit_source *source, const f32 *p, const fit_widths *widths,
                         boolean last, f32 *values) {
  UNROLL for (int i = 0; i < VALUES; i++) values[i] = 0.0f;
  const f32 light = p[2], background = p[3];
  BEGIN_LINES(source, p, widths)
  FOR_COLUMNS {
    f32 extra;
    const f32 electrons = fit_take(source, row, column, &extra);
    const fit_voxel voxel = fit_voxel_at(widths, row, column);
    const f32 mean = fit_lit(light, voxel.share, background) + FIT_ON_TOP(extra);
    f32 weight;
    const f32 score = fit_step_score(electrons, mean, extra, last, &weight);
    const f32 slope[PARAMETERS] = {light * voxel.by_x, light * voxel.by_y, voxel.share, 1.0f,
                                   light * voxel.by_z};
    UNROLL for (int a = 0; a < PARAMETERS; a++) {
      const f32 weighted = weight * slope[a];
      values[a] = MAD_f32(score, slope[a], values[a]);
      UNROLL for (int b = 0; b <= a; b++) {
        INFORMATION(a, b) = MAD_f32(weighted, slope[b], INFORMATION(a, b));
      }
    }
  }
  END_LINES
  fit_total(source, values, VALUES);
}
