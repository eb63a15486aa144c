/* Finding spots: one pass over a frame, by instruction set. spots.c says what it computes. */
#ifndef CPU_ISA_SPOTS_TABLE_H
#define CPU_ISA_SPOTS_TABLE_H

#include <stdbool.h>

#include "compute/backend.h"
#include "core/isa.h"

typedef struct cpu_spots_job {
  compute_spot_search search;
  int64_t height, width;
  bool whole;        /* the pixels are u16 */
  bool response;     /* the filtered frame is wanted, not the spots */
  int64_t stride[3]; /* bytes, of frames, rows and columns of the input */
  int64_t result_stride[3];
  const float *weight, *wide_weight; /* of the middle and of one side */
  const unsigned char *frames;
  unsigned char *result;
} cpu_spots_job;

struct cpu_spots_table {
  /* Bytes of workspace, which a search of either kind needs; INT64_MAX if they cannot be counted.
   */
  int64_t (*workspace_bytes)(const cpu_spots_job *job);

  /* 1 / noise of a filtered frame; 0 if it has none. */
  float (*inverse_noise)(const cpu_spots_job *job, int64_t frame, void *workspace);

  /* Rows first … end − 1 of a frame's result. They do not depend on where a frame is cut. */
  void (*find)(const cpu_spots_job *job, int64_t frame, float inverse_noise, int64_t first,
               int64_t end, void *workspace);
};

extern const cpu_spots_table cpu_spots_table_scalar, cpu_spots_table_avx2, cpu_spots_table_avx512;

#endif
