/* Instructions on F32 values.
 *
 * Several functions have a short form for ordinary arguments. A tile is looked through first, at
 * the price of one maximum per element, and gets the form that serves all of it. */
#include <math.h>

#include "convert.h"
#include "math_f32.h"

typedef float real;
#define REAL(name) name##_f32
#define REAL_MAX   0x1.fffffep127f

/* What a tile is looked through for: an unsigned number that is large for arguments that the short
 * form does not serve. NaN is large either way. */
CPU_INLINE uint32_t key_magnitude(float x) {
  return (uint32_t)math_bits_f32(x) & INT32_MAX;
}
CPU_INLINE uint32_t key_positive(float x) {
  return (uint32_t)math_bits_f32(x) - 0x00800000;
}

/* Keys of the largest magnitude that is served, and of the largest normal number. */
#define LIMIT_EXP      0x42ae0000u /* MATH_EXP_LIMIT */
#define LIMIT_TRIG     0x49800000u /* MATH_TRIG_LIMIT */
#define LIMIT_POSITIVE 0x7effffffu

#define LARGEST_KEY(name, key)                                                                     \
  static uint32_t name(int64_t count, const float *x) {                                            \
    uint32_t largest = 0;                                                                          \
    for (int64_t i = 0; i < count; i++) largest = key(x[i]) > largest ? key(x[i]) : largest;       \
    return largest;                                                                                \
  }

LARGEST_KEY(largest_magnitude, key_magnitude)
LARGEST_KEY(largest_positive, key_positive)

#define RANGED_LOOP(name, whole, core, largest, limit)                                             \
  static void name##_loop(int64_t count, void *result, const void *a, const void *b,               \
                          const void *c, cpu_immediate immediate) {                                \
    const float *x = a;                                                                            \
    float *r = result;                                                                             \
    (void)b, (void)c, (void)immediate;                                                             \
    if (largest(count, x) <= limit) {                                                              \
      CPU_INDEPENDENT                                                                              \
      for (int64_t i = 0; i < count; i++) r[i] = core(x[i]);                                       \
    } else {                                                                                       \
      CPU_INDEPENDENT                                                                              \
      for (int64_t i = 0; i < count; i++) r[i] = whole(x[i]);                                      \
    }                                                                                              \
  }

RANGED_LOOP(op_exp, math_exp_f32, math_exp_core_f32, largest_magnitude, LIMIT_EXP)
RANGED_LOOP(op_log, math_log_f32, math_log_core_f32, largest_positive, LIMIT_POSITIVE)
RANGED_LOOP(op_sigmoid, math_sigmoid_f32, math_sigmoid_core_f32, largest_magnitude, LIMIT_EXP)
RANGED_LOOP(op_silu, math_silu_f32, math_silu_core_f32, largest_magnitude, LIMIT_EXP)

/* erf and gelu go over a part of the tile several times. In one pass they need more constants than
 * AVX2 has registers, and are longer chains than the processor can overlap. */
enum { PART = 256 };

static void erf_part(int64_t count, float *r, const float *x) {
  float between[PART];
  for (int64_t i = 0; i < count; i++) between[i] = math_erf_exponent_f32(x[i]);
  for (int64_t i = 0; i < count; i++) between[i] = math_exp_core_f32(between[i]);
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) r[i] = math_erf_sum_f32(x[i], between[i]);
}

static void gelu_part(int64_t count, float *r, const float *x) {
  float between[PART];
  for (int64_t i = 0; i < count; i++) between[i] = math_gelu_tail_f32(x[i]);
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) r[i] = math_gelu_sum_f32(x[i], between[i]);
}

#define PARTS_LOOP(name, part)                                                                     \
  static void name##_loop(int64_t count, void *result, const void *a, const void *b,               \
                          const void *c, cpu_immediate immediate) {                                \
    (void)b, (void)c, (void)immediate;                                                             \
    for (int64_t i = 0; i < count; i += PART)                                                      \
      part(count - i < PART ? count - i : PART, (float *)result + i, (const float *)a + i);        \
  }

PARTS_LOOP(op_erf, erf_part)
PARTS_LOOP(op_gelu, gelu_part)

/* sin(x + shift π/2). Angles that the vector code cannot reduce are rare: a tile that has one goes
 * to the C library, which reduces by as many digits of 2/π as it takes. */
static void sine_loop(int64_t count, float *r, const float *x, int32_t shift) {
  if (largest_magnitude(count, x) <= LIMIT_TRIG) {
    CPU_INDEPENDENT
    for (int64_t i = 0; i < count; i++) r[i] = math_sine_f32(x[i], shift);
  } else {
    for (int64_t i = 0; i < count; i++) r[i] = shift ? cosf(x[i]) : sinf(x[i]);
  }
}

static void op_sin_loop(int64_t count, void *result, const void *a, const void *b, const void *c,
                        cpu_immediate immediate) {
  (void)b, (void)c, (void)immediate;
  sine_loop(count, result, a, 0);
}

static void op_cos_loop(int64_t count, void *result, const void *a, const void *b, const void *c,
                        cpu_immediate immediate) {
  (void)b, (void)c, (void)immediate;
  sine_loop(count, result, a, 1);
}

/* ---- Rounding to 16 bits ------------------------------------------------------------------- */

CPU_INLINE float op_round_f16(float x) {
  return convert_f16_to_f32(convert_f32_to_f16(x));
}
CPU_INLINE float op_round_bf16(float x) {
  return convert_bf16_to_f32(convert_f32_to_bf16(x));
}

UNARY_LOOP(op_round_f16, float, float)
UNARY_LOOP(op_round_bf16, float, float)

#define REAL_ROWS                                                                                  \
  [COMPUTE_I_ROUND_F16] = UNARY_ROW(op_round_f16),                                                 \
  [COMPUTE_I_ROUND_BF16] = UNARY_ROW(op_round_bf16),

#include "tile_float.h"
