/* Tiles of C on matrix units (kernels/gemm_matrix.h says how they lie in local memory): f16 and
 * bf16 factors, whose products are exact and whose sums are f32, and f32 factors where the caller
 * allows TF32. The way along k is that of kernels/gemm_tiled.h. */
#include <stdio.h>

#include "generate/kinds/gemm/gemm.h"
#include "type/dtype.h"

/* What the units multiply. */
static const char *unit_of(const generation *g, const gemm_problem *problem) {
  const compute_dtype a = problem->a.dtype, b = problem->b.dtype;
  if (problem->accumulate != COMPUTE_F32) return NULL;
  if (a == b && a == COMPUTE_F16) return "f16";
  if (a == b && a == COMPUTE_BF16) return "bf16";
  return compute_gemm_of(g->descriptor)->precision & COMPUTE_PRECISION_TF32 ? "tf32" : NULL;
}

static bool is_half(const char *unit) {
  return unit[0] != 't';
}

bool gemm_matrix_serves(const generation *g, const gemm_problem *problem) {
  return emit_has(g, COMPUTE_TARGET_MATRIX_CORES) && !emit_for_cpu(g) &&
         g->target->dialect != COMPUTE_DIALECT_OPENCL && unit_of(g, problem) != NULL;
}

/* Elements of k that one step of the units takes, and what fills a line of a slab. */
uint32_t gemm_matrix_step(const generation *g, const gemm_problem *problem) {
  return is_half(unit_of(g, problem)) ? 16 : 8;
}

static uint32_t element_bytes(const generation *g, const gemm_problem *problem) {
  return is_half(unit_of(g, problem)) ? 2 : 4;
}

uint64_t gemm_matrix_local_bytes(const generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  const uint64_t line = t->tile_k * element_bytes(g, problem) + 16;
  const uint64_t slabs = (t->tile_m + t->tile_n) * line;
  const uint64_t staged = (uint64_t)t->tile_m / t->item_m * 16 * t->tile_n * sizeof(float);
  return slabs > staged ? slabs : staged;
}

void gemm_matrix_define(generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  const char *unit = unit_of(g, problem);
  gemm_define_number(g, "TILE_M", t->tile_m);
  gemm_define_number(g, "TILE_N", t->tile_n);
  gemm_define_number(g, "TILE_K", t->tile_k);
  gemm_define_number(g, "WARP_M", t->item_m);
  gemm_define_number(g, "WARP_N", t->item_n);
  gemm_define_number(g, "BAND", GEMM_BAND);
  gemm_define_number(g, "LOCAL_SLABS", (int64_t)(gemm_matrix_local_bytes(g, problem) / 16));
  text_add(&g->definitions,
           "#define MATRIX_TYPE %s\n#define MATRIX_ELEMENT(x) %s\n"
           "#define MATRIX_MULTIPLY MATRIX_MULTIPLY_%s\n",
           is_half(unit) ? "u16" : "u32", is_half(unit) ? "(x)" : "F32_TO_TF32(x)", unit);
  emit_template(g, &g->definitions, "gemm_matrix.h");
}

void gemm_matrix_begin(text_buffer *text) {
  text_add(text, "LOCAL_ARRAY(SLAB, slabs, LOCAL_SLABS);\n"
                 "LOCAL MATRIX_TYPE *slab_a = (LOCAL MATRIX_TYPE *)slabs;\n"
                 "LOCAL MATRIX_TYPE *slab_b = slab_a + TILE_M * PITCH_A;\n"
                 "LOCAL SUM *staged = (LOCAL SUM *)slabs;\n"
                 "const int item = (int)LOCAL_ID_X;\n"
                 "const int warp = item / 32, line = item %% 32 / 4, quad = item %% 4;\n"
                 "const int warp_row = warp / WARPS_N * WARP_M;\n"
                 "const int warp_column = warp %% WARPS_N * WARP_N;\n");
  gemm_find_tile(text);
}

/* 16 rows of every warp at a time. */
void gemm_matrix_begin_staged(text_buffer *text) {
  text_add(text, "NO_UNROLL for (int i = 0; i < ITEM_M; i++) {\n"
                 "UNROLL for (int held = 0; held < ITEM_M; held++) {\n"
                 "if (held == i) {\n"
                 "UNROLL for (int j = 0; j < ITEM_N; j += 4) {\n"
                 "LOCAL SUM *to = staged + (warp * 16 + line) * WARP_N + j * 2 + quad * 2;\n"
                 "to[0] = sum[held][j];\n"
                 "to[1] = sum[held][j + 1];\n"
                 "to[8 * WARP_N] = sum[held][j + 2];\n"
                 "to[8 * WARP_N + 1] = sum[held][j + 3];\n"
                 "}\n}\n}\n"
                 "BARRIER();\n"
                 "NO_UNROLL for (int place = item; place < WARPS_M * 16 * TILE_N; place += GROUP) "
                 "{\n"
                 "const int across = place %% TILE_N, down = place / TILE_N;\n"
                 "const int from = ((down / 16 * WARPS_N + across / WARP_N) * 16 + down %% 16) * "
                 "WARP_N + across %% WARP_N;\n"
                 "const INDEX row = row0 + down / 16 * WARP_M + i * 16 + down %% 16;\n"
                 "const INDEX column = column0 + across;\n"
                 "if (row < ROWS && column < COLUMNS) {\n");
}

void gemm_matrix_store_part(text_buffer *text) {
  text_add(text, "partial[((batch * (INDEX)GROUP_COUNT_Y + (INDEX)GROUP_ID_Y) * ROWS + row) * "
                 "COLUMNS + column] = staged[from];\n");
}

void gemm_matrix_describe(const generation *g, const gemm_problem *problem, char *text,
                          size_t bytes) {
  const compute_tuning *t = &g->tuning;
  snprintf(text, bytes, "matrix units (%s) GEMM %ux%ux%u, %ux%u per warp", unit_of(g, problem),
           (unsigned)t->tile_m, (unsigned)t->tile_n, (unsigned)t->tile_k, (unsigned)t->item_m,
           (unsigned)t->item_n);
}
