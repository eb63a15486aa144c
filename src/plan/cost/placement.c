/* SPDX-License-Identifier: MIT */
/* Placement as a minimum cut. The source of the network is the CPU, the sink is the accelerator. A
 * unit on the source's side runs on the CPU. The cut then contains its edge to the sink, with its
 * cost on the CPU as the capacity. The accelerator's side mirrors this.
 *
 * A value has two more nodes. `needed there` precedes its readers, with infinite edges: one reader
 * on the accelerator pulls it to the sink's side. If the producer is on the other side, the cut
 * contains the edge between them, with the cost of the copy. `needed here` mirrors it. */
#include "plan/cost/placement.h"

#include <string.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"

/* ---- Flow ------------------------------------------------------------------------------------ */

/* Maximum flow, and with it the minimum cut between source and sink. The algorithm is push-relabel
 * (Goldberg and Tarjan 1988), highest label first: flow that arrives at a node from many edges is
 * pushed on together, so long chains take no longer than short ones. Capacities are integers, so
 * the result is exact. */

/* Never cut unless unavoidable. */
#define FLOW_ENDLESS (INT64_MAX / 8)

typedef struct flow_edge {
  uint32_t to, next; /* the next edge from the same node */
  int64_t left;      /* residual capacity; edge i ^ 1 is the reverse edge */
} flow_edge;

typedef struct flow_network {
  uint32_t node_count, edge_count, edge_capacity;
  flow_edge *edges;
  uint32_t *first;  /* by node: its list of edges */
  uint32_t *level;  /* by node: lower bound of the distance to the sink; node_count: unreachable */
  uint32_t *next;   /* by node: position in its list of edges */
  uint32_t *queue;  /* of a search */
  uint32_t *active; /* by level: a list of nodes with an excess */
  uint32_t *next_active;    /* by node */
  int64_t *excess;          /* by node: its excess */
  uint32_t *at_level;       /* by level: a list of all its nodes … */
  uint32_t *before, *after; /* … by node: its neighbours in the list */
  uint32_t highest;         /* no active node is above this level */
  uint32_t top;             /* no node is above this level, except unreachable ones */
  uint64_t relabelled;      /* edges visited since the levels were exact */
} flow_network;

#define NONE UINT32_MAX

static void flow_release(flow_network *network) {
  base_release(network->edges);
  base_release(network->first);
  base_release(network->excess);
  *network = (flow_network){0};
}

static bool flow_create(flow_network *network, uint32_t nodes, uint32_t edges) {
  *network = (flow_network){.node_count = nodes, .edge_capacity = 2 * edges};
  network->edges = base_allocate((uint64_t)2 * edges + 1, sizeof *network->edges);
  network->first = base_allocate((uint64_t)nodes * 9, sizeof *network->first);
  network->excess = base_allocate(nodes, sizeof *network->excess);
  if (!network->edges || !network->first || !network->excess) {
    flow_release(network);
    return false;
  }
  network->level = network->first + nodes;
  network->next = network->level + nodes;
  network->queue = network->next + nodes;
  network->active = network->queue + nodes;
  network->next_active = network->active + nodes;
  network->at_level = network->next_active + nodes;
  network->before = network->at_level + nodes;
  network->after = network->before + nodes;
  memset(network->first, 0xff, sizeof *network->first * nodes);
  return true;
}

static void add_half(flow_network *n, uint32_t from, uint32_t to, int64_t capacity) {
  n->edges[n->edge_count] = (flow_edge){.to = to, .next = n->first[from], .left = capacity};
  n->first[from] = n->edge_count++;
}

static void flow_add(flow_network *network, uint32_t from, uint32_t to, int64_t capacity) {
  if (from == to || capacity <= 0 || network->edge_count + 2 > network->edge_capacity) return;
  add_half(network, from, to, min_i64(capacity, FLOW_ENDLESS));
  add_half(network, to, from, 0);
}

/* Activates a node with an excess, unless it cannot reach the sink. */
static void activate(flow_network *n, uint32_t node) {
  const uint32_t level = n->level[node];
  if (level >= n->node_count) return;
  n->next_active[node] = n->active[level];
  n->active[level] = node;
  if (level > n->highest) n->highest = level;
}

static void enter_level(flow_network *n, uint32_t node, uint32_t level) {
  n->level[node] = level;
  if (level >= n->node_count) return;
  const uint32_t first = n->at_level[level];
  n->before[node] = NONE;
  n->after[node] = first;
  if (first != NONE) n->before[first] = node;
  n->at_level[level] = node;
  if (level > n->top) n->top = level;
}

static void leave_level(flow_network *n, uint32_t node) {
  const uint32_t before = n->before[node], after = n->after[node];
  if (before != NONE) n->after[before] = after;
  if (after != NONE) n->before[after] = before;
  if (before == NONE) n->at_level[n->level[node]] = after;
}

/* Gap heuristic: nodes above an empty level cannot reach the sink, because each path would cross
 * that level. */
static void close_gap(flow_network *n, uint32_t level) {
  for (uint32_t above = level + 1; above <= n->top; above++) {
    for (uint32_t i = n->at_level[above]; i != NONE; i = n->after[i]) n->level[i] = n->node_count;
    n->at_level[above] = NONE;
  }
  n->top = level;
}

/* Global relabelling: sets levels to the distances to the sink in the residual network. */
static void find_levels(flow_network *n, uint32_t source, uint32_t sink) {
  uint32_t head = 0, tail = 0;
  for (uint32_t i = 0; i < n->node_count; i++) n->level[i] = n->node_count;
  memset(n->active, 0xff, sizeof *n->active * n->node_count);
  memset(n->at_level, 0xff, sizeof *n->at_level * n->node_count);
  memcpy(n->next, n->first, sizeof *n->next * n->node_count);
  n->highest = n->top = 0;
  n->relabelled = 0;
  enter_level(n, sink, 0);
  n->queue[tail++] = sink;
  while (head < tail) {
    const uint32_t node = n->queue[head++];
    for (uint32_t e = n->first[node]; e != NONE; e = n->edges[e].next) {
      const uint32_t from = n->edges[e].to;
      if (n->edges[e ^ 1].left == 0 || n->level[from] < n->node_count || from == source) continue;
      enter_level(n, from, n->level[node] + 1);
      n->queue[tail++] = from;
      if (n->excess[from] > 0) activate(n, from);
    }
  }
}

/* Sends `amount` along an edge. An excess larger than any cut does not have to be exact. */
static void push(flow_network *n, uint32_t from, uint32_t edge, int64_t amount) {
  int64_t *excess = &n->excess[n->edges[edge].to];
  n->edges[edge].left -= amount;
  n->edges[edge ^ 1].left += amount;
  n->excess[from] -= amount;
  *excess = *excess + amount < 2 * FLOW_ENDLESS ? *excess + amount : 2 * FLOW_ENDLESS;
}

/* Raises a node to the lowest level from which it can push. */
static void relabel(flow_network *n, uint32_t node, uint32_t source) {
  uint32_t level = n->node_count;
  for (uint32_t e = n->first[node]; e != NONE; e = n->edges[e].next) {
    const uint32_t to = n->edges[e].to;
    if (n->edges[e].left > 0 && to != source && n->level[to] + 1 < level) level = n->level[to] + 1;
    n->relabelled++;
  }
  const uint32_t old = n->level[node];
  leave_level(n, node);
  if (n->at_level[old] == NONE) {
    close_gap(n, old);
    level = n->node_count; /* the node was at the gap, and can only rise */
  }
  enter_level(n, node, level);
  n->next[node] = n->first[node];
}

/* Discharges a node until it has no excess or cannot reach the sink. */
static void discharge(flow_network *n, uint32_t node, uint32_t source, uint32_t sink) {
  while (n->excess[node] > 0 && n->level[node] < n->node_count) {
    const uint32_t e = n->next[node];
    if (e == NONE) {
      relabel(n, node, source);
      continue;
    }
    const uint32_t to = n->edges[e].to;
    const int64_t left = n->edges[e].left;
    if (left == 0 || to == source || n->level[to] + 1 != n->level[node]) {
      n->next[node] = n->edges[e].next;
      continue;
    }
    const bool was_idle = n->excess[to] == 0;
    push(n, node, e, left < n->excess[node] ? left : n->excess[node]);
    if (was_idle && to != sink) activate(n, to);
  }
}

/* Takes an active node of the highest level; returns NONE if there is none. */
static uint32_t take_highest(flow_network *n) {
  while (n->active[n->highest] == NONE && n->highest > 0) n->highest--;
  const uint32_t node = n->active[n->highest];
  if (node != NONE) n->active[n->highest] = n->next_active[node];
  return node;
}

/* Marks the nodes that can still reach the sink. */
static void mark_sink_side(flow_network *n, uint32_t source, uint32_t sink,
                           unsigned char *sink_side) {
  find_levels(n, source, sink);
  for (uint32_t i = 0; i < n->node_count; i++) sink_side[i] = n->level[i] < n->node_count;
}

static int64_t flow_cut(flow_network *network, uint32_t source, uint32_t sink,
                        unsigned char *sink_side) {
  flow_network *n = network;
  memset(n->excess, 0, sizeof *n->excess * n->node_count);
  for (uint32_t e = n->first[source]; e != NONE; e = n->edges[e].next)
    if (n->edges[e].left > 0) push(n, source, e, n->edges[e].left);
  find_levels(n, source, sink);
  for (uint32_t node; (node = take_highest(n)) != NONE;) {
    discharge(n, node, source, sink);
    if (n->relabelled > n->edge_count) find_levels(n, source, sink);
  }
  mark_sink_side(n, source, sink, sink_side);
  return n->excess[sink];
}

/* ---- Placement ------------------------------------------------------------------------------- */

enum { CPU_NODE = 0, ACCELERATOR_NODE = 1, FIRST_UNIT = 2 };

static uint32_t node_of(uint32_t unit) {
  return unit == PLACEMENT_ON_CPU           ? CPU_NODE
         : unit == PLACEMENT_ON_ACCELERATOR ? ACCELERATOR_NODE
                                            : FIRST_UNIT + unit;
}

static void add_value(flow_network *network, const placement_problem *p, uint32_t index) {
  const placement_value *v = &p->values[index];
  uint32_t needed_there = FIRST_UNIT + p->unit_count + 2 * index, needed_here = needed_there + 1;
  flow_add(network, node_of(v->maker), needed_there, v->to);
  flow_add(network, needed_here, node_of(v->maker), v->from);
  for (uint32_t i = 0; i < v->count; i++) {
    uint32_t reader = node_of(p->readers[v->first + i]);
    flow_add(network, needed_there, reader, FLOW_ENDLESS);
    flow_add(network, reader, needed_here, FLOW_ENDLESS);
  }
}

bool placement_solve(const placement_problem *problem, unsigned char *on_accelerator,
                     int64_t *total) {
  uint32_t nodes = FIRST_UNIT + problem->unit_count + 2 * problem->value_count;
  uint32_t edges = 2 * problem->unit_count + 2 * problem->value_count;
  for (uint32_t i = 0; i < problem->value_count; i++) edges += 2 * problem->values[i].count;
  flow_network network;
  if (!flow_create(&network, nodes, edges)) return false;
  unsigned char *side = base_allocate(nodes, 1);
  if (!side) {
    flow_release(&network);
    return false;
  }
  for (uint32_t i = 0; i < problem->unit_count; i++) {
    flow_add(&network, FIRST_UNIT + i, ACCELERATOR_NODE, problem->units[i].cpu);
    flow_add(&network, CPU_NODE, FIRST_UNIT + i, problem->units[i].accelerator);
  }
  for (uint32_t i = 0; i < problem->value_count; i++) add_value(&network, problem, i);
  flow_cut(&network, CPU_NODE, ACCELERATOR_NODE, side);
  for (uint32_t i = 0; i < problem->unit_count; i++) on_accelerator[i] = side[FIRST_UNIT + i];
  *total = placement_cost(problem, on_accelerator);
  base_release(side);
  flow_release(&network);
  return true;
}

static bool is_on_accelerator(const unsigned char *on_accelerator, uint32_t unit) {
  if (unit == PLACEMENT_ON_CPU || unit == PLACEMENT_ON_ACCELERATOR)
    return unit == PLACEMENT_ON_ACCELERATOR;
  return on_accelerator[unit] != 0;
}

int64_t placement_cost(const placement_problem *problem, const unsigned char *on_accelerator) {
  int64_t total = 0;
  for (uint32_t i = 0; i < problem->unit_count; i++)
    total += on_accelerator[i] ? problem->units[i].accelerator : problem->units[i].cpu;
  for (uint32_t i = 0; i < problem->value_count; i++) {
    const placement_value *v = &problem->values[i];
    bool there = is_on_accelerator(on_accelerator, v->maker), crosses = false;
    for (uint32_t r = 0; r < v->count; r++)
      crosses |= is_on_accelerator(on_accelerator, problem->readers[v->first + r]) != there;
    if (crosses) total += there ? v->from : v->to;
  }
  return total;
}
