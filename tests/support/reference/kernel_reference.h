/* SPDX-License-Identifier: MIT */
/* The double reference of kernels: computes a descriptor of compute/backend.h by loops over its
 * definition. It checks backends and uses none of the library's kernels. */
#ifndef SUPPORT_KERNEL_REFERENCE_H
#define SUPPORT_KERNEL_REFERENCE_H

#include "support/reference/program_reference.h"

/* `operands` are the addresses of the first elements of the inputs, then of the outputs, which are
 * written. Returns false without memory, and for kinds that are checked in another way (FIT). */
bool kernel_reference(const compute_kernel_descriptor *d, void *const *operands);

/* Receives an element of output number `output`, of type `type`, not yet rounded to the output's
 * dtype. */
typedef void (*reference_writer)(void *user, uint32_t output, const int64_t *point,
                                 compute_dtype type, const reference_value *value);

/* Like kernel_reference, but `write` receives the elements. Also returns false for SCATTER and
 * SPOTS, which have no element for each point. */
bool kernel_reference_visit(const compute_kernel_descriptor *d, const void *const *inputs,
                            reference_writer write, void *user);

#endif
