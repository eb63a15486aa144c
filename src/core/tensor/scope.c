/* SPDX-License-Identifier: MIT */
/* Memory scopes.
 *
 * Each thread has a stack of scopes. A scope belongs to one context. It links the tensors that the
 * thread created while the scope was the context's innermost. Another thread may free a tensor and
 * must then unlink it, so one process-wide lock guards the lists. The lock is taken only for
 * tensors in a scope, for a few instructions. A lock inside the scope would not work, because the
 * scope may be freed while another thread waits for it.
 *
 * A thread that ends with open scopes pops them. Contexts are identified by serial numbers, because
 * a scope that was never popped may outlive its context. */

#include <pthread.h>
#include <stdatomic.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/process.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"

typedef struct memory_scope memory_scope;

struct memory_scope {
  uint64_t context; /* serial number */
  memory_scope *outer;
  compute_tensor *tensors; /* newest first; guarded by chains_lock */
};

static pthread_mutex_t chains_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread memory_scope *innermost;

/* Removes the newest tensor from the scope, or returns NULL. A tensor without references is only
 * unlinked: the thread that dropped the last reference is about to free it. */
static compute_tensor *take_tensor(memory_scope *scope) {
  compute_tensor *tensor;
  pthread_mutex_lock(&chains_lock);
  do {
    tensor = scope->tensors;
    if (!tensor) break;
    scope->tensors = tensor->scope_next;
    if (scope->tensors) scope->tensors->scope_previous = NULL;
    tensor->scope_next = NULL;
    atomic_store_explicit(&tensor->scope, NULL, memory_order_relaxed);
  } while (atomic_load_explicit(&tensor->references, memory_order_acquire) == 0);
  pthread_mutex_unlock(&chains_lock);
  return tensor;
}

static void end_scope(memory_scope *scope) {
  for (compute_tensor *tensor = take_tensor(scope); tensor; tensor = take_tensor(scope)) {
    compute_tensor_release(tensor);
  }
  base_release(scope);
}

/* ---- Threads that end inside a scope ------------------------------------------------------- */

static pthread_key_t thread_key;
static pthread_once_t thread_key_once = PTHREAD_ONCE_INIT;
static bool thread_key_exists;

static void end_all_scopes(void *stack) {
  for (memory_scope *scope = stack; scope;) {
    memory_scope *outer = scope->outer;
    end_scope(scope);
    scope = outer;
  }
  innermost = NULL;
}

/* Another thread may have been changing the lists, so the child leaves the scopes alone. */
static void scopes_forked(void) {
  pthread_mutex_init(&chains_lock, NULL);
  innermost = NULL;
  if (thread_key_exists) pthread_setspecific(thread_key, NULL);
}

static void create_thread_key(void) {
  static const process_hooks hooks = {.in_child = scopes_forked};
  process_at_fork(&hooks);
  thread_key_exists = pthread_key_create(&thread_key, end_all_scopes) == 0;
}

/* Makes `scope` the top of the thread's stack, also for end_all_scopes. Without a thread-specific
 * key (a process has 1024), scopes work, but the end of a thread does not pop them. */
static void set_innermost(memory_scope *scope) {
  innermost = scope;
  pthread_once(&thread_key_once, create_thread_key);
  if (thread_key_exists) pthread_setspecific(thread_key, scope);
}

/* ---- Public and private interface ---------------------------------------------------------- */

compute_status compute_memory_scope_push(compute_context *context) {
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_memory_scope_push";
  if (!context) {
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "context is NULL");
  }
  memory_scope *scope = base_allocate(1, sizeof *scope);
  if (!scope) {
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for a scope");
  }
  scope->context = context->serial;
  scope->outer = innermost;
  set_innermost(scope);
  return COMPUTE_OK;
}

compute_status compute_memory_scope_pop(compute_context *context) {
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_memory_scope_pop";
  if (!context) {
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "context is NULL");
  }
  memory_scope *inner = NULL, *scope = innermost;
  while (scope && scope->context != context->serial) {
    inner = scope;
    scope = scope->outer;
  }
  if (!scope) {
    return error_set(context, COMPUTE_ERROR_INVALID_STATE, operation,
                     "this thread has no open memory scope in the context");
  }
  if (inner) {
    inner->outer = scope->outer;
  } else {
    set_innermost(scope->outer);
  }
  end_scope(scope);
  return COMPUTE_OK;
}

compute_status scope_register(compute_tensor *tensor) {
  memory_scope *scope = innermost;
  if (!scope) return COMPUTE_OK;
  uint64_t context = tensor->buffer->device->context->serial;
  while (scope && scope->context != context) scope = scope->outer;
  if (!scope) return COMPUTE_OK;
  pthread_mutex_lock(&chains_lock);
  tensor->scope_previous = NULL;
  tensor->scope_next = scope->tensors;
  if (scope->tensors) scope->tensors->scope_previous = tensor;
  scope->tensors = tensor;
  atomic_store_explicit(&tensor->scope, scope, memory_order_relaxed);
  pthread_mutex_unlock(&chains_lock);
  return COMPUTE_OK;
}

void scope_forget(compute_tensor *tensor) {
  if (!atomic_load_explicit(&tensor->scope, memory_order_relaxed)) return;
  pthread_mutex_lock(&chains_lock);
  memory_scope *scope = atomic_load_explicit(&tensor->scope, memory_order_relaxed);
  if (scope) {
    if (tensor->scope_previous) {
      tensor->scope_previous->scope_next = tensor->scope_next;
    } else {
      scope->tensors = tensor->scope_next;
    }
    if (tensor->scope_next) tensor->scope_next->scope_previous = tensor->scope_previous;
    atomic_store_explicit(&tensor->scope, NULL, memory_order_relaxed);
  }
  pthread_mutex_unlock(&chains_lock);
}
