/* SPDX-License-Identifier: MIT */
/* Joins pairs of consecutive steps into one step. */
#ifndef PLAN_PAIRS_H
#define PLAN_PAIRS_H

#include "plan/compile/lower/micro_batches.h"

/* If steps i and i + 1 are CPU kernels of these kinds, and only step i + 1 reads the single result
 * of step i, returns the index of that input. Otherwise returns −1. */
int32_t pairs_input(const lowering *l, uint32_t i, compute_kernel_kind kind,
                    compute_kernel_kind next);

/* Describes the joined kernel of steps i and i + 1, and fills in `joined` except for its kernel.
 * Returns NULL if the steps cannot be joined or the device lacks such a kernel. */
typedef const compute_kernel_descriptor *pairs_describe(void *joiner, uint32_t i,
                                                        build_step *joined);

/* Joins all pairs that `describe` accepts, from the first step on. */
compute_status pairs_join(lowering *l, pairs_describe *describe, void *joiner);

#endif
