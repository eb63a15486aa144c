/* SPDX-License-Identifier: MIT */
/* The loop of depthwise convolution of bytes with 3 × 3 filters, channels last, which requantizes
 * its sums to bytes directly: for machines with dot products of four bytes. */
#ifndef CPU_ISA_DEPTHWISE_BYTES_TABLE_H
#define CPU_ISA_DEPTHWISE_BYTES_TABLE_H

#include "program/isa/requantize_table.h"

/* Contiguous channels per vector of the data. */
#define CPU_DEPTHWISE_BYTES 64

/* Some rows of results of an image. Data are u8, filters i8. Steps are in bytes. */
typedef struct cpu_depthwise_bytes_band {
  const uint8_t *data; /* row and column 0 */
  int64_t row, pixel;  /* bytes between rows and pixels of the data */
  int64_t height, width;
  int64_t stride[2], padding[2];     /* rows, columns; stride[1] is 1 or 2 */
  const int8_t *weights;             /* packed */
  int64_t first, rows, count;        /* result rows from `first` on; results per row */
  int64_t channels;                  /* at least half of CPU_DEPTHWISE_BYTES */
  const cpu_requantize_lines *makes; /* has `blocks`; offset, scale and bias of channel 0 */
  uint8_t *y;                        /* row `first` */
  int64_t y_row, y_pixel;
} cpu_depthwise_bytes_band;

typedef struct cpu_depthwise_bytes_table {
  /* packed_bytes: bytes of the packed filter for `channels` channels. pack: packs the filter, with
   * weight (r, s) of channel c at filter[r * row + s * column + c * channel]. */
  int64_t (*packed_bytes)(int64_t channels);
  void (*pack)(int64_t channels, const int8_t *filter, int64_t row, int64_t column, int64_t channel,
               int8_t *packed);
  /* Returns `false` if numbers are too large; the bytes written so far are then invalid. */
  bool (*run)(const cpu_depthwise_bytes_band *band);
} cpu_depthwise_bytes_table;

extern const cpu_depthwise_bytes_table cpu_depthwise_bytes_dots_avx512; /* if CPU_DOTS_AVX512 */

#endif
