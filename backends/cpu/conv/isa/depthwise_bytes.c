/* SPDX-License-Identifier: MIT */
/* Depthwise convolution of bytes, channels last (loop: depthwise_bytes_table.h; compilation:
 * core/isa.h).
 *
 * The three bytes of a channel in a column of the window become one word with a fourth byte of 0.
 * So a dot product of four bytes adds a whole column to the sums. Bytes are interleaved within
 * 16-byte lanes, which makes four vectors of 16 words for 64 channels: quarter k has the channels
 * 16 i + 4 k … 16 i + 4 k + 3 in lane i. Weights, offsets, scales and biases have the same order.
 * Packing the results to bytes, again within lanes, restores the order of the channels.
 *
 * The sums of some neighbouring pixels stay in registers, so that each column is loaded and
 * interleaved once for all its windows. With 32 channels, two neighbouring pixels fill a vector. */
#include "depthwise_bytes_table.h"

#if defined(__AVX512VNNI__)
#include <string.h>

#include "program/isa/requantize_vector.h"

enum {
  QUARTERS = 4,
  MOST_PIXELS = 4,
  CHANNELS = CPU_DEPTHWISE_BYTES,
  HALF = CHANNELS / 2,
  COLUMN = 4 * CHANNELS
};

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* ---- The filter ------------------------------------------------------------------------------ */

/* The filter has blocks of 64 channels. The last block ends with the last channel, and may overlap
 * the block before. */
static int64_t block_count(int64_t channels) {
  return (channels + CHANNELS - 1) / CHANNELS;
}

static int64_t first_of(int64_t channels, int64_t block) {
  const int64_t last = channels > CHANNELS ? channels - CHANNELS : 0;
  return block * CHANNELS < last ? block * CHANNELS : last;
}

static int64_t packed_bytes(int64_t channels) {
  return block_count(channels) * 3 * COLUMN;
}

/* Orders weights by block, column, quarter; half a block is stored twice. */
static void pack(int64_t channels, const int8_t *filter, int64_t row, int64_t column,
                 int64_t channel, int8_t *packed) {
  memset(packed, 0, (size_t)packed_bytes(channels));
  for (int64_t block = 0; block < block_count(channels); block++, packed += 3 * COLUMN) {
    const int64_t first = first_of(channels, block);
    for (int64_t i = 0; i < CHANNELS && (first + i < channels || channels == HALF); i++) {
      int8_t *to = packed + i % 16 / 4 * CHANNELS + (i / 16 * 4 + i % 4) * 4;
      for (int64_t s = 0; s < 3; s++)
        for (int64_t r = 0; r < 3; r++)
          to[s * COLUMN + r] = filter[r * row + s * column + (first + i) % channels * channel];
    }
  }
}

/* ---- Results --------------------------------------------------------------------------------- */

/* The constants of a block of channels, or of half a block for two pixels. */
typedef struct block_numbers {
  requantize_column quarter[QUARTERS];
  requantize_numbers all;
  __mmask64 exist;
  bool pairs;
} block_numbers;

/* Words of the channels from `first` on, in the order of quarters; or one word, repeated. */
CPU_INLINE void take_quarters(const void *from, bool along, int64_t first, const block_numbers *b,
                              __m512i quarter[QUARTERS]) {
  const int32_t *words = from;
  if (!along) {
    for (int k = 0; k < QUARTERS; k++) quarter[k] = _mm512_set1_epi32(*words);
    return;
  }
  __m512i lines[4], pairs[4];
  for (int i = 0; i < 4; i++)
    lines[i] = _mm512_maskz_loadu_epi32((__mmask16)(b->exist >> 16 * i),
                                        words + first + 16 * (b->pairs ? i % 2 : i));
  for (int i = 0; i < 2; i++) {
    pairs[i] = _mm512_shuffle_i32x4(lines[2 * i], lines[2 * i + 1], _MM_SHUFFLE(1, 0, 1, 0));
    pairs[2 + i] = _mm512_shuffle_i32x4(lines[2 * i], lines[2 * i + 1], _MM_SHUFFLE(3, 2, 3, 2));
  }
  for (int i = 0; i < 2; i++) {
    quarter[2 * i] = _mm512_shuffle_i32x4(pairs[2 * i], pairs[2 * i + 1], _MM_SHUFFLE(2, 0, 2, 0));
    quarter[2 * i + 1] =
        _mm512_shuffle_i32x4(pairs[2 * i], pairs[2 * i + 1], _MM_SHUFFLE(3, 1, 3, 1));
  }
}

/* Returns `false` if numbers are too large. */
static bool take_block(const cpu_requantize_lines *l, int64_t first, int64_t channels, bool pairs,
                       block_numbers *b) {
  const int64_t count = channels - first;
  b->exist = pairs || count >= CHANNELS ? ~(__mmask64)0 : ((__mmask64)1 << count) - 1;
  b->pairs = pairs;
  b->all = requantize_take_numbers(l);
  __m512i offset[QUARTERS], scale[QUARTERS], bias[QUARTERS];
  take_quarters(l->offset, l->offset_along, first, b, offset);
  take_quarters(l->scale, l->scale_along, first, b, scale);
  take_quarters(l->bias, l->bias_along, first, b, bias);
  for (int k = 0; k < QUARTERS; k++) {
    b->quarter[k] =
        (requantize_column){requantize_offset(b->all.sign, offset[k]),
                            _mm512_castsi512_ps(scale[k]), _mm512_castsi512_ps(bias[k])};
    if (!requantize_are_moderate(&b->quarter[k], &b->all)) return false;
  }
  return true;
}

/* The quotients of a pixel as bytes, in the order of channels. */
CPU_INLINE __m512i pack_pixel(const requantize_store *n, const __m512i w[QUARTERS]) {
  const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(w[0], w[1]), n->zero);
  const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(w[2], w[3]), n->zero);
  const __m512i bytes = _mm512_packus_epi16(low, high);
  return _mm512_xor_si512(_mm512_min_epu8(n->most, _mm512_max_epu8(n->least, bytes)), n->flip);
}

/* ---- Windows --------------------------------------------------------------------------------- */

/* The rows that a tile of pixels reads. A row outside the data is one column of zeros, repeated. */
typedef struct tile_source {
  const uint8_t *row[3];
  int64_t pixel[3];
  int64_t width;
  const int8_t *weights;
} tile_source;

/* Loads a column of the data and interleaves its rows. */
CPU_INLINE void load_column(const bool whole, const tile_source *t, int64_t column, __mmask64 exist,
                            __m512i words[QUARTERS]) {
  __m512i row[3];
  for (int r = 0; r < 3; r++) {
    const uint8_t *from = t->row[r] + column * t->pixel[r];
    row[r] = whole ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi8(exist, from);
  }
  const __m512i low = _mm512_unpacklo_epi8(row[0], row[1]);
  const __m512i high = _mm512_unpackhi_epi8(row[0], row[1]);
  const __m512i third = _mm512_unpacklo_epi8(row[2], _mm512_setzero_si512());
  const __m512i fourth = _mm512_unpackhi_epi8(row[2], _mm512_setzero_si512());
  words[0] = _mm512_unpacklo_epi16(low, third);
  words[1] = _mm512_unpackhi_epi16(low, third);
  words[2] = _mm512_unpacklo_epi16(high, fourth);
  words[3] = _mm512_unpackhi_epi16(high, fourth);
}

/* Constants after inlining of the functions below. */
typedef struct tile_form {
  int pixels, stride;
  bool inside; /* all columns are in the data */
  bool whole;  /* all channels exist */
  bool pairs;  /* a pixel is two of half a block, with stride 2 */
} tile_form;

/* The part of a pair of pixels that is inside the data. */
CPU_INLINE __mmask64 pair_exists(const tile_source *t, int64_t column) {
  const __mmask64 low = ((__mmask64)1 << HALF) - 1;
  return (column >= 0 && column < t->width ? low : 0) |
         (column >= -1 && column < t->width - 1 ? ~low : 0);
}

/* Computes the sums of some pixels; the first pixel's window begins in column `column`. */
CPU_INLINE void add_columns(const tile_form f, const tile_source *t, const block_numbers *b,
                            int64_t column, __m512i sum[MOST_PIXELS][QUARTERS]) {
  UNROLL
  for (int i = 0; i < f.pixels; i++) {
    UNROLL
    for (int k = 0; k < QUARTERS; k++) sum[i][k] = b->quarter[k].offset;
  }
  UNROLL
  for (int j = 0; j < (f.pixels - 1) * f.stride + 3; j++) {
    if (!f.inside && !f.pairs && (column + j < 0 || column + j >= t->width)) continue;
    __m512i words[QUARTERS];
    load_column(f.whole && (f.inside || !f.pairs), t, column + j,
                f.pairs ? pair_exists(t, column + j) : b->exist, words);
    UNROLL
    for (int s = 0; s < 3; s++) {
      if (j < s || (j - s) % f.stride != 0 || (j - s) / f.stride >= f.pixels) continue;
      UNROLL
      for (int k = 0; k < QUARTERS; k++) {
        const __m512i weight = _mm512_loadu_si512(t->weights + s * COLUMN + k * CHANNELS);
        __m512i *to = &sum[(j - s) / f.stride][k];
        *to = _mm512_dpbusd_epi32(*to, words[k], weight);
      }
    }
  }
}

CPU_INLINE void make_tile(const tile_form f, const tile_source *t, const block_numbers *b,
                          int64_t column, uint8_t *y, int64_t y_pixel) {
  __m512i sum[MOST_PIXELS][QUARTERS];
  const requantize_numbers n = b->all;
  add_columns(f, t, b, column, sum);
  UNROLL
  for (int k = 0; k < QUARTERS; k++) {
    const requantize_column c = b->quarter[k];
    UNROLL
    for (int i = 0; i < f.pixels; i++) {
      const __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[i][k]), c.scale);
      sum[i][k] = requantize_divide(_mm512_add_ps(value, c.bias), &n);
    }
  }
  UNROLL
  for (int i = 0; i < f.pixels; i++) {
    const __m512i bytes = pack_pixel(&n.stored, sum[i]);
    if (f.whole)
      _mm512_storeu_si512(y + i * y_pixel, bytes);
    else
      _mm512_mask_storeu_epi8(y + i * y_pixel, b->exist, bytes);
  }
}

typedef void (*pixels_function)(int64_t pixels, const tile_source *t, const block_numbers *b,
                                int64_t column, uint8_t *y, int64_t y_pixel);

#define TILE_CASE(count, ...)                                                                      \
  case count:                                                                                      \
    make_tile((tile_form){count, __VA_ARGS__}, t, b, column, y, y_pixel);                          \
    break;
#define PIXELS(name, ...)                                                                          \
  static void name(int64_t pixels, const tile_source *t, const block_numbers *b, int64_t column,   \
                   uint8_t *y, int64_t y_pixel) {                                                  \
    switch (pixels) {                                                                              \
      TILE_CASE(1, __VA_ARGS__)                                                                    \
      TILE_CASE(2, __VA_ARGS__)                                                                    \
      TILE_CASE(3, __VA_ARGS__)                                                                    \
      TILE_CASE(4, __VA_ARGS__)                                                                    \
    }                                                                                              \
  }
PIXELS(whole_inside_1, 1, true, true, false)
PIXELS(whole_edge_1, 1, false, true, false)
PIXELS(whole_inside_2, 2, true, true, false)
PIXELS(whole_edge_2, 2, false, true, false)
PIXELS(part_inside_1, 1, true, false, false)
PIXELS(part_edge_1, 1, false, false, false)
PIXELS(part_inside_2, 2, true, false, false)
PIXELS(part_edge_2, 2, false, false, false)

PIXELS(pairs_edge, 2, false, true, true)

/* By stride, inside, whole. */
static const pixels_function functions[2][2][2] = {
    {{part_edge_1, whole_edge_1}, {part_inside_1, whole_inside_1}},
    {{part_edge_2, whole_edge_2}, {part_inside_2, whole_inside_2}}};

/* Computes all pixels of a row, by tiles of nearly equal width. */
static void make_row(const cpu_depthwise_bytes_band *l, const tile_source *t,
                     const block_numbers *b, uint8_t *y) {
  const int64_t tiles = (l->count + MOST_PIXELS - 1) / MOST_PIXELS, stride = l->stride[1];
  const bool whole = b->exist == ~(__mmask64)0;
  int64_t q = 0;
  for (int64_t tile = 0; tile < tiles; tile++) {
    const int64_t pixels = l->count / tiles + (tile < l->count % tiles);
    const int64_t column = q * stride - l->padding[1];
    const bool inside = column >= 0 && column + (pixels - 1) * stride + 3 <= l->width;
    functions[stride - 1][inside][whole](pixels, t, b, column, y + q * l->y_pixel, l->y_pixel);
    q += pixels;
  }
}

/* The same for pairs of pixels. */
static void make_row_of_pairs(const cpu_depthwise_bytes_band *l, const tile_source *t,
                              const block_numbers *b, uint8_t *y) {
  const int64_t count = l->count / 2, tiles = (count + MOST_PIXELS - 1) / MOST_PIXELS;
  int64_t q = 0;
  for (int64_t tile = 0; tile < tiles; tile++) {
    const int64_t pixels = count / tiles + (tile < count % tiles);
    const int64_t column = 2 * q - l->padding[1];
    const bool inside = column >= 0 && column + 2 * pixels + 2 <= l->width;
    (inside ? whole_inside_2 : pairs_edge)(pixels, t, b, column, y + q * CHANNELS, CHANNELS);
    q += pixels;
  }
}

/* `true` if neighbouring pixels are contiguous and fill vectors. */
static bool has_pairs(const cpu_depthwise_bytes_band *l) {
  return l->channels == HALF && l->stride[1] == 1 && l->pixel == HALF && l->y_pixel == HALF &&
         l->count % 2 == 0;
}

/* Channel blocks are the outer loop, so that their constants are loaded once. */
static bool run(const cpu_depthwise_bytes_band *l) {
  static const uint8_t none[CHANNELS];
  const bool pairs = has_pairs(l);
  for (int64_t block = 0; block < block_count(l->channels); block++) {
    const int64_t first = first_of(l->channels, block);
    block_numbers b;
    if (!take_block(l->makes, first, l->channels, pairs, &b)) return false;
    for (int64_t i = 0; i < l->rows; i++) {
      tile_source t = {.width = l->width, .weights = l->weights + block * 3 * COLUMN};
      for (int r = 0; r < 3; r++) {
        const int64_t row = (l->first + i) * l->stride[0] - l->padding[0] + r;
        const bool exists = row >= 0 && row < l->height;
        t.row[r] = exists ? l->data + row * l->row + first : none;
        t.pixel[r] = exists ? l->pixel : 0;
      }
      (pairs ? make_row_of_pairs : make_row)(l, &t, &b, l->y + i * l->y_row + first);
    }
  }
  return true;
}

extern const cpu_depthwise_bytes_table CPU_VARIANT_SYMBOL(cpu_depthwise_bytes);
const cpu_depthwise_bytes_table CPU_VARIANT_SYMBOL(cpu_depthwise_bytes) = {packed_bytes, pack, run};
#endif
