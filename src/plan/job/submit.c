/* SPDX-License-Identifier: MIT */
/* Creates jobs. Everything that can fail happens before the job becomes visible. */
#include <stdatomic.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "plan/job/job.h"

static const char operation[] = "compute_submit";

static compute_status check_after(const compute_plan *plan, const compute_submit_options *options) {
  if (options->after_count > UINT32_MAX / 2)
    return error_set(plan->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "options.after_count is too large (%zu)", options->after_count);
  if (!options->after && options->after_count > 0)
    return error_set(plan->context, COMPUTE_ERROR_NULL_POINTER, operation, "options.after is NULL");
  for (size_t i = 0; i < options->after_count; i++) {
    const compute_job *job = options->after[i];
    if (!job)
      return error_set(plan->context, COMPUTE_ERROR_NULL_POINTER, operation,
                       "options.after[%zu] is NULL", i);
    if (job->context != plan->context)
      return error_set(plan->context, COMPUTE_ERROR_WRONG_CONTEXT, operation,
                       "options.after[%zu] is a job of another context", i);
  }
  return COMPUTE_OK;
}

static compute_status check_call(const compute_plan *plan, const compute_binding *bindings,
                                 size_t count, const compute_submit_options *options) {
  if (!plan || (!bindings && count > 0))
    return error_set(plan ? plan->context : NULL, COMPUTE_ERROR_NULL_POINTER, operation,
                     "%s is NULL", !plan ? "plan" : "bindings");
  if ((unsigned)options->fallback > COMPUTE_FALLBACK_STRICT ||
      !run_limit_is_valid(options->time_limit))
    return error_set(plan->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "the options have an unknown fallback or an invalid time limit");
  compute_status status = error_if_reserved(plan->context, operation, "options", options->reserved);
  if (status == COMPUTE_OK) status = check_after(plan, options);
  return status == COMPUTE_OK ? run_check(plan, bindings, count) : status;
}

static compute_status make(const compute_plan *plan, const compute_binding *bindings, size_t count,
                           const compute_submit_options *options, compute_job **result) {
  compute_job *job = base_allocate(1, sizeof *job);
  if (job) {
    job->bindings = base_allocate(count, sizeof *job->bindings);
    job->links = base_allocate(options->after_count, sizeof *job->links);
  }
  if (!job || !job->bindings || !job->links) {
    if (job) {
      base_release(job->bindings);
      base_release(job->links);
      base_release(job);
    }
    return error_set(plan->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for a job");
  }
  atomic_init(&job->references, 1);
  job->context = plan->context;
  job->plan = plan_retain((compute_plan *)plan); /* only the reference count changes */
  job->steps = plan->step_count;
  job->count = count;
  for (size_t i = 0; i < count; i++) {
    job->bindings[i] = bindings[i];
    compute_tensor_retain(bindings[i].tensor);
  }
  job->fallback = options->fallback;
  job->time_limit = options->time_limit;
  job->done = options->done;
  job->user = options->user;
  context_object_created(plan->context, &job_object, job);
  *result = job;
  return COMPUTE_OK;
}

/* Links the job to each predecessor that has not ended (lock held). */
static void follow(compute_job *job, const compute_submit_options *options) {
  for (size_t i = 0; i < options->after_count; i++) {
    compute_job *before = options->after[i];
    if (before->ending) {
      life_inherit(job, before);
      continue;
    }
    job_link *link = &job->links[job->link_count++];
    link->successor = job;
    link->next = before->successors;
    before->successors = link;
    job->blockers++;
    atomic_fetch_add_explicit(&job->references, 1, memory_order_relaxed);
  }
}

compute_status compute_submit(const compute_plan *plan, const compute_binding *bindings,
                              size_t count, const compute_submit_options *options,
                              compute_job **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(plan, context);
  static const compute_submit_options defaults;
  if (result) *result = NULL;
  if (!options) options = &defaults;
  compute_job *job = NULL;
  job_runners *runners = NULL;
  compute_status status = check_call(plan, bindings, count, options);
  if (status == COMPUTE_OK) status = runners_of(plan->context, &runners);
  if (status == COMPUTE_OK) status = make(plan, bindings, count, options, &job);
  if (status != COMPUTE_OK) return status;
  job->runners = runners;
  job->submitted = clock_now();
  runners_lock(runners);
  status = runners_prepare(runners);
  if (status != COMPUTE_OK) {
    runners_unlock(runners);
    life_drop_inputs(job);
    life_unreference(job);
    return status;
  }
  if (result) {
    *result = job; /* before the job can run, as its callback may read this */
    atomic_fetch_add_explicit(&job->references, 1, memory_order_relaxed);
  }
  follow(job, options);
  bool ends_now = job->status != COMPUTE_OK;
  if (ends_now) {
    job->ending = true;
    job->ended = job->submitted;
  }
  if (!ends_now && job->blockers == 0) runners_enqueue(runners, job);
  runners_unlock(runners);
  if (ends_now) life_end(job);
  return COMPUTE_OK;
}
