/* SPDX-License-Identifier: MIT */
/* Random expressions of several dtypes. Each operation is checked against the stored values of its
 * operands. So fusing, folding and ordering by the planner must not affect a comparison, a cast, or
 * anything else that a rounding to 16 bits can change. Arithmetic on 16-bit floats may see operands
 * that differ from the stored ones by at most half a unit in the last place. */
#ifndef SUPPORT_TYPED_GRAPH_H
#define SUPPORT_TYPED_GRAPH_H

#include "support/harness/values.h"

/* Builds, compiles and runs the expression of a seed on the device under test, and prints errors.
 * Returns the number of checked operations, or -1 if one was wrong. */
int typed_graph_check(compute_context *context, uint64_t seed);

#endif
