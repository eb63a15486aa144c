/* SPDX-License-Identifier: MIT */
/* The planner's working copy of a graph: the nodes that the outputs need, in topological order. The
 * copy is rewritten while it is built. */
#ifndef PLAN_IR_H
#define PLAN_IR_H

#include "compute/plan.h"
#include "core/type/dtype.h"
#include "graph/node/graph.h"
#include "plan/compile/capture/scratch.h"

#define IR_NONE UINT32_MAX

typedef struct ir_node {
  graph_op op;
  compute_dtype dtype;
  compute_shape shape;
  uint32_t input_count;
  uint32_t *inputs; /* earlier nodes */
  graph_attributes attributes;
  const void
      *constant; /* OP_constant: one element if uniform, else dense; or a block of geometry */
  bool uniform;
  compute_tensor *tensor; /* OP_parameter */
  const char *name;
  uint32_t source; /* index of the original graph node; for messages and bindings */
  uint32_t folded; /* number of graph operations merged into this node */
  bool live;       /* an output depends on it */
} ir_node;

typedef struct ir {
  const compute_graph *graph;
  scratch *memory;
  ir_node *nodes;
  uint32_t count, capacity;
  uint32_t *table; /* hash table of node indices, IR_NONE where empty; only with `simplify` */
  uint32_t table_size;
  uint32_t *of_graph; /* graph index -> node */
  uint32_t *outputs;  /* node indices, in the caller's order */
  uint32_t output_count;
  bool simplify;
  const compute_device *kernels; /* the device whose kernels may compute nodes with two forms, or
                                  * NULL */
} ir;

/* A value, computed at compile time, that replaces a graph node: a constant or a frozen tensor. */
typedef struct ir_folded {
  uint32_t graph_index;
  const void *values;     /* dense; NULL if it is a tensor */
  compute_tensor *tensor; /* frozen */
} ir_folded;

/* Captures the nodes that `outputs` need. With `simplify`, common subexpressions become one node
 * and local rewrites apply. `kernels` is the device whose kernels may compute nodes with two forms
 * (plan_rule); with NULL, the plan uses the composed form of all of them.
 * COMPUTE_ERROR_OUT_OF_MEMORY is the only failure. */
compute_status ir_capture(ir *r, const compute_graph *graph, const uint32_t *outputs,
                          uint32_t output_count, const ir_folded *folded, uint32_t folded_count,
                          bool simplify, const compute_device *kernels, scratch *memory);

/* Adds a node (inputs are copied) or finds an equal node. Returns IR_NONE when out of memory. */
uint32_t ir_add(ir *r, const ir_node *node);

/* Rewrites a candidate and returns the resulting node: the candidate itself or something simpler.
 * Returns IR_NONE when out of memory. */
uint32_t ir_rewrite(ir *r, const ir_node *node);

/* gathered.c: the part of ir_rewrite for a gather. Returns IR_NONE if nothing applies. */
uint32_t rewrite_gather(ir *r, const ir_node *node);

static inline graph_category ir_category(const ir_node *n) {
  return graph_op_describe(n->op)->category;
}

/* The value of a uniform constant. */
static inline double ir_uniform_value(const ir_node *node) {
  return dtype_load(node->dtype, node->constant);
}

/* ---- Rules ----------------------------------------------------------------------------------- */

struct lowering;
struct cluster;
struct kernel_draft;

/* How the planner treats an operation. The column `rule` of ops.def names its rule_<name>. If only
 * `draft` is set, each node becomes a separate kernel and writes to separate memory. */
typedef struct plan_rule {
  /* Fills in the descriptor and operands of the cluster with this node as its root or anchor. If
   * the node needs several kernels, d->part selects one. NULL: no kernel computes such nodes. */
  void (*draft)(const struct lowering *l, const struct cluster *c, struct kernel_draft *d);
  /* The number of kernels of the cluster; NULL: one. */
  uint32_t (*parts)(const struct lowering *l, const struct cluster *c);

  bool is_element;   /* instructions of a program compute it, in any kernel that it joins */
  bool is_anchor;    /* its kernel has an epilogue: later elementwise nodes can join */
  bool has_prologue; /* of an anchor: earlier elementwise nodes can join as well */
  bool assigns;      /* its kernel can write directly into a parameter … */
  bool in_place;     /* … even if it reads the parameter's old value, element by element */
  bool any_layout;   /* it writes results with any strides, otherwise only row-major … */
  bool any_rows;     /* … or at no cost if the elements of each row are contiguous */
  bool places;       /* it copies operands into ranges of its result, also an operand's operands */

  /* For operations with two forms. The graph records such a node with one more operand: the same
   * result composed of other operations. Returns true if the device supports the node as a kernel.
   * The plan then uses the node, otherwise the composed operand. It captures nothing of the unused
   * form. */
  bool (*has_kernel)(const compute_device *device, const compute_graph *graph,
                     const graph_node *node);

  bool on_host; /* its kernel always runs on the CPU; this is not a fallback */
} plan_rule;

#define ELEMENTWISE(...) extern const plan_rule rule_map;
#define STRUCTURAL(name, category, domain, gradient, block, rule, ...)                             \
  extern const plan_rule rule_##rule;
#include "graph/ops.def"

/* rules.c: indexed by operation. */
extern const plan_rule *const plan_rules[OP_COUNT];

static inline const plan_rule *ir_rule(const ir_node *n) {
  return plan_rules[n->op];
}

/* A call node is followed directly by one node for each of its other results, all in one cluster.
 * `ir_call_of` returns the call that produces node `i`, or IR_NONE. `ir_last_result` returns the
 * node of the call's last result. */
static inline uint32_t ir_call_of(const ir *r, uint32_t i) {
  const ir_node *n = &r->nodes[i];
  return n->op == OP_call ? i : n->op == OP_call_result ? n->inputs[0] : IR_NONE;
}

static inline uint32_t ir_last_result(const ir *r, uint32_t call) {
  return call + ((const graph_call_key *)r->nodes[call].constant)->output_count - 1;
}

/* The range of a node's operands, [begin, end), that a plan for the device reads (NULL: no kernels
 * of the device). For a node with two forms: the operands of its kernel, or only the composed
 * form. */
typedef struct operand_range {
  uint32_t begin, end;
} operand_range;

operand_range ir_operands(const compute_device *device, const compute_graph *graph,
                          const graph_node *node);

/* ---- fold.c, frozen.c: parts of a graph that are computed at compile time ---------------- */

typedef struct folding {
  ir_folded *values; /* in scratch memory */
  uint32_t count;
  compute_tensor **tensors; /* own the values; freed by fold_release */
} folding;

/* Finds the parts that depend on constants and on frozen parameters on `device`, and computes them.
 * `kernels` has the meaning of ir_capture. Parts that cannot be computed stay unchanged. */
compute_status fold_nodes(const compute_graph *graph, const uint32_t *outputs,
                          uint32_t output_count, const compute_device *kernels,
                          const compute_device *device, uint32_t flags, scratch *memory,
                          folding *result);

/* Computes the nodes of `bindings` into new tensors of the device, by a plan with these flags. */
typedef compute_status fold_function(compute_device *device, const compute_graph *graph,
                                     uint32_t flags, compute_binding *bindings, uint32_t count,
                                     scratch *memory);

/* Folds nodes that depend on frozen parameters of one device. Each value is computed once. It lives
 * as long as the memory of the first parameter, and all plans share it. Adds the values to
 * `result`, which has room. COMPUTE_ERROR_OUT_OF_MEMORY is the only failure. */
compute_status fold_frozen(const compute_graph *graph, const uint32_t *nodes, uint32_t count,
                           uint32_t flags, fold_function *compute, scratch *memory,
                           folding *result);
void fold_release(folding *f);

#endif
