/* SPDX-License-Identifier: MIT */
/* The work on one device: a plan for each batch size used, or the caller's step. And the batch size
 * of a device (sizes.c). */
#ifndef BATCH_WORK_H
#define BATCH_WORK_H

#include "batch/batch.h"

compute_status work_open(batch_work *work, compute_batch *batch, compute_device *device);
void work_close(batch_work *work);

/* Has the builder record its work on two items, to determine the outputs and check that they have
 * the items' axis. Fills in the iterator's outputs. */
compute_status work_probe(compute_batch *batch);

/* The plan for that number of items, compiled if it is new; in use until work_leave. Thread-safe.
 */
compute_status work_plan(batch_work *work, int64_t items, batch_plan **plan);
void work_leave(batch_work *work, batch_plan *plan);

/* Refreshes the copies of parameters on other devices. */
compute_status work_refresh(batch_work *work);

/* Submits the work on `items` items to `queue` (NULL: done on return). Thread-safe. */
compute_status work_submit(batch_work *work, int64_t first, int64_t items,
                           compute_tensor *const *inputs, compute_tensor *const *outputs,
                           compute_queue *queue);

/* Chooses how many items a lane takes at a time, and compiles the plan for that. */
compute_status size_choose(batch_lane *lane);

/* ---- Sharing between devices. The flow's mutex is held. ------------------------------------ */

/* Updates the speed of a lane after a batch, and gives all lanes new sizes. */
void share_learn(const batch_slot *slot);

/* Whether the others would finish everything that is left before this lane finishes one more
 * batch. */
bool share_comes_too_late(const batch_lane *lane);

#endif
