/* SPDX-License-Identifier: MIT */
/* A run with wrong bindings fails with a status and a message that names the binding. It changes
 * nothing, and the plan remains usable. */
#include "support/harness/test.h"

/* y = x + w · x for f32 [4], with a second output z = x · x and an unused input. */
typedef struct fixture {
  compute_graph *graph;
  compute_node x, w, spare, y, z;
  compute_plan *plan;
  compute_tensor *tx, *tw, *ty, *tz;
} fixture;

static int set_up(void **state) {
  static fixture f;
  f.graph = compute_graph_create(test_context);
  f.x = compute_input(f.graph, COMPUTE_F32, COMPUTE_SHAPE(4));
  f.w = compute_name(f.graph, compute_input(f.graph, COMPUTE_F32, COMPUTE_SHAPE(4)), "weights");
  f.spare = compute_input(f.graph, COMPUTE_F32, COMPUTE_SHAPE(9));
  f.y = compute_add(f.graph, f.x, compute_mul(f.graph, f.w, f.x));
  f.z = compute_mul(f.graph, f.x, f.x);
  f.plan = test_compile(f.graph, (compute_node[]){f.y, f.z}, 2, 0);
  const float x[4] = {1, 2, 3, 4}, w[4] = {10, 20, 30, 40};
  f.tx = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(4), x);
  f.tw = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(4), w);
  f.ty = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(4), NULL);
  f.tz = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(4), NULL);
  *state = &f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  compute_tensor_release(f->tx);
  compute_tensor_release(f->tw);
  compute_tensor_release(f->ty);
  compute_tensor_release(f->tz);
  compute_plan_release(f->plan);
  compute_graph_release(f->graph);
  return 0;
}

static void run_properly(const fixture *f) {
  const compute_binding good[] = {{f->x, f->tx}, {f->w, f->tw}, {f->y, f->ty}, {f->z, f->tz}};
  float y[4];
  assert_ok(compute_run(f->plan, good, 4, NULL));
  assert_ok(compute_tensor_read(f->ty, y, sizeof y));
  for (int i = 0; i < 4; i++) assert_true(y[i] == (float)((i + 1) + (i + 1) * 10 * (i + 1)));
}

/* Runs with these bindings, which must fail with this status and leave the outputs unchanged. */
static void run_wrongly(const fixture *f, const compute_binding *bindings, size_t count,
                        compute_status expected, const char *words) {
  float y[4] = {-7, -7, -7, -7};
  assert_ok(compute_tensor_write(f->ty, y, sizeof y));
  assert_fails(compute_run(f->plan, bindings, count, NULL), expected);
  if (words) test_check_message(test_context, words);
  assert_ok(compute_tensor_read(f->ty, y, sizeof y));
  for (int i = 0; i < 4; i++) assert_true(y[i] == -7);
  run_properly(f);
}

static void a_missing_input_is_named(void **state) {
  const fixture *f = *state;
  const compute_binding b[] = {{f->x, f->tx}, {f->y, f->ty}, {f->z, f->tz}};
  run_wrongly(f, b, 3, COMPUTE_ERROR_BINDING, "weights");
}

static void a_missing_output_is_an_error(void **state) {
  const fixture *f = *state;
  const compute_binding b[] = {{f->x, f->tx}, {f->w, f->tw}, {f->y, f->ty}};
  run_wrongly(f, b, 3, COMPUTE_ERROR_BINDING, "output");
}

static void no_bindings_at_all_is_an_error(void **state) {
  const fixture *f = *state;
  run_wrongly(f, NULL, 0, COMPUTE_ERROR_BINDING, NULL);
}

static void a_binding_given_twice_is_an_error(void **state) {
  const fixture *f = *state;
  const compute_binding b[] = {
      {f->x, f->tx}, {f->w, f->tw}, {f->y, f->ty}, {f->z, f->tz}, {f->w, f->tx}};
  run_wrongly(f, b, 5, COMPUTE_ERROR_BINDING, "twice");
}

static void a_wrong_shape_is_shown_beside_the_right_one(void **state) {
  const fixture *f = *state;
  compute_tensor *other = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 2), NULL);
  const compute_binding b[] = {{f->x, other}, {f->w, f->tw}, {f->y, f->ty}, {f->z, f->tz}};
  run_wrongly(f, b, 4, COMPUTE_ERROR_BINDING, "[2,2]");
  compute_tensor_release(other);
}

static void a_wrong_dtype_is_an_error(void **state) {
  const fixture *f = *state;
  compute_tensor *other = test_tensor(test_context, COMPUTE_F64, COMPUTE_SHAPE(4), NULL);
  const compute_binding b[] = {{f->x, f->tx}, {f->w, f->tw}, {f->y, f->ty}, {f->z, other}};
  run_wrongly(f, b, 4, COMPUTE_ERROR_BINDING, "f64");
  compute_tensor_release(other);
}

static void a_null_tensor_is_an_error(void **state) {
  const fixture *f = *state;
  const compute_binding b[] = {{f->x, NULL}, {f->w, f->tw}, {f->y, f->ty}, {f->z, f->tz}};
  run_wrongly(f, b, 4, COMPUTE_ERROR_NULL_POINTER, NULL);
}

static void a_tensor_of_another_context_is_refused(void **state) {
  const fixture *f = *state;
  compute_context *stranger = test_open();
  compute_tensor *other = test_tensor(stranger, COMPUTE_F32, COMPUTE_SHAPE(4), NULL);
  const compute_binding b[] = {{f->x, other}, {f->w, f->tw}, {f->y, f->ty}, {f->z, f->tz}};
  run_wrongly(f, b, 4, COMPUTE_ERROR_WRONG_CONTEXT, NULL);
  compute_tensor_release(other);
  test_close(stranger);
}

static void a_node_of_another_graph_is_refused(void **state) {
  const fixture *f = *state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node other = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(4));
  const compute_binding b[] = {{other, f->tx}, {f->w, f->tw}, {f->y, f->ty}, {f->z, f->tz}};
  run_wrongly(f, b, 4, COMPUTE_ERROR_WRONG_GRAPH, NULL);
  const compute_binding none[] = {{{0, 0}, f->tx}, {f->w, f->tw}, {f->y, f->ty}, {f->z, f->tz}};
  run_wrongly(f, none, 4, COMPUTE_ERROR_WRONG_GRAPH, NULL);
  compute_graph_release(graph);
}

static void null_arguments_are_errors(void **state) {
  const fixture *f = *state;
  compute_plan *plan;
  assert_fails(compute_run(NULL, NULL, 0, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_run(f->plan, NULL, 3, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_compile(NULL, &f->y, 1, NULL, &plan), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_compile(f->graph, NULL, 1, NULL, &plan), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_compile(f->graph, &f->y, 1, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_compile(f->graph, &f->y, 0, NULL, &plan), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_explain(NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_plan_describe(f->plan, NULL), COMPUTE_ERROR_NULL_POINTER);
  compute_plan_release(NULL);
  run_properly(f);
}

static void outputs_to_compile_must_be_nodes_of_the_graph(void **state) {
  const fixture *f = *state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node other = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(4));
  compute_plan *plan = NULL;
  assert_fails(compute_compile(f->graph, &other, 1, NULL, &plan), COMPUTE_ERROR_WRONG_GRAPH);
  assert_fails(compute_compile(f->graph, &(compute_node){0}, 1, NULL, &plan),
               COMPUTE_ERROR_WRONG_GRAPH);
  assert_fails(compute_compile(f->graph, &(compute_node){4711, f->y.graph}, 1, NULL, &plan),
               COMPUTE_ERROR_WRONG_GRAPH);
  assert_null(plan);
  compute_graph_release(graph);
}

static void a_builder_error_comes_out_at_compile(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node a = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(64, 784));
  const compute_node b = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(512, 10));
  const compute_node y = compute_relu(graph, compute_matmul(graph, a, b));
  compute_plan *plan = NULL;
  assert_false(compute_node_is_valid(y));
  assert_fails(compute_compile(graph, &y, 1, NULL, &plan), COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "matmul");
  test_check_message(test_context, "[64,784]");
  test_check_message(test_context, "[512,10]");
  assert_null(plan);
  compute_graph_release(graph);
}

static void an_input_that_nobody_needs_may_be_bound_or_not(void **state) {
  const fixture *f = *state;
  compute_tensor *other = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(9), NULL);
  const compute_binding b[] = {
      {f->x, f->tx}, {f->w, f->tw}, {f->spare, other}, {f->y, f->ty}, {f->z, f->tz}};
  assert_ok(compute_run(f->plan, b, 5, NULL));
  compute_tensor_release(other);
}

static void a_broadcast_view_can_be_read_but_not_written(void **state) {
  const fixture *f = *state;
  const float one = 5;
  compute_tensor *scalar = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(1), &one);
  compute_tensor *wide = NULL;
  assert_ok(compute_tensor_broadcast_view(scalar, COMPUTE_SHAPE(4), &wide));
  const compute_binding out[] = {{f->x, f->tx}, {f->w, f->tw}, {f->y, wide}, {f->z, f->tz}};
  run_wrongly(f, out, 4, COMPUTE_ERROR_BINDING, NULL);
  const compute_binding in[] = {{f->x, wide}, {f->w, wide}, {f->y, f->ty}, {f->z, f->tz}};
  assert_ok(compute_run(f->plan, in, 4, NULL));
  for (int i = 0; i < 4; i++) assert_true(test_element(f->ty, i) == 30);
  compute_tensor_release(scalar);
  compute_tensor_release(wide);
}

static void two_outputs_must_not_overlap(void **state) {
  const fixture *f = *state;
  const compute_binding b[] = {{f->x, f->tx}, {f->w, f->tw}, {f->y, f->ty}, {f->z, f->ty}};
  run_wrongly(f, b, 4, COMPUTE_ERROR_BINDING, NULL);
}

static void an_output_may_be_the_very_view_of_an_input(void **state) {
  const fixture *f = *state;
  const compute_binding b[] = {{f->x, f->tx}, {f->w, f->tw}, {f->y, f->tx}, {f->z, f->tw}};
  assert_ok(compute_run(f->plan, b, 4, NULL));
  for (int i = 0; i < 4; i++) {
    const double x = i + 1, w = 10 * x;
    assert_true(test_element(f->tx, i) == x + w * x);
    assert_true(test_element(f->tw, i) == x * x);
  }
}

static void unknown_options_are_refused(void **state) {
  const fixture *f = *state;
  compute_plan *plan = NULL;
  compute_plan_options options = {.flags = 1U << 31};
  assert_fails(compute_compile(f->graph, &f->y, 1, &options, &plan),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  options = (compute_plan_options){.reserved = {1}};
  assert_fails(compute_compile(f->graph, &f->y, 1, &options, &plan),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  options = (compute_plan_options){.fallback = (compute_fallback)9};
  assert_fails(compute_compile(f->graph, &f->y, 1, &options, &plan),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  compute_context *stranger = test_open();
  options = (compute_plan_options){.device = compute_default_device(stranger)};
  assert_fails(compute_compile(f->graph, &f->y, 1, &options, &plan), COMPUTE_ERROR_WRONG_CONTEXT);
  test_close(stranger);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_missing_input_is_named),
      TEST(a_missing_output_is_an_error),
      TEST(no_bindings_at_all_is_an_error),
      TEST(a_binding_given_twice_is_an_error),
      TEST(a_wrong_shape_is_shown_beside_the_right_one),
      TEST(a_wrong_dtype_is_an_error),
      TEST(a_null_tensor_is_an_error),
      TEST(a_tensor_of_another_context_is_refused),
      TEST(a_node_of_another_graph_is_refused),
      TEST(null_arguments_are_errors),
      TEST(outputs_to_compile_must_be_nodes_of_the_graph),
      TEST(a_builder_error_comes_out_at_compile),
      TEST(an_input_that_nobody_needs_may_be_bound_or_not),
      TEST(a_broadcast_view_can_be_read_but_not_written),
      TEST(two_outputs_must_not_overlap),
      TEST(an_output_may_be_the_very_view_of_an_input),
      TEST(unknown_options_are_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
