/* SPDX-License-Identifier: MIT */
/* Programs: building, checking, counting and printing. One table of instructions drives all of
 * them. */
#include "core/kernel/common/program.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/real.h"
#include "core/type/dtype.h"

/* ---- The table of instructions ------------------------------------------------------------- */

/* The cost class of an instruction, as named in its row. */
typedef enum price_class {
  PRICE_FREE,
  PRICE_MOVE,
  PRICE_SIMPLE,
  PRICE_DIVISION,
  PRICE_EXP,
  PRICE_LOG,
  PRICE_SERIES,
  PRICE_POWER,
  PRICE_RANDOM
} price_class;

/* The operand and result types of an instruction. */
typedef enum type_rule {
  RULE_NONE = 0, /* no such code */
  RULE_LOAD,     /* any type; immediate is an input */
  RULE_CONSTANT, /* any type */
  RULE_POSITION, /* I64 */
  RULE_RANDOM,   /* F from two I64 */
  RULE_CAST,     /* any from any */
  RULE_FLOAT,    /* F from the same F */
  RULE_SINGLE,   /* F32 from F32 */
  RULE_DOUBLE,   /* F64 from F64 */
  RULE_NUMBER,   /* F or I from the same */
  RULE_INTEGER,  /* I from the same */
  RULE_LOGIC,    /* BOOL from BOOL */
  RULE_CLASSIFY, /* BOOL from F */
  RULE_EQUALITY, /* BOOL from two of one type */
  RULE_ORDER,    /* BOOL from two of one number type */
  RULE_SELECT    /* any from BOOL and two of the same type */
} type_rule;

enum { PLAIN = 0, IMMEDIATE = 1, JUMPS = 2, IMMEDIATE_JUMPS = IMMEDIATE | JUMPS };

typedef struct code_row {
  const char *name;
  uint8_t operands, rule, cost, traits;
} code_row;

static const code_row code_table[COMPUTE_I_END] = {
#define INSTRUCTION(code, number, name, operands, rule, cost, traits, text)                        \
  [number] = {#name, operands, RULE_##rule, PRICE_##cost, traits},
#include "compute/backend/instructions.def"
};

static const code_row *row_of(unsigned code) {
  static const code_row none = {"invalid", 0, RULE_NONE, PRICE_FREE, PLAIN};
  return code < COMPUTE_I_END && code_table[code].name ? &code_table[code] : &none;
}

int program_operand_count(compute_instruction_code code) {
  return row_of((unsigned)code)->operands;
}

const char *program_code_name(compute_instruction_code code) {
  return row_of((unsigned)code)->name;
}

program_price program_code_price(compute_instruction_code code) {
  /* Simple operations, exponentials, and the weight when only operations are counted. */
  static const program_price prices[] = {
      [PRICE_FREE] = {0, 0, 0},     [PRICE_MOVE] = {1, 0, 0},  [PRICE_SIMPLE] = {1, 0, 1},
      [PRICE_DIVISION] = {3, 0, 1}, [PRICE_EXP] = {0, 1, 8},   [PRICE_LOG] = {0, 1.4, 8},
      [PRICE_SERIES] = {0, 1.8, 8}, [PRICE_POWER] = {0, 4, 8}, [PRICE_RANDOM] = {40, 0, 8},
  };
  return prices[row_of((unsigned)code)->cost];
}

bool program_code_jumps(compute_instruction_code code) {
  return row_of((unsigned)code)->traits & JUMPS;
}

/* ---- Building ------------------------------------------------------------------------------ */

compute_instruction program_normalize(compute_instruction instruction) {
  const code_row *row = row_of(instruction.code);
  if (row->operands < 1) instruction.a = 0;
  if (row->operands < 2) instruction.b = 0;
  if (row->operands < 3) instruction.c = 0;
  if (!(row->traits & IMMEDIATE)) instruction.immediate.i64 = 0;
  return instruction;
}

/* The struct has no padding, so equal instructions have equal bytes. Zeros of different sign
 * differ. Programs are short, so a linear search beats a table. */
_Static_assert(sizeof(compute_instruction) == 16, "instructions compare as bytes");

uint16_t program_instruction(program_builder *b, compute_instruction instruction) {
  instruction = program_normalize(instruction);
  for (uint32_t i = 0; i < b->count; i++) {
    if (!memcmp(&b->instruction[i], &instruction, sizeof instruction)) return (uint16_t)i;
  }
  if (b->count == COMPUTE_MAX_INSTRUCTIONS) {
    b->full = true;
    return 0;
  }
  b->instruction[b->count] = instruction;
  return (uint16_t)b->count++;
}

uint16_t program_load(program_builder *b, compute_dtype type, uint32_t input) {
  return program_instruction(
      b,
      (compute_instruction){.code = COMPUTE_I_LOAD, .type = (uint8_t)type, .immediate.i64 = input});
}

uint16_t program_constant(program_builder *b, compute_dtype type, double value) {
  compute_instruction instruction = {.code = COMPUTE_I_CONSTANT, .type = (uint8_t)type};
  unsigned char element[8];
  dtype_store(type, element, value);
  if (dtype_is_float(type)) {
    instruction.immediate.f64 = dtype_load(type, element);
  } else {
    instruction.immediate.i64 = dtype_load_integer(type, element);
  }
  return program_instruction(b, instruction);
}

uint16_t program_constant_integer(program_builder *b, compute_dtype type, int64_t value) {
  compute_instruction instruction = {.code = COMPUTE_I_CONSTANT, .type = (uint8_t)type};
  unsigned char element[8];
  dtype_store_integer(type, element, value);
  if (dtype_is_float(type)) {
    instruction.immediate.f64 = dtype_load(type, element);
  } else {
    instruction.immediate.i64 = dtype_load_integer(type, element);
  }
  return program_instruction(b, instruction);
}

uint16_t program_apply(program_builder *b, compute_instruction_code code, compute_dtype type,
                       uint16_t a, uint16_t operand_b, uint16_t c) {
  return program_instruction(
      b, (compute_instruction){
             .code = (uint8_t)code, .type = (uint8_t)type, .a = a, .b = operand_b, .c = c});
}

void program_store(program_builder *b, uint16_t value) {
  if (b->output_count == COMPUTE_MAX_OPERANDS) {
    b->full = true;
    return;
  }
  b->output[b->output_count++] = value;
}

compute_program program_finish(const program_builder *b) {
  return (compute_program){
      .count = b->count,
      .output_count = b->output_count,
      .instructions = b->instruction,
      .outputs = b->output,
  };
}

uint32_t program_flops(const compute_program *program) {
  uint32_t flops = 0;
  for (uint32_t i = 0; i < program->count; i++) {
    flops += program_code_price((compute_instruction_code)program->instructions[i].code).flops;
  }
  return flops;
}

/* ---- Checking ------------------------------------------------------------------------------ */

static bool is_program_type(unsigned type) {
  return type == COMPUTE_F64 || type == COMPUTE_F32 || type == COMPUTE_I64 || type == COMPUTE_I32 ||
         type == COMPUTE_BOOL;
}

static bool is_number(unsigned type) {
  return is_program_type(type) && type != COMPUTE_BOOL;
}

static bool is_float(unsigned type) {
  return type == COMPUTE_F64 || type == COMPUTE_F32;
}

/* `true` if the types and the immediate of an instruction obey its rule; a, b, c are its operands'
 * types. */
static bool obeys_rule(const compute_instruction *instruction, uint32_t input_count, unsigned a,
                       unsigned b, unsigned c) {
  unsigned type = instruction->type;
  const code_row *row = row_of(instruction->code);
  int64_t immediate = instruction->immediate.i64;
  bool same = row->operands < 2 || a == b;
  switch ((type_rule)row->rule) {
  case RULE_LOAD: return immediate >= 0 && immediate < (int64_t)input_count;
  case RULE_CONSTANT:
  case RULE_CAST: return true;
  case RULE_POSITION:
    return type == COMPUTE_I64 && (instruction->code == COMPUTE_I_POSITION ||
                                   (immediate >= 0 && immediate < COMPUTE_MAX_RANK));
  case RULE_RANDOM:
    return is_float(type) && a == COMPUTE_I64 && b == COMPUTE_I64 && immediate >= 0 &&
           immediate <= UINT32_MAX;
  case RULE_FLOAT: return is_float(type) && a == type && same;
  case RULE_SINGLE: return type == COMPUTE_F32 && a == COMPUTE_F32;
  case RULE_DOUBLE:
    return type == COMPUTE_F64 && a == type && same && (row->operands < 3 || c == a);
  case RULE_NUMBER: return is_number(type) && a == type && same;
  case RULE_INTEGER: return is_number(type) && !is_float(type) && a == type && same;
  case RULE_LOGIC: return type == COMPUTE_BOOL && a == COMPUTE_BOOL && same;
  case RULE_CLASSIFY: return type == COMPUTE_BOOL && is_float(a);
  case RULE_EQUALITY: return type == COMPUTE_BOOL && same;
  case RULE_ORDER: return type == COMPUTE_BOOL && is_number(a) && same;
  case RULE_SELECT: return a == COMPUTE_BOOL && b == type && c == type;
  case RULE_NONE: break;
  }
  return false;
}

static bool check_instruction(const compute_program *program, uint32_t at, uint32_t input_count,
                              char *reason, size_t reason_bytes) {
  const compute_instruction *instruction = &program->instructions[at];
  const code_row *row = row_of(instruction->code);
  if (row->rule == RULE_NONE || !is_program_type(instruction->type)) {
    snprintf(reason, reason_bytes, "instruction %" PRIu32 ": invalid code %u or type %u", at,
             instruction->code, instruction->type);
    return false;
  }
  const uint16_t operand[3] = {instruction->a, instruction->b, instruction->c};
  unsigned type[3] = {0, 0, 0};
  for (int k = 0; k < row->operands; k++) {
    if (operand[k] >= at) {
      snprintf(reason, reason_bytes, "instruction %" PRIu32 " (%s): operand %u does not precede it",
               at, row->name, operand[k]);
      return false;
    }
    type[k] = program->instructions[operand[k]].type;
  }
  if (!obeys_rule(instruction, input_count, type[0], type[1], type[2])) {
    snprintf(reason, reason_bytes,
             "instruction %" PRIu32 " (%s %s): wrong operand types or immediate %" PRId64, at,
             row->name, compute_dtype_name((compute_dtype)instruction->type),
             instruction->immediate.i64);
    return false;
  }
  return true;
}

bool program_check(const compute_program *program, uint32_t input_count, char *reason,
                   size_t reason_bytes) {
  if (program->count > COMPUTE_MAX_INSTRUCTIONS || program->output_count > COMPUTE_MAX_OPERANDS) {
    snprintf(reason, reason_bytes, "%" PRIu32 " instructions, %" PRIu32 " outputs are too many",
             program->count, program->output_count);
    return false;
  }
  if ((program->count > 0 && !program->instructions) ||
      (program->output_count > 0 && !program->outputs)) {
    snprintf(reason, reason_bytes, "the instructions or the outputs are NULL");
    return false;
  }
  for (uint32_t i = 0; i < program->count; i++) {
    if (!check_instruction(program, i, input_count, reason, reason_bytes)) return false;
  }
  for (uint32_t k = 0; k < program->output_count; k++) {
    if (program->outputs[k] >= program->count) {
      snprintf(reason, reason_bytes, "output %" PRIu32 " is value %u of %" PRIu32, k,
               program->outputs[k], program->count);
      return false;
    }
  }
  return true;
}

/* ---- Printing ------------------------------------------------------------------------------ */

static bool is_leaf(const compute_instruction *instruction) {
  return row_of(instruction->code)->operands == 0;
}

static void print_leaf(const compute_instruction *instruction, text_buffer *text) {
  int64_t immediate = instruction->immediate.i64;
  switch (instruction->code) {
  case COMPUTE_I_LOAD: text_add(text, "in%" PRId64, immediate); break;
  case COMPUTE_I_CONSTANT:
    if (is_float(instruction->type)) {
      char number[REAL_TEXT_BYTES];
      text_add(text, "%s", real_decimal(instruction->immediate.f64, 9, number));
    } else if (instruction->type == COMPUTE_BOOL) {
      text_add(text, "%s", immediate ? "true" : "false");
    } else {
      text_add(text, "%" PRId64, immediate);
    }
    break;
  case COMPUTE_I_COORDINATE: text_add(text, "coordinate%" PRId64, immediate); break;
  default: text_add(text, "%s", row_of(instruction->code)->name); break;
  }
}

/* Prints a value that several instructions use (`uses`) by name. Otherwise the text could double
 * with every instruction. */
static void print_value(const compute_program *program, const uint16_t *uses, uint16_t value,
                        bool define, text_buffer *text) {
  const compute_instruction *instruction = &program->instructions[value];
  const code_row *row = row_of(instruction->code);
  if (is_leaf(instruction)) {
    print_leaf(instruction, text);
    return;
  }
  if (uses[value] > 1 && !define) {
    text_add(text, "v%u", value);
    return;
  }
  const uint16_t operand[3] = {instruction->a, instruction->b, instruction->c};
  text_add(text, "%s(",
           instruction->code == COMPUTE_I_CAST
               ? compute_dtype_name((compute_dtype)instruction->type)
               : row->name);
  for (int k = 0; k < row->operands; k++) {
    if (k > 0) text_add(text, ", ");
    print_value(program, uses, operand[k], false, text);
  }
  if (instruction->code == COMPUTE_I_RANDOM) {
    text_add(text, ", %" PRId64, instruction->immediate.i64);
  } else if (row->traits & IMMEDIATE) {
    char number[REAL_TEXT_BYTES];
    text_add(text, ", %s", real_decimal(instruction->immediate.f64, 9, number));
  }
  text_add(text, ")");
}

void program_print(const compute_program *program, text_buffer *text) {
  uint16_t uses[COMPUTE_MAX_INSTRUCTIONS] = {0};
  bool reached[COMPUTE_MAX_INSTRUCTIONS] = {false};
  for (uint32_t k = 0; k < program->output_count; k++) {
    uses[program->outputs[k]]++;
    reached[program->outputs[k]] = true;
  }
  for (uint32_t i = program->count; i-- > 0;) {
    const compute_instruction *instruction = &program->instructions[i];
    const uint16_t operand[3] = {instruction->a, instruction->b, instruction->c};
    for (int k = 0; reached[i] && k < row_of(instruction->code)->operands; k++) {
      uses[operand[k]]++;
      reached[operand[k]] = true;
    }
  }
  for (uint32_t i = 0; i < program->count; i++) {
    if (uses[i] < 2 || is_leaf(&program->instructions[i])) continue;
    text_add(text, "v%" PRIu32 " = ", i);
    print_value(program, uses, (uint16_t)i, true, text);
    text_add(text, "; ");
  }
  for (uint32_t k = 0; k < program->output_count; k++) {
    if (k > 0) text_add(text, ", ");
    print_value(program, uses, program->outputs[k], false, text);
  }
}
