/* SPDX-License-Identifier: MIT */
/* Running statistics of results; see statistics.h. Errors count for converged fits only: the theory
 * gives no uncertainty for other fits. Their number is reported separately. */
#include "programs/fit/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

statistics *statistics_create(compute_fit_model model) {
  statistics *s = calloc(1, sizeof *s);
  if (s) s->model = model;
  return s;
}

static void add_uniform(uniformity *u, double p) {
  if (!(p >= 0 && p <= 1)) return;
  int64_t cell = (int64_t)(p * STATISTICS_P_CELLS);
  u->cell[cell < STATISTICS_P_CELLS ? cell : STATISTICS_P_CELLS - 1]++;
  u->count++;
}

/* The cells have equal widths in the logarithm, between least and most. */
static void add_std(statistics *s, double std) {
  if (!(std > 0)) return;
  const double span = log(STATISTICS_STD_MOST / STATISTICS_STD_LEAST);
  int64_t cell = (int64_t)(log(std / STATISTICS_STD_LEAST) / span * STATISTICS_STD_CELLS);
  if (cell < 0) cell = 0;
  if (cell >= STATISTICS_STD_CELLS) cell = STATISTICS_STD_CELLS - 1;
  s->std_x[cell]++;
  s->std_count++;
}

void statistics_add_error(statistics *s, const float *parameters, const float *std,
                          const float *truth) {
  const int32_t count = compute_fit_parameter_count(s->model);
  for (int32_t i = 0; i < count; i++) {
    error_statistics *e = &s->error[i];
    const double error = (double)parameters[i] - (double)truth[i];
    if (!isfinite(error)) continue;
    const double step = error - e->mean;
    e->count++;
    e->mean += step / (double)e->count;
    e->squares += step * (error - e->mean);
    e->variance += std ? (double)std[i] * (double)std[i] : NAN;
  }
}

void statistics_add(statistics *s, int64_t count, const compute_fit_results *results,
                    const float *truth) {
  const int32_t parameters = compute_fit_parameter_count(s->model);
  s->count += count;
  for (int64_t i = 0; i < count; i++) {
    const uint8_t status = results->status[i];
    const float *parameter = results->parameters + i * parameters;
    const float *std = results->std ? results->std + i * parameters : NULL;
    s->of_status[status < COMPUTE_FIT_STATUS_COUNT ? status : COMPUTE_FIT_NOT_RUN]++;
    if (results->iterations) s->iterations += results->iterations[i];
    if (status != COMPUTE_FIT_CONVERGED) continue;
    for (int32_t k = 0; k < parameters; k++) s->parameter_sum[k] += (double)parameter[k];
    if (std) add_std(s, (double)std[0]);
    if (results->p_value) add_uniform(&s->p_value, (double)results->p_value[i]);
    if (results->p_raw) add_uniform(&s->p_raw, (double)results->p_raw[i]);
    if (truth) statistics_add_error(s, parameter, std, truth + i * parameters);
  }
}

double statistics_bias(const statistics *s, int32_t i) {
  return s->error[i].count > 0 ? s->error[i].mean : NAN;
}

double statistics_std(const statistics *s, int32_t i) {
  const error_statistics *e = &s->error[i];
  return e->count > 1 ? sqrt(e->squares / (double)(e->count - 1)) : NAN;
}

double statistics_bias_error(const statistics *s, int32_t i) {
  return statistics_std(s, i) / sqrt((double)s->error[i].count);
}

double statistics_crlb(const statistics *s, int32_t i) {
  const error_statistics *e = &s->error[i];
  return e->count > 0 ? sqrt(e->variance / (double)e->count) : NAN;
}

double statistics_ratio(const statistics *s, int32_t i) {
  const double crlb = statistics_crlb(s, i);
  return crlb > 0 ? statistics_std(s, i) / crlb : NAN;
}

double statistics_std_quantile(const statistics *s, double fraction) {
  const double span = log(STATISTICS_STD_MOST / STATISTICS_STD_LEAST);
  double below = 0, wanted = fraction * (double)s->std_count;
  for (int64_t i = 0; i < STATISTICS_STD_CELLS && s->std_count > 0; i++) {
    const double cell = (double)s->std_x[i];
    if (below + cell >= wanted && cell > 0) {
      const double place = (double)i + (wanted - below) / cell;
      return STATISTICS_STD_LEAST * exp(place / STATISTICS_STD_CELLS * span);
    }
    below += cell;
  }
  return NAN;
}

double uniformity_distance(const uniformity *u) {
  double below = 0, distance = 0;
  if (u->count == 0) return NAN;
  for (int64_t i = 0; i < STATISTICS_P_CELLS; i++) {
    below += (double)u->cell[i];
    distance =
        fmax(distance, fabs(below / (double)u->count - (double)(i + 1) / STATISTICS_P_CELLS));
  }
  return distance;
}

/* Kolmogorov's asymptotic series, with Stephens's correction for small samples. */
double uniformity_probability(const uniformity *u) {
  const double root = sqrt((double)u->count);
  const double lambda = (root + 0.12 + 0.11 / root) * uniformity_distance(u);
  double sum = 0, sign = 2;
  if (u->count == 0) return NAN;
  if (lambda < 0.2) return 1;
  for (int k = 1; k <= 100; k++, sign = -sign) {
    const double term = exp(-2.0 * k * k * lambda * lambda);
    sum += sign * term;
    if (term < 1e-16) break;
  }
  return fmin(fmax(sum, 0), 1);
}

double uniformity_below(const uniformity *u, double limit) {
  int64_t below = 0;
  const int64_t cells = (int64_t)lround(limit * STATISTICS_P_CELLS);
  for (int64_t i = 0; i < cells && i < STATISTICS_P_CELLS; i++) below += u->cell[i];
  return u->count > 0 ? (double)below / (double)u->count : NAN;
}

/* ---- Matching with the truth --------------------------------------------------------------- */

/* Matching goes frame by frame and compares every pair in a frame: frames have tens or hundreds of
 * spots, seldom more. */

typedef struct frame_view {
  compute_fit_model model;
  int32_t parameters;
  const compute_fit_results *results;
  const int32_t *corners;
  int64_t first, count; /* localisations of this frame */
  const float *truth;   /* its true spots */
  int64_t truths;
} frame_view;

static bool counts(const frame_view *v, int64_t i) {
  const uint8_t status = v->results->status[v->first + i];
  return status == COMPUTE_FIT_CONVERGED || status == COMPUTE_FIT_AT_BOUND;
}

/* The position of localisation i in the frame. */
static void position(const frame_view *v, int64_t i, double at[2]) {
  const float *p = v->results->parameters + (v->first + i) * v->parameters;
  const int32_t *corner = v->corners + 3 * (v->first + i);
  at[0] = (double)p[0] + corner[2];
  at[1] = (double)p[1] + corner[1];
}

static const float *true_spot(const frame_view *v, int64_t k) {
  return v->truth + k * (1 + v->parameters) + 1;
}

static int64_t nearest_truth(const frame_view *v, const double at[2], double *distance) {
  int64_t best = -1;
  *distance = INFINITY;
  for (int64_t k = 0; k < v->truths; k++) {
    const float *t = true_spot(v, k);
    const double d = hypot(at[0] - (double)t[0], at[1] - (double)t[1]);
    if (d < *distance) *distance = d, best = k;
  }
  return best;
}

static int64_t nearest_localisation(const frame_view *v, const float *t) {
  int64_t best = -1;
  double least = INFINITY, at[2];
  for (int64_t i = 0; i < v->count; i++) {
    if (!counts(v, i)) continue;
    position(v, i, at);
    const double d = hypot(at[0] - (double)t[0], at[1] - (double)t[1]);
    if (d < least) least = d, best = i;
  }
  return best;
}

static bool isolated(const frame_view *v, int64_t k, double reach) {
  const float *t = true_spot(v, k);
  for (int64_t other = 0; other < v->truths; other++) {
    const float *o = true_spot(v, other);
    if (other != k && hypot((double)t[0] - (double)o[0], (double)t[1] - (double)o[1]) < reach)
      return false;
  }
  return true;
}

/* Computes errors in the ROI's coordinates, because small numbers lose fewer digits in f32. */
static void add_error(statistics *s, const frame_view *v, int64_t i, int64_t k) {
  float truth[COMPUTE_FIT_MAX_PARAMETERS];
  const int64_t roi = v->first + i;
  if (v->results->status[roi] != COMPUTE_FIT_CONVERGED) return;
  memcpy(truth, true_spot(v, k), (size_t)v->parameters * sizeof *truth);
  truth[0] -= (float)v->corners[3 * roi + 2];
  truth[1] -= (float)v->corners[3 * roi + 1];
  statistics_add_error(s, v->results->parameters + roi * v->parameters,
                       v->results->std ? v->results->std + roi * v->parameters : NULL, truth);
}

static void match_frame(match *m, statistics *s, const frame_view *v) {
  double at[2], distance;
  m->spots += v->truths;
  for (int64_t i = 0; i < v->count; i++) {
    if (!counts(v, i)) continue;
    m->localisations++;
    position(v, i, at);
    const int64_t k = nearest_truth(v, at, &distance);
    if (k < 0 || distance > MATCH_DISTANCE || nearest_localisation(v, true_spot(v, k)) != i)
      continue;
    m->found++;
    if (isolated(v, k, m->isolation)) add_error(s, v, i, k);
  }
}

void match_add(match *m, statistics *s, int64_t count, const compute_fit_results *results,
               const int32_t *corners, int64_t first_frame, int64_t next_frame) {
  const int32_t parameters = compute_fit_parameter_count(s->model);
  int64_t done = 0;
  for (;;) {
    /* The next frame with a localisation or a true spot. */
    int64_t frame = next_frame;
    if (done < count && corners[3 * done] < frame) frame = corners[3 * done];
    if (m->next < m->truths) {
      const int64_t spot = (int64_t)m->truth[m->next * (1 + parameters)] - first_frame;
      if (spot < frame) frame = spot;
    }
    if (frame >= next_frame) return;
    frame_view v = {.model = s->model,
                    .parameters = parameters,
                    .results = results,
                    .corners = corners,
                    .first = done,
                    .truth = m->truth + m->next * (1 + parameters)};
    while (done < count && corners[3 * done] == frame) done++, v.count++;
    while (m->next < m->truths &&
           (int64_t)m->truth[m->next * (1 + parameters)] - first_frame == frame)
      m->next++, v.truths++;
    if (frame >= 0) match_frame(m, s, &v);
  }
}
