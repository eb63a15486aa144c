/* SPDX-License-Identifier: MIT */
/** @file
 * Batched maximum-likelihood fits of 2-D Gaussians to small camera images (ROIs), for
 * single-molecule localisation and the like. Models, units and conventions: fit_model.h.
 * @code
 *   compute_fit *fit;
 *   compute_fit_create(context, &(compute_fit_options){
 *       .problem = {.model = COMPUTE_FIT_XYNB, .rows = 7, .columns = 7, .sigma = {1.3}}}, &fit);
 *   compute_fit_run(fit, &(compute_fit_run_options){
 *       .pixels = {.array = rois}, .count = n,
 *       .results = {.parameters = parameters, .std = uncertainties, .status = status}}, NULL);
 *   compute_fit_release(fit);
 * @endcode
 * The same ROI gives the same record, bit for bit, regardless of batch size and of the other ROIs;
 * devices agree within a hundredth of the uncertainty. */
#ifndef COMPUTE_FIT_H
#define COMPUTE_FIT_H

#include "compute/batch.h"
#include "compute/fit_model.h"
#include "compute/graph.h"
#include "compute/spots.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- In a graph ---------------------------------------------------------------------------- */

/** The inputs that problem->inputs names; the others are ignored. dtypes and shapes in fit_model.h;
 * ROI axes of size 1 are repeated. */
typedef struct compute_fit_nodes {
  compute_node corners, offset, gain, variance, mask, sigma, start, lower, upper;
  compute_node spline; /**< read for COMPUTE_FIT_SPLINE only */
} compute_fit_nodes;

/** Fits every ROI. `pixels`: u16 or f32 [n, rows, columns], or with corners (and without
 * COMPUTE_FIT_STACK) [frames, height, width]. Result: f32 [n, columns of the record]
 * (compute_fit_column). No gradient. `inputs` may be NULL if the problem names none. Errors:
 * COMPUTE_ERROR_INVALID_ARGUMENT (a value of the problem), _SHAPE (an ROI larger than the frame or
 * with fewer pixels than free parameters, a map of another size), _DTYPE. */
COMPUTE_API compute_node compute_gaussian_fit(compute_graph *graph, compute_node pixels,
                                              const compute_fit_problem *problem,
                                              const compute_fit_nodes *inputs);

/* ---- From arrays, files and callbacks ------------------------------------------------------ */

typedef struct compute_fit compute_fit;

/** A map of the camera in host memory, rows × columns, row-major. */
typedef struct compute_fit_map {
  const float *values; /**< NULL: there is none */
  int64_t rows, columns;
} compute_fit_map;

typedef struct compute_fit_options {
  compute_fit_problem problem; /**< leave `inputs` 0: the library sets it from the fields below */
  compute_dtype dtype;         /**< of the pixels: COMPUTE_F32 (also for 0) or COMPUTE_U16 */

  /** Frames instead of ROI stacks; 0: a stack. For a stack with maps of the frames' size, also set
   * these, and add COMPUTE_FIT_STACK to problem.flags. */
  int64_t frame_rows, frame_columns;

  compute_fit_map offset, gain, variance; /**< copied */
  const uint8_t *mask;                    /**< of the maps' size, 0 for pixels to ignore */
  int64_t mask_rows, mask_columns;

  /** For frames: the library finds the spots; without it the caller gives the corners. */
  bool find; /**< results then go only to the run's `write`: their number is not known in advance */
  compute_spot_options spots; /**< spots.h */

  /** As in compute_batch_options. */
  compute_device *const *devices;
  size_t device_count;
  int64_t batch; /**< ROIs, or frames, at a time; 0: chosen */
  uint32_t slots;
  uint64_t memory;
  compute_fallback fallback;
  uint32_t flags; /**< COMPUTE_BATCH_ALL_DEVICES */
  const char *name;
  uint64_t reserved[8]; /**< must be zero */
} compute_fit_options;

/** Creates a fitter: checks the problem and compiles it for its devices. The maps are copied.
 * Ownership of *fit passes to the caller. Errors: as compute_gaussian_fit and compute_batch_create,
 * before any work. Thread-safe. */
COMPUTE_API compute_status compute_fit_create(compute_context *context,
                                              const compute_fit_options *options,
                                              compute_fit **fit);

/** Frees it. No run may be in progress. NULL is allowed. */
COMPUTE_API void compute_fit_release(compute_fit *fit);

/** Arrays of results, one entry or row for each ROI; NULL for results that are not needed. P is the
 * model's number of parameters. Each must be among problem.outputs. */
typedef struct compute_fit_results {
  float *parameters;    /**< [n, P], positions from the centre of the ROI's first pixel */
  float *std;           /**< [n, P] */
  float *covariance;    /**< [n, P, P] */
  float *ratio;         /**< [n] */
  float *p_raw;         /**< [n] */
  float *p_value;       /**< [n] */
  int32_t *iterations;  /**< [n] */
  uint8_t *status;      /**< [n] compute_fit_status */
  float *significance;  /**< [n] */
  uint64_t reserved[3]; /**< must be zero */
} compute_fit_results;

/** Takes `count` results, the first of them for ROI number `first`. All outputs of the problem are
 * present; `corners` are [count, 3] (frame, row, column), or NULL for stacks without them. Both are
 * valid during the call.
 *
 * Calls come in order, from the thread that called compute_fit_run, and once for every batch, so
 * also with a count of 0 when frames had no spots. `next_frame` is the number of frames complete
 * with this call (0 for stacks). A status that is not COMPUTE_OK ends the run. It must return
 * (compute.h). */
typedef compute_status (*compute_fit_write_function)(void *user, int64_t first, int64_t count,
                                                     const compute_fit_results *results,
                                                     const int32_t *corners, int64_t next_frame);

/** Called as compute_batch_progress_function: `items` are ROIs, or frames where frames are read. */
typedef struct compute_fit_run_options {
  /** The ROI stack [count, rows, columns], or the frames [frames, frame_rows, frame_columns]. */
  compute_batch_source pixels;
  /** ROIs; for stacks COMPUTE_BATCH_UNTIL_END is allowed, with `write` and without the arrays
   * below. 0 where spots are found. */
  int64_t count;
  int64_t frames; /**< 0 for stacks; else frames, or COMPUTE_BATCH_UNTIL_END, with `write` */

  /** Arrays in host memory, NULL if there are none. */
  const int32_t *corners; /**< [count, 3]; every ROI inside its frame; for frames: in ascending
                           * order of frames */
  const float *sigma;     /**< [count, 2] */
  const float *start, *lower, *upper; /**< [count, P], NaN for "not given" */

  /** Room for `count`. All statuses are COMPUTE_FIT_NOT_RUN before any work; when the call returns,
   * however it ended, ROIs without a complete fit have NOT_RUN, NaN and 0 iterations. */
  compute_fit_results results;
  compute_fit_write_function write; /**< instead of or besides `results` */
  void *write_user;

  compute_batch_progress_function progress;
  void *progress_user;
  double progress_seconds; /**< 0: 0.1 */
  uint64_t reserved[8];    /**< must be zero */
} compute_fit_run_options;

typedef struct compute_fit_summary {
  int64_t count;  /**< ROIs complete: delivered in order */
  int64_t frames; /**< frames complete */
  int64_t of_status[COMPUTE_FIT_STATUS_COUNT];
  int64_t iterations; /**< of all complete fits together */
  double seconds;
  int64_t batches, halved, on_cpu; /**< as in compute_batch_result */
  uint64_t slot_bytes;
  uint64_t reserved[4];
} compute_fit_summary;

/** Fits everything and returns when results are delivered. `summary` (may be NULL) is filled in
 * also on failure. Different runs may give different ones of sigma, start, lower and upper; for a
 * new combination, plans are compiled first.
 *
 * Errors:
 * - COMPUTE_ERROR_INVALID_ARGUMENT, before any work: corners outside their frame or not ascending,
 *   results that are not computed, arrays that the fitter was not created for.
 * - _CANCELLED; _INVALID_STATE while a run is in progress; the errors of compute_batch_run. */
COMPUTE_API compute_status compute_fit_run(compute_fit *fit, const compute_fit_run_options *options,
                                           compute_fit_summary *summary);

/** Starts a run on a new thread and returns. Everything that `options` points to must live until
 * the run has ended. Callbacks are called on that thread. compute_fit_wait returns the run's status
 * and its error, and may be called once for each start. _INVALID_STATE: nothing was started, or an
 * earlier run has not been waited for. */
COMPUTE_API compute_status compute_fit_start(compute_fit *fit,
                                             const compute_fit_run_options *options);
COMPUTE_API compute_status compute_fit_poll(compute_fit *fit, bool *done);
COMPUTE_API compute_status compute_fit_wait(compute_fit *fit, compute_fit_summary *summary);

/** Makes the run in progress end as compute_batch_cancel does. Thread-safe, also from callbacks. */
COMPUTE_API void compute_fit_cancel(compute_fit *fit);

/** Seconds that each stage of a run was busy. Stages overlap, so their sum may exceed the run's
 * time; the busiest stage limits the speed. */
typedef struct compute_fit_times {
  double seconds; /**< of the run, excluding the preparation before its first batch */
  double reading; /**< the source */
  double finding; /**< spots: devices, and the host while it waits for them */
  double fitting; /**< devices with all other work, including transfers; the mean of several */
  double writing; /**< distributing results, and `write` */
  uint64_t reserved[4];
} compute_fit_times;

/** The times of the run in progress so far, otherwise of the last one; all 0 before the first.
 * COMPUTE_ERROR_NULL_POINTER. Thread-safe, also from callbacks. */
COMPUTE_API compute_status compute_fit_times_get(compute_fit *fit, compute_fit_times *times);

/* ---- Splines ------------------------------------------------------------------------------- */

/** The coefficients of COMPUTE_FIT_SPLINE (fit_model.h) from the spot's values at nodes. The spline
 * goes through the values, and its second derivative is 0 at the outer nodes.
 * - `values` [planes, rows, columns]: each size is 2 … 4097 (a fit takes at most
 *   COMPUTE_FIT_MAX_CELLS + 1 rows and columns).
 * - `coefficients` has room for [planes − 1, rows − 1, columns − 1, 64].
 * - `context` only gets the error and may be NULL.
 *
 * COMPUTE_ERROR_NULL_POINTER, _INVALID_ARGUMENT (sizes, values that are not finite),
 * _OUT_OF_MEMORY. Thread-safe. */
COMPUTE_API compute_status compute_fit_spline_make(compute_context *context, const float *values,
                                                   int32_t planes, int32_t rows, int32_t columns,
                                                   float *coefficients);

/* ---- What to expect ------------------------------------------------------------------------ */

/** The expected image of an ROI in electrons, [rows, columns], in double precision, readout
 * variance not included. `parameters`: P values. _INVALID_ARGUMENT. Thread-safe, as all below. */
COMPUTE_API compute_status compute_fit_image(compute_context *context,
                                             const compute_fit_problem *problem,
                                             const double *parameters, double *image);

/** The Cramér–Rao bound in double precision: covariance [P, P] (rows and columns of fixed
 * parameters are 0) and standard deviations [P]; either may be NULL. `variance` is a map [rows,
 * columns] for sCMOS or NULL for problem->variance. _INVALID_ARGUMENT, also when the information is
 * singular. */
COMPUTE_API compute_status compute_fit_crlb(compute_context *context,
                                            const compute_fit_problem *problem,
                                            const double *parameters, const double *variance,
                                            double *std, double *covariance);

/** "XYNB", …; NULL for an unknown model. And the names of the parameters: "x", "photons". */
COMPUTE_API const char *compute_fit_model_name(compute_fit_model model);
COMPUTE_API const char *compute_fit_parameter_name(compute_fit_model model, int32_t parameter);
COMPUTE_API const char *compute_fit_status_name(compute_fit_status status); /**< "CONVERGED" */

#ifdef __cplusplus
}
#endif
#endif
