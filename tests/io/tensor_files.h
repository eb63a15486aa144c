/* SPDX-License-Identifier: MIT */
/* Shared helpers of the tests of named tensor files. */
#ifndef IO_TENSOR_FILES_H
#define IO_TENSOR_FILES_H

#include "support/harness/test.h"

#include <stdlib.h>
#include <string.h>

#define SAFE TEST_SCRATCH_DIR "/weights.safetensors"
#define NPZ  TEST_SCRATCH_DIR "/weights.npz"

static inline void write_bytes(const char *path, const void *bytes, size_t count) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  if (count > 0) assert_int_equal(fwrite(bytes, 1, count, file), count);
  assert_int_equal(fclose(file), 0);
}

static inline unsigned char *read_bytes(const char *path, size_t *count) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  unsigned char *bytes = calloc(1, 1 << 20);
  *count = fread(bytes, 1, 1 << 20, file);
  fclose(file);
  return bytes;
}

static inline compute_device *device(void) {
  return compute_default_device(test_context);
}

static inline compute_tensor_file *open_file(const char *path) {
  compute_tensor_file *file;
  assert_ok(compute_tensor_file_open(test_context, path, &file));
  return file;
}

static inline void assert_refused(const char *path, compute_status expected, const char *part) {
  compute_tensor_file *file = (compute_tensor_file *)test_context;
  assert_fails(compute_tensor_file_open(test_context, path, &file), expected);
  assert_null(file);
  test_check_message(test_context, part);
  test_check_message(test_context, "weights.");
}

static inline void assert_stored(const compute_tensor_file *file, const char *name,
                                 compute_dtype dtype, compute_shape shape, const void *expected,
                                 size_t bytes) {
  unsigned char actual[512];
  size_t index = compute_tensor_file_find(file, name);
  compute_tensor_file_entry entry;
  compute_tensor *tensor;
  assert_ok(compute_tensor_file_at(file, index, &entry));
  assert_string_equal(entry.name, name);
  assert_int_equal(entry.dtype, dtype);
  assert_true(compute_shape_equal(entry.shape, shape));
  assert_int_equal(entry.bytes, bytes);
  assert_ok(compute_tensor_file_read(file, index, device(), &tensor));
  assert_int_equal(compute_tensor_dtype(tensor), dtype);
  assert_true(compute_shape_equal(compute_tensor_shape(tensor), shape));
  assert_ok(compute_tensor_read(tensor, actual, bytes));
  assert_memory_equal(actual, expected, bytes);
  compute_tensor_release(tensor);
}

#endif
