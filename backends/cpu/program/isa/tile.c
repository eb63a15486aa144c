/* SPDX-License-Identifier: MIT */
/* The table of all loops of this instruction set, and the few loops that only access memory. */
#include <string.h>

#include "tile_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

extern const cpu_load_loop CPU_SYMBOL(cpu_tile_load)[COMPUTE_DTYPE_COUNT];
extern const cpu_store_loop CPU_SYMBOL(cpu_tile_store)[COMPUTE_DTYPE_COUNT];
extern const cpu_convert_loop CPU_SYMBOL(cpu_tile_cast)[CPU_TYPE_COUNT][CPU_TYPE_COUNT];
extern const cpu_convert_loop CPU_SYMBOL(cpu_tile_narrow)[CPU_TYPE_COUNT][COMPUTE_DTYPE_COUNT];
extern const cpu_transpose_block CPU_SYMBOL(cpu_tile_transpose)[4];

#define FILL_CASE(type)                                                                            \
  case sizeof(type): {                                                                             \
    type value, *r = result;                                                                       \
    memcpy(&value, element, sizeof value);                                                         \
    for (int64_t i = 0; i < count; i++) r[i] = value;                                              \
    break;                                                                                         \
  }

static void fill(int64_t count, void *result, const void *element, uint32_t element_bytes) {
  switch (element_bytes) {
    FILL_CASE(uint8_t)
    FILL_CASE(uint16_t)
    FILL_CASE(uint32_t)
    FILL_CASE(uint64_t)
  default: break;
  }
}

static void sequence(int64_t count, int64_t *result, int64_t first, int64_t step) {
  for (int64_t i = 0; i < count; i++) result[i] = first + i * step;
}

#if defined(__AVX512F__)
typedef __m512i stream_vector;
#define STREAM_LOAD(from)      _mm512_loadu_si512(from)
#define STREAM_STORE(to, what) _mm512_stream_si512(to, what)
#elif defined(__AVX2__)
typedef __m256i stream_vector;
#define STREAM_LOAD(from)      _mm256_loadu_si256(from)
#define STREAM_STORE(to, what) _mm256_stream_si256(to, what)
#elif defined(__x86_64__)
typedef __m128i stream_vector;
#define STREAM_LOAD(from)      _mm_loadu_si128(from)
#define STREAM_STORE(to, what) _mm_stream_si128(to, what)
#endif

static void stream(void *destination, const void *source, int64_t bytes) {
  int64_t done = 0;
#if defined(STREAM_STORE)
  /* Whole cache lines, written without a pause, leave the processor as one transfer. */
  for (; done + 64 <= bytes; done += 64) {
    const unsigned char *from = (const unsigned char *)source + done;
    unsigned char *to = (unsigned char *)destination + done;
    for (int64_t part = 0; part < 64; part += (int64_t)sizeof(stream_vector))
      STREAM_STORE((void *)(to + part), STREAM_LOAD((const void *)(from + part)));
  }
#endif
  memcpy((unsigned char *)destination + done, (const unsigned char *)source + done,
         (size_t)(bytes - done));
}

const cpu_tile_table CPU_SYMBOL(cpu_tile_table) = {
    .compute = {[CPU_TYPE_F64] = &CPU_SYMBOL(cpu_tile_f64),
                [CPU_TYPE_F32] = &CPU_SYMBOL(cpu_tile_f32),
                [CPU_TYPE_I64] = &CPU_SYMBOL(cpu_tile_i64),
                [CPU_TYPE_I32] = &CPU_SYMBOL(cpu_tile_i32),
                [CPU_TYPE_BOOL] = &CPU_SYMBOL(cpu_tile_bool)},
    .rows = &CPU_SYMBOL(cpu_tile_rows),
    .cast = CPU_SYMBOL(cpu_tile_cast),
    .narrow = CPU_SYMBOL(cpu_tile_narrow),
    .bytes = &CPU_SYMBOL(cpu_tile_bytes),
    .load = CPU_SYMBOL(cpu_tile_load),
    .store = CPU_SYMBOL(cpu_tile_store),
    .transpose = CPU_SYMBOL(cpu_tile_transpose),
    .fill = fill,
    .sequence = sequence,
    .stream = stream,
};

/* ---- BOOL ------------------------------------------------------------------------------------ */

/* Instructions on BOOL values, which are masks: 0 and −1 (tile_table.h). As numbers, true is the
 * smaller one, so the comparisons look reversed. */

UNARY_LOOP(not, int32_t, int32_t, ~x)
BINARY_LOOP(and, int32_t, int32_t, (x & y))
BINARY_LOOP(or, int32_t, int32_t, x | y)
BINARY_LOOP(xor, int32_t, int32_t, x ^ y)
BINARY_LOOP(eq, int32_t, int32_t, ~(x ^ y))
BINARY_LOOP(lt, int32_t, int32_t, (~x & y))
BINARY_LOOP(le, int32_t, int32_t, ~x | y)
BINARY_LOOP(gt, int32_t, int32_t, x & ~y)
BINARY_LOOP(ge, int32_t, int32_t, x | ~y)
SELECT_LOOP(select, int32_t)

const cpu_tile_loops CPU_SYMBOL(cpu_tile_bool) = {
    [COMPUTE_I_NOT] = UNARY_ROW(not ),       [COMPUTE_I_AND] = BINARY_ROW(and),
    [COMPUTE_I_OR] = BINARY_ROW(or),         [COMPUTE_I_XOR] = BINARY_ROW(xor),
    [COMPUTE_I_MIN] = BINARY_ROW(and),       [COMPUTE_I_MAX] = BINARY_ROW(or),
    [COMPUTE_I_EQ] = BINARY_ROW(eq),         [COMPUTE_I_NE] = BINARY_ROW(xor),
    [COMPUTE_I_LT] = BINARY_ROW(lt),         [COMPUTE_I_LE] = BINARY_ROW(le),
    [COMPUTE_I_GT] = BINARY_ROW(gt),         [COMPUTE_I_GE] = BINARY_ROW(ge),
    [COMPUTE_I_SELECT] = SELECT_ROW(select),
};

/* ---- Transposition --------------------------------------------------------------------------- */

/* Transposes small blocks in vector registers: 8 × 8 of 1, 2 and 4 bytes, 4 × 4 of 4 and 8 bytes.
 * Edges are copied element by element. The caller chooses blocks that fit the L1 cache. */

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* The general loop, for the edges of a block. */
#define TRANSPOSE_LOOP(name, type)                                                                 \
  static void name(int64_t rows, int64_t columns, const void *source, int64_t source_stride,       \
                   void *destination, int64_t destination_stride) {                                \
    for (int64_t r = 0; r < rows; r++) {                                                           \
      const type *from = (const void *)((const unsigned char *)source + r * source_stride);        \
      unsigned char *to = (unsigned char *)destination + r * (int64_t)sizeof(type);                \
      for (int64_t c = 0; c < columns; c++, to += destination_stride) *(type *)to = from[c];       \
    }                                                                                              \
  }

TRANSPOSE_LOOP(transpose_any_1, uint8_t)
TRANSPOSE_LOOP(transpose_any_2, uint16_t)
TRANSPOSE_LOOP(transpose_any_4, uint32_t)
TRANSPOSE_LOOP(transpose_any_8, uint64_t)

/* Computes whole squares by `square` and the edges by the general loop. It reads everything needed
 * from a source row at once and prefetches the next rows: rows that are a power of two apart share
 * so few cache sets that none would still be cached the next time. */
#define TRANSPOSE_SQUARES(name, square, any, side, bytes)                                          \
  static void name(int64_t rows, int64_t columns, const void *source, int64_t source_stride,       \
                   void *destination, int64_t destination_stride) {                                \
    const unsigned char *from = source;                                                            \
    unsigned char *to = destination;                                                               \
    const int64_t whole_rows = rows / side * side, whole_columns = columns / side * side;          \
    for (int64_t r = 0; r < whole_rows; r += side) {                                               \
      for (int64_t ahead = r + 2 * side; ahead < r + 3 * side && ahead < rows; ahead++)            \
        for (int64_t c = 0; c < columns; c += 64 / bytes)                                          \
          __builtin_prefetch(from + ahead * source_stride + c * bytes);                            \
      for (int64_t c = 0; c < whole_columns; c += side)                                            \
        square(from + r * source_stride + c * bytes, source_stride,                                \
               to + c * destination_stride + r * bytes, destination_stride);                       \
    }                                                                                              \
    any(rows - whole_rows, whole_columns, from + whole_rows * source_stride, source_stride,        \
        to + whole_rows * bytes, destination_stride);                                              \
    any(rows, columns - whole_columns, from + whole_columns * bytes, source_stride,                \
        to + whole_columns * destination_stride, destination_stride);                              \
  }

/* Vectors of 16 bytes, which all instruction sets have or compilers divide. */
typedef uint8_t bytes_16 __attribute__((vector_size(16)));
typedef uint16_t halves_8 __attribute__((vector_size(16)));
typedef uint64_t words_2 __attribute__((vector_size(16)));

/* The elements of two vectors by turns: of their low halves, of their high halves. */
#define BYTES_LOW(a, b)                                                                            \
  __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define BYTES_HIGH(a, b)                                                                           \
  __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define HALVES_LOW(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HALVES_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)

/* Eight rows of eight bytes. Each step combines rows that are half of all rows apart. */
static inline void bytes_8x8(const unsigned char *from, int64_t from_stride, unsigned char *to,
                             int64_t to_stride) {
  bytes_16 row[8], two[4];
  for (int i = 0; i < 8; i++) {
    uint64_t eight;
    memcpy(&eight, from + i * from_stride, sizeof eight);
    row[i] = (bytes_16)(words_2){eight, 0};
  }
  for (int i = 0; i < 4; i++) two[i] = BYTES_LOW(row[i], row[i + 4]);
  const bytes_16 even_low = BYTES_LOW(two[0], two[2]), even_high = BYTES_HIGH(two[0], two[2]);
  const bytes_16 odd_low = BYTES_LOW(two[1], two[3]), odd_high = BYTES_HIGH(two[1], two[3]);
  two[0] = BYTES_LOW(even_low, odd_low);
  two[1] = BYTES_HIGH(even_low, odd_low);
  two[2] = BYTES_LOW(even_high, odd_high);
  two[3] = BYTES_HIGH(even_high, odd_high);
  for (int i = 0; i < 8; i++) {
    const uint64_t eight = ((words_2)two[i / 2])[i % 2];
    memcpy(to + i * to_stride, &eight, sizeof eight);
  }
}

/* Eight rows of eight elements of two bytes. */
static inline void halves_8x8(const unsigned char *from, int64_t from_stride, unsigned char *to,
                              int64_t to_stride) {
  halves_8 row[8], next[8];
  for (int i = 0; i < 8; i++) memcpy(&row[i], from + i * from_stride, sizeof row[i]);
  for (int i = 0; i < 4; i++) {
    next[2 * i] = HALVES_LOW(row[i], row[i + 4]);
    next[2 * i + 1] = HALVES_HIGH(row[i], row[i + 4]);
  }
  for (int i = 0; i < 4; i++) {
    row[2 * i] = HALVES_LOW(next[i], next[i + 4]);
    row[2 * i + 1] = HALVES_HIGH(next[i], next[i + 4]);
  }
  for (int i = 0; i < 4; i++) {
    next[2 * i] = HALVES_LOW(row[i], row[i + 4]);
    next[2 * i + 1] = HALVES_HIGH(row[i], row[i + 4]);
  }
  for (int i = 0; i < 8; i++) memcpy(to + i * to_stride, &next[i], sizeof next[i]);
}

TRANSPOSE_SQUARES(transpose_1, bytes_8x8, transpose_any_1, 8, 1)
TRANSPOSE_SQUARES(transpose_2, halves_8x8, transpose_any_2, 8, 2)

#if defined(__AVX2__)

/* Eight rows of eight elements: combine pairs, quadruples, then halves. */
static inline void transpose_8x8(const unsigned char *from, int64_t from_stride, unsigned char *to,
                                 int64_t to_stride) {
  __m256 row[8], pair[8], quad[8];
  for (int i = 0; i < 8; i++) row[i] = _mm256_loadu_ps((const void *)(from + i * from_stride));
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
    pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    quad[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
    quad[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
    quad[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
    quad[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
  }
  for (int i = 0; i < 4; i++) {
    _mm256_storeu_ps((void *)(to + i * to_stride),
                     _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20));
    _mm256_storeu_ps((void *)(to + (i + 4) * to_stride),
                     _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31));
  }
}

static inline void transpose_4x4(const unsigned char *from, int64_t from_stride, unsigned char *to,
                                 int64_t to_stride) {
  __m256d row[4], pair[4];
  for (int i = 0; i < 4; i++) row[i] = _mm256_loadu_pd((const void *)(from + i * from_stride));
  for (int i = 0; i < 4; i += 2) {
    pair[i] = _mm256_unpacklo_pd(row[i], row[i + 1]);
    pair[i + 1] = _mm256_unpackhi_pd(row[i], row[i + 1]);
  }
  for (int i = 0; i < 2; i++) {
    _mm256_storeu_pd((void *)(to + i * to_stride),
                     _mm256_permute2f128_pd(pair[i], pair[i + 2], 0x20));
    _mm256_storeu_pd((void *)(to + (i + 2) * to_stride),
                     _mm256_permute2f128_pd(pair[i], pair[i + 2], 0x31));
  }
}

/* Edges, and blocks of a few rows or columns: four rows of four elements of 4 bytes. */
static void transpose_edge_4(int64_t rows, int64_t columns, const void *source,
                             int64_t source_stride, void *destination, int64_t destination_stride) {
  const unsigned char *from = source;
  unsigned char *to = destination;
  const int64_t whole_rows = rows & ~INT64_C(3), whole_columns = columns & ~INT64_C(3);
  for (int64_t r = 0; r < whole_rows; r += 4)
    for (int64_t c = 0; c < whole_columns; c += 4) {
      __m128 row[4];
      for (int i = 0; i < 4; i++)
        row[i] = _mm_loadu_ps((const void *)(from + (r + i) * source_stride + c * 4));
      _MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]);
      for (int i = 0; i < 4; i++)
        _mm_storeu_ps((void *)(to + (c + i) * destination_stride + r * 4), row[i]);
    }
  transpose_any_4(rows - whole_rows, whole_columns, from + whole_rows * source_stride,
                  source_stride, to + whole_rows * 4, destination_stride);
  transpose_any_4(rows, columns - whole_columns, from + whole_columns * 4, source_stride,
                  to + whole_columns * destination_stride, destination_stride);
}

TRANSPOSE_SQUARES(transpose_4, transpose_8x8, transpose_edge_4, 8, 4)
TRANSPOSE_SQUARES(transpose_8, transpose_4x4, transpose_any_8, 4, 8)

#else
#define transpose_4 transpose_any_4
#define transpose_8 transpose_any_8
#endif

extern const cpu_transpose_block CPU_SYMBOL(cpu_tile_transpose)[4];
const cpu_transpose_block CPU_SYMBOL(cpu_tile_transpose)[4] = {transpose_1, transpose_2,
                                                               transpose_4, transpose_8};
