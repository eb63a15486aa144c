/* SPDX-License-Identifier: MIT */
/* Operators whose result size depends on the values of their inputs. They are host functions, which
 * run between two plans. */
#include "model/operators/select.h"

#include <string.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/type/shape.h"
#include "model/call/host.h"
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

static compute_status non_zero_host(host_call *call, const host_tensor *inputs,
                                    host_tensor *outputs) {
  nonzero s = {.data = inputs[0].data, .dtype = inputs[0].dtype, .shape = inputs[0].shape};
  compute_status status = nonzero_count(call->context, &s);
  if (status) return host_fail(call, status, "out of memory");
  status = host_make(call, &outputs[0], COMPUTE_I64, COMPUTE_SHAPE(s.shape.rank, s.found));
  if (!status) nonzero_write(call->context, &s, outputs[0].data);
  nonzero_release(&s);
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
