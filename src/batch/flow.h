/* SPDX-License-Identifier: MIT */
/* The state that the threads of one run share: the list of each slot, the next items, and the stop.
 * Every function locks the flow's mutex itself. */
#ifndef BATCH_FLOW_H
#define BATCH_FLOW_H

#include "batch/batch.h"

compute_status flow_open(compute_batch *batch); /* for the lifetime of the iterator */
void flow_close(compute_batch *batch);

/* Resets everything for a new run and frees all slots. Keeps flow.total. */
void flow_start(compute_batch *batch);

/* Marks a stage as busy or idle from now on. */
void flow_watch(compute_batch *batch, batch_watch *watch, bool busy);

/* ---- For the reader ------------------------------------------------------------------------ */

/* Waits for a free slot, and fills in first, items, sequence, room and most. NULL when no items are
 * left or the run is stopped. */
batch_slot *flow_take_free(compute_batch *batch);

/* flow_give_ready passes a slot with slot->items filled items to its pipeline. flow_give_back frees
 * a slot without items. */
void flow_give_ready(batch_slot *slot);
void flow_give_back(batch_slot *slot);

/* Declares that no further batch will come: a source has ended, no items are left, the run is
 * stopped, or `status` is a failure. The failure's detail is the calling thread's last error. */
void flow_end_reading(compute_batch *batch, bool source_ended, compute_status status);

/* ---- For the device pipelines -------------------------------------------------------------- */

/* Waits for the next slot to submit or to finish. NULL when none will come. */
batch_slot *flow_take_ready(batch_pipeline *pipeline);
void flow_give_submitted(batch_slot *slot);
void flow_end_submitting(batch_pipeline *pipeline);
batch_slot *flow_take_submitted(batch_pipeline *pipeline);

/* Waits until the caller's slot is the only slot of the pipeline's two threads. */
void flow_wait_for_device(batch_pipeline *pipeline);

/* The slot is computed. A failure ends the run before this batch; its detail is the calling
 * thread's last error. */
void flow_give_done(batch_slot *slot, compute_status status);

/* True if the results of this batch are still needed. */
bool flow_is_wanted(const batch_slot *slot);

/* flow_limit limits later batches to `items` items, after running out of memory. */
void flow_limit(batch_pipeline *pipeline, int64_t items);
void flow_count_on_cpu(batch_pipeline *pipeline);

/* ---- For the writer ------------------------------------------------------------------------ */

typedef enum flow_answer { FLOW_SLOT, FLOW_TIME, FLOW_END } flow_answer;

/* Waits until the next batch in order is ready, the time `until` (of clock_now) has passed, or the
 * run has ended. */
flow_answer flow_take_done(compute_batch *batch, int64_t until, batch_slot **slot);

/* The slot is delivered and becomes free. */
void flow_give_free(batch_slot *slot);

/* Ends the run after the items delivered so far; the reason is the calling thread's last error. */
void flow_stop(compute_batch *batch, compute_status status);

/* Wakes all waiting threads; call it after setting batch->cancelled. */
void flow_wake(compute_batch *batch);

#endif
