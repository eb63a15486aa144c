/* SPDX-License-Identifier: MIT */
/* Quantized models agree with their sources. Reports name the layers that stay f32. */
#include "compute/quantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/message_writer.h"
#include "support/harness/values.h"

#define MADE   TEST_SCRATCH_DIR "/quantize_made.onnx"
#define SOURCE TEST_SCRATCH_DIR "/quantize_source.onnx"

/* ---- Models ---------------------------------------------------------------------------------- */

static void add_random(proto *graph, const char *name, int rank, const int64_t *sizes, double gain,
                       uint64_t seed) {
  test_random random = {seed};
  int64_t count = 1;
  for (int i = 0; i < rank; i++) count *= sizes[i];
  float *values = malloc((size_t)count * sizeof *values);
  assert_non_null(values);
  for (int64_t i = 0; i < count; i++) values[i] = (float)test_random_uniform(&random, -gain, gain);
  proto tensor = tensor_message(name, 1, rank, sizes);
  put_bytes(&tensor, 9, values, (size_t)count * sizeof *values);
  put_message(graph, GRAPH_INITIALIZER, tensor);
  free(values);
}

static proto node(const char *type, const char *inputs, const char *output) {
  return node_message(output, type, inputs, output);
}

static void add_node(proto *graph, const char *type, const char *inputs, const char *output) {
  put_message(graph, GRAPH_NODE, node(type, inputs, output));
}

static void add_conv(proto *graph, const char *inputs, const char *output, int64_t groups) {
  proto conv = node("Conv", inputs, output);
  put_list_attribute(&conv, "pads", (int64_t[]){1, 1, 1, 1}, 4);
  put_integer_attribute(&conv, "group", groups);
  put_message(graph, GRAPH_NODE, conv);
}

/* Convolutions, one with a group for each channel, a sum, pools, joined channels, a product. */
static proto cnn(void) {
  proto graph = {0}, joined, pool, gemm;
  put_text(&graph, 2, "cnn");
  put_typed(&graph, GRAPH_INPUT, "x", "n,3,12,12");
  put_values(&graph, GRAPH_OUTPUT, "y");
  add_random(&graph, "w0", 4, (int64_t[]){16, 3, 3, 3}, 0.4, 1);
  add_random(&graph, "b0", 1, (int64_t[]){16}, 0.3, 2);
  add_random(&graph, "w1", 4, (int64_t[]){16, 1, 3, 3}, 0.6, 3);
  add_random(&graph, "w2", 4, (int64_t[]){16, 16, 3, 3}, 0.2, 4);
  add_random(&graph, "w3", 2, (int64_t[]){10, 32}, 0.4, 5);
  add_random(&graph, "b3", 1, (int64_t[]){10}, 0.3, 6);
  add_conv(&graph, "x,w0,b0", "c0", 1);
  add_node(&graph, "Relu", "c0", "r0");
  add_conv(&graph, "r0,w1", "c1", 16);
  add_node(&graph, "Relu", "c1", "r1");
  add_conv(&graph, "r1,w2", "c2", 1);
  add_node(&graph, "Add", "r0,c2", "s");
  pool = node("MaxPool", "s", "m");
  put_list_attribute(&pool, "kernel_shape", (int64_t[]){2, 2}, 2);
  put_list_attribute(&pool, "strides", (int64_t[]){2, 2}, 2);
  put_message(&graph, GRAPH_NODE, pool);
  add_conv(&graph, "m,w2", "c3", 1); /* a weight that two nodes share */
  joined = node("Concat", "m,c3", "j");
  put_integer_attribute(&joined, "axis", 1);
  put_message(&graph, GRAPH_NODE, joined);
  add_node(&graph, "GlobalAveragePool", "j", "p");
  add_node(&graph, "Flatten", "p", "f");
  gemm = node("Gemm", "f,w3,b3", "y");
  put_integer_attribute(&gemm, "transB", 1);
  put_message(&graph, GRAPH_NODE, gemm);
  return model_message(graph);
}

/* A block of a transformer with one head. `w` is used as it is and turned. */
static proto attention(void) {
  proto graph = {0}, turned, again;
  put_text(&graph, 2, "attention");
  put_typed(&graph, GRAPH_INPUT, "x", "n,64");
  put_values(&graph, GRAPH_OUTPUT, "y");
  static const char *const names[] = {"q", "k", "v", "o", "w"};
  for (int i = 0; i < 5; i++)
    add_random(&graph, names[i], 2, (int64_t[]){64, 64}, 0.2, (uint64_t)i + 10);
  add_random(&graph, "bias", 1, (int64_t[]){64}, 0.2, 20);
  add_node(&graph, "MatMul", "x,q", "xq");
  add_node(&graph, "MatMul", "x,k", "xk");
  add_node(&graph, "MatMul", "x,v", "xv");
  turned = node("Transpose", "xk", "kt");
  put_list_attribute(&turned, "perm", (int64_t[]){1, 0}, 2);
  put_message(&graph, GRAPH_NODE, turned);
  add_node(&graph, "MatMul", "xq,kt", "scores");
  add_node(&graph, "Softmax", "scores", "p");
  add_node(&graph, "MatMul", "p,xv", "mixed");
  add_node(&graph, "MatMul", "mixed,o", "mo");
  add_node(&graph, "Add", "mo,bias", "mb");
  add_node(&graph, "Add", "mb,x", "h");
  add_node(&graph, "MatMul", "h,w", "hw");
  add_node(&graph, "Tanh", "hw", "t");
  again = node("Gemm", "t,w,bias", "y");
  put_integer_attribute(&again, "transB", 1);
  put_message(&graph, GRAPH_NODE, again);
  return model_message(graph);
}

/* The message must live as long as the model. */
static compute_model *load(const proto *message) {
  compute_model *model = NULL;
  assert_ok(compute_model_load_memory(test_context, message->data, message->bytes, NULL, &model));
  return model;
}

static compute_tensor *random_tensor(compute_shape shape, uint64_t seed) {
  compute_tensor *x = NULL;
  assert_ok(compute_tensor_random(compute_default_device(test_context), COMPUTE_F32, shape, -2, 2,
                                  seed, &x));
  return x;
}

static float *run(compute_model *model, compute_tensor *x, int64_t *count) {
  compute_model_binding in = {"x", x}, out = {"y", NULL};
  assert_ok(compute_model_run(model, &in, 1, &out, 1));
  *count = compute_tensor_count(out.tensor);
  float *y = malloc((size_t)*count * sizeof *y + 1);
  assert_non_null(y);
  assert_ok(compute_tensor_read(out.tensor, y, (size_t)*count * sizeof *y));
  compute_tensor_release(out.tensor);
  return y;
}

/* The error of the file MADE relative to the model. */
static double error_of(compute_model *model, compute_tensor *x) {
  compute_model *made = NULL;
  int64_t count, made_count;
  assert_ok(compute_model_load(test_context, MADE, NULL, &made));
  float *of = run(model, x, &count), *y = run(made, x, &made_count);
  assert_int_equal(count, made_count);
  double apart = 0, all = 0;
  for (int64_t i = 0; i < count; i++) {
    apart += ((double)y[i] - (double)of[i]) * ((double)y[i] - (double)of[i]);
    all += (double)of[i] * (double)of[i];
  }
  free(of);
  free(y);
  compute_model_release(made);
  return sqrt(apart / all);
}

/* The layer of a report with this name. */
static compute_quantize_layer layer_of(const compute_quantize_report *report, const char *name) {
  compute_quantize_layer layer = {0};
  for (size_t i = 0; i < compute_quantize_report_count(report); i++) {
    assert_ok(compute_quantize_report_at(report, i, &layer));
    if (strcmp(layer.name, name) == 0 && strcmp(layer.operation, "output") != 0) return layer;
  }
  fail_msg("the report has no layer '%s'", name);
  return layer;
}

/* ---- Agreement ------------------------------------------------------------------------------- */

typedef struct way {
  const char *what;
  compute_quantize_options options;
  double limit; /* of the relative error */
  double least; /* a smaller error means that nothing was rounded */
} way;

static const way ways[] = {
    {"min-max", {0}, 0.05, 1e-4},
    {"i8", {.activations = COMPUTE_I8}, 0.05, 1e-4},
    {"7 bits", {.bits = 7}, 0.06, 1e-4},
    {"one scale", {.per_tensor = true}, 0.06, 1e-4},
    {"percentile", {.range = COMPUTE_RANGE_PERCENTILE}, 0.06, 1e-4},
    {"entropy", {.range = COMPUTE_RANGE_ENTROPY}, 0.1, 1e-4},
    {"MSE", {.range = COMPUTE_RANGE_MSE}, 0.05, 1e-4},
    {"nearest", {.rounding = COMPUTE_ROUNDING_NEAREST}, 0.05, 1e-4},
    {"weights 8", {.method = COMPUTE_QUANTIZE_WEIGHTS}, 0.02, 1e-4},
    {"weights 4", {.method = COMPUTE_QUANTIZE_WEIGHTS, .bits = 4}, 0.2, 1e-3},
    {"GPTQ 4",
     {.method = COMPUTE_QUANTIZE_WEIGHTS,
      .bits = 4,
      .block = 16,
      .rounding = COMPUTE_ROUNDING_GPTQ},
     0.2,
     1e-3},
    {"f16", {.method = COMPUTE_QUANTIZE_F16}, 0.003, 1e-5},
    {"bf16", {.method = COMPUTE_QUANTIZE_BF16}, 0.03, 1e-4},
};

/* Samples of different sizes, and a test that is none of them. */
static void check_ways(proto message, const compute_shape *shapes, size_t sample_count) {
  compute_model *model = load(&message);
  compute_model_binding samples[8];
  for (size_t i = 0; i < sample_count; i++)
    samples[i] = (compute_model_binding){"x", random_tensor(shapes[i], i + 1)};
  compute_tensor *x = random_tensor(shapes[0], 99);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    compute_quantize_options options = ways[i].options;
    compute_quantize_report *report = NULL;
    options.samples = samples;
    options.sample_count = sample_count;
    assert_ok(compute_model_quantize(model, MADE, &options, &report));
    const double error = error_of(model, x);
    if (!(error <= ways[i].limit && error >= ways[i].least))
      fail_msg("%s: error %g, not in %g … %g", ways[i].what, error, ways[i].least, ways[i].limit);
    assert_true(layer_of(report, "y").quantized);
    assert_true(layer_of(report, "y").relative_error < 2 * ways[i].limit);
    compute_quantize_report_release(report);
  }
  for (size_t i = 0; i < sample_count; i++) compute_tensor_release(samples[i].tensor);
  compute_tensor_release(x);
  compute_model_release(model);
  free(message.data);
}

static void convolutions_agree(void **state) {
  (void)state;
  check_ways(cnn(),
             (compute_shape[]){COMPUTE_SHAPE(2, 3, 12, 12), COMPUTE_SHAPE(1, 3, 12, 12),
                               COMPUTE_SHAPE(3, 3, 12, 12)},
             3);
}

static void attention_agrees(void **state) {
  (void)state;
  check_ways(attention(),
             (compute_shape[]){COMPUTE_SHAPE(40, 64), COMPUTE_SHAPE(50, 64), COMPUTE_SHAPE(60, 64),
                               COMPUTE_SHAPE(70, 64)},
             4);
}

/* A graph becomes a quantized model by way of a file. */
static void a_graph_is_quantized(void **state) {
  (void)state;
  compute_graph *g = compute_graph_create(test_context);
  compute_tensor *w = random_tensor(COMPUTE_SHAPE(32, 8), 1);
  const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(4, 32));
  const compute_node y = compute_matmul(g, x, compute_parameter(g, w));
  const compute_model_value in = {"x", x}, out = {"y", y};
  assert_ok(compute_graph_save_onnx(g, &in, 1, &out, 1, SOURCE, NULL));
  compute_model *model = NULL;
  assert_ok(compute_model_load(test_context, SOURCE, NULL, &model));
  compute_tensor *sample = random_tensor(COMPUTE_SHAPE(4, 32), 2);
  const compute_model_binding samples[] = {{"x", sample}};
  assert_ok(compute_model_quantize(
      model, MADE, &(compute_quantize_options){.samples = samples, .sample_count = 1}, NULL));
  const double error = error_of(model, sample);
  assert_true(error > 1e-4 && error < 0.02);
  compute_tensor_release(sample);
  compute_tensor_release(w);
  compute_model_release(model);
  compute_graph_release(g);
}

/* ---- Choices --------------------------------------------------------------------------------- */

static void patterns_keep_layers(void **state) {
  (void)state;
  proto message = cnn();
  compute_model *model = load(&message);
  compute_tensor *x = random_tensor(COMPUTE_SHAPE(2, 3, 12, 12), 1);
  const compute_model_binding samples[] = {{"x", x}};
  const char *const keep[] = {"c?", "Gemm"};
  for (int method = 0; method <= COMPUTE_QUANTIZE_BF16; method++) {
    compute_quantize_report *report = NULL;
    const compute_quantize_options options = {.method = (compute_quantize_method)method,
                                              .keep = keep,
                                              .keep_count = 2,
                                              .samples = samples,
                                              .sample_count = 1};
    assert_ok(compute_model_quantize(model, MADE, &options, &report));
    static const char *const names[] = {"c0", "c1", "c2", "c3", "y"};
    for (int i = 0; i < 5; i++) {
      assert_false(layer_of(report, names[i]).quantized);
      assert_string_equal(layer_of(report, names[i]).reason, "kept by a pattern");
    }
    compute_quantize_report_release(report);
    const double error = error_of(model, x);
    assert_true(method <= COMPUTE_QUANTIZE_WEIGHTS ? error < 1e-6 : error > 0);
  }
  compute_tensor_release(x);
  compute_model_release(model);
  free(message.data);
}

/* A second quantization changes nothing. */
static void quantized_models_are_kept(void **state) {
  (void)state;
  proto message = cnn();
  compute_model *model = load(&message), *made = NULL;
  compute_tensor *x = random_tensor(COMPUTE_SHAPE(2, 3, 12, 12), 1);
  const compute_model_binding samples[] = {{"x", x}};
  const compute_quantize_options options = {.samples = samples, .sample_count = 1};
  assert_ok(compute_model_quantize(model, SOURCE, &options, NULL));
  assert_ok(compute_model_load(test_context, SOURCE, NULL, &made));
  compute_quantize_report *report = NULL;
  assert_ok(compute_model_quantize(made, MADE, &options, &report));
  assert_string_equal(layer_of(report, "c0").reason, "quantized already");
  assert_string_equal(layer_of(report, "y").reason, "quantized already");
  assert_true(error_of(made, x) == 0);
  compute_quantize_report_release(report);
  compute_tensor_release(x);
  compute_model_release(model);
  compute_model_release(made);
  free(message.data);
}

static void samples_with_nan_keep_their_layers(void **state) {
  (void)state;
  proto message = cnn();
  compute_model *model = load(&message);
  static float values[3 * 12 * 12];
  values[7] = NAN;
  compute_tensor *x = NULL, *zeros = NULL;
  compute_device *device = compute_default_device(test_context);
  const compute_shape shape = COMPUTE_SHAPE(1, 3, 12, 12);
  assert_ok(compute_tensor_from_host(device, COMPUTE_F32, shape, values, &x));
  values[7] = 0;
  assert_ok(compute_tensor_from_host(device, COMPUTE_F32, shape, values, &zeros));
  const compute_model_binding samples[] = {{"x", zeros}, {"x", x}};
  compute_quantize_options options = {.samples = samples, .sample_count = 2};
  compute_quantize_report *report = NULL;
  char *text = NULL;
  assert_ok(compute_model_quantize(model, MADE, &options, &report));
  assert_string_equal(layer_of(report, "c0").reason, "a value is infinite or NaN in a sample");
  assert_false(layer_of(report, "c0").quantized);
  assert_ok(compute_quantize_report_text(report, COMPUTE_REPORT_JSON, &text));
  assert_non_null(strstr(text, "null"));
  assert_null(strstr(text, "nan"));
  compute_text_free(text);
  compute_quantize_report_release(report);
  options.sample_count = 1; /* only zeros: a range of no width */
  assert_ok(compute_model_quantize(model, MADE, &options, &report));
  assert_true(layer_of(report, "c0").quantized);
  assert_true(isfinite(error_of(model, zeros)));
  compute_quantize_report_release(report);
  compute_tensor_release(x);
  compute_tensor_release(zeros);
  compute_model_release(model);
  free(message.data);
}

static compute_status no_sample(void *user, size_t index, compute_model_binding *inputs,
                                size_t count, bool *more) {
  (void)user;
  (void)index;
  assert_int_equal(count, 1);
  assert_string_equal(inputs[0].name, "x");
  *more = false;
  return COMPUTE_OK;
}

static void options_are_checked(void **state) {
  (void)state;
  proto message = cnn();
  compute_model *model = load(&message);
  const compute_model_binding samples[] = {{"x", NULL}};
  static const compute_quantize_options wrong[] = {
      {.bits = 4},
      {.method = COMPUTE_QUANTIZE_WEIGHTS, .bits = 7},
      {.method = (compute_quantize_method)9},
      {.range = (compute_quantize_range)9},
      {.rounding = (compute_quantize_rounding)9},
      {.percentile = 10},
      {.percentile = (double)NAN},
      {.activations = COMPUTE_F32},
      {.block = 24},
      {.keep_count = 1},
      {.reserved = {1}},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    compute_quantize_options options = wrong[i];
    options.samples = samples;
    options.sample_count = 1;
    assert_fails(compute_model_quantize(model, MADE, &options, NULL),
                 COMPUTE_ERROR_INVALID_ARGUMENT);
  }
  assert_fails(compute_model_quantize(model, MADE, NULL, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(
      compute_model_quantize(model, MADE, &(compute_quantize_options){.next = no_sample}, NULL),
      COMPUTE_ERROR_INVALID_ARGUMENT);
  const compute_quantize_options half = {.method = COMPUTE_QUANTIZE_F16};
  assert_fails(compute_model_quantize(model, "made.txt", &half, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_model_quantize(model, TEST_NOWHERE "/made.onnx", &half, NULL),
               COMPUTE_ERROR_FILE);
  assert_fails(compute_model_quantize(NULL, MADE, &half, NULL), COMPUTE_ERROR_NULL_POINTER);
  compute_model_release(model);
  free(message.data);
}

/* Files with changed bytes that still load are quantized, or refused with a message. */
static void mutants_are_quantized_or_refused(void **state) {
  (void)state;
  proto messages[] = {cnn(), attention()};
  test_random random = {test_seed() + 1};
  int loaded = 0;
  for (int i = 0; i < 600; i++) {
    const proto *message = &messages[i % 2];
    unsigned char *bytes = malloc(message->bytes);
    assert_non_null(bytes);
    memcpy(bytes, message->data, message->bytes);
    for (int k = 0; k < 1 + i % 3; k++) {
      /* Names, sizes and attributes are near the ends; weights fill the middle. */
      const size_t reach = message->bytes / 2 < 900 ? message->bytes / 2 : 900;
      const size_t at = (size_t)test_random_integer(&random, 0, (int64_t)reach - 1);
      const size_t place = test_random_bits(&random) % 2 ? at : message->bytes - 1 - at;
      bytes[place] = (unsigned char)test_random_bits(&random);
    }
    compute_model *model = NULL;
    if (!compute_model_load_memory(test_context, bytes, message->bytes, NULL, &model)) {
      loaded++;
      for (int method = COMPUTE_QUANTIZE_WEIGHTS; method <= COMPUTE_QUANTIZE_BF16; method++) {
        const compute_quantize_options options = {.method = (compute_quantize_method)method,
                                                  .bits = method == 1 ? 4 : 8};
        compute_quantize_report *report = NULL;
        if (compute_model_quantize(model, MADE, &options, &report))
          test_check_message(test_context, "compute_model_quantize");
        compute_quantize_report_release(report);
      }
      compute_model_release(model);
    }
    free(bytes);
  }
  assert_true(loaded > 20);
  free(messages[0].data);
  free(messages[1].data);
}

static void reports_have_three_forms(void **state) {
  (void)state;
  proto message = attention();
  compute_model *model = load(&message);
  compute_quantize_report *report = NULL;
  const compute_quantize_options options = {.method = COMPUTE_QUANTIZE_WEIGHTS, .bits = 4};
  assert_ok(compute_model_quantize(model, MADE, &options, &report));
  static const char *const parts[] = {"quantized", "\"layers\": [", "<svg "};
  char *text = NULL;
  for (int i = 0; i < 3; i++) {
    assert_ok(compute_quantize_report_text(report, (compute_quantize_format)i, &text));
    assert_non_null(strstr(text, parts[i]));
    compute_text_free(text);
  }
  assert_true(isnan(layer_of(report, "xq").relative_error)); /* no samples */
  assert_fails(compute_quantize_report_text(report, (compute_quantize_format)3, &text),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  compute_quantize_layer layer;
  assert_fails(compute_quantize_report_at(report, 1000, &layer), COMPUTE_ERROR_INVALID_ARGUMENT);
  compute_quantize_report_release(report);
  compute_quantize_report_release(NULL);
  compute_model_release(model);
  free(message.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(convolutions_agree),
      cmocka_unit_test(attention_agrees),
      cmocka_unit_test(a_graph_is_quantized),
      cmocka_unit_test(patterns_keep_layers),
      cmocka_unit_test(quantized_models_are_kept),
      cmocka_unit_test(samples_with_nan_keep_their_layers),
      cmocka_unit_test(options_are_checked),
      cmocka_unit_test(mutants_are_quantized_or_refused),
      cmocka_unit_test(reports_have_three_forms),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
