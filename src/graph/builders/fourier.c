/* SPDX-License-Identifier: MIT */
/* Fourier transforms along one axis, and along several. */
#include "graph/builders/fourier.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/arithmetic.h"
#include "core/base/float_environment.h"
#include "core/kernel/kernel.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"

enum { MOST_AXES = 3 };

static void shape_drop_last(compute_shape *shape) {
  shape_set(shape, shape->rank - 1, 0);
  shape->rank--;
}

static compute_node record(compute_graph *graph, const char *operation, compute_node x,
                           int32_t axis, const compute_fourier_attributes *a, int64_t results) {
  uint32_t input;
  if (!build_operands(graph, operation, &x, 1, &input)) return BUILD_NONE;
  graph_node node = {.op = OP_fourier,
                     .dtype = build_at(graph, input)->dtype,
                     .shape = build_at(graph, input)->shape,
                     .attributes.axis = axis};
  if (a->real) {
    node.shape.rank++;
    shape_set(&node.shape, node.shape.rank - 1, 2);
  }
  if (a->halved) shape_drop_last(&node.shape);
  shape_set(&node.shape, axis, results);
  node.constant = graph_constant_create(1, sizeof *a);
  if (!node.constant)
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                      "not enough memory for a node");
  compute_fourier_attributes *own = node.constant;
  own->length = a->length;
  own->points = a->points;
  own->scale = a->scale;
  own->inverse = a->inverse;
  own->real = a->real;
  own->halved = a->halved;
  return build_node(graph, operation, &node, &input, 1);
}

compute_node build_fourier(compute_graph *graph, const char *operation, compute_node x,
                           int32_t axis, const compute_fourier_attributes *a, int64_t results) {
  const compute_dtype dtype = compute_node_dtype(graph, x);
  const compute_dtype work = dtype_compute_type(dtype);
  compute_fourier_attributes own = *a;
  own.points = shape_at(compute_node_shape(graph, x), axis);
  const int64_t most = own.halved ? own.length / 2 + 1 : own.length;
  if (own.points > most) {
    x = compute_slice(graph, x, axis, 0, most, 1);
    own.points = most;
  }
  if (work != dtype) x = compute_cast(graph, x, work);
  x = record(graph, operation, x, axis, &own, results);
  return work == dtype ? x : compute_cast(graph, x, dtype);
}

static double scale_of(int64_t length, compute_fft_norm norm, bool inverse) {
  if (norm == COMPUTE_FFT_ORTHO) return 1 / sqrt((double)length);
  return (norm == COMPUTE_FFT_FORWARD) != inverse ? 1 / (double)length : 1;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* The shape of x without the axis of parts. */
static bool check_operand(compute_graph *graph, const char *operation, compute_node x, bool real,
                          compute_fft_norm norm, compute_shape *shape) {
  uint32_t input;
  char text[BUILD_TEXT];
  if (!build_operands(graph, operation, &x, 1, &input) ||
      !build_domain(graph, operation, DOMAIN_FLOAT, build_at(graph, input)->dtype))
    return false;
  *shape = build_at(graph, input)->shape;
  if ((unsigned)norm > COMPUTE_FFT_FORWARD)
    return graph_refuse(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "invalid norm %d",
                        (int)norm);
  if (!real && (shape->rank < 2 || shape_at(*shape, shape->rank - 1) != 2))
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                        "x is %s; its last axis must have size 2, the real and imaginary part",
                        compute_shape_text(*shape, text, sizeof text));
  if (real && (shape->rank < 1 || shape->rank >= COMPUTE_MAX_RANK))
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation, "x is %s; it must have 1 to %d axes",
                        compute_shape_text(*shape, text, sizeof text), COMPUTE_MAX_RANK - 1);
  if (!real) shape_drop_last(shape);
  return true;
}

static bool check_length(compute_graph *graph, const char *operation, int64_t length) {
  if (kernel_fourier_takes(length)) return true;
  return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                      "a transform of %" PRId64 " points; it takes 1 to 2^27, and with prime "
                      "factors above 31 up to 2^22",
                      length);
}

/* The axes, counted from 0. */
static bool check_axes(compute_graph *graph, const char *operation, compute_shape shape,
                       compute_axes axes, int32_t *list, int32_t *count) {
  *count = axes.count == 0 ? shape.rank : axes.count;
  if (*count < 1 || *count > MOST_AXES)
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation, "%d axes; 1 to %d are allowed",
                        (int)*count, MOST_AXES);
  for (int32_t i = 0; i < *count; i++) {
    if (!build_axis(graph, operation, shape, axes.count == 0 ? i : axes.axis[i], &list[i]))
      return false;
    for (int32_t j = 0; j < i; j++)
      if (list[j] == list[i])
        return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation, "axis %d is given twice",
                            (int)list[i]);
  }
  return true;
}

/* ---- Builders -------------------------------------------------------------------------------- */

typedef struct fft_form {
  const char *operation;
  bool inverse, real, halved;
} fft_form;

static const fft_form fft = {.operation = "fft"}, ifft = {.operation = "ifft", .inverse = true};
static const fft_form rfft = {.operation = "rfft", .real = true};
static const fft_form irfft = {.operation = "irfft", .inverse = true, .halved = true};

static compute_node along_axis(compute_graph *graph, const fft_form *form, compute_node x,
                               int64_t length, int32_t axis, compute_fft_norm norm) {
  compute_fourier_attributes a = {
      .length = length, .inverse = form->inverse, .real = form->real, .halved = form->halved};
  a.scale = scale_of(length, norm, form->inverse);
  return build_fourier(graph, form->operation, x, axis, &a, form->real ? length / 2 + 1 : length);
}

static compute_node one_axis(compute_graph *graph, const fft_form *form, compute_node x,
                             int64_t length, int32_t axis, compute_fft_norm norm) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  compute_shape shape;
  if (!check_operand(graph, form->operation, x, form->real, norm, &shape) ||
      !build_axis(graph, form->operation, shape, axis, &axis))
    return BUILD_NONE;
  const int64_t points = shape_at(shape, axis);
  if (length == 0) length = form->halved ? 2 * (points - 1) : points;
  if (!check_length(graph, form->operation, length)) return BUILD_NONE;
  x = along_axis(graph, form, x, length, axis, norm);
  return graph->status ? BUILD_NONE : x;
}

/* Real numbers are transformed first along the last axis of the list, and back last. */
static compute_node several_axes(compute_graph *graph, const fft_form *form, const char *operation,
                                 compute_node x, int64_t length, compute_axes axes,
                                 compute_fft_norm norm) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  compute_shape shape;
  int32_t list[COMPUTE_MAX_RANK], count;
  if (!check_operand(graph, operation, x, form->real, norm, &shape) ||
      !check_axes(graph, operation, shape, axes, list, &count))
    return BUILD_NONE;
  for (int32_t i = 0; i < count; i++) {
    const bool last = i == count - 1;
    const int64_t points = shape_at(shape, list[i]);
    if (!last || !form->halved || length == 0)
      if (!check_length(graph, operation, last && form->halved ? 2 * (points - 1) : points))
        return BUILD_NONE;
  }
  const int64_t points = shape_at(shape, list[count - 1]);
  if (!form->halved) length = points;
  if (length == 0) length = 2 * (points - 1);
  if (!check_length(graph, operation, length)) return BUILD_NONE;
  fft_form named = *form, others = form->inverse ? ifft : fft;
  named.operation = others.operation = operation;
  if (!form->halved) x = along_axis(graph, &named, x, length, list[count - 1], norm);
  for (int32_t i = count - 2; i >= 0; i--)
    x = along_axis(graph, &others, x, shape_at(shape, list[i]), list[i], norm);
  if (form->halved) x = along_axis(graph, &named, x, length, list[count - 1], norm);
  return graph->status ? BUILD_NONE : x;
}

compute_node compute_fft(compute_graph *graph, compute_node x, int64_t length, int32_t axis,
                         compute_fft_norm norm) {
  return one_axis(graph, &fft, x, length, axis, norm);
}

compute_node compute_ifft(compute_graph *graph, compute_node x, int64_t length, int32_t axis,
                          compute_fft_norm norm) {
  return one_axis(graph, &ifft, x, length, axis, norm);
}

compute_node compute_rfft(compute_graph *graph, compute_node x, int64_t length, int32_t axis,
                          compute_fft_norm norm) {
  return one_axis(graph, &rfft, x, length, axis, norm);
}

compute_node compute_irfft(compute_graph *graph, compute_node x, int64_t length, int32_t axis,
                           compute_fft_norm norm) {
  return one_axis(graph, &irfft, x, length, axis, norm);
}

compute_node compute_fftn(compute_graph *graph, compute_node x, compute_axes axes,
                          compute_fft_norm norm) {
  return several_axes(graph, &fft, "fftn", x, 0, axes, norm);
}

compute_node compute_ifftn(compute_graph *graph, compute_node x, compute_axes axes,
                           compute_fft_norm norm) {
  return several_axes(graph, &ifft, "ifftn", x, 0, axes, norm);
}

compute_node compute_rfftn(compute_graph *graph, compute_node x, compute_axes axes,
                           compute_fft_norm norm) {
  return several_axes(graph, &rfft, "rfftn", x, 0, axes, norm);
}

compute_node compute_irfftn(compute_graph *graph, compute_node x, int64_t length, compute_axes axes,
                            compute_fft_norm norm) {
  return several_axes(graph, &irfft, "irfftn", x, length, axes, norm);
}
