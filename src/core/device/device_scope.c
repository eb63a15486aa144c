/* SPDX-License-Identifier: MIT */
/* The list of open contexts, and device scopes: the calling thread's stack of default devices.
 *
 * One array per thread serves all contexts. Each entry stores the serial number of its context, and
 * serial numbers are never reused. If a context closes inside a scope, its entries match nothing
 * any more; they are removed when the array is full. */
#include <stdatomic.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/process.h"
#include "core/device/registry.h"

#define CONTEXT_DEPTH 32
#define THREAD_DEPTH  128

/* ---- All open contexts --------------------------------------------------------------------- */

static pthread_mutex_t open_mutex = PTHREAD_MUTEX_INITIALIZER;
static compute_context *open_contexts;
static uint64_t last_serial;

static void lock_contexts(void) {
  pthread_mutex_lock(&open_mutex);
}

static void unlock_contexts(void) {
  pthread_mutex_unlock(&open_mutex);
}

/* The child uses none of the parent's contexts, but their modules stay loaded. */
static void forget_contexts(void) {
  pthread_mutex_init(&open_mutex, NULL);
  for (const compute_context *context = open_contexts; context; context = context->next_open)
    if (context->complete) module_inherit(context);
  open_contexts = NULL;
}

void context_mark_complete(compute_context *context) {
  pthread_mutex_lock(&open_mutex);
  context->complete = true;
  pthread_mutex_unlock(&open_mutex);
}

void context_add(compute_context *context) {
  static const process_hooks hooks = {lock_contexts, unlock_contexts, forget_contexts};
  process_at_fork(&hooks);
  context->process = process_forks;
  pthread_mutex_lock(&open_mutex);
  context->serial = ++last_serial;
  context->next_open = open_contexts;
  open_contexts = context;
  pthread_mutex_unlock(&open_mutex);
  base_context_opened();
}

void context_remove(const compute_context *context) {
  pthread_mutex_lock(&open_mutex);
  compute_context **link = &open_contexts;
  while (*link && *link != context) link = &(*link)->next_open;
  if (*link) *link = context->next_open;
  pthread_mutex_unlock(&open_mutex);
  base_context_closed();
}

static bool context_is_open(uint64_t serial) {
  pthread_mutex_lock(&open_mutex);
  const compute_context *context = open_contexts;
  while (context && context->serial != serial) context = context->next_open;
  pthread_mutex_unlock(&open_mutex);
  return context != NULL;
}

/* ---- Scopes ---------------------------------------------------------------------------------- */

typedef struct scope_entry {
  uint64_t context; /* serial number */
  compute_device *device;
} scope_entry;

static _Thread_local scope_entry stack[THREAD_DEPTH];
static _Thread_local size_t depth;

/* The position after the innermost entry of a context; 0 if there is none. */
static size_t innermost(const compute_context *context) {
  size_t i = depth;
  while (i > 0 && stack[i - 1].context != context->serial) i--;
  return i;
}

static size_t depth_of(const compute_context *context) {
  size_t count = 0;
  for (size_t i = 0; i < depth; i++) count += stack[i].context == context->serial ? 1 : 0;
  return count;
}

static void closed_contexts_drop(void) {
  size_t kept = 0;
  for (size_t i = 0; i < depth; i++) {
    if (context_is_open(stack[i].context)) stack[kept++] = stack[i];
  }
  depth = kept;
}

compute_device *compute_default_device(const compute_context *context) {
  if (!context) return NULL;
  size_t position = depth > 0 ? innermost(context) : 0;
  if (position > 0) return stack[position - 1].device;
  if (context_is_inherited(context)) {
    compute_device *chosen = atomic_load_explicit(&context->default_device, memory_order_relaxed);
    return chosen ? chosen : context->cpu;
  }
  return registry_default_device((compute_context *)context); /* the registry has a lock */
}

bool device_scope_is_open(const compute_context *context) {
  return depth > 0 && innermost(context) > 0;
}

compute_status compute_device_push(compute_device *device) {
  REFUSE_INHERITED(device, context);
  static const char operation[] = "compute_device_push";
  if (!device) return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "device is NULL");
  compute_context *context = device->context;
  if (depth == THREAD_DEPTH) closed_contexts_drop();
  if (depth == THREAD_DEPTH || depth_of(context) == CONTEXT_DEPTH) {
    return error_set(context, COMPUTE_ERROR_INVALID_STATE, operation,
                     "device scopes nest at most %d deep; %zu are open in this thread",
                     CONTEXT_DEPTH, depth);
  }
  stack[depth++] = (scope_entry){.context = context->serial, .device = device};
  return COMPUTE_OK;
}

compute_status compute_device_pop(compute_context *context) {
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_device_pop";
  if (!context) return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "context is NULL");
  size_t position = innermost(context);
  if (position == 0) {
    return error_set(context, COMPUTE_ERROR_INVALID_STATE, operation,
                     "no device scope is open in this thread");
  }
  for (size_t i = position; i < depth; i++) stack[i - 1] = stack[i];
  depth--;
  return COMPUTE_OK;
}
