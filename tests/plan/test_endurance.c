/* SPDX-License-Identifier: MIT */
/* Repeats everything a thousand times: memory does not grow, and a steady state allocates almost
 * nothing. */
#include "support/harness/failing_allocator.h"
#include "support/harness/test.h"

static compute_pool_statistics pool_of(compute_context *context) {
  compute_pool_statistics statistics;
  assert_ok(compute_pool_query(compute_default_device(context), &statistics));
  return statistics;
}

/* A graph with temporaries: softmax(x · w) · w'. */
typedef struct model {
  compute_graph *graph;
  compute_node x, y;
} model;

static model create_model(compute_context *context, int64_t size) {
  model m = {.graph = compute_graph_create(context)};
  assert_non_null(m.graph);
  m.x = compute_input(m.graph, COMPUTE_F32, COMPUTE_SHAPE(size, size));
  const compute_node w = compute_softmax(m.graph, compute_matmul(m.graph, m.x, m.x), -1);
  m.y = compute_matmul(m.graph, w, compute_tanh(m.graph, m.x));
  return m;
}

static void a_thousand_runs_hold_no_more_memory_than_two(void **state) {
  (void)state;
  failing_allocator_install();
  compute_context *context = test_open();
  model m = create_model(context, 33);
  compute_plan *plan = test_compile(m.graph, &m.y, 1, 0);
  compute_tensor *x = NULL, *y = NULL;
  assert_ok(compute_tensor_random(compute_default_device(context), COMPUTE_F32,
                                  COMPUTE_SHAPE(33, 33), -1, 1, 1, &x));
  assert_ok(compute_plan_create_tensor(plan, m.y, &y));
  const compute_binding bindings[] = {{m.x, x}, {m.y, y}};
  for (int i = 0; i < 2; i++) assert_ok(compute_run(plan, bindings, 2, NULL));
  const compute_pool_statistics before = pool_of(context);
  const int64_t live = failing_allocator_live();
  failing_allocator_arm(0, false);
  for (int i = 0; i < 1000; i++) assert_ok(compute_run(plan, bindings, 2, NULL));
  const compute_pool_statistics after = pool_of(context);
  assert_true(failing_allocator_requests() <= 1000); /* the arena's record, once a run */
  assert_int_equal(failing_allocator_live(), live);
  assert_int_equal(after.bytes_allocated, before.bytes_allocated);
  assert_int_equal(after.bytes_active, before.bytes_active);
  assert_int_equal(after.blocks_active, before.blocks_active);
  assert_int_equal(after.misses, before.misses);
  compute_tensor_release(x);
  compute_tensor_release(y);
  compute_plan_release(plan);
  compute_graph_release(m.graph);
  assert_int_equal(pool_of(context).bytes_active, 0);
  test_close(context);
  assert_int_equal(failing_allocator_remove(), 0);
}

static void plans_come_and_go_without_a_trace(void **state) {
  (void)state;
  failing_allocator_install();
  compute_context *context = test_open();
  int64_t live = 0;
  uint64_t allocated = 0;
  for (int i = 0; i < 1300; i++) {
    /* The size varies, so that caches do not supply all kernels and blocks. */
    const int64_t size = 3 + i % 7;
    model m = create_model(context, size);
    compute_plan *plan = test_compile(m.graph, &m.y, 1, 0);
    compute_tensor *x = NULL, *y = NULL;
    assert_ok(compute_tensor_full(compute_default_device(context), COMPUTE_F32,
                                  COMPUTE_SHAPE(size, size), 0.5, &x));
    assert_ok(compute_plan_create_tensor(plan, m.y, &y));
    assert_ok(compute_run(plan, (compute_binding[]){{m.x, x}, {m.y, y}}, 2, NULL));
    compute_tensor_release(x);
    compute_tensor_release(y);
    compute_plan_release(plan);
    compute_graph_release(m.graph);
    if (i == 299) {
      live = failing_allocator_live();
      allocated = pool_of(context).bytes_allocated;
    }
  }
  assert_true(failing_allocator_live() <= live);
  assert_true(pool_of(context).bytes_allocated <= allocated);
  assert_int_equal(pool_of(context).bytes_active, 0);
  test_close(context);
  assert_int_equal(failing_allocator_remove(), 0);
}

/* Eager calls reuse their plans, and the cache of plans is bounded. */
static void eager_calls_keep_a_bounded_number_of_plans(void **state) {
  (void)state;
  failing_allocator_install();
  compute_context *context = test_open();
  int64_t live = 0;
  for (int i = 0; i < 1500; i++) {
    compute_tensor *a = NULL, *b = NULL;
    const int64_t size = 1 + i % 500;
    assert_ok(compute_tensor_full(compute_default_device(context), COMPUTE_F32, COMPUTE_SHAPE(size),
                                  2, &a));
    assert_ok(compute_tensor_mul(a, a, &b));
    assert_true(test_element(b, size - 1) == 4);
    compute_tensor_release(a);
    compute_tensor_release(b);
    if (i == 999) live = failing_allocator_live();
  }
  assert_true(failing_allocator_live() <= live);
  assert_int_equal(pool_of(context).bytes_active, 0);
  test_close(context);
  assert_int_equal(failing_allocator_remove(), 0);
}

static void contexts_open_and_close_without_a_trace(void **state) {
  (void)state;
  failing_allocator_install();
  for (int i = 0; i < 50; i++) {
    compute_context *context = test_open();
    model m = create_model(context, 5);
    compute_graph_release(m.graph);
    test_close(context);
  }
  assert_int_equal(failing_allocator_remove(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_thousand_runs_hold_no_more_memory_than_two),
      cmocka_unit_test(plans_come_and_go_without_a_trace),
      cmocka_unit_test(eager_calls_keep_a_bounded_number_of_plans),
      cmocka_unit_test(contexts_open_and_close_without_a_trace),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
