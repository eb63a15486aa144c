/* Fewer, longer loops: merging dimensions that every operand walks as one. */
#ifndef CPU_COLLAPSE_H
#define CPU_COLLAPSE_H

#include <stdint.h>

#include "compute/backend.h"

/* Drops dimensions of size 1 and merges neighbours that every operand walks as one. `strides` holds
 * `operands` rows, in elements (0 repeats). Dimensions below *fence never merge with those at or
 * past it, and *fence becomes the number of those that stay below; NULL for no fence. Entries past
 * the new rank become size 1 and stride 0. Returns the new rank, 0 for a single element.
 *
 * Row-major positions stay as they are; coordinates do not. */
int32_t cpu_collapse(int32_t rank, int64_t *size, int64_t (*strides)[COMPUTE_MAX_RANK],
                     int32_t operands, int32_t *fence);

#endif
