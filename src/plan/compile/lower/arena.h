/* SPDX-License-Identifier: MIT */
/* Occupancy of an arena: which bytes are in use at which steps. A block is a range of steps and a
 * range of bytes. The search returns the lowest offset at which another block fits. */
#ifndef PLAN_ARENA_H
#define PLAN_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/compile/capture/scratch.h"

/* bytes; offsets and sizes are rounded up to this */
#define OCCUPANCY_UNIT 64

typedef struct occupancy_block {
  uint32_t first, last; /* steps */
  uint64_t begin, end;  /* bytes */
} occupancy_block;

/* Disjoint ranges of bytes, ascending, with a gap between any two. */
typedef struct occupancy_ranges {
  struct occupancy_range *at;
  uint32_t count, capacity;
} occupancy_ranges;

typedef struct occupancy {
  scratch *memory;
  uint32_t steps;
  struct occupancy_node *nodes; /* NULL until needed */
  uint32_t leaves;              /* number of steps, rounded up to a power of two */
  occupancy_block *recent;      /* blocks that are not in the nodes yet */
  uint32_t recent_count, recent_capacity;
  occupancy_block *ending; /* heap of recent blocks that outlast `now`, the first to end on top */
  uint32_t ending_count, ending_capacity;
  occupancy_ranges in_use; /* the bytes of these blocks */
  uint32_t now;            /* the first step of the last block added */
} occupancy;

/* Starts with no bytes in use at the steps 0 … steps − 1. */
void occupancy_begin(occupancy *o, uint32_t steps, scratch *memory);

/* Allocates `bytes` (at least one) at the lowest offset that is free from step `first` to step
 * `last`. Returns false when out of memory. */
bool occupancy_place(occupancy *o, uint32_t first, uint32_t last, uint64_t bytes, uint64_t *offset);

#endif
