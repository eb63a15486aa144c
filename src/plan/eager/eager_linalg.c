/* SPDX-License-Identifier: MIT */
/* Eager calls of linear algebra.
 *
 * A plan of an eager call has one output. So a call with several results runs once for each that
 * the caller wants. */
#include "compute/linalg.h"
#include "core/base/float_environment.h"
#include "plan/eager/eager.h"

enum { MOST_RESULTS = 4 };

/* Further results of a call; NULL: not wanted. */
typedef struct further {
  compute_tensor **results[MOST_RESULTS - 1];
} further;

/* Runs the call for `result`, then for the others. Nothing is written on failure. */
static compute_status run_all(eager_call call, compute_tensor **result, further others) {
  compute_tensor *made[MOST_RESULTS] = {NULL};
  compute_status status = eager_run(&call, result ? &made[0] : NULL);
  for (int i = 1; i < MOST_RESULTS && !status; i++) {
    call.integer[3] = i;
    if (others.results[i - 1]) status = eager_run(&call, &made[i]);
  }
  for (int i = 0; i < MOST_RESULTS; i++) {
    compute_tensor **to = i == 0 ? result : others.results[i - 1];
    if (status)
      compute_tensor_release(made[i]);
    else if (to)
      *to = made[i];
  }
  return status;
}

/* Defines build_<name>: `expression` gives result 0 and writes further ones to y[1] …. */
#define LINALG_BUILD(name, expression)                                                             \
  static compute_node build_##name(compute_graph *graph, const compute_node *x,                    \
                                   const eager_call *call) {                                       \
    compute_node y[MOST_RESULTS] = {{0}};                                                          \
    y[0] = expression;                                                                             \
    return y[call->integer[3]];                                                                    \
  }
#define LINALG_CALL(name, ...)                                                                     \
  (const eager_call) {                                                                             \
    .operation = #name, .build = build_##name, __VA_ARGS__                                         \
  }

LINALG_BUILD(cholesky, compute_cholesky(graph, x[0], &y[1]))

compute_status compute_tensor_cholesky(const compute_tensor *a, compute_tensor **result,
                                       compute_tensor **status) {
  return run_all(LINALG_CALL(cholesky, EAGER_OPERANDS(a)), result, (further){{status}});
}

LINALG_BUILD(solve_triangular, compute_solve_triangular(graph, x[0], x[1], call->integer[0] != 0,
                                                        call->integer[1] != 0, &y[1]))

compute_status compute_tensor_solve_triangular(const compute_tensor *a, const compute_tensor *b,
                                               bool upper, bool unit_diagonal,
                                               compute_tensor **result, compute_tensor **status) {
  return run_all(
      LINALG_CALL(solve_triangular, EAGER_OPERANDS(a, b), .integer = {upper, unit_diagonal}),
      result, (further){{status}});
}

LINALG_BUILD(solve, compute_solve(graph, x[0], x[1], &y[1]))

compute_status compute_tensor_solve(const compute_tensor *a, const compute_tensor *b,
                                    compute_tensor **result, compute_tensor **status) {
  return run_all(LINALG_CALL(solve, EAGER_OPERANDS(a, b)), result, (further){{status}});
}

LINALG_BUILD(inverse, compute_inverse(graph, x[0], &y[1]))

compute_status compute_tensor_inverse(const compute_tensor *a, compute_tensor **result,
                                      compute_tensor **status) {
  return run_all(LINALG_CALL(inverse, EAGER_OPERANDS(a)), result, (further){{status}});
}

LINALG_BUILD(lu, compute_lu(graph, x[0], &y[1], &y[2]))

compute_status compute_tensor_lu(const compute_tensor *a, compute_tensor **result,
                                 compute_tensor **permutation, compute_tensor **status) {
  return run_all(LINALG_CALL(lu, EAGER_OPERANDS(a)), result, (further){{permutation, status}});
}

LINALG_BUILD(determinant, compute_determinant(graph, x[0]))

compute_status compute_tensor_determinant(const compute_tensor *a, compute_tensor **result) {
  return run_all(LINALG_CALL(determinant, EAGER_OPERANDS(a)), result, (further){{NULL}});
}

LINALG_BUILD(log_determinant, compute_log_determinant(graph, x[0], &y[1]))

compute_status compute_tensor_log_determinant(const compute_tensor *a, compute_tensor **result,
                                              compute_tensor **sign) {
  return run_all(LINALG_CALL(log_determinant, EAGER_OPERANDS(a)), result, (further){{sign}});
}

LINALG_BUILD(qr, compute_qr(graph, x[0], call->integer[0] != 0, &y[1], &y[2]))

compute_status compute_tensor_qr(const compute_tensor *a, bool complete, compute_tensor **result,
                                 compute_tensor **r, compute_tensor **status) {
  return run_all(LINALG_CALL(qr, EAGER_OPERANDS(a), .integer = {complete}), result,
                 (further){{r, status}});
}

LINALG_BUILD(least_squares, compute_least_squares(graph, x[0], x[1], &y[1]))

compute_status compute_tensor_least_squares(const compute_tensor *a, const compute_tensor *b,
                                            compute_tensor **result, compute_tensor **status) {
  return run_all(LINALG_CALL(least_squares, EAGER_OPERANDS(a, b)), result, (further){{status}});
}

/* Without vectors, no plan computes them. */
LINALG_BUILD(eigh, compute_eigh(graph, x[0], call->integer[0] ? &y[1] : NULL, &y[2]))

compute_status compute_tensor_eigh(const compute_tensor *a, compute_tensor **result,
                                   compute_tensor **vectors, compute_tensor **status) {
  return run_all(LINALG_CALL(eigh, EAGER_OPERANDS(a), .integer = {vectors != NULL}), result,
                 (further){{vectors, status}});
}

LINALG_BUILD(eig, compute_eig(graph, x[0], call->integer[0] ? &y[1] : NULL, &y[2]))

compute_status compute_tensor_eig(const compute_tensor *a, compute_tensor **result,
                                  compute_tensor **vectors, compute_tensor **status) {
  return run_all(LINALG_CALL(eig, EAGER_OPERANDS(a), .integer = {vectors != NULL}), result,
                 (further){{vectors, status}});
}

LINALG_BUILD(svd, compute_svd(graph, x[0], call->integer[0] != 0, &y[1], &y[2], &y[3]))

compute_status compute_tensor_svd(const compute_tensor *a, bool full, compute_tensor **result,
                                  compute_tensor **values, compute_tensor **vt,
                                  compute_tensor **status) {
  return run_all(LINALG_CALL(svd, EAGER_OPERANDS(a), .integer = {full}), result,
                 (further){{values, vt, status}});
}

LINALG_BUILD(singular_values, compute_singular_values(graph, x[0], &y[1]))

compute_status compute_tensor_singular_values(const compute_tensor *a, compute_tensor **result,
                                              compute_tensor **status) {
  return run_all(LINALG_CALL(singular_values, EAGER_OPERANDS(a)), result, (further){{status}});
}

#define RANKED(name)                                                                               \
  LINALG_BUILD(name, compute_##name(graph, x[0], call->number[0]))                                 \
  compute_status compute_tensor_##name(const compute_tensor *a, double tolerance,                  \
                                       compute_tensor **result) {                                  \
    FLOAT_ENVIRONMENT_DEFAULT;                                                                     \
    return run_all(LINALG_CALL(name, EAGER_OPERANDS(a), .number = {tolerance}), result,            \
                   (further){{NULL}});                                                             \
  }
RANKED(pseudo_inverse)
RANKED(matrix_rank)

LINALG_BUILD(matrix_exp, compute_matrix_exp(graph, x[0], &y[1]))

compute_status compute_tensor_matrix_exp(const compute_tensor *a, compute_tensor **result,
                                         compute_tensor **status) {
  return run_all(LINALG_CALL(matrix_exp, EAGER_OPERANDS(a)), result, (further){{status}});
}

LINALG_BUILD(matrix_norm,
             compute_matrix_norm(graph, x[0], (compute_matrix_norm_kind)call->integer[0]))

compute_status compute_tensor_matrix_norm(const compute_tensor *a, compute_matrix_norm_kind kind,
                                          compute_tensor **result) {
  return run_all(LINALG_CALL(matrix_norm, EAGER_OPERANDS(a), .integer = {(int64_t)kind}), result,
                 (further){{NULL}});
}
