/* SPDX-License-Identifier: MIT */
/* Which bytes of an arena are in use at which steps: blocks, each with a range of steps and a range
 * of bytes, and the lowest offset where another one fits. */
#ifndef PLAN_ARENA_H
#define PLAN_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/compile/capture/scratch.h"

/* Offsets and sizes are rounded up to this. */
#define OCCUPANCY_UNIT 64

typedef struct occupancy_block {
  uint32_t first, last; /* steps */
  uint64_t begin, end;  /* bytes */
} occupancy_block;

/* Ascending, with a gap between any two. */
typedef struct occupancy_ranges {
  struct occupancy_range *at;
  uint32_t count, capacity;
} occupancy_ranges;

typedef struct occupancy {
  scratch *memory;
  uint32_t steps;
  struct occupancy_node *nodes; /* NULL until needed */
  uint32_t leaves;              /* steps, rounded up to a power of two */
  occupancy_block *recent;      /* blocks that are not in the nodes yet */
  uint32_t recent_count, recent_capacity;
  occupancy_block *ending; /* those of them that last beyond `now`, the first to end on top */
  uint32_t ending_count, ending_capacity;
  occupancy_ranges in_use; /* by these */
  uint32_t now;            /* the first step of the last block added */
} occupancy;

/* Nothing is in use at the steps 0 … steps − 1. */
void occupancy_begin(occupancy *o, uint32_t steps, scratch *memory);

/* Allocates the lowest contiguous `bytes` (at least one) that are free from step `first` to step
 * `last`. False when out of memory. */
bool occupancy_place(occupancy *o, uint32_t first, uint32_t last, uint64_t bytes, uint64_t *offset);

#endif
