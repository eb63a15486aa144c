/* SPDX-License-Identifier: MIT */
/* Sources and destinations of a graph's values: inputs, parameters, constants, random numbers and
 * assignments, for every dtype. */
#include <string.h>

#include "support/harness/measure.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"

enum { ROWS = 7, COLUMNS = 13 };

static compute_node build_input(compute_graph *graph, const compute_node *operands,
                                const void *user) {
  (void)graph;
  (void)user;
  return operands[0];
}

static void an_input_can_be_the_result(void **state) {
  (void)state;
  for (const compute_dtype *dtype = operation_dtypes("any"); *dtype; dtype++) {
    for (int layout = LAYOUT_DENSE; layout < LAYOUT_COUNT; layout++) {
      operation_case sample = {.name = "input",
                               .build = build_input,
                               .operand_count = 1,
                               .result_layout = (guarded_layout)layout,
                               .operation = "input"};
      sample.operand[0] = (operation_operand){*dtype, SHAPE(ROWS, COLUMNS), FILL_SPECIAL, -100,
                                              100,    LAYOUT_STEPPED};
      operation_check(test_context, &sample);
    }
  }
  operation_finish();
}

/* Values that belong to the graph: a tensor for a parameter, memory for a constant. */
typedef struct own_values {
  const test_values *values;
  compute_tensor *tensor;
} own_values;

/* Added to an input, so that there is something to compute. */
static compute_node build_own(compute_graph *graph, const compute_node *operands,
                              const void *user) {
  const own_values *own = user;
  const compute_node y = own->tensor ? compute_parameter(graph, own->tensor)
                                     : compute_constant(graph, own->values->dtype,
                                                        own->values->shape, own->values->data);
  return compute_concat(graph, (compute_node[]){operands[0], y, operands[0]}, 3, 0);
}

static void parameters_and_constants_hold_their_values(void **state) {
  (void)state;
  for (const compute_dtype *dtype = operation_dtypes("any"); *dtype; dtype++) {
    test_values values = test_values_create(*dtype, COMPUTE_SHAPE(3, COLUMNS));
    test_values_fill(&values, FILL_SPECIAL, -100, 100, 5);
    own_values own = {&values, NULL};
    operation_case sample = {
        .name = "constant", .build = build_own, .user = &own, .operand_count = 1};
    sample.operation = sample.name;
    sample.operand[0] =
        (operation_operand){*dtype, SHAPE(ROWS, COLUMNS), FILL_SPECIAL, -100, 100, LAYOUT_DENSE};
    operation_check(test_context, &sample);
    own.tensor = test_tensor(test_context, *dtype, values.shape, values.data);
    sample.name = sample.operation = "parameter";
    operation_check(test_context, &sample);
    compute_tensor_release(own.tensor);
    test_values_release(&values);
  }
  operation_finish();
}

static compute_node build_random(compute_graph *graph, const compute_node *operands,
                                 const void *user) {
  const compute_dtype *dtype = user;
  return compute_random_uniform(graph, *dtype, COMPUTE_SHAPE(ROWS, 1, 143), operands[0], 3);
}

static void random_numbers_are_those_of_the_reference(void **state) {
  (void)state;
  for (const compute_dtype *dtype = operation_dtypes("float"); *dtype; dtype++) {
    operation_case sample = {.name = "random_uniform",
                             .build = build_random,
                             .user = dtype,
                             .operand_count = 1,
                             .operation = "random_uniform",
                             .dtype = *dtype};
    sample.operand[0] =
        (operation_operand){COMPUTE_I64, SCALAR, FILL_RANGE, -1e15, 1e15, LAYOUT_DENSE};
    operation_check(test_context, &sample);
  }
  operation_finish();
}

/* Two parameters take x and its transpose. Their old values are gone, and nothing else has
 * changed. */
static void check_assignment(compute_dtype dtype) {
  const compute_shape shape = COMPUTE_SHAPE(COLUMNS, COLUMNS);
  test_values x = test_values_create(dtype, shape), turned = test_values_create(dtype, shape);
  test_values found = test_values_create(dtype, shape);
  test_values_fill(&x, FILL_SPECIAL, -100, 100, 9);
  const size_t size = compute_dtype_size(dtype);
  for (size_t i = 0; i < COLUMNS; i++)
    for (size_t k = 0; k < COLUMNS; k++)
      memcpy((char *)turned.data + (i * COLUMNS + k) * size,
             (char *)x.data + (k * COLUMNS + i) * size, size);

  compute_graph *graph = compute_graph_create(test_context);
  compute_tensor *in = test_tensor(test_context, dtype, shape, x.data), *held[2];
  compute_node to[2], writes[2];
  const compute_node y = compute_input(graph, dtype, shape);
  const compute_node values[2] = {y, compute_transpose(graph, y, COMPUTE_ALL_AXES)};
  for (int i = 0; i < 2; i++) {
    held[i] = test_tensor(test_context, dtype, shape, found.data);
    to[i] = compute_parameter(graph, held[i]);
    writes[i] = compute_assign(graph, to[i], values[i]);
  }
  const compute_node all = compute_group(graph, writes, 2);
  compute_plan *plan = test_compile(graph, &all, 1, 0);
  compute_plan_info info;
  assert_ok(compute_plan_describe(plan, &info));
  assert_ok(compute_run(plan, &(compute_binding){y, in}, 1, NULL));
  for (int i = 0; i < 2; i++) {
    const test_values *expected = i ? &turned : &x;
    assert_ok(compute_tensor_read(held[i], found.data, found.bytes));
    assert_memory_equal(found.data, expected->data, found.bytes);
    measure_result("assign", dtype, &found, expected, info.fallbacks > 0, true);
    measure_result("group", dtype, &found, expected, info.fallbacks > 0, true);
    compute_tensor_release(held[i]);
  }
  compute_tensor_release(in);
  compute_plan_release(plan);
  compute_graph_release(graph);
  test_values_release(&x);
  test_values_release(&turned);
  test_values_release(&found);
}

static void a_group_of_assignments_writes_its_parameters(void **state) {
  (void)state;
  for (const compute_dtype *dtype = operation_dtypes("any"); *dtype; dtype++)
    check_assignment(*dtype);
  measure_write(test_context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_input_can_be_the_result),
      cmocka_unit_test(parameters_and_constants_hold_their_values),
      cmocka_unit_test(random_numbers_are_those_of_the_reference),
      cmocka_unit_test(a_group_of_assignments_writes_its_parameters),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
