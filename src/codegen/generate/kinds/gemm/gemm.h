/* SPDX-License-Identifier: MIT */
/* Matrix multiplication in generated source: the internal interface of its files.
 *
 *   gemm.c     the kind, its list of forms, and the plain one: one item for each element of C
 *   problem.c  brings the descriptor into one normal form; limits that forms keep
 *   text.c     text of all forms: loads, batches, epilogue, stores
 *   tiled.c    tiles through local memory, also with k cut into parts
 *   matrix.c   the differences where matrix units multiply the tiles
 *   pipeline.c the same with operands that asynchronous copies bring
 *   warpgroup.c  the same where warpgroups multiply straight from local memory
 *   dot.c      few columns: groups of items add up one row
 *   direct.c   one item for each block of C, for CPUs
 *
 * "Sums" are the products before the epilogue, in the accumulate type. */
#ifndef GENERATE_GEMM_H
#define GENERATE_GEMM_H

#include "codegen/generate/emit/emit.h"

/* The forms (compute_tuning.variant), the other fields that each reads, and sensible values:
 *
 *   PLAIN   group_x (64, 256)
 *   TILED   tile_m, tile_n: 32 64 128; tile_k: 8 16 32; item_m, item_n: 2 4 8; vector: 1 2 4 8
 *           (elements of one global load). tile / item is a whole number in both directions, and
 *           their product, the group, is 32 … 256; each item loads whole vectors of A and of B.
 *           For targets with COMPUTE_TARGET_FAST_LOCAL.
 *   SPLIT   as TILED; groups: parts of k, 2 … 64. For small m · n with a large k.
 *   DOT     n ≤ 4, on a GPU ≤ 16 for long sums, after exchange (problem.c). group_x: items that
 *           share rows; group_y: sets of such items in a group; both powers of two; vector:
 *           elements of a load, 1 2 4 8; items: loads of an item at once, 1 … 16; groups: parts of
 *           k, 1 … 64. A CPU item takes item_m rows (1 2 4) with vectors of `vector` elements.
 *   DIRECT  item_m: 1 … 16 rows, item_n columns: 1 … 6 times vector; vector: elements of one sum
 *           vector, 2 4 8 16. B has the accumulate type and its columns side by side, n ≥ item_n.
 *   PACKED  as DIRECT, any operands: an earlier launch copies both into panels.
 *   MATRIX  on matrix units: factors both f16 or both bf16, or f32 where TF32 is allowed. tile_m,
 *           tile_n: 32 64 128; tile_k: 16 32 64; item_m, item_n: rows and columns of a warp,
 *           multiples of 16; vector as TILED; groups: parts of k, 1 … 64.
 *   PIPELINE  as MATRIX, by asynchronous copies, also f64: factors in the type of the units, each
 *           dense along k or along its other dimension. Tiles are powers of two, up to 256;
 *           items: pairs of slabs in local memory, 2 … 6; no vector.
 *   WARPGROUP  by warpgroups (sm_90a): f16 or bf16 as PIPELINE; TF32 of any strides, with groups 1.
 *           tile_m, tile_n: 64 128 256; tile_k: 64, for TF32 32; item_m: rows of a warpgroup, 64
 *           128; item_n: tile_n; items: 3 … 6, for TF32 4 … 6. */
typedef enum gemm_variant {
  GEMM_PLAIN = 1,
  GEMM_TILED = 2,
  GEMM_SPLIT = 3,
  GEMM_DOT = 4,
  GEMM_DIRECT = 5,
  GEMM_PACKED = 6,
  GEMM_MATRIX = 7,
  GEMM_PIPELINE = 8,
  GEMM_WARPGROUP = 10 /* 9 belongs to convolutions */
} gemm_variant;

enum {
  GEMM_TINY = 32768, /* multiplications; below this, a separate source does not pay */
  GEMM_SPLIT_LIMIT = 64,
  GEMM_COPIES_LIMIT = 96, /* for an item at once: DIALECT_COPIES of kernels/dialect_c.h */
  GEMM_GROUP_Z_LIMIT = 65535,
  GEMM_BAND = 8
};

/* One of the two factors, and its strides within one matrix. The outer dimension is m for A and n
 * for B. */
typedef struct gemm_factor {
  uint32_t input; /* index among the descriptor's inputs: the factors may have changed places */
  compute_dtype dtype;
  int64_t outer, k;
  bool batched; /* has more than one matrix */
} gemm_factor;

/* The normal form. Batch dimensions of size 1 are removed, and batch dimensions that only lengthen
 * m are merged into it. Rows and columns may have changed places (C transposed = B transposed · A
 * transposed). */
typedef struct gemm_problem {
  compute_dtype accumulate;
  compute_precision precision;
  uint32_t sum_bytes;
  int64_t m, n, k, batches;
  gemm_factor a, b;
  emit_space batch; /* walks "a", "b" and the epilogue's walks */
  emit_space tile;  /* m, n; walks of the epilogue */
  emit_function epilogue;
} gemm_problem;

void emit_gemm_read(generation *g, gemm_problem *problem);
/* The same from another kind's space over (batch…, m, n). Its first two walks are "a" and "b", for
 * the descriptor's inputs 0 and 1. The call consumes the space. The caller sets the precision. */
void gemm_problem_make(generation *g, gemm_problem *problem, emit_space *space, int64_t k,
                       int64_t a_k, int64_t b_k);
/* Chooses a form and writes it. */
compute_status gemm_emit(generation *g, gemm_problem *problem);
/* Exchanges rows and columns. */
void emit_gemm_swap(gemm_problem *problem);
/* True if 32 bits do not hold an offset or a count, including the padding of blocks at the
 * edges. */
bool gemm_problem_is_wide(const gemm_problem *problem);

/* True if neighbouring items should read the factor along k, by its strides. */
bool gemm_along_k(const gemm_factor *factor);

/* The most columns that DOT serves. */
int64_t gemm_dot_columns(const generation *g, const gemm_problem *problem);

bool gemm_is_tiny(const gemm_problem *problem);
/* Elements of a vector of sums. */
uint32_t gemm_choose_lanes(const generation *g, const gemm_problem *problem);
/* Elements of one load of A or B. */
uint32_t gemm_load_vector(const gemm_problem *problem);
/* The number of parts of k that keeps the compute units busy, for the number of groups without
 * parts. The second is true if the workspace for the parts has a reasonable size. */
uint32_t gemm_choose_parts(const generation *g, const gemm_problem *problem, int64_t groups);
bool gemm_parts_fit(const gemm_problem *problem, uint32_t parts);
/* TILED, SPLIT or, if no tile fits the target, PLAIN. */
gemm_variant gemm_choose_tiled(const generation *g, const gemm_problem *problem);
/* Completes g->tuning for TILED or SPLIT, or refuses with a reason. */
compute_status gemm_accept_tiles(generation *g, void *problem);

/* ---- Text (text.c) ------------------------------------------------------------------------- */

/* The definitions that all variants need: SUM, LOAD_A(i), LOAD_B(i), A_ROW, A_K, B_COLUMN, B_K, the
 * epilogue. any_strides: the text treats strides of 1 as any others. */
void gemm_define(generation *g, gemm_problem *problem, bool any_strides);
/* The definitions for kernels/sum_parts.h. One item, or one matrix unit if `units`, sums this many
 * terms. Returns true if they are summed in parts. */
bool gemm_define_parts(generation *g, compute_dtype accumulate, int64_t terms, bool units);
/* Defines VECTOR, with this many sums. */
void gemm_define_vector(generation *g, uint32_t lanes);

/* Begins a launch whose groups[2] runs over batches. */
emit_launch *gemm_launch(generation *g, const gemm_problem *problem, const char *entry,
                         uint32_t group, int64_t groups_x, int64_t groups_y);
/* Takes the buffers of A and B, and of the epilogue. */
void gemm_take_factors(generation *g, emit_launch *launch, const gemm_problem *problem);
void gemm_take_epilogue(generation *g, emit_launch *launch, const gemm_problem *problem);
/* The fields m, n, k, and the strides of A and B. */
void gemm_fields(generation *g, emit_launch *launch, const gemm_problem *problem);
/* An item for each element of C: returns past shape.elements, else finds row and column by the
 * field `columns`. The second adds the parts of k at this element. */
void gemm_begin_element(text_buffer *text, uint32_t group, const char *columns);
void gemm_add_parts(text_buffer *text);
/* "for (… batch …) {" and the offsets batch_<walk>. The caller closes the brace. */
void gemm_begin_batches(generation *g, emit_launch *launch, const gemm_problem *problem);
/* Fields that gemm_store reads. */
void gemm_store_fields(generation *g, emit_launch *launch, const gemm_problem *problem);
/* A block that runs the epilogue on the expression `sum` (of type SUM) at the variables row, column
 * and stores its results. */
void gemm_store(generation *g, text_buffer *text, const gemm_problem *problem, const char *sum);
/* The same for neighbouring columns. gemm_begin_vectors returns their number, 1 if the operands
 * allow no more. Otherwise the text has the variable in_vectors, true if sizes and addresses allow
 * vectors. gemm_store_vector then stores as many sums of an array. */
uint32_t gemm_begin_vectors(generation *g, emit_launch *launch, const gemm_problem *problem);
void gemm_store_vector(text_buffer *text, const gemm_problem *problem, const char *sums);

/* k in parts, along groups[1]: the workspace `partial` with the sums of all parts, the field
 * `part`, and the text that finds k_begin and k_end. A second launch adds up the parts and runs the
 * epilogue. */
void gemm_take_parts(generation *g, emit_launch *launch, const gemm_problem *problem,
                     int64_t parts);
void gemm_part_field(generation *g, emit_launch *launch, int64_t part);
void gemm_find_part(text_buffer *text);
void gemm_emit_combine(generation *g, const gemm_problem *problem, int64_t parts);

/* ---- Pieces of variants, also used by convolutions ------------------------------------------ */

/* The definitions for tiles: TILE_M, ITEM_M, … and the template gemm_local. */
uint32_t gemm_items(const compute_tuning *tuning); /* items of a group */
/* Makes the compiler leave registers for several groups at once. element_bytes: size of an element
 * as fetched. */
void gemm_limit_registers(generation *g, const gemm_problem *problem, uint32_t element_bytes);
/* A_STEP or B_STEP, the stride from a line of the operand to the next. */
void gemm_define_step(generation *g, const gemm_factor *factor, char letter);
/* Defines one operand's names for the template gemm_slab, adds the template, and undefines the
 * names. */
void gemm_define_slab(generation *g, const gemm_problem *problem, const gemm_factor *factor,
                      char letter, uint32_t side);
void gemm_define_tile(generation *g, const gemm_problem *problem);
/* Declares the slabs, and finds row0 and column0, the first element of the group's tile. Groups
 * that run at the same time should read the same parts of A and B. So they go down BAND tiles
 * before they go on to the next column of tiles. Reads the fields tiles_m and band (BAND times the
 * columns of tiles). */
void gemm_begin_tile(text_buffer *text);
void gemm_find_tile(text_buffer *text); /* only row0 and column0 */
/* Stores the sums of a part of k. ROWS and COLUMNS are the sizes of C. */
void gemm_store_part(text_buffer *text, bool matrix);
/* Text around the store of a sum at row, column. The first returns the expression of the sum. One
 * row of each item at a time goes through local memory, and neighbouring items then take
 * neighbouring sums. So the code contains one copy of the program, not one for each sum, and its
 * operands are contiguous. */
const char *gemm_begin_staged(text_buffer *text, bool matrix);
void gemm_end_staged(text_buffer *text);

/* The array `block` with ITEM_M × ITEM_N sums by one item over `count` values of k. B's elements
 * are at `b`. A's elements are at `a` if packed; else row i of A is at the variable from<i>.
 * `parts`: the result of gemm_define_parts. */
void gemm_block_sums(const generation *g, text_buffer *text, bool packed, const char *count,
                     bool parts);

/* ---- Forms --------------------------------------------------------------------------------- */

extern const emit_form gemm_tiled, gemm_split, gemm_matrix, gemm_pipeline, gemm_warpgroup, gemm_dot,
    gemm_direct, gemm_packed;

/* True if matrix units multiply the tiles; true if copies bring them into a ring of slabs. */
bool gemm_has_units(const compute_tuning *tuning);
bool gemm_has_ring(const compute_tuning *tuning);

/* The number of sums of a group in local memory. */
uint32_t gemm_local_sums(const compute_tuning *tuning);
compute_status gemm_emit_tiled(generation *g, void *problem); /* tiles of all forms */
/* True if matrix units pay for this product. The second completes g->tuning, as gemm_accept_tiles
 * does. */
bool gemm_matrix_suits(const generation *g, const void *problem);
compute_status gemm_accept_matrix(generation *g, void *problem);
/* True if the target's matrix units take the product. The functions below require this. They give
 * the elements of k in one step, and the local memory of a group with g->tuning. */
bool gemm_matrix_serves(const generation *g, const gemm_problem *problem);
/* The same, and also true if only a pipeline multiplies them (f64). */
bool gemm_matrix_has_unit(const generation *g, const gemm_problem *problem);
bool gemm_matrix_is_large(const generation *g, const gemm_problem *problem); /* enough for them */
uint32_t gemm_matrix_step(const gemm_problem *problem);
uint32_t gemm_matrix_bytes(const gemm_problem *problem); /* bytes of an element in local memory */
const char *gemm_matrix_name(const gemm_problem *problem);
uint64_t gemm_matrix_local_bytes(const generation *g, const gemm_problem *problem);
uint64_t gemm_warpgroup_local_bytes(const compute_tuning *tuning);
void gemm_matrix_describe(const generation *g, const gemm_problem *problem, char *text,
                          size_t bytes);
/* True if asynchronous copies can bring the factor: elements in the type of the units, in lines.
 * The second is true if the lines begin at multiples of 16 bytes, given that the matrix does;
 * `walk` is the factor's walk. */
bool gemm_is_copied(const gemm_problem *problem, const gemm_factor *factor);
bool gemm_is_aligned(const gemm_problem *problem, const gemm_factor *factor, uint32_t walk);
/* Defines the copies of a slab, with BLOCK_AT; `side`: lines along k. */
void gemm_define_copy(generation *g, const gemm_factor *factor, char letter, uint32_t side);
/* The estimated time of the product. A unit computes one tile at a time, at the relative
 * `speed`. */
double gemm_time_of_tiles(const generation *g, const gemm_problem *problem, uint32_t tile_m,
                          uint32_t tile_n, double speed);
/* As gemm_define_tile, gemm_begin_tile and gemm_begin_staged, for matrix units. */
void gemm_matrix_define(generation *g, const gemm_problem *problem);
void gemm_matrix_begin(text_buffer *text);
void gemm_warpgroup_define(generation *g, const gemm_problem *problem);
/* asked: true if the launch asks for the memory */
void gemm_ring_begin(const generation *g, text_buffer *text, const gemm_problem *problem,
                     bool asked);
void gemm_warpgroup_begin(const generation *g, text_buffer *text, const gemm_problem *problem);
/* True if earlier launches pack the factors. The next two add these launches and take their
 * results. */
bool gemm_warpgroup_packs(const generation *g, const gemm_problem *problem);
compute_status gemm_warpgroup_pack(generation *g, const gemm_problem *problem);
void gemm_warpgroup_take_panels(generation *g, emit_launch *launch, const gemm_problem *problem);
const char *gemm_matrix_begin_staged(text_buffer *text);
/* Stores the whole tile, several columns at once where possible. */
void gemm_matrix_store(generation *g, emit_launch *launch, const gemm_problem *problem);

#endif
