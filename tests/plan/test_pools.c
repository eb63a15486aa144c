/* SPDX-License-Identifier: MIT */
/* A convolution and the pooling of its results become one step if they have no other reader. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"

enum { BATCH = 3, SIDE = 12, CHANNELS = 32 };

typedef struct network {
  compute_graph *graph;
  compute_tensor *filter[2], *bias;
  compute_node x, between, y;
} network;

/* The activation after the convolution. */
typedef enum activation { RELU, TURNED, LIMITED } activation;

static network build(activation then, const compute_pool2d_options *pool) {
  network n = {
      .graph = compute_graph_create(test_context),
      .filter = {test_random_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(CHANNELS, 3, 3, 3), 1),
                 test_random_tensor(test_context, COMPUTE_F32,
                                    COMPUTE_SHAPE(CHANNELS, CHANNELS, 3, 3), 4)},
      .bias = test_random_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(CHANNELS), 2)};
  for (int i = 0; i < 2; i++) compute_tensor_freeze(n.filter[i]);
  const compute_conv2d_options options = {.stride = {1, 1}, .padding = {1, 1}};
  n.x = compute_input(n.graph, COMPUTE_F32, COMPUTE_SHAPE(BATCH, 3, SIDE, SIDE));
  n.between = compute_conv2d(n.graph, n.x, compute_parameter(n.graph, n.filter[0]),
                             compute_parameter(n.graph, n.bias), &options);
  if (then == TURNED) n.between = compute_neg(n.graph, n.between);
  if (then == LIMITED) n.between = compute_clamp(n.graph, n.between, -0.5, 0.5);
  if (then == RELU) n.between = compute_relu(n.graph, n.between);
  n.y = compute_conv2d(n.graph, compute_max_pool2d(n.graph, n.between, pool),
                       compute_parameter(n.graph, n.filter[1]), (compute_node){0}, &options);
  assert_ok(compute_graph_status(n.graph));
  return n;
}

static void release(network *n) {
  compute_graph_release(n->graph);
  for (int i = 0; i < 2; i++) compute_tensor_release(n->filter[i]);
  compute_tensor_release(n->bias);
}

/* Gets y's elements from a plan that may also have `between` as an output. Returns true if the plan
 * joins the steps. */
static bool run(const network *n, bool whole, float *elements, size_t bytes) {
  const compute_node outputs[2] = {n->y, n->between};
  compute_plan *plan = test_compile(n->graph, outputs, whole ? 2 : 1, 0);
  compute_tensor *image = test_random_tensor(test_context, COMPUTE_F32,
                                             COMPUTE_SHAPE(BATCH, 3, SIDE, SIDE), 3),
                 *result[2];
  for (int i = 0; i < 2; i++)
    result[i] =
        test_tensor(test_context, COMPUTE_F32, compute_node_shape(n->graph, outputs[i]), NULL);
  const compute_binding bindings[] = {{n->x, image}, {n->y, result[0]}, {n->between, result[1]}};
  assert_ok(compute_run(plan, bindings, whole ? 3 : 2, NULL));
  assert_ok(compute_tensor_read(result[0], elements, bytes));
  char *text;
  assert_ok(compute_explain(plan, &text));
  const bool joined = strstr(text, "pooling") == NULL;
  if (joined) assert_non_null(strstr(text, "maximum"));
  compute_text_free(text);
  for (int i = 0; i < 2; i++) compute_tensor_release(result[i]);
  compute_tensor_release(image);
  compute_plan_release(plan);
  return joined;
}

static void check(activation then, compute_pool2d_options pool, bool joins) {
  network n = build(then, &pool);
  int64_t count;
  assert_ok(compute_shape_count(compute_node_shape(n.graph, n.y), &count));
  const size_t bytes = (size_t)count * sizeof(float);
  float *one = malloc(bytes), *two = malloc(bytes);
  assert_true(one && two);
  assert_int_equal(run(&n, false, one, bytes), joins);
  assert_false(run(&n, true, two, bytes));
  for (int64_t i = 0; i < count; i++) /* another layout and order of sums */
    assert_true(fabs((double)one[i] - (double)two[i]) <= 1e-4 * (1 + fabs((double)two[i])));
  free(one);
  free(two);
  release(&n);
}

static void blocks_are_joined(void **state) {
  (void)state;
  check(RELU, (compute_pool2d_options){.size = {2, 2}, .stride = {2, 2}}, true);
  check(LIMITED, (compute_pool2d_options){.size = {2, 2}, .stride = {2, 2}}, true);
  check(RELU, (compute_pool2d_options){.size = {3, 3}, .stride = {3, 3}}, true);
}

static void other_windows_are_not_joined(void **state) {
  (void)state;
  check(RELU, (compute_pool2d_options){.size = {2, 2}, .stride = {1, 1}}, false);
  check(RELU, (compute_pool2d_options){.size = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}, false);
  check(RELU, (compute_pool2d_options){.size = {5, 5}, .stride = {5, 5}}, false);
}

/* The maximum does not commute with a decreasing function. */
static void falling_results_are_not_joined(void **state) {
  (void)state;
  check(TURNED, (compute_pool2d_options){.size = {2, 2}, .stride = {2, 2}}, false);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_are_joined),
                                     cmocka_unit_test(other_windows_are_not_joined),
                                     cmocka_unit_test(falling_results_are_not_joined)};
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
