/* SPDX-License-Identifier: MIT */
/* The cheapest placement of a plan's units on the CPU and one accelerator.
 *
 * A unit has a cost on either device. A value costs one copy if any reader is not on its producer's
 * device; the number of readers does not matter. With two devices, the cheapest placement is the
 * minimum cut of a network. So the result is exact for every graph, not only for chains and
 * trees. */
#ifndef COST_PLACEMENT_H
#define COST_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

/* Fixed locations that may replace a unit: the CPU's memory and the accelerator's. */
#define PLACEMENT_ON_CPU         (UINT32_MAX - 1)
#define PLACEMENT_ON_ACCELERATOR UINT32_MAX

/* The device cannot run the unit. The cost exceeds any sum of real costs. */
#define PLACEMENT_IMPOSSIBLE (INT64_C(1) << 56)

typedef struct placement_unit {
  int64_t cpu, accelerator; /* picoseconds */
} placement_unit;

typedef struct placement_value {
  uint32_t maker;        /* a unit or a fixed location */
  int64_t to, from;      /* picoseconds of a copy to the accelerator, and from it */
  uint32_t first, count; /* range in placement_problem.readers: units or fixed locations */
} placement_value;

typedef struct placement_problem {
  const placement_unit *units;
  uint32_t unit_count;
  const placement_value *values;
  uint32_t value_count;
  const uint32_t *readers;
} placement_problem;

/* Fills in on_accelerator[unit] and *total, the cost. Among equally good placements, it chooses one
 * with as much as possible on the CPU. Returns false when out of memory. */
bool placement_solve(const placement_problem *problem, unsigned char *on_accelerator,
                     int64_t *total);

/* Returns the cost of a placement. */
int64_t placement_cost(const placement_problem *problem, const unsigned char *on_accelerator);

#endif
