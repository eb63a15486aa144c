/* SPDX-License-Identifier: MIT */
/* Tiles of C through local memory, for GPUs. kernels/gemm_tiled.h is the text and explains the
 * method; matrix units also use kernels/gemm_matrix.h. With k in parts, each part stores its sums
 * in the workspace, and a second launch adds them up. */
#include <stdio.h>

#include "codegen/generate/kinds/gemm/gemm.h"

bool gemm_has_ring(const compute_tuning *t) {
  return t->variant == GEMM_PIPELINE || t->variant == GEMM_WARPGROUP;
}

bool gemm_has_units(const compute_tuning *t) {
  return t->variant == GEMM_MATRIX || gemm_has_ring(t);
}

uint32_t gemm_items(const compute_tuning *t) {
  const uint32_t cuts = (t->tile_m / t->item_m) * (t->tile_n / t->item_n);
  return t->variant == GEMM_WARPGROUP ? 128 * cuts : gemm_has_units(t) ? 32 * cuts : cuts;
}

/* Elements of one load; more than 1 only if they are contiguous. */
static uint32_t vector_of(const generation *g, const gemm_factor *factor, uint32_t outer_tile) {
  const compute_tuning *t = &g->tuning;
  if (factor->outer != 1 && factor->k != 1) return 1;
  const uint32_t side = gemm_along_k(factor) ? t->tile_k : outer_tile;
  const uint32_t items = gemm_items(t);
  uint32_t vector = t->vector;
  while (vector > 1 && (side % vector != 0 || outer_tile * t->tile_k % (items * vector) != 0 ||
                        vector * (uint32_t)compute_dtype_size(factor->dtype) > 16))
    vector /= 2;
  return vector;
}

/* Sums that one access of local memory moves. */
static uint32_t piece_of(const gemm_problem *problem, uint32_t count) {
  uint32_t piece = 16 / problem->sum_bytes;
  while (count % piece != 0) piece /= 2;
  return piece;
}

uint32_t gemm_local_sums(const compute_tuning *t) {
  const uint32_t slabs = t->tile_k * (t->tile_m + t->tile_n + 8);
  const uint32_t staged = t->tile_m / t->item_m * t->tile_n;
  return slabs > staged ? slabs : staged;
}

void gemm_define_step(generation *g, const gemm_factor *factor, char letter) {
  text_add(&g->definitions, "#define %c_STEP %c_%s\n", letter, letter,
           gemm_along_k(factor) ? (letter == 'A' ? "ROW" : "COLUMN") : "K");
}

void gemm_define_slab(generation *g, const gemm_problem *problem, const gemm_factor *factor,
                      char letter, uint32_t side) {
  static const char *const names[] = {"TYPE",    "VECTOR", "LOADS", "SIDE", "PITCH",
                                      "ALONG_K", "PIECE",  "FETCH", "PUT",  "DECODE"};
  const compute_tuning *t = &g->tuning;
  text_buffer *text = &g->definitions;
  const uint32_t items = gemm_items(t);
  const uint32_t vector = vector_of(g, factor, side);
  const int small = letter + ('a' - 'A');
  text_add(text, "#define %c_VECTOR %u\n#define %c_LOADS %u\n", letter, (unsigned)vector, letter,
           (unsigned)(side * t->tile_k / (items * vector)));
  gemm_define_step(g, factor, letter);
  text_add(text, "#define SLAB_TYPE %c_TYPE\n#define SLAB_VECTOR %c_VECTOR\n", letter, letter);
  text_add(text, "#define SLAB_LOADS %c_LOADS\n#define SLAB_PITCH PITCH_%c\n", letter, letter);
  text_add(text, "#define SLAB_FETCH fetch_%c\n#define SLAB_PUT put_%c\n", small, small);
  if (t->variant == GEMM_MATRIX && gemm_matrix_step(problem) == 16)
    text_add(text, "#define SLAB_DECODE(array, i) ((array)[i])\n");
  else
    text_add(text, "#define SLAB_DECODE(array, i) ((SUM)LOAD_%s(array, i))\n",
             compute_dtype_name(factor->dtype));
  emit_constant(g, "SLAB_SIDE", side);
  emit_constant(g, "SLAB_ALONG_K", gemm_along_k(factor));
  emit_constant(g, "SLAB_PIECE", piece_of(problem, vector));
  emit_template(g, text, "gemm_slab");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    text_add(text, "#undef SLAB_%s\n", names[i]);
}

/* A CUDA compiler spends registers on scheduling until few groups fill a multiprocessor. With a
 * limit for 512 items it keeps within 128 registers each, and the sums take at most half of them. A
 * limit for 384 items leaves 168 registers, for items that fetch more. */
void gemm_limit_registers(generation *g, const gemm_problem *problem, uint32_t element_bytes) {
  const compute_tuning *t = &g->tuning;
  const uint32_t items = gemm_items(t), sums = t->tile_m * t->tile_n / items;
  const uint32_t fetched = (t->tile_m + t->tile_n) * t->tile_k * element_bytes / 4 / items;
  if (g->target->dialect != COMPUTE_DIALECT_CUDA || items > 256 || items < 64 ||
      problem->sum_bytes != 4 || sums > 64)
    return;
  text_add(&g->definitions,
           "#undef REQUIRE_GROUP\n"
           "#define REQUIRE_GROUP(x, y, z) __launch_bounds__((x) * (y) * (z), %u)\n",
           (unsigned)((fetched > 16 ? 384 : 512) / items));
}

void gemm_define_tile(generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  emit_constant(g, "TILE_M", t->tile_m);
  emit_constant(g, "TILE_N", t->tile_n);
  emit_constant(g, "TILE_K", t->tile_k);
  emit_constant(g, "ITEM_M", t->item_m);
  emit_constant(g, "ITEM_N", t->item_n);
  emit_constant(g, "ROW_PIECE", piece_of(problem, t->item_m));
  emit_constant(g, "COLUMN_PIECE", piece_of(problem, t->item_n));
  emit_constant(g, "LOCAL_SUMS", gemm_local_sums(t));
  emit_constant(g, "SLAB_SUMS", 16 / problem->sum_bytes);
  gemm_limit_registers(g, problem, 4);
  emit_constant(g, "BAND", GEMM_BAND);
  emit_template(g, &g->definitions, "gemm_local");
}

void gemm_begin_tile(text_buffer *text) {
  text_add(text, "LOCAL_ARRAY(SLAB, slabs, LOCAL_SUMS / SLAB_SUMS);\n"
                 "LOCAL SUM *slab_a = (LOCAL SUM *)slabs;\n"
                 "LOCAL SUM *slab_b = slab_a + TILE_K * PITCH_A;\n"
                 "const int item = (int)LOCAL_ID_X;\n"
                 "const int item_row = item / ITEMS_N, item_column = item %% ITEMS_N;\n");
  gemm_find_tile(text);
}

void gemm_find_tile(text_buffer *text) {
  text_add(text, "const INDEX band = DIVIDE((INDEX)GROUP_ID_X, shape.band);\n"
                 "const INDEX in_band = (INDEX)GROUP_ID_X - band * shape.band;\n"
                 "const INDEX below = shape.tiles_m - band * BAND;\n"
                 "const INDEX high = below < BAND ? below : BAND;\n"
                 "const INDEX column0 = in_band / high * TILE_N;\n"
                 "const INDEX row0 = (band * BAND + in_band %% high) * TILE_M;\n");
}

#define PART_PLACE                                                                                 \
  "partial[((batch * (INDEX)GROUP_COUNT_Y + (INDEX)GROUP_ID_Y) * ROWS + row) * COLUMNS + column]"

/* In the order of the registers. */
static void store_registers(text_buffer *text) {
  text_add(text, "UNROLL for (int i = 0; i < ITEM_M; i++) {\n"
                 "const INDEX row = row0 + TILED_ROW(i);\n"
                 "UNROLL for (int j = 0; j < ITEM_N; j++) {\n"
                 "const INDEX column = column0 + TILED_COLUMN(j);\n"
                 "if (row < ROWS && column < COLUMNS) {\n" PART_PLACE " = sum[i][j];\n"
                 "}\n}\n}\n");
}

void gemm_store_part(text_buffer *text, bool matrix) {
  if (!matrix) {
    store_registers(text);
    return;
  }
  const char *sum = gemm_begin_staged(text, matrix);
  text_add(text, PART_PLACE " = %s;\n", sum);
  gemm_end_staged(text);
}

const char *gemm_begin_staged(text_buffer *text, bool matrix) {
  if (matrix) return gemm_matrix_begin_staged(text);
  text_add(text, "NO_UNROLL for (int i = 0; i < ITEM_M; i++) {\n"
                 "UNROLL for (int held = 0; held < ITEM_M; held++) {\n"
                 "if (held == i) {\n"
                 "UNROLL for (int j = 0; j < ITEM_N; j += COLUMN_PIECE) {\n"
                 "LOCAL_STORE(COLUMN_PIECE, slab_a + item_row * TILE_N + TILED_COLUMN(j), "
                 "sum[held] + j);\n"
                 "}\n}\n}\n"
                 "BARRIER();\n"
                 "NO_UNROLL for (int place = item; place < ITEMS_M * TILE_N; place += GROUP) {\n"
                 "const INDEX row = row0 + STAGED_ROW(i, place / TILE_N);\n"
                 "const INDEX column = column0 + place %% TILE_N;\n"
                 "if (row < ROWS && column < COLUMNS) {\n");
  return "slab_a[place]";
}

void gemm_end_staged(text_buffer *text) {
  text_add(text, "}\n}\n"
                 "BARRIER();\n"
                 "}\n");
}

/* Computes the sums of the group's tile in registers. */
static void add_sums(generation *g, emit_launch *launch, const gemm_problem *problem) {
  text_buffer *text = &launch->body;
  const uint32_t variant = g->tuning.variant;
  if (gemm_has_ring(&g->tuning))
    gemm_ring_begin(g, text, problem, launch->local_bytes > 0);
  else if (variant == GEMM_MATRIX)
    gemm_matrix_begin(text);
  else
    gemm_begin_tile(text);
  gemm_find_part(text);
  gemm_begin_batches(g, launch, problem);
  if (gemm_has_ring(&g->tuning)) {
    emit_template(g, text,
                  gemm_warpgroup_packs(g, problem) ? "gemm_warpgroup_panels"
                                                   : "gemm_pipeline_operands");
    emit_template(g, text, variant == GEMM_PIPELINE ? "gemm_pipeline_tile" : "gemm_warpgroup_tile");
    return;
  }
  emit_template(g, text, "gemm_tiled");
  emit_template(g, text, variant == GEMM_MATRIX ? "gemm_matrix_products" : "gemm_products");
  text_add(text, "SUM_PARTS_END(ITEM_M *ITEM_N, TILE_SUM)\n");
}

static const char *entry_of(const compute_tuning *t) {
  return t->variant == GEMM_WARPGROUP  ? "gemm_warpgroup"
         : t->variant == GEMM_PIPELINE ? "gemm_pipeline"
         : t->variant == GEMM_MATRIX   ? "gemm_matrix"
                                       : "gemm_tiled";
}

/* Defines how the operands come into local memory, and how they are multiplied there. */
static void define_operands(generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  if (gemm_has_ring(t)) {
    gemm_define_step(g, &problem->a, 'A');
    gemm_define_step(g, &problem->b, 'B');
    if (t->variant == GEMM_PIPELINE)
      gemm_matrix_define(g, problem);
    else
      gemm_warpgroup_define(g, problem);
    return;
  }
  if (t->variant == GEMM_MATRIX)
    gemm_matrix_define(g, problem);
  else
    gemm_define_tile(g, problem);
  gemm_define_slab(g, problem, &problem->a, 'A', t->tile_m);
  gemm_define_slab(g, problem, &problem->b, 'B', t->tile_n);
}

compute_status gemm_emit_tiled(generation *g, void *of) {
  const gemm_problem *problem = of;
  const compute_tuning *t = &g->tuning;
  const bool matrix = gemm_has_units(t);
  const bool parts = matrix ? t->groups > 1 : t->variant == GEMM_SPLIT;
  const int64_t tiles_m = (problem->m + t->tile_m - 1) / t->tile_m;
  const int64_t tiles_n = (problem->n + t->tile_n - 1) / t->tile_n;
  if (tiles_m > INT32_MAX / tiles_n)
    return emit_refuse(g, "the product has too many tiles for one launch");
  const int64_t slabs = (problem->k + t->tile_k - 1) / t->tile_k;
  const int64_t part = parts ? (slabs + t->groups - 1) / t->groups * t->tile_k : problem->k;
  const int64_t count = parts ? (problem->k + part - 1) / part : 1;
  gemm_define(g, of, false);
  define_operands(g, problem);
  gemm_define_parts(g, problem->accumulate, part, matrix);
  text_add(&g->definitions, "#define ROWS shape.m\n#define COLUMNS shape.n\n");
  const bool packs = gemm_warpgroup_packs(g, problem);
  const compute_status status = packs ? gemm_warpgroup_pack(g, problem) : COMPUTE_OK;
  if (status != COMPUTE_OK) return status;
  emit_launch *launch =
      gemm_launch(g, problem, entry_of(t), gemm_items(t), tiles_m * tiles_n, count);
  if (!launch) return COMPUTE_OK;
  if (gemm_has_ring(t) && gemm_matrix_local_bytes(g, problem) > emit_local_limit(g))
    launch->local_bytes = (uint32_t)gemm_matrix_local_bytes(g, problem);
  if (packs)
    gemm_warpgroup_take_panels(g, launch, problem);
  else
    gemm_take_factors(g, launch, problem);
  if (parts) {
    gemm_take_parts(g, launch, problem, count);
  } else {
    gemm_take_epilogue(g, launch, problem);
    gemm_store_fields(g, launch, problem);
  }
  gemm_fields(g, launch, problem);
  emit_field_index(g, launch, "tiles_m", tiles_m);
  emit_field_divisor(g, launch, "band", GEMM_BAND * tiles_n);
  gemm_part_field(g, launch, part);
  add_sums(g, launch, problem);
  text_buffer *text = &launch->body;
  if (parts) {
    gemm_store_part(text, matrix);
  } else if (matrix) {
    gemm_matrix_store(g, launch, problem);
  } else {
    const char *sum = gemm_begin_staged(text, false);
    gemm_store(g, text, problem, sum);
    gemm_end_staged(text);
  }
  text_add(text, "}\n");
  if (parts) gemm_emit_combine(g, problem, count);
  if (matrix)
    gemm_matrix_describe(g, problem, g->text, sizeof g->text);
  else
    snprintf(g->text, sizeof g->text, "tiled GEMM %ux%ux%u, %ux%u per item", (unsigned)t->tile_m,
             (unsigned)t->tile_n, (unsigned)t->tile_k, (unsigned)t->item_m, (unsigned)t->item_n);
  return COMPUTE_OK;
}

/* ---- Choice -------------------------------------------------------------------------------- */

typedef struct tile_shape {
  uint32_t m, n, k, item_m, item_n;
  uint32_t least; /* groups for each compute unit */
} tile_shape;

/* From the most products for each loaded element to the most groups. Few long rows give long tiles,
 * if enough groups remain to fill each unit. */
static const tile_shape tile_shapes[] = {{128, 128, 16, 8, 8, 1},
                                         {128, 64, 16, 8, 8, 1},
                                         {64, 128, 16, 8, 8, 6},
                                         {64, 64, 16, 8, 4, 1},
                                         {32, 32, 16, 4, 2, 0}};
enum { SMALL_TILE = 3 };

static uint64_t tile_bytes(const gemm_problem *problem, const compute_tuning *t) {
  return (uint64_t)gemm_local_sums(t) * problem->sum_bytes;
}

static bool tile_fits(const generation *g, const gemm_problem *problem, const tile_shape *tile) {
  const compute_tuning t = {
      .tile_m = tile->m, .tile_n = tile->n, .tile_k = tile->k, .item_m = tile->item_m};
  return tile_bytes(problem, &t) <= emit_local_limit(g) &&
         (tile->m / tile->item_m) * (tile->n / tile->item_n) <= emit_group_limit(g) &&
         tile->item_m * tile->item_n * problem->sum_bytes <= 256; /* registers */
}

/* The largest tile that gives all compute units work and is not mostly padding. */
static tile_shape choose_tile(const generation *g, const gemm_problem *problem) {
  const int64_t units = g->target->compute_units ? g->target->compute_units : 1;
  enum { COUNT = sizeof tile_shapes / sizeof *tile_shapes };
  if (emit_is_reproducible(g))
    return tile_shapes[tile_fits(g, problem, &tile_shapes[SMALL_TILE]) ? SMALL_TILE : COUNT - 1];
  for (int i = 0; i < COUNT - 1; i++) {
    const tile_shape *tile = &tile_shapes[i];
    const double groups = (double)divide_up(problem->m, tile->m) *
                          (double)divide_up(problem->n, tile->n) * (double)problem->batches;
    if (tile_fits(g, problem, tile) && groups >= (double)(tile->least * units) &&
        problem->m > tile->m / 2 && problem->n > tile->n / 2)
      return *tile;
  }
  return tile_shapes[COUNT - 1];
}

static void complete_tiles(generation *g, const gemm_problem *problem) {
  compute_tuning *t = &g->tuning;
  tile_shape tile = choose_tile(g, problem);
  if (t->variant == GEMM_SPLIT && t->tile_m == 0 && t->tile_n == 0) {
    for (int i = SMALL_TILE; i < SMALL_TILE + 2; i++)
      if (tile_fits(g, problem, &tile_shapes[i])) {
        tile = tile_shapes[i];
        break;
      }
  }
  emit_default(&t->tile_m, tile.m);
  emit_default(&t->tile_n, tile.n);
  emit_default(&t->tile_k, tile.k);
  emit_default(&t->item_m, t->tile_m < tile.item_m ? t->tile_m : tile.item_m);
  emit_default(&t->item_n, t->tile_n < tile.item_n ? t->tile_n : tile.item_n);
  emit_default(&t->vector, gemm_load_vector(problem));
  if (t->variant == GEMM_SPLIT && t->groups == 0) {
    const int64_t groups =
        divide_up(problem->m, t->tile_m) * divide_up(problem->n, t->tile_n) * problem->batches;
    t->groups = gemm_choose_parts(g, problem, groups);
    if (t->groups < 2) t->groups = 2;
  }
}

static compute_status check_tiles(generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  if (t->tile_m > 256 || t->tile_n > 256 || t->tile_k > 64 || t->tile_m % 4 || t->tile_n % 4)
    return emit_refuse(g, "a tile of %ux%ux%u is out of range or not a multiple of 4",
                       (unsigned)t->tile_m, (unsigned)t->tile_n, (unsigned)t->tile_k);
  if (t->item_m > 16 || t->item_n > 16 || t->tile_m % t->item_m || t->tile_n % t->item_n)
    return emit_refuse(g, "a tile of %ux%u cannot be cut into %ux%u per item", (unsigned)t->tile_m,
                       (unsigned)t->tile_n, (unsigned)t->item_m, (unsigned)t->item_n);
  const uint32_t items = (t->tile_m / t->item_m) * (t->tile_n / t->item_n);
  if (items > emit_group_limit(g))
    return emit_refuse(g, "the tile needs groups of %u items, the device has at most %u",
                       (unsigned)items, (unsigned)emit_group_limit(g));
  if (t->tile_m * t->tile_k % items || t->tile_n * t->tile_k % items)
    return emit_refuse(g, "%u items cannot share the loads of a tile of %ux%ux%u evenly",
                       (unsigned)items, (unsigned)t->tile_m, (unsigned)t->tile_n,
                       (unsigned)t->tile_k);
  if (tile_bytes(problem, t) > emit_local_limit(g))
    return emit_refuse(g, "the tile needs %llu bytes of local memory, the device has %llu",
                       (unsigned long long)tile_bytes(problem, t),
                       (unsigned long long)emit_local_limit(g));
  if (!emit_is_power(t->vector) || t->vector > 16)
    return emit_refuse(g, "loads of %u elements do not exist", (unsigned)t->vector);
  if (t->variant == GEMM_SPLIT && (t->groups < 2 || t->groups > GEMM_SPLIT_LIMIT))
    return emit_refuse(g, "k cannot be cut into %u parts", (unsigned)t->groups);
  if (t->variant == GEMM_SPLIT && problem->k < 2) return emit_refuse(g, "k is too short to be cut");
  return COMPUTE_OK;
}

/* ---- Forms --------------------------------------------------------------------------------- */

gemm_variant gemm_choose_tiled(const generation *g, const gemm_problem *problem) {
  const tile_shape tile = choose_tile(g, problem);
  if (!tile_fits(g, problem, &tile)) return GEMM_PLAIN;
  const double groups = (double)divide_up(problem->m, tile.m) *
                        (double)divide_up(problem->n, tile.n) * (double)problem->batches;
  return groups < 1e6 && gemm_choose_parts(g, problem, (int64_t)groups) > 1 ? GEMM_SPLIT
                                                                            : GEMM_TILED;
}

/* True if a target with local memory should get tiles of the variant. */
static bool suits(const generation *g, const gemm_problem *problem, gemm_variant variant) {
  return !emit_for_cpu(g) && emit_has(g, COMPUTE_TARGET_FAST_LOCAL) && problem->k > 0 &&
         gemm_choose_tiled(g, problem) == variant;
}

static bool split_suits(const generation *g, const void *problem) {
  return suits(g, problem, GEMM_SPLIT);
}

static bool tiled_suits(const generation *g, const void *problem) {
  return suits(g, problem, GEMM_TILED);
}

compute_status gemm_accept_tiles(generation *g, void *problem) {
  complete_tiles(g, problem);
  return check_tiles(g, problem);
}

const emit_form gemm_split = {GEMM_SPLIT, split_suits, gemm_accept_tiles, gemm_emit_tiled};
const emit_form gemm_tiled = {GEMM_TILED, tiled_suits, gemm_accept_tiles, gemm_emit_tiled};
