/* SPDX-License-Identifier: MIT */
/* compute_batch_run: starts the threads, and delivers results on the caller's thread. */
#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/thread.h"
#include "batch/flow.h"
#include "batch/batch.h"
#include "batch/slot.h"
#include "batch/work.h"
#include "compute/profile.h"

#include <stdio.h>
#include <string.h>

static const char operation[] = "compute_batch_run";

#define PROGRESS_SECONDS 0.1
#define RATE_SECONDS     2.0 /* time window of the displayed rate */

/* ---- Reading ------------------------------------------------------------------------------- */

/* Allocates the slot's buffers. If the device is out of memory, it tries fewer items, and finally
 * no device buffers. A lost device gets no device buffers either. */
static compute_status prepare(batch_slot *slot) {
  batch_pipeline *pipeline = slot->pipeline;
  compute_batch *batch = pipeline->batch;
  for (;;) {
    /* Read first: another thread may notice the loss at the same time. */
    const bool lost = atomic_load(&pipeline->lost);
    const compute_status status = slot_prepare(slot);
    if (status == COMPUTE_ERROR_DEVICE_LOST && !lost && pipeline_give_up(pipeline)) continue;
    if (status != COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY || lost ||
        batch->fallback == COMPUTE_FALLBACK_STRICT)
      return status;
    if (slot->room == 1) {
      if (!pipeline_give_up(pipeline)) return status;
      continue;
    }
    slot->room = slot->most = pipeline_halve(pipeline, slot->room);
    if (slot->items > slot->most) slot->items = slot->most;
  }
}

static void *read_all(void *argument) {
  compute_batch *batch = argument;
  compute_status status = COMPUTE_OK;
  bool ended = false;
  for (batch_slot *slot; !status && !ended && (slot = flow_take_free(batch)) != NULL;) {
    int64_t count = 0;
    status = prepare(slot);
    if (!status) {
      const compute_profile_span span =
          compute_profile_span_begin(batch->context, "source", "read");
      flow_watch(batch, &batch->flow.reading, true);
      status = ports_read(batch, slot, &count);
      flow_watch(batch, &batch->flow.reading, false);
      compute_profile_span_end(batch->context, &span);
      ended = count < slot->items;
    }
    slot->items = count;
    if (count > 0)
      flow_give_ready(slot);
    else
      flow_give_back(slot);
  }
  flow_end_reading(batch, ended, status);
  return NULL;
}

/* ---- Writing ------------------------------------------------------------------------------- */

typedef struct delivery {
  compute_batch *batch;
  const compute_batch_run_options *options;
  compute_batch_result result;
  int64_t start, last_report; /* clock_now */
  int64_t last_items;
  double rate;
  bool joined; /* all ranks of the group have begun, so they also end together */
} delivery;

/* Updates the rate, in items per second, with exponentially decaying weights. */
static void update_rate(delivery *d, int64_t now) {
  const double seconds = (double)(now - d->last_report) * 1e-9;
  if (seconds <= 0) return;
  const double rate = (double)(d->result.items - d->last_items) / seconds;
  const double all = (double)(now - d->start) * 1e-9;
  const double weight = seconds / min_f64(all, RATE_SECONDS);
  d->rate += (rate - d->rate) * min_f64(weight, 1);
  d->last_report = now;
  d->last_items = d->result.items;
}

/* Reports progress to the caller. Returns false if the callback cancelled the run. */
static bool report(delivery *d) {
  const batch_flow *f = &d->batch->flow;
  const bool endless = f->total == COMPUTE_BATCH_UNTIL_END;
  const int64_t total = endless ? f->total : f->total - f->first_item, now = clock_now();
  if (!d->options->progress) return true;
  update_rate(d, now);
  const bool known = !endless && (d->rate > 0 || d->result.items == total);
  const double left = (double)(total - d->result.items);
  return d->options->progress(d->options->progress_user,
                              &(compute_batch_progress){.items = d->result.items,
                                                        .total = total,
                                                        .seconds = (double)(now - d->start) * 1e-9,
                                                        .rate = d->rate,
                                                        .seconds_left = !known     ? -1
                                                                        : left > 0 ? left / d->rate
                                                                                   : 0});
}

static int64_t interval(const delivery *d) {
  const double seconds = d->options->progress_seconds;
  return (int64_t)((seconds > 0 ? seconds : PROGRESS_SECONDS) * 1e9);
}

static void deliver(delivery *d, batch_slot *slot) {
  compute_batch *batch = d->batch;
  const compute_profile_span span = compute_profile_span_begin(batch->context, "sink", "write");
  flow_watch(batch, &batch->flow.writing, true);
  const compute_status status = ports_write(batch, slot);
  flow_watch(batch, &batch->flow.writing, false);
  compute_profile_span_end(batch->context, &span);
  if (status) {
    flow_stop(batch, status);
    return;
  }
  d->result.items += slot->items;
  d->result.batches++;
  for (uint32_t i = 0; i < batch->input_count; i++)
    d->result.bytes_read += batch->inputs[i].bytes * (uint64_t)slot->items;
  for (uint32_t i = 0; i < batch->output_count; i++)
    d->result.bytes_written += batch->outputs[i].bytes * (uint64_t)slot->items;
  flow_give_free(slot);
}

static void write_all(delivery *d) {
  const int64_t every = interval(d);
  int64_t next = d->start + every;
  for (;;) {
    batch_slot *slot;
    const flow_answer answer = flow_take_done(d->batch, next, &slot);
    if (answer == FLOW_END) break;
    if (answer == FLOW_SLOT) deliver(d, slot);
    if (clock_now() < next) continue;
    if (!report(d)) compute_batch_cancel(d->batch);
    next = clock_now() + every;
  }
}

/* ---- Threads ------------------------------------------------------------------------------- */

static compute_status start_thread(const compute_batch *batch, pthread_t *thread,
                                   void *(*work)(void *), void *argument) {
  const int code = thread_start(thread, "compute-batch", work, argument);
  if (code == 0) return COMPUTE_OK;
  return error_set_native(batch->context, COMPUTE_ERROR_OUT_OF_MEMORY, code, operation, NULL,
                          "cannot start a thread: %s", strerror(code));
}

/* Starts the pipelines first and the reader last. Nothing happens without the reader, so after a
 * failure it is enough to declare that no batch will come. */
static void run_threads(delivery *d, pthread_t *threads) {
  compute_batch *batch = d->batch;
  uint32_t started = 0;
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; !status && i < batch->pipeline_count; i++) {
    status = start_thread(batch, &threads[started], pipeline_submit_all, &batch->pipelines[i]);
    if (status) break;
    started++;
    status = start_thread(batch, &threads[started], pipeline_finish_all, &batch->pipelines[i]);
    if (!status) started++;
  }
  if (!status) {
    status = start_thread(batch, &threads[started], read_all, batch);
    if (!status) started++;
  }
  if (status) flow_end_reading(batch, false, status);
  write_all(d);
  flow_wake(batch);
  while (started > 0) pthread_join(threads[--started], NULL);
}

/* ---- The run ------------------------------------------------------------------------------- */

static compute_status check_options(const compute_batch *batch,
                                    const compute_batch_run_options *options) {
  if (!options)
    return error_set(batch->context, COMPUTE_ERROR_NULL_POINTER, operation, "options is NULL");
  const compute_status reserved =
      error_if_reserved(batch->context, operation, "options", options->reserved);
  if (reserved) return reserved;
  compute_group_info info;
  if (options->group && !compute_group_query(options->group, &info) &&
      compute_device_context(info.device) != batch->context)
    return error_set(batch->context, COMPUTE_ERROR_WRONG_CONTEXT, operation,
                     "the group belongs to another context");
  if (!(options->progress_seconds >= 0 && options->progress_seconds < 1e6))
    return error_set(batch->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "progress_seconds is %g; it must be at least 0 and less than 1e6",
                     options->progress_seconds);
  return COMPUTE_OK;
}

/* Allows one run at a time. */
static compute_status begin(compute_batch *batch) {
  pthread_mutex_lock(&batch->run_mutex);
  const bool free = !batch->running;
  /* Cleared before the run becomes visible, because it may be cancelled from then on. */
  if (free) atomic_store(&batch->cancelled, false);
  batch->running = true;
  pthread_mutex_unlock(&batch->run_mutex);
  if (free) return COMPUTE_OK;
  return error_set(batch->context, COMPUTE_ERROR_INVALID_STATE, operation,
                   "a run of this iterator is in progress");
}

static void end(compute_batch *batch) {
  pthread_mutex_lock(&batch->run_mutex);
  batch->running = false;
  pthread_mutex_unlock(&batch->run_mutex);
}

/* The caller's error: the earliest failure and the progress of the run. */
static compute_status outcome(const compute_batch *batch, const delivery *d) {
  const batch_flow *f = &batch->flow;
  char label[80];
  const long long items = (long long)d->result.items;
  batch_label(batch, label, sizeof label);
  if (f->status) {
    const bool known = f->error.status == f->status;
    return error_set_native(batch->context, f->status, known ? f->error.native_code : 0, operation,
                            known ? f->error.remedy : NULL, "%s: %.380s; %lld items are complete",
                            label, known ? error_text(&f->error) : compute_status_text(f->status),
                            items);
  }
  const bool all = f->all_read && f->delivered == f->next_sequence;
  if (!atomic_load(&batch->cancelled) || all) return COMPUTE_OK;
  return error_set(batch->context, COMPUTE_ERROR_CANCELLED, operation,
                   "%s: the run was cancelled; %lld items are complete", label, items);
}

static compute_status run(delivery *d) {
  compute_batch *batch = d->batch;
  compute_status status = COMPUTE_OK;
  flow_start(batch); /* first, because a run that fails early also returns the counts */
  pthread_t *threads = base_allocate(2 * (uint64_t)batch->pipeline_count + 1, sizeof *threads);
  if (!threads)
    status = error_set(batch->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                       "not enough memory for threads");
  for (uint32_t i = 0; !status && i < batch->work_count; i++)
    status = work_refresh(&batch->works[i]);
  status = ports_open(batch, d->options, status);
  d->joined = !status && d->options->group;
  if (!status) {
    flow_watch(batch, &batch->flow.running, true);
    run_threads(d, threads);
    flow_watch(batch, &batch->flow.running, false);
    status = outcome(batch, d);
  }
  compute_error error;
  compute_error_get(batch->context, &error);
  const compute_status closed = ports_close(batch);
  if (status && closed != COMPUTE_OK) error_restore(batch->context, &error);
  base_release(threads);
  if (!status) status = closed;
  return d->joined ? compute_group_check(d->options->group, operation, status) : status;
}

compute_status compute_batch_run(compute_batch *batch, const compute_batch_run_options *options,
                                 compute_batch_result *result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(batch, context);
  if (result) *result = (compute_batch_result){0};
  if (!batch) return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "batch is NULL");
  compute_status status = check_options(batch, options);
  if (!status) status = begin(batch);
  if (status && options && options->group)
    return compute_group_check(options->group, operation,
                               status); /* the others wait for this rank */
  if (status) return status;
  delivery d = {.batch = batch, .options = options, .start = clock_now()};
  d.last_report = d.start;
  status = run(&d);
  if (!status) (void)report(&d);
  d.result.seconds = (double)(clock_now() - d.start) * 1e-9;
  d.result.halved = batch->flow.halved;
  d.result.on_cpu = batch->flow.on_cpu;
  for (uint32_t i = 0; i < batch->pipeline_count; i++)
    for (uint32_t k = 0; k < batch->slot_count; k++)
      d.result.slot_bytes += slot_bytes(&batch->pipelines[i].slots[k]);
  end(batch);
  if (result) *result = d.result;
  return status;
}

void compute_batch_cancel(compute_batch *batch) {
  if (IS_INHERITED(batch, context)) return;
  if (!batch) return;
  atomic_store(&batch->cancelled, true);
  flow_wake(batch);
}
