/* What GATHER and SCATTER have in common: positions in the index tensor and the error about them.
 */
#include "index.h"

#include <stddef.h>

void cpu_index_position_strides(const compute_kernel_descriptor *descriptor,
                                int64_t stride[COMPUTE_MAX_RANK]) {
  int64_t step = 1;
  for (int32_t d = descriptor->rank - 1; d >= 0; d--) {
    stride[d] = 0;
    if (descriptor->inputs[1].stride[d] == 0) continue;
    stride[d] = step;
    /* A space that overflows is refused before anything is walked. */
    if (__builtin_mul_overflow(step, descriptor->size[d], &step)) step = 0;
  }
}

compute_status cpu_index_report(const cpu_device *device, const char *operation,
                                const cpu_index_failure *failures, int64_t count,
                                int64_t axis_size) {
  const compute_services *services = device->services;
  cpu_index_failure first = {INT64_MAX, 0, 0};
  for (int64_t i = 0; i < count; i++)
    cpu_index_note(&first, failures[i].position, failures[i].index, failures[i].offset);
  if (first.position == INT64_MAX) return COMPUTE_OK;
  if (services->struct_size >=
          offsetof(compute_services, fail_index) + sizeof services->fail_index &&
      services->fail_index)
    return services->fail_index(services->host, 0, first.index, first.offset);
  return services->fail(services->host, COMPUTE_ERROR_INDEX, 0,
                        "indices lie in -size ... size-1 of the axis they choose from",
                        "%s: index %lld at position %lld of the index tensor is outside an "
                        "axis of size %lld",
                        operation, (long long)first.index, (long long)first.position,
                        (long long)axis_size);
}
