/* SPDX-License-Identifier: MIT */
/* Winograd's minimal filtering for GPUs; kernels/conv_winograd.h gives the mathematics. The first
 * two launches transform the filters and the patches of the data to 36 matrices each. The third
 * multiplies these by GEMM's tiles, and the last computes the results from the products. The
 * workspace contains everything but the results: four times the size of data and results. That pays
 * with many channels. */
#include <stdio.h>

#include "codegen/generate/kinds/conv/conv.h"
#include "core/kernel/kernel.h"

enum {
  PRODUCTS = 36,
  TILE = 4,
  GROUP = 128,
  ALIGNMENT = 256,
  FEW_CHANNELS = 16,
  WORKSPACE_LIMIT = 1 << 28, /* bytes that any GPU can spare */
  LEAST_MULTIPLICATIONS = 1 << 29
};

typedef struct filtering {
  gemm_problem product;            /* one of the 36: channels by tiles */
  int64_t down, across;            /* tiles of an image */
  uint64_t weights_at, patches_at; /* in the workspace, bytes; the products come first */
  uint64_t bytes;
} filtering;

static uint64_t aligned(uint64_t elements) {
  return (elements * sizeof(float) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static filtering read_filtering(const conv_problem *p) {
  filtering f = {.down = divide_up(p->position_size[1], TILE),
                 .across = divide_up(p->position_size[2], TILE)};
  f.product = (gemm_problem){.accumulate = COMPUTE_F32,
                             .sum_bytes = sizeof(float),
                             .m = p->channels,
                             .n = p->position_size[0] * f.down * f.across,
                             .k = p->term_size[0],
                             .batches = PRODUCTS};
  f.product.a = (gemm_factor){.dtype = COMPUTE_F32, .outer = 1, .k = f.product.m};
  f.product.b = (gemm_factor){.dtype = COMPUTE_F32, .outer = 1, .k = f.product.n};
  const uint64_t m = (uint64_t)f.product.m, n = (uint64_t)f.product.n, k = (uint64_t)f.product.k;
  f.weights_at = aligned(PRODUCTS * m * n);
  f.patches_at = f.weights_at + aligned(PRODUCTS * m * k);
  f.bytes = f.patches_at + aligned(PRODUCTS * k * n);
  return f;
}

/* ---- Text ---------------------------------------------------------------------------------- */

static void define(generation *g, conv_problem *p, const filtering *f) {
  text_buffer *text = &g->definitions;
  const bool turned = p->by_term[0] < 0;
  conv_define(g, p);
  gemm_define_tile(g, &f->product);
  text_add(text, "#undef IN_A\n#undef IN_B\n#undef A_ROW\n#undef A_K\n#undef B_COLUMN\n"
                 "#undef B_K\n#undef ROWS\n#undef COLUMNS\n"
                 "#define IN_A weights\n#define IN_B patches\n"
                 "#define A_ROW 1\n#define A_K shape.m\n#define B_COLUMN 1\n#define B_K shape.n\n"
                 "#define ROWS shape.m\n#define COLUMNS shape.n\n");
  gemm_define_slab(g, &f->product, &f->product.a, 'A', g->tuning.tile_m);
  gemm_define_slab(g, &f->product, &f->product.b, 'B', g->tuning.tile_n);
  gemm_define_parts(g, COMPUTE_F32, f->product.k, false);
  /* The taps of a gradient go backwards. */
  text_add(text, "#define WINOGRAD_TAP(i) (%s(i))\n", turned ? "2 - " : "");
  emit_constant(g, "WINOGRAD_FIRST", turned ? -2 : 0);
  emit_template(g, text, "conv_winograd");
}

/* An item for each element of a matrix of `rows` lines. */
static emit_launch *begin_elements(generation *g, const conv_problem *p, const char *entry,
                                   int64_t rows, int64_t columns) {
  const uint32_t limit = emit_group_limit(g), group = limit < GROUP ? limit : GROUP;
  emit_launch *launch =
      gemm_launch(g, &p->product, entry, group, divide_up(rows * columns, group), 1);
  if (!launch) return NULL;
  emit_field_index(g, launch, "elements", rows * columns);
  emit_field_divisor(g, launch, "columns", columns);
  text_add(&launch->body,
           "const INDEX index = (INDEX)GROUP_ID_X * %u + (INDEX)LOCAL_ID_X;\n"
           "if (index >= shape.elements) return;\n"
           "const INDEX line = DIVIDE(index, shape.columns);\n"
           "const INDEX element = index - line * shape.columns;\n",
           (unsigned)group);
  return launch;
}

static void find_patch(generation *g, emit_launch *launch, const filtering *f) {
  emit_field_divisor(g, launch, "tiles_down", f->down);
  emit_field_divisor(g, launch, "tiles_across", f->across);
  text_add(&launch->body, "FIND_PATCH(element)\n");
}

static void emit_filters(generation *g, const conv_problem *p, const filtering *f) {
  emit_launch *launch = begin_elements(g, p, "conv_winograd_filters", f->product.k, f->product.m);
  if (!launch) return;
  emit_input(g, launch, 1);
  emit_workspace(g, launch, "weights", "f32", sizeof(float), f->weights_at, true);
  text_add(&launch->body, "const INDEX k0 = line, outer = element;\n");
  conv_begin_batches(g, launch, p);
  emit_template(g, &launch->body, "conv_winograd_filters");
  text_add(&launch->body, "}\n");
}

static void emit_patches(generation *g, const conv_problem *p, const filtering *f) {
  emit_launch *launch = begin_elements(g, p, "conv_winograd_patches", f->product.k, f->product.n);
  if (!launch) return;
  emit_input(g, launch, 0);
  emit_workspace(g, launch, "patches", "f32", sizeof(float), f->patches_at, true);
  find_patch(g, launch, f);
  text_add(&launch->body, "const INDEX k0 = line;\n");
  conv_begin_batches(g, launch, p);
  emit_template(g, &launch->body, "conv_winograd_patches");
  text_add(&launch->body, "}\n");
}

static void emit_products(generation *g, const filtering *f) {
  const compute_tuning *t = &g->tuning;
  const int64_t tiles_m = divide_up(f->product.m, t->tile_m);
  const int64_t tiles_n = divide_up(f->product.n, t->tile_n);
  emit_launch *launch =
      gemm_launch(g, &f->product, "conv_winograd_products", gemm_items(t), tiles_m * tiles_n, 1);
  if (!launch) return;
  emit_workspace(g, launch, "weights", "f32", sizeof(float), f->weights_at, false);
  emit_workspace(g, launch, "patches", "f32", sizeof(float), f->patches_at, false);
  emit_workspace(g, launch, "partial", "f32", sizeof(float), 0, true);
  gemm_fields(g, launch, &f->product);
  emit_field_index(g, launch, "tiles_m", tiles_m);
  emit_field_divisor(g, launch, "band", GEMM_BAND * tiles_n);
  text_buffer *text = &launch->body;
  gemm_begin_tile(text);
  text_add(text, "const INDEX batch = (INDEX)GROUP_ID_Z, k_begin = 0, k_end = shape.k;\n"
                 "const INDEX batch_a = batch * shape.m * shape.k;\n"
                 "const INDEX batch_b = batch * shape.n * shape.k;\n");
  emit_template(g, text, "gemm_tiled");
  emit_template(g, text, "gemm_products");
  text_add(text, "SUM_PARTS_END(ITEM_M *ITEM_N, TILE_SUM)\n");
  gemm_store_part(text, false);
}

/* The text repeats the epilogue four times, for four neighbouring results of a row. */
static void emit_results(generation *g, const conv_problem *p, const filtering *f) {
  emit_launch *launch = begin_elements(g, p, "conv_winograd_results", f->product.m, f->product.n);
  if (!launch) return;
  emit_workspace(g, launch, "partial", "f32", sizeof(float), 0, false);
  conv_take_epilogue(g, launch, p);
  find_patch(g, launch, f);
  text_buffer *text = &launch->body;
  text_add(text, "const INDEX %s = line;\n", p->position_columns ? "row" : "column");
  conv_begin_batches(g, launch, p);
  emit_template(g, text, "conv_winograd_results");
  text_add(text, "NO_UNROLL for (int i = 0; i < 4; i++) {\n"
                 "const INDEX m1 = first1 + i;\n"
                 "if (m1 >= SIZE_M1) break;\n"
                 "f32 of_line[4];\n"
                 "UNROLL for (int held = 0; held < 4; held++) {\n"
                 "if (held == i) {\n"
                 "UNROLL for (int j = 0; j < 4; j++) of_line[j] = result[held * 4 + j];\n"
                 "}\n}\n"
                 "UNROLL for (int j = 0; j < 4; j++) {\n"
                 "const INDEX m2 = first2 + j;\n"
                 "if (m2 < SIZE_M2) {\n");
  conv_store_at(g, text, p, "of_line[j]");
  text_add(text, "}\n}\n}\n}\n");
}

static compute_status write(generation *g, void *of) {
  conv_problem *p = of;
  const compute_tuning *t = &g->tuning;
  const filtering f = read_filtering(p);
  define(g, p, &f);
  g->workspace_bytes = f.bytes;
  emit_filters(g, p, &f);
  emit_patches(g, p, &f);
  emit_products(g, &f);
  emit_results(g, p, &f);
  snprintf(g->text, sizeof g->text, "Winograd's convolution, tiles of %ux%ux%u, %ux%u per item",
           (unsigned)t->tile_m, (unsigned)t->tile_n, (unsigned)t->tile_k, (unsigned)t->item_m,
           (unsigned)t->item_n);
  return COMPUTE_OK;
}

/* ---- Choice -------------------------------------------------------------------------------- */

/* True for all directions but a filter's gradient. */
static bool can_be_filtered(const generation *g, const conv_problem *p) {
  const compute_kernel_descriptor *d = g->descriptor;
  return kernel_may_be_filtered(d) &&
         compute_conv_of(d)->direction != COMPUTE_CONVOLUTION_BY_FILTER &&
         p->product.batches == 1 && p->product.accumulate == COMPUTE_F32;
}

static bool room_fits(const conv_problem *p) {
  const filtering f = read_filtering(p);
  return p->terms > 0 && f.bytes <= WORKSPACE_LIMIT;
}

static compute_status accept(generation *g, void *of) {
  const conv_problem *p = of;
  if (emit_for_cpu(g) || !emit_has(g, COMPUTE_TARGET_FAST_LOCAL))
    return emit_refuse(g, "Winograd's filtering is for GPUs with local memory");
  if (!can_be_filtered(g, p))
    return emit_refuse(g, "it is not one that Winograd's filtering is for");
  if (!room_fits(p)) return emit_refuse(g, "the transformed patches would take too much memory");
  filtering f = read_filtering(p);
  return gemm_accept_tiles(g, &f.product);
}

static bool suits(const generation *g, const void *of) {
  const conv_problem *p = of;
  return !emit_for_cpu(g) && emit_has(g, COMPUTE_TARGET_FAST_LOCAL) && can_be_filtered(g, p) &&
         room_fits(p) && p->data_plane[1] == 1 && p->channels >= FEW_CHANNELS &&
         p->term_size[0] >= FEW_CHANNELS &&
         (double)p->positions * (double)p->channels * (double)p->terms >= LEAST_MULTIPLICATIONS;
}

const emit_form conv_winograd = {CONV_WINOGRAD, suits, accept, write};
