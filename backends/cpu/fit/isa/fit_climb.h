/* SPDX-License-Identifier: MIT */
/* The last steps of fits that converge slowly: Newton's method with the actual curvature, uphill
 * only.
 *
 * With few photons, the likelihood's curvature differs greatly from the information. In some
 * directions it is a tenth of it, and steps are too short; in others it is several times as much,
 * and steps oscillate. So after FIT_SCORING steps, a fit takes Newton steps by the actual
 * curvature; no step lowers the likelihood.
 *
 * All steps use axes that turn the information into the identity, so that the curvature's errors
 * are small in every direction, however flat. If a spot is lost, the information is 0 in some
 * directions. The limits of a step are then added to it, as if they were prior standard deviations.
 *
 * A step costs one evaluation per parameter, but few fits need any. */
#ifndef CPU_FIT_FIT_CLIMB_H
#define CPU_FIT_FIT_CLIMB_H

#include "fit_step.h"

#define FIT_SCORING     12
#define FIT_SMALL_SHIFT 0.05f
/* The longest step, in standard deviations. It is shortened to a quarter, for up to FIT_TRIALS
 * lengths, until the likelihood rises by this fraction of the slope's prediction. */
#define FIT_LONGEST    2.0f
#define FIT_TRIALS     5
#define FIT_LEAST_RISE 0.1f

/* The logarithm of the likelihood, from the current rows and columns. */
FIT_INLINE vf fit_likelihood(const fit_work *work, const vf *theta) {
  fit_quality quality;
  fit_judge(work, theta[FIT_N], theta[FIT_BG], false, &quality);
  return quality.ratio;
}

static vf fit_light(const fit_work *work) {
  vf electrons = v_set(0);
  for (int32_t p = 0; p < work->rows * work->columns; p++)
    electrons = v_fma(work->data[p], work->weight[p], electrons);
  return electrons;
}

/* The component of axis k along parameter a, a ≤ k, is axis[FIT_AT(k, a)]. Parameters that are
 * fixed, or that the gradient keeps at a bound, are `held` and have none. */
typedef struct fit_frame {
  vf axis[FIT_PAIRS];
  vm held[FIT_MOST];
  vm singular;
} fit_frame;

static void fit_find_frame(const fit_work *work, const vf *theta, const fit_sums *given,
                           fit_frame *frame) {
  enum { count = FIT_COUNT };
  fit_sums sums = *given;
  fit_factors factors;
  for (int a = 0; a < count; a++)
    frame->held[a] = v_or(work->held[a], fit_is_blocked(work, a, theta, given->gradient));
  fit_hold(count, frame->held, &sums);
  for (int a = 0; a < count; a++) {
    const vf reach = fit_reach(work, a, theta);
    if (a != FIT_N && a != FIT_BG) sums.information[FIT_AT(a, a)] += v_reciprocal(reach * reach);
  }
  fit_factor(count, sums.information, &factors);
  frame->singular = factors.singular;
  for (int k = 0; k < count; k++) {
    const vf length =
        v_keep(v_and_not(v_mask(FIT_ALL_LANES), frame->held[k]), v_sqrt(factors.inverse_pivot[k]));
    for (int a = 0; a < k; a++) frame->axis[FIT_AT(k, a)] = factors.inverse[FIT_AT(k, a)] * length;
    frame->axis[FIT_AT(k, k)] = length;
  }
}

/* The component of a gradient along an axis. */
FIT_INLINE vf fit_along(const fit_frame *frame, int k, const vf *gradient) {
  vf sum = v_set(0);
  for (int a = 0; a <= k; a++) sum = v_fma(frame->axis[FIT_AT(k, a)], gradient[a], sum);
  return sum;
}

/* The curvature: the change of the gradient over a small distance along each axis. */
static void fit_find_curvature(fit_work *work, const vf *theta, const vf *gradient,
                               const fit_frame *frame, vf *curvature) {
  enum { count = FIT_COUNT };
  vf column[FIT_MOST][FIT_MOST];
  for (int k = 0; k < count; k++) {
    vf shifted[FIT_MOST], change[FIT_MOST], shift = v_set(FIT_SMALL_SHIFT);
    for (int a = 0; a <= k; a++) {
      const bool position = a == FIT_X || a == FIT_Y || (FIT_HAS_Z && a == FIT_Z);
      const vf part = frame->axis[FIT_AT(k, a)], down = v_set(0) - part;
      const vf share = v_max(position ? v_abs(part) : down, v_set(1e-30f));
      shift = v_min(shift, fit_reach(work, a, theta) * 0.2f * v_reciprocal(share));
    }
    for (int a = 0; a < count; a++)
      shifted[a] = a <= k ? v_fma(frame->axis[FIT_AT(k, a)], shift, theta[a]) : theta[a];
    fit_evaluate(FIT_LIKELIHOOD, work, shifted);
    const vf inverse = v_reciprocal(shift);
    for (int a = 0; a < count; a++) change[a] = (gradient[a] - work->sums.gradient[a]) * inverse;
    for (int j = 0; j < count; j++) column[k][j] = fit_along(frame, j, change);
  }
  for (int k = 0; k < count; k++)
    for (int j = 0; j <= k; j++) curvature[FIT_AT(k, j)] = (column[k][j] + column[j][k]) * 0.5f;
}

/* Finds Newton's step. If the curvature is not positive definite, multiples of the information are
 * added to it; no maximum is near then, and the step is as long as allowed. `near`: lanes near a
 * maximum, or with almost no gradient. Returns twice the expected gain in likelihood of the whole
 * step; `rise` is the slope's prediction. */
static vf fit_find_newton(const vf *gradient, const vf *curvature, const fit_frame *frame,
                          vf enough, vf *step, vf *rise, vm *near) {
  enum { count = FIT_COUNT };
  static const float multiple[] = {0, 0.01f, 0.05f, 0.25f, 1, 5, 25};
  vf score[FIT_MOST], along[FIT_MOST], gain = v_set(0), square = v_set(0), rest = v_set(0);
  vm left = v_mask(FIT_ALL_LANES);
  *near = v_mask(0);
  for (int k = 0; k < count; k++) {
    score[k] = fit_along(frame, k, gradient);
    along[k] = score[k];
    rest = v_fma(score[k], score[k], rest);
  }
  for (size_t i = 0; i < sizeof multiple / sizeof *multiple && v_bits(left); i++) {
    vf matrix[FIT_PAIRS], tried[FIT_MOST];
    fit_factors factors;
    memcpy(matrix, curvature, sizeof matrix);
    for (int k = 0; k < count; k++) {
      vf *diagonal = &matrix[FIT_AT(k, k)];
      *diagonal = v_select(frame->held[k], v_set(1), *diagonal + multiple[i]);
    }
    fit_factor(count, matrix, &factors);
    fit_apply(count, &factors, score, tried);
    const vm good = v_and_not(left, factors.singular);
    for (int k = 0; k < count; k++) along[k] = v_select(good, tried[k], along[k]);
    if (i == 0) *near = good;
    left = v_and_not(left, good);
  }
  for (int k = 0; k < count; k++) {
    gain = v_fma(along[k], score[k], gain);
    square = v_fma(along[k], along[k], square);
  }
  *near = v_or(*near, v_less(rest, enough * 0.01f));
  vf factor = v_set(FIT_LONGEST) * v_reciprocal(v_sqrt(v_max(square, v_set(1e-30f))));
  factor = v_select(*near, v_min(factor, v_set(1)), factor);
  *rise = gain * factor;
  for (int a = 0; a < count; a++) {
    step[a] = v_set(0);
    for (int k = a; k < count; k++)
      step[a] = v_fma(frame->axis[FIT_AT(k, a)], along[k] * factor, step[a]);
  }
  return gain;
}

/* Takes the largest tried fraction of the step that raises the likelihood above `before`, except
 * for rounding. `rise`: the slope's prediction for the whole step. */
static void fit_ascend(fit_work *work, vm lanes, vf before, vf rise, const vf *step) {
  enum { count = FIT_COUNT };
  const vf slack =
      v_fma(fit_light(work), v_set(3e-8f), v_fma(v_abs(before), v_set(1e-6f), v_set(1e-6f)));
  vf share = v_set(1);
  for (int i = 0; i < FIT_TRIALS && v_bits(lanes); i++) {
    vf trial[FIT_MOST];
    fit_widths widths;
    for (int a = 0; a < count; a++)
      trial[a] = v_clamp(v_fma(step[a], share, work->path.theta[a]), work->low[a], work->high[a]);
    fit_draw(work, trial, &widths);
    const vf reached = fit_likelihood(work, trial);
    const vf least = v_fma(rise * share, v_set(FIT_LEAST_RISE), before - slack);
    const vm taken = v_and(lanes, v_less(least, reached));
    for (int a = 0; a < count; a++)
      work->path.theta[a] = v_select(taken, trial[a], work->path.theta[a]);
    lanes = v_and_not(lanes, taken);
    share *= 0.25f;
  }
}

/* The preceding steps may have diverged: if a fit's start is better than its current point, the
 * climb begins at the start. Recomputes the sums. */
static void fit_return(fit_work *work, vm lanes) {
  fit_path start;
  fit_widths widths;
  const vf reached = fit_likelihood(work, work->path.theta);
  fit_start(work, &start);
  if (FIT_HAS_Z) start.theta[FIT_Z] = work->path.theta[FIT_Z];
  fit_draw(work, start.theta, &widths);
  const vm lost = v_and(lanes, v_less(reached, fit_likelihood(work, start.theta)));
  for (int a = 0; a < FIT_COUNT; a++)
    work->path.theta[a] = v_select(lost, start.theta[a], work->path.theta[a]);
  fit_evaluate(FIT_LIKELIHOOD, work, work->path.theta);
}

/* Takes one step of `lanes`, whose sums are current. A fit is near enough to a maximum if the step
 * gains no more than a distance of epsilon, in standard deviations, is worth: after the step, the
 * remaining distance is far smaller. */
FIT_APART void fit_climb(fit_work *work, vm lanes) {
  enum { count = FIT_COUNT };
  const float epsilon = (float)work->problem->epsilon;
  const vm first = v_and(lanes, v_less(work->path.steps, v_set(FIT_SCORING + 1)));
  if (v_bits(first)) fit_return(work, first);
  const vf before = fit_likelihood(work, work->path.theta);
  const vf enough = v_set(epsilon * epsilon);
  const fit_sums sums = work->sums;
  fit_frame frame;
  vf curvature[FIT_PAIRS], step[FIT_MOST];
  vf rise;
  vm near;
  fit_find_frame(work, work->path.theta, &sums, &frame);
  const vm stuck = v_and(lanes, frame.singular);
  const vm moving = v_and_not(lanes, stuck);
  fit_find_curvature(work, work->path.theta, sums.gradient, &frame, curvature);
  const vf gain = fit_find_newton(sums.gradient, curvature, &frame, enough, step, &rise, &near);
  fit_ascend(work, moving, before, rise, step);
  work->path.steps = v_select(moving, work->path.steps + 1, work->path.steps);
  work->converged = v_or(work->converged, v_and(v_and(moving, near), v_less(gain, enough)));
  work->singular = v_or(work->singular, stuck);
}

#endif
