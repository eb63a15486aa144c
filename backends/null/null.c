/* SPDX-License-Identifier: MIT */
/* The null backend: the smallest module that keeps every promise of compute/backend.h. Copy this
 * folder to start a new backend; docs/internals/backends.md explains each step.
 *
 * It has one device, "null:0", which stores and copies bytes but runs no kernel. Its memory is host
 * memory, yet `host` stays NULL in compute_memory, as on a graphics card. So the core must move
 * data with upload and download, and a test on this device covers those paths on any machine.
 *
 * Queues here are synchronous: each call has finished when it returns. A backend with real queues
 * returns at once and reports failures from queue_wait. */
#include "compute/backend.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MEMORY_ALIGNMENT 64

/* One per open context. A real backend keeps its driver handle here. */
typedef struct null_instance {
  const compute_services *services; /* lives until `close` */
} null_instance;

/* The device and its queues have no separate state, so one struct serves as both handles. */
typedef struct null_device {
  const compute_services *services;
} null_device;

/* ---- Module -------------------------------------------------------------------------------- */

static compute_status null_open(const compute_services *services, void **instance) {
  null_instance *opened = services->allocate(services->host, sizeof *opened, 16);
  if (!opened) {
    return services->fail(services->host, COMPUTE_ERROR_OUT_OF_MEMORY, 0, NULL,
                          "null: out of memory for the module");
  }
  opened->services = services;
  *instance = opened;
  return COMPUTE_OK;
}

static void null_close(void *instance) {
  null_instance *opened = instance;
  opened->services->release(opened->services->host, opened);
}

/* ---- Device -------------------------------------------------------------------------------- */

static uint32_t null_device_count(void *instance) {
  (void)instance;
  return 1;
}

static compute_status null_device_open(void *instance, uint32_t index, void **device) {
  const null_instance *opened = instance;
  const compute_services *services = opened->services;
  (void)index; /* below device_count: checked by the core */
  null_device *created = services->allocate(services->host, sizeof *created, 16);
  if (!created) {
    return services->fail(services->host, COMPUTE_ERROR_OUT_OF_MEMORY, 0, NULL,
                          "null: out of memory for the device");
  }
  created->services = services;
  *device = created;
  return COMPUTE_OK;
}

static void null_device_close(void *device) {
  null_device *closed = device;
  closed->services->release(closed->services->host, closed);
}

/* The core has zeroed `info`. Without COMPUTE_CAPABILITY_COMPUTE the device is chosen only by name.
 * The core calls this again whenever somebody asks for the free memory. */
static compute_status null_device_describe(void *device, compute_device_info *info) {
  (void)device;
  snprintf(info->model, sizeof info->model, "null device");
  snprintf(info->vendor, sizeof info->vendor, "libcompute");
  snprintf(info->driver, sizeof info->driver, "%s", COMPUTE_VERSION_TEXT);
  snprintf(info->isa, sizeof info->isa, "none");
  info->type = COMPUTE_DEVICE_NULL;
  int64_t page = sysconf(_SC_PAGESIZE), total = sysconf(_SC_PHYS_PAGES);
  int64_t available = sysconf(_SC_AVPHYS_PAGES);
  if (page > 0 && total > 0 && available > 0) {
    info->memory_total = (uint64_t)total * (uint64_t)page;
    info->memory_free = (uint64_t)available * (uint64_t)page;
    info->memory_max_allocation = info->memory_total;
  }
  return COMPUTE_OK;
}

/* ---- Memory -------------------------------------------------------------------------------- */

/* The core pools blocks, so a module allocates directly. On COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY the
 * core evicts cached blocks and calls again. */
static compute_status null_memory_allocate(void *device, uint64_t bytes, compute_memory *memory) {
  const compute_services *services = ((null_device *)device)->services;
  void *data = bytes <= SIZE_MAX / 2
                   ? services->allocate(services->host, (size_t)bytes, MEMORY_ALIGNMENT)
                   : NULL;
  if (!data) {
    return services->fail(services->host, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY, 0, NULL,
                          "null: not enough memory for %llu bytes", (unsigned long long)bytes);
  }
  *memory = (compute_memory){.handle = data, .host = NULL, .bytes = bytes};
  return COMPUTE_OK;
}

static void null_memory_release(void *device, compute_memory *memory) {
  const compute_services *services = ((null_device *)device)->services;
  services->release(services->host, memory->handle);
  *memory = (compute_memory){0};
}

/* ---- Queue and copies ---------------------------------------------------------------------- */

static compute_status null_queue_create(void *device, void **queue) {
  *queue = device;
  return COMPUTE_OK;
}

static void null_queue_destroy(void *queue) {
  (void)queue;
}

static compute_status null_queue_wait(void *queue) {
  (void)queue;
  return COMPUTE_OK;
}

static unsigned char *argument_address(const compute_argument *argument) {
  return (unsigned char *)argument->memory->handle + argument->offset;
}

static compute_status null_upload(void *queue, const compute_argument *destination,
                                  const void *source, uint64_t bytes) {
  (void)queue;
  memcpy(argument_address(destination), source, (size_t)bytes);
  return COMPUTE_OK;
}

static compute_status null_download(void *queue, void *destination, const compute_argument *source,
                                    uint64_t bytes) {
  (void)queue;
  memcpy(destination, argument_address(source), (size_t)bytes);
  return COMPUTE_OK;
}

static compute_status null_copy(void *queue, const compute_argument *destination,
                                const compute_argument *source, uint64_t bytes) {
  (void)queue;
  memmove(argument_address(destination), argument_address(source), (size_t)bytes);
  return COMPUTE_OK;
}

/* ---- Kernels ------------------------------------------------------------------------------- */

/* A reason is a sentence for the user: it appears in warnings, errors and compute_explain. */
static bool null_supports(void *device, const compute_kernel_descriptor *descriptor, char *reason,
                          size_t reason_bytes) {
  (void)device;
  (void)descriptor;
  snprintf(reason, reason_bytes, "the null device runs no kernels");
  return false;
}

/* The core asks `supports` first. A call here is a caller's mistake and must still not crash. */
static compute_status null_kernel_prepare(void *device, const compute_kernel_descriptor *descriptor,
                                          void **kernel) {
  const compute_services *services = ((null_device *)device)->services;
  (void)descriptor;
  *kernel = NULL;
  return services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, 0, "run this step on the CPU",
                        "null: the device runs no kernels");
}

static void null_kernel_destroy(void *device, void *kernel) {
  (void)device;
  (void)kernel;
}

static compute_status null_enqueue(void *queue, void *kernel, const compute_argument *arguments,
                                   uint32_t count) {
  const compute_services *services = ((null_device *)queue)->services;
  (void)kernel;
  (void)arguments;
  return services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, 0, NULL,
                        "null: a kernel with %u arguments cannot run here", count);
}

/* ---- Vtable -------------------------------------------------------------------------------- */

/* Optional slots that stay NULL: memory_import (host memory cannot be wrapped), all event slots
 * (the core waits for the queue instead) and kernel_describe. */
static const compute_backend backend = {
    .struct_size = sizeof(compute_backend),
    .abi_major = COMPUTE_BACKEND_ABI_MAJOR,
    .abi_minor = COMPUTE_BACKEND_ABI_MINOR,
    .name = "null",
    .description = "stores and copies, computes nothing",
    .version = COMPUTE_VERSION_TEXT,
    .open = null_open,
    .close = null_close,
    .device_count = null_device_count,
    .device_open = null_device_open,
    .device_close = null_device_close,
    .device_describe = null_device_describe,
    .memory_allocate = null_memory_allocate,
    .memory_release = null_memory_release,
    .queue_create = null_queue_create,
    .queue_destroy = null_queue_destroy,
    .queue_wait = null_queue_wait,
    .upload = null_upload,
    .download = null_download,
    .copy = null_copy,
    .supports = null_supports,
    .kernel_prepare = null_kernel_prepare,
    .kernel_destroy = null_kernel_destroy,
    .enqueue = null_enqueue,
    .flags = COMPUTE_BACKEND_ENVIRONMENT_SAFE, /* it opens no library */
};

/* A module that serves several core versions checks the arguments. This one leaves the check of the
 * major version to the core. */
const compute_backend *compute_backend_entry(uint32_t core_abi_major, uint32_t core_abi_minor) {
  (void)core_abi_major;
  (void)core_abi_minor;
  return &backend;
}
