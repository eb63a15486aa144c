/* The cost of an operand is its distinct elements: those that stride 0 does not repeat. */
#include "kernel/cost.h"

#include <string.h>

#include "kernel/program.h"

static const char *const kind_names[] = {"map",    "reduce",  "row",  "gemm",
                                         "gather", "scatter", "copy", "convolution"};

const char *kernel_kind_name(compute_kernel_kind kind) {
  return (size_t)kind < sizeof kind_names / sizeof *kind_names ? kind_names[kind] : "unknown";
}

static uint64_t product(const int64_t *size, int32_t rank) {
  uint64_t count = 1;
  for (int32_t i = 0; i < rank; i++) count *= (uint64_t)size[i];
  return count;
}

/* The sizes over which the strides of a convolution's factor run. */
static void factor_sizes(const compute_convolution *c, uint32_t input, int64_t *size) {
  bool filter = input == 1 && c->direction != COMPUTE_CONVOLUTION_BY_FILTER;
  bool data = input == 0 && c->direction != COMPUTE_CONVOLUTION_BY_DATA;
  const int64_t *plane = filter ? c->filter_size : data ? c->data_size : c->result_size;
  size[0] = filter ? c->result_channels : c->batch;
  size[1] = filter ? c->data_channels / c->groups : data ? c->data_channels : c->result_channels;
  size[2] = plane[0];
  size[3] = plane[1];
}

static uint64_t input_bytes(const compute_kernel_descriptor *d, uint32_t input) {
  const compute_operand *o = &d->inputs[input];
  int64_t size[COMPUTE_MAX_RANK];
  memcpy(size, d->size, sizeof size);
  if (d->kind == COMPUTE_KERNEL_GEMM && input < 2) size[d->rank - (input == 0 ? 1 : 2)] = d->k;
  if (d->kind == COMPUTE_KERNEL_CONV && input < 2) factor_sizes(&d->convolution, input, size);
  uint64_t count = 1;
  for (int32_t i = 0; i < d->rank; i++)
    if (o->stride[i] != 0) count *= (uint64_t)size[i];
  return count * compute_dtype_size(o->dtype);
}

static uint64_t output_bytes(const compute_kernel_descriptor *d, const compute_operand *o) {
  uint64_t count = 1;
  for (int32_t i = 0; i < d->rank; i++)
    if (o->stride[i] != 0) count *= (uint64_t)d->size[i];
  return count * compute_dtype_size(o->dtype);
}

/* Whatever its direction, a convolution multiplies as often as the forward one. */
static uint64_t convolution_flops(const compute_convolution *c) {
  return 2 * (uint64_t)c->batch * (uint64_t)c->result_channels * product(c->result_size, 2) *
         (uint64_t)(c->data_channels / c->groups) * product(c->filter_size, 2);
}

static uint64_t flops(const compute_kernel_descriptor *d) {
  uint64_t all = product(d->size, d->rank);
  uint64_t prologue = program_flops(&d->prologue), epilogue = program_flops(&d->epilogue);
  switch (d->kind) {
  case COMPUTE_KERNEL_MAP: return all * epilogue;
  case COMPUTE_KERNEL_REDUCE:
    return all * (prologue + 1) + product(d->size, d->kept_rank) * epilogue;
  case COMPUTE_KERNEL_ROW:
    return all * (prologue + epilogue + (d->row == COMPUTE_ROW_NORMALIZE ? 6 : 12));
  case COMPUTE_KERNEL_GEMM: return all * (2 * (uint64_t)d->k + epilogue);
  case COMPUTE_KERNEL_CONV: return convolution_flops(&d->convolution) + all * epilogue;
  case COMPUTE_KERNEL_SCATTER: return all;
  default: return 0;
  }
}

kernel_cost kernel_cost_of(const compute_kernel_descriptor *descriptor) {
  kernel_cost cost = {.flops = flops(descriptor)};
  for (uint32_t i = 0; i < descriptor->input_count; i++)
    cost.bytes_read += input_bytes(descriptor, i);
  for (uint32_t i = 0; i < descriptor->output_count; i++)
    cost.bytes_written += output_bytes(descriptor, &descriptor->outputs[i]);
  return cost;
}
