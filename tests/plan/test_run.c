/* SPDX-License-Identifier: MIT */
/* Promises of plans beyond right numbers: constants, several outputs, outputs that are inputs,
 * assignments, queues, views, lifetimes, explanations. */
#include <math.h>
#include <string.h>

#include "support/harness/test.h"
#include "support/harness/values.h"

static compute_tensor *vector(const float *values, int64_t count) {
  return test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(count), values);
}

static void check_vector(const compute_tensor *tensor, const float *expected, int64_t count) {
  assert_int_equal(compute_tensor_count(tensor), count);
  for (int64_t i = 0; i < count; i++) {
    const double value = test_element(tensor, i);
    if (value != (double)expected[i])
      fail_msg("element %lld is %g, expected %g", (long long)i, value, (double)expected[i]);
  }
}

static void constants_are_copied_into_the_plan(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  float values[3] = {1, 2, 3};
  const compute_node c = compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(3), values);
  values[0] = 99;
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3));
  const compute_node y =
      compute_add(graph, compute_mul(graph, x, c), compute_scalar(graph, COMPUTE_F32, 0.5));
  const compute_node outputs[] = {y, c, compute_full(graph, COMPUTE_F32, COMPUTE_SHAPE(3), -2)};
  compute_plan *plan = test_compile(graph, outputs, 3, 0);
  compute_graph_release(graph); /* plans stay usable */
  compute_tensor *tx = vector((float[]){10, 20, 30}, 3);
  compute_tensor *t[3] = {vector(NULL, 3), vector(NULL, 3), vector(NULL, 3)};
  const compute_binding b[] = {{x, tx}, {outputs[0], t[0]}, {outputs[1], t[1]}, {outputs[2], t[2]}};
  assert_ok(compute_run(plan, b, 4, NULL));
  check_vector(t[0], (float[]){10.5F, 40.5F, 90.5F}, 3);
  check_vector(t[1], (float[]){1, 2, 3}, 3);
  check_vector(t[2], (float[]){-2, -2, -2}, 3);
  compute_tensor_release(tx);
  for (int i = 0; i < 3; i++) compute_tensor_release(t[i]);
  compute_plan_release(plan);
}

static void an_input_can_be_an_output(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3));
  const compute_node flipped = compute_reshape(graph, x, COMPUTE_SHAPE(3, 1));
  const compute_node outputs[] = {x, flipped};
  compute_plan *plan = test_compile(graph, outputs, 2, 0);
  compute_tensor *in = vector((float[]){1, 2, 3}, 3), *out = vector(NULL, 3);
  compute_tensor *column = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3, 1), NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{x, in}, {x, out}, {flipped, column}}, 3, NULL));
  check_vector(out, (float[]){1, 2, 3}, 3);
  check_vector(column, (float[]){1, 2, 3}, 3);
  compute_tensor_release(in);
  compute_tensor_release(out);
  compute_tensor_release(column);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void an_output_named_twice_is_bound_once(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3));
  const compute_node y = compute_neg(graph, x), same = compute_neg(graph, x);
  const compute_node outputs[] = {y, same, y};
  compute_plan *plan = test_compile(graph, outputs, 3, 0);
  compute_tensor *in = vector((float[]){1, 2, 3}, 3), *a = vector(NULL, 3), *b = vector(NULL, 3);
  /* y and `same` have equal values, but they are two nodes and get two tensors. */
  assert_ok(compute_run(plan, (compute_binding[]){{x, in}, {y, a}, {same, b}}, 3, NULL));
  check_vector(a, (float[]){-1, -2, -3}, 3);
  check_vector(b, (float[]){-1, -2, -3}, 3);
  compute_tensor_release(in);
  compute_tensor_release(a);
  compute_tensor_release(b);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* An importer binds its list of outputs one by one, and some nodes occur repeatedly. */
static void an_output_named_twice_can_be_bound_twice(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3));
  const compute_node y = compute_neg(graph, x);
  const compute_node outputs[] = {y, x, y, x, y};
  compute_plan *plan = test_compile(graph, outputs, 5, 0);
  compute_tensor *in = vector((float[]){1, 2, 3}, 3), *t[6];
  for (int i = 0; i < 6; i++) t[i] = vector((float[]){9, 9, 9}, 3);
  const compute_binding all[] = {{x, in},   {y, t[0]}, {x, t[1]}, {y, t[2]},
                                 {x, t[3]}, {y, t[4]}, {y, t[5]}};
  assert_ok(compute_run(plan, all, 6, NULL));
  for (int i = 0; i < 5; i++)
    check_vector(t[i], i % 2 ? (float[]){1, 2, 3} : (float[]){-1, -2, -3}, 3);
  check_vector(t[5], (float[]){9, 9, 9}, 3);
  /* One tensor for all of them, bound any number of times; and one tensor fewer than outputs. */
  const compute_binding same[] = {{x, in},   {y, t[5]}, {y, t[5]}, {y, t[5]},
                                  {y, t[5]}, {x, t[1]}, {x, t[1]}};
  assert_ok(compute_run(plan, same, 7, NULL));
  check_vector(t[5], (float[]){-1, -2, -3}, 3);
  const compute_binding fewer[] = {{x, in}, {y, t[0]}, {y, t[3]}, {x, t[1]}};
  assert_ok(compute_run(plan, fewer, 4, NULL));
  check_vector(t[3], (float[]){-1, -2, -3}, 3);
  /* Invalid bindings. */
  assert_fails(compute_run(plan, all, 7, NULL), COMPUTE_ERROR_BINDING);
  test_check_message(test_context, "bound to more tensors than its 3 outputs");
  compute_tensor *view = NULL;
  assert_ok(compute_tensor_slice_view(t[0], 0, 0, 3, 1, &view));
  const compute_binding overlapping[] = {{x, in}, {y, t[0]}, {y, view}, {x, t[1]}};
  assert_fails(compute_run(plan, overlapping, 4, NULL), COMPUTE_ERROR_BINDING);
  test_check_message(test_context, "two outputs are bound to overlapping tensors");
  assert_fails(compute_run(plan, (compute_binding[]){{x, in}, {x, t[1]}}, 2, NULL),
               COMPUTE_ERROR_BINDING);
  test_check_message(test_context, "is not bound");
  compute_tensor_release(view);
  compute_tensor_release(in);
  for (int i = 0; i < 6; i++) compute_tensor_release(t[i]);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* Sources, equal nodes and views of one another are ordinary outputs: each gets its tensor. */
static void outputs_can_be_anything_that_has_a_value(void **state) {
  (void)state;
  enum { OUTPUTS = 9 };
  compute_graph *graph = compute_graph_create(test_context);
  compute_tensor *in = vector((float[]){1, 2, 3}, 3), *weights = vector((float[]){4, 5, 6}, 3);
  const float values[3] = {7, 8, 9};
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3));
  const compute_node p = compute_parameter(graph, weights);
  const compute_node c = compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(3), values);
  const compute_node y = compute_add(graph, x, p);
  const compute_node column = compute_reshape(graph, y, COMPUTE_SHAPE(3, 1));
  const compute_node outputs[OUTPUTS] = {x,
                                         p,
                                         c,
                                         y,
                                         compute_add(graph, x, p),
                                         column,
                                         compute_reshape(graph, column, COMPUTE_SHAPE(3)),
                                         compute_reshape(graph, p, COMPUTE_SHAPE(1, 3)),
                                         compute_slice(graph, c, 0, 0, 3, 1)};
  static const float expected[OUTPUTS][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {5, 7, 9}, {5, 7, 9},
                                             {5, 7, 9}, {5, 7, 9}, {4, 5, 6}, {7, 8, 9}};
  for (uint32_t flags = 0; flags < 4; flags++) {
    compute_node twice[2 * OUTPUTS];
    compute_binding b[2 * OUTPUTS + 1] = {{x, in}};
    for (int i = 0; i < 2 * OUTPUTS; i++) twice[i] = outputs[i % OUTPUTS];
    compute_plan *plan = test_compile(graph, twice, 2 * OUTPUTS, flags);
    for (int i = 0; i < 2 * OUTPUTS; i++) {
      b[i + 1].node = twice[i];
      assert_ok(compute_plan_create_tensor(plan, twice[i], &b[i + 1].tensor));
    }
    assert_ok(compute_run(plan, b, 2 * OUTPUTS + 1, NULL));
    for (int i = 0; i < 2 * OUTPUTS; i++) {
      check_vector(b[i + 1].tensor, expected[i % OUTPUTS], 3);
      compute_tensor_release(b[i + 1].tensor);
    }
    compute_plan_release(plan);
  }
  compute_graph_release(graph);
  compute_tensor_release(weights);
  compute_tensor_release(in);
}

static void many_outputs_of_one_chain_are_all_right(void **state) {
  (void)state;
  enum { OUTPUTS = 200 };
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(5));
  const compute_node one = compute_scalar(graph, COMPUTE_F32, 1);
  compute_node nodes[OUTPUTS], last = x;
  compute_binding bindings[OUTPUTS + 1];
  for (int i = 0; i < OUTPUTS; i++) nodes[i] = last = compute_add(graph, last, one);
  compute_plan *plan = test_compile(graph, nodes, OUTPUTS, 0);
  bindings[OUTPUTS] = (compute_binding){x, vector((float[]){0, 1, 2, 3, 4}, 5)};
  for (int i = 0; i < OUTPUTS; i++) bindings[i] = (compute_binding){nodes[i], vector(NULL, 5)};
  assert_ok(compute_run(plan, bindings, OUTPUTS + 1, NULL));
  for (int i = 0; i < OUTPUTS; i++)
    for (int64_t k = 0; k < 5; k++)
      assert_true(test_element(bindings[i].tensor, k) == (double)(i + 1 + k));
  for (int i = 0; i <= OUTPUTS; i++) compute_tensor_release(bindings[i].tensor);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* The chain has more operations than a program can have instructions. */
static void a_chain_longer_than_a_program_is_right(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3));
  compute_node y = x;
  for (int i = 0; i < 700; i++)
    y = i % 2 ? compute_add(graph, compute_neg(graph, y), x) : compute_sub(graph, x, y);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_tensor *in = vector((float[]){1, 2, 3}, 3), *out = vector(NULL, 3);
  assert_ok(compute_run(plan, (compute_binding[]){{x, in}, {y, out}}, 2, NULL));
  check_vector(out, (float[]){1, 2, 3}, 3);
  compute_tensor_release(in);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* The sum has more inputs than a kernel can have operands. */
static void a_sum_of_many_inputs_is_right(void **state) {
  (void)state;
  enum { INPUTS = 60 };
  compute_graph *graph = compute_graph_create(test_context);
  compute_node nodes[INPUTS], sum = {0};
  compute_binding bindings[INPUTS + 1];
  for (int i = 0; i < INPUTS; i++) {
    nodes[i] = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3));
    sum = i == 0 ? nodes[0] : compute_add(graph, sum, nodes[i]);
    const float value = (float)i;
    bindings[i] = (compute_binding){nodes[i], vector((float[]){value, 2 * value, 1}, 3)};
  }
  compute_plan *plan = test_compile(graph, &sum, 1, 0);
  compute_tensor *out = vector(NULL, 3);
  bindings[INPUTS] = (compute_binding){sum, out};
  assert_ok(compute_run(plan, bindings, INPUTS + 1, NULL));
  check_vector(out, (float[]){1770, 3540, 60}, 3);
  for (int i = 0; i <= INPUTS; i++) compute_tensor_release(bindings[i].tensor);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* ---- Parameters and assignments -------------------------------------------------------------- */

/* Two parameters swap their values: every read precedes every write. */
static void assignments_read_before_they_write(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  compute_tensor *ta = vector((float[]){1, 2, 3}, 3), *tb = vector((float[]){10, 20, 30}, 3);
  const compute_node a = compute_parameter(graph, ta), b = compute_parameter(graph, tb);
  const compute_node sum = compute_add(graph, a, b);
  const compute_node swap[] = {compute_assign(graph, a, b), compute_assign(graph, b, a)};
  const compute_node outputs[] = {compute_group(graph, swap, 2), sum};
  compute_plan *plan = test_compile(graph, outputs, 2, 0);
  compute_tensor *out = vector(NULL, 3);
  for (int run = 0; run < 3; run++) {
    assert_ok(compute_run(plan, (compute_binding[]){{sum, out}}, 1, NULL));
    check_vector(out, (float[]){11, 22, 33}, 3);
    check_vector(run % 2 ? tb : ta, (float[]){10, 20, 30}, 3);
    check_vector(run % 2 ? ta : tb, (float[]){1, 2, 3}, 3);
  }
  compute_tensor_release(out);
  compute_tensor_release(ta);
  compute_tensor_release(tb);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* p ← 2 p + its reversed transpose, and readers that must see the old value. */
static void an_assignment_may_read_its_parameter_in_another_order(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const float start[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  compute_tensor *tp = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3, 3), start);
  const compute_node p = compute_parameter(graph, tp);
  const compute_node turned = compute_transpose(graph, p, COMPUTE_ALL_AXES);
  const compute_node assign =
      compute_assign(graph, p, compute_add(graph, compute_add(graph, p, p), turned));
  const compute_node old = compute_square(graph, p);
  const compute_node outputs[] = {old, assign};
  compute_plan *plan = test_compile(graph, outputs, 2, 0);
  compute_tensor *out = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3, 3), NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{old, out}}, 1, NULL));
  for (int i = 0; i < 9; i++) {
    assert_true(test_element(out, i) == start[i] * start[i]);
    assert_true(test_element(tp, i) == 2 * start[i] + start[i % 3 * 3 + i / 3]);
  }
  compute_tensor_release(out);
  compute_tensor_release(tp);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void a_parameter_is_used_by_reference(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  compute_tensor *tp = vector((float[]){1, 2, 3}, 3);
  const compute_node p = compute_parameter(graph, tp), y = compute_neg(graph, p);
  assert_ptr_equal(compute_parameter_tensor(graph, p), tp);
  assert_null(compute_parameter_tensor(graph, y));
  assert_int_equal(compute_parameter_at(graph, 0).id, p.id);
  assert_false(compute_node_is_valid(compute_parameter_at(graph, 1)));
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_tensor *out = vector(NULL, 3);
  assert_ok(compute_run(plan, (compute_binding[]){{y, out}}, 1, NULL));
  check_vector(out, (float[]){-1, -2, -3}, 3);
  assert_ok(compute_tensor_write(tp, (float[]){7, 8, 9}, 12));
  compute_tensor_release(tp); /* graph and plan keep a reference */
  compute_graph_release(graph);
  assert_ok(compute_run(plan, (compute_binding[]){{y, out}}, 1, NULL));
  check_vector(out, (float[]){-7, -8, -9}, 3);
  compute_tensor_release(out);
  compute_plan_release(plan);
}

static void a_strided_parameter_is_read_and_assigned_in_place(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  compute_tensor *base = vector((float[]){0, 1, 2, 3, 4, 5, 6}, 7), *view = NULL;
  assert_ok(compute_tensor_slice_view(base, 0, 1, 3, 2, &view));
  const compute_node p = compute_parameter(graph, view);
  const compute_node assign = compute_assign(graph, p, compute_mul(graph, p, p));
  compute_plan *plan = test_compile(graph, &assign, 1, 0);
  assert_ok(compute_run(plan, NULL, 0, NULL));
  check_vector(base, (float[]){0, 1, 2, 9, 4, 25, 6}, 7);
  compute_tensor_release(base);
  compute_tensor_release(view);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void an_output_may_be_bound_to_the_parameter_that_it_reads(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  compute_tensor *tp =
      test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 2), (float[]){1, 2, 3, 4});
  const compute_node p = compute_parameter(graph, tp);
  const compute_node y = compute_transpose(graph, p, COMPUTE_ALL_AXES);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  assert_ok(compute_run(plan, (compute_binding[]){{y, tp}}, 1, NULL));
  check_vector(tp, (float[]){1, 3, 2, 4}, 4);
  compute_tensor_release(tp);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* ---- Queues and random numbers --------------------------------------------------------------- */

static void runs_on_a_queue_happen_in_order(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(1000));
  const compute_node y =
      compute_add(graph, compute_mul(graph, x, compute_scalar(graph, COMPUTE_F32, 0.5)),
                  compute_scalar(graph, COMPUTE_F32, 1));
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_queue *queue = NULL;
  compute_event *event = NULL;
  bool complete = false;
  compute_tensor *a = NULL, *b = NULL;
  assert_ok(compute_tensor_full(compute_default_device(test_context), COMPUTE_F32,
                                COMPUTE_SHAPE(1000), 10, &a));
  assert_ok(compute_plan_create_tensor(plan, y, &b));
  assert_ok(compute_queue_create(compute_default_device(test_context), &queue));
  assert_ptr_equal(compute_queue_device(queue), compute_default_device(test_context));
  for (int i = 0; i < 10; i++) {
    assert_ok(compute_run(plan, (compute_binding[]){{x, a}, {y, b}}, 2, queue));
    assert_ok(compute_run(plan, (compute_binding[]){{x, b}, {y, a}}, 2, queue));
  }
  assert_ok(compute_event_record(queue, &event));
  assert_ok(compute_queue_wait_event(queue, event));
  assert_ok(compute_event_wait(event));
  assert_ok(compute_event_query(event, &complete));
  assert_true(complete);
  assert_ok(compute_queue_wait(queue));
  assert_true(fabs(test_element(a, 999) - (2 + 8 * ldexp(1, -20))) < 1e-6);
  compute_event_release(event);
  compute_queue_release(queue);
  compute_tensor_release(a);
  compute_tensor_release(b);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* The numbers of compute_random_uniform depend only on seed and position, in any division into
 * chunks. */
static void random_numbers_depend_on_seed_and_position_only(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node seed = compute_input(graph, COMPUTE_I64, COMPUTE_SCALAR);
  const compute_node r =
      compute_random_uniform(graph, COMPUTE_F32, COMPUTE_SHAPE(100, 37), seed, 5);
  const compute_node rows = compute_slice(graph, r, 0, 40, 20, 1);
  const compute_node outputs[] = {r, rows};
  compute_plan *whole = test_compile(graph, outputs, 1, 0),
               *part = test_compile(graph, &rows, 1, 0);
  compute_tensor *ts = test_tensor(test_context, COMPUTE_I64, COMPUTE_SCALAR, &(int64_t){12345});
  compute_tensor *tr = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(100, 37), NULL);
  compute_tensor *tp = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(20, 37), NULL);
  static float all[100 * 37], again[100 * 37], some[20 * 37];
  assert_ok(compute_run(whole, (compute_binding[]){{seed, ts}, {r, tr}}, 2, NULL));
  assert_ok(compute_tensor_read(tr, all, sizeof all));
  assert_ok(compute_run(part, (compute_binding[]){{seed, ts}, {rows, tp}}, 2, NULL));
  assert_ok(compute_tensor_read(tp, some, sizeof some));
  assert_memory_equal(some, all + 40 * 37, sizeof some);
  double mean = 0;
  for (size_t i = 0; i < 3700; i++) {
    assert_true(all[i] >= 0 && all[i] < 1);
    mean += (double)all[i] / 3700;
  }
  assert_true(fabs(mean - 0.5) < 0.02);
  assert_ok(compute_tensor_write(ts, &(int64_t){12346}, 8));
  assert_ok(compute_run(whole, (compute_binding[]){{seed, ts}, {r, tr}}, 2, NULL));
  assert_ok(compute_tensor_read(tr, again, sizeof again));
  assert_memory_not_equal(all, again, sizeof all);
  compute_tensor_release(ts);
  compute_tensor_release(tr);
  compute_tensor_release(tp);
  compute_plan_release(whole);
  compute_plan_release(part);
  compute_graph_release(graph);
}

/* ---- Explanations ---------------------------------------------------------------------------- */

static void a_plan_explains_itself(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(64, 32));
  const compute_node w = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(32, 16));
  const compute_node b = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(16));
  const compute_node y = compute_gelu(graph, compute_add(graph, compute_matmul(graph, x, w), b));
  const compute_node z = compute_softmax(graph, y, -1);
  compute_plan *plan = test_compile(graph, &z, 1, 0),
               *plain = test_compile(graph, &z, 1, COMPUTE_PLAN_NO_FUSION);
  char *text = NULL;
  compute_plan_info info, plain_info;
  assert_ok(compute_explain(plan, &text));
  assert_non_null(strstr(text, "matmul"));
  assert_non_null(strstr(text, "gelu"));
  assert_non_null(strstr(text, "softmax"));
  compute_text_free(text);
  assert_ok(compute_plan_describe(plan, &info));
  assert_ok(compute_plan_describe(plain, &plain_info));
  /* matmul + bias + gelu is one kernel. Without fusion, every operation is a kernel. */
  assert_int_equal(info.steps, 2);
  assert_int_equal(plain_info.steps, 4);
  assert_int_equal(info.operations, 4);
  assert_int_equal(info.fallbacks, 0);
  assert_true(info.flops >= 2 * 64 * 32 * 16);
  assert_true(info.bytes_read >= 4 * (64 * 32 + 32 * 16 + 16));
  assert_true(info.bytes_written >= 4 * 64 * 16);
  assert_true(info.arena_bytes >= 4 * 64 * 16);
  compute_plan_release(plan);
  compute_plan_release(plain);
  compute_graph_release(graph);
}

/* The result may be reshaped before an operand of the new shape: as one kernel and without fusion,
 * to the bit. If an operand repeats along only a part of an axis, nothing is fused. */
static void a_reshaped_product_takes_what_follows(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node a = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 6, 10));
  const compute_node b = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(10, 12));
  const compute_node rows = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(6, 1, 1));
  const compute_node all = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 6, 3, 4));
  const compute_node last = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(4));
  const compute_node product =
      compute_reshape(graph, compute_matmul(graph, a, b), COMPUTE_SHAPE(2, 6, 3, 4));
  const compute_node y =
      compute_relu(graph, compute_add(graph, compute_mul(graph, product, rows), all));
  const compute_node z = compute_mul(graph, y, last);
  const compute_node outputs[] = {y, z};
  float x[5][144], results[2][2][144];
  test_random random = {7};
  for (int i = 0; i < 5; i++)
    for (int k = 0; k < 144; k++) x[i][k] = (float)test_random_uniform(&random, -1, 1);
  const compute_node inputs[] = {a, b, rows, all, last};
  compute_binding bindings[7];
  for (int i = 0; i < 5; i++)
    bindings[i] =
        (compute_binding){inputs[i], test_tensor(test_context, COMPUTE_F32,
                                                 compute_node_shape(graph, inputs[i]), x[i])};
  for (int k = 0; k < 2; k++)
    bindings[5 + k] = (compute_binding){
        outputs[k], test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 6, 3, 4), NULL)};
  for (int plain = 0; plain < 2; plain++) {
    compute_plan_info info;
    compute_plan *plan = test_compile(graph, outputs, 2, plain ? COMPUTE_PLAN_NO_FUSION : 0);
    assert_ok(compute_plan_describe(plan, &info));
    assert_int_equal(info.steps, plain ? 5 : 2);
    assert_ok(compute_run(plan, bindings, 7, NULL));
    for (int k = 0; k < 2; k++)
      assert_ok(
          compute_tensor_read(bindings[5 + k].tensor, results[plain][k], 144 * sizeof(float)));
    compute_plan_release(plan);
  }
  assert_memory_equal(results[0], results[1], sizeof results[0]);
  for (int i = 0; i < 7; i++) compute_tensor_release(bindings[i].tensor);
  compute_graph_release(graph);
}

/* The same if axes change places, including conversions. */
static void a_transposed_product_takes_what_follows(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node a = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 12, 10));
  const compute_node b = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(10, 6));
  const compute_node planes = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 6, 3, 4));
  const compute_node columns = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3, 4));
  compute_node x = compute_reshape(graph, compute_matmul(graph, a, b), COMPUTE_SHAPE(2, 3, 4, 6));
  x = compute_transpose(graph, x, COMPUTE_AXES(0, 3, 1, 2));
  x = compute_mul(graph, compute_add(graph, x, planes), columns);
  x = compute_cast(graph, compute_mul(graph, x, compute_scalar(graph, COMPUTE_F32, 9)), COMPUTE_I8);
  const compute_node inputs[] = {a, b, planes, columns};
  test_random random = {8};
  compute_binding bindings[5];
  for (int i = 0; i < 4; i++) {
    float values[240];
    for (int k = 0; k < 240; k++) values[k] = (float)test_random_uniform(&random, -1, 1);
    const compute_shape shape = compute_node_shape(graph, inputs[i]);
    bindings[i] =
        (compute_binding){inputs[i], test_tensor(test_context, COMPUTE_F32, shape, values)};
  }
  const compute_shape shape = compute_node_shape(graph, x);
  signed char results[2][144];
  for (int plain = 0; plain < 2; plain++) {
    compute_plan *plan = test_compile(graph, &x, 1, plain ? COMPUTE_PLAN_NO_FUSION : 0);
    char *text = NULL;
    assert_ok(compute_explain(plan, &text));
    assert_int_equal(strstr(text, "matmul, then ") != NULL, !plain);
    compute_text_free(text);
    bindings[4] = (compute_binding){x, test_tensor(test_context, COMPUTE_I8, shape, NULL)};
    assert_ok(compute_run(plan, bindings, 5, NULL));
    assert_ok(compute_tensor_read(bindings[4].tensor, results[plain], sizeof results[plain]));
    compute_tensor_release(bindings[4].tensor);
    compute_plan_release(plan);
  }
  assert_memory_equal(results[0], results[1], sizeof results[0]);
  for (int i = 0; i < 4; i++) compute_tensor_release(bindings[i].tensor);
  compute_graph_release(graph);
}

/* ---- Heads of an attention ------------------------------------------------------------------- */

enum { BATCH = 2, HEADS = 3, ROWS = 5, WIDTH = 4, HEADS_COUNT = BATCH * HEADS * ROWS * WIDTH };

/* The other outputs of a plan, beside the heads as rows. */
typedef enum company { ALONE, DOUBLED, TURNED, OUTPUT, ADDED, ASSIGNED, COMPANIES } company;

static const compute_shape heads_shape = {4, {BATCH, HEADS, ROWS, WIDTH}};

static compute_node record_attention(compute_graph *graph, compute_binding *bindings) {
  test_random random = {11};
  for (int i = 0; i < 3; i++) {
    float values[HEADS_COUNT];
    for (int k = 0; k < HEADS_COUNT; k++) values[k] = (float)test_random_uniform(&random, -1, 1);
    bindings[i] = (compute_binding){compute_input(graph, COMPUTE_F32, heads_shape),
                                    test_tensor(test_context, COMPUTE_F32, heads_shape, values)};
  }
  return compute_scaled_attention(graph, bindings[0].node, bindings[1].node, bindings[2].node,
                                  &(compute_attention_options){0});
}

/* Records the outputs of a plan; the first has the order of rows. Returns their number. */
static size_t record_heads(compute_graph *graph, compute_node attention, company with,
                           compute_tensor *kept, compute_node *outputs) {
  const compute_node turned = compute_transpose(graph, attention, (compute_axes){4, {0, 2, 1, 3}});
  const compute_node rows =
      compute_reshape(graph, turned, COMPUTE_SHAPE(BATCH, ROWS, HEADS * WIDTH));
  outputs[0] = with == DOUBLED ? compute_add(graph, rows, rows) : with == TURNED ? turned : rows;
  outputs[1] = with == OUTPUT     ? attention
               : with == ADDED    ? compute_add(graph, attention, attention)
               : with == ASSIGNED ? compute_assign(graph, compute_parameter(graph, kept), attention)
                                  : rows;
  return with >= OUTPUT ? 2 : 1;
}

static void run_heads(company with, float *rows, float *own) {
  compute_graph *graph = compute_graph_create(test_context);
  compute_tensor *kept = test_tensor(test_context, COMPUTE_F32, heads_shape, NULL);
  compute_tensor *result[2];
  compute_binding bindings[5];
  compute_node outputs[2];
  const compute_node attention = record_attention(graph, bindings);
  const size_t count = record_heads(graph, attention, with, kept, outputs);
  compute_plan *plan = test_compile(graph, outputs, count, 0);
  char *text = NULL;
  assert_ok(compute_explain(plan, &text));
  if (with == ALONE || with == DOUBLED) assert_null(strstr(text, "  copy\n"));
  compute_text_free(text);
  const size_t bound = with == ASSIGNED ? 1 : count;
  for (size_t i = 0; i < bound; i++) {
    const compute_shape shape = compute_node_shape(graph, outputs[i]);
    result[i] = test_tensor(test_context, COMPUTE_F32, shape, NULL);
    bindings[3 + i] = (compute_binding){outputs[i], result[i]};
  }
  assert_ok(compute_run(plan, bindings, 3 + bound, NULL));
  assert_ok(compute_tensor_read(result[0], rows, sizeof(float) * HEADS_COUNT));
  if (count > 1)
    assert_ok(
        compute_tensor_read(with == ASSIGNED ? kept : result[1], own, sizeof(float) * HEADS_COUNT));
  for (size_t i = 0; i < 3 + bound; i++) compute_tensor_release(bindings[i].tensor);
  compute_tensor_release(kept);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* Attention writes its heads side by side if every reader wants this order, which saves a copy.
 * With another reader, as an output, or as a parameter's value, it has its original order. */
static void heads_are_joined_without_a_copy(void **state) {
  (void)state;
  float heads[HEADS_COUNT], expected[HEADS_COUNT], rows[HEADS_COUNT], own[HEADS_COUNT];
  run_heads(OUTPUT, expected, heads);
  for (int k = 0; k < HEADS_COUNT; k++) {
    const int column = k % WIDTH, head = k / WIDTH % HEADS, row = k / (WIDTH * HEADS) % ROWS;
    const int batch = k / (WIDTH * HEADS * ROWS);
    assert_true(expected[k] == heads[((batch * HEADS + head) * ROWS + row) * WIDTH + column]);
  }
  for (company with = ALONE; with < COMPANIES; with++) {
    run_heads(with, rows, own);
    for (int k = 0; k < HEADS_COUNT; k++) {
      assert_true(rows[k] == (with == DOUBLED ? 2 : 1) * expected[k]);
      if (with >= OUTPUT) assert_true(own[k] == (with == ADDED ? 2 : 1) * heads[k]);
    }
  }
}

static void a_chain_becomes_one_step(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(1000));
  const compute_node y = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(1000));
  const compute_node half = compute_scalar(graph, COMPUTE_F32, 0.5);
  compute_node r = compute_relu(graph, compute_add(graph, compute_mul(graph, x, y), y));
  r = compute_add(graph, compute_mul(graph, r, half), x);
  compute_plan *plan = test_compile(graph, &r, 1, 0);
  compute_plan_info info;
  assert_ok(compute_plan_describe(plan, &info));
  assert_int_equal(info.steps, 1);
  assert_int_equal(info.arena_bytes, 0);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* The temporaries of a long chain share memory: the arena does not grow with its length. */
static void the_arena_reuses_memory(void **state) {
  (void)state;
  uint64_t bytes[2];
  for (int i = 0; i < 2; i++) {
    compute_graph *graph = compute_graph_create(test_context);
    const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(100, 100));
    compute_node y = x;
    for (int k = 0; k < (i ? 40 : 4); k++) y = compute_matmul(graph, y, x);
    compute_plan *plan = test_compile(graph, &y, 1, 0);
    compute_plan_info info;
    assert_ok(compute_plan_describe(plan, &info));
    bytes[i] = info.arena_bytes;
    compute_plan_release(plan);
    compute_graph_release(graph);
  }
  assert_true(bytes[0] >= 40000);
  assert_true(bytes[1] <= 3 * 40960);
}

static void a_tensor_for_a_node_fits_it(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F16, COMPUTE_SHAPE(3, 5));
  const compute_node y = compute_sum(graph, x, COMPUTE_AXES(0), false);
  const compute_node inner = compute_neg(graph, y), z = compute_exp(graph, inner);
  compute_plan *plan = test_compile(graph, &z, 1, 0);
  compute_tensor *tensor = NULL;
  assert_ok(compute_plan_create_tensor(plan, x, &tensor));
  assert_int_equal(compute_tensor_dtype(tensor), COMPUTE_F16);
  assert_true(compute_shape_equal(compute_tensor_shape(tensor), COMPUTE_SHAPE(3, 5)));
  assert_true(compute_tensor_is_dense(tensor));
  compute_tensor_release(tensor);
  tensor = NULL;
  assert_fails(compute_plan_create_tensor(plan, inner, &tensor), COMPUTE_ERROR_BINDING);
  assert_null(tensor);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void zero_sized_graphs_run(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(0, 7));
  const compute_node y = compute_softmax(graph, compute_relu(graph, x), -1);
  const compute_node z = compute_sum(graph, y, COMPUTE_ALL_AXES, false);
  const compute_node outputs[] = {y, z};
  compute_plan *plan = test_compile(graph, outputs, 2, 0);
  compute_tensor *tx = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(0, 7), NULL);
  compute_tensor *ty = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(0, 7), NULL);
  compute_tensor *tz = test_tensor(test_context, COMPUTE_F32, COMPUTE_SCALAR, &(float){9});
  assert_ok(compute_run(plan, (compute_binding[]){{x, tx}, {y, ty}, {z, tz}}, 3, NULL));
  assert_true(test_element(tz, 0) == 0);
  compute_tensor_release(tx);
  compute_tensor_release(ty);
  compute_tensor_release(tz);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* A context with living objects refuses to close, and remains usable. */
static void a_context_with_a_living_plan_stays_open(void **state) {
  (void)state;
  compute_context *context = test_open();
  compute_graph *graph = compute_graph_create(context);
  const compute_node y = compute_full(graph, COMPUTE_F32, COMPUTE_SHAPE(3), 4);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_graph_release(graph);
  assert_fails(compute_close(context), COMPUTE_ERROR_INVALID_STATE);
  compute_tensor *out = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(3), NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{y, out}}, 1, NULL));
  assert_true(test_element(out, 2) == 4);
  compute_tensor_release(out);
  compute_plan_release(plan);
  test_close(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(constants_are_copied_into_the_plan),
      cmocka_unit_test(an_input_can_be_an_output),
      cmocka_unit_test(an_output_named_twice_is_bound_once),
      cmocka_unit_test(an_output_named_twice_can_be_bound_twice),
      cmocka_unit_test(outputs_can_be_anything_that_has_a_value),
      cmocka_unit_test(many_outputs_of_one_chain_are_all_right),
      cmocka_unit_test(a_chain_longer_than_a_program_is_right),
      cmocka_unit_test(a_sum_of_many_inputs_is_right),
      cmocka_unit_test(assignments_read_before_they_write),
      cmocka_unit_test(an_assignment_may_read_its_parameter_in_another_order),
      cmocka_unit_test(a_parameter_is_used_by_reference),
      cmocka_unit_test(a_strided_parameter_is_read_and_assigned_in_place),
      cmocka_unit_test(an_output_may_be_bound_to_the_parameter_that_it_reads),
      cmocka_unit_test(runs_on_a_queue_happen_in_order),
      cmocka_unit_test(random_numbers_depend_on_seed_and_position_only),
      cmocka_unit_test(a_plan_explains_itself),
      cmocka_unit_test(a_reshaped_product_takes_what_follows),
      cmocka_unit_test(a_transposed_product_takes_what_follows),
      cmocka_unit_test(heads_are_joined_without_a_copy),
      cmocka_unit_test(a_chain_becomes_one_step),
      cmocka_unit_test(the_arena_reuses_memory),
      cmocka_unit_test(a_tensor_for_a_node_fits_it),
      cmocka_unit_test(zero_sized_graphs_run),
      cmocka_unit_test(a_context_with_a_living_plan_stays_open),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
