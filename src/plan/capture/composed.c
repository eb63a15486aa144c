#include "plan/capture/composed.h"

#include <string.h>

#include "device/kernel_cache.h"
#include "type/shape.h"

bool composed_has_kernel(const compute_device *device, const compute_graph *graph,
                         const graph_node *node) {
  const graph_node *frames = &graph->nodes[node->inputs[0]];
  compute_operand in = {.dtype = frames->dtype}, out = {.dtype = node->dtype};
  compute_kernel_descriptor d = {.struct_size = sizeof d,
                                 .kind = COMPUTE_KERNEL_SPOTS,
                                 .rank = node->shape.rank,
                                 .input_count = 1,
                                 .output_count = 1,
                                 .inputs = &in,
                                 .outputs = &out,
                                 .attributes = node->constant,
                                 .attribute_bytes = sizeof(compute_spots_attributes)};
  char reason[256];
  if (device == NULL) return false;
  memcpy(d.size, node->shape.size, sizeof(int64_t) * (size_t)node->shape.rank);
  shape_dense_strides(frames->shape, in.stride);
  shape_dense_strides(node->shape, out.stride);
  return kernel_is_supported(device, &d, reason, sizeof reason);
}
