/* SPDX-License-Identifier: MIT */
/* The loops of depthwise convolution on planes with contiguous columns, once per instruction set.
 * conv_planes.c chooses the planes. Strides are in elements. */
#ifndef CPU_ISA_PLANES_TABLE_H
#define CPU_ISA_PLANES_TABLE_H

#include <stdint.h>

#include "core/isa.h"

/* Some rows of results of one plane, in f32, for a filter with the same stride in both directions. A
 * sum runs over the filter's rows and columns, in this order, and becomes
 * min(max(sum + bias, low) + zero, high), as in finish_table.h. */
typedef struct cpu_planes_band {
  const float *data; /* row 0, column 0 of the plane */
  int64_t data_row, height, width;
  int64_t padding[2];
  const float *zeros;  /* `width` zeros: a row outside the data */
  const float *filter; /* rows one after the other */
  int64_t size[2], dilation[2];
  int64_t row, rows, columns; /* of results: the first row, and the counts */
  float *results;             /* of row `row` */
  int64_t results_row;
  float bias, low, zero, high;
} cpu_planes_band;

typedef void (*cpu_planes_loop)(const cpu_planes_band *band);

enum { CPU_PLANES_TAPS = 32 };

typedef struct cpu_planes_table {
  int64_t least_columns; /* of results */
  cpu_planes_loop run3, run3s2, run5,
      run5s2;          /* by the size of a square filter and the stride, without
                                               * dilation; or NULL */
  cpu_planes_loop run; /* any filter with stride 1 and at most CPU_PLANES_TAPS
                                               * columns; or NULL */
} cpu_planes_table;

CPU_DECLARE(cpu_planes_table, cpu_planes);

#endif
