/* SPDX-License-Identifier: MIT */
/* The gradient of Fourier transforms: the adjoint, a transform in the other direction. */
#include "core/type/shape.h"
#include "graph/builders/fourier.h"
#include "graph/gradient/gradient.h"

/* `half` stands for two points of the spectrum, except at its ends: `inner`, elsewhere 1. */
static compute_node weigh(const gradient_step *s, compute_node half, int64_t length, double inner) {
  compute_graph *graph = s->graph;
  const compute_shape shape = compute_node_shape(graph, half);
  const compute_dtype dtype = compute_node_dtype(graph, half);
  const int32_t axis = s->node.attributes.axis;
  const compute_shape along = COMPUTE_SHAPE(shape_at(shape, axis));
  const compute_node at = compute_index(graph, COMPUTE_I64, along, 0);
  compute_node ends = compute_equal(graph, at, compute_scalar_i64(graph, COMPUTE_I64, 0));
  if (length % 2 == 0)
    ends = compute_logical_or(
        graph, ends, compute_equal(graph, at, compute_scalar_i64(graph, COMPUTE_I64, length / 2)));
  const compute_node weight = compute_select(graph, ends, compute_scalar(graph, dtype, 1),
                                             compute_scalar(graph, dtype, inner));
  return compute_mul(graph, half, network_along(graph, weight, axis, shape.rank));
}

void gradient_fourier(gradient_step *s) {
  const compute_fourier_attributes *a = s->node.constant;
  const compute_fourier_attributes own = *a;
  compute_fourier_attributes back = {
      .length = own.length, .scale = own.scale, .inverse = !own.inverse};
  const int32_t axis = s->node.attributes.axis;
  compute_node g = s->upstream;
  if (own.real) {
    back.halved = true;
    g = weigh(s, g, own.length, 0.5);
  }
  if (own.halved) back.real = true;
  g = build_fourier(s->graph, "gradients", g, axis, &back, own.points);
  if (own.halved) g = weigh(s, g, own.length, 2);
  gradient_give(s, 0, g);
}
