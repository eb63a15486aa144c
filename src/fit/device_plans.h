/* SPDX-License-Identifier: MIT */
/* A device that processes frames: its plans, and its memory for spots and ROIs.
 *
 * A batch of frames has any number of ROIs, and plans have fixed shapes. So ROIs are processed in
 * chunks of a few sizes, and surplus rows of a last chunk get corners outside every frame, which
 * cost nothing. */
#ifndef FIT_DEVICE_PLANS_H
#define FIT_DEVICE_PLANS_H

#include "fit/fitter.h"

/* One chunk in progress: its inputs and outputs, and the host's copies. */
typedef struct fit_chunk {
  struct fit_chunk *next;
  struct fit_device_plans *device_plans;
  uint32_t inputs;         /* those of single ROIs that it has room for */
  int64_t capacity, count; /* rows; those with ROIs */
  compute_tensor *input[FIT_INPUTS], *records;
  void *host_input[FIT_INPUTS];
  float *host_records;
  void *staging; /* of the two, where the host does not address the device's memory */
  bool locked;   /* staging is page-locked */
} fit_chunk;

/* What a device has found on some frames. */
typedef struct fit_marks {
  struct fit_marks *next;
  int64_t frames;                   /* that there is room for */
  compute_tensor *spots, *response; /* on the device; response NULL if not needed */
  void *host_spots, *host_response; /* the host's copies, or NULL: it addresses the device */
} fit_marks;

typedef struct fit_plan {
  struct fit_plan *next;
  int64_t frames, rois; /* rois 0: finds spots */
  uint32_t inputs;
  compute_plan *plan;
  compute_node pixels, input[FIT_INPUTS];
  compute_node output, response;
} fit_plan;

typedef struct fit_device_plans {
  struct fit_device_plans *next;
  compute_fit *fit;
  compute_device *device;
  bool direct; /* the host addresses its memory */
  compute_tensor *tables[FIT_TABLES];
  pthread_mutex_t mutex; /* of the lists; plans are never removed */
  fit_plan *plans;
  fit_chunk *idle;
  fit_marks *idle_marks;
} fit_device_plans;

/* The fitter's plans of a device; made if it is new. Thread-safe, as all below. */
compute_status device_plans_of(compute_fit *fit, compute_device *device,
                               fit_device_plans **device_plans);
void device_plans_free(fit_device_plans *device_plans);

/* The plan for fitting that number of ROIs in that number of frames, or with rois 0 for finding
 * spots in them. */
compute_status device_plans_get(fit_device_plans *device_plans, int64_t frames, int64_t rois,
                                uint32_t inputs, fit_plan **plan);

/* Rows of the next chunk when `left` ROIs are left. */
int64_t chunk_rows(int64_t left);

/* A chunk with room for that number of rows. It is the caller's until chunk_give. */
compute_status chunk_take(fit_device_plans *device_plans, int64_t capacity, uint32_t inputs,
                          fit_chunk **chunk);
void chunk_give(fit_chunk *chunk); /* the device has finished with it */

/* Room for what is found on that number of frames, or more. It is the caller's until marks_give. */
compute_status marks_take(fit_device_plans *device_plans, int64_t frames, fit_marks **marks);
void marks_give(fit_device_plans *device_plans, fit_marks *marks);

/* Submits the work on a filled chunk. `frames` holds the plan's frames. */
compute_status chunk_submit(fit_chunk *chunk, const fit_plan *plan, compute_tensor *frames,
                            compute_queue *queue);

#endif
