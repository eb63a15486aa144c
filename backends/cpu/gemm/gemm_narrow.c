/* SPDX-License-Identifier: MIT */
/* Products with two small sizes: transforms of points and colours, small heads. gemm_own.c uses a
 * corner of each register tile, and packs the long operand for one use of each element. With AVX2 on
 * two cores, 50000×4 by 4×8 took 1.1 ms there and takes 0.15 ms here, 50000×3 by 3×3 0.63 and
 * 0.04 ms, 1000 products of 50×4 by 4×4 0.55 and 0.12 ms. */
#include <stdio.h>

#include "gemm.h"
#include "gemm/isa/narrow_table.h"
#include "program/isa/finish_table.h"

enum {
  LEAST_COLUMNS = 128, /* of the long side, in all batch entries */
  FEW_ROWS = 8,        /* more rows are two passes over B, which pay up to … */
  FEW_DEPTH = 16,      /* … this k, */
  TURNED_DEPTH = 8,    /* and this one if rows of C are contiguous instead of columns */
  LEAST_TILED = 4,     /* of k, for a tile with at least one vector, filled to three quarters */
  TASK_COLUMNS = 2048, /* at least, if there are as many */
  TASK_OPERATIONS = 1 << 16 /* multiply-adds that pay for one more thread */
};

/* B's values of a block, if its elements have another type; and sums, as rows or as columns. */
typedef struct narrow_room {
  _Alignas(64) unsigned char b[CPU_NARROW_DEPTH * CPU_NARROW_BYTES];
  _Alignas(64) unsigned char sums[CPU_NARROW_ROWS * CPU_NARROW_BYTES];
  _Alignas(64) unsigned char turned[CPU_NARROW_ROWS * CPU_NARROW_BYTES];
} narrow_room;

/* A unit is some columns of one batch entry; a task is `chunk` consecutive units. */
typedef struct narrow_launch {
  const cpu_gemm *gemm;
  const cpu_narrow_loops *loops;
  const cpu_finish *finish; /* the epilogue, if it adds at most one number per row, and clamps */
  void *const *pointers;
  int64_t columns; /* of a unit */
  int64_t units;   /* of a batch entry */
  int64_t chunk;
} narrow_launch;

static const cpu_narrow_loops *loops_of(const cpu_gemm *gemm) {
  return CPU_PICK_FLOAT(gemm->head.device->isa, cpu_narrow, gemm->problem.accumulate);
}

/* True if the loops can read or write the operand. */
static bool is_line(const gemm_operand *operand, int64_t rows) {
  return operand->column == 1 || operand->row == 1 || rows == 1;
}

static const cpu_finish *finish_of(const cpu_gemm *gemm) {
  const gemm_problem *problem = &gemm->problem;
  const cpu_finish *finish = &gemm->epilogue->finish;
  if (gemm->factor != 0 || !finish->loops || finish->dtype != COMPUTE_F32 ||
      problem->output_count != 1 || !is_line(&problem->output[0], problem->m) ||
      finish->input[1] > 0 || finish->input[2] > 0)
    return NULL;
  const int16_t first = finish->input[0];
  return first <= 0 || problem->extra[first - 1].column == 0 ? finish : NULL;
}

/* Loads `lines` lines of `count` elements. Lines begin `step` apart in the source, and `to_step`
 * apart in the result. */
static void load_lines(const cpu_gemm *gemm, const gemm_operand *from, const unsigned char *source,
                       int64_t step, int64_t lines, int64_t count, int64_t along, unsigned char *to,
                       int64_t to_step) {
  const cpu_load_loop load = gemm->head.device->isa->tile->load[from->dtype];
  if (along == 1 && step == count && to_step == count) {
    load(lines * count, to, source, 1);
    return;
  }
  for (int64_t l = 0; l < lines; l++)
    load(count, to + l * to_step * gemm->problem.size, source + l * step * from->size, along);
}

/* A has been converted already. */
static cpu_narrow_block block_of(const cpu_gemm *gemm, const gemm_matrix *matrix, int64_t column,
                                 int64_t count, narrow_room *room) {
  const gemm_problem *problem = &gemm->problem;
  const gemm_operand *b = &problem->b;
  cpu_narrow_block block = {.m = problem->m,
                            .n = count,
                            .k = problem->k,
                            .a = matrix->a,
                            .a_row = problem->a.row,
                            .a_k = problem->a.column,
                            .b = matrix->b + column * b->column * b->size,
                            .b_k = b->row,
                            .b_column = b->column,
                            .factor = 1};
  if (problem->a.dtype != problem->accumulate) {
    block.a_row = problem->k;
    block.a_k = 1;
  }
  if (b->dtype == problem->accumulate) return block;
  if (b->column == 1) {
    block.b_k = CPU_NARROW_BYTES / (int64_t)problem->size;
    load_lines(gemm, b, block.b, b->row, problem->k, count, 1, room->b, block.b_k);
  } else {
    block.b_column = problem->k;
    load_lines(gemm, b, block.b, b->column, count, problem->k, 1, room->b, problem->k);
  }
  block.b = room->b;
  return block;
}

/* Finishes a block's sums, and stores them in C. */
static void finish_block(const narrow_launch *launch, const gemm_matrix *matrix,
                         const cpu_narrow_block *block, float *sums) {
  const gemm_problem *problem = &launch->gemm->problem;
  const cpu_finish *finish = launch->finish;
  const int64_t row = CPU_NARROW_BYTES / (int64_t)sizeof *sums;
  const int16_t first = finish->input[0];
  cpu_finish_lines lines = {.rows = block->m,
                            .count = block->n,
                            .x = sums,
                            .x_row = row,
                            .low = finish->low,
                            .zero = finish->zero,
                            .high = finish->high,
                            .y = block->c_column == 1 ? block->c : sums,
                            .y_row = block->c_column == 1 ? block->c_row : row};
  if (first > 0) {
    lines.a = matrix->extra[first - 1];
    lines.a_row = problem->extra[first - 1].row;
    lines.a_repeats = true;
  }
  finish->loops->run(&lines);
  if (block->c_column != 1) launch->loops->turn_out(block, sums);
}

/* Multiplies up to CPU_NARROW_BYTES of columns. */
static void multiply_block(const narrow_launch *launch, const gemm_matrix *matrix, int64_t column,
                           int64_t count, narrow_room *room) {
  const cpu_gemm *gemm = launch->gemm;
  const gemm_problem *problem = &gemm->problem;
  const gemm_operand *c = &problem->output[0];
  const int64_t most = CPU_NARROW_BYTES / (int64_t)problem->size;
  cpu_narrow_block block = block_of(gemm, matrix, column, count, room);
  cpu_narrow_block stored = block;
  stored.c = matrix->output[0] + column * c->column * c->size;
  stored.c_row = c->row;
  stored.c_column = c->column;
  if (gemm->factor != 0) {
    stored.factor = (double)gemm->factor;
    launch->loops->multiply(&stored);
    return;
  }
  block.c = room->sums;
  block.c_row = most;
  block.c_column = 1;
  launch->loops->multiply(&block);
  if (launch->finish) {
    finish_block(launch, matrix, &stored, (float *)(void *)room->sums);
  } else if (c->column != 1 && c->row == 1) {
    stored.c = room->turned;
    stored.c_column = problem->m;
    launch->loops->turn_out(&stored, room->sums);
    gemm_epilogue_run_turned(gemm, matrix, room->turned, column, count);
  } else {
    gemm_epilogue_run(gemm, matrix, room->sums, most, 0, problem->m, column, count);
  }
}

static void narrow_task(void *argument, int64_t task, int32_t worker) {
  const narrow_launch *launch = argument;
  const gemm_problem *problem = &launch->gemm->problem;
  const int64_t most = CPU_NARROW_BYTES / (int64_t)problem->size;
  const int64_t end = cpu_min((task + 1) * launch->chunk, problem->batches * launch->units);
  _Alignas(64) unsigned char a[CPU_NARROW_ROWS * CPU_NARROW_DEPTH * sizeof(double)];
  gemm_matrix matrix;
  narrow_room room;
  (void)worker;
  for (int64_t unit = task * launch->chunk; unit < end; unit++) {
    const int64_t first = unit % launch->units * launch->columns;
    const int64_t last = cpu_min(first + launch->columns, problem->n);
    gemm_problem_matrix(problem, launch->pointers, unit / launch->units, &matrix);
    if (problem->a.dtype != problem->accumulate) {
      load_lines(launch->gemm, &problem->a, matrix.a, problem->a.row, problem->m, problem->k,
                 problem->a.column, a, problem->k);
      matrix.a = a;
    }
    for (int64_t column = first; column < last; column += most)
      multiply_block(launch, &matrix, column, cpu_min(most, last - column), &room);
  }
}

static compute_status narrow_run(const cpu_kernel *kernel, void *const *pointers) {
  const cpu_gemm *gemm = (const cpu_gemm *)kernel;
  const gemm_problem *problem = &gemm->problem;
  const int64_t most = CPU_NARROW_BYTES / (int64_t)problem->size;
  const int64_t work = cpu_divide_up(TASK_OPERATIONS, problem->m * problem->k);
  narrow_launch launch = {
      .gemm = gemm, .loops = loops_of(gemm), .finish = finish_of(gemm), .pointers = pointers};
  launch.columns = cpu_round_up(work > TASK_COLUMNS ? work : TASK_COLUMNS, most);
  launch.units = cpu_divide_up(problem->n, launch.columns);
  launch.chunk = cpu_divide_up(launch.columns, cpu_min(launch.columns, problem->n));
  cpu_parallel(kernel->device, cpu_divide_up(problem->batches * launch.units, launch.chunk),
               narrow_task, &launch);
  return COMPUTE_OK;
}

/* `true` if elements of the operand become values of the accumulating type in registers. */
static bool is_loaded(const gemm_problem *problem, const gemm_operand *operand) {
  return cpu_type_of(operand->dtype) == cpu_type_of(problem->accumulate);
}

static const char *refuse(const cpu_gemm *gemm) {
  const gemm_problem *problem = &gemm->problem;
  const gemm_operand *c = &problem->output[0];
  if (problem->m > CPU_NARROW_ROWS || problem->k > CPU_NARROW_DEPTH || problem->k == 0 ||
      (problem->m > FEW_ROWS && problem->k > FEW_DEPTH))
    return "more than one long side";
  if (problem->n < cpu_divide_up(LEAST_COLUMNS, problem->batches)) return "no long side";
  if (!loops_of(gemm) || problem->type->group > 1 || !is_loaded(problem, &problem->a) ||
      !is_loaded(problem, &problem->b) || gemm->filled || problem->dots)
    return "operands of other types";
  if (problem->b.dtype != problem->accumulate && problem->b.column == 1 &&
      (problem->m > FEW_ROWS || problem->k > FEW_DEPTH))
    return "many lines to convert";
  if (!is_line(&problem->b, problem->k)) return "strides of the long operand";
  if (gemm->factor != 0 && !is_line(c, problem->m)) return "strides of the result";
  return NULL;
}

/* True if turning columns of C takes less time than a register tile. */
static bool pays_turned(const cpu_gemm *gemm) {
  const gemm_problem *problem = &gemm->problem;
  if (problem->n >= problem->m || problem->k > TURNED_DEPTH) return false;
  if (problem->n % problem->type->columns == 0 && gemm->identity) return false;
  const int64_t filled = cpu_round_up(problem->n, problem->type->lanes);
  return problem->n < problem->type->lanes || 3 * filled > 4 * problem->n ||
         problem->k < LEAST_TILED || !gemm_ends_in_tile(gemm);
}

compute_status gemm_narrow_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                  const char **reason) {
  (void)descriptor;
  cpu_gemm *gemm = (cpu_gemm *)kernel;
  gemm_problem *problem = &gemm->problem;
  *reason = refuse(gemm);
  if (*reason && pays_turned(gemm)) {
    gemm_problem_swap(problem);
    if (refuse(gemm))
      gemm_problem_swap(problem);
    else
      *reason = NULL;
  }
  if (*reason) return COMPUTE_OK;
  /* A line of one element has any stride. */
  if (problem->k == 1 && problem->b.column != 1) problem->b.row = 1;
  kernel->run = narrow_run;
  snprintf(kernel->description, sizeof kernel->description, "gemm narrow %s, %lldx%lld by %lld",
           kernel->device->isa->name, (long long)problem->m, (long long)problem->k,
           (long long)problem->n);
  return COMPUTE_OK;
}
