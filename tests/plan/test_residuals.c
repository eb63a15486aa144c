/* SPDX-License-Identifier: MIT */
/* A quantized convolution and the addition of other bytes to its result become one step if the
 * result has no other reader. The bytes stay the same. */
#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"
#include "support/harness/values.h"

enum { SIDE = 9, CHANNELS = 40, RESULTS = 72 };

static compute_tensor *random_tensor(compute_dtype dtype, compute_shape shape, double low,
                                     double high, uint64_t seed) {
  test_values values = test_values_create(dtype, shape);
  test_values_fill(&values, FILL_RANGE, low, high, seed);
  compute_tensor *tensor = test_tensor(test_context, dtype, shape, values.data);
  test_values_release(&values);
  return tensor;
}

typedef struct variant {
  int64_t batch, taps;
  bool adds;           /* or multiplies */
  compute_dtype bytes; /* between the layers */
  bool truncates;      /* numbers are not rounded first */
  double factor;       /* of sums */
} variant;

typedef struct network {
  const variant *variant;
  compute_graph *graph;
  compute_tensor *filter[2];
  compute_node x, between, y;
} network;

static compute_node number(const network *n, double value) {
  return compute_scalar(n->graph, COMPUTE_F32, value);
}

/* (f32(x) − zero) · scale */
static compute_node dequantize(const network *n, compute_node x, double scale, double zero) {
  if (n->variant->bytes == COMPUTE_I8) zero -= 128;
  x = compute_sub(n->graph, compute_cast(n->graph, x, COMPUTE_F32), number(n, zero));
  return compute_mul(n->graph, x, number(n, scale));
}

static compute_node quantize(const network *n, compute_node x, double scale, double zero) {
  const bool is_signed = n->variant->bytes == COMPUTE_I8;
  x = compute_div(n->graph, x, number(n, scale));
  if (!n->variant->truncates) x = compute_round(n->graph, x);
  x = compute_add(n->graph, x, number(n, is_signed ? zero - 128 : zero));
  return compute_cast(n->graph, x, n->variant->bytes);
}

/* A convolution of bytes, `taps` wide, with bytes as results. */
static compute_node convolve(const network *n, compute_node x, int filter, int64_t taps,
                             double zero) {
  const compute_conv2d_options options = {.padding = {taps / 2, taps / 2}};
  const compute_node none = {0}, taken = compute_parameter(n->graph, n->filter[filter]);
  x = compute_conv2d_integer(n->graph, x, taken, none, none, &options);
  x = compute_mul(n->graph, compute_cast(n->graph, x, COMPUTE_F32), number(n, n->variant->factor));
  return quantize(n, x, 0.04, zero);
}

/* A residual block: the sum of the results of the first and the second convolution. */
static network build(const variant *v) {
  const int64_t taps = v->taps;
  network n = {
      .variant = v,
      .graph = compute_graph_create(test_context),
      .filter = {
          random_tensor(COMPUTE_I8, COMPUTE_SHAPE(RESULTS, CHANNELS, 1, 1), -99, 99, 1),
          random_tensor(COMPUTE_I8, COMPUTE_SHAPE(RESULTS, RESULTS, taps, taps), -99, 99, 2)}};
  for (int i = 0; i < 2; i++) compute_tensor_freeze(n.filter[i]);
  n.x = compute_input(n.graph, COMPUTE_U8, COMPUTE_SHAPE(v->batch, CHANNELS, SIDE, SIDE));
  const compute_node first = convolve(&n, n.x, 0, 1, 100);
  n.between = convolve(&n, first, 1, taps, 120);
  const compute_node a = dequantize(&n, n.between, 0.03, 120), b = dequantize(&n, first, 0.05, 100);
  const compute_node sum = v->adds ? compute_add(n.graph, a, b) : compute_mul(n.graph, a, b);
  n.y = convolve(&n, quantize(&n, compute_relu(n.graph, sum), 0.06, 3), 1, taps, 90);
  assert_ok(compute_graph_status(n.graph));
  return n;
}

static void release(network *n) {
  compute_graph_release(n->graph);
  for (int i = 0; i < 2; i++) compute_tensor_release(n->filter[i]);
}

static int64_t count_of(const network *n) {
  int64_t count;
  assert_ok(compute_shape_count(compute_node_shape(n->graph, n->y), &count));
  return count;
}

/* Gets y's elements from a plan that may also have `between` as an output. Returns true if the plan
 * joins the steps. */
static bool run(const network *n, bool whole, unsigned char *elements) {
  const compute_node outputs[2] = {n->y, n->between};
  compute_plan *plan = test_compile(n->graph, outputs, whole ? 2 : 1, 0);
  compute_tensor *result[2],
      *image = random_tensor(COMPUTE_U8, compute_node_shape(n->graph, n->x), 0, 255, 3);
  for (int i = 0; i < 2; i++)
    result[i] = test_tensor(test_context, n->variant->bytes,
                            compute_node_shape(n->graph, outputs[i]), NULL);
  const compute_binding bindings[] = {{n->x, image}, {n->y, result[0]}, {n->between, result[1]}};
  assert_ok(compute_run(plan, bindings, whole ? 3 : 2, NULL));
  assert_ok(compute_tensor_read(result[0], elements, (size_t)count_of(n)));
  char *text;
  assert_ok(compute_explain(plan, &text));
  const bool joined = strstr(text, "f32(min(max(i32(") != NULL;
  compute_text_free(text);
  for (int i = 0; i < 2; i++) compute_tensor_release(result[i]);
  compute_tensor_release(image);
  compute_plan_release(plan);
  return joined;
}

static void check(const variant *v, bool joins) {
  network n = build(v);
  const int64_t count = count_of(&n);
  unsigned char *joined = malloc((size_t)count), *apart = malloc((size_t)count);
  assert_true(joined && apart);
  assert_true(run(&n, false, joined) == joins);
  assert_false(run(&n, true, apart));
  assert_memory_equal(joined, apart, (size_t)count);
  free(joined);
  free(apart);
  release(&n);
}

static void residuals_of_pixels_are_one_step_with_the_same_bytes(void **state) {
  (void)state;
  static const variant variants[] = {
      {1, 1, true, COMPUTE_U8, false, 0.001}, {5, 1, true, COMPUTE_U8, false, 0.001},
      {2, 1, true, COMPUTE_I8, false, 0.001}, {2, 1, true, COMPUTE_U8, true, 0.001},
      {2, 1, true, COMPUTE_I8, true, 0.003},  {1, 1, true, COMPUTE_U8, false, 1e34},
      {1, 1, true, COMPUTE_I8, true, -1e34},
  };
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) check(&variants[i], true);
}

static void residuals_of_other_convolutions_stay_apart(void **state) {
  (void)state;
  check(&(variant){2, 3, true, COMPUTE_U8, false, 0.001}, false);
}

/* A convolution with one tap is a product, whose kernel has no loop for the addition. */
static void products_stay_apart(void **state) {
  (void)state;
  check(&(variant){2, 1, false, COMPUTE_U8, false, 0.001}, false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(residuals_of_pixels_are_one_step_with_the_same_bytes),
      cmocka_unit_test(residuals_of_other_convolutions_stay_apart),
      cmocka_unit_test(products_stay_apart),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
