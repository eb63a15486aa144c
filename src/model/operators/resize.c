/* SPDX-License-Identifier: MIT */
/* Resizing of images. Resize handles one axis after another. The host makes a table with the
 * sources and weights of each result element. The table is applied as gathers if it has few
 * taps, or as a matrix product if it has many taps on a short axis. */
#include "model/operators/operators.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/arithmetic.h"
#include "core/type/shape.h"
#include "model/operators/op.h"
#include "model/operators/sample.h"

typedef enum resize_coordinates {
  HALF_PIXEL,
  HALF_PIXEL_SYMMETRIC,
  PYTORCH_HALF_PIXEL,
  ALIGN_CORNERS,
  ASYMMETRIC,
  CROP_AND_RESIZE,
  TF_HALF_PIXEL_FOR_NN, /* opset 11 and 12 */
  COORDINATES_COUNT
} resize_coordinates;

static const char *const coordinates_names[] = {
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",  "align_corners",
    "asymmetric", "tf_crop_and_resize",   "tf_half_pixel_for_nn"};

typedef enum resize_rounding {
  PREFER_FLOOR,
  PREFER_CEIL,
  TO_FLOOR,
  TO_CEIL,
  OUTWARD, /* before opset 11: floor when enlarging, ceil when shrinking */
  ROUNDINGS_COUNT
} resize_rounding;

static const char *const rounding_names[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                             "ceil", ""};

typedef enum resize_mode { NEAREST, LINEAR, CUBIC, MODES_COUNT } resize_mode;

static const char *const mode_names[] = {"nearest", "linear", "cubic"};

/* One axis. */
typedef struct resize_axis {
  int64_t from, to;
  double scale;
  double begin, end; /* of the region, as fractions of the axis */
} resize_axis;

typedef struct resize {
  model_call *call;
  compute_graph *graph;
  compute_shape shape;
  int32_t axes[COMPUTE_MAX_RANK]; /* the axes of sizes, scales and roi */
  int32_t axis_count;
  resize_axis axis[COMPUTE_MAX_RANK];
  resize_mode mode;
  resize_coordinates coordinates;
  resize_rounding rounding;
  bool antialias, exclude_outside;
  double cubic, extrapolation;
} resize;

/* ---- Source positions ------------------------------------------------------------------------ */

/* The source position of result element i. All steps round to f32 like the scales, so that a
 * third of 9 is 3. Aligned corners use the actual result size, which is the scaled size rounded
 * down, as in PyTorch, ONNX Runtime and OpenVINO. */
static float source_of(const resize *r, const resize_axis *a, int64_t i) {
  const float at = (float)i, from = (float)a->from, to = (float)a->to, scale = (float)a->scale;
  const float begin = (float)a->begin, end = (float)a->end;
  switch (r->coordinates) {
  case ASYMMETRIC: return at / scale;
  case ALIGN_CORNERS: return a->to > 1 ? at * (from - 1) / (to - 1) : 0;
  case PYTORCH_HALF_PIXEL: return a->to > 1 ? (at + 0.5f) / scale - 0.5f : 0;
  case HALF_PIXEL_SYMMETRIC:
    return from / 2 * (1 - to / (scale * from)) + (at + 0.5f) / scale - 0.5f;
  case CROP_AND_RESIZE:
    if (a->to == 1) return 0.5f * (begin + end) * (from - 1);
    return begin * (from - 1) + at * (end - begin) * (from - 1) / (to - 1);
  case TF_HALF_PIXEL_FOR_NN: return (at + 0.5f) / scale;
  default: return (at + 0.5f) / scale - 0.5f;
  }
}

/* Rounds to the nearest element. Two f32 roundings can move a position away from halfway, so a
 * tolerance applies. */
static double round_half(double at, bool up) {
  const double half = floor(at) + 0.5, error = 0x1p-22 * max_f64(fabs(at), 1);
  return fabs(at - half) <= error ? half + (up ? 0.5 : -0.5) : floor(at + 0.5);
}

static double round_source(const resize *r, const resize_axis *a, double at) {
  switch (r->rounding) {
  case PREFER_FLOOR: return round_half(at, false);
  case PREFER_CEIL: return round_half(at, true);
  case TO_FLOOR: return floor(at);
  case TO_CEIL: return ceil(at);
  default: return a->scale < 1 ? ceil(at) : floor(at);
  }
}

static int64_t into_axis(const resize_axis *a, double at) {
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

static double weigh(const resize *r, double away) {
  const double a = r->cubic, t = fabs(away);
  if (r->mode == LINEAR) return max_f64(1 - t, 0);
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

static void fill_row(const resize *r, const resize_axis *a, table *t, int64_t i, double narrow) {
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

static compute_status allocate_table(const resize *r, const resize_axis *a, table *t) {
  int64_t count;
  if (!checked_multiply(a->to, t->taps, &count) || count > INT64_MAX / 16)
    return call_fail(r->call, COMPUTE_ERROR_OVERFLOW, "its result is too large");
  t->places = call_allocate(r->call, (size_t)count, sizeof *t->places);
  t->weights = call_allocate(r->call, (size_t)count, sizeof *t->weights);
  return t->places && t->weights ? COMPUTE_OK : call_out_of_memory(r->call);
}

static compute_status make_table(const resize *r, const resize_axis *a, table *t) {
  if (r->mode == NEAREST) {
    t->taps = 1;
    const compute_status status = allocate_table(r, a, t);
    for (int64_t i = 0; i < a->to && !status; i++)
      t->places[i] = into_axis(a, round_source(r, a, (double)source_of(r, a, i)));
    return status;
  }
  const double narrow = r->antialias && a->scale < 1 ? a->scale : 1;
  const double reach = ceil((r->mode == LINEAR ? 1 : 2) / narrow);
  if (!(reach < 1 << 24))
    return call_fail(r->call, COMPUTE_ERROR_UNSUPPORTED, "a scale of %g", a->scale);
  t->taps = 2 * (int64_t)reach;
  const compute_status status = allocate_table(r, a, t);
  for (int64_t i = 0; i < a->to && !status; i++) fill_row(r, a, t, i, narrow);
  return status;
}

/* ---- Along one axis -------------------------------------------------------------------------- */

/* Returns true if every element repeats `to / from` times in sequence. */
static bool repeats(const resize_axis *a, const table *t) {
  if (a->from < 1 || a->to % a->from != 0) return false;
  const int64_t times = a->to / a->from;
  for (int64_t i = 0; i < a->to; i++)
    if (t->places[i] != i / times) return false;
  return a->to > 0;
}

static compute_node repeat(const resize *r, compute_node x, int32_t axis, const resize_axis *a) {
  compute_shape shape = compute_node_shape(r->graph, x);
  const int64_t outer = op_count(shape, 0, axis + 1), inner = op_count(shape, axis + 1, shape.rank);
  x = compute_reshape(r->graph, x, COMPUTE_SHAPE(outer, 1, inner));
  x = compute_broadcast(r->graph, x, COMPUTE_SHAPE(outer, a->to / a->from, inner));
  shape_set(&shape, axis, a->to);
  return compute_reshape(r->graph, x, shape);
}

/* Applies one column of the table. */
static compute_node gather_tap(const resize *r, compute_node x, int32_t axis, const resize_axis *a,
                               const table *t, int64_t k) {
  int64_t *places = call_allocate(r->call, (size_t)a->to, sizeof *places);
  double *weights = call_allocate(r->call, (size_t)a->to, sizeof *weights);
  if (!places || !weights) return (compute_node){0};
  for (int64_t i = 0; i < a->to; i++) {
    places[i] = t->places[i * t->taps + k];
    weights[i] = t->weights[i * t->taps + k];
  }
  const compute_shape shape = COMPUTE_SHAPE(a->to);
  const compute_node read = compute_gather(r->graph, x, op_integers(r->call, shape, places), axis);
  if (r->mode == NEAREST) return read;
  const compute_dtype dtype = compute_node_dtype(r->graph, x);
  const compute_node weight = op_along(r->call, op_numbers(r->call, dtype, shape, weights), axis,
                                       compute_node_shape(r->graph, x).rank);
  return compute_mul(r->graph, read, weight);
}

static compute_node apply_taps(const resize *r, compute_node x, int32_t axis, const resize_axis *a,
                               const table *t) {
  compute_node sum = gather_tap(r, x, axis, a, t, 0);
  for (int64_t k = 1; k < t->taps; k++)
    sum = compute_add(r->graph, sum, gather_tap(r, x, axis, a, t, k));
  return sum;
}

static compute_node apply_matrix(const resize *r, compute_node x, int32_t axis,
                                 const resize_axis *a, const table *t) {
  compute_graph *graph = r->graph;
  compute_shape shape = compute_node_shape(graph, x);
  const int64_t outer = op_count(shape, 0, axis), inner = op_count(shape, axis + 1, shape.rank);
  const bool last = axis == shape.rank - 1;
  double *dense = call_allocate(r->call, (size_t)(a->to * a->from), sizeof *dense);
  if (!dense) return (compute_node){0};
  for (int64_t i = 0; i < a->to; i++)
    for (int64_t k = 0; k < t->taps; k++) {
      const int64_t place = t->places[i * t->taps + k];
      dense[last ? place * a->to + i : i * a->from + place] += t->weights[i * t->taps + k];
    }
  const compute_node matrix =
      op_numbers(r->call, compute_node_dtype(graph, x),
                 last ? COMPUTE_SHAPE(a->from, a->to) : COMPUTE_SHAPE(a->to, a->from), dense);
  const compute_node rows = compute_reshape(
      graph, x, last ? COMPUTE_SHAPE(outer, a->from) : COMPUTE_SHAPE(outer, a->from, inner));
  shape_set(&shape, axis, a->to);
  return compute_reshape(
      graph, last ? compute_matmul(graph, rows, matrix) : compute_matmul(graph, matrix, rows),
      shape);
}

/* Gathering one element costs about as much as MATRIX_SPEED multiplications in a matrix product. */
enum { MATRIX_SPEED = 16 };

static compute_status resize_along(const resize *r, compute_node *x, int32_t axis) {
  const resize_axis *a = &r->axis[axis];
  table t;
  const compute_status status = make_table(r, a, &t);
  if (status) return status;
  if (r->mode == NEAREST && repeats(a, &t))
    *x = repeat(r, *x, axis, a);
  else if (r->mode == NEAREST || t.taps < a->from / MATRIX_SPEED)
    *x = apply_taps(r, *x, axis, a, &t);
  else
    *x = apply_matrix(r, *x, axis, a, &t);
  return COMPUTE_OK;
}

/* Replaces elements that were read outside of the data with the extrapolation value. */
static compute_status extrapolate(const resize *r, compute_node *x) {
  for (int32_t axis = 0; axis < r->shape.rank; axis++) {
    const resize_axis *a = &r->axis[axis];
    uint8_t *outside = call_allocate(r->call, (size_t)a->to, sizeof *outside);
    if (!outside) return call_out_of_memory(r->call);
    bool any = false;
    for (int64_t i = 0; i < a->to; i++) {
      const double at = (double)source_of(r, a, i);
      outside[i] = !(at >= 0 && at <= (double)a->from - 1);
      any |= outside[i];
    }
    if (!any) continue;
    const compute_node mask =
        compute_constant(r->graph, COMPUTE_BOOL, COMPUTE_SHAPE(a->to), outside);
    *x = compute_select(r->graph, op_along(r->call, mask, axis, r->shape.rank),
                        call_scalar_like(r->call, *x, r->extrapolation), *x);
  }
  return COMPUTE_OK;
}

static bool is_unchanged(const resize *r, const resize_axis *a) {
  return a->from == a->to && fabs(a->scale - 1) < 1e-7 &&
         (r->coordinates != CROP_AND_RESIZE || (a->begin == 0 && a->end == 1));
}

static compute_status run_resize(resize *r) {
  const compute_dtype dtype = call_dtype(r->call, 0);
  compute_shape result = r->shape;
  bool empty = false;
  for (int32_t axis = 0; axis < result.rank; axis++) {
    shape_set(&result, axis, r->axis[axis].to);
    empty |= r->axis[axis].to == 0;
  }
  if (empty) return call_output(r->call, 0, call_zeros(r->call, dtype, result));
  compute_dtype work = dtype;
  if (r->mode != NEAREST) {
    work = op_is_float(dtype)              ? op_wide_dtype(dtype)
           : compute_dtype_size(dtype) < 4 ? COMPUTE_F32
                                           : COMPUTE_F64;
  }
  compute_node x = op_cast(r->call, call_input(r->call, 0), work);
  for (int32_t axis = r->shape.rank - 1; axis >= 0; axis--) {
    if (is_unchanged(r, &r->axis[axis])) continue;
    if (r->axis[axis].from < 1)
      return call_fail(r->call, COMPUTE_ERROR_SHAPE, "axis %d has no elements", (int)axis);
    const compute_status status = resize_along(r, &x, axis);
    if (status) return status;
  }
  if (r->coordinates == CROP_AND_RESIZE) {
    const compute_status status = extrapolate(r, &x);
    if (status) return status;
  }
  return call_output(r->call, 0, op_cast(r->call, x, dtype));
}

/* ---- Sizes and scales ------------------------------------------------------------------------ */

/* The elements of a float input, converted to f64. */
static compute_status read_numbers(model_call *call, size_t input, size_t expected,
                                   double **numbers) {
  const void *data;
  const compute_shape shape = call_shape(call, input);
  const compute_dtype dtype = call_dtype(call, input);
  const compute_status status = call_host(call, input, &data);
  if (status) return status;
  const size_t count = (size_t)op_count(shape, 0, shape.rank);
  if (count != expected)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "input %zu has %zu numbers, not %zu", input, count,
                     expected);
  if (dtype != COMPUTE_F32 && dtype != COMPUTE_F64)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "input %zu is %s", input,
                     compute_dtype_name(dtype));
  *numbers = call_allocate(call, count, sizeof **numbers);
  if (!*numbers) return call_out_of_memory(call);
  for (size_t i = 0; i < count; i++)
    (*numbers)[i] =
        dtype == COMPUTE_F32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
  return COMPUTE_OK;
}

static compute_status take_scales(resize *r, const double *scales) {
  for (int32_t i = 0; i < r->axis_count; i++) {
    resize_axis *a = &r->axis[r->axes[i]];
    a->scale = scales[i];
    const double size = (double)((float)a->from * (float)a->scale);
    if (!(a->scale > 0) || !(size < 0x1p53))
      return call_fail(r->call, COMPUTE_ERROR_SHAPE, "axis %d is scaled by %g", (int)r->axes[i],
                       a->scale);
    a->to = (int64_t)size;
  }
  return COMPUTE_OK;
}

static compute_status take_sizes(resize *r, const int64_t *sizes) {
  const char *policy = call_attribute_s(r->call, "keep_aspect_ratio_policy", "stretch");
  const bool larger = strcmp(policy, "not_smaller") == 0;
  double common = 0;
  for (int32_t i = 0; i < r->axis_count; i++) {
    resize_axis *a = &r->axis[r->axes[i]];
    if (sizes[i] < 0 || sizes[i] > INT64_C(1) << 53 || a->from < 1)
      return call_fail(r->call, COMPUTE_ERROR_SHAPE, "axis %d of %" PRId64 " becomes %" PRId64,
                       (int)r->axes[i], a->from, sizes[i]);
    a->to = sizes[i];
    a->scale = (double)a->to / (double)a->from;
    if (i == 0 || (larger ? a->scale > common : a->scale < common)) common = a->scale;
  }
  if (strcmp(policy, "stretch") == 0) return COMPUTE_OK;
  for (int32_t i = 0; i < r->axis_count; i++) {
    resize_axis *a = &r->axis[r->axes[i]];
    a->scale = common;
    a->to = (int64_t)(common * (double)a->from + 0.5);
  }
  return COMPUTE_OK;
}

static compute_status take_region(resize *r, size_t input) {
  double *region;
  if (r->coordinates != CROP_AND_RESIZE) return COMPUTE_OK;
  const size_t count = (size_t)r->axis_count;
  const compute_status status = read_numbers(r->call, input, 2 * count, &region);
  for (size_t i = 0; i < count && !status; i++) {
    r->axis[r->axes[i]].begin = region[i];
    r->axis[r->axes[i]].end = region[count + i];
  }
  return status;
}

static compute_status take_axes(resize *r) {
  size_t count;
  const int64_t *axes = call_attribute_ints(r->call, "axes", &count);
  r->shape = call_shape(r->call, 0);
  for (int32_t i = 0; i < r->shape.rank; i++) {
    r->axis[i] = (resize_axis){shape_at(r->shape, i), shape_at(r->shape, i), 1, 0, 1};
    r->axes[i] = i;
  }
  r->axis_count = axes ? (int32_t)count : r->shape.rank;
  if (axes && count > (size_t)r->shape.rank)
    return call_fail(r->call, COMPUTE_ERROR_SHAPE, "axes has %zu numbers", count);
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; axes && i < count && !status; i++)
    status = call_axis(r->call, axes[i], r->shape.rank, &r->axes[i]);
  return status;
}

/* ---- Resize and Upsample --------------------------------------------------------------------- */

/* The index of an attribute's text in a list; `count` if it is not listed. */
static int find_name(const model_call *call, const char *attribute, const char *usual,
                     const char *const *names, int count) {
  const char *text = call_attribute_s(call, attribute, usual);
  int found = 0;
  while (found < count && strcmp(names[found], text) != 0) found++;
  return found;
}

static compute_status begin(model_call *call, resize *r) {
  *r = (resize){.call = call,
                .graph = call->graph,
                .antialias = call_attribute_i(call, "antialias", 0) != 0,
                .exclude_outside = call_attribute_i(call, "exclude_outside", 0) != 0,
                .cubic = call_attribute_f(call, "cubic_coeff_a", -0.75),
                .extrapolation = call_attribute_f(call, "extrapolation_value", 0)};
  const bool old = call->version < 11;
  const bool bilinear = old && strcmp(call_attribute_s(call, "mode", ""), "bilinear") == 0;
  const int mode = find_name(call, "mode", "nearest", mode_names, MODES_COUNT);
  const int coordinates =
      find_name(call, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel",
                coordinates_names, COORDINATES_COUNT);
  const int rounding = find_name(call, "nearest_mode", old ? "" : "round_prefer_floor",
                                 rounding_names, ROUNDINGS_COUNT);
  if ((mode == MODES_COUNT && !bilinear) || coordinates == COORDINATES_COUNT ||
      rounding == ROUNDINGS_COUNT)
    return call_fail(call, COMPUTE_ERROR_FORMAT,
                     "mode, coordinate_transformation_mode or nearest_mode is not known");
  r->mode = bilinear ? LINEAR : (resize_mode)mode;
  r->coordinates = (resize_coordinates)coordinates;
  r->rounding = (resize_rounding)rounding;
  return take_axes(r);
}

static compute_status resize_by_scales(resize *r, size_t input) {
  double *scales;
  compute_status status = read_numbers(r->call, input, (size_t)r->axis_count, &scales);
  if (!status) status = take_scales(r, scales);
  return status ? status : run_resize(r);
}

static compute_status resize_old(model_call *call) {
  resize r;
  const compute_status status = begin(call, &r);
  return status ? status : resize_by_scales(&r, 1);
}

static compute_status resize_rule(model_call *call) {
  resize r;
  const int64_t *sizes;
  size_t count;
  compute_status status = begin(call, &r);
  if (!status) status = take_region(&r, 1);
  if (status) return status;
  const compute_shape scales = call_shape(call, 2);
  if (call_has(call, 2) && op_count(scales, 0, scales.rank) > 0) return resize_by_scales(&r, 2);
  status = call_integers(call, 3, &sizes, &count);
  if (status) return status;
  if (count != (size_t)r.axis_count)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "%zu sizes for %d axes", count, (int)r.axis_count);
  status = take_sizes(&r, sizes);
  return status ? status : run_resize(&r);
}

static compute_status upsample_by_attribute(model_call *call) {
  resize r;
  size_t count;
  double scales[COMPUTE_MAX_RANK];
  const float *given = call_attribute_floats(call, "scales", &count);
  compute_status status = begin(call, &r);
  if (status) return status;
  if (count != (size_t)r.axis_count)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "%zu scales for %d axes", count, (int)r.axis_count);
  for (size_t i = 0; i < count; i++) scales[i] = (double)given[i];
  status = take_scales(&r, scales);
  return status ? status : run_resize(&r);
}

/* ---- GridSample ------------------------------------------------------------------------------ */

/* Converts coordinates −1 … 1 of one axis to elements. The ends are the outermost elements'
 * centres (`corners`) or their outer edges. */
static compute_node in_elements(model_call *call, compute_node at, int64_t size, bool corners) {
  compute_graph *graph = call->graph;
  const double span = (double)size - (corners ? 1 : 0), shift = corners ? 0 : -0.5;
  at = compute_add(graph, at, call_scalar_like(call, at, 1));
  at = compute_mul(graph, at, call_scalar_like(call, at, span / 2));
  return shift == 0 ? at : compute_add(graph, at, call_scalar_like(call, at, shift));
}

static compute_status read_grid_options(model_call *call, sample_options *options) {
  static const char *const modes[] = {"nearest", "linear", "cubic", "bilinear", "bicubic"};
  static const sample_mode meant[] = {SAMPLE_NEAREST, SAMPLE_LINEAR, SAMPLE_CUBIC, SAMPLE_LINEAR,
                                      SAMPLE_CUBIC};
  static const char *const borders[] = {"zeros", "border", "reflection"};
  const int mode = find_name(call, "mode", "linear", modes, 5);
  const int border = find_name(call, "padding_mode", "zeros", borders, 3);
  if (mode == 5 || border == 3)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "mode or padding_mode is not known");
  *options = (sample_options){.mode = meant[mode],
                              .border = (sample_border)border,
                              .about_centres = call_attribute_i(call, "align_corners", 0) != 0};
  return COMPUTE_OK;
}

static compute_status grid_sample(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_shape x = call_shape(call, 0), grid = call_shape(call, 1);
  const int32_t axes = x.rank - 2;
  compute_node at[COMPUTE_MAX_RANK];
  sample_options options;
  const compute_status status = read_grid_options(call, &options);
  if (status) return status;
  if (axes < 1 || grid.rank != x.rank || shape_at(grid, 0) != shape_at(x, 0) ||
      shape_at(grid, grid.rank - 1) != axes || op_count(x, 2, x.rank) == 0)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "x and the grid do not match");
  const int64_t points = op_count(grid, 1, grid.rank - 1);
  const compute_dtype dtype = call_dtype(call, 1);
  const compute_node all = compute_reshape(
      graph, op_cast(call, call_input(call, 1), op_is_float(dtype) ? op_wide_dtype(dtype) : dtype),
      COMPUTE_SHAPE(shape_at(x, 0), points, axes));
  for (int32_t axis = 0; axis < axes; axis++) {
    const compute_node one =
        compute_reshape(graph, compute_slice(graph, all, 2, axes - 1 - axis, 1, 1),
                        COMPUTE_SHAPE(shape_at(x, 0), points));
    at[axis] = in_elements(call, one, shape_at(x, 2 + axis), options.about_centres);
  }
  compute_shape shape = {.rank = x.rank, .size = {shape_at(x, 0), shape_at(x, 1)}};
  for (int32_t i = 2; i < x.rank; i++) shape_set(&shape, i, shape_at(grid, i - 1));
  const compute_node y = sample_points(call, call_input(call, 0), at, &options);
  return call_output(call, 0, compute_reshape(graph, y, shape));
}

/* ---- AffineGrid ------------------------------------------------------------------------------ */

/* Coordinates x, y (, z) and 1 of each element, as rows of a matrix. */
static compute_node regular_grid(model_call *call, const int64_t *sizes, int32_t axes,
                                 int64_t count, compute_dtype dtype) {
  const bool corners = call_attribute_i(call, "align_corners", 0) != 0;
  double *rows = call_allocate(call, (size_t)count, ((size_t)axes + 1) * sizeof *rows);
  if (!rows) return (compute_node){0};
  for (int64_t i = 0; i < count; i++) {
    int64_t rest = i;
    double *row = rows + i * (axes + 1);
    for (int32_t axis = axes - 1; axis >= 0; axis--) {
      const double at = (double)(rest % sizes[axis]), size = (double)sizes[axis];
      row[axes - 1 - axis] =
          corners ? (size > 1 ? 2 * at / (size - 1) - 1 : -1) : (2 * at + 1) / size - 1;
      rest /= sizes[axis];
    }
    row[axes] = 1;
  }
  return op_numbers(call, dtype, COMPUTE_SHAPE(count, axes + 1), rows);
}

static compute_status affine_grid(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_shape theta = call_shape(call, 0);
  const int64_t *size;
  size_t count;
  const compute_status status = call_integers(call, 1, &size, &count);
  if (status) return status;
  const int32_t axes = (int32_t)count - 2;
  if ((count != 4 && count != 5) || theta.rank != 3 || shape_at(theta, 0) != size[0] ||
      shape_at(theta, 1) != axes || shape_at(theta, 2) != axes + 1)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "theta and the size do not match");
  int64_t points = 0;
  compute_shape shape = {.rank = axes + 2, .size = {size[0]}};
  for (int32_t i = 0; i < axes; i++) shape_set(&shape, 1 + i, size[2 + i]);
  shape_set(&shape, axes + 1, axes);
  if (compute_shape_count(shape, &points) || points > INT64_MAX / 64)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "its size is invalid");
  points = op_count(shape, 1, axes + 1);
  const compute_node grid = regular_grid(call, size + 2, axes, points, call_dtype(call, 0));
  const compute_node turned = compute_transpose(graph, call_input(call, 0), COMPUTE_AXES(0, 2, 1));
  return call_output(call, 0, compute_reshape(graph, compute_matmul(graph, grid, turned), shape));
}

static const operator_row rows[] = {
    {"", "Upsample", 7, upsample_by_attribute},
    {"", "Upsample", 9, resize_old},
    {"", "Resize", 10, resize_old},
    {"", "Resize", 11, resize_rule},
    {"", "GridSample", 16, grid_sample},
    {"com.microsoft", "GridSample", 1, grid_sample},
    {"", "AffineGrid", 20, affine_grid},
};

const operator_family operators_resize = OPERATOR_FAMILY(rows);
