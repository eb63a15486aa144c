/* SPDX-License-Identifier: MIT */
/* Emulates AMX's instructions by Intel's description (Software Developer's Manual, volume 2), as
 * far as gemm/isa/gemm_amx.h uses them. An operation that a processor would refuse ends the
 * test. */
#include "amx_emulated.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TILES = 8, MOST_ROWS = 16, MOST_BYTES = 64 };

typedef struct tile_file {
  unsigned char palette, reserved[15];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tile_file;

static _Thread_local tile_file file;
static _Thread_local unsigned char data[TILES][MOST_ROWS][MOST_BYTES];

static void require(bool right, const char *what) {
  if (right) return;
  fprintf(stderr, "AMX: a processor would refuse this: %s\n", what);
  abort();
}

void amx_configure(const void *shapes) {
  static const tile_file none;
  memcpy(&file, shapes, sizeof file);
  require(file.palette == 1, "palette");
  require(memcmp(file.reserved, none.reserved, sizeof none.reserved) == 0, "reserved bytes");
  for (int t = 0; t < 16; t++) {
    require(t < TILES || (file.rows[t] == 0 && file.row_bytes[t] == 0), "more than 8 tiles");
    require(file.rows[t] <= MOST_ROWS && file.row_bytes[t] <= MOST_BYTES, "a tile's size");
    require((file.rows[t] == 0) == (file.row_bytes[t] == 0), "rows without columns");
  }
  memset(data, 0, sizeof data);
}

void amx_release(void) {
  memset(&file, 0, sizeof file);
}

static void require_tile(int tile) {
  require(file.palette == 1 && file.rows[tile] > 0, "a tile without a shape");
}

void amx_zero(int tile) {
  require_tile(tile);
  memset(data[tile], 0, sizeof data[tile]);
}

void amx_load(int tile, const void *from, int64_t step) {
  amx_zero(tile);
  for (int i = 0; i < file.rows[tile]; i++)
    memcpy(data[tile][i], (const char *)from + i * step, file.row_bytes[tile]);
}

void amx_store(int tile, void *to, int64_t step) {
  require_tile(tile);
  for (int i = 0; i < file.rows[tile]; i++)
    memcpy((char *)to + i * step, data[tile][i], file.row_bytes[tile]);
}

uint32_t amx_add_dot(uint32_t sum, uint32_t a, uint32_t b) {
  for (int i = 0; i < 4; i++)
    sum += (uint32_t)((uint8_t)(a >> 8 * i) * (int8_t)(uint8_t)(b >> 8 * i));
  return sum;
}

static void multiply(int sums, int a, int b,
                     uint32_t (*add)(uint32_t, const void *, const void *, int)) {
  require_tile(sums), require_tile(a), require_tile(b);
  require(sums != a && sums != b && a != b, "the same tile twice");
  require(file.rows[sums] == file.rows[a] && file.row_bytes[sums] == file.row_bytes[b] &&
              file.row_bytes[a] == 4 * file.rows[b] && file.row_bytes[sums] % 4 == 0,
          "shapes that do not fit");
  for (int i = 0; i < file.rows[sums]; i++)
    for (int j = 0; j < file.row_bytes[sums]; j += 4) {
      uint32_t sum;
      memcpy(&sum, data[sums][i] + j, sizeof sum);
      sum = add(sum, data[a][i], data[b][0] + j, file.rows[b]);
      memcpy(data[sums][i] + j, &sum, sizeof sum);
    }
}

/* Copies words next to each other, and one below the other. */
static uint32_t add_bytes(uint32_t sum, const void *a, const void *b, int words) {
  for (int k = 0; k < words; k++) {
    uint32_t x, y;
    memcpy(&x, (const char *)a + 4 * k, sizeof x);
    memcpy(&y, (const char *)b + MOST_BYTES * k, sizeof y);
    sum = amx_add_dot(sum, x, y);
  }
  return sum;
}

static float without_denormals(float x) {
  return fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x;
}

static float from_bf16(const void *at) {
  unsigned char bytes[4] = {0};
  float x;
  memcpy(bytes + 2, at, 2);
  memcpy(&x, bytes, sizeof x);
  return without_denormals(x);
}

static uint32_t add_bf16(uint32_t sum, const void *a, const void *b, int words) {
  float part[2] = {0, 0}, total;
  for (int k = 0; k < words; k++)
    for (int i = 0; i < 2; i++)
      part[i] =
          without_denormals(fmaf(from_bf16((const char *)a + 4 * k + 2 * i),
                                 from_bf16((const char *)b + MOST_BYTES * k + 2 * i), part[i]));
  memcpy(&total, &sum, sizeof total);
  total = without_denormals(without_denormals(total) + without_denormals(part[0] + part[1]));
  memcpy(&sum, &total, sizeof sum);
  return sum;
}

void amx_multiply_bytes(int sums, int a, int b) {
  multiply(sums, a, b, add_bytes);
}

void amx_multiply_bf16(int sums, int a, int b) {
  multiply(sums, a, b, add_bf16);
}
