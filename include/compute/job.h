/* SPDX-License-Identifier: MIT */
/** @file
 * Jobs: runs of plans in the background.
 *
 * compute_submit returns at once for every device, also for the CPU. Jobs run on the library's own
 * threads, a few for each context, started when first needed; independent jobs run concurrently. A
 * job always ends as DONE with a status: compute_job_wait, compute_job_poll or a callback report
 * it. Jobs may follow others (`after`), which passes results from one plan to the next in the same
 * tensors, without a copy through the host.
 *
 * A job keeps its plan and the tensors bound to it alive until it ends; the caller may release them
 * at once, but must not touch the tensors' contents meanwhile. Runs of a plan that assigns to
 * parameters must not overlap: let one follow the other. All functions are thread-safe. */
#ifndef COMPUTE_JOB_H
#define COMPUTE_JOB_H

#include "compute/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct compute_job compute_job;

/** Called once with the status when a job ends, on one of the library's threads. If the job (or one
 * that it follows) is cancelled before it has begun, the call is on the cancelling thread. A wait
 * for the job returns only after the call. It may call any function, and submit and release jobs,
 * this one included, but cannot wait for jobs. The job is valid during the call; afterwards only if
 * the caller has not released it. It must return (compute.h). */
typedef void (*compute_job_function)(void *user, compute_job *job, compute_status status);

typedef struct compute_submit_options {
  compute_job *const
      *after; /**< jobs of the same context that must succeed before this one begins */
  size_t after_count;
  compute_fallback fallback; /**< as in compute_run_options */
  double time_limit;         /**< seconds from its start; 0: none; as in compute_run_options */
  compute_job_function done; /**< or NULL */
  void *user;                /**< for `done` */
  uint64_t reserved[8];      /**< must be zero */
} compute_submit_options;

/** Submits a run of `plan`. `options` may be NULL. The arrays are copied, and the bindings checked
 * at once as in compute_run. Ownership of *job passes to the caller; `job` may be NULL: then only
 * the callback can observe it. If a job that this one follows fails or is cancelled, this one ends
 * with COMPUTE_ERROR_CANCELLED without running, and its error names the cause.
 *
 * Errors: as compute_run for its arguments, COMPUTE_ERROR_WRONG_CONTEXT for jobs of another
 * context, _INVALID_ARGUMENT, _OUT_OF_MEMORY, _INVALID_STATE after a fork. Then there is no job,
 * and the callback is not called. */
COMPUTE_API compute_status compute_submit(const compute_plan *plan, const compute_binding *bindings,
                                          size_t count, const compute_submit_options *options,
                                          compute_job **job);

/** Waits until the job has ended and returns its status; its error is then the calling thread's.
 * With a `limit` in seconds (0: none) the wait ends after it with COMPUTE_ERROR_TIMEOUT, and the
 * job continues; compute_job_poll distinguishes this from a job that exceeded its own limit. From
 * within a callback: COMPUTE_ERROR_INVALID_STATE. */
COMPUTE_API compute_status compute_job_wait(compute_job *job, double limit);

/** Whether it has ended, without waiting. */
COMPUTE_API compute_status compute_job_poll(const compute_job *job, bool *done);

/** Asks the job to end.
 * - A job that has not begun ends at once, together with the jobs that follow it.
 * - A running job ends before its next step, unless its steps that assign to parameters have begun.
 * - A job that has ended is unaffected.
 *
 * The status of a job ended in this way is COMPUTE_ERROR_CANCELLED, and the contents of its outputs
 * are undefined. */
COMPUTE_API compute_status compute_job_cancel(compute_job *job);

typedef enum compute_job_state {
  COMPUTE_JOB_WAITING = 0, /**< for jobs that it follows, or for a thread */
  COMPUTE_JOB_RUNNING = 1,
  COMPUTE_JOB_DONE = 2
} compute_job_state;

/** "waiting", "running", "done". */
COMPUTE_API const char *compute_job_state_text(compute_job_state state);

typedef struct compute_job_info {
  compute_job_state state;
  compute_status status;  /**< COMPUTE_OK until it is done */
  compute_error error;    /**< when it has failed */
  compute_device *device; /**< where it ran last: the plan's device, or the CPU after a fallback */
  compute_status failure; /**< of the device, if the run was repeated on the CPU */
  uint32_t fallbacks;     /**< 1 if it was repeated on the CPU */
  uint32_t steps_done;    /**< submitted so far */
  uint32_t steps;         /**< of its plan, transfers included */
  double waited;          /**< seconds until it began */
  double seconds;         /**< that it has run */
  uint64_t reserved[8];
} compute_job_info;

COMPUTE_API compute_status compute_job_describe(const compute_job *job, compute_job_info *info);

/** Releases the handle; the job continues if it has not ended. NULL is allowed. */
COMPUTE_API void compute_job_release(compute_job *job);

#ifdef __cplusplus
}
#endif
#endif
