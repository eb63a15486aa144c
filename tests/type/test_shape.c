/* SPDX-License-Identifier: MIT */
/* Shape and stride arithmetic. The tests walk all elements and compare addresses to check stride
 * calculations. */
#include "support/harness/test.h"

#include <limits.h>
#include <string.h>

#include "core/type/shape.h"
#include "support/harness/values.h"

#define SHAPE(...) COMPUTE_SHAPE(__VA_ARGS__)

/* Address of the element at a row-major position. */
static int64_t address(compute_shape shape, const int64_t *strides, int64_t position) {
  int64_t at = 0;
  for (int32_t i = shape.rank - 1; i >= 0; i--) {
    at += position % shape.size[i] * strides[i];
    position /= shape.size[i];
  }
  return at;
}

/* ---- Counting ------------------------------------------------------------------------------ */

static void counts_multiply(void **state) {
  (void)state;
  int64_t count;
  assert_ok(compute_shape_count(COMPUTE_SCALAR, &count));
  assert_int_equal(count, 1);
  assert_ok(compute_shape_count(SHAPE(3, 0, 5), &count));
  assert_int_equal(count, 0);
  assert_ok(compute_shape_count(SHAPE(2, 3, 5, 7, 1, 1, 1, 11), &count));
  assert_int_equal(count, 2310);
  assert_ok(compute_shape_count(SHAPE(INT64_MAX), &count));
  assert_int_equal(count, INT64_MAX);
}

static void bad_shapes_are_refused(void **state) {
  (void)state;
  int64_t count = 77;
  assert_fails(compute_shape_count(SHAPE(2, -1), &count), COMPUTE_ERROR_SHAPE);
  assert_fails(compute_shape_count((compute_shape){.rank = 9}, &count), COMPUTE_ERROR_SHAPE);
  assert_fails(compute_shape_count((compute_shape){.rank = -1}, &count), COMPUTE_ERROR_SHAPE);
  assert_fails(compute_shape_count((compute_shape){.rank = INT32_MIN}, &count),
               COMPUTE_ERROR_SHAPE);
  int64_t half = INT64_C(1) << 32;
  assert_fails(compute_shape_count(SHAPE(half, half), &count), COMPUTE_ERROR_OVERFLOW);
  assert_fails(compute_shape_count(SHAPE(half, 0, half), &count), COMPUTE_ERROR_OVERFLOW);
  assert_fails(compute_shape_count(SHAPE(2), NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_int_equal(count, 77);
}

static void text_shows_sizes_and_is_cut(void **state) {
  (void)state;
  char text[256];
  assert_string_equal(compute_shape_text(COMPUTE_SCALAR, text, sizeof text), "[]");
  assert_string_equal(compute_shape_text(SHAPE(64, 784), text, sizeof text), "[64,784]");
  assert_string_equal(compute_shape_text(SHAPE(64, 784), text, 5), "[64,");
  assert_string_equal(compute_shape_text((compute_shape){.rank = 12}, text, sizeof text),
                      "[rank 12]");
  text[0] = 'x';
  assert_ptr_equal(compute_shape_text(SHAPE(1), text, 0), text);
  assert_int_equal(text[0], 'x');
  int64_t low = INT64_MIN;
  compute_shape_text(SHAPE(low, low, low, low, low, low, low, low), text, sizeof text);
  assert_int_equal(strlen(text), 8 * 20 + 7 + 2);
}

static void shapes_compare_by_rank_and_sizes(void **state) {
  (void)state;
  compute_shape a = SHAPE(2, 3), b = SHAPE(2, 3);
  b.size[5] = 99; /* past the rank */
  assert_true(compute_shape_equal(a, b));
  assert_false(compute_shape_equal(a, SHAPE(2, 4)));
  assert_false(compute_shape_equal(a, SHAPE(2, 3, 1)));
  assert_false(compute_shape_equal((compute_shape){.rank = 9}, (compute_shape){.rank = 9}));
  b = shape_normalize(b);
  assert_int_equal(memcmp(&a, &b, sizeof a), 0);
}

/* ---- Strides ------------------------------------------------------------------------------- */

static void dense_strides_are_row_major(void **state) {
  (void)state;
  int64_t strides[COMPUTE_MAX_RANK];
  shape_dense_strides(SHAPE(4, 1, 3, 5), strides);
  assert_int_equal(strides[3], 1);
  assert_int_equal(strides[2], 5);
  assert_int_equal(strides[1], 15);
  assert_int_equal(strides[0], 15);
  assert_int_equal(strides[4], 0);
  assert_true(shape_is_dense(SHAPE(4, 1, 3, 5), strides));
  strides[1] = 12345; /* of a size of 1: no effect */
  assert_true(shape_is_dense(SHAPE(4, 1, 3, 5), strides));
  strides[0] = 16;
  assert_false(shape_is_dense(SHAPE(4, 1, 3, 5), strides));
  assert_true(shape_is_dense(SHAPE(4, 1, 0, 5), strides));
  assert_true(shape_is_dense(COMPUTE_SCALAR, strides));
}

static void broadcasting_follows_numpy(void **state) {
  (void)state;
  compute_shape r;
  assert_true(shape_broadcast(SHAPE(8, 1, 6, 1), SHAPE(7, 1, 5), &r));
  assert_true(compute_shape_equal(r, SHAPE(8, 7, 6, 5)));
  assert_true(shape_broadcast(COMPUTE_SCALAR, SHAPE(3), &r));
  assert_true(compute_shape_equal(r, SHAPE(3)));
  assert_true(shape_broadcast(SHAPE(1, 3), SHAPE(0, 1), &r));
  assert_true(compute_shape_equal(r, SHAPE(0, 3)));
  assert_false(shape_broadcast(SHAPE(2), SHAPE(3), &r));
  assert_false(shape_broadcast(SHAPE(2, 0), SHAPE(2, 2), &r));
}

static void broadcast_strides_repeat(void **state) {
  (void)state;
  int64_t strides[COMPUTE_MAX_RANK], result[COMPUTE_MAX_RANK];
  shape_dense_strides(SHAPE(3, 1), strides);
  assert_true(shape_broadcast_strides(SHAPE(3, 1), strides, SHAPE(2, 3, 4), result));
  assert_int_equal(result[0], 0);
  assert_int_equal(result[1], 1);
  assert_int_equal(result[2], 0);
  assert_int_equal(result[3], 0);
  assert_false(shape_broadcast_strides(SHAPE(3, 1), strides, SHAPE(3), result));
  assert_false(shape_broadcast_strides(SHAPE(3, 1), strides, SHAPE(2, 4), result));
  /* In place. */
  assert_true(shape_broadcast_strides(SHAPE(3, 1), strides, SHAPE(2, 3, 4), strides));
  assert_memory_equal(strides, result, sizeof strides);
}

static void axes_count_from_either_end(void **state) {
  (void)state;
  assert_int_equal(shape_axis(3, 0), 0);
  assert_int_equal(shape_axis(3, -1), 2);
  assert_int_equal(shape_axis(3, -3), 0);
  assert_int_equal(shape_axis(3, 3), -1);
  assert_int_equal(shape_axis(3, -4), -1);
  assert_int_equal(shape_axis(0, 0), -1);
  assert_int_equal(shape_axis(8, INT32_MIN), -1);
  uint32_t mask;
  assert_true(shape_axes_mask(4, COMPUTE_AXES(1, -1), &mask));
  assert_int_equal(mask, 0xa);
  assert_true(shape_axes_mask(4, COMPUTE_ALL_AXES, &mask));
  assert_int_equal(mask, 0xf);
  assert_true(shape_axes_mask(0, COMPUTE_ALL_AXES, &mask));
  assert_int_equal(mask, 0);
  assert_false(shape_axes_mask(4, COMPUTE_AXES(1, -3), &mask));
  assert_false(shape_axes_mask(4, COMPUTE_AXES(4), &mask));
  assert_false(shape_axes_mask(4, (compute_axes){.count = -1}, &mask));
  assert_false(shape_axes_mask(4, (compute_axes){.count = 9}, &mask));
}

/* ---- Reshape ------------------------------------------------------------------------------- */

static void check_reshape(compute_shape from, const int64_t *strides, compute_shape to) {
  int64_t result[COMPUTE_MAX_RANK];
  assert_true(shape_reshape_strides(from, strides, to, result));
  for (int64_t i = 0; i < shape_count(from); i++) {
    assert_int_equal(address(from, strides, i), address(to, result, i));
  }
}

static void reshape_keeps_every_element(void **state) {
  (void)state;
  int64_t dense[COMPUTE_MAX_RANK];
  shape_dense_strides(SHAPE(4, 6), dense);
  check_reshape(SHAPE(4, 6), dense, SHAPE(24));
  check_reshape(SHAPE(4, 6), dense, SHAPE(2, 12));
  check_reshape(SHAPE(4, 6), dense, SHAPE(1, 3, 1, 8, 1));
  check_reshape(SHAPE(4, 6), dense, SHAPE(2, 2, 3, 2));
  shape_dense_strides(SHAPE(1, 1), dense);
  check_reshape(SHAPE(1, 1), dense, COMPUTE_SCALAR);
  check_reshape(COMPUTE_SCALAR, dense, SHAPE(1, 1, 1));
  /* Rows with gaps: a dimension can be split, but not merged over the gap. */
  int64_t gaps[COMPUTE_MAX_RANK] = {10, 1}, result[COMPUTE_MAX_RANK];
  check_reshape(SHAPE(4, 6), gaps, SHAPE(2, 2, 6));
  check_reshape(SHAPE(4, 6), gaps, SHAPE(4, 3, 2));
  assert_false(shape_reshape_strides(SHAPE(4, 6), gaps, SHAPE(24), result));
  assert_false(shape_reshape_strides(SHAPE(4, 6), gaps, SHAPE(2, 12), result));
  /* A transposed matrix, and a broadcast one. */
  int64_t swapped[COMPUTE_MAX_RANK] = {1, 4}, repeated[COMPUTE_MAX_RANK] = {0, 0};
  assert_false(shape_reshape_strides(SHAPE(4, 6), swapped, SHAPE(24), result));
  check_reshape(SHAPE(4, 6), swapped, SHAPE(2, 2, 6));
  check_reshape(SHAPE(4, 6), repeated, SHAPE(24));
  assert_true(shape_reshape_strides(SHAPE(0, 5), gaps, SHAPE(7, 0), result));
  assert_false(shape_reshape_strides(SHAPE(4, 6), gaps, SHAPE(25), result));
}

/* ---- Collapse ------------------------------------------------------------------------------ */

/* Collapses a random space with random operands and walks both forms. */
static void check_collapse(test_random *random) {
  int32_t rank = (int32_t)test_random_integer(random, 0, 6);
  compute_shape before = {.rank = rank}, after;
  int64_t strides[3][COMPUTE_MAX_RANK] = {{0}}, collapsed[3][COMPUTE_MAX_RANK];
  for (int32_t i = 0; i < rank; i++)
    before.size[i] = test_random_integer(random, 0, 9) ? test_random_integer(random, 1, 3) : 0;
  for (int k = 0; k < 3; k++) {
    shape_dense_strides(before, strides[k]);
    int64_t factor = test_random_integer(random, 1, 2);
    for (int32_t i = 0; i < rank; i++) {
      strides[k][i] *= factor;
      if (test_random_integer(random, 0, 4) == 0)
        strides[k][i] = test_random_integer(random, 0, 1) * 50;
    }
  }
  int32_t fence = (int32_t)test_random_integer(random, 0, rank), new_fence = fence;
  after = before;
  memcpy(collapsed, strides, sizeof strides);
  after.rank = shape_collapse(rank, after.size, collapsed, 3, &new_fence);
  assert_true(after.rank <= rank && new_fence >= 0 && new_fence <= after.rank);
  /* Elements before and after the fence stay separate. */
  int64_t outer_before = 1, outer_after = 1, inner_before = 1, inner_after = 1;
  for (int32_t i = 0; i < rank; i++) *(i < fence ? &outer_before : &inner_before) *= before.size[i];
  for (int32_t i = 0; i < after.rank; i++)
    *(i < new_fence ? &outer_after : &inner_after) *= after.size[i];
  assert_int_equal(outer_before, outer_after);
  assert_int_equal(inner_before, inner_after);
  for (int64_t at = 0; at < shape_count(before); at++) {
    for (int k = 0; k < 3; k++) {
      assert_int_equal(address(before, strides[k], at), address(after, collapsed[k], at));
    }
  }
  for (int32_t i = 0; i < after.rank; i++) assert_int_not_equal(after.size[i], 1);
}

static void collapse_keeps_every_element_on_its_side(void **state) {
  (void)state;
  test_random random = {12345};
  for (int i = 0; i < 20000; i++) check_collapse(&random);
}

static void collapse_merges_all_it_can(void **state) {
  (void)state;
  int64_t size[COMPUTE_MAX_RANK] = {2, 1, 3, 4},
          strides[2][COMPUTE_MAX_RANK] = {{12, 7, 4, 1}, {12, 0, 4, 1}};
  int32_t fence = 0;
  assert_int_equal(shape_collapse(4, size, strides, 2, &fence), 1);
  assert_int_equal(size[0], 24);
  assert_int_equal(strides[0][0], 1);
  int64_t size2[COMPUTE_MAX_RANK] = {2, 3, 4, 5}, strides2[1][COMPUTE_MAX_RANK] = {{60, 20, 5, 1}};
  fence = 2;
  assert_int_equal(shape_collapse(4, size2, strides2, 1, &fence), 2);
  assert_int_equal(fence, 1);
  assert_int_equal(size2[0], 6);
  assert_int_equal(size2[1], 20);
  int64_t ones[COMPUTE_MAX_RANK] = {1, 1}, strides3[1][COMPUTE_MAX_RANK] = {{5, 9}};
  fence = 1;
  assert_int_equal(shape_collapse(2, ones, strides3, 1, &fence), 0);
  assert_int_equal(fence, 0);
}

static void collapse_survives_extreme_strides(void **state) {
  (void)state;
  int64_t size[COMPUTE_MAX_RANK] = {0, 3}, strides[1][COMPUTE_MAX_RANK] = {{1, INT64_MAX}};
  int32_t fence = 0;
  assert_int_equal(shape_collapse(2, size, strides, 1, &fence), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_multiply),
      cmocka_unit_test(bad_shapes_are_refused),
      cmocka_unit_test(text_shows_sizes_and_is_cut),
      cmocka_unit_test(shapes_compare_by_rank_and_sizes),
      cmocka_unit_test(dense_strides_are_row_major),
      cmocka_unit_test(broadcasting_follows_numpy),
      cmocka_unit_test(broadcast_strides_repeat),
      cmocka_unit_test(axes_count_from_either_end),
      cmocka_unit_test(reshape_keeps_every_element),
      cmocka_unit_test(collapse_keeps_every_element_on_its_side),
      cmocka_unit_test(collapse_merges_all_it_can),
      cmocka_unit_test(collapse_survives_extreme_strides),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
