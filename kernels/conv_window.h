/* SPDX-License-Identifier: MIT */
/* Positions and terms of a convolution, shared by all its kernels.
 *
 * A sum has a channel and a position; its terms are the products that are added up. A position has
 * three digits m0, m1, m2, a term k0, k1, k2. Their element of the data is at
 *
 *   m0 · data_m0 + k0 · data_k0 + h · data_h + v · data_v
 *   h = m1 · h_m + k1 · h_k + H_FIRST,  v = m2 · v_m + k2 · v_k + V_FIRST
 *
 * and is 0 unless 0 ≤ h < height and 0 ≤ v < width. Their element of the weight is at
 *
 *   channel · weight_channel + k0 · weight_k0 + k1 · weight_k1 + k2 · weight_k2 + WEIGHT_FIRST.
 *
 * If a gradient of the data has strides (PHASED), the rows and columns of the result that differ by
 * whole strides form a phase: the same subset of filter taps hits all of them. Each phase is a
 * convolution of stride 1, whose sizes are computed when the kernel reaches it.
 *
 * TERM_CHANNELS_FAST: k0 is the fastest digit of a term, otherwise k2. */
//@ conv_window
#define OUTSIDE (-(INDEX)(1 << 30))

#if PHASED
typedef struct window_phase {
  INDEX count, taps; /* result rows in this phase; taps that hit them */
  INDEX tap, first;  /* the first of these taps; the data's row for it and the first result row */
} window_phase;

/* `tap_step`: the distance between taps that hit the same rows. */
DEVICE window_phase find_phase(INDEX phase, INDEX size, INDEX stride, INDEX padding, INDEX dilation,
                               INDEX filter, INDEX tap_step) {
  window_phase found;
  const INDEX place = phase + padding;
  INDEX tap = 0;
  while (tap < tap_step && (place - tap * dilation) % stride != 0) tap++;
  found.tap = tap;
  found.taps = tap < tap_step && tap < filter ? (filter - tap + tap_step - 1) / tap_step : 0;
  found.count = phase < size ? (size - phase + stride - 1) / stride : 0;
  found.first = found.taps > 0 ? (place - tap * dilation) / stride : 0;
  return found;
}

#define BEGIN_WINDOW                                                                               \
  const window_phase phase_h =                                                                        \
      find_phase(batch_c1, shape.size_h, shape.stride_h, shape.padding_h, shape.dilation_h,        \
                 shape.filter_h, shape.tap_step_h);                                                \
  const window_phase phase_v =                                                                      \
      find_phase(batch_c2, shape.size_v, shape.stride_v, shape.padding_v, shape.dilation_v,        \
                 shape.filter_v, shape.tap_step_v);                                                \
  const INDEX positions = shape.m0 * phase_h.count * phase_v.count;                                    \
  const INDEX terms = shape.k0 * phase_h.taps * phase_v.taps;                                          \
  const INDEX weight_first =                                                                       \
      batch_weight + phase_h.tap * shape.weight_tap_h + phase_v.tap * shape.weight_tap_v;
#define POSITIONS    positions
#define TERMS        terms
#define H_FIRST      phase_h.first
#define V_FIRST      phase_v.first
#define WEIGHT_FIRST weight_first
#define SIZE_M1      phase_h.count
#define SIZE_M2      phase_v.count
#define SIZE_K1      phase_h.taps
#define SIZE_K2      phase_v.taps
#define OVER_M1(x)   ((x) / phase_h.count)
#define OVER_M2(x)   ((x) / phase_v.count)
#define OVER_K1(x)   ((x) / phase_h.taps)
#define OVER_K2(x)   ((x) / phase_v.taps)
#else
#define BEGIN_WINDOW
#define POSITIONS    shape.positions
#define TERMS        shape.terms
#define H_FIRST      shape.h_first
#define V_FIRST      shape.v_first
#define WEIGHT_FIRST batch_weight
#define SIZE_M1      shape.m1
#define SIZE_M2      shape.m2
#define SIZE_K1      shape.k1
#define SIZE_K2      shape.k2
#define OVER_M1(x)   DIVIDE(x, shape.m1)
#define OVER_M2(x)   DIVIDE(x, shape.m2)
#define OVER_K1(x)   DIVIDE(x, shape.k1)
#define OVER_K2(x)   DIVIDE(x, shape.k2)
#endif

/* Declares the digits of a position or term, which must exist. */
#define SPLIT_POSITION(position)                                                                   \
  const INDEX line_ = OVER_M2(position), m2 = (position)-line_ * SIZE_M2;                          \
  const INDEX m0 = OVER_M1(line_), m1 = line_ - m0 * SIZE_M1;
#if TERM_CHANNELS_FAST
#define SPLIT_TERM(term)                                                                           \
  const INDEX tap_ = DIVIDE(term, shape.k0), k0 = (term)-tap_ * shape.k0;                          \
  const INDEX k1 = OVER_K2(tap_), k2 = tap_ - k1 * SIZE_K2;
#else
#define SPLIT_TERM(term)                                                                           \
  const INDEX tap_ = OVER_K2(term), k2 = (term)-tap_ * SIZE_K2;                                    \
  const INDEX k0 = OVER_K1(tap_), k1 = tap_ - k0 * SIZE_K1;
#endif

/* The rows, columns and offsets in the data for these digits. */
#define H_OF_POSITION        (m1 * shape.h_m + H_FIRST)
#define V_OF_POSITION        (m2 * shape.v_m + V_FIRST)
#define H_OF_TERM            (k1 * shape.h_k)
#define V_OF_TERM            (k2 * shape.v_k)
#define DATA_AT(far, h, v)   ((far) + (h)*shape.data_h + (v)*DATA_V)
#define WEIGHT_OF_TERM       (k0 * shape.weight_k0 + k1 * shape.weight_k1 + k2 * WEIGHT_K2)
#define IS_INSIDE(h, v)      ((h) >= 0 && (h) < shape.height && (v) >= 0 && (v) < shape.width)

/* One sum by one item, at POSITION and CHANNEL. */
//@ conv_sum
SPLIT_POSITION(POSITION)
const INDEX h0 = H_OF_POSITION, v0 = V_OF_POSITION;
const INDEX far = batch_data + m0 * shape.data_m0;
const INDEX near = WEIGHT_FIRST + CHANNEL * shape.weight_channel;
SUM_PARTS_BEGIN(1)
for (INDEX k0 = 0; k0 < shape.k0; k0++) {
  for (INDEX k1 = 0; k1 < SIZE_K1; k1++) {
    SUM_PARTS_ADD(1, sum, SIZE_K2)
    const INDEX h = h0 + H_OF_TERM;
    if (h < 0 || h >= shape.height) continue;
    for (INDEX k2 = 0; k2 < SIZE_K2; k2++) {
      const INDEX v = v0 + V_OF_TERM;
      if (v < 0 || v >= shape.width) continue;
      sum = SUM_MAD(LOAD_DATA(DATA_AT(far + k0 * shape.data_k0, h, v)),
                    LOAD_WEIGHT(near + WEIGHT_OF_TERM), sum);
    }
  }
}
SUM_PARTS_END(1, sum)
