/* SPDX-License-Identifier: MIT */
/* The threads that run jobs. A thread starts when a job is ready and no thread is idle, up to a
 * limit. Threads stay until the context closes. A runner only submits and waits; the thread pool
 * divides the CPU's work as usual. */
#include <time.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/thread.h"
#include "plan/job/job.h"

/* The maximum number of concurrent jobs. More jobs would only compete for memory. */
#define MOST_RUNNERS 8

struct job_runners {
  compute_context *context;
  pthread_mutex_t mutex;
  pthread_cond_t ready; /* a job is in the queue, or the runners stop */
  pthread_cond_t ended; /* a job has ended */
  pthread_t threads[MOST_RUNNERS];
  uint32_t count, idle;
  bool stopping;
  compute_job *first, *last;
};

void runners_lock(job_runners *runners) {
  pthread_mutex_lock(&runners->mutex);
}

void runners_unlock(job_runners *runners) {
  pthread_mutex_unlock(&runners->mutex);
}

static compute_job *take_first(job_runners *runners) {
  compute_job *job = runners->first;
  if (job) runners_dequeue(runners, job);
  return job;
}

static void *work(void *argument) {
  job_runners *runners = argument;
  runners_lock(runners);
  for (;;) {
    compute_job *job = take_first(runners);
    if (job) {
      job->state = COMPUTE_JOB_RUNNING;
      job->begun = clock_now();
      runners_unlock(runners);
      job_run(job);
      runners_lock(runners);
      continue;
    }
    if (runners->stopping) break;
    runners->idle++;
    pthread_cond_wait(&runners->ready, &runners->mutex);
    runners->idle--;
  }
  runners_unlock(runners);
  return NULL;
}

static bool start_one(job_runners *runners) {
  if (runners->count == MOST_RUNNERS ||
      thread_start(&runners->threads[runners->count], "compute-job", work, runners) != 0)
    return false;
  runners->count++;
  return true;
}

compute_status runners_prepare(job_runners *runners) {
  if (runners->count > 0 || start_one(runners)) return COMPUTE_OK;
  return error_set(runners->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_submit",
                   "cannot start a thread for jobs");
}

void runners_enqueue(job_runners *runners, compute_job *job) {
  job->next = NULL;
  job->previous = runners->last;
  *(runners->last ? &runners->last->next : &runners->first) = job;
  runners->last = job;
  job->queued = true;
  uint32_t waiting = 0; /* jobs without a thread */
  for (const compute_job *j = runners->first; j && waiting <= runners->idle; j = j->next) waiting++;
  if (waiting > runners->idle) (void)start_one(runners); /* otherwise jobs wait for a thread */
  pthread_cond_signal(&runners->ready);
}

void runners_dequeue(job_runners *runners, compute_job *job) {
  *(job->previous ? &job->previous->next : &runners->first) = job->next;
  *(job->next ? &job->next->previous : &runners->last) = job->previous;
  job->next = job->previous = NULL;
  job->queued = false;
}

bool runners_wait(job_runners *runners, int64_t deadline) {
  if (deadline == 0) {
    pthread_cond_wait(&runners->ended, &runners->mutex);
    return true;
  }
  struct timespec until = {.tv_sec = (time_t)(deadline / 1000000000),
                           .tv_nsec = (long)(deadline % 1000000000)};
  return pthread_cond_timedwait(&runners->ended, &runners->mutex, &until) == 0;
}

void runners_announce(job_runners *runners) {
  pthread_cond_broadcast(&runners->ended);
}

/* ---- The runners of a context ---------------------------------------------------------------- */

static job_runners *create(compute_context *context) {
  job_runners *runners = base_allocate(1, sizeof *runners);
  pthread_condattr_t monotonic;
  if (!runners) return NULL;
  runners->context = context;
  pthread_mutex_init(&runners->mutex, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&runners->ready, NULL);
  pthread_cond_init(&runners->ended, &monotonic);
  pthread_condattr_destroy(&monotonic);
  return runners;
}

static void destroy(job_runners *runners) {
  pthread_cond_destroy(&runners->ended);
  pthread_cond_destroy(&runners->ready);
  pthread_mutex_destroy(&runners->mutex);
  base_release(runners);
}

static void release(void *content) {
  job_runners *runners = content;
  runners_lock(runners);
  runners->stopping = true;
  pthread_cond_broadcast(&runners->ready);
  runners_unlock(runners);
  for (uint32_t i = 0; i < runners->count; i++) pthread_join(runners->threads[i], NULL);
  destroy(runners);
}

static room_slot runners_slot = {.stage = SLOT_USES_DEVICES, .release = release};

compute_status runners_of(compute_context *context, job_runners **result) {
  *result = slot_get(&context->slots, &runners_slot);
  if (!*result) *result = slot_offer(&context->slots, &runners_slot, create(context));
  if (!*result)
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_submit",
                     "not enough memory for the threads of jobs");
  return COMPUTE_OK;
}
