/* SPDX-License-Identifier: MIT */
/* Loops for TOP_K; core/isa.h explains how this file is compiled, select.h defines each loop. */
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "program/isa/math_base.h"
#include "index/select.h"

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif

/* The bits of negative floats grow as the number falls, so they are inverted; adding 0 turns −0
 * into 0. */
CPU_INLINE int32_t key_f32(float x) {
  const int32_t bits = math_bits_f32(x + 0.0f);
  const int32_t ordered = bits ^ (int32_t)((uint32_t)(bits >> 31) >> 1);
  return x != x ? INT32_MAX : ordered;
}
CPU_INLINE int64_t key_f64(double x) {
  const int64_t bits = math_bits_f64(x + 0.0);
  const int64_t ordered = bits ^ (int64_t)((uint64_t)(bits >> 63) >> 1);
  return x != x ? INT64_MAX : ordered;
}
CPU_INLINE int32_t key_i32(int32_t x) {
  return x;
}
CPU_INLINE int64_t key_i64(int64_t x) {
  return x;
}

#define KEYS(type, element, key)                                                                   \
  static void keys_##type(void *keys, const void *elements, int64_t count, int32_t smallest) {     \
    key *restrict k = keys;                                                                        \
    const element *restrict x = elements;                                                          \
    const key turn = smallest ? -1 : 0; /* −1 ^ k = −1 − k */                                \
    for (int64_t i = 0; i < count; i++) k[i] = key_##type(x[i]) ^ turn;                            \
  }                                                                                                \
  static void peaks_##type(void *peaks, const void *keys, int64_t count) {                         \
    key *restrict p = peaks;                                                                       \
    const key *restrict k = keys;                                                                  \
    memcpy(p, k, SELECT_LANES * sizeof *p);                                                        \
    int64_t i = SELECT_LANES;                                                                      \
    for (; i + SELECT_LANES <= count; i += SELECT_LANES)                                           \
      for (int64_t j = 0; j < SELECT_LANES; j++) p[j] = k[i + j] > p[j] ? k[i + j] : p[j];         \
    for (int64_t j = 0; j < count - i; j++) p[j] = k[i + j] > p[j] ? k[i + j] : p[j];              \
  }                                                                                                \
  static uint64_t above_##type(const void *keys, int64_t count, const void *bound) {               \
    const key *k = keys, b = *(const key *)bound;                                                  \
    uint64_t runs = 0;                                                                             \
    int64_t i = 0;                                                                                 \
    for (; i + SELECT_RUN <= count; i += SELECT_RUN) {                                             \
      key larger = 0;                                                                              \
      for (int64_t j = 0; j < SELECT_RUN; j++) larger |= k[i + j] > b;                             \
      runs |= (uint64_t)larger << (i / SELECT_RUN);                                                \
    }                                                                                              \
    for (; i < count; i++) runs |= (uint64_t)(k[i] > b) << (i / SELECT_RUN);                       \
    return runs;                                                                                   \
  }

KEYS(f32, float, int32_t)
KEYS(f64, double, int64_t)
KEYS(i32, int32_t, int32_t)
KEYS(i64, int64_t, int64_t)

/* `true` if a bit of a pack is set. */
CPU_INLINE int any(const void *pack) {
#if defined(__AVX512F__)
  const __m512i bits = _mm512_loadu_si512(pack);
  return _mm512_test_epi64_mask(bits, bits) != 0;
#elif defined(__AVX2__)
  const __m256i bits = _mm256_loadu_si256(pack);
  return !_mm256_testz_si256(bits, bits);
#else
  uint64_t half[2];
  memcpy(half, pack, sizeof half);
  return (half[0] | half[1]) != 0;
#endif
}

#define KEY     int32_t
#define LOWEST  INT32_MIN
#define NAME(x) x##_32
#include "select_group.h"
#undef KEY
#undef LOWEST
#undef NAME

#define KEY     int64_t
#define LOWEST  INT64_MIN
#define NAME(x) x##_64
#include "select_group.h"

const struct cpu_select_table CPU_SYMBOL(cpu_select_table) = {
    .type = {[CPU_TYPE_F64] = {keys_f64, peaks_f64, above_f64, group_64},
             [CPU_TYPE_F32] = {keys_f32, peaks_f32, above_f32, group_32},
             [CPU_TYPE_I64] = {keys_i64, peaks_i64, above_i64, group_64},
             [CPU_TYPE_I32] = {keys_i32, peaks_i32, above_i32, group_32},
             [CPU_TYPE_BOOL] = {keys_i32, peaks_i32, above_i32, group_32}}};
