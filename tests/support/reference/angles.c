/* SPDX-License-Identifier: MIT */
/* Quadrants by the product with 320 bits of 2/π, in whole numbers. */
#include "support/reference/angles.h"

#include <math.h>
#include <stdint.h>

enum { DIGITS = 10, POINT = 32 * DIGITS };

static const uint32_t two_over_pi[DIGITS] = {0x424dd2e0, 0xb7246e3a, 0xdebbc561, 0xfe5163ab,
                                             0x3c439041, 0xdb629599, 0xf534ddc0, 0xfc2757d1,
                                             0x4e441529, 0xa2f9836e}; /* the last digit first */

static uint64_t digit(const uint32_t *digits, int count, int i) {
  return i >= 0 && i < count ? digits[i] : 0;
}

/* 64 bits of the number from bit `first` on. */
static uint64_t bits_from(const uint32_t *digits, int count, int first) {
  const int at = first >= 0 ? first / 32 : -((31 - first) / 32), shift = first - 32 * at;
  const uint64_t low = digit(digits, count, at) | digit(digits, count, at + 1) << 32;
  return shift ? low >> shift | digit(digits, count, at + 2) << (64 - shift) : low;
}

/* x is the result and `quadrant` quarters of a turn; the result is at most π/4 in absolute value. */
static long double reduce(long double x, int *quadrant) {
  int exponent;
  const long double half_pi = 1.57079632679489661923132169163975144L;
  const uint64_t mantissa = (uint64_t)ldexpl(frexpl(fabsl(x), &exponent), 64);
  uint32_t product[DIGITS + 2];
  uint64_t low = 0, high = 0;
  for (int i = 0; i < DIGITS + 2; i++) {
    if (i < DIGITS) low += (mantissa & UINT32_MAX) * two_over_pi[i];
    product[i] = (uint32_t)(low + (high & UINT32_MAX));
    low = (low >> 32) + (((low & UINT32_MAX) + (high & UINT32_MAX)) >> 32);
    high = (high >> 32) + (i < DIGITS ? (mantissa >> 32) * two_over_pi[i] : 0);
  }
  const int point = POINT - (exponent - 64);
  *quadrant = (int)(bits_from(product, DIGITS + 2, point) & 3);
  long double part = ldexpl((long double)bits_from(product, DIGITS + 2, point - 64), -64) +
                     ldexpl((long double)bits_from(product, DIGITS + 2, point - 128), -128);
  if (part > 0.5L) { /* the number from the next quadrant down, exact in its last bits as well */
    const uint64_t above = bits_from(product, DIGITS + 2, point - 64);
    const uint64_t below = bits_from(product, DIGITS + 2, point - 128);
    part = -(ldexpl((long double)~above, -64) + ldexpl((long double)~below, -128));
    ++*quadrant;
  }
  return x < 0 ? (*quadrant = -*quadrant, -part * half_pi) : part * half_pi;
}

/* The sine of x and `more` quarters of a turn. */
static long double turned(long double x, int more) {
  int quadrant = 0;
  if (!isfinite(x)) return NAN;
  if (fabsl(x) > 0.75L) x = reduce(x, &quadrant);
  const long double value = (quadrant + more) & 1 ? cosl(x) : sinl(x);
  return (quadrant + more) & 2 ? -value : value;
}

long double angle_sin(long double x) {
  return turned(x, 0);
}

long double angle_cos(long double x) {
  return turned(x, 1);
}

long double angle_tan(long double x) {
  return turned(x, 0) / turned(x, 1);
}
