/* SPDX-License-Identifier: MIT */
/* compute_graph_clear_error restores the graph to its state before the failing call, even if this
 * call had recorded some nodes. Building can continue. */
#include "support/harness/test.h"

#include <string.h>

#include "compute/graph_nn.h"
#include "compute/nn.h"
#include "compute/spots.h"
#include "graph/node/graph.h"

static compute_context *context;

static int open_context(void **state) {
  (void)state;
  context = test_open();
  return 0;
}

static int close_context(void **state) {
  (void)state;
  test_close(context);
  return 0;
}

static void nothing_to_clear_is_no_change(void **state) {
  (void)state;
  compute_graph *g = compute_graph_create(context);
  const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(3));
  compute_graph_clear_error(NULL);
  compute_graph_clear_error(g);
  assert_ok(compute_graph_status(g));
  assert_int_equal(compute_neg(g, x).id, 2);
  compute_graph_release(g);
}

/* An importer tries one form and, after a refusal, another. */
static void another_form_can_be_tried(void **state) {
  (void)state;
  compute_graph *g = compute_graph_create(context);
  const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(2, 3));
  const compute_node y = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(2));
  compute_node sum = compute_add(g, x, y);
  assert_false(compute_node_is_valid(sum));
  assert_false(compute_node_is_valid(compute_neg(g, x))); /* records nothing */
  assert_int_equal(compute_graph_status(g), COMPUTE_ERROR_SHAPE);
  compute_graph_clear_error(g);
  assert_ok(compute_graph_status(g));
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {10, 20};
  compute_tensor *ta = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(2, 3), a);
  compute_tensor *tb = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(2), b);
  compute_tensor *out = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(2, 3), NULL);
  sum = compute_add(g, x, compute_reshape(g, y, COMPUTE_SHAPE(2, 1)));
  assert_int_equal(sum.id, 4);
  compute_plan *plan = NULL;
  assert_ok(compute_compile(g, &sum, 1, NULL, &plan));
  assert_ok(compute_run(plan, (compute_binding[]){{x, ta}, {y, tb}, {sum, out}}, 3, NULL));
  float found[6];
  assert_ok(compute_tensor_read(out, found, sizeof found));
  assert_memory_equal(found, ((const float[]){11, 12, 13, 24, 25, 26}), sizeof found);
  compute_plan_release(plan);
  compute_tensor_release(ta);
  compute_tensor_release(tb);
  compute_tensor_release(out);
  compute_graph_release(g);
}

static void a_failed_node_stays_invalid_and_is_named(void **state) {
  (void)state;
  compute_graph *g = compute_graph_create(context);
  const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(2, 3));
  const compute_node failed = compute_reshape(g, x, COMPUTE_SHAPE(5));
  compute_graph_clear_error(g);
  assert_false(compute_node_is_valid(compute_mul(g, x, failed)));
  assert_int_equal(compute_graph_status(g), COMPUTE_ERROR_WRONG_GRAPH);
  test_check_message(context, "mul: operand 1 is {0}, the result of a failed call");
  compute_graph_release(g);
}

/* ---- Calls that record several nodes and fail between them --------------------------------- */

typedef struct model {
  compute_graph *g;
  compute_node x, w, loss;
  compute_layer *net;
  compute_forward forward;
} model;

/* The image is enlarged in one direction before the other direction overflows. */
static void upsample_too_far(model *m) {
  const compute_node image = compute_reshape(m->g, m->x, COMPUTE_SHAPE(1, 1, 2, 3));
  const size_t before = m->g->count;
  compute_upsample2d(m->g, image, INT64_C(1) << 40, (INT64_C(1) << 40) * 3,
                     COMPUTE_UPSAMPLE_NEAREST);
  assert_int_equal(m->g->count, before);
  graph_truncate(m->g, before - 1);
}

static void differentiate_through_integers(model *m) {
  const compute_node whole = compute_cast(m->g, m->w, COMPUTE_I32);
  const compute_node of[] = {m->w, m->x};
  const compute_node loss = compute_add(
      m->g, compute_sum(m->g, m->x, COMPUTE_ALL_AXES, false),
      compute_cast(m->g, compute_sum(m->g, whole, COMPUTE_ALL_AXES, false), COMPUTE_F32));
  compute_node gradients[2] = {{1, 1}, {1, 1}};
  const size_t before = m->g->count;
  assert_int_equal(compute_gradients(m->g, loss, of, 2, gradients),
                   COMPUTE_ERROR_NOT_DIFFERENTIABLE);
  for (int i = 0; i < 2; i++) assert_false(compute_node_is_valid(gradients[i]));
  assert_int_equal(m->g->count, before);
  graph_truncate(m->g, before - 5);
}

/* Gradients are recorded before the group turns out to be impossible. */
static void step_through_integers(model *m) {
  const compute_node loss = compute_sum(m->g, m->x, COMPUTE_ALL_AXES, false);
  const compute_node whole = compute_cast(m->g, m->w, COMPUTE_I32);
  const compute_node dead =
      compute_cast(m->g, compute_sum(m->g, whole, COMPUTE_ALL_AXES, false), COMPUTE_F32);
  const compute_node both = compute_add(m->g, loss, dead);
  const size_t before = m->g->count;
  compute_adam_step(m->g, both, &m->w, 1, NULL);
  assert_int_equal(m->g->count, before);
  graph_truncate(m->g, before - 5);
}

static void apply_a_network_that_does_not_fit(model *m) {
  compute_layer_apply(m->net, m->g, m->x, &m->forward);
}

static compute_node doubled_then_wrong(void *user, compute_graph *graph, compute_node x,
                                       const compute_node *parameters, bool training) {
  (void)user, (void)parameters, (void)training;
  return compute_matmul(graph, compute_add(graph, x, x), x);
}

static const struct failing_call {
  void (*call)(model *m);
  compute_status status;
} failing_calls[] = {
    {upsample_too_far, COMPUTE_ERROR_OVERFLOW},
    {differentiate_through_integers, COMPUTE_ERROR_NOT_DIFFERENTIABLE},
    {step_through_integers, COMPUTE_ERROR_NOT_DIFFERENTIABLE},
    {apply_a_network_that_does_not_fit, COMPUTE_ERROR_SHAPE},
};

static void calls_that_fail_half_way_leave_nothing(void **state) {
  (void)state;
  compute_tensor *weights = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(3, 3), NULL);
  compute_device *device = compute_tensor_device(weights);
  model m = {.g = compute_graph_create(context)};
  m.x = compute_input(m.g, COMPUTE_F32, COMPUTE_SHAPE(2, 3));
  m.w = compute_parameter(m.g, weights);
  m.net = compute_sequential(
      (compute_layer *[]){compute_dense(device, 3, 3, NULL),
                          compute_batch_norm_layer(device, 3, NULL),
                          compute_custom_layer("wrong", doubled_then_wrong, NULL, NULL, NULL, 0)},
      3);
  assert_non_null(m.net);
  m.forward.training = true;
  const compute_node kept = compute_assign(m.g, m.w, compute_neg(m.g, m.w));
  m.forward.updates = compute_group(m.g, &kept, 1);
  const compute_node updates = m.forward.updates;
  const size_t before = m.g->count;
  for (size_t i = 0; i < sizeof failing_calls / sizeof *failing_calls; i++) {
    failing_calls[i].call(&m);
    assert_int_equal(compute_graph_status(m.g), failing_calls[i].status);
    assert_int_equal(m.g->count, before);
    assert_memory_equal(&m.forward.updates, &updates, sizeof updates);
    assert_false(compute_node_is_valid(compute_parameter_at(m.g, 1)));
    compute_graph_clear_error(m.g);
    assert_int_equal(compute_neg(m.g, m.x).id, before + 1);
    graph_truncate(m.g, before);
  }
  compute_layer_release(m.net);
  compute_graph_release(m.g);
  compute_tensor_release(weights);
}

/* The same inside a custom layer: nodes recorded before the refusal stay. */
static compute_node one_form_or_another(void *user, compute_graph *graph, compute_node x,
                                        const compute_node *parameters, bool training) {
  (void)user, (void)parameters, (void)training;
  const compute_node twice = compute_add(graph, x, x);
  compute_node y = compute_matmul(graph, twice, x);
  if (compute_graph_status(graph) != COMPUTE_OK) {
    compute_graph_clear_error(graph);
    y = compute_matmul(graph, twice, compute_transpose(graph, x, COMPUTE_AXES(1, 0)));
  }
  return y;
}

static void a_layer_of_ones_own_can_try_forms(void **state) {
  (void)state;
  compute_graph *g = compute_graph_create(context);
  const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(2, 3));
  compute_layer *layer = compute_custom_layer("either", one_form_or_another, NULL, NULL, NULL, 0);
  const compute_node y = compute_layer_apply(layer, g, x, NULL);
  assert_ok(compute_graph_status(g));
  assert_int_equal(y.id, 4);
  compute_layer_release(layer);
  compute_graph_release(g);
}

/* Clipping replaces the caller's gradients only on success. */
static void gradients_that_cannot_be_clipped_stay(void **state) {
  (void)state;
  compute_graph *g = compute_graph_create(context);
  compute_node gradients[] = {compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(3)),
                              compute_input(g, COMPUTE_I32, COMPUTE_SHAPE(3))};
  const compute_node given[] = {gradients[0], gradients[1]};
  compute_clip_gradients(g, gradients, 2, 1, NULL);
  assert_int_equal(compute_graph_status(g), COMPUTE_ERROR_DTYPE);
  assert_memory_equal(gradients, given, sizeof given);
  compute_graph_clear_error(g);
  assert_int_equal(g->count, 2);
  compute_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_to_clear_is_no_change),
      cmocka_unit_test(another_form_can_be_tried),
      cmocka_unit_test(a_failed_node_stays_invalid_and_is_named),
      cmocka_unit_test(calls_that_fail_half_way_leave_nothing),
      cmocka_unit_test(a_layer_of_ones_own_can_try_forms),
      cmocka_unit_test(gradients_that_cannot_be_clipped_stay),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
