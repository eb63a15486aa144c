/* SPDX-License-Identifier: MIT */
/* BINCOUNT: counts of small integers in rows.
 *
 * Its class: bincount "/" types "/axis/r" bucket "n" bucket "k" bucket, for rows, their length and
 * bins. */
#include <stdio.h>

#include "core/kernel/common/kind.h"
#include "core/type/dtype.h"

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  const uint32_t inputs = d->input_count == 2 ? 2 : 1;
  if (!descriptor_check_counts(d, inputs, 1, why) || !descriptor_check_no_programs(d, why)) {
    return false;
  }
  if (d->rank < 1) return descriptor_refuse(why, "BINCOUNT needs a dimension");
  if (compute_bincount_of(d)->axis_size < 0)
    return descriptor_refuse(why, "the axis has a negative size");
  if (!descriptor_check_axis(compute_bincount_of(d)->axis_size, why)) return false;
  if (d->inputs[0].dtype != COMPUTE_I32 && d->inputs[0].dtype != COMPUTE_I64) {
    return descriptor_refuse(why, "bins are %s; they must be i32 or i64",
                             compute_dtype_name(d->inputs[0].dtype));
  }
  if (inputs == 2 && !dtype_is_float(d->inputs[1].dtype)) {
    return descriptor_refuse(why, "weights are %s; they must be floats",
                             compute_dtype_name(d->inputs[1].dtype));
  }
  const compute_dtype result = inputs == 2 ? d->inputs[1].dtype : COMPUTE_I64;
  if (d->outputs[0].dtype != result) {
    return descriptor_refuse(why, "results are %s; they must be %s",
                             compute_dtype_name(d->outputs[0].dtype), compute_dtype_name(result));
  }
  return descriptor_check_outputs_distinct(d, d->rank, why);
}

static void sizes(const compute_kernel_descriptor *d, uint32_t input, int64_t *size) {
  (void)input;
  size[d->rank - 1] = compute_bincount_of(d)->axis_size;
}

static uint64_t flops(const compute_kernel_descriptor *d) {
  return (uint64_t)kernel_elements(d, 0, d->rank - 1) * (uint64_t)compute_bincount_of(d)->axis_size;
}

static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  (void)d;
  work->moved = WORK_ROW;
  work->simple += (double)cost->flops;
}

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  class_add_types(t, d, d->input_count);
  class_add(t, "axis/r%dn%dk%d", class_bucket(kernel_elements(d, 0, d->rank - 1)),
            class_bucket(compute_bincount_of(d)->axis_size), class_bucket(d->size[d->rank - 1]));
}

static const char *operation(const compute_kernel_descriptor *d) {
  return d->input_count == 2 ? "weighted bincount" : "bincount";
}

static int print_size(const compute_kernel_descriptor *d, char *text, size_t bytes) {
  return snprintf(text, bytes, " of %lld", (long long)compute_bincount_of(d)->axis_size);
}

const kernel_kind kernel_kind_bincount = {
    .name = "bincount",
    .title = "bincount",
    .check = check,
    .flops = flops,
    .attribute_bytes = sizeof(compute_bincount_attributes),
    .sizes = sizes,
    .work = work,
    .print_class = print_class,
    .operation = operation,
    .print_size = print_size,
};
