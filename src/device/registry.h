/* The devices of a context: opened, named, ranked. */
#ifndef DEVICE_REGISTRY_H
#define DEVICE_REGISTRY_H

#include "device/module.h"

/* Opens every device of a loaded module and adds it to the context, best first. A device that does
 * not open is no failure: it is logged, and noted in the module's probe. Fails when memory is
 * short. */
compute_status registry_add_module(compute_context *context, device_module *module);

/* Decides on context->default_device and context->cpu. `name` may be NULL or empty: then
 * COMPUTE_DEVICE decides, or the rank. COMPUTE_ERROR_NO_DEVICE when there is no such device. */
compute_status registry_choose_default(compute_context *context, const char *name);

/* Closes all devices. */
void registry_release(compute_context *context);

/* Opens one device with its pool, kernel cache and internal queue. On failure the error tells. */
compute_status device_create(compute_context *context, const device_module *module, uint32_t index,
                             compute_device **device);
void device_destroy(compute_device *device);

/* A queue that does not count as a live object. */
compute_status queue_create_internal(compute_device *device, compute_queue **queue);
void queue_destroy_internal(compute_queue *queue);

/* context.c: whether a context of this serial number is open. */
bool context_is_open(uint64_t serial);

#endif
