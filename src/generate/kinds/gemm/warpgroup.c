/* SPDX-License-Identifier: MIT */
/* Tiles of C that warpgroups multiply straight from local memory (kernels/gemm_warpgroup.h), where
 * asynchronous copies have brought f16 or bf16 in the layout that they read. What surrounds the
 * products is tiled.c's, the stores are matrix.c's. */
#include "generate/kinds/gemm/gemm.h"

enum { LINE = 128, BLOCK = 64 }; /* bytes of a line; rows or columns of a block in a slab */

static bool is_served(const generation *g, const gemm_problem *problem) {
  return emit_has(g, COMPUTE_TARGET_WARPGROUP_MATRIX) && gemm_matrix_serves(g, problem) &&
         gemm_matrix_bytes(problem) == 2 && gemm_is_copied(problem, &problem->a) &&
         gemm_is_copied(problem, &problem->b);
}

static uint64_t local_bytes(uint32_t tile_m, uint32_t tile_n, uint32_t stages) {
  return (uint64_t)(tile_m + tile_n) * LINE * stages;
}

uint64_t gemm_warpgroup_local_bytes(const compute_tuning *t) {
  const uint64_t slabs = local_bytes(t->tile_m, t->tile_n, t->items);
  const uint64_t staged = (uint64_t)t->tile_m / t->item_m * BLOCK * (t->tile_n + 8) * sizeof(float);
  return slabs > staged ? slabs : staged;
}

/* Where an element of a line is: gemm_pipeline_copy's lines go across all of a slab's blocks. */
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
  text_add(&g->definitions,
           "#define MATRIX_TYPE u16\nWARPGROUP_UNIT(multiply_slabs, %u, %s, %d, %d)\n",
           (unsigned)t->tile_n, gemm_matrix_name(problem), !gemm_along_k(&problem->a),
           !gemm_along_k(&problem->b));
  emit_template(g, &g->definitions, "gemm_warpgroup");
  emit_template(g, &g->definitions, "gemm_pipeline");
  define_copy(g, &problem->a, 'A', t->tile_m);
  define_copy(g, &problem->b, 'B', t->tile_n);
}

/* ---- Choice -------------------------------------------------------------------------------- */

/* A tile, the rows of a warpgroup, and how many multiply-adds in a clock a multiprocessor gets out
 * of it, in parts of what it gets out of the largest. */
typedef struct warpgroup_shape {
  uint32_t m, n, item_m, stages;
  double speed;
} warpgroup_shape;

static const warpgroup_shape shapes[] = {{128, 256, 64, 4, 1},   {256, 128, 128, 4, 0.95},
                                         {128, 128, 64, 4, 0.8}, {128, 64, 64, 4, 0.5},
                                         {64, 128, 64, 4, 0.5},  {64, 64, 64, 4, 0.3}};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static uint64_t local_limit(const generation *g) {
  const uint64_t given = emit_local_limit(g), asked = emit_asked_local_limit(g);
  return asked > given ? asked : given;
}

/* One stage less is better than a smaller tile; fewer than three are none. */
static uint32_t stages_of(const generation *g, const warpgroup_shape *shape) {
  uint32_t stages = shape->stages;
  while (stages >= 3 && local_bytes(shape->m, shape->n, stages) > local_limit(g)) stages--;
  return stages >= 3 ? stages : 0;
}

/* The smallest one, or a better one that fits. */
static const warpgroup_shape *choose(const generation *g, const gemm_problem *problem) {
  const warpgroup_shape *best = &shapes[SHAPES - 1];
  double least = gemm_time_of_tiles(g, problem, best->m, best->n, best->speed);
  for (int i = SHAPES - 2; i >= 0; i--) {
    const warpgroup_shape *shape = &shapes[i];
    const double time = gemm_time_of_tiles(g, problem, shape->m, shape->n, shape->speed);
    if (stages_of(g, shape) == 0 || time > least) continue;
    best = shape;
    least = time;
  }
  return best;
}

static void complete(generation *g, const gemm_problem *problem) {
  compute_tuning *t = &g->tuning;
  const warpgroup_shape *shape = choose(g, problem);
  emit_default(&t->tile_m, shape->m);
  emit_default(&t->tile_n, shape->n);
  emit_default(&t->tile_k, LINE / gemm_matrix_bytes(problem));
  emit_default(&t->item_m, min_u32(shape->item_m, t->tile_m));
  emit_default(&t->item_n, t->tile_n);
  const warpgroup_shape chosen = {.m = t->tile_m, .n = t->tile_n, .stages = shape->stages};
  emit_default(&t->items, stages_of(g, &chosen));
  const double tiles = (double)divide_up(problem->m, t->tile_m) *
                       (double)divide_up(problem->n, t->tile_n) * (double)problem->batches;
  const bool few = tiles * 2 <= (double)emit_units(g);
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
  if (t->items < 3 || t->items > 6)
    return emit_refuse(g, "%u stages are too few or too many, or do not fit", (unsigned)t->items);
  const uint32_t copies = (t->tile_m + t->tile_n) * 8 / items * t->items;
  if (copies > GEMM_COPIES_LIMIT)
    return emit_refuse(g, "an item cannot have %u copies in progress", (unsigned)copies);
  if (gemm_warpgroup_local_bytes(t) > local_limit(g))
    return emit_refuse(g, "the tile needs %llu bytes of local memory, the device has %llu",
                       (unsigned long long)gemm_warpgroup_local_bytes(t),
                       (unsigned long long)local_limit(g));
  if (t->groups > GEMM_SPLIT_LIMIT || !gemm_parts_fit(problem, t->groups))
    return emit_refuse(g, "k cannot be cut into %u parts", (unsigned)t->groups);
  return COMPUTE_OK;
}

static bool suits(const generation *g, const void *of) {
  const gemm_problem *problem = of;
  return is_served(g, problem) && gemm_matrix_is_large(g, problem) && problem->m >= BLOCK &&
         problem->n >= BLOCK && problem->k >= 64 && stages_of(g, &shapes[SHAPES - 1]) > 0 &&
         gemm_is_aligned(problem, &problem->a, 0) && gemm_is_aligned(problem, &problem->b, 1);
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
