/* SPDX-License-Identifier: MIT */
/* Matrix multiplication in generated source, inside: what its files share.
 *
 *   gemm.c     the kind, its list of forms, and the plain one: one item for each element of C
 *   problem.c  brings the descriptor into one normal form; limits that forms keep
 *   text.c     what all forms say: loads, batches, epilogue, stores
 *   tiled.c    tiles through local memory, also with k cut into parts
 *   matrix.c   what is different where matrix units multiply the tiles
 *   pipeline.c the same with operands that asynchronous copies bring
 *   warpgroup.c  the same where warpgroups multiply straight from local memory
 *   dot.c      few columns: groups of items add up one row
 *   direct.c   one item for each block of C, for CPUs
 *
 * "Sums" are the products before the epilogue, in the accumulate type. */
#ifndef GENERATE_GEMM_H
#define GENERATE_GEMM_H

#include "codegen/generate/emit/emit.h"

/* The forms: compute_tuning.variant. What each reads of the other fields, and what is sensible:
 *
 *   PLAIN   group_x (64, 256)
 *   TILED   tile_m, tile_n: 32 64 128; tile_k: 8 16 32; item_m, item_n: 2 4 8; vector: 1 2 4 8
 *           (elements of one global load). tile / item is a whole number in both directions, and
 *           their product, the group, is 32 … 256; each item loads whole vectors of A and of B.
 *           For targets with COMPUTE_TARGET_FAST_LOCAL.
 *   SPLIT   as TILED; groups: parts of k, 2 … 64. For small m · n with a large k.
 *   DOT     n ≤ 4, on a GPU ≤ 16 for long sums, after exchange (problem.c). group_x: items that
 *           share rows, group_y: how often a group has them; both powers of two; vector: elements
 *           of a load, 1 2 4 8; items: loads of an item at once, 1 … 16; groups: parts of k,
 *           1 … 64. A CPU takes one row at a time: item_m rows (1 2 4), vector lanes.
 *   DIRECT  item_m: 1 … 16 rows, item_n columns: 1 … 6 times vector; vector: lanes of one sum
 *           vector, 2 4 8 16. B has the accumulate type and its columns side by side, n ≥ item_n.
 *   PACKED  as DIRECT, any operands: a launch before copies both into panels.
 *   MATRIX  on matrix units: factors both f16 or both bf16, or f32 where TF32 is allowed. tile_m,
 *           tile_n: 32 64 128; tile_k: 16 32 64; item_m, item_n: rows and columns of a warp,
 *           multiples of 16; vector as TILED; groups: parts of k, 1 … 64.
 *   PIPELINE  as MATRIX, by asynchronous copies, also f64: factors that are what the units take,
 *           each dense along k or along its other dimension. Tiles are powers of two, up to 256;
 *           items: pairs of slabs in local memory, 2 … 6; no vector.
 *   WARPGROUP  by warpgroups (sm_90a), f16 or bf16 as PIPELINE; TF32 of any strides, with groups 1.
 *           tile_m, tile_n: 64 128 256; tile_k: 64, of TF32 32; item_m: rows of a warpgroup, 64
 *           128; item_n: tile_n; items: 3 … 6, of TF32 4 … 6. */
typedef enum gemm_variant {
  GEMM_PLAIN = 1,
  GEMM_TILED = 2,
  GEMM_SPLIT = 3,
  GEMM_DOT = 4,
  GEMM_DIRECT = 5,
  GEMM_PACKED = 6,
  GEMM_MATRIX = 7,
  GEMM_PIPELINE = 8,
  GEMM_WARPGROUP = 10 /* 9 is a convolution's */
} gemm_variant;

enum {
  GEMM_TINY = 32768, /* multiplications that are not worth a source of their own */
  GEMM_SPLIT_LIMIT = 64,
  GEMM_COPIES_LIMIT = 96, /* of an item at once: DIALECT_COPIES of kernels/dialect_c.h */
  GEMM_GROUP_Z_LIMIT = 65535,
  GEMM_BAND = 8
};

/* One of the two factors: what it is, and its strides within one matrix. A's outer dimension is m,
 * B's is n. */
typedef struct gemm_factor {
  uint32_t input; /* which of the descriptor's inputs it is: they may have changed places */
  compute_dtype dtype;
  int64_t outer, k;
  bool batched; /* has more than one matrix */
} gemm_factor;

/* The normal form: batch dimensions of size 1 are gone, those that only lengthen m are part of it,
 * and rows and columns may have changed places (C transposed = B transposed · A transposed). */
typedef struct gemm_problem {
  compute_dtype accumulate;
  compute_precision precision;
  uint32_t sum_bytes;
  int64_t m, n, k, batches;
  gemm_factor a, b;
  emit_space batch; /* walks "a", "b" and those of the epilogue */
  emit_space tile;  /* m, n; walks of the epilogue */
  emit_function epilogue;
} gemm_problem;

void emit_gemm_read(generation *g, gemm_problem *problem);
/* The same from a space over (batch…, m, n) that another kind has made: its first two walks are "a"
 * and "b", those of the descriptor's inputs 0 and 1. The space is used up;
 * the precision is left to the caller. */
void gemm_problem_make(generation *g, gemm_problem *problem, emit_space *space, int64_t k,
                       int64_t a_k, int64_t b_k);
/* Chooses and writes. */
compute_status gemm_emit(generation *g, gemm_problem *problem);
/* Exchanges rows and columns. */
void emit_gemm_swap(gemm_problem *problem);
/* Whether 32 bits do not hold an offset or a count, with what blocks at the edges reckon. */
bool gemm_problem_is_wide(const gemm_problem *problem);

/* Whether neighbouring items should read the factor along k, by its strides. */
bool gemm_along_k(const gemm_factor *factor);

/* The most columns for DOT. */
int64_t gemm_dot_columns(const generation *g, const gemm_problem *problem);

bool gemm_is_tiny(const gemm_problem *problem);
/* Lanes of a vector of sums. */
uint32_t gemm_choose_lanes(const generation *g, const gemm_problem *problem);
/* Elements of one load of A or B. */
uint32_t gemm_load_vector(const gemm_problem *problem);
/* Parts of k that keep the compute units busy, where there are so many groups without; and whether
 * the workspace of k in parts stays reasonable. */
uint32_t gemm_choose_parts(const generation *g, const gemm_problem *problem, int64_t groups);
bool gemm_parts_fit(const gemm_problem *problem, uint32_t parts);
/* TILED, SPLIT or, where no tile fits the target, PLAIN. */
gemm_variant gemm_choose_tiled(const generation *g, const gemm_problem *problem);
/* Completes g->tuning for TILED or SPLIT, or says why it cannot be. */
compute_status gemm_accept_tiles(generation *g, void *problem);

/* ---- Text (text.c) ------------------------------------------------------------------------- */

/* The definitions that all variants need: SUM, LOAD_A(i), LOAD_B(i), A_ROW, A_K, B_COLUMN, B_K, the
 * epilogue. any_strides: A and B are read so that the text need not tell strides of 1 from others.
 */
void gemm_define(generation *g, gemm_problem *problem, bool any_strides);
/* What kernels/sum_parts.h needs for sums of so many terms by one item, by matrix `units` or not.
 * Whether they are summed in parts. */
bool gemm_define_parts(generation *g, compute_dtype accumulate, int64_t terms, bool units);
/* VECTOR, of so many sums. */
void gemm_define_vector(generation *g, uint32_t lanes);

/* Begins a launch whose groups[2] goes over batches. */
emit_launch *gemm_launch(generation *g, const gemm_problem *problem, const char *entry,
                         uint32_t group, int64_t groups_x, int64_t groups_y);
/* Buffers of A and B; those of the epilogue. */
void gemm_take_factors(generation *g, emit_launch *launch, const gemm_problem *problem);
void gemm_take_epilogue(generation *g, emit_launch *launch, const gemm_problem *problem);
/* The fields m, n, k, and A's and B's strides. */
void gemm_fields(generation *g, emit_launch *launch, const gemm_problem *problem);
/* An item for each element of C: returns past shape.elements, else finds row and column by the
 * field `columns`. And, with these, the sum of the parts of k. */
void gemm_begin_element(text_buffer *text, uint32_t group, const char *columns);
void gemm_add_parts(text_buffer *text);
/* "for (… batch …) {" and the offsets batch_<walk>; the matching brace is the caller's. */
void gemm_begin_batches(generation *g, emit_launch *launch, const gemm_problem *problem);
/* Fields that gemm_store reads. */
void gemm_store_fields(generation *g, emit_launch *launch, const gemm_problem *problem);
/* A block that runs the epilogue on the expression `sum` (of type SUM) at the variables row, column
 * and stores its results. */
void gemm_store(generation *g, text_buffer *text, const gemm_problem *problem, const char *sum);
/* The same for neighbouring columns. Begin: how many of them, 1 if the operands allow no more, else
 * the text has the variable in_vectors, whether sizes and addresses allow that. Then
 * gemm_store_vector stores as many sums of an array. */
uint32_t gemm_begin_vectors(generation *g, emit_launch *launch, const gemm_problem *problem);
void gemm_store_vector(text_buffer *text, const gemm_problem *problem, const char *sums);

/* k in parts, along groups[1]: the workspace `partial` with the sums of all parts, the field
 * `part`, the text that finds k_begin and k_end, and a second launch that adds the parts up and
 * runs the epilogue. */
void gemm_take_parts(generation *g, emit_launch *launch, const gemm_problem *problem,
                     int64_t parts);
void gemm_part_field(generation *g, emit_launch *launch, int64_t part);
void gemm_find_part(text_buffer *text);
void gemm_emit_combine(generation *g, const gemm_problem *problem, int64_t parts);

/* ---- Pieces of variants, which convolutions are made of too --------------------------------- */

/* What tiles are described by: TILE_M, ITEM_M, … and the template gemm_local. */
uint32_t gemm_items(const compute_tuning *tuning); /* of a group */
/* Has the compiler leave room for several groups at once; elements as they are fetched. */
void gemm_limit_registers(generation *g, const gemm_problem *problem, uint32_t element_bytes);
/* A_STEP or B_STEP, from a line of the operand to the next. */
void gemm_define_step(generation *g, const gemm_factor *factor, char letter);
/* One operand's names for the template gemm_slab, the text, and the end of these names. */
void gemm_define_slab(generation *g, const gemm_problem *problem, const gemm_factor *factor,
                      char letter, uint32_t side);
void gemm_define_tile(generation *g, const gemm_problem *problem);
/* Declares the slabs, and finds row0 and column0, where the group's tile begins. Groups that run at
 * the same time should read the same parts of A and B: they go down BAND tiles before they go on to
 * the next column of tiles. Reads the fields tiles_m and band (BAND times the columns of tiles). */
void gemm_begin_tile(text_buffer *text);
void gemm_find_tile(text_buffer *text); /* row0 and column0 alone */
/* Stores the sums of a part of k. ROWS and COLUMNS say where C ends. */
void gemm_store_part(text_buffer *text, bool matrix);
/* Around what stores the sum, an expression that the first returns, at row, column. Row by row of
 * each item the sums come into local memory, from where neighbouring items take neighbours: so
 * there is one copy of the program in the code, not one for each sum, and what it reads and writes
 * lies side by side. */
const char *gemm_begin_staged(text_buffer *text, bool matrix);
void gemm_end_staged(text_buffer *text);

/* The array `block` of ITEM_M × ITEM_N sums by one item, of `count` values of k; B's elements are
 * at `b`, A's (packed) at `a`, else row i of A at the variable from<i>. `parts`: as
 * gemm_define_parts says. */
void gemm_block_sums(const generation *g, text_buffer *text, bool packed, const char *count,
                     bool parts);

/* ---- Forms --------------------------------------------------------------------------------- */

extern const emit_form gemm_tiled, gemm_split, gemm_matrix, gemm_pipeline, gemm_warpgroup, gemm_dot,
    gemm_direct, gemm_packed;

/* Whether matrix units multiply the tiles; and whether copies bring them into a ring of slabs. */
bool gemm_has_units(const compute_tuning *tuning);
bool gemm_has_ring(const compute_tuning *tuning);

/* Sums that a group of a tile has in local memory. */
uint32_t gemm_local_sums(const compute_tuning *tuning);
compute_status gemm_emit_tiled(generation *g, void *problem); /* tiles of all forms */
/* Whether matrix units are worth it, with enough of everything; and as gemm_accept_tiles. */
bool gemm_matrix_suits(const generation *g, const void *problem);
compute_status gemm_accept_matrix(generation *g, void *problem);
/* Whether the target's matrix units take the product; what follows is for those that they take:
 * elements of k of one step, and local memory of a group with g->tuning. */
bool gemm_matrix_serves(const generation *g, const gemm_problem *problem);
/* The same, also where only a pipeline multiplies them (f64). */
bool gemm_matrix_has_unit(const generation *g, const gemm_problem *problem);
bool gemm_matrix_is_large(const generation *g, const gemm_problem *problem); /* enough for them */
uint32_t gemm_matrix_step(const gemm_problem *problem);
uint32_t gemm_matrix_bytes(const gemm_problem *problem); /* of an element in local memory */
const char *gemm_matrix_name(const gemm_problem *problem);
uint64_t gemm_matrix_local_bytes(const generation *g, const gemm_problem *problem);
uint64_t gemm_warpgroup_local_bytes(const compute_tuning *tuning);
void gemm_matrix_describe(const generation *g, const gemm_problem *problem, char *text,
                          size_t bytes);
/* What asynchronous copies can bring: elements that the units take, in lines. And whether these
 * begin at multiples of 16 bytes, given that the matrix does; the walk of the factor. */
bool gemm_is_copied(const gemm_problem *problem, const gemm_factor *factor);
bool gemm_is_aligned(const gemm_problem *problem, const gemm_factor *factor, uint32_t walk);
/* Defines the copies of a slab, with BLOCK_AT; `side`: lines along k. */
void gemm_define_copy(generation *g, const gemm_factor *factor, char letter, uint32_t side);
/* Tiles for each of which a unit takes as long as `speed` says, one at a time. */
double gemm_time_of_tiles(const generation *g, const gemm_problem *problem, uint32_t tile_m,
                          uint32_t tile_n, double speed);
/* As gemm_define_tile and gemm_begin_tile; and what gemm_begin_staged says for matrix units. */
void gemm_matrix_define(generation *g, const gemm_problem *problem);
void gemm_matrix_begin(text_buffer *text);
void gemm_warpgroup_define(generation *g, const gemm_problem *problem);
/* asked: whether the launch asks for the memory */
void gemm_ring_begin(const generation *g, text_buffer *text, const gemm_problem *problem,
                     bool asked);
void gemm_warpgroup_begin(const generation *g, text_buffer *text, const gemm_problem *problem);
/* Whether launches before pack the factors: these launches, and what they have written. */
bool gemm_warpgroup_packs(const generation *g, const gemm_problem *problem);
compute_status gemm_warpgroup_pack(generation *g, const gemm_problem *problem);
void gemm_warpgroup_take_panels(generation *g, emit_launch *launch, const gemm_problem *problem);
const char *gemm_matrix_begin_staged(text_buffer *text);
/* The whole of it, with stores of several columns at once. */
void gemm_matrix_store(generation *g, emit_launch *launch, const gemm_problem *problem);

#endif
