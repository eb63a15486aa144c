/* SPDX-License-Identifier: MIT */
/* The loop of depthwise convolution of bytes with filters of 3 x 3, channels last, whose sums
 * become bytes at once: for machines with dot products of four bytes. */
#ifndef CPU_ISA_DEPTHWISE_BYTES_TABLE_H
#define CPU_ISA_DEPTHWISE_BYTES_TABLE_H

#include "program/isa/requantize_table.h"

/* Channels that lie side by side in vectors of the data. */
#define CPU_DEPTHWISE_BYTES 64

/* Some rows of results of an image. Data are u8, filters i8. Steps are in bytes. */
typedef struct cpu_depthwise_bytes_band {
  const uint8_t *data; /* row and column 0 */
  int64_t row, pixel;  /* of the data, from one to the next */
  int64_t height, width;
  int64_t stride[2], padding[2];     /* rows, columns; stride[1] is 1 or 2 */
  const int8_t *weights;             /* packed */
  int64_t first, rows, count;        /* rows of results from `first` on; results of each */
  int64_t channels;                  /* at least half of CPU_DEPTHWISE_BYTES */
  const cpu_requantize_lines *makes; /* `blocks`; offset, scale, bias of the first channel */
  uint8_t *y;                        /* row `first` */
  int64_t y_row, y_pixel;
} cpu_depthwise_bytes_band;

typedef struct cpu_depthwise_bytes_table {
  /* Bytes that `channels` channels of a filter need, packed; and packs it: weight (r, s) of channel
   * c is at filter[r * row + s * column + c * channel]. */
  int64_t (*packed_bytes)(int64_t channels);
  void (*pack)(int64_t channels, const int8_t *filter, int64_t row, int64_t column, int64_t channel,
               int8_t *packed);
  /* False, with bytes that are to be overwritten, where numbers are too large. */
  bool (*run)(const cpu_depthwise_bytes_band *band);
} cpu_depthwise_bytes_table;

extern const cpu_depthwise_bytes_table cpu_depthwise_bytes_dots_avx512; /* if CPU_DOTS_AVX512 */

#endif
