/* SPDX-License-Identifier: MIT */
/* Backend modules, and the devices of a context: opened, named, ranked. */
#ifndef DEVICE_REGISTRY_H
#define DEVICE_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"

/* ---- Modules --------------------------------------------------------------------------------- */

/* One backend module: where its file was found, what became of it, and its vtable once loaded. */

struct device_module {
  compute_probe probe;     /* its strings are owned: name and path always, the others or "" */
  compute_backend backend; /* a complete copy: slots that the module lacks are NULL */
  bool asked;              /* named by the options, not only by the environment */
  bool accepted;           /* its vtable was found good, whatever its start said */
  compute_backend_entry_function built_in; /* of a module that is part of the library, or NULL */
  void *library;                           /* of dlopen; NULL when not loaded */
  void *instance;                          /* of backend.open; valid while `opened` */
  bool opened;
  bool busy;    /* work of a device did not end: it can neither be closed nor unloaded */
  bool waiting; /* accepted, but to be started only when its devices are asked for */
};

/* Finds the candidates in all folders and stores them in context->modules; those that the
 * options or COMPUTE_BACKENDS exclude are marked as disabled. Nothing is loaded. */
compute_status module_search(compute_context *context, const compute_open_options *options);

/* Loads one candidate and starts it, unless it can wait and `may_wait` allows it. A module that
 * does not work is not a failure: its probe says why. Fails only when host memory is short. */
compute_status module_load(compute_context *context, device_module *module, bool may_wait);

/* Starts a module that was left waiting. When host memory is short it stays so, and may be started
 * again. */
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

/* Replaces the probe's state and words; empty words may be NULL. */
compute_status module_probe_set(compute_context *context, device_module *module,
                                compute_probe_state state, const char *detail, const char *remedy);

/* Whether the file looks like a complete shared library of this kind of machine, so that the
 * loader may be trusted with it: it crashes on a file that is cut off. If not, `reason` says
 * why, and *problem is the errno of the call that failed, or 0. A sound file of another machine
 * passes: the loader has good words for those itself. */
bool module_file_check(const char *path, char *reason, size_t reason_bytes, int *problem);

/* Whether the program can load libraries: one that is linked statically has no loader. */
bool module_loader_works(void);

/* ---- Names ----------------------------------------------------------------------------------- */

/* Longest backend name and its zero: leaves room for ":4294967295" in compute_device_info.name. */
#define NAMES_BACKEND_BYTES 21

/* Lower-case letters, digits and '_', at least one, short enough. */
bool names_backend_is_valid(const char *name);

/* Whether every entry of "cpu,cuda" is a valid backend name; empty entries are passed over. */
bool names_list_is_valid(const char *list);

/* Whether the list names the backend; a list that is NULL or empty names all. */
bool names_list_contains(const char *list, const char *name);

/* Splits "cuda:1" into backend and index; without ":1", *index is −1. False if it is no device
 * name. */
bool names_device_parse(const char *text, char backend[NAMES_BACKEND_BYTES], int64_t *index);

/* Loads every candidate module and opens every device of it, best first. A module or device that
 * does not open is not a failure: its probe says why. Modules that can wait are left for
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
