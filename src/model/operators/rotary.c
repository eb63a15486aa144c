/* SPDX-License-Identifier: MIT */
/* Rotary embeddings: pairs of elements are rotated by angles that grow with the position. */
#include <inttypes.h>

#include "core/type/shape.h"
#include "model/operators/attention.h"
#include "model/operators/op.h"
#include "model/operators/operators.h"

/* Reshapes angles [batch or 1, length, half] to broadcast over the heads. */
static compute_node for_heads(model_call *call, compute_node angles, compute_dtype dtype) {
  const compute_shape s = compute_node_shape(call->graph, angles);
  return op_cast(call,
                 compute_reshape(call->graph, angles,
                                 COMPUTE_SHAPE(shape_at(s, 0), 1, shape_at(s, 1), shape_at(s, 2))),
                 dtype);
}

compute_status attention_rotate(model_call *call, compute_node cosines, compute_node sines,
                                int64_t width, bool interleaved, compute_node *x) {
  compute_graph *graph = call->graph;
  const compute_shape shape = compute_node_shape(graph, *x);
  const compute_shape angles = compute_node_shape(graph, cosines);
  const int64_t half = width / 2;
  if (compute_graph_status(graph)) return COMPUTE_OK; /* reported after the rule */
  if (shape.rank != 4 || width < 2 || width % 2 != 0 || width > shape_at(shape, 3) ||
      angles.rank != 3 || shape_at(angles, 2) != half)
    return call_fail(call, COMPUTE_ERROR_SHAPE,
                     "its cosines do not fit %" PRId64 " turned elements of %" PRId64, width,
                     shape.rank == 4 ? shape_at(shape, 3) : 0);
  const compute_dtype dtype = compute_node_dtype(graph, *x);
  const compute_node c = for_heads(call, cosines, dtype), s = for_heads(call, sines, dtype);
  *x = part_rotate(graph, *x, c, s, interleaved);
  return COMPUTE_OK;
}

/* Rotates input 0, [batch, length, heads · width] or with four axes, and sets the output. */
static compute_status rotate_input(model_call *call, compute_node cosines, compute_node sines,
                                   int64_t heads) {
  const bool flat = call_shape(call, 0).rank == 3;
  compute_node x = call_input(call, 0);
  compute_status status = COMPUTE_OK;
  if (flat) status = attention_split(call, x, heads, &x);
  if (status) return status;
  int64_t width = call_attribute_i(call, "rotary_embedding_dim", 0);
  if (width == 0) width = shape_at(compute_node_shape(call->graph, x), 3);
  status = attention_rotate(call, cosines, sines, width,
                            call_attribute_i(call, "interleaved", 0) != 0, &x);
  return status ? status : call_output(call, 0, flat ? attention_join(call, x) : x);
}

static compute_status rotary_rule(model_call *call) {
  compute_node cosines = call_input(call, 1), sines = call_input(call, 2);
  if (call_has(call, 3)) {
    const compute_node places = call_input(call, 3);
    cosines = compute_gather(call->graph, cosines, places, 0);
    sines = compute_gather(call->graph, sines, places, 0);
  }
  return rotate_input(call, cosines, sines, call_attribute_i(call, "num_heads", 0));
}

/* Positions: one for each element, or the first position of all sequences. */
static compute_status runtime_rotary_rule(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_shape x = call_shape(call, 0), caches = call_shape(call, 2);
  compute_node places = op_cast(call, call_input(call, 1), COMPUTE_I64);
  int64_t heads = call_attribute_i(call, "num_heads", 0);
  const double scale = call_attribute_f(call, "scale", 1);
  if (call_attribute_i(call, "is_packed_batching", 0) != 0 || scale != 1)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "is_packed_batching and scale are not known");
  if (caches.rank != 2 || x.rank < 3)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "its input or cosines have too few axes");
  if (heads == 0 && x.rank == 3 && shape_at(caches, 1) > 0)
    heads = shape_at(x, 2) / 2 / shape_at(caches, 1);
  if (call_shape(call, 1).rank < 2) {
    const compute_shape row = COMPUTE_SHAPE(1, shape_at(x, x.rank == 3 ? 1 : 2));
    places = compute_add(graph, compute_index(graph, COMPUTE_I64, row, 1),
                         compute_reshape(graph, places, COMPUTE_SHAPE(1, 1)));
  }
  return rotate_input(call, compute_gather(graph, call_input(call, 2), places, 0),
                      compute_gather(graph, call_input(call, 3), places, 0), heads);
}

static const operator_row rows[] = {
    {"", "RotaryEmbedding", 23, rotary_rule},
    {"com.microsoft", "RotaryEmbedding", 1, runtime_rotary_rule},
};

const operator_family operators_rotary = OPERATOR_FAMILY(rows);
