/* SPDX-License-Identifier: MIT */
/* GEMM: batched matrix products. */
#include <stdio.h>

#include "core/kernel/common/kind.h"

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_gemm_attributes *a = compute_gemm_of(d);
  if (d->rank < 2) return descriptor_refuse(why, "GEMM needs two dimensions");
  if (a->k < 0) return descriptor_refuse(why, "k is negative");
  return descriptor_check_axis(a->k, why) &&
         descriptor_check_product(d, "GEMM", a->precision,
                                  COMPUTE_PRECISION_TF32 | COMPUTE_PRECISION_REPRODUCIBLE |
                                      COMPUTE_PRECISION_SATURATE,
                                  why);
}

static void normalize(const compute_kernel_descriptor *d, void *attributes) {
  compute_gemm_attributes *n = attributes;
  n->k = compute_gemm_of(d)->k;
  n->precision = compute_gemm_of(d)->precision;
}

static uint32_t own(const compute_kernel_descriptor *d) {
  (void)d;
  return 2;
}

static void sizes(const compute_kernel_descriptor *d, uint32_t input, int64_t *size) {
  size[d->rank - (input == 0 ? 1 : 2)] = compute_gemm_of(d)->k;
}

static bool splits(const compute_kernel_descriptor *d) {
  (void)d;
  return true;
}

/* Without batch dimensions, the first dimension is the rows of A. */
static uint32_t unsplit(const compute_kernel_descriptor *d) {
  return d->rank == 2 ? 1 << 1 : 0;
}

static uint64_t flops(const compute_kernel_descriptor *d) {
  return (uint64_t)kernel_elements(d, 0, d->rank) * 2 * (uint64_t)compute_gemm_of(d)->k +
         kernel_epilogue_flops(d);
}

static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  const double all = (double)kernel_elements(d, 0, d->rank);
  const int64_t k = compute_gemm_of(d)->k;
  (void)cost;
  work->product = work_product(d->inputs[0].dtype);
  work->flops =
      2 * all * (double)k * work_narrowness(d->size[d->rank - 2], d->size[d->rank - 1], k);
  if (d->accumulate == COMPUTE_I64 || d->accumulate == COMPUTE_I32) work->flops *= 4;
  work_add_program(&d->epilogue, all, work);
}

/* The layout of a matrix with these row and column strides. */
static char letter(int64_t row_stride, int64_t rows, int64_t column_stride, int64_t columns) {
  if (columns <= 1 || column_stride == 1) return 'n';
  return rows <= 1 || row_stride == 1 ? 't' : 'x';
}

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  const compute_operand *a = &d->inputs[0], *b = &d->inputs[1];
  const int32_t i = d->rank - 2, j = d->rank - 1;
  const int64_t m = d->size[i], n = d->size[j], k = compute_gemm_of(d)->k;
  const int64_t batch = kernel_elements(d, 0, i);
  class_add_sum_types(t, d, 2);
  class_add(t, "%c%c.%s/b%dm%dn%dk%d", letter(a->stride[i], m, a->stride[j], k),
            letter(b->stride[i], k, b->stride[j], n), batch > 1 ? "batch" : "single",
            class_bucket(batch), class_bucket(m), class_bucket(n), class_bucket(k));
}

static const char *operation(const compute_kernel_descriptor *d) {
  (void)d;
  return "matmul";
}

static int print_size(const compute_kernel_descriptor *d, char *text, size_t bytes) {
  return snprintf(text, bytes, " k %lld", (long long)compute_gemm_of(d)->k);
}

const kernel_kind kernel_kind_gemm = {
    .name = "gemm",
    .title = "gemm",
    .check = check,
    .flops = flops,
    .attribute_bytes = sizeof(compute_gemm_attributes),
    .normalize = normalize,
    .has_accumulate = true,
    .own = own,
    .sizes = sizes,
    .in_place = true,
    .splits = splits,
    .unsplit = unsplit,
    .packable = 2,
    .work = work,
    .print_class = print_class,
    .operation = operation,
    .print_size = print_size,
};
