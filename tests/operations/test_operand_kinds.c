/* SPDX-License-Identifier: MIT */
/* Every operation of ops.def, and every composed operation, with inputs, parameters and constants
 * as operands, and with a mixture, both with and without elements. */
#include <string.h>

#include "compute/fit.h"
#include "support/samples/elementwise.h"
#include "support/samples/operation_samples.h"
#include "support/harness/test.h"

static void check_row(const operation_sample *row) {
  operation_case sample;
  for (size_t i = 0; operation_sample_case(row, i, &sample); i++) {
    sample.tolerance = (test_tolerance){.ulp = 64, .atol = 1e-5, .rtol = 1e-5};
    operation_check_kinds(test_context, &sample);
  }
}

static void structural_operations_take_operands_of_every_kind(void **state) {
  (void)state;
  const operation_sample *row;
  size_t number = 0;
  for (size_t i = 0; (row = operation_sample_at(i)) != NULL; i++) {
    if (!(row->uses & OPERATION_OPERANDS)) continue;
    if (number++ % test_spread() == 0) check_row(row);
  }
  operation_finish();
}

static void check_elementwise(const elementwise_row *row, compute_shape shape) {
  const compute_dtype *dtypes = operation_dtypes(row->domain);
  const compute_dtype dtype = dtypes[1] == COMPUTE_F32 ? COMPUTE_F32 : dtypes[0];
  operation_case sample = {.name = row->name,
                           .build = elementwise_build,
                           .user = row,
                           .operand_count = (size_t)row->arity,
                           .tolerance = operation_tolerance(dtype, row->ulp)};
  for (int i = 0; i < row->arity; i++)
    sample.operand[i] = (operation_operand){
        .dtype = dtype, .shape = shape, .fill = FILL_RANGE, .low = row->low, .high = row->high};
  if (row->arity == 3) sample.operand[0].dtype = COMPUTE_BOOL; /* select's condition */
  operation_check_kinds(test_context, &sample);
}

static void elementwise_operations_take_operands_of_every_kind(void **state) {
  (void)state;
  for (size_t i = 0; elementwise_at(i); i++) {
    if (i % test_spread() != 0) continue;
    check_elementwise(elementwise_at(i), COMPUTE_SHAPE(3, 5));
    check_elementwise(elementwise_at(i), COMPUTE_SHAPE(2, 0, 4));
    check_elementwise(elementwise_at(i), COMPUTE_SCALAR);
  }
  operation_finish();
}

/* Operations without operands or a value, or with other tests (below, in tests/fit and
 * tests/plan). */
static bool is_exempt(const char *name) {
  static const char *const names[] = {"input", "parameter",    "constant", "index",      "assign",
                                      "group", "gaussian_fit", "call",     "call_result"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

static bool is_covered(const char *name) {
  for (size_t i = 0; elementwise_at(i); i++)
    if (strcmp(elementwise_at(i)->name, name) == 0) return true;
  const operation_sample *row;
  for (size_t i = 0; (row = operation_sample_at(i)) != NULL; i++)
    if (row->uses & OPERATION_OPERANDS && strcmp(row->operation, name) == 0) return true;
  return is_exempt(name);
}

static void no_operation_is_forgotten(void **state) {
  (void)state;
  compute_operation_info info;
  for (size_t i = 0; compute_operation_at(i, &info) == COMPUTE_OK; i++)
    if (!is_covered(info.name)) fail_msg("%s has no sample in tests/operations.def", info.name);
}

enum { ROIS = 3, SIDE = 7, FIT_ELEMENTS = ROIS * SIDE * SIDE };

/* The records of `rois` images, which are an input (0), a parameter (1) or a constant (2). */
static void fit(int kind, int64_t rois, float *records) {
  static const compute_fit_problem problem = {
      .model = COMPUTE_FIT_XYNB, .rows = SIDE, .columns = SIDE, .sigma = {1.3, 1.3}};
  float pixels[FIT_ELEMENTS];
  for (int i = 0; i < FIT_ELEMENTS; i++)
    pixels[i] = (float)(10 + (i % SIDE == 3 ? 40 : 0) + (i / SIDE % SIDE == 3 ? 40 : 0) + i % 5);
  const compute_shape shape = COMPUTE_SHAPE(rois, SIDE, SIDE);
  compute_graph *g = compute_graph_create(test_context);
  compute_tensor *in = test_tensor(test_context, COMPUTE_F32, shape, pixels), *out = NULL;
  const compute_node x = kind == 0   ? compute_input(g, COMPUTE_F32, shape)
                         : kind == 1 ? compute_parameter(g, in)
                                     : compute_constant(g, COMPUTE_F32, shape, pixels);
  const compute_node y = compute_gaussian_fit(g, x, &problem, NULL);
  compute_plan *plan = test_compile(g, &y, 1, 0);
  assert_ok(compute_plan_create_tensor(plan, y, &out));
  assert_ok(compute_run(plan, (compute_binding[]){{y, out}, {x, in}}, kind == 0 ? 2 : 1, NULL));
  if (rois > 0) assert_ok(compute_tensor_read(out, records, (size_t)compute_tensor_count(out) * 4));
  compute_tensor_release(out);
  compute_tensor_release(in);
  compute_plan_release(plan);
  compute_graph_release(g);
}

static void fits_take_images_of_every_kind(void **state) {
  (void)state;
  enum { MOST = ROIS * 64 };
  float expected[MOST] = {0}, records[MOST] = {0};
  fit(0, ROIS, expected);
  for (int kind = 0; kind < 3; kind++) {
    fit(kind, 0, records);
    fit(kind, ROIS, records);
    /* The CPU folds constants, and its last bits may differ from the device's. */
    if (kind < 2) assert_memory_equal(records, expected, sizeof expected);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(structural_operations_take_operands_of_every_kind),
      cmocka_unit_test(elementwise_operations_take_operands_of_every_kind),
      cmocka_unit_test(no_operation_is_forgotten),
      cmocka_unit_test(fits_take_images_of_every_kind),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
