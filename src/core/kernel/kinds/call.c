/* SPDX-License-Identifier: MIT */
/* CALL: a function of the calling program. */
#include "core/kernel/common/kind.h"

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_call_attributes *a = compute_call_of(d);
  if (d->rank != 1) return descriptor_refuse(why, "CALL has one dimension");
  if (!descriptor_check_no_programs(d, why)) return false;
  if (!a->run || !a->name) return descriptor_refuse(why, "there is no function, or no name");
  for (uint32_t i = 0; i < d->input_count + d->output_count; i++) {
    if (a->count[i] < 0)
      return descriptor_refuse(why, "operand %u has %lld elements", (unsigned)i,
                               (long long)a->count[i]);
    if (!descriptor_check_axis(a->count[i], why)) return false;
    if (i >= d->input_count && a->count[i] > d->size[0])
      return descriptor_refuse(why, "an output is larger than the space");
  }
  return true;
}

/* The cost of a function is unknown. */
static uint64_t flops(const compute_kernel_descriptor *d) {
  (void)d;
  return 0;
}

static uint64_t bytes_of(const compute_call_attributes *a, uint32_t operand, compute_dtype dtype) {
  return (uint64_t)a->count[operand] * compute_dtype_size(dtype);
}

static uint64_t input_bytes(const compute_kernel_descriptor *d, uint32_t input) {
  return bytes_of(compute_call_of(d), input, d->inputs[input].dtype);
}

static uint64_t output_bytes(const compute_kernel_descriptor *d, uint32_t output) {
  return bytes_of(compute_call_of(d), d->input_count + output, d->outputs[output].dtype);
}

/* Counts beyond the operands are irrelevant. */
static void normalize(const compute_kernel_descriptor *d, void *attributes) {
  const compute_call_attributes *a = compute_call_of(d);
  compute_call_attributes *to = attributes;
  to->run = a->run;
  to->call = a->call;
  to->name = a->name;
  memcpy(to->count, a->count, (d->input_count + d->output_count) * sizeof *a->count);
}

static void sizes(const compute_kernel_descriptor *d, uint32_t input, int64_t *size) {
  size[0] = compute_call_of(d)->count[input];
}

/* Classes are written to files, so the class leaves out the function. */
static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  class_add_types(t, d, d->input_count);
  class_add(t, "n%d", class_bucket(d->size[0]));
}

static void print_details(const compute_kernel_descriptor *d, text_buffer *text) {
  const char *name = compute_call_of(d)->name;
  if (name[0]) text_add(text, " '%s'", name);
}

const kernel_kind kernel_kind_call = {
    .name = "call",
    .title = "call",
    .check = check,
    .flops = flops,
    .attribute_bytes = sizeof(compute_call_attributes),
    .normalize = normalize,
    .sizes = sizes,
    .input_bytes = input_bytes,
    .output_bytes = output_bytes,
    .print_class = print_class,
    .print_details = print_details,
};
