/* SPDX-License-Identifier: MIT */
/* The places of the elements that are not zero: one pass counts them in blocks, another writes. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/thread_pool.h"
#include "core/device/device.h"
#include "core/tensor/search.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"

enum { BLOCK = 1 << 14, PIECE = 1024 }; /* elements: of a task, and of a part of a row */

/* The bits that no zero has: all but the sign of floats. */
static uint64_t bits_of_values(compute_dtype dtype) {
  const size_t bits = 8 * compute_dtype_size(dtype);
  const bool is_float = dtype_is_float(dtype);
  return UINT64_MAX >> (64 - bits + is_float);
}

/* Runs `statement` for each element number `i`; `filled` is false for a zero. */
#define EACH_WORD(type, statement)                                                                 \
  {                                                                                                \
    const type *words = data, mask = (type)bits;                                                   \
    for (int32_t i = 0; i < count; i++) {                                                          \
      const bool filled = (words[i] & mask) != 0;                                                  \
      statement;                                                                                   \
    }                                                                                              \
  }
#define EACH(dtype, statement)                                                                     \
  switch (compute_dtype_size(dtype)) {                                                             \
  case 1: EACH_WORD(uint8_t, statement) break;                                                     \
  case 2: EACH_WORD(uint16_t, statement) break;                                                    \
  case 4: EACH_WORD(uint32_t, statement) break;                                                    \
  default: EACH_WORD(uint64_t, statement) break;                                                   \
  }

static int32_t count_filled(compute_dtype dtype, const void *data, int32_t count) {
  const uint64_t bits = bits_of_values(dtype);
  int32_t found = 0;
  EACH(dtype, found += filled)
  return found;
}

/* Writes the places of at most PIECE elements. Without branches: they are hard to predict. */
static int32_t find_filled(compute_dtype dtype, const void *data, int32_t count, int32_t *places) {
  const uint64_t bits = bits_of_values(dtype);
  int32_t found = 0;
  EACH(dtype, places[found] = i; found += filled)
  return found;
}

static const uint8_t *element(const nonzero *s, int64_t at) {
  return (const uint8_t *)s->data + (size_t)at * compute_dtype_size(s->dtype);
}

static void count_block(void *argument, int64_t block, int32_t worker) {
  const nonzero *s = argument;
  const int64_t first = block * BLOCK;
  (void)worker;
  s->ends[block] =
      count_filled(s->dtype, element(s, first), (int32_t)min_i64(BLOCK, s->count - first));
}

/* Writes the coordinates of the `count` elements of a row that are at `places` after `at`. */
static void write_columns(const nonzero *s, const int64_t *at, const int32_t *places, int32_t count,
                          int64_t column) {
  const int32_t last = s->shape.rank - 1;
  for (int32_t axis = 0; axis < last; axis++) {
    int64_t *to = s->result + axis * s->found + column;
    for (int32_t i = 0; i < count; i++) to[i] = at[axis];
  }
  int64_t *to = s->result + last * s->found + column;
  for (int32_t i = 0; i < count; i++) to[i] = at[last] + places[i];
}

/* Moves `at` forward by `step`, which ends in its row or right after it. */
static void advance(compute_shape shape, int64_t *at, int64_t step) {
  at[shape.rank - 1] += step;
  for (int32_t axis = shape.rank - 1; axis > 0 && at[axis] == shape_at(shape, axis); axis--) {
    at[axis] = 0;
    at[axis - 1]++;
  }
}

static void write_block(void *argument, int64_t block, int32_t worker) {
  const nonzero *s = argument;
  const int64_t end = min_i64(s->count, (block + 1) * BLOCK);
  const int32_t last = s->shape.rank - 1;
  int64_t first = block * BLOCK, column = block ? s->ends[block - 1] : 0, rest = first;
  int64_t at[COMPUTE_MAX_RANK];
  int32_t places[PIECE];
  (void)worker;
  for (int32_t axis = last; axis >= 0; axis--) {
    at[axis] = rest % shape_at(s->shape, axis);
    rest /= shape_at(s->shape, axis);
  }
  while (first < end) {
    const int64_t piece = min_i64(min_i64(PIECE, end - first), shape_at(s->shape, last) - at[last]);
    const int32_t found = find_filled(s->dtype, element(s, first), (int32_t)piece, places);
    write_columns(s, at, places, found, column);
    column += found;
    first += piece;
    advance(s->shape, at, piece);
  }
}

compute_status nonzero_count(const compute_context *context, nonzero *s) {
  if (s->shape.rank == 0) s->shape = COMPUTE_SHAPE(1);
  s->count = shape_count(s->shape);
  s->blocks = (s->count + BLOCK - 1) / BLOCK;
  s->found = 0;
  s->ends = base_allocate((uint64_t)s->blocks, sizeof *s->ends);
  if (!s->ends) return COMPUTE_ERROR_OUT_OF_MEMORY;
  thread_pool_run(context->threads, s->blocks, count_block, s);
  for (int64_t i = 0; i < s->blocks; i++) s->ends[i] = s->found += s->ends[i];
  return COMPUTE_OK;
}

void nonzero_write(const compute_context *context, nonzero *s, int64_t *result) {
  s->result = result;
  thread_pool_run(context->threads, s->blocks, write_block, s);
}

void nonzero_release(nonzero *s) {
  base_release(s->ends);
  s->ends = NULL;
}
