/* SPDX-License-Identifier: MIT */
/* Capture with hash-consing: a hash table finds an existing equal node by its contents. */
#include "plan/compile/capture/ir.h"

#include <string.h>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "plan/compile/fuse/fuse.h"

#define SMALL_CONSTANT 1024 /* bytes: equal constants up to this size share a node */

static size_t constant_bytes(const ir_node *n) {
  const size_t block = graph_block_bytes(n->op);
  if (block > 0) return block;
  size_t size = compute_dtype_size(n->dtype);
  return n->uniform ? size : (size_t)shape_count(n->shape) * size;
}

static bool has_block(const ir_node *n) {
  return n->op == OP_constant || graph_block_bytes(n->op) > 0;
}

static bool is_pure_call(const ir_node *n) {
  return (((const graph_call_key *)n->constant)->flags & COMPUTE_CALL_PURE) != 0;
}

/* Nodes of these operations are equal only if they come from the same graph node. */
static bool is_unique(const ir_node *n) {
  return n->op == OP_input || n->op == OP_assign || n->op == OP_group ||
         (n->op == OP_call && !is_pure_call(n));
}

static uint64_t node_hash(const ir_node *n) {
  uint64_t h = hash_u64(HASH_SEED, (uint64_t)n->op << 32 | (uint64_t)n->dtype << 1 | n->uniform);
  h = hash_u64(h, (uint64_t)n->shape.rank);
  h = hash_bytes(h, n->shape.size, sizeof(int64_t) * (size_t)n->shape.rank);
  h = hash_bytes(h, n->inputs, sizeof *n->inputs * n->input_count);
  h = hash_bytes(h, &n->attributes, sizeof n->attributes);
  if (is_unique(n)) h = hash_u64(h, n->source);
  if (has_block(n))
    h = constant_bytes(n) <= SMALL_CONSTANT ? hash_bytes(h, n->constant, constant_bytes(n))
                                            : hash_u64(h, (uint64_t)(uintptr_t)n->constant);
  return hash_u64(h, (uint64_t)(uintptr_t)n->tensor);
}

static bool node_equal(const ir_node *a, const ir_node *b) {
  if (a->op != b->op || a->dtype != b->dtype || a->input_count != b->input_count ||
      a->tensor != b->tensor || a->uniform != b->uniform ||
      !compute_shape_equal(a->shape, b->shape) ||
      memcmp(&a->attributes, &b->attributes, sizeof a->attributes) != 0)
    return false;
  if (a->input_count && memcmp(a->inputs, b->inputs, sizeof *a->inputs * a->input_count) != 0)
    return false;
  if (is_unique(a)) return a->source == b->source;
  if (!has_block(a) || a->constant == b->constant) return true;
  size_t bytes = constant_bytes(a);
  return bytes <= SMALL_CONSTANT && memcmp(a->constant, b->constant, bytes) == 0;
}

/* Returns the slot of an equal node in the table, or a free slot. */
static uint32_t find_slot(const ir *r, const ir_node *node) {
  uint32_t slot = (uint32_t)node_hash(node) & (r->table_size - 1);
  while (r->table[slot] != IR_NONE && !node_equal(&r->nodes[r->table[slot]], node))
    slot = (slot + 1) & (r->table_size - 1);
  return slot;
}

static bool grow_nodes(ir *r) {
  if (r->count < r->capacity) return true;
  uint32_t capacity = r->capacity ? r->capacity * 2 : 64;
  ir_node *nodes = scratch_take(r->memory, capacity, sizeof *nodes);
  uint32_t *table = NULL; /* without the table, equal nodes stay separate */
  if (r->simplify) table = scratch_take(r->memory, (size_t)capacity * 2, sizeof *table);
  if (!nodes || (r->simplify && !table)) return false;
  if (r->count) memcpy(nodes, r->nodes, sizeof *nodes * r->count);
  r->nodes = nodes;
  r->capacity = capacity;
  if (!table) return true;
  r->table = table;
  r->table_size = capacity * 2;
  memset(r->table, 0xff, sizeof *r->table * r->table_size);
  for (uint32_t i = 0; i < r->count; i++) r->table[find_slot(r, &nodes[i])] = i;
  return true;
}

uint32_t ir_add(ir *r, const ir_node *node) {
  if (!grow_nodes(r)) return IR_NONE;
  if (r->simplify) {
    uint32_t *slot = &r->table[find_slot(r, node)];
    if (*slot != IR_NONE) {
      ir_node *same = &r->nodes[*slot];
      same->folded += node->folded;
      /* Prefer the call that has a name in error messages. */
      if (graph_is_indexed(node->op) && !check_is_named(r->graph, same->source))
        same->source = node->source;
      return *slot;
    }
    *slot = r->count;
  }
  ir_node *added = &r->nodes[r->count];
  *added = *node;
  added->inputs = scratch_take(r->memory, node->input_count, sizeof *added->inputs);
  if (!added->inputs) return IR_NONE;
  if (node->input_count)
    memcpy(added->inputs, node->inputs, sizeof *added->inputs * node->input_count);
  return r->count++;
}

static bool is_composed(const graph_node *node) {
  return plan_rules[node->op]->has_kernel != NULL;
}

static bool has_kernel(const compute_device *device, const compute_graph *graph,
                       const graph_node *node) {
  return device && plan_rules[node->op]->has_kernel(device, graph, node);
}

operand_range ir_operands(const compute_device *device, const compute_graph *graph,
                          const graph_node *node) {
  const uint32_t count = node->input_count;
  if (node->op == OP_call_result) return (operand_range){count - 1, count}; /* only the call */
  if (!is_composed(node)) return (operand_range){0, count};
  return has_kernel(device, graph, node) ? (operand_range){0, count - 1}
                                         : (operand_range){count - 1, count};
}

/* Marks the graph nodes that the outputs need; folded nodes need no operands. */
static void mark_needed(const ir *r, const uint32_t *outputs, uint32_t output_count,
                        unsigned char *needed, const ir_folded *folded, uint32_t folded_count) {
  const compute_graph *g = r->graph;
  for (uint32_t i = 0; i < output_count; i++) needed[outputs[i]] = 1;
  for (uint32_t i = 0; i < folded_count; i++) needed[folded[i].graph_index] |= 2;
  for (size_t i = g->count; i-- > 0;) {
    if (needed[i] != 1) continue;
    const operand_range used = ir_operands(r->kernels, g, &g->nodes[i]);
    for (uint32_t k = used.begin; k < used.end; k++) needed[g->nodes[i].inputs[k]] |= 1;
  }
}

/* Returns the existing node for a graph node, or IR_NONE. Two cases have one: a node with two forms
 * whose composed form is captured, and a further result of a call, which was added with the
 * call. */
static uint32_t captured_form(const ir *r, uint32_t index, const ir_folded *value) {
  const graph_node *n = &r->graph->nodes[index];
  if (!value && n->op == OP_call_result)
    return r->of_graph[n->inputs[n->input_count - 1]] + (uint32_t)n->attributes.axis;
  if (value || !is_composed(n) || has_kernel(r->kernels, r->graph, n)) return IR_NONE;
  return r->of_graph[n->inputs[n->input_count - 1]];
}

/* Builds the candidate for one graph node; `inputs` has room for its operands. */
static ir_node candidate(const ir *r, uint32_t index, const ir_folded *value, uint32_t *inputs) {
  const graph_node *g = &r->graph->nodes[index];
  ir_node n = {.op = g->op,
               .dtype = g->dtype,
               .shape = g->shape,
               .input_count = g->input_count,
               .inputs = inputs,
               .attributes = g->attributes,
               .constant = g->constant,
               .uniform = g->uniform,
               .tensor = g->tensor,
               .name = g->name,
               .source = index,
               .folded = 1};
  if (value) {
    n.op = value->tensor ? OP_parameter : OP_constant;
    n.input_count = 0;
    n.constant = value->values;
    n.tensor = value->tensor;
    n.uniform = !value->tensor && shape_count(n.shape) == 1;
    memset(&n.attributes, 0, sizeof n.attributes);
  }
  if (is_composed(g) && n.input_count > 0) n.input_count--;
  for (uint32_t k = 0; k < n.input_count; k++) inputs[k] = r->of_graph[g->inputs[k]];
  return n;
}

/* Replaces an operand by its row-major copy; false when out of memory. */
static bool make_dense(ir *r, const ir_node *n, uint32_t k) {
  const ir_node *x = &r->nodes[n->inputs[k]];
  const ir_node dense = {.op = OP_reshape,
                         .dtype = x->dtype,
                         .shape = x->shape,
                         .input_count = 1,
                         .inputs = &(uint32_t){n->inputs[k]},
                         .attributes.dense = true,
                         .source = x->source};
  n->inputs[k] = ir_add(r, &dense);
  return n->inputs[k] != IR_NONE;
}

/* Adds a call with dense operands, and its other results. Returns IR_NONE when out of memory. */
static uint32_t add_call(ir *r, const ir_node *n) {
  const graph_call_key *key = n->constant;
  for (uint32_t k = 0; k < n->input_count; k++)
    if (!make_dense(r, n, k)) return IR_NONE;
  const uint32_t before = r->count, call = ir_add(r, n);
  if (call < before) return call; /* an existing call with its results */
  for (uint32_t k = 1; call != IR_NONE && k < key->output_count; k++) {
    const ir_node result = {.op = OP_call_result,
                            .dtype = key->dtypes[k],
                            .shape = key->shapes[k],
                            .input_count = 1,
                            .inputs = &(uint32_t){call},
                            .attributes.axis = (int32_t)k,
                            .source = n->source};
    if (ir_add(r, &result) == IR_NONE) return IR_NONE;
  }
  return call;
}

/* A spline fit reads the coefficients (its last operand) as vectors, so they must be dense. */
static bool has_spline(const ir_node *n) {
  const compute_fit_problem *problem = n->constant;
  return n->op == OP_gaussian_fit && (problem->inputs & COMPUTE_FIT_WITH_SPLINE) != 0;
}

static void mark_live(ir *r) {
  for (uint32_t i = 0; i < r->output_count; i++) r->nodes[r->outputs[i]].live = true;
  for (uint32_t i = r->count; i-- > 0;) {
    if (!r->nodes[i].live) continue;
    for (uint32_t k = 0; k < r->nodes[i].input_count; k++)
      r->nodes[r->nodes[i].inputs[k]].live = true;
    const uint32_t last = r->nodes[i].op == OP_call ? ir_last_result(r, i) : i;
    for (uint32_t k = i; k < last; k++) r->nodes[k + 1].live = true; /* one kernel computes all */
  }
}

compute_status ir_capture(ir *r, const compute_graph *graph, const uint32_t *outputs,
                          uint32_t output_count, const ir_folded *folded, uint32_t folded_count,
                          bool simplify, const compute_device *kernels, scratch *memory) {
  *r = (ir){.graph = graph,
            .memory = memory,
            .simplify = simplify,
            .kernels = kernels,
            .output_count = output_count};
  uint32_t widest = 1;
  for (size_t i = 0; i < graph->count; i++)
    if (graph->nodes[i].input_count > widest) widest = graph->nodes[i].input_count;
  unsigned char *needed = scratch_take(memory, graph->count, 1);
  uint32_t *inputs = scratch_take(memory, widest, sizeof *inputs);
  r->of_graph = scratch_take(memory, graph->count, sizeof *r->of_graph);
  r->outputs = scratch_take(memory, output_count, sizeof *r->outputs);
  const ir_folded **values = scratch_take(memory, graph->count, sizeof *values);
  if (!needed || !inputs || !r->of_graph || !r->outputs || !values) goto short_of_memory;
  for (uint32_t i = 0; i < folded_count; i++) values[folded[i].graph_index] = &folded[i];
  mark_needed(r, outputs, output_count, needed, folded, folded_count);
  for (uint32_t i = 0; i < graph->count; i++) {
    if (!(needed[i] & 1)) continue;
    r->of_graph[i] = captured_form(r, i, values[i]);
    if (r->of_graph[i] != IR_NONE) continue;
    ir_node n = candidate(r, i, values[i], inputs);
    if (has_spline(&n) && !make_dense(r, &n, n.input_count - 1)) goto short_of_memory;
    r->of_graph[i] = n.op == OP_call ? add_call(r, &n)
                     : simplify      ? ir_rewrite(r, &n)
                                     : ir_add(r, &n);
    if (r->of_graph[i] == IR_NONE) goto short_of_memory;
  }
  for (uint32_t i = 0; i < output_count; i++) r->outputs[i] = r->of_graph[outputs[i]];
  mark_live(r);
  return COMPUTE_OK;

short_of_memory:
  return error_set(graph->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                   "not enough memory for the plan of %zu nodes", graph->count);
}
