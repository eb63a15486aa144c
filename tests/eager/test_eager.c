/* SPDX-License-Identifier: MIT */
/* Eager calls: each one agrees with the reference evaluator on the graph of this operation. Plans
 * are cached, evicted, and shared between threads, and errors are reported. */
#include "support/harness/test.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "compute/eager_array.h"
#include "core/device/device.h"
#include "plan/eager/eager.h"
#include "graph/node/graph.h"
#include "support/harness/failing_allocator.h"
#include "support/reference/graph_evaluate.h"
#include "support/harness/values.h"
#include "support/samples/operation_options.h"

enum { MOST_OPERANDS = 3, MOST_ELEMENTS = 64 };

/* An operand: random numbers in low … high; integers for integer dtypes and bool. */
typedef struct operand {
  compute_dtype dtype;
  compute_shape shape;
  double low, high;
} operand;

typedef struct eager_case {
  const char *name;
  compute_node (*build)(compute_graph *graph, const compute_node *x);
  compute_status (*run)(compute_tensor *const *x, compute_tensor **result);
  int count;
  operand operands[MOST_OPERANDS];
  double ulp;     /* tolerance, in f32 */
  bool norm_wise; /* in units of the largest element */
} eager_case;

static size_t cached_plans(compute_context *context) {
  struct eager_cache *cache = slot_get(&context->slots, &eager_slot);
  return cache ? eager_cache_count(cache) : 0;
}

/* A tensor of `o` on the device, with the same numbers as double. */
static compute_tensor *fill(const operand *o, uint64_t seed, double *numbers) {
  test_values values = test_values_create(o->dtype, o->shape);
  test_values_fill(&values, FILL_RANGE, o->low, o->high, seed);
  assert_in_range(values.count, 0, MOST_ELEMENTS);
  for (int64_t i = 0; i < values.count; i++) numbers[i] = test_values_get(&values, i);
  compute_tensor *tensor = test_tensor(test_context, o->dtype, o->shape, values.data);
  test_values_release(&values);
  return tensor;
}

/* Errors of transforms and of linear algebra are bounded relative to the norm of the result, as in
 * the tests of LAPACK: an element that cancels is not accurate by itself. */
static test_tolerance tolerance_of(const eager_case *c, const evaluate_value *expected) {
  if (!c->norm_wise) return (test_tolerance){.ulp = c->ulp};
  double largest = 0;
  for (int64_t i = 0; i < expected->count; i++)
    largest = fmax(largest, fabs(evaluate_get(expected, i)));
  return (test_tolerance){.atol = c->ulp * test_spacing(expected->dtype, largest)};
}

static void compare(const eager_case *c, const compute_tensor *actual,
                    const evaluate_value *expected) {
  const test_tolerance tolerance = tolerance_of(c, expected);
  assert_int_equal(compute_tensor_dtype(actual), expected->dtype);
  assert_true(compute_shape_equal(compute_tensor_shape(actual), expected->shape));
  assert_true(compute_tensor_is_dense(actual));
  test_values values = test_values_create(expected->dtype, expected->shape);
  assert_ok(compute_tensor_read(actual, values.data, values.bytes));
  for (int64_t i = 0; i < values.count; i++) {
    const double a = test_values_get(&values, i), e = evaluate_get(expected, i);
    if (!test_close_enough(expected->dtype, a, e, &tolerance, NULL)) {
      fail_msg("%s: element %lld: %.9g instead of %.9g", c->name, (long long)i, a, e);
    }
  }
  test_values_release(&values);
}

static void check(const eager_case *c) {
  compute_graph *graph = compute_graph_create(test_context);
  compute_tensor *tensors[MOST_OPERANDS] = {NULL}, *result = NULL;
  compute_node nodes[MOST_OPERANDS];
  double numbers[MOST_OPERANDS][MOST_ELEMENTS];
  evaluate_binding bindings[MOST_OPERANDS];
  evaluate_value expected;
  char reason[128];
  for (int k = 0; k < c->count; k++) {
    tensors[k] = fill(&c->operands[k], (uint64_t)k + 5, numbers[k]);
    nodes[k] = compute_input(graph, c->operands[k].dtype, c->operands[k].shape);
    bindings[k] = (evaluate_binding){.node = nodes[k], .real = numbers[k]};
  }
  compute_node y = c->build(graph, nodes);
  assert_ok(compute_graph_status(graph));
  if (!graph_evaluate(graph, bindings, (size_t)c->count, &y, 1, &expected, reason, sizeof reason)) {
    fail_msg("%s: %s", c->name, reason);
  }
  assert_ok(c->run(tensors, &result));
  compare(c, result, &expected);
  compute_tensor_release(result);
  const size_t plans = cached_plans(test_context);
  assert_ok(c->run(tensors, &result));
  compare(c, result, &expected);
  assert_int_equal(cached_plans(test_context), plans);
  compute_tensor_release(result);
  evaluate_release(&expected);
  for (int k = 0; k < c->count; k++) compute_tensor_release(tensors[k]);
  compute_graph_release(graph);
}

/* ---- Elementwise: all of ops.def ----------------------------------------------------------- */

#define NODES_1   graph, x[0]
#define NODES_2   graph, x[0], x[1]
#define NODES_3   graph, x[0], x[1], x[2]
#define TENSORS_1 x[0]
#define TENSORS_2 x[0], x[1]
#define TENSORS_3 x[0], x[1], x[2]
#define ELEMENTWISE(name, arity, ...)                                                              \
  static compute_node build_##name(compute_graph *graph, const compute_node *x) {                  \
    return compute_##name(NODES_##arity);                                                          \
  }                                                                                                \
  static compute_status run_##name(compute_tensor *const *x, compute_tensor **result) {            \
    return compute_tensor_##name(TENSORS_##arity, result);                                         \
  }
#define SCALED(name, ...)                                                                          \
  static compute_node build_##name(compute_graph *graph, const compute_node *x) {                  \
    return compute_##name(graph, x[0], 0.3);                                                       \
  }                                                                                                \
  static compute_status run_##name(compute_tensor *const *x, compute_tensor **result) {            \
    return compute_tensor_##name(x[0], 0.3, result);                                               \
  }
#include "graph/ops.def"

static const eager_case elementwise[OP_COUNT] = {
#define ELEMENTWISE(op, arity, ...)                                                                \
  [OP_##op] = {.name = #op, .build = build_##op, .run = run_##op, .count = arity},
#define SCALED(op, ...) [OP_##op] = {.name = #op, .build = build_##op, .run = run_##op, .count = 1},
#include "graph/ops.def"
};

static void every_elementwise_call_agrees_with_its_graph(void **state) {
  (void)state;
  const compute_shape shapes[] = {COMPUTE_SHAPE(3, 1, 5), COMPUTE_SHAPE(2, 5), COMPUTE_SHAPE(1, 5)};
  for (int op = OP_NONE + 1; op < OP_COUNT; op++) {
    const graph_op_info *info = graph_op_describe((graph_op)op);
    eager_case c = elementwise[op];
    if (!c.run) continue;
    c.ulp = info->ulp + 1;
    for (int k = 0; k < c.count; k++) {
      const bool logic = info->domain == DOMAIN_LOGIC || (op == OP_select && k == 0);
      const compute_dtype dtype =
          logic                                                                      ? COMPUTE_BOOL
          : info->domain == DOMAIN_INTEGER || info->domain == DOMAIN_ORDERED_INTEGER ? COMPUTE_I32
                                                                                     : COMPUTE_F32;
      c.operands[k] = (operand){dtype, shapes[k], info->low, info->high};
      if (logic) c.operands[k].low = 0, c.operands[k].high = 1;
    }
    check(&c);
  }
}

/* ---- The others ---------------------------------------------------------------------------- */

#define EAGER(name, ulp, expression, call, ...)                                                    \
  static compute_node build_##name(compute_graph *g, const compute_node *x) {                      \
    (void)x;                                                                                       \
    return expression;                                                                             \
  }                                                                                                \
  static compute_status run_##name(compute_tensor *const *x, compute_tensor **result) {            \
    (void)x;                                                                                       \
    return call;                                                                                   \
  }
#include "operations.def"

#define FLOATS(...)                                                                                \
  { COMPUTE_F32, COMPUTE_SHAPE(__VA_ARGS__), -2, 2 }
#define BYTES(...)                                                                                 \
  { COMPUTE_I8, COMPUTE_SHAPE(__VA_ARGS__), -128, 127 }
#define INDICES(count, ...)                                                                        \
  { COMPUTE_I64, COMPUTE_SHAPE(__VA_ARGS__), 0, (count)-1 }
#define SIGNED_INDICES(count, ...)                                                                 \
  { COMPUTE_I64, COMPUTE_SHAPE(__VA_ARGS__), -(count), (count)-1 }
#define SEED                                                                                       \
  { COMPUTE_I64, COMPUTE_SCALAR, 0, 1e9 }
#define NOTHING                                                                                    \
  { .dtype = COMPUTE_DTYPE_NONE }

static void every_other_call_agrees_with_its_graph(void **state) {
  (void)state;
  eager_case cases[] = {
#define EAGER(name, ulp, expression, call, ...)                                                    \
  {#name, build_##name, run_##name, 0, {__VA_ARGS__}, ulp, false},
#define EAGER_NORM(name, ulp, expression, call, ...)                                               \
  {#name, build_##name, run_##name, 0, {__VA_ARGS__}, ulp, true},
#include "operations.def"
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    eager_case *c = &cases[i];
    while (c->count < MOST_OPERANDS && c->operands[c->count].dtype != COMPUTE_DTYPE_NONE)
      c->count++;
    check(c);
  }
}

static void operands_may_be_views_and_the_same_tensor(void **state) {
  (void)state;
  const float values[] = {1, 2, 3, 4, 5, 6};
  compute_tensor *x = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 3), values);
  compute_tensor *turned, *product = NULL, *squares = NULL;
  assert_ok(compute_tensor_transpose_view(x, COMPUTE_ALL_AXES, &turned));
  assert_ok(compute_tensor_matmul(x, turned, &product));
  assert_true(test_element(product, 0) == 14 && test_element(product, 3) == 77);
  assert_ok(compute_tensor_mul(x, x, &squares));
  assert_true(test_element(squares, 5) == 36);
  compute_tensor_release(squares);
  compute_tensor_release(product);
  compute_tensor_release(turned);
  compute_tensor_release(x);
}

/* ---- The cache ----------------------------------------------------------------------------- */

static void exponential_of(compute_context *context, int64_t count) {
  compute_tensor *x = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(count), NULL), *y = NULL;
  const float zeros[MOST_ELEMENTS * 8] = {0};
  assert_ok(compute_tensor_write(x, zeros, (size_t)count * sizeof *zeros));
  assert_ok(compute_tensor_exp(x, &y));
  assert_true(test_element(y, count - 1) == 1);
  compute_tensor_release(x);
  compute_tensor_release(y);
}

static void the_least_recently_used_plans_are_forgotten(void **state) {
  (void)state;
  compute_context *context = test_open();
  exponential_of(context, 1);
  for (int64_t count = 2; count <= EAGER_CACHE_LIMIT + 20; count++) {
    exponential_of(context, count);
    exponential_of(context, 1); /* stays in use */
    const size_t made = (size_t)count;
    assert_int_equal(cached_plans(context), made < EAGER_CACHE_LIMIT ? made : EAGER_CACHE_LIMIT);
  }
  test_close(context);
}

static void attributes_dtypes_and_shapes_make_different_plans(void **state) {
  (void)state;
  compute_context *context = test_open();
  const float values[] = {-2, 3};
  compute_tensor *x = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(2), values);
  compute_tensor *row = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(1, 2), values);
  compute_tensor *result = NULL;
  assert_ok(compute_tensor_leaky_relu(x, 0.5, &result));
  assert_true(test_element(result, 0) == -1);
  compute_tensor_release(result);
  assert_ok(compute_tensor_leaky_relu(x, 0.25, &result));
  assert_true(test_element(result, 0) == -0.5);
  compute_tensor_release(result);
  assert_int_equal(cached_plans(context), 2);
  assert_ok(compute_tensor_leaky_relu(row, 0.25, &result));
  compute_tensor_release(result);
  assert_int_equal(cached_plans(context), 3);
  /* Values past the end of a list are ignored. */
  for (int32_t rubbish = 0; rubbish < 2; rubbish++) {
    compute_axes axes = COMPUTE_AXES(1);
    axes.axis[3] = rubbish;
    assert_ok(compute_tensor_sum(row, axes, false, &result));
    compute_tensor_release(result);
    assert_int_equal(cached_plans(context), 4);
  }
  compute_tensor_release(x);
  compute_tensor_release(row);
  test_close(context);
}

static void *call_often(void *argument) {
  compute_context *context = argument;
  int64_t wrong = 0;
  for (int round = 0; round < 60; round++) {
    const int64_t count = 1 + round % 7;
    const float ones[7] = {1, 1, 1, 1, 1, 1, 1};
    float sums[7] = {0};
    compute_tensor *x = NULL, *y = NULL;
    wrong += compute_tensor_from_host(compute_default_device(context), COMPUTE_F32,
                                      COMPUTE_SHAPE(count), ones, &x) != COMPUTE_OK;
    wrong += compute_tensor_add(x, x, &y) != COMPUTE_OK;
    wrong += compute_tensor_read(y, sums, (size_t)count * sizeof *sums) != COMPUTE_OK;
    wrong += sums[count - 1] != 2.0f;
    compute_tensor_release(x);
    compute_tensor_release(y);
  }
  return (void *)(intptr_t)wrong;
}

static void several_threads_share_the_cache(void **state) {
  (void)state;
  compute_context *context = test_open();
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, call_often, context), 0);
  }
  for (int i = 0; i < 4; i++) {
    void *wrong = NULL;
    pthread_join(threads[i], &wrong);
    assert_null(wrong);
  }
  assert_int_equal(cached_plans(context), 7);
  test_close(context);
}

/* ---- Errors -------------------------------------------------------------------------------- */

static void mistakes_are_explained_and_leave_the_result_alone(void **state) {
  (void)state;
  const float values[12] = {0};
  compute_tensor *a = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3, 4), values);
  compute_tensor *b = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(5), values);
  compute_tensor *i = test_tensor(test_context, COMPUTE_I32, COMPUTE_SHAPE(5), values);
  compute_tensor *result = a;
  assert_fails(compute_tensor_add(a, b, &result), COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "add: shapes [3,4] and [5] do not broadcast");
  assert_fails(compute_tensor_mul(b, i, &result), COMPUTE_ERROR_DTYPE);
  assert_fails(compute_tensor_exp(i, &result), COMPUTE_ERROR_DTYPE);
  assert_fails(compute_tensor_exp(NULL, &result), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_exp(a, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_add(a, NULL, &result), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_concat(NULL, 1, 0, &result), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_concat(&a, 0, 0, &result), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_tensor_layer_norm(NULL, a, a, 0, &result), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_index(NULL, COMPUTE_I32, COMPUTE_SHAPE(2), 0, &result),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_sum(a, (compute_axes){.count = 99}, false, &result),
               COMPUTE_ERROR_SHAPE);
  assert_fails(compute_tensor_reshape(a, (compute_shape){.rank = -5}, &result),
               COMPUTE_ERROR_SHAPE);
  assert_ptr_equal(result, a);
  compute_tensor_release(a);
  compute_tensor_release(b);
  compute_tensor_release(i);
}

static void operands_of_two_contexts_are_refused(void **state) {
  (void)state;
  compute_context *other = test_open();
  compute_tensor *a = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2), NULL);
  compute_tensor *b = test_tensor(other, COMPUTE_F32, COMPUTE_SHAPE(2), NULL), *result = NULL;
  assert_fails(compute_tensor_add(a, b, &result), COMPUTE_ERROR_WRONG_CONTEXT);
  compute_tensor_release(a);
  compute_tensor_release(b);
  test_close(other);
}

static void an_index_outside_its_axis_fails_the_call(void **state) {
  (void)state;
  const float values[] = {1, 2, 3};
  const int64_t indices[] = {0, 3};
  compute_tensor *x = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3), values);
  compute_tensor *i = test_tensor(test_context, COMPUTE_I64, COMPUTE_SHAPE(2), indices);
  compute_tensor *result = NULL;
  assert_fails(compute_tensor_gather(x, i, 0, &result), COMPUTE_ERROR_INDEX);
  assert_null(result);
  compute_tensor_release(x);
  compute_tensor_release(i);
}

static void forget_plans(compute_context *context) {
  slots_release(&context->slots, SLOT_HOLDS_OBJECTS);
}

/* Fails every allocation of a call once. `cold` calls must compile first. */
static void fail_every_allocation(compute_context *context, const compute_tensor *x, bool cold) {
  int64_t failures = 1;
  for (int64_t number = 1; failures > 0; number++) {
    compute_tensor *y = NULL;
    if (cold) forget_plans(context);
    failing_allocator_arm(number, false);
    const compute_status status = compute_tensor_softmax(x, 0, &y);
    failures = failing_allocator_failures();
    failing_allocator_arm(0, false);
    if (status) {
      assert_true(failures > 0 && !y);
      assert_true(status == COMPUTE_ERROR_OUT_OF_MEMORY ||
                  status == COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY);
    } else {
      assert_true(test_element(y, 3) == 0.25); /* another method may succeed */
    }
    compute_tensor_release(y);
  }
}

static void a_failed_allocation_leaves_nothing_behind(void **state) {
  (void)state;
  failing_allocator_install();
  compute_context *context = test_open();
  const float zeros[4] = {0};
  compute_tensor *x = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(4), zeros);
  fail_every_allocation(context, x, true);
  fail_every_allocation(context, x, false);
  compute_tensor_release(x);
  test_close(context);
  assert_int_equal(failing_allocator_remove(), 0);
}

int main(void) {
  const struct CMUnitTest without_context[] = {
      cmocka_unit_test(a_failed_allocation_leaves_nothing_behind),
  };
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_elementwise_call_agrees_with_its_graph),
      cmocka_unit_test(every_other_call_agrees_with_its_graph),
      cmocka_unit_test(operands_may_be_views_and_the_same_tensor),
      cmocka_unit_test(the_least_recently_used_plans_are_forgotten),
      cmocka_unit_test(attributes_dtypes_and_shapes_make_different_plans),
      cmocka_unit_test(several_threads_share_the_cache),
      cmocka_unit_test(mistakes_are_explained_and_leave_the_result_alone),
      cmocka_unit_test(operands_of_two_contexts_are_refused),
      cmocka_unit_test(an_index_outside_its_axis_fails_the_call),
  };
  return cmocka_run_group_tests(without_context, NULL, NULL) +
         cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
