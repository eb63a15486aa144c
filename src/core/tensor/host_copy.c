/* SPDX-License-Identifier: MIT */
/* Strided, converting copies by plain loops.
 *
 * They are not fast, but support any pair of dtypes and any strides, with the same results as a
 * device's kernels. Integers are copied as int64_t and floats as double, so both are exact. */
#include "core/tensor/tensor.h"

#include <string.h>

#include "core/type/dtype.h"
#include "core/type/shape.h"

static void copy_run(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count,
                     size_t size) {
  if (to_step == (int64_t)size && from_step == (int64_t)size) {
    memcpy(to, from, (size_t)count * size);
    return;
  }
  for (int64_t i = 0; i < count; i++) memcpy(to + i * to_step, from + i * from_step, size);
}

/* Converts a u64 with its highest bit set to a float: halves the value, converts it, and doubles
 * the result. The lost bit is or-ed into the last bit, so that the rounding is the same. */
static void store_twice(compute_dtype dtype, char *to, int64_t bits) {
  const uint64_t half = (uint64_t)bits >> 1 | ((uint64_t)bits & 1);
  dtype_store_integer(dtype, to, (int64_t)half);
  dtype_store(dtype, to, 2 * dtype_load(dtype, to));
}

static void convert_run(const host_array *destination, char *to, int64_t to_step,
                        const host_array *source, const char *from, int64_t from_step,
                        int64_t count) {
  if (dtype_is_float(source->dtype)) {
    for (int64_t i = 0; i < count; i++) {
      dtype_store(destination->dtype, to + i * to_step,
                  dtype_load(source->dtype, from + i * from_step));
    }
  } else {
    const bool halves = source->dtype == COMPUTE_U64 && dtype_is_float(destination->dtype);
    for (int64_t i = 0; i < count; i++) {
      const int64_t value = dtype_load_integer(source->dtype, from + i * from_step);
      if (halves && value < 0)
        store_twice(destination->dtype, to + i * to_step, value);
      else
        dtype_store_integer(destination->dtype, to + i * to_step, value);
    }
  }
}

void host_copy(compute_shape shape, const host_array *destination, const host_array *source) {
  if (shape_count(shape) == 0) return;
  int64_t strides[2][COMPUTE_MAX_RANK] = {{0}};
  memcpy(strides[0], destination->strides, (size_t)shape.rank * sizeof **strides);
  memcpy(strides[1], source->strides, (size_t)shape.rank * sizeof **strides);
  int64_t size[COMPUTE_MAX_RANK];
  memcpy(size, shape.size, sizeof size);
  int32_t fence = 0, rank = shape_collapse(shape.rank, size, strides, 2, &fence);
  int64_t to_size = (int64_t)compute_dtype_size(destination->dtype);
  int64_t from_size = (int64_t)compute_dtype_size(source->dtype);
  int64_t run = rank > 0 ? size[rank - 1] : 1;
  int64_t to_step = rank > 0 ? strides[0][rank - 1] * to_size : to_size;
  int64_t from_step = rank > 0 ? strides[1][rank - 1] * from_size : from_size;

  int64_t at[COMPUTE_MAX_RANK] = {0};
  char *to = destination->data;
  const char *from = source->data;
  for (;;) {
    if (destination->dtype == source->dtype) {
      copy_run(to, to_step, from, from_step, run, (size_t)to_size);
    } else {
      convert_run(destination, to, to_step, source, from, from_step, run);
    }
    int32_t axis = rank - 2;
    for (; axis >= 0; axis--) {
      to += strides[0][axis] * to_size;
      from += strides[1][axis] * from_size;
      if (++at[axis] < size[axis]) break;
      to -= strides[0][axis] * to_size * size[axis];
      from -= strides[1][axis] * from_size * size[axis];
      at[axis] = 0;
    }
    if (axis < 0) return;
  }
}

void host_fill(void *destination, const void *element, size_t size, uint64_t count) {
  char *to = destination;
  for (uint64_t i = 0; i < count; i++) memcpy(to + i * size, element, size);
}
