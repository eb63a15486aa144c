/* SPDX-License-Identifier: MIT */
/* SORT: sorts rows.
 *
 * Its class: sort "/" types "/axis/r" bucket "n" bucket, for rows and their length. */
#include <inttypes.h>
#include <stdio.h>

#include "core/kernel/common/kind.h"

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_sort_attributes *a = compute_sort_of(d);
  const uint32_t outputs = (uint32_t)a->values + (uint32_t)a->positions;
  if (outputs == 0) return descriptor_refuse(why, "SORT has neither values nor positions");
  if (!descriptor_check_counts(d, 1, outputs, why) || !descriptor_check_no_programs(d, why)) {
    return false;
  }
  if (d->rank < 1) return descriptor_refuse(why, "SORT needs a dimension");
  if (d->inputs[0].dtype == COMPUTE_BOOL) return descriptor_refuse(why, "cannot order bool");
  if (a->values && d->outputs[0].dtype != d->inputs[0].dtype) {
    return descriptor_refuse(why, "values are %s; they must be %s like the input",
                             compute_dtype_name(d->outputs[0].dtype),
                             compute_dtype_name(d->inputs[0].dtype));
  }
  if (a->positions && d->outputs[outputs - 1].dtype != COMPUTE_I64) {
    return descriptor_refuse(why, "positions are %s; they must be i64",
                             compute_dtype_name(d->outputs[outputs - 1].dtype));
  }
  return descriptor_check_outputs_distinct(d, d->rank, why);
}

/* A comparison and a move for each doubling of the sorted runs. */
static uint64_t flops(const compute_kernel_descriptor *d) {
  uint64_t rounds = 1;
  for (int64_t length = d->size[d->rank - 1]; length > 2; length -= length / 2) rounds++;
  return 2 * rounds * (uint64_t)kernel_elements(d, 0, d->rank);
}

static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  (void)d;
  work->moved = WORK_ROW;
  work->simple += (double)cost->flops;
}

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  class_add_types(t, d, 1);
  class_add(t, "axis/r%dn%d", class_bucket(kernel_elements(d, 0, d->rank - 1)),
            class_bucket(d->size[d->rank - 1]));
}

static const char *operation(const compute_kernel_descriptor *d) {
  const compute_sort_attributes *a = compute_sort_of(d);
  if (!a->values) return a->descending ? "argsort descending" : "argsort";
  return a->descending ? "sort descending" : "sort";
}

const kernel_kind kernel_kind_sort = {
    .name = "sort",
    .title = "sort",
    .check = check,
    .flops = flops,
    .attribute_bytes = sizeof(compute_sort_attributes),
    .work = work,
    .print_class = print_class,
    .operation = operation,
};
