/* The records: every output that is asked for, for all lanes, then lane by lane to memory. */
#ifndef CPU_FIT_RECORD_H
#define CPU_FIT_RECORD_H

#include "fit_faint.h"
#include "fit_finish.h"
#include "fit_gather.h"

#define FIT_MOST_COLUMNS (2 * FIT_MOST + FIT_MOST * FIT_MOST + 5)

typedef struct fit_result {
  fit_factors factors;
  fit_quality quality;
  vf status;
  vf factor; /* of variances */
  vm told;   /* lanes that have uncertainties */
} fit_result;

/* A parameter on a bound. */
FIT_INLINE vm fit_at_bound(const int count, const fit_work *work) {
  vm bound = v_mask(0);
  for (int a = 0; a < count; a++) {
    const vm inside = v_and(v_less(work->low[a], work->path.theta[a]),
                            v_less(work->path.theta[a], work->high[a]));
    bound = v_or(bound, v_and_not(v_and_not(v_mask(FIT_ALL_LANES), inside), work->held[a]));
  }
  return bound;
}

FIT_INLINE vf fit_status_of(const int count, const fit_work *work, vm singular) {
  vf status = v_set(COMPUTE_FIT_MAX_ITERATIONS);
  status = v_select(work->converged, v_set(COMPUTE_FIT_CONVERGED), status);
  status = v_select(v_and(work->converged, fit_at_bound(count, work)), v_set(COMPUTE_FIT_AT_BOUND),
                    status);
  status = v_select(v_or(work->singular, singular), v_set(COMPUTE_FIT_SINGULAR), status);
  return v_select(work->bad, v_set(COMPUTE_FIT_BAD_DATA), status);
}

/* Element (i, j) of the covariance, in the public order. */
FIT_INLINE vf fit_covariance(const fit_work *work, const fit_result *result, const int i,
                             const int j) {
  const int p = fit_inner(i), q = fit_inner(j);
  const int a = p > q ? p : q, b = p > q ? q : p;
  const vf value = fit_inverse_at(FIT_COUNT, &result->factors, a, b) * result->factor;
  return v_select(v_or(work->held[a], work->held[b]), v_set(0), value);
}

/* Probabilities that a good fit's residuals are as large. */
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
  fit_faint(work, v_keep(v_and_not(some, work->held[FIT_BG]), spread), &mean, &variance);
  const vm usable = v_and(some, v_and(v_less(none, mean), v_less(none, variance)));
  const vf quotient =
      v_select(usable, mean, v_set(3)) * v_reciprocal(v_select(usable, variance, v_set(3)));
  *value = v_select(
      usable, fit_upper_gamma(v_select(usable, mean * quotient, v_set(3)), deviance * quotient),
      nan);
}

/* Fills in the columns; how many there are. */
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
      column[c++] = v_select(result->told, v_sqrt(fit_covariance(work, result, i, i)), nan);
  }
  if (outputs & COMPUTE_FIT_COVARIANCE) {
    for (int i = 0; i < count; i++)
      for (int j = 0; j < count; j++)
        column[c++] = v_select(result->told, fit_covariance(work, result, i, j), nan);
  }
  if (outputs & COMPUTE_FIT_RATIO) column[c++] = v_select(work->bad, nan, result->quality.ratio);
  if (outputs & COMPUTE_FIT_P_RAW) column[c++] = raw;
  if (outputs & COMPUTE_FIT_P_VALUE) column[c++] = value;
  if (outputs & COMPUTE_FIT_ITERATIONS)
    column[c++] = v_select(work->bad, v_set(0), work->path.steps);
  if (outputs & COMPUTE_FIT_STATUS) column[c++] = result->status;
  return c;
}

/* To memory. A vector has room for lanes that are not to be written: they go where nobody reads. */
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

/* Uncertainties, likelihood and probabilities at the result. */
FIT_APART void fit_write(fit_work *work, uint32_t lanes) {
  const int count = FIT_COUNT;
  fit_result result;
  vf column[FIT_MOST_COLUMNS];
  fit_evaluate(FIT_LIKELIHOOD, work, work->path.theta);
  if (work->any_held) fit_hold(count, work->held, &work->sums);
  fit_factor(count, work->sums.information, &result.factors);
  fit_judge(work, work->path.theta[FIT_N], work->path.theta[FIT_BG],
            (work->problem->outputs & COMPUTE_FIT_P_VALUE) != 0, &result.quality);
  result.factor = v_set(work->problem->camera == COMPUTE_FIT_EMCCD ? 2 : 1);
  result.status = fit_status_of(count, work, result.factors.singular);
  result.told = v_less(result.status, v_set(COMPUTE_FIT_SINGULAR));
  const int columns = fit_columns(work, &result, column);
  fit_store(work, lanes, columns, column);
}

#endif
