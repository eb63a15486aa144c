/* The largest flow through a network of directed edges, and with it the cheapest cut between its
 * source and its sink (Dinic's method: augment along all shortest paths at once, then look for
 * longer ones). Capacities are whole numbers, so that the result is exact. */
#ifndef ROUTE_FLOW_H
#define ROUTE_FLOW_H

#include <stdbool.h>
#include <stdint.h>

/* Never cut as long as there is any other way. */
#define FLOW_ENDLESS (INT64_MAX / 8)

typedef struct flow_edge {
  uint32_t to, next; /* the next edge from the same node */
  int64_t left;      /* what may still flow; edge i ^ 1 is the same one backwards */
} flow_edge;

typedef struct flow_network {
  uint32_t node_count, edge_count, edge_capacity;
  flow_edge *edges;
  uint32_t *first, *level, *next, *queue, *path; /* by node */
} flow_network;

/* Room for so many edges. False when memory is short. */
bool flow_create(flow_network *network, uint32_t nodes, uint32_t edges);
void flow_release(flow_network *network);

/* An edge without capacity is left out. */
void flow_add(flow_network *network, uint32_t from, uint32_t to, int64_t capacity);

/* Cuts source from sink at the least cost, which is returned. sink_side[node] becomes 1 for the
 * nodes that must be on the sink's side; the others, also those that could be on either at the same
 * cost, stay with the source. */
int64_t flow_cut(flow_network *network, uint32_t source, uint32_t sink, unsigned char *sink_side);

#endif
