/* SPDX-License-Identifier: MIT */
/* SGD and Adam steps compared with the textbook formulas, in double, for several steps. The
 * reference evaluator runs the graph, and the test carries the state from step to step like a
 * plan. */
#include "support/harness/test.h"

#include <math.h>
#include <string.h>

#include "graph/node/graph.h"
#include "support/reference/graph_evaluate.h"

enum { COUNT = 3, STEPS = 5, MOST_PARAMETERS = 8 };

static const double start[COUNT] = {1.5, -0.75, 0.25}, target[COUNT] = {0.5, 0.5, -2};

/* A graph that pulls one parameter towards `target`: loss = Σ (p − target)² / 2. */
typedef struct training {
  compute_graph *graph;
  compute_node parameter, loss;
} training;

static training create_training(compute_dtype dtype, const char *name) {
  training t = {.graph = compute_graph_create(test_context)};
  compute_tensor *wide = test_tensor(test_context, COMPUTE_F64, COMPUTE_SHAPE(COUNT), start);
  compute_tensor *tensor = test_tensor(test_context, dtype, COMPUTE_SHAPE(COUNT), NULL);
  assert_ok(compute_tensor_copy(tensor, wide));
  t.parameter = compute_parameter(t.graph, tensor);
  if (name) compute_name(t.graph, t.parameter, name);
  compute_tensor_release(wide);
  compute_tensor_release(tensor);
  compute_node goal = compute_constant(t.graph, COMPUTE_F64, COMPUTE_SHAPE(COUNT), target);
  compute_node error = compute_sub(t.graph, t.parameter, compute_cast(t.graph, goal, dtype));
  compute_node half = compute_scalar(t.graph, dtype, 0.5);
  compute_node square = compute_mul(t.graph, half, compute_square(t.graph, error));
  t.loss = compute_sum(t.graph, square, COMPUTE_ALL_AXES, false);
  return t;
}

/* The assignments below a group node. */
static size_t assignments(const training *t, compute_node group, compute_node *list) {
  const graph_node *node = &t->graph->nodes[group.id - 1];
  assert_int_equal(node->op, OP_group);
  assert_true(node->input_count <= MOST_PARAMETERS);
  for (uint32_t i = 0; i < node->input_count; i++) {
    list[i] = graph_handle(t->graph, node->inputs[i]);
    assert_int_equal(t->graph->nodes[node->inputs[i]].op, OP_assign);
  }
  return node->input_count;
}

/* Runs the group STEPS times; parameters[s] is the parameter after step s + 1. */
static void run_steps(const training *t, compute_node group, double parameters[STEPS][COUNT]) {
  compute_node list[MOST_PARAMETERS];
  evaluate_value values[MOST_PARAMETERS];
  evaluate_binding bindings[MOST_PARAMETERS] = {{{0}, NULL, NULL}};
  double state[MOST_PARAMETERS][COUNT];
  char reason[128];
  assert_ok(compute_graph_status(t->graph));
  const size_t count = assignments(t, group, list);
  for (int step = 0; step < STEPS; step++) {
    /* In the first step nothing is bound: the tensors themselves contain the initial state. */
    if (!graph_evaluate(t->graph, bindings, step == 0 ? 0 : count, list, count, values, reason,
                        sizeof reason)) {
      fail_msg("%s", reason);
    }
    for (size_t i = 0; i < count; i++) {
      const uint32_t written = t->graph->nodes[list[i].id - 1].inputs[0];
      for (int64_t k = 0; k < values[i].count; k++) state[i][k] = evaluate_get(&values[i], k);
      bindings[i] = (evaluate_binding){graph_handle(t->graph, written), state[i], NULL};
      if (written == t->parameter.id - 1) memcpy(parameters[step], state[i], sizeof state[i]);
      evaluate_release(&values[i]);
    }
  }
}

static void expect_steps(double (*actual)[COUNT], double (*expected)[COUNT], double tolerance) {
  for (int step = 0; step < STEPS; step++) {
    for (int k = 0; k < COUNT; k++) {
      if (!(fabs(actual[step][k] - expected[step][k]) <= tolerance)) {
        fail_msg("step %d, element %d: %.12g instead of %.12g", step + 1, k, actual[step][k],
                 expected[step][k]);
      }
    }
  }
}

static void expect_parameter(const training *t, size_t index, const char *name, compute_dtype dtype,
                             int32_t rank) {
  compute_node node = compute_parameter_at(t->graph, index);
  assert_true(compute_node_is_valid(node));
  assert_string_equal(t->graph->nodes[node.id - 1].name, name);
  assert_int_equal(compute_node_dtype(t->graph, node), dtype);
  assert_int_equal(compute_node_shape(t->graph, node).rank, rank);
}

/* ---- SGD ----------------------------------------------------------------------------------- */

static void textbook_sgd(const compute_sgd_options *o, double rate, double p[STEPS][COUNT]) {
  double value[COUNT], velocity[COUNT] = {0};
  memcpy(value, start, sizeof value);
  for (int step = 0; step < STEPS; step++) {
    for (int k = 0; k < COUNT; k++) {
      double g = value[k] - target[k] + o->weight_decay * value[k];
      velocity[k] = o->momentum * velocity[k] + g;
      const double momentum = o->nesterov ? g + o->momentum * velocity[k] : velocity[k];
      value[k] -= rate * (o->momentum != 0 ? momentum : g);
    }
    memcpy(p[step], value, sizeof value);
  }
}

static void check_sgd(const compute_sgd_options *options) {
  double actual[STEPS][COUNT] = {{0}}, expected[STEPS][COUNT];
  training t = create_training(COMPUTE_F64, NULL);
  compute_node group = compute_sgd_step(t.graph, t.loss, &t.parameter, 1, options);
  run_steps(&t, group, actual);
  const compute_sgd_options none = {0}, *o = options ? options : &none;
  textbook_sgd(o, o->learning_rate != 0 ? o->learning_rate : 0.01, expected);
  expect_steps(actual, expected, 1e-14);
  if (o->momentum != 0) expect_parameter(&t, 1, "0.momentum", COMPUTE_F64, 1);
  compute_graph_release(t.graph);
}

static void sgd_follows_the_textbook(void **state) {
  (void)state;
  check_sgd(NULL);
  check_sgd(&(compute_sgd_options){.learning_rate = 0.1});
  check_sgd(&(compute_sgd_options){.learning_rate = 0.1, .momentum = 0.9});
  check_sgd(&(compute_sgd_options){.learning_rate = 0.1, .momentum = 0.9, .nesterov = true});
  check_sgd(&(compute_sgd_options){.learning_rate = 0.1, .weight_decay = 0.05});
  check_sgd(&(compute_sgd_options){
      .learning_rate = 0.1, .momentum = 0.8, .weight_decay = 0.05, .nesterov = true});
}

/* ---- Adam ---------------------------------------------------------------------------------- */

static void textbook_adam(const compute_adam_options *o, double p[STEPS][COUNT]) {
  double value[COUNT], m[COUNT] = {0}, v[COUNT] = {0};
  memcpy(value, start, sizeof value);
  for (int step = 0; step < STEPS; step++) {
    for (int k = 0; k < COUNT; k++) {
      double g = value[k] - target[k];
      if (o->decoupled) {
        value[k] -= o->learning_rate * o->weight_decay * value[k];
      } else {
        g += o->weight_decay * value[k];
      }
      m[k] = o->beta1 * m[k] + (1 - o->beta1) * g;
      v[k] = o->beta2 * v[k] + (1 - o->beta2) * g * g;
      const double m_hat = m[k] / (1 - pow(o->beta1, step + 1));
      const double v_hat = v[k] / (1 - pow(o->beta2, step + 1));
      value[k] -= o->learning_rate * m_hat / (sqrt(v_hat) + o->epsilon);
    }
    memcpy(p[step], value, sizeof value);
  }
}

static void check_adam(compute_adam_options o, compute_dtype dtype, double tolerance) {
  double actual[STEPS][COUNT] = {{0}}, expected[STEPS][COUNT];
  training t = create_training(dtype, "weights");
  compute_node group = compute_adam_step(t.graph, t.loss, &t.parameter, 1, &o);
  run_steps(&t, group, actual);
  if (o.learning_rate == 0) o.learning_rate = 0.001;
  if (o.beta1 == 0) o.beta1 = 0.9;
  if (o.beta2 == 0) o.beta2 = 0.999;
  if (o.epsilon == 0) o.epsilon = 1e-8;
  textbook_adam(&o, expected);
  expect_steps(actual, expected, tolerance);
  const compute_dtype work = dtype == COMPUTE_F64 ? COMPUTE_F64 : COMPUTE_F32;
  expect_parameter(&t, 1, "adam.step", work, 0);
  expect_parameter(&t, 2, "weights.adam_m", work, 1);
  expect_parameter(&t, 3, "weights.adam_v", work, 1);
  compute_graph_release(t.graph);
}

static void adam_follows_the_textbook(void **state) {
  (void)state;
  check_adam((compute_adam_options){0}, COMPUTE_F64, 1e-12);
  check_adam((compute_adam_options){.learning_rate = 0.1, .beta1 = 0.8, .beta2 = 0.9}, COMPUTE_F64,
             1e-12);
  check_adam((compute_adam_options){.learning_rate = 0.1, .weight_decay = 0.2}, COMPUTE_F64, 1e-12);
  check_adam((compute_adam_options){.learning_rate = 0.1, .weight_decay = 0.2, .decoupled = true},
             COMPUTE_F64, 1e-12);
  check_adam((compute_adam_options){.learning_rate = 0.1, .epsilon = 1e-3}, COMPUTE_F64, 1e-12);
}

static void low_precision_parameters_keep_f32_state(void **state) {
  (void)state;
  check_adam((compute_adam_options){.learning_rate = 0.1}, COMPUTE_F32, 1e-5);
  check_adam((compute_adam_options){.learning_rate = 0.1}, COMPUTE_F16, 1e-2);
  check_adam((compute_adam_options){.learning_rate = 0.1}, COMPUTE_BF16, 5e-2);
}

/* ---- As a plan ----------------------------------------------------------------------------- */

static void a_plan_takes_the_same_steps(void **state) {
  (void)state;
  const compute_adam_options o = {.learning_rate = 0.1,
                                  .beta1 = 0.8,
                                  .beta2 = 0.9,
                                  .epsilon = 1e-8,
                                  .weight_decay = 0.2,
                                  .decoupled = true};
  double actual[STEPS][COUNT], expected[STEPS][COUNT];
  training t = create_training(COMPUTE_F64, NULL);
  compute_node group = compute_adam_step(t.graph, t.loss, &t.parameter, 1, &o);
  compute_tensor *parameter = compute_parameter_tensor(t.graph, t.parameter);
  compute_plan *plan = test_compile(t.graph, &group, 1, 0);
  for (int step = 0; step < STEPS; step++) {
    assert_ok(compute_run(plan, NULL, 0, NULL));
    assert_ok(compute_tensor_read(parameter, actual[step], sizeof actual[step]));
  }
  textbook_adam(&o, expected);
  expect_steps(actual, expected, 1e-12);
  compute_plan_release(plan);
  compute_graph_release(t.graph);
}

/* ---- Learning rate, several parameters, errors --------------------------------------------- */

static void a_learning_rate_node_takes_precedence(void **state) {
  (void)state;
  double actual[STEPS][COUNT] = {{0}}, expected[STEPS][COUNT];
  training t = create_training(COMPUTE_F64, NULL);
  const compute_sgd_options o = {.learning_rate = 5,
                                 .learning_rate_node = compute_scalar(t.graph, COMPUTE_F32, 0.125)};
  run_steps(&t, compute_sgd_step(t.graph, t.loss, &t.parameter, 1, &o), actual);
  textbook_sgd(&o, 0.125, expected);
  expect_steps(actual, expected, 1e-14);
  compute_graph_release(t.graph);

  const compute_adam_options adam = {.learning_rate = 0.125};
  t = create_training(COMPUTE_F64, NULL);
  compute_adam_options with_node = {.learning_rate_node =
                                        compute_scalar(t.graph, COMPUTE_F64, 0.125)};
  run_steps(&t, compute_adam_step(t.graph, t.loss, &t.parameter, 1, &with_node), actual);
  compute_adam_options full = adam;
  full.beta1 = 0.9, full.beta2 = 0.999, full.epsilon = 1e-8;
  textbook_adam(&full, expected);
  expect_steps(actual, expected, 1e-12);
  compute_graph_release(t.graph);
}

static void parameters_of_several_dtypes_share_one_counter(void **state) {
  (void)state;
  training t = create_training(COMPUTE_F32, "first");
  compute_tensor *tensor = test_tensor(test_context, COMPUTE_F64, COMPUTE_SHAPE(2, 2), NULL);
  compute_node second = compute_parameter(t.graph, tensor), both[] = {t.parameter, second};
  compute_tensor_release(tensor);
  compute_node total = compute_sum(t.graph, second, COMPUTE_ALL_AXES, false);
  compute_node loss = compute_add(t.graph, t.loss, compute_cast(t.graph, total, COMPUTE_F32));
  compute_node group = compute_adam_step(t.graph, loss, both, 2, NULL);
  assert_ok(compute_graph_status(t.graph));
  assert_int_equal(t.graph->nodes[group.id - 1].input_count, 7);
  expect_parameter(&t, 2, "adam.step", COMPUTE_F64, 0);
  expect_parameter(&t, 3, "first.adam_m", COMPUTE_F32, 1);
  expect_parameter(&t, 5, "1.adam_m", COMPUTE_F64, 2);
  assert_false(compute_node_is_valid(compute_parameter_at(t.graph, 7)));
  compute_graph_release(t.graph);
}

static void state_outlives_a_memory_scope(void **state) {
  (void)state;
  training t = create_training(COMPUTE_F64, NULL);
  assert_ok(compute_memory_scope_push(test_context));
  compute_node group =
      compute_sgd_step(t.graph, t.loss, &t.parameter, 1, &(compute_sgd_options){.momentum = 0.5});
  assert_ok(compute_memory_scope_pop(test_context));
  assert_true(compute_node_is_valid(group));
  compute_tensor *momentum = compute_parameter_tensor(t.graph, compute_parameter_at(t.graph, 1));
  double values[COUNT] = {1, 1, 1};
  assert_ok(compute_tensor_read(momentum, values, sizeof values));
  assert_true(values[0] == 0 && values[1] == 0 && values[2] == 0);
  compute_graph_release(t.graph);
}

/* ---- Queries of the graph ------------------------------------------------------------------ */

static void the_graph_lists_the_state_of_its_optimizers(void **state) {
  (void)state;
  training t = create_training(COMPUTE_F32, "w");
  assert_int_equal(t.graph->state_count, 0);
  compute_adam_step(t.graph, t.loss, &t.parameter, 1, NULL);
  assert_ok(compute_graph_status(t.graph));
  assert_int_equal(t.graph->state_count, 3);
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(t.graph->nodes[t.graph->states[i]].op, OP_parameter);
  /* A failing call adds neither nodes nor state. */
  const size_t nodes = t.graph->count;
  compute_sgd_step(t.graph, t.loss, (compute_node[]){t.parameter, t.loss}, 2,
                   &(compute_sgd_options){.momentum = 0.5});
  assert_int_not_equal(compute_graph_status(t.graph), COMPUTE_OK);
  assert_int_equal(t.graph->count, nodes);
  assert_int_equal(t.graph->state_count, 3);
  graph_truncate(t.graph, t.graph->states[1]);
  assert_int_equal(t.graph->state_count, 1);
  compute_graph_release(t.graph);
}

typedef struct exchange {
  compute_tensor *from, *to;
  int asked;
  compute_status status;
} exchange;

static compute_status choose(void *user, compute_tensor *tensor, compute_tensor **other) {
  exchange *e = user;
  e->asked++;
  if (tensor == e->from) *other = e->to;
  return e->status;
}

static void parameters_can_take_other_tensors(void **state) {
  (void)state;
  training t = create_training(COMPUTE_F32, NULL);
  compute_tensor *second = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(COUNT), NULL);
  compute_tensor *other = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(COUNT), NULL);
  const compute_node b = compute_parameter(t.graph, second);
  exchange e = {.from = t.graph->nodes[t.parameter.id - 1].tensor, .to = other};
  assert_ok(graph_replace_tensors(t.graph, choose, &e));
  assert_int_equal(e.asked, 2);
  assert_ptr_equal(t.graph->nodes[t.parameter.id - 1].tensor, other);
  assert_ptr_equal(t.graph->nodes[b.id - 1].tensor, second);
  e = (exchange){.from = other, .to = second, .status = COMPUTE_ERROR_OUT_OF_MEMORY};
  assert_int_equal(graph_replace_tensors(t.graph, choose, &e), COMPUTE_ERROR_OUT_OF_MEMORY);
  assert_int_equal(e.asked, 1);
  assert_ptr_equal(t.graph->nodes[t.parameter.id - 1].tensor, other);
  compute_tensor_release(second);
  compute_tensor_release(other);
  compute_graph_release(t.graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sgd_follows_the_textbook),
      cmocka_unit_test(adam_follows_the_textbook),
      cmocka_unit_test(low_precision_parameters_keep_f32_state),
      cmocka_unit_test(a_plan_takes_the_same_steps),
      cmocka_unit_test(a_learning_rate_node_takes_precedence),
      cmocka_unit_test(parameters_of_several_dtypes_share_one_counter),
      cmocka_unit_test(state_outlives_a_memory_scope),
      cmocka_unit_test(the_graph_lists_the_state_of_its_optimizers),
      cmocka_unit_test(parameters_can_take_other_tensors),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
