/* SPDX-License-Identifier: MIT */
/* Compositions of Fourier transforms: shifts, convolutions, frames and cosines. */
#include <inttypes.h>
#include <math.h>

#include "core/base/arithmetic.h"
#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "graph/builders/fourier.h"

static const double pi = 3.14159265358979323846;

static compute_node result_of(compute_graph *graph, compute_node y) {
  return graph->status ? BUILD_NONE : y;
}

static int64_t size_of(const compute_graph *graph, compute_node x, int32_t axis) {
  return shape_at(compute_node_shape(graph, x), axis);
}

/* ---- Complex numbers ------------------------------------------------------------------------- */

/* Part 0 or 1 of complex x, with an axis of size 1. */
static compute_node part_of(compute_graph *graph, compute_node x, int64_t part) {
  return compute_slice(graph, x, compute_node_shape(graph, x).rank - 1, part, 1, 1);
}

static compute_node complex_of(compute_graph *graph, compute_node real, compute_node other) {
  return compute_concat(graph, (const compute_node[]){real, other}, 2,
                        compute_node_shape(graph, real).rank - 1);
}

static bool is_complex(compute_graph *graph, const char *operation, compute_node x) {
  uint32_t input;
  char text[BUILD_TEXT];
  if (!build_operands(graph, operation, &x, 1, &input) ||
      !build_domain(graph, operation, DOMAIN_FLOAT, build_at(graph, input)->dtype))
    return false;
  const compute_shape shape = build_at(graph, input)->shape;
  if (shape.rank > 0 && shape_at(shape, shape.rank - 1) == 2) return true;
  return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                      "%s is not complex: the last axis must have size 2",
                      compute_shape_text(shape, text, sizeof text));
}

compute_node compute_complex_mul(compute_graph *graph, compute_node a, compute_node b) {
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "complex_mul";
  if (!is_complex(graph, operation, a) || !is_complex(graph, operation, b)) return BUILD_NONE;
  const compute_node ar = part_of(graph, a, 0), ai = part_of(graph, a, 1);
  const compute_node br = part_of(graph, b, 0), bi = part_of(graph, b, 1);
  const compute_node r = compute_sub(graph, compute_mul(graph, ar, br), compute_mul(graph, ai, bi));
  const compute_node i = compute_add(graph, compute_mul(graph, ar, bi), compute_mul(graph, ai, br));
  return result_of(graph, complex_of(graph, r, i));
}

/* The elements of an axis in the opposite order. */
static compute_node backward_along(compute_graph *graph, compute_node x, int32_t axis) {
  const int64_t size = size_of(graph, x, axis);
  const compute_node at = compute_index(graph, COMPUTE_I64, COMPUTE_SHAPE(size), 0);
  const compute_node last = compute_scalar_i64(graph, COMPUTE_I64, size - 1);
  return compute_gather(graph, x, compute_sub(graph, last, at), axis);
}

/* ---- Shifts ---------------------------------------------------------------------------------- */

/* The elements from `first` on, then those before it. */
static compute_node roll(compute_graph *graph, compute_node x, int32_t axis, int64_t first) {
  const int64_t size = size_of(graph, x, axis);
  if (first == 0 || first == size) return x;
  const compute_node parts[] = {compute_slice(graph, x, axis, first, size - first, 1),
                                compute_slice(graph, x, axis, 0, first, 1)};
  return compute_concat(graph, parts, 2, axis);
}

static compute_node shift(compute_graph *graph, const char *operation, compute_node x,
                          compute_axes axes, bool back) {
  BUILD_ALL_OR_NOTHING(graph);
  uint32_t input;
  if (!build_operands(graph, operation, &x, 1, &input)) return BUILD_NONE;
  const compute_shape shape = build_at(graph, input)->shape;
  const int32_t count = axes.count == 0 ? shape.rank : axes.count;
  compute_node y = build_same(graph, x);
  for (int32_t i = 0; i < count; i++) {
    int32_t axis;
    if (!build_axis(graph, operation, shape, axes.count == 0 ? i : axes.axis[i], &axis))
      return BUILD_NONE;
    const int64_t size = shape_at(shape, axis);
    y = roll(graph, y, axis, back ? size / 2 : size - size / 2);
  }
  return result_of(graph, y);
}

compute_node compute_fftshift(compute_graph *graph, compute_node x, compute_axes axes) {
  return shift(graph, "fftshift", x, axes, false);
}

compute_node compute_ifftshift(compute_graph *graph, compute_node x, compute_axes axes) {
  return shift(graph, "ifftshift", x, axes, true);
}

/* ---- Convolution ----------------------------------------------------------------------------- */

/* The least even number ≥ n without primes above 5. */
static int64_t smooth_length(int64_t n) {
  int64_t best = INT64_MAX;
  for (int64_t five = 1; five < 2 * n; five *= 5)
    for (int64_t length = five; length < 2 * n; length *= 3) {
      int64_t own = length * 2;
      while (own < n) own *= 2;
      best = min_i64(best, own);
    }
  return best;
}

static bool check_lines(compute_graph *graph, const char *operation, compute_node a, compute_node b,
                        int32_t *axis) {
  const compute_node operands[] = {a, b};
  uint32_t inputs[2];
  int32_t other;
  if (!build_operands(graph, operation, operands, 2, inputs)) return false;
  const graph_node *x = build_at(graph, inputs[0]), *y = build_at(graph, inputs[1]);
  if (!build_domain(graph, operation, DOMAIN_FLOAT, x->dtype) ||
      !build_same_dtype(graph, operation, x->dtype, y->dtype) ||
      !build_axis(graph, operation, x->shape, *axis, &other) ||
      !build_axis(graph, operation, y->shape, *axis, axis))
    return false;
  if (x->shape.rank != y->shape.rank)
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                        "operands with %d and %d axes; they must have the same number",
                        (int)x->shape.rank, (int)y->shape.rank);
  if (shape_at(x->shape, *axis) < 1 || shape_at(y->shape, *axis) < 1 ||
      shape_at(x->shape, *axis) > INT32_MAX / 64 || shape_at(y->shape, *axis) > INT32_MAX / 64)
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                        "lines of %" PRId64 " and %" PRId64 " points", shape_at(x->shape, *axis),
                        shape_at(y->shape, *axis));
  return true;
}

static compute_node convolve(compute_graph *graph, const char *operation, compute_node a,
                             compute_node b, int32_t axis, bool backward) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  if (!check_lines(graph, operation, a, b, &axis)) return BUILD_NONE;
  const int64_t n = size_of(graph, a, axis), m = size_of(graph, b, axis);
  const int64_t length = smooth_length(n + m - 1);
  if (backward) b = backward_along(graph, b, axis);
  const compute_node x = compute_rfft(graph, a, length, axis, COMPUTE_FFT_BACKWARD);
  const compute_node y = compute_rfft(graph, b, length, axis, COMPUTE_FFT_BACKWARD);
  const compute_node product = graph->status ? BUILD_NONE : compute_complex_mul(graph, x, y);
  const compute_node z = compute_irfft(graph, product, length, axis, COMPUTE_FFT_BACKWARD);
  return result_of(graph, compute_slice(graph, z, axis, 0, n + m - 1, 1));
}

compute_node compute_fft_convolve(compute_graph *graph, compute_node a, compute_node b,
                                  int32_t axis) {
  return convolve(graph, "fft_convolve", a, b, axis, false);
}

compute_node compute_fft_correlate(compute_graph *graph, compute_node a, compute_node b,
                                   int32_t axis) {
  return convolve(graph, "fft_correlate", a, b, axis, true);
}

/* ---- Windows and frames ---------------------------------------------------------------------- */

/* factor · (offset + position) along an axis of `count`, as a vector. */
static compute_node angles(compute_graph *graph, compute_dtype dtype, int64_t count,
                           double factor) {
  const compute_node at = compute_index(graph, dtype, COMPUTE_SHAPE(count), 0);
  return compute_mul(graph, at, compute_scalar(graph, dtype, factor));
}

compute_node compute_fft_window(compute_graph *graph, compute_dtype dtype,
                                compute_fft_window_shape window, int64_t length) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "fft_window";
  static const double weights[][3] = {
      {0.5, -0.5, 0}, {0.54, -0.46, 0}, {0.42, -0.5, 0.08}, {1, 0, 0}};
  if (!build_start(graph, operation) || !build_dtype(graph, operation, dtype) ||
      !build_domain(graph, operation, DOMAIN_FLOAT, dtype))
    return BUILD_NONE;
  if ((unsigned)window > COMPUTE_FFT_WINDOW_BOX)
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "invalid window %d",
                      (int)window);
  if (length < 1 || length > INT32_MAX)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation, "a window of %" PRId64 " elements",
                      length);
  const double *w = weights[window];
  compute_node y = compute_full(graph, COMPUTE_F64, COMPUTE_SHAPE(length), w[0]);
  for (int k = 1; k < 3 && window != COMPUTE_FFT_WINDOW_BOX; k++)
    y = compute_add(graph, y,
                    compute_mul(graph, compute_scalar(graph, COMPUTE_F64, w[k]),
                                compute_cos(graph, angles(graph, COMPUTE_F64, length,
                                                          2 * pi * k / (double)length))));
  return result_of(graph, compute_cast(graph, y, dtype));
}

/* Sets the window's length. */
static bool check_window(compute_graph *graph, const char *operation, compute_node x,
                         compute_node window, int64_t hop, int64_t *length) {
  const compute_node operands[] = {x, window};
  uint32_t inputs[2];
  char text[BUILD_TEXT];
  if (!build_operands(graph, operation, operands, 2, inputs)) return false;
  const graph_node *a = build_at(graph, inputs[0]), *w = build_at(graph, inputs[1]);
  if (!build_domain(graph, operation, DOMAIN_FLOAT, a->dtype) ||
      !build_same_dtype(graph, operation, a->dtype, w->dtype))
    return false;
  if (w->shape.rank != 1 || shape_at(w->shape, 0) < 1 || shape_at(w->shape, 0) > INT32_MAX)
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                        "the window is %s; it must be a vector",
                        compute_shape_text(w->shape, text, sizeof text));
  if (hop < 1 || hop > INT32_MAX)
    return graph_refuse(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                        "a hop of %" PRId64 " samples; it must be at least 1", hop);
  *length = shape_at(w->shape, 0);
  return true;
}

/* The sample that each element of each frame reads, [frames, length]. */
static compute_node frame_places(compute_graph *graph, int64_t frames, int64_t length,
                                 int64_t hop) {
  const compute_shape shape = COMPUTE_SHAPE(frames, length);
  const compute_node first = compute_mul(graph, compute_index(graph, COMPUTE_I64, shape, 0),
                                         compute_scalar_i64(graph, COMPUTE_I64, hop));
  return compute_add(graph, first, compute_index(graph, COMPUTE_I64, shape, 1));
}

compute_node compute_stft(compute_graph *graph, compute_node x, compute_node window, int64_t hop) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "stft";
  int64_t length;
  if (!check_window(graph, operation, x, window, hop, &length)) return BUILD_NONE;
  const compute_shape shape = compute_node_shape(graph, x);
  const int32_t axis = shape.rank - 1;
  if (shape.rank < 1 || shape.rank > COMPUTE_MAX_RANK - 2 || shape_at(shape, axis) < length)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "x must have 1 to %d axes, and its last %" PRId64 " samples or more",
                      COMPUTE_MAX_RANK - 2, length);
  const int64_t frames = (shape_at(shape, axis) - length) / hop + 1;
  const compute_node cut = compute_gather(graph, x, frame_places(graph, frames, length, hop), axis);
  const compute_node y = compute_mul(graph, cut, window);
  return result_of(graph, compute_rfft(graph, y, 0, axis + 1, COMPUTE_FFT_BACKWARD));
}

compute_node compute_istft(compute_graph *graph, compute_node spectra, compute_node window,
                           int64_t hop) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "istft";
  int64_t length;
  if (!check_window(graph, operation, spectra, window, hop, &length) ||
      !is_complex(graph, operation, spectra))
    return BUILD_NONE;
  const compute_shape shape = compute_node_shape(graph, spectra);
  if (shape.rank < 3 || shape_at(shape, shape.rank - 3) < 1 ||
      shape_at(shape, shape.rank - 3) > INT32_MAX)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "spectra must have axes for frames, points and parts");
  const int32_t axis = shape.rank - 3;
  const int64_t frames = shape_at(shape, axis), samples = (frames - 1) * hop + length;
  const compute_dtype dtype = compute_node_dtype(graph, spectra);
  const compute_node places = frame_places(graph, frames, length, hop);
  compute_node x = compute_irfft(graph, spectra, length, axis + 1, COMPUTE_FFT_BACKWARD);
  if (graph->status) return BUILD_NONE;
  x = compute_scatter_add(graph, compute_mul(graph, x, window), places, axis, samples);
  const compute_node squares =
      compute_broadcast(graph, compute_square(graph, window), COMPUTE_SHAPE(frames, length));
  const compute_node weight = compute_scatter_add(graph, squares, places, 0, samples);
  const compute_node zero = compute_scalar(graph, dtype, 0), one = compute_scalar(graph, dtype, 1);
  const compute_node covered = compute_greater(graph, weight, zero);
  const compute_node divisor = compute_select(graph, covered, weight, one);
  return result_of(graph, compute_div(graph, x, divisor));
}

/* ---- Cosines --------------------------------------------------------------------------------- */

/* A vector of `first`, then `others`. */
static compute_node weights(compute_graph *graph, compute_dtype dtype, int64_t count, double first,
                            double others) {
  const compute_node at = compute_index(graph, COMPUTE_I64, COMPUTE_SHAPE(count), 0);
  const compute_node is_first = compute_equal(graph, at, compute_scalar_i64(graph, COMPUTE_I64, 0));
  return compute_select(graph, is_first, compute_scalar(graph, dtype, first),
                        compute_scalar(graph, dtype, others));
}

compute_node compute_dct(compute_graph *graph, compute_node x, int32_t type, int32_t axis,
                         compute_fft_norm norm) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "dct";
  uint32_t input;
  if (!build_operands(graph, operation, &x, 1, &input) ||
      !build_domain(graph, operation, DOMAIN_FLOAT, build_at(graph, input)->dtype))
    return BUILD_NONE;
  const compute_shape shape = build_at(graph, input)->shape;
  const compute_dtype dtype = build_at(graph, input)->dtype, work = dtype_compute_type(dtype);
  if (!build_axis(graph, operation, shape, axis, &axis)) return BUILD_NONE;
  if ((type != 2 && type != 3) || (unsigned)norm > COMPUTE_FFT_FORWARD)
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                      "type %d, norm %d; types are 2 and 3", (int)type, (int)norm);
  const int64_t n = shape_at(shape, axis);
  if (n < 1 || n > INT32_MAX / 64 || shape.rank >= COMPUTE_MAX_RANK)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "%" PRId64 " points of %d axes; it takes 1 to 2^25 points and up to %d axes",
                      n, (int)shape.rank, COMPUTE_MAX_RANK - 1);
  const double all = norm == COMPUTE_FFT_ORTHO     ? sqrt(0.5 / (double)n)
                     : norm == COMPUTE_FFT_FORWARD ? 0.5 / (double)n
                                                   : 1;
  const double ends = norm != COMPUTE_FFT_ORTHO ? 1 : type == 2 ? sqrt(0.5) : sqrt(2);
  /* Point k is turned by k quarter points of 2n. */
  const compute_node scale = weights(graph, COMPUTE_F64, n, all * ends, all);
  const compute_node turn = angles(graph, COMPUTE_F64, n, pi / (2 * (double)n));
  const compute_node c = network_along(
      graph, compute_cast(graph, compute_mul(graph, compute_cos(graph, turn), scale), work), axis,
      shape.rank);
  const compute_node s = network_along(
      graph, compute_cast(graph, compute_mul(graph, compute_sin(graph, turn), scale), work), axis,
      shape.rank);
  compute_node y = compute_cast(graph, x, work);
  if (type == 2) {
    const compute_node parts[] = {y, backward_along(graph, y, axis)};
    y = compute_rfft(graph, compute_concat(graph, parts, 2, axis), 0, axis, COMPUTE_FFT_BACKWARD);
    y = compute_slice(graph, y, axis, 0, n, 1);
    if (graph->status) return BUILD_NONE;
    const compute_node r = compute_reshape(graph, part_of(graph, y, 0), shape);
    const compute_node i = compute_reshape(graph, part_of(graph, y, 1), shape);
    y = compute_add(graph, compute_mul(graph, r, c), compute_mul(graph, i, s));
  } else {
    compute_shape parted = shape;
    parted.rank++;
    shape_set(&parted, parted.rank - 1, 1);
    const compute_node r = compute_reshape(graph, compute_mul(graph, y, c), parted);
    const compute_node i = compute_reshape(graph, compute_mul(graph, y, s), parted);
    if (graph->status) return BUILD_NONE;
    y = compute_irfft(graph, complex_of(graph, r, i), 2 * n, axis, COMPUTE_FFT_FORWARD);
    y = compute_slice(graph, y, axis, 0, n, 1);
  }
  return result_of(graph, compute_cast(graph, y, dtype));
}
