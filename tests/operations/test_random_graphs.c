/* SPDX-License-Identifier: MIT */
/* Random expressions of about thirty operations: the planner's rewriting, folding, fusion and reuse
 * never change the numbers of the graph. Seeds are fixed; a failure prints its seed as the sample's
 * name. */
#include "support/harness/operation.h"
#include "support/samples/random_graph.h"
#include "support/harness/test.h"

enum { SEEDS = 300 };

static compute_node build_random(compute_graph *graph, const compute_node *operands,
                                 const void *user) {
  return random_graph_build(graph, operands, user);
}

/* Nearly every kernel of a random graph is new, so a device that compiles takes only few graphs. */
static void check_seeds(compute_dtype dtype, uint64_t first, test_tolerance tolerance) {
  const uint64_t step = test_spread() == 1 ? 1 : 6 * test_spread();
  for (uint64_t seed = first + test_turn() % step; seed < first + SEEDS; seed += step) {
    const random_graph request = {.seed = seed, .steps = RANDOM_GRAPH_STEPS, .size = {2, 3, 4}};
    char name[64];
    snprintf(name, sizeof name, "random graph %llu", (unsigned long long)seed);
    operation_case sample = {.name = name,
                             .build = build_random,
                             .user = &request,
                             .operand_count = RANDOM_GRAPH_OPERANDS,
                             .tolerance = tolerance};
    for (int i = 0; i < RANDOM_GRAPH_OPERANDS; i++)
      sample.operand[i] =
          (operation_operand){i == 3 ? COMPUTE_BOOL : dtype,
                              random_graph_operand(request.size, i),
                              FILL_RANGE,
                              -3,
                              3,
                              (guarded_layout)((seed + (uint64_t)i) % LAYOUT_COUNT)};
    operation_check(test_context, &sample);
  }
  operation_finish();
}

static void double_precision_graphs_stay_what_they_are(void **state) {
  (void)state;
  check_seeds(COMPUTE_F64, 1000, (test_tolerance){.atol = 1e-8, .rtol = 1e-8});
}

static void single_precision_graphs_stay_what_they_are(void **state) {
  (void)state;
  check_seeds(COMPUTE_F32, 2000, (test_tolerance){.atol = 5e-2, .rtol = 1e-2});
}

static void integer_graphs_are_exact(void **state) {
  (void)state;
  check_seeds(COMPUTE_I32, 3000, (test_tolerance){0});
  check_seeds(COMPUTE_I64, 4000, (test_tolerance){0});
}

/* Narrow integers are computed in a wider type and wrap when stored. Each operation does the same,
 * fused or not. */
static void byte_graphs_wrap_after_every_operation(void **state) {
  (void)state;
  check_seeds(COMPUTE_U8, 5000, (test_tolerance){0});
  const compute_dtype others[] = {COMPUTE_U16, COMPUTE_I8, COMPUTE_I16, COMPUTE_U32};
  for (uint64_t i = 0; test_spread() == 1 && i < sizeof others / sizeof *others; i++)
    check_seeds(others[i], 6000 + 1000 * i, (test_tolerance){0});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(double_precision_graphs_stay_what_they_are),
      cmocka_unit_test(single_precision_graphs_stay_what_they_are),
      cmocka_unit_test(integer_graphs_are_exact),
      cmocka_unit_test(byte_graphs_wrap_after_every_operation),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
