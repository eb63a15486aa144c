/* SPDX-License-Identifier: MIT */
/* Concurrent uses that the headers allow. ThreadSanitizer watches these tests. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"

enum { THREADS = 4, ROUNDS = 60 };

/* cmocka's checks may not run outside the main thread, so workers count their errors. */
typedef struct worker {
  pthread_t thread;
  int number;
  compute_context *context;
  const compute_plan *plan;
  const compute_graph *graph;
  compute_node x, y;
  int wrong;
  char message[400];
} worker;

static bool check(worker *w, bool condition, const char *what) {
  if (condition) return true;
  if (w->wrong++ == 0)
    snprintf(w->message, sizeof w->message, "%s: %.200s", what, compute_error_message(w->context));
  return false;
}

#define CHECK_OK(w, call) check((w), (call) == COMPUTE_OK, #call)

static void run_workers(worker *workers, void *(*work)(void *)) {
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  int wrong = 0;
  for (int i = 0; i < THREADS; i++) {
    pthread_join(workers[i].thread, NULL);
    if (workers[i].wrong > 0) print_error("thread %d: %s\n", i, workers[i].message);
    wrong += workers[i].wrong;
  }
  assert_int_equal(wrong, 0);
}

/* y = row sums of softmax(x · xᵀ) for x [n,n]: every row gives 1 for any x. Adding x[0,0] gives
 * each thread a different answer. */
static compute_node build(compute_graph *graph, compute_node x) {
  const compute_node square =
      compute_matmul(graph, x, compute_transpose(graph, x, COMPUTE_ALL_AXES));
  const compute_node rows = compute_softmax(graph, compute_relu(graph, square), -1);
  const compute_node ones = compute_sum(graph, rows, COMPUTE_AXES(1), true);
  return compute_add(graph, ones, compute_slice(graph, x, 1, 0, 1, 1));
}

static bool fill_and_check(worker *w, int64_t n, compute_tensor *tx, compute_tensor *ty,
                           const compute_plan *plan, compute_queue *queue, int round) {
  float *x = malloc((size_t)(n * n) * sizeof *x), *y = calloc((size_t)n, sizeof *y);
  bool ok = x && y;
  for (int64_t i = 0; ok && i < n * n; i++) x[i] = (float)((i * 7 + w->number + round) % 13) / 4;
  ok = ok && CHECK_OK(w, compute_tensor_write(tx, x, (size_t)(n * n) * sizeof *x));
  ok = ok && CHECK_OK(w, compute_run(plan, (compute_binding[]){{w->x, tx}, {w->y, ty}}, 2, queue));
  if (queue) ok = CHECK_OK(w, compute_queue_wait(queue)) && ok;
  ok = ok && CHECK_OK(w, compute_tensor_read(ty, y, (size_t)n * sizeof *y));
  for (int64_t i = 0; ok && i < n; i++) {
    const float difference = y[i] - 1 - x[i * n];
    ok = check(w, difference < 1e-4F && difference > -1e-4F, "wrong result");
  }
  free(x);
  free(y);
  return ok;
}

static void *run_shared_plan(void *argument) {
  worker *w = argument;
  const int64_t n = compute_node_shape(w->graph, w->x).size[0];
  compute_tensor *tx = NULL, *ty = NULL;
  compute_queue *queue = NULL;
  bool ok = CHECK_OK(w, compute_plan_create_tensor(w->plan, w->x, &tx)) &&
            CHECK_OK(w, compute_plan_create_tensor(w->plan, w->y, &ty));
  if (w->number % 2)
    ok = ok && CHECK_OK(w, compute_queue_create(compute_default_device(w->context), &queue));
  for (int i = 0; ok && i < ROUNDS; i++) ok = fill_and_check(w, n, tx, ty, w->plan, queue, i);
  compute_queue_release(queue);
  compute_tensor_release(tx);
  compute_tensor_release(ty);
  return NULL;
}

/* One plan, four threads, with and without queues. */
static void check_shared_plan(int64_t n) {
  compute_context *context = test_open();
  compute_graph *graph = compute_graph_create(context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(n, n));
  const compute_node y = build(graph, x);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  worker workers[THREADS];
  for (int i = 0; i < THREADS; i++)
    workers[i] =
        (worker){.number = i, .context = context, .plan = plan, .graph = graph, .x = x, .y = y};
  run_workers(workers, run_shared_plan);
  compute_plan_release(plan);
  compute_graph_release(graph);
  test_close(context);
}

static void one_plan_runs_from_four_threads(void **state) {
  (void)state;
  check_shared_plan(5);   /* no step is worth a second thread */
  check_shared_plan(150); /* every step uses the pool */
}

static void *compile_shared_graph(void *argument) {
  worker *w = argument;
  const int64_t n = compute_node_shape(w->graph, w->x).size[0];
  bool ok = true;
  for (int i = 0; ok && i < ROUNDS / 4; i++) {
    compute_plan *plan = NULL;
    compute_tensor *tx = NULL, *ty = NULL;
    const compute_plan_options options = {.flags = i % 3 ? 0 : COMPUTE_PLAN_NO_FUSION};
    ok = CHECK_OK(w, compute_compile(w->graph, &w->y, 1, &options, &plan)) &&
         CHECK_OK(w, compute_plan_create_tensor(plan, w->x, &tx)) &&
         CHECK_OK(w, compute_plan_create_tensor(plan, w->y, &ty)) &&
         fill_and_check(w, n, tx, ty, plan, NULL, i);
    compute_tensor_release(tx);
    compute_tensor_release(ty);
    compute_plan_release(plan);
  }
  return NULL;
}

static void one_graph_compiles_in_four_threads(void **state) {
  (void)state;
  compute_context *context = test_open();
  compute_graph *graph = compute_graph_create(context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(9, 9));
  const compute_node y = build(graph, x);
  worker workers[THREADS];
  for (int i = 0; i < THREADS; i++)
    workers[i] = (worker){.number = i, .context = context, .graph = graph, .x = x, .y = y};
  run_workers(workers, compile_shared_graph);
  compute_graph_release(graph);
  test_close(context);
}

static void *build_graph_of_its_own(void *argument) {
  worker *w = argument;
  for (int i = 0; i < ROUNDS / 4; i++) {
    compute_graph *graph = compute_graph_create(w->context);
    if (!check(w, graph != NULL, "compute_graph_create")) return NULL;
    w->graph = graph;
    w->x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3 + w->number, 3 + w->number));
    w->y = build(graph, w->x);
    compile_shared_graph(w);
    compute_graph_release(graph);
  }
  return NULL;
}

static void threads_build_graphs_of_their_own(void **state) {
  (void)state;
  compute_context *context = test_open();
  worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) workers[i] = (worker){.number = i, .context = context};
  run_workers(workers, build_graph_of_its_own);
  test_close(context);
}

static void *call_eagerly(void *argument) {
  worker *w = argument;
  for (int i = 0; i < ROUNDS && w->wrong == 0; i++) {
    compute_tensor *a = NULL, *b = NULL, *c = NULL;
    float value[3] = {0, 0, 0};
    const int64_t size = 1 + (i + w->number) % 40;
    compute_device *device = compute_default_device(w->context);
    CHECK_OK(w, compute_memory_scope_push(w->context));
    if (CHECK_OK(w,
                 compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(3, size), w->number, &a)) &&
        CHECK_OK(w, compute_tensor_add(a, a, &b)) &&
        CHECK_OK(w, compute_tensor_mean(b, COMPUTE_AXES(1), false, &c)) &&
        CHECK_OK(w, compute_tensor_read(c, value, sizeof value)))
      check(w, value[2] == (float)(2 * w->number), "wrong mean");
    CHECK_OK(w, compute_memory_scope_pop(w->context));
  }
  return NULL;
}

static void eager_calls_share_their_plans_between_threads(void **state) {
  (void)state;
  compute_context *context = test_open();
  worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) workers[i] = (worker){.number = i, .context = context};
  run_workers(workers, call_eagerly);
  test_close(context);
}

static void *open_and_close(void *argument) {
  worker *w = argument;
  for (int i = 0; i < 10 && w->wrong == 0; i++) {
    compute_tensor *a = NULL;
    if (!CHECK_OK(w, compute_open(&w->context, &(compute_open_options){.threads = 1 + i % 3})))
      return NULL;
    compute_device *cpu = NULL;
    CHECK_OK(w, compute_device_by_name(w->context, "cpu", &cpu));
    CHECK_OK(w, compute_device_push(cpu));
    check(w, compute_default_device(w->context) == cpu, "the scope does not hold");
    CHECK_OK(w, compute_device_pop(w->context));
    CHECK_OK(w, compute_tensor_full(cpu, COMPUTE_F32, COMPUTE_SHAPE(100000), 1, &a));
    compute_tensor_release(a);
    CHECK_OK(w, compute_close(w->context));
  }
  w->context = NULL;
  return NULL;
}

static void contexts_open_in_several_threads(void **state) {
  (void)state;
  worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) workers[i] = (worker){.number = i};
  run_workers(workers, open_and_close);
}

/* A thread reads its error; a thread without one reads the context's last error. */
static void *fail_in_a_way_of_its_own(void *argument) {
  worker *w = argument;
  for (int i = 0; i < ROUNDS; i++) {
    char name[32];
    compute_device *device = NULL;
    snprintf(name, sizeof name, "missing%d:%d", w->number, i);
    check(w, compute_device_by_name(w->context, name, &device) == COMPUTE_ERROR_NO_DEVICE,
          "a device that is not there");
    check(w, strstr(compute_error_message(w->context), name) != NULL, "another thread's error");
  }
  return NULL;
}

static void errors_belong_to_the_thread_that_made_them(void **state) {
  (void)state;
  compute_context *context = test_open();
  worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) workers[i] = (worker){.number = i, .context = context};
  run_workers(workers, fail_in_a_way_of_its_own);
  compute_error error;
  assert_ok(compute_error_get(context, &error));
  assert_int_equal(error.status, COMPUTE_ERROR_NO_DEVICE);
  compute_error_clear(context);
  test_close(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_plan_runs_from_four_threads),
      cmocka_unit_test(one_graph_compiles_in_four_threads),
      cmocka_unit_test(threads_build_graphs_of_their_own),
      cmocka_unit_test(eager_calls_share_their_plans_between_threads),
      cmocka_unit_test(contexts_open_in_several_threads),
      cmocka_unit_test(errors_belong_to_the_thread_that_made_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
