/* SPDX-License-Identifier: MIT */
/* How far a histogram is from the expected one. */
#ifndef SUPPORT_REFERENCE_CHI_SQUARED_H
#define SUPPORT_REFERENCE_CHI_SQUARED_H

#include <math.h>

/* The number of deviations by which chi-squared exceeds its mean, by Wilson and Hilferty's normal
 * approximation. Bins with fewer than 10 expected numbers are joined. */
static inline double chi_excess(const double *expected, const double *seen, int count) {
  double chi = 0, wanted = 0, found = 0, left = 0;
  int bins = 0;
  for (int i = 0; i < count; i++) left += expected[i];
  for (int i = 0; i < count; i++) {
    wanted += expected[i], found += seen[i], left -= expected[i];
    if (wanted < 10 || (left > 0 && left < 10)) continue;
    chi += (found - wanted) * (found - wanted) / wanted;
    wanted = found = 0;
    bins++;
  }
  if (wanted > 0.1) chi += (found - wanted) * (found - wanted) / wanted;
  if (bins < 2) return 0;
  const double k = bins - 1, spread = 2 / (9 * k);
  return (cbrt(chi / k) - (1 - spread)) / sqrt(spread);
}

#endif
