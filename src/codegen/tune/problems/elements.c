/* SPDX-License-Identifier: MIT */
/* Problems of MAP, COPY, GATHER and SCATTER. */
#include "codegen/tune/problems/problem.h"

#define K INT64_C(1024)

/* ---- MAP ----------------------------------------------------------------------------------- */

enum { MAP_UNARY, MAP_BINARY, MAP_BIAS /* relu(x + bias), one bias for each column */ };

static const problem_row map_rows[] = {
    {"add", MAP_BINARY, COMPUTE_F32, 16, K, 0, 0, false},
    {"add", MAP_BINARY, COMPUTE_F32, 1 * K, K, 0, 0, true},
    {"add", MAP_BINARY, COMPUTE_F32, 16 * K, K, 0, 0, false},
    {"gelu", MAP_UNARY, COMPUTE_F32, 16, K, 0, 0, false},
    {"gelu", MAP_UNARY, COMPUTE_F32, 4 * K, K, 0, 0, false},
    {"bias", MAP_BIAS, COMPUTE_F32, 256, K, 0, 0, false},
    {"bias", MAP_BIAS, COMPUTE_F32, 8 * K, K, 0, 0, false},
    {"add", MAP_BINARY, COMPUTE_F16, 4 * K, K, 0, 0, false},
    {"bias", MAP_BIAS, COMPUTE_F16, 4 * K, K, 0, 0, false},
    {.a = 0},
};

static void build_map(tune_problem *p, const problem_row *row) {
  const int64_t dense[] = {row->b, 1}, repeated[] = {0, 1};
  problem_space(p, COMPUTE_KERNEL_MAP, row->a, row->b);
  problem_add_input(p, row->dtype, dense);
  if (row->form != MAP_UNARY)
    problem_add_input(p, row->dtype, row->form == MAP_BIAS ? repeated : dense);
  problem_set_output(p, row->dtype, dense);
  program_builder *b = &p->program;
  uint16_t value = program_load(b, COMPUTE_F32, 0);
  if (row->form == MAP_UNARY) {
    value = program_apply(b, COMPUTE_I_GELU_TANH, COMPUTE_F32, value, 0, 0);
  } else {
    value = program_apply(b, COMPUTE_I_ADD, COMPUTE_F32, value, program_load(b, COMPUTE_F32, 1), 0);
    if (row->form == MAP_BIAS) value = program_apply(b, COMPUTE_I_RELU, COMPUTE_F32, value, 0, 0);
  }
  program_store(b, value);
  p->descriptor.epilogue = program_finish(b);
}

static problem_tolerance map_tolerance(const compute_kernel_descriptor *d, double epsilon) {
  (void)d;
  return (problem_tolerance){16 * epsilon, 16 * epsilon};
}

const problem_kind problem_kind_map = {
    .rows = map_rows, .build = build_map, .tolerance = map_tolerance};

/* ---- COPY ---------------------------------------------------------------------------------- */

enum { COPY_TRANSPOSE, COPY_STRIDED /* source rows are twice as long */, COPY_CONVERT };

static const problem_row copy_rows[] = {
    {"transpose", COPY_TRANSPOSE, COMPUTE_F32, 512, 512, 0, 0, true},
    {"transpose", COPY_TRANSPOSE, COMPUTE_F32, 4 * K, 2 * K, 0, 0, false},
    {"transpose", COPY_TRANSPOSE, COMPUTE_F16, 2 * K, 2 * K, 0, 0, false},
    {"strided", COPY_STRIDED, COMPUTE_F32, 2 * K, 2 * K, 0, 0, false},
    {"convert", COPY_CONVERT, COMPUTE_F16, 4 * K, K, 0, 0, false},
    {.a = 0},
};

static void build_copy(tune_problem *p, const problem_row *row) {
  const int64_t dense[] = {row->b, 1}, turned[] = {1, row->a}, apart[] = {2 * row->b, 1};
  problem_space(p, COMPUTE_KERNEL_COPY, row->a, row->b);
  problem_add_input(p, row->form == COPY_CONVERT ? COMPUTE_F32 : row->dtype,
                    row->form == COPY_TRANSPOSE ? turned
                    : row->form == COPY_STRIDED ? apart
                                                : dense);
  problem_set_output(p, row->dtype, dense);
}

const problem_kind problem_kind_copy = {.rows = copy_rows, .build = build_copy};

/* ---- GATHER and SCATTER -------------------------------------------------------------------- */

/* One index for each row of b elements, or for each element. The axis has c places. */
enum { INDEX_SLICES, INDEX_ELEMENTS };

static const problem_row gather_rows[] = {
    {"slices", INDEX_SLICES, COMPUTE_F32, 16 * K, 64, 32 * K, 0, true},
    {"slices", INDEX_SLICES, COMPUTE_F16, 16 * K, 64, 32 * K, 0, false},
    {"elements", INDEX_ELEMENTS, COMPUTE_F32, 4 * K, 256, K, 0, false},
    {.a = 0},
};

static const problem_row scatter_rows[] = {
    {"slices", INDEX_SLICES, COMPUTE_F32, 8 * K, 64, 4 * K, 0, true},
    {"slices", INDEX_SLICES, COMPUTE_F16, 8 * K, 64, 4 * K, 0, false},
    {"elements", INDEX_ELEMENTS, COMPUTE_F32, 8 * K, 64, K, 0, false},
    {.a = 0},
};

/* Slices have i32 indices, as tables of tokens have. Elements have i64. */
static void add_indices(tune_problem *p, const problem_row *row) {
  const bool slices = row->form == INDEX_SLICES;
  problem_add_input(p, slices ? COMPUTE_I32 : COMPUTE_I64,
                    slices ? (const int64_t[]){1, 0} : (const int64_t[]){row->b, 1});
  compute_index_attributes *a = kernel_attributes_in(&p->attributes, &p->descriptor, sizeof *a);
  a->axis_size = row->c;
  a->axis_stride = row->b;
}

static void build_gather(tune_problem *p, const problem_row *row) {
  const int64_t dense[] = {row->b, 1}, source[] = {0, 1};
  problem_space(p, COMPUTE_KERNEL_GATHER, row->a, row->b);
  problem_add_input(p, row->dtype, source);
  add_indices(p, row);
  problem_set_output(p, row->dtype, dense);
  p->input_elements[0] = (uint64_t)(row->c * row->b);
}

static void build_scatter(tune_problem *p, const problem_row *row) {
  const int64_t dense[] = {row->b, 1}, result[] = {0, 1};
  problem_space(p, COMPUTE_KERNEL_SCATTER, row->a, row->b);
  problem_add_input(p, row->dtype, dense);
  add_indices(p, row);
  problem_set_output(p, row->dtype, result);
  p->output_elements = (uint64_t)(row->c * row->b);
}

static void fill_indexed(const tune_problem *p, uint32_t input, void *data) {
  if (input == 1)
    problem_fill_indices(p, input, compute_index_of(&p->descriptor)->axis_size, data);
  else
    problem_fill_quarters(p, input, data);
}

const problem_kind problem_kind_gather = {
    .rows = gather_rows, .build = build_gather, .fill = fill_indexed};
const problem_kind problem_kind_scatter = {
    .rows = scatter_rows, .build = build_scatter, .fill = fill_indexed, .adds = true};
