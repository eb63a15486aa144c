/* SPDX-License-Identifier: MIT */
#include "support/harness/guarded.h"

#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"

enum { GUARD_ELEMENTS = 67, GUARD_BYTE = 0xa5 }; /* odd, so that f16 views start unaligned */

const char *guarded_layout_name(guarded_layout layout) {
  static const char *const names[LAYOUT_COUNT] = {"dense", "stepped", "padded", "transposed",
                                                  "wrapped"};
  return names[layout];
}

static compute_shape reversed(compute_shape shape) {
  compute_shape result = shape;
  for (int32_t i = 0; i < shape.rank; i++) result.size[i] = shape.size[shape.rank - 1 - i];
  return result;
}

/* The dense shape that stores a layout's elements and gaps. */
static compute_shape storage_shape(compute_shape shape, guarded_layout layout) {
  compute_shape result = layout == LAYOUT_TRANSPOSED ? reversed(shape) : shape;
  if (shape.rank == 0) return result;
  if (layout == LAYOUT_STEPPED) result.size[shape.rank - 1] *= 2;
  if (layout == LAYOUT_PADDED) result.size[shape.rank - 1] += 3;
  return result;
}

/* Creates the base tensor, filled with guard bytes. */
static compute_tensor *create_base(compute_device *device, compute_dtype dtype, int64_t count,
                                   guarded_layout layout, void **memory) {
  const size_t size = compute_dtype_size(dtype), bytes = (size_t)count * size;
  unsigned char *pattern = malloc(bytes + size);
  compute_tensor *base = NULL;
  assert_non_null(pattern);
  memset(pattern, GUARD_BYTE, bytes + size);
  *memory = NULL;
  if (layout == LAYOUT_WRAPPED &&
      compute_tensor_wrap(device, dtype, COMPUTE_SHAPE(count), NULL, pattern + size, NULL, NULL,
                          &base) == COMPUTE_OK) {
    *memory = pattern;
    return base;
  }
  assert_ok(compute_tensor_from_host(device, dtype, COMPUTE_SHAPE(count), pattern, &base));
  free(pattern);
  return base;
}

/* Creates the view of the layout's elements in a tensor of the storage shape. */
static compute_tensor *create_view(compute_tensor *storage, compute_shape shape,
                                   guarded_layout layout) {
  const int32_t last = shape.rank - 1;
  compute_tensor *view = NULL;
  if (layout == LAYOUT_TRANSPOSED)
    assert_ok(compute_tensor_transpose_view(storage, COMPUTE_ALL_AXES, &view));
  else if (layout == LAYOUT_STEPPED && last >= 0)
    assert_ok(compute_tensor_slice_view(storage, last, 0, shape.size[last], 2, &view));
  else if (layout == LAYOUT_PADDED && last >= 0)
    assert_ok(compute_tensor_slice_view(storage, last, 1, shape.size[last], 1, &view));
  else
    view = compute_tensor_retain(storage);
  return view;
}

guarded_tensor guarded_create(compute_device *device, compute_dtype dtype, compute_shape shape,
                              guarded_layout layout, const test_values *values) {
  guarded_tensor result = {.first = GUARD_ELEMENTS};
  const compute_shape stored = storage_shape(shape, layout);
  int64_t count;
  assert_ok(compute_shape_count(stored, &count));
  if (layout == LAYOUT_PADDED && shape.rank > 0) result.first++;
  result.base = create_base(device, dtype, count + 2 * GUARD_ELEMENTS, layout, &result.memory);
  compute_tensor *middle = NULL, *storage = NULL;
  assert_ok(compute_tensor_slice_view(result.base, 0, GUARD_ELEMENTS, count, 1, &middle));
  assert_ok(compute_tensor_reshape_view(middle, stored, &storage));
  result.view = create_view(storage, shape, layout);
  compute_tensor_release(middle);
  compute_tensor_release(storage);
  assert_true(compute_shape_equal(compute_tensor_shape(result.view), shape));
  if (values) assert_ok(compute_tensor_write(result.view, values->data, values->bytes));
  return result;
}

void guarded_read(const guarded_tensor *tensor, test_values *values) {
  assert_ok(compute_tensor_read(tensor->view, values->data, values->bytes));
}

/* Covers the view's elements with the guard pattern, so that the whole base must be pattern. */
static void cover_view(const guarded_tensor *tensor, unsigned char *bytes, size_t size) {
  const compute_shape shape = compute_tensor_shape(tensor->view);
  const int64_t count = compute_tensor_count(tensor->view);
  for (int64_t i = 0; i < count; i++) {
    int64_t rest = i, element = tensor->first;
    for (int32_t axis = shape.rank - 1; axis >= 0; axis--) {
      element += rest % shape.size[axis] * compute_tensor_stride(tensor->view, axis);
      rest /= shape.size[axis];
    }
    memset(bytes + (size_t)element * size, GUARD_BYTE, size);
  }
}

bool guarded_is_intact(const guarded_tensor *tensor) {
  const size_t size = compute_dtype_size(compute_tensor_dtype(tensor->base));
  const size_t total = (size_t)compute_tensor_count(tensor->base) * size;
  unsigned char *bytes = malloc(total);
  assert_non_null(bytes);
  assert_ok(compute_tensor_read(tensor->base, bytes, total));
  cover_view(tensor, bytes, size);
  bool intact = true;
  for (size_t i = 0; i < total && intact; i++) intact = bytes[i] == GUARD_BYTE;
  free(bytes);
  return intact;
}

void guarded_release(guarded_tensor *tensor) {
  compute_tensor_release(tensor->view);
  compute_tensor_release(tensor->base);
  free(tensor->memory);
  *tensor = (guarded_tensor){0};
}
