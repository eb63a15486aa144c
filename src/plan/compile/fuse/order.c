/* SPDX-License-Identifier: MIT */
/* The order of clusters, which determines how long temporaries live.
 *
 * The order of the roots is always valid (fuse.h). However, an optimizer records its updates after
 * all gradients, so every gradient of an activation would live until then. A cluster that needs no
 * memory, or no more than it frees, therefore runs as soon as its operands exist. The others keep
 * the order of their roots.
 *
 * A cluster that overwrites a parameter must follow all readers of the old value. If a failed run
 * can be repeated on the CPU, such clusters run last, so that a run that fails earlier has changed
 * nothing. In plans for the CPU itself they run early as well.
 *
 * A call that waits for work started by another call runs as late as possible: when a cluster that
 * needs it is next. */
#include "plan/compile/lower/lower.h"

#include "core/base/error.h"
#include "core/type/shape.h"

/* bytes; smaller temporaries are not worth a delay */
#define TINY_BYTES 4096

/* Edges ("`to` waits for `from`") as adjacency lists with one range per `from`. */
typedef struct edges {
  uint32_t *start, *to;
} edges;

/* The effect on memory if a cluster runs now. */
typedef enum effect { TAKES_NOTHING, TAKES_NO_MORE_THAN_IT_GIVES, TAKES_MORE } effect;

typedef struct ordering {
  const lowering *l;
  const port_plan *ports;
  const unsigned char *late;
  uint32_t count;
  edges after;            /* by cluster: the clusters that wait for it */
  uint32_t *waits;        /* by cluster: clusters it waits for; all earlier checks count as one */
  uint32_t *readers;      /* by node: clusters still to read it, plus one for nodes that stay */
  uint32_t *last_reader;  /* by node: exclusive or of the readers' indices; the last one's index */
  edges reads;            /* by cluster: the nodes it reads, each once */
  uint64_t *takes;        /* by cluster: bytes of temporaries it creates … */
  uint64_t *gives;        /* … and of temporaries it is the last to read */
  unsigned char *ran;     /* by cluster */
  uint32_t *lazy;         /* clusters that run as late as possible … */
  uint32_t lazy_count;    /* … in the order of their roots; */
  uint32_t lazy_done;     /* the first lazy_done of them have run */
  unsigned char *gated;   /* by cluster: waits for index checks before it */
  uint32_t checked;       /* all checks in clusters before this one have run */
  unsigned char *offered; /* by cluster: is or was in the heap */
  uint64_t *heap;         /* clusters to run at once, the first one on top */
  uint32_t heap_count;
} ordering;

static uint64_t bytes_of(const lowering *l, uint32_t node) {
  const ir_node *n = &l->r->nodes[node];
  return (uint64_t)shape_count(n->shape) * compute_dtype_size(n->dtype);
}

/* True if a node is a temporary: stored, and not in a port's memory. */
static bool is_temporary(const lowering *l, uint32_t node) {
  return l->f->cluster_of[node] != IR_NONE && l->f->stored[node] && l->target[node] == IR_NONE;
}

/* Lists the nodes that cluster c reads from memory, each once. Returns their number. */
static uint32_t list_reads(const ordering *o, uint32_t c, uint32_t *stamp, uint32_t *list) {
  const fusion *f = o->l->f;
  const cluster *k = &f->clusters[c];
  uint32_t count = 0;
  for (uint32_t m = 0; m < k->member_count; m++) {
    const ir_node *n = &o->l->r->nodes[k->members[m]];
    for (uint32_t i = 0; i < n->input_count; i++) {
      const uint32_t base = f->layouts[n->inputs[i]].base;
      if (stamp[base] == c + 1 || f->cluster_of[base] == c) continue;
      stamp[base] = c + 1;
      list[count++] = base;
    }
  }
  return count;
}

static void add_reader(ordering *o, uint32_t node, uint32_t reader) {
  o->readers[node]++;
  o->last_reader[node] ^= reader;
}

static bool collect_reads(ordering *o) {
  const lowering *l = o->l;
  uint32_t total = 0;
  for (uint32_t c = 0; c < o->count; c++)
    for (uint32_t m = 0; m < l->f->clusters[c].member_count; m++)
      total += l->r->nodes[l->f->clusters[c].members[m]].input_count;
  uint32_t *stamp = scratch_take(l->memory, l->r->count, sizeof *stamp);
  o->reads.start = scratch_take(l->memory, (size_t)o->count + 1, sizeof *o->reads.start);
  o->reads.to = scratch_take(l->memory, total, sizeof *o->reads.to);
  o->readers = scratch_take(l->memory, l->r->count, sizeof *o->readers);
  o->last_reader = scratch_take(l->memory, l->r->count, sizeof *o->last_reader);
  if (!stamp || !o->reads.start || !o->reads.to || !o->readers || !o->last_reader) return false;
  for (uint32_t c = 0; c < o->count; c++)
    o->reads.start[c + 1] =
        o->reads.start[c] + list_reads(o, c, stamp, o->reads.to + o->reads.start[c]);
  for (uint32_t c = 0; c < o->count; c++)
    for (uint32_t i = o->reads.start[c]; i < o->reads.start[c + 1]; i++)
      add_reader(o, o->reads.to[i], c);
  /* Values copied after the last cluster live until then. */
  for (uint32_t i = 0; i < o->ports->output_count; i++)
    add_reader(o, l->f->layouts[o->ports->outputs[i].node].base, IR_NONE);
  for (uint32_t i = 0; i < o->ports->assign_count; i++)
    add_reader(o, l->f->layouts[o->ports->assigns[i].value].base, IR_NONE);
  return true;
}

typedef void visit_edge(ordering *o, uint32_t from, uint32_t to);

static void count_edge(ordering *o, uint32_t from, uint32_t to) {
  o->after.start[from + 2]++;
  o->waits[to]++;
}

static void note_edge(ordering *o, uint32_t from, uint32_t to) {
  o->after.to[o->after.start[from + 1]++] = to;
}

static const ir_node *kernel_of(const lowering *l, uint32_t c) {
  const cluster *k = &l->f->clusters[c];
  return &l->r->nodes[k->anchor == IR_NONE ? k->root : k->anchor];
}

/* True if a kernel can fail, because of an index or in a user-defined function. Nothing may have
 * been overwritten before it. */
static bool may_fail(const ordering *o, uint32_t c) {
  const graph_op op = kernel_of(o->l, c)->op;
  return graph_is_indexed(op) || op == OP_call;
}

/* Returns the flags of a call; for other kernels, the flags of a pure call. */
static uint32_t call_flags(const lowering *l, uint32_t c) {
  const ir_node *n = kernel_of(l, c);
  return n->op == OP_call ? ((const graph_call_key *)n->constant)->flags : COMPUTE_CALL_PURE;
}

/* True if a kernel is a call with side effects. Such calls keep their order. */
static bool has_effects(const lowering *l, uint32_t c) {
  return (call_flags(l, c) & (COMPUTE_CALL_PURE | GRAPH_CALL_WAITS)) == 0;
}

static bool is_lazy(const lowering *l, uint32_t c) {
  return (call_flags(l, c) & GRAPH_CALL_WAITS) != 0;
}

/* Visits all edges. Readers wait for values, a cluster that overwrites a parameter waits for the
 * readers of the old value, and a call with side effects waits for the previous one. */
static void visit_edges(ordering *o, const uint32_t *writer, visit_edge *visit) {
  uint32_t before = IR_NONE;
  for (uint32_t c = 0; c < o->count; c++) {
    for (uint32_t i = o->reads.start[c]; i < o->reads.start[c + 1]; i++) {
      const uint32_t node = o->reads.to[i], from = o->l->f->cluster_of[node];
      if (from != IR_NONE) visit(o, from, c);
      if (writer[node] != IR_NONE && writer[node] != c) visit(o, c, writer[node]);
    }
    if (!has_effects(o->l, c)) continue;
    if (before != IR_NONE) visit(o, before, c);
    before = c;
  }
}

static bool collect_edges(ordering *o) {
  const lowering *l = o->l;
  uint32_t *writer = scratch_take(l->memory, l->r->count, sizeof *writer);
  o->after.start = scratch_take(l->memory, (size_t)o->count + 2, sizeof *o->after.start);
  o->after.to =
      scratch_take(l->memory, (size_t)2 * o->reads.start[o->count] + o->count, sizeof *o->after.to);
  o->waits = scratch_take(l->memory, o->count, sizeof *o->waits);
  o->gated = scratch_take(l->memory, o->count, 1);
  if (!writer || !o->after.start || !o->after.to || !o->waits || !o->gated) return false;
  for (uint32_t i = 0; i < l->r->count; i++) writer[i] = IR_NONE;
  for (uint32_t i = 0; i < o->ports->assign_count; i++) {
    const port_assign *a = &o->ports->assigns[i];
    if (l->target[a->value] != a->storage) continue;
    writer[a->parameter] = l->f->cluster_of[a->value];
    o->gated[writer[a->parameter]] = 1;
  }
  visit_edges(o, writer, count_edge); /* counts, shifted by two; then starts, shifted by one */
  for (uint32_t c = 1; c < o->count + 2; c++) o->after.start[c] += o->after.start[c - 1];
  visit_edges(o, writer, note_edge);
  bool checks = false;
  for (uint32_t c = 0; c < o->count; c++) {
    o->gated[c] = o->gated[c] && checks;
    o->waits[c] += o->gated[c];
    checks |= may_fail(o, c);
  }
  return true;
}

/* ---- Clusters to run at once ----------------------------------------------------------------- */

static effect effect_of(const ordering *o, uint32_t c) {
  if (o->takes[c] <= TINY_BYTES) return TAKES_NOTHING;
  return o->takes[c] <= o->gives[c] ? TAKES_NO_MORE_THAN_IT_GIVES : TAKES_MORE;
}

/* Late clusters come last. Within each group, clusters that need no memory come first. Ties keep
 * the order of the roots. */
static uint64_t rank_of(const ordering *o, uint32_t c) {
  return (uint64_t)o->late[c] << 40 | (uint64_t)effect_of(o, c) << 32 | c;
}

static void heap_push(ordering *o, uint64_t item) {
  uint32_t at = o->heap_count++;
  for (; at > 0 && o->heap[(at - 1) / 2] > item; at = (at - 1) / 2)
    o->heap[at] = o->heap[(at - 1) / 2];
  o->heap[at] = item;
}

static void heap_pop(ordering *o) {
  const uint64_t item = o->heap[--o->heap_count];
  uint32_t at = 0;
  for (uint32_t child = 1; child < o->heap_count; child = 2 * at + 1) {
    if (child + 1 < o->heap_count && o->heap[child + 1] < o->heap[child]) child++;
    if (o->heap[child] >= item) break;
    o->heap[at] = o->heap[child];
    at = child;
  }
  o->heap[at] = item;
}

/* Adds cluster c to the heap once it qualifies. It qualifies until it runs: its memory need is
 * fixed, and the memory it frees can only grow. */
static void offer(ordering *o, uint32_t c) {
  if (o->waits[c] != 0 || o->offered[c] || o->ran[c] || effect_of(o, c) == TAKES_MORE ||
      is_lazy(o->l, c))
    return;
  o->offered[c] = 1;
  heap_push(o, rank_of(o, c));
}

/* Credits a temporary to its last reader, which frees it. */
static void give(ordering *o, uint32_t node) {
  const uint32_t c = o->last_reader[node];
  if (c < o->count && is_temporary(o->l, node)) o->gives[c] += bytes_of(o->l, node);
}

/* Releases clusters that wait only for checks that have all run. */
static void pass_checks(ordering *o) {
  while (o->checked < o->count && (o->ran[o->checked] || !may_fail(o, o->checked))) {
    const uint32_t c = ++o->checked;
    if (c == o->count || !o->gated[c]) continue;
    o->waits[c]--;
    offer(o, c);
  }
}

static bool begin(ordering *o) {
  const lowering *l = o->l;
  o->ran = scratch_take(l->memory, o->count, 1);
  o->offered = scratch_take(l->memory, o->count, 1);
  o->takes = scratch_take(l->memory, o->count, sizeof *o->takes);
  o->gives = scratch_take(l->memory, o->count, sizeof *o->gives);
  o->heap = scratch_take(l->memory, o->count, sizeof *o->heap);
  o->lazy = scratch_take(l->memory, o->count, sizeof *o->lazy);
  if (!o->ran || !o->offered || !o->takes || !o->gives || !o->heap || !o->lazy) return false;
  for (uint32_t c = 0; c < o->count; c++)
    if (is_lazy(l, c)) o->lazy[o->lazy_count++] = c;
  return collect_reads(o) && collect_edges(o);
}

/* Called once the set of late clusters is final. */
static void fill_heap(ordering *o) {
  const lowering *l = o->l;
  for (uint32_t c = 0; c < o->count; c++) {
    const cluster *k = &l->f->clusters[c];
    for (uint32_t m = 0; m < k->member_count; m++)
      if (is_temporary(l, k->members[m])) o->takes[c] += bytes_of(l, k->members[m]);
  }
  for (uint32_t i = 0; i < l->r->count; i++)
    if (o->readers[i] == 1) give(o, i);
  for (uint32_t c = 0; c < o->count; c++) offer(o, c);
  pass_checks(o);
}

static void run(ordering *o, uint32_t c, uint32_t *order, uint32_t *placed) {
  order[(*placed)++] = c;
  o->ran[c] = 1;
  for (uint32_t i = o->reads.start[c]; i < o->reads.start[c + 1]; i++) {
    const uint32_t node = o->reads.to[i];
    o->last_reader[node] ^= c;
    if (--o->readers[node] != 1) continue;
    give(o, node);
    if (o->last_reader[node] < o->count) offer(o, o->last_reader[node]);
  }
  for (uint32_t i = o->after.start[c]; i < o->after.start[c + 1]; i++) {
    o->waits[o->after.to[i]]--;
    offer(o, o->after.to[i]);
  }
  pass_checks(o);
}

/* Runs cluster c when all clusters before it have run, except lazy ones. First it runs the clusters
 * that c reads. If c waits for others (checks, or readers of a parameter's old value), it also runs
 * the lazy clusters before c. */
static void run_in_turn(ordering *o, uint32_t c, uint32_t *order, uint32_t *placed) {
  for (uint32_t i = o->reads.start[c]; o->waits[c] > 0 && i < o->reads.start[c + 1]; i++) {
    const uint32_t from = o->l->f->cluster_of[o->reads.to[i]];
    if (from != IR_NONE && !o->ran[from]) run(o, from, order, placed);
  }
  while (o->lazy_done < o->lazy_count && o->ran[o->lazy[o->lazy_done]]) o->lazy_done++;
  for (uint32_t i = o->lazy_done; o->waits[c] > 0 && i < o->lazy_count && o->lazy[i] < c; i++)
    if (!o->ran[o->lazy[i]] && o->waits[o->lazy[i]] == 0) run(o, o->lazy[i], order, placed);
  run(o, c, order, placed);
}

/* Returns the next cluster to run at once, ahead of any that needs memory; IR_NONE if there is
 * none. */
static uint32_t take_free(ordering *o, unsigned char pass) {
  while (o->heap_count > 0) {
    const uint32_t c = (uint32_t)o->heap[0];
    if (!o->ran[c] && o->late[c] != pass) return IR_NONE;
    heap_pop(o);
    if (!o->ran[c]) return c;
  }
  return IR_NONE;
}

/* Marks as late the clusters that read values of late clusters, and calls with side effects after
 * the side effects of a late call. */
static void spread_late(const lowering *l, unsigned char *late) {
  const fusion *f = l->f;
  bool effects_are_late = false;
  for (uint32_t c = 0; c < f->cluster_count; c++) {
    for (uint32_t m = 0; m < f->clusters[c].member_count && !late[c]; m++) {
      const ir_node *n = &l->r->nodes[f->clusters[c].members[m]];
      for (uint32_t k = 0; k < n->input_count; k++) {
        const uint32_t from = f->cluster_of[f->layouts[n->inputs[k]].base];
        if (from != IR_NONE && from != c && late[from]) late[c] = 1;
      }
    }
    if (!has_effects(l, c)) continue;
    late[c] |= effects_are_late;
    effects_are_late = late[c];
  }
}

compute_status order_clusters(const lowering *l, port_plan *ports, unsigned char *late) {
  ordering o = {.l = l, .ports = ports, .late = late, .count = l->f->cluster_count};
  const bool last_resort = !l->places && l->plan->device[PLAN_MAIN] == l->plan->context->cpu;
  if (!begin(&o))
    return error_set(l->plan->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                     "not enough memory to order %u kernels", (unsigned)o.count);
  /* Clusters without successors, such as the statistics of a batch norm, may follow later
   * checks. */
  uint32_t last_check = 0;
  for (uint32_t c = 0; c < o.count; c++)
    if (may_fail(&o, c)) last_check = c;
  for (uint32_t c = 0; last_resort && c < o.count; c++)
    late[c] = late[c] && c < last_check && o.after.start[c] == o.after.start[c + 1];
  spread_late(l, late);
  fill_heap(&o);
  uint32_t placed = 0;
  for (unsigned char pass = 0; pass < 2; pass++)
    for (uint32_t c = 0; c < o.count; c++) {
      if (o.ran[c] || late[c] != pass || is_lazy(l, c)) continue;
      uint32_t early;
      while ((early = take_free(&o, pass)) != IR_NONE) run(&o, early, ports->order, &placed);
      if (!o.ran[c]) run_in_turn(&o, c, ports->order, &placed);
    }
  for (uint32_t i = 0; i < o.lazy_count; i++)
    if (!o.ran[o.lazy[i]]) run_in_turn(&o, o.lazy[i], ports->order, &placed);
  return COMPUTE_OK;
}
