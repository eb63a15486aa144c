/* SPDX-License-Identifier: MIT */
/* Residuals of quantized networks. If a convolution's bytes are only added to other bytes, the
 * convolution and the addition become one step.
 *
 * Values of narrow dtypes are stored between kernels because programs compute in wider dtypes. But
 * a program can reproduce the bytes of an f32 value that is stored and loaded again. It converts to
 * i32, which truncates and saturates like the conversion to bytes, and limits the result. So on the
 * CPU the addition finishes a product of pixels while its bytes are in the nearest cache. */
#include <string.h>

#include "core/device/device.h"
#include "core/kernel/common/program.h"
#include "plan/compile/lower/pairs.h"

typedef struct joiner {
  lowering *l;
  descriptor_copy *convolution, *addition;
  program_builder *program;
} joiner;

static bool is_byte(compute_dtype dtype) {
  return dtype == COMPUTE_I8 || dtype == COMPUTE_U8;
}

/* True if two operands over a space are channels-last and have the same strides. */
static bool are_pixels(const int64_t *size, const compute_operand *a, const compute_operand *b) {
  for (int i = 0; i < 4; i++)
    if (size[i] > 1 && a->stride[i] != b->stride[i]) return false;
  return a->stride[1] == 1;
}

/* True if a program has an instruction of this type on two values that are not constants. */
static bool combines(const compute_program *p, compute_instruction_code code, compute_dtype type) {
  for (uint32_t k = 0; k < p->count; k++) {
    const compute_instruction *i = &p->instructions[k];
    if (i->code == code && i->type == type && p->instructions[i->a].code != COMPUTE_I_CONSTANT &&
        p->instructions[i->b].code != COMPUTE_I_CONSTANT)
      return true;
  }
  return false;
}

/* True if a program multiplies integers, as the terms of zero points do. */
static bool has_terms(const compute_program *p) {
  for (uint32_t k = 0; k < p->count; k++)
    if (p->instructions[k].code == COMPUTE_I_MUL && p->instructions[k].type == COMPUTE_I32)
      return true;
  return false;
}

/* True if the convolution is a product over the pixels' channels and makes bytes from f32. */
static bool makes_bytes(const compute_kernel_descriptor *d) {
  const compute_conv_attributes *c = compute_conv_of(d);
  const compute_program *p = &d->epilogue;
  if (c->direction != COMPUTE_CONVOLUTION_FORWARD || c->groups != 1 || c->pool != 0 ||
      d->accumulate != COMPUTE_I32 || d->output_count != 1 || !is_byte(d->outputs[0].dtype))
    return false;
  for (int i = 0; i < 2; i++)
    if (c->filter_size[i] != 1 || c->stride[i] != 1 || c->padding[i] != 0) return false;
  return p->count > 0 && p->instructions[p->outputs[0]].type == COMPUTE_F32 && !has_terms(p);
}

/* True if a program of two inputs adds them and does not multiply them. */
static bool adds_inputs(const compute_program *p) {
  return combines(p, COMPUTE_I_ADD, COMPUTE_F32) && !combines(p, COMPUTE_I_MUL, COMPUTE_F32);
}

/* True if the addition has the convolution's result space, and all its operands are bytes with the
 * same layout. */
static bool adds_bytes(const compute_kernel_descriptor *from, const compute_kernel_descriptor *to) {
  if (to->rank != 4 || to->input_count != 2 || to->output_count != 1 ||
      !adds_inputs(&to->epilogue) || memcmp(from->size, to->size, 4 * sizeof to->size[0]) != 0)
    return false;
  for (uint32_t k = 0; k < 2; k++)
    if (!is_byte(to->inputs[k].dtype) || !are_pixels(to->size, &to->inputs[k], &from->outputs[0]))
      return false;
  return is_byte(to->outputs[0].dtype) && are_pixels(to->size, &to->outputs[0], &from->outputs[0]);
}

/* True if step i + 1 adds another value to the result of step i. `own` is the input with that
 * result. */
static bool follows(const joiner *j, uint32_t i, uint32_t *own) {
  const lowering *l = j->l;
  const build_step *s = &l->steps[i], *next = s + 1;
  const compute_kernel_descriptor *from = &j->convolution->descriptor,
                                  *to = &j->addition->descriptor;
  const int32_t input = pairs_input(l, i, COMPUTE_KERNEL_CONV, COMPUTE_KERNEL_MAP);
  *own = (uint32_t)input;
  return input >= 0 && next->input_count == 2 &&
         next->operand[1 - input].storage != next->operand[input].storage &&
         s->operand_count < COMPUTE_MAX_OPERANDS && step_is_divisible(l, s, j->convolution) &&
         step_is_divisible(l, next, j->addition) &&
         to->inputs[*own].dtype == from->outputs[0].dtype && makes_bytes(from) &&
         adds_bytes(from, to);
}

/* Appends a program; its instruction i becomes value to[i]. Loads of input `input` become `value`,
 * loads of other inputs read input `other`. If `input` is −1, loads stay unchanged. Returns false
 * if a load is not of i32. */
static bool append(program_builder *b, const compute_program *p, int64_t input, uint16_t value,
                   int64_t other, uint16_t to[COMPUTE_MAX_INSTRUCTIONS]) {
  for (uint32_t k = 0; k < p->count; k++) {
    compute_instruction i = p->instructions[k];
    const int operands = program_operand_count((compute_instruction_code)i.code);
    if (operands > 0) i.a = to[i.a];
    if (operands > 1) i.b = to[i.b];
    if (operands > 2) i.c = to[i.c];
    const bool loads = i.code == COMPUTE_I_LOAD && input >= 0;
    if (loads && i.type != COMPUTE_I32) return false;
    const bool inside = loads && i.immediate.i64 == input;
    if (loads) i.immediate.i64 = other;
    to[k] = inside ? value : program_instruction(b, i);
  }
  return true;
}

/* Converts an f32 value as a store to a byte and a load would. */
static uint16_t as_byte(program_builder *b, uint16_t value, compute_dtype dtype) {
  const bool is_signed = dtype == COMPUTE_I8;
  value = program_apply(b, COMPUTE_I_CAST, COMPUTE_I32, value, 0, 0);
  value = program_apply(b, COMPUTE_I_MAX, COMPUTE_I32, value,
                        program_constant_integer(b, COMPUTE_I32, is_signed ? -128 : 0), 0);
  return program_apply(b, COMPUTE_I_MIN, COMPUTE_I32, value,
                       program_constant_integer(b, COMPUTE_I32, is_signed ? 127 : 255), 0);
}

/* Extends the convolution's descriptor by the addition; false if the device has no such kernel. */
static bool join_descriptors(const joiner *j, const compute_device *device, uint32_t own) {
  compute_kernel_descriptor *d = &j->convolution->descriptor;
  const compute_kernel_descriptor *addition = &j->addition->descriptor;
  const compute_program *sum = &addition->epilogue;
  uint16_t to[COMPUTE_MAX_INSTRUCTIONS];
  char reason[256];
  program_builder *b = j->program;
  *b = (program_builder){0};
  if (!append(b, &d->epilogue, -1, 0, 0, to)) return false;
  const uint16_t byte = as_byte(b, to[d->epilogue.outputs[0]], d->outputs[0].dtype);
  if (!append(b, sum, own, byte, (int64_t)d->input_count - 1, to)) return false;
  program_store(b, to[sum->outputs[0]]);
  if (b->full) return false;
  d->epilogue = program_finish(b);
  compute_operand *operands = j->convolution->operands;
  operands[d->input_count++] = addition->inputs[1 - own];
  operands[d->input_count] = addition->outputs[0];
  d->outputs = operands + d->input_count;
  return descriptor_check(d, reason, sizeof reason) &&
         kernel_is_supported(device, d, reason, sizeof reason);
}

static const compute_kernel_descriptor *describe(void *joiner_, uint32_t i, build_step *joined) {
  const joiner *j = joiner_;
  const build_step *next = &j->l->steps[i + 1];
  uint32_t own = 0;
  if (!follows(j, i, &own) || !join_descriptors(j, j->l->plan->device[joined->device], own))
    return NULL;
  joined->in_place[joined->input_count] = next->in_place[1 - own];
  joined->operand[joined->input_count++] = next->operand[1 - own];
  joined->operand[joined->operand_count++] = next->operand[2];
  joined->operations += next->operations;
  return &j->convolution->descriptor;
}

compute_status residuals_join(lowering *l) {
  joiner j = {.l = l};
  j.convolution = scratch_take(l->memory, 1, sizeof *j.convolution);
  j.addition = scratch_take(l->memory, 1, sizeof *j.addition);
  j.program = scratch_take(l->memory, 1, sizeof *j.program);
  if (!j.convolution || !j.addition || !j.program) return division_out_of_memory(l);
  return pairs_join(l, describe, &j);
}
