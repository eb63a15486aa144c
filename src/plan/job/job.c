/* SPDX-License-Identifier: MIT */
/* Operations on a job: run, wait, poll, cancel, release. */
#include "plan/job/job.h"

#include <stdatomic.h>
#include <stdio.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"

object_kind job_object = {.name = "job", .plural = "jobs"};

/* ---- Running --------------------------------------------------------------------------------- */

void job_run(compute_job *job) {
  FLOAT_ENVIRONMENT_DEFAULT; /* a callback of an earlier job may have changed the environment */
  const run_request request = {.fallback = job->fallback,
                               .time_limit = job->time_limit,
                               .cancelled = &job->cancelled,
                               .progress = &job->progress};
  compute_run_report report;
  compute_error error = {0};
  compute_status status =
      run_with_fallback(job->plan, job->bindings, job->count, &request, &report);
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

/* ---- Waiting --------------------------------------------------------------------------------- */

static compute_status is_null(const char *operation, const char *what) {
  return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL", what);
}

static compute_status check_wait(const compute_job *job, const char *operation, double limit) {
  if (!job) return is_null(operation, "job");
  if (!run_limit_is_valid(limit))
    return error_set(job->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "invalid limit of %g seconds", limit);
  if (life_in_callback())
    return error_set(job->context, COMPUTE_ERROR_INVALID_STATE, operation,
                     "a job's callback cannot wait for jobs; submit a following job instead");
  return COMPUTE_OK;
}

compute_status compute_job_wait(compute_job *job, double limit) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(job, context);
  static const char operation[] = "compute_job_wait";
  compute_status status = check_wait(job, operation, limit);
  if (status != COMPUTE_OK) return status;
  int64_t deadline = run_deadline(limit);
  bool in_time = true;
  compute_error error;
  runners_lock(job->runners);
  while (job->state != COMPUTE_JOB_DONE && in_time) in_time = runners_wait(job->runners, deadline);
  bool done = job->state == COMPUTE_JOB_DONE;
  status = job->status;
  error = job->error;
  runners_unlock(job->runners);
  if (!done)
    return error_set(job->context, COMPUTE_ERROR_TIMEOUT, operation,
                     "the job did not finish within %g seconds; it continues", limit);
  if (status != COMPUTE_OK) error_restore(job->context, &error);
  return status;
}

compute_status compute_job_poll(const compute_job *job, bool *done) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(job, context);
  static const char operation[] = "compute_job_poll";
  if (!job || !done) return is_null(operation, !job ? "job" : "done");
  runners_lock(job->runners);
  *done = job->state == COMPUTE_JOB_DONE;
  runners_unlock(job->runners);
  return COMPUTE_OK;
}

/* ---- The rest -------------------------------------------------------------------------------- */

static const char *const state_texts[] = {"waiting", "running", "done"};

const char *compute_job_state_text(compute_job_state state) {
  return (unsigned)state < sizeof state_texts / sizeof *state_texts ? state_texts[state]
                                                                    : "unknown state";
}

static double seconds_between(int64_t begin, int64_t end) {
  return (double)(end - begin) / 1e9;
}

compute_status compute_job_describe(const compute_job *job, compute_job_info *info) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(job, context);
  static const char operation[] = "compute_job_describe";
  if (!job || !info) return is_null(operation, !job ? "job" : "info");
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
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(job, context);
  static const char operation[] = "compute_job_cancel";
  if (!job) return is_null(operation, "job");
  runners_lock(job->runners);
  bool ends_now = job->state == COMPUTE_JOB_WAITING && !job->ending;
  atomic_store_explicit(&job->cancelled, true, memory_order_relaxed);
  if (ends_now) {
    if (job->queued) runners_dequeue(job->runners, job);
    job->status = job->error.status = COMPUTE_ERROR_CANCELLED;
    snprintf(job->error.operation, sizeof job->error.operation, "%s", operation);
    snprintf(job->error.message, sizeof job->error.message,
             "%s: the job was cancelled before it started", operation);
    job->ended = clock_now();
    job->ending = true;
  }
  runners_unlock(job->runners);
  if (ends_now) life_end(job);
  return COMPUTE_OK;
}

void compute_job_release(compute_job *job) {
  if (IS_INHERITED(job, context)) return;
  if (job) life_unreference(job);
}

/* ---- The end of jobs ------------------------------------------------------------------------- */

static _Thread_local int callbacks; /* active callbacks on this thread */

bool life_in_callback(void) {
  return callbacks > 0;
}

void life_drop_inputs(compute_job *job) {
  for (size_t i = 0; i < job->count; i++) compute_tensor_release(job->bindings[i].tensor);
  compute_plan_release(job->plan);
  base_release(job->bindings);
  job->bindings = NULL;
  job->plan = NULL;
  job->count = 0;
}

/* The context may close as soon as it stops counting the object, so that call comes last. */
void life_unreference(compute_job *job) {
  if (atomic_fetch_sub_explicit(&job->references, 1, memory_order_acq_rel) > 1) return;
  compute_context *context = job->context;
  context_object_leaves(context, job);
  base_release(job->links);
  base_release(job);
  context_object_released(context, &job_object);
}

void life_inherit(compute_job *job, const compute_job *before) {
  if (before->status == COMPUTE_OK || job->status != COMPUTE_OK) return;
  job->status = COMPUTE_ERROR_CANCELLED;
  job->error = before->error;
  job->error.status = COMPUTE_ERROR_CANCELLED;
  snprintf(job->error.operation, sizeof job->error.operation, "compute_submit");
  if (before->status == COMPUTE_ERROR_CANCELLED)
    snprintf(job->error.message, sizeof job->error.message, "compute_submit: %.480s",
             error_text(&before->error));
  else
    snprintf(job->error.message, sizeof job->error.message,
             "compute_submit: not run, because a job that it follows failed (%s): %.380s",
             compute_status_name(before->status), before->error.message);
}

/* Passes the result of a finished job to its successors (lock held). Successors that are ready go
 * into the queue. Successors that cannot run any more go into the list. The finished job still
 * counts as an object, so the context cannot close when a successor is released here. */
static void release_successors(compute_job *job, compute_job **list) {
  for (job_link *link = job->successors, *later; link; link = later) {
    compute_job *next = link->successor;
    later = link->next;
    next->blockers--;
    if (!next->ending) life_inherit(next, job);
    if (next->ending) {
      /* cancelled in the meantime, or ended by another failed predecessor */
    } else if (next->status != COMPUTE_OK) {
      next->ending = true;
      next->ended = clock_now();
      next->next = *list;
      *list = next;
    } else if (next->blockers == 0) {
      runners_enqueue(job->runners, next);
    }
    life_unreference(next); /* the link's reference */
  }
  job->successors = NULL;
}

/* Ends one job: first the callback, then the waiting threads. The reference is dropped before these
 * threads wake up, so that they can release the job and close the context at once. The runners live
 * until their threads have been joined. */
static void end_one(compute_job *job, compute_job **list) {
  job_runners *runners = job->runners;
  life_drop_inputs(job);
  if (job->done) {
    callbacks++;
    job->done(job->user, job, job->status);
    callbacks--;
  }
  runners_lock(runners);
  job->state = COMPUTE_JOB_DONE;
  release_successors(job, list);
  life_unreference(job);
  runners_announce(runners);
  runners_unlock(runners);
}

void life_end(compute_job *job) {
  compute_job *list = NULL;
  end_one(job, &list);
  while (list) {
    compute_job *next = list;
    list = next->next;
    next->next = NULL;
    end_one(next, &list);
  }
}
