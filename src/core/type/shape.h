/* SPDX-License-Identifier: MIT */
/* Shape and stride arithmetic. These functions do not allocate or record errors. Arrays of strides
 * have COMPUTE_MAX_RANK entries; results are 0 past the rank. */
#ifndef TYPE_SHAPE_H
#define TYPE_SHAPE_H

#include <stdbool.h>

#include "compute/dtype.h"

/* Zeroes the sizes past the rank, so that shapes can be compared and hashed as bytes. */
compute_shape shape_normalize(compute_shape shape);

/* compute_shape_equal of two valid shapes, without copying them. */
static inline bool shape_same(const compute_shape *a, const compute_shape *b) {
  if (a->rank != b->rank) return false;
  for (int32_t i = 0; i < a->rank; i++)
    if (a->size[i] != b->size[i]) return false;
  return true;
}

/* The size of an axis; 0 outside the rank. Code that takes shapes apart must read sizes with this
 * function: the shape of a node from a failed builder has rank 0, so that rank - 1 is no axis. */
static inline int64_t shape_at(compute_shape shape, int32_t axis) {
  return axis >= 0 && axis < shape.rank && axis < COMPUTE_MAX_RANK ? shape.size[axis] : 0;
}

/* Sets the size of an axis below COMPUTE_MAX_RANK. Ignores other axes. */
static inline void shape_set(compute_shape *shape, int32_t axis, int64_t size) {
  if (axis >= 0 && axis < COMPUTE_MAX_RANK) shape->size[axis] = size;
}

/* compute_shape_count without an error detail. shape_problem returns the message for an invalid
 * shape. */
compute_status shape_validate(compute_shape shape, int64_t *count);
const char *shape_problem(compute_shape shape, compute_status status);

/* The number of elements of a valid shape. */
int64_t shape_count(compute_shape shape);

/* More elements than any memory holds. Small enough that rounding a size up to whole tiles, or
 * adding a few sizes, never overflows. */
#define SHAPE_MOST_ELEMENTS (INT64_MAX >> 8)

/* `true` if a valid shape has at most SHAPE_MOST_ELEMENTS elements, counting sizes of 0 as 1. */
bool shape_fits_memory(compute_shape shape);

/* Dense row-major strides. */
void shape_dense_strides(compute_shape shape, int64_t *strides);
bool shape_is_dense(compute_shape shape, const int64_t *strides);

/* NumPy broadcasting of two shapes. Returns false if they are incompatible. */
bool shape_broadcast(compute_shape a, compute_shape b, compute_shape *result);

/* Strides that read a tensor of shape `from` as if it had the shape `to`. Returns false if it does
 * not broadcast. */
bool shape_broadcast_strides(compute_shape from, const int64_t *strides, compute_shape to,
                             int64_t *result);

/* Strides of the same elements under another shape. Returns false if no strides express this. */
bool shape_reshape_strides(compute_shape from, const int64_t *strides, compute_shape to,
                           int64_t *result);

/* Returns axis + rank if negative, and −1 if it is outside the rank. */
int32_t shape_axis(int32_t rank, int32_t axis);

/* The set of axes as bits: all axes for an empty list, none for COMPUTE_NO_AXES. Returns false for
 * an axis that is repeated or outside the rank. */
bool shape_axes_mask(int32_t rank, compute_axes axes, uint32_t *mask);

/* Checks a slice range along an axis of `size`: start, start + step, … (`count` positions). A
 * negative start counts from the end; *start becomes the position from 0. It must be in -size …
 * size; a start at the end allows only 0 elements. On failure `text` has the cause. Returns
 * COMPUTE_ERROR_INVALID_ARGUMENT for a negative count or a step below 1, otherwise _SHAPE. */
enum { SHAPE_RANGE_TEXT = 192 };
compute_status shape_range(int64_t size, int64_t count, int64_t step, int64_t *start, char *text,
                           size_t bytes);

/* Merges neighbouring dimensions with compatible strides in all operands, and drops sizes of 1.
 * `strides` has `operands` rows of COMPUTE_MAX_RANK. Dimensions below `fence` never merge with
 * dimensions at or past it (0: no fence); *fence is updated. Returns the new rank (0 for one
 * element). */
int32_t shape_collapse(int32_t rank, int64_t *size, int64_t (*strides)[COMPUTE_MAX_RANK],
                       int32_t operands, int32_t *fence);

#endif
