/* SPDX-License-Identifier: MIT */
#include "support/samples/small_networks.h"

#include "support/harness/test.h"

static compute_node weights(compute_graph *g, compute_dtype dtype, compute_shape shape,
                            uint64_t seed) {
  compute_tensor *tensor = NULL;
  compute_context *context = compute_graph_context(g);
  assert_ok(
      compute_tensor_random(compute_default_device(context), dtype, shape, -.2, .2, seed, &tensor));
  if (seed % 2) compute_tensor_freeze(tensor);
  const compute_node node = compute_parameter(g, tensor);
  compute_tensor_release(tensor);
  return node;
}

static compute_node linear(compute_graph *g, compute_node x, int64_t k, int64_t n, uint64_t seed) {
  const compute_dtype dtype = compute_node_dtype(g, x);
  return compute_add(g, compute_matmul(g, x, weights(g, dtype, COMPUTE_SHAPE(k, n), seed)),
                     weights(g, dtype, COMPUTE_SHAPE(n), seed + 1));
}

static compute_node build_dense(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  compute_node y = compute_gelu(g, linear(g, x[0], 256, 1024, 1));
  y = compute_relu(g, linear(g, y, 1024, 512, 4));
  y = compute_layer_norm(g, linear(g, y, 512, 512, 7), (compute_node){0}, (compute_node){0}, 1e-5);
  return compute_softmax(g, linear(g, y, 512, 10, 10), -1);
}

static compute_node convolution(compute_graph *g, compute_node x, compute_shape filter,
                                int64_t stride, uint64_t seed) {
  const int64_t pad = filter.size[2] / 2;
  const compute_node w = weights(g, compute_node_dtype(g, x), filter, seed);
  return compute_relu(g, compute_conv2d(g, x, w, (compute_node){0},
                                        &(compute_conv2d_options){.padding = {pad, pad},
                                                                  .stride = {stride, stride}}));
}

static compute_node build_images(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  compute_node y = convolution(g, x[0], COMPUTE_SHAPE(16, 3, 3, 3), 1, 1);
  y = convolution(g, y, COMPUTE_SHAPE(32, 16, 3, 3), 2, 3);
  y = compute_add(g, y, convolution(g, y, COMPUTE_SHAPE(32, 32, 3, 3), 1, 4));
  y = compute_max_pool2d(g, y, &(compute_pool2d_options){.size = {2, 2}, .stride = {2, 2}});
  y = convolution(g, y, COMPUTE_SHAPE(64, 32, 1, 1), 1, 5);
  y = compute_mean(g, y, COMPUTE_AXES(2, 3), false);
  return linear(g, y, 64, 10, 7);
}

static compute_node build_block(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  const compute_node none = {0};
  const compute_node n = compute_layer_norm(g, x[0], none, none, 1e-5);
  const compute_node q = linear(g, n, 64, 64, 1), k = linear(g, n, 64, 64, 4);
  const compute_node seen = compute_scaled_attention(g, q, k, linear(g, n, 64, 64, 7), NULL);
  const compute_node y = compute_add(g, x[0], linear(g, seen, 64, 64, 10));
  const compute_node wide = compute_gelu(g, linear(g, y, 64, 256, 13));
  return compute_add(g, y, linear(g, wide, 256, 64, 16));
}

static const small_network networks[] = {
    {"dense", build_dense, {2, {1, 256}}},
    {"images", build_images, {4, {1, 3, 20, 20}}},
    {"block", build_block, {3, {1, 12, 64}}},
};

const small_network *small_network_at(size_t index) {
  return index < sizeof networks / sizeof *networks ? &networks[index] : NULL;
}
