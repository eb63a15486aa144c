/* SPDX-License-Identifier: MIT */
/* Instructions on two f32 operands with a short form for ordinary operands: mod and pow. Like the
 * functions of tile_float.c they compute a part of a tile, and compute it again with the whole form
 * if an operand was not ordinary. Also random numbers on vectors. */
#ifndef CPU_ISA_TILE_PAIRS_H
#define CPU_ISA_TILE_PAIRS_H

#include "math_f32.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

enum { PAIR_PART = 256 };

/* A part from element `from` on: `left` and `right` mark a repeated operand. */
#define PAIRS_LOOP(name, type, part)                                                               \
  static void name##_loop(int64_t count, void *result, const void *a, const void *b,               \
                          const void *c, cpu_immediate immediate) {                                \
    (void)c, (void)immediate;                                                                      \
    for (int64_t i = 0; i < count; i += PAIR_PART)                                                 \
      part(cpu_part(count - i), (type *)result + i, (const type *)a + i, (const type *)b + i,      \
           false, false);                                                                          \
  }                                                                                                \
  static void name##_left(int64_t count, void *result, const void *a, const void *b,               \
                          const void *c, cpu_immediate immediate) {                                \
    const type one = *(const type *)a;                                                             \
    (void)c, (void)immediate;                                                                      \
    for (int64_t i = 0; i < count; i += PAIR_PART)                                                 \
      part(cpu_part(count - i), (type *)result + i, &one, (const type *)b + i, true, false);       \
  }                                                                                                \
  static void name##_right(int64_t count, void *result, const void *a, const void *b,              \
                           const void *c, cpu_immediate immediate) {                               \
    const type one = *(const type *)b;                                                             \
    (void)c, (void)immediate;                                                                      \
    for (int64_t i = 0; i < count; i += PAIR_PART)                                                 \
      part(cpu_part(count - i), (type *)result + i, (const type *)a + i, &one, false, true);       \
  }

CPU_INLINE int64_t cpu_part(int64_t left) {
  return left < PAIR_PART ? left : PAIR_PART;
}

/* ---- mod ------------------------------------------------------------------------------------- */

/* The quotient's whole part, at most one too large, times b is subtracted in f64, which is exact:
 * 24 and 24 digits. Larger quotients, and operands that are not finite, are for the C library. */
CPU_INLINE void mod_part(int64_t count, float *r, const float *a, const float *b, const bool left,
                         const bool right) {
  float made[PAIR_PART];
  int32_t special = 0;
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    const float x = a[left ? 0 : i], y = b[right ? 0 : i], quotient = x / y;
    const float size = math_fabs_f32(quotient), nearest = (size + 0x1p23f) - 0x1p23f;
    const bool ordinary = (size < 0x1p23f) & (math_fabs_f32(y) < INFINITY_f32);
    const float whole = math_copysign_f32(nearest > size ? nearest - 1 : nearest, quotient);
#ifdef FUSED_MAD
    const float rest = math_madd_f32(-whole, y, x);
#else
    const float rest = (float)((double)x - (double)whole * (double)y);
#endif
    const float mended = rest + math_copysign_f32(math_fabs_f32(y), x);
    const bool turned = ((math_bits_f32(rest) ^ math_bits_f32(x)) < 0) & (rest != 0);
    made[i] = math_copysign_f32(turned ? mended : rest, x);
    special |= -(int32_t)!ordinary;
  }
  if (!special)
    memcpy(r, made, (size_t)count * sizeof *r);
  else
    for (int64_t i = 0; i < count; i++) r[i] = mod_f32(a[left ? 0 : i], b[right ? 0 : i]);
}

PAIRS_LOOP(mod, float, mod_part)

/* ---- pow ------------------------------------------------------------------------------------- */

/* For finite a and b: the steps of pow_f32, each as a loop that vectorises. */
CPU_INLINE void pow_part(int64_t count, float *r, const float *a, const float *b, const bool left,
                         const bool right) {
  double wide[PAIR_PART];
  float made[PAIR_PART];
  int32_t special = 0, negative = 0;
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    const float x = a[left ? 0 : i], y = b[right ? 0 : i], magnitude = math_fabs_f32(x);
    const bool ordinary = (magnitude < INFINITY_f32) & (math_fabs_f32(y) < INFINITY_f32);
    special |= -(int32_t)!ordinary;
    negative |= math_bits_f32(x);
    wide[i] = log2_wide_f32(magnitude);
  }
  if (special) {
    for (int64_t i = 0; i < count; i++) r[i] = pow_f32(a[left ? 0 : i], b[right ? 0 : i]);
    return;
  }
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    const float exponent = b[right ? 0 : i], of_zero = exponent < 0 ? INFINITY_f32 : 0.0f;
    double y = (double)exponent * wide[i];
    y = y > 1000.0 ? 1000.0 : y;
    y = y < -1000.0 ? -1000.0 : y;
    const float power = (float)exp2_wide_f32(y);
    made[i] = ((a[left ? 0 : i] == 0) & (exponent != 0)) ? of_zero : power;
  }
  if (negative < 0) {
    CPU_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
      const float x = a[left ? 0 : i], size = math_fabs_f32(b[right ? 0 : i]), half = 0.5f * size;
      const bool whole = (size >= 0x1p23f) | (math_rint_f32(size) == size);
      const bool odd = (size < 0x1p24f) & whole & (math_rint_f32(half) != half);
      const float power = odd ? math_copysign_f32(made[i], x) : made[i];
      made[i] = ((x < 0) & !whole) ? NAN_f32 : power;
    }
  }
  memcpy(r, made, (size_t)count * sizeof *r);
}

PAIRS_LOOP(pow, float, pow_part)

/* ---- random ---------------------------------------------------------------------------------- */

/* Key x, counter y; the immediate is the stream. */
BINARY_LOOP(any_random, float, int64_t, random_f32(x, y, (u32)immediate.i64))

#if defined(__AVX2__)

/* The words of four counters as the low halves of 64 bits. Only those count: a product takes no
 * others, so the high halves may hold anything. */
typedef struct random_block {
  __m256i x0, x1, x2, x3;
} random_block;

CPU_INLINE random_block random_first(const int64_t *counter, int64_t stream) {
  const __m256i x0 = _mm256_loadu_si256((const void *)counter);
  return (random_block){x0, _mm256_srli_epi64(x0, 32), _mm256_set1_epi64x(stream),
                        _mm256_setzero_si256()};
}

CPU_INLINE random_block random_round(random_block b, __m256i key0, __m256i key1) {
  const __m256i product0 = _mm256_mul_epu32(b.x0, _mm256_set1_epi64x(0xD2511F53));
  const __m256i product2 = _mm256_mul_epu32(b.x2, _mm256_set1_epi64x(0xCD9E8D57));
  return (random_block){
      _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product2, 32), b.x1), key0), product2,
      _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product0, 32), b.x3), key1), product0};
}

/* As random_f32, for one key. */
static void random_left(int64_t count, void *result, const void *a, const void *b, const void *c,
                        cpu_immediate immediate) {
  enum { BLOCKS = 2, LANES = 4, ROUNDS = 10 };
  const uint64_t key = (uint64_t) * (const int64_t *)a;
  const int64_t *counter = b, stream = (int64_t)(uint32_t)immediate.i64;
  float *r = result;
  int64_t i = 0;
  for (; i + BLOCKS * LANES <= count; i += BLOCKS * LANES) {
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    random_block x = random_first(counter + i, stream), y = random_first(counter + i + 4, stream);
    for (int round = 0; round < ROUNDS; round++) {
      const __m256i first = _mm256_set1_epi64x(key0), second = _mm256_set1_epi64x(key1);
      x = random_round(x, first, second);
      y = random_round(y, first, second);
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    const __m256 mixed =
        _mm256_shuffle_ps(_mm256_castsi256_ps(x.x0), _mm256_castsi256_ps(y.x0), 0x88);
    const __m256i words = _mm256_permute4x64_epi64(_mm256_castps_si256(mixed), 0xd8);
    const __m256 numbers = _mm256_cvtepi32_ps(_mm256_srli_epi32(words, 8));
    _mm256_storeu_ps(r + i, _mm256_mul_ps(numbers, _mm256_set1_ps(0x1p-24f)));
  }
  any_random_left(count - i, r + i, a, counter + i, c, immediate);
}
#else
#define random_left any_random_left
#endif

#endif
