/* SPDX-License-Identifier: MIT */
/* Tiles of results through local memory, for GPUs. kernels/conv_tiled.h is the text and explains
 * the method. GEMM multiplies the tiles, by items or on matrix units. With the terms in parts, each
 * part stores its sums in the workspace, and a second launch adds them up. */
#include <stdio.h>
#include <string.h>

#include "codegen/generate/kinds/conv/conv.h"

enum { LEAST_PART = 256 }; /* terms */

static bool is_matrix(const compute_tuning *t) {
  return t->variant == CONV_MATRIX;
}

static const char *slab_type(const compute_tuning *t) {
  return is_matrix(t) ? "MATRIX_TYPE" : "SUM";
}

/* Defines one factor's share of an item and its names for the template conv_slab
 * (kernels/conv_tiled.h), adds the text, and undefines the names. Neighbouring items read
 * neighbouring terms or neighbouring positions (channels), in the order of memory. On matrix units,
 * lines of the slab have the same direction. */
static void define_slab(generation *g, const conv_problem *p, bool data) {
  const compute_tuning *t = &g->tuning;
  const bool columns = data == p->position_columns;
  const bool along_terms = gemm_along_k(columns ? &p->product.b : &p->product.a);
  const char *name = data ? "DATA" : "WEIGHT";
  const uint32_t side = columns ? t->tile_n : t->tile_m;
  const uint32_t group = gemm_items(t);
  const uint32_t line = along_terms ? t->tile_k : side < group ? side : group;
  const uint32_t lines = group / line;
  const compute_dtype dtype = g->descriptor->inputs[data ? 0 : 1].dtype;
  text_buffer *text = &g->definitions;
  if (along_terms) {
    text_add(text, "#define %s_OUTERS %u\n#define %s_TERMS 1\n", name, (unsigned)(side / lines),
             name);
    text_add(text, "#define %s_OUTER(j) (item / %u + (j) * %u)\n#define %s_TERM(i) (item %% %u)\n",
             name, (unsigned)line, (unsigned)lines, name, (unsigned)line);
  } else {
    text_add(text, "#define %s_OUTERS %u\n#define %s_TERMS %u\n", name, (unsigned)(side / line),
             name, (unsigned)(t->tile_k / lines));
    text_add(text,
             "#define %s_OUTER(j) (item %% %u + (j) * %u)\n"
             "#define %s_TERM(i) (item / %u + (i) * %u)\n",
             name, (unsigned)line, (unsigned)line, name, (unsigned)line, (unsigned)lines);
  }
  text_add(text,
           "#define SLAB_IS_DATA %d\n#define SLAB_TYPE %s_TYPE\n#define SLAB_OUTERS %s_OUTERS\n"
           "#define SLAB_TERMS %s_TERMS\n#define SLAB_OUTER(j) %s_OUTER(j)\n"
           "#define SLAB_TERM(i) %s_TERM(i)\n#define SLAB_PITCH PITCH_%c\n",
           data, name, name, name, name, name, columns ? 'B' : 'A');
  text_add(text, "#define SLAB_FETCH fetch_%s\n#define SLAB_PUT put_%s\n", data ? "data" : "weight",
           data ? "data" : "weight");
  if (is_matrix(t) && gemm_matrix_step(&p->product) == 16)
    text_add(text, "#define SLAB_DECODE(array, i) ((array)[i])\n");
  else
    text_add(text, "#define SLAB_DECODE(array, i) %s((SUM)LOAD_%s(array, i))\n",
             is_matrix(t) ? "MATRIX_ELEMENT" : "", compute_dtype_name(dtype));
  text_add(text, "#define SLAB_ELEMENT %s\n#define SLAB_ALONG_K %d\n", slab_type(t),
           is_matrix(t) && along_terms);
  emit_template(g, text, "conv_slab");
  static const char *const names[] = {"IS_DATA", "TYPE",  "OUTERS", "TERMS",  "OUTER",   "TERM",
                                      "PITCH",   "FETCH", "PUT",    "DECODE", "ELEMENT", "ALONG_K"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    text_add(text, "#undef SLAB_%s\n", names[i]);
}

static void begin_tile(text_buffer *text, const compute_tuning *t, const conv_problem *p) {
  text_add(text, "LOCAL_ARRAY(INDEX, terms_known, 2 * TILE_K * 4);\n");
  if (is_matrix(t))
    gemm_matrix_begin(text);
  else
    gemm_begin_tile(text);
  text_add(text, "const INDEX position0 = %s0, channel0 = %s0;\n",
           p->position_columns ? "column" : "row", p->position_columns ? "row" : "column");
  text_add(text, "LOCAL %s *slab_data = slab_%c, *slab_weight = slab_%c;\n", slab_type(t),
           p->position_columns ? 'b' : 'a', p->position_columns ? 'a' : 'b');
}

static void describe(generation *g) {
  const compute_tuning *t = &g->tuning;
  snprintf(g->text, sizeof g->text, "%s convolution %ux%ux%u, %ux%u per %s",
           is_matrix(t) ? "matrix units" : "tiled", (unsigned)t->tile_m, (unsigned)t->tile_n,
           (unsigned)t->tile_k, (unsigned)t->item_m, (unsigned)t->item_n,
           is_matrix(t) ? "warp" : "item");
}

static compute_status write(generation *g, void *of) {
  conv_problem *p = of;
  const compute_tuning *t = &g->tuning;
  const conv_parts parts = conv_cut(p, t->variant == CONV_TILED ? 1 : t->groups, t->tile_k);
  const bool cut = t->variant == CONV_SPLIT || parts.count > 1;
  const int64_t tiles_m = (p->product.m + t->tile_m - 1) / t->tile_m;
  const int64_t tiles_n = (p->product.n + t->tile_n - 1) / t->tile_n;
  if (tiles_m > INT32_MAX / tiles_n)
    return emit_refuse(g, "the convolution has too many tiles for one launch");
  conv_define(g, p);
  if (is_matrix(t))
    gemm_matrix_define(g, &p->product);
  else
    gemm_define_tile(g, &p->product);
  define_slab(g, p, true);
  define_slab(g, p, false);
  gemm_define_parts(g, p->product.accumulate, parts.length, is_matrix(t));
  emit_launch *launch =
      gemm_launch(g, &p->product, "conv_tiled", gemm_items(t), tiles_m * tiles_n, parts.count);
  if (!launch) return COMPUTE_OK;
  conv_take(g, launch, p);
  if (cut)
    gemm_take_parts(g, launch, &p->product, parts.count);
  else
    conv_take_epilogue(g, launch, p);
  emit_field_index(g, launch, "tiles_m", tiles_m);
  emit_field_divisor(g, launch, "band", GEMM_BAND * tiles_n);
  text_buffer *text = &launch->body;
  begin_tile(text, t, p);
  conv_begin_batches(g, launch, p);
  if (p->phased) text_add(text, "if (position0 >= POSITIONS) continue;\n");
  conv_find_part(g, launch, &parts);
  emit_template(g, text, "conv_tiled");
  emit_template(g, text, is_matrix(t) ? "gemm_matrix_products" : "gemm_products");
  text_add(text, "SUM_PARTS_END(ITEM_M *ITEM_N, TILE_SUM)\n");
  if (cut) {
    gemm_store_part(text, is_matrix(t));
  } else {
    const char *sum = gemm_begin_staged(text, is_matrix(t));
    conv_store(g, text, p, sum);
    gemm_end_staged(text);
  }
  text_add(text, "}\n");
  if (cut) conv_emit_combine(g, p, &parts);
  describe(g);
  return COMPUTE_OK;
}

/* ---- Choice -------------------------------------------------------------------------------- */

_Static_assert((int)CONV_TILED == GEMM_TILED && (int)CONV_SPLIT == GEMM_SPLIT &&
                   (int)CONV_MATRIX == GEMM_MATRIX && (int)CONV_WINOGRAD != GEMM_PIPELINE,
               "GEMM completes the parameters");

static bool divides(uint32_t a, uint32_t b) {
  return a % b == 0 || b % a == 0;
}

/* The conditions for tiles of convolutions, in addition to GEMM's. */
static compute_status check_tile(generation *g, const conv_problem *p) {
  const compute_tuning *t = &g->tuning;
  const uint32_t items = gemm_items(t);
  const uint64_t slabs = is_matrix(t) ? gemm_matrix_local_bytes(g, &p->product)
                                      : (uint64_t)gemm_local_sums(t) * p->product.sum_bytes;
  const uint64_t local = slabs + t->tile_k * 64u;
  if (!divides(t->tile_m, items) || !divides(t->tile_n, items) || items % t->tile_k != 0)
    return emit_refuse(g, "%u items cannot share a tile of %ux%ux%u in whole lines",
                       (unsigned)items, (unsigned)t->tile_m, (unsigned)t->tile_n,
                       (unsigned)t->tile_k);
  if (local > emit_local_limit(g))
    return emit_refuse(g, "the tile needs %llu bytes of local memory, the device has %llu",
                       (unsigned long long)local, (unsigned long long)emit_local_limit(g));
  return t->variant == CONV_SPLIT || (is_matrix(t) && t->groups > 1) ? conv_check_parts(g, p)
                                                                     : COMPUTE_OK;
}

/* Parts are for many terms and few results, as in a filter's gradient. Their number gives the
 * compute units all the groups that they can run at a time. A unit runs three groups of the large
 * tile or four of the small one; registers are the limit. */
static void complete_parts(generation *g, const conv_problem *p) {
  compute_tuning *t = &g->tuning;
  if (t->tile_m || t->tile_n || t->item_m || t->item_n || t->groups) return;
  const bool large = p->product.m > 64 && p->product.sum_bytes <= 4 && emit_group_limit(g) >= 128;
  const int64_t units = g->target->compute_units ? g->target->compute_units : 1;
  const int64_t tiles =
      divide_up(p->product.m, large ? 128 : 64) * divide_up(p->product.n, 64) * p->product.batches;
  int64_t parts = units * (large ? 3 : 4) / tiles;
  if (parts > p->terms / LEAST_PART) parts = p->terms / LEAST_PART;
  if (parts > GEMM_SPLIT_LIMIT) parts = GEMM_SPLIT_LIMIT;
  if (parts < 2) return;
  t->groups = (uint32_t)parts;
  if (!large) return;
  t->tile_m = 128;
  t->tile_n = 64;
  t->item_m = t->item_n = 8;
}

static compute_status accept(generation *g, void *of) {
  conv_problem *p = of;
  if (p->terms == 0) return emit_refuse(g, "there is nothing to multiply");
  g->tuning.vector = 1;
  if (g->tuning.variant == CONV_SPLIT) complete_parts(g, p);
  if (is_matrix(&g->tuning) && p->phased) emit_default(&g->tuning.groups, 1);
  const compute_status status = is_matrix(&g->tuning) ? gemm_accept_matrix(g, &p->product)
                                                      : gemm_accept_tiles(g, &p->product);
  return status ? status : check_tile(g, p);
}

static bool suits(const generation *g, const conv_problem *p, conv_variant variant) {
  if (p->terms == 0 || emit_for_cpu(g) || !emit_has(g, COMPUTE_TARGET_FAST_LOCAL)) return false;
  const conv_variant tiled = (conv_variant)gemm_choose_tiled(g, &p->product);
  return (tiled == CONV_SPLIT && p->phased ? CONV_TILED : tiled) == variant;
}

static bool split_suits(const generation *g, const void *problem) {
  return suits(g, problem, CONV_SPLIT);
}

static bool tiled_suits(const generation *g, const void *problem) {
  return suits(g, problem, CONV_TILED);
}

static bool matrix_suits(const generation *g, const void *of) {
  const conv_problem *p = of;
  return gemm_matrix_suits(g, &p->product);
}

const emit_form conv_matrix = {CONV_MATRIX, matrix_suits, accept, write};
const emit_form conv_split = {CONV_SPLIT, split_suits, accept, write};
const emit_form conv_tiled = {CONV_TILED, tiled_suits, accept, write};
