/* The kind GEMM: reads the descriptor, settles on a variant with its parameters, and has it
 * written.
 */
#include "generate/kinds/gemm/gemm.h"

compute_status gemm_emit(generation *g, gemm_problem *problem) {
  if (problem->accumulate == COMPUTE_F64 && !emit_has(g, COMPUTE_TARGET_F64))
    return emit_refuse(g, "the device has no f64 arithmetic");
  if (problem->batches == 0 || problem->m == 0 || problem->n == 0) return COMPUTE_OK;
  const compute_status status = gemm_choose(g, problem);
  if (status) return status;
  g->wide = gemm_problem_is_wide(problem);
  switch ((gemm_variant)g->tuning.variant) {
  case GEMM_TILED:
  case GEMM_SPLIT:
  case GEMM_MATRIX: return gemm_emit_tiled(g, problem);
  case GEMM_DOT: return gemm_emit_dot(g, problem);
  case GEMM_DIRECT:
  case GEMM_PACKED: return gemm_emit_direct(g, problem);
  case GEMM_PLAIN: break;
  }
  return gemm_emit_plain(g, problem);
}

compute_status emit_gemm(generation *g) {
  gemm_problem problem;
  emit_gemm_read(g, &problem);
  return gemm_emit(g, &problem);
}
