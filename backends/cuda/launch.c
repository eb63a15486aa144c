/* SPDX-License-Identifier: MIT */
/* Enqueues generated kernels on a stream: sets up the parameters and submits one launch after the
 * other. */
#include "cuda.h"

void cuda_bind(const builder_launch *launch, const cuda_pointer *operands,
               const cuda_scratch *scratch, cuda_pointer *bound) {
  for (uint32_t i = 0; i < launch->buffer_count; i++) {
    const uint32_t argument = launch->buffers[i].argument;
    bound[i] = argument == COMPUTE_GENERATED_WORKSPACE ? scratch->workspace
               : argument == COMPUTE_GENERATED_FAULT   ? scratch->fault
                                                       : operands[argument];
  }
}

void cuda_parameters(const builder_launch *launch, cuda_pointer *bound, void **parameters) {
  for (uint32_t i = 0; i < launch->buffer_count; i++) parameters[i] = &bound[i];
  parameters[launch->buffer_count] = launch->shape;
}

static cuda_result launch_one(cuda_queue *queue, const builder_launch *launch,
                              const cuda_pointer *operands, const cuda_scratch *scratch) {
  cuda_pointer bound[BUILDER_BUFFERS];
  void *parameters[BUILDER_BUFFERS + 1];
  const uint32_t *groups = launch->groups, *group = launch->group;
  cuda_bind(launch, operands, scratch, bound);
  cuda_parameters(launch, bound, parameters);
  return queue->device->driver->launch(((const cuda_entry *)launch->entry)->function, groups[0],
                                       groups[1], groups[2], group[0], group[1], group[2],
                                       launch->local_bytes, queue->stream, parameters, NULL);
}

compute_status cuda_launch(cuda_queue *queue, const builder_kernel *kernel,
                           const cuda_pointer *operands, const cuda_scratch *scratch) {
  for (uint32_t i = 0; i < kernel->launch_count; i++) {
    const cuda_result code = launch_one(queue, &kernel->launches[i], operands, scratch);
    if (code != CUDA_OK)
      return cuda_fail(queue->device, code, "launching a kernel (%.80s)", kernel->text);
  }
  return COMPUTE_OK;
}
