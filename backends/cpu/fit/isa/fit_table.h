/* What the batched Gaussian fit needs of an instruction set: for each model a function that fits a
 * run of ROIs, and the memory in which it does so. */
#ifndef CPU_FIT_TABLE_H
#define CPU_FIT_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "compute/fit_model.h"
#include "core/isa.h"

/* An operand as it is bound: strides in bytes over (ROI or frame, row, column) or (ROI, column). */
typedef struct cpu_fit_operand {
  const unsigned char *data; /* NULL: there is none */
  int64_t stride[3];
} cpu_fit_operand;

/* One launch. */
typedef struct cpu_fit_job {
  const compute_fit_problem *problem; /* no 0 that means a default */
  bool whole;                         /* the pixels are u16, else f32 */
  int64_t frames, height, width;      /* with corners: number of frames, size of frames and maps */
  cpu_fit_operand pixels, corners, offset, gain, variance, mask, sigma, start, lower, upper;
  unsigned char *record;
  int64_t record_stride[2]; /* bytes from ROI to ROI, and from column to column */
} cpu_fit_job;

/* Fits `count` ROIs from number `first` on and writes their records. */
typedef void (*cpu_fit_function)(const cpu_fit_job *job, int64_t first, int64_t count,
                                 void *workspace);

struct cpu_fit_table {
  int32_t lanes;                                            /* ROIs that are fitted side by side */
  uint64_t (*workspace_bytes)(const compute_fit_problem *); /* of one running function */
  cpu_fit_function fit[COMPUTE_FIT_MODEL_COUNT];
};

#endif
