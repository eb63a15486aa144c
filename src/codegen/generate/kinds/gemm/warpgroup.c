/* SPDX-License-Identifier: MIT */
/* Tiles of C that warpgroups multiply straight from local memory (kernels/gemm_warpgroup.h).
 * Asynchronous copies bring f16 or bf16 there in the layout of the units. TF32 is packed first: its
 * products take twice as long, and even longer if every group rounds its inputs. tiled.c writes the
 * text around the products, and matrix.c the stores. */
#include <stdio.h>

#include "codegen/generate/kinds/gemm/gemm.h"

enum {
  LINE = 128,      /* bytes of a line */
  BLOCK = 64,      /* rows or columns of a block in a slab */
  ARRIVALS = 1024, /* bytes for arrivals before the slabs, which begin at multiples of it */
  PACK_GROUP = 256
};
#define PANEL_LIMIT ((uint64_t)2 << 30) /* bytes; larger panels are not worth their memory */

bool gemm_warpgroup_packs(const generation *g, const gemm_problem *problem) {
  return g->tuning.variant == GEMM_WARPGROUP && gemm_matrix_bytes(problem) == 4;
}

static bool is_served(const generation *g, const gemm_problem *problem) {
  if (!emit_has(g, COMPUTE_TARGET_WARPGROUP_MATRIX) || !gemm_matrix_serves(g, problem))
    return false;
  return gemm_matrix_bytes(problem) == 4 ||
         (gemm_is_copied(problem, &problem->a) && gemm_is_copied(problem, &problem->b));
}

static uint64_t local_bytes(uint32_t tile_m, uint32_t tile_n, uint32_t stages) {
  return (uint64_t)(tile_m + tile_n) * LINE * stages;
}

uint64_t gemm_warpgroup_local_bytes(const compute_tuning *t) {
  const uint64_t slabs = local_bytes(t->tile_m, t->tile_n, t->items);
  const uint64_t staged = (uint64_t)t->tile_m / t->item_m * BLOCK * (t->tile_n + 8) * sizeof(float);
  return slabs > staged ? slabs : staged;
}

/* The place of an element of a line. The lines of gemm_pipeline_copy go across all blocks of a
 * slab. */
static void define_copy(generation *g, const gemm_factor *factor, char letter, uint32_t side) {
  text_add(
      &g->definitions,
      gemm_along_k(factor)
          ? "#define BLOCK_AT(line, at) ((line) * 64 + ((at) / 8 ^ (line) %% 8) * 8)\n"
          : "#define BLOCK_AT(line, at) "
            "((at) / 64 * (64 * TILE_K) + (line) * 64 + ((at) %% 64 / 8 ^ (line) %% 8) * 8)\n");
  text_add(&g->definitions, "#define BLOCK_ALONG_K %d\n", gemm_along_k(factor));
  gemm_define_copy(g, factor, letter, side);
  text_add(&g->definitions, "#undef BLOCK_AT\n#undef BLOCK_ALONG_K\n");
}

/* ---- Packing ------------------------------------------------------------------------------- */

typedef struct panels {
  int64_t tiles, pairs;
  uint64_t bytes;
} panels;

static panels panels_of(const generation *g, const gemm_problem *problem,
                        const gemm_factor *factor) {
  const compute_tuning *t = &g->tuning;
  const bool is_a = factor == &problem->a;
  const uint32_t side = is_a ? t->tile_m : t->tile_n;
  panels p = {.tiles = divide_up(is_a ? problem->m : problem->n, side),
              .pairs = divide_up(problem->k, t->tile_k)};
  const uint64_t matrices = factor->batched ? (uint64_t)problem->batches : 1;
  p.bytes = matrices * (uint64_t)p.tiles * (uint64_t)p.pairs * side * LINE;
  return p;
}

static void define_packing(generation *g, const gemm_factor *factor, char letter, uint32_t side) {
  text_buffer *text = &g->definitions;
  text_add(text, "#define PACK pack_%c\n#define PACK_TYPE %c_TYPE\n#define PACK_IN IN_%c\n",
           letter + ('a' - 'A'), letter, letter);
  text_add(text, "#define PACK_LOAD(i) LOAD_%c(i)\n#define PACK_SIDE %u\n#define PACK_ALONG_K %d\n",
           letter, (unsigned)side, gemm_along_k(factor));
  emit_template(g, text, "gemm_warpgroup_pack");
  text_add(text, "#undef PACK\n#undef PACK_TYPE\n#undef PACK_IN\n#undef PACK_LOAD\n"
                 "#undef PACK_SIDE\n#undef PACK_ALONG_K\n");
  text_add(text, "#define FIRST_%c %s\n", letter,
           !factor->batched ? "0"
           : letter == 'A'  ? "(batch * shape.tiles_m)"
                            : "(batch * shape.tiles_n)");
}

/* One group for each slab. A factor that all batches share is packed only once. */
static compute_status emit_packing(generation *g, const gemm_problem *problem,
                                   const gemm_factor *factor, uint64_t start) {
  const panels p = panels_of(g, problem, factor);
  const bool is_a = factor == &problem->a;
  const char *small = is_a ? "a" : "b", *tiles = is_a ? "tiles_m" : "tiles_n";
  const unsigned side = (unsigned)(is_a ? g->tuning.tile_m : g->tuning.tile_n);
  if (p.tiles > INT32_MAX / p.pairs)
    return emit_refuse(g, "the product has too many slabs for one launch");
  emit_launch *launch = gemm_launch(g, problem, is_a ? "gemm_pack_a" : "gemm_pack_b", PACK_GROUP,
                                    p.tiles * p.pairs, 1);
  if (!launch) return COMPUTE_OK;
  if (!factor->batched) launch->groups[2] = 1;
  emit_input(g, launch, factor->input);
  emit_workspace(g, launch, "panels", "u32", 4, start, true);
  gemm_fields(g, launch, problem);
  emit_field_divisor(g, launch, "pairs", p.pairs);
  emit_field_index(g, launch, tiles, p.tiles);
  text_buffer *text = &launch->body;
  text_add(text,
           "LOCAL_ARRAY(SLAB, slabs, %u);\n"
           "const INDEX tile = DIVIDE((INDEX)GROUP_ID_X, shape.pairs);\n"
           "const INDEX pair = (INDEX)GROUP_ID_X - tile * shape.pairs;\n"
           "const INDEX outer = tile * %u, k = pair * TILE_K;\n",
           side / 8, side);
  gemm_begin_batches(g, launch, problem);
  text_add(text,
           "%s"
           "pack_%s(panels + ((FIRST_%c + tile) * shape.pairs + pair) * (%u * TILE_K), IN_%c,\n"
           "batch_%s + outer * shape.%s_outer + k * shape.%s_k, shape.%s_outer, shape.%s_k,\n"
           "shape.%c - outer, shape.k - k, (LOCAL u32 *)slabs, (int)LOCAL_ID_X);\n}\n",
           factor->batched ? "" : "if (batch > 0) break;\n", small, is_a ? 'A' : 'B', side,
           is_a ? 'A' : 'B', small, small, small, small, small, is_a ? 'm' : 'n');
  return COMPUTE_OK;
}

compute_status gemm_warpgroup_pack(generation *g, const gemm_problem *problem) {
  const uint64_t of_a = panels_of(g, problem, &problem->a).bytes;
  const uint64_t of_b = panels_of(g, problem, &problem->b).bytes;
  g->workspace_bytes = of_a + of_b;
  const compute_status status = emit_packing(g, problem, &problem->a, 0);
  return status ? status : emit_packing(g, problem, &problem->b, of_a);
}

void gemm_warpgroup_take_panels(generation *g, emit_launch *launch, const gemm_problem *problem) {
  const panels of_a = panels_of(g, problem, &problem->a);
  emit_workspace(g, launch, "panels_a", "u32", 4, 0, false);
  emit_workspace(g, launch, "panels_b", "u32", 4, of_a.bytes, false);
  emit_field_index(g, launch, "pairs", of_a.pairs);
  emit_field_index(g, launch, "tiles_n", panels_of(g, problem, &problem->b).tiles);
}

/* ---- Text ---------------------------------------------------------------------------------- */

void gemm_warpgroup_begin(const generation *g, text_buffer *text, const gemm_problem *problem) {
  text_add(text, "const int warpgroup = WARP_UNIFORM(item / 128);\n"
                 "int stage = 0, phase = 0;\n");
  if (!gemm_warpgroup_packs(g, problem)) {
    text_add(text, "(void)phase;\n");
    return;
  }
  text_add(text, "LOCAL_ARRAY(u64, arrivals, STAGES);\n"
                 "if (item == 0) {\n"
                 "for (int i = 0; i < STAGES; i++) ARRIVAL_BEGIN(arrivals + i);\n"
                 "}\n");
}

void gemm_warpgroup_define(generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  emit_constant(g, "TILE_M", t->tile_m);
  emit_constant(g, "TILE_N", t->tile_n);
  emit_constant(g, "TILE_K", t->tile_k);
  emit_constant(g, "ITEM_M", t->item_m / BLOCK);
  emit_constant(g, "STAGES", t->items);
  emit_constant(g, "BAND", GEMM_BAND);
  emit_constant(g, "LOCAL_SLABS", (int64_t)((gemm_warpgroup_local_bytes(t) + 1023) / 1024));
  emit_constant(g, "MATRIX_BYTES", gemm_matrix_bytes(problem));
  emit_constant(g, "SLAB_OF_A", (int64_t)t->tile_m * t->tile_k);
  emit_constant(g, "STAGE_ELEMENTS", ((int64_t)t->tile_m + t->tile_n) * t->tile_k);
  const bool packs = gemm_warpgroup_packs(g, problem);
  text_add(&g->definitions,
           "#define MATRIX_TYPE %s\n#define IS_PACKED %d\n"
           "WARPGROUP_UNIT(multiply_slabs, %u, %s, %d, %d)\n",
           packs ? "u32" : "u16", packs, (unsigned)t->tile_n, gemm_matrix_name(problem),
           !packs && !gemm_along_k(&problem->a), !packs && !gemm_along_k(&problem->b));
  emit_template(g, &g->definitions, "gemm_warpgroup");
  if (packs) {
    emit_constant(g, "PACK_GROUP", PACK_GROUP);
    emit_constant(g, "A_ALONG_K", 1);
    emit_constant(g, "B_ALONG_K", 1);
    define_packing(g, &problem->a, 'A', t->tile_m);
    define_packing(g, &problem->b, 'B', t->tile_n);
    return;
  }
  define_copy(g, &problem->a, 'A', t->tile_m);
  define_copy(g, &problem->b, 'B', t->tile_n);
}

/* ---- Choice -------------------------------------------------------------------------------- */

/* A tile, the rows of a warpgroup, and the speed: multiply-adds of a multiprocessor in a clock,
 * relative to the largest tile. */
typedef struct warpgroup_shape {
  uint32_t m, n, item_m, stages;
  double speed;
} warpgroup_shape;

static const warpgroup_shape shapes[] = {{128, 256, 64, 4, 1},   {256, 128, 128, 4, 0.95},
                                         {128, 128, 64, 4, 0.8}, {128, 64, 64, 4, 0.5},
                                         {64, 128, 64, 4, 0.5},  {64, 64, 64, 4, 0.3}};

enum { SHAPES = sizeof shapes / sizeof *shapes };

/* One stage less is better than a smaller tile. Returns 0 if too few fit. */
static uint32_t stages_of(const generation *g, const gemm_problem *problem,
                          const warpgroup_shape *shape) {
  const uint32_t least = gemm_matrix_bytes(problem) == 4 ? 4 : 3;
  uint32_t stages = shape->stages;
  while (stages >= least && local_bytes(shape->m, shape->n, stages) + (least == 4 ? ARRIVALS : 0) >
                                emit_most_local_limit(g))
    stages--;
  return stages >= least ? stages : 0;
}

/* The smallest shape, or a better one that fits. */
static const warpgroup_shape *choose(const generation *g, const gemm_problem *problem) {
  const warpgroup_shape *best = &shapes[SHAPES - 1];
  double least = gemm_time_of_tiles(g, problem, best->m, best->n, best->speed);
  for (int i = SHAPES - 2; i >= 0; i--) {
    const warpgroup_shape *shape = &shapes[i];
    const double time = gemm_time_of_tiles(g, problem, shape->m, shape->n, shape->speed);
    if (stages_of(g, problem, shape) == 0 || time > least) continue;
    best = shape;
    least = time;
  }
  return best;
}

/* Another launch adds up the parts. It takes as long as a thousand or two of k. */
enum { LONG_K = 2048 };

static void complete(generation *g, const gemm_problem *problem) {
  compute_tuning *t = &g->tuning;
  const warpgroup_shape *shape = choose(g, problem);
  emit_default(&t->tile_m, shape->m);
  emit_default(&t->tile_n, shape->n);
  emit_default(&t->tile_k, LINE / gemm_matrix_bytes(problem));
  emit_default(&t->item_m, min_u32(shape->item_m, t->tile_m));
  emit_default(&t->item_n, t->tile_n);
  const warpgroup_shape chosen = {.m = t->tile_m, .n = t->tile_n, .stages = shape->stages};
  emit_default(&t->items, stages_of(g, problem, &chosen));
  const double tiles = (double)divide_up(problem->m, t->tile_m) *
                       (double)divide_up(problem->n, t->tile_n) * (double)problem->batches;
  const bool few = tiles * 2 <= (double)emit_units(g) && problem->k >= LONG_K &&
                   !gemm_warpgroup_packs(g, problem);
  emit_default(&t->groups, few ? gemm_choose_parts(g, problem, (int64_t)tiles) : 1);
}

static compute_status check(generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  if (t->tile_m > 256 || t->tile_n > 256 || !emit_is_power(t->tile_m) ||
      !emit_is_power(t->tile_n) || t->tile_m < BLOCK || t->tile_n < BLOCK ||
      t->tile_k != LINE / gemm_matrix_bytes(problem) || t->item_m % BLOCK ||
      t->item_m * t->tile_n > 16384 || t->tile_m % t->item_m || t->item_n != t->tile_n)
    return emit_refuse(g, "a tile of %ux%ux%u cannot be cut into %ux%u for each warpgroup",
                       (unsigned)t->tile_m, (unsigned)t->tile_n, (unsigned)t->tile_k,
                       (unsigned)t->item_m, (unsigned)t->item_n);
  const uint32_t items = gemm_items(t);
  if (items > emit_group_limit(g) || items > 512)
    return emit_refuse(g, "groups of %u items are too large for the tile or the device",
                       (unsigned)items);
  const bool packs = gemm_warpgroup_packs(g, problem);
  if (t->items < (packs ? 4 : 3) || t->items > 6)
    return emit_refuse(g, "%u stages are too few or too many, or do not fit", (unsigned)t->items);
  const uint32_t copies = (t->tile_m + t->tile_n) * 8 / items * t->items;
  if (copies > GEMM_COPIES_LIMIT && !packs)
    return emit_refuse(g, "an item cannot have %u copies in progress", (unsigned)copies);
  const uint64_t needed = gemm_warpgroup_local_bytes(t) + (packs ? ARRIVALS : 0);
  if (needed > emit_most_local_limit(g))
    return emit_refuse(g, "the tile needs %llu bytes of local memory, the device has %llu",
                       (unsigned long long)needed, (unsigned long long)emit_most_local_limit(g));
  if (packs && panels_of(g, problem, &problem->a).bytes + panels_of(g, problem, &problem->b).bytes >
                   PANEL_LIMIT)
    return emit_refuse(g, "the factors are too large to be packed");
  if ((packs && t->groups > 1) || t->groups > GEMM_SPLIT_LIMIT ||
      !gemm_parts_fit(problem, t->groups))
    return emit_refuse(g, "k cannot be cut into %u parts", (unsigned)t->groups);
  return COMPUTE_OK;
}

/* True if packing saves more than it costs. On an H200 packing does 2·m·n·k operations at about 300
 * tera per second instead of 130. It costs a read and a write of each element, and two launches. */
static bool packing_pays(const gemm_problem *problem) {
  const double batches = (double)problem->batches;
  const double products = (double)problem->m * (double)problem->n * (double)problem->k * batches;
  const double a = (double)problem->m * (double)problem->k * (problem->a.batched ? batches : 1);
  const double b = (double)problem->n * (double)problem->k * (problem->b.batched ? batches : 1);
  return products > 300 * (a + b) + 6e8;
}

static bool suits(const generation *g, const void *of) {
  const gemm_problem *problem = of;
  if (!is_served(g, problem) || !gemm_matrix_is_large(g, problem) || problem->m < BLOCK ||
      problem->n < BLOCK)
    return false;
  if (gemm_matrix_bytes(problem) == 4) return packing_pays(problem);
  return problem->k >= 64 && gemm_is_aligned(problem, &problem->a, 0) &&
         gemm_is_aligned(problem, &problem->b, 1);
}

static compute_status accept(generation *g, void *of) {
  const gemm_problem *problem = of;
  if (!is_served(g, problem))
    return emit_refuse(g, "the device has no warpgroup matrix units for these factors, or they "
                          "cannot be copied as they are");
  if (problem->k == 0) return emit_refuse(g, "there is nothing to multiply");
  complete(g, problem);
  return check(g, problem);
}

const emit_form gemm_warpgroup = {GEMM_WARPGROUP, suits, accept, gemm_emit_tiled};
