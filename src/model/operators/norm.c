/* SPDX-License-Identifier: MIT */
/* Normalisations: over batches, over the last axes, over images and over channels. */
#include "model/operators/operators.h"

#include <inttypes.h>
#include <string.h>

#include "core/type/shape.h"
#include "model/operators/conv.h"
#include "model/operators/op.h"

static double epsilon_of(const model_call *call, double usual) {
  return call_attribute_f(call, "epsilon", usual);
}

/* ---- Over batches ---------------------------------------------------------------------------- */

/* A running statistic: momentum · the kept value + (1 − momentum) · the value of this batch. */
static compute_node keep_running(model_call *call, size_t input, compute_node seen) {
  compute_graph *graph = call->graph;
  const double momentum = call_attribute_f(call, "momentum", 0.9);
  const compute_dtype wide = compute_node_dtype(graph, seen);
  const compute_node kept = op_cast(call, call_input(call, input), wide);
  const compute_node sum =
      compute_add(graph, compute_mul(graph, kept, call_scalar_like(call, kept, momentum)),
                  compute_mul(graph, seen, call_scalar_like(call, seen, 1 - momentum)));
  return op_cast(call, sum, call_dtype(call, input));
}

/* Before opset 14, asking for a second output meant training. */
static bool is_training(const model_call *call) {
  if (call->version >= 14) return call_attribute_i(call, "training_mode", 0) != 0;
  for (size_t i = 1; i < 5; i++)
    if (call_wants(call, i)) return true;
  return false;
}

static compute_status batch_normalization(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_shape shape = call_shape(call, 0);
  const compute_dtype dtype = call_dtype(call, 0);
  const double epsilon = epsilon_of(call, 1e-5);
  compute_node x = call_input(call, 0), vectors[5], mean, variance;
  if (shape.rank < 1) return call_fail(call, COMPUTE_ERROR_SHAPE, "x is a scalar");
  if (call->version < 9 && call_attribute_i(call, "spatial", 1) == 0)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "spatial = 0");
  if (shape.rank == 1) x = compute_reshape(graph, x, COMPUTE_SHAPE(shape_at(shape, 0), 1));
  for (size_t i = 1; i < 5; i++) {
    vectors[i] = call_input(call, i);
    if (call_dtype(call, i) != dtype) vectors[i] = op_cast(call, vectors[i], op_wide_dtype(dtype));
  }
  if (!is_training(call) && conv_can_normalize(call, 0)) {
    const conv_normalization by = {vectors[3], vectors[4], vectors[1], vectors[2], epsilon};
    return call_output(call, 0, conv_normalize(call, 0, &by));
  }
  if (!is_training(call)) {
    const compute_node y =
        compute_batch_norm(graph, x, vectors[3], vectors[4], vectors[1], vectors[2], epsilon);
    return call_output(call, 0, compute_reshape(graph, y, shape));
  }
  const compute_node y =
      compute_batch_norm_training(graph, x, vectors[1], vectors[2], epsilon, &mean, &variance);
  call_output(call, 0, compute_reshape(graph, y, shape));
  call_output(call, 1, keep_running(call, 3, mean));
  call_output(call, 2, keep_running(call, 4, variance));
  call_output(call, 3, op_cast(call, mean, dtype));
  return call_output(call, 4, op_cast(call, variance, dtype));
}

/* ---- Over the last axes ---------------------------------------------------------------------- */

typedef struct layer {
  model_call *call;
  compute_graph *graph;
  compute_node x, scale, bias; /* scale and bias may be {0} */
  compute_shape shape;
  int32_t axis; /* first normalised axis */
  double epsilon;
} layer;

static compute_status begin_layer(model_call *call, compute_node x, layer *l) {
  *l = (layer){.call = call,
               .graph = call->graph,
               .x = x,
               .shape = compute_node_shape(call->graph, x),
               .epsilon = epsilon_of(call, 1e-5)};
  return call_axis(call, call_attribute_i(call, "axis", -1), l->shape.rank, &l->axis);
}

static compute_axes layer_axes(const layer *l) {
  return op_axes(l->axis, l->shape.rank);
}

/* Returns true if `vector` has one element for each element of a row (the axes normalised
 * together). */
static bool fits_layer(const layer *l, compute_node vector) {
  const compute_shape shape = compute_node_shape(l->graph, vector);
  if (!compute_node_is_valid(vector)) return true;
  if (shape.rank > l->shape.rank || shape.rank < l->shape.rank - l->axis) return false;
  for (int32_t i = 0; i < shape.rank; i++) {
    const int32_t axis = l->shape.rank - shape.rank + i;
    if (shape_at(shape, i) != (axis < l->axis ? 1 : shape_at(l->shape, axis))) return false;
  }
  return true;
}

static compute_node flatten(const layer *l, compute_node vector) {
  return compute_node_is_valid(vector) ? compute_reshape(l->graph, vector, COMPUTE_SHAPE(-1))
                                       : vector;
}

static compute_node scale_and_shift(const layer *l, compute_node y) {
  if (compute_node_is_valid(l->scale)) y = compute_mul(l->graph, y, l->scale);
  return compute_node_is_valid(l->bias) ? compute_add(l->graph, y, l->bias) : y;
}

/* Flattens the elements that are normalised together into one row. */
static compute_node normalize_layer(const layer *l) {
  const compute_node rows = compute_reshape(
      l->graph, l->x,
      COMPUTE_SHAPE(op_count(l->shape, 0, l->axis), op_count(l->shape, l->axis, l->shape.rank)));
  if (fits_layer(l, l->scale) && fits_layer(l, l->bias)) {
    const compute_node y =
        compute_layer_norm(l->graph, rows, flatten(l, l->scale), flatten(l, l->bias), l->epsilon);
    return compute_reshape(l->graph, y, l->shape);
  }
  const compute_node y = compute_normalize(l->graph, rows, l->epsilon);
  return scale_and_shift(l, compute_reshape(l->graph, y, l->shape));
}

/* `true` if squares are summed in f64 where the values are f32. It holds the squares of all f32, so
 * that no pass has to find the largest magnitude. */
static bool sums_in_f64(const model_call *call, compute_node x) {
  return compute_node_dtype(call->graph, x) == COMPUTE_F32 && call_is_on_host(call) &&
         !call_trains(call);
}

static compute_node inverse_root(const layer *l, compute_node x) {
  if (sums_in_f64(l->call, x)) {
    const compute_node squares = compute_square(l->graph, op_cast(l->call, x, COMPUTE_F64));
    const compute_node mean = compute_mean(l->graph, squares, layer_axes(l), true);
    const compute_node root = compute_sqrt(
        l->graph, compute_add(l->graph, mean, call_scalar_like(l->call, mean, l->epsilon)));
    return op_cast(l->call, compute_reciprocal(l->graph, root), COMPUTE_F32);
  }
  return part_inverse_root(l->graph, x, layer_axes(l), l->epsilon);
}

/* Outputs 1 and 2: the mean and the inverse standard deviation. */
static void output_statistics(const layer *l) {
  model_call *call = l->call;
  const bool narrow = call_attribute_i(call, "stash_type", ONNX_FLOAT) == ONNX_BFLOAT16;
  const compute_dtype dtype = narrow ? COMPUTE_BF16 : COMPUTE_F32;
  if (!call_wants(call, 1) && !call_wants(call, 2)) return;
  const compute_node x = op_wide(call, l->x);
  const compute_node mean = compute_mean(l->graph, x, layer_axes(l), true);
  const compute_node inverse = inverse_root(l, compute_sub(l->graph, x, mean));
  call_output(call, 1, op_cast(call, mean, dtype));
  call_output(call, 2, op_cast(call, inverse, dtype));
}

static compute_node optional_as(model_call *call, size_t input, compute_dtype dtype) {
  return call_has(call, input) ? op_cast(call, call_input(call, input), dtype) : (compute_node){0};
}

static compute_status layer_normalization(model_call *call) {
  layer l;
  const compute_status status = begin_layer(call, call_input(call, 0), &l);
  if (status) return status;
  l.scale = optional_as(call, 1, call_dtype(call, 0));
  l.bias = optional_as(call, 2, call_dtype(call, 0));
  call_output(call, 0, normalize_layer(&l));
  output_statistics(&l);
  return COMPUTE_OK;
}

/* x / sqrt(mean of squares + epsilon) · scale + bias. *inverse is 1 / the root. */
static compute_node root_mean_square(const layer *l, compute_dtype dtype, compute_node *inverse) {
  model_call *call = l->call;
  const compute_node x = op_wide(call, l->x);
  *inverse = inverse_root(l, x);
  layer wide = *l;
  wide.scale = op_cast(call, l->scale, compute_node_dtype(l->graph, x));
  return op_cast(call, scale_and_shift(&wide, compute_mul(l->graph, x, *inverse)), dtype);
}

static compute_status rms_normalization(model_call *call) {
  layer l;
  compute_node inverse;
  const compute_status status = begin_layer(call, call_input(call, 0), &l);
  if (status) return status;
  l.scale = call_input(call, 1);
  call_output(call, 0, root_mean_square(&l, call_dtype(call, 1), &inverse));
  return call_output(call, 1, inverse);
}

/* ---- ONNX Runtime: normalisations of a sum --------------------------------------------------- */

/* input + skip + bias */
static compute_node add_skip(model_call *call, size_t bias) {
  compute_node x = compute_add(call->graph, call_input(call, 0), call_input(call, 1));
  return call_has(call, bias) ? compute_add(call->graph, x, call_input(call, bias)) : x;
}

static compute_status skip_layer_normalization(model_call *call) {
  layer l;
  const compute_status status = begin_layer(call, add_skip(call, 4), &l);
  if (status) return status;
  l.epsilon = epsilon_of(call, 1e-12);
  l.scale = call_input(call, 2);
  l.bias = call_input(call, 3);
  call_output(call, 0, normalize_layer(&l));
  output_statistics(&l);
  return call_output(call, 3, l.x);
}

static compute_status skip_rms_normalization(model_call *call) {
  layer l;
  compute_node inverse;
  const compute_status status = begin_layer(call, add_skip(call, 3), &l);
  if (status) return status;
  l.scale = call_input(call, 2);
  call_output(call, 0, root_mean_square(&l, call_dtype(call, 0), &inverse));
  call_output(call, 2, inverse);
  return call_output(call, 3, l.x);
}

/* ---- Over images ----------------------------------------------------------------------------- */

/* Casts a vector with one number per channel to `dtype`, and reshapes it to broadcast. */
static compute_node per_channel(model_call *call, compute_node vector, compute_dtype dtype,
                                int32_t rank) {
  return op_along(call, op_cast(call, vector, dtype), 1, rank);
}

static compute_status instance_normalization(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_shape shape = call_shape(call, 0);
  const compute_dtype dtype = call_dtype(call, 0);
  if (shape.rank < 2) return call_fail(call, COMPUTE_ERROR_SHAPE, "x has rank %d", (int)shape.rank);
  compute_node y = part_normalize_groups(call->graph, call_input(call, 0), shape_at(shape, 1),
                                         epsilon_of(call, 1e-5));
  y = compute_mul(graph, y, per_channel(call, call_input(call, 1), dtype, shape.rank));
  y = compute_add(graph, y, per_channel(call, call_input(call, 2), dtype, shape.rank));
  return call_output(call, 0, y);
}

static compute_status check_groups(model_call *call, int64_t channels, int64_t groups) {
  if (groups >= 1 && channels % groups == 0) return COMPUTE_OK;
  return call_fail(call, COMPUTE_ERROR_SHAPE, "%" PRId64 " groups of %" PRId64 " channels", groups,
                   channels);
}

/* Repeats a vector with one number per group to one number per channel. */
static compute_node spread(model_call *call, compute_node vector, int64_t groups,
                           int64_t channels) {
  if (shape_at(compute_node_shape(call->graph, vector), 0) != groups || groups == channels)
    return vector;
  const compute_node column = compute_reshape(call->graph, vector, COMPUTE_SHAPE(groups, 1));
  const compute_node all =
      compute_broadcast(call->graph, column, COMPUTE_SHAPE(groups, channels / groups));
  return compute_reshape(call->graph, all, COMPUTE_SHAPE(channels));
}

static compute_status group_normalization(model_call *call) {
  const compute_shape shape = call_shape(call, 0);
  const compute_dtype dtype = call_dtype(call, 0);
  const int64_t groups = call_attribute_i(call, "num_groups", 0);
  if (shape.rank < 2) return call_fail(call, COMPUTE_ERROR_SHAPE, "x has rank %d", (int)shape.rank);
  const int64_t channels = shape_at(shape, 1);
  const compute_status status = check_groups(call, channels, groups);
  if (status) return status;
  compute_node scale = call_input(call, 1), bias = call_input(call, 2);
  if (call->version < 21) {
    scale = spread(call, scale, groups, channels);
    bias = spread(call, bias, groups, channels);
  }
  compute_node y =
      part_normalize_groups(call->graph, call_input(call, 0), groups, epsilon_of(call, 1e-5));
  y = compute_mul(call->graph, y, per_channel(call, scale, dtype, shape.rank));
  y = compute_add(call->graph, y, per_channel(call, bias, dtype, shape.rank));
  return call_output(call, 0, y);
}

/* ONNX Runtime's GroupNorm: channels last, and an optional x · sigmoid(x) after it. */
static compute_status group_norm(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_shape shape = call_shape(call, 0);
  const compute_dtype dtype = call_dtype(call, 0);
  const int64_t groups = call_attribute_i(call, "groups", 0);
  const bool last = call_attribute_i(call, "channels_last", 1) != 0;
  const int64_t activation = call_attribute_i(call, "activation", 0);
  const int32_t rank = shape.rank;
  if (rank < 2) return call_fail(call, COMPUTE_ERROR_SHAPE, "x has rank %d", (int)rank);
  if (activation < 0 || activation > 1)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "activation is %" PRId64, activation);
  const compute_status status = check_groups(call, shape_at(shape, last ? rank - 1 : 1), groups);
  if (status) return status;
  compute_node y = call_input(call, 0);
  if (last) y = op_move_axis(call, y, rank - 1, 1);
  y = part_normalize_groups(graph, y, groups, epsilon_of(call, 1e-5));
  y = compute_mul(graph, y, per_channel(call, call_input(call, 1), dtype, rank));
  y = compute_add(graph, y, per_channel(call, call_input(call, 2), dtype, rank));
  if (last) y = op_move_axis(call, y, 1, rank - 1);
  if (activation == 1) y = compute_silu(graph, y);
  return call_output(call, 0, y);
}

/* x / (bias + alpha · mean of the squares of the `size` nearest channels)^beta */
static compute_status local_response(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_shape shape = call_shape(call, 0);
  const int64_t size = call_attribute_i(call, "size", 0);
  const double alpha = call_attribute_f(call, "alpha", 1e-4);
  if (shape.rank < 2 || size < 1)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "%" PRId64 " channels of x of rank %d", size,
                     (int)shape.rank);
  if (op_count(shape, 0, shape.rank) == 0) return call_output_value(call, 0, call->inputs[0]);
  const compute_node x = op_wide(call, call_input(call, 0));
  const compute_pool2d_options options = {.size = {size, 1},
                                          .stride = {1, 1},
                                          .padding = {(size - 1) / 2, 0},
                                          .padding_more = {size / 2 - (size - 1) / 2, 0}};
  compute_node mean = compute_reshape(
      graph, compute_square(graph, x),
      COMPUTE_SHAPE(shape_at(shape, 0), 1, shape_at(shape, 1), op_count(shape, 2, shape.rank)));
  mean = compute_reshape(graph, compute_average_pool2d(graph, mean, &options), shape);
  compute_node base = compute_mul(graph, mean, call_scalar_like(call, mean, alpha));
  base = compute_add(graph, base, call_scalar_like(call, base, call_attribute_f(call, "bias", 1)));
  base =
      compute_pow(graph, base, call_scalar_like(call, base, call_attribute_f(call, "beta", 0.75)));
  return call_output(call, 0, op_cast(call, compute_div(graph, x, base), call_dtype(call, 0)));
}

static compute_status mean_variance(model_call *call) {
  static const int64_t usual[] = {0, 2, 3};
  compute_graph *graph = call->graph;
  const compute_shape shape = call_shape(call, 0);
  size_t count;
  const int64_t *given = call_attribute_ints(call, "axes", &count);
  if (!given) {
    given = usual;
    count = 3;
  }
  if (count > COMPUTE_MAX_RANK)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "axes has %zu numbers", count);
  compute_axes axes = {.count = count ? (int32_t)count : COMPUTE_NO_AXES.count};
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; i < count && !status; i++)
    status = call_axis(call, given[i], shape.rank, &axes.axis[i]);
  if (status) return status;
  const compute_node x = op_wide(call, call_input(call, 0));
  const compute_node centred = compute_sub(graph, x, compute_mean(graph, x, axes, true));
  compute_node scaled;
  const compute_node range = part_range(graph, centred, axes, 2, true, &scaled);
  compute_node deviation = compute_mean(graph, compute_square(graph, scaled), axes, true);
  deviation = part_times_range(graph, compute_sqrt(graph, deviation), range);
  deviation = compute_add(graph, deviation, call_scalar_like(call, deviation, 1e-9));
  return call_output(call, 0,
                     op_cast(call, compute_div(graph, centred, deviation), call_dtype(call, 0)));
}

static const operator_row rows[] = {
    {"", "BatchNormalization", 7, batch_normalization},
    {"", "LayerNormalization", 1, layer_normalization}, /* ONNX Runtime had it before 17 */
    {"", "RMSNormalization", 23, rms_normalization},
    {"", "SimplifiedLayerNormalization", 1, rms_normalization},
    {"", "InstanceNormalization", 6, instance_normalization},
    {"", "GroupNormalization", 18, group_normalization},
    {"", "LRN", 1, local_response},
    {"", "MeanVarianceNormalization", 9, mean_variance},
    {"com.microsoft", "LayerNormalization", 1, layer_normalization},
    {"com.microsoft", "SimplifiedLayerNormalization", 1, rms_normalization},
    {"com.microsoft", "SkipLayerNormalization", 1, skip_layer_normalization},
    {"com.microsoft", "SkipSimplifiedLayerNormalization", 1, skip_rms_normalization},
    {"com.microsoft", "GroupNorm", 1, group_norm},
};

const operator_family operators_norm = OPERATOR_FAMILY(rows);
