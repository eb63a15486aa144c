/* One backend module: where its file was found, what became of it, and its vtable once loaded. */
#ifndef DEVICE_MODULE_H
#define DEVICE_MODULE_H

#include "device/device.h"

struct device_module {
  compute_probe probe;     /* its strings are owned: name and path always, the others or "" */
  compute_backend backend; /* a complete copy: slots that the module lacks are NULL */
  bool asked;              /* named by the options, not only by the environment */
  bool accepted;           /* its vtable was found good, whatever its start said */
  void *library;           /* of dlopen; NULL when not loaded */
  void *instance;          /* of backend.open; valid while `opened` */
  bool opened;
  bool busy;    /* work of a device did not end: it can neither be closed nor unloaded */
  bool waiting; /* accepted, but to be started only when its devices are asked for */
};

/* Finds the candidates in all folders and stores them in context->modules; those that the
 * options or COMPUTE_BACKENDS exclude are marked as disabled. Nothing is loaded. */
compute_status module_search(compute_context *context, const compute_open_options *options);

/* Loads one candidate and starts it, unless it can wait and `may_wait` allows it. A module that
 * does not work is no failure: its probe says why. Fails only when host memory is short. */
compute_status module_load(compute_context *context, device_module *module, bool may_wait);

/* Starts a module that was left waiting. When host memory is short it stays so, and may be started
 * again. */
compute_status module_start_waiting(compute_context *context, device_module *module);

/* Whether the backend may open libraries that obey the environment: see compute_services. */
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

#endif
