/* Few channels for each group (depthwise convolutions): there is nothing to share between channels,
 * and the work is to read the data once. An item takes a stretch of a row of results, for which a
 * weight is read once; the text is kernels/conv_direct.h. */
#include <stdio.h>

#include "generate/kinds/conv/conv.h"

compute_status conv_emit_direct(generation *g, conv_problem *p) {
  const compute_tuning *t = &g->tuning;
  const int64_t lines = p->position_size[0] * p->position_size[1];
  const int64_t stretches = (p->position_size[2] + t->item_m - 1) / t->item_m;
  const int64_t items = p->channels * lines * stretches;
  const int64_t groups = (items + t->group_x - 1) / t->group_x;
  const int64_t step = p->by_position[1] * p->data_plane[1];
  if (groups > INT32_MAX)
    return emit_refuse(g, "the convolution has too many results for one launch");
  conv_define(g, p);
  gemm_define_number(g, "ITEM_M", t->item_m);
  text_add(&g->definitions, "#define POSITION_STEP %s\n", step == 1 ? "1" : "shape.step");
  emit_launch *launch = gemm_launch(g, &p->product, "conv_direct", t->group_x, groups, 1);
  if (!launch) return COMPUTE_OK;
  conv_take(g, launch, p);
  conv_take_epilogue(g, launch, p);
  emit_field_index(g, launch, "items", items);
  emit_field_divisor(g, launch, "lines", lines);
  emit_field_divisor(g, launch, "stretches", stretches);
  emit_field_divisor(g, launch, "step_v", p->by_position[1]);
  emit_field_index(g, launch, "step", step);
  text_buffer *text = &launch->body;
  text_add(text,
           "const INDEX index = (INDEX)GROUP_ID_X * %u + (INDEX)LOCAL_ID_X;\n"
           "if (index >= shape.items) return;\n"
           "const INDEX place = DIVIDE(index, shape.stretches);\n"
           "const INDEX first = (index - place * shape.stretches) * ITEM_M;\n"
           "const INDEX %s = DIVIDE(place, shape.lines);\n"
           "const INDEX line = place - %s * shape.lines;\n",
           (unsigned)t->group_x, p->position_columns ? "row" : "column",
           p->position_columns ? "row" : "column");
  conv_begin_batches(g, launch, p);
  if (p->phased) text_add(text, "if (line >= shape.m0 * SIZE_M1 || first >= SIZE_M2) continue;\n");
  text_add(text, "const INDEX count = SIZE_M2 - first < ITEM_M ? SIZE_M2 - first : ITEM_M;\n");
  emit_template(g, text, "conv_direct.h");
  text_add(text, emit_for_cpu(g) ? "INDEPENDENT for (INDEX i = 0; i < count; i++) {\n"
                                 : "UNROLL for (int i = 0; i < ITEM_M; i++) {\n"
                                   "if (i < count) {\n");
  text_add(text, "const INDEX m2 = first + i;\n");
  conv_store_at(g, text, p, "sum[i]");
  text_add(text, emit_for_cpu(g) ? "}\n}\n" : "}\n}\n}\n");
  snprintf(g->text, sizeof g->text, "direct convolution, %u results per item", (unsigned)t->item_m);
  return COMPUTE_OK;
}
