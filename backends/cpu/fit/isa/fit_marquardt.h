/* The Levenberg–Marquardt method: the step of the information with a multiple of its diagonal
 * added, more of it after a step that did not help. For the likelihood (T. A. Laurence and B. A.
 * Chromy, Nature Methods 7, 2010; with the expected information, which is never indefinite) and for
 * plain least squares.
 *
 * For comparison: it is not written for speed. */
#ifndef CPU_FIT_MARQUARDT_H
#define CPU_FIT_MARQUARDT_H

#include "fit_finish.h"
#include "fit_step.h"

#define FIT_FIRST_DAMPING 1e-2f
#define FIT_LEAST_DAMPING 1e-6f
#define FIT_MOST_DAMPING  1e8f

static vf fit_squares(const fit_work *work, vf n, vf bg) {
  vf sum = v_set(0);
  for (int32_t i = 0; i < work->rows; i++) {
    const vf factor = n * work->row[i].e;
    vf line = v_set(0);
    for (int32_t j = 0; j < work->columns; j++) {
      const int32_t p = i * work->columns + j;
      const vf m = v_fma(factor, work->column[j].e, bg) + work->extra[p];
      const vf r = work->weight[p] * (work->data[p] - m);
      line = v_fma(r, r, line);
    }
    sum += line;
  }
  return sum;
}

/* What is to be made as large as possible, of the rows and columns as they are drawn. */
FIT_INLINE vf fit_objective(fit_mode mode, const fit_work *work, const vf *theta) {
  if (mode == FIT_SQUARES) return fit_squares(work, theta[FIT_N], theta[FIT_BG]) * -0.5f;
  fit_quality quality;
  fit_judge(work, theta[FIT_N], theta[FIT_BG], false, &quality);
  return quality.ratio;
}

FIT_INLINE void fit_choose(const int count, vm taken, const fit_sums *from, fit_sums *to) {
  for (int a = 0; a < count; a++)
    to->gradient[a] = v_select(taken, from->gradient[a], to->gradient[a]);
  for (int k = 0; k < FIT_AT(count, 0); k++)
    to->information[k] = v_select(taken, from->information[k], to->information[k]);
}

FIT_APART void fit_by_marquardt(fit_mode mode, fit_work *work) {
  const int count = FIT_COUNT;
  fit_sums best;
  vf damping = v_set(FIT_FIRST_DAMPING), unit = v_set(1), electrons = v_set(0);
  for (int32_t p = 0; p < work->rows * work->columns; p++)
    electrons = v_fma(work->data[p], work->weight[p], electrons);
  if (mode == FIT_SQUARES) /* a pixel's variance, in the mean */
    unit = electrons * v_reciprocal(v_max(work->used, v_set(1)));
  /* What rounding may do to the objective. */
  const vf rounding = v_fma(electrons, v_set(mode == FIT_SQUARES ? 1e-6f : 3e-8f), v_set(1e-6f));
  work->active = work->alive;
  fit_evaluate(mode, work, work->path.theta);
  memcpy(&best, &work->sums, sizeof best);
  vf objective = fit_objective(mode, work, work->path.theta);
  for (int32_t i = 0; i < work->problem->iterations && v_bits(work->active); i++) {
    fit_move move;
    vf trial[FIT_MOST];
    fit_sums damped = best;
    for (int a = 0; a < count; a++) damped.information[FIT_AT(a, a)] *= damping + 1;
    fit_find_move(work, work->path.theta, &damped, &move);
    const vm stuck = v_and(work->active, move.singular);
    const vm moving = v_and_not(work->active, stuck);
    for (int a = 0; a < count; a++)
      trial[a] = fit_limited(work, a, work->path.theta[a], move.step[a]);
    fit_evaluate(mode, work, trial);
    const vf reached = fit_objective(mode, work, trial);
    /* A difference that is rounding is none; nor does it matter what a small step does. */
    const vf slack = v_fma(v_abs(objective), v_set(1e-6f), rounding);
    const vm small = v_and(fit_is_small(count, work, &move, unit), v_less(damping, v_set(0.05f)));
    const vm better = v_less(objective - slack, reached);
    const vm taken = v_and(moving, v_or(better, small));
    fit_choose(count, taken, &work->sums, &best);
    for (int a = 0; a < count; a++)
      work->path.theta[a] = v_select(taken, trial[a], work->path.theta[a]);
    objective = v_select(taken, reached, objective);
    damping = v_select(taken, v_max(damping * 0.1f, v_set(FIT_LEAST_DAMPING)), damping * 10);
    work->path.steps = v_select(moving, work->path.steps + 1, work->path.steps);
    const vm arrived = v_and(moving, small);
    const vm hopeless = v_less(v_set(FIT_MOST_DAMPING), damping);
    work->converged = v_or(work->converged, arrived);
    work->singular = v_or(work->singular, stuck);
    work->active = v_and_not(moving, v_or(arrived, hopeless));
  }
}

#endif
