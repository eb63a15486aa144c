/* SPDX-License-Identifier: MIT */
/* What slices of a batch and bands of an image have in common. */
#ifndef PLAN_SLICES_H
#define PLAN_SLICES_H

#include "core/kernel/kernel_key.h"
#include "plan/compile/lower/lower.h"

compute_status slices_out_of_memory(const lowering *l);

/* Of the last cache of the step's device, if that runs one kernel after the other in the host's
 * memory; otherwise 0. */
uint64_t slices_cache_bytes(const lowering *l, const build_step *s);

/* Whether a step can be divided at all: a kernel on such a device that writes no parameter. Its
 * descriptor is in `copy` then. */
bool slices_can_divide(const lowering *l, const build_step *s, descriptor_copy *copy);

/* Whether the elements that an operand has for one position of a dimension lie between the first
 * and where that of the next position is, and those of all positions fill the storage. */
bool slices_lie_apart(const compute_kernel_descriptor *d, uint32_t operand, int32_t dimension,
                      uint64_t offset, uint64_t bytes);

/* The memory of the values that only the slices use, in that many lanes; IR_NONE when out of
 * memory. */
uint32_t slices_add_region(lowering *l, uint32_t device, uint32_t lanes);

/* Gives the lowering an empty list of steps with that much room. The list that it had stays valid;
 * on failure it stays the lowering's. */
compute_status slices_begin_steps(lowering *l, uint32_t capacity);

/* Replaces the kernel of a step by the one of a descriptor. The one that it had belongs to the step
 * that is divided. */
compute_status slices_set_kernel(lowering *l, const compute_kernel_descriptor *d, build_step *s);

/* The lifetimes of all storages, once steps are divided. */
void slices_find_lifetimes(lowering *l);

#endif
