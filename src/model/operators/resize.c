/* SPDX-License-Identifier: MIT */
/* Resizing of images, and reading them between their pixels. */
#include "model/operators/operators.h"

#include <inttypes.h>
#include <string.h>

#include "core/type/shape.h"
#include "graph/builders/sample.h"
#include "model/operators/op.h"

/* In the order of the enumerators, RESAMPLE_CROP and RESAMPLE_TF_HALF_PIXEL last. */
static const char *const coordinates_names[] = {
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",  "align_corners",
    "asymmetric", "tf_crop_and_resize",   "tf_half_pixel_for_nn"};

static const char *const rounding_names[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                             "ceil", ""};

static const char *const mode_names[] = {"nearest", "linear", "cubic"};

enum {
  COORDINATES_COUNT = sizeof coordinates_names / sizeof *coordinates_names,
  ROUNDINGS_COUNT = sizeof rounding_names / sizeof *rounding_names,
  MODES_COUNT = sizeof mode_names / sizeof *mode_names
};

typedef struct resize {
  model_call *call;
  resample to;
  int32_t axes[COMPUTE_MAX_RANK]; /* the axes of sizes, scales and roi */
  int32_t axis_count;
} resize;

static compute_status run_resize(resize *r) {
  return call_output(r->call, 0, part_resize(&r->to, call_input(r->call, 0)));
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
    resample_axis *a = &r->to.axis[r->axes[i]];
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
    resample_axis *a = &r->to.axis[r->axes[i]];
    if (sizes[i] < 0 || sizes[i] > INT64_C(1) << 53 || a->from < 1)
      return call_fail(r->call, COMPUTE_ERROR_SHAPE, "axis %d of %" PRId64 " becomes %" PRId64,
                       (int)r->axes[i], a->from, sizes[i]);
    a->to = sizes[i];
    a->scale = (double)a->to / (double)a->from;
    if (i == 0 || (larger ? a->scale > common : a->scale < common)) common = a->scale;
  }
  if (strcmp(policy, "stretch") == 0) return COMPUTE_OK;
  for (int32_t i = 0; i < r->axis_count; i++) {
    resample_axis *a = &r->to.axis[r->axes[i]];
    a->scale = common;
    a->to = (int64_t)(common * (double)a->from + 0.5);
  }
  return COMPUTE_OK;
}

static compute_status take_region(resize *r, size_t input) {
  double *region;
  if (r->to.coordinates != RESAMPLE_CROP) return COMPUTE_OK;
  const size_t count = (size_t)r->axis_count;
  const compute_status status = read_numbers(r->call, input, 2 * count, &region);
  for (size_t i = 0; i < count && !status; i++) {
    r->to.axis[r->axes[i]].begin = region[i];
    r->to.axis[r->axes[i]].end = region[count + i];
  }
  return status;
}

static compute_status take_axes(resize *r) {
  size_t count;
  const int64_t *axes = call_attribute_ints(r->call, "axes", &count);
  r->to.shape = call_shape(r->call, 0);
  for (int32_t i = 0; i < r->to.shape.rank; i++) {
    r->to.axis[i] = (resample_axis){shape_at(r->to.shape, i), shape_at(r->to.shape, i), 1, 0, 1};
    r->axes[i] = i;
  }
  r->axis_count = axes ? (int32_t)count : r->to.shape.rank;
  if (axes && count > (size_t)r->to.shape.rank)
    return call_fail(r->call, COMPUTE_ERROR_SHAPE, "axes has %zu numbers", count);
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; axes && i < count && !status; i++)
    status = call_axis(r->call, axes[i], r->to.shape.rank, &r->axes[i]);
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
                .to = {.graph = call->graph,
                       .operation = "resize",
                       .antialias = call_attribute_i(call, "antialias", 0) != 0,
                       .exclude_outside = call_attribute_i(call, "exclude_outside", 0) != 0,
                       .cubic = call_attribute_f(call, "cubic_coeff_a", -0.75),
                       .extrapolation = call_attribute_f(call, "extrapolation_value", 0)}};
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
  r->to.mode = bilinear ? COMPUTE_RESIZE_LINEAR : (compute_resize_mode)mode;
  r->to.coordinates = coordinates;
  r->to.rounding = rounding;
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

static compute_status read_grid_options(model_call *call, sample_options *options) {
  static const char *const modes[] = {"nearest", "linear", "cubic", "bilinear", "bicubic"};
  static const compute_sample_mode meant[] = {COMPUTE_SAMPLE_NEAREST, COMPUTE_SAMPLE_LINEAR,
                                              COMPUTE_SAMPLE_CUBIC, COMPUTE_SAMPLE_LINEAR,
                                              COMPUTE_SAMPLE_CUBIC};
  static const char *const borders[] = {"zeros", "border", "reflection"};
  const int mode = find_name(call, "mode", "linear", modes, 5);
  const int border = find_name(call, "padding_mode", "zeros", borders, 3);
  if (mode == 5 || border == 3)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "mode or padding_mode is not known");
  *options = (sample_options){.mode = meant[mode],
                              .border = (compute_sample_border)border,
                              .about_centres = call_attribute_i(call, "align_corners", 0) != 0};
  return COMPUTE_OK;
}

static compute_status grid_sample(model_call *call) {
  sample_options options;
  const compute_status status = read_grid_options(call, &options);
  if (status) return status;
  if (!part_grid_fits(call_shape(call, 0), call_shape(call, 1)))
    return call_fail(call, COMPUTE_ERROR_SHAPE, "x and the grid do not match");
  return call_output(
      call, 0, part_grid_sample(call->graph, call_input(call, 0), call_input(call, 1), &options));
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
