/* SPDX-License-Identifier: MIT */
/* For test_weights.py: writes a known file of named tensors, or prints the tensors of a file.
 *
 *   weights_tool write FILE      weights_tool read FILE */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/compute.h"

static compute_context *context;

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, compute_error_message(context));
  return 1;
}

/* Element i of tensor t is 7 t + i, as far as the dtype can represent it; bool: odd. */
static int write_file(const char *path) {
  static const struct {
    const char *name;
    compute_dtype dtype;
    compute_shape shape;
  } all[] = {{"0.weight", COMPUTE_F32, {2, {3, 4}}},  {"0.bias", COMPUTE_F64, {1, {5}}},
             {"größe \"\\\t", COMPUTE_I64, {0, {0}}}, {"i32", COMPUTE_I32, {3, {2, 1, 3}}},
             {"u16", COMPUTE_U16, {1, {3}}},          {"i8", COMPUTE_I8, {1, {2}}},
             {"i16", COMPUTE_I16, {1, {2}}},          {"u32", COMPUTE_U32, {1, {2}}},
             {"u64", COMPUTE_U64, {1, {2}}},          {"u8", COMPUTE_U8, {1, {1}}},
             {"bool", COMPUTE_BOOL, {1, {3}}},        {"f16", COMPUTE_F16, {2, {2, 2}}},
             {"empty", COMPUTE_F32, {2, {0, 3}}},     {"large", COMPUTE_F32, {1, {300000}}}};
  enum { COUNT = sizeof all / sizeof *all };
  compute_named_tensor tensors[COUNT];
  compute_tensor *made[COUNT] = {NULL};
  int result = 0;
  for (size_t t = 0; t < COUNT && !result; t++) {
    int64_t count;
    compute_tensor *wide = NULL;
    double *values = NULL;
    if (compute_shape_count(all[t].shape, &count)) result = fail("shape");
    values = malloc((size_t)(count + 1) * sizeof *values);
    for (int64_t i = 0; i < count; i++) {
      values[i] = all[t].dtype == COMPUTE_BOOL ? (double)((7 * (int64_t)t + i) & 1)
                                               : 7.0 * (double)t + (double)i;
    }
    compute_device *device = compute_default_device(context);
    if (compute_tensor_from_host(device, COMPUTE_F64, all[t].shape, values, &wide) ||
        compute_tensor_create(device, all[t].dtype, all[t].shape, &made[t]) ||
        compute_tensor_copy(made[t], wide)) {
      result = fail("tensor");
    }
    compute_tensor_release(wide);
    free(values);
    tensors[t] = (compute_named_tensor){all[t].name, made[t]};
  }
  if (!result && compute_tensor_file_write(context, path, tensors, COUNT)) result = fail("write");
  for (size_t t = 0; t < COUNT; t++) compute_tensor_release(made[t]);
  return result;
}

/* A line for each tensor: dtype, shape, bytes in hexadecimal, name. */
static int print_tensor(const compute_tensor_file *file, size_t index) {
  compute_tensor_file_entry entry;
  compute_tensor *tensor;
  char shape[200];
  if (compute_tensor_file_at(file, index, &entry) ||
      compute_tensor_file_read(file, index, compute_default_device(context), &tensor)) {
    return fail("read");
  }
  unsigned char *bytes = malloc(entry.bytes + 1);
  int result = compute_tensor_read(tensor, bytes, entry.bytes) ? fail("tensor") : 0;
  printf("%s %s ", compute_dtype_name(entry.dtype),
         compute_shape_text(entry.shape, shape, sizeof shape));
  for (uint64_t i = 0; i < entry.bytes && !result; i++) printf("%02x", bytes[i]);
  printf(" %s\n", entry.name);
  free(bytes);
  compute_tensor_release(tensor);
  return result;
}

static int read_file(const char *path) {
  compute_tensor_file *file;
  if (compute_tensor_file_open(context, path, &file)) return fail("open");
  int result = 0;
  for (size_t i = 0; i < compute_tensor_file_count(file) && !result; i++) {
    result = print_tensor(file, i);
  }
  compute_tensor_file_close(file);
  return result;
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  if (compute_open(&context, &(compute_open_options){.backends = "cpu", .device = "cpu"})) {
    return fail("compute_open");
  }
  int result = !strcmp(arguments[1], "write") ? write_file(arguments[2]) : read_file(arguments[2]);
  return compute_close(context) ? fail("compute_close") : result;
}
