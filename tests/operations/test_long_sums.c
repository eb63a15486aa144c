/* SPDX-License-Identifier: MIT */
/* Long sums of products in f32. A single running sum would lose the last terms: 6e-4 of 100,000
 * equal terms. The shape selects the method of a product, a convolution or its gradients. Each
 * method is compared with the same operation in f64, with equal terms, the worst case of a running
 * sum, and with uniform ones. */
#include <math.h>
#include <stdlib.h>

#include "support/harness/operation.h"
#include "support/harness/test.h"
#include "support/harness/values.h"

enum { MOST_OPERANDS = 3 };

typedef compute_node (*builder)(compute_graph *graph, const compute_node *x);

typedef struct sum_case {
  const char *way;
  builder build;
  compute_shape shape[MOST_OPERANDS]; /* rank 0 ends the list */
  compute_dtype dtype[MOST_OPERANDS]; /* NONE: f32 */
  bool constant;                      /* all operands except the first */
} sum_case;

/* ---- Operations ------------------------------------------------------------------------------ */

static compute_node product(compute_graph *graph, const compute_node *x) {
  return compute_matmul(graph, x[0], x[1]);
}

static compute_node turned(compute_graph *graph, const compute_node *x) {
  return compute_matmul(graph, x[0], compute_transpose(graph, x[1], COMPUTE_AXES(1, 0)));
}

/* The gradient of the weights for a large batch. */
static compute_node batch_gradient(compute_graph *graph, const compute_node *x) {
  return compute_matmul(graph, compute_transpose(graph, x[0], COMPUTE_AXES(1, 0)), x[1]);
}

static compute_node wide_product(compute_graph *graph, const compute_node *x) {
  const compute_dtype wide =
      compute_node_dtype(graph, x[0]) == COMPUTE_F64 ? COMPUTE_F64 : COMPUTE_F32;
  return compute_matmul(graph, compute_cast(graph, x[0], wide), compute_cast(graph, x[1], wide));
}

static compute_node convolution(compute_graph *graph, const compute_node *x) {
  return compute_conv2d(graph, x[0], x[1], (compute_node){0}, NULL);
}

/* Gradients of sum(y · g) by the filter and by the data. */
static compute_node convolution_gradient(compute_graph *graph, const compute_node *x, size_t of) {
  compute_node gradient = {0};
  const compute_node y = convolution(graph, x);
  const compute_node loss =
      compute_sum(graph, compute_mul(graph, y, x[2]), COMPUTE_ALL_AXES, false);
  compute_gradients(graph, loss, &x[of], 1, &gradient);
  return gradient;
}

static compute_node by_filter(compute_graph *graph, const compute_node *x) {
  return convolution_gradient(graph, x, 1);
}

static compute_node by_data(compute_graph *graph, const compute_node *x) {
  return convolution_gradient(graph, x, 0);
}

static compute_node few_bits(compute_graph *graph, const compute_node *x) {
  const compute_quantized_options options = {.bits = 4, .block = 32};
  return compute_quantized_matmul(graph, x[0], x[1], x[2], (compute_node){0}, &options);
}

static compute_node few_bits_by_columns(compute_graph *graph, const compute_node *x) {
  const compute_quantized_options options = {.bits = 8, .block = 20};
  return compute_quantized_matmul(graph, x[0], x[1], x[2], (compute_node){0}, &options);
}

/* ---- Comparison ------------------------------------------------------------------------------ */

static size_t count_operands(const sum_case *c) {
  size_t count = 0;
  while (count < MOST_OPERANDS && c->shape[count].rank > 0) count++;
  return count;
}

static double rounding_of(compute_dtype dtype) {
  return dtype == COMPUTE_F16 ? 0x1p-11 : dtype == COMPUTE_BF16 ? 0x1p-8 : 0;
}

/* The result as f64, from operands of their original dtypes or of f64. */
static double *compute(compute_context *context, const sum_case *c, bool equal, bool wide,
                       size_t *count) {
  compute_graph *graph = compute_graph_create(context);
  compute_device *device = compute_default_device(context);
  compute_node x[MOST_OPERANDS];
  compute_binding bindings[MOST_OPERANDS + 1];
  size_t bound = 0;
  const size_t operands = count_operands(c);
  compute_tensor *made[MOST_OPERANDS];
  for (size_t i = 0; i < operands; i++) {
    const compute_dtype own = c->dtype[i] ? c->dtype[i] : COMPUTE_F32;
    const compute_dtype dtype = wide && own != COMPUTE_U8 ? COMPUTE_F64 : own;
    test_values values = test_values_create(own, c->shape[i]);
    const double low = own == COMPUTE_U8 ? 0xa3 : equal ? 0.37 + 0.11 * (double)i : 0.01;
    test_values_fill(&values, FILL_RANGE, low, equal || own == COMPUTE_U8 ? low : 1, 17 + i);
    compute_tensor *host;
    assert_ok(compute_tensor_from_host(device, own, c->shape[i], values.data, &host));
    assert_ok(compute_tensor_create(device, dtype, c->shape[i], &made[i]));
    assert_ok(compute_tensor_copy(made[i], host));
    compute_tensor_release(host);
    test_values_release(&values);
    if (c->constant && i > 0) {
      x[i] = compute_parameter(graph, made[i]);
    } else {
      x[i] = compute_input(graph, dtype, c->shape[i]);
      bindings[bound++] = (compute_binding){x[i], made[i]};
    }
  }
  compute_node y = c->build(graph, x);
  assert_ok(compute_graph_status(graph));
  y = compute_cast(graph, y, COMPUTE_F64);
  const compute_shape shape = compute_node_shape(graph, y);
  compute_tensor *result;
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  *count = 1;
  for (int32_t i = 0; i < shape.rank; i++) *count *= (size_t)shape.size[i];
  assert_ok(compute_tensor_create(device, COMPUTE_F64, shape, &result));
  bindings[bound++] = (compute_binding){y, result};
  assert_ok(compute_run(plan, bindings, bound, NULL));
  double *values = malloc(*count * sizeof *values);
  assert_non_null(values);
  assert_ok(compute_tensor_read(result, values, *count * sizeof *values));
  compute_plan_release(plan);
  compute_graph_release(graph);
  compute_tensor_release(result);
  for (size_t i = 0; i < operands; i++) compute_tensor_release(made[i]);
  return values;
}

static int check(compute_context *exact, const sum_case *c, bool equal, double limit) {
  size_t count, same;
  double *actual = compute(test_context, c, equal, false, &count);
  double *expected = compute(exact, c, equal, true, &same);
  double worst = 0, rounding = 0;
  assert_int_equal(count, same);
  if (c->build == product || c->build == turned) rounding = rounding_of(c->dtype[0]);
  for (size_t i = 0; i < count; i++)
    worst = fmax(worst, fabs(actual[i] - expected[i]) / fabs(expected[i]));
  free(actual);
  free(expected);
  print_message("%-34s %-8s %.1e\n", c->way, equal ? "equal" : "uniform", worst);
  if (worst <= limit + rounding) return 0;
  print_error("%s, %s terms: off by %.2e of %.2e\n", c->way, equal ? "equal" : "uniform", worst,
              limit + rounding);
  return 1;
}

#define F16S                                                                                       \
  { COMPUTE_F16, COMPUTE_F16 }
#define BF16S                                                                                      \
  { COMPUTE_BF16, COMPUTE_BF16 }

static const sum_case cases[] = {
    {.way = "row stream", product, {SHAPE(2, 100000), SHAPE(100000, 3)}},
    {.way = "row stream, many columns", product, {SHAPE(3, 6000), SHAPE(6000, 300)}},
    {.way = "row stream, one row", product, {SHAPE(1, 40000), SHAPE(40000, 64)}},
    {.way = "row stream, sixteen rows", product, {SHAPE(16, 20000), SHAPE(20000, 48)}},
    {.way = "row stream of f16", wide_product, {SHAPE(2, 60000), SHAPE(60000, 9)}, F16S},
    {.way = "row stream of bf16", wide_product, {SHAPE(2, 60000), SHAPE(60000, 9)}, BF16S},
    {.way = "f16", product, {SHAPE(2, 60000), SHAPE(60000, 9)}, F16S},
    {.way = "bf16", product, {SHAPE(20, 60000), SHAPE(60000, 9)}, BF16S},
    {.way = "dot products", turned, {SHAPE(3, 100000), SHAPE(5, 100000)}},
    {.way = "dot products, one row", turned, {SHAPE(1, 30000), SHAPE(40, 30000)}},
    {.way = "dot products of bf16", wide_product, {SHAPE(1, 50000), SHAPE(50000, 1)}, BF16S},
    {.way = "vectors", product, {SHAPE(100000), SHAPE(100000)}},
    {.way = "tiles", product, {SHAPE(20, 20000), SHAPE(20000, 40)}},
    {.way = "tiles, k split", product, {SHAPE(17, 100000), SHAPE(100000, 17)}},
    {.way = "tiles, packed", product, {SHAPE(40, 10000), SHAPE(10000, 80)}, {0}, true},
    {.way = "tiles, short", product, {SHAPE(64, 1000), SHAPE(1000, 96)}},
    {.way = "tiles, many", product, {SHAPE(200, 3000), SHAPE(3000, 150)}},
    {.way = "tall", product, {SHAPE(3000, 700), SHAPE(700, 3)}},
    {.way = "batches", product, {SHAPE(3, 2, 20000), SHAPE(3, 20000, 4)}},
    {.way = "batches of tiles", product, {SHAPE(2, 33, 5000), SHAPE(2, 5000, 33)}},
    {.way = "gradient of a batch", batch_gradient, {SHAPE(60000, 6), SHAPE(60000, 10)}},
    {.way = "gradient of a batch, tiles", batch_gradient, {SHAPE(20000, 40), SHAPE(20000, 30)}},
    {.way = "4 bits",
     few_bits,
     {SHAPE(2, 32768), SHAPE(3, 16384), SHAPE(3, 1024)},
     {0, COMPUTE_U8}},
    {.way = "4 bits, many rows",
     few_bits,
     {SHAPE(40, 8192), SHAPE(9, 4096), SHAPE(9, 256)},
     {0, COMPUTE_U8}},
    {.way = "8 bits by columns",
     few_bits_by_columns,
     {SHAPE(2, 20000), SHAPE(3, 20000), SHAPE(3, 1000)},
     {0, COMPUTE_U8}},
    {.way = "convolution, channels", convolution, {SHAPE(1, 3000, 5, 5), SHAPE(4, 3000, 3, 3)}},
    {.way = "convolution, many channels", convolution, {SHAPE(2, 700, 9, 9), SHAPE(40, 700, 3, 3)}},
    {.way = "convolution of points", convolution, {SHAPE(1, 9000, 4, 4), SHAPE(20, 9000, 1, 1)}},
    {.way = "convolution, few channels", convolution, {SHAPE(1, 60, 24, 24), SHAPE(2, 60, 5, 5)}},
    {.way = "convolution, large window",
     convolution,
     {SHAPE(1, 2, 120, 120), SHAPE(3, 2, 110, 110)}},
    {.way = "convolution, long window",
     convolution,
     {SHAPE(1, 1, 1, 20050), SHAPE(1, 1, 1, 20000)}},
    {.way = "by filter, batch",
     by_filter,
     {SHAPE(200, 3, 12, 12), SHAPE(5, 3, 3, 3), SHAPE(200, 5, 10, 10)}},
    {.way = "by filter, channels",
     by_filter,
     {SHAPE(60, 40, 16, 16), SHAPE(48, 40, 3, 3), SHAPE(60, 48, 14, 14)}},
    {.way = "by data", by_data, {SHAPE(1, 4, 6, 6), SHAPE(3000, 4, 3, 3), SHAPE(1, 3000, 4, 4)}},
};

enum { CASES = sizeof cases / sizeof *cases };

/* A quarter of the error of one running sum at 20,000 terms. */
static void long_sums_keep_their_digits(void **state) {
  (void)state;
  compute_context *exact;
  int failed = 0;
  assert_ok(compute_open(&exact, &(compute_open_options){.device = "cpu"}));
  for (size_t i = 0; i < CASES; i++) {
    if (!test_in_spread(i)) continue;
    failed += check(exact, &cases[i], true, 1.6e-5);
    failed += check(exact, &cases[i], false, 4e-6);
  }
  test_close(exact);
  if (failed) fail_msg("%d sums", failed);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(long_sums_keep_their_digits)};
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
