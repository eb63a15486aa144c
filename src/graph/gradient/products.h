/* SPDX-License-Identifier: MIT */
/* Shared by the derivatives of compute/derivatives.h. A function that returns false has set the
 * graph's error. */
#ifndef GRAPH_GRADIENT_PRODUCTS_H
#define GRAPH_GRADIENT_PRODUCTS_H

#include "graph/builders/build.h"
#include "graph/gradient/gradient.h"

/* One array of a caller, with its name in errors. */
typedef struct products_list {
  const char *name;
  const compute_node *nodes;
  size_t count;
} products_list;

/* True if no array with elements is NULL. */
bool products_check_lists(compute_graph *graph, const char *operation, const products_list *lists,
                          size_t count);

/* True if the loss is a float of one element. */
bool products_check_loss(compute_graph *graph, const char *operation, compute_node loss,
                         uint32_t *index);

/* A backward walk whose weights are new nodes, seeds[k].upstream. The gradients are linear in
 * them. */
bool products_free_weights(compute_graph *graph, const char *operation, gradient_seed *seeds,
                           size_t output_count, const uint32_t *of, size_t count,
                           compute_node *gradients);

/* The graph's status; after a failure all results become {0}. */
compute_status products_end(compute_graph *graph, compute_node *results, size_t count);

#endif
