/* SPDX-License-Identifier: MIT */
/* Random expressions of several dtypes, each operation judged from what its operands were stored
 * as: how the planner fuses, folds and orders the work must not show in a comparison, a cast, or
 * anything else that a rounding to 16 bits can tip over. Arithmetic on 16-bit floats may see
 * operands that differ from the stored ones by half a unit in the last place, and no more. */
#ifndef SUPPORT_TYPED_GRAPH_H
#define SUPPORT_TYPED_GRAPH_H

#include "support/harness/values.h"

/* Builds, compiles and runs the expression of a seed on the device under test, and prints what is
 * wrong. Returns how many operations were judged, or -1 if one of them was wrong. */
int typed_graph_check(compute_context *context, uint64_t seed);

#endif
