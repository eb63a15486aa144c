/* SPDX-License-Identifier: MIT */
/* Gradients of random numbers with respect to the parameters of their distribution. */
#include "graph/builders/build.h"
#include "graph/gradient/gradient.h"

/* d x / d limit = exp((x^2 − limit^2) / 2) · share, where the distribution function at x is kept:
 * u. The share is 1 − u for the lower limit, and u for the upper. */
static void give_limit(gradient_step *s, uint32_t index) {
  compute_graph *graph = s->graph;
  if (!gradient_wanted(s, index)) return;
  const compute_node u = gradient_operand(s, 0), limit = gradient_operand(s, index);
  const compute_node share = index == 1 ? compute_sub(graph, gradient_number(s, 1), u) : u;
  const compute_node squares = compute_mul(graph, compute_sub(graph, s->result, limit),
                                           compute_add(graph, s->result, limit));
  const compute_node density =
      compute_exp(graph, compute_mul(graph, squares, gradient_number(s, 0.5)));
  gradient_give(s, index, compute_mul(graph, s->upstream, compute_mul(graph, density, share)));
}

void gradient_random_draw(gradient_step *s) {
  switch ((compute_instruction_code)s->node.attributes.distribution) {
  case COMPUTE_I_DRAW_TRUNCATED_NORMAL:
    give_limit(s, 1);
    give_limit(s, 2);
    break;
  case COMPUTE_I_DRAW_GAMMA:
  case COMPUTE_I_DRAW_BETA:
    graph_fail(s->graph, COMPUTE_ERROR_NOT_DIFFERENTIABLE, "gradients",
               "%s numbers have no gradient for their parameters",
               s->node.attributes.distribution == COMPUTE_I_DRAW_BETA ? "beta" : "gamma");
    break;
  default: break; /* no parameters, or discrete numbers */
  }
}
