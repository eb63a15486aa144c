/* SPDX-License-Identifier: MIT */
/* See trained.h. */
#include "trained.h"

#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "network_own.h"

static compute_layer *mlp(compute_device *device) {
  return network_own_layers(device, &bench_networks[BENCH_MLP]);
}

/* A classifier of handwritten digits of 8 x 8 pixels. */
static compute_layer *digits_mlp(compute_device *device) {
  return compute_sequential((compute_layer *[]){compute_flatten(),
                                                compute_dense(device, 64, 128, NULL),
                                                compute_activation(COMPUTE_RELU),
                                                compute_dense(device, 128, BENCH_CLASSES, NULL)},
                            4);
}

static compute_layer *cnn(compute_device *device) {
  return network_own_layers(device, &bench_networks[BENCH_CNN]);
}

static compute_layer *conv(compute_device *device, int64_t inputs, int64_t outputs, int64_t kernel,
                           int64_t stride) {
  const compute_conv2d_layer_options options = {
      .weights = {.no_bias = true}, .stride = {stride}, .padding = {kernel / 2}};
  return compute_conv2d_layer(device, inputs, outputs, kernel, &options);
}

static compute_layer *block(compute_device *device, int64_t inputs, int64_t outputs,
                            int64_t stride) {
  compute_layer *body = compute_sequential(
      (compute_layer *[]){conv(device, inputs, outputs, 3, stride),
                          compute_batch_norm_layer(device, outputs, NULL),
                          compute_activation(COMPUTE_RELU), conv(device, outputs, outputs, 3, 1),
                          compute_batch_norm_layer(device, outputs, NULL)},
      5);
  compute_layer *shortcut =
      inputs == outputs
          ? compute_identity()
          : compute_sequential((compute_layer *[]){conv(device, inputs, outputs, 1, stride),
                                                   compute_batch_norm_layer(device, outputs, NULL)},
                               2);
  return compute_sequential(
      (compute_layer *[]){compute_residual(body, shortcut), compute_activation(COMPUTE_RELU)}, 2);
}

/* For images of 32 x 32, as for CIFAR: He et al. 2015 without the pooling at the start. */
static compute_layer *resnet18(compute_device *device) {
  compute_layer *layers[13];
  size_t count = 0;
  layers[count++] = conv(device, 3, 64, 3, 1);
  layers[count++] = compute_batch_norm_layer(device, 64, NULL);
  layers[count++] = compute_activation(COMPUTE_RELU);
  for (int64_t width = 64, inputs = 64; width <= 512; inputs = width, width *= 2) {
    layers[count++] = block(device, inputs, width, inputs == width ? 1 : 2);
    layers[count++] = block(device, width, width, 1);
  }
  layers[count++] = compute_global_average_pool();
  layers[count++] = compute_dense(device, 512, BENCH_CLASSES, NULL);
  return compute_sequential(layers, count);
}

/* An encoder that classifies sequences: normalisation first, four layers, the mean over all
 * words. */
enum { TOKENS = 128, WIDTH = 256, HEADS = 8, WORDS = BENCH_WORDS, LAYERS = 4 };

static compute_node part(compute_graph *graph, compute_node x, int64_t batch, int64_t index) {
  x = compute_slice(graph, x, 2, index * WIDTH, WIDTH, 1);
  x = compute_reshape(graph, x, COMPUTE_SHAPE(batch, TOKENS, HEADS, WIDTH / HEADS));
  return compute_transpose(graph, x, COMPUTE_AXES(0, 2, 1, 3));
}

/* Queries, keys and values side by side. */
static compute_node attention(void *user, compute_graph *graph, compute_node x,
                              const compute_node *parameters, bool training) {
  (void)user, (void)parameters, (void)training;
  const int64_t batch = compute_node_shape(graph, x).size[0];
  x = compute_scaled_attention(graph, part(graph, x, batch, 0), part(graph, x, batch, 1),
                               part(graph, x, batch, 2), NULL);
  x = compute_transpose(graph, x, COMPUTE_AXES(0, 2, 1, 3));
  return compute_reshape(graph, x, COMPUTE_SHAPE(batch, TOKENS, WIDTH));
}

static compute_node mean(void *user, compute_graph *graph, compute_node x,
                         const compute_node *parameters, bool training) {
  (void)user, (void)parameters, (void)training;
  return compute_mean(graph, x, COMPUTE_AXES(1), false);
}

static compute_layer *transformer(compute_device *device) {
  compute_layer *layers[4 + 2 * LAYERS];
  size_t count = 0;
  layers[count++] = compute_embedding(device, WORDS, WIDTH, NULL);
  for (int i = 0; i < LAYERS; i++) {
    compute_layer *attend = compute_sequential(
        (compute_layer *[]){compute_layer_norm_layer(device, WIDTH, NULL),
                            compute_dense(device, WIDTH, 3 * WIDTH, NULL),
                            compute_custom_layer("attention", attention, NULL, NULL, NULL, 0),
                            compute_dense(device, WIDTH, WIDTH, NULL)},
        4);
    compute_layer *feed_forward =
        compute_sequential((compute_layer *[]){compute_layer_norm_layer(device, WIDTH, NULL),
                                               compute_dense(device, WIDTH, 4 * WIDTH, NULL),
                                               compute_activation(COMPUTE_GELU),
                                               compute_dense(device, 4 * WIDTH, WIDTH, NULL)},
                           4);
    layers[count++] = compute_residual(attend, compute_identity());
    layers[count++] = compute_residual(feed_forward, compute_identity());
  }
  layers[count++] = compute_layer_norm_layer(device, WIDTH, NULL);
  layers[count++] = compute_custom_layer("mean", mean, NULL, NULL, NULL, 0);
  layers[count++] = compute_dense(device, WIDTH, BENCH_CLASSES, NULL);
  return compute_sequential(layers, count);
}

/* clang-format off */
const bench_trained bench_trained_networks[BENCH_TRAINED] = {
    {"digits_mlp", digits_mlp, {COMPUTE_F32, {3, {1, 8, 8}}},
     {.kind = COMPUTE_ADAM, .learning_rate = 1e-3}},
    {"mlp", mlp, {COMPUTE_F32, {3, {1, 28, 28}}},
     {.kind = COMPUTE_ADAM, .learning_rate = 1e-3}},
    {"cnn", cnn, {COMPUTE_F32, {3, {1, 28, 28}}},
     {.kind = COMPUTE_ADAM, .learning_rate = 1e-3}},
    {"resnet18", resnet18, {COMPUTE_F32, {3, {3, 32, 32}}},
     {.kind = COMPUTE_SGD, .learning_rate = 0.01, .momentum = 0.9, .weight_decay = 5e-4}},
    {"transformer", transformer, {COMPUTE_I64, {1, {TOKENS}}},
     {.kind = COMPUTE_ADAM, .learning_rate = 1e-3}},
};
/* clang-format on */

const bench_trained *bench_trained_find(const char *name) {
  for (int i = 0; i < BENCH_TRAINED; i++)
    if (!strcmp(bench_trained_networks[i].name, name)) return &bench_trained_networks[i];
  return NULL;
}

/* ---- Batches ------------------------------------------------------------------------------- */

const compute_batch_port bench_trained_label = {COMPUTE_I64, {0, {0}}};

/* Random values: numbers around 0, or whole ones below `end`. */
static compute_status make_tensor(compute_device *device, const compute_batch_port *port,
                                  int64_t batch, int end, uint64_t seed, compute_tensor **tensor) {
  compute_shape shape = {.rank = port->item.rank + 1, .size = {batch}};
  int64_t count = 0;
  memcpy(&shape.size[1], port->item.size, (size_t)port->item.rank * sizeof *shape.size);
  compute_shape_count(shape, &count);
  void *data = malloc((size_t)count * sizeof(int64_t));
  if (!data) return COMPUTE_ERROR_OUT_OF_MEMORY;
  const bool numbers = port->dtype == COMPUTE_F32;
  host_fill(port->dtype, data, count, numbers ? -1 : 0, numbers ? 1 : end, seed);
  compute_status s = compute_tensor_from_host(device, port->dtype, shape, data, tensor);
  free(data);
  return s;
}

compute_status bench_trained_batch(compute_device *device, const bench_trained *network,
                                   int64_t items, compute_tensor **x, compute_tensor **labels) {
  const compute_status s = make_tensor(device, &network->input, items, BENCH_WORDS, 1, x);
  return s ? s : make_tensor(device, &bench_trained_label, items, BENCH_CLASSES, 2, labels);
}
