/* SPDX-License-Identifier: MIT */
/* The reference of SPOTS by its definition in compute/backend.h, in double. */
#ifndef SUPPORT_SPOTS_REFERENCE_H
#define SUPPORT_SPOTS_REFERENCE_H

#include "compute/backend.h"

/* `operands` are the addresses of the first elements of the frames and of the result. Returns false
 * without memory. */
bool spots_reference(const compute_kernel_descriptor *d, void *const *operands);

#endif
