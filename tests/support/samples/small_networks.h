/* SPDX-License-Identifier: MIT */
/* Three networks of a few layers: dense, convolutions, and a block of a transformer. They make
 * their weights, some of them frozen, on the default device of the graph's context. */
#ifndef SUPPORT_SMALL_NETWORKS_H
#define SUPPORT_SMALL_NETWORKS_H

#include "compute/compute.h"

typedef struct small_network {
  const char *name;
  compute_node (*build)(compute_graph *graph, const compute_node *x, const void *user);
  compute_shape item; /* axis 0 has the items */
} small_network;

/* The network at `index`, or NULL past the end. */
const small_network *small_network_at(size_t index);

#endif
