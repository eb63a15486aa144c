/* SPDX-License-Identifier: MIT */
/* The two threads of a device, and their handling of its failures.
 *
 * One thread uploads and submits; the other downloads and waits. So a backend with blocking copies
 * still copies in both directions while it computes. If copies are asynchronous (page-locked
 * memory), the first thread also submits the download. Then the device need not wait for the host
 * between the work and the download.
 *
 * Inputs are unchanged until a batch is done, so a batch can always be repeated: in smaller pieces
 * after running out of memory, or on the CPU if the device has failed. */
#include "batch/batch.h"

#include "batch/flow.h"
#include "batch/slot.h"
#include "batch/work.h"
#include "core/base/error.h"
#include "core/device/collector.h"

static const char operation[] = "compute_batch_run";

static bool is_loud(const compute_batch *batch) {
  return batch->fallback == COMPUTE_FALLBACK_WARN;
}

static compute_status wait_for(const batch_slot *slot) {
  return slot->queue ? compute_queue_wait(slot->queue) : COMPUTE_OK;
}

/* ---- Submitting ---------------------------------------------------------------------------- */

static void collect(const batch_buffer *buffers, uint32_t count, compute_tensor **tensors) {
  for (uint32_t i = 0; i < count; i++) tensors[i] = buffers[i].bound;
}

static compute_status submit_work(const batch_slot *slot) {
  const compute_batch *batch = slot->pipeline->batch;
  compute_tensor *inputs[COMPUTE_BATCH_MAX_PORTS], *outputs[COMPUTE_BATCH_MAX_PORTS];
  collect(slot->inputs, batch->input_count, inputs);
  collect(slot->outputs, batch->output_count, outputs);
  return work_submit(slot->pipeline->work, slot->first, slot->items, inputs, outputs, slot->queue);
}

/* Runs the work on `items` items of the slot, starting at `from`, to completion. */
static compute_status run_piece(const batch_slot *slot, int64_t from, int64_t items) {
  const compute_batch *batch = slot->pipeline->batch;
  compute_tensor *inputs[COMPUTE_BATCH_MAX_PORTS] = {NULL};
  compute_tensor *outputs[COMPUTE_BATCH_MAX_PORTS] = {NULL};
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; !status && i < batch->input_count; i++)
    status = compute_tensor_slice_view(slot->inputs[i].bound, 0, from, items, 1, &inputs[i]);
  for (uint32_t i = 0; !status && i < batch->output_count; i++)
    status = compute_tensor_slice_view(slot->outputs[i].bound, 0, from, items, 1, &outputs[i]);
  if (!status)
    status =
        work_submit(slot->pipeline->work, slot->first + from, items, inputs, outputs, slot->queue);
  const compute_status waited = wait_for(slot);
  for (uint32_t i = 0; i < COMPUTE_BATCH_MAX_PORTS; i++) {
    compute_tensor_release(inputs[i]);
    compute_tensor_release(outputs[i]);
  }
  return status ? status : waited;
}

int64_t pipeline_halve(batch_pipeline *pipeline, int64_t items) {
  fallback_note(pipeline->batch->context, pipeline->work->device, FALLBACK_SMALLER_BATCH,
                is_loud(pipeline->batch), "not enough memory for a batch of %lld items; halving it",
                (long long)items);
  flow_limit(pipeline, (items + 1) / 2);
  return (items + 1) / 2;
}

/* The device is out of memory. Its other batches finish first and free their memory. Then the batch
 * is halved until it fits, and later batches are no larger. */
static compute_status repeat_in_pieces(batch_slot *slot) {
  batch_pipeline *pipeline = slot->pipeline;
  int64_t piece = slot->items, done = 0;
  (void)wait_for(slot);
  flow_wait_for_device(pipeline);
  compute_status status = slot_upload(slot);
  while (!status && done < slot->items) {
    const int64_t items = piece < slot->items - done ? piece : slot->items - done;
    status = run_piece(slot, done, items);
    if (!status) {
      done += items;
    } else if (status == COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY && piece > 1 &&
               pipeline->batch->fallback != COMPUTE_FALLBACK_STRICT) {
      piece = pipeline_halve(pipeline, piece);
      status = COMPUTE_OK;
    }
  }
  return status;
}

static void submit(batch_slot *slot) {
  batch_pipeline *pipeline = slot->pipeline;
  const compute_batch *batch = pipeline->batch;
  compute_status status = COMPUTE_OK;
  slot->began = 0;
  slot->downloading = false;
  slot->status = COMPUTE_OK;
  if (!flow_is_wanted(slot)) return;
  if (atomic_load(&pipeline->lost)) {
    slot->status = COMPUTE_ERROR_DEVICE_LOST;
    return;
  }
  if (batch->build) { /* compilation does not count towards the device's speed */
    batch_plan *plan;
    status = work_plan(pipeline->work, slot->items, &plan);
    if (!status) work_release(pipeline->work, plan);
  }
  slot->began = clock_now();
  if (!status) status = slot_bind(slot);
  if (!status) status = slot_upload(slot);
  if (!status) status = submit_work(slot);
  if (status == COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY && slot->outputs[0].bound)
    status = repeat_in_pieces(slot);
  if (!status && slot_is_locked(slot)) {
    status = slot_download(slot);
    slot->downloading = true;
  }
  slot->status = status;
  if (status) compute_error_get(batch->context, &slot->error);
}

void *pipeline_submit_all(void *argument) {
  batch_pipeline *pipeline = argument;
  for (batch_slot *slot; (slot = flow_take_ready(pipeline)) != NULL;) {
    submit(slot);
    flow_give_submitted(slot);
  }
  flow_end_submitting(pipeline);
  return NULL;
}

/* ---- Repeating on the CPU ------------------------------------------------------------------ */

/* True for failures of the device, not of the request. */
static bool is_the_device(compute_status status) {
  switch (status) {
  case COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY:
  case COMPUTE_ERROR_DEVICE_LOST:
  case COMPUTE_ERROR_COMPILATION:
  case COMPUTE_ERROR_LAUNCH:
  case COMPUTE_ERROR_TRANSFER:
  case COMPUTE_ERROR_TIMEOUT: return true;
  default: return false;
  }
}

static bool may_use_cpu(const batch_pipeline *pipeline) {
  const compute_batch *batch = pipeline->batch;
  return batch->fallback != COMPUTE_FALLBACK_STRICT && batch->cpu_work &&
         batch->cpu_work->device != pipeline->work->device;
}

bool pipeline_may_repeat(const batch_pipeline *pipeline, compute_status cause) {
  return may_use_cpu(pipeline) && is_the_device(cause);
}

bool pipeline_give_up(batch_pipeline *pipeline) {
  compute_batch *batch = pipeline->batch;
  if (!may_use_cpu(pipeline)) return false;
  if (!atomic_exchange(&pipeline->lost, true))
    fallback_note(batch->context, pipeline->work->device, FALLBACK_RUN_ON_CPU, is_loud(batch),
                  "batches run on the CPU from now on: %s", compute_error_message(batch->context));
  return true;
}

static compute_status repeat_on_cpu(batch_slot *slot, compute_status cause) {
  batch_pipeline *pipeline = slot->pipeline;
  compute_batch *batch = pipeline->batch;
  compute_tensor *inputs[COMPUTE_BATCH_MAX_PORTS] = {NULL};
  compute_tensor *outputs[COMPUTE_BATCH_MAX_PORTS] = {NULL};
  compute_error error;
  compute_error_get(batch->context, &error);
  if (!pipeline_may_repeat(pipeline, cause)) return cause;
  if (!atomic_load(&pipeline->lost)) {
    fallback_note(batch->context, pipeline->work->device, FALLBACK_RUN_ON_CPU, is_loud(batch),
                  "a batch of %lld items was repeated on the CPU: %s", (long long)slot->items,
                  error.message);
    if (cause == COMPUTE_ERROR_DEVICE_LOST) pipeline_give_up(pipeline);
  }
  compute_status status = slot_wrap(slot, batch->cpu_work->device, inputs, outputs);
  if (!status)
    status = work_submit(batch->cpu_work, slot->first, slot->items, inputs, outputs, NULL);
  for (uint32_t i = 0; i < COMPUTE_BATCH_MAX_PORTS; i++) {
    compute_tensor_release(inputs[i]);
    compute_tensor_release(outputs[i]);
  }
  if (!status) flow_count_on_cpu(pipeline);
  /* The step does not support the CPU: report the device's error. */
  if (status == COMPUTE_ERROR_UNSUPPORTED && batch->step && error.status == cause) {
    error_restore(batch->context, &error);
    status = cause;
  }
  return status;
}

/* ---- Finishing ----------------------------------------------------------------------------- */

static compute_status finish(batch_slot *slot) {
  compute_batch *batch = slot->pipeline->batch;
  if (!flow_is_wanted(slot)) {
    (void)wait_for(slot);
    return COMPUTE_OK; /* its results are not used */
  }
  compute_status status = slot->status;
  if (status) {
    (void)wait_for(slot);
    if (slot->error.status == status) error_restore(batch->context, &slot->error);
  } else {
    if (!slot->downloading) status = slot_download(slot);
    const compute_status waited = wait_for(slot);
    if (!status) status = waited;
  }
  if (!status) return status;
  slot->began = 0; /* its time is no measure of the device's speed */
  if (status == COMPUTE_ERROR_DEVICE_LOST && slot->error.status != status && slot->status == status)
    (void)error_set(batch->context, status, operation, "%s was lost earlier",
                    slot->pipeline->work->device->info.name);
  return repeat_on_cpu(slot, status);
}

void *pipeline_finish_all(void *argument) {
  batch_pipeline *pipeline = argument;
  for (batch_slot *slot; (slot = flow_take_submitted(pipeline)) != NULL;) {
    const compute_status status = finish(slot);
    slot_unbind(slot);
    slot->error = (compute_error){0};
    flow_give_done(slot, status);
  }
  return NULL;
}
