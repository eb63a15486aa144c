/* SPDX-License-Identifier: MIT */
/* Gradients of random numbers for the parameters of their distributions. Truncated normal, gamma
 * and beta numbers keep their quantiles. Finite differences of quantiles, and known derivatives of
 * means, judge them. Pinned sums of all bits make every device give the same derivatives. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernel/common/draw.h"
#include "support/harness/test.h"
#include "support/reference/gamma_below.h"

/* Reads a node of dtype f64, for a seed. */
static void read_node(compute_graph *g, compute_node seed, compute_node y, int64_t number,
                      double *data) {
  const compute_shape shape = compute_node_shape(g, y);
  int64_t count;
  assert_ok(compute_graph_status(g));
  assert_ok(compute_shape_count(shape, &count));
  compute_plan *plan = test_compile(g, &y, 1, 0);
  compute_tensor *ts = test_tensor(test_context, COMPUTE_I64, COMPUTE_SCALAR, &number);
  compute_tensor *ty = test_tensor(test_context, COMPUTE_F64, shape, NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{seed, ts}, {y, ty}}, 2, NULL));
  assert_ok(compute_tensor_read(ty, data, (size_t)count * sizeof *data));
  compute_tensor_release(ts);
  compute_tensor_release(ty);
  compute_plan_release(plan);
}

/* The derivatives of truncated normal numbers with respect to their limits, against differences. */
static void truncated_numbers_have_gradients(void **state) {
  (void)state;
  enum { COUNT = 40 };
  const double step = 1e-5, limits[2] = {-0.75, 1.5};
  double moved[2][2][COUNT], slope[2][COUNT];
  for (int which = 0; which < 2; which++) {
    for (int side = 0; side < 2; side++) {
      compute_graph *g = compute_graph_create(test_context);
      const compute_node seed = compute_input(g, COMPUTE_I64, COMPUTE_SCALAR);
      const compute_shape shape = COMPUTE_SHAPE(COUNT);
      const double moves = side ? step : -step;
      const compute_node a = compute_full(g, COMPUTE_F64, shape, limits[0] + (which ? 0 : moves));
      const compute_node b = compute_full(g, COMPUTE_F64, shape, limits[1] + (which ? moves : 0));
      const compute_node x = compute_random_truncated_normal(g, a, b, COMPUTE_F64, shape, seed, 1);
      read_node(g, seed, x, 9, moved[which][side]);
      compute_graph_release(g);
    }
    compute_graph *g = compute_graph_create(test_context);
    const compute_node seed = compute_input(g, COMPUTE_I64, COMPUTE_SCALAR);
    const compute_shape shape = COMPUTE_SHAPE(COUNT);
    const compute_node a = compute_full(g, COMPUTE_F64, shape, limits[0]);
    const compute_node b = compute_full(g, COMPUTE_F64, shape, limits[1]);
    const compute_node x = compute_random_truncated_normal(g, a, b, COMPUTE_F64, shape, seed, 1);
    const compute_node loss = compute_sum(g, x, COMPUTE_ALL_AXES, false);
    compute_node gradient;
    assert_ok(compute_gradients(g, loss, which ? &b : &a, 1, &gradient));
    read_node(g, seed, gradient, 9, slope[which]);
    compute_graph_release(g);
  }
  for (int which = 0; which < 2; which++)
    for (int i = 0; i < COUNT; i++) {
      const double difference = (moved[which][1][i] - moved[which][0][i]) / (2 * step);
      assert_true(fabs(difference - slope[which][i]) < 1e-6);
    }
}

/* ---- Gamma and beta -------------------------------------------------------------------------- */

enum { DRAWS = 200, MANY = 100000 };

/* Numbers with two shapes, or one: their uniform numbers, and derivatives for both. */
typedef struct drawn {
  double a, b; /* b = 0: gamma numbers */
  double *u, *x, *slope[2];
} drawn;

static double *room(int count) {
  double *data = calloc((size_t)count, sizeof *data);
  assert_non_null(data);
  return data;
}

/* `weight` is 1 for the derivatives of x, 2 for the derivatives of x². */
static drawn draw(double a, double b, int count, int weight) {
  drawn d = {a, b, room(count), room(count), {room(count), room(count)}};
  const compute_shape shape = COMPUTE_SHAPE(count);
  compute_graph *g = compute_graph_create(test_context);
  const compute_node seed = compute_input(g, COMPUTE_I64, COMPUTE_SCALAR);
  const compute_node shapes[2] = {compute_full(g, COMPUTE_F64, shape, a),
                                  compute_full(g, COMPUTE_F64, shape, b)};
  const compute_node x =
      b == 0 ? compute_random_gamma(g, shapes[0], COMPUTE_F64, shape, seed, 3)
             : compute_random_beta(g, shapes[0], shapes[1], COMPUTE_F64, shape, seed, 3);
  const compute_node y = weight == 1 ? x : compute_square(g, x);
  const size_t wanted = b == 0 ? 1 : 2;
  compute_node slopes[2];
  assert_ok(
      compute_gradients(g, compute_sum(g, y, COMPUTE_ALL_AXES, false), shapes, wanted, slopes));
  read_node(g, seed, compute_random_uniform(g, COMPUTE_F64, shape, seed, 3), 41, d.u);
  read_node(g, seed, x, 41, d.x);
  for (size_t i = 0; i < wanted; i++) read_node(g, seed, slopes[i], 41, d.slope[i]);
  compute_graph_release(g);
  return d;
}

static void release(drawn *d) {
  free(d->u), free(d->x), free(d->slope[0]), free(d->slope[1]);
}

/* The gamma number with `shape` that has the quantile of x with shape a; by halving. */
static double same_quantile(double a, double x, double shape) {
  const double wanted = gamma_below(a, x);
  double low = x / 2, high = 2 * x;
  for (int k = 0; k < 60; k++) {
    const double middle = 0.5 * (low + high);
    *(gamma_below(shape, middle) < wanted ? &low : &high) = middle;
  }
  return 0.5 * (low + high);
}

static bool close_to(double found, double wanted) {
  return fabs(found - wanted) <= 1e-6 * fabs(wanted) + 1e-12;
}

static void gamma_gradients_keep_the_quantile(void **state) {
  (void)state;
  static const double shapes[] = {0.1, 0.5, 1, 3, 20, 79.5, 80.5, 1000};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const double a = shapes[i], step = 1e-4 * a;
    drawn d = draw(a, 0, DRAWS, 1);
    for (int k = 0; k < DRAWS; k++) {
      const double above = same_quantile(a, d.x[k], a + step);
      const double difference = (above - same_quantile(a, d.x[k], a - step)) / (2 * step);
      if (!close_to(d.slope[0][k], difference))
        fail_msg("shape %g, x %.17g: %.17g, not %.17g", a, d.x[k], d.slope[0][k], difference);
    }
    release(&d);
  }
}

/* A beta number is x / (x + y). draw_number gives y for the second shape, and so x. */
static void beta_gradients_keep_both_quantiles(void **state) {
  (void)state;
  static const double shapes[][2] = {{0.7, 2}, {3, 0.5}, {4, 2}, {85, 20}, {100, 300}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    drawn d = draw(shapes[i][0], shapes[i][1], DRAWS, 1);
    for (int k = 0; k < DRAWS; k++) {
      const double y = draw_number(COMPUTE_I_DRAW_GAMMA, d.u[k], d.b, 0);
      const double x = y * d.x[k] / (1 - d.x[k]), step[2] = {1e-4 * d.a, 1e-4 * d.b};
      double moved[2][2];
      for (int side = 0; side < 2; side++) {
        const double sign = side ? 1 : -1;
        const double other_x = same_quantile(d.a, x, d.a + sign * step[0]);
        const double other_y = same_quantile(d.b, y, d.b + sign * step[1]);
        moved[0][side] = other_x / (other_x + y);
        moved[1][side] = x / (x + other_y);
      }
      for (int p = 0; p < 2; p++) {
        const double difference = (moved[p][1] - moved[p][0]) / (2 * step[p]);
        if (!close_to(d.slope[p][k], difference))
          fail_msg("shapes %g and %g, x %.17g: derivative %d is %.17g, not %.17g", d.a, d.b, d.x[k],
                   p, d.slope[p][k], difference);
      }
    }
    release(&d);
  }
}

static void check_mean(const double *values, double wanted, const char *name) {
  double sum = 0, squares = 0;
  for (int k = 0; k < MANY; k++) sum += values[k];
  for (int k = 0; k < MANY; k++) squares += (values[k] - sum / MANY) * (values[k] - sum / MANY);
  const double error = sqrt(squares) / MANY;
  if (!(fabs(sum / MANY - wanted) < 5 * error))
    fail_msg("%s: %g, not %g ± %g", name, sum / MANY, wanted, error);
}

/* Their means are the derivatives of E x and E x². */
static void gradients_are_without_bias(void **state) {
  (void)state;
  static const double shapes[][2] = {{0.3, 0}, {5, 0}, {120, 0}, {0.4, 0.6}, {3, 8}, {90, 30}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const double a = shapes[i][0], b = shapes[i][1], n = a + b, m = n + 1;
    drawn first = draw(a, b, MANY, 1), second = draw(a, b, MANY, 2);
    const double square = a / n * (a + 1) / m; /* E x² */
    check_mean(first.slope[0], b == 0 ? 1 : b / (n * n), "d E x / d a");
    check_mean(second.slope[0], b == 0 ? 2 * a + 1 : square * (1 / a + 1 / (a + 1) - 1 / n - 1 / m),
               "d E x² / d a");
    if (b != 0) check_mean(first.slope[1], -a / (n * n), "d E x / d b");
    if (b != 0) check_mean(second.slope[1], -square * (1 / n + 1 / m), "d E x² / d b");
    release(&first);
    release(&second);
  }
}

/* Underflow gives 0, never NaN. Only invalid parameters give NaN. */
static void extreme_shapes_have_finite_gradients(void **state) {
  (void)state;
  static const double shapes[][2] = {{0, 0},       {1e-320, 0}, {1e-300, 0},
                                     {1e-3, 0},    {1e18, 0},   {1e-310, 1e-310},
                                     {1e-3, 1e-3}, {1e9, 1e-9}, {1e300, 1e300}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    drawn d = draw(shapes[i][0], shapes[i][1], DRAWS, 1);
    for (int k = 0; k < DRAWS; k++)
      if (!isfinite(d.slope[0][k]) || !isfinite(d.slope[1][k]))
        fail_msg("shapes %g and %g: %g, %g", d.a, d.b, d.slope[0][k], d.slope[1][k]);
    release(&d);
  }
  drawn d = draw(-1, 0, 3, 1);
  assert_true(isnan(d.slope[0][0]));
  release(&d);
}

/* FNV-1a over many shapes. */
static void every_device_gives_the_same_bits(void **state) {
  (void)state;
  static const double shapes[][2] = {{0.01, 0}, {0.8, 0}, {7, 0}, {70, 0}, {200, 0}, {0.5, 90}};
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    drawn d = draw(shapes[i][0], shapes[i][1], DRAWS, 1);
    for (int p = 0; p < 2; p++)
      for (size_t k = 0; k < DRAWS * sizeof(double); k++)
        hash = (hash ^ ((const unsigned char *)d.slope[p])[k]) * UINT64_C(0x100000001b3);
    release(&d);
  }
  assert_int_equal(hash, UINT64_C(0x99d2180eccee8376));
}

static void second_derivatives_are_refused(void **state) {
  (void)state;
  compute_graph *g = compute_graph_create(test_context);
  const compute_node seed = compute_scalar(g, COMPUTE_I64, 1);
  const compute_node a = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(4));
  const compute_node x = compute_random_gamma(g, a, COMPUTE_F32, COMPUTE_SHAPE(4), seed, 0);
  const compute_node loss = compute_sum(g, x, COMPUTE_ALL_AXES, false);
  compute_node first, second;
  assert_ok(compute_gradients(g, loss, &a, 1, &first));
  assert_fails(compute_gradients(g, compute_sum(g, first, COMPUTE_ALL_AXES, false), &a, 1, &second),
               COMPUTE_ERROR_NOT_DIFFERENTIABLE);
  test_check_message(test_context, "second derivatives");
  compute_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(truncated_numbers_have_gradients),
      cmocka_unit_test(gamma_gradients_keep_the_quantile),
      cmocka_unit_test(beta_gradients_keep_both_quantiles),
      cmocka_unit_test(gradients_are_without_bias),
      cmocka_unit_test(extreme_shapes_have_finite_gradients),
      cmocka_unit_test(every_device_gives_the_same_bits),
      cmocka_unit_test(second_derivatives_are_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
