/* SPDX-License-Identifier: MIT */
/* MAP: an elementwise program. */
#include "core/kernel/common/kind.h"

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  if (d->prologue.count > 0) return descriptor_refuse(why, "MAP has no prologue");
  if (d->epilogue.count == 0) return descriptor_refuse(why, "MAP needs a program");
  return descriptor_check_map_program(d, why) && descriptor_check_outputs_distinct(d, d->rank, why);
}

static uint32_t own(const compute_kernel_descriptor *d) {
  (void)d;
  return 0;
}

static bool splits(const compute_kernel_descriptor *d) {
  return d->rank > 0;
}

static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  (void)cost;
  if (!work_streams(d)) work->moved = WORK_COPY;
  const double all = (double)kernel_elements(d, 0, d->rank);
  const double run = (double)work_run(d);
  if (run < all) work->runs = all / run;
  work_add_program(&d->epilogue, all, work);
}

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  static const char *const count[] = {"0", "1", "2", "3"};
  class_add_types(t, d, d->input_count);
  class_add(t, "in%s.%s/n%d", d->input_count < 4 ? count[d->input_count] : "many", class_walk(d),
            class_bucket(kernel_elements(d, 0, d->rank)));
}

const kernel_kind kernel_kind_map = {
    .name = "map",
    .title = "map",
    .check = check,
    .flops = kernel_epilogue_flops,
    .own = own,
    .in_place = true,
    .splits = splits,
    .work = work,
    .print_class = print_class,
};
