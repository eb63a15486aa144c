/* SPDX-License-Identifier: MIT */
/* Random numbers, random tensors and dropout. */
#include "model/operators/random.h"

#include <string.h>

#include "compute/random.h"
#include "core/type/shape.h"
#include "model/operators/cast.h"
#include "model/operators/numbers.h"
#include "model/operators/op.h"

/* ---- Numbers --------------------------------------------------------------------------------- */

/* FNV-1a of `text`, continued from `hash`. */
static uint32_t hash_of(const char *text, uint32_t hash) {
  for (; *text; text++) hash = (hash ^ (uint8_t)*text) * 16777619u;
  return hash;
}

/* The seed attribute: an integer for Dropout, a float for the other operators. */
static bool own_seed(const model_call *call, int64_t *seed) {
  const onnx_attribute *attribute = call_attribute(call, "seed");
  if (!attribute) return false;
  if (attribute->type == ONNX_ATTRIBUTE_INT) {
    *seed = attribute->integer;
    return true;
  }
  const float number = (float)call_attribute_f(call, "seed", 0);
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  *seed = bits;
  return true;
}

/* The seed and the stream. The stream also depends on the draw, not only on seed and name: the
 * iterations of a loop share their names. */
static compute_node seed_of(model_call *call, uint32_t *stream) {
  int64_t number;
  uint32_t draw = 0;
  call_draws(call);
  const bool own = own_seed(call, &number);
  const compute_node seed = own ? number_i64(call, number) : call_seed(call, &draw);
  if (own) draw = seed.id;
  *stream = hash_of(call->node->name, 2166136261u ^ draw * 2654435761u);
  if (call->node->output_count) *stream = hash_of(call->node->output_names[0], *stream);
  return seed;
}

/* Uniform in [0, 1). */
static compute_node uniform(model_call *call, compute_dtype dtype, compute_shape shape) {
  uint32_t stream;
  const compute_node seed = seed_of(call, &stream);
  return compute_random_uniform(call->graph, dtype, shape, seed, stream);
}

static compute_node normal(model_call *call, compute_dtype dtype, compute_shape shape) {
  uint32_t stream;
  const compute_node seed = seed_of(call, &stream);
  return compute_random_normal(call->graph, dtype, shape, seed, stream);
}

/* ---- Random tensors -------------------------------------------------------------------------- */

static compute_status attribute_shape(model_call *call, compute_shape *shape) {
  size_t count;
  const int64_t *sizes = call_attribute_ints(call, "shape", &count);
  if (!sizes || count > COMPUTE_MAX_RANK)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "attribute 'shape' has %zu sizes", count);
  shape->rank = (int32_t)count;
  for (size_t i = 0; i < count; i++) shape_set(shape, (int32_t)i, sizes[i]);
  return COMPUTE_OK;
}

/* *type is the attribute 'dtype' or `fallback`. Returns the float dtype for the draw. */
static compute_dtype wanted_type(const model_call *call, int32_t fallback, int32_t *type) {
  *type = (int32_t)call_attribute_i(call, "dtype", fallback);
  return onnx_dtype(*type) == COMPUTE_F64 ? COMPUTE_F64 : COMPUTE_F32;
}

static compute_status output_cast(model_call *call, compute_node x, int32_t type) {
  static const cast_options options = {.saturate = true, .round_mode = "up"};
  const compute_status status = cast_to(call, x, type, &options, &x);
  return status ? status : call_output_as(call, 0, type, x);
}

static compute_status random_shape(model_call *call, compute_shape *shape, int32_t *fallback) {
  *fallback = ONNX_FLOAT;
  if (!call_has(call, 0)) return attribute_shape(call, shape);
  *shape = call_shape(call, 0);
  if (op_is_float(call_dtype(call, 0))) *fallback = call_type(call, 0);
  return COMPUTE_OK;
}

/* Output 0 = x · scale + shift. */
static compute_status output_scaled(model_call *call, compute_node x, double scale, double shift,
                                    int32_t type) {
  x = compute_mul(call->graph, x, call_scalar_like(call, x, scale));
  return output_cast(call, compute_add(call->graph, x, call_scalar_like(call, x, shift)), type);
}

compute_status random_uniform_rule(model_call *call) {
  compute_shape shape;
  int32_t type, fallback;
  const compute_status status = random_shape(call, &shape, &fallback);
  if (status) return status;
  const compute_dtype dtype = wanted_type(call, fallback, &type);
  const double low = call_attribute_f(call, "low", 0), high = call_attribute_f(call, "high", 1);
  return output_scaled(call, uniform(call, dtype, shape), high - low, low, type);
}

compute_status random_normal_rule(model_call *call) {
  compute_shape shape;
  int32_t type, fallback;
  const compute_status status = random_shape(call, &shape, &fallback);
  if (status) return status;
  const compute_dtype dtype = wanted_type(call, fallback, &type);
  return output_scaled(call, normal(call, dtype, shape), call_attribute_f(call, "scale", 1),
                       call_attribute_f(call, "mean", 0), type);
}

compute_status bernoulli_rule(model_call *call) {
  int32_t type;
  wanted_type(call, call_type(call, 0), &type);
  const compute_node chance = op_wide(call, call_input(call, 0));
  const compute_node drawn =
      uniform(call, compute_node_dtype(call->graph, chance), call_shape(call, 0));
  return output_cast(call, compute_less(call->graph, drawn, chance), type);
}

/* The class is the number of cumulative probabilities that do not exceed a uniform number. */
compute_status multinomial_rule(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_shape shape = call_shape(call, 0);
  const int64_t samples = call_attribute_i(call, "sample_size", 1);
  int32_t type;
  wanted_type(call, ONNX_INT32, &type);
  if (shape.rank != 2 || shape_at(shape, 1) < 1)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "its input is not a batch of classes");
  compute_node sums = compute_softmax(graph, op_wide(call, call_input(call, 0)), 1);
  sums = compute_cumulative_sum(graph, sums, 1, false, false);
  sums = compute_reshape(graph, sums, COMPUTE_SHAPE(shape_at(shape, 0), 1, shape_at(shape, 1)));
  const compute_node drawn =
      uniform(call, compute_node_dtype(graph, sums), COMPUTE_SHAPE(shape_at(shape, 0), samples, 1));
  compute_node chosen = compute_cast(graph, compute_less_equal(graph, sums, drawn), COMPUTE_I64);
  chosen = compute_sum(graph, chosen, COMPUTE_AXES(2), false);
  chosen = compute_minimum(graph, chosen, number_i64(call, shape_at(shape, 1) - 1));
  return output_cast(call, chosen, type);
}

/* ---- Dropout --------------------------------------------------------------------------------- */

/* Up to version 9 the mask has the type of the data. */
static compute_status output_mask(model_call *call, compute_node kept) {
  if (call->version < 10) kept = compute_cast(call->graph, kept, call_dtype(call, 0));
  return call_output(call, 1, kept);
}

static compute_status keep_all(model_call *call) {
  if (call_has(call, 0)) call_output_value(call, 0, call->inputs[0]);
  if (!call_wants(call, 1)) return COMPUTE_OK;
  return output_mask(call, compute_full(call->graph, COMPUTE_BOOL, call_shape(call, 0), 1));
}

compute_status dropout_rule(model_call *call) {
  compute_graph *graph = call->graph;
  int64_t training = 0;
  double ratio = 0.5;
  compute_status status = COMPUTE_OK;
  if (call->version >= 12 && call_has(call, 2)) status = call_integer(call, 2, &training);
  if (!status && training && call_has(call, 1)) status = call_number(call, 1, &ratio);
  if (status) return status;
  if (!training || ratio == 0) return keep_all(call);
  if (!(ratio > 0 && ratio <= 1))
    return call_fail(call, COMPUTE_ERROR_INVALID_ARGUMENT, "the ratio %g is not in 0 … 1", ratio);
  const compute_node x = call_input(call, 0);
  const compute_node drawn = uniform(call, op_wide_dtype(call_dtype(call, 0)), call_shape(call, 0));
  const compute_node kept =
      compute_greater_equal(graph, drawn, call_scalar_like(call, drawn, ratio));
  const double scale = ratio < 1 ? 1 / (1 - ratio) : 0;
  const compute_node y =
      compute_select(graph, kept, compute_mul(graph, x, call_scalar_like(call, x, scale)),
                     call_scalar_like(call, x, 0));
  call_output(call, 0, y);
  return call_wants(call, 1) ? output_mask(call, kept) : COMPUTE_OK;
}
