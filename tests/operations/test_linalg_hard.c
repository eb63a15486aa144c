/* SPDX-License-Identifier: MIT */
/* Linear algebra of matrices that are hard to compute: tiny elements, low rank, equal eigenvalues,
 * and many rows. */
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

/* A matrix in `dtype`, and results of it in f64. */
static compute_node matrix_of(compute_graph *graph, compute_dtype dtype, compute_shape shape,
                              const double *a) {
  return compute_cast(graph, given(graph, COMPUTE_F64, shape, a), dtype);
}
static compute_node as_f64(compute_graph *graph, compute_node x) {
  return compute_cast(graph, x, COMPUTE_F64);
}

static double rounding_of(compute_dtype dtype) {
  return dtype == COMPUTE_F64 ? 0x1p-52 : 0x1p-23;
}

static const compute_dtype precisions[] = {COMPUTE_F32, COMPUTE_F64};

/* Elements whose squares vanish beside the others. */
static void tiny_elements_leave_vectors_orthogonal(void **state) {
  (void)state;
  for (int d = 0; d < 2; d++) {
    const double t = d ? 1e-161 : 1e-21, limit = 8 * rounding_of(precisions[d]);
    const double a[9] = {1, t, t, t, 2, .5, t, .5, 3};
    const double b[12] = {1, t, .2, .3, 2 * t, .5, .7, t, 3, .1, -t, 1};
    const double values[3] = {1, 2.5 - sqrt(.5), 2.5 + sqrt(.5)};
    double w[3], v[9], q[12];
    compute_graph *graph = compute_graph_create(test_context);
    compute_node y[3];
    y[0] =
        compute_eigh(graph, matrix_of(graph, precisions[d], COMPUTE_SHAPE(3, 3), a), &y[1], NULL);
    y[2] = compute_qr(graph, matrix_of(graph, precisions[d], COMPUTE_SHAPE(4, 3), b), false, NULL,
                      NULL);
    for (int i = 0; i < 3; i++) y[i] = as_f64(graph, y[i]);
    run(graph, y, 3, (void *const[]){w, v, q});
    for (int i = 0; i < 3; i++) assert_true(fabs(w[i] - values[i]) < limit);
    assert_true(skew(v, 3, 3) < limit && skew(q, 4, 3) < limit);
  }
}

/* Matrices of ones have rank 1; their other rows are rounding errors. */
static void ranks_of_repeated_rows_are_found(void **state) {
  (void)state;
  static const int64_t sides[] = {4, 7, 16, 24, 33, 100};
  for (size_t c = 0; c < 12; c++) {
    const int64_t n = sides[c / 2], count = n * n;
    const compute_dtype dtype = precisions[c % 2];
    double *a = calloc((size_t)(3 * count + n), sizeof *a), norm, limit = rounding_of(dtype);
    double *u = a + count, *vt = u + count, *s = vt + count;
    int32_t rank, status;
    for (int64_t i = 0; i < count; i++) a[i] = 1;
    compute_graph *graph = compute_graph_create(test_context);
    compute_node x = matrix_of(graph, dtype, COMPUTE_SHAPE(n, n), a), y[3];
    y[0] = compute_matrix_rank(graph, x, -1);
    y[1] = as_f64(graph, compute_matrix_norm(graph, x, COMPUTE_NORM_NUCLEAR));
    compute_singular_values(graph, x, &y[2]);
    run(graph, y, 3, (void *const[]){&rank, &norm, &status});
    assert_true(rank == 1 && status == 0 && fabs(norm / (double)n - 1) < 16 * limit);
    graph = compute_graph_create(test_context);
    x = matrix_of(graph, dtype, COMPUTE_SHAPE(n, n), a);
    y[0] = compute_svd(graph, x, false, &y[1], &y[2], NULL);
    for (int i = 0; i < 3; i++) y[i] = as_f64(graph, y[i]);
    run(graph, y, 3, (void *const[]){u, s, vt});
    limit *= 4 * (double)n;
    assert_true(skew(u, n, n) < limit && skew(vt, n, n) < limit);
    for (int64_t i = 0; i < count; i++) u[i] *= s[i % n];
    assert_true(difference(a, u, vt, n, n, n) < limit);
    free(a);
  }
}

/* Many rotations keep the rows orthogonal. */
static void singular_vectors_of_large_matrices_are_orthogonal(void **state) {
  (void)state;
  enum { N = 200 };
  double *a = calloc(3 * N * N + N, sizeof *a), *u = a + N * N, *vt = u + N * N, *s = vt + N * N;
  fill(a, N * N, 21);
  compute_graph *graph = compute_graph_create(test_context);
  compute_node y[3];
  y[0] = compute_svd(graph, matrix_of(graph, COMPUTE_F32, COMPUTE_SHAPE(N, N), a), false, &y[1],
                     &y[2], NULL);
  for (int i = 0; i < 3; i++) y[i] = as_f64(graph, y[i]);
  run(graph, y, 3, (void *const[]){u, s, vt});
  const double limit = 24 * 0x1p-23;
  assert_true(skew(u, N, N) < limit && skew(vt, N, N) < limit);
  for (int i = 0; i < N * N; i++) u[i] *= s[i % N];
  assert_true(difference(a, u, vt, N, N, N) < limit * s[0]);
  free(a);
}

/* Large matrices whose sweeps have little to do, or whose values differ by many orders. */
static void fill_hard(double *a, int64_t n, int which) {
  fill(a, n * n, 31);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) {
      double *at = a + i * n + j;
      if (which == 0) *at = 0;
      if (which == 1) *at = i == j;
      if (which == 2) *at *= pow(10, -20.0 * (double)i / (double)n);
      if (which == 3) *at *= pow(10, -20.0 * (double)(n - 1 - i) / (double)n);
      if (which == 4) *at = j == i + 1; /* nilpotent: both diagonals of its reduction have zeros */
      if (which == 5) *at = (double)(i + 1) * (double)(j + 1);
      if (which == 6) *at = i == j ? (i % 2 ? 1 : -1) : 0;
      if (which == 7) *at = i == j ? (i % 3 ? 1 : 0) : j == i + 1 ? 1e-8 : 0;
    }
}

static void hard_values_of_large_matrices_converge(void **state) {
  (void)state;
  enum { N = 60 };
  double *a = calloc(3 * N * N + N, sizeof *a), *u = a + N * N, *vt = u + N * N, *s = vt + N * N;
  int32_t status;
  for (int c = 0; c < 16; c++) {
    const compute_dtype dtype = precisions[c % 2];
    const double limit = 4 * N * rounding_of(dtype);
    compute_graph *graph = compute_graph_create(test_context);
    compute_node y[3], x;
    fill_hard(a, N, c / 2);
    x = matrix_of(graph, dtype, COMPUTE_SHAPE(N, N), a);
    compute_singular_values(graph, x, &y[0]);
    run(graph, y, 1, (void *const[]){&status});
    assert_int_equal(status, 0);
    graph = compute_graph_create(test_context);
    x = matrix_of(graph, dtype, COMPUTE_SHAPE(N, N), a);
    y[0] = compute_svd(graph, x, false, &y[1], &y[2], NULL);
    for (int i = 0; i < 3; i++) y[i] = as_f64(graph, y[i]);
    run(graph, y, 3, (void *const[]){u, s, vt});
    assert_true(skew(u, N, N) < limit && skew(vt, N, N) < limit);
    for (int64_t i = 0; i < N; i++)
      assert_true(s[i] >= 0 && (i == 0 || s[i] <= s[i - 1]) && isfinite(s[i]));
    for (int64_t i = 0; i < (int64_t)N * N; i++) u[i] *= s[i % N];
    assert_true(difference(a, u, vt, N, N, N) <= limit * s[0]);

    for (int64_t i = 0; i < N; i++)
      for (int64_t j = 0; j < i; j++) a[j * N + i] = a[i * N + j];
    graph = compute_graph_create(test_context);
    x = matrix_of(graph, dtype, COMPUTE_SHAPE(N, N), a);
    y[0] = compute_eigh(graph, x, &y[1], NULL);
    for (int i = 0; i < 2; i++) y[i] = as_f64(graph, y[i]);
    run(graph, y, 2, (void *const[]){s, u});
    assert_true(skew(u, N, N) < limit);
    double most = 0;
    for (int64_t i = 0; i < (int64_t)N * N; i++) {
      vt[i % N * N + i / N] = u[i];
      u[i] *= s[i % N];
      most = fmax(most, fabs(s[i % N]));
    }
    assert_true(difference(a, u, vt, N, N, N) <= limit * most);
  }
  free(a);
}

/* Rank 1, graded rows, and one eigenvalue of many vectors: all have vectors of length 1. */
static void eigenvalues_of_hard_matrices_converge(void **state) {
  (void)state;
  enum { N = 8, MATRICES = 4 };
  double a[MATRICES][N][N];
  fill(a[0][0], N * N, 22);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      a[0][i][j] *= pow(10, -20.0 * i / (N - 1));
      a[1][i][j] = (i + 1) * (j + 1);
      a[2][i][j] = 1;
      a[3][i][j] = i == j;
    }
  for (int d = 0; d < 2; d++) {
    double values[MATRICES][N][2], v[MATRICES][N][N][2];
    int32_t status[MATRICES];
    compute_graph *graph = compute_graph_create(test_context);
    compute_node y[3];
    y[0] =
        compute_eig(graph, matrix_of(graph, precisions[d], COMPUTE_SHAPE(MATRICES, N, N), a[0][0]),
                    &y[1], &y[2]);
    for (int i = 0; i < 2; i++) y[i] = as_f64(graph, y[i]);
    run(graph, y, 3, (void *const[]){values, v, status});
    for (int m = 0; m < MATRICES; m++) {
      assert_int_equal(status[m], 0);
      for (int k = 0; k < N; k++) {
        double sum = 0;
        for (int i = 0; i < N; i++) sum += pow(v[m][i][k][0], 2) + pow(v[m][i][k][1], 2);
        assert_true(fabs(sum - 1) < 32 * rounding_of(precisions[d]));
        for (int i = 0; i < N; i++) {
          double real = values[m][k][1] * v[m][i][k][1] - values[m][k][0] * v[m][i][k][0];
          for (int j = 0; j < N; j++) real += a[m][i][j] * v[m][j][k][0];
          assert_true(fabs(real) < 2000 * rounding_of(precisions[d]));
        }
      }
    }
  }
}

/* Sums of many terms stay accurate. */
static void tall_factors_are_orthogonal(void **state) {
  (void)state;
  enum { M = 300000, N = 3 };
  double *a = calloc(2 * M * N, sizeof *a), *q = a + M * N;
  fill(a, M * N, 23);
  for (int64_t i = 0; i < M * N; i++) a[i] += 1;
  compute_graph *graph = compute_graph_create(test_context);
  compute_node y =
      as_f64(graph, compute_qr(graph, matrix_of(graph, COMPUTE_F32, COMPUTE_SHAPE(M, N), a), false,
                               NULL, NULL));
  run(graph, &y, 1, (void *const[]){q});
  assert_true(skew(q, M, N) < 2e-6);
  free(a);
}

/* ---- Places and batches ---------------------------------------------------------------------- */

/* A result of each function, [batch, n, n]. */
static compute_node apply(compute_graph *graph, int which, compute_node a) {
  compute_node more = {0}, last;
  switch (which) {
  case 0: return compute_cholesky(graph, a, NULL);
  case 1: return compute_inverse(graph, a, NULL);
  case 2: return compute_lu(graph, a, NULL, NULL);
  case 3: return compute_matmul(graph, compute_qr(graph, a, true, &more, NULL), more);
  case 4: {
    compute_shape column = compute_node_shape(graph, a);
    column.size[2] = 1;
    const compute_node values = compute_eigh(graph, a, &more, NULL);
    const compute_node turned = compute_transpose(graph, more, COMPUTE_AXES(0, 2, 1));
    return compute_add(graph, compute_matmul(graph, more, turned),
                       compute_reshape(graph, values, column));
  }
  default: return compute_matmul(graph, compute_svd(graph, a, true, &more, &last, NULL), last);
  }
}

/* Devices leave no step of small matrices to the CPU. */
static void small_matrices_stay_on_the_device(void **state) {
  (void)state;
  static const int64_t sizes[] = {2, 16, 32, 40};
  for (int which = 0; which < 6; which++)
    for (size_t c = 0; c < sizeof sizes / sizeof *sizes; c++) {
      compute_graph *graph = compute_graph_create(test_context);
      const compute_node a =
          compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3, sizes[c], sizes[c]));
      const compute_node y = apply(graph, which, a);
      compute_plan *plan = test_compile(graph, &y, 1, 0);
      compute_plan_info info;
      assert_ok(compute_plan_describe(plan, &info));
      assert_int_equal(info.fallbacks, 0);
      compute_plan_release(plan);
      compute_graph_release(graph);
    }
}

/* A number of matrices that no group divides: equal ones have equal results. */
static void batches_of_any_length_have_all_results(void **state) {
  (void)state;
  enum { BATCH = 9001, N = 2, COUNT = N * N };
  double *a = calloc((size_t)2 * BATCH * COUNT, sizeof *a), *y = a + BATCH * COUNT;
  for (int64_t i = 0; i < (int64_t)BATCH * COUNT; i++) {
    static const double some[3][COUNT] = {{3, 1, 1, 2}, {5, -1, -1, 4}, {2, 0.5, 0.5, 7}};
    a[i] = some[i / COUNT % 3][i % COUNT];
  }
  for (int which = 0; which < 6; which++) {
    compute_graph *graph = compute_graph_create(test_context);
    const compute_node x = matrix_of(graph, COMPUTE_F32, COMPUTE_SHAPE(BATCH, N, N), a);
    const compute_node result = as_f64(graph, apply(graph, which, x));
    run(graph, &result, 1, (void *const[]){y});
    for (int64_t i = 0; i < (int64_t)BATCH * COUNT; i++)
      assert_true(isfinite(y[i]) && fabs(y[i] - y[i % (3 * COUNT)]) < 1e-5);
    for (int64_t i = 0; i < 3 * COUNT && which == 3; i++) assert_true(fabs(y[i] - a[i]) < 1e-5);
  }
  free(a);
}

/* Threads share one large matrix, and no bit depends on their number. */
static void threads_do_not_change_large_results(void **state) {
  (void)state;
  enum { N = 300, FUNCTIONS = 6 };
  double *a = calloc((2 * FUNCTIONS + 1) * N * N, sizeof *a), *y[2] = {a + N * N, NULL};
  y[1] = y[0] + FUNCTIONS * N * N;
  fill(a, N * N, 41);
  for (int64_t i = 0; i < N; i++) a[i * N + i] += N;
  for (int threads = 1, k = 0; k < 2; k++, threads += 2) {
    compute_context *context = NULL;
    const compute_open_options options = {.threads = threads, .device = "cpu"};
    assert_ok(compute_open(&context, &options));
    for (int which = 0; which < FUNCTIONS; which++) {
      compute_graph *graph = compute_graph_create(context);
      compute_plan *plan = NULL;
      compute_binding binding = {0};
      const compute_node x = compute_constant(graph, COMPUTE_F64, COMPUTE_SHAPE(1, N, N), a);
      binding.node = apply(graph, which, x);
      assert_ok(compute_compile(graph, &binding.node, 1, NULL, &plan));
      assert_ok(compute_plan_create_tensor(plan, binding.node, &binding.tensor));
      assert_ok(compute_run(plan, &binding, 1, NULL));
      assert_ok(compute_tensor_read(binding.tensor, y[k] + which * N * N, N * N * sizeof(double)));
      compute_tensor_release(binding.tensor);
      compute_plan_release(plan);
      compute_graph_release(graph);
    }
    assert_ok(compute_close(context));
  }
  for (int64_t i = 0; i < FUNCTIONS * N * N; i++) assert_true(y[0][i] == y[1][i]);
  free(a);
}

/* ---- Determinants and gradients -------------------------------------------------------------- */

/* Pivots whose product overflows before the one that is 0. */
static void singular_matrices_of_huge_numbers_have_no_determinant(void **state) {
  (void)state;
  static const double a[9] = {1e30, 0, 0, 0, 1e30, 0, 0, 0, 0};
  double determinant;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = matrix_of(graph, COMPUTE_F32, COMPUTE_SHAPE(3, 3), a);
  const compute_node y = as_f64(graph, compute_determinant(graph, x));
  run(graph, &y, 1, (void *const[]){&determinant});
  assert_true(determinant == 0);
}

/* A third column that is the sum of the others, up to rounding; and columns of unlike scales. */
static void nearly_dependent_columns_have_no_least_squares(void **state) {
  (void)state;
  enum { M = 40 };
  double a[2][M][3], b[2 * M], x[6];
  int32_t status[2];
  fill(a[0][0], 6 * M, 24);
  fill(b, 2 * M, 25);
  for (int i = 0; i < M; i++) {
    a[0][i][2] = 0.3 * a[0][i][0] + 0.7 * a[0][i][1];
    a[1][i][1] *= 1e-6;
    a[1][i][2] *= 1e6;
  }
  for (int d = 0; d < 2; d++) {
    compute_graph *graph = compute_graph_create(test_context);
    compute_node y[2];
    y[0] = as_f64(graph, compute_least_squares(
                             graph, matrix_of(graph, precisions[d], COMPUTE_SHAPE(2, M, 3), **a),
                             matrix_of(graph, precisions[d], COMPUTE_SHAPE(2, M, 1), b), &y[1]));
    run(graph, y, 2, (void *const[]){x, status});
    assert_true(status[0] == 3 && status[1] == 0 && isnan(x[0]) && !isnan(x[3]));
  }
}

/* The gradient of a function of `a`, whose values have these weights. */
static void gradient_of(compute_node (*build)(compute_graph *, compute_node), compute_dtype dtype,
                        int64_t n, const double *a, const double *weights, double *out) {
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = matrix_of(graph, dtype, COMPUTE_SHAPE(n, n), a);
  const compute_node y =
      compute_mul(graph, build(graph, x), matrix_of(graph, dtype, COMPUTE_SHAPE(n, n), weights));
  compute_node gradient;
  assert_ok(
      compute_gradients(graph, compute_sum(graph, y, COMPUTE_ALL_AXES, false), &x, 1, &gradient));
  gradient = as_f64(graph, gradient);
  run(graph, &gradient, 1, (void *const[]){out});
}

static compute_node inverse_of(compute_graph *graph, compute_node a) {
  return compute_pseudo_inverse(graph, a, -1);
}
static compute_node exponential_of(compute_graph *graph, compute_node a) {
  return compute_matrix_exp(graph, a, NULL);
}

/* All singular values of I are equal; a projection has two groups of them. For I the gradient
 * is −G. For P = diag(1, 1, 0) a projector adds the other parts. */
static void inverses_with_equal_singular_values_have_gradients(void **state) {
  (void)state;
  static const double one[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, part[9] = {1, 0, 0, 0, 1, 0, 0, 0, 0};
  static const double weights[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  double gradient[9];
  gradient_of(inverse_of, COMPUTE_F64, 3, one, weights, gradient);
  for (int i = 0; i < 9; i++) assert_true(fabs(gradient[i] + weights[i]) < 1e-13);
  gradient_of(inverse_of, COMPUTE_F64, 3, part, weights, gradient);
  static const double expected[9] = {-1, -2, 7, -4, -5, 8, 3, 6, 0};
  for (int i = 0; i < 9; i++) assert_true(fabs(gradient[i] - expected[i]) < 1e-13);
}

static compute_node spectral_of(compute_graph *graph, compute_node a) {
  return compute_matrix_norm(graph, a, COMPUTE_NORM_SPECTRAL);
}
static compute_node nuclear_of(compute_graph *graph, compute_node a) {
  return compute_matrix_norm(graph, a, COMPUTE_NORM_NUCLEAR);
}
static compute_node logarithm_of(compute_graph *graph, compute_node a) {
  return compute_log_determinant(graph, a, NULL);
}

/* Equal singular values share the gradient of a norm; the nuclear norm has U Vᵀ for any rank. */
static void degenerate_gradients_are_as_documented(void **state) {
  (void)state;
  static const double one[4] = {1, 0, 0, 1}, low[4] = {1, 2, 2, 4}, weights[4] = {1, 0, 0, 0};
  double spectral[4], nuclear[4], singular[4];
  gradient_of(spectral_of, COMPUTE_F64, 2, one, weights, spectral);
  gradient_of(nuclear_of, COMPUTE_F64, 2, one, weights, nuclear);
  gradient_of(logarithm_of, COMPUTE_F64, 2, low, weights, singular);
  for (int i = 0; i < 4; i++) {
    assert_true(fabs(spectral[i] - one[i] / 2) < 1e-14 && fabs(nuclear[i] - one[i]) < 1e-14);
    assert_true(isnan(singular[i]));
  }
}

/* The size of the weights does not change how the exponential scales a. */
static void huge_gradients_of_exponentials_are_accurate(void **state) {
  (void)state;
  static const double a[4] = {0.1, -0.7, 0.9, 0.2};
  double weights[4] = {1, 2, -3, 4}, small[4], huge[4];
  gradient_of(exponential_of, COMPUTE_F32, 2, a, weights, small);
  for (int i = 0; i < 4; i++) weights[i] *= 0x1p60;
  gradient_of(exponential_of, COMPUTE_F32, 2, a, weights, huge);
  for (int i = 0; i < 4; i++) assert_true(fabs(huge[i] * 0x1p-60 - small[i]) < 1e-5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tiny_elements_leave_vectors_orthogonal),
      cmocka_unit_test(ranks_of_repeated_rows_are_found),
      cmocka_unit_test(singular_vectors_of_large_matrices_are_orthogonal),
      cmocka_unit_test(hard_values_of_large_matrices_converge),
      cmocka_unit_test(eigenvalues_of_hard_matrices_converge),
      cmocka_unit_test(tall_factors_are_orthogonal),
      cmocka_unit_test(small_matrices_stay_on_the_device),
      cmocka_unit_test(batches_of_any_length_have_all_results),
      cmocka_unit_test(threads_do_not_change_large_results),
      cmocka_unit_test(singular_matrices_of_huge_numbers_have_no_determinant),
      cmocka_unit_test(nearly_dependent_columns_have_no_least_squares),
      cmocka_unit_test(inverses_with_equal_singular_values_have_gradients),
      cmocka_unit_test(degenerate_gradients_are_as_documented),
      cmocka_unit_test(huge_gradients_of_exponentials_are_accurate),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
