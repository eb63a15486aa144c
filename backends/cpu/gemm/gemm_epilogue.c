/* The epilogue over finished blocks of C, which are still in a cache of this core.
 *
 * The interpreter works on runs along one dimension, and each run has a price of its own, so runs
 * are made as long as possible: whole blocks where every operand is dense, else rows, else columns
 * if they are much longer. */
#include "gemm.h"

/* The operands of one epilogue, numbered as the program numbers them: 0 is the sums. */
typedef struct epilogue_walk {
  const cpu_gemm *gemm;
  cpu_tile tile;
  const unsigned char *input[COMPUTE_MAX_OPERANDS];
  unsigned char *output[COMPUTE_MAX_OPERANDS];
  int64_t input_step[COMPUTE_MAX_OPERANDS]; /* bytes from one run to the next */
  int64_t output_step[COMPUTE_MAX_OPERANDS];
  int64_t input_bytes[COMPUTE_MAX_OPERANDS]; /* bytes from one element of a run to the next */
  int64_t output_bytes[COMPUTE_MAX_OPERANDS];
  int64_t position, position_step;
} epilogue_walk;

/* Sets up runs along the rows (`columns_in_run`) or along the columns. */
static void start_walk(epilogue_walk *walk, const gemm_matrix *matrix, const void *sums,
                       int64_t sums_row, int64_t row, int64_t column, bool columns_in_run) {
  const gemm_problem *problem = &walk->gemm->problem;
  cpu_tile *tile = &walk->tile;
  walk->input[0] = sums;
  tile->input_stride[0] = columns_in_run ? 1 : sums_row;
  walk->input_bytes[0] = tile->input_stride[0] * problem->size;
  walk->input_step[0] = (columns_in_run ? sums_row : 1) * problem->size;
  for (uint32_t i = 0; i < problem->extra_count; i++) {
    const gemm_operand *extra = &problem->extra[i];
    walk->input[i + 1] =
        matrix->extra[i] + (row * extra->row + column * extra->column) * extra->size;
    tile->input_stride[i + 1] = columns_in_run ? extra->column : extra->row;
    walk->input_bytes[i + 1] = tile->input_stride[i + 1] * extra->size;
    walk->input_step[i + 1] = (columns_in_run ? extra->row : extra->column) * extra->size;
  }
  for (uint32_t i = 0; i < problem->output_count; i++) {
    const gemm_operand *output = &problem->output[i];
    walk->output[i] =
        matrix->output[i] + (row * output->row + column * output->column) * output->size;
    tile->output_stride[i] = columns_in_run ? output->column : output->row;
    walk->output_bytes[i] = tile->output_stride[i] * output->size;
    walk->output_step[i] = (columns_in_run ? output->row : output->column) * output->size;
  }
  walk->position =
      matrix->position + row * problem->row_position + column * problem->column_position;
  walk->position_step = columns_in_run ? problem->row_position : problem->column_position;
  tile->position_step = columns_in_run ? problem->column_position : problem->row_position;
  if (problem->coordinates) {
    for (int32_t d = 0; d < COMPUTE_MAX_RANK; d++) tile->coordinate[d] = matrix->coordinate[d];
  }
  tile->dimension = columns_in_run ? problem->column_dimension : problem->row_dimension;
}

/* `length` elements of one run, in tiles. */
static void do_run(epilogue_walk *walk, int64_t length, int64_t coordinate, cpu_scratch *scratch) {
  const gemm_problem *problem = &walk->gemm->problem;
  cpu_tile *tile = &walk->tile;
  const int64_t most = cpu_program_tile_elements(walk->gemm->epilogue);
  for (int64_t j = 0; j < length; j += most) {
    tile->count = length - j < most ? length - j : most;
    for (uint32_t i = 0; i <= problem->extra_count; i++)
      tile->input[i] = walk->input[i] + j * walk->input_bytes[i];
    for (uint32_t i = 0; i < problem->output_count; i++)
      tile->output[i] = walk->output[i] + j * walk->output_bytes[i];
    tile->position = walk->position + j * tile->position_step;
    tile->coordinate[tile->dimension] = coordinate + j;
    cpu_program_run(walk->gemm->epilogue, tile, scratch, false);
  }
}

static void next_run(epilogue_walk *walk) {
  const gemm_problem *problem = &walk->gemm->problem;
  for (uint32_t i = 0; i <= problem->extra_count; i++) walk->input[i] += walk->input_step[i];
  for (uint32_t i = 0; i < problem->output_count; i++) walk->output[i] += walk->output_step[i];
  walk->position += walk->position_step;
}

/* Whether all rows of the block follow each other without a gap in every operand. */
static bool is_one_run(const gemm_problem *problem, int64_t sums_row, int64_t columns) {
  if (problem->coordinates || columns != problem->n || sums_row != columns) return false;
  if (problem->row_position != columns * problem->column_position) return false;
  for (uint32_t i = 0; i < problem->extra_count; i++)
    if (problem->extra[i].row != columns * problem->extra[i].column) return false;
  for (uint32_t i = 0; i < problem->output_count; i++)
    if (problem->output[i].row != columns * problem->output[i].column) return false;
  return true;
}

void gemm_epilogue_run(const cpu_gemm *gemm, const gemm_matrix *matrix, const void *sums,
                       int64_t sums_row, int64_t row, int64_t rows, int64_t column,
                       int64_t columns) {
  const gemm_problem *problem = &gemm->problem;
  cpu_scratch scratch;
  epilogue_walk walk;
  walk.gemm = gemm;
  const bool columns_in_run = columns >= 32 || columns >= rows;
  start_walk(&walk, matrix, sums, sums_row, row, column, columns_in_run);
  if (is_one_run(problem, sums_row, columns) && columns_in_run) {
    do_run(&walk, rows * columns, 0, &scratch);
    return;
  }
  const int64_t runs = columns_in_run ? rows : columns;
  const int32_t across = columns_in_run ? problem->row_dimension : problem->column_dimension;
  for (int64_t i = 0; i < runs; i++) {
    walk.tile.coordinate[across] = (columns_in_run ? row : column) + i;
    do_run(&walk, columns_in_run ? columns : rows, columns_in_run ? column : row, &scratch);
    next_run(&walk);
  }
}
