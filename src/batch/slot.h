/* SPDX-License-Identifier: MIT */
/* The memory of one batch under way. */
#ifndef BATCH_SLOT_H
#define BATCH_SLOT_H

#include "batch/batch.h"

/* Readies buffers for slot->items items from slot->first on, and decides where their data lie. The
 * slot belongs to the reader. A failure leaves it without buffers. */
compute_status slot_prepare(batch_slot *slot);

/* Makes the tensors that the work gets; slot_unbind gives them back, as often as it is called. */
compute_status slot_bind(batch_slot *slot);
void slot_unbind(batch_slot *slot);

/* Submit copies to the slot's queue, where the device has memory of its own. */
compute_status slot_upload(batch_slot *slot);
compute_status slot_download(batch_slot *slot);

/* Whether downloads are done by the device alone, so that they may be submitted after the work. */
bool slot_is_locked(const batch_slot *slot);

/* Tensors of another device, which addresses host memory, over the slot's data. What was made is to
 * be released also after a failure. */
compute_status slot_wrap(const batch_slot *slot, compute_device *device, compute_tensor **inputs,
                         compute_tensor **outputs);

/* Bytes of all buffers, staging counted apart. */
uint64_t slot_bytes(const batch_slot *slot);

/* Frees everything. The device has finished with it. */
void slot_close(batch_slot *slot);

#endif
