/* SPDX-License-Identifier: MIT */
/* One device: opening, description, pool controls, and recovery after a loss. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/control_group.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/process.h"
#include "core/device/collector.h"
#include "core/device/driver_call.h"
#include "core/device/kernel_cache.h"
#include "core/device/registry.h"

/* ---- Rank ---------------------------------------------------------------------------------- */

/* The first row that matches gives the rank. `vendor` is a substring of the device's vendor
 * text. */
static const struct {
  compute_device_type type;
  const char *vendor;
  int32_t priority;
} ranks[] = {
    {COMPUTE_DEVICE_GPU, "Apple", 500}, {COMPUTE_DEVICE_GPU, "NVIDIA", 400},
    {COMPUTE_DEVICE_GPU, NULL, 300},    {COMPUTE_DEVICE_ACCELERATOR, NULL, 200},
    {COMPUTE_DEVICE_CPU, NULL, 100},    {COMPUTE_DEVICE_NULL, NULL, -100},
};

static int32_t rank_of(const compute_device_info *info) {
  for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
    if (info->type != ranks[i].type) continue;
    if (!ranks[i].vendor || strcasestr(info->vendor, ranks[i].vendor)) return ranks[i].priority;
  }
  return 0;
}

/* ---- Opening and closing ------------------------------------------------------------------- */

/* Below this size, querying the control group takes longer than using the memory. */
#define ASKED_FROM ((uint64_t)1 << 20)

/* The system grants any amount of memory, and kills the process when it touches more than its
 * control group allows. The group does not count memory that is allocated but not touched yet. */
static compute_status check_group(const compute_device *device, uint64_t bytes) {
  if (!device->group_limited || bytes < ASKED_FROM) return COMPUTE_OK;
  const control_group_memory group = control_group_memory_query(NULL);
  const uint64_t taken = atomic_load_explicit(&device->taken, memory_order_relaxed);
  const uint64_t untaken = group.limit - min_u64(group.limit, taken);
  const uint64_t left = min_u64(group.left, untaken), swap = min_u64(group.swap, UINT64_MAX - left);
  if (bytes <= left + swap) return COMPUTE_OK;
  return error_set_native(device->context, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY, 0, ERROR_BACKEND,
                          "use smaller batches, or give the control group of the process more",
                          "%.1f MiB are more than the control group of the process has left: "
                          "%.1f of %.1f MiB",
                          (double)bytes / 1048576, (double)left / 1048576,
                          (double)group.limit / 1048576);
}

static compute_status pool_source_allocate(void *owner, uint64_t bytes, compute_memory *memory) {
  compute_device *device = owner;
  compute_status status = device_check(device, ERROR_BACKEND);
  if (!status) status = check_group(device, bytes);
  if (!status) status = device->backend->memory_allocate(device->handle, bytes, memory);
  if (!status) atomic_fetch_add_explicit(&device->taken, memory->bytes, memory_order_relaxed);
  return status;
}

static void release_memory(compute_device *device, void *item) {
  device->backend->memory_release(device->handle, item);
  base_release(item);
}

static void pool_source_release(void *owner, compute_memory *memory) {
  compute_device *device = owner;
  compute_memory *copy = device_hangs(device) ? base_allocate(1, sizeof *copy) : NULL;
  atomic_fetch_sub_explicit(&device->taken, memory->bytes, memory_order_relaxed);
  if (copy) {
    *copy = *memory;
    if (device_release_later(device, release_memory, copy)) return;
    base_release(copy);
  }
  if (!device_hangs(device)) device->backend->memory_release(device->handle, memory);
}

/* Terminates every string of the info, whatever the module wrote. */
static void texts_end(compute_device_info *info) {
  info->model[sizeof info->model - 1] = '\0';
  info->vendor[sizeof info->vendor - 1] = '\0';
  info->driver[sizeof info->driver - 1] = '\0';
  info->isa[sizeof info->isa - 1] = '\0';
  info->notes[sizeof info->notes - 1] = '\0';
}

/* `true` if the device's memory is host memory of the process. */
static bool has_host_memory(const compute_device_info *info) {
  return info->type == COMPUTE_DEVICE_CPU || info->type == COMPUTE_DEVICE_NULL ||
         (info->capabilities & COMPUTE_CAPABILITY_HOST) != 0;
}

/* Reduces the memory sizes to the limits of the process's control groups. Returns `true` if the
 * limit is below the machine's memory. */
static bool limit_memory(compute_device_info *info) {
  if (!has_host_memory(info)) return false;
  const control_group_memory group = control_group_memory_query(NULL);
  const bool less = group.limit < info->memory_total;
  info->memory_total = min_u64(info->memory_total, group.limit);
  info->memory_free = min_u64(info->memory_free, min_u64(group.left, info->memory_total));
  info->memory_max_allocation = min_u64(info->memory_max_allocation, info->memory_total);
  return less;
}

static compute_status describe_fresh(const compute_device *device, compute_device_info *info,
                                     bool *group_limited) {
  *info = (compute_device_info){0};
  compute_status status = device->backend->device_describe(device->handle, info);
  *group_limited = limit_memory(info);
  texts_end(info);
  return status;
}

static compute_status device_introduce(compute_device *device, const device_module *module,
                                       uint32_t index) {
  compute_device_info *info = &device->info;
  compute_status status = describe_fresh(device, info, &device->group_limited);
  if (status != COMPUTE_OK) return status;
  /* There is only one host, so its device needs no number. */
  const bool only_host = (info->capabilities & COMPUTE_CAPABILITY_HOST) != 0 &&
                         module->backend.device_count(module->instance) == 1;
  info->index = index;
  snprintf(info->backend, sizeof info->backend, "%s", module->backend.name);
  if (only_host) {
    snprintf(info->name, sizeof info->name, "%.20s", module->backend.name);
  } else {
    snprintf(info->name, sizeof info->name, "%.20s:%u", module->backend.name, index);
  }
  if (info->priority == 0) info->priority = rank_of(info);
  return COMPUTE_OK;
}

static compute_status device_equip(compute_device *device) {
  const pool_source source = {
      .allocate = pool_source_allocate, .release = pool_source_release, .owner = device};
  device->pool = pool_create(device->context, &source, device->info.name);
  device->kernels = device->pool ? kernel_cache_create(device) : NULL;
  if (!device->kernels) {
    return error_set(device->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_open",
                     "out of memory while opening %s", device->info.name);
  }
  return queue_create_internal(device, &device->internal_queue);
}

compute_status device_create(compute_context *context, const device_module *module, uint32_t index,
                             compute_device **result) {
  compute_device *device = base_allocate(1, sizeof *device);
  if (!device) {
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_open",
                     "out of memory while opening %s:%u", module->backend.name, index);
  }
  device->context = context;
  device->backend = &module->backend;
  pthread_mutex_init(&device->internal_mutex, NULL);
  pthread_mutex_init(&device->packed_mutex, NULL);
  pthread_mutex_init(&device->loss_mutex, NULL);
  DRIVER_CALL(device->backend);
  process_load_begin();
  compute_status status = module->backend.device_open(module->instance, index, &device->handle);
  process_load_end();
  bool handle_open = status == COMPUTE_OK;
  if (status == COMPUTE_OK) status = device_introduce(device, module, index);
  if (status == COMPUTE_OK) status = device_equip(device);
  if (status == COMPUTE_OK) {
    *result = device;
    return COMPUTE_OK;
  }
  if (!handle_open) device->backend = NULL;
  device_destroy(device);
  return status;
}

bool device_destroy(compute_device *device) {
  queue_destroy_internal(device->internal_queue);
  bool hangs = device->backend && device_give_up(device);
  if (device->kernels) kernel_cache_release(device->kernels);
  if (device->pool) pool_release(device->pool);
  if (device->backend && !hangs) device->backend->device_close(device->handle);
  pthread_mutex_destroy(&device->loss_mutex);
  pthread_mutex_destroy(&device->internal_mutex);
  pthread_mutex_destroy(&device->packed_mutex);
  for (int stage = 0; stage <= SLOT_STANDS_ALONE; stage++)
    slots_release(&device->slots, (slot_stage)stage);
  base_release(device);
  return !hangs;
}

/* ---- Queries ------------------------------------------------------------------------------- */

compute_context *compute_device_context(const compute_device *device) {
  return device ? device->context : NULL;
}

compute_status compute_device_describe(const compute_device *device, compute_device_info *info) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(device, context);
  static const char operation[] = "compute_device_describe";
  const compute_status missing =
      error_if_null(device ? device->context : NULL, operation, device, info);
  if (missing) return missing;
  compute_device_info now;
  bool group_limited;
  compute_status status = describe_fresh(device, &now, &group_limited);
  if (status != COMPUTE_OK) return status;
  /* Keep the values that the core chose at opening. */
  memcpy(now.name, device->info.name, sizeof now.name);
  memcpy(now.backend, device->info.backend, sizeof now.backend);
  now.index = device->info.index;
  now.priority = device->info.priority;
  *info = now;
  return COMPUTE_OK;
}

/* ---- Buffer pool --------------------------------------------------------------------------- */

static compute_status device_is_null(const char *operation) {
  return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "device is NULL");
}

compute_status compute_pool_query(const compute_device *device,
                                  compute_pool_statistics *statistics) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(device, context);
  static const char operation[] = "compute_pool_query";
  if (!device) return device_is_null(operation);
  if (!statistics) {
    return error_set(device->context, COMPUTE_ERROR_NULL_POINTER, operation, "statistics is NULL");
  }
  pool_query(device->pool, statistics);
  return COMPUTE_OK;
}

compute_status compute_pool_set_budget(compute_device *device, uint64_t bytes) {
  REFUSE_INHERITED(device, context);
  if (!device) return device_is_null("compute_pool_set_budget");
  pool_set_budget(device->pool, bytes);
  return COMPUTE_OK;
}

compute_status compute_pool_trim(compute_device *device, uint64_t keep_bytes) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(device, context);
  if (!device) return device_is_null("compute_pool_trim");
  pool_trim(device->pool, keep_bytes);
  return COMPUTE_OK;
}

/* ---- Kernels built --------------------------------------------------------------------------- */

/* Build costs, as far as the module counts them. */
compute_status compute_build_query(const compute_device *device,
                                   compute_build_statistics *statistics) {
  REFUSE_INHERITED(device, context);
  const compute_status missing =
      error_if_null(device ? device->context : NULL, "compute_build_query", device, statistics);
  if (missing) return missing;
  *statistics = (compute_build_statistics){0};
  if (device->backend->build_statistics) {
    device->backend->build_statistics(device->handle, statistics);
  }
  return COMPUTE_OK;
}

/* ---- Recovering a lost device -------------------------------------------------------------- */

/* Makes everything from before the loss stale: drops cached memory and kernels, and creates a new
 * internal queue. The caller holds loss_mutex and internal_mutex. */
static compute_status renew(compute_device *device, compute_queue **old) {
  compute_queue *fresh = NULL;
  atomic_fetch_add_explicit(&device->generation, 1, memory_order_acq_rel);
  device_set_loss(device, DEVICE_WORKS);
  pool_forget(device->pool);
  kernel_cache_forget(device->kernels);
  compute_status status = queue_create_internal(device, &fresh);
  if (status != COMPUTE_OK) {
    device_set_loss(device, DEVICE_FAILED);
    return status;
  }
  *old = device->internal_queue;
  device->internal_queue = fresh;
  return COMPUTE_OK;
}

/* Returns `true` if there is nothing to recover or recovery is not possible; *status then has the
 * result. */
static bool works_or_cannot(compute_device *device, compute_status *status) {
  *status = COMPUTE_OK;
  if (device_loss_of(device) == DEVICE_WORKS) {
    pthread_mutex_lock(&device->internal_mutex);
    compute_status asked = compute_queue_wait(device->internal_queue);
    pthread_mutex_unlock(&device->internal_mutex);
    if (asked != COMPUTE_ERROR_DEVICE_LOST) return true;
  }
  *status = device_check(device, "compute_device_recover");
  if (*status != COMPUTE_OK || device_loss_of(device) == DEVICE_WORKS) return true;
  if (device->backend->device_recover) return false;
  *status = error_set_native(device->context, COMPUTE_ERROR_UNSUPPORTED, 0,
                             "compute_device_recover", "restart the program",
                             "%s: the driver cannot recover a lost device within the process",
                             device->info.name);
  return true;
}

compute_status compute_device_recover(compute_device *device) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(device, context);
  if (!device) {
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, "compute_device_recover", "device is NULL");
  }
  compute_error before;
  compute_error_get(NULL, &before);
  compute_status status;
  if (works_or_cannot(device, &status)) {
    if (status == COMPUTE_OK) error_restore(NULL, &before);
    return status;
  }
  compute_queue *old = NULL;
  pthread_mutex_lock(&device->internal_mutex);
  pthread_mutex_lock(&device->loss_mutex);
  DRIVER_CALL(device->backend);
  bool found = device_loss_of(device) == DEVICE_FAILED; /* another thread may have recovered it */
  if (found) status = device->backend->device_recover(device->handle);
  if (found && status == COMPUTE_OK) status = renew(device, &old);
  pthread_mutex_unlock(&device->loss_mutex);
  pthread_mutex_unlock(&device->internal_mutex);
  if (old) queue_destroy_internal(old);
  if (found && status == COMPUTE_OK) {
    fallback_note(device->context, device, FALLBACK_DEVICE_RECOVERED, true,
                  "the lost device was recovered; existing tensors and plans stay lost");
    error_restore(NULL, &before);
  }
  return status;
}
