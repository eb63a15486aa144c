/* SPDX-License-Identifier: MIT */
/* Loads, stores and casts: from elements in memory to values and back, and between types of
 * values. */
#include "math_base.h"

#if defined(__F16C__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* result[i] = function(source[i · stride]) */
#define LOAD_LOOP(name, function, value_type, element_type)                                        \
  static void name(int64_t count, void *result, const void *source, int64_t stride) {              \
    const element_type *x = source;                                                                \
    value_type *r = result;                                                                        \
    if (stride == 1) {                                                                             \
      CPU_INDEPENDENT                                                                              \
      for (int64_t i = 0; i < count; i++) r[i] = function(x[i]);                                   \
    } else {                                                                                       \
      for (int64_t i = 0; i < count; i++) r[i] = function(x[i * stride]);                          \
    }                                                                                              \
  }

/* destination[i · stride] = function(source[i]) */
#define STORE_LOOP(name, function, element_type, value_type)                                       \
  static void name(int64_t count, void *destination, int64_t stride, const void *source) {         \
    const value_type *x = source;                                                                  \
    element_type *r = destination;                                                                 \
    if (stride == 1) {                                                                             \
      CPU_INDEPENDENT                                                                              \
      for (int64_t i = 0; i < count; i++) r[i] = function(x[i]);                                   \
    } else {                                                                                       \
      for (int64_t i = 0; i < count; i++) r[i * stride] = function(x[i]);                          \
    }                                                                                              \
  }

#define CONVERT_LOOP(function, result_type, source_type)                                           \
  static void function##_loop(int64_t count, void *result, const void *source) {                   \
    const source_type *x = source;                                                                 \
    result_type *r = result;                                                                       \
    CPU_INDEPENDENT                                                                                \
    for (int64_t i = 0; i < count; i++) r[i] = function(x[i]);                                     \
  }

CPU_INLINE double same_f64(double x) {
  return x;
}
CPU_INLINE float same_f32(float x) {
  return x;
}
CPU_INLINE int64_t same_i64(int64_t x) {
  return x;
}
CPU_INLINE int32_t same_i32(int32_t x) {
  return x;
}
CPU_INLINE int32_t byte_to_mask(uint8_t x) {
  return -(x != 0);
}
CPU_INLINE uint8_t mask_to_byte(int32_t mask) {
  return (uint8_t)(mask & 1);
}

LOAD_LOOP(load_f64, same_f64, double, double)
LOAD_LOOP(load_f32, same_f32, float, float)
LOAD_LOOP(load_bf16, convert_bf16_to_f32, float, uint16_t)
LOAD_LOOP(load_f16_any, convert_f16_to_f32, float, uint16_t)
LOAD_LOOP(load_bool, byte_to_mask, int32_t, uint8_t)

STORE_LOOP(store_f64, same_f64, double, double)
STORE_LOOP(store_f32, same_f32, float, float)
STORE_LOOP(store_bf16, convert_f32_to_bf16, uint16_t, float)
STORE_LOOP(store_f16_any, convert_f32_to_f16, uint16_t, float)
STORE_LOOP(store_bool, mask_to_byte, uint8_t, int32_t)

/* ---- Integers -------------------------------------------------------------------------------- */

#define VALUE_I64   int64_t
#define VALUE_I32   int32_t
#define IS_SIGNED   1
#define IS_UNSIGNED 0

/* Toward zero and saturating at the limits of the dtype; NaN becomes 0. */
#define SATURATE(real_type, real, cast, name, kind, bytes, type)                                   \
  CPU_INLINE VALUE_##type saturate_##real##_to_##name(real_type x) {                               \
    const uint64_t most = UINT64_MAX >> (64 - 8 * bytes + IS_##kind);                              \
    const int64_t least = IS_##kind ? -(int64_t)most - 1 : 0;                                      \
    if (bytes == sizeof(VALUE_##type))                                                             \
      return IS_##kind ? cast(x) : (VALUE_##type)convert_##real##_to_u64(x);                       \
    if (bytes == 4) { /* the limits are not exact in f32 */                                        \
      const int64_t whole = convert_##real##_to_i64(x);                                            \
      const int64_t low = whole < least ? least : whole;                                           \
      return (VALUE_##type)(low > (int64_t)most ? (int64_t)most : low);                            \
    }                                                                                              \
    if (!IS_##kind) {                                                                              \
      const real_type low = x > 0 ? x : 0; /* also for NaN */                                      \
      return (VALUE_##type)(low < (real_type)most ? low : (real_type)most);                        \
    }                                                                                              \
    const real_type low = x >= (real_type)least ? x : (real_type)least;                            \
    const VALUE_##type value = (VALUE_##type)(low < (real_type)most ? low : (real_type)most);      \
    return x == x ? value : 0;                                                                     \
  }                                                                                                \
  CONVERT_LOOP(saturate_##real##_to_##name, VALUE_##type, real_type)

#define CAST_F64_I64 convert_f64_to_i64
#define CAST_F64_I32 convert_f64_to_i32
#define CAST_F32_I64 convert_f32_to_i64
#define CAST_F32_I32 convert_f32_to_i32

#define INTEGER_LOOPS(name, kind, bytes, type, element)                                            \
  CPU_INLINE VALUE_##type widen_##name(element x) {                                                \
    return (VALUE_##type)x;                                                                        \
  }                                                                                                \
  CPU_INLINE element wrap_##name(VALUE_##type x) {                                                 \
    return (element)x;                                                                             \
  }                                                                                                \
  LOAD_LOOP(load_##name, widen_##name, VALUE_##type, element)                                      \
  STORE_LOOP(store_##name, wrap_##name, element, VALUE_##type)                                     \
  SATURATE(double, f64, CAST_F64_##type, name, kind, bytes, type)                                  \
  SATURATE(float, f32, CAST_F32_##type, name, kind, bytes, type)                                   \
  CPU_INLINE element element_of_f32_##name(float x) {                                              \
    return wrap_##name(saturate_f32_to_##name(x));                                                 \
  }                                                                                                \
  STORE_LOOP(store_f32_any_##name, element_of_f32_##name, element, float)

#define LOOPS_FLOAT(...)
#define LOOPS_LOGIC(...)
#define LOOPS_SIGNED   INTEGER_LOOPS
#define LOOPS_UNSIGNED INTEGER_LOOPS
#define LOOPS(code, number, name, kind, bytes, type, element)                                      \
  LOOPS_##kind(name, kind, bytes, type, element)
COMPUTE_DTYPES(LOOPS)

/* ---- Floats of 16 bits ----------------------------------------------------------------------- */

/* Eight at a time if the processor converts f16 in hardware; compilers do not use these
 * instructions in the loops above. */
static void load_f16(int64_t count, void *result, const void *source, int64_t stride) {
  int64_t done = 0;
#if defined(__aarch64__)
  if (stride == 1)
    for (; done + 4 <= count; done += 4) {
      const uint16x4_t half = vld1_u16((const uint16_t *)source + done);
      vst1q_f32((float *)result + done, vcvt_f32_f16(vreinterpret_f16_u16(half)));
    }
#elif defined(__F16C__)
  if (stride == 1)
    for (; done + 8 <= count; done += 8) {
      const __m128i half = _mm_loadu_si128((const void *)((const uint16_t *)source + done));
      _mm256_storeu_ps((float *)result + done, _mm256_cvtph_ps(half));
    }
#endif
  load_f16_any(count - done, (float *)result + done, (const uint16_t *)source + done, stride);
}

static void store_f16(int64_t count, void *destination, int64_t stride, const void *source) {
  int64_t done = 0;
#if defined(__aarch64__)
  if (stride == 1)
    for (; done + 4 <= count; done += 4) {
      const float16x4_t half = vcvt_f16_f32(vld1q_f32((const float *)source + done));
      vst1_u16((uint16_t *)destination + done, vreinterpret_u16_f16(half));
    }
#elif defined(__F16C__)
  if (stride == 1)
    for (; done + 8 <= count; done += 8) {
      const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps((const float *)source + done),
                                           _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      _mm_storeu_si128((void *)((uint16_t *)destination + done), half);
    }
#endif
  store_f16_any(count - done, (uint16_t *)destination + done, stride, (const float *)source + done);
}

CONVERT_LOOP(same_f64, double, double)
CONVERT_LOOP(same_f32, float, float)
CONVERT_LOOP(same_i64, int64_t, int64_t)
CONVERT_LOOP(same_i32, int32_t, int32_t)
CONVERT_LOOP(convert_f64_to_f32, float, double)
CONVERT_LOOP(convert_f64_to_i64, int64_t, double)
CONVERT_LOOP(convert_f64_to_i32, int32_t, double)
CONVERT_LOOP(convert_f64_to_mask, int32_t, double)
CONVERT_LOOP(convert_f64_to_odd, float, double)
CONVERT_LOOP(convert_f32_to_f64, double, float)
CONVERT_LOOP(convert_f32_to_i64, int64_t, float)
CONVERT_LOOP(convert_f32_to_i32, int32_t, float)
CONVERT_LOOP(convert_f32_to_mask, int32_t, float)
CONVERT_LOOP(convert_i64_to_f64, double, int64_t)
CONVERT_LOOP(convert_i64_to_f32, float, int64_t)
CONVERT_LOOP(convert_i64_to_i32, int32_t, int64_t)
CONVERT_LOOP(convert_i64_to_mask, int32_t, int64_t)
CONVERT_LOOP(convert_i64_to_odd, float, int64_t)
CONVERT_LOOP(convert_i32_to_f64, double, int32_t)
CONVERT_LOOP(convert_i32_to_f32, float, int32_t)
CONVERT_LOOP(convert_i32_to_i64, int64_t, int32_t)
CONVERT_LOOP(convert_i32_to_mask, int32_t, int32_t)
CONVERT_LOOP(convert_i32_to_odd, float, int32_t)
CONVERT_LOOP(convert_mask_to_f64, double, int32_t)
CONVERT_LOOP(convert_mask_to_f32, float, int32_t)
CONVERT_LOOP(convert_mask_to_i64, int64_t, int32_t)
CONVERT_LOOP(convert_mask_to_i32, int32_t, int32_t)

#define LOAD_ROW(code, number, name, ...)  [COMPUTE_##code] = load_##name,
#define STORE_ROW(code, number, name, ...) [COMPUTE_##code] = store_##name,

extern const cpu_load_loop CPU_SYMBOL(cpu_tile_load)[COMPUTE_DTYPE_COUNT];
const cpu_load_loop CPU_SYMBOL(cpu_tile_load)[COMPUTE_DTYPE_COUNT] = {COMPUTE_DTYPES(LOAD_ROW)};

extern const cpu_store_loop CPU_SYMBOL(cpu_tile_store)[COMPUTE_DTYPE_COUNT];
const cpu_store_loop CPU_SYMBOL(cpu_tile_store)[COMPUTE_DTYPE_COUNT] = {COMPUTE_DTYPES(STORE_ROW)};

/* ---- f32 as integers ------------------------------------------------------------------------- */

/* 32 bytes at a time: compilers pack vectors of i32 with a mask for each. NaN becomes 0. */
#if defined(__AVX2__)
CPU_INLINE __m256i limited_words(const bool is_signed, const float *from) {
  const __m256 x = _mm256_loadu_ps(from), least = _mm256_set1_ps(is_signed ? -128 : 0);
  const __m256 low = _mm256_max_ps(x, least), most = _mm256_set1_ps(is_signed ? 127 : 255);
  const __m256i words = _mm256_cvttps_epi32(_mm256_min_ps(low, most));
  if (!is_signed) return words;
  return _mm256_and_si256(words, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_ORD_Q)));
}

CPU_INLINE int64_t store_bytes(const bool is_signed, int64_t count, uint8_t *to,
                               const float *from) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m256i a = _mm256_packs_epi32(limited_words(is_signed, from + i),
                                         limited_words(is_signed, from + i + 8));
    const __m256i b = _mm256_packs_epi32(limited_words(is_signed, from + i + 16),
                                         limited_words(is_signed, from + i + 24));
    const __m256i bytes = is_signed ? _mm256_packs_epi16(a, b) : _mm256_packus_epi16(a, b);
    _mm256_storeu_si256((void *)(to + i), _mm256_permutevar8x32_epi32(bytes, order));
  }
  return i;
}
#else
CPU_INLINE int64_t store_bytes(const bool is_signed, int64_t count, uint8_t *to,
                               const float *from) {
  (void)is_signed, (void)count, (void)to, (void)from;
  return 0;
}
#endif

#define STORE_BYTES(name, is_signed)                                                               \
  static void store_f32_as_##name(int64_t count, void *destination, int64_t stride,                \
                                  const void *source) {                                            \
    uint8_t *to = destination;                                                                     \
    const float *from = source;                                                                    \
    const int64_t done = stride == 1 ? store_bytes(is_signed, count, to, from) : 0;                \
    store_f32_any_##name(count - done, to + done, stride, from + done);                            \
  }
STORE_BYTES(u8, false)
STORE_BYTES(i8, true)
#define store_f32_as_i16 store_f32_any_i16
#define store_f32_as_u16 store_f32_any_u16
#define store_f32_as_i32 store_f32_any_i32
#define store_f32_as_u32 store_f32_any_u32
#define store_f32_as_i64 store_f32_any_i64
#define store_f32_as_u64 store_f32_any_u64

/* Stores f32 values as integers, as the conversion of `narrow` and a store. */
#define STORE_F32_FLOAT(...)
#define STORE_F32_LOGIC(...)
#define STORE_F32_SIGNED(code, name)                 [COMPUTE_##code] = store_f32_as_##name,
#define STORE_F32_UNSIGNED(code, name)               [COMPUTE_##code] = store_f32_as_##name,
#define STORE_F32_ROW(code, number, name, kind, ...) STORE_F32_##kind(code, name)

extern const cpu_store_loop CPU_SYMBOL(cpu_tile_store_f32)[COMPUTE_DTYPE_COUNT];
const cpu_store_loop CPU_SYMBOL(cpu_tile_store_f32)[COMPUTE_DTYPE_COUNT] = {
    COMPUTE_DTYPES(STORE_F32_ROW)};

/* Rows: from F64, F32, I64, I32, BOOL; columns: to the same. */
extern const cpu_convert_loop CPU_SYMBOL(cpu_tile_cast)[CPU_TYPE_COUNT][CPU_TYPE_COUNT];
const cpu_convert_loop CPU_SYMBOL(cpu_tile_cast)[CPU_TYPE_COUNT][CPU_TYPE_COUNT] = {
    {same_f64_loop, convert_f64_to_f32_loop, convert_f64_to_i64_loop, convert_f64_to_i32_loop,
     convert_f64_to_mask_loop},
    {convert_f32_to_f64_loop, same_f32_loop, convert_f32_to_i64_loop, convert_f32_to_i32_loop,
     convert_f32_to_mask_loop},
    {convert_i64_to_f64_loop, convert_i64_to_f32_loop, same_i64_loop, convert_i64_to_i32_loop,
     convert_i64_to_mask_loop},
    {convert_i32_to_f64_loop, convert_i32_to_f32_loop, convert_i32_to_i64_loop, same_i32_loop,
     convert_i32_to_mask_loop},
    {convert_mask_to_f64_loop, convert_mask_to_f32_loop, convert_mask_to_i64_loop,
     convert_mask_to_i32_loop, same_i32_loop},
};

/* The same as the casts, unless a store does more than the cast (tile_table.h). */
#define FROM_F64(name, type)  saturate_f64_to_##name##_loop
#define FROM_F32(name, type)  saturate_f32_to_##name##_loop
#define FROM_I64(name, type)  FROM_I64_TO_##type
#define FROM_I32(name, type)  FROM_I32_TO_##type
#define FROM_BOOL(name, type) FROM_BOOL_TO_##type
#define FROM_I64_TO_I64       same_i64_loop
#define FROM_I64_TO_I32       convert_i64_to_i32_loop
#define FROM_I32_TO_I64       convert_i32_to_i64_loop
#define FROM_I32_TO_I32       same_i32_loop
#define FROM_BOOL_TO_I64      convert_mask_to_i64_loop
#define FROM_BOOL_TO_I32      convert_mask_to_i32_loop

#define ROW_FLOAT(...)
#define ROW_LOGIC(...)
#define ROW_SIGNED(code, name, type, from)   [COMPUTE_##code] = from(name, type),
#define ROW_UNSIGNED(code, name, type, from) [COMPUTE_##code] = from(name, type),
#define ROW(code, name, kind, type, from)    ROW_##kind(code, name, type, from)
#define ROW_F64(code, number, name, kind, bytes, type, element)                                    \
  ROW(code, name, kind, type, FROM_F64)
#define ROW_F32(code, number, name, kind, bytes, type, element)                                    \
  ROW(code, name, kind, type, FROM_F32)
#define ROW_I64(code, number, name, kind, bytes, type, element)                                    \
  ROW(code, name, kind, type, FROM_I64)
#define ROW_I32(code, number, name, kind, bytes, type, element)                                    \
  ROW(code, name, kind, type, FROM_I32)
#define ROW_BOOL(code, number, name, kind, bytes, type, element)                                   \
  ROW(code, name, kind, type, FROM_BOOL)

extern const cpu_convert_loop CPU_SYMBOL(cpu_tile_narrow)[CPU_TYPE_COUNT][COMPUTE_DTYPE_COUNT];
const cpu_convert_loop CPU_SYMBOL(cpu_tile_narrow)[CPU_TYPE_COUNT][COMPUTE_DTYPE_COUNT] = {
    [CPU_TYPE_F64] = {[COMPUTE_F32] = convert_f64_to_f32_loop,
                      [COMPUTE_F16] = convert_f64_to_odd_loop,
                      [COMPUTE_BF16] = convert_f64_to_odd_loop,
                      [COMPUTE_BOOL] = convert_f64_to_mask_loop,
                      COMPUTE_DTYPES(ROW_F64)},
    [CPU_TYPE_F32] = {[COMPUTE_F64] = convert_f32_to_f64_loop,
                      [COMPUTE_BOOL] = convert_f32_to_mask_loop,
                      COMPUTE_DTYPES(ROW_F32)},
    [CPU_TYPE_I64] = {[COMPUTE_F64] = convert_i64_to_f64_loop,
                      [COMPUTE_F32] = convert_i64_to_f32_loop,
                      [COMPUTE_F16] = convert_i64_to_odd_loop,
                      [COMPUTE_BF16] = convert_i64_to_odd_loop,
                      [COMPUTE_BOOL] = convert_i64_to_mask_loop,
                      COMPUTE_DTYPES(ROW_I64)},
    [CPU_TYPE_I32] = {[COMPUTE_F64] = convert_i32_to_f64_loop,
                      [COMPUTE_F32] = convert_i32_to_f32_loop,
                      [COMPUTE_F16] = convert_i32_to_odd_loop,
                      [COMPUTE_BF16] = convert_i32_to_odd_loop,
                      [COMPUTE_BOOL] = convert_i32_to_mask_loop,
                      COMPUTE_DTYPES(ROW_I32)},
    [CPU_TYPE_BOOL] = {[COMPUTE_F64] = convert_mask_to_f64_loop,
                       [COMPUTE_F32] = convert_mask_to_f32_loop,
                       [COMPUTE_F16] = convert_mask_to_f32_loop,
                       [COMPUTE_BF16] = convert_mask_to_f32_loop,
                       COMPUTE_DTYPES(ROW_BOOL)},
};
