/* SPDX-License-Identifier: MIT */
/* compute-train-steps NETWORK BATCH FOLDER: libcompute's side of bench/peers/compare.py's suite
 * "train". It writes the network's first weights and a batch to weights.npz and batch.npz in
 * FOLDER, for the other engines to start from, and then obeys commands on stdin as the workers of
 * bench/peers/engines.py do: "losses N" trains N steps, "run SECONDS" times steps, at least one.
 * Each is answered by a line of JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/compute.h"
#include "host.h"
#include "measure.h"
#include "network_own.h"

enum { MOST_STEPS = 10000 };

/* ---- Networks ------------------------------------------------------------------------------ */

static compute_layer *mlp(compute_device *device) {
  return network_own_layers(device, &bench_networks[BENCH_MLP]);
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

/* An encoder that tells classes of sequences apart: normalisation first, four layers, the mean over
 * all words. */
enum { TOKENS = 128, WIDTH = 256, HEADS = 8, WORDS = 1024, LAYERS = 4 };

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

typedef struct network {
  const char *name;
  compute_layer *(*build)(compute_device *device);
  compute_batch_port input;
  compute_optimizer_options optimizer;
} network;

/* clang-format off */
static const network networks[] = {
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

/* ---- A run --------------------------------------------------------------------------------- */

typedef struct training {
  compute_context *context;
  compute_device *device;
  compute_layer *model;
  compute_trainer *trainer;
  compute_tensor *x, *labels;
} training;

static const compute_batch_port label = {COMPUTE_I64, {0, {0}}};

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

static compute_status save(const training *t, const char *folder) {
  char weights[4096], batch[4096];
  if (snprintf(weights, sizeof weights, "%s/weights.npz", folder) >= (int)sizeof weights ||
      snprintf(batch, sizeof batch, "%s/batch.npz", folder) >= (int)sizeof batch)
    return COMPUTE_ERROR_INVALID_ARGUMENT;
  const compute_named_tensor tensors[] = {{"x", t->x}, {"labels", t->labels}};
  compute_status s = compute_layer_save(t->model, weights);
  return s ? s : compute_tensor_file_write(t->context, batch, tensors, 2);
}

static compute_status prepare(training *t, const network *n, int64_t batch, const char *folder) {
  compute_status s = compute_open(&t->context, NULL);
  if (s) return s;
  t->device = compute_default_device(t->context);
  t->model = n->build(t->device);
  if (!t->model) return COMPUTE_ERROR_INTERNAL;
  s = compute_layer_initialize(t->model, COMPUTE_INIT_DEFAULT, 17);
  if (!s) s = make_tensor(t->device, &n->input, batch, WORDS, 1, &t->x);
  if (!s) s = make_tensor(t->device, &label, batch, BENCH_CLASSES, 2, &t->labels);
  if (!s) s = save(t, folder);
  return s ? s
           : compute_trainer_create(t->context,
                                    &(compute_trainer_options){.model = t->model,
                                                               .input = n->input,
                                                               .target = label,
                                                               .batch = batch,
                                                               .optimizer = n->optimizer,
                                                               .devices = &t->device,
                                                               .device_count = 1},
                                    &t->trainer);
}

static compute_status print_losses(const training *t, int count) {
  compute_status s = COMPUTE_OK;
  printf("{\"losses\": [");
  for (int i = 0; i < count && !s; i++) {
    double loss = 0;
    s = compute_trainer_step(t->trainer, t->x, t->labels, &loss);
    printf("%s%.9g", i ? ", " : "", loss);
  }
  printf("]}\n");
  return s;
}

/* The first step fetches its data again; it only counts where a step takes all the time. */
static compute_status print_times(const training *t, double seconds) {
  double loss, start = clock_seconds();
  const double end = start + seconds;
  int count = 0;
  compute_status s = compute_trainer_step(t->trainer, t->x, t->labels, &loss);
  const double first = clock_seconds() - start;
  printf("{\"times\": [");
  while (!s && count < MOST_STEPS && clock_seconds() < end) {
    start = clock_seconds();
    s = compute_trainer_step(t->trainer, t->x, t->labels, &loss);
    printf("%s%.9g", count++ ? ", " : "", clock_seconds() - start);
  }
  if (!count) printf("%.9g", first);
  printf("]}\n");
  return s;
}

static compute_status obey(const training *t) {
  compute_device_info info;
  char line[64];
  compute_status s = compute_device_describe(t->device, &info);
  if (!s) printf("{\"version\": \"%s\", \"isa\": \"%s\"}\n", compute_version_text(), info.isa);
  while (!s && !fflush(stdout) && fgets(line, sizeof line, stdin)) {
    if (!strncmp(line, "losses ", 7))
      s = print_losses(t, atoi(line + 7));
    else if (!strncmp(line, "run ", 4))
      s = print_times(t, atof(line + 4));
    else
      return COMPUTE_ERROR_INVALID_ARGUMENT;
  }
  return s;
}

static const network *find(const char *name) {
  for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
    if (!strcmp(networks[i].name, name)) return &networks[i];
  return NULL;
}

int main(int argc, char **argv) {
  training t = {0};
  const network *n = argc == 4 ? find(argv[1]) : NULL;
  if (!n || atoll(argv[2]) < 1) {
    fprintf(stderr, "usage: compute-train-steps mlp|cnn|resnet18|transformer BATCH FOLDER\n");
    return 2;
  }
  compute_status s = prepare(&t, n, atoll(argv[2]), argv[3]);
  if (!s) s = obey(&t);
  if (s) fprintf(stderr, "%s: %s\n", n->name, compute_error_message(t.context));
  compute_trainer_release(t.trainer);
  compute_tensor_release(t.x);
  compute_tensor_release(t.labels);
  compute_layer_release(t.model);
  compute_close(t.context);
  return s ? 1 : 0;
}
