/* SPDX-License-Identifier: MIT */
/* Index spaces: merges dimensions, and writes the text that turns a position into offsets. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/generate/emit/emit.h"

void space_begin(emit_space *space, const char *name, int32_t rank, const int64_t *size) {
  memset(space, 0, sizeof *space);
  snprintf(space->name, sizeof space->name, "%s", name);
  space->rank = rank;
  for (int32_t d = 0; d < rank; d++) space->size[d] = size[d];
}

void space_add(emit_space *space, const char *name, const int64_t *stride) {
  if (space->walk_count == EMIT_WALKS) return;
  emit_walk *walk = &space->walk[space->walk_count++];
  snprintf(walk->name, sizeof walk->name, "%s", name);
  for (int32_t d = 0; d < space->rank; d++) walk->stride[d] = stride[d];
}

void space_add_inputs(generation *g, emit_space *space, uint32_t first, uint32_t end) {
  for (uint32_t i = first; i < end; i++) {
    char name[16];
    snprintf(name, sizeof name, "in%u", (unsigned)i);
    space_add(space, name, g->descriptor->inputs[i].stride);
  }
}

void space_add_outputs(generation *g, emit_space *space) {
  for (uint32_t k = 0; k < g->descriptor->output_count; k++) {
    char name[16];
    snprintf(name, sizeof name, "out%u", (unsigned)k);
    space_add(space, name, g->descriptor->outputs[k].stride);
  }
}

const emit_walk *space_walk(const emit_space *space, const char *name) {
  for (uint32_t i = 0; i < space->walk_count; i++) {
    if (!strcmp(space->walk[i].name, name)) return &space->walk[i];
  }
  return NULL;
}

void space_add_program(emit_space *space, const compute_program *program, int32_t rank) {
  for (uint32_t i = 0; i < program->count; i++) {
    const compute_instruction *instruction = &program->instructions[i];
    int64_t stride[COMPUTE_MAX_RANK] = {0}, step = 1;
    char name[16] = "";
    if (instruction->code == COMPUTE_I_POSITION) {
      snprintf(name, sizeof name, "position");
      for (int32_t d = rank; d-- > 0; step *= space->size[d] ? space->size[d] : 1) stride[d] = step;
    } else if (instruction->code == COMPUTE_I_COORDINATE) {
      const int32_t dimension = (int32_t)instruction->immediate.i64;
      snprintf(name, sizeof name, "coordinate%d", (int)dimension);
      stride[dimension] = 1;
    }
    if (name[0] && !space_walk(space, name)) space_add(space, name, stride);
  }
}

/* ---- Another order of dimensions --------------------------------------------------------- */

static int32_t choose_main(const compute_kernel_descriptor *d, uint32_t count) {
  int32_t best = -1, most = -1;
  for (uint32_t i = 0; i < count; i++) {
    int32_t walked = 0;
    for (int32_t k = 0; k < d->rank; k++) walked += d->inputs[i].stride[k] != 0 && d->size[k] > 1;
    if (walked > most) {
      most = walked;
      best = (int32_t)i;
    }
  }
  return best;
}

/* A dimension along which the input repeats comes first, so that it is walked last. */
static uint64_t step_of(const compute_kernel_descriptor *d, int32_t input, int32_t dimension) {
  const int64_t stride = d->inputs[input].stride[dimension];
  if (stride == 0) return UINT64_MAX;
  return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
}

static void sort(const compute_kernel_descriptor *d, int32_t input, int32_t first, int32_t end,
                 int32_t *dimension) {
  for (int32_t i = first + 1; i < end; i++) {
    const int32_t moved = dimension[i];
    int32_t at = i;
    for (; at > first && step_of(d, input, dimension[at - 1]) < step_of(d, input, moved); at--)
      dimension[at] = dimension[at - 1];
    dimension[at] = moved;
  }
}

space_order space_sort(const compute_kernel_descriptor *d, int32_t kept, uint32_t count,
                       int32_t *main_input) {
  space_order order = {.kept = kept, .rank = d->rank};
  for (int32_t i = 0; i < d->rank; i++) order.dimension[i] = i;
  *main_input = choose_main(d, count);
  if (*main_input >= 0) {
    sort(d, *main_input, 0, kept, order.dimension);
    sort(d, *main_input, kept, d->rank, order.dimension);
  }
  return order;
}

void space_begin_in_order(emit_space *space, const char *name, const compute_kernel_descriptor *d,
                          const space_order *order, int32_t rank) {
  int64_t size[COMPUTE_MAX_RANK] = {0};
  for (int32_t i = 0; i < rank; i++) size[i] = d->size[order->dimension[i]];
  space_begin(space, name, rank, size);
}

static void add_in_order(emit_space *space, const char *name, const int64_t *stride,
                         const space_order *order) {
  int64_t ordered[COMPUTE_MAX_RANK] = {0};
  if (space_walk(space, name)) return;
  for (int32_t i = 0; i < space->rank; i++) ordered[i] = stride[order->dimension[i]];
  space_add(space, name, ordered);
}

void space_add_position(emit_space *space, const char *name, const compute_kernel_descriptor *d,
                        const space_order *order, int32_t first, int32_t end) {
  int64_t stride[COMPUTE_MAX_RANK] = {0}, step = 1;
  for (int32_t i = end - 1; i >= first; i--) {
    stride[i] = step;
    step *= d->size[i];
  }
  add_in_order(space, name, stride, order);
}

void space_add_function(emit_space *space, const compute_kernel_descriptor *d,
                        const emit_function *function, const space_order *order, int32_t rank) {
  const uint32_t skipped = function->first_is_value ? 1 : 0;
  char name[16];
  for (uint32_t i = skipped; i < function->input_count; i++) {
    if (!function->used[i]) continue;
    const uint32_t input = function->first_input + i - skipped;
    snprintf(name, sizeof name, "in%" PRIu32, input);
    add_in_order(space, name, d->inputs[input].stride, order);
  }
  if (function->position) space_add_position(space, "position", d, order, 0, rank);
  for (int32_t i = 0; i < rank; i++) {
    int64_t stride[COMPUTE_MAX_RANK] = {0};
    if (!function->coordinate[i]) continue;
    stride[i] = 1;
    snprintf(name, sizeof name, "coordinate%u", (unsigned)i % COMPUTE_MAX_RANK);
    add_in_order(space, name, stride, order);
  }
}

void space_add_outputs_in_order(emit_space *space, const compute_kernel_descriptor *d,
                                const space_order *order) {
  char name[16];
  for (uint32_t i = 0; i < d->output_count; i++) {
    snprintf(name, sizeof name, "out%" PRIu32, i);
    add_in_order(space, name, d->outputs[i].stride, order);
  }
}

/* ---- Canonical form ------------------------------------------------------------------------ */

/* True if, for every walk, a step of dimension `outer` equals size[inner] steps of `inner`. */
static bool walks_as_one(const emit_space *space, int32_t outer, int32_t inner) {
  for (uint32_t i = 0; i < space->walk_count; i++) {
    const int64_t *stride = space->walk[i].stride;
    int64_t span;
    if (__builtin_mul_overflow(stride[inner], space->size[inner], &span)) return false;
    if (stride[outer] != span) return false;
  }
  return true;
}

static void move_dimension(emit_space *space, int32_t from, int32_t to) {
  space->size[to] = space->size[from];
  for (uint32_t i = 0; i < space->walk_count; i++) {
    space->walk[i].stride[to] = space->walk[i].stride[from];
  }
}

/* Leaves room for indices that run past the end by less than all items of a launch. */
enum { NARROW_LIMIT = 0x7f000000 };

static bool needs_wide(const emit_space *space) {
  int64_t count = 1;
  for (int32_t d = 0; d < space->rank; d++) {
    if (space->size[d] == 0) return false;
    if (__builtin_mul_overflow(count, space->size[d], &count)) return true;
  }
  if (count > NARROW_LIMIT) return true;
  for (uint32_t i = 0; i < space->walk_count; i++) {
    int64_t reach = 0, span;
    for (int32_t d = 0; d < space->rank; d++) {
      const int64_t stride = space->walk[i].stride[d];
      if (stride > NARROW_LIMIT || stride < -NARROW_LIMIT) return true;
      /* Below 2^62. The sum of eight is also below 2^62, since each is checked to be below 2^31. */
      span = (stride < 0 ? -stride : stride) * (space->size[d] - 1);
      if (span > NARROW_LIMIT) return true;
      reach += span;
    }
    if (reach > NARROW_LIMIT) return true;
  }
  return false;
}

void space_canonicalise(generation *g, emit_space *space) {
  int32_t kept = 0, fence = 0;
  for (int32_t d = 0; d < space->rank; d++) {
    const bool below = d < space->fence;
    const int32_t lowest = below ? 0 : fence; /* the first dimension to merge with */
    if (space->size[d] != 1) {
      /* Move it next to its neighbour first, so that the test sees both in their final places. */
      move_dimension(space, d, kept);
      int64_t product;
      if (kept > lowest && walks_as_one(space, kept - 1, kept) &&
          !__builtin_mul_overflow(space->size[kept - 1], space->size[kept], &product)) {
        space->size[kept] = product;
        move_dimension(space, kept, kept - 1);
      } else {
        kept++;
      }
    }
    if (below) fence = kept;
  }
  for (int32_t d = kept; d < space->rank; d++) {
    space->size[d] = 1;
    for (uint32_t i = 0; i < space->walk_count; i++) space->walk[i].stride[d] = 0;
  }
  space->rank = kept;
  space->fence = fence;
  if (needs_wide(space)) g->wide = true;
}

int64_t space_count(const emit_space *space, int32_t first, int32_t end) {
  int64_t count = 1;
  for (int32_t d = first; d < end; d++) count *= space->size[d];
  return count;
}

void space_fill_rank(emit_space *space) {
  if (space->rank > 0) return;
  space->rank = 1;
  space->size[0] = 1;
  for (uint32_t w = 0; w < space->walk_count; w++) space->walk[w].stride[0] = 0;
}

bool space_rows(generation *g, emit_space *space, int32_t rank) {
  const compute_kernel_descriptor *d = g->descriptor;
  space_begin(space, "space", rank, d->size);
  space_add_inputs(g, space, 0, d->input_count);
  space_add_outputs(g, space);
  if (space_count(space, 0, rank) == 0) return false;
  space_canonicalise(g, space);
  space->generic = space->rank;
  return true;
}

/* True if the text contains the stride as a number. */
static bool is_literal(const emit_space *space, int32_t dimension, int64_t stride) {
  return dimension >= space->generic && (stride == 0 || stride == 1);
}

/* ---- Text ---------------------------------------------------------------------------------- */

static bool has_field(const emit_launch *launch, const char *name) {
  char line[80];
  snprintf(line, sizeof line, " %s;\n", name);
  return launch->fields.data && strstr(launch->fields.data, line);
}

void emit_space_fields(generation *g, emit_launch *launch, const emit_space *space, int32_t first,
                       int32_t end) {
  char name[64];
  for (int32_t d = first; d < end; d++) {
    snprintf(name, sizeof name, "%s_size%d", space->name, (int)d);
    if (has_field(launch, name)) continue;
    emit_field_divisor(g, launch, name, space->size[d]);
    for (uint32_t i = 0; i < space->walk_count; i++) {
      const emit_walk *walk = &space->walk[i];
      if (is_literal(space, d, walk->stride[d])) continue;
      snprintf(name, sizeof name, "%s_%s_%d", space->name, walk->name, (int)d);
      emit_field_index(g, launch, name, walk->stride[d]);
    }
  }
}

const char *emit_stride(const emit_space *space, const char *walk, int32_t dimension, char *text,
                        size_t bytes) {
  const emit_walk *found = space_walk(space, walk);
  const int64_t stride = found ? found->stride[dimension] : 0;
  if (is_literal(space, dimension, stride)) {
    snprintf(text, bytes, "%d", (int)stride);
  } else {
    snprintf(text, bytes, "shape.%s_%s_%d", space->name, walk, (int)dimension);
  }
  return text;
}

void emit_term(text_buffer *text, const emit_space *space, const char *walk, int32_t dimension,
               const char *variable) {
  char stride[96];
  const char *expression = emit_stride(space, walk, dimension, stride, sizeof stride);
  if (expression[0] == '0') return;
  if (expression[0] == '1')
    text_add(text, " + %s", variable);
  else
    text_add(text, " + %s * %s", variable, expression);
}

/* Declares the coordinates <prefix>_c<d>. The outermost one is the remaining quotient. */
static void emit_coordinates(text_buffer *text, const emit_space *space, int32_t first, int32_t end,
                             const char *index, const char *prefix) {
  char rest[EMIT_NAME_BYTES + 16];
  snprintf(rest, sizeof rest, "%s", index);
  for (int32_t d = end - 1; d > first; d--) {
    text_add(text, "  const INDEX %s_q%d = DIVIDE(%s, shape.%s_size%d);\n", prefix, (int)d, rest,
             space->name, (int)d);
    text_add(text, "  const INDEX %s_c%d = %s - %s_q%d * shape.%s_size%d;\n", prefix, (int)d, rest,
             prefix, (int)d, space->name, (int)d);
    snprintf(rest, sizeof rest, "%s_q%d", prefix, (int)d);
  }
  if (end > first) text_add(text, "  const INDEX %s_c%d = %s;\n", prefix, (int)first, rest);
}

void emit_offsets(generation *g, text_buffer *text, const emit_space *space, int32_t first,
                  int32_t end, const char *index, const char *prefix) {
  (void)g;
  emit_coordinates(text, space, first, end, index, prefix);
  for (uint32_t i = 0; i < space->walk_count; i++) {
    const emit_walk *walk = &space->walk[i];
    text_add(text, "  const INDEX %s_%s = ", prefix, walk->name);
    const char *plus = "";
    for (int32_t d = first; d < end; d++) {
      char stride[64];
      const bool literal = is_literal(space, d, walk->stride[d]);
      if (literal && walk->stride[d] == 0) continue;
      if (literal) {
        text_add(text, "%s%s_c%d", plus, prefix, (int)d);
      } else {
        text_add(text, "%s%s_c%d * %s", plus, prefix, (int)d,
                 emit_stride(space, walk->name, d, stride, sizeof stride));
      }
      plus = " + ";
    }
    text_add(text, "%s;\n", plus[0] ? "" : "0");
  }
}

void emit_define_offsets(generation *g, text_buffer *text, const char *name, const char *parameter,
                         const emit_space *space, int32_t first, int32_t end, const char *prefix) {
  text_buffer offsets = {0};
  char head[64];
  snprintf(head, sizeof head, "%s(%s)", name, parameter);
  emit_offsets(g, &offsets, space, first, end, parameter, prefix);
  emit_define_text(text, head, &offsets);
}

void emit_steps(text_buffer *text, const char *prefix, const emit_space *space, int32_t dimension) {
  char stride[96];
  for (uint32_t i = 0; i < space->walk_count; i++) {
    const char *name = space->walk[i].name;
    const bool outside = dimension >= space->rank;
    text_add(text, "const INDEX %s_%s = %s;\n", prefix, name,
             outside ? "0" : emit_stride(space, name, dimension, stride, sizeof stride));
  }
}
