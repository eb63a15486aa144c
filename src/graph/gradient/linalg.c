/* SPDX-License-Identifier: MIT */
/* The gradients of linear algebra, as further linear algebra.
 *
 * Formulas: M. Giles, "Collected matrix derivative results for forward and reverse
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
  const compute_node phi =
      compute_mul(graph, gradient_number(s, 0.5),
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
  const compute_node of_b = triangular
                                ? compute_solve_triangular(graph, turned, g, !upper, unit, NULL)
                                : compute_solve(graph, turned, g, NULL);
  if (gradient_wanted(s, 1)) gradient_give(s, 1, of_b);
  if (!gradient_wanted(s, 0)) return;
  compute_node of_a = compute_neg(graph, product_with_transposed(graph, of_b, x));
  if (triangular)
    of_a =
        upper ? compute_triu(graph, of_a, unit ? 1 : 0) : compute_tril(graph, of_a, unit ? -1 : 0);
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
  const compute_node lower =
      compute_tril(graph, compute_matmul(graph, turned, compute_tril(graph, g, -1)), -1);
  const compute_node upper =
      compute_triu(graph, product_with_transposed(graph, compute_triu(graph, g, 0), u), 0);
  const compute_node left =
      compute_solve_triangular(graph, turned, compute_add(graph, lower, upper), true, true, NULL);
  const compute_node rows =
      linalg_transpose(graph, solve_upper(graph, u, linalg_transpose(graph, left)));
  const compute_shape shape = compute_node_shape(graph, rows);
  compute_node order = compute_cast(graph, linalg_take(graph, s->result, n * n, n, 1), COMPUTE_I64);
  order = compute_broadcast(graph, order, shape);
  gradient_give(s, 0, build_scatter_add_elements(graph, rows, order, shape.rank - 2, shape, true));
}

static void refuse(gradient_step *s, const char *reason) {
  graph_fail(s->graph, COMPUTE_ERROR_NOT_DIFFERENTIABLE, "gradients", "%s", reason);
}

/* (G_Q + Q C) R⁻ᵀ, where C has the lower triangle of R G_Rᵀ − G_Qᵀ Q, mirrored. */
static void qr(gradient_step *s, const compute_linalg_attributes *a) {
  compute_graph *graph = s->graph;
  const int64_t m = a->rows, n = a->columns;
  if (m < n || (a->flags & COMPUTE_LINALG_FULL)) {
    refuse(s, "the gradient of qr needs as many rows as columns, and no complete Q");
    return;
  }
  const compute_node q = linalg_take(graph, s->result, 0, m, n);
  const compute_node r = linalg_take(graph, s->result, m * n, n, n);
  const compute_node of_q = linalg_take(graph, s->upstream, 0, m, n);
  const compute_node of_r = linalg_take(graph, s->upstream, m * n, n, n);
  const compute_node both = compute_sub(graph, product_with_transposed(graph, r, of_r),
                                        compute_matmul(graph, linalg_transpose(graph, of_q), q));
  const compute_node mirrored = compute_add(graph, compute_tril(graph, both, 0),
                                            linalg_transpose(graph, compute_tril(graph, both, -1)));
  const compute_node sum = compute_add(graph, of_q, compute_matmul(graph, q, mirrored));
  gradient_give(s, 0, linalg_transpose(graph, solve_upper(graph, r, linalg_transpose(graph, sum))));
}

/* 1 / (x_j − x_i), and 0 where they are equal. */
static compute_node gaps(const gradient_step *s, compute_node x) {
  compute_graph *graph = s->graph;
  const compute_node gap = compute_sub(graph, linalg_as_row(graph, x), linalg_as_column(graph, x));
  const compute_node none = compute_equal(graph, gap, gradient_number(s, 0));
  const compute_node divisor = compute_select(graph, none, gradient_number(s, 1), gap);
  return compute_select(graph, none, gradient_number(s, 0), compute_reciprocal(graph, divisor));
}

/* The results with vectors, which values alone lack. */
static compute_node with_vectors(const gradient_step *s, const compute_linalg_attributes *a) {
  compute_linalg_attributes more = *a;
  if (a->flags & COMPUTE_LINALG_VECTORS) return s->result;
  more.flags |= COMPUTE_LINALG_VECTORS;
  return linalg_node(s->graph, "gradients", &more, gradient_operand(s, 0), (compute_node){0});
}

/* V (diag(G_w) + F ∘ (Vᵀ G_V)) Vᵀ, made symmetric, with the gaps F. */
static void eigh(gradient_step *s, const compute_linalg_attributes *a) {
  compute_graph *graph = s->graph;
  const int64_t n = a->rows;
  const compute_node all = with_vectors(s, a);
  const compute_node v = linalg_take(graph, all, n, n, n);
  compute_node inner = linalg_spread(graph, linalg_take_vector(graph, s->upstream, 0, n));
  if (a->flags & COMPUTE_LINALG_VECTORS) {
    const compute_node of_v = linalg_take(graph, s->upstream, n, n, n);
    const compute_node mixed = compute_matmul(graph, linalg_transpose(graph, v), of_v);
    const compute_node values = linalg_take_vector(graph, all, 0, n);
    inner = compute_add(graph, inner, compute_mul(graph, gaps(s, values), mixed));
  }
  const compute_node sum = product_with_transposed(graph, compute_matmul(graph, v, inner), v);
  gradient_give(s, 0,
                compute_mul(graph, gradient_number(s, 0.5),
                            compute_add(graph, sum, linalg_transpose(graph, sum))));
}

/* U (diag(G_S) + (F ∘ 2 skew(Uᵀ G_U)) S + S (F ∘ 2 skew(Vᵀ G_V))) Vᵀ, with the gaps F of squares, and
 * the parts of G_U and G_V outside of the spaces of U and V (J. Townsend, 2016). */
static void svd(gradient_step *s, const compute_linalg_attributes *a) {
  compute_graph *graph = s->graph;
  const int64_t m = a->rows, n = a->columns, k = m < n ? m : n;
  if (a->flags & COMPUTE_LINALG_FULL) {
    refuse(s, "the gradient of svd needs the factors that are not full");
    return;
  }
  const compute_node all = with_vectors(s, a);
  const compute_node values = linalg_take_vector(graph, all, 0, k);
  const compute_node u = linalg_take(graph, all, k, m, k);
  const compute_node vt = linalg_take(graph, all, k + m * k, k, n);
  compute_node inner = linalg_spread(graph, linalg_take_vector(graph, s->upstream, 0, k));
  if (!(a->flags & COMPUTE_LINALG_VECTORS)) {
    gradient_give(s, 0, compute_matmul(graph, compute_matmul(graph, u, inner), vt));
    return;
  }
  const compute_node of_u = linalg_take(graph, s->upstream, k, m, k);
  const compute_node of_vt = linalg_take(graph, s->upstream, k + m * k, k, n);
  const compute_node left = compute_matmul(graph, linalg_transpose(graph, u), of_u);
  const compute_node right = product_with_transposed(graph, vt, of_vt);
  const compute_node gap = gaps(s, compute_square(graph, values));
  const compute_node skew_left = compute_sub(graph, left, linalg_transpose(graph, left));
  const compute_node skew_right = compute_sub(graph, right, linalg_transpose(graph, right));
  inner = compute_add(
      graph, inner,
      compute_mul(graph, compute_mul(graph, gap, skew_left), linalg_as_row(graph, values)));
  inner = compute_add(
      graph, inner,
      compute_mul(graph, compute_mul(graph, gap, skew_right), linalg_as_column(graph, values)));
  compute_node sum = compute_matmul(graph, compute_matmul(graph, u, inner), vt);
  const compute_node none = compute_equal(graph, values, gradient_number(s, 0));
  const compute_node inverse = compute_select(
      graph, none, gradient_number(s, 0),
      compute_reciprocal(graph, compute_select(graph, none, gradient_number(s, 1), values)));
  if (m > k) {
    const compute_node rest = compute_sub(graph, of_u, compute_matmul(graph, u, left));
    const compute_node scaled = compute_mul(graph, rest, linalg_as_row(graph, inverse));
    sum = compute_add(graph, sum, compute_matmul(graph, scaled, vt));
  }
  if (n > k) {
    const compute_node rest =
        compute_sub(graph, of_vt, compute_matmul(graph, linalg_transpose(graph, right), vt));
    const compute_node scaled = compute_mul(graph, rest, linalg_as_column(graph, inverse));
    sum = compute_add(graph, sum, compute_matmul(graph, u, scaled));
  }
  gradient_give(s, 0, sum);
}

/* Powers of e near the largest magnitudes of matrices, [..., 1, 1]. floor gives them no gradient;
 * the result does not depend on them. */
static compute_node sizes_of(const gradient_step *s, compute_node g) {
  compute_graph *graph = s->graph;
  const compute_shape shape = compute_node_shape(graph, g);
  if (graph->status || shape_count(shape) == 0) return gradient_number(s, 1);
  const compute_node most = compute_max(graph, compute_abs(graph, g), COMPUTE_AXES(-2, -1), true);
  const compute_node normal = compute_maximum(graph, most, gradient_number(s, 0x1p-100));
  return compute_exp(graph, compute_floor(graph, compute_log(graph, normal)));
}

/* The upper right block of the exponential of Aᵀ G over 0 Aᵀ. It is linear in G, whose size would
 * otherwise decide how the exponential scales A. */
static void exponential(gradient_step *s, const compute_linalg_attributes *a) {
  compute_graph *graph = s->graph;
  const int64_t n = a->rows;
  const compute_node turned = linalg_transpose(graph, gradient_operand(s, 0));
  const compute_node upstream = linalg_take(graph, s->upstream, 0, n, n);
  const compute_node size = sizes_of(s, upstream), g = compute_div(graph, upstream, size);
  const int32_t row = compute_node_shape(graph, g).rank - 2;
  const compute_node zero = compute_full(graph, s->node.dtype, compute_node_shape(graph, g), 0);
  const compute_node top = compute_concat(graph, (const compute_node[]){turned, g}, 2, row + 1);
  const compute_node bottom =
      compute_concat(graph, (const compute_node[]){zero, turned}, 2, row + 1);
  const compute_node whole = compute_matrix_exp(
      graph, compute_concat(graph, (const compute_node[]){top, bottom}, 2, row), NULL);
  const compute_node corner =
      compute_slice(graph, compute_slice(graph, whole, row, 0, n, 1), row + 1, n, n, 1);
  gradient_give(s, 0, compute_mul(graph, corner, size));
}

/* −Pᵀ G Pᵀ + (I − A P) Gᵀ P Pᵀ + Pᵀ P Gᵀ (I − P A) of P = A⁺ (G. Golub and V. Pereyra, 1973). Equal
 * singular values do no harm here, while the gradients of their vectors need the gaps. */
void gradient_whole_pseudo_inverse(gradient_step *s) {
  compute_graph *graph = s->graph;
  const compute_node a = gradient_operand(s, 0), p = s->result;
  const compute_node turned = linalg_transpose(graph, p);
  const compute_node g = linalg_transpose(graph, s->upstream);
  const compute_node middle =
      product_with_transposed(graph, compute_matmul(graph, turned, s->upstream), p);
  const compute_node left = compute_matmul(graph, compute_matmul(graph, g, p), turned);
  const compute_node right = compute_matmul(graph, turned, compute_matmul(graph, p, g));
  const compute_node left_rest =
      compute_sub(graph, left, compute_matmul(graph, a, compute_matmul(graph, p, left)));
  const compute_node right_rest =
      compute_sub(graph, right, compute_matmul(graph, compute_matmul(graph, right, p), a));
  gradient_give(s, 0, compute_sub(graph, compute_add(graph, left_rest, right_rest), middle));
}

void gradient_linalg(gradient_step *s) {
  const compute_linalg_attributes a = *(const compute_linalg_attributes *)s->node.constant;
  switch (a.function) {
  case COMPUTE_LINALG_CHOLESKY: cholesky(s, &a); break;
  case COMPUTE_LINALG_TRIANGULAR:
  case COMPUTE_LINALG_SOLVE: solve(s, &a); break;
  case COMPUTE_LINALG_LU: lu(s, &a); break;
  case COMPUTE_LINALG_QR: qr(s, &a); break;
  case COMPUTE_LINALG_EIGH: eigh(s, &a); break;
  case COMPUTE_LINALG_SVD: svd(s, &a); break;
  case COMPUTE_LINALG_EXPM: exponential(s, &a); break;
  case COMPUTE_LINALG_EIG: refuse(s, "eig has no gradient"); break;
  }
}
