/* Sums over an ROI's pixels: the score and the Fisher information.
 *
 * Every derivative of the expected image is a function of the column times one of the row, so that
 * a row needs only the sums over its columns of the residual and of the weight 1/m, times products
 * of column functions; the row's own factors are put to these sums once. Factors of N are left to
 * the end. */
#ifndef CPU_FIT_SUMS_H
#define CPU_FIT_SUMS_H

#include "fit_work.h"

typedef enum fit_mode { FIT_LIKELIHOOD, FIT_SQUARES } fit_mode;

/* Over the columns of one row. */
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

/* Adds a row's sums, with the row's own factors, to the whole. */
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

/* Puts the factors of N to derivatives by x, y and the widths. */
FIT_INLINE void fit_scale(const int widths, vf n, fit_sums *sums) {
  const int count = widths ? FIT_WIDE : FIT_BG + 1;
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
  fit_sums sums;
  memset(&sums, 0, sizeof sums);
  for (int32_t i = 0; i < work->rows; i++) {
    fit_row row;
    fit_row_sums(widths, extra, weight, mode, work, i, n, bg, &row);
    fit_add_row(widths, &row, &work->row[i], &sums);
  }
  fit_scale(widths, n, &sums);
  *result = sums;
}

/* Of what there is to choose, two things cost a pixel time. */
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

FIT_INLINE void fit_sum(fit_mode mode, const fit_work *work, vf n, vf bg, fit_sums *sums) {
  if (mode == FIT_SQUARES)
    fit_sum_squares(work, n, bg, sums);
  else if (work->has_weight)
    fit_sum_masked(work, n, bg, sums);
  else if (work->has_extra)
    fit_sum_noisy(work, n, bg, sums);
  else
    fit_sum_plain(work, n, bg, sums);
}

#endif
