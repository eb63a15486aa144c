/* Builders that are made of others: layer norm and the losses. They check under their own
 * name what would otherwise be reported under the name of a part. */
#include "graph/build/build.h"

#include "type/dtype.h"
#include "type/shape.h"

/* Whether gain or bias has the dtype of x and the size of its last axis. */
static bool fits_last_axis(compute_graph *graph, const char *operation, const char *what,
                           compute_node x, compute_node vector) {
  uint32_t inputs[2];
  if (!build_operands(graph, operation, (const compute_node[]){x, vector}, 2, inputs)) return false;
  const graph_node *to = build_at(graph, inputs[0]), *from = build_at(graph, inputs[1]);
  if (!build_same_dtype(graph, operation, to->dtype, from->dtype)) return false;
  const compute_shape shape = to->shape, given = from->shape;
  if (shape.rank > 0 && given.rank == 1 && given.size[0] == shape.size[shape.rank - 1]) return true;
  char a[BUILD_TEXT], b[BUILD_TEXT];
  graph_fail(graph, COMPUTE_ERROR_SHAPE, operation, "%s %s does not fit the last axis of %s", what,
             compute_shape_text(given, a, sizeof a), compute_shape_text(shape, b, sizeof b));
  return false;
}

compute_node compute_layer_norm(compute_graph *graph, compute_node x, compute_node gain,
                                compute_node bias, double epsilon) {
  BUILD_ALL_OR_NOTHING(graph);
  const char *operation = "layer_norm";
  uint32_t input;
  if (!build_operands(graph, operation, &x, 1, &input)) return BUILD_NONE;
  const compute_dtype dtype = build_at(graph, input)->dtype;
  if (!build_domain(graph, operation, DOMAIN_FLOAT, dtype) ||
      !build_epsilon(graph, operation, dtype_compute_type(dtype), epsilon)) {
    return BUILD_NONE;
  }
  const bool has_gain = gain.id || gain.graph, has_bias = bias.id || bias.graph;
  if ((has_gain && !fits_last_axis(graph, operation, "gain", x, gain)) ||
      (has_bias && !fits_last_axis(graph, operation, "bias", x, bias))) {
    return BUILD_NONE;
  }
  compute_node y = compute_normalize(graph, x, epsilon);
  if (has_gain) y = compute_mul(graph, y, gain);
  if (has_bias) y = compute_add(graph, y, bias);
  return y;
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
  if (scores->shape.rank != 2 || classes->shape.rank != 1 ||
      scores->shape.size[0] != classes->shape.size[0]) {
    char a[BUILD_TEXT], b[BUILD_TEXT];
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "needs logits [batch,classes] and labels [batch], not %s and %s",
                      compute_shape_text(scores->shape, a, sizeof a),
                      compute_shape_text(classes->shape, b, sizeof b));
  }
  const size_t first = graph->count;
  const int64_t batch = scores->shape.size[0];
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
  const char *operation = "mean_squared_error";
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
