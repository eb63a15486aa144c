/* SPDX-License-Identifier: MIT */
#include "program/bytes.h"

#include <string.h>

/* ---- Programs with one byte for each value --------------------------------------------------- */

enum { AS_UNSIGNED = 1, AS_SIGNED = 2, AS_BOTH = 3 };

/* The bytes of a value. */
typedef struct byte_value {
  bool valid;
  bool truth;    /* a truth value, otherwise an integer */
  bool normal;   /* a truth value: 0 or 1 */
  uint8_t exact; /* the integer is its byte, read as one of these; 0: only the low byte is known */
} byte_value;

static const byte_value truth_result = {.valid = true, .truth = true, .normal = true};

static byte_value integer_value(uint8_t exact) {
  return (byte_value){.valid = true, .exact = exact};
}

static byte_value load_value(const compute_instruction *i, compute_dtype dtype) {
  const byte_value raw = {.valid = true, .truth = true};
  if (i->type == COMPUTE_BOOL && dtype == COMPUTE_BOOL) return raw;
  if (i->type == COMPUTE_I32 && dtype == COMPUTE_U8) return integer_value(AS_UNSIGNED);
  if (i->type == COMPUTE_I32 && dtype == COMPUTE_I8) return integer_value(AS_SIGNED);
  return (byte_value){.valid = false};
}

static byte_value constant_value(const compute_instruction *i) {
  const int64_t number = i->immediate.i64;
  if (i->type == COMPUTE_BOOL) return truth_result;
  if (i->type != COMPUTE_I32) return (byte_value){.valid = false};
  return integer_value((uint8_t)((number >= 0 && number <= UINT8_MAX ? AS_UNSIGNED : 0) |
                                 (number >= INT8_MIN && number <= INT8_MAX ? AS_SIGNED : 0)));
}

static byte_value cast_value(const compute_instruction *i, byte_value a) {
  if (i->type == COMPUTE_BOOL && (a.truth || a.exact)) return truth_result;
  if (i->type == COMPUTE_I32) return a.truth ? integer_value(AS_BOTH) : a;
  return (byte_value){.valid = false};
}

/* The result of an instruction on integers. */
static byte_value integer_result(uint8_t code, byte_value a, byte_value b) {
  const uint8_t both = a.exact & b.exact;
  switch (code) {
  case COMPUTE_I_NEG:
  case COMPUTE_I_SQUARE:
  case COMPUTE_I_ADD:
  case COMPUTE_I_SUB:
  case COMPUTE_I_MUL: return integer_value(0);
  case COMPUTE_I_BIT_NOT: return integer_value(a.exact & AS_SIGNED);
  case COMPUTE_I_BIT_AND:
  case COMPUTE_I_BIT_OR:
  case COMPUTE_I_BIT_XOR: return integer_value(both);
  case COMPUTE_I_MIN:
  case COMPUTE_I_MAX: return both ? integer_value(both) : (byte_value){.valid = false};
  case COMPUTE_I_EQ:
  case COMPUTE_I_NE:
  case COMPUTE_I_LT:
  case COMPUTE_I_LE:
  case COMPUTE_I_GT:
  case COMPUTE_I_GE: return both ? truth_result : (byte_value){.valid = false};
  default: return (byte_value){.valid = false};
  }
}

/* The value of an instruction, and its loops. */
static byte_value value_of(const compute_instruction *i, const byte_value *values, uint8_t *kind) {
  const int operands = cpu_operand_count(i->code);
  const byte_value a = operands > 0 ? values[i->a] : integer_value(AS_BOTH);
  const byte_value b = operands > 1 ? values[i->b] : a, c = operands > 2 ? values[i->c] : a;
  if (!a.valid || !b.valid || !c.valid) return (byte_value){.valid = false};
  *kind = CPU_BYTES_TRUTH;
  if (i->code == COMPUTE_I_CAST && !a.truth && i->type != COMPUTE_BOOL) *kind = CPU_BYTES_UNSIGNED;
  if (i->code == COMPUTE_I_CAST) return cast_value(i, a);
  if (i->code == COMPUTE_I_SELECT && b.truth) return truth_result;
  if (i->code == COMPUTE_I_SELECT) {
    *kind = CPU_BYTES_UNSIGNED;
    return integer_value(b.exact & c.exact);
  }
  if (a.truth) return truth_result;
  *kind = a.exact & b.exact & AS_UNSIGNED ? CPU_BYTES_UNSIGNED : CPU_BYTES_SIGNED;
  return integer_result(i->code, a, b);
}

bool cpu_bytes_read(const compute_program *program, const bool *needed, const compute_dtype *inputs,
                    uint32_t output_count, const compute_dtype *outputs, uint8_t *kind) {
  byte_value values[COMPUTE_MAX_INSTRUCTIONS];
  for (uint32_t n = 0; n < program->count; n++) {
    const compute_instruction *i = &program->instructions[n];
    if (!needed[n]) continue;
    values[n] = i->code == COMPUTE_I_LOAD       ? load_value(i, inputs[i->immediate.i64])
                : i->code == COMPUTE_I_CONSTANT ? constant_value(i)
                                                : value_of(i, values, &kind[n]);
    if (!values[n].valid) return false;
  }
  for (uint32_t k = 0; k < output_count; k++) {
    const byte_value value = values[program->outputs[k]];
    if (value.truth ? !value.normal || outputs[k] != COMPUTE_BOOL
                    : outputs[k] != COMPUTE_U8 && outputs[k] != COMPUTE_I8)
      return false;
  }
  return true;
}

void cpu_bytes_set(const cpu_byte_table *table, const compute_instruction *instruction,
                   uint8_t kind, cpu_step *step) {
  const cpu_tile_loops *loops = table->loops[kind];
  step->result_bytes = 1;
  step->condition_bytes = 1;
  step->convert = kind == CPU_BYTES_TRUTH ? table->copy_truth : table->copy;
  switch ((cpu_step_kind)step->kind) {
  case CPU_STEP_LOAD:
    step->in_place = true;
    step->load = table->load;
    break;
  case CPU_STEP_CONSTANT:
    step->constant[0] = instruction->type == COMPUTE_BOOL
                            ? instruction->immediate.i64 != 0
                            : (unsigned char)instruction->immediate.i64;
    break;
  case CPU_STEP_CONVERT: break;
  default: step->loops = (*loops)[instruction->code]; break;
  }
}

/* ---- Tables ---------------------------------------------------------------------------------- */

enum { TABLE = 256, FEW_STEPS = 3, TABLE_COST = 2, STREAMED = 4096 };

static bool is_byte(compute_dtype dtype) {
  return cpu_dtype_size(dtype) == 1;
}

/* The only input that a program reads, if it is bytes, or −1. */
static int32_t only_input(const cpu_program *program, const compute_dtype *inputs) {
  int32_t input = -1;
  for (uint32_t i = 0; i < program->step_count; i++) {
    const cpu_step *step = &program->step[i];
    if (step->kind != CPU_STEP_LOAD) continue;
    if (!is_byte(inputs[step->input]) || (input >= 0 && input != step->input)) return -1;
    input = step->input;
  }
  return input;
}

void cpu_bytes_make_table(cpu_device *device, const compute_dtype *inputs,
                          const compute_dtype *outputs, cpu_program *program) {
  const int32_t input = only_input(program, inputs);
  if (input < 0 || program->output_count != 1 || !is_byte(outputs[0]) || program->identity ||
      program->places || (program->one_byte && program->step_count <= FEW_STEPS))
    return;
  cpu_scratch *scratch = cpu_workspace_acquire(device, sizeof *scratch);
  if (!scratch) return;
  unsigned char bytes[TABLE];
  for (int i = 0; i < TABLE; i++) bytes[i] = (unsigned char)i;
  cpu_tile tile = {.count = TABLE, .output = {program->table_of}, .output_stride = {1}};
  tile.input[input] = bytes;
  tile.input_stride[input] = 1;
  cpu_program_run(program, &tile, scratch, false);
  cpu_workspace_return(device, scratch);
  program->table_input = (int16_t)input;
  program->copies_bytes = memcmp(program->table_of, bytes, TABLE) == 0;
  program->passes = 1;
  program->cost = TABLE_COST;
}

static void convert(const cpu_program *program, int64_t count, unsigned char *to,
                    const unsigned char *from) {
  if (program->copies_bytes)
    memmove(to, from, (size_t)count);
  else
    program->table->bytes->look_up(count, to, from, program->table_of);
}

bool cpu_bytes_look_up(const cpu_program *program, const cpu_tile *tile, cpu_scratch *scratch,
                       bool stream) {
  if (program->table_input < 0 || tile->input_stride[program->table_input] != 1 ||
      tile->output_stride[0] != 1)
    return false;
  const unsigned char *from = tile->input[program->table_input];
  unsigned char *to = tile->output[0];
  if (!stream || ((uintptr_t)to & 63) != 0) {
    convert(program, tile->count, to, from);
    return true;
  }
  for (int64_t i = 0; i < tile->count; i += STREAMED) {
    const int64_t count = cpu_min(tile->count - i, STREAMED);
    convert(program, count, scratch->bytes, from + i);
    program->table->stream(to + i, scratch->bytes, count);
  }
  return true;
}
