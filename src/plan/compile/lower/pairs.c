/* SPDX-License-Identifier: MIT */
/* Pairs: finds two steps that can become one, and replaces them. */
#include "plan/compile/lower/pairs.h"

#include "core/device/device.h"

int32_t pairs_input(const lowering *l, uint32_t i, compute_kernel_kind kind,
                    compute_kernel_kind next_kind) {
  const build_step *s = &l->steps[i], *next = s + 1;
  if (s->kind != kind || next->kind != next_kind ||
      l->plan->device[s->device] != l->plan->context->cpu || next->device != s->device ||
      s->operand_count != s->input_count + 1)
    return -1;
  const step_operand *written = &s->operand[s->input_count];
  const storage *between = &l->storages[written->storage];
  if (between->slot != IR_NONE || between->first != i || between->last != i + 1) return -1;
  for (uint32_t k = 0; k < next->input_count; k++)
    if (next->operand[k].storage == written->storage)
      return next->operand[k].offset == written->offset ? (int32_t)k : -1;
  return -1;
}

/* Builds the joined step's kernel and returns the kernels of steps i and i + 1. If the kernel
 * cannot be built, nothing changes. */
static compute_status take_kernel(lowering *l, uint32_t i, const compute_kernel_descriptor *d,
                                  build_step *joined) {
  kernel_cache *kernels = l->plan->device[joined->device]->kernels;
  const compute_status status = step_set_kernel(l, d, joined);
  if (!joined->kernel) return status;
  kernel_cache_return(kernels, l->steps[i].kernel);
  kernel_cache_return(kernels, l->steps[i + 1].kernel);
  return status;
}

compute_status pairs_join(lowering *l, pairs_describe *describe, void *joiner) {
  const uint32_t count = l->step_count;
  compute_status status = COMPUTE_OK;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; i++) {
    build_step joined = l->steps[i];
    const compute_kernel_descriptor *d =
        status == COMPUTE_OK && i + 1 < count ? describe(joiner, i, &joined) : NULL;
    if (d) status = take_kernel(l, i, d, &joined);
    const bool is_joined = d && joined.kernel;
    l->steps[kept++] = is_joined ? joined : l->steps[i];
    if (is_joined) i++;
  }
  l->step_count = kept;
  if (kept < count) storages_find_lifetimes(l);
  return status;
}
