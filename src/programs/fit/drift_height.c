/* SPDX-License-Identifier: MIT */
/* Drift along z.
 *
 * Localisations of two windows at the same place may be of one emitter. So the histogram of their
 * height differences has a peak at the shift, on a background from pairs of different emitters. The
 * background is flat near the peak. The place of the peak is the mean under a Gaussian, which is
 * moved to the mean until it stays there. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "programs/fit/drift_private.h"

enum { BINS_OF_STD = 4, MOST_BINS = 1 << 16, SEARCH_STDS = 16, MOST_STEPS = 100, LEAST_PAIRS = 8 };
#define USUAL_STD 25.0 /* nm; used if the table has no uncertainties */

typedef struct heights {
  const window_set *w;
  const spots *s;
  drift_result *d;
  double reach, spread; /* spread: of the height differences of one emitter */
  double *z;            /* [spots] in the windows' order, corrected by the current drift estimate */
  double bin;
  int32_t bins;
  double *histogram, *smooth; /* [bins] */
} heights;

/* The Gaussian weights end at 1e-4. */
static int32_t width_of(const heights *h) {
  return (int32_t)ceil(4.3 * h->spread / h->bin);
}

static double weight_at(const heights *h, double bins_away) {
  const double t = bins_away * h->bin / h->spread;
  return exp(-t * t / 2);
}

/* ---- Peaks ---------------------------------------------------------------------------------- */

/* Returns the bin with the most pairs under a Gaussian. */
static int32_t find_peak(const heights *h) {
  const int32_t width = width_of(h);
  int32_t peak = h->bins / 2;
  memset(h->smooth, 0, (size_t)h->bins * sizeof *h->smooth);
  for (int32_t i = 0; i < h->bins; i++)
    for (int32_t k = -width; k <= width && h->histogram[i] > 0; k++)
      if (i + k >= 0 && i + k < h->bins) h->smooth[i + k] += h->histogram[i] * weight_at(h, k);
  for (int32_t i = 0; i < h->bins; i++)
    if (h->smooth[i] > h->smooth[peak]) peak = i;
  return peak;
}

/* Returns the peak's place in bins. `place` must be near it. */
static double follow_peak(const heights *h, double place) {
  const int32_t width = width_of(h);
  for (int step = 0; step < MOST_STEPS; step++) {
    double sum = 0, moment = 0;
    for (int32_t k = (int32_t)place - width; k <= (int32_t)place + width; k++) {
      if (k < 0 || k >= h->bins) continue;
      const double away = k + 0.5 - place, weighted = h->histogram[k] * weight_at(h, away);
      sum += weighted;
      moment += weighted * away;
    }
    if (!(sum > 0)) return place;
    place += moment / sum;
    if (fabs(moment) < 1e-4 * sum) break;
  }
  return place;
}

static double pairs_between(const heights *h, double from, double to) {
  double pairs = 0;
  for (int32_t k = (int32_t)fmax(from, 0); k < h->bins && k < to; k++) pairs += h->histogram[k];
  return pairs;
}

/* Returns the number of pairs in the peak minus the number expected from its surroundings. Returns
 * 0 if the peak may be chance. */
static double pairs_of_peak(const heights *h, double place) {
  const double near = 2.5 * h->spread / h->bin, far = 3 * near;
  const double inner = pairs_between(h, place - near, place + near),
               outer = pairs_between(h, place - far, place + far) - inner;
  const double expected = outer * near / (far - near), found = inner - expected;
  return found >= LEAST_PAIRS && found > 5 * sqrt(expected + found) ? found : 0;
}

/* ---- The estimate --------------------------------------------------------------------------- */

static void correct_heights(heights *h) {
  for (int64_t k = 0; k < h->s->count; k++) {
    double drift[3];
    drift_at(h->d, (double)h->s->frame[h->w->order[k]], drift);
    h->z[k] = h->s->z[h->w->order[k]] - drift[2];
  }
}

/* Chooses bins for differences up to `range`. */
static bool choose_bins(heights *h, double range) {
  const double bins = 2 * ceil(range * BINS_OF_STD / h->spread) + 1;
  h->bins = (int32_t)fmin(bins, MOST_BINS);
  h->bin = 2 * range / h->bins;
  free(h->histogram);
  free(h->smooth);
  h->histogram = malloc((size_t)h->bins * sizeof *h->histogram);
  h->smooth = malloc((size_t)h->bins * sizeof *h->smooth);
  return h->histogram && h->smooth;
}

static int64_t measure(heights *h, shift *shifts, int64_t pairs) {
  const window_set *w = h->w;
  int64_t fitted = 0;
  for (int64_t i = 0; i < pairs; i++) {
    shift *s = &shifts[i];
    memset(h->histogram, 0, (size_t)h->bins * sizeof *h->histogram);
    correlate_third(&w->grid[s->a], &w->grid[s->b], h->z + w->begin[s->a], h->z + w->begin[s->b],
                    h->reach, h->bin, h->bins, h->histogram);
    const double place = follow_peak(h, find_peak(h) + 0.5);
    s->weight = pairs_of_peak(h, place);
    s->value = s->weight > 0 ? (place - h->bins / 2.0) * h->bin : 0;
    fitted += s->weight > 0;
  }
  return fitted;
}

/* Improves the curve with the shifts of windows at most `apart` from each other. *known is false if
 * they do not determine it. Returns false when out of memory. */
static bool improve(heights *h, shift *shifts, int64_t apart, double *more, bool *known) {
  drift_axis *axis = &h->d->axis[2];
  const int64_t pairs = drift_pairs(h->w->count, apart, shifts);
  correct_heights(h);
  axis->fitted = measure(h, shifts, pairs);
  axis->residual = drift_solve(shifts, pairs, (int32_t)h->w->count, more);
  *known = axis->residual >= 0;
  return !*known || drift_move(h->d, 2, more);
}

/* Returns the largest difference of two heights. */
static double largest_difference(const spots *s) {
  double least = INFINITY, most = -INFINITY;
  for (int64_t i = 0; i < s->count; i++) {
    if (!isfinite(s->z[i])) continue;
    least = fmin(least, s->z[i]);
    most = fmax(most, s->z[i]);
  }
  return most > least ? most - least : 0;
}

bool drift_add_heights(const window_set *w, const spots *s, double reach, shift *shifts,
                       drift_result *d) {
  const double std = spots_median_std_z(s), range = largest_difference(s);
  heights h = {.w = w, .s = s, .d = d, .reach = reach};
  h.spread = sqrt(2) * (std > 0 ? std : USUAL_STD);
  if (!(range > 0)) return true;
  h.z = malloc((size_t)(s->count + 1) * sizeof *h.z);
  double *more = malloc((size_t)w->count * sizeof *more);
  bool known = true, good = h.z && more;
  d->axes = 3;
  good = good && choose_bins(&h, range + h.spread) &&
         improve(&h, shifts, DRIFT_NEIGHBOURS, more, &known);
  good = good && choose_bins(&h, SEARCH_STDS * h.spread);
  for (int round = 0; round < DRIFT_ROUNDS && good && known; round++)
    good = improve(&h, shifts, w->count, more, &known);
  if (!known) d->axes = 2;
  free(h.z);
  free(more);
  free(h.histogram);
  free(h.smooth);
  return good;
}
