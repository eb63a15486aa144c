/* SPDX-License-Identifier: MIT */
/* A batch normalization after a convolution becomes a part of its filters: the convolution is the
 * plan's only step. Results match double precision. Where others read the convolution, or the
 * filters are not known, the normalization stays. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/message_writer.h"
#include "support/harness/values.h"

enum { IMAGES = 2, CHANNELS = 6, SIZE = 7, FILTERS = 18, TAPS = 3, MOST = 2 * 18 * 7 * 7 };

typedef struct conv_case {
  const char *what;
  int axes; /* spatial axes, 1 or 2 */
  int64_t groups;
  bool bias;
  enum { PLAIN, READ_TWICE, AN_OUTPUT, COMPUTED_FILTER } form;
} conv_case;

typedef struct numbers {
  float x[IMAGES * CHANNELS * SIZE * SIZE], w[FILTERS * CHANNELS * TAPS * TAPS];
  float bias[FILTERS], gain[FILTERS], shift[FILTERS], mean[FILTERS], variance[FILTERS];
} numbers;

static void fill(float *to, size_t count, uint64_t seed, double low, double high) {
  test_random random = {seed};
  for (size_t i = 0; i < count; i++) to[i] = (float)test_random_uniform(&random, low, high);
}

static void fill_numbers(numbers *n) {
  fill(n->x, sizeof n->x / sizeof(float), 1, -1, 1);
  fill(n->w, sizeof n->w / sizeof(float), 2, -1, 1);
  fill(n->bias, FILTERS, 3, -1, 1);
  fill(n->gain, FILTERS, 4, -2, 2);
  fill(n->shift, FILTERS, 5, -1, 1);
  fill(n->mean, FILTERS, 6, -1, 1);
  fill(n->variance, FILTERS, 7, 0.1, 3);
}

static int64_t line(const conv_case *c) {
  return c->axes == 2 ? SIZE : 1;
}

static int64_t tap_rows(const conv_case *c) {
  return c->axes == 2 ? TAPS : 1;
}

/* The sum of one place, with padding 1 along the spatial axes. */
static double convolve(const conv_case *c, const numbers *n, int64_t image, int64_t filter,
                       int64_t row, int64_t column) {
  const int64_t channels = CHANNELS / c->groups, group = filter / (FILTERS / c->groups);
  const int64_t rows = tap_rows(c);
  double sum = c->bias ? (double)n->bias[filter] : 0;
  for (int64_t k = 0; k < channels; k++)
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < TAPS; j++) {
        const int64_t at = rows == 1 ? 0 : row + i - 1, to = column + j - 1;
        if (at < 0 || at >= line(c) || to < 0 || to >= SIZE) continue;
        sum +=
            (double)n->x[((image * CHANNELS + group * channels + k) * line(c) + at) * SIZE + to] *
            (double)n->w[((filter * channels + k) * rows + i) * TAPS + j];
      }
  return sum;
}

static void add_initializer(proto *graph, const char *name, int rank, const int64_t *sizes,
                            const float *values) {
  size_t count = 1;
  for (int i = 0; i < rank; i++) count *= (size_t)sizes[i];
  proto tensor = tensor_message(name, 1, rank, sizes);
  put_bytes(&tensor, 9, values, count * sizeof *values);
  put_message(graph, GRAPH_INITIALIZER, tensor);
}

static proto make_graph(const conv_case *c, const numbers *n) {
  proto graph = graph_message(c->form == COMPUTED_FILTER ? "x,factor" : "x",
                              c->form == AN_OUTPUT ? "y,sum" : "y");
  const int64_t w[] = {FILTERS, CHANNELS / c->groups, TAPS, TAPS};
  const int64_t filters = FILTERS, pads[] = {1, 1, 1, 1};
  add_initializer(&graph, "w", c->axes + 2, w, n->w);
  add_initializer(&graph, "bias", 1, &filters, n->bias);
  add_initializer(&graph, "gain", 1, &filters, n->gain);
  add_initializer(&graph, "shift", 1, &filters, n->shift);
  add_initializer(&graph, "mean", 1, &filters, n->mean);
  add_initializer(&graph, "variance", 1, &filters, n->variance);
  const bool computed = c->form == COMPUTED_FILTER;
  if (computed) put_message(&graph, GRAPH_NODE, node_message("product", "Mul", "w,factor", "w2"));
  proto conv = node_message("conv", "Conv",
                            computed  ? (c->bias ? "x,w2,bias" : "x,w2")
                            : c->bias ? "x,w,bias"
                                      : "x,w",
                            "sum");
  put_integer_attribute(&conv, "group", c->groups);
  put_list_attribute(&conv, "pads", pads, 2 * c->axes);
  put_message(&graph, GRAPH_NODE, conv);
  put_message(&graph, GRAPH_NODE,
              node_message("norm", "BatchNormalization", "sum,gain,shift,mean,variance",
                           c->form == READ_TWICE ? "normal" : "y"));
  if (c->form == READ_TWICE) put_node(&graph, "Add", "normal,sum", "y");
  return graph;
}

/* Runs the model, and returns the number of parameters that its plan reads. */
static size_t run(const conv_case *c, const numbers *n, float *y) {
  const proto message = model_message(make_graph(c, n));
  compute_model *model = NULL;
  assert_ok(compute_model_load_memory(test_context, message.data, message.bytes, NULL, &model));
  const compute_shape shape = c->axes == 2 ? COMPUTE_SHAPE(IMAGES, CHANNELS, SIZE, SIZE)
                                           : COMPUTE_SHAPE(IMAGES, CHANNELS, SIZE);
  compute_tensor *x = test_tensor(test_context, COMPUTE_F32, shape, n->x);
  compute_tensor *one = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(1), &(const float){1});
  const compute_model_binding in[] = {{"x", x}, {"factor", one}};
  compute_model_binding out = {"y", NULL};
  assert_ok(compute_model_run(model, in, c->form == COMPUTED_FILTER ? 2 : 1, &out, 1));
  assert_ok(
      compute_tensor_read(out.tensor, y, (size_t)(IMAGES * FILTERS * line(c) * SIZE) * sizeof *y));
  char *text = NULL;
  size_t parameters = 0;
  assert_ok(compute_model_explain(model, &text));
  for (const char *at = strstr(text, "\nparameter "); at; at = strstr(at + 1, "\nparameter "))
    parameters++;
  compute_text_free(text);
  compute_tensor_release(out.tensor);
  compute_tensor_release(one);
  compute_tensor_release(x);
  compute_model_release(model);
  free(message.data);
  return parameters;
}

static void check(const conv_case *c) {
  static numbers n;
  static float y[MOST];
  fill_numbers(&n);
  const size_t parameters = run(c, &n, y); /* filters and bias, or also scale and shift */
  if (c->form == PLAIN ? parameters != 2 : parameters < 3)
    fail_msg("%s: the plan reads %zu parameters", c->what, parameters);
  for (int64_t i = 0; i < IMAGES * FILTERS * line(c) * SIZE; i++) {
    const int64_t column = i % SIZE, row = i / SIZE % line(c),
                  filter = i / SIZE / line(c) % FILTERS;
    const double sum = convolve(c, &n, i / SIZE / line(c) / FILTERS, filter, row, column);
    double expected = (sum - (double)n.mean[filter]) *
                          ((double)n.gain[filter] / sqrt((double)n.variance[filter] + 1e-5)) +
                      (double)n.shift[filter];
    if (c->form == READ_TWICE) expected += sum;
    if (fabs((double)y[i] - expected) > 2e-5 * (1 + fabs(expected)))
      fail_msg("%s: element %d is %g instead of %g", c->what, (int)i, (double)y[i], expected);
  }
}

static void results_are_those_of_both_operations(void **state) {
  (void)state;
  static const conv_case cases[] = {
      {"plain", 2, 1, false, PLAIN},        {"bias", 2, 1, true, PLAIN},
      {"groups", 2, 3, true, PLAIN},        {"depthwise", 2, CHANNELS, false, PLAIN},
      {"one axis", 1, 2, true, PLAIN},      {"read twice", 2, 1, true, READ_TWICE},
      {"an output", 2, 1, true, AN_OUTPUT}, {"computed filters", 2, 1, true, COMPUTED_FILTER}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(&cases[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(results_are_those_of_both_operations),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
