/* SPDX-License-Identifier: MIT */
/* Creates the kernel of a matrix multiplication: reads the descriptor, prepares the epilogue and
 * asks the implementations in order of preference. The first one that accepts runs the kernel; the
 * log gets the reasons of those that refuse. */
#include <stdio.h>

#include "gemm.h"
#include "program/pattern.h"

/* OpenBLAS comes first if COMPUTE_BLAS names a library. Its sums depend on the number of rows. */
static const cpu_implementation own_first[] = {{"narrow", gemm_narrow_accept},
                                               {"narrow bytes", gemm_narrow_bytes_accept},
                                               {"own", gemm_own_accept},
                                               {NULL, NULL}};
static const cpu_implementation blas_first[] = {{"OpenBLAS", gemm_blas_accept},
                                                {"narrow", gemm_narrow_accept},
                                                {"narrow bytes", gemm_narrow_bytes_accept},
                                                {"own", gemm_own_accept},
                                                {NULL, NULL}};

static void clear(cpu_kernel *kernel) {
  cpu_program_release(kernel->device, ((cpu_gemm *)kernel)->epilogue);
}

/* outputs[0] may hold the sums if it has their dtype and dense rows that do not overlap. With
 * several outputs, the epilogue might store the first before it has read the sums for the
 * second. */
static bool sums_may_be_in_place(const cpu_gemm *gemm) {
  const gemm_problem *problem = &gemm->problem;
  const gemm_operand *c = &problem->output[0];
  return problem->output_count == 1 && c->dtype == problem->accumulate &&
         (c->column == 1 || problem->n == 1) && (c->row >= problem->n || problem->m == 1);
}

static const char *refuse_descriptor(const compute_kernel_descriptor *descriptor) {
  static const char *const reason = "unsupported combination of dtypes";
  const compute_dtype sum = descriptor->accumulate;
  if (sum == COMPUTE_F64 || sum == COMPUTE_F32) return NULL;
  if (sum != COMPUTE_I64 && sum != COMPUTE_I32) return reason;
  for (int i = 0; i < 2; i++)
    if (cpu_dtype_is_float(descriptor->inputs[i].dtype)) return reason;
  return NULL;
}

static compute_status prepare_epilogue(cpu_gemm *gemm,
                                       const compute_kernel_descriptor *descriptor) {
  compute_dtype inputs[COMPUTE_MAX_OPERANDS], outputs[COMPUTE_MAX_OPERANDS];
  inputs[0] = descriptor->accumulate;
  for (uint32_t i = 2; i < descriptor->input_count; i++)
    inputs[i - 1] = descriptor->inputs[i].dtype;
  for (uint32_t i = 0; i < descriptor->output_count; i++) outputs[i] = descriptor->outputs[i].dtype;
  return cpu_program_prepare(gemm->head.device, &descriptor->epilogue, descriptor->input_count - 1,
                             inputs, descriptor->output_count, outputs, &gemm->epilogue);
}

/* The number by which the epilogue multiplies the sums, if it does nothing else; otherwise 0. */
static float factor_of(const cpu_gemm *gemm, const compute_kernel_descriptor *descriptor) {
  static const compute_dtype sum = COMPUTE_F32;
  cpu_match match;
  if (gemm->identity) return 1;
  if (descriptor->accumulate != sum || descriptor->input_count != 2 ||
      descriptor->output_count != 1 || descriptor->outputs[0].dtype != sum ||
      !cpu_pattern_match(EITHER(MUL(FIRST, NUMBER(0))), &descriptor->epilogue, &sum, sum, &match))
    return 0;
  return match.number[0];
}

/* True if a product of few columns should keep its rows: register tiles of one vector need no sums
 * over lanes, unlike dot products of the columns. With AVX2 on two cores, 1000×100 by 100×8 took
 * 47 µs as dot products and takes 21 µs. A longer k is read at the speed of memory either way. */
static bool keeps_rows(const cpu_gemm *gemm) {
  enum { LEAST_ROWS = 17, LEAST_COLUMNS = 4, MOST_DEPTH = 512 };
  const gemm_problem *problem = &gemm->problem;
  return problem->type->group == 1 && problem->a.dtype == problem->accumulate &&
         problem->b.dtype == problem->accumulate && problem->n < problem->m &&
         problem->m >= LEAST_ROWS &&
         problem->n >= cpu_max(problem->type->lanes / 2, LEAST_COLUMNS) &&
         problem->k <= MOST_DEPTH && problem->a.column == 1 && problem->output[0].column == 1 &&
         gemm_ends_in_tile(gemm);
}

static void choose_sides(cpu_gemm *gemm) {
  if (!gemm->problem.swapped || gemm->problem.dots) return;
  gemm_problem_swap(&gemm->problem);
  if (!keeps_rows(gemm)) gemm_problem_swap(&gemm->problem);
}

static compute_status choose(cpu_gemm *gemm, const compute_kernel_descriptor *descriptor) {
  const bool blas = !gemm->filled && !gemm->even && cpu_blas_is_used(gemm->head.device);
  return cpu_implementation_choose(blas ? blas_first : own_first, &gemm->head, descriptor);
}

compute_status gemm_prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  cpu_gemm *gemm = (cpu_gemm *)head;
  gemm_problem_read(descriptor, head->device->isa->gemm, gemm->filled, &gemm->problem);
  const gemm_problem *problem = &gemm->problem;
  gemm->problem.strict |= gemm->even;
  const compute_status status = prepare_epilogue(gemm, descriptor);
  if (status) return status;
  if (problem->batches == 0 || problem->m == 0 || problem->n == 0) {
    head->run = cpu_run_nothing;
    snprintf(head->description, sizeof head->description, "gemm of no elements");
    return COMPUTE_OK;
  }
  gemm->identity = cpu_program_is_identity(gemm->epilogue);
  choose_sides(gemm);
  gemm->factor = factor_of(gemm, descriptor);
  gemm->in_place = sums_may_be_in_place(gemm);
  for (uint32_t i = 0; i < problem->extra_count; i++)
    gemm->span[i] = gemm_problem_span(problem, &problem->extra[i]);
  gemm->output_span = gemm_problem_span(problem, &problem->output[0]);
  gemm->constant_b = (descriptor->constant_inputs >> (problem->swapped ? 0 : 1) & 1) != 0;
  return choose(gemm, descriptor);
}

const cpu_kind cpu_gemm_kind = {.name = "gemm",
                                .refuse = refuse_descriptor,
                                .bytes = sizeof(cpu_gemm),
                                .prepare = gemm_prepare,
                                .packed_bytes = gemm_packed_bytes,
                                .pack = gemm_pack,
                                .clear = clear};

static compute_status prepare_even(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  ((cpu_gemm *)head)->even = true;
  return gemm_prepare(head, descriptor);
}

const cpu_kind cpu_even_gemm_kind = {.name = "gemm",
                                     .refuse = refuse_descriptor,
                                     .bytes = sizeof(cpu_gemm),
                                     .prepare = prepare_even,
                                     .packed_bytes = gemm_packed_bytes,
                                     .pack = gemm_pack,
                                     .clear = clear};
