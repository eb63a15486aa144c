/* SPDX-License-Identifier: MIT */
/* The common ground of all implementations of a matrix multiplication: its normal form, and the
 * epilogue over blocks of C. */
#include <string.h>

#include "gemm.h"
#include "gemm/isa/narrow_table.h"

bool gemm_sums_in_place(const cpu_gemm *gemm, void *const *pointers) {
  if (!gemm->in_place) return false;
  if (gemm->identity) return true;
  /* An epilogue input that is also the output must not be overwritten before it is read. */
  const uint32_t count = gemm->problem.extra_count;
  const uintptr_t output = (uintptr_t)pointers[2 + count];
  for (uint32_t i = 0; i < count; i++) {
    const uintptr_t extra = (uintptr_t)pointers[2 + i];
    if (extra < output + gemm->output_span && output < extra + gemm->span[i]) return false;
  }
  return true;
}

/* ---- The epilogue --------------------------------------------------------------------------- */

/* Returns the byte offset of (row, column) in an operand, and its steps from row to row, which are
 * dimension r of the box, and from column to column. */
static int64_t block_steps(const gemm_operand *operand, int64_t row, int64_t column, int r,
                           int64_t step[CPU_BOX_RANK]) {
  step[r] = operand->row;
  step[1 - r] = operand->column;
  return (row * operand->row + column * operand->column) * operand->size;
}

/* `true` if short lines run together (box.c): every operand is contiguous along them. */
static bool lines_are_contiguous(const cpu_box *box) {
  const cpu_program *program = box->program;
  if (cpu_program_places(program)) return false;
  for (uint32_t i = 0; i < program->input_count; i++)
    if (box->input_step[i][box->rank - 1] != 0 && box->input_step[i][box->rank - 1] != 1)
      return false;
  for (uint32_t k = 0; k < program->output_count; k++)
    if (box->output_step[k][box->rank - 1] != 1) return false;
  return true;
}

/* Rows of C are dimension r of the box. */
static void run_epilogue(const cpu_gemm *gemm, const gemm_matrix *matrix, const void *sums,
                         int64_t sums_line, int64_t row, int64_t rows, int64_t column,
                         int64_t columns, int r) {
  const gemm_problem *problem = &gemm->problem;
  const int c = 1 - r;
  cpu_box box;
  if (rows == 0 || columns == 0) return;
  box.program = gemm->epilogue;
  box.rank = 2;
  box.count[r] = rows;
  box.count[c] = columns;
  box.dimension[r] = problem->row_dimension;
  box.dimension[c] = problem->column_dimension;
  box.pace[0] = box.pace[1] = 1;
  for (int32_t d = 0; d < COMPUTE_MAX_RANK; d++)
    box.coordinate[d] = problem->coordinates ? matrix->coordinate[d] : 0;
  box.coordinate[box.dimension[r]] = row;
  box.coordinate[box.dimension[c]] = column;
  box.position = matrix->position + row * problem->row_position + column * problem->column_position;
  box.position_step[r] = problem->row_position;
  box.position_step[c] = problem->column_position;
  box.input[0] = sums;
  box.input_step[0][0] = sums_line;
  box.input_step[0][1] = 1;
  for (uint32_t i = 0; i < problem->extra_count; i++)
    box.input[i + 1] =
        matrix->extra[i] + block_steps(&problem->extra[i], row, column, r, box.input_step[i + 1]);
  for (uint32_t k = 0; k < problem->output_count; k++)
    box.output[k] =
        matrix->output[k] + block_steps(&problem->output[k], row, column, r, box.output_step[k]);
  /* Whole blocks if every operand is dense; else lines, or across them if they are much shorter. */
  const bool is_long = box.count[1] >= 32 || box.count[1] >= box.count[0];
  cpu_box_merge(&box);
  cpu_box_run(&box, is_long || lines_are_contiguous(&box) ? box.rank - 1 : 0);
}

void gemm_epilogue_run(const cpu_gemm *gemm, const gemm_matrix *matrix, const void *sums,
                       int64_t sums_row, int64_t row, int64_t rows, int64_t column,
                       int64_t columns) {
  run_epilogue(gemm, matrix, sums, sums_row, row, rows, column, columns, 0);
}

void gemm_epilogue_run_turned(const cpu_gemm *gemm, const gemm_matrix *matrix, const void *sums,
                              int64_t column, int64_t columns) {
  const int64_t rows = gemm->problem.m;
  run_epilogue(gemm, matrix, sums, rows, 0, rows, column, columns, 1);
}

/* ---- Reading the descriptor ------------------------------------------------------------------ */

/* The normal form of a matrix multiplication. Two rewrites save a large multiple of their cost:
 *
 * - Batch dimensions become rows if A and C step through them as through further rows, and one B
 *   serves
 * all of them. [64,128,784]·[784,512] is then one product of 8192 rows instead of 64 products that
 * each read all of B.
 * - Rows and columns are swapped if C's columns are contiguous instead of its rows, or if n is
 *   small.
 * The implementations can then rely on dense rows of C, and on m as the short side. */

static void read_operand(const compute_kernel_descriptor *descriptor, const compute_operand *from,
                         const gemm_problem *problem, gemm_operand *to) {
  to->dtype = from->dtype;
  to->size = cpu_dtype_size(from->dtype);
  to->row = from->stride[descriptor->rank - 2];
  to->column = from->stride[descriptor->rank - 1];
  for (int32_t d = 0; d < problem->batch_rank; d++)
    to->batch[d] = from->stride[problem->batch_dimension[d]];
}

/* Collects the batch dimensions larger than 1. */
static void read_batches(const compute_kernel_descriptor *descriptor, gemm_problem *problem) {
  const int32_t rank = descriptor->rank;
  problem->batches = 1;
  problem->column_position = 1;
  problem->row_position = descriptor->size[rank - 1];
  int64_t position[COMPUTE_MAX_RANK];
  position[rank - 2] = problem->row_position;
  for (int32_t d = rank - 3; d >= 0; d--) position[d] = position[d + 1] * descriptor->size[d + 1];
  for (int32_t d = 0; d < rank - 2; d++) {
    problem->batches *= descriptor->size[d];
    if (descriptor->size[d] == 1) continue;
    const int32_t to = problem->batch_rank++;
    problem->batch_size[to] = descriptor->size[d];
    problem->batch_dimension[to] = d;
    problem->batch_position[to] = position[d];
  }
}

/* True if batch dimension d of an operand continues its rows. */
static bool continues_rows(const gemm_problem *problem, const gemm_operand *operand, int32_t d) {
  return problem->m == 1 || operand->batch[d] == operand->row * problem->m;
}

static bool last_batch_is_rows(const gemm_problem *problem) {
  const int32_t d = problem->batch_rank - 1;
  if (problem->b.batch[d] != 0 || !continues_rows(problem, &problem->a, d)) return false;
  for (uint32_t i = 0; i < problem->extra_count; i++)
    if (!continues_rows(problem, &problem->extra[i], d)) return false;
  for (uint32_t i = 0; i < problem->output_count; i++)
    if (!continues_rows(problem, &problem->output[i], d)) return false;
  return true;
}

static void fold_batches(gemm_problem *problem) {
  while (problem->batch_rank > 0 && last_batch_is_rows(problem)) {
    const int32_t d = --problem->batch_rank;
    if (problem->m == 1) {
      problem->a.row = problem->a.batch[d];
      for (uint32_t i = 0; i < problem->extra_count; i++)
        problem->extra[i].row = problem->extra[i].batch[d];
      for (uint32_t i = 0; i < problem->output_count; i++)
        problem->output[i].row = problem->output[i].batch[d];
      problem->row_position = problem->batch_position[d];
    }
    problem->m *= problem->batch_size[d];
    problem->batches /= problem->batch_size[d];
  }
}

static void swap_strides(gemm_operand *operand) {
  const int64_t row = operand->row;
  operand->row = operand->column;
  operand->column = row;
}

void gemm_problem_swap(gemm_problem *problem) {
  const gemm_operand a = problem->a;
  problem->a = problem->b;
  problem->b = a;
  swap_strides(&problem->a);
  swap_strides(&problem->b);
  for (uint32_t i = 0; i < problem->extra_count; i++) swap_strides(&problem->extra[i]);
  for (uint32_t i = 0; i < problem->output_count; i++) swap_strides(&problem->output[i]);
  const int64_t m = problem->m, position = problem->row_position;
  problem->m = problem->n;
  problem->n = m;
  problem->row_position = problem->column_position;
  problem->column_position = position;
  const int32_t dimension = problem->row_dimension;
  problem->row_dimension = problem->column_dimension;
  problem->column_dimension = dimension;
  problem->swapped = !problem->swapped;
}

enum {
  FEW_ROWS = 8,     /* or columns: the other factor is then read only once or twice */
  FEW_DOTS = 16,    /* most columns as dot products … */
  TILED_DEPTH = 512 /* … if k is longer than this; shorter ones are register tiles */
};

/* True if few columns are computed as dot products: a register tile would be mostly empty. A tile
 * of one vector needs no sums over lanes, so it is faster while A is in a cache: with AVX2 on two
 * cores, 1000×100 by 100×8 took 47 µs as dot products and takes 21 µs as tiles.
 *
 * Dot products round in another order than tiles. So this depends on k, n and the type only: an
 * element has the same bits for any number of rows, batches and threads. */
static bool takes_dots(const gemm_problem *problem, bool filled) {
  const int64_t least = cpu_max(problem->type->lanes / 2, 4);
  if (filled || !problem->type->dot || !cpu_dtype_is_float(problem->accumulate)) return false;
  if (problem->type->group > 1) return problem->n <= FEW_ROWS;
  return problem->n < least ? problem->k > CPU_NARROW_DEPTH
                            : problem->n <= FEW_DOTS && problem->k > TILED_DEPTH;
}

/* True if rows and columns are exchanged. Dot products need a B that is contiguous along k. */
static bool should_swap(const gemm_problem *problem) {
  const gemm_operand *c = &problem->output[0];
  if (problem->dots) return problem->n <= problem->m || problem->b.row != 1;
  if (c->column != 1 && c->row == 1 && (problem->m > FEW_ROWS || problem->n < problem->m))
    return true;
  if (problem->m > FEW_ROWS && problem->n > FEW_ROWS) return false;
  const bool along = problem->a.column == 1 && problem->type->group == 1 &&
                     cpu_dtype_is_float(problem->accumulate);
  if (along && problem->k > CPU_NARROW_DEPTH) return false; /* A need not be transposed */
  return problem->n < problem->m;
}

static bool is_of_bytes(const compute_kernel_descriptor *descriptor) {
  bool bytes = descriptor->accumulate == COMPUTE_I32;
  for (int i = 0; i < 2; i++)
    bytes &= descriptor->inputs[i].dtype == COMPUTE_I8 || descriptor->inputs[i].dtype == COMPUTE_U8;
  return bytes;
}

/* False if B is computed while it is packed: such a B has the accumulate type. */
static bool is_of_bf16(const compute_kernel_descriptor *descriptor, bool filled) {
  return descriptor->accumulate == COMPUTE_F32 && !filled &&
         descriptor->inputs[0].dtype == COMPUTE_BF16 && descriptor->inputs[1].dtype == COMPUTE_BF16;
}

/* Only the right factor's pairs are known to be small, so exchanged factors are summed exactly. */
static void let_saturate(const compute_kernel_descriptor *descriptor, const cpu_gemm_table *table,
                         gemm_problem *problem) {
  if (!(compute_gemm_of(descriptor)->precision & COMPUTE_PRECISION_SATURATE) || problem->swapped ||
      !is_of_bytes(descriptor))
    return;
  problem->type = cpu_gemm_bytes(table, true);
  problem->k = cpu_divide_up(problem->elements, problem->type->group);
}

void gemm_problem_read(const compute_kernel_descriptor *descriptor, const cpu_gemm_table *table,
                       bool filled, gemm_problem *problem) {
  *problem = (gemm_problem){.accumulate = descriptor->accumulate,
                            .size = cpu_dtype_size(descriptor->accumulate),
                            .type = cpu_gemm_type_of(table, descriptor->accumulate),
                            .m = descriptor->size[descriptor->rank - 2],
                            .n = descriptor->size[descriptor->rank - 1],
                            .k = compute_gemm_of(descriptor)->k,
                            .row_dimension = descriptor->rank - 2,
                            .column_dimension = descriptor->rank - 1,
                            .extra_count = descriptor->input_count - 2,
                            .output_count = descriptor->output_count};
  problem->strict = compute_gemm_of(descriptor)->precision & COMPUTE_PRECISION_REPRODUCIBLE;
  problem->elements = problem->k;
  if (is_of_bytes(descriptor))
    problem->type = table->bytes;
  else if (table->bf16 && is_of_bf16(descriptor, filled))
    problem->type = table->bf16;
  problem->k = cpu_divide_up(problem->k, problem->type->group);
  read_batches(descriptor, problem);
  read_operand(descriptor, &descriptor->inputs[0], problem, &problem->a);
  read_operand(descriptor, &descriptor->inputs[1], problem, &problem->b);
  for (uint32_t i = 0; i < problem->extra_count; i++)
    read_operand(descriptor, &descriptor->inputs[2 + i], problem, &problem->extra[i]);
  for (uint32_t i = 0; i < problem->output_count; i++)
    read_operand(descriptor, &descriptor->outputs[i], problem, &problem->output[i]);
  for (uint32_t i = 0; i < descriptor->epilogue.count; i++)
    problem->coordinates |= descriptor->epilogue.instructions[i].code == COMPUTE_I_COORDINATE;
  if (problem->batches == 0 || problem->m == 0 || problem->n == 0) return;
  if (!problem->coordinates) fold_batches(problem);
  problem->dots = takes_dots(problem, filled);
  if (!filled && should_swap(problem)) gemm_problem_swap(problem);
  let_saturate(descriptor, table, problem);
}

void gemm_problem_matrix(const gemm_problem *problem, void *const *pointers, int64_t batch,
                         gemm_matrix *matrix) {
  const uint32_t inputs = problem->extra_count + 2;
  int64_t index[COMPUTE_MAX_RANK];
  for (int32_t d = problem->batch_rank - 1; d >= 0; d--) {
    index[d] = batch % problem->batch_size[d];
    batch /= problem->batch_size[d];
  }
  int64_t a = 0, b = 0;
  matrix->position = 0;
  if (problem->coordinates) memset(matrix->coordinate, 0, sizeof matrix->coordinate);
  for (int32_t d = 0; d < problem->batch_rank; d++) {
    a += index[d] * problem->a.batch[d];
    b += index[d] * problem->b.batch[d];
    matrix->position += index[d] * problem->batch_position[d];
    matrix->coordinate[problem->batch_dimension[d]] = index[d];
  }
  const int first = problem->swapped;
  matrix->a = (const unsigned char *)pointers[first] + a * problem->a.size;
  matrix->b = (const unsigned char *)pointers[1 - first] + b * problem->b.size;
  for (uint32_t i = 0; i < problem->extra_count; i++) {
    int64_t offset = 0;
    for (int32_t d = 0; d < problem->batch_rank; d++)
      offset += index[d] * problem->extra[i].batch[d];
    matrix->extra[i] = (const unsigned char *)pointers[2 + i] + offset * problem->extra[i].size;
  }
  for (uint32_t i = 0; i < problem->output_count; i++) {
    int64_t offset = 0;
    for (int32_t d = 0; d < problem->batch_rank; d++)
      offset += index[d] * problem->output[i].batch[d];
    matrix->output[i] = (unsigned char *)pointers[inputs + i] + offset * problem->output[i].size;
  }
}

uint64_t gemm_problem_span(const gemm_problem *problem, const gemm_operand *operand) {
  int64_t last = (problem->m - 1) * operand->row + (problem->n - 1) * operand->column;
  for (int32_t d = 0; d < problem->batch_rank; d++)
    last += (problem->batch_size[d] - 1) * operand->batch[d];
  return ((uint64_t)last + 1) * operand->size;
}
