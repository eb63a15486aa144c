/* SPDX-License-Identifier: MIT */
/* Writes a descriptor as bytes, and reads it back. Change both sides together. */
#include "core/kernel/kernel_key.h"

#include <string.h>

#include "core/kernel/common/kind.h"

/* ---- Writing ------------------------------------------------------------------------------- */

static void put(kernel_key *key, const void *data, size_t bytes) {
  memcpy(key->bytes + key->length, data, bytes);
  key->length += bytes;
}

static void put_i64(kernel_key *key, int64_t value) {
  put(key, &value, sizeof value);
}

static void put_operands(kernel_key *key, const compute_operand *operands, uint32_t count,
                         int32_t rank) {
  for (uint32_t i = 0; i < count; i++) {
    uint32_t dtype = (uint32_t)operands[i].dtype;
    put(key, &dtype, sizeof dtype);
    put(key, operands[i].stride, (size_t)rank * sizeof *operands[i].stride);
  }
}

static int32_t stride_count(const compute_kernel_descriptor *d) {
  const int32_t rank = kernel_kind_of(d->kind)->operand_rank;
  return rank > 0 ? rank : d->rank;
}

static void put_program(kernel_key *key, const compute_program *program) {
  put_i64(key, program->count);
  if (program->count == 0) return;
  put_i64(key, program->output_count);
  for (uint32_t i = 0; i < program->count; i++) {
    compute_instruction instruction = program_normalize(program->instructions[i]);
    put(key, &instruction, sizeof instruction);
  }
  put(key, program->outputs, program->output_count * sizeof *program->outputs);
}

/* Writes only the attributes that the kind uses. Gaps between fields are 0. */
static void put_attributes(kernel_key *key, const compute_kernel_descriptor *d) {
  const kernel_kind *kind = kernel_kind_of(d->kind);
  kernel_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  if (kind->normalize)
    kind->normalize(d, attributes.bytes);
  else if (kind->attribute_bytes > 0)
    memcpy(attributes.bytes, d->attributes, kind->attribute_bytes);
  put(key, attributes.bytes, kind->attribute_bytes);
}

static bool program_fits_key(const compute_program *program) {
  return program->count <= COMPUTE_MAX_INSTRUCTIONS &&
         program->output_count <= COMPUTE_MAX_OPERANDS &&
         (program->count == 0 || program->instructions) &&
         (program->output_count == 0 || program->outputs);
}

/* `true` if the key can be written. descriptor_check reports the cause otherwise. */
bool kernel_key_fits(const compute_kernel_descriptor *d) {
  return d && d->rank >= 0 && d->rank <= COMPUTE_MAX_RANK &&
         d->input_count <= COMPUTE_MAX_OPERANDS && d->output_count <= COMPUTE_MAX_OPERANDS &&
         d->input_count + d->output_count <= COMPUTE_MAX_OPERANDS &&
         (d->input_count == 0 || d->inputs) && (d->output_count == 0 || d->outputs) &&
         program_fits_key(&d->prologue) && program_fits_key(&d->epilogue) &&
         kernel_attributes_fit(d);
}

void kernel_key_write(kernel_key *key, const compute_kernel_descriptor *d) {
  key->length = 0;
  put_i64(key, d->kind);
  put_i64(key, d->rank);
  put(key, d->size, (size_t)d->rank * sizeof *d->size);
  put_i64(key, d->input_count);
  put_i64(key, d->output_count);
  put_operands(key, d->inputs, d->input_count, stride_count(d));
  put_operands(key, d->outputs, d->output_count, stride_count(d));
  put_program(key, &d->prologue);
  put_program(key, &d->epilogue);
  const kernel_kind *kind = kernel_kind_of(d->kind);
  put_i64(key, kind->has_prologue ? d->prologue_inputs : 0);
  put_i64(key, kind->has_accumulate ? (int64_t)d->accumulate : 0);
  put_i64(key, (int64_t)d->demands << 32 | d->constant_inputs);
  put_attributes(key, d);
}

/* ---- Reading ------------------------------------------------------------------------------- */

static void get(const unsigned char **key, void *data, size_t bytes) {
  memcpy(data, *key, bytes);
  *key += bytes;
}

static int64_t get_i64(const unsigned char **key) {
  int64_t value;
  get(key, &value, sizeof value);
  return value;
}

static void get_operands(const unsigned char **key, compute_operand *operands, uint32_t count,
                         int32_t rank) {
  for (uint32_t i = 0; i < count; i++) {
    uint32_t dtype;
    get(key, &dtype, sizeof dtype);
    operands[i] = (compute_operand){.dtype = (compute_dtype)dtype};
    get(key, operands[i].stride, (size_t)rank * sizeof *operands[i].stride);
  }
}

static void get_program(const unsigned char **key, compute_program *program,
                        compute_instruction *instructions, uint16_t *outputs) {
  *program = (compute_program){.count = (uint32_t)get_i64(key)};
  if (program->count == 0) return;
  program->output_count = (uint32_t)get_i64(key);
  program->instructions = instructions;
  program->outputs = outputs;
  get(key, instructions, program->count * sizeof *instructions);
  get(key, outputs, program->output_count * sizeof *outputs);
}

void kernel_key_read(const unsigned char *key, descriptor_copy *copy) {
  compute_kernel_descriptor *d = &copy->descriptor;
  *d = (compute_kernel_descriptor){.struct_size = sizeof *d};
  d->kind = (compute_kernel_kind)get_i64(&key);
  d->rank = (int32_t)get_i64(&key);
  get(&key, d->size, (size_t)d->rank * sizeof *d->size);
  d->input_count = (uint32_t)get_i64(&key);
  d->output_count = (uint32_t)get_i64(&key);
  d->inputs = copy->operands;
  d->outputs = copy->operands + d->input_count;
  get_operands(&key, copy->operands, d->input_count, stride_count(d));
  get_operands(&key, copy->operands + d->input_count, d->output_count, stride_count(d));
  get_program(&key, &d->prologue, copy->prologue, copy->prologue_outputs);
  get_program(&key, &d->epilogue, copy->epilogue, copy->epilogue_outputs);
  d->prologue_inputs = (uint32_t)get_i64(&key);
  d->accumulate = (compute_dtype)get_i64(&key);
  const uint64_t bits = (uint64_t)get_i64(&key);
  d->constant_inputs = (uint32_t)bits;
  d->demands = (uint32_t)(bits >> 32);
  const size_t bytes = kernel_kind_of(d->kind)->attribute_bytes;
  if (bytes > 0) get(&key, kernel_attributes_in(&copy->attributes, d, bytes), bytes);
}
