/* SPDX-License-Identifier: MIT */
/* Products with few rows, which do not repay packing B. Dot products are for operands contiguous
 * along k; streams add rows of a large B in memory order. Part of gemm_tile.c. Among types with
 * words, only bf16 has both. */
#ifndef CPU_GEMM_FEW_H
#define CPU_GEMM_FEW_H

#include <string.h>

#ifdef CPU_VARIANT_BF16
typedef uint16_t gemm_dot_element; /* of B in place; block->elements of them along k */
#elif !defined(GEMM_GROUP)
typedef GEMM_ELEMENT gemm_dot_element;
#endif

#if !defined(GEMM_GROUP) || defined(CPU_VARIANT_BF16)
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

/* Completes a dot product from element or word p on. */
GEMM_INLINE GEMM_ELEMENT gemm_dot_rest(const cpu_gemm_block *block, const GEMM_ELEMENT *a,
                                       const gemm_dot_element *b, int64_t p, GEMM_ELEMENT total) {
#ifdef CPU_VARIANT_BF16
  gemm_vector left = {0}, right = {0};
  const size_t bytes = (size_t)(block->elements - 2 * p) * sizeof *b;
  if (2 * p == block->elements) return total;
  memcpy(&left, a + p, bytes);
  memcpy(&right, b + 2 * p, bytes);
  left = GEMM_MULTIPLY_ADD(left, right, (gemm_vector){0});
  return total + gemm_sum_lanes(&left);
#else
  for (; p < block->k; p++) total += a[p] * b[p];
  return total;
#endif
}

/* Dot products of `rows` rows of A and `columns` columns of B; both are constants. Prefetches the
 * next columns at the same time: each is a new run of memory, which the hardware does not
 * prefetch. */
GEMM_INLINE void gemm_dot_tile(const int rows, const int columns, const cpu_gemm_block *block,
                               const GEMM_ELEMENT *a, const gemm_dot_element *b, GEMM_ELEMENT *c) {
  enum { EACH = sizeof(GEMM_ELEMENT) / sizeof *b };
  gemm_vector sum[4][4];
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int j = 0; j < columns; j++) sum[i][j] = (gemm_vector){0};
  }
  const int64_t whole = EACH == 1 ? block->k : block->elements / EACH;
  int64_t p = 0;
  for (; p + GEMM_LANES <= whole; p += GEMM_LANES) {
    gemm_vector right[4];
    GEMM_UNROLL
    for (int j = 0; j < columns; j++) {
      const gemm_dot_element *from = b + j * block->b_column + EACH * p;
      memcpy(&right[j], from, sizeof right[j]);
      __builtin_prefetch(from + columns * block->b_column);
    }
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) {
      gemm_vector left; /* words may begin at any element */
      memcpy(&left, a + i * block->a_row + p, sizeof left);
      GEMM_UNROLL
      for (int j = 0; j < columns; j++) sum[i][j] = GEMM_MULTIPLY_ADD(left, right[j], sum[i][j]);
    }
  }
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int j = 0; j < columns; j++) {
      const GEMM_ELEMENT total = gemm_dot_rest(block, a + i * block->a_row, b + j * block->b_column,
                                               p, gemm_sum_lanes(&sum[i][j]));
      GEMM_ELEMENT *to = c + i * block->c_row + j;
      *to = block->accumulate ? *to + total : total;
    }
  }
}

GEMM_INLINE void gemm_dot_columns(const int rows, const cpu_gemm_block *block,
                                  const GEMM_ELEMENT *a, GEMM_ELEMENT *c) {
  const int columns = rows > 2 ? 2 : 4;
  const gemm_dot_element *b = block->b;
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

#endif

#if !defined(GEMM_GROUP) || defined(CPU_VARIANT_BF16)
/* The sums of one block of k stay separate, in the L1 cache, and are then added to the sums before
 * them. One running f32 sum over a long k would lose the digits of the last terms. */
#if defined(CPU_VARIANT_F32) || defined(CPU_VARIANT_BF16)
#define GEMM_STREAM_PARTS 1
enum { GEMM_PART_SUMS = 16 << 10 }; /* bytes */
#else
#define GEMM_STREAM_PARTS 0
enum { GEMM_PART_SUMS = sizeof(GEMM_ELEMENT) };
#endif

GEMM_INLINE bool gemm_stream_apart(const cpu_gemm_block *block, int64_t columns) {
  return GEMM_STREAM_PARTS && block->accumulate &&
         (uint64_t)(block->m * columns) * sizeof(GEMM_ELEMENT) <= GEMM_PART_SUMS;
}

/* Returns the start of the sums of some columns, and their row stride in `*row`: either zeros in
 * `part`, or C. */
GEMM_INLINE GEMM_ELEMENT *gemm_stream_begin(const cpu_gemm_block *block, GEMM_ELEMENT *c,
                                            int64_t columns, GEMM_ELEMENT *part, int64_t *row) {
  const bool apart = gemm_stream_apart(block, columns);
  GEMM_ELEMENT *to = apart ? part : c;
  *row = apart ? columns : block->c_row;
  for (int64_t i = 0; i < block->m && (apart || !block->accumulate); i++)
    memset(to + i * *row, 0, (size_t)columns * sizeof *to);
  return to;
}

GEMM_INLINE void gemm_stream_end(const cpu_gemm_block *block, GEMM_ELEMENT *c, int64_t columns,
                                 const GEMM_ELEMENT *part) {
  for (int64_t i = 0; i < block->m && gemm_stream_apart(block, columns); i++)
    for (int64_t j = 0; j < columns; j++) c[i * block->c_row + j] += part[i * columns + j];
}
#endif

#ifndef GEMM_GROUP
/* Adds the products of `rows` rows of A and `depth` rows of B to C, from column 0 on; both numbers
 * are constants. Prefetches B from row `ahead` on at the same time. */
GEMM_INLINE void gemm_stream_rows(const int rows, const int depth, const cpu_gemm_block *block,
                                  const GEMM_ELEMENT *a, const GEMM_ELEMENT *b, GEMM_ELEMENT *c,
                                  int64_t columns, int64_t ahead) {
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
      __builtin_prefetch(b + (ahead + p) * b_k + j);
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

/* Prefetch distance in elements of B. */
enum { GEMM_AHEAD = 8192 / sizeof(GEMM_ELEMENT) };

/* Processes rows of B one at a time: one run of memory reaches full bandwidth, several interleaved
 * runs do not. */
GEMM_INLINE void gemm_stream_depth(const int rows, const cpu_gemm_block *block, int64_t first,
                                   int64_t depth, const GEMM_ELEMENT *b, GEMM_ELEMENT *c,
                                   int64_t columns) {
  const GEMM_ELEMENT *a = (const GEMM_ELEMENT *)block->a + first * block->a_row;
  GEMM_ELEMENT *to = c + first * block->c_row;
  const int64_t ahead = 1 + GEMM_AHEAD / columns;
  for (int64_t p = 0; p < depth; p++)
    gemm_stream_rows(rows, 1, block, a + p * block->a_k, b + p * block->b_k, to, columns, ahead);
}

static void gemm_stream(const cpu_gemm_block *block) {
  enum { CLOSE = 16 << 10, DEPTH = 4, LEAST_WIDTH = 256 };
  GEMM_ELEMENT sums[GEMM_PART_SUMS / sizeof(GEMM_ELEMENT)]
      __attribute__((aligned(GEMM_VECTOR_BYTES)));
  const int64_t wanted = CLOSE / (block->m * (int64_t)sizeof(GEMM_ELEMENT));
  const int64_t width = (wanted < LEAST_WIDTH ? LEAST_WIDTH : wanted) / GEMM_LANES * GEMM_LANES;
  for (int64_t j = 0; j < block->n; j += width) {
    const int64_t columns = block->n - j < width ? block->n - j : width;
    cpu_gemm_block part = *block;
    GEMM_ELEMENT *c =
        gemm_stream_begin(block, (GEMM_ELEMENT *)block->c + j, columns, sums, &part.c_row);
    for (int64_t p = 0; p < block->k; p += DEPTH) {
      const int64_t depth = block->k - p < DEPTH ? block->k - p : DEPTH;
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
    gemm_stream_end(block, (GEMM_ELEMENT *)block->c + j, columns, sums);
  }
}

#endif

#ifdef CPU_VARIANT_BF16
/* Loads up to 32 elements of a row of B. */
GEMM_INLINE __m512i gemm_load_halves(const uint16_t *from, int64_t count) {
  return count >= GEMM_COLUMNS ? _mm512_loadu_si512((const void *)from)
                               : _mm512_maskz_loadu_epi16((UINT32_C(1) << count) - 1, from);
}

/* Adds the products with two rows of B to up to 32 columns of `rows` rows of C; `rows` is a
 * constant. The second row may not exist. Prefetches rows further on at the same time. */
GEMM_INLINE void gemm_stream_words(const int rows, const gemm_vector *left, const uint16_t *b,
                                   int64_t b_k, bool second, float *c, int64_t c_row,
                                   int64_t columns, int64_t ahead) {
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8,
                                       39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(GEMM_LANES));
  const __m512i even = gemm_load_halves(b, columns);
  const __m512i odd = second ? gemm_load_halves(b + b_k, columns) : _mm512_setzero_si512();
  const gemm_vector right[2] = {(gemm_vector)_mm512_permutex2var_epi16(even, low, odd),
                                (gemm_vector)_mm512_permutex2var_epi16(even, high, odd)};
  __builtin_prefetch(b + ahead * b_k);
  __builtin_prefetch(b + (ahead + 1) * b_k);
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int v = 0; v < 2; v++) {
      float *to = c + i * c_row + v * GEMM_LANES;
      const int64_t left_over = columns - v * GEMM_LANES;
      if (left_over >= GEMM_LANES) {
        *(gemm_vector_at *)to = GEMM_MULTIPLY_ADD(left[i], right[v], *(gemm_vector_at *)to);
      } else if (left_over > 0) {
        const __mmask16 mask = (__mmask16)((1u << left_over) - 1);
        const gemm_vector sum = (gemm_vector)_mm512_maskz_loadu_ps(mask, to);
        _mm512_mask_storeu_ps(to, mask, (__m512)GEMM_MULTIPLY_ADD(left[i], right[v], sum));
      }
    }
  }
}

/* All of k, for as many columns as keep their sums in the L1 cache. */
GEMM_INLINE void gemm_stream_columns(const int rows, const cpu_gemm_block *block,
                                     const gemm_element_at *a, const uint16_t *b, float *c,
                                     int64_t c_row, int64_t columns) {
  const int64_t ahead = 2 * (1 + 4096 / columns);
  for (int64_t p = 0; p < block->k; p++, b += 2 * block->b_k) {
    const bool second = 2 * p + 1 < block->elements;
    gemm_vector left[4];
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) left[i] = GEMM_REPEAT(a[i * block->a_row + p]);
    int64_t j = 0;
    for (; j + GEMM_COLUMNS <= columns; j += GEMM_COLUMNS)
      gemm_stream_words(rows, left, b + j, block->b_k, second, c + j, c_row, GEMM_COLUMNS, ahead);
    if (j < columns)
      gemm_stream_words(rows, left, b + j, block->b_k, second, c + j, c_row, columns - j, ahead);
  }
}

/* For up to four rows. */
static void gemm_stream(const cpu_gemm_block *block) {
  enum { CLOSE = 16 << 10 };
  const int64_t width = CLOSE / (block->m * (int64_t)sizeof(float)) / GEMM_COLUMNS * GEMM_COLUMNS;
  const gemm_element_at *a = block->a;
  float sums[GEMM_PART_SUMS / sizeof(float)] __attribute__((aligned(GEMM_VECTOR_BYTES)));
  for (int64_t j = 0; j < block->n; j += width) {
    const int64_t columns = block->n - j < width ? block->n - j : width;
    const uint16_t *b = (const uint16_t *)block->b + j;
    int64_t c_row;
    float *c = gemm_stream_begin(block, (float *)block->c + j, columns, sums, &c_row);
    switch (block->m) {
    case 1: gemm_stream_columns(1, block, a, b, c, c_row, columns); break;
    case 2: gemm_stream_columns(2, block, a, b, c, c_row, columns); break;
    case 3: gemm_stream_columns(3, block, a, b, c, c_row, columns); break;
    default: gemm_stream_columns(4, block, a, b, c, c_row, columns); break;
    }
    gemm_stream_end(block, (float *)block->c + j, columns, sums);
  }
}
#endif

#endif
