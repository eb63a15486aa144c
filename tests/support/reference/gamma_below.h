/* SPDX-License-Identifier: MIT */
/* The regularised lower incomplete gamma function, for tests of gamma and Poisson numbers. */
#ifndef SUPPORT_REFERENCE_GAMMA_BELOW_H
#define SUPPORT_REFERENCE_GAMMA_BELOW_H

#include <math.h>

/* By its series, or by Lentz's continued fraction. */
static inline double gamma_below(double a, double x) {
  const double front = exp(a * log(x) - x - lgamma(a));
  if (x <= 0) return 0;
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (double n = a + 1; fabs(term) > 1e-16 * sum; n++) sum += term *= x / n;
    return front * sum;
  }
  double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
  for (int i = 1; i < 10000; i++) {
    const double an = -i * (i - a);
    b += 2;
    d = 1 / (an * d + b);
    c = b + an / c;
    h *= d * c;
    if (fabs(d * c - 1) < 1e-15) break;
  }
  return 1 - front * h;
}

#endif
