/* SPDX-License-Identifier: MIT */
/* Batches of frames and their ROIs. */
#ifndef FIT_FRAMES_H
#define FIT_FRAMES_H

#include "fit/device_plans.h"

/* The frames of one step, with the records of their ROIs. */
typedef struct fit_part {
  struct fit_part *next;
  int64_t first, frames;
  int64_t first_roi; /* index of its first ROI in the caller's corners */
  int64_t rois;
  int32_t *corners; /* corners of found ROIs; NULL: the caller's corners */
  fit_chunk *chunks;
} fit_part;

/* movie.c: returns the number of a batch's frames that are searched at a time. On a CPU, the frames
 * and the filter's intermediate results must fit into the caches. */
int64_t movie_piece(const fit_device_plans *device_plans, int64_t frames);

/* Finds the spots of a part on its frames, which are on the step's device. */
compute_status movie_find(fit_device_plans *device_plans, const compute_batch_step *step,
                          fit_part *part);

#endif
