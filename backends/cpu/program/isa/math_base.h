/* Pieces that the vector functions are made of.
 *
 * All functions of math_*.h compute one element without branches, so that a loop over them becomes
 * vector code. Selections are written as the conditional operator on values that are both there. */
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

/* ---- Random numbers -------------------------------------------------------------------------- */

/* Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as
 * 1, 2, 3", SC 2011. How key and counter are made is fixed by COMPUTE_I_RANDOM. */

/* Writes words 0 and 1 of the block. */
CPU_INLINE void philox_words(uint64_t key, uint64_t counter, uint32_t stream, uint32_t *word0,
                             uint32_t *word1) {
  uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
  uint32_t x0 = (uint32_t)counter, x1 = (uint32_t)(counter >> 32), x2 = stream, x3 = 0;
  for (int round = 0; round < 10; round++) {
    const uint64_t product0 = (uint64_t)x0 * 0xD2511F53u, product2 = (uint64_t)x2 * 0xCD9E8D57u;
    x0 = (uint32_t)(product2 >> 32) ^ x1 ^ key0;
    x1 = (uint32_t)product2;
    x2 = (uint32_t)(product0 >> 32) ^ x3 ^ key1;
    x3 = (uint32_t)product0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  *word0 = x0;
  *word1 = x1;
}

CPU_INLINE float random_f32(int64_t key, int64_t counter, int64_t stream) {
  uint32_t word0, word1;
  philox_words((uint64_t)key, (uint64_t)counter, (uint32_t)stream, &word0, &word1);
  return (float)(int32_t)(word0 >> 8) * 0x1p-24f;
}

/* 53 bits of word1 : word0 with word1 on top. The halves are converted apart: whole 64-bit integers
 * have no vector conversion before AVX-512, and both parts and their sum are exact. */
CPU_INLINE double random_f64(int64_t key, int64_t counter, int64_t stream) {
  uint32_t word0, word1;
  philox_words((uint64_t)key, (uint64_t)counter, (uint32_t)stream, &word0, &word1);
  const double high = (double)(int32_t)(word1 ^ 0x80000000u) + 0x1p31;
  return high * 0x1p-32 + (double)(int32_t)(word0 >> 11) * 0x1p-53;
}

/* ---- Conversions ---------------------------------------------------------------------------- */

/* Conversions of one element, by the rules of compute/dtype.h. */

/* ---- f16 and bf16 as bits ------------------------------------------------------------------- */

CPU_INLINE float convert_f16_to_f32(uint16_t bits) {
  const int32_t magnitude = (bits & 0x7fff) << 13;
  /* The multiplication moves the exponent's bias, and makes numbers of what is less than normal. */
  const float finite = math_from_bits_f32(magnitude) * 0x1p112f;
  const int32_t special = magnitude | 0x7f800000;
  const int32_t value = magnitude >= 0x7c00 << 13 ? special : math_bits_f32(finite);
  return math_from_bits_f32(value | (int32_t)((uint32_t)(bits & 0x8000) << 16));
}

CPU_INLINE uint16_t convert_f32_to_f16(float x) {
  const uint32_t bits = (uint32_t)math_bits_f32(x), magnitude = bits & 0x7fffffff;
  /* Adding ½ leaves the bits of a number below the normal range, rounded, at the low end. */
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

/* Float to integer truncates and saturates; NaN becomes 0. The value is brought into range before C
 * converts it, since what C does with others is undefined. */
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

/* For u8 and u16, which saturate at their own limits when they are stored from a float. */
CPU_INLINE int32_t convert_f32_to_byte(float x) {
  const float low = x > 0 ? x : 0; /* NaN too */
  return (int32_t)(low < 255 ? low : 255);
}
CPU_INLINE int32_t convert_f64_to_byte(double x) {
  const double low = x > 0 ? x : 0;
  return (int32_t)(low < 255 ? low : 255);
}
CPU_INLINE int32_t convert_f32_to_word(float x) {
  const float low = x > 0 ? x : 0;
  return (int32_t)(low < 65535 ? low : 65535);
}
CPU_INLINE int32_t convert_f64_to_word(double x) {
  const double low = x > 0 ? x : 0;
  return (int32_t)(low < 65535 ? low : 65535);
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

/* On the way to f16 or bf16 a value passes through f32; rounding twice would be wrong by one bit at
 * times. A value that f32 cannot hold is rounded to that neighbour whose last bit is 1: the second
 * rounding then cannot mistake it for a tie (S. Boldo and G. Melquiond, "Emulation of FMA and
 * correctly rounded sums", 2008). */
CPU_INLINE float convert_f64_to_odd(double x) {
  const float nearest = (float)x;
  const int32_t bits = math_bits_f32(nearest);
  const int32_t toward_zero = math_abs_f64((double)nearest) > math_abs_f64(x) ? bits - 1 : bits;
  const int32_t odd = (double)nearest == x || x != x ? bits : toward_zero | 1;
  return math_from_bits_f32(odd);
}
CPU_INLINE float convert_i32_to_odd(int32_t x) {
  return convert_f64_to_odd((double)x);
}
CPU_INLINE float convert_i64_to_odd(int64_t x) {
  /* What f64 cannot hold either loses its low bits to one that says whether there were any. */
  const int64_t cut = (x & ~(int64_t)0x7ff) | ((x & 0x7ff) != 0) << 11;
  const int64_t limit = (int64_t)1 << 53;
  return convert_f64_to_odd((double)(x > limit || x < -limit ? cut : x));
}

#endif
