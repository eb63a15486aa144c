/* SPDX-License-Identifier: MIT */
/* Descriptors of TREES: their checks, cost, key and class. */
#include <string.h>

#include "kernel/descriptor_sample.h"

/* Eight rows of three features; four trees of seven nodes, two targets. */
static sample trees(void) {
  sample s = {.d = {.struct_size = sizeof s.d,
                    .kind = COMPUTE_KERNEL_TREES,
                    .rank = 2,
                    .size = {8, 2},
                    .input_count = 4,
                    .output_count = 1,
                    .accumulate = COMPUTE_F32},
              .input = {{COMPUTE_F32, {3, 1}},
                        {COMPUTE_I64, {0, 1}},
                        {COMPUTE_I64, {0, 1}},
                        {COMPUTE_F32, {0, 1}}},
              .output = {{COMPUTE_F32, {2, 1}}}};
  s.a.trees = (compute_trees_attributes){.features = 3,
                                         .columns = 6,
                                         .nodes = 28,
                                         .trees = 4,
                                         .values = 16,
                                         .combine = COMPUTE_COMBINE_SUM,
                                         .words = 1};
  return s;
}

static void descriptors_are_checked(void **state) {
  (void)state;
  SPOILED(trees(), s.a.trees.features = 0);
  SPOILED(trees(), s.a.trees.features = COMPUTE_TREES_MOST + 1);
  SPOILED(trees(), s.a.trees.columns = 5);
  SPOILED(trees(), (s.a.trees.features = 40000, s.a.trees.columns = 80000));
  SPOILED(trees(), s.a.trees.nodes = -1);
  SPOILED(trees(), s.a.trees.nodes = INT64_C(1) << 40);
  SPOILED(trees(), s.a.trees.trees = -1);
  SPOILED(trees(), s.a.trees.values = -1);
  SPOILED(trees(), s.a.trees.combine = COMPUTE_COMBINE_PROD);
  SPOILED(trees(), s.a.trees.words = 3);
  SPOILED(trees(), s.d.size[1] = COMPUTE_TREES_MOST + 1);
  SPOILED(trees(), s.d.accumulate = COMPUTE_F64);
  SPOILED(trees(), s.input[1].dtype = COMPUTE_I32);
  SPOILED(trees(), s.input[2].stride[1] = 2);
  SPOILED(trees(), s.input[3].dtype = COMPUTE_F64);
  SPOILED(trees(), s.output[0].dtype = COMPUTE_I32);
  SPOILED(trees(), s.output[0].stride[1] = 0);
  SPOILED(trees(), s.d.rank = 1);
  SPOILED(trees(), s.d.input_count = 3);
}

/* A tree that is one leaf. */
static void a_table_of_one_element_needs_no_stride(void **state) {
  (void)state;
  sample s = trees();
  s.input[3].stride[1] = 0;
  assert_false(passes(&s));
  s.a.trees.values = 1;
  assert_true(passes(&s));
}

static void elements_and_steps_are_counted(void **state) {
  (void)state;
  sample s = trees();
  bind(&s);
  const kernel_cost c = kernel_cost_of(&s.d);
  assert_int_equal(c.bytes_read, 24 * 4 + 28 * 8 + 16 * 8 + 16 * 4);
  assert_int_equal(c.bytes_written, 16 * 4);
  assert_int_equal(c.flops, 8 * 4 * 3);
}

static void rows_are_independent(void **state) {
  (void)state;
  sample s = trees();
  bind(&s);
  assert_true(kernel_splits(&s.d));
  assert_true(kernel_input_splits(&s.d, 0));
  for (uint32_t i = 1; i < 4; i++) assert_false(kernel_input_splits(&s.d, i));
}

static void the_class_has_rows_features_and_trees(void **state) {
  (void)state;
  char text[KERNEL_CLASS_BYTES];
  sample s = trees();
  bind(&s);
  assert_string_equal(kernel_class_print(&s.d, text), "trees/f32>f32/sum/r3f2t2n5");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(descriptors_are_checked),
      cmocka_unit_test(a_table_of_one_element_needs_no_stride),
      cmocka_unit_test(elements_and_steps_are_counted),
      cmocka_unit_test(rows_are_independent),
      cmocka_unit_test(the_class_has_rows_features_and_trees),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
