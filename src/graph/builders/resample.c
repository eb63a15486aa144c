/* SPDX-License-Identifier: MIT */
/* Resizing, one axis after another. The host makes a table with the sources and weights of each
 * result element. The table is applied as gathers if it has few taps, or as a matrix product if it
 * has many taps on a short axis. compute_upsample2d (resize.c) has no tables: its nodes compute the
 * positions, so that a graph for training takes no memory for them. */
#include <inttypes.h>
#include <math.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "graph/builders/sample.h"

static bool out_of_memory(const resample *r) {
  return graph_refuse(r->graph, COMPUTE_ERROR_OUT_OF_MEMORY, r->operation, "out of memory");
}

/* ---- Source positions ------------------------------------------------------------------------ */

/* The source position of result element i. All steps round to f32 like the scales, so that a
 * third of 9 is 3. Aligned corners use the actual result size, which is the scaled size rounded
 * down, as in PyTorch, ONNX Runtime and OpenVINO. */
static float source_of(const resample *r, const resample_axis *a, int64_t i) {
  const float at = (float)i, from = (float)a->from, to = (float)a->to, scale = (float)a->scale;
  const float begin = (float)a->begin, end = (float)a->end;
  switch (r->coordinates) {
  case COMPUTE_RESIZE_ASYMMETRIC: return at / scale;
  case COMPUTE_RESIZE_ALIGN_CORNERS: return a->to > 1 ? at * (from - 1) / (to - 1) : 0;
  case COMPUTE_RESIZE_PYTORCH_HALF_PIXEL: return a->to > 1 ? (at + 0.5f) / scale - 0.5f : 0;
  case COMPUTE_RESIZE_HALF_PIXEL_SYMMETRIC:
    return from / 2 * (1 - to / (scale * from)) + (at + 0.5f) / scale - 0.5f;
  case RESAMPLE_CROP:
    if (a->to == 1) return 0.5f * (begin + end) * (from - 1);
    return begin * (from - 1) + at * (end - begin) * (from - 1) / (to - 1);
  case RESAMPLE_TF_HALF_PIXEL: return (at + 0.5f) / scale;
  default: return (at + 0.5f) / scale - 0.5f;
  }
}

/* Rounds to the nearest element. Two f32 roundings can move a position away from halfway, so a
 * tolerance applies. */
static double round_half(double at, bool up) {
  const double half = floor(at) + 0.5, error = 0x1p-22 * max_f64(fabs(at), 1);
  return fabs(at - half) <= error ? half + (up ? 0.5 : -0.5) : floor(at + 0.5);
}

static double round_source(const resample *r, const resample_axis *a, double at) {
  switch (r->rounding) {
  case COMPUTE_RESIZE_PREFER_FLOOR: return round_half(at, false);
  case COMPUTE_RESIZE_PREFER_CEIL: return round_half(at, true);
  case COMPUTE_RESIZE_FLOOR: return floor(at);
  case COMPUTE_RESIZE_CEIL: return ceil(at);
  default: return a->scale < 1 ? ceil(at) : floor(at);
  }
}

static int64_t into_axis(const resample_axis *a, double at) {
  if (!(at > 0)) return 0;
  return at < (double)a->from - 1 ? (int64_t)at : a->from - 1;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* Element i of the result is the sum of weights[i][k] · data[places[i][k]]. */
typedef struct table {
  int64_t taps;
  int64_t *places;
  double *weights;
} table;

static double weigh(const resample *r, double away) {
  const double a = r->cubic, t = fabs(away);
  if (r->mode == COMPUTE_RESIZE_LINEAR) return max_f64(1 - t, 0);
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

static void fill_row(const resample *r, const resample_axis *a, table *t, int64_t i,
                     double narrow) {
  const double source = (double)source_of(r, a, i);
  const double first = floor(source) - (double)(t->taps / 2) + 1;
  double sum = 0;
  for (int64_t k = 0; k < t->taps; k++) {
    const double at = first + (double)k;
    double weight = weigh(r, (at - source) * narrow);
    if (r->exclude_outside && (at < 0 || at > (double)a->from - 1)) weight = 0;
    t->places[i * t->taps + k] = into_axis(a, at);
    t->weights[i * t->taps + k] = weight;
    sum += weight;
  }
  if ((r->exclude_outside || narrow < 1) && sum != 0)
    for (int64_t k = 0; k < t->taps; k++) t->weights[i * t->taps + k] /= sum;
}

static bool allocate_table(const resample *r, const resample_axis *a, table *t) {
  int64_t count;
  if (!checked_multiply(a->to, t->taps, &count) || count > INT64_MAX / 16)
    return graph_refuse(r->graph, COMPUTE_ERROR_OVERFLOW, r->operation, "the result is too large");
  t->places = base_allocate((size_t)count, sizeof *t->places);
  t->weights = base_allocate((size_t)count, sizeof *t->weights);
  return (t->places && t->weights) || out_of_memory(r);
}

static bool make_table(const resample *r, const resample_axis *a, table *t) {
  if (r->mode == COMPUTE_RESIZE_NEAREST) {
    t->taps = 1;
    if (!allocate_table(r, a, t)) return false;
    for (int64_t i = 0; i < a->to; i++)
      t->places[i] = into_axis(a, round_source(r, a, (double)source_of(r, a, i)));
    return true;
  }
  const double narrow = r->antialias && a->scale < 1 ? a->scale : 1;
  const double reach = ceil((r->mode == COMPUTE_RESIZE_LINEAR ? 1 : 2) / narrow);
  if (!(reach < 1 << 24))
    return graph_refuse(r->graph, COMPUTE_ERROR_UNSUPPORTED, r->operation, "a scale of %g",
                        a->scale);
  t->taps = 2 * (int64_t)reach;
  if (!allocate_table(r, a, t)) return false;
  for (int64_t i = 0; i < a->to; i++) fill_row(r, a, t, i, narrow);
  return true;
}

/* ---- Along one axis -------------------------------------------------------------------------- */

/* The number of times that every element repeats in sequence; 0 if they do not. */
static int64_t repeats(const resample *r, const resample_axis *a, const table *t) {
  if (r->mode != COMPUTE_RESIZE_NEAREST || a->to % a->from != 0) return 0;
  const int64_t times = a->to / a->from;
  for (int64_t i = 0; i < a->to; i++)
    if (t->places[i] != i / times) return 0;
  return times;
}

/* Applies one column of the table, which is copied to `places` and `weights`. */
static compute_node gather_tap(const resample *r, compute_node x, int32_t axis, const table *t,
                               int64_t k, int64_t *places, double *weights) {
  compute_graph *graph = r->graph;
  const compute_shape shape = COMPUTE_SHAPE(r->axis[axis].to);
  for (int64_t i = 0; i < r->axis[axis].to; i++) {
    places[i] = t->places[i * t->taps + k];
    weights[i] = t->weights[i * t->taps + k];
  }
  const compute_node read = compute_gather(graph, x, part_integers(graph, shape, places), axis);
  if (r->mode == COMPUTE_RESIZE_NEAREST) return read;
  const compute_node weight = part_numbers(graph, compute_node_dtype(graph, x), shape, weights);
  return compute_mul(graph, read,
                     network_along(graph, weight, axis, compute_node_shape(graph, x).rank));
}

static compute_node apply_taps(const resample *r, compute_node x, int32_t axis, const table *t) {
  const size_t to = (size_t)r->axis[axis].to;
  int64_t *places = base_allocate(to, sizeof *places);
  double *weights = base_allocate(to, sizeof *weights);
  compute_node sum = BUILD_NONE;
  if (!places || !weights) out_of_memory(r);
  for (int64_t k = 0; k < t->taps && places && weights; k++) {
    const compute_node tap = gather_tap(r, x, axis, t, k, places, weights);
    sum = k == 0 ? tap : compute_add(r->graph, sum, tap);
  }
  base_release(places);
  base_release(weights);
  return sum;
}

static compute_node apply_matrix(const resample *r, compute_node x, int32_t axis,
                                 const resample_axis *a, const table *t) {
  compute_graph *graph = r->graph;
  compute_shape shape = compute_node_shape(graph, x);
  const int64_t outer = part_count(shape, 0, axis), inner = part_count(shape, axis + 1, shape.rank);
  const bool last = axis == shape.rank - 1;
  double *dense = base_allocate((size_t)a->to, (size_t)a->from * sizeof *dense);
  if (!dense) {
    out_of_memory(r);
    return BUILD_NONE;
  }
  for (int64_t i = 0; i < a->to; i++)
    for (int64_t k = 0; k < t->taps; k++) {
      const int64_t place = t->places[i * t->taps + k];
      dense[last ? place * a->to + i : i * a->from + place] += t->weights[i * t->taps + k];
    }
  const compute_node matrix =
      part_numbers(r->graph, compute_node_dtype(graph, x),
                   last ? COMPUTE_SHAPE(a->from, a->to) : COMPUTE_SHAPE(a->to, a->from), dense);
  base_release(dense);
  const compute_node rows = compute_reshape(
      graph, x, last ? COMPUTE_SHAPE(outer, a->from) : COMPUTE_SHAPE(outer, a->from, inner));
  shape_set(&shape, axis, a->to);
  return compute_reshape(
      graph, last ? compute_matmul(graph, rows, matrix) : compute_matmul(graph, matrix, rows),
      shape);
}

/* Gathering one element costs about as much as MATRIX_SPEED multiplications in a matrix product. */
enum { MATRIX_SPEED = 16 };

/* Where elements only repeat, sets *times instead of building: one copy serves several axes. */
static compute_node resize_along(const resample *r, compute_node x, int32_t axis, int64_t *times) {
  const resample_axis *a = &r->axis[axis];
  table t = {0};
  const bool made = make_table(r, a, &t);
  const int64_t count = made ? repeats(r, a, &t) : 0;
  if (!made)
    x = BUILD_NONE;
  else if (count > 0)
    *times = count;
  else if (r->mode == COMPUTE_RESIZE_NEAREST || t.taps < a->from / MATRIX_SPEED)
    x = apply_taps(r, x, axis, &t);
  else
    x = apply_matrix(r, x, axis, a, &t);
  base_release(t.places);
  base_release(t.weights);
  return x;
}

/* Replaces elements that were read outside of the data with the extrapolation value. */
static compute_node extrapolate(const resample *r, compute_node x) {
  for (int32_t axis = 0; axis < r->shape.rank; axis++) {
    const resample_axis *a = &r->axis[axis];
    uint8_t *outside = base_allocate((size_t)a->to, sizeof *outside);
    if (!outside) {
      out_of_memory(r);
      return BUILD_NONE;
    }
    bool any = false;
    for (int64_t i = 0; i < a->to; i++) {
      const double at = (double)source_of(r, a, i);
      outside[i] = !(at >= 0 && at <= (double)a->from - 1);
      any |= outside[i];
    }
    if (any) {
      const compute_node mask =
          compute_constant(r->graph, COMPUTE_BOOL, COMPUTE_SHAPE(a->to), outside);
      x = compute_select(r->graph, network_along(r->graph, mask, axis, r->shape.rank),
                         part_number(r->graph, x, r->extrapolation), x);
    }
    base_release(outside);
  }
  return x;
}

static bool is_unchanged(const resample *r, const resample_axis *a) {
  return a->from == a->to && fabs(a->scale - 1) < 1e-7 &&
         (r->coordinates != RESAMPLE_CROP || (a->begin == 0 && a->end == 1));
}

compute_node part_resize(const resample *r, compute_node x) {
  compute_graph *graph = r->graph;
  const compute_dtype dtype = compute_node_dtype(graph, x);
  compute_shape result = r->shape;
  for (int32_t axis = 0; axis < result.rank; axis++) shape_set(&result, axis, r->axis[axis].to);
  if (!build_size(graph, r->operation, result)) return BUILD_NONE;
  if (shape_count(result) == 0) return compute_full(graph, dtype, result, 0);
  compute_dtype work = dtype;
  if (r->mode != COMPUTE_RESIZE_NEAREST) {
    work = dtype_is_float(dtype)           ? part_wide_dtype(dtype)
           : compute_dtype_size(dtype) < 4 ? COMPUTE_F32
                                           : COMPUTE_F64;
  }
  x = part_cast(graph, x, work);
  int64_t times[COMPUTE_MAX_RANK];
  for (int32_t axis = r->shape.rank - 1; axis >= 0 && !graph->status; axis--) {
    times[axis] = 1;
    if (is_unchanged(r, &r->axis[axis])) continue;
    if (r->axis[axis].from < 1)
      return graph_fail(graph, COMPUTE_ERROR_SHAPE, r->operation, "axis %d has no elements",
                        (int)axis);
    x = resize_along(r, x, axis, &times[axis]);
  }
  if (!graph->status) x = part_repeat(graph, x, times, false);
  if (r->coordinates == RESAMPLE_CROP && !graph->status) x = extrapolate(r, x);
  return part_cast(graph, x, dtype);
}

/* ---- The operation --------------------------------------------------------------------------- */

static bool check_options(compute_graph *graph, const compute_resize_options *o) {
  static const char operation[] = "resize";
  if (!graph_check_reserved(graph, operation, "options", o->reserved)) return false;
  if ((unsigned)o->mode > COMPUTE_RESIZE_CUBIC ||
      (unsigned)o->coordinates > COMPUTE_RESIZE_ASYMMETRIC ||
      (unsigned)o->rounding > COMPUTE_RESIZE_CEIL)
    return graph_refuse(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                        "invalid mode %d, coordinates %d or rounding %d", (int)o->mode,
                        (int)o->coordinates, (int)o->rounding);
  for (int i = 0; i < COMPUTE_MAX_RANK; i++)
    if (o->scale[i] != 0 && !(o->scale[i] > 0 && isnormal((float)o->scale[i])))
      return graph_refuse(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                          "scale[%d] is %g; it must be positive, or 0 for the default", i,
                          o->scale[i]);
  return build_number(graph, operation, "cubic", COMPUTE_F32, o->cubic);
}

static bool set_axis(resample *r, int32_t axis, int64_t to, double scale) {
  enum { MOST_PLACES = 1 << 22, MOST_UNLIKE = 64 }; /* the graph stores the places of each axis */
  const int64_t from = shape_at(r->shape, axis);
  const double usual = from > 0 ? (double)to / (double)from : 1;
  if (to > MOST_PLACES && from > 0)
    return graph_refuse(r->graph, COMPUTE_ERROR_OVERFLOW, r->operation,
                        "axis %d would have %" PRId64 " elements; at most %d are possible",
                        (int)axis, to, MOST_PLACES);
  if (scale != 0 && usual > scale * MOST_UNLIKE) /* averages would have too many parts */
    return graph_refuse(r->graph, COMPUTE_ERROR_INVALID_ARGUMENT, r->operation,
                        "scale[%d] is %g; the sizes differ by %g", (int)axis, scale, usual);
  r->axis[axis] = (resample_axis){from, to, scale != 0 ? scale : usual, 0, 1};
  return true;
}

compute_node compute_resize(compute_graph *graph, compute_node x, compute_shape shape,
                            const compute_resize_options *options) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  static const compute_resize_options usual;
  const compute_resize_options *o = options ? options : &usual;
  uint32_t input;
  char text[2][BUILD_TEXT];
  if (!build_composed(graph, COMPOSITION_resize, &x, 1, &input) || !check_options(graph, o) ||
      !build_shape(graph, "resize", shape))
    return BUILD_NONE;
  resample r = {.graph = graph,
                .operation = "resize",
                .shape = build_at(graph, input)->shape,
                .mode = o->mode,
                .coordinates = (int)o->coordinates,
                .rounding = (int)o->rounding,
                .antialias = o->antialias,
                .exclude_outside = o->exclude_outside,
                .cubic = o->cubic != 0 ? o->cubic : -0.75};
  if (shape.rank != r.shape.rank)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, "resize", "x %s cannot become %s",
                      compute_shape_text(r.shape, text[0], sizeof text[0]),
                      compute_shape_text(shape, text[1], sizeof text[1]));
  for (int32_t i = 0; i < shape.rank; i++)
    if (!set_axis(&r, i, shape_at(shape, i), o->scale[i])) return BUILD_NONE;
  const compute_node y = part_resize(&r, x);
  return y.id == x.id ? build_same(graph, x) : y;
}
