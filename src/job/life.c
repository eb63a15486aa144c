#include "job/life.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"

static _Thread_local int callbacks; /* that the thread is in */

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

/* The context may close as soon as the object is no longer counted: that comes last. */
void life_unreference(compute_job *job) {
  if (__atomic_sub_fetch(&job->references, 1, __ATOMIC_ACQ_REL) > 0) return;
  compute_context *context = job->context;
  base_release(job->links);
  base_release(job);
  context_object_released(context);
}

void life_inherit(compute_job *job, const compute_job *before) {
  if (before->status == COMPUTE_OK || job->status != COMPUTE_OK) return;
  job->status = COMPUTE_ERROR_CANCELLED;
  job->error = before->error;
  job->error.status = COMPUTE_ERROR_CANCELLED;
  snprintf(job->error.operation, sizeof job->error.operation, "compute_submit");
  if (before->status == COMPUTE_ERROR_CANCELLED)
    snprintf(job->error.message, sizeof job->error.message, "%s", before->error.message);
  else
    snprintf(job->error.message, sizeof job->error.message,
             "not run, because a job that it follows failed (%s): %.380s",
             compute_status_name(before->status), before->error.message);
}

/* Hands the result of a job that has ended to those that follow. Those that can begin go into the
 * queue; those that cannot run any more come to the list (lock held). The job itself still counts
 * as an object, so that the context cannot close when another one goes here. */
static void release_successors(compute_job *job, compute_job **list) {
  for (job_link *link = job->successors, *later; link; link = later) {
    compute_job *next = link->successor;
    later = link->next;
    next->blockers--;
    if (!next->ending) life_inherit(next, job);
    if (next->ending) {
      /* Cancelled meanwhile, or given up because of another one. */
    } else if (next->status != COMPUTE_OK) {
      next->ending = true;
      next->ended = clock_now();
      next->next = *list;
      *list = next;
    } else if (next->blockers == 0) {
      runners_enqueue(job->runners, next);
    }
    life_unreference(next); /* which the link held */
  }
  job->successors = NULL;
}

/* One job: callback, then everybody else. The reference goes before those who wait are told, so
 * that a context can be closed as soon as its last job has been waited for and released; the
 * runners themselves live until their threads have been joined. */
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
