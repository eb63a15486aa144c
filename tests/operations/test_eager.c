/* SPDX-License-Identifier: MIT */
/* Eager calls give the same bits as a plan of the same operation, also for views, and leak nothing
 * on failure. */
#include <string.h>

#include "support/samples/elementwise.h"
#include "support/harness/guarded.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"

typedef compute_status (*eager1)(const compute_tensor *, compute_tensor **);
typedef compute_status (*eager2)(const compute_tensor *, const compute_tensor *, compute_tensor **);
typedef compute_status (*eager3)(const compute_tensor *, const compute_tensor *,
                                 const compute_tensor *, compute_tensor **);
typedef compute_status (*eager_scaled)(const compute_tensor *, double, compute_tensor **);

typedef struct eager_row {
  const char *name;
  eager1 call1;
  eager2 call2;
  eager3 call3;
  eager_scaled scaled;
} eager_row;

/* In the order of ops.def, like elementwise_at. */
static const eager_row eager_rows[] = {
#define ELEMENTWISE(name_, arity, ...) {.name = #name_, .call##arity = compute_tensor_##name_},
#define SCALED(name_, ...)             {.name = #name_, .scaled = compute_tensor_##name_},
#include "graph/ops.def"
};

static compute_tensor *call(const eager_row *row, double scalar, compute_tensor *const *x) {
  compute_tensor *result = NULL;
  if (row->scaled)
    assert_ok(row->scaled(x[0], scalar, &result));
  else if (row->call1)
    assert_ok(row->call1(x[0], &result));
  else if (row->call2)
    assert_ok(row->call2(x[0], x[1], &result));
  else
    assert_ok(row->call3(x[0], x[1], x[2], &result));
  return result;
}

/* The same operation as a plan. */
static compute_tensor *run_plan(const elementwise_row *row, compute_tensor *const *x) {
  compute_graph *graph = compute_graph_create(test_context);
  compute_node nodes[3];
  compute_binding bindings[4];
  for (int i = 0; i < row->arity; i++) {
    nodes[i] = compute_input(graph, compute_tensor_dtype(x[i]), compute_tensor_shape(x[i]));
    bindings[i] = (compute_binding){nodes[i], x[i]};
  }
  const compute_node y = elementwise_build(graph, nodes, row);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_tensor *result = NULL;
  assert_ok(compute_plan_create_tensor(plan, y, &result));
  bindings[row->arity] = (compute_binding){y, result};
  assert_ok(compute_run(plan, bindings, (size_t)row->arity + 1, NULL));
  compute_plan_release(plan);
  compute_graph_release(graph);
  return result;
}

static void assert_same_bits(const compute_tensor *a, const compute_tensor *b, const char *name) {
  char left[4096], right[4096];
  const size_t bytes =
      (size_t)compute_tensor_count(a) * compute_dtype_size(compute_tensor_dtype(a));
  assert_int_equal(compute_tensor_dtype(a), compute_tensor_dtype(b));
  assert_true(compute_shape_equal(compute_tensor_shape(a), compute_tensor_shape(b)));
  assert_true(bytes <= sizeof left);
  assert_ok(compute_tensor_read(a, left, bytes));
  assert_ok(compute_tensor_read(b, right, bytes));
  if (memcmp(left, right, bytes) != 0) fail_msg("%s: eager call and plan differ", name);
}

static void every_elementwise_call_gives_what_its_plan_gives(void **state) {
  (void)state;
  compute_device *device = compute_default_device(test_context);
  const elementwise_row *row;
  for (size_t i = 0; (row = elementwise_at(i)) != NULL; i++) {
    assert_string_equal(row->name, eager_rows[i].name);
    for (const compute_dtype *dtype = operation_dtypes(row->domain); *dtype; dtype++) {
      if (!test_takes(i, (size_t)*dtype)) continue;
      guarded_tensor operands[3];
      compute_tensor *x[3];
      for (int k = 0; k < row->arity; k++) {
        const compute_shape shape = k == 0 ? COMPUTE_SHAPE(5, 7) : COMPUTE_SHAPE(7);
        test_values values =
            test_values_create(row->arity == 3 && k == 0 ? COMPUTE_BOOL : *dtype, shape);
        test_values_fill(&values, FILL_RANGE, row->low, row->high, 5 + (uint64_t)k);
        operands[k] = guarded_create(device, values.dtype, shape,
                                     (guarded_layout)((i + (size_t)k) % 5), &values);
        x[k] = operands[k].view;
        test_values_release(&values);
      }
      compute_tensor *eager = call(&eager_rows[i], row->scalar, x), *plan = run_plan(row, x);
      assert_true(compute_tensor_is_dense(eager));
      assert_same_bits(eager, plan, row->name);
      compute_tensor_release(eager);
      compute_tensor_release(plan);
      for (int k = 0; k < row->arity; k++) guarded_release(&operands[k]);
    }
  }
}

static void failures_leave_the_result_alone(void **state) {
  (void)state;
  compute_tensor *a = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 3), NULL);
  compute_tensor *b = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(4), NULL);
  compute_tensor *c = test_tensor(test_context, COMPUTE_F64, COMPUTE_SHAPE(2, 3), NULL);
  compute_tensor *result = a;
  assert_fails(compute_tensor_add(a, b, &result), COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "[2,3]");
  test_check_message(test_context, "[4]");
  assert_fails(compute_tensor_add(a, c, &result), COMPUTE_ERROR_DTYPE);
  assert_fails(compute_tensor_add(a, NULL, &result), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_add(a, a, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_matmul(a, a, &result), COMPUTE_ERROR_SHAPE);
  compute_context *stranger = test_open();
  compute_tensor *other = test_tensor(stranger, COMPUTE_F32, COMPUTE_SHAPE(2, 3), NULL);
  assert_fails(compute_tensor_add(a, other, &result), COMPUTE_ERROR_WRONG_CONTEXT);
  compute_tensor_release(other);
  test_close(stranger);
  assert_ptr_equal(result, a);
  compute_tensor_release(a);
  compute_tensor_release(b);
  compute_tensor_release(c);
}

static void a_memory_scope_collects_the_results(void **state) {
  (void)state;
  compute_tensor *a = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 3), NULL);
  compute_pool_statistics before, after;
  compute_tensor *kept = NULL;
  assert_ok(compute_tensor_write(a, (float[]){1, 2, 3, 4, 5, 6}, 24));
  assert_ok(compute_pool_query(compute_default_device(test_context), &before));
  assert_ok(compute_memory_scope_push(test_context));
  for (int i = 0; i < 10; i++) {
    compute_tensor *b = NULL, *c = NULL;
    assert_ok(compute_tensor_square(a, &b));
    assert_ok(compute_tensor_sum(b, COMPUTE_AXES(1), false, &c));
    if (i == 9) kept = compute_tensor_retain(c);
  }
  assert_ok(compute_memory_scope_pop(test_context));
  assert_true(test_element(kept, 0) == 14 && test_element(kept, 1) == 77);
  compute_tensor_release(kept);
  assert_ok(compute_pool_query(compute_default_device(test_context), &after));
  assert_int_equal(after.blocks_active, before.blocks_active);
  compute_tensor_release(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_elementwise_call_gives_what_its_plan_gives),
      cmocka_unit_test(failures_leave_the_result_alone),
      cmocka_unit_test(a_memory_scope_collects_the_results),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
