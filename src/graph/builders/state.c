/* SPDX-License-Identifier: MIT */
/* Builders of assign and group. Both create nodes without a value. */
#include "graph/builders/build.h"

#include "core/base/alloc.h"
#include "core/tensor/tensor.h"

compute_node compute_assign(compute_graph *graph, compute_node parameter, compute_node value) {
  static const char operation[] = "assign";
  uint32_t inputs[2];
  if (!build_operands(graph, operation, (const compute_node[]){parameter, value}, 2, inputs)) {
    return BUILD_NONE;
  }
  const graph_node *to = build_at(graph, inputs[0]), *from = build_at(graph, inputs[1]);
  if (to->op != OP_parameter) {
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                      "the target is the result of %s, not a parameter",
                      graph_op_describe(to->op)->name);
  }
  if (to->tensor->read_only) {
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                      "the parameter's tensor is a broadcast view, which is read-only");
  }
  if (compute_tensor_is_frozen(to->tensor)) {
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                      "the parameter's tensor is frozen");
  }
  if (!build_same_dtype(graph, operation, to->dtype, from->dtype)) return BUILD_NONE;
  if (!compute_shape_equal(to->shape, from->shape)) {
    char a[BUILD_TEXT], b[BUILD_TEXT];
    return graph_fail(
        graph, COMPUTE_ERROR_SHAPE, operation, "a parameter %s cannot be assigned a value %s",
        compute_shape_text(to->shape, a, sizeof a), compute_shape_text(from->shape, b, sizeof b));
  }
  graph_node node = {.op = OP_assign};
  return build_node(graph, operation, &node, inputs, 2);
}

static bool is_call(const graph_node *node) {
  return node->op == OP_call || node->op == OP_call_result;
}

/* Collects the assignments below a group as targets and refuses repeated ones. Nodes are in
 * topological order, so a walk down from the highest index needs no recursion. pending[i] is set if
 * node i belongs to the group. A call may be listed twice, since it runs once. */
static bool check_targets(compute_graph *graph, const uint32_t *inputs, size_t count,
                          uint8_t *pending, build_target *targets) {
  size_t found = 0, first, second;
  for (size_t i = 0; i < count; i++) {
    if (!is_call(build_at(graph, inputs[i])) && pending[inputs[i]]++) goto twice;
  }
  for (size_t i = graph->count; i-- > 0;) {
    if (!pending[i]) continue;
    const graph_node *node = build_at(graph, (uint32_t)i);
    if (node->op == OP_assign) {
      targets[found].tensor = build_at(graph, node->inputs[0])->tensor;
      targets[found].number = found;
      found++;
      continue;
    }
    for (uint32_t k = 0; k < node->input_count; k++) {
      if (!is_call(build_at(graph, node->inputs[k])) && pending[node->inputs[k]]++) goto twice;
    }
  }
  if (!build_find_repeated(targets, found, &first, &second)) return true;
twice:
  return graph_refuse(graph, COMPUTE_ERROR_INVALID_ARGUMENT, "group",
                      "a parameter would be assigned twice in one run");
}

compute_node compute_group(compute_graph *graph, const compute_node *nodes, size_t count) {
  static const char operation[] = "group";
  if (!build_start(graph, operation)) return BUILD_NONE;
  if (!nodes) return graph_fail(graph, COMPUTE_ERROR_NULL_POINTER, operation, "nodes is NULL");
  if (count == 0) {
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "needs at least one node");
  }
  compute_node result = BUILD_NONE;
  uint32_t *inputs = base_allocate(count, sizeof *inputs);
  build_target *targets = base_allocate(graph->count, sizeof *targets);
  uint8_t *pending = base_allocate(graph->count, 1);
  if (!inputs || !targets || !pending) {
    graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "not enough memory for %zu nodes",
               count);
    goto done;
  }
  for (size_t i = 0; i < count; i++) {
    int64_t index = graph_resolve(graph, nodes[i], operation);
    if (index < 0) goto done;
    graph_op op = graph->nodes[index].op;
    if (op != OP_assign && op != OP_group && !is_call(&graph->nodes[index])) {
      graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                 "node %zu is %s; only assign, group and call can be grouped", i,
                 graph_op_describe(op)->name);
      goto done;
    }
    inputs[i] = (uint32_t)index;
  }
  if (!check_targets(graph, inputs, count, pending, targets)) goto done;
  graph_node node = {.op = OP_group};
  result = build_node(graph, operation, &node, inputs, count);
done:
  base_release(pending);
  base_release(targets);
  base_release(inputs);
  return result;
}
