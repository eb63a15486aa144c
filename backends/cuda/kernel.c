/* SPDX-License-Identifier: MIT */
/* Kernels: generated ones, prepared by the shared builder and enqueued as launches on the queue's
 * stream, and kernels of vendor libraries.
 *
 * A tensor's pointer is advanced to its first element, so the offsets in the shape stay zero and
 * the shape never changes: a launch copies only addresses. */
#include <stdatomic.h>
#include <stdio.h>

#include "cuda.h"

bool cuda_supports(void *handle, const compute_kernel_descriptor *descriptor, char *reason,
                   size_t reason_bytes) {
  const cuda_device *device = handle;
  if (device->nvrtc) return builder_supports(&device->builder, descriptor, reason, reason_bytes);
  snprintf(reason, reason_bytes, "there is no compiler for kernels: %s; %s", device->no_compiler,
           CUDA_NVRTC_REMEDY);
  return false;
}

/* ---- Preparing ----------------------------------------------------------------------------- */

/* Runs before any build: reports a lost device with its first cause. */
static compute_status begin(cuda_device *device, cuda_kernel **kernel) {
  const compute_services *services = device->services;
  const compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  if (!device->nvrtc)
    return services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, 0, CUDA_NVRTC_REMEDY,
                          "cuda:%u: there is no compiler for kernels: %s", device->index,
                          device->no_compiler);
  *kernel = builder_allocate(&device->builder, sizeof **kernel);
  if (!*kernel) return cuda_fail_memory(services, "a kernel");
  atomic_init(&(*kernel)->references, 1);
  return COMPUTE_OK;
}

/* Chooses a vendor library if the tuning parameters ask for it, or if nobody has tuned this kernel
 * and it is large. If the library cannot serve it, the reason is logged, and the generated kernel
 * serves. */
static bool library_serves(cuda_device *device, const compute_kernel_descriptor *descriptor,
                           const compute_tuning *tuning, compute_tuning_source source,
                           cuda_kernel *kernel) {
  const uint32_t asked = tuning->implementation;
  /* A library chooses its kernels, and so the order of sums, by the shape. */
  if (descriptor->demands & COMPUTE_DEMAND_REPRODUCIBLE) return false;
  const bool heuristic = source == COMPUTE_TUNING_HEURISTIC || source == COMPUTE_TUNING_TABLE;
  if (!asked && !(heuristic && cuda_vendor_is_preferred(device, descriptor))) return false;
  if (!asked && !cuda_implementation_name(device, descriptor, CUDA_BY_LIBRARY)) return false;
  const compute_status status =
      cuda_implementation_prepare(device, descriptor, asked ? asked : CUDA_BY_LIBRARY, kernel);
  if (status == COMPUTE_OK) return true;
  device->services->log(device->services->host, COMPUTE_LOG_WARNING, "cuda",
                        "cuda:%u: implementation %u, which %s, cannot run a kernel; using a "
                        "generated one",
                        device->index, asked ? asked : CUDA_BY_LIBRARY,
                        asked ? "the tuning asks for" : "should be fastest");
  return false;
}

static compute_status end(cuda_device *device, compute_status status, cuda_kernel *kernel,
                          void **result) {
  if (status == COMPUTE_OK) {
    *result = kernel;
    return COMPUTE_OK;
  }
  builder_free(&device->builder, kernel);
  return cuda_tell_lost(device, status);
}

compute_status cuda_kernel_prepare(void *handle, const compute_kernel_descriptor *descriptor,
                                   void **result) {
  cuda_device *device = handle;
  cuda_kernel *kernel = NULL;
  compute_tuning tuning;
  compute_status status = begin(device, &kernel);
  if (status != COMPUTE_OK) return status;
  const compute_tuning_source source = builder_tuning(&device->builder, descriptor, &tuning);
  const bool by_library = library_serves(device, descriptor, &tuning, source, kernel);
  if (by_library && tuning.implementation == 0)
    cuda_candidates_choose(device, descriptor, source == COMPUTE_TUNING_HEURISTIC ? NULL : &tuning,
                           kernel);
  status = cuda_enter(device); /* a library may have lost the device */
  if (by_library) return end(device, status, kernel, result);
  tuning.implementation = 0;
  if (status == COMPUTE_OK)
    status = builder_kernel_fall_back(&device->builder, descriptor,
                                      source == COMPUTE_TUNING_HEURISTIC ? NULL : &tuning,
                                      &kernel->shared);
  return end(device, status, kernel, result);
}

compute_status cuda_kernel_prepare_tuned(void *handle, const compute_kernel_descriptor *descriptor,
                                         const compute_tuning *tuning, void **result) {
  cuda_device *device = handle;
  cuda_kernel *kernel = NULL;
  compute_status status = begin(device, &kernel);
  if (status != COMPUTE_OK) return status;
  status = tuning->implementation
               ? cuda_implementation_prepare(device, descriptor, tuning->implementation, kernel)
               : builder_kernel_build(&device->builder, descriptor, tuning, &kernel->shared);
  return end(device, status, kernel, result);
}

void cuda_kernel_retain(cuda_kernel *kernel) {
  atomic_fetch_add_explicit(&kernel->references, 1, memory_order_relaxed);
}

void cuda_kernel_destroy(void *handle, void *destroyed) {
  cuda_device *device = handle;
  cuda_kernel *kernel = destroyed;
  if (atomic_fetch_sub_explicit(&kernel->references, 1, memory_order_acq_rel) > 1) return;
  cuda_vendor_destroy(device, kernel);
  builder_kernel_clear(&device->builder, &kernel->shared);
  builder_free(&device->builder, kernel);
}

void cuda_kernel_describe(void *device, void *kernel, char *text, size_t text_bytes) {
  (void)device;
  snprintf(text, text_bytes, "%s", ((const cuda_kernel *)kernel)->shared.text);
}

/* ---- Enqueueing ---------------------------------------------------------------------------- */

compute_status cuda_kernel_submit(cuda_queue *queue, const cuda_kernel *kernel,
                                  const cuda_pointer *operands, const cuda_scratch *scratch) {
  compute_status status = COMPUTE_OK;
  if (kernel->product) status = cuda_vendor_submit(queue, kernel, operands, scratch->workspace);
  return status == COMPUTE_OK ? cuda_launch(queue, &kernel->shared, operands, scratch) : status;
}

compute_status cuda_enqueue(void *handle, void *enqueued, const compute_argument *arguments,
                            uint32_t count) {
  cuda_queue *queue = handle;
  cuda_kernel *kernel = enqueued;
  cuda_device *device = queue->device;
  cuda_pointer operands[COMPUTE_MAX_OPERANDS];
  cuda_scratch scratch = {0, 0};
  compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  if (count != kernel->shared.operands)
    return device->services->fail(device->services->host, COMPUTE_ERROR_INTERNAL, 0, NULL,
                                  "cuda: a kernel of %u operands got %u", kernel->shared.operands,
                                  count);
  if (queue->recording) return cuda_recording_note(queue, kernel, arguments);
  if (kernel->shared.launch_count == 0 && !kernel->product) return COMPUTE_OK;
  for (uint32_t i = 0; i < count; i++) operands[i] = cuda_address(&arguments[i]);
  if (kernel->shared.workspace_bytes)
    status = cuda_workspace(queue, kernel->shared.workspace_bytes, &scratch.workspace);
  if (status == COMPUTE_OK && kernel->shared.faults)
    status = cuda_fault_words(queue, &scratch.fault);
  if (status == COMPUTE_OK && kernel->shared.faults)
    scratch.fault += fault_take(&queue->faults, queue->faults.label) * sizeof(int32_t);
  return status == COMPUTE_OK ? cuda_kernel_submit(queue, kernel, operands, &scratch) : status;
}
