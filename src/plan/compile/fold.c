/* SPDX-License-Identifier: MIT */
/* Constant folding. Constant sub-graphs read only constants, and frozen sub-graphs also frozen
 * parameters, such as the weights of a model. Their last nodes are folded. A separate plan computes
 * them, so a folded value equals the run's result exactly. Large results of small operands (for
 * example a broadcast sum) are left to the run, as they would cost more memory.
 *
 * Values of constant sub-graphs become constants of the plan. Values of frozen sub-graphs become
 * frozen parameters, which all plans share (capture/frozen.c). */
#include "plan/compile/capture/ir.h"

#include "core/base/error.h"
#include "compute/plan.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "core/tensor/tensor.h"

#define LARGE_RESULT                                                                               \
  65536 /* elements; larger results are folded only if an operand is at least as large */

enum {
  NEEDED = 1,
  CONSTANT = 2, /* it depends on constants only, … */
  FROZEN = 4,   /* … or also on frozen parameters */
  TOP = 8,      /* an output, or an operand of a node that is not folded */
  READ = 16,    /* a node other than a gather reads it, or all of it */
  LEFT = 32,    /* left to the run, where gathers read a few of its rows */
  KNOWN = CONSTANT | FROZEN
};

/* A graph, and the devices that decide which of its nodes are folded. */
typedef struct operands {
  const compute_graph *graph;
  const compute_device *kernels; /* as in ir_capture */
  const compute_device *main;    /* where frozen parameters are folded */
  uint32_t flags;                /* of the plan, about bits */
} operands;

static operand_range range_of(const operands *o, const graph_node *n) {
  return ir_operands(o->kernels, o->graph, n);
}

static void flag_operands(const operands *o, const graph_node *n, unsigned char *flags,
                          unsigned char flag) {
  const operand_range used = range_of(o, n);
  for (uint32_t k = used.begin; k < used.end; k++) flags[n->inputs[k]] |= flag;
}

/* Returns CONSTANT if all operands are constant, FROZEN if some of them are frozen, otherwise 0. */
static unsigned char operands_class(const operands *o, const graph_node *n,
                                    const unsigned char *flags) {
  const operand_range used = range_of(o, n);
  unsigned char all = CONSTANT;
  for (uint32_t k = used.begin; k < used.end; k++) {
    const unsigned char known = flags[n->inputs[k]] & KNOWN;
    if (!known) return 0;
    if (known == FROZEN) all = FROZEN;
  }
  return all;
}

/* A call is folded only with all of its results. */
static bool is_foldable_call(const graph_node *n) {
  const graph_host_call *call = graph_call_of(n);
  bool fits = (call->key.flags & COMPUTE_CALL_PURE) != 0;
  for (uint32_t i = 0; i < call->key.output_count; i++)
    fits = fits && call->outputs[i].count > 0 && call->outputs[i].count <= LARGE_RESULT;
  return fits;
}

static bool is_foldable(const operands *o, const graph_node *n) {
  const compute_graph *g = o->graph;
  const operand_range used = range_of(o, n);
  graph_category c = graph_op_describe(n->op)->category;
  if (c == CATEGORY_SOURCE) return n->op == OP_index && shape_count(n->shape) <= LARGE_RESULT;
  if (c == CATEGORY_STATE) return false;
  if (c == CATEGORY_CALL) return n->op == OP_call_result || is_foldable_call(n);
  int64_t largest = 0;
  for (uint32_t k = used.begin; k < used.end; k++) {
    const graph_node *x = &g->nodes[n->inputs[k]];
    int64_t held = x->uniform || x->op == OP_index ? 1 : shape_count(x->shape);
    if (held > largest) largest = held;
  }
  int64_t count = shape_count(n->shape);
  return count <= LARGE_RESULT || count <= largest;
}

/* Kernels read narrow integers as fast as wide ones, or faster. */
static bool widens_integers(const compute_graph *g, const graph_node *n) {
  return n->op == OP_cast && dtype_is_integer(n->dtype) &&
         dtype_is_integer(g->nodes[n->inputs[0]].dtype);
}

/* Returns the class of a needed node: CONSTANT, FROZEN or 0. */
static unsigned char class_of(const operands *o, const graph_node *n, const unsigned char *flags) {
  if (n->op == OP_constant) return CONSTANT;
  if (n->op == OP_parameter)
    return buffer_is_frozen(n->tensor->buffer) && n->tensor->buffer->device == o->main ? FROZEN : 0;
  const unsigned char class = operands_class(o, n, flags);
  if (!class || !is_foldable(o, n)) return 0;
  if (class == CONSTANT) return CONSTANT;
  return graph_op_describe(n->op)->category == CATEGORY_CALL || widens_integers(o->graph, n)
             ? 0
             : FROZEN;
}

/* Views of constants and index nodes are free at run time; folding them alone would only copy. */
static bool is_free(const graph_node *n) {
  return n->op == OP_index || graph_op_describe(n->op)->category == CATEGORY_VIEW;
}

static uint64_t bytes_of(const graph_node *n) {
  return (uint64_t)shape_count(n->shape) * compute_dtype_size(n->dtype);
}

/* True if the node holds more bytes than each of its operands. */
static bool expands(const operands *o, const graph_node *n) {
  const operand_range used = range_of(o, n);
  for (uint32_t k = used.begin; k < used.end; k++)
    if (bytes_of(&o->graph->nodes[n->inputs[k]]) >= bytes_of(n)) return false;
  return true;
}

/* Leaves tables to the run that expand frozen parameters, such as dequantized embeddings, if only
 * gathers read them. Capture moves a gather before the operations on its table (gathered.c). */
static void leave_tables(const operands *o, unsigned char *flags) {
  const compute_graph *g = o->graph;
  for (size_t i = g->count; i-- > 0;) {
    const graph_node *n = &g->nodes[i];
    if (!(flags[i] & NEEDED)) continue;
    const bool element = plan_rules[n->op]->is_element;
    const bool left = (flags[i] & KNOWN) == FROZEN && element && !(flags[i] & (READ | TOP));
    if (left) flags[i] |= LEFT;
    const operand_range used = range_of(o, n);
    for (uint32_t k = used.begin; k < used.end; k++) {
      const graph_node *x = &g->nodes[n->inputs[k]];
      const bool fewer =
          n->op == OP_gather && k == 0 && shape_count(n->shape) < shape_count(x->shape);
      const bool passes = left && compute_shape_equal(x->shape, n->shape);
      if (!fewer && !passes) flags[n->inputs[k]] |= READ;
    }
  }
  /* A table as small as its parameters is folded: then the run only gathers. */
  for (size_t i = 0; i < g->count; i++) {
    const graph_node *n = &g->nodes[i];
    if (!(flags[i] & LEFT)) continue;
    bool larger = expands(o, n);
    const operand_range used = range_of(o, n);
    for (uint32_t k = used.begin; k < used.end; k++)
      larger = larger || (flags[n->inputs[k]] & LEFT) != 0;
    if (!larger) flags[i] &= (unsigned char)~LEFT;
  }
}

/* Flags each node, and returns the number of nodes to fold, which keep CONSTANT or FROZEN. */
static uint32_t mark(const operands *o, const uint32_t *outputs, uint32_t output_count,
                     unsigned char *flags) {
  const compute_graph *g = o->graph;
  for (uint32_t i = 0; i < output_count; i++) flags[outputs[i]] = NEEDED;
  for (size_t i = g->count; i-- > 0;)
    if (flags[i]) flag_operands(o, &g->nodes[i], flags, NEEDED);
  for (size_t i = 0; i < g->count; i++)
    if (flags[i]) flags[i] |= class_of(o, &g->nodes[i], flags);
  uint32_t count = 0;
  for (uint32_t i = 0; i < output_count; i++) flags[outputs[i]] |= TOP;
  leave_tables(o, flags);
  /* Nodes read by a node that is not folded. If such a node is a view, its base. */
  for (size_t i = g->count; i-- > 0;) {
    bool reads = flags[i] && (!(flags[i] & KNOWN) || (flags[i] & LEFT) ||
                              ((flags[i] & TOP) && is_free(&g->nodes[i])));
    if (reads) flag_operands(o, &g->nodes[i], flags, TOP);
  }
  for (size_t i = 0; i < g->count; i++) {
    const graph_node *n = &g->nodes[i];
    const bool is_source = n->op == OP_constant || n->op == OP_parameter;
    bool fold = (flags[i] & KNOWN) && (flags[i] & TOP) && !(flags[i] & LEFT) && !is_source &&
                !is_free(n) && shape_count(n->shape) > 0;
    flags[i] = fold ? flags[i] & KNOWN : 0;
    count += fold;
  }
  return count;
}

/* Computes the nodes of `bindings` by a separate plan, into new tensors of the device. After a
 * failure, some tensors may exist. */
static compute_status evaluate(compute_device *device, const compute_graph *g, uint32_t flags,
                               compute_binding *bindings, uint32_t count, scratch *memory) {
  compute_plan *plan = NULL;
  const compute_plan_options options = {.device = device,
                                        .fallback = COMPUTE_FALLBACK_STRICT,
                                        .flags = COMPUTE_PLAN_NO_SIMPLIFICATION | flags,
                                        .name = "constant folding"};
  compute_node *nodes = scratch_take(memory, count, sizeof *nodes);
  if (!nodes) return COMPUTE_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < count; i++) nodes[i] = bindings[i].node;
  compute_status status = compute_compile(g, nodes, count, &options, &plan);
  for (uint32_t i = 0; status == COMPUTE_OK && i < count; i++) {
    const graph_node *n = &g->nodes[nodes[i].id - 1];
    status = tensor_create_private(device, n->dtype, n->shape, &bindings[i].tensor);
  }
  if (status == COMPUTE_OK) status = compute_run(plan, bindings, count, NULL);
  compute_plan_release(plan);
  return status;
}

/* Folds the constant nodes among the flagged ones. */
static compute_status fold_constant_nodes(const operands *o, const unsigned char *flags,
                                          scratch *memory, folding *f) {
  const compute_graph *graph = o->graph;
  compute_device *cpu = graph->context->cpu;
  uint32_t count = 0;
  for (size_t i = 0; i < graph->count; i++) count += flags[i] == CONSTANT;
  if (count == 0 || count > 1024 || !cpu) return COMPUTE_OK;
  compute_binding *bindings = scratch_take(memory, count, sizeof *bindings);
  if (!bindings) return COMPUTE_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < graph->count; i++) {
    if (flags[i] != CONSTANT) continue;
    bindings[f->count].node = graph_handle(graph, i);
    f->values[f->count++].graph_index = i;
  }
  const compute_status status = evaluate(cpu, graph, o->flags, bindings, count, memory);
  for (uint32_t i = 0; i < count; i++) {
    f->tensors[i] = bindings[i].tensor;
    if (status == COMPUTE_OK) f->values[i].values = compute_tensor_data(f->tensors[i]);
  }
  if (status != COMPUTE_OK) { /* for example, an index out of range: the run reports it */
    fold_release(f);
    f->count = 0;
  }
  return COMPUTE_OK;
}

static compute_status fold_frozen_nodes(const operands *o, const unsigned char *flags,
                                        scratch *memory, folding *f) {
  uint32_t count = 0;
  for (size_t i = 0; i < o->graph->count; i++) count += flags[i] == FROZEN;
  if (count == 0) return COMPUTE_OK;
  uint32_t *nodes = scratch_take(memory, count, sizeof *nodes);
  if (!nodes) return COMPUTE_ERROR_OUT_OF_MEMORY;
  count = 0;
  for (uint32_t i = 0; i < o->graph->count; i++)
    if (flags[i] == FROZEN) nodes[count++] = i;
  return fold_frozen(o->graph, nodes, count, o->flags, evaluate, memory, f);
}

compute_status fold_nodes(const compute_graph *graph, const uint32_t *outputs,
                          uint32_t output_count, const compute_device *kernels,
                          const compute_device *device, uint32_t flags_of_plan, scratch *memory,
                          folding *f) {
  const operands o = {graph, kernels, device,
                      flags_of_plan & (COMPUTE_PLAN_REPRODUCIBLE | COMPUTE_PLAN_PORTABLE)};
  *f = (folding){0};
  unsigned char *flags = scratch_take(memory, graph->count, 1);
  compute_status status = flags ? COMPUTE_OK : COMPUTE_ERROR_OUT_OF_MEMORY;
  const uint32_t count = status == COMPUTE_OK ? mark(&o, outputs, output_count, flags) : 0;
  if (count == 0 && status == COMPUTE_OK) return COMPUTE_OK;
  f->values = scratch_take(memory, count, sizeof *f->values);
  f->tensors = scratch_take(memory, count, sizeof *f->tensors);
  if (!f->values || !f->tensors) status = COMPUTE_ERROR_OUT_OF_MEMORY;
  if (status == COMPUTE_OK) status = fold_constant_nodes(&o, flags, memory, f);
  if (status == COMPUTE_OK) status = fold_frozen_nodes(&o, flags, memory, f);
  if (status == COMPUTE_OK) return COMPUTE_OK;
  fold_release(f);
  *f = (folding){0};
  return error_set(graph->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                   "not enough memory to fold constants");
}

void fold_release(folding *f) {
  for (uint32_t i = 0; i < f->count; i++) compute_tensor_release(f->tensors[i]);
}
