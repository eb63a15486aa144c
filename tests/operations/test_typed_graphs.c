/* SPDX-License-Identifier: MIT */
/* Fusion does not change the value of a 16-bit dtype: comparisons, casts and selections see the
 * number that the dtype can represent. COMPUTE_TEST_GRAPHS=20000 checks that many random graphs
 * instead of the default few; COMPUTE_TEST_SEED=N starts at seed N. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/harness/test.h"
#include "support/samples/typed_graph.h"

enum { GRAPHS = 2000 };

static uint64_t number(const char *variable, uint64_t otherwise) {
  const char *text = getenv(variable);
  return text ? strtoull(text, NULL, 10) : otherwise;
}

static void random_graphs_of_several_dtypes_are_right(void **state) {
  (void)state;
  const uint64_t day = (uint64_t)time(NULL) / 86400;
  const uint64_t first = number("COMPUTE_TEST_SEED", day * 10007);
  /* A device that compiles takes only few graphs. */
  const uint64_t share =
      test_spread() == 1 ? GRAPHS : 1 + GRAPHS / (60 * test_spread() * test_samples());
  const uint64_t count = number("COMPUTE_TEST_GRAPHS", share);
  int wrong = 0;
  long judged = 0;
  print_message("COMPUTE_TEST_SEED=%llu\n", (unsigned long long)first);
  for (uint64_t i = 0; i < count && wrong < 10; i++) {
    const int result = typed_graph_check(test_context, first + i);
    if (result < 0) wrong++;
    judged += result < 0 ? 0 : result;
  }
  print_message("%ld operations of %llu graphs judged\n", judged, (unsigned long long)count);
  assert_int_equal(wrong, 0);
  assert_true(judged > 0);
}

/* ---- Examples ------------------------------------------------------------------------------ */

typedef struct example {
  compute_graph *graph;
  compute_node x, z; /* f16: 1024 and 0.3; f16 rounds their sum to 1024 */
  compute_tensor *tensor[2];
} example;

static example begin(void) {
  example e = {.graph = compute_graph_create(test_context)};
  const uint16_t x[2] = {0x6400, 0x6400}, z[2] = {0x34cd, 0x34cd};
  e.tensor[0] = test_tensor(test_context, COMPUTE_F16, COMPUTE_SHAPE(2), x);
  e.tensor[1] = test_tensor(test_context, COMPUTE_F16, COMPUTE_SHAPE(2), z);
  e.x = compute_input(e.graph, COMPUTE_F16, COMPUTE_SHAPE(2));
  e.z = compute_input(e.graph, COMPUTE_F16, COMPUTE_SHAPE(2));
  return e;
}

/* The first element of `result`; `other` is an output of the same plan. */
static double value_of(const example *e, compute_node result, compute_node other, uint32_t flags) {
  const compute_node outputs[2] = {result, other};
  compute_plan *plan = test_compile(e->graph, outputs, 2, flags);
  compute_tensor *made[2];
  for (int i = 0; i < 2; i++)
    made[i] = test_tensor(test_context, compute_node_dtype(e->graph, outputs[i]),
                          compute_node_shape(e->graph, outputs[i]), NULL);
  const compute_binding bindings[4] = {
      {e->x, e->tensor[0]}, {e->z, e->tensor[1]}, {result, made[0]}, {other, made[1]}};
  assert_ok(compute_run(plan, bindings, 4, NULL));
  const double value = test_element(made[0], 0);
  for (int i = 0; i < 2; i++) compute_tensor_release(made[i]);
  compute_plan_release(plan);
  return value;
}

static void end(example *e) {
  for (int i = 0; i < 2; i++) compute_tensor_release(e->tensor[i]);
  compute_graph_release(e->graph);
}

static void a_cast_sees_what_is_stored(void **state) {
  (void)state;
  example e = begin();
  const compute_node y = compute_add(e.graph, e.x, e.z);
  assert_float_equal(value_of(&e, compute_cast(e.graph, y, COMPUTE_F32), y, 0), 1024, 0);
  assert_float_equal(
      value_of(&e, compute_cast(e.graph, compute_neg(e.graph, y), COMPUTE_F64), y, 0), -1024, 0);
  end(&e);
}

static void a_cast_rounds_though_nothing_is_stored(void **state) {
  (void)state;
  example e = begin();
  compute_graph *g = e.graph;
  const compute_node wide =
      compute_add(g, compute_cast(g, e.x, COMPUTE_F32), compute_cast(g, e.z, COMPUTE_F32));
  const compute_node back = compute_cast(g, compute_cast(g, wide, COMPUTE_F16), COMPUTE_F32);
  assert_float_equal(value_of(&e, back, wide, 0), 1024, 0);
  const compute_node sum =
      compute_sum(g, compute_cast(g, wide, COMPUTE_F16), COMPUTE_AXES(0), true);
  assert_float_equal(value_of(&e, sum, wide, 0), 2048, 0);
  end(&e);
}

static void a_cast_to_its_own_dtype_rounds(void **state) {
  (void)state;
  example e = begin();
  compute_graph *g = e.graph;
  const compute_node y = compute_cast(g, compute_add(g, e.x, e.z), COMPUTE_F16);
  const compute_node rest = compute_sub(g, y, e.x);
  assert_float_equal(value_of(&e, rest, compute_neg(g, e.x), 0), 0, 0);
  assert_float_equal(value_of(&e, rest, compute_neg(g, e.x), COMPUTE_PLAN_NO_SIMPLIFICATION), 0, 0);
  end(&e);
}

static void comparisons_see_what_is_stored(void **state) {
  (void)state;
  example e = begin();
  compute_graph *g = e.graph;
  const compute_node y = compute_add(g, e.x, e.z), rest = compute_sub(g, y, e.x);
  assert_float_equal(value_of(&e, compute_equal(g, y, e.x), y, 0), 1, 0);
  assert_float_equal(value_of(&e, compute_greater(g, y, e.x), y, 0), 0, 0);
  /* Arithmetic may continue in f32, with a difference of 0.3, or in f16, with 0. In both cases,
   * sign sees the stored value. */
  const double difference = value_of(&e, rest, y, 0);
  assert_float_equal(value_of(&e, compute_sign(g, rest), rest, 0), difference > 0, 0);
  end(&e);
}

static void positions_are_of_what_is_stored(void **state) {
  (void)state;
  example e = begin();
  compute_graph *g = e.graph;
  /* 1024 and 1024 + 0.3 are equal in f16: the first is the largest. */
  const uint16_t zero_one[2] = {0, 0x3c00};
  const compute_node step = compute_constant(g, COMPUTE_F16, COMPUTE_SHAPE(2), zero_one);
  const compute_node y = compute_add(g, e.x, compute_mul(g, e.z, step));
  assert_float_equal(value_of(&e, compute_argmax(g, y, 0, false), y, 0), 0, 0);
  end(&e);
}

static void not_every_f32_is_a_finite_f16(void **state) {
  (void)state;
  example e = begin();
  compute_graph *g = e.graph;
  const compute_node y = compute_mul(g, e.x, e.x); /* 2^20 */
  assert_float_equal(value_of(&e, compute_is_finite(g, y), y, 0), 0, 0);
  end(&e);
}

/* Every second operation needs a rounded operand and constants: without a count, the chain would
 * exceed the instructions of a program. */
static void long_chains_are_cut_in_time(void **state) {
  (void)state;
  example e = begin();
  compute_graph *g = e.graph;
  compute_node y = compute_add(g, e.x, e.z);
  for (int i = 0; i < 200; i++) {
    const compute_node is = compute_greater(g, y, compute_scalar(g, COMPUTE_F16, 4096 + 4 * i));
    y = compute_select(g, is, compute_scalar(g, COMPUTE_F16, -1 - i),
                       compute_scalar(g, COMPUTE_F16, 1023 - i));
  }
  assert_float_equal(value_of(&e, y, compute_neg(g, e.x), 0), 1023 - 199, 0);
  end(&e);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_cast_sees_what_is_stored),
      cmocka_unit_test(a_cast_rounds_though_nothing_is_stored),
      cmocka_unit_test(a_cast_to_its_own_dtype_rounds),
      cmocka_unit_test(comparisons_see_what_is_stored),
      cmocka_unit_test(positions_are_of_what_is_stored),
      cmocka_unit_test(not_every_f32_is_a_finite_f16),
      cmocka_unit_test(long_chains_are_cut_in_time),
      cmocka_unit_test(random_graphs_of_several_dtypes_are_right),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
