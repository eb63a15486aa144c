/* SPDX-License-Identifier: MIT */
/* The gradient of every differentiable operation compared with central differences, with
 * broadcasting, both of losses and of gradients. */
#include <math.h>
#include <string.h>

#include "support/samples/elementwise.h"
#include "support/samples/operation_samples.h"
#include "support/harness/gradient.h"
#include "support/harness/test.h"

/* A sample of f64 operands with distinct values. */
static operation_case
make_case(const char *name,
          compute_node (*build)(compute_graph *, const compute_node *, const void *),
          const void *user, size_t count, const compute_shape *shapes, double low, double high) {
  operation_case sample = {.name = name, .build = build, .user = user, .operand_count = count};
  for (size_t i = 0; i < count; i++)
    /* Each operand has a small offset, so that no two operands contain equal numbers. */
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
      if (test_samples() > 1 && ((int)i + s) % 3 != 0) continue; /* one of three shapes */
      /* A range narrow enough that one large term does not hide the differences of the others. */
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

/* ---- Others: the rows DERIVATIVE of tests/operations.def ------------------------------------- */

/* The device of a spread run compiles each row, and takes every second one. */
static void every_other_operation_has_its_derivative(void **state) {
  (void)state;
  const operation_sample *row;
  size_t number = 0;
  for (size_t i = 0; (row = operation_sample_at(i)) != NULL; i++) {
    if (!(row->uses & OPERATION_DERIVATIVE)) continue;
    if (test_samples() > 1 && number++ % 2 != 0) continue;
    operation_case sample = operation_sample_derivative(row);
    gradient_check(test_context, &sample);
    bool indexed = false;
    for (size_t k = 0; k < sample.operand_count; k++)
      if (sample.operand[k].dtype == COMPUTE_I64 && sample.operand[k].shape.rank > 0) {
        sample.operand[k].dtype = COMPUTE_I32;
        indexed = true;
      }
    if (indexed) gradient_check(test_context, &sample);
  }
}

/* ---- Gradients of gradients ------------------------------------------------------------------ */

/* The gradient of Σ y² by the first operand. */
static compute_node second(compute_graph *graph, const compute_node *operands, compute_node y) {
  const compute_node loss = compute_sum(graph, compute_mul(graph, y, y), COMPUTE_ALL_AXES, false);
  compute_node gradient = {0};
  compute_gradients(graph, loss, operands, 1, &gradient);
  return gradient;
}

static compute_node second_of_row(compute_graph *graph, const compute_node *operands,
                                  const void *user) {
  const operation_sample *row = user;
  return second(graph, operands, row->build(graph, operands, NULL));
}

static compute_node second_of_elementwise(compute_graph *graph, const compute_node *operands,
                                          const void *user) {
  return second(graph, operands, elementwise_build(graph, operands, user));
}

static void gradients_can_be_differentiated_again(void **state) {
  (void)state;
  const operation_sample *row;
  size_t number = 0;
  for (size_t i = 0; (row = operation_sample_at(i)) != NULL; i++) {
    if (!(row->uses & OPERATION_AGAIN)) continue;
    if (test_samples() > 1 && number++ % 2 != 0) continue;
    operation_case sample = operation_sample_derivative(row);
    sample.build = second_of_row;
    sample.user = row;
    gradient_check(test_context, &sample);
  }
}

static void elementwise_gradients_can_be_differentiated_again(void **state) {
  (void)state;
  static const struct {
    const char *name;
    double low, high;
  } cases[] = {{"tanh", -1, 1}, {"sigmoid", -2, 2}, {"pow", 0.5, 2}, {"div", 0.5, 2}};
  static const compute_shape shapes[2] = {SHAPE(6), SHAPE(6)};
  const elementwise_row *row;
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
    for (size_t i = 0; (row = elementwise_at(i)) != NULL; i++) {
      if (strcmp(row->name, cases[c].name) != 0) continue;
      const operation_case sample =
          make_case(row->name, second_of_elementwise, row, (size_t)row->arity, shapes, cases[c].low,
                    cases[c].high);
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
      cmocka_unit_test(every_other_operation_has_its_derivative),
      cmocka_unit_test(gradients_can_be_differentiated_again),
      cmocka_unit_test(elementwise_gradients_can_be_differentiated_again),
      cmocka_unit_test(a_loss_without_dependence_has_gradient_zero),
      cmocka_unit_test(a_step_function_has_gradient_zero),
      cmocka_unit_test(a_path_without_derivative_is_named),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
