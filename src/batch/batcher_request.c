/* SPDX-License-Identifier: MIT */
/* Requests of a batcher: submitting, waiting, cancelling, ending. */
#include "batch/batcher.h"
#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "plan/compile/run/run.h"

static const char operation_submit[] = "compute_batcher_submit";

static _Thread_local int callbacks; /* active callbacks on this thread */

bool request_in_callback(void) {
  return callbacks > 0;
}

/* ---- The queue ------------------------------------------------------------------------------- */

static void enqueue(compute_batcher_request *request) {
  compute_batcher *batcher = request->batcher;
  compute_batcher_info *info = &batcher->info;
  request->previous = batcher->last;
  *(batcher->last ? &batcher->last->next : &batcher->first) = request;
  batcher->last = request;
  batcher->active++;
  if (request->deadline) batcher->limited++;
  info->submitted++;
  if (++info->waiting > info->most_waiting) info->most_waiting = info->waiting;
  /* A thread waits for the first item, and then only for a whole run, or for a time limit. */
  if (info->waiting == 1 || info->waiting >= batcher->most ||
      (request->deadline && request->deadline < batcher->wake))
    pthread_cond_broadcast(&batcher->arrived);
}

void request_dequeue(compute_batcher_request *request) {
  compute_batcher *batcher = request->batcher;
  *(request->previous ? &request->previous->next : &batcher->first) = request->next;
  *(request->next ? &request->next->previous : &batcher->last) = request->previous;
  request->next = request->previous = NULL;
  batcher->info.waiting--;
  if (request->deadline) batcher->limited--;
  if (batcher->blocked > 0) pthread_cond_signal(&batcher->room);
}

/* ---- Ending ---------------------------------------------------------------------------------- */

void request_unreference(compute_batcher_request *request) {
  if (--request->references > 0) return;
  request->batcher->references--; /* the caller of this function has another one */
  pthread_cond_destroy(&request->changed);
  base_release(request);
}

static void count_latency(compute_batcher *batcher, int64_t nanoseconds) {
  const uint64_t n = nanoseconds > 16 ? (uint64_t)nanoseconds : 16;
  int octave = 4;
  while (n >> octave > 1) octave++;
  const uint64_t step = (n >> (octave - 4)) - LATENCY_STEPS;
  const double seconds = 1e-9 * (double)nanoseconds;
  batcher->latencies[octave * LATENCY_STEPS + (int)step]++;
  batcher->latency += seconds;
  if (seconds > batcher->info.longest_latency) batcher->info.longest_latency = seconds;
}

static void count_end(const compute_batcher_request *request) {
  compute_batcher_info *info = &request->batcher->info;
  switch (request->status) {
  case COMPUTE_OK:
    info->succeeded++;
    count_latency(request->batcher, clock_now() - request->arrived);
    break;
  case COMPUTE_ERROR_CANCELLED: info->cancelled++; break;
  case COMPUTE_ERROR_TIMEOUT: info->timed_out++; break;
  default: info->failed++; break;
  }
}

static void describe(compute_batcher_request *request) {
  const compute_context *context = request->batcher->context;
  compute_error before;
  compute_error_get(context, &before);
  if (request->status == COMPUTE_ERROR_CANCELLED)
    error_set(context, request->status, operation_submit, "the request was cancelled");
  else
    error_set(context, request->status, operation_submit,
              "the request had no results within its time limit");
  compute_error_get(context, &request->error);
  error_restore(context, &before);
}

void request_end(compute_batcher_request *request, compute_status status,
                 const compute_error *error) {
  compute_batcher *batcher = request->batcher;
  request->status = status;
  request->state = REQUEST_ENDING;
  if (error)
    request->error = *error;
  else if (status)
    describe(request);
  count_end(request);
  if (request->done) {
    pthread_mutex_unlock(&batcher->mutex);
    callbacks++;
    request->done(request->user, request, status);
    callbacks--;
    pthread_mutex_lock(&batcher->mutex);
  }
  request->state = REQUEST_DONE;
  pthread_cond_broadcast(&request->changed);
  if (--batcher->active == 0) pthread_cond_broadcast(&batcher->idle);
  request_unreference(request);
}

/* Lock held. Ends a request before its run does, or notes that it shall end. */
static void end_early(compute_batcher_request *request, compute_status status) {
  switch (request->state) {
  case REQUEST_WAITING:
    request_dequeue(request);
    request_end(request, status, NULL);
    break;
  case REQUEST_RUNNING: request_end(request, status, NULL); break;
  case REQUEST_FILLING:
    if (!request->wanted) request->wanted = status;
    break;
  case REQUEST_COPYING:
  case REQUEST_ENDING:
  case REQUEST_DONE: break;
  }
}

/* ---- Submitting ------------------------------------------------------------------------------ */

static compute_status check_memory(const compute_batcher *batcher, const void *const *inputs,
                                   void *const *outputs) {
  const compute_batch *batch = batcher->batch;
  if ((!inputs && batch->input_count > 0) || !outputs)
    return error_set(batcher->context, COMPUTE_ERROR_NULL_POINTER, operation_submit, "%s is NULL",
                     outputs ? "inputs" : "outputs");
  for (uint32_t i = 0; i < batch->input_count; i++)
    if (!inputs[i] && batch->inputs[i].bytes > 0)
      return error_set(batcher->context, COMPUTE_ERROR_NULL_POINTER, operation_submit,
                       "inputs[%u] is NULL", i);
  for (uint32_t i = 0; i < batch->output_count; i++)
    if (!outputs[i] && batch->outputs[i].bytes > 0)
      return error_set(batcher->context, COMPUTE_ERROR_NULL_POINTER, operation_submit,
                       "outputs[%u] is NULL", i);
  return COMPUTE_OK;
}

static compute_status make(compute_batcher *batcher, const void *const *inputs,
                           void *const *outputs, const compute_batcher_submit_options *o,
                           compute_batcher_request **result) {
  compute_batcher_request *request = base_allocate(1, sizeof *request);
  if (!request)
    return error_set(batcher->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation_submit,
                     "not enough memory for a request");
  request->batcher = batcher;
  request->references = 1;
  request->done = o->done;
  request->user = o->user;
  request->deadline = run_deadline(o->time_limit);
  batcher_open_condition(&request->changed);
  for (uint32_t i = 0; i < batcher->batch->input_count; i++) request->inputs[i] = inputs[i];
  for (uint32_t i = 0; i < batcher->batch->output_count; i++) request->outputs[i] = outputs[i];
  *result = request;
  return COMPUTE_OK;
}

/* Lock held. Waits until the queue has room. */
static compute_status wait_for_room(compute_batcher *batcher, int64_t deadline) {
  while (!batcher->stopping && batcher->info.waiting >= batcher->limit) {
    const bool late = deadline && clock_now() >= deadline;
    if (batcher->full == COMPUTE_BATCHER_REFUSE || late) {
      batcher->info.refused++;
      return late ? COMPUTE_ERROR_TIMEOUT : COMPUTE_ERROR_BUSY;
    }
    batcher->blocked++;
    batcher_wait_until(&batcher->room, &batcher->mutex, deadline);
    batcher->blocked--;
  }
  if (!batcher->stopping) return COMPUTE_OK;
  if (batcher->blocked == 0) pthread_cond_broadcast(&batcher->idle);
  return COMPUTE_ERROR_INVALID_STATE;
}

static void refuse(const compute_batcher *batcher, compute_status status) {
  if (status == COMPUTE_ERROR_INVALID_STATE)
    error_set(batcher->context, status, operation_submit, "the batcher has been stopped");
  else
    error_set_native(batcher->context, status, 0, operation_submit,
                     "submit fewer requests at a time, or try again later",
                     status == COMPUTE_ERROR_BUSY
                         ? "%lld requests are waiting, as many as the batcher allows"
                         : "%lld requests are waiting, and none left within the time limit",
                     (long long)batcher->limit);
}

compute_status compute_batcher_submit(compute_batcher *batcher, const void *const *inputs,
                                      void *const *outputs,
                                      const compute_batcher_submit_options *options,
                                      compute_batcher_request **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(batcher, context);
  static const compute_batcher_submit_options defaults;
  const compute_batcher_submit_options *o = options ? options : &defaults;
  compute_batcher_request *request = NULL;
  if (result) *result = NULL;
  if (!batcher)
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation_submit, "batcher is NULL");
  compute_status status = check_memory(batcher, inputs, outputs);
  if (!status && !run_limit_is_valid(o->time_limit))
    status = error_set(batcher->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation_submit,
                       "invalid time limit of %g seconds", o->time_limit);
  if (!status)
    status = error_if_reserved(batcher->context, operation_submit, "options", o->reserved);
  if (!status) status = make(batcher, inputs, outputs, o, &request);
  if (status) return status;
  pthread_mutex_lock(&batcher->mutex);
  status = wait_for_room(batcher, request->deadline);
  if (!status) {
    batcher->references++;
    if (result) {
      *result = request; /* before it can end, as its callback may read this */
      request->references++;
    }
    request->arrived = clock_now();
    enqueue(request);
  } else {
    refuse(batcher, status); /* with the lock: afterwards a stopped batcher may be freed */
  }
  pthread_mutex_unlock(&batcher->mutex);
  if (!status) return status;
  pthread_cond_destroy(&request->changed);
  base_release(request);
  return status;
}

compute_status compute_batcher_run(compute_batcher *batcher, const void *const *inputs,
                                   void *const *outputs, double time_limit) {
  const compute_batcher_submit_options options = {.time_limit = time_limit};
  compute_batcher_request *request;
  if (batcher && request_in_callback())
    return error_set(batcher->context, COMPUTE_ERROR_INVALID_STATE, "compute_batcher_run",
                     "a batcher's callback cannot wait for requests");
  compute_status status = compute_batcher_submit(batcher, inputs, outputs, &options, &request);
  if (status) return status;
  status = compute_batcher_wait(request, 0);
  compute_batcher_request_release(request);
  return status;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* The next time at which a waiting thread has something to do; 0: none. */
static int64_t next_deadline(const compute_batcher_request *request, int64_t until) {
  const int64_t own = request->wanted || request->state >= REQUEST_COPYING ? 0 : request->deadline;
  if (own == 0 || until == 0) return own + until;
  return own < until ? own : until;
}

compute_status compute_batcher_wait(compute_batcher_request *request, double limit) {
  FLOAT_ENVIRONMENT_DEFAULT;
  static const char operation[] = "compute_batcher_wait";
  if (!request) return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "request is NULL");
  REFUSE_INHERITED(request->batcher, context);
  compute_batcher *batcher = request->batcher;
  if (!run_limit_is_valid(limit))
    return error_set(batcher->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "invalid limit of %g seconds", limit);
  if (request_in_callback())
    return error_set(batcher->context, COMPUTE_ERROR_INVALID_STATE, operation,
                     "a batcher's callback cannot wait for requests");
  const int64_t until = run_deadline(limit);
  bool in_time = true;
  pthread_mutex_lock(&batcher->mutex);
  while (request->state != REQUEST_DONE && in_time) {
    batcher_wait_until(&request->changed, &batcher->mutex, next_deadline(request, until));
    const int64_t now = clock_now();
    if (request->deadline && now >= request->deadline) end_early(request, COMPUTE_ERROR_TIMEOUT);
    in_time = until == 0 || now < until;
  }
  const bool done = request->state == REQUEST_DONE;
  const compute_status status = request->status;
  const compute_error error = request->error;
  pthread_mutex_unlock(&batcher->mutex);
  if (!done)
    return error_set(batcher->context, COMPUTE_ERROR_TIMEOUT, operation,
                     "the request did not end within %g seconds; it continues", limit);
  if (status) error_restore(batcher->context, &error);
  return status;
}

compute_status compute_batcher_poll(compute_batcher_request *request, bool *done) {
  FLOAT_ENVIRONMENT_DEFAULT;
  if (!request || !done)
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, "compute_batcher_poll", "%s is NULL",
                     request ? "done" : "request");
  REFUSE_INHERITED(request->batcher, context);
  compute_batcher *batcher = request->batcher;
  pthread_mutex_lock(&batcher->mutex);
  if (request->deadline && clock_now() >= request->deadline)
    end_early(request, COMPUTE_ERROR_TIMEOUT);
  *done = request->state == REQUEST_DONE;
  pthread_mutex_unlock(&batcher->mutex);
  return COMPUTE_OK;
}

compute_status compute_batcher_cancel(compute_batcher_request *request) {
  FLOAT_ENVIRONMENT_DEFAULT;
  if (!request)
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, "compute_batcher_cancel", "request is NULL");
  REFUSE_INHERITED(request->batcher, context);
  compute_batcher *batcher = request->batcher;
  pthread_mutex_lock(&batcher->mutex);
  batcher->references++; /* the callback may release the request */
  end_early(request, COMPUTE_ERROR_CANCELLED);
  if (!batcher_unreference(batcher)) pthread_mutex_unlock(&batcher->mutex);
  return COMPUTE_OK;
}

void compute_batcher_request_release(compute_batcher_request *request) {
  if (!request || IS_INHERITED(request->batcher, context)) return;
  compute_batcher *batcher = request->batcher;
  pthread_mutex_lock(&batcher->mutex);
  batcher->references++;
  request_unreference(request);
  if (!batcher_unreference(batcher)) pthread_mutex_unlock(&batcher->mutex);
}
