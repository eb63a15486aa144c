/* An optimizer's update of a weight is part of the kernel that makes its gradient wherever that is
 * possible. What is left are many elementwise kernels on a few elements each: gains and biases of
 * normalisation, their running statistics, counters, and everything whose gradients must all be
 * known first. Starting such a kernel takes longer than its work, on GPUs many times longer. So
 * those of one shape become one kernel with several outputs.
 *
 * Only kernels whose results nothing but assignments reads are merged: the order in which the
 * others run (fuse.h) is not touched. */
#include "plan/fuse/merge.h"

#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "type/shape.h"

enum {
  MOST_ELEMENTS = 1 << 16, /* of one result: with more, starting the kernel does not matter */
  MOST_OUTPUTS = 8,
  MOST_MEMBERS = 64,
  MOST_TRIES = 64 /* later kernels of its shape that one kernel is tried with */
};

typedef struct merging {
  const ir *r;
  fusion *f;
  scratch *memory;
  unsigned char *is_update; /* by cluster */
  uint32_t *stamp, now;     /* for counting distinct operands */
  uint32_t *next;           /* by cluster: the next update of its shape, IR_NONE */
} merging;

static bool is_candidate(const merging *m, uint32_t c) {
  const cluster *k = &m->f->clusters[c];
  return k->anchor == IR_NONE && !k->positional && fuse_is_elementwise(&m->r->nodes[k->root]) &&
         m->r->nodes[k->root].op != OP_random_uniform &&
         shape_count(m->r->nodes[k->root].shape) <= MOST_ELEMENTS;
}

/* Clears the mark of clusters with a value that somebody computes with. */
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
  if (outputs > MOST_OUTPUTS || a->member_count + b->member_count > MOST_MEMBERS ||
      !compute_shape_equal(m->r->nodes[a->root].shape, m->r->nodes[b->root].shape))
    return false;
  if (count_instructions(m, a) + count_instructions(m, b) > FUSE_MAX_INSTRUCTIONS) return false;
  m->now++;
  return count_operands(m, a) + count_operands(m, b) + outputs + 2 <= COMPUTE_MAX_OPERANDS;
}

/* Cluster `a` becomes part of the later one `b`. */
static bool merge(merging *m, uint32_t a, uint32_t b) {
  cluster *from = &m->f->clusters[a], *to = &m->f->clusters[b];
  const uint32_t count = from->member_count + to->member_count;
  uint32_t *members = scratch_take(m->memory, count, sizeof *members);
  if (members == NULL) return false;
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

/* Lists the updates of each shape, ascending. */
static bool list_by_shape(merging *m) {
  uint32_t size = 16;
  while (size < 2 * m->f->cluster_count) size *= 2;
  uint32_t *first = scratch_take(m->memory, size, sizeof *first); /* by hash: of the list so far */
  m->next = scratch_take(m->memory, m->f->cluster_count, sizeof *m->next);
  if (first == NULL || m->next == NULL) return false;
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

/* The next update of a's shape that can still take in another one. Full ones leave the list. */
static uint32_t find_next(merging *m, uint32_t a) {
  while (m->next[a] != IR_NONE && m->f->clusters[m->next[a]].output_count >= MOST_OUTPUTS)
    m->next[a] = m->next[m->next[a]];
  return m->next[a];
}

/* Makes an update part of the first later one that it fits together with. */
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
  bool room = m.is_update != NULL && m.stamp != NULL;
  if (room) {
    find_updates(&m);
    room = list_by_shape(&m);
  }
  for (uint32_t a = 0; room && a < f->cluster_count; a++)
    if (m.is_update[a]) room = merge_one(&m, a);
  if (room) drop_empty(&m);
  if (room) return COMPUTE_OK;
  return error_set(r->graph->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                   "no memory to merge %u kernels", (unsigned)f->cluster_count);
}
