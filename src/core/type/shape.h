/* SPDX-License-Identifier: MIT */
/* Shape and stride arithmetic. Nothing here allocates or records errors. Arrays of strides hold
 * COMPUTE_MAX_RANK entries; results are 0 past the rank. */
#ifndef TYPE_SHAPE_H
#define TYPE_SHAPE_H

#include <stdbool.h>

#include "compute/dtype.h"

/* Zeroes the sizes past the rank, so that shapes can be compared and hashed as bytes. */
compute_shape shape_normalize(compute_shape shape);

/* compute_shape_equal of two valid shapes, without copies of them. */
static inline bool shape_same(const compute_shape *a, const compute_shape *b) {
  if (a->rank != b->rank) return false;
  for (int32_t i = 0; i < a->rank; i++)
    if (a->size[i] != b->size[i]) return false;
  return true;
}

/* The size of an axis, 0 for one outside the rank: what takes shapes apart reads sizes by this. The
 * shape of a node that a failed builder returned has rank 0, so that rank - 1 is no axis. */
static inline int64_t shape_at(compute_shape shape, int32_t axis) {
  return axis >= 0 && axis < shape.rank && axis < COMPUTE_MAX_RANK ? shape.size[axis] : 0;
}

/* Sets the size of an axis below COMPUTE_MAX_RANK; other axes are ignored. */
static inline void shape_set(compute_shape *shape, int32_t axis, int64_t size) {
  if (axis >= 0 && axis < COMPUTE_MAX_RANK) shape->size[axis] = size;
}

/* compute_shape_count without an error detail; and the message for a shape that it refuses. */
compute_status shape_validate(compute_shape shape, int64_t *count);
const char *shape_problem(compute_shape shape, compute_status status);

/* Elements of a valid shape. */
int64_t shape_count(compute_shape shape);

/* More elements than any memory holds, but few enough that rounding a size up to whole tiles, or
 * adding a few sizes, never overflows. */
#define SHAPE_MOST_ELEMENTS (INT64_MAX >> 8)

/* Whether a valid shape has at most that many elements, sizes of 0 counted as 1. */
bool shape_fits_memory(compute_shape shape);

/* Dense row-major strides. */
void shape_dense_strides(compute_shape shape, int64_t *strides);
bool shape_is_dense(compute_shape shape, const int64_t *strides);

/* NumPy broadcasting of two shapes; false if they are incompatible. */
bool shape_broadcast(compute_shape a, compute_shape b, compute_shape *result);

/* Strides that read a tensor of `from` as if it had the shape `to`; false if it does not broadcast.
 */
bool shape_broadcast_strides(compute_shape from, const int64_t *strides, compute_shape to,
                             int64_t *result);

/* Strides of the same elements under another shape; false if they cannot be expressed. */
bool shape_reshape_strides(compute_shape from, const int64_t *strides, compute_shape to,
                           int64_t *result);

/* axis + rank if negative; −1 if it is outside the rank. */
int32_t shape_axis(int32_t rank, int32_t axis);

/* The set of axes as bits, all if the list is empty, none for COMPUTE_NO_AXES; false for one
 * outside the rank or repeated. */
bool shape_axes_mask(int32_t rank, compute_axes axes, uint32_t *mask);

/* The range of slices: start, start + step, … (count of them) along an axis of `size`. A negative
 * start counts from the end; *start becomes the position from 0. It must be in -size … size; at the
 * end itself only 0 elements fit. On failure `text` says why: COMPUTE_ERROR_INVALID_ARGUMENT for a
 * negative count or a step below 1, else _SHAPE. */
enum { SHAPE_RANGE_TEXT = 192 };
compute_status shape_range(int64_t size, int64_t count, int64_t step, int64_t *start, char *text,
                           size_t bytes);

/* Merges neighbouring dimensions with compatible strides in all operands, and drops sizes of 1.
 * `strides` holds `operands` rows of COMPUTE_MAX_RANK. Dimensions below `fence` never merge with
 * those at or past it (fence 0 for none); *fence is updated. Returns the new rank (0 for one
 * element). */
int32_t shape_collapse(int32_t rank, int64_t *size, int64_t (*strides)[COMPUTE_MAX_RANK],
                       int32_t operands, int32_t *fence);

#endif
