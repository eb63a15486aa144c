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

#endif
