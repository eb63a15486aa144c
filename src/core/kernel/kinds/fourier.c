/* SPDX-License-Identifier: MIT */
/* FOURIER: discrete Fourier transforms.
 *
 * Its class: fourier "/" type "/" form "/r" bucket "n" bucket "p" largest prime bucket, for lines,
 * their length and its largest prime factor. */
#include <stdio.h>

#include "core/kernel/common/kind.h"

/* A kernel keeps tables in proportion to the length, for a convolution several of them. */
static const int64_t most_points = INT64_C(1) << 27, most_convolved = INT64_C(1) << 22;
enum { MOST_RADIX = 31 };

static int64_t largest_prime(int64_t n) {
  int64_t largest = 1;
  for (int64_t p = 2; p <= n / p; p++)
    for (; n % p == 0; n /= p) largest = p;
  return n > largest ? n : largest;
}

bool kernel_fourier_takes(int64_t length) {
  return length >= 1 && length <= most_points &&
         (length <= most_convolved || largest_prime(length) <= MOST_RADIX);
}

static bool check_types(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_dtype type = d->accumulate;
  if (type != COMPUTE_F32 && type != COMPUTE_F64)
    return descriptor_refuse(why, "FOURIER computes in f32 or f64, not %s",
                             compute_dtype_name(type));
  if (d->inputs[0].dtype != type || d->outputs[0].dtype != type)
    return descriptor_refuse(why, "operands of FOURIER must be %s", compute_dtype_name(type));
  return true;
}

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_fourier_attributes *a = compute_fourier_of(d);
  if (!descriptor_check_counts(d, 1, 1, why) || !descriptor_check_no_programs(d, why)) return false;
  if (d->rank < 2) return descriptor_refuse(why, "FOURIER needs points and parts");
  if (!kernel_fourier_takes(a->length))
    return descriptor_refuse(why, "a transform of %lld points", (long long)a->length);
  const int64_t most = a->halved ? a->length / 2 + 1 : a->length;
  if (a->points < 0 || a->points > most)
    return descriptor_refuse(why, "%lld points of %lld", (long long)a->points, (long long)most);
  if ((a->real && a->inverse) || (a->halved && (!a->inverse || a->real)))
    return descriptor_refuse(why, "FOURIER takes real numbers forward and half spectra back");
  if (d->size[d->rank - 2] > a->length)
    return descriptor_refuse(why, "%lld results of %lld", (long long)d->size[d->rank - 2],
                             (long long)a->length);
  if (d->size[d->rank - 1] != (a->halved ? 1 : 2) ||
      (a->real && d->size[d->rank - 2] > a->length / 2 + 1))
    return descriptor_refuse(why, "the space of FOURIER does not have its parts");
  return check_types(d, why) && descriptor_check_outputs_distinct(d, d->rank, why);
}

static void sizes(const compute_kernel_descriptor *d, uint32_t input, int64_t *size) {
  const compute_fourier_attributes *a = compute_fourier_of(d);
  (void)input;
  size[d->rank - 2] = a->points;
  size[d->rank - 1] = a->real ? 1 : 2;
}

static void normalize(const compute_kernel_descriptor *d, void *attributes) {
  const compute_fourier_attributes *a = compute_fourier_of(d);
  compute_fourier_attributes *n = attributes;
  n->length = a->length;
  n->points = a->points;
  n->scale = a->scale;
  n->inverse = a->inverse;
  n->real = a->real;
  n->halved = a->halved;
}

/* 5 n log₂ n, half of it for real numbers; four times as much for a convolution. */
static uint64_t flops(const compute_kernel_descriptor *d) {
  const compute_fourier_attributes *a = compute_fourier_of(d);
  uint64_t rounds = 1;
  for (int64_t length = a->length; length > 2; length -= length / 2) rounds++;
  uint64_t per_line = 5 * rounds * (uint64_t)a->length;
  if (a->real || a->halved) per_line = per_line / 2 + 1;
  if (largest_prime(a->length) > MOST_RADIX) per_line *= 4;
  return per_line * (uint64_t)kernel_elements(d, 0, d->rank - 2);
}

static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  (void)d;
  work->moved = WORK_ROW;
  work->simple += (double)cost->flops / 2;
}

static const char *operation(const compute_kernel_descriptor *d) {
  const compute_fourier_attributes *a = compute_fourier_of(d);
  return a->real ? "rfft" : a->halved ? "irfft" : a->inverse ? "ifft" : "fft";
}

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  const int64_t length = compute_fourier_of(d)->length;
  class_add_types(t, d, 1);
  class_add(t, "%s/r%dn%dp%d", operation(d), class_bucket(kernel_elements(d, 0, d->rank - 2)),
            class_bucket(length), class_bucket(largest_prime(length)));
}

static int print_size(const compute_kernel_descriptor *d, char *text, size_t bytes) {
  return snprintf(text, bytes, " of %lld", (long long)compute_fourier_of(d)->length);
}

const kernel_kind kernel_kind_fourier = {
    .name = "fourier",
    .title = "Fourier transform",
    .check = check,
    .flops = flops,
    .attribute_bytes = sizeof(compute_fourier_attributes),
    .normalize = normalize,
    .sizes = sizes,
    .has_accumulate = true,
    .work = work,
    .print_class = print_class,
    .operation = operation,
    .print_size = print_size,
};
