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

#endif
