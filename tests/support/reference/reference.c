/* SPDX-License-Identifier: MIT */
#include "support/reference/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/node/graph.h"
#include "support/reference/graph_evaluate.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"

static bool is_float(compute_dtype dtype) {
  return dtype == COMPUTE_F64 || dtype == COMPUTE_F32 || dtype == COMPUTE_F16 ||
         dtype == COMPUTE_BF16;
}

static int64_t integer_at(const test_values *values, int64_t index) {
  const size_t size = compute_dtype_size(values->dtype);
  return test_integer_get(values->dtype, (const char *)values->data + (size_t)index * size);
}

/* Widens the elements for the reference: to doubles or 64-bit integers. */
/* Numbers of a matrix that the local memory of every device has. */
enum { LOCAL_NUMBERS = 1000 };

static void *widen(const test_values *values) {
  void *wide = calloc((size_t)values->count + 1, sizeof(int64_t));
  assert_non_null(wide);
  for (int64_t i = 0; i < values->count; i++) {
    if (is_float(values->dtype))
      ((double *)wide)[i] = test_values_get(values, i);
    else
      ((int64_t *)wide)[i] = integer_at(values, i);
  }
  return wide;
}

bool reference_is_of_cpu(const compute_graph *graph) {
  for (size_t i = 0; i < graph->count; i++) {
    if (graph->nodes[i].op != OP_linalg) continue;
    const compute_linalg_attributes *a = graph->nodes[i].constant;
    if (a->function > COMPUTE_LINALG_SOLVE || a->rows * (a->columns + a->right) > LOCAL_NUMBERS)
      return true;
  }
  return false;
}

test_values reference_run(const compute_graph *graph, const compute_node *inputs,
                          const test_values *values, size_t count, compute_node result) {
  evaluate_binding bindings[OPERATION_MAX_OPERANDS] = {{{0}, NULL, NULL}};
  void *wide[OPERATION_MAX_OPERANDS] = {NULL};
  assert_true(count <= OPERATION_MAX_OPERANDS);
  for (size_t i = 0; i < count; i++) {
    wide[i] = widen(&values[i]);
    bindings[i].node = inputs[i];
    if (is_float(values[i].dtype))
      bindings[i].real = wide[i];
    else
      bindings[i].integer = wide[i];
  }
  evaluate_value value;
  char reason[256];
  if (!graph_evaluate(graph, bindings, count, &result, 1, &value, reason, sizeof reason))
    fail_msg("the reference cannot evaluate the graph: %s", reason);
  test_values expected =
      test_values_create(is_float(value.dtype) ? COMPUTE_F64 : COMPUTE_I64, value.shape);
  assert_int_equal(expected.count, value.count);
  if (expected.bytes > 0)
    memcpy(expected.data, value.real ? (const void *)value.real : (const void *)value.integer,
           expected.bytes);
  evaluate_release(&value);
  for (size_t i = 0; i < count; i++) free(wide[i]);
  return expected;
}

bool reference_matches(const test_values *actual, const test_values *expected, int64_t index,
                       const test_tolerance *tolerance, double *error) {
  if (is_float(actual->dtype))
    return test_close_enough(actual->dtype, test_values_get(actual, index),
                             test_values_get(expected, index), tolerance, error);
  const bool same = integer_at(actual, index) == integer_at(expected, index);
  *error = same ? 0 : (double)INFINITY;
  return same;
}
