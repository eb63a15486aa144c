/* SPDX-License-Identifier: MIT */
/* WINDOW: pooling, and its gradients. */
#include <inttypes.h>

#include "core/kernel/common/kind.h"
#include "core/type/dtype.h"

static uint32_t own(const compute_kernel_descriptor *d) {
  const compute_window_attributes *w = compute_window_of(d);
  return w->by_data && w->operation == COMPUTE_WINDOW_MAX ? 2 : 1;
}

bool kernel_windows_fit(const compute_window_attributes *w) {
  int64_t elements;
  for (int i = 0; i < 2; i++) {
    int64_t steps, span, reach;
    if (__builtin_mul_overflow(w->result_size[i], w->stride[i], &steps) ||
        __builtin_mul_overflow(w->size[i], w->dilation[i], &span) ||
        __builtin_add_overflow(steps, span, &reach) ||
        __builtin_add_overflow(reach, w->padding[i], &reach) ||
        __builtin_add_overflow(w->data_size[i], w->padding[i], &reach) ||
        __builtin_add_overflow(reach, w->padding_more[i], &reach))
      return false;
  }
  return !__builtin_mul_overflow(w->size[0], w->size[1], &elements);
}

static bool check_window_sizes(const compute_window_attributes *w, const explanation *why) {
  for (int i = 0; i < 2; i++) {
    if (w->data_size[i] < 0 || w->result_size[i] < 0 || w->size[i] < 1 || w->stride[i] < 1 ||
        w->dilation[i] < 1 || w->padding[i] < 0 || w->padding_more[i] < -w->padding[i]) {
      return descriptor_refuse(why,
                               "a size, stride, dilation or padding of the windows is too small");
    }
  }
  return kernel_windows_fit(w) || descriptor_refuse(why, "the windows reach beyond 63 bits");
}

/* u64 would be reduced as i64. */
static bool has_order(compute_dtype dtype) {
  return dtype_is_integer(dtype) && dtype != COMPUTE_U64;
}

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_window_attributes *w = compute_window_of(d);
  if (d->rank != 4) return descriptor_refuse(why, "WINDOW needs four dimensions");
  if ((unsigned)w->operation > COMPUTE_WINDOW_ARGMAX)
    return descriptor_refuse(why, "unknown window operation");
  if (w->by_data && w->operation == COMPUTE_WINDOW_ARGMAX)
    return descriptor_refuse(why, "places have no gradient");
  if (!check_window_sizes(w, why)) return false;
  const int64_t *plane = w->by_data ? w->data_size : w->result_size;
  for (int i = 0; i < 2; i++) {
    if (d->size[2 + i] == plane[i]) continue;
    return descriptor_refuse(why, "dimension %d of the space is %" PRId64 " instead of %" PRId64,
                             2 + i, d->size[2 + i], plane[i]);
  }
  const uint32_t inputs = own(d);
  if (d->input_count < inputs)
    return descriptor_refuse(why, "WINDOW needs %" PRIu32 " inputs of its own", inputs);
  if (d->prologue.count > 0) return descriptor_refuse(why, "WINDOW has no prologue");
  const bool any = !w->by_data && w->operation != COMPUTE_WINDOW_AVERAGE;
  for (uint32_t i = 0; i < inputs; i++) {
    const compute_dtype dtype = d->inputs[i].dtype;
    const bool folds = dtype_is_float(dtype) || (any && has_order(dtype));
    if (folds && dtype_compute_type(dtype) == d->accumulate) continue;
    return descriptor_refuse(why, "cannot fold windows of %s in %s", compute_dtype_name(dtype),
                             compute_dtype_name(d->accumulate));
  }
  const compute_dtype folded = w->operation == COMPUTE_WINDOW_ARGMAX ? COMPUTE_I64 : d->accumulate;
  return descriptor_check_epilogue(d, folded, inputs, d->rank, why) &&
         descriptor_check_outputs_distinct(d, d->rank, why);
}

static void normalize(const compute_kernel_descriptor *d, void *attributes) {
  const compute_window_attributes *a = compute_window_of(d);
  compute_window_attributes *n = attributes;
  n->operation = a->operation;
  n->by_data = a->by_data;
  n->count_padding = a->operation == COMPUTE_WINDOW_AVERAGE && a->count_padding;
  for (int i = 0; i < 2; i++) {
    n->data_size[i] = a->data_size[i];
    n->result_size[i] = a->result_size[i];
    n->size[i] = a->size[i];
    n->stride[i] = a->stride[i];
    n->dilation[i] = a->dilation[i];
    n->padding[i] = a->padding[i];
    n->padding_more[i] = n->count_padding ? a->padding_more[i] : 0;
  }
}

/* ARGMAX positions count over the whole data. Gradients are not split. */
static bool splits(const compute_kernel_descriptor *d) {
  const compute_window_attributes *w = compute_window_of(d);
  return !w->by_data && w->operation != COMPUTE_WINDOW_ARGMAX;
}

static void sizes(const compute_kernel_descriptor *d, uint32_t input, int64_t *size) {
  const compute_window_attributes *w = compute_window_of(d);
  const bool data = input == 0 && !(w->by_data && w->operation == COMPUTE_WINDOW_AVERAGE);
  memcpy(&size[2], data ? w->data_size : w->result_size, 2 * sizeof *size);
}

static uint64_t flops(const compute_kernel_descriptor *d) {
  const compute_window_attributes *w = compute_window_of(d);
  return (uint64_t)kernel_elements(d, 0, 2) * (uint64_t)(w->result_size[0] * w->result_size[1]) *
             (uint64_t)(w->size[0] * w->size[1]) +
         kernel_epilogue_flops(d);
}

static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  work->moved = WORK_REDUCE;
  work->rows = (double)kernel_elements(d, 0, 2) * (double)compute_window_of(d)->result_size[0];
  work->simple += (double)cost->flops;
  work_add_program(&d->epilogue, (double)kernel_elements(d, 0, d->rank), work);
}

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  static const char *const names[] = {"max", "average", "argmax"};
  const compute_window_attributes *w = compute_window_of(d);
  class_add_sum_types(t, d, own(d));
  class_add(t, "%s%s/b%dp%dw%d", names[w->operation], w->by_data ? ".data" : "",
            class_bucket(kernel_elements(d, 0, 2)), class_bucket(kernel_elements(d, 2, 4)),
            class_bucket(w->size[0] * w->size[1]));
}

static const char *operation(const compute_kernel_descriptor *d) {
  const compute_window_attributes *w = compute_window_of(d);
  if (w->operation == COMPUTE_WINDOW_ARGMAX) return "place of the maximum";
  if (w->operation == COMPUTE_WINDOW_MAX) return w->by_data ? "maximum by data" : "maximum";
  return w->by_data ? "average by data" : "average";
}

static void print_details(const compute_kernel_descriptor *d, text_buffer *text) {
  const compute_window_attributes *w = compute_window_of(d);
  text_add(text, " %lldx%lld", (long long)w->size[0], (long long)w->size[1]);
  text_add_pair(text, "stride", w->stride, 1);
  text_add_pair(text, "dilation", w->dilation, 1);
  text_add_pair(text, "padding", w->padding, 0);
}

const kernel_kind kernel_kind_window = {
    .name = "window",
    .title = "pooling",
    .check = check,
    .flops = flops,
    .attribute_bytes = sizeof(compute_window_attributes),
    .normalize = normalize,
    .has_accumulate = true,
    .own = own,
    .sizes = sizes,
    .splits = splits,
    .work = work,
    .print_class = print_class,
    .operation = operation,
    .print_details = print_details,
};
