/* Newton's method in each parameter by itself, as C. S. Smith, N. Joseph, B. Rieger and K. A. Lidke
 * have it (Nature Methods 7, 2010): the step is the score over minus the likelihood's second
 * derivative, Σ u_a (d/m − 1) / Σ [u_a² d/m² − u_aa (d/m − 1)]. Where that curvature is not
 * positive, the expected one takes its place.
 *
 * For comparison with programs that do so: it is not written for speed. */
#ifndef CPU_FIT_NEWTON_H
#define CPU_FIT_NEWTON_H

#include "fit_step.h"

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

/* A quantity of the one parameter that both widths depend on. */
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

/* `iterations` steps, whatever happens. The last one tells whether they have come to rest; the
 * uncertainties at the result are its measure. */
FIT_APART void fit_by_newton(fit_work *work) {
  const int count = FIT_COUNT;
  fit_move move;
  for (int a = 0; a < count; a++) move.step[a] = v_set(0);
  for (int32_t i = 0; i < work->problem->iterations; i++) {
    fit_newton_step(work, move.step);
    for (int a = 0; a < count; a++)
      work->path.theta[a] = fit_limited(work, a, work->path.theta[a], move.step[a]);
  }
  work->path.steps = v_set((float)work->problem->iterations);
  vf last[FIT_MOST];
  memcpy(last, move.step, sizeof last);
  work->active = work->alive;
  fit_evaluate(FIT_LIKELIHOOD, work, work->path.theta);
  fit_find_move(work, work->path.theta, &work->sums, &move);
  for (int a = 0; a < count; a++) {
    /* A step off a bound goes nowhere. */
    const vm blocked =
        v_or(v_and_not(v_less(last[a], v_set(0)), v_less(work->low[a], work->path.theta[a])),
             v_and_not(v_less(v_set(0), last[a]), v_less(work->path.theta[a], work->high[a])));
    move.step[a] = v_select(blocked, v_set(0), last[a]);
  }
  work->converged = v_and(work->alive, fit_is_small(count, work, &move, v_set(1)));
}

#endif
