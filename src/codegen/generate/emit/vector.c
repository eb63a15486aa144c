/* SPDX-License-Identifier: MIT */
/* Vectors of neighbours along the last dimension of a space, loaded and stored at once.
 *
 * Three conditions decide if this is possible: strides of 0 and 1, known when the text is written;
 * sizes, known when the launch is described; and addresses, known only at the launch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/generate/emit/emit.h"

enum { VECTOR_BYTES = 16 };

compute_dtype vector_dtype(const generation *g, const char *walk) {
  const compute_kernel_descriptor *d = g->descriptor;
  if (!strncmp(walk, "out", 3)) return d->outputs[atoi(walk + 3)].dtype;
  if (!strncmp(walk, "in", 2)) return d->inputs[atoi(walk + 2)].dtype;
  return COMPUTE_DTYPE_NONE;
}

static int64_t inner_stride(const emit_space *space, const emit_walk *walk) {
  return walk->stride[space->rank - 1];
}

uint32_t vector_choose(const generation *g, const emit_space *space) {
  uint32_t largest = 1, vector = VECTOR_MOST;
  for (uint32_t i = 0; i < space->walk_count; i++) {
    const emit_walk *walk = &space->walk[i];
    const compute_dtype dtype = vector_dtype(g, walk->name);
    const int64_t stride = inner_stride(space, walk);
    if (dtype == COMPUTE_DTYPE_NONE) continue;
    if (stride != 1 && (stride != 0 || walk->name[0] == 'o')) return 1;
    if (stride == 1 && compute_dtype_size(dtype) > largest)
      largest = (uint32_t)compute_dtype_size(dtype);
  }
  while (vector > 1 && vector * largest > VECTOR_BYTES) vector /= 2;
  return vector;
}

bool vector_fits(const generation *g, const emit_space *space, int64_t vector) {
  const int32_t inner = space->rank - 1;
  if (space->size[inner] % vector != 0) return false;
  for (uint32_t i = 0; i < space->walk_count; i++) {
    const emit_walk *walk = &space->walk[i];
    if (vector_dtype(g, walk->name) == COMPUTE_DTYPE_NONE || inner_stride(space, walk) == 0)
      continue;
    for (int32_t d = 0; d < inner; d++)
      if (walk->stride[d] % vector != 0) return false;
  }
  return true;
}

static void add_aligned(const generation *g, text_buffer *text, const emit_space *space,
                        const char *walk, uint32_t vector) {
  const emit_walk *found = space_walk(space, walk);
  if (found && inner_stride(space, found) != 0)
    text_add(text, " && ALIGNED(%s, %u)", walk,
             (unsigned)(vector * compute_dtype_size(vector_dtype(g, walk))));
}

void vector_aligned(const generation *g, text_buffer *text, const emit_space *space,
                    uint32_t inputs, bool outputs, uint32_t vector) {
  char name[16];
  for (uint32_t i = 0; i < inputs; i++) {
    snprintf(name, sizeof name, "in%u", (unsigned)i);
    add_aligned(g, text, space, name, vector);
  }
  for (uint32_t k = 0; outputs && k < g->descriptor->output_count; k++) {
    snprintf(name, sizeof name, "out%u", (unsigned)k);
    add_aligned(g, text, space, name, vector);
  }
}

/* ---- Text ---------------------------------------------------------------------------------- */

typedef struct lane_user {
  const generation *g;
  const emit_space *space;
  const char *index; /* index of the first neighbour */
} lane_user;

/* One element of a vector: contiguous operands come from arrays, constant ones from memory. */
static void lane_argument(void *user, text_buffer *text, const char *walk, bool is_input,
                          uint32_t input) {
  const lane_user *with = user;
  const bool same = inner_stride(with->space, space_walk(with->space, walk)) == 0;
  char stride[64];
  if (!is_input) {
    emit_pattern(text, with->index, walk);
    if (!same)
      text_add(text, " + each * %s",
               emit_stride(with->space, walk, with->space->rank - 1, stride, sizeof stride));
    return;
  }
  text_add(text, "LOAD_%s(%s%s, ", compute_dtype_name(with->g->descriptor->inputs[input].dtype),
           same ? "" : "lanes_", walk);
  if (same)
    emit_pattern(text, with->index, walk);
  else
    text_add(text, "each");
  text_add(text, ")");
}

static void vector_load(generation *g, text_buffer *text, const emit_space *space,
                        const emit_function *f, uint32_t vector, const char *index) {
  const uint32_t values = f->first_is_value ? 1 : 0;
  for (uint32_t i = values; i < f->input_count; i++) {
    char name[16];
    if (!f->used[i]) continue;
    snprintf(name, sizeof name, "in%u", (unsigned)(f->first_input + i - values));
    if (inner_stride(space, space_walk(space, name)) == 0) continue;
    const char *storage = emit_storage(vector_dtype(g, name));
    text_add(text, "%s lanes_%s[%u]; VLOAD(%u, %s, lanes_%s, %s + ", storage, name,
             (unsigned)vector, (unsigned)vector, storage, name, name);
    emit_pattern(text, index, name);
    text_add(text, "); ");
  }
}

static void vector_call(generation *g, text_buffer *text, const emit_space *space,
                        const emit_function *f, const char *value, const char *index) {
  lane_user user = {g, space, index};
  emit_call_with(text, f, value, lane_argument, &user);
}

void vector_define_finish(generation *g, text_buffer *text, const emit_space *space,
                          const emit_function *f, uint32_t vector, const char *index) {
  const compute_kernel_descriptor *d = g->descriptor;
  text_buffer finish = {0};
  char type[EMIT_NAME_BYTES + 16], name[24], value[24];
  text_add(&finish, "{ ");
  vector_load(g, &finish, space, f, vector, index);
  for (uint32_t k = 0; k < d->output_count; k++)
    text_add(&finish, "%s lanes_out%u[%u]; ", emit_storage(d->outputs[k].dtype), (unsigned)k,
             (unsigned)vector);
  text_add(&finish,
           "UNROLL for (int each = 0; each < %u; each++) { const %s stored = ", (unsigned)vector,
           emit_result_type(f, type, sizeof type));
  vector_call(g, &finish, space, f, "(from)[each]", index);
  text_add(&finish, "; ");
  for (uint32_t k = 0; k < d->output_count; k++) {
    snprintf(name, sizeof name, "lanes_out%u", (unsigned)k);
    snprintf(value, sizeof value, d->output_count > 1 ? "stored.v%u" : "stored", (unsigned)k);
    emit_store(&finish, d->outputs[k].dtype, f->output_type[k], name, "each", value);
  }
  text_add(&finish, "} if (inside) { ");
  for (uint32_t k = 0; k < d->output_count; k++) {
    snprintf(name, sizeof name, "out%u", (unsigned)k);
    text_add(&finish, "VSTORE(%u, %s, %s + ", (unsigned)vector, emit_storage(d->outputs[k].dtype),
             name);
    emit_pattern(&finish, index, name);
    text_add(&finish, ", lanes_%s); ", name);
  }
  text_add(&finish, "} }");
  emit_define_text(text, "VECTOR_FINISH(at_step, inside, from)", &finish);
}

void vector_define_elements(generation *g, text_buffer *text, const emit_space *space,
                            const emit_function *f, uint32_t vector, const char *index) {
  text_buffer elements = {0};
  text_add(&elements, "{ ");
  vector_load(g, &elements, space, f, vector, index);
  text_add(&elements,
           "UNROLL for (int each = 0; each < %u; each++) (to)[each] = ", (unsigned)vector);
  vector_call(g, &elements, space, f, NULL, index);
  text_add(&elements, "; }");
  emit_define_text(text, "VECTOR_ELEMENTS(at_step, to)", &elements);
}
