/* SPDX-License-Identifier: MIT */
/* Blocks of results by one item, with vectors of positions, for CPUs. gemm/direct.c explains why
 * sums are variables. The first launch packs the weight into panels. In the second launch each item
 * gathers the data for a block of positions into a private panel, which stays in its core's cache.
 * It multiplies this panel with all panels of the weight, so the data is never unfolded as a whole.
 * A long sum is cut into parts to keep the panel small; a third launch adds them up. */
#include <stdio.h>

#include "codegen/generate/kinds/conv/conv.h"

enum {
  ALIGNMENT = 64,
  PANEL_BYTES = 512 << 10 /* of data: fits the second-level cache */
};

typedef struct packed_plan {
  conv_parts parts;
  int64_t panels, tiles;
  uint32_t groups[3];
  uint64_t weights_at, panels_at; /* in the workspace, bytes */
} packed_plan;

static uint64_t aligned(uint64_t bytes) {
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Enough items to keep the units busy. Each item has one panel in the workspace. */
static void plan_groups(const generation *g, const conv_problem *p, packed_plan *plan) {
  const int64_t units = g->target->compute_units ? g->target->compute_units : 1, most = 8 * units;
  const int64_t x = plan->tiles < most ? plan->tiles : most;
  int64_t z = (most + x - 1) / x;
  if (z > p->product.batches) z = p->product.batches;
  plan->groups[0] = (uint32_t)x;
  plan->groups[1] = (uint32_t)plan->parts.count;
  plan->groups[2] = (uint32_t)(z < GEMM_GROUP_Z_LIMIT ? z : GEMM_GROUP_Z_LIMIT);
}

static uint64_t plan_workspace(const generation *g, const conv_problem *p, packed_plan *plan) {
  const compute_tuning *t = &g->tuning;
  const uint64_t bytes = p->product.sum_bytes, batches = (uint64_t)p->product.batches;
  const uint64_t partial =
      plan->parts.count > 1
          ? (uint64_t)plan->parts.count * batches * (uint64_t)(p->positions * p->channels) * bytes
          : 0;
  const uint64_t items = (uint64_t)plan->groups[0] * plan->groups[1] * plan->groups[2];
  plan->weights_at = aligned(partial);
  plan->panels_at = plan->weights_at + aligned(batches * (uint64_t)plan->panels * t->item_m *
                                               (uint64_t)p->terms * bytes);
  return plan->panels_at + items * (uint64_t)plan->parts.length * t->item_n * bytes;
}

static packed_plan make_plan(generation *g, const conv_problem *p) {
  const compute_tuning *t = &g->tuning;
  packed_plan plan = {.parts = conv_cut(p, t->groups, 1)};
  plan.panels = (p->channels + t->item_m - 1) / t->item_m;
  plan.tiles = (p->positions + t->item_n - 1) / t->item_n;
  plan_groups(g, p, &plan);
  g->workspace_bytes = plan_workspace(g, p, &plan);
  return plan;
}

static void emit_packing(generation *g, const conv_problem *p, const packed_plan *plan) {
  emit_launch *launch = gemm_launch(g, &p->product, "conv_pack", 1, plan->panels, 1);
  if (!launch) return;
  emit_input(g, launch, 1);
  emit_workspace(g, launch, "weights", "SUM", p->product.sum_bytes, plan->weights_at, true);
  emit_field_index(g, launch, "panels", plan->panels);
  emit_field_index(g, launch, "room", p->terms);
  text_add(&launch->body, "const INDEX panel = (INDEX)GROUP_ID_X;\n");
  conv_begin_batches(g, launch, p);
  emit_template(g, &launch->body, "conv_pack");
  text_add(&launch->body, "}\n");
}

static void store_block(generation *g, text_buffer *text, const conv_problem *p, bool parts) {
  text_add(text, "for (INDEX i = 0; i < ITEM_M && row0 + i < ROWS; i++) {\n"
                 "const INDEX row = row0 + i;\n"
                 "INDEPENDENT for (INDEX j = 0; j < last; j++) {\n"
                 "const INDEX column = position0 + j;\n");
  if (parts)
    text_add(text, "partial[((batch * (INDEX)GROUP_COUNT_Y + (INDEX)GROUP_ID_Y) * ROWS + row) * "
                   "COLUMNS + column] = block[i * ITEM_N + j];\n");
  else
    conv_store(g, text, p, "block[i * ITEM_N + j]");
  text_add(text, "}\n}\n");
}

static void emit_products(generation *g, const conv_problem *p, const packed_plan *plan,
                          bool long_sums) {
  static const uint32_t group[3] = {1, 1, 1};
  const bool parts = plan->parts.count > 1;
  emit_launch *launch = emit_launch_begin(g, "conv_packed", group, plan->groups);
  if (!launch) return;
  emit_input(g, launch, 0);
  emit_workspace(g, launch, "weights", "SUM", p->product.sum_bytes, plan->weights_at, false);
  emit_workspace(g, launch, "panels", "SUM", p->product.sum_bytes, plan->panels_at, true);
  if (parts)
    emit_workspace(g, launch, "partial", "SUM", p->product.sum_bytes, 0, true);
  else
    conv_take_epilogue(g, launch, p);
  emit_field_index(g, launch, "panels", plan->panels);
  emit_field_index(g, launch, "room", p->terms);
  text_buffer *text = &launch->body;
  text_add(text, "GLOBAL SUM *panel = panels + (((INDEX)GROUP_ID_Z * (INDEX)GROUP_COUNT_Y + "
                 "(INDEX)GROUP_ID_Y) * (INDEX)GROUP_COUNT_X + (INDEX)GROUP_ID_X) * shape.part * "
                 "ITEM_N;\n");
  conv_begin_batches(g, launch, p);
  conv_find_part(g, launch, &plan->parts);
  text_add(text, "for (INDEX tile = (INDEX)GROUP_ID_X; tile * ITEM_N < POSITIONS; tile += "
                 "(INDEX)GROUP_COUNT_X) {\n"
                 "const INDEX position0 = tile * ITEM_N;\n{\n");
  emit_template(g, text, "conv_gather");
  text_add(text, "}\n"
                 "const INDEX last = POSITIONS - position0 < ITEM_N ? POSITIONS - position0 : "
                 "ITEM_N;\n"
                 "const INDEX k_count = k_end > k_begin ? k_end - k_begin : 0;\n"
                 "for (INDEX row0 = 0; row0 < ROWS; row0 += ITEM_M) {\n"
                 "GLOBAL const SUM *b = panel;\n"
                 "GLOBAL const SUM *a = weights + (batch * shape.panels * shape.room + row0 / "
                 "ITEM_M * shape.room + k_begin) * ITEM_M;\n");
  gemm_block_sums(g, text, true, "k_count", long_sums);
  store_block(g, text, p, parts);
  text_add(text, "}\n}\n}\n");
}

static compute_status write(generation *g, void *of) {
  conv_problem *p = of;
  const compute_tuning *t = &g->tuning;
  if (p->positions > INT32_MAX || p->channels > INT32_MAX)
    return emit_refuse(g, "the convolution has too many results for one launch");
  const packed_plan plan = make_plan(g, p);
  conv_define(g, p);
  emit_constant(g, "ITEM_M", t->item_m);
  emit_constant(g, "ITEM_N", t->item_n);
  gemm_define_vector(g, t->vector);
  const bool long_sums = gemm_define_parts(g, p->product.accumulate, plan.parts.length, false);
  emit_packing(g, p, &plan);
  emit_products(g, p, &plan, long_sums);
  if (plan.parts.count > 1) conv_emit_combine(g, p, &plan.parts);
  snprintf(g->text, sizeof g->text, "packed convolution, %ux%u per item", (unsigned)t->item_m,
           (unsigned)t->item_n);
  return COMPUTE_OK;
}

/* ---- Choice -------------------------------------------------------------------------------- */

/* Two shapes of a block fill the registers, as in GEMM; the one with less padding wins. */
static void complete_block(const generation *g, const conv_problem *p, compute_tuning *t) {
  emit_default(&t->vector, gemm_choose_lanes(g, &p->product));
  const bool many = t->vector * p->product.sum_bytes >= 64;
  const int64_t tall = many ? 12 : 6, flat = many ? 8 : 4;
  const bool is_tall =
      (p->channels + tall - 1) / tall * tall <= (p->channels + flat - 1) / flat * flat;
  emit_default(&t->item_m, (uint32_t)(is_tall ? tall : flat));
  emit_default(&t->item_n, (is_tall ? 2 : 3) * t->vector);
  const int64_t bytes = p->terms * t->item_n * p->product.sum_bytes;
  int64_t parts = divide_up(bytes, PANEL_BYTES);
  if (parts > GEMM_SPLIT_LIMIT) parts = GEMM_SPLIT_LIMIT;
  emit_default(&t->groups, p->phased || parts < 1 ? 1 : (uint32_t)parts);
}

/* An upper bound, close to the plan's exact sum. */
static bool workspace_fits(const generation *g, const conv_problem *p, const compute_tuning *t) {
  const double bytes = p->product.sum_bytes, terms = (double)p->terms;
  const double batches = (double)p->product.batches, items = 16.0 * (double)emit_units(g);
  return (((double)p->channels + t->item_m) * batches * terms +
          items * (terms + t->groups) * t->item_n +
          (t->groups > 1 ? t->groups : 0) * batches * (double)p->positions * (double)p->channels) *
             bytes <=
         CONV_WORKSPACE_LIMIT;
}

static compute_status accept(generation *g, void *of) {
  const conv_problem *p = of;
  compute_tuning *t = &g->tuning;
  complete_block(g, p, t);
  if (!p->position_columns || p->channels_fast) return emit_refuse(g, "packing is for CPUs");
  if (!emit_is_power(t->vector) || t->vector < 2 || t->vector > 16 || t->item_n % t->vector)
    return emit_refuse(g, "%u positions do not divide into vectors of %u", (unsigned)t->item_n,
                       (unsigned)t->vector);
  if (t->item_m > 16 || t->item_n / t->vector > 8)
    return emit_refuse(g, "a block of %ux%u is too large", (unsigned)t->item_m,
                       (unsigned)t->item_n);
  if (p->terms == 0) return emit_refuse(g, "there is nothing to multiply");
  if (!workspace_fits(g, p, t)) return emit_refuse(g, "the panels would take too much memory");
  return conv_check_parts(g, p);
}

static bool suits(const generation *g, const void *of) {
  const conv_problem *p = of;
  compute_tuning t = g->tuning;
  if (p->terms == 0 || !emit_for_cpu(g) || conv_is_tiny(p) || p->channels < CONV_FEW_CHANNELS)
    return false;
  complete_block(g, p, &t);
  return workspace_fits(g, p, &t);
}

const emit_form conv_packed = {CONV_PACKED, suits, accept, write};
