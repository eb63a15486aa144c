/* SPDX-License-Identifier: MIT */
/* The OpenCL module's vtable, and its start. */
#include "opencl.h"
#include "core/platform/names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- The library --------------------------------------------------------------------------- */

#define LOADER_NAME                                                                                \
  PLATFORM_NAME_OF("libOpenCL.so.1", "OpenCL.dll",                                                 \
                   "/System/Library/Frameworks/OpenCL.framework/OpenCL")

#define OPENCL_ROW(function) {#function, offsetof(opencl_library, function)},

static const library_row required[] = {OPENCL_FUNCTIONS(OPENCL_ROW)};
static const library_row optional[] = {OPENCL_OPTIONAL_FUNCTIONS(OPENCL_ROW)};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static opencl_library library;
static bool loaded;

static bool load(char *reason, size_t reason_bytes, bool *memory_short) {
  errno = 0;
  void *handle = dlopen(LOADER_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) {
    *memory_short = errno == ENOMEM;
    const char *words = dlerror();
    snprintf(reason, reason_bytes, "%s", words ? words : "cannot load " LOADER_NAME);
    return false;
  }
  const char *missing =
      library_find(handle, &library, required, sizeof required / sizeof *required);
  if (missing) {
    snprintf(reason, reason_bytes, LOADER_NAME " lacks %s: it is older than OpenCL 1.2", missing);
    dlclose(handle);
    return false;
  }
  library_find(handle, &library, optional, sizeof optional / sizeof *optional);
  return true;
}

const opencl_library *opencl_load(char *reason, size_t reason_bytes, bool *memory_short) {
  *memory_short = false;
  pthread_mutex_lock(&mutex);
  if (!loaded) loaded = load(reason, reason_bytes, memory_short);
  const bool usable = loaded;
  pthread_mutex_unlock(&mutex);
  return usable ? &library : NULL;
}

/* ---- The vtable ---------------------------------------------------------------------------- */

/* Drivers initialise themselves at the first query, and some (PoCL 3.1) fail if two threads query
 * at once. */
static pthread_mutex_t first_questions = PTHREAD_MUTEX_INITIALIZER;

static compute_status module_open(const compute_services *services, void **result) {
  char reason[256];
  bool memory_short;
  const opencl_library *cl = opencl_load(reason, sizeof reason, &memory_short);
  if (memory_short) return opencl_fail_memory(services, "the OpenCL loader");
  if (!cl)
    return services->fail(services->host, COMPUTE_ERROR_MISSING_LIBRARY, 0,
                          PLATFORM_NAME("install the OpenCL loader: package ocl-icd-libopencl1",
                                        "install the driver of the GPU's maker"),
                          "opencl: no OpenCL loader: %s", reason);
  opencl_instance *instance = services->allocate(services->host, sizeof *instance, 16);
  if (!instance) return opencl_fail_memory(services, "the module");
  instance->services = services;
  instance->cl = cl;
  pthread_mutex_lock(&first_questions);
  const compute_status status = opencl_enumerate(instance);
  if (status == COMPUTE_OK || status == COMPUTE_ERROR_NO_DEVICE) opencl_remember(instance);
  pthread_mutex_unlock(&first_questions);
  if (status != COMPUTE_OK) {
    opencl_places_release(instance);
    services->release(services->host, instance);
    return status;
  }
  *result = instance;
  return COMPUTE_OK;
}

static void module_close(void *closed) {
  opencl_instance *instance = closed;
  const compute_services *services = instance->services;
  opencl_places_release(instance);
  services->release(services->host, instance);
}

static compute_status device_open(void *instance, uint32_t index, void **device) {
  pthread_mutex_lock(&first_questions);
  const compute_status status = opencl_device_open(instance, index, device);
  pthread_mutex_unlock(&first_questions);
  return status;
}

static uint32_t device_count(void *instance) {
  return ((const opencl_instance *)instance)->count;
}

static const compute_backend backend = {
    .struct_size = sizeof(compute_backend),
    .abi_major = COMPUTE_BACKEND_ABI_MAJOR,
    .abi_minor = COMPUTE_BACKEND_ABI_MINOR,
    .name = "opencl",
    .description = "GPUs, accelerators and CPUs with an OpenCL 1.2 driver",
    .version = COMPUTE_VERSION_TEXT,
    .open = module_open,
    .close = module_close,
    .device_count = device_count,
    .device_open = device_open,
    .device_close = opencl_device_close,
    .device_describe = opencl_device_describe,
    .memory_allocate = opencl_memory_allocate,
    .memory_release = opencl_memory_release,
    .memory_import = opencl_memory_import,
    .queue_create = opencl_queue_create,
    .queue_destroy = opencl_queue_destroy,
    .queue_wait = opencl_queue_wait,
    .event_record = opencl_event_record,
    .event_destroy = opencl_event_destroy,
    .event_wait = opencl_event_wait,
    .event_query = opencl_event_query,
    .queue_wait_event = opencl_queue_wait_event,
    .upload = opencl_upload,
    .download = opencl_download,
    .copy = opencl_copy,
    .supports = opencl_supports,
    .kernel_prepare = opencl_kernel_prepare,
    .kernel_destroy = opencl_kernel_destroy,
    .kernel_describe = opencl_kernel_describe,
    .enqueue = opencl_enqueue,
    .can_wait = opencl_can_wait,
    .device_target = opencl_device_target,
    .kernel_prepare_tuned = opencl_kernel_prepare_tuned,
    .implementation_name = opencl_implementation_name,
    .build_statistics = opencl_build_statistics,
    .custom_build = opencl_custom_build,
    .custom_destroy = opencl_custom_destroy,
    .custom_launch = opencl_custom_launch,
    .timer_record = opencl_timer_record,
    .timer_read = opencl_timer_read,
    .timer_destroy = opencl_timer_destroy,
    .host_allocate = opencl_host_allocate,
    .host_release = opencl_host_release,
    .host_register = opencl_host_register,
    .host_unregister = opencl_host_unregister,
    .device_recover = opencl_device_recover,
    .queue_label = opencl_queue_label,
    .memory_export = opencl_memory_export,
    .memory_adopt = opencl_memory_adopt,
    .queue_flush = opencl_queue_flush,
};

const compute_backend *compute_backend_entry(uint32_t core_abi_major, uint32_t core_abi_minor) {
  (void)core_abi_major;
  (void)core_abi_minor;
  return &backend;
}
