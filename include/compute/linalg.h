/* SPDX-License-Identifier: MIT */
/** @file
 * Dense linear algebra on matrices, alone or in batches.
 *
 * A matrix is the last two axes of a tensor: a [..., m, n] is a batch of matrices with m rows and
 * n columns. The other axes broadcast between operands. Operands may have any float dtype; f16 and
 * bf16 are computed in f32. Other devices compute matrices that fit in local memory. The CPU computes
 * larger ones, compute_eig and compute_matrix_exp; a plan for another device copies the operands
 * there.
 * The factors, solutions, eigenvalues and singular values of a matrix do not depend on the other
 * matrices of its batch, bit for bit. Determinants, least squares, pseudo-inverses and norms are
 * sums and products of such results, whose last bits can depend on the size of the batch.
 *
 * A matrix that has no result does not fail the run. Its results are NaN, and its `status`, i32
 * [...], is not 0: −1 if the matrix has a NaN or an infinity, else a number that the function
 * explains. `status` may be NULL. Numbers in a status count from 1. A result that overflows is
 * infinite or NaN with status 0, for example the inverse of subnormal numbers.
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
 * permutation, i32 [..., m], may be NULL. A status i: pivot i is 0, and a still has these
 * factors. Gradients of square a only, else COMPUTE_ERROR_NOT_DIFFERENTIABLE. */
COMPUTE_API compute_node compute_lu(compute_graph *graph, compute_node a, compute_node *permutation,
                                    compute_node *status);
COMPUTE_API compute_status compute_tensor_lu(const compute_tensor *a, compute_tensor **result,
                                             compute_tensor **permutation, compute_tensor **status);

/* ---- Determinants -------------------------------------------------------------------------- */

/** The determinant of a [..., n, n]; [...]. 0 for a singular matrix, NaN for one that is not
 * finite. It overflows early: n = 40 random numbers suffice in f32. Products of some pivots can
 * overflow or vanish even if the determinant does not; it is then infinite, 0 or NaN. Use
 * compute_log_determinant there. The gradient of a singular matrix is NaN. */
COMPUTE_API compute_node compute_determinant(compute_graph *graph, compute_node a);
COMPUTE_API compute_status compute_tensor_determinant(const compute_tensor *a,
                                                      compute_tensor **result);

/** The logarithm of the absolute determinant of a [..., n, n]; [...]. −infinity for a singular
 * matrix, whose gradient is NaN. *sign (may be NULL) has its sign, −1, 0 or 1, in a's dtype, without
 * a gradient. */
COMPUTE_API compute_node compute_log_determinant(compute_graph *graph, compute_node a,
                                                 compute_node *sign);
COMPUTE_API compute_status compute_tensor_log_determinant(const compute_tensor *a,
                                                          compute_tensor **result,
                                                          compute_tensor **sign);

/* ---- Orthogonal factors -------------------------------------------------------------------- */

/** The factors of a [..., m, n]: a = Q R. The result is Q [..., m, k], with orthonormal columns,
 * and *r (may be NULL) is R [..., k, n], upper triangular with a diagonal that is not negative. k is
 * min(m, n); with `complete` it is m. Gradients for m ≥ n without `complete`, else
 * COMPUTE_ERROR_NOT_DIFFERENTIABLE; they need columns that are independent. */
COMPUTE_API compute_node compute_qr(compute_graph *graph, compute_node a, bool complete,
                                    compute_node *r, compute_node *status);
COMPUTE_API compute_status compute_tensor_qr(const compute_tensor *a, bool complete,
                                             compute_tensor **result, compute_tensor **r,
                                             compute_tensor **status);

/** The x [..., n, k] with the smallest sum of squares of a x − b, for a [..., m, n] and b [..., m,
 * k], by Q R. For m < n it is the x with the smallest sum of squares that solves a x = b. A status
 * i: column i (for m < n row i) of a depends on those before it. It does if its element of R's
 * diagonal is within rounding errors of 0: max(m, n), at most 1024, times the distance of 1 to the
 * next number, times the largest element of the same column of R. compute_pseudo_inverse takes any
 * rank. */
COMPUTE_API compute_node compute_least_squares(compute_graph *graph, compute_node a, compute_node b,
                                               compute_node *status);
COMPUTE_API compute_status compute_tensor_least_squares(const compute_tensor *a,
                                                        const compute_tensor *b,
                                                        compute_tensor **result,
                                                        compute_tensor **status);

/* ---- Eigenvalues --------------------------------------------------------------------------- */

/** The eigenvalues of symmetric a [..., n, n] in ascending order, [..., n]. *vectors [..., n, n]
 * (may be NULL) has a vector of length 1 in each column, whose sign is not specified. Elements
 * above the diagonal are not read. A status above 0: no convergence. The gradient is symmetric. In
 * the gradient of vectors, vectors of equal eigenvalues count as if they did not mix. So it lacks
 * the parts of a change of a that separate those eigenvalues, even where a function does not depend
 * on the choice of vectors. Use functions such as compute_pseudo_inverse and compute_matrix_exp
 * there, whose gradients need no vectors. */
COMPUTE_API compute_node compute_eigh(compute_graph *graph, compute_node a, compute_node *vectors,
                                      compute_node *status);
COMPUTE_API compute_status compute_tensor_eigh(const compute_tensor *a, compute_tensor **result,
                                               compute_tensor **vectors, compute_tensor **status);

/** The eigenvalues of a [..., n, n], [..., n, 2]: real and imaginary parts, in no order. *vectors
 * [..., n, n, 2] (may be NULL) has a vector of length 1 in each column, with a real largest
 * element. Conjugate values are conjugate up to rounding errors only. An imaginary part within the
 * rounding errors of the matrix becomes 0, perhaps for one of two conjugate values. A status above
 * 0: no convergence. No gradient. */
COMPUTE_API compute_node compute_eig(compute_graph *graph, compute_node a, compute_node *vectors,
                                     compute_node *status);
COMPUTE_API compute_status compute_tensor_eig(const compute_tensor *a, compute_tensor **result,
                                              compute_tensor **vectors, compute_tensor **status);

/* ---- Singular values ----------------------------------------------------------------------- */

/** a = U diag(S) Vᵀ for a [..., m, n]. The result is U [..., m, k], *values S [..., k] in
 * descending order, *vt Vᵀ [..., k, n] (both may be NULL), for k = min(m, n). With `full`, U is
 * [..., m, m] and Vᵀ [..., n, n]. A status above 0: no convergence. Gradients without `full`, else
 * COMPUTE_ERROR_NOT_DIFFERENTIABLE; equal values count as in compute_eigh, and so do values of
 * 0. */
COMPUTE_API compute_node compute_svd(compute_graph *graph, compute_node a, bool full,
                                     compute_node *values, compute_node *vt, compute_node *status);
COMPUTE_API compute_status compute_tensor_svd(const compute_tensor *a, bool full,
                                              compute_tensor **result, compute_tensor **values,
                                              compute_tensor **vt, compute_tensor **status);

/** The singular values only. */
COMPUTE_API compute_node compute_singular_values(compute_graph *graph, compute_node a,
                                                 compute_node *status);
COMPUTE_API compute_status compute_tensor_singular_values(const compute_tensor *a,
                                                          compute_tensor **result,
                                                          compute_tensor **status);

/** The pseudo-inverse [..., n, m] of a [..., m, n]. Singular values up to `tolerance` times the
 * largest one count as 0; a negative tolerance stands for max(m, n) times the distance of 1 to the
 * next number of the dtype. NaN for a matrix without singular values. */
COMPUTE_API compute_node compute_pseudo_inverse(compute_graph *graph, compute_node a,
                                                double tolerance);
COMPUTE_API compute_status compute_tensor_pseudo_inverse(const compute_tensor *a, double tolerance,
                                                         compute_tensor **result);

/** The number of singular values above the same limit, i32 [...]; 0 for a matrix that is not
 * finite, −1 without convergence. */
COMPUTE_API compute_node compute_matrix_rank(compute_graph *graph, compute_node a,
                                             double tolerance);
COMPUTE_API compute_status compute_tensor_matrix_rank(const compute_tensor *a, double tolerance,
                                                      compute_tensor **result);

/* ---- Functions and norms of matrices ------------------------------------------------------- */

/** e to the power of a [..., n, n], by squarings and an approximant of Padé. The number of
 * squarings grows with the norm of a. If elements off the diagonal are much larger than the
 * eigenvalues, the squarings lose digits without a status: all for [[1, 1e20], [0, −1]]. */
COMPUTE_API compute_node compute_matrix_exp(compute_graph *graph, compute_node a,
                                            compute_node *status);
COMPUTE_API compute_status compute_tensor_matrix_exp(const compute_tensor *a,
                                                     compute_tensor **result,
                                                     compute_tensor **status);

typedef enum compute_matrix_norm_kind {
  COMPUTE_NORM_FROBENIUS = 0, /**< the root of the sum of squares */
  COMPUTE_NORM_NUCLEAR = 1,   /**< the sum of the singular values */
  COMPUTE_NORM_SPECTRAL = 2,  /**< the largest singular value */
  COMPUTE_NORM_ONE = 3,       /**< the largest sum of magnitudes of a column */
  COMPUTE_NORM_INFINITY = 4   /**< the largest sum of magnitudes of a row */
} compute_matrix_norm_kind;

/** A norm of matrices a [..., m, n]; [...]. An empty matrix has norm 0. The gradient is NaN where the
 * Frobenius norm is 0. Equal largest sums or singular values share the gradient. The gradient of the
 * nuclear norm is U Vᵀ for any rank. */
COMPUTE_API compute_node compute_matrix_norm(compute_graph *graph, compute_node a,
                                             compute_matrix_norm_kind kind);
COMPUTE_API compute_status compute_tensor_matrix_norm(const compute_tensor *a,
                                                      compute_matrix_norm_kind kind,
                                                      compute_tensor **result);

#ifdef __cplusplus
}
#endif

#endif
