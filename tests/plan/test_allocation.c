/* SPDX-License-Identifier: MIT */
/* Every allocation of a compilation fails once, for small graphs and for one whose arrays need
 * separate chunks. The call reports the failure, nothing leaks, and sanitizers find no use of NULL.
 * tests/faults/test_allocation.c sweeps whole programs. */
#include "support/harness/failing_allocator.h"
#include "support/harness/test.h"
#include "support/samples/random_graph.h"

enum { GRAPHS = 4, CHAIN = 400 /* nodes whose array exceeds the shared part of a chunk */ };

static int open_with_allocator(void **state) {
  failing_allocator_install();
  return test_group_open(state);
}

static int close_and_count(void **state) {
  failing_allocator_arm(0, false);
  const int failed = test_group_close(state);
  assert_int_equal(failing_allocator_remove(), 0);
  return failed;
}

/* Compiles once for each failing allocation: number `first`, then every `step`-th. */
static void sweep(const compute_graph *g, compute_node y, int64_t step) {
  int64_t failed = 0, nth = 1;
  for (bool done = false; !done; nth += step) {
    compute_plan *plan = NULL;
    failing_allocator_arm(nth, false);
    const compute_status status = compute_compile(g, &y, 1, NULL, &plan);
    done = failing_allocator_requests() < nth;
    failed += status != COMPUTE_OK;
    if (status != COMPUTE_OK) {
      assert_int_equal(status, COMPUTE_ERROR_OUT_OF_MEMORY);
      assert_null(plan);
    }
    failing_allocator_arm(0, false);
    compute_plan_release(plan);
  }
  assert_true(failed > 0);
}

static void compilations_of_random_graphs_survive(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
    compute_graph *g = compute_graph_create(test_context);
    compute_node operands[RANDOM_GRAPH_OPERANDS];
    const random_graph request = {.seed = seed,
                                  .steps = 12,
                                  .size = {3, 3, 3},
                                  .square = seed % 2 == 0,
                                  .derivatives = seed == 2};
    for (int i = 0; i < RANDOM_GRAPH_OPERANDS; i++)
      operands[i] = compute_input(g, i == 3 ? COMPUTE_BOOL : COMPUTE_F32,
                                  random_graph_operand(request.size, i));
    sweep(g, random_graph_build(g, operands, &request), 1);
    compute_graph_release(g);
  }
}

static void the_compilation_of_a_long_graph_survives(void **state) {
  (void)state;
  compute_graph *g = compute_graph_create(test_context);
  const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(4, 4));
  compute_node y = x;
  for (int i = 0; i < CHAIN; i++)
    y = compute_transpose(g, i % 8 ? compute_add(g, y, x) : compute_matmul(g, y, x),
                          COMPUTE_ALL_AXES);
  sweep(g, y, 1 + (int64_t)(test_seed() % 3));
  compute_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(compilations_of_random_graphs_survive),
      cmocka_unit_test(the_compilation_of_a_long_graph_survives),
  };
  return cmocka_run_group_tests(tests, open_with_allocator, close_and_count);
}
