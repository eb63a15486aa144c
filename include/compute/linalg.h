/* SPDX-License-Identifier: MIT */
/** @file
 * Dense linear algebra on matrices, alone or in batches.
 *
 * A matrix is the last two axes of a tensor: a [..., m, n] is a batch of matrices with m rows and
 * n columns. The other axes broadcast between operands. Operands may have any float dtype; f16 and
 * bf16 are computed in f32. The CPU computes; a plan for another device copies the operands there.
 * The result of a matrix does not depend on the other matrices of its batch, bit for bit.
 *
 * A matrix that has no result does not fail the run. Its results are NaN, and its `status`, i32
 * [...], is not 0: −1 if the matrix has a NaN or an infinity, else a number that the function
 * explains. `status` may be NULL. Numbers in a status count from 1.
 *
 * Builders follow the rules of compute/graph.h. Functions named compute_tensor_… run at once
 * (compute/eager.h); a status that is not NULL receives a new tensor. Sizes of m and n are at most
 * 2^24: COMPUTE_ERROR_SHAPE. Gradients exist unless a comment says otherwise; where a status is not
 * 0 they are NaN. */
#ifndef COMPUTE_LINALG_H
#define COMPUTE_LINALG_H

#include "compute/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Symmetric, positive definite ---------------------------------------------------------- */

/** The lower factor L of symmetric, positive definite a [..., n, n]: a = L Lᵀ. Elements above the
 * diagonal of a are not read, and in L they are 0. A status i: the leading minor i is not positive.
 * The gradient is symmetric. */
COMPUTE_API compute_node compute_cholesky(compute_graph *graph, compute_node a,
                                          compute_node *status);
COMPUTE_API compute_status compute_tensor_cholesky(const compute_tensor *a, compute_tensor **result,
                                                   compute_tensor **status);

/* ---- Systems of equations ------------------------------------------------------------------ */

/** The solution x of a x = b for triangular a [..., n, n] and b [..., n, k]. Elements outside of
 * the lower triangle (`upper`: the upper one) are not read; with `unit_diagonal`, neither are those
 * on the diagonal, which count as 1. A status i: diagonal element i is 0. */
COMPUTE_API compute_node compute_solve_triangular(compute_graph *graph, compute_node a,
                                                  compute_node b, bool upper, bool unit_diagonal,
                                                  compute_node *status);
COMPUTE_API compute_status compute_tensor_solve_triangular(const compute_tensor *a,
                                                           const compute_tensor *b, bool upper,
                                                           bool unit_diagonal,
                                                           compute_tensor **result,
                                                           compute_tensor **status);

/** The solution x of a x = b for a [..., n, n] and b [..., n, k], by elimination with row pivots. A
 * vector b [n] counts as [n, 1], and x then has no axis for k. A status i: pivot i is 0, so that a
 * is singular. A matrix that is nearly singular has a solution, whose error its condition number
 * bounds. */
COMPUTE_API compute_node compute_solve(compute_graph *graph, compute_node a, compute_node b,
                                       compute_node *status);
COMPUTE_API compute_status compute_tensor_solve(const compute_tensor *a, const compute_tensor *b,
                                                compute_tensor **result, compute_tensor **status);

/** The inverse of a [..., n, n]; a status as in compute_solve. */
COMPUTE_API compute_node compute_inverse(compute_graph *graph, compute_node a,
                                         compute_node *status);
COMPUTE_API compute_status compute_tensor_inverse(const compute_tensor *a, compute_tensor **result,
                                                  compute_tensor **status);

/** The factors of a [..., m, n] with its rows in another order: row i of L U is row permutation[i]
 * of a. The result [..., m, n] has U in its upper triangle, and below it L, whose diagonal is 1.
 * permutation, i32 [..., m], may be NULL. A status i: pivot i is 0; the factors are still those of
 * a. Gradients of square a only, else COMPUTE_ERROR_NOT_DIFFERENTIABLE. */
COMPUTE_API compute_node compute_lu(compute_graph *graph, compute_node a, compute_node *permutation,
                                    compute_node *status);
COMPUTE_API compute_status compute_tensor_lu(const compute_tensor *a, compute_tensor **result,
                                             compute_tensor **permutation, compute_tensor **status);

/* ---- Determinants -------------------------------------------------------------------------- */

/** The determinant of a [..., n, n]; [...]. 0 for a singular matrix, NaN for one that is not
 * finite. It overflows early: n = 40 random numbers suffice in f32. The gradient of a singular
 * matrix is NaN. */
COMPUTE_API compute_node compute_determinant(compute_graph *graph, compute_node a);
COMPUTE_API compute_status compute_tensor_determinant(const compute_tensor *a,
                                                      compute_tensor **result);

/** The logarithm of the absolute determinant of a [..., n, n]; [...]. −infinity for a singular
 * matrix. *sign (may be NULL) has its sign, −1, 0 or 1, in a's dtype, without a gradient. */
COMPUTE_API compute_node compute_log_determinant(compute_graph *graph, compute_node a,
                                                 compute_node *sign);
COMPUTE_API compute_status compute_tensor_log_determinant(const compute_tensor *a,
                                                          compute_tensor **result,
                                                          compute_tensor **sign);

#ifdef __cplusplus
}
#endif

#endif
