/* SPDX-License-Identifier: MIT */
/* One GPU, opened on its primary context, which it shares with vendor libraries and other users of
 * CUDA in the process. */
#include "cuda.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* 0 if the driver does not report it. */
static int32_t attribute(const cuda_device *device, int32_t which) {
  int32_t value = 0;
  if (device->driver->device_attribute(&value, which, device->id) != CUDA_OK) return 0;
  return value > 0 ? value : 0;
}

/* ---- Properties ---------------------------------------------------------------------------- */

/* Data-centre GPUs; the others with matrix units have almost no f64 units. */
static bool multiplies_f64(const cuda_device *device) {
  return device->capability == 80 || device->capability == 90 || device->capability == 100;
}

static void fill_target(cuda_device *device) {
  compute_target *target = &device->target;
  *target = (compute_target){
      .struct_size = sizeof *target,
      .dialect = COMPUTE_DIALECT_CUDA,
      .type = COMPUTE_DEVICE_GPU,
      .flags = COMPUTE_TARGET_F64 | COMPUTE_TARGET_F16 | COMPUTE_TARGET_FAST_LOCAL |
               COMPUTE_TARGET_FAULT_RECORDS | COMPUTE_TARGET_LOCKSTEP,
      .backend = "cuda",
      .vendor = "NVIDIA",
      .compute_units = (uint32_t)attribute(device, CUDA_MULTIPROCESSORS),
      .lanes = (uint32_t)attribute(device, CUDA_WARP_SIZE),
      .vector_width = 4,
      .group_limit = (uint32_t)attribute(device, CUDA_MAX_THREADS_PER_BLOCK),
      .group_limit_of = {(uint32_t)attribute(device, CUDA_MAX_BLOCK_X),
                         (uint32_t)attribute(device, CUDA_MAX_BLOCK_Y),
                         (uint32_t)attribute(device, CUDA_MAX_BLOCK_Z)},
      .local_bytes = (uint64_t)attribute(device, CUDA_SHARED_BYTES_PER_BLOCK),
      .cache_bytes = (uint64_t)attribute(device, CUDA_L2_BYTES),
      .launch_local_bytes = (uint64_t)attribute(device, CUDA_SHARED_BYTES_PER_BLOCK_OPTIN),
  };
  if (device->capability >= 80) target->flags |= COMPUTE_TARGET_MATRIX_CORES;
  if (multiplies_f64(device)) target->flags |= COMPUTE_TARGET_MATRIX_F64;
  if (target->compute_units == 0) target->compute_units = 1;
  if (target->lanes == 0) target->lanes = 32;
  if (target->group_limit == 0) target->group_limit = 1;
  for (int i = 0; i < 3; i++)
    if (target->group_limit_of[i] == 0) target->group_limit_of[i] = 1;
  snprintf(target->family, sizeof target->family, "sm_%d", device->capability);
  snprintf(target->driver, sizeof target->driver, "CUDA %d.%d", device->driver->version / 1000,
           device->driver->version % 1000 / 10);
  if (device->driver->device_name(target->model, (int32_t)sizeof target->model, device->id) !=
      CUDA_OK)
    snprintf(target->model, sizeof target->model, "NVIDIA GPU");
  target->model[sizeof target->model - 1] = '\0';
}

/* A multiprocessor has up to 128 units, and each does one multiply-add per clock. Memory transfers
 * two bits per clock. */
static void fill_peaks(cuda_device *device) {
  const double hertz = 1e3 * attribute(device, CUDA_CLOCK_RATE);
  const double memory_hertz = 1e3 * attribute(device, CUDA_MEMORY_CLOCK_RATE);
  device->peak_operations = hertz * device->target.compute_units * 128 * 2;
  device->peak_bytes = memory_hertz * attribute(device, CUDA_MEMORY_BUS_BITS) / 8 * 2;
}

compute_status cuda_device_target(void *device, compute_target *target) {
  builder_target_copy(target, &((const cuda_device *)device)->target);
  return COMPUTE_OK;
}

static void describe_notes(const cuda_device *device, compute_device_info *info) {
  size_t used = 0;
  if (!device->nvrtc)
    used = (size_t)snprintf(info->notes, sizeof info->notes, "runs no kernels: %s; %s",
                            device->no_compiler, CUDA_NVRTC_REMEDY);
  else if (device->nvrtc->major > device->driver->version / 1000)
    used = (size_t)snprintf(info->notes, sizeof info->notes,
                            "%s is newer than the driver, which may refuse its kernels: update the "
                            "driver, or install libnvrtc.so.%d",
                            device->compiler, device->driver->version / 1000);
  if (used < sizeof info->notes && attribute(device, CUDA_KERNEL_TIMEOUT))
    snprintf(
        info->notes + used, sizeof info->notes - used,
        "%sthe GPU drives a display: the driver ends kernels that run for more than a few seconds",
        used ? "\n" : "");
}

compute_status cuda_device_describe(void *handle, compute_device_info *info) {
  cuda_device *device = handle;
  const compute_target *target = &device->target;
  const compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  snprintf(info->model, sizeof info->model, "%s", target->model);
  snprintf(info->vendor, sizeof info->vendor, "%s", target->vendor);
  snprintf(info->driver, sizeof info->driver, "%s", target->driver);
  snprintf(info->isa, sizeof info->isa, "%s", target->family);
  info->type = COMPUTE_DEVICE_GPU;
  info->priority = 410; /* the same GPU has priority 400 through OpenCL */
  info->capabilities = COMPUTE_CAPABILITY_F64 | COMPUTE_CAPABILITY_F16;
  if (device->nvrtc) info->capabilities |= COMPUTE_CAPABILITY_COMPUTE;
  if (device->unified) info->capabilities |= COMPUTE_CAPABILITY_UNIFIED_MEMORY;
  if (device->capability >= 70) info->capabilities |= COMPUTE_CAPABILITY_MATRIX_CORES;
  if (device->capability >= 80) info->capabilities |= COMPUTE_CAPABILITY_BF16;
  info->compute_units = target->compute_units;
  info->vector_width = target->lanes;
  info->cache_bytes = target->cache_bytes;
  info->memory_total = info->memory_max_allocation = device->memory_bytes;
  size_t available = 0, total = 0;
  const cuda_result code = device->driver->memory_info(&available, &total);
  if (code != CUDA_OK) return cuda_fail(device, code, "querying free memory");
  info->memory_free = available;
  describe_notes(device, info);
  return COMPUTE_OK;
}

/* ---- Opening and closing ------------------------------------------------------------------- */

/* Limit of freed memory that the driver's pool keeps. The core's pool above it keeps recurring
 * blocks; the rest should be available to others. */
#define POOL_KEEPS ((uint64_t)64 << 20)

/* A private pool, so that its threshold does not change the pool of others in the process. The
 * device also works without one. */
static void make_pool(cuda_device *device) {
  const cuda_driver *driver = device->driver;
  if (!driver->pool_create || !driver->pool_destroy || !driver->pool_set ||
      !driver->pool_allocate || !driver->pool_free ||
      !attribute(device, CUDA_MEMORY_POOLS_SUPPORTED))
    return;
  const cuda_memory_pool_properties properties = {
      .allocation_type = CUDA_ALLOCATION_PINNED,
      .location = {.type = CUDA_LOCATION_DEVICE, .id = device->id}};
  uint64_t keep = POOL_KEEPS;
  if (driver->pool_create(&device->pool, &properties) != CUDA_OK) device->pool = NULL;
  if (device->pool &&
      driver->pool_set(device->pool, CUDA_POOL_RELEASE_THRESHOLD, &keep) != CUDA_OK) {
    driver->pool_destroy(device->pool);
    device->pool = NULL;
  }
}

static compute_status enter_first(cuda_device *device) {
  const cuda_driver *driver = device->driver;
  if (attribute(device, CUDA_COMPUTE_MODE) == CUDA_COMPUTE_MODE_PROHIBITED)
    return device->services->fail(
        device->services->host, COMPUTE_ERROR_DISABLED, 0, "allow computing: nvidia-smi -c DEFAULT",
        "cuda:%u: its administrator has prohibited computing", device->index);
  cuda_result code = driver->context_retain(&device->context, device->id);
  if (code != CUDA_OK) {
    device->context = NULL;
    return cuda_fail(device, code, "opening the primary context");
  }
  const compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  code = driver->stream_create(&device->memory_stream, CUDA_STREAM_NON_BLOCKING);
  if (code == CUDA_OK) return COMPUTE_OK;
  device->memory_stream = NULL;
  return cuda_fail(device, code, "creating a stream");
}

static compute_status learn(cuda_device *device) {
  const cuda_driver *driver = device->driver;
  size_t bytes = 0;
  const cuda_result code = driver->device_get(&device->id, (int32_t)device->index);
  if (code != CUDA_OK) return cuda_fail(device, code, "opening the GPU");
  device->capability =
      attribute(device, CUDA_CAPABILITY_MAJOR) * 10 + attribute(device, CUDA_CAPABILITY_MINOR);
  device->unified = attribute(device, CUDA_INTEGRATED) != 0;
  if (driver->device_memory(&bytes, device->id) == CUDA_OK) device->memory_bytes = bytes;
  fill_target(device);
  fill_peaks(device);
  if (device->capability >= 50) return COMPUTE_OK;
  return device->services->fail(
      device->services->host, COMPUTE_ERROR_UNSUPPORTED, 0, "use a GPU of 2014 or newer",
      "cuda:%u: %s has compute capability %d.%d; 5.0 is needed", device->index,
      device->target.model, device->capability / 10, device->capability % 10);
}

compute_status cuda_device_open(void *opened, uint32_t index, void **result) {
  const cuda_instance *instance = opened;
  const compute_services *services = instance->services;
  cuda_device *device = services->allocate(services->host, sizeof *device, 16);
  if (!device) return cuda_fail_memory(services, "a device");
  device->services = services;
  device->driver = instance->driver;
  device->index = index;
  device->process = getpid();
  pthread_mutex_init(&device->lost_mutex, NULL);
  pthread_mutex_init(&device->staging_mutex, NULL);
  pthread_cond_init(&device->staging_returned, NULL);
  pthread_mutex_init(&device->clock_mutex, NULL);
  device->builder = (builder){.driver = &cuda_builder_driver,
                              .services = services,
                              .device = device,
                              .index = index,
                              .target = &device->target,
                              .options = device->options};
  builder_open(&device->builder);
  compute_status status = learn(device);
  if (status == COMPUTE_OK) status = enter_first(device);
  if (status == COMPUTE_OK) status = cuda_compiler_open(device);
  if (status == COMPUTE_OK) {
    make_pool(device);
    *result = device;
    return COMPUTE_OK;
  }
  cuda_device_close(device);
  return status;
}

/* Releases the device's driver objects, as far as the driver still answers. */
static void release(cuda_device *device) {
  const cuda_driver *driver = device->driver;
  cuda_result code = CUDA_OK;
  if (!device->context || !cuda_enter_to_release(device)) return;
  if (device->pool) {
    code =
        driver->stream_wait(device->memory_stream); /* completes the frees in the stream's order */
    if (!cuda_is_fatal(code)) code = driver->pool_destroy(device->pool);
  }
  if (device->memory_stream && !cuda_is_fatal(code))
    code = driver->stream_destroy(device->memory_stream);
  if (cuda_is_fatal(code)) return;
  driver->context_set(NULL); /* the next call may destroy the context */
  driver->context_release(device->id);
}

void cuda_device_close(void *closed) {
  cuda_device *device = closed;
  builder_close(&device->builder);
  cuda_libraries_close(device);
  cuda_staging_release(device);
  cuda_clock_release(device);
  release(device);
  pthread_cond_destroy(&device->staging_returned);
  pthread_mutex_destroy(&device->clock_mutex);
  pthread_mutex_destroy(&device->staging_mutex);
  pthread_mutex_destroy(&device->lost_mutex);
  builder_free(&device->builder, device);
}
