/* Constant folding: parts of a graph that depend on constants alone are computed when compiling. */
#ifndef PLAN_FOLD_H
#define PLAN_FOLD_H

#include "plan/capture/ir.h"

typedef struct folding {
  ir_folded *values; /* in scratch memory */
  uint32_t count;
  compute_tensor **tensors; /* hold the values; release with fold_release */
} folding;

/* Finds and computes them on the context's CPU device, for a plan with these `kernels`
 * (ir_capture). What cannot be computed stays as it is. */
compute_status fold_constants(const compute_graph *graph, const uint32_t *outputs,
                              uint32_t output_count, const compute_device *kernels, scratch *memory,
                              folding *result);
void fold_release(folding *f);

#endif
