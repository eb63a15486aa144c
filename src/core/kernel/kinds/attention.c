/* SPDX-License-Identifier: MIT */
/* ATTENTION: softmax(scale · Q Kᵀ + bias) · V. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/kernel/common/kind.h"
#include "core/type/dtype.h"

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_attention_attributes *a = compute_attention_of(d);
  if (d->rank < 2) return descriptor_refuse(why, "ATTENTION needs two dimensions");
  if (!descriptor_check_counts(d, a->biased ? 4 : 3, 1, why) ||
      !descriptor_check_no_programs(d, why))
    return false;
  int64_t scores;
  if (a->keys < 0 || a->width < 0 ||
      __builtin_mul_overflow(a->keys, d->size[d->rank - 2], &scores)) {
    return descriptor_refuse(why, "%" PRId64 " keys of width %" PRId64 " cannot be counted",
                             a->keys, a->width);
  }
  if (a->zero_weights && !a->formula)
    return descriptor_refuse(why, "weights of 0 are the formula's");
  if (!isfinite(a->scale)) return descriptor_refuse(why, "the scale is %g", a->scale);
  const compute_dtype dtype = d->inputs[0].dtype;
  if (!dtype_is_float(dtype) || dtype_compute_type(dtype) != d->accumulate) {
    return descriptor_refuse(why, "cannot accumulate %s in %s", compute_dtype_name(dtype),
                             compute_dtype_name(d->accumulate));
  }
  for (uint32_t i = 0; i <= d->input_count; i++) {
    const compute_operand *o = i < d->input_count ? &d->inputs[i] : &d->outputs[0];
    if (o->dtype == dtype) continue;
    return descriptor_refuse(why, "operands are %s and %s; they must have one dtype",
                             compute_dtype_name(dtype), compute_dtype_name(o->dtype));
  }
  return descriptor_check_outputs_distinct(d, d->rank, why);
}

static void normalize(const compute_kernel_descriptor *d, void *attributes) {
  const compute_attention_attributes *a = compute_attention_of(d);
  compute_attention_attributes *n = attributes;
  n->keys = a->keys;
  n->width = a->width;
  n->scale = a->scale;
  n->causal = a->causal;
  n->biased = a->biased;
  n->formula = a->formula;
  n->zero_weights = a->zero_weights;
}

static void sizes(const compute_kernel_descriptor *d, uint32_t input, int64_t *size) {
  const compute_attention_attributes *a = compute_attention_of(d);
  int64_t *own = &size[d->rank - 2];
  if (input == 1 || input == 2) own[0] = a->keys;
  if (input < 2) own[1] = a->width;
  if (input == 3) own[1] = a->keys;
}

/* Splits along batch dimensions. */
static bool splits(const compute_kernel_descriptor *d) {
  return d->rank > 2;
}

/* Two products, and an exponential for each score. */
static uint64_t flops(const compute_kernel_descriptor *d) {
  const compute_attention_attributes *a = compute_attention_of(d);
  const uint64_t scores = (uint64_t)kernel_elements(d, 0, d->rank - 1) * (uint64_t)a->keys;
  const uint64_t all = scores * (2 * (uint64_t)a->width + 2 * (uint64_t)d->size[d->rank - 1] + 12);
  return a->causal ? all / 2 : all;
}

/* Each score is a multiplication and an addition for each column of both products. */
static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  const compute_attention_attributes *a = compute_attention_of(d);
  work->product = work_product(d->inputs[0].dtype);
  work->flops = (double)cost->flops * work_narrowness(d->size[d->rank - 2], a->keys, a->width);
  work->functions += (double)kernel_elements(d, 0, d->rank - 1) * (double)a->keys;
}

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  const compute_attention_attributes *a = compute_attention_of(d);
  class_add_sum_types(t, d, 3);
  class_add(t, "%s%s/b%dm%dk%dw%de%d", a->causal ? "causal" : "full", a->biased ? ".biased" : "",
            class_bucket(kernel_elements(d, 0, d->rank - 2)), class_bucket(d->size[d->rank - 2]),
            class_bucket(a->keys), class_bucket(a->width), class_bucket(d->size[d->rank - 1]));
}

static const char *operation(const compute_kernel_descriptor *d) {
  return compute_attention_of(d)->causal ? "causal" : "attention";
}

static int print_size(const compute_kernel_descriptor *d, char *text, size_t bytes) {
  return snprintf(text, bytes, " keys %lld", (long long)compute_attention_of(d)->keys);
}

const kernel_kind kernel_kind_attention = {
    .name = "attention",
    .title = "attention",
    .check = check,
    .flops = flops,
    .attribute_bytes = sizeof(compute_attention_attributes),
    .normalize = normalize,
    .has_accumulate = true,
    .sizes = sizes,
    .splits = splits,
    .work = work,
    .print_class = print_class,
    .operation = operation,
    .print_size = print_size,
};
