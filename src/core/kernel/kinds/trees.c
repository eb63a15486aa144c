/* SPDX-License-Identifier: MIT */
/* TREES: ensembles of decision trees.
 *
 * Its class: trees "/" type "/" combination ["w"] "/r" bucket "f" bucket "t" bucket "n" bucket,
 * for rows, features, trees and nodes. */
#include <inttypes.h>
#include <stdio.h>

#include "core/kernel/common/kind.h"

enum { X, NODES, TREES, VALUES, INPUTS, NARROW_COLUMNS = 1 << 16 };

static bool is_table(uint32_t input) {
  return input != X;
}

static void sizes(const compute_kernel_descriptor *d, uint32_t input, int64_t *size) {
  const compute_trees_attributes *a = compute_trees_of(d);
  if (is_table(input)) size[0] = 1;
  size[1] = input == X       ? a->features
            : input == NODES ? a->nodes * (int64_t)a->words
            : input == TREES ? a->trees * COMPUTE_TREES_HEAD
                             : a->values;
}

/* A table with one element may have any stride. */
static bool check_tables(const compute_kernel_descriptor *d, const explanation *why) {
  for (uint32_t i = 0; i < INPUTS; i++) {
    const compute_dtype dtype = i == NODES || i == TREES ? COMPUTE_I64 : d->accumulate;
    if (d->inputs[i].dtype != dtype)
      return descriptor_refuse(why, "input %" PRIu32 " of TREES must be %s", i,
                               compute_dtype_name(dtype));
    int64_t size[COMPUTE_MAX_RANK] = {0};
    sizes(d, i, size);
    if (is_table(i) &&
        (d->inputs[i].stride[0] != 0 || (d->inputs[i].stride[1] != 1 && size[1] > 1)))
      return descriptor_refuse(why, "input %" PRIu32 " of TREES must be dense", i);
  }
  if (d->outputs[0].dtype != d->accumulate)
    return descriptor_refuse(why, "the output of TREES must be %s",
                             compute_dtype_name(d->accumulate));
  return true;
}

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_trees_attributes *a = compute_trees_of(d);
  if (!descriptor_check_counts(d, INPUTS, 1, why) || !descriptor_check_no_programs(d, why))
    return false;
  if (d->accumulate != COMPUTE_F32 && d->accumulate != COMPUTE_F64)
    return descriptor_refuse(why, "TREES computes in f32 or f64, not %s",
                             compute_dtype_name(d->accumulate));
  if (d->rank != 2) return descriptor_refuse(why, "TREES needs rows and targets");
  if (a->combine != COMPUTE_COMBINE_SUM && a->combine != COMPUTE_COMBINE_MIN &&
      a->combine != COMPUTE_COMBINE_MAX)
    return descriptor_refuse(why, "TREES has no combination %d", (int)a->combine);
  if (a->words != 2 && (a->words != 1 || d->accumulate != COMPUTE_F32))
    return descriptor_refuse(why, "nodes of %" PRIu32 " numbers", a->words);
  if (a->features < 1 || a->features > COMPUTE_TREES_MOST || d->size[1] > COMPUTE_TREES_MOST)
    return descriptor_refuse(why, "%" PRId64 " features and %" PRId64 " targets", a->features,
                             d->size[1]);
  if ((a->columns != a->features && a->columns != 2 * a->features) ||
      (a->words == 1 && a->columns > NARROW_COLUMNS))
    return descriptor_refuse(why, "%" PRId64 " columns", a->columns);
  /* Numbers of records take 32 bits. */
  if (a->nodes < 0 || a->trees < 0 || a->values < 0 || a->nodes > INT32_MAX ||
      a->trees > INT32_MAX || !descriptor_check_axis(a->values, why))
    return descriptor_refuse(why, "the tables of TREES have impossible sizes");
  return check_tables(d, why) && descriptor_check_outputs_distinct(d, 2, why);
}

static bool splits(const compute_kernel_descriptor *d) {
  (void)d;
  return true;
}

static uint32_t unsplit(const compute_kernel_descriptor *d) {
  (void)d;
  return 1u << NODES | 1u << TREES | 1u << VALUES;
}

/* The steps of a walk, if the trees are balanced. */
static double steps(const compute_trees_attributes *a) {
  double count = 1;
  for (int64_t nodes = a->trees ? a->nodes / a->trees : 0; nodes > 2; nodes /= 2) count++;
  return count * (double)a->trees;
}

static uint64_t flops(const compute_kernel_descriptor *d) {
  const double count = (double)d->size[0] * steps(compute_trees_of(d));
  return count < 0x1p63 ? (uint64_t)count : UINT64_C(1) << 63;
}

/* A step costs as much as a few operations of a program: its reads depend on one another. */
static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  (void)d;
  work->moved = WORK_ROW;
  work->simple += 16 * (double)cost->flops;
}

static const char *operation(const compute_kernel_descriptor *d) {
  (void)d;
  return "tree ensemble";
}

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  const compute_trees_attributes *a = compute_trees_of(d);
  static const char *const names[] = {
      [COMPUTE_COMBINE_SUM] = "sum", [COMPUTE_COMBINE_MAX] = "max", [COMPUTE_COMBINE_MIN] = "min"};
  class_add_types(t, d, 1);
  class_add(t, "%s%s/r%df%dt%dn%d", names[a->combine], a->words == 2 ? "w" : "",
            class_bucket(d->size[0]), class_bucket(a->features), class_bucket(a->trees),
            class_bucket(a->nodes));
}

static int print_size(const compute_kernel_descriptor *d, char *text, size_t bytes) {
  const compute_trees_attributes *a = compute_trees_of(d);
  return snprintf(text, bytes, " of %" PRId64 " trees, %" PRId64 " nodes", a->trees, a->nodes);
}

const kernel_kind kernel_kind_trees = {
    .name = "trees",
    .title = "tree ensemble",
    .check = check,
    .flops = flops,
    .attribute_bytes = sizeof(compute_trees_attributes),
    .sizes = sizes,
    .splits = splits,
    .unsplit = unsplit,
    .has_accumulate = true,
    .work = work,
    .print_class = print_class,
    .operation = operation,
    .print_size = print_size,
};
