/* SPDX-License-Identifier: MIT */
/* Dumps the steps of a plan under compilation: the text of compute_explain, and a graph with values
 * between the steps. */
#include "plan/compile/dump/dump.h"
#include "plan/compile/run/explain.h"

/* Returns the place of an operand. Before arena_place, the slot identifies its storage. */
static plan_operand place_of(const lowering *l, const step_operand *o) {
  const storage *s = &l->storages[o->storage];
  const bool is_placed = s->slot != IR_NONE;
  return (plan_operand){.slot = is_placed ? s->slot : l->plan->slot_count + o->storage,
                        .offset = (is_placed ? s->offset : 0) + o->offset};
}

/* Returns the step in its final form; `operands` has room for COMPUTE_MAX_OPERANDS. */
static plan_step view_of(const lowering *l, const build_step *s, plan_operand *operands) {
  for (uint32_t k = 0; k < s->operand_count; k++) operands[k] = place_of(l, &s->operand[k]);
  return (plan_step){.kernel = s->kernel,
                     .device = s->device,
                     .operand_count = s->operand_count,
                     .input_count = s->input_count,
                     .operands = operands,
                     .bytes = s->bytes,
                     .text = (char *)s->text,
                     .shape = (char *)s->shape,
                     .placement = (char *)s->placement,
                     .reason = (char *)s->reason,
                     .operations = s->operations,
                     .flops = s->flops,
                     .bytes_read = s->bytes_read,
                     .bytes_written = s->bytes_written};
}

/* Adds a value and its edge to a step. Graphviz merges duplicates. */
static void add_value(text_buffer *dot, const lowering *l, const step_operand *o, uint32_t step,
                      bool is_input) {
  const step_operand whole = {.storage = o->storage};
  const plan_operand place = place_of(l, &whole);
  text_buffer name = {0};
  explain_operand(l->plan, &name, &place);
  text_add(dot, "  v%u [shape=ellipse, label=\"", o->storage + 1);
  if (name.data) dump_quoted(dot, name.data);
  text_add(dot, "\\n%llu B\"];\n", (unsigned long long)l->storages[o->storage].bytes);
  text_release(&name);
  if (is_input)
    text_add(dot, "  v%u -> s%u;\n", o->storage + 1, step);
  else
    text_add(dot, "  s%u -> v%u;\n", step, o->storage + 1);
}

static void add_step(text_buffer *dot, const lowering *l, uint32_t number) {
  const build_step *s = &l->steps[number];
  text_add(dot, "  s%u [label=\"%u ", number + 1, number + 1);
  dump_quoted(dot, s->text);
  text_add(dot, "\\n");
  dump_quoted(dot, s->shape);
  text_add(dot, "\\non ");
  dump_quoted(dot, l->plan->device[s->device]->info.name);
  text_add(dot, "\"];\n");
  for (uint32_t k = 0; k < s->operand_count; k++)
    add_value(dot, l, &s->operand[k], number + 1, k < s->input_count);
}

void dump_write_steps(const pass_log *d, plan_pass pass, const lowering *l) {
  dump_page page;
  dump_page_begin(&page, d, pass, l->step_count, "steps");
  for (uint32_t i = 0; i < l->step_count; i++) {
    plan_operand operands[COMPUTE_MAX_OPERANDS];
    const plan_step step = view_of(l, &l->steps[i], operands);
    explain_step(l->plan, &page.text, i, &step, NULL);
    add_step(&page.dot, l, i);
  }
  dump_page_write(&page, d, pass);
}
