/* SPDX-License-Identifier: MIT */
/* Functions that build samples, and the targets. */
#include "core/kernel/kernel.h"
#include "support/samples/sample_convolutions.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "support/samples/sample_fits.h"

void sample_begin(sample_kernel *s, compute_kernel_kind kind, compute_shape space,
                  const char *format, ...) {
  va_list list;
  memset(s, 0, sizeof *s);
  va_start(list, format);
  vsnprintf(s->name, sizeof s->name, format, list);
  va_end(list);
  s->low = -4;
  s->high = 4;
  s->descriptor = (compute_kernel_descriptor){
      .struct_size = sizeof s->descriptor, .kind = kind, .rank = space.rank};
  attributes_bind(&s->descriptor, &s->attributes);
  for (int32_t d = 0; d < space.rank; d++) s->descriptor.size[d] = space.size[d];
}

void sample_dense(const compute_kernel_descriptor *d, uint32_t dimensions,
                  int64_t stride[COMPUTE_MAX_RANK]) {
  int64_t step = 1;
  for (int32_t i = d->rank - 1; i >= 0; i--) {
    stride[i] = 0;
    if (!(dimensions >> i & 1)) continue;
    stride[i] = step;
    step *= d->size[i] > 0 ? d->size[i] : 1;
  }
}

compute_operand *sample_input(sample_kernel *s, compute_dtype dtype, uint32_t dimensions) {
  compute_operand *operand = &s->inputs[s->descriptor.input_count++];
  operand->dtype = dtype;
  sample_dense(&s->descriptor, dimensions, operand->stride);
  return operand;
}

compute_operand *sample_output(sample_kernel *s, compute_dtype dtype, uint32_t dimensions) {
  compute_operand *operand = &s->outputs[s->descriptor.output_count++];
  operand->dtype = dtype;
  sample_dense(&s->descriptor, dimensions, operand->stride);
  return operand;
}

compute_tuning *sample_tuning(sample_kernel *s) {
  return &s->tuning[s->tuning_count++];
}

void sample_end(sample_kernel *s, sample_visitor visit, void *user) {
  s->descriptor.inputs = s->inputs;
  s->descriptor.outputs = s->outputs;
  s->descriptor.prologue = program_finish(&s->prologue);
  s->descriptor.epilogue = program_finish(&s->epilogue);
  visit(s, user);
}

/* Only its function defines a CALL. */
void sample_call_kernels(sample_visitor visit, void *user) {
  (void)visit;
  (void)user;
}

static void (*const samples[])(sample_visitor visit, void *user) = {
#define SAMPLE_KIND(code, number, name) [number] = sample_##name##_kernels,
    COMPUTE_KERNEL_KINDS(SAMPLE_KIND)
#undef SAMPLE_KIND
};

void sample_kernels_visit(sample_visitor visit, void *user) {
  for (size_t kind = 0; kind < COMPUTE_KERNEL_KIND_COUNT; kind++)
    if (kind != COMPUTE_KERNEL_SPOTS && kind != COMPUTE_KERNEL_QUANTIZED_GEMM)
      samples[kind](visit, user);
}

void sample_kernels_visit_all(sample_visitor visit, void *user) {
  for (size_t kind = 0; kind < COMPUTE_KERNEL_KIND_COUNT; kind++) samples[kind](visit, user);
  sample_every_instruction(visit, user);
}

const compute_operand *sample_kernel_operand(const sample_kernel *sample, uint32_t operand) {
  const uint32_t inputs = sample->descriptor.input_count;
  return operand < inputs ? &sample->inputs[operand] : &sample->outputs[operand - inputs];
}

/* ---- Extents ------------------------------------------------------------------------------- */

static bool reach(int64_t size, int64_t stride, int64_t *low, int64_t *high) {
  if (size == 0) return false;
  if (stride < 0)
    *low += (size - 1) * stride;
  else
    *high += (size - 1) * stride;
  return true;
}

bool sample_kernel_extent(const sample_kernel *sample, uint32_t operand, int64_t *low,
                          int64_t *high) {
  const compute_kernel_descriptor *d = &sample->descriptor;
  const compute_operand *o = sample_kernel_operand(sample, operand);
  const bool output = operand >= d->input_count;
  bool some = true;
  int64_t sizes[COMPUTE_MAX_RANK];
  *low = *high = 0;
  if (d->kind == COMPUTE_KERNEL_FIT) {
    sample_fit_sizes(d, operand, sizes);
    for (int i = 0; i < 3; i++)
      if (!reach(sizes[i], o->stride[i], low, high)) some = false;
    return some;
  }
  kernel_operand_sizes(d, operand, sizes);
  for (int32_t i = 0; i < d->rank; i++) {
    /* A reduction over an empty dimension still stores. */
    if (d->kind == COMPUTE_KERNEL_REDUCE && i >= compute_reduce_of(d)->kept_rank &&
        (output || operand >= d->prologue_inputs))
      continue;
    if (!reach(sizes[i], o->stride[i], low, high)) some = false;
  }
  if ((d->kind == COMPUTE_KERNEL_GATHER && operand == 0) ||
      (d->kind == COMPUTE_KERNEL_SCATTER && output)) {
    if (!reach(compute_index_of(d)->axis_size, compute_index_of(d)->axis_stride, low, high))
      some = false;
  }
  return some;
}

/* ---- f64 ----------------------------------------------------------------------------------- */

static bool program_uses_f64(const compute_program *program) {
  for (uint32_t i = 0; i < program->count; i++)
    if (program->instructions[i].type == COMPUTE_F64) return true;
  return false;
}

bool sample_kernel_uses_f64(const sample_kernel *sample) {
  const compute_kernel_descriptor *d = &sample->descriptor;
  if (d->kind == COMPUTE_KERNEL_TREES && compute_trees_of(d)->words == 2) return true;
  for (uint32_t i = 0; i < d->input_count + d->output_count; i++)
    if (sample_kernel_operand(sample, i)->dtype == COMPUTE_F64) return true;
  return program_uses_f64(&d->prologue) || program_uses_f64(&d->epilogue) ||
         d->accumulate == COMPUTE_F64;
}

/* ---- Targets ------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  compute_target target;
} targets[TARGET_COUNT] = {
    [TARGET_CPU] = {"cpu",
                    {.type = COMPUTE_DEVICE_CPU,
                     .flags = COMPUTE_TARGET_F64,
                     .backend = "sample",
                     .vendor = "sample",
                     .family = "pocl",
                     .compute_units = 2,
                     .lanes = 1,
                     .vector_width = 16,
                     .group_limit = 4096,
                     .group_limit_of = {4096, 4096, 4096},
                     .local_bytes = 1 << 20,
                     .cache_bytes = 32 << 20}},
    [TARGET_GPU] = {"gpu",
                    {.type = COMPUTE_DEVICE_GPU,
                     .flags = COMPUTE_TARGET_F64 | COMPUTE_TARGET_F16 | COMPUTE_TARGET_FAST_LOCAL |
                              COMPUTE_TARGET_LOCKSTEP | COMPUTE_TARGET_MATRIX_CORES |
                              COMPUTE_TARGET_MATRIX_F64 | COMPUTE_TARGET_WARPGROUP_MATRIX |
                              COMPUTE_TARGET_FAULT_RECORDS,
                     .backend = "sample",
                     .vendor = "NVIDIA Corporation",
                     .family = "sm_90",
                     .compute_units = 16,
                     .lanes = 32,
                     .vector_width = 4,
                     .group_limit = 1024,
                     .group_limit_of = {1024, 1024, 64},
                     .local_bytes = 48 << 10,
                     .cache_bytes = 32 << 20,
                     .launch_local_bytes = 160 << 10}},
    [TARGET_SMALL] = {"small",
                      {.type = COMPUTE_DEVICE_GPU,
                       .backend = "sample",
                       .vendor = "sample",
                       .compute_units = 3,
                       .lanes = 1,
                       .vector_width = 1,
                       .group_limit = 64,
                       .group_limit_of = {64, 64, 64},
                       .local_bytes = 8 << 10}},
};

compute_target sample_target_create(sample_target target, compute_dialect dialect) {
  compute_target made = targets[target].target;
  made.struct_size = sizeof made;
  made.dialect = dialect;
  return made;
}

const char *sample_target_name(sample_target target) {
  return targets[target].name;
}
