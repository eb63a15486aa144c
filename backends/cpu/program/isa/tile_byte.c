/* SPDX-License-Identifier: MIT */
/* Instructions on values of one byte (program/bytes.h), and functions of one byte as a table.
 * core/isa.h explains how this file is compiled. */
#include "tile_loops.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* ---- Truth values: every byte but 0 is true; a result is 0 or 1 ------------------------------ */

UNARY_LOOP(not, uint8_t, uint8_t, x == 0)
UNARY_LOOP(truth, uint8_t, uint8_t, x != 0)
BINARY_LOOP(and, uint8_t, uint8_t, (x != 0) & (y != 0))
BINARY_LOOP(or, uint8_t, uint8_t, (x | y) != 0)
BINARY_LOOP(xor, uint8_t, uint8_t, (x == 0) ^ (y == 0))
BINARY_LOOP(same, uint8_t, uint8_t, (x == 0) == (y == 0))
BINARY_LOOP(below, uint8_t, uint8_t, (x == 0) & (y != 0))
BINARY_LOOP(up_to, uint8_t, uint8_t, (x == 0) | (y != 0))
BINARY_LOOP(above, uint8_t, uint8_t, (x != 0) & (y == 0))
BINARY_LOOP(from, uint8_t, uint8_t, (x != 0) | (y == 0))
SELECT_LOOP_OF(choose, uint8_t, uint8_t, (mask != 0), value != 0)

/* ---- Integers: the low byte of a result in more bits ----------------------------------------- */

UNARY_LOOP(neg, uint8_t, uint8_t, (uint8_t)-x)
UNARY_LOOP(square, uint8_t, uint8_t, (uint8_t)(x *x))
UNARY_LOOP(bit_not, uint8_t, uint8_t, (uint8_t)~x)
BINARY_LOOP(add, uint8_t, uint8_t, (uint8_t)(x + y))
BINARY_LOOP(sub, uint8_t, uint8_t, (uint8_t)(x - y))
BINARY_LOOP(mul, uint8_t, uint8_t, (uint8_t)(x *y))
BINARY_LOOP(bit_and, uint8_t, uint8_t, (x & y))
BINARY_LOOP(bit_or, uint8_t, uint8_t, x | y)
BINARY_LOOP(bit_xor, uint8_t, uint8_t, x ^ y)
SELECT_LOOP_OF(select, uint8_t, uint8_t, (mask != 0), value)

/* Operands whose bytes are their values: unsigned or signed ones. */
#define EXACT_LOOPS(sign, type)                                                                    \
  BINARY_LOOP(sign##_min, type, type, x < y ? x : y)                                               \
  BINARY_LOOP(sign##_max, type, type, x > y ? x : y)                                               \
  BINARY_LOOP(sign##_eq, uint8_t, type, x == y)                                                    \
  BINARY_LOOP(sign##_ne, uint8_t, type, x != y)                                                    \
  BINARY_LOOP(sign##_lt, uint8_t, type, x < y)                                                     \
  BINARY_LOOP(sign##_le, uint8_t, type, x <= y)                                                    \
  BINARY_LOOP(sign##_gt, uint8_t, type, x > y)                                                     \
  BINARY_LOOP(sign##_ge, uint8_t, type, x >= y)
EXACT_LOOPS(unsigned, uint8_t)
EXACT_LOOPS(signed, int8_t)

const cpu_tile_loops CPU_SYMBOL(cpu_tile_truth) = {
    [COMPUTE_I_NOT] = UNARY_ROW(not ),       [COMPUTE_I_AND] = BINARY_ROW(and),
    [COMPUTE_I_OR] = BINARY_ROW(or),         [COMPUTE_I_XOR] = BINARY_ROW(xor),
    [COMPUTE_I_MIN] = BINARY_ROW(and),       [COMPUTE_I_MAX] = BINARY_ROW(or),
    [COMPUTE_I_EQ] = BINARY_ROW(same),       [COMPUTE_I_NE] = BINARY_ROW(xor),
    [COMPUTE_I_LT] = BINARY_ROW(below),      [COMPUTE_I_LE] = BINARY_ROW(up_to),
    [COMPUTE_I_GT] = BINARY_ROW(above),      [COMPUTE_I_GE] = BINARY_ROW(from),
    [COMPUTE_I_SELECT] = SELECT_ROW(choose),
};

#define EXACT_ROWS(sign)                                                                           \
  {                                                                                                \
    [COMPUTE_I_NEG] = UNARY_ROW(neg), [COMPUTE_I_SQUARE] = UNARY_ROW(square),                      \
    [COMPUTE_I_BIT_NOT] = UNARY_ROW(bit_not), [COMPUTE_I_ADD] = BINARY_ROW(add),                   \
    [COMPUTE_I_SUB] = BINARY_ROW(sub), [COMPUTE_I_MUL] = BINARY_ROW(mul),                          \
    [COMPUTE_I_BIT_AND] = BINARY_ROW(bit_and), [COMPUTE_I_BIT_OR] = BINARY_ROW(bit_or),            \
    [COMPUTE_I_BIT_XOR] = BINARY_ROW(bit_xor), [COMPUTE_I_SELECT] = SELECT_ROW(select),            \
    [COMPUTE_I_MIN] = BINARY_ROW(sign##_min), [COMPUTE_I_MAX] = BINARY_ROW(sign##_max),            \
    [COMPUTE_I_EQ] = BINARY_ROW(sign##_eq), [COMPUTE_I_NE] = BINARY_ROW(sign##_ne),                \
    [COMPUTE_I_LT] = BINARY_ROW(sign##_lt), [COMPUTE_I_LE] = BINARY_ROW(sign##_le),                \
    [COMPUTE_I_GT] = BINARY_ROW(sign##_gt), [COMPUTE_I_GE] = BINARY_ROW(sign##_ge)                 \
  }
const cpu_tile_loops CPU_SYMBOL(cpu_tile_unsigned) = EXACT_ROWS(unsigned);
const cpu_tile_loops CPU_SYMBOL(cpu_tile_signed) = EXACT_ROWS(signed);

/* ---- Memory ---------------------------------------------------------------------------------- */

static void load(int64_t count, void *result, const void *source, int64_t stride) {
  const uint8_t *x = source;
  uint8_t *r = result;
  for (int64_t i = 0; i < count; i++) r[i] = x[i * stride];
}

static void store(int64_t count, void *destination, int64_t stride, const void *source) {
  const uint8_t *x = source;
  uint8_t *r = destination;
  if (stride == 1)
    __builtin_memcpy(r, x, (size_t)count);
  else
    for (int64_t i = 0; i < count; i++) r[i * stride] = x[i];
}

static void copy(int64_t count, void *result, const void *source) {
  __builtin_memmove(result, source, (size_t)count);
}

static void copy_truth(int64_t count, void *result, const void *source) {
  const cpu_immediate none = {0};
  truth_loop(count, result, source, NULL, NULL, none);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* The table is 16 rows of 16 bytes. A shuffle gives 0 for bytes with the high bit. With rows that
 * are differences (xor) from the row before, the sum of all shuffles up to the byte's row is the
 * result: after row r, 16 is subtracted, and the high bit appears. The upper half of the bytes does
 * the same with its 8 rows. */
static void look_up(int64_t count, uint8_t *result, const uint8_t *bytes, const uint8_t *table) {
  int64_t i = 0;
#if defined(__AVX2__)
  enum { ROWS = 8 };
  __m256i row[2 * ROWS];
  for (int r = 0; r < 2 * ROWS; r++) {
    __m128i own = _mm_loadu_si128((const void *)(table + 16 * r));
    if (r % ROWS) own = _mm_xor_si128(own, _mm_loadu_si128((const void *)(table + 16 * r - 16)));
    row[r] = _mm256_broadcastsi128_si256(own);
  }
  const __m256i step = _mm256_set1_epi8(16), half = _mm256_set1_epi8(-128);
  for (; i + 32 <= count; i += 32) {
    __m256i low = _mm256_loadu_si256((const void *)(bytes + i)), high = _mm256_xor_si256(low, half);
    __m256i a = _mm256_shuffle_epi8(row[0], low), b = _mm256_shuffle_epi8(row[ROWS], high);
    for (int r = 1; r < ROWS; r++) {
      low = _mm256_subs_epi8(low, step);
      high = _mm256_subs_epi8(high, step);
      a = _mm256_xor_si256(a, _mm256_shuffle_epi8(row[r], low));
      b = _mm256_xor_si256(b, _mm256_shuffle_epi8(row[ROWS + r], high));
    }
    _mm256_storeu_si256((void *)(result + i), _mm256_xor_si256(a, b));
  }
#endif
  for (; i < count; i++) result[i] = table[bytes[i]];
}

const cpu_byte_table CPU_SYMBOL(cpu_tile_bytes) = {
    .loops = {[CPU_BYTES_TRUTH] = &CPU_SYMBOL(cpu_tile_truth),
              [CPU_BYTES_UNSIGNED] = &CPU_SYMBOL(cpu_tile_unsigned),
              [CPU_BYTES_SIGNED] = &CPU_SYMBOL(cpu_tile_signed)},
    .load = load,
    .store = store,
    .copy = copy,
    .copy_truth = copy_truth,
    .look_up = look_up,
};
