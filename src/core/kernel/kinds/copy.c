/* SPDX-License-Identifier: MIT */
/* COPY: strided, converting. */
#include <string.h>

#include "core/kernel/common/kind.h"
#include "core/type/dtype.h"

/* As in programs, u64 would be loaded as i64: negative if the highest bit is set. */
static bool check_dtypes(const compute_kernel_descriptor *d, const explanation *why) {
  if (d->inputs[0].dtype != COMPUTE_U64 || !dtype_is_float(d->outputs[0].dtype)) return true;
  return descriptor_refuse(why, "cannot copy u64 to %s", compute_dtype_name(d->outputs[0].dtype));
}

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  return descriptor_check_counts(d, 1, 1, why) && check_dtypes(d, why) &&
         descriptor_check_no_programs(d, why) && descriptor_check_outputs_distinct(d, d->rank, why);
}

static bool splits(const compute_kernel_descriptor *d) {
  return d->rank > 0;
}

static uint64_t flops(const compute_kernel_descriptor *d) {
  (void)d;
  return 0;
}

static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  (void)cost;
  const double all = (double)kernel_elements(d, 0, d->rank), run = (double)work_run(d);
  if (!work_streams(d)) work->moved = WORK_COPY;
  if (run < all) work->runs = all / run;
}

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  const char *walk = class_walk(d);
  if (strcmp(walk, "strided") == 0 &&
      class_fastest(d, &d->inputs[0]) != class_fastest(d, &d->outputs[0]))
    walk = "transpose";
  class_add_types(t, d, 1);
  class_add(t, "%s/n%d", walk, class_bucket(kernel_elements(d, 0, d->rank)));
}

const kernel_kind kernel_kind_copy = {
    .name = "copy",
    .title = "copy",
    .check = check,
    .flops = flops,
    .splits = splits,
    .work = work,
    .print_class = print_class,
};
