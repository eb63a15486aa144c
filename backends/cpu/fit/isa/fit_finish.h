/* SPDX-License-Identifier: MIT */
/* The outputs of a fit: likelihood, goodness of fit, uncertainties, and status. */
#ifndef CPU_FIT_FIT_FINISH_H
#define CPU_FIT_FIT_FINISH_H

#include "../../kernels/fit_moments.h"
#include "fit_vector.h"
#include "fit_sums.h"
#include "fit_load.h"

typedef struct fit_quality {
  vf ratio;          /* L */
  vf mean, variance; /* expected values of −2 L, without correction for parameters */
} fit_quality;

/* d ln(m/d) − m + d. */
FIT_INLINE vf fit_term(vf d, vf m, vf inverse) {
  const vf quotient = v_max(d * inverse, v_set(1e-30f));
  return v_fnma(d, fit_log(quotient), d - m);
}

/* For large m, the terms nearly cancel. With s = (m − d)/(m + d), an equal form is −s (m − d) + 2 d
 * (s³/3 + s⁵/5 + …), used for |s| < 0.2. */
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

/* Poisson, for m ≥ 4, in powers of 1/m. The series begin with 1 and 2; the other coefficients fit
 * the exact sums to 8e-5 and 4.6e-4. They are five times as fast as the general formula. */
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

/* Computes a pixel's part of the sums. Each lane selects among the formulas; a formula is only
 * computed if any lane needs it. */
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
    const vf factor = fit_row_factor(work, n, i);
    fit_quality line = {none, none, none};
    for (int32_t j = 0; j < work->columns; j++) {
      const int32_t p = i * work->columns + j;
      vf m = fit_mean_at(work, factor, bg, i, j);
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

/* ---- Separate readout noise ------------------------------------------------------------------ */

/* k ln k − k − ln k! of an integer: by Stirling's series from 2 on. */
FIT_INLINE vf fit_count_term(vf k) {
  const vf safe = v_max(k, v_set(2)), inverse = v_reciprocal(safe), square = inverse * inverse;
  const vf p =
      v_fma(v_fma(square, v_set(-1.0f / 1260), v_set(1.0f / 360)), square, v_set(-1.0f / 12));
  const vf many = v_fma(p, inverse, v_fma(fit_log(safe), v_set(-0.5f), v_set(-0.91893853f)));
  return v_select(v_less(k, v_set(1.5f)), v_select(v_less(k, v_set(0.5f)), v_set(0), v_set(-1)),
                  many);
}

/* ln p(d | m) of COMPUTE_FIT_READOUT, without terms that depend only on d and v. */
FIT_INLINE vf fit_chance(vf d, vf m, vf v) {
  const fit_posterior of = fit_infer(d, m, v);
  const vf k = of.peak, off = d - k;
  const vf term = fit_large_term(k, m, fit_term(k, m, v_reciprocal(m)));
  const vf per = v_reciprocal(k + v), b = k * per;
  const vf correction = per * b * v_fma(v * per, v_set(3.0f / 24), b * (-2.0f / 24));
  const vf smooth = v_fma(fit_log(k + v), v_set(-0.5f), correction);
  const vf rest =
      v_select(v_less(v, v_set(FIT_READOUT_SMOOTH)), fit_count_term(k) + fit_log(of.sum), smooth);
  return v_fnma(off * off * 0.5f, v_reciprocal(v), term + rest);
}

FIT_APART void fit_judge_convolved(const fit_work *work, vf n, vf bg, fit_quality *quality) {
  const vf none = v_set(0);
  *quality = (fit_quality){none, none, none};
  for (int32_t i = 0; i < work->rows; i++) {
    const vf factor = fit_row_factor(work, n, i);
    vf line = none;
    for (int32_t j = 0; j < work->columns; j++) {
      const int32_t p = i * work->columns + j;
      const vf m = fit_mean_at(work, factor, bg, i, j);
      const vf chance = fit_chance(work->data[p], m, work->readout[p]);
      line += v_keep(v_less(none, work->weight[p]), chance);
    }
    quality->ratio += line;
  }
}

/* Judges the fit from the current rows and columns. */
FIT_APART void fit_judge(const fit_work *work, vf n, vf bg, bool moments, fit_quality *quality) {
  if (work->convolved)
    fit_judge_convolved(work, n, bg, quality);
  else if (!moments)
    fit_judge_as(1, 0, 0, work, n, bg, quality);
  else if (work->problem->camera == COMPUTE_FIT_EMCCD)
    fit_judge_as(1, 1, 1, work, n, bg, quality);
  else if (work->plain)
    fit_judge_as(0, 1, 0, work, n, bg, quality);
  else
    fit_judge_as(1, 1, 0, work, n, bg, quality);
}

/* ---- Faint backgrounds ----------------------------------------------------------------------- */

/* The effect of the error of a faint fitted background on the expected deviance: see
 * kernels/fit_moments.h. A separate pass over the pixels, which most groups do not need. */

/* Slope and curvature of a pixel's mean deviance. */
FIT_INLINE void fit_faint_pixel(const bool gamma, vf m, vf *slope, vf *curvature) {
  const vf x = v_min(m, v_set(FIT_MOMENTS_LARGEST));
  if (gamma) {
    const vf r = v_reciprocal(FIT_GAMMA_SLOPE_BELOW(v_fma, v_set, x));
    *slope = FIT_GAMMA_SLOPE(v_fma, v_set, x) * r;
    *curvature = FIT_GAMMA_CURVATURE(v_fma, v_set, x) * r;
  } else {
    const vf r = v_reciprocal(FIT_POISSON_SLOPE_BELOW(v_fma, v_set, x));
    *slope = FIT_POISSON_SLOPE(v_fma, v_set, x) * r;
    *curvature = FIT_POISSON_CURVATURE(v_fma, v_set, x) * r;
  }
}

/* `spread`: the variance of the background, 0 if it is fixed. The rows and columns must be current.
 * Lanes that are not faint stay unchanged, whatever their neighbours are. */
FIT_APART void fit_faint(const fit_work *work, vf spread, vf *mean, vf *variance) {
  const bool gamma = work->problem->camera == COMPUTE_FIT_EMCCD;
  const vf bg = work->path.theta[FIT_BG];
  const vm faint = v_less(bg, v_set(FIT_MOMENTS_FAINT));
  if (!v_bits(faint)) return;
  vf slopes = v_set(0), curvatures = v_set(0);
  for (int32_t i = 0; i < work->rows; i++) {
    const vf factor = fit_row_factor(work, work->path.theta[FIT_N], i);
    for (int32_t j = 0; j < work->columns; j++) {
      const int32_t p = i * work->columns + j;
      vf m = fit_mean_at(work, factor, bg, i, j), slope, curvature;
      vm counted = faint;
      if (!work->plain) {
        m += work->extra[p];
        counted = v_and(faint, v_less(v_set(0), work->weight[p]));
      }
      fit_faint_pixel(gamma, m, &slope, &curvature);
      slopes += v_keep(counted, slope);
      curvatures += v_keep(counted, curvature);
    }
  }
  *mean = v_fnma(curvatures * 0.5f, spread, *mean);
  *variance = v_fnma(slopes * slopes, spread, *variance);
}

/* ---- Significance above the background ------------------------------------------------------- */

/* The most likely background without a spot, within its bounds: the mean. With readout noise it is
 * weighted by 1 / (background + variance), or by the information; a few rounds suffice to
 * converge. */
#define FIT_FLAT_ROUNDS 5
FIT_APART vf fit_flat(const fit_work *work) {
  const vf low = work->low[FIT_BG], high = work->high[FIT_BG];
  vf flat = v_clamp(work->light * v_reciprocal(v_max(work->used, v_set(1))), low, high);
  const bool noisy = work->has_extra || work->convolved;
  for (int round = 0; noisy && round < FIT_FLAT_ROUNDS; round++) {
    vf weights = v_set(0), light = v_set(0);
    for (int32_t p = 0; p < work->rows * work->columns; p++) {
      const vm counted = v_less(v_set(0), work->weight[p]);
      vf weight = v_reciprocal(flat + work->extra[p]);
      vf weighted = weight * (work->data[p] - work->extra[p]);
      if (work->convolved) {
        const vf k = fit_infer(work->data[p], flat, work->readout[p]).mean;
        weight = fit_readout_weight(flat, work->readout[p]);
        weighted = v_fma(weight, flat, v_fms(k, v_reciprocal(flat), v_set(1)));
      }
      weights += v_keep(counted, weight);
      light += v_keep(counted, weighted);
    }
    flat = v_clamp(light * v_reciprocal(v_max(weights, v_set(1e-30f))), low, high);
  }
  return v_select(work->held[FIT_BG], work->path.theta[FIT_BG], flat);
}

/* Σ d ln(m/b) − m + b over the pixels, with the spot's image m and the flat one b. With
 * `convolved`, the difference of their ln p. */
FIT_INLINE vf fit_outweigh_as(const int general, const int convolved, const fit_work *work,
                              vf flat) {
  const vf n = work->path.theta[FIT_N], bg = work->path.theta[FIT_BG];
  const vf inverse = v_reciprocal(flat);
  vf sum = v_set(0);
  for (int32_t i = 0; i < work->rows; i++) {
    const vf factor = fit_row_factor(work, n, i);
    vf line = v_set(0);
    for (int32_t j = 0; j < work->columns; j++) {
      const int32_t p = i * work->columns + j;
      vf m = fit_mean_at(work, factor, bg, i, j), b = flat, per_flat = inverse;
      if (general) {
        m += work->extra[p];
        b += work->extra[p];
        per_flat = v_reciprocal(b);
      }
      const vf d = work->data[p], v = work->readout[p];
      const vf term = convolved ? fit_chance(d, m, v) - fit_chance(d, b, v)
                                : v_fms(d, fit_log(m * per_flat), m - b);
      line += general ? v_keep(v_less(v_set(0), work->weight[p]), term) : term;
    }
    sum += line;
  }
  return sum;
}

/* The significance in standard deviations, from the current rows and columns. */
FIT_APART vf fit_significance(const fit_work *work) {
  const vf flat = fit_flat(work);
  const vf ratio = work->convolved ? fit_outweigh_as(1, 1, work, flat)
                   : work->plain   ? fit_outweigh_as(0, 0, work, flat)
                                   : fit_outweigh_as(1, 0, work, flat);
  /* The excess noise of EMCCD halves the ratio. */
  const float twice = work->problem->camera == COMPUTE_FIT_EMCCD ? 1 : 2;
  return v_sqrt(v_max(ratio * twice, v_set(0)));
}

/* ---- Records --------------------------------------------------------------------------------- */

/* The records: computes every requested output for all lanes, and then stores it lane by lane. */

#define FIT_MOST_COLUMNS (2 * FIT_MOST + FIT_MOST * FIT_MOST + 6)

typedef struct fit_result {
  fit_factors factors;
  vm still[FIT_MOST]; /* parameters left out of the factors */
  fit_quality quality;
  vf status;
  vf factor; /* of variances */
  vm told;   /* lanes with uncertainties */
} fit_result;

/* Lanes with a parameter on a bound. */
FIT_INLINE vm fit_at_bound(const fit_work *work, const int a) {
  const vm inside =
      v_and(v_less(work->low[a], work->path.theta[a]), v_less(work->path.theta[a], work->high[a]));
  return v_and_not(v_and_not(v_mask(FIT_ALL_LANES), inside), work->held[a]);
}

/* Factors the information. If it is singular, parameters on a bound are left out: they may be the
 * only unknown ones. An example is the width of a one-pixel spot, if the spot's position is known
 * to better than the ROI's size. */
FIT_INLINE void fit_inform(const int count, fit_work *work, fit_result *result) {
  for (int a = 0; a < count; a++) result->still[a] = work->held[a];
  if (work->any_held) fit_hold(count, work->held, &work->sums);
  fit_factor(count, work->sums.information, &result->factors);
  const vm singular = v_and(result->factors.singular, work->alive);
  if (!v_bits(singular)) return;
  for (int a = 0; a < count; a++)
    result->still[a] = v_or(work->held[a], v_and(singular, fit_at_bound(work, a)));
  fit_hold(count, result->still, &work->sums);
  fit_factor(count, work->sums.information, &result->factors);
  const float columns = (float)work->columns, rows = (float)work->rows;
  const vf x = fit_inverse_at(count, &result->factors, FIT_X, FIT_X);
  const vf y = fit_inverse_at(count, &result->factors, FIT_Y, FIT_Y);
  const vm placed =
      v_and(v_at_least(v_set(columns * columns), x), v_at_least(v_set(rows * rows), y));
  result->factors.singular = v_or(result->factors.singular, v_and_not(singular, placed));
}

FIT_INLINE vf fit_status_of(const int count, const fit_work *work, vm singular) {
  vf status = v_set(COMPUTE_FIT_MAX_ITERATIONS);
  vm bounded = v_mask(0);
  for (int a = 0; a < count; a++) bounded = v_or(bounded, fit_at_bound(work, a));
  status = v_select(work->converged, v_set(COMPUTE_FIT_CONVERGED), status);
  status = v_select(v_and(work->converged, bounded), v_set(COMPUTE_FIT_AT_BOUND), status);
  status = v_select(v_or(work->singular, singular), v_set(COMPUTE_FIT_SINGULAR), status);
  return v_select(work->bad, v_set(COMPUTE_FIT_BAD_DATA), status);
}

/* Element (i, j) of the covariance, in the public order. */
FIT_INLINE vf fit_covariance(const fit_result *result, const int i, const int j) {
  const int p = fit_inner(i), q = fit_inner(j);
  const int a = p > q ? p : q, b = p > q ? q : p;
  const vf value = fit_inverse_at(FIT_COUNT, &result->factors, a, b) * result->factor;
  return v_select(v_or(result->still[a], result->still[b]), v_set(0), value);
}

/* The probabilities that the residuals of a good fit are at least as large. */
static void fit_probabilities(const fit_work *work, const fit_result *result, vf *raw, vf *value) {
  const bool gamma = work->problem->camera == COMPUTE_FIT_EMCCD;
  const float each = gamma ? FIT_GAMMA_PER_PARAMETER : FIT_POISSON_PER_PARAMETER;
  const vf nan = v_set(__builtin_nanf("")), none = v_set(0);
  const vf count = v_set((float)work->free_count);
  const vf freedom = work->used - count, deviance = v_max(result->quality.ratio * -2, none);
  const vm some = v_and(v_less(none, freedom), result->told);
  if (raw)
    *raw = v_select(
        some, fit_upper_gamma(v_select(some, freedom * 0.5f, v_set(3)), deviance * (0.5f / each)),
        nan);
  if (!value) return;
  vf mean = v_fnma(count, v_set(each), result->quality.mean);
  vf variance = v_fnma(count, v_set(2 * each * each), result->quality.variance);
  const vf spread = fit_inverse_at(FIT_COUNT, &result->factors, FIT_BG, FIT_BG) * result->factor;
  fit_faint(work, v_keep(v_and_not(some, result->still[FIT_BG]), spread), &mean, &variance);
  const vm usable = v_and(some, v_and(v_less(none, mean), v_less(none, variance)));
  const vf quotient =
      v_select(usable, mean, v_set(3)) * v_reciprocal(v_select(usable, variance, v_set(3)));
  *value = v_select(
      usable, fit_upper_gamma(v_select(usable, mean * quotient, v_set(3)), deviance * quotient),
      nan);
}

/* Fills in the columns. Returns their number. */
FIT_INLINE int fit_columns(const fit_work *work, const fit_result *result, vf *column) {
  const int count = FIT_COUNT;
  const uint32_t outputs = work->problem->outputs;
  const vf nan = v_set(__builtin_nanf(""));
  vf raw = nan, value = nan;
  int c = 0;
  if (outputs & (COMPUTE_FIT_P_RAW | COMPUTE_FIT_P_VALUE))
    fit_probabilities(work, result, outputs & COMPUTE_FIT_P_RAW ? &raw : NULL,
                      outputs & COMPUTE_FIT_P_VALUE ? &value : NULL);
  if (outputs & COMPUTE_FIT_PARAMETERS)
    for (int i = 0; i < count; i++)
      column[c++] = v_select(work->bad, nan, work->path.theta[fit_inner(i)]);
  if (outputs & COMPUTE_FIT_STD) {
    for (int i = 0; i < count; i++)
      column[c++] = v_select(result->told, v_sqrt(fit_covariance(result, i, i)), nan);
  }
  if (outputs & COMPUTE_FIT_COVARIANCE) {
    for (int i = 0; i < count; i++)
      for (int j = 0; j < count; j++)
        column[c++] = v_select(result->told, fit_covariance(result, i, j), nan);
  }
  if (outputs & COMPUTE_FIT_RATIO) column[c++] = v_select(work->bad, nan, result->quality.ratio);
  if (outputs & COMPUTE_FIT_P_RAW) column[c++] = raw;
  if (outputs & COMPUTE_FIT_P_VALUE) column[c++] = value;
  if (outputs & COMPUTE_FIT_ITERATIONS)
    column[c++] = v_select(work->bad, v_set(0), work->path.steps);
  if (outputs & COMPUTE_FIT_STATUS) column[c++] = result->status;
  if (outputs & COMPUTE_FIT_SIGNIFICANCE)
    column[c++] = v_select(work->bad, nan, fit_significance(work));
  return c;
}

/* Stores the columns in memory. Lanes that must not be written go to a dummy location. */
FIT_INLINE void fit_store(const fit_work *work, uint32_t lanes, int columns, const vf *column) {
  const cpu_fit_job *job = work->job;
  const int64_t *stride = job->record_stride;
  float nowhere[FIT_MOST_COLUMNS];
  if (stride[1] == sizeof(float)) {
    unsigned char *to[FIT_LANES];
    for (int lane = 0; lane < FIT_LANES; lane++)
      to[lane] =
          lanes >> lane & 1 ? job->record + work->roi[lane] * stride[0] : (unsigned char *)nowhere;
    fit_scatter(column, columns, to);
    return;
  }
  for (; lanes; lanes &= lanes - 1) {
    const int lane = __builtin_ctz(lanes);
    unsigned char *to = job->record + work->roi[lane] * stride[0];
    for (int c = 0; c < columns; c++)
      memcpy(to + c * stride[1], (const float *)&column[c] + lane, sizeof(float));
  }
}

/* Computes and stores uncertainties, likelihood and probabilities at the result. */
FIT_APART void fit_write(fit_work *work, uint32_t lanes) {
  const int count = FIT_COUNT;
  fit_result result;
  vf column[FIT_MOST_COLUMNS];
  work->active = work->alive;
  fit_evaluate(FIT_LIKELIHOOD, work, work->path.theta);
  fit_inform(count, work, &result);
  fit_judge(work, work->path.theta[FIT_N], work->path.theta[FIT_BG],
            (work->problem->outputs & COMPUTE_FIT_P_VALUE) != 0, &result.quality);
  result.factor = v_set(work->problem->camera == COMPUTE_FIT_EMCCD ? 2 : 1);
  result.status = fit_status_of(count, work, result.factors.singular);
  result.told = v_less(result.status, v_set(COMPUTE_FIT_SINGULAR));
  const int columns = fit_columns(work, &result, column);
  fit_store(work, lanes, columns, column);
}

#endif
