/* SPDX-License-Identifier: MIT */
/* Operators whose result size depends on the values of their inputs. They are host functions, which
 * run between two plans. */
#include "model/operators/select.h"

#include <string.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/type/shape.h"
#include "model/operators/operators.h"

static int64_t count_of(compute_shape shape) {
  int64_t count = 0;
  compute_shape_count(shape, &count);
  return count;
}

compute_status select_on_host(model_call *call, size_t required, host_function function,
                              size_t counted, double rows) {
  for (size_t i = 0; i < required; i++)
    if (!call_has(call, i)) return call_fail(call, COMPUTE_ERROR_FORMAT, "input %zu is missing", i);
  return call_on_host(call, function, rows * (double)count_of(call_shape(call, counted)));
}

/* ---- NonZero ------------------------------------------------------------------------------- */

enum { BLOCK = 1 << 14, PIECE = 1024 }; /* elements: of a task, and of a part of a row */

typedef struct search {
  const host_tensor *x;
  compute_shape shape; /* x's, or [1] for a scalar */
  int64_t count;       /* of elements */
  int64_t *ends;       /* per block: the elements found up to its end */
  int64_t *result;
  int64_t found;
} search;

/* The bits that are set in no zero: all but the sign of floats. */
static uint64_t bits_of_values(compute_dtype dtype) {
  const size_t bits = 8 * compute_dtype_size(dtype);
  const bool is_float =
      dtype == COMPUTE_F64 || dtype == COMPUTE_F32 || dtype == COMPUTE_F16 || dtype == COMPUTE_BF16;
  return UINT64_MAX >> (64 - bits + is_float);
}

/* Runs `statement` for each element, with `v` as its number. */
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

static const uint8_t *element(const host_tensor *x, int64_t at) {
  return (const uint8_t *)x->data + (size_t)at * compute_dtype_size(x->dtype);
}

static void count_block(void *argument, int64_t block, int32_t worker) {
  const search *s = argument;
  const int64_t first = block * BLOCK;
  (void)worker;
  s->ends[block] =
      count_filled(s->x->dtype, element(s->x, first), (int32_t)min_i64(BLOCK, s->count - first));
}

/* Writes the coordinates of the `count` elements of a row that are at `places` after `at`. */
static void write_columns(const search *s, const int64_t *at, const int32_t *places, int32_t count,
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
  const search *s = argument;
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
    const int32_t found = find_filled(s->x->dtype, element(s->x, first), (int32_t)piece, places);
    write_columns(s, at, places, found, column);
    column += found;
    first += piece;
    advance(s->shape, at, piece);
  }
}

static compute_status non_zero_host(host_call *call, const host_tensor *inputs,
                                    host_tensor *outputs) {
  search s = {.x = &inputs[0], .shape = inputs[0].shape, .count = count_of(inputs[0].shape)};
  if (s.shape.rank == 0) s.shape = COMPUTE_SHAPE(1);
  const int64_t blocks = (s.count + BLOCK - 1) / BLOCK;
  s.ends = base_allocate((uint64_t)blocks, sizeof *s.ends);
  if (!s.ends) return host_fail(call, COMPUTE_ERROR_OUT_OF_MEMORY, "out of memory");
  host_parallel(call, blocks, count_block, &s);
  for (int64_t i = 0; i < blocks; i++) s.ends[i] = s.found += s.ends[i];
  const compute_status status =
      host_make(call, &outputs[0], COMPUTE_I64, COMPUTE_SHAPE(s.shape.rank, s.found));
  s.result = outputs[0].data;
  if (!status) host_parallel(call, blocks, write_block, &s);
  base_release(s.ends);
  return status;
}

static compute_status non_zero(model_call *call) {
  return select_on_host(call, 1, non_zero_host, 0, 1.0 / 16);
}

/* ---- Slices --------------------------------------------------------------------------------- */

compute_status slices_find(host_call *call, const host_tensor *tensor, slices *s, int32_t *axis) {
  const onnx_attribute *attribute = call_attribute(host_node(call), "axis");
  const int64_t rank = tensor->shape.rank, given = attribute ? attribute->integer : -1;
  *s = (slices){tensor->data, tensor->dtype, 1, 1, 1};
  *axis = -1;
  if (!attribute) {
    s->along = count_of(tensor->shape);
    return COMPUTE_OK;
  }
  if (given < -rank || given >= rank)
    return host_fail(call, COMPUTE_ERROR_SHAPE, "axis %lld is outside", (long long)given);
  *axis = (int32_t)(given < 0 ? given + rank : given);
  for (int32_t i = 0; i < rank; i++)
    *(i < *axis ? &s->outer : i == *axis ? &s->along : &s->inner) *= shape_at(tensor->shape, i);
  return COMPUTE_OK;
}

typedef struct taking {
  const slices *s;
  const int64_t *places;
  int64_t count, each; /* of places, and of those in a task */
  int64_t pieces;      /* tasks for each outer position */
  uint8_t *to;
} taking;

#define TAKE_WORDS(type)                                                                           \
  {                                                                                                \
    type *result = (type *)(void *)to;                                                             \
    for (int64_t i = 0; i < count; i++) result[i] = ((const type *)(const void *)from)[places[i]]; \
  }

static void take_elements(size_t size, const uint8_t *from, const int64_t *places, int64_t count,
                          uint8_t *to) {
  switch (size) {
  case 1: TAKE_WORDS(uint8_t) break;
  case 2: TAKE_WORDS(uint16_t) break;
  case 4: TAKE_WORDS(uint32_t) break;
  default: TAKE_WORDS(uint64_t) break;
  }
}

/* Copies neighbours at once. */
static void take_runs(size_t bytes, const uint8_t *from, const int64_t *places, int64_t count,
                      uint8_t *to) {
  for (int64_t i = 0, end; i < count; i = end) {
    for (end = i + 1; end < count && places[end] - places[i] == end - i;) end++;
    memcpy(to + (size_t)i * bytes, from + (size_t)places[i] * bytes, (size_t)(end - i) * bytes);
  }
}

static void take_piece(void *argument, int64_t task, int32_t worker) {
  const taking *t = argument;
  const slices *s = t->s;
  const size_t size = compute_dtype_size(s->dtype), bytes = (size_t)s->inner * size;
  const int64_t outer = task / t->pieces, first = task % t->pieces * t->each;
  const int64_t count = min_i64(t->each, t->count - first);
  const uint8_t *from = s->data + (size_t)(outer * s->along) * bytes;
  uint8_t *to = t->to + (size_t)(outer * t->count + first) * bytes;
  (void)worker;
  if (s->inner == 1)
    take_elements(size, from, t->places + first, count, to);
  else
    take_runs(bytes, from, t->places + first, count, to);
}

compute_status slices_take(host_call *call, const host_tensor *tensor, const slices *s,
                           int32_t axis, const int64_t *places, int64_t count,
                           host_tensor *output) {
  enum { TASK_BYTES = 1 << 17 };
  compute_shape shape = axis < 0 ? COMPUTE_SHAPE(count) : tensor->shape;
  if (axis >= 0) shape_set(&shape, axis, count);
  const compute_status status = host_make(call, output, s->dtype, shape);
  const int64_t bytes = max_i64(s->inner * (int64_t)compute_dtype_size(s->dtype), 1);
  taking t = {.s = s,
              .places = places,
              .count = count,
              .each = max_i64(TASK_BYTES / bytes, 1),
              .to = output->data};
  t.pieces = (count + t.each - 1) / t.each;
  if (!status) host_parallel(call, s->outer * t.pieces, take_piece, &t);
  return status;
}

/* ---- Compress ------------------------------------------------------------------------------- */

static compute_status compress_host(host_call *call, const host_tensor *inputs,
                                    host_tensor *outputs) {
  slices s;
  int32_t axis;
  compute_status status = slices_find(call, &inputs[0], &s, &axis);
  if (status) return status;
  const int64_t conditions = min_i64(count_of(inputs[1].shape), s.along);
  const uint8_t *chosen = inputs[1].data;
  int64_t *places = base_allocate((uint64_t)conditions, sizeof *places), count = 0;
  if (!places) return host_fail(call, COMPUTE_ERROR_OUT_OF_MEMORY, "out of memory");
  for (int64_t i = 0; i < conditions; i++) {
    places[count] = i;
    count += chosen[i] != 0;
  }
  status = slices_take(call, &inputs[0], &s, axis, places, count, &outputs[0]);
  base_release(places);
  return status;
}

static compute_status compress(model_call *call) {
  call_attribute_i(call, "axis", 0);
  if (call_has(call, 1) && call_dtype(call, 1) != COMPUTE_BOOL)
    return call_fail(call, COMPUTE_ERROR_DTYPE, "its condition is not of bools");
  return select_on_host(call, 2, compress_host, 1, 1.0 / 16);
}

static const operator_row rows[] = {
    {"", "Compress", 9, compress},
    {"", "NonZero", 9, non_zero},
};

const operator_family operators_select = OPERATOR_FAMILY(rows);
