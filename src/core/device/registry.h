/* SPDX-License-Identifier: MIT */
/* Backend modules, and the devices of a context: opened, named, ranked. */
#ifndef DEVICE_REGISTRY_H
#define DEVICE_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/device/device.h"

/* ---- Modules --------------------------------------------------------------------------------- */

/* One backend module: its file, its state, and its vtable once loaded. */

struct device_module {
  compute_probe probe;     /* its strings are owned: name and path always, the others or "" */
  compute_backend backend; /* a complete copy: slots that the module lacks are NULL */
  bool asked;              /* named by the options, not only by the environment */
  bool accepted;           /* its vtable was accepted, whether or not it started */
  compute_backend_entry_function built_in; /* of a module that is part of the library, or NULL */
  void *library;                           /* of dlopen; NULL when not loaded */
  compute_backend_entry_function entry;    /* the library's; NULL before it is loaded */
  void *instance;                          /* of backend.open; valid while `opened` */
  bool opened;
  bool busy;    /* work of a device did not end: it can be neither closed nor unloaded */
  bool waiting; /* accepted, but started only when its devices are needed */
};

/* Finds the candidates in all folders and stores them in context->modules; those that the
 * options or COMPUTE_BACKENDS exclude are marked as disabled. Nothing is loaded. */
compute_status module_search(compute_context *context, const compute_open_options *options);

/* In a forked child: the parent's context had its modules loaded, and they are here, too. Loading
 * them again would ask a loader whose locks may be held for ever. */
void module_inherit(const compute_context *context);

/* Loads one candidate and starts it, unless it has `can_wait` and `may_wait` allows it. A module
 * that does not work is not a failure: its probe says why. Fails only when out of host memory. */
compute_status module_load(compute_context *context, device_module *module, bool may_wait);

/* Starts a deferred module. Out of host memory, it stays deferred, and may be started later. */
compute_status module_start_waiting(compute_context *context, device_module *module);

/* Whether the backend may open libraries that obey the environment: see compute_services. Never in
 * a program that cannot load any. */
bool module_trusts_environment(const compute_context *context, const char *backend);

/* Closes the module's instance, if it is open. */
void module_stop(device_module *module);

/* Closes the module's instance and its library, if they are open. The probe stays readable. */
void module_unload(device_module *module);

/* Unloads it and frees its strings. */
void module_release(device_module *module);

/* Replaces the probe's state and texts; empty texts may be NULL. */
compute_status module_probe_set(compute_context *context, device_module *module,
                                compute_probe_state state, const char *detail, const char *remedy);

/* Whether the file looks like a complete shared library of this kind of machine, so that it is safe
 * to load: the loader crashes on a truncated file. If not, `reason` says why, and *problem is the
 * errno of the call that failed, or 0. An intact file for another machine passes: the loader itself
 * has a good message for those. */
bool module_file_check(const char *path, char *reason, size_t reason_bytes, int *problem);

/* The path of a file in the first folder of modules that has it: those of the options, those of
 * COMPUTE_BACKEND_PATH, the folder beside the library, and that of the installation. */
bool module_find_file(const compute_context *context, const char *file, char *path,
                      size_t path_bytes);

/* Whether the program can load libraries: one that is linked statically has no loader. */
bool module_loader_works(void);

/* ---- Names ----------------------------------------------------------------------------------- */

/* Longest backend name, with its zero: leaves room for ":4294967295" in
 * compute_device_info.name. */
#define NAMES_BACKEND_BYTES 21

/* Lower-case letters, digits and '_', at least one, short enough. */
bool names_backend_is_valid(const char *name);

/* Whether every entry of "cpu,cuda" is a valid backend name; empty entries are ignored. */
bool names_list_is_valid(const char *list);

/* Whether the list names the backend; a list that is NULL or empty names all. */
bool names_list_contains(const char *list, const char *name);

/* Splits "cuda:1" into backend and index; without ":1", *index is −1. False for an invalid device
 * name. */
bool names_device_parse(const char *text, char backend[NAMES_BACKEND_BYTES], int64_t *index);

/* Loads every candidate module and opens every device of it, best first. A module or device that
 * does not open is not a failure: its probe says why. Modules with `can_wait` are left waiting.
 * Fails when out of memory. */
compute_status registry_open_modules(compute_context *context);

/* Opens all deferred modules. After a success the list of devices never changes, and the calling
 * thread's error is unchanged. Fails when out of memory: then some module is still deferred, and
 * the next call retries. Thread-safe. */
compute_status registry_complete(compute_context *context);

/* The same for callers that cannot fail: the list may then lack devices. The calling thread's error
 * is unchanged. */
void registry_complete_quietly(compute_context *context);

/* That of the best open device that runs kernels; INT32_MIN if there is none. */
int32_t registry_best_priority(const compute_context *context);

/* Decides on context->cpu and on the default device. `name` may be NULL or empty: then
 * COMPUTE_DEVICE decides, or the rank, which may start deferred modules and so is left to
 * registry_default_device. COMPUTE_ERROR_NO_DEVICE when there is no such device. */
compute_status registry_choose_default(compute_context *context, const char *name);

/* The default device, which the first call may have to find: it starts the deferred modules that
 * may have a better device than those that are open. Out of host memory, the best open one. The
 * calling thread's error is unchanged. Thread-safe. */
compute_device *registry_default_device(compute_context *context);

/* Closes all devices. */
void registry_release(compute_context *context);

/* Opens one device with its pool, kernel cache and internal queue. On failure the error says why.
 */
compute_status device_create(compute_context *context, const device_module *module, uint32_t index,
                             compute_device **device);

/* False if work of the device still runs: then its module must stay open. */
bool device_destroy(compute_device *device);

/* A queue that does not count as a live object. */
compute_status queue_create_internal(compute_device *device, compute_queue **queue);
void queue_destroy_internal(compute_queue *queue);

#endif
