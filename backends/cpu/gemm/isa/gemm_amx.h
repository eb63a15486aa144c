/* SPDX-License-Identifier: MIT */
/* Products with AMX: the sums of a tile of C, up to 16 rows and 32 columns, in two tile registers.
 * Part of gemm_tile.h.
 *
 * An instruction multiplies 16 rows of 16 words of A by 16 lines of 16 words of B, and adds to 16 ×
 * 16 sums. For TDPBUSD a word is four bytes, unsigned in A and signed in B; it computes the same
 * sums as VPDPBUSD. For TDPBF16PS a word is a pair of bf16. It sums the elements at even and at odd
 * places along k separately, from zero, and then adds both sums to the previous ones. bf16 tiles of
 * every height use AMX, so a row's sums do not depend on its tile.
 *
 * Lines of B are the lines of a panel. Rows of A are contiguous words, but a line of a sliver has
 * one word of each row. So slivers are transposed when they are packed, 16 lines at a time
 * (gemm_amx_turn).
 *
 * The shapes of tile registers are state of the thread. gemm_multiply sets and clears them, because
 * other libraries in the process set their own.
 *
 * A test on a machine without AMX defines GEMM_AMX_EMULATED and the instructions. */
#ifndef CPU_GEMM_AMX_H
#define CPU_GEMM_AMX_H

enum {
  AMX_WORDS = 16,                /* in a row of a tile register; also its most rows */
  AMX_ROW = 64,                  /* in bytes */
  AMX_LEAST = GEMM_TERMS ? 4 : 1 /* vectors multiply fewer rows of C */
};

#define GEMM_BY_AMX(rows) ((rows) >= AMX_LEAST)
#define GEMM_HEIGHT(rows) ((rows) < AMX_LEAST ? (rows) : AMX_LEAST)
_Static_assert(GEMM_MOST_ABREAST == 1, "there are two registers of sums");

/* The operand of LDTILECFG: for each register the bytes in a row and the number of rows. */
typedef struct amx_shapes {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} amx_shapes;

/* Registers: sums of the left and right columns; A; B's left and then right columns; and the same
 * for the last lines of k, if there are fewer than 16. */
#define AMX_SUMS(right) right
#define AMX_A           2
#define AMX_B           3
#define AMX_REST_A      5
#define AMX_REST_B      6

#ifndef GEMM_AMX_EMULATED
#define AMX_CONFIGURE(shapes) __asm__ volatile("ldtilecfg %0" : : "m"(*(shapes)) : "memory")
#define AMX_RELEASE()         __asm__ volatile("tilerelease" : : : "memory")
#define AMX_ZERO(tile)        __asm__ volatile("tilezero %%tmm%c0" : : "i"(tile))
#define AMX_LOAD(tile, from, step)                                                                 \
  __asm__ volatile("tileloadd (%1,%2,1), %%tmm%c0"                                                 \
                   :                                                                               \
                   : "i"(tile), "r"(from), "r"((int64_t)(step))                                    \
                   : "memory")
#define AMX_STORE(tile, to, step)                                                                  \
  __asm__ volatile("tilestored %%tmm%c0, (%1,%2,1)"                                                \
                   :                                                                               \
                   : "i"(tile), "r"(to), "r"((int64_t)(step))                                      \
                   : "memory")
#ifdef GEMM_BF16
#define AMX_PRODUCTS "tdpbf16ps"
#else
#define AMX_PRODUCTS "tdpbusd"
#endif
#define AMX_MULTIPLY(sums, a, b)                                                                   \
  __asm__ volatile(AMX_PRODUCTS " %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(a), "i"(b))
#endif

/* Configures the registers for tiles of `rows` rows and for k. `shape` is the current
 * configuration; initially 0. */
static void gemm_amx_configure(int64_t rows, int64_t k, int64_t *shape) {
  const int64_t rest = k % AMX_WORDS, wanted = rows * AMX_WORDS + rest;
  if (*shape == wanted) return;
  *shape = wanted;
  amx_shapes shapes = {.palette = 1};
  for (int tile = AMX_SUMS(0); tile <= AMX_B + 1; tile++) {
    shapes.row_bytes[tile] = AMX_ROW;
    shapes.rows[tile] = tile < AMX_B ? (uint8_t)rows : AMX_WORDS;
  }
  if (rest > 0) {
    shapes.row_bytes[AMX_REST_A] = (uint16_t)(rest * 4);
    shapes.rows[AMX_REST_A] = (uint8_t)rows;
    for (int tile = AMX_REST_B; tile <= AMX_REST_B + 1; tile++) {
      shapes.row_bytes[tile] = AMX_ROW;
      shapes.rows[tile] = (uint8_t)rest;
    }
  }
  AMX_CONFIGURE(&shapes);
}

/* One multiplication for each vector of columns. */
#define AMX_STEP(a_tile, b_tile, vectors, a, a_step, b)                                            \
  do {                                                                                             \
    AMX_LOAD(a_tile, a, a_step);                                                                   \
    AMX_LOAD(b_tile, b, GEMM_COLUMNS * sizeof(GEMM_ELEMENT));                                      \
    if ((vectors) > 1)                                                                             \
      AMX_LOAD(b_tile + 1, (b) + GEMM_LANES, GEMM_COLUMNS * sizeof(GEMM_ELEMENT));                 \
    AMX_MULTIPLY(AMX_SUMS(0), a_tile, b_tile);                                                     \
    if ((vectors) > 1) AMX_MULTIPLY(AMX_SUMS(1), a_tile, b_tile + 1);                              \
  } while (0)

/* Adds the products of k words, from A's rows or sliver at `a` and a panel at `b`. */
GEMM_INLINE void gemm_amx_add(const int vectors, const cpu_gemm_block *block,
                              const gemm_element_at *a, const GEMM_ELEMENT *b) {
  const int64_t rest = block->k % AMX_WORDS;
  const int64_t a_step = block->slivers ? AMX_ROW : block->a_row * (int64_t)sizeof *a;
  const int64_t next = block->slivers ? block->m * AMX_WORDS : AMX_WORDS;
  for (int64_t p = block->k / AMX_WORDS; p > 0; p--) {
    AMX_STEP(AMX_A, AMX_B, vectors, a, a_step, b);
    a += next;
    b += AMX_WORDS * GEMM_COLUMNS;
  }
  if (rest > 0) AMX_STEP(AMX_REST_A, AMX_REST_B, vectors, a, block->slivers ? rest * 4 : a_step, b);
}

/* The terms of a tile: of columns, and of rows. */
typedef struct amx_terms {
  gemm_vector column[2];
  GEMM_ELEMENT row[GEMM_ROWS];
} amx_terms;

/* Adds the products of all runs of k to the registers' sums, and the terms after each run. */
GEMM_INLINE void gemm_amx_multiply(const int vectors, const cpu_gemm_block *tile,
                                   amx_terms *terms) {
  const gemm_element_at *a = tile->a;
  const GEMM_ELEMENT *b = tile->b;
  int64_t rest = gemm_length(tile);
  do {
    gemm_amx_add(vectors, tile, a, b);
    a += tile->k * tile->a_k;
    b += tile->k * tile->b_k;
    for (int v = 0; GEMM_TERMS && v < vectors; v++)
      terms->column[v] += *(const gemm_vector_at *)(b + v * GEMM_LANES);
    for (int64_t i = 0; GEMM_TERMS && tile->slivers && i < tile->m; i++)
      terms->row[i] += (GEMM_ELEMENT)a[i * tile->a_row];
    rest -= tile->k;
    a += tile->a_run - tile->k;
    b += GEMM_TERMS * GEMM_COLUMNS;
  } while (rest > 0);
}

/* Delivers some rows of a tile, from `first` on. Their number is a constant. */
GEMM_INLINE void gemm_amx_deliver(const int rows, const int vectors, const cpu_gemm_block *tile,
                                  int64_t first, bool begun, const amx_terms *terms,
                                  const gemm_vector *from) {
  gemm_sums sum;
  cpu_gemm_block part = *tile;
  part.m = rows;
  part.row += first;
  part.c = (GEMM_ELEMENT *)tile->c + first * tile->c_row;
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) {
      sum[i][v] = from[(first + i) * vectors + v];
      if (GEMM_TERMS) sum[i][v] += terms->column[v] + terms->row[first + i];
    }
  }
  if (!gemm_deliver(rows, vectors, &part, begun, sum)) gemm_store_tile(rows, vectors, &part, sum);
}

/* Computes a tile of any number of rows. The registers' sums reach vectors through memory anyway,
 * so a few rows at a time are enough: one code serves all heights. */
GEMM_INLINE void gemm_amx_tile(const int vectors, const cpu_gemm_block *tile) {
  const int64_t rows = tile->m;
  gemm_vector sums[GEMM_ROWS * 2];
  amx_terms terms = {.row = {0}};
  for (int64_t i = 0; i < rows; i++) {
    cpu_gemm_block part = *tile;
    part.row += i;
    part.c = (GEMM_ELEMENT *)tile->c + i * tile->c_row;
    gemm_prefetch_target(1, vectors, &part);
  }
  const bool begun = gemm_begin(vectors, tile, terms.column);
  AMX_ZERO(AMX_SUMS(0));
  if (vectors > 1) AMX_ZERO(AMX_SUMS(1));
  gemm_amx_multiply(vectors, tile, &terms);
  AMX_STORE(AMX_SUMS(0), sums, vectors * AMX_ROW);
  if (vectors > 1) AMX_STORE(AMX_SUMS(1), sums + 1, vectors * AMX_ROW);
  if (tile->n < vectors * GEMM_LANES || !gemm_stays(tile, begun)) {
    for (int64_t i = 0; GEMM_TERMS && i < rows; i++)
      for (int v = 0; v < vectors; v++) sums[i * vectors + v] += terms.column[v] + terms.row[i];
    GEMM_ELEMENT *x = (GEMM_ELEMENT *)sums;
    if (!gemm_deliver_stored(tile, x, vectors * GEMM_LANES))
      gemm_store_edge(tile, x, vectors * GEMM_LANES);
    return;
  }
  for (int64_t i = 0; i < rows; i += 4) {
    switch (rows - i) {
    case 1: gemm_amx_deliver(1, vectors, tile, i, begun, &terms, sums); break;
    case 2: gemm_amx_deliver(2, vectors, tile, i, begun, &terms, sums); break;
    case 3: gemm_amx_deliver(3, vectors, tile, i, begun, &terms, sums); break;
    default: gemm_amx_deliver(4, vectors, tile, i, begun, &terms, sums); break;
    }
  }
}

/* Transposes the lines of a sliver into rows, 16 lines at a time and then the rest. */
static void gemm_amx_turn(uint32_t *lines, int64_t count, int64_t rows) {
  uint32_t piece[AMX_WORDS * AMX_WORDS];
  for (int64_t p = 0; p < count; p += AMX_WORDS, lines += rows * AMX_WORDS) {
    const int64_t words = count - p < AMX_WORDS ? count - p : AMX_WORDS;
    memcpy(piece, lines, (size_t)(words * rows) * sizeof *lines);
    for (int64_t i = 0; i < rows; i++)
      for (int64_t q = 0; q < words; q++) lines[i * words + q] = piece[q * rows + i];
  }
}

#endif
