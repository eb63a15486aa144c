/* SPDX-License-Identifier: MIT */
/* Norms of numbers whose squares f32 cannot represent, and their gradients: from 1e-40 to 1e38,
 * along short and long rows and across them. Ordinary rows beside them keep their bits. Also the
 * limits of operations that store squares. */
#include <math.h>
#include <stdlib.h>

#include "support/harness/operation.h"
#include "support/harness/test.h"
#include "support/harness/values.h"

typedef struct norm_case {
  int64_t rows, length;
  bool across; /* the elements of a row are not contiguous */
} norm_case;

static const norm_case cases[] = {{3, 4, false},    {5, 33, false},    {4, 768, false},
                                  {2, 5000, false}, {1, 70000, false}, {40, 60, true},
                                  {33, 9, true},    {600, 7, false}};

static const float scales[] = {1e38f, 1e30f,  3e25f,  1e20f,  2e18f,
                               1,     1e-18f, 1e-24f, 1e-30f, 1e-40f};
enum { SCALES = sizeof scales / sizeof *scales };

/* Row r has numbers of scale (r + first) of the list. */
static float element(const norm_case *c, int first, int64_t row, int64_t i) {
  const double shape = sin(0.7 * (double)(i + 3 * row)) + 0.3 * cos(2.1 * (double)i);
  (void)c;
  return (float)(shape * (double)scales[((int)(row % SCALES) + first) % SCALES]);
}

/* The loss multiplies the results by these numbers. */
static float upstream(int64_t row, int64_t i) {
  return (float)(cos(0.9 * (double)i + (double)row) + 0.2 * sin(3.1 * (double)i));
}

static compute_tensor *fill(const norm_case *c, compute_shape shape, int first, bool weights) {
  float *x = malloc((size_t)(c->rows * c->length) * sizeof *x);
  assert_non_null(x);
  for (int64_t row = 0; row < c->rows; row++)
    for (int64_t i = 0; i < c->length; i++)
      x[c->across ? i * c->rows + row : row * c->length + i] =
          weights ? upstream(row, i) : element(c, first, row, i);
  compute_tensor *tensor = test_tensor(test_context, COMPUTE_F32, shape, x);
  free(x);
  return tensor;
}

/* The norm of each row, or the gradient of the sum of its products with upstream(). */
static double *normalize(const norm_case *c, int first, double epsilon, bool gradient) {
  compute_graph *graph = compute_graph_create(test_context);
  const compute_shape shape =
      c->across ? COMPUTE_SHAPE(c->length, c->rows) : COMPUTE_SHAPE(c->rows, c->length);
  const size_t count = (size_t)(c->rows * c->length);
  compute_tensor *in = fill(c, shape, first, false), *weights = fill(c, shape, first, true);
  compute_tensor *out = test_tensor(test_context, COMPUTE_F32, shape, NULL);
  const compute_node input = compute_input(graph, COMPUTE_F32, shape);
  const compute_node by = compute_parameter(graph, weights);
  compute_node node = c->across ? compute_transpose(graph, input, COMPUTE_AXES(1, 0)) : input;
  node = compute_normalize(graph, node, epsilon);
  if (c->across) node = compute_transpose(graph, node, COMPUTE_AXES(1, 0));
  if (gradient) {
    node = compute_sum(graph, compute_mul(graph, node, by), COMPUTE_ALL_AXES, false);
    assert_ok(compute_gradients(graph, node, &input, 1, &node));
  }
  compute_plan *plan = NULL;
  const compute_plan_options strict = {.fallback = COMPUTE_FALLBACK_STRICT};
  assert_ok(compute_compile(graph, &node, 1, &strict, &plan));
  const compute_binding bindings[] = {{input, in}, {node, out}};
  assert_ok(compute_run(plan, bindings, 2, NULL));
  float *results = malloc(count * sizeof *results);
  double *y = malloc(count * sizeof *y);
  assert_true(results && y);
  assert_ok(compute_tensor_read(out, results, count * sizeof *results));
  for (size_t i = 0; i < count; i++) y[i] = (double)results[i];
  free(results);
  compute_plan_release(plan);
  compute_graph_release(graph);
  compute_tensor_release(in);
  compute_tensor_release(weights);
  compute_tensor_release(out);
  return y;
}

static int check_row(const norm_case *c, int first, double epsilon, int64_t row, const double *y) {
  double mean = 0, variance = 0, worst = 0, peak = 0;
  for (int64_t i = 0; i < c->length; i++) {
    mean += (double)element(c, first, row, i) / (double)c->length;
    peak = fmax(peak, fabs((double)element(c, first, row, i)));
  }
  for (int64_t i = 0; i < c->length; i++) {
    const double away = (double)element(c, first, row, i) - mean;
    variance += away * away / (double)c->length;
  }
  const double factor = 1 / sqrt(variance + epsilon);
  /* A denormal number has few digits, and a device may flush it to 0. */
  if (peak < 1e-37) return 0;
  for (int64_t i = 0; i < c->length; i++) {
    const double expected = ((double)element(c, first, row, i) - mean) * factor;
    const double actual = y[c->across ? i * c->rows + row : row * c->length + i];
    const double error =
        fabs(actual - expected) / fmax(fabs(expected), 1e-3 * fmin(peak * factor, 1));
    if (!(error <= worst)) worst = error;
  }
  if (worst <= 1e-3) return 0;
  print_error("%lld x %lld%s, scale %g, epsilon %g: off by %.2g\n", (long long)c->rows,
              (long long)c->length, c->across ? " across" : "", peak, epsilon, worst);
  return 1;
}

static void rows_of_every_size_are_normalised(void **state) {
  (void)state;
  static const double epsilons[] = {1e-5, 0};
  int failed = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int e = 0; e < 2; e++)
      for (int first = 0; first < (cases[i].rows < SCALES ? SCALES : 1);
           first += (int)cases[i].rows) {
        double *y = normalize(&cases[i], first, epsilons[e], false);
        for (int64_t row = 0; row < cases[i].rows; row++)
          failed += check_row(&cases[i], first, epsilons[e], row, y);
        free(y);
      }
  if (failed) fail_msg("%d rows", failed);
}

/* (g - mean(g) - y mean(g y)) / sqrt(variance + epsilon), for results that are normal numbers. */
static int check_gradient(const norm_case *c, int first, double epsilon, int64_t row,
                          const double *dx) {
  const double n = (double)c->length;
  double mean = 0, variance = 0, level = 0, tilt = 0, most = 0, worst = 0;
  for (int64_t i = 0; i < c->length; i++) {
    mean += (double)element(c, first, row, i) / n;
    level += (double)upstream(row, i) / n;
  }
  for (int64_t i = 0; i < c->length; i++) {
    const double away = (double)element(c, first, row, i) - mean;
    variance += away * away / n;
    tilt += (double)upstream(row, i) * away / n;
  }
  const double factor = 1 / sqrt(variance + epsilon);
  for (int pass = 0; pass < 2; pass++)
    for (int64_t i = 0; i < c->length; i++) {
      const double y = ((double)element(c, first, row, i) - mean) * factor;
      const double expected = ((double)upstream(row, i) - level - y * tilt * factor) * factor;
      const double actual = dx[c->across ? i * c->rows + row : row * c->length + i];
      const double error = fabs(actual - expected) / most;
      if (pass == 0) most = fmax(most, fabs(expected));
      if (pass == 1 && !(error <= worst)) worst = error;
    }
  const double size = sqrt(variance);
  if (size < 1e-36 || size * n > 1e38 || most < 1e-36 || most > 1e37 || worst <= 1e-4) return 0;
  print_error("gradient, %lld x %lld%s, scale %g, epsilon %g: off by %.2g\n", (long long)c->rows,
              (long long)c->length, c->across ? " across" : "", size, epsilon, worst);
  return 1;
}

static void rows_of_every_size_have_gradients(void **state) {
  (void)state;
  static const double epsilons[] = {1e-5, 0, 1e10};
  int failed = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int e = 0; e < 3; e++)
      for (int first = 0; first < (cases[i].rows < SCALES ? SCALES : 1);
           first += (int)cases[i].rows) {
        double *dx = normalize(&cases[i], first, epsilons[e], true);
        for (int64_t row = 0; row < cases[i].rows; row++)
          failed += check_gradient(&cases[i], first, epsilons[e], row, dx);
        free(dx);
      }
  if (failed) fail_msg("%d rows", failed);
}

/* Limits documented in the headers, for operations that store or return a square. */
enum { LIMITED = 4 };

static compute_node parameter_of(compute_graph *graph, const float *values, compute_tensor **kept) {
  *kept = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(LIMITED), values);
  return compute_parameter(graph, *kept);
}

static void expect_all(compute_tensor *tensor, const double *expected) {
  for (int i = 0; i < LIMITED; i++) {
    const double got = test_element(tensor, i);
    if (!(fabs(got - expected[i]) <= 1e-5 * fabs(expected[i])))
      fail_msg("element %d is %g, expected %g", i, got, expected[i]);
  }
}

/* One step from 1 with gradients of alternating signs; the step subtracts `change`. */
static void check_step(bool adam, float size, double change) {
  static const float ones[LIMITED] = {1, 1, 1, 1};
  const float slopes[LIMITED] = {size, -size, size, -size};
  const double expected[LIMITED] = {1 - change, 1 + change, 1 - change, 1 + change};
  compute_graph *graph = compute_graph_create(test_context);
  compute_tensor *weight;
  const compute_node w = parameter_of(graph, ones, &weight);
  const compute_node g = compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(LIMITED), slopes);
  const compute_adam_options a = {.learning_rate = 0.25};
  const compute_rmsprop_options r = {.learning_rate = 0.25};
  const compute_node step =
      adam ? compute_adam_apply(graph, &w, &g, 1, &a) : compute_rmsprop_apply(graph, &w, &g, 1, &r);
  compute_plan *plan = test_compile(graph, &step, 1, 0);
  assert_ok(compute_run(plan, NULL, 0, NULL));
  expect_all(weight, expected);
  compute_plan_release(plan);
  compute_graph_release(graph);
  compute_tensor_release(weight);
}

static void check_clip(float size, double factor) {
  const float slopes[LIMITED] = {size, -size, size, -size};
  double expected[LIMITED];
  for (int i = 0; i < LIMITED; i++) expected[i] = (double)slopes[i] * factor;
  compute_graph *graph = compute_graph_create(test_context);
  compute_tensor *from, *to = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(LIMITED), NULL);
  compute_node g = parameter_of(graph, slopes, &from);
  compute_clip_gradients(graph, &g, 1, 3, NULL);
  compute_plan *plan = test_compile(graph, &g, 1, 0);
  assert_ok(compute_run(plan, &(compute_binding){g, to}, 1, NULL));
  expect_all(to, expected);
  compute_plan_release(plan);
  compute_graph_release(graph);
  compute_tensor_release(from);
  compute_tensor_release(to);
}

/* One channel; the bias is 0.5. */
static void check_batch_norm(float size, double height) {
  static const float half = 0.5f;
  const float x[LIMITED] = {size, -size, size, -size};
  const double expected[LIMITED] = {0.5 + height, 0.5 - height, 0.5 + height, 0.5 - height};
  const compute_shape shape = COMPUTE_SHAPE(LIMITED, 1);
  compute_graph *graph = compute_graph_create(test_context);
  compute_tensor *from = test_tensor(test_context, COMPUTE_F32, shape, x);
  compute_tensor *to = test_tensor(test_context, COMPUTE_F32, shape, NULL);
  const compute_node bias = compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(1), &half);
  const compute_node y = compute_batch_norm_training(graph, compute_parameter(graph, from),
                                                     (compute_node){0}, bias, 1e-5, NULL, NULL);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  assert_ok(compute_run(plan, &(compute_binding){y, to}, 1, NULL));
  expect_all(to, expected);
  compute_plan_release(plan);
  compute_graph_release(graph);
  compute_tensor_release(from);
  compute_tensor_release(to);
}

static void squares_that_are_kept_limit_the_range(void **state) {
  (void)state;
  for (int adam = 0; adam < 2; adam++) {
    check_step(adam, 1e18f, adam ? 0.25 : 0.25 / sqrt(1 - 0.99));
    check_step(adam, 1e30f, 0);
  }
  check_clip(5e18f, 3 / (2 * (double)5e18f));
  check_clip(1e30f, 0);
  check_batch_norm(5e18f, 1);
  check_batch_norm(1e30f, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_of_every_size_are_normalised),
                                     cmocka_unit_test(rows_of_every_size_have_gradients),
                                     cmocka_unit_test(squares_that_are_kept_limit_the_range)};
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
