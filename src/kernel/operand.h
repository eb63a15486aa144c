/* The dimensions over which an operand's strides run. */
#ifndef KERNEL_OPERAND_H
#define KERNEL_OPERAND_H

#include "compute/backend.h"

/* Sizes of the dimensions that operand `index` (inputs, then outputs) has strides for: those of the
 * space, except where its kind gives an operand dimensions of its own. All kinds but FIT. A size
 * whose stride is 0 repeats, and what GATHER and SCATTER walk besides is not among them. */
void kernel_operand_sizes(const compute_kernel_descriptor *d, uint32_t index,
                          int64_t size[COMPUTE_MAX_RANK]);

/* How many of the first inputs are the kind's own, before those that its epilogue reads. */
uint32_t kernel_operands_own(const compute_kernel_descriptor *d);

#endif
