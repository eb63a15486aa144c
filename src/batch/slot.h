/* SPDX-License-Identifier: MIT */
/* The memory of one batch in progress. */
#ifndef BATCH_SLOT_H
#define BATCH_SLOT_H

#include "batch/batch.h"

/* Prepares buffers for slot->items items from slot->first on, and chooses the memory of their data.
 * The slot belongs to the reader. After a failure it has no buffers. */
compute_status slot_prepare(batch_slot *slot);

/* Creates the tensors for the work. slot_unbind releases them and may be called repeatedly. */
compute_status slot_bind(batch_slot *slot);
void slot_unbind(batch_slot *slot);

/* Submit copies to the slot's queue, if the device has separate memory. */
compute_status slot_upload(batch_slot *slot);
compute_status slot_download(batch_slot *slot);

/* True if downloads are asynchronous; then they may be submitted right after the work. */
bool slot_is_locked(const batch_slot *slot);

/* Creates tensors on another device, which must address host memory, over the slot's data. Release
 * the created tensors even after a failure. */
compute_status slot_wrap(const batch_slot *slot, compute_device *device, compute_tensor **inputs,
                         compute_tensor **outputs);

/* Bytes of all buffers; staging counts separately. */
uint64_t slot_bytes(const batch_slot *slot);

/* Frees everything. The device must have finished with it. */
void slot_close(batch_slot *slot);

#endif
