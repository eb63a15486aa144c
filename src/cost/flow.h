/* The largest flow into the sink of a network of directed edges, and with it the cheapest cut
 * between its source and that (push and relabel, Goldberg and Tarjan 1988, the highest node first:
 * what arrives at a node from many is sent on together, so that long chains take no longer than
 * short ones). Capacities are whole numbers, so that the result is exact. */
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
  uint32_t *first;  /* by node: its list of edges */
  uint32_t *level;  /* by node: at least so far from the sink; node_count: it is out of reach */
  uint32_t *next;   /* by node: where to continue in the list */
  uint32_t *queue;  /* of a search */
  uint32_t *active; /* by level: a list of nodes with an excess */
  uint32_t *next_active;    /* by node */
  int64_t *excess;          /* by node: what has arrived and not gone on */
  uint32_t *at_level;       /* by level: a list of all nodes there … */
  uint32_t *before, *after; /* … by node: its neighbours in the list */
  uint32_t highest;         /* no active node is above this level */
  uint32_t top;             /* no node is above this level, unless it is out of reach */
  uint64_t relabelled;      /* edges looked at since the levels were exact */
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
