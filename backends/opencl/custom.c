/* SPDX-License-Identifier: MIT */
/* The user's custom kernels: their source and arguments are passed on unchanged. */
#include "opencl.h"

#include <stdio.h>
#include <string.h>

typedef struct custom_kernel {
  builder_program *program;
  opencl_entry *entry;
  char *name;
  uint32_t generation; /* the device's generation at creation */
} custom_kernel;

compute_status opencl_custom_build(void *handle, const char *source, const char *entry,
                                   const char *options, void **result) {
  opencl_device *device = handle;
  build_problem problem;
  const compute_status status = opencl_enter(device);
  if (status != COMPUTE_OK) return status;
  custom_kernel *kernel = builder_allocate(&device->builder, sizeof *kernel);
  if (kernel) kernel->name = builder_duplicate(&device->builder, entry, strlen(entry));
  if (!kernel || !kernel->name) {
    builder_free(&device->builder, kernel);
    return opencl_fail_memory(device->services, "a kernel of the program");
  }
  kernel->generation = opencl_generation(device);
  kernel->program = builder_get(&device->builder, source, strlen(source), options, &problem);
  if (kernel->program)
    kernel->entry =
        (opencl_entry *)builder_entry_get(&device->builder, kernel->program, entry, &problem);
  if (!kernel->entry) {
    opencl_custom_destroy(device, kernel);
    return builder_fail_custom(&device->builder, entry, &problem, CL_INVALID_KERNEL_NAME,
                               "give the name of a kernel function of the source");
  }
  *result = kernel;
  return COMPUTE_OK;
}

void opencl_custom_destroy(void *handle, void *destroyed) {
  opencl_device *device = handle;
  custom_kernel *kernel = destroyed;
  builder_release(&device->builder, kernel->program);
  builder_free(&device->builder, kernel->name);
  builder_free(&device->builder, kernel);
}

/* ---- Arguments ----------------------------------------------------------------------------- */

static compute_status fail_argument(opencl_queue *queue, const custom_kernel *kernel,
                                    uint32_t index, cl_int code) {
  const compute_services *services = queue->device->services;
  if (code == CL_MISALIGNED_SUB_BUFFER_OFFSET)
    return services->fail(
        services->host, COMPUTE_ERROR_UNSUPPORTED, code,
        "pass a dense tensor of its own (compute_tensor_copy), or the offset as a value",
        "opencl: kernel '%.60s', argument %u: device %u addresses buffers only at multiples of "
        "%llu bytes",
        kernel->name, index, queue->device->index,
        (unsigned long long)queue->device->base_alignment);
  return opencl_fail(queue->device, code, "kernel '%.60s', argument %u", kernel->name, index);
}

/* Passes a memory from `offset` on. The queue keeps a sub-buffer until its next wait. */
static cl_int set_memory(opencl_queue *queue, cl_kernel object, uint32_t index,
                         const opencl_memory *memory, uint64_t offset) {
  const opencl_library *cl = queue->device->cl;
  if (!memory) return cl->clSetKernelArg(object, index, sizeof(cl_mem), NULL); /* no elements */
  cl_mem buffer = memory->buffer;
  if (offset > 0) {
    if (offset % queue->device->base_alignment != 0) return CL_MISALIGNED_SUB_BUFFER_OFFSET;
    if (offset >= memory->bytes) return CL_INVALID_ARG_VALUE;
    cl_int code = CL_SUCCESS;
    const cl_buffer_region region = {(size_t)offset, (size_t)(memory->bytes - offset)};
    buffer = cl->clCreateSubBuffer(memory->buffer, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION,
                                   &region, &code);
    if (!buffer) return code ? code : CL_MEM_OBJECT_ALLOCATION_FAILURE;
    opencl_queue_hold(queue, buffer);
  }
  return cl->clSetKernelArg(object, index, sizeof buffer, &buffer);
}

static cl_int set_argument(opencl_queue *queue, cl_kernel object, uint32_t index,
                           const compute_custom_argument *argument) {
  const opencl_library *cl = queue->device->cl;
  if (argument->memory) {
    const opencl_memory *memory = argument->memory->handle;
    /* Shared memory is passed as an ordinary address. */
    if (memory && memory->shared && cl->clSetKernelArgSVMPointer)
      return cl->clSetKernelArgSVMPointer(object, index,
                                          (const char *)memory->shared + argument->offset);
    return set_memory(queue, object, index, memory, argument->offset);
  }
  return cl->clSetKernelArg(object, index, (size_t)argument->bytes, argument->value);
}

/* ---- Launching ----------------------------------------------------------------------------- */

#define MOST_ARGUMENTS 256

static compute_status check_launch(const opencl_queue *queue, const custom_kernel *kernel,
                                   const size_t group[3], uint32_t count) {
  const opencl_device *device = queue->device;
  const compute_services *services = device->services;
  const cl_uint expected = kernel->entry->arguments;
  if ((expected != UINT32_MAX && count != expected) || count > MOST_ARGUMENTS)
    return services->fail(services->host, COMPUTE_ERROR_INVALID_ARGUMENT, 0, NULL,
                          "opencl: kernel '%.60s' has %u arguments but got %u", kernel->name,
                          expected, count);
  const size_t limit = kernel->entry->group_limit;
  bool refused = group[0] > limit || group[1] > limit || group[2] > limit ||
                 group[0] * group[1] > limit || group[0] * group[1] * group[2] > limit;
  for (int i = 0; i < 3; i++) refused |= group[i] > device->target.group_limit_of[i];
  if (!refused) return COMPUTE_OK;
  return services->fail(services->host, COMPUTE_ERROR_INVALID_ARGUMENT, CL_INVALID_WORK_GROUP_SIZE,
                        "launch smaller groups, and more of them",
                        "opencl: device %u refuses groups of %zux%zux%zu items of kernel '%.60s': "
                        "at most %zu, of these %ux%ux%u in each dimension",
                        device->index, group[0], group[1], group[2], kernel->name, limit,
                        device->target.group_limit_of[0], device->target.group_limit_of[1],
                        device->target.group_limit_of[2]);
}

static compute_status launch(opencl_queue *queue, const custom_kernel *kernel, cl_kernel object,
                             const size_t global[3], const size_t group[3],
                             const compute_custom_argument *arguments, uint32_t count) {
  opencl_memory *memories[MOST_ARGUMENTS];
  uint32_t memory_count = 0;
  for (uint32_t i = 0; i < count; i++) {
    const cl_int code = set_argument(queue, object, i, &arguments[i]);
    if (code != CL_SUCCESS) return fail_argument(queue, kernel, i, code);
    if (arguments[i].memory && arguments[i].memory->handle)
      memories[memory_count++] = arguments[i].memory->handle;
  }
  opencl_lane *lane;
  cl_event wait, event = NULL;
  const uint32_t waits =
      opencl_lane_enter(queue, LANE_COMPUTE, memories, memory_count, &lane, &wait);
  const cl_int code = queue->device->cl->clEnqueueNDRangeKernel(
      lane->queue, object, 3, NULL, global, group, waits, waits ? &wait : NULL, &event);
  if (code != CL_SUCCESS)
    return opencl_fail(queue->device, code, "launching kernel '%.60s' on device %u", kernel->name,
                       queue->device->index);
  opencl_lane_submitted(queue, lane, event, memories, memory_count);
  return COMPUTE_OK;
}

compute_status opencl_custom_launch(void *handle, void *launched, const uint32_t groups[3],
                                    const uint32_t group[3],
                                    const compute_custom_argument *arguments, uint32_t count) {
  opencl_queue *queue = handle;
  const custom_kernel *kernel = launched;
  opencl_device *device = queue->device;
  size_t items[3], global[3];
  compute_status status = opencl_enter_queue(queue);
  if (status == COMPUTE_OK && opencl_is_stale(device, kernel->generation))
    status = opencl_fail_stale(device, "kernel");
  for (uint32_t i = 0; i < count && status == COMPUTE_OK; i++)
    status = opencl_enter_memory(device, arguments[i].memory);
  if (status != COMPUTE_OK) return status;
  for (int i = 0; i < 3; i++) {
    items[i] = group[i] ? group[i] : 1;
    global[i] = items[i] * (groups[i] || i == 0 ? groups[i] : 1);
  }
  if (global[0] == 0) return COMPUTE_OK;
  status = check_launch(queue, kernel, items, count);
  if (status != COMPUTE_OK) return status;
  cl_int code = CL_SUCCESS;
  cl_kernel object = opencl_entry_take(device, kernel->entry, &code);
  if (!object) return opencl_fail(device, code, "launching kernel '%.60s'", kernel->name);
  status = launch(queue, kernel, object, global, items, arguments, count);
  opencl_entry_return(device, kernel->entry, object);
  return status;
}
