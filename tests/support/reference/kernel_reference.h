/* SPDX-License-Identifier: MIT */
/* The double reference of kernels: computes a descriptor of compute/backend.h by loops over its
 * definition. It checks backends and uses none of the library's kernels. */
#ifndef SUPPORT_KERNEL_REFERENCE_H
#define SUPPORT_KERNEL_REFERENCE_H

#include "compute/backend.h"

/* `operands` are the addresses of the first elements of the inputs, then of the outputs, which are
 * written. Returns false without memory, and for kinds that are checked in another way (FIT). */
bool kernel_reference(const compute_kernel_descriptor *d, void *const *operands);

#endif
