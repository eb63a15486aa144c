/* SPDX-License-Identifier: MIT */
/* The tests' own tools detect the errors that they look for. */
#include <float.h>
#include <math.h>

#include "support/reference/graph_evaluate.h"
#include "support/harness/guarded.h"
#include "support/harness/test.h"

/* Two independent decoders of the formats agree on every pattern, and encoding is the inverse. */
static void half_formats_agree_with_the_reference(void **state) {
  (void)state;
  static const compute_dtype halves[] = {COMPUTE_F16, COMPUTE_BF16};
  for (int h = 0; h < 2; h++) {
    for (unsigned bits = 0; bits < 65536; bits++) {
      uint16_t element = (uint16_t)bits;
      const test_values values = {.dtype = halves[h], .count = 1, .data = &element};
      const double value = test_values_get(&values, 0);
      const double reference = evaluate_decode_real(halves[h], &element);
      if (isnan(value)) {
        assert_true(isnan(reference));
        continue;
      }
      assert_true(value == reference);
      element = 0;
      test_values_set((test_values *)&values, 0, value);
      assert_int_equal(element, bits);
      const double between = value + test_spacing(halves[h], value) * 0.25;
      test_values_set((test_values *)&values, 0, between);
      assert_true(test_values_get(&values, 0) == evaluate_round(halves[h], between));
    }
  }
}

static void guards_notice_every_byte_outside_the_view(void **state) {
  (void)state;
  compute_device *device = compute_default_device(test_context);
  for (int layout = 0; layout < LAYOUT_COUNT; layout++) {
    test_values values = test_values_create(COMPUTE_U8, COMPUTE_SHAPE(3, 4, 5));
    test_values_fill(&values, FILL_RANGE, 0, 255, 1);
    guarded_tensor tensor =
        guarded_create(device, COMPUTE_U8, values.shape, (guarded_layout)layout, &values);
    assert_true(guarded_is_intact(&tensor));
    test_values read = test_values_create(COMPUTE_U8, values.shape);
    guarded_read(&tensor, &read);
    assert_memory_equal(read.data, values.data, values.bytes);
    const int64_t total = compute_tensor_count(tensor.base);
    int64_t noticed = 0;
    for (int64_t i = 0; i < total; i++) {
      compute_tensor *one = NULL;
      uint8_t before, changed;
      assert_ok(compute_tensor_slice_view(tensor.base, 0, i, 1, 1, &one));
      assert_ok(compute_tensor_read(one, &before, 1));
      changed = (uint8_t)(before + 1);
      assert_ok(compute_tensor_write(one, &changed, 1));
      noticed += !guarded_is_intact(&tensor);
      assert_ok(compute_tensor_write(one, &before, 1));
      compute_tensor_release(one);
    }
    assert_int_equal(noticed, total - values.count);
    guarded_release(&tensor);
    test_values_release(&values);
    test_values_release(&read);
  }
}

static bool close_enough(compute_dtype dtype, double actual, double expected, double ulp) {
  return test_close_enough(dtype, actual, expected, &(test_tolerance){.ulp = ulp}, NULL);
}

static void comparisons_are_as_strict_as_they_say(void **state) {
  (void)state;
  assert_true(close_enough(COMPUTE_F32, 1.0F, 1 + 1e-9, 0));
  assert_false(close_enough(COMPUTE_F32, nextafterf(1, 2), 1, 0));
  assert_true(close_enough(COMPUTE_F32, nextafterf(1, 2), 1, 1));
  assert_false(close_enough(COMPUTE_F32, nextafterf(nextafterf(1, 2), 2), 1, 1.5));
  assert_false(close_enough(COMPUTE_F64, nextafter(1, 2), 1, 0));
  assert_true(close_enough(COMPUTE_F32, (double)NAN, (double)NAN, 0));
  assert_false(close_enough(COMPUTE_F32, (double)NAN, 1, 1e9));
  assert_false(close_enough(COMPUTE_F32, 1, (double)NAN, 1e9));
  assert_true(close_enough(COMPUTE_F32, (double)INFINITY, (double)INFINITY, 0));
  assert_false(close_enough(COMPUTE_F32, -(double)INFINITY, (double)INFINITY, 1e9));
  assert_false(close_enough(COMPUTE_F32, (double)FLT_MAX, (double)INFINITY, 4));
  assert_true(close_enough(COMPUTE_F32, (double)INFINITY, 1e39, 0));
  assert_false(close_enough(COMPUTE_F32, (double)FLT_MAX, 1e39, 0));
  assert_true(close_enough(COMPUTE_F32, 0x1p-149, 0x1.4p-149, 0));
  assert_false(close_enough(COMPUTE_F32, 0, 0x1.4p-149, 0));
  assert_true(close_enough(COMPUTE_F16, 1, 1 + 0x1p-11, 0));
  assert_false(close_enough(COMPUTE_F16, 1, 1 + 0x1.1p-11, 0));
  assert_true(close_enough(COMPUTE_I32, 7, 7, 0));
  assert_false(close_enough(COMPUTE_I32, 7, 8, 100));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(half_formats_agree_with_the_reference),
      cmocka_unit_test(guards_notice_every_byte_outside_the_view),
      cmocka_unit_test(comparisons_are_as_strict_as_they_say),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
