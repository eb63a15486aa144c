/* SPDX-License-Identifier: MIT */
/* Internals of a fitter.
 *
 * Stacks of ROIs go through the batch iterator as items, by a graph that it compiles itself
 * (fitter_run.c). Frames go through it as items, too, but have any number of ROIs each, so they
 * need a custom step (frames.c), which finds the ROIs of its frames among the caller's corners, or
 * on the frames (movie.c), and has its own plans and memory for records (device_plans.c). Either
 * way records arrive in order on the thread that runs the fitter and are delivered there
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
  FIT_TABLES = 5     /* the maps, then the spline: what all ROIs share */
};

/* Computed in addition to the caller's outputs: the summary counts them. */
enum { FIT_COUNTED = COMPUTE_FIT_ITERATIONS | COMPUTE_FIT_STATUS };

typedef enum fit_state {
  FIT_IDLE,
  FIT_RUNNING, /* on a caller's thread */
  FIT_STARTED, /* on the fitter's own */
  FIT_ENDED    /* exists, and has not been waited for */
} fit_state;

struct compute_fit {
  compute_context *context;
  compute_fit_problem problem; /* as it is computed, with maps, without inputs of single ROIs */
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
  uint32_t batch_inputs; /* inputs of single ROIs that it was made for */
  uint32_t batch_runs;   /* since it was made */
  int64_t find_devices;  /* whose time `finding` is, set before the first run; 0: ROIs of a stack */

  pthread_mutex_t mutex; /* of what follows */
  fit_state state;
  bool waiting; /* a thread is in compute_fit_wait */
  pthread_t thread;
  compute_fit_run_options started;
  compute_fit_summary summary;
  compute_status status;
  compute_error error;
  struct compute_batch *running; /* to be cancelled; NULL outside compute_batch_run */
  atomic_bool cancelled;
  compute_batch_times times; /* of the last run */
  atomic_llong finding; /* nanoseconds that steps of this run took to find spots, all devices */

  /* Frames: of the current run. */
  struct fit_delivery *delivery;
  pthread_mutex_t parts_mutex; /* of `parts` and `device_plans` */
  struct fit_part *parts;      /* batches that are computed, by their first frames */
  struct fit_device_plans *device_plans;
};

/* Elements of a row of an input of single ROIs: 3, 2 or P. */
int32_t fit_input_width(const compute_fit *fit, int32_t number);

/* The caller's array for such an input, or NULL. */
const void *fit_input_array(const compute_fit_run_options *options, int32_t number);

/* Adds a fit to a graph; nodes[i] is input i of the problem, what all ROIs share is added here from
 * `tables`. */
compute_node fit_record(const compute_fit *fit, compute_graph *graph, compute_node pixels,
                        uint32_t inputs, const compute_node *nodes, compute_tensor *const *tables);

/* The iterator's options that stacks and frames share. */
compute_batch_options fit_batch_options(compute_fit *fit);

/* Makes the iterator for these inputs of single ROIs. */
compute_status stack_open(compute_fit *fit, uint32_t inputs);
compute_status stack_run(compute_fit *fit, const compute_fit_run_options *options,
                         struct fit_delivery *delivery);

/* frames.c: likewise. */
compute_status frames_open(compute_fit *fit);
compute_status frames_run(compute_fit *fit, const compute_fit_run_options *options,
                          struct fit_delivery *delivery);
void frames_close(compute_fit *fit);

/* inputs.c: checks a run before it begins. */
compute_status fit_check_run(const compute_fit *fit, const compute_fit_run_options *options);

/* fit.c: runs an iterator so that compute_fit_cancel finds it, and stores its counts. */
compute_status fit_run_batch(compute_fit *fit, compute_batch *batch,
                             const compute_batch_run_options *options,
                             struct fit_delivery *delivery);

typedef struct delivery_counts {
  int64_t of_status[COMPUTE_FIT_STATUS_COUNT], iterations;
} delivery_counts;

/* From records to the caller's arrays and function: one run's. All calls come from the thread that
 * runs the fitter. */
typedef struct fit_delivery {
  compute_fit *fit;
  const compute_fit_run_options *options;
  compute_fit_summary summary;
  int32_t columns;  /* of a record */
  int32_t at[9];    /* where output i (a bit's number) begins in it, or −1 */
  bool streams;     /* results go past the caches */
  bool in_parallel; /* the threads have nothing else to do: the CPU does not fit */

  /* Of the batch that is being delivered: */
  compute_fit_results to; /* where its results go; NULL: nowhere */
  delivery_counts counts;

  void *scratch; /* for results that only the caller's function gets */
  size_t scratch_bytes;
} fit_delivery;

/* A run. When it begins, all statuses are COMPUTE_FIT_NOT_RUN; when it ends, ROIs that are not
 * complete have this status and NaN everywhere, whatever was written of them before. */
void delivery_open(fit_delivery *delivery, compute_fit *fit,
                   const compute_fit_run_options *options);
void delivery_close(fit_delivery *delivery);

/* A batch of `count` records in pieces: begin, pieces in sequence with their positions in the
 * batch, end. It counts as complete when the end succeeds. */
compute_status delivery_begin(fit_delivery *delivery, int64_t count);
void delivery_take(fit_delivery *delivery, int64_t place, int64_t count, const float *records);
compute_status delivery_end(fit_delivery *delivery, int64_t count, const int32_t *corners,
                            int64_t frames);

#endif
