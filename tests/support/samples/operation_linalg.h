/* SPDX-License-Identifier: MIT */
/* Words of tests/operations/linalg.def: matrices with a good condition, and functions of factors
 * that do not depend on the signs of vectors. */
#ifndef SUPPORT_OPERATION_LINALG_H
#define SUPPORT_OPERATION_LINALG_H

#include "compute/graph_array.h"
#include "compute/linalg.h"

static compute_node linalg_literal(compute_graph *g, compute_node like, double value) {
  return compute_scalar(g, compute_node_dtype(g, like), value);
}

/* The last two axes exchanged. */
static compute_node linalg_turned(compute_graph *g, compute_node x) {
  compute_axes axes = {.count = compute_node_shape(g, x).rank};
  for (int32_t i = 0; i < axes.count; i++) axes.axis[i] = i;
  axes.axis[axes.count - 1] = axes.count - 2;
  axes.axis[axes.count - 2] = axes.count - 1;
  return compute_transpose(g, x, axes);
}

/* 0.2 x with 2, 5, 8, … added to the diagonal: singular values far from each other. */
static compute_node linalg_spread_out(compute_graph *g, compute_node x) {
  const compute_shape shape = compute_node_shape(g, x);
  const compute_dtype dtype = compute_node_dtype(g, x);
  const compute_node row = compute_index(g, dtype, shape, shape.rank - 2);
  const compute_node column = compute_index(g, dtype, shape, shape.rank - 1);
  const compute_node diagonal =
      compute_add(g, compute_mul(g, column, linalg_literal(g, x, 3)), linalg_literal(g, x, 2));
  return compute_add(
      g, compute_mul(g, x, linalg_literal(g, x, 0.2)),
      compute_select(g, compute_equal(g, row, column), diagonal, linalg_literal(g, x, 0)));
}

/* The same, symmetric. */
static compute_node linalg_graded(compute_graph *g, compute_node x) {
  const compute_node y = linalg_spread_out(g, x);
  return compute_add(g, y, linalg_turned(g, y));
}

/* Q above R; complete: R, because further columns of Q may be any. */
static compute_node linalg_qr_parts(compute_graph *g, compute_node a, bool complete) {
  compute_node r;
  const compute_node q = compute_qr(g, a, complete, &r, NULL);
  if (complete) return r;
  return compute_concat(g, (const compute_node[]){q, r}, 2, compute_node_shape(g, q).rank - 2);
}

/* V √(w² + 1) Vᵀ */
static compute_node linalg_eigh_function(compute_graph *g, compute_node a) {
  compute_node v;
  const compute_node w = compute_eigh(g, a, &v, NULL);
  compute_shape shape = compute_node_shape(g, w);
  shape.size[shape.rank] = shape.rank > 0 ? shape.size[shape.rank - 1] : 0;
  if (shape.rank > 0) shape.size[shape.rank++ - 1] = 1;
  const compute_node f =
      compute_sqrt(g, compute_add(g, compute_square(g, w), linalg_literal(g, w, 1)));
  return compute_matmul(g, compute_mul(g, v, compute_reshape(g, f, shape)), linalg_turned(g, v));
}

/* U √(S + 1) Vᵀ */
static compute_node linalg_svd_function(compute_graph *g, compute_node a) {
  compute_node s, vt;
  const compute_node u = compute_svd(g, a, false, &s, &vt, NULL);
  compute_shape shape = compute_node_shape(g, s);
  shape.size[shape.rank] = shape.rank > 0 ? shape.size[shape.rank - 1] : 0;
  if (shape.rank > 0) shape.size[shape.rank++ - 1] = 1;
  const compute_node f = compute_sqrt(g, compute_add(g, s, linalg_literal(g, s, 1)));
  return compute_matmul(g, compute_mul(g, u, compute_reshape(g, f, shape)), vt);
}

#endif
