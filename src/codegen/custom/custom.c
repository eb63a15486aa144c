/* SPDX-License-Identifier: MIT */
/* Kernels from a user's source. This file checks the calls; the backend reports errors of the
 * compiler and the device. */
#include "compute/kernel.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"
#include "core/device/driver_call.h"
#include "codegen/generate/generate.h"
#include "core/device/collector.h"
#include "core/tensor/tensor.h"

static object_kind kernel_object = {.name = "kernel", .plural = "kernels"};

#define ARGUMENTS_AT_HAND 16   /* up to this many, a launch allocates nothing */
#define ARGUMENTS_MAX     1024 /* more than any device supports */

struct compute_kernel {
  compute_device *device;
  void *handle;
  char name[96]; /* name of its function, for the profile */
};

static const char operation_compile[] = "compute_kernel_compile";
static const char operation_launch[] = "compute_kernel_launch";

/* ---- Compiling ----------------------------------------------------------------------------- */

static bool is_identifier(const char *text) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  static const char digits[] = "0123456789";
  size_t length = 0;
  while (text[length] && (strchr(letters, text[length]) || strchr(digits, text[length]))) length++;
  return length > 0 && text[length] == '\0' && !strchr(digits, text[0]);
}

static bool takes_portable_only(const compute_device *device) {
  return (device->backend->flags & COMPUTE_BACKEND_PORTABLE_KERNELS) != 0;
}

static compute_status check_compile(const compute_device *device, const char *source,
                                    const char *entry, uint32_t flags, compute_kernel **kernel) {
  const compute_context *context = device ? device->context : NULL;
  if (!device || !source || !entry || !kernel) {
    const char *name = !device ? "device" : !source ? "source" : !entry ? "entry" : "kernel";
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation_compile, "%s is NULL", name);
  }
  if (flags & ~(uint32_t)COMPUTE_KERNEL_PORTABLE) {
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation_compile,
                     "unknown kernel flags 0x%" PRIx32, flags & ~(uint32_t)COMPUTE_KERNEL_PORTABLE);
  }
  if (source[0] == '\0') {
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation_compile,
                     "the source is empty");
  }
  if (!is_identifier(entry)) {
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation_compile,
                     "the entry '%.80s' is not a function name", entry);
  }
  const compute_backend *backend = device->backend;
  if (!backend->custom_build || !backend->custom_destroy || !backend->custom_launch) {
    return error_set_native(context, COMPUTE_ERROR_UNSUPPORTED, 0, operation_compile,
                            "choose a device with a compiler, such as opencl:0; compute-info lists "
                            "the devices and what they support",
                            "%s (backend %s) has no compiler for custom kernels", device->info.name,
                            device->info.backend);
  }
  if (takes_portable_only(device) && !(flags & COMPUTE_KERNEL_PORTABLE)) {
    return error_set_native(context, COMPUTE_ERROR_UNSUPPORTED, 0, operation_compile,
                            "write the source in libcompute's dialect (kernels/README.md) and pass "
                            "COMPUTE_KERNEL_PORTABLE",
                            "%s has no language of its own for kernels", device->info.name);
  }
  return COMPUTE_OK;
}

/* Puts the definitions of the dialect before the source. Line numbers in the compiler's log still
 * refer to the user's text. */
static compute_status make_portable(compute_device *device, const char *source, const char *entry,
                                    char **portable) {
  compute_target target = {.struct_size = sizeof target};
  if (!device->backend->device_target) {
    return error_set_native(device->context, COMPUTE_ERROR_UNSUPPORTED, 0, operation_compile,
                            "write the source in the device's own language, without "
                            "COMPUTE_KERNEL_PORTABLE",
                            "%s does not report a kernel dialect", device->info.name);
  }
  compute_status status = device->backend->device_target(device->handle, &target);
  if (status) return status;
  const char *dialect = generate_dialect(target.dialect);
  size_t bytes = strlen(dialect) + strlen(entry) + strlen(source) + 32;
  *portable = base_allocate(bytes, 1);
  if (!*portable) {
    return error_set(device->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation_compile,
                     "out of memory for the source of %s", entry);
  }
  snprintf(*portable, bytes, "%s\n#line 1 \"%s\"\n%s", dialect, entry, source);
  return COMPUTE_OK;
}

compute_status compute_kernel_compile(compute_device *device, const char *source, const char *entry,
                                      const char *options, uint32_t flags,
                                      compute_kernel **kernel) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(device, context);
  if (kernel) *kernel = NULL;
  compute_status status = check_compile(device, source, entry, flags, kernel);
  if (status) return status;
  char *portable = NULL;
  compute_kernel *made = base_allocate(1, sizeof *made);
  if (!made) {
    return error_set(device->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation_compile,
                     "out of memory for the kernel %s", entry);
  }
  made->device = device;
  snprintf(made->name, sizeof made->name, "kernel %s", entry);
  if (flags & COMPUTE_KERNEL_PORTABLE && !takes_portable_only(device))
    status = make_portable(device, source, entry, &portable);
  if (!status) {
    const int64_t begin = profile_is_on(device->context) ? clock_now() : 0;
    DRIVER_CALL(device->backend);
    status = device->backend->custom_build(device->handle, portable ? portable : source, entry,
                                           options, &made->handle);
    if (begin)
      profile_host(device->context,
                   profile_entry_of(device->context, device, PROFILE_BUILD, "build", made->name),
                   begin, (profile_work){0});
  }
  base_release(portable);
  if (status) {
    base_release(made);
    return status;
  }
  context_object_created(device->context, &kernel_object, made);
  *kernel = made;
  return COMPUTE_OK;
}

static void destroy_handle(compute_device *device, void *handle) {
  device->backend->custom_destroy(device->handle, handle);
}

void compute_kernel_release(compute_kernel *kernel) {
  if (IS_INHERITED(kernel, device->context)) return;
  if (!kernel) return;
  compute_device *device = kernel->device;
  if (!device_release_later(device, destroy_handle, kernel->handle))
    destroy_handle(device, kernel->handle);
  context_object_leaves(device->context, kernel);
  base_release(kernel);
  context_object_released(device->context, &kernel_object);
}

/* ---- Launching ----------------------------------------------------------------------------- */

static compute_status check_launch(const compute_kernel *kernel, const compute_launch *launch,
                                   const compute_kernel_argument *arguments, size_t count,
                                   const compute_queue *queue) {
  const compute_context *context = kernel ? kernel->device->context : NULL;
  if (!kernel || !launch || (!arguments && count > 0)) {
    const char *name = !kernel ? "kernel" : !launch ? "launch" : "arguments";
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation_launch, "%s is NULL", name);
  }
  if (count > ARGUMENTS_MAX) {
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation_launch,
                     "%zu arguments; at most %d are allowed", count, ARGUMENTS_MAX);
  }
  if (!queue || queue->device == kernel->device) return COMPUTE_OK;
  if (queue->device->context != context) {
    return error_set(context, COMPUTE_ERROR_WRONG_CONTEXT, operation_launch,
                     "the queue and the kernel belong to different contexts");
  }
  return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation_launch,
                   "the queue is on %s, the kernel on %s", queue->device->info.name,
                   kernel->device->info.name);
}

static compute_status check_tensor(const compute_device *device, const compute_tensor *tensor,
                                   size_t index) {
  const compute_device *place = tensor->buffer->device;
  if (place == device) return COMPUTE_OK;
  if (place->context != device->context) {
    return error_set(device->context, COMPUTE_ERROR_WRONG_CONTEXT, operation_launch,
                     "argument %zu is a tensor of another context", index);
  }
  return error_set_native(device->context, COMPUTE_ERROR_INVALID_ARGUMENT, 0, operation_launch,
                          "copy it with compute_tensor_to_device",
                          "argument %zu is a tensor on %s, but the kernel is on %s", index,
                          place->info.name, device->info.name);
}

static compute_status translate(const compute_device *device, const compute_kernel_argument *given,
                                size_t index, compute_custom_argument *argument) {
  if (given->tensor && (given->value || given->bytes)) {
    return error_set(device->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation_launch,
                     "argument %zu is a tensor and also %s", index,
                     given->value ? "a value" : "local memory");
  }
  if (given->tensor) {
    compute_argument address = tensor_argument(given->tensor);
    *argument = (compute_custom_argument){.memory = address.memory, .offset = address.offset};
    return check_tensor(device, given->tensor, index);
  }
  if (given->bytes == 0) {
    return given->value
               ? error_set(device->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation_launch,
                           "argument %zu is a value of 0 bytes", index)
               : error_set(
                     device->context, COMPUTE_ERROR_NULL_POINTER, operation_launch,
                     "argument %zu is empty: its tensor is NULL, or it has 0 bytes of local memory",
                     index);
  }
  *argument = (compute_custom_argument){.value = given->value, .bytes = given->bytes};
  return COMPUTE_OK;
}

static compute_status submit(const compute_kernel *kernel, const compute_launch *launch,
                             const compute_custom_argument *arguments, uint32_t count,
                             compute_queue *queue) {
  compute_device *device = kernel->device;
  uint32_t groups[3], group[3];
  for (int i = 0; i < 3; i++) {
    groups[i] = launch->groups[i] ? launch->groups[i] : 1;
    group[i] = launch->group[i] ? launch->group[i] : 1;
  }
  profile_mark mark = {0};
  compute_status status = device_check(device, operation_launch);
  if (status) return status;
  if (profile_is_on(device->context)) profile_begin(queue, &mark);
  status = device->backend->custom_launch(queue->handle, kernel->handle, groups, group, arguments,
                                          count);
  if (mark.on)
    profile_end(
        &mark, status,
        profile_entry_of(device->context, device, PROFILE_KERNEL, kernel->name, "of the caller"),
        (profile_work){0});
  return status;
}

static compute_status submit_and_wait(const compute_kernel *kernel, const compute_launch *launch,
                                      const compute_custom_argument *arguments, uint32_t count) {
  compute_device *device = kernel->device;
  pthread_mutex_lock(&device->internal_mutex);
  compute_status submitted = submit(kernel, launch, arguments, count, device->internal_queue);
  compute_status waited = compute_queue_wait(device->internal_queue);
  pthread_mutex_unlock(&device->internal_mutex);
  return submitted ? submitted : waited;
}

compute_status compute_kernel_launch(compute_kernel *kernel, const compute_launch *launch,
                                     const compute_kernel_argument *arguments, size_t count,
                                     compute_queue *queue) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(kernel, device->context);
  compute_status status = check_launch(kernel, launch, arguments, count, queue);
  if (status) return status;
  compute_custom_argument at_hand[ARGUMENTS_AT_HAND], *translated = at_hand;
  if (count > ARGUMENTS_AT_HAND) translated = base_allocate(count, sizeof *translated);
  if (!translated) {
    return error_set(kernel->device->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation_launch,
                     "out of memory for %zu arguments", count);
  }
  for (size_t i = 0; i < count && !status; i++) {
    status = translate(kernel->device, &arguments[i], i, &translated[i]);
  }
  if (!status && launch->groups[0] > 0) {
    status = queue ? submit(kernel, launch, translated, (uint32_t)count, queue)
                   : submit_and_wait(kernel, launch, translated, (uint32_t)count);
    if (!status && queue) status = queue_flush(queue);
  }
  if (translated != at_hand) base_release(translated);
  return status;
}
