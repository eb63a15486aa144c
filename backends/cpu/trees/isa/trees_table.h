/* SPDX-License-Identifier: MIT */
/* The loops of TREES, by type and instruction set. */
#ifndef CPU_TREES_TABLE_H
#define CPU_TREES_TABLE_H

#include <stdint.h>

#include "compute/backend.h"
#include "core/isa.h"

enum { CPU_TREES_ROWS = 64 }; /* of a block */

/* The tables, and a range of trees. */
typedef struct cpu_trees {
  const void *nodes, *values;
  const int64_t *heads;
  int64_t first, end, targets;
  compute_combine combine;
} cpu_trees;

typedef struct cpu_trees_loops {
  /* Combines the values of a block's rows with `results` [targets][CPU_TREES_ROWS]. `x` has the
   * columns, [columns][CPU_TREES_ROWS]; `rows` is a multiple of 8. */
  void (*block)(const cpu_trees *trees, const void *x, int64_t rows, double *results);

  /* The same for one row: x [columns], results [targets]. */
  void (*row)(const cpu_trees *trees, const void *x, double *results);

  /* The same for wide records. */
  void (*wide_block)(const cpu_trees *trees, const void *x, int64_t rows, double *results);
  void (*wide_row)(const cpu_trees *trees, const void *x, double *results);
} cpu_trees_loops;

CPU_DECLARE_FLOATS(cpu_trees_loops, cpu_trees);

#endif
