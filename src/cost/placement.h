/* SPDX-License-Identifier: MIT */
/* Where every unit of a plan runs, on the CPU or on one accelerator, so that the whole costs least.
 *
 * A unit costs something on either device. A value costs a copy when some reader is on the other
 * device than its maker; one copy, however many readers there are. With two devices the cheapest
 * placement is the cheapest cut of a network, so it is found exactly for every graph, and not only
 * for chains and trees. */
#ifndef COST_PLACEMENT_H
#define COST_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

/* Instead of a unit: a place that is settled, the CPU's memory or the accelerator's. */
#define PLACEMENT_ON_CPU         (UINT32_MAX - 1)
#define PLACEMENT_ON_ACCELERATOR UINT32_MAX

/* A cost that no sum of others reaches: the device cannot do it. */
#define PLACEMENT_IMPOSSIBLE (INT64_C(1) << 56)

typedef struct placement_unit {
  int64_t cpu, accelerator; /* picoseconds */
} placement_unit;

typedef struct placement_value {
  uint32_t maker;        /* a unit or a settled place */
  int64_t to, from;      /* picoseconds of copying it to the accelerator, and from it */
  uint32_t first, count; /* its readers, in placement_problem.readers: units or settled places */
} placement_value;

typedef struct placement_problem {
  const placement_unit *units;
  uint32_t unit_count;
  const placement_value *values;
  uint32_t value_count;
  const uint32_t *readers;
} placement_problem;

/* Fills on_accelerator[unit]; of equally good placements, one with as much as possible on the CPU.
 * The cost goes to *total. False when memory is short. */
bool placement_solve(const placement_problem *problem, unsigned char *on_accelerator,
                     int64_t *total);

/* What a placement costs. */
int64_t placement_cost(const placement_problem *problem, const unsigned char *on_accelerator);

#endif
