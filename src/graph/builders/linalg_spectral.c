/* SPDX-License-Identifier: MIT */
/* Orthogonal factors, eigenvalues, singular values, and functions made of them. */
#include <float.h>

#include "compute/graph_array.h"
#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "graph/builders/linalg.h"

/* A further result of a call, for the caller unless it is NULL. */
typedef struct result {
  compute_node *to;
  compute_node value;
} result;

/* Gives the caller all results, or {0} after an error. */
static compute_node give(linalg_call *c, compute_node packed, compute_node first, result *others,
                         int count, compute_node *status) {
  for (int i = 0; i < count; i++)
    if (others[i].to) others[i].value = linalg_from_work(c, others[i].value);
  first = linalg_finish(c, packed, first, status);
  for (int i = 0; i < count; i++)
    if (others[i].to) *others[i].to = c->graph->status ? BUILD_NONE : others[i].value;
  return first;
}

/* ---- Q R ------------------------------------------------------------------------------------- */

compute_node compute_qr(compute_graph *graph, compute_node a, bool complete, compute_node *r,
                        compute_node *status) {
  BUILD_ALL_OR_NOTHING(graph);
  linalg_call c;
  linalg_none(r);
  if (!linalg_begin(&c, graph, "qr", a, false)) return linalg_none(status);
  const int64_t m = linalg_rows(graph, c.a), n = linalg_columns(graph, c.a);
  const int64_t k = complete || m < n ? m : n;
  const compute_node packed =
      linalg_apply(&c, COMPUTE_LINALG_QR, complete ? COMPUTE_LINALG_FULL : 0);
  result others[] = {{r, BUILD_NONE}};
  if (r) others[0].value = linalg_take(graph, packed, m * k, k, n);
  return give(&c, packed, linalg_take(graph, packed, 0, m, k), others, 1, status);
}

/* R with 0 in place of diagonal elements that are rounding errors beside their columns. The sums of
 * Q R are added in parts, so that many rows do not add to the error. */
static compute_node without_errors(compute_graph *graph, compute_node r, int64_t rows) {
  enum { MOST_ROWS = 1024 };
  const int64_t n = linalg_columns(graph, r);
  if (graph->status || shape_count(compute_node_shape(graph, r)) == 0) return r;
  const compute_dtype dtype = compute_node_dtype(graph, r);
  const double epsilon = dtype == COMPUTE_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
  const double share = (double)(rows < MOST_ROWS ? rows : MOST_ROWS) * epsilon;
  const compute_node size = compute_abs(graph, r);
  const compute_node limit = compute_mul(graph, compute_max(graph, size, COMPUTE_AXES(-2), true),
                                         compute_scalar(graph, dtype, share));
  const compute_node none = compute_logical_and(graph, linalg_on_diagonal(graph, n),
                                                compute_less_equal(graph, size, limit));
  return compute_select(graph, none, compute_scalar(graph, dtype, 0), r);
}

compute_node compute_least_squares(compute_graph *graph, compute_node a, compute_node b,
                                   compute_node *status) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  linalg_call c;
  if (!linalg_begin_pair(&c, graph, "least_squares", a, b, false)) return linalg_none(status);
  const bool tall = linalg_rows(graph, c.a) >= linalg_columns(graph, c.a);
  compute_node r, state, x;
  const compute_node q =
      compute_qr(graph, tall ? c.a : linalg_transpose(graph, c.a), false, &r, NULL);
  const int64_t m = linalg_rows(graph, c.a), n = linalg_columns(graph, c.a);
  r = without_errors(graph, r, m > n ? m : n);
  if (tall)
    x = compute_solve_triangular(graph, r, compute_matmul(graph, linalg_transpose(graph, q), c.b),
                                 true, false, &state);
  else
    x = compute_matmul(
        graph, q,
        compute_solve_triangular(graph, linalg_transpose(graph, r), c.b, false, false, &state));
  x = linalg_from_work(&c, linalg_as_given(&c, x));
  if (status) *status = graph->status ? BUILD_NONE : state;
  return graph->status ? BUILD_NONE : x;
}

/* ---- Eigenvalues ----------------------------------------------------------------------------- */

compute_node compute_eigh(compute_graph *graph, compute_node a, compute_node *vectors,
                          compute_node *status) {
  BUILD_ALL_OR_NOTHING(graph);
  linalg_call c;
  linalg_none(vectors);
  if (!linalg_begin(&c, graph, "eigh", a, true)) return linalg_none(status);
  const int64_t n = linalg_rows(graph, c.a);
  const compute_node packed =
      linalg_apply(&c, COMPUTE_LINALG_EIGH, vectors ? COMPUTE_LINALG_VECTORS : 0);
  result others[] = {{vectors, BUILD_NONE}};
  if (vectors) others[0].value = linalg_take(graph, packed, n, n, n);
  return give(&c, packed, linalg_take_vector(graph, packed, 0, n), others, 1, status);
}

/* Adds the axis of real and imaginary parts. */
static compute_node as_complex(compute_graph *graph, compute_node x, int64_t rows,
                               int64_t columns) {
  const compute_shape shape = compute_node_shape(graph, x);
  const int32_t batch = shape.rank - 1, more = columns > 0 ? 3 : 2;
  compute_shape parts = {.rank = batch + more};
  if (parts.rank > COMPUTE_MAX_RANK)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, "eig", "the result has more than %d axes",
                      COMPUTE_MAX_RANK);
  for (int32_t i = 0; i < batch; i++) shape_set(&parts, i, shape_at(shape, i));
  shape_set(&parts, batch, rows);
  if (more == 3) shape_set(&parts, batch + 1, columns);
  shape_set(&parts, parts.rank - 1, 2);
  return compute_reshape(graph, x, parts);
}

compute_node compute_eig(compute_graph *graph, compute_node a, compute_node *vectors,
                         compute_node *status) {
  BUILD_ALL_OR_NOTHING(graph);
  linalg_call c;
  linalg_none(vectors);
  if (!linalg_begin(&c, graph, "eig", a, true)) return linalg_none(status);
  const int64_t n = linalg_rows(graph, c.a);
  const compute_node packed =
      linalg_apply(&c, COMPUTE_LINALG_EIG, vectors ? COMPUTE_LINALG_VECTORS : 0);
  result others[] = {{vectors, BUILD_NONE}};
  if (vectors) {
    const compute_node parts = linalg_take_vector(graph, packed, 2 * n, 2 * n * n);
    others[0].value = as_complex(graph, parts, n, n);
  }
  const compute_node values = linalg_take_vector(graph, packed, 0, 2 * n);
  return give(&c, packed, as_complex(graph, values, n, 0), others, 1, status);
}

/* ---- Singular values ------------------------------------------------------------------------- */

compute_node compute_svd(compute_graph *graph, compute_node a, bool full, compute_node *values,
                         compute_node *vt, compute_node *status) {
  BUILD_ALL_OR_NOTHING(graph);
  linalg_call c;
  linalg_none(values);
  linalg_none(vt);
  if (!linalg_begin(&c, graph, "svd", a, false)) return linalg_none(status);
  const int64_t m = linalg_rows(graph, c.a), n = linalg_columns(graph, c.a);
  const int64_t k = m < n ? m : n, left = full ? m : k, right = full ? n : k;
  const compute_node packed = linalg_apply(
      &c, COMPUTE_LINALG_SVD, COMPUTE_LINALG_VECTORS | (full ? COMPUTE_LINALG_FULL : 0u));
  result others[] = {{values, BUILD_NONE}, {vt, BUILD_NONE}};
  if (values) others[0].value = linalg_take_vector(graph, packed, 0, k);
  if (vt) others[1].value = linalg_take(graph, packed, k + m * left, right, n);
  return give(&c, packed, linalg_take(graph, packed, k, m, left), others, 2, status);
}

compute_node compute_singular_values(compute_graph *graph, compute_node a, compute_node *status) {
  BUILD_ALL_OR_NOTHING(graph);
  linalg_call c;
  if (!linalg_begin(&c, graph, "singular_values", a, false)) return linalg_none(status);
  const int64_t m = linalg_rows(graph, c.a), n = linalg_columns(graph, c.a);
  const compute_node packed = linalg_apply(&c, COMPUTE_LINALG_SVD, 0);
  return linalg_finish(&c, packed, linalg_take_vector(graph, packed, 0, m < n ? m : n), status);
}

/* The largest of numbers that are not negative along the last axis; 0 of none. */
static compute_node largest_of(compute_graph *graph, compute_node x, bool keep_axis) {
  compute_shape shape = compute_node_shape(graph, x);
  if (graph->status) return BUILD_NONE;
  if (shape_at(shape, shape.rank - 1) > 0)
    return compute_max(graph, x, COMPUTE_AXES(-1), keep_axis);
  shape_set(&shape, shape.rank - 1, keep_axis ? 1 : 0);
  if (!keep_axis) shape.rank--;
  return compute_full(graph, compute_node_dtype(graph, x), shape, 0);
}

/* Where singular values count. */
static compute_node above(linalg_call *c, compute_node values, double tolerance) {
  const int64_t m = linalg_rows(c->graph, c->a), n = linalg_columns(c->graph, c->a);
  const compute_dtype dtype = compute_node_dtype(c->graph, values);
  const double epsilon = c->dtype == COMPUTE_F64   ? DBL_EPSILON
                         : c->dtype == COMPUTE_F16 ? 0x1p-10
                         : c->dtype == COMPUTE_F32 ? (double)FLT_EPSILON
                                                   : 0x1p-7;
  const double share = tolerance < 0 ? (double)(m > n ? m : n) * epsilon : tolerance;
  const compute_node largest = largest_of(c->graph, values, true);
  return compute_greater(c->graph, values,
                         compute_mul(c->graph, largest, compute_scalar(c->graph, dtype, share)));
}

static bool begin_ranked(linalg_call *c, compute_graph *graph, const char *operation,
                         compute_node a, double tolerance) {
  return linalg_begin(c, graph, operation, a, false) &&
         build_number(graph, operation, "tolerance", compute_node_dtype(graph, c->a), tolerance);
}

compute_node compute_pseudo_inverse(compute_graph *graph, compute_node a, double tolerance) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  linalg_call c;
  if (!begin_ranked(&c, graph, "pseudo_inverse", a, tolerance)) return BUILD_NONE;
  compute_node values, vt;
  const compute_node u = compute_svd(graph, c.a, false, &values, &vt, NULL);
  if (graph->status) return BUILD_NONE;
  const compute_dtype dtype = compute_node_dtype(graph, values);
  const compute_node counts = above(&c, values, tolerance);
  const compute_node divisor =
      compute_select(graph, counts, values, compute_scalar(graph, dtype, 1));
  const compute_node inverse = compute_select(graph, counts, compute_reciprocal(graph, divisor),
                                              compute_scalar(graph, dtype, 0));
  const compute_node v =
      compute_mul(graph, linalg_transpose(graph, vt), linalg_as_row(graph, inverse));
  const compute_node inverted = compute_matmul(graph, v, linalg_transpose(graph, u));
  if (!graph->status) build_whole(graph, inverted, WHOLE_PSEUDO_INVERSE, &c.a, 1);
  return linalg_finish(&c, inverted, inverted, NULL);
}

compute_node compute_matrix_rank(compute_graph *graph, compute_node a, double tolerance) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  linalg_call c;
  if (!begin_ranked(&c, graph, "matrix_rank", a, tolerance)) return BUILD_NONE;
  compute_node state;
  const compute_node values = compute_singular_values(graph, c.a, &state);
  if (graph->status) return BUILD_NONE;
  const compute_node counts = compute_cast(graph, above(&c, values, tolerance), COMPUTE_I32);
  const compute_node failed = compute_greater(graph, state, compute_scalar(graph, COMPUTE_I32, 0));
  const compute_node rank = compute_select(graph, failed, compute_scalar(graph, COMPUTE_I32, -1),
                                           compute_sum(graph, counts, COMPUTE_AXES(-1), false));
  return graph->status ? BUILD_NONE : rank;
}

/* ---- Functions and norms --------------------------------------------------------------------- */

compute_node compute_matrix_exp(compute_graph *graph, compute_node a, compute_node *status) {
  BUILD_ALL_OR_NOTHING(graph);
  linalg_call c;
  if (!linalg_begin(&c, graph, "matrix_exp", a, true)) return linalg_none(status);
  const int64_t n = linalg_rows(graph, c.a);
  const compute_node packed = linalg_apply(&c, COMPUTE_LINALG_EXPM, 0);
  return linalg_finish(&c, packed, linalg_take(graph, packed, 0, n, n), status);
}

compute_node compute_matrix_norm(compute_graph *graph, compute_node a,
                                 compute_matrix_norm_kind kind) {
  BUILD_ALL_OR_NOTHING(graph);
  linalg_call c;
  compute_node y;
  if (!linalg_begin(&c, graph, "matrix_norm", a, false)) return BUILD_NONE;
  switch (kind) {
  case COMPUTE_NORM_FROBENIUS: y = compute_norm(graph, c.a, 2, COMPUTE_AXES(-2, -1), false); break;
  case COMPUTE_NORM_NUCLEAR:
    y = compute_sum(graph, compute_singular_values(graph, c.a, NULL), COMPUTE_AXES(-1), false);
    break;
  case COMPUTE_NORM_SPECTRAL:
    y = largest_of(graph, compute_singular_values(graph, c.a, NULL), false);
    break;
  case COMPUTE_NORM_ONE:
  case COMPUTE_NORM_INFINITY: {
    const int32_t axis = kind == COMPUTE_NORM_ONE ? -2 : -1;
    y = largest_of(graph, compute_sum(graph, compute_abs(graph, c.a), COMPUTE_AXES(axis), false),
                   false);
    break;
  }
  default:
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, "matrix_norm", "invalid norm %d",
                      (int)kind);
  }
  return linalg_finish(&c, y, y, NULL);
}
