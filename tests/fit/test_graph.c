/* SPDX-License-Identifier: MIT */
/* gaussian_fit in a graph: shapes, arguments, compilation, and data that stays on a device. */
#include "fit_fixture.h"

#include "compute/backend/fit_kinds.h"

#include "core/kernel/common/fit_problem.h"
#include "core/kernel/common/program.h"
#include "core/kernel/kernel_key.h"

enum { N = 96, RECORD = 12 };

static float stack[N * PIXELS], records[N * RECORD];

static compute_fit_problem usual_problem(void) {
  compute_fit_problem p = small_problem();
  p.outputs = 0;
  return p;
}

/* The stack's records, from one plan on the device under test. */
static int open_group(void **state) {
  if (test_group_open(state) != 0) return -1;
  make_stack(stack, N);
  const compute_fit_problem p = usual_problem();
  compute_graph *g = compute_graph_create(test_context);
  const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(N, ROWS, COLUMNS));
  const compute_node y = compute_gaussian_fit(g, x, &p, NULL);
  assert_true(compute_shape_equal(compute_node_shape(g, y), COMPUTE_SHAPE(N, RECORD)));
  assert_int_equal(compute_node_dtype(g, y), COMPUTE_F32);
  compute_plan *plan = test_compile(g, &y, 1, 0);
  compute_tensor *in =
      test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(N, ROWS, COLUMNS), stack);
  compute_tensor *out = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(N, RECORD), NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{x, in}, {y, out}}, 2, NULL));
  assert_ok(compute_tensor_read(out, records, sizeof records));
  compute_tensor_release(in);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(g);
  return 0;
}

/* ---- Results ------------------------------------------------------------------------------- */

static void a_graph_gives_what_a_fitter_gives(void **state) {
  (void)state;
  static float parameters[N * 4], std[N * 4], ratio[N], p_value[N];
  static int32_t iterations[N];
  static uint8_t status[N];
  compute_fit *fit;
  assert_ok(
      compute_fit_create(test_context, &(compute_fit_options){.problem = usual_problem()}, &fit));
  assert_ok(compute_fit_run(fit,
                            &(compute_fit_run_options){.pixels = {.array = stack},
                                                       .count = N,
                                                       .results = {.parameters = parameters,
                                                                   .std = std,
                                                                   .ratio = ratio,
                                                                   .p_value = p_value,
                                                                   .iterations = iterations,
                                                                   .status = status}},
                            NULL));
  compute_fit_release(fit);
  for (int i = 0; i < N; i++) {
    const float *r = records + i * RECORD;
    assert_memory_equal(r, parameters + 4 * i, 16);
    assert_memory_equal(r + 4, std + 4 * i, 16);
    assert_memory_equal(r + 8, ratio + i, 4);
    assert_memory_equal(r + 9, p_value + i, 4);
    assert_true(r[10] == (float)iterations[i] && r[11] == (float)status[i]);
  }
}

/* The pixels come from other operations, and the records are inputs of others, through views, in a
 * job. */
static void a_fit_is_a_part_of_a_graph(void **state) {
  (void)state;
  compute_fit_problem p = usual_problem();
  p.camera = COMPUTE_FIT_EMCCD;
  compute_graph *g = compute_graph_create(test_context);
  /* Stored as [columns, n, rows] at half the brightness, with every ROI twice. */
  const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(COLUMNS, N, ROWS));
  const compute_node turned = compute_transpose(g, x, COMPUTE_AXES(1, 2, 0));
  const compute_node bright = compute_mul(g, turned, compute_scalar(g, COMPUTE_F32, 2));
  compute_fit_problem ideal = usual_problem();
  const compute_node direct = compute_gaussian_fit(g, bright, &ideal, NULL);
  const compute_node half = compute_slice(g, turned, 0, 1, N / 2, 2);
  p.gain = 2;
  const compute_node second = compute_gaussian_fit(g, half, &p, NULL);
  const compute_node sum = compute_sum(g, direct, COMPUTE_AXES(0), false);
  const compute_node outputs[] = {direct, second, sum};
  compute_plan *plan = test_compile(g, outputs, 3, 0);
  float *turned_stack = malloc(sizeof stack), *out = malloc(sizeof records);
  for (int i = 0; i < N; i++)
    for (int r = 0; r < ROWS; r++)
      for (int c = 0; c < COLUMNS; c++)
        turned_stack[(c * N + i) * ROWS + r] = stack[(i * ROWS + r) * COLUMNS + c] / 2;
  compute_tensor *in =
      test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(COLUMNS, N, ROWS), turned_stack);
  compute_tensor *a = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(N, RECORD), NULL);
  compute_tensor *b = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(N / 2, RECORD), NULL);
  compute_tensor *s = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(RECORD), NULL);
  const compute_binding bindings[] = {{x, in}, {direct, a}, {second, b}, {sum, s}};
  compute_job *job;
  assert_ok(compute_submit(plan, bindings, 4, NULL, &job));
  assert_ok(compute_job_wait(job, 0));
  compute_job_release(job);
  assert_ok(compute_tensor_read(a, out, sizeof records));
  for (int i = 0; i < N; i++)
    for (int k = 0; k < 4; k++) /* other strides may change the reading order */
      assert_true(fabsf(out[i * RECORD + k] - records[i * RECORD + k]) <=
                  0.01f * records[i * RECORD + 4 + k]);
  for (int k = 0; k < 4; k++) {
    /* The standard deviations of an EMCCD are larger by the square root of two. */
    assert_true(fabs(test_element(b, k) - records[RECORD + k]) <= 0.02 * records[RECORD + 4 + k]);
    assert_true(fabs(test_element(b, 4 + k) / records[RECORD + 4 + k] - sqrt(2.0)) < 0.01);
  }
  double total = 0;
  for (int i = 0; i < N; i++) total += out[i * RECORD + 2];
  assert_true(fabs(test_element(s, 2) / total - 1) < 1e-5);
  compute_tensor_release(in);
  compute_tensor_release(a);
  compute_tensor_release(b);
  compute_tensor_release(s);
  compute_plan_release(plan);
  compute_graph_release(g);
  free(turned_stack);
  free(out);
}

/* ---- Compilation --------------------------------------------------------------------------- */

static char *explain(const compute_graph *g, const compute_node *outputs, size_t count) {
  compute_plan *plan = test_compile(g, outputs, count, 0);
  char *text = NULL;
  assert_ok(compute_explain(plan, &text));
  compute_plan_release(plan);
  return text;
}

static int count_of(const char *text, const char *part) {
  int count = 0;
  for (; (text = strstr(text, part)) != NULL; text++) count++;
  return count;
}

static void equal_fits_are_one_step_and_others_are_not(void **state) {
  (void)state;
  compute_graph *g = compute_graph_create(test_context);
  const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(N, ROWS, COLUMNS));
  compute_fit_problem p = usual_problem(), same = p, other = p;
  same.iterations = 40; /* the default */
  other.epsilon = 0.5;
  const compute_node outputs[] = {compute_gaussian_fit(g, x, &p, NULL),
                                  compute_gaussian_fit(g, x, &same, NULL),
                                  compute_gaussian_fit(g, x, &other, NULL)};
  char *text = explain(g, outputs, 3);
  assert_int_equal(count_of(text, "fit XYNB in ROIs of 7x9 by Fisher scoring, ideal camera"), 2);
  compute_text_free(text);
  compute_graph_release(g);
}

/* A fit has no second evaluation to compare with, and validation reports this. */
static void validation_skips_fits(void **state) {
  (void)state;
  compute_validation_statistics before, after;
  compute_fit *fit;
  assert_ok(compute_validation_query(test_context, &before));
  assert_ok(compute_validation_start(
      test_context, &(compute_validation_options){.policy = COMPUTE_VALIDATION_FAIL}));
  assert_ok(
      compute_fit_create(test_context, &(compute_fit_options){.problem = usual_problem()}, &fit));
  assert_ok(compute_fit_run(fit, &(compute_fit_run_options){.pixels = {.array = stack}, .count = N},
                            NULL));
  compute_fit_release(fit);
  assert_ok(compute_validation_stop(test_context));
  assert_ok(compute_validation_query(test_context, &after));
  assert_true(after.skipped > before.skipped);
  assert_int_equal(after.findings, before.findings);
}

static void kernels_of_different_problems_have_different_keys(void **state) {
  (void)state;
  static kernel_key a, b;
  static descriptor_copy copy;
  char reason[256];
  compute_fit_problem p = usual_problem();
  p.inputs = COMPUTE_FIT_WITH_CORNERS | COMPUTE_FIT_WITH_MASK;
  compute_fit_attributes attributes = {
      .problem = fit_problem_normalize(&p), .frames = 5, .rows = 20, .columns = 40};
  compute_fit_problem *const q = &attributes.problem;
  const compute_operand inputs[] = {
      {COMPUTE_U16, {800, 40, 1}}, {COMPUTE_I32, {3, 1}}, {COMPUTE_U8, {0, 40, 1}}};
  compute_operand output = {COMPUTE_F32, {RECORD, 1}};
  compute_kernel_descriptor d = {.struct_size = sizeof d,
                                 .kind = COMPUTE_KERNEL_FIT,
                                 .rank = 1,
                                 .size = {N},
                                 .input_count = 3,
                                 .output_count = 1,
                                 .inputs = inputs,
                                 .outputs = &output,
                                 .attributes = &attributes,
                                 .attribute_bytes = sizeof attributes};
  if (!descriptor_check(&d, reason, sizeof reason)) fail_msg("%s", reason);
  kernel_key_write(&a, &d);
  kernel_key_read(a.bytes, &copy);
  assert_memory_equal(&compute_fit_of(&copy.descriptor)->problem, q, sizeof *q);
  assert_int_equal(compute_fit_of(&copy.descriptor)->frames, 5);
  assert_int_equal(copy.descriptor.inputs[0].stride[1], 40);
  assert_int_equal(copy.descriptor.outputs[0].stride[1], 1);
  kernel_key_write(&b, &copy.descriptor);
  assert_int_equal(a.length, b.length);
  assert_memory_equal(a.bytes, b.bytes, a.length);
  q->epsilon = 0.02;
  kernel_key_write(&b, &d);
  assert_memory_not_equal(a.bytes, b.bytes, a.length);
#define REFUSED(change, undo)                                                                      \
  do {                                                                                             \
    change;                                                                                        \
    assert_false(descriptor_check(&d, reason, sizeof reason));                                     \
    assert_true(reason[0] != '\0');                                                                \
    undo;                                                                                          \
    assert_true(descriptor_check(&d, reason, sizeof reason));                                      \
  } while (0)
  REFUSED(d.attributes = NULL, d.attributes = &attributes);
  REFUSED(d.attribute_bytes = sizeof attributes - 1, d.attribute_bytes = sizeof attributes);
  REFUSED(d.rank = 2, d.rank = 1);
  REFUSED(d.input_count = 2, d.input_count = 3);
  REFUSED(q->iterations = 0, q->iterations = 40);
  REFUSED(q->sigma[1] = 0, q->sigma[1] = 1.2);
  REFUSED(q->gain = 0, q->gain = 1);
  REFUSED(q->inputs |= COMPUTE_FIT_WITH_SIGMA, q->inputs &= ~(uint32_t)COMPUTE_FIT_WITH_SIGMA);
  REFUSED(attributes.rows = ROWS - 1, attributes.rows = 20);
  REFUSED(attributes.columns = INT64_MAX, attributes.columns = 40);
  REFUSED(attributes.frames = -1, attributes.frames = 5);
  REFUSED(output.stride[0] = 0, output.stride[0] = RECORD);
  REFUSED(output.stride[1] = 0, output.stride[1] = 1);
  REFUSED(output.dtype = COMPUTE_F64, output.dtype = COMPUTE_F32);
#undef REFUSED
}

/* ---- Refusals ------------------------------------------------------------------------------ */

/* One attempt in a separate graph. `build` is an expression with `g`, `x` (a stack) and `p`. */
#define REFUSED(status, part, change, build)                                                       \
  do {                                                                                             \
    compute_graph *g = compute_graph_create(test_context);                                         \
    const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(N, ROWS, COLUMNS));         \
    compute_fit_problem p = usual_problem();                                                       \
    compute_fit_nodes in;                                                                          \
    memset(&in, 0, sizeof in);                                                                     \
    change;                                                                                        \
    assert_false(compute_node_is_valid(build));                                                    \
    (void)in;                                                                                      \
    (void)x;                                                                                       \
    assert_fails(compute_graph_status(g), (status));                                               \
    test_check_message(test_context, (part));                                                      \
    test_check_message(test_context, "gaussian_fit");                                              \
    compute_graph_release(g);                                                                      \
  } while (0)

#define FIT(node) compute_gaussian_fit(g, (node), &p, &in)

static compute_node input(compute_graph *g, compute_dtype dtype, compute_shape shape) {
  return compute_input(g, dtype, shape);
}

static void arguments_are_checked_by_name(void **state) {
  (void)state;
  const compute_status invalid = COMPUTE_ERROR_INVALID_ARGUMENT, shape = COMPUTE_ERROR_SHAPE;
  const compute_status dtype = COMPUTE_ERROR_DTYPE;
  REFUSED(COMPUTE_ERROR_NULL_POINTER, "problem", ,
          compute_gaussian_fit(g, x, p.rows > 0 ? NULL : &p, NULL));
  REFUSED(invalid, "problem->sigma[0]", p.sigma[0] = -1, FIT(x));
  REFUSED(invalid, "corners", p.inputs = COMPUTE_FIT_WITH_CORNERS, FIT(x));
  REFUSED(shape, "free parameters", p.rows = p.columns = 1, FIT(x));
  REFUSED(shape, "pixels", p.rows = 6, FIT(x));
  REFUSED(shape, "pixels", , FIT(compute_reshape(g, x, COMPUTE_SHAPE(N, PIXELS))));
  REFUSED(dtype, "pixels", , FIT(compute_cast(g, x, COMPUTE_F64)));
  /* Corners and frames. */
#define WITH(bit, field, type, ...)                                                                \
  (p.inputs |= (bit), in.field = input(g, (type), COMPUTE_SHAPE(__VA_ARGS__)))
#define CORNERS(type, ...) WITH(COMPUTE_FIT_WITH_CORNERS, corners, type, __VA_ARGS__)
  REFUSED(dtype, "corners", CORNERS(COMPUTE_I64, 5, 3), FIT(x));
  REFUSED(shape, "corners", CORNERS(COMPUTE_I32, 5, 2), FIT(x));
  REFUSED(shape, "pixels", (CORNERS(COMPUTE_I32, 5, 3), p.rows = 8), FIT(x));
  REFUSED(invalid, "map", (CORNERS(COMPUTE_I32, N, 3), p.flags = COMPUTE_FIT_STACK), FIT(x));
  REFUSED(shape, "corners",
          (CORNERS(COMPUTE_I32, N - 1, 3), p.flags = COMPUTE_FIT_STACK,
           WITH(COMPUTE_FIT_WITH_MASK, mask, COMPUTE_U8, 30, 30)),
          FIT(x));
  REFUSED(shape, "mask",
          (CORNERS(COMPUTE_I32, N, 3), p.flags = COMPUTE_FIT_STACK,
           WITH(COMPUTE_FIT_WITH_MASK, mask, COMPUTE_U8, ROWS, COLUMNS - 1)),
          FIT(x));
  REFUSED(shape, "gain",
          (p.camera = COMPUTE_FIT_SCMOS, CORNERS(COMPUTE_I32, N, 3), p.rows = p.columns = 5,
           WITH(COMPUTE_FIT_WITH_GAIN, gain, COMPUTE_F32, 5, 5)),
          FIT(x));
  REFUSED(shape, "variance",
          (p.camera = COMPUTE_FIT_SCMOS, CORNERS(COMPUTE_I32, N, 3), p.flags = COMPUTE_FIT_STACK,
           WITH(COMPUTE_FIT_WITH_GAIN, gain, COMPUTE_F32, 40, 30),
           WITH(COMPUTE_FIT_WITH_VARIANCE, variance, COMPUTE_F32, 30, 40)),
          FIT(x));
  /* Maps of ROIs. */
  REFUSED(shape, "offset",
          (p.camera = COMPUTE_FIT_SCMOS,
           WITH(COMPUTE_FIT_WITH_OFFSET, offset, COMPUTE_F32, COLUMNS, ROWS)),
          FIT(x));
  REFUSED(dtype, "offset",
          (p.camera = COMPUTE_FIT_SCMOS,
           WITH(COMPUTE_FIT_WITH_OFFSET, offset, COMPUTE_F64, ROWS, COLUMNS)),
          FIT(x));
  REFUSED(dtype, "mask", WITH(COMPUTE_FIT_WITH_MASK, mask, COMPUTE_BOOL, ROWS, COLUMNS), FIT(x));
  REFUSED(shape, "mask", WITH(COMPUTE_FIT_WITH_MASK, mask, COMPUTE_U8, 2, ROWS, COLUMNS), FIT(x));
  /* Rows of single ROIs. */
  REFUSED(shape, "sigma", WITH(COMPUTE_FIT_WITH_SIGMA, sigma, COMPUTE_F32, N, 1), FIT(x));
  REFUSED(shape, "start", WITH(COMPUTE_FIT_WITH_START, start, COMPUTE_F32, N - 1, 4), FIT(x));
  REFUSED(dtype, "lower", WITH(COMPUTE_FIT_WITH_LOWER, lower, COMPUTE_F16, N, 4), FIT(x));
  REFUSED(shape, "upper", WITH(COMPUTE_FIT_WITH_UPPER, upper, COMPUTE_F32, N, 5), FIT(x));
#undef CORNERS
#undef WITH
  assert_false(compute_node_is_valid(compute_gaussian_fit(NULL, (compute_node){0}, NULL, NULL)));
}

/* A value that is the same for all ROIs may be given once. */
static void axes_of_one_are_repeated(void **state) {
  (void)state;
  compute_fit_problem p = usual_problem();
  p.camera = COMPUTE_FIT_SCMOS;
  p.inputs = COMPUTE_FIT_WITH_OFFSET | COMPUTE_FIT_WITH_SIGMA | COMPUTE_FIT_WITH_START;
  float offset[PIXELS] = {0}, sigma[2] = {1.2f, 1.2f}, start[4] = {NAN, NAN, NAN, NAN};
  compute_graph *g = compute_graph_create(test_context);
  const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(N, ROWS, COLUMNS));
  const compute_node o = compute_constant(g, COMPUTE_F32, COMPUTE_SHAPE(1, ROWS, COLUMNS), offset);
  const compute_node s = compute_constant(g, COMPUTE_F32, COMPUTE_SHAPE(1, 2), sigma);
  const compute_node b = compute_constant(g, COMPUTE_F32, COMPUTE_SHAPE(1, 4), start);
  const compute_node y =
      compute_gaussian_fit(g, x, &p, &(compute_fit_nodes){.offset = o, .sigma = s, .start = b});
  assert_ok(compute_graph_status(g));
  compute_plan *plan = test_compile(g, &y, 1, 0);
  compute_tensor *in =
      test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(N, ROWS, COLUMNS), stack);
  compute_tensor *out = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(N, RECORD), NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{x, in}, {y, out}}, 2, NULL));
  for (int i = 0; i < N; i += 5)
    for (int k = 0; k < 4; k++)
      assert_true(fabs(test_element(out, i * RECORD + k) - records[i * RECORD + k]) <=
                  0.01 * records[i * RECORD + 4 + k]);
  compute_tensor_release(in);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(g);
}

static void there_is_no_gradient_and_the_error_says_so(void **state) {
  (void)state;
  const compute_fit_problem p = usual_problem();
  compute_graph *g = compute_graph_create(test_context);
  const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(N, ROWS, COLUMNS));
  const compute_node loss =
      compute_sum(g, compute_gaussian_fit(g, x, &p, NULL), COMPUTE_AXES(0, 1), false);
  compute_node gradient;
  assert_fails(compute_gradients(g, loss, &x, 1, &gradient), COMPUTE_ERROR_NOT_DIFFERENTIABLE);
  test_check_message(test_context, "gaussian_fit");
  compute_graph_release(g);
}

static void no_rois_are_no_step(void **state) {
  (void)state;
  const compute_fit_problem p = usual_problem();
  compute_graph *g = compute_graph_create(test_context);
  const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(0, ROWS, COLUMNS));
  const compute_node y = compute_gaussian_fit(g, x, &p, NULL);
  compute_plan *plan = test_compile(g, &y, 1, 0);
  compute_tensor *in =
      test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(0, ROWS, COLUMNS), NULL);
  compute_tensor *out = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(0, RECORD), NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{x, in}, {y, out}}, 2, NULL));
  compute_tensor_release(in);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_graph_gives_what_a_fitter_gives),
      cmocka_unit_test(a_fit_is_a_part_of_a_graph),
      cmocka_unit_test(equal_fits_are_one_step_and_others_are_not),
      cmocka_unit_test(validation_skips_fits),
      cmocka_unit_test(kernels_of_different_problems_have_different_keys),
      cmocka_unit_test(arguments_are_checked_by_name),
      cmocka_unit_test(axes_of_one_are_repeated),
      cmocka_unit_test(there_is_no_gradient_and_the_error_says_so),
      cmocka_unit_test(no_rois_are_no_step),
  };
  return cmocka_run_group_tests(tests, open_group, test_group_close);
}
