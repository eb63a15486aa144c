/* Operands with dimensions of their own, kind by kind as compute/backend.h defines them. */
#include "kernel/operand.h"

#include <string.h>

uint32_t kernel_operands_own(const compute_kernel_descriptor *d) {
  switch (d->kind) {
  case COMPUTE_KERNEL_MAP: return 0;
  case COMPUTE_KERNEL_REDUCE:
  case COMPUTE_KERNEL_ROW: return d->prologue_inputs;
  case COMPUTE_KERNEL_GEMM:
  case COMPUTE_KERNEL_CONV: return 2;
  case COMPUTE_KERNEL_WINDOW:
    return compute_window_of(d)->by_data && compute_window_of(d)->operation == COMPUTE_WINDOW_MAX
               ? 2
               : 1;
  default: return d->input_count;
  }
}

static void factor_sizes(const compute_conv_attributes *c, uint32_t input, int64_t *size) {
  const bool filter = input == 1 && c->direction != COMPUTE_CONVOLUTION_BY_FILTER;
  const bool data = input == 0 && c->direction != COMPUTE_CONVOLUTION_BY_DATA;
  const int64_t *plane = filter ? c->filter_size : data ? c->data_size : c->result_size;
  size[0] = filter ? c->result_channels : c->batch;
  size[1] = filter ? c->data_channels / c->groups : data ? c->data_channels : c->result_channels;
  size[2] = plane[0];
  size[3] = plane[1];
}

static void window_sizes(const compute_window_attributes *w, uint32_t input, int64_t *size) {
  const bool data = input == 0 && !(w->by_data && w->operation == COMPUTE_WINDOW_AVERAGE);
  memcpy(&size[2], data ? w->data_size : w->result_size, 2 * sizeof *size);
}

static void attention_sizes(const compute_kernel_descriptor *d, uint32_t input, int64_t *size) {
  int64_t *own = &size[d->rank - 2];
  if (input == 1 || input == 2) own[0] = compute_attention_of(d)->keys;
  if (input < 2) own[1] = compute_attention_of(d)->width;
  if (input == 3) own[1] = compute_attention_of(d)->keys;
}

void kernel_operand_sizes(const compute_kernel_descriptor *d, uint32_t index,
                          int64_t size[COMPUTE_MAX_RANK]) {
  memcpy(size, d->size, sizeof d->size);
  if (index >= d->input_count) return;
  switch (d->kind) {
  case COMPUTE_KERNEL_GEMM:
    if (index < 2) size[d->rank - (index == 0 ? 1 : 2)] = compute_gemm_of(d)->k;
    break;
  case COMPUTE_KERNEL_CONV:
    if (index < 2) factor_sizes(compute_conv_of(d), index, size);
    break;
  case COMPUTE_KERNEL_WINDOW:
    if (index < kernel_operands_own(d)) window_sizes(compute_window_of(d), index, size);
    break;
  case COMPUTE_KERNEL_TOP_K: size[d->rank - 1] = compute_top_k_of(d)->axis_size; break;
  case COMPUTE_KERNEL_ATTENTION: attention_sizes(d, index, size); break;
  default: break;
  }
}
