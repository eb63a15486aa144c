/* SPDX-License-Identifier: MIT */
/* Batchers: many threads get the bits of single runs; order, cancelling, limits, stopping, faults of
 * single items, and misuse. */
#include "compute/batcher.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/harness/test.h"
#include "support/harness/values.h"

static void rest(double seconds) {
  const struct timespec time = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
  nanosleep(&time, NULL);
}

/* ---- Networks -------------------------------------------------------------------------------- */

typedef compute_node network(compute_graph *graph, compute_node x);

/* Weights with other numbers for every call in a graph. */
static compute_node weights(compute_graph *graph, compute_shape shape, uint64_t seed) {
  compute_tensor *tensor = test_random_tensor(test_context, COMPUTE_F32, shape, seed);
  const compute_node node = compute_parameter(graph, tensor);
  compute_tensor_release(tensor);
  return compute_mul(graph, node, compute_scalar(graph, COMPUTE_F32, 0.2));
}

static compute_node dense(compute_graph *g, compute_node x) { /* [n,64] */
  x = compute_gelu(g, compute_matmul(g, x, weights(g, COMPUTE_SHAPE(64, 96), 1)));
  x = compute_layer_norm(g, compute_matmul(g, x, weights(g, COMPUTE_SHAPE(96, 32), 2)),
                         (compute_node){0}, (compute_node){0}, 1e-5);
  return compute_softmax(g, compute_matmul(g, x, weights(g, COMPUTE_SHAPE(32, 10), 3)), -1);
}

static compute_node images(compute_graph *g, compute_node x) { /* [n,3,12,12] */
  const compute_conv2d_options same = {.padding = {1, 1}};
  x = compute_relu(
      g, compute_conv2d(g, x, weights(g, COMPUTE_SHAPE(8, 3, 3, 3), 4), (compute_node){0}, &same));
  x = compute_max_pool2d(g, x, &(compute_pool2d_options){.size = {2, 2}, .stride = {2, 2}});
  x = compute_relu(
      g, compute_conv2d(g, x, weights(g, COMPUTE_SHAPE(16, 8, 3, 3), 5), (compute_node){0}, &same));
  x = compute_mean(g, x, COMPUTE_AXES(2, 3), false);
  return compute_matmul(g, x, weights(g, COMPUTE_SHAPE(16, 10), 6));
}

static compute_node tokens(compute_graph *g, compute_node x) { /* [n,9,32] */
  const compute_node q = compute_matmul(g, x, weights(g, COMPUTE_SHAPE(32, 32), 7));
  const compute_node k = compute_matmul(g, x, weights(g, COMPUTE_SHAPE(32, 32), 8));
  const compute_node v = compute_matmul(g, x, weights(g, COMPUTE_SHAPE(32, 32), 9));
  const compute_node seen = compute_scaled_attention(g, q, k, v, NULL);
  x = compute_add(g, x, compute_matmul(g, seen, weights(g, COMPUTE_SHAPE(32, 32), 10)));
  return compute_cumulative_sum(g, compute_silu(g, x), 1, false, false);
}

static const struct {
  const char *name;
  network *record;
  compute_shape item;
} networks[] = {{"dense", dense, {.rank = 1, .size = {64}}},
                {"images", images, {.rank = 3, .size = {3, 12, 12}}},
                {"tokens", tokens, {.rank = 2, .size = {9, 32}}}};

enum { NETWORKS = 3, MOST_IN = 432, MOST_OUT = 288 };

static void build(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                  compute_node *outputs) {
  (void)items;
  outputs[0] = networks[*(const int *)user].record(graph, inputs[0]);
}

static compute_batch *create_batch(const int *number) {
  compute_batch *batch = NULL;
  const compute_batch_port port = {COMPUTE_F32, networks[*number].item};
  assert_ok(compute_batch_create(test_context,
                                 &(compute_batch_options){.build = build,
                                                          .user = (void *)(uintptr_t)number,
                                                          .inputs = &port,
                                                          .input_count = 1,
                                                          .output_count = 1},
                                 &batch));
  return batch;
}

static void fill_item(float *x, uint64_t seed) {
  test_random random = {.state = seed};
  for (int i = 0; i < MOST_IN; i++) x[i] = (float)test_random_uniform(&random, -1, 1);
}

/* ---- A mixed load ---------------------------------------------------------------------------- */

enum { THREADS = 64, ITEMS = 24 };

typedef struct client {
  compute_batcher *batcher[NETWORKS];
  uint64_t number;
  float out[ITEMS][MOST_OUT];
  compute_status status[ITEMS];
} client;

/* Every thread alternates between the networks, and between waiting at once and later. */
static void *send_items(void *argument) {
  client *c = argument;
  float(*in)[MOST_IN] = calloc(ITEMS, sizeof *in);
  compute_batcher_request *requests[ITEMS] = {NULL};
  for (int i = 0; i < ITEMS; i++) {
    fill_item(in[i], 1000 * c->number + (uint64_t)i);
    const void *const inputs[] = {in[i]};
    void *const outputs[] = {c->out[i]};
    compute_batcher *batcher = c->batcher[((int)c->number + i) % NETWORKS];
    if (i % 4 != 3)
      c->status[i] = compute_batcher_run(batcher, inputs, outputs, 0);
    else
      c->status[i] = compute_batcher_submit(batcher, inputs, outputs, NULL, &requests[i]);
  }
  for (int i = 0; i < ITEMS; i++) {
    if (!requests[i]) continue;
    c->status[i] = compute_batcher_wait(requests[i], 0);
    compute_batcher_request_release(requests[i]);
  }
  free(in);
  return NULL;
}

/* A plan for one item, without a batcher. */
typedef struct single {
  compute_graph *graph;
  compute_plan *plan;
  compute_node x, y;
  compute_tensor *in, *out;
  size_t in_bytes, out_bytes;
} single;

static single single_create(int number) {
  single s = {.graph = compute_graph_create(test_context)};
  compute_shape shape = {.rank = networks[number].item.rank + 1, .size = {1}};
  memcpy(shape.size + 1, networks[number].item.size,
         (size_t)networks[number].item.rank * sizeof *shape.size);
  s.x = compute_input(s.graph, COMPUTE_F32, shape);
  s.y = networks[number].record(s.graph, s.x);
  s.plan = test_compile(s.graph, &s.y, 1, 0);
  int64_t count = 0;
  assert_ok(compute_shape_count(shape, &count));
  s.in_bytes = (size_t)count * sizeof(float);
  assert_ok(compute_shape_count(compute_node_shape(s.graph, s.y), &count));
  s.out_bytes = (size_t)count * sizeof(float);
  assert_ok(compute_plan_create_tensor(s.plan, s.x, &s.in));
  assert_ok(compute_plan_create_tensor(s.plan, s.y, &s.out));
  return s;
}

static void single_run(const single *s, const float *x, float *y) {
  assert_ok(compute_tensor_write(s->in, x, s->in_bytes));
  assert_ok(compute_run(s->plan, (compute_binding[]){{s->x, s->in}, {s->y, s->out}}, 2, NULL));
  assert_ok(compute_tensor_read(s->out, y, s->out_bytes));
}

static void single_release(const single *s) {
  compute_tensor_release(s->in);
  compute_tensor_release(s->out);
  compute_plan_release(s->plan);
  compute_graph_release(s->graph);
}

static void sixty_four_threads_get_the_bits_of_single_runs(void **state) {
  (void)state;
  static const int numbers[NETWORKS] = {0, 1, 2};
  compute_batch *batches[NETWORKS];
  compute_batcher *batchers[NETWORKS];
  client *clients = calloc(THREADS, sizeof *clients);
  pthread_t threads[THREADS];
  for (int n = 0; n < NETWORKS; n++) {
    batches[n] = create_batch(&numbers[n]);
    assert_ok(compute_batcher_create(
        batches[n], &(compute_batcher_options){.most = 32, .wait_microseconds = 300},
        &batchers[n]));
  }
  for (int i = 0; i < THREADS; i++) {
    clients[i].number = (uint64_t)i;
    memcpy(clients[i].batcher, batchers, sizeof batchers);
    assert_int_equal(pthread_create(&threads[i], NULL, send_items, &clients[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  uint64_t runs = 0, items = 0;
  for (int n = 0; n < NETWORKS; n++) {
    compute_batcher_info info;
    assert_ok(compute_batcher_describe(batchers[n], &info));
    assert_int_equal(info.succeeded, THREADS * ITEMS / NETWORKS);
    assert_int_equal(info.submitted, info.succeeded);
    assert_int_equal(info.items, info.succeeded);
    assert_int_equal(info.waiting + info.running, 0);
    assert_true(info.latency_50 <= info.latency_90 && info.latency_90 <= info.latency_99 &&
                info.latency_99 <= info.longest_latency && info.latency_50 > 0);
    uint64_t counted = 0;
    for (int k = 0; k < 13; k++) counted += info.sizes[k];
    assert_int_equal(counted, info.runs);
    runs += info.runs;
    items += info.items;
    compute_batcher_release(batchers[n]);
    compute_batch_release(batches[n]);
  }
  long long compared = 0, different = 0;
  for (int n = 0; n < NETWORKS; n++) {
    const single s = single_create(n);
    float x[MOST_IN], y[MOST_OUT];
    for (int c = 0; c < THREADS; c++)
      for (int i = 0; i < ITEMS; i++) {
        if ((c + i) % NETWORKS != n) continue;
        assert_int_equal(clients[c].status[i], COMPUTE_OK);
        fill_item(x, 1000 * (uint64_t)c + (uint64_t)i);
        single_run(&s, x, y);
        compared++;
        different += memcmp(y, clients[c].out[i], s.out_bytes) != 0;
      }
    single_release(&s);
  }
  print_message("%d threads: %llu items in %llu runs; %lld results compared with single runs, %lld "
                "different\n",
                THREADS, (unsigned long long)items, (unsigned long long)runs, compared, different);
  assert_int_equal(different, 0);
  free(clients);
}

/* ---- A slow step ----------------------------------------------------------------------------- */

/* Doubles its items. Waits while the gate is closed; fails for items that are negative. */
typedef struct slow {
  atomic_bool closed, entered;
  atomic_int calls;
} slow;

static compute_status double_slowly(void *user, const compute_batch_step *step) {
  slow *s = user;
  s->calls++;
  s->entered = true;
  while (s->closed) rest(1e-4);
  const float *x = compute_tensor_data(step->inputs[0]);
  float *y = compute_tensor_data(step->outputs[0]);
  for (int64_t i = 0; i < step->items; i++)
    if (x[i] < 0) return COMPUTE_ERROR_INDEX;
  for (int64_t i = 0; i < step->items; i++) y[i] = 2 * x[i];
  return COMPUTE_OK;
}

typedef struct service {
  slow slow;
  compute_batch *batch;
  compute_batcher *batcher;
} service;

static void open_service(service *s, const compute_batcher_options *options) {
  const compute_batch_port port = {COMPUTE_F32, COMPUTE_SCALAR};
  *s = (service){0};
  assert_ok(compute_batch_create(test_context,
                                 &(compute_batch_options){.step = double_slowly,
                                                          .user = &s->slow,
                                                          .inputs = &port,
                                                          .input_count = 1,
                                                          .outputs = &port,
                                                          .output_count = 1},
                                 &s->batch));
  assert_ok(compute_batcher_create(s->batch, options, &s->batcher));
}

static void close_service(const service *s) {
  compute_batcher_release(s->batcher);
  compute_batch_release(s->batch);
}

static compute_batcher_info info_of(const service *s) {
  compute_batcher_info info;
  assert_ok(compute_batcher_describe(s->batcher, &info));
  return info;
}

static compute_status submit(const service *s, const float *x, float *y,
                             const compute_batcher_submit_options *options,
                             compute_batcher_request **request) {
  return compute_batcher_submit(s->batcher, (const void *const[]){x}, (void *const[]){y}, options,
                                request);
}

/* Closes the gate and lets one request enter it. */
static compute_batcher_request *occupy(service *s, const float *x, float *y) {
  compute_batcher_request *request;
  s->slow.closed = true;
  s->slow.entered = false;
  assert_ok(submit(s, x, y, NULL, &request));
  while (!s->slow.entered) rest(1e-4);
  return request;
}

typedef struct order {
  atomic_int ended;
  int place[100];
  float x[100], y[100];
} order;

typedef struct mark {
  order *order;
  int number;
} mark;

static void note_end(void *user, compute_batcher_request *request, compute_status status) {
  mark *m = user;
  assert_non_null(request);
  assert_int_equal(status, COMPUTE_OK);
  m->order->place[m->number] = m->order->ended++;
}

static void items_begin_and_end_in_the_order_of_submission(void **state) {
  (void)state;
  static order o;
  static mark marks[100];
  service s;
  open_service(&s, &(compute_batcher_options){.most = 7, .wait_microseconds = 50});
  for (int i = 0; i < 100; i++) {
    marks[i] = (mark){&o, i};
    o.x[i] = (float)i;
    assert_ok(submit(&s, &o.x[i], &o.y[i],
                     &(compute_batcher_submit_options){.done = note_end, .user = &marks[i]}, NULL));
  }
  assert_ok(compute_batcher_stop(s.batcher, true));
  assert_int_equal(o.ended, 100);
  for (int i = 0; i < 100; i++) {
    assert_int_equal(o.place[i], i);
    assert_true(o.y[i] == 2 * o.x[i]);
  }
  close_service(&s);
}

static void requests_gather_while_the_device_is_busy(void **state) {
  (void)state;
  service s;
  float x[13], y[13];
  compute_batcher_request *requests[13];
  open_service(&s, &(compute_batcher_options){.most = 8});
  for (int i = 0; i < 13; i++) x[i] = (float)i;
  requests[0] = occupy(&s, &x[0], &y[0]);
  for (int i = 1; i < 13; i++) assert_ok(submit(&s, &x[i], &y[i], NULL, &requests[i]));
  s.slow.closed = false;
  for (int i = 0; i < 13; i++) {
    assert_ok(compute_batcher_wait(requests[i], 0));
    assert_true(y[i] == 2 * x[i]);
    compute_batcher_request_release(requests[i]);
  }
  const compute_batcher_info info = info_of(&s);
  assert_int_equal(info.runs, 3); /* 1, 8, 4 */
  assert_int_equal(info.sizes[0], 1);
  assert_int_equal(info.sizes[3], 1);
  assert_int_equal(info.sizes[2], 1);
  assert_int_equal(info.most_waiting, 12);
  close_service(&s);
}

static void a_run_waits_for_more_items(void **state) {
  (void)state;
  service s;
  float x[4] = {1, 2, 3, 4}, y[4];
  compute_batcher_request *requests[4];
  /* The wait is far longer than the test takes; the fourth item ends it. */
  open_service(&s, &(compute_batcher_options){.most = 4, .wait_microseconds = 300000000});
  for (int i = 0; i < 4; i++) assert_ok(submit(&s, &x[i], &y[i], NULL, &requests[i]));
  for (int i = 0; i < 4; i++) {
    assert_ok(compute_batcher_wait(requests[i], 0));
    compute_batcher_request_release(requests[i]);
  }
  assert_int_equal(s.slow.calls, 1);
  close_service(&s);
  /* Its end does so with fewer. */
  open_service(&s, &(compute_batcher_options){.most = 4, .wait_microseconds = 2000});
  assert_ok(compute_batcher_run(s.batcher, (const void *const[]){x}, (void *const[]){y}, 0));
  close_service(&s);
}

static void requests_can_be_cancelled(void **state) {
  (void)state;
  service s;
  float x[3] = {1, 2, 3}, y[3] = {0, 0, 0};
  bool done;
  compute_batcher_request *waiting, *last;
  open_service(&s, &(compute_batcher_options){.most = 4});
  compute_batcher_request *running = occupy(&s, &x[0], &y[0]);
  assert_ok(submit(&s, &x[1], &y[1], NULL, &waiting));
  assert_ok(submit(&s, &x[2], &y[2], NULL, &last));
  assert_ok(compute_batcher_poll(waiting, &done));
  assert_false(done);
  assert_ok(compute_batcher_cancel(waiting));
  assert_ok(compute_batcher_cancel(running));
  assert_fails(compute_batcher_wait(waiting, 0), COMPUTE_ERROR_CANCELLED);
  test_check_message(test_context, "cancelled");
  assert_fails(compute_batcher_wait(running, 0), COMPUTE_ERROR_CANCELLED);
  assert_ok(compute_batcher_cancel(running)); /* again: nothing */
  s.slow.closed = false;
  assert_ok(compute_batcher_wait(last, 0));
  assert_true(y[0] == 0 && y[1] == 0 && y[2] == 6);
  const compute_batcher_info info = info_of(&s);
  assert_int_equal(info.cancelled, 2);
  assert_int_equal(info.succeeded, 1);
  compute_batcher_request_release(running);
  compute_batcher_request_release(waiting);
  compute_batcher_request_release(last);
  close_service(&s);
}

static void requests_have_time_limits(void **state) {
  (void)state;
  service s;
  float x[4] = {1, 2, 3, 4}, y[4] = {0, 0, 0, 0};
  compute_batcher_request *unwatched, *patient;
  const compute_batcher_submit_options brief = {.time_limit = 0.01};
  open_service(&s, &(compute_batcher_options){.most = 4});
  compute_batcher_request *running = occupy(&s, &x[0], &y[0]);
  assert_ok(submit(&s, &x[1], &y[1], &brief, &unwatched));
  assert_ok(submit(&s, &x[2], &y[2], NULL, &patient));
  assert_fails(
      compute_batcher_run(s.batcher, (const void *const[]){&x[3]}, (void *const[]){&y[3]}, 0.01),
      COMPUTE_ERROR_TIMEOUT);
  test_check_message(test_context, "time limit");
  /* A limit of the wait leaves the request as it is. */
  assert_fails(compute_batcher_wait(running, 0.01), COMPUTE_ERROR_TIMEOUT);
  test_check_message(test_context, "continues");
  s.slow.closed = false;
  assert_ok(compute_batcher_wait(running, 0));
  assert_ok(compute_batcher_wait(patient, 0));
  assert_fails(compute_batcher_wait(unwatched, 0), COMPUTE_ERROR_TIMEOUT);
  assert_true(y[0] == 2 && y[1] == 0 && y[2] == 6 && y[3] == 0);
  assert_int_equal(info_of(&s).timed_out, 2);
  compute_batcher_request_release(running);
  compute_batcher_request_release(unwatched);
  compute_batcher_request_release(patient);
  /* In the run itself. */
  s.slow.closed = true;
  assert_fails(
      compute_batcher_run(s.batcher, (const void *const[]){&x[3]}, (void *const[]){&y[3]}, 0.02),
      COMPUTE_ERROR_TIMEOUT);
  s.slow.closed = false;
  assert_ok(compute_batcher_stop(s.batcher, true));
  assert_true(y[3] == 0);
  close_service(&s);
}

/* ---- Room ------------------------------------------------------------------------------------ */

typedef struct visitor {
  service *service;
  float x, y;
  compute_status status;
} visitor;

static void *visit(void *argument) {
  visitor *v = argument;
  v->status = compute_batcher_run(v->service->batcher, (const void *const[]){&v->x},
                                  (void *const[]){&v->y}, 0);
  return NULL;
}

static void a_full_queue_refuses_or_blocks(void **state) {
  (void)state;
  float x[4] = {1, 2, 3, 4}, y[4];
  for (int full = 0; full < 2; full++) {
    service s;
    compute_batcher_request *requests[3], *more = NULL;
    pthread_t thread;
    visitor v = {.service = &s, .x = 5};
    open_service(
        &s, &(compute_batcher_options){.most = 2, .queue = 2, .full = (compute_batcher_full)full});
    requests[0] = occupy(&s, &x[0], &y[0]);
    for (int i = 1; i < 3; i++) assert_ok(submit(&s, &x[i], &y[i], NULL, &requests[i]));
    if (full == COMPUTE_BATCHER_REFUSE) {
      assert_fails(submit(&s, &x[3], &y[3], NULL, &more), COMPUTE_ERROR_BUSY);
      test_check_message(test_context, "2 requests are waiting");
    } else {
      const compute_batcher_submit_options brief = {.time_limit = 0.01};
      assert_fails(submit(&s, &x[3], &y[3], &brief, &more), COMPUTE_ERROR_TIMEOUT);
      assert_int_equal(pthread_create(&thread, NULL, visit, &v), 0);
    }
    assert_null(more);
    assert_int_equal(info_of(&s).refused, 1);
    s.slow.closed = false;
    for (int i = 0; i < 3; i++) {
      assert_ok(compute_batcher_wait(requests[i], 0));
      compute_batcher_request_release(requests[i]);
    }
    if (full == COMPUTE_BATCHER_BLOCK) {
      pthread_join(thread, NULL);
      assert_int_equal(v.status, COMPUTE_OK);
      assert_true(v.y == 10);
    }
    close_service(&s);
  }
}

/* ---- Stopping -------------------------------------------------------------------------------- */

static void stopping_ends_what_is_in_flight(void **state) {
  (void)state;
  enum { VISITORS = 12 };
  for (int finish = 0; finish < 2; finish++) {
    service s;
    float x = 1, y;
    pthread_t threads[VISITORS];
    static visitor visitors[VISITORS];
    open_service(&s, &(compute_batcher_options){.most = 3, .queue = 4});
    compute_batcher_request *running = occupy(&s, &x, &y);
    for (int i = 0; i < VISITORS; i++) { /* four wait in the queue, eight for room */
      visitors[i] = (visitor){.service = &s, .x = (float)i};
      assert_int_equal(pthread_create(&threads[i], NULL, visit, &visitors[i]), 0);
    }
    while (info_of(&s).waiting < 4) rest(1e-4);
    rest(0.01);
    s.slow.closed = false;
    assert_ok(compute_batcher_stop(s.batcher, finish));
    for (int i = 0; i < VISITORS; i++) pthread_join(threads[i], NULL);
    int served = 0;
    for (int i = 0; i < VISITORS; i++) {
      const compute_status status = visitors[i].status;
      if (status == COMPUTE_OK) {
        served++;
        assert_true(visitors[i].y == 2 * visitors[i].x);
      } else if (status != COMPUTE_ERROR_INVALID_STATE) {
        assert_true(!finish && status == COMPUTE_ERROR_CANCELLED);
      }
    }
    if (finish) assert_true(served >= 4);
    assert_fails(submit(&s, &x, &y, NULL, NULL), COMPUTE_ERROR_INVALID_STATE);
    test_check_message(test_context, "has been stopped");
    close_service(&s);
    assert_ok(compute_batcher_wait(running, 0)); /* the handle outlives the batcher */
    compute_batcher_request_release(running);
  }
}

/* ---- Faults of items ------------------------------------------------------------------------- */

static void pick(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                 compute_node *outputs) {
  (void)user;
  (void)items;
  const float table[] = {10, 11, 12, 13};
  outputs[0] = compute_gather(graph, compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(4), table),
                              inputs[0], 0);
}

static void an_item_with_a_fault_fails_alone(void **state) {
  (void)state;
  enum { COUNT = 8 };
  const compute_batch_port port = {COMPUTE_I64, COMPUTE_SCALAR};
  compute_batch *batch;
  compute_batcher *batcher;
  compute_batcher_request *requests[COUNT];
  int64_t index[COUNT] = {0, 1, 2, 9, 3, 0, -7, 1};
  float y[COUNT];
  assert_ok(compute_batch_create(
      test_context,
      &(compute_batch_options){.build = pick, .inputs = &port, .input_count = 1, .output_count = 1},
      &batch));
  assert_ok(compute_batcher_create(
      batch, &(compute_batcher_options){.most = COUNT, .wait_microseconds = 300000000}, &batcher));
  for (int i = 0; i < COUNT; i++)
    assert_ok(compute_batcher_submit(batcher, (const void *const[]){&index[i]},
                                     (void *const[]){&y[i]}, NULL, &requests[i]));
  for (int i = 0; i < COUNT; i++) {
    if (index[i] >= 0 && index[i] < 4) {
      assert_ok(compute_batcher_wait(requests[i], 0));
      assert_true(y[i] == 10 + (float)index[i]);
    } else {
      assert_fails(compute_batcher_wait(requests[i], 0), COMPUTE_ERROR_INDEX);
      test_check_message(test_context, i == 3 ? "index 9" : "index -7");
    }
    compute_batcher_request_release(requests[i]);
  }
  compute_batcher_info info;
  assert_ok(compute_batcher_describe(batcher, &info));
  assert_int_equal(info.runs, 1);
  assert_int_equal(info.repeated, COUNT);
  assert_int_equal(info.failed, 2);
  compute_batcher_release(batcher);
  compute_batch_release(batch);
}

/* ---- Anything at once ------------------------------------------------------------------------ */

typedef struct storm {
  service *service;
  uint64_t seed;
  int wrong;
} storm;

static void count_end(void *user, compute_batcher_request *request, compute_status status) {
  (void)request;
  (void)status;
  (*(atomic_int *)user)++;
}

static atomic_int callbacks_made;

/* Submits, cancels, waits with limits and releases at random. Results are right or not there. */
static void *storm_about(void *argument) {
  storm *t = argument;
  test_random random = {.state = t->seed};
  for (int i = 0; i < 150; i++) {
    const int64_t choice = test_random_integer(&random, 0, 5);
    float *x = malloc(sizeof *x), *y = malloc(sizeof *y);
    compute_batcher_request *request = NULL;
    *x = (float)test_random_integer(&random, choice == 5 ? -1 : 0, 1000);
    *y = -1;
    const compute_batcher_submit_options options = {
        .time_limit = choice == 1 ? 1e-5 * (double)test_random_integer(&random, 1, 50) : 0,
        .done = count_end,
        .user = &callbacks_made};
    compute_status status = submit(t->service, x, y, &options, &request);
    if (!status) {
      if (choice == 2) status = compute_batcher_cancel(request);
      if (choice == 3) (void)compute_batcher_wait(request, 1e-6);
      if (choice == 3) (void)compute_batcher_cancel(request);
      status = compute_batcher_wait(request, 0);
      compute_batcher_request_release(request);
    } else {
      callbacks_made++; /* refused: no callback */
    }
    if (status == COMPUTE_OK ? *y != 2 * *x : *y != -1) t->wrong++;
    if (status == COMPUTE_ERROR_INDEX && *x >= 0) t->wrong++;
    free(x); /* nobody may use it any more */
    free(y);
  }
  return NULL;
}

static void anything_at_once_leaves_right_results_or_none(void **state) {
  (void)state;
  enum { STORMS = 16 };
  service s;
  storm storms[STORMS];
  pthread_t threads[STORMS];
  callbacks_made = 0;
  open_service(&s, &(compute_batcher_options){.most = 6, .wait_microseconds = 40, .queue = 10});
  for (int i = 0; i < STORMS; i++) {
    storms[i] = (storm){.service = &s, .seed = 77 + (uint64_t)i};
    assert_int_equal(pthread_create(&threads[i], NULL, storm_about, &storms[i]), 0);
  }
  for (int i = 0; i < STORMS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < STORMS; i++) assert_int_equal(storms[i].wrong, 0);
  assert_ok(compute_batcher_stop(s.batcher, true));
  const compute_batcher_info info = info_of(&s);
  assert_int_equal(info.submitted, info.succeeded + info.failed + info.cancelled + info.timed_out);
  assert_int_equal(callbacks_made, STORMS * 150);
  close_service(&s);
}

/* ---- Misuse ---------------------------------------------------------------------------------- */

typedef struct meddling {
  compute_batcher *batcher;
  compute_status waited, stopped, ran;
  compute_batcher_request *inner;
  float x, y;
} meddling;

static void meddle(void *user, compute_batcher_request *request, compute_status status) {
  meddling *m = user;
  (void)status;
  m->waited = compute_batcher_wait(request, 0);
  m->stopped = compute_batcher_stop(m->batcher, false);
  m->ran = compute_batcher_run(m->batcher, (const void *const[]){&m->x}, (void *const[]){&m->y}, 0);
  assert_ok(compute_batcher_submit(m->batcher, (const void *const[]){&m->x}, (void *const[]){&m->y},
                                   NULL, &m->inner));
}

static void callbacks_may_submit_but_not_wait(void **state) {
  (void)state;
  service s;
  float x = 1, y;
  compute_batcher_request *request;
  open_service(&s, NULL);
  meddling m = {.batcher = s.batcher, .x = 4};
  assert_ok(
      submit(&s, &x, &y, &(compute_batcher_submit_options){.done = meddle, .user = &m}, &request));
  assert_ok(compute_batcher_wait(request, 0));
  assert_int_equal(m.waited, COMPUTE_ERROR_INVALID_STATE);
  assert_int_equal(m.stopped, COMPUTE_ERROR_INVALID_STATE);
  assert_int_equal(m.ran, COMPUTE_ERROR_INVALID_STATE);
  assert_ok(compute_batcher_wait(m.inner, 0));
  assert_true(m.y == 8);
  compute_batcher_request_release(m.inner);
  compute_batcher_request_release(request);
  close_service(&s);
}

static void mistakes_are_refused(void **state) {
  (void)state;
  service s;
  float x = 1, y;
  bool done;
  compute_batcher *other = NULL;
  compute_batcher_info info;
  open_service(&s, NULL);
  assert_fails(compute_batcher_create(NULL, NULL, &other), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_batcher_create(s.batch, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  const compute_batcher_options wrong[] = {{.most = -1},
                                           {.most = 4097},
                                           {.queue = -1},
                                           {.full = (compute_batcher_full)2},
                                           {.reserved = {0, 1}}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_fails(compute_batcher_create(s.batch, &wrong[i], &other),
                 COMPUTE_ERROR_INVALID_ARGUMENT);
    assert_null(other);
  }
  assert_fails(compute_batcher_submit(NULL, NULL, NULL, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_batcher_submit(s.batcher, NULL, (void *const[]){&y}, NULL, NULL),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(submit(&s, NULL, &y, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(submit(&s, &x, NULL, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(submit(&s, &x, &y, &(compute_batcher_submit_options){.time_limit = -1}, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(submit(&s, &x, &y, &(compute_batcher_submit_options){.reserved = {1}}, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_batcher_wait(NULL, 0), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_batcher_poll(NULL, &done), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_batcher_cancel(NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_batcher_stop(NULL, true), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_batcher_describe(s.batcher, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_batcher_describe(NULL, &info), COMPUTE_ERROR_NULL_POINTER);
  compute_batcher_request_release(NULL);
  compute_batcher_release(NULL);
  assert_int_equal(info_of(&s).submitted, 0);
  close_service(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sixty_four_threads_get_the_bits_of_single_runs),
      cmocka_unit_test(items_begin_and_end_in_the_order_of_submission),
      cmocka_unit_test(requests_gather_while_the_device_is_busy),
      cmocka_unit_test(a_run_waits_for_more_items),
      cmocka_unit_test(requests_can_be_cancelled),
      cmocka_unit_test(requests_have_time_limits),
      cmocka_unit_test(a_full_queue_refuses_or_blocks),
      cmocka_unit_test(stopping_ends_what_is_in_flight),
      cmocka_unit_test(an_item_with_a_fault_fails_alone),
      cmocka_unit_test(anything_at_once_leaves_right_results_or_none),
      cmocka_unit_test(callbacks_may_submit_but_not_wait),
      cmocka_unit_test(mistakes_are_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
