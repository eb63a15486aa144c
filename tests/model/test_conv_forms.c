/* SPDX-License-Identifier: MIT */
/* The reader records some convolutions in another form, with the same results: a transposed one of
 * stride 1 as a convolution with the flipped filter, and one with a single window as a product. */
#include "compute/compute.h"
#include "model/message_writer.h"
#include "support/harness/values.h"

enum { MOST = 4096 };

typedef struct conv_case {
  int64_t x[4], filter[4], groups, dilation[2], pads[4];
  bool forward;
  int64_t stride;
} conv_case;

static int64_t count_of(const int64_t *size) {
  return size[0] * size[1] * size[2] * size[3];
}

static compute_shape shape_of(const int64_t *size) {
  return COMPUTE_SHAPE(size[0], size[1], size[2], size[3]);
}

static proto make_file(const conv_case *c, const float *filter) {
  proto graph = graph_message("x", "y"), weights = tensor_message("w", 1, 4, c->filter);
  proto node = node_message("conv", c->forward ? "Conv" : "ConvTranspose", "x,w", "y");
  const int64_t strides[] = {c->stride, c->stride};
  put_bytes(&weights, 9, filter, (size_t)count_of(c->filter) * sizeof *filter);
  put_integer_attribute(&node, "group", c->groups);
  put_list_attribute(&node, "dilations", c->dilation, 2);
  put_list_attribute(&node, "pads", c->pads, 4);
  if (c->stride) put_list_attribute(&node, "strides", strides, 2);
  put_message(&graph, GRAPH_INITIALIZER, weights);
  put_message(&graph, GRAPH_NODE, node);
  return model_message(graph);
}

static compute_tensor *run_graph(const conv_case *c, const float *filter, compute_tensor *x) {
  compute_graph *graph = compute_graph_create(test_context);
  const compute_conv2d_options options = {
      .dilation = {c->dilation[0], c->dilation[1]},
      .padding = {c->pads[0], c->pads[1]},
      .padding_more = {c->pads[2] - c->pads[0], c->pads[3] - c->pads[1]},
      .stride = {c->stride, c->stride},
      .groups = c->groups};
  const compute_node in = compute_input(graph, COMPUTE_F32, shape_of(c->x));
  const compute_node w = compute_constant(graph, COMPUTE_F32, shape_of(c->filter), filter);
  const compute_node none = {0};
  const compute_node y = c->forward ? compute_conv2d(graph, in, w, none, &options)
                                    : compute_conv2d_transpose(graph, in, w, none, &options);
  compute_plan *plan = NULL;
  assert_ok(compute_compile(graph, &y, 1, NULL, &plan));
  compute_tensor *out = NULL;
  assert_ok(compute_tensor_create(compute_default_device(test_context), COMPUTE_F32,
                                  compute_node_shape(graph, y), &out));
  assert_ok(compute_run(plan, (compute_binding[]){{in, x}, {y, out}}, 2, NULL));
  compute_plan_release(plan);
  compute_graph_release(graph);
  return out;
}

static void check_case(const conv_case *c) {
  static float values[MOST], filter[MOST], y[2][MOST];
  compute_model *model = NULL;
  compute_tensor *x = NULL;
  test_random random = {17};
  for (int i = 0; i < MOST; i++) {
    values[i] = (float)test_random_integer(&random, -8, 8);
    filter[i] = (float)test_random_integer(&random, -8, 8);
  }
  const proto message = make_file(c, filter);
  assert_ok(compute_model_load_memory(test_context, message.data, message.bytes, NULL, &model));
  assert_ok(compute_tensor_from_host(compute_default_device(test_context), COMPUTE_F32,
                                     shape_of(c->x), values, &x));
  compute_model_binding in = {"x", x}, out = {"y", NULL};
  assert_ok(compute_model_run(model, &in, 1, &out, 1));
  compute_tensor *wanted = run_graph(c, filter, x);
  const int64_t count = compute_tensor_count(wanted);
  assert_true(count > 0 && count <= MOST);
  assert_int_equal(compute_tensor_count(out.tensor), count);
  assert_ok(compute_tensor_read(out.tensor, y[0], (size_t)count * sizeof **y));
  assert_ok(compute_tensor_read(wanted, y[1], (size_t)count * sizeof **y));
  for (int64_t i = 0; i < count; i++)
    if (y[0][i] != y[1][i])
      fail_msg("element %d is %g, expected %g", (int)i, (double)y[0][i], (double)y[1][i]);
  compute_tensor_release(wanted);
  compute_tensor_release(out.tensor);
  compute_tensor_release(x);
  compute_model_release(model);
  free(message.data);
}

/* Integers: sums of any order are equal. */
static void flipped_filters_give_the_transposed_convolution(void **state) {
  (void)state;
  static const conv_case cases[] = {
      {{1, 3, 5, 6}, {3, 4, 3, 3}, 1, {1, 1}, {0, 0, 0, 0}, false, 1},
      {{2, 4, 5, 6}, {4, 3, 3, 2}, 2, {1, 1}, {1, 0, 2, 1}, false, 1},
      {{1, 6, 4, 7}, {6, 1, 2, 5}, 3, {2, 1}, {0, 2, 1, 4}, false, 1},
      {{1, 4, 6, 6}, {4, 1, 3, 3}, 4, {1, 1}, {1, 1, 1, 1}, false, 1},
      {{1, 3, 4, 4}, {3, 2, 1, 1}, 1, {1, 1}, {0, 0, 0, 0}, false, 1},
      {{1, 2, 5, 5}, {2, 2, 2, 2}, 1, {1, 1}, {3, 2, 0, 0}, false, 1},
      {{1, 8, 3, 3}, {8, 5, 4, 4}, 1, {1, 2}, {3, 6, 1, 0}, false, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i]);
}

/* Filters inside the data, around it, beside it, and with positions that only see padding. */
static void one_window_gives_the_convolution(void **state) {
  (void)state;
  static const conv_case cases[] = {{{1, 5, 4, 3}, {6, 5, 4, 3}, 1, {1, 1}, {0, 0, 0, 0}, true, 1},
                                    {{3, 5, 2, 2}, {3, 5, 5, 5}, 1, {1, 1}, {2, 2, 2, 2}, true, 2},
                                    {{2, 4, 7, 7}, {3, 4, 3, 3}, 1, {2, 3}, {0, 0, 0, 0}, true, 4},
                                    {{1, 4, 3, 4}, {3, 4, 3, 4}, 1, {3, 2}, {3, 1, 2, 2}, true, 3},
                                    {{1, 4, 3, 3}, {3, 4, 2, 2}, 1, {1, 1}, {4, 0, 0, 0}, true, 9},
                                    {{1, 4, 2, 2}, {4, 2, 3, 3}, 2, {1, 1}, {1, 1, 0, 0}, true, 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i]);
}

/* As in every other convolution: one value for each filter. */
static void a_bias_of_another_shape_is_refused(void **state) {
  (void)state;
  static const float ones[2 * 3 * 3 * 3] = {1};
  static const int64_t shapes[][2] = {{1, 1}, {2, 1}, {2, 2}};
  for (int i = 0; i < 3; i++) {
    compute_model *model = NULL;
    compute_tensor *x = NULL;
    proto graph = graph_message("x", "y");
    proto weights = tensor_message("w", 1, 4, (int64_t[]){2, 3, 3, 3});
    proto bias = tensor_message("b", 1, i == 0 ? 1 : 2, shapes[i]);
    put_bytes(&weights, 9, ones, sizeof ones);
    put_bytes(&bias, 9, ones, (size_t)(shapes[i][0] * shapes[i][1]) * sizeof *ones);
    put_message(&graph, GRAPH_INITIALIZER, weights);
    put_message(&graph, GRAPH_INITIALIZER, bias);
    put_message(&graph, GRAPH_NODE, node_message("conv", "Conv", "x,w,b", "y"));
    const proto message = model_message(graph);
    assert_ok(compute_model_load_memory(test_context, message.data, message.bytes, NULL, &model));
    assert_ok(compute_tensor_from_host(compute_default_device(test_context), COMPUTE_F32,
                                       COMPUTE_SHAPE(2, 3, 3, 3), ones, &x));
    compute_model_binding in = {"x", x}, out = {"y", NULL};
    assert_fails(compute_model_run(model, &in, 1, &out, 1), COMPUTE_ERROR_SHAPE);
    compute_tensor_release(x);
    compute_model_release(model);
    free(message.data);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(flipped_filters_give_the_transposed_convolution),
      cmocka_unit_test(one_window_gives_the_convolution),
      cmocka_unit_test(a_bias_of_another_shape_is_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
