/* SPDX-License-Identifier: MIT */
/* Building blocks of the vector functions, and the CPU backend's dialect for compiling
 * kernels/functions_*.h.
 *
 * All functions compute one element without branches, so that a loop over them is vectorised.
 * Selections use the conditional operator, with both values computed already. */
#ifndef CPU_PROGRAM_MATH_BASE_H
#define CPU_PROGRAM_MATH_BASE_H

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

CPU_INLINE float math_fabs_f32(float x) {
  return __builtin_fabsf(x);
}
CPU_INLINE double math_fabs_f64(double x) {
  return __builtin_fabs(x);
}
CPU_INLINE float math_sqrt_f32(float x) {
  return __builtin_sqrtf(x);
}
CPU_INLINE double math_sqrt_f64(double x) {
  return __builtin_sqrt(x);
}
CPU_INLINE float math_copysign_f32(float x, float sign) {
  return __builtin_copysignf(x, sign);
}
CPU_INLINE double math_copysign_f64(double x, double sign) {
  return __builtin_copysign(x, sign);
}

/* a * b + c, rounded once if the instruction set supports it; the error bounds hold either way. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define FUSED_MAD
#endif
CPU_INLINE float math_madd_f32(float a, float b, float c) {
#ifdef FUSED_MAD
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
CPU_INLINE double math_madd_f64(double a, double b, double c) {
#ifdef FUSED_MAD
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

/* Adding this to a number of small magnitude leaves the nearest integer in the low bits. */
#define MATH_SHIFT_F64 0x1.8p52

/* The nearest whole number, ties to even. Baseline x86-64 has no instruction for it. */
CPU_INLINE float math_rint_f32(float x) {
  const float magnitude = math_fabs_f32(x), whole = (magnitude + 0x1p23f) - 0x1p23f;
  return math_copysign_f32(magnitude < 0x1p23f ? whole : magnitude, x);
}
CPU_INLINE double math_rint_f64(double x) {
  const double magnitude = math_fabs_f64(x), whole = (magnitude + 0x1p52) - 0x1p52;
  return math_copysign_f64(magnitude < 0x1p52 ? whole : magnitude, x);
}

/* 2^n for n = −1022 … 1023. */
CPU_INLINE double math_power_of_two_f64(int64_t n) {
  return math_from_bits_f64((int64_t)((uint64_t)(n + 1023) << 52));
}

/* ---- The keywords of kernels/functions_*.h -------------------------------------------------- */

typedef int32_t i32;
typedef uint32_t u32;
typedef int64_t i64;
typedef uint64_t u64;
typedef float f32;
typedef double f64;
typedef int boolean;
#define DEVICE         CPU_INLINE
#define CONSTANT_TABLE static const
#define UNROLL
#define NO_UNROLL
#define FOR_CPU
#define FOR_CPU_WITH_F64
#define BUILTIN_f32(name)  math_##name##_f32
#define BUILTIN_f64(name)  math_##name##_f64
#define MAD_f32(a, b, c)   math_madd_f32(a, b, c)
#define MAD_f64(a, b, c)   math_madd_f64(a, b, c)
#define FAST_RECIPROCAL(x) (1.0f / (x))
#define QUOTIENT_f32(a, b) ((a) / (b))
#define INFINITY_f32       __builtin_inff()
#define NAN_f32            __builtin_nanf("")
#define NAN_f64            __builtin_nan("")
#define as_f32(bits)       math_from_bits_f32((i32)(bits))
#define as_i32(x)          math_bits_f32(x)
#define as_u32(x)          ((u32)math_bits_f32(x))
#define as_f64(bits)       math_from_bits_f64((i64)(bits))
#define as_u64(x)          ((u64)math_bits_f64(x))

/* ---- Conversions ---------------------------------------------------------------------------- */

/* Conversions of one element, by the rules of compute/dtype.h. */

/* ---- f16 and bf16 as bits ------------------------------------------------------------------- */

CPU_INLINE float convert_f16_to_f32(uint16_t bits) {
  const int32_t magnitude = (bits & 0x7fff) << 13;
  /* The multiplication adjusts the exponent's bias, and converts subnormals. */
  const float finite = math_from_bits_f32(magnitude) * 0x1p112f;
  const int32_t special = magnitude | 0x7f800000;
  const int32_t value = magnitude >= 0x7c00 << 13 ? special : math_bits_f32(finite);
  return math_from_bits_f32(value | (int32_t)((uint32_t)(bits & 0x8000) << 16));
}

CPU_INLINE uint16_t convert_f32_to_f16(float x) {
  const uint32_t bits = (uint32_t)math_bits_f32(x), magnitude = bits & 0x7fffffff;
  /* Adding ½ moves the rounded bits of a number below the normal range to the low end. */
  const uint32_t small =
      (uint32_t)math_bits_f32(math_from_bits_f32((int32_t)magnitude) + 0.5f) - 0x3f000000;
  const uint32_t rounded = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
  const uint32_t nan = 0x7e00 | (magnitude >> 13 & 0x3ff);
  uint32_t half = magnitude < 0x38800000 ? small : rounded;
  half = magnitude >= 0x47800000 ? 0x7c00 : half;
  half = magnitude > 0x7f800000 ? nan : half;
  return (uint16_t)(half | (bits >> 16 & 0x8000));
}

CPU_INLINE float convert_bf16_to_f32(uint16_t bits) {
  return math_from_bits_f32((int32_t)((uint32_t)bits << 16));
}

CPU_INLINE uint16_t convert_f32_to_bf16(float x) {
  const uint32_t bits = (uint32_t)math_bits_f32(x);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
  return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

/* ---- Between computing types ---------------------------------------------------------------- */

/* Float to integer truncates and saturates; NaN becomes 0. The value is clamped before the
 * conversion, because C does not define it out of range. */
CPU_INLINE int32_t convert_f32_to_i32(float x) {
  const float low = x >= -0x1p31f ? x : -0x1p31f;
  const int32_t value = (int32_t)(low < 0x1p31f ? low : 0);
  const int32_t saturated = x >= 0x1p31f ? INT32_MAX : value;
  return x == x ? saturated : 0;
}
CPU_INLINE int32_t convert_f64_to_i32(double x) {
  const double low = x >= -0x1p31 ? x : -0x1p31;
  const int32_t value = (int32_t)(low < 2147483647.0 ? low : 2147483647.0);
  return x == x ? value : 0;
}
CPU_INLINE int64_t convert_f32_to_i64(float x) {
  const float low = x >= -0x1p63f ? x : -0x1p63f;
  const int64_t value = (int64_t)(low < 0x1p63f ? low : 0);
  const int64_t saturated = x >= 0x1p63f ? INT64_MAX : value;
  return x == x ? saturated : 0;
}
CPU_INLINE int64_t convert_f64_to_i64(double x) {
  const double low = x >= -0x1p63 ? x : -0x1p63;
  const int64_t value = (int64_t)(low < 0x1p63 ? low : 0);
  const int64_t saturated = x >= 0x1p63 ? INT64_MAX : value;
  return x == x ? saturated : 0;
}

/* The result has the bits of a u64. */
CPU_INLINE int64_t convert_f64_to_u64(double x) {
  const double lower = x >= 0x1p63 ? x - 0x1p63 : x > 0 ? x : 0; /* 0 for NaN as well */
  return convert_f64_to_i64(lower) | (x >= 0x1p63 ? INT64_MIN : 0);
}
CPU_INLINE int64_t convert_f32_to_u64(float x) {
  const float lower = x >= 0x1p63f ? x - 0x1p63f : x > 0 ? x : 0;
  return convert_f32_to_i64(lower) | (x >= 0x1p63f ? INT64_MIN : 0);
}

CPU_INLINE float convert_f64_to_f32(double x) {
  return (float)x;
}
CPU_INLINE double convert_f32_to_f64(float x) {
  return (double)x;
}
CPU_INLINE float convert_i64_to_f32(int64_t x) {
  return (float)x;
}
CPU_INLINE float convert_i32_to_f32(int32_t x) {
  return (float)x;
}
CPU_INLINE double convert_i64_to_f64(int64_t x) {
  return (double)x;
}
CPU_INLINE double convert_i32_to_f64(int32_t x) {
  return (double)x;
}
CPU_INLINE int32_t convert_i64_to_i32(int64_t x) {
  return (int32_t)x;
}
CPU_INLINE int64_t convert_i32_to_i64(int32_t x) {
  return x;
}

/* BOOL is a mask, 0 or −1. */
CPU_INLINE float convert_mask_to_f32(int32_t mask) {
  return (float)-mask;
}
CPU_INLINE double convert_mask_to_f64(int32_t mask) {
  return (double)-mask;
}
CPU_INLINE int32_t convert_mask_to_i32(int32_t mask) {
  return -mask;
}
CPU_INLINE int64_t convert_mask_to_i64(int32_t mask) {
  return -(int64_t)mask;
}
CPU_INLINE int32_t convert_f32_to_mask(float x) {
  return -(x != 0);
}
CPU_INLINE int32_t convert_f64_to_mask(double x) {
  return -(x != 0);
}
CPU_INLINE int32_t convert_i32_to_mask(int32_t x) {
  return -(x != 0);
}
CPU_INLINE int32_t convert_i64_to_mask(int64_t x) {
  return -(x != 0);
}

/* ---- Rounded to odd ------------------------------------------------------------------------- */

/* Conversions to f16 or bf16 go through f32; two roundings would sometimes be wrong by one bit. So
 * a value that is not exact in f32 is rounded to the neighbour whose last bit is 1: the second
 * rounding then cannot mistake it for a tie (S. Boldo and G. Melquiond, "Emulation of FMA and
 * correctly rounded sums", 2008). */
CPU_INLINE float convert_f64_to_odd(double x) {
  const float nearest = (float)x;
  const int32_t bits = math_bits_f32(nearest);
  const int32_t toward_zero = math_fabs_f64((double)nearest) > math_fabs_f64(x) ? bits - 1 : bits;
  const int32_t odd = (double)nearest == x || x != x ? bits : toward_zero | 1;
  return math_from_bits_f32(odd);
}
CPU_INLINE float convert_i32_to_odd(int32_t x) {
  /* Beyond 2^24, a sticky bit replaces eight low bits. The others are exact in f32. */
  const int32_t cut = (x & ~(int32_t)0xff) | ((x & 0xff) != 0) << 8;
  const int32_t limit = (int32_t)1 << 24;
  return (float)(x > limit || x < -limit ? cut : x);
}
CPU_INLINE float convert_i64_to_odd(int64_t x) {
  /* For values that are not exact in f64 either, a sticky bit replaces the low bits. */
  const int64_t cut = (x & ~(int64_t)0x7ff) | ((x & 0x7ff) != 0) << 11;
  const int64_t limit = (int64_t)1 << 53;
  return convert_f64_to_odd((double)(x > limit || x < -limit ? cut : x));
}

#endif
