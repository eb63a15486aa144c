/* Edges in one array, each with its reverse beside it; lists of them by node. */
#include "route/flow.h"

#include <string.h>

#include "base/alloc.h"

#define NONE UINT32_MAX

bool flow_create(flow_network *network, uint32_t nodes, uint32_t edges) {
  *network = (flow_network){.node_count = nodes, .edge_capacity = 2 * edges};
  network->edges = base_allocate((size_t)2 * edges + 1, sizeof *network->edges);
  network->first = base_allocate((size_t)nodes * 5, sizeof *network->first);
  if (!network->edges || !network->first) {
    flow_release(network);
    return false;
  }
  network->level = network->first + nodes;
  network->next = network->level + nodes;
  network->queue = network->next + nodes;
  network->path = network->queue + nodes;
  memset(network->first, 0xff, sizeof *network->first * nodes);
  return true;
}

void flow_release(flow_network *network) {
  base_release(network->edges);
  base_release(network->first);
  *network = (flow_network){0};
}

static void add_half(flow_network *n, uint32_t from, uint32_t to, int64_t capacity) {
  n->edges[n->edge_count] = (flow_edge){.to = to, .next = n->first[from], .left = capacity};
  n->first[from] = n->edge_count++;
}

void flow_add(flow_network *network, uint32_t from, uint32_t to, int64_t capacity) {
  if (from == to || capacity <= 0 || network->edge_count + 2 > network->edge_capacity) return;
  add_half(network, from, to, capacity < FLOW_ENDLESS ? capacity : FLOW_ENDLESS);
  add_half(network, to, from, 0);
}

/* Distances from the source along edges that have capacity left. */
static bool reaches(flow_network *n, uint32_t source, uint32_t sink) {
  memset(n->level, 0xff, sizeof *n->level * n->node_count);
  uint32_t head = 0, tail = 0;
  n->level[source] = 0;
  n->queue[tail++] = source;
  while (head < tail) {
    uint32_t node = n->queue[head++];
    for (uint32_t e = n->first[node]; e != NONE; e = n->edges[e].next) {
      uint32_t to = n->edges[e].to;
      if (n->edges[e].left == 0 || n->level[to] != NONE) continue;
      n->level[to] = n->level[node] + 1;
      n->queue[tail++] = to;
    }
  }
  return n->level[sink] != NONE;
}

/* Sends as much as fits along the path of `length` edges. */
static int64_t augment(flow_network *n, uint32_t length) {
  int64_t amount = FLOW_ENDLESS;
  for (uint32_t i = 0; i < length; i++)
    if (n->edges[n->path[i]].left < amount) amount = n->edges[n->path[i]].left;
  for (uint32_t i = 0; i < length; i++) {
    n->edges[n->path[i]].left -= amount;
    n->edges[n->path[i] ^ 1].left += amount;
  }
  return amount;
}

/* Goes forward by one level at a time, without recursion: plans may be deep. */
static int64_t fill_levels(flow_network *n, uint32_t source, uint32_t sink) {
  int64_t total = 0;
  uint32_t length = 0, node = source;
  memcpy(n->next, n->first, sizeof *n->next * n->node_count);
  for (;;) {
    if (node == sink) {
      total += augment(n, length);
      length = 0;
      node = source;
    }
    uint32_t e = n->next[node];
    while (e != NONE && (n->edges[e].left == 0 || n->level[n->edges[e].to] != n->level[node] + 1))
      e = n->edges[e].next;
    n->next[node] = e;
    if (e != NONE) {
      n->path[length++] = e;
      node = n->edges[e].to;
    } else if (length > 0) {
      uint32_t last = n->path[--length];
      node = n->edges[last ^ 1].to;
      n->next[node] = n->edges[last].next; /* a dead end */
    } else {
      return total;
    }
  }
}

/* Marks what still reaches the sink. */
static void mark_sink_side(flow_network *n, uint32_t sink, unsigned char *sink_side) {
  memset(sink_side, 0, n->node_count);
  uint32_t head = 0, tail = 0;
  sink_side[sink] = 1;
  n->queue[tail++] = sink;
  while (head < tail) {
    uint32_t node = n->queue[head++];
    for (uint32_t e = n->first[node]; e != NONE; e = n->edges[e].next) {
      uint32_t from = n->edges[e].to;
      if (n->edges[e ^ 1].left == 0 || sink_side[from]) continue;
      sink_side[from] = 1;
      n->queue[tail++] = from;
    }
  }
}

int64_t flow_cut(flow_network *network, uint32_t source, uint32_t sink, unsigned char *sink_side) {
  int64_t total = 0;
  while (reaches(network, source, sink)) total += fill_levels(network, source, sink);
  mark_sink_side(network, sink, sink_side);
  return total;
}
