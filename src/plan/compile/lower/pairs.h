/* SPDX-License-Identifier: MIT */
/* Steps that do the work of the next step, too. */
#ifndef PLAN_PAIRS_H
#define PLAN_PAIRS_H

#include "plan/compile/lower/slices.h"

/* Which input of step i + 1 is the only result of step i, if they are kernels of these kinds on the
 * CPU, and nobody else reads that; otherwise −1. */
int32_t pairs_input(const lowering *l, uint32_t i, compute_kernel_kind kind,
                    compute_kernel_kind next);

/* Whether step i and the next one can be one: the descriptor of its kernel, which the device has,
 * and the step but for that kernel. */
typedef const compute_kernel_descriptor *pairs_describe(void *joiner, uint32_t i,
                                                        build_step *joined);

/* Joins all pairs for which `describe` does not give NULL, from the first on. */
compute_status pairs_join(lowering *l, pairs_describe *describe, void *joiner);

#endif
