/* SPDX-License-Identifier: MIT */
/* The CPU module's vtable: mostly thin wrappers. Device and memory are in device.c, each kernel
 * kind in a separate file.
 *
 * Queues are synchronous: a submission is done when the call returns, so there are no events (the
 * core then waits for the queue, at no cost). A queue only stores its first failure for
 * queue_wait. */
#include "core/cpu.h"
#include "core/portable.h"
#include "custom/custom.h"

#include <stdio.h>
#include <string.h>

typedef struct cpu_instance {
  const compute_services *services;
} cpu_instance;

typedef struct cpu_queue {
  cpu_device *device;
  compute_status status; /* first failure since the last wait */
} cpu_queue;

static compute_status queue_keep(cpu_queue *queue, compute_status status) {
  if (queue->status == COMPUTE_OK) queue->status = status;
  return status;
}

/* Empty memory has no host address. It gets a dummy one, because a kernel may add offsets to it. */
static unsigned char *address(const compute_argument *argument) {
  static _Alignas(64) unsigned char empty[64];
  unsigned char *host = argument->memory->host;
  return host ? host + argument->offset : empty;
}

static compute_status cpu_open(const compute_services *services, void **instance) {
  cpu_instance *opened =
      services->allocate(services->host, sizeof(cpu_instance), _Alignof(cpu_instance) * 2);
  if (!opened)
    return services->fail(services->host, COMPUTE_ERROR_OUT_OF_MEMORY, 0, NULL,
                          "cpu: not enough memory to start the module");
  opened->services = services;
  *instance = opened;
  return COMPUTE_OK;
}

static void cpu_close(void *instance) {
  const compute_services *services = ((cpu_instance *)instance)->services;
  services->release(services->host, instance);
}

static uint32_t device_count(void *instance) {
  (void)instance;
  return 1;
}

static compute_status device_open(void *instance, uint32_t index, void **device) {
  const compute_services *services = ((cpu_instance *)instance)->services;
  if (index != 0)
    return services->fail(services->host, COMPUTE_ERROR_NO_DEVICE, 0, NULL,
                          "cpu: device %u does not exist; the only device is 0", index);
  cpu_device *opened;
  const compute_status status = cpu_device_open(services, &opened);
  if (status == COMPUTE_OK) *device = opened;
  return status;
}

static void device_close(void *device) {
  cpu_device_close(device);
}

static compute_status device_describe(void *device, compute_device_info *info) {
  return cpu_device_describe(device, info);
}

static compute_status memory_allocate(void *device, uint64_t bytes, compute_memory *memory) {
  return cpu_memory_allocate(device, bytes, memory);
}

static void memory_release(void *device, compute_memory *memory) {
  cpu_memory_release(device, memory);
}

static compute_status memory_import(void *device, void *data, uint64_t bytes,
                                    compute_memory *memory) {
  return cpu_memory_import(device, data, bytes, memory);
}

static compute_status queue_create(void *device, void **queue) {
  cpu_queue *created = cpu_allocate(device, sizeof *created);
  if (!created) return cpu_out_of_memory(device, sizeof *created);
  created->device = device;
  *queue = created;
  return COMPUTE_OK;
}

static void queue_destroy(void *queue) {
  cpu_release(((cpu_queue *)queue)->device, queue);
}

static compute_status queue_wait(void *handle) {
  cpu_queue *queue = handle;
  const compute_status status = queue->status;
  queue->status = COMPUTE_OK;
  return status;
}

static compute_status upload(void *queue, const compute_argument *destination, const void *source,
                             uint64_t bytes) {
  cpu_copy_bytes(((cpu_queue *)queue)->device, address(destination), source, bytes);
  return COMPUTE_OK;
}

static compute_status download(void *queue, void *destination, const compute_argument *source,
                               uint64_t bytes) {
  cpu_copy_bytes(((cpu_queue *)queue)->device, destination, address(source), bytes);
  return COMPUTE_OK;
}

static compute_status copy(void *queue, const compute_argument *destination,
                           const compute_argument *source, uint64_t bytes) {
  cpu_copy_bytes(((cpu_queue *)queue)->device, address(destination), address(source), bytes);
  return COMPUTE_OK;
}

#define KIND_ROW(code, number, name) [number] = &cpu_##name##_kind,
static const cpu_kind *const kinds[] = {COMPUTE_KERNEL_KINDS(KIND_ROW)};

static bool dtypes_known(const compute_operand *operands, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (operands[i].dtype <= COMPUTE_DTYPE_NONE || operands[i].dtype >= COMPUTE_DTYPE_COUNT)
      return false;
  return true;
}

/* The device that prepares a kernel with such demands; NULL if there is none. */
static cpu_device *device_for(cpu_device *device, uint32_t demands) {
  return demands & COMPUTE_DEMAND_PORTABLE ? device->portable : device;
}

static const char *refuse_portable(const cpu_device *device, const compute_kernel_descriptor *d) {
  if (!device->portable) return "this build has no portable kernels";
  return cpu_portable_refuse(d);
}

static bool supports(void *device, const compute_kernel_descriptor *descriptor, char *reason,
                     size_t reason_bytes) {
  const char *problem = NULL;
  if ((unsigned)descriptor->kind >= sizeof kinds / sizeof kinds[0] || !kinds[descriptor->kind])
    problem = "the CPU module does not know this kind of kernel";
  else if (!dtypes_known(descriptor->inputs, descriptor->input_count) ||
           !dtypes_known(descriptor->outputs, descriptor->output_count))
    problem = "the CPU module does not know one of the dtypes";
  else if (kinds[descriptor->kind]->refuse)
    problem = kinds[descriptor->kind]->refuse(descriptor);
  if (!problem && descriptor->demands & COMPUTE_DEMAND_PORTABLE)
    problem = refuse_portable(device, descriptor);
  if (problem && reason && reason_bytes) snprintf(reason, reason_bytes, "%s", problem);
  return !problem;
}

static compute_status kernel_prepare(void *handle, const compute_kernel_descriptor *descriptor,
                                     void **kernel) {
  cpu_device *device = handle;
  char reason[128];
  if (!supports(device, descriptor, reason, sizeof reason))
    return device->services->fail(device->services->host, COMPUTE_ERROR_UNSUPPORTED, 0, NULL, "%s",
                                  reason);
  cpu_kernel *prepared = NULL;
  const compute_status status = cpu_kind_prepare(
      kinds[descriptor->kind], device_for(device, descriptor->demands), descriptor, &prepared);
  if (status == COMPUTE_OK) *kernel = prepared;
  return status;
}

static void kernel_destroy(void *device, void *handle) {
  (void)device;
  cpu_kernel *kernel = handle;
  cpu_kernel_destroy(kernel);
}

static void kernel_describe(void *device, void *kernel, char *text, size_t text_bytes) {
  (void)device;
  if (text_bytes) snprintf(text, text_bytes, "%s", ((const cpu_kernel *)kernel)->description);
}

static compute_status enqueue(void *handle, void *kernel_handle, const compute_argument *arguments,
                              uint32_t count) {
  cpu_queue *queue = handle;
  const cpu_kernel *kernel = kernel_handle;
  const compute_services *services = queue->device->services;
  void *pointers[COMPUTE_MAX_OPERANDS];
  if (count > COMPUTE_MAX_OPERANDS)
    return queue_keep(queue, services->fail(services->host, COMPUTE_ERROR_INVALID_ARGUMENT, 0, NULL,
                                            "cpu: a kernel takes at most %d arguments, not %u",
                                            COMPUTE_MAX_OPERANDS, count));
  for (uint32_t i = 0; i < count; i++) pointers[i] = address(&arguments[i]);
  return queue_keep(queue, kernel->run(kernel, pointers));
}

static uint64_t kernel_packed_bytes(void *device, void *handle, uint32_t input, uint64_t *form) {
  (void)device;
  const cpu_kernel *kernel = handle;
  return kernel->kind->packed_bytes ? kernel->kind->packed_bytes(kernel, input, form) : 0;
}

/* Misaligned elements, for example in a file, are copied first. */
static compute_status kernel_pack(void *handle, void *kernel_handle, uint32_t input,
                                  const compute_argument *packed, const compute_argument *source) {
  cpu_queue *queue = handle;
  const cpu_kernel *kernel = kernel_handle;
  const void *from = address(source);
  void *copy = NULL;
  if ((uintptr_t)from % sizeof(double) != 0) {
    const uint64_t bytes = source->memory->bytes - source->offset;
    copy = cpu_allocate(queue->device, (size_t)bytes);
    if (!copy) return queue_keep(queue, cpu_out_of_memory(queue->device, bytes));
    cpu_copy_bytes(queue->device, copy, from, bytes);
    from = copy;
  }
  const compute_status status = kernel->kind->pack(kernel, input, from, address(packed));
  cpu_release(queue->device, copy);
  return queue_keep(queue, status);
}

static compute_status custom_launch(void *handle, void *kernel, const uint32_t groups[3],
                                    const uint32_t group[3],
                                    const compute_custom_argument *arguments, uint32_t count) {
  cpu_queue *queue = handle;
  return queue_keep(queue, cpu_custom_run(queue->device, kernel, groups, group, arguments, count));
}

static const compute_backend backend = {
    .struct_size = sizeof(compute_backend),
    .abi_major = COMPUTE_BACKEND_ABI_MAJOR,
    .abi_minor = COMPUTE_BACKEND_ABI_MINOR,
    .name = "cpu",
    .description = "the processor itself: vector code chosen at run time, OpenBLAS, a thread pool",
    .version = COMPUTE_VERSION_TEXT,
    .open = cpu_open,
    .close = cpu_close,
    .device_count = device_count,
    .device_open = device_open,
    .device_close = device_close,
    .device_describe = device_describe,
    .memory_allocate = memory_allocate,
    .memory_release = memory_release,
    .memory_import = memory_import,
    .queue_create = queue_create,
    .queue_destroy = queue_destroy,
    .queue_wait = queue_wait,
    .upload = upload,
    .download = download,
    .copy = copy,
    .supports = supports,
    .kernel_prepare = kernel_prepare,
    .kernel_destroy = kernel_destroy,
    .kernel_describe = kernel_describe,
    .enqueue = enqueue,
    .custom_build = cpu_custom_build,
    .custom_destroy = cpu_custom_destroy,
    .custom_launch = custom_launch,
    .flags = COMPUTE_BACKEND_ENVIRONMENT_SAFE /* used by blas.c */ |
             COMPUTE_BACKEND_PORTABLE_KERNELS | COMPUTE_BACKEND_CHANNELS_LAST,
    .kernel_packed_bytes = kernel_packed_bytes,
    .kernel_pack = kernel_pack,
};

const compute_backend *compute_backend_entry(uint32_t core_abi_major, uint32_t core_abi_minor) {
  (void)core_abi_minor;
  return core_abi_major == COMPUTE_BACKEND_ABI_MAJOR ? &backend : NULL;
}
