/* SPDX-License-Identifier: MIT */
/* The gradients of linear algebra, as further linear algebra.
 *
 * The formulas are those of M. Giles, "Collected matrix derivative results for forward and reverse
 * mode algorithmic differentiation", 2008. G is the gradient of a result. */
#include "compute/graph_array.h"
#include "core/type/shape.h"
#include "graph/builders/linalg.h"
#include "graph/gradient/gradient.h"


static compute_node solve_upper(compute_graph *graph, compute_node a, compute_node b) {
  return compute_solve_triangular(graph, a, b, true, false, NULL);
}

static compute_node product_with_transposed(compute_graph *graph, compute_node a, compute_node b) {
  return compute_matmul(graph, a, linalg_transpose(graph, b));
}

/* L⁻ᵀ Φ(Lᵀ G) L⁻¹, made symmetric. Φ takes the lower triangle and half of the diagonal. */
static void cholesky(gradient_step *s, const compute_linalg_attributes *a) {
  compute_graph *graph = s->graph;
  const int64_t n = a->rows;
  const compute_node l = linalg_take(graph, s->result, 0, n, n);
  const compute_node g = linalg_take(graph, s->upstream, 0, n, n);
  const compute_node turned = linalg_transpose(graph, l);
  const compute_node both = compute_matmul(graph, turned, g);
  const compute_node phi = compute_mul(
      graph, gradient_number(s, 0.5),
      compute_add(graph, compute_tril(graph, both, 0), compute_tril(graph, both, -1)));
  const compute_node left = solve_upper(graph, turned, phi);
  const compute_node all = solve_upper(graph, turned, linalg_transpose(graph, left));
  const compute_node sum = compute_add(graph, all, linalg_transpose(graph, all));
  gradient_give(s, 0, compute_mul(graph, gradient_number(s, 0.5), sum));
}

/* B: A⁻ᵀ G, and A: −A⁻ᵀ G Xᵀ. */
static void solve(gradient_step *s, const compute_linalg_attributes *a) {
  compute_graph *graph = s->graph;
  const bool upper = a->flags & COMPUTE_LINALG_UPPER;
  const bool unit = a->flags & COMPUTE_LINALG_UNIT_DIAGONAL;
  const bool triangular = a->function == COMPUTE_LINALG_TRIANGULAR;
  const compute_node x = linalg_take(graph, s->result, 0, a->rows, a->right);
  const compute_node g = linalg_take(graph, s->upstream, 0, a->rows, a->right);
  const compute_node turned = linalg_transpose(graph, gradient_operand(s, 0));
  const compute_node of_b =
      triangular ? compute_solve_triangular(graph, turned, g, !upper, unit, NULL)
                 : compute_solve(graph, turned, g, NULL);
  if (gradient_wanted(s, 1)) gradient_give(s, 1, of_b);
  if (!gradient_wanted(s, 0)) return;
  compute_node of_a = compute_neg(graph, product_with_transposed(graph, of_b, x));
  if (triangular)
    of_a = upper ? compute_triu(graph, of_a, unit ? 1 : 0)
                 : compute_tril(graph, of_a, unit ? -1 : 0);
  gradient_give(s, 0, of_a);
}

/* L⁻ᵀ (tril(Lᵀ G, −1) + triu(G Uᵀ)) U⁻ᵀ, with the rows back in their places. */
static void lu(gradient_step *s, const compute_linalg_attributes *a) {
  compute_graph *graph = s->graph;
  const int64_t n = a->rows;
  if (a->rows != a->columns) {
    graph_fail(graph, COMPUTE_ERROR_NOT_DIFFERENTIABLE, "gradients",
               "the gradient of lu needs a square matrix");
    return;
  }
  const compute_node both = linalg_take(graph, s->result, 0, n, n);
  const compute_node g = linalg_take(graph, s->upstream, 0, n, n);
  const compute_node u = compute_triu(graph, both, 0);
  const compute_node below = compute_tril(graph, both, -1);
  const compute_node l = compute_add(graph, below, linalg_identity(graph, s->node.dtype, n));
  const compute_node turned = linalg_transpose(graph, l);
  const compute_node lower = compute_tril(
      graph, compute_matmul(graph, turned, compute_tril(graph, g, -1)), -1);
  const compute_node upper = compute_triu(
      graph, product_with_transposed(graph, compute_triu(graph, g, 0), u), 0);
  const compute_node left = compute_solve_triangular(
      graph, turned, compute_add(graph, lower, upper), true, true, NULL);
  const compute_node rows =
      linalg_transpose(graph, solve_upper(graph, u, linalg_transpose(graph, left)));
  const compute_shape shape = compute_node_shape(graph, rows);
  compute_node order = compute_cast(
      graph, linalg_take(graph, s->result, n * n, n, 1), COMPUTE_I64);
  order = compute_broadcast(graph, order, shape);
  gradient_give(s, 0, build_scatter_add_elements(graph, rows, order, shape.rank - 2, shape, true));
}

void gradient_linalg(gradient_step *s) {
  const compute_linalg_attributes a = *(const compute_linalg_attributes *)s->node.constant;
  switch (a.function) {
  case COMPUTE_LINALG_CHOLESKY: cholesky(s, &a); break;
  case COMPUTE_LINALG_TRIANGULAR:
  case COMPUTE_LINALG_SOLVE: solve(s, &a); break;
  case COMPUTE_LINALG_LU: lu(s, &a); break;
  }
}
