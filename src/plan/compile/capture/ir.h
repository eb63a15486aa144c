/* SPDX-License-Identifier: MIT */
/* The planner's working copy of the part of a graph that the outputs need: an array of nodes in
 * topological order, rewritten while it is built. */
#ifndef PLAN_IR_H
#define PLAN_IR_H

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
  uint32_t source; /* the index of the graph node it stands for; for messages and bindings */
  uint32_t folded; /* graph operations that this node stands for */
  bool live;       /* an output depends on it */
} ir_node;

typedef struct ir {
  const compute_graph *graph;
  scratch *memory;
  ir_node *nodes;
  uint32_t count, capacity;
  uint32_t *table; /* hash table of node numbers, IR_NONE where empty; only to simplify */
  uint32_t table_size;
  uint32_t *of_graph; /* graph index -> node */
  uint32_t *outputs;  /* nodes, as the caller ordered them */
  uint32_t output_count;
  bool simplify;
  const compute_device *kernels; /* the device whose kernels nodes in two forms may become, or
                                  * NULL */
} ir;

/* A constant computed at compile time in place of a graph node. */
typedef struct ir_folded {
  uint32_t graph_index;
  const void *values; /* dense */
} ir_folded;

/* Captures what `outputs` need. With `simplify`, common subexpressions become one node and local
 * rewrites apply. `kernels` is the device whose kernels nodes in two forms (plan_rule) may become;
 * NULL: all are composed. COMPUTE_ERROR_OUT_OF_MEMORY is the only failure. */
compute_status ir_capture(ir *r, const compute_graph *graph, const uint32_t *outputs,
                          uint32_t output_count, const ir_folded *folded, uint32_t folded_count,
                          bool simplify, const compute_device *kernels, scratch *memory);

/* Adds a node (inputs are copied), or finds an equal one. IR_NONE when out of memory. */
uint32_t ir_add(ir *r, const ir_node *node);

/* The node that a candidate rewrites to: itself added, or something simpler. */
uint32_t ir_rewrite(ir *r, const ir_node *node);

static inline graph_category ir_category(const ir_node *n) {
  return graph_op_describe(n->op)->category;
}

/* The one value of a uniform constant as a number. */
static inline double ir_uniform_value(const ir_node *node) {
  return dtype_load(node->dtype, node->constant);
}

/* ---- Rules ----------------------------------------------------------------------------------- */

struct lowering;
struct cluster;
struct kernel_draft;

/* How the planner treats an operation: the column `rule` of ops.def names its rule_<name>. By
 * default, with only `draft` set, each node is a separate kernel, which writes to separate
 * memory. */
typedef struct plan_rule {
  /* The descriptor and operands of the cluster whose root or anchor the node is; of part d->part,
   * if there are several. NULL: no kernel computes such nodes. */
  void (*draft)(const struct lowering *l, const struct cluster *c, struct kernel_draft *d);
  uint32_t (*parts)(const ir_node *root); /* how many kernels one node takes; NULL: one */

  bool is_element;   /* computed by instructions of a program, in whichever kernel it joins */
  bool is_anchor;    /* its kernel has an epilogue: elementwise nodes after it can join */
  bool has_prologue; /* of an anchor: also those before it */
  bool assigns;      /* its kernel can write straight into a parameter … */
  bool in_place;     /* … also if it reads the parameter's old value, element for element */
  bool any_layout;   /* it can write results along any strides, else only in row-major order … */
  bool any_rows;     /* … or at no cost wherever the elements of a row lie side by side */

  /* For operations that a graph records in two forms, as a node whose last operand is the same
   * result composed of other operations: whether the device supports the node as a kernel. A plan
   * uses the node if it does, and otherwise that operand; of the unused form, nothing is
   * captured. */
  bool (*has_kernel)(const compute_device *device, const compute_graph *graph,
                     const graph_node *node);

  bool on_host; /* its kernel runs on the CPU, whatever the plan's device: not a fallback */
} plan_rule;

#define ELEMENTWISE(...) extern const plan_rule rule_map;
#define STRUCTURAL(name, category, domain, gradient, block, rule, ...)                             \
  extern const plan_rule rule_##rule;
#include "graph/ops.def"

/* rules.c: by operation. */
extern const plan_rule *const plan_rules[OP_COUNT];

static inline const plan_rule *ir_rule(const ir_node *n) {
  return plan_rules[n->op];
}

/* Results of a call: the call itself and, right after it, a node for each of its other results, all
 * of one cluster. The call that node `i` is a result of, or IR_NONE; and the last of its results.
 */
static inline uint32_t ir_call_of(const ir *r, uint32_t i) {
  const ir_node *n = &r->nodes[i];
  return n->op == OP_call ? i : n->op == OP_call_result ? n->inputs[0] : IR_NONE;
}

static inline uint32_t ir_last_result(const ir *r, uint32_t call) {
  return call + ((const graph_call_key *)r->nodes[call].constant)->output_count - 1;
}

/* The operands of a node that a plan for the device (NULL: without its kernels) reads: begin … end
 * − 1. Of a node in two forms, those of its kernel, or only the composed form.
 */
typedef struct operand_range {
  uint32_t begin, end;
} operand_range;

operand_range ir_operands(const compute_device *device, const compute_graph *graph,
                          const graph_node *node);

/* ---- fold.c: constant parts of a graph, computed when compiling ------------------------------ */

typedef struct folding {
  ir_folded *values; /* in scratch memory */
  uint32_t count;
  compute_tensor **tensors; /* hold the values; release with fold_release */
} folding;

/* Finds and computes them on the context's CPU device, for a plan with these `kernels`
 * (ir_capture). Parts that cannot be computed are unchanged. */
compute_status fold_constants(const compute_graph *graph, const uint32_t *outputs,
                              uint32_t output_count, const compute_device *kernels, scratch *memory,
                              folding *result);
void fold_release(folding *f);

#endif
