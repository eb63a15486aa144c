/* SPDX-License-Identifier: MIT */
/* The cheapest placement of a plan's units on the CPU and one accelerator.
 *
 * A unit has a cost on either device. A value costs a copy if any reader is on the other device
 * than its producer; one copy, however many readers there are. With two devices the cheapest
 * placement is the minimum cut of a network, so it is exact for every graph, not only for chains
 * and trees. */
#ifndef COST_PLACEMENT_H
#define COST_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

/* Instead of a unit: a fixed location, the CPU's memory or the accelerator's. */
#define PLACEMENT_ON_CPU         (UINT32_MAX - 1)
#define PLACEMENT_ON_ACCELERATOR UINT32_MAX

/* A cost larger than any sum of others: the device cannot run it. */
#define PLACEMENT_IMPOSSIBLE (INT64_C(1) << 56)

typedef struct placement_unit {
  int64_t cpu, accelerator; /* picoseconds */
} placement_unit;

typedef struct placement_value {
  uint32_t maker;        /* a unit or a fixed location */
  int64_t to, from;      /* picoseconds of copying it to the accelerator, and from it */
  uint32_t first, count; /* its readers, in placement_problem.readers: units or fixed locations */
} placement_value;

typedef struct placement_problem {
  const placement_unit *units;
  uint32_t unit_count;
  const placement_value *values;
  uint32_t value_count;
  const uint32_t *readers;
} placement_problem;

/* Fills on_accelerator[unit]; of equally good placements, one with as much as possible on the CPU.
 * The cost is returned in *total. False when out of memory. */
bool placement_solve(const placement_problem *problem, unsigned char *on_accelerator,
                     int64_t *total);

/* The cost of a placement. */
int64_t placement_cost(const placement_problem *problem, const unsigned char *on_accelerator);

#endif
