/* SPDX-License-Identifier: MIT */
/* The double reference of the operations of neural networks, used by graph_evaluate.h. */
#ifndef SUPPORT_GRAPH_EVALUATE_NETWORK_H
#define SUPPORT_GRAPH_EVALUATE_NETWORK_H

#include "graph/node/graph.h"
#include "support/reference/graph_evaluate.h"

/* Computes `y` (zeros, of the node's shape) from the values `x` of the node's operands. Returns
 * false for other operations. */
bool evaluate_network(const graph_node *node, evaluate_value *const *x, evaluate_value *y);

#endif
