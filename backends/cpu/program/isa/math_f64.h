/* SPDX-License-Identifier: MIT */
/* The functions in f64. exp, log and tanh are vector code in this file. Functions composed of them,
 * such as sigmoid, come from kernels/functions_f64.h. The rest calls the C library, one element at
 * a time, because accuracy has priority here.
 *
 * The methods are the same as in kernels/functions_f32.h, with Taylor polynomials long
 * enough for f64. */
#ifndef CPU_PROGRAM_MATH_F64_H
#define CPU_PROGRAM_MATH_F64_H

#include <math.h>

#include "math_base.h"

#define MATH_LN2_HIGH_F64 0x1.62e42feep-1       /* 32 bits: exact times n */
#define MATH_LN2_LOW_F64  0x1.a39ef35793c76p-33 /* high + low = ln 2 */

/* x = n ln 2 + r; n is `shifted` − MATH_SHIFT_F64. */
typedef struct math_reduced_f64 {
  double r, shifted;
} math_reduced_f64;

CPU_INLINE math_reduced_f64 math_reduce_f64(double x) {
  const double shifted = math_madd_f64(x, 0x1.71547652b82fep+0, MATH_SHIFT_F64);
  const double n = shifted - MATH_SHIFT_F64;
  const double r = math_madd_f64(n, -MATH_LN2_HIGH_F64, x);
  return (math_reduced_f64){.r = math_madd_f64(n, -MATH_LN2_LOW_F64, r), .shifted = shifted};
}

CPU_INLINE double exp_power_f64(double shifted) {
  return math_power_of_two_f64(math_bits_f64(shifted) - math_bits_f64(MATH_SHIFT_F64));
}

/* exp(r) − 1 for |r| ≤ ln 2 / 2. */
CPU_INLINE double math_expm1_small_f64(double r) {
  double q = 1.0 / 6227020800;
  q = math_madd_f64(q, r, 1.0 / 479001600);
  q = math_madd_f64(q, r, 1.0 / 39916800);
  q = math_madd_f64(q, r, 1.0 / 3628800);
  q = math_madd_f64(q, r, 1.0 / 362880);
  q = math_madd_f64(q, r, 1.0 / 40320);
  q = math_madd_f64(q, r, 1.0 / 5040);
  q = math_madd_f64(q, r, 1.0 / 720);
  q = math_madd_f64(q, r, 1.0 / 120);
  q = math_madd_f64(q, r, 1.0 / 24);
  q = math_madd_f64(q, r, 1.0 / 6);
  q = math_madd_f64(q, r, 0.5);
  return math_madd_f64(q, r * r, r);
}

CPU_INLINE double exp_f64(double x) {
  x = x > 710 ? 710 : x;
  x = x < -746 ? -746 : x;
  const math_reduced_f64 reduced = math_reduce_f64(x);
  const double n = reduced.shifted - MATH_SHIFT_F64;
  /* Two factors, since 2^n alone may be out of range; only the last product rounds. */
  const double half = 0.5 * n + MATH_SHIFT_F64;
  const double rest = (n - (half - MATH_SHIFT_F64)) + MATH_SHIFT_F64;
  const double y = (1 + math_expm1_small_f64(reduced.r)) * exp_power_f64(half);
  return y * exp_power_f64(rest);
}

CPU_INLINE double log_f64(double x) {
  const double tiny = x < 0x1p-1022 ? 1 : 0;
  const double normal = x < 0x1p-1022 ? x * 0x1p52 : x;
  /* The exponent, counted from √½. To convert it, its bits are written into the low bits of a
   * float, because 64-bit integers have no vector conversion before AVX-512. */
  const uint64_t bits = (uint64_t)math_bits_f64(normal), root_half = 0x3fe6a09e667f3bcd;
  const uint64_t biased = (bits - root_half + (1023ull << 52)) >> 52;
  const double k = math_from_bits_f64((int64_t)biased + math_bits_f64(MATH_SHIFT_F64)) -
                   (MATH_SHIFT_F64 + 1023) - 52 * tiny;
  const double m = math_from_bits_f64((int64_t)(bits - ((biased - 1023) << 52)));
  const double f = m - 1, s = f / (2 + f), z = s * s, half_square = 0.5 * f * f;
  double q = 2.0 / 23;
  q = math_madd_f64(q, z, 2.0 / 21);
  q = math_madd_f64(q, z, 2.0 / 19);
  q = math_madd_f64(q, z, 2.0 / 17);
  q = math_madd_f64(q, z, 2.0 / 15);
  q = math_madd_f64(q, z, 2.0 / 13);
  q = math_madd_f64(q, z, 2.0 / 11);
  q = math_madd_f64(q, z, 2.0 / 9);
  q = math_madd_f64(q, z, 2.0 / 7);
  q = math_madd_f64(q, z, 2.0 / 5);
  q = math_madd_f64(q, z, 2.0 / 3);
  /* log(1 + f) = f − f²/2 + s (f²/2 + z q) */
  const double tail = math_madd_f64(s, math_madd_f64(z, q, half_square), k * MATH_LN2_LOW_F64);
  const double result = math_madd_f64(k, MATH_LN2_HIGH_F64, f - (half_square - tail));
  const double outside = x == 0 ? -__builtin_inf() : __builtin_nan("");
  const double finite = x < __builtin_inf() ? result : x;
  return ((x > 0) | (x != x)) ? finite : outside;
}

CPU_INLINE double tanh_f64(double x) {
  double magnitude = math_fabs_f64(x);
  magnitude = magnitude > 20 ? 20 : magnitude;
  const math_reduced_f64 reduced = math_reduce_f64(magnitude + magnitude);
  const double p = math_expm1_small_f64(reduced.r);
  const double power = exp_power_f64(reduced.shifted);
  const double t = math_madd_f64(power, p, power - 1);
  return math_copysign_f64(t / math_madd_f64(power, p, power + 1), x);
}

CPU_INLINE double mod_f64(double a, double b) {
  return fmod(a, b);
}

#define exp_f64  exp_f64
#define log_f64  log_f64
#define tanh_f64 tanh_f64
#include "../../../../kernels/functions_f64.h"

#endif
