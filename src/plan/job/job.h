/* SPDX-License-Identifier: MIT */
/* Internals of a job, and the threads of a context that run jobs.
 *
 * A job waits for its predecessors (`blockers` counts those that have not ended), then in the
 * queue, then it runs. Everything but its run happens under the single lock of the context's
 * runners, held only briefly. No thread ever waits for a predecessor, so jobs cannot deadlock, and
 * `after` names only existing jobs, so there are no cycles. */
#ifndef JOB_JOB_H
#define JOB_JOB_H

#include "compute/job.h"
#include "plan/compile/run/run.h"

typedef struct job_runners job_runners;

/* A link between two jobs: stored in the following one, and a reference to it, until the earlier
 * one has ended. */
typedef struct job_link {
  struct compute_job *successor;
  struct job_link *next; /* of the same predecessor */
} job_link;

struct compute_job {
  job_runners *runners;
  int32_t references; /* atomic: the caller's, one until it has ended, and one for each link */
  /* Constant from the submission on. */
  compute_plan *plan; /* until it has ended */
  compute_binding *bindings;
  size_t count;
  job_link *links; /* one for each predecessor that had not ended */
  size_t link_count;
  compute_fallback fallback;
  double time_limit;
  compute_job_function done;
  void *user;
  compute_context *context;
  uint32_t steps;
  /* Written without the lock. */
  atomic_bool cancelled;
  atomic_uint progress;
  /* Under the lock. */
  compute_job_state state;
  bool ending; /* its status is final; it is DONE as soon as its callback has returned */
  uint32_t blockers;
  job_link *successors;
  struct compute_job *next, *previous; /* in the queue of those that are ready */
  bool queued;
  compute_status status;
  compute_error error; /* of a failure, its own or that of a predecessor */
  compute_run_report report;
  int64_t submitted, begun, ended; /* CLOCK_MONOTONIC, nanoseconds */
};

/* ---- runners.c ------------------------------------------------------------------------------- */

/* The context's runners, made now if there are none. They end when the context closes. */
compute_status runners_of(compute_context *context, job_runners **runners);

void runners_lock(job_runners *runners);
void runners_unlock(job_runners *runners);

/* Lock held. Ensures that a thread will take the job. */
compute_status runners_prepare(job_runners *runners);

/* Lock held: puts a job into the queue and wakes or starts a thread; takes it out again. */
void runners_enqueue(job_runners *runners, compute_job *job);
void runners_dequeue(job_runners *runners, compute_job *job);

/* Lock held: waits until some job has ended, or until `deadline` (0: none). False when it passed.
 */
bool runners_wait(job_runners *runners, int64_t deadline);

/* Lock held: wakes the waiting threads. */
void runners_announce(job_runners *runners);

/* ---- job.c ----------------------------------------------------------------------------------- */

/* Runs a job taken from the queue, and ends it. Called without the lock. */
void job_run(compute_job *job);

/* The end of jobs: one's own, and that of the jobs that follow. */

/* Lock held: takes over the failure of a job that has ended, if it is one. */
void life_inherit(compute_job *job, const compute_job *before);

/* Ends a job that is marked as ending, and the jobs that follow it and cannot run any more:
 * callbacks, waiters, references (the one that a job has until it has ended). Called without the
 * lock, by the thread that has marked it. */
void life_end(compute_job *job);

/* Releases the plan and the tensors. */
void life_drop_inputs(compute_job *job);

void life_unreference(compute_job *job);

/* Whether the calling thread is in a job's callback. */
bool life_in_callback(void);

extern object_kind job_object;

#endif
