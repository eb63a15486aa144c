/* SPDX-License-Identifier: MIT */
/* The interface of the batched Gaussian fit for an instruction set: per model, a function that fits
 * a run of ROIs, and the size of its workspace. */
#ifndef CPU_FIT_FIT_TABLE_H
#define CPU_FIT_FIT_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "compute/backend/fit_kinds.h"
#include "compute/backend.h"
#include "compute/fit_model.h"
#include "core/isa.h"

/* A bound operand: strides in bytes over (ROI or frame, row, column) or (ROI, column). */
typedef struct cpu_fit_operand {
  const unsigned char *data; /* NULL if absent */
  int64_t stride[3];
} cpu_fit_operand;

/* One launch. */
typedef struct cpu_fit_job {
  const compute_fit_problem *problem; /* without zeros that mean a default */
  bool whole;                         /* the pixels are u16, otherwise f32 */
  int64_t frames, height, width;      /* with corners: number of frames, size of frames and maps */
  cpu_fit_operand pixels, corners, offset, gain, variance, mask, sigma, start, lower, upper, spline;
  unsigned char *record;
  int64_t record_stride[2]; /* bytes between ROIs, and between columns */
} cpu_fit_job;

typedef struct cpu_fit_loops {
  int32_t lanes;                                            /* ROIs fitted in parallel */
  uint64_t (*workspace_bytes)(const compute_fit_problem *); /* per concurrent call */

  /* Fits `count` ROIs from number `first` on and writes their records. */
  void (*fit)(const cpu_fit_job *job, int64_t first, int64_t count, void *workspace);
} cpu_fit_loops;

CPU_DECLARE(cpu_fit_loops, cpu_fit_xynb);
CPU_DECLARE(cpu_fit_loops, cpu_fit_xynbs);
CPU_DECLARE(cpu_fit_loops, cpu_fit_xynbsxsy);
CPU_DECLARE(cpu_fit_loops, cpu_fit_xyznb);
CPU_DECLARE(cpu_fit_loops, cpu_fit_spline);

/* ---- SPOTS ----------------------------------------------------------------------------------- */

/* Finding spots: one pass over a frame, by instruction set. See spots.c. */

typedef struct cpu_spots_job {
  compute_spots_attributes search;
  int64_t height, width;
  bool whole;        /* the pixels are u16 */
  bool response;     /* the output is the filtered frame, not the spots */
  int64_t stride[3]; /* bytes between frames, rows and columns of the input */
  int64_t result_stride[3];
  const float *weight, *wide_weight;   /* of the filters: centre and one side */
  int32_t reach;                       /* of both filters together */
  const float *edge_down, *edge_along; /* noise near edges: [3, height], [3, width] */
  compute_spots_tiles down, along;     /* of the noise */
  const unsigned char *frames;
  unsigned char *result;
} cpu_spots_job;

typedef struct cpu_spots_loops {
  /* Bytes of workspace for either function; INT64_MAX if they overflow. */
  int64_t (*workspace_bytes)(const cpu_spots_job *job);

  /* Computes the variance of a filtered frame in tile row `tile`: variance[0 … along.count − 1]. */
  void (*measure)(const cpu_spots_job *job, int64_t frame, int64_t tile, float *variance,
                  void *workspace);

  /* Computes rows first … end − 1 of a frame's result. They do not depend on the division of the
   * frame. `variance` has all tiles. */
  void (*find)(const cpu_spots_job *job, int64_t frame, const float *variance, int64_t first,
               int64_t end, void *workspace);
} cpu_spots_loops;

CPU_DECLARE(cpu_spots_loops, cpu_spots);

#endif
