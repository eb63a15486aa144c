/* SPDX-License-Identifier: MIT */
/* The choice of the batch size.
 *
 * A batch must be large enough that its overhead is small compared with its work. The overhead
 * (passing it between threads, launches, starting a copy) is some tens of microseconds. It must be
 * small enough that on a CPU all slots stay in the last-level cache. All slots and temporaries must
 * also fit into their share of memory. */
#include "core/base/error.h"
#include "core/base/log.h"
#include "batch/work.h"
#include "core/base/arithmetic.h"
#include "core/device/collector.h"

#define MIB                 ((uint64_t)1 << 20)
#define SHARED_TARGET_LEAST MIB /* bytes of a batch if host and device share memory */
#define SHARED_TARGET_MOST  (8 * MIB)
#define OWN_TARGET          (32 * MIB) /* with transfers: one millisecond of a fast bus */

static uint64_t item_bytes(const compute_batch *batch) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < batch->input_count; i++) bytes += batch->inputs[i].bytes;
  for (uint32_t i = 0; i < batch->output_count; i++) bytes += batch->outputs[i].bytes;
  return bytes > 0 ? bytes : 1;
}

/* The memory limit for the slots and temporaries of one device. */
static uint64_t memory_limit(const batch_pipeline *pipeline) {
  const compute_batch *batch = pipeline->batch;
  compute_device_info info;
  compute_pool_statistics pool;
  uint64_t room = UINT64_MAX;
  if (batch->memory > 0) return batch->memory / batch->pipeline_count;
  if (compute_device_describe(pipeline->work->device, &info) == COMPUTE_OK && info.memory_free > 0)
    room = info.memory_free;
  if (compute_pool_query(pipeline->work->device, &pool) == COMPUTE_OK) {
    if (room != UINT64_MAX) room += pool.bytes_cached;
    if (pool.bytes_budget > 0)
      room = min_u64(
          room, pool.bytes_budget > pool.bytes_active ? pool.bytes_budget - pool.bytes_active : 0);
  }
  return room / 4;
}

static uint64_t target_bytes(const batch_pipeline *pipeline) {
  const uint64_t cache = pipeline->work->device->info.cache_bytes;
  if (!pipeline->direct) return OWN_TARGET;
  const uint64_t share = cache / (2 * (uint64_t)pipeline->batch->slot_count);
  return share < SHARED_TARGET_LEAST ? SHARED_TARGET_LEAST : min_u64(share, SHARED_TARGET_MOST);
}

/* Copies of an item in a slot: on the device, and staged. */
static uint64_t copies_of(const batch_pipeline *pipeline) {
  return pipeline->direct ? 1 : 2;
}

/* Bytes that batches of `items` items need on this device, including the plan. */
static compute_status measure(batch_pipeline *pipeline, int64_t items, uint64_t *bytes) {
  const compute_batch *batch = pipeline->batch;
  compute_plan_info info = {0};
  batch_plan *plan;
  compute_status status = COMPUTE_OK;
  if (batch->build && (status = work_plan(pipeline->work, items, &plan)) == COMPUTE_OK) {
    status = compute_plan_describe(plan->plan, &info);
    work_release(pipeline->work, plan);
  }
  *bytes = batch->slot_count *
               (copies_of(pipeline) * item_bytes(batch) * (uint64_t)items + info.arena_bytes) +
           info.constant_bytes;
  return status;
}

/* The caller's number, or enough items for the target; at most as many as fit into all slots. */
static int64_t first_choice(const batch_pipeline *pipeline, uint64_t limit) {
  const compute_batch *batch = pipeline->batch;
  const uint64_t room = limit / batch->slot_count / copies_of(pipeline) / item_bytes(batch);
  const uint64_t wanted =
      batch->given > 0 ? (uint64_t)batch->given : target_bytes(pipeline) / item_bytes(batch);
  const uint64_t items = min_u64(wanted, room);
  return items > 0 ? (int64_t)items : 1;
}

compute_status size_choose(batch_pipeline *pipeline) {
  const compute_batch *batch = pipeline->batch;
  const uint64_t limit = memory_limit(pipeline);
  int64_t items = first_choice(pipeline, limit);
  for (;;) {
    uint64_t bytes;
    const compute_status status = measure(pipeline, items, &bytes);
    const bool short_of_memory = status == COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY;
    if (status && (!short_of_memory || items == 1 || batch->fallback == COMPUTE_FALLBACK_STRICT))
      return status;
    if (!status && (bytes <= limit || items == 1)) break;
    if (short_of_memory)
      fallback_note(batch->context, pipeline->work->device, FALLBACK_SMALLER_BATCH,
                    batch->fallback == COMPUTE_FALLBACK_WARN,
                    "a plan for batches of %lld items does not fit into memory; halving them",
                    (long long)items);
    items = (items + 1) / 2;
  }
  pipeline->most = pipeline->items = items;
  log_write(COMPUTE_LOG_DEBUG, "core", "%s: batches of %lld items",
            pipeline->work->device->info.name, (long long)items);
  return COMPUTE_OK;
}

/* ---- Sharing between devices of different speed -------------------------------------------- */

/* Sharing between devices of different speed.
 *
 * The reader gives the next items to the slot that has been free longest, so each device works at
 * its pace. Two rules are added. First, a slow device must not take so many items that the other
 * devices run out of slots while the in-order delivery waits for it. So its batch is limited to
 * about the time of one batch on the fastest device. Second, near the end it must not begin a batch
 * that the other devices would finish sooner. */

#define MOST_HALVES 4

/* Batches overlap, so each is timed from the end of the previous one. The running mean has weight
 * 1/2, since a first batch also includes warm-up. */
static void learn_rate(batch_pipeline *pipeline, const batch_slot *slot) {
  const int64_t now = clock_now();
  const int64_t since = slot->began > pipeline->last_finish ? slot->began : pipeline->last_finish;
  const double seconds = (double)(now - since) * 1e-9;
  const double rate = (double)slot->items / (seconds > 1e-9 ? seconds : 1e-9);
  pipeline->rate = pipeline->rate > 0 ? (pipeline->rate + rate) / 2 : rate;
  pipeline->last_finish = now;
}

/* The fastest device; NULL until all speeds are known. */
static const batch_pipeline *fastest(const compute_batch *batch) {
  const batch_pipeline *best = &batch->pipelines[0];
  for (uint32_t i = 0; i < batch->pipeline_count; i++) {
    const batch_pipeline *pipeline = &batch->pipelines[i];
    if (pipeline->rate <= 0) return NULL;
    if (pipeline->rate > best->rate) best = pipeline;
  }
  return best;
}

void share_learn(const batch_slot *slot) {
  compute_batch *batch = slot->pipeline->batch;
  learn_rate(slot->pipeline, slot);
  const batch_pipeline *best = batch->pipeline_count > 1 ? fastest(batch) : NULL;
  if (!best) return;
  const double seconds = (double)best->most / best->rate;
  for (uint32_t i = 0; i < batch->pipeline_count; i++) {
    batch_pipeline *pipeline = &batch->pipelines[i];
    /* Sizes are halved only, since each size needs a plan. The number of halvings is limited: small
     * batches are slow, so a device that looks slow would get smaller and smaller ones. */
    int64_t items = pipeline->most;
    for (int half = 0; half < MOST_HALVES && (double)items > 1.5 * seconds * pipeline->rate; half++)
      items = (items + 1) / 2;
    pipeline->items = items;
  }
}

bool share_comes_too_late(const batch_pipeline *pipeline) {
  const compute_batch *batch = pipeline->batch;
  const batch_flow *f = &batch->flow;
  if (f->total == COMPUTE_BATCH_UNTIL_END || batch->pipeline_count == 1 || pipeline->rate <= 0)
    return false;
  const int64_t left = f->total - f->next_item;
  const int64_t own = pipeline->items_under_way + (pipeline->items < left ? pipeline->items : left);
  int64_t others = left;
  double rates = 0;
  uint32_t busy = 0;
  for (uint32_t i = 0; i < batch->pipeline_count; i++) {
    const batch_pipeline *other = &batch->pipelines[i];
    busy += other->under_way;
    if (other == pipeline) continue;
    others += other->items_under_way;
    rates += other->rate;
  }
  /* If nothing is in progress, no thread would take the items. */
  return busy > 0 && rates > 0 && (double)own / pipeline->rate > (double)others / rates;
}
