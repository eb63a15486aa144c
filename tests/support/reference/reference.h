/* SPDX-License-Identifier: MIT */
/* Runs a graph in the double-precision reference on host values, and compares results with it. */
#ifndef SUPPORT_REFERENCE_H
#define SUPPORT_REFERENCE_H

#include "support/harness/values.h"

/* Returns the value of `result` with inputs[i] = values[i]: f64 for floats, i64 for integers and
 * bool. A failure of the reference ends the test. */
test_values reference_run(const compute_graph *graph, const compute_node *inputs,
                          const test_values *values, size_t count, compute_node result);

/* Returns true if element `index` of `actual` is within the tolerance of the reference's. */
bool reference_matches(const test_values *actual, const test_values *expected, int64_t index,
                       const test_tolerance *tolerance, double *error);

/* Returns true if a node's kernels exist on the CPU only, by design: a plan for another device
 * leaves it to the CPU. */
bool reference_is_of_cpu(const compute_graph *graph);

#endif
