/* SPDX-License-Identifier: MIT */
/* Arithmetic on sizes and limits: minimum and maximum, division and rounding up, and products and
 * sums with overflow checks. Header-only, so that the programs can use it. */
#ifndef BASE_ARITHMETIC_H
#define BASE_ARITHMETIC_H

#include <stdbool.h>
#include <stdint.h>

static inline int64_t min_i64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline int64_t max_i64(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static inline uint32_t min_u32(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

/* min_f64 and max_f64 return `b` if one operand is NaN. */
static inline double min_f64(double a, double b) {
  return a < b ? a : b;
}

static inline double max_f64(double a, double b) {
  return a > b ? a : b;
}

/* The number of pieces of `part` ≥ 1 that cover `whole` ≥ 0. Does not overflow. */
static inline int64_t divide_up(int64_t whole, int64_t part) {
  return whole / part + (whole % part != 0);
}

/* The smallest multiple of `part` ≥ 1 that is at least `whole`. It must be representable. */
static inline uint64_t round_up_u64(uint64_t whole, uint64_t part) {
  return (whole / part + (whole % part != 0)) * part;
}

/* If the exact result does not fit, these functions return false and leave *result unchanged. */
static inline bool checked_multiply(int64_t a, int64_t b, int64_t *result) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return false;
  *result = r;
  return true;
}

static inline bool checked_add(int64_t a, int64_t b, int64_t *result) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return false;
  *result = r;
  return true;
}

#endif
