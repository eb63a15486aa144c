/* SPDX-License-Identifier: MIT */
/* Batch normalisation and dropout, composed of other operations that fuse into the surrounding
 * kernels. */
#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"

static bool given(compute_node node) {
  return node.id != 0 || node.graph != 0;
}

/* Values that both forms check and determine. */
typedef struct norm_call {
  compute_graph *graph;
  const char *operation;
  compute_shape shape;
  compute_dtype dtype, work; /* work: f32 for narrow floats */
} norm_call;

static bool check_x(norm_call *call, compute_node x, double epsilon) {
  uint32_t input;
  char text[BUILD_TEXT];
  if (!build_operands(call->graph, call->operation, &x, 1, &input)) return false;
  call->shape = build_at(call->graph, input)->shape;
  call->dtype = build_at(call->graph, input)->dtype;
  call->work = dtype_compute_type(call->dtype);
  if (!build_domain(call->graph, call->operation, DOMAIN_FLOAT, call->dtype)) return false;
  if (!build_epsilon(call->graph, call->operation, call->work, epsilon)) return false;
  if (call->shape.rank >= 2) return true;
  return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, call->operation,
                      "x has shape %s; it needs a batch axis and a channel axis",
                      compute_shape_text(call->shape, text, sizeof text));
}

/* A vector of the channels, in x's dtype or in f32, the dtype of statistics of narrow floats. */
static bool check_vector(const norm_call *call, const char *name, compute_node vector) {
  uint32_t index;
  char a[BUILD_TEXT], b[BUILD_TEXT];
  if (!build_operands(call->graph, call->operation, &vector, 1, &index)) return false;
  const graph_node *node = build_at(call->graph, index);
  if (node->dtype != call->dtype && node->dtype != call->work) {
    return graph_refuse(call->graph, COMPUTE_ERROR_DTYPE, call->operation, "%s is %s; x is %s",
                        name, compute_dtype_name(node->dtype), compute_dtype_name(call->dtype));
  }
  if (node->shape.rank == 1 && node->shape.size[0] == call->shape.size[1]) return true;
  return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, call->operation,
                      "%s has shape %s; it must be [%lld], the channels (axis 1) of x %s", name,
                      compute_shape_text(node->shape, a, sizeof a), (long long)call->shape.size[1],
                      compute_shape_text(call->shape, b, sizeof b));
}

static compute_node widen(const norm_call *call, compute_node x) {
  return compute_node_dtype(call->graph, x) == call->work
             ? x
             : compute_cast(call->graph, x, call->work);
}

static compute_node narrow(const norm_call *call, compute_node x) {
  return call->dtype == call->work ? x : compute_cast(call->graph, x, call->dtype);
}

static compute_node along(const norm_call *call, compute_node vector) {
  return network_along(call->graph, vector, 1, call->shape.rank);
}

/* gain / sqrt(variance + epsilon), with the shape of the variance. */
static compute_node scale_of(const norm_call *call, compute_node variance, compute_node gain,
                             double epsilon) {
  compute_node sum =
      compute_add(call->graph, variance, compute_scalar(call->graph, call->work, epsilon));
  compute_node scale = compute_rsqrt(call->graph, sum);
  return given(gain) ? compute_mul(call->graph, scale, widen(call, gain)) : scale;
}

/* x · scale + shift. Per-channel values are computed once. x needs one multiplication and one
 * addition, fused after the operation that computes it. */
compute_node compute_batch_norm(compute_graph *graph, compute_node x, compute_node mean,
                                compute_node variance, compute_node gain, compute_node bias,
                                double epsilon) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  norm_call call = {.graph = graph, .operation = "batch_norm"};
  if (!check_x(&call, x, epsilon) || !check_vector(&call, "mean", mean) ||
      !check_vector(&call, "variance", variance) ||
      (given(gain) && !check_vector(&call, "gain", gain)) ||
      (given(bias) && !check_vector(&call, "bias", bias))) {
    return BUILD_NONE;
  }
  compute_node scale = scale_of(&call, widen(&call, variance), gain, epsilon);
  compute_node shift = compute_mul(graph, widen(&call, mean), scale);
  shift = given(bias) ? compute_sub(graph, widen(&call, bias), shift) : compute_neg(graph, shift);
  compute_node y = compute_mul(graph, widen(&call, x), along(&call, scale));
  return narrow(&call, compute_add(graph, y, along(&call, shift)));
}

/* Statistics of a batch, [channels] each; count is the number of values per channel, [1]. */
typedef struct batch_statistics {
  compute_node centred, mean, variance, count;
} batch_statistics;

static int64_t values_of_channel(const norm_call *call) {
  int64_t values = 1;
  for (int32_t i = 0; i < call->shape.rank; i++)
    if (i != 1) values *= call->shape.size[i];
  return values;
}

/* Over all processes: first the sums and the number of values, then the squared deviations. */
static void record_statistics(const norm_call *call, compute_node x, build_sum_function *sum,
                              void *user, batch_statistics *s) {
  compute_graph *graph = call->graph;
  const int64_t channels = call->shape.size[1];
  compute_axes axes = {.count = 0};
  for (int32_t i = 0; i < call->shape.rank; i++)
    if (i != 1) axes.axis[axes.count++] = i;
  s->count = compute_full(graph, call->work, COMPUTE_SHAPE(1), (double)values_of_channel(call));
  if (sum) {
    const compute_node parts[] = {compute_sum(graph, x, axes, false), s->count};
    const compute_node all = sum(user, graph, compute_concat(graph, parts, 2, 0));
    s->count = compute_slice(graph, all, 0, channels, 1, 1);
    s->mean = compute_div(graph, compute_slice(graph, all, 0, 0, channels, 1), s->count);
  } else {
    s->mean = compute_mean(graph, x, axes, false);
  }
  s->centred = compute_sub(graph, x, along(call, s->mean));
  const compute_node squares = compute_square(graph, s->centred);
  s->variance =
      sum ? compute_div(graph, sum(user, graph, compute_sum(graph, squares, axes, false)), s->count)
          : compute_mean(graph, squares, axes, false);
}

compute_node build_batch_norm(compute_graph *graph, const char *operation, compute_node x,
                              compute_node gain, compute_node bias, double epsilon,
                              build_sum_function *sum, void *user, compute_node *mean,
                              compute_node *variance, compute_node *count) {
  BUILD_ALL_OR_NOTHING(graph);
  norm_call call = {.graph = graph, .operation = operation};
  if (mean) *mean = BUILD_NONE;
  if (variance) *variance = BUILD_NONE;
  if (count) *count = BUILD_NONE;
  if (!check_x(&call, x, epsilon) || (given(gain) && !check_vector(&call, "gain", gain)) ||
      (given(bias) && !check_vector(&call, "bias", bias))) {
    return BUILD_NONE;
  }
  const compute_node wide = widen(&call, x);
  batch_statistics batch;
  record_statistics(&call, wide, sum, user, &batch);
  const compute_node inverse = scale_of(&call, batch.variance, BUILD_NONE, epsilon);
  compute_node scale = inverse, wide_gain = BUILD_NONE, wide_bias = BUILD_NONE;
  if (given(gain)) {
    wide_gain = widen(&call, gain);
    scale = compute_mul(graph, inverse, wide_gain);
  }
  compute_node y = compute_mul(graph, batch.centred, along(&call, scale));
  if (given(bias)) {
    wide_bias = widen(&call, bias);
    y = compute_add(graph, y, along(&call, wide_bias));
  }
  if (!sum) /* the gradient of the formula covers this process only */
    build_whole(graph, y, WHOLE_BATCH_NORM,
                (const compute_node[]){wide, batch.centred, inverse, wide_gain, wide_bias}, 5);
  y = narrow(&call, y);
  if (graph->status) return BUILD_NONE;
  if (mean) *mean = batch.mean;
  if (variance) *variance = batch.variance;
  if (count) *count = batch.count;
  return y;
}

compute_node compute_batch_norm_training(compute_graph *graph, compute_node x, compute_node gain,
                                         compute_node bias, double epsilon, compute_node *mean,
                                         compute_node *variance) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return build_batch_norm(graph, "batch_norm_training", x, gain, bias, epsilon, NULL, NULL, mean,
                          variance, NULL);
}

/* ---- Dropout --------------------------------------------------------------------------------- */

/* The random numbers are f32 for every dtype of x, so a model drops the same elements in each. */
compute_node compute_dropout(compute_graph *graph, compute_node x, double probability,
                             compute_node seed, uint32_t stream) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "dropout";
  uint32_t inputs[2];
  if (!build_operands(graph, operation, (const compute_node[]){x, seed}, 2, inputs))
    return BUILD_NONE;
  const compute_dtype dtype = build_at(graph, inputs[0])->dtype;
  const compute_shape shape = build_at(graph, inputs[0])->shape;
  if (!build_domain(graph, operation, DOMAIN_FLOAT, dtype)) return BUILD_NONE;
  if (!(probability >= 0 && probability < 1)) {
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                      "probability is %g; it must be at least 0 and less than 1", probability);
  }
  if (probability == 0) return build_same(graph, x);
  if (!build_number(graph, operation, "1 / (1 - probability)", dtype, 1 / (1 - probability)))
    return BUILD_NONE;
  compute_node drawn = compute_random_uniform(graph, COMPUTE_F32, shape, seed, stream);
  compute_node keep =
      compute_greater_equal(graph, drawn, compute_scalar(graph, COMPUTE_F32, probability));
  compute_node larger = compute_mul(graph, x, compute_scalar(graph, dtype, 1 / (1 - probability)));
  return compute_select(graph, keep, larger, compute_scalar(graph, dtype, 0));
}

/* ---- Layer norm ------------------------------------------------------------------------------ */

/* True if gain or bias has the dtype of x and the size of its last axis. */
static bool fits_last_axis(compute_graph *graph, const char *operation, const char *what,
                           compute_node x, compute_node vector) {
  uint32_t inputs[2];
  if (!build_operands(graph, operation, (const compute_node[]){x, vector}, 2, inputs)) return false;
  const graph_node *to = build_at(graph, inputs[0]), *from = build_at(graph, inputs[1]);
  if (!build_same_dtype(graph, operation, to->dtype, from->dtype)) return false;
  const compute_shape shape = to->shape, given = from->shape;
  if (shape.rank > 0 && given.rank == 1 && given.size[0] == shape.size[shape.rank - 1]) return true;
  char a[BUILD_TEXT], b[BUILD_TEXT];
  return graph_refuse(
      graph, COMPUTE_ERROR_SHAPE, operation, "%s %s does not fit the last axis of %s", what,
      compute_shape_text(given, a, sizeof a), compute_shape_text(shape, b, sizeof b));
}

compute_node compute_layer_norm(compute_graph *graph, compute_node x, compute_node gain,
                                compute_node bias, double epsilon) {
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "layer_norm";
  uint32_t input;
  if (!build_operands(graph, operation, &x, 1, &input)) return BUILD_NONE;
  const compute_dtype dtype = build_at(graph, input)->dtype;
  if (!build_domain(graph, operation, DOMAIN_FLOAT, dtype) ||
      !build_epsilon(graph, operation, dtype_compute_type(dtype), epsilon)) {
    return BUILD_NONE;
  }
  const bool has_gain = gain.id || gain.graph, has_bias = bias.id || bias.graph;
  if ((has_gain && !fits_last_axis(graph, operation, "gain", x, gain)) ||
      (has_bias && !fits_last_axis(graph, operation, "bias", x, bias))) {
    return BUILD_NONE;
  }
  compute_node y = compute_normalize(graph, x, epsilon);
  if (has_gain) y = compute_mul(graph, y, gain);
  if (has_bias) y = compute_add(graph, y, bias);
  return y;
}
