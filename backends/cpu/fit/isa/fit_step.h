/* Steps and their limits, and Fisher scoring: repeated steps by the information's inverse. */
#ifndef CPU_FIT_STEP_H
#define CPU_FIT_STEP_H

#include "fit_curve.h"
#include "fit_solve.h"

/* The farthest that one step may go: a pixel; half of a width; as much as there is of light; half
 * of the depth. */
FIT_INLINE vf fit_reach(const fit_work *work, const int a, vf value) {
  if (a == FIT_X || a == FIT_Y) return v_set(1);
  if (a == FIT_N || a == FIT_BG) return value;
  if (FIT_MODEL == COMPUTE_FIT_XYZNB) return v_set(0.5f * (float)work->problem->depth);
  return value * 0.5f;
}

FIT_INLINE vf fit_limited(const fit_work *work, const int a, vf value, vf step) {
  const vf reach = fit_reach(work, a, value);
  return v_clamp(value + v_clamp(step, -reach, reach), work->low[a], work->high[a]);
}

/* Parameters on a bound, whose step would leave it. */
FIT_INLINE uint32_t fit_find_blocked(const int count, const fit_work *work, const vf *theta,
                                     const vf *step, vm *held) {
  uint32_t any = 0;
  FIT_UNROLL
  for (int a = 0; a < count; a++) {
    const vm low = v_and_not(v_less(step[a], v_set(0)), v_less(work->low[a], theta[a]));
    const vm high = v_and_not(v_less(v_set(0), step[a]), v_less(theta[a], work->high[a]));
    const vm blocked = v_and(work->active, v_and_not(v_or(low, high), held[a]));
    held[a] = v_or(held[a], blocked);
    any |= v_bits(blocked);
  }
  return any;
}

typedef struct fit_move {
  vf step[FIT_MOST];
  vf variance[FIT_MOST]; /* of the parameters, in the unit of the information */
  vm singular;
} fit_move;

/* The step by `sums`, with `damping` times its diagonal added to the matrix. A parameter at a bound
 * that the step would take outside is taken out of the equations, so that the others go where they
 * would with that one fixed. A matrix that has no inverse is tried again with more damping. */
FIT_APART void fit_find_move(const fit_work *work, const vf *theta, const fit_sums *given,
                             fit_move *move) {
  enum { count = FIT_COUNT };
  fit_sums sums = *given;
  fit_factors factors;
  vm held[FIT_MOST];
  if (work->any_held) fit_hold(count, work->held, &sums);
  fit_factor(count, sums.information, &factors);
  if (v_bits(v_and(factors.singular, work->active))) {
    for (int a = 0; a < count; a++) {
      vf *f = &sums.information[FIT_AT(a, a)];
      *f = v_select(factors.singular, *f * 1.01f, *f);
    }
    fit_factor(count, sums.information, &factors);
  }
  fit_apply(count, &factors, sums.gradient, move->step);
  for (int a = 0; a < count; a++) held[a] = work->held[a];
  for (int tries = 0; tries < count; tries++) {
    if (!fit_find_blocked(count, work, theta, move->step, held)) break;
    fit_hold(count, held, &sums);
    fit_factor(count, sums.information, &factors);
    fit_apply(count, &factors, sums.gradient, move->step);
  }
  FIT_UNROLL
  for (int a = 0; a < count; a++) move->variance[a] = fit_inverse_at(count, &factors, a, a);
  move->singular = factors.singular;
}

/* Whether every step is small beside its parameter's standard deviation, where variances are in
 * `unit`s. */
FIT_INLINE vm fit_is_small(const int count, const fit_work *work, const fit_move *move, vf unit) {
  const vf limit = unit * (float)(work->problem->epsilon * work->problem->epsilon);
  vm small = v_mask(FIT_ALL_LANES);
  FIT_UNROLL
  for (int a = 0; a < count; a++)
    small = v_and(small, v_less(move->step[a] * move->step[a], limit * move->variance[a]));
  return small;
}

/* How much longer than computed the step should be. The information is what the curvature of the
 * likelihood is expected to be; where light is scarce the real one can be a fraction of it, and
 * steps that are too short by the same factor each time look small long before they are at the
 * optimum. What the last step did to the score tells the factor (the secant rule of J. Barzilai and
 * J. M. Borwein, 1988, with the information as the measure of length). */
#define FIT_LEAST_STRETCH 0.5f
#define FIT_MOST_STRETCH  20.0f
/* Steps beyond a standard deviation are stretched no more than this. */
#define FIT_LARGE_STRETCH 1.5f
FIT_INLINE vf fit_stretch(const fit_path *path, const vf *gradient, const vf *step) {
  vf before = v_set(0), gained = v_set(0), length = v_set(0);
  FIT_UNROLL
  for (int a = 0; a < FIT_COUNT; a++) {
    before = v_fma(path->move[a], path->gradient[a], before);
    gained = v_fma(path->move[a], path->gradient[a] - gradient[a], gained);
    length = v_fma(step[a], gradient[a], length); /* squared, in standard deviations */
  }
  before *= path->stretch;
  const vm curved = v_less(before * (1 / FIT_MOST_STRETCH), gained);
  const vf quotient = before * v_reciprocal(v_select(curved, gained, v_set(1)));
  vf stretch = v_select(curved, v_max(quotient, v_set(FIT_LEAST_STRETCH)), v_set(FIT_MOST_STRETCH));
  const vm large = v_less(v_set(1), stretch * stretch * length);
  stretch = v_select(large, v_min(stretch, v_set(FIT_LARGE_STRETCH)), stretch);
  return v_select(v_less(v_set(0), before), stretch, v_set(1));
}

/* Asks the memory for pixels that come next, a few at a time: as many as can be on their way. */
FIT_INLINE void fit_ask_ahead(fit_work *work) {
  for (int line = 0; line < 16 && work->ahead_bytes > 0; line++) {
    __builtin_prefetch(work->ahead);
    work->ahead += 64;
    work->ahead_bytes -= 64;
  }
}

/* Steps until every lane has arrived, `iterations` at most, or until those still on their way are
 * so few that they had better wait. */
FIT_APART void fit_by_scoring(fit_work *work) {
  enum { count = FIT_COUNT };
  fit_path *path = &work->path;
  const vf most = v_set((float)work->problem->iterations);
  work->active = v_and(work->alive, v_less(path->steps, most));
  while (__builtin_popcount(v_bits(work->active)) > work->patience) {
    fit_move move;
    fit_ask_ahead(work);
    fit_evaluate(FIT_LIKELIHOOD, work, path->theta);
    fit_find_move(work, path->theta, &work->sums, &move);
    const vf stretch = fit_stretch(path, work->sums.gradient, move.step);
    const vm stuck = v_and(work->active, move.singular);
    const vm moving = v_and_not(work->active, stuck);
    vm limited = v_mask(0);
    FIT_UNROLL
    for (int a = 0; a < count; a++) {
      move.step[a] *= stretch;
      const vf now = path->theta[a], step = move.step[a];
      const vf next = fit_limited(work, a, now, step), moved = next - now;
      /* More than rounding, if that can be told. */
      const vf slack = v_fma(v_abs(step), v_set(0.1f), v_abs(now) * 1e-6f);
      limited = v_or(limited, v_less(slack, v_abs(moved - step)));
      path->move[a] = v_select(moving, moved, path->move[a]);
      path->gradient[a] = v_select(moving, work->sums.gradient[a], path->gradient[a]);
      path->theta[a] = v_select(moving, next, now);
    }
    /* Of a step that was not taken whole there is nothing to learn. */
    path->stretch = v_select(moving, v_select(limited, v_set(0), stretch), path->stretch);
    path->steps = v_select(moving, path->steps + 1, path->steps);
    /* Where the score does not change as expected, more than the last step may be left. */
    const vm strange = v_less(v_set(0.3f), v_abs(stretch - 1));
    const vf unit = v_select(strange, v_set(0.1f), v_set(1));
    const vm arrived = v_and(moving, fit_is_small(count, work, &move, unit));
    work->converged = v_or(work->converged, arrived);
    work->singular = v_or(work->singular, stuck);
    work->active = v_and(v_and_not(moving, arrived), v_less(path->steps, most));
  }
}

#endif
