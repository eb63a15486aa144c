/* SPDX-License-Identifier: MIT */
/* The derivatives of compute/derivatives.h: their values, their cost as plans, their refusals. */
#include "compute/derivatives.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"

enum { MOST = 4096 };

static compute_graph *graph;
static compute_node inputs[8];
static compute_tensor *tensors[8];
static size_t input_count;

static int start(void **state) {
  (void)state;
  graph = compute_graph_create(test_context);
  input_count = 0;
  return graph ? 0 : -1;
}

static int end(void **state) {
  (void)state;
  for (size_t i = 0; i < input_count; i++) compute_tensor_release(tensors[i]);
  compute_graph_release(graph);
  return 0;
}

static compute_node given(compute_shape shape) {
  tensors[input_count] = test_random_tensor(test_context, COMPUTE_F64, shape, 7 + input_count);
  inputs[input_count] = compute_input(graph, COMPUTE_F64, shape);
  return inputs[input_count++];
}

static compute_node total(compute_node x) {
  return compute_sum(graph, x, COMPUTE_ALL_AXES, false);
}

/* Runs the plan with one output. Returns the number of elements. */
static int64_t run_plan(const compute_plan *plan, compute_node output, double *values) {
  compute_binding bindings[9];
  const compute_shape shape = compute_node_shape(graph, output);
  int64_t count = 0;
  assert_ok(compute_shape_count(shape, &count));
  assert_true(count <= MOST);
  for (size_t i = 0; i < input_count; i++) bindings[i] = (compute_binding){inputs[i], tensors[i]};
  bindings[input_count] =
      (compute_binding){output, test_tensor(test_context, COMPUTE_F64, shape, NULL)};
  assert_ok(compute_run(plan, bindings, input_count + 1, NULL));
  assert_ok(compute_tensor_read(bindings[input_count].tensor, values, (size_t)count * 8));
  compute_tensor_release(bindings[input_count].tensor);
  return count;
}

static int64_t values_of(compute_node output, double *values) {
  if (compute_graph_status(graph)) fail_msg("%s", compute_error_message(test_context));
  compute_plan *plan = test_compile(graph, &output, 1, 0);
  const int64_t count = run_plan(plan, output, values);
  compute_plan_release(plan);
  return count;
}

static void expect_equal(compute_node a, compute_node b, double tolerance) {
  static double x[MOST], y[MOST];
  assert_true(compute_shape_equal(compute_node_shape(graph, a), compute_node_shape(graph, b)));
  const int64_t count = values_of(a, x);
  values_of(b, y);
  for (int64_t i = 0; i < count; i++)
    if (!(fabs(x[i] - y[i]) <= tolerance * (1 + fabs(y[i]))))
      fail_msg("[%lld]: %.15g, expected %.15g", (long long)i, x[i], y[i]);
}

/* Two layers of tanh over x [5,4]. */
static compute_node network(compute_node x, compute_node a, compute_node b) {
  const compute_node h = compute_tanh(graph, compute_matmul(graph, x, a));
  return compute_tanh(graph, compute_matmul(graph, h, b));
}

/* ---- Products -------------------------------------------------------------------------------- */

static void vjp_is_the_gradient_of_a_weighted_sum(void **state) {
  (void)state;
  const compute_node x = given(COMPUTE_SHAPE(5, 4)), a = given(COMPUTE_SHAPE(4, 3));
  const compute_node b = given(COMPUTE_SHAPE(3, 2)), w = given(COMPUTE_SHAPE(5, 2));
  const compute_node u = given(COMPUTE_SHAPE(5, 4));
  const compute_node y[] = {network(x, a, b), compute_square(graph, x)}, of[] = {a, x, a};
  const compute_node weights[] = {w, u};
  compute_node products[3], expected[3];
  assert_ok(compute_vjp(graph, y, weights, 2, of, 3, products));
  const compute_node sum =
      compute_add(graph, total(compute_mul(graph, y[0], w)), total(compute_mul(graph, y[1], u)));
  assert_ok(compute_gradients(graph, sum, of, 3, expected));
  for (int i = 0; i < 3; i++) expect_equal(products[i], expected[i], 1e-13);
  /* The weights are constant, even if they depend on x. */
  compute_node constant;
  assert_ok(compute_vjp(graph, &y[1], &x, 1, &x, 1, &constant));
  expect_equal(constant, compute_mul(graph, compute_add(graph, x, x), x), 1e-14);
}

static void jvp_is_the_rate_along_a_direction(void **state) {
  (void)state;
  const compute_node x = given(COMPUTE_SHAPE(5, 4)), a = given(COMPUTE_SHAPE(4, 3));
  const compute_node b = given(COMPUTE_SHAPE(3, 2)), dx = given(COMPUTE_SHAPE(5, 4));
  const compute_node db = given(COMPUTE_SHAPE(3, 2));
  const compute_node y[] = {network(x, a, b), compute_square(graph, x)};
  const compute_node of[] = {x, b}, directions[] = {dx, db};
  compute_node products[2];
  assert_ok(compute_jvp(graph, y, 2, of, directions, 2, products));
  /* By hand. */
  const compute_node one = compute_scalar(graph, COMPUTE_F64, 1);
  const compute_node h = compute_tanh(graph, compute_matmul(graph, x, a));
  const compute_node dh = compute_mul(graph, compute_sub(graph, one, compute_square(graph, h)),
                                      compute_matmul(graph, dx, a));
  const compute_node inner =
      compute_add(graph, compute_matmul(graph, dh, b), compute_matmul(graph, h, db));
  expect_equal(products[0],
               compute_mul(graph, compute_sub(graph, one, compute_square(graph, y[0])), inner),
               1e-13);
  expect_equal(products[1], compute_mul(graph, compute_add(graph, x, x), dx), 1e-13);
}

static void an_output_without_dependence_has_products_of_zero(void **state) {
  (void)state;
  const compute_node x = given(COMPUTE_SHAPE(4)), other = given(COMPUTE_SHAPE(3));
  const compute_node y[] = {compute_exp(graph, other), compute_floor(graph, x), x};
  compute_node products[3], back;
  double values[4];
  assert_ok(compute_jvp(graph, y, 3, &x, &x, 1, products));
  for (int k = 0; k < 2; k++)
    for (int64_t i = values_of(products[k], values); i-- > 0;) assert_true(values[i] == 0);
  expect_equal(products[2], x, 0);
  assert_ok(compute_vjp(graph, y, (compute_node[]){other}, 1, &x, 1, &back));
  for (int64_t i = values_of(back, values); i-- > 0;) assert_true(values[i] == 0);
}

static void hvp_and_hessian_agree(void **state) {
  (void)state;
  const compute_node x = given(COMPUTE_SHAPE(2, 3)), d = given(COMPUTE_SHAPE(2, 3));
  const compute_node loss =
      total(compute_mul(graph, compute_exp(graph, x),
                        compute_sin(graph, compute_cumulative_sum(graph, x, 1, false, false))));
  compute_node product, hessian;
  assert_ok(compute_hvp(graph, loss, &x, &d, 1, &product));
  assert_ok(compute_hessian(graph, loss, x, &hessian));
  assert_true(compute_shape_equal(compute_node_shape(graph, hessian), COMPUTE_SHAPE(2, 3, 2, 3)));
  const compute_node matrix = compute_reshape(graph, hessian, COMPUTE_SHAPE(6, 6));
  expect_equal(matrix, compute_transpose(graph, matrix, COMPUTE_ALL_AXES), 1e-14);
  const compute_node flat = compute_reshape(graph, d, COMPUTE_SHAPE(6));
  expect_equal(compute_reshape(graph, product, COMPUTE_SHAPE(6)),
               compute_matmul(graph, matrix, flat), 1e-13);
}

/* Mixed terms of several nodes. */
static void hvp_has_the_mixed_terms(void **state) {
  (void)state;
  const compute_node x = given(COMPUTE_SHAPE(3)), y = given(COMPUTE_SHAPE(3));
  const compute_node u = given(COMPUTE_SHAPE(3)), v = given(COMPUTE_SHAPE(3));
  const compute_node loss = total(compute_mul(graph, compute_square(graph, x), y));
  compute_node products[2];
  assert_ok(compute_hvp(graph, loss, (compute_node[]){x, y}, (compute_node[]){u, v}, 2, products));
  const compute_node two = compute_scalar(graph, COMPUTE_F64, 2);
  const compute_node cross = compute_mul(graph, two, compute_mul(graph, x, v));
  const compute_node own = compute_mul(graph, two, compute_mul(graph, y, u));
  expect_equal(products[0], compute_add(graph, own, cross), 1e-14);
  expect_equal(products[1], compute_mul(graph, two, compute_mul(graph, x, u)), 1e-14);
}

/* A function that is linear in pieces, through conditions and through positions. */
static void pieces_of_linear_functions_have_second_derivatives_of_zero(void **state) {
  (void)state;
  const compute_node x = given(COMPUTE_SHAPE(6)), w = given(COMPUTE_SHAPE(6));
  const compute_node losses[] = {total(compute_relu(graph, x)),
                                 total(compute_abs(graph, x)),
                                 compute_max(graph, x, COMPUTE_ALL_AXES, false),
                                 total(compute_maximum(graph, x, w)),
                                 total(compute_top_k(graph, x, 2, 0, false, NULL)),
                                 total(compute_mul(graph, compute_sort(graph, x, 0, false), w))};
  for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
    compute_node first, again, product;
    double values[6];
    assert_ok(compute_gradients(graph, losses[i], &x, 1, &first));
    assert_ok(compute_gradients(graph, total(compute_mul(graph, first, w)), &x, 1, &again));
    for (int64_t k = values_of(again, values); k-- > 0;) assert_true(values[k] == 0);
    assert_ok(compute_hvp(graph, losses[i], &x, &w, 1, &product));
    for (int64_t k = values_of(product, values); k-- > 0;) assert_true(values[k] == 0);
  }
}

/* Outputs and constants among `of`, a node twice, and dtypes that differ along the way. */
static void of_may_be_any_float_nodes(void **state) {
  (void)state;
  const double numbers[] = {1, 2, 3};
  const compute_node x = given(COMPUTE_SHAPE(3));
  const compute_node k = compute_constant(graph, COMPUTE_F64, COMPUTE_SHAPE(3), numbers);
  const compute_node y = compute_mul(graph, x, k), two = compute_scalar(graph, COMPUTE_F64, 2);
  compute_node products[4];
  assert_ok(compute_jvp(graph, (compute_node[]){y, k, x, y}, 4, (compute_node[]){k, x},
                        (compute_node[]){x, k}, 2, products));
  const compute_node rate = compute_add(graph, compute_square(graph, x), compute_square(graph, k));
  expect_equal(products[0], rate, 1e-13);
  expect_equal(products[1], x, 0);
  expect_equal(products[2], k, 0);
  expect_equal(products[3], rate, 1e-13);
  /* Both directions of a node that is listed twice count. */
  const compute_node cube = total(compute_mul(graph, x, compute_square(graph, x)));
  assert_ok(compute_hvp(graph, cube, (compute_node[]){x, x}, (compute_node[]){k, k}, 2, products));
  const compute_node twelve =
      compute_mul(graph, compute_scalar(graph, COMPUTE_F64, 12), compute_mul(graph, x, k));
  for (int i = 0; i < 2; i++) expect_equal(products[i], twelve, 1e-13);
  /* x as f32, squared, and back: the Jacobians are f64 and f32. */
  const compute_node narrow = compute_cast(graph, x, COMPUTE_F32);
  const compute_node back = compute_cast(graph, compute_square(graph, narrow), COMPUTE_F64);
  assert_ok(compute_jacobian(graph, back, (compute_node[]){x, narrow}, 2, products));
  assert_int_equal(compute_node_dtype(graph, products[0]), COMPUTE_F64);
  assert_int_equal(compute_node_dtype(graph, products[1]), COMPUTE_F32);
  const compute_node sum = compute_sum(graph, products[0], COMPUTE_AXES(1), false);
  expect_equal(sum, compute_mul(graph, two, compute_cast(graph, narrow, COMPUTE_F64)), 1e-6);
  expect_equal(compute_cast(graph, products[1], COMPUTE_F64), products[0], 0);
  /* Nothing to do. */
  assert_ok(compute_vjp(graph, &y, &x, 1, NULL, 0, NULL));
  assert_ok(compute_hvp(graph, cube, NULL, NULL, 0, NULL));
  assert_ok(compute_jacobian(graph, y, NULL, 0, NULL));
}

static void scalars_and_eight_axes_have_matrices(void **state) {
  (void)state;
  const compute_shape four = COMPUTE_SHAPE(1, 2, 1, 1),
                      eight = COMPUTE_SHAPE(1, 2, 1, 1, 1, 2, 1, 1);
  const compute_node s = given(COMPUTE_SCALAR), x = given(four);
  compute_node matrix;
  assert_ok(compute_hessian(graph, compute_exp(graph, s), s, &matrix));
  assert_int_equal(compute_node_shape(graph, matrix).rank, 0);
  expect_equal(matrix, compute_exp(graph, s), 1e-13);
  assert_ok(compute_hessian(graph, total(compute_exp(graph, x)), x, &matrix));
  assert_true(compute_shape_equal(compute_node_shape(graph, matrix), eight));
  expect_equal(total(matrix), total(compute_exp(graph, x)), 1e-13);
  const compute_node wide = given(COMPUTE_SHAPE(1, 1, 1, 1, 1));
  assert_fails(compute_hessian(graph, total(wide), wide, &matrix), COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "has 10 axes; at most 8 are possible");
  compute_graph_clear_error(graph);
}

/* ---- Matrices -------------------------------------------------------------------------------- */

static void jacobians_by_rows_and_by_columns_are_equal(void **state) {
  (void)state;
  const compute_node x = given(COMPUTE_SHAPE(3)), a = given(COMPUTE_SHAPE(2, 3, 4));
  const compute_node wide = compute_softmax(graph, compute_matmul(graph, x, a), -1);
  compute_node columns, rows[8], jacobian[2];
  /* Eight outputs of three variables: by columns. */
  assert_ok(compute_jacobian(graph, wide, (compute_node[]){x, a}, 2, jacobian));
  columns = jacobian[0];
  assert_true(compute_shape_equal(compute_node_shape(graph, columns), COMPUTE_SHAPE(2, 4, 3)));
  assert_true(
      compute_shape_equal(compute_node_shape(graph, jacobian[1]), COMPUTE_SHAPE(2, 4, 2, 3, 4)));
  const compute_node flat = compute_reshape(graph, wide, COMPUTE_SHAPE(8));
  for (int64_t k = 0; k < 8; k++) {
    compute_node row;
    assert_ok(compute_gradients(graph, compute_slice(graph, flat, 0, k, 1, 1), &x, 1, &row));
    rows[k] = compute_reshape(graph, row, COMPUTE_SHAPE(1, 3));
  }
  const compute_node joined = compute_concat(graph, rows, 8, 0);
  expect_equal(columns, compute_reshape(graph, joined, COMPUTE_SHAPE(2, 4, 3)), 1e-13);
  /* Two outputs of three variables: by rows. */
  compute_node narrow;
  const compute_node two = compute_slice(graph, flat, 0, 0, 2, 1);
  assert_ok(compute_jacobian(graph, two, &x, 1, &narrow));
  expect_equal(narrow, compute_concat(graph, rows, 2, 0), 1e-13);
}

static void empty_jacobians_have_their_shape(void **state) {
  (void)state;
  const compute_node x = given(COMPUTE_SHAPE(0, 2)), y = compute_exp(graph, x);
  compute_node jacobian;
  double none[1];
  assert_ok(compute_jacobian(graph, y, &x, 1, &jacobian));
  assert_true(compute_shape_equal(compute_node_shape(graph, jacobian), COMPUTE_SHAPE(0, 2, 0, 2)));
  assert_int_equal(values_of(jacobian, none), 0);
}

/* ---- Samples --------------------------------------------------------------------------------- */

typedef struct sampled {
  compute_node a, b;
  int calls;
} sampled;

static compute_node loss_of(compute_node y, compute_node target) {
  return total(compute_square(graph, compute_sub(graph, y, target)));
}

static compute_node sample_loss(void *user, compute_graph *g, const compute_node *items) {
  sampled *s = user;
  assert_ptr_equal(g, graph);
  s->calls++;
  return loss_of(network(items[0], s->a, s->b), items[1]);
}

/* A copy of a weight for each sample. */
static compute_node copies(compute_node weight, int64_t count) {
  const compute_shape from = compute_node_shape(graph, weight);
  return compute_broadcast(graph, weight, COMPUTE_SHAPE(count, from.size[0], from.size[1]));
}

static void samples_have_their_own_gradients(void **state) {
  (void)state;
  enum { SAMPLES = 5 };
  const compute_node x = given(COMPUTE_SHAPE(SAMPLES, 4)), t = given(COMPUTE_SHAPE(SAMPLES, 2));
  sampled s = {.a = given(COMPUTE_SHAPE(4, 3)), .b = given(COMPUTE_SHAPE(3, 2))};
  const compute_node of[] = {s.a, s.b};
  compute_node losses, gradients[2], sum[2], whole[2];
  assert_ok(compute_sample_gradients(graph, sample_loss, &s, (compute_node[]){x, t}, 2, of, 2,
                                     &losses, gradients));
  assert_int_equal(s.calls, SAMPLES);
  assert_true(
      compute_shape_equal(compute_node_shape(graph, gradients[1]), COMPUTE_SHAPE(SAMPLES, 3, 2)));
  /* Their sum is the gradient of the whole batch, and the losses' sum its loss. */
  const compute_node loss = loss_of(network(x, s.a, s.b), t);
  assert_ok(compute_gradients(graph, loss, of, 2, whole));
  expect_equal(total(losses), loss, 1e-13);
  for (int i = 0; i < 2; i++) {
    sum[i] = compute_sum(graph, gradients[i], COMPUTE_AXES(0), false);
    expect_equal(sum[i], whole[i], 1e-13);
  }
  /* The other way: weights repeated for every sample. */
  const compute_node many[] = {copies(s.a, SAMPLES), copies(s.b, SAMPLES)};
  const compute_node rows = compute_reshape(graph, x, COMPUTE_SHAPE(SAMPLES, 1, 4));
  const compute_node targets = compute_reshape(graph, t, COMPUTE_SHAPE(SAMPLES, 1, 2));
  compute_node batched[2];
  assert_ok(compute_gradients(graph, loss_of(network(rows, many[0], many[1]), targets), many, 2,
                              batched));
  for (int i = 0; i < 2; i++) expect_equal(gradients[i], batched[i], 1e-13);
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

enum { LAYERS = 36, WIDTH = 64, ROWS = 64 };

/* A deep network, with a checkpoint after every `every` layers; 0: none. */
static compute_node deep(compute_node x, compute_node w, int every) {
  for (int i = 0; i < LAYERS; i++) {
    x = compute_add(graph, x, compute_gelu(graph, compute_matmul(graph, compute_sin(graph, x), w)));
    if (every && i % every == every - 1 && i + 1 < LAYERS) x = compute_checkpoint(graph, x);
  }
  return compute_mean(graph, compute_square(graph, x), COMPUTE_ALL_AXES, false);
}

static void checkpoints_give_the_same_gradients_in_less_memory(void **state) {
  (void)state;
  static double kept[MOST], again[MOST];
  const compute_node x = given(COMPUTE_SHAPE(ROWS, WIDTH)), w = given(COMPUTE_SHAPE(WIDTH, WIDTH));
  compute_node of[2], gradients[2];
  compute_plan_info info[2];
  const compute_node scaled = compute_mul(graph, w, compute_scalar(graph, COMPUTE_F64, 0.05));
  for (int k = 0; k < 2; k++) {
    const compute_node loss = deep(x, scaled, k ? 6 : 0);
    of[0] = w;
    assert_ok(compute_gradients(graph, loss, of, 1, &gradients[k]));
    compute_plan *plan = test_compile(graph, &gradients[k], 1, 0);
    assert_ok(compute_plan_describe(plan, &info[k]));
    run_plan(plan, gradients[k], k ? again : kept);
    compute_plan_release(plan);
  }
  double largest = 0, difference = 0;
  for (int i = 0; i < WIDTH * WIDTH; i++) {
    largest = fmax(largest, fabs(kept[i]));
    difference = fmax(difference, fabs(kept[i] - again[i]));
  }
  print_message("%d layers: %.0f KiB for activations, %.0f KiB with %d checkpoints; %.2f times the "
                "operations; largest difference %g\n",
                LAYERS, (double)info[0].arena_bytes / 1024, (double)info[1].arena_bytes / 1024,
                LAYERS / 6 - 1, (double)info[1].flops / (double)info[0].flops, difference);
  assert_true(difference <= 1e-13 * largest);
  assert_true(info[1].arena_bytes * 2 < info[0].arena_bytes);
  assert_true((double)info[1].flops < 1.45 * (double)info[0].flops);
}

/* Random numbers, batch statistics, indices and values that leave a stretch. */
static compute_node mixture(compute_node x, compute_node seed, compute_node table, bool marked) {
  const compute_node positions = compute_argmax(graph, x, 1, false);
  compute_node h = compute_mul(graph, x, compute_gather(graph, table, positions, 0));
  h = compute_dropout(graph, compute_tanh(graph, h), 0.3, seed, 5);
  const compute_node skipped = h;
  h = compute_batch_norm_training(graph, h, (compute_node){0}, (compute_node){0}, 1e-3, NULL, NULL);
  if (marked) h = compute_checkpoint(graph, h);
  h = compute_mul(graph, compute_exp(graph, h), skipped);
  h = compute_max(graph, h, COMPUTE_AXES(1), true);
  if (marked) h = compute_checkpoint(graph, h);
  return total(compute_mul(graph, compute_sin(graph, h), x));
}

static void a_stretch_may_contain_anything(void **state) {
  (void)state;
  const compute_node x = given(COMPUTE_SHAPE(6, 4)), table = given(COMPUTE_SHAPE(4, 4));
  const compute_node seed =
      compute_constant(graph, COMPUTE_I64, COMPUTE_SCALAR, &(const int64_t){11});
  const compute_node of[] = {x, table};
  compute_node gradients[2][2], product[2];
  for (int k = 0; k < 2; k++) {
    const compute_node loss = mixture(x, seed, table, k == 1);
    assert_ok(compute_gradients(graph, loss, of, 2, gradients[k]));
    assert_ok(compute_hvp(graph, loss, &x, &x, 1, &product[k]));
  }
  for (int i = 0; i < 2; i++) expect_equal(gradients[1][i], gradients[0][i], 1e-14);
  expect_equal(product[1], product[0], 1e-12);
}

/* A requested node inside a stretch. */
static void a_gradient_by_a_value_within_a_stretch(void **state) {
  (void)state;
  const compute_node x = given(COMPUTE_SHAPE(7));
  compute_node gradients[2];
  for (int k = 0; k < 2; k++) {
    const compute_node inner = compute_exp(graph, x);
    compute_node h = compute_sin(graph, compute_square(graph, inner));
    if (k) h = compute_checkpoint(graph, h);
    const compute_node loss = total(compute_square(graph, h));
    assert_ok(compute_gradients(graph, loss, &inner, 1, &gradients[k]));
  }
  expect_equal(gradients[1], gradients[0], 1e-14);
}

/* ---- Cost ------------------------------------------------------------------------------------ */

/* The tangents of a network of dense layers, by hand: the cost that compute_jvp is measured by. */
static void jvp_costs_as_much_as_a_forward_pass_by_hand(void **state) {
  (void)state;
  const compute_node x = given(COMPUTE_SHAPE(ROWS, WIDTH)), w = given(COMPUTE_SHAPE(WIDTH, WIDTH));
  const compute_node d = given(COMPUTE_SHAPE(ROWS, WIDTH));
  const compute_node one = compute_scalar(graph, COMPUTE_F64, 1);
  compute_node y = x, tangent = d, product;
  for (int i = 0; i < 8; i++) {
    y = compute_tanh(graph, compute_matmul(graph, y, w));
    tangent = compute_mul(graph, compute_matmul(graph, tangent, w),
                          compute_sub(graph, one, compute_square(graph, y)));
  }
  assert_ok(compute_jvp(graph, &y, 1, &x, &d, 1, &product));
  expect_equal(product, tangent, 1e-12);
  compute_plan_info info[2];
  for (int k = 0; k < 2; k++) {
    compute_plan *plan = test_compile(graph, k ? &product : &tangent, 1, 0);
    assert_ok(compute_plan_describe(plan, &info[k]));
    compute_plan_release(plan);
  }
  print_message("jvp of 8 layers: %u kernels, %llu operations; by hand: %u, %llu\n", info[1].steps,
                (unsigned long long)info[1].flops, info[0].steps,
                (unsigned long long)info[0].flops);
  assert_true(info[1].steps <= info[0].steps + 2);
  assert_true((double)info[1].flops <= 1.02 * (double)info[0].flops);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void expect_refusal(compute_status status, compute_status expected, const char *text) {
  if (status != expected)
    fail_msg("%s instead of %s", compute_status_name(status), compute_status_name(expected));
  test_check_message(test_context, text);
  compute_graph_clear_error(graph);
}

static compute_node no_loss(void *user, compute_graph *g, const compute_node *items) {
  (void)user;
  (void)g;
  return items[0];
}

static void mistakes_are_named(void **state) {
  (void)state;
  const compute_node x = given(COMPUTE_SHAPE(3, 2)), y = compute_exp(graph, x);
  const compute_node loss = total(y), none = {0};
  const compute_node whole = compute_argmax(graph, x, 0, false);
  const compute_node large = compute_input(graph, COMPUTE_F64, COMPUTE_SHAPE(5000));
  const compute_node axes = compute_input(graph, COMPUTE_F64, COMPUTE_SHAPE(1, 1, 1, 1, 1));
  compute_node out[2] = {x, x};
  expect_refusal(compute_vjp(graph, &y, &loss, 1, &x, 1, out), COMPUTE_ERROR_SHAPE,
                 "vjp: weights[0] is f64 []; it must be f64 [3,2], as outputs[0]");
  assert_true(out[0].id == 0);
  expect_refusal(compute_vjp(graph, &y, &y, 0, &x, 1, out), COMPUTE_ERROR_INVALID_ARGUMENT,
                 "vjp: there are no outputs");
  expect_refusal(compute_vjp(graph, NULL, &y, 1, &x, 1, out), COMPUTE_ERROR_NULL_POINTER,
                 "vjp: outputs is NULL");
  expect_refusal(compute_vjp(graph, &whole, &whole, 1, &x, 1, out), COMPUTE_ERROR_DTYPE,
                 "vjp: outputs[0] is i64");
  expect_refusal(compute_jvp(graph, &y, 1, &x, &whole, 1, out), COMPUTE_ERROR_DTYPE,
                 "jvp: directions[0] is i64");
  expect_refusal(compute_jvp(graph, &y, 1, NULL, NULL, 0, out), COMPUTE_ERROR_INVALID_ARGUMENT,
                 "jvp: there are no nodes in `of`");
  expect_refusal(compute_jvp(graph, &y, 1, &none, &x, 1, out), COMPUTE_ERROR_WRONG_GRAPH, "jvp:");
  expect_refusal(compute_hvp(graph, y, &x, &x, 1, out), COMPUTE_ERROR_SHAPE,
                 "hvp: the loss has shape [3,2]; it must be one element");
  const compute_node blocked = total(compute_cast(graph, whole, COMPUTE_F64));
  expect_refusal(compute_hvp(graph, blocked, &x, &x, 1, out), COMPUTE_ERROR_NOT_DIFFERENTIABLE,
                 "argmax");
  expect_refusal(compute_jacobian(graph, compute_exp(graph, large), &large, 1, out),
                 COMPUTE_ERROR_UNSUPPORTED,
                 "jacobian: [5000] by [5000] takes 5000 passes; at most 4096");
  expect_refusal(compute_jacobian(graph, compute_exp(graph, axes), &axes, 1, out),
                 COMPUTE_ERROR_SHAPE, "has 10 axes; at most 8");
  expect_refusal(compute_hessian(graph, loss, x, NULL), COMPUTE_ERROR_NULL_POINTER,
                 "hessian: hessian is NULL");
  expect_refusal(compute_sample_gradients(graph, NULL, NULL, &x, 1, &x, 1, NULL, out),
                 COMPUTE_ERROR_NULL_POINTER, "sample_gradients: loss is NULL");
  expect_refusal(compute_sample_gradients(graph, no_loss, NULL, &x, 0, &x, 1, NULL, out),
                 COMPUTE_ERROR_INVALID_ARGUMENT, "sample_gradients: there are no inputs");
  expect_refusal(compute_sample_gradients(graph, no_loss, NULL, (compute_node[]){x, large}, 2, &x,
                                          1, NULL, out),
                 COMPUTE_ERROR_SHAPE, "inputs[1] has shape [5000]");
  expect_refusal(compute_sample_gradients(graph, no_loss, NULL, &large, 1, &x, 1, NULL, out),
                 COMPUTE_ERROR_UNSUPPORTED, "5000 samples");
  expect_refusal(compute_sample_gradients(graph, no_loss, NULL, &x, 1, &x, 1, NULL, out),
                 COMPUTE_ERROR_SHAPE, "the loss has shape [1,2]");
  assert_true(compute_checkpoint(graph, none).id == 0);
  expect_refusal(compute_graph_status(graph), COMPUTE_ERROR_WRONG_GRAPH, "checkpoint:");
  assert_int_equal(compute_vjp(NULL, &y, &y, 1, &x, 1, out), COMPUTE_ERROR_NULL_POINTER);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(vjp_is_the_gradient_of_a_weighted_sum),
      TEST(jvp_is_the_rate_along_a_direction),
      TEST(an_output_without_dependence_has_products_of_zero),
      TEST(hvp_and_hessian_agree),
      TEST(hvp_has_the_mixed_terms),
      TEST(pieces_of_linear_functions_have_second_derivatives_of_zero),
      TEST(of_may_be_any_float_nodes),
      TEST(scalars_and_eight_axes_have_matrices),
      TEST(jacobians_by_rows_and_by_columns_are_equal),
      TEST(empty_jacobians_have_their_shape),
      TEST(samples_have_their_own_gradients),
      TEST(checkpoints_give_the_same_gradients_in_less_memory),
      TEST(a_stretch_may_contain_anything),
      TEST(a_gradient_by_a_value_within_a_stretch),
      TEST(jvp_costs_as_much_as_a_forward_pass_by_hand),
      TEST(mistakes_are_named),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
