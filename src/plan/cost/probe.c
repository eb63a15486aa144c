/* SPDX-License-Identifier: MIT */
/* The probe kernels. Sizes surround the transitions of devices: dominated by the launch, within the
 * caches, and beyond them. Where possible, one kernel source serves all sizes of a class, because
 * compilers take longer than all measurements here. */
#include "plan/cost/probe.h"

#include <string.h>

static void begin(probe *p, compute_kernel_kind kind) {
  memset(&p->descriptor, 0, sizeof p->descriptor);
  memset(p->inputs, 0, sizeof p->inputs);
  memset(&p->output, 0, sizeof p->output);
  memset(p->data, 0, sizeof p->data);
  memset(p->elements, 0, sizeof p->elements);
  p->program.count = p->program.output_count = 0;
  p->program.full = false;
  p->descriptor.struct_size = sizeof p->descriptor;
  p->descriptor.kind = kind;
  p->descriptor.inputs = p->inputs;
  p->descriptor.outputs = &p->output;
  p->descriptor.input_count = p->descriptor.output_count = 1;
  p->descriptor.accumulate = COMPUTE_F32;
  for (int i = 0; i < PROBE_INPUTS; i++) p->inputs[i].dtype = COMPUTE_F32;
  p->output.dtype = COMPUTE_F32;
}

/* Completes a map of n contiguous elements through the program. */
static void finish_map(probe *p, uint32_t inputs, int64_t n) {
  p->descriptor.rank = 1;
  p->descriptor.size[0] = n;
  p->descriptor.input_count = inputs;
  for (uint32_t i = 0; i < inputs; i++) {
    p->inputs[i].stride[0] = 1;
    p->elements[i] = (uint64_t)n;
  }
  p->output.stride[0] = 1;
  p->descriptor.epilogue = program_finish(&p->program);
}

static bool stream(uint32_t point, uint64_t most, probe *p) {
  static const uint64_t size[] = {1024, 65536, 1048576, 4194304, 16777216};
  if (point >= 5 || size[point] > most) return false;
  begin(p, COMPUTE_KERNEL_MAP);
  uint16_t x = program_load(&p->program, COMPUTE_F32, 0);
  uint16_t y = program_load(&p->program, COMPUTE_F32, 1);
  program_store(&p->program, program_apply(&p->program, COMPUTE_I_ADD, COMPUTE_F32, x, y, 0));
  finish_map(p, 2, (int64_t)size[point]);
  p->work = 12.0 * (double)size[point];
  return true;
}

enum { RUN = 4 }; /* elements */

/* x + y for a matrix and a column. No vector goes on to the next row. */
static bool run(uint32_t point, uint64_t most, probe *p) {
  static const uint64_t size[] = {256, 4096, 65536};
  if (point >= 3 || size[point] * RUN > most) return false;
  begin(p, COMPUTE_KERNEL_MAP);
  uint16_t x = program_load(&p->program, COMPUTE_F32, 0);
  uint16_t y = program_load(&p->program, COMPUTE_F32, 1);
  program_store(&p->program, program_apply(&p->program, COMPUTE_I_ADD, COMPUTE_F32, x, y, 0));
  finish_map(p, 2, (int64_t)size[point]);
  p->descriptor.rank = 2;
  p->descriptor.size[1] = RUN;
  p->inputs[0].stride[0] = p->output.stride[0] = RUN;
  p->inputs[0].stride[1] = p->output.stride[1] = 1;
  p->elements[0] *= RUN;
  p->work = (double)size[point];
  return true;
}

enum { SIMPLE_OPERATIONS = 16, FUNCTION_CALLS = 4 };

/* x ← min(x · 1.01 + 0.125, 2) − 0.0625, repeated: a compiler cannot eliminate it. */
static bool simple(uint32_t point, uint64_t most, probe *p) {
  static const uint64_t size[] = {16384, 131072, 1048576};
  static const compute_instruction_code code[] = {COMPUTE_I_MUL, COMPUTE_I_ADD, COMPUTE_I_MIN,
                                                  COMPUTE_I_SUB};
  static const double operand[] = {1.01, 0.125, 2, 0.0625};
  if (point >= 3 || size[point] > most) return false;
  begin(p, COMPUTE_KERNEL_MAP);
  uint16_t x = program_load(&p->program, COMPUTE_F32, 0);
  for (int i = 0; i < SIMPLE_OPERATIONS; i++)
    x = program_apply(&p->program, code[i % 4], COMPUTE_F32, x,
                      program_constant(&p->program, COMPUTE_F32, operand[i % 4]), 0);
  program_store(&p->program, x);
  finish_map(p, 1, (int64_t)size[point]);
  p->work = (double)SIMPLE_OPERATIONS * (double)size[point];
  return true;
}

/* x ← exp(−x), which stays between 0 and 1. */
static bool function(uint32_t point, uint64_t most, probe *p) {
  static const uint64_t size[] = {4096, 65536, 524288};
  if (point >= 3 || size[point] > most) return false;
  begin(p, COMPUTE_KERNEL_MAP);
  uint16_t x = program_load(&p->program, COMPUTE_F32, 0);
  for (int i = 0; i < FUNCTION_CALLS; i++) {
    x = program_apply(&p->program, COMPUTE_I_NEG, COMPUTE_F32, x, 0, 0);
    x = program_apply(&p->program, COMPUTE_I_EXP, COMPUTE_F32, x, 0, 0);
  }
  program_store(&p->program, x);
  finish_map(p, 1, (int64_t)size[point]);
  p->work = (double)FUNCTION_CALLS * (double)size[point];
  return true;
}

static bool square(uint32_t point, uint64_t most, int64_t *n) {
  static const int64_t side[] = {64, 256, 1024, 4096};
  if (point >= 4 || (uint64_t)(side[point] * side[point]) > most) return false;
  *n = side[point];
  return true;
}

static void finish_square(probe *p, int64_t n, int64_t row_stride, int64_t column_stride) {
  p->descriptor.rank = 2;
  p->descriptor.size[0] = p->descriptor.size[1] = n;
  p->inputs[0].stride[0] = row_stride;
  p->inputs[0].stride[1] = column_stride;
  p->elements[0] = (uint64_t)(n * n);
  p->output.stride[0] = n;
  p->output.stride[1] = 1;
  p->work = 8.0 * (double)n * (double)n;
}

static bool row(uint32_t point, uint64_t most, probe *p) {
  int64_t n;
  if (!square(point, most, &n)) return false;
  begin(p, COMPUTE_KERNEL_ROW);
  compute_row_attributes *a = kernel_attributes_in(&p->attributes, &p->descriptor, sizeof *a);
  a->operation = COMPUTE_ROW_SOFTMAX;
  p->descriptor.prologue_inputs = 1;
  finish_square(p, n, n, 1);
  return true;
}

static bool short_row(uint32_t point, uint64_t most, probe *p) {
  static const int64_t rows[] = {256, 4096, 65536};
  if (point >= 3 || (uint64_t)rows[point] * RUN > most || !row(0, most, p)) return false;
  finish_square(p, RUN, RUN, 1);
  p->descriptor.size[0] = rows[point];
  p->elements[0] = (uint64_t)rows[point] * RUN;
  p->work = (double)rows[point];
  return true;
}

static bool reduce(uint32_t point, uint64_t most, probe *p) {
  int64_t n;
  if (!square(point, most, &n)) return false;
  begin(p, COMPUTE_KERNEL_REDUCE);
  compute_reduce_attributes *fold =
      kernel_attributes_in(&p->attributes, &p->descriptor, sizeof *fold);
  fold->kept_rank = 1;
  fold->combine = COMPUTE_COMBINE_SUM;
  p->descriptor.prologue_inputs = 1;
  finish_square(p, n, n, 1);
  p->output.stride[0] = 1;
  p->output.stride[1] = 0;
  p->work = 4.0 * (double)n * (double)n + 4.0 * (double)n;
  return true;
}

static bool copy(uint32_t point, uint64_t most, probe *p) {
  int64_t n;
  if (!square(point, most, &n)) return false;
  begin(p, COMPUTE_KERNEL_COPY);
  finish_square(p, n, 1, n);
  return true;
}

/* Single elements at random positions: the worst case for indices. */
static bool gather(uint32_t point, uint64_t most, probe *p) {
  static const uint64_t size[] = {4096, 65536, 1048576};
  if (point >= 3 || size[point] > most) return false;
  begin(p, COMPUTE_KERNEL_GATHER);
  p->descriptor.rank = 1;
  p->descriptor.size[0] = (int64_t)size[point];
  p->descriptor.input_count = 2;
  compute_index_attributes *index =
      kernel_attributes_in(&p->attributes, &p->descriptor, sizeof *index);
  index->axis_size = p->descriptor.size[0];
  index->axis_stride = 1;
  p->inputs[1].dtype = COMPUTE_I32;
  p->inputs[1].stride[0] = 1;
  p->data[1] = PROBE_INDEX;
  p->elements[0] = p->elements[1] = size[point];
  p->output.stride[0] = 1;
  p->work = 12.0 * (double)size[point];
  return true;
}

static bool gemm(uint32_t point, uint64_t most, compute_dtype dtype, probe_data data, probe *p) {
  static const int64_t side[] = {32, 128, 512, 1024, 2048, 4096};
  if (point >= 6) return false;
  int64_t n = side[point];
  if ((uint64_t)(n * n) * compute_dtype_size(dtype) > 4 * most) return false;
  begin(p, COMPUTE_KERNEL_GEMM);
  p->descriptor.input_count = 2;
  finish_square(p, n, n, 1);
  p->inputs[1] = p->inputs[0];
  p->inputs[0].dtype = p->inputs[1].dtype = p->output.dtype = dtype;
  p->data[0] = p->data[1] = data;
  p->elements[1] = p->elements[0];
  compute_gemm_attributes *product =
      kernel_attributes_in(&p->attributes, &p->descriptor, sizeof *product);
  product->k = n;
  if (dtype == COMPUTE_F64) p->descriptor.accumulate = COMPUTE_F64;
  p->work = 2.0 * (double)n * (double)n * (double)n;
  return true;
}

static void dense(int64_t *stride, int64_t channels, int64_t height, int64_t width) {
  stride[3] = 1;
  stride[2] = width;
  stride[1] = height * width;
  stride[0] = channels * height * width;
}

/* 3 × 3, the most common size. */
static bool convolution(uint32_t point, uint64_t most, probe *p) {
  static const int64_t batch[] = {1, 8, 64};
  enum { CHANNELS = 32, SIDE = 28, TAPS = 9 };
  if (point >= 3 || (uint64_t)(batch[point] * CHANNELS * SIDE * SIDE) > most) return false;
  int64_t n = batch[point];
  begin(p, COMPUTE_KERNEL_CONV);
  p->descriptor.rank = 4;
  p->descriptor.input_count = 2;
  const int64_t size[4] = {n, CHANNELS, SIDE, SIDE};
  memcpy(p->descriptor.size, size, sizeof size);
  compute_conv_attributes *a = kernel_attributes_in(&p->attributes, &p->descriptor, sizeof *a);
  *a = (compute_conv_attributes){.direction = COMPUTE_CONVOLUTION_FORWARD,
                                 .groups = 1,
                                 .batch = n,
                                 .data_channels = CHANNELS,
                                 .result_channels = CHANNELS,
                                 .data_size = {SIDE, SIDE},
                                 .result_size = {SIDE, SIDE},
                                 .filter_size = {3, 3},
                                 .stride = {1, 1},
                                 .dilation = {1, 1},
                                 .padding = {1, 1}};
  dense(p->inputs[0].stride, CHANNELS, SIDE, SIDE);
  dense(p->inputs[1].stride, CHANNELS, 3, 3);
  dense(p->output.stride, CHANNELS, SIDE, SIDE);
  p->elements[0] = (uint64_t)(n * CHANNELS * SIDE * SIDE);
  p->elements[1] = CHANNELS * CHANNELS * TAPS;
  p->work = 2.0 * (double)p->elements[0] * CHANNELS * TAPS;
  return true;
}

bool probe_build(work_class class, uint32_t point, uint64_t most, probe *p) {
  switch (class) {
  case WORK_STREAM: return stream(point, most, p);
  case WORK_RUN: return run(point, most, p);
  case WORK_SHORT_ROW: return short_row(point, most, p);
  case WORK_SIMPLE: return simple(point, most, p);
  case WORK_FUNCTION: return function(point, most, p);
  case WORK_ROW: return row(point, most, p);
  case WORK_REDUCE: return reduce(point, most, p);
  case WORK_COPY: return copy(point, most, p);
  case WORK_GATHER: return gather(point, most, p);
  case WORK_GEMM_F32: return gemm(point, most, COMPUTE_F32, PROBE_F32, p);
  case WORK_GEMM_F64: return gemm(point, most, COMPUTE_F64, PROBE_F64, p);
  case WORK_GEMM_F16: return gemm(point, most, COMPUTE_F16, PROBE_F16, p);
  case WORK_GEMM_BF16: return gemm(point, most, COMPUTE_BF16, PROBE_BF16, p);
  case WORK_CONVOLUTION: return convolution(point, most, p);
  default: return false;
  }
}
