/* Loads, stores and casts: from elements in memory to values and back, and between types of value.
 */
#include "math_base.h"

#if defined(__F16C__)
#include <immintrin.h>
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
CPU_INLINE int32_t byte_to_value(uint8_t x) {
  return x;
}
CPU_INLINE uint8_t value_to_byte(int32_t x) {
  return (uint8_t)x;
}
CPU_INLINE int32_t word_to_value(uint16_t x) {
  return x;
}
CPU_INLINE uint16_t value_to_word(int32_t x) {
  return (uint16_t)x;
}
CPU_INLINE int32_t byte_to_mask(uint8_t x) {
  return -(x != 0);
}
CPU_INLINE uint8_t mask_to_byte(int32_t mask) {
  return (uint8_t)(mask & 1);
}

LOAD_LOOP(load_f64, same_f64, double, double)
LOAD_LOOP(load_f32, same_f32, float, float)
LOAD_LOOP(load_i64, same_i64, int64_t, int64_t)
LOAD_LOOP(load_i32, same_i32, int32_t, int32_t)
LOAD_LOOP(load_bf16, convert_bf16_to_f32, float, uint16_t)
LOAD_LOOP(load_f16_any, convert_f16_to_f32, float, uint16_t)
LOAD_LOOP(load_u8, byte_to_value, int32_t, uint8_t)
LOAD_LOOP(load_u16, word_to_value, int32_t, uint16_t)
LOAD_LOOP(load_bool, byte_to_mask, int32_t, uint8_t)

STORE_LOOP(store_f64, same_f64, double, double)
STORE_LOOP(store_f32, same_f32, float, float)
STORE_LOOP(store_i64, same_i64, int64_t, int64_t)
STORE_LOOP(store_i32, same_i32, int32_t, int32_t)
STORE_LOOP(store_bf16, convert_f32_to_bf16, uint16_t, float)
STORE_LOOP(store_f16_any, convert_f32_to_f16, uint16_t, float)
STORE_LOOP(store_u8, value_to_byte, uint8_t, int32_t)
STORE_LOOP(store_u16, value_to_word, uint16_t, int32_t)
STORE_LOOP(store_bool, mask_to_byte, uint8_t, int32_t)

/* Eight at a time where the processor converts f16 itself, which no loop above makes it do. */
static void load_f16(int64_t count, void *result, const void *source, int64_t stride) {
  int64_t done = 0;
#if defined(__F16C__)
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
#if defined(__F16C__)
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
CONVERT_LOOP(convert_f64_to_byte, int32_t, double)
CONVERT_LOOP(convert_f64_to_word, int32_t, double)
CONVERT_LOOP(convert_f64_to_odd, float, double)
CONVERT_LOOP(convert_f32_to_f64, double, float)
CONVERT_LOOP(convert_f32_to_i64, int64_t, float)
CONVERT_LOOP(convert_f32_to_i32, int32_t, float)
CONVERT_LOOP(convert_f32_to_mask, int32_t, float)
CONVERT_LOOP(convert_f32_to_byte, int32_t, float)
CONVERT_LOOP(convert_f32_to_word, int32_t, float)
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

extern const cpu_load_loop CPU_SYMBOL(cpu_tile_load)[COMPUTE_DTYPE_COUNT];
const cpu_load_loop CPU_SYMBOL(cpu_tile_load)[COMPUTE_DTYPE_COUNT] = {
    [COMPUTE_F64] = load_f64, [COMPUTE_F32] = load_f32,   [COMPUTE_F16] = load_f16,
    [COMPUTE_I64] = load_i64, [COMPUTE_BF16] = load_bf16, [COMPUTE_I32] = load_i32,
    [COMPUTE_U8] = load_u8,   [COMPUTE_BOOL] = load_bool, [COMPUTE_U16] = load_u16,
};

extern const cpu_store_loop CPU_SYMBOL(cpu_tile_store)[COMPUTE_DTYPE_COUNT];
const cpu_store_loop CPU_SYMBOL(cpu_tile_store)[COMPUTE_DTYPE_COUNT] = {
    [COMPUTE_F64] = store_f64, [COMPUTE_F32] = store_f32,   [COMPUTE_F16] = store_f16,
    [COMPUTE_I64] = store_i64, [COMPUTE_BF16] = store_bf16, [COMPUTE_I32] = store_i32,
    [COMPUTE_U8] = store_u8,   [COMPUTE_BOOL] = store_bool, [COMPUTE_U16] = store_u16,
};

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

/* As the casts, except where a store has more to do than the cast (tile_table.h). */
extern const cpu_convert_loop CPU_SYMBOL(cpu_tile_narrow)[CPU_TYPE_COUNT][COMPUTE_DTYPE_COUNT];
const cpu_convert_loop CPU_SYMBOL(cpu_tile_narrow)[CPU_TYPE_COUNT][COMPUTE_DTYPE_COUNT] = {
    [CPU_TYPE_F64] = {[COMPUTE_F32] = convert_f64_to_f32_loop,
                      [COMPUTE_F16] = convert_f64_to_odd_loop,
                      [COMPUTE_BF16] = convert_f64_to_odd_loop,
                      [COMPUTE_I64] = convert_f64_to_i64_loop,
                      [COMPUTE_I32] = convert_f64_to_i32_loop,
                      [COMPUTE_U8] = convert_f64_to_byte_loop,
                      [COMPUTE_U16] = convert_f64_to_word_loop,
                      [COMPUTE_BOOL] = convert_f64_to_mask_loop},
    [CPU_TYPE_F32] = {[COMPUTE_F64] = convert_f32_to_f64_loop,
                      [COMPUTE_I64] = convert_f32_to_i64_loop,
                      [COMPUTE_I32] = convert_f32_to_i32_loop,
                      [COMPUTE_U8] = convert_f32_to_byte_loop,
                      [COMPUTE_U16] = convert_f32_to_word_loop,
                      [COMPUTE_BOOL] = convert_f32_to_mask_loop},
    [CPU_TYPE_I64] = {[COMPUTE_F64] = convert_i64_to_f64_loop,
                      [COMPUTE_F32] = convert_i64_to_f32_loop,
                      [COMPUTE_F16] = convert_i64_to_odd_loop,
                      [COMPUTE_BF16] = convert_i64_to_odd_loop,
                      [COMPUTE_I32] = convert_i64_to_i32_loop,
                      [COMPUTE_U8] = convert_i64_to_i32_loop,
                      [COMPUTE_U16] = convert_i64_to_i32_loop,
                      [COMPUTE_BOOL] = convert_i64_to_mask_loop},
    [CPU_TYPE_I32] = {[COMPUTE_F64] = convert_i32_to_f64_loop,
                      [COMPUTE_F32] = convert_i32_to_f32_loop,
                      [COMPUTE_F16] = convert_i32_to_odd_loop,
                      [COMPUTE_BF16] = convert_i32_to_odd_loop,
                      [COMPUTE_I64] = convert_i32_to_i64_loop,
                      [COMPUTE_BOOL] = convert_i32_to_mask_loop},
    [CPU_TYPE_BOOL] = {[COMPUTE_F64] = convert_mask_to_f64_loop,
                       [COMPUTE_F32] = convert_mask_to_f32_loop,
                       [COMPUTE_F16] = convert_mask_to_f32_loop,
                       [COMPUTE_BF16] = convert_mask_to_f32_loop,
                       [COMPUTE_I64] = convert_mask_to_i64_loop,
                       [COMPUTE_I32] = convert_mask_to_i32_loop,
                       [COMPUTE_U8] = convert_mask_to_i32_loop,
                       [COMPUTE_U16] = convert_mask_to_i32_loop},
};
