/* SPDX-License-Identifier: MIT */
/* The largest error of each operation and dtype that a program of the operation tests has seen.
 *
 * They become docs/reference/support-matrix.md (tests/docs/test_support_matrix.c). Nothing is kept unless
 * the variable COMPUTE_TEST_ERRORS is set: <its value>-<device>.txt is then written anew at each
 * call of measure_write. A first line "device NAME MODEL", then for each operation and dtype
 *
 *   OPERATION DTYPE ULP RELATIVE ELSEWHERE WRONG
 *
 * ULP: largest error in units of the last place of the result's dtype. RELATIVE: largest error of a
 * result's elements as part of the largest of them. ELSEWHERE: whether the device left it to the
 * CPU. WRONG: whether a result was outside its tolerance. */
#ifndef SUPPORT_MEASURE_H
#define SUPPORT_MEASURE_H

#include "support/harness/values.h"

/* A result and the reference's answer (f64 or i64). `dtype` is what the operation is called with;
 * `operation` stands in ops.def. */
void measure_result(const char *operation, compute_dtype dtype, const test_values *actual,
                    const test_values *expected, bool elsewhere, bool right);

/* Writes all that was seen so far. */
void measure_write(const compute_context *context);

#endif
