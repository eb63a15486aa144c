/* SPDX-License-Identifier: MIT */
/* Tiles of C on matrix units; kernels/gemm_matrix.h describes their layout in local memory. f16 and
 * bf16 factors have exact products and f32 sums; f32 factors are for callers that allow TF32. The
 * loop along k is the loop of kernels/gemm_tiled.h. This file also writes pipelines, including f64;
 * pipeline.c only chooses their parameters. */
#include <stdio.h>

#include "codegen/generate/kinds/gemm/gemm.h"
#include "core/type/dtype.h"

/* A type of matrix unit: its elements in local memory and in items, and the elements of k in one
 * step. */
typedef struct matrix_unit {
  const char *name, *type, *fragment;
  uint32_t bytes, step;
} matrix_unit;

static const matrix_unit unit_f16 = {"f16", "u16", "u32", 2, 16};
static const matrix_unit unit_bf16 = {"bf16", "u16", "u32", 2, 16};
static const matrix_unit unit_tf32 = {"tf32", "u32", "u32", 4, 8};
static const matrix_unit unit_f64 = {"f64", "f64", "f64", 8, 8};

static const matrix_unit *unit_of(const gemm_problem *problem) {
  const compute_dtype a = problem->a.dtype, b = problem->b.dtype;
  if (problem->accumulate == COMPUTE_F64 && a == b && a == COMPUTE_F64) return &unit_f64;
  if (problem->accumulate != COMPUTE_F32) return NULL;
  if (a == b && a == COMPUTE_F16) return &unit_f16;
  if (a == b && a == COMPUTE_BF16) return &unit_bf16;
  return problem->precision & COMPUTE_PRECISION_TF32 ? &unit_tf32 : NULL;
}

bool gemm_matrix_has_unit(const generation *g, const gemm_problem *problem) {
  const matrix_unit *unit = unit_of(problem);
  return emit_has(g, COMPUTE_TARGET_MATRIX_CORES) && !emit_for_cpu(g) &&
         g->target->dialect != COMPUTE_DIALECT_OPENCL && unit &&
         (unit != &unit_f64 || emit_has(g, COMPUTE_TARGET_MATRIX_F64));
}

bool gemm_matrix_serves(const generation *g, const gemm_problem *problem) {
  return gemm_matrix_has_unit(g, problem) && unit_of(problem) != &unit_f64;
}

uint32_t gemm_matrix_step(const gemm_problem *problem) {
  return unit_of(problem)->step;
}

uint32_t gemm_matrix_bytes(const gemm_problem *problem) {
  return unit_of(problem)->bytes;
}

const char *gemm_matrix_name(const gemm_problem *problem) {
  return unit_of(problem)->name;
}

static bool is_pipeline(const generation *g) {
  return g->tuning.variant == GEMM_PIPELINE;
}

/* Elements from a line of a slab to the next. Padding keeps lines off each other's banks. Short
 * lines of a pipeline have exchanged pieces instead. */
static uint32_t pitch_of(const generation *g, const gemm_problem *problem,
                         const gemm_factor *factor, uint32_t side) {
  if (!gemm_along_k(factor)) return side + (unit_of(problem) == &unit_f64 ? 4 : 8);
  return g->tuning.tile_k + (is_pipeline(g) ? 0 : 16 / gemm_matrix_bytes(problem));
}

/* Elements of a slab. */
static uint32_t slab_of(const generation *g, const gemm_problem *problem, const gemm_factor *factor,
                        uint32_t side) {
  const uint32_t lines = gemm_along_k(factor) ? side : g->tuning.tile_k;
  return lines * pitch_of(g, problem, factor, side);
}

uint64_t gemm_matrix_local_bytes(const generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  if (t->variant == GEMM_WARPGROUP) return gemm_warpgroup_local_bytes(t);
  const uint64_t slabs = (slab_of(g, problem, &problem->a, t->tile_m) +
                          (uint64_t)slab_of(g, problem, &problem->b, t->tile_n)) *
                         gemm_matrix_bytes(problem) * (is_pipeline(g) ? t->items : 1);
  const uint64_t staged = (uint64_t)t->tile_m / t->item_m * (t->tile_n / t->item_n) * 16 *
                          (t->item_n + 8) * problem->sum_bytes;
  return slabs > staged ? slabs : staged;
}

/* The place of an element of a line. One access reads a piece from each of eight lines (f64: two
 * pieces from each of four lines). Lines of less than 128 bytes share the banks. */
static void define_place(generation *g, const gemm_problem *problem, const gemm_factor *factor) {
  const uint32_t pieces = g->tuning.tile_k * gemm_matrix_bytes(problem) / 16;
  const uint32_t together = unit_of(problem) == &unit_f64 ? 2 : 1;
  text_buffer *text = &g->definitions;
  if (!is_pipeline(g) || !gemm_along_k(factor))
    text_add(text, "#define BLOCK_AT(line, at) ((line) * BLOCK_PITCH + (at))\n");
  else
    text_add(text,
             "#define BLOCK_AT(line, at) ((line) * BLOCK_PITCH + "
             "((at) / PIECE ^ (line) / %u %% %u * %u) * PIECE + (at) %% PIECE)\n",
             (unsigned)(pieces < 8 ? 8 / pieces : 1), (unsigned)(min_u32(pieces, 8) / together),
             (unsigned)together);
}

void gemm_define_copy(generation *g, const gemm_factor *factor, char letter, uint32_t side) {
  text_buffer *text = &g->definitions;
  text_add(text,
           "#define BLOCK_COPY copy_%c\n#define BLOCK_TYPE %c_TYPE\n#define BLOCK_SIDE %u\n"
           "#define %c_ALONG_K %d\n",
           letter + ('a' - 'A'), letter, (unsigned)side, letter, gemm_along_k(factor));
  emit_template(g, text, "gemm_pipeline_copy");
  text_add(text, "#undef BLOCK_COPY\n#undef BLOCK_TYPE\n#undef BLOCK_SIDE\n");
}

static void define_block(generation *g, const gemm_problem *problem, const gemm_factor *factor,
                         char letter, uint32_t side) {
  text_buffer *text = &g->definitions;
  const int small = letter + ('a' - 'A');
  text_add(text,
           "#define BLOCK_LOAD block_%c\n#define BLOCK_PITCH PITCH_%c\n#define BLOCK_IS_A %d\n"
           "#define BLOCK_ALONG_K %d\n",
           small, letter, letter == 'A', gemm_along_k(factor));
  define_place(g, problem, factor);
  emit_template(g, text, "gemm_matrix_block");
  if (is_pipeline(g)) gemm_define_copy(g, factor, letter, side);
  text_add(text, "#undef BLOCK_LOAD\n#undef BLOCK_PITCH\n#undef BLOCK_IS_A\n"
                 "#undef BLOCK_ALONG_K\n#undef BLOCK_AT\n");
}

void gemm_matrix_define(generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  const matrix_unit *unit = unit_of(problem);
  emit_constant(g, "TILE_M", t->tile_m);
  emit_constant(g, "TILE_N", t->tile_n);
  emit_constant(g, "TILE_K", t->tile_k);
  emit_constant(g, "WARP_M", t->item_m);
  emit_constant(g, "WARP_N", t->item_n);
  emit_constant(g, "BAND", GEMM_BAND);
  const uint64_t slab_bytes = 4 * (uint64_t)problem->sum_bytes;
  emit_constant(g, "LOCAL_SLABS",
                (int64_t)((gemm_matrix_local_bytes(g, problem) + slab_bytes - 1) / slab_bytes));
  text_add(&g->definitions,
           "#define MATRIX_TYPE %s\n#define FRAGMENT %s\n#define MATRIX_ELEMENT(x) %s\n"
           "#define MATRIX_MULTIPLY MATRIX_MULTIPLY_%s\n",
           unit->type, unit->fragment, unit == &unit_tf32 ? "F32_TO_TF32(x)" : "(x)", unit->name);
  emit_constant(g, "PITCH_A", pitch_of(g, problem, &problem->a, t->tile_m));
  emit_constant(g, "PITCH_B", pitch_of(g, problem, &problem->b, t->tile_n));
  emit_constant(g, "SLAB_OF_A", slab_of(g, problem, &problem->a, t->tile_m));
  emit_constant(g, "MATRIX_BYTES", unit->bytes);
  if (is_pipeline(g)) {
    emit_constant(g, "STAGES", t->items);
    emit_constant(g, "STAGE_ELEMENTS",
                  slab_of(g, problem, &problem->a, t->tile_m) +
                      slab_of(g, problem, &problem->b, t->tile_n));
    if (unit == &unit_tf32)
      text_add(&g->definitions, "#define MATRIX_ROUND(x) F32_TO_TF32(as_f32(x))\n");
  } else {
    gemm_limit_registers(g, problem, gemm_matrix_bytes(problem));
  }
  emit_template(g, &g->definitions, "gemm_matrix");
  if (is_pipeline(g)) emit_template(g, &g->definitions, "gemm_pipeline");
  define_block(g, problem, &problem->a, 'A', t->tile_m);
  define_block(g, problem, &problem->b, 'B', t->tile_n);
}

static void begin(text_buffer *text, const char *slabs) {
  text_add(text,
           "%s\n"
           "LOCAL SUM *staged = (LOCAL SUM *)slabs;\n"
           "const int item = (int)LOCAL_ID_X;\n"
           "const int warp = item / 32, line = item %% 32 / 4, quad = item %% 4;\n",
           slabs);
}

static void find_warp(text_buffer *text) {
  text_add(text, "const int warp_row = warp / WARPS_N * WARP_M;\n"
                 "const int warp_column = warp %% WARPS_N * WARP_N;\n");
  gemm_find_tile(text);
}

void gemm_matrix_begin(text_buffer *text) {
  begin(text, "LOCAL_ARRAY(SLAB, slabs, LOCAL_SLABS);\n"
              "LOCAL MATRIX_TYPE *slab_a = (LOCAL MATRIX_TYPE *)slabs;\n"
              "LOCAL MATRIX_TYPE *slab_b = slab_a + SLAB_OF_A;");
  find_warp(text);
}

void gemm_ring_begin(const generation *g, text_buffer *text, const gemm_problem *problem,
                     bool asked) {
  begin(text, asked ? "LOCAL_ARRAY_ASKED(SLAB, slabs, LOCAL_SLABS);\n"
                      "LOCAL MATRIX_TYPE *ring = (LOCAL MATRIX_TYPE *)slabs;"
                    : "LOCAL_ARRAY(SLAB, slabs, LOCAL_SLABS);\n"
                      "LOCAL MATRIX_TYPE *ring = (LOCAL MATRIX_TYPE *)slabs;");
  if (is_pipeline(g)) {
    find_warp(text);
    return;
  }
  gemm_warpgroup_begin(g, text, problem);
  gemm_find_tile(text);
}

/* Stages 16 rows of every warp at a time, with a pitch that puts lines of a warp on different
 * banks. */
static void begin_staged(text_buffer *text) {
  text_add(text, "NO_UNROLL for (int i = 0; i < ITEM_M; i++) {\n"
                 "UNROLL for (int held = 0; held < ITEM_M; held++) {\n"
                 "if (held == i) {\n"
                 "UNROLL for (int j = 0; j < ITEM_N; j += 4) {\n"
                 "LOCAL SUM *to = staged + (warp * 16 + line) * STAGED_PITCH + j * 2 + quad * 2;\n"
                 "VSTORE(2, SUM, to, sum[held] + j);\n"
                 "VSTORE(2, SUM, to + 8 * STAGED_PITCH, sum[held] + j + 2);\n"
                 "}\n}\n}\n"
                 "BARRIER();\n");
}

/* Each item takes `vector` neighbouring sums at a time. */
static void begin_places(text_buffer *text, uint32_t vector) {
  text_add(text,
           "NO_UNROLL for (int place = item * %u; place < WARPS_M * 16 * TILE_N; "
           "place += GROUP * %u) {\n"
           "const int across = place %% TILE_N, down = place / TILE_N;\n"
           "const int from = ((down / 16 * WARPS_N + across / WARP_N) * 16 + down %% 16) * "
           "STAGED_PITCH + across %% WARP_N;\n"
           "const INDEX row = row0 + BLOCK_ROW(i, down / 16) + down %% 16;\n"
           "const INDEX column = column0 + across;\n"
           "if (row < ROWS && column < COLUMNS) {\n",
           (unsigned)vector, (unsigned)vector);
}

const char *gemm_matrix_begin_staged(text_buffer *text) {
  begin_staged(text);
  begin_places(text, 1);
  return "staged[from]";
}

void gemm_matrix_store(generation *g, emit_launch *launch, const gemm_problem *problem) {
  text_buffer *text = &launch->body;
  const uint32_t vector = gemm_begin_vectors(g, launch, problem);
  begin_staged(text);
  if (vector > 1) {
    const unsigned piece = (unsigned)min_u32(vector, 16 / problem->sum_bytes);
    text_add(text, "if (in_vectors) {\n");
    begin_places(text, vector);
    text_add(text,
             "SUM sums[%u];\n"
             "UNROLL for (int lane = 0; lane < %u; lane += %u) {\n"
             "VLOAD(%u, SUM, sums + lane, staged + from + lane);\n"
             "}\n",
             (unsigned)vector, (unsigned)vector, piece, piece);
    gemm_store_vector(text, problem, "sums");
    text_add(text, "}\n}\n} else {\n");
  }
  begin_places(text, 1);
  gemm_store(g, text, problem, "staged[from]");
  text_add(text, vector > 1 ? "}\n}\n}\nBARRIER();\n}\n" : "}\n}\nBARRIER();\n}\n");
}

void gemm_matrix_describe(const generation *g, const gemm_problem *problem, char *text,
                          size_t bytes) {
  const compute_tuning *t = &g->tuning;
  char stages[24] = "";
  if (gemm_has_ring(t)) snprintf(stages, sizeof stages, ", %u stages", (unsigned)t->items);
  snprintf(text, bytes, "matrix units (%s) GEMM %ux%ux%u, %ux%u per %s%s", unit_of(problem)->name,
           (unsigned)t->tile_m, (unsigned)t->tile_n, (unsigned)t->tile_k, (unsigned)t->item_m,
           (unsigned)t->item_n, t->variant == GEMM_WARPGROUP ? "warpgroup" : "warp", stages);
}

/* ---- Choice -------------------------------------------------------------------------------- */

typedef struct tile_shape {
  uint32_t m, n, item_m, item_n;
} tile_shape;

/* item_m and item_n are the rows and columns of a warp here. */
static const tile_shape matrix_shapes[] = {
    {128, 128, 64, 32}, {128, 64, 32, 32}, {64, 64, 32, 32}, {32, 32, 16, 16}};

/* Chooses as tiled.c does. A line of a slab has 16 words for every type of element. */
static void complete_matrix(generation *g, const gemm_problem *problem) {
  compute_tuning *t = &g->tuning;
  const int64_t units = g->target->compute_units ? g->target->compute_units : 1;
  enum { COUNT = sizeof matrix_shapes / sizeof *matrix_shapes };
  const tile_shape *tile = &matrix_shapes[COUNT - 1];
  for (int i = COUNT - 2; i >= 0; i--) {
    const tile_shape *larger = &matrix_shapes[i];
    const double groups = (double)divide_up(problem->m, larger->m) *
                          (double)divide_up(problem->n, larger->n) * (double)problem->batches;
    if (groups >= (double)units && problem->m > larger->m / 2 && problem->n > larger->n / 2)
      tile = larger;
  }
  emit_default(&t->tile_m, tile->m);
  emit_default(&t->tile_n, tile->n);
  emit_default(&t->tile_k, 2 * gemm_matrix_step(problem));
  emit_default(&t->item_m, min_u32(tile->item_m, t->tile_m));
  emit_default(&t->item_n, min_u32(tile->item_n, t->tile_n));
  emit_default(&t->vector, gemm_load_vector(problem));
  const double groups = (double)divide_up(problem->m, t->tile_m) *
                        (double)divide_up(problem->n, t->tile_n) * (double)problem->batches;
  emit_default(&t->groups, groups < 1e6 ? gemm_choose_parts(g, problem, (int64_t)groups) : 1);
}

bool gemm_is_copied(const gemm_problem *problem, const gemm_factor *factor) {
  return compute_dtype_size(factor->dtype) == gemm_matrix_bytes(problem) &&
         (factor->outer == 1 || factor->k == 1);
}

bool gemm_is_aligned(const gemm_problem *problem, const gemm_factor *factor, uint32_t walk) {
  const int64_t piece = 16 / gemm_matrix_bytes(problem);
  const emit_space *batch = &problem->batch;
  bool aligned = (gemm_along_k(factor) ? factor->outer : factor->k) % piece == 0;
  for (int32_t d = 0; d < batch->rank; d++)
    aligned = aligned && batch->walk[walk].stride[d] % piece == 0;
  return aligned;
}

double gemm_time_of_tiles(const generation *g, const gemm_problem *problem, uint32_t tile_m,
                          uint32_t tile_n, double speed) {
  const double units = (double)emit_units(g);
  const double tiles = (double)divide_up(problem->m, tile_m) *
                       (double)divide_up(problem->n, tile_n) * (double)problem->batches;
  const double rounds = tiles < 1e15 ? (double)divide_up((int64_t)tiles, (int64_t)units) : tiles;
  return rounds * tile_m * tile_n / speed;
}

static compute_status check_matrix(generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  if (t->tile_m > 256 || t->tile_n > 256 || t->tile_k > 64 || t->item_m % 16 || t->item_n % 16 ||
      t->item_m * t->item_n > 4096 || t->tile_m % t->item_m || t->tile_n % t->item_n ||
      t->tile_k % gemm_matrix_step(problem))
    return emit_refuse(g, "a tile of %ux%ux%u cannot be cut into %ux%u for each warp",
                       (unsigned)t->tile_m, (unsigned)t->tile_n, (unsigned)t->tile_k,
                       (unsigned)t->item_m, (unsigned)t->item_n);
  const uint32_t items = gemm_items(t);
  if (items > emit_group_limit(g) || t->tile_m * t->tile_k % items || t->tile_n * t->tile_k % items)
    return emit_refuse(g, "groups of %u items are too large for the tile or the device",
                       (unsigned)items);
  if (gemm_matrix_local_bytes(g, problem) > emit_local_limit(g))
    return emit_refuse(g, "the tile needs %llu bytes of local memory, the device has %llu",
                       (unsigned long long)gemm_matrix_local_bytes(g, problem),
                       (unsigned long long)emit_local_limit(g));
  if (!emit_is_power(t->vector) || t->vector > 16)
    return emit_refuse(g, "loads of %u elements do not exist", (unsigned)t->vector);
  if (t->groups > GEMM_SPLIT_LIMIT || !gemm_parts_fit(problem, t->groups))
    return emit_refuse(g, "k cannot be cut into %u parts", (unsigned)t->groups);
  return COMPUTE_OK;
}

bool gemm_matrix_is_large(const generation *g, const gemm_problem *problem) {
  return emit_has(g, COMPUTE_TARGET_FAST_LOCAL) && problem->m >= 16 && problem->n >= 8 &&
         problem->k >= 16 && emit_group_limit(g) >= 256 && emit_local_limit(g) >= 32768;
}

bool gemm_matrix_suits(const generation *g, const void *of) {
  return gemm_matrix_serves(g, of) && gemm_matrix_is_large(g, of);
}

compute_status gemm_accept_matrix(generation *g, void *of) {
  const gemm_problem *problem = of;
  if (!gemm_matrix_serves(g, problem))
    return emit_refuse(g, "the device has no matrix units for these factors (f16, bf16, or f32 "
                          "where TF32 is allowed)");
  if (problem->k == 0) return emit_refuse(g, "there is nothing to multiply");
  complete_matrix(g, problem);
  return check_matrix(g, problem);
}

const emit_form gemm_matrix = {GEMM_MATRIX, gemm_matrix_suits, gemm_accept_matrix, gemm_emit_tiled};
