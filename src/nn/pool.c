/* Pooling layers. */
#include <inttypes.h>

#include "base/error.h"
#include "nn/layer.h"

static compute_node apply(const compute_layer *layer, layer_record *record, compute_node x,
                          const compute_node *parameters) {
  (void)parameters;
  const compute_pool2d_options *options = &layer->as.pool.options;
  return layer->as.pool.average ? compute_average_pool2d(record->graph, x, options)
                                : compute_max_pool2d(record->graph, x, options);
}

static compute_node apply_global(const compute_layer *layer, layer_record *record, compute_node x,
                                 const compute_node *parameters) {
  (void)layer;
  (void)parameters;
  return compute_global_average_pool2d(record->graph, x);
}

static const layer_kind max_pool = {"max_pool", apply};
static const layer_kind average_pool = {"average_pool", apply};
static const layer_kind global_average_pool = {"global_average_pool", apply_global};

/* Why the options cannot be, or NULL; the builder would say so only when the layer is used. */
static const char *problem(const compute_pool2d_options *o, bool average) {
  for (int i = 0; i < 2; i++) {
    if (o->size[i] < 1) return "size must be at least 1";
    if (o->stride[i] < 0) return "stride must not be negative";
    if (o->dilation[i] < 0) return "dilation must not be negative";
    if (average && o->dilation[i] > 1) return "averages have no dilation";
    if (o->padding[i] < 0 || o->padding[i] > o->size[i] / 2)
      return "padding must be at least 0 and at most half of size";
  }
  return !average && o->exclude_padding ? "exclude_padding belongs to averages" : NULL;
}

static compute_layer *create(const char *operation, const layer_kind *kind, int64_t size,
                             const compute_pool2d_options *given) {
  compute_pool2d_options o = given ? *given : (compute_pool2d_options){0};
  const bool average = kind == &average_pool;
  const bool square = o.size[0] == 0 && o.size[1] == 0;
  for (int i = 0; i < 2; i++)
    if (o.size[i] == 0) o.size[i] = i == 1 && !square ? o.size[0] : size;
  /* {1} with a square window means both. */
  if (o.padding[1] == -1 || (square && o.padding[1] == 0)) o.padding[1] = o.padding[0];
  if (layer_check_reserved(NULL, operation, o.reserved, 4)) return NULL;
  const char *wrong = problem(&o, average);
  if (wrong != NULL) {
    error_set(NULL, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
              "%s: %s; size is %" PRId64 " × %" PRId64 ", padding %" PRId64 " × %" PRId64,
              operation, wrong, o.size[0], o.size[1], o.padding[0], o.padding[1]);
    return NULL;
  }
  compute_layer *layer = layer_create(kind, operation, NULL);
  if (layer == NULL) return NULL;
  layer->as.pool.options = o;
  layer->as.pool.average = average;
  return layer;
}

compute_layer *compute_max_pool(int64_t size, const compute_pool2d_options *options) {
  return create("compute_max_pool", &max_pool, size, options);
}

compute_layer *compute_average_pool(int64_t size, const compute_pool2d_options *options) {
  return create("compute_average_pool", &average_pool, size, options);
}

compute_layer *compute_global_average_pool(void) {
  return layer_create(&global_average_pool, "compute_global_average_pool", NULL);
}
