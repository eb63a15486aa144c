/* SPDX-License-Identifier: MIT */
/* Tensors with one value and with random numbers: the same on every device. */
#include "support/harness/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/type/dtype.h"
#include "core/base/random.h"

/* Sizes filled on the host or by a kernel, with tails of every vector width. */
static const int64_t counts[] = {0, 1, 7, 300, 5003, 100003};
#define COUNTS (sizeof counts / sizeof *counts)

static char *read_all(compute_tensor *tensor) {
  size_t bytes =
      (size_t)compute_tensor_count(tensor) * compute_dtype_size(compute_tensor_dtype(tensor));
  char *data = malloc(bytes + 1);
  assert_ok(compute_tensor_read(tensor, data, bytes));
  return data;
}

/* ---- One value ----------------------------------------------------------------------------- */

static void check_full(compute_device *device, compute_dtype dtype, double value) {
  char element[8];
  size_t size = compute_dtype_size(dtype);
  dtype_store(dtype, element, value);
  for (size_t k = 0; k < COUNTS; k++) {
    compute_tensor *tensor;
    const compute_status status =
        compute_tensor_full(device, dtype, COMPUTE_SHAPE(counts[k]), value, &tensor);
    assert_int_equal(status,
                     dtype_holds(dtype, value) ? COMPUTE_OK : COMPUTE_ERROR_INVALID_ARGUMENT);
    if (status) continue;
    char *data = read_all(tensor);
    for (int64_t i = 0; i < counts[k]; i++) {
      if (isnan(value) && dtype_is_float(dtype)) {
        assert_true(isnan(dtype_load(dtype, data + (size_t)i * size)));
      } else {
        assert_memory_equal(data + (size_t)i * size, element, size);
      }
    }
    free(data);
    compute_tensor_release(tensor);
  }
}

static void every_element_is_the_value(void **state) {
  (void)state;
  static const double values[] = {0, -0.0, 1, -2.5, 300, 1e30, NAN, -INFINITY, 0.1};
  compute_device *device;
  for (size_t i = 0; (device = compute_device_at(test_context, i)); i++) {
    for (int dtype = COMPUTE_F64; dtype <= COMPUTE_BOOL; dtype++) {
      for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
        check_full(device, (compute_dtype)dtype, values[k]);
      }
    }
  }
}

/* ---- Random numbers ------------------------------------------------------------------------ */

/* Random123's known answers for Philox4x32-10. */
static void philox_gives_the_published_numbers(void **state) {
  (void)state;
  uint32_t word0, word1;
  random_words(0, 0, 0, &word0, &word1);
  assert_int_equal(word0, 0x6627e8d5);
  assert_int_equal(word1, 0xe169c58d);
}

static void element_by_formula(compute_dtype dtype, double low, double high, uint64_t seed,
                               int64_t index, void *element) {
  char bounds[8];
  dtype_store(dtype, bounds, low);
  low = dtype_load(dtype, bounds);
  dtype_store(dtype, bounds, high);
  high = dtype_load(dtype, bounds);
  if (dtype == COMPUTE_F64) {
    double product = random_f64(seed, (uint64_t)index, 0) * (high - low);
    dtype_store(dtype, element, low + product);
  } else {
    float scale = (float)high - (float)low;
    float product = random_f32(seed, (uint64_t)index, 0) * scale;
    float sum = (float)low + product;
    dtype_store(dtype, element, (double)sum);
  }
}

static void check_random(compute_device *device, compute_dtype dtype, double low, double high,
                         uint64_t seed) {
  size_t size = compute_dtype_size(dtype);
  for (size_t k = 0; k < COUNTS; k++) {
    compute_tensor *tensor;
    assert_ok(
        compute_tensor_random(device, dtype, COMPUTE_SHAPE(counts[k]), low, high, seed, &tensor));
    char *data = read_all(tensor), expected[8];
    for (int64_t i = 0; i < counts[k]; i++) {
      element_by_formula(dtype, low, high, seed, i, expected);
      /* If rounding would reach the upper bound, the result is the number before the bound. */
      if (dtype_load(dtype, expected) < high) {
        assert_memory_equal(data + (size_t)i * size, expected, size);
      }
      double value = dtype_load(dtype, data + (size_t)i * size);
      assert_true(value < high || low == high);
    }
    free(data);
    compute_tensor_release(tensor);
  }
}

static void random_numbers_depend_on_seed_and_index_alone(void **state) {
  (void)state;
  static const compute_dtype floats[] = {COMPUTE_F64, COMPUTE_F32, COMPUTE_F16, COMPUTE_BF16};
  compute_device *device;
  for (size_t i = 0; (device = compute_device_at(test_context, i)); i++) {
    for (size_t k = 0; k < 4; k++) {
      check_random(device, floats[k], 0, 1, 0);
      check_random(device, floats[k], -1, 1, 42);
      check_random(device, floats[k], 1, 2, UINT64_MAX);
      check_random(device, floats[k], -3.5, -0.25, 0x123456789abcdef0);
    }
  }
}

static void random_numbers_stay_in_their_range(void **state) {
  (void)state;
  compute_device *device;
  for (size_t i = 0; (device = compute_device_at(test_context, i)); i++) {
    compute_tensor *tensor;
    const int64_t count = 200000;
    /* In bf16 a uniform number next to 1 rounds up; high must not appear. */
    assert_ok(
        compute_tensor_random(device, COMPUTE_BF16, COMPUTE_SHAPE(count), -1, 0.5, 7, &tensor));
    char *data = read_all(tensor);
    double sum = 0;
    for (int64_t k = 0; k < count; k++) {
      double value = dtype_load(COMPUTE_BF16, data + 2 * k);
      assert_true(value >= -1 && value < 0.5);
      sum += value;
    }
    assert_true(fabs(sum / (double)count + 0.25) < 0.005);
    free(data);
    compute_tensor_release(tensor);
  }
}

static void impossible_ranges_are_refused(void **state) {
  (void)state;
  compute_device *device = compute_default_device(test_context);
  compute_tensor *tensor;
  static const double ranges[][2] = {{1, 1},         {2, 1},        {NAN, 1},      {0, NAN},
                                     {-INFINITY, 0}, {0, INFINITY}, {-3e38, 3e38}, {0, 1e39}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    assert_fails(compute_tensor_random(device, COMPUTE_F32, COMPUTE_SHAPE(3), ranges[i][0],
                                       ranges[i][1], 1, &tensor),
                 COMPUTE_ERROR_INVALID_ARGUMENT);
    assert_null(tensor);
  }
  assert_fails(compute_tensor_random(device, COMPUTE_I32, COMPUTE_SHAPE(3), 0, 1, 1, &tensor),
               COMPUTE_ERROR_DTYPE);
  assert_fails(compute_tensor_random(NULL, COMPUTE_F32, COMPUTE_SHAPE(3), 0, 1, 1, &tensor),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(-3), 0, &tensor),
               COMPUTE_ERROR_SHAPE);
  assert_fails(compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(3), 0, NULL),
               COMPUTE_ERROR_NULL_POINTER);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_element_is_the_value),
      cmocka_unit_test(philox_gives_the_published_numbers),
      cmocka_unit_test(random_numbers_depend_on_seed_and_index_alone),
      cmocka_unit_test(random_numbers_stay_in_their_range),
      cmocka_unit_test(impossible_ranges_are_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
