/* SPDX-License-Identifier: MIT */
/* Models with automatic placement (COMPUTE_PLAN_AUTO) on the CPU and an OpenCL device. The costs
 * make products cheap on one device and all other work cheap on the other, so both devices work.
 * A plan on the CPU alone has the same results. */
#include <stdlib.h>

#include "core/device/device.h"
#include "model/message_writer.h"
#include "plan/cost/costs.h"
#include "support/harness/values.h"

enum { WIDTH = 32, MOST_ROWS = 40 };

static compute_context *context;
static compute_device *cpu, *other;

/* Skips the test if there is no OpenCL device. */
static int set_up(void **state) {
  (void)state;
  assert_ok(compute_open(&context, &(compute_open_options){.device = "cpu"}));
  assert_ok(compute_device_by_name(context, "cpu", &cpu));
  if (compute_device_by_name(context, "opencl:0", &other)) other = NULL;
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  test_close(context);
  return 0;
}

static device_costs make_costs(double rate, double products) {
  device_costs costs = {.launch = 1e-6, .wait = 1e-6};
  for (work_class class = 0; class <= WORK_DOWNLOAD; class ++) {
    const double per_second = class >= WORK_UPLOAD     ? 1e12
                              : class >= WORK_GEMM_F32 ? products
                                                       : rate;
    costs.curve[class] =
        (cost_curve){.count = 2, .work = {1, 1e9}, .seconds = {1e-6, 1e-6 + 1e9 / per_second}};
  }
  return costs;
}

static void add_node(proto *graph, const char *type, const char *inputs, const char *outputs) {
  put_message(graph, GRAPH_NODE, node_message(type, type, inputs, outputs));
}

static void add_matrix(proto *graph, const char *name, uint64_t seed) {
  test_random random = {seed};
  float values[WIDTH * WIDTH];
  for (int i = 0; i < WIDTH * WIDTH; i++)
    values[i] = (float)test_random_uniform(&random, -0.5, 0.5);
  proto tensor = tensor_message(name, 1, 2, (int64_t[]){WIDTH, WIDTH});
  put_bytes(&tensor, 9, values, sizeof values);
  put_message(graph, GRAPH_INITIALIZER, tensor);
}

/* Products with elementwise work between them, followed by a part whose size depends on values: z
 * has the rows of y whose mark is not 0. */
static proto products(void) {
  proto graph = {0};
  put_text(&graph, 2, "products");
  put_typed(&graph, GRAPH_INPUT, "x", "rows,32");
  put_typed(&graph, GRAPH_INPUT, "mark", "rows");
  put_values(&graph, GRAPH_OUTPUT, "y,z");
  add_matrix(&graph, "V", 1);
  add_matrix(&graph, "W", 2);
  put_message(&graph, GRAPH_INITIALIZER, integers_message("zero", (int64_t[]){0}, 1));
  add_node(&graph, "MatMul", "x,V", "p");
  add_node(&graph, "Softmax", "p", "q");
  add_node(&graph, "MatMul", "q,W", "r");
  add_node(&graph, "Tanh", "r", "y");
  add_node(&graph, "NonZero", "mark", "at");
  add_node(&graph, "Squeeze", "at,zero", "list");
  add_node(&graph, "Gather", "y,list", "rows");
  add_node(&graph, "MatMul", "rows,V", "z");
  return model_message(graph);
}

typedef struct results {
  float y[MOST_ROWS * WIDTH], z[MOST_ROWS * WIDTH];
  int64_t rows, marked;
} results;

static void run(compute_model *model, int64_t rows, const float *x, const float *mark, results *r) {
  compute_model_binding in[] = {{"x", NULL}, {"mark", NULL}}, out[] = {{"y", NULL}, {"z", NULL}};
  assert_ok(
      compute_tensor_from_host(cpu, COMPUTE_F32, COMPUTE_SHAPE(rows, WIDTH), x, &in[0].tensor));
  assert_ok(compute_tensor_from_host(cpu, COMPUTE_F32, COMPUTE_SHAPE(rows), mark, &in[1].tensor));
  assert_ok(compute_model_run(model, in, 2, out, 2));
  r->rows = compute_tensor_shape(out[0].tensor).size[0];
  r->marked = compute_tensor_shape(out[1].tensor).size[0];
  assert_ok(compute_tensor_read(out[0].tensor, r->y, (size_t)(r->rows * WIDTH) * sizeof *r->y));
  assert_ok(compute_tensor_read(out[1].tensor, r->z, (size_t)(r->marked * WIDTH) * sizeof *r->z));
  for (int i = 0; i < 2; i++) {
    compute_tensor_release(in[i].tensor);
    compute_tensor_release(out[i].tensor);
  }
}

static void assert_close(const float *a, const float *b, int64_t count) {
  for (int64_t i = 0; i < count; i++) assert_float_equal(a[i], b[i], 1e-5f);
}

/* Both models give the same numbers, for several sizes. */
static void compare(compute_model *plain, compute_model *placed) {
  static const int64_t rows[] = {MOST_ROWS, 7, 1};
  static results expected, seen;
  test_random random = {3};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    float x[MOST_ROWS * WIDTH], mark[MOST_ROWS];
    for (int64_t k = 0; k < rows[i] * WIDTH; k++) x[k] = (float)test_random_uniform(&random, -1, 1);
    for (int64_t k = 0; k < rows[i]; k++) mark[k] = (float)(k % 3 == 0);
    run(plain, rows[i], x, mark, &expected);
    run(placed, rows[i], x, mark, &seen);
    assert_int_equal(seen.rows, rows[i]);
    assert_int_equal(seen.marked, (rows[i] + 2) / 3);
    assert_close(seen.y, expected.y, rows[i] * WIDTH);
    assert_close(seen.z, expected.z, seen.marked * WIDTH);
  }
}

static compute_model *load(const proto *message, compute_device *device, uint32_t flags) {
  const compute_model_options options = {.device = device, .flags = flags};
  compute_model *model = NULL;
  assert_ok(compute_model_load_memory(context, message->data, message->bytes, &options, &model));
  return model;
}

/* The devices on which the model's plans have steps. */
static void assert_steps_on(compute_model *model, bool on_cpu, bool on_other) {
  char *text = NULL;
  assert_ok(compute_model_explain(model, &text));
  const bool has_cpu = strstr(text, "on cpu:") != NULL,
             has_other = strstr(text, "on opencl:0:") != NULL;
  if (has_cpu != on_cpu || has_other != on_other) fail_msg("%s", text);
  compute_text_free(text);
}

static void steps_go_where_they_are_cheap(void **state) {
  (void)state;
  if (!other) test_skip("no second device");
  const device_costs elementwise = make_costs(1e12, 1e6), matrices = make_costs(1e7, 1e14);
  assert_true(costs_set(cpu, &elementwise));
  assert_true(costs_set(other, &matrices));
  proto message = products();
  compute_model *plain = load(&message, cpu, 0);
  compute_device *const devices[] = {NULL, other};
  for (int i = 0; i < 2; i++) { /* where the weights are */
    compute_model *placed = load(&message, devices[i], COMPUTE_PLAN_AUTO);
    compare(plain, placed);
    assert_steps_on(placed, true, true);
    compute_model_release(placed);
  }
  compute_model_release(plain);
  free(message.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_go_where_they_are_cheap),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
