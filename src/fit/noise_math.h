/* SPDX-License-Identifier: MIT */
/* exp, log and erf from additions, multiplications and divisions only, because these round
 * identically on every machine. The C library's functions may differ in the last bit, and one bit
 * in a mean could change a draw. They are (nearly) branch-free for loops that compilers vectorise.
 * The relative error is about 1e-15 (erf: absolute error).
 *
 * kernels/functions_random_draw.h has the same formulas with the same bits, in the dialect of
 * kernels. This room uses no kernels, so the second text stays; tests/fit/test_noise_math.c compares
 * them. */
#ifndef FIT_NOISE_MATH_H
#define FIT_NOISE_MATH_H

#include <stdint.h>
#include <string.h>

static inline double noise_from_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint64_t noise_to_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* For −700 ≤ x ≤ 700. Returns 2^k times the Taylor series of the remainder, which is at most ln 2 /
 * 2. */
static inline double noise_exp(double x) {
  /* Adding this constant rounds to a whole number, which is then in the low bits. The subtraction
   * returns that number. */
  const double whole = 0x1.8p52;
  const double shifted = x * 1.4426950408889634 + whole, k = shifted - whole;
  /* ln 2 in two parts. The first part has few bits, so its product with k is exact. */
  const double r = x - k * 0x1.62e42fefap-1 - k * 0x1.cf79abc9e3b3ap-40;
  double sum = 1.0 / 6227020800;
  sum = sum * r + 1.0 / 479001600;
  sum = sum * r + 1.0 / 39916800;
  sum = sum * r + 1.0 / 3628800;
  sum = sum * r + 1.0 / 362880;
  sum = sum * r + 1.0 / 40320;
  sum = sum * r + 1.0 / 5040;
  sum = sum * r + 1.0 / 720;
  sum = sum * r + 1.0 / 120;
  sum = sum * r + 1.0 / 24;
  sum = sum * r + 1.0 / 6;
  sum = sum * r + 0.5;
  sum = sum * r + 1;
  sum = sum * r + 1;
  return sum * noise_from_bits((noise_to_bits(shifted) + 1023) << 52);
}

/* For positive normal numbers. Splits x into exponent and mantissa m, with m within a factor of
 * root 2 of 1. Then ln m = 2 artanh((m − 1) / (m + 1)). */
static inline double noise_log(double x) {
  const uint64_t root_half = UINT64_C(0x3FE6A09E667F3BCD), bits = noise_to_bits(x) - root_half;
  const double exponent = (double)((int64_t)bits >> 52);
  const double m = noise_from_bits((bits & UINT64_C(0xFFFFFFFFFFFFF)) + root_half);
  const double s = (m - 1) / (m + 1), square = s * s;
  /* The series adds its terms in pairs, and pairs of pairs. This shortens the dependency chains,
   * since callers need one number at a time. */
  const double fourth = square * square, eighth = fourth * fourth;
  const double low = 1.0 / 3 + square * (1.0 / 5) + fourth * (1.0 / 7 + square * (1.0 / 9));
  const double high = 1.0 / 11 + square * (1.0 / 13) + fourth * (1.0 / 15 + square * (1.0 / 17));
  const double sum = low + eighth * (high + eighth * (1.0 / 19));
  return exponent * 0.6931471805599453 + 2 * s * (1 + square * sum);
}

/* Returns erf(x) from a table. */
double noise_erf(double x);

#endif
