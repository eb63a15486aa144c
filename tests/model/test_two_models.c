/* SPDX-License-Identifier: MIT */
/* Two models of one context share the device's pool and its threads. */
#include <dirent.h>
#include <math.h>
#include <pthread.h>

#include "compute/compute.h"
#include "model/message_writer.h"
#include "support/harness/test.h"

enum { ROWS = 256, COLUMNS = 1024, ROUNDS = 20 };

/* relu(x + w), then a function of each row. The message must live as long as the model. */
static compute_model *make_model(const char *last, float weight, proto *message) {
  static float w[COLUMNS];
  for (int i = 0; i < COLUMNS; i++) w[i] = weight;
  proto graph = graph_message("x", "y");
  put_message(&graph, GRAPH_INITIALIZER, vector_message("w", w, COLUMNS));
  put_message(&graph, GRAPH_NODE, node_message("add", "Add", "x,w", "a"));
  put_message(&graph, GRAPH_NODE, node_message("relu", "Relu", "a", "b"));
  put_message(&graph, GRAPH_NODE, node_message("last", last, "b", "y"));
  *message = model_message(graph);
  compute_model *model = NULL;
  assert_ok(compute_model_load_memory(test_context, message->data, message->bytes, NULL, &model));
  return model;
}

typedef struct use {
  compute_model *model;
  compute_tensor *x;
  double sum;
  compute_status status;
} use;

/* Adds up a fresh output of the model. */
static void *run_once(void *argument) {
  use *u = argument;
  compute_model_binding in = {"x", u->x}, out = {"y", NULL};
  float *y = malloc(sizeof *y * ROWS * COLUMNS);
  u->status = y ? compute_model_run(u->model, &in, 1, &out, 1) : COMPUTE_ERROR_OUT_OF_MEMORY;
  if (!u->status) u->status = compute_tensor_read(out.tensor, y, sizeof *y * ROWS * COLUMNS);
  u->sum = 0;
  for (int i = 0; i < ROWS * COLUMNS && !u->status; i++) u->sum += (double)y[i];
  compute_tensor_release(out.tensor);
  free(y);
  return NULL;
}

/* −1 if the system does not tell. */
static int count_threads(void) {
  DIR *folder = opendir("/proc/self/task");
  int count = -2; /* . and .. */
  if (!folder) return -1;
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

static void check_sums(const use *both) {
  for (int i = 0; i < 2; i++) assert_int_equal(both[i].status, COMPUTE_OK);
  assert_true(fabs(both[0].sum - ROWS) < 1e-2);                        /* softmax */
  assert_true(fabs(both[1].sum - 3.0 * ROWS * COLUMNS) < 1e-2 * ROWS); /* 2 + 1 */
}

static void two_models_share_pool_and_threads(void **state) {
  (void)state;
  compute_device *device = compute_default_device(test_context);
  compute_tensor *x = NULL;
  assert_ok(compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(ROWS, COLUMNS), 2, &x));
  proto messages[2];
  use both[2] = {{.model = make_model("Softmax", 0, &messages[0]), .x = x},
                 {.model = make_model("Identity", 1, &messages[1]), .x = x}};
  run_once(&both[0]);
  const int threads = count_threads();
  run_once(&both[1]);
  check_sums(both);
  compute_pool_statistics before, after;
  assert_ok(compute_pool_query(device, &before));
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < 2; i++) run_once(&both[i]);
  check_sums(both);
  assert_ok(compute_pool_query(device, &after));
  assert_int_equal(after.bytes_allocated, before.bytes_allocated);
  assert_int_equal(after.misses, before.misses);
  assert_true(after.hits >= before.hits + ROUNDS * 2u);
  assert_int_equal(count_threads(), threads);
  for (int i = 0; i < 2; i++) {
    compute_model_release(both[i].model);
    free(messages[i].data);
  }
  compute_tensor_release(x);
}

static void two_models_run_at_the_same_time(void **state) {
  (void)state;
  compute_device *device = compute_default_device(test_context);
  compute_tensor *x = NULL;
  assert_ok(compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(ROWS, COLUMNS), 2, &x));
  proto messages[2];
  use both[2] = {{.model = make_model("Softmax", 0, &messages[0]), .x = x},
                 {.model = make_model("Identity", 1, &messages[1]), .x = x}};
  for (int round = 0; round < ROUNDS; round++) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_once, &both[0]), 0);
    run_once(&both[1]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    check_sums(both);
  }
  for (int i = 0; i < 2; i++) {
    compute_model_release(both[i].model);
    free(messages[i].data);
  }
  compute_tensor_release(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_models_share_pool_and_threads),
      cmocka_unit_test(two_models_run_at_the_same_time),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
