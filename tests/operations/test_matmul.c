/* SPDX-License-Identifier: MIT */
/* Matrix products: shapes down to empty ones, vectors, broadcast batches, transposed operands as
 * strided tensors and as transpose nodes, epilogues, all number dtypes. */
#include <math.h>

#include "support/harness/operation.h"
#include "support/harness/test.h"

typedef enum epilogue { PLAIN, BIAS_GELU, BIAS_RESIDUAL, SCALED_SUM, CAST_RESULT } epilogue;

typedef struct product_case {
  compute_shape a, b;
  bool transpose_a, transpose_b; /* by a transpose node of the last two axes */
  epilogue epilogue;
} product_case;

static compute_node swap_last(compute_graph *graph, compute_node x) {
  const compute_shape shape = compute_node_shape(graph, x);
  compute_axes order = {.count = shape.rank};
  for (int32_t i = 0; i < shape.rank; i++) order.axis[i] = i;
  order.axis[shape.rank - 1] = shape.rank - 2;
  order.axis[shape.rank - 2] = shape.rank - 1;
  return compute_transpose(graph, x, order);
}

static compute_node build_product(compute_graph *graph, const compute_node *operands,
                                  const void *user) {
  const product_case *c = user;
  const compute_node a = c->transpose_a ? swap_last(graph, operands[0]) : operands[0];
  const compute_node b = c->transpose_b ? swap_last(graph, operands[1]) : operands[1];
  const compute_node y = compute_matmul(graph, a, b);
  const compute_dtype dtype = compute_node_dtype(graph, y);
  switch (c->epilogue) {
  case PLAIN: return y;
  case BIAS_GELU: return compute_gelu(graph, compute_add(graph, y, operands[2]));
  case BIAS_RESIDUAL:
    return compute_add(graph, compute_relu(graph, compute_add(graph, y, operands[2])), y);
  case SCALED_SUM:
    return compute_add(graph, compute_mul(graph, y, compute_scalar(graph, dtype, 0.5)),
                       operands[2]);
  case CAST_RESULT: break;
  }
  return compute_cast(graph, y, COMPUTE_F32);
}

/* The length of the product's inner axis. */
static double inner_size(const product_case *c) {
  const compute_shape *a = &c->a;
  if (a->rank == 0) return 1;
  if (a->rank == 1) return (double)a->size[0];
  return (double)a->size[c->transpose_a ? a->rank - 2 : a->rank - 1];
}

static void check_product(const char *name, const product_case *c, compute_dtype dtype,
                          compute_shape extra, guarded_layout layout, guarded_layout result) {
  const double unit = dtype == COMPUTE_F64 ? 0x1p-52 : 0x1p-23, high = 2;
  const double half = dtype == COMPUTE_F16 ? 0x1p-11 : dtype == COMPUTE_BF16 ? 0x1p-8 : 0;
  /* Each of the k roundings is relative to a partial sum, and partial sums grow like a random
   * walk. */
  const double k = inner_size(c), scale = high * high;
  test_tolerance tolerance = {.ulp = 2, .atol = unit * scale * (k + 8)};
  if (c->epilogue != PLAIN) { /* without fusion, the product is first rounded to its storage type */
    tolerance.rtol = 2 * half + 16 * unit;
    tolerance.atol = 2 * tolerance.atol + 4 * half * scale * sqrt(k + 1);
  }
  operation_case sample = {.name = name,
                           .build = build_product,
                           .user = c,
                           .operand_count = c->epilogue == PLAIN ? 2 : 3,
                           .result_layout = result,
                           .tolerance = tolerance,
                           .operation = c->epilogue == PLAIN ? "matmul" : NULL};
  sample.operand[0] = (operation_operand){dtype, c->a, FILL_RANGE, -high, high, layout};
  sample.operand[1] = (operation_operand){dtype, c->b, FILL_RANGE, -high, high, layout};
  sample.operand[2] = (operation_operand){dtype, extra, FILL_RANGE, -high, high, LAYOUT_DENSE};
  operation_check(test_context, &sample);
}

static const product_case plain_cases[] = {
    {.a = SHAPE(1, 1), .b = SHAPE(1, 1)},
    {.a = SHAPE(7, 13), .b = SHAPE(13, 31)},
    {.a = SHAPE(31, 7), .b = SHAPE(7, 13)},
    {.a = SHAPE(1, 97), .b = SHAPE(97, 61)},
    {.a = SHAPE(97, 61), .b = SHAPE(61, 1)},
    {.a = SHAPE(67, 129), .b = SHAPE(129, 65)},
    {.a = SHAPE(13, 1), .b = SHAPE(1, 17)},
    {.a = SHAPE(0, 5), .b = SHAPE(5, 3)},
    {.a = SHAPE(3, 5), .b = SHAPE(5, 0)},
    {.a = SHAPE(3, 0), .b = SHAPE(0, 4)}, /* an empty inner axis: zeros */
    {.a = SHAPE(13), .b = SHAPE(13)},
    {.a = SHAPE(13), .b = SHAPE(13, 7)},
    {.a = SHAPE(7, 13), .b = SHAPE(13)},
    {.a = SHAPE(3, 7, 13), .b = SHAPE(13)},
    {.a = SHAPE(13), .b = SHAPE(3, 13, 7)},
    {.a = SHAPE(3, 7, 13), .b = SHAPE(3, 13, 5)},
    {.a = SHAPE(3, 7, 13), .b = SHAPE(13, 5)},
    {.a = SHAPE(7, 13), .b = SHAPE(3, 13, 5)},
    {.a = SHAPE(2, 1, 7, 13), .b = SHAPE(5, 13, 3)},
    {.a = SHAPE(2, 5, 1, 13), .b = SHAPE(1, 5, 13, 3)},
    {.a = SHAPE(0, 7, 13), .b = SHAPE(13, 5)},
    {.a = SHAPE(13, 7), .b = SHAPE(13, 31), .transpose_a = true},
    {.a = SHAPE(7, 13), .b = SHAPE(31, 13), .transpose_b = true},
    {.a = SHAPE(13, 7), .b = SHAPE(31, 13), .transpose_a = true, .transpose_b = true},
    {.a = SHAPE(3, 13, 7), .b = SHAPE(3, 31, 13), .transpose_a = true, .transpose_b = true},
};

static void products_of_every_shape_match(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof plain_cases / sizeof *plain_cases; i++)
    for (const compute_dtype *dtype = operation_dtypes("number"); *dtype; dtype++)
      check_product("matmul", &plain_cases[i], *dtype, COMPUTE_SCALAR, LAYOUT_DENSE, LAYOUT_DENSE);
  operation_finish();
}

static void operands_and_results_of_any_layout_match(void **state) {
  (void)state;
  static const guarded_layout results[] = {LAYOUT_PADDED, LAYOUT_TRANSPOSED, LAYOUT_STEPPED,
                                           LAYOUT_WRAPPED};
  for (size_t i = 0; i < sizeof plain_cases / sizeof *plain_cases; i++) {
    for (int layout = LAYOUT_STEPPED; layout < LAYOUT_COUNT; layout++) {
      check_product("matmul", &plain_cases[i], COMPUTE_F32, COMPUTE_SCALAR, (guarded_layout)layout,
                    results[(i + (size_t)layout) % 4]);
      check_product("matmul", &plain_cases[i], COMPUTE_F64, COMPUTE_SCALAR, (guarded_layout)layout,
                    LAYOUT_DENSE);
    }
  }
  operation_finish();
}

static void epilogues_match(void **state) {
  (void)state;
  static const product_case cases[] = {
      {.a = SHAPE(67, 31), .b = SHAPE(31, 129), .epilogue = BIAS_GELU},
      {.a = SHAPE(67, 31), .b = SHAPE(31, 129), .epilogue = BIAS_RESIDUAL},
      {.a = SHAPE(67, 31), .b = SHAPE(31, 129), .epilogue = SCALED_SUM},
      {.a = SHAPE(67, 31), .b = SHAPE(129, 31), .transpose_b = true, .epilogue = BIAS_GELU},
      {.a = SHAPE(5, 7, 31), .b = SHAPE(31, 129), .epilogue = BIAS_GELU},
      {.a = SHAPE(3, 0), .b = SHAPE(0, 129), .epilogue = BIAS_GELU},
      {.a = SHAPE(67, 31), .b = SHAPE(31, 129), .epilogue = CAST_RESULT},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (const compute_dtype *dtype = operation_dtypes("float"); *dtype; dtype++) {
      check_product("matmul + bias row", &cases[i], *dtype, COMPUTE_SHAPE(129), LAYOUT_DENSE,
                    LAYOUT_DENSE);
      check_product("matmul + scalar", &cases[i], *dtype, COMPUTE_SHAPE(1, 1), LAYOUT_DENSE,
                    LAYOUT_TRANSPOSED);
    }
  }
  operation_finish();
}

/* More than one tile of every blocking that a backend might use, with ragged edges. */
static void large_products_match(void **state) {
  (void)state;
  static const product_case cases[] = {
      {.a = SHAPE(517, 131), .b = SHAPE(131, 643), .epilogue = BIAS_GELU},
      {.a = SHAPE(131, 517), .b = SHAPE(643, 131), .transpose_a = true, .transpose_b = true},
      {.a = SHAPE(5, 2049), .b = SHAPE(2049, 517)},
      {.a = SHAPE(1031, 3), .b = SHAPE(3, 1033)},
  };
  static const struct {
    compute_dtype dtype;
    guarded_layout layout;
  } ways[] = {{COMPUTE_F32, LAYOUT_DENSE},
              {COMPUTE_F32, LAYOUT_PADDED},
              {COMPUTE_BF16, LAYOUT_DENSE},
              {COMPUTE_F64, LAYOUT_DENSE}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++)
      if (test_in_turn(i + k))
        check_product("matmul", &cases[i], ways[k].dtype, COMPUTE_SHAPE(1), ways[k].layout,
                      ways[k].layout);
  operation_finish();
}

/* A NaN in one operand reaches its row (or column) only; 0 · inf is NaN. */
static void nan_and_infinity_reach_their_row_only(void **state) {
  (void)state;
  float a[3][2] = {{1, 2}, {NAN, 1}, {0, 1}}, b[2][2] = {{INFINITY, 1}, {1, 1}}, c[3][2];
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3, 2));
  const compute_node w = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 2));
  const compute_node y = compute_matmul(graph, x, w);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_tensor *tx = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3, 2), a);
  compute_tensor *tw = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 2), b);
  compute_tensor *ty = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3, 2), NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{x, tx}, {w, tw}, {y, ty}}, 3, NULL));
  assert_ok(compute_tensor_read(ty, c, sizeof c));
  assert_true(isinf(c[0][0]) && c[0][1] == 3);
  assert_true(isnan(c[1][0]) && isnan(c[1][1]));
  assert_true(isnan(c[2][0]) && c[2][1] == 1);
  compute_tensor_release(tx);
  compute_tensor_release(tw);
  compute_tensor_release(ty);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* A product of narrow dtypes, which may differ, with a result of the wide dtype. */
static compute_node build_widened(compute_graph *graph, const compute_node *operands,
                                  const void *user) {
  const compute_dtype *wide = user;
  return compute_matmul(graph, compute_cast(graph, operands[0], *wide),
                        compute_cast(graph, operands[1], *wide));
}

static uint32_t steps_of(compute_graph *graph, compute_node result) {
  compute_plan *plan = test_compile(graph, &result, 1, 0);
  compute_plan_info info;
  assert_ok(compute_plan_describe(plan, &info));
  compute_plan_release(plan);
  return info.steps;
}

static void products_of_widened_integers_need_no_widened_copies(void **state) {
  (void)state;
  static const struct {
    compute_dtype a, b, wide;
    uint32_t steps;
  } cases[] = {
      {COMPUTE_I8, COMPUTE_I8, COMPUTE_I32, 1},  {COMPUTE_U8, COMPUTE_I8, COMPUTE_I32, 1},
      {COMPUTE_I16, COMPUTE_U8, COMPUTE_I32, 1}, {COMPUTE_U32, COMPUTE_U32, COMPUTE_I64, 1},
      {COMPUTE_I8, COMPUTE_I8, COMPUTE_I64, 3},  {COMPUTE_I8, COMPUTE_U32, COMPUTE_I64, 3}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    operation_case sample = {.name = "matmul of widened integers",
                             .build = build_widened,
                             .user = &cases[i].wide,
                             .operand_count = 2};
    sample.operand[0] =
        (operation_operand){cases[i].a, SHAPE(33, 67), FILL_SPECIAL, -100, 100, LAYOUT_DENSE};
    sample.operand[1] =
        (operation_operand){cases[i].b, SHAPE(67, 41), FILL_SPECIAL, -100, 100, LAYOUT_TRANSPOSED};
    operation_check(test_context, &sample);
    compute_graph *graph = compute_graph_create(test_context);
    const compute_node operands[2] = {compute_input(graph, cases[i].a, COMPUTE_SHAPE(33, 67)),
                                      compute_input(graph, cases[i].b, COMPUTE_SHAPE(67, 41))};
    assert_int_equal(steps_of(graph, build_widened(graph, operands, &cases[i].wide)),
                     cases[i].steps);
    compute_graph_release(graph);
  }
  operation_finish();
}

/* ---- Products of 8-bit integers -------------------------------------------------------------- */

typedef struct integer_case {
  bool a_zero, b_zero; /* operand 2 and, without it, operand 3 */
  bool requantized;    /* to u8, as in quantized networks after each product */
} integer_case;

static compute_node build_integer(compute_graph *graph, const compute_node *operands,
                                  const void *user) {
  const integer_case *c = user;
  const compute_node a_zero = c->a_zero ? operands[2] : (compute_node){0};
  const compute_node b_zero = c->b_zero ? operands[2 + c->a_zero] : (compute_node){0};
  compute_node y = compute_matmul_integer(graph, operands[0], operands[1], a_zero, b_zero);
  if (!c->requantized) return y;
  y = compute_mul(graph, compute_cast(graph, y, COMPUTE_F32),
                  compute_scalar(graph, COMPUTE_F32, 0x1p-9));
  y = compute_add(graph, compute_round(graph, y), compute_scalar(graph, COMPUTE_F32, 100));
  return compute_cast(graph, compute_clamp(graph, y, 0, 255), COMPUTE_U8);
}

static void check_integers(const product_case *shapes, compute_dtype a, compute_dtype b,
                           integer_case c, compute_shape a_zero, compute_shape b_zero,
                           guarded_layout layout) {
  const bool plain = !c.a_zero && !c.b_zero && !c.requantized;
  operation_case sample = {.name = "matmul_integer",
                           .build = build_integer,
                           .user = &c,
                           .operand_count = 2u + c.a_zero + c.b_zero,
                           .operation = plain ? "matmul_integer" : NULL};
  sample.operand[0] = (operation_operand){a, shapes->a, FILL_SPECIAL, -128, 255, layout};
  sample.operand[1] = (operation_operand){b, shapes->b, FILL_SPECIAL, -128, 255, layout};
  if (c.a_zero) sample.operand[2] = (operation_operand){a, a_zero, FILL_RANGE, 1, 99, LAYOUT_DENSE};
  if (c.b_zero)
    sample.operand[2 + c.a_zero] = (operation_operand){b, b_zero, FILL_RANGE, 1, 99, LAYOUT_DENSE};
  operation_check(test_context, &sample);
}

static const compute_dtype bytes[] = {COMPUTE_U8, COMPUTE_I8};

static void integer_products_are_exact(void **state) {
  (void)state;
  static const integer_case plain = {0};
  for (size_t i = 0; i < sizeof plain_cases / sizeof *plain_cases; i++) {
    if (plain_cases[i].transpose_a || plain_cases[i].transpose_b) continue;
    for (int k = 0; k < 4; k++)
      check_integers(&plain_cases[i], bytes[k / 2], bytes[k % 2], plain, COMPUTE_SCALAR,
                     COMPUTE_SCALAR, i % 2 ? LAYOUT_TRANSPOSED : LAYOUT_DENSE);
  }
  static const product_case large[] = {{.a = SHAPE(67, 1031), .b = SHAPE(1031, 129)},
                                       {.a = SHAPE(1, 517), .b = SHAPE(517, 643)},
                                       {.a = SHAPE(3, 31, 65), .b = SHAPE(3, 65, 47)},
                                       {.a = SHAPE(131, 2049), .b = SHAPE(2049, 3)},
                                       {.a = SHAPE(2, 33000), .b = SHAPE(33000, 5)}};
  for (size_t i = 0; i < sizeof large / sizeof *large; i++)
    for (int k = 0; k < 4; k++)
      for (int layout = LAYOUT_DENSE; layout < LAYOUT_COUNT; layout++)
        check_integers(&large[i], bytes[k / 2], bytes[k % 2], plain, COMPUTE_SCALAR, COMPUTE_SCALAR,
                       (guarded_layout)layout);
  operation_finish();
}

static void integer_products_with_zero_points_are_exact(void **state) {
  (void)state;
  static const struct {
    product_case shapes;
    compute_shape a_zero, b_zero;
  } cases[] = {{{.a = SHAPE(7, 13), .b = SHAPE(13, 31)}, {0}, {0}},
               {{.a = SHAPE(7, 130), .b = SHAPE(130, 31)}, SHAPE(7, 1), SHAPE(31)},
               {{.a = SHAPE(3, 7, 13), .b = SHAPE(13, 5)}, SHAPE(3, 1, 1), SHAPE(1, 5)},
               {{.a = SHAPE(7, 13), .b = SHAPE(3, 13, 5)}, SHAPE(7, 1), SHAPE(3, 1, 5)},
               {{.a = SHAPE(13), .b = SHAPE(13, 7)}, {0}, SHAPE(7)},
               {{.a = SHAPE(13), .b = SHAPE(2, 13, 7)}, {0}, SHAPE(2, 1, 7)},
               {{.a = SHAPE(7, 13), .b = SHAPE(13)}, SHAPE(7, 1), {0}},
               {{.a = SHAPE(13), .b = SHAPE(13)}, {0}, {0}},
               {{.a = SHAPE(3, 0), .b = SHAPE(0, 4)}, {0}, SHAPE(4)}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int k = 0; k < 16; k++) {
      const integer_case c = {(k >> 2) % 2, k >> 3, (i + (size_t)k) % 3 == 0};
      check_integers(&cases[i].shapes, bytes[k / 2 % 2], bytes[k % 2], c, cases[i].a_zero,
                     cases[i].b_zero, LAYOUT_DENSE);
    }
  operation_finish();
}

/* A product, the sums of a constant's columns, and the epilogue are one step. */
static void requantization_is_part_of_the_product(void **state) {
  (void)state;
  static const signed char weights[67 * 41] = {1, 2, 3};
  compute_graph *graph = compute_graph_create(test_context);
  const unsigned char zero = 7;
  const compute_node operands[3] = {
      compute_input(graph, COMPUTE_U8, COMPUTE_SHAPE(33, 67)),
      compute_constant(graph, COMPUTE_I8, COMPUTE_SHAPE(67, 41), weights),
      compute_constant(graph, COMPUTE_U8, COMPUTE_SCALAR, &zero)};
  const integer_case c = {.a_zero = true, .requantized = true};
  assert_int_equal(steps_of(graph, build_integer(graph, operands, &c)), 1);
  compute_graph_release(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_of_every_shape_match),
      cmocka_unit_test(operands_and_results_of_any_layout_match),
      cmocka_unit_test(epilogues_match),
      cmocka_unit_test(large_products_match),
      cmocka_unit_test(nan_and_infinity_reach_their_row_only),
      cmocka_unit_test(integer_products_are_exact),
      cmocka_unit_test(integer_products_with_zero_points_are_exact),
      cmocka_unit_test(requantization_is_part_of_the_product),
      cmocka_unit_test(products_of_widened_integers_need_no_widened_copies),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
