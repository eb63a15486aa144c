/* SPDX-License-Identifier: MIT */
/* LINALG: dense linear algebra on matrices.
 *
 * Its class: linalg "/" type "/" function "/r" bucket "m" bucket "n" bucket "k" bucket, for
 * matrices, their rows and columns, and the columns of B. */
#include <stdio.h>

#include "core/kernel/common/kind.h"

static const int64_t most_size = INT64_C(1) << 24, most_right = INT64_C(1) << 31;

static const char *const names[] = {
    [COMPUTE_LINALG_CHOLESKY] = "cholesky",
    [COMPUTE_LINALG_TRIANGULAR] = "solve_triangular",
    [COMPUTE_LINALG_LU] = "lu",
    [COMPUTE_LINALG_SOLVE] = "solve",
    [COMPUTE_LINALG_QR] = "qr",
    [COMPUTE_LINALG_EIGH] = "eigh",
    [COMPUTE_LINALG_SVD] = "svd",
    [COMPUTE_LINALG_EIG] = "eig",
    [COMPUTE_LINALG_EXPM] = "matrix_exp",
};

bool kernel_linalg_takes(int64_t rows, int64_t columns, int64_t right) {
  return rows >= 0 && columns >= 0 && right >= 0 && rows <= most_size && columns <= most_size &&
         right <= most_right;
}

const char *kernel_linalg_name(compute_linalg_function function) {
  return (size_t)function < sizeof names / sizeof *names ? names[function] : NULL;
}

static bool is_square(compute_linalg_function function) {
  return function != COMPUTE_LINALG_LU && function != COMPUTE_LINALG_QR &&
         function != COMPUTE_LINALG_SVD;
}

static uint32_t known_flags(compute_linalg_function function) {
  switch (function) {
  case COMPUTE_LINALG_TRIANGULAR: return COMPUTE_LINALG_UPPER | COMPUTE_LINALG_UNIT_DIAGONAL;
  case COMPUTE_LINALG_QR: return COMPUTE_LINALG_FULL;
  case COMPUTE_LINALG_SVD: return COMPUTE_LINALG_VECTORS | COMPUTE_LINALG_FULL;
  case COMPUTE_LINALG_EIGH:
  case COMPUTE_LINALG_EIG: return COMPUTE_LINALG_VECTORS;
  default: return 0;
  }
}

static bool check_types(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_dtype type = d->accumulate;
  if (type != COMPUTE_F32 && type != COMPUTE_F64)
    return descriptor_refuse(why, "LINALG computes in f32 or f64, not %s",
                             compute_dtype_name(type));
  for (uint32_t i = 0; i < d->input_count; i++)
    if (d->inputs[i].dtype != type)
      return descriptor_refuse(why, "operands of LINALG must be %s", compute_dtype_name(type));
  if (d->outputs[0].dtype != type)
    return descriptor_refuse(why, "operands of LINALG must be %s", compute_dtype_name(type));
  return true;
}

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_linalg_attributes *a = compute_linalg_of(d);
  if (!kernel_linalg_name(a->function))
    return descriptor_refuse(why, "LINALG has no function %d", (int)a->function);
  const bool has_right = compute_linalg_has_right(a);
  if (!descriptor_check_counts(d, has_right ? 2 : 1, 1, why) ||
      !descriptor_check_no_programs(d, why))
    return false;
  if (d->rank < 2) return descriptor_refuse(why, "LINALG needs rows and columns");
  if (!kernel_linalg_takes(a->rows, a->columns, a->right) || (!has_right && a->right != 0))
    return descriptor_refuse(why, "matrices of %lld x %lld and %lld columns", (long long)a->rows,
                             (long long)a->columns, (long long)a->right);
  if (is_square(a->function) && a->rows != a->columns)
    return descriptor_refuse(why, "%s takes square matrices", kernel_linalg_name(a->function));
  if (a->flags & ~known_flags(a->function))
    return descriptor_refuse(why, "unknown flags 0x%x", (unsigned)a->flags);
  if (d->size[d->rank - 2] != 1 || d->size[d->rank - 1] != compute_linalg_results(a))
    return descriptor_refuse(why, "the space of LINALG does not have its results");
  return check_types(d, why) && descriptor_check_outputs_distinct(d, d->rank, why);
}

static void sizes(const compute_kernel_descriptor *d, uint32_t input, int64_t *size) {
  const compute_linalg_attributes *a = compute_linalg_of(d);
  size[d->rank - 2] = a->rows;
  size[d->rank - 1] = input == 0 ? a->columns : a->right;
}

static bool splits(const compute_kernel_descriptor *d) {
  return d->rank > 2;
}

/* Multiplications and additions of a matrix, to the leading order. */
static uint64_t flops(const compute_kernel_descriptor *d) {
  const compute_linalg_attributes *a = compute_linalg_of(d);
  const double m = (double)a->rows, n = (double)a->columns, k = (double)a->right;
  const double least = m < n ? m : n;
  double count = 0;
  switch (a->function) {
  case COMPUTE_LINALG_CHOLESKY: count = n * n * n / 3; break;
  case COMPUTE_LINALG_TRIANGULAR: count = n * n * k; break;
  case COMPUTE_LINALG_LU: count = least * least * (m + n - 4.0 / 3 * least); break;
  case COMPUTE_LINALG_SOLVE: count = n * n * (2.0 / 3 * n + 2 * k); break;
  case COMPUTE_LINALG_QR: count = 4 * least * least * (m + n - least); break;
  case COMPUTE_LINALG_EIGH: count = (a->flags ? 12 : 3) * n * n * n; break;
  case COMPUTE_LINALG_SVD: count = least * least * (4 * (m + n) + 40 * least); break;
  case COMPUTE_LINALG_EIG: count = 60 * n * n * n; break;
  case COMPUTE_LINALG_EXPM: count = 24 * n * n * n; break;
  }
  if (d->rank > 2) count *= (double)kernel_elements(d, 0, d->rank - 2);
  return count < 0x1p63 ? (uint64_t)count : UINT64_C(1) << 63;
}

static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  (void)d;
  work->moved = WORK_ROW;
  work->simple += (double)cost->flops / 2;
}

static const char *operation(const compute_kernel_descriptor *d) {
  return kernel_linalg_name(compute_linalg_of(d)->function);
}

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  const compute_linalg_attributes *a = compute_linalg_of(d);
  class_add_types(t, d, 1);
  class_add(t, "%s/r%dm%dn%dk%d", operation(d), class_bucket(kernel_elements(d, 0, d->rank - 2)),
            class_bucket(a->rows), class_bucket(a->columns), class_bucket(a->right));
}

static int print_size(const compute_kernel_descriptor *d, char *text, size_t bytes) {
  const compute_linalg_attributes *a = compute_linalg_of(d);
  return snprintf(text, bytes, " of %lldx%lld", (long long)a->rows, (long long)a->columns);
}

const kernel_kind kernel_kind_linalg = {
    .name = "linalg",
    .title = "linear algebra",
    .check = check,
    .flops = flops,
    .attribute_bytes = sizeof(compute_linalg_attributes),
    .sizes = sizes,
    .splits = splits,
    .has_accumulate = true,
    .work = work,
    .print_class = print_class,
    .operation = operation,
    .print_size = print_size,
};
