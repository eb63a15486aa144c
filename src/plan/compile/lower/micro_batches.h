/* SPDX-License-Identifier: MIT */
/* Common parts of the passes for micro-batches (micro_batches.c) and row tiles with halo
 * (row_tiles.c). */
#ifndef PLAN_MICRO_BATCHES_H
#define PLAN_MICRO_BATCHES_H

#include "core/kernel/kernel_key.h"
#include "plan/compile/lower/lower.h"

compute_status division_out_of_memory(const lowering *l);

/* Returns the size of the last-level cache of the step's device. Returns 0 unless the device works
 * in host memory and runs one kernel at a time. */
uint64_t step_cache_bytes(const lowering *l, const build_step *s);

/* True if a step can be divided: a kernel on such a device that writes no parameter. `copy` then
 * holds its descriptor. */
bool step_is_divisible(const lowering *l, const build_step *s, descriptor_copy *copy);

/* True if each position of a dimension has a separate range of the storage: the elements of a
 * position stay within one stride, and the ranges of all positions fill the storage. */
bool operand_lies_apart(const compute_kernel_descriptor *d, uint32_t operand, int32_t dimension,
                        uint64_t offset, uint64_t bytes);

/* Adds a storage for the values used only inside micro-batches, with this number of per-thread
 * arenas. Returns IR_NONE when out of memory. */
uint32_t storage_add_region(lowering *l, uint32_t device, uint32_t thread_arenas);

/* Gives the lowering a new, empty list of steps with this capacity. The old list stays valid. On
 * failure the lowering keeps it. */
compute_status steps_begin(lowering *l, uint32_t capacity);

/* Replaces the kernel of a step by the descriptor's kernel. The old kernel stays with the step that
 * is divided. */
compute_status step_set_kernel(lowering *l, const compute_kernel_descriptor *d, build_step *s);

/* Computes the lifetimes of all storages after steps were divided. */
void storages_find_lifetimes(lowering *l);

#endif
