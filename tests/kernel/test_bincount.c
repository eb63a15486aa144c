/* SPDX-License-Identifier: MIT */
/* Descriptors of BINCOUNT: their checks, cost, key and class. */
#include <string.h>

#include "kernel/descriptor_sample.h"

/* Three rows of nine elements, five bins. */
static sample bincount(bool weighted) {
  sample s = {.d = {.struct_size = sizeof s.d,
                    .kind = COMPUTE_KERNEL_BINCOUNT,
                    .rank = 2,
                    .size = {3, 5},
                    .input_count = weighted ? 2 : 1,
                    .output_count = 1},
              .input = {{COMPUTE_I32, {9, 1}}, {COMPUTE_F32, {9, 1}}},
              .output = {{weighted ? COMPUTE_F32 : COMPUTE_I64, {5, 1}}}};
  s.a.bincount.axis_size = 9;
  return s;
}

static void descriptors_are_checked(void **state) {
  (void)state;
  SPOILED(bincount(false), s.a.bincount.axis_size = -1);
  SPOILED(bincount(false), s.a.bincount.axis_size = INT64_MAX);
  SPOILED(bincount(false), s.input[0].dtype = COMPUTE_U8);
  SPOILED(bincount(false), s.input[0].dtype = COMPUTE_F32);
  SPOILED(bincount(false), s.output[0].dtype = COMPUTE_I32);
  SPOILED(bincount(false), s.output[0].stride[1] = 0);
  SPOILED(bincount(false), s.d.rank = 0);
  SPOILED(bincount(false), s.d.input_count = 0);
  SPOILED(bincount(false), s.d.output_count = 0);
  SPOILED(bincount(true), s.d.input_count = 3);
  SPOILED(bincount(true), s.input[1].dtype = COMPUTE_I64);
  SPOILED(bincount(true), s.output[0].dtype = COMPUTE_F64);
  SPOILED(bincount(true), s.output[0].dtype = COMPUTE_I64);
}

static void a_row_without_elements_passes(void **state) {
  (void)state;
  sample s = bincount(true);
  s.a.bincount.axis_size = 0;
  assert_true(passes(&s));
}

static void elements_and_bins_are_counted(void **state) {
  (void)state;
  sample s = bincount(true);
  bind(&s);
  const kernel_cost c = kernel_cost_of(&s.d);
  assert_int_equal(c.bytes_read, 2 * 4 * 27);
  assert_int_equal(c.bytes_written, 4 * 15);
  assert_int_equal(c.flops, 27);
}

static bool same_key(sample a, sample b) {
  static kernel_key first, second;
  bind(&a);
  bind(&b);
  kernel_key_write(&first, &a.d);
  kernel_key_write(&second, &b.d);
  return first.length == second.length && memcmp(first.bytes, second.bytes, first.length) == 0;
}

static void the_key_has_the_axis_and_the_weights(void **state) {
  (void)state;
  sample longer = bincount(false), wider = bincount(false);
  longer.a.bincount.axis_size = 8;
  wider.input[0].dtype = COMPUTE_I64;
  assert_true(same_key(bincount(false), bincount(false)));
  assert_false(same_key(bincount(false), longer));
  assert_false(same_key(bincount(false), wider));
  assert_false(same_key(bincount(false), bincount(true)));
}

static void the_class_has_rows_their_length_and_bins(void **state) {
  (void)state;
  char text[KERNEL_CLASS_BYTES];
  sample s = bincount(false);
  bind(&s);
  assert_string_equal(kernel_class_print(&s.d, text), "bincount/i32>i64/axis/r2n3k2");
  s = bincount(true);
  bind(&s);
  assert_string_equal(kernel_class_print(&s.d, text), "bincount/f32+i32>f32/axis/r2n3k2");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(descriptors_are_checked),
      cmocka_unit_test(a_row_without_elements_passes),
      cmocka_unit_test(elements_and_bins_are_counted),
      cmocka_unit_test(the_key_has_the_axis_and_the_weights),
      cmocka_unit_test(the_class_has_rows_their_length_and_bins),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
