/* SPDX-License-Identifier: MIT */
/* Clustering, from the last node to the first. When the pass reaches a node, all of its consumers
 * have clusters. The node joins the cluster with the earliest root, unless a rule forbids it. */
#include "plan/compile/fuse/fuse.h"

#include <string.h>

#include "core/base/error.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "core/tensor/tensor.h"

#define MAX_MEMBERS 96
#define MAX_STORED  8

typedef struct builder {
  const ir *r;
  scratch *memory;
  fusion *f;
  cluster *clusters; /* in order of creation */
  uint32_t count;
  uint32_t *edge_start; /* by node: its range in `edges` */
  uint32_t *edges;      /* consumers */
  unsigned char *is_output;
  unsigned char *is_update;  /* by node: the value of an assignment … */
  unsigned char *has_update; /* … by cluster: it contains one; only with updates_wait */
  uint32_t *stamp;           /* to count distinct operands */
  uint32_t stamp_now;
  uint32_t *head, *next; /* the members of a cluster as a list, newest first */
  uint32_t *size;        /* by cluster: number of members … */
  uint32_t *weight;      /* … and an upper bound of their instructions */
} builder;

static bool is_positional(const ir_node *n) {
  return n->op == OP_index || n->op == OP_random_uniform;
}

/* True if a kernel computes the node. */
static bool is_computed(const builder *b, uint32_t i) {
  const ir_node *n = &b->r->nodes[i];
  return ir_rule(n)->draft && (ir_category(n) != CATEGORY_VIEW || b->f->layouts[i].base == i);
}

/* True if the stored value is narrower than the value in a program's registers. Casts from f32 to
 * f16 and bf16 round in registers. From wider types they would round twice, so they must store. */
static bool must_store(const ir *r, const ir_node *n) {
  if (dtype_is_narrow(n->dtype)) return true;
  if (n->op != OP_cast) return false;
  const compute_dtype from = r->nodes[n->inputs[0]].dtype;
  if (!dtype_is_half(n->dtype)) return dtype_casts_in_store(from, n->dtype);
  return from != COMPUTE_BOOL && dtype_compute_type(from) != COMPUTE_F32;
}

/* True if the node is too expensive to compute more than once per element. */
static bool is_expensive(const ir_node *n) {
  switch (n->op) {
  case OP_neg:
  case OP_abs:
  case OP_square:
  case OP_relu:
  case OP_cast:
  case OP_add:
  case OP_sub:
  case OP_mul:
  case OP_minimum:
  case OP_maximum:
  case OP_select:
  case OP_logical_not:
  case OP_index: return false;
  default: return true;
  }
}

/* True if consumer `d` would evaluate `i` inside its own program; *part is the part of its
 * cluster. */
static bool inlines(const builder *b, uint32_t d, cluster_part *part) {
  const ir_node *n = &b->r->nodes[d];
  if (b->f->cluster_of[d] == IR_NONE) return false;
  if (fuse_is_elementwise(n) && n->op != OP_random_uniform) {
    *part = (cluster_part)b->f->part[d];
    return true;
  }
  *part = PART_PROLOGUE;
  return ir_rule(n)->has_prologue;
}

uint32_t fuse_instructions(const ir *r, const ir_node *n) {
  uint32_t count = is_positional(n) ? 4 : 1;
  for (uint32_t k = 0; k < n->input_count; k++) {
    const ir_node *x = &r->nodes[n->inputs[k]];
    count += fuse_is_immediate(x) || dtype_is_half(x->dtype);
  }
  return count;
}

static uint32_t count_new_operands(builder *b, uint32_t node) {
  const ir_node *n = &b->r->nodes[node];
  uint32_t count = 0;
  for (uint32_t k = 0; k < n->input_count; k++) {
    uint32_t u = n->inputs[k];
    if (b->stamp[u] == b->stamp_now || fuse_is_immediate(&b->r->nodes[u])) continue;
    b->stamp[u] = b->stamp_now;
    count++;
  }
  return count;
}

/* Counts the distinct operands that cluster c would load after `joining` joins it. */
static uint32_t operand_count(builder *b, uint32_t c, uint32_t joining) {
  b->stamp_now++;
  b->stamp[joining] = b->stamp_now;
  for (uint32_t m = b->head[c]; m != IR_NONE; m = b->next[m]) b->stamp[m] = b->stamp_now;
  uint32_t count = count_new_operands(b, joining);
  for (uint32_t m = b->head[c]; m != IR_NONE; m = b->next[m]) count += count_new_operands(b, m);
  return count;
}

static bool has_room(builder *b, uint32_t c, uint32_t joining, bool stored) {
  uint32_t outputs = b->clusters[c].output_count + (stored ? 1 : 0);
  return b->size[c] < MAX_MEMBERS && outputs <= MAX_STORED &&
         b->weight[c] + fuse_instructions(b->r, &b->r->nodes[joining]) <= FUSE_MAX_INSTRUCTIONS &&
         operand_count(b, c, joining) + outputs + 2 <= COMPUTE_MAX_OPERANDS;
}

/* Returns the cluster that node i may join: the one with the earliest root among its inlining
 * consumers. */
static uint32_t find_target(const builder *b, uint32_t i) {
  uint32_t best = IR_NONE;
  for (uint32_t e = b->edge_start[i]; e < b->edge_start[i + 1]; e++) {
    cluster_part part;
    if (!inlines(b, b->edges[e], &part)) continue;
    uint32_t c = b->f->cluster_of[b->edges[e]];
    if (best == IR_NONE || b->clusters[c].root < b->clusters[best].root) best = c;
  }
  return best;
}

/* True if i's consumers allow it in cluster c: consumers inside agree on one part, and consumers
 * outside come after the root. Sets `stored` if a node outside needs the value. */
static bool consumers_agree(const builder *b, uint32_t i, uint32_t c, cluster_part *part,
                            bool *stored) {
  bool found = false;
  for (uint32_t e = b->edge_start[i]; e < b->edge_start[i + 1]; e++) {
    uint32_t d = b->edges[e];
    cluster_part p;
    if (inlines(b, d, &p) && b->f->cluster_of[d] == c) {
      if (found && p != *part) return false;
      *part = p;
      found = true;
    } else {
      *stored = true;
      if (ir_category(&b->r->nodes[d]) != CATEGORY_STATE && d <= b->clusters[c].root) return false;
    }
  }
  return found;
}

static bool may_join_as_elementwise(const builder *b, const ir_node *n, const cluster *c,
                                    cluster_part part) {
  const ir_node *space = part == PART_PROLOGUE ? &b->r->nodes[b->r->nodes[c->anchor].inputs[0]]
                                               : &b->r->nodes[c->root];
  if (is_positional(n)) return c->anchor == IR_NONE && compute_shape_equal(n->shape, space->shape);
  return shape_count(n->shape) == shape_count(space->shape) || !is_expensive(n);
}

static uint64_t bytes_of(const ir_node *n) {
  return (uint64_t)shape_count(n->shape) * compute_dtype_size(n->dtype);
}

/* True if the temporaries that an anchor reads are larger than its result. */
static bool keeps_much(const builder *b, const ir_node *n) {
  uint64_t bytes = 0;
  for (uint32_t k = 0; k < n->input_count; k++) {
    const uint32_t base = b->f->layouts[n->inputs[k]].base;
    if (is_computed(b, base)) bytes += bytes_of(&b->r->nodes[base]);
  }
  return bytes > bytes_of(n);
}

static bool may_join_as_anchor(const builder *b, const ir_node *n, uint32_t target,
                               cluster_part part) {
  const cluster *c = &b->clusters[target];
  return part == PART_BODY && c->anchor == IR_NONE && !c->positional &&
         fuse_is_elementwise(&b->r->nodes[c->root]) &&
         compute_shape_equal(n->shape, b->r->nodes[c->root].shape) &&
         !(b->has_update[target] && keeps_much(b, n));
}

static void add_member(builder *b, uint32_t i, uint32_t target, cluster_part part, bool stored) {
  b->f->cluster_of[i] = target;
  b->f->part[i] = (unsigned char)part;
  b->f->stored[i] = stored;
  b->next[i] = b->head[target];
  b->head[target] = i;
  b->size[target]++;
  b->clusters[target].output_count += stored;
}

static bool try_join(builder *b, uint32_t i) {
  const ir_node *n = &b->r->nodes[i];
  bool anchor = ir_rule(n)->is_anchor;
  if ((!anchor && !fuse_is_elementwise(n)) || must_store(b->r, n)) return false;
  uint32_t target = find_target(b, i);
  if (target == IR_NONE) return false;
  cluster *c = &b->clusters[target];
  cluster_part part = PART_BODY;
  bool stored = b->is_output[i];
  if (!consumers_agree(b, i, target, &part, &stored)) return false;
  if (stored &&
      (part == PART_PROLOGUE || !compute_shape_equal(n->shape, b->r->nodes[c->root].shape)))
    return false;
  if (!(anchor ? may_join_as_anchor(b, n, target, part) : may_join_as_elementwise(b, n, c, part)))
    return false;
  if (!has_room(b, target, i, stored)) return false;
  add_member(b, i, target, anchor ? PART_ANCHOR : part, stored);
  b->weight[target] += fuse_instructions(b->r, n);
  b->has_update[target] |= b->is_update[i];
  c->positional |= is_positional(n);
  if (anchor) c->anchor = i;
  return true;
}

/* The results of a call form one kernel that stores all of them. */
static bool join_results(builder *b, uint32_t i) {
  const uint32_t call = ir_call_of(b->r, i);
  if (call == IR_NONE || i == ir_last_result(b->r, call)) return false;
  add_member(b, i, b->f->cluster_of[i + 1], PART_BODY, true);
  return true;
}

/* True if an operand of node d is in its cluster. */
static bool has_inner(const builder *b, uint32_t d) {
  const ir_node *n = &b->r->nodes[d];
  for (uint32_t k = 0; k < n->input_count; k++)
    if (b->f->cluster_of[n->inputs[k]] == b->f->cluster_of[d]) return true;
  return false;
}

/* A concat or embed joins the only one that reads it, which copies its operands. */
static bool join_placed(builder *b, uint32_t i) {
  if (!ir_rule(&b->r->nodes[i])->places || b->is_output[i] ||
      b->edge_start[i + 1] - b->edge_start[i] != 1)
    return false;
  const uint32_t reader = b->edges[b->edge_start[i]], target = b->f->cluster_of[reader];
  if (!ir_rule(&b->r->nodes[reader])->places || target == IR_NONE ||
      b->size[target] == MAX_MEMBERS || has_inner(b, reader))
    return false;
  add_member(b, i, target, PART_BODY, false);
  return true;
}

static void start_cluster(builder *b, uint32_t i) {
  const ir_node *n = &b->r->nodes[i];
  const uint32_t call = ir_call_of(b->r, i);
  b->clusters[b->count] = (cluster){.root = i,
                                    .anchor = ir_rule(n)->is_anchor ? i : call,
                                    .output_count = 1,
                                    .positional = is_positional(n)};
  b->f->cluster_of[i] = b->count;
  b->f->part[i] = (unsigned char)(ir_rule(n)->is_anchor ? PART_ANCHOR : PART_BODY);
  b->f->stored[i] = 1;
  b->next[i] = IR_NONE;
  b->head[b->count] = i;
  b->size[b->count] = 1;
  b->weight[b->count] = fuse_instructions(b->r, n);
  b->has_update[b->count] = b->is_update[i];
  b->count++;
}

/* Lists the consumers of all nodes in one array, with one range per node. */
static bool list_consumers(builder *b) {
  const ir *r = b->r;
  uint32_t edges = 0;
  for (uint32_t i = 0; i < r->count; i++) edges += r->nodes[i].live ? r->nodes[i].input_count : 0;
  b->edge_start = scratch_take(b->memory, (size_t)r->count + 2, sizeof *b->edge_start);
  b->edges = scratch_take(b->memory, edges, sizeof *b->edges);
  if (!b->edge_start || !b->edges) return false;
  uint32_t *fill = b->edge_start + 1; /* counts, then positions; finally shifted by one */
  for (uint32_t i = 0; i < r->count; i++)
    for (uint32_t k = 0; r->nodes[i].live && k < r->nodes[i].input_count; k++)
      fill[r->nodes[i].inputs[k] + 1]++;
  for (uint32_t i = 1; i <= r->count; i++) fill[i] += fill[i - 1];
  for (uint32_t i = 0; i < r->count; i++)
    for (uint32_t k = 0; r->nodes[i].live && k < r->nodes[i].input_count; k++)
      b->edges[fill[r->nodes[i].inputs[k]]++] = i;
  return true;
}

/* Sorts the members ascending and the clusters by their roots. */
static bool finish(builder *b) {
  fusion *f = b->f;
  f->clusters = scratch_take(b->memory, b->count, sizeof *f->clusters);
  if (!f->clusters) return false;
  f->cluster_count = b->count;
  for (uint32_t c = 0; c < b->count; c++) {
    uint32_t place = b->count - 1 - c; /* clusters were created from the last root to the first */
    cluster *done = &f->clusters[place];
    *done = b->clusters[c];
    done->members = scratch_take(b->memory, b->size[c], sizeof *done->members);
    if (!done->members) return false;
    for (uint32_t m = b->head[c]; m != IR_NONE; m = b->next[m]) {
      done->members[done->member_count++] = m; /* the list starts with the newest, lowest node */
      f->cluster_of[m] = place;
    }
  }
  return true;
}

/* ---- Layouts --------------------------------------------------------------------------------- */

/* Views become offsets and strides. Only a reshape that strides cannot express is copied. */

static void dense(const ir_node *n, uint32_t self, layout *l) {
  *l = (layout){.base = self};
  if (n->op == OP_parameter)
    memcpy(l->stride, n->tensor->strides, sizeof l->stride);
  else if (!fuse_is_immediate(n))
    shape_dense_strides(n->shape, l->stride);
}

bool layout_view(const ir_node *n, const ir_node *x, const layout *from, layout *l) {
  const graph_attributes *a = &n->attributes;
  *l = *from;
  switch (n->op) {
  case OP_transpose:
    for (int32_t i = 0; i < n->shape.rank; i++) l->stride[i] = from->stride[a->order[i]];
    return true;
  case OP_slice:
    l->offset += a->start * from->stride[a->axis];
    l->stride[a->axis] = from->stride[a->axis] * a->step;
    return true;
  case OP_broadcast: return shape_broadcast_strides(x->shape, from->stride, n->shape, l->stride);
  case OP_reshape:
    return shape_reshape_strides(x->shape, from->stride, n->shape, l->stride) &&
           (!a->dense || shape_is_dense(n->shape, l->stride));
  default: return false;
  }
}

/* If a kernel can write rows anywhere and only a transpose reads its result, the kernel writes the
 * transposed layout directly. The heads of an attention then become contiguous rows without a
 * copy. */
static void write_turned(builder *b, const ir_node *n) {
  layout *layouts = b->f->layouts;
  const uint32_t x = n->inputs[0];
  const int32_t last = n->shape.rank - 1;
  if (n->op != OP_transpose || !ir_rule(&b->r->nodes[x])->any_rows || b->is_output[x]) return;
  if (n->attributes.order[last] != last || b->edge_start[x + 1] - b->edge_start[x] != 1) return;
  int64_t strides[COMPUTE_MAX_RANK];
  shape_dense_strides(n->shape, strides);
  for (int32_t i = 0; i <= last; i++) layouts[x].stride[n->attributes.order[i]] = strides[i];
}

/* Fills in layouts[i] for every live node. A view that needs a copy is its own base. */
static void resolve_layouts(builder *b) {
  layout *layouts = b->f->layouts;
  for (uint32_t i = 0; i < b->r->count; i++) {
    const ir_node *n = &b->r->nodes[i];
    if (!n->live) continue;
    if (ir_category(n) == CATEGORY_VIEW) {
      write_turned(b, n);
      if (layout_view(n, &b->r->nodes[n->inputs[0]], &layouts[n->inputs[0]], &layouts[i])) continue;
    }
    dense(n, i, &layouts[i]);
  }
}

compute_status fuse_nodes(const ir *r, fuse_options options, scratch *memory, fusion *result) {
  builder b = {.r = r, .memory = memory, .f = result};
  uint32_t n = r->count;
  *result = (fusion){0};
  result->layouts = scratch_take(memory, n, sizeof *result->layouts);
  result->cluster_of = scratch_take(memory, n, sizeof *result->cluster_of);
  result->part = scratch_take(memory, n, 1);
  result->stored = scratch_take(memory, n, 1);
  result->within = scratch_take(memory, n, sizeof *result->within);
  b.clusters = scratch_take(memory, n, sizeof *b.clusters);
  b.is_output = scratch_take(memory, n, 1);
  b.is_update = scratch_take(memory, n, 1);
  b.has_update = scratch_take(memory, n, 1);
  b.stamp = scratch_take(memory, n, sizeof *b.stamp);
  b.head = scratch_take(memory, n, sizeof *b.head);
  b.next = scratch_take(memory, n, sizeof *b.next);
  b.size = scratch_take(memory, n, sizeof *b.size);
  b.weight = scratch_take(memory, n, sizeof *b.weight);
  if (!result->layouts || !result->cluster_of || !result->part || !result->stored ||
      !result->within || !b.clusters || !b.is_output || !b.is_update || !b.has_update || !b.stamp ||
      !b.head || !b.next || !b.size || !b.weight || !list_consumers(&b))
    goto short_of_memory;
  for (uint32_t i = 0; i < n; i++) result->cluster_of[i] = result->within[i] = IR_NONE;
  for (uint32_t i = 0; i < r->output_count; i++) b.is_output[r->outputs[i]] = 1;
  for (uint32_t i = 0; options.updates_wait && i < n; i++)
    if (r->nodes[i].live && r->nodes[i].op == OP_assign) b.is_update[r->nodes[i].inputs[1]] = 1;
  resolve_layouts(&b);
  for (uint32_t i = n; i-- > 0;) {
    if (!r->nodes[i].live || !is_computed(&b, i)) continue;
    if (join_results(&b, i) || (options.fuse && (try_join(&b, i) || join_placed(&b, i)))) continue;
    start_cluster(&b, i);
  }
  if (!finish(&b)) goto short_of_memory;
  return COMPUTE_OK;

short_of_memory:
  return error_set(r->graph->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                   "not enough memory to fuse %u nodes", (unsigned)n);
}
