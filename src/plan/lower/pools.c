/* SPDX-License-Identifier: MIT */
/* Pools: a convolution and the pooling of its results become one step.
 *
 * The results of a layer on large images are written to memory and read back, only for the largest
 * of each block to be kept. A convolution that keeps these itself finds them while they are near
 * the core. So on the CPU the two steps are joined where blocks lie side by side, nobody else reads
 * the results, and the device has a kernel for it. */
#include <string.h>

#include "device/device.h"
#include "plan/lower/slices.h"

typedef struct joiner {
  lowering *l;
  descriptor_copy *convolution, *pooling;
} joiner;

/* The size of the blocks of which a step keeps the largest element, and does nothing else; or 0. */
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

/* Whether step i + 1 reads what step i writes, as it is, and nobody else does. */
static bool follows(const joiner *j, uint32_t i) {
  const lowering *l = j->l;
  const build_step *s = &l->steps[i], *next = s + 1;
  if (s->kind != COMPUTE_KERNEL_CONV || next->kind != COMPUTE_KERNEL_WINDOW ||
      l->plan->device[s->device] != l->plan->context->cpu || next->device != s->device ||
      s->operand_count != s->input_count + 1 || !slices_can_divide(l, s, j->convolution) ||
      !slices_can_divide(l, next, j->pooling))
    return false;
  const compute_kernel_descriptor *from = &j->convolution->descriptor,
                                  *to = &j->pooling->descriptor;
  const step_operand *written = &s->operand[s->input_count], *read = &next->operand[0];
  const storage *between = &l->storages[written->storage];
  if (between->slot != IR_NONE || between->first != i || between->last != i + 1 ||
      read->storage != written->storage || read->offset != written->offset ||
      from->outputs[0].dtype != to->inputs[0].dtype)
    return false;
  for (int d = 0; d < 4; d++)
    if (from->outputs[0].stride[d] != to->inputs[0].stride[d]) return false;
  return true;
}

/* Filters of one element are matrix products, groups of one channel have loops of their own, and
 * minimal filtering multiplies less. */
static bool is_taken_by_rows(const compute_kernel_descriptor *d) {
  const compute_conv_attributes *c = compute_conv_of(d);
  return c->direction == COMPUTE_CONVOLUTION_FORWARD && c->pool == 0 && c->groups == 1 &&
         c->filter_size[0] * c->filter_size[1] > 1 && !kernel_may_be_filtered(d);
}

/* Makes the descriptor of the convolution that of both; false if there is no such kernel. */
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

/* Step i does the work of the next one, too. */
static compute_status join(const joiner *j, uint32_t i, build_step *to) {
  lowering *l = j->l;
  const build_step *s = &l->steps[i], *next = s + 1;
  kernel_cache *kernels = l->plan->device[s->device]->kernels;
  build_step joined = *s;
  joined.operand[s->input_count] = next->operand[next->input_count];
  joined.operations += next->operations;
  joined.first_in_place = joined.input_count; /* results are not where the inputs' elements are */
  const compute_status status = slices_set_kernel(l, &j->convolution->descriptor, &joined);
  if (!joined.kernel) return status;
  kernel_cache_return(kernels, s->kernel);
  kernel_cache_return(kernels, next->kernel);
  *to = joined;
  return status;
}

compute_status pools_join(lowering *l) {
  joiner j = {.l = l};
  j.convolution = scratch_take(l->memory, 1, sizeof *j.convolution);
  j.pooling = scratch_take(l->memory, 1, sizeof *j.pooling);
  if (!j.convolution || !j.pooling) return slices_out_of_memory(l);
  const uint32_t count = l->step_count;
  compute_status status = COMPUTE_OK;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; i++) {
    const bool joins = status == COMPUTE_OK && i + 1 < count && follows(&j, i) &&
                       join_descriptors(&j, l->plan->device[l->steps[i].device]);
    build_step made;
    made.kernel = NULL;
    if (joins) status = join(&j, i, &made);
    if (joins && made.kernel) i++;
    l->steps[kept++] = joins && made.kernel ? made : l->steps[i];
  }
  l->step_count = kept;
  if (kept < count) slices_find_lifetimes(l);
  return status;
}
