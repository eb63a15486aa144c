/* SPDX-License-Identifier: MIT */
/* Programs as functions of the kernel dialect: one line for each instruction that an output
 * needs. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "codegen/generate/emit/emit.h"
#include "core/base/real.h"
#include "core/kernel/common/program.h"
#include "core/type/dtype.h"

/* ---- Instructions -------------------------------------------------------------------------- */

/* Writes the right side of an instruction's line. Loads are arguments of the function. */
typedef void (*printer)(text_buffer *text, const compute_program *program,
                        const compute_instruction *instruction);

static void add_real(text_buffer *text, compute_dtype type, double value) {
  const char *name = emit_type(type);
  if (type == COMPUTE_F32) value = (double)(float)value;
  if (isnan(value)) {
    text_add(text, "NAN_%s", name);
  } else if (isinf(value)) {
    text_add(text, "%sINFINITY_%s", value < 0 ? "-" : "", name);
  } else {
    char number[REAL_TEXT_BYTES];
    text_add(text, "%s%s", real_hex(value, number), type == COMPUTE_F32 ? "f" : "");
  }
}

static void add_constant(text_buffer *text, const compute_program *program,
                         const compute_instruction *instruction) {
  (void)program;
  const compute_dtype type = (compute_dtype)instruction->type;
  const int64_t value = instruction->immediate.i64;
  if (dtype_is_float(type)) {
    add_real(text, type, instruction->immediate.f64);
  } else if (type == COMPUTE_BOOL) {
    text_add(text, "%d", value != 0);
  } else if (type == COMPUTE_I32 && value == INT32_MIN) {
    text_add(text, "(-2147483647 - 1)");
  } else if (value == INT64_MIN) { /* the number is no literal: minus is an operator */
    text_add(text, "((i64)-9223372036854775807 - 1)");
  } else {
    text_add(text, "((%s)%" PRId64 ")", emit_type(type), value);
  }
}

static void add_load(text_buffer *text, const compute_program *program,
                     const compute_instruction *instruction) {
  (void)program;
  text_add(text, "x%u", (unsigned)instruction->immediate.i64);
}

static void add_coordinate(text_buffer *text, const compute_program *program,
                           const compute_instruction *instruction) {
  (void)program;
  text_add(text, "coordinate%d", (int)instruction->immediate.i64);
}

static void add_random(text_buffer *text, const compute_program *program,
                       const compute_instruction *instruction) {
  (void)program;
  text_add(text, "random_%s(v%u, v%u, %" PRIu32 "u)", emit_type((compute_dtype)instruction->type),
           (unsigned)instruction->a, (unsigned)instruction->b,
           (uint32_t)instruction->immediate.i64);
}

static const char *cast_name(compute_dtype type) {
  return type == COMPUTE_BOOL ? "bool" : emit_type(type);
}

static void add_cast(text_buffer *text, const compute_program *program,
                     const compute_instruction *instruction) {
  const compute_dtype from = (compute_dtype)program->instructions[instruction->a].type;
  const compute_dtype to = (compute_dtype)instruction->type;
  if (from == to)
    text_add(text, "v%u", (unsigned)instruction->a);
  else
    text_add(text, "convert_%s_%s(v%u)", cast_name(from), compute_dtype_name(to),
             (unsigned)instruction->a);
}

/* Instructions that are not a call <name>_<type of a>(a, b, c) of a function of
 * kernels/functions_*.h. $a, $b and $c are the operands. */
typedef struct form {
  const char *real, *logic; /* if the result is a float, or BOOL */
  const char *any;
  bool immediate; /* a call with the immediate number as its last argument */
  printer print;
} form;

static const form forms[COMPUTE_I_END] = {
    [COMPUTE_I_LOAD] = {.print = add_load},
    [COMPUTE_I_CONSTANT] = {.print = add_constant},
    [COMPUTE_I_COORDINATE] = {.print = add_coordinate},
    [COMPUTE_I_POSITION] = {.any = "position"},
    [COMPUTE_I_RANDOM] = {.print = add_random},
    [COMPUTE_I_CAST] = {.print = add_cast},
    [COMPUTE_I_NEG] = {.real = "-$a"},
    [COMPUTE_I_SQUARE] = {.real = "$a * $a"},
    [COMPUTE_I_LEAKY_RELU] = {.immediate = true},
    [COMPUTE_I_ELU] = {.immediate = true},
    [COMPUTE_I_NOT] = {.any = "!$a"},
    [COMPUTE_I_ADD] = {.real = "$a + $b"},
    [COMPUTE_I_SUB] = {.real = "$a - $b"},
    [COMPUTE_I_MUL] = {.real = "$a * $b"},
    [COMPUTE_I_DIV] = {.real = "$a / $b"},
    [COMPUTE_I_MIN] = {.logic = "$a & $b"},
    [COMPUTE_I_MAX] = {.logic = "$a | $b"},
    [COMPUTE_I_EQ] = {.any = "$a == $b"},
    [COMPUTE_I_NE] = {.any = "$a != $b"},
    [COMPUTE_I_LT] = {.any = "$a < $b"},
    [COMPUTE_I_LE] = {.any = "$a <= $b"},
    [COMPUTE_I_GT] = {.any = "$a > $b"},
    [COMPUTE_I_GE] = {.any = "$a >= $b"},
    [COMPUTE_I_AND] = {.any = "$a & $b"},
    [COMPUTE_I_OR] = {.any = "$a | $b"},
    [COMPUTE_I_XOR] = {.any = "$a ^ $b"},
    [COMPUTE_I_SELECT] = {.any = "$a ? $b : $c"},
};

static void add_pattern(text_buffer *text, const compute_instruction *instruction,
                        compute_dtype operand, const char *pattern) {
  for (; *pattern; pattern++) {
    if (*pattern != '$') {
      text_add(text, "%c", *pattern);
      continue;
    }
    switch (*++pattern) {
    case 'a': text_add(text, "v%u", (unsigned)instruction->a); break;
    case 'b': text_add(text, "v%u", (unsigned)instruction->b); break;
    case 'c': text_add(text, "v%u", (unsigned)instruction->c); break;
    case 'i': add_real(text, operand, instruction->immediate.f64); break;
    }
  }
}

static void add_value(text_buffer *text, const compute_program *program,
                      const compute_instruction *instruction) {
  static const char *const operands[] = {"", "$a", "$a, $b", "$a, $b, $c"};
  const compute_instruction_code code = (compute_instruction_code)instruction->code;
  const compute_dtype type = (compute_dtype)instruction->type;
  const form *f = &forms[code];
  const char *pattern = dtype_is_float(type) && f->real    ? f->real
                        : type == COMPUTE_BOOL && f->logic ? f->logic
                                                           : f->any;
  if (f->print) {
    f->print(text, program, instruction);
    return;
  }
  const int count = program_operand_count(code);
  const compute_dtype operand =
      count > 0 ? (compute_dtype)program->instructions[instruction->a].type : COMPUTE_DTYPE_NONE;
  const bool call = !pattern || f->immediate;
  if (call) text_add(text, "%s_%s(", program_code_name(code), emit_type(operand));
  add_pattern(text, instruction, operand, call ? operands[count] : pattern);
  if (f->immediate) add_pattern(text, instruction, operand, ", $i");
  if (call) text_add(text, ")");
}

/* ---- Functions ----------------------------------------------------------------------------- */

/* Marks the instructions that the outputs need. */
static void find_live(const compute_program *program, bool *live) {
  for (uint32_t k = 0; k < program->output_count; k++) live[program->outputs[k]] = true;
  for (uint32_t i = program->count; i-- > 0;) {
    const compute_instruction *instruction = &program->instructions[i];
    if (!live[i]) continue;
    const int operands = program_operand_count((compute_instruction_code)instruction->code);
    if (operands > 0) live[instruction->a] = true;
    if (operands > 1) live[instruction->b] = true;
    if (operands > 2) live[instruction->c] = true;
  }
}

static void find_arguments(emit_function *f, const compute_program *program, const bool *live) {
  for (uint32_t i = 0; i < program->count; i++) {
    const compute_instruction *instruction = &program->instructions[i];
    if (!live[i]) continue;
    if (instruction->code == COMPUTE_I_LOAD) f->used[instruction->immediate.i64] = true;
    if (instruction->code == COMPUTE_I_POSITION) f->position = true;
    if (instruction->code == COMPUTE_I_COORDINATE) f->coordinate[instruction->immediate.i64] = true;
  }
}

static void add_signature(text_buffer *text, const emit_function *f) {
  char result[EMIT_NAME_BYTES + 8];
  if (f->output_count > 1) {
    text_add(text, "typedef struct {\n");
    for (uint32_t k = 0; k < f->output_count; k++) {
      text_add(text, "  %s v%u;\n", emit_type(f->output_type[k]), (unsigned)k);
    }
    text_add(text, "} %s_result;\n", f->name);
  }
  text_add(text, "DEVICE %s %s(", emit_result_type(f, result, sizeof result), f->name);
  const char *comma = "";
  for (uint32_t i = 0; i < f->input_count; i++) {
    if (!f->used[i]) continue;
    text_add(text, "%s%s x%u", comma, emit_type(f->input_type[i]), (unsigned)i);
    comma = ", ";
  }
  if (f->position) {
    text_add(text, "%si64 position", comma);
    comma = ", ";
  }
  for (int d = 0; d < COMPUTE_MAX_RANK; d++) {
    if (!f->coordinate[d]) continue;
    text_add(text, "%si64 coordinate%d", comma, d);
    comma = ", ";
  }
  text_add(text, "%s) {\n", comma[0] ? "" : "void");
}

static void add_body(text_buffer *text, const emit_function *f, const compute_program *program,
                     const bool *live) {
  for (uint32_t i = 0; i < program->count; i++) {
    const compute_instruction *instruction = &program->instructions[i];
    if (!live[i]) continue;
    text_add(text, "  const %s v%u = ", emit_type((compute_dtype)instruction->type), (unsigned)i);
    add_value(text, program, instruction);
    text_add(text, ";\n");
  }
  if (f->output_count == 1) {
    text_add(text, "  return v%u;\n", (unsigned)program->outputs[0]);
    return;
  }
  text_add(text, "  %s_result result;\n", f->name);
  for (uint32_t k = 0; k < f->output_count; k++) {
    text_add(text, "  result.v%u = v%u;\n", (unsigned)k, (unsigned)program->outputs[k]);
  }
  text_add(text, "  return result;\n");
}

void emit_program(generation *g, emit_function *f, const char *name, const compute_program *program,
                  compute_dtype value, uint32_t first_input, uint32_t end_input) {
  memset(f, 0, sizeof *f);
  snprintf(f->name, sizeof f->name, "%s", name);
  f->first_is_value = value != COMPUTE_DTYPE_NONE;
  f->first_input = first_input;
  if (f->first_is_value) f->input_type[f->input_count++] = value;
  for (uint32_t i = first_input; i < end_input; i++) {
    f->input_type[f->input_count++] = dtype_compute_type(g->descriptor->inputs[i].dtype);
  }

  /* Without a program, the first input passes. */
  const compute_instruction load = {.code = COMPUTE_I_LOAD, .type = (uint8_t)f->input_type[0]};
  const uint16_t first = 0;
  const compute_program pass = {1, 1, &load, &first};
  if (program->count == 0) program = &pass;

  bool live[COMPUTE_MAX_INSTRUCTIONS] = {false};
  find_live(program, live);
  find_arguments(f, program, live);
  f->output_count = program->output_count;
  for (uint32_t k = 0; k < f->output_count; k++) {
    f->output_type[k] = (compute_dtype)program->instructions[program->outputs[k]].type;
  }
  add_signature(&g->definitions, f);
  add_body(&g->definitions, f, program, live);
  text_add(&g->definitions, "}\n");
}

const char *emit_result_type(const emit_function *f, char *text, size_t bytes) {
  if (f->output_count == 1) return emit_type(f->output_type[0]);
  snprintf(text, bytes, "%s_result", f->name);
  return text;
}

/* ---- Calls --------------------------------------------------------------------------------- */

void emit_pattern(text_buffer *text, const char *pattern, const char *walk) {
  for (const char *at = pattern; *at;) {
    const size_t plain = strcspn(at, "$");
    text_add(text, "%.*s", (int)plain, at);
    at += plain;
    if (*at == '$') {
      text_add(text, "%s", walk);
      at++;
    }
  }
}

void emit_call_with(text_buffer *text, const emit_function *f, const char *value,
                    emit_argument argument, void *user) {
  text_add(text, "%s(", f->name);
  const char *comma = "";
  char name[16];
  for (uint32_t i = 0; i < f->input_count; i++) {
    if (!f->used[i]) continue;
    text_add(text, "%s", comma);
    comma = ", ";
    if (i == 0 && f->first_is_value) {
      text_add(text, "%s", value);
    } else {
      const uint32_t input = f->first_input + i - (f->first_is_value ? 1 : 0);
      snprintf(name, sizeof name, "in%u", (unsigned)input);
      argument(user, text, name, true, input);
    }
  }
  for (int d = -1; d < COMPUTE_MAX_RANK; d++) {
    if (d < 0 ? !f->position : !f->coordinate[d]) continue;
    snprintf(name, sizeof name, d < 0 ? "position" : "coordinate%d", d);
    text_add(text, "%s(i64)(", comma);
    argument(user, text, name, false, 0);
    text_add(text, ")");
    comma = ", ";
  }
  text_add(text, ")");
}

typedef struct pattern_user {
  const generation *g;
  const char *index;
} pattern_user;

static void pattern_argument(void *user, text_buffer *text, const char *walk, bool is_input,
                             uint32_t input) {
  const pattern_user *with = user;
  if (is_input) {
    text_add(text, "LOAD_%s(%s, ", compute_dtype_name(with->g->descriptor->inputs[input].dtype),
             walk);
  }
  emit_pattern(text, with->index, walk);
  if (is_input) text_add(text, ")");
}

void emit_function_call(generation *g, text_buffer *text, const emit_function *f, const char *value,
                        const char *index) {
  pattern_user user = {g, index};
  emit_call_with(text, f, value, pattern_argument, &user);
}

void emit_stores(generation *g, text_buffer *text, const emit_function *f, const char *result,
                 const char *index) {
  for (uint32_t k = 0; k < f->output_count; k++) {
    char name[16], value[96];
    text_buffer offset = {0};
    snprintf(name, sizeof name, "out%u", (unsigned)k);
    if (f->output_count == 1) {
      snprintf(value, sizeof value, "%s", result);
    } else {
      snprintf(value, sizeof value, "%s.v%u", result, (unsigned)k);
    }
    emit_pattern(&offset, index, name);
    if (offset.failed) g->failed = true;
    emit_store(text, g->descriptor->outputs[k].dtype, f->output_type[k], name,
               offset.data ? offset.data : "0", value);
    text_release(&offset);
  }
}

void emit_apply(generation *g, text_buffer *text, const emit_function *f, const char *value,
                const char *index) {
  char type[EMIT_NAME_BYTES + 8];
  text_add(text, "const %s result = ", emit_result_type(f, type, sizeof type));
  emit_function_call(g, text, f, value, index);
  text_add(text, ";\n");
  emit_stores(g, text, f, "result", index);
}

void emit_load(text_buffer *text, compute_dtype dtype, const char *pointer, const char *index) {
  text_add(text, "LOAD_%s(%s, %s)", compute_dtype_name(dtype), pointer, index);
}

void emit_convert(text_buffer *text, compute_dtype from, compute_dtype dtype, const char *value) {
  if (from == dtype || (dtype_is_integer(dtype) && !dtype_is_float(from))) {
    text_add(text, "(%s)(%s)", emit_storage(dtype), value);
  } else {
    text_add(text, "convert_%s_%s(%s)", cast_name(from), compute_dtype_name(dtype), value);
  }
}

void emit_store(text_buffer *text, compute_dtype dtype, compute_dtype from, const char *pointer,
                const char *index, const char *value) {
  text_add(text, "  %s[%s] = ", pointer, index);
  emit_convert(text, from, dtype, value);
  text_add(text, ";\n");
}

void emit_define_finish(generation *g, text_buffer *text, const emit_function *epilogue,
                        const char *parameters, const char *before, const char *value,
                        const char *index) {
  text_buffer finish = {0};
  char head[64], type[EMIT_NAME_BYTES + 16];
  snprintf(head, sizeof head, "FINISH(%s)", parameters);
  text_add(&finish, "{ %s const %s stored = ", before,
           emit_result_type(epilogue, type, sizeof type));
  emit_function_call(g, &finish, epilogue, value, index);
  text_add(&finish, "; ");
  emit_stores(g, &finish, epilogue, "stored", index);
  text_add(&finish, "}");
  emit_define_text(text, head, &finish);
}
