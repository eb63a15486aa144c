/* SPDX-License-Identifier: MIT */
/* Descriptors of LINALG: their checks, cost, key and class. */
#include <string.h>

#include "kernel/descriptor_sample.h"

/* Two systems of four equations, with three right sides. */
static sample linalg(void) {
  sample s = {.d = {.struct_size = sizeof s.d,
                    .kind = COMPUTE_KERNEL_LINALG,
                    .rank = 3,
                    .size = {2, 1, 13},
                    .input_count = 2,
                    .output_count = 1,
                    .accumulate = COMPUTE_F32},
              .input = {{COMPUTE_F32, {16, 4, 1}}, {COMPUTE_F32, {12, 3, 1}}},
              .output = {{COMPUTE_F32, {13, 0, 1}}}};
  s.a.linalg = (compute_linalg_attributes){
      .function = COMPUTE_LINALG_SOLVE, .rows = 4, .columns = 4, .right = 3};
  return s;
}

static void descriptors_are_checked(void **state) {
  (void)state;
  SPOILED(linalg(), s.a.linalg.function = (compute_linalg_function)99);
  SPOILED(linalg(), s.a.linalg.function = COMPUTE_LINALG_CHOLESKY);
  SPOILED(linalg(), s.a.linalg.flags = COMPUTE_LINALG_UPPER);
  SPOILED(linalg(), s.a.linalg.rows = 3);
  SPOILED(linalg(), s.a.linalg.rows = -1);
  SPOILED(linalg(), s.a.linalg.columns = (1 << 24) + 1);
  SPOILED(linalg(), s.a.linalg.right = 2);
  SPOILED(linalg(), s.d.size[2] = 12);
  SPOILED(linalg(), s.d.size[1] = 2);
  SPOILED(linalg(), s.d.accumulate = COMPUTE_F64);
  SPOILED(linalg(), s.input[1].dtype = COMPUTE_F16);
  SPOILED(linalg(), s.output[0].dtype = COMPUTE_I32);
  SPOILED(linalg(), s.output[0].stride[2] = 0);
  SPOILED(linalg(), s.d.rank = 1);
  SPOILED(linalg(), s.d.input_count = 1);
}

static void elements_and_operations_are_counted(void **state) {
  (void)state;
  sample s = linalg();
  bind(&s);
  const kernel_cost c = kernel_cost_of(&s.d);
  assert_int_equal(c.bytes_read, 2 * (16 + 12) * 4);
  assert_int_equal(c.bytes_written, 2 * 13 * 4);
  assert_true(c.flops >= 2 * 16 * 8 && c.flops <= 2 * 16 * 9);
}

static void the_class_has_function_batch_and_sizes(void **state) {
  (void)state;
  char text[KERNEL_CLASS_BYTES];
  sample s = linalg();
  bind(&s);
  assert_string_equal(kernel_class_print(&s.d, text), "linalg/f32>f32/solve/r1m2n2k2");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(descriptors_are_checked),
      cmocka_unit_test(elements_and_operations_are_counted),
      cmocka_unit_test(the_class_has_function_batch_and_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
