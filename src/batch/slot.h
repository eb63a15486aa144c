/* SPDX-License-Identifier: MIT */
/* The memory of one batch in progress. */
#ifndef BATCH_SLOT_H
#define BATCH_SLOT_H

#include "batch/batch.h"

/* Prepares buffers for slot->items items from slot->first on, and decides where their data are
 * stored. The slot belongs to the reader. A failure leaves it without buffers. */
compute_status slot_prepare(batch_slot *slot);

/* Creates the tensors for the work; slot_unbind releases them, and may be called repeatedly. */
compute_status slot_bind(batch_slot *slot);
void slot_unbind(batch_slot *slot);

/* Submit copies to the slot's queue, if the device has separate memory. */
compute_status slot_upload(batch_slot *slot);
compute_status slot_download(batch_slot *slot);

/* Whether downloads are asynchronous, so that they may be submitted right after the work. */
bool slot_is_locked(const batch_slot *slot);

/* Tensors of another device, which addresses host memory, over the slot's data. Release what was
 * created also after a failure. */
compute_status slot_wrap(const batch_slot *slot, compute_device *device, compute_tensor **inputs,
                         compute_tensor **outputs);

/* Bytes of all buffers, with staging counted separately. */
uint64_t slot_bytes(const batch_slot *slot);

/* Frees everything. The device has finished with it. */
void slot_close(batch_slot *slot);

#endif
