/* SPDX-License-Identifier: MIT */
/* Samples of SORT. */
#include "support/samples/sample_kernels.h"

enum { ALL = 255 };

/* The layout of operands in memory. */
typedef enum lie { DENSE, TURNED, FLIPPED, GAPS } lie;

typedef struct sort_sample {
  int64_t rows, length;
  compute_dtype dtype;
  bool descending, values, positions, whole;
  lie how;
} sort_sample;

static void lay_out(const sort_sample *c, compute_operand *operand) {
  if (c->how == TURNED) {
    operand->stride[0] = 1;
    operand->stride[1] = c->rows;
  }
  if (c->how == FLIPPED) operand->stride[1] = -1;
  if (c->how == GAPS) {
    operand->stride[0] = 3 * c->length + 1;
    operand->stride[1] = 3;
  }
}

static void sample_sort(const sort_sample *c, sample_visitor visit, void *user) {
  static const char *const lies[] = {"dense", "turned", "flipped", "gaps"};
  static const compute_tuning cuts[] = {{.variant = 1},
                                        {.variant = 2, .group_x = 16, .items = 2},
                                        {.variant = 2, .group_x = 4, .items = 1},
                                        {.variant = 2, .group_x = 64, .items = 8}};
  sample_kernel s;
  sample_begin(&s, COMPUTE_KERNEL_SORT, COMPUTE_SHAPE(c->rows, c->length),
               "sort %lldx%lld %s %s%s%s%s%s", (long long)c->rows, (long long)c->length,
               compute_dtype_name(c->dtype), lies[c->how], c->descending ? " descending" : "",
               c->values ? " values" : "", c->positions ? " positions" : "",
               c->whole ? " equal" : "");
  s.attributes.sort = (compute_sort_attributes){c->descending, c->values, c->positions};
  s.large = c->rows * c->length > 1000000;
  s.whole = c->whole;
  s.special = c->whole;
  lay_out(c, sample_input(&s, c->dtype, ALL));
  if (c->values) lay_out(c, sample_output(&s, c->dtype, ALL));
  if (c->positions) lay_out(c, sample_output(&s, COMPUTE_I64, ALL));
  const bool cut = c->rows * c->length < 4000 && c->length > 100 && c->how == DENSE;
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts && cut; i++) *sample_tuning(&s) = cuts[i];
  sample_end(&s, visit, user);
}

void sample_sort_kernels(sample_visitor visit, void *user) {
  static const sort_sample cases[] = {
      {1, 1, COMPUTE_F32, false, true, true, false, DENSE},
      {3, 2, COMPUTE_F32, true, true, true, true, DENSE},
      {3, 0, COMPUTE_F32, false, true, true, false, DENSE},
      {0, 3, COMPUTE_F32, false, false, true, false, DENSE},
      {90, 31, COMPUTE_F32, false, true, true, true, DENSE},
      {2, 1000, COMPUTE_F32, false, true, true, true, DENSE},
      {2, 1000, COMPUTE_F32, true, true, true, true, DENSE},
      {3, 1024, COMPUTE_F32, true, false, true, false, FLIPPED},
      {37, 65, COMPUTE_F32, false, true, false, true, TURNED},
      {2, 333, COMPUTE_F32, true, true, true, true, GAPS},
      {1, 100003, COMPUTE_F32, false, true, true, true, DENSE},
      {2, 9001, COMPUTE_F32, true, false, true, true, DENSE},
      {1, 70001, COMPUTE_F64, true, true, true, false, DENSE},
      {2, 5000, COMPUTE_F16, true, true, true, true, GAPS},
      {2, 700, COMPUTE_F64, false, true, true, true, DENSE},
      {2, 700, COMPUTE_F64, true, true, true, true, DENSE},
      {2, 500, COMPUTE_F16, false, true, true, true, DENSE},
      {2, 500, COMPUTE_BF16, true, true, true, true, DENSE},
      {2, 500, COMPUTE_I64, false, true, true, true, DENSE},
      {2, 500, COMPUTE_I64, true, true, false, true, DENSE},
      {2, 500, COMPUTE_I32, true, true, true, true, DENSE},
      {2, 500, COMPUTE_U8, false, true, true, false, DENSE},
      {2, 500, COMPUTE_U16, true, true, true, false, DENSE},
      {3, INT64_C(1) << 31, COMPUTE_F32, false, true, true, false, DENSE},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) sample_sort(&cases[i], visit, user);
}
