/* SPDX-License-Identifier: MIT */
/* Convolutions and products of dequantized bytes are computed as integers. Their results match
 * double precision, and the plan has integer products where expected. */
#include <math.h>
#include <stdlib.h>

#include "model/message_writer.h"
#include "support/harness/values.h"

enum { U8 = 2, I8 = 3 };

/* A tensor of bytes, U8 or I8, with random numbers from `low` to `high`. `values` receives them. */
static void add_bytes(proto *graph, const char *name, int32_t type, int rank, const int64_t *sizes,
                      double low, double high, double *values) {
  test_random random = {(uint64_t)name[0] * 7 + (uint64_t)rank};
  size_t count = 1;
  for (int i = 0; i < rank; i++) count *= (size_t)sizes[i];
  unsigned char *bytes = malloc(count);
  assert_non_null(bytes);
  for (size_t i = 0; i < count; i++) {
    values[i] = floor(test_random_uniform(&random, low, high + 1));
    bytes[i] = type == U8 ? (unsigned char)values[i] : (unsigned char)(signed char)values[i];
  }
  proto tensor = tensor_message(name, type, rank, sizes);
  put_bytes(&tensor, 9, bytes, count);
  put_message(graph, GRAPH_INITIALIZER, tensor);
  free(bytes);
}

static void add_floats(proto *graph, const char *name, int rank, const int64_t *sizes,
                       const float *values) {
  size_t count = 1;
  for (int i = 0; i < rank; i++) count *= (size_t)sizes[i];
  proto tensor = tensor_message(name, 1, rank, sizes);
  put_bytes(&tensor, 9, values, count * sizeof *values);
  put_message(graph, GRAPH_INITIALIZER, tensor);
}

static proto node(const char *type, const char *inputs, const char *output) {
  return node_message(output, type, inputs, output);
}

static void add_node(proto *graph, const char *type, const char *inputs, const char *output) {
  put_message(graph, GRAPH_NODE, node(type, inputs, output));
}

/* "data": x after quantization with scale 0.05 and zero point 120, converted back to floats. */
static void add_data(proto *graph) {
  static double zero[1];
  add_floats(graph, "x_scale", 0, NULL, &(const float){0.05f});
  add_bytes(graph, "z", U8, 0, NULL, 120, 120, zero);
  add_node(graph, "QuantizeLinear", "x,x_scale,z", "q");
  add_node(graph, "DequantizeLinear", "q,x_scale,z", "data");
}

/* A number after quantization and dequantization. */
static double quantized(float x) {
  const double q = nearbyint(x / 0.05f) + 120;
  return (fmin(fmax(q, 0), 255) - 120) * (double)0.05f;
}

/* Returns true if a step of the plan begins with `operation` and continues with its sums as
 * floats. */
static bool goes_on(const char *text, const char *operation) {
  for (const char *at = strstr(text, operation); at; at = strstr(at + 1, operation))
    if (memmem(at, strcspn(at, "\n"), "f32(", 4)) return true;
  return false;
}

/* Loads and runs a model with the input "x". Returns true if its plan has an integer product. */
static bool run(proto *message, compute_shape x_shape, const float *x, compute_shape y_shape,
                float *y) {
  compute_model *model = NULL;
  assert_ok(compute_model_load_memory(test_context, message->data, message->bytes, NULL, &model));
  compute_tensor *from = test_tensor(test_context, COMPUTE_F32, x_shape, x);
  compute_model_binding in = {"x", from}, out = {"y", NULL};
  assert_ok(compute_model_run(model, &in, 1, &out, 1));
  assert_true(compute_shape_equal(compute_tensor_shape(out.tensor), y_shape));
  int64_t count;
  assert_ok(compute_shape_count(y_shape, &count));
  assert_ok(compute_tensor_read(out.tensor, y, (size_t)count * sizeof *y));
  char *text = NULL;
  assert_ok(compute_model_explain(model, &text));
  const bool integer = goes_on(text, "matmul, then ") || goes_on(text, "convolution ");
  compute_text_free(text);
  compute_tensor_release(from);
  compute_tensor_release(out.tensor);
  compute_model_release(model);
  free(message->data);
  return integer;
}

static void random_data(float *x, size_t count) {
  test_random random = {count};
  for (size_t i = 0; i < count; i++) x[i] = (float)test_random_uniform(&random, -8, 8);
}

/* ---- Convolutions ---------------------------------------------------------------------------- */

enum { IMAGES = 2, CHANNELS = 6, ROWS = 7, COLUMNS = 5, FILTERS = 18, MOST = 4096 };

typedef struct conv_case {
  const char *what;
  int64_t groups, size, stride;
  bool each; /* one scale and zero point for each filter */
  bool symmetric, integer;
} conv_case;

static void check_conv(const conv_case *c) {
  const int64_t channels = CHANNELS / c->groups, pad = c->size / 2;
  const int64_t rows = (ROWS + 2 * pad - c->size) / c->stride + 1;
  const int64_t columns = (COLUMNS + 2 * pad - c->size) / c->stride + 1;
  static double w[MOST], w_zero[FILTERS];
  static float x[IMAGES * CHANNELS * ROWS * COLUMNS], y[MOST];
  float w_scale[FILTERS], bias[FILTERS];
  for (int i = 0; i < FILTERS; i++) {
    w_scale[i] = c->each ? 0.01f + 0.001f * (float)i : 0.02f;
    bias[i] = (float)i - 9;
  }
  proto graph = {0}, conv = node("Conv", "data,filter,bias", "sum");
  put_text(&graph, 2, "conv");
  put_typed(&graph, GRAPH_INPUT, "x", "2,6,7,5");
  put_values(&graph, GRAPH_OUTPUT, "y");
  add_data(&graph);
  const int rank = c->each;
  add_bytes(&graph, "w", I8, 4, (int64_t[]){FILTERS, channels, c->size, c->size}, -127, 127, w);
  add_bytes(&graph, "w_zero", I8, rank, (int64_t[]){FILTERS}, c->symmetric ? 0 : -9,
            c->symmetric ? 0 : 9, w_zero);
  add_floats(&graph, "w_scale", rank, (int64_t[]){FILTERS}, w_scale);
  add_floats(&graph, "bias", 1, (int64_t[]){FILTERS}, bias);
  proto filter = node("DequantizeLinear", "w,w_scale,w_zero", "filter");
  put_integer_attribute(&filter, "axis", 0);
  put_message(&graph, GRAPH_NODE, filter);
  put_list_attribute(&conv, "pads", (int64_t[]){pad, pad, pad, pad}, 4);
  put_list_attribute(&conv, "strides", (int64_t[]){c->stride, c->stride}, 2);
  put_integer_attribute(&conv, "group", c->groups);
  put_message(&graph, GRAPH_NODE, conv);
  add_node(&graph, "Relu", "sum", "y");
  random_data(x, sizeof x / sizeof *x);
  proto message = model_message(graph);
  const bool integer = run(&message, COMPUTE_SHAPE(IMAGES, CHANNELS, ROWS, COLUMNS), x,
                           COMPUTE_SHAPE(IMAGES, FILTERS, rows, columns), y);
  if (integer != c->integer) fail_msg("%s: %d integer products", c->what, integer);
  const float *at = y;
  for (int64_t n = 0; n < IMAGES; n++)
    for (int64_t f = 0; f < FILTERS; f++)
      for (int64_t p = 0; p < rows; p++)
        for (int64_t q = 0; q < columns; q++, at++) {
          const int64_t first = f / (FILTERS / c->groups) * channels, own = c->each ? f : 0;
          double sum = bias[f], size = 1;
          for (int64_t k = 0; k < channels * c->size * c->size; k++) {
            const int64_t row = p * c->stride - pad + k / c->size % c->size;
            const int64_t column = q * c->stride - pad + k % c->size;
            if (row < 0 || row >= ROWS || column < 0 || column >= COLUMNS) continue;
            const int64_t channel = first + k / (c->size * c->size);
            const double term =
                quantized(x[((n * CHANNELS + channel) * ROWS + row) * COLUMNS + column]) *
                (w[f * channels * c->size * c->size + k] - w_zero[own]) * (double)w_scale[own];
            sum += term;
            size += fabs(term);
          }
          if (!(fabs(*at - fmax(sum, 0)) <= 1e-6 * size))
            fail_msg("%s: %g instead of %g", c->what, *at, fmax(sum, 0));
        }
}

static void convolutions_of_dequantized_bytes(void **state) {
  (void)state;
  static const conv_case cases[] = {
      {"1x1", 1, 1, 1, false, true, true},
      {"1x1, scales of filters", 1, 1, 1, true, true, true},
      {"3x3, zero points of filters", 1, 3, 1, true, false, true},
      {"3x3, one zero point, stride 2", 1, 3, 2, false, false, true},
      {"two groups", 2, 3, 1, true, true, true},
      {"groups of few filters", 6, 3, 1, true, true, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_conv(&cases[i]);
}

/* ---- Products -------------------------------------------------------------------------------- */

enum { M = 5, K = 37, N = 20 };

typedef struct product_case {
  const char *what, *type;
  bool transposed, each, symmetric;
  int64_t axis;
} product_case;

static void check_product(const product_case *c) {
  static double w[K * N], w_zero[N];
  static float x[M * K], y[M * N];
  float w_scale[N];
  for (int i = 0; i < N; i++) w_scale[i] = c->each ? 0.01f + 0.001f * (float)i : 0.02f;
  proto graph = {0}, product = node(c->type, "data,matrix", "y");
  put_text(&graph, 2, "product");
  put_typed(&graph, GRAPH_INPUT, "x", "5,37");
  put_values(&graph, GRAPH_OUTPUT, "y");
  add_data(&graph);
  const int64_t sizes[] = {K, N}, swapped[] = {N, K}, each[] = {N};
  add_bytes(&graph, "w", I8, 2, c->transposed ? swapped : sizes, -127, 127, w);
  add_bytes(&graph, "w_zero", I8, c->each, each, c->symmetric ? 0 : -9, c->symmetric ? 0 : 9,
            w_zero);
  add_floats(&graph, "w_scale", c->each, each, w_scale);
  proto matrix = node("DequantizeLinear", "w,w_scale,w_zero", "matrix");
  put_integer_attribute(&matrix, "axis", c->axis);
  put_message(&graph, GRAPH_NODE, matrix);
  if (c->transposed) put_integer_attribute(&product, "transB", 1);
  put_message(&graph, GRAPH_NODE, product);
  random_data(x, M * K);
  proto message = model_message(graph);
  if (!run(&message, COMPUTE_SHAPE(M, K), x, COMPUTE_SHAPE(M, N), y))
    fail_msg("%s: not an integer product", c->what);
  for (int m = 0; m < M; m++)
    for (int n = 0; n < N; n++) {
      double sum = 0, size = 0;
      for (int k = 0; k < K; k++) {
        const double term = quantized(x[m * K + k]) *
                            (w[c->transposed ? n * K + k : k * N + n] - w_zero[c->each ? n : 0]) *
                            (double)w_scale[c->each ? n : 0];
        sum += term;
        size += fabs(term);
      }
      if (!(fabs(y[m * N + n] - sum) <= 1e-6 * size))
        fail_msg("%s: %g instead of %g", c->what, y[m * N + n], sum);
    }
}

static void products_of_dequantized_bytes(void **state) {
  (void)state;
  static const product_case cases[] = {
      {"MatMul", "MatMul", false, false, true, 1},
      {"MatMul, scales of columns", "MatMul", false, true, false, 1},
      {"MatMul, axis from the end", "MatMul", false, true, true, -1},
      {"Gemm", "Gemm", false, true, false, 1},
      {"Gemm, transposed", "Gemm", true, true, false, 0},
      {"Gemm, transposed, one zero point", "Gemm", true, false, false, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_product(&cases[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(convolutions_of_dequantized_bytes),
      cmocka_unit_test(products_of_dequantized_bytes),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
