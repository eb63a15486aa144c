/* SPDX-License-Identifier: MIT */
/* Functions for the test of a fit: the deviance's moments and the incomplete gamma function. */
#include "support/reference/fit_reference.h"

#include <math.h>

/* Above this mean, the series in 1 / mu are accurate to 1e-8. */
#define SERIES_FROM 1000.0

/* Both distributions are sums over the Poisson number n of electrons. Given n, the multiplier's
 * output has a gamma distribution of shape n. Its E[d ln d], E[d² ln d] and E[(d ln d)²] follow
 * from the digamma and trigamma functions. */
typedef struct given_number {
  double first, second; /* E[D/2] and E[(D/2)²] */
} given_number;

static given_number poisson_given(double n, double mu) {
  double half = n > 0 ? n * log(n / mu) - n + mu : mu;
  return (given_number){half, half * half};
}

/* `digamma` and `trigamma` at n + 1. */
static given_number gamma_given(double n, double mu, double digamma, double trigamma) {
  double scale = log(mu) + 1;
  double next = digamma + 1 / (n + 1), next_tri = trigamma - 1 / ((n + 1) * (n + 1));
  /* D/2 = d (ln d − scale) + mu; l and l2 are E[d (…)] and E[d² (…)²]. */
  double l = n * (digamma - scale);
  double l2 = n * (n + 1) * ((next - scale) * (next - scale) + next_tri);
  return (given_number){l + mu, l2 + 2 * mu * l + mu * mu};
}

void fit_reference_moments(bool gamma, double mu, double *mean, double *variance) {
  if (mu > SERIES_FROM) {
    double inverse = 1 / mu;
    *mean = gamma ? 2 : 1 + inverse / 6 + inverse * inverse / 6;
    *variance = gamma ? 8 - inverse * (8.0 / 3 + inverse * 4 / 3)
                      : 2 + inverse * (2.0 / 3 + inverse * 4 / 3);
    return;
  }
  double low = floor(mu - 12 * sqrt(mu) - 20), high = ceil(mu + 12 * sqrt(mu) + 40);
  double digamma = -0.57721566490153286061, trigamma = 1.64493406684822643647;
  double first = 0, second = 0, probability = exp(-mu);
  /* If exp(−mu) underflows, begin at the first term that counts. */
  if (low < 0) low = 0;
  if (low > 0) probability = exp(low * log(mu) - mu - lgamma(low + 1));
  for (double n = 1; n <= low; n++) {
    digamma += 1 / n;
    trigamma -= 1 / (n * n);
  }
  for (double n = low; n <= high; n++) {
    given_number given = gamma ? gamma_given(n, mu, digamma, trigamma) : poisson_given(n, mu);
    first += probability * given.first;
    second += probability * given.second;
    digamma += 1 / (n + 1);
    trigamma -= 1 / ((n + 1) * (n + 1));
    probability *= mu / (n + 1);
  }
  *mean = 2 * first;
  *variance = 4 * (second - first * first);
}

/* The mean is 2 (E[f(n)] − mu ln mu) with f(n) = n ln n, or n digamma(n + 1); the derivative of a
 * Poisson mean value E[f(n)] is E[f(n + 1) − f(n)]. */
void fit_reference_moment_slopes(bool gamma, double mu, double *slope, double *curvature) {
  if (mu > 100) {
    *slope = gamma ? 0 : -1 / (6 * mu * mu);
    *curvature = gamma ? 0 : 1 / (3 * mu * mu * mu);
    return;
  }
  double first = 0, second = 0, probability = exp(-mu), digamma = -0.57721566490153286061;
  double here = 0, next = 0, after = 2 * log(2);
  for (double n = 0; n < mu + 12 * sqrt(mu) + 40; n++) {
    first += probability * (gamma ? digamma + 1 : next - here);
    second += probability * (gamma ? 1 / (n + 1) : after - 2 * next + here);
    digamma += 1 / (n + 1);
    here = next;
    next = after;
    after = (n + 3) * log(n + 3);
    probability *= mu / (n + 1);
  }
  *slope = 2 * (first - log(mu) - 1);
  *curvature = 2 * (second - 1 / mu);
}

/* Uses the series of P for x < a + 1, and the continued fraction (Lentz's method) beyond. */
double fit_reference_upper_gamma(double a, double x) {
  if (isnan(a) || isnan(x) || a <= 0) return NAN;
  if (x <= 0) return 1;
  double front = exp(a * log(x) - x - lgamma(a));
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (double n = a + 1; term > sum * 1e-17; n++) sum += term *= x / n;
    return 1 - front * sum;
  }
  double b = x + 1 - a, c = 1e300, d = 1 / b, value = d;
  for (int i = 1; i < 100000; i++) {
    double numerator = -i * (i - a);
    b += 2;
    d = 1 / (numerator * d + b);
    c = b + numerator / c;
    value *= c * d;
    if (fabs(c * d - 1) < 1e-15) break;
  }
  return front * value;
}
