/* SPDX-License-Identifier: MIT */
/* Fourier transforms, window functions and mel weights. */
#include "model/operators/operators.h"

#include <inttypes.h>
#include <math.h>

#include "compute/fft.h"
#include "core/base/arithmetic.h"
#include "core/type/shape.h"
#include "model/operators/op.h"

static const double pi = 3.14159265358979323846;

/* ---- Transforms ------------------------------------------------------------------------------ */

/* A transform of `length` points along an axis. */
typedef struct transform {
  int64_t length;
  int32_t axis;
  bool inverse, onesided;
} transform;

/* x [..., 1] as complex numbers. */
static compute_node make_complex(model_call *call, compute_node x) {
  compute_graph *graph = call->graph;
  const compute_shape shape = compute_node_shape(graph, x);
  const compute_node zero = compute_full(graph, compute_node_dtype(graph, x), shape, 0);
  return compute_concat(graph, (const compute_node[]){x, zero}, 2, shape.rank - 1);
}

/* x [..., parts], where parts is 1 or 2. A spectrum of real numbers is onesided, or the input of an
 * inverse transform may be. */
static compute_node apply(model_call *call, const transform *t, compute_node x) {
  compute_graph *graph = call->graph;
  compute_shape shape = compute_node_shape(graph, x);
  const int32_t last = shape.rank - 1;
  const compute_fft_norm norm = COMPUTE_FFT_BACKWARD;
  if (shape_at(shape, last) == 1 && t->onesided && !t->inverse) {
    shape_set(&shape, last, 0);
    shape.rank--;
    return compute_rfft(graph, compute_reshape(graph, x, shape), t->length, t->axis, norm);
  }
  if (shape_at(shape, last) == 1) x = make_complex(call, x);
  if (!t->inverse) {
    const compute_node y = compute_fft(graph, x, t->length, t->axis, norm);
    return t->onesided ? compute_slice(graph, y, t->axis, 0, t->length / 2 + 1, 1) : y;
  }
  if (!t->onesided) return compute_ifft(graph, x, t->length, t->axis, norm);
  shape_set(&shape, t->axis, t->length);
  shape_set(&shape, last, 1);
  return compute_reshape(graph, compute_irfft(graph, x, t->length, t->axis, norm), shape);
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
  const transform t = {.length = length, .axis = axis, .inverse = inverse, .onesided = onesided};
  return call_output(call, 0, apply(call, &t, call_input(call, 0)));
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
  const transform t = {.length = length, .axis = 2, .onesided = onesided};
  const int64_t frames = (shape_at(shape, 1) - length) / step + 1;
  return call_output(call, 0, apply(call, &t, cut_frames(call, frames, length, step)));
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
