/* Makes the kernel of a matrix multiplication: reads the descriptor, prepares the epilogue and asks
 * the implementations in order of preference. The first that accepts runs it; the reasons of those
 * that refused go to the log. */
#include <stdio.h>

#include "gemm.h"

typedef struct implementation {
  const char *name;
  bool (*accept)(cpu_gemm *gemm, char *reason, size_t reason_bytes);
} implementation;

/* Measured against OpenBLAS 0.3.21, the own kernels are ahead wherever they have vectors of their
 * own. OpenBLAS comes first where ours are only the baseline's, or where COMPUTE_BLAS asks for a
 * library by name. */
static const implementation own_first[] = {{"own", gemm_own_accept}};
static const implementation blas_first[] = {{"OpenBLAS", gemm_blas_accept},
                                            {"own", gemm_own_accept}};

static compute_status run_nothing(const cpu_kernel *kernel, void *const *pointers) {
  (void)kernel;
  (void)pointers;
  return COMPUTE_OK;
}

static void destroy(cpu_kernel *kernel) {
  cpu_gemm *gemm = (cpu_gemm *)kernel;
  cpu_program_release(kernel->device, gemm->epilogue);
  cpu_release(kernel->device, gemm);
}

/* outputs[0] may hold the sums when it has their dtype and dense rows that do not overlap. With
 * several outputs the epilogue might store the first before it has read the sums for the second. */
static bool sums_may_be_in_place(const cpu_gemm *gemm) {
  const gemm_problem *problem = &gemm->problem;
  const gemm_operand *c = &problem->output[0];
  return problem->output_count == 1 && c->dtype == problem->accumulate &&
         (c->column == 1 || problem->n == 1) && (c->row >= problem->n || problem->m == 1);
}

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

static bool is_supported(const compute_kernel_descriptor *descriptor) {
  const bool integer =
      descriptor->accumulate == COMPUTE_I64 || descriptor->accumulate == COMPUTE_I32;
  if (!integer)
    return descriptor->accumulate == COMPUTE_F64 || descriptor->accumulate == COMPUTE_F32;
  for (int i = 0; i < 2; i++)
    if (descriptor->inputs[i].dtype < COMPUTE_I64) return false;
  return true;
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

static void choose(cpu_gemm *gemm) {
  const compute_services *services = gemm->head.device->services;
  const bool blas = gemm->head.device->isa->vector_bytes < 32 ||
                    services->variable(services->host, "COMPUTE_BLAS");
  const implementation *list = blas ? blas_first : own_first;
  char reason[128] = "";
  for (; !list->accept(gemm, reason, sizeof reason); list++)
    services->log(services->host, COMPUTE_LOG_DEBUG, "cpu", "gemm: not with %s: %s", list->name,
                  reason);
}

compute_status cpu_gemm_prepare(cpu_device *device, const compute_kernel_descriptor *descriptor,
                                cpu_kernel **kernel) {
  if (!is_supported(descriptor))
    return device->services->fail(device->services->host, COMPUTE_ERROR_UNSUPPORTED, 0, NULL,
                                  "cpu: matrix multiplication cannot sum these dtypes as asked");
  cpu_gemm *gemm = cpu_allocate(device, sizeof *gemm);
  if (!gemm) return cpu_out_of_memory(device, sizeof *gemm);
  gemm->head.device = device;
  gemm->head.destroy = destroy;
  gemm_problem_read(descriptor, device->isa->gemm, &gemm->problem);
  const gemm_problem *problem = &gemm->problem;
  const compute_status status = prepare_epilogue(gemm, descriptor);
  if (status) {
    destroy(&gemm->head);
    return status;
  }
  if (problem->batches == 0 || problem->m == 0 || problem->n == 0) {
    gemm->head.run = run_nothing;
    snprintf(gemm->head.description, sizeof gemm->head.description, "gemm of no elements");
  } else {
    gemm->identity = cpu_program_is_identity(gemm->epilogue);
    gemm->in_place = sums_may_be_in_place(gemm);
    for (uint32_t i = 0; i < problem->extra_count; i++)
      gemm->span[i] = gemm_problem_span(problem, &problem->extra[i]);
    gemm->output_span = gemm_problem_span(problem, &problem->output[0]);
    choose(gemm);
  }
  *kernel = &gemm->head;
  return COMPUTE_OK;
}
