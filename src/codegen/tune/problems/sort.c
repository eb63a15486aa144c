/* SPDX-License-Identifier: MIT */
/* Problems of SORT. They ask for positions, because the suite compares one output. */
#include "codegen/tune/problems/problem.h"

enum { K = 1024 };

static const problem_row rows[] = {
    {"", 0, COMPUTE_F32, K, K, 0, 0, true},
    {"", 0, COMPUTE_F32, 16 * K, 32, 0, 0, false},
    {"", 0, COMPUTE_F32, 4, 64 * K, 0, 0, false},
    {.a = 0},
};

static void build(tune_problem *p, const problem_row *row) {
  const int64_t strides[] = {row->b, 1};
  problem_space(p, COMPUTE_KERNEL_SORT, row->a, row->b);
  problem_add_input(p, row->dtype, strides);
  problem_set_output(p, COMPUTE_I64, strides);
  compute_sort_attributes *a = kernel_attributes_in(&p->attributes, &p->descriptor, sizeof *a);
  a->positions = true;
}

const problem_kind problem_kind_sort = {.rows = rows, .build = build};
