/* SPDX-License-Identifier: MIT */
/* The building blocks of kernel drafts. The drafts themselves are in the other files
 * draft_*.c. */
#ifndef PLAN_DRAFT_H
#define PLAN_DRAFT_H

#include "plan/compile/lower/lower.h"

/* Maps the dimensions of a kernel's space to the axes of a shape. Dimension i of the space is axis
 * axis[i] of the shape, or −1 if the shape has no such axis (its stride is then 0). */
typedef struct dimension_map {
  int32_t rank;
  int32_t axis[COMPUTE_MAX_RANK];
} dimension_map;

dimension_map draft_identity(int32_t rank);

/* The identity with axis `axis` moved to the end. */
dimension_map draft_axis_last(int32_t rank, int32_t axis);

/* Converts the strides of a shape's axes to strides of the space. */
void draft_spread(const dimension_map *map, const int64_t *strides, int64_t *result);

/* Starts an empty draft over `space`. */
void draft_begin(kernel_draft *d, compute_kernel_kind kind, compute_shape space,
                 const dimension_map *map);

/* Returns the zeroed attributes of the current kernel. */
static inline void *draft_attributes(kernel_draft *d, size_t bytes) {
  return kernel_attributes_in(&d->attributes, &d->descriptor, bytes);
}

/* Adds an input: `node` through its layout, broadcast to `shape`. Returns its index. */
uint32_t draft_input(const lowering *l, kernel_draft *d, uint32_t node, compute_shape shape,
                     const dimension_map *map);

/* Returns the output strides of the kernel of `node`: its layout, or row-major order if the node is
 * a copy of another value. */
void draft_output_strides(const lowering *l, uint32_t node, int64_t *strides);

/* Adds `node` as an output. */
void draft_output(const lowering *l, kernel_draft *d, uint32_t node, const dimension_map *map);

/* Makes an existing input read `node` through its layout, broadcast to `shape`. */
void draft_place(const lowering *l, kernel_draft *d, uint32_t input, uint32_t node,
                 compute_shape shape, const dimension_map *map);

/* Adds an input with the strides of its layout. Its axes align with the last of `rank` dimensions.
 * In the first `batch` dimensions, axes of size 1 broadcast. */
void draft_own_input(const lowering *l, kernel_draft *d, uint32_t node, int32_t rank,
                     int32_t batch);

/* Connects the parts of a draft. */
void draft_finish(kernel_draft *d);

#endif
