/* SPDX-License-Identifier: MIT */
/* Sizes at which backends split work over threads and write past the caches: above a million
 * elements, with ragged ends. All elementwise operations in f32, and samples of other operations in
 * every dtype. */
#include "support/samples/elementwise.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"

static void every_elementwise_operation_is_right_on_a_million(void **state) {
  (void)state;
  const elementwise_row *row;
  for (size_t i = 0; (row = elementwise_at(i)) != NULL; i++) {
    const compute_dtype *dtypes = operation_dtypes(row->domain);
    const compute_dtype dtype = dtypes[1] == COMPUTE_F32 ? COMPUTE_F32 : dtypes[0];
    operation_case sample = {.name = row->name,
                             .build = elementwise_build,
                             .user = row,
                             .operand_count = (size_t)row->arity,
                             .tolerance = operation_tolerance(dtype, row->ulp)};
    for (int k = 0; k < row->arity; k++)
      sample.operand[k] =
          (operation_operand){dtype, SHAPE(1048583), FILL_RANGE, row->low, row->high, LAYOUT_DENSE};
    if (row->arity == 3) sample.operand[0].dtype = COMPUTE_BOOL;
    operation_check(test_context, &sample);
  }
  operation_finish();
}

/* ---- Expressions ---------------------------------------------------------------------------- */

typedef compute_node (*expression)(compute_graph *, const compute_node *);

typedef struct expression_case {
  const char *name;
  expression build;
  size_t count;
  compute_shape shapes[3];
  double atol, rtol; /* f32; f16 and bf16 add their storage rounding; f64 is far below */
} expression_case;

static compute_node build_expression(compute_graph *graph, const compute_node *operands,
                                     const void *user) {
  const expression_case *c = user;
  return c->build(graph, operands);
}

#define EXPRESSION(name, value)                                                                    \
  static compute_node name(compute_graph *g, const compute_node *x) {                              \
    return (value);                                                                                \
  }

EXPRESSION(chain, compute_relu(g, compute_add(g, compute_mul(g, x[0], x[1]), x[2])))
EXPRESSION(add_row, compute_add(g, x[0], x[1]))
EXPRESSION(transposed, compute_transpose(g, x[0], COMPUTE_ALL_AXES))
EXPRESSION(permuted, compute_transpose(g, x[0], COMPUTE_AXES(1, 2, 0)))
EXPRESSION(sum_rows, compute_sum(g, x[0], COMPUTE_AXES(1), false))
EXPRESSION(sum_columns, compute_sum(g, x[0], COMPUTE_AXES(0), false))
EXPRESSION(sum_all, compute_sum(g, x[0], COMPUTE_ALL_AXES, false))
EXPRESSION(max_rows, compute_max(g, x[0], COMPUTE_AXES(1), false))
EXPRESSION(softmax_rows, compute_softmax(g, x[0], -1))
EXPRESSION(softmax_columns, compute_softmax(g, x[0], 0))
EXPRESSION(normalized, compute_normalize(g, x[0], 1e-5))
EXPRESSION(joined, compute_concat(g, (compute_node[]){x[0], x[1]}, 2, 1))
EXPRESSION(outer, compute_mul(g, x[0], x[1]))

static const expression_case expressions[] = {
    {"relu(x y + z)", chain, 3, {SHAPE(1031, 1033), SHAPE(1031, 1033), SHAPE(1033)}, 1e-6, 1e-6},
    {"x + row", add_row, 2, {SHAPE(2053, 521), SHAPE(521)}, 0, 0},
    {"x + column", add_row, 2, {SHAPE(2053, 521), SHAPE(2053, 1)}, 0, 0},
    {"outer product", outer, 2, {SHAPE(1031, 1), SHAPE(1033)}, 0, 0},
    {"transpose", transposed, 1, {SHAPE(1031, 1033)}, 0, 0},
    {"transpose of three axes", permuted, 1, {SHAPE(101, 103, 107)}, 0, 0},
    {"sum of rows", sum_rows, 1, {SHAPE(1031, 1033)}, 1e-3, 1e-6},
    {"sum of columns", sum_columns, 1, {SHAPE(1031, 1033)}, 1e-3, 1e-6},
    {"sum of columns, few", sum_columns, 1, {SHAPE(350003, 3)}, 0.4, 1e-6},
    {"sum of rows, long", sum_rows, 1, {SHAPE(3, 350003)}, 0.4, 1e-6},
    {"sum of all", sum_all, 1, {SHAPE(1031, 1033)}, 1, 1e-6},
    {"max of rows", max_rows, 1, {SHAPE(1031, 1033)}, 0, 0},
    {"softmax", softmax_rows, 1, {SHAPE(1031, 1033)}, 1e-7, 1e-5},
    {"softmax of columns", softmax_columns, 1, {SHAPE(1031, 1033)}, 1e-7, 1e-5},
    {"softmax of one row", softmax_rows, 1, {SHAPE(1, 1048583)}, 1e-7, 1e-5},
    {"normalize", normalized, 1, {SHAPE(1031, 1033)}, 1e-5, 1e-5},
    {"concat", joined, 2, {SHAPE(1031, 500), SHAPE(1031, 533)}, 0, 0},
};

static void expressions_are_right_on_a_million(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
    const expression_case *c = &expressions[i];
    for (const compute_dtype *dtype = operation_dtypes("float"); *dtype; dtype++) {
      const double half = *dtype == COMPUTE_F16 ? 0x1p-10 : *dtype == COMPUTE_BF16 ? 0x1p-7 : 0;
      operation_case sample = {.name = c->name,
                               .build = build_expression,
                               .user = c,
                               .operand_count = c->count,
                               .tolerance = {1, c->atol, c->rtol}};
      if (c->count > 1) { /* without fusion, each operation rounds to its storage type */
        sample.tolerance.atol += 64 * half;
        sample.tolerance.rtol += 2 * half;
      }
      for (size_t k = 0; k < c->count; k++)
        sample.operand[k] =
            (operation_operand){*dtype, c->shapes[k], FILL_RANGE, -8, 8, LAYOUT_DENSE};
      operation_check(test_context, &sample);
    }
  }
  operation_finish();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_elementwise_operation_is_right_on_a_million),
      cmocka_unit_test(expressions_are_right_on_a_million),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
