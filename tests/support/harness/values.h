/* SPDX-License-Identifier: MIT */
/* Host arrays with deterministic contents, and their comparison. */
#ifndef SUPPORT_VALUES_H
#define SUPPORT_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/compute.h"

/* A small generator (splitmix64) with the same numbers on every machine. */
typedef struct test_random {
  uint64_t state;
} test_random;

uint64_t test_random_bits(test_random *random);
int64_t test_random_integer(test_random *random, int64_t low, int64_t high); /* from low to high,
                                                                              * both included */
double test_random_uniform(test_random *random, double low, double high);

/* Dense row-major elements in host memory. */
typedef struct test_values {
  compute_dtype dtype;
  compute_shape shape;
  int64_t count;
  size_t bytes;
  void *data; /* at least one byte */
} test_values;

test_values test_values_create(compute_dtype dtype, compute_shape shape); /* zeroed */
void test_values_release(test_values *values);

/* Reads elements as doubles (an i64 beyond 2^53 is rounded) and writes them by the rules of
 * dtype.h. */
double test_values_get(const test_values *values, int64_t index);
void test_values_set(test_values *values, int64_t index, double value);

/* Integer dtypes, by their C types: predicates; conversion toward zero and saturating, NaN to 0;
 * and an element (also of bool) as int64_t, u64 by its bits, and back, wrapped. */
bool test_is_integer(compute_dtype dtype);
bool test_is_unsigned(compute_dtype dtype);
int64_t test_saturate(compute_dtype dtype, double value);
int64_t test_integer_get(compute_dtype dtype, const void *element);
void test_integer_set(compute_dtype dtype, void *element, int64_t value);
int64_t test_wrap(compute_dtype dtype, int64_t value);

typedef enum test_fill {
  FILL_RANGE,   /* uniform in low … high; whole numbers for integer types */
  FILL_SPECIAL, /* the range mixed with NaN, infinities, zeros of both signs, denormals and the
                 * largest numbers; for integers with the extremes, 0, 1 and -1 */
  FILL_DISTINCT /* a permutation of evenly spaced numbers in low … high: no ties */
} test_fill;

void test_values_fill(test_values *values, test_fill fill, double low, double high, uint64_t seed);

/* The allowed distance of an element from the reference:
 *   |actual − expected| ≤ ulp · spacing(compute type) + storage rounding + atol + rtol · |expected|
 * Storage rounding is half a spacing for f16 and bf16, else 0. NaN equals NaN, and an infinity
 * equals itself. If the exact result overflows, the largest number is one spacing from infinity.
 * Integers and bool must be equal, whatever the tolerance. */
typedef struct test_tolerance {
  double ulp, atol, rtol;
} test_tolerance;

/* The distance between neighbouring numbers of a float type around `value`. */
double test_spacing(compute_dtype dtype, double value);

/* Returns true if an element is within tolerance; `error` (may be NULL) gets |difference| /
 * allowed. */
bool test_close_enough(compute_dtype dtype, double actual, double expected,
                       const test_tolerance *tolerance, double *error);

#endif
