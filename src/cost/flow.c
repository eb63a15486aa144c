/* Edges in one array, each with its reverse beside it; lists of them by node. */
#include "cost/flow.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arithmetic.h"

#define NONE UINT32_MAX

bool flow_create(flow_network *network, uint32_t nodes, uint32_t edges) {
  *network = (flow_network){.node_count = nodes, .edge_capacity = 2 * edges};
  network->edges = base_allocate((size_t)2 * edges + 1, sizeof *network->edges);
  network->first = base_allocate((size_t)nodes * 9, sizeof *network->first);
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

void flow_release(flow_network *network) {
  base_release(network->edges);
  base_release(network->first);
  base_release(network->excess);
  *network = (flow_network){0};
}

static void add_half(flow_network *n, uint32_t from, uint32_t to, int64_t capacity) {
  n->edges[n->edge_count] = (flow_edge){.to = to, .next = n->first[from], .left = capacity};
  n->first[from] = n->edge_count++;
}

void flow_add(flow_network *network, uint32_t from, uint32_t to, int64_t capacity) {
  if (from == to || capacity <= 0 || network->edge_count + 2 > network->edge_capacity) return;
  add_half(network, from, to, min_i64(capacity, FLOW_ENDLESS));
  add_half(network, to, from, 0);
}

/* Notes a node with an excess, unless the sink is out of its reach. */
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

/* When nobody is at a level any more, those above it cannot reach the sink: their way down would
 * lead through it. */
static void close_gap(flow_network *n, uint32_t level) {
  for (uint32_t above = level + 1; above <= n->top; above++) {
    for (uint32_t i = n->at_level[above]; i != NONE; i = n->after[i]) n->level[i] = n->node_count;
    n->at_level[above] = NONE;
  }
  n->top = level;
}

/* Levels from distances to the sink along edges that have capacity left. */
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

/* Sends `amount` along an edge. An excess beyond what any cut lets through need not be exact. */
static void push(flow_network *n, uint32_t from, uint32_t edge, int64_t amount) {
  int64_t *excess = &n->excess[n->edges[edge].to];
  n->edges[edge].left -= amount;
  n->edges[edge ^ 1].left += amount;
  n->excess[from] -= amount;
  *excess = *excess + amount < 2 * FLOW_ENDLESS ? *excess + amount : 2 * FLOW_ENDLESS;
}

/* The level from which a node can send something on. */
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
    level = n->node_count; /* it was at the gap, and can only rise */
  }
  enter_level(n, node, level);
  n->next[node] = n->first[node];
}

/* Sends on what has arrived at a node, until nothing is left or the sink is out of reach. */
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

/* Takes an active node of the highest level; NONE if there is none. */
static uint32_t take_highest(flow_network *n) {
  while (n->active[n->highest] == NONE && n->highest > 0) n->highest--;
  const uint32_t node = n->active[n->highest];
  if (node != NONE) n->active[n->highest] = n->next_active[node];
  return node;
}

/* Marks what still reaches the sink. */
static void mark_sink_side(flow_network *n, uint32_t source, uint32_t sink,
                           unsigned char *sink_side) {
  find_levels(n, source, sink);
  for (uint32_t i = 0; i < n->node_count; i++) sink_side[i] = n->level[i] < n->node_count;
}

int64_t flow_cut(flow_network *network, uint32_t source, uint32_t sink, unsigned char *sink_side) {
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
