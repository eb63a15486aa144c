/* SPDX-License-Identifier: MIT */
/* Constant folding. The last nodes of constant sub-graphs are folded. A separate plan computes
 * them, so a folded value equals the run's result exactly. Large results of small operands (for
 * example a broadcast sum) are left to the run, as they would cost more memory. */
#include "plan/compile/capture/ir.h"

#include "core/base/error.h"
#include "compute/plan.h"
#include "core/type/shape.h"
#include "core/tensor/tensor.h"

#define LARGE_RESULT                                                                               \
  65536 /* elements; larger results are folded only if an operand is at least as large */

enum { NEEDED = 1, CONSTANT = 2, TOP = 4 };

/* A graph, and the device that decides which operands of a node a plan reads. */
typedef struct operands {
  const compute_graph *graph;
  const compute_device *kernels; /* as in ir_capture */
} operands;

static operand_range range_of(const operands *o, const graph_node *n) {
  return ir_operands(o->kernels, o->graph, n);
}

static void flag_operands(const operands *o, const graph_node *n, unsigned char *flags,
                          unsigned char flag) {
  const operand_range used = range_of(o, n);
  for (uint32_t k = used.begin; k < used.end; k++) flags[n->inputs[k]] |= flag;
}

static bool has_constant_operands(const operands *o, const graph_node *n,
                                  const unsigned char *flags) {
  const operand_range used = range_of(o, n);
  for (uint32_t k = used.begin; k < used.end; k++)
    if ((flags[n->inputs[k]] & CONSTANT) == 0) return false;
  return true;
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

/* Views of constants and index nodes are free at run time; folding them alone would only copy. */
static bool is_free(const graph_node *n) {
  return n->op == OP_index || graph_op_describe(n->op)->category == CATEGORY_VIEW;
}

static uint32_t mark(const operands *o, const uint32_t *outputs, uint32_t output_count,
                     unsigned char *flags) {
  const compute_graph *g = o->graph;
  for (uint32_t i = 0; i < output_count; i++) flags[outputs[i]] = NEEDED;
  for (size_t i = g->count; i-- > 0;)
    if (flags[i]) flag_operands(o, &g->nodes[i], flags, NEEDED);
  for (size_t i = 0; i < g->count; i++) {
    const graph_node *n = &g->nodes[i];
    if (flags[i] && has_constant_operands(o, n, flags) &&
        (n->op == OP_constant || is_foldable(o, n)))
      flags[i] |= CONSTANT;
  }
  uint32_t count = 0;
  for (uint32_t i = 0; i < output_count; i++) flags[outputs[i]] |= TOP;
  /* Nodes read by a non-constant node. If such a node is a view, its base. */
  for (size_t i = g->count; i-- > 0;) {
    bool reads =
        flags[i] && (!(flags[i] & CONSTANT) || ((flags[i] & TOP) && is_free(&g->nodes[i])));
    if (reads) flag_operands(o, &g->nodes[i], flags, TOP);
  }
  for (size_t i = 0; i < g->count; i++) {
    const graph_node *n = &g->nodes[i];
    bool fold = (flags[i] & CONSTANT) && (flags[i] & TOP) && n->op != OP_constant && !is_free(n) &&
                shape_count(n->shape) > 0;
    flags[i] = fold;
    count += fold;
  }
  return count;
}

/* Runs the plan of the constants. Nodes, bindings and tensors are parallel arrays. */
static compute_status evaluate(compute_device *cpu, const compute_graph *g,
                               const compute_node *nodes, compute_binding *bindings, folding *f) {
  compute_plan *plan = NULL;
  compute_plan_options options = {.device = cpu,
                                  .fallback = COMPUTE_FALLBACK_STRICT,
                                  .flags = COMPUTE_PLAN_NO_SIMPLIFICATION,
                                  .name = "constant folding"};
  compute_status status = compute_compile(g, nodes, f->count, &options, &plan);
  for (uint32_t i = 0; status == COMPUTE_OK && i < f->count; i++) {
    const graph_node *n = &g->nodes[f->values[i].graph_index];
    status = tensor_create_private(cpu, n->dtype, n->shape, &f->tensors[i]);
    if (status != COMPUTE_OK) break;
    f->values[i].values = compute_tensor_data(f->tensors[i]);
    bindings[i] = (compute_binding){.node = nodes[i], .tensor = f->tensors[i]};
  }
  if (status == COMPUTE_OK) status = compute_run(plan, bindings, f->count, NULL);
  compute_plan_release(plan);
  return status;
}

compute_status fold_constants(const compute_graph *graph, const uint32_t *outputs,
                              uint32_t output_count, const compute_device *kernels, scratch *memory,
                              folding *f) {
  const operands o = {graph, kernels};
  *f = (folding){0};
  compute_device *cpu = graph->context->cpu;
  if (!cpu) return COMPUTE_OK;
  unsigned char *flags = scratch_take(memory, graph->count, 1);
  if (!flags) goto short_of_memory;
  uint32_t count = mark(&o, outputs, output_count, flags);
  if (count == 0 || count > 1024) return COMPUTE_OK;
  f->values = scratch_take(memory, count, sizeof *f->values);
  f->tensors = scratch_take(memory, count, sizeof *f->tensors);
  compute_node *nodes = scratch_take(memory, count, sizeof *nodes);
  compute_binding *bindings = scratch_take(memory, count, sizeof *bindings);
  if (!f->values || !f->tensors || !nodes || !bindings) goto short_of_memory;
  for (uint32_t i = 0; i < graph->count; i++) {
    if (!flags[i]) continue;
    nodes[f->count] = graph_handle(graph, i);
    f->values[f->count++].graph_index = i;
  }
  if (evaluate(cpu, graph, nodes, bindings, f) != COMPUTE_OK) {
    fold_release(f); /* for example, an index out of range: the run reports it */
    *f = (folding){0};
  }
  return COMPUTE_OK;

short_of_memory:
  return error_set(graph->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                   "not enough memory to fold constants");
}

void fold_release(folding *f) {
  for (uint32_t i = 0; i < f->count; i++) compute_tensor_release(f->tensors[i]);
}
