/* SPDX-License-Identifier: MIT */
/* Requests, and the group's thread, which carries them out in order of submission. */
#include <stdatomic.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/thread.h"
#include "core/device/device.h"
#include "group/group.h"

static void unreference(compute_group_request *request) {
  if (atomic_fetch_sub_explicit(&request->references, 1, memory_order_acq_rel) > 1) return;
  group_unreference(request->group);
  base_release(request);
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* The caller holds the mutex; it is released during the request. */
static void carry_out(compute_process_group *group, compute_group_request *request) {
  compute_error error = {.status = COMPUTE_OK};
  pthread_mutex_unlock(&group->mutex);
  const compute_status status = group_perform(request);
  if (status) compute_error_get(group->context, &error);
  compute_tensor_release(request->input);
  compute_tensor_release(request->output);
  request->input = request->output = NULL;
  pthread_mutex_lock(&group->mutex);
  request->status = status;
  request->error = error;
  request->done = true;
  pthread_cond_broadcast(&group->ended);
}

/* If joining fails, the group is broken from the start. */
static void open_group(compute_process_group *group) {
  const compute_status status = group_join(group);
  if (status) (void)group_break(group, status);
  pthread_mutex_lock(&group->mutex);
  group->opened = true;
  pthread_cond_broadcast(&group->ended);
}

static void *work(void *argument) {
  compute_process_group *group = argument;
  open_group(group);
  for (;;) {
    compute_group_request *request = group->first;
    if (request) {
      group->first = request->next;
      if (!group->first) group->last = NULL;
      carry_out(group, request);
      unreference(request);
    } else if (group->closing) {
      break;
    } else {
      pthread_cond_wait(&group->work, &group->mutex);
    }
  }
  pthread_mutex_unlock(&group->mutex);
  group_direct_close(group, group->all_close);
  group_stages_release(group);
  if (group->size > 0) group->transport->close(group->instance, group->all_close);
  return NULL;
}

compute_status group_thread_start(compute_process_group *group) {
  const int failed = thread_start(&group->thread, "compute-group", work, group);
  if (failed)
    return error_set_native(group->context, COMPUTE_ERROR_OUT_OF_MEMORY, failed,
                            "compute_group_open", NULL, "cannot start the group's thread");
  pthread_mutex_lock(&group->mutex);
  while (!group->opened) pthread_cond_wait(&group->ended, &group->mutex);
  const compute_status status = atomic_load_explicit(&group->broken, memory_order_relaxed);
  pthread_mutex_unlock(&group->mutex);
  if (!status) return COMPUTE_OK;
  group_thread_end(group);
  error_restore(group->context, &group->reason);
  return status;
}

void group_thread_end(compute_process_group *group) {
  pthread_mutex_lock(&group->mutex);
  group->closing = true;
  pthread_cond_signal(&group->work);
  pthread_mutex_unlock(&group->mutex);
  pthread_join(group->thread, NULL);
}

/* ---- Requests -------------------------------------------------------------------------------- */

static compute_status enqueue(compute_process_group *group, compute_group_request *request) {
  pthread_mutex_lock(&group->mutex);
  compute_status status = atomic_load_explicit(&group->broken, memory_order_relaxed);
  if (status) {
    error_restore(group->context, &group->reason);
  } else if (group->closing) { /* a graph may have kept the group */
    status = error_set(group->context, COMPUTE_ERROR_INVALID_STATE, request->operation,
                       "the group is closed");
  } else {
    *(group->last ? &group->last->next : &group->first) = request;
    group->last = request;
    pthread_cond_signal(&group->work);
  }
  pthread_mutex_unlock(&group->mutex);
  return status;
}

compute_status group_submit(compute_process_group *group, const compute_group_request *draft,
                            compute_group_request **request) {
  if (request) *request = NULL;
  if (context_is_inherited(group->context)) return context_refuse(group->context, draft->operation);
  compute_group_request *made = base_allocate(1, sizeof *made);
  if (!made)
    return error_set(group->context, COMPUTE_ERROR_OUT_OF_MEMORY, draft->operation,
                     "not enough memory for a request: %zu bytes", sizeof *made);
  *made = *draft;
  made->group = group;
  atomic_init(&made->references, 2);
  atomic_fetch_add_explicit(&group->references, 1, memory_order_relaxed);
  made->input = compute_tensor_retain(draft->input);
  made->output = compute_tensor_retain(draft->output);
  compute_status status = enqueue(group, made);
  if (status) {
    compute_tensor_release(made->input);
    compute_tensor_release(made->output);
    group_unreference(group);
    base_release(made);
    return status;
  }
  if (request) {
    *request = made;
    return COMPUTE_OK;
  }
  status = compute_group_request_wait(made);
  compute_group_request_release(made);
  return status;
}

compute_status compute_group_request_wait(compute_group_request *request) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(request, group->context);
  static const char operation[] = "compute_group_request_wait";
  const compute_status status = error_if_null(NULL, operation, request);
  if (status) return status;
  compute_process_group *group = request->group;
  pthread_mutex_lock(&group->mutex);
  while (!request->done) pthread_cond_wait(&group->ended, &group->mutex);
  pthread_mutex_unlock(&group->mutex);
  if (request->status) error_restore(group->context, &request->error);
  return request->status;
}

compute_status compute_group_request_poll(const compute_group_request *request, bool *done) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(request, group->context);
  static const char operation[] = "compute_group_request_poll";
  const compute_status status = error_if_null(NULL, operation, request, done);
  if (status) return status;
  compute_process_group *group = request->group;
  pthread_mutex_lock(&group->mutex);
  *done = request->done;
  pthread_mutex_unlock(&group->mutex);
  return COMPUTE_OK;
}

void compute_group_request_release(compute_group_request *request) {
  if (IS_INHERITED(request, group->context)) return;
  if (request) unreference(request);
}
