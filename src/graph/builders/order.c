/* SPDX-License-Identifier: MIT */
/* Running sums, the largest elements along an axis, one-hot, attention. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"

compute_node compute_cumulative_sum(compute_graph *graph, compute_node x, int32_t axis,
                                    bool exclusive, bool reverse) {
  static const char operation[] = "cumulative_sum";
  uint32_t input;
  if (!build_operands(graph, operation, &x, 1, &input)) return BUILD_NONE;
  graph_node node = {.op = OP_cumulative_sum,
                     .dtype = build_at(graph, input)->dtype,
                     .shape = build_at(graph, input)->shape,
                     .attributes.exclusive = exclusive,
                     .attributes.reverse = reverse};
  if (!build_domain(graph, operation, DOMAIN_NUMBER, node.dtype) ||
      !build_axis(graph, operation, node.shape, axis, &node.attributes.axis)) {
    return BUILD_NONE;
  }
  return build_node(graph, operation, &node, &input, 1);
}

compute_node compute_top_k(compute_graph *graph, compute_node x, int64_t k, int32_t axis,
                           bool smallest, compute_node *positions) {
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "top_k";
  uint32_t input;
  if (positions) *positions = BUILD_NONE;
  if (!build_operands(graph, operation, &x, 1, &input)) return BUILD_NONE;
  graph_node node = {.op = OP_top_k,
                     .dtype = COMPUTE_I64,
                     .shape = build_at(graph, input)->shape,
                     .attributes.smallest = smallest};
  if (!build_domain(graph, operation, DOMAIN_ORDERED, build_at(graph, input)->dtype) ||
      !build_axis(graph, operation, node.shape, axis, &node.attributes.axis)) {
    return BUILD_NONE;
  }
  int64_t *size = &node.shape.size[node.attributes.axis];
  if (k < 0 || k > *size) {
    char text[BUILD_TEXT];
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "k is %" PRId64 "; along axis %d of x %s it must be 0 … %" PRId64, k,
                      (int)node.attributes.axis,
                      compute_shape_text(build_at(graph, input)->shape, text, sizeof text), *size);
  }
  *size = k;
  const int32_t from_zero = node.attributes.axis;
  const compute_node places = build_node(graph, operation, &node, &input, 1);
  const compute_node values = compute_gather_elements(graph, x, places, from_zero);
  if (graph->status) return BUILD_NONE;
  if (positions) *positions = places;
  return values;
}

compute_node compute_one_hot(compute_graph *graph, compute_node labels, int64_t classes,
                             compute_dtype dtype) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "one_hot";
  uint32_t input;
  if (!build_operands(graph, operation, &labels, 1, &input) ||
      !build_dtype(graph, operation, dtype)) {
    return BUILD_NONE;
  }
  const compute_dtype index = build_at(graph, input)->dtype;
  compute_shape shape = build_at(graph, input)->shape;
  char text[BUILD_TEXT];
  compute_shape_text(shape, text, sizeof text);
  if (index != COMPUTE_I32 && index != COMPUTE_I64) {
    return graph_fail(graph, COMPUTE_ERROR_DTYPE, operation,
                      "labels are %s; they must be i32 or i64", compute_dtype_name(index));
  }
  if (classes < 1 || (index == COMPUTE_I32 && classes > INT32_MAX)) {
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                      "%" PRId64 " classes for labels in %s; there must be at least 1, and no more "
                      "than the labels' dtype can represent",
                      classes, compute_dtype_name(index));
  }
  if (shape.rank == COMPUTE_MAX_RANK) {
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "labels %s have %d axes, which leaves none for the classes", text,
                      (int)shape.rank);
  }
  shape.size[shape.rank++] = classes;
  if (!build_size(graph, operation, shape)) return BUILD_NONE;
  shape.size[shape.rank - 1] = 1;
  compute_node column = compute_reshape(graph, labels, shape);
  shape.size[shape.rank - 1] = classes;
  compute_node number = compute_index(graph, index, shape, shape.rank - 1);
  compute_node hit = compute_equal(graph, number, column);
  return dtype == COMPUTE_BOOL ? hit : compute_cast(graph, hit, dtype);
}

/* ---- Attention ------------------------------------------------------------------------------- */

typedef struct attention_call {
  compute_graph *graph;
  const char *operation;
  uint32_t inputs[4];
  char text[4][BUILD_TEXT];
  compute_attention_attributes geometry;
  compute_shape result;
} attention_call;

static bool fail_shapes(const attention_call *call, const char *what) {
  return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, call->operation,
                      "%s: q %s, k %s and v %s must be [...,queries,width], [...,keys,width] and "
                      "[...,keys,columns]",
                      what, call->text[0], call->text[1], call->text[2]);
}

/* Checks q, k and v: leading axes broadcast, and the last two are matrices. */
static bool check_matrices(attention_call *call) {
  compute_shape shape[3], batch;
  for (int i = 0; i < 3; i++) {
    shape[i] = build_at(call->graph, call->inputs[i])->shape;
    if (shape[i].rank < 2) return fail_shapes(call, "too few axes");
  }
  const int64_t queries = shape[0].size[shape[0].rank - 2];
  call->geometry.width = shape[0].size[shape[0].rank - 1];
  call->geometry.keys = shape[1].size[shape[1].rank - 2];
  if (shape[1].size[shape[1].rank - 1] != call->geometry.width)
    return fail_shapes(call, "the widths of q and k differ");
  if (shape[2].size[shape[2].rank - 2] != call->geometry.keys)
    return fail_shapes(call, "k and v have different numbers of keys");
  const int64_t columns = shape[2].size[shape[2].rank - 1];
  for (int i = 0; i < 3; i++) shape[i].rank -= 2;
  if (!shape_broadcast(shape[0], shape[1], &batch) || !shape_broadcast(batch, shape[2], &batch))
    return fail_shapes(call, "leading axes do not broadcast");
  call->result = batch;
  call->result.size[call->result.rank++] = queries;
  call->result.size[call->result.rank++] = columns;
  return true;
}

/* The number of scores must fit, although they are never stored. The bias must broadcast to the
 * scores without enlarging them. */
static bool check_scores(attention_call *call) {
  compute_shape scores = call->result, both;
  char text[BUILD_TEXT];
  scores.size[scores.rank - 1] = call->geometry.keys;
  if (!build_size(call->graph, call->operation, scores)) return false;
  if (!call->geometry.biased) return true;
  const compute_shape bias = build_at(call->graph, call->inputs[3])->shape;
  if (shape_broadcast(bias, scores, &both) && compute_shape_equal(both, scores)) return true;
  return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, call->operation,
                      "the bias %s does not broadcast to the scores %s", call->text[3],
                      compute_shape_text(scores, text, sizeof text));
}

static bool read_attention(attention_call *call, const compute_attention_options *o,
                           const compute_node *operands, size_t count) {
  if (!build_operands(call->graph, call->operation, operands, count, call->inputs)) return false;
  const compute_dtype dtype = build_at(call->graph, call->inputs[0])->dtype;
  if (!build_domain(call->graph, call->operation, DOMAIN_FLOAT, dtype) ||
      !graph_check_reserved(call->graph, call->operation, "options", o->reserved)) {
    return false;
  }
  for (size_t i = 0; i < count; i++) {
    const graph_node *node = build_at(call->graph, call->inputs[i]);
    compute_shape_text(node->shape, call->text[i], sizeof call->text[i]);
    if (!build_same_dtype(call->graph, call->operation, dtype, node->dtype)) return false;
  }
  const uint64_t known = COMPUTE_ATTENTION_FORMULA | COMPUTE_ATTENTION_ZERO_WEIGHTS;
  if ((o->flags & ~known) || o->flags == COMPUTE_ATTENTION_ZERO_WEIGHTS) {
    return graph_refuse(call->graph, COMPUTE_ERROR_INVALID_ARGUMENT, call->operation,
                        "flags is 0x%" PRIx64 "; ZERO_WEIGHTS needs FORMULA", o->flags);
  }
  if (!isfinite(o->scale)) {
    return graph_refuse(call->graph, COMPUTE_ERROR_INVALID_ARGUMENT, call->operation,
                        "scale is %g; it must be finite (0 means 1 / sqrt(width))", o->scale);
  }
  return build_number(call->graph, call->operation, "scale", dtype_compute_type(dtype), o->scale) &&
         check_matrices(call) && check_scores(call);
}

compute_node compute_scaled_attention(compute_graph *graph, compute_node q, compute_node k,
                                      compute_node v, const compute_attention_options *options) {
  FLOAT_ENVIRONMENT_DEFAULT;
  static const compute_attention_options usual;
  const compute_attention_options *o = options ? options : &usual;
  attention_call call = {.graph = graph, .operation = "scaled_attention"};
  const compute_node operands[4] = {q, k, v, o->bias};
  const size_t count = o->bias.id != 0 || o->bias.graph != 0 ? 4 : 3;
  memset(&call.geometry, 0, sizeof call.geometry); /* compared as bytes */
  call.geometry.biased = count == 4;
  call.geometry.causal = o->causal;
  call.geometry.formula = (o->flags & COMPUTE_ATTENTION_FORMULA) != 0;
  call.geometry.zero_weights = (o->flags & COMPUTE_ATTENTION_ZERO_WEIGHTS) != 0;
  if (!read_attention(&call, o, operands, count)) return BUILD_NONE;
  const int64_t width = call.geometry.width;
  call.geometry.scale = o->scale != 0 ? o->scale : width > 0 ? 1 / sqrt((double)width) : 1;
  graph_node node = {.op = OP_scaled_attention,
                     .dtype = build_at(graph, call.inputs[0])->dtype,
                     .shape = call.result,
                     .constant = graph_constant_create(1, sizeof call.geometry)};
  if (!node.constant)
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, call.operation,
                      "not enough memory for a node");
  memcpy(node.constant, &call.geometry, sizeof call.geometry);
  return build_node(graph, call.operation, &node, call.inputs, count);
}
