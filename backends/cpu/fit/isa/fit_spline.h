/* SPDX-License-Identifier: MIT */
/* Measured spots: values and derivatives of a cubic spline in every pixel.
 *
 * All pixels of an ROI are at the same position within their cells, so that the powers of x and y
 * are computed once: 16 products, and their derivatives. A pixel's 64 coefficients are contiguous,
 * 16 per power of z. They are summed over z first (Horner's scheme, with the derivative), then
 * multiplied by the 16 products. ROIs use different cells, so lanes are processed one by one, with
 * vectors of coefficients. The vectors of all lanes are then summed and transposed into lanes. */
#ifndef CPU_FIT_FIT_SPLINE_H
#define CPU_FIT_FIT_SPLINE_H

#include "fit_readout.h"
#include "fit_work.h"

#define FIT_PARTS (16 / FIT_LANES) /* vectors per power of z */

/* The position of one lane's spot. */
typedef struct fit_placement {
  const float *cell;                           /* of the first pixel */
  float z;                                     /* within the cell */
  vf e[FIT_PARTS], x[FIT_PARTS], y[FIT_PARTS]; /* products of powers; derivatives by position */
} fit_placement;

FIT_INLINE vf fit_coefficients(const float *from) {
  vf v;
  memcpy(&v, from, sizeof v);
  return v;
}

#if FIT_LANES >= 8
/* Sums the elements of each row: element i belongs to rows[i]. */
FIT_INLINE __m256 fit_sum_eight(const __m256 *rows) {
  const __m256 a =
      _mm256_hadd_ps(_mm256_hadd_ps(rows[0], rows[1]), _mm256_hadd_ps(rows[2], rows[3]));
  const __m256 b =
      _mm256_hadd_ps(_mm256_hadd_ps(rows[4], rows[5]), _mm256_hadd_ps(rows[6], rows[7]));
  return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}
#endif

/* Sums the elements of each part: lane i belongs to parts[i]. */
FIT_INLINE vf fit_turn(const vf *parts) {
#if FIT_LANES == 16
  __m256 half[16];
  FIT_UNROLL
  for (int i = 0; i < 16; i++) {
    const __m512 part = (__m512)parts[i];
    const __m256d high = _mm512_extractf64x4_pd(_mm512_castps_pd(part), 1);
    half[i] = _mm256_add_ps(_mm512_castps512_ps256(part), _mm256_castpd_ps(high));
  }
  const __m512d low = _mm512_castpd256_pd512(_mm256_castps_pd(fit_sum_eight(half)));
  return (vf)_mm512_insertf64x4(low, _mm256_castps_pd(fit_sum_eight(half + 8)), 1);
#elif FIT_LANES == 8
  return (vf)fit_sum_eight((const __m256 *)parts);
#else
  vf sum = {0};
  FIT_UNROLL
  for (int i = 0; i < 4; i++) sum[i] = (parts[i][0] + parts[i][1]) + (parts[i][2] + parts[i][3]);
  return sum;
#endif
}

/* Draws one lane's row of pixels: vectors whose elements sum up to the value and the derivatives by
 * x, y and z, in parts[column][quantity][lane]. */
FIT_INLINE void fit_draw_lane(const fit_placement *at, const float *cell, int32_t columns, int lane,
                              vf *parts) {
  const vf z = v_set(at->z);
  for (int32_t j = 0; j < columns; j++, cell += COMPUTE_FIT_SPLINE_COEFFICIENTS) {
    vf e = v_set(0), x = v_set(0), y = v_set(0), by_z = v_set(0);
    FIT_UNROLL
    for (int q = 0; q < FIT_PARTS; q++) {
      const float *c = cell + q * FIT_LANES;
      vf slope = fit_coefficients(c + 48);
      vf value = v_fma(slope, z, fit_coefficients(c + 32));
      slope = v_fma(slope, z, value);
      value = v_fma(value, z, fit_coefficients(c + 16));
      slope = v_fma(slope, z, value);
      value = v_fma(value, z, fit_coefficients(c));
      e = v_fma(value, at->e[q], e);
      x = v_fma(value, at->x[q], x);
      y = v_fma(value, at->y[q], y);
      by_z = v_fma(slope, at->e[q], by_z);
    }
    parts[(j * 4 + 0) * FIT_LANES + lane] = e;
    parts[(j * 4 + 1) * FIT_LANES + lane] = x;
    parts[(j * 4 + 2) * FIT_LANES + lane] = y;
    parts[(j * 4 + 3) * FIT_LANES + lane] = by_z;
  }
}

/* The powers of one lane's position in its cell, and their derivatives by the spot's position. */
FIT_INLINE void fit_powers(float t, float *power, float *slope) {
  power[0] = 1;
  power[1] = t;
  power[2] = t * t;
  power[3] = t * t * t;
  slope[0] = 0;
  slope[1] = -1;
  slope[2] = -2 * t;
  slope[3] = -3 * t * t;
}

/* The nearest cells among 0 … last, and the positions in them. NaN gives cell 0. */
FIT_INLINE vi fit_cells(vf at, int32_t last, vf *place) {
  const vi cell = __builtin_convertvector(v_clamp(at, v_set(0), v_set((float)last)), vi);
  *place = at - __builtin_convertvector(cell, vf);
  return cell;
}

FIT_INLINE void fit_place_spots(const fit_work *work, const vf *theta, fit_placement *at) {
  const compute_fit_problem *p = work->problem;
  const float *coefficients = (const float *)(const void *)work->job->spline.data;
  const float per_step = (float)(1 / p->z_step);
  vf x, y, z;
  const vi column =
      fit_cells(v_set((float)p->spot[0]) - theta[FIT_X], p->cells[2] - p->columns, &x);
  const vi row = fit_cells(v_set((float)p->spot[1]) - theta[FIT_Y], p->cells[1] - p->rows, &y);
  const vi plane = fit_cells((theta[FIT_Z] - (float)p->z_first) * per_step, p->cells[0] - 1, &z);
  for (int lane = 0; lane < FIT_LANES; lane++) {
    const int64_t cell =
        ((int64_t)plane[lane] * p->cells[1] + row[lane]) * p->cells[2] + column[lane];
    float across[4], by_x[4], down[4], by_y[4];
    float *const e = (float *)at[lane].e, *const ex = (float *)at[lane].x,
                 *const ey = (float *)at[lane].y;
    at[lane].cell = coefficients + cell * COMPUTE_FIT_SPLINE_COEFFICIENTS;
    at[lane].z = z[lane];
    fit_powers(x[lane], across, by_x);
    fit_powers(y[lane], down, by_y);
    for (int j = 0; j < 4; j++)
      for (int i = 0; i < 4; i++) {
        e[4 * j + i] = down[j] * across[i];
        ex[4 * j + i] = down[j] * by_x[i];
        ey[4 * j + i] = by_y[j] * across[i];
      }
  }
}

/* Draws values and derivatives in the pixels of the active lanes; other lanes are arbitrary. */
FIT_APART void fit_draw_spline(fit_work *work, const vf *theta) {
  const int64_t line = (int64_t)work->problem->cells[2] * COMPUTE_FIT_SPLINE_COEFFICIENTS;
  const vf per_step = v_set((float)(1 / work->problem->z_step));
  const uint32_t active = v_bits(work->active);
  fit_placement at[FIT_LANES];
  fit_place_spots(work, theta, at);
  for (int32_t i = 0; i < work->rows; i++) {
    for (uint32_t left = active; left; left &= left - 1) {
      const int lane = __builtin_ctz(left);
      fit_draw_lane(&at[lane], at[lane].cell + i * line, work->columns, lane, work->parts);
    }
    for (int32_t j = 0; j < work->columns; j++) {
      const vf *parts = work->parts + (int64_t)j * 4 * FIT_LANES;
      fit_voxel *to = &work->voxel[i * work->columns + j];
      to->e = fit_turn(parts);
      to->x = fit_turn(parts + FIT_LANES);
      to->y = fit_turn(parts + 2 * FIT_LANES);
      to->z = fit_turn(parts + 3 * FIT_LANES) * per_step;
    }
  }
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* Adds a pixel with the residual r and the weight w. */
FIT_INLINE void fit_add_voxel(const fit_voxel *v, vf r, vf w, fit_sums *sums) {
  const vf slope[] = {
      [FIT_X] = v->x, [FIT_Y] = v->y, [FIT_N] = v->e, [FIT_BG] = v_set(1), [FIT_Z] = v->z};
  FIT_UNROLL
  for (int a = 0; a < FIT_COUNT; a++) {
    const vf weighted = w * slope[a];
    sums->gradient[a] = v_fma(r, slope[a], sums->gradient[a]);
    FIT_UNROLL
    for (int b = 0; b <= a; b++)
      sums->information[FIT_AT(a, b)] = v_fma(weighted, slope[b], sums->information[FIT_AT(a, b)]);
  }
}

FIT_INLINE void fit_sum_voxels(const int weight, const int mode, const fit_work *work, vf n, vf bg,
                               fit_sums *result) {
  fit_sums sums;
  memset(&sums, 0, sizeof sums);
  for (int32_t i = 0; i < work->rows; i++)
    for (int32_t j = 0; j < work->columns; j++) {
      const int32_t p = i * work->columns + j;
      const vf m = fit_mean_at(work, n, bg, i, j) + work->extra[p];
      const vf one = weight ? work->weight[p] : v_set(1);
      vf w = one * v_reciprocal(m), r = v_fms(work->data[p], w, one);
      if (mode == FIT_SQUARES) {
        w = one;
        r = one * (work->data[p] - m);
      } else if (mode == FIT_CONVOLVED) {
        r = v_fms(fit_infer(work->data[p], m, work->readout[p]).mean, w, one);
        w = one * fit_readout_weight(m, work->readout[p]);
      }
      fit_add_voxel(&work->voxel[p], r, w, &sums);
    }
  *result = sums;
}

#endif
