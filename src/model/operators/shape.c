/* SPDX-License-Identifier: MIT */
/* Operators that create, reshape, split, join and rearrange tensors. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "compute/graph_array.h"
#include "core/base/arithmetic.h"
#include "core/type/shape.h"
#include "model/operators/numbers.h"
#include "model/operators/op.h"
#include "model/operators/operators.h"
#include "model/operators/pad.h"

/* ---- Helpers --------------------------------------------------------------------------------- */

/* Sets output i, whose elements come from input 0, so that it has the same type. */
static compute_status output_like(model_call *call, size_t i, compute_node node) {
  return call_output_as(call, i, call_type(call, 0), node);
}

/* Output 0 is input 0 in another shape. */
static compute_status output_reshaped(model_call *call, compute_shape shape) {
  return output_like(call, 0, compute_reshape(call->graph, call_input(call, 0), shape));
}

static compute_status too_many_axes(model_call *call, size_t count) {
  return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "%zu axes are more than %d", count,
                   COMPUTE_MAX_RANK);
}

/* Reads the values of input i as a shape. */
static compute_status shape_input(model_call *call, size_t i, compute_shape *shape) {
  const int64_t *sizes;
  size_t count;
  const compute_status status = call_integers(call, i, &sizes, &count);
  if (status) return status;
  if (count > COMPUTE_MAX_RANK) return too_many_axes(call, count);
  shape->rank = (int32_t)count;
  for (size_t k = 0; k < count; k++) {
    shape_set(shape, (int32_t)k, sizes[k]);
    if (sizes[k] < 0)
      return call_fail(call, COMPUTE_ERROR_SHAPE, "size %" PRId64 " is negative", sizes[k]);
  }
  return COMPUTE_OK;
}

/* Numbers that are an attribute in old versions and input i in new ones. *values is NULL if neither
 * is given. */
static compute_status list_input(model_call *call, const char *name, size_t i,
                                 const int64_t **values, size_t *count) {
  *values = call_attribute_ints(call, name, count);
  return !*values && call_has(call, i) ? call_integers(call, i, values, count) : COMPUTE_OK;
}

/* Marks the axes that `axes` names. An axis may occur once. */
static compute_status mark_axes(model_call *call, const int64_t *axes, size_t count, int32_t rank,
                                bool *marked) {
  for (size_t i = 0; i < count; i++) {
    int32_t axis;
    const compute_status status = call_axis(call, axes[i], rank, &axis);
    if (status) return status;
    if (marked[axis])
      return call_fail(call, COMPUTE_ERROR_SHAPE, "axis %d is given twice", (int)axis);
    marked[axis] = true;
  }
  return COMPUTE_OK;
}

/* ---- Shape, Size, Reshape -------------------------------------------------------------------- */

static int64_t limit(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

/* A bound of Shape or Slice: a negative one counts from the end; clamped to low … high. */
static int64_t bound(int64_t value, int64_t size, int64_t low, int64_t high) {
  return limit(value < 0 ? value + size : value, low, high);
}

static compute_status shape_rule(model_call *call) {
  const compute_shape shape = call_shape(call, 0);
  const int64_t start = bound(call_attribute_i(call, "start", 0), shape.rank, 0, shape.rank);
  const int64_t end = bound(call_attribute_i(call, "end", shape.rank), shape.rank, 0, shape.rank);
  const int64_t count = end > start ? end - start : 0;
  return call_output_host(call, 0, COMPUTE_I64, COMPUTE_SHAPE(count), shape.size + start);
}

static compute_status size_rule(model_call *call) {
  int64_t count;
  const compute_status status = compute_shape_count(call_shape(call, 0), &count);
  return status ? status : call_output_host(call, 0, COMPUTE_I64, COMPUTE_SCALAR, &count);
}

static compute_status reshape(model_call *call) {
  const compute_shape old = call_shape(call, 0);
  const bool zero = call_attribute_i(call, "allowzero", 0) != 0;
  const int64_t *sizes;
  size_t count;
  const compute_status status = call_integers(call, 1, &sizes, &count);
  if (status) return status;
  if (count > COMPUTE_MAX_RANK) return too_many_axes(call, count);
  compute_shape shape = {.rank = (int32_t)count};
  int32_t rest = -1;
  int64_t elements = 0, known = 1;
  for (int32_t i = 0; i < shape.rank; i++) {
    const int64_t size = sizes[i] == 0 && !zero && i < old.rank ? shape_at(old, i) : sizes[i];
    shape_set(&shape, i, size);
    if (size < -1 || (size == -1 && rest >= 0))
      return call_fail(call, COMPUTE_ERROR_SHAPE, "size %" PRId64 " of axis %d", size, (int)i);
    if (size == -1)
      rest = i;
    else if (__builtin_mul_overflow(known, size, &known))
      return call_fail(call, COMPUTE_ERROR_OVERFLOW, "the shape is too large");
  }
  compute_shape_count(old, &elements);
  if (rest >= 0) shape_set(&shape, rest, known ? elements / known : 0);
  return output_reshaped(call, shape);
}

static compute_status flatten(model_call *call) {
  const compute_shape old = call_shape(call, 0);
  const int64_t given = call_attribute_i(call, "axis", 1);
  const int64_t axis = given < 0 ? given + old.rank : given;
  if (axis < 0 || axis > old.rank)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "axis %" PRId64 " is outside %d … %d", given,
                     (int)-old.rank, (int)old.rank);
  compute_shape shape = {.rank = 2};
  shape_set(&shape, 0, op_count(old, 0, (int32_t)axis));
  shape_set(&shape, 1, op_count(old, (int32_t)axis, old.rank));
  return output_reshaped(call, shape);
}

static compute_status squeeze(model_call *call) {
  const compute_shape old = call_shape(call, 0);
  const int64_t *axes;
  size_t count;
  bool gone[COMPUTE_MAX_RANK] = {false};
  compute_status status = list_input(call, "axes", 1, &axes, &count);
  if (!status && axes) status = mark_axes(call, axes, count, old.rank, gone);
  if (status) return status;
  compute_shape shape = {.rank = 0};
  for (int32_t i = 0; i < old.rank; i++) {
    if (gone[i] && shape_at(old, i) != 1)
      return call_fail(call, COMPUTE_ERROR_SHAPE, "axis %d has %" PRId64 " elements, not 1", (int)i,
                       shape_at(old, i));
    if (axes ? !gone[i] : shape_at(old, i) != 1) shape_set(&shape, shape.rank++, shape_at(old, i));
  }
  return output_reshaped(call, shape);
}

static compute_status unsqueeze(model_call *call) {
  const compute_shape old = call_shape(call, 0);
  const int64_t *axes;
  size_t count;
  bool added[COMPUTE_MAX_RANK] = {false};
  compute_status status = list_input(call, "axes", 1, &axes, &count);
  if (status) return status;
  if (count > (size_t)(COMPUTE_MAX_RANK - old.rank))
    return too_many_axes(call, count + (size_t)old.rank);
  compute_shape shape = {.rank = old.rank + (int32_t)count};
  status = mark_axes(call, axes, count, shape.rank, added);
  if (status) return status;
  for (int32_t i = 0, next = 0; i < shape.rank; i++)
    shape_set(&shape, i, added[i] ? 1 : shape_at(old, next++));
  return output_reshaped(call, shape);
}

/* ---- Axes ------------------------------------------------------------------------------------ */

static compute_status transpose(model_call *call) {
  const int32_t rank = call_shape(call, 0).rank;
  size_t count;
  const int64_t *order = call_attribute_ints(call, "perm", &count);
  bool seen[COMPUTE_MAX_RANK] = {false};
  compute_axes axes = {.count = rank};
  if (order && count != (size_t)rank)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "attribute 'perm' has %zu axes, not %d", count,
                     (int)rank);
  const compute_status status = order ? mark_axes(call, order, count, rank, seen) : COMPUTE_OK;
  if (status) return status;
  for (int32_t i = 0; i < rank; i++)
    axes.axis[i] = order ? (int32_t)(order[i] < 0 ? order[i] + rank : order[i]) : rank - 1 - i;
  return output_like(
      call, 0, compute_transpose(call->graph, call_input(call, 0), rank ? axes : COMPUTE_NO_AXES));
}

/* Splits the axes of [n, c, h, w] into `sizes`, transposes by `order`, and reshapes to `result`. */
static compute_status rearrange(model_call *call, compute_shape sizes, compute_axes order,
                                compute_shape result) {
  compute_node x = compute_reshape(call->graph, call_input(call, 0), sizes);
  x = compute_transpose(call->graph, x, order);
  return output_like(call, 0, compute_reshape(call->graph, x, result));
}

static compute_status read_blocks(model_call *call, int64_t *block, bool *channels_first) {
  const compute_shape shape = call_shape(call, 0);
  *block = call_attribute_i(call, "blocksize", 0);
  *channels_first = strcmp(call_attribute_s(call, "mode", "DCR"), "CRD") == 0;
  bool good = shape.rank == 4 && *block > 0;
  for (int32_t i = 0; good && i < shape.rank; i++) /* so that no product overflows */
    good = (double)*block * (double)*block * (double)shape_at(shape, i) < 0x1p62;
  if (!good)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "blocks of %" PRId64 " in %d axes", *block,
                     (int)shape.rank);
  return COMPUTE_OK;
}

static compute_status depth_to_space(model_call *call) {
  int64_t b;
  bool first;
  const compute_status status = read_blocks(call, &b, &first);
  if (status) return status;
  const compute_shape shape = call_shape(call, 0);
  const int64_t n = shape_at(shape, 0), c = shape_at(shape, 1) / (b * b), h = shape_at(shape, 2);
  const int64_t w = shape_at(shape, 3);
  return rearrange(call, first ? COMPUTE_SHAPE(n, c, b, b, h, w) : COMPUTE_SHAPE(n, b, b, c, h, w),
                   first ? COMPUTE_AXES(0, 1, 4, 2, 5, 3) : COMPUTE_AXES(0, 3, 4, 1, 5, 2),
                   COMPUTE_SHAPE(n, c, h * b, w * b));
}

static compute_status space_to_depth(model_call *call) {
  int64_t b;
  bool first;
  const compute_status status = read_blocks(call, &b, &first);
  if (status) return status;
  const compute_shape shape = call_shape(call, 0);
  const int64_t n = shape_at(shape, 0), c = shape_at(shape, 1), h = shape_at(shape, 2) / b;
  const int64_t w = shape_at(shape, 3) / b;
  return rearrange(call, COMPUTE_SHAPE(n, c, h, b, w, b),
                   first ? COMPUTE_AXES(0, 1, 3, 5, 2, 4) : COMPUTE_AXES(0, 3, 5, 1, 2, 4),
                   COMPUTE_SHAPE(n, c * b * b, h, w));
}

/* ---- Joining and taking apart ---------------------------------------------------------------- */

static compute_status concat(model_call *call) {
  int32_t axis;
  const compute_status status =
      call_axis(call, call_attribute_i(call, "axis", 1), call_shape(call, 0).rank, &axis);
  if (status) return status;
  compute_node *parts = call_allocate(call, call->input_count, sizeof *parts);
  if (!parts) return call_out_of_memory(call);
  for (size_t i = 0; i < call->input_count; i++) parts[i] = call_input(call, i);
  return output_like(call, 0, compute_concat(call->graph, parts, call->input_count, axis));
}

/* Splits into parts of equal size; the last part gets the remainder. */
static compute_status equal_parts(model_call *call, int64_t size, int64_t *sizes) {
  const int64_t count = (int64_t)call->output_count;
  if (call->version < 18 && size % count != 0)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "%" PRId64 " elements are not %zu equal parts",
                     size, call->output_count);
  const int64_t each = size / count + (size % count != 0);
  for (int64_t i = 0; i < count; i++) sizes[i] = limit(size - i * each, 0, each);
  return COMPUTE_OK;
}

static compute_status part_sizes(model_call *call, int64_t size, int64_t *sizes) {
  const int64_t *given;
  size_t count;
  const compute_status status = list_input(call, "split", 1, &given, &count);
  if (status) return status;
  if (!given) return equal_parts(call, size, sizes);
  if (count != call->output_count)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "%zu sizes for %zu parts", count,
                     call->output_count);
  int64_t rest = size;
  for (size_t i = 0; i < count; rest -= sizes[i++]) {
    if (given[i] < 0 || given[i] > rest)
      return call_fail(call, COMPUTE_ERROR_SHAPE, "a part of %" PRId64 " of %" PRId64 " elements",
                       given[i], rest);
    sizes[i] = given[i];
  }
  return rest ? call_fail(call, COMPUTE_ERROR_SHAPE, "%" PRId64 " elements are in no part", rest)
              : COMPUTE_OK;
}

static compute_status split(model_call *call) {
  int32_t axis;
  compute_status status =
      call_axis(call, call_attribute_i(call, "axis", 0), call_shape(call, 0).rank, &axis);
  if (status) return status;
  int64_t *sizes = call_allocate(call, call->output_count, sizeof *sizes), start = 0;
  if (!sizes || call->output_count == 0) return call_out_of_memory(call);
  status = part_sizes(call, shape_at(call_shape(call, 0), axis), sizes);
  const compute_node x = call_input(call, 0);
  for (size_t i = 0; !status && i < call->output_count; start += sizes[i++])
    status = output_like(call, i, compute_slice(call->graph, x, axis, start, sizes[i], 1));
  return status;
}

/* ---- Slice ----------------------------------------------------------------------------------- */

/* Elements start, start + step, … of an axis, up to `end` (exclusive). */
static compute_node take_steps(model_call *call, compute_node x, int32_t axis, int64_t start,
                               int64_t end, int64_t step) {
  compute_graph *graph = call->graph;
  const int64_t size = shape_at(compute_node_shape(graph, x), axis);
  if (step > 0) {
    start = bound(start, size, 0, size);
    end = bound(end, size, 0, size);
    const int64_t count = end > start ? (end - start - 1) / step + 1 : 0;
    return compute_slice(graph, x, axis, count ? start : 0, count, count > 1 ? step : 1);
  }
  start = bound(start, size, -1, size - 1);
  end = bound(end, size, -1, size - 1);
  const int64_t count = start > end ? (start - end - 1) / -limit(step, -INT64_MAX, -1) + 1 : 0;
  if (count < 2) return compute_slice(graph, x, axis, count ? start : 0, count, 1);
  compute_node at = compute_index(graph, COMPUTE_I64, COMPUTE_SHAPE(count), 0);
  at = compute_add(graph, compute_mul(graph, at, number_i64(call, step)), number_i64(call, start));
  return compute_gather(graph, x, at, axis);
}

typedef struct slice_bounds {
  const int64_t *starts, *ends, *axes, *steps; /* the last two may be NULL */
  size_t count;
} slice_bounds;

static compute_status read_slice(model_call *call, slice_bounds *bounds) {
  size_t ends = 0, axes = 0, steps = 0;
  compute_status status = list_input(call, "starts", 1, &bounds->starts, &bounds->count);
  if (!status) status = list_input(call, "ends", 2, &bounds->ends, &ends);
  if (!status) status = list_input(call, "axes", 3, &bounds->axes, &axes);
  if (!status) status = list_input(call, "steps", 4, &bounds->steps, &steps);
  if (status) return status;
  if (ends != bounds->count || (bounds->axes && axes != ends) || (bounds->steps && steps != ends) ||
      ends > (size_t)call_shape(call, 0).rank)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "its starts, ends, axes and steps do not match");
  return COMPUTE_OK;
}

static compute_status slice(model_call *call) {
  const int32_t rank = call_shape(call, 0).rank;
  slice_bounds bounds = {0};
  bool seen[COMPUTE_MAX_RANK] = {false};
  compute_status status = read_slice(call, &bounds);
  if (!status && bounds.axes) status = mark_axes(call, bounds.axes, bounds.count, rank, seen);
  if (status) return status;
  compute_node x = call_input(call, 0);
  for (size_t i = 0; i < bounds.count; i++) {
    const int64_t given = bounds.axes ? bounds.axes[i] : (int64_t)i;
    const int64_t step = bounds.steps ? bounds.steps[i] : 1;
    if (step == 0) return call_fail(call, COMPUTE_ERROR_INVALID_ARGUMENT, "a step is 0");
    x = take_steps(call, x, (int32_t)(given < 0 ? given + rank : given), bounds.starts[i],
                   bounds.ends[i], step);
  }
  return output_like(call, 0, x);
}

/* ---- Repeating ------------------------------------------------------------------------------- */

static compute_status expand(model_call *call) {
  const compute_shape old = call_shape(call, 0);
  compute_shape wanted = {0};
  const compute_status status = shape_input(call, 1, &wanted);
  if (status) return status;
  compute_shape shape = {.rank = wanted.rank > old.rank ? wanted.rank : old.rank};
  for (int32_t i = 0; i < shape.rank; i++) {
    const int32_t here = i - (shape.rank - old.rank), there = i - (shape.rank - wanted.rank);
    const int64_t size = here < 0 ? 1 : shape_at(old, here);
    shape_set(&shape, i, size != 1 || there < 0 ? size : shape_at(wanted, there));
    if (there >= 0 && shape_at(wanted, there) != 1 && shape_at(wanted, there) != shape_at(shape, i))
      return call_fail(call, COMPUTE_ERROR_SHAPE, "axis %d has %" PRId64 " elements, not 1",
                       (int)here, size);
  }
  return output_like(call, 0, compute_broadcast(call->graph, call_input(call, 0), shape));
}

static compute_status tile(model_call *call) {
  const int32_t rank = call_shape(call, 0).rank;
  compute_shape times = {0};
  const compute_status status = shape_input(call, 1, &times);
  if (status) return status;
  if (times.rank != rank)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "%d repeats for %d axes", (int)times.rank,
                     (int)rank);
  return output_like(call, 0, compute_tile(call->graph, call_input(call, 0), times));
}

/* ---- Constants and ranges -------------------------------------------------------------------- */

static compute_status output_floats(model_call *call, compute_shape shape, const float *values) {
  return call_output_host(call, 0, COMPUTE_F32, shape, values);
}

static compute_status output_tensor(model_call *call, const onnx_tensor *tensor) {
  if (!tensor || onnx_dtype(tensor->type) == COMPUTE_DTYPE_NONE || tensor->rank < 0)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "its value has an unsupported type");
  return call_output_as(
      call, 0, tensor->type,
      compute_constant(call->graph, onnx_dtype(tensor->type), tensor->shape, tensor->data));
}

/* Outputs the value of its only attribute. record.c handles dense tensors. */
static compute_status constant(model_call *call) {
  for (size_t i = 0; i < call->node->attribute_count; i++) {
    const onnx_attribute *a = call_attribute(call, call->node->attributes[i].name);
    if (!a) continue;
    const compute_shape list = COMPUTE_SHAPE((int64_t)a->count);
    switch (a->type) {
    case ONNX_ATTRIBUTE_FLOAT: return output_floats(call, COMPUTE_SCALAR, &a->number);
    case ONNX_ATTRIBUTE_FLOATS: return output_floats(call, list, a->numbers);
    case ONNX_ATTRIBUTE_INT:
      return call_output_host(call, 0, COMPUTE_I64, COMPUTE_SCALAR, &a->integer);
    case ONNX_ATTRIBUTE_INTS: return call_output_host(call, 0, COMPUTE_I64, list, a->integers);
    case ONNX_ATTRIBUTE_STRING: return call_output_texts(call, 0, COMPUTE_SCALAR, &a->text);
    case ONNX_ATTRIBUTE_STRINGS: return call_output_texts(call, 0, list, a->texts);
    case ONNX_ATTRIBUTE_TENSOR: return output_tensor(call, a->tensor);
    default: break;
    }
  }
  return call_fail(call, COMPUTE_ERROR_FORMAT, "it has no value");
}

static compute_status constant_of_shape(model_call *call) {
  compute_shape shape;
  const compute_status status = shape_input(call, 0, &shape);
  if (status) return status;
  const onnx_attribute *value = call_attribute(call, "value");
  const onnx_tensor *tensor = value ? value->tensor : NULL;
  if (!tensor) return call_output(call, 0, call_zeros(call, COMPUTE_F32, shape));
  const compute_dtype dtype = onnx_dtype(tensor->type);
  if (tensor->count != 1 || dtype == COMPUTE_DTYPE_NONE)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "attribute 'value' is not one number");
  const compute_node one = compute_constant(call->graph, dtype, COMPUTE_SCALAR, tensor->data);
  return call_output_as(call, 0, tensor->type, compute_broadcast(call->graph, one, shape));
}

/* Exact for integers that a double cannot represent. */
static compute_status integer_range_count(model_call *call, int64_t *count) {
  int64_t start, end, delta, distance;
  compute_status status = call_integer(call, 0, &start);
  if (!status) status = call_integer(call, 1, &end);
  if (!status) status = call_integer(call, 2, &delta);
  if (status) return status;
  if (delta == 0) return call_fail(call, COMPUTE_ERROR_INVALID_ARGUMENT, "its delta is 0");
  if (__builtin_sub_overflow(end, start, &distance) || distance == INT64_MIN)
    return call_fail(call, COMPUTE_ERROR_OVERFLOW, "it is too long");
  *count = (distance < 0) != (delta < 0) ? 0 : distance / delta + (distance % delta != 0);
  return COMPUTE_OK;
}

static compute_status float_range_count(model_call *call, int64_t *count) {
  double start, end, delta;
  compute_status status = call_number(call, 0, &start);
  if (!status) status = call_number(call, 1, &end);
  if (!status) status = call_number(call, 2, &delta);
  if (status) return status;
  const double steps = ceil((end - start) / delta);
  if (!(steps < 0x1p55))
    return call_fail(call, COMPUTE_ERROR_OVERFLOW, "from %g to %g by %g is too long", start, end,
                     delta);
  *count = steps > 0 ? (int64_t)steps : 0;
  return COMPUTE_OK;
}

static compute_status range(model_call *call) {
  compute_graph *graph = call->graph;
  int64_t count = 0;
  const compute_dtype dtype = call_dtype(call, 0), wide = op_wide_dtype(dtype);
  const compute_status status =
      op_is_float(dtype) ? float_range_count(call, &count) : integer_range_count(call, &count);
  if (status) return status;
  const compute_node start = op_cast(call, call_input(call, 0), wide);
  const compute_node delta = op_cast(call, call_input(call, 2), wide);
  compute_node x = compute_index(graph, wide, COMPUTE_SHAPE(count), 0);
  x = compute_mul(graph, x, compute_reshape(graph, delta, COMPUTE_SCALAR));
  x = compute_add(graph, x, compute_reshape(graph, start, COMPUTE_SCALAR));
  return call_output(call, 0, op_cast(call, x, dtype));
}

/* ---- Diagonals ------------------------------------------------------------------------------- */

static compute_status eye_like(model_call *call) {
  const compute_shape shape = call_shape(call, 0);
  const int32_t type = (int32_t)call_attribute_i(call, "dtype", call_type(call, 0));
  if (shape.rank != 2) return call_fail(call, COMPUTE_ERROR_SHAPE, "its input is not a matrix");
  compute_graph *graph = call->graph;
  const compute_dtype dtype = onnx_dtype(type);
  const int64_t rows = shape_at(shape, 0), columns = shape_at(shape, 1);
  const int64_t k = call_attribute_i(call, "k", 0);
  if (rows == 0 || columns == 0 || k >= columns || k <= -rows)
    return call_output_as(call, 0, type, compute_full_i64(graph, dtype, shape, 0));
  const int64_t row = k < 0 ? -k : 0, column = k > 0 ? k : 0;
  const int64_t count = min_i64(rows - row, columns - column);
  /* Among all elements in row-major order, those of a diagonal have one distance. */
  const compute_node ones = compute_full_i64(graph, dtype, COMPUTE_SHAPE(count), 1);
  const compute_node flat =
      compute_embed(graph, ones, 0, rows * columns, row * columns + column, columns + 1);
  return call_output_as(call, 0, type, compute_reshape(graph, flat, shape));
}

static compute_status trilu(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_shape shape = call_shape(call, 0);
  if (shape.rank < 2)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "its input has fewer than two axes");
  compute_node k = number_i64(call, 0);
  if (call_has(call, 1)) k = compute_reshape(graph, call_input(call, 1), COMPUTE_SCALAR);
  return output_like(
      call, 0,
      part_triangle(graph, call_input(call, 0), k, call_attribute_i(call, "upper", 1) != 0));
}

/* ---- Sequences, one-hot ---------------------------------------------------------------------- */

/* Reverses the first elements of each sequence in the batch, as many as its length. */
static compute_status reverse_sequence(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_shape shape = call_shape(call, 0);
  int32_t time, batch;
  compute_status status =
      call_axis(call, call_attribute_i(call, "time_axis", 0), shape.rank, &time);
  if (!status)
    status = call_axis(call, call_attribute_i(call, "batch_axis", 1), shape.rank, &batch);
  if (status) return status;
  const compute_node lengths =
      op_along(call, op_cast(call, call_input(call, 1), COMPUTE_I64), batch, shape.rank);
  compute_shape line = shape; /* the place depends on the time and the item only */
  for (int32_t i = 0; i < shape.rank; i++)
    if (i != time) shape_set(&line, i, 1);
  const compute_node t = compute_index(graph, COMPUTE_I64, line, time);
  const compute_node mirrored =
      compute_sub(graph, compute_sub(graph, lengths, number_i64(call, 1)), t);
  const compute_node at = compute_select(graph, compute_less(graph, t, lengths), mirrored, t);
  return output_like(call, 0,
                     compute_gather_elements(graph, call_input(call, 0),
                                             compute_broadcast(graph, at, shape), time));
}

/* Element i of a vector, as a scalar. */
static compute_node element(model_call *call, compute_node vector, int64_t i) {
  vector = compute_slice(call->graph, vector, 0, i, 1, 1);
  return compute_reshape(call->graph, vector, COMPUTE_SCALAR);
}

static compute_status one_hot(model_call *call) {
  compute_graph *graph = call->graph;
  compute_shape shape = call_shape(call, 0);
  double given;
  int32_t axis;
  compute_status status = call_number(call, 1, &given);
  if (!status) status = call_axis(call, call_attribute_i(call, "axis", -1), shape.rank + 1, &axis);
  if (status) return status;
  if (shape.rank == COMPUTE_MAX_RANK) return too_many_axes(call, COMPUTE_MAX_RANK + 1);
  if (!(given >= 0 && given < 0x1p55))
    return call_fail(call, COMPUTE_ERROR_SHAPE, "its depth is %g", given);
  const int64_t depth = (int64_t)given;
  compute_shape wide = {.rank = shape.rank + 1}, apart;
  for (int32_t i = 0; i < wide.rank; i++)
    shape_set(&wide, i, i == axis ? 1 : shape_at(shape, i < axis ? i : i - 1));
  apart = wide;
  shape_set(&wide, axis, depth);
  compute_node at = op_cast(call, call_input(call, 0), COMPUTE_I64);
  at = compute_reshape(graph, at, apart);
  at = compute_select(graph, compute_less(graph, at, number_i64(call, 0)),
                      compute_add(graph, at, number_i64(call, depth)), at);
  const compute_node on = compute_equal(graph, at, compute_index(graph, COMPUTE_I64, wide, axis));
  const compute_node values = call_input(call, 2);
  return call_output_as(
      call, 0, call_type(call, 2),
      compute_select(graph, on, element(call, values, 1), element(call, values, 0)));
}

/* ---- The table ------------------------------------------------------------------------------- */

static const operator_row rows[] = {
    {"", "CenterCropPad", 18, center_crop_pad_rule},
    {"", "Col2Im", 18, column_to_image_rule},
    {"", "Concat", 4, concat},
    {"", "Constant", 1, constant},
    {"", "ConstantOfShape", 9, constant_of_shape},
    {"", "DepthToSpace", 1, depth_to_space},
    {"", "Expand", 8, expand},
    {"", "EyeLike", 9, eye_like},
    {"", "Flatten", 1, flatten},
    {"", "OneHot", 9, one_hot},
    {"", "Pad", 2, pad_rule},
    {"", "Range", 11, range},
    {"", "Reshape", 5, reshape},
    {"", "ReverseSequence", 10, reverse_sequence},
    {"", "Shape", 1, shape_rule},
    {"", "Size", 1, size_rule},
    {"", "Slice", 1, slice},
    {"", "SpaceToDepth", 1, space_to_depth},
    {"", "Split", 2, split},
    {"", "Squeeze", 1, squeeze},
    {"", "Tile", 6, tile},
    {"", "Transpose", 1, transpose},
    {"", "Trilu", 14, trilu},
    {"", "Unsqueeze", 1, unsqueeze},
    {"com.microsoft", "Pad", 1, pad_rule},
    {"com.microsoft", "Range", 1, range},
    {"com.microsoft", "Trilu", 1, trilu},
};

const operator_family operators_shape = OPERATOR_FAMILY(rows);
