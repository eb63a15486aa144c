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

/* d ln x / d shape of a gamma number x, from parameter `index` and the uniform number. */
static compute_node shape_slope(gradient_step *s, uint32_t index, bool first) {
  compute_graph *graph = s->graph;
  uint32_t inputs[3];
  const compute_node operands[3] = {gradient_operand(s, 0), gradient_operand(s, index),
                                    gradient_number(s, first)};
  if (!build_operands(graph, "gradients", operands, 3, inputs)) return BUILD_NONE;
  const graph_node node = {.op = OP_random_draw,
                           .dtype = COMPUTE_F64,
                           .shape = s->node.shape,
                           .attributes.distribution = COMPUTE_I_DRAW_GAMMA_SLOPE};
  return build_node(graph, "gradients", &node, inputs, 3);
}

static void give_gamma(gradient_step *s) {
  if (!gradient_wanted(s, 1)) return;
  const compute_node upstream = compute_mul(s->graph, s->upstream, s->result);
  gradient_give(s, 1, compute_mul(s->graph, upstream, shape_slope(s, 1, false)));
}

/* A beta number is x / (x + y) of two gamma numbers. Each shape moves one of them. */
static void give_beta(gradient_step *s) {
  compute_graph *graph = s->graph;
  const compute_node rest = compute_sub(graph, gradient_number(s, 1), s->result);
  const compute_node both = compute_mul(graph, s->result, rest);
  const compute_node upstream = compute_mul(graph, s->upstream, both);
  if (gradient_wanted(s, 1))
    gradient_give(s, 1, compute_mul(graph, upstream, shape_slope(s, 1, true)));
  if (gradient_wanted(s, 2))
    gradient_give(s, 2, compute_neg(graph, compute_mul(graph, upstream, shape_slope(s, 2, false))));
}

void gradient_random_draw(gradient_step *s) {
  switch ((compute_instruction_code)s->node.attributes.distribution) {
  case COMPUTE_I_DRAW_TRUNCATED_NORMAL:
    give_limit(s, 1);
    give_limit(s, 2);
    break;
  case COMPUTE_I_DRAW_GAMMA: give_gamma(s); break;
  case COMPUTE_I_DRAW_BETA: give_beta(s); break;
  case COMPUTE_I_DRAW_GAMMA_SLOPE:
    graph_fail(s->graph, COMPUTE_ERROR_NOT_DIFFERENTIABLE, "gradients",
               "gamma and beta numbers have no second derivatives for their parameters");
    break;
  default: break; /* no parameters, or discrete numbers */
  }
}
