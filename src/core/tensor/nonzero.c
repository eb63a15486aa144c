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

/* Elements: of a task, of a part of a row, and of rows that share parts. */
enum { BLOCK = 1 << 14, PIECE = 1024, SHORT_ROW = 64 };

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

/* The same for elements of several rows. Changes `places`. */
static void write_rows(const nonzero *s, const int64_t *at, int32_t *places, int32_t count,
                       int64_t column) {
  for (int32_t axis = s->shape.rank - 1; axis >= 0; axis--) {
    const int64_t size = shape_at(s->shape, axis), start = at[axis];
    int64_t *to = s->result + axis * s->found + column;
    if (axis == 0) {
      for (int32_t i = 0; i < count; i++) to[i] = start + places[i];
    } else if (size > INT32_MAX / 2) { /* more than `places`: the next position at most */
      for (int32_t i = 0; i < count; i++) {
        const bool next = start + places[i] >= size;
        to[i] = start + places[i] - (next ? size : 0);
        places[i] = next;
      }
    } else {
      for (int32_t i = 0; i < count; i++) {
        const uint32_t sum = (uint32_t)start + (uint32_t)places[i], rows = sum / (uint32_t)size;
        to[i] = sum - rows * (uint32_t)size;
        places[i] = (int32_t)rows;
      }
    }
  }
}

static void locate(compute_shape shape, int64_t element_number, int64_t *at) {
  for (int32_t axis = shape.rank - 1; axis >= 0; axis--) {
    at[axis] = element_number % shape_at(shape, axis);
    element_number /= shape_at(shape, axis);
  }
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
  const int64_t row = shape_at(s->shape, s->shape.rank - 1);
  const bool short_rows = row < SHORT_ROW;
  int64_t first = block * BLOCK, column = block ? s->ends[block - 1] : 0;
  int64_t at[COMPUTE_MAX_RANK];
  int32_t places[PIECE];
  (void)worker;
  locate(s->shape, first, at);
  while (first < end) {
    const int64_t part = min_i64(PIECE, end - first);
    const int64_t piece = short_rows ? part : min_i64(part, row - at[s->shape.rank - 1]);
    const int32_t found = find_filled(s->dtype, element(s, first), (int32_t)piece, places);
    first += piece;
    if (short_rows) {
      write_rows(s, at, places, found, column);
      locate(s->shape, first, at);
    } else {
      write_columns(s, at, places, found, column);
      advance(s->shape, at, piece);
    }
    column += found;
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
