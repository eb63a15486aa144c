/* SPDX-License-Identifier: MIT */
/* Reductions along every set of axes, for every dtype, with NaN, ties and empty axes. */
#include <math.h>
#include <string.h>

#include "support/harness/operation.h"
#include "support/harness/test.h"

typedef compute_node (*axes_function)(compute_graph *, compute_node, compute_axes, bool);
typedef compute_node (*axis_function)(compute_graph *, compute_node, int32_t, bool);

typedef struct reduction {
  const char *name;
  const char *domain;
  axes_function along_axes;
  axis_function along_axis;
  bool of_nothing; /* has a value for zero elements */
} reduction;

static const reduction reductions[] = {
    {"sum", "number", compute_sum, NULL, true},
    {"mean", "float", compute_mean, NULL, true},
    {"prod", "number", compute_prod, NULL, true},
    {"max", "ordered", compute_max, NULL, false},
    {"min", "ordered", compute_min, NULL, false},
    {"argmax", "ordered", NULL, compute_argmax, false},
    {"argmin", "ordered", NULL, compute_argmin, false},
};

enum { REDUCTION_COUNT = sizeof reductions / sizeof *reductions };

typedef struct reduction_sample {
  compute_shape shape;
  compute_axes axes;
  bool keep;
  guarded_layout operand, result;
} reduction_sample;

static const reduction_sample samples[] = {
    {SHAPE(7, 13, 31), {0}, false, LAYOUT_DENSE, LAYOUT_DENSE},
    {SHAPE(7, 13, 31), AXES(2), false, LAYOUT_DENSE, LAYOUT_DENSE},
    {SHAPE(7, 13, 31), AXES(0), false, LAYOUT_DENSE, LAYOUT_PADDED},
    {SHAPE(7, 13, 31), AXES(1), true, LAYOUT_DENSE, LAYOUT_STEPPED},
    {SHAPE(7, 13, 31), AXES(0, 2), false, LAYOUT_DENSE, LAYOUT_WRAPPED},
    {SHAPE(7, 13, 31), AXES(-1, 0), true, LAYOUT_TRANSPOSED, LAYOUT_TRANSPOSED},
    {SHAPE(7, 13, 31), AXES(1, 2), false, LAYOUT_STEPPED, LAYOUT_DENSE},
    {SHAPE(7, 13, 31), AXES(0, 1), false, LAYOUT_PADDED, LAYOUT_DENSE},
    {SHAPE(7, 13, 31), AXES(0, 1, 2), true, LAYOUT_WRAPPED, LAYOUT_DENSE},
    {SHAPE(7, 13, 31), AXES(2), false, LAYOUT_TRANSPOSED, LAYOUT_DENSE},
    {SHAPE(1, 1), AXES(0), false, LAYOUT_DENSE, LAYOUT_DENSE},
    {SHAPE(1), {0}, false, LAYOUT_DENSE, LAYOUT_DENSE},
    {SCALAR, {0}, false, LAYOUT_DENSE, LAYOUT_DENSE},
    {SHAPE(1, 257), AXES(0), false, LAYOUT_DENSE, LAYOUT_DENSE},
    {SHAPE(1021), {0}, false, LAYOUT_STEPPED, LAYOUT_DENSE},
    {SHAPE(2, 3, 2, 3, 2, 3, 2, 3), AXES(1, 3, 5, 7), false, LAYOUT_DENSE, LAYOUT_DENSE},
    {SHAPE(513, 67), AXES(0), false, LAYOUT_DENSE, LAYOUT_DENSE},
    {SHAPE(3, 0), AXES(0), false, LAYOUT_DENSE, LAYOUT_DENSE}, /* no results at all */
};

static const reduction_sample empty_samples[] = {
    {SHAPE(3, 0), AXES(1), false, LAYOUT_DENSE, LAYOUT_DENSE},
    {SHAPE(0), {0}, true, LAYOUT_DENSE, LAYOUT_DENSE},
    {SHAPE(5, 0, 7), AXES(1), true, LAYOUT_DENSE, LAYOUT_STEPPED},
};

typedef struct reduction_request {
  const reduction *reduction;
  const reduction_sample *sample;
} reduction_request;

static compute_node build_reduction(compute_graph *graph, const compute_node *operands,
                                    const void *user) {
  const reduction_request *request = user;
  const reduction_sample *sample = request->sample;
  if (request->reduction->along_axes)
    return request->reduction->along_axes(graph, operands[0], sample->axes, sample->keep);
  return request->reduction->along_axis(graph, operands[0], sample->axes.axis[0], sample->keep);
}

/* The number of elements per result. */
static double folded_count(const reduction_sample *sample) {
  double count = 1;
  for (int32_t i = 0; i < sample->shape.rank; i++) {
    bool reduced = sample->axes.count == 0;
    for (int32_t k = 0; k < sample->axes.count; k++)
      reduced = reduced || (sample->axes.axis[k] + sample->shape.rank) % sample->shape.rank == i;
    if (reduced) count *= (double)sample->shape.size[i];
  }
  return count;
}

/* Sums may be off by a few units of the sum of absolute values, products by one unit per factor.
 * Other reductions are exact. */
static test_tolerance tolerance_of(const reduction *r, compute_dtype dtype, double folded,
                                   double magnitude) {
  const double unit = dtype == COMPUTE_F64 ? 0x1p-50 : 0x1p-24;
  if (r->along_axes == compute_sum) return (test_tolerance){1, 4 * unit * folded * magnitude, 0};
  if (r->along_axes == compute_mean) return (test_tolerance){1, 4 * unit * magnitude, 0};
  if (r->along_axes == compute_prod) return (test_tolerance){1, 0, 2 * unit * folded};
  return (test_tolerance){0};
}

static void check_reduction(const reduction *r, const reduction_sample *sample, test_fill fill) {
  /* argmax and argmin take one axis, so they skip samples with several. */
  if (r->along_axis && sample->axes.count != 1) return;
  const bool product = r->along_axes == compute_prod;
  const reduction_request request = {r, sample};
  for (const compute_dtype *dtype = operation_dtypes(r->domain); *dtype; dtype++) {
    /* Factors near 1 for floats, and small integers whose product wraps around. */
    const bool integer = test_is_integer(*dtype);
    const double high = !product ? 8 : integer ? 3 : 1.1, low = product && !integer ? 0.9 : -high;
    operation_case c = {.name = r->name,
                        .build = build_reduction,
                        .user = &request,
                        .operand_count = 1,
                        .result_layout = sample->result,
                        .tolerance = tolerance_of(r, *dtype, folded_count(sample), high),
                        .operation = r->name};
    c.operand[0] = (operation_operand){*dtype, sample->shape, fill, low, high, sample->operand};
    operation_check(test_context, &c);
  }
}

static void every_set_of_axes_reduces(void **state) {
  (void)state;
  for (size_t r = 0; r < REDUCTION_COUNT; r++)
    for (size_t s = 0; s < sizeof samples / sizeof *samples; s++)
      check_reduction(&reductions[r], &samples[s], FILL_RANGE);
  operation_finish();
}

static void nothing_reduces_to_the_identity(void **state) {
  (void)state;
  for (size_t r = 0; r < REDUCTION_COUNT; r++)
    for (size_t s = 0; s < sizeof empty_samples / sizeof *empty_samples; s++)
      if (reductions[r].of_nothing) check_reduction(&reductions[r], &empty_samples[s], FILL_RANGE);
  operation_finish();
}

/* NaN wins, infinities count, and among equal elements the first one wins. */
static void extremes_obey_nan_and_order(void **state) {
  (void)state;
  for (size_t r = 3; r < REDUCTION_COUNT; r++)
    for (size_t s = 0; s < sizeof samples / sizeof *samples; s++)
      check_reduction(&reductions[r], &samples[s], FILL_SPECIAL);
  operation_finish();
}

static void the_extremum_of_nothing_is_an_error(void **state) {
  (void)state;
  for (size_t r = 0; r < REDUCTION_COUNT; r++) {
    if (reductions[r].of_nothing) continue;
    compute_graph *graph = compute_graph_create(test_context);
    const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3, 0));
    if (reductions[r].along_axes)
      reductions[r].along_axes(graph, x, COMPUTE_AXES(1), false);
    else
      reductions[r].along_axis(graph, x, 1, false);
    assert_int_equal(compute_graph_status(graph), COMPUTE_ERROR_SHAPE);
    compute_graph_release(graph);
  }
}

/* A long sum of equal terms exposes a naive accumulator: in f32 it stops growing. */
static void long_sums_do_not_drift(void **state) {
  (void)state;
  const int64_t count = 5000011;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_full(graph, COMPUTE_F32, COMPUTE_SHAPE(1), 0.1);
  const compute_node wide = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(count));
  const compute_node y = compute_sum(graph, compute_mul(graph, wide, x), COMPUTE_ALL_AXES, false);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_tensor *in = NULL;
  assert_ok(compute_tensor_full(compute_default_device(test_context), COMPUTE_F32,
                                COMPUTE_SHAPE(count), 1, &in));
  compute_tensor *out = test_tensor(test_context, COMPUTE_F32, COMPUTE_SCALAR, NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{wide, in}, {y, out}}, 2, NULL));
  const double expected = (double)0.1F * (double)count;
  assert_true(fabs(test_element(out, 0) - expected) <= 1e-6 * expected);
  compute_tensor_release(in);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* One plan gives the same bits for the same input. */
static void a_sum_repeats_bit_for_bit(void **state) {
  (void)state;
  test_values values = test_values_create(COMPUTE_F32, COMPUTE_SHAPE(300007));
  test_values_fill(&values, FILL_RANGE, -1, 1, 7);
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, values.shape);
  const compute_node y = compute_sum(graph, x, COMPUTE_ALL_AXES, false);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_tensor *in = test_tensor(test_context, COMPUTE_F32, values.shape, values.data);
  compute_tensor *out = test_tensor(test_context, COMPUTE_F32, COMPUTE_SCALAR, NULL);
  float first = 0, again;
  for (int i = 0; i < 50; i++) {
    assert_ok(compute_run(plan, (compute_binding[]){{x, in}, {y, out}}, 2, NULL));
    assert_ok(compute_tensor_read(out, &again, sizeof again));
    if (i == 0) first = again;
    assert_memory_equal(&first, &again, sizeof again);
  }
  compute_tensor_release(in);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(graph);
  test_values_release(&values);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_set_of_axes_reduces),
      cmocka_unit_test(nothing_reduces_to_the_identity),
      cmocka_unit_test(extremes_obey_nan_and_order),
      cmocka_unit_test(the_extremum_of_nothing_is_an_error),
      cmocka_unit_test(long_sums_do_not_drift),
      cmocka_unit_test(a_sum_repeats_bit_for_bit),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
