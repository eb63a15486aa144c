/* SPDX-License-Identifier: MIT */
/* Texts for the driver's codes, and the state of a lost device.
 *
 * After an illegal address, a launch timeout, an uncorrectable memory error or a similar fault,
 * every call in the context fails with the same code, also for vendor libraries in the same
 * process. So the first code is stored together with the action. From then on the driver is not
 * called: each call reports LOST with the first cause, and releases only forget their objects. */
#include "cuda.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

typedef struct error_row {
  cuda_result code;
  compute_status status;
  const char *words;
  const char *remedy;
} error_row;

static const error_row rows[] = {
    {CUDA_INVALID_VALUE, COMPUTE_ERROR_INTERNAL, "the driver rejects an argument", NULL},
    {CUDA_OUT_OF_MEMORY, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY, "out of device memory",
     "release tensors, use smaller batches, or close other programs on this GPU"},
    {CUDA_DEINITIALIZED, COMPUTE_ERROR_DEVICE_LOST, "the driver is shutting down",
     "close the context before the process ends"},
    {CUDA_DEVICE_UNAVAILABLE, COMPUTE_ERROR_DISABLED, "the GPU is not available",
     "end the program that uses it exclusively, or nvidia-smi -c DEFAULT"},
    {CUDA_NO_DEVICE, COMPUTE_ERROR_NO_DEVICE, "no GPU", NULL},
    {CUDA_INVALID_IMAGE, COMPUTE_ERROR_COMPILATION, "the driver refuses the kernel's binary",
     "update the NVIDIA driver, or install the NVRTC of its CUDA version"},
    {CUDA_NO_BINARY_FOR_GPU, COMPUTE_ERROR_COMPILATION, "the binary is for another GPU", NULL},
    {CUDA_INVALID_PTX, COMPUTE_ERROR_COMPILATION, "the driver refuses the compiler's text", NULL},
    {CUDA_UNSUPPORTED_PTX_VERSION, COMPUTE_ERROR_COMPILATION,
     "the compiler is newer than the driver",
     "update the NVIDIA driver, or install the NVRTC of its CUDA version"},
    {CUDA_ECC_UNCORRECTABLE, COMPUTE_ERROR_DEVICE_LOST, "an uncorrectable memory error",
     "reset the GPU, or use another one"},
    {CUDA_ILLEGAL_ADDRESS, COMPUTE_ERROR_DEVICE_LOST, "a kernel used an illegal address",
     "start a new process; if only libcompute's own kernels ran, report it"},
    {CUDA_LAUNCH_OUT_OF_RESOURCES, COMPUTE_ERROR_LAUNCH,
     "the kernel needs more registers or threads than the GPU has", NULL},
    {CUDA_LAUNCH_TIMEOUT, COMPUTE_ERROR_DEVICE_LOST, "a kernel exceeded the time limit",
     "use smaller batches, or a GPU that drives no display"},
    {CUDA_NOT_SUPPORTED, COMPUTE_ERROR_UNSUPPORTED, "not supported by the driver here", NULL},
};

enum { ROWS = sizeof rows / sizeof *rows };

/* Codes that end all use of CUDA in the process. */
static const cuda_result fatal[] = {214, 220, 226, 700, 702, 710, 714,
                                    715, 716, 717, 718, 719, 911};

bool cuda_is_fatal(cuda_result code) {
  for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
    if (fatal[i] == code) return true;
  return false;
}

const char *cuda_code_name(const cuda_driver *driver, cuda_result code) {
  const char *name = NULL;
  if (driver->error_name(code, &name) != CUDA_OK || !name) name = "unknown code";
  return name;
}

static const error_row *row_of(cuda_result code) {
  static const error_row sticky = {0, COMPUTE_ERROR_DEVICE_LOST, "the GPU stopped",
                                   "start a new process"};
  static const error_row other = {0, COMPUTE_ERROR_LAUNCH, "the driver failed", NULL};
  for (size_t i = 0; i < ROWS; i++)
    if (rows[i].code == code) return &rows[i];
  return cuda_is_fatal(code) ? &sticky : &other;
}

compute_status cuda_code_status(cuda_result code) {
  return row_of(code)->status;
}

const char *cuda_code_remedy(cuda_result code) {
  return row_of(code)->remedy;
}

/* Stores the first cause. */
static void lose(cuda_device *device, cuda_result code, const char *what) {
  pthread_mutex_lock(&device->lost_mutex);
  if (atomic_load_explicit(&device->lost, memory_order_relaxed) == CUDA_OK) {
    snprintf(device->lost_where, sizeof device->lost_where, "%s", what);
    atomic_store_explicit(&device->lost, code, memory_order_release);
  }
  pthread_mutex_unlock(&device->lost_mutex);
}

void cuda_notice(cuda_device *device, cuda_result code, const char *what) {
  if (cuda_is_fatal(code)) lose(device, code, what);
}

compute_status cuda_fail(cuda_device *device, cuda_result code, const char *format, ...) {
  char what[160];
  va_list list;
  va_start(list, format);
  vsnprintf(what, sizeof what, format, list);
  va_end(list);
  cuda_notice(device, code, what);
  const error_row *row = row_of(code);
  return device->services->fail(device->services->host, row->status, code, row->remedy,
                                "cuda:%u: %s: %s (%s, %d)", device->index, what, row->words,
                                cuda_code_name(device->driver, code), code);
}

compute_status cuda_fail_memory(const compute_services *services, const char *what) {
  return services->fail(services->host, COMPUTE_ERROR_OUT_OF_MEMORY, 0, NULL,
                        "cuda: not enough host memory for %s", what);
}

static compute_status fail_lost(const cuda_device *device, cuda_result code) {
  const error_row *row = row_of(code);
  return device->services->fail(device->services->host, COMPUTE_ERROR_DEVICE_LOST, code,
                                row->remedy, "cuda:%u is lost since %s: %s (%s, %d)", device->index,
                                device->lost_where, row->words,
                                cuda_code_name(device->driver, code), code);
}

static compute_status fail_forked(const cuda_device *device) {
  return device->services->fail(
      device->services->host, COMPUTE_ERROR_INVALID_STATE, 0,
      "use CUDA in one process only, or start the child with exec",
      "cuda:%u was opened by the parent process; CUDA does not survive fork", device->index);
}

compute_status cuda_enter(cuda_device *device) {
  if (getpid() != device->process) return fail_forked(device);
  const cuda_result lost = atomic_load_explicit(&device->lost, memory_order_acquire);
  if (lost != CUDA_OK) return fail_lost(device, lost);
  cuda_context current = NULL;
  cuda_result code = device->driver->context_get(&current);
  if (code == CUDA_OK && current == device->context) return COMPUTE_OK;
  code = device->driver->context_set(device->context);
  return code == CUDA_OK ? COMPUTE_OK : cuda_fail(device, code, "entering the context");
}

compute_status cuda_tell_lost(cuda_device *device, compute_status status) {
  if (status != COMPUTE_ERROR_DEVICE_LOST) return status;
  const compute_status told = cuda_enter(device);
  return told == COMPUTE_OK ? status : told;
}

bool cuda_enter_to_release(cuda_device *device) {
  if (getpid() != device->process) return false;
  if (atomic_load_explicit(&device->lost, memory_order_acquire) != CUDA_OK) return false;
  const cuda_result code = device->driver->context_set(device->context);
  cuda_notice(device, code, "entering the context");
  return code == CUDA_OK;
}
