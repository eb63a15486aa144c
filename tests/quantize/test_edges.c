/* SPDX-License-Identifier: MIT */
/* Limits, names, types and sizes that a quantized file must keep. */
#include "compute/quantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/message_writer.h"
#include "support/harness/values.h"

#define MADE TEST_SCRATCH_DIR "/quantize_edges.onnx"

enum { WIDTH = 4, ROWS = 16, F16 = 10, TEXT = 8 };

/* ---- Models ---------------------------------------------------------------------------------- */

static proto open_graph(const char *output) {
  proto graph = {0};
  put_text(&graph, 2, "edges");
  put_typed(&graph, GRAPH_INPUT, "x", "n,4");
  put_typed(&graph, GRAPH_OUTPUT, output, "a,b");
  return graph;
}

static void add_node(proto *graph, const char *type, const char *inputs, const char *output) {
  put_message(graph, GRAPH_NODE, node_message("", type, inputs, output));
}

/* A square matrix with `number` on its diagonal. */
static proto diagonal(const char *name, float number) {
  float values[WIDTH * WIDTH] = {0};
  for (int i = 0; i < WIDTH; i++) values[i * WIDTH + i] = number;
  proto tensor = tensor_message(name, 1, 2, (int64_t[]){WIDTH, WIDTH});
  put_bytes(&tensor, 9, values, sizeof values);
  return tensor;
}

static void add_number(proto *graph, const char *name, float number) {
  proto tensor = tensor_message(name, 1, 0, NULL);
  put_bytes(&tensor, 9, &number, sizeof number);
  put_message(graph, GRAPH_INITIALIZER, tensor);
}

static proto old_model(proto graph, int64_t opset) {
  proto model = {0};
  put_integer(&model, 1, 8);
  put_message(&model, MODEL_GRAPH, graph);
  put_message(&model, 8, opset_message("", opset));
  return model;
}

static compute_model *load(const proto *message) {
  compute_model *model = NULL;
  assert_ok(compute_model_load_memory(test_context, message->data, message->bytes, NULL, &model));
  return model;
}

/* ---- Running --------------------------------------------------------------------------------- */

static compute_tensor *tensor_of(const float *values, int64_t rows) {
  compute_tensor *x = NULL;
  assert_ok(compute_tensor_from_host(compute_default_device(test_context), COMPUTE_F32,
                                     COMPUTE_SHAPE(rows, WIDTH), values, &x));
  return x;
}

static compute_tensor *random_rows(double low, double high) {
  compute_tensor *x = NULL;
  assert_ok(compute_tensor_random(compute_default_device(test_context), COMPUTE_F32,
                                  COMPUTE_SHAPE(ROWS, WIDTH), low, high, 3, &x));
  return x;
}

static compute_quantize_report *quantize(compute_model *model, compute_quantize_method method,
                                         compute_tensor *x) {
  const compute_model_binding samples[] = {{"x", x}};
  compute_quantize_report *report = NULL;
  const compute_quantize_options options = {
      .method = method, .samples = samples, .sample_count = 1};
  assert_ok(compute_model_quantize(model, MADE, &options, &report));
  return report;
}

static compute_tensor *run(compute_model *model, const compute_model_binding *inputs,
                           size_t count) {
  compute_model_binding out = {"y", NULL};
  assert_ok(compute_model_run(model, inputs, count, &out, 1));
  return out.tensor;
}

/* The largest difference between a model and the file, whose outputs have the same dtype. */
static double largest_error(compute_model *model, const compute_model_binding *inputs,
                            size_t count) {
  compute_model *made = NULL;
  float of[2 * ROWS * WIDTH], y[2 * ROWS * WIDTH];
  assert_ok(compute_model_load(test_context, MADE, NULL, &made));
  compute_tensor *expected = run(model, inputs, count), *got = run(made, inputs, count);
  const int64_t size = compute_tensor_count(expected);
  assert_int_equal(size, compute_tensor_count(got));
  assert_int_equal(compute_tensor_dtype(expected), compute_tensor_dtype(got));
  double largest = 0;
  if (compute_tensor_dtype(got) == COMPUTE_F32) {
    assert_true(size <= 2 * ROWS * WIDTH);
    assert_ok(compute_tensor_read(expected, of, (size_t)size * sizeof *of));
    assert_ok(compute_tensor_read(got, y, (size_t)size * sizeof *y));
    for (int64_t i = 0; i < size; i++) largest = fmax(largest, fabs((double)of[i] - (double)y[i]));
  }
  compute_tensor_release(expected);
  compute_tensor_release(got);
  compute_model_release(made);
  return largest;
}

/* Quantizes a model that takes only x, and compares it for `other`, or for x. */
static double error_of(proto message, compute_quantize_method method, compute_tensor *x,
                       compute_tensor *other) {
  compute_model *model = load(&message);
  compute_quantize_report_release(quantize(model, method, x));
  const compute_model_binding in = {"x", other ? other : x};
  const double error = largest_error(model, &in, 1);
  compute_model_release(model);
  free(message.data);
  return error;
}

/* ---- Limits ---------------------------------------------------------------------------------- */

/* A product, `type` with limits, and another product. */
static proto limited(const char *type, const char *inputs, float low, float high) {
  proto graph = open_graph("y");
  put_message(&graph, GRAPH_INITIALIZER, diagonal("w", 1));
  add_number(&graph, "low", low);
  add_number(&graph, "high", high);
  add_node(&graph, "MatMul", "x,w", "c");
  add_node(&graph, type, inputs, "r");
  add_node(&graph, "MatMul", "r,w", "y");
  return model_message(graph);
}

static void limits_are_kept(void **state) {
  (void)state;
  static const float zeros[WIDTH] = {0}, wide[WIDTH] = {-7, 0.2F, 3, 5};
  compute_tensor *x = random_rows(-8, 8), *none = tensor_of(zeros, 1), *far = tensor_of(wide, 1);
  const compute_quantize_method method = COMPUTE_QUANTIZE_STATIC;
  assert_true(error_of(limited("Relu", "c", 0, 0), method, x, NULL) < 0.1);
  assert_true(error_of(limited("Clip", "c,low,high", -1, 1), method, x, NULL) < 0.1);
  assert_true(error_of(limited("Clip", "c,low,high", -3, -1), method, x, NULL) < 0.1);
  assert_true(error_of(limited("Clip", "c,low,high", 1, 3), method, x, NULL) < 0.1);
  assert_true(error_of(limited("Clip", "c,,high", 0, 2), method, x, NULL) < 0.1);
  /* All samples are 0: the range says nothing about the limit. */
  assert_true(error_of(limited("Clip", "c,low,high", 0, 1), method, none, far) < 1.01);
  compute_tensor_release(x);
  compute_tensor_release(none);
  compute_tensor_release(far);
}

/* Joined values share a scale, which is wider than the result of Relu. */
static void a_wider_group_keeps_relu(void **state) {
  (void)state;
  proto graph = open_graph("y"), joined;
  put_message(&graph, GRAPH_INITIALIZER, diagonal("w", 1));
  put_message(&graph, GRAPH_INITIALIZER, diagonal("v", 0.5F));
  add_node(&graph, "MatMul", "x,w", "c");
  add_node(&graph, "Relu", "c", "r");
  add_node(&graph, "MatMul", "x,v", "d");
  joined = node_message("", "Concat", "r,d", "k");
  put_integer_attribute(&joined, "axis", 0);
  put_message(&graph, GRAPH_NODE, joined);
  add_node(&graph, "MatMul", "k,w", "y");
  compute_tensor *x = random_rows(-2, 2);
  assert_true(error_of(model_message(graph), COMPUTE_QUANTIZE_STATIC, x, NULL) < 0.05);
  compute_tensor_release(x);
}

static void a_limit_may_be_an_input(void **state) {
  (void)state;
  for (int with_default = 0; with_default < 2; with_default++) {
    proto graph = open_graph("y"), high = {0};
    put_text(&high, 1, "high");
    put_message(&graph, GRAPH_INPUT, high);
    if (with_default) add_number(&graph, "high", 6);
    put_message(&graph, GRAPH_INITIALIZER, diagonal("w", 1));
    add_number(&graph, "low", 0);
    add_node(&graph, "MatMul", "x,w", "c");
    add_node(&graph, "Clip", "c,low,high", "r");
    add_node(&graph, "MatMul", "r,w", "y");
    proto message = model_message(graph);
    compute_model *model = load(&message);
    compute_tensor *x = random_rows(-8, 8), *six = NULL, *less = NULL;
    compute_device *device = compute_default_device(test_context);
    assert_ok(compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SCALAR, &(float){6}, &six));
    assert_ok(compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SCALAR, &(float){0.3F}, &less));
    const compute_model_binding samples[] = {{"x", x}, {"high", six}};
    assert_ok(compute_model_quantize(
        model, MADE, &(compute_quantize_options){.samples = samples, .sample_count = 1}, NULL));
    const compute_model_binding inputs[] = {{"x", x}, {"high", less}};
    assert_true(largest_error(model, inputs, 2) < 0.05);
    compute_tensor_release(x);
    compute_tensor_release(six);
    compute_tensor_release(less);
    compute_model_release(model);
    free(message.data);
  }
}

/* ---- Half precision -------------------------------------------------------------------------- */

static void numbers_outside_half_precision_stay_f32(void **state) {
  (void)state;
  static const float factors[] = {1e6F, -3.4e38F, 1e-9F};
  compute_tensor *x = random_rows(0, 1);
  for (int i = 0; i < 3; i++) {
    proto graph = open_graph("y");
    add_number(&graph, "k", factors[i]);
    add_number(&graph, "l", 1 / factors[i]);
    add_node(&graph, "Mul", "x,k", "a");
    add_node(&graph, "Mul", "a,l", "y");
    assert_true(error_of(model_message(graph), COMPUTE_QUANTIZE_F16, x, NULL) < 1e-3);
  }
  compute_tensor_release(x);
}

/* The scale is f16, and so is the result. */
static void results_keep_their_type(void **state) {
  (void)state;
  proto graph = {0}, scale, bytes;
  put_text(&graph, 2, "edges");
  put_typed(&graph, GRAPH_INPUT, "x", "n,4");
  put_values(&graph, GRAPH_OUTPUT, "y");
  bytes = tensor_message("b", 3, 1, (int64_t[]){WIDTH});
  put_bytes(&bytes, 9, (signed char[WIDTH]){1, -2, 3, 4}, WIDTH);
  scale = tensor_message("s", F16, 0, NULL);
  put_bytes(&scale, 9, &(uint16_t){0x3800}, 2);
  put_message(&graph, GRAPH_INITIALIZER, bytes);
  put_message(&graph, GRAPH_INITIALIZER, scale);
  add_node(&graph, "DequantizeLinear", "b,s", "d");
  add_node(&graph, "Neg", "d", "e");
  add_node(&graph, "Neg", "e", "y");
  compute_tensor *x = random_rows(0, 1);
  assert_true(error_of(old_model(graph, 19), COMPUTE_QUANTIZE_F16, x, NULL) == 0);
  compute_tensor_release(x);
}

/* ---- Values ---------------------------------------------------------------------------------- */

static void many_values_take_several_passes(void **state) {
  (void)state;
  enum { COUNT = 1100 };
  proto graph = open_graph("y");
  char from[32] = "x", to[32];
  for (int i = 0; i < COUNT; i++) {
    snprintf(to, sizeof to, i + 1 < COUNT ? "v%d" : "y", i);
    add_node(&graph, "Relu", from, to);
    memcpy(from, to, sizeof from);
  }
  proto message = model_message(graph);
  compute_model *model = load(&message);
  compute_tensor *x = random_rows(-1, 1);
  compute_quantize_report *report = quantize(model, COMPUTE_QUANTIZE_F16, x);
  compute_quantize_layer layer;
  assert_int_equal(compute_quantize_report_count(report), COUNT + 1);
  for (size_t i = 0; i <= COUNT; i++) {
    assert_ok(compute_quantize_report_at(report, i, &layer));
    assert_true(layer.relative_error < 1e-3 && layer.relative_error > 0);
  }
  compute_quantize_report_release(report);
  compute_tensor_release(x);
  compute_model_release(model);
  free(message.data);
}

static void nodes_may_lack_outputs(void **state) {
  (void)state;
  compute_tensor *x = random_rows(-1, 1);
  static const char *const outputs[] = {NULL, "", "z"};
  for (int i = 0; i < 9; i++) {
    const compute_quantize_method method = (compute_quantize_method)(i / 3);
    proto graph = open_graph("y"), weights;
    weights = tensor_message("c", 1, 3, (int64_t[]){2, 1, 1});
    put_bytes(&weights, 9, (float[]){1, 2}, 8);
    put_message(&graph, GRAPH_INITIALIZER, weights);
    weights = tensor_message("e", 1, 3, (int64_t[]){2, 1, 1});
    put_bytes(&weights, 9, (float[]){3, 2}, 8);
    put_message(&graph, GRAPH_INITIALIZER, weights);
    put_message(&graph, GRAPH_INITIALIZER, integers_message("axes", (int64_t[]){1}, 1));
    put_message(&graph, GRAPH_INITIALIZER, diagonal("w", 1));
    add_node(&graph, "Unsqueeze", "x,axes", "u");
    add_node(&graph, "Conv", "u,c", outputs[i % 3]);
    put_message(&graph, GRAPH_NODE, node_message("", "Conv", "u,e", i % 3 == 1 ? "" : NULL));
    add_node(&graph, "MatMul", "x,w", "y");
    assert_true(error_of(model_message(graph), method, x, NULL) < 0.05);
  }
  compute_tensor_release(x);
}

/* Sequences and texts have no errors, and do not end the call. */
static void values_that_are_no_numbers_are_skipped(void **state) {
  (void)state;
  compute_tensor *x = random_rows(-1, 1);
  for (int method = 0; method <= COMPUTE_QUANTIZE_BF16; method++) {
    proto graph = open_graph("y"), texts, value = {0}, type = {0}, kind = {0};
    put_integer(&kind, 1, TEXT);
    put_message(&type, 1, kind);
    put_text(&value, 1, "t");
    put_message(&value, 2, type);
    put_message(&graph, GRAPH_OUTPUT, value);
    put_message(&graph, GRAPH_INITIALIZER, diagonal("w", 1));
    texts = tensor_message("words", TEXT, 1, (int64_t[]){2});
    put_text(&texts, 6, "a");
    put_text(&texts, 6, "b");
    put_message(&graph, GRAPH_INITIALIZER, texts);
    put_message(&graph, GRAPH_INITIALIZER, integers_message("shape", (int64_t[]){2, 1}, 2));
    proto at = tensor_message("at", 7, 0, NULL);
    put_bytes(&at, 9, (int64_t[]){0}, 8);
    put_message(&graph, GRAPH_INITIALIZER, at);
    add_node(&graph, "Reshape", "words,shape", "t");
    add_node(&graph, "MatMul", "x,w", "m");
    add_node(&graph, "SequenceConstruct", "m,m", "s");
    add_node(&graph, "Identity", "s", "same");
    add_node(&graph, "SequenceAt", "same,at", "y");
    assert_true(error_of(model_message(graph), (compute_quantize_method)method, x, NULL) < 0.05);
  }
  compute_tensor_release(x);
}

/* Callers can still bind an input with a default. */
static void inputs_with_defaults_stay(void **state) {
  (void)state;
  for (int method = COMPUTE_QUANTIZE_STATIC; method <= COMPUTE_QUANTIZE_F16; method++) {
    proto graph = open_graph("y");
    put_typed(&graph, GRAPH_INPUT, "w", "4,4");
    put_message(&graph, GRAPH_INITIALIZER, diagonal("w", 1));
    add_node(&graph, "MatMul", "x,w", "y");
    proto message = model_message(graph);
    compute_model *model = load(&message);
    compute_tensor *x = random_rows(-1, 1), *w = NULL;
    float ones[WIDTH * WIDTH];
    for (int i = 0; i < WIDTH * WIDTH; i++) ones[i] = 1;
    w = tensor_of(ones, WIDTH);
    compute_quantize_report_release(quantize(model, (compute_quantize_method)method, x));
    const compute_model_binding inputs[] = {{"x", x}, {"w", w}};
    assert_true(largest_error(model, inputs, 2) < 0.05);
    compute_tensor_release(x);
    compute_tensor_release(w);
    compute_model_release(model);
    free(message.data);
  }
}

static void new_names_are_free(void **state) {
  (void)state;
  compute_tensor *x = random_rows(0, 1);
  proto graph = open_graph("y");
  put_message(&graph, GRAPH_INITIALIZER, diagonal("w", 1));
  add_node(&graph, "MatMul", "x,w", "x_quantize_half_quantize1_");
  add_node(&graph, "Relu", "x_quantize_half_quantize1_", "x_quantize2_half");
  add_node(&graph, "Relu", "x_quantize2_half", "y");
  assert_true(error_of(model_message(graph), COMPUTE_QUANTIZE_F16, x, NULL) < 1e-2);
  compute_tensor_release(x);
}

/* A name cannot add lines to the table or change a terminal. */
static void control_characters_are_replaced(void **state) {
  (void)state;
  proto graph = open_graph("y");
  put_message(&graph, GRAPH_INITIALIZER, diagonal("w", 1));
  add_node(&graph, "MatMul", "x,w", "e\x1b[31mred\n9 9 \xc2\x9b\x7f");
  add_node(&graph, "Relu", "e\x1b[31mred\n9 9 \xc2\x9b\x7f", "y");
  proto message = model_message(graph);
  compute_model *model = load(&message);
  compute_tensor *x = random_rows(-1, 1);
  compute_quantize_report *report = quantize(model, COMPUTE_QUANTIZE_WEIGHTS, x);
  for (int format = COMPUTE_REPORT_TEXT; format <= COMPUTE_REPORT_SVG; format++) {
    char *text = NULL;
    assert_ok(compute_quantize_report_text(report, (compute_quantize_format)format, &text));
    assert_null(strchr(text, '\x1b'));
    assert_null(strstr(text, "\n9 9"));
    if (format == COMPUTE_REPORT_JSON) {
      compute_text_free(text);
      continue;
    }
    assert_null(strchr(text, '\x7f'));
    assert_null(strstr(text, "\xc2\x9b"));
    compute_text_free(text);
  }
  compute_quantize_report_release(report);
  compute_tensor_release(x);
  compute_model_release(model);
  free(message.data);
}

/* ---- Weights --------------------------------------------------------------------------------- */

static size_t bytes_of(compute_model *model, compute_tensor *x, compute_quantize_method method) {
  compute_quantize_report *report = quantize(model, method, x);
  char *text = NULL;
  assert_ok(compute_quantize_report_text(report, COMPUTE_REPORT_JSON, &text));
  const char *at = strstr(text, "\"bytes\": ");
  assert_non_null(at);
  const size_t bytes = strtoul(at + 9, NULL, 10);
  compute_text_free(text);
  compute_quantize_report_release(report);
  return bytes;
}

/* `count` convolutions that share one weight. */
static size_t shared_bytes(int count) {
  proto graph = {0}, weights;
  float values[64 * 64] = {0};
  for (int i = 0; i < 64; i++) values[i * 65] = 1;
  put_text(&graph, 2, "edges");
  put_typed(&graph, GRAPH_INPUT, "x", "n,64,4");
  put_typed(&graph, GRAPH_OUTPUT, "y", "a,b,c");
  weights = tensor_message("w", 1, 3, (int64_t[]){64, 64, 1});
  put_bytes(&weights, 9, values, sizeof values);
  put_message(&graph, GRAPH_INITIALIZER, weights);
  char from[16] = "x", to[16];
  for (int i = 0; i < count; i++) {
    snprintf(to, sizeof to, i + 1 < count ? "v%d" : "y", i);
    char inputs[32];
    snprintf(inputs, sizeof inputs, "%s,w", from);
    add_node(&graph, "Conv", inputs, to);
    memcpy(from, to, sizeof from);
  }
  proto message = model_message(graph);
  compute_model *model = load(&message);
  compute_tensor *x = NULL;
  assert_ok(compute_tensor_random(compute_default_device(test_context), COMPUTE_F32,
                                  COMPUTE_SHAPE(1, 64, 4), -1, 1, 1, &x));
  const size_t bytes = bytes_of(model, x, COMPUTE_QUANTIZE_WEIGHTS);
  compute_tensor_release(x);
  compute_model_release(model);
  free(message.data);
  return bytes;
}

static void shared_weights_are_written_once(void **state) {
  (void)state;
  assert_true(shared_bytes(8) < shared_bytes(1) + 2048);
}

static void constants_of_nodes_are_weights(void **state) {
  (void)state;
  enum { LARGE = 64 };
  static float values[LARGE * LARGE];
  for (int i = 0; i < LARGE; i++) values[i * (LARGE + 1)] = 0.7F;
  for (int method = COMPUTE_QUANTIZE_STATIC; method <= COMPUTE_QUANTIZE_F16; method++) {
    proto graph = {0}, weights, constant;
    put_text(&graph, 2, "edges");
    put_typed(&graph, GRAPH_INPUT, "x", "n,64");
    put_typed(&graph, GRAPH_OUTPUT, "y", "a,b");
    weights = tensor_message("", 1, 2, (int64_t[]){LARGE, LARGE});
    put_bytes(&weights, 9, values, sizeof values);
    constant = node_message("", "Constant", NULL, "w");
    put_message(&constant, NODE_ATTRIBUTE, attribute_message("value", 4, 5, weights));
    put_message(&graph, GRAPH_NODE, constant);
    add_node(&graph, "MatMul", "x,w", "y");
    proto message = model_message(graph);
    compute_model *model = load(&message);
    compute_tensor *x = NULL;
    assert_ok(compute_tensor_random(compute_default_device(test_context), COMPUTE_F32,
                                    COMPUTE_SHAPE(2, LARGE), -1, 1, 1, &x));
    assert_true(bytes_of(model, x, (compute_quantize_method)method) < 0.6 * sizeof values);
    const compute_model_binding in = {"x", x};
    assert_true(largest_error(model, &in, 1) < 0.05);
    compute_tensor_release(x);
    compute_model_release(model);
    free(message.data);
  }
}

/* ---- GPTQ and arguments ---------------------------------------------------------------------- */

static compute_status no_sample(void *user, size_t index, compute_model_binding *inputs,
                                size_t count, bool *more) {
  (void)user;
  (void)index;
  (void)inputs;
  (void)count;
  *more = false;
  return COMPUTE_OK;
}

/* Columns of x depend on each other, so errors of one weight can be spread over others. */
static void spread_errors_are_smaller(void **state) {
  (void)state;
  enum { N = 32, SAMPLES = 200 };
  test_random random = {11};
  static float mix[4 * N], values[SAMPLES * N], weights[N * N];
  for (int i = 0; i < 4 * N; i++) mix[i] = (float)test_random_uniform(&random, -1, 1);
  for (int i = 0; i < N * N; i++) weights[i] = (float)test_random_uniform(&random, -1, 1);
  for (int i = 0; i < SAMPLES; i++) {
    double hidden[4];
    for (int k = 0; k < 4; k++) hidden[k] = test_random_uniform(&random, -1, 1);
    for (int c = 0; c < N; c++) {
      double sum = test_random_uniform(&random, -0.1, 0.1);
      for (int k = 0; k < 4; k++) sum += hidden[k] * (double)mix[k * N + c];
      values[i * N + c] = (float)sum;
    }
  }
  proto graph = {0}, tensor;
  put_text(&graph, 2, "edges");
  put_typed(&graph, GRAPH_INPUT, "x", "n,32");
  put_typed(&graph, GRAPH_OUTPUT, "y", "a,b");
  tensor = tensor_message("w", 1, 2, (int64_t[]){N, N});
  put_bytes(&tensor, 9, weights, sizeof weights);
  put_message(&graph, GRAPH_INITIALIZER, tensor);
  add_node(&graph, "MatMul", "x,w", "y");
  proto message = model_message(graph);
  compute_model *model = load(&message);
  compute_tensor *x = NULL;
  assert_ok(compute_tensor_from_host(compute_default_device(test_context), COMPUTE_F32,
                                     COMPUTE_SHAPE(SAMPLES, N), values, &x));
  const compute_model_binding samples[] = {{"x", x}};
  double errors[3];
  for (int i = 0; i < 3; i++) {
    const compute_quantize_options options = {.method = COMPUTE_QUANTIZE_WEIGHTS,
                                              .rounding = (compute_quantize_rounding)i,
                                              .bits = 4,
                                              .samples = samples,
                                              .sample_count = 1};
    compute_quantize_report *report = NULL;
    compute_quantize_layer layer;
    assert_ok(compute_model_quantize(model, MADE, &options, &report));
    assert_ok(compute_quantize_report_at(report, 0, &layer));
    errors[i] = layer.relative_error;
    compute_quantize_report_release(report);
  }
  if (!(errors[COMPUTE_ROUNDING_GPTQ] < 0.6 * errors[COMPUTE_ROUNDING_NEAREST]))
    fail_msg("GPTQ %g, nearest %g", errors[COMPUTE_ROUNDING_GPTQ],
             errors[COMPUTE_ROUNDING_NEAREST]);
  const compute_quantize_options none = {
      .method = COMPUTE_QUANTIZE_WEIGHTS, .rounding = COMPUTE_ROUNDING_GPTQ, .next = no_sample};
  assert_fails(compute_model_quantize(model, MADE, &none, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);
  const compute_quantize_options both = {.samples = samples, .sample_count = 1, .next = no_sample};
  assert_fails(compute_model_quantize(model, MADE, &both, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);
  compute_tensor_release(x);
  compute_model_release(model);
  free(message.data);
}

static void old_opsets_are_refused(void **state) {
  (void)state;
  proto graph = open_graph("y");
  put_message(&graph, GRAPH_INITIALIZER, diagonal("w", 1));
  add_node(&graph, "MatMul", "x,w", "y");
  proto message = old_model(graph, 9);
  compute_model *model = load(&message);
  compute_tensor *x = random_rows(-1, 1);
  const compute_model_binding samples[] = {{"x", x}};
  const compute_quantize_options options = {.samples = samples, .sample_count = 1};
  assert_fails(compute_model_quantize(model, MADE, &options, NULL), COMPUTE_ERROR_UNSUPPORTED);
  compute_tensor_release(x);
  compute_model_release(model);
  free(message.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(limits_are_kept),
      cmocka_unit_test(a_wider_group_keeps_relu),
      cmocka_unit_test(a_limit_may_be_an_input),
      cmocka_unit_test(numbers_outside_half_precision_stay_f32),
      cmocka_unit_test(results_keep_their_type),
      cmocka_unit_test(many_values_take_several_passes),
      cmocka_unit_test(nodes_may_lack_outputs),
      cmocka_unit_test(values_that_are_no_numbers_are_skipped),
      cmocka_unit_test(inputs_with_defaults_stay),
      cmocka_unit_test(new_names_are_free),
      cmocka_unit_test(control_characters_are_replaced),
      cmocka_unit_test(shared_weights_are_written_once),
      cmocka_unit_test(constants_of_nodes_are_weights),
      cmocka_unit_test(spread_errors_are_smaller),
      cmocka_unit_test(old_opsets_are_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
