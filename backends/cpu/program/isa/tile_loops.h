/* SPDX-License-Identifier: MIT */
/* Generates the loops of one instruction from the expression that computes one element from x and
 * y.
 *
 * The loops differ only in this expression, the types and the repeated operands. A repeated operand
 * is read once, before anything is written: the result may share its memory. `immediate` is the
 * instruction's immediate. */
#ifndef CPU_ISA_TILE_LOOPS_H
#define CPU_ISA_TILE_LOOPS_H

#include <stdint.h>

#include "tile_table.h"

/* The iterations of the next loop are independent, although the result may be an operand's array.
 * This is weaker than `restrict`, but enough for vectorisation. */
#if defined(__clang__)
#define CPU_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#pragma clang diagnostic ignored "-Wpass-failed" /* for loops that call the C library */
#else
#define CPU_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* A function that vectorises only if it is inlined into its loop. */
#define CPU_INLINE static inline __attribute__((always_inline, unused))

/* result = value of x = a */
#define UNARY_LOOP(name, result_type, operand_type, value)                                         \
  static void name##_loop(int64_t count, void *result, const void *a, const void *b,               \
                          const void *c, cpu_immediate immediate) {                                \
    const operand_type *as = a;                                                                    \
    result_type *r = result;                                                                       \
    (void)b, (void)c, (void)immediate;                                                             \
    CPU_INDEPENDENT                                                                                \
    for (int64_t i = 0; i < count; i++) {                                                          \
      const operand_type x = as[i];                                                                \
      r[i] = value;                                                                                \
    }                                                                                              \
  }

/* result = value of x = a and y = b; _left: one a, _right: one b. */
#define BINARY_LOOP(name, result_type, operand_type, value)                                        \
  static void name##_loop(int64_t count, void *result, const void *a, const void *b,               \
                          const void *c, cpu_immediate immediate) {                                \
    const operand_type *as = a, *bs = b;                                                           \
    result_type *r = result;                                                                       \
    (void)c, (void)immediate;                                                                      \
    CPU_INDEPENDENT                                                                                \
    for (int64_t i = 0; i < count; i++) {                                                          \
      const operand_type x = as[i], y = bs[i];                                                     \
      r[i] = value;                                                                                \
    }                                                                                              \
  }                                                                                                \
  static void name##_left(int64_t count, void *result, const void *a, const void *b,               \
                          const void *c, cpu_immediate immediate) {                                \
    const operand_type x = *(const operand_type *)a, *bs = b;                                      \
    result_type *r = result;                                                                       \
    (void)c, (void)immediate;                                                                      \
    CPU_INDEPENDENT                                                                                \
    for (int64_t i = 0; i < count; i++) {                                                          \
      const operand_type y = bs[i];                                                                \
      r[i] = value;                                                                                \
    }                                                                                              \
  }                                                                                                \
  static void name##_right(int64_t count, void *result, const void *a, const void *b,              \
                           const void *c, cpu_immediate immediate) {                               \
    const operand_type *as = a, y = *(const operand_type *)b;                                      \
    result_type *r = result;                                                                       \
    (void)c, (void)immediate;                                                                      \
    CPU_INDEPENDENT                                                                                \
    for (int64_t i = 0; i < count; i++) {                                                          \
      const operand_type x = as[i];                                                                \
      r[i] = value;                                                                                \
    }                                                                                              \
  }

/* The comparisons of every type: row(CODE, name, value). */
/* clang-format off */
#define COMPARISONS(row)  \
  row(EQ, eq, x == y)     \
  row(NE, ne, x != y)     \
  row(LT, lt, x < y)      \
  row(LE, le, x <= y)     \
  row(GT, gt, x > y)      \
  row(GE, ge, x >= y)
/* clang-format on */

/* result = mask ? b : c; _left: one b, _right: one c, _both: one of each. `is_yes` is an expression
 * of `mask`, and `made` of the chosen value. */
#define SELECT_BODY(type, mask_type, is_yes, made, yes, no)                                        \
  const mask_type *masks = a;                                                                      \
  const type *bs = b, *cs = c;                                                                     \
  const type first_b = *bs, first_c = *cs;                                                         \
  type *r = result;                                                                                \
  (void)bs, (void)cs, (void)first_b, (void)first_c, (void)immediate;                               \
  CPU_INDEPENDENT                                                                                  \
  for (int64_t i = 0; i < count; i++) {                                                            \
    const mask_type mask = masks[i];                                                               \
    const type if_yes = yes, if_no = no, value = is_yes ? if_yes : if_no;                          \
    r[i] = made;                                                                                   \
  }
#define SELECT_LOOP_OF(name, type, mask_type, is_yes, made)                                        \
  static void name##_loop(int64_t count, void *result, const void *a, const void *b,               \
                          const void *c, cpu_immediate immediate) {                                \
    SELECT_BODY(type, mask_type, is_yes, made, bs[i], cs[i])                                       \
  }                                                                                                \
  static void name##_left(int64_t count, void *result, const void *a, const void *b,               \
                          const void *c, cpu_immediate immediate) {                                \
    SELECT_BODY(type, mask_type, is_yes, made, first_b, cs[i])                                     \
  }                                                                                                \
  static void name##_right(int64_t count, void *result, const void *a, const void *b,              \
                           const void *c, cpu_immediate immediate) {                               \
    SELECT_BODY(type, mask_type, is_yes, made, bs[i], first_c)                                     \
  }                                                                                                \
  static void name##_both(int64_t count, void *result, const void *a, const void *b,               \
                          const void *c, cpu_immediate immediate) {                                \
    SELECT_BODY(type, mask_type, is_yes, made, first_b, first_c)                                   \
  }
#define SELECT_LOOP(name, type) SELECT_LOOP_OF(name, type, int32_t, (mask < 0), value)

/* Rows of a cpu_tile_loops table. */
#define UNARY_ROW(name)                                                                            \
  { name##_loop }
#define BINARY_ROW(name)                                                                           \
  { name##_loop, name##_left, name##_right }
#define SELECT_ROW(name)                                                                           \
  { name##_loop, name##_left, name##_right, name##_both }
#define UNARY_ROW_OF(CODE, name, value)  [COMPUTE_I_##CODE] = UNARY_ROW(name),
#define BINARY_ROW_OF(CODE, name, value) [COMPUTE_I_##CODE] = BINARY_ROW(name),

#endif
