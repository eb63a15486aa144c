/* SPDX-License-Identifier: MIT */
/* The building blocks of kernel drafts; the drafts themselves are in draft_fused.c and
 * draft_single.c. */
#ifndef PLAN_DRAFT_H
#define PLAN_DRAFT_H

#include "plan/compile/lower/lower.h"

/* How the dimensions of a shape become those of a kernel's space: dimension i of the space is axis
 * axis[i] of the shape, or −1 if the shape has none (its stride is then 0). */
typedef struct dimension_map {
  int32_t rank;
  int32_t axis[COMPUTE_MAX_RANK];
} dimension_map;

dimension_map draft_identity(int32_t rank);

/* The same with axis `axis` as the last dimension. */
dimension_map draft_axis_last(int32_t rank, int32_t axis);

/* Strides of a shape's axes as those of the space. */
void draft_spread(const dimension_map *map, const int64_t *strides, int64_t *result);

/* An empty draft over `space`. */
void draft_begin(kernel_draft *d, compute_kernel_kind kind, compute_shape space,
                 const dimension_map *map);

/* The zeroed attributes of the current kernel. */
static inline void *draft_attributes(kernel_draft *d, size_t bytes) {
  return kernel_attributes_in(&d->attributes, &d->descriptor, bytes);
}

/* One more input: `node` through its layout, broadcast to `shape`. Returns its number. */
uint32_t draft_input(const lowering *l, kernel_draft *d, uint32_t node, compute_shape shape,
                     const dimension_map *map);

/* Where the kernel of `node` writes its elements: along its layout, or in row-major order if it is
 * a copy of what lies elsewhere. */
void draft_output_strides(const lowering *l, uint32_t node, int64_t *strides);

/* One more output: `node`. */
void draft_output(const lowering *l, kernel_draft *d, uint32_t node, const dimension_map *map);

/* Makes an existing input read `node` through its layout, broadcast to `shape`. */
void draft_place(const lowering *l, kernel_draft *d, uint32_t input, uint32_t node,
                 compute_shape shape, const dimension_map *map);

/* One more input with the strides of its own layout, whose axes are aligned to the right of `rank`
 * dimensions; the leading `batch` ones broadcast. */
void draft_own_input(const lowering *l, kernel_draft *d, uint32_t node, int32_t rank,
                     int32_t batch);

/* Connects the parts of a draft. */
void draft_finish(kernel_draft *d);

#endif
