/* SPDX-License-Identifier: MIT */
/* Fourier transforms, as products with the transform's matrix, and window functions and mel
 * weights. */
#include "model/operators/operators.h"

#include <inttypes.h>
#include <math.h>

#include "core/base/arithmetic.h"
#include "core/type/shape.h"
#include "model/operators/op.h"

static const double pi = 3.14159265358979323846;

/* ---- Transforms ------------------------------------------------------------------------------ */

/* A transform of `length` points. A number has one part (real) or two (complex). */
typedef struct transform {
  model_call *call;
  int64_t length;
  int64_t from, to; /* number of input and output points */
  int64_t parts_from, parts_to;
  bool inverse;
  bool halved; /* the input is half of a symmetric spectrum */
} transform;

enum { MOST_ELEMENTS = 1 << 25 };

/* Fills the part of the matrix for one input point and one output point. */
static void fill_block(const transform *t, double *matrix, int64_t in, int64_t out) {
  const int64_t columns = t->to * t->parts_to;
  const double angle = 2 * pi * (double)(in * out % t->length) / (double)t->length;
  double weight = t->inverse ? 1 / (double)t->length : 1;
  if (t->halved && in != 0 && 2 * in != t->length) weight *= 2;
  const double real = weight * cos(angle), turned = weight * sin(angle) * (t->inverse ? 1 : -1);
  double *block = matrix + in * t->parts_from * columns + out * t->parts_to;
  block[0] = real;
  if (t->parts_to == 2) block[1] = turned;
  if (t->parts_from == 1) return;
  block[columns] = -turned;
  if (t->parts_to == 2) block[columns + 1] = real;
}

static compute_status make_matrix(const transform *t, compute_dtype dtype, compute_node *matrix) {
  const int64_t rows = t->from * t->parts_from, columns = t->to * t->parts_to;
  if (rows > MOST_ELEMENTS || columns > MOST_ELEMENTS || rows * columns > MOST_ELEMENTS)
    return call_fail(t->call, COMPUTE_ERROR_UNSUPPORTED, "transforms of %" PRId64 " points",
                     t->length);
  double *values = call_allocate(t->call, (size_t)(rows * columns), sizeof *values);
  if (!values) return call_out_of_memory(t->call);
  for (int64_t in = 0; in < t->from; in++)
    for (int64_t out = 0; out < t->to; out++) fill_block(t, values, in, out);
  *matrix = op_numbers(t->call, dtype, COMPUTE_SHAPE(rows, columns), values);
  return COMPUTE_OK;
}

/* Transforms x [..., parts] along an axis. */
static compute_status apply(const transform *t, compute_node x, int32_t axis, compute_node *y) {
  compute_graph *graph = t->call->graph;
  compute_node matrix;
  compute_shape shape = compute_node_shape(graph, x);
  const compute_dtype dtype = compute_node_dtype(graph, x);
  const compute_status status = make_matrix(t, op_wide_dtype(dtype), &matrix);
  if (status) return status;
  if (shape_at(shape, axis) > t->from) x = compute_slice(graph, x, axis, 0, t->from, 1);
  x = op_move_axis(t->call, op_wide(t->call, x), axis, shape.rank - 2);
  shape = compute_node_shape(graph, x);
  const compute_node rows = compute_reshape(
      graph, x, COMPUTE_SHAPE(op_count(shape, 0, shape.rank - 2), t->from * t->parts_from));
  shape_set(&shape, shape.rank - 2, t->to);
  shape_set(&shape, shape.rank - 1, t->parts_to);
  x = compute_reshape(graph, compute_matmul(graph, rows, matrix), shape);
  *y = op_cast(t->call, op_move_axis(t->call, x, shape.rank - 2, axis), dtype);
  return COMPUTE_OK;
}

static compute_status check_signal(model_call *call, compute_shape shape, int64_t length) {
  const int64_t parts = shape.rank < 2 ? 0 : shape_at(shape, shape.rank - 1);
  if ((parts != 1 && parts != 2) || length < 1 || length > INT32_MAX)
    return call_fail(call, COMPUTE_ERROR_SHAPE,
                     "the signal's last axis must have 1 or 2 elements, and the length, %" PRId64
                     ", be positive",
                     length);
  return COMPUTE_OK;
}

static compute_status dft(model_call *call) {
  const compute_shape shape = call_shape(call, 0);
  const bool inverse = call_attribute_i(call, "inverse", 0) != 0;
  const bool onesided = call_attribute_i(call, "onesided", 0) != 0, halved = inverse && onesided;
  int64_t given = call->version < 20 ? call_attribute_i(call, "axis", 1) : -2, length;
  int32_t axis;
  compute_node y;
  compute_status status =
      call->version >= 20 && call_has(call, 2) ? call_integer(call, 2, &given) : COMPUTE_OK;
  if (!status) status = call_axis(call, given, shape.rank, &axis);
  if (status) return status;
  if (axis == shape.rank - 1)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "the axis must not be the last");
  length = halved ? 2 * (shape_at(shape, axis) - 1) : shape_at(shape, axis);
  if (call_has(call, 1)) status = call_integer(call, 1, &length);
  if (!status) status = check_signal(call, shape, length);
  if (status) return status;
  const int64_t half = length / 2 + 1;
  const transform t = {.call = call,
                       .length = length,
                       .from = min_i64(shape_at(shape, axis), halved ? half : length),
                       .to = onesided && !inverse ? half : length,
                       .parts_from = shape_at(shape, shape.rank - 1),
                       .parts_to = halved ? 1 : 2,
                       .inverse = inverse,
                       .halved = halved};
  status = apply(&t, call_input(call, 0), axis, &y);
  return status ? status : call_output(call, 0, y);
}

/* Cuts overlapping frames: [n, signal, parts] → [n, frames, length, parts]. */
static compute_node cut_frames(model_call *call, int64_t frames, int64_t length, int64_t step) {
  compute_graph *graph = call->graph;
  const compute_shape shape = COMPUTE_SHAPE(frames, length);
  const compute_node begin = compute_mul(graph, compute_index(graph, COMPUTE_I64, shape, 0),
                                         compute_scalar_i64(graph, COMPUTE_I64, step));
  const compute_node at = compute_add(graph, begin, compute_index(graph, COMPUTE_I64, shape, 1));
  compute_node x = compute_gather(graph, call_input(call, 0), at, 1);
  if (!call_has(call, 2)) return x;
  return compute_mul(graph, x,
                     compute_reshape(graph, call_input(call, 2), COMPUTE_SHAPE(length, 1)));
}

static compute_status stft(model_call *call) {
  const compute_shape shape = call_shape(call, 0), window = call_shape(call, 2);
  const bool onesided = call_attribute_i(call, "onesided", 1) != 0;
  int64_t step, length = shape_at(shape, 1);
  compute_node y;
  if (shape.rank != 3 || (call_has(call, 2) && window.rank != 1))
    return call_fail(call, COMPUTE_ERROR_SHAPE, "the signal must have rank 3, its window rank 1");
  if (call_has(call, 2)) length = shape_at(window, 0);
  compute_status status = call_integer(call, 1, &step);
  if (!status && call_has(call, 3)) status = call_integer(call, 3, &length);
  if (!status) status = check_signal(call, shape, length);
  if (status) return status;
  if (step < 1 || length > shape_at(shape, 1) ||
      (call_has(call, 2) && length != shape_at(window, 0)))
    return call_fail(call, COMPUTE_ERROR_SHAPE,
                     "frames of %" PRId64 ", %" PRId64 " apart, of a signal of %" PRId64, length,
                     step, shape_at(shape, 1));
  const transform t = {.call = call,
                       .length = length,
                       .from = length,
                       .to = onesided ? length / 2 + 1 : length,
                       .parts_from = shape_at(shape, 2),
                       .parts_to = 2};
  const int64_t frames = (shape_at(shape, 1) - length) / step + 1;
  status = apply(&t, cut_frames(call, frames, length, step), 2, &y);
  return status ? status : call_output(call, 0, y);
}

/* ---- Windows --------------------------------------------------------------------------------- */

static compute_status output_as_said(model_call *call, compute_shape shape, const double *values) {
  const int64_t type = call_attribute_i(call, "output_datatype", ONNX_FLOAT);
  const compute_dtype dtype =
      type > 0 && type < 64 ? onnx_dtype((int32_t)type) : COMPUTE_DTYPE_NONE;
  if (dtype == COMPUTE_DTYPE_NONE)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "output_datatype is %" PRId64, type);
  return call_output(call, 0, op_numbers(call, dtype, shape, values));
}

/* The window a + b · cos(t) + c · cos(2 · t), where t runs over one period. */
static compute_status cosine_window(model_call *call, double a, double b, double c) {
  int64_t size;
  const compute_status status = call_integer(call, 0, &size);
  if (status) return status;
  if (size < 0 || size > INT32_MAX)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "a window of %" PRId64 " elements", size);
  double *values = call_allocate(call, (size_t)size, sizeof *values);
  if (!values) return call_out_of_memory(call);
  const bool periodic = call_attribute_i(call, "periodic", 1) != 0;
  const double round = (double)(periodic ? size : max_i64(size - 1, 1));
  for (int64_t i = 0; i < size; i++) {
    const double turn = 2 * pi * (double)i / round;
    values[i] = a + b * cos(turn) + c * cos(2 * turn);
  }
  return output_as_said(call, COMPUTE_SHAPE(size), values);
}

static compute_status hann_window(model_call *call) {
  return cosine_window(call, 0.5, -0.5, 0);
}

static compute_status hamming_window(model_call *call) {
  return cosine_window(call, 25.0 / 46, -21.0 / 46, 0);
}

static compute_status blackman_window(model_call *call) {
  return cosine_window(call, 0.42, -0.5, 0.08);
}

/* ---- The mel scale --------------------------------------------------------------------------- */

typedef struct mel {
  int64_t bins, length, rate;
  double low, high;
} mel;

static double to_mel(double hertz) {
  return 2595 * log1p(hertz / 700) / log(10);
}

/* The spectrum bin of the i-th corner of the triangles; −1 if it is outside. */
static int64_t mel_corner(const mel *m, int64_t i) {
  const double low = to_mel(m->low), step = (to_mel(m->high) - low) / (double)(m->bins + 2);
  const double hertz = 700 * expm1(((double)i * step + low) / 2595 * log(10));
  const double bin = floor((double)(m->length + 1) * hertz / (double)m->rate);
  return bin >= 0 && bin <= (double)(m->length / 2) ? (int64_t)bin : -1;
}

/* Fills the column of triangle i, between its left and right corners. */
static bool fill_triangle(const mel *m, int64_t i, double *matrix) {
  const int64_t left = mel_corner(m, i), top = mel_corner(m, i + 1), right = mel_corner(m, i + 2);
  double *column = matrix + i;
  if (left < 0 || top < left || right < top) return false;
  for (int64_t k = left; k <= top; k++)
    column[k * m->bins] = top == left ? 1 : (double)(k - left) / (double)(top - left);
  for (int64_t k = top; k < right; k++)
    column[k * m->bins] = (double)(right - k) / (double)(right - top);
  return true;
}

static compute_status mel_weight_matrix(model_call *call) {
  mel m;
  compute_status status = call_integer(call, 0, &m.bins);
  if (!status) status = call_integer(call, 1, &m.length);
  if (!status) status = call_integer(call, 2, &m.rate);
  if (!status) status = call_number(call, 3, &m.low);
  if (!status) status = call_number(call, 4, &m.high);
  if (status) return status;
  if (m.bins < 1 || m.bins > INT32_MAX || m.length < 1 || m.length > INT32_MAX || m.rate < 1)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "%" PRId64 " bins of %" PRId64 " points", m.bins,
                     m.length);
  const int64_t rows = m.length / 2 + 1;
  double *values = call_allocate(call, (size_t)(rows * m.bins), sizeof *values);
  if (!values) return call_out_of_memory(call);
  for (int64_t i = 0; i < m.bins; i++)
    if (!fill_triangle(&m, i, values))
      return call_fail(call, COMPUTE_ERROR_INVALID_ARGUMENT,
                       "%g … %g Hz are not in the spectrum of the signal", m.low, m.high);
  return output_as_said(call, COMPUTE_SHAPE(rows, m.bins), values);
}

static const operator_row rows[] = {
    {"", "DFT", 17, dft},
    {"", "STFT", 17, stft},
    {"", "HannWindow", 17, hann_window},
    {"", "HammingWindow", 17, hamming_window},
    {"", "BlackmanWindow", 17, blackman_window},
    {"", "MelWeightMatrix", 17, mel_weight_matrix},
};

const operator_family operators_signal = OPERATOR_FAMILY(rows);
