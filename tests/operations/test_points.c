/* SPDX-License-Identifier: MIT */
/* Functions of positions: interp and grid_sample far outside of their data, at infinity and at NaN,
 * with finite gradients, and on an axis whose places f32 does not hold. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "compute/graph_array.h"
#include "support/harness/test.h"
#include "support/harness/values.h"

enum { MOST = 16 };

/* Compares with numbers that the dtypes hold, or nearly. */
static void check(compute_tensor *tensor, const double *wanted, int64_t count, const char *what) {
  assert_int_equal(compute_tensor_count(tensor), count);
  for (int64_t i = 0; i < count; i++) {
    const double is = test_element(tensor, i);
    const double away = is == wanted[i] ? 0 : fabs(is - wanted[i]); /* infinities are equal */
    if (isnan(wanted[i]) ? !isnan(is) : !(away <= 1e-5))
      fail_msg("%s: element %lld is %g, not %g", what, (long long)i, is, wanted[i]);
  }
}

typedef struct function {
  compute_graph *graph;
  compute_node x[3];
  compute_tensor *in[3];
  size_t count, variables; /* the first ones, which have gradients */
  compute_node y;
} function;

/* Operands are inputs, so that no plan computes them beforehand. */
static void add_operand(function *f, compute_dtype dtype, compute_shape shape,
                        const double *values) {
  test_values made = test_values_create(dtype, shape);
  for (int64_t i = 0; i < made.count; i++) test_values_set(&made, i, values[i]);
  f->x[f->count] = compute_input(f->graph, dtype, shape);
  f->in[f->count++] = test_tensor(test_context, dtype, shape, made.data);
  f->variables = f->count;
  test_values_release(&made);
}

/* Compares y, and the gradient of its sum by every x unless wanted[i] is NULL. */
static void run(const function *f, const double *y, const double **wanted, const char *what) {
  compute_graph *graph = f->graph;
  compute_node outputs[4] = {f->y}, gradients[3];
  compute_tensor *tensors[4] = {NULL};
  compute_binding bindings[7];
  const compute_node loss = compute_sum(graph, f->y, COMPUTE_ALL_AXES, false);
  const size_t made = 1 + f->variables;
  assert_ok(compute_gradients(graph, loss, f->x, f->variables, gradients));
  for (size_t i = 0; i < f->variables; i++) outputs[1 + i] = gradients[i];
  compute_plan *plan = test_compile(graph, outputs, made, 0);
  for (size_t i = 0; i < made; i++) {
    assert_ok(compute_plan_create_tensor(plan, outputs[i], &tensors[i]));
    bindings[i] = (compute_binding){outputs[i], tensors[i]};
  }
  for (size_t i = 0; i < f->count; i++) bindings[made + i] = (compute_binding){f->x[i], f->in[i]};
  assert_ok(compute_run(plan, bindings, made + f->count, NULL));
  check(tensors[0], y, compute_tensor_count(tensors[0]), what);
  for (size_t i = 0; i < f->variables; i++) {
    char name[96];
    snprintf(name, sizeof name, "%s, gradient by operand %zu", what, i);
    if (wanted[i]) check(tensors[1 + i], wanted[i], compute_tensor_count(tensors[1 + i]), name);
  }
  for (size_t i = 0; i < made; i++) compute_tensor_release(tensors[i]);
  for (size_t i = 0; i < f->count; i++) compute_tensor_release(f->in[i]);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* ---- Interpolation --------------------------------------------------------------------------- */

typedef struct line {
  const char *what;
  int64_t points, count;
  double xp[MOST], fp[MOST], x[MOST], y[MOST];
  double dx[MOST], dxp[MOST], dfp[MOST];
} line;

static void interpolate(const line *l, compute_dtype dtype) {
  function f = {.graph = compute_graph_create(test_context)};
  add_operand(&f, dtype, COMPUTE_SHAPE(l->count), l->x);
  add_operand(&f, dtype, COMPUTE_SHAPE(l->points), l->xp);
  add_operand(&f, dtype, COMPUTE_SHAPE(l->points), l->fp);
  f.y = compute_interp(f.graph, f.x[0], f.x[1], f.x[2]);
  run(&f, l->y, (const double *[]){l->dx, l->dxp, l->dfp}, l->what);
}

static void interpolation_outside_has_a_gradient_of_zero(void **state) {
  (void)state;
  const double inf = (double)INFINITY;
  const line lines[] = {
      {"outside, and a step", 4, 8, .xp = {0, 1, 1, 3}, .fp = {1, 2, 5, -1},
       .x = {-inf, -2, 0.5, 1, 2, 3, 9, inf}, .y = {1, 1, 1.5, 5, 2, -1, -1, -1},
       .dx = {0, 0, 1, -3, -3, 0, 0, 0}, .dxp = {-0.5, -0.5, 4.5, 1.5},
       .dfp = {2.5, 0.5, 1.5, 3.5}},
      {"infinite points", 3, 5, .xp = {-inf, 0, inf}, .fp = {7, 2, 4}, .x = {-inf, -5, 0, 5, inf},
       .y = {7, 2, 2, 2, 4}, .dfp = {1, 3, 1}},
      {"equal points", 2, 4, .xp = {1, 1}, .fp = {2, 3}, .x = {0, 1, 2, -inf}, .y = {2, 3, 3, 2},
       .dfp = {2, 2}},
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    for (int wide = 0; wide < 2; wide++) interpolate(&lines[i], wide ? COMPUTE_F64 : COMPUTE_F32);
}

/* As NumPy: values next to infinite values, and NaN. */
static void interpolation_of_infinite_values_is_numpys(void **state) {
  (void)state;
  const double inf = (double)INFINITY, nan = (double)NAN;
  const double xp[] = {0, 1, 2, 3, 4}, fp[] = {inf, 5, inf, inf, nan};
  const double x[] = {0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, nan};
  const double y[] = {inf, inf, 5, inf, inf, inf, inf, nan, nan};
  function f = {.graph = compute_graph_create(test_context)};
  add_operand(&f, COMPUTE_F32, COMPUTE_SHAPE(9), x);
  add_operand(&f, COMPUTE_F32, COMPUTE_SHAPE(5), xp);
  add_operand(&f, COMPUTE_F32, COMPUTE_SHAPE(5), fp);
  f.y = compute_interp(f.graph, f.x[0], f.x[1], f.x[2]);
  run(&f, y, (const double *[]){NULL, NULL, NULL}, "infinite values");
}

/* ---- Samples --------------------------------------------------------------------------------- */

static const double data[] = {1, 2, 4};

/* Samples three elements, whose centres are −1, 0 and 1, at each place. */
static void sample(compute_sample_mode mode, compute_sample_border border, int64_t count,
                   const double *places, const double *y, const double *by_place,
                   const double *by_data) {
  function f = {.graph = compute_graph_create(test_context)};
  char what[64];
  snprintf(what, sizeof what, "mode %d, border %d", (int)mode, (int)border);
  add_operand(&f, COMPUTE_F32, COMPUTE_SHAPE(1, 1, 3), data);
  add_operand(&f, COMPUTE_F32, COMPUTE_SHAPE(1, count, 1), places);
  f.y = compute_grid_sample(f.graph, f.x[0], f.x[1], mode, border, true);
  if (mode == COMPUTE_SAMPLE_NEAREST) f.variables = 1;
  run(&f, y, (const double *[]){by_data, by_place}, what);
}

static void samples_far_outside_are_the_borders(void **state) {
  (void)state;
  const double inf = (double)INFINITY;
  const double places[] = {-inf, -1e30, -9, -5, 5, 9, 1e30, inf};
  const double nothing[8] = {0}, edge[] = {1, 1, 1, 1, 4, 4, 4, 4}, by_edge[] = {4, 0, 4};
  for (int mode = COMPUTE_SAMPLE_NEAREST; mode <= COMPUTE_SAMPLE_CUBIC; mode++) {
    sample((compute_sample_mode)mode, COMPUTE_SAMPLE_EDGE, 8, places, edge, nothing, by_edge);
    sample((compute_sample_mode)mode, COMPUTE_SAMPLE_ZEROS, 8, places, nothing, nothing, nothing);
  }
}

static void samples_at_no_place_are_nan_or_zero(void **state) {
  (void)state;
  const double inf = (double)INFINITY, nan = (double)NAN;
  const double places[] = {nan, 0, inf, -inf};
  for (int mode = COMPUTE_SAMPLE_NEAREST; mode <= COMPUTE_SAMPLE_CUBIC; mode++) {
    const double none = mode == COMPUTE_SAMPLE_NEAREST ? 1 : nan;
    const compute_sample_mode m = (compute_sample_mode)mode;
    sample(m, COMPUTE_SAMPLE_ZEROS, 4, places, (const double[]){0, 2, 0, 0}, NULL, NULL);
    sample(m, COMPUTE_SAMPLE_EDGE, 4, places, (const double[]){none, 2, 4, 1}, NULL, NULL);
    sample(m, COMPUTE_SAMPLE_MIRROR, 4, places, (const double[]){none, 2, none, none}, NULL, NULL);
  }
}

/* Fewer samples than elements: the data is not copied to end with a zero. */
static void single_samples_outside_are_zero(void **state) {
  (void)state;
  static const double places[] = {-(double)INFINITY, -9, -1.25, 0, 0.5, 1.25, 9, (double)NAN};
  static const double nearest[] = {0, 0, 1, 2, 4, 4, 0, 0}, linear[] = {0, 0, 0.75, 2, 3, 3, 0, 0};
  for (int i = 0; i < 8; i++) {
    sample(COMPUTE_SAMPLE_NEAREST, COMPUTE_SAMPLE_ZEROS, 1, &places[i], &nearest[i], NULL, NULL);
    sample(COMPUTE_SAMPLE_LINEAR, COMPUTE_SAMPLE_ZEROS, 1, &places[i], &linear[i], NULL, NULL);
  }
}

/* f32 rounds the last place of this axis up, past its end. */
static void samples_of_a_long_axis_stay_inside(void **state) {
  (void)state;
  enum { SIZE = (1 << 24) + 4 };
  compute_graph *graph = compute_graph_create(test_context);
  const float places[] = {-1, 1, INFINITY, NAN};
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(1, 1, SIZE));
  const compute_node grid = compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(1, 4, 1), places);
  const compute_node y =
      compute_grid_sample(graph, x, grid, COMPUTE_SAMPLE_NEAREST, COMPUTE_SAMPLE_EDGE, true);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_tensor *in, *out;
  float *values = calloc(SIZE, sizeof *values);
  assert_non_null(values);
  values[0] = 3;
  values[SIZE - 1] = 5;
  in = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(1, 1, SIZE), values);
  free(values);
  assert_ok(compute_plan_create_tensor(plan, y, &out));
  assert_ok(compute_run(plan, (compute_binding[]){{x, in}, {y, out}}, 2, NULL));
  check(out, (const double[]){3, 5, 5, 3}, 4, "a long axis");
  compute_tensor_release(in);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* Five elements enlarged by 1.7, which gives eight: position 5 is before element 3, but not where
 * the scale is 8 / 5. */
static void resizing_follows_the_given_scale(void **state) {
  (void)state;
  const double x[] = {0, 1, 2, 3, 4}, usual[] = {0, 0, 1, 1, 2, 3, 3, 4},
               scaled[] = {0, 0, 1, 1, 2, 2, 3, 4};
  const double scales[] = {0, 1.7, 1.6};
  for (int i = 0; i < 3; i++) {
    function f = {.graph = compute_graph_create(test_context)};
    add_operand(&f, COMPUTE_F32, COMPUTE_SHAPE(5), x);
    f.y = compute_resize(f.graph, f.x[0], COMPUTE_SHAPE(8),
                         &(compute_resize_options){.coordinates = COMPUTE_RESIZE_ASYMMETRIC,
                                                   .rounding = COMPUTE_RESIZE_FLOOR,
                                                   .scale = {scales[i]}});
    run(&f, i == 1 ? scaled : usual, (const double *[]){NULL}, "resize");
  }
  function f = {.graph = compute_graph_create(test_context)};
  add_operand(&f, COMPUTE_F32, COMPUTE_SHAPE(5), x);
  f.y = compute_resize(f.graph, f.x[0], COMPUTE_SHAPE(5),
                       &(compute_resize_options){.mode = COMPUTE_RESIZE_LINEAR,
                                                 .coordinates = COMPUTE_RESIZE_ASYMMETRIC,
                                                 .scale = {2}});
  run(&f, (const double[]){0, 0.5, 1, 1.5, 2}, (const double *[]){NULL}, "the same size");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(interpolation_outside_has_a_gradient_of_zero),
      cmocka_unit_test(interpolation_of_infinite_values_is_numpys),
      cmocka_unit_test(samples_far_outside_are_the_borders),
      cmocka_unit_test(samples_at_no_place_are_nan_or_zero),
      cmocka_unit_test(single_samples_outside_are_zero),
      cmocka_unit_test(samples_of_a_long_axis_stay_inside),
      cmocka_unit_test(resizing_follows_the_given_scale),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
