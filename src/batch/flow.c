/* SPDX-License-Identifier: MIT */
/* Lists, order and stopping.
 *
 * Batches are numbered as they are read. A failure belongs to a batch. Earlier batches are still
 * delivered; this batch and later ones are discarded (`stop_at`). Of several failures, the run
 * reports the one of the earliest batch. So its outcome does not depend on the speed of the
 * threads. */
#include "batch/flow.h"

#include <errno.h>
#include <time.h>

#include "batch/work.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"

static const char operation[] = "compute_batch_run";

/* ---- Times --------------------------------------------------------------------------------- */

/* The caller holds the mutex. */
static void set_watch(batch_watch *watch, bool busy) {
  const int64_t now = clock_now();
  if (watch->since > 0) watch->busy += now - watch->since;
  watch->since = busy ? now : 0;
}

void flow_watch(compute_batch *batch, batch_watch *watch, bool busy) {
  pthread_mutex_lock(&batch->flow.mutex);
  set_watch(watch, busy);
  pthread_mutex_unlock(&batch->flow.mutex);
}

static double watch_seconds(const batch_watch *watch, int64_t now) {
  const int64_t since = watch->since > 0 ? now - watch->since : 0;
  return 1e-9 * (double)(watch->busy + since);
}

compute_status compute_batch_times_get(compute_batch *batch, compute_batch_times *times) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(batch, context);
  const compute_status missing =
      error_if_null(batch ? batch->context : NULL, "compute_batch_times_get", batch, times);
  if (missing) return missing;
  double computing = 0;
  pthread_mutex_lock(&batch->flow.mutex);
  const int64_t now = clock_now(); /* one time for all stages, so no stage exceeds the run */
  for (uint32_t i = 0; i < batch->pipeline_count; i++)
    computing += watch_seconds(&batch->pipelines[i].working, now);
  *times = (compute_batch_times){.seconds = watch_seconds(&batch->flow.running, now),
                                 .reading = watch_seconds(&batch->flow.reading, now),
                                 .computing = computing / batch->pipeline_count,
                                 .writing = watch_seconds(&batch->flow.writing, now)};
  pthread_mutex_unlock(&batch->flow.mutex);
  return COMPUTE_OK;
}

/* ---- Lists --------------------------------------------------------------------------------- */

static void append(batch_list *list, batch_slot *slot) {
  slot->next = NULL;
  *(list->last ? &list->last->next : &list->first) = slot;
  list->last = slot;
}

static void take_out(batch_list *list, batch_slot *slot) {
  batch_slot *before = NULL;
  for (batch_slot *s = list->first; s != slot; s = s->next) before = s;
  *(before ? &before->next : &list->first) = slot->next;
  if (list->last == slot) list->last = before;
  slot->next = NULL;
}

static batch_slot *take_first(batch_list *list) {
  batch_slot *slot = list->first;
  if (slot) take_out(list, slot);
  return slot;
}

/* ---- Opening and starting ------------------------------------------------------------------ */

/* In Linux's C libraries, neither conditions nor mutexes allocate, so none of these calls fails. */
static bool make_condition(pthread_cond_t *condition) {
  pthread_condattr_t attributes;
  if (pthread_condattr_init(&attributes) != 0) return false;
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  const bool made = pthread_cond_init(condition, &attributes) == 0;
  pthread_condattr_destroy(&attributes);
  return made;
}

compute_status flow_open(compute_batch *batch) {
  bool made = pthread_mutex_init(&batch->flow.mutex, NULL) == 0 &&
              make_condition(&batch->flow.free_changed) &&
              make_condition(&batch->flow.done_changed);
  for (uint32_t i = 0; i < batch->pipeline_count; i++)
    made = made && make_condition(&batch->pipelines[i].ready_changed) &&
           make_condition(&batch->pipelines[i].submitted_changed) &&
           make_condition(&batch->pipelines[i].device_changed);
  return made ? COMPUTE_OK
              : error_set(batch->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                          "not enough memory for locks");
}

void flow_close(compute_batch *batch) {
  for (uint32_t i = 0; i < batch->pipeline_count; i++) {
    pthread_cond_destroy(&batch->pipelines[i].ready_changed);
    pthread_cond_destroy(&batch->pipelines[i].submitted_changed);
    pthread_cond_destroy(&batch->pipelines[i].device_changed);
  }
  pthread_cond_destroy(&batch->flow.free_changed);
  pthread_cond_destroy(&batch->flow.done_changed);
  pthread_mutex_destroy(&batch->flow.mutex);
}

static void pipeline_start(batch_pipeline *pipeline) {
  pipeline->ready = pipeline->submitted = (batch_list){NULL, NULL};
  pipeline->submitting_ended = false;
  pipeline->under_way = pipeline->on_device = 0;
  pipeline->items_under_way = pipeline->items_complete = 0;
  pipeline->last_finish = 0;
  pipeline->working = (batch_watch){0, 0};
}

void flow_start(compute_batch *batch) {
  batch_flow *f = &batch->flow;
  pthread_mutex_lock(&f->mutex);
  f->free = f->done = (batch_list){NULL, NULL};
  f->first_item = f->next_item = f->next_sequence = f->delivered = 0;
  f->stop_at = INT64_MAX;
  f->reading_ended = f->all_read = false;
  f->status = COMPUTE_OK;
  f->error = (compute_error){0};
  f->halved = f->on_cpu = 0;
  f->running = f->reading = f->writing = (batch_watch){0, 0};
  for (uint32_t i = 0; i < batch->pipeline_count; i++) pipeline_start(&batch->pipelines[i]);
  for (uint32_t k = 0; k < batch->slot_count; k++)
    for (uint32_t i = 0; i < batch->pipeline_count; i++)
      append(&f->free, &batch->pipelines[i].slots[k]);
  pthread_mutex_unlock(&f->mutex);
}

/* ---- Stopping ------------------------------------------------------------------------------ */

/* For this function and the next two, the caller holds the mutex. */
static void wake_all(compute_batch *batch) {
  pthread_cond_broadcast(&batch->flow.free_changed);
  pthread_cond_broadcast(&batch->flow.done_changed);
  for (uint32_t i = 0; i < batch->pipeline_count; i++) {
    pthread_cond_broadcast(&batch->pipelines[i].ready_changed);
    pthread_cond_broadcast(&batch->pipelines[i].submitted_changed);
    pthread_cond_broadcast(&batch->pipelines[i].device_changed);
  }
}

static bool is_stopped(const compute_batch *batch) {
  return batch->flow.stop_at != INT64_MAX || atomic_load(&batch->cancelled);
}

static void stop_at(compute_batch *batch, int64_t sequence, compute_status status) {
  batch_flow *f = &batch->flow;
  if (sequence >= f->stop_at) return;
  f->stop_at = sequence;
  f->status = status;
  compute_error_get(batch->context, &f->error);
  wake_all(batch);
}

void flow_stop(compute_batch *batch, compute_status status) {
  pthread_mutex_lock(&batch->flow.mutex);
  stop_at(batch, batch->flow.delivered, status);
  pthread_mutex_unlock(&batch->flow.mutex);
}

void flow_wake(compute_batch *batch) {
  pthread_mutex_lock(&batch->flow.mutex);
  wake_all(batch);
  pthread_mutex_unlock(&batch->flow.mutex);
}

bool flow_is_wanted(const batch_slot *slot) {
  compute_batch *batch = slot->pipeline->batch;
  pthread_mutex_lock(&batch->flow.mutex);
  const bool wanted = slot->sequence < batch->flow.stop_at && !atomic_load(&batch->cancelled);
  pthread_mutex_unlock(&batch->flow.mutex);
  return wanted;
}

/* ---- The reader ---------------------------------------------------------------------------- */

batch_slot *flow_take_free(compute_batch *batch) {
  batch_flow *f = &batch->flow;
  const bool endless = f->total == COMPUTE_BATCH_UNTIL_END;
  batch_slot *slot = NULL;
  pthread_mutex_lock(&f->mutex);
  while (!slot && !is_stopped(batch) && (endless || f->next_item < f->total)) {
    slot = f->free.first;
    while (slot && share_comes_too_late(slot->pipeline)) slot = slot->next;
    if (!slot) pthread_cond_wait(&f->free_changed, &f->mutex);
  }
  if (slot) {
    take_out(&f->free, slot);
    slot->first = f->next_item;
    slot->sequence = f->next_sequence;
    slot->items = slot->room = slot->pipeline->items;
    slot->most = slot->pipeline->most;
    if (!endless && slot->items > f->total - f->next_item) slot->items = f->total - f->next_item;
  }
  pthread_mutex_unlock(&f->mutex);
  return slot;
}

void flow_give_ready(batch_slot *slot) {
  batch_pipeline *pipeline = slot->pipeline;
  batch_flow *f = &pipeline->batch->flow;
  pthread_mutex_lock(&f->mutex);
  f->next_item += slot->items;
  f->next_sequence++;
  pipeline->under_way++;
  pipeline->items_under_way += slot->items;
  append(&pipeline->ready, slot);
  pthread_cond_signal(&pipeline->ready_changed);
  pthread_mutex_unlock(&f->mutex);
}

void flow_give_back(batch_slot *slot) {
  batch_flow *f = &slot->pipeline->batch->flow;
  pthread_mutex_lock(&f->mutex);
  append(&f->free, slot);
  pthread_mutex_unlock(&f->mutex);
}

void flow_end_reading(compute_batch *batch, bool source_ended, compute_status status) {
  batch_flow *f = &batch->flow;
  pthread_mutex_lock(&f->mutex);
  if (status) stop_at(batch, f->next_sequence, status);
  f->reading_ended = true;
  f->all_read = !status && (source_ended || f->next_item == f->total);
  wake_all(batch);
  pthread_mutex_unlock(&f->mutex);
}

/* ---- The device pipelines ------------------------------------------------------------------ */

void flow_limit(batch_pipeline *pipeline, int64_t items) {
  pthread_mutex_lock(&pipeline->batch->flow.mutex);
  if (items < pipeline->most) pipeline->most = items;
  if (items < pipeline->items) pipeline->items = items;
  pipeline->batch->flow.halved++;
  pthread_mutex_unlock(&pipeline->batch->flow.mutex);
}

void flow_count_on_cpu(batch_pipeline *pipeline) {
  pthread_mutex_lock(&pipeline->batch->flow.mutex);
  pipeline->batch->flow.on_cpu++;
  pthread_mutex_unlock(&pipeline->batch->flow.mutex);
}

batch_slot *flow_take_ready(batch_pipeline *pipeline) {
  batch_flow *f = &pipeline->batch->flow;
  pthread_mutex_lock(&f->mutex);
  while (!pipeline->ready.first && !f->reading_ended)
    pthread_cond_wait(&pipeline->ready_changed, &f->mutex);
  batch_slot *slot = take_first(&pipeline->ready);
  if (slot && pipeline->on_device++ == 0) set_watch(&pipeline->working, true);
  pthread_mutex_unlock(&f->mutex);
  return slot;
}

void flow_give_submitted(batch_slot *slot) {
  batch_pipeline *pipeline = slot->pipeline;
  batch_flow *f = &pipeline->batch->flow;
  pthread_mutex_lock(&f->mutex);
  append(&pipeline->submitted, slot);
  pthread_cond_signal(&pipeline->submitted_changed);
  pthread_mutex_unlock(&f->mutex);
}

void flow_end_submitting(batch_pipeline *pipeline) {
  pthread_mutex_lock(&pipeline->batch->flow.mutex);
  pipeline->submitting_ended = true;
  pthread_cond_signal(&pipeline->submitted_changed);
  pthread_mutex_unlock(&pipeline->batch->flow.mutex);
}

batch_slot *flow_take_submitted(batch_pipeline *pipeline) {
  batch_flow *f = &pipeline->batch->flow;
  pthread_mutex_lock(&f->mutex);
  while (!pipeline->submitted.first && !pipeline->submitting_ended)
    pthread_cond_wait(&pipeline->submitted_changed, &f->mutex);
  batch_slot *slot = take_first(&pipeline->submitted);
  pthread_mutex_unlock(&f->mutex);
  return slot;
}

void flow_wait_for_device(batch_pipeline *pipeline) {
  batch_flow *f = &pipeline->batch->flow;
  pthread_mutex_lock(&f->mutex);
  while (pipeline->on_device > 1) pthread_cond_wait(&pipeline->device_changed, &f->mutex);
  pthread_mutex_unlock(&f->mutex);
}

void flow_give_done(batch_slot *slot, compute_status status) {
  batch_pipeline *pipeline = slot->pipeline;
  compute_batch *batch = pipeline->batch;
  pthread_mutex_lock(&batch->flow.mutex);
  if (status)
    stop_at(batch, slot->sequence, status);
  else if (slot->began > 0)
    share_learn(slot);
  if (--pipeline->on_device == 0) set_watch(&pipeline->working, false);
  pthread_cond_signal(&pipeline->device_changed);
  append(&batch->flow.done, slot);
  pthread_cond_signal(&batch->flow.done_changed);
  pthread_mutex_unlock(&batch->flow.mutex);
}

/* ---- The writer ---------------------------------------------------------------------------- */

static batch_slot *next_in_order(const batch_flow *f) {
  batch_slot *slot = f->done.first;
  while (slot && slot->sequence != f->delivered) slot = slot->next;
  return slot;
}

flow_answer flow_take_done(compute_batch *batch, int64_t until, batch_slot **slot) {
  batch_flow *f = &batch->flow;
  const struct timespec at = {.tv_sec = (time_t)(until / 1000000000),
                              .tv_nsec = (long)(until % 1000000000)};
  flow_answer answer = FLOW_SLOT;
  bool timed_out = false;
  pthread_mutex_lock(&f->mutex);
  for (;;) {
    const bool all = f->reading_ended && f->delivered == f->next_sequence;
    if (all || f->delivered >= f->stop_at || atomic_load(&batch->cancelled)) answer = FLOW_END;
    *slot = next_in_order(f);
    if (answer == FLOW_END || *slot) break;
    if (timed_out) answer = FLOW_TIME;
    if (timed_out) break;
    timed_out = pthread_cond_timedwait(&f->done_changed, &f->mutex, &at) == ETIMEDOUT;
  }
  if (answer == FLOW_SLOT) take_out(&f->done, *slot);
  pthread_mutex_unlock(&f->mutex);
  return answer;
}

void flow_give_free(batch_slot *slot) {
  batch_pipeline *pipeline = slot->pipeline;
  batch_flow *f = &pipeline->batch->flow;
  pthread_mutex_lock(&f->mutex);
  f->delivered++;
  pipeline->under_way--;
  pipeline->items_under_way -= slot->items;
  pipeline->items_complete += slot->items;
  append(&f->free, slot);
  pthread_cond_signal(&f->free_changed);
  pthread_mutex_unlock(&f->mutex);
}
