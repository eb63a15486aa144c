/* SPDX-License-Identifier: MIT */
/* GATHER and SCATTER: indexing along one axis by an index tensor. */
#include "core/kernel/common/kind.h"

static bool check_both(const compute_kernel_descriptor *d, const explanation *why) {
  if (!descriptor_check_counts(d, 2, 1, why) || !descriptor_check_no_programs(d, why)) return false;
  if (d->inputs[0].dtype != d->outputs[0].dtype)
    return descriptor_refuse(why, "source and result differ");
  if (d->inputs[1].dtype != COMPUTE_I32 && d->inputs[1].dtype != COMPUTE_I64) {
    return descriptor_refuse(why, "indices are %s; they must be i32 or i64",
                             compute_dtype_name(d->inputs[1].dtype));
  }
  if (compute_index_of(d)->axis_size < 0)
    return descriptor_refuse(why, "the axis has a negative size");
  return descriptor_check_axis(compute_index_of(d)->axis_size, why);
}

static bool check_gather(const compute_kernel_descriptor *d, const explanation *why) {
  return check_both(d, why) && descriptor_check_outputs_distinct(d, d->rank, why);
}

static bool check_scatter(const compute_kernel_descriptor *d, const explanation *why) {
  if (!check_both(d, why)) return false;
  const compute_dtype dtype = d->outputs[0].dtype;
  switch (compute_index_of(d)->mode) {
  case COMPUTE_SCATTER_SET: return true;
  case COMPUTE_SCATTER_ADD:
  case COMPUTE_SCATTER_MUL:
    return dtype != COMPUTE_BOOL || descriptor_refuse(why, "cannot add bool");
  case COMPUTE_SCATTER_MAX:
  case COMPUTE_SCATTER_MIN:
    return (dtype != COMPUTE_BOOL && dtype != COMPUTE_U64) ||
           descriptor_refuse(why, "cannot order %s", compute_dtype_name(dtype));
  }
  return descriptor_refuse(why, "invalid mode %d", (int)compute_index_of(d)->mode);
}

static void normalize(const compute_kernel_descriptor *d, void *attributes) {
  const compute_index_attributes *a = compute_index_of(d);
  compute_index_attributes *n = attributes;
  n->axis_size = a->axis_size;
  n->axis_stride = a->axis_stride;
  n->from_zero = a->from_zero;
  n->mode = a->mode;
}

static uint64_t gather_flops(const compute_kernel_descriptor *d) {
  (void)d;
  return 0;
}

static uint64_t scatter_flops(const compute_kernel_descriptor *d) {
  return (uint64_t)kernel_elements(d, 0, d->rank);
}

/* The elements of the last dimensions that share an index. */
static double elements_of_index(const compute_kernel_descriptor *d) {
  double elements = 1;
  for (int32_t i = d->rank - 1; i >= 0; i--) {
    if (d->size[i] > 1 && d->inputs[1].stride[i] != 0) break;
    elements *= (double)(d->size[i] > 0 ? d->size[i] : 1);
  }
  return elements;
}

/* Counts each access instead of the indexed axis: an index finds one place, from which all its
 * elements are read in sequence. */
static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  const double all = (double)kernel_elements(d, 0, d->rank);
  const double element = 2 * (double)compute_dtype_size(d->inputs[0].dtype);
  const double places = all / elements_of_index(d);
  (void)cost;
  work->reach = (double)compute_index_of(d)->axis_size * (double)compute_index_of(d)->axis_stride *
                element / 2;
  work->bytes = all * element;
  work->singles = places * (element + (double)compute_dtype_size(d->inputs[1].dtype));
}

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  class_add_types(t, d, d->input_count);
  class_add(t, "axis/n%d", class_bucket(kernel_elements(d, 0, d->rank)));
}

static const char *adding(const compute_kernel_descriptor *d) {
  return compute_index_of(d)->mode == COMPUTE_SCATTER_ADD ? "scatter_add" : "scatter";
}

const kernel_kind kernel_kind_gather = {
    .name = "gather",
    .title = "gather",
    .check = check_gather,
    .flops = gather_flops,
    .attribute_bytes = sizeof(compute_index_attributes),
    .normalize = normalize,
    .work = work,
    .print_class = print_class,
};

const kernel_kind kernel_kind_scatter = {
    .name = "scatter",
    .title = "scatter",
    .check = check_scatter,
    .flops = scatter_flops,
    .attribute_bytes = sizeof(compute_index_attributes),
    .normalize = normalize,
    .work = work,
    .print_class = print_class,
    .operation = adding,
};
