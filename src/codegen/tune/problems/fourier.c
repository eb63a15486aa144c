/* SPDX-License-Identifier: MIT */
/* Problems of FOURIER. */
#include "codegen/tune/problems/problem.h"

enum { K = 1024 };

/* Lines and points. */
static const problem_row rows[] = {
    {"", 0, COMPUTE_F32, K, K, 0, 0, true},
    {"", 0, COMPUTE_F32, 64 * K, 32, 0, 0, false},
    {"", 0, COMPUTE_F32, 64, 1000, 0, 0, false},
    {.a = 0},
};

static void build(tune_problem *p, const problem_row *row) {
  const int64_t strides[] = {2 * row->b, 2, 1};
  problem_space(p, COMPUTE_KERNEL_FOURIER, row->a, row->b);
  p->descriptor.size[p->descriptor.rank++] = 2;
  p->descriptor.accumulate = row->dtype;
  compute_fourier_attributes *a = kernel_attributes_in(&p->attributes, &p->descriptor, sizeof *a);
  a->length = a->points = row->b;
  a->scale = 1;
  problem_add_input(p, row->dtype, strides);
  problem_set_output(p, row->dtype, strides);
}

/* Rounding grows with the number of passes; results are sums of up to `length` numbers. */
static problem_tolerance tolerance(const compute_kernel_descriptor *d, double epsilon) {
  return (problem_tolerance){8 * epsilon * (double)compute_fourier_of(d)->length, 0};
}

const problem_kind problem_kind_fourier = {.rows = rows, .build = build, .tolerance = tolerance};
