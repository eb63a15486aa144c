/* SPDX-License-Identifier: MIT */
/* Products of a small matrix and a long one: a vector has neighbouring columns of C, and A's elements
 * are broadcast. Each element adds its products in the order of k, as a register tile does, so it has
 * the same bits.
 *
 * If the long matrix has contiguous lines of k elements instead (points, colours), a block of them is
 * transposed on the way in; results with contiguous rows of m elements on the way out. */
#include "gemm_float.h"
#include "narrow_table.h"

typedef GEMM_ELEMENT element;

enum { COLUMNS = CPU_NARROW_BYTES / sizeof(element), LANES = GEMM_LANES };
enum { TOGETHER = 8 }; /* rows whose sums fit the registers */

typedef struct operand_lines {
  element at[CPU_NARROW_DEPTH][COLUMNS] __attribute__((aligned(GEMM_VECTOR_BYTES)));
} operand_lines;

typedef struct result_lines {
  element at[CPU_NARROW_ROWS][COLUMNS] __attribute__((aligned(GEMM_VECTOR_BYTES)));
} result_lines;

/* Squares of 16 bytes a line. */
enum { SIDE = 16 / sizeof(element) };
typedef element piece __attribute__((vector_size(16), aligned(__alignof__(element))));

/* Transposes a square of lines `from_step` apart to lines `to_step` apart. */
GEMM_INLINE void turn_square(const element *from, int64_t from_step, element *to, int64_t to_step) {
  piece row[SIDE];
  for (int i = 0; i < SIDE; i++) row[i] = *(const piece *)(from + i * from_step);
#if GEMM_ELEMENT_BYTES == 8
  *(piece *)to = __builtin_shufflevector(row[0], row[1], 0, 2);
  *(piece *)(to + to_step) = __builtin_shufflevector(row[0], row[1], 1, 3);
#else
  const piece a = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
  const piece b = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
  const piece c = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
  const piece d = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
  *(piece *)to = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  *(piece *)(to + to_step) = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  *(piece *)(to + 2 * to_step) = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  *(piece *)(to + 3 * to_step) = __builtin_shufflevector(b, d, 2, 3, 6, 7);
#endif
}

/* Copies n lines of k elements, `step` apart, to columns. */
GEMM_INLINE void turn_in(int64_t n, int64_t k, const element *from, int64_t step,
                         operand_lines *to) {
  const int64_t squares = n / SIDE * SIDE, side = k / SIDE * SIDE;
  for (int64_t j = 0; j < squares; j += SIDE)
    for (int64_t p = 0; p < side; p += SIDE)
      turn_square(from + j * step + p, step, &to->at[p][j], COLUMNS);
  for (int64_t j = 0; j < n; j++)
    for (int64_t p = j < squares ? side : 0; p < k; p++) to->at[p][j] = from[j * step + p];
}

GEMM_INLINE void turn_out(int64_t n, int64_t m, const result_lines *from, element *to,
                          int64_t step) {
  const int64_t squares = n / SIDE * SIDE, side = m / SIDE * SIDE;
  for (int64_t j = 0; j < squares; j += SIDE)
    for (int64_t i = 0; i < side; i += SIDE)
      turn_square(&from->at[i][j], COLUMNS, to + j * step + i, step);
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = j < squares ? side : 0; i < m; i++) to[j * step + i] = from->at[i][j];
}

/* Calls f(n, count, …) with a constant count where it is small, so that its loops are unrolled. */
#define WITH_COUNT(f, n, count, ...)                                                               \
  switch (count) {                                                                                 \
  case 1: f(n, 1, __VA_ARGS__); break;                                                             \
  case 2: f(n, 2, __VA_ARGS__); break;                                                             \
  case 3: f(n, 3, __VA_ARGS__); break;                                                             \
  case 4: f(n, 4, __VA_ARGS__); break;                                                             \
  case 8: f(n, 8, __VA_ARGS__); break;                                                             \
  default: f(n, count, __VA_ARGS__); break;                                                        \
  }

static void take_lines(const cpu_narrow_block *b, operand_lines *to) {
  if (b->b_column == b->k) /* the step is constant */
    WITH_COUNT(turn_in, b->n, b->k, b->b, b->k, to)
  else
    WITH_COUNT(turn_in, b->n, b->k, b->b, b->b_column, to)
}

static void put_lines(const cpu_narrow_block *b, const void *rows) {
  const result_lines *from = rows;
  if (b->c_column == b->m)
    WITH_COUNT(turn_out, b->n, b->m, from, b->c, b->m)
  else
    WITH_COUNT(turn_out, b->n, b->m, from, b->c, b->c_column)
}

/* Whole vectors of columns; b and c have contiguous columns. */
GEMM_INLINE void multiply_rows(int64_t n, int64_t m, const cpu_narrow_block *block,
                               const element *b, int64_t b_k, element *c, int64_t c_row) {
  const element *a = block->a;
  const gemm_vector factor = (gemm_vector){0} + (element)block->factor;
  for (int64_t j = 0; j < n; j += LANES) {
    gemm_vector sum[TOGETHER];
    GEMM_UNROLL
    for (int64_t i = 0; i < m; i++) sum[i] = (gemm_vector){0};
    for (int64_t p = 0; p < block->k; p++) {
      const gemm_vector x = *(const gemm_vector_at *)(b + p * b_k + j);
      GEMM_UNROLL
      for (int64_t i = 0; i < m; i++)
        sum[i] =
            GEMM_MULTIPLY_ADD(x, (gemm_vector){0} + a[i * block->a_row + p * block->a_k], sum[i]);
    }
    GEMM_UNROLL
    for (int64_t i = 0; i < m; i++) *(gemm_vector_at *)(c + i * c_row + j) = sum[i] * factor;
  }
}

static void multiply_few(const cpu_narrow_block *block, int64_t n, const element *b, int64_t b_k,
                         element *c, int64_t c_row) {
  switch (block->m) {
  case 1: multiply_rows(n, 1, block, b, b_k, c, c_row); break;
  case 2: multiply_rows(n, 2, block, b, b_k, c, c_row); break;
  case 3: multiply_rows(n, 3, block, b, b_k, c, c_row); break;
  case 4: multiply_rows(n, 4, block, b, b_k, c, c_row); break;
  case 5: multiply_rows(n, 5, block, b, b_k, c, c_row); break;
  case 6: multiply_rows(n, 6, block, b, b_k, c, c_row); break;
  case 7: multiply_rows(n, 7, block, b, b_k, c, c_row); break;
  default: multiply_rows(n, 8, block, b, b_k, c, c_row); break;
  }
}

static void multiply_vectors(const cpu_narrow_block *block, int64_t n, const element *b,
                             int64_t b_k, element *c, int64_t c_row) {
  cpu_narrow_block part = *block;
  for (int64_t i = 0; i < block->m; i += TOGETHER) {
    part.a = (const element *)block->a + i * block->a_row;
    part.m = block->m - i;
    multiply_few(&part, n, b, b_k, c + i * c_row, c_row);
  }
}

/* Copies the columns from `first` on. */
static void take_rest(const cpu_narrow_block *b, int64_t first, operand_lines *to) {
  const element *from = b->b;
  for (int64_t p = 0; p < b->k; p++)
    for (int64_t j = first; j < b->n; j++) to->at[p][j - first] = from[p * b->b_k + j];
}

static void put_rest(const cpu_narrow_block *b, int64_t first, const result_lines *from) {
  element *to = b->c;
  for (int64_t i = 0; i < b->m; i++)
    for (int64_t j = first; j < b->n; j++) to[i * b->c_row + j] = from->at[i][j - first];
}

static void multiply(const cpu_narrow_block *block) {
  operand_lines in; /* lanes after the last column have any values, which no other lane reads */
  result_lines out;
  const bool turned = block->b_column != 1, back = block->c_column != 1;
  const int64_t whole = block->n / LANES * LANES, rest = block->n - whole;
  const element *b = turned ? in.at[0] : block->b;
  element *c = back ? out.at[0] : block->c;
  int64_t b_k = turned ? COLUMNS : block->b_k;
  if (turned) take_lines(block, &in);
  multiply_vectors(block, whole, b, b_k, c, back ? COLUMNS : block->c_row);
  if (rest > 0) {
    b += whole;
    if (!turned) {
      take_rest(block, whole, &in);
      b = in.at[0];
      b_k = COLUMNS;
    }
    multiply_vectors(block, LANES, b, b_k, back ? c + whole : out.at[0], COLUMNS);
    if (!back) put_rest(block, whole, &out);
  }
  if (back) put_lines(block, &out);
}

extern const cpu_narrow_loops CPU_VARIANT_SYMBOL(cpu_narrow);
const cpu_narrow_loops CPU_VARIANT_SYMBOL(cpu_narrow) = {multiply, put_lines};
