/* SPDX-License-Identifier: MIT */
/* Values that depend on frozen parameters only are computed once. Plans share them, and they live
 * as long as the parameters. Tables that would become larger are not expanded for a few rows. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/failing_allocator.h"
#include "support/harness/test.h"
#include "support/samples/random_graph.h"

enum { DEPTH = 64, WIDTH = 48, ROWS = 20, WORDS = 3000, TAKEN = 8, GRAPHS = 30 };

typedef struct linear {
  compute_graph *graph;
  compute_node x, y;
} linear;

/* x · (cast(weights) · 0.5 + 1). */
static linear make_linear(compute_tensor *weights, int64_t rows) {
  linear l = {.graph = compute_graph_create(test_context)};
  l.x = compute_input(l.graph, COMPUTE_F32, COMPUTE_SHAPE(rows, DEPTH));
  const compute_node w = compute_cast(l.graph, compute_parameter(l.graph, weights), COMPUTE_F32);
  const compute_node half = compute_scalar(l.graph, COMPUTE_F32, 0.5);
  const compute_node one = compute_scalar(l.graph, COMPUTE_F32, 1);
  l.y = compute_matmul(l.graph, l.x, compute_add(l.graph, compute_mul(l.graph, w, half), one));
  return l;
}

static uint32_t count_steps(const compute_plan *plan) {
  compute_plan_info info;
  assert_ok(compute_plan_describe(plan, &info));
  return (uint32_t)info.steps;
}

static uint64_t bytes_active(void) {
  compute_pool_statistics pool;
  assert_ok(compute_pool_query(compute_default_device(test_context), &pool));
  return pool.bytes_active;
}

/* Compares the plan of y with a plan without any simplification. The bits must agree. */
static void check_bits(const compute_graph *graph, compute_node y, const compute_binding *inputs,
                       size_t count) {
  compute_tensor *results[2];
  for (int i = 0; i < 2; i++) {
    compute_plan *plan = test_compile(graph, &y, 1, i ? COMPUTE_PLAN_NO_SIMPLIFICATION : 0);
    compute_binding bindings[4] = {{{0}, NULL}};
    assert_true(count < 4);
    if (count > 0) memcpy(bindings, inputs, count * sizeof *inputs);
    assert_ok(compute_plan_create_tensor(plan, y, &results[i]));
    bindings[count] = (compute_binding){y, results[i]};
    assert_ok(compute_run(plan, bindings, count + 1, NULL));
    compute_plan_release(plan);
  }
  for (int64_t i = 0; i < compute_tensor_count(results[0]); i++)
    assert_true(test_element(results[0], i) == test_element(results[1], i));
  compute_tensor_release(results[0]);
  compute_tensor_release(results[1]);
}

static void converted_weights_are_computed_once(void **state) {
  (void)state;
  const uint64_t before = bytes_active();
  compute_tensor *weights =
      test_random_tensor(test_context, COMPUTE_F16, COMPUTE_SHAPE(DEPTH, WIDTH), 1);
  compute_tensor *x = test_random_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(ROWS, DEPTH), 2);
  linear l = make_linear(weights, ROWS);
  compute_plan *changing = test_compile(l.graph, &l.y, 1, 0);
  assert_true(count_steps(changing) > 1);
  compute_plan_release(changing);
  compute_tensor_freeze(weights);
  compute_plan *plan = test_compile(l.graph, &l.y, 1, 0);
  assert_int_equal(count_steps(plan), 1);
  const uint64_t one = bytes_active();
  const linear other = make_linear(weights, 3);
  compute_plan *second = test_compile(other.graph, &other.y, 1, 0);
  assert_int_equal(count_steps(second), 1);
  assert_int_equal(bytes_active(), one);
  check_bits(l.graph, l.y, &(compute_binding){l.x, x}, 1);
  compute_plan_release(plan);
  compute_plan_release(second);
  compute_graph_release(l.graph);
  compute_graph_release(other.graph);
  compute_tensor_release(x);
  assert_true(bytes_active() > before);
  compute_tensor_release(weights);
  assert_int_equal(bytes_active(), before);
}

/* The second weights may get the memory, and the record, of the first. */
static void other_weights_have_other_values(void **state) {
  (void)state;
  compute_tensor *x = test_random_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(ROWS, DEPTH), 3);
  for (uint64_t seed = 10; seed < 16; seed++) {
    compute_tensor *weights =
        test_random_tensor(test_context, COMPUTE_F16, COMPUTE_SHAPE(DEPTH, WIDTH), seed);
    compute_tensor_freeze(weights);
    const linear l = make_linear(weights, ROWS);
    check_bits(l.graph, l.y, &(compute_binding){l.x, x}, 1);
    compute_graph_release(l.graph);
    compute_tensor_release(weights);
  }
  compute_tensor_release(x);
}

/* Parts of one tensor differ in their offset only, or in their strides. */
static void views_of_one_tensor_have_different_values(void **state) {
  (void)state;
  compute_tensor *all =
      test_random_tensor(test_context, COMPUTE_F16, COMPUTE_SHAPE(2 * DEPTH, WIDTH), 4);
  compute_tensor *x = test_random_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(ROWS, DEPTH), 5);
  compute_tensor_freeze(all);
  for (int64_t form = 0; form < 3; form++) {
    compute_tensor *part;
    assert_ok(compute_tensor_slice_view(all, 0, form == 1 ? DEPTH : 0, DEPTH, 1 + form / 2, &part));
    const linear l = make_linear(part, ROWS);
    check_bits(l.graph, l.y, &(compute_binding){l.x, x}, 1);
    compute_graph_release(l.graph);
    compute_tensor_release(part);
  }
  compute_tensor_release(all);
  compute_tensor_release(x);
}

/* Bytes of all values. */
static compute_tensor *make_words(void) {
  static int8_t bytes[WORDS * DEPTH];
  for (int i = 0; i < WORDS * DEPTH; i++) bytes[i] = (int8_t)(i * 37 % 255 - 127);
  return test_tensor(test_context, COMPUTE_I8, COMPUTE_SHAPE(WORDS, DEPTH), bytes);
}

/* (cast(q) - zero) · scale, one scale for each word or column, and rows of it. */
static compute_node make_table(compute_graph *g, compute_tensor *q, compute_tensor *scale) {
  const compute_node f = compute_cast(g, compute_parameter(g, q), COMPUTE_F32);
  const compute_node shifted = compute_sub(g, f, compute_scalar(g, COMPUTE_F32, 3));
  return compute_mul(g, shifted, compute_parameter(g, scale));
}

static void a_table_is_not_expanded_for_some_rows(void **state) {
  (void)state;
  const compute_shape scales[] = {COMPUTE_SHAPE(1), COMPUTE_SHAPE(DEPTH), COMPUTE_SHAPE(WORDS, 1),
                                  COMPUTE_SHAPE(WORDS, DEPTH)};
  compute_tensor *q = make_words();
  compute_tensor *ids = test_tensor(test_context, COMPUTE_I64, COMPUTE_SHAPE(2, TAKEN / 2), NULL);
  const int64_t words[TAKEN] = {0, WORDS - 1, 5, -1, 77, 5, -WORDS, 1234};
  assert_ok(compute_tensor_write(ids, words, sizeof words));
  compute_tensor_freeze(q);
  for (int i = 0; i < 4; i++) {
    compute_tensor *scale = test_random_tensor(test_context, COMPUTE_F32, scales[i], 7);
    compute_tensor_freeze(scale);
    compute_graph *g = compute_graph_create(test_context);
    const compute_node at = compute_input(g, COMPUTE_I64, COMPUTE_SHAPE(2, TAKEN / 2));
    const compute_node y = compute_gather(g, make_table(g, q, scale), at, 0);
    const uint64_t before = bytes_active();
    compute_plan *plan = test_compile(g, &y, 1, 0);
    compute_plan_info info;
    assert_ok(compute_plan_describe(plan, &info));
    if (i < 3) assert_true(bytes_active() - before < WORDS * DEPTH);
    assert_true(info.arena_bytes < WORDS * DEPTH);
    compute_plan_release(plan);
    check_bits(g, y, &(compute_binding){at, ids}, 1);
    compute_graph_release(g);
    compute_tensor_release(scale);
  }
  compute_tensor_release(q);
  compute_tensor_release(ids);
}

/* The message names the caller's operation and the whole axis. */
static void a_wrong_word_is_reported_as_before(void **state) {
  (void)state;
  compute_tensor *q = make_words();
  compute_tensor *scale = test_random_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(1), 9);
  compute_tensor *ids = test_tensor(test_context, COMPUTE_I64, COMPUTE_SHAPE(TAKEN), NULL), *rows;
  const int64_t words[TAKEN] = {0, 1, WORDS, 3};
  assert_ok(compute_tensor_write(ids, words, sizeof words));
  compute_tensor_freeze(q);
  compute_tensor_freeze(scale);
  compute_graph *g = compute_graph_create(test_context);
  const compute_node at = compute_input(g, COMPUTE_I64, COMPUTE_SHAPE(TAKEN));
  const compute_node y = compute_gather(g, make_table(g, q, scale), at, 0);
  compute_plan *plan = test_compile(g, &y, 1, 0);
  assert_ok(compute_plan_create_tensor(plan, y, &rows));
  const compute_binding bindings[] = {{at, ids}, {y, rows}};
  assert_fails(compute_run(plan, bindings, 2, NULL), COMPUTE_ERROR_INDEX);
  test_check_message(test_context, "gather: index 3000 at position 2 is outside -3000 … 2999");
  compute_plan_release(plan);
  compute_graph_release(g);
  compute_tensor_release(rows);
  compute_tensor_release(q);
  compute_tensor_release(scale);
  compute_tensor_release(ids);
}

/* A program may compile a plan for each factor. */
static void unused_values_are_released(void **state) {
  (void)state;
  compute_tensor *weights =
      test_random_tensor(test_context, COMPUTE_F16, COMPUTE_SHAPE(DEPTH, WIDTH), 13);
  compute_tensor_freeze(weights);
  const uint64_t before = bytes_active();
  for (int i = 1; i <= 100; i++) {
    compute_graph *g = compute_graph_create(test_context);
    const compute_node w = compute_cast(g, compute_parameter(g, weights), COMPUTE_F32);
    const compute_node y = compute_mul(g, compute_mul(g, w, compute_scalar(g, COMPUTE_F32, i)),
                                       compute_input(g, COMPUTE_F32, COMPUTE_SCALAR));
    compute_plan_release(test_compile(g, &y, 1, 0));
    compute_graph_release(g);
  }
  assert_true(bytes_active() - before < 20 * DEPTH * WIDTH * sizeof(float));
  compute_tensor_release(weights);
}

static void *compile_often(void *user) {
  compute_tensor *weights = user;
  for (int64_t rows = 1; rows < 12; rows++) {
    const linear l = make_linear(weights, rows);
    compute_plan *plan = test_compile(l.graph, &l.y, 1, 0);
    assert_int_equal(count_steps(plan), 1);
    compute_plan_release(plan);
    compute_graph_release(l.graph);
  }
  return NULL;
}

static void threads_keep_one_value(void **state) {
  (void)state;
  pthread_t threads[4];
  compute_tensor *weights =
      test_random_tensor(test_context, COMPUTE_F16, COMPUTE_SHAPE(DEPTH, WIDTH), 11);
  compute_tensor_freeze(weights);
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, compile_often, weights), 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  const uint64_t before = bytes_active();
  compile_often(weights);
  assert_int_equal(bytes_active(), before);
  compute_tensor_release(weights);
}

/* Random graphs over frozen parameters and an input. */
static void random_graphs_keep_their_results(void **state) {
  (void)state;
  for (uint64_t seed = test_seed(); seed < test_seed() + GRAPHS; seed++) {
    compute_graph *g = compute_graph_create(test_context);
    compute_node operands[RANDOM_GRAPH_OPERANDS];
    compute_tensor *tensors[RANDOM_GRAPH_OPERANDS];
    const random_graph request = {.seed = seed, .steps = 10, .size = {3, 4, 4}};
    compute_binding input = {{0}, NULL};
    for (int i = 0; i < RANDOM_GRAPH_OPERANDS; i++) {
      const compute_dtype dtype = i == 3 ? COMPUTE_BOOL : COMPUTE_F32;
      const compute_shape shape = random_graph_operand(request.size, i);
      tensors[i] = test_random_tensor(test_context, dtype, shape, seed + (uint64_t)i);
      const bool bound = i == (int)(seed % 3);
      if (!bound) compute_tensor_freeze(tensors[i]);
      operands[i] = bound ? compute_input(g, dtype, shape) : compute_parameter(g, tensors[i]);
      if (bound) input = (compute_binding){operands[i], tensors[i]};
    }
    const compute_node y = random_graph_build(g, operands, &request);
    compute_plan *plan = test_compile(g, &y, 1, 0),
                 *plain = test_compile(g, &y, 1, COMPUTE_PLAN_NO_SIMPLIFICATION);
    compute_tensor *results[2];
    for (int i = 0; i < 2; i++) {
      compute_plan *with = i ? plain : plan;
      assert_ok(compute_plan_create_tensor(with, y, &results[i]));
      const compute_binding bindings[] = {{y, results[i]}, input};
      compute_status status = compute_run(with, bindings, 2, NULL);
      if (status == COMPUTE_ERROR_BINDING) status = compute_run(with, bindings, 1, NULL);
      assert_ok(status);
    }
    for (int64_t i = 0; i < compute_tensor_count(results[0]); i++) {
      const double a = test_element(results[0], i), b = test_element(results[1], i);
      if (!(fabs(a - b) <= 1e-4 * (1 + fabs(b)) || a == b || (isnan(a) && isnan(b))))
        fail_msg("seed %llu: element %lld is %g instead of %g", (unsigned long long)seed,
                 (long long)i, a, b);
    }
    for (int i = 0; i < 2; i++) compute_tensor_release(results[i]);
    compute_plan_release(plan);
    compute_plan_release(plain);
    for (int i = 0; i < RANDOM_GRAPH_OPERANDS; i++) compute_tensor_release(tensors[i]);
    compute_graph_release(g);
  }
}

/* Without memory for a value, the run computes it, or the compilation fails. */
static void a_compilation_survives_each_failing_allocation(void **state) {
  (void)state;
  compute_tensor *weights =
      test_random_tensor(test_context, COMPUTE_F16, COMPUTE_SHAPE(DEPTH, WIDTH), 12);
  compute_tensor_freeze(weights);
  compute_graph *g = compute_graph_create(test_context);
  const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(3, DEPTH));
  int64_t nth = 1;
  for (bool done = false; !done; nth++) {
    /* Another constant in each round, so that no value is known. */
    const compute_node scale = compute_scalar(g, COMPUTE_F32, (double)nth);
    const compute_node w = compute_cast(g, compute_parameter(g, weights), COMPUTE_F32);
    const compute_node y = compute_matmul(g, x, compute_mul(g, w, scale));
    compute_plan *plan = NULL;
    failing_allocator_arm(nth, false);
    const compute_status status = compute_compile(g, &y, 1, NULL, &plan);
    done = failing_allocator_requests() < nth;
    failing_allocator_arm(0, false);
    if (status != COMPUTE_OK) assert_int_equal(status, COMPUTE_ERROR_OUT_OF_MEMORY);
    compute_plan_release(plan);
  }
  compute_graph_release(g);
  compute_tensor_release(weights);
}

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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(converted_weights_are_computed_once),
      cmocka_unit_test(other_weights_have_other_values),
      cmocka_unit_test(views_of_one_tensor_have_different_values),
      cmocka_unit_test(a_table_is_not_expanded_for_some_rows),
      cmocka_unit_test(a_wrong_word_is_reported_as_before),
      cmocka_unit_test(unused_values_are_released),
      cmocka_unit_test(threads_keep_one_value),
      cmocka_unit_test(random_graphs_keep_their_results),
      cmocka_unit_test(a_compilation_survives_each_failing_allocation),
  };
  return cmocka_run_group_tests(tests, open_with_allocator, close_and_count);
}
