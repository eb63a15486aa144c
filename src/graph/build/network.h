/* What builders and gradient rules of convolution and pooling share: nodes whose geometry is in
 * their block (graph.h). */
#ifndef GRAPH_NETWORK_H
#define GRAPH_NETWORK_H

#include "compute/graph_nn.h"
#include "graph/build/build.h"

static inline const compute_conv_attributes *network_convolution(const graph_node *node) {
  return (const compute_conv_attributes *)node->constant;
}

static inline const compute_window_attributes *network_window(const graph_node *node) {
  return (const compute_window_attributes *)node->constant;
}

/* A node of a convolution with this geometry, in the direction that it says; a and b are the
 * factors of that direction (compute/backend.h), and fit it. */
compute_node network_convolve(compute_graph *graph, const char *operation,
                              const compute_conv_attributes *geometry, compute_node a,
                              compute_node b);

/* A node of pooling; `shape` is that of the result. b may be {0}. */
compute_node network_pool(compute_graph *graph, const char *operation,
                          const compute_window_attributes *geometry, compute_shape shape,
                          compute_node a, compute_node b);

/* Whether `reserved` fields are zero, with an error if not. */
bool network_reserved(compute_graph *graph, const char *operation, const uint64_t *reserved,
                      size_t count);

/* A vector [n] as it broadcasts to `rank` axes with its own at `axis`. */
compute_node network_along(compute_graph *graph, compute_node vector, int32_t axis, int32_t rank);

#endif
