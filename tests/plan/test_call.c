/* SPDX-License-Identifier: MIT */
/* Caller's functions in a graph: numbers, parts, failures, lifetimes, effects, gradients. On
 * devices other than the CPU they are CPU steps between two copies. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"

enum { COUNT = 1000 };

/* ---- Functions ------------------------------------------------------------------------------- */

/* Counters of a test function. */
typedef struct notes {
  _Atomic int calls, parts, released, gradients;
  int fail_part; /* −1: none */
  compute_status status;
  const char *words;
  char letter; /* the error that a gradient makes */
} notes;

static void note_release(void *user) {
  ((notes *)user)->released++;
}

/* y = 2 x + 1, z = the first element as i32 of it; in parts. */
static compute_status twice(void *user, const compute_call_arguments *a, int32_t part,
                            int32_t parts) {
  notes *n = user;
  const float *x = a->inputs[0].data;
  float *y = a->outputs[0].data;
  int64_t first, end;
  n->calls++;
  n->parts = parts;
  if (part == n->fail_part) {
    if (n->words) return compute_call_fail(a, n->status, "%s %d", n->words, part);
    return n->status;
  }
  assert_int_equal(a->inputs[0].count, a->outputs[0].count);
  compute_call_share(a->outputs[0].count, part, parts, &first, &end);
  for (int64_t i = first; i < end; i++) y[i] = 2 * x[i] + 1;
  if (a->output_count > 1 && part == 0) *(int32_t *)a->outputs[1].data = (int32_t)y[0];
  return COMPUTE_OK;
}

static const compute_call_output vector_output = {COMPUTE_F32, {.rank = 1, .size = {COUNT}}};

static compute_node call_twice(compute_graph *graph, notes *n, compute_node x,
                               const compute_call_options *options) {
  return compute_call(graph, twice, n, &x, 1, &vector_output, 1, options, NULL);
}

static compute_tensor *vector(void) {
  float values[COUNT];
  for (int i = 0; i < COUNT; i++) values[i] = (float)(i - 500);
  return test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(COUNT), values);
}

static compute_tensor *room(void) {
  return test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(COUNT), NULL);
}

static void check_line(const compute_tensor *t, double slope, double offset) {
  float values[COUNT];
  assert_ok(compute_tensor_read(t, values, sizeof values));
  for (int i = 0; i < COUNT; i++)
    if ((double)values[i] != slope * (i - 500) + offset)
      fail_msg("element %d is %g, expected %g", i, (double)values[i], slope * (i - 500) + offset);
}

/* A plan of one input and one output. */
static compute_status run_one(const compute_plan *plan, compute_node x, compute_node y,
                              compute_tensor *tx, compute_tensor *ty) {
  return compute_run(plan, (compute_binding[]){{x, tx}, {y, ty}}, 2, NULL);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void a_call_stands_between_operations(void **state) {
  (void)state;
  static const int32_t parts[] = {0, 1, 7, 2000, COMPUTE_CALL_PARTS_AUTOMATIC};
  for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
    for (uint32_t flags = 0; flags < 4; flags++) {
      notes n = {.fail_part = -1};
      compute_graph *graph = compute_graph_create(test_context);
      const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(COUNT));
      const compute_node y = call_twice(
          graph, &n, compute_neg(graph, x),
          &(compute_call_options){.name = "twice", .parts = parts[p], .release = note_release});
      const compute_node z = compute_sub(graph, y, compute_scalar(graph, COMPUTE_F32, 3));
      const uint32_t how = (flags & 1 ? COMPUTE_PLAN_NO_FUSION : 0) |
                           (flags & 2 ? COMPUTE_PLAN_NO_SIMPLIFICATION : 0);
      compute_plan *plan = test_compile(graph, &z, 1, how);
      compute_graph_release(graph);
      assert_int_equal(n.released, 0);
      compute_tensor *tx = vector(), *tz = room();
      for (int i = 0; i < 3; i++) assert_ok(run_one(plan, x, z, tx, tz));
      check_line(tz, -2, -2);
      const int each = parts[p] > 0 ? parts[p] : parts[p] == 0 ? 1 : n.parts;
      assert_int_equal(n.parts, each);
      assert_int_equal(n.calls, 3 * each);
      compute_plan_release(plan);
      assert_int_equal(n.released, 1);
      compute_tensor_release(tx);
      compute_tensor_release(tz);
    }
}

/* The function receives a dense operand, whatever its strides are. */
static compute_status copy(void *user, const compute_call_arguments *a, int32_t part,
                           int32_t parts) {
  (void)user;
  (void)part;
  (void)parts;
  for (uint32_t i = 0; i < a->input_count; i++)
    memcpy(a->outputs[i].data, a->inputs[i].data,
           (size_t)a->inputs[i].count * compute_dtype_size(a->inputs[i].dtype));
  return COMPUTE_OK;
}

static void operands_are_dense_whatever_they_are(void **state) {
  (void)state;
  const float w[6] = {1, 2, 3, 4, 5, 6};
  for (uint32_t flags = 0; flags < 2; flags++) {
    compute_graph *graph = compute_graph_create(test_context);
    compute_tensor *whole = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 3), w);
    compute_tensor *turned = NULL;
    assert_ok(compute_tensor_transpose_view(whole, COMPUTE_AXES(1, 0), &turned));
    const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 3));
    const compute_node in[] = {
        compute_transpose(graph, x, COMPUTE_AXES(1, 0)),
        compute_slice(graph, x, 1, 1, 2, 1),
        compute_broadcast(graph, compute_slice(graph, x, 0, 1, 1, 1), COMPUTE_SHAPE(2, 3)),
        compute_full(graph, COMPUTE_F32, COMPUTE_SHAPE(2), 7),
        compute_parameter(graph, turned),
        compute_cast(graph, x, COMPUTE_I64),
        compute_index(graph, COMPUTE_I32, COMPUTE_SHAPE(3), 0),
        compute_slice(graph, x, 0, 1, 1, 1)};
    compute_call_output out[8];
    for (int i = 0; i < 8; i++)
      out[i] =
          (compute_call_output){compute_node_dtype(graph, in[i]), compute_node_shape(graph, in[i])};
    compute_node y[8];
    compute_call(graph, copy, NULL, in, 8, out, 8, NULL, y);
    compute_plan *plan = test_compile(graph, y, 8, flags ? COMPUTE_PLAN_NO_SIMPLIFICATION : 0);
    compute_tensor *t[8];
    compute_binding b[9] = {{x, whole}};
    for (int i = 0; i < 8; i++) {
      t[i] = test_tensor(test_context, out[i].dtype, out[i].shape, NULL);
      b[i + 1] = (compute_binding){y[i], t[i]};
    }
    assert_ok(compute_run(plan, b, 9, NULL));
    static const double expected[8][6] = {
        {1, 4, 2, 5, 3, 6}, {2, 3, 5, 6},       {4, 5, 6, 4, 5, 6}, {7, 7},
        {1, 4, 2, 5, 3, 6}, {1, 2, 3, 4, 5, 6}, {0, 1, 2},          {4, 5, 6}};
    for (int i = 0; i < 8; i++) {
      for (int64_t k = 0; k < compute_tensor_count(t[i]); k++)
        assert_true(test_element(t[i], k) == expected[i][k]);
      compute_tensor_release(t[i]);
    }
    compute_plan_release(plan);
    compute_graph_release(graph);
    compute_tensor_release(turned);
    compute_tensor_release(whole);
  }
}

/* Several outputs: a plan may use any of them, one alone or one twice. */
static void any_of_several_outputs_can_be_used(void **state) {
  (void)state;
  for (int which = 1; which < 4; which++) {
    notes n = {.fail_part = -1};
    compute_graph *graph = compute_graph_create(test_context);
    const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(COUNT));
    const compute_call_output out[2] = {vector_output, {COMPUTE_I32, COMPUTE_SCALAR}};
    compute_node y[2];
    const compute_node first =
        compute_call(graph, twice, &n, &x, 1, out, 2, &(compute_call_options){.parts = 3}, y);
    assert_int_equal(first.id, y[0].id);
    assert_int_equal(compute_node_dtype(graph, y[1]), COMPUTE_I32);
    compute_node outputs[3];
    compute_binding b[4];
    compute_tensor *tx = vector(), *t[3] = {room(), NULL, NULL};
    t[1] = test_tensor(test_context, COMPUTE_I32, COMPUTE_SCALAR, NULL);
    t[2] = test_tensor(test_context, COMPUTE_I32, COMPUTE_SCALAR, NULL);
    size_t count = 0;
    b[0] = (compute_binding){x, tx};
    for (int i = 0; i < 2; i++)
      if (which >> i & 1) {
        b[count + 1] = (compute_binding){y[i], t[i]};
        outputs[count++] = y[i];
      }
    outputs[count] = compute_neg(graph, y[1]);
    b[count + 1] = (compute_binding){outputs[count], t[2]};
    compute_plan *plan = test_compile(graph, outputs, count + 1, 0);
    compute_graph_release(graph);
    assert_ok(compute_run(plan, b, count + 2, NULL));
    if (which & 1) check_line(t[0], 2, 1);
    if (which & 2) assert_true(test_element(t[1], 0) == -999);
    assert_true(test_element(t[2], 0) == 999);
    assert_int_equal(n.calls, 3);
    compute_plan_release(plan);
    compute_tensor_release(tx);
    for (int i = 0; i < 3; i++) compute_tensor_release(t[i]);
  }
}

static compute_status fill_sevens(void *user, const compute_call_arguments *a, int32_t part,
                                  int32_t parts) {
  (void)part;
  (void)parts;
  ++*(int *)user;
  for (uint32_t k = 0; k < a->output_count; k++)
    for (int64_t i = 0; i < a->outputs[k].count; i++) ((double *)a->outputs[k].data)[i] = 7;
  return COMPUTE_OK;
}

static void outputs_may_be_empty_and_inputs_none(void **state) {
  (void)state;
  int calls = 0;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_call_output out[3] = {{COMPUTE_F64, COMPUTE_SHAPE(0, 3)},
                                      {COMPUTE_F64, COMPUTE_SHAPE(2)},
                                      {COMPUTE_F64, COMPUTE_SHAPE(0)}};
  compute_node y[3], none[2];
  compute_call(graph, fill_sevens, &calls, NULL, 0, out, 3, NULL, y);
  compute_call(graph, fill_sevens, &calls, &y[0], 1, (compute_call_output[]){out[0], out[2]}, 2,
               NULL, none);
  const compute_node z = compute_sum(graph, y[1], COMPUTE_ALL_AXES, false);
  const compute_node outputs[] = {z, y[2], none[1]};
  compute_plan *plan = test_compile(graph, outputs, 3, 0);
  compute_tensor *t = test_tensor(test_context, COMPUTE_F64, COMPUTE_SCALAR, NULL);
  compute_tensor *empty = test_tensor(test_context, COMPUTE_F64, COMPUTE_SHAPE(0), NULL);
  compute_tensor *more = test_tensor(test_context, COMPUTE_F64, COMPUTE_SHAPE(0), NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{z, t}, {outputs[1], empty}, {outputs[2], more}},
                        3, NULL));
  assert_true(test_element(t, 0) == 14);
  assert_int_equal(calls, 1); /* the second call has only an empty output */
  compute_tensor_release(t);
  compute_tensor_release(empty);
  compute_tensor_release(more);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* ---- Mistakes -------------------------------------------------------------------------------- */

static compute_graph *mistaken;
static compute_node operand;
static notes owner;

#define REFUSED(expected, part, ...)                                                               \
  do {                                                                                             \
    const int before = owner.released;                                                             \
    compute_node r[9];                                                                             \
    assert_int_equal(compute_call(mistaken, __VA_ARGS__, r).id, 0);                                \
    assert_fails(compute_graph_status(mistaken), expected);                                        \
    test_check_message(test_context, part);                                                        \
    assert_int_equal(owner.released, before + 1);                                                  \
    compute_graph_clear_error(mistaken);                                                           \
  } while (0)

static void mistakes_are_named(void **state) {
  (void)state;
  mistaken = compute_graph_create(test_context);
  operand = compute_input(mistaken, COMPUTE_F32, COMPUTE_SHAPE(COUNT));
  compute_node many[17];
  for (int i = 0; i < 17; i++) many[i] = operand;
  const compute_call_options o = {.release = note_release};
  const compute_call_output *const out = &vector_output;
  const compute_call_output nine[9] = {vector_output};
  REFUSED(COMPUTE_ERROR_NULL_POINTER, "function is NULL", NULL, &owner, &operand, 1, out, 1, &o);
  REFUSED(COMPUTE_ERROR_NULL_POINTER, "inputs is NULL", twice, &owner, NULL, 1, out, 1, &o);
  REFUSED(COMPUTE_ERROR_NULL_POINTER, "outputs is NULL", twice, &owner, &operand, 1, NULL, 1, &o);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "17 inputs", twice, &owner, many, 17, out, 1, &o);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "0 outputs", twice, &owner, many, 1, out, 0, &o);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "9 outputs", twice, &owner, many, 1, nine, 9, &o);
  const compute_call_output bad[] = {{(compute_dtype)77, COMPUTE_SHAPE(1)},
                                     {COMPUTE_F32, {.rank = 99}},
                                     {COMPUTE_F32, COMPUTE_SHAPE(-1)},
                                     {COMPUTE_F32, COMPUTE_SHAPE(INT64_C(1) << 60)}};
  REFUSED(COMPUTE_ERROR_DTYPE, "invalid dtype 77", twice, &owner, many, 1, &bad[0], 1, &o);
  REFUSED(COMPUTE_ERROR_SHAPE, "rank 99", twice, &owner, many, 1, &bad[1], 1, &o);
  REFUSED(COMPUTE_ERROR_SHAPE, "negative size", twice, &owner, many, 1, &bad[2], 1, &o);
  REFUSED(COMPUTE_ERROR_OVERFLOW, "too large", twice, &owner, many, 1, &bad[3], 1, &o);
  const compute_call_options wrong[] = {{.flags = 4, .release = note_release},
                                        {.parts = -2, .release = note_release},
                                        {.parts = 65537, .release = note_release},
                                        {.reserved = {0, 1}, .release = note_release}};
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "unknown flags 0x4", twice, &owner, many, 1, out, 1,
          &wrong[0]);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "-2 parts", twice, &owner, many, 1, out, 1, &wrong[1]);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "65537 parts", twice, &owner, many, 1, out, 1, &wrong[2]);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "reserved[1]", twice, &owner, many, 1, out, 1, &wrong[3]);
  REFUSED(COMPUTE_ERROR_WRONG_GRAPH, "operand 0 is {0}", twice, &owner, &(compute_node){0}, 1, out,
          1, &o);
  compute_node results[] = {{9, 9}, {9, 9}};
  compute_call(mistaken, NULL, NULL, many, 1, out, 1, NULL, results);
  assert_int_equal(results[0].id, 0);
  const int before = owner.released;
  assert_int_equal(compute_call(NULL, twice, &owner, many, 1, out, 1, &o, NULL).id, 0);
  assert_int_equal(owner.released, before + 1);
  assert_int_equal(compute_call_fail(NULL, COMPUTE_ERROR_FILE, "x"), COMPUTE_ERROR_FILE);
  compute_graph_release(mistaken);
}

/* ---- Failures -------------------------------------------------------------------------------- */

static void a_failing_part_stops_the_run_with_its_words(void **state) {
  (void)state;
  static const struct {
    int32_t parts;
    int part;
    compute_status status, expected;
    const char *words, *message;
  } cases[] = {
      {1, 0, COMPUTE_ERROR_FORMAT, COMPUTE_ERROR_FORMAT, "bad row", "call 'twice': bad row 0"},
      {8, 5, COMPUTE_ERROR_FILE, COMPUTE_ERROR_FILE, "no data", "no data 5 (part 6 of 8)"},
      {4, 3, COMPUTE_ERROR_LAUNCH, COMPUTE_ERROR_LAUNCH, NULL, "it returned COMPUTE_ERROR_LAUNCH"},
      {1, 0, COMPUTE_ERROR_DEVICE_LOST, COMPUTE_ERROR_DEVICE_LOST, "x", "call 'twice': x 0"},
      {1, 0, COMPUTE_ERROR_INDEX, COMPUTE_ERROR_INDEX, "x", "call 'twice': x 0"},
      {1, 0, (compute_status)12345, COMPUTE_ERROR_LAUNCH, NULL, "returned 12345, which is not"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    notes n = {.fail_part = -1, .status = cases[i].status, .words = cases[i].words};
    compute_graph *graph = compute_graph_create(test_context);
    const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(COUNT));
    compute_tensor *weight = vector();
    const compute_node w = compute_parameter(graph, weight);
    const compute_node y =
        call_twice(graph, &n, x, &(compute_call_options){.name = "twice", .parts = cases[i].parts});
    /* Recorded before and after the call: if the call fails, neither may have been written. */
    const compute_node outputs[] = {y, compute_assign(graph, w, compute_add(graph, w, w))};
    compute_plan *plan = test_compile(graph, outputs, 2, 0);
    compute_tensor *tx = vector(), *ty = room();
    for (int round = 0; round < 3; round++) {
      n.fail_part = round == 1 ? cases[i].part : -1;
      n.calls = 0;
      const compute_status status = run_one(plan, x, y, tx, ty);
      if (round == 1) {
        assert_int_equal(status, cases[i].expected);
        test_check_message(test_context, cases[i].message);
        compute_error error;
        compute_error_get(test_context, &error);
        assert_string_equal(error.operation, "call");
        assert_true(n.calls <= cases[i].parts); /* and not repeated on the CPU */
        check_line(weight, 2, 0);
        continue;
      }
      assert_ok(status);
      check_line(ty, 2, 1);
      check_line(weight, round == 0 ? 2 : 4, 0);
    }
    compute_tensor_release(weight);
    compute_tensor_release(tx);
    compute_tensor_release(ty);
    compute_plan_release(plan);
    compute_graph_release(graph);
  }
}

static void a_time_limit_is_kept_after_a_call(void **state) {
  (void)state;
  notes n = {.fail_part = -1};
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(COUNT));
  compute_node y = call_twice(graph, &n, x, NULL);
  y = compute_softmax(graph, compute_sort(graph, y, 0, false), 0);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_tensor *tx = vector(), *ty = room();
  const compute_binding b[] = {{x, tx}, {y, ty}};
  assert_fails(compute_run_with(plan, b, 2, &(compute_run_options){.time_limit = 1e-9}, NULL),
               COMPUTE_ERROR_TIMEOUT);
  assert_ok(compute_run_with(plan, b, 2, &(compute_run_options){.time_limit = 600}, NULL));
  compute_tensor_release(tx);
  compute_tensor_release(ty);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* ---- Purity and effects ---------------------------------------------------------------------- */

static int calls_of(uint32_t flags, bool constant, notes *n) {
  *n = (notes){.fail_part = -1};
  float zeros[COUNT];
  for (int i = 0; i < COUNT; i++) zeros[i] = (float)(i - 500);
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(COUNT));
  const compute_node from =
      constant ? compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(COUNT), zeros) : x;
  const compute_call_options o = {.flags = flags, .release = note_release};
  const compute_node a = call_twice(graph, n, from, &o), b = call_twice(graph, n, from, &o);
  (void)call_twice(graph, n, x, &o); /* unused */
  const compute_node y = compute_add(graph, compute_add(graph, a, b), x);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_graph_release(graph);
  compute_tensor *tx = vector(), *ty = room();
  assert_ok(run_one(plan, x, y, tx, ty));
  check_line(ty, 5, 2);
  const int compiled = n->calls;
  assert_ok(run_one(plan, x, y, tx, ty));
  compute_plan_release(plan);
  compute_tensor_release(tx);
  compute_tensor_release(ty);
  assert_int_equal(n->released, 3);
  return 100 * (n->calls - compiled) + compiled;
}

static void pure_calls_merge_and_fold_and_others_do_not(void **state) {
  (void)state;
  notes n;
  assert_int_equal(calls_of(0, false, &n), 202);
  assert_int_equal(calls_of(COMPUTE_CALL_PURE, false, &n), 101);
  assert_int_equal(calls_of(0, true, &n), 202);
  /* Both are folded by a plan that does not merge nodes. */
  const int folded = calls_of(COMPUTE_CALL_PURE, true, &n);
  assert_int_equal(folded / 100, 0);
  assert_true(folded <= 2);
}

static void pure_calls_with_other_outputs_stay_apart(void **state) {
  (void)state;
  int calls = 0;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_call_options o = {.flags = COMPUTE_CALL_PURE};
  const compute_node seed = compute_input(graph, COMPUTE_F64, COMPUTE_SHAPE(2));
  const compute_call_output a[] = {{COMPUTE_F64, COMPUTE_SHAPE(2)},
                                   {COMPUTE_F64, COMPUTE_SHAPE(3)}};
  const compute_call_output b[] = {{COMPUTE_F64, COMPUTE_SHAPE(2)},
                                   {COMPUTE_F64, COMPUTE_SHAPE(4)}};
  compute_node ya[2], yb[2], yc[2];
  compute_call(graph, fill_sevens, &calls, &seed, 1, a, 2, &o, ya);
  compute_call(graph, fill_sevens, &calls, &seed, 1, b, 2, &o, yb);
  compute_call(graph, fill_sevens, &calls, &seed, 1, b, 2, &o, yc);
  const compute_node sums[] = {compute_sum(graph, ya[1], COMPUTE_ALL_AXES, false),
                               compute_sum(graph, yb[1], COMPUTE_ALL_AXES, false),
                               compute_sum(graph, yc[1], COMPUTE_ALL_AXES, false)};
  const compute_node all = compute_add(graph, compute_add(graph, sums[0], sums[1]), sums[2]);
  compute_plan *plan = test_compile(graph, &all, 1, 0);
  compute_tensor *t = test_tensor(test_context, COMPUTE_F64, COMPUTE_SCALAR, NULL);
  compute_tensor *in = test_tensor(test_context, COMPUTE_F64, COMPUTE_SHAPE(2), (double[]){1, 2});
  assert_ok(run_one(plan, seed, all, in, t));
  assert_true(test_element(t, 0) == 7 * (3 + 4 + 4));
  assert_int_equal(calls, 2);
  compute_tensor_release(in);
  compute_tensor_release(t);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* A group makes a call part of a plan; each run calls it once. */
static void a_group_needs_its_calls(void **state) {
  (void)state;
  notes log[4];
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(COUNT));
  compute_node calls[4];
  for (int i = 0; i < 4; i++) {
    log[i] = (notes){.fail_part = -1};
    calls[i] = call_twice(graph, &log[i], x, NULL);
  }
  compute_node both[] = {calls[3], calls[1], calls[1]};
  const compute_node group = compute_group(graph, both, 3);
  const compute_node outputs[] = {group, compute_add(graph, calls[2], calls[0])};
  compute_plan *plan = test_compile(graph, outputs, 2, 0);
  compute_tensor *tx = vector(), *ty = room();
  assert_ok(run_one(plan, x, outputs[1], tx, ty));
  for (int i = 0; i < 4; i++) assert_int_equal(log[i].calls, 1);
  char *text = NULL;
  assert_ok(compute_explain(plan, &text));
  assert_non_null(strstr(text, "call"));
  compute_text_free(text);
  compute_tensor_release(tx);
  compute_tensor_release(ty);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static char sequence[16];

static compute_status append(void *user, const compute_call_arguments *a, int32_t part,
                             int32_t parts) {
  (void)part;
  (void)parts;
  strncat(sequence, user, 1);
  for (int64_t i = 0; i < a->outputs[0].count; i++) ((float *)a->outputs[0].data)[i] = 1;
  return COMPUTE_OK;
}

static void effects_happen_as_recorded(void **state) {
  (void)state;
  static char letters[] = "abcdef";
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(COUNT));
  compute_node calls[6];
  for (int i = 0; i < 6; i++) {
    const compute_node from = i % 2 ? compute_sort(graph, compute_neg(graph, x), 0, true) : x;
    const compute_call_output small = {COMPUTE_F32, COMPUTE_SHAPE(i % 3 ? 2 : 100000)};
    calls[i] = compute_call(graph, append, &letters[i], &from, 1, &small, 1, NULL, NULL);
  }
  const compute_node group = compute_group(graph, calls, 6);
  compute_plan *plan = test_compile(graph, &group, 1, 0);
  compute_tensor *tx = vector();
  for (int i = 0; i < 2; i++) {
    sequence[0] = 0;
    assert_ok(compute_run(plan, &(compute_binding){x, tx}, 1, NULL));
    assert_string_equal(sequence, letters);
  }
  compute_tensor_release(tx);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* y0 = a² b, y1 = a + 3 b (element by element), y2 = 0 (i32) */
static compute_status polynomial(void *user, const compute_call_arguments *arguments, int32_t part,
                                 int32_t parts) {
  const double *a = arguments->inputs[0].data, *b = arguments->inputs[1].data;
  double *y0 = arguments->outputs[0].data, *y1 = arguments->outputs[1].data;
  int64_t first, end;
  (void)user;
  compute_call_share(arguments->inputs[0].count, part, parts, &first, &end);
  for (int64_t i = first; i < end; i++) {
    y0[i] = a[i] * a[i] * b[i];
    y1[i] = a[i] + 3 * b[i];
  }
  if (part == 0) *(int32_t *)arguments->outputs[2].data = 0;
  return COMPUTE_OK;
}

static compute_status polynomial_gradient(void *user, compute_graph *g, const compute_node *in,
                                          const compute_node *out, const compute_node *up,
                                          compute_node *down) {
  notes *n = user;
  n->gradients++;
  assert_int_equal(up[2].id, 0);
  assert_int_equal(compute_node_dtype(g, out[2]), COMPUTE_I32);
  const compute_node ab = compute_mul(g, in[0], in[1]);
  const compute_node two_ab = compute_add(g, ab, ab);
  down[0] = compute_add(g, compute_mul(g, up[0], two_ab), up[1]);
  if (n->letter == 'z') return COMPUTE_OK; /* nothing for b */
  down[1] = compute_add(g, compute_mul(g, up[0], compute_square(g, in[0])),
                        compute_mul(g, up[1], compute_scalar(g, COMPUTE_F64, 3)));
  if (n->letter == 's') down[1] = compute_sum(g, down[1], COMPUTE_ALL_AXES, false);
  return n->letter == 'f' ? COMPUTE_ERROR_INVALID_STATE : COMPUTE_OK;
}

typedef struct polynomial_case {
  compute_graph *graph;
  compute_node a, b, y[3], loss, gradient[2];
} polynomial_case;

/* A loss of the outputs selected by `used`, a bit mask. */
static polynomial_case record_polynomial(notes *n, unsigned used, bool differentiable) {
  polynomial_case c = {.graph = compute_graph_create(test_context)};
  const compute_shape shape = COMPUTE_SHAPE(5);
  c.a = compute_input(c.graph, COMPUTE_F64, shape);
  c.b = compute_input(c.graph, COMPUTE_F64, shape);
  const compute_call_output out[] = {
      {COMPUTE_F64, shape}, {COMPUTE_F64, shape}, {COMPUTE_I32, COMPUTE_SCALAR}};
  compute_call(c.graph, polynomial, n, (compute_node[]){c.a, compute_sin(c.graph, c.b)}, 2, out, 3,
               &(compute_call_options){.name = "polynomial",
                                       .parts = 2,
                                       .gradient = differentiable ? polynomial_gradient : NULL},
               c.y);
  compute_node sum = compute_scalar(c.graph, COMPUTE_F64, 0);
  for (unsigned i = 0; i < 2; i++)
    if (used >> i & 1) sum = compute_add(c.graph, sum, compute_exp(c.graph, c.y[i]));
  c.loss = compute_sum(c.graph, sum, COMPUTE_ALL_AXES, false);
  return c;
}

static double loss_at(const compute_plan *plan, const polynomial_case *c, const double *a,
                      const double *b, compute_tensor *const *g) {
  compute_tensor *ta = test_tensor(test_context, COMPUTE_F64, COMPUTE_SHAPE(5), a);
  compute_tensor *tb = test_tensor(test_context, COMPUTE_F64, COMPUTE_SHAPE(5), b);
  compute_tensor *tl = test_tensor(test_context, COMPUTE_F64, COMPUTE_SCALAR, NULL);
  assert_ok(compute_run(
      plan,
      (compute_binding[]){
          {c->a, ta}, {c->b, tb}, {c->loss, tl}, {c->gradient[0], g[0]}, {c->gradient[1], g[1]}},
      5, NULL));
  const double loss = test_element(tl, 0);
  compute_tensor_release(ta);
  compute_tensor_release(tb);
  compute_tensor_release(tl);
  return loss;
}

static void gradients_are_those_of_differences(void **state) {
  (void)state;
  compute_device_info info;
  assert_ok(compute_device_describe(compute_default_device(test_context), &info));
  for (unsigned used = 1; used < 4; used++) {
    notes n = {.fail_part = -1};
    polynomial_case c = record_polynomial(&n, used, true);
    assert_ok(compute_gradients(c.graph, c.loss, (compute_node[]){c.a, c.b}, 2, c.gradient));
    assert_int_equal(n.gradients, 1);
    compute_plan *plan =
        test_compile(c.graph, (compute_node[]){c.loss, c.gradient[0], c.gradient[1]}, 3, 0);
    double x[2][5] = {{0.5, -0.3, 0.2, 0.7, -0.1}, {0.1, 0.4, -0.6, 0.3, 0.9}}, slope[2][5];
    compute_tensor *g[2];
    for (int i = 0; i < 2; i++)
      g[i] = test_tensor(test_context, COMPUTE_F64, COMPUTE_SHAPE(5), NULL);
    loss_at(plan, &c, x[0], x[1], g);
    for (int i = 0; i < 2; i++) assert_ok(compute_tensor_read(g[i], slope[i], sizeof slope[i]));
    for (int k = 0; k < 2; k++)
      for (int i = 0; i < 5; i++) {
        const double here = x[k][i], h = 1e-6;
        x[k][i] = here + h;
        const double above = loss_at(plan, &c, x[0], x[1], g);
        x[k][i] = here - h;
        const double below = loss_at(plan, &c, x[0], x[1], g);
        x[k][i] = here;
        assert_true(fabs((above - below) / (2 * h) - slope[k][i]) < 1e-7);
      }
    for (int i = 0; i < 2; i++) compute_tensor_release(g[i]);
    compute_plan_release(plan);
    compute_graph_release(c.graph);
  }
}

static void gradients_that_cannot_be_had_are_refused(void **state) {
  (void)state;
  notes n = {.fail_part = -1};
  polynomial_case c = record_polynomial(&n, 3, false);
  const compute_node of[] = {c.a, c.b};
  assert_fails(compute_gradients(c.graph, c.loss, of, 2, c.gradient),
               COMPUTE_ERROR_NOT_DIFFERENTIABLE);
  test_check_message(test_context, "call 'polynomial' has no gradient");
  compute_graph_release(c.graph);
  n.letter = 's';
  c = record_polynomial(&n, 3, true);
  assert_fails(compute_gradients(c.graph, c.loss, of, 2, c.gradient), COMPUTE_ERROR_WRONG_GRAPH);
  compute_graph_clear_error(c.graph);
  const compute_node own[] = {c.a, c.b};
  assert_fails(compute_gradients(c.graph, c.loss, own, 2, c.gradient), COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "gives f64 [] for input 1, which is f64 [5]");
  compute_graph_clear_error(c.graph);
  n.letter = 'f';
  assert_fails(compute_gradients(c.graph, c.loss, own, 2, c.gradient), COMPUTE_ERROR_INVALID_STATE);
  compute_graph_clear_error(c.graph);
  n.letter = 'z'; /* no gradient counts as zero */
  assert_ok(compute_gradients(c.graph, c.loss, own, 2, c.gradient));
  compute_plan *plan = test_compile(c.graph, &c.gradient[1], 1, 0);
  compute_tensor *g = test_tensor(test_context, COMPUTE_F64, COMPUTE_SHAPE(5), NULL);
  assert_ok(compute_run(plan, &(compute_binding){c.gradient[1], g}, 1, NULL));
  for (int i = 0; i < 5; i++) assert_true(test_element(g, i) == 0);
  compute_tensor_release(g);
  compute_plan_release(plan);
  compute_graph_release(c.graph);
}

/* ---- Several at once ------------------------------------------------------------------------- */

typedef struct shared {
  const compute_plan *plan;
  compute_node x, y;
  _Atomic int wrong;
} shared;

static void *run_often(void *argument) {
  shared *s = argument;
  compute_tensor *tx = vector(), *ty = room();
  for (int i = 0; i < 50; i++) {
    float values[COUNT];
    if (run_one(s->plan, s->x, s->y, tx, ty) != COMPUTE_OK ||
        compute_tensor_read(ty, values, sizeof values) != COMPUTE_OK || values[7] != -985)
      s->wrong++;
  }
  compute_tensor_release(tx);
  compute_tensor_release(ty);
  return NULL;
}

static void several_threads_run_one_plan(void **state) {
  (void)state;
  notes n = {.fail_part = -1};
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(COUNT));
  const compute_node y = call_twice(graph, &n, x, &(compute_call_options){.parts = 4});
  shared s = {.plan = test_compile(graph, &y, 1, 0), .x = x, .y = y};
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_often, &s), 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  assert_int_equal(s.wrong, 0);
  assert_int_equal(n.calls, 4 * 50 * 4);
  compute_plan_release((compute_plan *)s.plan);
  compute_graph_release(graph);
}

static void jobs_run_calls_and_end_with_their_failure(void **state) {
  (void)state;
  notes n = {.fail_part = -1, .status = COMPUTE_ERROR_FORMAT, .words = "stop"};
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(COUNT));
  const compute_node y = call_twice(graph, &n, x, &(compute_call_options){.release = note_release});
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_graph_release(graph);
  compute_tensor *tx = vector(), *ty = room();
  for (int round = 0; round < 2; round++) {
    compute_job *job = NULL;
    n.fail_part = round == 0 ? 0 : -1;
    assert_ok(compute_submit(plan, (compute_binding[]){{x, tx}, {y, ty}}, 2, NULL, &job));
    const compute_status status = compute_job_wait(job, 0);
    assert_int_equal(status, round == 0 ? COMPUTE_ERROR_FORMAT : COMPUTE_OK);
    compute_job_release(job);
  }
  check_line(ty, 2, 1);
  compute_plan_release(plan);
  assert_int_equal(n.released, 1);
  compute_tensor_release(tx);
  compute_tensor_release(ty);
}

/* ---- Other devices --------------------------------------------------------------------------- */

/* Strict plans accept calls, and no call counts as a fallback. */
static void on_another_device_a_call_is_no_fallback(void **state) {
  (void)state;
  notes n = {.fail_part = -1};
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(COUNT));
  const compute_node y = call_twice(graph, &n, x, &(compute_call_options){.name = "mine"});
  compute_device *null_device = NULL;
  assert_ok(compute_device_by_name(test_context, "null:0", &null_device));
  compute_device *devices[] = {compute_default_device(test_context), null_device};
  for (int i = 0; i < 2; i++) {
    compute_plan *plan = NULL;
    compute_plan_info info;
    char *text = NULL;
    assert_ok(compute_compile(
        graph, &y, 1,
        &(compute_plan_options){.device = devices[i], .fallback = COMPUTE_FALLBACK_STRICT}, &plan));
    assert_ok(compute_plan_describe(plan, &info));
    assert_int_equal(info.fallbacks, 0);
    assert_int_equal(info.steps, 1);
    assert_ok(compute_explain(plan, &text));
    assert_non_null(strstr(text, "call 'mine'"));
    compute_text_free(text);
    compute_tensor *tx = vector(), *ty = room();
    assert_ok(run_one(plan, x, y, tx, ty));
    check_line(ty, 2, 1);
    compute_tensor_release(tx);
    compute_tensor_release(ty);
    compute_plan_release(plan);
  }
  compute_plan *plan = NULL;
  assert_ok(
      compute_compile(graph, &y, 1, &(compute_plan_options){.flags = COMPUTE_PLAN_AUTO}, &plan));
  compute_tensor *tx = vector(), *ty = room();
  assert_ok(run_one(plan, x, y, tx, ty));
  check_line(ty, 2, 1);
  compute_tensor_release(tx);
  compute_tensor_release(ty);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_call_stands_between_operations),
      cmocka_unit_test(operands_are_dense_whatever_they_are),
      cmocka_unit_test(any_of_several_outputs_can_be_used),
      cmocka_unit_test(outputs_may_be_empty_and_inputs_none),
      cmocka_unit_test(mistakes_are_named),
      cmocka_unit_test(a_failing_part_stops_the_run_with_its_words),
      cmocka_unit_test(a_time_limit_is_kept_after_a_call),
      cmocka_unit_test(pure_calls_merge_and_fold_and_others_do_not),
      cmocka_unit_test(pure_calls_with_other_outputs_stay_apart),
      cmocka_unit_test(a_group_needs_its_calls),
      cmocka_unit_test(effects_happen_as_recorded),
      cmocka_unit_test(gradients_are_those_of_differences),
      cmocka_unit_test(gradients_that_cannot_be_had_are_refused),
      cmocka_unit_test(several_threads_run_one_plan),
      cmocka_unit_test(jobs_run_calls_and_end_with_their_failure),
      cmocka_unit_test(on_another_device_a_call_is_no_fallback),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
