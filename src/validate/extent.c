/* Which elements a kernel may touch, operand by operand. */
#include "kernel/kernel.h"
#include "validate/evaluate.h"

static void add(extent *e, int64_t size, int64_t stride) {
  if (stride == 0 && size > 0) return; /* repeats */
  e->size[e->rank] = size;
  e->stride[e->rank++] = stride;
}

static void find_bounds(extent *e) {
  e->low = e->high = 0;
  for (int32_t i = 0; i < e->rank; i++) {
    if (e->size[i] == 0) {
      e->high = -1;
      e->low = 0;
      return;
    }
    const int64_t reach = (e->size[i] - 1) * e->stride[i];
    *(reach < 0 ? &e->low : &e->high) += reach;
  }
}

void extent_of(const compute_kernel_descriptor *d, uint32_t index, extent *e) {
  const bool output = index >= d->input_count;
  const compute_operand *o = output ? &d->outputs[index - d->input_count] : &d->inputs[index];
  *e = (extent){0};
  int64_t size[COMPUTE_MAX_RANK];
  kernel_operand_sizes(d, index, size);
  const bool reduced = d->kind == COMPUTE_KERNEL_REDUCE && index >= d->prologue_inputs;
  for (int32_t i = 0; i < (reduced ? compute_reduce_of(d)->kept_rank : d->rank); i++)
    add(e, size[i], o->stride[i]);
  if (d->kind == (output ? COMPUTE_KERNEL_SCATTER : COMPUTE_KERNEL_GATHER) &&
      (output || index == 0))
    add(e, compute_index_of(d)->axis_size, compute_index_of(d)->axis_stride);
  find_bounds(e);
}
