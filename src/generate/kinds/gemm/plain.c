/* One item for each element of C, any strides: what the other variants fall back to, and what tiny
 * products are best served with, since one source does for all their shapes and layouts. */
#include <stdio.h>

#include "generate/kinds/gemm/gemm.h"

compute_status gemm_emit_plain(generation *g, gemm_problem *problem) {
  const uint32_t group = g->tuning.group_x;
  const int64_t elements = problem->m * problem->n;
  const int64_t groups = (elements + group - 1) / group;
  if (groups > INT32_MAX) return emit_refuse(g, "the product has too many elements for one launch");
  gemm_define(g, problem, true);
  emit_launch *launch = gemm_launch(g, problem, "gemm_plain", group, groups, 1);
  if (!launch) return COMPUTE_OK;
  gemm_take_factors(g, launch, problem);
  gemm_take_epilogue(g, launch, problem);
  gemm_fields(g, launch, problem);
  emit_field_index(g, launch, "elements", elements);
  gemm_store_fields(g, launch, problem);
  text_buffer *text = &launch->body;
  text_add(text,
           "const INDEX index = (INDEX)GROUP_ID_X * %u + (INDEX)LOCAL_ID_X;\n"
           "if (index >= shape.elements) return;\n"
           "const INDEX row = DIVIDE(index, shape.n);\n"
           "const INDEX column = index - row * shape.n;\n",
           (unsigned)group);
  gemm_begin_batches(g, launch, problem);
  text_add(text, "INDEX at_a = batch_a + row * A_ROW, at_b = batch_b + column * B_COLUMN;\n"
                 "SUM sum = 0;\n"
                 "for (INDEX p = 0; p < shape.k; p++) {\n"
                 "sum = SUM_MAD(LOAD_A(at_a), LOAD_B(at_b), sum);\n"
                 "at_a += A_K;\n"
                 "at_b += B_K;\n"
                 "}\n");
  gemm_store(g, text, problem, "sum");
  text_add(text, "}\n");
  snprintf(g->text, sizeof g->text, "plain GEMM, one item for each element");
  return COMPUTE_OK;
}
