/* SPDX-License-Identifier: MIT */
/* Batch and layer normalisation, and dropout. */
#include <inttypes.h>
#include <math.h>

#include "compute/graph_group.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"
#include "ml/nn/layer.h"

/* A batch norm's own parameters are gain and bias if affine, followed by these. */
enum { STATISTIC_MEAN, STATISTIC_VARIANCE, STATISTIC_BATCHES };

/* Moves the statistic by `momentum` toward the batch's value. */
static void move(layer_record *record, compute_node statistic, compute_node batch,
                 double momentum) {
  compute_graph *graph = record->graph;
  const compute_dtype dtype = compute_node_dtype(graph, statistic);
  compute_node kept = compute_mul(graph, layer_current(record, statistic),
                                  compute_scalar(graph, dtype, 1 - momentum));
  compute_node moved = compute_mul(graph, batch, compute_scalar(graph, dtype, momentum));
  layer_update_to(record, statistic, compute_add(graph, kept, moved));
}

/* Normalises x by its own statistics, or by the joint statistics of all ranks. */
static compute_node normalise_batch(const compute_layer *layer, const layer_record *record,
                                    compute_node x, compute_node gain, compute_node bias,
                                    compute_node *mean, compute_node *variance,
                                    compute_node *count) {
  const double epsilon = layer->as.norm.epsilon;
  if (record->group)
    return compute_batch_norm_synchronized(record->graph, record->group, x, gain, bias, epsilon,
                                           mean, variance, count);
  return build_batch_norm(record->graph, "batch_norm_training", x, gain, bias, epsilon, NULL, NULL,
                          mean, variance, count);
}

/* A single value has no variance. Several ranks have at least one value each. */
static bool has_several_values(const layer_record *record, compute_node x) {
  compute_group_info info = {.size = 1};
  const compute_shape shape = compute_node_shape(record->graph, x);
  int64_t values = 1;
  for (int32_t i = 0; i < shape.rank; i++)
    if (i != 1) values *= shape_at(shape, i);
  if (record->group) (void)compute_group_query(record->group, &info);
  if (values * info.size >= 2) return true;
  char text[192];
  return graph_refuse(record->graph, COMPUTE_ERROR_SHAPE, "batch_norm",
                      "training needs more than one value per channel; x has shape %s",
                      compute_shape_text(shape, text, sizeof text));
}

static compute_node batch_norm_training(const compute_layer *layer, layer_record *record,
                                        compute_node x, compute_node gain, compute_node bias,
                                        const compute_node *statistics) {
  compute_graph *graph = record->graph;
  compute_node mean, variance, count;
  const compute_node y = normalise_batch(layer, record, x, gain, bias, &mean, &variance, &count);
  if (graph->status || !has_several_values(record, x)) return y;
  /* The running statistic is the unbiased estimate. The batch itself is normalised by the biased
   * one. */
  const compute_node one = compute_scalar(graph, compute_node_dtype(graph, count), 1);
  const compute_node unbiased = compute_div(graph, count, compute_sub(graph, count, one));
  move(record, statistics[STATISTIC_MEAN], mean, layer->as.norm.momentum);
  move(record, statistics[STATISTIC_VARIANCE], compute_mul(graph, variance, unbiased),
       layer->as.norm.momentum);
  const compute_node batches = statistics[STATISTIC_BATCHES];
  layer_update_to(
      record, batches,
      compute_add(graph, layer_current(record, batches), compute_scalar(graph, COMPUTE_I64, 1)));
  return y;
}

static compute_node apply_batch_norm(const compute_layer *layer, layer_record *record,
                                     compute_node x, const compute_node *parameters) {
  const bool affine = layer->as.norm.affine;
  const compute_node gain = affine ? parameters[0] : (compute_node){0};
  const compute_node bias = affine ? parameters[1] : (compute_node){0};
  const compute_node *statistics = affine ? parameters + 2 : parameters;
  const compute_shape shape = compute_node_shape(record->graph, x);
  if (shape.rank >= 2 && shape_at(shape, 1) != layer->as.norm.size) {
    char text[192];
    return graph_fail(record->graph, COMPUTE_ERROR_SHAPE, "batch_norm",
                      "x has shape %s; its axis 1 must have the layer's %" PRId64 " channels",
                      compute_shape_text(shape, text, sizeof text), layer->as.norm.size);
  }
  if (record->training) return batch_norm_training(layer, record, x, gain, bias, statistics);
  return compute_batch_norm(record->graph, x, statistics[STATISTIC_MEAN],
                            statistics[STATISTIC_VARIANCE], gain, bias, layer->as.norm.epsilon);
}

static compute_node apply_layer_norm(const compute_layer *layer, layer_record *record,
                                     compute_node x, const compute_node *parameters) {
  compute_graph *graph = record->graph;
  const compute_shape shape = compute_node_shape(graph, x);
  if (shape.rank < 1 || shape_at(shape, shape.rank - 1) != layer->as.norm.size) {
    char text[192];
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, "layer_norm",
                      "x has shape %s; its last axis must have the layer's %" PRId64 " elements",
                      compute_shape_text(shape, text, sizeof text), layer->as.norm.size);
  }
  if (!layer->as.norm.affine) return compute_normalize(graph, x, layer->as.norm.epsilon);
  return compute_layer_norm(graph, x, layer_weight_for(record, parameters[0], x),
                            layer_weight_for(record, parameters[1], x), layer->as.norm.epsilon);
}

static const layer_kind batch_norm = {"batch_norm", apply_batch_norm};
static const layer_kind layer_norm = {"layer_norm", apply_layer_norm};

static compute_status read_options(compute_context *context, const char *operation,
                                   const compute_norm_options *given, compute_norm_options *o) {
  *o = given ? *given : (compute_norm_options){0};
  if (o->epsilon == 0) o->epsilon = 1e-5;
  if (o->momentum == 0) o->momentum = 0.1;
  /* Statistics are at least f32, so epsilon must be finite in f32 for any data dtype. */
  if (!isfinite(o->epsilon) || o->epsilon < 0 || !dtype_holds(COMPUTE_F32, o->epsilon))
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "epsilon is %g; it must be finite in f32 and not negative", o->epsilon);
  if (!(o->momentum > 0 && o->momentum <= 1))
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "momentum is %g; it must be in (0, 1] (0 means 0.1)", o->momentum);
  compute_status status = error_if_reserved(context, operation, "options", o->reserved);
  return status ? status : layer_check_float(context, operation, &o->dtype);
}

static compute_layer *create(const char *operation, const layer_kind *kind, compute_device *device,
                             const char *size_name, int64_t size,
                             const compute_norm_options *given) {
  if (layer_check_device(device, operation)) return NULL;
  compute_context *context = compute_device_context(device);
  compute_norm_options o;
  if (layer_check_size(context, operation, size_name, size) ||
      read_options(context, operation, given, &o)) {
    return NULL;
  }
  compute_layer *layer = layer_create(kind, operation, context);
  if (!layer) return NULL;
  layer->as.norm.epsilon = o.epsilon;
  layer->as.norm.momentum = o.momentum;
  layer->as.norm.size = size;
  layer->as.norm.affine = !o.no_affine;
  const compute_shape shape = COMPUTE_SHAPE(size);
  /* The statistics accumulate over many steps, so narrow weights have f32 statistics. */
  const compute_dtype wide = dtype_compute_type(o.dtype);
  const layer_wish wishes[] = {
      {.name = "weight", .dtype = o.dtype, .shape = shape, .role = ROLE_ONE},
      {.name = "bias", .dtype = o.dtype, .shape = shape, .role = ROLE_ZERO},
      {.name = "running_mean", .dtype = wide, .shape = shape, .role = ROLE_ZERO, .fixed = true},
      {.name = "running_var", .dtype = wide, .shape = shape, .role = ROLE_ONE, .fixed = true},
      {.name = "num_batches_tracked", .dtype = COMPUTE_I64, .role = ROLE_ZERO, .fixed = true},
  };
  const size_t first = o.no_affine ? 2 : 0, end = kind == &batch_norm ? 5 : 2;
  compute_status status = COMPUTE_OK;
  for (size_t i = first; !status && i < end; i++)
    status = layer_add(layer, operation, device, &wishes[i]);
  return layer_finish(layer, operation, status, COMPUTE_INIT_DEFAULT, 0);
}

compute_layer *compute_batch_norm_layer(compute_device *device, int64_t channels,
                                        const compute_norm_options *options) {
  FLOAT_ENVIRONMENT_DEFAULT;
  if (IS_INHERITED(device, context)) return NULL;
  return create("compute_batch_norm_layer", &batch_norm, device, "channels", channels, options);
}

compute_layer *compute_layer_norm_layer(compute_device *device, int64_t size,
                                        const compute_norm_options *options) {
  FLOAT_ENVIRONMENT_DEFAULT;
  if (IS_INHERITED(device, context)) return NULL;
  return create("compute_layer_norm_layer", &layer_norm, device, "size", size, options);
}

/* ---- Dropout ------------------------------------------------------------------------------- */

/* Returns the stream after the last one in use with the same seed. Another dropout of this network,
 * a second application of the network, or the caller's random numbers may use the others. Graphs
 * with identical recordings get the same streams. */
static uint32_t free_stream(const compute_graph *graph, compute_node seed) {
  uint32_t stream = 0;
  for (size_t i = 0; i < graph->count; i++) {
    const graph_node *node = &graph->nodes[i];
    if (node->op != OP_random_uniform || node->inputs[0] + 1 != seed.id) continue;
    if (node->attributes.stream >= stream) stream = node->attributes.stream + 1;
  }
  return stream;
}

static compute_node apply_dropout(const compute_layer *layer, layer_record *record, compute_node x,
                                  const compute_node *parameters) {
  (void)parameters;
  if (!record->training || layer->as.probability == 0) return x;
  if (record->seed.id == 0)
    return graph_fail(record->graph, COMPUTE_ERROR_INVALID_ARGUMENT, "dropout",
                      "training needs compute_forward.seed, an i64 scalar node that changes from "
                      "step to step");
  return compute_dropout(record->graph, x, layer->as.probability, record->seed,
                         free_stream(record->graph, record->seed));
}

static const layer_kind dropout = {"dropout", apply_dropout};

compute_layer *compute_dropout_layer(double probability) {
  FLOAT_ENVIRONMENT_DEFAULT;
  static const char operation[] = "compute_dropout_layer";
  if (!(probability >= 0 && probability < 1)) {
    error_set(NULL, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
              "probability is %g; it must be at least 0 and less than 1", probability);
    return NULL;
  }
  compute_layer *layer = layer_create(&dropout, operation, NULL);
  if (layer) layer->as.probability = probability;
  return layer;
}
