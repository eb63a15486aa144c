/* SPDX-License-Identifier: MIT */
/* Tiles of C on matrix units with asynchronous copies (kernels/gemm_pipeline.h). This file chooses
 * the parameters; matrix.c writes the text. */
#include "codegen/generate/kinds/gemm/gemm.h"

static bool is_served(const generation *g, const gemm_problem *problem) {
  return gemm_matrix_has_unit(g, problem) && gemm_is_copied(problem, &problem->a) &&
         gemm_is_copied(problem, &problem->b) && dtype_is_float(problem->a.dtype) &&
         dtype_is_float(problem->b.dtype);
}

/* A tile, its warps, and its speed: multiply-adds of a multiprocessor in a clock, relative to the
 * largest tile. The largest tile uses an element in local memory most often, and loads each element
 * from the cache least often. */
typedef struct pipeline_shape {
  uint32_t m, n, item_m, item_n, stages;
  double speed;
} pipeline_shape;

static const pipeline_shape shapes[] = {{128, 256, 64, 64, 4, 1},   {256, 128, 64, 64, 4, 1},
                                        {128, 128, 64, 64, 4, 0.9}, {128, 64, 64, 32, 4, 0.7},
                                        {64, 64, 32, 32, 4, 0.5},   {32, 32, 16, 16, 4, 0.2}};

static const pipeline_shape shapes_f64[] = {
    {128, 64, 32, 32, 4, 1}, {64, 64, 32, 32, 4, 0.85}, {32, 32, 16, 16, 4, 0.3}};

static double time_of(const generation *g, const gemm_problem *problem,
                      const pipeline_shape *shape) {
  return gemm_time_of_tiles(g, problem, shape->m, shape->n, shape->speed);
}

/* An upper bound. */
static uint64_t shape_bytes(const gemm_problem *problem, const pipeline_shape *shape) {
  const uint64_t padded = shape->m + shape->n + 16;
  return padded * shape->stages * 2 * gemm_matrix_step(problem) * gemm_matrix_bytes(problem);
}

static const pipeline_shape *shapes_of(const gemm_problem *problem, int *count) {
  const bool wide = problem->sum_bytes == 8;
  *count = (int)(wide ? sizeof shapes_f64 / sizeof *shapes_f64 : sizeof shapes / sizeof *shapes);
  return wide ? shapes_f64 : shapes;
}

/* The smallest shape, or a better one that fits. */
static const pipeline_shape *choose(const generation *g, const gemm_problem *problem) {
  int count;
  const pipeline_shape *first = shapes_of(problem, &count);
  const pipeline_shape *best = &first[count - 1];
  for (int i = count - 2; i >= 0; i--)
    if (shape_bytes(problem, &first[i]) <= emit_most_local_limit(g) &&
        time_of(g, problem, &first[i]) <= time_of(g, problem, best))
      best = &first[i];
  return best;
}

static void complete(generation *g, const gemm_problem *problem) {
  compute_tuning *t = &g->tuning;
  const pipeline_shape *shape = choose(g, problem);
  emit_default(&t->tile_m, shape->m);
  emit_default(&t->tile_n, shape->n);
  emit_default(&t->tile_k, 2 * gemm_matrix_step(problem));
  emit_default(&t->item_m, min_u32(shape->item_m, t->tile_m));
  emit_default(&t->item_n, min_u32(shape->item_n, t->tile_n));
  emit_default(&t->items, shape->stages);
  const double tiles = (double)divide_up(problem->m, t->tile_m) *
                       (double)divide_up(problem->n, t->tile_n) * (double)problem->batches;
  const bool few = tiles * 2 <= (double)emit_units(g);
  emit_default(&t->groups, few ? gemm_choose_parts(g, problem, (int64_t)tiles) : 1);
}

static compute_status check(generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  const uint32_t piece = 16 / gemm_matrix_bytes(problem);
  if (t->tile_m > 256 || t->tile_n > 256 || t->tile_k > 64 || !emit_is_power(t->tile_m) ||
      !emit_is_power(t->tile_n) || !emit_is_power(t->tile_k) || t->tile_m < 32 || t->tile_n < 32 ||
      t->tile_k < 2 * gemm_matrix_step(problem) || t->item_m % 16 || t->item_n % 16 ||
      t->item_m * t->item_n * problem->sum_bytes > 16384 || t->tile_m % t->item_m ||
      t->tile_n % t->item_n)
    return emit_refuse(g, "a tile of %ux%ux%u cannot be cut into %ux%u for each warp",
                       (unsigned)t->tile_m, (unsigned)t->tile_n, (unsigned)t->tile_k,
                       (unsigned)t->item_m, (unsigned)t->item_n);
  const uint32_t items = gemm_items(t);
  if (items > emit_group_limit(g) || t->tile_m * t->tile_k / piece % items ||
      t->tile_n * t->tile_k / piece % items)
    return emit_refuse(g, "groups of %u items are too large for the tile or the device",
                       (unsigned)items);
  if (t->items < 2 || t->items > 6)
    return emit_refuse(g, "%u stages are too few or too many", (unsigned)t->items);
  const uint32_t copies = (t->tile_m + t->tile_n) * t->tile_k / piece / items * t->items;
  if (copies > GEMM_COPIES_LIMIT)
    return emit_refuse(g, "an item cannot have %u copies in progress", (unsigned)copies);
  if (gemm_matrix_local_bytes(g, problem) > emit_most_local_limit(g))
    return emit_refuse(g, "the tile needs %llu bytes of local memory, the device has %llu",
                       (unsigned long long)gemm_matrix_local_bytes(g, problem),
                       (unsigned long long)emit_most_local_limit(g));
  if (t->groups > GEMM_SPLIT_LIMIT || !gemm_parts_fit(problem, t->groups))
    return emit_refuse(g, "k cannot be cut into %u parts", (unsigned)t->groups);
  return COMPUTE_OK;
}

static bool suits(const generation *g, const void *of) {
  const gemm_problem *problem = of;
  return is_served(g, problem) && gemm_matrix_is_large(g, problem) && problem->k >= 64 &&
         gemm_is_aligned(problem, &problem->a, 0) && gemm_is_aligned(problem, &problem->b, 1);
}

static compute_status accept(generation *g, void *of) {
  const gemm_problem *problem = of;
  if (!is_served(g, problem))
    return emit_refuse(g, "the device has no matrix units for these factors, or they cannot be "
                          "copied as they are");
  if (problem->k == 0) return emit_refuse(g, "there is nothing to multiply");
  complete(g, problem);
  return check(g, problem);
}

const emit_form gemm_pipeline = {GEMM_PIPELINE, suits, accept, gemm_emit_tiled};
