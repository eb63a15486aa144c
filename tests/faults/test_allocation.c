/* SPDX-License-Identifier: MIT */
/* A representative run in which the n-th host allocation fails, for n = 1, 2, … until none is left
 * to fail. Each time there is a clean status with its message, or an unharmed result. Nothing is
 * left behind, and the same run then succeeds. */
#include <stdlib.h>

#include "support/harness/failing_allocator.h"
#include "support/harness/test.h"

enum { MOST_ALLOCATIONS = 20000 };

/* Returns the status of the first failing step, or COMPUTE_OK. */
typedef compute_status (*representative)(compute_context *context);

/* ---- Training: a graph with gradients, an optimizer, two plans ----------------------------- */

static compute_status train(compute_context *context) {
  const float w[6] = {0.1F, 0.2F, 0.3F, -0.1F, -0.2F, -0.3F}, x[4] = {1, 2, 3, 4};
  compute_device *device = compute_default_device(context);
  compute_tensor *tw = NULL, *tx = NULL, *out = NULL;
  compute_graph *graph = NULL;
  compute_plan *plan = NULL;
  char *text = NULL;
  compute_status s = compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(2, 3), w, &tw);
  if (s == COMPUTE_OK)
    s = compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(2, 2), x, &tx);
  if (s != COMPUTE_OK) goto done;
  graph = compute_graph_create(context);
  if (!graph) {
    compute_error error;
    compute_error_get(context, &error);
    s = error.status;
    goto done;
  }
  const compute_node in = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 2));
  const compute_node p = compute_name(graph, compute_parameter(graph, tw), "weights");
  const compute_node logits = compute_tanh(graph, compute_matmul(graph, in, p));
  const int32_t labels[2] = {0, 2};
  const compute_node truth = compute_constant(graph, COMPUTE_I32, COMPUTE_SHAPE(2), labels);
  const compute_node loss = compute_cross_entropy(graph, logits, truth);
  const compute_node outputs[] = {loss, compute_adam_step(graph, loss, &p, 1, NULL)};
  s = compute_compile(graph, outputs, 2, &(compute_plan_options){.name = "training"}, &plan);
  if (s == COMPUTE_OK) s = compute_plan_create_tensor(plan, loss, &out);
  for (int i = 0; s == COMPUTE_OK && i < 2; i++)
    s = compute_run(plan, (compute_binding[]){{in, tx}, {loss, out}}, 2, NULL);
  if (s == COMPUTE_OK) s = compute_explain(plan, &text);
  float value = 0;
  if (s == COMPUTE_OK) s = compute_tensor_read(out, &value, sizeof value);
  if (s == COMPUTE_OK) assert_true(value > 0.6F && value < 1.6F);

done:
  compute_text_free(text);
  compute_tensor_release(out);
  compute_tensor_release(tw);
  compute_tensor_release(tx);
  compute_plan_release(plan);
  compute_graph_release(graph);
  return s;
}

/* ---- Eager calls in a memory scope, on a queue --------------------------------------------- */

static compute_status compute_at_once(compute_context *context) {
  compute_device *device = compute_default_device(context);
  compute_tensor *a = NULL, *b = NULL, *c = NULL, *view = NULL;
  compute_queue *queue = NULL;
  compute_event *event = NULL;
  compute_status s = compute_memory_scope_push(context);
  if (s != COMPUTE_OK) return s;
  s = compute_tensor_random(device, COMPUTE_F32, COMPUTE_SHAPE(5, 7), -1, 1, 3, &a);
  if (s == COMPUTE_OK) s = compute_tensor_transpose_view(a, COMPUTE_ALL_AXES, &view);
  if (s == COMPUTE_OK) s = compute_tensor_matmul(view, a, &b);
  if (s == COMPUTE_OK) s = compute_tensor_softmax(b, -1, &c);
  if (s == COMPUTE_OK) s = compute_queue_create(device, &queue);
  if (s == COMPUTE_OK) s = compute_event_record(queue, &event);
  if (s == COMPUTE_OK) s = compute_event_wait(event);
  compute_event_release(event);
  compute_queue_release(queue);
  const compute_status popped = compute_memory_scope_pop(context);
  return s != COMPUTE_OK ? s : popped;
}

/* ---- Custom functions: two outputs, a gradient, a constant that is folded ------------------ */

static int functions_alive;

static void let_go(void *user) {
  (void)user;
  functions_alive--;
}

static compute_status copy_twice(void *user, const compute_call_arguments *a, int32_t part,
                                 int32_t parts) {
  (void)user;
  (void)part;
  (void)parts;
  for (uint32_t k = 0; k < a->output_count; k++)
    for (int64_t i = 0; i < a->outputs[k].count; i++)
      ((float *)a->outputs[k].data)[i] = 2 * ((const float *)a->inputs[0].data)[i];
  return COMPUTE_OK;
}

static compute_status double_gradient(void *user, compute_graph *graph, const compute_node *inputs,
                                      const compute_node *outputs, const compute_node *up,
                                      compute_node *down) {
  (void)user;
  (void)inputs;
  (void)outputs;
  const compute_node both = compute_add(graph, up[0], up[1]);
  down[0] = compute_add(graph, both, both);
  return COMPUTE_OK;
}

static compute_status call_functions(compute_context *context) {
  static const compute_call_output outputs[] = {{COMPUTE_F32, {.rank = 1, .size = {4}}},
                                                {COMPUTE_F32, {.rank = 1, .size = {4}}}};
  const float values[4] = {1, 2, 3, 4};
  const compute_call_options options = {.name = "twice",
                                        .flags = COMPUTE_CALL_PURE,
                                        .parts = 3,
                                        .release = let_go,
                                        .gradient = double_gradient};
  compute_plan *plan = NULL;
  compute_tensor *tx = NULL, *ty = NULL;
  compute_graph *graph = compute_graph_create(context);
  if (!graph) return COMPUTE_ERROR_OUT_OF_MEMORY;
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(4));
  const compute_node c = compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(4), values);
  compute_node y[2], z[2], slope = {0};
  functions_alive += 2;
  compute_call(graph, copy_twice, NULL, &x, 1, outputs, 2, &options, y);
  compute_call(graph, copy_twice, NULL, &c, 1, outputs, 2, &options, z);
  const compute_node sum = compute_add(graph, compute_add(graph, y[0], y[1]), z[1]);
  const compute_node loss = compute_sum(graph, sum, COMPUTE_ALL_AXES, false);
  compute_status s = compute_gradients(graph, loss, &x, 1, &slope);
  if (s == COMPUTE_OK) s = compute_compile(graph, (compute_node[]){loss, slope}, 2, NULL, &plan);
  compute_graph_release(graph);
  compute_tensor *ts = NULL;
  compute_device *device = compute_default_device(context);
  if (s == COMPUTE_OK)
    s = compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(4), values, &tx);
  if (s == COMPUTE_OK) s = compute_plan_create_tensor(plan, loss, &ty);
  if (s == COMPUTE_OK) s = compute_plan_create_tensor(plan, slope, &ts);
  if (s == COMPUTE_OK)
    s = compute_run(plan, (compute_binding[]){{x, tx}, {loss, ty}, {slope, ts}}, 3, NULL);
  float value = 0;
  if (s == COMPUTE_OK) s = compute_tensor_read(ty, &value, sizeof value);
  if (s == COMPUTE_OK) assert_true(value == 60);
  compute_tensor_release(tx);
  compute_tensor_release(ty);
  compute_tensor_release(ts);
  compute_plan_release(plan);
  assert_int_equal(functions_alive, 0);
  return s;
}

/* ---- The sweep ------------------------------------------------------------------------------ */

/* Opens, runs and closes with the n-th allocation failing. Returns the run's status and sets the
 * number of failed allocations. All memory must have been released. */
static compute_status run_with_failure(representative run, int64_t nth, bool onward,
                                       int64_t *failures) {
  const char *device = getenv("COMPUTE_TEST_DEVICE");
  const compute_open_options options = {.device = device && device[0] ? device : "cpu"};
  compute_context *context = NULL;
  const int64_t live = failing_allocator_live();
  failing_allocator_arm(nth, onward);
  compute_status s = compute_open(&context, &options);
  *failures = failing_allocator_failures();
  if (s == COMPUTE_OK) {
    s = run(context);
    *failures = failing_allocator_failures();
    failing_allocator_arm(0, false);
    if (s != COMPUTE_OK) { /* the context still works */
      const compute_status again = run(context);
      if (again != COMPUTE_OK)
        fail_msg("allocation %lld failed, then the retry: %s", (long long)nth,
                 compute_error_message(context));
    }
    assert_ok(compute_close(context));
  } else if (context) {
    fail_msg("allocation %lld: compute_open failed and still returned a context", (long long)nth);
  }
  failing_allocator_arm(0, false);
  if (failing_allocator_live() != live)
    fail_msg("allocation %lld: %lld blocks leaked", (long long)nth,
             (long long)(failing_allocator_live() - live));
  return s;
}

static void sweep(representative run, bool onward) {
  int64_t failures = 0, nth = 1;
  failing_allocator_install();
  compute_error_clear(NULL);
  assert_ok(run_with_failure(run, 0, false, &failures)); /* loads libraries once */
  for (; nth < MOST_ALLOCATIONS; nth++) {
    compute_error_clear(NULL);
    const compute_status s = run_with_failure(run, nth, onward, &failures);
    if (failures == 0) break;
    if (s == COMPUTE_OK) continue; /* the library did not need this memory */
    compute_error error;
    assert_ok(compute_error_get(NULL, &error));
    if (s != COMPUTE_ERROR_OUT_OF_MEMORY && s != COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY)
      fail_msg("allocation %lld: %s: %s", (long long)nth, compute_status_name(s), error.message);
    if (error.message[0] == '\0')
      fail_msg("allocation %lld: %s without a message", (long long)nth, compute_status_name(s));
  }
  print_message("%lld allocations\n", (long long)nth - 1);
  assert_true(nth > 20 && nth < MOST_ALLOCATIONS);
  assert_int_equal(failing_allocator_remove(), 0);
}

static void training_survives_the_failure_of_any_allocation(void **state) {
  (void)state;
  sweep(train, false);
}

static void training_survives_running_out_of_memory_for_good(void **state) {
  (void)state;
  sweep(train, true);
}

static void eager_calls_survive_the_failure_of_any_allocation(void **state) {
  (void)state;
  sweep(compute_at_once, false);
}

static void eager_calls_survive_running_out_of_memory_for_good(void **state) {
  (void)state;
  sweep(compute_at_once, true);
}

static void functions_survive_the_failure_of_any_allocation(void **state) {
  (void)state;
  sweep(call_functions, false);
}

static void functions_survive_running_out_of_memory_for_good(void **state) {
  (void)state;
  sweep(call_functions, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(training_survives_the_failure_of_any_allocation),
      cmocka_unit_test(training_survives_running_out_of_memory_for_good),
      cmocka_unit_test(eager_calls_survive_the_failure_of_any_allocation),
      cmocka_unit_test(eager_calls_survive_running_out_of_memory_for_good),
      cmocka_unit_test(functions_survive_the_failure_of_any_allocation),
      cmocka_unit_test(functions_survive_running_out_of_memory_for_good),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
