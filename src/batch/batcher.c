/* SPDX-License-Identifier: MIT */
/* Creates, stops and describes batchers. */
#include "batch/batcher.h"

#include <time.h>

#include "batch/work.h"
#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/thread.h"

static object_kind batcher_object = {.name = "batcher", .plural = "batchers"};

static const char operation_create[] = "compute_batcher_create";

enum { DEFAULT_MOST = 32, DEFAULT_QUEUE = 8 };

int64_t batcher_size(int64_t most, int64_t count) {
  if (count >= most) return most;
  int64_t size = 1;
  while (2 * size <= count) size *= 2;
  return size + size / 2 <= count ? size + size / 2 : size;
}

void batcher_wait_until(pthread_cond_t *signal, pthread_mutex_t *mutex, int64_t deadline) {
  const struct timespec until = {.tv_sec = (time_t)(deadline / 1000000000),
                                 .tv_nsec = (long)(deadline % 1000000000)};
  if (deadline == 0)
    pthread_cond_wait(signal, mutex);
  else
    (void)pthread_cond_timedwait(signal, mutex, &until);
}

void batcher_open_condition(pthread_cond_t *condition) {
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

/* ---- Creating -------------------------------------------------------------------------------- */

static compute_status check(compute_batch *batch, const compute_batcher_options *o) {
  const char *wrong = NULL;
  if (o->most < 0 || o->most > COMPUTE_BATCHER_MAX_ITEMS)
    wrong = "`most` must be 1 to 4096 items";
  else if (o->most > 1 && batch->given == 1)
    wrong = "the work takes single items, so `most` must be 1";
  else if (o->queue < 0 || o->queue > INT64_C(1) << 31)
    wrong = "`queue` must be 1 to 2^31 requests";
  else if ((unsigned)o->full > COMPUTE_BATCHER_REFUSE)
    wrong = "`full` has an unknown value";
  if (wrong)
    return error_set(batch->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation_create, "%s", wrong);
  return error_if_reserved(batch->context, operation_create, "options", o->reserved);
}

static compute_status open_workers(compute_batcher *batcher) {
  compute_batch *batch = batcher->batch;
  compute_status status = COMPUTE_OK;
  batcher->workers = base_allocate(batch->pipeline_count, sizeof *batcher->workers);
  if (!batcher->workers)
    return error_set(batcher->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation_create,
                     "not enough memory for %u devices", batch->pipeline_count);
  for (uint32_t i = 0; !status && i < batch->pipeline_count; i++) {
    batcher_worker *worker = &batcher->workers[batcher->worker_count++];
    *worker = (batcher_worker){.batcher = batcher, .pipeline = &batch->pipelines[i]};
    status = batcher_open_worker(worker);
  }
  for (uint32_t i = 0; !status && i < batcher->worker_count; i++) {
    batcher_worker *worker = &batcher->workers[i];
    worker->started = thread_start(&worker->thread, "compute-batcher", batcher_work, worker) == 0;
    if (!worker->started)
      status = error_set(batcher->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation_create,
                         "cannot start a thread");
  }
  return status;
}

compute_status compute_batcher_create(compute_batch *batch, const compute_batcher_options *options,
                                      compute_batcher **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(batch, context);
  static const compute_batcher_options defaults;
  const compute_batcher_options *o = options ? options : &defaults;
  compute_status status =
      error_if_null(batch ? batch->context : NULL, operation_create, batch, result);
  if (result) *result = NULL;
  if (!status) status = check(batch, o);
  if (status) return status;
  compute_batcher *batcher = base_allocate(1, sizeof *batcher);
  if (!batcher)
    return error_set(batch->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation_create,
                     "not enough memory for a batcher");
  batcher->context = batch->context;
  batcher->batch = batch;
  batcher->most = o->most > 0 ? o->most : batch->given == 1 ? 1 : DEFAULT_MOST;
  batcher->limit = o->queue > 0 ? o->queue : DEFAULT_QUEUE * batcher->most;
  batcher->wait = (int64_t)o->wait_microseconds * 1000;
  batcher->full = o->full;
  batcher->references = 1;
  pthread_mutex_init(&batcher->mutex, NULL);
  batcher_open_condition(&batcher->arrived);
  batcher_open_condition(&batcher->room);
  batcher_open_condition(&batcher->idle);
  context_object_created(batcher->context, &batcher_object, batcher);
  status = open_workers(batcher);
  if (status)
    compute_batcher_release(batcher);
  else
    *result = batcher;
  return status;
}

/* ---- Ending ---------------------------------------------------------------------------------- */

bool batcher_unreference(compute_batcher *batcher) {
  compute_context *context = batcher->context;
  if (--batcher->references > 0) return false;
  pthread_mutex_unlock(&batcher->mutex);
  pthread_cond_destroy(&batcher->arrived);
  pthread_cond_destroy(&batcher->room);
  pthread_cond_destroy(&batcher->idle);
  pthread_mutex_destroy(&batcher->mutex);
  context_object_leaves(context, batcher);
  base_release(batcher);
  context_object_released(context, &batcher_object);
  return true;
}

compute_status compute_batcher_stop(compute_batcher *batcher, bool finish) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(batcher, context);
  static const char operation[] = "compute_batcher_stop";
  if (!batcher) return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "batcher is NULL");
  if (request_in_callback())
    return error_set(batcher->context, COMPUTE_ERROR_INVALID_STATE, operation,
                     "a batcher's callback cannot stop a batcher");
  pthread_mutex_lock(&batcher->mutex);
  batcher->stopping = true;
  pthread_cond_broadcast(&batcher->arrived);
  pthread_cond_broadcast(&batcher->room);
  while (!finish && batcher->first) {
    compute_batcher_request *request = batcher->first;
    request_dequeue(request);
    request_end(request, COMPUTE_ERROR_CANCELLED, NULL);
  }
  while (batcher->active > 0 || batcher->blocked > 0)
    pthread_cond_wait(&batcher->idle, &batcher->mutex);
  pthread_mutex_unlock(&batcher->mutex);
  return COMPUTE_OK;
}

void compute_batcher_release(compute_batcher *batcher) {
  if (IS_INHERITED(batcher, context)) return;
  if (!batcher || request_in_callback()) return;
  compute_error before;
  compute_error_get(batcher->context, &before);
  (void)compute_batcher_stop(batcher, false);
  for (uint32_t i = 0; i < batcher->worker_count; i++) {
    if (batcher->workers[i].started) pthread_join(batcher->workers[i].thread, NULL);
    batcher_close_worker(&batcher->workers[i]);
  }
  base_release(batcher->workers);
  batcher->workers = NULL;
  error_restore(batcher->context, &before);
  pthread_mutex_lock(&batcher->mutex);
  if (!batcher_unreference(batcher)) pthread_mutex_unlock(&batcher->mutex);
}

/* ---- Statistics ------------------------------------------------------------------------------ */

/* The upper end of the bucket below which `part` of all latencies lie, in seconds. */
static double percentile(const compute_batcher *batcher, double part) {
  uint64_t count = 0;
  for (int i = 0; i < LATENCY_BUCKETS; i++) {
    count += batcher->latencies[i];
    if (batcher->info.succeeded == 0 || (double)count < part * (double)batcher->info.succeeded)
      continue;
    const int octave = i / LATENCY_STEPS;
    const double low = (double)(UINT64_C(1) << octave);
    const double end = low * (1 + (double)(i % LATENCY_STEPS + 1) / LATENCY_STEPS) * 1e-9;
    return end < batcher->info.longest_latency ? end : batcher->info.longest_latency;
  }
  return 0;
}

compute_status compute_batcher_describe(compute_batcher *batcher, compute_batcher_info *info) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(batcher, context);
  if (!batcher || !info)
    return error_set(batcher ? batcher->context : NULL, COMPUTE_ERROR_NULL_POINTER,
                     "compute_batcher_describe", "%s is NULL", batcher ? "info" : "batcher");
  pthread_mutex_lock(&batcher->mutex);
  *info = batcher->info;
  if (info->items > 0) info->mean_wait = batcher->waited / (double)info->items;
  if (info->succeeded > 0) info->mean_latency = batcher->latency / (double)info->succeeded;
  info->latency_50 = percentile(batcher, 0.5);
  info->latency_90 = percentile(batcher, 0.9);
  info->latency_99 = percentile(batcher, 0.99);
  pthread_mutex_unlock(&batcher->mutex);
  return COMPUTE_OK;
}
