/* SPDX-License-Identifier: MIT */
/* Reverse-mode gradients as graph nodes.
 *
 * compute_gradients walks from the loss back to the requested nodes and calls one rule for each
 * operation on the way; a rule adds nodes that turn d(loss)/d(result) into d(loss)/d(operand).
 * Rules are named after the gradient column of ops.def, gradient_<rule>. They use ordinary
 * builders, so second derivatives work automatically.
 *
 * f16 and bf16: rules compute in f32 (`work`), and the sum is rounded once, at the end, so that
 * constants like sqrt(2/pi) are not rounded to eight bits. The casts are fused. */
#ifndef GRAPH_GRADIENT_H
#define GRAPH_GRADIENT_H

#include "graph/node/graph.h"

/* One call of compute_gradients: what is known about the nodes 0 … loss. */
typedef struct gradient_walk {
  size_t loss;
  bool *wanted;           /* depends on some of[i] */
  compute_node *gradient; /* {0} while there is none yet */
  uint32_t *path;         /* how the loss depends on it; NULL until needed */
} gradient_walk;

/* One operation on the way back. `node` is a copy, because the graph's array may move while the
 * rule adds nodes. */
typedef struct gradient_step {
  compute_graph *graph;
  gradient_walk *walk;
  graph_node node;
  compute_node result;
  compute_node upstream; /* d(loss)/d(result), of the result's shape and dtype */
  compute_dtype work;    /* the dtype to calculate in */
} gradient_step;

typedef void gradient_rule(gradient_step *step);

/* Operand number `index`, as it is. */
compute_node gradient_operand(const gradient_step *step, uint32_t index);

/* Whether the gradient of an operand is needed at all. */
bool gradient_wanted(const gradient_step *step, uint32_t index);

/* Adds `part` to the gradient of an operand: summed over broadcast axes, cast to its dtype. */
void gradient_give(gradient_step *step, uint32_t index, compute_node part);

/* x in the dtype to calculate in; a constant in it. */
compute_node gradient_widen(const gradient_step *step, compute_node x);
compute_node gradient_number(const gradient_step *step, double value);

/* Whether a gradient that records `count` steps one by one may do so; else the graph fails. */
bool gradient_may_unroll(const gradient_step *step, int64_t count);

/* network.c: relu's gradient if it comes only from max pooling; otherwise false. */
bool gradient_pooled_relu(gradient_step *step);

/* Rules of composite formulas (graph.h). Operands are numbered within the composite. */
gradient_rule gradient_whole_batch_norm;
gradient_rule gradient_whole_cross_entropy;
gradient_rule gradient_whole_call;

/* The rules: one declaration for each row of ops.def. gradient_NONE, for operations without a
 * gradient, is never called. */
#define ELEMENTWISE(name, arity, instruction, domain, result, gradient, ...)                       \
  gradient_rule gradient_##gradient;
#define SCALED(name, instruction, gradient, ...)          gradient_rule gradient_##gradient;
#define STRUCTURAL(name, category, domain, gradient, ...) gradient_rule gradient_##gradient;
#include "graph/ops.def"

#endif
