/* SPDX-License-Identifier: MIT */
/* The gradient rule of products along axes. */
#include "core/type/shape.h"
#include "graph/builders/build.h"
#include "graph/gradient/gradient.h"

typedef compute_node node;
typedef gradient_step step;

/* x as a matrix with the reduced axes as its columns, and the way back. */
typedef struct flattened {
  compute_axes order, back; /* reduced axes last */
  compute_shape turned;     /* after `order` */
  int64_t rows, columns;
} flattened;

static flattened flatten(const step *s, compute_shape shape) {
  flattened f = {.order.count = shape.rank, .back.count = shape.rank, .rows = 1, .columns = 1};
  int32_t count = 0;
  for (int reduced = 0; reduced < 2; reduced++)
    for (int32_t i = 0; i < shape.rank; i++) {
      if ((int)(s->node.attributes.axes_mask >> i & 1u) != reduced) continue;
      int64_t *size = reduced ? &f.columns : &f.rows;
      *size *= shape_at(shape, i);
      shape_set(&f.turned, count, shape_at(shape, i));
      f.back.axis[i] = count;
      f.order.axis[count++] = i;
    }
  f.turned.rank = shape.rank;
  return f;
}

/* x with its columns moved `by` places to the right or left, and ones in place of those missing. */
static node shifted(compute_graph *graph, node x, const flattened *f, int64_t by, bool right) {
  const int64_t kept = f->columns - by;
  const node ones =
      compute_full(graph, compute_node_dtype(graph, x), COMPUTE_SHAPE(f->rows, by), 1);
  const node rest = compute_slice(graph, x, 1, right ? 0 : by, kept, 1);
  return compute_concat(graph, right ? (node[]){ones, rest} : (node[]){rest, ones}, 2, 1);
}

/* The product of all columns before each column, or after it. */
static node products_beside(compute_graph *graph, node x, const flattened *f, bool before) {
  node product = shifted(graph, x, f, 1, before);
  for (int64_t by = 1; by < f->columns && !graph->status; by *= 2)
    product = compute_mul(graph, product, shifted(graph, product, f, by, before));
  return product;
}

/* The products of the other elements without a division or condition. It takes 2 log₂ n passes, but
 * it has the right derivatives where elements are 0. */
static node others_by_parts(const step *s, node x) {
  compute_graph *graph = s->graph;
  const flattened f = flatten(s, compute_node_shape(graph, x));
  const node flat = compute_reshape(graph, compute_transpose(graph, x, f.order),
                                    COMPUTE_SHAPE(f.rows, f.columns));
  const node others = compute_mul(graph, products_beside(graph, flat, &f, true),
                                  products_beside(graph, flat, &f, false));
  return compute_transpose(graph, compute_reshape(graph, others, f.turned), f.back);
}

/* The reduced axes as a list, and a reduction's result with them as size 1. */
static compute_axes reduced_axes(const step *s) {
  compute_axes axes = {0};
  for (int32_t i = 0; i < COMPUTE_MAX_RANK; i++)
    if (s->node.attributes.axes_mask >> i & 1u) axes.axis[axes.count++] = i;
  return axes;
}

static node kept(const step *s, node reduced, compute_shape shape) {
  for (int32_t i = 0; i < shape.rank; i++)
    if (s->node.attributes.axes_mask >> i & 1u) shape_set(&shape, i, 1);
  return compute_reshape(s->graph, reduced, shape);
}

/* The product of the other elements. It is y / x if no element is 0. If exactly one is 0, that
 * element gets the product of the others, and the rest get 0. If several are 0, all get 0.
 * Derivatives of this pass through others_by_parts. */
void gradient_prod(step *s) {
  compute_graph *graph = s->graph;
  const compute_axes axes = reduced_axes(s);
  node x = gradient_widen(s, gradient_operand(s, 0)), zero = gradient_number(s, 0),
       one = gradient_number(s, 1);
  node is_zero = compute_equal(graph, x, zero);
  node zeros = compute_sum(graph, compute_cast(graph, is_zero, s->work), axes, true);
  node safe = compute_select(graph, is_zero, one, x);
  node product = compute_prod(graph, safe, axes, true);
  node at_zero = compute_select(graph, compute_equal(graph, zeros, one), product, zero);
  node elsewhere = compute_select(graph, compute_equal(graph, zeros, zero),
                                  compute_div(graph, product, safe), zero);
  const compute_shape shape = compute_node_shape(graph, x);
  node parts = shape_count(shape) > 0 ? others_by_parts(s, x) : BUILD_NONE;
  node others = compute_select(graph, is_zero, at_zero, elsewhere);
  if (compute_node_is_valid(parts)) build_whole(graph, others, WHOLE_GATE, &parts, 1);
  gradient_give(s, 0, compute_mul(graph, gradient_widen(s, kept(s, s->upstream, shape)), others));
}
