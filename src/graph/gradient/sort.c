/* SPDX-License-Identifier: MIT */
/* The gradient of sorting. */
#include "graph/builders/build.h"
#include "graph/gradient/gradient.h"

/* Each element's gradient goes back to the element's original place. */
void gradient_sort(gradient_step *s) {
  const compute_node x = gradient_operand(s, 0);
  const int32_t axis = s->node.attributes.axis;
  const compute_node places = compute_argsort(s->graph, x, axis, s->node.attributes.descending);
  gradient_give(s, 0,
                build_scatter_add_elements(s->graph, s->upstream, places, axis,
                                           compute_node_shape(s->graph, x), true));
}
