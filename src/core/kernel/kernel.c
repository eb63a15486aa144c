/* SPDX-License-Identifier: MIT */
/* The table of kernel kinds, and the functions common to all kinds. */
#include "core/kernel/common/kind.h"

#include <stdio.h>

#define KIND(code, number, name) extern const kernel_kind kernel_kind_##name;
COMPUTE_KERNEL_KINDS(KIND)
#undef KIND

static const kernel_kind *const kinds[COMPUTE_KERNEL_KIND_COUNT] = {
#define KIND(code, number, name) [number] = &kernel_kind_##name,
    COMPUTE_KERNEL_KINDS(KIND)
#undef KIND
};

const kernel_kind *kernel_kind_of(compute_kernel_kind kind) {
  return (unsigned)kind < COMPUTE_KERNEL_KIND_COUNT ? kinds[kind] : NULL;
}

const char *kernel_kind_name(compute_kernel_kind kind) {
  const kernel_kind *k = kernel_kind_of(kind);
  return k ? k->name : "unknown";
}

bool kernel_kind_exists(const char *name, size_t length) {
  for (int i = 0; i < COMPUTE_KERNEL_KIND_COUNT; i++)
    if (strlen(kinds[i]->name) == length && memcmp(kinds[i]->name, name, length) == 0) return true;
  return false;
}

bool kernel_attributes_fit(const compute_kernel_descriptor *d) {
  const kernel_kind *kind = kernel_kind_of(d->kind);
  return kind && (kind->attribute_bytes == 0 ||
                  (d->attributes && d->attribute_bytes >= kind->attribute_bytes));
}

/* ---- Check --------------------------------------------------------------------------------- */

bool descriptor_check(const compute_kernel_descriptor *d, char *reason, size_t reason_bytes) {
  const explanation why = {reason, reason_bytes};
  if (!d) return descriptor_refuse(&why, "descriptor is NULL");
  if (d->struct_size < sizeof *d)
    return descriptor_refuse(&why, "struct_size is %zu", d->struct_size);
  const kernel_kind *kind = kernel_kind_of(d->kind);
  if (!kind) return descriptor_refuse(&why, "unknown kind %d", (int)d->kind);
  if (!descriptor_check_operands(d, &why)) return false;
  if (!kernel_attributes_fit(d))
    return descriptor_refuse(&why, "attributes of %zu bytes instead of %zu",
                             d->attributes ? d->attribute_bytes : 0, kind->attribute_bytes);
  return kind->check(d, &why);
}

/* ---- Operands ------------------------------------------------------------------------------ */

uint32_t kernel_operands_own(const compute_kernel_descriptor *d) {
  const kernel_kind *kind = kinds[d->kind];
  return kind->own ? kind->own(d) : d->input_count;
}

void kernel_operand_sizes(const compute_kernel_descriptor *d, uint32_t index,
                          int64_t size[COMPUTE_MAX_RANK]) {
  const kernel_kind *kind = kinds[d->kind];
  memcpy(size, d->size, sizeof d->size);
  if (index < d->input_count && kind->sizes && index < kernel_operands_own(d))
    kind->sizes(d, index, size);
}

int32_t kernel_output_rank(const compute_kernel_descriptor *d) {
  const kernel_kind *kind = kinds[d->kind];
  return kind->output_rank ? kind->output_rank(d) : d->rank;
}

uint32_t kernel_packable_inputs(const compute_kernel_descriptor *d) {
  return kinds[d->kind]->packable;
}

uint32_t kernel_first_in_place(const compute_kernel_descriptor *d) {
  return kinds[d->kind]->in_place ? kernel_operands_own(d) : d->input_count;
}

/* ---- Slices -------------------------------------------------------------------------------- */

/* `true` if a program depends on its position in the space. */
static bool is_positional(const compute_program *program) {
  for (uint32_t i = 0; i < program->count; i++)
    if (program->instructions[i].code == COMPUTE_I_COORDINATE ||
        program->instructions[i].code == COMPUTE_I_POSITION)
      return true;
  return false;
}

bool kernel_splits(const compute_kernel_descriptor *d) {
  const kernel_kind *kind = kinds[d->kind];
  return kind->splits && kind->splits(d) && !is_positional(&d->prologue) &&
         !is_positional(&d->epilogue);
}

bool kernel_input_splits(const compute_kernel_descriptor *d, uint32_t input) {
  const kernel_kind *kind = kinds[d->kind];
  return !kind->unsplit || (kind->unsplit(d) >> input & 1) == 0;
}

void kernel_resize(compute_kernel_descriptor *d, int64_t count, kernel_attributes *attributes) {
  d->size[0] = count;
  if (kinds[d->kind]->resize) kinds[d->kind]->resize(d, attributes->bytes);
}

/* ---- Tiles of rows ------------------------------------------------------------------------- */

bool kernel_splits_rows(const compute_kernel_descriptor *d, kernel_window *reads) {
  const kernel_kind *kind = kinds[d->kind];
  return kind->splits_rows && !is_positional(&d->prologue) && !is_positional(&d->epilogue) &&
         kind->splits_rows(d, reads);
}

void kernel_crop(compute_kernel_descriptor *d, kernel_rows rows, kernel_attributes *attributes) {
  kinds[d->kind]->crop(d, rows, attributes->bytes);
}

/* ---- Prices -------------------------------------------------------------------------------- */

/* An operand costs its distinct elements: dimensions with stride 0 repeat elements and count
 * once. */
static uint64_t distinct_bytes(const compute_operand *o, const int64_t *size, int32_t rank) {
  uint64_t count = compute_dtype_size(o->dtype);
  for (int32_t i = 0; i < rank; i++)
    if (o->stride[i] != 0) count *= (uint64_t)size[i];
  return count;
}

static uint64_t input_bytes(const compute_kernel_descriptor *d, uint32_t input) {
  const kernel_kind *kind = kinds[d->kind];
  int64_t size[COMPUTE_MAX_RANK];
  if (kind->input_bytes) return kind->input_bytes(d, input);
  kernel_operand_sizes(d, input, size);
  return distinct_bytes(&d->inputs[input], size, d->rank);
}

kernel_cost kernel_cost_of(const compute_kernel_descriptor *d) {
  const kernel_kind *kind = kinds[d->kind];
  kernel_cost cost = {.flops = kind->flops(d)};
  for (uint32_t i = 0; i < d->input_count; i++) cost.bytes_read += input_bytes(d, i);
  for (uint32_t i = 0; i < d->output_count; i++)
    cost.bytes_written += kind->output_bytes ? kind->output_bytes(d, i)
                                             : distinct_bytes(&d->outputs[i], d->size, d->rank);
  return cost;
}

kernel_work kernel_work_of(const compute_kernel_descriptor *d) {
  const kernel_cost cost = kernel_cost_of(d);
  kernel_work work = {.moved = WORK_STREAM,
                      .product = WORK_CLASSES,
                      .bytes = (double)(cost.bytes_read + cost.bytes_written)};
  if (kinds[d->kind]->work) kinds[d->kind]->work(d, &cost, &work);
  return work;
}

/* ---- Text ---------------------------------------------------------------------------------- */

void kernel_describe(const compute_kernel_descriptor *d, text_buffer *text) {
  const kernel_kind *kind = kinds[d->kind];
  const char *operation = kind->operation ? kind->operation(d) : kind->title;
  text_add(text, "%s", kind->title);
  if (strcmp(kind->title, operation) != 0) text_add(text, " %s", operation);
  if (kind->print_details) kind->print_details(d, text);
  if (d->prologue.count > 0) {
    text_add(text, " of ");
    program_print(&d->prologue, text);
  }
  if (d->epilogue.count > 0) {
    text_add(text, d->kind == COMPUTE_KERNEL_MAP ? " " : ", then ");
    program_print(&d->epilogue, text);
  }
  if (kind->print_more) kind->print_more(d, text);
}

void kernel_describe_size(const compute_kernel_descriptor *d, char *text, size_t bytes) {
  const kernel_kind *kind = kinds[d->kind];
  const int32_t kept = kernel_output_rank(d);
  size_t used = 0;
  text[0] = 0;
  for (int32_t i = 0; i < d->rank && used < bytes; i++)
    used += (size_t)snprintf(text + used, bytes - used, "%s%lld",
                             i == 0      ? ""
                             : i == kept ? " | "
                                         : "x",
                             (long long)d->size[i]);
  if (kind->print_size && used < bytes) kind->print_size(d, text + used, bytes - used);
  if (d->rank == 0) snprintf(text, bytes, "scalar");
}

/* ---- Classes ------------------------------------------------------------------------------- */

char *kernel_class_print(const compute_kernel_descriptor *d, char *text) {
  class_text t = {text, 0};
  text[0] = '\0';
  const kernel_kind *kind = kernel_kind_of(d->kind);
  class_add(&t, "%s/", kernel_kind_name(d->kind));
  if (kind) kind->print_class(d, &t);
  return text;
}
