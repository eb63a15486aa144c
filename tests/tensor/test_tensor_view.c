/* SPDX-License-Identifier: MIT */
/* Views of tensors on every device, compared with a walk over the whole tensor. */
#include "support/harness/test.h"

#include <stdlib.h>
#include <string.h>

#define COUNT 24

/* A tensor [2,3,4] of 0, 1, 2, … . */
static compute_tensor *numbers(compute_device *device) {
  int32_t data[COUNT];
  compute_tensor *tensor;
  for (int32_t i = 0; i < COUNT; i++) data[i] = i;
  assert_ok(compute_tensor_from_host(device, COMPUTE_I32, COMPUTE_SHAPE(2, 3, 4), data, &tensor));
  return tensor;
}

static void assert_holds(const compute_tensor *tensor, size_t count, const int32_t *expected) {
  int32_t actual[64];
  assert_int_equal(compute_tensor_count(tensor), count);
  assert_ok(compute_tensor_read(tensor, actual, count * sizeof *actual));
  assert_memory_equal(actual, expected, count * sizeof *actual);
}

#define ASSERT_HOLDS(tensor, ...)                                                                  \
  assert_holds(tensor, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t),                         \
               (const int32_t[]){__VA_ARGS__})

static void on_every_device(void (*check)(compute_device *device, compute_tensor *whole)) {
  compute_device *device;
  for (size_t i = 0; (device = compute_device_at(test_context, i)); i++) {
    compute_tensor *whole = numbers(device);
    check(device, whole);
    compute_tensor_release(whole);
  }
}

/* ---- Each kind of view --------------------------------------------------------------------- */

static void check_slices(compute_device *device, compute_tensor *whole) {
  (void)device;
  compute_tensor *rows, *view;
  assert_ok(compute_tensor_slice_view(whole, 1, 1, 2, 1, &rows));
  assert_true(compute_shape_equal(compute_tensor_shape(rows), COMPUTE_SHAPE(2, 2, 4)));
  ASSERT_HOLDS(rows, 4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23);
  assert_ok(compute_tensor_slice_view(rows, -1, 1, 2, 2, &view)); /* a view of a view */
  ASSERT_HOLDS(view, 5, 7, 9, 11, 17, 19, 21, 23);
  compute_tensor_release(rows);
  ASSERT_HOLDS(view, 5, 7, 9, 11, 17, 19, 21, 23);
  int32_t written[8] = {-1, -2, -3, -4, -5, -6, -7, -8};
  assert_ok(compute_tensor_write(view, written, sizeof written));
  ASSERT_HOLDS(whole, 0, 1, 2, 3, 4, -1, 6, -2, 8, -3, 10, -4, 12, 13, 14, 15, 16, -5, 18, -6, 20,
               -7, 22, -8);
  compute_tensor_release(view);
  assert_ok(compute_tensor_slice_view(whole, 0, 2, 0, 5, &view)); /* empty, at the very end */
  assert_int_equal(compute_tensor_count(view), 0);
  compute_tensor_release(view);
  assert_ok(compute_tensor_slice_view(whole, 2, -1, 1, INT64_MAX, &view)); /* an unused step */
  ASSERT_HOLDS(view, 3, -2, -4, 15, -6, -8);
  compute_tensor_release(view);
}

static void slices_share_elements(void **state) {
  (void)state;
  on_every_device(check_slices);
}

static void check_transposes(compute_device *device, compute_tensor *whole) {
  (void)device;
  compute_tensor *view, *back;
  assert_ok(compute_tensor_transpose_view(whole, COMPUTE_AXES(-1, 0, 1), &view));
  assert_true(compute_shape_equal(compute_tensor_shape(view), COMPUTE_SHAPE(4, 2, 3)));
  ASSERT_HOLDS(view, 0, 4, 8, 12, 16, 20, 1, 5, 9, 13, 17, 21, 2, 6, 10, 14, 18, 22, 3, 7, 11, 15,
               19, 23);
  compute_tensor_release(view);
  assert_ok(compute_tensor_transpose_view(whole, COMPUTE_ALL_AXES, &view));
  assert_true(compute_shape_equal(compute_tensor_shape(view), COMPUTE_SHAPE(4, 3, 2)));
  assert_ok(compute_tensor_transpose_view(view, COMPUTE_ALL_AXES, &back));
  assert_true(compute_tensor_is_dense(back));
  compute_tensor_release(back);
  compute_tensor_release(view);
}

static void transposes_reorder_axes(void **state) {
  (void)state;
  on_every_device(check_transposes);
}

static void check_reshapes(compute_device *device, compute_tensor *whole) {
  (void)device;
  compute_tensor *view, *turned;
  assert_ok(compute_tensor_reshape_view(whole, COMPUTE_SHAPE(4, -1), &view));
  assert_true(compute_shape_equal(compute_tensor_shape(view), COMPUTE_SHAPE(4, 6)));
  assert_ok(compute_tensor_transpose_view(view, COMPUTE_ALL_AXES, &turned));
  compute_tensor_release(view);
  assert_fails(compute_tensor_reshape_view(turned, COMPUTE_SHAPE(24), &view), COMPUTE_ERROR_SHAPE);
  assert_ok(compute_tensor_reshape_view(turned, COMPUTE_SHAPE(2, 3, 2, 2), &view));
  ASSERT_HOLDS(view, 0, 6, 12, 18, 1, 7, 13, 19, 2, 8, 14, 20, 3, 9, 15, 21, 4, 10, 16, 22, 5, 11,
               17, 23);
  compute_tensor_release(view);
  compute_tensor_release(turned);
  assert_fails(compute_tensor_reshape_view(whole, COMPUTE_SHAPE(5, 5), &view), COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "[5,5]");
  assert_fails(compute_tensor_reshape_view(whole, COMPUTE_SHAPE(-1, -1), &view),
               COMPUTE_ERROR_SHAPE);
  assert_fails(compute_tensor_reshape_view(whole, COMPUTE_SHAPE(-1, 7), &view),
               COMPUTE_ERROR_SHAPE);
  assert_fails(compute_tensor_reshape_view(whole, COMPUTE_SHAPE(-1, 0), &view),
               COMPUTE_ERROR_SHAPE);
  assert_fails(compute_tensor_reshape_view(whole, COMPUTE_SHAPE(-24), &view), COMPUTE_ERROR_SHAPE);
  assert_fails(compute_tensor_reshape_view(whole, (compute_shape){.rank = 9}, &view),
               COMPUTE_ERROR_SHAPE);
}

static void reshapes_keep_the_order(void **state) {
  (void)state;
  on_every_device(check_reshapes);
}

static void check_broadcasts(compute_device *device, compute_tensor *whole) {
  compute_tensor *column, *view;
  int32_t data[6] = {0};
  assert_ok(compute_tensor_slice_view(whole, 2, 1, 1, 1, &column)); /* [2,3,1] */
  assert_ok(compute_tensor_broadcast_view(column, COMPUTE_SHAPE(2, 2, 3, 2), &view));
  ASSERT_HOLDS(view, 1, 1, 5, 5, 9, 9, 13, 13, 17, 17, 21, 21, 1, 1, 5, 5, 9, 9, 13, 13, 17, 17, 21,
               21);
  int32_t whole_copy[COUNT] = {0};
  assert_fails(compute_tensor_write(view, whole_copy, sizeof whole_copy),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  compute_tensor *part;
  assert_ok(compute_tensor_slice_view(view, 0, 0, 1, 1, &part)); /* stays read-only */
  assert_fails(compute_tensor_write(part, whole_copy, 12 * sizeof(int32_t)),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_tensor_copy(part, part), COMPUTE_ERROR_INVALID_ARGUMENT);
  compute_tensor_release(part);
  compute_tensor_release(view);
  assert_fails(compute_tensor_broadcast_view(whole, COMPUTE_SHAPE(2, 3, 5), &view),
               COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "[2,3,4]");
  assert_fails(compute_tensor_broadcast_view(whole, COMPUTE_SHAPE(3, 4), &view),
               COMPUTE_ERROR_SHAPE);
  int64_t wide = INT64_C(1) << 31;
  assert_fails(compute_tensor_broadcast_view(column, COMPUTE_SHAPE(wide, wide, 2, 3, 1), &view),
               COMPUTE_ERROR_OVERFLOW);
  assert_ok(compute_tensor_write(column, data, sizeof data));
  compute_tensor_release(column);
  (void)device;
}

static void broadcasts_repeat_and_are_read_only(void **state) {
  (void)state;
  on_every_device(check_broadcasts);
}

static void check_bad_views(compute_device *device, compute_tensor *whole) {
  (void)device;
  compute_tensor *view;
  static const struct {
    int32_t axis;
    int64_t start, count, step;
  } bad[] = {{3, 0, 1, 1},
             {-4, 0, 1, 1},
             {0, -3, 1, 1},
             {0, -1, 2, 1},
             {0, INT64_MIN, 0, 1},
             {0, 0, 3, 1},
             {0, 0, -1, 1},
             {0, 0, 1, 0},
             {0, 3, 0, 1},
             {0, 1, 2, 1},
             {2, 0, 2, INT64_MAX},
             {2, 1, 3, 2},
             {2, 0, INT64_MAX, INT64_MAX},
             {1, 0, 1, -1}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_fails(compute_tensor_slice_view(whole, bad[i].axis, bad[i].start, bad[i].count,
                                           bad[i].step, &view),
                 COMPUTE_ERROR_SHAPE);
    assert_null(view);
  }
  assert_fails(compute_tensor_transpose_view(whole, COMPUTE_AXES(0, 1), &view),
               COMPUTE_ERROR_SHAPE);
  assert_fails(compute_tensor_transpose_view(whole, COMPUTE_AXES(0, 1, 1), &view),
               COMPUTE_ERROR_SHAPE);
  assert_fails(compute_tensor_transpose_view(whole, COMPUTE_AXES(0, 1, 3), &view),
               COMPUTE_ERROR_SHAPE);
  assert_fails(compute_tensor_transpose_view(whole, (compute_axes){.count = 100}, &view),
               COMPUTE_ERROR_SHAPE);
  assert_fails(compute_tensor_transpose_view(NULL, COMPUTE_ALL_AXES, &view),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_slice_view(whole, 0, 0, 1, 1, NULL), COMPUTE_ERROR_NULL_POINTER);
}

static void bad_views_are_refused(void **state) {
  (void)state;
  on_every_device(check_bad_views);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slices_share_elements),
      cmocka_unit_test(transposes_reorder_axes),
      cmocka_unit_test(reshapes_keep_the_order),
      cmocka_unit_test(broadcasts_repeat_and_are_read_only),
      cmocka_unit_test(bad_views_are_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
