/* SPDX-License-Identifier: MIT */
/* If a device's compiler cannot build a fit, the CPU computes it, the caller can learn the reason,
 * and the results are right. On PoCL behind the layer of tests/opencl_layer/. */
#include <math.h>
#include <string.h>

#include "compute/fit.h"
#include "support/drivers/opencl_layer.h"
#include "support/harness/test.h"

enum { SKIPPED = 77, N = 5, SIDE = 7, COLUMNS = 4 + 1, BUILD_FAILURE = -11 };

static opencl_layer layer;

/* One bright spot per ROI, in its centre. */
static compute_tensor *spots(compute_context *context) {
  float pixels[N * SIDE * SIDE];
  for (int i = 0; i < N * SIDE * SIDE; i++) {
    const double x = i % SIDE - 3, y = i / SIDE % SIDE - 3;
    pixels[i] = (float)(5 + 150 * exp(-0.5 * (x * x + y * y)));
  }
  return test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(N, SIDE, SIDE), pixels);
}

static compute_graph *make(compute_context *context, compute_node *x, compute_node *y) {
  const compute_fit_problem problem = {.model = COMPUTE_FIT_XYNB,
                                       .rows = SIDE,
                                       .columns = SIDE,
                                       .outputs = COMPUTE_FIT_PARAMETERS | COMPUTE_FIT_STATUS,
                                       .sigma = {1}};
  compute_graph *graph = compute_graph_create(context);
  *x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(N, SIDE, SIDE));
  *y = compute_gaussian_fit(graph, *x, &problem, NULL);
  return graph;
}

static void check(const compute_tensor *records) {
  for (int i = 0; i < N; i++) {
    assert_true(fabs(test_element(records, i * COLUMNS) - 3) < 1e-3);
    assert_true(fabs(test_element(records, i * COLUMNS + 1) - 3) < 1e-3);
    assert_true(test_element(records, i * COLUMNS + 4) == COMPUTE_FIT_CONVERGED);
  }
}

static void a_fit_that_does_not_build_is_made_by_the_cpu(void **state) {
  (void)state;
  compute_context *context;
  compute_plan *plan;
  compute_node x, y;
  char *text;
  assert_ok(compute_open(&context, &(compute_open_options){.device = "opencl:0"}));
  compute_tensor *in = spots(context), *out;
  assert_ok(compute_tensor_full(compute_default_device(context), COMPUTE_F32,
                                COMPUTE_SHAPE(N, COLUMNS), 0, &out));
  compute_graph *graph = make(context, &x, &y);
  assert_true(layer.arm("clBuildProgram", 1, true, BUILD_FAILURE));
  compute_plan_options options = {.fallback = COMPUTE_FALLBACK_STRICT};
  assert_int_not_equal(compute_compile(graph, &y, 1, &options, &plan), COMPUTE_OK);
  compute_error_clear(context);
  options.fallback = COMPUTE_FALLBACK_SILENT;
  assert_ok(compute_compile(graph, &y, 1, &options, &plan));
  assert_ok(compute_explain(plan, &text));
  if (!strstr(text, "cpu") || !strstr(text, "clBuildProgram"))
    fail_msg("nobody says why it is the CPU's:\n%s", text);
  compute_text_free(text);
  assert_ok(compute_run_with(plan, (compute_binding[]){{x, in}, {y, out}}, 2, NULL, NULL));
  check(out);
  compute_plan_release(plan);
  assert_true(layer.arm("any", 0, false, 0));
  compute_graph_release(graph);
  compute_tensor_release(in);
  compute_tensor_release(out);
  test_close(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_fit_that_does_not_build_is_made_by_the_cpu),
  };
  if (!opencl_layer_open(TEST_OPENCL_LAYER, &layer)) {
    print_message("no OpenCL layer: skipped\n");
    return SKIPPED;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
