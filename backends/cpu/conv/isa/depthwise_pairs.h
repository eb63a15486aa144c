/* SPDX-License-Identifier: MIT */
/* Windows of bf16 in depthwise convolution, 32 channels at a time, with AVX512-BF16. A part of
 * depthwise.c.
 *
 * Words of 32 bits hold two channels. Clearing the lower half gives the upper channel as f32; a
 * shift gives the lower one. So widening takes one instruction per vector of sums: one vector has
 * the even channels, the other the odd ones. Sums and their order are the same as in the other
 * loops, and so are the results. */
#ifndef CPU_DEPTHWISE_PAIRS_H
#define CPU_DEPTHWISE_PAIRS_H

typedef floats channel_pairs[2]; /* even and odd channels */

INLINE void load_pairs(const uint16_t *from, channel_pairs x) {
  const __m512i both = _mm512_loadu_si512((const void *)from);
  x[0] = (floats)_mm512_slli_epi32(both, 16);
  x[1] = (floats)_mm512_and_si512(both, _mm512_set1_epi32(-0x10000));
}

INLINE void load_weight_pairs(const float *from, channel_pairs x) {
  const floats low = *(const floats_at *)from, high = *(const floats_at *)(from + LANES);
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  x[0] = (floats)_mm512_permutex2var_ps(low, even, high);
  x[1] = (floats)_mm512_permutex2var_ps(low, odd, high);
}

/* Rounds by bits: the conversion instruction flushes denormals. This case is rare. */
static __attribute__((noinline)) void round_pairs(uint16_t *to, floats even, floats odd) {
  const unsigned_words low = round_bf16(even) >> 16, high = round_bf16(odd) & 0xffff0000;
  _mm512_storeu_si512((void *)to, (__m512i)(low | high));
}

INLINE void store_pairs(uint16_t *to, const channel_pairs x) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(x[1], x[0]);
  _mm512_storeu_si512((void *)to, _mm512_permutexvar_epi16(order, halves));
}

/* Finishes and stores the sums of the results from q on. `zero`, which makes zeros positive, is
 * added to the bias: a sum is negative zero only if both addends are. */
INLINE void put_pairs(const int pixels, const cpu_depthwise_line *l,
                      const cpu_depthwise_finish *finish, int64_t q, int64_t c,
                      channel_pairs *sum) {
  const floats none = {0}, low = finish->low - none, zero = finish->zero - none,
               high = finish->high - none;
  uint16_t *to = (uint16_t *)l->sums + q * l->sums_pixel + c;
  const int64_t step = l->sums_pixel;
  channel_pairs bias;
  load_pairs((const uint16_t *)finish->bias + c, bias);
  __mmask16 lost = 0;
  UNROLL
  for (int h = 0; h < 2; h++) {
    bias[h] += zero;
    UNROLL
    for (int i = 0; i < pixels; i++) {
      const floats x = (floats)CPU_AT_LEAST(low, sum[i][h] + bias[h]);
      sum[i][h] = (floats)CPU_AT_MOST(high, x);
      lost = _kor_mask16(lost, _mm512_fpclass_ps_mask(sum[i][h], DENORMAL));
    }
  }
  if (lost) {
    UNROLL
    for (int i = 0; i < pixels; i++) round_pairs(to + i * step, sum[i][0], sum[i][1]);
    return;
  }
  UNROLL
  for (int i = 0; i < pixels; i++) store_pairs(to + i * step, sum[i]);
}

/* Like window_bf16, for the 32 channels from c on, finished. */
INLINE void window_pairs(const int pixels, const int taps, const int stride,
                         const cpu_depthwise_line *l, const cpu_depthwise_finish *finish, int64_t q,
                         int64_t c) {
  const float *weights = (const float *)l->weights + c;
  const int64_t at = (q * stride - l->padding) * l->pixel + c;
  channel_pairs sum[MOST_PIXELS];
  UNROLL
  for (int i = 0; i < pixels; i++) sum[i][0] = sum[i][1] = (floats){0};
  for (int64_t r = 0; r < l->filter_rows; r++, weights += taps * l->weights_tap) {
    if (!l->rows[r]) continue;
    const uint16_t *from = (const uint16_t *)l->rows[r] + at;
    channel_pairs weight[MOST_TAPS];
    UNROLL
    for (int s = 0; s < taps; s++) load_weight_pairs(weights + s * l->weights_tap, weight[s]);
    UNROLL
    for (int j = 0; j < (pixels - 1) * stride + taps; j++, from += l->pixel) {
      channel_pairs x;
      load_pairs(from, x);
      UNROLL
      for (int s = 0; s < taps; s++) {
        if (j < s || (j - s) % stride != 0 || (j - s) / stride >= pixels) continue;
        floats *to = sum[(j - s) / stride];
        to[0] = MULTIPLY_ADD_FLOATS(weight[s][0], x[0], to[0]);
        to[1] = MULTIPLY_ADD_FLOATS(weight[s][1], x[1], to[1]);
      }
    }
  }
  put_pairs(pixels, l, finish, q, c, sum);
}

#endif
