/* SPDX-License-Identifier: MIT */
/* The loops of LINALG, by type and instruction set.
 *
 * Small matrices take the lanes of vectors, one matrix each. A larger matrix is alone, with vectors
 * along its rows. The sizes alone choose the way, and lanes do not see each other, so the bits of a
 * matrix do not depend on its batch. */
#ifndef CPU_LINALG_TABLE_H
#define CPU_LINALG_TABLE_H

#include <stdint.h>

#include "compute/backend.h"
#include "core/isa.h"

enum { CPU_LINALG_MOST_LANES = 16 };

/* Threads that share the work on one large matrix: `share` runs the tasks on them. */
typedef struct cpu_linalg_crew {
  const void *device;
  int64_t tasks;
  void (*share)(const struct cpu_linalg_crew *crew, compute_task task, void *argument);
} cpu_linalg_crew;

/* One kind of problem. Strides are in elements. */
typedef struct cpu_linalg_problem {
  compute_linalg_function function;
  uint32_t flags;
  int64_t rows, columns, right;
  int64_t a_row, a_column, b_row, b_column;
  int64_t step; /* of results */
} cpu_linalg_problem;

/* The addresses of 1 … lanes matrices. */
typedef struct cpu_linalg_matrices {
  int32_t count;
  const void *a[CPU_LINALG_MOST_LANES], *b[CPU_LINALG_MOST_LANES];
  void *y[CPU_LINALG_MOST_LANES];
  const cpu_linalg_crew *crew; /* or NULL */
} cpu_linalg_matrices;

typedef struct cpu_linalg_loops {
  int32_t lanes;

  /* Numbers of memory that a call needs for each lane. */
  int64_t (*numbers)(const cpu_linalg_problem *problem);

  /* In lanes, and alone (count 1). `memory` is aligned to 64 bytes. */
  void (*together)(const cpu_linalg_problem *problem, const cpu_linalg_matrices *matrices,
                   void *memory);
  void (*alone)(const cpu_linalg_problem *problem, const cpu_linalg_matrices *matrices,
                void *memory);
} cpu_linalg_loops;

CPU_DECLARE_FLOATS(cpu_linalg_loops, cpu_linalg);

#endif
