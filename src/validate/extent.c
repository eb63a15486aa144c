/* Which elements a kernel may touch, operand by operand. */
#include "validate/evaluate.h"

static void add(extent *e, int64_t size, int64_t stride) {
  if (stride == 0 && size > 0) return; /* repeats */
  e->size[e->rank] = size;
  e->stride[e->rank++] = stride;
}

/* The dimensions of a convolution's factor (backend.h). */
static void add_factor(extent *e, const compute_convolution *c, uint32_t index,
                       const int64_t *stride) {
  const bool filter = index == 1 && c->direction != COMPUTE_CONVOLUTION_BY_FILTER;
  const bool data = index == 0 && c->direction != COMPUTE_CONVOLUTION_BY_DATA;
  const int64_t *plane = filter ? c->filter_size : data ? c->data_size : c->result_size;
  add(e, filter ? c->result_channels : c->batch, stride[0]);
  add(e,
      filter ? c->data_channels / c->groups
      : data ? c->data_channels
             : c->result_channels,
      stride[1]);
  add(e, plane[0], stride[2]);
  add(e, plane[1], stride[3]);
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
  if (d->kind == COMPUTE_KERNEL_CONV && index < 2) {
    add_factor(e, &d->convolution, index, o->stride);
  } else {
    const bool reduced = d->kind == COMPUTE_KERNEL_REDUCE && index >= d->prologue_inputs;
    for (int32_t i = 0; i < (reduced ? d->kept_rank : d->rank); i++) {
      const bool k =
          d->kind == COMPUTE_KERNEL_GEMM && index < 2 && i == d->rank - (index == 0 ? 1 : 2);
      add(e, k ? d->k : d->size[i], o->stride[i]);
    }
  }
  if (d->kind == (output ? COMPUTE_KERNEL_SCATTER : COMPUTE_KERNEL_GATHER) &&
      (output || index == 0))
    add(e, d->axis_size, d->axis_stride);
  find_bounds(e);
}
