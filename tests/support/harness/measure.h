/* SPDX-License-Identifier: MIT */
/* Collects the largest error of each operation and dtype in a program of the operation tests.
 *
 * tests/docs/test_support_matrix.c makes docs/reference/support-matrix.md from them. They are
 * collected only if the variable COMPUTE_TEST_ERRORS is set: each call of measure_write then
 * rewrites <its value>-<device>.txt. The first line is "device NAME MODEL", followed for each
 * operation and dtype by
 *
 *   OPERATION DTYPE ULP RELATIVE ELSEWHERE WRONG
 *
 * ULP: largest error in units in the last place of the result's dtype. RELATIVE: largest error of a
 * result's elements, relative to the largest element. ELSEWHERE: 1 if the device fell back to the
 * CPU. WRONG: 1 if a result exceeded its tolerance. */
#ifndef SUPPORT_MEASURE_H
#define SUPPORT_MEASURE_H

#include "support/harness/values.h"

/* Adds a result and the reference's result (f64 or i64). `dtype` is the dtype of the call;
 * `operation` is a name of ops.def. */
void measure_result(const char *operation, compute_dtype dtype, const test_values *actual,
                    const test_values *expected, bool elsewhere, bool right);

/* Writes all errors collected so far. */
void measure_write(const compute_context *context);

#endif
