/* SPDX-License-Identifier: MIT */
/* Samples of LINALG. */
#include "support/samples/sample_kernels.h"

typedef enum lie { DENSE, TURNED, SHARED } lie;

typedef struct linalg_sample {
  compute_linalg_function function;
  uint32_t flags;
  int64_t batch, rows, columns, right;
  compute_dtype dtype;
  lie how;
} linalg_sample;

/* Column-major with TURNED; with SHARED, one for the whole batch. */
static void lay_out(const linalg_sample *c, int64_t rows, int64_t columns,
                    compute_operand *operand) {
  operand->stride[0] = c->how == SHARED ? 0 : rows * columns + 3;
  operand->stride[1] = c->how == TURNED ? 1 : columns;
  operand->stride[2] = c->how == TURNED ? rows : 1;
}

static void sample_one(const linalg_sample *c, sample_visitor visit, void *user) {
  static const char *const names[] = {"cholesky", "triangular", "lu", "solve", "qr", "eigh", "svd"};
  static const char *const lies[] = {"dense", "turned", "shared"};
  sample_kernel s;
  const compute_linalg_attributes a = {.function = c->function,
                                       .flags = c->flags,
                                       .rows = c->rows,
                                       .columns = c->columns,
                                       .right = c->right};
  sample_begin(&s, COMPUTE_KERNEL_LINALG, COMPUTE_SHAPE(c->batch, 1, compute_linalg_results(&a)),
               "linalg/%s %lldx%lldx%lld, %lld, %s %s", names[c->function], (long long)c->batch,
               (long long)c->rows, (long long)c->columns, (long long)c->right,
               compute_dtype_name(c->dtype), lies[c->how]);
  s.attributes.linalg = a;
  s.descriptor.accumulate = c->dtype;
  /* Triangles with a unit diagonal and small elements, and pivots far from 0. */
  s.low = c->function == COMPUTE_LINALG_TRIANGULAR ? -0.2 : 0.5;
  s.high = c->function == COMPUTE_LINALG_TRIANGULAR ? 0.2 : 1;
  s.tolerance = (test_tolerance){0, c->dtype == COMPUTE_F64 ? 1e-9 : 1e-2, 0};
  lay_out(c, c->rows, c->columns, sample_input(&s, c->dtype, 7));
  if (compute_linalg_has_right(&a)) lay_out(c, c->rows, c->right, sample_input(&s, c->dtype, 7));
  sample_output(&s, c->dtype, 5)->stride[1] = 0;
  if (c->batch > 4) *sample_tuning(&s) = (compute_tuning){.group_x = 32, .group_y = 8};
  sample_end(&s, visit, user);
}

void sample_linalg_kernels(sample_visitor visit, void *user) {
  enum { UNIT = COMPUTE_LINALG_UNIT_DIAGONAL, UPPER = COMPUTE_LINALG_UPPER | UNIT };
  static const linalg_sample cases[] = {
      {COMPUTE_LINALG_CHOLESKY, 0, 5, 1, 1, 0, COMPUTE_F32, DENSE},
      {COMPUTE_LINALG_CHOLESKY, 0, 0, 3, 3, 0, COMPUTE_F32, DENSE},
      {COMPUTE_LINALG_CHOLESKY, 0, 3, 0, 0, 0, COMPUTE_F64, DENSE},
      {COMPUTE_LINALG_TRIANGULAR, UNIT, 19, 5, 5, 3, COMPUTE_F32, DENSE},
      {COMPUTE_LINALG_TRIANGULAR, UPPER, 3, 40, 40, 9, COMPUTE_F64, TURNED},
      {COMPUTE_LINALG_TRIANGULAR, UPPER, 3, 8, 8, 0, COMPUTE_F32, SHARED},
      {COMPUTE_LINALG_LU, 0, 21, 2, 3, 0, COMPUTE_F32, DENSE},
      {COMPUTE_LINALG_LU, 0, 2, 9, 1, 0, COMPUTE_F64, TURNED},
      {COMPUTE_LINALG_LU, 0, 3, 1, 40, 0, COMPUTE_F32, SHARED},
      {COMPUTE_LINALG_SOLVE, 0, 6, 1, 1, 4, COMPUTE_F32, DENSE},
      {COMPUTE_LINALG_SOLVE, 0, 6, 1, 1, 1, COMPUTE_F64, SHARED},
      {COMPUTE_LINALG_QR, 0, 7, 5, 3, 0, COMPUTE_F32, DENSE},
      {COMPUTE_LINALG_QR, 0, 2, 3, 7, 0, COMPUTE_F64, TURNED},
      {COMPUTE_LINALG_QR, 0, 3, 0, 2, 0, COMPUTE_F32, DENSE},
      {COMPUTE_LINALG_EIGH, 0, 9, 6, 6, 0, COMPUTE_F32, TURNED},
      {COMPUTE_LINALG_EIGH, 0, 3, 17, 17, 0, COMPUTE_F64, DENSE},
      {COMPUTE_LINALG_EIGH, 0, 2, 0, 0, 0, COMPUTE_F64, DENSE},
      {COMPUTE_LINALG_SVD, 0, 8, 5, 3, 0, COMPUTE_F32, DENSE},
      {COMPUTE_LINALG_SVD, 0, 3, 4, 19, 0, COMPUTE_F64, TURNED},
      {COMPUTE_LINALG_SVD, 0, 3, 2, 0, 0, COMPUTE_F32, SHARED},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) sample_one(&cases[i], visit, user);
}
