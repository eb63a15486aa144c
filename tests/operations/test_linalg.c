/* SPDX-License-Identifier: MIT */
/* Linear algebra: residuals, statuses of matrices without a result, batches, refused calls. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/linalg.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"
#include "support/harness/values.h"

/* Matrices of a plan are inputs: the plan computes constants on the CPU. */
static compute_binding given_inputs[8];
static size_t given_count;

static compute_node given(compute_graph *graph, compute_dtype dtype, compute_shape shape,
                          const void *data) {
  compute_binding *to = &given_inputs[given_count++];
  assert_true(given_count <= sizeof given_inputs / sizeof *given_inputs);
  to->node = compute_input(graph, dtype, shape);
  assert_ok(compute_tensor_from_host(compute_default_device(test_context), dtype, shape, data,
                                     &to->tensor));
  return to->node;
}

/* Runs a plan of up to three outputs; `out` receives their elements. */
static void run(compute_graph *graph, const compute_node *y, size_t count, void *const *out) {
  compute_binding bindings[3 + sizeof given_inputs / sizeof *given_inputs];
  assert_ok(compute_graph_status(graph));
  compute_plan *plan = test_compile(graph, y, count, 0);
  for (size_t i = 0; i < count; i++) {
    bindings[i].node = y[i];
    assert_ok(compute_plan_create_tensor(plan, y[i], &bindings[i].tensor));
  }
  memcpy(bindings + count, given_inputs, given_count * sizeof *bindings);
  assert_ok(compute_run(plan, bindings, count + given_count, NULL));
  while (given_count > 0) compute_tensor_release(given_inputs[--given_count].tensor);
  for (size_t i = 0; i < count; i++) {
    assert_ok(
        compute_tensor_read(bindings[i].tensor, out[i],
                            (size_t)compute_tensor_count(bindings[i].tensor) *
                                compute_dtype_size(compute_tensor_dtype(bindings[i].tensor))));
    compute_tensor_release(bindings[i].tensor);
  }
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void fill(double *x, int64_t count, uint64_t seed) {
  test_random random = {.state = seed};
  for (int64_t i = 0; i < count; i++) x[i] = test_random_uniform(&random, -1, 1);
}

/* ---- Residuals ------------------------------------------------------------------------------- */

/* Sizes around the lanes, the blocks and the largest matrix that shares a vector. */
static const int64_t sizes[] = {1, 2, 7, 8, 9, 31, 32, 33, 40, 67, 130};

/* a − l u, relative to a. */
static double residual(const double *a, const double *l, const double *u, int64_t n, int64_t k) {
  double worst = 0;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < k; j++) {
      double sum = a[i * k + j];
      for (int64_t t = 0; t < n; t++) sum -= l[i * n + t] * u[t * k + j];
      worst = fmax(worst, fabs(sum));
    }
  return worst;
}

static void factors_and_solutions_reproduce_their_matrices(void **state) {
  (void)state;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    const int64_t n = sizes[s], count = n * n;
    double *a = calloc((size_t)count * 7 + (size_t)n * 2, sizeof *a);
    double *square = a + count, *l = square + count, *turned = l + count, *f = turned + count;
    double *u = f + count, *moved = u + count, *b = moved + count, *x = b + n;
    int32_t *order = calloc((size_t)n, sizeof *order);
    fill(a, count, 3);
    fill(b, n, 4);
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < n; j++) {
        square[i * n + j] = i == j ? 1 : 0;
        for (int64_t t = 0; t < n; t++) square[i * n + j] += a[i * n + t] * a[j * n + t];
      }
    compute_graph *graph = compute_graph_create(test_context);
    compute_node y[3];
    y[0] = compute_cholesky(graph, given(graph, COMPUTE_F64, COMPUTE_SHAPE(n, n), square), NULL);
    y[1] = compute_lu(graph, given(graph, COMPUTE_F64, COMPUTE_SHAPE(n, n), a), &y[2], NULL);
    run(graph, y, 3, (void *const[]){l, f, order});
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < n; j++) turned[j * n + i] = l[i * n + j];
    assert_true(residual(square, l, turned, n, n) < 1e-14 * (double)count);
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < n; j++) {
        u[i * n + j] = j >= i ? f[i * n + j] : 0;
        f[i * n + j] = j < i ? f[i * n + j] : i == j;
        moved[i * n + j] = a[order[i] * n + j];
        assert_true(fabs(f[i * n + j]) <= 1);
      }
    assert_true(residual(moved, f, u, n, n) < 1e-14 * (double)n);
    graph = compute_graph_create(test_context);
    y[0] = compute_solve(graph, given(graph, COMPUTE_F64, COMPUTE_SHAPE(n, n), square),
                         given(graph, COMPUTE_F64, COMPUTE_SHAPE(n), b), NULL);
    run(graph, y, 1, (void *const[]){x});
    assert_true(residual(b, square, x, n, 1) < 1e-13 * (double)n);
    free(order);
    free(a);
  }
}

/* ---- Orthogonal factors and values ----------------------------------------------------------- */

/* The largest element of aᵀ a − I. */
static double skew(const double *a, int64_t m, int64_t n) {
  double worst = 0;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) {
      double sum = i == j ? -1 : 0;
      for (int64_t t = 0; t < m; t++) sum += a[t * n + i] * a[t * n + j];
      worst = fmax(worst, fabs(sum));
    }
  return worst;
}

/* a [m, n], u [m, k] and v [k, n]. */
static double difference(const double *a, const double *u, const double *v, int64_t m, int64_t k,
                         int64_t n) {
  double worst = 0;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = a[i * n + j];
      for (int64_t t = 0; t < k; t++) sum -= u[i * k + t] * v[t * n + j];
      worst = fmax(worst, fabs(sum));
    }
  return worst;
}

static void orthogonal_factors_reproduce_their_matrices(void **state) {
  (void)state;
  static const int64_t shapes[][2] = {{1, 1},   {3, 3},   {9, 4},    {4, 9},    {32, 32},  {33, 20},
                                      {20, 70}, {65, 64}, {100, 70}, {40, 150}, {129, 129}};
  for (size_t c = 0; c < sizeof shapes / sizeof *shapes; c++) {
    const int64_t m = shapes[c][0], n = shapes[c][1], k = m < n ? m : n;
    for (int full = 0; full < 2; full++) {
      const int64_t left = full ? m : k;
      double *a = calloc((size_t)(3 * m * n + m * m + n * n + k), sizeof *a);
      double *q = a + m * n, *r = q + m * m + m * n, *s = r + m * n + n * n;
      fill(a, m * n, 7);
      compute_graph *graph = compute_graph_create(test_context);
      compute_node y[3];
      y[0] =
          compute_qr(graph, given(graph, COMPUTE_F64, COMPUTE_SHAPE(m, n), a), full, &y[1], NULL);
      run(graph, y, 2, (void *const[]){q, r});
      assert_true(difference(a, q, r, m, left, n) < 1e-14 * (double)(m + n));
      assert_true(skew(q, m, left) < 1e-14 * (double)m);
      graph = compute_graph_create(test_context);
      y[0] = compute_svd(graph, given(graph, COMPUTE_F64, COMPUTE_SHAPE(m, n), a), full, &y[1],
                         &y[2], NULL);
      run(graph, y, 3, (void *const[]){q, s, r});
      assert_true(skew(q, m, left) < 1e-13 * (double)m);
      for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < left; j++) q[i * left + j] *= j < k ? s[j] : 0;
      for (int64_t i = 0; i < m && full; i++) /* the first k columns only */
        for (int64_t j = 0; j < k; j++) q[i * k + j] = q[i * left + j];
      assert_true(difference(a, q, r, m, k, n) < 1e-14 * (double)(m + n));
      for (int64_t i = 1; i < k; i++) assert_true(s[i] <= s[i - 1] && s[i] >= 0);
      free(a);
    }
  }
}

static void eigenvalues_and_vectors_fit(void **state) {
  (void)state;
  for (size_t c = 0; c < sizeof sizes / sizeof *sizes && sizes[c] <= 67; c++) {
    const int64_t n = sizes[c], count = n * n;
    double *a = calloc((size_t)count * 6 + (size_t)n * 3, sizeof *a);
    double *v = a + count, *w = v + count, *z = w + n, *values = z + 2 * count;
    fill(a, count, 8);
    compute_graph *graph = compute_graph_create(test_context);
    compute_node y[2];
    y[0] = compute_eigh(graph, given(graph, COMPUTE_F64, COMPUTE_SHAPE(n, n), a), &y[1], NULL);
    run(graph, y, 2, (void *const[]){w, v});
    assert_true(skew(v, n, n) < 2e-14 * (double)n);
    for (int64_t k = 0; k < n; k++)
      for (int64_t i = 0; i < n; i++) {
        double sum = -w[k] * v[i * n + k];
        for (int64_t j = 0; j < n; j++)
          sum += (j <= i ? a[i * n + j] : a[j * n + i]) * v[j * n + k];
        assert_true(fabs(sum) < 1e-14 * (double)n);
        assert_true(k == 0 || w[k] >= w[k - 1]);
      }
    graph = compute_graph_create(test_context);
    y[0] = compute_eig(graph, given(graph, COMPUTE_F64, COMPUTE_SHAPE(n, n), a), &y[1], NULL);
    run(graph, y, 2, (void *const[]){values, z});
    for (int64_t k = 0; k < n; k++)
      for (int64_t i = 0; i < n; i++) {
        const double *x = z + 2 * (i * n + k), *l = values + 2 * k;
        double real = l[1] * x[1] - l[0] * x[0], other = -l[0] * x[1] - l[1] * x[0];
        for (int64_t j = 0; j < n; j++) {
          real += a[i * n + j] * z[2 * (j * n + k)];
          other += a[i * n + j] * z[2 * (j * n + k) + 1];
        }
        assert_true(hypot(real, other) < 2e-14 * (double)n);
      }
    free(a);
  }
}

/* A rotation, whose eigenvalues are complex, and its exponential. */
static void complex_eigenvalues_and_exponentials_are_known(void **state) {
  (void)state;
  static const double a[2][4] = {{0, -1, 1, 0}, {1, 1, 0, 1}};
  double values[2][4], e[2][4];
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = given(graph, COMPUTE_F64, COMPUTE_SHAPE(2, 2, 2), a);
  const compute_node y[2] = {compute_eig(graph, x, NULL, NULL), compute_matrix_exp(graph, x, NULL)};
  run(graph, y, 2, (void *const[]){values, e});
  assert_true(fabs(values[0][0]) < 1e-15 && fabs(fabs(values[0][1]) - 1) < 1e-15);
  assert_true(fabs(values[0][1] + values[0][3]) < 1e-15);
  assert_true(fabs(values[1][0] - 1) < 1e-7 && fabs(values[1][2] - 1) < 1e-7);
  assert_true(fabs(e[0][0] - cos(1)) < 1e-15 && fabs(e[0][1] + sin(1)) < 1e-15);
  assert_true(fabs(e[1][0] - exp(1)) < 1e-14 && fabs(e[1][1] - exp(1)) < 1e-14 && e[1][2] == 0);
}

/* Dependent columns, a zero matrix, tiny and huge numbers. */
static void ranks_and_inverses_of_any_matrix(void **state) {
  (void)state;
  static const double a[5][6] = {{1, 2, 2, 4, 3, 6},
                                 {0, 0, 0, 0, 0, 0},
                                 {1e-200, 0, 0, 1e-200, 0, 0},
                                 {1e200, 0, 0, 1e200, 1e200, 0},
                                 {1, 2, 3, NAN, 5, 6}};
  int32_t rank[5];
  double inverse[5][6], norm[5];
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = given(graph, COMPUTE_F64, COMPUTE_SHAPE(5, 3, 2), a);
  const compute_node y[3] = {compute_matrix_rank(graph, x, -1),
                             compute_pseudo_inverse(graph, x, -1),
                             compute_matrix_norm(graph, x, COMPUTE_NORM_SPECTRAL)};
  run(graph, y, 3, (void *const[]){rank, inverse, norm});
  assert_true(rank[0] == 1 && rank[1] == 0 && rank[2] == 2 && rank[3] == 2 && rank[4] == 0);
  for (int i = 0; i < 6; i++) {
    assert_true(fabs(inverse[0][i] - a[0][2 * (i % 3) + i / 3] / 70) < 1e-15);
    assert_true(inverse[1][i] == 0 && isnan(inverse[4][i]));
  }
  assert_true(fabs(norm[0] - sqrt(70)) < 1e-14 && norm[1] == 0 && isnan(norm[4]));
  assert_true(fabs(norm[2] - 1e-200) < 1e-214);
}

static void dependent_columns_have_no_least_squares(void **state) {
  (void)state;
  static const double a[2][6] = {{1, 0, 0, 1, 1, 1}, {1, 0, 1, 0, 1, 0}}, b[3] = {1, 2, 3};
  double x[2][2];
  int32_t status[2];
  compute_graph *graph = compute_graph_create(test_context);
  compute_node y[2];
  y[0] = compute_least_squares(graph, given(graph, COMPUTE_F64, COMPUTE_SHAPE(2, 3, 2), a),
                               given(graph, COMPUTE_F64, COMPUTE_SHAPE(3), b), &y[1]);
  run(graph, y, 2, (void *const[]){x, status});
  assert_true(status[0] == 0 && status[1] == 2);
  assert_true(fabs(x[0][0] - 1) < 1e-15 && fabs(x[0][1] - 2) < 1e-15 && isnan(x[1][0]));
}

/* ---- Matrices without a result --------------------------------------------------------------- */

typedef compute_node build(compute_graph *graph, compute_node a, compute_node *status);

static compute_node build_solve(compute_graph *graph, compute_node a, compute_node *status) {
  return compute_solve(graph, a, compute_full(graph, COMPUTE_F64, COMPUTE_SHAPE(2, 1), 1), status);
}
static compute_node build_lower(compute_graph *graph, compute_node a, compute_node *status) {
  return compute_solve_triangular(
      graph, a, compute_full(graph, COMPUTE_F64, COMPUTE_SHAPE(2, 1), 1), false, false, status);
}
static compute_node build_lu(compute_graph *graph, compute_node a, compute_node *status) {
  return compute_lu(graph, a, NULL, status);
}

/* Five matrices in one batch; the others do not spoil the good ones. */
static void matrices_without_a_result_have_a_status(void **state) {
  (void)state;
  static const double a[5][4] = {
      {2, 1, 1, 2}, {1, 2, 2, 1}, {0, 0, 0, 1}, {NAN, 0, 0, 1}, {1, 0, INFINITY, 1}};
  static const struct {
    build *build;
    int64_t count;
    bool keeps;
    int32_t status[5];
  } cases[] = {{compute_cholesky, 4, false, {0, 2, 1, -1, -1}},
               {compute_inverse, 4, false, {0, 0, 1, -1, -1}},
               {build_solve, 2, false, {0, 0, 1, -1, -1}},
               {build_lower, 2, false, {0, 0, 1, -1, -1}},
               {build_lu, 4, true, {0, 0, 1, -1, -1}}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    double x[20];
    int32_t status[5];
    compute_graph *graph = compute_graph_create(test_context);
    compute_node y[2];
    y[0] = cases[c].build(graph, given(graph, COMPUTE_F64, COMPUTE_SHAPE(5, 2, 2), a), &y[1]);
    run(graph, y, 2, (void *const[]){x, status});
    for (int i = 0; i < 5; i++) {
      assert_int_equal(status[i], cases[c].status[i]);
      const bool none = status[i] < 0 || (status[i] > 0 && !cases[c].keeps);
      for (int64_t k = 0; k < cases[c].count; k++)
        assert_int_equal(isnan(x[i * cases[c].count + k]) != 0, none);
    }
  }
}

static void determinants_of_singular_matrices_are_zero(void **state) {
  (void)state;
  static const double a[3][4] = {{1, 2, 2, 4}, {0, 1, 1, 0}, {NAN, 1, 1, 0}};
  double determinant[3], logarithm[3], sign[3];
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = given(graph, COMPUTE_F64, COMPUTE_SHAPE(3, 2, 2), a);
  compute_node y[3] = {compute_determinant(graph, x)};
  y[1] = compute_log_determinant(graph, x, &y[2]);
  run(graph, y, 3, (void *const[]){determinant, logarithm, sign});
  assert_true(determinant[0] == 0 && determinant[1] == -1 && isnan(determinant[2]));
  assert_true(isinf(logarithm[0]) && logarithm[1] == 0 && isnan(logarithm[2]));
  assert_true(sign[0] == 0 && sign[1] == -1 && isnan(sign[2]));
}

static void elements_outside_of_a_triangle_are_not_read(void **state) {
  (void)state;
  static const double lower[4] = {2, NAN, 4, 5}, unit[4] = {NAN, NAN, 3, INFINITY};
  double l[4], x[2];
  compute_graph *graph = compute_graph_create(test_context);
  compute_node y[2];
  y[0] = compute_cholesky(
      graph, given(graph, COMPUTE_F64, COMPUTE_SHAPE(2, 2), (double[]){4, NAN, 2, 5}), NULL);
  y[1] = compute_solve_triangular(graph, given(graph, COMPUTE_F64, COMPUTE_SHAPE(2, 2), lower),
                                  given(graph, COMPUTE_F64, COMPUTE_SHAPE(2, 1), (double[]){2, 9}),
                                  false, false, NULL);
  run(graph, y, 2, (void *const[]){l, x});
  assert_true(l[0] == 2 && l[1] == 0 && l[2] == 1 && l[3] == 2);
  assert_true(x[0] == 1 && x[1] == 1);
  graph = compute_graph_create(test_context);
  y[0] = compute_solve_triangular(graph, given(graph, COMPUTE_F64, COMPUTE_SHAPE(2, 2), unit),
                                  given(graph, COMPUTE_F64, COMPUTE_SHAPE(2, 1), (double[]){2, 9}),
                                  false, true, NULL);
  run(graph, y, 1, (void *const[]){x});
  assert_true(x[0] == 2 && x[1] == 3);
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* A matrix in a large batch has the same bits as alone. */
static void a_batch_does_not_change_bits(void **state) {
  (void)state;
  enum { BATCH = 1037, N = 6 };
  double *a = calloc(BATCH * N * N, sizeof *a), *x = calloc(BATCH * N * N, sizeof *x);
  fill(a, BATCH * N * N, 9);
  compute_graph *graph = compute_graph_create(test_context);
  compute_node y =
      compute_inverse(graph, given(graph, COMPUTE_F64, COMPUTE_SHAPE(BATCH, N, N), a), NULL);
  run(graph, &y, 1, (void *const[]){x});
  for (int64_t i = 0; i < BATCH; i += 61) {
    double alone[N * N];
    graph = compute_graph_create(test_context);
    y = compute_inverse(graph, given(graph, COMPUTE_F64, COMPUTE_SHAPE(N, N), a + i * N * N), NULL);
    run(graph, &y, 1, (void *const[]){alone});
    assert_memory_equal(alone, x + i * N * N, sizeof alone);
  }
  free(x);
  free(a);
}

static void matrices_of_eight_axes_are_solved(void **state) {
  (void)state;
  double a[64 * 4], b[2 * 2], x[64 * 2 * 2];
  fill(a, 64 * 4, 5);
  fill(b, 4, 6);
  for (int i = 0; i < 64; i++) a[4 * i] += 3, a[4 * i + 3] -= 3;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node y =
      compute_solve(graph, given(graph, COMPUTE_F64, COMPUTE_SHAPE(2, 2, 2, 2, 2, 2, 2, 2), a),
                    given(graph, COMPUTE_F64, COMPUTE_SHAPE(2, 2), b), NULL);
  run(graph, &y, 1, (void *const[]){x});
  for (int i = 0; i < 64; i++) assert_true(residual(b, a + 4 * i, x + 4 * i, 2, 2) < 1e-13);
}

/* A call for several results gives the same results as a graph, each with its tensor. */
static void eager_calls_give_all_results(void **state) {
  (void)state;
  double a[18], values[12], vectors[36], expected[2][36];
  int32_t status[2];
  compute_tensor *x, *made[3] = {NULL};
  fill(a, 18, 12);
  a[9] = NAN;
  compute_graph *graph = compute_graph_create(test_context);
  compute_node y[2];
  y[0] = compute_eig(graph, given(graph, COMPUTE_F64, COMPUTE_SHAPE(2, 3, 3), a), &y[1], NULL);
  run(graph, y, 2, (void *const[]){expected[0], expected[1]});
  x = test_tensor(test_context, COMPUTE_F64, COMPUTE_SHAPE(2, 3, 3), a);
  assert_ok(compute_tensor_eig(x, &made[0], &made[1], &made[2]));
  assert_ok(compute_tensor_read(made[0], values, sizeof values));
  assert_ok(compute_tensor_read(made[1], vectors, sizeof vectors));
  assert_ok(compute_tensor_read(made[2], status, sizeof status));
  assert_true(status[0] == 0 && status[1] == -1);
  assert_memory_equal(values, expected[0], sizeof values);
  assert_memory_equal(vectors, expected[1], sizeof vectors);
  for (int i = 0; i < 3; i++) compute_tensor_release(made[i]);
  assert_int_equal(compute_tensor_eig(x, NULL, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  compute_tensor_release(x);
}

/* ---- Dtypes and layouts ---------------------------------------------------------------------- */

/* The inverses of x + 4 I. */
static compute_node build_inverse(compute_graph *graph, const compute_node *x, const void *user) {
  (void)user;
  const compute_shape shape = compute_node_shape(graph, x[0]);
  const compute_dtype dtype = compute_node_dtype(graph, x[0]);
  const compute_node row = compute_index(graph, COMPUTE_I32, shape, shape.rank - 2);
  const compute_node column = compute_index(graph, COMPUTE_I32, shape, shape.rank - 1);
  const compute_node diagonal =
      compute_select(graph, compute_equal(graph, row, column), compute_scalar(graph, dtype, 4),
                     compute_scalar(graph, dtype, 0));
  return compute_inverse(graph, compute_add(graph, x[0], diagonal), NULL);
}

static void every_dtype_and_layout_matches(void **state) {
  (void)state;
  static const int64_t sides[] = {3, 9, 17};
  for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
    for (const compute_dtype *dtype = operation_dtypes("float"); *dtype; dtype++)
      for (int layout = 0; layout < (*dtype == COMPUTE_F32 ? LAYOUT_COUNT : 1); layout++) {
        const double rounding = *dtype == COMPUTE_F64   ? 0x1p-46
                                : *dtype == COMPUTE_F32 ? 0x1p-17
                                : *dtype == COMPUTE_F16 ? 0x1p-9
                                                        : 0x1p-6;
        const operation_case sample = {.name = "inverse",
                                       .build = build_inverse,
                                       .operand = {{*dtype, COMPUTE_SHAPE(5, sides[i], sides[i]),
                                                    FILL_RANGE, -0.5, 0.5, (guarded_layout)layout}},
                                       .operand_count = 1,
                                       .result_layout = (guarded_layout)layout,
                                       .tolerance = {2, rounding, 0},
                                       .operation = "linalg"};
        operation_check(test_context, &sample);
      }
  operation_finish();
}

/* ---- Refused calls --------------------------------------------------------------------------- */

static void wrong_shapes_are_refused(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  compute_node status = {0};
  const compute_node wide = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 3));
  const compute_node square = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(4, 3, 3));
  const compute_node vector = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(4));
  const compute_node others = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(5, 3, 3));
  const compute_node exact = compute_input(graph, COMPUTE_F64, COMPUTE_SHAPE(3, 3));
  const compute_node whole = compute_input(graph, COMPUTE_I32, COMPUTE_SHAPE(3, 3));
#define REFUSED(wanted, expression)                                                                \
  do {                                                                                             \
    assert_false(compute_node_is_valid(expression));                                               \
    assert_int_equal(compute_graph_status(graph), wanted);                                         \
    assert_false(compute_node_is_valid(status));                                                   \
    compute_graph_clear_error(graph);                                                              \
  } while (0)
  REFUSED(COMPUTE_ERROR_SHAPE, compute_cholesky(graph, wide, &status));
  REFUSED(COMPUTE_ERROR_SHAPE, compute_inverse(graph, vector, &status));
  REFUSED(COMPUTE_ERROR_SHAPE, compute_solve(graph, square, vector, &status));
  REFUSED(COMPUTE_ERROR_SHAPE, compute_solve(graph, square, others, &status));
  REFUSED(COMPUTE_ERROR_DTYPE, compute_solve(graph, square, exact, &status));
  REFUSED(COMPUTE_ERROR_DTYPE, compute_determinant(graph, whole));
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_lu(graph, compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(1 << 25, 1)), NULL,
                     &status));
#undef REFUSED
  compute_graph_release(graph);
}

static void a_gradient_of_lu_needs_a_square(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 3));
  compute_node gradient;
  const compute_node loss =
      compute_sum(graph, compute_lu(graph, x, NULL, NULL), COMPUTE_ALL_AXES, false);
  assert_int_equal(compute_gradients(graph, loss, &x, 1, &gradient),
                   COMPUTE_ERROR_NOT_DIFFERENTIABLE);
  compute_graph_release(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(factors_and_solutions_reproduce_their_matrices),
      cmocka_unit_test(orthogonal_factors_reproduce_their_matrices),
      cmocka_unit_test(eigenvalues_and_vectors_fit),
      cmocka_unit_test(complex_eigenvalues_and_exponentials_are_known),
      cmocka_unit_test(ranks_and_inverses_of_any_matrix),
      cmocka_unit_test(dependent_columns_have_no_least_squares),
      cmocka_unit_test(matrices_without_a_result_have_a_status),
      cmocka_unit_test(determinants_of_singular_matrices_are_zero),
      cmocka_unit_test(elements_outside_of_a_triangle_are_not_read),
      cmocka_unit_test(a_batch_does_not_change_bits),
      cmocka_unit_test(matrices_of_eight_axes_are_solved),
      cmocka_unit_test(eager_calls_give_all_results),
      cmocka_unit_test(every_dtype_and_layout_matches),
      cmocka_unit_test(wrong_shapes_are_refused),
      cmocka_unit_test(a_gradient_of_lu_needs_a_square),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
