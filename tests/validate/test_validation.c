/* SPDX-License-Identifier: MIT */
/* Validation names the wrong step, its inputs and the size of the error. It follows the policy, and
 * reports nothing if all steps are right. The device is the CPU with a vtable that spoils the
 * result of one launch. */
#include "support/harness/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/device.h"
#include "support/harness/failing_allocator.h"

static compute_context *context;
static compute_device *cpu;
static const compute_backend *real;
static compute_backend spoiling;

/* The launch to spoil, counted from 0; the byte offset in its last operand; and the kind of
 * damage. */
static int spoil_at, launches;
static size_t spoil_offset;
static float spoil_with; /* the new value; 0: the old value becomes slightly larger */

static compute_status enqueue(void *queue, void *kernel, const compute_argument *arguments,
                              uint32_t count) {
  compute_status status = real->enqueue(queue, kernel, arguments, count);
  if (launches++ != spoil_at || status != COMPUTE_OK) return status;
  const compute_argument *last = &arguments[count - 1];
  float *element =
      (float *)(void *)((unsigned char *)last->memory->host + last->offset + spoil_offset);
  *element = spoil_with != 0 ? spoil_with : *element * 1.001f + 1e-3f;
  return status;
}

static struct {
  int count;
  compute_validation_finding first;
  compute_validation_input inputs[4];
  char text[128], plan[64], message[1024];
} found;

static void remember(void *user, const compute_validation_finding *finding) {
  assert_ptr_equal(user, &found);
  if (found.count++ > 0) return;
  found.first = *finding;
  assert_true(finding->input_count <= 4);
  memcpy(found.inputs, finding->inputs, finding->input_count * sizeof *finding->inputs);
  snprintf(found.text, sizeof found.text, "%s", finding->text);
  snprintf(found.plan, sizeof found.plan, "%s", finding->plan);
  snprintf(found.message, sizeof found.message, "%s", finding->message);
}

static void start(compute_validation_policy policy, uint32_t flags) {
  const compute_validation_options options = {
      .policy = policy, .flags = flags, .function = remember, .user = &found};
  assert_ok(compute_validation_start(context, &options));
}

static int setup(void **state) {
  (void)state;
  memset(&found, 0, sizeof found);
  const compute_open_options options = {.backends = "cpu", .device = "cpu"};
  if (compute_open(&context, &options) != COMPUTE_OK) return -1;
  cpu = compute_default_device(context);
  real = cpu->backend;
  spoiling = *real;
  spoiling.enqueue = enqueue;
  spoil_at = -1;
  launches = 0;
  spoil_offset = 0;
  spoil_with = 0;
  return 0;
}

static int teardown(void **state) {
  (void)state;
  cpu->backend = real;
  return compute_close(context) == COMPUTE_OK ? 0 : -1;
}

/* Spoils launch `step` of the next run at f32 element `element`. */
static void spoil(int step, size_t element, float with) {
  cpu->backend = &spoiling;
  spoil_at = step;
  launches = 0;
  spoil_offset = element * sizeof(float);
  spoil_with = with;
}

/* ---- A plan of three kernels: product, sum of its rows, exponential of that ------------------ */

enum { ROWS = 6, INNER = 40, COLUMNS = 10 };

typedef struct fixture {
  compute_graph *graph;
  compute_node a, b, result;
  compute_plan *plan;
  compute_tensor *x, *y, *z;
} fixture;

static fixture make_fixture(void) {
  fixture f;
  float x[ROWS * INNER], y[INNER * COLUMNS];
  for (int i = 0; i < ROWS * INNER; i++) x[i] = (float)(i % 7 - 3) * 0.0625f;
  for (int i = 0; i < INNER * COLUMNS; i++) y[i] = (float)(i % 7 - 2) * 0.125f;
  f.graph = compute_graph_create(context);
  f.a = compute_input(f.graph, COMPUTE_F32, COMPUTE_SHAPE(ROWS, INNER));
  f.b = compute_input(f.graph, COMPUTE_F32, COMPUTE_SHAPE(INNER, COLUMNS));
  const compute_node product = compute_matmul(f.graph, f.a, f.b);
  const compute_node sums = compute_sum(f.graph, product, COMPUTE_AXES(1), false);
  f.result = compute_exp(f.graph, sums);
  const compute_plan_options options = {.flags = COMPUTE_PLAN_NO_FUSION, .name = "three"};
  assert_ok(compute_compile(f.graph, &f.result, 1, &options, &f.plan));
  f.x = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(ROWS, INNER), x);
  f.y = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(INNER, COLUMNS), y);
  f.z = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(ROWS), NULL);
  return f;
}

static compute_status run(const fixture *f) {
  const compute_binding bindings[] = {{f->a, f->x}, {f->b, f->y}, {f->result, f->z}};
  return compute_run(f->plan, bindings, 3, NULL);
}

static void release(fixture *f) {
  compute_tensor_release(f->x);
  compute_tensor_release(f->y);
  compute_tensor_release(f->z);
  compute_plan_release(f->plan);
  compute_graph_release(f->graph);
}

static void what_is_right_passes(void **state) {
  (void)state;
  fixture f = make_fixture();
  compute_validation_statistics s;
  start(COMPUTE_VALIDATION_FAIL, COMPUTE_VALIDATION_ORIGINS);
  assert_ok(run(&f));
  assert_int_equal(found.count, 0);
  assert_ok(compute_validation_query(context, &s));
  assert_int_equal(s.steps, 3);
  assert_int_equal(s.elements, ROWS * COLUMNS + ROWS + ROWS);
  assert_int_equal(s.vague, 0);
  assert_ok(compute_validation_stop(context));
  assert_ok(run(&f));
  assert_ok(compute_validation_query(context, &s));
  assert_int_equal(s.steps, 3);
  release(&f);
}

static void the_step_that_is_wrong_is_named(void **state) {
  (void)state;
  static const char *const text[] = {"matmul", "sum", "exp"};
  fixture f = make_fixture();
  for (int step = 0; step < 3; step++) {
    memset(&found, 0, sizeof found);
    start(COMPUTE_VALIDATION_REPORT, 0);
    spoil(step, 4, 0);
    assert_ok(run(&f));
    assert_int_equal(found.count, 1); /* later steps are right for their inputs */
    assert_int_equal(found.first.kind, COMPUTE_VALIDATION_DIFFERS);
    assert_int_equal(found.first.step, step);
    assert_int_equal(found.first.position, 4);
    assert_int_equal(found.first.bad_count, 1);
    assert_string_equal(found.plan, "three");
    assert_non_null(strstr(found.text, text[step]));
    assert_non_null(strstr(found.message, "three"));
    assert_true(found.first.error > found.first.tolerance);
    assert_true(fabs(found.first.actual - found.first.expected) == found.first.error);
  }
  assert_true(found.inputs[0].count == ROWS && found.inputs[0].nans == 0);
  assert_true(found.inputs[0].least < found.inputs[0].most);
  release(&f);
}

static void the_plain_result_takes_its_place(void **state) {
  (void)state;
  fixture f = make_fixture();
  float right[ROWS], got[ROWS];
  assert_ok(run(&f));
  assert_ok(compute_tensor_read(f.z, right, sizeof right));
  for (int step = 0; step < 3; step++) {
    start(COMPUTE_VALIDATION_REPLACE, 0);
    spoil(step, 5, 7);
    assert_ok(run(&f));
    assert_ok(compute_tensor_read(f.z, got, sizeof got));
    for (int i = 0; i < ROWS; i++) assert_true(fabsf(got[i] - right[i]) <= 1e-6f * right[i]);
  }
  compute_validation_statistics s;
  assert_ok(compute_validation_query(context, &s));
  assert_int_equal(s.findings, 3);
  assert_int_equal(s.replaced, 3);
  release(&f);
}

static void a_strict_run_fails_with_words(void **state) {
  (void)state;
  fixture f = make_fixture();
  start(COMPUTE_VALIDATION_FAIL, 0);
  spoil(1, 0, 3);
  assert_fails(run(&f), COMPUTE_ERROR_VALIDATION);
  test_check_message(context, "sum");
  assert_int_equal(launches, 2);
  spoil(-1, 0, 0);
  assert_ok(run(&f));
  release(&f);
}

static void nan_and_infinity_are_told_apart(void **state) {
  (void)state;
  fixture f = make_fixture();
  start(COMPUTE_VALIDATION_REPORT, 0);
  spoil(0, 11, NAN);
  assert_ok(run(&f));
  assert_int_equal(found.first.kind, COMPUTE_VALIDATION_NAN);
  assert_int_equal(found.first.step, 0);
  assert_int_equal(found.first.position, 11);
  assert_int_equal(found.count, 1); /* a NaN that a step only passes on is not its error */
  memset(&found, 0, sizeof found);
  spoil(2, 1, -INFINITY);
  assert_ok(run(&f));
  assert_int_equal(found.first.kind, COMPUTE_VALIDATION_INFINITE);
  assert_int_equal(found.first.step, 2);
  release(&f);
}

static void where_a_nan_arises_is_named_when_asked(void **state) {
  (void)state;
  const float x[4] = {1, 4, -1, 9};
  float y[4];
  compute_graph *graph = compute_graph_create(context);
  const compute_node in = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(4));
  const compute_node out = compute_neg(graph, compute_log(graph, in));
  compute_plan *plan = test_compile(graph, &out, 1, COMPUTE_PLAN_NO_FUSION);
  compute_tensor *from = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(4), x);
  compute_tensor *to = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(4), NULL);
  const compute_binding bindings[] = {{in, from}, {out, to}};
  start(COMPUTE_VALIDATION_FAIL, 0);
  assert_ok(compute_run(plan, bindings, 2, NULL));
  assert_int_equal(found.count, 0);
  start(COMPUTE_VALIDATION_FAIL, COMPUTE_VALIDATION_ORIGINS);
  assert_ok(compute_run(plan, bindings, 2, NULL));
  assert_int_equal(found.count, 1);
  assert_int_equal(found.first.kind, COMPUTE_VALIDATION_ORIGIN);
  assert_int_equal(found.first.step, 0);
  assert_int_equal(found.first.position, 2);
  assert_true(found.inputs[0].least == -1 && found.inputs[0].most == 9);
  assert_ok(compute_tensor_read(to, y, sizeof y));
  assert_true(isnan(y[2]));
  compute_tensor_release(from);
  compute_tensor_release(to);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* ---- Every kind of kernel ------------------------------------------------------------------ */

typedef compute_node (*build)(compute_graph *graph, compute_node x);

static compute_node build_map(compute_graph *g, compute_node x) {
  return compute_gelu(g, compute_add(g, compute_sin(g, x), x));
}
static compute_node build_sum(compute_graph *g, compute_node x) {
  return compute_sqrt(g, compute_sum(g, compute_square(g, x), COMPUTE_AXES(0), false));
}
static compute_node build_max(compute_graph *g, compute_node x) {
  return compute_max(g, x, COMPUTE_AXES(1), true);
}
static compute_node build_prod(compute_graph *g, compute_node x) {
  return compute_prod(g, compute_exp(g, x), COMPUTE_AXES(1), true);
}
static compute_node build_softmax(compute_graph *g, compute_node x) {
  return compute_softmax(g, x, 1);
}
static compute_node build_log_softmax(compute_graph *g, compute_node x) {
  return compute_log_softmax(g, compute_transpose(g, x, (compute_axes){.count = 0}), 1);
}
static compute_node build_normalize(compute_graph *g, compute_node x) {
  return compute_normalize(g, x, 1e-5);
}
static compute_node build_matmul(compute_graph *g, compute_node x) {
  return compute_relu(g, compute_matmul(g, x, compute_transpose(g, x, (compute_axes){.count = 0})));
}
static compute_node some_indices(compute_graph *g) {
  const int64_t indices[] = {2, -1, 0, 2};
  return compute_constant(g, COMPUTE_I64, COMPUTE_SHAPE(4), indices);
}
static compute_node build_gather(compute_graph *g, compute_node x) {
  return compute_gather(g, x, some_indices(g), 0);
}
static compute_node build_scatter(compute_graph *g, compute_node x) {
  return compute_scatter_add(g, build_gather(g, x), some_indices(g), 0, 5);
}

static void a_thousandth_is_seen_in_every_kind(void **state) {
  (void)state;
  static const build builds[] = {build_map,     build_sum,         build_max,       build_prod,
                                 build_softmax, build_log_softmax, build_normalize, build_matmul,
                                 build_gather,  build_scatter};
  float x[5 * 7];
  for (int i = 0; i < 35; i++) x[i] = (float)((i * 11) % 17 + 1) * 0.11f;
  compute_tensor *from = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(5, 7), x);
  start(COMPUTE_VALIDATION_REPORT, 0);
  for (size_t i = 0; i < sizeof builds / sizeof *builds; i++) {
    compute_tensor *to = NULL;
    compute_graph *graph = compute_graph_create(context);
    const compute_node in = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(5, 7));
    const compute_node out = builds[i](graph, in);
    compute_plan *plan = test_compile(graph, &out, 1, 0);
    compute_plan_info info;
    assert_ok(compute_plan_describe(plan, &info));
    assert_ok(compute_plan_create_tensor(plan, out, &to));
    const compute_binding bindings[] = {{in, from}, {out, to}};
    memset(&found, 0, sizeof found);
    spoil(-1, 0, 0);
    assert_ok(compute_run(plan, bindings, 2, NULL));
    if (found.count != 0) fail_msg("sample %zu, a false alarm: %s", i, found.message);
    spoil((int)info.steps - 1, 3, 0);
    assert_ok(compute_run(plan, bindings, 2, NULL));
    if (found.count != 1) fail_msg("sample %zu: %d findings", i, found.count);
    assert_int_equal(found.first.step, info.steps - 1);
    compute_tensor_release(to);
    compute_plan_release(plan);
    compute_graph_release(graph);
  }
  compute_tensor_release(from);
}

/* Without memory for the check, a step is not checked; nothing leaks. */
static void without_memory_a_step_goes_unchecked(void **state) {
  teardown(state);
  failing_allocator_install();
  setup(state);
  fixture f = make_fixture();
  assert_ok(run(&f));
  int64_t nth = 1;
  start(COMPUTE_VALIDATION_FAIL, 0);
  for (bool failed = true; failed; nth++) {
    failing_allocator_arm(nth, false);
    const compute_status status = run(&f);
    failed = failing_allocator_failures() > 0;
    failing_allocator_arm(0, false);
    assert_true(status == COMPUTE_OK || status == COMPUTE_ERROR_OUT_OF_MEMORY);
  }
  compute_validation_statistics s;
  assert_ok(compute_validation_query(context, &s));
  assert_in_range(s.skipped, 5, nth);
  assert_int_equal(s.findings, 0);
  release(&f);
  teardown(state);
  assert_int_equal(failing_allocator_remove(), 0);
  setup(state);
}

static void wrong_options_are_refused(void **state) {
  (void)state;
  compute_validation_options options = {.policy = (compute_validation_policy)7};
  assert_fails(compute_validation_start(NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_validation_start(context, &options), COMPUTE_ERROR_INVALID_ARGUMENT);
  options = (compute_validation_options){.tolerance = -1};
  assert_fails(compute_validation_start(context, &options), COMPUTE_ERROR_INVALID_ARGUMENT);
  options = (compute_validation_options){.reserved = {0, 1}};
  assert_fails(compute_validation_start(context, &options), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_validation_query(context, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_validation_stop(NULL), COMPUTE_ERROR_NULL_POINTER);
}

static void the_environment_starts_it(void **state) {
  (void)state;
  cpu->backend = real;
  assert_ok(compute_close(context));
  setenv("COMPUTE_VALIDATE", "strict", 1);
  setup(NULL);
  unsetenv("COMPUTE_VALIDATE");
  fixture f = make_fixture();
  spoil(2, 0, 3);
  assert_fails(run(&f), COMPUTE_ERROR_VALIDATION);
  release(&f);
}

#define VALIDATION_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      VALIDATION_TEST(what_is_right_passes),
      VALIDATION_TEST(the_step_that_is_wrong_is_named),
      VALIDATION_TEST(the_plain_result_takes_its_place),
      VALIDATION_TEST(a_strict_run_fails_with_words),
      VALIDATION_TEST(nan_and_infinity_are_told_apart),
      VALIDATION_TEST(where_a_nan_arises_is_named_when_asked),
      VALIDATION_TEST(a_thousandth_is_seen_in_every_kind),
      VALIDATION_TEST(without_memory_a_step_goes_unchecked),
      VALIDATION_TEST(wrong_options_are_refused),
      VALIDATION_TEST(the_environment_starts_it),
  };
  unsetenv("COMPUTE_VALIDATE");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
