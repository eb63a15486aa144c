/* SPDX-License-Identifier: MIT */
/* Losses composed of other operations. */
#include <math.h>

#include "compute/graph_nn.h"
#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"

/* f16 and bf16 are computed in f32, and the mean is rounded once. */
static compute_node widen(compute_graph *graph, compute_node x, compute_dtype work) {
  return compute_node_dtype(graph, x) == work ? x : compute_cast(graph, x, work);
}

static compute_node mean_of(compute_graph *graph, compute_node x, compute_dtype dtype) {
  const compute_node mean = compute_mean(graph, x, COMPUTE_ALL_AXES, false);
  return widen(graph, mean, dtype);
}

static compute_node number(compute_graph *graph, compute_dtype dtype, double value) {
  return compute_scalar(graph, dtype, value);
}

compute_node compute_cross_entropy_smoothed(compute_graph *graph, compute_node logits,
                                            compute_node labels, double smoothing) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  static const graph_call call = {"cross_entropy_smoothed", "label", "labels", NULL};
  const char *operation = call.operation;
  uint32_t inputs[2];
  if (!build_operands(graph, operation, (const compute_node[]){logits, labels}, 2, inputs))
    return BUILD_NONE;
  if (!(smoothing >= 0 && smoothing <= 1)) {
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                      "smoothing is %g; it must lie in 0 … 1", smoothing);
  }
  const size_t first = graph->count;
  const compute_node plain = compute_cross_entropy(graph, logits, labels);
  if (smoothing == 0 || graph->status) return plain;
  const compute_dtype dtype = build_at(graph, inputs[0])->dtype, work = dtype_compute_type(dtype);
  /* One mean over samples and classes: each class receives its share of the smoothing. */
  const compute_node log_p = compute_log_softmax(graph, logits, -1);
  const compute_node even =
      compute_neg(graph, compute_mean(graph, widen(graph, log_p, work), COMPUTE_ALL_AXES, false));
  const compute_node sharp =
      compute_mul(graph, widen(graph, plain, work), number(graph, work, 1 - smoothing));
  const compute_node both =
      compute_add(graph, sharp, compute_mul(graph, even, number(graph, work, smoothing)));
  const compute_node loss = widen(graph, both, dtype);
  build_origin(graph, first, &(graph_origin){&call, loss.id - 1, inputs[1]});
  return loss;
}

/* True if a loss of two tensors can be built. Both must have the same float dtype. Their shapes
 * must broadcast, or be the same if `equal`. */
static bool check_pair(compute_graph *graph, const char *operation, compute_node a, compute_node b,
                       bool equal) {
  uint32_t inputs[2];
  if (!build_operands(graph, operation, (const compute_node[]){a, b}, 2, inputs)) return false;
  const graph_node *left = build_at(graph, inputs[0]), *right = build_at(graph, inputs[1]);
  if (!build_same_dtype(graph, operation, left->dtype, right->dtype) ||
      !build_domain(graph, operation, DOMAIN_FLOAT, left->dtype)) {
    return false;
  }
  compute_shape both;
  if (equal ? compute_shape_equal(left->shape, right->shape)
            : shape_broadcast(left->shape, right->shape, &both))
    return true;
  char a_text[BUILD_TEXT], b_text[BUILD_TEXT];
  return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation, "shapes %s and %s %s",
                      compute_shape_text(left->shape, a_text, sizeof a_text),
                      compute_shape_text(right->shape, b_text, sizeof b_text),
                      equal ? "must be the same" : "do not broadcast");
}

compute_node compute_binary_cross_entropy(compute_graph *graph, compute_node logits,
                                          compute_node targets) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  if (!check_pair(graph, "binary_cross_entropy", logits, targets, true)) return BUILD_NONE;
  const compute_dtype dtype = compute_node_dtype(graph, logits), work = dtype_compute_type(dtype);
  const compute_node x = widen(graph, logits, work), t = widen(graph, targets, work);
  /* max(x, 0) + log(1 + exp(−|x|)) is softplus, whose derivative is also smooth at 0. */
  const compute_node loss =
      compute_sub(graph, compute_softplus(graph, x), compute_mul(graph, x, t));
  return mean_of(graph, loss, dtype);
}

compute_node compute_huber(compute_graph *graph, compute_node a, compute_node b, double delta) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "huber";
  if (!check_pair(graph, operation, a, b, false)) return BUILD_NONE;
  if (!(isfinite(delta) && delta > 0)) {
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                      "delta is %g; it must be finite and larger than 0", delta);
  }
  const compute_dtype dtype = compute_node_dtype(graph, a), work = dtype_compute_type(dtype);
  if (!build_number(graph, operation, "delta", work, delta)) return BUILD_NONE;
  const compute_node error = compute_sub(graph, widen(graph, a, work), widen(graph, b, work));
  const compute_node size = compute_abs(graph, error);
  const compute_node near =
      compute_mul(graph, compute_square(graph, error), number(graph, work, 0.5));
  const compute_node far = compute_mul(
      graph, compute_sub(graph, size, number(graph, work, delta / 2)), number(graph, work, delta));
  const compute_node inside = compute_less(graph, size, number(graph, work, delta));
  return mean_of(graph, compute_select(graph, inside, near, far), dtype);
}

compute_node compute_cross_entropy(compute_graph *graph, compute_node logits, compute_node labels) {
  BUILD_ALL_OR_NOTHING(graph);
  static const graph_call call = {"cross_entropy", "label", "labels", NULL};
  const char *operation = call.operation;
  uint32_t inputs[2];
  if (!build_operands(graph, operation, (const compute_node[]){logits, labels}, 2, inputs)) {
    return BUILD_NONE;
  }
  const graph_node *scores = build_at(graph, inputs[0]), *classes = build_at(graph, inputs[1]);
  if (!build_domain(graph, operation, DOMAIN_FLOAT, scores->dtype)) return BUILD_NONE;
  if (classes->dtype != COMPUTE_I32 && classes->dtype != COMPUTE_I64) {
    return graph_fail(graph, COMPUTE_ERROR_DTYPE, operation,
                      "labels are %s; they must be i32 or i64", compute_dtype_name(classes->dtype));
  }
  compute_shape each = scores->shape;
  if (each.rank > 0) each.rank--;
  if (scores->shape.rank < 2 || !compute_shape_equal(each, classes->shape)) {
    char a[BUILD_TEXT], b[BUILD_TEXT];
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "needs logits [batch,…,classes] and labels [batch,…], not %s and %s",
                      compute_shape_text(scores->shape, a, sizeof a),
                      compute_shape_text(classes->shape, b, sizeof b));
  }
  const size_t first = graph->count;
  const int64_t batch = shape_count(each);
  if (each.rank > 1)
    logits = compute_reshape(graph, logits, COMPUTE_SHAPE(batch, scores->shape.size[each.rank]));
  compute_node column = compute_reshape(graph, labels, COMPUTE_SHAPE(batch, 1));
  compute_node log_p = compute_log_softmax(graph, logits, 1);
  compute_node chosen = build_gather_elements(graph, log_p, column, 1, true);
  compute_node loss = compute_neg(graph, compute_mean(graph, chosen, COMPUTE_ALL_AXES, false));
  build_whole(graph, loss, WHOLE_CROSS_ENTROPY,
              (const compute_node[]){logits, log_p, column, chosen}, 4);
  build_origin(graph, first, &(graph_origin){&call, loss.id - 1, inputs[1]});
  return loss;
}

compute_node compute_mean_squared_error(compute_graph *graph, compute_node a, compute_node b) {
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "mean_squared_error";
  uint32_t inputs[2];
  if (!build_operands(graph, operation, (const compute_node[]){a, b}, 2, inputs)) return BUILD_NONE;
  const graph_node *left = build_at(graph, inputs[0]), *right = build_at(graph, inputs[1]);
  if (!build_same_dtype(graph, operation, left->dtype, right->dtype) ||
      !build_domain(graph, operation, DOMAIN_FLOAT, left->dtype)) {
    return BUILD_NONE;
  }
  compute_shape both;
  if (!shape_broadcast(left->shape, right->shape, &both)) {
    char a_text[BUILD_TEXT], b_text[BUILD_TEXT];
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation, "shapes %s and %s do not broadcast",
                      compute_shape_text(left->shape, a_text, sizeof a_text),
                      compute_shape_text(right->shape, b_text, sizeof b_text));
  }
  compute_node error = compute_square(graph, compute_sub(graph, a, b));
  return compute_mean(graph, error, COMPUTE_ALL_AXES, false);
}
