/* SPDX-License-Identifier: MIT */
/* The list of devices of a context, best first, and lookup by name. */
#include "core/device/registry.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/log.h"
#include "core/base/variable.h"

/* Inserts a device after all devices of equal or higher rank, so that equals keep their order of
 * discovery. */
static void device_insert(compute_context *context, compute_device *device) {
  size_t position = context->device_count;
  while (position > 0 && context->devices[position - 1]->info.priority < device->info.priority) {
    context->devices[position] = context->devices[position - 1];
    position--;
  }
  context->devices[position] = device;
  context->device_count++;
}

static compute_status devices_reserve(compute_context *context, uint32_t more) {
  compute_device **devices = base_allocate(context->device_count + more, sizeof *context->devices);
  if (!devices) {
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_open",
                     "out of memory for %u devices", more);
  }
  if (context->device_count > 0) {
    memcpy(devices, context->devices, context->device_count * sizeof *devices);
  }
  base_release(context->devices);
  context->devices = devices;
  return COMPUTE_OK;
}

/* Records in the probe why a device of a loaded module is missing. */
static compute_status device_refused(compute_context *context, device_module *module,
                                     uint32_t index, compute_status status) {
  compute_error error;
  compute_error_get(NULL, &error);
  const char *words = error.message[0] ? error.message : compute_status_text(status);
  char detail[640];
  snprintf(detail, sizeof detail, "cannot open %s:%u: %s", module->probe.name, index, words);
  log_write(COMPUTE_LOG_WARNING, "core", "%s", detail);
  compute_probe_state state =
      module->probe.device_count > 0 ? COMPUTE_PROBE_LOADED : COMPUTE_PROBE_FAILED;
  return module_probe_set(context, module, state, detail, error.remedy);
}

static compute_status add_module(compute_context *context, device_module *module) {
  FLOAT_ENVIRONMENT_DEFAULT;
  uint32_t count = module->backend.device_count(module->instance);
  compute_status status = devices_reserve(context, count);
  for (uint32_t index = 0; status == COMPUTE_OK && index < count; index++) {
    compute_device *device;
    compute_error_clear(NULL);
    compute_status opened = device_create(context, module, index, &device);
    if (opened == COMPUTE_OK) {
      device_insert(context, device);
      module->probe.device_count++;
      module->probe.state = COMPUTE_PROBE_LOADED;
    } else if (opened == COMPUTE_ERROR_OUT_OF_MEMORY ||
               opened == COMPUTE_ERROR_INVALID_ARGUMENT) { /* a variable requests the impossible */
      status = opened;
    } else {
      status = device_refused(context, module, index, opened);
    }
  }
  return status;
}

compute_status registry_open_modules(compute_context *context) {
  compute_status status = COMPUTE_OK;
  bool waiting = false;
  for (size_t i = 0; status == COMPUTE_OK && i < context->module_count; i++) {
    device_module *module = &context->modules[i];
    status = module_load(context, module, true);
    if (status == COMPUTE_OK && module->opened) status = add_module(context, module);
    waiting |= module->waiting;
  }
  atomic_store_explicit(&context->modules_waiting, waiting, memory_order_release);
  return status;
}

/* Removes a module's devices from the list and defers the module, after memory ran out between two
 * of its devices. Nobody has seen these devices yet. */
static void module_withdraw(compute_context *context, device_module *module) {
  size_t kept = 0;
  for (size_t i = 0; i < context->device_count; i++) {
    compute_device *device = context->devices[i];
    if (device->backend != &module->backend)
      context->devices[kept++] = device;
    else if (!device_destroy(device))
      module->busy = true;
  }
  context->device_count = kept;
  module->probe.device_count = 0;
  if (module->busy) return;
  module_stop(module);
  module->waiting = true;
}

static compute_status start_waiting(compute_context *context, device_module *module) {
  compute_status status = module_start_waiting(context, module);
  if (status != COMPUTE_OK || !module->opened) return status;
  status = add_module(context, module);
  if (status != COMPUTE_OK) module_withdraw(context, module);
  return status;
}

/* Selects the deferred modules to start; `user` is the filter's argument. */
typedef bool (*waiting_filter)(compute_context *context, const device_module *module,
                               const void *user);

static bool every_module(compute_context *context, const device_module *module, const void *user) {
  (void)context;
  (void)module;
  (void)user;
  return true;
}

static bool module_is_called(compute_context *context, const device_module *module,
                             const void *user) {
  (void)context;
  return !strcmp(module->probe.name, user);
}

/* `true` if the module may have a device that ranks above all open ones. */
static bool may_be_best(compute_context *context, const device_module *module, const void *user) {
  (void)user;
  return !module->backend.can_wait(&context->services);
}

/* Fails when out of memory; the module is then still deferred. The caller holds registry_mutex. */
static compute_status open_waiting(compute_context *context, waiting_filter filter,
                                   const void *user) {
  compute_status status = COMPUTE_OK;
  bool waiting = false;
  compute_error before;
  compute_error_get(NULL, &before);
  for (size_t i = 0; i < context->module_count; i++) {
    device_module *module = &context->modules[i];
    if (module->waiting && status == COMPUTE_OK && filter(context, module, user))
      status = start_waiting(context, module);
    waiting |= module->waiting;
  }
  atomic_store_explicit(&context->modules_waiting, waiting, memory_order_release);
  if (status == COMPUTE_OK) error_restore(NULL, &before);
  return status;
}

static compute_status open_waiting_locked(compute_context *context, waiting_filter filter,
                                          const void *user) {
  if (!atomic_load_explicit(&context->modules_waiting, memory_order_acquire)) return COMPUTE_OK;
  pthread_mutex_lock(&context->registry_mutex);
  const compute_status status = open_waiting(context, filter, user);
  pthread_mutex_unlock(&context->registry_mutex);
  return status;
}

compute_status registry_complete(compute_context *context) {
  return open_waiting_locked(context, every_module, NULL);
}

void registry_complete_quietly(compute_context *context) {
  compute_error before;
  compute_error_get(NULL, &before);
  compute_status status = registry_complete(context);
  if (status == COMPUTE_OK) return;
  log_write(COMPUTE_LOG_ERROR, "core", "not all modules could be started: %s",
            compute_status_text(status));
  error_restore(NULL, &before);
}

void registry_release(compute_context *context) {
  for (size_t i = 0; i < context->device_count; i++) {
    const compute_backend *backend = context->devices[i]->backend;
    if (device_destroy(context->devices[i])) continue;
    for (size_t m = 0; m < context->module_count; m++)
      if (&context->modules[m].backend == backend) context->modules[m].busy = true;
  }
  base_release(context->devices);
  context->devices = NULL;
  context->device_count = 0;
}

/* ---- Lookup -------------------------------------------------------------------------------- */

compute_device *compute_device_at(const compute_context *context, size_t index) {
  if (context_is_inherited(context)) return NULL;
  if (!context) return NULL;
  compute_context *list = (compute_context *)context; /* the list has a lock */
  registry_complete_quietly(list);
  pthread_mutex_lock(&list->registry_mutex);
  compute_device *device = index < list->device_count ? list->devices[index] : NULL;
  pthread_mutex_unlock(&list->registry_mutex);
  return device;
}

static compute_device *device_find(const compute_context *context, const char *name) {
  char backend[NAMES_BACKEND_BYTES];
  int64_t index;
  if (!names_device_parse(name, backend, &index)) return NULL;
  compute_device *found = NULL;
  for (size_t i = 0; i < context->device_count; i++) {
    compute_device *device = context->devices[i];
    if (strcmp(device->info.backend, backend) != 0) continue;
    if (index >= 0 && device->info.index != index) continue;
    if (!found || device->info.index < found->info.index) found = device;
  }
  return found;
}

/* A list as text, truncated to the size of an error message. It is not on the heap: the failure may
 * be out of memory, which must not look like an empty list. */
typedef struct words {
  char text[sizeof((compute_error *)NULL)->message];
  size_t length;
} words;

COMPUTE_PRINTF(2, 3) static void words_add(words *list, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  size_t room = sizeof list->text - list->length;
  int length = vsnprintf(list->text + list->length, room, format, arguments);
  if (length > 0) list->length += (size_t)length < room ? (size_t)length : room - 1;
  va_end(arguments);
}

/* "cpu, null:0" */
static void devices_list(const compute_context *context, words *list) {
  if (context->device_count == 0) words_add(list, "none");
  for (size_t i = 0; i < context->device_count; i++) {
    words_add(list, "%s%s", i ? ", " : "", context->devices[i]->info.name);
  }
}

/* The probe of the named backend if it has no devices, or NULL if it was no candidate. */
static const compute_probe *refusal_find(const compute_context *context, const char *name) {
  char backend[NAMES_BACKEND_BYTES];
  int64_t index;
  if (!names_device_parse(name, backend, &index)) return NULL;
  const compute_probe *refusal = NULL;
  for (size_t i = 0; i < context->module_count; i++) {
    const compute_probe *probe = &context->modules[i].probe;
    if (strcmp(probe->name, backend) != 0) continue;
    if (probe->state == COMPUTE_PROBE_LOADED) return NULL;
    if (!refusal) refusal = probe;
  }
  return refusal;
}

static compute_status no_such_device(const compute_context *context, const char *name,
                                     const char *operation) {
  words rest = {.length = 0};
  devices_list(context, &rest);
  const compute_probe *refusal = refusal_find(context, name);
  if (refusal) {
    words_add(&rest, "; module %s: %s%s%s", refusal->name, compute_probe_state_text(refusal->state),
              *refusal->detail ? ": " : "", refusal->detail);
  }
  if (!refusal && context->search_problem[0]) words_add(&rest, "; %s", context->search_problem);
  return error_set_native(context, COMPUTE_ERROR_NO_DEVICE, 0, operation,
                          refusal ? refusal->remedy : NULL, "no device '%.40s'; there %s %s", name,
                          context->device_count == 1 ? "is" : "are", rest.text);
}

/* Finds the device `name`; *device is NULL if there is none. Looks first among the open devices,
 * which need not wait for drivers. Then starts the module of that name if it is deferred. */
static compute_status device_look_up(compute_context *context, const char *name,
                                     compute_device **device) {
  char backend[NAMES_BACKEND_BYTES];
  int64_t index;
  pthread_mutex_lock(&context->registry_mutex);
  *device = device_find(context, name);
  pthread_mutex_unlock(&context->registry_mutex);
  if (*device || !names_device_parse(name, backend, &index)) return COMPUTE_OK;
  const compute_status status = open_waiting_locked(context, module_is_called, backend);
  if (status != COMPUTE_OK) return status;
  pthread_mutex_lock(&context->registry_mutex);
  *device = device_find(context, name);
  pthread_mutex_unlock(&context->registry_mutex);
  return COMPUTE_OK;
}

/* The error message lists all devices, so this completes the registry first. */
static compute_status look_up_or_fail(compute_context *context, const char *name,
                                      const char *operation, compute_device **device) {
  compute_status status = device_look_up(context, name, device);
  if (status != COMPUTE_OK || *device) return status;
  status = registry_complete(context);
  return status ? status : no_such_device(context, name, operation);
}

compute_status compute_device_by_name(compute_context *context, const char *name,
                                      compute_device **device) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_device_by_name";
  const compute_status missing = error_if_null(context, operation, context, name, device);
  return missing ? missing : look_up_or_fail(context, name, operation, device);
}

/* ---- Default ------------------------------------------------------------------------------- */

static bool runs_kernels(const compute_device *device) {
  return (device->info.capabilities & COMPUTE_CAPABILITY_COMPUTE) != 0;
}

static compute_status no_device_at_all(const compute_context *context) {
  words list = {.length = 0};
  if (context->module_count == 0) words_add(&list, "none found");
  if (context->search_problem[0])
    words_add(&list, "%s%s", list.length ? "; " : "", context->search_problem);
  for (size_t i = 0; i < context->module_count; i++) {
    const compute_probe *probe = &context->modules[i].probe;
    words_add(&list, "%s%s %s%s%s", list.length ? "; " : "", probe->name,
              compute_probe_state_text(probe->state), *probe->detail ? ": " : "", probe->detail);
  }
  return error_set_native(
      context, COMPUTE_ERROR_NO_DEVICE, 0, "compute_open",
      "check the installation, or set COMPUTE_BACKEND_PATH to the folder with the modules",
      "no device that can compute; modules: %s", list.text);
}

/* The list is sorted, best first. */
static compute_device *best_device(const compute_context *context) {
  for (size_t i = 0; i < context->device_count; i++)
    if (runs_kernels(context->devices[i])) return context->devices[i];
  return NULL;
}

int32_t registry_best_priority(const compute_context *context) {
  const compute_device *best = best_device(context);
  return best ? best->info.priority : INT32_MIN;
}

/* Chooses the fallback device only among host devices. OpenCL may also have devices of type CPU,
 * but they do not support every kernel and have separate memory. */
compute_status registry_choose_default(compute_context *context, const char *name) {
  for (size_t i = 0; i < context->device_count && !context->cpu; i++) {
    compute_device *device = context->devices[i];
    const bool host = (device->info.capabilities & COMPUTE_CAPABILITY_HOST) != 0;
    if (host && runs_kernels(device)) context->cpu = device;
  }
  if (!name || !*name) name = variable_text("COMPUTE_DEVICE");
  if (name && !strcmp(name, "auto")) {
    context->automatic = true;
    name = NULL;
  }
  compute_device *device = NULL;
  compute_status status;
  if (name) {
    status = look_up_or_fail(context, name, "compute_open", &device);
  } else {
    if (context->cpu && atomic_load_explicit(&context->modules_waiting, memory_order_relaxed))
      return COMPUTE_OK;
    status = registry_complete(context);
    if (status == COMPUTE_OK && !(device = best_device(context))) return no_device_at_all(context);
  }
  atomic_store_explicit(&context->default_device, device, memory_order_release);
  return status;
}

compute_device *registry_default_device(compute_context *context) {
  compute_device *device = atomic_load_explicit(&context->default_device, memory_order_acquire);
  if (device) return device;
  compute_error before;
  compute_error_get(NULL, &before);
  pthread_mutex_lock(&context->registry_mutex);
  device = atomic_load_explicit(&context->default_device, memory_order_relaxed);
  if (!device) {
    const compute_status status = open_waiting(context, may_be_best, NULL);
    device = best_device(context);
    if (status != COMPUTE_ERROR_OUT_OF_MEMORY)
      atomic_store_explicit(&context->default_device, device, memory_order_release);
    if (status != COMPUTE_OK)
      log_write(COMPUTE_LOG_ERROR, "core", "not all modules could be started: %s",
                compute_status_text(status));
  }
  pthread_mutex_unlock(&context->registry_mutex);
  error_restore(NULL, &before);
  return device;
}
