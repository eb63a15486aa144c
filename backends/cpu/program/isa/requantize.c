/* SPDX-License-Identifier: MIT */
/* From sums in i32 to bytes; core/isa.h says how this file is compiled, requantize_table.h what the
 * loop does. */
#include "requantize_table.h"

#include "math_base.h"
#include "program/isa/tile_loops.h"

/* Added to a number of up to 2^22, leaves the nearest integer, ties to even, in the low bits. */
#define ROUNDING      0x1.8p23f
#define ROUNDING_BITS 0x4b400000
#define LARGEST       0x1p22f

/* One row; which operands have an element for each of x is constant wherever this is inlined.
 * Numbers beyond LARGEST saturate either way. */
CPU_INLINE void requantize_row(const bool offsets, const bool scales, const bool biases,
                               const bool divides, const cpu_requantize_lines *l, const int32_t *x,
                               const int32_t *offset, const float *scale, const float *bias,
                               uint8_t *y) {
  const int64_t count = l->count; /* a local: bytes may alias anything */
  const uint32_t one_offset = (uint32_t)*offset;
  const float one_scale = *scale, one_bias = *bias, divisor = l->divisor;
  const float low = divides || l->low > -LARGEST ? l->low : -LARGEST;
  const float high = divides || l->high < LARGEST ? l->high : LARGEST;
  const int32_t zero = l->zero - ROUNDING_BITS;
  const int32_t least = l->is_signed ? -128 : 0, most = l->is_signed ? 127 : 255;
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    const int32_t sum = (int32_t)((uint32_t)x[i] + (offsets ? (uint32_t)offset[i] : one_offset));
    float value = (float)sum * (scales ? scale[i] : one_scale) + (biases ? bias[i] : one_bias);
    value = low > value ? low : value;
    value = high < value ? high : value;
    if (divides) {
      value /= divisor;
      value = -LARGEST > value ? -LARGEST : value;
      value = LARGEST < value ? LARGEST : value;
    }
    int32_t whole = math_bits_f32(value + ROUNDING) + zero;
    whole = value == value ? whole : 0;
    whole = whole > least ? whole : least;
    whole = whole < most ? whole : most;
    y[i] = (uint8_t)whole;
  }
}

#define REQUANTIZE(name, offsets, scales, biases, divides)                                         \
  static void name(const cpu_requantize_lines *l) {                                                \
    for (int64_t row = 0; row < l->rows; row++)                                                    \
      requantize_row(offsets, scales, biases, divides, l, l->x + row * l->x_row,                   \
                     l->offset + row * l->offset_row, l->scale + row * l->scale_row,               \
                     l->bias + row * l->bias_row, l->y + row * l->y_row);                          \
  }
#define REQUANTIZE_ALL(name, divides)                                                              \
  REQUANTIZE(name##_000, false, false, false, divides)                                             \
  REQUANTIZE(name##_001, false, false, true, divides)                                              \
  REQUANTIZE(name##_010, false, true, false, divides)                                              \
  REQUANTIZE(name##_011, false, true, true, divides)                                               \
  REQUANTIZE(name##_100, true, false, false, divides)                                              \
  REQUANTIZE(name##_101, true, false, true, divides)                                               \
  REQUANTIZE(name##_110, true, true, false, divides)                                               \
  REQUANTIZE(name##_111, true, true, true, divides)
REQUANTIZE_ALL(scaled, false)
REQUANTIZE_ALL(divided, true)

#define REQUANTIZE_NAMES(name)                                                                     \
  {                                                                                                \
    {{name##_000, name##_001}, {name##_010, name##_011}}, {                                        \
      {name##_100, name##_101}, {                                                                  \
        name##_110, name##_111                                                                     \
      }                                                                                            \
    }                                                                                              \
  }

static void run(const cpu_requantize_lines *l) {
  static void (*const loops[2][2][2][2])(const cpu_requantize_lines *) = {
      REQUANTIZE_NAMES(scaled), REQUANTIZE_NAMES(divided)};
  loops[l->divisor != 1][l->offset_along][l->scale_along][l->bias_along](l);
}

const cpu_requantize_table CPU_SYMBOL(cpu_requantize) = {run};
