/* SPDX-License-Identifier: MIT */
/* Generated kernels. Shared code of the compiling modules prepares them; this file enqueues them
 * with the driver's kernel objects. CLBlast is a second implementation of GEMM. */
#include <stdio.h>
#include <string.h>

#include "opencl.h"

struct opencl_kernel {
  builder_kernel shared;
  opencl_gemm *gemm;   /* CLBlast's product instead of launches, or NULL */
  uint32_t generation; /* the device's generation at creation */
};

bool opencl_supports(void *handle, const compute_kernel_descriptor *descriptor, char *reason,
                     size_t reason_bytes) {
  return builder_supports(&((opencl_device *)handle)->builder, descriptor, reason, reason_bytes);
}

const char *opencl_implementation_name(void *device, const compute_kernel_descriptor *descriptor,
                                       uint32_t index) {
  return index == 1 && opencl_clblast_serves(device, descriptor, NULL, 0) ? "CLBlast" : NULL;
}

/* ---- Preparing ----------------------------------------------------------------------------- */

void opencl_kernel_destroy(void *handle, void *destroyed) {
  opencl_device *device = handle;
  opencl_kernel *kernel = destroyed;
  if (kernel->gemm) opencl_clblast_destroy(device, kernel->gemm);
  builder_kernel_clear(&device->builder, &kernel->shared);
  builder_free(&device->builder, kernel);
}

static compute_status clblast_prepare(opencl_device *device,
                                      const compute_kernel_descriptor *descriptor,
                                      opencl_kernel *kernel) {
  const compute_services *services = device->services;
  char reason[160] = "";
  if (!opencl_clblast_serves(device, descriptor, reason, sizeof reason))
    return services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, 0, NULL,
                          "opencl: CLBlast cannot run this kernel: %s", reason);
  const compute_status status = opencl_clblast_prepare(device, descriptor, &kernel->gemm);
  if (status != COMPUTE_OK) return status;
  kernel->shared.operands = descriptor->input_count + descriptor->output_count;
  snprintf(kernel->shared.text, sizeof kernel->shared.text, "CLBlast");
  return COMPUTE_OK;
}

static compute_status end(opencl_device *device, compute_status status, opencl_kernel *kernel,
                          void **result) {
  if (status == COMPUTE_OK)
    *result = kernel;
  else
    builder_free(&device->builder, kernel);
  return status;
}

compute_status opencl_kernel_prepare(void *handle, const compute_kernel_descriptor *descriptor,
                                     void **result) {
  opencl_device *device = handle;
  const compute_services *services = device->services;
  compute_status status = opencl_enter(device);
  if (status != COMPUTE_OK) return status;
  opencl_kernel *kernel = builder_allocate(&device->builder, sizeof *kernel);
  if (!kernel) return opencl_fail_memory(services, "a kernel");
  kernel->generation = opencl_generation(device);
  compute_tuning tuning;
  const compute_tuning_source source = builder_tuning(&device->builder, descriptor, &tuning);
  status = COMPUTE_ERROR_UNSUPPORTED;
  if (tuning.implementation == 1) {
    status = clblast_prepare(device, descriptor, kernel);
    if (status != COMPUTE_OK)
      services->log(services->host, COMPUTE_LOG_WARNING, "opencl",
                    "CLBlast, which the tuning asks for, is not available on device %u",
                    device->index);
  }
  if (status != COMPUTE_OK) {
    tuning.implementation = 0;
    status = builder_kernel_fall_back(&device->builder, descriptor,
                                      source == COMPUTE_TUNING_HEURISTIC ? NULL : &tuning,
                                      &kernel->shared);
  }
  return end(device, status, kernel, result);
}

compute_status opencl_kernel_prepare_tuned(void *handle,
                                           const compute_kernel_descriptor *descriptor,
                                           const compute_tuning *tuning, void **result) {
  opencl_device *device = handle;
  if (tuning->implementation > 1)
    return device->services->fail(device->services->host, COMPUTE_ERROR_UNSUPPORTED, 0, NULL,
                                  "opencl: unknown implementation %u", tuning->implementation);
  compute_status status = opencl_enter(device);
  if (status != COMPUTE_OK) return status;
  opencl_kernel *kernel = builder_allocate(&device->builder, sizeof *kernel);
  if (!kernel) return opencl_fail_memory(device->services, "a kernel");
  kernel->generation = opencl_generation(device);
  status = tuning->implementation == 1
               ? clblast_prepare(device, descriptor, kernel)
               : builder_kernel_build(&device->builder, descriptor, tuning, &kernel->shared);
  return end(device, status, kernel, result);
}

void opencl_kernel_describe(void *device, void *kernel, char *text, size_t text_bytes) {
  (void)device;
  snprintf(text, text_bytes, "%s", ((const opencl_kernel *)kernel)->shared.text);
}

/* ---- Enqueueing ---------------------------------------------------------------------------- */

/* The scratch buffers of one enqueue. */
typedef struct scratch {
  cl_mem workspace, fault;
  int64_t fault_offset; /* in words */
} scratch;

/* Sets every argument. The offsets are written to the start of the copied shape. */
static cl_int set_arguments(const opencl_library *cl, cl_kernel object,
                            const builder_launch *launch, const compute_argument *arguments,
                            uint32_t count, const scratch *extra) {
  _Alignas(16) unsigned char shape[BUILDER_SHAPE_BYTES];
  memcpy(shape, launch->shape, launch->shape_bytes);
  cl_int code = CL_SUCCESS;
  for (uint32_t i = 0; i < launch->buffer_count && code == CL_SUCCESS; i++) {
    const compute_generated_buffer *buffer = &launch->buffers[i];
    cl_mem memory = NULL;
    int64_t offset = 0;
    if (buffer->argument == COMPUTE_GENERATED_WORKSPACE) {
      memory = extra->workspace;
    } else if (buffer->argument == COMPUTE_GENERATED_FAULT) {
      memory = extra->fault;
      offset = extra->fault_offset;
    } else if (buffer->argument < count) {
      const compute_argument *argument = &arguments[buffer->argument];
      const opencl_memory *device_memory = argument->memory ? argument->memory->handle : NULL;
      if (device_memory) memory = device_memory->buffer; /* otherwise a tensor without elements */
      if (buffer->element_bytes == 0 || argument->offset % buffer->element_bytes != 0)
        return CL_MISALIGNED_SUB_BUFFER_OFFSET;
      offset = (int64_t)(argument->offset / buffer->element_bytes);
    } else {
      return CL_INVALID_ARG_INDEX;
    }
    memcpy(shape + 8 * i, &offset, sizeof offset);
    code = cl->clSetKernelArg(object, i, sizeof memory, memory ? &memory : NULL);
  }
  if (code == CL_SUCCESS && launch->shape_bytes)
    code = cl->clSetKernelArg(object, launch->buffer_count, launch->shape_bytes, shape);
  return code;
}

static cl_int launch_one(opencl_queue *queue, const builder_launch *launch,
                         const compute_argument *arguments, uint32_t count, const scratch *extra,
                         opencl_memory *const *memories, uint32_t memory_count) {
  opencl_device *device = queue->device;
  const opencl_library *cl = device->cl;
  cl_int code = CL_SUCCESS;
  opencl_entry *entry = (opencl_entry *)launch->entry;
  size_t global[3], group[3];
  cl_uint dimensions = 1;
  for (int i = 0; i < 3; i++) {
    group[i] = launch->group[i];
    global[i] = (size_t)launch->groups[i] * launch->group[i];
    if (global[i] > 1) dimensions = (cl_uint)i + 1;
  }
  cl_kernel object = opencl_entry_take(device, entry, &code);
  if (!object) return code ? code : CL_OUT_OF_HOST_MEMORY;
  code = set_arguments(cl, object, launch, arguments, count, extra);
  if (code == CL_SUCCESS) {
    opencl_lane *lane;
    cl_event wait, event = NULL;
    const uint32_t waits =
        opencl_lane_enter(queue, LANE_COMPUTE, memories, memory_count, &lane, &wait);
    code = cl->clEnqueueNDRangeKernel(lane->queue, object, dimensions, NULL, global, group, waits,
                                      waits ? &wait : NULL, &event);
    if (code == CL_SUCCESS) opencl_lane_submitted(queue, lane, event, memories, memory_count);
  }
  opencl_entry_return(device, entry, object);
  return code;
}

compute_status opencl_enqueue(void *handle, void *enqueued, const compute_argument *arguments,
                              uint32_t count) {
  opencl_queue *queue = handle;
  const opencl_kernel *kernel = enqueued;
  const compute_services *services = queue->device->services;
  compute_status status = opencl_enter_queue(queue);
  if (status == COMPUTE_OK && opencl_is_stale(queue->device, kernel->generation))
    status = opencl_fail_stale(queue->device, "kernel");
  for (uint32_t i = 0; i < count && status == COMPUTE_OK; i++)
    status = opencl_enter_memory(queue->device, arguments[i].memory);
  if (status != COMPUTE_OK) return status;
  if (count != kernel->shared.operands)
    return services->fail(services->host, COMPUTE_ERROR_INTERNAL, 0, NULL,
                          "opencl: a kernel of %u operands got %u", kernel->shared.operands, count);
  if (kernel->gemm) return opencl_clblast_enqueue(queue, kernel->gemm, arguments);
  if (kernel->shared.launch_count == 0) return COMPUTE_OK;
  scratch extra = {NULL, NULL, 0};
  opencl_memory *memories[COMPUTE_MAX_OPERANDS], *fault;
  uint32_t memory_count = 0;
  for (uint32_t i = 0; i < count && i < COMPUTE_MAX_OPERANDS; i++) {
    if (arguments[i].memory && arguments[i].memory->handle)
      memories[memory_count++] = arguments[i].memory->handle;
  }
  if (kernel->shared.workspace_bytes)
    status = opencl_workspace(queue, kernel->shared.workspace_bytes, &extra.workspace);
  if (status == COMPUTE_OK && kernel->shared.faults) {
    status = opencl_fault_words(queue, &fault);
    if (status == COMPUTE_OK) extra.fault = fault->buffer;
    if (status == COMPUTE_OK) extra.fault_offset = fault_take(&queue->faults, queue->faults.label);
  }
  if (status != COMPUTE_OK) return status;
  for (uint32_t i = 0; i < kernel->shared.launch_count; i++) {
    const cl_int code = launch_one(queue, &kernel->shared.launches[i], arguments, count, &extra,
                                   memories, memory_count);
    if (code != CL_SUCCESS) return opencl_fail_launch(queue->device, code, kernel->shared.text);
  }
  return COMPUTE_OK;
}
