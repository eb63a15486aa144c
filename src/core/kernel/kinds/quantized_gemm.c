/* SPDX-License-Identifier: MIT */
/* QUANTIZED_GEMM: matrix products with weights of a few bits. */
#include <inttypes.h>
#include <stdio.h>

#include "core/base/arithmetic.h"
#include "core/kernel/common/kind.h"
#include "core/type/dtype.h"

enum { A, NUMBERS, SCALE, ZERO };

static uint32_t own(const compute_kernel_descriptor *d) {
  return compute_quantized_gemm_of(d)->zeros ? 4 : 3;
}

static bool check_attributes(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_quantized_gemm_attributes *a = compute_quantized_gemm_of(d);
  if (d->rank < 2) return descriptor_refuse(why, "QUANTIZED_GEMM needs two dimensions");
  if (a->k < 0) return descriptor_refuse(why, "k is negative");
  if (a->bits != 2 && a->bits != 4 && a->bits != 8)
    return descriptor_refuse(why, "numbers of %" PRId32 " bits", a->bits);
  if (a->block < 1 || a->block > INT64_MAX / 16 || a->block * a->bits % 8 != 0)
    return descriptor_refuse(why, "blocks of %" PRId64 " numbers", a->block);
  return descriptor_check_axis(a->k, why);
}

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  if (!check_attributes(d, why)) return false;
  const uint32_t inputs = own(d);
  if (d->input_count < inputs)
    return descriptor_refuse(why, "QUANTIZED_GEMM needs %" PRIu32 " inputs of its own", inputs);
  if (d->prologue.count > 0) return descriptor_refuse(why, "QUANTIZED_GEMM has no prologue");
  for (uint32_t i = 0; i < inputs; i++) {
    const compute_dtype dtype = d->inputs[i].dtype;
    const bool fits = i == NUMBERS ? dtype == COMPUTE_U8
                                   : dtype_is_float(dtype) || (i == ZERO && dtype == COMPUTE_U8);
    if (!fits)
      return descriptor_refuse(why, "input %" PRIu32 " is %s", i, compute_dtype_name(dtype));
    for (int32_t j = 0; i != A && j < d->rank - 2; j++)
      if (d->inputs[i].stride[j] != 0)
        return descriptor_refuse(why, "input %" PRIu32 " has batch dimensions", i);
  }
  if (dtype_compute_type(d->inputs[A].dtype) != d->accumulate)
    return descriptor_refuse(why, "cannot accumulate %s in %s",
                             compute_dtype_name(d->inputs[A].dtype),
                             compute_dtype_name(d->accumulate));
  return descriptor_check_epilogue(d, d->accumulate, inputs, d->rank, why) &&
         descriptor_check_outputs_distinct(d, d->rank, why);
}

static void normalize(const compute_kernel_descriptor *d, void *attributes) {
  const compute_quantized_gemm_attributes *a = compute_quantized_gemm_of(d);
  compute_quantized_gemm_attributes *n = attributes;
  n->k = a->k;
  n->block = a->block;
  n->bits = a->bits;
  n->zeros = a->zeros;
  n->reproducible = a->reproducible;
}

static void sizes(const compute_kernel_descriptor *d, uint32_t input, int64_t *size) {
  const compute_quantized_gemm_attributes *a = compute_quantized_gemm_of(d);
  const int32_t row = d->rank - 2, column = d->rank - 1;
  if (input == A) {
    size[column] = a->k;
    return;
  }
  for (int32_t i = 0; i < row; i++) size[i] = 1;
  size[row] = d->size[column];
  size[column] = input == NUMBERS ? divide_up(a->k, 8 / a->bits) : divide_up(a->k, a->block);
}

static uint64_t flops(const compute_kernel_descriptor *d) {
  return (uint64_t)kernel_elements(d, 0, d->rank) * 2 * (uint64_t)compute_quantized_gemm_of(d)->k +
         kernel_epilogue_flops(d);
}

static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  const double all = (double)kernel_elements(d, 0, d->rank);
  const int64_t k = compute_quantized_gemm_of(d)->k;
  (void)cost;
  work->product = work_product(d->inputs[A].dtype);
  work->flops =
      2 * all * (double)k * work_narrowness(d->size[d->rank - 2], d->size[d->rank - 1], k);
  work_add_program(&d->epilogue, all, work);
}

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  const compute_quantized_gemm_attributes *a = compute_quantized_gemm_of(d);
  class_add_sum_types(t, d, 1);
  class_add(t, "%" PRId32 "x%d%s/b%dm%dn%dk%d", a->bits, class_bucket(a->block),
            a->zeros ? ".zeros" : "", class_bucket(kernel_elements(d, 0, d->rank - 2)),
            class_bucket(d->size[d->rank - 2]), class_bucket(d->size[d->rank - 1]),
            class_bucket(a->k));
}

static const char *operation(const compute_kernel_descriptor *d) {
  (void)d;
  return "quantized matmul";
}

static int print_size(const compute_kernel_descriptor *d, char *text, size_t bytes) {
  const compute_quantized_gemm_attributes *a = compute_quantized_gemm_of(d);
  return snprintf(text, bytes, " k %" PRId64 ", %" PRId32 " bits in blocks of %" PRId64, a->k,
                  a->bits, a->block);
}

const kernel_kind kernel_kind_quantized_gemm = {
    .name = "quantized_gemm",
    .title = "quantized gemm",
    .check = check,
    .flops = flops,
    .attribute_bytes = sizeof(compute_quantized_gemm_attributes),
    .normalize = normalize,
    .has_accumulate = true,
    .own = own,
    .sizes = sizes,
    .work = work,
    .print_class = print_class,
    .operation = operation,
    .print_size = print_size,
};
