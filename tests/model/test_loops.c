/* SPDX-License-Identifier: MIT */
/* Loops with few iterations are recorded one by one; loops with many are run. Both must match plain
 * C. States swap, stay, or become constants. Conditions and numbers may be known at run time only.
 * Scanned inputs and outputs go along any axis in both directions. Endless loops are refused at
 * once. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "model/message_writer.h"
#include "support/harness/test.h"
#include "support/harness/values.h"

static void add_node(proto *graph, const char *type, const char *inputs, const char *outputs) {
  put_message(graph, GRAPH_NODE, node_message(outputs, type, inputs, outputs));
}

static void put_float_scalar(proto *graph, const char *name, float value) {
  proto tensor = tensor_message(name, 1, 0, NULL);
  put_bytes(&tensor, 9, &value, sizeof value);
  put_message(graph, GRAPH_INITIALIZER, tensor);
}

static void put_integer_scalar(proto *graph, const char *name, int32_t type, int64_t value) {
  proto tensor = tensor_message(name, type, 0, NULL);
  put_bytes(&tensor, 9, &value, type == 9 ? 1 : 8);
  put_message(graph, GRAPH_INITIALIZER, tensor);
}

/* The model's file, which must outlive the model. */
static proto file;

static compute_model *load(compute_context *context, proto graph) {
  compute_model *model = NULL;
  file = model_message(graph);
  assert_ok(compute_model_load_memory(context, file.data, file.bytes, NULL, &model));
  return model;
}

static void release(compute_model *model) {
  compute_model_release(model);
  free(file.data);
}

static uint64_t plan_bytes(const compute_model *model) {
  compute_model_info info;
  assert_ok(compute_model_describe(model, &info));
  return info.plan_bytes;
}

/* ---- Loop ---------------------------------------------------------------------------------- */

/* The reason why a loop ends. */
typedef enum loop_end {
  BY_NUMBER,          /* the model's */
  BY_RUN_TIME_NUMBER, /* an input */
  BY_CONDITION,       /* of a state */
  BY_EITHER           /* a condition on the iteration number, before the model's number */
} loop_end;

enum { WIDTH = 3 };

/* a' = a / 2 + exp(w) + i / 1000, u' = v, v' = u × 0.9, s stays, k' = 7, n' = n + 1. Each iteration
 * scans a' and u. */
static proto loop_model(loop_end end, int64_t trips) {
  proto graph = {0}, body = {0};
  put_text(&graph, 2, "loops");
  put_typed(&graph, GRAPH_INPUT, "w", "3");
  if (end == BY_RUN_TIME_NUMBER) put_values(&graph, GRAPH_INPUT, "trips");
  put_values(&graph, GRAPH_OUTPUT, "a1,u1,v1,s1,k1,n1,as,us");
  add_node(&graph, "Exp", "w", "e");
  put_message(&graph, GRAPH_INITIALIZER, vector_message("a0", (float[]){1, 2, 3}, WIDTH));
  put_message(&graph, GRAPH_INITIALIZER, vector_message("v0", (float[]){4, 5, 6}, WIDTH));
  put_integer_scalar(&graph, "n0", 7, 0);
  put_integer_scalar(&graph, "yes", 9, 1);
  if (end == BY_NUMBER) put_integer_scalar(&graph, "trips", 7, trips);
  if (end == BY_EITHER) put_integer_scalar(&graph, "trips", 7, trips + 1000);
  put_values(&body, GRAPH_INPUT, "i,c,a,u,v,s,k,n");
  put_values(&body, GRAPH_OUTPUT, "go,a2,u2,v2,s2,k2,n2,sa,su");
  put_float_scalar(&body, "half", 0.5F);
  put_float_scalar(&body, "most", 0.9F);
  put_float_scalar(&body, "small", 0.001F);
  put_message(&body, GRAPH_INITIALIZER, vector_message("seven", (float[]){7, 7, 7}, WIDTH));
  put_integer_scalar(&body, "one", 7, 1);
  put_integer_scalar(&body, "limit", 7, end == BY_EITHER ? trips - 1 : trips);
  if (end == BY_CONDITION)
    add_node(&body, "Less", "n2,limit", "go");
  else if (end == BY_EITHER)
    add_node(&body, "Less", "i,limit", "go");
  else
    add_node(&body, "Identity", "c", "go");
  add_node(&body, "Mul", "a,half", "a3");
  add_node(&body, "Add", "a3,e", "a4");
  proto cast = node_message("number", "Cast", "i", "number");
  put_integer_attribute(&cast, "to", 1);
  put_message(&body, GRAPH_NODE, cast);
  add_node(&body, "Mul", "number,small", "part");
  add_node(&body, "Add", "a4,part", "a2");
  add_node(&body, "Identity", "v", "u2");
  add_node(&body, "Mul", "u,most", "v2");
  add_node(&body, "Identity", "s", "s2");
  add_node(&body, "Identity", "seven", "k2");
  add_node(&body, "Add", "n,one", "n2");
  add_node(&body, "Identity", "a2", "sa");
  add_node(&body, "Identity", "u", "su");
  proto node = node_message(
      "loop", "Loop", end == BY_CONDITION ? ",yes,a0,a0,v0,w,v0,n0" : "trips,,a0,a0,v0,w,v0,n0",
      "a1,u1,v1,s1,k1,n1,as,us");
  put_graph_attribute(&node, "body", body);
  put_message(&graph, GRAPH_NODE, node);
  return graph;
}

typedef struct loop_values {
  float a[WIDTH], u[WIDTH], v[WIDTH];
} loop_values;

static void step(loop_values *now, const float *w, int64_t i) {
  for (int k = 0; k < WIDTH; k++) {
    const float u = now->u[k];
    now->a[k] = now->a[k] * 0.5F + expf(w[k]) + (float)i * 0.001F;
    now->u[k] = now->v[k];
    now->v[k] = u * 0.9F;
  }
}

static void assert_near(const float *actual, const float *expected, const char *what, int64_t at) {
  for (int k = 0; k < WIDTH; k++)
    if (!(fabsf(actual[k] - expected[k]) <= 1e-5F * (1 + fabsf(expected[k]))))
      fail_msg("%s, iteration %lld: %.9g instead of %.9g", what, (long long)at, (double)actual[k],
               (double)expected[k]);
}

static void read_floats(const compute_model_binding *binding, float *to, int64_t count) {
  assert_int_equal(compute_tensor_count(binding->tensor), count);
  assert_ok(compute_tensor_read(binding->tensor, to, (size_t)count * sizeof *to));
}

static void check_outputs(const compute_model_binding *out, const float *w, int64_t trips) {
  loop_values now = {{1, 2, 3}, {1, 2, 3}, {4, 5, 6}};
  float *as = malloc((size_t)trips * sizeof now.a), *us = malloc((size_t)trips * sizeof now.a);
  float last[5][WIDTH];
  assert_true(as && us);
  for (int i = 0; i < 5; i++) read_floats(&out[i], last[i], WIDTH);
  assert_true(test_element(out[5].tensor, 0) == (double)trips);
  read_floats(&out[6], as, trips * WIDTH);
  read_floats(&out[7], us, trips * WIDTH);
  for (int64_t i = 0; i < trips; i++) {
    assert_near(us + i * WIDTH, now.u, "scanned u", i);
    step(&now, w, i);
    assert_near(as + i * WIDTH, now.a, "scanned a", i);
  }
  assert_near(last[0], now.a, "a", trips);
  assert_near(last[1], now.u, "u", trips);
  assert_near(last[2], now.v, "v", trips);
  assert_near(last[3], w, "s", trips);
  assert_near(last[4], (float[]){7, 7, 7}, "k", trips);
  free(as);
  free(us);
}

static void run_loop(compute_context *context, compute_model *model, loop_end end, int64_t trips,
                     float first) {
  static const char *const names[8] = {"a1", "u1", "v1", "s1", "k1", "n1", "as", "us"};
  compute_device *device = compute_default_device(context);
  const float w[WIDTH] = {first, 0.2F, -0.3F};
  compute_model_binding in[2] = {{"w", NULL}, {"trips", NULL}}, out[8];
  for (int i = 0; i < 8; i++) out[i] = (compute_model_binding){names[i], NULL};
  assert_ok(compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(WIDTH), w, &in[0].tensor));
  assert_ok(compute_tensor_from_host(device, COMPUTE_I64, COMPUTE_SCALAR, &trips, &in[1].tensor));
  assert_ok(compute_model_run(model, in, end == BY_RUN_TIME_NUMBER ? 2 : 1, out, 8));
  check_outputs(out, w, trips);
  compute_tensor_release(in[0].tensor);
  compute_tensor_release(in[1].tensor);
  for (int i = 0; i < 8; i++) compute_tensor_release(out[i].tensor);
}

/* 1 and 20 iterations are recorded one by one. 700 iterations are seven runs of a plan and a rest,
 * or 700 runs of a plan with one iteration. */
static void loops_give_what_plain_code_gives(void **state) {
  (void)state;
  static const int64_t numbers[] = {1, 20, 700, 2501};
  compute_context *context = test_open();
  for (int end = BY_NUMBER; end <= BY_EITHER; end++)
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
      compute_model *model = load(context, loop_model((loop_end)end, numbers[i]));
      run_loop(context, model, (loop_end)end, numbers[i], 0.1F);
      run_loop(context, model, (loop_end)end, numbers[i], -0.4F); /* with the same plans */
      release(model);
    }
  test_close(context);
}

/* The number of iterations of one model changes from run to run. */
static void numbers_may_change(void **state) {
  (void)state;
  compute_context *context = test_open();
  compute_model *model = load(context, loop_model(BY_RUN_TIME_NUMBER, 0));
  static const int64_t numbers[] = {900, 3, 1500, 901, 900, 1};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    run_loop(context, model, BY_RUN_TIME_NUMBER, numbers[i], 0.1F);
  release(model);
  test_close(context);
}

/* ---- Scan ---------------------------------------------------------------------------------- */

typedef struct scan_form {
  int64_t in_axis, in_reverse, out_axis, out_reverse;
} scan_form;

/* s' = 0.9 s + x; y = 2 s', where x has two elements in each iteration. */
static proto scan_model(const scan_form *form, const char *sizes) {
  proto graph = {0}, body = {0};
  put_text(&graph, 2, "scans");
  put_typed(&graph, GRAPH_INPUT, "xs", sizes);
  put_values(&graph, GRAPH_OUTPUT, "last,ys");
  put_message(&graph, GRAPH_INITIALIZER, vector_message("s0", (float[]){1, -1}, 2));
  put_values(&body, GRAPH_INPUT, "s,x");
  put_values(&body, GRAPH_OUTPUT, "s1,y");
  put_float_scalar(&body, "most", 0.9F);
  put_float_scalar(&body, "two", 2);
  add_node(&body, "Mul", "s,most", "s2");
  add_node(&body, "Add", "s2,x", "s1");
  add_node(&body, "Mul", "s1,two", "y");
  proto node = node_message("scan", "Scan", "s0,xs", "last,ys");
  put_graph_attribute(&node, "body", body);
  put_integer_attribute(&node, "num_scan_inputs", 1);
  put_list_attribute(&node, "scan_input_axes", &form->in_axis, 1);
  put_list_attribute(&node, "scan_input_directions", &form->in_reverse, 1);
  put_list_attribute(&node, "scan_output_axes", &form->out_axis, 1);
  put_list_attribute(&node, "scan_output_directions", &form->out_reverse, 1);
  put_message(&graph, GRAPH_NODE, node);
  return graph;
}

static float element(const float *data, int64_t axis, int64_t trips, int64_t trip, int k) {
  return axis == 0 ? data[trip * 2 + k] : data[k * trips + trip];
}

static void check_scan(const scan_form *form, const float *xs, const float *ys, int64_t trips) {
  float s[2] = {1, -1};
  for (int64_t trip = 0; trip < trips; trip++)
    for (int k = 0; k < 2; k++) {
      const int64_t from = form->in_reverse ? trips - 1 - trip : trip;
      const int64_t to = form->out_reverse ? trips - 1 - trip : trip;
      s[k] = s[k] * 0.9F + element(xs, form->in_axis, trips, from, k);
      const float y = element(ys, form->out_axis, trips, to, k);
      if (!(fabsf(y - 2 * s[k]) <= 1e-4F))
        fail_msg("axes %d and %d, directions %d and %d, iteration %lld of %lld: %g, not %g",
                 (int)form->in_axis, (int)form->out_axis, (int)form->in_reverse,
                 (int)form->out_reverse, (long long)trip, (long long)trips, (double)y,
                 2 * (double)s[k]);
    }
}

static uint64_t run_scan(compute_context *context, const scan_form *form, int64_t trips) {
  compute_model *model = load(context, scan_model(form, form->in_axis == 0 ? "n,2" : "2,n"));
  compute_device *device = compute_default_device(context);
  const compute_shape shape =
      form->in_axis == 0 ? COMPUTE_SHAPE(trips, 2) : COMPUTE_SHAPE(2, trips);
  float *xs = malloc((size_t)trips * 8), *ys = malloc((size_t)trips * 8);
  test_random random = {5};
  for (int64_t i = 0; i < 2 * trips; i++) xs[i] = (float)test_random_uniform(&random, -1, 1);
  compute_model_binding in = {"xs", NULL}, out[2] = {{"last", NULL}, {"ys", NULL}};
  assert_ok(compute_tensor_from_host(device, COMPUTE_F32, shape, xs, &in.tensor));
  assert_ok(compute_model_run(model, &in, 1, out, 2));
  read_floats(&out[1], ys, 2 * trips);
  assert_int_equal(compute_tensor_shape(out[1].tensor).size[0], form->out_axis == 0 ? trips : 2);
  check_scan(form, xs, ys, trips);
  const uint64_t bytes = plan_bytes(model);
  compute_tensor_release(in.tensor);
  compute_tensor_release(out[0].tensor);
  compute_tensor_release(out[1].tensor);
  release(model);
  free(xs);
  free(ys);
  return bytes;
}

static void scans_run_along_any_axis_in_both_directions(void **state) {
  (void)state;
  static const int64_t numbers[] = {5, 2100, 4099};
  compute_context *context = test_open();
  for (int64_t i = 0; i < 16; i++) {
    const scan_form form = {i & 1, i >> 1 & 1, (i >> 2 & 1) ? -1 : 0, i >> 3 & 1};
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
      run_scan(context, &form, numbers[k]);
  }
  test_close(context);
}

/* A plan with all iterations would need 100 MB. */
static void long_scans_take_little_memory(void **state) {
  (void)state;
  compute_context *context = test_open();
  const uint64_t bytes = run_scan(context, &(scan_form){0, 0, 0, 0}, 32000);
  if (bytes > 4 << 20) fail_msg("%llu bytes of plans", (unsigned long long)bytes);
  test_close(context);
}

/* ---- Endless loops --------------------------------------------------------------------------- */

/* Runs x' = x + x, or x' = x and x side by side. No plan can repeat these loops. */
static void assert_refused_at_once(const char *operator, bool numbered, int64_t trips) {
  proto graph = graph_message("x", "y"), body = {0};
  put_integer_scalar(&graph, "trips", 7, trips);
  put_integer_scalar(&graph, "yes", 9, 1);
  put_values(&body, GRAPH_INPUT, "i,c,a");
  put_values(&body, GRAPH_OUTPUT, "go,a2");
  add_node(&body, "Identity", "c", "go");
  proto join = node_message("join", operator, "a,a", "a2");
  if (strcmp(operator, "Concat") == 0) put_integer_attribute(&join, "axis", 0);
  put_message(&body, GRAPH_NODE, join);
  proto node = node_message("loop", "Loop", numbered ? "trips,,x" : ",yes,x", "y");
  put_graph_attribute(&node, "body", body);
  put_message(&graph, GRAPH_NODE, node);
  compute_context *context = test_open();
  compute_model *model = load(context, graph);
  compute_model_binding in = {"x", NULL}, out = {"y", NULL};
  assert_ok(compute_tensor_full(compute_default_device(context), COMPUTE_F32, COMPUTE_SHAPE(1), 1,
                                &in.tensor));
  const clock_t begin = clock();
  assert_true(compute_model_run(model, &in, 1, &out, 1) != COMPUTE_OK);
  test_check_message(context, "'loop' (Loop)");
  test_time("refusing a loop", "s", (double)(clock() - begin) / CLOCKS_PER_SEC, 1);
  compute_tensor_release(in.tensor);
  release(model);
  test_close(context);
}

static void loops_without_an_end_are_refused(void **state) {
  (void)state;
  assert_refused_at_once("Add", false, 0);
  assert_refused_at_once("Add", true, INT64_MAX);
  assert_refused_at_once("Concat", true, 1000000000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loops_give_what_plain_code_gives),
      cmocka_unit_test(numbers_may_change),
      cmocka_unit_test(scans_run_along_any_axis_in_both_directions),
      cmocka_unit_test(long_scans_take_little_memory),
      cmocka_unit_test(loops_without_an_end_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
