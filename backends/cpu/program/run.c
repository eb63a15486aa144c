/* SPDX-License-Identifier: MIT */
/* Runs prepared programs over tiles.
 *
 * Each step is one call of a vector loop. For each tile, every operand gets a location. Contiguous
 * inputs are read in place. An operand that is constant over the tile (a constant, an input with
 * stride 0, or a value computed from such) is one element: it is computed once, and the loops
 * broadcast it from a register. A result is written directly to a contiguous output if no later
 * step reads the overwritten elements. */
#include <string.h>

#include "program/bytes.h"
#include "program/chain.h"
#include "program/formulas.h"
#include "program/requantize.h"
#include "program.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Number of elements kept in registers that pays for writing a chain's code. */
enum { WORTH_CODE = 448 };

/* The locations of the current chunk's values. */
typedef struct views {
  const void *data[CPU_MAX_VALUES];
  bool uniform[CPU_MAX_VALUES]; /* one element for the whole chunk */
} views;

/* A chunk of a tile: elements start … start + count − 1. */
typedef struct chunk {
  const cpu_program *program;
  const cpu_tile *tile;
  int64_t start, count;
  unsigned char *scratch;
  uint32_t direct; /* bit k: the step that computes output k writes it in place */
  bool stream;
} chunk;

static const void *input_at(const chunk *c, uint32_t input) {
  const int64_t bytes = c->program->input_bytes[input] * c->tile->input_stride[input];
  return (const unsigned char *)c->tile->input[input] + bytes * c->start;
}

static void *output_at(const chunk *c, uint32_t output) {
  const int64_t bytes = c->program->output[output].element_bytes * c->tile->output_stride[output];
  return (unsigned char *)c->tile->output[output] + bytes * c->start;
}

/* The destination of a contiguous result of this step. */
static void *result_place(const chunk *c, const cpu_step *step) {
  if (step->direct_output >= 0 && (c->direct >> step->direct_output & 1))
    return output_at(c, (uint32_t)step->direct_output);
  return c->scratch + step->offset;
}

static void set_view(views *v, const cpu_step *step, const void *data, bool uniform) {
  v->data[step->result] = data;
  v->uniform[step->result] = uniform;
}

static void run_load(const chunk *c, const cpu_step *step, views *v) {
  const int64_t stride = c->tile->input_stride[step->input];
  const void *source = input_at(c, step->input);
  if (step->in_place && (stride == 1 || stride == 0)) {
    set_view(v, step, source, stride == 0);
  } else {
    void *place = stride ? result_place(c, step) : c->scratch + step->offset;
    step->load(stride ? c->count : 1, place, source, stride);
    set_view(v, step, place, stride == 0);
  }
}

/* Positions and coordinates: first, first + increment, …. */
static void run_sequence(const chunk *c, const cpu_step *step, views *v, int64_t first,
                         int64_t increment) {
  void *place = increment ? result_place(c, step) : c->scratch + step->offset;
  c->program->table->sequence(increment ? c->count : 1, place, first + c->start * increment,
                              increment);
  set_view(v, step, place, increment == 0);
}

/* Unary, binary and conversion steps. */
static void run_compute(const chunk *c, const cpu_step *step, views *v) {
  const uint16_t a = step->operand[0], b = step->operand[1];
  const bool binary = step->kind == CPU_STEP_BINARY;
  const bool uniform = v->uniform[a] && (!binary || v->uniform[b]);
  const int64_t count = uniform ? 1 : c->count;
  void *place = uniform ? c->scratch + step->offset : result_place(c, step);
  if (step->kind == CPU_STEP_CONVERT) {
    step->convert(count, place, v->data[a]);
  } else {
    const int variant = uniform || !binary ? 0 : v->uniform[a] | v->uniform[b] << 1;
    step->loops[variant](count, place, v->data[a], binary ? v->data[b] : NULL, NULL,
                         step->immediate);
  }
  set_view(v, step, place, uniform);
}

static void run_select(const chunk *c, const cpu_step *step, views *v) {
  const uint16_t condition = step->operand[0], b = step->operand[1], other = step->operand[2];
  if (v->uniform[condition]) {
    int32_t mask = 0;
    memcpy(&mask, v->data[condition], step->condition_bytes);
    const uint16_t chosen = mask ? b : other;
    const bool uniform = v->uniform[chosen];
    void *place = uniform ? c->scratch + step->offset : result_place(c, step);
    step->convert(uniform ? 1 : c->count, place, v->data[chosen]);
    set_view(v, step, place, uniform);
    return;
  }
  void *place = result_place(c, step);
  const int variant = v->uniform[b] | v->uniform[other] << 1;
  step->loops[variant](c->count, place, v->data[condition], v->data[b], v->data[other],
                       step->immediate);
  set_view(v, step, place, false);
}

/* With two operands, the third one is the second. */
static void run_draw(const chunk *c, const cpu_step *step, views *v) {
  const void *data[3];
  cpu_immediate repeated = {.i64 = 0};
  for (int o = 0; o < 3; o++) {
    data[o] = v->data[step->operand[o]];
    repeated.i64 |= (int64_t)v->uniform[step->operand[o]] << o;
  }
  const bool uniform = repeated.i64 == 7;
  void *place = uniform ? c->scratch + step->offset : result_place(c, step);
  step->loops[0](uniform ? 1 : c->count, place, data[0], data[1], data[2], repeated);
  set_view(v, step, place, uniform);
}

static void run_step(const chunk *c, const cpu_step *step, views *v) {
  const cpu_tile *tile = c->tile;
  switch ((cpu_step_kind)step->kind) {
  case CPU_STEP_CONSTANT: set_view(v, step, step->constant, true); break;
  case CPU_STEP_LOAD: run_load(c, step, v); break;
  case CPU_STEP_COORDINATE:
    run_sequence(c, step, v, tile->coordinate[step->immediate.i64],
                 step->immediate.i64 == tile->dimension);
    break;
  case CPU_STEP_POSITION: run_sequence(c, step, v, tile->position, tile->position_step); break;
  case CPU_STEP_CONVERT:
  case CPU_STEP_UNARY:
  case CPU_STEP_BINARY: run_compute(c, step, v); break;
  case CPU_STEP_SELECT: run_select(c, step, v); break;
  case CPU_STEP_DRAW: run_draw(c, step, v); break;
  }
}

/* ---- Chains ---------------------------------------------------------------------------------- */

/* Repeated elements are copied: a result of the first block may overwrite their register. */
static void write_code(const chunk *c, const cpu_chain *chain, const cpu_chain_entry *e, views *v,
                       cpu_chain_code *code) {
  const cpu_step *step = &c->program->step[e->step];
  if (e->kind == CPU_CHAIN_UNARY) {
    code->handler = e->handler[0];
    code->immediate = step->immediate.f64;
  } else if (e->kind == CPU_CHAIN_STORE) {
    code->handler = e->handler[0];
    code->to = result_place(c, step);
    set_view(v, step, code->to, false);
  } else if (v->uniform[e->value]) {
    code->handler = e->handler[CPU_CHAIN_REPEATED | (e->reversed ? CPU_CHAIN_REVERSED : 0)];
    memcpy(code->repeated, v->data[e->value], chain->table->element_bytes);
  } else {
    code->handler = e->handler[e->reversed ? CPU_CHAIN_REVERSED : 0];
    code->from = v->data[e->value];
  }
}

static bool has_dense_operand(const cpu_chain *chain, const views *v) {
  for (const cpu_chain_entry *e = chain->entry; e < chain->entry + chain->entries; e++)
    if (e->outside && !v->uniform[e->value]) return true;
  return false;
}

/* `true` if a result overwrites an operand. */
static bool overwrites_operand(const chunk *c, const cpu_chain *chain, const views *v) {
  const cpu_chain_entry *const end = chain->entry + chain->entries;
  for (const cpu_chain_entry *e = chain->entry; e < end; e++) {
    if (e->kind != CPU_CHAIN_STORE) continue;
    const void *place = result_place(c, &c->program->step[e->step]);
    for (const cpu_chain_entry *o = chain->entry; o < end; o++)
      if (o->outside && !v->uniform[o->value] && v->data[o->value] == place) return true;
  }
  return false;
}

/* If all operands are one element each, so are the results; the interpreter computes those, and
 * also chains that keep too little in registers. A remainder is part of a block that computes some
 * elements again. */
static bool may_chain(const chunk *c, const cpu_chain *chain, const views *v) {
  const int64_t block = chain->table->block;
  return c->count >= block && chain->kept * c->count >= WORTH_CODE && has_dense_operand(chain, v) &&
         (c->count % block == 0 || !overwrites_operand(c, chain, v));
}

static void run_chain(const chunk *c, const cpu_chain *chain, views *v) {
  cpu_chain_code code[CPU_CHAIN_CODE];
  for (uint32_t i = 0; i < chain->entries; i++) {
    const cpu_chain_entry *e = &chain->entry[i];
    write_code(c, chain, e, v, &code[i]);
    if (e->kind == CPU_CHAIN_THIRD)
      code[i - 1].handler = e->handler[(v->uniform[e[-1].value] ? CPU_CHAIN_REPEATED : 0) |
                                       (v->uniform[e->value] ? CPU_CHAIN_THIRD_REPEATED : 0)];
  }
  code[chain->entries].handler = chain->table->end;
  chain->table->run(code, c->count);
}

/* ---- Outputs --------------------------------------------------------------------------------- */

static void store_output(const chunk *c, uint32_t index, const views *v) {
  const cpu_program_output *output = &c->program->output[index];
  const cpu_tile_table *table = c->program->table;
  const int64_t stride = c->tile->output_stride[index];
  const void *source = v->data[output->value];
  void *destination = output_at(c, index), *stage = c->scratch + c->program->stage_offset;
  if (destination == source) return; /* already written in place */
  const bool uniform = v->uniform[output->value];
  if (uniform && stride == 1 && output->same_type) {
    table->fill(c->count, destination, source, output->value_bytes);
    return;
  }
  if (uniform) {
    table->fill(c->count, stage, source, output->value_bytes);
    source = stage;
  }
  if (c->stream && stride == 1 && ((uintptr_t)destination & 63) == 0 && !uniform) {
    if (!output->same_type) {
      output->store(c->count, stage, 1, source);
      source = stage;
    }
    table->stream(destination, source, c->count * output->element_bytes);
  } else {
    output->store(c->count, destination, stride, source);
  }
}

/* Outputs that the step that computes them may write directly: contiguous ones of the value's type,
 * if no later step reads an input at the same address. */
static uint32_t direct_outputs(const cpu_program *program, const cpu_tile *tile, bool stream) {
  uint32_t direct = 0;
  if (stream) return 0;
  for (uint32_t k = 0; k < program->output_count; k++) {
    const cpu_program_output *output = &program->output[k];
    bool allowed = output->same_type && tile->output_stride[k] == 1;
    for (uint32_t i = 0; allowed && i < program->input_count; i++)
      if (tile->input[i] == tile->output[k] && program->input_last_use[i] > output->defined_at)
        allowed = false;
    direct |= (uint32_t)allowed << k;
  }
  return direct;
}

/* Prefetches a part of the next chunk's inputs. */
static void prefetch_share(const chunk *c, uint32_t share) {
  const cpu_program *program = c->program;
  for (uint32_t k = 0; k < program->input_count; k++) {
    if (c->tile->input_stride[k] != 1) continue;
    const int64_t bytes = c->count * program->input_bytes[k];
    const int64_t first = bytes / 64 * share / program->step_count;
    const int64_t end = bytes / 64 * (share + 1) / program->step_count;
    const unsigned char *next = (const unsigned char *)input_at(c, k) + bytes;
    for (int64_t i = first; i < end; i++) __builtin_prefetch(next + 64 * i);
  }
}

/* No prefetching here: the operands are few and contiguous, so the processor prefetches them. */
static void run_formula(const chunk *c, views *v) {
  const cpu_program *program = c->program;
  void *outputs[CPU_FORMULA_OUTPUTS];
  for (uint32_t k = 0; k < program->output_count; k++) {
    const cpu_step *step = &program->step[program->output[k].defined_at];
    outputs[k] = result_place(c, step);
    set_view(v, step, outputs[k], false);
  }
  cpu_formula_run(&program->formula, c->tile, c->start, c->count, outputs);
}

static void run_steps(const chunk *c, views *v) {
  for (uint32_t i = 0; i < c->program->step_count;) {
    const cpu_step *step = &c->program->step[i];
    if (step->chain.count > 0 && may_chain(c, &step->chain, v)) {
      run_chain(c, &step->chain, v);
      i += step->chain.count;
    } else {
      if (c->stream) prefetch_share(c, i);
      run_step(c, step, v);
      i++;
    }
  }
}

void cpu_program_run(const cpu_program *program, const cpu_tile *tile, cpu_scratch *scratch,
                     bool stream) {
  if (cpu_bytes_look_up(program, tile, scratch, stream) ||
      cpu_requantize_sum_run(&program->requantize_sum, tile))
    return;
  views v;
  chunk c = {.program = program,
             .tile = tile,
             .scratch = scratch->bytes,
             .direct = direct_outputs(program, tile, stream),
             .stream = stream};
  const int64_t most = stream ? program->streamed_chunk : program->chunk;
  /* A formula of one operation gains nothing, and only run_steps prefetches a stream's next
   * chunk. */
  const bool is_formula =
      !(stream && program->step_count <= 3) && cpu_formula_suits(&program->formula, tile);
  for (c.start = 0; c.start < tile->count; c.start += c.count) {
    const int64_t left = tile->count - c.start;
    c.count = cpu_min(left, most);
    if (is_formula)
      run_formula(&c, &v);
    else
      run_steps(&c, &v);
    for (uint32_t k = 0; k < program->output_count; k++) store_output(&c, k, &v);
  }
}

void cpu_program_run_line(const cpu_program *program, cpu_tile *tile, int64_t length, int64_t pace,
                          cpu_scratch *scratch, bool stream) {
  /* Coordinates increase by one along a tile. */
  const bool alone = pace != 1 && program->places & ~CPU_PLACES_POSITION;
  const int64_t most = alone ? 1 : program->tile_elements;
  for (int64_t left = length;; left -= tile->count) {
    tile->count = cpu_min(left, most);
    cpu_program_run(program, tile, scratch, stream);
    if (tile->count == left) break;
    for (uint32_t i = 0; i < program->input_count; i++)
      tile->input[i] = (const unsigned char *)tile->input[i] +
                       tile->count * tile->input_stride[i] * program->input_bytes[i];
    for (uint32_t k = 0; k < program->output_count; k++)
      tile->output[k] = (unsigned char *)tile->output[k] +
                        tile->count * tile->output_stride[k] * program->output[k].element_bytes;
    tile->position += tile->count * tile->position_step;
    tile->coordinate[tile->dimension] += tile->count * pace;
  }
}

int64_t cpu_program_tile_elements(const cpu_program *program) {
  return program->tile_elements;
}

bool cpu_program_is_identity(const cpu_program *program) {
  return program->identity;
}

void cpu_stream_fence(void) {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}
