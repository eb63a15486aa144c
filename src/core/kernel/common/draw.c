/* SPDX-License-Identifier: MIT */
/* kernels/functions_random_draw.h as C: the dialect's words that it needs, and one call for each
 * distribution. The definition to the last bit exists once; statistics in the tests judge it. */
#include "core/kernel/common/draw.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef int32_t i32;
typedef uint32_t u32;
typedef int64_t i64;
typedef uint64_t u64;
typedef float f32;
typedef double f64;
typedef int boolean;
#define DEVICE            static inline __attribute__((unused))
#define CONSTANT_TABLE    static const
#define BUILTIN_f64(name) name
#define NAN_f64           ((double)NAN)
#define UNROLL
#define NO_UNROLL

static inline u64 as_u64(f64 x) {
  u64 bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline f64 as_f64(u64 bits) {
  f64 x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

#include "../../../../kernels/functions_random.h"
#include "../../../../kernels/functions_random_draw.h"

double draw_number(compute_instruction_code code, double u, double b, double c) {
  switch (code) {
  case COMPUTE_I_DRAW_NORMAL: return draw_normal_f64(u);
  case COMPUTE_I_DRAW_EXPONENTIAL: return draw_exponential_f64(u);
  case COMPUTE_I_DRAW_GUMBEL: return draw_gumbel_f64(u);
  case COMPUTE_I_DRAW_GAMMA: return draw_gamma_f64(u, b);
  case COMPUTE_I_DRAW_POISSON: return draw_poisson_f64(u, b);
  case COMPUTE_I_DRAW_BETA: return draw_beta_f64(u, b, c);
  case COMPUTE_I_DRAW_BINOMIAL: return draw_binomial_f64(u, b, c);
  case COMPUTE_I_DRAW_TRUNCATED_NORMAL: return draw_truncated_normal_f64(u, b, c);
  case COMPUTE_I_DRAW_GAMMA_SLOPE: return draw_gamma_slope_f64(u, b, c);
  default: return (double)NAN;
  }
}
