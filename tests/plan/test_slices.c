/* SPDX-License-Identifier: MIT */
/* A batch whose values exceed the caches runs in micro-batches (slices), and one image in row tiles
 * (bands). A plan without them gives the same bits for any number of threads, and micro-batches
 * need less memory. The test sets the size of the caches. */
#include <stdlib.h>
#include <string.h>

#include "core/device/device.h"
#include "support/harness/failing_allocator.h"
#include "support/harness/test.h"
#include "support/harness/values.h"

#define UNLIMITED (UINT64_C(1) << 40)

enum { SIDE = 24, CHANNELS = 16, MOST_OUTPUTS = 8, MOST_TENSORS = 32 };

/* A graph with its parameters, all in one context. */
typedef struct network {
  compute_context *context;
  compute_graph *graph;
  compute_tensor *tensor[MOST_TENSORS], *image;
  size_t tensors, outputs, updates; /* after the outputs: updates of parameters, without values */
  compute_node x, output[MOST_OUTPUTS];
  compute_tensor *result[MOST_OUTPUTS];
} network;

typedef void builder(network *n, int64_t batch);

static compute_context *open_with(int32_t threads, uint64_t cache_bytes) {
  compute_context *context = NULL;
  const compute_open_options options = {.backends = "cpu", .device = "cpu", .threads = threads};
  assert_ok(compute_open(&context, &options));
  compute_device_info *info = &compute_device_at(context, 0)->info;
  info->cache_bytes = cache_bytes;
  info->compute_units = 0; /* no work is too small for the threads */
  return context;
}

static compute_node weights(network *n, compute_shape shape) {
  assert_true(n->tensors < MOST_TENSORS);
  compute_tensor *tensor = test_random_tensor(n->context, COMPUTE_F32, shape, 10 + n->tensors);
  if (n->tensors % 2 == 0) compute_tensor_freeze(tensor);
  n->tensor[n->tensors++] = tensor;
  return compute_parameter(n->graph, tensor);
}

static compute_node conv(network *n, compute_node x, int64_t from, int64_t to, int64_t side,
                         int32_t groups) {
  const compute_conv2d_options options = {
      .stride = {1, 1}, .padding = {side / 2, side / 2}, .groups = groups};
  return compute_conv2d(n->graph, x, weights(n, COMPUTE_SHAPE(to, from / groups, side, side)),
                        (compute_node){0}, &options);
}

/* A depthwise convolution. */
static compute_node depthwise(network *n, compute_node x, int64_t channels, int64_t side,
                              int64_t stride) {
  const compute_conv2d_options options = {
      .stride = {stride, stride}, .padding = {side / 2, side / 2}, .groups = (int32_t)channels};
  return compute_conv2d(n->graph, x, weights(n, COMPUTE_SHAPE(channels, 1, side, side)),
                        weights(n, COMPUTE_SHAPE(channels)), &options);
}

/* For images with this number of rows. */
static network network_create_high(compute_context *context, int64_t batch, int64_t rows,
                                   builder *build) {
  network n = {.context = context, .graph = compute_graph_create(context)};
  const compute_shape shape = COMPUTE_SHAPE(batch, 3, rows, SIDE);
  n.image = test_random_tensor(context, COMPUTE_F32, shape, 99);
  n.x = compute_input(n.graph, COMPUTE_F32, shape);
  build(&n, batch);
  assert_ok(compute_graph_status(n.graph));
  for (size_t i = 0; i < n.outputs; i++)
    n.result[i] = test_tensor(context, compute_node_dtype(n.graph, n.output[i]),
                              compute_node_shape(n.graph, n.output[i]), NULL);
  return n;
}

static network network_create(compute_context *context, int64_t batch, builder *build) {
  return network_create_high(context, batch, SIDE, build);
}

static compute_status network_report(const network *n, const compute_plan *plan,
                                     const compute_run_options *options,
                                     compute_run_report *report) {
  compute_binding bindings[1 + MOST_OUTPUTS] = {{n->x, n->image}};
  for (size_t i = 0; i < n->outputs; i++)
    bindings[1 + i] = (compute_binding){n->output[i], n->result[i]};
  return compute_run_with(plan, bindings, 1 + n->outputs, options, report);
}

static compute_status network_try(const network *n, const compute_plan *plan,
                                  const compute_run_options *options) {
  return network_report(n, plan, options, NULL);
}

static compute_plan_info network_run(network *n, int times) {
  compute_plan *plan = test_compile(n->graph, n->output, n->outputs + n->updates, 0);
  for (int i = 0; i < times; i++) assert_ok(network_try(n, plan, NULL));
  compute_plan_info info;
  assert_ok(compute_plan_describe(plan, &info));
  compute_plan_release(plan);
  return info;
}

static void network_release(network *n) {
  for (size_t i = 0; i < n->tensors; i++) compute_tensor_release(n->tensor[i]);
  for (size_t i = 0; i < n->outputs; i++) compute_tensor_release(n->result[i]);
  compute_tensor_release(n->image);
  compute_graph_release(n->graph);
}

static size_t bytes_of(const compute_tensor *t) {
  return (size_t)compute_tensor_count(t) * compute_dtype_size(compute_tensor_dtype(t));
}

/* The tensors start with equal elements, as many as the shorter one has. */
static void assert_same_start(const compute_tensor *a, const compute_tensor *b) {
  const size_t x = bytes_of(a), y = bytes_of(b), bytes = x < y ? x : y;
  unsigned char *first = malloc(x), *second = malloc(y);
  assert_true(first && second);
  assert_ok(compute_tensor_read(a, first, x));
  assert_ok(compute_tensor_read(b, second, y));
  assert_memory_equal(first, second, bytes);
  free(first);
  free(second);
}

/* ---- Networks ------------------------------------------------------------------------------ */

/* Steps between convolutions: pooling, a residual that enters and leaves, a gate, values per
 * channel and per item, an intermediate output, a concatenation, rows, a product of pixels. */
static void build_layers(network *n, int64_t batch) {
  compute_graph *g = n->graph;
  const compute_node stem = compute_relu(g, conv(n, n->x, 3, CHANNELS, 3, 1));
  const compute_pool2d_options pool = {.size = {3, 3}, .stride = {1, 1}, .padding = {1, 1}};
  const compute_node deep = compute_relu(g, conv(n, stem, CHANNELS, CHANNELS, 3, CHANNELS));
  const compute_node sum = compute_add(g, compute_max_pool2d(g, stem, &pool), deep);
  const compute_node mean = compute_mean(g, sum, (compute_axes){2, {2, 3}}, true);
  const compute_node gate = compute_sigmoid(g, conv(n, mean, CHANNELS, CHANNELS, 1, 1));
  const compute_node gated =
      compute_mul(g, compute_mul(g, sum, gate), weights(n, COMPUTE_SHAPE(batch, CHANNELS, 1, 1)));
  const compute_node narrow = compute_add(g, conv(n, gated, CHANNELS, CHANNELS, 1, 1), stem);
  const compute_node joined =
      compute_concat(g, (const compute_node[]){narrow, compute_sigmoid(g, gated)}, 2, 1);
  const compute_node last = conv(n, joined, 2 * CHANNELS, 8, 1, 1);
  const compute_node pixels =
      compute_reshape(g, compute_transpose(g, last, (compute_axes){4, {0, 2, 3, 1}}),
                      COMPUTE_SHAPE(batch * SIDE * SIDE, 8));
  const compute_node product = compute_matmul(g, pixels, weights(n, COMPUTE_SHAPE(8, 72)));
  const compute_node rows = compute_layer_norm(g, product, weights(n, COMPUTE_SHAPE(72)),
                                               weights(n, COMPUTE_SHAPE(72)), 1e-5);
  n->output[n->outputs++] = sum;
  n->output[n->outputs++] = compute_softmax(g, rows, 1);
  n->output[n->outputs++] = compute_mean(g, last, (compute_axes){2, {2, 3}}, false);
}

/* Steps that cannot be cut, or that end a run of steps: positions, the batch as another dimension,
 * all items at once. */
static void build_obstacles(network *n, int64_t batch) {
  compute_graph *g = n->graph;
  const compute_shape shape = COMPUTE_SHAPE(batch, CHANNELS, SIDE, SIDE);
  const compute_node stem = compute_relu(g, conv(n, n->x, 3, CHANNELS, 3, 1));
  const compute_node noise =
      compute_random_uniform(g, COMPUTE_F32, shape, compute_scalar_i64(g, COMPUTE_I64, 5), 1);
  const compute_node noisy = conv(n, compute_add(g, stem, noise), CHANNELS, CHANNELS, 1, 1);
  const compute_node index = compute_index(g, COMPUTE_F32, shape, 0);
  const compute_node numbered = compute_exp(g, compute_neg(g, compute_add(g, index, noisy)));
  const compute_node turned = compute_transpose(g, numbered, (compute_axes){4, {1, 0, 2, 3}});
  const compute_node scaled =
      compute_mul(g, compute_tanh(g, turned), weights(n, COMPUTE_SHAPE(CHANNELS, batch, 1, 1)));
  const compute_node back = compute_transpose(g, scaled, (compute_axes){4, {1, 0, 2, 3}});
  const compute_node all = compute_mean(g, back, (compute_axes){1, {0}}, true);
  const compute_node centred = conv(n, compute_sub(g, back, all), CHANNELS, CHANNELS, 1, 1);
  const compute_node reversed = compute_concat(
      g,
      (const compute_node[]){compute_slice(g, centred, 0, batch / 2, batch - batch / 2, 1),
                             compute_slice(g, centred, 0, 0, batch / 2, 1)},
      2, 0);
  n->output[n->outputs++] =
      compute_mul(g, compute_relu(g, conv(n, reversed, CHANNELS, CHANNELS, 3, CHANNELS)), centred);
  n->output[n->outputs++] = compute_sum(g, turned, (compute_axes){2, {2, 3}}, false);
  n->output[n->outputs++] =
      compute_cumulative_sum(g, conv(n, stem, CHANNELS, CHANNELS, 1, 1), 0, false, false);
}

/* A parameter that the run changes, with the batch as its first dimension. */
static void build_state(network *n, int64_t batch) {
  compute_graph *g = n->graph;
  const compute_shape shape = COMPUTE_SHAPE(batch, CHANNELS, SIDE, SIDE);
  compute_tensor *state = test_random_tensor(n->context, COMPUTE_F32, shape, 50);
  n->tensor[n->tensors++] = state;
  const compute_node old = compute_parameter(g, state);
  const compute_node stem = compute_relu(g, conv(n, n->x, 3, CHANNELS, 3, 1));
  const compute_node mixed = conv(n, compute_add(g, stem, old), CHANNELS, CHANNELS, 1, 1);
  const compute_node new = compute_tanh(g, conv(n, mixed, CHANNELS, CHANNELS, 3, CHANNELS));
  n->output[n->outputs++] = compute_sub(g, mixed, old);
  n->output[n->outputs + n->updates++] = compute_assign(g, old, new);
}

/* Blocks for one image, each with a point, a depthwise and a point convolution. The second block
 * adds its input to the result, the third halves the rows, and the fourth leaves too few rows. The
 * block before them adds the result of its first step, so a run of steps reads it at two places. */
static void build_blocks(network *n, int64_t batch) {
  enum { WIDE = 64 };
  static const int64_t side[] = {3, 5, 3, 5}, stride[] = {1, 1, 2, 4};
  compute_graph *g = n->graph;
  compute_node x = compute_relu(g, conv(n, n->x, 3, CHANNELS, 3, 1));
  (void)batch;
  const compute_node first = compute_relu(g, conv(n, x, CHANNELS, CHANNELS, 1, 1));
  const compute_node deep = compute_relu(g, depthwise(n, first, CHANNELS, 3, 1));
  x = compute_add(g, conv(n, deep, CHANNELS, CHANNELS, 1, 1), first);
  for (int i = 0; i < 4; i++) {
    const compute_node wide = compute_relu(g, conv(n, x, CHANNELS, WIDE, 1, 1));
    const compute_node middle = compute_relu(g, depthwise(n, wide, WIDE, side[i], stride[i]));
    const compute_node narrow = conv(n, middle, WIDE, CHANNELS, 1, 1);
    x = i == 1 ? compute_add(g, narrow, x) : narrow;
    n->output[n->outputs++] =
        i == 1 ? x : compute_mean(g, middle, (compute_axes){2, {2, 3}}, false);
  }
  n->output[n->outputs++] = compute_mul(g, x, x);
}

/* A convolution of bytes in groups of `channels` / `groups` channels, with bytes as results. */
static compute_node conv_bytes(network *n, compute_node x, int64_t from, int64_t to, int64_t side,
                               int32_t groups) {
  compute_graph *g = n->graph;
  const compute_conv2d_options options = {
      .stride = {1, 1}, .padding = {side / 2, side / 2}, .groups = groups};
  const compute_node filter = weights(n, COMPUTE_SHAPE(to, from / groups, side, side));
  const compute_node bytes =
      compute_cast(g, compute_mul(g, filter, compute_scalar(g, COMPUTE_F32, 120)), COMPUTE_I8);
  const compute_node sums =
      compute_conv2d_integer(g, x, bytes, (compute_node){0}, (compute_node){0}, &options);
  const compute_node scaled =
      compute_mul(g, compute_cast(g, sums, COMPUTE_F32), compute_scalar(g, COMPUTE_F32, 1.0 / 512));
  return compute_cast(g, compute_clamp(g, scaled, -127, 127), COMPUTE_I8);
}

static void build_bytes(network *n, int64_t batch) {
  compute_graph *g = n->graph;
  (void)batch;
  const compute_node image =
      compute_cast(g, compute_mul(g, n->x, compute_scalar(g, COMPUTE_F32, 120)), COMPUTE_I8);
  const compute_node first = conv_bytes(n, image, 3, 2 * CHANNELS, 3, 1);
  const compute_node wide = conv_bytes(n, first, 2 * CHANNELS, 4 * CHANNELS, 1, 1);
  const compute_node deep = conv_bytes(n, wide, 4 * CHANNELS, 4 * CHANNELS, 3, 4 * CHANNELS);
  n->output[n->outputs++] = conv_bytes(n, deep, 4 * CHANNELS, CHANNELS, 1, 1);
}

/* Sums of `channels` products in row tiles of 64 pixels, for an image of 16 rows and columns. */
static void build_sums(network *n, int64_t channels) {
  compute_graph *g = n->graph;
  const compute_node square = compute_slice(g, compute_slice(g, n->x, 2, 0, 16, 1), 3, 0, 16, 1);
  const compute_node wide = compute_relu(g, conv(n, square, 3, channels, 3, 1));
  const compute_node deep = compute_relu(g, depthwise(n, wide, channels, 3, 1));
  const compute_node sums = compute_relu(g, conv(n, deep, channels, CHANNELS, 1, 1));
  n->output[n->outputs++] = conv(n, sums, CHANNELS, 8, 1, 1);
}

static void build_1024_products(network *n, int64_t batch) {
  (void)batch;
  build_sums(n, 1024);
}

static void build_1025_products(network *n, int64_t batch) {
  (void)batch;
  build_sums(n, 1025);
}

/* Blocks for the first image, which run in row tiles. Layers for all images and the results of the
 * blocks follow, in micro-batches. */
static void build_both(network *n, int64_t batch) {
  const compute_node images = n->x;
  n->x = compute_slice(n->graph, images, 0, 0, 1, 1);
  build_blocks(n, 1);
  n->x = compute_add(n->graph, images,
                     compute_mean(n->graph, n->output[1], (compute_axes){3, {1, 2, 3}}, true));
  build_layers(n, batch);
  n->x = images;
}

/* ---- Promises ------------------------------------------------------------------------------ */

static void compare(builder *build, int64_t batch, bool items) {
  compute_context *context = open_with(1, UNLIMITED);
  network whole = network_create(context, batch, build);
  const compute_plan_info unsliced = network_run(&whole, 2);
  for (int32_t threads = 1; threads <= 3; threads++)
    for (uint64_t cache = 256 << 10; cache <= 4 << 20; cache *= 4) {
      compute_context *other = open_with(threads, cache);
      network sliced = network_create(other, batch, build);
      const compute_plan_info info = network_run(&sliced, 2);
      assert_true(batch < 5 || cache > 256 << 10 || info.steps > unsliced.steps);
      assert_int_equal(info.operations, unsliced.operations);
      for (size_t i = 0; i < sliced.outputs; i++)
        assert_same_start(sliced.result[i], whole.result[i]);
      for (size_t i = 0; i < sliced.tensors; i++)
        assert_same_start(sliced.tensor[i], whole.tensor[i]);
      network_release(&sliced);
      test_close(other);
    }
  network one = network_create(context, 1, build);
  network_run(&one, 2);
  for (size_t i = 0; items && i < one.outputs; i++)
    assert_same_start(one.result[i], whole.result[i]);
  network_release(&one);
  network_release(&whole);
  test_close(context);
}

static void slices_change_no_bit(void **state) {
  (void)state;
  static const int64_t batches[] = {8, 5, 7, 2};
  for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
    compare(build_layers, batches[i], true);
    compare(build_obstacles, batches[i], false);
    compare(build_state, batches[i], true);
  }
}

/* Checks whether `explain` contains these words. */
static void assert_explained(const network *n, const char *words, bool there) {
  compute_plan *plan = test_compile(n->graph, n->output, n->outputs, 0);
  char *text;
  assert_ok(compute_explain(plan, &text));
  if ((strstr(text, words) != NULL) != there)
    fail_msg("\"%s\" is %s in\n%s", words, there ? "not" : "found", text);
  compute_text_free(text);
  compute_plan_release(plan);
}

/* One image with this number of rows. With 2 to `most` threads it runs in row tiles; with more
 * threads it may. */
static void compare_bands(builder *build, int64_t rows, int32_t most) {
  compute_context *context = open_with(1, UNLIMITED);
  network whole = network_create_high(context, 1, rows, build);
  const compute_plan_info info = network_run(&whole, 2);
  for (int32_t threads = 1; threads <= 5; threads++) {
    compute_context *other = open_with(threads, UNLIMITED);
    network banded = network_create_high(other, 1, rows, build);
    const uint32_t steps = network_run(&banded, 2).steps;
    assert_true(threads > 1 || steps == info.steps);
    assert_true(threads == 1 || threads > most || steps > info.steps);
    for (size_t i = 0; i < banded.outputs; i++)
      assert_same_start(banded.result[i], whole.result[i]);
    network_release(&banded);
    test_close(other);
  }
  network_release(&whole);
  test_close(context);
}

/* One image in row tiles, whose halo two threads compute. */
static void bands_change_no_bit(void **state) {
  (void)state;
  compare_bands(build_blocks, SIDE, 2);
  compare_bands(build_blocks, 4 * SIDE, 4);
  compare_bands(build_bytes, 4 * SIDE, 4);
}

/* The longest sums with one method for any number of rows, and longer ones, which row tiles
 * exclude. */
static void bands_keep_to_short_sums(void **state) {
  (void)state;
  compare_bands(build_1024_products, SIDE, 2);
  compare_bands(build_1025_products, SIDE, 1);
  compute_context *context = open_with(2, UNLIMITED);
  network n[] = {network_create(context, 1, build_1024_products),
                 network_create(context, 1, build_1025_products)};
  assert_explained(&n[0], "run in 4 bands of the 16 rows", true);
  assert_explained(&n[1], "bands of the 16 rows", false);
  for (int i = 0; i < 2; i++) network_release(&n[i]);
  test_close(context);
}

/* Runs both networks, which must agree, and releases them and their contexts. */
static void finish_alike(compute_context *context[2], network *whole, network *cut) {
  network_run(whole, 1);
  network_run(cut, 2);
  for (size_t i = 0; i < cut->outputs; i++) assert_same_start(cut->result[i], whole->result[i]);
  network_release(whole);
  network_release(cut);
  for (int i = 0; i < 2; i++) test_close(context[i]);
}

/* Row tiles before micro-batches move their steps, and micro-batches refer to other steps for
 * packed weights. */
static void slices_after_bands_read_their_own_weights(void **state) {
  (void)state;
  compute_context *context[] = {open_with(1, UNLIMITED), open_with(2, 256 << 10)};
  network whole = network_create(context[0], 8, build_both);
  network cut = network_create(context[1], 8, build_both);
  assert_explained(&cut, "bands of the 24 rows", true);
  assert_explained(&cut, "slices of the 8 items", true);
  finish_alike(context, &whole, &cut);
}

static void explain_names_the_bands(void **state) {
  (void)state;
  compute_context *context = open_with(2, UNLIMITED);
  network n = network_create(context, 1, build_blocks);
  assert_explained(&n, "bands of the 24 rows, each on one thread; the first band:", true);
  network_release(&n);
  test_close(context);
}

/* Values that fit into the caches, but not into the cache of one core, are cut only for several
 * threads. */
static void slices_stay_near_their_cores(void **state) {
  (void)state;
  compute_context *context[] = {open_with(1, UNLIMITED), open_with(2, UNLIMITED)};
  network whole = network_create(context[0], 32, build_layers);
  network cut = network_create(context[1], 32, build_layers);
  assert_explained(&whole, "slices of the 32 items", false);
  assert_explained(&cut, "slices of the 32 items, each on one thread", true);
  finish_alike(context, &whole, &cut);
}

/* A temporary that only the steps of a micro-batch use needs memory for one micro-batch. */
static void a_slice_takes_little_memory(void **state) {
  (void)state;
  compute_plan_info info[2];
  for (int i = 0; i < 2; i++) {
    compute_context *context = open_with(1 + i, i == 0 ? UNLIMITED : 256 << 10);
    network n = network_create(context, 32, build_layers);
    info[i] = network_run(&n, 1);
    network_release(&n);
    test_close(context);
  }
  assert_true(info[1].arena_bytes < info[0].arena_bytes / 2);
}

/* The steps of one micro-batch represent all. */
static void explain_names_the_slices(void **state) {
  (void)state;
  compute_context *context = open_with(2, 256 << 10);
  network n = network_create(context, 7, build_layers);
  compute_plan *plan = test_compile(n.graph, n.output, n.outputs, 0);
  compute_plan_info info;
  char *text;
  assert_ok(compute_explain(plan, &text));
  assert_ok(compute_plan_describe(plan, &info));
  assert_non_null(strstr(text, "in 7 slices of the 7 items"));
  size_t predictions = 0;
  for (const char *at = text; (at = strstr(at, "predicted")) != NULL; at++) predictions++;
  assert_true(predictions < info.steps);
  compute_text_free(text);
  compute_plan_release(plan);
  network_release(&n);
  test_close(context);
}

/* ---- Limits -------------------------------------------------------------------------------- */

/* Two depthwise convolutions with filters of the size `window`: window[0] * window[1] / 4
 * operations per byte. Between them are 6912 bytes for an image of 24 rows and 3 channels. */
static int64_t window[2];

static compute_node windows(network *n, compute_node x, int64_t channels) {
  const compute_conv2d_options options = {
      .stride = {1, 1}, .padding = {window[0] / 2, window[1] / 2}, .groups = (int32_t)channels};
  for (int i = 0; i < 2; i++)
    x = compute_conv2d(n->graph, x, weights(n, COMPUTE_SHAPE(channels, 1, window[0], window[1])),
                       (compute_node){0}, &options);
  return x;
}

static void build_windows(network *n, int64_t batch) {
  (void)batch;
  n->output[n->outputs++] = windows(n, n->x, 3);
}

/* Rows with all channels, as row tiles need them. */
static void build_wide_windows(network *n, int64_t batch) {
  (void)batch;
  const compute_node wide = windows(n, conv(n, n->x, 3, CHANNELS, 1, 1), CHANNELS);
  n->output[n->outputs++] = conv(n, wide, CHANNELS, 3, 1, 1);
}

/* A plan on either side of each limit that decides on micro-batches or row tiles. */
static const struct {
  int64_t batch, rows, window[2];
  uint64_t cache;
  int32_t threads;
  uint32_t units;
  bool cut;
  const char *words;
} limits[] = {
    /* 100 operations per byte, in micro-batches that stay in the caches */
    {32, SIDE, {19, 21}, 256 << 10, 1, 0, true, "slices of the 32 items"},
    {32, SIDE, {13, 31}, 256 << 10, 1, 0, false, "slices of the 32 items"},
    /* 24 operations per byte in micro-batches that stay near a core */
    {32, SIDE, {5, 19}, UNLIMITED, 2, 0, true, "slices of the 32 items, each on one thread"},
    {32, SIDE, {9, 11}, UNLIMITED, 2, 0, false, "slices of the 32 items"},
    /* 40 operations per byte in row tiles */
    {1, 4 * SIDE, {3, 53}, UNLIMITED, 2, 0, true, "bands of the 96 rows"},
    {1, 4 * SIDE, {3, 55}, UNLIMITED, 2, 0, false, "bands of the 96 rows"},
    /* Values of more than half the caches, of 512 KiB per thread, or of 2 MiB near a core */
    {32, SIDE, {3, 3}, 2 * 32 * 6912 - 4, 1, 0, true, "slices of the 32 items"},
    {32, SIDE, {3, 3}, 2 * 32 * 6912, 1, 0, false, "slices of the 32 items"},
    {152, SIDE, {3, 3}, 64 << 10, 1, 2, true, "slices of the 152 items"},
    {151, SIDE, {3, 3}, 64 << 10, 1, 2, false, "slices of the 151 items"},
    {607, SIDE, {3, 3}, UNLIMITED, 2, 2, true, "slices of the 607 items, each on one thread"},
    {606, SIDE, {3, 3}, UNLIMITED, 2, 2, false, "slices of the 606 items"},
    /* Filters of at most 1/32 of the caches */
    {32, SIDE, {19, 21}, 32 * 12 * 19 * 21, 1, 0, true, "slices of the 32 items"},
    {32, SIDE, {19, 21}, 32 * 12 * 19 * 21 - 1, 1, 0, false, "slices of the 32 items"},
    /* Threads with work for 7/8 of the time */
    {7, SIDE, {3, 3}, 64 << 10, 2, 0, true, "slices of the 7 items, each on one thread"},
    {5, SIDE, {3, 3}, 64 << 10, 2, 0, true, "slices of the 5 items"},
    {5, SIDE, {3, 3}, 64 << 10, 2, 0, false, "slices of the 5 items, each on one thread"},
};

static void limits_decide_and_change_no_bit(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    compute_context *context[] = {open_with(1, UNLIMITED),
                                  open_with(limits[i].threads, limits[i].cache)};
    compute_device_at(context[1], 0)->info.compute_units = limits[i].units;
    builder *build = limits[i].rows == SIDE ? build_windows : build_wide_windows;
    window[0] = limits[i].window[0];
    window[1] = limits[i].window[1];
    network whole = network_create_high(context[0], limits[i].batch, limits[i].rows, build);
    network cut = network_create_high(context[1], limits[i].batch, limits[i].rows, build);
    assert_explained(&cut, limits[i].words, limits[i].cut);
    finish_alike(context, &whole, &cut);
  }
}

/* ---- Micro-batches side by side ------------------------------------------------------------ */

/* Layers for eight items in micro-batches, which two threads compute side by side, and their
 * results without micro-batches. */
typedef struct pair {
  compute_context *context[2];
  network sliced, whole;
  compute_plan *plan;
} pair;

static pair pair_create(void) {
  pair p = {.context = {open_with(2, 2 << 20), open_with(2, UNLIMITED)}};
  p.sliced = network_create(p.context[0], 8, build_layers);
  p.whole = network_create(p.context[1], 8, build_layers);
  network_run(&p.whole, 1);
  p.plan = test_compile(p.sliced.graph, p.sliced.output, p.sliced.outputs, 0);
  char *text;
  assert_ok(compute_explain(p.plan, &text));
  assert_non_null(strstr(text, "slices of the 8 items, each on one thread"));
  compute_text_free(text);
  return p;
}

static void assert_same_results(const pair *p) {
  for (size_t i = 0; i < p->whole.outputs; i++)
    assert_same_start(p->sliced.result[i], p->whole.result[i]);
}

static void pair_release(pair *p) {
  compute_plan_release(p->plan);
  network_release(&p->sliced);
  network_release(&p->whole);
  test_close(p->context[0]);
  test_close(p->context[1]);
}

static void watching_changes_no_bit(void **state) {
  (void)state;
  pair p = pair_create();
  assert_ok(compute_profile_start(p.context[0], NULL));
  assert_ok(network_try(&p.sliced, p.plan, NULL));
  assert_same_results(&p);
  assert_ok(compute_validation_start(p.context[0], NULL));
  assert_ok(network_try(&p.sliced, p.plan, NULL));
  assert_same_results(&p);
  assert_ok(compute_validation_stop(p.context[0]));
  assert_ok(compute_profile_stop(p.context[0]));
  pair_release(&p);
}

/* A limit may end a run at any time, with an error of the calling thread. The next run is
 * complete. */
static void limits_end_all_threads(void **state) {
  (void)state;
  pair p = pair_create();
  compute_run_report report;
  assert_ok(network_report(&p.sliced, p.plan, NULL, &report));
  const uint32_t steps = report.steps_done;
  compute_status status = COMPUTE_ERROR_TIMEOUT;
  for (double limit = 1e-6; status != COMPUTE_OK; limit *= 1.2) {
    const compute_run_options options = {.time_limit = limit};
    status = network_report(&p.sliced, p.plan, &options, &report);
    assert_true(status == COMPUTE_OK || status == COMPUTE_ERROR_TIMEOUT);
    assert_true((report.steps_done < steps) == (status != COMPUTE_OK));
    if (status != COMPUTE_OK)
      assert_non_null(strstr(compute_error_message(p.context[0]), "time limit"));
  }
  assert_same_results(&p);
  pair_release(&p);
}

/* The first run reports every failing allocation, in whichever thread. */
static void failing_in_a_thread_is_reported(void **state) {
  (void)state;
  failing_allocator_install();
  pair p = pair_create();
  bool failed = true;
  for (int64_t nth = 1; failed; nth++) {
    compute_plan_release(p.plan);
    p.plan = test_compile(p.sliced.graph, p.sliced.output, p.sliced.outputs, 0);
    failing_allocator_arm(nth, true);
    const compute_status status = network_try(&p.sliced, p.plan, NULL);
    failed = failing_allocator_failures() > 0;
    failing_allocator_arm(0, false);
    assert_true(status == COMPUTE_OK || (failed && status == COMPUTE_ERROR_OUT_OF_MEMORY));
  }
  assert_same_results(&p);
  pair_release(&p);
  assert_int_equal(failing_allocator_remove(), 0);
}

/* ---- Compiling ----------------------------------------------------------------------------- */

static void fail_in_turn(compute_context *context, builder *build, int64_t batch) {
  network n = network_create(context, batch, build);
  bool failed = true;
  for (int64_t nth = 1; failed; nth++) {
    compute_plan *plan = NULL;
    failing_allocator_arm(nth, false);
    const compute_status status = compute_compile(n.graph, n.output, n.outputs, NULL, &plan);
    failed = failing_allocator_failures() > 0;
    failing_allocator_arm(0, false);
    assert_true(status == COMPUTE_OK || (failed && status == COMPUTE_ERROR_OUT_OF_MEMORY));
    compute_plan_release(plan);
  }
  network_release(&n);
}

/* If any allocation fails, compilation reports it or cuts nothing. */
static void failing_to_slice_leaves_nothing(void **state) {
  (void)state;
  failing_allocator_install();
  compute_context *context = open_with(1, 256 << 10);
  fail_in_turn(context, build_layers, 4);
  test_close(context);
  context = open_with(2, UNLIMITED);
  fail_in_turn(context, build_blocks, 1);
  test_close(context);
  assert_int_equal(failing_allocator_remove(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slices_change_no_bit),
      cmocka_unit_test(bands_change_no_bit),
      cmocka_unit_test(bands_keep_to_short_sums),
      cmocka_unit_test(slices_after_bands_read_their_own_weights),
      cmocka_unit_test(explain_names_the_bands),
      cmocka_unit_test(slices_stay_near_their_cores),
      cmocka_unit_test(a_slice_takes_little_memory),
      cmocka_unit_test(explain_names_the_slices),
      cmocka_unit_test(limits_decide_and_change_no_bit),
      cmocka_unit_test(watching_changes_no_bit),
      cmocka_unit_test(limits_end_all_threads),
      cmocka_unit_test(failing_in_a_thread_is_reported),
      cmocka_unit_test(failing_to_slice_leaves_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
