/* SPDX-License-Identifier: MIT */
/* The gradient of every differentiable operation against central differences, with broadcasting, of
 * losses and of gradients themselves. */
#include <math.h>

#include "support/samples/elementwise.h"
#include "support/harness/gradient.h"
#include "support/harness/test.h"

/* A sample of f64 operands with distinct values. */
static operation_case
make_case(const char *name,
          compute_node (*build)(compute_graph *, const compute_node *, const void *),
          const void *user, size_t count, const compute_shape *shapes, double low, double high) {
  operation_case sample = {.name = name, .build = build, .user = user, .operand_count = count};
  for (size_t i = 0; i < count; i++)
    /* A little apart for each operand, so that no two operands hold equal numbers. */
    sample.operand[i] = (operation_operand){COMPUTE_F64,   shapes[i],
                                            FILL_DISTINCT, low + 0.013 * (double)i * (high - low),
                                            high,          LAYOUT_DENSE};
  return sample;
}

/* ---- Elementwise --------------------------------------------------------------------------- */

static void every_elementwise_operation_has_its_derivative(void **state) {
  (void)state;
  static const compute_shape equal[3] = {SHAPE(4, 6), SHAPE(4, 6), SHAPE(4, 6)};
  static const compute_shape broadcast[3] = {SHAPE(4, 6), SHAPE(6), SHAPE(4, 1)};
  static const compute_shape swapped[3] = {SHAPE(2, 1), SHAPE(3, 1, 4), SCALAR};
  const compute_shape *const shapes[3] = {equal, broadcast, swapped};
  const elementwise_row *row;
  for (size_t i = 0; (row = elementwise_at(i)) != NULL; i++) {
    if (!row->differentiable) continue;
    for (int s = 0; s < 3; s++) {
      if (test_samples() > 1 && ((int)i + s) % 3 != 0) continue; /* the next takes another */
      /* Not so wide that one large term drowns the differences of the others. */
      operation_case sample = make_case(row->name, elementwise_build, row, (size_t)row->arity,
                                        shapes[s], fmax(row->low, -3), fmin(row->high, 4));
      if (row->arity == 3) {
        sample.operand[0].dtype = COMPUTE_BOOL;
        sample.operand[0].fill = FILL_RANGE;
      }
      gradient_check(test_context, &sample);
    }
  }
}

static compute_node build_clamp(compute_graph *graph, const compute_node *operands,
                                const void *user) {
  (void)user;
  return compute_clamp(graph, operands[0], -1.5, 2.5);
}

static void clamp_passes_its_gradient_inside_only(void **state) {
  (void)state;
  const compute_shape shape = COMPUTE_SHAPE(16);
  const operation_case sample = make_case("clamp", build_clamp, NULL, 1, &shape, -4, 4);
  gradient_check(test_context, &sample);
}

/* ---- Everything with a builder of its own --------------------------------------------------- */

typedef compute_node (*expression)(compute_graph *, const compute_node *);

typedef struct expression_case {
  const char *name;
  expression build;
  size_t count;
  compute_shape shapes[3];
  double low, high;
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

EXPRESSION(transposed, compute_transpose(g, x[0], COMPUTE_AXES(2, 0, 1)))
EXPRESSION(reshaped, compute_reshape(g, x[0], COMPUTE_SHAPE(-1, 4)))
EXPRESSION(sliced, compute_slice(g, x[0], 1, -3, 2, 2))
EXPRESSION(broadcasted, compute_broadcast(g, x[0], COMPUTE_SHAPE(3, 2, 4)))
EXPRESSION(concatenated, compute_concat(g, (compute_node[]){x[0], x[1], x[0]}, 3, 1))
EXPRESSION(embedded, compute_embed(g, x[0], 0, 7, 1, 2))
EXPRESSION(product, compute_matmul(g, x[0], x[1]))
EXPRESSION(product_left_transposed,
           compute_matmul(g, compute_transpose(g, x[0], COMPUTE_ALL_AXES), x[1]))
EXPRESSION(dense_layer, compute_gelu(g, compute_add(g, compute_matmul(g, x[0], x[1]), x[2])))
EXPRESSION(sum_all, compute_sum(g, compute_square(g, x[0]), COMPUTE_ALL_AXES, false))
EXPRESSION(sum_axes, compute_sum(g, compute_square(g, x[0]), COMPUTE_AXES(0, 2), false))
EXPRESSION(sum_keep, compute_sum(g, compute_square(g, x[0]), COMPUTE_AXES(-1), true))
EXPRESSION(mean_axes, compute_mean(g, compute_square(g, x[0]), COMPUTE_AXES(1), false))
EXPRESSION(prod_axes, compute_prod(g, x[0], COMPUTE_AXES(1), false))
EXPRESSION(prod_all, compute_prod(g, x[0], COMPUTE_ALL_AXES, true))
EXPRESSION(max_axes, compute_max(g, x[0], COMPUTE_AXES(0), false))
EXPRESSION(max_all, compute_max(g, x[0], COMPUTE_ALL_AXES, false))
EXPRESSION(min_axes, compute_min(g, x[0], COMPUTE_AXES(1, 2), true))
EXPRESSION(softmax_last, compute_softmax(g, x[0], -1))
EXPRESSION(softmax_first, compute_softmax(g, x[0], 0))
EXPRESSION(log_softmax_last, compute_log_softmax(g, x[0], -1))
EXPRESSION(log_softmax_middle, compute_log_softmax(g, x[0], 1))
EXPRESSION(normalized, compute_normalize(g, x[0], 1e-3))
EXPRESSION(layer_norm_full, compute_layer_norm(g, x[0], x[1], x[2], 1e-5))
EXPRESSION(layer_norm_bare, compute_layer_norm(g, x[0], (compute_node){0}, (compute_node){0}, 1e-5))
EXPRESSION(squared_error, compute_mean_squared_error(g, x[0], x[1]))
EXPRESSION(used_twice, compute_mul(g, compute_exp(g, x[0]), compute_add(g, x[0], x[0])))

static const expression_case expressions[] = {
    {"transpose", transposed, 1, {SHAPE(2, 3, 4)}, -2, 2},
    {"reshape", reshaped, 1, {SHAPE(2, 3, 4)}, -2, 2},
    {"slice", sliced, 1, {SHAPE(2, 6)}, -2, 2},
    {"broadcast", broadcasted, 1, {SHAPE(2, 1)}, -2, 2},
    {"concat", concatenated, 2, {SHAPE(2, 3), SHAPE(2, 1)}, -2, 2},
    {"embed", embedded, 1, {SHAPE(3, 2)}, -2, 2},
    {"matmul", product, 2, {SHAPE(3, 4), SHAPE(4, 2)}, -2, 2},
    {"matmul, batch", product, 2, {SHAPE(2, 3, 4), SHAPE(2, 4, 2)}, -2, 2},
    {"matmul, batch broadcast", product, 2, {SHAPE(2, 1, 3, 4), SHAPE(3, 4, 2)}, -2, 2},
    {"matmul, shared weights", product, 2, {SHAPE(2, 3, 4), SHAPE(4, 2)}, -2, 2},
    {"matmul, vector · matrix", product, 2, {SHAPE(4), SHAPE(4, 2)}, -2, 2},
    {"matmul, matrix · vector", product, 2, {SHAPE(3, 4), SHAPE(4)}, -2, 2},
    {"matmul, vector · vector", product, 2, {SHAPE(4), SHAPE(4)}, -2, 2},
    {"matmul, transposed", product_left_transposed, 2, {SHAPE(4, 3), SHAPE(4, 2)}, -2, 2},
    {"gelu(matmul + bias)", dense_layer, 3, {SHAPE(3, 4), SHAPE(4, 2), SHAPE(2)}, -1, 1},
    {"sum", sum_all, 1, {SHAPE(2, 3)}, -2, 2},
    {"sum of two axes", sum_axes, 1, {SHAPE(2, 3, 4)}, -2, 2},
    {"sum, axes kept", sum_keep, 1, {SHAPE(2, 3)}, -2, 2},
    {"mean", mean_axes, 1, {SHAPE(2, 3, 4)}, -2, 2},
    {"prod", prod_axes, 1, {SHAPE(2, 3, 2)}, 0.5, 2},
    {"prod of all", prod_all, 1, {SHAPE(2, 3)}, -2, 2},
    {"prod with a zero", prod_all, 1, {SHAPE(5)}, -2, 2},
    {"max", max_axes, 1, {SHAPE(4, 3)}, -2, 2},
    {"max of all", max_all, 1, {SHAPE(4, 3)}, -2, 2},
    {"min", min_axes, 1, {SHAPE(2, 3, 4)}, -2, 2},
    {"softmax", softmax_last, 1, {SHAPE(3, 5)}, -2, 2},
    {"softmax, first axis", softmax_first, 1, {SHAPE(3, 5)}, -2, 2},
    {"log_softmax", log_softmax_last, 1, {SHAPE(3, 5)}, -2, 2},
    {"log_softmax, middle axis", log_softmax_middle, 1, {SHAPE(2, 3, 2)}, -2, 2},
    {"normalize", normalized, 1, {SHAPE(3, 5)}, -2, 2},
    {"layer_norm", layer_norm_full, 3, {SHAPE(3, 5), SHAPE(5), SHAPE(5)}, -2, 2},
    {"layer_norm without gain", layer_norm_bare, 1, {SHAPE(3, 5)}, -2, 2},
    {"mean_squared_error", squared_error, 2, {SHAPE(3, 5), SHAPE(3, 5)}, -2, 2},
    {"a value used twice", used_twice, 1, {SHAPE(6)}, -2, 2},
};

static void every_other_operation_has_its_derivative(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
    const expression_case *c = &expressions[i];
    const operation_case sample =
        make_case(c->name, build_expression, c, c->count, c->shapes, c->low, c->high);
    gradient_check(test_context, &sample);
  }
}

/* ---- Indices as second operand --------------------------------------------------------------- */

EXPRESSION(gathered, compute_gather(g, x[0], x[1], 1))
EXPRESSION(gathered_elements, compute_gather_elements(g, x[0], x[1], 0))
EXPRESSION(scattered, compute_scatter_add(g, x[0], x[1], 0, 3))
EXPRESSION(scattered_elements, compute_scatter_add_elements(g, x[0], x[1], 1, COMPUTE_SHAPE(2, 3)))
EXPRESSION(entropy, compute_cross_entropy(g, x[0], x[1]))

static void indexed_operations_have_their_derivative(void **state) {
  (void)state;
  static const expression_case cases[] = {
      {"gather", gathered, 2, {SHAPE(2, 3, 2), SHAPE(2, 3)}, 0, 2},
      {"gather_elements", gathered_elements, 2, {SHAPE(3, 2), SHAPE(5, 2)}, 0, 2},
      {"scatter_add", scattered, 2, {SHAPE(5, 2), SHAPE(5)}, 0, 2},
      {"scatter_add_elements", scattered_elements, 2, {SHAPE(2, 4), SHAPE(2, 4)}, 0, 2},
      {"cross_entropy", entropy, 2, {SHAPE(4, 3), SHAPE(4)}, 0, 2},
      {"cross_entropy of tokens", entropy, 2, {SHAPE(2, 2, 3), SHAPE(2, 2)}, 0, 2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    operation_case sample =
        make_case(cases[i].name, build_expression, &cases[i], 2, cases[i].shapes, -2, 2);
    sample.operand[1].dtype = COMPUTE_I64;
    sample.operand[1].fill = FILL_RANGE;
    sample.operand[1].low = cases[i].low;
    sample.operand[1].high = cases[i].high;
    gradient_check(test_context, &sample);
    sample.operand[1].dtype = COMPUTE_I32;
    gradient_check(test_context, &sample);
  }
}

/* ---- Gradients of gradients ------------------------------------------------------------------ */

static compute_node build_second(compute_graph *graph, const compute_node *operands,
                                 const void *user) {
  const expression_case *c = user;
  const compute_node y = c->build(graph, operands);
  const compute_node loss = compute_sum(graph, compute_mul(graph, y, y), COMPUTE_ALL_AXES, false);
  compute_node gradient = {0};
  compute_gradients(graph, loss, operands, 1, &gradient);
  return gradient;
}

EXPRESSION(tanh_of, compute_tanh(g, x[0]))
EXPRESSION(sigmoid_of, compute_sigmoid(g, x[0]))
EXPRESSION(power_of, compute_pow(g, x[0], x[1]))
EXPRESSION(quotient_of, compute_div(g, x[1], x[0]))

static void gradients_can_be_differentiated_again(void **state) {
  (void)state;
  static const expression_case cases[] = {
      {"tanh", tanh_of, 1, {SHAPE(6)}, -1, 1},
      {"sigmoid", sigmoid_of, 1, {SHAPE(6)}, -2, 2},
      {"pow", power_of, 2, {SHAPE(6), SHAPE(6)}, 0.5, 2},
      {"div", quotient_of, 2, {SHAPE(6), SHAPE(6)}, 0.5, 2},
      {"matmul", product, 2, {SHAPE(2, 3), SHAPE(3, 2)}, -1, 1},
      {"softmax", softmax_last, 1, {SHAPE(2, 4)}, -1, 1},
      {"normalize", normalized, 1, {SHAPE(2, 4)}, -1, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const operation_case sample = make_case(cases[i].name, build_second, &cases[i], cases[i].count,
                                            cases[i].shapes, cases[i].low, cases[i].high);
    gradient_check(test_context, &sample);
  }
}

/* ---- Rules ----------------------------------------------------------------------------------- */

static void a_loss_without_dependence_has_gradient_zero(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3));
  const compute_node y = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3));
  const compute_node loss = compute_sum(graph, compute_square(graph, x), COMPUTE_ALL_AXES, false);
  compute_node gradient;
  assert_ok(compute_gradients(graph, loss, &y, 1, &gradient));
  compute_plan *plan = test_compile(graph, &gradient, 1, 0);
  compute_tensor *out = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3), NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{gradient, out}}, 1, NULL));
  for (int64_t i = 0; i < 3; i++) assert_true(test_element(out, i) == 0);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void a_step_function_has_gradient_zero(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3));
  const compute_node loss = compute_sum(graph, compute_floor(graph, x), COMPUTE_ALL_AXES, false);
  compute_node gradient;
  assert_ok(compute_gradients(graph, loss, &x, 1, &gradient));
  compute_plan *plan = test_compile(graph, &gradient, 1, 0);
  compute_tensor *in =
      test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3), (float[]){0.5F, 1.5F, -2});
  compute_tensor *out = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3), NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{x, in}, {gradient, out}}, 2, NULL));
  for (int64_t i = 0; i < 3; i++) assert_true(test_element(out, i) == 0);
  compute_tensor_release(in);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void a_path_without_derivative_is_named(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3));
  const compute_node position = compute_argmax(graph, x, 0, false);
  const compute_node loss = compute_cast(graph, position, COMPUTE_F32);
  compute_node gradient;
  assert_fails(compute_gradients(graph, loss, &x, 1, &gradient), COMPUTE_ERROR_NOT_DIFFERENTIABLE);
  test_check_message(test_context, "argmax");
  compute_graph_release(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_elementwise_operation_has_its_derivative),
      cmocka_unit_test(clamp_passes_its_gradient_inside_only),
      cmocka_unit_test(every_other_operation_has_its_derivative),
      cmocka_unit_test(indexed_operations_have_their_derivative),
      cmocka_unit_test(gradients_can_be_differentiated_again),
      cmocka_unit_test(a_loss_without_dependence_has_gradient_zero),
      cmocka_unit_test(a_step_function_has_gradient_zero),
      cmocka_unit_test(a_path_without_derivative_is_named),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
