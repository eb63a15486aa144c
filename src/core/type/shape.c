/* SPDX-License-Identifier: MIT */
/* Shape and stride arithmetic.
 *
 * A size of 0 is valid. As in NumPy, the product of the nonzero sizes decides about overflow. So
 * partial products and dense strides of every valid shape are safe to compute. */
#include "core/type/shape.h"

#include <stdio.h>
#include <string.h>

#include "core/base/arithmetic.h"
#include "core/base/error.h"

compute_status shape_validate(compute_shape shape, int64_t *count) {
  if (shape.rank < 0 || shape.rank > COMPUTE_MAX_RANK) return COMPUTE_ERROR_SHAPE;
  int64_t product = 1;
  bool empty = false, fits = true;
  for (int32_t i = 0; i < shape.rank; i++) {
    if (shape.size[i] < 0) return COMPUTE_ERROR_SHAPE;
    if (shape.size[i] == 0) {
      empty = true;
    } else if (!checked_multiply(product, shape.size[i], &product)) {
      fits = false;
    }
  }
  if (!fits) return COMPUTE_ERROR_OVERFLOW;
  *count = empty ? 0 : product;
  return COMPUTE_OK;
}

compute_status compute_shape_count(compute_shape shape, int64_t *count) {
  if (!count) {
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, "compute_shape_count", "count is NULL");
  }
  compute_status status = shape_validate(shape, count);
  if (status) {
    char text[128];
    return error_set(NULL, status, "compute_shape_count", "invalid shape %s: %s",
                     compute_shape_text(shape, text, sizeof text), shape_problem(shape, status));
  }
  return COMPUTE_OK;
}

const char *shape_problem(compute_shape shape, compute_status status) {
  if (status == COMPUTE_ERROR_OVERFLOW) return "the number of elements exceeds 63 bits";
  if (shape.rank < 0 || shape.rank > COMPUTE_MAX_RANK) return "the rank is outside 0 to 8";
  return "a size is negative";
}

char *compute_shape_text(compute_shape shape, char *text, size_t bytes) {
  if (!text || bytes == 0) return text;
  if (shape.rank < 0 || shape.rank > COMPUTE_MAX_RANK) {
    snprintf(text, bytes, "[rank %d]", (int)shape.rank);
    return text;
  }
  /* 8 sizes of at most 20 characters, 7 commas, 2 brackets. */
  char whole[8 * 20 + 7 + 2 + 1];
  int length = snprintf(whole, sizeof whole, "[");
  for (int32_t i = 0; i < shape.rank; i++) {
    length += snprintf(whole + length, sizeof whole - (size_t)length, i ? ",%lld" : "%lld",
                       (long long)shape.size[i]);
  }
  snprintf(whole + length, sizeof whole - (size_t)length, "]");
  snprintf(text, bytes, "%s", whole);
  return text;
}

bool compute_shape_equal(compute_shape a, compute_shape b) {
  return a.rank >= 0 && a.rank <= COMPUTE_MAX_RANK && shape_same(&a, &b);
}

compute_shape shape_normalize(compute_shape shape) {
  compute_shape result = {.rank = shape.rank};
  for (int32_t i = 0; i < shape.rank && i < COMPUTE_MAX_RANK; i++) result.size[i] = shape.size[i];
  return result;
}

int64_t shape_count(compute_shape shape) {
  int64_t count = 1;
  for (int32_t i = 0; i < shape.rank; i++) {
    if (shape.size[i] == 0) return 0;
  }
  for (int32_t i = 0; i < shape.rank; i++) count *= shape.size[i];
  return count;
}

void shape_dense_strides(compute_shape shape, int64_t *strides) {
  int64_t stride = 1;
  for (int32_t i = COMPUTE_MAX_RANK - 1; i >= shape.rank; i--) strides[i] = 0;
  for (int32_t i = shape.rank - 1; i >= 0; i--) {
    strides[i] = stride;
    if (shape.size[i] > 1) stride *= shape.size[i];
  }
}

bool shape_is_dense(compute_shape shape, const int64_t *strides) {
  int64_t stride = 1;
  for (int32_t i = 0; i < shape.rank; i++)
    if (shape.size[i] == 0) return true;
  for (int32_t i = shape.rank - 1; i >= 0; i--) {
    if (shape.size[i] == 1) continue;
    if (strides[i] != stride) return false;
    stride *= shape.size[i];
  }
  return true;
}

bool shape_broadcast(compute_shape a, compute_shape b, compute_shape *result) {
  compute_shape joined = {.rank = a.rank > b.rank ? a.rank : b.rank};
  for (int32_t i = 1; i <= joined.rank; i++) {
    int64_t from_a = i <= a.rank ? a.size[a.rank - i] : 1;
    int64_t from_b = i <= b.rank ? b.size[b.rank - i] : 1;
    if (from_a != from_b && from_a != 1 && from_b != 1) return false;
    joined.size[joined.rank - i] = from_a == 1 ? from_b : from_a;
  }
  *result = joined;
  return true;
}

bool shape_broadcast_strides(compute_shape from, const int64_t *strides, compute_shape to,
                             int64_t *result) {
  if (from.rank > to.rank) return false;
  int64_t spread[COMPUTE_MAX_RANK] = {0};
  int32_t lead = to.rank - from.rank;
  for (int32_t i = 0; i < from.rank; i++) {
    if (from.size[i] != to.size[lead + i] && from.size[i] != 1) return false;
    spread[lead + i] = from.size[i] == 1 ? 0 : strides[i];
  }
  memcpy(result, spread, sizeof spread);
  return true;
}

/* Drops sizes of 1, because their strides are irrelevant. Returns the remaining rank. */
static int32_t squeeze(compute_shape shape, const int64_t *strides, int64_t *size,
                       int64_t *stride) {
  int32_t rank = 0;
  for (int32_t i = 0; i < shape.rank; i++) {
    if (shape.size[i] == 1) continue;
    size[rank] = shape.size[i];
    stride[rank++] = strides[i];
  }
  return rank;
}

/* Walks both shapes from the outermost dimension. A group of old dimensions and a group of new
 * dimensions with the same product hold the same elements. The old group must then have a single
 * stride. */
bool shape_reshape_strides(compute_shape from, const int64_t *strides, compute_shape to,
                           int64_t *result) {
  int64_t count = shape_count(from);
  if (count != shape_count(to)) return false;
  int64_t dense[COMPUTE_MAX_RANK];
  shape_dense_strides(to, dense);
  if (count == 0) {
    memcpy(result, dense, sizeof dense);
    return true;
  }
  int64_t size[COMPUTE_MAX_RANK], stride[COMPUTE_MAX_RANK];
  int32_t rank = squeeze(from, strides, size, stride);
  int32_t old = 0, new = 0;
  while (old < rank && new < to.rank) {
    int32_t old_end = old + 1, new_end = new + 1;
    int64_t old_product = size[old], new_product = to.size[new];
    while (old_product != new_product) {
      if (old_product < new_product) {
        old_product *= size[old_end++];
      } else {
        new_product *= to.size[new_end++];
      }
    }
    for (int32_t i = old; i + 1 < old_end; i++) {
      int64_t outer;
      if (!checked_multiply(stride[i + 1], size[i + 1], &outer) || stride[i] != outer) return false;
    }
    int64_t step = stride[old_end - 1];
    for (int32_t i = new_end - 1; i >= new; i--) {
      dense[i] = step;
      /* Beyond the outermost dimension, the product may overflow, but it is not used. */
      step = (int64_t)((uint64_t)step * (uint64_t)to.size[i]);
    }
    old = old_end;
    new = new_end;
  }
  /* The remaining dimensions of the new shape have size 1, and their strides are irrelevant. */
  memcpy(result, dense, sizeof dense);
  return true;
}

int32_t shape_axis(int32_t rank, int32_t axis) {
  if (axis >= rank || (int64_t)axis + rank < 0) return -1;
  return axis < 0 ? axis + rank : axis;
}

bool shape_axes_mask(int32_t rank, compute_axes axes, uint32_t *mask) {
  if (axes.count == COMPUTE_NO_AXES.count) {
    *mask = 0;
    return true;
  }
  if (axes.count < 0 || axes.count > COMPUTE_MAX_RANK) return false;
  uint32_t bits = axes.count == 0 ? (1u << rank) - 1 : 0;
  for (int32_t i = 0; i < axes.count; i++) {
    int32_t axis = shape_axis(rank, axes.axis[i]);
    if (axis < 0 || bits & 1u << axis) return false;
    bits |= 1u << axis;
  }
  *mask = bits;
  return true;
}

bool shape_fits_memory(compute_shape shape) {
  int64_t count;
  for (int32_t i = 0; i < shape.rank; i++)
    if (shape.size[i] == 0) shape.size[i] = 1;
  return shape_validate(shape, &count) == COMPUTE_OK && count <= SHAPE_MOST_ELEMENTS;
}

compute_status shape_range(int64_t size, int64_t count, int64_t step, int64_t *start, char *text,
                           size_t bytes) {
  const int64_t given = *start, first = given < 0 ? given + size : given;
  int64_t last = first;
  if (count < 0 || step < 1) {
    snprintf(text, bytes, "count %lld and step %lld; count must be at least 0 and step at least 1",
             (long long)count, (long long)step);
    return COMPUTE_ERROR_INVALID_ARGUMENT;
  }
  if (first < 0 || first > size) {
    snprintf(text, bytes, "start %lld is outside an axis of %lld; it must be in %lld … %lld",
             (long long)given, (long long)size, -(long long)size, (long long)size);
    return COMPUTE_ERROR_SHAPE;
  }
  if (count > 0 && (!checked_multiply(count - 1, step, &last) || !checked_add(last, first, &last) ||
                    last >= size)) {
    snprintf(text, bytes, "%lld elements from %lld in steps of %lld do not fit an axis of %lld",
             (long long)count, (long long)given, (long long)step, (long long)size);
    return COMPUTE_ERROR_SHAPE;
  }
  *start = first;
  return COMPUTE_OK;
}

/* `true` if `outer` and `inner`, the next dimension, can be merged in every operand. */
static bool walks_as_one(int64_t (*strides)[COMPUTE_MAX_RANK], int32_t operands, int32_t outer,
                         int32_t inner, int64_t inner_size) {
  for (int32_t k = 0; k < operands; k++) {
    int64_t step;
    if (!checked_multiply(strides[k][inner], inner_size, &step)) return false;
    if (strides[k][outer] != step) return false;
  }
  return true;
}

int32_t shape_collapse(int32_t rank, int64_t *size, int64_t (*strides)[COMPUTE_MAX_RANK],
                       int32_t operands, int32_t *fence) {
  int32_t kept = 0, new_fence = 0;
  for (int32_t i = 0; i < rank; i++) {
    bool before_fence = i < *fence;
    if (size[i] == 1) continue;
    /* The previous dimension may be merged if it is on the same side of the fence. */
    bool may_join = kept > (before_fence ? 0 : new_fence);
    if (may_join && walks_as_one(strides, operands, kept - 1, i, size[i])) {
      size[kept - 1] *= size[i];
      for (int32_t k = 0; k < operands; k++) strides[k][kept - 1] = strides[k][i];
      continue;
    }
    size[kept] = size[i];
    for (int32_t k = 0; k < operands; k++) strides[k][kept] = strides[k][i];
    kept++;
    if (before_fence) new_fence = kept;
  }
  for (int32_t i = kept; i < rank; i++) {
    size[i] = 0;
    for (int32_t k = 0; k < operands; k++) strides[k][i] = 0;
  }
  *fence = new_fence;
  return kept;
}
