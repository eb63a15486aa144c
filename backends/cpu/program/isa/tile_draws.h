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

DRAW_LOOP(draw_truncated_normal, draw_truncated_normal_f64(x, y, z))
DRAW_LOOP(draw_gamma_slope, draw_gamma_slope_f64(x, y, z))

/* ---- Rejection ------------------------------------------------------------------------------- */

/* Most elements accept their first attempt by a short test. A part makes this attempt for all
 * elements as vectors, with the operations of the scalar functions. These compute the others. */
enum { DRAW_PART = 128 };

typedef struct draw_part {
  double u[DRAW_PART], y[DRAW_PART], z[DRAW_PART]; /* operands */
  u32 word[4][DRAW_PART];
  double left[DRAW_PART]; /* not 0: the first attempt is not sure */
  double first[DRAW_PART], second[DRAW_PART];
} draw_part;

__attribute__((noinline)) static void draw_words(draw_part *p, int64_t count, u32 stream) {
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    const random_four w = random_words((i64)as_u64(p->u[i]), 0, stream);
    p->word[0][i] = w.word0;
    p->word[1][i] = w.word1;
    p->word[2][i] = w.word2;
    p->word[3][i] = w.word3;
  }
}

/* Unsigned words have no vector conversion before AVX-512. This one is exact. */
CPU_INLINE double draw_word(u32 word) {
  return (double)(i32)(word ^ 0x80000000u) + 0x1p31;
}

CPU_INLINE double draw_middle(u32 word) {
  return (draw_word(word) + 0.5) * 0x1p-32;
}

/* draw_floor for numbers below 2^51 in size. */
CPU_INLINE double draw_floor_near(double x) {
  const double rounded = (x + 0x1.8p52) - 0x1.8p52;
  return rounded > x ? rounded - 1 : rounded;
}

__attribute__((noinline)) static bool any_below(const double *x, int64_t count, double limit) {
  int64_t found = 0;
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) found += x[i] < limit;
  return found > 0;
}

static void leave_all(draw_part *p, int64_t count) {
  for (int64_t i = 0; i < count; i++) p->first[i] = p->second[i] = p->left[i] = 1;
}

/* draw_gamma's values for shapes from `least` on. */
__attribute__((noinline)) static void draw_gamma_first(draw_part *p, int64_t count,
                                                       const double *shape, double least,
                                                       u32 stream, double *value) {
  draw_words(p, count, stream);
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    const double d = (shape[i] < 1 ? shape[i] + 1 : shape[i]) - 1.0 / 3;
    const double c = 1 / __builtin_sqrt(9 * d);
    const double u =
        draw_word(p->word[1][i]) * 0x1p-32 + (double)(i32)(p->word[0][i] >> 11) * 0x1p-53;
    const double q = (u - 0.5) + 0x1p-54, size = math_fabs_f64(q), tail = 0.5 - size;
    const double near = draw_normal_near(size, tail), x = q < 0 ? -near : near, square = x * x;
    const double root = 1 + c * x, v = draw_middle(p->word[2][i]);
    const boolean sure = (p->u[i] >= 0) & (p->u[i] < 1) & (shape[i] >= least) &
                         (shape[i] < 0x1p900) & (tail >= DRAW_FAR) & (root > 0) &
                         (v < 1 - 0.0331 * square * square);
    value[i] = d * (root * root * root);
    p->left[i] = sure ? p->left[i] : 1;
  }
}

static void draw_gamma_part(draw_part *p, int64_t count, double *r) {
  draw_gamma_first(p, count, p->y, 0x1p-100, DRAW_STREAM, p->first);
  if (any_below(p->y, count, 1)) {
    CPU_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
      const double power = draw_log(draw_middle(p->word[3][i])) / p->y[i];
      const double less = p->first[i] * draw_exp(power);
      p->first[i] = p->y[i] < 1 ? less : p->first[i];
    }
  }
  for (int64_t i = 0; i < count; i++)
    r[i] = p->left[i] == 0 ? p->first[i] : draw_gamma_f64(p->u[i], p->y[i]);
}

static void draw_beta_part(draw_part *p, int64_t count, double *r) {
  if (any_below(p->y, count, 1) || any_below(p->z, count, 1)) {
    leave_all(p, count);
  } else {
    draw_gamma_first(p, count, p->z, 1, DRAW_STREAM, p->second);
    draw_gamma_first(p, count, p->y, 1, DRAW_STREAM + 1, p->first);
  }
  for (int64_t i = 0; i < count; i++) {
    const double sum = p->first[i] + p->second[i];
    r[i] = p->left[i] == 0 && sum <= DRAW_FINITE ? p->first[i] / sum
                                                 : draw_beta_f64(p->u[i], p->y[i], p->z[i]);
  }
}

static void draw_poisson_first(draw_part *p, int64_t count) {
  draw_words(p, count, DRAW_STREAM);
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    const double mean = p->y[i], b = 0.931 + 2.53 * __builtin_sqrt(mean), a = -0.059 + 0.02483 * b;
    const double enough = 0.9277 - 3.6224 / (b - 2);
    const double across = draw_middle(p->word[0][i]) - 0.5, v = draw_middle(p->word[1][i]);
    const double side = 0.5 - math_fabs_f64(across);
    const boolean sure = (p->u[i] >= 0) & (p->u[i] < 1) & (mean >= DRAW_INVERTED) &
                         (mean < 0x1p50) & (side >= 0.07) & (v <= enough);
    p->first[i] = draw_floor_near((2 * a / side + b) * across + mean + 0.43);
    p->left[i] = sure ? 0 : 1;
  }
}

static void draw_poisson_part(draw_part *p, int64_t count, double *r) {
  if (any_below(p->y, count, DRAW_INVERTED))
    leave_all(p, count);
  else
    draw_poisson_first(p, count);
  for (int64_t i = 0; i < count; i++)
    r[i] = p->left[i] == 0 ? p->first[i] : draw_poisson_f64(p->u[i], p->y[i]);
}

static void draw_binomial_part(draw_part *p, int64_t count, double *r) {
  draw_words(p, count, DRAW_STREAM);
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    const double n = p->y[i], given = p->z[i];
    const boolean flipped = given > 0.5;
    const double share = flipped ? 1 - given : given;
    const double root = __builtin_sqrt(n * share * (1 - share)), b = 1.15 + 2.53 * root;
    const double a = -0.0873 + 0.0248 * b + 0.01 * share, enough = 0.92 - 4.2 / b;
    const double across = draw_middle(p->word[0][i]) - 0.5, v = draw_middle(p->word[1][i]);
    const double side = 0.5 - math_fabs_f64(across);
    const double k = draw_floor_near((2 * a / side + b) * across + n * share + 0.5);
    const boolean sure = (p->u[i] >= 0) & (p->u[i] < 1) & (given >= 0) & (given <= 1) &
                         (n < 0x1p50) & (n == draw_floor_near(n)) & (n * share >= DRAW_INVERTED) &
                         (side >= 0.07) & (v <= enough);
    p->first[i] = flipped ? n - k : k;
    p->left[i] = sure ? 0 : 1;
  }
  for (int64_t i = 0; i < count; i++)
    r[i] = p->left[i] == 0 ? p->first[i] : draw_binomial_f64(p->u[i], p->y[i], p->z[i]);
}

/* The result may be an operand's memory. */
#define DRAW_PARTS(name, operands)                                                                 \
  static void name##_loop(int64_t count, void *result, const void *a, const void *b,               \
                          const void *c, cpu_immediate immediate) {                                \
    const int64_t step[3] = {!(immediate.i64 & 1), !(immediate.i64 & 2), !(immediate.i64 & 4)};    \
    const double *const from[] = {a, b, c};                                                        \
    const double single[] = {*from[0], *from[1], (operands) > 2 ? *from[2] : 0};                   \
    draw_part p;                                                                                   \
    for (int64_t i = 0, part; i < count; i += part) {                                              \
      part = count - i < DRAW_PART ? count - i : DRAW_PART;                                        \
      double *const to[] = {p.u, p.y, p.z};                                                        \
      for (int o = 0; o < (operands); o++)                                                         \
        for (int64_t k = 0; k < part; k++) to[o][k] = step[o] ? from[o][i + k] : single[o];        \
      memset(p.left, 0, sizeof p.left);                                                            \
      name##_part(&p, part, (double *)result + i);                                                 \
    }                                                                                              \
  }

DRAW_PARTS(draw_gamma, 2)
DRAW_PARTS(draw_poisson, 2)
DRAW_PARTS(draw_beta, 3)
DRAW_PARTS(draw_binomial, 3)

#endif
