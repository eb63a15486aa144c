/* The order of clusters decides how long temporaries live.
 *
 * In the order of their roots clusters are always right (fuse.h), but an optimizer's updates, which
 * are recorded behind all gradients, would keep every gradient of an activation until then. So a
 * cluster that needs no memory, or no more than it gives back, runs as soon as its operands exist;
 * the others keep the order of their roots.
 *
 * What overwrites a parameter must follow everybody who reads the old value. On devices that runs
 * can be repeated without, such clusters come last of all, so that a run that fails before has
 * changed nothing. The CPU is the last resort itself: there they run early, too. */
#include "plan/order.h"

#include "base/error.h"
#include "tensor/shape.h"

/* So few bytes are not worth waiting for. */
#define TINY_BYTES 4096

/* Edges "to waits for from", as lists with one slice for each `from`. */
typedef struct edges {
  uint32_t *start, *to;
} edges;

typedef struct ordering {
  const lowering *l;
  const port_plan *ports;
  const unsigned char *late;
  uint32_t count;
  edges after;        /* by cluster: the clusters that wait for it */
  uint32_t *waits;    /* by cluster: how many it still waits for */
  uint32_t *readers;  /* by node: clusters that still read it; of those that stay, one too many */
  edges reads;        /* by cluster: the nodes that it reads, each once */
  unsigned char *ran; /* by cluster */
} ordering;

static uint64_t bytes_of(const lowering *l, uint32_t node) {
  const ir_node *n = &l->r->nodes[node];
  return (uint64_t)shape_count(n->shape) * compute_dtype_size(n->dtype);
}

/* Whether a node is a temporary: stored, and not in somebody else's memory. */
static bool is_temporary(const lowering *l, uint32_t node) {
  return l->f->cluster_of[node] != IR_NONE && l->f->stored[node] && l->target[node] == IR_NONE;
}

/* The parameter that a node's value overwrites where it is computed; or IR_NONE. */
static uint32_t overwrites(const ordering *o, uint32_t node) {
  for (uint32_t i = 0; i < o->ports->assign_count; i++) {
    const port_assign *a = &o->ports->assigns[i];
    if (a->value == node && o->l->target[node] == a->storage) return a->parameter;
  }
  return IR_NONE;
}

/* Nodes that cluster c reads from memory, each once; returns how many. */
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
  if (!stamp || !o->reads.start || !o->reads.to || !o->readers) return false;
  for (uint32_t c = 0; c < o->count; c++)
    o->reads.start[c + 1] =
        o->reads.start[c] + list_reads(o, c, stamp, o->reads.to + o->reads.start[c]);
  for (uint32_t i = 0; i < o->reads.start[o->count]; i++) o->readers[o->reads.to[i]]++;
  /* What is stored somewhere when all clusters have run lives until then. */
  for (uint32_t i = 0; i < o->ports->output_count; i++)
    o->readers[l->f->layouts[o->ports->outputs[i].node].base]++;
  for (uint32_t i = 0; i < o->ports->assign_count; i++)
    o->readers[l->f->layouts[o->ports->assigns[i].value].base]++;
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

/* Whether a kernel fails for some indices: then nothing must have been overwritten yet. */
static bool checks_indices(const ordering *o, uint32_t c) {
  const cluster *k = &o->l->f->clusters[c];
  return graph_is_indexed(o->l->r->nodes[k->anchor == IR_NONE ? k->root : k->anchor].op);
}

/* Readers wait for values; who overwrites a parameter waits for the readers of the old value, and
 * for earlier checks. */
static void visit_edges(ordering *o, const uint32_t *writer, visit_edge *visit) {
  for (uint32_t c = 0; c < o->count; c++)
    for (uint32_t i = 0; checks_indices(o, c) && i < o->ports->assign_count; i++) {
      const uint32_t to = writer[o->ports->assigns[i].parameter];
      if (to != IR_NONE && to > c) visit(o, c, to);
    }
  for (uint32_t c = 0; c < o->count; c++)
    for (uint32_t i = o->reads.start[c]; i < o->reads.start[c + 1]; i++) {
      const uint32_t node = o->reads.to[i], from = o->l->f->cluster_of[node];
      if (from != IR_NONE) visit(o, from, c);
      if (writer[node] != IR_NONE && writer[node] != c) visit(o, c, writer[node]);
    }
}

static bool collect_edges(ordering *o) {
  const lowering *l = o->l;
  uint32_t *writer = scratch_take(l->memory, l->r->count, sizeof *writer);
  o->after.start = scratch_take(l->memory, (size_t)o->count + 2, sizeof *o->after.start);
  size_t most = (size_t)2 * o->reads.start[o->count];
  for (uint32_t c = 0; c < o->count; c++)
    if (checks_indices(o, c)) most += o->ports->assign_count;
  o->after.to = scratch_take(l->memory, most, sizeof *o->after.to);
  o->waits = scratch_take(l->memory, o->count, sizeof *o->waits);
  if (!writer || !o->after.start || !o->after.to || !o->waits) return false;
  for (uint32_t i = 0; i < l->r->count; i++) writer[i] = IR_NONE;
  for (uint32_t i = 0; i < o->ports->assign_count; i++) {
    const uint32_t value = o->ports->assigns[i].value, parameter = overwrites(o, value);
    if (parameter != IR_NONE) writer[parameter] = l->f->cluster_of[value];
  }
  visit_edges(o, writer, count_edge); /* counts, shifted by two; then starts, shifted by one */
  for (uint32_t c = 1; c < o->count + 2; c++) o->after.start[c] += o->after.start[c - 1];
  visit_edges(o, writer, note_edge);
  return true;
}

/* What running a cluster now would do to memory. */
typedef enum effect { TAKES_MORE, TAKES_NO_MORE_THAN_IT_GIVES, TAKES_NOTHING } effect;

static effect effect_of(const ordering *o, uint32_t c) {
  const lowering *l = o->l;
  const cluster *k = &l->f->clusters[c];
  uint64_t takes = 0, gives = 0;
  for (uint32_t m = 0; m < k->member_count; m++)
    if (is_temporary(l, k->members[m])) takes += bytes_of(l, k->members[m]);
  if (takes <= TINY_BYTES) return TAKES_NOTHING;
  for (uint32_t i = o->reads.start[c]; i < o->reads.start[c + 1]; i++) {
    const uint32_t node = o->reads.to[i];
    if (is_temporary(l, node) && o->readers[node] == 1) gives += bytes_of(l, node);
  }
  return takes <= gives ? TAKES_NO_MORE_THAN_IT_GIVES : TAKES_MORE;
}

static void run(ordering *o, uint32_t c, uint32_t *order, uint32_t *placed) {
  order[(*placed)++] = c;
  o->ran[c] = 1;
  for (uint32_t i = o->reads.start[c]; i < o->reads.start[c + 1]; i++) o->readers[o->reads.to[i]]--;
  for (uint32_t i = o->after.start[c]; i < o->after.start[c + 1]; i++) o->waits[o->after.to[i]]--;
}

/* The cluster behind `first` that is best run at once, before any that needs memory; IR_NONE if
 * there is none. */
static uint32_t find_free(const ordering *o, uint32_t first, unsigned char pass) {
  uint32_t found = IR_NONE;
  for (uint32_t c = first; c < o->count; c++) {
    if (o->ran[c] || o->late[c] != pass || o->waits[c] != 0) continue;
    const effect e = effect_of(o, c);
    if (e == TAKES_NOTHING) return c;
    if (e == TAKES_NO_MORE_THAN_IT_GIVES && found == IR_NONE) found = c;
  }
  return found;
}

/* Marks what reads the values of late clusters. */
static void spread_late(const lowering *l, unsigned char *late) {
  const fusion *f = l->f;
  for (uint32_t c = 0; c < f->cluster_count; c++)
    for (uint32_t m = 0; m < f->clusters[c].member_count && !late[c]; m++) {
      const ir_node *n = &l->r->nodes[f->clusters[c].members[m]];
      for (uint32_t k = 0; k < n->input_count; k++) {
        const uint32_t from = f->cluster_of[f->layouts[n->inputs[k]].base];
        if (from != IR_NONE && from != c && late[from]) late[c] = 1;
      }
    }
}

compute_status order_clusters(const lowering *l, port_plan *ports, unsigned char *late) {
  ordering o = {.l = l, .ports = ports, .late = late, .count = l->f->cluster_count};
  const bool last_resort = l->places == NULL && l->plan->device[PLAN_MAIN] == l->plan->context->cpu;
  o.ran = scratch_take(l->memory, o.count, 1);
  if (o.ran == NULL || !collect_reads(&o) || !collect_edges(&o))
    return error_set(l->plan->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                     "no memory to order %u kernels", (unsigned)o.count);
  /* What nobody waits for, the statistics of a batch norm for one, can stay behind later checks. */
  uint32_t last_check = 0;
  for (uint32_t c = 0; c < o.count; c++)
    if (checks_indices(&o, c)) last_check = c;
  for (uint32_t c = 0; last_resort && c < o.count; c++)
    late[c] = late[c] && c < last_check && o.after.start[c] == o.after.start[c + 1];
  spread_late(l, late);
  uint32_t placed = 0;
  for (unsigned char pass = 0; pass < 2; pass++)
    for (uint32_t c = 0; c < o.count; c++) {
      if (o.ran[c] || late[c] != pass) continue;
      uint32_t early;
      while ((early = find_free(&o, c, pass)) != IR_NONE) run(&o, early, ports->order, &placed);
      if (!o.ran[c]) run(&o, c, ports->order, &placed);
    }
  return COMPUTE_OK;
}
