/* SPDX-License-Identifier: MIT */
/* A device that computes nothing (null:0). With fallback, its plan runs on the CPU and reports
 * this. Without fallback, compilation fails with the device's reason. */
#include <string.h>

#include "support/harness/test.h"

static compute_context *context;
static compute_device *device;
static int warnings;

static void count_warnings(void *user, compute_log_level level, const char *module,
                           const char *message) {
  (void)user;
  (void)module;
  (void)message;
  warnings += level <= COMPUTE_LOG_WARNING;
}

static int set_up(void **state) {
  (void)state;
  context = NULL;
  assert_ok(compute_open(&context, NULL));
  assert_ok(compute_device_by_name(context, "null:0", &device));
  compute_log_set(count_warnings, NULL, COMPUTE_LOG_WARNING);
  warnings = 0;
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  compute_log_set(NULL, NULL, COMPUTE_LOG_OFF);
  test_close(context);
  return 0;
}

/* relu(x · w + b) summed, with a parameter on the null device. */
typedef struct model {
  compute_graph *graph;
  compute_tensor *weights;
  compute_node x, y;
} model;

static model create_model(void) {
  const float w[6] = {1, 2, 3, 4, 5, 6};
  model m = {.graph = compute_graph_create(context)};
  assert_ok(compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(3, 2), w, &m.weights));
  m.x = compute_input(m.graph, COMPUTE_F32, COMPUTE_SHAPE(4, 3));
  const compute_node w_node = compute_parameter(m.graph, m.weights);
  const compute_node hidden = compute_relu(m.graph, compute_matmul(m.graph, m.x, w_node));
  m.y = compute_sum(m.graph, hidden, COMPUTE_AXES(1), false);
  return m;
}

static void release_model(model *m) {
  compute_tensor_release(m->weights);
  compute_graph_release(m->graph);
}

static void run_and_check(const model *m, const compute_plan *plan) {
  const float x[12] = {1, 0, 0, 0, 1, 0, 0, 0, 1, -1, -1, -1};
  const double expected[4] = {3, 7, 11, 0};
  compute_tensor *tx = NULL, *ty = NULL;
  assert_ok(compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(4, 3), x, &tx));
  assert_ok(compute_plan_create_tensor(plan, m->y, &ty));
  assert_ptr_equal(compute_tensor_device(ty), device);
  assert_ok(compute_run(plan, (compute_binding[]){{m->x, tx}, {m->y, ty}}, 2, NULL));
  for (int i = 0; i < 4; i++) assert_true(test_element(ty, i) == expected[i]);
  compute_tensor_release(tx);
  compute_tensor_release(ty);
}

static void strict_compilation_fails_with_the_reason(void **state) {
  (void)state;
  model m = create_model();
  compute_plan *plan = NULL;
  const compute_plan_options options = {.device = device, .fallback = COMPUTE_FALLBACK_STRICT};
  assert_fails(compute_compile(m.graph, &m.y, 1, &options, &plan), COMPUTE_ERROR_UNSUPPORTED);
  assert_true(strlen(compute_error_message(context)) > 10);
  test_check_message(context, "null");
  assert_null(plan);
  release_model(&m);
}

static void silent_fallback_computes_on_the_cpu(void **state) {
  (void)state;
  model m = create_model();
  compute_plan *plan = NULL;
  const compute_plan_options options = {.device = device, .fallback = COMPUTE_FALLBACK_SILENT};
  assert_ok(compute_compile(m.graph, &m.y, 1, &options, &plan));
  compute_plan_info info;
  assert_ok(compute_plan_describe(plan, &info));
  assert_true(info.fallbacks > 0 && info.fallbacks <= info.steps);
  run_and_check(&m, plan);
  run_and_check(&m, plan);
  assert_int_equal(warnings, 0);
  compute_plan_release(plan);
  release_model(&m);
}

static void warn_and_explain(compute_fallback fallback) {
  model m = create_model();
  compute_plan *plan = NULL;
  char *text = NULL;
  const compute_plan_options options = {.device = device, .fallback = fallback};
  warnings = 0;
  assert_ok(compute_compile(m.graph, &m.y, 1, &options, &plan));
  assert_true(warnings > 0);
  assert_ok(compute_explain(plan, &text));
  assert_non_null(strstr(text, "cpu"));
  compute_text_free(text);
  run_and_check(&m, plan);
  compute_plan_release(plan);
  release_model(&m);
}

static void fallback_with_warning_warns_and_explains(void **state) {
  (void)state;
  warn_and_explain(COMPUTE_FALLBACK_WARN);
}

/* For a plan, 0 (the default of the options) is a warning. */
static void fallback_by_default_warns(void **state) {
  (void)state;
  warn_and_explain(COMPUTE_FALLBACK_DEFAULT);
  assert_int_equal(COMPUTE_FALLBACK_DEFAULT, 0);
}

/* A training step whose parameter is on the null device: assigned there, computed on the CPU. */
static void an_assignment_reaches_the_other_device(void **state) {
  (void)state;
  model m = create_model();
  const compute_node w = compute_parameter_at(m.graph, 0);
  const compute_node assign =
      compute_assign(m.graph, w, compute_mul(m.graph, w, compute_scalar(m.graph, COMPUTE_F32, 2)));
  compute_plan *plan = NULL;
  const compute_plan_options options = {.device = device, .fallback = COMPUTE_FALLBACK_SILENT};
  assert_ok(compute_compile(m.graph, &assign, 1, &options, &plan));
  assert_ok(compute_run(plan, NULL, 0, NULL));
  assert_ok(compute_run(plan, NULL, 0, NULL));
  for (int i = 0; i < 6; i++) assert_true(test_element(m.weights, i) == 4 * (i + 1));
  compute_plan_release(plan);
  release_model(&m);
}

/* CPU tensors bound to a plan of the other device are copied there and back. */
static void tensors_of_another_device_can_be_bound(void **state) {
  (void)state;
  model m = create_model();
  compute_plan *plan = NULL;
  compute_device *cpu = NULL;
  compute_tensor *tx = NULL, *ty = NULL;
  const compute_plan_options options = {.device = device, .fallback = COMPUTE_FALLBACK_SILENT};
  assert_ok(compute_compile(m.graph, &m.y, 1, &options, &plan));
  assert_ok(compute_device_by_name(context, "cpu", &cpu));
  assert_ok(compute_tensor_full(cpu, COMPUTE_F32, COMPUTE_SHAPE(4, 3), 1, &tx));
  assert_ok(compute_tensor_create(cpu, COMPUTE_F32, COMPUTE_SHAPE(4), &ty));
  assert_ok(compute_run(plan, (compute_binding[]){{m.x, tx}, {m.y, ty}}, 2, NULL));
  for (int i = 0; i < 4; i++) assert_true(test_element(ty, i) == 21);
  compute_tensor_release(tx);
  compute_tensor_release(ty);
  compute_plan_release(plan);
  release_model(&m);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(strict_compilation_fails_with_the_reason), TEST(silent_fallback_computes_on_the_cpu),
      TEST(fallback_with_warning_warns_and_explains), TEST(fallback_by_default_warns),
      TEST(an_assignment_reaches_the_other_device),   TEST(tensors_of_another_device_can_be_bound),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
