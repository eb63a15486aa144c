/* SPDX-License-Identifier: MIT */
/* Kernel descriptors: an accepted descriptor can be counted, classified and generated for every
 * dialect, or is refused with a reason. Nothing crashes or overflows. */
#include <string.h>

#include "fuzz.h"
#include "codegen/generate/generate.h"
#include "core/kernel/kernel.h"
#include "core/kernel/common/fit_problem.h"
#include "core/kernel/common/program.h"
#include "codegen/tune/entry.h"
#include "fuzz/attributes/attributes.h"

static void read_operands(reader *r, compute_operand *operands, uint32_t count, int32_t rank) {
  for (uint32_t i = 0; i < count; i++) {
    operands[i].dtype = (compute_dtype)(byte(r) % COMPUTE_DTYPE_COUNT);
    for (int32_t k = 0; k < rank && k < COMPUTE_MAX_RANK; k++) operands[i].stride[k] = number(r);
  }
}

static void read_program(reader *r, compute_program *program, compute_instruction *instructions,
                         uint16_t *outputs, uint32_t most) {
  uint32_t count = byte(r) % most, output_count = byte(r) % 4;
  for (uint32_t i = 0; i < count; i++) {
    instructions[i] = (compute_instruction){.code = (uint8_t)(byte(r) % (COMPUTE_I_END + 2)),
                                            .type = (uint8_t)(byte(r) % 9),
                                            .a = byte(r),
                                            .b = byte(r),
                                            .c = byte(r)};
    instructions[i].immediate.i64 = number(r);
  }
  for (uint32_t i = 0; i < output_count; i++) outputs[i] = byte(r);
  *program = (compute_program){.count = count,
                               .output_count = output_count,
                               .instructions = instructions,
                               .outputs = outputs};
}

/* Makes the descriptor match a valid problem; chance alone almost never would. */
static void repair_fit(compute_kernel_descriptor *d, const compute_fit_attributes *a,
                       compute_operand *inputs, compute_operand *outputs) {
  char reason[256];
  const compute_fit_problem *p = &a->problem;
  if (!fit_problem_check(p, reason, sizeof reason) || __builtin_popcount(p->inputs) > 5) return;
  d->rank = 1;
  d->input_count = 1 + (uint32_t)__builtin_popcount(p->inputs);
  d->output_count = 1;
  d->prologue.count = d->epilogue.count = 0;
  inputs[0].dtype = inputs[0].stride[0] & 1 ? COMPUTE_U16 : COMPUTE_F32;
  for (int32_t i = 0; i < FIT_INPUTS; i++)
    if (p->inputs >> i & 1)
      inputs[fit_input_index(p->inputs, UINT32_C(1) << i)].dtype = fit_input_dtype(i);
  outputs[0] = (compute_operand){COMPUTE_F32, {compute_fit_column(p->model, p->outputs, 0), 1}};
}

static void generate(const compute_kernel_descriptor *d, compute_dialect dialect, uint8_t flags,
                     const compute_tuning *tuning) {
  compute_target target = {.struct_size = sizeof target,
                           .dialect = dialect,
                           .type = flags & 32 ? COMPUTE_DEVICE_CPU : COMPUTE_DEVICE_GPU,
                           .flags = flags & 31,
                           .backend = "fuzz",
                           .family = "sm_90",
                           .compute_units = 8,
                           .lanes = 32,
                           .vector_width = 4,
                           .group_limit = 256,
                           .group_limit_of = {256, 256, 64},
                           .local_bytes = 32768,
                           .cache_bytes = 1 << 20};
  char reason[256] = "";
  const compute_generated *generated = NULL;
  compute_status status = generate_kernel(&target, d, tuning, &generated, reason, sizeof reason);
  FUZZ_CHECK((status == COMPUTE_OK) == (generated != NULL));
  FUZZ_CHECK(status == COMPUTE_OK || (status == COMPUTE_ERROR_UNSUPPORTED && reason[0]));
  if (!generated) return;
  for (uint32_t i = 0; i < generated->launch_count; i++) {
    const compute_generated_launch *l = &generated->launches[i];
    FUZZ_CHECK(l->group[0] * l->group[1] * l->group[2] <= target.group_limit);
    FUZZ_CHECK(l->groups[0] && l->groups[1] - 1 < 65535 && l->groups[2] - 1 < 65535);
    FUZZ_CHECK(l->shape_bytes % 8 == 0 && l->shape_bytes <= 3072);
  }
  generate_release(generated);
}

static void read_attributes(reader *r, const compute_kernel_descriptor *d, any_attributes *a) {
  switch (d->kind) {
#define READ_KIND(code, number, name)                                                              \
  case COMPUTE_KERNEL_##code: read_##name(r, &a->name); break;
    COMPUTE_KERNEL_KINDS(READ_KIND)
#undef READ_KIND
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  enum { MOST = 12, OPERANDS = 6 };
  reader r = {data, size};
  compute_operand inputs[OPERANDS] = {{0}}, outputs[OPERANDS] = {{0}};
  compute_instruction prologue[MOST], epilogue[MOST];
  uint16_t prologue_outputs[4], epilogue_outputs[4];
  compute_kernel_descriptor d = {.struct_size = sizeof d};
  d.kind = (compute_kernel_kind)(byte(&r) % COMPUTE_KERNEL_KIND_COUNT);
  d.rank = (int32_t)(byte(&r) % 10) - (byte(&r) == 255);
  for (int i = 0; i < COMPUTE_MAX_RANK && i < d.rank; i++) d.size[i] = number(&r);
  d.input_count = byte(&r) % OPERANDS;
  d.output_count = byte(&r) % OPERANDS;
  d.inputs = inputs;
  d.outputs = outputs;
  const int32_t dimensions = d.kind == COMPUTE_KERNEL_FIT ? 3 : d.rank;
  read_operands(&r, inputs, d.input_count, dimensions);
  read_operands(&r, outputs, d.output_count, dimensions);
  read_program(&r, &d.prologue, prologue, prologue_outputs, MOST);
  read_program(&r, &d.epilogue, epilogue, epilogue_outputs, MOST);
  d.prologue_inputs = byte(&r);
  d.accumulate = (compute_dtype)(byte(&r) % COMPUTE_DTYPE_COUNT);
  any_attributes attributes = {0};
  read_attributes(&r, &d, &attributes);
  d.attributes = byte(&r) == 255 ? NULL : &attributes;
  d.attribute_bytes = byte(&r) == 255 ? 4 : sizeof attributes;
  if (d.kind == COMPUTE_KERNEL_FIT && byte(&r) % 4)
    repair_fit(&d, &attributes.fit, inputs, outputs);
  compute_tuning tuning = {.variant = byte(&r) % 9, .group_x = (uint32_t)number(&r) & 0xfffff};
  char reason[256] = "", name[KERNEL_CLASS_BYTES];
  if (!descriptor_check(&d, reason, sizeof reason)) {
    FUZZ_CHECK(reason[0] != 0);
    return 0;
  }
  (void)kernel_cost_of(&d);
  kernel_class_print(&d, name);
  FUZZ_CHECK(strlen(name) < sizeof name && kernel_class_valid(name, strlen(name)));
  uint8_t flags = byte(&r);
  for (int dialect = COMPUTE_DIALECT_OPENCL; dialect <= COMPUTE_DIALECT_C; dialect++)
    generate(&d, (compute_dialect)dialect, flags, tuning.variant ? &tuning : NULL);
  return 0;
}
