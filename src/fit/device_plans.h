/* SPDX-License-Identifier: MIT */
/* A device that processes frames: its plans, and its memory for spots and ROIs.
 *
 * A batch of frames has any number of ROIs, but plans have fixed shapes. So ROIs are processed in
 * chunks of a few sizes. Surplus rows of the last chunk get corners outside every frame, which cost
 * nothing. */
#ifndef FIT_DEVICE_PLANS_H
#define FIT_DEVICE_PLANS_H

#include "fit/fitter.h"

/* One chunk in progress: its inputs and outputs, and the host's copies. */
typedef struct fit_chunk {
  struct fit_chunk *next;
  struct fit_device_plans *device_plans;
  uint32_t inputs;         /* per-ROI inputs that have memory in this chunk */
  int64_t capacity, count; /* rows; rows with ROIs */
  compute_tensor *input[FIT_INPUTS], *records;
  void *host_input[FIT_INPUTS];
  float *host_records;
  void *staging; /* host memory of both, if the host does not address the device's memory */
  bool locked;   /* staging is page-locked */
} fit_chunk;

/* The spots that a device has found on some frames. */
typedef struct fit_marks {
  struct fit_marks *next;
  int64_t frames;                   /* capacity in frames */
  compute_tensor *spots, *response; /* on the device; response NULL if not needed */
  void *host_spots, *host_response; /* the host's copies, or NULL: it addresses the device */
} fit_marks;

typedef struct fit_plan {
  struct fit_plan *next;
  int64_t frames, rois; /* rois 0: the plan finds spots */
  uint32_t inputs;
  compute_plan *plan;
  compute_node pixels, input[FIT_INPUTS];
  compute_node output, response;
} fit_plan;

typedef struct fit_device_plans {
  struct fit_device_plans *next;
  compute_fit *fit;
  compute_device *device;
  bool direct; /* the host addresses the device's memory */
  compute_tensor *tables[FIT_TABLES];
  pthread_mutex_t mutex; /* protects the lists; plans are never removed */
  fit_plan *plans;
  fit_chunk *idle;
  fit_marks *idle_marks;
} fit_device_plans;

/* Returns the fitter's plans of a device, and creates them on first use. This function and all
 * below are thread-safe. */
compute_status device_plans_of(compute_fit *fit, compute_device *device,
                               fit_device_plans **device_plans);
void device_plans_free(fit_device_plans *device_plans);

/* Returns the plan that fits this many ROIs in this many frames. With rois 0 the plan finds spots
 * in the frames. */
compute_status device_plans_get(fit_device_plans *device_plans, int64_t frames, int64_t rois,
                                uint32_t inputs, fit_plan **plan);

/* Returns the rows of the next chunk when `left` ROIs remain. */
int64_t chunk_rows(int64_t left);

/* Takes a chunk with memory for this many rows. The caller owns it until chunk_give. */
compute_status chunk_take(fit_device_plans *device_plans, int64_t capacity, uint32_t inputs,
                          fit_chunk **chunk);
void chunk_give(fit_chunk *chunk); /* the device has finished with it */

/* Takes memory for the spots of at least this many frames. The caller owns it until marks_give. */
compute_status marks_take(fit_device_plans *device_plans, int64_t frames, fit_marks **marks);
void marks_give(fit_device_plans *device_plans, fit_marks *marks);

/* Submits the work on a filled chunk. `frames` are the frames of the plan. */
compute_status chunk_submit(fit_chunk *chunk, const fit_plan *plan, compute_tensor *frames,
                            compute_queue *queue);

#endif
