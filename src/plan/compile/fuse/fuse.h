/* SPDX-License-Identifier: MIT */
/* Which nodes become one kernel.
 *
 * A cluster is one kernel: an optional anchor (matrix product, reduction, row operation,
 * convolution, pooling), elementwise nodes that feed the anchor (prologue; of reductions and rows)
 * and elementwise nodes that follow it (body).
 * The root is the cluster's last node. Clusters run in the order of their roots; every choice below
 * keeps that order valid: a value that leaves its cluster is only read by nodes that come after the
 * cluster's root. */
#ifndef PLAN_FUSE_H
#define PLAN_FUSE_H

#include "plan/compile/capture/ir.h"

typedef enum cluster_part { PART_BODY = 0, PART_ANCHOR, PART_PROLOGUE } cluster_part;

typedef struct cluster {
  uint32_t root;
  uint32_t anchor;   /* IR_NONE if there is none; for results of a call, the call */
  uint32_t *members; /* ascending; anchor included */
  uint32_t member_count;
  uint32_t output_count; /* members that are stored */
  bool positional;       /* uses positions, so its space must stay as it is */
} cluster;

/* How a node's elements lie in the storage of `base`, which is itself unless the node is a view. */
typedef struct layout {
  uint32_t base;
  int64_t offset; /* elements */
  int64_t stride[COMPUTE_MAX_RANK];
} layout;

typedef struct fusion {
  layout *layouts;      /* of every live node */
  uint32_t *cluster_of; /* IR_NONE for nodes that no kernel computes */
  unsigned char *part;  /* cluster_part */
  unsigned char *stored;
  cluster *clusters; /* in running order */
  uint32_t cluster_count;
} fusion;

typedef struct fuse_options {
  bool fuse; /* false: every operation is a separate cluster */
  /* Kernels that overwrite parameters run at the end (lower.h): they include the kernel that
   * computes a gradient only if that kernel's operands, which must be kept until then, are no
   * larger than the gradient. */
  bool updates_wait;
} fuse_options;

/* COMPUTE_ERROR_OUT_OF_MEMORY is the only failure. */
compute_status fuse_nodes(const ir *r, fuse_options options, scratch *memory, fusion *result);

/* A node that a program computes element by element. */
static inline bool fuse_is_elementwise(const ir_node *n) {
  return ir_rule(n)->is_element;
}

/* The most instructions that a node becomes: its own, its constants, and its operands rounded. */
uint32_t fuse_instructions(const ir *r, const ir_node *n);

/* The limit for the members of a cluster together; the rest is for loads and the anchor's value. */
#define FUSE_MAX_INSTRUCTIONS (COMPUTE_MAX_INSTRUCTIONS - COMPUTE_MAX_OPERANDS - 4)

/* A node that is a constant in programs and needs no storage there. */
static inline bool fuse_is_immediate(const ir_node *n) {
  return n->op == OP_constant && n->uniform;
}

/* ---- refine.c -------------------------------------------------------------------------------- */

/* Gives every cluster that reads the value of a cheap kernel its own copy of the node, in a new
 * array of nodes; if *changed is set, the nodes must be fused again. COMPUTE_ERROR_OUT_OF_MEMORY is
 * the only failure. */
compute_status repeat_cheap(ir *r, const fusion *f, bool *changed);

/* Merges updates of parameters of the same small shape, as far as a kernel has room.
 * COMPUTE_ERROR_OUT_OF_MEMORY is the only failure. */
compute_status merge_updates(const ir *r, scratch *memory, fusion *f);

/* ---- channels.c ------------------------------------------------------------------------------ */

/* Turns the layouts of values between convolutions to channels last; those of bf16 only if the
 * device computes with `bf16`. Memory is the only failure. */
compute_status channels_last_choose(const ir *r, bool bf16, scratch *memory, fusion *f);

/* ---- layout of views ------------------------------------------------------------------------- */

/* The layout of view n over x, whose layout is `from`; false if strides cannot express it. */
bool layout_view(const ir_node *n, const ir_node *x, const layout *from, layout *l);

/* ---- check.c: reports of invalid indices (core/device/index_fault.h) ------------------------- */

/* Describes the check of node `node`, a gather or scatter, as the call that recorded it. False when
 * out of memory. */
bool check_describe(const ir *r, const fusion *f, uint32_t node, index_check *row);

/* Whether the call that recorded an indexed node of the graph has a name to report. */
bool check_is_named(const compute_graph *graph, uint32_t node);

#endif
