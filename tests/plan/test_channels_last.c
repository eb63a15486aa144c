/* SPDX-License-Identifier: MIT */
/* Values between convolutions may be stored channels-last. A network with every kind of step
 * between convolutions gives the results of a plan that stores planes only. */
#include <math.h>

#include "support/harness/test.h"

enum { MOST = 24 };

typedef struct network {
  compute_graph *graph;
  compute_tensor *tensor[MOST]; /* of the parameters */
  size_t tensors;
  uint64_t seed;
  bool frozen;
  compute_dtype dtype;
} network;

static compute_node weights(network *n, compute_shape shape) {
  assert_true(n->tensors < MOST);
  compute_tensor *tensor = test_random_tensor(test_context, n->dtype, shape, ++n->seed);
  if (n->frozen) compute_tensor_freeze(tensor);
  n->tensor[n->tensors++] = tensor;
  return compute_parameter(n->graph, tensor);
}

static compute_node conv(network *n, compute_node x, int64_t from, int64_t to, int64_t side,
                         int64_t stride, int32_t groups) {
  const compute_conv2d_options options = {
      .stride = {stride, stride}, .padding = {side / 2, side / 2}, .groups = groups};
  return compute_conv2d(n->graph, x, weights(n, COMPUTE_SHAPE(to, from / groups, side, side)),
                        weights(n, COMPUTE_SHAPE(to)), &options);
}

/* Convolutions of every kind. Between them: a sum, pooling, a concatenation, padding, a gate with
 * one number per channel, an upsampling, a view, and intermediate outputs. */
static size_t build(network *n, compute_node x, compute_node *outputs) {
  compute_graph *g = n->graph;
  const compute_node stem = compute_relu(g, conv(n, x, 3, 24, 5, 2, 1));
  const compute_pool2d_options pool = {.size = {3, 3}, .stride = {1, 1}, .padding = {1, 1}};
  const compute_node depthwise = compute_relu(g, conv(n, stem, 24, 24, 3, 1, 24));
  const compute_node sum = compute_add(g, compute_max_pool2d(g, stem, &pool), depthwise);
  const compute_node narrow = conv(n, sum, 24, 16, 1, 1, 1);
  const compute_node grouped = conv(n, narrow, 16, 32, 3, 1, 2);
  const compute_node joined =
      compute_concat(g, (const compute_node[]){narrow, compute_sigmoid(g, grouped)}, 2, 1);
  const compute_node mean = compute_mean(g, joined, (compute_axes){2, {2, 3}}, true);
  const compute_node gate = compute_sigmoid(g, conv(n, mean, 48, 48, 1, 1, 1));
  const compute_node gated = compute_mul(g, joined, gate);
  const compute_node padded = compute_pad(g, gated, 3, 1, 2, COMPUTE_PAD_CONSTANT, 0);
  const compute_node wide = compute_upsample2d(g, padded, 16, 20, COMPUTE_UPSAMPLE_NEAREST);
  const compute_node last = conv(n, wide, 48, 8, 3, 1, 1);
  outputs[0] = last;
  outputs[1] = compute_reshape(g, grouped, COMPUTE_SHAPE(2, 32 * 7 * 7));
  outputs[2] = sum;
  outputs[3] = compute_sum(g, compute_slice(g, gated, 1, 3, 20, 2), (compute_axes){1, {1}}, false);
  return 4;
}

/* bf16 rounds the values of every layer to eight bits, and the last layer sums 432 of them. */
static void check_against_planes(compute_dtype dtype, double tolerance) {
  for (int frozen = 0; frozen < 2; frozen++) {
    network n = {.graph = compute_graph_create(test_context), .frozen = frozen, .dtype = dtype};
    const compute_shape shape = COMPUTE_SHAPE(2, 3, 14, 14);
    const compute_node x = compute_input(n.graph, dtype, shape);
    compute_tensor *image = test_random_tensor(test_context, dtype, shape, 99), *result[2][4];
    compute_node outputs[4];
    const size_t count = build(&n, x, outputs);
    assert_ok(compute_graph_status(n.graph));
    for (int plain = 0; plain < 2; plain++) {
      compute_plan *plan =
          test_compile(n.graph, outputs, count, plain ? COMPUTE_PLAN_NO_FUSION : 0);
      compute_binding bindings[5] = {{x, image}};
      for (size_t i = 0; i < count; i++) {
        result[plain][i] =
            test_tensor(test_context, dtype, compute_node_shape(n.graph, outputs[i]), NULL);
        bindings[1 + i] = (compute_binding){outputs[i], result[plain][i]};
      }
      assert_ok(compute_run(plan, bindings, 1 + count, NULL));
      compute_plan_release(plan);
    }
    for (size_t i = 0; i < count; i++) {
      for (int64_t k = 0; k < compute_tensor_count(result[0][i]); k++) {
        const double expected = test_element(result[1][i], k);
        assert_true(fabs(test_element(result[0][i], k) - expected) <=
                    tolerance * (10 + fabs(expected)));
      }
      compute_tensor_release(result[0][i]);
      compute_tensor_release(result[1][i]);
    }
    for (size_t i = 0; i < n.tensors; i++) compute_tensor_release(n.tensor[i]);
    compute_tensor_release(image);
    compute_graph_release(n.graph);
  }
}

static void same_results_as_planes(void **state) {
  (void)state;
  check_against_planes(COMPUTE_F32, 2e-5);
  check_against_planes(COMPUTE_BF16, 0.3);
}

/* There is no copy between two convolutions. Neither the caller's planes nor an output as planes
 * costs a step. */
static void a_chain_needs_no_copies(void **state) {
  (void)state;
  network n = {.graph = compute_graph_create(test_context), .dtype = COMPUTE_F32};
  const compute_node x = compute_input(n.graph, COMPUTE_F32, COMPUTE_SHAPE(1, 3, 16, 16));
  compute_node y = x;
  for (int i = 0; i < 3; i++) y = compute_relu(n.graph, conv(&n, y, i == 0 ? 3 : 16, 16, 3, 1, 1));
  y = compute_mean(n.graph, y, (compute_axes){2, {2, 3}}, false);
  compute_plan *plan = test_compile(n.graph, &y, 1, 0);
  compute_plan_info info;
  assert_ok(compute_plan_describe(plan, &info));
  assert_int_equal(info.steps, 4);
  compute_plan_release(plan);
  for (size_t i = 0; i < n.tensors; i++) compute_tensor_release(n.tensor[i]);
  compute_graph_release(n.graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_results_as_planes),
      cmocka_unit_test(a_chain_needs_no_copies),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
