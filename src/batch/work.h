/* SPDX-License-Identifier: MIT */
/* The work on one device: a plan for each batch size in use, or the caller's step. Also the choice
 * of batch sizes (sizes.c). */
#ifndef BATCH_WORK_H
#define BATCH_WORK_H

#include "batch/batch.h"

compute_status work_open(batch_work *work, compute_batch *batch, compute_device *device);
void work_close(batch_work *work);

/* Lets the builder record its work on two items, to determine the outputs and to check that they
 * have the item axis. Fills in the iterator's outputs. */
compute_status work_probe(compute_batch *batch);

/* The plan for `items` items, compiled if it is new. It is in use until work_release. Thread-safe.
 * */
compute_status work_plan(batch_work *work, int64_t items, batch_plan **plan);
void work_release(batch_work *work, batch_plan *plan);

/* Refreshes the copies of parameters on other devices. */
compute_status work_refresh(batch_work *work);

/* Submits the work on `items` items to `queue`; with NULL it is done on return. Thread-safe. */
compute_status work_submit(batch_work *work, int64_t first, int64_t items,
                           compute_tensor *const *inputs, compute_tensor *const *outputs,
                           compute_queue *queue);

/* Chooses the number of items per batch for a device, and compiles the plan. */
compute_status size_choose(batch_pipeline *pipeline);

/* ---- Sharing between devices. The caller holds the flow's mutex. --------------------------- */

/* Updates the speed of a device after a batch, and chooses new sizes for all devices. */
void share_learn(const batch_slot *slot);

/* True if the other devices would finish all remaining items before this device finishes one more
 * batch. */
bool share_comes_too_late(const batch_pipeline *pipeline);

#endif
