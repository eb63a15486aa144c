/* What a kernel costs, told from its descriptor alone. */
#ifndef KERNEL_COST_H
#define KERNEL_COST_H

#include "compute/backend.h"

typedef struct kernel_cost {
  uint64_t flops; /* arithmetic operations; one for each instruction of a program */
  uint64_t bytes_read, bytes_written; /* every distinct element once */
} kernel_cost;

/* Of a descriptor that descriptor_check accepts. */
kernel_cost kernel_cost_of(const compute_kernel_descriptor *descriptor);

/* "map", "gemm", …; constant. */
const char *kernel_kind_name(compute_kernel_kind kind);

#endif
