/* SPDX-License-Identifier: MIT */
/* Runs a graph in the double-precision reference on host values, and compares with its answers. */
#ifndef SUPPORT_REFERENCE_H
#define SUPPORT_REFERENCE_H

#include "support/harness/values.h"

/* The value of `result` when inputs[i] holds values[i]: f64 for floats, i64 for integers and bool.
 * A failure of the reference ends the test. */
test_values reference_run(const compute_graph *graph, const compute_node *inputs,
                          const test_values *values, size_t count, compute_node result);

/* Whether element `index` of `actual` is what the reference says, within the tolerance. */
bool reference_matches(const test_values *actual, const test_values *expected, int64_t index,
                       const test_tolerance *tolerance, double *error);

#endif
