/* SPDX-License-Identifier: MIT */
/* Endurance: a model whose sizes change from run to run. Two threads run it with random sizes and
 * compare each result with the formula. The number of plans stays within its limit, and memory does
 * not grow. COMPUTE_TEST_ENDURANCE sets the duration in seconds; the default is 20.
 *
 * y is the mean over the steps of softmax(relu(x W + b) V), and z has the rows of y whose mark is
 * not 0. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "compute/compute.h"
#include "model/message_writer.h"
#include "support/harness/failing_allocator.h"
#include "support/harness/values.h"

enum { WIDTH = 16, MOST_BATCH = 12, MOST_STEPS = 24, MOST_PLANS = 16, THREADS = 2 };

static float first[WIDTH][WIDTH], second[WIDTH][WIDTH], bias[WIDTH];

/* ---- The model ------------------------------------------------------------------------------ */

static void add_node(proto *graph, const char *type, const char *inputs, const char *outputs) {
  put_message(graph, GRAPH_NODE, node_message(type, type, inputs, outputs));
}

static proto matrix_message(const char *name, float values[WIDTH][WIDTH]) {
  proto tensor = tensor_message(name, 1, 2, (int64_t[]){WIDTH, WIDTH});
  put_bytes(&tensor, 9, values, sizeof(float[WIDTH][WIDTH]));
  return tensor;
}

static void draw_weights(void) {
  test_random random = {1};
  for (int i = 0; i < WIDTH; i++) {
    bias[i] = (float)test_random_uniform(&random, -1, 1);
    for (int k = 0; k < WIDTH; k++) first[i][k] = (float)test_random_uniform(&random, -1, 1);
    for (int k = 0; k < WIDTH; k++) second[i][k] = (float)test_random_uniform(&random, -1, 1);
  }
}

static proto sized_model(void) {
  proto graph = {0};
  put_text(&graph, 2, "sizes");
  put_typed(&graph, GRAPH_INPUT, "x", "batch,steps,16");
  put_typed(&graph, GRAPH_INPUT, "mark", "batch");
  put_typed(&graph, GRAPH_OUTPUT, "y", "batch,16");
  put_typed(&graph, GRAPH_OUTPUT, "z", "marked,16");
  put_message(&graph, GRAPH_INITIALIZER, matrix_message("W", first));
  put_message(&graph, GRAPH_INITIALIZER, matrix_message("V", second));
  put_message(&graph, GRAPH_INITIALIZER, vector_message("b", bias, WIDTH));
  put_message(&graph, GRAPH_INITIALIZER, integers_message("rows", (int64_t[]){-1, WIDTH}, 2));
  put_message(&graph, GRAPH_INITIALIZER, integers_message("zero", (int64_t[]){0}, 1));
  add_node(&graph, "Shape", "x", "size");
  add_node(&graph, "Reshape", "x,rows", "flat");
  add_node(&graph, "MatMul", "flat,W", "h");
  add_node(&graph, "Add", "h,b", "sum");
  add_node(&graph, "Relu", "sum", "r");
  add_node(&graph, "MatMul", "r,V", "p");
  add_node(&graph, "Softmax", "p", "q");
  add_node(&graph, "Reshape", "q,size", "u");
  proto mean = node_message("mean", "ReduceMean", "u", "y");
  put_list_attribute(&mean, "axes", (int64_t[]){1}, 1);
  put_integer_attribute(&mean, "keepdims", 0);
  put_message(&graph, GRAPH_NODE, mean);
  add_node(&graph, "NonZero", "mark", "at");
  add_node(&graph, "Squeeze", "at,zero", "list");
  add_node(&graph, "Gather", "y,list", "z");
  return model_message(graph);
}

/* Adds one step's share of a row of y. */
static void add_step(const float *x, double *row) {
  double hidden[WIDTH], product[WIDTH], largest = -INFINITY, sum = 0;
  for (int i = 0; i < WIDTH; i++) {
    hidden[i] = (double)bias[i];
    for (int k = 0; k < WIDTH; k++) hidden[i] += (double)x[k] * (double)first[k][i];
    hidden[i] = fmax(hidden[i], 0);
  }
  for (int i = 0; i < WIDTH; i++) {
    product[i] = 0;
    for (int k = 0; k < WIDTH; k++) product[i] += hidden[k] * (double)second[k][i];
    largest = fmax(largest, product[i]);
  }
  for (int i = 0; i < WIDTH; i++) sum += exp(product[i] - largest);
  for (int i = 0; i < WIDTH; i++) row[i] += exp(product[i] - largest) / sum;
}

/* ---- A thread ------------------------------------------------------------------------------- */

static atomic_bool over;

typedef struct worker {
  pthread_t thread;
  compute_context *context;
  compute_model *model;
  test_random random;
  int64_t batch, steps, marked;
  float x[MOST_BATCH * MOST_STEPS * WIDTH], mark[MOST_BATCH], y[MOST_BATCH * WIDTH],
      z[MOST_BATCH * WIDTH];
  _Atomic int64_t runs;
  const char *failure;
} worker;

static void draw(worker *w) {
  w->batch = test_random_integer(&w->random, 1, MOST_BATCH);
  w->steps = test_random_integer(&w->random, 1, MOST_STEPS);
  for (int64_t i = 0; i < w->batch * w->steps * WIDTH; i++)
    w->x[i] = (float)test_random_uniform(&w->random, -2, 2);
  w->marked = 0;
  for (int64_t i = 0; i < w->batch; i++) {
    w->mark[i] = (float)test_random_integer(&w->random, 0, 1);
    w->marked += w->mark[i] != 0;
  }
}

static compute_status run_once(worker *w) {
  compute_device *device = compute_default_device(w->context);
  compute_model_binding in[2] = {{"x", NULL}, {"mark", NULL}}, out[2] = {{"y", NULL}, {"z", NULL}};
  compute_status status = compute_tensor_from_host(
      device, COMPUTE_F32, COMPUTE_SHAPE(w->batch, w->steps, WIDTH), w->x, &in[0].tensor);
  if (!status)
    status = compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(w->batch), w->mark,
                                      &in[1].tensor);
  if (!status && test_random_integer(&w->random, 0, 3) == 0) /* into a tensor of the caller */
    status =
        compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(w->batch, WIDTH), &out[0].tensor);
  if (!status) status = compute_model_run(w->model, in, 2, out, 2);
  const size_t row = WIDTH * sizeof(float);
  if (!status) status = compute_tensor_read(out[0].tensor, w->y, (size_t)w->batch * row);
  if (!status && w->marked)
    status = compute_tensor_read(out[1].tensor, w->z, (size_t)w->marked * row);
  for (int i = 0; i < 2; i++) {
    compute_tensor_release(in[i].tensor);
    compute_tensor_release(out[i].tensor);
  }
  return status;
}

static bool is_right(const worker *w) {
  int64_t marked = 0;
  for (int64_t i = 0; i < w->batch; i++) {
    double row[WIDTH] = {0};
    for (int64_t s = 0; s < w->steps; s++) add_step(&w->x[(i * w->steps + s) * WIDTH], row);
    for (int k = 0; k < WIDTH; k++) {
      const double y = (double)w->y[i * WIDTH + k], expected = row[k] / (double)w->steps;
      if (!(fabs(y - expected) <= 1e-4)) return false;
    }
    if (w->mark[i] != 0 &&
        memcmp(&w->z[marked++ * WIDTH], &w->y[i * WIDTH], WIDTH * sizeof *w->z) != 0)
      return false;
  }
  return true;
}

static void *work(void *argument) {
  worker *w = argument;
  while (!over && !w->failure) {
    draw(w);
    if (run_once(w))
      w->failure = compute_error_message(w->context);
    else if (!is_right(w))
      w->failure = "the result is wrong";
    w->runs++;
  }
  return NULL;
}

/* ---- Memory in use -------------------------------------------------------------------------- */

/* Maxima over an interval. */
typedef struct holdings {
  double resident, pool, blocks, plans;
} holdings;

static double resident_bytes(void) {
  double kib = 0;
  char line[128];
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "VmRSS: %lf", &kib) == 1) break;
  if (file) fclose(file);
  return kib * 1024;
}

static void look(const worker *w, holdings *most) {
  compute_pool_statistics pool;
  compute_model_info info;
  assert_ok(compute_pool_query(compute_default_device(w->context), &pool));
  assert_ok(compute_model_describe(w->model, &info));
  most->resident = fmax(most->resident, resident_bytes());
  most->pool = fmax(most->pool, (double)pool.bytes_allocated);
  most->blocks = fmax(most->blocks, (double)failing_allocator_live());
  most->plans = fmax(most->plans, (double)info.plans);
}

static holdings watch(const worker *w, double seconds) {
  holdings most = {0};
  for (double left = seconds; left > 0; left -= 0.02) {
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    look(w, &most);
  }
  return most;
}

static void print_holdings(const char *when, const holdings *held) {
  print_message("%s: %.1f MiB resident, %.2f MiB in the pool, %.0f blocks, %.0f plans\n", when,
                held->resident / (1 << 20), held->pool / (1 << 20), held->blocks, held->plans);
}

static void assert_flat(const holdings *before, const holdings *after) {
  assert_true(after->plans <= MOST_PLANS + 2 * THREADS); /* plans in use are kept */
  if (after->blocks > before->blocks * 1.2) fail_msg("more blocks of memory than before");
  if (after->pool > before->pool * 1.25) fail_msg("more memory in the pool than before");
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
  if (after->resident > before->resident * 1.1 + (4 << 20)) fail_msg("more memory than before");
#endif
}

static double seconds_to_run(void) {
  const char *text = getenv("COMPUTE_TEST_ENDURANCE");
  const double seconds = text ? strtod(text, NULL) : 0;
  return seconds > 0 ? seconds : 20;
}

static void sizes_may_change_forever(void **state) {
  (void)state;
  draw_weights();
  failing_allocator_install();
  compute_context *context = test_open();
  proto message = sized_model();
  compute_model *model = NULL;
  const compute_model_options options = {.max_plans = MOST_PLANS};
  assert_ok(compute_model_load_memory(context, message.data, message.bytes, &options, &model));
  static worker workers[THREADS];
  holdings start = {0};
  for (int i = 0; i < THREADS; i++) {
    workers[i].context = context;
    workers[i].model = model;
    workers[i].random.state = test_seed() + (uint64_t)i;
    if (i == 0) look(&workers[i], &start);
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  const double seconds = seconds_to_run();
  const double warm_up = fmin(seconds / 4, 60), part = (seconds - warm_up) / 2;
  watch(workers, warm_up);
  const holdings before = watch(workers, part), after = watch(workers, part);
  over = true;
  int64_t runs = 0;
  for (int i = 0; i < THREADS; i++) {
    pthread_join(workers[i].thread, NULL);
    runs += workers[i].runs;
    if (workers[i].failure) fail_msg("%s", workers[i].failure);
  }
  compute_model_info info;
  assert_ok(compute_model_describe(model, &info));
  print_holdings("before the first run", &start);
  print_holdings("after the warm-up", &before);
  print_holdings("in the second half", &after);
  print_message("%.0f s, %lld runs, %llu plans made\n", seconds, (long long)runs,
                (unsigned long long)info.plans_made);
  assert_int_equal(info.runs, runs);
  assert_true(info.plans_made > MOST_PLANS);
  assert_flat(&before, &after);
  compute_model_release(model);
  test_close(context);
  assert_int_equal(failing_allocator_remove(), 0);
  free(message.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_may_change_forever),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
