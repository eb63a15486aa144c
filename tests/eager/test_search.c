/* SPDX-License-Identifier: MIT */
/* unique, unique_slices and nonzero for every dtype: numbers, special values, empty and rank-8 tensors, views, and
 * results that the caller does not want. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/eager_array.h"
#include "support/harness/test.h"
#include "support/harness/values.h"

static const compute_dtype dtypes[] = {
    COMPUTE_F16, COMPUTE_BF16, COMPUTE_F32, COMPUTE_F64, COMPUTE_BOOL, COMPUTE_I8, COMPUTE_I16,
    COMPUTE_I32, COMPUTE_I64,  COMPUTE_U8,  COMPUTE_U16, COMPUTE_U32,  COMPUTE_U64};
enum { DTYPES = sizeof dtypes / sizeof *dtypes, MOST = 700 };

static bool is_float(compute_dtype dtype) {
  return !test_is_integer(dtype) && dtype != COMPUTE_BOOL;
}

/* −1, 0 or 1; NaN is after all numbers, and equal to itself. */
static int order(const test_values *v, int64_t a, int64_t b) {
  if (!is_float(v->dtype)) {
    const size_t size = v->bytes / (size_t)v->count;
    const char *data = v->data;
    const int64_t x = test_integer_get(v->dtype, data + size * (size_t)a);
    const int64_t y = test_integer_get(v->dtype, data + size * (size_t)b);
    if (v->dtype == COMPUTE_U64) return ((uint64_t)x > (uint64_t)y) - ((uint64_t)x < (uint64_t)y);
    return (x > y) - (x < y);
  }
  const double x = test_values_get(v, a), y = test_values_get(v, b);
  if (isnan(x) || isnan(y)) return (isnan(x) != 0) - (isnan(y) != 0);
  return (x > y) - (x < y);
}

static int64_t integer_at(const compute_tensor *tensor, int64_t i) {
  return (int64_t)test_element(tensor, i);
}

/* Every element is found under its number; the distinct ones ascend. */
static void check_unique(const test_values *v, const compute_tensor *x) {
  compute_tensor *values, *first, *inverse, *counts, *alone;
  assert_ok(compute_tensor_unique(x, &values, &first, &inverse, &counts));
  const int64_t found = compute_tensor_count(values);
  int64_t *seen = calloc((size_t)v->count + 1, sizeof *seen);
  assert_non_null(seen);
  assert_int_equal(compute_tensor_dtype(values), v->dtype);
  assert_int_equal(compute_tensor_shape(values).rank, 1);
  assert_int_equal(compute_tensor_count(first), found);
  assert_int_equal(compute_tensor_count(counts), found);
  assert_int_equal(compute_tensor_count(inverse), v->count);
  for (int64_t i = 0; i < v->count; i++) {
    const int64_t number = integer_at(inverse, i);
    assert_in_range(number, 0, found - 1);
    const int64_t at = integer_at(first, number);
    assert_int_equal(order(v, at, i), 0);
    assert_true(at <= i);
    seen[number]++;
  }
  for (int64_t k = 0; k < found; k++) {
    const int64_t at = integer_at(first, k);
    const double is = test_element(values, k), was = test_values_get(v, at);
    assert_int_equal(seen[k], integer_at(counts, k));
    assert_true(is == was || (isnan(is) && isnan(was)));
    if (k > 0) assert_int_equal(order(v, integer_at(first, k - 1), at), -1);
  }
  assert_ok(compute_tensor_unique(x, &alone, NULL, NULL, NULL));
  assert_int_equal(compute_tensor_count(alone), found);
  compute_tensor *const made[] = {values, first, inverse, counts, alone};
  for (int i = 0; i < 5; i++) compute_tensor_release(made[i]);
  free(seen);
}

/* −1, 0 or 1: two slices in the order of their first different element. */
static int slice_order(const test_values *v, int32_t axis, int64_t a, int64_t b) {
  int64_t outer = 1, inner = 1, along = v->shape.size[axis];
  for (int32_t i = 0; i < v->shape.rank; i++)
    if (i != axis) *(i < axis ? &outer : &inner) *= v->shape.size[i];
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++) {
      const int found = order(v, (o * along + a) * inner + i, (o * along + b) * inner + i);
      if (found != 0) return found;
    }
  return 0;
}

/* Every slice is found under its number; the distinct ones ascend; the values are slices of x. */
static void check_slices(const test_values *v, const compute_tensor *x, int32_t axis) {
  compute_tensor *values, *first, *inverse, *counts, *taken;
  const int64_t along = v->shape.size[axis];
  const int32_t given = axis % 2 ? axis - v->shape.rank : axis;
  assert_ok(compute_tensor_unique_slices(x, given, &values, &first, &inverse, &counts));
  const int64_t found = compute_tensor_count(first);
  int64_t *seen = calloc((size_t)along + 1, sizeof *seen);
  assert_non_null(seen);
  assert_int_equal(compute_tensor_shape(values).size[axis], found);
  assert_int_equal(compute_tensor_count(counts), found);
  assert_int_equal(compute_tensor_count(inverse), along);
  for (int64_t i = 0; i < along; i++) {
    const int64_t number = integer_at(inverse, i);
    assert_in_range(number, 0, found - 1);
    assert_int_equal(slice_order(v, axis, integer_at(first, number), i), 0);
    assert_true(integer_at(first, number) <= i);
    seen[number]++;
  }
  for (int64_t k = 0; k < found; k++) {
    assert_int_equal(seen[k], integer_at(counts, k));
    if (k == 0) continue;
    assert_int_equal(slice_order(v, axis, integer_at(first, k - 1), integer_at(first, k)), -1);
  }
  assert_ok(compute_tensor_gather(x, first, axis, &taken));
  assert_true(compute_shape_equal(compute_tensor_shape(values), compute_tensor_shape(taken)));
  for (int64_t i = 0; i < compute_tensor_count(taken); i++) {
    const double is = test_element(values, i), was = test_element(taken, i);
    assert_true(is == was || (isnan(is) && isnan(was)));
  }
  compute_tensor *const made[] = {values, first, inverse, counts, taken};
  for (int i = 0; i < 5; i++) compute_tensor_release(made[i]);
  free(seen);
}

static void check_nonzero(const test_values *v, const compute_tensor *x) {
  compute_tensor *places;
  const compute_shape shape = v->shape.rank ? v->shape : COMPUTE_SHAPE(1);
  assert_ok(compute_tensor_nonzero(x, &places));
  const int64_t found = compute_tensor_shape(places).size[1];
  int64_t k = 0;
  assert_int_equal(compute_tensor_shape(places).size[0], shape.rank);
  for (int64_t i = 0; i < v->count; i++) {
    if (test_values_get(v, i) == 0) continue;
    int64_t rest = i;
    for (int32_t axis = shape.rank - 1; axis >= 0; axis--) {
      assert_true(k < found && integer_at(places, axis * found + k) == rest % shape.size[axis]);
      rest /= shape.size[axis];
    }
    k++;
  }
  assert_int_equal(k, found);
  compute_tensor_release(places);
}

static void check_shape(compute_dtype dtype, compute_shape shape, test_fill fill, uint64_t seed) {
  test_values v = test_values_create(dtype, shape);
  test_values_fill(&v, fill, is_float(dtype) || test_is_unsigned(dtype) ? 0 : -9, 9, seed);
  if (dtype == COMPUTE_BOOL)
    for (int64_t i = 0; i < v.count; i++) test_values_set(&v, i, i % 3 == 0);
  for (int64_t i = 0; i < v.count; i += 3) /* whole numbers repeat, zeros among them */
    if (is_float(dtype) && fill == FILL_RANGE) test_values_set(&v, i, (double)(i % 5) - 2);
  compute_tensor *x = test_tensor(test_context, dtype, shape, v.data);
  check_unique(&v, x);
  check_nonzero(&v, x);
  compute_tensor_release(x);
  test_values_release(&v);
}

static void every_dtype_is_searched(void **state) {
  (void)state;
  const compute_shape shapes[] = {COMPUTE_SCALAR,
                                  COMPUTE_SHAPE(1),
                                  COMPUTE_SHAPE(0, 4),
                                  COMPUTE_SHAPE(MOST),
                                  COMPUTE_SHAPE(2, 1, 3, 1, 2, 1, 2, 3),
                                  COMPUTE_SHAPE(MOST / 21, 3, 7)};
  for (int d = 0; d < DTYPES; d++)
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
      check_shape(dtypes[d], shapes[k], FILL_RANGE, 7 * (uint64_t)d + k + 1);
      if (dtypes[d] != COMPUTE_BOOL) check_shape(dtypes[d], shapes[k], FILL_SPECIAL, k + 50);
    }
}

/* Rows around the length from which each is searched by itself, in several tasks. */
static void short_rows_are_searched_together(void **state) {
  (void)state;
  const compute_shape shapes[] = {COMPUTE_SHAPE(9001, 2), COMPUTE_SHAPE(300, 1, 63),
                                  COMPUTE_SHAPE(3, 100, 64), COMPUTE_SHAPE(5, 1, 1021, 1, 4)};
  for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
    test_values v = test_values_create(COMPUTE_I8, shapes[k]);
    for (int64_t i = 0; i < v.count; i++) test_values_set(&v, i, i * i % 7 < 3);
    compute_tensor *x = test_tensor(test_context, COMPUTE_I8, shapes[k], v.data);
    check_nonzero(&v, x);
    compute_tensor_release(x);
    test_values_release(&v);
  }
}

/* Every second column, in another order of the axes. */
static void views_are_searched_in_their_own_order(void **state) {
  (void)state;
  const float data[] = {5, 9, 0, 9, 2, 9, 2, 9, 5, 9, 1, 9};
  const float wanted[] = {5, 2, 0, 5, 2, 1};
  compute_tensor *x = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 6), data);
  compute_tensor *columns, *turned;
  assert_ok(compute_tensor_slice_view(x, 1, 0, 3, 2, &columns));
  assert_ok(compute_tensor_transpose_view(columns, COMPUTE_AXES(1, 0), &turned));
  test_values v = test_values_create(COMPUTE_F32, COMPUTE_SHAPE(3, 2));
  memcpy(v.data, wanted, sizeof wanted);
  check_unique(&v, turned);
  check_nonzero(&v, turned);
  test_values_release(&v);
  compute_tensor_release(turned);
  compute_tensor_release(columns);
  compute_tensor_release(x);
}

/* Small numbers, so that slices repeat. */
static void slices_of_every_axis_are_searched(void **state) {
  (void)state;
  const compute_shape shapes[] = {COMPUTE_SHAPE(40, 2), COMPUTE_SHAPE(2, 30, 2),
                                  COMPUTE_SHAPE(3, 0), COMPUTE_SHAPE(0, 3),
                                  COMPUTE_SHAPE(2, 1, 3, 1, 2, 1, 2, 3)};
  for (int d = 0; d < DTYPES; d++)
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
      for (int special = 0; special < (dtypes[d] == COMPUTE_BOOL ? 1 : 2); special++) {
        test_values v = test_values_create(dtypes[d], shapes[k]);
        test_values_fill(&v, special ? FILL_SPECIAL : FILL_RANGE, 0, 1, 11 + k);
        for (int64_t i = 0; i < v.count; i++)
          if (!special) test_values_set(&v, i, test_values_get(&v, i) >= 0.5);
        compute_tensor *x = test_tensor(test_context, dtypes[d], shapes[k], v.data);
        for (int32_t axis = 0; axis < shapes[k].rank; axis++) check_slices(&v, x, axis);
        compute_tensor_release(x);
        test_values_release(&v);
      }
}

static void mistakes_write_nothing(void **state) {
  (void)state;
  compute_tensor *x = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2), (float[]){1, 2});
  compute_tensor *result = x;
  assert_fails(compute_tensor_unique(NULL, &result, NULL, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_unique(x, NULL, &result, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_unique_slices(NULL, 0, &result, NULL, NULL, NULL),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_unique_slices(x, 0, NULL, NULL, NULL, NULL),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_unique_slices(x, 1, &result, NULL, NULL, NULL), COMPUTE_ERROR_SHAPE);
  assert_fails(compute_tensor_unique_slices(x, -2, &result, NULL, NULL, NULL), COMPUTE_ERROR_SHAPE);
  assert_fails(compute_tensor_nonzero(NULL, &result), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_nonzero(x, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_ptr_equal(result, x);
  compute_tensor_release(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_dtype_is_searched),
      cmocka_unit_test(slices_of_every_axis_are_searched),
      cmocka_unit_test(short_rows_are_searched_together),
      cmocka_unit_test(views_are_searched_in_their_own_order),
      cmocka_unit_test(mistakes_write_nothing),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
