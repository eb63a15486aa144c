/* SPDX-License-Identifier: MIT */
/* ROW: softmax, log-softmax and normalisation along the last dimension. */
#include <math.h>

#include "core/kernel/common/kind.h"

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_row_attributes *a = compute_row_of(d);
  if (d->rank < 1) return descriptor_refuse(why, "ROW needs a dimension");
  if ((unsigned)a->operation > COMPUTE_ROW_NORMALIZE)
    return descriptor_refuse(why, "unknown row operation");
  if (d->accumulate != COMPUTE_F64 && d->accumulate != COMPUTE_F32)
    return descriptor_refuse(why, "cannot compute rows in %s", compute_dtype_name(d->accumulate));
  if (!isfinite(a->epsilon) || a->epsilon < 0)
    return descriptor_refuse(why, "epsilon is %g", a->epsilon);
  return descriptor_check_prologue(d, why) &&
         descriptor_check_epilogue(d, d->accumulate, d->prologue_inputs, d->rank, why) &&
         descriptor_check_outputs_distinct(d, d->rank, why);
}

static void normalize(const compute_kernel_descriptor *d, void *attributes) {
  const compute_row_attributes *a = compute_row_of(d);
  compute_row_attributes *n = attributes;
  n->operation = a->operation;
  if (a->operation == COMPUTE_ROW_NORMALIZE) n->epsilon = a->epsilon;
}

static uint32_t own(const compute_kernel_descriptor *d) {
  return d->prologue_inputs;
}

/* A backend may walk very short rows and divide very long ones depending on their number. */
static bool splits(const compute_kernel_descriptor *d) {
  enum { SHORT = 64, LONG = 8192 };
  return d->rank > 1 && d->size[d->rank - 1] >= SHORT && d->size[d->rank - 1] <= LONG;
}

static uint64_t flops(const compute_kernel_descriptor *d) {
  const uint64_t own = compute_row_of(d)->operation == COMPUTE_ROW_NORMALIZE ? 6 : 12;
  return (uint64_t)kernel_elements(d, 0, d->rank) *
         (program_flops(&d->prologue) + program_flops(&d->epilogue) + own);
}

static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  const double all = (double)kernel_elements(d, 0, d->rank);
  (void)cost;
  work->moved = WORK_ROW;
  work->rows = (double)kernel_elements(d, 0, d->rank - 1);
  work_add_program(&d->prologue, all, work);
  work_add_program(&d->epilogue, all, work);
}

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  class_add_sum_types(t, d, d->prologue_inputs);
  class_add(t, "%s/r%dn%d",
            compute_row_of(d)->operation == COMPUTE_ROW_NORMALIZE ? "normalize" : "softmax",
            class_bucket(kernel_elements(d, 0, d->rank - 1)), class_bucket(d->size[d->rank - 1]));
}

static const char *operation(const compute_kernel_descriptor *d) {
  static const char *const names[] = {"softmax", "log_softmax", "normalize"};
  return names[compute_row_of(d)->operation];
}

const kernel_kind kernel_kind_row = {
    .name = "row",
    .title = "row",
    .check = check,
    .flops = flops,
    .attribute_bytes = sizeof(compute_row_attributes),
    .normalize = normalize,
    .has_prologue = true,
    .has_accumulate = true,
    .own = own,
    .splits = splits,
    .work = work,
    .print_class = print_class,
    .operation = operation,
};
