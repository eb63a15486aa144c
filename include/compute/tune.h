/* SPDX-License-Identifier: MIT */
/** @file
 * The autotuner: finds the fastest parameters of generated kernels on this machine, and stores them
 * in a text file that later programs use. Only compute_tune tunes; the program compute-tune calls
 * it.
 *
 * The parameters of a kernel are looked up in this order: COMPUTE_TUNING, the tuning file, the
 * table built into the library (exact device, family, vendor, type), the generator's own choice. */
#ifndef COMPUTE_TUNE_H
#define COMPUTE_TUNE_H

#include "compute/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Progress of a run. Texts live during the call. Rounds that compare the better candidates again
 * have candidate_index = candidate_count. */
typedef struct compute_tune_progress {
  const char *problem; /**< "gemm f32 1024x1024x1024" */
  uint32_t problem_index, problem_count;
  uint32_t candidate_index, candidate_count;
  double best_seconds;      /**< of one kernel; 0 until one has been measured */
  double heuristic_seconds; /**< the same without tuning */
  const char *best;         /**< its parameters as text; "" while no tuning is known to be better */
  uint32_t refused;         /**< candidates that did not compile, failed or gave wrong results */
  double elapsed_seconds;
  double remaining_seconds; /**< estimated; < 0 while unknown */
  /** The last call for this problem. If nothing beats the default choice by more than noise, `best`
   * is "" and best_seconds is heuristic_seconds; both are 0 for a problem that the device cannot
   * run. */
  bool finished;
} compute_tune_progress;

/** Called between candidates. Returning false ends the run; results stored so far are kept. It must
 * return (compute.h). */
typedef bool (*compute_tune_callback)(void *user, const compute_tune_progress *progress);

typedef struct compute_tune_options {
  /** Kinds of kernels, separated by commas ("gemm,conv"); NULL or "all": all that have
   * parameters. */
  const char *suite;
  double candidate_seconds;       /**< limit for one candidate, without compilation; 0: 1 */
  double total_seconds;           /**< limit of the run; 0: none */
  bool quick;                     /**< fewer problems and candidates */
  bool dry;                       /**< measure, but store nothing */
  compute_tune_callback progress; /**< may be NULL */
  void *user;
  uint64_t reserved[4]; /**< 0 */
} compute_tune_options;

/** Measures the candidates of every problem of the suite on `device`, checks their results against
 * the CPU's, and appends the winners to the tuning file. A winner beats the default choice by more
 * than 3 %. A problem without a winner gets an entry without parameters if another entry would
 * otherwise apply to it. `options` may be NULL. A candidate past its limit is not started again,
 * but a running kernel is waited for. Existing kernels keep their parameters.
 *
 * COMPUTE_ERROR_NULL_POINTER, _INVALID_ARGUMENT; _UNSUPPORTED if the device has nothing to tune;
 * _CANCELLED if the callback ended it; _FILE if the tuning file cannot be written; _DEVICE_LOST,
 * _OUT_OF_MEMORY. Thread-safe, but two runs at once disturb each other's timings. */
COMPUTE_API compute_status compute_tune(compute_device *device,
                                        const compute_tune_options *options);

/** The tuning file in use ("" if there is none), into `path`; it need not exist yet.
 * COMPUTE_ERROR_NULL_POINTER, _INVALID_ARGUMENT if it does not fit. Thread-safe. */
COMPUTE_API compute_status compute_tuning_path(compute_context *context, char *path, size_t bytes);

/** compute_tuning_export writes the entries of the tuning file that are in effect (of all devices,
 * or of one) to another file, which is created or overwritten. compute_tuning_import adds the
 * entries in effect in another file to the tuning file, unless they are there already. It skips
 * lines that are damaged or of another version of the format, and counts them in `skipped`, which
 * may be NULL. It also imports entries of other devices, which apply only to those.
 * COMPUTE_ERROR_NULL_POINTER, _FILE, _OUT_OF_MEMORY. Thread-safe. */
COMPUTE_API compute_status compute_tuning_export(compute_context *context, const char *path,
                                                 const compute_device *device);
COMPUTE_API compute_status compute_tuning_import(compute_context *context, const char *path,
                                                 size_t *skipped);

#ifdef __cplusplus
}
#endif
#endif
