/* What is told of a fit: its likelihood, whether the residuals are what noise makes of them, how
 * exact it is, and how it ended. */
#ifndef CPU_FIT_FINISH_H
#define CPU_FIT_FINISH_H

#include "../../../../kernels/fit_moments.h"
#include "fit_curve.h"
#include "fit_gamma.h"
#include "fit_solve.h"

typedef struct fit_quality {
  vf ratio;          /* L */
  vf mean, variance; /* that −2 L is expected to have, parameters not allowed for */
} fit_quality;

/* d ln(m/d) − m + d. */
FIT_INLINE vf fit_term(vf d, vf m, vf inverse) {
  const vf quotient = v_max(d * inverse, v_set(1e-30f));
  return v_fnma(d, fit_log(quotient), d - m);
}

/* Where m is large the terms nearly cancel: with s = (m − d)/(m + d) the same is
 * −s (m − d) + 2 d (s³/3 + s⁵/5 + …), for |s| < 0.2. */
FIT_INLINE vf fit_large_term(vf d, vf m, vf plain) {
  const vf difference = d - m;
  const vf s = difference * v_reciprocal(m + d), s2 = s * s;
  vf p = v_fma(s2, v_set(2.0f / 9), v_set(2.0f / 7));
  p = v_fma(p, s2, v_set(2.0f / 5));
  p = v_fma(p, s2, v_set(2.0f / 3));
  const vf near = -s * v_fma(d * s2, p, difference);
  return v_select(v_less(v_abs(s), v_set(0.2f)), near, plain);
}

/* Mean and variance of a pixel's deviance. */
typedef struct fit_moments {
  vf mean, variance;
} fit_moments;

/* Poisson, for m ≥ 4, in powers of 1/m: they begin with 1 and 2, the others fit the exact sums to
 * 8e-5 and 4.6e-4. Five times as fast as what serves every m. */
#define FIT_SERIES_LEAST 4
FIT_INLINE fit_moments fit_moments_series(vf inverse) {
  vf mean = v_fma(v_set(-5.3278852f), inverse, v_set(3.2663424f));
  vf variance = v_fma(v_set(-151.32616f), inverse, v_set(63.688259f));
  mean = v_fma(mean, inverse, v_set(-0.15420219f));
  variance = v_fma(variance, inverse, v_set(-4.0089303f));
  mean = v_fma(mean, inverse, v_set(0.17591477f));
  variance = v_fma(variance, inverse, v_set(0.79491394f));
  return (fit_moments){v_fma(mean, inverse, v_set(1)), v_fma(variance, inverse, v_set(2))};
}

FIT_INLINE fit_moments fit_moments_poisson(vf m) {
  const vf x = v_min(m, v_set(FIT_MOMENTS_LARGEST));
  const vf r = v_reciprocal(FIT_POISSON_BELOW(v_fma, v_set, x));
  return (fit_moments){FIT_POISSON_MEAN(v_fma, v_set, x) * r,
                       FIT_POISSON_VARIANCE(v_fma, v_set, x) * r};
}

FIT_INLINE fit_moments fit_moments_gamma(vf m) {
  const vf x = v_min(m, v_set(FIT_MOMENTS_LARGEST));
  const vf r = v_reciprocal(FIT_GAMMA_BELOW(v_fma, v_set, x));
  return (fit_moments){FIT_GAMMA_MEAN(v_fma, v_set, x) * r,
                       FIT_GAMMA_VARIANCE(v_fma, v_set, x) * r};
}

/* A pixel's part of the sums. Lanes choose among the formulas by themselves; which of them are
 * computed at all depends on whether any lane wants them. */
FIT_INLINE void fit_judge_pixel(const int moments, const int gamma, vf d, vf m, fit_quality *part) {
  const vf inverse = v_reciprocal(m);
  const vm dim = v_less(m, v_set(FIT_SERIES_LEAST)), bright = v_less(v_set(256), m);
  fit_moments now = {v_set(0), v_set(0)};
  part->ratio = fit_term(d, m, inverse);
  if (v_bits(bright))
    part->ratio = v_select(bright, fit_large_term(d, m, part->ratio), part->ratio);
  if (moments && gamma) now = fit_moments_gamma(m);
  if (moments && !gamma) {
    now = fit_moments_series(inverse);
    if (v_bits(dim)) {
      const fit_moments any = fit_moments_poisson(m);
      now.mean = v_select(dim, any.mean, now.mean);
      now.variance = v_select(dim, any.variance, now.variance);
    }
  }
  part->mean = now.mean;
  part->variance = now.variance;
}

FIT_INLINE void fit_judge_as(const int general, const int moments, const int gamma,
                             const fit_work *work, vf n, vf bg, fit_quality *quality) {
  const vf none = v_set(0);
  *quality = (fit_quality){none, none, none};
  for (int32_t i = 0; i < work->rows; i++) {
    const vf factor = n * work->row[i].e;
    fit_quality line = {none, none, none};
    for (int32_t j = 0; j < work->columns; j++) {
      const int32_t p = i * work->columns + j;
      vf m = v_fma(factor, work->column[j].e, bg);
      fit_quality part;
      if (general) m += work->extra[p];
      fit_judge_pixel(moments, gamma, work->data[p], m, &part);
      if (general) {
        const vm counted = v_less(none, work->weight[p]);
        part.ratio = v_keep(counted, part.ratio);
        part.mean = v_keep(counted, part.mean);
        part.variance = v_keep(counted, part.variance);
      }
      line.ratio += part.ratio;
      if (!moments) continue;
      line.mean += part.mean;
      line.variance += part.variance;
    }
    quality->ratio += line.ratio;
    quality->mean += line.mean;
    quality->variance += line.variance;
  }
}

/* Of the rows and columns as they are drawn. */
FIT_APART void fit_judge(const fit_work *work, vf n, vf bg, bool moments, fit_quality *quality) {
  if (!moments)
    fit_judge_as(1, 0, 0, work, n, bg, quality);
  else if (work->problem->camera == COMPUTE_FIT_EMCCD)
    fit_judge_as(1, 1, 1, work, n, bg, quality);
  else if (work->plain)
    fit_judge_as(0, 1, 0, work, n, bg, quality);
  else
    fit_judge_as(1, 1, 0, work, n, bg, quality);
}

#endif
