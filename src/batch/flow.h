/* SPDX-License-Identifier: MIT */
/* The state that the threads of one run share: which slot is where, what comes next, and when to
 * stop. Every function takes the flow's mutex itself. */
#ifndef BATCH_FLOW_H
#define BATCH_FLOW_H

#include "batch/batch.h"

compute_status flow_open(compute_batch *batch); /* for the life of the iterator */
void flow_close(compute_batch *batch);

/* Empties everything for a new run and frees all slots. flow.total is kept. */
void flow_start(compute_batch *batch);

/* Marks a stage as busy from now on, or idle. */
void flow_watch(compute_batch *batch, batch_watch *watch, bool busy);

/* ---- For the reader ------------------------------------------------------------------------ */

/* A free slot, with first, items, sequence, room and most filled in; waits for one. NULL when no
 * items are left or the run is stopped. */
batch_slot *flow_take_free(compute_batch *batch);

/* Passes a slot with slot->items filled items to its lane; frees one without any. */
void flow_give_ready(batch_slot *slot);
void flow_give_back(batch_slot *slot);

/* No further batch will come, because a source has ended, no items are left, the run is stopped, or
 * after a failure, whose detail is the calling thread's last error. */
void flow_end_reading(compute_batch *batch, bool source_ended, compute_status status);

/* ---- For the lanes ------------------------------------------------------------------------- */

/* The next slot to submit, or to finish; waits for one. NULL when none will come. */
batch_slot *flow_take_ready(batch_lane *lane);
void flow_give_submitted(batch_slot *slot);
void flow_end_submitting(batch_lane *lane);
batch_slot *flow_take_submitted(batch_lane *lane);

/* Waits until the caller's slot is the only one that the lane's threads hold. */
void flow_wait_for_device(batch_lane *lane);

/* The slot is computed. With a failure the run ends before this batch; its detail is the calling
 * thread's last error. */
void flow_give_done(batch_slot *slot, compute_status status);

/* Whether the results of this batch are still needed. */
bool flow_is_wanted(const batch_slot *slot);

/* From now on at most that number of items at a time, after running out of memory. */
void flow_limit(batch_lane *lane, int64_t items);
void flow_count_on_cpu(batch_lane *lane);

/* ---- For the writer ------------------------------------------------------------------------ */

typedef enum flow_answer { FLOW_SLOT, FLOW_TIME, FLOW_END } flow_answer;

/* Waits until the next batch in order is ready, `until` (of clock_now) has passed, or the run has
 * ended. */
flow_answer flow_take_done(compute_batch *batch, int64_t until, batch_slot **slot);

/* The slot is delivered, and free again. */
void flow_give_free(batch_slot *slot);

/* Ends the run after the items delivered so far; the reason is the calling thread's last error. */
void flow_stop(compute_batch *batch, compute_status status);

/* Wakes all waiting threads, after batch->cancelled was set. */
void flow_wake(compute_batch *batch);

#endif
