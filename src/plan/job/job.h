/* SPDX-License-Identifier: MIT */
/* Internals of a job, and the threads of a context that run jobs.
 *
 * A job waits for its predecessors (`blockers` counts the unfinished ones), then waits in the
 * queue, then runs. One lock of the context's runners protects everything except the run; it is
 * taken only for short times. No thread waits for a predecessor, so jobs cannot deadlock. `after`
 * names only existing jobs, so cycles are impossible. */
#ifndef JOB_JOB_H
#define JOB_JOB_H

#include <stdatomic.h>

#include "compute/job.h"
#include "plan/compile/run/run.h"

typedef struct job_runners job_runners;

/* A link between two jobs. It is stored in the successor. It keeps a reference to the successor
 * until the predecessor has ended. */
typedef struct job_link {
  struct compute_job *successor;
  struct job_link *next; /* link of the same predecessor */
} job_link;

struct compute_job {
  job_runners *runners;
  _Atomic int32_t references; /* the caller's, one until the job ends, one per link */
  /* Constant after submission. */
  compute_plan *plan; /* NULL after the end */
  compute_binding *bindings;
  size_t count;
  job_link *links; /* one per predecessor that had not ended */
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
  bool ending; /* the status is final; the state is DONE once the callback has returned */
  uint32_t blockers;
  job_link *successors;
  struct compute_job *next, *previous; /* in the queue of ready jobs */
  bool queued;
  compute_status status;
  compute_error error; /* of this job's failure or of a failed predecessor */
  compute_run_report report;
  int64_t submitted, begun, ended; /* CLOCK_MONOTONIC, nanoseconds */
};

/* ---- runners.c ------------------------------------------------------------------------------- */

/* Returns the context's runners and creates them on the first call. They end when the context
 * closes. */
compute_status runners_of(compute_context *context, job_runners **runners);

void runners_lock(job_runners *runners);
void runners_unlock(job_runners *runners);

/* Lock held. Ensures that at least one thread exists to take the job. */
compute_status runners_prepare(job_runners *runners);

/* Lock held. `runners_enqueue` appends a job to the queue and wakes or starts a thread;
 * `runners_dequeue` removes the job. */
void runners_enqueue(job_runners *runners, compute_job *job);
void runners_dequeue(job_runners *runners, compute_job *job);

/* Lock held. Waits until a job ends or `deadline` passes (0: no deadline). Returns false if the
 * deadline passed. */
bool runners_wait(job_runners *runners, int64_t deadline);

/* Lock held. Wakes the waiting threads. */
void runners_announce(job_runners *runners);

/* ---- job.c ----------------------------------------------------------------------------------- */

/* Runs a job taken from the queue and ends it. Called without the lock. */
void job_run(compute_job *job);

/* Lock held. If the ended job `before` failed, `job` takes over its failure. */
void life_inherit(compute_job *job, const compute_job *before);

/* Ends a job that is marked as ending, and all successors that cannot run any more: calls the
 * callbacks, wakes the waiters and drops the reference that a job keeps until its end. Called
 * without the lock, by the thread that set the mark. */
void life_end(compute_job *job);

/* Releases the plan and the bound tensors. */
void life_drop_inputs(compute_job *job);

void life_unreference(compute_job *job);

/* True if the calling thread is inside a job's callback. */
bool life_in_callback(void);

extern object_kind job_object;

#endif
