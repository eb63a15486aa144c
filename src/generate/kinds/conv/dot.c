/* Few results, each of many terms (the gradient of a depthwise filter): a group for each result, or
 * on a CPU an item; the text is kernels/conv_dot.h. */
#include <stdio.h>

#include "generate/kinds/conv/conv.h"

static void define(generation *g, conv_problem *p, bool alone) {
  conv_define(g, p);
  gemm_define_number(g, "ALONE", alone);
  gemm_define_number(g, alone ? "LANES" : "GROUP", alone ? g->tuning.vector : g->tuning.group_x);
  text_add(&g->definitions, "#define TERM_STEP %s\n",
           p->by_term[1] * p->data_plane[1] == 1 ? "1" : "shape.term_step");
}

compute_status conv_emit_dot(generation *g, conv_problem *p) {
  const compute_tuning *t = &g->tuning;
  const bool alone = emit_for_cpu(g);
  const uint32_t group = alone ? 1 : t->group_x;
  const int64_t results = p->positions * p->channels;
  const conv_parts parts = conv_cut(p, alone ? 1 : t->groups, group);
  if (results > INT32_MAX)
    return emit_refuse(g, "the convolution has too many results for one launch");
  define(g, p, alone);
  emit_launch *launch = gemm_launch(g, &p->product, "conv_dot", group, results, parts.count);
  if (!launch) return COMPUTE_OK;
  conv_take(g, launch, p);
  if (parts.count > 1)
    gemm_take_parts(g, launch, &p->product, parts.count);
  else
    conv_take_epilogue(g, launch, p);
  emit_field_divisor(g, launch, "columns", p->product.n);
  emit_field_index(g, launch, "term_step", p->by_term[1] * p->data_plane[1]);
  text_buffer *text = &launch->body;
  if (!alone)
    text_add(text, "LOCAL_ARRAY(SUM, scratch, GROUP);\nconst int item = (int)LOCAL_ID_X;\n");
  text_add(text, "const INDEX row = DIVIDE((INDEX)GROUP_ID_X, shape.columns);\n"
                 "const INDEX column = (INDEX)GROUP_ID_X - row * shape.columns;\n");
  conv_begin_batches(g, launch, p);
  if (p->phased) text_add(text, "if (POSITION >= POSITIONS) continue;\n");
  if (!alone) conv_find_part(g, launch, &parts);
  text_add(text, "{\n");
  emit_template(g, text, "conv_dot.h");
  if (!alone) text_add(text, "if (item == 0) {\n");
  if (parts.count > 1)
    text_add(text, "partial[((batch * (INDEX)GROUP_COUNT_Y + (INDEX)GROUP_ID_Y) * ROWS + row) * "
                   "COLUMNS + column] = scratch[0];\n");
  else
    conv_store(g, text, p, "scratch[0]");
  text_add(text, alone ? "}\n}\n" : "}\nBARRIER();\n}\n}\n");
  if (parts.count > 1) conv_emit_combine(g, p, &parts);
  if (alone)
    snprintf(g->text, sizeof g->text, "convolution by dot products of %u lanes",
             (unsigned)t->vector);
  else
    snprintf(g->text, sizeof g->text, "convolution by dot products, %u items for each",
             (unsigned)group);
  return COMPUTE_OK;
}
