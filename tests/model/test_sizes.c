/* SPDX-License-Identifier: MIT */
/* Random sizes, each with its own plans and blocks. Models, eager calls and training use at most
 * 1.5 times the memory of the largest size alone, and release the memory that they no longer need.
 * COMPUTE_TEST_SHAPES sets the number of sizes; the default is 500. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "model/message_writer.h"
#include "support/harness/test.h"
#include "support/harness/values.h"

enum { WIDTH = 64, LARGEST = 500, KEPT = 1 << 20 /* limit of cached bytes that stay */ };

static long shapes_to_run(void) {
  const char *text = getenv("COMPUTE_TEST_SHAPES");
  const long count = text ? strtol(text, NULL, 10) : 0;
  return count > 0 ? count : 500 / (long)test_spread();
}

static compute_pool_statistics pool_of(compute_context *context) {
  compute_pool_statistics statistics;
  assert_ok(compute_pool_query(compute_default_device(context), &statistics));
  return statistics;
}

static double resident_bytes(void) {
  double kib = 0;
  char line[128];
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "VmRSS: %lf", &kib) == 1) break;
  if (file) fclose(file);
  return kib * 1024;
}

/* ---- Work of any size ---------------------------------------------------------------------- */

/* A kind of work that can run with any size up to LARGEST. */
typedef struct subject {
  const char *name;
  void *(*create)(compute_context *context);
  void (*run)(void *state, compute_context *context, int64_t size);
  void (*release)(void *state);
} subject;

/* The model's file, which must outlive the model. */
static proto file;

/* y = tanh(x W xᵀ) x, for x of [1, size, 64]. */
static compute_model *load_model(compute_context *context, const compute_model_options *options) {
  proto graph = {0};
  put_text(&graph, 2, "sizes");
  put_typed(&graph, GRAPH_INPUT, "x", "1,n,64");
  put_typed(&graph, GRAPH_OUTPUT, "y", "1,n,64");
  static float weights[WIDTH * WIDTH];
  test_random random = {1};
  for (int i = 0; i < WIDTH * WIDTH; i++)
    weights[i] = (float)test_random_uniform(&random, -0.1, 0.1);
  proto tensor = tensor_message("W", 1, 2, (int64_t[]){WIDTH, WIDTH});
  put_bytes(&tensor, 9, weights, sizeof weights);
  put_message(&graph, GRAPH_INITIALIZER, tensor);
  put_message(&graph, GRAPH_NODE, node_message("q", "MatMul", "x,W", "q"));
  proto turned = node_message("turned", "Transpose", "x", "t");
  put_list_attribute(&turned, "perm", (int64_t[]){0, 2, 1}, 3);
  put_message(&graph, GRAPH_NODE, turned);
  put_message(&graph, GRAPH_NODE, node_message("s", "MatMul", "q,t", "s"));
  put_message(&graph, GRAPH_NODE, node_message("p", "Tanh", "s", "p"));
  put_message(&graph, GRAPH_NODE, node_message("y", "MatMul", "p,x", "y"));
  compute_model *model = NULL;
  file = model_message(graph);
  assert_ok(compute_model_load_memory(context, file.data, file.bytes, options, &model));
  return model;
}

static void *create_model(compute_context *context) {
  return load_model(context, NULL);
}

static void run_model(void *state, compute_context *context, int64_t size) {
  compute_model_binding in = {"x", NULL}, out = {"y", NULL};
  assert_ok(compute_tensor_full(compute_default_device(context), COMPUTE_F32,
                                COMPUTE_SHAPE(1, size, WIDTH), 0.5, &in.tensor));
  assert_ok(compute_model_run(state, &in, 1, &out, 1));
  assert_true(isfinite(test_element(out.tensor, 0)));
  compute_tensor_release(in.tensor);
  compute_tensor_release(out.tensor);
}

static void release_model(void *state) {
  compute_model_release(state);
  free(file.data);
}

static void *create_nothing(compute_context *context) {
  return context;
}

/* Eager calls on tensors whose sizes also differ within a run. */
static void run_eager(void *state, compute_context *context, int64_t size) {
  (void)state;
  const int64_t other = size * 7 % LARGEST + 1;
  compute_tensor *x, *t, *product, *p;
  assert_ok(compute_tensor_full(compute_default_device(context), COMPUTE_F32,
                                COMPUTE_SHAPE(size, other), 0.5, &x));
  assert_ok(compute_tensor_transpose(x, COMPUTE_AXES(1, 0), &t));
  assert_ok(compute_tensor_matmul(x, t, &product));
  compute_tensor_release(x);
  compute_tensor_release(t);
  assert_ok(compute_tensor_softmax(product, -1, &p));
  assert_true(fabs(test_element(p, 0) * (double)size - 1) < 1e-3);
  compute_tensor_release(product);
  compute_tensor_release(p);
}

static void release_nothing(void *state) {
  (void)state;
}

static void *create_weights(compute_context *context) {
  return test_random_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(WIDTH, WIDTH), 3);
}

/* A step of gradient descent on a batch of `size` items. */
static void run_training(void *state, compute_context *context, int64_t size) {
  compute_graph *graph = compute_graph_create(context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(size, WIDTH));
  const compute_node w = compute_parameter(graph, state);
  const compute_node h = compute_tanh(graph, compute_matmul(graph, x, w));
  const compute_node y = compute_softmax(graph, compute_matmul(graph, h, w), -1);
  const compute_node loss = compute_mean(graph, compute_mul(graph, y, h), COMPUTE_ALL_AXES, false);
  const compute_node step =
      compute_sgd_step(graph, loss, &w, 1, &(compute_sgd_options){.learning_rate = 0.01});
  compute_plan *plan = test_compile(graph, (compute_node[]){loss, step}, 2, 0);
  compute_tensor *data, *result;
  assert_ok(compute_tensor_full(compute_default_device(context), COMPUTE_F32,
                                COMPUTE_SHAPE(size, WIDTH), 0.5, &data));
  assert_ok(compute_plan_create_tensor(plan, loss, &result));
  assert_ok(compute_run(plan, (compute_binding[]){{x, data}, {loss, result}}, 2, NULL));
  assert_true(isfinite(test_element(result, 0)));
  compute_tensor_release(data);
  compute_tensor_release(result);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void release_weights(void *state) {
  compute_tensor_release(state);
}

static const subject subjects[] = {
    {"a model", create_model, run_model, release_model},
    {"eager calls", create_nothing, run_eager, release_nothing},
    {"training", create_weights, run_training, release_weights},
};

/* ---- Checks -------------------------------------------------------------------------------- */

/* The pool's peak use for the largest size, alone in a context. The peak of eager calls may belong
 * to a smaller size, so a few sizes are tried. */
static uint64_t largest_need(const subject *s) {
  compute_context *context = test_open();
  void *state = s->create(context);
  for (int64_t size = LARGEST - 6; size <= LARGEST; size++) s->run(state, context, size);
  const uint64_t peak = pool_of(context).bytes_peak;
  s->release(state);
  test_close(context);
  return peak;
}

static void check_subject(const subject *s) {
  const uint64_t need = largest_need(s);
  const long count = shapes_to_run();
  compute_context *context = test_open();
  void *state = s->create(context);
  test_random random = {test_seed() + 1};
  double resident = 0;
  uint64_t most = 0;
  for (long i = 0; i < count; i++) {
    s->run(state, context, test_random_integer(&random, 1, LARGEST));
    const compute_pool_statistics pool = pool_of(context);
    if (pool.bytes_allocated > most) most = pool.bytes_allocated;
    if (i == count / 4) resident = resident_bytes();
  }
  const compute_pool_statistics pool = pool_of(context);
  const double grown = resident_bytes() - resident;
  print_message("%s: %.2f MiB for the largest size, %.2f MiB held at most in %ld sizes, %.1f %% of "
                "%llu requests missed; resident %.1f MiB, since a quarter %+.1f\n",
                s->name, (double)need / (1 << 20), (double)most / (1 << 20), count,
                100 * (double)pool.misses / (double)(pool.misses + pool.hits),
                (unsigned long long)(pool.misses + pool.hits), resident / (1 << 20),
                grown / (1 << 20));
  if (most > need + need / 2 + KEPT) fail_msg("%s: the pool holds too much", s->name);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
  if (count > 400 && grown > resident / 4 + (8 << 20)) fail_msg("%s: memory grows", s->name);
#endif
  s->release(state);
  test_close(context);
}

static void random_sizes_hold_half_more_than_the_largest(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) check_subject(&subjects[i]);
}

/* Large runs, then small runs for longer than the pool's memory of peaks. */
static void what_one_large_run_needed_goes_back(void **state) {
  (void)state;
  const subject *s = &subjects[0];
  compute_context *context = test_open();
  void *model = s->create(context);
  for (int i = 0; i < 3; i++) s->run(model, context, 1200);
  assert_true(pool_of(context).bytes_cached > 4 << 20);
  for (int i = 0; i < 600 && pool_of(context).bytes_cached > KEPT; i++) {
    for (int k = 0; k < 20; k++) s->run(model, context, 10);
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
  assert_true(pool_of(context).bytes_cached <= KEPT);
  s->release(model);
  test_close(context);
}

/* Plans of many sizes, without their weights, stay below the model's limit in bytes. */
static void plans_are_bounded_by_bytes(void **state) {
  (void)state;
  compute_context *context = test_open();
  compute_model *unlimited = create_model(context);
  compute_model_info info;
  for (int64_t size = 1; size <= 20; size++) run_model(unlimited, context, size);
  assert_ok(compute_model_describe(unlimited, &info));
  assert_int_equal(info.plans, 20);
  const uint64_t all = info.plan_bytes;
  assert_true(all > 20 * 500 && all < 20 * 200000);
  release_model(unlimited);
  const compute_model_options options = {.max_plan_bytes = all / 2};
  compute_model *limited = load_model(context, &options);
  for (int64_t size = 1; size <= 20; size++) run_model(limited, context, size);
  assert_ok(compute_model_describe(limited, &info));
  assert_true(info.plan_bytes <= all / 2 && info.plans > 4 && info.plans < 16);
  release_model(limited);
  test_close(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_sizes_hold_half_more_than_the_largest),
      cmocka_unit_test(what_one_large_run_needed_goes_back),
      cmocka_unit_test(plans_are_bounded_by_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
