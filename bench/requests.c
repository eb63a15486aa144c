/* SPDX-License-Identifier: MIT */
/* compute-requests [SECONDS]: throughput and latency of a batcher beside single runs.
 *
 * Clients are threads that send one item, wait for its result, and send the next. With single runs
 * every client runs a plan for one item. With a batcher the items of all clients are gathered. The
 * ways alternate in three rounds; a line of JSON has the medians of each. Every result of a batcher
 * is compared with the single run of the same item, bit for bit. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compute/compute.h"

enum { MOST_CLIENTS = 64, ROUNDS = 3, POOL = 64, MOST_TIMES = 200000 };

/* ---- Networks -------------------------------------------------------------------------------- */

static compute_context *context;

static compute_node weights(compute_graph *g, compute_shape shape) {
  static int64_t count;
  compute_tensor *tensor = NULL;
  compute_shape_count(shape, &count);
  float *values = malloc((size_t)count * sizeof *values);
  if (!values) return (compute_node){0};
  for (int64_t i = 0; i < count; i++) values[i] = (float)(i * 7919 % 1009 - 504) / 8192;
  (void)compute_tensor_from_host(compute_default_device(context), COMPUTE_F32, shape, values,
                                 &tensor);
  free(values);
  const compute_node node = compute_parameter(g, tensor);
  compute_tensor_release(tensor);
  return node;
}

static compute_node dense(compute_graph *g, compute_node x) {
  x = compute_relu(g, compute_matmul(g, x, weights(g, COMPUTE_SHAPE(784, 512))));
  x = compute_relu(g, compute_matmul(g, x, weights(g, COMPUTE_SHAPE(512, 512))));
  return compute_softmax(g, compute_matmul(g, x, weights(g, COMPUTE_SHAPE(512, 10))), -1);
}

static compute_node images(compute_graph *g, compute_node x) {
  const compute_conv2d_options same = {.padding = {1, 1}};
  const compute_pool2d_options half = {.size = {2, 2}, .stride = {2, 2}};
  const compute_node none = {0};
  x = compute_relu(g, compute_conv2d(g, x, weights(g, COMPUTE_SHAPE(16, 1, 3, 3)), none, &same));
  x = compute_max_pool2d(g, x, &half);
  x = compute_relu(g, compute_conv2d(g, x, weights(g, COMPUTE_SHAPE(32, 16, 3, 3)), none, &same));
  x = compute_max_pool2d(g, x, &half);
  x = compute_mean(g, x, COMPUTE_AXES(2, 3), false);
  return compute_softmax(g, compute_matmul(g, x, weights(g, COMPUTE_SHAPE(32, 10))), -1);
}

typedef struct network {
  const char *name;
  compute_node (*record)(compute_graph *, compute_node);
  compute_shape item;
  size_t in; /* elements of an item */
} network;

enum { OUT = 10, MOST_IN = 784 };

static const network networks[] = {{"dense", dense, {.rank = 1, .size = {784}}, 784},
                                   {"images", images, {.rank = 3, .size = {1, 28, 28}}, 784}};

static void build(void *user, compute_graph *g, int64_t items, const compute_node *inputs,
                  compute_node *outputs) {
  (void)items;
  outputs[0] = ((const network *)user)->record(g, inputs[0]);
}

/* ---- Single runs ----------------------------------------------------------------------------- */

typedef struct single {
  compute_graph *graph;
  compute_plan *plan;
  compute_node x, y;
} single;

static compute_status open_single(const network *n, single *s) {
  compute_shape shape = {.rank = n->item.rank + 1, .size = {1}};
  memcpy(shape.size + 1, n->item.size, (size_t)n->item.rank * sizeof *shape.size);
  s->graph = compute_graph_create(context);
  s->x = compute_input(s->graph, COMPUTE_F32, shape);
  s->y = n->record(s->graph, s->x);
  return compute_compile(s->graph, &s->y, 1, NULL, &s->plan);
}

/* ---- Clients --------------------------------------------------------------------------------- */

static float items[POOL][MOST_IN], expected[POOL][OUT];

typedef struct client {
  const network *network;
  const single *single;     /* or NULL */
  compute_batcher *batcher; /* or NULL */
  int number;
  double end;
  double *times; /* seconds of each item */
  size_t count;
  size_t wrong, failed;
} client;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static compute_status run_single(const single *s, compute_tensor *in, compute_tensor *out,
                                 const float *x, size_t bytes, float *y) {
  const compute_binding bindings[] = {{s->x, in}, {s->y, out}};
  compute_status status = compute_tensor_write(in, x, bytes);
  if (!status) status = compute_run(s->plan, bindings, 2, NULL);
  return status ? status : compute_tensor_read(out, y, OUT * sizeof *y);
}

static void *work(void *argument) {
  client *c = argument;
  compute_tensor *in = NULL, *out = NULL;
  compute_status status = COMPUTE_OK;
  float y[OUT];
  if (c->single) {
    status = compute_plan_create_tensor(c->single->plan, c->single->x, &in);
    if (!status) status = compute_plan_create_tensor(c->single->plan, c->single->y, &out);
  }
  for (int i = c->number; !status && c->count < MOST_TIMES / MOST_CLIENTS; i++) {
    const float *x = items[i % POOL];
    const double start = now();
    if (start >= c->end) break;
    if (c->single)
      status = run_single(c->single, in, out, x, c->network->in * sizeof *x, y);
    else
      status = compute_batcher_run(c->batcher, (const void *const[]){x}, (void *const[]){y}, 0);
    c->times[c->count++] = now() - start;
    c->wrong += memcmp(y, expected[i % POOL], sizeof y) != 0;
  }
  c->failed += status != COMPUTE_OK;
  compute_tensor_release(in);
  compute_tensor_release(out);
  return NULL;
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

typedef struct result {
  double rate, latency_50, latency_99, mean_items;
  size_t items, wrong, failed;
} result;

static result measure(const network *n, const single *s, compute_batcher *batcher, int clients,
                      double seconds) {
  static double times[MOST_TIMES];
  static client all[MOST_CLIENTS];
  pthread_t threads[MOST_CLIENTS];
  compute_batcher_info before = {0}, after = {0};
  result r = {0};
  if (batcher) (void)compute_batcher_describe(batcher, &before);
  const double start = now();
  for (int i = 0; i < clients; i++) {
    all[i] = (client){.network = n,
                      .single = s,
                      .batcher = batcher,
                      .number = i,
                      .end = start + seconds,
                      .times = &times[i * (MOST_TIMES / MOST_CLIENTS)]};
    if (pthread_create(&threads[i], NULL, work, &all[i]) != 0) exit(1);
  }
  for (int i = 0; i < clients; i++) pthread_join(threads[i], NULL);
  const double spent = now() - start;
  for (int i = 0; i < clients; i++) {
    memmove(&times[r.items], all[i].times, all[i].count * sizeof *times);
    r.items += all[i].count;
    r.wrong += all[i].wrong;
    r.failed += all[i].failed;
  }
  qsort(times, r.items, sizeof *times, by_size);
  if (r.items == 0) return r;
  r.rate = (double)r.items / spent;
  r.latency_50 = times[r.items / 2];
  r.latency_99 = times[r.items * 99 / 100];
  if (batcher) (void)compute_batcher_describe(batcher, &after);
  if (after.runs > before.runs)
    r.mean_items = (double)(after.items - before.items) / (double)(after.runs - before.runs);
  return r;
}

static double median(const double *values) {
  double v[ROUNDS];
  memcpy(v, values, sizeof v);
  qsort(v, ROUNDS, sizeof *v, by_size);
  return v[ROUNDS / 2];
}

static void print(const network *n, int clients, const char *way, int wait, const result *r,
                  double speed) {
  double rate[ROUNDS], half[ROUNDS], most[ROUNDS], mean[ROUNDS];
  size_t all = 0, wrong = 0, failed = 0;
  for (int i = 0; i < ROUNDS; i++) {
    rate[i] = r[i].rate;
    half[i] = 1e6 * r[i].latency_50;
    most[i] = 1e6 * r[i].latency_99;
    mean[i] = r[i].mean_items;
    all += r[i].items;
    wrong += r[i].wrong;
    failed += r[i].failed;
  }
  printf("{\"network\": \"%s\", \"clients\": %d, \"way\": \"%s\", \"wait_us\": %d, "
         "\"items_per_second\": %.0f, \"speed_relative_to_single\": %.2f, \"latency_50_us\": %.1f, "
         "\"latency_99_us\": %.1f, \"items_per_run\": %.1f, \"results\": %zu, \"different\": %zu, "
         "\"failed\": %zu}\n",
         n->name, clients, way, wait, median(rate), speed, median(half), median(most), median(mean),
         all, wrong, failed);
  fflush(stdout);
}

/* ---- The program ----------------------------------------------------------------------------- */

enum { WAYS = 3 };

static const int waits[WAYS] = {0, 0, 200}; /* of the batchers; the first way is single runs */

static compute_status measure_network(const network *n, double seconds) {
  static const int clients[] = {1, 8, 64};
  const compute_batch_port port = {COMPUTE_F32, n->item};
  single s = {0};
  compute_batch *batch = NULL;
  compute_batcher *batchers[WAYS] = {NULL};
  compute_tensor *in = NULL, *out = NULL;
  compute_status status = open_single(n, &s);
  if (!status) status = compute_plan_create_tensor(s.plan, s.x, &in);
  if (!status) status = compute_plan_create_tensor(s.plan, s.y, &out);
  for (int i = 0; i < POOL && !status; i++)
    status = run_single(&s, in, out, items[i], n->in * sizeof **items, expected[i]);
  if (!status)
    status = compute_batch_create(context,
                                  &(compute_batch_options){.build = build,
                                                           .user = (void *)(uintptr_t)n,
                                                           .inputs = &port,
                                                           .input_count = 1,
                                                           .output_count = 1},
                                  &batch);
  for (int w = 1; w < WAYS && !status; w++)
    status = compute_batcher_create(
        batch, &(compute_batcher_options){.most = 64, .wait_microseconds = (uint32_t)waits[w]},
        &batchers[w]);
  for (size_t k = 0; k < sizeof clients / sizeof *clients && !status; k++) {
    result r[WAYS][ROUNDS];
    double alone[ROUNDS], rate[ROUNDS];
    for (int round = 0; round < ROUNDS; round++)
      for (int w = 0; w < WAYS; w++)
        r[w][round] = measure(n, w ? NULL : &s, batchers[w], clients[k], seconds);
    for (int i = 0; i < ROUNDS; i++) alone[i] = r[0][i].rate;
    for (int w = 0; w < WAYS; w++) {
      for (int i = 0; i < ROUNDS; i++) rate[i] = r[w][i].rate;
      print(n, clients[k], w ? "batcher" : "single", waits[w], r[w], median(rate) / median(alone));
    }
  }
  for (int w = 1; w < WAYS; w++) compute_batcher_release(batchers[w]);
  compute_batch_release(batch);
  compute_tensor_release(in);
  compute_tensor_release(out);
  compute_plan_release(s.plan);
  compute_graph_release(s.graph);
  return status;
}

int main(int count, char **words) {
  const double seconds = count > 1 ? atof(words[1]) : 0.5;
  compute_status status = compute_open(&context, NULL);
  for (int i = 0; i < POOL; i++)
    for (int k = 0; k < MOST_IN; k++) items[i][k] = (float)((i * 131 + k * 37) % 101) / 101;
  for (size_t i = 0; i < sizeof networks / sizeof *networks && !status; i++)
    status = measure_network(&networks[i], seconds);
  if (status) fprintf(stderr, "compute-requests: %s\n", compute_error_message(NULL));
  compute_close(context);
  return status != COMPUTE_OK;
}
