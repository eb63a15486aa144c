/* SPDX-License-Identifier: MIT */
/* RECURRENT: one group runs a sequence through its steps, with the states in local memory.
 *
 * Each item side by side has separate hidden units. If there are few units, further items take
 * parts of their sums. On a CPU one item runs a sequence. States that do not fit into local memory
 * are refused. It reads no parameters. */
#include <inttypes.h>
#include <stdio.h>

#include "codegen/generate/emit/emit.h"

enum {
  MOST_LANES = 256,
  MOST_ITEMS = 1024, /* of a group */
  MOST_SLICES = 16,
  SHORTEST_SLICE = 8 /* of a sum */
};

enum { X, R, H, C, LENGTHS, BIAS, PEEPHOLES, Y, OPERANDS };

static const char *const names[OPERANDS] = {"x",      "weight", "h",        "c",
                                            "length", "bias",   "peephole", "y"};

typedef struct recurrent_kernel {
  generation *g;
  const compute_recurrent_attributes *a;
  const compute_operand *operand[OPERANDS]; /* NULL: none */
  char pointer[OPERANDS][8];
  int64_t steps, batch, hidden, gates, lanes, slices;
} recurrent_kernel;

static void find_operands(recurrent_kernel *k) {
  const compute_kernel_descriptor *d = k->g->descriptor;
  const bool there[Y] = {true,          true,       true,           k->gates == 4,
                         k->a->lengths, k->a->bias, k->a->peepholes};
  unsigned next = 0;
  for (int i = 0; i < Y; i++) {
    if (!there[i]) continue;
    k->operand[i] = &d->inputs[next];
    snprintf(k->pointer[i], sizeof k->pointer[i], "in%u", next++);
  }
  k->operand[Y] = &d->outputs[0];
  snprintf(k->pointer[Y], sizeof k->pointer[Y], "out0");
}

/* ---- Choice -------------------------------------------------------------------------------- */

static uint64_t local_bytes(const recurrent_kernel *k) {
  const bool resets = k->a->cell == COMPUTE_RECURRENT_GRU && !k->a->reset_after;
  return (uint64_t)(k->hidden * (2 + resets + k->slices * k->gates)) *
         emit_value_bytes(k->g->descriptor->accumulate);
}

static compute_status choose(recurrent_kernel *k) {
  generation *g = k->g;
  const int64_t limit = emit_clamp(emit_group_limit(g), 1, MOST_ITEMS);
  const int64_t most = emit_for_cpu(g) ? 1 : MOST_LANES;
  if (k->a->quantized) return emit_refuse(g, "recurrent: states in 8 bits");
  if (k->hidden > INT32_MAX / 64 || k->batch > INT32_MAX)
    return emit_refuse(g, "recurrent: %" PRId64 " sequences of %" PRId64 " units", k->batch,
                       k->hidden);
  k->lanes = emit_power_of_two(k->hidden);
  while (k->lanes > 1 && (k->lanes > most || k->lanes > limit)) k->lanes /= 2;
  k->slices = 1;
  while (!emit_for_cpu(g) && k->lanes * k->slices * 2 <= limit && k->slices < MOST_SLICES &&
         k->hidden / (k->slices * 2) >= SHORTEST_SLICE)
    k->slices *= 2;
  while (k->slices > 1 && local_bytes(k) > emit_local_limit(g)) k->slices /= 2;
  if (local_bytes(k) > emit_local_limit(g))
    return emit_refuse(g, "recurrent: states of %" PRId64 " units exceed local memory", k->hidden);
  return COMPUTE_OK;
}

/* ---- Text ---------------------------------------------------------------------------------- */

/* Defines macros for the elements of an operand, for its strides. */
static void define_operand(recurrent_kernel *k, int which) {
  static const char *const heads[OPERANDS] = {
      "RECURRENT_X(i, row, j)", "RECURRENT_WEIGHT(row, j)",
      "RECURRENT_H(row, j)",    "RECURRENT_C(row, j)",
      "RECURRENT_LENGTH(j)",    "RECURRENT_BIAS(j)",
      "RECURRENT_PEEPHOLE(j)",  "RECURRENT_STORE(i, row, j, value)"};
  const compute_operand *o = k->operand[which];
  text_buffer text = {0};
  char index[160], step[48] = "";
  const char *name = names[which];
  if (o->stride[2] != 1) snprintf(step, sizeof step, " * shape.%s_2", name);
  if (which == X || which == Y)
    snprintf(index, sizeof index,
             "(INDEX)(i) * shape.%s_0 + (INDEX)(row) * shape.%s_1 + (INDEX)(j)%s", name, name,
             step);
  else if (which <= C)
    snprintf(index, sizeof index, "(INDEX)(row) * shape.%s_1 + (INDEX)(j)%s", name, step);
  else
    snprintf(index, sizeof index, "(INDEX)(j)%s", step);
  if (which == Y)
    emit_store(&text, o->dtype, k->g->descriptor->accumulate, k->pointer[Y], index, "value");
  else
    emit_load(&text, o->dtype, k->pointer[which], index);
  emit_define_text(&k->g->definitions, heads[which], &text);
}

static void define(recurrent_kernel *k) {
  generation *g = k->g;
  const bool wide = g->descriptor->accumulate == COMPUTE_F64;
  text_buffer *definitions = &g->definitions;
  emit_define(definitions, "VALUE", emit_type(g->descriptor->accumulate));
  emit_define(definitions, "RECURRENT_SIGMOID", wide ? "sigmoid_f64" : "sigmoid_f32");
  emit_define(definitions, "RECURRENT_TANH", wide ? "tanh_f64" : "tanh_f32");
  emit_define(definitions, "RECURRENT_MAD", wide ? "MAD_f64" : "MAD_f32");
  emit_define_number(definitions, "RECURRENT_CELL", k->a->cell);
  emit_define_number(definitions, "RECURRENT_RESET_AFTER", k->a->reset_after);
  emit_define_number(definitions, "RECURRENT_BIASED", k->a->bias);
  emit_define_number(definitions, "RECURRENT_PEEPHOLES", k->a->peepholes);
  emit_define_number(definitions, "RECURRENT_REVERSE", k->a->reverse);
  emit_define_number(definitions, "RECURRENT_CLIPPED", k->a->clip > 0);
  emit_define_number(definitions, "RECURRENT_GATES", k->gates);
  emit_define_number(definitions, "RECURRENT_HIDDEN", k->hidden);
  emit_define_number(definitions, "RECURRENT_LANES", k->lanes);
  emit_define_number(definitions, "RECURRENT_SLICES", k->slices);
  for (int i = 0; i < OPERANDS; i++)
    if (k->operand[i]) define_operand(k, i);
  if (!k->operand[LENGTHS]) emit_define(definitions, "RECURRENT_LENGTH(j)", "shape.steps");
  emit_template(g, definitions, "recurrent");
}

static void add_fields(recurrent_kernel *k, emit_launch *launch) {
  generation *g = k->g;
  char name[EMIT_NAME_BYTES];
  emit_field_index(g, launch, "steps", k->steps);
  for (int i = 0; i < OPERANDS; i++)
    for (int s = 0; s < 3 && k->operand[i]; s++) {
      snprintf(name, sizeof name, "%s_%d", names[i], s);
      emit_field_index(g, launch, name, k->operand[i]->stride[s]);
    }
  if (g->descriptor->accumulate == COMPUTE_F64)
    emit_field_f64(g, launch, "clip", k->a->clip);
  else
    emit_field_f32(g, launch, "clip", (float)k->a->clip);
}

static compute_status emit(generation *g) {
  const compute_kernel_descriptor *d = g->descriptor;
  const compute_recurrent_attributes *a = compute_recurrent_of(d);
  recurrent_kernel k = {.g = g,
                        .a = a,
                        .steps = d->size[0] - compute_recurrent_states(a->cell),
                        .batch = d->size[1],
                        .hidden = d->size[2],
                        .gates = compute_recurrent_gates(a->cell)};
  if (k.batch == 0 || k.hidden == 0) return COMPUTE_OK;
  find_operands(&k);
  const compute_status status = choose(&k);
  if (status) return status;
  sweep_measure(g, (double)d->size[0] + (double)k.batch + 4 * (double)k.hidden);
  define(&k);
  const uint32_t group = (uint32_t)(k.lanes * k.slices);
  emit_launch *launch = emit_launch_line(g, "recurrent", group, k.batch);
  if (!launch) return COMPUTE_OK;
  emit_inputs(g, launch, 0, d->input_count);
  emit_output(g, launch, 0);
  add_fields(&k, launch);
  emit_template(g, &launch->body, "recurrent_sequence");
  g->tuning.group_x = group;
  snprintf(g->text, sizeof g->text, "recurrent, a sequence by %u items", (unsigned)group);
  return COMPUTE_OK;
}

const emit_kind emit_recurrent = {.name = "RECURRENT", .accumulates = true, .emit = emit};
