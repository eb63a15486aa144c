/* SPDX-License-Identifier: MIT */
/* The solvers: Fisher scoring, which repeats steps by the inverse information, and solvers for
 * comparison. */
#ifndef CPU_FIT_FIT_SOLVE_H
#define CPU_FIT_FIT_SOLVE_H

#include "fit_climb.h"

/* The factor that lengthens the computed step. The information is the expected curvature of the
 * likelihood. With few photons the actual one can be a fraction of it: steps that are too short by
 * the same factor each time become small long before the optimum. The change of the score by the
 * last step gives the factor (the secant rule of J. Barzilai and J. M. Borwein, 1988, with the
 * information as the measure of length). */
#define FIT_LEAST_STRETCH 0.5f
#define FIT_MOST_STRETCH  20.0f
/* The largest stretch of steps longer than a standard deviation. */
#define FIT_LARGE_STRETCH 1.5f
FIT_INLINE vf fit_stretch(const fit_path *path, const vf *gradient, const vf *step, vf *square) {
  vf before = v_set(0), gained = v_set(0), length = v_set(0);
  FIT_UNROLL
  for (int a = 0; a < FIT_COUNT; a++) {
    before = v_fma(path->move[a], path->gradient[a], before);
    gained = v_fma(path->move[a], path->gradient[a] - gradient[a], gained);
    length = v_fma(step[a], gradient[a], length); /* squared, in standard deviations */
  }
  *square = length;
  before *= path->stretch;
  const vm curved = v_less(before * (1 / FIT_MOST_STRETCH), gained);
  const vf quotient = before * v_reciprocal(v_select(curved, gained, v_set(1)));
  vf stretch = v_select(curved, v_max(quotient, v_set(FIT_LEAST_STRETCH)), v_set(FIT_MOST_STRETCH));
  const vm large = v_less(v_set(1), stretch * stretch * length);
  stretch = v_select(large, v_min(stretch, v_set(FIT_LARGE_STRETCH)), stretch);
  return v_select(v_less(v_set(0), before), stretch, v_set(1));
}

/* Prefetches the next pixels, as many cache lines per call as can be in flight. */
FIT_INLINE void fit_ask_ahead(fit_work *work) {
  for (int line = 0; line < 16 && work->ahead_bytes > 0; line++) {
    __builtin_prefetch(work->ahead);
    work->ahead += 64;
    work->ahead_bytes -= 64;
  }
}

/* Iterates until every lane has converged, at most `iterations` times, or until few enough lanes
 * are left to set them aside. */
FIT_APART void fit_by_scoring(fit_work *work) {
  enum { count = FIT_COUNT };
  fit_path *path = &work->path;
  const vf most = v_set((float)work->problem->iterations);
  const vf close = v_set((float)(16 * work->problem->epsilon * work->problem->epsilon));
  work->active = v_and(work->alive, v_less(path->steps, most));
  while (__builtin_popcount(v_bits(work->active)) > work->patience) {
    fit_move move;
    fit_ask_ahead(work);
    fit_evaluate(FIT_LIKELIHOOD, work, path->theta);
    const vm late = v_and(work->active, v_at_least(path->steps, v_set(FIT_SCORING)));
    const vm early = v_and_not(work->active, late);
    fit_find_move(work, path->theta, &work->sums, &move);
    vf square;
    const vf stretch = fit_stretch(path, work->sums.gradient, move.step, &square);
    const vm stuck = v_and(early, move.singular);
    const vm moving = v_and_not(early, stuck);
    vm limited = v_mask(0);
    FIT_UNROLL
    for (int a = 0; a < count; a++) {
      move.step[a] *= stretch;
      const vf now = path->theta[a], step = move.step[a];
      const vf next = fit_limited(work, a, path->theta, step), moved = next - now;
      /* Beyond rounding errors, if they can be determined. */
      const vf slack = v_fma(v_abs(step), v_set(0.1f), v_abs(now) * 1e-6f);
      limited = v_or(limited, v_less(slack, v_abs(moved - step)));
      path->move[a] = v_select(moving, moved, path->move[a]);
      path->gradient[a] = v_select(moving, work->sums.gradient[a], path->gradient[a]);
      path->theta[a] = v_select(moving, next, now);
    }
    /* A truncated step gives no information. */
    path->stretch = v_select(moving, v_select(limited, v_set(0), stretch), path->stretch);
    path->steps = v_select(moving, path->steps + 1, path->steps);
    /* If the score does not change as expected, the optimum may be further than the last step. */
    const vm strange = v_less(v_set(0.3f), v_abs(stretch - 1));
    const vf unit = v_select(strange, v_set(0.1f), v_set(1));
    const vm arrived =
        v_and(v_and(moving, v_less(square, close)), fit_is_small(count, work, &move, unit));
    work->converged = v_or(work->converged, arrived);
    work->singular = v_or(work->singular, stuck);
    if (v_bits(late)) fit_climb(work, late);
    work->active = v_and(work->active, v_less(path->steps, most));
    work->active = v_and_not(work->active, v_or(work->converged, work->singular));
  }
}

/* ---- Newton ---------------------------------------------------------------------------------- */

/* Newton's method in each parameter separately, as in C. S. Smith, N. Joseph, B. Rieger and K. A.
 * Lidke (Nature Methods 7, 2010): the step is the score over minus the likelihood's second
 * derivative, Σ u_a (d/m − 1) / Σ [u_a² d/m² − u_aa (d/m − 1)]. If that curvature is not positive,
 * the expected one replaces it.
 *
 * For comparison with programs that do this; not optimized. */

/* For x, y, N, bg and both widths, and at FIT_WIDE for the two widths together. */
typedef struct fit_curvature {
  vf score[FIT_WIDE];
  vf observed[FIT_WIDE + 1]; /* Σ u_a u_b d/m² */
  vf expected[FIT_WIDE + 1]; /* Σ u_a u_b / m */
  vf bend[FIT_WIDE + 1];     /* Σ u_ab (d/m − 1) */
} fit_curvature;

/* Sums over one row of `factor` times the products of columns. */
FIT_INLINE void fit_add_products(const fit_pixel *c, vf factor, vf *sum) {
  sum[0] += factor;
  sum[1] = v_fma(factor, c->ee, sum[1]);
  sum[2] = v_fma(factor, c->xx, sum[2]);
  sum[3] = v_fma(factor, c->ss, sum[3]);
  sum[4] = v_fma(factor, c->es, sum[4]);
}

FIT_INLINE void fit_add_squares(const fit_pixel *r, const vf *sum, vf *total) {
  const vf ee = r->e * r->e;
  total[FIT_X] = v_fma(ee, sum[2], total[FIT_X]);
  total[FIT_Y] = v_fma(r->x * r->x, sum[1], total[FIT_Y]);
  total[FIT_N] = v_fma(ee, sum[1], total[FIT_N]);
  total[FIT_BG] += sum[0];
  total[FIT_SX] = v_fma(ee, sum[3], total[FIT_SX]);
  total[FIT_SY] = v_fma(r->s * r->s, sum[1], total[FIT_SY]);
  total[FIT_WIDE] = v_fma(r->e * r->s, sum[4], total[FIT_WIDE]);
}

static void fit_sum_curvature(const fit_work *work, vf n, vf bg, fit_curvature *result) {
  memset(result, 0, sizeof *result);
  for (int32_t i = 0; i < work->rows; i++) {
    const fit_pixel *row = &work->row[i];
    const vf none = v_set(0);
    vf r0 = none, re = none, rx = none, rs = none, rxx = none, rss = none;
    vf observed[5] = {none, none, none, none, none}, expected[5] = {none, none, none, none, none};
    for (int32_t j = 0; j < work->columns; j++) {
      const fit_pixel *c = &work->column[j];
      const int32_t p = i * work->columns + j;
      const vf m = v_fma(n * row->e, c->e, bg) + work->extra[p];
      const vf inverse = v_reciprocal(m), w = inverse * work->weight[p];
      const vf r = v_fms(work->data[p], w, work->weight[p]);
      r0 += r;
      re = v_fma(r, c->e, re);
      rx = v_fma(r, c->x, rx);
      rs = v_fma(r, c->s, rs);
      rxx = v_fma(r, c->x_by_x, rxx);
      rss = v_fma(r, c->s_by_s, rss);
      fit_add_products(c, work->data[p] * w * inverse, observed);
      fit_add_products(c, w, expected);
    }
    fit_add_squares(row, observed, result->observed);
    fit_add_squares(row, expected, result->expected);
    const vf score[FIT_WIDE] = {row->e * rx, row->x * re, row->e * re,
                                r0,          row->e * rs, row->s * re};
    for (int a = 0; a < FIT_WIDE; a++) result->score[a] += score[a];
    result->bend[FIT_X] += row->e * rxx;
    result->bend[FIT_Y] += row->x_by_x * re;
    result->bend[FIT_SX] += row->e * rss;
    result->bend[FIT_SY] += row->s_by_s * re;
    result->bend[FIT_WIDE] += row->s * rs;
  }
  for (int a = 0; a <= FIT_WIDE; a++) {
    if (a == FIT_N || a == FIT_BG) continue;
    if (a < FIT_WIDE) result->score[a] *= n;
    result->observed[a] *= n * n;
    result->expected[a] *= n * n;
    result->bend[a] *= n;
  }
}

/* Combines a quantity of both widths for the one parameter that determines them. */
FIT_INLINE vf fit_joined(const fit_widths *w, const vf *of) {
  return w->slope[0] * w->slope[0] * of[FIT_SX] + 2 * w->slope[0] * w->slope[1] * of[FIT_WIDE] +
         w->slope[1] * w->slope[1] * of[FIT_SY];
}

FIT_APART void fit_newton_step(fit_work *work, vf *step) {
  fit_widths widths;
  fit_curvature sums;
  fit_draw_bent(work, work->path.theta, &widths);
  fit_sum_curvature(work, work->path.theta[FIT_N], work->path.theta[FIT_BG], &sums);
  if (FIT_MODEL == COMPUTE_FIT_XYNBS || FIT_MODEL == COMPUTE_FIT_XYZNB) {
    const vf bend = fit_joined(&widths, sums.bend) + widths.bend[0] * sums.score[FIT_SX] +
                    widths.bend[1] * sums.score[FIT_SY];
    sums.observed[FIT_S] = fit_joined(&widths, sums.observed);
    sums.expected[FIT_S] = fit_joined(&widths, sums.expected);
    sums.score[FIT_S] = widths.slope[0] * sums.score[FIT_SX] + widths.slope[1] * sums.score[FIT_SY];
    sums.bend[FIT_S] = bend;
  }
  for (int a = 0; a < FIT_COUNT; a++) {
    const vf curvature = sums.observed[a] - sums.bend[a];
    const vf usable = v_select(v_less(v_set(0), curvature), curvature, sums.expected[a]);
    const vf change = sums.score[a] * v_reciprocal(v_max(usable, v_set(1e-30f)));
    step[a] = v_select(work->held[a], v_set(0), change);
  }
}

/* Takes `iterations` steps unconditionally. The last one shows whether they have converged,
 * relative to the uncertainties at the result. For Gaussians only. */
FIT_APART void fit_by_newton(fit_work *work) {
  const int count = FIT_COUNT;
  fit_move move;
  for (int a = 0; a < count; a++) move.step[a] = v_set(0);
  for (int32_t i = 0; i < work->problem->iterations; i++) {
    fit_newton_step(work, move.step);
    for (int a = 0; a < count; a++)
      work->path.theta[a] = fit_limited(work, a, work->path.theta, move.step[a]);
  }
  work->path.steps = v_set((float)work->problem->iterations);
  vf last[FIT_MOST];
  memcpy(last, move.step, sizeof last);
  work->active = work->alive;
  fit_evaluate(FIT_LIKELIHOOD, work, work->path.theta);
  fit_find_move(work, work->path.theta, &work->sums, &move);
  for (int a = 0; a < count; a++) {
    /* A step past a bound has no effect. */
    const vm blocked =
        v_or(v_and_not(v_less(last[a], v_set(0)), v_less(work->low[a], work->path.theta[a])),
             v_and_not(v_less(v_set(0), last[a]), v_less(work->path.theta[a], work->high[a])));
    move.step[a] = v_select(blocked, v_set(0), last[a]);
  }
  work->converged = v_and(work->alive, fit_is_small(count, work, &move, v_set(1)));
}

/* ---- Levenberg-Marquardt --------------------------------------------------------------------- */

/* The Levenberg–Marquardt method: a step by the information plus a multiple of its diagonal; a step
 * that does not help increases the multiple. For the likelihood (T. A. Laurence and B. A. Chromy,
 * Nature Methods 7, 2010; with the expected information, which is never indefinite) and for plain
 * least squares.
 *
 * For comparison; not optimized. */

#define FIT_FIRST_DAMPING 1e-2f
#define FIT_LEAST_DAMPING 1e-6f

static vf fit_squares(const fit_work *work, vf n, vf bg) {
  vf sum = v_set(0);
  for (int32_t i = 0; i < work->rows; i++) {
    const vf factor = fit_row_factor(work, n, i);
    vf line = v_set(0);
    for (int32_t j = 0; j < work->columns; j++) {
      const int32_t p = i * work->columns + j;
      const vf m = fit_mean_at(work, factor, bg, i, j) + work->extra[p];
      const vf r = work->weight[p] * (work->data[p] - m);
      line = v_fma(r, r, line);
    }
    sum += line;
  }
  return sum;
}

/* The objective to maximize, from the current rows and columns. */
FIT_INLINE vf fit_objective(fit_mode mode, const fit_work *work, const vf *theta) {
  if (mode == FIT_SQUARES) return fit_squares(work, theta[FIT_N], theta[FIT_BG]) * -0.5f;
  return fit_likelihood(work, theta);
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
  const vf electrons = fit_light(work);
  vf damping = v_set(FIT_FIRST_DAMPING), unit = v_set(1);
  if (mode == FIT_SQUARES) /* the mean variance of a pixel */
    unit = electrons * v_reciprocal(v_max(work->used, v_set(1)));
  /* The rounding error of the objective. */
  const vf rounding = v_fma(electrons, v_set(mode == FIT_SQUARES ? 1e-6f : 3e-8f), v_set(1e-6f));
  work->active = work->alive;
  fit_evaluate(mode, work, work->path.theta);
  memcpy(&best, &work->sums, sizeof best);
  vf objective = fit_objective(mode, work, work->path.theta);
  const int32_t most = work->problem->iterations;
  const int32_t damped = mode == FIT_LIKELIHOOD && most > FIT_SCORING ? FIT_SCORING : most;
  for (int32_t i = 0; i < damped && v_bits(work->active); i++) {
    fit_move move;
    vf trial[FIT_MOST];
    fit_sums raised = best;
    for (int a = 0; a < count; a++) raised.information[FIT_AT(a, a)] *= damping + 1;
    fit_find_move(work, work->path.theta, &raised, &move);
    const vm stuck = v_and(work->active, move.singular);
    const vm moving = v_and_not(work->active, stuck);
    for (int a = 0; a < count; a++) trial[a] = fit_limited(work, a, work->path.theta, move.step[a]);
    fit_evaluate(mode, work, trial);
    const vf reached = fit_objective(mode, work, trial);
    /* Differences within rounding do not count, nor does the effect of a small step. */
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
    work->converged = v_or(work->converged, arrived);
    work->singular = v_or(work->singular, stuck);
    work->active = v_and_not(moving, arrived);
  }
  for (int32_t i = damped; i < most && v_bits(work->active); i++) {
    fit_evaluate(FIT_LIKELIHOOD, work, work->path.theta);
    fit_climb(work, work->active);
    work->active = v_and_not(work->active, v_or(work->converged, work->singular));
  }
}

#endif
