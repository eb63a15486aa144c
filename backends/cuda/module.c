/* SPDX-License-Identifier: MIT */
/* The CUDA module's vtable and start. Most of the code explains why the module does not start. */
#include <stdio.h>

#include "cuda.h"

/* The library exists but is not a driver: the toolkit contains a stub to link with. */
static compute_status fail_stub(const compute_services *services) {
  return services->fail(
      services->host, COMPUTE_ERROR_MISSING_LIBRARY, CUDA_STUB_LIBRARY,
      "install the NVIDIA driver, or remove the toolkit's folder stubs from LD_LIBRARY_PATH",
      "cuda: libcuda.so.1 is the toolkit's stub, not a driver");
}

static compute_status fail_no_device(const compute_services *services) {
  const char *visible = services->variable(services->host, "CUDA_VISIBLE_DEVICES");
  if (visible)
    return services->fail(services->host, COMPUTE_ERROR_NO_DEVICE, CUDA_NO_DEVICE,
                          "unset CUDA_VISIBLE_DEVICES, or set it to GPUs that nvidia-smi lists",
                          "cuda: there is a driver but no GPU; CUDA_VISIBLE_DEVICES=%.100s may "
                          "hide it",
                          visible);
  return services->fail(services->host, COMPUTE_ERROR_NO_DEVICE, CUDA_NO_DEVICE,
                        "check what nvidia-smi lists; an empty CUDA_VISIBLE_DEVICES hides all GPUs",
                        "cuda: there is a driver but no GPU");
}

static compute_status fail_start(const compute_services *services, int32_t code,
                                 const char *reason) {
  switch (code) {
  case CUDA_OK:
    return services->fail(services->host, COMPUTE_ERROR_MISSING_LIBRARY, 0,
                          "install the NVIDIA driver, for CUDA 11.3 or newer",
                          "cuda: no usable NVIDIA driver: %s", reason);
  case CUDA_HOST_MEMORY_SHORT: return cuda_fail_memory(services, "the NVIDIA driver");
  case CUDA_STUB_LIBRARY: return fail_stub(services);
  case CUDA_NO_DEVICE: return fail_no_device(services);
  case CUDA_INVALID_DEVICE:
    return services->fail(services->host, COMPUTE_ERROR_NO_DEVICE, code,
                          "set CUDA_VISIBLE_DEVICES to GPUs that nvidia-smi lists", "cuda: %s",
                          reason);
  case CUDA_NOT_INITIALIZED:
    return services->fail(services->host, COMPUTE_ERROR_BACKEND_LOAD, code,
                          "use CUDA in one process only, or start the child with exec", "cuda: %s",
                          reason);
  case CUDA_SYSTEM_DRIVER_MISMATCH:
    return services->fail(services->host, COMPUTE_ERROR_BACKEND_LOAD, code,
                          "restart the machine, so that the new driver is in use throughout",
                          "cuda: libcuda.so.1 and the kernel's driver are of different versions");
  default:
    return services->fail(services->host, COMPUTE_ERROR_BACKEND_LOAD, code,
                          "check that nvidia-smi works", "cuda: %s", reason);
  }
}

static compute_status module_open(const compute_services *services, void **result) {
  char reason[256] = "";
  int32_t code = CUDA_OK, count = 0;
  const cuda_driver *driver = cuda_driver_load(&code, reason, sizeof reason);
  if (!driver) return fail_start(services, code, reason);
  code = driver->device_count(&count);
  if (code == CUDA_OK && count <= 0) code = CUDA_NO_DEVICE;
  if (code != CUDA_OK) {
    snprintf(reason, sizeof reason, "the driver does not list its GPUs (%s)",
             cuda_code_name(driver, code));
    return fail_start(services, code, reason);
  }
  cuda_instance *instance = services->allocate(services->host, sizeof *instance, 16);
  if (!instance) return cuda_fail_memory(services, "the module");
  *instance = (cuda_instance){.services = services, .driver = driver, .count = (uint32_t)count};
  *result = instance;
  return COMPUTE_OK;
}

static void module_close(void *closed) {
  const compute_services *services = ((cuda_instance *)closed)->services;
  services->release(services->host, closed);
}

/* A GPU ranks above everything else; a program that names another device need not wait for it. */
static bool can_wait(const compute_services *services) {
  (void)services;
  return false;
}

static uint32_t device_count(void *instance) {
  return ((const cuda_instance *)instance)->count;
}

static const compute_backend backend = {
    .struct_size = sizeof(compute_backend),
    .abi_major = COMPUTE_BACKEND_ABI_MAJOR,
    .abi_minor = COMPUTE_BACKEND_ABI_MINOR,
    .name = "cuda",
    .description = "NVIDIA GPUs",
    .version = COMPUTE_VERSION_TEXT,
    .open = module_open,
    .close = module_close,
    .device_count = device_count,
    .device_open = cuda_device_open,
    .device_close = cuda_device_close,
    .device_describe = cuda_device_describe,
    .memory_allocate = cuda_memory_allocate,
    .memory_release = cuda_memory_release,
    .memory_import = cuda_memory_import,
    .queue_create = cuda_queue_create,
    .queue_destroy = cuda_queue_destroy,
    .queue_wait = cuda_queue_wait,
    .event_record = cuda_event_create,
    .event_destroy = cuda_event_release,
    .event_wait = cuda_event_await,
    .event_query = cuda_event_ask,
    .queue_wait_event = cuda_queue_await_event,
    .upload = cuda_upload,
    .download = cuda_download,
    .copy = cuda_copy,
    .supports = cuda_supports,
    .kernel_prepare = cuda_kernel_prepare,
    .kernel_destroy = cuda_kernel_destroy,
    .kernel_describe = cuda_kernel_describe,
    .enqueue = cuda_enqueue,
    .can_wait = can_wait,
    .device_target = cuda_device_target,
    .kernel_prepare_tuned = cuda_kernel_prepare_tuned,
    .implementation_name = cuda_implementation_name,
    .build_statistics = cuda_build_statistics,
    .custom_build = cuda_custom_build,
    .custom_destroy = cuda_custom_destroy,
    .custom_launch = cuda_custom_launch,
    .copy_from_peer = cuda_copy_from_peer,
    .record_begin = cuda_record_begin,
    .record_end = cuda_record_end,
    .record_submit = cuda_record_submit,
    .record_destroy = cuda_record_destroy,
    .timer_record = cuda_timer_record,
    .timer_read = cuda_timer_read,
    .timer_destroy = cuda_timer_destroy,
    .host_allocate = cuda_host_allocate,
    .host_release = cuda_host_release,
    .host_register = cuda_host_register,
    .host_unregister = cuda_host_unregister,
    .queue_label = cuda_queue_label,
    .memory_export = cuda_memory_export,
    .memory_adopt = cuda_memory_adopt,
    .queue_native = cuda_queue_native,
    .queue_signal = cuda_queue_signal,
    .communicator_offer = cuda_communicator_offer,
    .communicator_identify = cuda_communicator_identify,
    .communicator_open = cuda_communicator_open,
    .communicator_supports = cuda_communicator_supports,
    .communicator_submit = cuda_communicator_submit,
    .communicator_test = cuda_communicator_test,
    .communicator_finish = cuda_communicator_finish,
    .communicator_close = cuda_communicator_close,
    .flags = COMPUTE_BACKEND_STAGES_COPIES,
    /* No device_recover: a code that ends the context ends it for the whole process. */
};

const compute_backend *compute_backend_entry(uint32_t core_abi_major, uint32_t core_abi_minor) {
  (void)core_abi_major;
  (void)core_abi_minor;
  return &backend;
}
