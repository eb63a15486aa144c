/* Pieces that the vector functions are made of.
 *
 * All functions of math_*.h compute one element without branches, so that a loop over them becomes
 * vector code. Selections are written as the conditional operator on values that are both there. */
#ifndef CPU_ISA_MATH_BASE_H
#define CPU_ISA_MATH_BASE_H

#include <stdint.h>
#include <string.h>

#include "tile_loops.h"

CPU_INLINE int32_t math_bits_f32(float x) {
  int32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
CPU_INLINE float math_from_bits_f32(int32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
CPU_INLINE int64_t math_bits_f64(double x) {
  int64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
CPU_INLINE double math_from_bits_f64(int64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

CPU_INLINE float math_abs_f32(float x) {
  return __builtin_fabsf(x);
}
CPU_INLINE double math_abs_f64(double x) {
  return __builtin_fabs(x);
}
CPU_INLINE float math_sqrt_f32(float x) {
  return __builtin_sqrtf(x);
}
CPU_INLINE double math_sqrt_f64(double x) {
  return __builtin_sqrt(x);
}
CPU_INLINE float math_copy_sign_f32(float x, float sign) {
  return __builtin_copysignf(x, sign);
}
CPU_INLINE double math_copy_sign_f64(double x, double sign) {
  return __builtin_copysign(x, sign);
}

/* a * b + c, rounded once where the instruction set can: the error bounds hold either way. */
CPU_INLINE float math_madd_f32(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
CPU_INLINE double math_madd_f64(double a, double b, double c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

/* Added to a number of small magnitude, these leave the nearest integer in the low bits. */
#define MATH_SHIFT_F32      0x1.8p23f
#define MATH_SHIFT_F64      0x1.8p52
#define MATH_SHIFT_BITS_F32 0x4b400000u

/* The nearest whole number, ties to even. Baseline x86-64 has no instruction for it. */
CPU_INLINE float math_round_f32(float x) {
  const float magnitude = math_abs_f32(x), whole = (magnitude + 0x1p23f) - 0x1p23f;
  return math_copy_sign_f32(magnitude < 0x1p23f ? whole : magnitude, x);
}
CPU_INLINE double math_round_f64(double x) {
  const double magnitude = math_abs_f64(x), whole = (magnitude + 0x1p52) - 0x1p52;
  return math_copy_sign_f64(magnitude < 0x1p52 ? whole : magnitude, x);
}

/* 2^n for n = −126 … 127 and −1022 … 1023. */
CPU_INLINE float math_power_of_two_f32(int32_t n) {
  return math_from_bits_f32((int32_t)((uint32_t)(n + 127) << 23));
}
CPU_INLINE double math_power_of_two_f64(int64_t n) {
  return math_from_bits_f64((int64_t)((uint64_t)(n + 1023) << 52));
}

/* x 2^n where both are normal numbers and x is not 0. Adding to the exponent's bits is a
 * multiplication that does not occupy the multipliers. */
CPU_INLINE float math_scale_f32(float x, uint32_t n) {
  return math_from_bits_f32((int32_t)((uint32_t)math_bits_f32(x) + (n << 23)));
}

#endif
