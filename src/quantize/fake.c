/* SPDX-License-Identifier: MIT */
/* Quantization in training: a composition of operations.
 *
 * The result is round(v) for v = x / scale + zero within its limits, but with the gradient of v. A
 * rounding has no gradient, so round(v) + (v − w) has it if w equals v and has none. w is v rounded
 * to a multiple of 2⁻¹¹⁰, which changes no v of 2⁻⁸⁷ and more. */
#include "compute/quantize.h"

#include <math.h>

#include "core/base/float_environment.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"

/* Limits beyond these would overflow when scaled by 2¹¹⁰. */
#define LARGEST_LIMIT 65536.0

compute_node compute_fake_quantize(compute_graph *graph, compute_node x, compute_node scale,
                                   compute_node zero, double low, double high) {
  static const char operation[] = "fake_quantize";
  FLOAT_ENVIRONMENT_DEFAULT;
  if (!(low < high) || fabs(low) > LARGEST_LIMIT || fabs(high) > LARGEST_LIMIT)
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                      "the limits %g and %g are not in order, or beyond 65536", low, high);
  if (compute_node_dtype(graph, x) != COMPUTE_F32 ||
      compute_node_dtype(graph, scale) != COMPUTE_F32 ||
      compute_node_dtype(graph, zero) != COMPUTE_F32)
    return graph_fail(graph, COMPUTE_ERROR_DTYPE, operation, "x, scale and zero are not all f32");
  const compute_shape shape = compute_node_shape(graph, x);
  compute_shape with_scale, with_zero;
  if (shape_broadcast(shape, compute_node_shape(graph, scale), &with_scale) &&
      shape_broadcast(shape, compute_node_shape(graph, zero), &with_zero) &&
      !(compute_shape_equal(with_scale, shape) && compute_shape_equal(with_zero, shape)))
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "scale or zero do not broadcast to the shape of x");
  const compute_node fine = compute_scalar(graph, COMPUTE_F32, 0x1p110);
  compute_node v = compute_add(graph, compute_div(graph, x, scale), zero);
  v = compute_clamp(graph, v, low, high);
  const compute_node fixed =
      compute_div(graph, compute_round(graph, compute_mul(graph, v, fine)), fine);
  const compute_node whole =
      compute_add(graph, compute_round(graph, v), compute_sub(graph, v, fixed));
  return compute_mul(graph, compute_sub(graph, whole, zero), scale);
}
