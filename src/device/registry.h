/* The devices of a context: opened, named, ranked. */
#ifndef DEVICE_REGISTRY_H
#define DEVICE_REGISTRY_H

#include "device/module.h"

/* Loads every candidate module and opens every device of it, best first. A module or device that
 * does not open is no failure: its probe says why. Modules that can wait are left for
 * registry_complete. Fails when memory is short. */
compute_status registry_open_modules(compute_context *context);

/* Opens the modules that were left waiting. After a success the list of devices never changes, and
 * the calling thread's error is what it was before. Fails when memory is short: then some module
 * still waits, and the next call tries again. Thread-safe. */
compute_status registry_complete(compute_context *context);

/* The same for those who cannot fail: the list may lack devices then. The calling thread's error
 * stays as it was. */
void registry_complete_quietly(compute_context *context);

/* Decides on context->default_device and context->cpu. `name` may be NULL or empty: then
 * COMPUTE_DEVICE decides, or the rank. COMPUTE_ERROR_NO_DEVICE when there is no such device. */
compute_status registry_choose_default(compute_context *context, const char *name);

/* Closes all devices. */
void registry_release(compute_context *context);

/* Opens one device with its pool, kernel cache and internal queue. On failure the error tells. */
compute_status device_create(compute_context *context, const device_module *module, uint32_t index,
                             compute_device **device);

/* False if work of the device still runs: then its module must stay open. */
bool device_destroy(compute_device *device);

/* A queue that does not count as a live object. */
compute_status queue_create_internal(compute_device *device, compute_queue **queue);
void queue_destroy_internal(compute_queue *queue);

#endif
