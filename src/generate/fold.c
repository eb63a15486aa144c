#include "generate/fold.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Order --------------------------------------------------------------------------------- */

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

/* What repeats is walked last, and so comes first. */
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

fold_order fold_sort(const compute_kernel_descriptor *d, int32_t kept, uint32_t count,
                     int32_t *main_input) {
  fold_order order = {.kept = kept, .rank = d->rank};
  for (int32_t i = 0; i < d->rank; i++) order.dimension[i] = i;
  *main_input = choose_main(d, count);
  if (*main_input >= 0) {
    sort(d, *main_input, 0, kept, order.dimension);
    sort(d, *main_input, kept, d->rank, order.dimension);
  }
  return order;
}

/* ---- Spaces -------------------------------------------------------------------------------- */

void fold_space(emit_space *space, const char *name, const compute_kernel_descriptor *d,
                const fold_order *order, int32_t rank) {
  int64_t size[COMPUTE_MAX_RANK] = {0};
  for (int32_t i = 0; i < rank; i++) size[i] = d->size[order->dimension[i]];
  space_begin(space, name, rank, size);
}

void fold_add(emit_space *space, const char *name, const int64_t *stride, const fold_order *order) {
  int64_t ordered[COMPUTE_MAX_RANK] = {0};
  if (space_walk(space, name)) return;
  for (int32_t i = 0; i < space->rank; i++) ordered[i] = stride[order->dimension[i]];
  space_add(space, name, ordered);
}

void fold_add_position(emit_space *space, const char *name, const compute_kernel_descriptor *d,
                       const fold_order *order, int32_t first, int32_t end) {
  int64_t stride[COMPUTE_MAX_RANK] = {0}, step = 1;
  for (int32_t i = end - 1; i >= first; i--) {
    stride[i] = step;
    step *= d->size[i];
  }
  fold_add(space, name, stride, order);
}

void fold_add_function(emit_space *space, const compute_kernel_descriptor *d,
                       const emit_function *function, const fold_order *order, int32_t rank) {
  const uint32_t skipped = function->first_is_value ? 1 : 0;
  char name[16];
  for (uint32_t i = skipped; i < function->input_count; i++) {
    if (!function->used[i]) continue;
    const uint32_t input = function->first_input + i - skipped;
    snprintf(name, sizeof name, "in%" PRIu32, input);
    fold_add(space, name, d->inputs[input].stride, order);
  }
  if (function->position) fold_add_position(space, "position", d, order, 0, rank);
  for (int32_t i = 0; i < rank; i++) {
    int64_t stride[COMPUTE_MAX_RANK] = {0};
    if (!function->coordinate[i]) continue;
    stride[i] = 1;
    snprintf(name, sizeof name, "coordinate%u", (unsigned)i % COMPUTE_MAX_RANK);
    fold_add(space, name, stride, order);
  }
}

void fold_add_outputs(emit_space *space, const compute_kernel_descriptor *d,
                      const fold_order *order) {
  char name[16];
  for (uint32_t i = 0; i < d->output_count; i++) {
    snprintf(name, sizeof name, "out%" PRIu32, i);
    fold_add(space, name, d->outputs[i].stride, order);
  }
}

/* ---- Macros -------------------------------------------------------------------------------- */

void fold_define(text_buffer *text, const char *name, const char *value) {
  const size_t name_length = strcspn(name, "(");
  text_add(text, "#undef %.*s\n#define %s ", (int)name_length, name, name);
  while (value && *value) {
    const size_t length = strcspn(value, "\n");
    text_add(text, "%.*s ", (int)length, value);
    value += length + (value[length] == '\n');
  }
  text_add(text, "\n");
}

void fold_define_number(text_buffer *text, const char *name, int64_t value) {
  char number[32];
  snprintf(number, sizeof number, "%" PRId64, value);
  fold_define(text, name, number);
}

void fold_define_text(text_buffer *text, const char *name, text_buffer *value) {
  fold_define(text, name, value->data);
  text->failed |= value->failed;
  text_release(value);
  *value = (text_buffer){0};
}

void fold_define_offsets(generation *g, text_buffer *text, const char *name, const char *parameter,
                         const emit_space *space, int32_t first, int32_t end, const char *prefix) {
  text_buffer offsets = {0};
  char head[64];
  snprintf(head, sizeof head, "%s(%s)", name, parameter);
  emit_offsets(g, &offsets, space, first, end, parameter, prefix);
  fold_define_text(text, head, &offsets);
}

void fold_steps(text_buffer *text, const char *prefix, const emit_space *space, int32_t dimension) {
  char stride[96];
  for (uint32_t i = 0; i < space->walk_count; i++) {
    const char *name = space->walk[i].name;
    const bool outside = dimension >= space->rank;
    text_add(text, "const INDEX %s_%s = %s;\n", prefix, name,
             outside ? "0" : emit_stride(space, name, dimension, stride, sizeof stride));
  }
}

void fold_define_finish(generation *g, text_buffer *text, const emit_function *epilogue,
                        const char *parameters, const char *before, const char *value,
                        const char *index) {
  text_buffer finish = {0};
  char head[64], type[EMIT_NAME_BYTES + 16];
  snprintf(head, sizeof head, "FINISH(%s)", parameters);
  text_add(&finish, "{ %s const %s stored = ", before,
           emit_result_type(epilogue, type, sizeof type));
  emit_call(g, &finish, epilogue, value, index);
  text_add(&finish, "; ");
  emit_stores(g, &finish, epilogue, "stored", index);
  text_add(&finish, "}");
  fold_define_text(text, head, &finish);
}

/* ---- Numbers ------------------------------------------------------------------------------- */

uint32_t fold_power_of_two(int64_t n) {
  uint32_t power = 1;
  while (power < n) power *= 2;
  return power;
}

int64_t fold_divide_up(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}

int64_t fold_clamp(int64_t value, int64_t low, int64_t high) {
  if (value > high) value = high;
  return value < low ? low : value;
}

uint32_t fold_value_bytes(compute_dtype type) {
  return type == COMPUTE_F64 || type == COMPUTE_I64 ? 8 : 4;
}

const char *fold_lowest(compute_dtype type) {
  switch (type) {
  case COMPUTE_F64: return "(-INFINITY_f64)";
  case COMPUTE_F32: return "(-INFINITY_f32)";
  case COMPUTE_I64: return "((i64)((u64)1 << 63))";
  case COMPUTE_I32: return "((i32)((u32)1 << 31))";
  default: return "0";
  }
}

const char *fold_highest(compute_dtype type) {
  switch (type) {
  case COMPUTE_F64: return "INFINITY_f64";
  case COMPUTE_F32: return "INFINITY_f32";
  case COMPUTE_I64: return "((i64)(~(u64)0 >> 1))";
  case COMPUTE_I32: return "((i32)(~(u32)0 >> 1))";
  default: return "1";
  }
}
