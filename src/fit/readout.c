/* SPDX-License-Identifier: MIT */
/* The Fisher information of a pixel with readout noise.
 *
 * With k electrons of light in a pixel that reads d, the derivative of ln p(d) by the mean m is E[k
 * | d] / m − 1. The information is the mean of its square. It is an integral over d by the
 * trapezoidal rule, with sums over the k that can produce each d. */
#include "fit/readout.h"

#include <math.h>

#define LEAST  0.05 /* variance */
#define BRIGHT 1000 /* from this mean on, 1 / (m + v) is accurate enough */
#define REACH  9.0  /* integration range in standard deviations */
#define SMALL  1e-18

/* Returns the probability density of d and the mean of k. Sums up and down from the k nearest to
 * `around`. */
static double density(double d, double m, double v, double around, double *mean) {
  const double peak = floor(around + 0.5), off = d - peak;
  const double first =
      exp(peak * log(m) - m - lgamma(peak + 1) - off * off / (2 * v)) / sqrt(6.283185307179586 * v);
  double sum = 1, moment = 0, term = 1;
  for (double k = peak + 1; term > SMALL; k++) {
    term *= m / k * exp((d - k + 0.5) / v);
    sum += term;
    moment += term * (k - peak);
  }
  term = 1;
  for (double k = peak; k > 0 && term > SMALL; k--) {
    term *= k / m * exp((k - 0.5 - d) / v);
    sum += term;
    moment -= term * (peak - k + 1);
  }
  *mean = peak + moment / sum;
  return first * sum;
}

/* Returns the most likely k. Newton's method solves m e^t + v t = d for its logarithm t. */
static double most_likely(double d, double m, double v) {
  double t = (d - m) / (m + v); /* right of the solution, like all later values */
  if (d > m && log(d / m) < t) t = log(d / m);
  for (int round = 0; round < 60; round++) {
    const double step = (m * exp(t) + v * t - d) / (m * exp(t) + v);
    t -= step;
    if (fabs(step) < 1e-6) break;
  }
  return m * exp(t);
}

double fit_readout_information(double m, double variance) {
  const double v = variance > LEAST ? variance : LEAST, readout = sqrt(v), noise = sqrt(m + v);
  if (!(m > 0)) return expm1(1 / v); /* the limit */
  if (m > BRIGHT) return 1 / (m + v);
  const double step = fmin(readout / 3, noise / 6);
  const double low = fmax(m - REACH * sqrt(m) - 12, 0) - REACH * readout;
  const double high = m + REACH * sqrt(m) + 25 + REACH * readout;
  double sum = 0;
  for (double d = low; d < high; d += step) {
    double mean;
    const double p = density(d, m, v, most_likely(d, m, v), &mean), score = mean / m - 1;
    sum += p * score * score;
  }
  return sum * step;
}
