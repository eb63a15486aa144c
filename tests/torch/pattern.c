/* SPDX-License-Identifier: MIT */
/* Shared code of values.cpp and test_values.c: the pattern, and lookups in the file. */
#include "pattern.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096, FILE_MOST = 1024 };

static compute_tensor_file *file;
static bool seen[FILE_MOST];
static double values[MOST];

double torch_pattern(int64_t index, int64_t salt) {
  return (double)((index * 7919 + salt * 104729) % 509) / 254.5 - 1;
}

static size_t count_of(compute_shape shape) {
  int64_t count = 0;
  assert_ok(compute_shape_count(shape, &count));
  assert_true(count <= MOST);
  return (size_t)count;
}

compute_tensor *torch_numbers(compute_shape shape, int64_t salt, double scale, double shift) {
  double numbers[MOST];
  for (size_t i = 0; i < count_of(shape); i++)
    numbers[i] = torch_pattern((int64_t)i, salt) * scale + shift;
  return test_tensor(test_context, COMPUTE_F64, shape, numbers);
}

compute_tensor *torch_labels(compute_shape shape, int64_t salt, int64_t classes) {
  int64_t labels[MOST];
  for (int64_t i = 0; i < (int64_t)count_of(shape); i++)
    labels[i] = (i * 5 + i * i + salt) % classes;
  return test_tensor(test_context, COMPUTE_I64, shape, labels);
}

static void fill(const compute_layer_parameter *p, int64_t salt, double scale, double shift) {
  compute_tensor *numbers = torch_numbers(compute_tensor_shape(p->tensor), salt, scale, shift);
  if (compute_tensor_dtype(p->tensor) == COMPUTE_F64) {
    assert_ok(compute_tensor_copy(p->tensor, numbers));
  } else {
    float narrow[MOST];
    const size_t count = count_of(compute_tensor_shape(p->tensor));
    assert_int_equal(compute_tensor_dtype(p->tensor), COMPUTE_F32);
    for (size_t i = 0; i < count; i++) narrow[i] = (float)test_element(numbers, (int64_t)i);
    assert_ok(compute_tensor_write(p->tensor, narrow, count * sizeof *narrow));
  }
  compute_tensor_release(numbers);
}

static bool ends_in(const char *text, const char *end) {
  const size_t length = strlen(text), wanted = strlen(end);
  return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

void torch_fill(const compute_layer *layer, double scale) {
  for (size_t i = 0; i < compute_layer_parameter_count(layer); i++) {
    compute_layer_parameter p;
    assert_ok(compute_layer_parameter_at(layer, i, &p));
    const bool variance = ends_in(p.name, "running_var");
    if (ends_in(p.name, "num_batches_tracked")) continue;
    fill(&p, 10 + (int64_t)i, variance ? 0.5 : scale, variance ? 1.5 : 0);
  }
}

/* ---- The file ------------------------------------------------------------------------------ */

int torch_open(void **state) {
  const char *given = getenv("COMPUTE_TORCH_VALUES");
  const char *path = given ? given : TEST_SOURCE_DIR "/tests/torch/values.safetensors";
  if (test_group_open(state) != 0) return -1;
  if (compute_tensor_file_open(test_context, path, &file) == COMPUTE_OK &&
      compute_tensor_file_count(file) <= FILE_MOST)
    return 0;
  print_error("%s: %s\n", path, compute_error_message(test_context));
  return -1;
}

int torch_close(void **state) {
  compute_tensor_file_close(file);
  return test_group_close(state);
}

static const double *look_up(compute_shape shape, const char *name) {
  const size_t index = compute_tensor_file_find(file, name);
  compute_tensor_file_entry entry;
  compute_tensor *tensor;
  char a[176], b[176];
  if (index == compute_tensor_file_count(file)) fail_msg("there is no value \"%s\"", name);
  seen[index] = true;
  assert_ok(compute_tensor_file_at(file, index, &entry));
  if (!compute_shape_equal(entry.shape, shape))
    fail_msg("%s is %s for PyTorch, %s for libcompute", name,
             compute_shape_text(entry.shape, a, sizeof a), compute_shape_text(shape, b, sizeof b));
  assert_ok(compute_tensor_file_read(file, index, compute_default_device(test_context), &tensor));
  assert_ok(compute_tensor_read(tensor, values, count_of(shape) * sizeof *values));
  compute_tensor_release(tensor);
  return values;
}

const double *torch_expected(compute_shape shape, const char *format, ...) {
  char name[128];
  va_list list;
  va_start(list, format);
  vsnprintf(name, sizeof name, format, list);
  va_end(list);
  return look_up(shape, name);
}

void torch_compare(const compute_tensor *actual, double tolerance, const char *format, ...) {
  char name[128];
  va_list list;
  va_start(list, format);
  vsnprintf(name, sizeof name, format, list);
  va_end(list);
  const compute_shape shape = compute_tensor_shape(actual);
  const double *expected = look_up(shape, name);
  const int64_t count = (int64_t)count_of(shape);
  double largest = 0;
  for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(expected[i]));
  for (int64_t i = 0; i < count; i++) {
    const double is = test_element(actual, i);
    if (!(fabs(is - expected[i]) <= tolerance * largest))
      fail_msg("%s[%lld] is %.17g for PyTorch, %.17g for libcompute", name, (long long)i,
               expected[i], is);
  }
}

void torch_fail_unseen(bool training) {
  for (size_t i = 0; i < compute_tensor_file_count(file); i++) {
    compute_tensor_file_entry entry;
    assert_ok(compute_tensor_file_at(file, i, &entry));
    if (seen[i] || (strncmp(entry.name, "train.", 6) == 0) != training) continue;
    fail_msg("nothing has been compared with \"%s\"", entry.name);
  }
}

/* ---- Parts of networks --------------------------------------------------------------------- */

compute_layer *torch_conv(int64_t inputs, int64_t outputs, int64_t kernel,
                          compute_conv2d_layer_options o) {
  if (o.weights.dtype == 0) o.weights.dtype = COMPUTE_F64;
  return compute_conv2d_layer(compute_default_device(test_context), inputs, outputs, kernel, &o);
}

compute_layer *torch_residual(compute_dtype dtype, bool shortcut) {
  const compute_weights_options w = {.dtype = dtype}, plain = {.dtype = dtype, .no_bias = true};
  compute_device *device = compute_default_device(test_context);
  const compute_norm_options n = {.dtype = dtype};
  compute_layer *body = compute_sequential(
      (compute_layer *[]){
          torch_conv(4, 4, 3, (compute_conv2d_layer_options){.weights = plain, .padding = {1}}),
          compute_batch_norm_layer(device, 4, &n), compute_activation(COMPUTE_RELU),
          torch_conv(4, 4, 3,
                     (compute_conv2d_layer_options){.weights = w, .padding = {1}, .groups = 2})},
      4);
  if (!shortcut) return compute_residual(body, compute_identity());
  return compute_residual(
      body,
      compute_sequential(
          (compute_layer *[]){torch_conv(4, 4, 1, (compute_conv2d_layer_options){.weights = plain}),
                              compute_batch_norm_layer(device, 4, &n)},
          2));
}
