/* Register-blocked matrix product: the one source of every micro-kernel.
 *
 * Included by gemm_f32.c and its sisters after they have defined GEMM_ELEMENT, the computing type,
 * and where there is one GEMM_MULTIPLY_ADD(a, b, c), the instruction for a·b + c on vectors. All is
 * static: no copy of an inline function may reach another instruction set's code.
 *
 * A tile of C of up to GEMM_ROWS rows and two vectors of columns stays in registers while k runs:
 * each k takes two vectors of B and repeats one element of A per row over a vector. That makes 12
 * sums with 16 registers (AVX2: 6 × 16 f32) and 28 with 32 (AVX-512: 14 × 32); 8 would hide the
 * latency of two multiply-adds per cycle.
 *
 * A is read with any strides, since an element is repeated anyway. Six rows are as many runs of
 * memory as the hardware foresees, so that packing A is at most a copy of rows; of fourteen it
 * loses count, and they are packed tile by tile, in the order of use ("slivers"). B's columns must
 * lie side by side in panels. Elements are summed in the order of k, whatever the tile's shape, so
 * results do not depend on how C was cut into tiles.
 *
 * Vectors are GCC's, 16 bytes wide without AVX. GEMM_VECTOR_BYTES may force another width: a
 * machine without AVX-512 tests its shape that way. */
#ifndef CPU_GEMM_TILE_H
#define CPU_GEMM_TILE_H

#include <stddef.h>
#include <string.h>

#include "gemm_table.h"

#ifndef GEMM_VECTOR_BYTES
#if defined(__AVX512F__)
#define GEMM_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define GEMM_VECTOR_BYTES 32
#else
#define GEMM_VECTOR_BYTES 16
#endif
#endif

#if GEMM_VECTOR_BYTES == 64
#define GEMM_ROWS 14
#else
#define GEMM_ROWS 6
#endif
#define GEMM_LANES   ((int)(GEMM_VECTOR_BYTES / sizeof(GEMM_ELEMENT)))
#define GEMM_COLUMNS (2 * GEMM_LANES)

/* Contraction is off in the whole project, so multiply-adds are asked for by name. */
#ifndef GEMM_MULTIPLY_ADD
#define GEMM_MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

#define GEMM_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define GEMM_UNROLL _Pragma("unroll")
#else
#define GEMM_UNROLL _Pragma("GCC unroll 32")
#endif

typedef GEMM_ELEMENT gemm_vector __attribute__((vector_size(GEMM_VECTOR_BYTES)));
typedef GEMM_ELEMENT gemm_vector_at /* at any element's address */
    __attribute__((vector_size(GEMM_VECTOR_BYTES), aligned(__alignof__(GEMM_ELEMENT))));

#define GEMM_MAX_VECTORS 4

/* Fourteen rows have fourteen addresses, more than there are registers for them. So one pointer
 * serves three rows, the others of which lie one and two strides further: x86 addresses reach these
 * by themselves. Left to itself gcc sees through that, and keeps fourteen offsets on the stack. */
#define GEMM_ROW_GROUPS      ((GEMM_ROWS + 2) / 3)
#define GEMM_FORGET(pointer) __asm__("" : "+r"(pointer))

/* Stores the first `columns` columns of a tile whose full width would leave C. */
GEMM_INLINE void gemm_store_edge(const int rows, const int vectors,
                                 gemm_vector sum[GEMM_ROWS][GEMM_MAX_VECTORS], GEMM_ELEMENT *c,
                                 int64_t c_row, int64_t columns, bool accumulate) {
  GEMM_ELEMENT line[GEMM_MAX_VECTORS * GEMM_LANES];
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) *(gemm_vector_at *)(line + v * GEMM_LANES) = sum[i][v];
    for (int64_t j = 0; j < columns; j++)
      c[i * c_row + j] = accumulate ? c[i * c_row + j] + line[j] : line[j];
  }
}

/* One tile. `rows`, `vectors` and `listed` are constants wherever this is inlined; `columns` may
 * end inside the last vector. With a `copy`, B's panel is stored there on the way: what the next
 * tiles read. B's rows follow each other at b_k or, if `listed`, lie where block->b_rows says. */
GEMM_INLINE void gemm_tile(const int rows, const int vectors, const bool listed,
                           const cpu_gemm_block *block, const GEMM_ELEMENT *a,
                           const GEMM_ELEMENT *b, int64_t b_k, GEMM_ELEMENT *c, int64_t columns,
                           GEMM_ELEMENT *copy) {
  const int64_t a_row = block->a_row, a_k = block->a_k, c_row = block->c_row;
  const GEMM_ELEMENT *left_rows[GEMM_ROW_GROUPS];
  gemm_vector sum[GEMM_ROWS][GEMM_MAX_VECTORS];
  GEMM_UNROLL
  for (int g = 0; 3 * g < rows; g++) {
    left_rows[g] = a + 3 * g * a_row;
    GEMM_FORGET(left_rows[g]);
  }
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    __builtin_prefetch(c + i * c_row, 1);
    if (GEMM_VECTOR_BYTES == 64 && vectors > 1) __builtin_prefetch(c + i * c_row + GEMM_LANES, 1);
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) sum[i][v] = (gemm_vector){0};
  }
  const int64_t *place = block->b_rows;
  for (int64_t p = block->k; p > 0; p--) {
    gemm_vector right[GEMM_MAX_VECTORS];
    const GEMM_ELEMENT *from = listed ? b + *place++ : b;
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) right[v] = *(const gemm_vector_at *)(from + v * GEMM_LANES);
    if (copy) {
      GEMM_UNROLL
      for (int v = 0; v < vectors; v++) *(gemm_vector_at *)(copy + v * GEMM_LANES) = right[v];
      copy += GEMM_COLUMNS;
    }
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) {
      /* The element in every lane. */
      const gemm_vector left = left_rows[i / 3][i % 3 * a_row] - (gemm_vector){0};
      GEMM_UNROLL
      for (int v = 0; v < vectors; v++) sum[i][v] = GEMM_MULTIPLY_ADD(left, right[v], sum[i][v]);
    }
    GEMM_UNROLL
    for (int g = 0; 3 * g < rows; g++) left_rows[g] += a_k;
    b += b_k;
  }
  if (columns < vectors * GEMM_LANES) {
    gemm_store_edge(rows, vectors, sum, c, c_row, columns, block->accumulate);
    return;
  }
  if (block->accumulate) {
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) {
      GEMM_UNROLL
      for (int v = 0; v < vectors; v++)
        sum[i][v] += *(const gemm_vector_at *)(c + i * c_row + v * GEMM_LANES);
    }
  }
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++)
      *(gemm_vector_at *)(c + i * c_row + v * GEMM_LANES) = sum[i][v];
  }
}

#define GEMM_TILE_CASE(rows, vectors, copy)                                                        \
  case rows:                                                                                       \
    gemm_tile(rows, vectors, false, block, a, b, b_k, c, columns, copy);                           \
    break;
#define GEMM_LISTED_CASE(rows, vectors, copy)                                                      \
  case rows: gemm_tile(rows, vectors, true, block, a, b, b_k, c, columns, copy); break;

typedef void (*gemm_tile_function)(int64_t rows, const cpu_gemm_block *block, const GEMM_ELEMENT *a,
                                   const GEMM_ELEMENT *b, int64_t b_k, GEMM_ELEMENT *c,
                                   int64_t columns, GEMM_ELEMENT *copy);

static void gemm_tile_narrow(int64_t rows, const cpu_gemm_block *block, const GEMM_ELEMENT *a,
                             const GEMM_ELEMENT *b, int64_t b_k, GEMM_ELEMENT *c, int64_t columns,
                             GEMM_ELEMENT *copy) {
  (void)copy;
  switch (rows) {
    GEMM_TILE_CASE(1, 1, NULL)
    GEMM_TILE_CASE(2, 1, NULL)
    GEMM_TILE_CASE(3, 1, NULL)
    GEMM_TILE_CASE(4, 1, NULL)
    GEMM_TILE_CASE(5, 1, NULL)
    GEMM_TILE_CASE(6, 1, NULL)
#if GEMM_ROWS > 6
    GEMM_TILE_CASE(7, 1, NULL)
    GEMM_TILE_CASE(8, 1, NULL)
    GEMM_TILE_CASE(9, 1, NULL)
    GEMM_TILE_CASE(10, 1, NULL)
    GEMM_TILE_CASE(11, 1, NULL)
    GEMM_TILE_CASE(12, 1, NULL)
    GEMM_TILE_CASE(13, 1, NULL)
    GEMM_TILE_CASE(14, 1, NULL)
#endif
  }
}

static void gemm_tile_full(int64_t rows, const cpu_gemm_block *block, const GEMM_ELEMENT *a,
                           const GEMM_ELEMENT *b, int64_t b_k, GEMM_ELEMENT *c, int64_t columns,
                           GEMM_ELEMENT *copy) {
  (void)copy;
  switch (rows) {
    GEMM_TILE_CASE(1, 2, NULL)
    GEMM_TILE_CASE(2, 2, NULL)
    GEMM_TILE_CASE(3, 2, NULL)
    GEMM_TILE_CASE(4, 2, NULL)
    GEMM_TILE_CASE(5, 2, NULL)
    GEMM_TILE_CASE(6, 2, NULL)
#if GEMM_ROWS > 6
    GEMM_TILE_CASE(7, 2, NULL)
    GEMM_TILE_CASE(8, 2, NULL)
    GEMM_TILE_CASE(9, 2, NULL)
    GEMM_TILE_CASE(10, 2, NULL)
    GEMM_TILE_CASE(11, 2, NULL)
    GEMM_TILE_CASE(12, 2, NULL)
    GEMM_TILE_CASE(13, 2, NULL)
    GEMM_TILE_CASE(14, 2, NULL)
#endif
  }
}

/* For the first tile of a strip, which packs B for the others. */
static void gemm_tile_copying(int64_t rows, const cpu_gemm_block *block, const GEMM_ELEMENT *a,
                              const GEMM_ELEMENT *b, int64_t b_k, GEMM_ELEMENT *c, int64_t columns,
                              GEMM_ELEMENT *copy) {
  switch (rows) {
    GEMM_TILE_CASE(1, 2, copy)
    GEMM_TILE_CASE(2, 2, copy)
    GEMM_TILE_CASE(3, 2, copy)
    GEMM_TILE_CASE(4, 2, copy)
    GEMM_TILE_CASE(5, 2, copy)
    GEMM_TILE_CASE(6, 2, copy)
#if GEMM_ROWS > 6
    GEMM_TILE_CASE(7, 2, copy)
    GEMM_TILE_CASE(8, 2, copy)
    GEMM_TILE_CASE(9, 2, copy)
    GEMM_TILE_CASE(10, 2, copy)
    GEMM_TILE_CASE(11, 2, copy)
    GEMM_TILE_CASE(12, 2, copy)
    GEMM_TILE_CASE(13, 2, copy)
    GEMM_TILE_CASE(14, 2, copy)
#endif
  }
}

/* One and two rows leave registers for two panels, which hide the latency again. */
static void gemm_tile_wide(int64_t rows, const cpu_gemm_block *block, const GEMM_ELEMENT *a,
                           const GEMM_ELEMENT *b, int64_t b_k, GEMM_ELEMENT *c, int64_t columns,
                           GEMM_ELEMENT *copy) {
  (void)copy;
  switch (rows) {
    GEMM_TILE_CASE(1, 4, NULL)
    GEMM_TILE_CASE(2, 4, NULL)
  }
}

/* The same four for a B with listed rows. */
static void gemm_listed_narrow(int64_t rows, const cpu_gemm_block *block, const GEMM_ELEMENT *a,
                               const GEMM_ELEMENT *b, int64_t b_k, GEMM_ELEMENT *c, int64_t columns,
                               GEMM_ELEMENT *copy) {
  (void)copy;
  switch (rows) {
    GEMM_LISTED_CASE(1, 1, NULL)
    GEMM_LISTED_CASE(2, 1, NULL)
    GEMM_LISTED_CASE(3, 1, NULL)
    GEMM_LISTED_CASE(4, 1, NULL)
    GEMM_LISTED_CASE(5, 1, NULL)
    GEMM_LISTED_CASE(6, 1, NULL)
#if GEMM_ROWS > 6
    GEMM_LISTED_CASE(7, 1, NULL)
    GEMM_LISTED_CASE(8, 1, NULL)
    GEMM_LISTED_CASE(9, 1, NULL)
    GEMM_LISTED_CASE(10, 1, NULL)
    GEMM_LISTED_CASE(11, 1, NULL)
    GEMM_LISTED_CASE(12, 1, NULL)
    GEMM_LISTED_CASE(13, 1, NULL)
    GEMM_LISTED_CASE(14, 1, NULL)
#endif
  }
}

static void gemm_listed_full(int64_t rows, const cpu_gemm_block *block, const GEMM_ELEMENT *a,
                             const GEMM_ELEMENT *b, int64_t b_k, GEMM_ELEMENT *c, int64_t columns,
                             GEMM_ELEMENT *copy) {
  (void)copy;
  switch (rows) {
    GEMM_LISTED_CASE(1, 2, NULL)
    GEMM_LISTED_CASE(2, 2, NULL)
    GEMM_LISTED_CASE(3, 2, NULL)
    GEMM_LISTED_CASE(4, 2, NULL)
    GEMM_LISTED_CASE(5, 2, NULL)
    GEMM_LISTED_CASE(6, 2, NULL)
#if GEMM_ROWS > 6
    GEMM_LISTED_CASE(7, 2, NULL)
    GEMM_LISTED_CASE(8, 2, NULL)
    GEMM_LISTED_CASE(9, 2, NULL)
    GEMM_LISTED_CASE(10, 2, NULL)
    GEMM_LISTED_CASE(11, 2, NULL)
    GEMM_LISTED_CASE(12, 2, NULL)
    GEMM_LISTED_CASE(13, 2, NULL)
    GEMM_LISTED_CASE(14, 2, NULL)
#endif
  }
}

static void gemm_listed_copying(int64_t rows, const cpu_gemm_block *block, const GEMM_ELEMENT *a,
                                const GEMM_ELEMENT *b, int64_t b_k, GEMM_ELEMENT *c,
                                int64_t columns, GEMM_ELEMENT *copy) {
  switch (rows) {
    GEMM_LISTED_CASE(1, 2, copy)
    GEMM_LISTED_CASE(2, 2, copy)
    GEMM_LISTED_CASE(3, 2, copy)
    GEMM_LISTED_CASE(4, 2, copy)
    GEMM_LISTED_CASE(5, 2, copy)
    GEMM_LISTED_CASE(6, 2, copy)
#if GEMM_ROWS > 6
    GEMM_LISTED_CASE(7, 2, copy)
    GEMM_LISTED_CASE(8, 2, copy)
    GEMM_LISTED_CASE(9, 2, copy)
    GEMM_LISTED_CASE(10, 2, copy)
    GEMM_LISTED_CASE(11, 2, copy)
    GEMM_LISTED_CASE(12, 2, copy)
    GEMM_LISTED_CASE(13, 2, copy)
    GEMM_LISTED_CASE(14, 2, copy)
#endif
  }
}

static void gemm_listed_wide(int64_t rows, const cpu_gemm_block *block, const GEMM_ELEMENT *a,
                             const GEMM_ELEMENT *b, int64_t b_k, GEMM_ELEMENT *c, int64_t columns,
                             GEMM_ELEMENT *copy) {
  (void)copy;
  switch (rows) {
    GEMM_LISTED_CASE(1, 4, NULL)
    GEMM_LISTED_CASE(2, 4, NULL)
  }
}

/* The rows of a block come in tiles of nearly equal height. */
GEMM_INLINE int64_t gemm_tile_count(int64_t m) {
  return (m + GEMM_ROWS - 1) / GEMM_ROWS;
}
GEMM_INLINE int64_t gemm_tile_rows(int64_t m, int64_t tiles, int64_t tile) {
  return m / tiles + (tile < m % tiles);
}

/* All rows of one strip of columns, by tiles of one kind. Where the block asks for it, the first
 * tile
 * (`copying`) packs B's panel for the others, which then read it there. */
static void gemm_strip(gemm_tile_function tile, gemm_tile_function copying,
                       const cpu_gemm_block *block, const GEMM_ELEMENT *b, GEMM_ELEMENT *c,
                       int64_t columns) {
  GEMM_ELEMENT *copy = columns == GEMM_COLUMNS ? block->copy : NULL;
  int64_t b_k = block->b_k;
  const int64_t tiles = gemm_tile_count(block->m);
  const GEMM_ELEMENT *a = block->a;
  cpu_gemm_block part = *block;
  for (int64_t t = 0; t < tiles; t++) {
    const int64_t rows = gemm_tile_rows(block->m, tiles, t);
    if (block->slivers) {
      part.a_row = 1;
      part.a_k = rows;
    }
    if (copy && t == 0) {
      copying(rows, &part, a, b, b_k, c, columns, copy);
      tile = gemm_tile_full;
      b = copy;
      b_k = GEMM_COLUMNS;
    } else {
      tile(rows, &part, a, b, b_k, c, columns, NULL);
    }
    a += rows * (block->slivers ? block->k : block->a_row);
    c += rows * block->c_row;
  }
}

static void gemm_multiply(const cpu_gemm_block *block) {
  const GEMM_ELEMENT *b = block->b;
  GEMM_ELEMENT *c = block->c;
  int64_t rest = block->n;
  if (block->m <= 2 && block->b_column == GEMM_COLUMNS) {
    for (; rest >= 2 * GEMM_COLUMNS; rest -= 2 * GEMM_COLUMNS) {
      gemm_strip(gemm_tile_wide, NULL, block, b, c, 2 * GEMM_COLUMNS);
      b += 2 * GEMM_COLUMNS;
      c += 2 * GEMM_COLUMNS;
    }
  }
  for (; rest >= GEMM_COLUMNS; rest -= GEMM_COLUMNS) {
    gemm_strip(gemm_tile_full, gemm_tile_copying, block, b, c, GEMM_COLUMNS);
    b += block->b_column;
    c += GEMM_COLUMNS;
  }
  if (rest > 0)
    gemm_strip(rest > GEMM_LANES ? gemm_tile_full : gemm_tile_narrow, gemm_tile_copying, block, b,
               c, rest);
}

static void gemm_convolve(const cpu_gemm_block *block) {
  const GEMM_ELEMENT *b = block->b;
  GEMM_ELEMENT *c = block->c;
  int64_t rest = block->n;
  if (block->m <= 2) {
    for (; rest >= 2 * GEMM_COLUMNS; rest -= 2 * GEMM_COLUMNS) {
      gemm_strip(gemm_listed_wide, NULL, block, b, c, 2 * GEMM_COLUMNS);
      b += 2 * GEMM_COLUMNS;
      c += 2 * GEMM_COLUMNS;
    }
  }
  for (; rest >= GEMM_COLUMNS; rest -= GEMM_COLUMNS) {
    gemm_strip(gemm_listed_full, gemm_listed_copying, block, b, c, GEMM_COLUMNS);
    b += GEMM_COLUMNS;
    c += GEMM_COLUMNS;
  }
  if (rest > 0)
    gemm_strip(rest > GEMM_LANES ? gemm_listed_full : gemm_listed_narrow, gemm_listed_copying,
               block, b, c, rest);
}

/* The sum of a vector's lanes, by halves. */
GEMM_INLINE GEMM_ELEMENT gemm_sum_lanes(const gemm_vector *vector) {
  GEMM_ELEMENT lane[GEMM_LANES];
  memcpy(lane, vector, sizeof lane);
  GEMM_UNROLL
  for (int half = GEMM_LANES / 2; half > 0; half /= 2) {
    GEMM_UNROLL
    for (int i = 0; i < half; i++) lane[i] += lane[i + half];
  }
  return lane[0];
}

/* Dot products of `rows` rows of A with `columns` columns of B, both constants. The columns after
 * them are asked for meanwhile: each is a new run of memory, which the hardware does not foresee.
 */
GEMM_INLINE void gemm_dot_tile(const int rows, const int columns, const cpu_gemm_block *block,
                               const GEMM_ELEMENT *a, const GEMM_ELEMENT *b, GEMM_ELEMENT *c) {
  gemm_vector sum[4][4];
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int j = 0; j < columns; j++) sum[i][j] = (gemm_vector){0};
  }
  int64_t p = 0;
  for (; p + GEMM_LANES <= block->k; p += GEMM_LANES) {
    gemm_vector right[4];
    GEMM_UNROLL
    for (int j = 0; j < columns; j++) {
      right[j] = *(const gemm_vector_at *)(b + j * block->b_column + p);
      __builtin_prefetch(b + (columns + j) * block->b_column + p);
    }
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) {
      const gemm_vector left = *(const gemm_vector_at *)(a + i * block->a_row + p);
      GEMM_UNROLL
      for (int j = 0; j < columns; j++) sum[i][j] = GEMM_MULTIPLY_ADD(left, right[j], sum[i][j]);
    }
  }
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int j = 0; j < columns; j++) {
      GEMM_ELEMENT total = gemm_sum_lanes(&sum[i][j]);
      for (int64_t q = p; q < block->k; q++)
        total += a[i * block->a_row + q] * b[j * block->b_column + q];
      GEMM_ELEMENT *to = c + i * block->c_row + j;
      *to = block->accumulate ? *to + total : total;
    }
  }
}

GEMM_INLINE void gemm_dot_columns(const int rows, const cpu_gemm_block *block,
                                  const GEMM_ELEMENT *a, GEMM_ELEMENT *c) {
  const int columns = rows > 2 ? 2 : 4;
  const GEMM_ELEMENT *b = block->b;
  int64_t j = 0;
  for (; j + columns <= block->n; j += columns)
    gemm_dot_tile(rows, columns, block, a, b + j * block->b_column, c + j);
  for (; j < block->n; j++) gemm_dot_tile(rows, 1, block, a, b + j * block->b_column, c + j);
}

static void gemm_dot(const cpu_gemm_block *block) {
  const GEMM_ELEMENT *a = block->a;
  GEMM_ELEMENT *c = block->c;
  for (int64_t i = 0; i < block->m; i += 4, a += 4 * block->a_row, c += 4 * block->c_row) {
    switch (block->m - i) {
    case 1: gemm_dot_columns(1, block, a, c); break;
    case 2: gemm_dot_columns(2, block, a, c); break;
    case 3: gemm_dot_columns(3, block, a, c); break;
    default: gemm_dot_columns(4, block, a, c); break;
    }
  }
}

/* Adds to `rows` rows of C, from column 0 on, their products with `depth` rows of B; both are
 * constants. The rows of B after them are asked for meanwhile. */
GEMM_INLINE void gemm_stream_rows(const int rows, const int depth, const cpu_gemm_block *block,
                                  const GEMM_ELEMENT *a, const GEMM_ELEMENT *b, GEMM_ELEMENT *c,
                                  int64_t columns) {
  gemm_vector left[4][4];
  const int64_t b_k = block->b_k, c_row = block->c_row;
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int p = 0; p < depth; p++)
      left[i][p] = a[i * block->a_row + p * block->a_k] - (gemm_vector){0};
  }
  int64_t j = 0;
  for (; j + GEMM_LANES <= columns; j += GEMM_LANES) {
    gemm_vector right[4];
    GEMM_UNROLL
    for (int p = 0; p < depth; p++) {
      right[p] = *(const gemm_vector_at *)(b + p * b_k + j);
      __builtin_prefetch(b + (depth + p) * b_k + j);
    }
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) {
      gemm_vector_at *to = (gemm_vector_at *)(c + i * c_row + j);
      gemm_vector sum = *to;
      GEMM_UNROLL
      for (int p = 0; p < depth; p++) sum = GEMM_MULTIPLY_ADD(left[i][p], right[p], sum);
      *to = sum;
    }
  }
  for (; j < columns; j++) {
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) {
      GEMM_UNROLL
      for (int p = 0; p < depth; p++) c[i * c_row + j] += left[i][p][0] * b[p * b_k + j];
    }
  }
}

/* Some rows of B, as many at a time as leave registers for A's elements. */
GEMM_INLINE void gemm_stream_depth(const int rows, const cpu_gemm_block *block, int64_t first,
                                   int64_t depth, const GEMM_ELEMENT *b, GEMM_ELEMENT *c,
                                   int64_t columns) {
  const GEMM_ELEMENT *a = (const GEMM_ELEMENT *)block->a + first * block->a_row;
  GEMM_ELEMENT *to = c + first * block->c_row;
  const int step = rows > 2 ? 2 : 4;
  int64_t p = 0;
  for (; p + step <= depth; p += step)
    gemm_stream_rows(rows, step, block, a + p * block->a_k, b + p * block->b_k, to, columns);
  for (; p < depth; p++)
    gemm_stream_rows(rows, 1, block, a + p * block->a_k, b + p * block->b_k, to, columns);
}

static void gemm_stream(const cpu_gemm_block *block) {
  enum { CLOSE = 16 << 10, DEPTH = 4, LEAST_WIDTH = 256 };
  const int64_t wanted = CLOSE / (block->m * (int64_t)sizeof(GEMM_ELEMENT));
  const int64_t width = (wanted < LEAST_WIDTH ? LEAST_WIDTH : wanted) / GEMM_LANES * GEMM_LANES;
  for (int64_t j = 0; j < block->n; j += width) {
    const int64_t columns = block->n - j < width ? block->n - j : width;
    GEMM_ELEMENT *c = (GEMM_ELEMENT *)block->c + j;
    for (int64_t i = 0; i < block->m && !block->accumulate; i++)
      memset(c + i * block->c_row, 0, (size_t)columns * sizeof *c);
    for (int64_t p = 0; p < block->k; p += DEPTH) {
      const int64_t depth = block->k - p < DEPTH ? block->k - p : DEPTH;
      cpu_gemm_block part = *block;
      part.a = (const GEMM_ELEMENT *)block->a + p * block->a_k;
      const GEMM_ELEMENT *b = (const GEMM_ELEMENT *)block->b + p * block->b_k + j;
      for (int64_t i = 0; i < block->m; i += 4) {
        switch (block->m - i) {
        case 1: gemm_stream_depth(1, &part, i, depth, b, c, columns); break;
        case 2: gemm_stream_depth(2, &part, i, depth, b, c, columns); break;
        case 3: gemm_stream_depth(3, &part, i, depth, b, c, columns); break;
        default: gemm_stream_depth(4, &part, i, depth, b, c, columns); break;
        }
      }
    }
  }
}

static void gemm_sum(void *c, int64_t c_row, int64_t m, int64_t n, const void *parts,
                     int64_t count) {
  for (int64_t i = 0; i < m; i++) {
    GEMM_ELEMENT *to = (GEMM_ELEMENT *)c + i * c_row;
    const GEMM_ELEMENT *from = (const GEMM_ELEMENT *)parts + i * n;
    for (int64_t j = 0; j < n; j++) to[j] = from[j];
    for (int64_t s = 1; s < count; s++) {
      for (int64_t j = 0; j < n; j++) to[j] += from[s * m * n + j];
    }
  }
}

#include "gemm_pack.h"

/* The table that the including file exports. */
#define GEMM_TYPE                                                                                  \
  {                                                                                                \
    .rows = GEMM_ROWS, .columns = GEMM_COLUMNS, .lanes = GEMM_LANES, .multiply = gemm_multiply,    \
    .convolve = gemm_convolve, .dot = gemm_dot, .stream = gemm_stream,                             \
    .pack_rows = gemm_pack_rows, .pack_panels = gemm_pack_panels,                                  \
    .pack_slivers = GEMM_ROWS > 6 ? gemm_pack_slivers : NULL, .pack_pieces = gemm_pack_pieces,     \
    .sum = gemm_sum                                                                                \
  }

#endif
