/* SPDX-License-Identifier: MIT */
/* Finds the chains of a program and encodes them. A chain's code computes one value in registers:
 * each step uses the previous result if it can, otherwise it loads a value. A result with further
 * uses is also stored to its register of the tile. */
#include "program/chain.h"

#include <string.h>

/* ---- Finding --------------------------------------------------------------------------------- */

static bool is_source(const cpu_step *step) {
  return step->kind == CPU_STEP_CONSTANT || step->kind == CPU_STEP_LOAD ||
         step->kind == CPU_STEP_COORDINATE || step->kind == CPU_STEP_POSITION;
}

/* The table that supports a step, or NULL. */
static const cpu_chain_table *table_of(const cpu_isa *isa, const compute_program *source,
                                       const cpu_type *type, const cpu_step *step) {
  if (is_source(step) || step->result >= source->count) return NULL;
  const compute_instruction *i = &source->instructions[step->result];
  const cpu_type result = type[step->result], first = type[i->a];
  if (i->code == COMPUTE_I_CAST)
    return first == CPU_TYPE_I32 && result == CPU_TYPE_F32 ? CPU_PICK(isa, cpu_chain_f32) : NULL;
  const cpu_type real = result == CPU_TYPE_BOOL ? first : result;
  const cpu_chain_table *table = real == CPU_TYPE_F32   ? CPU_PICK(isa, cpu_chain_f32)
                                 : real == CPU_TYPE_F64 ? CPU_PICK(isa, cpu_chain_f64)
                                                        : NULL;
  return table && (*table->row)[i->code][0] ? table : NULL;
}

void cpu_chain_find(const cpu_isa *isa, const compute_program *source, const cpu_type *type,
                    cpu_program *program) {
  cpu_step *step = program->step;
  program->block = 1;
  for (uint32_t i = 0, end; i < program->step_count; i = end) {
    const cpu_chain_table *table = table_of(isa, source, type, &step[i]);
    uint32_t first = i;
    for (end = i + 1; table && end < program->step_count && end - first < CPU_CHAIN_STEPS; end++) {
      if (is_source(&step[end])) {
        const cpu_step moved = step[end];
        memmove(&step[first + 1], &step[first], (end - first) * sizeof *step);
        step[first++] = moved;
      } else if (table_of(isa, source, type, &step[end]) != table) {
        break;
      }
    }
    if (!table || end - first < 2) continue;
    program->block = cpu_max(program->block, table->block);
    step[first].chain = (cpu_chain){.table = table, .count = (uint16_t)(end - first)};
  }
}

/* ---- Writing --------------------------------------------------------------------------------- */

enum { NOTHING = UINT16_MAX };

typedef struct writing {
  const compute_program *source;
  const cpu_program *program;
  const cpu_chain_table *table;
  uint32_t first, end; /* step numbers */
  uint16_t made_at[CPU_MAX_VALUES];
  bool stored[CPU_MAX_VALUES];
  cpu_chain_entry *next; /* NULL: only determine `stored` */
} writing;

static void append(writing *w, cpu_chain_entry entry) {
  if (w->next) *w->next++ = entry;
}

static void append_operand(writing *w, cpu_chain_kind kind, const cpu_chain_handler *handler,
                           uint16_t value, bool reversed) {
  const uint16_t step = w->made_at[value];
  const bool outside = step < w->first || step >= w->end;
  if (!outside) w->stored[value] = true;
  append(w, (cpu_chain_entry){.handler = handler,
                              .kind = (uint8_t)kind,
                              .reversed = reversed,
                              .outside = outside,
                              .value = value,
                              .step = step});
}

/* Writes step number `number`; `held` is the value in registers. */
static void write_step(writing *w, uint32_t number, uint16_t held) {
  const cpu_step *step = &w->program->step[number];
  const uint16_t a = step->operand[0], b = step->operand[1];
  const cpu_chain_handler *handler =
      step->kind == CPU_STEP_CONVERT ? &w->table->convert
                                     : (*w->table->row)[w->source->instructions[step->result].code];
  const bool reversed = step->kind == CPU_STEP_BINARY && held == b && held != a;
  if (!reversed && held != a) append_operand(w, CPU_CHAIN_LOAD, w->table->load, a, false);
  if (step->kind == CPU_STEP_UNARY || step->kind == CPU_STEP_CONVERT)
    append(w, (cpu_chain_entry){
                  .handler = handler, .kind = CPU_CHAIN_UNARY, .step = (uint16_t)number});
  else
    append_operand(w, CPU_CHAIN_BINARY, handler, reversed ? a : b, reversed);
  if (step->kind == CPU_STEP_SELECT)
    append_operand(w, CPU_CHAIN_THIRD, handler, step->operand[2], false);
  if (w->stored[step->result])
    append(w, (cpu_chain_entry){.handler = &w->table->store,
                                .kind = CPU_CHAIN_STORE,
                                .value = step->result,
                                .step = (uint16_t)number});
}

static void write_steps(writing *w) {
  uint16_t held = NOTHING;
  for (uint32_t i = w->first; i < w->end; i++) {
    write_step(w, i, held);
    held = w->program->step[i].result;
  }
}

void cpu_chain_write(const compute_program *source, const uint16_t *last_use, cpu_program *program,
                     cpu_chain_entry *entry) {
  writing w = {.source = source, .program = program};
  for (uint32_t i = 0; i < program->step_count; i++)
    w.made_at[program->step[i].result] = (uint16_t)i;
  for (uint32_t i = 0; i < program->step_count; i++) {
    cpu_chain *chain = &program->step[i].chain;
    if (chain->count == 0) continue;
    w.table = chain->table;
    w.first = i;
    w.end = i + chain->count;
    for (uint32_t k = w.first; k < w.end; k++) {
      const uint16_t value = program->step[k].result;
      w.stored[value] = last_use[value] >= w.end;
    }
    w.next = NULL;
    write_steps(&w);
    for (uint32_t k = w.first; k < w.end; k++) chain->kept += !w.stored[program->step[k].result];
    w.next = entry;
    write_steps(&w);
    chain->entry = entry;
    chain->entries = (uint16_t)(w.next - entry);
    entry = w.next;
  }
}
