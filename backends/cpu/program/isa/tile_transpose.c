/* Transposes small blocks: 8 × 8 of 4 bytes and 4 × 4 of 8 bytes in vector registers, everything
 * else element by element. The caller picks blocks that fit the first-level cache. */
#include "tile_loops.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* The general loop, for what is left of a block and for the small elements. */
#define TRANSPOSE_LOOP(name, type)                                                                 \
  static void name(int64_t rows, int64_t columns, const void *source, int64_t source_stride,       \
                   void *destination, int64_t destination_stride) {                                \
    for (int64_t r = 0; r < rows; r++) {                                                           \
      const type *from = (const void *)((const unsigned char *)source + r * source_stride);        \
      unsigned char *to = (unsigned char *)destination + r * (int64_t)sizeof(type);                \
      for (int64_t c = 0; c < columns; c++, to += destination_stride) *(type *)to = from[c];       \
    }                                                                                              \
  }

TRANSPOSE_LOOP(transpose_1, uint8_t)
TRANSPOSE_LOOP(transpose_2, uint16_t)
TRANSPOSE_LOOP(transpose_any_4, uint32_t)
TRANSPOSE_LOOP(transpose_any_8, uint64_t)

#if defined(__AVX2__)

/* Eight rows of eight: pairs, quadruples, halves. */
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

/* Whole squares by `square`, the rim by the general loop. All that is needed of a source row is
 * taken at once, and the rows to come are asked for early: rows that lie a power of two apart share
 * so few places in a cache that none of them would still be there the next time. */
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

TRANSPOSE_SQUARES(transpose_4, transpose_8x8, transpose_any_4, 8, 4)
TRANSPOSE_SQUARES(transpose_8, transpose_4x4, transpose_any_8, 4, 8)

#else
#define transpose_4 transpose_any_4
#define transpose_8 transpose_any_8
#endif

extern const cpu_transpose_block CPU_SYMBOL(cpu_tile_transpose)[4];
const cpu_transpose_block CPU_SYMBOL(cpu_tile_transpose)[4] = {transpose_1, transpose_2,
                                                               transpose_4, transpose_8};
