/* Operations that a graph records in two forms: as a node, whose last operand is the same result
 * composed of other operations. A plan takes the node where its device has a kernel for it, and
 * that operand elsewhere; of the form that it does not take, nothing is captured. */
#ifndef PLAN_COMPOSED_H
#define PLAN_COMPOSED_H

#include "graph/graph.h"

static inline bool composed_is(const graph_node *node) {
  return node->op == OP_find_spots;
}

/* Whether the device takes the node as a kernel. NULL: no device does. */
bool composed_has_kernel(const compute_device *device, const compute_graph *graph,
                         const graph_node *node);

/* The operands that a plan for the device reads of a node: begin … end − 1. Of a node in two forms,
 * those of its kernel, or the composed form alone. */
typedef struct operand_range {
  uint32_t begin, end;
} operand_range;

static inline operand_range composed_operands(const compute_device *device,
                                              const compute_graph *graph, const graph_node *node) {
  const uint32_t count = node->input_count;
  if (!composed_is(node)) return (operand_range){0, count};
  return composed_has_kernel(device, graph, node) ? (operand_range){0, count - 1}
                                                  : (operand_range){count - 1, count};
}

#endif
