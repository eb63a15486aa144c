/* A representative run in which the n-th host allocation fails, for n = 1, 2, … until nothing fails
 * any more: each time a clean status with its message or an unharmed result, nothing left behind,
 * and the same run succeeds right afterwards. */
#include <stdlib.h>

#include "support/harness/failing_allocator.h"
#include "support/harness/test.h"

enum { MOST_ALLOCATIONS = 20000 };

/* What one step of the run returned, or COMPUTE_OK for all of them. */
typedef compute_status (*representative)(compute_context *context);

/* ---- Training: a graph with gradients, an optimizer, two plans ----------------------------------
 */

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
  if (graph == NULL) {
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

/* ---- The sweep ------------------------------------------------------------------------------ */

/* Opens, runs, closes with the n-th allocation failing; the run's status, and how many allocations
 * failed. Everything that was allocated must have been released again. */
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
    if (s != COMPUTE_OK) { /* the context can be used afterwards */
      const compute_status again = run(context);
      if (again != COMPUTE_OK)
        fail_msg("allocation %lld failed, then the retry: %s", (long long)nth,
                 compute_error_message(context));
    }
    assert_ok(compute_close(context));
  } else if (context != NULL) {
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
    if (s == COMPUTE_OK) continue; /* the library could do without */
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(training_survives_the_failure_of_any_allocation),
      cmocka_unit_test(training_survives_running_out_of_memory_for_good),
      cmocka_unit_test(eager_calls_survive_the_failure_of_any_allocation),
      cmocka_unit_test(eager_calls_survive_running_out_of_memory_for_good),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
