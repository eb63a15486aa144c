/* SPDX-License-Identifier: MIT */
/* Launches: the parameters of an entry point, and the struct of sizes that it receives. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "codegen/generate/emit/emit.h"
#include "core/base/alloc.h"
#include "core/kernel/kernel.h"

bool emit_for_cpu(const generation *g) {
  return g->target->type == COMPUTE_DEVICE_CPU;
}

bool emit_has(const generation *g, uint32_t target_flag) {
  return (g->target->flags & target_flag) != 0;
}

compute_status emit_refuse(generation *g, const char *format, ...) {
  va_list list;
  va_start(list, format);
  if (g->reason_bytes > 0) vsnprintf(g->reason, g->reason_bytes, format, list);
  va_end(list);
  return COMPUTE_ERROR_UNSUPPORTED;
}

uint32_t emit_group_limit(const generation *g) {
  const uint32_t limit = g->target->group_limit ? g->target->group_limit : 64;
  const uint32_t first = g->target->group_limit_of[0];
  return first ? min_u32(limit, first) : limit;
}

uint64_t emit_local_limit(const generation *g) {
  return g->target->local_bytes ? g->target->local_bytes : 32768;
}

/* A module older than the member has a shorter struct without it. */
uint64_t emit_asked_local_limit(const generation *g) {
  const compute_target *t = g->target;
  const size_t needed = offsetof(compute_target, launch_local_bytes) + sizeof t->launch_local_bytes;
  return t->struct_size >= needed ? t->launch_local_bytes : 0;
}

uint64_t emit_most_local_limit(const generation *g) {
  const uint64_t given = emit_local_limit(g), asked = emit_asked_local_limit(g);
  return asked > given ? asked : given;
}

emit_launch *emit_launch_begin(generation *g, const char *entry, const uint32_t group[3],
                               const uint32_t groups[3]) {
  if (g->launch_count == COMPUTE_GENERATED_LAUNCHES) {
    g->overflow = true;
    return NULL;
  }
  emit_launch *launch = base_allocate(1, sizeof *launch);
  if (!launch) {
    g->failed = true;
    return NULL;
  }
  snprintf(launch->entry, sizeof launch->entry, "%s", entry);
  for (int i = 0; i < 3; i++) {
    launch->group[i] = group[i] ? group[i] : 1;
    launch->groups[i] = groups[i] ? groups[i] : 1;
  }
  g->launch[g->launch_count++] = launch;
  return launch;
}

emit_launch *emit_launch_line(generation *g, const char *entry, uint32_t group, int64_t groups) {
  return emit_launch_begin(g, entry, (uint32_t[3]){group, 1, 1},
                           (uint32_t[3]){(uint32_t)groups, 1, 1});
}

void emit_release_launches(generation *g) {
  for (uint32_t i = 0; i < g->launch_count; i++) {
    emit_launch *launch = g->launch[i];
    text_release(&launch->body);
    text_release(&launch->parameters);
    text_release(&launch->offsets);
    text_release(&launch->fields);
    text_release(&launch->advance);
    text_release(&launch->call);
    base_release(launch);
  }
  g->launch_count = 0;
  text_release(&g->definitions);
}

/* ---- Buffers ------------------------------------------------------------------------------- */

static void add_buffer(emit_launch *launch, const char *name, const char *type, bool written,
                       uint32_t argument, uint32_t element_bytes) {
  if (launch->buffer_count == EMIT_BUFFERS) {
    launch->overflow = true;
    return;
  }
  const uint32_t index = launch->buffer_count++;
  launch->buffer[index] = (compute_generated_buffer){argument, element_bytes};
  text_add(&launch->parameters, "GLOBAL %s%s *%s, ", written ? "" : "const ", type, name);
  text_add(&launch->offsets, "  i64 offset_%s;\n", name);
  text_add(&launch->advance, "  %s += shape.offset_%s;\n", name, name);
  text_add(&launch->call, "arguments[%u], ", (unsigned)index);
}

static uint32_t element_bytes_of(compute_dtype dtype) {
  return (uint32_t)compute_dtype_size(dtype);
}

void emit_input(generation *g, emit_launch *launch, uint32_t input) {
  char name[16];
  snprintf(name, sizeof name, "in%u", (unsigned)input);
  const compute_dtype dtype = g->descriptor->inputs[input].dtype;
  add_buffer(launch, name, emit_storage(dtype), false, input, element_bytes_of(dtype));
}

void emit_output(generation *g, emit_launch *launch, uint32_t output) {
  char name[16];
  snprintf(name, sizeof name, "out%u", (unsigned)output);
  const compute_dtype dtype = g->descriptor->outputs[output].dtype;
  add_buffer(launch, name, emit_storage(dtype), true, g->descriptor->input_count + output,
             element_bytes_of(dtype));
}

void emit_inputs(generation *g, emit_launch *launch, uint32_t first, uint32_t end) {
  for (uint32_t i = first; i < end; i++) emit_input(g, launch, i);
}

void emit_outputs(generation *g, emit_launch *launch) {
  for (uint32_t k = 0; k < g->descriptor->output_count; k++) emit_output(g, launch, k);
}

void emit_workspace(generation *g, emit_launch *launch, const char *name, const char *type,
                    uint32_t element_bytes, uint64_t offset_bytes, bool written) {
  (void)g;
  add_buffer(launch, name, type, written, COMPUTE_GENERATED_WORKSPACE, element_bytes);
  text_add(&launch->advance, "  %s += shape.start_%s;\n", name, name);
  char field[EMIT_NAME_BYTES + 8];
  snprintf(field, sizeof field, "start_%s", name);
  emit_field_i64(g, launch, field, (int64_t)(offset_bytes / element_bytes));
}

void emit_fault(generation *g, emit_launch *launch) {
  add_buffer(launch, "fault", "i32", true, COMPUTE_GENERATED_FAULT, 4);
  g->faults = true;
}

/* ---- Fields -------------------------------------------------------------------------------- */

/* Fields follow each other, each aligned to its size: C, OpenCL C and CUDA all do this. */
static void add_field(emit_launch *launch, const char *type, const char *name, const void *value,
                      uint32_t bytes) {
  const uint32_t start = (launch->shape_bytes + bytes - 1) / bytes * bytes;
  if (start + bytes > EMIT_SHAPE_BYTES - 8 * EMIT_BUFFERS) {
    launch->overflow = true;
    return;
  }
  memcpy(launch->shape + start, value, bytes);
  launch->shape_bytes = start + bytes;
  text_add(&launch->fields, "  %s %s;\n", type, name);
}

void emit_field_i64(generation *g, emit_launch *launch, const char *name, int64_t value) {
  (void)g;
  add_field(launch, "i64", name, &value, sizeof value);
}

void emit_field_u32(generation *g, emit_launch *launch, const char *name, uint32_t value) {
  (void)g;
  add_field(launch, "u32", name, &value, sizeof value);
}

void emit_field_f32(generation *g, emit_launch *launch, const char *name, float value) {
  (void)g;
  add_field(launch, "f32", name, &value, sizeof value);
}

void emit_field_f64(generation *g, emit_launch *launch, const char *name, double value) {
  (void)g;
  add_field(launch, "f64", name, &value, sizeof value);
}

void emit_field_index(generation *g, emit_launch *launch, const char *name, int64_t value) {
  const int32_t narrow = (int32_t)value;
  if (g->wide) {
    add_field(launch, "INDEX", name, &value, sizeof value);
  } else {
    if (narrow != value) launch->overflow = true;
    add_field(launch, "INDEX", name, &narrow, sizeof narrow);
  }
}

/* Division of n < 2^31 by d: with s = ⌈log2 d⌉ and m = ⌈2^(31 + s) / d⌉ < 2^32 the quotient is ⌊n m
 * / 2^(31 + s)⌋. m d exceeds 2^(31 + s) by less than d ≤ 2^s, so n m / 2^(31 + s) exceeds n / d by
 * less than 1 / d. Source: T. Granlund and P. Montgomery, "Division by invariant integers using
 * multiplication", 1994. */
void emit_field_divisor(generation *g, emit_launch *launch, const char *name, int64_t value) {
  emit_field_index(g, launch, name, value);
  if (g->wide) return;
  uint32_t shift = 0;
  while (shift < 31 && (INT64_C(1) << shift) < value) shift++;
  const uint64_t power = UINT64_C(1) << (31 + shift), divisor = (uint64_t)(value > 0 ? value : 1);
  char field[EMIT_NAME_BYTES + 24];
  snprintf(field, sizeof field, "%s_magic", name);
  emit_field_u32(g, launch, field, (uint32_t)((power + divisor - 1) / divisor));
  snprintf(field, sizeof field, "%s_shift", name);
  emit_field_u32(g, launch, field, 31 + shift);
}

/* ---- Shares of items ----------------------------------------------------------------------- */

uint32_t emit_group_items(const generation *g, uint32_t wanted) {
  uint32_t limit = g->target->group_limit, items = 1;
  if (g->target->group_limit_of[0] < limit) limit = g->target->group_limit_of[0];
  if (wanted < limit) limit = wanted;
  while (items * 2 <= limit) items *= 2;
  return items;
}

enum {
  GROUPS_PER_UNIT = 4, /* for a CPU */
  MOST_GROUPS = 1 << 16,
  MOST_ITEMS = 1 << 24, /* NARROW_LIMIT (space.c) + MOST_ITEMS = 2^31: a step past the end fits */
  NARROW = 0x7e000000
};

sweep sweep_plan(generation *g, int64_t count, int64_t least, uint32_t group) {
  sweep s = {.count = count, .group = 1};
  if (emit_for_cpu(g)) {
    const int64_t units = g->target->compute_units > 0 ? g->target->compute_units : 1;
    const int64_t most = divide_up(count, least > 0 ? least : 1);
    s.share = divide_up(count, emit_clamp(units * GROUPS_PER_UNIT, 1, most));
    s.groups = divide_up(count, s.share);
  } else {
    s.group = emit_group_items(g, g->tuning.group_x ? g->tuning.group_x : group);
    s.groups = emit_clamp(divide_up(count, s.group), 1, MOST_ITEMS / s.group);
    if (s.groups > MOST_GROUPS) s.groups = MOST_GROUPS;
  }
  g->tuning.group_x = s.group;
  return s;
}

void sweep_begin(generation *g, emit_launch *launch, const sweep *s) {
  text_buffer *text = &launch->body;
  emit_field_index(g, launch, "positions", s->count);
  emit_field_index(g, launch, "step", s->share ? s->share : s->groups * s->group);
  if (s->share) {
    text_add(text, "const INDEX begin = (INDEX)GROUP_ID_X * shape.step;\n"
                   "const INDEX end = shape.positions - begin < shape.step ? shape.positions\n"
                   "  : begin + shape.step;\n"
                   "for (INDEX at = begin; at < end; at++) {\n");
  } else {
    text_add(text,
             "for (INDEX at = (INDEX)GROUP_ID_X * %u + (INDEX)LOCAL_ID_X; at < shape.positions;\n"
             "     at += shape.step) {\n",
             (unsigned)s->group);
  }
}

void sweep_measure(generation *g, double more) {
  const compute_kernel_descriptor *d = g->descriptor;
  double most = more, count = 1;
  for (uint32_t i = 0; i < d->input_count + d->output_count; i++) {
    const compute_operand *o = i < d->input_count ? &d->inputs[i] : &d->outputs[i - d->input_count];
    int64_t size[COMPUTE_MAX_RANK];
    double reach = 0;
    kernel_operand_sizes(d, i, size);
    for (int32_t k = 0; k < d->rank; k++) {
      const double step = (double)o->stride[k] * (double)size[k];
      reach += step < 0 ? -step : step;
    }
    if (reach > most) most = reach;
  }
  for (int32_t k = 0; k < d->rank; k++) count *= (double)d->size[k];
  if (most > NARROW || count > NARROW) g->wide = true;
}

compute_status emit_check_launches(generation *g) {
  if (g->overflow)
    return emit_refuse(g, "the kernel needs more launches or groups than there can be");
  for (uint32_t i = 0; i < g->launch_count; i++) {
    const emit_launch *l = g->launch[i];
    if (l->overflow) return emit_refuse(g, "the kernel needs too many launch arguments");
    const uint64_t items = (uint64_t)l->group[0] * l->group[1] * l->group[2];
    if (g->target->group_limit && items > g->target->group_limit) {
      return emit_refuse(g, "groups of %u items exceed the device's limit of %u", (unsigned)items,
                         (unsigned)g->target->group_limit);
    }
    for (int d = 0; d < 3; d++) {
      const uint32_t limit = g->target->group_limit_of[d];
      if (limit && l->group[d] > limit) {
        return emit_refuse(g,
                           "a group of %u items in dimension %d exceeds the device's limit of %u",
                           (unsigned)l->group[d], d, (unsigned)limit);
      }
      if (d > 0 && l->groups[d] > 65535) return emit_refuse(g, "the grid is too large");
    }
  }
  return COMPUTE_OK;
}
