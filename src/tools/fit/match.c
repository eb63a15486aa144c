/* Localisations beside the truth, frame by frame; see match.h. Every pair of a frame is looked at:
 * frames hold tens or hundreds of spots, seldom more. */
#include "tools/fit/match.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Localisation i, in the frame. */
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

/* Errors in the ROI's own coordinates, where f32 has the most digits. */
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
    /* The next frame that has a localisation or a spot. */
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
