/* SPDX-License-Identifier: MIT */
/* Backend modules, and the devices of a context: opening, naming and ranking. */
#ifndef DEVICE_REGISTRY_H
#define DEVICE_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/device/device.h"

/* ---- Modules --------------------------------------------------------------------------------- */

/* One backend module: its file, its state, and its vtable when loaded. */

struct device_module {
  compute_probe probe;     /* owns its strings: name and path always, the others unless "" */
  compute_backend backend; /* a complete copy: slots that the module lacks are NULL */
  bool asked;              /* named by the options, not only by the environment */
  bool accepted;           /* its vtable was accepted, even if it did not start */
  compute_backend_entry_function built_in; /* entry point of a built-in module, or NULL */
  void *library;                           /* from dlopen; NULL when not loaded */
  compute_backend_entry_function entry;    /* the library's entry point; NULL before loading */
  void *instance;                          /* from backend.open; valid while `opened` */
  bool opened;
  bool busy;    /* a device's work did not end: the module can be neither closed nor unloaded */
  bool waiting; /* accepted, but started only when its devices are needed */
};

/* Finds the candidates in all folders and stores them in context->modules. Marks candidates that
 * the options or COMPUTE_BACKENDS exclude as disabled. Loads nothing. */
compute_status module_search(compute_context *context, const compute_open_options *options);

/* For a forked child: records the modules that the parent's context had loaded, which are still
 * mapped. Loading them again would call the loader, whose locks may stay locked for ever. */
void module_inherit(const compute_context *context);

/* Loads one candidate. Starts it, unless it has `can_wait` and `may_wait` allows deferral. A module
 * that does not work is not a failure; its probe has the reason. Fails only when out of host
 * memory. */
compute_status module_load(compute_context *context, device_module *module, bool may_wait);

/* Starts a deferred module. When out of host memory, it stays deferred and can be started later. */
compute_status module_start_waiting(compute_context *context, device_module *module);

/* `true` if the backend may open libraries that obey the environment (see compute_services). Always
 * false in a program that cannot load libraries. */
bool module_trusts_environment(const compute_context *context, const char *backend);

/* Closes the module's instance if it is open. */
void module_stop(device_module *module);

/* Closes the module's instance and its library if they are open. The probe stays readable. */
void module_unload(device_module *module);

/* Unloads the module and frees its strings. */
void module_release(device_module *module);

/* Replaces the probe's state and texts. Texts may be NULL, which means empty. */
compute_status module_probe_set(compute_context *context, device_module *module,
                                compute_probe_state state, const char *detail, const char *remedy);

/* Finds a file in the module folders, in this order: the options, COMPUTE_BACKEND_PATH, the folder
 * beside the library, the installation. Writes the first path that exists. */
bool module_find_file(const compute_context *context, const char *file, char *path,
                      size_t path_bytes);

/* ---- Names ----------------------------------------------------------------------------------- */

/* Size of the longest backend name with its terminating zero. Leaves room for ":4294967295" in
 * compute_device_info.name. */
#define NAMES_BACKEND_BYTES 21

/* A valid name has lower-case letters, digits and '_', at least one, and fits
 * NAMES_BACKEND_BYTES. */
bool names_backend_is_valid(const char *name);

/* `true` if every entry of a list such as "cpu,cuda" is a valid name. Ignores empty entries. */
bool names_list_is_valid(const char *list);

/* `true` if the list has the name. A list that is NULL or empty has all names. */
bool names_list_contains(const char *list, const char *name);

/* Splits "cuda:1" into backend and index. Without ":1", *index is −1. Returns false for an invalid
 * device name. */
bool names_device_parse(const char *text, char backend[NAMES_BACKEND_BYTES], int64_t *index);

/* Loads every candidate module and opens all of its devices, best first. A module or device that
 * does not open is not a failure; its probe has the reason. Modules with `can_wait` are deferred.
 * Fails when out of memory. */
compute_status registry_open_modules(compute_context *context);

/* Opens all deferred modules. After success, the list of devices never changes, and the calling
 * thread's error is unchanged. Fails when out of memory; then some modules are still deferred, and
 * the next call retries. Thread-safe. */
compute_status registry_complete(compute_context *context);

/* registry_complete for callers that cannot fail: the list may then lack devices. The calling
 * thread's error is unchanged. */
void registry_complete_quietly(compute_context *context);

/* The priority of the best open device that runs kernels; INT32_MIN if there is none. */
int32_t registry_best_priority(const compute_context *context);

/* Chooses context->cpu and the default device. If `name` is NULL or empty, COMPUTE_DEVICE decides,
 * or otherwise the rank. Ranking may start deferred modules, so registry_default_device does it
 * later. Returns COMPUTE_ERROR_NO_DEVICE if the device does not exist. */
compute_status registry_choose_default(compute_context *context, const char *name);

/* Returns the default device. The first call may have to find it: it starts deferred modules that
 * may have a better device than the open ones. When out of host memory, returns the best open
 * device. The calling thread's error is unchanged. Thread-safe. */
compute_device *registry_default_device(compute_context *context);

/* Closes all devices. */
void registry_release(compute_context *context);

/* Opens one device with its pool, kernel cache and internal queue. On failure, sets the error. */
compute_status device_create(compute_context *context, const device_module *module, uint32_t index,
                             compute_device **device);

/* Returns false if the device's work still runs. Then its module must stay open. */
bool device_destroy(compute_device *device);

/* Creates a queue that does not count as a live object. */
compute_status queue_create_internal(compute_device *device, compute_queue **queue);
void queue_destroy_internal(compute_queue *queue);

#endif
