/* SPDX-License-Identifier: MIT */
/* Problems of REDUCE, ROW, WINDOW, SCAN and TOP_K. */
#include "codegen/tune/problems/problem.h"

#define K INT64_C(1024)

/* ---- REDUCE -------------------------------------------------------------------------------- */

enum { REDUCE_INNER, REDUCE_OUTER, REDUCE_FULL, REDUCE_POSITION };

static const problem_row reduce_rows[] = {
    {"rows", REDUCE_INNER, COMPUTE_F32, 4 * K, K, 0, 0, true},
    {"rows", REDUCE_INNER, COMPUTE_F32, 64, 64 * K, 0, 0, false},
    {"columns", REDUCE_OUTER, COMPUTE_F32, 4 * K, K, 0, 0, false},
    {"columns", REDUCE_OUTER, COMPUTE_F32, 64, 64 * K, 0, 0, false},
    {"all", REDUCE_FULL, COMPUTE_F32, 64, K, 0, 0, false},
    {"all", REDUCE_FULL, COMPUTE_F32, 8 * K, K, 0, 0, false},
    {"argmax", REDUCE_POSITION, COMPUTE_F32, 4 * K, K, 0, 0, false},
    {.a = 0},
};

static void build_reduce(tune_problem *p, const problem_row *row) {
  compute_kernel_descriptor *d = &p->descriptor;
  const bool position = row->form == REDUCE_POSITION, outer = row->form == REDUCE_OUTER;
  const int64_t dense[] = {row->b, 1}, turned[] = {1, row->b}, rows[] = {1, 0}, one[] = {0, 0};
  problem_space(p, COMPUTE_KERNEL_REDUCE, outer ? row->b : row->a, outer ? row->a : row->b);
  problem_add_input(p, row->dtype, outer ? turned : dense);
  problem_set_output(p, position ? COMPUTE_I64 : row->dtype, row->form == REDUCE_FULL ? one : rows);
  compute_reduce_attributes *fold = kernel_attributes_in(&p->attributes, d, sizeof *fold);
  fold->kept_rank = row->form == REDUCE_FULL ? 0 : 1;
  fold->combine = position ? COMPUTE_COMBINE_ARGMAX : COMPUTE_COMBINE_SUM;
  d->prologue_inputs = 1;
  d->accumulate = COMPUTE_F32;
}

static void fill_reduce(const tune_problem *p, uint32_t input, void *data) {
  if (compute_reduce_of(&p->descriptor)->combine == COMPUTE_COMBINE_SUM)
    problem_fill_quarters(p, input, data);
  else
    problem_fill_range(p, input, 1, data);
}

const problem_kind problem_kind_reduce = {
    .rows = reduce_rows, .build = build_reduce, .fill = fill_reduce};

/* ---- ROW ----------------------------------------------------------------------------------- */

static const problem_row row_rows[] = {
    {"softmax", COMPUTE_ROW_SOFTMAX, COMPUTE_F32, 4 * K, K, 0, 0, true},
    {"softmax", COMPUTE_ROW_SOFTMAX, COMPUTE_F32, 128, 32 * K, 0, 0, false},
    {"softmax", COMPUTE_ROW_SOFTMAX, COMPUTE_F32, 64 * K, 64, 0, 0, false},
    {"normalize", COMPUTE_ROW_NORMALIZE, COMPUTE_F32, 4 * K, K, 0, 0, false},
    {"normalize", COMPUTE_ROW_NORMALIZE, COMPUTE_F32, 64 * K, 64, 0, 0, false},
    {.a = 0},
};

static void build_row(tune_problem *p, const problem_row *row) {
  compute_kernel_descriptor *d = &p->descriptor;
  const int64_t dense[] = {row->b, 1};
  problem_space(p, COMPUTE_KERNEL_ROW, row->a, row->b);
  problem_add_input(p, row->dtype, dense);
  problem_set_output(p, row->dtype, dense);
  d->prologue_inputs = 1;
  d->accumulate = COMPUTE_F32;
  compute_row_attributes *a = kernel_attributes_in(&p->attributes, d, sizeof *a);
  a->operation = (compute_row_operation)row->form;
  a->epsilon = 1e-5;
}

static void fill_row(const tune_problem *p, uint32_t input, void *data) {
  problem_fill_range(p, input, 4, data);
}

static problem_tolerance row_tolerance(const compute_kernel_descriptor *d, double epsilon) {
  const bool softmax = compute_row_of(d)->operation == COMPUTE_ROW_SOFTMAX;
  return (problem_tolerance){softmax ? 0x1p-126 : 256 * epsilon, 64 * epsilon};
}

const problem_kind problem_kind_row = {
    .rows = row_rows, .build = build_row, .fill = fill_row, .tolerance = row_tolerance};

/* ---- WINDOW -------------------------------------------------------------------------------- */

/* Batch × channels × side × side; windows of c × c with stride 2 and padding. */
enum { WINDOW_FOLD, WINDOW_GRADIENT, WINDOW_AVERAGE = 2 };

static const problem_row window_rows[] = {
    {"max", WINDOW_FOLD, COMPUTE_F32, 64, 56, 3, 8, false},
    {"average", WINDOW_FOLD | WINDOW_AVERAGE, COMPUTE_F32, 64, 56, 3, 8, false},
    {"max gradient", WINDOW_GRADIENT, COMPUTE_F32, 64, 56, 3, 8, true},
    {"average gradient", WINDOW_GRADIENT | WINDOW_AVERAGE, COMPUTE_F32, 64, 56, 3, 8, false},
    {.a = 0},
};

static void build_window(tune_problem *p, const problem_row *row) {
  compute_kernel_descriptor *d = &p->descriptor;
  compute_window_attributes *w = kernel_attributes_in(&p->attributes, d, sizeof *w);
  const int64_t padding = row->c / 2, side = (row->b + 2 * padding - row->c) / 2 + 1;
  const int64_t data[4] = {row->batch, row->a, row->b, row->b};
  const int64_t result[4] = {row->batch, row->a, side, side};
  w->operation = row->form & WINDOW_AVERAGE ? COMPUTE_WINDOW_AVERAGE : COMPUTE_WINDOW_MAX;
  w->by_data = row->form & WINDOW_GRADIENT;
  for (int i = 0; i < 2; i++) {
    w->data_size[i] = row->b;
    w->result_size[i] = side;
    w->size[i] = row->c;
    w->stride[i] = 2;
    w->dilation[i] = 1;
    w->padding[i] = padding;
  }
  d->accumulate = COMPUTE_F32;
  if (!w->by_data || w->operation == COMPUTE_WINDOW_MAX) problem_add_image(p, row->dtype, data);
  if (w->by_data) problem_add_image(p, row->dtype, result);
  problem_set_image(p, row->dtype, w->by_data ? data : result);
}

/* Few terms, divided by their number. */
static problem_tolerance window_tolerance(const compute_kernel_descriptor *d, double epsilon) {
  (void)d;
  return (problem_tolerance){16 * epsilon, 16 * epsilon};
}

const problem_kind problem_kind_window = {
    .rows = window_rows, .build = build_window, .tolerance = window_tolerance};

/* ---- SCAN ---------------------------------------------------------------------------------- */

enum { SCAN_ALONG, SCAN_ACROSS };

static const problem_row scan_rows[] = {
    {"rows", SCAN_ALONG, COMPUTE_F32, 4 * K, K, 0, 0, false},
    {"rows", SCAN_ALONG, COMPUTE_F32, 64, 64 * K, 0, 0, true},
    {"columns", SCAN_ACROSS, COMPUTE_F32, 4 * K, K, 0, 0, false},
    {.a = 0},
};

static void build_scan(tune_problem *p, const problem_row *row) {
  compute_kernel_descriptor *d = &p->descriptor;
  const int64_t along[] = {row->b, 1}, across[] = {1, row->a};
  const int64_t *strides = row->form == SCAN_ACROSS ? across : along;
  problem_space(p, COMPUTE_KERNEL_SCAN, row->a, row->b);
  problem_add_input(p, row->dtype, strides);
  problem_set_output(p, row->dtype, strides);
  compute_scan_attributes *a = kernel_attributes_in(&p->attributes, d, sizeof *a);
  a->combine = COMPUTE_COMBINE_SUM;
  d->accumulate = COMPUTE_F32;
}

const problem_kind problem_kind_scan = {
    .rows = scan_rows, .build = build_scan, .fill = problem_fill_quarters};

/* ---- TOP_K --------------------------------------------------------------------------------- */

/* The c largest of b elements. */
static const problem_row top_k_rows[] = {
    {"", 0, COMPUTE_F32, K, K, 8, 0, true},
    {"", 0, COMPUTE_F32, 16 * K, 32, 2, 0, false},
    {"", 0, COMPUTE_F32, 16, 64 * K, 16, 0, false},
    {"", 0, COMPUTE_F32, 256, 4 * K, 128, 0, false},
    {.a = 0},
};

static void build_top_k(tune_problem *p, const problem_row *row) {
  const int64_t source[] = {row->b, 1}, result[] = {row->c, 1};
  problem_space(p, COMPUTE_KERNEL_TOP_K, row->a, row->c);
  problem_add_input(p, row->dtype, source);
  problem_set_output(p, COMPUTE_I64, result);
  compute_top_k_attributes *a = kernel_attributes_in(&p->attributes, &p->descriptor, sizeof *a);
  a->axis_size = row->b;
}

const problem_kind problem_kind_top_k = {.rows = top_k_rows, .build = build_top_k};
