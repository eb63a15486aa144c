/* SPDX-License-Identifier: MIT */
/* Fusion: decides which nodes become one kernel.
 *
 * A cluster is one kernel. It has an optional anchor (matrix product, reduction, row operation,
 * convolution, pooling), elementwise nodes that feed the anchor (prologue; only of reductions and
 * row operations) and elementwise nodes that follow it (body). The root is the cluster's last node.
 *
 * Clusters run in the order of their roots. Every choice below keeps this order valid: a value that
 * leaves its cluster is read only by nodes after the cluster's root. */
#ifndef PLAN_FUSE_H
#define PLAN_FUSE_H

#include "plan/compile/capture/ir.h"

typedef enum cluster_part { PART_BODY = 0, PART_ANCHOR, PART_PROLOGUE } cluster_part;

typedef struct cluster {
  uint32_t root;
  uint32_t anchor;   /* IR_NONE if none; for results of a call, the call */
  uint32_t *members; /* ascending; anchor included */
  uint32_t member_count;
  uint32_t output_count; /* number of stored members */
  bool positional;       /* uses element positions, so its index space is fixed */
} cluster;

/* The position of a node's elements in the storage of `base`. A node is its own base unless it is a
 * view. */
typedef struct layout {
  uint32_t base;
  int64_t offset; /* elements */
  int64_t stride[COMPUTE_MAX_RANK];
} layout;

typedef struct fusion {
  layout *layouts;      /* by live node */
  uint32_t *cluster_of; /* IR_NONE for nodes that no kernel computes */
  unsigned char *part;  /* cluster_part */
  unsigned char *stored;
  uint32_t *within;  /* by node: the concat whose result has its elements (layouts), or IR_NONE */
  cluster *clusters; /* in execution order */
  uint32_t cluster_count;
} fusion;

typedef struct fuse_options {
  bool fuse; /* false: every operation is a separate cluster */
  /* Kernels that overwrite parameters run last (lower.h). Such a kernel also computes a gradient
   * only if the gradient's operands are no larger than the gradient, as they must stay alive until
   * then. */
  bool updates_wait;
} fuse_options;

/* COMPUTE_ERROR_OUT_OF_MEMORY is the only failure. */
compute_status fuse_nodes(const ir *r, fuse_options options, scratch *memory, fusion *result);

/* True for a node that a program computes element by element. */
static inline bool fuse_is_elementwise(const ir_node *n) {
  return ir_rule(n)->is_element;
}

/* An upper bound of the node's instructions: the operation, its constants and its rounded
 * operands. */
uint32_t fuse_instructions(const ir *r, const ir_node *n);

/* The instruction limit for a cluster's members; the rest is for loads and the anchor's value. */
#define FUSE_MAX_INSTRUCTIONS (COMPUTE_MAX_INSTRUCTIONS - COMPUTE_MAX_OPERANDS - 4)

/* True for a node that is an immediate constant in programs and needs no storage there. */
static inline bool fuse_is_immediate(const ir_node *n) {
  return n->op == OP_constant && n->uniform;
}

/* ---- refine.c -------------------------------------------------------------------------------- */

/* Gives every cluster that reads a cheap kernel's value a separate copy of the node, in a new array
 * of nodes. If it sets *changed, the caller must fuse the nodes again. COMPUTE_ERROR_OUT_OF_MEMORY
 * is the only failure. */
compute_status repeat_cheap(ir *r, const fusion *f, bool *changed);

/* Merges parameter updates of the same small shape, up to a kernel's limits.
 * COMPUTE_ERROR_OUT_OF_MEMORY is the only failure. */
compute_status merge_updates(const ir *r, scratch *memory, fusion *f);

/* ---- channels.c ------------------------------------------------------------------------------ */

/* Changes the layouts of values between convolutions to channels last. bf16 values change only if
 * the device computes with `bf16`. COMPUTE_ERROR_OUT_OF_MEMORY is the only failure. */
compute_status channels_last_choose(const ir *r, bool bf16, scratch *memory, fusion *f);

/* ---- within.c -------------------------------------------------------------------------------- */

/* Lets elementwise kernels write within the results of concats. All clusters must run on one device.
 * COMPUTE_ERROR_OUT_OF_MEMORY is the only failure. */
compute_status write_within(const ir *r, scratch *memory, fusion *f);

/* ---- Layouts of views ------------------------------------------------------------------------ */

/* Computes the layout of view n over x, whose layout is `from`. Returns false if strides cannot
 * express it. */
bool layout_view(const ir_node *n, const ir_node *x, const layout *from, layout *l);

/* ---- check.c: reports of invalid indices (core/device/index_fault.h) ------------------------- */

/* Describes the index check of `node`, an indexed node, in terms of the call that recorded it.
 * Returns false when out of memory. */
bool check_describe(const ir *r, const fusion *f, uint32_t node, index_check *row);

/* True if the call that recorded this indexed graph node has a name to report. */
bool check_is_named(const compute_graph *graph, uint32_t node);

#endif
