/* SPDX-License-Identifier: MIT */
/* Two passes after fusion: readers recompute cheap kernels, and small updates become one kernel.
 *
 * A separate kernel that does little more than copy, such as x − mean for every channel, costs a
 * pass over memory. Its value takes as much memory as x, which exists anyway. The readers can read
 * x and subtract instead. So the pass duplicates such a node for each kernel that reads it, and the
 * next fusion merges each copy into its reader. Recomputed values have the same bits, because only
 * values in a compute dtype of programs are duplicated. */
#include "plan/compile/fuse/fuse.h"

#include <string.h>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"

enum {
  SMALL_SHARE = 16, /* operands this many times smaller than the value count as free */
  MOST_READERS = 8, /* limit on the kernels that recompute one node */
  MOST_MEMBERS = 12 /* limit on the members of a reader: it needs room for the node */
};

static bool is_cheap(const ir_node *n) {
  switch (n->op) {
  case OP_neg:
  case OP_abs:
  case OP_relu:
  case OP_add:
  case OP_sub:
  case OP_mul:
  case OP_minimum:
  case OP_maximum:
  case OP_select: return n->dtype == dtype_compute_type(n->dtype);
  default: return false;
  }
}

/* True if all operands except one are small, and that one is in memory anyway. */
static bool reads_one_tensor(const ir *r, const fusion *f, const ir_node *n) {
  const int64_t count = shape_count(n->shape);
  uint32_t large = IR_NONE;
  for (uint32_t k = 0; k < n->input_count; k++) {
    const ir_node *x = &r->nodes[n->inputs[k]];
    if (fuse_is_immediate(x) || shape_count(x->shape) <= count / SMALL_SHARE) continue;
    if (large != IR_NONE && large != n->inputs[k]) return false;
    large = n->inputs[k];
  }
  if (large == IR_NONE) return false;
  const ir_node *x = &r->nodes[large];
  const uint32_t base = f->layouts[large].base;
  return base == large && compute_shape_equal(x->shape, n->shape) &&
         compute_dtype_size(x->dtype) <= compute_dtype_size(n->dtype) &&
         (f->cluster_of[base] == IR_NONE || f->stored[base]);
}

/* True if reader `d` evaluates its operands inside its program. */
static bool takes_in(const ir *r, const fusion *f, uint32_t d) {
  const ir_node *n = &r->nodes[d];
  const uint32_t c = f->cluster_of[d];
  if (c == IR_NONE || f->clusters[c].member_count > MOST_MEMBERS) return false;
  return (fuse_is_elementwise(n) && n->op != OP_random_uniform) || ir_rule(n)->has_prologue;
}

/* Finds the nodes that are separate kernels and could be recomputed. */
static void find_candidates(const ir *r, const fusion *f, unsigned char *candidate) {
  for (uint32_t i = 0; i < r->count; i++) {
    const uint32_t c = r->nodes[i].live ? f->cluster_of[i] : IR_NONE;
    candidate[i] = c != IR_NONE && f->clusters[c].member_count == 1 && f->clusters[c].root == i &&
                   f->clusters[c].anchor == IR_NONE && is_cheap(&r->nodes[i]) &&
                   reads_one_tensor(r, f, &r->nodes[i]);
  }
  for (uint32_t i = 0; i < r->output_count; i++) candidate[r->outputs[i]] = 0;
  for (uint32_t d = 0; d < r->count; d++) {
    const ir_node *n = &r->nodes[d];
    for (uint32_t k = 0; n->live && k < n->input_count; k++)
      if (candidate[n->inputs[k]] && !takes_in(r, f, d)) candidate[n->inputs[k]] = 0;
  }
  /* A candidate's operands must not be duplicated themselves. */
  for (uint32_t i = 0; i < r->count; i++)
    for (uint32_t k = 0; candidate[i] && k < r->nodes[i].input_count; k++)
      if (candidate[r->nodes[i].inputs[k]]) candidate[i] = 0;
}

/* Counts the clusters that read each candidate: 0 for other nodes and for too many readers.
 * readers[i * MOST_READERS …] lists them. */
static bool count_readers(const ir *r, const fusion *f, const unsigned char *candidate,
                          uint32_t *readers, unsigned char *count) {
  bool any = false;
  for (uint32_t d = 0; d < r->count; d++) {
    const ir_node *n = &r->nodes[d];
    for (uint32_t k = 0; n->live && k < n->input_count; k++) {
      const uint32_t i = n->inputs[k];
      if (!candidate[i] || count[i] > MOST_READERS) continue;
      uint32_t *list = readers + (size_t)i * MOST_READERS;
      unsigned char at = 0;
      while (at < count[i] && list[at] != f->cluster_of[d]) at++;
      if (at < count[i]) continue;
      if (at < MOST_READERS) list[at] = f->cluster_of[d];
      count[i]++;
    }
  }
  for (uint32_t i = 0; i < r->count; i++) {
    if (count[i] > MOST_READERS) count[i] = 0;
    any |= count[i] > 0;
  }
  return any;
}

/* Returns the new index of operand `i` for a reader in cluster `c`. */
static uint32_t place_for(uint32_t i, uint32_t c, const uint32_t *place, const uint32_t *readers,
                          const unsigned char *count) {
  for (unsigned char at = 0; at < count[i]; at++)
    if (readers[(size_t)i * MOST_READERS + at] == c) return place[i] + at;
  return place[i];
}

static compute_status rebuild(ir *r, const fusion *f, const uint32_t *readers,
                              const unsigned char *count, uint32_t total) {
  ir_node *nodes = scratch_take(r->memory, total, sizeof *nodes);
  uint32_t *place = scratch_take(r->memory, r->count, sizeof *place);
  if (!nodes || !place) return COMPUTE_ERROR_OUT_OF_MEMORY;
  uint32_t made = 0;
  for (uint32_t i = 0; i < r->count; i++) {
    const ir_node *n = &r->nodes[i];
    place[i] = made;
    for (unsigned char at = 0; at == 0 || at < count[i]; at++) {
      ir_node *copy = &nodes[made++];
      *copy = *n;
      if (at > 0) copy->folded = 0; /* counted once */
      copy->inputs = scratch_take(r->memory, n->input_count, sizeof *copy->inputs);
      if (!copy->inputs) return COMPUTE_ERROR_OUT_OF_MEMORY;
      for (uint32_t k = 0; k < n->input_count; k++)
        copy->inputs[k] =
            place_for(n->inputs[k], n->live ? f->cluster_of[i] : IR_NONE, place, readers, count);
    }
  }
  for (uint32_t i = 0; i < r->output_count; i++) r->outputs[i] = place[r->outputs[i]];
  for (size_t i = 0; i < r->graph->count; i++)
    if (r->of_graph[i] < r->count) r->of_graph[i] = place[r->of_graph[i]];
  r->nodes = nodes;
  r->count = r->capacity = made;
  return COMPUTE_OK;
}

compute_status repeat_cheap(ir *r, const fusion *f, bool *changed) {
  compute_status status = COMPUTE_OK;
  unsigned char *candidate = scratch_take(r->memory, r->count, 1);
  unsigned char *count = scratch_take(r->memory, r->count, 1);
  *changed = false;
  if (!candidate || !count) goto short_of_memory;
  find_candidates(r, f, candidate);
  if (r->count == 0 || !memchr(candidate, 1, r->count)) return COMPUTE_OK;
  uint32_t *readers = scratch_take(r->memory, (size_t)r->count * MOST_READERS, sizeof *readers);
  if (!readers) goto short_of_memory;
  if (!count_readers(r, f, candidate, readers, count)) return COMPUTE_OK;
  uint32_t total = r->count;
  for (uint32_t i = 0; i < r->count; i++) total += count[i] > 1 ? count[i] - 1u : 0;
  if (total == r->count) return COMPUTE_OK;
  status = rebuild(r, f, readers, count, total);
  *changed = status == COMPUTE_OK;
  if (status == COMPUTE_OK) return status;

short_of_memory:
  return error_set(r->graph->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                   "not enough memory to fuse %u nodes", (unsigned)r->count);
}

/* ---- Small updates as one kernel ------------------------------------------------------------- */

/* Where possible, an optimizer's update of a weight is part of the kernel that computes the
 * gradient. Many elementwise kernels on a few elements remain: gains and biases of normalisation,
 * running statistics, counters, and updates that need all gradients first. Launching such a kernel
 * takes longer than its work, on GPUs many times longer. So updates of one shape become one kernel
 * with several outputs.
 *
 * Only kernels whose results are read by nothing but assignments are merged. The order of the
 * others (fuse.h) is unchanged. */

enum {
  MOST_ELEMENTS = 1 << 16, /* per result; for larger kernels the launch cost does not matter */
  MOST_OUTPUTS = 8,
  MOST_MERGED_MEMBERS = 64,
  MOST_TRIES = 64 /* limit on the later kernels of its shape to try */
};

typedef struct merging {
  const ir *r;
  fusion *f;
  scratch *memory;
  unsigned char *is_update; /* by cluster */
  uint32_t *stamp, now;     /* to count distinct operands */
  uint32_t *next;           /* by cluster: the next update of its shape, or IR_NONE */
} merging;

static bool is_candidate(const merging *m, uint32_t c) {
  const cluster *k = &m->f->clusters[c];
  return k->anchor == IR_NONE && !k->positional && fuse_is_elementwise(&m->r->nodes[k->root]) &&
         m->r->nodes[k->root].op != OP_random_uniform &&
         shape_count(m->r->nodes[k->root].shape) <= MOST_ELEMENTS;
}

/* Clears the mark of clusters whose values are used in a computation. */
static void find_updates(merging *m) {
  const fusion *f = m->f;
  for (uint32_t c = 0; c < f->cluster_count; c++) m->is_update[c] = is_candidate(m, c);
  for (uint32_t d = 0; d < m->r->count; d++) {
    const ir_node *n = &m->r->nodes[d];
    for (uint32_t k = 0; n->live && n->op != OP_assign && k < n->input_count; k++) {
      const uint32_t from = f->cluster_of[f->layouts[n->inputs[k]].base];
      if (from != IR_NONE && from != f->cluster_of[d]) m->is_update[from] = 0;
    }
  }
  for (uint32_t i = 0; i < m->r->output_count; i++) {
    const uint32_t node = m->r->outputs[i];
    const uint32_t from = f->cluster_of[f->layouts[node].base];
    if (ir_category(&m->r->nodes[node]) != CATEGORY_STATE && from != IR_NONE)
      m->is_update[from] = 0;
  }
}

static uint32_t count_operands(merging *m, const cluster *k) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < k->member_count; i++) m->stamp[k->members[i]] = m->now;
  for (uint32_t i = 0; i < k->member_count; i++) {
    const ir_node *n = &m->r->nodes[k->members[i]];
    for (uint32_t o = 0; o < n->input_count; o++) {
      const uint32_t node = n->inputs[o];
      if (m->stamp[node] == m->now || fuse_is_immediate(&m->r->nodes[node])) continue;
      m->stamp[node] = m->now;
      count++;
    }
  }
  return count;
}

static uint32_t count_instructions(const merging *m, const cluster *k) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < k->member_count; i++)
    count += fuse_instructions(m->r, &m->r->nodes[k->members[i]]);
  return count;
}

static bool fit_together(merging *m, const cluster *a, const cluster *b) {
  const uint32_t outputs = a->output_count + b->output_count;
  if (outputs > MOST_OUTPUTS || a->member_count + b->member_count > MOST_MERGED_MEMBERS ||
      !compute_shape_equal(m->r->nodes[a->root].shape, m->r->nodes[b->root].shape))
    return false;
  if (count_instructions(m, a) + count_instructions(m, b) > FUSE_MAX_INSTRUCTIONS) return false;
  m->now++;
  return count_operands(m, a) + count_operands(m, b) + outputs + 2 <= COMPUTE_MAX_OPERANDS;
}

/* Merges cluster `a` into the later cluster `b`. */
static bool merge(merging *m, uint32_t a, uint32_t b) {
  cluster *from = &m->f->clusters[a], *to = &m->f->clusters[b];
  const uint32_t count = from->member_count + to->member_count;
  uint32_t *members = scratch_take(m->memory, count, sizeof *members);
  if (!members) return false;
  for (uint32_t i = 0, x = 0, y = 0; i < count; i++) {
    const bool first =
        y == to->member_count || (x < from->member_count && from->members[x] < to->members[y]);
    members[i] = first ? from->members[x++] : to->members[y++];
  }
  for (uint32_t i = 0; i < from->member_count; i++) m->f->cluster_of[from->members[i]] = b;
  to->members = members;
  to->member_count = count;
  to->output_count += from->output_count;
  from->member_count = 0;
  m->is_update[a] = 0;
  return true;
}

static bool same_shape(const merging *m, uint32_t a, uint32_t b) {
  return compute_shape_equal(m->r->nodes[m->f->clusters[a].root].shape,
                             m->r->nodes[m->f->clusters[b].root].shape);
}

static uint64_t shape_hash(const merging *m, uint32_t c) {
  const compute_shape *shape = &m->r->nodes[m->f->clusters[c].root].shape;
  const uint64_t h = hash_u64(HASH_SEED, (uint64_t)shape->rank);
  return hash_bytes(h, shape->size, sizeof *shape->size * (size_t)shape->rank);
}

/* Lists the updates of each shape in ascending order. */
static bool list_by_shape(merging *m) {
  uint32_t size = 16;
  while (size < 2 * m->f->cluster_count) size *= 2;
  uint32_t *first = scratch_take(m->memory, size, sizeof *first); /* by hash: the list so far */
  m->next = scratch_take(m->memory, m->f->cluster_count, sizeof *m->next);
  if (!first || !m->next) return false;
  memset(first, 0xff, sizeof *first * size);
  for (uint32_t c = m->f->cluster_count; c-- > 0;) {
    if (!m->is_update[c]) continue;
    uint32_t slot = (uint32_t)shape_hash(m, c) & (size - 1);
    while (first[slot] != IR_NONE && !same_shape(m, first[slot], c)) slot = (slot + 1) & (size - 1);
    m->next[c] = first[slot];
    first[slot] = c;
  }
  return true;
}

/* Returns the next update of a's shape that has room. Removes full ones from the list. */
static uint32_t find_next(merging *m, uint32_t a) {
  while (m->next[a] != IR_NONE && m->f->clusters[m->next[a]].output_count >= MOST_OUTPUTS)
    m->next[a] = m->next[m->next[a]];
  return m->next[a];
}

/* Merges an update into the first later one with room for it. */
static bool merge_one(merging *m, uint32_t a) {
  if (m->f->clusters[a].output_count >= MOST_OUTPUTS) return true;
  uint32_t tries = MOST_TRIES;
  for (uint32_t b = find_next(m, a); b != IR_NONE && tries > 0; b = find_next(m, b), tries--)
    if (fit_together(m, &m->f->clusters[a], &m->f->clusters[b])) return merge(m, a, b);
  return true;
}

static void drop_empty(merging *m) {
  fusion *f = m->f;
  uint32_t kept = 0;
  for (uint32_t c = 0; c < f->cluster_count; c++) {
    if (f->clusters[c].member_count == 0) continue;
    f->clusters[kept] = f->clusters[c];
    for (uint32_t i = 0; i < f->clusters[kept].member_count; i++)
      f->cluster_of[f->clusters[kept].members[i]] = kept;
    kept++;
  }
  f->cluster_count = kept;
}

compute_status merge_updates(const ir *r, scratch *memory, fusion *f) {
  merging m = {.r = r, .f = f, .memory = memory};
  m.is_update = scratch_take(memory, f->cluster_count, 1);
  m.stamp = scratch_take(memory, r->count, sizeof *m.stamp);
  bool room = m.is_update && m.stamp;
  if (room) {
    find_updates(&m);
    room = list_by_shape(&m);
  }
  for (uint32_t a = 0; room && a < f->cluster_count; a++)
    if (m.is_update[a]) room = merge_one(&m, a);
  if (room) drop_empty(&m);
  if (room) return COMPUTE_OK;
  return error_set(r->graph->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                   "not enough memory to merge %u kernels", (unsigned)f->cluster_count);
}
