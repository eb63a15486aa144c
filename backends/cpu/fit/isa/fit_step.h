/* SPDX-License-Identifier: MIT */
/* One step by the information, and its limits. */
#ifndef CPU_FIT_FIT_STEP_H
#define CPU_FIT_FIT_STEP_H

#include "fit_finish.h"
#include "fit_sums.h"

/* The limits of one step: a pixel; half of a width; the background itself; photons plus background,
 * so that a spot lost in the background can return; half of the depth, or a sixth of a spline's
 * range. */
FIT_INLINE vf fit_reach(const fit_work *work, const int a, const vf *theta) {
  const vf value = theta[a];
  if (a == FIT_X || a == FIT_Y) return v_set(1);
  if (a == FIT_BG) return value;
  if (a == FIT_N) return value + theta[FIT_BG];
  if (FIT_MODEL == COMPUTE_FIT_XYZNB) return v_set(0.5f * (float)work->problem->depth);
  if (FIT_MODEL == COMPUTE_FIT_SPLINE)
    return v_set((float)(work->problem->cells[0] * work->problem->z_step / 6));
  return value * 0.5f;
}

FIT_INLINE vf fit_limited(const fit_work *work, const int a, const vf *theta, vf step) {
  const vf reach = fit_reach(work, a, theta);
  return v_clamp(theta[a] + v_clamp(step, -reach, reach), work->low[a], work->high[a]);
}

/* Raises the diagonal of singular matrices. */
FIT_INLINE void fit_firm(const int count, vm singular, fit_sums *sums) {
  for (int a = 0; a < count; a++) {
    vf *f = &sums->information[FIT_AT(a, a)];
    *f = v_select(singular, *f * 1.01f, *f);
  }
}

/* `true` for parameters on a bound that `direction` would move past it. */
FIT_INLINE vm fit_is_blocked(const fit_work *work, const int a, const vf *theta,
                             const vf *direction) {
  const vm low = v_and_not(v_less(direction[a], v_set(0)), v_less(work->low[a], theta[a]));
  const vm high = v_and_not(v_less(v_set(0), direction[a]), v_less(theta[a], work->high[a]));
  return v_or(low, high);
}

typedef struct fit_move {
  vf step[FIT_MOST];
  vf variance[FIT_MOST]; /* of the parameters, in units of the information */
  vm singular;
} fit_move;

/* Adds to `held` the parameters on a bound that the step would cross. First choice are parameters
 * that the gradient keeps at their bound. Lanes without any of these take the others and are marked
 * in `pulled`. */
FIT_INLINE uint32_t fit_find_blocked(const int count, const fit_work *work, const vf *theta,
                                     const vf *gradient, const vf *step, vm *held, vm *pulled) {
  vm blocked[FIT_MOST], kept[FIT_MOST], any = v_mask(0), some = v_mask(0);
  FIT_UNROLL
  for (int a = 0; a < count; a++) {
    blocked[a] = v_and(work->active, v_and_not(fit_is_blocked(work, a, theta, step), held[a]));
    any = v_or(any, blocked[a]);
  }
  if (!v_bits(any)) return 0;
  for (int a = 0; a < count; a++) {
    kept[a] = v_and(blocked[a], fit_is_blocked(work, a, theta, gradient));
    some = v_or(some, kept[a]);
  }
  *pulled = v_or(*pulled, v_and_not(any, some));
  for (int a = 0; a < count; a++)
    held[a] = v_or(held[a], v_or(kept[a], v_and_not(blocked[a], some)));
  return v_bits(any);
}

/* Finds the step by `sums`. A parameter at a bound that the step would cross is removed from the
 * equations, so that the others step as if it were fixed. If its gradient points inward, variances
 * of 0 mark the step as not small. A singular matrix is retried once with a larger diagonal. */
FIT_APART void fit_find_move(const fit_work *work, const vf *theta, const fit_sums *given,
                             fit_move *move) {
  enum { count = FIT_COUNT };
  fit_sums sums = *given;
  fit_factors factors;
  vm held[FIT_MOST], pulled = v_mask(0);
  if (work->any_held) fit_hold(count, work->held, &sums);
  fit_factor(count, sums.information, &factors);
  if (v_bits(v_and(factors.singular, work->active))) {
    fit_firm(count, factors.singular, &sums);
    fit_factor(count, sums.information, &factors);
  }
  fit_apply(count, &factors, sums.gradient, move->step);
  for (int a = 0; a < count; a++) held[a] = work->held[a];
  for (int tries = 0; tries < count; tries++) {
    if (!fit_find_blocked(count, work, theta, given->gradient, move->step, held, &pulled)) break;
    fit_hold(count, held, &sums);
    fit_factor(count, sums.information, &factors);
    fit_apply(count, &factors, sums.gradient, move->step);
  }
  FIT_UNROLL
  for (int a = 0; a < count; a++) move->variance[a] = fit_inverse_at(count, &factors, a, a);
  for (int a = 0; v_bits(pulled) && a < count; a++)
    move->variance[a] = v_select(pulled, v_set(0), move->variance[a]);
  move->singular = factors.singular;
}

/* `true` if every step is small compared with its parameter's standard deviation; variances are in
 * units of `unit`. By likelihood, z approaches its optimum in ever smaller steps if both widths
 * hardly depend on it, so the limit is a tenth of epsilon. */
FIT_INLINE vm fit_is_small(const int count, const fit_work *work, const fit_move *move, vf unit) {
  const bool creeps = FIT_HAS_Z && work->problem->solver != COMPUTE_FIT_LEAST_SQUARES;
  const float share = creeps ? 0.01f : 1;
  const vf limit = unit * (float)(work->problem->epsilon * work->problem->epsilon) * share;
  vm small = v_mask(FIT_ALL_LANES);
  FIT_UNROLL
  for (int a = 0; a < count; a++)
    small = v_and(small, v_less(move->step[a] * move->step[a], limit * move->variance[a]));
  return small;
}

#endif
