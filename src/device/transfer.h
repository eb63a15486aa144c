/* Copies between host and devices, and kernels, that are done on return.
 *
 * They go through the device's internal queue and take its internal_mutex, so the caller must not
 * hold it. Work on other queues that touches the same memory is the caller's to order. bytes may be
 * 0. Failures carry the backend's status and detail. */
#ifndef DEVICE_TRANSFER_H
#define DEVICE_TRANSFER_H

#include "device/device.h"

compute_status transfer_upload(compute_device *device, const compute_argument *destination,
                               const void *source, uint64_t bytes);
compute_status transfer_download(compute_device *device, void *destination,
                                 const compute_argument *source, uint64_t bytes);

/* Whether a copy that failed like this may succeed in smaller pieces; the functions above and below
 * have tried that already. */
bool transfer_may_be_too_large(compute_status status);

/* Within one device; the ranges do not overlap. */
compute_status transfer_copy(compute_device *device, const compute_argument *destination,
                             const compute_argument *source, uint64_t bytes);

/* From one device to another of the same context. */
compute_status transfer_between(compute_device *to, const compute_argument *destination,
                                compute_device *from, const compute_argument *source,
                                uint64_t bytes);

/* Runs a kernel to its end. */
compute_status transfer_run(compute_device *device, const compute_kernel_descriptor *descriptor,
                            const compute_argument *arguments, uint32_t count);

#endif
