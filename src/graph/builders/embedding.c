/* SPDX-License-Identifier: MIT */
/* Normalisations by the root mean square and over groups of channels, and rotary embeddings. */
#include <inttypes.h>

#include "compute/graph_array.h"
#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "graph/builders/parts.h"

/* ---- Normalisations -------------------------------------------------------------------------- */

/* True if the vector is omitted, or has x's dtype and `size` elements. */
static bool check_gain(compute_graph *graph, const char *operation, const char *name,
                       compute_dtype dtype, compute_node vector, int64_t size) {
  uint32_t input;
  char text[BUILD_TEXT];
  if (!network_given(vector)) return true;
  if (!build_operands(graph, operation, &vector, 1, &input) ||
      !build_same_dtype(graph, operation, dtype, build_at(graph, input)->dtype))
    return false;
  const compute_shape shape = build_at(graph, input)->shape;
  if (shape.rank == 1 && shape_at(shape, 0) == size) return true;
  return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                      "the %s %s must have %" PRId64 " elements", name,
                      compute_shape_text(shape, text, sizeof text), size);
}

compute_node compute_rms_norm(compute_graph *graph, compute_node x, compute_node gain,
                              double epsilon) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "rms_norm";
  uint32_t input;
  if (!build_composed(graph, COMPOSITION_rms_norm, &x, 1, &input)) return BUILD_NONE;
  const compute_dtype dtype = build_at(graph, input)->dtype;
  const compute_shape shape = build_at(graph, input)->shape;
  if (!build_epsilon(graph, operation, part_wide_dtype(dtype), epsilon)) return BUILD_NONE;
  if (shape.rank < 1) return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation, "x is a scalar");
  if (!check_gain(graph, operation, "gain", dtype, gain, shape_at(shape, shape.rank - 1)))
    return BUILD_NONE;
  if (shape_count(shape) == 0) return build_same(graph, x);
  const compute_node wide = part_wide(graph, x);
  const compute_axes axes = part_axes(shape.rank - 1, shape.rank);
  compute_node y = compute_mul(graph, wide, part_inverse_root(graph, wide, axes, epsilon));
  if (network_given(gain)) y = compute_mul(graph, y, part_wide(graph, gain));
  return part_cast(graph, y, dtype);
}

compute_node compute_group_norm(compute_graph *graph, compute_node x, int64_t groups,
                                compute_node gain, compute_node bias, double epsilon) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "group_norm";
  uint32_t input;
  char text[BUILD_TEXT];
  if (!build_composed(graph, COMPOSITION_group_norm, &x, 1, &input)) return BUILD_NONE;
  const compute_dtype dtype = build_at(graph, input)->dtype;
  const compute_shape shape = build_at(graph, input)->shape;
  compute_shape_text(shape, text, sizeof text);
  if (!build_epsilon(graph, operation, part_wide_dtype(dtype), epsilon)) return BUILD_NONE;
  if (shape.rank < 2)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation, "x %s has no axis of channels", text);
  const int64_t channels = shape_at(shape, 1);
  if (groups < 1 || channels % groups != 0)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "%" PRId64 " groups do not divide the %" PRId64 " channels of x %s", groups,
                      channels, text);
  if (!check_gain(graph, operation, "gain", dtype, gain, channels) ||
      !check_gain(graph, operation, "bias", dtype, bias, channels))
    return BUILD_NONE;
  if (shape_count(shape) == 0) return build_same(graph, x);
  compute_node y = part_normalize_groups(graph, x, groups, epsilon);
  if (network_given(gain)) y = compute_mul(graph, y, network_along(graph, gain, 1, shape.rank));
  if (network_given(bias)) y = compute_add(graph, y, network_along(graph, bias, 1, shape.rank));
  return y;
}

/* ---- Rotary embedding ------------------------------------------------------------------------ */

/* Joins elements as pairs of neighbours, or as two halves. */
static compute_node join_pairs(compute_graph *graph, compute_node real, compute_node imaginary,
                               bool interleaved) {
  compute_shape shape = compute_node_shape(graph, real);
  const int32_t last = shape.rank - 1;
  if (!interleaved) return compute_concat(graph, (const compute_node[]){real, imaginary}, 2, last);
  const int64_t rows = part_count(shape, 0, last), half = shape_at(shape, last);
  const compute_node parts[2] = {compute_reshape(graph, real, COMPUTE_SHAPE(rows, half, 1)),
                                 compute_reshape(graph, imaginary, COMPUTE_SHAPE(rows, half, 1))};
  shape_set(&shape, last, 2 * half);
  return compute_reshape(graph, compute_concat(graph, parts, 2, 2), shape);
}

compute_node part_rotate(compute_graph *graph, compute_node x, compute_node cosines,
                         compute_node sines, bool interleaved) {
  const compute_shape shape = compute_node_shape(graph, x);
  const compute_shape angles = compute_node_shape(graph, cosines);
  const int32_t last = shape.rank - 1;
  if (graph->status) return BUILD_NONE;
  const int64_t half = shape_at(angles, angles.rank - 1), size = shape_at(shape, last);
  const int64_t step = interleaved ? 2 : 1;
  const compute_node a = compute_slice(graph, x, last, 0, half, step);
  const compute_node b = compute_slice(graph, x, last, interleaved ? 1 : half, half, step);
  const compute_node real =
      compute_sub(graph, compute_mul(graph, cosines, a), compute_mul(graph, sines, b));
  const compute_node imaginary =
      compute_add(graph, compute_mul(graph, sines, a), compute_mul(graph, cosines, b));
  const compute_node turned = join_pairs(graph, real, imaginary, interleaved);
  if (2 * half == size) return turned;
  const compute_node parts[2] = {turned,
                                 compute_slice(graph, x, last, 2 * half, size - 2 * half, 1)};
  return compute_concat(graph, parts, 2, last);
}

compute_node compute_rotary_embedding(compute_graph *graph, compute_node x, compute_node cosines,
                                      compute_node sines, bool interleaved) {
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "rotary_embedding";
  uint32_t inputs[3];
  char text[3][BUILD_TEXT];
  const compute_node operands[3] = {x, cosines, sines};
  if (!build_composed(graph, COMPOSITION_rotary_embedding, operands, 3, inputs)) return BUILD_NONE;
  compute_shape shapes[3], part, wide;
  for (int i = 0; i < 3; i++) {
    shapes[i] = build_at(graph, inputs[i])->shape;
    compute_shape_text(shapes[i], text[i], sizeof text[i]);
  }
  const int32_t rank = shapes[0].rank, own = shapes[1].rank;
  if (rank < 1 || own < 1 || own > rank || !compute_shape_equal(shapes[1], shapes[2]) ||
      shape_at(shapes[1], own - 1) < 1 ||
      shape_at(shapes[1], own - 1) > shape_at(shapes[0], rank - 1) / 2)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "cosines %s and sines %s must have the same shape, with at most half of the "
                      "last axis of x %s",
                      text[1], text[2], text[0]);
  part = shapes[0];
  shape_set(&part, rank - 1, shape_at(shapes[1], own - 1));
  if (!shape_broadcast(part, shapes[1], &wide) || !compute_shape_equal(part, wide))
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation, "cosines %s do not broadcast to x %s",
                      text[1], text[0]);
  return part_rotate(graph, x, cosines, sines, interleaved);
}
