/* SPDX-License-Identifier: MIT */
/* Pools: joins a convolution and the pooling of its results into one step.
 *
 * A layer on large images writes its results to memory, and the pooling reads them back to keep
 * only the largest of each block. A convolution that pools by itself finds the results in the
 * nearest cache. So on the CPU the two steps are joined on three conditions: the blocks do not
 * overlap or leave gaps, no other step reads the results, and the device has a kernel for the
 * pair. */
#include <string.h>

#include "core/device/device.h"
#include "plan/compile/lower/pairs.h"

typedef struct joiner {
  lowering *l;
  descriptor_copy *convolution, *pooling;
} joiner;

/* Returns the block size of a step that only keeps the largest element of each block; otherwise
 * 0. */
static uint32_t block_of(const compute_kernel_descriptor *d) {
  const compute_window_attributes *w = compute_window_of(d);
  const compute_instruction *first = d->epilogue.instructions;
  if (w->operation != COMPUTE_WINDOW_MAX || w->by_data || d->input_count != 1 ||
      d->output_count != 1 || d->epilogue.count > 1 || w->size[0] > INT32_MAX)
    return 0;
  if (d->epilogue.count == 1 && (first->code != COMPUTE_I_LOAD || first->immediate.i64 != 0))
    return 0;
  for (int i = 0; i < 2; i++)
    if (w->size[i] != w->size[0] || w->stride[i] != w->size[0] || w->dilation[i] != 1 ||
        w->padding[i] != 0 || w->data_size[i] != w->result_size[i] * w->size[0])
      return 0;
  return (uint32_t)w->size[0];
}

/* True if step i + 1 pools the whole result of step i with the same layout. */
static bool follows(const joiner *j, uint32_t i) {
  const lowering *l = j->l;
  if (pairs_input(l, i, COMPUTE_KERNEL_CONV, COMPUTE_KERNEL_WINDOW) != 0 ||
      !step_is_divisible(l, &l->steps[i], j->convolution) ||
      !step_is_divisible(l, &l->steps[i + 1], j->pooling))
    return false;
  const compute_operand *written = j->convolution->descriptor.outputs,
                        *read = j->pooling->descriptor.inputs;
  for (int d = 0; d < 4; d++)
    if (written->stride[d] != read->stride[d]) return false;
  return written->dtype == read->dtype;
}

/* True for convolutions that the row kernels compute. 1×1 filters are matrix products, groups of
 * one channel have separate loops, and minimal filtering (Winograd) needs fewer multiplications. */
static bool is_taken_by_rows(const compute_kernel_descriptor *d) {
  const compute_conv_attributes *c = compute_conv_of(d);
  return c->direction == COMPUTE_CONVOLUTION_FORWARD && c->pool == 0 && c->groups == 1 &&
         c->filter_size[0] * c->filter_size[1] > 1 && !kernel_may_be_filtered(d);
}

/* Extends the convolution's descriptor by the pooling; false if the device has no such kernel. */
static bool join_descriptors(const joiner *j, const compute_device *device) {
  compute_kernel_descriptor *d = &j->convolution->descriptor;
  const compute_kernel_descriptor *pooling = &j->pooling->descriptor;
  char reason[256];
  const uint32_t pool = block_of(pooling);
  if (pool == 0 || !is_taken_by_rows(d)) return false;
  compute_conv_attributes *c = (void *)&j->convolution->attributes;
  c->pool = pool;
  memcpy(d->size, pooling->size, sizeof d->size);
  j->convolution->operands[d->input_count] = pooling->outputs[0];
  return descriptor_check(d, reason, sizeof reason) &&
         kernel_is_supported(device, d, reason, sizeof reason);
}

static const compute_kernel_descriptor *describe(void *joiner_, uint32_t i, build_step *joined) {
  const joiner *j = joiner_;
  const build_step *next = &j->l->steps[i + 1];
  if (!follows(j, i) || !join_descriptors(j, j->l->plan->device[joined->device])) return NULL;
  joined->operand[joined->input_count] = next->operand[next->input_count];
  joined->operations += next->operations;
  joined->first_in_place = joined->input_count; /* results and inputs differ in position */
  return &j->convolution->descriptor;
}

compute_status pools_join(lowering *l) {
  joiner j = {.l = l};
  j.convolution = scratch_take(l->memory, 1, sizeof *j.convolution);
  j.pooling = scratch_take(l->memory, 1, sizeof *j.pooling);
  if (!j.convolution || !j.pooling) return division_out_of_memory(l);
  return pairs_join(l, describe, &j);
}
