/* SPDX-License-Identifier: MIT */
/* Optimizer steps as plans: compared with update rules computed by hand, and on a small problem
 * whose loss must fall. */
#include <math.h>
#include <string.h>

#include "support/harness/test.h"
#include "support/harness/values.h"

/* loss = sum((p − target)²), so that the gradient is 2 (p − target). */
typedef struct quadratic {
  compute_graph *graph;
  compute_tensor *tensor;
  compute_node parameter, loss;
} quadratic;

static const double start[3] = {1, -2, 3}, target[3] = {0.5, 0.25, -1};

static quadratic create_quadratic(void) {
  quadratic q = {.graph = compute_graph_create(test_context)};
  q.tensor = test_tensor(test_context, COMPUTE_F64, COMPUTE_SHAPE(3), start);
  q.parameter = compute_parameter(q.graph, q.tensor);
  const compute_node t = compute_constant(q.graph, COMPUTE_F64, COMPUTE_SHAPE(3), target);
  q.loss = compute_sum(q.graph, compute_square(q.graph, compute_sub(q.graph, q.parameter, t)),
                       COMPUTE_ALL_AXES, false);
  return q;
}

/* Runs `steps` steps and compares the parameter with `expected`. */
static void run_steps(quadratic *q, compute_node step, int steps, const double *expected) {
  compute_plan *plan = test_compile(q->graph, &step, 1, 0);
  for (int i = 0; i < steps; i++) assert_ok(compute_run(plan, NULL, 0, NULL));
  for (int i = 0; i < 3; i++) {
    const double got = test_element(q->tensor, i);
    if (!(fabs(got - expected[i]) <= 1e-12))
      fail_msg("parameter %d is %.15g, expected %.15g", i, got, expected[i]);
  }
  compute_plan_release(plan);
  compute_tensor_release(q->tensor);
  compute_graph_release(q->graph);
}

static void sgd_follows_its_rule(void **state) {
  (void)state;
  static const compute_sgd_options variants[] = {
      {.learning_rate = 0.1},
      {.learning_rate = 0.1, .weight_decay = 0.05},
      {.learning_rate = 0.1, .momentum = 0.9},
      {.learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01},
  };
  for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
    const compute_sgd_options *o = &variants[v];
    double p[3], m[3] = {0};
    memcpy(p, start, sizeof p);
    for (int step = 0; step < 5; step++) {
      for (int i = 0; i < 3; i++) {
        const double g = 2 * (p[i] - target[i]) + o->weight_decay * p[i];
        m[i] = o->momentum * m[i] + g;
        const double direction = o->momentum == 0 ? g : o->nesterov ? g + o->momentum * m[i] : m[i];
        p[i] -= o->learning_rate * direction;
      }
    }
    quadratic q = create_quadratic();
    run_steps(&q, compute_sgd_step(q.graph, q.loss, &q.parameter, 1, o), 5, p);
  }
}

static void adam_follows_its_rule(void **state) {
  (void)state;
  static const compute_adam_options variants[] = {
      {0},
      {.learning_rate = 0.1, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6},
      {.learning_rate = 0.1, .weight_decay = 0.05},
      {.learning_rate = 0.1, .weight_decay = 0.05, .decoupled = true},
  };
  for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
    const compute_adam_options *o = &variants[v];
    const double rate = o->learning_rate != 0 ? o->learning_rate : 0.001;
    const double b1 = o->beta1 != 0 ? o->beta1 : 0.9, b2 = o->beta2 != 0 ? o->beta2 : 0.999;
    const double epsilon = o->epsilon != 0 ? o->epsilon : 1e-8;
    double p[3], m[3] = {0}, s[3] = {0};
    memcpy(p, start, sizeof p);
    for (int step = 1; step <= 5; step++) {
      for (int i = 0; i < 3; i++) {
        double g = 2 * (p[i] - target[i]);
        if (!o->decoupled) g += o->weight_decay * p[i];
        m[i] = b1 * m[i] + (1 - b1) * g;
        s[i] = b2 * s[i] + (1 - b2) * g * g;
        const double mean = m[i] / (1 - pow(b1, step)), spread = s[i] / (1 - pow(b2, step));
        if (o->decoupled) p[i] -= rate * o->weight_decay * p[i];
        p[i] -= rate * mean / (sqrt(spread) + epsilon);
      }
    }
    quadratic q = create_quadratic();
    run_steps(&q, compute_adam_step(q.graph, q.loss, &q.parameter, 1, v == 0 ? NULL : o), 5, p);
  }
}

static void rmsprop_follows_its_rule(void **state) {
  (void)state;
  static const compute_rmsprop_options variants[] = {
      {0},
      {.learning_rate = 0.1, .alpha = 0.8, .epsilon = 1e-3},
      {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.05},
  };
  for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
    const compute_rmsprop_options *o = &variants[v];
    const double rate = o->learning_rate != 0 ? o->learning_rate : 0.01;
    const double alpha = o->alpha != 0 ? o->alpha : 0.99;
    const double epsilon = o->epsilon != 0 ? o->epsilon : 1e-8;
    double p[3], m[3] = {0}, s[3] = {0};
    memcpy(p, start, sizeof p);
    for (int step = 0; step < 5; step++) {
      for (int i = 0; i < 3; i++) {
        const double g = 2 * (p[i] - target[i]) + o->weight_decay * p[i];
        s[i] = alpha * s[i] + (1 - alpha) * g * g;
        m[i] = o->momentum * m[i] + g / (sqrt(s[i]) + epsilon);
        p[i] -= rate * m[i];
      }
    }
    quadratic q = create_quadratic();
    run_steps(&q, compute_rmsprop_step(q.graph, q.loss, &q.parameter, 1, v == 0 ? NULL : o), 5, p);
  }
}

/* The caller's gradients, clipped to a total length of 0.5. */
static void clipped_gradients_can_be_applied(void **state) {
  (void)state;
  double p[3];
  memcpy(p, start, sizeof p);
  for (int step = 0; step < 4; step++) {
    double g[3], square = 0;
    for (int i = 0; i < 3; i++) {
      g[i] = 2 * (p[i] - target[i]);
      square += 2 * g[i] * g[i];
    }
    for (int i = 0; i < 3; i++) p[i] -= 0.1 * g[i] * fmin(1, 0.5 / sqrt(square));
  }
  quadratic q = create_quadratic();
  compute_node gradients[2], norm;
  assert_ok(compute_gradients(q.graph, q.loss, &q.parameter, 1, gradients));
  gradients[1] = gradients[0]; /* counts towards the norm */
  compute_clip_gradients(q.graph, gradients, 2, 0.5, &norm);
  assert_int_equal(compute_node_shape(q.graph, norm).rank, 0);
  const compute_sgd_options options = {.learning_rate = 0.1};
  run_steps(&q, compute_sgd_apply(q.graph, &q.parameter, gradients, 1, &options), 4, p);
}

/* Applying the gradients of a loss equals a step of the loss. */
static void applying_the_gradients_of_a_loss_is_its_step(void **state) {
  (void)state;
  for (int kind = 0; kind < 2; kind++) {
    double p[3];
    quadratic a = create_quadratic(), b = create_quadratic();
    compute_node gradient;
    assert_ok(compute_gradients(b.graph, b.loss, &b.parameter, 1, &gradient));
    const compute_node step = kind ? compute_adam_step(a.graph, a.loss, &a.parameter, 1, NULL)
                                   : compute_rmsprop_step(a.graph, a.loss, &a.parameter, 1, NULL);
    compute_plan *plan = test_compile(a.graph, &step, 1, 0);
    for (int i = 0; i < 3; i++) assert_ok(compute_run(plan, NULL, 0, NULL));
    for (int i = 0; i < 3; i++) p[i] = test_element(a.tensor, i);
    compute_plan_release(plan);
    compute_tensor_release(a.tensor);
    compute_graph_release(a.graph);
    run_steps(&b,
              kind ? compute_adam_apply(b.graph, &b.parameter, &gradient, 1, NULL)
                   : compute_rmsprop_apply(b.graph, &b.parameter, &gradient, 1, NULL),
              3, p);
  }
}

static void gradients_that_do_not_fit_are_refused(void **state) {
  (void)state;
  quadratic q = create_quadratic();
  const compute_node wrong = compute_input(q.graph, COMPUTE_F64, COMPUTE_SHAPE(2));
  assert_false(compute_node_is_valid(compute_sgd_apply(q.graph, &q.parameter, &wrong, 1, NULL)));
  test_check_message(test_context, "gradients[0]");
  test_check_message(test_context, "[2]");
  compute_tensor_release(q.tensor);
  compute_graph_release(q.graph);
  q = create_quadratic();
  compute_node gradient = compute_input(q.graph, COMPUTE_F64, COMPUTE_SHAPE(3));
  compute_clip_gradients(q.graph, &gradient, 1, 0, NULL);
  test_check_message(test_context, "limit is 0");
  compute_tensor_release(q.tensor);
  compute_graph_release(q.graph);
}

static void a_learning_rate_node_takes_precedence(void **state) {
  (void)state;
  quadratic q = create_quadratic();
  const compute_node rate = compute_input(q.graph, COMPUTE_F64, COMPUTE_SCALAR);
  const compute_sgd_options options = {.learning_rate = 100, .learning_rate_node = rate};
  const compute_node step = compute_sgd_step(q.graph, q.loss, &q.parameter, 1, &options);
  compute_plan *plan = test_compile(q.graph, &step, 1, 0);
  double p[3];
  memcpy(p, start, sizeof p);
  for (int i = 1; i <= 3; i++) {
    const double value = 0.1 * i;
    compute_tensor *t = test_tensor(test_context, COMPUTE_F64, COMPUTE_SCALAR, &value);
    assert_ok(compute_run(plan, (compute_binding[]){{rate, t}}, 1, NULL));
    compute_tensor_release(t);
    for (int k = 0; k < 3; k++) p[k] -= value * 2 * (p[k] - target[k]);
  }
  for (int k = 0; k < 3; k++) assert_true(fabs(test_element(q.tensor, k) - p[k]) < 1e-12);
  compute_plan_release(plan);
  compute_tensor_release(q.tensor);
  compute_graph_release(q.graph);
}

/* ---- A classifier -------------------------------------------------------------------------- */

enum { SAMPLES = 96, FEATURES = 7, HIDDEN = 19, CLASSES = 3 };

/* Points around three centres: an easy problem, but not a linear one. */
static void make_data(float (*x)[FEATURES], int32_t *labels) {
  test_random random = {42};
  for (int i = 0; i < SAMPLES; i++) {
    labels[i] = (int32_t)(i % CLASSES);
    for (int k = 0; k < FEATURES; k++)
      x[i][k] = (float)(test_random_uniform(&random, -1, 1) + 2 * ((k + labels[i]) % CLASSES == 0));
  }
}

static compute_node random_parameter(compute_graph *graph, compute_dtype dtype, compute_shape shape,
                                     uint64_t seed) {
  compute_tensor *tensor = NULL;
  assert_ok(compute_tensor_random(compute_default_device(test_context), dtype, shape, -0.3, 0.3,
                                  seed, &tensor));
  const compute_node node = compute_parameter(graph, tensor);
  compute_tensor_release(tensor);
  return node;
}

/* Trains for 200 steps and returns the last loss. *first is the first loss. */
static double train(compute_dtype dtype, uint32_t flags, double *first) {
  static float x[SAMPLES][FEATURES];
  int32_t labels[SAMPLES];
  make_data(x, labels);
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node in = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(SAMPLES, FEATURES));
  const compute_node truth = compute_input(graph, COMPUTE_I32, COMPUTE_SHAPE(SAMPLES));
  const compute_node p[] = {random_parameter(graph, dtype, COMPUTE_SHAPE(FEATURES, HIDDEN), 1),
                            random_parameter(graph, dtype, COMPUTE_SHAPE(HIDDEN), 2),
                            random_parameter(graph, dtype, COMPUTE_SHAPE(HIDDEN, CLASSES), 3),
                            random_parameter(graph, dtype, COMPUTE_SHAPE(CLASSES), 4)};
  const compute_node hidden = compute_gelu(
      graph, compute_add(graph, compute_matmul(graph, compute_cast(graph, in, dtype), p[0]), p[1]));
  const compute_node logits = compute_add(graph, compute_matmul(graph, hidden, p[2]), p[3]);
  const compute_node loss = compute_cross_entropy(graph, logits, truth);
  const compute_node step =
      compute_adam_step(graph, loss, p, 4, &(compute_adam_options){.learning_rate = 0.01});
  const compute_node outputs[] = {loss, step};
  compute_plan *plan = test_compile(graph, outputs, 2, flags);
  compute_tensor *tx = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(SAMPLES, FEATURES), x);
  compute_tensor *tl = test_tensor(test_context, COMPUTE_I32, COMPUTE_SHAPE(SAMPLES), labels);
  compute_tensor *out = test_tensor(test_context, dtype, COMPUTE_SCALAR, NULL);
  double value = NAN;
  for (int i = 0; i < 200; i++) {
    assert_ok(compute_run(plan, (compute_binding[]){{in, tx}, {truth, tl}, {loss, out}}, 3, NULL));
    value = test_element(out, 0);
    assert_true(isfinite(value));
    if (i == 0) *first = value;
  }
  compute_tensor_release(tx);
  compute_tensor_release(tl);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(graph);
  return value;
}

static void training_lowers_the_loss(void **state) {
  (void)state;
  double first;
  const double last = train(COMPUTE_F32, 0, &first);
  assert_true(first > 0.8 && first < 1.6);
  assert_true(last < 0.05);
}

/* Fusion and simplification change only the order of roundings. */
static void training_does_not_depend_on_fusion(void **state) {
  (void)state;
  double first[2];
  const double fused = train(COMPUTE_F64, 0, &first[0]);
  const double plain =
      train(COMPUTE_F64, COMPUTE_PLAN_NO_FUSION | COMPUTE_PLAN_NO_SIMPLIFICATION, &first[1]);
  assert_true(fabs(first[0] - first[1]) < 1e-12);
  assert_true(fabs(fused - plain) < 1e-8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sgd_follows_its_rule),
      cmocka_unit_test(adam_follows_its_rule),
      cmocka_unit_test(rmsprop_follows_its_rule),
      cmocka_unit_test(clipped_gradients_can_be_applied),
      cmocka_unit_test(applying_the_gradients_of_a_loss_is_its_step),
      cmocka_unit_test(gradients_that_do_not_fit_are_refused),
      cmocka_unit_test(a_learning_rate_node_takes_precedence),
      cmocka_unit_test(training_lowers_the_loss),
      cmocka_unit_test(training_does_not_depend_on_fusion),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
