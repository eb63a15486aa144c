/* SPDX-License-Identifier: MIT */
/* Turns programs into steps: drops unused instructions, assigns a register to every value, and
 * chooses the number of elements of a tile.
 *
 * Registers are allocated by liveness in one pass, which is exact for straight-line code. There are
 * two kinds, with 4 and with 8 bytes per element. A result may reuse the register of an operand at
 * its last use: the loops allow that (isa/tile_table.h). */
#include <stdio.h>
#include <string.h>

#include "program/bytes.h"
#include "program/chain.h"
#include "program/finish.h"
#include "program/formulas.h"
#include "program/requantize.h"
#include "program.h"

/* The registers in use fit the L1 cache, together with streamed operands. If results are written
 * directly to the output, longer chunks need fewer calls. */
enum { REGISTER_BUDGET = 32 << 10, LARGEST_TILE = 1024, SMALLEST_TILE = 64, NO_VALUE = UINT16_MAX };
enum { LARGEST_CHUNK = 4096, BYTES = 4 /* times as many elements of one byte */ };

/* A program during preparation. */
typedef struct preparation {
  cpu_device *device;
  const compute_program *program;
  const compute_dtype *inputs, *outputs;
  cpu_program *result;
  cpu_type type[CPU_MAX_VALUES];
  bool needed[CPU_MAX_VALUES];
  uint8_t bytes[CPU_MAX_VALUES];       /* the loops of a program of bytes */
  uint16_t last_use[CPU_MAX_VALUES];   /* step number */
  uint16_t defined_at[CPU_MAX_VALUES]; /* step number */
  uint16_t slot[CPU_MAX_VALUES];
  bool busy[2][CPU_MAX_VALUES]; /* registers of 4 and of 8 bytes */
  uint32_t slots[2];
} preparation;

/* The costs of instructions.def in units of one simple vector instruction. */
enum {
  COST_FREE = 0,
  COST_MOVE = 1,
  COST_SIMPLE = 1,
  COST_DIVISION = 1,
  COST_EXP = 8,
  COST_LOG = 8,
  COST_SERIES = 8,
  COST_POWER = 40,
  COST_RANDOM = 40
};

/* Rules for instructions whose result type differs from the operand type that selects the loop. */
enum {
  ASKS_LOAD = false,
  ASKS_CONSTANT = false,
  ASKS_POSITION = false,
  ASKS_RANDOM = false,
  ASKS_CAST = false,
  ASKS_FLOAT = false,
  ASKS_SINGLE = false,
  ASKS_DOUBLE = false,
  ASKS_NUMBER = false,
  ASKS_INTEGER = false,
  ASKS_LOGIC = false,
  ASKS_CLASSIFY = true,
  ASKS_EQUALITY = true,
  ASKS_ORDER = true,
  ASKS_SELECT = false
};

/* Properties of an instruction for preparation. The tables of tile_*.c have its loops under the
 * same codes; an instruction without a loop there is refused. */
static const struct {
  uint8_t cost;
  bool asks; /* the result is a truth value about operands of another type, which selects the
              * loops */
} instructions[COMPUTE_I_END] = {
#define INSTRUCTION(code, number, name, operands, rule, cost, traits, text)                        \
  [number] = {COST_##cost, ASKS_##rule},
#include "compute/backend/instructions.def"
};

static void mark_needed(preparation *p) {
  const compute_program *program = p->program;
  for (uint32_t k = 0; k < program->output_count; k++) p->needed[program->outputs[k]] = true;
  for (uint32_t i = program->count; i-- > 0;) {
    if (!p->needed[i]) continue;
    const compute_instruction *instruction = &program->instructions[i];
    const uint16_t operand[3] = {instruction->a, instruction->b, instruction->c};
    for (int o = 0; o < cpu_operand_count(instruction->code); o++) p->needed[operand[o]] = true;
  }
}

/* ---- Steps --------------------------------------------------------------------------------- */

static compute_status refuse(preparation *p, const compute_instruction *instruction) {
  const compute_services *services = p->device->services;
  return services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, instruction->code, NULL,
                        "cpu: instruction code %d does not exist for dtype %d", instruction->code,
                        instruction->type);
}

static void set_constant(cpu_step *step, cpu_type type, const compute_instruction *instruction) {
  const double real = instruction->immediate.f64;
  const float single = (float)real;
  const int64_t integer = instruction->immediate.i64;
  const int32_t word = type == CPU_TYPE_BOOL ? -(integer != 0) : (int32_t)integer;
  switch (type) {
  case CPU_TYPE_F64: memcpy(step->constant, &real, sizeof real); break;
  case CPU_TYPE_F32: memcpy(step->constant, &single, sizeof single); break;
  case CPU_TYPE_I64: memcpy(step->constant, &integer, sizeof integer); break;
  case CPU_TYPE_I32:
  case CPU_TYPE_BOOL: memcpy(step->constant, &word, sizeof word); break;
  case CPU_TYPE_COUNT: break;
  }
}

/* The type that selects an instruction's loops: the operands' type if the result is a truth
 * value. */
static cpu_type loop_type(const preparation *p, const compute_instruction *instruction) {
  const bool asks = instruction->code < COMPUTE_I_END && instructions[instruction->code].asks;
  return asks ? p->type[instruction->a] : cpu_type_of(instruction->type);
}

static compute_status set_compute(preparation *p, cpu_step *step,
                                  const compute_instruction *instruction) {
  static const uint8_t kind[] = {0, CPU_STEP_UNARY, CPU_STEP_BINARY, CPU_STEP_SELECT};
  const cpu_tile_table *table = p->result->table;
  const cpu_type type = loop_type(p, instruction);
  step->kind = kind[cpu_operand_count(instruction->code)];
  step->operand[0] = instruction->a;
  step->operand[1] = instruction->b;
  step->operand[2] = instruction->c;
  step->immediate.i64 = instruction->immediate.i64;
  if (instruction->code < COMPUTE_I_END) step->loops = (*table->compute[type])[instruction->code];
  if (step->kind != CPU_STEP_UNARY && step->loops && !step->loops[1]) {
    step->kind = CPU_STEP_DRAW;
    if (cpu_operand_count(instruction->code) == 2) step->operand[2] = instruction->b;
  }
  step->convert = table->cast[type][type]; /* for a select with a uniform condition */
  step->condition_bytes = (uint8_t)cpu_type_bytes(CPU_TYPE_BOOL);
  return step->loops && step->loops[0] ? COMPUTE_OK : refuse(p, instruction);
}

static compute_status set_step(preparation *p, cpu_step *step, uint16_t value) {
  const compute_instruction *instruction = &p->program->instructions[value];
  const cpu_tile_table *table = p->result->table;
  const cpu_type type = cpu_type_of(instruction->type);
  p->type[value] = type;
  step->result = value;
  step->result_bytes = (uint8_t)cpu_type_bytes(type);
  step->direct_output = -1;
  if (instruction->code == COMPUTE_I_LOAD) {
    const uint32_t input = (uint32_t)instruction->immediate.i64;
    step->kind = CPU_STEP_LOAD;
    step->input = (uint16_t)input;
    step->load = table->load[p->inputs[input]];
    /* BOOL is bytes in memory and masks in a register. */
    step->in_place = cpu_dtype_size(p->inputs[input]) == cpu_type_bytes(type) &&
                     p->inputs[input] != COMPUTE_BOOL;
    return COMPUTE_OK;
  }
  if (instruction->code == COMPUTE_I_CONSTANT) {
    step->kind = CPU_STEP_CONSTANT;
    set_constant(step, type, instruction);
    return COMPUTE_OK;
  }
  if (instruction->code == COMPUTE_I_COORDINATE || instruction->code == COMPUTE_I_POSITION) {
    step->kind = instruction->code == COMPUTE_I_POSITION ? CPU_STEP_POSITION : CPU_STEP_COORDINATE;
    step->immediate.i64 = instruction->immediate.i64;
    return COMPUTE_OK;
  }
  if (instruction->code == COMPUTE_I_CAST) {
    step->kind = CPU_STEP_CONVERT;
    step->operand[0] = instruction->a;
    step->convert = table->cast[p->type[instruction->a]][type];
    return COMPUTE_OK;
  }
  return set_compute(p, step, instruction);
}

/* Stores f32 values as integers in one pass (isa/tile_convert.c); NULL for other dtypes. */
typedef cpu_store_loop cpu_store_loops[COMPUTE_DTYPE_COUNT];
CPU_DECLARE(cpu_store_loops, cpu_tile_store_f32);

/* Appends the conversions for outputs, and describes the outputs. */
static void add_outputs(preparation *p) {
  cpu_program *result = p->result;
  for (uint32_t k = 0; k < result->output_count; k++) {
    const compute_dtype dtype = p->outputs[k];
    const cpu_type type = cpu_type_of(dtype);
    uint16_t value = p->program->outputs[k];
    cpu_store_loop store =
        result->one_byte ? result->table->bytes->store : result->table->store[dtype];
    const cpu_store_loop fused = (*CPU_PICK(p->device->isa, cpu_tile_store_f32))[dtype];
    const bool converts = p->type[value] == CPU_TYPE_F32 && fused;
    if (converts) {
      store = fused;
    } else if (p->type[value] != type) {
      const uint16_t source = value;
      value = (uint16_t)(p->program->count + k);
      p->type[value] = type;
      result->step[result->step_count++] =
          (cpu_step){.kind = CPU_STEP_CONVERT,
                     .result = value,
                     .result_bytes = (uint8_t)cpu_type_bytes(type),
                     .direct_output = -1,
                     .operand = {source},
                     .convert = result->table->narrow[p->type[source]][dtype]};
    }
    result->output[k] = (cpu_program_output){
        .value = value,
        .same_type =
            result->one_byte ||
            (!converts && cpu_dtype_size(dtype) == cpu_type_bytes(type) && dtype != COMPUTE_BOOL),
        .converts = converts,
        .value_bytes = result->one_byte ? 1 : (uint8_t)cpu_type_bytes(p->type[value]),
        .element_bytes = (uint8_t)cpu_dtype_size(dtype),
        .store = store};
  }
}

static compute_status add_steps(preparation *p) {
  cpu_program *result = p->result;
  for (uint32_t i = 0; i < p->program->count; i++) {
    if (!p->needed[i]) continue;
    cpu_step *step = &result->step[result->step_count];
    const compute_status status = set_step(p, step, (uint16_t)i);
    if (status) return status;
    if (result->one_byte)
      cpu_bytes_set(result->table->bytes, &p->program->instructions[i], p->bytes[i], step);
    result->step_count++;
  }
  add_outputs(p);
  return COMPUTE_OK;
}

/* ---- Registers ----------------------------------------------------------------------------- */

static int step_operands(const cpu_step *step) {
  switch ((cpu_step_kind)step->kind) {
  case CPU_STEP_CONVERT:
  case CPU_STEP_UNARY: return 1;
  case CPU_STEP_BINARY: return 2;
  case CPU_STEP_DRAW:
  case CPU_STEP_SELECT: return 3;
  case CPU_STEP_CONSTANT:
  case CPU_STEP_LOAD:
  case CPU_STEP_COORDINATE:
  case CPU_STEP_POSITION: return 0;
  }
  return 0;
}

static void find_lifetimes(preparation *p) {
  cpu_program *result = p->result;
  for (uint16_t i = 0; i < result->step_count; i++) {
    const cpu_step *step = &result->step[i];
    p->defined_at[step->result] = p->last_use[step->result] = i;
    for (int o = 0; o < step_operands(step); o++) p->last_use[step->operand[o]] = i;
  }
  for (uint32_t k = 0; k < result->output_count; k++) {
    cpu_program_output *output = &result->output[k];
    output->defined_at = p->defined_at[output->value];
    p->last_use[output->value] = UINT16_MAX; /* live until all steps are done */
    cpu_step *definition = &result->step[output->defined_at];
    if (output->same_type && definition->direct_output < 0) definition->direct_output = (int16_t)k;
    /* With several outputs, storing one may overwrite an input that another one passes on. */
    if (result->output_count > 1 && definition->kind == CPU_STEP_LOAD) definition->in_place = false;
  }
  for (uint16_t i = 0; i < result->step_count; i++) {
    const cpu_step *step = &result->step[i];
    if (step->kind != CPU_STEP_LOAD) continue;
    uint16_t *last = &result->input_last_use[step->input];
    const uint16_t use = step->in_place ? p->last_use[step->result] : i;
    if (use > *last) *last = use;
  }
}

static uint16_t take_slot(preparation *p, int wide) {
  uint16_t slot = 0;
  while (p->busy[wide][slot]) slot++;
  p->busy[wide][slot] = true;
  if (slot >= p->slots[wide]) p->slots[wide] = slot + 1u;
  return slot;
}

static void assign_slots(preparation *p) {
  cpu_program *result = p->result;
  for (uint16_t i = 0; i < result->step_count; i++) {
    cpu_step *step = &result->step[i];
    for (int o = 0; o < step_operands(step); o++) {
      const uint16_t value = step->operand[o];
      if (p->last_use[value] == i && p->slot[value] != NO_VALUE)
        p->busy[cpu_type_bytes(p->type[value]) == 8][p->slot[value]] = false;
    }
    const bool stored = step->kind != CPU_STEP_CONSTANT;
    p->slot[step->result] = stored ? take_slot(p, step->result_bytes == 8) : NO_VALUE;
    /* There are no unused results: all steps are needed, and outputs stay live. */
  }
}

/* Chooses as many elements as the budget allows, and places the registers: wide ones, the stage,
 * then the others. */
static void place_registers(preparation *p) {
  cpu_program *result = p->result;
  const int64_t wide = result->one_byte ? 1 : 8, unit = result->one_byte ? 1 : 4;
  const int64_t times = result->one_byte ? BYTES : 1;
  const int64_t bytes = wide * (int64_t)(p->slots[1] + 1) + unit * (int64_t)p->slots[0];
  int64_t chunk = REGISTER_BUDGET / bytes / SMALLEST_TILE * SMALLEST_TILE;
  if (chunk > times * LARGEST_CHUNK) chunk = times * LARGEST_CHUNK;
  if (chunk < SMALLEST_TILE) chunk = SMALLEST_TILE;
  while (chunk * bytes > CPU_SCRATCH_BYTES) chunk /= 2;
  if (chunk > result->block) chunk -= chunk % result->block;
  result->chunk = chunk;
  result->streamed_chunk = cpu_min(chunk, times * LARGEST_TILE);
  result->tile_elements = cpu_max(result->streamed_chunk, SMALLEST_TILE);
  result->stage_offset = (uint32_t)(wide * chunk * p->slots[1]);
  const int64_t narrow = wide * chunk * (p->slots[1] + 1);
  for (uint32_t i = 0; i < result->step_count; i++) {
    cpu_step *step = &result->step[i];
    const int64_t slot = p->slot[step->result];
    if (slot == NO_VALUE) continue;
    step->offset =
        (uint32_t)(step->result_bytes == 8 ? 8 * chunk * slot : narrow + unit * chunk * slot);
  }
}

/* ---- The whole program --------------------------------------------------------------------- */

static uint32_t instruction_cost(const compute_instruction *instruction) {
  const uint32_t cost = instructions[instruction->code].cost;
  return instruction->type == COMPUTE_F64 && cost < COST_RANDOM ? cost * 4 : cost;
}

static uint32_t find_places(const cpu_program *program) {
  uint32_t places = 0;
  for (uint32_t i = 0; i < program->step_count; i++) {
    const cpu_step *step = &program->step[i];
    if (step->kind == CPU_STEP_POSITION) places |= CPU_PLACES_POSITION;
    if (step->kind == CPU_STEP_COORDINATE) places |= 1u << step->immediate.i64;
  }
  return places;
}

/* The entries follow the steps in memory, after the original number of steps. */
static cpu_chain_entry *chain_entries(cpu_program *program) {
  return (cpu_chain_entry *)(void *)&program->step[program->step_count];
}

/* Number of loops over a tile. */
static uint32_t count_passes(const cpu_program *program) {
  uint32_t passes = program->step_count, moves = 0;
  for (uint32_t i = 0; i < program->step_count; i++) {
    const cpu_step *step = &program->step[i];
    if (step->chain.count > 0) passes -= step->chain.count - 1u;
    moves += step->kind == CPU_STEP_CONSTANT || (step->kind == CPU_STEP_LOAD && step->in_place);
  }
  for (uint32_t k = 0; k < program->output_count; k++) passes += program->output[k].converts;
  return passes - moves == 1 ? 1 : passes;
}

static compute_status prepare(preparation *p) {
  cpu_program *result = p->result;
  mark_needed(p);
  result->one_byte =
      cpu_bytes_read(p->program, p->needed, p->inputs, result->output_count, p->outputs, p->bytes);
  const compute_status status = add_steps(p);
  if (status) return status;
  cpu_chain_find(p->device->isa, p->program, p->type, result);
  find_lifetimes(p);
  assign_slots(p);
  place_registers(p);
  cpu_chain_write(p->program, p->last_use, result, chain_entries(result));
  for (uint32_t i = 0; i < p->program->count; i++)
    if (p->needed[i]) result->cost += instruction_cost(&p->program->instructions[i]);
  result->places = find_places(result);
  const cpu_step *first = &result->step[0];
  result->identity = result->step_count == 1 && result->output_count == 1 &&
                     first->kind == CPU_STEP_LOAD && first->input == 0 &&
                     p->inputs[0] == p->outputs[0];
  return COMPUTE_OK;
}

/* Prepares a part of a program, and keeps it if that pays; otherwise NULL. */
static compute_status prepare_part(cpu_device *device, const compute_program *part,
                                   uint32_t input_count, const compute_dtype *inputs,
                                   compute_dtype output, bool (*pays)(const cpu_program *part),
                                   cpu_program **prepared) {
  const compute_status status =
      cpu_program_prepare(device, part, input_count, inputs, 1, &output, prepared);
  if (status || pays(*prepared)) return status;
  cpu_program_release(device, *prepared);
  *prepared = NULL;
  return COMPUTE_OK;
}

static bool has_rest(const cpu_program *program) {
  return program->rest != NULL;
}
static bool makes_bytes(const cpu_program *program) {
  return cpu_requantize_is_alone(&program->requantize);
}

/* The program before a final addition, if it is useful. */
static compute_status prepare_before_addition(cpu_device *device, const compute_program *program,
                                              const compute_dtype *inputs, uint32_t output_count,
                                              const compute_dtype *outputs, cpu_program *prepared) {
  uint16_t value;
  if (!cpu_finish_adds(program, inputs, output_count, outputs, &prepared->added, &value))
    return COMPUTE_OK;
  const compute_program before = {program->count, 1, program->instructions, &value};
  return prepare_part(device, &before, prepared->input_count, inputs, outputs[0], has_rest,
                      &prepared->before);
}

/* Finds the loop that adds two tensors of bytes. If the program computes one of them, that part is
 * prepared as well, and the sum is kept if it is one loop. */
static compute_status prepare_bytes(cpu_device *device, const compute_program *program,
                                    const compute_dtype *inputs, uint32_t output_count,
                                    const compute_dtype *outputs, cpu_program *prepared) {
  compute_dtype byte;
  const int32_t made = cpu_requantize_sum_read(device->isa, program, inputs, output_count, outputs,
                                               &prepared->requantize_sum, &byte);
  if (made < 0) return COMPUTE_OK;
  const uint16_t value = (uint16_t)made;
  prepared->residual = prepared->requantize_sum;
  prepared->requantize_sum.loops = NULL;
  const compute_program bytes = {value + 1u, 1, program->instructions, &value};
  return prepare_part(device, &bytes, prepared->input_count, inputs, byte, makes_bytes,
                      &prepared->bytes);
}

/* The functions that follow a loop with results of bf16. */
static compute_status prepare_functions(cpu_device *device, const compute_program *program,
                                        const compute_dtype *inputs, uint32_t output_count,
                                        const compute_dtype *outputs, cpu_program *prepared) {
  static const compute_dtype f32 = COMPUTE_F32;
  cpu_finish_rest rest;
  cpu_finish_divide(device->isa, program, inputs, output_count, outputs, COMPUTE_BF16,
                    &prepared->sum, &rest);
  if (!prepared->sum.loops) return COMPUTE_OK;
  const compute_program after = {rest.count, 1, rest.instructions, &rest.output};
  return prepare_part(device, &after, 1, &f32, f32, cpu_finish_are_functions, &prepared->functions);
}

/* Finds the loops that run the program, or its start. */
static compute_status find_loops(cpu_device *device, const compute_program *program,
                                 const compute_dtype *inputs, uint32_t output_count,
                                 const compute_dtype *outputs, cpu_program *prepared) {
  static const compute_dtype f32 = COMPUTE_F32;
  cpu_finish_rest rest;
  cpu_finish_read(device->isa, program, inputs, output_count, outputs, &prepared->finish);
  cpu_requantize_read(device->isa, program, inputs, output_count, outputs, &prepared->requantize);
  const compute_status status =
      prepare_bytes(device, program, inputs, output_count, outputs, prepared);
  if (status) return status;
  cpu_formula_read(device->isa, program, inputs, output_count, outputs, &prepared->formula);
  const bool one_loop = prepared->formula.loop || prepared->requantize_sum.loops;
  prepared->passes = one_loop ? 1 : count_passes(prepared);
  cpu_bytes_make_table(device, inputs, outputs, prepared);
  if (prepared->finish.loops || prepared->formula.loop) return COMPUTE_OK;
  if (prepared->bytes) return COMPUTE_OK;
  if (outputs[0] == COMPUTE_BF16)
    return prepare_functions(device, program, inputs, output_count, outputs, prepared);
  cpu_finish_divide(device->isa, program, inputs, output_count, outputs, COMPUTE_F32,
                    &prepared->first, &rest);
  if (!prepared->first.loops)
    return prepare_before_addition(device, program, inputs, output_count, outputs, prepared);
  const compute_instruction *last = &rest.instructions[rest.count - 1];
  if (rest.count == 2 && last->type == COMPUTE_F32)
    prepared->rest_rows = (*prepared->table->rows)[last->code];
  const compute_program after = {rest.count, 1, rest.instructions, &rest.output};
  return cpu_program_prepare(device, &after, 1, &f32, 1, &f32, &prepared->rest);
}

compute_status cpu_program_prepare(cpu_device *device, const compute_program *program,
                                   uint32_t input_count, const compute_dtype *inputs,
                                   uint32_t output_count, const compute_dtype *outputs,
                                   cpu_program **result) {
  /* An explicit program equivalent to "no program". */
  static const compute_dtype computing[CPU_TYPE_COUNT] = {COMPUTE_F64, COMPUTE_F32, COMPUTE_I64,
                                                          COMPUTE_I32, COMPUTE_BOOL};
  const uint16_t zero = 0;
  compute_instruction load = {.code = COMPUTE_I_LOAD};
  const compute_program through = {1, 1, &load, &zero};
  if (program->count == 0) {
    load.type = (uint8_t)computing[cpu_type_of(inputs[0])];
    program = &through;
  }

  const uint64_t step_bytes = sizeof(cpu_step) + CPU_CHAIN_STEP_ENTRIES * sizeof(cpu_chain_entry);
  const uint64_t bytes = sizeof(cpu_program) + step_bytes * (program->count + output_count);
  cpu_program *prepared = cpu_allocate(device, bytes);
  preparation *p = cpu_allocate(device, sizeof *p);
  compute_status status = COMPUTE_OK;
  if (!prepared || !p) {
    status = cpu_out_of_memory(device, bytes + sizeof *p);
    goto done;
  }
  prepared->device = device;
  prepared->table = device->isa->tile;
  prepared->input_count = input_count;
  prepared->output_count = output_count;
  prepared->table_input = -1;
  for (uint32_t i = 0; i < input_count; i++)
    prepared->input_bytes[i] = (uint8_t)cpu_dtype_size(inputs[i]);
  *p = (preparation){.device = device,
                     .program = program,
                     .inputs = inputs,
                     .outputs = outputs,
                     .result = prepared};
  status = prepare(p);
  if (!status) status = find_loops(device, program, inputs, output_count, outputs, prepared);
done:
  cpu_release(device, p);
  if (status)
    cpu_program_release(device, prepared);
  else
    *result = prepared;
  return status;
}

void cpu_program_release(cpu_device *device, cpu_program *program) {
  while (program) {
    cpu_program *rest = program->rest;
    cpu_program_release(device, program->before);
    cpu_program_release(device, program->bytes);
    cpu_program_release(device, program->functions);
    cpu_release(device, program);
    program = rest;
  }
}

uint32_t cpu_program_cost(const cpu_program *program) {
  return program->cost;
}

uint32_t cpu_program_places(const cpu_program *program) {
  return program->places;
}
