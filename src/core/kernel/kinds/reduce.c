/* SPDX-License-Identifier: MIT */
/* REDUCE: reductions along dimensions. */
#include <inttypes.h>

#include "core/kernel/common/kind.h"

/* Epilogue inputs and outputs have only the kept dimensions. */
static bool check_reduced_strides(const compute_kernel_descriptor *d, const explanation *why) {
  for (int32_t i = compute_reduce_of(d)->kept_rank; i < d->rank; i++) {
    if (d->size[i] <= 1) continue;
    for (uint32_t k = d->prologue_inputs; k < d->input_count; k++) {
      if (d->inputs[k].stride[i] != 0) {
        return descriptor_refuse(why, "input %" PRIu32 " moves in the reduced dimension %d", k,
                                 (int)i);
      }
    }
    for (uint32_t k = 0; k < d->output_count; k++) {
      if (d->outputs[k].stride[i] != 0) {
        return descriptor_refuse(why, "output %" PRIu32 " moves in the reduced dimension %d", k,
                                 (int)i);
      }
    }
  }
  return true;
}

static bool is_position(const compute_kernel_descriptor *d) {
  const compute_combine combine = compute_reduce_of(d)->combine;
  return combine == COMPUTE_COMBINE_ARGMAX || combine == COMPUTE_COMBINE_ARGMIN;
}

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_reduce_attributes *a = compute_reduce_of(d);
  if (a->kept_rank < 0 || a->kept_rank > d->rank)
    return descriptor_refuse(why, "%d kept dimensions of %d", (int)a->kept_rank, (int)d->rank);
  if ((unsigned)a->combine > COMPUTE_COMBINE_ARGMIN)
    return descriptor_refuse(why, "unknown combination");
  const bool extremum = a->combine == COMPUTE_COMBINE_MAX || a->combine == COMPUTE_COMBINE_MIN;
  if (!descriptor_is_arithmetic(d->accumulate) && !(extremum && d->accumulate == COMPUTE_BOOL))
    return descriptor_refuse(why, "cannot accumulate in %s", compute_dtype_name(d->accumulate));
  return descriptor_check_prologue(d, why) &&
         descriptor_check_epilogue(d, is_position(d) ? COMPUTE_I64 : d->accumulate,
                                   d->prologue_inputs, a->kept_rank, why) &&
         check_reduced_strides(d, why) && descriptor_check_outputs_distinct(d, a->kept_rank, why);
}

static int32_t output_rank(const compute_kernel_descriptor *d) {
  return compute_reduce_of(d)->kept_rank;
}

static bool splits(const compute_kernel_descriptor *d) {
  return output_rank(d) > 0;
}

static uint32_t own(const compute_kernel_descriptor *d) {
  return d->prologue_inputs;
}

static uint64_t flops(const compute_kernel_descriptor *d) {
  return (uint64_t)kernel_elements(d, 0, d->rank) * (program_flops(&d->prologue) + 1) +
         (uint64_t)kernel_elements(d, 0, output_rank(d)) * program_flops(&d->epilogue);
}

static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  (void)cost;
  work->moved = WORK_REDUCE;
  work_add_program(&d->prologue, (double)kernel_elements(d, 0, d->rank), work);
  work_add_program(&d->epilogue, (double)kernel_elements(d, 0, output_rank(d)), work);
}

static const char *pattern(const compute_kernel_descriptor *d) {
  const int32_t kept = output_rank(d);
  if (kernel_elements(d, 0, kept) <= 1) return "full";
  const int32_t dimension = d->input_count > 0 ? class_fastest(d, &d->inputs[0]) : -1;
  return dimension < 0 || dimension >= kept ? "inner" : "outer";
}

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  const int32_t kept = output_rank(d);
  class_add_sum_types(t, d, d->prologue_inputs);
  class_add(t, "%s%s/k%dr%d", pattern(d), is_position(d) ? ".position" : "",
            class_bucket(kernel_elements(d, 0, kept)),
            class_bucket(kernel_elements(d, kept, d->rank)));
}

static const char *operation(const compute_kernel_descriptor *d) {
  static const char *const names[] = {"sum", "prod", "max", "min", "argmax", "argmin"};
  return names[compute_reduce_of(d)->combine];
}

const kernel_kind kernel_kind_reduce = {
    .name = "reduce",
    .title = "reduce",
    .check = check,
    .flops = flops,
    .attribute_bytes = sizeof(compute_reduce_attributes),
    .has_prologue = true,
    .has_accumulate = true,
    .own = own,
    .output_rank = output_rank,
    .in_place = true,
    .splits = splits,
    .work = work,
    .print_class = print_class,
    .operation = operation,
};
