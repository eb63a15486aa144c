/* SPDX-License-Identifier: MIT */
/* Compositions: sequential and residual. */
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "ml/nn/layer.h"

static compute_node apply_sequential(const compute_layer *layer, layer_record *record,
                                     compute_node x, const compute_node *parameters) {
  (void)parameters;
  for (size_t i = 0; i < layer->part_count; i++)
    x = layer_record_part(record, layer->parts[i], layer->part_names[i], x);
  return x;
}

/* Parts with different shapes are an error even if their sum would broadcast. A broadcast here is
 * always a mistake in the network. */
static compute_node apply_residual(const compute_layer *layer, layer_record *record, compute_node x,
                                   const compute_node *parameters) {
  (void)parameters;
  compute_graph *graph = record->graph;
  const compute_node a = layer_record_part(record, layer->parts[0], layer->part_names[0], x);
  const compute_node b = layer_record_part(record, layer->parts[1], layer->part_names[1], x);
  if (graph->status) return (compute_node){0};
  const compute_shape left = compute_node_shape(graph, a), right = compute_node_shape(graph, b);
  if (compute_shape_equal(left, right)) return compute_add(graph, a, b);
  char first[192], second[192];
  return graph_fail(graph, COMPUTE_ERROR_SHAPE, "residual", "the body returns %s, the shortcut %s",
                    compute_shape_text(left, first, sizeof first),
                    compute_shape_text(right, second, sizeof second));
}

static const layer_kind sequential = {"sequential", apply_sequential};
static const layer_kind residual = {"residual", apply_residual};

/* ---- Making -------------------------------------------------------------------------------- */

/* The arguments of one constructor call. Checks and errors use them. */
typedef struct composition {
  const char *operation;
  const layer_kind *kind;
  compute_layer *const *parts;
  const char *const *names; /* NULL: numbers */
  size_t count;
} composition;

static compute_context *context_of(const composition *c) {
  for (size_t i = 0; i < c->count; i++)
    if (c->parts[i] && c->parts[i]->context) return c->parts[i]->context;
  return NULL;
}

/* The failing constructor has already recorded the reason. Layers without weights have no context,
 * so this error is recorded in the context of their neighbours. */
static compute_status fail_missing(const composition *c, size_t index) {
  compute_context *context = context_of(c);
  compute_error error;
  compute_error_get(NULL, &error);
  if (!error.status)
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, c->operation, "part %zu is NULL", index);
  return error_set(context, error.status, c->operation,
                   "part %zu is NULL; the previous error was: %.300s", index, error.message);
}

static compute_status check_parts(const composition *c) {
  compute_context *context = context_of(c);
  for (size_t i = 0; i < c->count; i++) {
    const compute_layer *part = c->parts[i];
    if (!part) return fail_missing(c, i);
    bool repeated = part->owner != NULL;
    for (size_t k = 0; k < i && !repeated; k++) repeated = c->parts[k] == part;
    if (repeated)
      return error_set_native(context, COMPUTE_ERROR_INVALID_ARGUMENT, 0, c->operation,
                              "make another layer, or apply one network twice",
                              "part %zu (%s) already belongs to a composition", i,
                              part->kind->name);
    if (part->depth == LAYER_MOST_DEPTH)
      return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, c->operation,
                       "part %zu (%s) is %d compositions within each other, the most there may be",
                       i, part->kind->name, part->depth);
    if (part->context && part->context != context)
      return error_set(context, COMPUTE_ERROR_WRONG_CONTEXT, c->operation,
                       "part %zu (%s) has weights of another context", i, part->kind->name);
  }
  return COMPUTE_OK;
}

static compute_status name_parts(const composition *c, compute_layer *layer) {
  for (size_t i = 0; i < c->count; i++) {
    snprintf(layer->part_numbers[i], sizeof layer->part_numbers[i], "%zu", i);
    const char *usual = c->names ? c->names[i] : layer->part_numbers[i];
    layer->part_names[i] = c->parts[i]->name ? c->parts[i]->name : usual;
    for (size_t k = 0; k < i; k++) {
      if (strcmp(layer->part_names[k], layer->part_names[i]) == 0)
        return error_set(layer->context, COMPUTE_ERROR_INVALID_ARGUMENT, c->operation,
                         "parts %zu and %zu are both called \"%s\"", k, i, layer->part_names[i]);
    }
  }
  return COMPUTE_OK;
}

/* Takes ownership of the parts only when nothing more can fail. */
static compute_layer *make(const composition *c) {
  compute_layer *layer = layer_create(c->kind, c->operation, context_of(c));
  if (!layer) return NULL;
  layer->parts = base_allocate(c->count, sizeof *layer->parts);
  layer->part_names = base_allocate(c->count, sizeof *layer->part_names);
  layer->part_numbers = base_allocate(c->count, sizeof *layer->part_numbers);
  compute_status status;
  if (!layer->parts || !layer->part_names || !layer->part_numbers) {
    status = error_set(layer->context, COMPUTE_ERROR_OUT_OF_MEMORY, c->operation,
                       "not enough memory for a layer of %zu parts", c->count);
  } else {
    layer->part_count = c->count;
    for (size_t i = 0; i < c->count; i++) layer->parts[i] = c->parts[i];
    status = name_parts(c, layer);
  }
  if (!status) status = layer_list(layer, c->operation);
  if (status) {
    compute_layer_release(layer);
    return NULL;
  }
  for (size_t i = 0; i < c->count; i++) {
    layer->parts[i]->owner = layer;
    if (layer->depth <= layer->parts[i]->depth) layer->depth = layer->parts[i]->depth + 1;
  }
  return layer;
}

/* Releases each part once (at its last occurrence). Parts of another composition are kept. */
static void release_parts(const composition *c) {
  for (size_t i = 0; i < c->count; i++) {
    compute_layer *part = c->parts[i];
    bool again = false;
    for (size_t k = i + 1; k < c->count && !again; k++) again = c->parts[k] == part;
    if (part && !part->owner && !again) compute_layer_release(part);
  }
}

static compute_layer *compose(const composition *c) {
  compute_layer *layer = check_parts(c) == COMPUTE_OK ? make(c) : NULL;
  if (!layer) release_parts(c);
  return layer;
}

compute_layer *compute_sequential(compute_layer *const *layers, size_t count) {
  static const char operation[] = "compute_sequential";
  if (!layers && count > 0) {
    error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "layers is NULL");
    return NULL;
  }
  return compose(&(composition){operation, &sequential, layers, NULL, count});
}

compute_layer *compute_residual(compute_layer *body, compute_layer *shortcut) {
  if (IS_INHERITED(body, context)) return NULL;
  static const char *const names[] = {"body", "shortcut"};
  compute_layer *const parts[] = {body, shortcut};
  return compose(&(composition){"compute_residual", &residual, parts, names, 2});
}
