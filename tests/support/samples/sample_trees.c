/* SPDX-License-Identifier: MIT */
/* Samples of TREES. Operands are random, so the tables are 0: the trees have no steps. Real trees
 * are in operations/test_trees.c. */
#include "support/samples/sample_kernels.h"

typedef struct trees_sample {
  int64_t rows, features, targets, trees;
  compute_combine combine;
  uint32_t words;
  compute_dtype dtype;
  bool turned;
  uint32_t lanes; /* of a second way */
} trees_sample;

static void sample_one(const trees_sample *c, sample_visitor visit, void *user) {
  sample_kernel s;
  sample_begin(&s, COMPUTE_KERNEL_TREES, COMPUTE_SHAPE(c->rows, c->targets),
               "trees/%lldx%lld to %lld, %lld, %s%s", (long long)c->rows, (long long)c->features,
               (long long)c->targets, (long long)c->trees, compute_dtype_name(c->dtype),
               c->turned ? " turned" : "");
  s.attributes.trees = (compute_trees_attributes){.features = c->features,
                                                  .columns = c->features,
                                                  .nodes = 2,
                                                  .trees = c->trees,
                                                  .values = 8,
                                                  .combine = c->combine,
                                                  .words = c->words};
  s.descriptor.accumulate = c->dtype;
  s.low = s.high = 0;
  s.tolerance = (test_tolerance){0, 1e-6, 0};
  compute_operand *x = sample_input(&s, c->dtype, 3);
  x->stride[0] = c->turned ? 1 : c->features + 2;
  x->stride[1] = c->turned ? c->rows : 1;
  for (int i = 0; i < 3; i++) {
    compute_operand *table = sample_input(&s, i < 2 ? COMPUTE_I64 : c->dtype, 2);
    table->stride[0] = 0;
    table->stride[1] = 1;
  }
  sample_output(&s, c->dtype, 3);
  if (c->lanes > 0) *sample_tuning(&s) = (compute_tuning){.group_x = 32, .group_y = c->lanes};
  sample_end(&s, visit, user);
}

void sample_trees_kernels(sample_visitor visit, void *user) {
  static const trees_sample cases[] = {
      {1, 1, 1, 1, COMPUTE_COMBINE_SUM, 1, COMPUTE_F32, false, 0},
      {200, 3, 2, 5, COMPUTE_COMBINE_SUM, 1, COMPUTE_F32, true, 4},
      {70, 5, 1, 9, COMPUTE_COMBINE_MAX, 2, COMPUTE_F64, false, 1},
      {3, 2, 3, 20, COMPUTE_COMBINE_MIN, 2, COMPUTE_F32, false, 0},
      {0, 2, 3, 2, COMPUTE_COMBINE_SUM, 2, COMPUTE_F64, false, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) sample_one(&cases[i], visit, user);
}
