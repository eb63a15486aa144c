/* SPDX-License-Identifier: MIT */
/* Eager calls of linear algebra.
 *
 * A plan of an eager call has one output. So a call with several results runs once for each that
 * the caller wants. */
#include "compute/linalg.h"
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

LINALG_BUILD(solve_triangular,
             compute_solve_triangular(graph, x[0], x[1], call->integer[0] != 0,
                                      call->integer[1] != 0, &y[1]))

compute_status compute_tensor_solve_triangular(const compute_tensor *a, const compute_tensor *b,
                                               bool upper, bool unit_diagonal,
                                               compute_tensor **result, compute_tensor **status) {
  return run_all(LINALG_CALL(solve_triangular, EAGER_OPERANDS(a, b),
                             .integer = {upper, unit_diagonal}),
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
