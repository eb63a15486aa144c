/* What can be done with a job: run it, wait, ask, cancel, give it up. */
#include "job/job.h"

#include <stdio.h>

#include "base/error.h"
#include "job/life.h"

/* ---- Running ----------------------------------------------------------------------------------
 */

void job_run(compute_job *job) {
  const run_request request = {.fallback = job->fallback,
                               .time_limit = job->time_limit,
                               .cancelled = &job->cancelled,
                               .progress = &job->progress};
  compute_run_report report;
  compute_error error = {0};
  compute_status status = run_with_ladder(job->plan, job->bindings, job->count, &request, &report);
  if (status != COMPUTE_OK) compute_error_get(NULL, &error);
  runners_lock(job->runners);
  job->status = status;
  job->error = error;
  job->report = report;
  job->ended = clock_now();
  job->ending = true;
  runners_unlock(job->runners);
  life_end(job);
}

/* ---- Waiting ----------------------------------------------------------------------------------
 */

static compute_status is_null(const char *operation, const char *what) {
  return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL", what);
}

static compute_status check_wait(const compute_job *job, const char *operation, double limit) {
  if (job == NULL) return is_null(operation, "job");
  if (!run_limit_is_valid(limit))
    return error_set(job->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "%s: %g seconds are no limit", operation, limit);
  if (life_in_callback())
    return error_set(job->context, COMPUTE_ERROR_INVALID_STATE, operation,
                     "%s: the callback of a job cannot wait for jobs; submit one that follows",
                     operation);
  return runners_check(job->runners, operation);
}

compute_status compute_job_wait(compute_job *job, double limit) {
  static const char operation[] = "compute_job_wait";
  compute_status s = check_wait(job, operation, limit);
  if (s != COMPUTE_OK) return s;
  int64_t deadline = run_deadline(limit);
  bool in_time = true;
  compute_error error;
  runners_lock(job->runners);
  while (job->state != COMPUTE_JOB_DONE && in_time) in_time = runners_wait(job->runners, deadline);
  bool done = job->state == COMPUTE_JOB_DONE;
  s = job->status;
  error = job->error;
  runners_unlock(job->runners);
  if (!done)
    return error_set(job->context, COMPUTE_ERROR_TIMEOUT, operation,
                     "the job has not ended within %g seconds; it goes on", limit);
  if (s != COMPUTE_OK) error_restore(job->context, &error);
  return s;
}

compute_status compute_job_poll(const compute_job *job, bool *done) {
  static const char operation[] = "compute_job_poll";
  if (job == NULL || done == NULL) return is_null(operation, job == NULL ? "job" : "done");
  compute_status s = runners_check(job->runners, operation);
  if (s != COMPUTE_OK) return s;
  runners_lock(job->runners);
  *done = job->state == COMPUTE_JOB_DONE;
  runners_unlock(job->runners);
  return COMPUTE_OK;
}

/* ---- The rest ---------------------------------------------------------------------------------
 */

static const char *const state_texts[] = {"waiting", "running", "done"};

const char *compute_job_state_text(compute_job_state state) {
  return (unsigned)state < sizeof state_texts / sizeof *state_texts ? state_texts[state]
                                                                    : "unknown state";
}

static double seconds_between(int64_t begin, int64_t end) {
  return (double)(end - begin) / 1e9;
}

compute_status compute_job_describe(const compute_job *job, compute_job_info *info) {
  static const char operation[] = "compute_job_describe";
  if (job == NULL || info == NULL) return is_null(operation, job == NULL ? "job" : "info");
  compute_status s = runners_check(job->runners, operation);
  if (s != COMPUTE_OK) return s;
  *info = (compute_job_info){.steps = job->steps};
  runners_lock(job->runners);
  int64_t now = job->ending ? job->ended : clock_now();
  info->state = job->state;
  info->steps_done = atomic_load_explicit(&job->progress, memory_order_relaxed);
  info->waited = seconds_between(job->submitted, job->begun != 0 ? job->begun : now);
  if (job->begun != 0) info->seconds = seconds_between(job->begun, now);
  if (job->ending) {
    info->status = job->status;
    info->error = job->error;
    info->device = job->report.device;
    info->failure = job->report.failure;
    info->fallbacks = job->report.fallbacks;
  }
  runners_unlock(job->runners);
  return COMPUTE_OK;
}

compute_status compute_job_cancel(compute_job *job) {
  static const char operation[] = "compute_job_cancel";
  if (job == NULL) return is_null(operation, "job");
  compute_status s = runners_check(job->runners, operation);
  if (s != COMPUTE_OK) return s;
  runners_lock(job->runners);
  bool ends_now = job->state == COMPUTE_JOB_WAITING && !job->ending;
  atomic_store_explicit(&job->cancelled, true, memory_order_relaxed);
  if (ends_now) {
    if (job->queued) runners_dequeue(job->runners, job);
    job->status = job->error.status = COMPUTE_ERROR_CANCELLED;
    snprintf(job->error.operation, sizeof job->error.operation, "%s", operation);
    snprintf(job->error.message, sizeof job->error.message,
             "the job was cancelled before it began");
    job->ended = clock_now();
    job->ending = true;
  }
  runners_unlock(job->runners);
  if (ends_now) life_end(job);
  return COMPUTE_OK;
}

void compute_job_release(compute_job *job) {
  if (job != NULL) life_unreference(job);
}
