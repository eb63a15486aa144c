/* SPDX-License-Identifier: MIT */
/* Creating, wrapping and releasing tensors, on every device. */
#include "support/harness/test.h"

#include <stdlib.h>
#include <string.h>

#include "core/device/device.h"
#include "core/tensor/tensor.h"

/* Runs a check on each device of the context. */
static void on_every_device(void (*check)(compute_device *device)) {
  compute_device *device;
  for (size_t i = 0; (device = compute_device_at(test_context, i)); i++) check(device);
}

/* A device that shares the host's memory must wrap it. A device with separate memory may be able
 * to. */
static bool can_wrap(compute_device *device) {
  _Alignas(256) unsigned char byte[256];
  compute_tensor *t = NULL;
  if (!device->backend->memory_import) return false;
  const compute_status status =
      compute_tensor_wrap(device, COMPUTE_U8, COMPUTE_SHAPE(1), NULL, byte, NULL, NULL, &t);
  compute_tensor_release(t);
  const bool shares = (device->info.capabilities & COMPUTE_CAPABILITY_UNIFIED_MEMORY) != 0;
  if (status != COMPUTE_ERROR_UNSUPPORTED || shares) assert_ok(status);
  return status == COMPUTE_OK;
}

static int64_t live(void) {
  return context_objects_of(test_context, &tensor_object);
}

/* ---- Creation ------------------------------------------------------------------------------ */

static void check_facts(compute_device *device) {
  compute_tensor *t;
  assert_ok(compute_tensor_create(device, COMPUTE_BF16, COMPUTE_SHAPE(2, 3, 4), &t));
  assert_ptr_equal(compute_tensor_device(t), device);
  assert_int_equal(compute_tensor_dtype(t), COMPUTE_BF16);
  assert_true(compute_shape_equal(compute_tensor_shape(t), COMPUTE_SHAPE(2, 3, 4)));
  assert_int_equal(compute_tensor_count(t), 24);
  assert_int_equal(compute_tensor_stride(t, 0), 12);
  assert_int_equal(compute_tensor_stride(t, -1), 1);
  assert_int_equal(compute_tensor_stride(t, 3), 0);
  assert_int_equal(compute_tensor_stride(t, -4), 0);
  assert_true(compute_tensor_is_dense(t));
  assert_int_equal((uintptr_t)compute_tensor_data(t) % 64, 0);
  compute_tensor_release(t);
}

static void tensor_knows_what_it_is(void **state) {
  (void)state;
  on_every_device(check_facts);
}

static void check_empty(compute_device *device) {
  compute_tensor *t, *copy;
  assert_ok(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(3, 0, 5), &t));
  assert_int_equal(compute_tensor_count(t), 0);
  assert_true(compute_tensor_is_dense(t));
  assert_ok(compute_tensor_read(t, NULL, 0));
  assert_ok(compute_tensor_write(t, NULL, 0));
  assert_ok(compute_tensor_to_device(t, device, &copy));
  assert_ok(compute_tensor_copy(copy, t));
  compute_tensor_release(copy);
  compute_tensor_release(t);
  assert_ok(compute_tensor_from_host(device, COMPUTE_I64, COMPUTE_SHAPE(0), NULL, &t));
  compute_tensor_release(t);
}

static void zero_sizes_are_ordinary(void **state) {
  (void)state;
  on_every_device(check_empty);
}

static void check_scalar(compute_device *device) {
  compute_tensor *t;
  double in = 2.5, out = 0;
  assert_ok(compute_tensor_from_host(device, COMPUTE_F64, COMPUTE_SCALAR, &in, &t));
  assert_int_equal(compute_tensor_count(t), 1);
  assert_ok(compute_tensor_read(t, &out, sizeof out));
  assert_true(out == in);
  compute_tensor_release(t);
}

static void scalars_hold_one_element(void **state) {
  (void)state;
  on_every_device(check_scalar);
}

static void check_bad_arguments(compute_device *device) {
  compute_tensor *t = (compute_tensor *)device;
  int64_t before = live();
  assert_fails(compute_tensor_create(NULL, COMPUTE_F32, COMPUTE_SCALAR, &t),
               COMPUTE_ERROR_NULL_POINTER);
  assert_null(t);
  assert_fails(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SCALAR, NULL),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_create(device, COMPUTE_DTYPE_NONE, COMPUTE_SCALAR, &t),
               COMPUTE_ERROR_DTYPE);
  assert_fails(compute_tensor_create(device, (compute_dtype)77, COMPUTE_SCALAR, &t),
               COMPUTE_ERROR_DTYPE);
  assert_fails(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(4, -2), &t),
               COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "[4,-2]");
  assert_fails(compute_tensor_create(device, COMPUTE_F32, (compute_shape){.rank = 9}, &t),
               COMPUTE_ERROR_SHAPE);
  assert_fails(compute_tensor_create(device, COMPUTE_U8, COMPUTE_SHAPE(INT64_MAX, 2), &t),
               COMPUTE_ERROR_OVERFLOW);
  assert_fails(compute_tensor_create(device, COMPUTE_F64, COMPUTE_SHAPE(INT64_MAX / 4), &t),
               COMPUTE_ERROR_OVERFLOW);
  assert_fails(compute_tensor_create(device, COMPUTE_U8, COMPUTE_SHAPE(INT64_MAX), &t),
               COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY);
  assert_fails(compute_tensor_create(device, COMPUTE_U8, COMPUTE_SHAPE(INT64_C(1) << 60), &t),
               COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY);
  assert_fails(compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(3), NULL, &t),
               COMPUTE_ERROR_NULL_POINTER);
  assert_null(t);
  assert_int_equal(live(), before);
}

static void bad_arguments_are_explained(void **state) {
  (void)state;
  on_every_device(check_bad_arguments);
}

static void accessors_accept_null(void **state) {
  (void)state;
  compute_tensor_release(NULL);
  assert_null(compute_tensor_retain(NULL));
  assert_null(compute_tensor_device(NULL));
  assert_null(compute_tensor_data(NULL));
  assert_int_equal(compute_tensor_dtype(NULL), COMPUTE_DTYPE_NONE);
  assert_int_equal(compute_tensor_shape(NULL).rank, 0);
  assert_int_equal(compute_tensor_count(NULL), 0);
  assert_int_equal(compute_tensor_stride(NULL, 0), 0);
  assert_false(compute_tensor_is_dense(NULL));
  float x;
  assert_fails(compute_tensor_read(NULL, &x, 4), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_write(NULL, &x, 4), COMPUTE_ERROR_NULL_POINTER);
}

static void check_pool_reuse(compute_device *device) {
  compute_tensor *t;
  compute_pool_statistics before, after;
  assert_ok(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(1000), &t));
  compute_tensor_release(t);
  assert_ok(compute_pool_query(device, &before));
  for (int i = 0; i < 100; i++) {
    assert_ok(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(1000), &t));
    compute_tensor_release(t);
  }
  assert_ok(compute_pool_query(device, &after));
  assert_int_equal(after.misses, before.misses);
  assert_int_equal(after.hits, before.hits + 100);
  assert_int_equal(after.bytes_active, before.bytes_active);
}

static void released_memory_is_reused(void **state) {
  (void)state;
  on_every_device(check_pool_reuse);
}

static void check_budget(compute_device *device) {
  compute_tensor *t;
  compute_pool_statistics s;
  assert_ok(compute_pool_trim(device, 0));
  assert_ok(compute_pool_query(device, &s));
  assert_ok(compute_pool_set_budget(device, s.bytes_allocated + 100000));
  assert_fails(compute_tensor_create(device, COMPUTE_U8, COMPUTE_SHAPE(200000), &t),
               COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY);
  test_check_message(test_context, "budget");
  assert_ok(compute_tensor_create(device, COMPUTE_U8, COMPUTE_SHAPE(60000), &t));
  compute_tensor_release(t);
  assert_ok(compute_tensor_create(device, COMPUTE_U8, COMPUTE_SHAPE(80000), &t)); /* evicts */
  compute_tensor_release(t);
  assert_ok(compute_pool_set_budget(device, 0));
}

static void budget_applies_to_tensors(void **state) {
  (void)state;
  on_every_device(check_budget);
}

/* ---- Wrapped memory ------------------------------------------------------------------------ */

static void count_release(void *user, void *data) {
  (void)data;
  ++*(int *)user;
}

static void check_wrap(compute_device *device) {
  _Alignas(256) float data[6] = {1, 2, 3, 4, 5, 6}; /* the alignment for sharing */
  float out[6];
  int released = 0;
  compute_tensor *t, *view;
  if (!can_wrap(device)) {
    assert_fails(compute_tensor_wrap(device, COMPUTE_F32, COMPUTE_SHAPE(2, 3), NULL, data,
                                     count_release, &released, &t),
                 COMPUTE_ERROR_UNSUPPORTED);
    assert_int_equal(released, 0);
    return;
  }
  assert_ok(compute_tensor_wrap(device, COMPUTE_F32, COMPUTE_SHAPE(2, 3), NULL, data, count_release,
                                &released, &t));
  assert_ok(compute_tensor_read(t, out, sizeof out));
  assert_memory_equal(out, data, sizeof data);
  out[5] = 60;
  assert_ok(compute_tensor_write(t, out, sizeof out));
  assert_true(data[5] == 60); /* no copy was made */
  if (compute_tensor_data(t)) assert_ptr_equal(compute_tensor_data(t), data);
  assert_ok(compute_tensor_slice_view(t, 0, 1, 1, 1, &view));
  compute_tensor_release(t);
  assert_int_equal(released, 0); /* the view keeps it alive */
  assert_ok(compute_tensor_read(view, out, 3 * sizeof *out));
  assert_true(out[0] == 4);
  compute_tensor_release(view);
  assert_int_equal(released, 1);
}

static void wrapped_memory_is_used_in_place(void **state) {
  (void)state;
  on_every_device(check_wrap);
}

static void check_wrap_strided(compute_device *device) {
  if (!can_wrap(device)) return;
  _Alignas(256) int32_t data[12];
  int32_t out[6];
  compute_tensor *t;
  for (int i = 0; i < 12; i++) data[i] = i;
  /* Column-major 3 × 2 with a gap of two after each column. */
  const int64_t strides[] = {1, 5};
  assert_ok(
      compute_tensor_wrap(device, COMPUTE_I32, COMPUTE_SHAPE(3, 2), strides, data, NULL, NULL, &t));
  assert_false(compute_tensor_is_dense(t));
  assert_ok(compute_tensor_read(t, out, sizeof out));
  const int32_t expected[] = {0, 5, 1, 6, 2, 7};
  assert_memory_equal(out, expected, sizeof expected);
  for (int i = 0; i < 6; i++) out[i] = -1 - i;
  assert_ok(compute_tensor_write(t, out, sizeof out));
  const int32_t after[] = {-1, -3, -5, 3, 4, -2, -4, -6, 8, 9, 10, 11};
  assert_memory_equal(data, after, sizeof after);
  compute_tensor_release(t);
}

static void wrapped_strides_are_honoured(void **state) {
  (void)state;
  on_every_device(check_wrap_strided);
}

static void check_overlap(compute_device *device) {
  if (!can_wrap(device)) return;
  _Alignas(256) float data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  float out[9];
  compute_tensor *t;
  const int64_t sliding[] = {1, 1};
  assert_ok(
      compute_tensor_wrap(device, COMPUTE_F32, COMPUTE_SHAPE(3, 3), sliding, data, NULL, NULL, &t));
  assert_ok(compute_tensor_read(t, out, sizeof out));
  assert_true(out[2] == 2 && out[3] == 1 && out[8] == 4);
  assert_fails(compute_tensor_write(t, out, sizeof out), COMPUTE_ERROR_INVALID_ARGUMENT);
  compute_tensor_release(t);
}

static void overlapping_elements_are_read_only(void **state) {
  (void)state;
  on_every_device(check_overlap);
}

static void check_bad_wraps(compute_device *device) {
  double data[4];
  compute_tensor *t;
  int64_t before = live();
  int released = 0;
  const int64_t negative[] = {-1}, huge[] = {INT64_MAX};
  assert_fails(compute_tensor_wrap(device, COMPUTE_F64, COMPUTE_SHAPE(4), negative, data,
                                   count_release, &released, &t),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_tensor_wrap(device, COMPUTE_F64, COMPUTE_SHAPE(3), huge, data, count_release,
                                   &released, &t),
               COMPUTE_ERROR_OVERFLOW);
  assert_fails(compute_tensor_wrap(device, COMPUTE_F64, COMPUTE_SHAPE(2), huge, data, count_release,
                                   &released, &t),
               COMPUTE_ERROR_OVERFLOW);
  assert_fails(compute_tensor_wrap(device, COMPUTE_F64, COMPUTE_SHAPE(2), NULL, (char *)data + 4,
                                   count_release, &released, &t),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "aligned");
  assert_fails(compute_tensor_wrap(device, COMPUTE_F64, COMPUTE_SHAPE(2), NULL, NULL, count_release,
                                   &released, &t),
               COMPUTE_ERROR_NULL_POINTER);
  assert_null(t);
  assert_int_equal(released, 0);
  assert_int_equal(live(), before);
}

static void bad_wraps_are_refused_without_release(void **state) {
  (void)state;
  on_every_device(check_bad_wraps);
}

static void check_empty_wrap(compute_device *device) {
  if (!can_wrap(device)) return;
  int released = 0;
  compute_tensor *t;
  assert_ok(compute_tensor_wrap(device, COMPUTE_F64, COMPUTE_SHAPE(0, 7), NULL, NULL, count_release,
                                &released, &t));
  compute_tensor_release(t);
  assert_int_equal(released, 1);
}

static void empty_memory_can_be_wrapped(void **state) {
  (void)state;
  on_every_device(check_empty_wrap);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tensor_knows_what_it_is),
      cmocka_unit_test(zero_sizes_are_ordinary),
      cmocka_unit_test(scalars_hold_one_element),
      cmocka_unit_test(bad_arguments_are_explained),
      cmocka_unit_test(accessors_accept_null),
      cmocka_unit_test(released_memory_is_reused),
      cmocka_unit_test(budget_applies_to_tensors),
      cmocka_unit_test(wrapped_memory_is_used_in_place),
      cmocka_unit_test(wrapped_strides_are_honoured),
      cmocka_unit_test(overlapping_elements_are_read_only),
      cmocka_unit_test(bad_wraps_are_refused_without_release),
      cmocka_unit_test(empty_memory_can_be_wrapped),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
