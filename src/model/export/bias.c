/* SPDX-License-Identifier: MIT */
/* ONNX convolutions accept a bias per channel, which graphs add as a separate node. */
#include "core/type/shape.h"
#include "model/export/export.h"

/* Counts the uses of each node by written nodes. An output counts as two more uses, so that it
 * is never fused. */
static void count_readers(const export_plan *plan, uint32_t *readers) {
  for (size_t i = 0; i < plan->graph->count; i++) {
    const graph_node *node = &plan->graph->nodes[i];
    for (uint32_t k = 0; export_is_written(plan, i) && k < node->input_count; k++)
      readers[node->inputs[k]]++;
    if (plan->output[i]) readers[i] += 2;
  }
}

/* Returns true if `shape` has one number per image channel and broadcasts to the image. */
static bool is_per_channel(compute_shape shape, int64_t channels) {
  if (shape.rank != 3 && shape.rank != 4) return false;
  for (int32_t i = 0; i < shape.rank; i++)
    if (shape_at(shape, i) != (i == shape.rank - 3 ? channels : 1)) return false;
  return true;
}

/* Returns true if the convolution can absorb the addition of `bias`. */
static bool fits(const export_plan *plan, const uint32_t *readers, uint32_t conv, uint32_t bias) {
  const graph_node *node = &plan->graph->nodes[conv];
  return export_is_written(plan, conv) && readers[conv] == 1 && export_takes_bias(node) &&
         is_per_channel(plan->graph->nodes[bias].shape, shape_at(node->shape, 1));
}

bool export_join_biases(export_plan *plan, model_arena *arena) {
  const graph_node *nodes = plan->graph->nodes;
  uint32_t *readers = arena_allocate(arena, plan->graph->count, sizeof *readers);
  plan->joined = arena_allocate(arena, plan->graph->count, sizeof *plan->joined);
  plan->within = arena_allocate(arena, plan->graph->count, sizeof *plan->within);
  if (!readers || !plan->joined || !plan->within) return false;
  count_readers(plan, readers);
  for (size_t i = 0; i < plan->graph->count; i++) {
    if (nodes[i].op != OP_add || !export_is_written(plan, i)) continue;
    for (int k = 0; k < 2; k++) {
      const uint32_t conv = nodes[i].inputs[k], bias = nodes[i].inputs[1 - k];
      if (!fits(plan, readers, conv, bias)) continue;
      /* Most biases are vectors that were reshaped for the addition. */
      const bool reshaped = nodes[bias].op == OP_reshape && export_is_written(plan, bias) &&
                            nodes[nodes[bias].inputs[0]].shape.rank == 1;
      plan->joined[i] = (export_join){conv + 1, reshaped ? nodes[bias].inputs[0] : bias};
      plan->within[conv] = true;
      if (reshaped && readers[bias] == 1) plan->within[bias] = true;
      break;
    }
  }
  return true;
}
