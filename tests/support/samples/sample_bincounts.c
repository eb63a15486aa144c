/* SPDX-License-Identifier: MIT */
/* Samples of BINCOUNT. */
#include "support/samples/sample_kernels.h"

enum { ALL = 255 };

/* The layout of operands in memory. */
typedef enum lie { DENSE, TURNED, FLIPPED, GAPS } lie;

typedef struct bincount_sample {
  int64_t rows, length, bins;
  compute_dtype values, weights; /* NONE: counts */
  lie how;
} bincount_sample;

static void lay_out(const bincount_sample *c, int64_t length, compute_operand *operand) {
  operand->stride[0] = length;
  operand->stride[1] = 1;
  if (c->how == TURNED) {
    operand->stride[0] = 1;
    operand->stride[1] = c->rows;
  }
  if (c->how == FLIPPED) operand->stride[1] = -1;
  if (c->how == GAPS) {
    operand->stride[0] = 3 * length + 1;
    operand->stride[1] = 3;
  }
}

static void sample_bincount(const bincount_sample *c, sample_visitor visit, void *user) {
  static const char *const lies[] = {"dense", "turned", "flipped", "gaps"};
  static const compute_tuning cuts[] = {
      {.group_x = 1}, {.group_x = 16, .groups = 1}, {.group_x = 64, .groups = 32}};
  const bool weighted = c->weights != COMPUTE_DTYPE_NONE;
  sample_kernel s;
  sample_begin(&s, COMPUTE_KERNEL_BINCOUNT, COMPUTE_SHAPE(c->rows, c->bins),
               "bincount %lldx%lld to %lld %s %s %s", (long long)c->rows, (long long)c->length,
               (long long)c->bins, compute_dtype_name(c->values),
               weighted ? compute_dtype_name(c->weights) : "counts", lies[c->how]);
  s.attributes.bincount.axis_size = c->length;
  s.large = c->rows * c->length > 1000000;
  s.low = 0;
  s.high = (double)c->bins - 1;
  s.tolerance = (test_tolerance){2, 0, c->weights == COMPUTE_F64 ? 1e-13 : 0};
  lay_out(c, c->length, sample_input(&s, c->values, ALL));
  if (weighted) lay_out(c, c->length, sample_input(&s, c->weights, ALL));
  lay_out(c, c->bins, sample_output(&s, weighted ? c->weights : COMPUTE_I64, ALL));
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts && c->how == DENSE && !s.large; i++)
    *sample_tuning(&s) = cuts[i];
  sample_end(&s, visit, user);
}

void sample_bincount_kernels(sample_visitor visit, void *user) {
  static const bincount_sample cases[] = {
      {1, 1, 1, COMPUTE_I32, COMPUTE_DTYPE_NONE, DENSE},
      {3, 0, 5, COMPUTE_I64, COMPUTE_DTYPE_NONE, DENSE},
      {3, 0, 5, COMPUTE_I64, COMPUTE_F32, DENSE},
      {0, 3, 5, COMPUTE_I32, COMPUTE_DTYPE_NONE, DENSE},
      {7, 100, 9, COMPUTE_I32, COMPUTE_DTYPE_NONE, DENSE},
      {7, 100, 9, COMPUTE_I32, COMPUTE_F32, DENSE},
      {5, 333, 70, COMPUTE_I64, COMPUTE_DTYPE_NONE, TURNED},
      {5, 333, 70, COMPUTE_I64, COMPUTE_F16, TURNED},
      {2, 777, 5000, COMPUTE_I32, COMPUTE_DTYPE_NONE, FLIPPED},
      {2, 777, 5000, COMPUTE_I32, COMPUTE_F32, FLIPPED},
      {3, 257, 64, COMPUTE_I64, COMPUTE_DTYPE_NONE, GAPS},
      {3, 257, 64, COMPUTE_I64, COMPUTE_BF16, GAPS},
      {1, 50003, 100, COMPUTE_I32, COMPUTE_DTYPE_NONE, DENSE},
      {1, 50003, 100, COMPUTE_I32, COMPUTE_F32, DENSE},
      {2, 40000, 3, COMPUTE_I64, COMPUTE_F64, DENSE},
      {3, INT64_C(1) << 31, 256, COMPUTE_I32, COMPUTE_DTYPE_NONE, DENSE},
      {3, INT64_C(1) << 31, 256, COMPUTE_I32, COMPUTE_F32, DENSE},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) sample_bincount(&cases[i], visit, user);
}
