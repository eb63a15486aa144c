/* SPDX-License-Identifier: MIT */
/* libcompute.so from a program's view: it is linked, and finds its modules beside it without any
 * setting. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/harness/test.h"

static void modules_are_found_beside_the_library(void **state) {
  (void)state;
  compute_context *context = NULL;
  assert_int_equal(unsetenv("COMPUTE_BACKEND_PATH"), 0);
  assert_ok(compute_open(&context, NULL));
  size_t loaded = 0;
  const compute_probe *probe;
  for (size_t i = 0; (probe = compute_probe_at(context, i)) != NULL; i++) {
    loaded += probe->state == COMPUTE_PROBE_LOADED;
    /* An installed copy of the same library may also offer its modules, later in the list. */
    if (strcmp(probe->name, "cpu") == 0 && probe->state != COMPUTE_PROBE_DUPLICATE) {
      assert_int_equal(probe->state, COMPUTE_PROBE_LOADED);
      assert_non_null(strstr(probe->path, TEST_MODULE_DIR));
      assert_true(probe->device_count >= 1);
    }
  }
  assert_true(loaded >= 1);
  compute_device *cpu = NULL;
  compute_device_info info;
  assert_ok(compute_device_by_name(context, "cpu", &cpu));
  assert_ok(compute_device_describe(cpu, &info));
  assert_string_equal(info.backend, "cpu");
  assert_int_equal(info.type, COMPUTE_DEVICE_CPU);
  assert_true(info.compute_units >= 1 && info.memory_total > 0);
  assert_ok(compute_close(context));
}

/* A file that looks like a module in the current folder is ignored. */
static void the_current_folder_is_not_searched(void **state) {
  (void)state;
  compute_context *context = NULL;
  FILE *file = fopen("libcompute-stray.so", "w");
  assert_non_null(file);
  fputs("no module", file);
  fclose(file);
  assert_ok(compute_open(&context, NULL));
  const compute_probe *probe;
  for (size_t i = 0; (probe = compute_probe_at(context, i)) != NULL; i++)
    assert_null(strstr(probe->path, "stray"));
  assert_ok(compute_close(context));
  assert_int_equal(unlink("libcompute-stray.so"), 0);
}

/* The example of the headers: shapes that do not fit give an error text, and matching shapes give
 * numbers. */
static void a_graph_runs(void **state) {
  (void)state;
  compute_context *context = test_open();
  compute_graph *graph = compute_graph_create(context);
  const float w[6] = {1, 2, 3, 4, 5, 6}, x[4] = {1, 0, 0, 1}, bias[3] = {0.5F, 0, -100};
  compute_tensor *weights = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(2, 3), w);
  const compute_node in = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 2));
  const compute_node sum =
      compute_add(graph, compute_matmul(graph, in, compute_parameter(graph, weights)),
                  compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(3), bias));
  const compute_node y = compute_relu(graph, sum);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_tensor *tx = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(2, 2), x), *ty = NULL;
  assert_ok(compute_plan_create_tensor(plan, y, &ty));
  assert_ok(compute_run(plan, (compute_binding[]){{in, tx}, {y, ty}}, 2, NULL));
  static const double expected[6] = {1.5, 2, 0, 4.5, 5, 0};
  for (int i = 0; i < 6; i++) assert_true(test_element(ty, i) == expected[i]);
  compute_tensor_release(weights);
  compute_tensor_release(tx);
  compute_tensor_release(ty);
  compute_plan_release(plan);
  compute_graph_release(graph);
  test_close(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(modules_are_found_beside_the_library),
      cmocka_unit_test(the_current_folder_is_not_searched),
      cmocka_unit_test(a_graph_runs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
