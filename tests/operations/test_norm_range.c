/* SPDX-License-Identifier: MIT */
/* Norms of numbers whose squares f32 does not hold: from 1e-40 to 1e38, along short and long rows
 * and across them, beside ordinary rows, which keep their bits. */
#include <math.h>
#include <stdlib.h>

#include "support/harness/operation.h"
#include "support/harness/test.h"

typedef struct norm_case {
  int64_t rows, length;
  bool across; /* rows lie side by side */
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

static double *normalize(const norm_case *c, int first, double epsilon) {
  compute_graph *graph = compute_graph_create(test_context);
  const compute_shape shape =
      c->across ? COMPUTE_SHAPE(c->length, c->rows) : COMPUTE_SHAPE(c->rows, c->length);
  const size_t count = (size_t)(c->rows * c->length);
  float *x = malloc(count * sizeof *x);
  double *y = malloc(count * sizeof *y);
  assert_true(x && y);
  for (int64_t row = 0; row < c->rows; row++)
    for (int64_t i = 0; i < c->length; i++)
      x[c->across ? i * c->rows + row : row * c->length + i] = element(c, first, row, i);
  compute_tensor *in = test_tensor(test_context, COMPUTE_F32, shape, x);
  compute_tensor *out = test_tensor(test_context, COMPUTE_F32, shape, NULL);
  const compute_node input = compute_input(graph, COMPUTE_F32, shape);
  compute_node node = c->across ? compute_transpose(graph, input, COMPUTE_AXES(1, 0)) : input;
  node = compute_normalize(graph, node, epsilon);
  if (c->across) node = compute_transpose(graph, node, COMPUTE_AXES(1, 0));
  compute_plan *plan = NULL;
  const compute_plan_options strict = {.fallback = COMPUTE_FALLBACK_STRICT};
  assert_ok(compute_compile(graph, &node, 1, &strict, &plan));
  const compute_binding bindings[] = {{input, in}, {node, out}};
  assert_ok(compute_run(plan, bindings, 2, NULL));
  assert_ok(compute_tensor_read(out, x, count * sizeof *x));
  for (size_t i = 0; i < count; i++) y[i] = (double)x[i];
  free(x);
  compute_plan_release(plan);
  compute_graph_release(graph);
  compute_tensor_release(in);
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
  /* A denormal has few digits, and a device may take it for 0. */
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
        double *y = normalize(&cases[i], first, epsilons[e]);
        for (int64_t row = 0; row < cases[i].rows; row++)
          failed += check_row(&cases[i], first, epsilons[e], row, y);
        free(y);
      }
  if (failed) fail_msg("%d rows", failed);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_of_every_size_are_normalised)};
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
