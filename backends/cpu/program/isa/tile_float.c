/* SPDX-License-Identifier: MIT */
/* Instructions on F64 and on F32 values: compiled once for each (core/isa.h). */
#include <math.h>

#include "arithmetic.h"
#include "math_f32.h"
#include "math_f64.h"
#if defined(CPU_VARIANT_F32)
#include "math_pack.h"
#endif
#include "../../../../kernels/functions_random.h"
#include "tile_loops.h"
#if defined(CPU_VARIANT_F32)
#include "tile_pairs.h"
#else
#include "tile_draws.h"
#endif

/* ---- Arithmetic ---------------------------------------------------------------------------- */

#define PARAMETER ((real)immediate.f64)

#define UNARY(CODE, name, value)      UNARY_LOOP(name, real, real, value)
#define BINARY(CODE, name, value)     BINARY_LOOP(name, real, real, value)
#define QUESTION(CODE, name, value)   UNARY_LOOP(name, int32_t, real, -(value))
#define COMPARISON(CODE, name, value) BINARY_LOOP(name, int32_t, real, -(value))
ARITHMETIC_UNARY(UNARY)
ARITHMETIC_BINARY(BINARY)
ARITHMETIC_QUESTION(QUESTION)
COMPARISONS(COMPARISON)
SELECT_LOOP(select, real)

/* ---- Functions ----------------------------------------------------------------------------- */

UNARY_LOOP(expm1, real, real, REAL(expm1)(x))
UNARY_LOOP(log1p, real, real, REAL(log1p)(x))
UNARY_LOOP(atan, real, real, REAL(atan)(x))
UNARY_LOOP(asin, real, real, REAL(asin)(x))
UNARY_LOOP(acos, real, real, REAL(acos)(x))
UNARY_LOOP(sinh, real, real, REAL(sinh)(x))
UNARY_LOOP(cosh, real, real, REAL(cosh)(x))
UNARY_LOOP(asinh, real, real, REAL(asinh)(x))
UNARY_LOOP(acosh, real, real, REAL(acosh)(x))
UNARY_LOOP(atanh, real, real, REAL(atanh)(x))
UNARY_LOOP(softplus, real, real, REAL(softplus)(x))
UNARY_LOOP(elu, real, real, REAL(elu)(x, PARAMETER))

#if defined(CPU_VARIANT_F64)

BINARY_LOOP(pow, double, double, pow_f64(x, y))
BINARY_LOOP(mod, double, double, mod_f64(x, y))
/* Key x, counter y; the immediate is the stream. */
BINARY_LOOP(random, double, int64_t, random_f64(x, y, (u32)immediate.i64))
UNARY_LOOP(exp, double, double, exp_f64(x))
UNARY_LOOP(log, double, double, log_f64(x))
UNARY_LOOP(sin, double, double, sin_f64(x))
UNARY_LOOP(cos, double, double, cos_f64(x))
UNARY_LOOP(tan, double, double, tan_f64(x))
UNARY_LOOP(sigmoid, double, double, sigmoid_f64(x))
UNARY_LOOP(tanh, double, double, tanh_f64(x))
UNARY_LOOP(erf, double, double, erf_f64(x))
UNARY_LOOP(gelu, double, double, gelu_f64(x))
UNARY_LOOP(gelu_tanh, double, double, gelu_tanh_f64(x))
UNARY_LOOP(silu, double, double, silu_f64(x))

#else /* F32 */

/* Several functions have a short form for ordinary arguments. It computes a part of a tile; if an
 * argument was not ordinary, the whole form computes that part again. The whole form then chooses
 * for each element, so a result does not depend on its neighbours. */
enum { PART = 256 };

#define PARTS_LOOP(name, part)                                                                     \
  static void name##_loop(int64_t count, void *result, const void *a, const void *b,               \
                          const void *c, cpu_immediate immediate) {                                \
    (void)b, (void)c, (void)immediate;                                                             \
    for (int64_t i = 0; i < count; i += PART)                                                      \
      part(count - i < PART ? count - i : PART, (float *)result + i, (const float *)a + i);        \
  }

/* The key of an argument: an unsigned number that is large for arguments outside the short form's
 * range. The key of NaN is always large. */
CPU_INLINE uint32_t key_magnitude(float x) {
  return (uint32_t)math_bits_f32(x) & INT32_MAX;
}
CPU_INLINE uint32_t key_positive(float x) {
  return (uint32_t)math_bits_f32(x) - 0x00800000;
}

CPU_INLINE uint32_t key_bits(float x) {
  return (uint32_t)math_bits_f32(x); /* larger for negative numbers than for any positive one */
}

/* Keys of the largest supported magnitude, of the lowest supported number, and of the largest
 * normal number. */
#define LIMIT_EXP       0x42ae0000u /* 87 */
#define LIMIT_TRIG      0x49800000u /* TRIG_LIMIT */
#define LIMIT_GELU      0xc1500000u /* −13 */
#define LIMIT_GELU_TANH 0xc11e6666u /* −9.9 */
#define LIMIT_POSITIVE  0x7effffffu

#define TWO_FORMS(name, whole, core, key, limit)                                                   \
  static void name##_part(int64_t count, float *r, const float *as) {                              \
    float kept[PART];                                                                              \
    uint32_t largest = 0;                                                                          \
    if (r == as) as = memcpy(kept, as, (size_t)count * sizeof *as);                                \
    CPU_INDEPENDENT                                                                                \
    for (int64_t i = 0; i < count; i++) {                                                          \
      const float x = as[i];                                                                       \
      largest = key(x) > largest ? key(x) : largest;                                               \
      r[i] = core;                                                                                 \
    }                                                                                              \
    if (largest <= limit) return;                                                                  \
    CPU_INDEPENDENT                                                                                \
    for (int64_t i = 0; i < count; i++) {                                                          \
      const float x = as[i];                                                                       \
      r[i] = whole;                                                                                \
    }                                                                                              \
  }                                                                                                \
  PARTS_LOOP(name, name##_part)
#define RANGED_LOOP(name, whole, core, key, limit)                                                 \
  TWO_FORMS(name, key(x) <= limit ? core : whole, core, key, limit)

/* Its whole form gives the same results as the short one in the short one's range. */
TWO_FORMS(exp, exp_f32(x), exp_core_f32(x), key_magnitude, LIMIT_EXP)

RANGED_LOOP(log, log_f32(x), log_core_f32(x), key_positive, LIMIT_POSITIVE)
RANGED_LOOP(tan, tan_f32(x), tan_core_f32(x), key_magnitude, LIMIT_TRIG)

RANGED_LOOP(sin, sine_f32(x, 0), sine_core_f32(x, 0), key_magnitude, LIMIT_TRIG)
RANGED_LOOP(cos, sine_f32(x, 1), sine_core_f32(x, 1), key_magnitude, LIMIT_TRIG)

/* Loops over blocks of two vectors, whose computations overlap in the processor. They use named
 * variables, because compilers write arrays of vectors to memory. */
enum { BLOCK = 2 * pack_lanes };

/* `block` computes two vectors. The last block is padded with 0. */
#define BLOCKS_LOOP(name, block)                                                                   \
  CPU_INLINE void name##_blocks(int64_t count, float *r, const float *x) {                         \
    float room[BLOCK] = {0};                                                                       \
    int64_t i = 0;                                                                                 \
    for (; i + BLOCK <= count; i += BLOCK) block(r + i, x + i);                                    \
    if (i == count) return;                                                                        \
    if (count - i == pack_lanes) {                                                                 \
      memcpy(room, x + i, sizeof(pack));                                                           \
      block(room, room);                                                                           \
      memcpy(r + i, room, sizeof(pack));                                                           \
      return;                                                                                      \
    }                                                                                              \
    memcpy(room, x + i, (size_t)(count - i) * sizeof *room);                                       \
    block(room, room);                                                                             \
    memcpy(r + i, room, (size_t)(count - i) * sizeof *room);                                       \
  }                                                                                                \
  static void name##_loop(int64_t count, void *result, const void *a, const void *b,               \
                          const void *c, cpu_immediate immediate) {                                \
    (void)b, (void)c, (void)immediate;                                                             \
    name##_blocks(count, result, a);                                                               \
  }                                                                                                \
  static void name##_rows(int64_t rows, int64_t count, float *y, int64_t row) {                    \
    if (row == count) {                                                                            \
      count *= rows;                                                                               \
      rows = rows > 0;                                                                             \
    }                                                                                              \
    for (; rows > 0; rows--, y += row) name##_blocks(count, y, y);                                 \
  }

ALWAYS_INLINE void store_block(float *r, pack y0, pack y1) {
  memcpy(r, &y0, sizeof y0);
  memcpy(r + pack_lanes, &y1, sizeof y1);
}

#define PACK_LOOP(name, value)                                                                     \
  ALWAYS_INLINE void name##_block(float *r, const float *as) {                                     \
    const pack x0 = pack_load(as), x1 = pack_load(as + pack_lanes);                                \
    store_block(r, value(x0), value(x1));                                                          \
  }                                                                                                \
  BLOCKS_LOOP(name, name##_block)

#define pack_key_magnitude(x) ((pack_bits)pack_magnitude(x))
#define pack_key_bits(x)      ((pack_bits)(x))

/* For arguments with a key up to the limit, and for NaN and all others: a block with one of the
 * latter is corrected before it is stored. */
#define RANGED_PACK_LOOP(name, whole, core, key, limit)                                            \
  static __attribute__((noinline)) void name##_mend(float *r, const float *as) {                   \
    float x[BLOCK], y[BLOCK];                                                                      \
    memcpy(x, as, sizeof x);                                                                       \
    store_block(y, core(pack_load(x)), core(pack_load(x + pack_lanes)));                           \
    for (int j = 0; j < BLOCK; j++) {                                                              \
      const float mended = whole(x[j]);                                                            \
      r[j] = key(x[j]) <= limit ? y[j] : mended;                                                   \
    }                                                                                              \
  }                                                                                                \
  ALWAYS_INLINE void name##_block(float *r, const float *as) {                                     \
    const pack x0 = pack_load(as), x1 = pack_load(as + pack_lanes);                                \
    const pack_bits largest = pack_larger_bits(pack_##key(x0), pack_##key(x1));                    \
    if (__builtin_expect(pack_any_above(largest, limit), 0))                                       \
      name##_mend(r, as);                                                                          \
    else                                                                                           \
      store_block(r, core(x0), core(x1));                                                          \
  }                                                                                                \
  BLOCKS_LOOP(name, name##_block)

RANGED_PACK_LOOP(silu, silu_f32, pack_silu_core, key_magnitude, LIMIT_EXP)
RANGED_PACK_LOOP(sigmoid, sigmoid_f32, pack_sigmoid_core, key_magnitude, LIMIT_EXP)
PACK_LOOP(tanh, pack_tanh)

#if defined(__AVX2__)
PACK_LOOP(erf, pack_erf)
#else
/* erf and gelu take several passes over parts of the tile. A single pass would need more constants
 * than registers, and longer dependency chains than the processor can overlap. */
static void erf_part(int64_t count, float *r, const float *x) {
  float between[PART];
  for (int64_t i = 0; i < count; i++) between[i] = erf_exponent_f32(x[i]);
  for (int64_t i = 0; i < count; i++) between[i] = exp_core_f32(between[i]);
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) r[i] = erf_sum_f32(x[i], between[i]);
}

PARTS_LOOP(erf, erf_part)
#endif

#if defined(__AVX512F__)
static __attribute__((noinline)) void gelu_mend(float *r, const float *as) {
  const pack x0 = pack_load(as), x1 = pack_load(as + pack_lanes);
  store_block(r, pack_gelu(x0), pack_gelu(x1));
}
ALWAYS_INLINE void gelu_block(float *r, const float *as) {
  const pack x0 = pack_load(as), x1 = pack_load(as + pack_lanes);
  const pack_bits largest = pack_larger_bits((pack_bits)x0, (pack_bits)x1);
  if (__builtin_expect(pack_any_above(largest, LIMIT_GELU_CORE), 0))
    gelu_mend(r, as);
  else
    store_block(r, pack_gelu_core(x0), pack_gelu_core(x1));
}
BLOCKS_LOOP(gelu, gelu_block)
#else
static void gelu_part(int64_t count, float *r, const float *x) {
  float bend[PART];
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; i++) {
    largest = key_bits(x[i]) > largest ? key_bits(x[i]) : largest;
    bend[i] = gelu_bend_f32(x[i]);
  }
  if (largest <= LIMIT_GELU) {
    CPU_INDEPENDENT
    for (int64_t i = 0; i < count; i++) r[i] = gelu_core_f32(x[i], bend[i]);
  } else {
    CPU_INDEPENDENT
    for (int64_t i = 0; i < count; i++) r[i] = gelu_whole_f32(x[i], bend[i]);
  }
}

PARTS_LOOP(gelu, gelu_part)
#endif

#if defined(PACK_GELU_TANH)
RANGED_PACK_LOOP(gelu_tanh, gelu_tanh_f32, pack_gelu_tanh_core, key_bits, LIMIT_GELU_TANH)
#else
/* Two passes: compilers do not vectorise the whole. */
static void gelu_tanh_part(int64_t count, float *r, const float *x) {
  float rest[PART];
  uint32_t exponent[PART];
  for (int64_t i = 0; i < count; i++) rest[i] = gelu_tanh_rest_f32(x[i], &exponent[i]);
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) r[i] = gelu_tanh_sum_f32(x[i], rest[i], exponent[i]);
}

PARTS_LOOP(gelu_tanh, gelu_tanh_part)
#endif
UNARY_LOOP(round_f16, float, float, convert_f16_to_f32(convert_f32_to_f16(x)))
UNARY_LOOP(round_bf16, float, float, convert_bf16_to_f32(convert_f32_to_bf16(x)))

#endif

const cpu_tile_loops CPU_VARIANT_SYMBOL(cpu_tile) = {
    /* clang-format off */
    ARITHMETIC_UNARY(UNARY_ROW_OF)
    ARITHMETIC_BINARY(BINARY_ROW_OF)
    ARITHMETIC_QUESTION(UNARY_ROW_OF)
    COMPARISONS(BINARY_ROW_OF)
            /* clang-format on */
            [COMPUTE_I_SELECT] = SELECT_ROW(select),
#if defined(CPU_VARIANT_F32)
    [COMPUTE_I_RANDOM] = {any_random_loop, random_left, any_random_right},
#else
    [COMPUTE_I_RANDOM] = BINARY_ROW(random),
    [COMPUTE_I_DRAW_NORMAL] = UNARY_ROW(draw_normal),
    [COMPUTE_I_DRAW_EXPONENTIAL] = UNARY_ROW(draw_exponential),
    [COMPUTE_I_DRAW_GUMBEL] = UNARY_ROW(draw_gumbel),
    [COMPUTE_I_DRAW_GAMMA] = UNARY_ROW(draw_gamma),
    [COMPUTE_I_DRAW_POISSON] = UNARY_ROW(draw_poisson),
    [COMPUTE_I_DRAW_BETA] = UNARY_ROW(draw_beta),
    [COMPUTE_I_DRAW_BINOMIAL] = UNARY_ROW(draw_binomial),
    [COMPUTE_I_DRAW_TRUNCATED_NORMAL] = UNARY_ROW(draw_truncated_normal),
    [COMPUTE_I_DRAW_GAMMA_SLOPE] = UNARY_ROW(draw_gamma_slope),
#endif
    [COMPUTE_I_EXP] = UNARY_ROW(exp),
    [COMPUTE_I_EXPM1] = UNARY_ROW(expm1),
    [COMPUTE_I_LOG] = UNARY_ROW(log),
    [COMPUTE_I_LOG1P] = UNARY_ROW(log1p),
    [COMPUTE_I_SIN] = UNARY_ROW(sin),
    [COMPUTE_I_COS] = UNARY_ROW(cos),
    [COMPUTE_I_ATAN] = UNARY_ROW(atan),
    [COMPUTE_I_TAN] = UNARY_ROW(tan),
    [COMPUTE_I_ASIN] = UNARY_ROW(asin),
    [COMPUTE_I_ACOS] = UNARY_ROW(acos),
    [COMPUTE_I_SINH] = UNARY_ROW(sinh),
    [COMPUTE_I_COSH] = UNARY_ROW(cosh),
    [COMPUTE_I_ASINH] = UNARY_ROW(asinh),
    [COMPUTE_I_ACOSH] = UNARY_ROW(acosh),
    [COMPUTE_I_ATANH] = UNARY_ROW(atanh),
    [COMPUTE_I_TANH] = UNARY_ROW(tanh),
    [COMPUTE_I_ERF] = UNARY_ROW(erf),
    [COMPUTE_I_SIGMOID] = UNARY_ROW(sigmoid),
    [COMPUTE_I_GELU] = UNARY_ROW(gelu),
    [COMPUTE_I_GELU_TANH] = UNARY_ROW(gelu_tanh),
    [COMPUTE_I_SILU] = UNARY_ROW(silu),
    [COMPUTE_I_SOFTPLUS] = UNARY_ROW(softplus),
    [COMPUTE_I_ELU] = UNARY_ROW(elu),
    [COMPUTE_I_MOD] = BINARY_ROW(mod),
    [COMPUTE_I_POW] = BINARY_ROW(pow),
#if defined(CPU_VARIANT_F32)
    [COMPUTE_I_ROUND_F16] = UNARY_ROW(round_f16),
    [COMPUTE_I_ROUND_BF16] = UNARY_ROW(round_bf16),
#endif
};

#if defined(CPU_VARIANT_F32)
/* The functions that cost less for a short row than one interpreter step. */
const cpu_tile_rows CPU_SYMBOL(cpu_tile_rows) = {
    [COMPUTE_I_SILU] = silu_rows,
    [COMPUTE_I_SIGMOID] = sigmoid_rows,
    [COMPUTE_I_TANH] = tanh_rows,
#if defined(PACK_GELU_TANH)
    [COMPUTE_I_GELU_TANH] = gelu_tanh_rows,
#endif
#if defined(__AVX2__)
    [COMPUTE_I_ERF] = erf_rows,
#endif
#if defined(__AVX512F__)
    [COMPUTE_I_GELU] = gelu_rows,
#endif
};
#endif
