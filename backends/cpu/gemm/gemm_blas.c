/* SPDX-License-Identifier: MIT */
/* The implementation that calls OpenBLAS: single-threaded, from our threads, on disjoint tiles of
 * C.
 *
 * Every call packs its part of A and B again, so tiles are as large as possible: C is cut once per
 * thread, along its longer side. A task computes C in panels of rows that stay in the cache for the
 * epilogue. A panel is so high that packing B again for each costs little. */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gemm.h"

enum {
  LEAST_PANEL_ROWS = 256, /* packing B again costs a few hundredths of the product */
  PANEL_BYTES = 512 << 10,
  LEAST_TILE = 64 /* rows or columns */
};

typedef struct blas_launch {
  const cpu_gemm *gemm;
  const cpu_blas_functions *functions;
  void *const *pointers;
  unsigned char *scratch;
  uint64_t worker_bytes;
} blas_launch;

/* One operand in CBLAS terms. */
typedef struct blas_operand {
  const unsigned char *data;
  int transpose, leading;
} blas_operand;

static blas_operand describe_operand(const gemm_operand *operand, const unsigned char *data,
                                     int64_t row, int64_t column, int64_t rows, int64_t columns) {
  const bool plain = operand->column == 1;
  const int64_t leading = plain ? operand->row : operand->column;
  const int64_t least = cpu_max(plain ? columns : rows, 1);
  return (blas_operand){
      .data = data + (row * operand->row + column * operand->column) * operand->size,
      .transpose = plain ? CPU_BLAS_PLAIN : CPU_BLAS_TRANSPOSED,
      /* A single row's stride may be anything; CBLAS requires at least a row's length. */
      .leading = (int)cpu_max(leading, least)};
}

/* sums (m × n) = A's rows from `row` on · B's columns from `column` on. */
static void call_gemm(const blas_launch *launch, const gemm_matrix *matrix, int64_t row,
                      int64_t column, int64_t m, int64_t n, void *sums, int64_t sums_row) {
  const gemm_problem *problem = &launch->gemm->problem;
  const int64_t k = problem->k;
  const blas_operand a = describe_operand(&problem->a, matrix->a, row, 0, m, k);
  const blas_operand b = describe_operand(&problem->b, matrix->b, 0, column, k, n);
  const int leading = (int)cpu_max(sums_row, n);
  if (problem->accumulate == COMPUTE_F32)
    launch->functions->sgemm(CPU_BLAS_ROW_MAJOR, a.transpose, b.transpose, (int)m, (int)n, (int)k,
                             1.0f, (const float *)(const void *)a.data, a.leading,
                             (const float *)(const void *)b.data, b.leading, 0.0f, sums, leading);
  else
    launch->functions->dgemm(CPU_BLAS_ROW_MAJOR, a.transpose, b.transpose, (int)m, (int)n, (int)k,
                             1.0, (const double *)(const void *)a.data, a.leading,
                             (const double *)(const void *)b.data, b.leading, 0.0, sums, leading);
}

static void blas_task(void *argument, int64_t task, int32_t worker) {
  const blas_launch *launch = argument;
  const cpu_gemm *gemm = launch->gemm;
  const gemm_problem *problem = &gemm->problem;
  const int64_t tiles = gemm->blas_tiles_m * gemm->blas_tiles_n;
  const int64_t tile_m = task % tiles / gemm->blas_tiles_n, tile_n = task % gemm->blas_tiles_n;
  const int64_t end = problem->m * (tile_m + 1) / gemm->blas_tiles_m;
  const int64_t column = problem->n * tile_n / gemm->blas_tiles_n;
  const int64_t columns = problem->n * (tile_n + 1) / gemm->blas_tiles_n - column;
  const gemm_operand *c = &problem->output[0];
  const int threads_before = cpu_blas_enter();
  gemm_matrix matrix;
  gemm_problem_matrix(problem, launch->pointers, task / tiles, &matrix);
  for (int64_t row = problem->m * tile_m / gemm->blas_tiles_m; row < end; row += gemm->blas_rows) {
    const int64_t rows = cpu_min(gemm->blas_rows, end - row);
    unsigned char *sums = launch->scratch
                              ? launch->scratch + (uint64_t)worker * launch->worker_bytes
                              : matrix.output[0] + (row * c->row + column) * c->size;
    const int64_t sums_row = launch->scratch ? columns : c->row;
    call_gemm(launch, &matrix, row, column, rows, columns, sums, sums_row);
    if (launch->scratch || !gemm->identity)
      gemm_epilogue_run(gemm, &matrix, sums, sums_row, row, rows, column, columns);
  }
  cpu_blas_leave(threads_before);
}

static compute_status blas_run(const cpu_kernel *kernel, void *const *pointers) {
  const cpu_gemm *gemm = (const cpu_gemm *)kernel;
  const gemm_problem *problem = &gemm->problem;
  cpu_device *device = kernel->device;
  blas_launch launch = {.gemm = gemm, .functions = cpu_blas_open(device), .pointers = pointers};
  const int64_t tasks = problem->batches * gemm->blas_tiles_m * gemm->blas_tiles_n;
  if (!gemm_sums_in_place(gemm, pointers)) {
    const int64_t columns = cpu_divide_up(problem->n, gemm->blas_tiles_n);
    const uint64_t elements = (uint64_t)(gemm->blas_rows * columns + 63) & ~(uint64_t)63;
    launch.worker_bytes = elements * problem->size;
    const uint64_t workers = tasks == 1 ? 1 : (uint64_t)device->threads;
    launch.scratch = cpu_workspace_acquire(device, workers * launch.worker_bytes);
    if (!launch.scratch) return cpu_out_of_memory(device, workers * launch.worker_bytes);
  }
  cpu_parallel(device, tasks, blas_task, &launch);
  cpu_workspace_return(device, launch.scratch);
  return COMPUTE_OK;
}

static compute_status refuse(const char **reason, const char *text) {
  *reason = text;
  return COMPUTE_OK;
}

/* CBLAS requires one stride to be 1, and the other at least the length of a row or column. */
static bool operand_fits(const gemm_operand *operand, int64_t rows, int64_t columns) {
  const int64_t leading = operand->column == 1 ? operand->row : operand->column;
  if (operand->column == 1) return leading <= INT_MAX && (leading >= columns || rows == 1);
  return operand->row == 1 && leading <= INT_MAX && (leading >= rows || columns == 1);
}

/* One task per thread, along the longer side, if each is large enough to repay a call. */
static void choose_tiles(cpu_gemm *gemm) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t threads = gemm->head.device->threads;
  const int64_t wanted = cpu_divide_up(threads, problem->batches);
  const double products = (double)problem->m * (double)problem->n * (double)problem->k;
  const double useful = products / (64.0 * 64.0 * 64.0);
  const int64_t tiles = useful < (double)wanted ? cpu_max((int64_t)useful, 1) : wanted;
  gemm->blas_tiles_m = gemm->blas_tiles_n = 1;
  if (problem->m >= problem->n)
    gemm->blas_tiles_m = cpu_min(tiles, cpu_divide_up(problem->m, LEAST_TILE));
  else
    gemm->blas_tiles_n = cpu_min(tiles, cpu_divide_up(problem->n, LEAST_TILE));
  const int64_t columns = cpu_divide_up(problem->n, gemm->blas_tiles_n);
  const int64_t rows = cpu_divide_up(problem->m, gemm->blas_tiles_m);
  const int64_t fitting =
      cpu_max(PANEL_BYTES / (columns * (int64_t)problem->size), LEAST_PANEL_ROWS);
  gemm->blas_rows =
      gemm->identity && gemm->in_place ? rows : cpu_divide_up(rows, cpu_divide_up(rows, fitting));
}

compute_status gemm_blas_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                const char **reason) {
  (void)descriptor;
  cpu_gemm *gemm = (cpu_gemm *)kernel;
  const gemm_problem *problem = &gemm->problem;
  if (problem->accumulate != COMPUTE_F32 && problem->accumulate != COMPUTE_F64)
    return refuse(reason, "integers");
  if (problem->a.dtype != problem->accumulate || problem->b.dtype != problem->accumulate)
    return refuse(reason, "operands need a conversion");
  if (problem->m > INT_MAX || problem->n > INT_MAX || problem->k > INT_MAX)
    return refuse(reason, "a size past 2^31");
  if (problem->k == 0) return refuse(reason, "nothing to multiply");
  if (!operand_fits(&problem->a, problem->m, problem->k) ||
      !operand_fits(&problem->b, problem->k, problem->n))
    return refuse(reason, "strides that CBLAS cannot express");
  if (gemm->in_place && problem->output[0].row > INT_MAX)
    return refuse(reason, "a row stride past 2^31");
  if ((double)problem->m * (double)problem->n * (double)problem->k < 32.0 * 32.0 * 32.0)
    return refuse(reason, "too small for a library call");
  if (!cpu_blas_open(gemm->head.device))
    return refuse(reason, cpu_blas_describe(gemm->head.device));
  choose_tiles(gemm);
  gemm->head.run = blas_run;
  snprintf(gemm->head.description, sizeof gemm->head.description,
           "gemm OpenBLAS %s %cgemm, %lldx%lld tiles of %lldx%lld",
           cpu_blas_core(gemm->head.device), problem->accumulate == COMPUTE_F32 ? 's' : 'd',
           (long long)gemm->blas_tiles_m, (long long)gemm->blas_tiles_n,
           (long long)cpu_divide_up(problem->m, gemm->blas_tiles_m),
           (long long)cpu_divide_up(problem->n, gemm->blas_tiles_n));
  return COMPUTE_OK;
}
