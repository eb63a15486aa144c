/* SPDX-License-Identifier: MIT */
/* Histograms of activations, and their ranges. */
#include "quantize/observe.h"

#include <math.h>
#include <string.h>

enum { HALF_BINS = OBSERVER_BINS / 2, SHRINKS = 64 };

/* ---- Adding values --------------------------------------------------------------------------- */

/* Merges pairs of bins until `size` is within reach. */
static void widen(observer *seen, double size) {
  if (seen->reach == 0) {
    int exponent;
    (void)frexp(size, &exponent);
    seen->reach = ldexp(1, exponent);
    seen->bins[HALF_BINS] += seen->zeros;
  }
  while (seen->reach <= size) {
    uint64_t merged[OBSERVER_BINS] = {0};
    for (int i = 0; i < OBSERVER_BINS; i++) merged[HALF_BINS / 2 + i / 2] += seen->bins[i];
    memcpy(seen->bins, merged, sizeof merged);
    seen->reach *= 2;
  }
}

void observer_add(observer *seen, const float *values, int64_t count) {
  double low = seen->low, high = seen->high;
  for (int64_t i = 0; i < count; i++) {
    if (!isfinite(values[i])) continue;
    low = fmin(low, (double)values[i]);
    high = fmax(high, (double)values[i]);
  }
  seen->low = low;
  seen->high = high;
  const double size = fmax(-low, high);
  if (size > 0) widen(seen, size);
  const double scale = seen->reach > 0 ? HALF_BINS / seen->reach : 0;
  for (int64_t i = 0; i < count; i++) {
    if (!isfinite(values[i])) {
      seen->not_finite++;
      continue;
    }
    seen->count++;
    seen->zeros += values[i] == 0;
    if (seen->reach > 0) seen->bins[(int)floor((double)values[i] * scale) + HALF_BINS]++;
  }
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

static double edge_of(const observer *seen, int bin) {
  return (bin - HALF_BINS) * seen->reach / HALF_BINS;
}

static number_range percentile_range(const observer *seen, double percentile) {
  const bool two = seen->low < 0 && seen->high > 0;
  const double cut = (100 - percentile) / 100 * (double)seen->count / (two ? 2 : 1);
  number_range range = {seen->low, seen->high};
  double below = 0, above = 0;
  if (seen->low < 0)
    for (int i = 0; i < OBSERVER_BINS; i++) {
      below += (double)seen->bins[i];
      if (below <= cut) continue;
      range.low = fmin(0, fmax(range.low, edge_of(seen, i)));
      break;
    }
  if (seen->high > 0)
    for (int i = OBSERVER_BINS - 1; i >= 0; i--) {
      above += (double)seen->bins[i];
      if (above <= cut) continue;
      range.high = fmax(0, fmin(range.high, edge_of(seen, i + 1)));
      break;
    }
  return range;
}

/* The mean squared error: rounding inside the range, and the distance from it outside. */
static double squared_error(const observer *seen, number_range range, int32_t steps) {
  const double step = (range.high - range.low) / steps, width = seen->reach / HALF_BINS;
  double sum = 0;
  for (int i = 0; i < OBSERVER_BINS; i++) {
    if (!seen->bins[i]) continue;
    const double x = edge_of(seen, i) + width / 2;
    const double out = x < range.low ? range.low - x : x > range.high ? x - range.high : 0;
    sum += (double)seen->bins[i] * (out * out + step * step / 12);
  }
  return sum;
}

/* A histogram without zeros, which every range represents exactly. Bins are merged until they have
 * LEAST_IN_BIN values on average: counts that differ by chance make merged levels look worse. */
typedef struct density {
  double of[OBSERVER_BINS], total;
  int bins;
} density;

enum { LEAST_IN_BIN = 64, LEAST_BINS = 256 };

static void find_density(const observer *seen, density *d) {
  int used = 0, merged = 1;
  for (int i = 0; i < OBSERVER_BINS; i++) used += seen->bins[i] > 0;
  *d = (density){.total = (double)(seen->count - seen->zeros)};
  while (OBSERVER_BINS / merged > LEAST_BINS && d->total * merged < (double)LEAST_IN_BIN * used)
    merged *= 2;
  d->bins = OBSERVER_BINS / merged;
  for (int i = 0; i < OBSERVER_BINS; i++)
    d->of[i / merged] += (double)(seen->bins[i] - (i == HALF_BINS ? seen->zeros : 0));
}

/* The divergence of the rounded distribution from the values, whose tails are moved to the ends of
 * the range. A level spreads its count over its bins that are not empty. */
static double divergence(const observer *seen, const density *d, number_range range,
                         int32_t steps) {
  double p[OBSERVER_BINS] = {0}, sum = 0, inside = 0;
  const double scale = d->bins / 2 / seen->reach;
  const int first = (int)floor(range.low * scale) + d->bins / 2;
  const int end_bin = (int)ceil(range.high * scale) + d->bins / 2 - 1;
  const int last = end_bin < first ? first : end_bin < d->bins ? end_bin : d->bins - 1;
  for (int i = 0; i < d->bins; i++) {
    p[i < first ? first : i > last ? last : i] += d->of[i];
    if (i >= first && i <= last) inside += d->of[i];
  }
  const int count = last - first + 1;
  for (int level = 0; level <= steps; level++) {
    const int begin = first + (int)((int64_t)count * level / (steps + 1));
    const int end = first + (int)((int64_t)count * (level + 1) / (steps + 1));
    double mass = 0, full = 0;
    for (int i = begin; i < end; i++) {
      mass += d->of[i];
      full += p[i] > 0;
    }
    for (int i = begin; i < end; i++) {
      if (p[i] <= 0) continue;
      const double q = fmax(mass / full / fmax(inside, 1), 1e-12);
      sum += p[i] / d->total * log(p[i] / d->total / q);
    }
  }
  return sum;
}

number_range observer_range(const observer *seen, compute_quantize_range method, double percentile,
                            int32_t steps) {
  const number_range whole = {seen->low, seen->high};
  if (method == COMPUTE_RANGE_MIN_MAX || seen->reach == 0) return whole;
  if (method == COMPUTE_RANGE_PERCENTILE) return percentile_range(seen, percentile);
  number_range best = whole;
  density d;
  find_density(seen, &d);
  double least = INFINITY;
  for (int i = SHRINKS; i >= SHRINKS / 8; i--) {
    const number_range some = {whole.low * i / SHRINKS, whole.high * i / SHRINKS};
    const double error = method == COMPUTE_RANGE_MSE ? squared_error(seen, some, steps)
                                                     : divergence(seen, &d, some, steps);
    if (error >= least) continue;
    least = error;
    best = some;
  }
  return best;
}
