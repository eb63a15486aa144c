/* A kernel of its own that does little more than copy, like x − mean for every channel, costs a
 * pass over memory, and its value takes as much room as x, which lies in memory anyway. Whoever
 * reads it can as well read x and subtract. So such a node is repeated, once for each kernel that
 * reads it, and the next fusion puts each where it is read. Recomputed values are the same bits:
 * only dtypes that programs calculate in are repeated. */
#include "plan/fuse/repeat.h"

#include <string.h>

#include "base/error.h"
#include "type/dtype.h"
#include "type/shape.h"

enum {
  SMALL_SHARE = 16, /* operands so many times smaller than the value cost nothing */
  MOST_READERS = 8, /* kernels that may repeat one node */
  MOST_MEMBERS = 12 /* of a kernel that takes in one more node: it must find room */
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

/* Whether all operands but one are small, and that one is in memory whatever becomes of the node.
 */
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

/* Whether reader `d` evaluates what it reads inside its program. */
static bool takes_in(const ir *r, const fusion *f, uint32_t d) {
  const ir_node *n = &r->nodes[d];
  const uint32_t c = f->cluster_of[d];
  if (c == IR_NONE || f->clusters[c].member_count > MOST_MEMBERS) return false;
  const graph_category category = ir_category(n);
  return (fuse_is_elementwise(n) && n->op != OP_random_uniform) || category == CATEGORY_REDUCTION ||
         category == CATEGORY_ROW;
}

/* One look at all nodes: which are kernels of their own that could be repeated. */
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
  /* What a candidate reads must stay where it is. */
  for (uint32_t i = 0; i < r->count; i++)
    for (uint32_t k = 0; candidate[i] && k < r->nodes[i].input_count; k++)
      if (candidate[r->nodes[i].inputs[k]]) candidate[i] = 0;
}

/* The clusters that read each candidate: their number, 0 for other nodes and where they are too
 * many. readers[i * MOST_READERS …] lists them. */
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

/* The new place of operand `i` for a reader in cluster `c`. */
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
  if (nodes == NULL || place == NULL) return COMPUTE_ERROR_OUT_OF_MEMORY;
  uint32_t made = 0;
  for (uint32_t i = 0; i < r->count; i++) {
    const ir_node *n = &r->nodes[i];
    place[i] = made;
    for (unsigned char at = 0; at == 0 || at < count[i]; at++) {
      ir_node *copy = &nodes[made++];
      *copy = *n;
      if (at > 0) copy->folded = 0; /* counted once */
      copy->inputs = scratch_take(r->memory, n->input_count, sizeof *copy->inputs);
      if (copy->inputs == NULL) return COMPUTE_ERROR_OUT_OF_MEMORY;
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
  compute_status s = COMPUTE_OK;
  unsigned char *candidate = scratch_take(r->memory, r->count, 1);
  unsigned char *count = scratch_take(r->memory, r->count, 1);
  *changed = false;
  if (candidate == NULL || count == NULL) goto short_of_memory;
  find_candidates(r, f, candidate);
  if (r->count == 0 || memchr(candidate, 1, r->count) == NULL) return COMPUTE_OK;
  uint32_t *readers = scratch_take(r->memory, (size_t)r->count * MOST_READERS, sizeof *readers);
  if (readers == NULL) goto short_of_memory;
  if (!count_readers(r, f, candidate, readers, count)) return COMPUTE_OK;
  uint32_t total = r->count;
  for (uint32_t i = 0; i < r->count; i++) total += count[i] > 1 ? count[i] - 1u : 0;
  if (total == r->count) return COMPUTE_OK;
  s = rebuild(r, f, readers, count, total);
  *changed = s == COMPUTE_OK;
  if (s == COMPUTE_OK) return s;

short_of_memory:
  return error_set(r->graph->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                   "no memory to fuse %u nodes", (unsigned)r->count);
}
