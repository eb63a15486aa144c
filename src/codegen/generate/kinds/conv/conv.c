/* SPDX-License-Identifier: MIT */
/* The kind CONV, and its forms without tiles or panels: an item for each result (PLAIN), an item
 * for a stretch of a row of results (DIRECT), and a group for each result (DOT). DOT is for few
 * results with many terms, as in the gradient of a depthwise filter. */
#include "codegen/generate/kinds/conv/conv.h"

#include <stdio.h>

enum { LONG_SUM = 256 }; /* terms; fewer do not pay for a group, or a part */

static bool has_local(const generation *g) {
  return !emit_for_cpu(g) && emit_has(g, COMPUTE_TARGET_FAST_LOCAL);
}

/* With few channels or positions, the items of a tile share no loads. */
static bool is_narrow(const conv_problem *p) {
  return p->channels < 2 * CONV_FEW_CHANNELS || p->positions < 2 * CONV_FEW_CHANNELS;
}

/* ---- An item for each result --------------------------------------------------------------- */

/* Any strides, and one source for all shapes: the fallback of the other forms. */
static compute_status write_plain(generation *g, void *of) {
  conv_problem *p = of;
  const uint32_t group = g->tuning.group_x;
  const int64_t elements = p->positions * p->channels;
  const int64_t groups = (elements + group - 1) / group;
  if (groups > INT32_MAX)
    return emit_refuse(g, "the convolution has too many results for one launch");
  conv_define(g, p);
  gemm_define_parts(g, p->product.accumulate, p->terms, false);
  emit_launch *launch = gemm_launch(g, &p->product, "conv_plain", group, groups, 1);
  if (!launch) return COMPUTE_OK;
  conv_take(g, launch, p);
  conv_take_epilogue(g, launch, p);
  emit_field_index(g, launch, "elements", elements);
  emit_field_divisor(g, launch, "columns", p->product.n);
  text_buffer *text = &launch->body;
  gemm_begin_element(text, group, "columns");
  conv_begin_batches(g, launch, p);
  if (p->phased) text_add(text, "if (POSITION >= POSITIONS) continue;\n");
  text_add(text, "SUM sum = 0;\n{\n");
  emit_template(g, text, "conv_sum");
  text_add(text, "}\n");
  conv_store(g, text, p, "sum");
  text_add(text, "}\n");
  snprintf(g->text, sizeof g->text, "plain convolution, one item for each result");
  return COMPUTE_OK;
}

static compute_status accept_plain(generation *g, void *of) {
  (void)of;
  emit_default(&g->tuning.group_x, min_u32(64, emit_group_limit(g)));
  return conv_check_group(g);
}

static const emit_form plain = {CONV_PLAIN, NULL, accept_plain, write_plain};

/* ---- An item for a stretch of a row -------------------------------------------------------- */

static compute_status accept_direct(generation *g, void *of) {
  const conv_problem *p = of;
  compute_tuning *t = &g->tuning;
  uint32_t results = emit_for_cpu(g) ? 64 : 4;
  while (results > 1 && results / 2 >= p->position_size[2]) results /= 2;
  emit_default(&t->item_m, results);
  emit_default(&t->group_x, emit_for_cpu(g) ? 1 : min_u32(64, emit_group_limit(g)));
  if (t->item_m > (emit_for_cpu(g) ? 1024u : 16u))
    return emit_refuse(g, "%u results are too many for an item", (unsigned)t->item_m);
  return conv_check_group(g);
}

static compute_status write_direct(generation *g, void *of) {
  conv_problem *p = of;
  const compute_tuning *t = &g->tuning;
  const int64_t lines = p->position_size[0] * p->position_size[1];
  const int64_t stretches = (p->position_size[2] + t->item_m - 1) / t->item_m;
  const int64_t items = p->channels * lines * stretches;
  const int64_t groups = (items + t->group_x - 1) / t->group_x;
  const int64_t step = p->by_position[1] * p->data_plane[1];
  if (groups > INT32_MAX)
    return emit_refuse(g, "the convolution has too many results for one launch");
  conv_define(g, p);
  gemm_define_parts(g, p->product.accumulate, p->terms, false);
  emit_constant(g, "ITEM_M", t->item_m);
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
  emit_template(g, text, "conv_direct");
  text_add(text, emit_for_cpu(g) ? "INDEPENDENT for (INDEX i = 0; i < count; i++) {\n"
                                 : "UNROLL for (int i = 0; i < ITEM_M; i++) {\n"
                                   "if (i < count) {\n");
  text_add(text, "const INDEX m2 = first + i;\n");
  conv_store_at(g, text, p, "sum[i]");
  text_add(text, emit_for_cpu(g) ? "}\n}\n" : "}\n}\n}\n");
  snprintf(g->text, sizeof g->text, "direct convolution, %u results per item", (unsigned)t->item_m);
  return COMPUTE_OK;
}

static bool direct_suits(const generation *g, const void *of) {
  const conv_problem *p = of;
  if (p->terms == 0) return false;
  if (emit_for_cpu(g)) return !conv_is_tiny(p);
  return has_local(g) ? is_narrow(p) : p->channels < CONV_FEW_CHANNELS;
}

static const emit_form direct = {CONV_DIRECT, direct_suits, accept_direct, write_direct};

/* ---- A group for each result, or on a CPU an item ------------------------------------------ */

/* The number of parts that gives the compute units two groups each. A part has at least LONG_SUM
 * terms. */
static uint32_t choose_parts(const generation *g, const conv_problem *p) {
  const double groups = (double)p->positions * (double)p->channels * (double)p->product.batches;
  const double units = (double)emit_units(g);
  if (p->phased || groups >= units) return 1;
  int64_t parts = (int64_t)(2 * units / groups);
  if (parts > p->terms / LONG_SUM) parts = p->terms / LONG_SUM;
  if (parts > GEMM_SPLIT_LIMIT) parts = GEMM_SPLIT_LIMIT;
  return parts > 1 ? (uint32_t)parts : 1;
}

static compute_status accept_dot(generation *g, void *of) {
  const conv_problem *p = of;
  compute_tuning *t = &g->tuning;
  if (emit_for_cpu(g)) {
    emit_default(&t->vector, gemm_choose_lanes(g, &p->product));
    if (!emit_is_power(t->vector) || t->vector > 64)
      return emit_refuse(g, "%u lanes do not exist", (unsigned)t->vector);
    return COMPUTE_OK;
  }
  uint32_t items = 32;
  while (items < 256 && p->terms > 4 * (int64_t)items) items *= 2;
  while (items > emit_group_limit(g) ||
         items * (uint64_t)p->product.sum_bytes > emit_local_limit(g))
    items /= 2;
  emit_default(&t->group_x, items);
  emit_default(&t->groups, choose_parts(g, p));
  if (!emit_is_power(t->group_x) ||
      t->group_x * (uint64_t)p->product.sum_bytes > emit_local_limit(g))
    return emit_refuse(g, "a group of %u items cannot add up a sum", (unsigned)t->group_x);
  const compute_status status = conv_check_group(g);
  return status ? status : conv_check_parts(g, p);
}

static void define_dot(generation *g, conv_problem *p, bool alone) {
  conv_define(g, p);
  emit_constant(g, "ALONE", alone);
  emit_constant(g, alone ? "LANES" : "GROUP", alone ? g->tuning.vector : g->tuning.group_x);
  text_add(&g->definitions, "#define TERM_STEP %s\n",
           p->by_term[1] * p->data_plane[1] == 1 ? "1" : "shape.term_step");
}

static compute_status write_dot(generation *g, void *of) {
  conv_problem *p = of;
  const compute_tuning *t = &g->tuning;
  const bool alone = emit_for_cpu(g);
  const uint32_t group = alone ? 1 : t->group_x;
  const int64_t results = p->positions * p->channels;
  const conv_parts parts = conv_cut(p, alone ? 1 : t->groups, group);
  if (results > INT32_MAX)
    return emit_refuse(g, "the convolution has too many results for one launch");
  define_dot(g, p, alone);
  gemm_define_parts(g, p->product.accumulate,
                    parts.length / (alone ? (int64_t)t->vector : (int64_t)group), false);
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
  emit_template(g, text, "conv_dot");
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

/* If results are few and their sums are long, a group computes each sum. */
static bool dot_suits(const generation *g, const void *of) {
  const conv_problem *p = of;
  if (p->terms == 0) return false;
  if (emit_for_cpu(g)) return !conv_is_tiny(p) && conv_term_run(p) > conv_position_run(p);
  const double results = (double)p->positions * (double)p->channels * (double)p->product.batches;
  return has_local(g) && is_narrow(p) && p->terms >= LONG_SUM &&
         results < (double)emit_units(g) * 256;
}

static const emit_form dot = {CONV_DOT, dot_suits, accept_dot, write_dot};

/* ---- The kind ------------------------------------------------------------------------------ */

static const emit_form *const forms[] = {
    &conv_packed, &conv_matrix, &conv_winograd, &conv_filter, &conv_places, &dot,
    &direct,      &conv_split,  &conv_tiled,    &plain,       NULL};

/* One form for all batches; parts of sums depend on their number of results. */
static const emit_form *const reproducible[] = {&conv_tiled, &plain, NULL};

static compute_status emit(generation *g) {
  conv_problem problem;
  gemm_problem product;
  if (compute_conv_of(g->descriptor)->pool > 0)
    return emit_refuse(g, "pooling is a kernel of its own");
  if (!conv_read(g, &problem)) return COMPUTE_OK;
  const bool fixed = emit_is_reproducible(g);
  if (!fixed && conv_read_product(g, &problem, &product)) return gemm_emit(g, &product);
  g->wide = conv_problem_is_wide(g, &problem);
  return emit_by_form(g, &emit_conv, fixed ? reproducible : forms, &problem);
}

static const tuning_grid grids[] = {
    {TUNE_OTHERS, {TUNE(variant, 5), TUNE(item_m, 1, 2, 4, 8)}},
    {TUNE_OTHERS, {TUNE(variant, 4), TUNE(group_x, 32, 64, 128, 256), TUNE(groups, 1, 4, 16)}},
    {TUNE_OTHERS,
     {TUNE(variant, 3), TUNE(tile_m, 32, 64), TUNE(tile_n, 32, 64), TUNE(groups, 4, 16, 32)}},
    {TUNE_OTHERS,
     {TUNE(variant, 2), TUNE(tile_m, 32, 64, 128), TUNE(tile_n, 32, 64, 128), TUNE(tile_k, 8, 16),
      TUNE(item_m, 4, 8), TUNE(item_n, 4, 8)}},
    {TUNE_OTHERS,
     {TUNE(variant, 7), TUNE(tile_m, 64, 128), TUNE(tile_n, 64, 128), TUNE(item_m, 32, 64),
      TUNE(item_n, 32, 64), TUNE(tile_k, 16, 32)}},
    {TUNE_OTHERS,
     {TUNE(variant, 9), TUNE(tile_m, 32, 64, 128), TUNE(tile_n, 32, 64, 128), TUNE(tile_k, 8, 16),
      TUNE(item_m, 4, 8), TUNE(item_n, 4, 8)}},
    {TUNE_OTHERS,
     {TUNE(variant, 11), TUNE(tile_m, 32, 64, 128), TUNE(tile_n, 8, 16), TUNE(tile_k, 8, 16, 32),
      TUNE(item_m, 4, 8, 16), TUNE(items, 2, 3, 4)}},
    {TUNE_OTHERS, {TUNE(variant, 12), TUNE(group_x, 128, 256, 512), TUNE(groups, 1, 2, 4, 8, 16)}},
    {TUNE_CPU, {TUNE(variant, 4), TUNE(vector, 8, 16, 32)}},
    {TUNE_CPU, {TUNE(variant, 5), TUNE(item_m, 16, 32, 64, 128, 256)}},
    {TUNE_CPU,
     {TUNE(variant, 6), TUNE(item_m, 4, 6, 8, 12, 14), TUNE(item_n, 16, 32, 48),
      TUNE(vector, 8, 16)}},
    {.target = TUNE_END},
};

const emit_kind emit_conv = {.name = "CONV", .accumulates = true, .emit = emit, .grids = grids};
