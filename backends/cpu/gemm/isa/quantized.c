/* SPDX-License-Identifier: MIT */
/* Loops for numbers of a few bits. quantized_table.h has their contract; core/isa.h explains how
 * this file is compiled.
 *
 * A weight is (q − zero) · scale, rounded twice, in every loop. AVX-512 looks up 4-bit numbers in a
 * table of the block's 16 weights; other numbers are converted.
 *
 * Dot products of 4 bits load one byte per lane. The low halves are one vector of weights and the
 * high halves another: the numbers at even and at odd places. Rows of A are rearranged to that
 * order once. */
#include <string.h>

#include "quantized_table.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline))

INLINE float number_at(const int32_t bits, const cpu_quantized_columns *c, int64_t p) {
  const int32_t shift = (int32_t)(p * bits & 7), mask = (1 << bits) - 1;
  return (float)(c->numbers[p * bits >> 3] >> shift & mask);
}

/* ---- Vectors --------------------------------------------------------------------------------- */

#if defined(__AVX512F__)
#define VECTORS
enum { LANES = 16 };
typedef __m512 vector;
typedef __m512i integers;
typedef struct weights { /* of a block */
  vector zero, scale;
  vector table; /* the weight of each 4-bit number */
} weights;

INLINE vector zeros(void) {
  return _mm512_setzero_ps();
}
INLINE vector load(const float *from) {
  return _mm512_loadu_ps(from);
}
INLINE void store(float *to, vector x) {
  _mm512_storeu_ps(to, x);
}
INLINE vector multiply_add(vector a, vector b, vector c) {
  return _mm512_fmadd_ps(a, b, c);
}
INLINE integers load_bytes(const uint8_t *from) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
}
INLINE vector stands_for(integers q, const weights *w) {
  return _mm512_mul_ps(_mm512_sub_ps(_mm512_cvtepi32_ps(q), w->zero), w->scale);
}
INLINE weights weights_of(float zero, float scale) {
  const integers q = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  weights w = {.zero = _mm512_set1_ps(zero), .scale = _mm512_set1_ps(scale)};
  w.table = stands_for(q, &w);
  return w;
}
/* The lookup uses only the four lowest bits of an index. */
INLINE vector low(integers x, const weights *w) {
  return _mm512_permutexvar_ps(x, w->table);
}
INLINE vector high(integers x, const weights *w) {
  return _mm512_permutexvar_ps(_mm512_srli_epi32(x, 4), w->table);
}
/* Each of 8 bytes in two lanes, the second shifted so that its high half is lowest. */
INLINE vector halves(const uint8_t *from, const weights *w) {
  const integers x = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(const void *)from));
  return _mm512_permutexvar_ps(_mm512_or_si512(x, _mm512_slli_epi64(x, 28)), w->table);
}
INLINE vector quarters(const uint8_t *from, const weights *w) {
  const integers places =
      _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  int32_t word;
  memcpy(&word, from, sizeof word);
  const integers x = _mm512_srlv_epi32(_mm512_set1_epi32(word), places);
  return stands_for(_mm512_and_si512(x, _mm512_set1_epi32(3)), w);
}
INLINE float total(vector x) {
  return _mm512_reduce_add_ps(x);
}
INLINE integers take_bits(integers x, const int first, const int bits) {
  return _mm512_and_si512(_mm512_srli_epi32(x, (unsigned)first),
                          _mm512_set1_epi32((1 << bits) - 1));
}
INLINE integers load_words(const uint32_t *from) {
  return _mm512_loadu_si512(from);
}
INLINE integers four_columns(const uint8_t *from, int64_t step) {
  const __m512i one = _mm512_castsi128_si512(_mm_loadu_si128((const void *)from));
  const __m512i two = _mm512_inserti32x4(one, _mm_loadu_si128((const void *)(from + step)), 1);
  const __m512i three =
      _mm512_inserti32x4(two, _mm_loadu_si128((const void *)(from + 2 * step)), 2);
  return _mm512_inserti32x4(three, _mm_loadu_si128((const void *)(from + 3 * step)), 3);
}
/* Transposes four words of each column, within each quarter of the vectors. */
INLINE void turn_words(const uint8_t *from, int64_t column, integers words[4]) {
  integers x[4];
  for (int i = 0; i < 4; i++) x[i] = four_columns(from + i * column, 4 * column);
  const integers a = _mm512_unpacklo_epi32(x[0], x[1]), b = _mm512_unpacklo_epi32(x[2], x[3]);
  const integers c = _mm512_unpackhi_epi32(x[0], x[1]), d = _mm512_unpackhi_epi32(x[2], x[3]);
  words[0] = _mm512_unpacklo_epi64(a, b);
  words[1] = _mm512_unpackhi_epi64(a, b);
  words[2] = _mm512_unpacklo_epi64(c, d);
  words[3] = _mm512_unpackhi_epi64(c, d);
}
#elif defined(__AVX2__) && defined(__FMA__)
#define VECTORS
enum { LANES = 8 };
typedef __m256 vector;
typedef __m256i integers;
typedef struct weights {
  vector zero, scale;
} weights;

INLINE vector zeros(void) {
  return _mm256_setzero_ps();
}
INLINE vector load(const float *from) {
  return _mm256_loadu_ps(from);
}
INLINE void store(float *to, vector x) {
  _mm256_storeu_ps(to, x);
}
INLINE vector multiply_add(vector a, vector b, vector c) {
  return _mm256_fmadd_ps(a, b, c);
}
INLINE integers load_bytes(const uint8_t *from) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from));
}
INLINE vector stands_for(integers q, const weights *w) {
  return _mm256_mul_ps(_mm256_sub_ps(_mm256_cvtepi32_ps(q), w->zero), w->scale);
}
INLINE weights weights_of(float zero, float scale) {
  return (weights){_mm256_set1_ps(zero), _mm256_set1_ps(scale)};
}
INLINE vector low(integers x, const weights *w) {
  return stands_for(_mm256_and_si256(x, _mm256_set1_epi32(15)), w);
}
INLINE vector high(integers x, const weights *w) {
  return stands_for(_mm256_srli_epi32(x, 4), w);
}
INLINE vector halves(const uint8_t *from, const weights *w) {
  int32_t word;
  memcpy(&word, from, sizeof word);
  const integers x = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(word));
  return low(_mm256_or_si256(x, _mm256_slli_epi64(x, 28)), w);
}
INLINE vector quarters(const uint8_t *from, const weights *w) {
  uint16_t word;
  memcpy(&word, from, sizeof word);
  const integers x =
      _mm256_srlv_epi32(_mm256_set1_epi32(word), _mm256_set_epi32(14, 12, 10, 8, 6, 4, 2, 0));
  return stands_for(_mm256_and_si256(x, _mm256_set1_epi32(3)), w);
}
INLINE float total(vector x) {
  const __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(quarter, _mm_shuffle_ps(quarter, quarter, 1)));
}
INLINE integers take_bits(integers x, const int first, const int bits) {
  return _mm256_and_si256(_mm256_srli_epi32(x, first), _mm256_set1_epi32((1 << bits) - 1));
}
INLINE integers load_words(const uint32_t *from) {
  return _mm256_loadu_si256((const void *)from);
}
INLINE integers two_columns(const uint8_t *from, int64_t step) {
  const __m256i one = _mm256_castsi128_si256(_mm_loadu_si128((const void *)from));
  return _mm256_inserti128_si256(one, _mm_loadu_si128((const void *)(from + step)), 1);
}
/* Transposes four words of each column, within each half of the vectors. */
INLINE void turn_words(const uint8_t *from, int64_t column, integers words[4]) {
  integers x[4];
  for (int i = 0; i < 4; i++) x[i] = two_columns(from + i * column, 4 * column);
  const integers a = _mm256_unpacklo_epi32(x[0], x[1]), b = _mm256_unpacklo_epi32(x[2], x[3]);
  const integers c = _mm256_unpackhi_epi32(x[0], x[1]), d = _mm256_unpackhi_epi32(x[2], x[3]);
  words[0] = _mm256_unpacklo_epi64(a, b);
  words[1] = _mm256_unpackhi_epi64(a, b);
  words[2] = _mm256_unpacklo_epi64(c, d);
  words[3] = _mm256_unpackhi_epi64(c, d);
}
#elif defined(__aarch64__)
#define VECTORS
enum { LANES = 8 };
typedef float32x4x2_t vector;
typedef uint32x4x2_t integers;
typedef struct weights {
  vector zero, scale;
} weights;

INLINE vector zeros(void) {
  return (vector){{vdupq_n_f32(0), vdupq_n_f32(0)}};
}
INLINE vector load(const float *from) {
  return (vector){{vld1q_f32(from), vld1q_f32(from + 4)}};
}
INLINE void store(float *to, vector x) {
  vst1q_f32(to, x.val[0]);
  vst1q_f32(to + 4, x.val[1]);
}
INLINE vector multiply_add(vector a, vector b, vector c) {
  return (vector){
      {vfmaq_f32(c.val[0], a.val[0], b.val[0]), vfmaq_f32(c.val[1], a.val[1], b.val[1])}};
}
INLINE integers widen_shorts(uint16x8_t x) {
  return (integers){{vmovl_u16(vget_low_u16(x)), vmovl_high_u16(x)}};
}
INLINE integers load_bytes(const uint8_t *from) {
  return widen_shorts(vmovl_u8(vld1_u8(from)));
}
INLINE vector stands_for(integers q, const weights *w) {
  vector x;
  for (int i = 0; i < 2; i++)
    x.val[i] = vmulq_f32(vsubq_f32(vcvtq_f32_u32(q.val[i]), w->zero.val[i]), w->scale.val[i]);
  return x;
}
INLINE weights weights_of(float zero, float scale) {
  const float32x4_t zeros_of = vdupq_n_f32(zero), scales_of = vdupq_n_f32(scale);
  return (weights){{{zeros_of, zeros_of}}, {{scales_of, scales_of}}};
}
INLINE vector low(integers x, const weights *w) {
  const uint32x4_t mask = vdupq_n_u32(15);
  return stands_for((integers){{vandq_u32(x.val[0], mask), vandq_u32(x.val[1], mask)}}, w);
}
INLINE vector high(integers x, const weights *w) {
  return stands_for((integers){{vshrq_n_u32(x.val[0], 4), vshrq_n_u32(x.val[1], 4)}}, w);
}
INLINE vector halves(const uint8_t *from, const weights *w) {
  uint32_t word;
  memcpy(&word, from, sizeof word);
  const uint8x8_t x = vreinterpret_u8_u32(vdup_n_u32(word));
  const uint8x8_t bytes = vzip1_u8(vand_u8(x, vdup_n_u8(15)), vshr_n_u8(x, 4));
  return stands_for(widen_shorts(vmovl_u8(bytes)), w);
}
INLINE vector quarters(const uint8_t *from, const weights *w) {
  static const int16_t places[8] = {0, -2, -4, -6, -8, -10, -12, -14};
  uint16_t word;
  memcpy(&word, from, sizeof word);
  const uint16x8_t x = vshlq_u16(vdupq_n_u16(word), vld1q_s16(places));
  return stands_for(widen_shorts(vandq_u16(x, vdupq_n_u16(3))), w);
}
INLINE float total(vector x) {
  return vaddvq_f32(vaddq_f32(x.val[0], x.val[1]));
}
INLINE integers take_bits(integers x, const int first, const int bits) {
  const uint32x4_t mask = vdupq_n_u32((1u << bits) - 1);
  const int32x4_t places = vdupq_n_s32(-first);
  return (integers){
      {vandq_u32(vshlq_u32(x.val[0], places), mask), vandq_u32(vshlq_u32(x.val[1], places), mask)}};
}
INLINE integers load_words(const uint32_t *from) {
  return (integers){{vld1q_u32(from), vld1q_u32(from + 4)}};
}
/* Transposes four words of each column. */
INLINE void turn_words(const uint8_t *from, int64_t column, integers words[4]) {
  uint32x4_t x[LANES];
  for (int j = 0; j < LANES; j++) x[j] = vreinterpretq_u32_u8(vld1q_u8(from + j * column));
  for (int half = 0; half < 2; half++) {
    const uint32x4_t *y = x + 4 * half;
    const uint64x2_t a = vreinterpretq_u64_u32(vzip1q_u32(y[0], y[1]));
    const uint64x2_t b = vreinterpretq_u64_u32(vzip1q_u32(y[2], y[3]));
    const uint64x2_t c = vreinterpretq_u64_u32(vzip2q_u32(y[0], y[1]));
    const uint64x2_t d = vreinterpretq_u64_u32(vzip2q_u32(y[2], y[3]));
    words[0].val[half] = vreinterpretq_u32_u64(vzip1q_u64(a, b));
    words[1].val[half] = vreinterpretq_u32_u64(vzip2q_u64(a, b));
    words[2].val[half] = vreinterpretq_u32_u64(vzip1q_u64(c, d));
    words[3].val[half] = vreinterpretq_u32_u64(vzip2q_u64(c, d));
  }
}
#endif

#ifdef VECTORS
/* LANES numbers from the start of a byte, in order; `bits` is constant wherever this is inlined. */
INLINE vector in_order(const int32_t bits, const uint8_t *from, const weights *w) {
  return bits == 8   ? stands_for(load_bytes(from), w)
         : bits == 4 ? halves(from, w)
                     : quarters(from, w);
}
#endif

/* ---- Expanding ------------------------------------------------------------------------------- */

/* Expands numbers first … end − 1 of one block. */
INLINE void expand_block(const int32_t bits, const cpu_quantized_columns *c, int64_t block,
                         int64_t first, int64_t end, float *to) {
  const float zero = c->zero[block], scale = c->scale[block];
  int64_t p = first;
  for (; p < end && p * bits % 8 != 0; p++) *to++ = (number_at(bits, c, p) - zero) * scale;
#ifdef VECTORS
  const weights w = weights_of(zero, scale);
  for (; p + LANES <= end; p += LANES, to += LANES)
    store(to, in_order(bits, c->numbers + (p * bits >> 3), &w));
#endif
  for (; p < end; p++) *to++ = (number_at(bits, c, p) - zero) * scale;
}

INLINE void expand_bits(const int32_t bits, const cpu_quantized_columns *c, int64_t first,
                        int64_t count, float *to) {
  const int64_t end = first + count;
  int64_t block = first / c->block, next = (block + 1) * c->block;
  for (int64_t p = first; p < end; block++, next += c->block) {
    const int64_t stop = next < end ? next : end;
    expand_block(bits, c, block, p, stop, to + (p - first));
    p = stop;
  }
}

static void expand(const cpu_quantized_columns *c, int64_t first, int64_t count, float *to) {
  switch (c->bits) {
  case 2: expand_bits(2, c, first, count, to); break;
  case 4: expand_bits(4, c, first, count, to); break;
  default: expand_bits(8, c, first, count, to); break;
  }
}

/* ---- Panels ---------------------------------------------------------------------------------- */

#ifdef VECTORS
#define UNROLL _Pragma("GCC unroll 16")

/* One word of each of LANES columns. */
INLINE integers one_word(const uint8_t *from, int64_t column) {
  uint32_t words[LANES];
  for (int j = 0; j < LANES; j++) memcpy(&words[j], from + j * column, sizeof *words);
  return load_words(words);
}

INLINE void store_word(const int32_t bits, integers word, const weights *w, int64_t width,
                       float *to) {
  UNROLL for (int i = 0; i < 32 / bits; i++)
      store(to + i * width, stands_for(take_bits(word, i * bits, bits), w));
}

/* Expands `count` numbers of a block for LANES columns, one column per lane. `from` is at the first
 * number of a word. */
INLINE void panel_block(const int32_t bits, const uint8_t *from, int64_t column, const float *scale,
                        const float *zero, int64_t count, int64_t width, float *to) {
  const int64_t each = 32 / bits;
  const weights w = {.zero = load(zero), .scale = load(scale)};
  int64_t p = 0;
  for (; p + 4 * each <= count; p += 4 * each) {
    integers words[4];
    turn_words(from + (p * bits >> 3), column, words);
    UNROLL for (int i = 0; i < 4; i++)
        store_word(bits, words[i], &w, width, to + (p + i * each) * width);
  }
  for (; p + each <= count; p += each)
    store_word(bits, one_word(from + (p * bits >> 3), column), &w, width, to + p * width);
  for (; p < count; p++)
    for (int j = 0; j < LANES; j++) {
      const int32_t byte = from[j * column + (p * bits >> 3)];
      const float q = (float)(byte >> (p * bits & 7) & ((1 << bits) - 1));
      to[p * width + j] = (q - zero[j]) * scale[j];
    }
}

/* Prefetches the next numbers of LANES columns, because the hardware does not. */
INLINE void ask_for_numbers(const uint8_t *from, int64_t column, int64_t bytes) {
  enum { LINE = 64 };
  for (int j = 0; j < LANES; j++, from += column)
    for (int64_t i = 0; i < bytes; i += LINE) __builtin_prefetch(from + i);
}

/* Processes LANES columns at a time: more would compete for few cache sets. */
INLINE void panel_bits(const int32_t bits, const cpu_quantized_columns *c, const float *scale,
                       const float *zero, int64_t first, int64_t count, int64_t width, float *to) {
  const int64_t end = first + count;
  for (int64_t j = 0; j < width; j += LANES) {
    const uint8_t *from = c->numbers + j * c->numbers_column;
    ask_for_numbers(from + (end * bits >> 3), c->numbers_column, count * bits >> 3);
    int64_t at = j, next = (first / c->block + 1) * c->block;
    for (int64_t p = first; p < end; at += width, next += c->block) {
      const int64_t stop = next < end ? next : end;
      panel_block(bits, from + (p * bits >> 3), c->numbers_column, scale + at, zero + at, stop - p,
                  width, to + (p - first) * width + j);
      p = stop;
    }
  }
}

static void panel(const cpu_quantized_columns *c, const float *scale, const float *zero,
                  int64_t first, int64_t count, int64_t width, float *to) {
  switch (c->bits) {
  case 2: panel_bits(2, c, scale, zero, first, count, width, to); break;
  case 4: panel_bits(4, c, scale, zero, first, count, width, to); break;
  default: panel_bits(8, c, scale, zero, first, count, width, to); break;
  }
}
#undef UNROLL
#endif

/* ---- Dot products ---------------------------------------------------------------------------- */

#ifdef VECTORS
/* True if loops take two vectors at a time, with A rearranged: for 4 bits, if a block is a multiple
 * of that. */
static bool takes_pairs(int32_t bits, int64_t block) {
  return bits == 4 && block % (2 * LANES) == 0;
}

static int32_t group(int32_t bits, int64_t block) {
  return takes_pairs(bits, block) ? 2 * LANES : block % LANES == 0 ? LANES : 0;
}

/* Reorders each pair of vectors: first the elements at even places, then those at odd places. */
static void arrange(int32_t bits, int64_t block, float *row, int64_t count) {
  enum { GROUP = 2 * LANES };
  float pair[GROUP];
  if (!takes_pairs(bits, block)) return;
  for (int64_t p = 0; p + GROUP <= count; p += GROUP) {
    memcpy(pair, row + p, sizeof pair);
    for (int i = 0; i < LANES; i++) {
      row[p + i] = pair[2 * i];
      row[p + LANES + i] = pair[2 * i + 1];
    }
  }
}

enum {
  AHEAD = 512, /* bytes of a column, for prefetching */
  MOST_COLUMNS = 8,
  PART = 256 * LANES /* length of k that is summed separately: a longer sum of f32 loses digits */
};

#define UNROLL _Pragma("GCC unroll 8")

/* Compile-time variant of the loops below: constant wherever they are inlined. */
typedef struct form {
  int rows, columns;
  int32_t bits;
  bool pairs;
} form;

typedef struct tile {
  vector sum[CPU_QUANTIZED_ROWS][MOST_COLUMNS];
} tile;

INLINE void add_vector(const form f, int j, vector w, const float *a, int64_t a_row, tile *t) {
  UNROLL for (int i = 0; i < f.rows; i++) t->sum[i][j] =
      multiply_add(load(a + i * a_row), w, t->sum[i][j]);
}

INLINE void add_group(const form f, const uint8_t *from, int64_t column, const weights *w,
                      const float *a, int64_t a_row, tile *t) {
  UNROLL for (int j = 0; j < f.columns; j++) {
    const uint8_t *at = from + j * column;
    __builtin_prefetch(at + AHEAD);
    if (f.pairs) {
      const integers q = load_bytes(at);
      add_vector(f, j, low(q, &w[j]), a, a_row, t);
      add_vector(f, j, high(q, &w[j]), a + LANES, a_row, t);
    } else {
      add_vector(f, j, in_order(f.bits, at, &w[j]), a, a_row, t);
    }
  }
}

/* One part of k; stores the sums or adds them. */
INLINE void dots(const form f, const cpu_quantized_columns *c, int64_t column, const float *a,
                 int64_t a_row, int64_t first, int64_t k, float *sums, int64_t sums_row) {
  const uint8_t *numbers = c->numbers + column * c->numbers_column;
  const float *scale = c->scale + column * c->scale_column;
  const float *zero = c->zero + column * c->zero_column;
  const int64_t step = f.pairs ? 2 * LANES : LANES;
  tile t;
  UNROLL for (int i = 0; i < f.rows; i++) {
    UNROLL for (int j = 0; j < f.columns; j++) t.sum[i][j] = zeros();
  }
  int64_t block = first == 0 ? 0 : first / c->block, end = (block + 1) * c->block;
  for (int64_t p = first; p < k; block++, end += c->block) {
    if (end > k) end = k;
    weights w[MOST_COLUMNS];
    UNROLL for (int j = 0; j < f.columns; j++) w[j] =
        weights_of(zero[j * c->zero_column + block], scale[j * c->scale_column + block]);
    for (; p < end; p += step)
      add_group(f, numbers + (p * f.bits >> 3), c->numbers_column, w, a + p, a_row, &t);
  }
  UNROLL for (int i = 0; i < f.rows; i++) {
    UNROLL for (int j = 0; j < f.columns; j++) {
      float *to = sums + i * sums_row + column + j;
      *to = first == 0 ? total(t.sum[i][j]) : *to + total(t.sum[i][j]);
    }
  }
}

/* Processes as many columns at once as registers can hold sums for; that is enough to hide the
 * latency of additions. */
INLINE void all_columns(const int rows, const int32_t bits, const bool pairs,
                        const cpu_quantized_columns *c, int64_t count, const float *a,
                        int64_t a_row, int64_t k, float *sums, int64_t sums_row) {
  const int columns = rows <= 2 ? LANES / 2 : rows <= 4 ? LANES / 4 : LANES / 8;
  int64_t first = 0;
  do { /* runs once for k = 0 too */
    const int64_t end = k - first <= PART ? k : first + PART;
    int64_t j = 0;
    for (; j + columns <= count; j += columns)
      dots((form){rows, columns, bits, pairs}, c, j, a, a_row, first, end, sums, sums_row);
    for (; j < count; j++)
      dots((form){rows, 1, bits, pairs}, c, j, a, a_row, first, end, sums, sums_row);
    first = end;
  } while (first < k);
}

#define ROWS(rows, bits, pairs)                                                                    \
  case rows:                                                                                       \
    all_columns(rows, bits, pairs, c, count, a, a_row, k, sums, sums_row);                         \
    break;
#define DOT(name, bits, pairs)                                                                     \
  static void name(const cpu_quantized_columns *c, int64_t count, const float *a, int64_t a_row,   \
                   int64_t rows, int64_t k, float *sums, int64_t sums_row) {                       \
    switch (rows) {                                                                                \
      ROWS(1, bits, pairs)                                                                         \
      ROWS(2, bits, pairs)                                                                         \
      ROWS(3, bits, pairs)                                                                         \
      ROWS(4, bits, pairs)                                                                         \
      ROWS(5, bits, pairs)                                                                         \
      ROWS(6, bits, pairs)                                                                         \
      ROWS(7, bits, pairs)                                                                         \
      ROWS(8, bits, pairs)                                                                         \
    default: break;                                                                                \
    }                                                                                              \
  }
DOT(dot_pairs, 4, true)
DOT(dot_2, 2, false)
DOT(dot_4, 4, false)
DOT(dot_8, 8, false)

static void dot(const cpu_quantized_columns *c, int64_t count, const float *a, int64_t a_row,
                int64_t rows, int64_t k, float *sums, int64_t sums_row) {
  if (takes_pairs(c->bits, c->block))
    dot_pairs(c, count, a, a_row, rows, k, sums, sums_row);
  else if (c->bits == 4)
    dot_4(c, count, a, a_row, rows, k, sums, sums_row);
  else if (c->bits == 2)
    dot_2(c, count, a, a_row, rows, k, sums, sums_row);
  else
    dot_8(c, count, a, a_row, rows, k, sums, sums_row);
}

const cpu_quantized_table CPU_SYMBOL(cpu_quantized) = {
    .expand = expand, .panel = panel, .group = group, .arrange = arrange, .dot = dot};
#else
const cpu_quantized_table CPU_SYMBOL(cpu_quantized) = {.expand = expand};
#endif
