/* SPDX-License-Identifier: MIT */
/* The gradient of counting with weights. */
#include "graph/builders/build.h"
#include "graph/gradient/gradient.h"

/* Each weight gets the gradient of its bin. */
void gradient_bincount(gradient_step *s) {
  if (s->node.input_count < 2) return;
  gradient_give(s, 1,
                build_gather_elements(s->graph, s->upstream, gradient_operand(s, 0),
                                      s->node.attributes.axis, true));
}
