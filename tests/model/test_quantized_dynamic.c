/* SPDX-License-Identifier: MIT */
/* Operators whose inputs are quantized when they run: ConvInteger with the zero point of
 * DynamicQuantizeLinear, and DynamicQuantizeLSTM. They multiply bytes, and their results are those
 * of the definitions. */
#include <math.h>
#include <stdlib.h>

#include "model/message_writer.h"
#include "support/harness/values.h"

enum { F32 = 1, U8 = 2, I8 = 3, I32 = 6 };

static void add_tensor(proto *graph, const char *name, int32_t type, int rank, const int64_t *sizes,
                       const void *data) {
  size_t count = 1;
  for (int i = 0; i < rank; i++) count *= (size_t)sizes[i];
  proto tensor = tensor_message(name, type, rank, sizes);
  put_bytes(&tensor, 9, data, count * (type == F32 || type == I32 ? 4 : 1));
  put_message(graph, GRAPH_INITIALIZER, tensor);
}

/* Random bytes as an initializer; `values` receives them. */
static void add_bytes(proto *graph, const char *name, int32_t type, int rank, const int64_t *sizes,
                      int32_t *values) {
  test_random random = {(uint64_t)name[0] + (uint64_t)type};
  unsigned char bytes[4096];
  size_t count = 1;
  for (int i = 0; i < rank; i++) count *= (size_t)sizes[i];
  assert_true(count <= sizeof bytes);
  for (size_t i = 0; i < count; i++) {
    values[i] =
        (int32_t)test_random_integer(&random, type == U8 ? 0 : -128, type == U8 ? 255 : 127);
    bytes[i] = (unsigned char)values[i];
  }
  add_tensor(graph, name, type, rank, sizes, bytes);
}

/* As DynamicQuantizeLinear. Returns the scale. */
static float quantize(const float *x, int64_t count, int32_t *q, int32_t *zero) {
  float least = 0, most = 0;
  for (int64_t i = 0; i < count; i++) {
    least = fminf(least, x[i]);
    most = fmaxf(most, x[i]);
  }
  const float scale = most == least ? 1 : (most - least) / 255;
  *zero = (int32_t)nearbyintf(fminf(-least / scale, 255));
  for (int64_t i = 0; i < count; i++)
    q[i] = (int32_t)fminf(fmaxf(nearbyintf(x[i] / scale) + (float)*zero, 0), 255);
  return scale;
}

/* Runs a model with the input "x" and the output "y", and checks its plan. */
static void run(proto graph, compute_shape x_shape, const float *x, float *y, int64_t count,
                const char *plan) {
  proto model = {0};
  compute_model *loaded = NULL;
  put_integer(&model, 1, 10);
  put_message(&model, MODEL_GRAPH, graph);
  put_message(&model, 8, opset_message("", 20));
  put_message(&model, 8, opset_message("com.microsoft", 1));
  assert_ok(compute_model_load_memory(test_context, model.data, model.bytes, NULL, &loaded));
  compute_tensor *from = test_tensor(test_context, COMPUTE_F32, x_shape, x);
  compute_model_binding in = {"x", from}, out = {"y", NULL};
  assert_ok(compute_model_run(loaded, &in, 1, &out, 1));
  assert_int_equal(compute_tensor_count(out.tensor), count);
  assert_ok(compute_tensor_read(out.tensor, y, (size_t)count * sizeof *y));
  char *text = NULL;
  assert_ok(compute_model_explain(loaded, &text));
  if (!strstr(text, plan)) fail_msg("no \"%s\" in %s", plan, text);
  compute_text_free(text);
  compute_tensor_release(from);
  compute_tensor_release(out.tensor);
  compute_model_release(loaded);
  free(model.data);
}

/* ---- ConvInteger ----------------------------------------------------------------------------- */

enum { IMAGES = 2, CHANNELS = 16, ROWS = 9, COLUMNS = 7, SIZE = 3, MOST = 4096 };

typedef struct conv_case {
  int64_t filters, groups, stride, dilation, pad;
  int32_t type;
} conv_case;

static void check_conv(const conv_case *c) {
  const int64_t channels = CHANNELS / c->groups, reach = c->dilation * (SIZE - 1) + 1;
  const int64_t rows = (ROWS + 2 * c->pad - reach) / c->stride + 1;
  const int64_t columns = (COLUMNS + 2 * c->pad - reach) / c->stride + 1;
  static float x[IMAGES * CHANNELS * ROWS * COLUMNS], y[MOST];
  static int32_t q[IMAGES * CHANNELS * ROWS * COLUMNS], w[MOST], w_zero[1];
  int32_t zero;
  test_random random = {7};
  for (size_t i = 0; i < sizeof x / sizeof *x; i++)
    x[i] = (float)test_random_uniform(&random, -3, 5);
  quantize(x, (int64_t)(sizeof x / sizeof *x), q, &zero);
  proto graph = {0};
  put_text(&graph, 2, "main");
  put_typed(&graph, GRAPH_INPUT, "x", "2,16,9,7");
  put_values(&graph, GRAPH_OUTPUT, "y");
  add_bytes(&graph, "w", c->type, 4, (int64_t[]){c->filters, channels, SIZE, SIZE}, w);
  add_bytes(&graph, "v", c->type, 0, NULL, w_zero);
  put_message(&graph, GRAPH_NODE, node_message("a", "DynamicQuantizeLinear", "x", "q,s,z"));
  proto conv = node_message("b", "ConvInteger", "q,w,z,v", "i");
  put_list_attribute(&conv, "pads", (int64_t[]){c->pad, c->pad, c->pad, c->pad}, 4);
  put_list_attribute(&conv, "strides", (int64_t[]){c->stride, c->stride}, 2);
  put_list_attribute(&conv, "dilations", (int64_t[]){c->dilation, c->dilation}, 2);
  put_integer_attribute(&conv, "group", c->groups);
  put_message(&graph, GRAPH_NODE, conv);
  proto cast = node_message("c", "Cast", "i", "y");
  put_integer_attribute(&cast, "to", F32);
  put_message(&graph, GRAPH_NODE, cast);
  run(graph, COMPUTE_SHAPE(IMAGES, CHANNELS, ROWS, COLUMNS), x, y,
      IMAGES * c->filters * rows * columns, "then f32(");
  const float *at = y;
  for (int64_t n = 0; n < IMAGES; n++)
    for (int64_t f = 0; f < c->filters; f++)
      for (int64_t p = 0; p < rows; p++)
        for (int64_t o = 0; o < columns; o++, at++) {
          const int64_t first = f / (c->filters / c->groups) * channels;
          int64_t sum = 0;
          for (int64_t k = 0; k < channels * SIZE * SIZE; k++) {
            const int64_t row = p * c->stride - c->pad + k / SIZE % SIZE * c->dilation;
            const int64_t column = o * c->stride - c->pad + k % SIZE * c->dilation;
            if (row < 0 || row >= ROWS || column < 0 || column >= COLUMNS) continue;
            const int64_t channel = n * CHANNELS + first + k / (SIZE * SIZE);
            sum += (int64_t)(q[(channel * ROWS + row) * COLUMNS + column] - zero) *
                   (w[f * channels * SIZE * SIZE + k] - w_zero[0]);
          }
          if (*at != (float)sum)
            fail_msg("%lld groups, dilation %lld: %g instead of %lld", (long long)c->groups,
                     (long long)c->dilation, (double)*at, (long long)sum);
        }
}

static void zero_points_of_a_run_are_padding(void **state) {
  (void)state;
  static const conv_case cases[] = {{20, 1, 1, 1, 1, I8},  {20, 1, 1, 1, 1, U8},
                                    {8, 1, 2, 1, 0, I8},   {16, 16, 1, 2, 2, I8},
                                    {16, 16, 1, 1, 1, U8}, {16, 2, 1, 2, 1, I8}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_conv(&cases[i]);
}

/* ---- DynamicQuantizeLSTM --------------------------------------------------------------------- */

enum { STEPS = 4, BATCH = 2, INPUTS = 11, HIDDEN = 10, GATES = 4, WIDE = GATES * HIDDEN };

/* Weights of two directions: [2, rows, WIDE] with scales and zero points for each column or
 * direction. */
typedef struct weights {
  int32_t values[2 * INPUTS * WIDE], zero[2 * WIDE];
  float scale[2 * WIDE];
  int64_t rows, each;
} weights;

static void add_weights(proto *graph, const char names[3][2], int32_t type, bool columns,
                        weights *w) {
  test_random random = {(uint64_t)names[0][0]};
  const int64_t sizes[2] = {2, WIDE};
  w->each = columns ? WIDE : 1;
  for (int64_t i = 0; i < 2 * w->each; i++)
    w->scale[i] = (float)test_random_uniform(&random, 0.002, 0.01);
  add_bytes(graph, names[0], type, 3, (int64_t[]){2, w->rows, WIDE}, w->values);
  add_tensor(graph, names[1], F32, columns ? 2 : 1, sizes, w->scale);
  add_bytes(graph, names[2], type, columns ? 2 : 1, sizes, w->zero);
}

/* Scale times the exact sum of q − zero and column `column` of direction d. */
static double product(const weights *w, int64_t d, int64_t column, const int32_t *q, int32_t zero,
                      float scale) {
  const int64_t own = d * w->each + (w->each > 1 ? column : 0);
  int64_t sum = 0;
  for (int64_t k = 0; k < w->rows; k++)
    sum += (int64_t)(q[k] - zero) * (w->values[(d * w->rows + k) * WIDE + column] - w->zero[own]);
  return (double)sum * (double)scale * (double)w->scale[own];
}

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

/* Each step takes the states that were read from y, so one other rounding excuses no other. */
static void check_sequence(const weights *w, const weights *r, const float *bias, const int32_t *q,
                           int32_t zero, float scale, const float *y, int64_t d, int64_t row) {
  double c[HIDDEN] = {0};
  float h[HIDDEN] = {0};
  for (int64_t i = 0; i < STEPS; i++) {
    const int64_t t = d ? STEPS - 1 - i : i;
    const float *out = y + ((t * 2 + d) * BATCH + row) * HIDDEN;
    int32_t state[HIDDEN], state_zero;
    const float state_scale = quantize(h, HIDDEN, state, &state_zero);
    for (int64_t j = 0; j < HIDDEN; j++) {
      double sum[GATES];
      for (int64_t g = 0; g < GATES; g++) {
        const int64_t column = g * HIDDEN + j, at = d * 2 * WIDE + column;
        sum[g] = product(w, d, column, q + (t * BATCH + row) * INPUTS, zero, scale) +
                 product(r, d, column, state, state_zero, state_scale) + (double)bias[at] +
                 (double)bias[at + WIDE];
      }
      c[j] = sigmoid(sum[2]) * c[j] + sigmoid(sum[0]) * tanh(sum[3]);
      const double expected = sigmoid(sum[1]) * tanh(c[j]);
      if (!(fabs((double)out[j] - expected) <= 4e-6))
        fail_msg("direction %lld, step %lld: %.9g instead of %.9g", (long long)d, (long long)t,
                 (double)out[j], expected);
    }
    memcpy(h, out, sizeof h);
  }
}

static void check_lstm(int32_t type, bool columns) {
  static weights w, r;
  static float x[STEPS * BATCH * INPUTS], y[STEPS * 2 * BATCH * HIDDEN], bias[2 * 2 * WIDE];
  static int32_t q[STEPS * BATCH * INPUTS];
  int32_t zero;
  test_random random = {11};
  for (size_t i = 0; i < sizeof x / sizeof *x; i++)
    x[i] = (float)test_random_uniform(&random, -1, 1);
  for (size_t i = 0; i < sizeof bias / sizeof *bias; i++)
    bias[i] = (float)test_random_uniform(&random, -1, 1);
  const float scale = quantize(x, (int64_t)(sizeof x / sizeof *x), q, &zero);
  proto graph = {0};
  put_text(&graph, 2, "main");
  put_typed(&graph, GRAPH_INPUT, "x", "4,2,11");
  put_values(&graph, GRAPH_OUTPUT, "y");
  w.rows = INPUTS;
  r.rows = HIDDEN;
  add_weights(&graph, (const char[3][2]){"w", "s", "z"}, type, columns, &w);
  add_weights(&graph, (const char[3][2]){"r", "t", "u"}, type, columns, &r);
  add_tensor(&graph, "b", F32, 2, (int64_t[]){2, 2 * WIDE}, bias);
  proto direction = {0};
  put_text(&direction, 1, "direction");
  put_text(&direction, 4, "bidirectional");
  put_integer(&direction, 20, 3);
  proto node = node_message("n", "DynamicQuantizeLSTM", "x,w,r,b,,,,,s,z,t,u", "y");
  put_text(&node, 7, "com.microsoft");
  put_integer_attribute(&node, "hidden_size", HIDDEN);
  put_message(&node, NODE_ATTRIBUTE, direction);
  put_message(&graph, GRAPH_NODE, node);
  run(graph, COMPUTE_SHAPE(STEPS, BATCH, INPUTS), x, y, (int64_t)(sizeof y / sizeof *y),
      "recurrent");
  for (int64_t d = 0; d < 2; d++)
    for (int64_t row = 0; row < BATCH; row++)
      check_sequence(&w, &r, bias, q, zero, scale, y, d, row);
}

static void states_are_rounded_to_bytes(void **state) {
  (void)state;
  for (int columns = 0; columns < 2; columns++) {
    check_lstm(I8, columns);
    check_lstm(U8, columns);
  }
}

/* A layer in one direction over sequences of 2 and 4 steps; `padding` fills the others. */
static void run_lengths(float padding, float *y) {
  enum { COUNT = STEPS * BATCH * INPUTS };
  static weights w, r;
  float x[COUNT], bias[2 * 2 * WIDE] = {0};
  test_random random = {12};
  for (size_t i = 0; i < COUNT; i++) x[i] = (float)test_random_uniform(&random, -1, 1);
  for (size_t i = 2 * BATCH * INPUTS; i < COUNT; i++)
    if (i / INPUTS % BATCH == 0) x[i] = padding;
  proto graph = {0};
  put_text(&graph, 2, "main");
  put_typed(&graph, GRAPH_INPUT, "x", "4,2,11");
  put_values(&graph, GRAPH_OUTPUT, "y");
  w.rows = INPUTS;
  r.rows = HIDDEN;
  add_weights(&graph, (const char[3][2]){"w", "s", "z"}, I8, true, &w);
  add_weights(&graph, (const char[3][2]){"r", "t", "u"}, I8, true, &r);
  add_tensor(&graph, "b", F32, 2, (int64_t[]){2, 2 * WIDE}, bias);
  add_tensor(&graph, "n", I32, 1, (int64_t[]){BATCH}, (int32_t[]){2, 4});
  proto direction = {0};
  put_text(&direction, 1, "direction");
  put_text(&direction, 4, "bidirectional");
  put_integer(&direction, 20, 3);
  proto node = node_message("n", "DynamicQuantizeLSTM", "x,w,r,b,n,,,,s,z,t,u", "y");
  put_text(&node, 7, "com.microsoft");
  put_integer_attribute(&node, "hidden_size", HIDDEN);
  put_message(&node, NODE_ATTRIBUTE, direction);
  put_message(&graph, GRAPH_NODE, node);
  run(graph, COMPUTE_SHAPE(STEPS, BATCH, INPUTS), x, y, STEPS * 2 * BATCH * HIDDEN, "recurrent");
}

static void padding_changes_no_result(void **state) {
  static float expected[STEPS * 2 * BATCH * HIDDEN], y[STEPS * 2 * BATCH * HIDDEN];
  static const float paddings[] = {1, 1e6f, NAN};
  (void)state;
  run_lengths(0, expected);
  for (size_t i = 0; i < sizeof paddings / sizeof *paddings; i++) {
    run_lengths(paddings[i], y);
    assert_memory_equal(y, expected, sizeof y);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(zero_points_of_a_run_are_padding),
      cmocka_unit_test(states_are_rounded_to_bytes),
      cmocka_unit_test(padding_changes_no_result),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
