/* SPDX-License-Identifier: MIT */
/* Sums over an ROI's pixels: the score and the Fisher information.
 *
 * Every derivative of the expected image is a function of the column times a function of the row.
 * So a row needs only the sums over its columns of the residual and of the weight 1/m, times
 * products of column functions; the row's factors are applied to these sums once. Factors of N are
 * applied at the end. */
#ifndef CPU_FIT_FIT_SUMS_H
#define CPU_FIT_FIT_SUMS_H

#include "fit_spline.h"
#include "fit_work.h"

/* Sums over the columns of one row. */
typedef struct fit_row {
  vf r, re, rx, rs;                               /* residuals, times E, X, S */
  vf w, we, wx, ws, wee, wex, wxx, wes, wxs, wss; /* weights, times products */
} fit_row;

FIT_INLINE void fit_row_sums(const int widths, const int extra, const int weight, const int mode,
                             const fit_work *work, int32_t i, vf n, vf bg, fit_row *sum) {
  const int32_t columns = work->columns;
  const vf *data = work->data + (int64_t)i * columns;
  const vf *extras = work->extra + (int64_t)i * columns;
  const vf *weights = work->weight + (int64_t)i * columns;
  const vf *readout = work->readout + (int64_t)i * columns;
  const vf factor = n * work->row[i].e, none = v_set(0);
  vf r0 = none, re = none, rx = none, rs = none;
  vf w0 = none, we = none, wx = none, wee = none, wex = none, wxx = none;
  vf ws = none, wes = none, wxs = none, wss = none;
  for (int32_t j = 0; j < columns; j++) {
    const fit_pixel *c = &work->column[j];
    vf m = v_fma(factor, c->e, bg), r, w;
    if (extra) m += extras[j];
    if (mode == FIT_SQUARES) {
      w = weight ? weights[j] : v_set(1);
      r = w * (data[j] - m);
    } else if (mode == FIT_CONVOLVED) {
      w = weights[j] * fit_readout_weight(m, readout[j]);
      r = weights[j] * v_fms(fit_infer(data[j], m, readout[j]).mean, v_reciprocal(m), v_set(1));
    } else {
      w = v_reciprocal(m);
      if (weight) w *= weights[j];
      r = v_fms(data[j], w, weight ? weights[j] : v_set(1));
    }
    r0 += r;
    re = v_fma(r, c->e, re);
    rx = v_fma(r, c->x, rx);
    w0 += w;
    we = v_fma(w, c->e, we);
    wx = v_fma(w, c->x, wx);
    wee = v_fma(w, c->ee, wee);
    wex = v_fma(w, c->ex, wex);
    wxx = v_fma(w, c->xx, wxx);
    if (!widths) continue;
    rs = v_fma(r, c->s, rs);
    ws = v_fma(w, c->s, ws);
    wes = v_fma(w, c->es, wes);
    wxs = v_fma(w, c->xs, wxs);
    wss = v_fma(w, c->ss, wss);
  }
  *sum = (fit_row){r0, re, rx, rs, w0, we, wx, ws, wee, wex, wxx, wes, wxs, wss};
}

/* Adds a row's sums, times the row's factors, to the total. */
FIT_INLINE void fit_add_row(const int widths, const fit_row *s, const fit_pixel *row,
                            fit_sums *sums) {
  const vf e = row->e, x = row->x;
  const vf ee = e * e, ex = e * x, xx = x * x;
  vf *g = sums->gradient, *f = sums->information;
#define FIT_ADD(a, b, factor, sum) f[FIT_AT(a, b)] = v_fma(factor, sum, f[FIT_AT(a, b)])
  g[FIT_X] = v_fma(e, s->rx, g[FIT_X]);
  g[FIT_Y] = v_fma(x, s->re, g[FIT_Y]);
  g[FIT_N] = v_fma(e, s->re, g[FIT_N]);
  g[FIT_BG] += s->r;
  FIT_ADD(FIT_X, FIT_X, ee, s->wxx);
  FIT_ADD(FIT_Y, FIT_X, ex, s->wex);
  FIT_ADD(FIT_Y, FIT_Y, xx, s->wee);
  FIT_ADD(FIT_N, FIT_X, ee, s->wex);
  FIT_ADD(FIT_N, FIT_Y, ex, s->wee);
  FIT_ADD(FIT_N, FIT_N, ee, s->wee);
  FIT_ADD(FIT_BG, FIT_X, e, s->wx);
  FIT_ADD(FIT_BG, FIT_Y, x, s->we);
  FIT_ADD(FIT_BG, FIT_N, e, s->we);
  f[FIT_AT(FIT_BG, FIT_BG)] += s->w;
  if (!widths) return;
  const vf t = row->s, et = e * t, xt = x * t;
  g[FIT_SX] = v_fma(e, s->rs, g[FIT_SX]);
  g[FIT_SY] = v_fma(t, s->re, g[FIT_SY]);
  FIT_ADD(FIT_SX, FIT_X, ee, s->wxs);
  FIT_ADD(FIT_SX, FIT_Y, ex, s->wes);
  FIT_ADD(FIT_SX, FIT_N, ee, s->wes);
  FIT_ADD(FIT_SX, FIT_BG, e, s->ws);
  FIT_ADD(FIT_SX, FIT_SX, ee, s->wss);
  FIT_ADD(FIT_SY, FIT_X, et, s->wex);
  FIT_ADD(FIT_SY, FIT_Y, xt, s->wee);
  FIT_ADD(FIT_SY, FIT_N, et, s->wee);
  FIT_ADD(FIT_SY, FIT_BG, t, s->we);
  FIT_ADD(FIT_SY, FIT_SX, et, s->wes);
  FIT_ADD(FIT_SY, FIT_SY, t * t, s->wee);
#undef FIT_ADD
}

/* Applies the factors of N to derivatives by x, y and the widths or z. */
FIT_INLINE void fit_scale(const int count, vf n, fit_sums *sums) {
  FIT_UNROLL
  for (int a = 0; a < count; a++) {
    const int scaled = a != FIT_N && a != FIT_BG;
    if (scaled) sums->gradient[a] *= n;
    FIT_UNROLL
    for (int b = 0; b <= a; b++) {
      vf *f = &sums->information[FIT_AT(a, b)];
      if (scaled) *f *= n;
      if (b != FIT_N && b != FIT_BG) *f *= n;
    }
  }
}

FIT_INLINE void fit_sum_as(const int widths, const int extra, const int weight, const int mode,
                           const fit_work *work, vf n, vf bg, fit_sums *result) {
  if (FIT_MODEL == COMPUTE_FIT_SPLINE) {
    fit_sum_voxels(weight, mode, work, n, bg, result);
    fit_scale(FIT_COUNT, n, result);
    return;
  }
  fit_sums sums;
  memset(&sums, 0, sizeof sums);
  for (int32_t i = 0; i < work->rows; i++) {
    fit_row row;
    fit_row_sums(widths, extra, weight, mode, work, i, n, bg, &row);
    fit_add_row(widths, &row, &work->row[i], &sums);
  }
  fit_scale(widths ? FIT_WIDE : FIT_BG + 1, n, &sums);
  *result = sums;
}

/* Only two of the options cost time per pixel. */
#define FIT_WIDTHS (FIT_MODEL != COMPUTE_FIT_XYNB)

FIT_APART void fit_sum_plain(const fit_work *work, vf n, vf bg, fit_sums *sums) {
  fit_sum_as(FIT_WIDTHS, 0, 0, FIT_LIKELIHOOD, work, n, bg, sums);
}

FIT_APART void fit_sum_noisy(const fit_work *work, vf n, vf bg, fit_sums *sums) {
  fit_sum_as(FIT_WIDTHS, 1, 0, FIT_LIKELIHOOD, work, n, bg, sums);
}

FIT_APART void fit_sum_masked(const fit_work *work, vf n, vf bg, fit_sums *sums) {
  fit_sum_as(FIT_WIDTHS, 1, 1, FIT_LIKELIHOOD, work, n, bg, sums);
}

FIT_APART void fit_sum_squares(const fit_work *work, vf n, vf bg, fit_sums *sums) {
  fit_sum_as(FIT_WIDTHS, 1, 1, FIT_SQUARES, work, n, bg, sums);
}

FIT_APART void fit_sum_convolved(const fit_work *work, vf n, vf bg, fit_sums *sums) {
  fit_sum_as(FIT_WIDTHS, 0, 1, FIT_CONVOLVED, work, n, bg, sums);
}

FIT_INLINE void fit_sum(fit_mode mode, const fit_work *work, vf n, vf bg, fit_sums *sums) {
  if (mode == FIT_SQUARES)
    fit_sum_squares(work, n, bg, sums);
  else if (work->convolved)
    fit_sum_convolved(work, n, bg, sums);
  else if (work->has_weight)
    fit_sum_masked(work, n, bg, sums);
  else if (work->has_extra)
    fit_sum_noisy(work, n, bg, sums);
  else
    fit_sum_plain(work, n, bg, sums);
}

/* ---- The models ------------------------------------------------------------------------------ */

/* The models: the widths that their parameters determine, and the chain rule from sums for the two
 * widths to sums for the model's parameters. */

/* Lower limit of 1 + t² + A t³ + B t⁴, so that a width exists for any A and B. */
#define FIT_LEAST_CURVE 1e-3f

/* The widths, and their first and second derivatives by the model's parameter. */
typedef struct fit_widths {
  vf sigma[2], slope[2], bend[2];
} fit_widths;

/* XYZNB: the width along `axis` at z. */
FIT_INLINE void fit_defocus(const compute_fit_problem *problem, vf z, vf focus, int axis,
                            const int second, fit_widths *widths) {
  const float depth = (float)(1 / problem->depth);
  const float shift = (float)(axis == 0 ? -problem->gamma : problem->gamma) * depth;
  const vf a = v_set((float)problem->a[axis]), b = v_set((float)problem->b[axis]);
  const vf t = v_fma(z, v_set(depth), v_set(shift)), t2 = t * t;
  const vf curve = v_fma(t2, v_fma(t, v_fma(t, b, a), v_set(1)), v_set(1));
  const vm real = v_less(v_set(FIT_LEAST_CURVE), curve);
  const vf sigma = focus * v_sqrt(v_max(curve, v_set(FIT_LEAST_CURVE)));
  const vf inverse = v_reciprocal(sigma), half = focus * focus * 0.5f;
  const vf curve1 = t * v_fma(t, v_fma(t * 4, b, a * 3), v_set(2)) * depth;
  const vf slope = v_keep(real, half * curve1 * inverse);
  widths->sigma[axis] = sigma;
  widths->slope[axis] = slope;
  if (!second) return;
  const vf curve2 = v_fma(t, v_fma(t * 12, b, a * 6), v_set(2)) * (depth * depth);
  widths->bend[axis] = v_keep(real, v_fma(half, curve2, -(slope * slope)) * inverse);
}

FIT_INLINE void fit_widths_at(const fit_work *work, const vf *theta, const int second,
                              fit_widths *widths) {
  for (int axis = 0; axis < 2; axis++) {
    widths->slope[axis] = v_set(1);
    widths->bend[axis] = v_set(0);
    if (FIT_MODEL == COMPUTE_FIT_XYNB) widths->sigma[axis] = work->sigma[axis];
    if (FIT_MODEL == COMPUTE_FIT_XYNBS) widths->sigma[axis] = theta[FIT_S];
    if (FIT_MODEL == COMPUTE_FIT_XYNBSXSY) widths->sigma[axis] = theta[FIT_SX + axis];
    if (FIT_MODEL == COMPUTE_FIT_XYZNB)
      fit_defocus(work->problem, theta[FIT_Z], work->sigma[axis], axis, second, widths);
  }
}

FIT_INLINE void fit_draw_as(fit_work *work, const vf *theta, const int second, fit_widths *widths) {
  fit_widths_at(work, theta, second, widths);
  fit_axis(theta[FIT_X], widths->sigma[0], work->columns, FIT_WIDTHS, second, work->sampled,
           work->column);
  fit_axis(theta[FIT_Y], widths->sigma[1], work->rows, FIT_WIDTHS, second, work->sampled,
           work->row);
  fit_products(work->columns, FIT_WIDTHS || second, work->column);
}

/* Rows and columns of the expected image. */
FIT_APART void fit_draw(fit_work *work, const vf *theta, fit_widths *widths) {
  if (FIT_MODEL == COMPUTE_FIT_SPLINE) {
    fit_draw_spline(work, theta);
    return;
  }
  fit_draw_as(work, theta, 0, widths);
}

/* Draws second derivatives as well. */
FIT_APART void fit_draw_bent(fit_work *work, const vf *theta, fit_widths *widths) {
  fit_draw_as(work, theta, 1, widths);
}

/* Applies the chain rule from the two widths to the one parameter that determines both. */
FIT_INLINE void fit_join(const fit_widths *widths, fit_sums *sums) {
  if (FIT_MODEL != COMPUTE_FIT_XYNBS && FIT_MODEL != COMPUTE_FIT_XYZNB) return;
  const vf p = widths->slope[0], q = widths->slope[1];
  vf *g = sums->gradient, *f = sums->information;
  g[FIT_S] = v_fma(p, g[FIT_SX], q * g[FIT_SY]);
  f[FIT_AT(FIT_S, FIT_S)] =
      v_fma(p * p, f[FIT_AT(FIT_SX, FIT_SX)],
            v_fma(2 * p * q, f[FIT_AT(FIT_SY, FIT_SX)], q * q * f[FIT_AT(FIT_SY, FIT_SY)]));
  FIT_UNROLL
  for (int b = 0; b < FIT_SX; b++)
    f[FIT_AT(FIT_S, b)] = v_fma(p, f[FIT_AT(FIT_SX, b)], q * f[FIT_AT(FIT_SY, b)]);
}

/* Score and information of the model at theta. */
FIT_INLINE void fit_evaluate(fit_mode mode, fit_work *work, const vf *theta) {
  fit_widths widths;
  fit_draw(work, theta, &widths);
  fit_sum(mode, work, theta[FIT_N], theta[FIT_BG], &work->sums);
  fit_join(&widths, &work->sums);
}

/* ---- Linear equations ------------------------------------------------------------------------ */

/* Linear equations of up to six unknowns: A = L D Lᵀ (Cholesky's method without roots), and the
 * inverse's diagonal for the convergence test and the uncertainties. */

/* A pivot below this fraction of its diagonal element is 0 up to rounding. */
#define FIT_LEAST_PIVOT 1e-6f

typedef struct fit_factors {
  vf inverse_pivot[FIT_MOST];
  vf inverse[FIT_PAIRS]; /* of L, below its diagonal of ones */
  vm singular;
} fit_factors;

FIT_INLINE void fit_factor(const int count, const vf *matrix, fit_factors *factors) {
  vf below[FIT_PAIRS];  /* L */
  vf column[FIT_PAIRS]; /* L D */
  vm regular = v_mask(FIT_ALL_LANES);
  FIT_UNROLL
  for (int a = 0; a < count; a++) {
    FIT_UNROLL
    for (int b = 0; b <= a; b++) {
      vf x = matrix[FIT_AT(a, b)];
      FIT_UNROLL
      for (int k = 0; k < b; k++) x = v_fnma(below[FIT_AT(b, k)], column[FIT_AT(a, k)], x);
      column[FIT_AT(a, b)] = x;
      if (b < a) below[FIT_AT(a, b)] = x * factors->inverse_pivot[b];
    }
    const vf pivot = column[FIT_AT(a, a)];
    regular = v_and(regular, v_less(matrix[FIT_AT(a, a)] * FIT_LEAST_PIVOT, pivot));
    factors->inverse_pivot[a] = v_reciprocal(pivot);
  }
  factors->singular = v_and_not(v_mask(FIT_ALL_LANES), regular);
  FIT_UNROLL
  for (int a = 1; a < count; a++) {
    FIT_UNROLL
    for (int b = 0; b < a; b++) {
      vf x = -below[FIT_AT(a, b)];
      FIT_UNROLL
      for (int k = b + 1; k < a; k++)
        x = v_fnma(below[FIT_AT(a, k)], factors->inverse[FIT_AT(k, b)], x);
      factors->inverse[FIT_AT(a, b)] = x;
    }
  }
}

/* x = A⁻¹ b */
FIT_INLINE void fit_apply(const int count, const fit_factors *factors, const vf *b, vf *x) {
  vf y[FIT_MOST];
  FIT_UNROLL
  for (int a = 0; a < count; a++) {
    y[a] = b[a];
    FIT_UNROLL
    for (int k = 0; k < a; k++) y[a] = v_fma(factors->inverse[FIT_AT(a, k)], b[k], y[a]);
  }
  FIT_UNROLL
  for (int a = 0; a < count; a++) y[a] *= factors->inverse_pivot[a];
  FIT_UNROLL
  for (int a = 0; a < count; a++) {
    x[a] = y[a];
    FIT_UNROLL
    for (int k = a + 1; k < count; k++) x[a] = v_fma(factors->inverse[FIT_AT(k, a)], y[k], x[a]);
  }
}

/* Element (a, b), b ≤ a, of A⁻¹. */
FIT_INLINE vf fit_inverse_at(const int count, const fit_factors *factors, const int a,
                             const int b) {
  vf x = factors->inverse_pivot[a];
  if (b < a) x *= factors->inverse[FIT_AT(a, b)];
  for (int k = a + 1; k < count; k++)
    x = v_fma(factors->inverse[FIT_AT(k, a)] * factors->inverse[FIT_AT(k, b)],
              factors->inverse_pivot[k], x);
  return x;
}

/* Removes the parameters in `held` from the equations: their unknowns become 0. */
FIT_INLINE void fit_hold(const int count, const vm *held, fit_sums *sums) {
  FIT_UNROLL
  for (int a = 0; a < count; a++) {
    sums->gradient[a] = v_select(held[a], v_set(0), sums->gradient[a]);
    FIT_UNROLL
    for (int b = 0; b <= a; b++) {
      vf *f = &sums->information[FIT_AT(a, b)];
      *f = v_select(v_or(held[a], held[b]), v_set(a == b ? 1.0f : 0.0f), *f);
    }
  }
}

#endif
