/* SPDX-License-Identifier: MIT */
/* compute_layer_run gives what a graph gives, reads the weights at each run, and keeps a plan. */
#include <string.h>

#include "support/harness/test.h"
#include "support/samples/training.h"

enum { ROWS = 5, OUTPUTS = 3 };

static void run(compute_layer *layer, int64_t rows, float *values) {
  compute_tensor *x = NULL, *y = NULL;
  assert_ok(compute_tensor_random(compute_default_device(test_context), COMPUTE_F32,
                                  COMPUTE_SHAPE(rows, 4), -1, 1, 5, &x));
  assert_ok(compute_layer_run(layer, x, &y));
  assert_true(compute_shape_equal(compute_tensor_shape(y), COMPUTE_SHAPE(rows, OUTPUTS)));
  assert_ok(compute_tensor_read(y, values, (size_t)rows * OUTPUTS * sizeof *values));
  compute_tensor_release(y);
  compute_tensor_release(x);
}

static void run_graph(compute_layer *layer, int64_t rows, float *values) {
  compute_graph *graph = compute_graph_create(test_context);
  compute_tensor *x = NULL, *result = NULL;
  assert_ok(compute_tensor_random(compute_default_device(test_context), COMPUTE_F32,
                                  COMPUTE_SHAPE(rows, 4), -1, 1, 5, &x));
  const compute_node in = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(rows, 4));
  const compute_node out = compute_layer_apply(layer, graph, in, NULL);
  compute_plan *plan = test_compile(graph, &out, 1, 0);
  assert_ok(compute_plan_create_tensor(plan, out, &result));
  assert_ok(compute_run(plan, (compute_binding[]){{in, x}, {out, result}}, 2, NULL));
  assert_ok(compute_tensor_read(result, values, (size_t)rows * OUTPUTS * sizeof *values));
  compute_tensor_release(result);
  compute_tensor_release(x);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void a_run_gives_what_a_graph_gives(void **state) {
  (void)state;
  float ours[2 * ROWS * OUTPUTS], theirs[2 * ROWS * OUTPUTS];
  compute_layer *layer = training_network(compute_default_device(test_context), OUTPUTS, 7);
  for (int i = 0; i < 4; i++) { /* the shape changes, and the weights */
    const int64_t rows = i % 2 ? 2 * ROWS : ROWS;
    run(layer, rows, ours);
    run_graph(layer, rows, theirs);
    assert_memory_equal(ours, theirs, (size_t)rows * OUTPUTS * sizeof *ours);
    run(layer, rows, ours);
    assert_memory_equal(ours, theirs, (size_t)rows * OUTPUTS * sizeof *ours);
    assert_ok(compute_layer_initialize(layer, COMPUTE_INIT_DEFAULT, (uint64_t)i));
    run(layer, rows, ours);
    run_graph(layer, rows, theirs);
    assert_memory_equal(ours, theirs, (size_t)rows * OUTPUTS * sizeof *ours);
  }
  compute_layer_release(layer);
}

/* Dropout does nothing in inference, so that the network's result is its input: one node, bound as
 * input and as output. */
static void a_layer_without_work_copies_its_input(void **state) {
  (void)state;
  const float values[6] = {1, -2, 3, 0, 5, -6};
  float copy[6];
  compute_layer *layer = compute_sequential((compute_layer *[]){compute_dropout_layer(0.5)}, 1);
  compute_tensor *x = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 3), values);
  compute_tensor *y = NULL;
  for (int i = 0; i < 2; i++) {
    assert_ok(compute_layer_run(layer, x, &y));
    assert_ok(compute_tensor_read(y, copy, sizeof copy));
    assert_memory_equal(values, copy, sizeof copy);
    compute_tensor_release(y);
  }
  compute_tensor_release(x);
  compute_layer_release(layer);
}

static void mistakes_leave_the_result_alone(void **state) {
  (void)state;
  compute_layer *layer = training_network(compute_default_device(test_context), OUTPUTS, 7);
  compute_tensor *x = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 3), NULL);
  compute_tensor *result = x;
  assert_fails(compute_layer_run(layer, x, &result), COMPUTE_ERROR_SHAPE);
  assert_fails(compute_layer_run(layer, NULL, &result), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_layer_run(NULL, x, &result), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_layer_run(layer, x, NULL), COMPUTE_ERROR_NULL_POINTER);
  compute_context *stranger = test_open();
  compute_tensor *other = test_tensor(stranger, COMPUTE_F32, COMPUTE_SHAPE(2, 4), NULL);
  assert_fails(compute_layer_run(layer, other, &result), COMPUTE_ERROR_WRONG_CONTEXT);
  compute_tensor_release(other);
  test_close(stranger);
  assert_ptr_equal(result, x);
  compute_tensor_release(x);
  compute_layer_release(layer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_gives_what_a_graph_gives),
      cmocka_unit_test(a_layer_without_work_copies_its_input),
      cmocka_unit_test(mistakes_leave_the_result_alone),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
