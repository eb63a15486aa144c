/* SPDX-License-Identifier: MIT */
/* Padding and resizing, composed of joins, gathers and views. */
#include <inttypes.h>
#include <string.h>

#include "core/base/arithmetic.h"
#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "graph/builders/parts.h"

/* Nodes compute the slices of the operand that a result uses along an axis. So the graph needs no
 * memory for them, even for a long axis. An impossible result is refused before any large
 * allocation. */

static compute_node number(compute_graph *graph, double value) {
  return compute_scalar(graph, COMPUTE_F64, value);
}

static compute_node integer(compute_graph *graph, int64_t value) {
  return compute_scalar_i64(graph, COMPUTE_I64, value);
}

/* ---- Padding --------------------------------------------------------------------------------- */

typedef struct pad_call {
  compute_graph *graph;
  compute_node x;
  compute_dtype dtype;
  compute_shape shape;
  int32_t axis;
  int64_t before, after, total;
  build_element value;
} pad_call;

/* A padding of zeros needs no tensor besides x. */
static compute_node pad_constant(const pad_call *p) {
  static const build_element zero;
  if (memcmp(&p->value, &zero, sizeof zero) == 0)
    return compute_embed(p->graph, p->x, p->axis, p->total, p->before, 1);
  compute_shape shape = p->shape;
  compute_node parts[3];
  size_t count = 0;
  shape_set(&shape, p->axis, p->before);
  if (p->before > 0) parts[count++] = build_uniform(p->graph, "pad", p->dtype, shape, &p->value);
  parts[count++] = p->x;
  shape_set(&shape, p->axis, p->after);
  if (p->after > 0) parts[count++] = build_uniform(p->graph, "pad", p->dtype, shape, &p->value);
  return compute_concat(p->graph, parts, count, p->axis);
}

static compute_node repeat_edge(const pad_call *p, int64_t position, int64_t count) {
  compute_shape shape = p->shape;
  shape_set(&shape, p->axis, count);
  return compute_broadcast(p->graph, compute_slice(p->graph, p->x, p->axis, position, 1, 1), shape);
}

static compute_node pad_edge(const pad_call *p) {
  compute_node parts[3];
  size_t count = 0;
  if (p->before > 0) parts[count++] = repeat_edge(p, 0, p->before);
  parts[count++] = p->x;
  if (p->after > 0) parts[count++] = repeat_edge(p, shape_at(p->shape, p->axis) - 1, p->after);
  return compute_concat(p->graph, parts, count, p->axis);
}

/* The element at each position modulo a period: the axis, or the axis there and back. Positions in
 * front of the axis are moved into the period first. */
static compute_node pad_periodic(const pad_call *p, bool wrap) {
  compute_graph *graph = p->graph;
  const int64_t size = shape_at(p->shape, p->axis);
  const int64_t period = wrap ? size : size > 1 ? 2 * (size - 1) : 1;
  const compute_node turn = integer(graph, period);
  compute_node at = compute_index(graph, COMPUTE_I64, COMPUTE_SHAPE(p->total), 0);
  at = compute_add(graph, at, integer(graph, (period - p->before % period) % period));
  at = compute_mod(graph, at, turn);
  if (!wrap) at = compute_minimum(graph, at, compute_sub(graph, turn, at));
  return compute_gather(graph, p->x, at, p->axis);
}

/* Reflects the positions at 0, then at the last element: faster where one reflection is enough. */
static compute_node pad_reflect(const pad_call *p) {
  compute_graph *graph = p->graph;
  const compute_node last = integer(graph, shape_at(p->shape, p->axis) - 1);
  compute_node at = compute_index(graph, COMPUTE_I64, COMPUTE_SHAPE(p->total), 0);
  at = compute_abs(graph, compute_sub(graph, at, integer(graph, p->before)));
  at = compute_sub(graph, last, compute_abs(graph, compute_sub(graph, at, last)));
  return compute_gather(graph, p->x, at, p->axis);
}

static bool check_pad(const pad_call *p, compute_pad_mode mode) {
  char text[BUILD_TEXT];
  const int64_t size = shape_at(p->shape, p->axis);
  compute_shape_text(p->shape, text, sizeof text);
  if (mode == COMPUTE_PAD_CONSTANT) return true;
  if ((unsigned)mode > COMPUTE_PAD_WRAP)
    return graph_refuse(p->graph, COMPUTE_ERROR_INVALID_ARGUMENT, "pad",
                        "invalid mode %d; modes are COMPUTE_PAD_CONSTANT, _EDGE, _REFLECT and "
                        "_WRAP",
                        (int)mode);
  if (size > 0 || p->before + p->after == 0) return true;
  return graph_refuse(p->graph, COMPUTE_ERROR_SHAPE, "pad",
                      "%s has no elements to repeat along axis %d", text, (int)p->axis);
}

static compute_shape padded_shape(const pad_call *p) {
  compute_shape padded = p->shape;
  shape_set(&padded, p->axis, p->total);
  return padded;
}

/* Reads and checks all arguments except the value. */
static bool read_pad(pad_call *p, int32_t axis, compute_pad_mode mode) {
  uint32_t input;
  compute_graph *graph = p->graph;
  if (!build_operands(graph, "pad", &p->x, 1, &input)) return false;
  p->dtype = build_at(graph, input)->dtype;
  p->shape = build_at(graph, input)->shape;
  if (!build_axis(graph, "pad", p->shape, axis, &p->axis)) return false;
  if (p->before < 0 || p->after < 0) {
    return graph_refuse(graph, COMPUTE_ERROR_INVALID_ARGUMENT, "pad",
                        "before is %" PRId64 " and after %" PRId64 "; they must be at least 0",
                        p->before, p->after);
  }
  if (!checked_add(shape_at(p->shape, p->axis), p->before, &p->total) ||
      !checked_add(p->total, p->after, &p->total)) {
    return graph_refuse(graph, COMPUTE_ERROR_OVERFLOW, "pad",
                        "the size of the padded axis exceeds 63 bits");
  }
  return check_pad(p, mode) && build_size(graph, "pad", padded_shape(p));
}

static compute_node pad(const pad_call *p, compute_pad_mode mode) {
  const compute_shape shape = padded_shape(p);
  if (p->before == 0 && p->after == 0) return build_same(p->graph, p->x);
  if (shape_count(shape) == 0) return compute_reshape(p->graph, p->x, shape);
  if (mode == COMPUTE_PAD_CONSTANT) return pad_constant(p);
  if (mode == COMPUTE_PAD_EDGE) return pad_edge(p);
  const int64_t size = shape_at(p->shape, p->axis);
  const bool once = mode == COMPUTE_PAD_REFLECT && p->before < size && p->after < size;
  return once ? pad_reflect(p) : pad_periodic(p, mode == COMPUTE_PAD_WRAP);
}

compute_node compute_pad(compute_graph *graph, compute_node x, int32_t axis, int64_t before,
                         int64_t after, compute_pad_mode mode, double value) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  pad_call p = {.graph = graph, .x = x, .before = before, .after = after};
  if (!read_pad(&p, axis, mode) ||
      (mode == COMPUTE_PAD_CONSTANT &&
       !build_element_of(graph, "pad", "value", p.dtype, value, &p.value))) {
    return BUILD_NONE;
  }
  return pad(&p, mode);
}

compute_node compute_pad_i64(compute_graph *graph, compute_node x, int32_t axis, int64_t before,
                             int64_t after, compute_pad_mode mode, int64_t value) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  pad_call p = {.graph = graph, .x = x, .before = before, .after = after};
  if (!read_pad(&p, axis, mode) ||
      (mode == COMPUTE_PAD_CONSTANT &&
       !build_element_of_i64(graph, "pad", "value", p.dtype, value, &p.value))) {
    return BUILD_NONE;
  }
  return pad(&p, mode);
}

/* ---- Upsampling ------------------------------------------------------------------------------ */

/* Resizes one axis to `to` elements. */
typedef struct resize {
  int64_t from, to;
} resize;

/* 0 … to − 1 in f64, which is exact below 2^53. */
static compute_node positions(compute_graph *graph, const resize *r) {
  return compute_index(graph, COMPUTE_F64, COMPUTE_SHAPE(r->to), 0);
}

/* Positions as indices, at most the last element of the operand. */
static compute_node as_index(compute_graph *graph, compute_node at, const resize *r) {
  return compute_minimum(graph, compute_cast(graph, at, COMPUTE_I64), integer(graph, r->from - 1));
}

static compute_node nearest(compute_graph *graph, compute_node x, int32_t axis, const resize *r) {
  const compute_node i = positions(graph, r);
  const compute_node at = compute_mul(graph, i, number(graph, (double)r->from / (double)r->to));
  return compute_gather(graph, x, as_index(graph, at, r), axis);
}

/* The centre of each result pixel, in coordinates of the operand's pixel centres. */
static compute_node middles(compute_graph *graph, const resize *r) {
  const compute_node i = positions(graph, r), half = number(graph, 0.5);
  const compute_node scale = number(graph, (double)r->from / (double)r->to);
  const compute_node at =
      compute_sub(graph, compute_mul(graph, compute_add(graph, i, half), scale), half);
  return compute_relu(graph, at);
}

/* Linear interpolation between two neighbours. */
static compute_node interpolate(compute_graph *graph, compute_node x, int32_t axis,
                                const resize *r) {
  const compute_dtype dtype = compute_node_dtype(graph, x);
  const compute_node middle = middles(graph, r), left = as_index(graph, middle, r);
  const compute_node next = compute_add(graph, left, integer(graph, 1));
  const compute_node right = compute_minimum(graph, next, integer(graph, r->from - 1));
  compute_node weight = compute_sub(graph, middle, compute_cast(graph, left, COMPUTE_F64));
  if (dtype != COMPUTE_F64) weight = compute_cast(graph, weight, dtype);
  weight = network_along(graph, weight, axis, 4);
  compute_node a = compute_gather(graph, x, left, axis);
  compute_node b = compute_gather(graph, x, right, axis);
  return compute_add(graph, a, compute_mul(graph, compute_sub(graph, b, a), weight));
}

compute_node compute_upsample2d(compute_graph *graph, compute_node x, int64_t height, int64_t width,
                                compute_upsample_mode mode) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "upsample2d";
  const int64_t sizes[2] = {height, width};
  uint32_t input;
  char text[BUILD_TEXT];
  if (!build_operands(graph, operation, &x, 1, &input)) return BUILD_NONE;
  const compute_dtype dtype = build_at(graph, input)->dtype;
  const compute_shape shape = build_at(graph, input)->shape;
  compute_shape_text(shape, text, sizeof text);
  if (!build_domain(graph, operation, DOMAIN_FLOAT, dtype)) return BUILD_NONE;
  if (mode != COMPUTE_UPSAMPLE_NEAREST && mode != COMPUTE_UPSAMPLE_BILINEAR) {
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                      "invalid mode %d; modes are COMPUTE_UPSAMPLE_NEAREST and _BILINEAR",
                      (int)mode);
  }
  if (shape.rank != 4 || shape_at(shape, 2) < 1 || shape_at(shape, 3) < 1 || height < 1 ||
      width < 1) {
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "x %s to %" PRId64 " × %" PRId64 "; x must be [batch,channels,height,width], "
                      "and no image empty",
                      text, height, width);
  }
  const compute_shape result = COMPUTE_SHAPE(shape_at(shape, 0), shape_at(shape, 1), height, width);
  if (!build_size(graph, operation, result)) return BUILD_NONE;
  if (shape_count(result) == 0) return compute_reshape(graph, x, result);
  if (compute_shape_equal(result, shape)) return build_same(graph, x);
  const bool bilinear = mode == COMPUTE_UPSAMPLE_BILINEAR, wide = bilinear && dtype != COMPUTE_F64;
  if (wide && dtype != COMPUTE_F32) x = compute_cast(graph, x, COMPUTE_F32);
  /* Columns first: they cost more than contiguous rows, and there are fewer of them before the rows
   * are enlarged. */
  int64_t times[4] = {1, 1, 1, 1};
  for (int32_t i = 1; i >= 0 && !graph->status; i--) {
    const resize r = {.from = shape_at(shape, 2 + i), .to = sizes[i]};
    if (r.from == r.to) continue;
    if (bilinear)
      x = interpolate(graph, x, 2 + i, &r);
    else if (r.to % r.from == 0)
      times[2 + i] = r.to / r.from;
    else
      x = nearest(graph, x, 2 + i, &r);
  }
  if (!graph->status) x = part_repeat(graph, x, times, false);
  return wide && dtype != COMPUTE_F32 ? compute_cast(graph, x, dtype) : x;
}
