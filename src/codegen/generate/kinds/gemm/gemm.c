/* SPDX-License-Identifier: MIT */
/* The kind GEMM and its plain form: one item for each element of C, with any strides. The other
 * forms fall back to it. It is also best for tiny products, since one source serves all their
 * shapes and layouts. */
#include "codegen/generate/kinds/gemm/gemm.h"

#include <stdio.h>

static compute_status accept_plain(generation *g, void *problem) {
  (void)problem;
  emit_default(&g->tuning.group_x, min_u32(64, emit_group_limit(g)));
  if (g->tuning.group_x <= emit_group_limit(g)) return COMPUTE_OK;
  return emit_refuse(g, "groups of %u items are too large", (unsigned)g->tuning.group_x);
}

static compute_status write_plain(generation *g, void *of) {
  gemm_problem *problem = of;
  const uint32_t group = g->tuning.group_x;
  const int64_t elements = problem->m * problem->n;
  const int64_t groups = (elements + group - 1) / group;
  if (groups > INT32_MAX) return emit_refuse(g, "the product has too many elements for one launch");
  gemm_define(g, of, true);
  gemm_define_parts(g, problem->accumulate, problem->k, false);
  emit_launch *launch = gemm_launch(g, problem, "gemm_plain", group, groups, 1);
  if (!launch) return COMPUTE_OK;
  gemm_take_factors(g, launch, problem);
  gemm_take_epilogue(g, launch, problem);
  gemm_fields(g, launch, problem);
  emit_field_index(g, launch, "elements", elements);
  gemm_store_fields(g, launch, problem);
  text_buffer *text = &launch->body;
  gemm_begin_element(text, group, "n");
  gemm_begin_batches(g, launch, problem);
  text_add(text, "INDEX at_a = batch_a + row * A_ROW, at_b = batch_b + column * B_COLUMN;\n"
                 "SUM sum = 0;\n"
                 "SUM_PARTS_BEGIN(1)\n"
                 "for (INDEX p = 0; p < shape.k; p++) {\n"
                 "SUM_PARTS_ADD(1, sum, 1)\n"
                 "sum = SUM_MAD(LOAD_A(at_a), LOAD_B(at_b), sum);\n"
                 "at_a += A_K;\n"
                 "at_b += B_K;\n"
                 "}\n"
                 "SUM_PARTS_END(1, sum)\n");
  gemm_store(g, text, problem, "sum");
  text_add(text, "}\n");
  snprintf(g->text, sizeof g->text, "plain GEMM, one item for each element");
  return COMPUTE_OK;
}

static const emit_form plain = {GEMM_PLAIN, NULL, accept_plain, write_plain};

static const emit_form *const forms[] = {
    &gemm_dot,    &gemm_direct, &gemm_packed, &gemm_warpgroup, &gemm_pipeline,
    &gemm_matrix, &gemm_split,  &gemm_tiled,  &plain,          NULL};

/* One form for all numbers of rows. PLAIN adds in the same order as TILED. */
static const emit_form *const reproducible[] = {&gemm_tiled, &plain, NULL};

compute_status gemm_emit(generation *g, gemm_problem *problem) {
  if (problem->batches == 0 || problem->m == 0 || problem->n == 0) return COMPUTE_OK;
  g->wide = gemm_problem_is_wide(problem);
  return emit_by_form(g, &emit_gemm, emit_is_reproducible(g) ? reproducible : forms, problem);
}

static compute_status emit(generation *g) {
  gemm_problem problem;
  emit_gemm_read(g, &problem);
  return gemm_emit(g, &problem);
}

/* Grids of matrix units come first: the list of candidates may be full before all others are
 * tried. */
static const tuning_grid grids[] = {
    {TUNE_OTHERS,
     {TUNE(variant, 10), TUNE(tile_m, 64, 128, 256), TUNE(tile_n, 64, 128, 256),
      TUNE(item_m, 64, 128), TUNE(items, 3, 4)}},
    {TUNE_OTHERS,
     {TUNE(variant, 8), TUNE(tile_m, 64, 128, 256), TUNE(tile_n, 64, 128, 256),
      TUNE(item_m, 32, 64), TUNE(item_n, 32, 64), TUNE(items, 3, 4)}},
    {TUNE_OTHERS,
     {TUNE(variant, 2), TUNE(tile_m, 32, 64, 128), TUNE(tile_n, 32, 64, 128),
      TUNE(tile_k, 8, 16, 32), TUNE(item_m, 4, 8), TUNE(item_n, 4, 8)}},
    {TUNE_OTHERS,
     {TUNE(variant, 3), TUNE(tile_m, 32, 64), TUNE(tile_n, 32, 64), TUNE(groups, 2, 4, 8, 16)}},
    {TUNE_OTHERS,
     {TUNE(variant, 4), TUNE(group_x, 8, 32, 128), TUNE(group_y, 1, 4, 8, 32), TUNE(items, 2, 4, 8),
      TUNE(groups, 1, 4, 16)}},
    {TUNE_OTHERS,
     {TUNE(variant, 6), TUNE(item_m, 4, 8), TUNE(item_n, 4, 8), TUNE(vector, 2, 4),
      TUNE(group_x, 32, 64)}},
    {TUNE_CPU,
     {TUNE(variant, 5, 6), TUNE(item_m, 4, 6, 8, 12, 14), TUNE(item_n, 8, 16, 32, 48),
      TUNE(vector, 4, 8, 16)}},
    {.target = TUNE_END},
};

const emit_kind emit_gemm = {.name = "GEMM", .accumulates = true, .emit = emit, .grids = grids};
