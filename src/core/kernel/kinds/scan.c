/* SPDX-License-Identifier: MIT */
/* SCAN: prefix reductions along the last dimension. */
#include "core/kernel/common/kind.h"
#include "core/type/dtype.h"

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  if (!descriptor_check_counts(d, 1, 1, why) || !descriptor_check_no_programs(d, why)) return false;
  if (d->rank < 1) return descriptor_refuse(why, "SCAN needs a dimension");
  if ((unsigned)compute_scan_of(d)->combine > COMPUTE_COMBINE_MIN)
    return descriptor_refuse(why, "SCAN has no such combination");
  const compute_dtype dtype = d->inputs[0].dtype;
  if (dtype == COMPUTE_BOOL || dtype_compute_type(dtype) != d->accumulate) {
    return descriptor_refuse(why, "cannot accumulate %s in %s", compute_dtype_name(dtype),
                             compute_dtype_name(d->accumulate));
  }
  if (dtype_is_float(d->outputs[0].dtype) != dtype_is_float(dtype) ||
      d->outputs[0].dtype == COMPUTE_BOOL) {
    return descriptor_refuse(why, "sums of %s cannot be stored as %s", compute_dtype_name(dtype),
                             compute_dtype_name(d->outputs[0].dtype));
  }
  return descriptor_check_outputs_distinct(d, d->rank, why);
}

static void normalize(const compute_kernel_descriptor *d, void *attributes) {
  const compute_scan_attributes *a = compute_scan_of(d);
  compute_scan_attributes *n = attributes;
  n->combine = a->combine;
  n->exclusive = a->exclusive;
  n->reverse = a->reverse;
}

static uint64_t flops(const compute_kernel_descriptor *d) {
  return (uint64_t)kernel_elements(d, 0, d->rank);
}

static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  (void)d;
  work->moved = WORK_ROW;
  work->simple += (double)cost->flops;
}

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  class_add_sum_types(t, d, 1);
  class_add(t, "%s/r%dn%d", class_fastest(d, &d->inputs[0]) == d->rank - 1 ? "along" : "across",
            class_bucket(kernel_elements(d, 0, d->rank - 1)), class_bucket(d->size[d->rank - 1]));
}

static const char *operation(const compute_kernel_descriptor *d) {
  static const char *const names[] = {"sum", "product", "maximum", "minimum"};
  return names[compute_scan_of(d)->combine];
}

const kernel_kind kernel_kind_scan = {
    .name = "scan",
    .title = "scan",
    .check = check,
    .flops = flops,
    .attribute_bytes = sizeof(compute_scan_attributes),
    .normalize = normalize,
    .has_accumulate = true,
    .work = work,
    .print_class = print_class,
    .operation = operation,
};
