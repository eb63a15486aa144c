/* SPDX-License-Identifier: MIT */
/* Batches of frames and their ROIs. */
#ifndef FIT_FRAMES_H
#define FIT_FRAMES_H

#include "fit/device_plans.h"

/* Frames that a step has processed, with the records of their ROIs. */
typedef struct fit_part {
  struct fit_part *next;
  int64_t first, frames;
  int64_t first_roi; /* where its ROIs stand among the caller's corners */
  int64_t rois;
  int32_t *corners; /* of ROIs that were found; NULL: the caller's */
  fit_chunk *chunks;
} fit_part;

/* movie.c: how many of a batch's frames are searched at a time: on a CPU, at most as many as its
 * caches hold together with the filter's intermediate results. */
int64_t movie_piece(const fit_device_plans *device_plans, int64_t frames);

/* Finds the spots of a part on its frames, which the step has on its device. */
compute_status movie_find(fit_device_plans *device_plans, const compute_batch_step *step,
                          fit_part *part);

#endif
