/* The kind CONV: reads the descriptor, settles on a variant with its parameters, and has it
 * written. */
#include "generate/kinds/conv/conv.h"

compute_status emit_conv(generation *g) {
  conv_problem problem;
  gemm_problem product;
  if (!conv_read(g, &problem)) return COMPUTE_OK;
  if (problem.product.accumulate == COMPUTE_F64 && !emit_has(g, COMPUTE_TARGET_F64))
    return emit_refuse(g, "the device has no f64 arithmetic");
  if (conv_read_product(g, &problem, &product)) return gemm_emit(g, &product);
  const compute_status status = conv_choose(g, &problem);
  if (status) return status;
  g->wide = conv_problem_is_wide(g, &problem);
  switch ((conv_variant)g->tuning.variant) {
  case CONV_TILED:
  case CONV_SPLIT: return conv_emit_tiled(g, &problem);
  case CONV_DOT: return conv_emit_dot(g, &problem);
  case CONV_DIRECT: return conv_emit_direct(g, &problem);
  case CONV_PACKED: return conv_emit_packed(g, &problem);
  case CONV_PLAIN: break;
  }
  return conv_emit_plain(g, &problem);
}
