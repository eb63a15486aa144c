/* SPDX-License-Identifier: MIT */
/* Contexts: opening and closing. A context closes only after its objects are released.
 *
 * Modules that cannot start record an error during the probe. This is not a failure of
 * compute_open, so after success it restores the thread's previous error. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/dump.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/variable.h"
#include "codegen/cache/disk_cache.h"
#include "core/device/registry.h"
#include "context/services.h"
#include "core/device/collector.h"
#include "report/profile.h"
#include "codegen/tune/tuning.h"
#include "plan/validate/validate.h"

#define THREADS_MAX 4096

static const char operation_open[] = "compute_open";

/* ---- Opening ------------------------------------------------------------------------------- */

static compute_status options_check(const compute_open_options *options) {
  if (options->threads < 0 || options->threads > THREADS_MAX) {
    return error_set(NULL, COMPUTE_ERROR_INVALID_ARGUMENT, operation_open,
                     "options.threads is %d; it must be 0 … %d", options->threads, THREADS_MAX);
  }
  if (options->backends && !names_list_is_valid(options->backends)) {
    return error_set(NULL, COMPUTE_ERROR_INVALID_ARGUMENT, operation_open,
                     "options.backends is not a list of module names separated by ',': '%.200s'",
                     options->backends);
  }
  return error_if_reserved(NULL, operation_open, "options", options->reserved);
}

/* `true` if the options override an environment variable. */
static bool is_overridden(const void *user, const char *name) {
  const compute_open_options *options = user;
  if (!strcmp(name, "COMPUTE_THREADS")) return options->threads > 0;
  if (!strcmp(name, "COMPUTE_BACKENDS")) return options->backends && *options->backends;
  return false;
}

static compute_status variable_refuse(const char *name, const char *value, const char *rule) {
  return error_set_native(
      NULL, COMPUTE_ERROR_INVALID_ARGUMENT, 0, operation_open,
      "correct or unset it; docs/reference/environment.md lists what each variable takes",
      "the environment variable %s is '%.200s': %s", name, value, rule);
}

static compute_status environment_check(const compute_open_options *options) {
  char rule[200] = "", reason[128] = "";
  const char *tuning = variable_text("COMPUTE_TUNING");
  const char *name = variables_check(is_overridden, options, rule, sizeof rule);
  if (name) return variable_refuse(name, variable_text(name), rule);
  if (tuning_text_valid(tuning, reason)) return COMPUTE_OK;
  return variable_refuse("COMPUTE_TUNING", tuning, reason);
}

/* Checks that every name in COMPUTE_BACKENDS is a module that was found, loaded or not. */
static compute_status backends_check(const compute_context *context,
                                     const compute_open_options *options) {
  const char *list = variable_text("COMPUTE_BACKENDS");
  char found[256] = "it must be some of ";
  size_t used = strlen(found);
  if (!list || is_overridden(options, "COMPUTE_BACKENDS") || !context->module_count)
    return COMPUTE_OK;
  for (size_t i = 0; i < context->module_count && used < sizeof found; i++) {
    const char *name = context->modules[i].probe.name;
    if (i > 0 && names_list_contains(found + strlen("it must be some of "), name)) continue;
    used += (size_t)snprintf(found + used, sizeof found - used, "%s%s", i ? "," : "", name);
  }
  for (const char *entry = list; *entry; entry += *entry == ',') {
    char name[NAMES_BACKEND_BYTES];
    const size_t length = strcspn(entry, ",");
    snprintf(name, sizeof name, "%.*s", (int)length, entry);
    if (length && !names_list_contains(found + strlen("it must be some of "), name))
      return variable_refuse("COMPUTE_BACKENDS", list, found);
    entry += length;
  }
  return COMPUTE_OK;
}

static int32_t threads_wanted(const compute_open_options *options) {
  if (options->threads > 0) return options->threads;
  int32_t wanted = (int32_t)variable_integer("COMPUTE_THREADS", 1, THREADS_MAX, 0);
  return wanted > 0 ? wanted : thread_pool_available();
}

static compute_status context_fill(compute_context *context, const compute_open_options *options) {
  services_fill(context);
  backtraces_open(context);
  context->threads = thread_pool_create(threads_wanted(options));
  context->profile = profile_create(context);
  slot_offer(&context->slots, &dump_slot, dump_folder_create());
  if (!slot_offer(&context->slots, &disk_cache_slot, disk_cache_create()) ||
      !slot_offer(&context->slots, &tuning_slot, tuning_create()) || !context->threads ||
      !context->profile) {
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation_open,
                     "out of memory for the thread pool and the caches");
  }
  compute_status status = module_search(context, options);
  if (status == COMPUTE_OK) status = backends_check(context, options);
  if (status == COMPUTE_OK) status = registry_open_modules(context);
  if (status == COMPUTE_OK) status = registry_choose_default(context, options->device);
  return status;
}

/* Releases modules before the threads that they may use, and after the devices that they
 * created. */
static void context_destroy(compute_context *context) {
  slots_release(&context->slots, SLOT_USES_DEVICES);
  profile_collect(context, NULL); /* timers belong to devices */
  registry_release(context);
  for (size_t i = 0; i < context->module_count; i++) module_release(&context->modules[i]);
  base_release(context->modules);
  base_release(context->module_path);
  thread_pool_release(context->threads);
  profile_release(context->profile);
  slots_release(&context->slots, SLOT_STANDS_ALONE);
  backtraces_close(context);
  pthread_mutex_destroy(&context->registry_mutex);
  error_context_closed(context);
  context_remove(context);
  base_release(context);
}

compute_status compute_open(compute_context **result, const compute_open_options *options) {
  FLOAT_ENVIRONMENT_DEFAULT;
  static const compute_open_options defaults;
  if (!result) {
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation_open, "context is NULL");
  }
  *result = NULL;
  if (!options) options = &defaults;
  compute_error before, failure;
  compute_error_get(NULL, &before);
  compute_status status = options_check(options);
  if (status == COMPUTE_OK) status = environment_check(options);
  if (status != COMPUTE_OK) return status;
  compute_context *context = base_allocate(1, sizeof *context);
  if (!context) {
    return error_set(NULL, COMPUTE_ERROR_OUT_OF_MEMORY, operation_open,
                     "out of memory for a context");
  }
  pthread_mutex_init(&context->registry_mutex, NULL);
  context_add(context);
  status = context_fill(context, options);
  if (status != COMPUTE_OK) {
    compute_error_get(NULL, &failure);
    context_destroy(context);
    error_restore(NULL, &failure);
    return status;
  }
  context_mark_complete(context);
  profile_at_open(context);
  validation_at_open(context);
  error_context_closed(context);
  error_restore(NULL, &before);
  *result = context;
  return COMPUTE_OK;
}

/* ---- Closing ------------------------------------------------------------------------------- */

compute_status compute_close(compute_context *context) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  if (!context) return COMPUTE_OK;
  slots_release(&context->slots, SLOT_HOLDS_OBJECTS);
  char kinds[160];
  const int64_t alive = objects_count(context, kinds, sizeof kinds);
  if (alive != 0) {
    backtraces_list(context);
    return error_set_native(
        context, COMPUTE_ERROR_INVALID_STATE, 0, "compute_close",
        context->backtraces
            ? "release them, and close again"
            : "release them, and close again; COMPUTE_LEAKS=1 lists where they were created",
        "%lld object%s of the context %s not been released: %s", (long long)alive,
        alive == 1 ? "" : "s", alive == 1 ? "has" : "have", kinds);
  }
  profile_at_close(context);
  context_destroy(context);
  return COMPUTE_OK;
}

const compute_probe *compute_probe_at(const compute_context *context, size_t index) {
  FLOAT_ENVIRONMENT_DEFAULT;
  if (context_is_inherited(context)) return NULL;
  if (context) registry_complete_quietly((compute_context *)context); /* the list has a lock */
  return context && index < context->module_count ? &context->modules[index].probe : NULL;
}
