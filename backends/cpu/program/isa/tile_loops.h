/* Stamps the loops of one instruction from the function that computes one element.
 *
 * The functions are ordinary and can be searched for; only the loops around them, which differ in
 * nothing but the types and in which operands repeat, are made by macros. An operand that repeats
 * is read once, before anything is written: the result may share its memory. */
#ifndef CPU_ISA_TILE_LOOPS_H
#define CPU_ISA_TILE_LOOPS_H

#include <stdint.h>

#include "tile_table.h"

/* The iterations of the next loop are independent, though the result may be an operand's array:
 * weaker than `restrict`, and all that vectorising needs. */
#if defined(__clang__)
#define CPU_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#pragma clang diagnostic ignored "-Wpass-failed" /* loops that call the C library */
#else
#define CPU_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* A function that vectorises only if it becomes part of its loop. */
#define CPU_INLINE static inline __attribute__((always_inline, unused))

/* result = function(a) */
#define UNARY_LOOP(function, result_type, operand_type)                                            \
  static void function##_loop(int64_t count, void *result, const void *a, const void *b,           \
                              const void *c, cpu_immediate immediate) {                            \
    const operand_type *x = a;                                                                     \
    result_type *r = result;                                                                       \
    (void)b, (void)c, (void)immediate;                                                             \
    CPU_INDEPENDENT                                                                                \
    for (int64_t i = 0; i < count; i++) r[i] = function(x[i]);                                     \
  }

/* result = function(a, parameter), where the parameter is the instruction's. */
#define SCALED_LOOP(function, type)                                                                \
  static void function##_loop(int64_t count, void *result, const void *a, const void *b,           \
                              const void *c, cpu_immediate immediate) {                            \
    const type *x = a, parameter = (type)immediate.f64;                                            \
    type *r = result;                                                                              \
    (void)b, (void)c;                                                                              \
    CPU_INDEPENDENT                                                                                \
    for (int64_t i = 0; i < count; i++) r[i] = function(x[i], parameter);                          \
  }

/* result = function(a, b); _left has one a, _right one b. */
#define BINARY_LOOP(function, result_type, operand_type)                                           \
  static void function##_loop(int64_t count, void *result, const void *a, const void *b,           \
                              const void *c, cpu_immediate immediate) {                            \
    const operand_type *x = a, *y = b;                                                             \
    result_type *r = result;                                                                       \
    (void)c, (void)immediate;                                                                      \
    CPU_INDEPENDENT                                                                                \
    for (int64_t i = 0; i < count; i++) r[i] = function(x[i], y[i]);                               \
  }                                                                                                \
  static void function##_left(int64_t count, void *result, const void *a, const void *b,           \
                              const void *c, cpu_immediate immediate) {                            \
    const operand_type x = *(const operand_type *)a, *y = b;                                       \
    result_type *r = result;                                                                       \
    (void)c, (void)immediate;                                                                      \
    CPU_INDEPENDENT                                                                                \
    for (int64_t i = 0; i < count; i++) r[i] = function(x, y[i]);                                  \
  }                                                                                                \
  static void function##_right(int64_t count, void *result, const void *a, const void *b,          \
                               const void *c, cpu_immediate immediate) {                           \
    const operand_type *x = a, y = *(const operand_type *)b;                                       \
    result_type *r = result;                                                                       \
    (void)c, (void)immediate;                                                                      \
    CPU_INDEPENDENT                                                                                \
    for (int64_t i = 0; i < count; i++) r[i] = function(x[i], y);                                  \
  }

/* result = mask ? b : c; _left has one b, _right one c, _both one of each. */
#define SELECT_LOOP(name, type)                                                                    \
  static void name##_loop(int64_t count, void *result, const void *a, const void *b,               \
                          const void *c, cpu_immediate immediate) {                                \
    const int32_t *mask = a;                                                                       \
    const type *x = b, *y = c;                                                                     \
    type *r = result;                                                                              \
    (void)immediate;                                                                               \
    CPU_INDEPENDENT                                                                                \
    for (int64_t i = 0; i < count; i++) {                                                          \
      const type yes = x[i], no = y[i];                                                            \
      r[i] = mask[i] < 0 ? yes : no;                                                               \
    }                                                                                              \
  }                                                                                                \
  static void name##_left(int64_t count, void *result, const void *a, const void *b,               \
                          const void *c, cpu_immediate immediate) {                                \
    const int32_t *mask = a;                                                                       \
    const type yes = *(const type *)b, *y = c;                                                     \
    type *r = result;                                                                              \
    (void)immediate;                                                                               \
    CPU_INDEPENDENT                                                                                \
    for (int64_t i = 0; i < count; i++) {                                                          \
      const type no = y[i];                                                                        \
      r[i] = mask[i] < 0 ? yes : no;                                                               \
    }                                                                                              \
  }                                                                                                \
  static void name##_right(int64_t count, void *result, const void *a, const void *b,              \
                           const void *c, cpu_immediate immediate) {                               \
    const int32_t *mask = a;                                                                       \
    const type *x = b, no = *(const type *)c;                                                      \
    type *r = result;                                                                              \
    (void)immediate;                                                                               \
    CPU_INDEPENDENT                                                                                \
    for (int64_t i = 0; i < count; i++) {                                                          \
      const type yes = x[i];                                                                       \
      r[i] = mask[i] < 0 ? yes : no;                                                               \
    }                                                                                              \
  }                                                                                                \
  static void name##_both(int64_t count, void *result, const void *a, const void *b,               \
                          const void *c, cpu_immediate immediate) {                                \
    const int32_t *mask = a;                                                                       \
    const type yes = *(const type *)b, no = *(const type *)c;                                      \
    type *r = result;                                                                              \
    (void)immediate;                                                                               \
    CPU_INDEPENDENT                                                                                \
    for (int64_t i = 0; i < count; i++) r[i] = mask[i] < 0 ? yes : no;                             \
  }

/* Rows of a cpu_tile_loops table. */
#define UNARY_ROW(function)                                                                        \
  { function##_loop }
#define BINARY_ROW(function)                                                                       \
  { function##_loop, function##_left, function##_right }
#define SELECT_ROW(name)                                                                           \
  { name##_loop, name##_left, name##_right, name##_both }

#endif
