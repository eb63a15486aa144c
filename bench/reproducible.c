/* SPDX-License-Identifier: MIT */
/* The price of COMPUTE_PLAN_REPRODUCIBLE and COMPUTE_PLAN_PORTABLE: times of one graph with and
 * without the flags, alternating in one process, with one thread.
 *
 *   compute-reproducible [ROUNDS [DEVICE]]
 *
 * Prints one JSON object for each case: microseconds of a run, the least of all rounds, and the
 * times with a flag divided by the time without. Without DEVICE, times are the processor's. */
#include <compute/compute.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WAYS = 3, MOST_RUNS = 1 << 20 };
static const uint32_t flags[WAYS] = {0, COMPUTE_PLAN_REPRODUCIBLE, COMPUTE_PLAN_PORTABLE};
static const double LEAST_SECONDS = 0.02; /* of one measurement */

/* ---- Graphs ---------------------------------------------------------------------------------- */

typedef struct work {
  const char *name;
  compute_node (*build)(compute_graph *graph, compute_node x);
  compute_shape item; /* axis 0 has the items */
} work;

static uint64_t seed;

static compute_node weight(compute_graph *g, compute_shape shape, bool frozen) {
  compute_tensor *tensor = NULL;
  compute_device *device = compute_default_device(compute_graph_context(g));
  if (compute_tensor_random(device, COMPUTE_F32, shape, -.1, .1, ++seed, &tensor))
    return (compute_node){0};
  if (frozen) compute_tensor_freeze(tensor);
  const compute_node node = compute_parameter(g, tensor);
  compute_tensor_release(tensor);
  return node;
}

static compute_node linear(compute_graph *g, compute_node x, int64_t k, int64_t n) {
  return compute_add(g, compute_matmul(g, x, weight(g, COMPUTE_SHAPE(k, n), true)),
                     weight(g, COMPUTE_SHAPE(n), true));
}

static compute_node build_dense(compute_graph *g, compute_node x) {
  x = compute_gelu(g, linear(g, x, 784, 1024));
  x = compute_gelu(g, linear(g, x, 1024, 1024));
  return compute_softmax(g, linear(g, x, 1024, 10), -1);
}

static compute_node filter(compute_graph *g, compute_node x, int64_t from, int64_t to, int64_t size,
                           int64_t stride) {
  const compute_conv2d_options o = {.padding = {size / 2, size / 2}, .stride = {stride, stride}};
  const compute_node w = weight(g, COMPUTE_SHAPE(to, from, size, size), true);
  return compute_conv2d(g, x, w, weight(g, COMPUTE_SHAPE(to), true), &o);
}

/* A bottleneck as in ResNet-50. */
static compute_node bottleneck(compute_graph *g, compute_node x, int64_t wide, int64_t narrow) {
  compute_node y = compute_relu(g, filter(g, x, wide, narrow, 1, 1));
  y = compute_relu(g, filter(g, y, narrow, narrow, 3, 1));
  return compute_relu(g, compute_add(g, x, filter(g, y, narrow, wide, 1, 1)));
}

static compute_node build_images(compute_graph *g, compute_node x) {
  x = compute_relu(g, filter(g, x, 3, 64, 7, 2));
  x = compute_max_pool2d(g, x, &(compute_pool2d_options){.size = {2, 2}, .stride = {2, 2}});
  x = compute_relu(g, filter(g, x, 64, 256, 1, 2));
  for (int i = 0; i < 3; i++) x = bottleneck(g, x, 256, 64);
  x = compute_mean(g, x, COMPUTE_AXES(2, 3), false);
  return linear(g, x, 256, 1000);
}

static compute_node heads(compute_graph *g, compute_node x, int64_t items) {
  const compute_node parts = compute_reshape(g, x, COMPUTE_SHAPE(items, 128, 8, 64));
  return compute_transpose(g, parts, COMPUTE_AXES(0, 2, 1, 3));
}

/* A block of a transformer: 128 tokens of 512, 8 heads. */
static compute_node build_block(compute_graph *g, compute_node x) {
  const compute_node none = {0};
  const int64_t items = compute_node_shape(g, x).size[0];
  const compute_node n = compute_layer_norm(g, x, none, none, 1e-5);
  const compute_node q = heads(g, linear(g, n, 512, 512), items);
  const compute_node k = heads(g, linear(g, n, 512, 512), items);
  const compute_node v = heads(g, linear(g, n, 512, 512), items);
  compute_node y = compute_scaled_attention(g, q, k, v, NULL);
  y = compute_transpose(g, y, COMPUTE_AXES(0, 2, 1, 3));
  y = compute_reshape(g, y, COMPUTE_SHAPE(items, 128, 512));
  y = compute_add(g, x, linear(g, y, 512, 512));
  const compute_node m = compute_layer_norm(g, y, none, none, 1e-5);
  return compute_add(g, y, linear(g, compute_gelu(g, linear(g, m, 512, 2048)), 2048, 512));
}

/* A right factor [columns, k] that is not frozen. */
static compute_node build_turned(compute_graph *g, compute_node x) {
  const compute_node w = weight(g, COMPUTE_SHAPE(1024, 1024), false);
  return compute_matmul(g, x, compute_transpose(g, w, COMPUTE_AXES(1, 0)));
}

static compute_node build_quantized(compute_graph *g, compute_node x) {
  static unsigned char bytes[1024 * 512];
  compute_tensor *numbers = NULL;
  compute_device *device = compute_default_device(compute_graph_context(g));
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 167);
  if (compute_tensor_create(device, COMPUTE_U8, COMPUTE_SHAPE(1024, 512), &numbers) ||
      compute_tensor_write(numbers, bytes, sizeof bytes))
    return (compute_node){0};
  compute_tensor_freeze(numbers);
  const compute_node w = compute_parameter(g, numbers);
  compute_tensor_release(numbers);
  return compute_quantized_matmul(g, x, w, weight(g, COMPUTE_SHAPE(1024, 32), true),
                                  (compute_node){0},
                                  &(compute_quantized_options){.bits = 4, .block = 32});
}

static compute_node build_softmax(compute_graph *g, compute_node x) {
  return compute_softmax(g, x, -1);
}

static const work works[] = {
    {"dense", build_dense, {2, {1, 784}}},
    {"images", build_images, {4, {1, 3, 112, 112}}},
    {"transformer block", build_block, {3, {1, 128, 512}}},
    {"product, transposed right factor", build_turned, {2, {1, 1024}}},
    {"product, weights of 4 bits", build_quantized, {2, {1, 1024}}},
    {"softmax", build_softmax, {2, {1, 1000}}},
};
static const int64_t batches[] = {1, 8, 64};

/* ---- Measuring ------------------------------------------------------------------------------- */

static bool on_processor = true;

/* On the CPU the processor's time of the one thread: other programs then do not count. */
static double seconds_now(void) {
  struct timespec now;
  if (on_processor) return (double)clock() / CLOCKS_PER_SEC;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

typedef struct side {
  compute_graph *graph;
  compute_plan *plan;
  compute_tensor *x, *y;
  compute_binding binding[2];
  double least; /* seconds of a run */
} side;

static double time_runs(const side *s, int64_t runs, compute_status *status) {
  const double begin = seconds_now();
  for (int64_t i = 0; i < runs && !*status; i++)
    *status = compute_run(s->plan, s->binding, 2, NULL);
  return seconds_now() - begin;
}

static compute_status make(compute_context *context, const work *w, int64_t items, uint32_t flag,
                           side *s) {
  compute_device *device = compute_default_device(context);
  compute_shape shape = w->item;
  shape.size[0] = items;
  seed = 0;
  s->graph = compute_graph_create(context);
  const compute_node x = compute_input(s->graph, COMPUTE_F32, shape);
  const compute_node y = w->build(s->graph, x);
  compute_status status = compute_compile(
      s->graph, &y, 1, &(compute_plan_options){.device = device, .flags = flag}, &s->plan);
  if (!status) status = compute_tensor_random(device, COMPUTE_F32, shape, -1, 1, 99, &s->x);
  if (!status) status = compute_plan_create_tensor(s->plan, y, &s->y);
  s->binding[0] = (compute_binding){x, s->x};
  s->binding[1] = (compute_binding){y, s->y};
  s->least = 1e9;
  return status;
}

static void release(side *s) {
  compute_tensor_release(s->x);
  compute_tensor_release(s->y);
  compute_plan_release(s->plan);
  compute_graph_release(s->graph);
}

static compute_status measure(compute_context *context, const work *w, int64_t items, int rounds) {
  side sides[WAYS] = {{0}};
  int64_t runs[WAYS];
  compute_status status = COMPUTE_OK;
  for (int i = 0; i < WAYS && !status; i++) {
    status = make(context, w, items, flags[i], &sides[i]);
    time_runs(&sides[i], 2, &status);
    runs[i] = 1;
    while (!status && runs[i] < MOST_RUNS && time_runs(&sides[i], runs[i], &status) < LEAST_SECONDS)
      runs[i] *= 2;
  }
  for (int r = 0; r < rounds && !status; r++)
    for (int i = 0; i < WAYS && !status; i++) {
      const double seconds = time_runs(&sides[i], runs[i], &status) / (double)runs[i];
      if (seconds < sides[i].least) sides[i].least = seconds;
    }
  if (!status)
    printf("{\"work\": \"%s\", \"items\": %d, \"microseconds\": %.1f, \"reproducible_us\": %.1f, "
           "\"portable_us\": %.1f, \"reproducible\": %.2f, \"portable\": %.2f}\n",
           w->name, (int)items, 1e6 * sides[0].least, 1e6 * sides[1].least, 1e6 * sides[2].least,
           sides[1].least / sides[0].least, sides[2].least / sides[0].least);
  fflush(stdout);
  for (int i = 0; i < WAYS; i++) release(&sides[i]);
  return status;
}

int main(int count, char **arguments) {
  const int rounds = count > 1 ? atoi(arguments[1]) : 15;
  compute_context *context = NULL;
  const compute_open_options options = {.device = count > 2 ? arguments[2] : "cpu", .threads = 1};
  compute_status status = compute_open(&context, &options);
  on_processor = count <= 2;
  for (size_t i = 0; i < sizeof works / sizeof *works && !status; i++)
    for (size_t b = 0; b < sizeof batches / sizeof *batches && !status; b++)
      status = measure(context, &works[i], batches[b], rounds);
  if (status) fprintf(stderr, "compute-reproducible: %s\n", compute_error_message(NULL));
  if (compute_close(context) && !status) status = COMPUTE_ERROR_INTERNAL;
  return status != COMPUTE_OK;
}
