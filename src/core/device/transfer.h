/* SPDX-License-Identifier: MIT */
/* Copies between host and devices, and single kernels. No other code calls the vtable's upload,
 * download, copy and copy_from_peer. So every copy is in the profile, and a device loss is noticed.
 * Failures carry the backend's status and detail. bytes may be 0. */
#ifndef DEVICE_TRANSFER_H
#define DEVICE_TRANSFER_H

#include "core/device/device.h"

/* ---- In a queue's order --------------------------------------------------------------------- */

/* Submits a copy, which may still be in progress on return. The profile shows `detail`, the owner
 * of the copy, with "upload" or "download". If it is NULL, the caller records the copy under
 * another name. */
compute_status queue_upload(compute_queue *queue, const compute_argument *destination,
                            const void *source, uint64_t bytes, const char *detail);
compute_status queue_download(compute_queue *queue, void *destination,
                              const compute_argument *source, uint64_t bytes, const char *detail);

compute_status queue_copy(compute_queue *queue, const compute_argument *destination,
                          const compute_argument *source, uint64_t bytes, const char *detail);

/* ---- Done on return -------------------------------------------------------------------------
 *
 * These go through the device's internal queue and take its internal_mutex, so the caller must not
 * hold it. The caller must order work on other queues that accesses the same memory. */

compute_status transfer_upload(compute_device *device, const compute_argument *destination,
                               const void *source, uint64_t bytes);
compute_status transfer_download(compute_device *device, void *destination,
                                 const compute_argument *source, uint64_t bytes);

/* `true` if a copy that failed with this status may succeed in smaller pieces. The transfer
 * functions have already tried that. */
bool transfer_may_be_too_large(compute_status status);

/* Copies within one device. The ranges must not overlap. */
compute_status transfer_copy(compute_device *device, const compute_argument *destination,
                             const compute_argument *source, uint64_t bytes);

/* Copies from one device to another of the same context. */
compute_status transfer_between(compute_device *to, const compute_argument *destination,
                                compute_device *from, const compute_argument *source,
                                uint64_t bytes);

/* Runs a kernel to completion. */
compute_status transfer_run(compute_device *device, const compute_kernel_descriptor *descriptor,
                            const compute_argument *arguments, uint32_t count);

#endif
