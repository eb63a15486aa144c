/* SPDX-License-Identifier: MIT */
/* TOP_K: the largest or smallest elements of each row. */
#include <inttypes.h>
#include <stdio.h>

#include "core/kernel/common/kind.h"

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  if (!descriptor_check_counts(d, 1, 1, why) || !descriptor_check_no_programs(d, why)) return false;
  if (d->rank < 1) return descriptor_refuse(why, "TOP_K needs a dimension");
  if (!descriptor_check_axis(compute_top_k_of(d)->axis_size, why)) return false;
  if (compute_top_k_of(d)->axis_size < d->size[d->rank - 1]) {
    return descriptor_refuse(why, "%" PRId64 " results of a row of %" PRId64 " elements",
                             d->size[d->rank - 1], compute_top_k_of(d)->axis_size);
  }
  if (d->inputs[0].dtype == COMPUTE_BOOL) return descriptor_refuse(why, "cannot order bool");
  if (d->outputs[0].dtype != COMPUTE_I64) {
    return descriptor_refuse(why, "positions are %s; they must be i64",
                             compute_dtype_name(d->outputs[0].dtype));
  }
  return descriptor_check_outputs_distinct(d, d->rank, why);
}

static void normalize(const compute_kernel_descriptor *d, void *attributes) {
  compute_top_k_attributes *n = attributes;
  n->axis_size = compute_top_k_of(d)->axis_size;
  n->smallest = compute_top_k_of(d)->smallest;
}

static void sizes(const compute_kernel_descriptor *d, uint32_t input, int64_t *size) {
  (void)input;
  size[d->rank - 1] = compute_top_k_of(d)->axis_size;
}

/* A heap of k elements, which few elements enter. */
static uint64_t flops(const compute_kernel_descriptor *d) {
  return (uint64_t)kernel_elements(d, 0, d->rank - 1) *
         ((uint64_t)compute_top_k_of(d)->axis_size + 8 * (uint64_t)d->size[d->rank - 1]);
}

static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  (void)d;
  work->moved = WORK_ROW;
  work->simple += (double)cost->flops;
}

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  class_add_types(t, d, 1);
  class_add(t, "axis/r%dn%dk%d", class_bucket(kernel_elements(d, 0, d->rank - 1)),
            class_bucket(compute_top_k_of(d)->axis_size), class_bucket(d->size[d->rank - 1]));
}

static const char *operation(const compute_kernel_descriptor *d) {
  return compute_top_k_of(d)->smallest ? "smallest" : "largest";
}

static int print_size(const compute_kernel_descriptor *d, char *text, size_t bytes) {
  return snprintf(text, bytes, " of %lld", (long long)compute_top_k_of(d)->axis_size);
}

const kernel_kind kernel_kind_top_k = {
    .name = "top_k",
    .title = "top_k",
    .check = check,
    .flops = flops,
    .attribute_bytes = sizeof(compute_top_k_attributes),
    .normalize = normalize,
    .sizes = sizes,
    .work = work,
    .print_class = print_class,
    .operation = operation,
    .print_size = print_size,
};
