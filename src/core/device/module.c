/* SPDX-License-Identifier: MIT */
/* Loads one backend module: file, loader, entry point, vtable, start. A failure at any stage
 * becomes the probe's state, with its message. */
#include "core/device/registry.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/process.h"
#include "core/base/variable.h"
#include "core/platform/library.h"
#include "core/platform/names.h"
#include "core/platform/privilege.h"
#include "core/device/driver_call.h"

#define DEVICES_MAX 4096 /* more than any machine has: a larger count is a bug in the module */

/* ---- Probe --------------------------------------------------------------------------------- */

static const char *const state_text[] = {
    [COMPUTE_PROBE_LOADED] = "loaded",
    [COMPUTE_PROBE_NO_DEVICE] = "no device",
    [COMPUTE_PROBE_MISSING_LIBRARY] = "missing library",
    [COMPUTE_PROBE_WRONG_ABI] = "wrong ABI",
    [COMPUTE_PROBE_NOT_A_MODULE] = "not a module",
    [COMPUTE_PROBE_DISABLED] = "disabled",
    [COMPUTE_PROBE_FAILED] = "failed",
    [COMPUTE_PROBE_DUPLICATE] = "duplicate",
};

const char *compute_probe_state_text(compute_probe_state state) {
  size_t index = (size_t)state;
  return index < sizeof state_text / sizeof *state_text ? state_text[index] : "unknown state";
}

static compute_status out_of_memory(compute_context *context) {
  return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_open",
                   "out of memory while loading backend modules");
}

/* The empty string is shared; every other string is owned. */
static void words_release(const char *words) {
  if (words && *words) base_release((char *)(uintptr_t)words);
}

static compute_status words_set(compute_context *context, const char **field, const char *words) {
  const char *copy = words && *words ? base_duplicate(words) : "";
  if (!copy) return out_of_memory(context);
  words_release(*field);
  *field = copy;
  return COMPUTE_OK;
}

compute_status module_probe_set(compute_context *context, device_module *module,
                                compute_probe_state state, const char *detail, const char *remedy) {
  module->probe.state = state;
  compute_status status = words_set(context, &module->probe.detail, detail);
  if (status == COMPUTE_OK) status = words_set(context, &module->probe.remedy, remedy);
  log_write(COMPUTE_LOG_INFO, "core", "module %s (%s): %s%s%s", module->probe.name,
            module->probe.path, compute_probe_state_text(state), *module->probe.detail ? ": " : "",
            module->probe.detail);
  return status;
}

/* ---- File and loader ----------------------------------------------------------------------- */

/* The loader's message starts with the file that could not be opened. A bare soname is a missing
 * dependency. A path is the module, or an incompatible library. */
static compute_status loader_refused(compute_context *context, device_module *module,
                                     const char *words) {
  size_t first = strcspn(words, ":");
  if (words[first] == '\0' || memchr(words, '/', first)) {
    return module_probe_set(context, module, COMPUTE_PROBE_FAILED, words, NULL);
  }
  char remedy[200];
  snprintf(remedy, sizeof remedy, "install the package that has %.*s", (int)(first % 100), words);
  return module_probe_set(context, module, COMPUTE_PROBE_MISSING_LIBRARY, words, remedy);
}

/* The modules that a parent process had loaded. */
static struct {
  const char *path; /* memory of the parent's context, which never closes here */
  compute_backend_entry_function entry;
} inherited[16];
static size_t inherited_count;

static compute_backend_entry_function find_inherited(const char *path) {
  for (size_t i = 0; i < inherited_count; i++)
    if (!strcmp(inherited[i].path, path)) return inherited[i].entry;
  return NULL;
}

void module_inherit(const compute_context *context) {
  for (size_t i = 0; i < context->module_count; i++) {
    const device_module *module = &context->modules[i];
    if (!module->library || !module->entry || find_inherited(module->probe.path) ||
        inherited_count == sizeof inherited / sizeof *inherited)
      continue;
    inherited[inherited_count].path = module->probe.path;
    inherited[inherited_count++].entry = module->entry;
  }
}

/* Opens the library and finds its entry point. *entry stays NULL if the module is refused. */
static compute_status library_open(compute_context *context, device_module *module,
                                   compute_backend_entry_function *entry) {
  char reason[256];
  int problem;
  *entry = NULL;
  if (!library_loader_works()) {
    return module_probe_set(context, module, COMPUTE_PROBE_FAILED,
                            "the program is linked statically and cannot load modules",
                            "link the C library dynamically");
  }
  *entry = find_inherited(module->probe.path);
  if (*entry) return COMPUTE_OK;
  if (!library_file_check(module->probe.path, reason, sizeof reason, &problem)) {
    if (problem == ENOMEM) return out_of_memory(context);
    return module_probe_set(context, module, COMPUTE_PROBE_NOT_A_MODULE, reason, NULL);
  }
  errno = 0;
  process_load_begin();
  module->library = dlopen(module->probe.path, RTLD_NOW | RTLD_LOCAL);
  problem = errno; /* the loader's message does not always mention memory */
  void *symbol = module->library ? dlsym(module->library, COMPUTE_BACKEND_ENTRY) : NULL;
  process_load_end();
  if (!module->library) {
    const char *words = dlerror();
    if (problem == ENOMEM) return out_of_memory(context);
    return loader_refused(context, module, words ? words : "the loader gives no reason");
  }
  if (!symbol) {
    return module_probe_set(context, module, COMPUTE_PROBE_NOT_A_MODULE,
                            "a shared library without the symbol " COMPUTE_BACKEND_ENTRY, NULL);
  }
  memcpy(entry, &symbol, sizeof symbol); /* ISO C cannot cast object to function pointers */
  module->entry = *entry;
  return COMPUTE_OK;
}

/* ---- Vtable -------------------------------------------------------------------------------- */

typedef struct vtable_slot {
  const char *name;
  size_t offset;
} vtable_slot;

#define SLOT(member)                                                                               \
  { #member, offsetof(compute_backend, member) }

static const vtable_slot required_slots[] = {
    SLOT(open),
    SLOT(close),
    SLOT(device_count),
    SLOT(device_open),
    SLOT(device_close),
    SLOT(device_describe),
    SLOT(memory_allocate),
    SLOT(memory_release),
    SLOT(queue_create),
    SLOT(queue_destroy),
    SLOT(queue_wait),
    SLOT(upload),
    SLOT(download),
    SLOT(copy),
    SLOT(supports),
    SLOT(kernel_prepare),
    SLOT(kernel_destroy),
    SLOT(enqueue),
};

static const vtable_slot event_slots[] = {
    SLOT(event_record), SLOT(event_destroy),    SLOT(event_wait),
    SLOT(event_query),  SLOT(queue_wait_event),
};

static bool slot_is_empty(const compute_backend *backend, const vtable_slot *which) {
  static const unsigned char empty[sizeof(void (*)(void))];
  return memcmp((const unsigned char *)backend + which->offset, empty, sizeof empty) == 0;
}

/* Copies the part of the module's vtable that both sides have, in whole slots. */
static void vtable_copy(compute_backend *copy, const compute_backend *original) {
  size_t bytes = original->struct_size < sizeof *copy ? original->struct_size : sizeof *copy;
  *copy = (compute_backend){0};
  memcpy(copy, original, bytes - bytes % sizeof(void *));
}

/* Events need all of their functions. A module with only some of them gets the core's fallback. */
static void events_check(device_module *module) {
  size_t count = sizeof event_slots / sizeof *event_slots, missing = 0;
  for (size_t i = 0; i < count; i++) {
    missing += slot_is_empty(&module->backend, &event_slots[i]) ? 1 : 0;
  }
  if (missing == 0) return;
  if (missing < count) {
    log_write(COMPUTE_LOG_WARNING, "core",
              "module %s has only some of the event functions; ignoring them", module->probe.name);
  }
  module->backend.event_record = NULL;
  module->backend.event_destroy = NULL;
  module->backend.event_wait = NULL;
  module->backend.event_query = NULL;
  module->backend.queue_wait_event = NULL;
}

/* Checks a copied vtable of the right version. Accepts the module, or sets its probe to the
 * reason. */
static compute_status vtable_judge(compute_context *context, device_module *module) {
  compute_backend *backend = &module->backend;
  char words[512] = "";
  if (!backend->name || !names_backend_is_valid(backend->name)) {
    snprintf(words, sizeof words,
             "the name in its vtable must consist of lower-case letters, digits and '_'");
  } else if (strcmp(backend->name, module->probe.name) != 0) {
    snprintf(words, sizeof words,
             "its name is '%s', so its file must be libcompute-%s" PLATFORM_MODULE_SUFFIX,
             backend->name, backend->name);
  } else {
    size_t length = 0;
    for (size_t i = 0; i < sizeof required_slots / sizeof *required_slots; i++) {
      if (!slot_is_empty(backend, &required_slots[i])) continue;
      length += (size_t)snprintf(words + length, sizeof words - length, "%s%s",
                                 length ? ", " : "its vtable is missing ", required_slots[i].name);
    }
  }
  if (*words) {
    return module_probe_set(context, module, COMPUTE_PROBE_NOT_A_MODULE, words, NULL);
  }
  if (!backend->description) backend->description = "";
  if (!backend->version) backend->version = "";
  events_check(module);
  module->accepted = true;
  return words_set(context, &module->probe.version, backend->version);
}

static compute_status vtable_take(compute_context *context, device_module *module,
                                  const compute_backend *original) {
  char words[160];
  if (!original) {
    snprintf(words, sizeof words, "it does not support a core of ABI %d.%d",
             COMPUTE_BACKEND_ABI_MAJOR, COMPUTE_BACKEND_ABI_MINOR);
  } else if (original->abi_major != COMPUTE_BACKEND_ABI_MAJOR) {
    snprintf(words, sizeof words, "it was built for ABI %u.%u; this libcompute has %d.%d",
             original->abi_major, original->abi_minor, COMPUTE_BACKEND_ABI_MAJOR,
             COMPUTE_BACKEND_ABI_MINOR);
  } else {
    vtable_copy(&module->backend, original);
    return vtable_judge(context, module);
  }
  return module_probe_set(context, module, COMPUTE_PROBE_WRONG_ABI, words,
                          "build the module against this version's headers");
}

/* ---- Environment --------------------------------------------------------------------------- */

bool module_trusts_environment(const compute_context *context, const char *backend) {
  if (!library_loader_works()) return false;
  if (!privilege_raised()) return true;
  for (size_t i = 0; i < context->module_count; i++) {
    const device_module *module = &context->modules[i];
    if (module->asked && strcmp(module->probe.name, backend) == 0) return true;
  }
  return false;
}

/* Most modules open driver loaders, which open files named by environment variables. The user who
 * starts a privileged program would choose files that run with its privileges. */
static compute_status environment_judge(compute_context *context, device_module *module) {
  if ((module->backend.flags & COMPUTE_BACKEND_ENVIRONMENT_SAFE) ||
      module_trusts_environment(context, module->probe.name)) {
    return COMPUTE_OK;
  }
  module->accepted = false;
  return module_probe_set(context, module, COMPUTE_PROBE_DISABLED,
                          "not opened: the program runs with raised privileges, and this module "
                          "reads the caller's environment",
                          "clear the environment, then name the module in options.backends "
                          "(docs/security.md)");
}

/* ---- Start --------------------------------------------------------------------------------- */

static compute_probe_state start_state(compute_status status) {
  switch (status) {
  case COMPUTE_ERROR_MISSING_LIBRARY: return COMPUTE_PROBE_MISSING_LIBRARY;
  case COMPUTE_ERROR_NO_DEVICE: return COMPUTE_PROBE_NO_DEVICE;
  case COMPUTE_ERROR_BACKEND_ABI: return COMPUTE_PROBE_WRONG_ABI;
  case COMPUTE_ERROR_DISABLED: return COMPUTE_PROBE_DISABLED;
  default: return COMPUTE_PROBE_FAILED;
  }
}

static compute_status module_start(compute_context *context, device_module *module) {
  const bool own = (module->backend.flags & COMPUTE_BACKEND_ENVIRONMENT_SAFE) != 0;
  DRIVER_CALL(&module->backend);
  if (!own && driver_is_inherited(module->probe.name))
    return module_probe_set(
        context, module, COMPUTE_PROBE_FAILED,
        "the parent process has started this driver, which does not survive fork",
        "use the driver in one process only, or start the child with exec");
  if (!own) driver_started(module->probe.name);
  compute_error_clear(NULL); /* a message found afterwards then comes from the module */
  process_load_begin();
  compute_status status = module->backend.open(&context->services, &module->instance);
  process_load_end();
  module->opened = status == COMPUTE_OK;
  if (status == COMPUTE_ERROR_OUT_OF_MEMORY) {
    return error_set_native(context, status, 0, "compute_open",
                            "exclude the module with COMPUTE_BACKENDS or options.backends",
                            "out of memory while starting module %s", module->probe.name);
  }
  if (status != COMPUTE_OK) {
    compute_error error;
    compute_error_get(NULL, &error);
    const char *words = error.status != COMPUTE_OK && error.message[0]
                            ? error.message
                            : compute_status_text(status);
    return module_probe_set(context, module, start_state(status), words, error.remedy);
  }
  uint32_t devices = module->backend.device_count(module->instance);
  if (devices == 0) {
    return module_probe_set(context, module, COMPUTE_PROBE_NO_DEVICE, "it found no device", NULL);
  }
  if (devices > DEVICES_MAX) {
    char words[64];
    snprintf(words, sizeof words, "it claims to have %u devices", devices);
    return module_probe_set(context, module, COMPUTE_PROBE_FAILED, words, NULL);
  }
  return module_probe_set(context, module, COMPUTE_PROBE_LOADED, NULL, NULL);
}

/* The earlier module that provides this backend, or NULL. */
static const device_module *provider_find(const compute_context *context,
                                          const device_module *module) {
  for (const device_module *other = context->modules; other < module; other++) {
    if (other->accepted && strcmp(other->probe.name, module->probe.name) == 0) return other;
  }
  return NULL;
}

void module_stop(device_module *module) {
  if (module->opened) module->backend.close(module->instance);
  module->opened = false;
  module->instance = NULL;
}

static compute_status start_or_unload(compute_context *context, device_module *module) {
  compute_status status = module_start(context, module);
  if (status != COMPUTE_OK || module->probe.state != COMPUTE_PROBE_LOADED) module_unload(module);
  return status;
}

compute_status module_start_waiting(compute_context *context, device_module *module) {
  compute_status status = module_start(context, module);
  module->waiting = status != COMPUTE_OK;
  if (module->waiting)
    module_stop(module);
  else if (module->probe.state != COMPUTE_PROBE_LOADED)
    module_unload(module);
  return status;
}

compute_status module_load(compute_context *context, device_module *module, bool may_wait) {
  if (module->probe.state == COMPUTE_PROBE_DISABLED) return COMPUTE_OK;
  const device_module *provider = provider_find(context, module);
  if (provider) {
    char words[512];
    snprintf(words, sizeof words, "provided by %.480s", provider->probe.path);
    return module_probe_set(context, module, COMPUTE_PROBE_DUPLICATE, words, NULL);
  }
  compute_backend_entry_function entry = module->built_in;
  compute_status status = entry ? COMPUTE_OK : library_open(context, module, &entry);
  if (status == COMPUTE_OK && entry) {
    status =
        vtable_take(context, module, entry(COMPUTE_BACKEND_ABI_MAJOR, COMPUTE_BACKEND_ABI_MINOR));
  }
  if (status == COMPUTE_OK && module->accepted) status = environment_judge(context, module);
  if (status != COMPUTE_OK || !module->accepted) {
    module_unload(module);
    return status;
  }
  module->waiting = may_wait && module->backend.can_wait;
  return module->waiting ? COMPUTE_OK : start_or_unload(context, module);
}

void module_unload(device_module *module) {
  if (module->busy) return;
  module_stop(module);
  if (module->library) {
    process_load_begin();
    dlclose(module->library);
    process_load_end();
  }
  module->library = NULL;
  module->entry = NULL;
}

void module_release(device_module *module) {
  module_unload(module);
  words_release(module->probe.name);
  words_release(module->probe.path);
  words_release(module->probe.detail);
  words_release(module->probe.remedy);
  words_release(module->probe.version);
}
