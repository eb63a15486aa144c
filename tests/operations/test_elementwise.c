/* SPDX-License-Identifier: MIT */
/* Every elementwise operation of ops.def × every dtype of its domain × samples: zero sizes,
 * scalars, primes, broadcasting in all directions, every memory layout, special values. The table
 * is the list of cases, so a new row is tested without a line here. */
#include "support/samples/elementwise.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"

/* Shapes of the operands. A sample for one operand uses the first column, and so on. */
typedef struct shape_sample {
  compute_shape shape[3];
  guarded_layout layout[3];
  guarded_layout result;
} shape_sample;

/* For a ternary operation the third column is the first operand: select's condition. */
static const shape_sample shape_samples[] = {
    {{SCALAR, SCALAR, SCALAR}, {0}, LAYOUT_DENSE},
    {{SHAPE(1), SHAPE(1), SHAPE(1)}, {0}, LAYOUT_PADDED},
    {{SHAPE(0), SHAPE(1), SHAPE(0)}, {0}, LAYOUT_DENSE},
    {{SHAPE(3, 0, 2), SHAPE(2), SCALAR}, {0}, LAYOUT_DENSE},
    {{SHAPE(17), SCALAR, SHAPE(17)}, {0}, LAYOUT_WRAPPED},
    {{SHAPE(7, 13, 31), SHAPE(7, 13, 31), SHAPE(7, 13, 31)}, {0}, LAYOUT_DENSE},
    {{SHAPE(7, 13, 31), SHAPE(31), SHAPE(13, 1)}, {0}, LAYOUT_STEPPED},
    {{SHAPE(7, 13, 31), SHAPE(7, 1, 1), SHAPE(31)}, {0}, LAYOUT_TRANSPOSED},
    {{SHAPE(7, 13, 31), SHAPE(13, 1), SHAPE(7, 1, 31)},
     {LAYOUT_TRANSPOSED, LAYOUT_STEPPED, LAYOUT_PADDED},
     LAYOUT_PADDED},
    {{SHAPE(7, 13, 31), SHAPE(7, 13, 31), SHAPE(1, 13, 31)},
     {LAYOUT_STEPPED, LAYOUT_TRANSPOSED, LAYOUT_WRAPPED},
     LAYOUT_WRAPPED},
    {{SHAPE(7, 13, 31), SHAPE(1, 13, 1), SHAPE(7, 13, 31)},
     {LAYOUT_PADDED, LAYOUT_WRAPPED, LAYOUT_TRANSPOSED},
     LAYOUT_TRANSPOSED},
    {{SHAPE(2, 1, 3, 1, 2, 1, 2, 5), SHAPE(3, 4, 1, 7, 1, 1), SHAPE(5)}, {0}, LAYOUT_DENSE},
    {{SHAPE(4099), SHAPE(4099), SHAPE(4099)},
     {LAYOUT_WRAPPED, LAYOUT_WRAPPED, LAYOUT_WRAPPED},
     LAYOUT_DENSE},
    {{SHAPE(64, 3), SHAPE(64, 1), SHAPE(3)}, {LAYOUT_TRANSPOSED, 0, 0}, LAYOUT_TRANSPOSED},
    {{SHAPE(257, 1), SHAPE(1, 263), SHAPE(263)}, {0}, LAYOUT_DENSE},
};

enum { SHAPE_SAMPLE_COUNT = sizeof shape_samples / sizeof *shape_samples };

/* The sample for `row`. With `swapped`, the operands trade places, so that each is broadcast
 * once. */
static operation_case make_case(const elementwise_row *row, compute_dtype dtype,
                                const shape_sample *shapes, test_fill fill, bool swapped) {
  operation_case sample = {.name = row->name,
                           .build = elementwise_build,
                           .user = row,
                           .operand_count = (size_t)row->arity,
                           .result_layout = shapes->result,
                           .tolerance = operation_tolerance(dtype, row->ulp),
                           .operation = row->name,
                           .dtype = dtype};
  static const int ternary_column[3] = {2, 0, 1};
  for (int i = 0; i < row->arity; i++) {
    int column = row->arity == 3 ? ternary_column[i] : i;
    if (swapped && column < 2 && row->arity > 1) column = 1 - column;
    sample.operand[i] = (operation_operand){.dtype = dtype,
                                            .shape = shapes->shape[column],
                                            .fill = fill,
                                            .low = row->low,
                                            .high = row->high,
                                            .layout = shapes->layout[column]};
  }
  if (row->arity == 3) sample.operand[0].dtype = COMPUTE_BOOL;
  return sample;
}

/* Calls `visit` for every operation and each dtype of its domain. */
static void for_each_operation(int arity, void (*visit)(const elementwise_row *, compute_dtype)) {
  const elementwise_row *row;
  for (size_t i = 0; (row = elementwise_at(i)) != NULL; i++) {
    if (row->arity != arity) continue;
    for (const compute_dtype *dtype = operation_dtypes(row->domain); *dtype; dtype++)
      visit(row, *dtype);
  }
}

/* In a spread run, each operation and dtype begins with another shape, and operands have one order
 * only. A spread wider than the list of shapes leaves some operations and dtypes to
 * special_values_match_the_reference. */
static bool is_taken(size_t shape, int arity, bool swapped) {
  static size_t visits;
  if (shape == 0 && !swapped) visits++;
  if (test_spread() == 1) return true;
  if (arity > 1 && swapped != (visits % 2 == 0)) return false;
  return test_in_spread(shape + 7 * visits);
}

static void visit_shapes(const elementwise_row *row, compute_dtype dtype) {
  for (size_t i = 0; i < SHAPE_SAMPLE_COUNT; i++) {
    for (int swapped = 0; swapped < (row->arity > 1 ? 2 : 1); swapped++) {
      if (!is_taken(i, row->arity, swapped != 0)) continue;
      const operation_case sample =
          make_case(row, dtype, &shape_samples[i], FILL_RANGE, swapped != 0);
      operation_check(test_context, &sample);
    }
  }
}

/* Outside the range of the table, an operation without a stated error must still be exact. Others
 * may lose slightly more, and results below the smallest normal number may lose their last bits. */
static void visit_special(const elementwise_row *row, compute_dtype dtype) {
  static const shape_sample shapes = {{SHAPE(1009), SHAPE(1009), SHAPE(1009)}, {0}, LAYOUT_DENSE};
  operation_case sample = make_case(row, dtype, &shapes, FILL_SPECIAL, false);
  if (row->ulp > 1) sample.tolerance = operation_tolerance(dtype, 2 * row->ulp);
  operation_check(test_context, &sample);
}

static void one_operand_matches_the_reference(void **state) {
  (void)state;
  for_each_operation(1, visit_shapes);
  operation_finish();
}

static void two_operands_broadcast_and_match_the_reference(void **state) {
  (void)state;
  for_each_operation(2, visit_shapes);
  operation_finish();
}

static void three_operands_broadcast_and_match_the_reference(void **state) {
  (void)state;
  for_each_operation(3, visit_shapes);
  operation_finish();
}

static void special_values_match_the_reference(void **state) {
  (void)state;
  for (int arity = 1; arity <= 3; arity++) for_each_operation(arity, visit_special);
  operation_finish();
}

/* clamp has no row: it is built from minimum and maximum. */
static compute_node build_clamp(compute_graph *graph, const compute_node *operands,
                                const void *user) {
  const double *limits = user;
  return compute_clamp(graph, operands[0], limits[0], limits[1]);
}

static void clamp_limits_from_both_sides(void **state) {
  (void)state;
  static const double limits[2] = {2, 5};
  for (const compute_dtype *dtype = operation_dtypes("ordered"); *dtype; dtype++) {
    for (int fill = FILL_RANGE; fill <= FILL_SPECIAL; fill++) {
      const operation_case sample = {
          .name = "clamp",
          .build = build_clamp,
          .user = limits,
          .operand = {{*dtype, COMPUTE_SHAPE(101), (test_fill)fill, -8, 8, LAYOUT_STEPPED}},
          .operand_count = 1};
      operation_check(test_context, &sample);
    }
  }
  operation_finish();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_operand_matches_the_reference),
      cmocka_unit_test(two_operands_broadcast_and_match_the_reference),
      cmocka_unit_test(three_operands_broadcast_and_match_the_reference),
      cmocka_unit_test(special_values_match_the_reference),
      cmocka_unit_test(clamp_limits_from_both_sides),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
