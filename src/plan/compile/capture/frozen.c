/* SPDX-License-Identifier: MIT */
/* Values of sub-graphs that depend on frozen parameters, such as converted weights. A key describes
 * the sub-graph, so plans of other graphs and shapes find the value. */
#include "plan/compile/capture/ir.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/device/derived.h"
#include "core/tensor/tensor.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"

enum {
  MOST_MEMBERS = 512, /* nodes of one sub-graph; larger ones are left to the run */
  MOST_OUTPUTS = 256, /* values that one plan computes */
  WHOLE_BYTES = 1024  /* a larger constant is a pair of hashes in a key */
};

/* One value to find or to compute. */
typedef struct value {
  uint32_t node;
  memory_buffer *source; /* keeps the value */
  derived_key key;       /* in scratch memory */
} value;

typedef struct work {
  const compute_graph *graph;
  uint32_t flags;
  fold_function *compute;
  scratch *memory;
  folding *result;
  uint32_t *number;  /* of each graph node, in its sub-graph, from 1; 0: not a member */
  uint32_t *members; /* MOST_MEMBERS of them, in the graph's order */
  uint32_t member_count;
  unsigned char *key; /* the key in progress; in scratch memory */
  size_t key_count, key_capacity;
} work;

/* ---- Keys ------------------------------------------------------------------------------------ */

static bool put(work *w, const void *data, size_t bytes) {
  if (w->key_count + bytes > w->key_capacity) {
    const size_t capacity = 2 * (w->key_capacity + bytes);
    unsigned char *larger = scratch_take(w->memory, capacity, 1);
    if (!larger) return false;
    if (w->key_count > 0) memcpy(larger, w->key, w->key_count);
    w->key = larger;
    w->key_capacity = capacity;
  }
  if (bytes > 0) memcpy(w->key + w->key_count, data, bytes);
  w->key_count += bytes;
  return true;
}

static bool put_number(work *w, uint64_t number) {
  return put(w, &number, sizeof number);
}

static bool put_shape(work *w, compute_shape shape) {
  return put_number(w, (uint64_t)shape.rank) &&
         put(w, shape.size, sizeof *shape.size * (size_t)shape.rank);
}

static bool put_block(work *w, const graph_node *n) {
  size_t bytes = graph_block_bytes(n->op);
  if (n->op == OP_constant)
    bytes = (n->uniform ? 1 : (size_t)shape_count(n->shape)) * compute_dtype_size(n->dtype);
  if (!put_number(w, bytes)) return false;
  if (bytes <= WHOLE_BYTES) return put(w, n->constant, bytes);
  return put_number(w, hash_bytes(HASH_SEED, n->constant, bytes)) &&
         put_number(w, hash_bytes(~HASH_SEED, n->constant, bytes));
}

static bool put_parameter(work *w, const compute_tensor *t) {
  return put_number(w, t->buffer->serial) && put_number(w, (uint64_t)t->offset) &&
         put(w, t->strides, sizeof *t->strides * (size_t)t->shape.rank);
}

static bool put_node(work *w, const graph_node *n) {
  if (!put_number(w, (uint64_t)n->op << 32 | (uint64_t)n->dtype << 1 | n->uniform) ||
      !put_shape(w, n->shape) || !put(w, &n->attributes, sizeof n->attributes) ||
      !put_block(w, n) || !put_number(w, n->input_count))
    return false;
  for (uint32_t k = 0; k < n->input_count; k++)
    if (!put_number(w, w->number[n->inputs[k]])) return false;
  return n->op != OP_parameter || put_parameter(w, n->tensor);
}

static bool add_member(work *w, uint32_t node) {
  if (w->number[node]) return true;
  if (w->member_count == MOST_MEMBERS) return false;
  w->members[w->member_count++] = node;
  w->number[node] = 1;
  return true;
}

static int compare_members(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* Collects the sub-graph of a node. Returns false if it is too large. */
static bool collect(work *w, uint32_t node) {
  bool fits = add_member(w, node);
  for (uint32_t i = 0; fits && i < w->member_count; i++) {
    const graph_node *n = &w->graph->nodes[w->members[i]];
    for (uint32_t k = 0; fits && k < n->input_count; k++) fits = add_member(w, n->inputs[k]);
  }
  if (!fits) return false;
  qsort(w->members, w->member_count, sizeof *w->members, compare_members);
  for (uint32_t i = 0; i < w->member_count; i++) w->number[w->members[i]] = i + 1;
  return true;
}

static void forget_members(work *w) {
  for (uint32_t i = 0; i < w->member_count; i++) w->number[w->members[i]] = 0;
  w->member_count = 0;
  w->key_count = 0;
}

/* Describes the sub-graph of v->node, with the first parameter as the source. *fits becomes false
 * if it is too large. */
static compute_status describe(work *w, value *v, bool *fits) {
  compute_status status = COMPUTE_OK;
  *fits = collect(w, v->node);
  if (*fits && !put_number(w, w->flags)) status = COMPUTE_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; *fits && status == COMPUTE_OK && i < w->member_count; i++) {
    const graph_node *n = &w->graph->nodes[w->members[i]];
    if (n->op == OP_parameter && !v->source) v->source = n->tensor->buffer;
    if (!put_node(w, n)) status = COMPUTE_ERROR_OUT_OF_MEMORY;
  }
  if (*fits && status == COMPUTE_OK) {
    void *bytes = scratch_take(w->memory, w->key_count, 1);
    if (bytes) memcpy(bytes, w->key, w->key_count);
    v->key = (derived_key){bytes, w->key_count};
    status = bytes ? COMPUTE_OK : COMPUTE_ERROR_OUT_OF_MEMORY;
  }
  forget_members(w);
  return status;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static void add_result(work *w, uint32_t node, compute_tensor *tensor) {
  folding *f = w->result;
  f->tensors[f->count] = tensor;
  f->values[f->count++] = (ir_folded){.graph_index = node, .tensor = tensor};
}

/* Adds the value if it is known. Returns false if it must be computed. */
static bool add_known(work *w, const value *v) {
  const graph_node *n = &w->graph->nodes[v->node];
  memory_buffer *buffer = derived_find(v->source, v->key);
  compute_tensor *tensor = NULL;
  if (buffer && tensor_create_over(buffer, n->dtype, n->shape, &tensor) == COMPUTE_OK)
    add_result(w, v->node, tensor);
  buffer_release(buffer);
  return tensor != NULL;
}

/* Keeps a computed value for other plans, or takes the one that another thread has kept. */
static compute_status keep(work *w, const value *v, compute_tensor *made) {
  const graph_node *n = &w->graph->nodes[v->node];
  compute_tensor_freeze(made);
  memory_buffer *buffer = buffer_retain(made->buffer);
  derived_keep(v->source, v->key, &buffer);
  compute_tensor *tensor = NULL;
  const compute_status status = tensor_create_over(buffer, n->dtype, n->shape, &tensor);
  if (status == COMPUTE_OK) add_result(w, v->node, tensor);
  buffer_release(buffer);
  return status;
}

/* Values that cannot be computed, for example for an index out of range, are left to the run. */
static compute_status compute_values(work *w, const value *values, uint32_t count) {
  compute_binding *bindings = scratch_take(w->memory, count, sizeof *bindings);
  if (!bindings) return COMPUTE_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < count; i++) bindings[i].node = graph_handle(w->graph, values[i].node);
  compute_status status = COMPUTE_OK;
  if (w->compute(values[0].source->device, w->graph, w->flags, bindings, count, w->memory) ==
      COMPUTE_OK)
    for (uint32_t i = 0; status == COMPUTE_OK && i < count; i++)
      status = keep(w, &values[i], bindings[i].tensor);
  for (uint32_t i = 0; i < count; i++) compute_tensor_release(bindings[i].tensor);
  return status;
}

compute_status fold_frozen(const compute_graph *graph, const uint32_t *nodes, uint32_t count,
                           uint32_t flags, fold_function *compute, scratch *memory,
                           folding *result) {
  work w = {.graph = graph, .flags = flags, .compute = compute, .memory = memory, .result = result};
  w.number = scratch_take(memory, graph->count, sizeof *w.number);
  w.members = scratch_take(memory, MOST_MEMBERS, sizeof *w.members);
  value *missing = scratch_take(memory, count, sizeof *missing);
  uint32_t missing_count = 0;
  compute_status status =
      w.number && w.members && missing ? COMPUTE_OK : COMPUTE_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; status == COMPUTE_OK && i < count; i++) {
    value v = {.node = nodes[i]};
    bool fits;
    status = describe(&w, &v, &fits);
    if (status == COMPUTE_OK && fits && !add_known(&w, &v)) missing[missing_count++] = v;
  }
  for (uint32_t i = 0; status == COMPUTE_OK && i < missing_count; i += MOST_OUTPUTS) {
    const uint32_t left = missing_count - i;
    status = compute_values(&w, &missing[i], left < MOST_OUTPUTS ? left : MOST_OUTPUTS);
  }
  return status;
}
