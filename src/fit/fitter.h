/* SPDX-License-Identifier: MIT */
/* Internals of a fitter.
 *
 * Stacks of ROIs are items of a batch iterator, which compiles their graph itself (fitter_run.c).
 * Frames are also items of an iterator, but have any number of ROIs each, so they need a custom
 * step (frames.c). The step takes the ROIs of its frames from the caller's corners, or finds them
 * on the frames (movie.c). It has its own plans and memory for records (device_plans.c). In both
 * cases the thread that runs the fitter receives the records in order and delivers them
 * (delivery.c). */
#ifndef FIT_FITTER_H
#define FIT_FITTER_H

#include <pthread.h>
#include <stdatomic.h>

#include "compute/fit.h"
#include "core/device/device.h"
#include "core/kernel/common/fit_problem.h"

enum {
  FIT_MAPS = COMPUTE_FIT_WITH_OFFSET | COMPUTE_FIT_WITH_GAIN | COMPUTE_FIT_WITH_VARIANCE |
             COMPUTE_FIT_WITH_MASK,
  FIT_MAP_COUNT = 4, /* bits 1 … 4 of the inputs */
  FIT_TABLES = 5     /* the maps, then the spline: shared by all ROIs */
};

/* Outputs that the summary counts. They are computed even if the caller does not ask for them. */
enum { FIT_COUNTED = COMPUTE_FIT_ITERATIONS | COMPUTE_FIT_STATUS };

typedef enum fit_state {
  FIT_IDLE,
  FIT_RUNNING, /* on a caller's thread */
  FIT_STARTED, /* on the fitter's own thread */
  FIT_ENDED    /* the thread has ended; compute_fit_wait has not joined it */
} fit_state;

struct compute_fit {
  compute_context *context;
  compute_fit_problem problem; /* as computed: with maps, without per-ROI inputs */
  uint32_t wanted;             /* outputs that the caller asked for */
  compute_dtype dtype;
  bool frames, find;
  bool corners_in_maps; /* a stack whose maps have the size of the frames */
  int64_t frame_rows, frame_columns;
  compute_spot_options spots;
  compute_tensor *tables[FIT_TABLES];

  compute_device **devices; /* as in compute_batch_options */
  size_t device_count;
  int64_t batch_items;
  uint32_t slots;
  uint64_t memory;
  compute_fallback fallback;
  uint32_t flags;
  char *name;

  compute_batch *batch;
  uint32_t batch_inputs; /* per-ROI inputs of the current iterator */
  uint32_t batch_runs;   /* runs of the current iterator */
  int64_t find_devices;  /* devices that share `finding`, set before the first run; 0: stacks */

  pthread_mutex_t mutex; /* protects the fields below */
  fit_state state;
  bool waiting; /* a thread is in compute_fit_wait */
  pthread_t thread;
  compute_fit_run_options started;
  compute_fit_summary summary;
  compute_status status;
  compute_error error;
  struct compute_batch *running; /* the iterator to cancel; NULL outside compute_batch_run */
  atomic_bool cancelled;
  compute_batch_times times; /* times of the last run */
  atomic_llong finding; /* nanoseconds of this run in which steps found spots, over all devices */

  /* For frames: state of the current run. */
  struct fit_delivery *delivery;
  pthread_mutex_t parts_mutex; /* protects `parts` and `device_plans` */
  struct fit_part *parts;      /* computed batches, sorted by their first frames */
  struct fit_device_plans *device_plans;
};

/* Returns the elements per row of a per-ROI input: 3, 2 or P. */
int32_t fit_input_width(const compute_fit *fit, int32_t number);

/* Returns the caller's array for such an input, or NULL. */
const void *fit_input_array(const compute_fit_run_options *options, int32_t number);

/* Adds a fit to a graph. nodes[i] is input i of the problem. The inputs that all ROIs share are
 * added from `tables`. */
compute_node fit_record(const compute_fit *fit, compute_graph *graph, compute_node pixels,
                        uint32_t inputs, const compute_node *nodes, compute_tensor *const *tables);

/* Returns the options that iterators of stacks and of frames share. */
compute_batch_options fit_batch_options(compute_fit *fit);

/* Creates the iterator for these per-ROI inputs. */
compute_status stack_open(compute_fit *fit, uint32_t inputs);
compute_status stack_run(compute_fit *fit, const compute_fit_run_options *options,
                         struct fit_delivery *delivery);

/* frames.c: the same for frames. */
compute_status frames_open(compute_fit *fit);
compute_status frames_run(compute_fit *fit, const compute_fit_run_options *options,
                          struct fit_delivery *delivery);
void frames_close(compute_fit *fit);

/* inputs.c: checks a run before it begins. */
compute_status fit_check_run(const compute_fit *fit, const compute_fit_run_options *options);

/* fitter_run.c: runs an iterator so that compute_fit_cancel finds it, and stores its counts. */
compute_status fit_run_batch(compute_fit *fit, compute_batch *batch,
                             const compute_batch_run_options *options,
                             struct fit_delivery *delivery);

/* The delivery of one run: from records to the caller's arrays and function. All calls come from
 * the thread that runs the fitter. */
typedef struct fit_delivery {
  compute_fit *fit;
  const compute_fit_run_options *options;
  compute_fit_summary summary;
  int32_t columns;  /* elements of a record */
  int32_t at[9];    /* first column of output i (a bit's number) in a record, or −1 */
  bool streams;     /* results are written with non-temporal stores */
  bool in_parallel; /* uses the context's threads: no device of the run does */

  /* State of the current batch: */
  compute_fit_results to; /* addresses of its results; NULL: not stored */
  _Atomic int64_t of_status[COMPUTE_FIT_STATUS_COUNT], iterations;

  void *scratch; /* results that only the caller's function gets */
  size_t scratch_bytes;
} fit_delivery;

/* Begins and ends the delivery of a run. When a run begins, all statuses are COMPUTE_FIT_NOT_RUN.
 * When it ends, every ROI of an incomplete batch has this status and NaN in all outputs, even if
 * its results were already written. */
void delivery_open(fit_delivery *delivery, compute_fit *fit,
                   const compute_fit_run_options *options);
void delivery_close(fit_delivery *delivery);

/* Delivers a batch of `count` records: begin, then pieces in sequence with their positions in the
 * batch, then end. The batch is complete when delivery_end succeeds. */
compute_status delivery_begin(fit_delivery *delivery, int64_t count);
void delivery_take(fit_delivery *delivery, int64_t place, int64_t count, const float *records);
compute_status delivery_end(fit_delivery *delivery, int64_t count, const int32_t *corners,
                            int64_t frames);

#endif
