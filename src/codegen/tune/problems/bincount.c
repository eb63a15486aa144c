/* SPDX-License-Identifier: MIT */
/* Problems of BINCOUNT. */
#include "codegen/tune/problems/problem.h"

enum { K = 1024, COUNTS = 0, WEIGHTS = 1 };

/* Rows, their length, bins. */
static const problem_row rows[] = {
    {"counts", COUNTS, COMPUTE_I64, 1, K *K, 256, 0, true},
    {"counts", COUNTS, COMPUTE_I64, 4 * K, K, 64, 0, false},
    {"weights", WEIGHTS, COMPUTE_F32, 1, K *K, 256, 0, false},
    {"weights", WEIGHTS, COMPUTE_F32, 4 * K, K, 64, 0, false},
    {.a = 0},
};

static void build(tune_problem *p, const problem_row *row) {
  const int64_t elements[] = {row->b, 1}, bins[] = {row->c, 1};
  problem_space(p, COMPUTE_KERNEL_BINCOUNT, row->a, row->c);
  compute_bincount_attributes *a = kernel_attributes_in(&p->attributes, &p->descriptor, sizeof *a);
  a->axis_size = row->b;
  problem_add_input(p, COMPUTE_I32, elements);
  if (row->form == WEIGHTS) problem_add_input(p, row->dtype, elements);
  problem_set_output(p, row->dtype, bins);
}

static void fill(const tune_problem *p, uint32_t input, void *data) {
  if (input == 0)
    problem_fill_indices(p, input, p->descriptor.size[1], data);
  else
    problem_fill_quarters(p, input, data);
}

const problem_kind problem_kind_bincount = {.rows = rows, .build = build, .fill = fill};
