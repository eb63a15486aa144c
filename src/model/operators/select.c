/* SPDX-License-Identifier: MIT */
/* Operators whose result size depends on the values of their inputs. They are host functions, which
 * run between two plans. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/type/shape.h"
#include "model/record.h"

static int64_t count_of(compute_shape shape) {
  int64_t count = 0;
  compute_shape_count(shape, &count);
  return count;
}

/* ---- Elements of any dtype ------------------------------------------------------------------- */

static bool is_zero(const host_tensor *tensor, size_t at) {
  const size_t size = compute_dtype_size(tensor->dtype);
  const uint8_t *bytes = (const uint8_t *)tensor->data + at * size;
  switch (tensor->dtype) {
  case COMPUTE_F32: return ((const float *)tensor->data)[at] == 0;
  case COMPUTE_F64: return ((const double *)tensor->data)[at] == 0;
  case COMPUTE_F16:
  case COMPUTE_BF16: return (((const uint16_t *)tensor->data)[at] & 0x7fff) == 0;
  default:
    for (size_t i = 0; i < size; i++)
      if (bytes[i]) return false;
    return true;
  }
}

/* −1, 0 or 1, as for qsort; NaN is the largest. */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

static int order_floats(double a, double b) {
  if (isnan(a) || isnan(b)) return (isnan(a) != 0) - (isnan(b) != 0);
  return ORDER(a, b);
}

static float half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const float value = exponent == 31  ? (mantissa ? NAN : INFINITY)
                      : exponent == 0 ? ldexpf((float)mantissa, -24)
                                      : ldexpf((float)(1024 + mantissa), exponent - 25);
  return bits >> 15 ? -value : value;
}

static float bfloat_value(uint16_t bits) {
  const uint32_t word = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &word, sizeof value);
  return value;
}

static int order(compute_dtype dtype, const void *x, const void *y) {
  switch (dtype) {
  case COMPUTE_F64: return order_floats(*(const double *)x, *(const double *)y);
  case COMPUTE_F32: return order_floats((double)*(const float *)x, (double)*(const float *)y);
  case COMPUTE_F16:
    return order_floats((double)half_value(*(const uint16_t *)x),
                        (double)half_value(*(const uint16_t *)y));
  case COMPUTE_BF16:
    return order_floats((double)bfloat_value(*(const uint16_t *)x),
                        (double)bfloat_value(*(const uint16_t *)y));
  case COMPUTE_I64: return ORDER(*(const int64_t *)x, *(const int64_t *)y);
  case COMPUTE_U64: return ORDER(*(const uint64_t *)x, *(const uint64_t *)y);
  case COMPUTE_I32: return ORDER(*(const int32_t *)x, *(const int32_t *)y);
  case COMPUTE_U32: return ORDER(*(const uint32_t *)x, *(const uint32_t *)y);
  case COMPUTE_I16: return ORDER(*(const int16_t *)x, *(const int16_t *)y);
  case COMPUTE_U16: return ORDER(*(const uint16_t *)x, *(const uint16_t *)y);
  case COMPUTE_I8: return ORDER(*(const int8_t *)x, *(const int8_t *)y);
  default: return ORDER(*(const uint8_t *)x, *(const uint8_t *)y);
  }
}

/* Records a host function whose first `required` inputs must be given. */
static compute_status on_host(model_call *call, size_t required, host_function function) {
  for (size_t i = 0; i < required; i++)
    if (!call_has(call, i)) return call_fail(call, COMPUTE_ERROR_FORMAT, "input %zu is missing", i);
  return call_on_host(call, function);
}

/* ---- NonZero ------------------------------------------------------------------------------- */

static compute_status non_zero_host(host_call *call, const host_tensor *inputs,
                                    host_tensor *outputs) {
  const host_tensor *x = &inputs[0];
  const int64_t count = count_of(x->shape);
  const int32_t rank = x->shape.rank ? x->shape.rank : 1;
  int64_t found = 0;
  for (int64_t i = 0; i < count; i++) found += !is_zero(x, (size_t)i);
  const compute_status status =
      host_make(call, &outputs[0], COMPUTE_I64, COMPUTE_SHAPE(rank, found));
  if (status) return status;
  int64_t *result = outputs[0].data, column = 0;
  for (int64_t i = 0; i < count; i++) {
    if (is_zero(x, (size_t)i)) continue;
    int64_t rest = i;
    for (int32_t axis = rank - 1; axis >= 0; axis--) {
      const int64_t size = x->shape.rank ? shape_at(x->shape, axis) : 1;
      result[axis * found + column] = rest % size;
      rest /= size;
    }
    column++;
  }
  return COMPUTE_OK;
}

static compute_status non_zero(model_call *call) {
  return on_host(call, 1, non_zero_host);
}

/* ---- Slices of a tensor along an axis: Compress and Unique ----------------------------------- */

typedef struct slices {
  const uint8_t *data;
  compute_dtype dtype;
  size_t size;                 /* of an element */
  int64_t outer, along, inner; /* in elements */
} slices;

static slices slices_of(const host_tensor *tensor, int32_t axis) {
  slices s = {tensor->data, tensor->dtype, compute_dtype_size(tensor->dtype), 1, 1, 1};
  if (axis < 0) {
    s.along = count_of(tensor->shape);
    return s;
  }
  for (int32_t i = 0; i < tensor->shape.rank; i++)
    *(i < axis ? &s.outer : i == axis ? &s.along : &s.inner) *= shape_at(tensor->shape, i);
  return s;
}

/* Writes the slices at `places` one after another. */
static void take_slices(const slices *s, const int64_t *places, int64_t count, uint8_t *to) {
  const size_t run = (size_t)s->inner * s->size;
  for (int64_t o = 0; o < s->outer; o++)
    for (int64_t i = 0; i < count; i++, to += run)
      memcpy(to, s->data + (size_t)(o * s->along + places[i]) * run, run);
}

/* *axis is −1 without the attribute: the whole tensor is one row. */
static compute_status host_axis(host_call *call, const host_tensor *tensor, int32_t *axis) {
  const onnx_attribute *attribute = call_attribute(host_node(call), "axis");
  *axis = -1;
  if (!attribute) return COMPUTE_OK;
  const int64_t rank = tensor->shape.rank;
  const int64_t given = attribute->integer;
  if (given < -rank || given >= rank)
    return host_fail(call, COMPUTE_ERROR_SHAPE, "axis %lld is outside", (long long)given);
  *axis = (int32_t)(given < 0 ? given + rank : given);
  return COMPUTE_OK;
}

static compute_shape with_size(const host_tensor *tensor, int32_t axis, int64_t size) {
  if (axis < 0) return COMPUTE_SHAPE(size);
  compute_shape shape = tensor->shape;
  shape_set(&shape, axis, size);
  return shape;
}

static compute_status compress_host(host_call *call, const host_tensor *inputs,
                                    host_tensor *outputs) {
  int32_t axis;
  compute_status status = host_axis(call, &inputs[0], &axis);
  if (status) return status;
  const slices s = slices_of(&inputs[0], axis);
  const int64_t conditions = count_of(inputs[1].shape);
  int64_t *places = base_allocate((size_t)s.along, sizeof *places), count = 0;
  if (!places) return host_fail(call, COMPUTE_ERROR_OUT_OF_MEMORY, "out of memory");
  for (int64_t i = 0; i < s.along && i < conditions; i++)
    if (((const uint8_t *)inputs[1].data)[i]) places[count++] = i;
  status = host_make(call, &outputs[0], s.dtype, with_size(&inputs[0], axis, count));
  if (!status) take_slices(&s, places, count, outputs[0].data);
  base_release(places);
  return status;
}

static compute_status compress(model_call *call) {
  call_attribute_i(call, "axis", 0);
  if (call_has(call, 1) && call_dtype(call, 1) != COMPUTE_BOOL)
    return call_fail(call, COMPUTE_ERROR_DTYPE, "its condition is not of bools");
  return on_host(call, 2, compress_host);
}

/* ---- Unique -------------------------------------------------------------------------------- */

static int order_slices(const slices *s, int64_t a, int64_t b) {
  for (int64_t o = 0; o < s->outer; o++)
    for (int64_t i = 0; i < s->inner; i++) {
      const int64_t base = o * s->along * s->inner + i;
      const int result = order(s->dtype, s->data + (size_t)(base + a * s->inner) * s->size,
                               s->data + (size_t)(base + b * s->inner) * s->size);
      if (result) return result;
    }
  return 0;
}

/* Sorts places by their slices, and equal slices by place. A bottom-up merge sort; `spare` has the
 * same length. */
static void sort_places(const slices *s, int64_t *places, int64_t *spare) {
  for (int64_t width = 1; width < s->along; width *= 2) {
    for (int64_t begin = 0; begin < s->along; begin += 2 * width) {
      const int64_t middle = begin + width < s->along ? begin + width : s->along;
      const int64_t end = begin + 2 * width < s->along ? begin + 2 * width : s->along;
      int64_t left = begin, right = middle;
      for (int64_t to = begin; to < end; to++) {
        const bool take_left =
            left < middle && (right >= end || order_slices(s, places[left], places[right]) <= 0);
        spare[to] = take_left ? places[left++] : places[right++];
      }
    }
    memcpy(places, spare, (size_t)s->along * sizeof *places);
  }
}

typedef struct groups {
  int64_t *first; /* the first place of each group, in the order of the result */
  int64_t *counts;
  int64_t *inverse; /* the group of each place */
  int64_t count;
} groups;

static int by_number(const void *a, const void *b) {
  return ORDER(*(const int64_t *)a, *(const int64_t *)b);
}

/* `work` has 5 · s->along elements. */
static groups find_groups(const slices *s, bool sorted, int64_t *work) {
  int64_t *places = work, *spare = work + s->along;
  groups g = {work + 2 * s->along, work + 3 * s->along, work + 4 * s->along, 0};
  for (int64_t i = 0; i < s->along; i++) places[i] = i;
  sort_places(s, places, spare);
  for (int64_t i = 0; i < s->along; i++) {
    const bool begins = i == 0 || order_slices(s, places[i - 1], places[i]) != 0;
    if (begins) {
      g.first[g.count] = places[i];
      g.counts[g.count++] = 0;
    }
    g.counts[g.count - 1]++;
    g.inverse[places[i]] = g.count - 1;
  }
  if (sorted) return g;
  /* Without sorting, groups are ordered by their first places. */
  int64_t *ranks = places;
  memcpy(spare, g.first, (size_t)g.count * sizeof *spare);
  qsort(spare, (size_t)g.count, sizeof *spare, by_number);
  for (int64_t i = 0; i < g.count; i++) {
    const int64_t *at = bsearch(&g.first[i], spare, (size_t)g.count, sizeof *spare, by_number);
    ranks[i] = at - spare;
  }
  memcpy(g.first, spare, (size_t)g.count * sizeof *spare);
  memcpy(spare, g.counts, (size_t)g.count * sizeof *spare);
  for (int64_t i = 0; i < g.count; i++) g.counts[ranks[i]] = spare[i];
  for (int64_t i = 0; i < s->along; i++) g.inverse[i] = ranks[g.inverse[i]];
  return g;
}

static compute_status give_numbers(host_call *call, host_tensor *output, const int64_t *numbers,
                                   int64_t count) {
  const compute_status status = host_make(call, output, COMPUTE_I64, COMPUTE_SHAPE(count));
  if (!status && count) memcpy(output->data, numbers, (size_t)count * sizeof *numbers);
  return status;
}

static compute_status unique_host(host_call *call, const host_tensor *inputs,
                                  host_tensor *outputs) {
  int32_t axis;
  compute_status status = host_axis(call, &inputs[0], &axis);
  if (status) return status;
  const slices s = slices_of(&inputs[0], axis);
  int64_t *work = base_allocate((size_t)s.along, 5 * sizeof *work);
  if (!work) return host_fail(call, COMPUTE_ERROR_OUT_OF_MEMORY, "out of memory");
  const bool sorted = call_attribute_i(host_node(call), "sorted", 1) != 0;
  const groups g = find_groups(&s, sorted, work);
  const size_t wanted = host_node(call)->output_count;
  status = host_make(call, &outputs[0], s.dtype, with_size(&inputs[0], axis, g.count));
  if (!status) take_slices(&s, g.first, g.count, outputs[0].data);
  if (!status && wanted > 1) status = give_numbers(call, &outputs[1], g.first, g.count);
  if (!status && wanted > 2) status = give_numbers(call, &outputs[2], g.inverse, s.along);
  if (!status && wanted > 3) status = give_numbers(call, &outputs[3], g.counts, g.count);
  base_release(work);
  return status;
}

static compute_status unique(model_call *call) {
  call_attribute_i(call, "axis", 0);
  call_attribute_i(call, "sorted", 1);
  return on_host(call, 1, unique_host);
}

/* ---- NonMaxSuppression ----------------------------------------------------------------------- */

typedef struct box {
  float y1, x1, y2, x2, area;
} box;

static box box_at(const float *four, bool center) {
  box b;
  if (center)
    b = (box){four[1] - four[3] / 2, four[0] - four[2] / 2, four[1] + four[3] / 2,
              four[0] + four[2] / 2, 0};
  else
    b = (box){fminf(four[0], four[2]), fminf(four[1], four[3]), fmaxf(four[0], four[2]),
              fmaxf(four[1], four[3]), 0};
  b.area = (b.y2 - b.y1) * (b.x2 - b.x1);
  return b;
}

static float overlap(box a, box b) {
  const float height = fminf(a.y2, b.y2) - fmaxf(a.y1, b.y1);
  const float width = fminf(a.x2, b.x2) - fmaxf(a.x1, b.x1);
  if (height <= 0 || width <= 0) return 0;
  const float both = height * width;
  return both / (a.area + b.area - both);
}

typedef struct candidate {
  float score;
  int64_t place;
} candidate;

static int best_first(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  const int by_score = ORDER(y->score, x->score);
  return by_score ? by_score : ORDER(x->place, y->place);
}

typedef struct suppression {
  int64_t boxes, most;
  float overlap_limit, score_limit;
  bool center, has_score_limit;
  candidate *candidates;
  box *kept;
} suppression;

/* Appends [batch, class, box] for each selected box. */
static int64_t suppress(const suppression *s, const float *boxes, const float *scores,
                        int64_t batch, int64_t class, int64_t *result) {
  int64_t count = 0, kept = 0;
  for (int64_t i = 0; i < s->boxes; i++)
    if (!s->has_score_limit || scores[i] > s->score_limit)
      s->candidates[count++] = (candidate){scores[i], i};
  qsort(s->candidates, (size_t)count, sizeof *s->candidates, best_first);
  for (int64_t i = 0; i < count && kept < s->most; i++) {
    const box b = box_at(boxes + 4 * s->candidates[i].place, s->center);
    bool fine = true;
    for (int64_t k = 0; fine && k < kept; k++) fine = overlap(b, s->kept[k]) <= s->overlap_limit;
    if (!fine) continue;
    memcpy(result + 3 * kept, (int64_t[]){batch, class, s->candidates[i].place},
           3 * sizeof *result);
    s->kept[kept++] = b;
  }
  return kept;
}

/* The number in an optional input; 0 if it is omitted. */
static float number_in(const host_tensor *tensor) {
  return tensor->data ? *(const float *)tensor->data : 0;
}

static compute_status suppress_all(host_call *call, suppression *s, const host_tensor *boxes,
                                   const host_tensor *scores, host_tensor *output) {
  const int64_t batches = shape_at(scores->shape, 0), classes = shape_at(scores->shape, 1);
  int64_t rows, numbers, found = 0;
  const int64_t each = s->most < s->boxes ? s->most : s->boxes;
  if (__builtin_mul_overflow(batches * classes, each, &rows) ||
      __builtin_mul_overflow(rows, 3, &numbers))
    return host_fail(call, COMPUTE_ERROR_OVERFLOW, "its result is too large");
  int64_t *result = base_allocate((size_t)numbers, sizeof *result);
  s->candidates = base_allocate((size_t)s->boxes, sizeof *s->candidates);
  s->kept = base_allocate((size_t)each, sizeof *s->kept);
  compute_status status = COMPUTE_OK;
  if (!result || !s->candidates || !s->kept)
    status = host_fail(call, COMPUTE_ERROR_OUT_OF_MEMORY, "out of memory");
  for (int64_t n = 0; !status && n < batches; n++)
    for (int64_t c = 0; c < classes; c++)
      found += suppress(s, (const float *)boxes->data + n * s->boxes * 4,
                        (const float *)scores->data + (n * classes + c) * s->boxes, n, c,
                        result + 3 * found);
  if (!status) status = host_make(call, output, COMPUTE_I64, COMPUTE_SHAPE(found, 3));
  if (!status && found) memcpy(output->data, result, (size_t)found * 3 * sizeof *result);
  base_release(result);
  base_release(s->candidates);
  base_release(s->kept);
  return status;
}

static compute_status suppression_host(host_call *call, const host_tensor *inputs,
                                       host_tensor *outputs) {
  const model_call *node = host_node(call);
  const host_tensor *boxes = &inputs[0], *scores = &inputs[1];
  if (boxes->shape.rank != 3 || scores->shape.rank != 3 || shape_at(boxes->shape, 2) != 4 ||
      shape_at(boxes->shape, 0) != shape_at(scores->shape, 0) ||
      shape_at(boxes->shape, 1) != shape_at(scores->shape, 2) || boxes->dtype != COMPUTE_F32 ||
      scores->dtype != COMPUTE_F32)
    return host_fail(call, COMPUTE_ERROR_SHAPE, "boxes and scores do not fit each other");
  suppression s = {
      .boxes = shape_at(boxes->shape, 1),
      .most = node->input_count > 2 && inputs[2].data ? *(const int64_t *)inputs[2].data : 0,
      .overlap_limit = node->input_count > 3 ? number_in(&inputs[3]) : 0,
      .has_score_limit = node->input_count > 4 && inputs[4].data,
      .score_limit = node->input_count > 4 ? number_in(&inputs[4]) : 0,
      .center = call_attribute_i(node, "center_point_box", 0) != 0};
  if (s.most < 0) s.most = 0;
  return suppress_all(call, &s, boxes, scores, &outputs[0]);
}

static compute_status non_max_suppression(model_call *call) {
  static const compute_dtype dtypes[] = {COMPUTE_I64, COMPUTE_F32, COMPUTE_F32};
  call_attribute_i(call, "center_point_box", 0);
  for (size_t i = 2; i < 5; i++) {
    int64_t count;
    if (!call_has(call, i)) continue;
    if (compute_shape_count(call_shape(call, i), &count) || count != 1 ||
        call_dtype(call, i) != dtypes[i - 2])
      return call_fail(call, COMPUTE_ERROR_DTYPE, "input %zu is not a single %s", i,
                       compute_dtype_name(dtypes[i - 2]));
  }
  return on_host(call, 2, suppression_host);
}

static const operator_row rows[] = {
    {"", "Compress", 9, compress},
    {"", "NonMaxSuppression", 10, non_max_suppression},
    {"", "NonZero", 9, non_zero},
    {"", "Unique", 11, unique},
};

const operator_family operators_select = OPERATOR_FAMILY(rows);
