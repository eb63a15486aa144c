/* SPDX-License-Identifier: MIT */
/* Reverse-mode gradients as graph nodes.
 *
 * compute_gradients walks from the loss back to the requested nodes. For each operation on the way
 * it calls one rule. A rule adds nodes that turn d(loss)/d(result) into d(loss)/d(operand). Its
 * name is gradient_<rule>, after the gradient column of ops.def. Rules use ordinary builders, so
 * second derivatives work automatically.
 *
 * For f16 and bf16, rules compute in f32 (`work`), and the sum is rounded once, at the end. So a
 * constant like sqrt(2/pi) is not rounded to eight bits. The casts are fused. */
#ifndef GRAPH_GRADIENT_H
#define GRAPH_GRADIENT_H

#include "graph/node/graph.h"

/* One output of a walk, and the gradient that it starts with; {0}: ones. */
typedef struct gradient_seed {
  uint32_t output;
  compute_node upstream;
} gradient_seed;

/* State of one walk over the nodes 0 … last. Repeated nodes of a checkpoint come after them. */
typedef struct gradient_walk {
  const gradient_seed *seeds;
  size_t seed_count;
  size_t last;            /* the last output */
  size_t capacity;        /* of the following two */
  bool *wanted;           /* depends on some of[i] */
  compute_node *gradient; /* {0} until the first contribution */
  bool *requested;        /* is some of[i]; NULL without checkpoints */
  uint32_t *again;        /* 1 + the repetition of a node, while a checkpoint is passed, or NULL */
  uint32_t *path;         /* how the outputs depend on it; NULL until needed */
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

/* Operand number `index`, without a cast. */
compute_node gradient_operand(const gradient_step *step, uint32_t index);

/* True if the gradient of an operand is needed. */
bool gradient_wanted(const gradient_step *step, uint32_t index);

/* Adds `part` to an operand's gradient, summed over broadcast axes and cast to the operand's
 * dtype. */
void gradient_give(gradient_step *step, uint32_t index, compute_node part);

/* x in the dtype to calculate in; a constant in that dtype. */
compute_node gradient_widen(const gradient_step *step, compute_node x);
compute_node gradient_number(const gradient_step *step, double value);

/* True if a gradient may record `count` steps one by one; otherwise the graph fails. */
bool gradient_may_unroll(const gradient_step *step, int64_t count);

/* Records the gradients of the sum of all outputs times their seeds' upstream, for of[i], with
 * of[i]'s shape and dtype. Seeds and `of` are checked. The graph may get an error. */
void gradient_record(compute_graph *graph, const char *operation, const gradient_seed *seeds,
                     size_t seed_count, const uint32_t *of, size_t count, compute_node *gradients);

/* Checks nodes for `gradient_record`: they exist and are floats. `role` is their name in errors. */
bool gradient_check_nodes(compute_graph *graph, const char *operation, const char *role,
                          const compute_node *nodes, size_t count, uint32_t *indices);

/* Passes the gradient of node `index` to its operands by its rule. `node` is that node, or a copy
 * with other operands of the same values. */
void gradient_pass(compute_graph *graph, gradient_walk *walk, size_t index, const graph_node *node);

/* checkpoint.c: true if the node is a checkpoint whose stretch was repeated. The gradient then has
 * passed the repetition, and has reached the nodes that the stretch starts from. */
bool gradient_repeat(compute_graph *graph, gradient_walk *walk, size_t index);

/* network.c: records relu's gradient if it comes only from max pooling; otherwise returns false. */
bool gradient_pooled_relu(gradient_step *step);

/* Rules of composite formulas (graph.h). Operands are numbered as in the composite. */
gradient_rule gradient_whole_batch_norm;
gradient_rule gradient_whole_cross_entropy;
gradient_rule gradient_whole_call;
gradient_rule gradient_whole_gate;
gradient_rule gradient_whole_pseudo_inverse;

/* The rules, one declaration for each row of ops.def. gradient_NONE, for operations without a
 * gradient, is never called. */
#define ELEMENTWISE(name, arity, instruction, domain, result, gradient, ...)                       \
  gradient_rule gradient_##gradient;
#define SCALED(name, instruction, gradient, ...)          gradient_rule gradient_##gradient;
#define STRUCTURAL(name, category, domain, gradient, ...) gradient_rule gradient_##gradient;
#include "graph/ops.def"

#endif
