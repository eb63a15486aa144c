/* SPDX-License-Identifier: MIT */
/* Gradient checkpointing in the trainer: the n parts of a sequential network are grouped into about
 * √n segments, and each segment ends in a checkpoint (compute_checkpoint). The last one does not,
 * because the backward pass begins there. */
#include <math.h>
#include <string.h>

#include "compute/derivatives.h"
#include "ml/nn/layer.h"
#include "ml/train/trainer.h"

compute_node train_record_model(train_record *record, compute_node x, compute_forward *forward) {
  compute_layer *model = record->trainer->options.model;
  const size_t parts = model->part_count;
  const bool sequence = strcmp(model->kind->name, "sequential") == 0;
  if (!(record->trainer->options.flags & COMPUTE_TRAIN_RECOMPUTE) || !forward->training ||
      !sequence || parts < 2)
    return compute_layer_apply(model, record->graph, x, forward);
  const size_t segments = (size_t)ceil(sqrt((double)parts));
  for (size_t s = 0; s < segments && x.id != 0; s++) {
    for (size_t i = s * parts / segments; i < (s + 1) * parts / segments; i++)
      x = compute_layer_apply(model->parts[i], record->graph, x, forward);
    if (s + 1 < segments) x = compute_checkpoint(record->graph, x);
  }
  return x;
}
