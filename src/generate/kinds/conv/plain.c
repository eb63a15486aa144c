/* One item for each result, any strides: what the other variants fall back to, and what tiny
 * convolutions are best served with, since one source does for all their shapes. */
#include <stdio.h>

#include "generate/kinds/conv/conv.h"

compute_status conv_emit_plain(generation *g, conv_problem *p) {
  const uint32_t group = g->tuning.group_x;
  const int64_t elements = p->positions * p->channels;
  const int64_t groups = (elements + group - 1) / group;
  if (groups > INT32_MAX)
    return emit_refuse(g, "the convolution has too many results for one launch");
  conv_define(g, p);
  emit_launch *launch = gemm_launch(g, &p->product, "conv_plain", group, groups, 1);
  if (!launch) return COMPUTE_OK;
  conv_take(g, launch, p);
  conv_take_epilogue(g, launch, p);
  emit_field_index(g, launch, "elements", elements);
  emit_field_divisor(g, launch, "columns", p->product.n);
  text_buffer *text = &launch->body;
  text_add(text,
           "const INDEX index = (INDEX)GROUP_ID_X * %u + (INDEX)LOCAL_ID_X;\n"
           "if (index >= shape.elements) return;\n"
           "const INDEX row = DIVIDE(index, shape.columns);\n"
           "const INDEX column = index - row * shape.columns;\n",
           (unsigned)group);
  conv_begin_batches(g, launch, p);
  if (p->phased) text_add(text, "if (POSITION >= POSITIONS) continue;\n");
  text_add(text, "SUM sum = 0;\n{\n");
  emit_template(g, text, "conv_sum.h");
  text_add(text, "}\n");
  conv_store(g, text, p, "sum");
  text_add(text, "}\n");
  snprintf(g->text, sizeof g->text, "plain convolution, one item for each result");
  return COMPUTE_OK;
}
