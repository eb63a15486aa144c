/* The models: which widths their parameters mean, and how sums for the two widths become sums for
 * the model's own parameters (the chain rule). */
#ifndef CPU_FIT_CURVE_H
#define CPU_FIT_CURVE_H

#include "fit_sums.h"

/* Least value of 1 + t² + A t³ + B t⁴, so that a width exists for any A and B. */
#define FIT_LEAST_CURVE 1e-3f

/* The widths, and their first and second derivatives by the model's own parameter. */
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
  fit_draw_as(work, theta, 0, widths);
}

/* Second derivatives as well. */
FIT_APART void fit_draw_bent(fit_work *work, const vf *theta, fit_widths *widths) {
  fit_draw_as(work, theta, 1, widths);
}

/* From the two widths to the one parameter that both depend on. */
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

#endif
