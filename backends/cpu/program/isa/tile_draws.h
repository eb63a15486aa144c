/* SPDX-License-Identifier: MIT */
/* Numbers of distributions (kernels/functions_random_draw.h). */
#ifndef CPU_ISA_TILE_DRAWS_H
#define CPU_ISA_TILE_DRAWS_H

#include "../../../../kernels/functions_random_draw.h"
#include "tile_loops.h"

/* ---- Without parameters ---------------------------------------------------------------------- */

UNARY_LOOP(draw_exponential, double, double, draw_exponential_f64(x))
UNARY_LOOP(draw_gumbel, double, double, draw_gumbel_f64(x))

/* The central part and the tails up to 6.9 as vectors. A part with a number beyond, or without a
 * number, is computed again. */
static void draw_normal_part(int64_t count, double *r, const double *u) {
  int64_t beyond = 0;
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    const double q = (u[i] - 0.5) + 0x1p-54, size = math_fabs_f64(q), tail = 0.5 - size;
    const double x = draw_normal_near(size, tail);
    beyond += tail >= DRAW_FAR ? 0 : 1;
    r[i] = q < 0 ? -x : x;
  }
  if (!beyond) return;
  for (int64_t i = 0; i < count; i++) r[i] = draw_normal_f64(u[i]);
}

static void draw_normal_loop(int64_t count, void *result, const void *a, const void *b,
                             const void *c, cpu_immediate immediate) {
  enum { PART = 256 };
  double u[PART];
  (void)b, (void)c, (void)immediate;
  for (int64_t i = 0, part; i < count; i += part) {
    part = count - i < PART ? count - i : PART;
    memcpy(u, (const double *)a + i, (size_t)part * sizeof *u); /* may be the result's memory */
    draw_normal_part(part, (double *)result + i, u);
  }
}

/* ---- With parameters ------------------------------------------------------------------------- */

/* x, y and z are the operands. */
#define DRAW_LOOP(name, value)                                                                     \
  static void name##_loop(int64_t count, void *result, const void *a, const void *b,               \
                          const void *c, cpu_immediate immediate) {                                \
    const int64_t step[3] = {!(immediate.i64 & 1), !(immediate.i64 & 2), !(immediate.i64 & 4)};    \
    const double *as = a, *bs = b, *cs = c;                                                        \
    double *r = result, x = *as, y = *bs, z = *cs;                                                 \
    for (int64_t i = 0; i < count; i++) {                                                          \
      if (step[0]) x = as[i];                                                                      \
      if (step[1]) y = bs[i];                                                                      \
      if (step[2]) z = cs[i];                                                                      \
      (void)z;                                                                                     \
      r[i] = value;                                                                                \
    }                                                                                              \
  }

DRAW_LOOP(draw_gamma, draw_gamma_f64(x, y))
DRAW_LOOP(draw_poisson, draw_poisson_f64(x, y))
DRAW_LOOP(draw_beta, draw_beta_f64(x, y, z))
DRAW_LOOP(draw_binomial, draw_binomial_f64(x, y, z))
DRAW_LOOP(draw_truncated_normal, draw_truncated_normal_f64(x, y, z))
DRAW_LOOP(draw_gamma_slope, draw_gamma_slope_f64(x, y, z))

#endif
