/* The devices of a context: opened, named, ranked. */
#ifndef DEVICE_REGISTRY_H
#define DEVICE_REGISTRY_H

#include "device/module.h"

/* Loads every candidate module and opens every device of it, best first. A module or device that
 * does not open is no failure: its probe says why. Modules that can wait are left for
 * registry_complete. Fails when memory is short. */
compute_status registry_open_modules(compute_context *context);

/* Opens the modules that were left waiting. Afterwards the list of devices never changes. Keeps the
 * calling thread's error as it was. Thread-safe. */
void registry_complete(compute_context *context);

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

/* context.c: whether a context of this serial number is open. */
bool context_is_open(uint64_t serial);

#endif
