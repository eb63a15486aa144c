/* SPDX-License-Identifier: MIT */
/* Prints a network as a table.
 *
 * The network is recorded once for inference, into a graph that is never compiled. Each leaf gives
 * a row with its result shape and the arithmetic of the nodes that it added. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"
#include "ml/nn/layer.h"

/* ---- Rows ---------------------------------------------------------------------------------- */

static int64_t last_size(compute_shape shape) {
  return shape.rank > 0 ? shape_at(shape, shape.rank - 1) : 1;
}

/* Counts products of matrices, convolutions, attention and recurrent layers. Elementwise work does
 * not count. */
static double multiply_adds(const compute_graph *graph, const graph_node *node) {
  const double result = (double)shape_count(node->shape);
  switch (node->op) {
  case OP_matmul:
  case OP_matmul_integer: return result * (double)last_size(graph->nodes[node->inputs[0]].shape);
  case OP_conv2d:
  case OP_conv2d_integer:
  case OP_conv2d_by_data: {
    const compute_conv_attributes *c = network_convolution(node);
    return (double)c->batch * (double)c->result_channels * (double)c->result_size[0] *
           (double)c->result_size[1] * (double)(c->data_channels / c->groups) *
           (double)c->filter_size[0] * (double)c->filter_size[1];
  }
  case OP_scaled_attention: { /* once for the scores, once for the values */
    const compute_shape q = graph->nodes[node->inputs[0]].shape;
    const compute_shape k = graph->nodes[node->inputs[1]].shape;
    const double keys = k.rank >= 2 ? (double)shape_at(k, k.rank - 2) : 1;
    const double width = (double)last_size(node->shape);
    return width > 0 ? result * keys * (1 + (double)last_size(q) / width) : 0;
  }
  case OP_recurrent: { /* each state multiplies all of its weights once */
    const compute_recurrent_attributes *a = node->constant;
    const double steps = (double)(shape_at(node->shape, 0) - compute_recurrent_states(a->cell));
    return steps * (double)shape_at(node->shape, 1) * (double)shape_at(node->shape, 2) *
           (double)last_size(graph->nodes[node->inputs[1]].shape);
  }
  default: return 0;
  }
}

void trace_add(layer_record *record, const compute_layer *layer, const char *name, size_t first,
               compute_node result) {
  compute_graph *graph = record->graph;
  layer_trace *trace = record->trace;
  if (graph->status) return;
  void *rows = trace->rows;
  char *copy = base_duplicate(*name ? name : layer->name ? layer->name : "-");
  if (!copy || base_grow(&rows, &trace->capacity, trace->count + 1, sizeof *trace->rows)) {
    base_release(copy);
    graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_layer_summary",
               "not enough memory for another row");
    return;
  }
  trace->rows = rows;
  layer_row *row = &trace->rows[trace->count++];
  *row = (layer_row){.name = copy,
                     .kind = layer->kind->name,
                     .result = compute_node_shape(graph, result),
                     .parameters = compute_layer_element_count(layer, true)};
  for (size_t i = first; i < graph->count; i++)
    row->multiply_adds += multiply_adds(graph, &graph->nodes[i]);
}

void trace_release(layer_trace *trace) {
  for (size_t i = 0; i < trace->count; i++) base_release(trace->rows[i].name);
  base_release(trace->rows);
}

/* ---- Text ---------------------------------------------------------------------------------- */

enum { COLUMNS = 5, CELL = 192 };

/* Text columns are left-aligned; number columns are right-aligned. */
static void add_line(text_buffer *text, const int *width, const char *const *cells) {
  for (int i = 0; i < COLUMNS; i++)
    text_add(text, i < 3 ? "%s%-*s" : "%s%*s", i > 0 ? "  " : "", width[i], cells[i]);
  text_add(text, "\n");
}

typedef struct row_text {
  char result[CELL], parameters[32], multiply_adds[32];
} row_text;

static void write_row(const layer_row *row, row_text *numbers, const char **cells) {
  compute_shape_text(row->result, numbers->result, sizeof numbers->result);
  snprintf(numbers->parameters, sizeof numbers->parameters, "%" PRId64, row->parameters);
  snprintf(numbers->multiply_adds, sizeof numbers->multiply_adds, "%.0f", row->multiply_adds);
  cells[0] = row->name;
  cells[1] = row->kind;
  cells[2] = numbers->result;
  cells[3] = numbers->parameters;
  cells[4] = numbers->multiply_adds;
}

static void widen(int *width, const char *const *cells) {
  for (int i = 0; i < COLUMNS; i++) {
    const size_t length = strlen(cells[i]);
    if (length > (size_t)width[i] && length < INT32_MAX) width[i] = (int)length;
  }
}

static char *write_table(const compute_layer *layer, const layer_trace *trace, compute_shape result,
                         const char *operation) {
  static const char *const heading[COLUMNS] = {"name", "kind", "result", "parameters",
                                               "multiply-adds"};
  text_buffer text = {0};
  row_text numbers;
  const char *cells[COLUMNS];
  int width[COLUMNS] = {0};
  layer_row total = {.name = (char *)"total",
                     .kind = "",
                     .result = result,
                     .parameters = compute_layer_element_count(layer, true)};
  widen(width, heading);
  for (size_t i = 0; i < trace->count; i++) {
    write_row(&trace->rows[i], &numbers, cells);
    widen(width, cells);
    total.multiply_adds += trace->rows[i].multiply_adds;
  }
  write_row(&total, &numbers, cells);
  widen(width, cells);
  add_line(&text, width, heading);
  for (size_t i = 0; i < trace->count; i++) {
    write_row(&trace->rows[i], &numbers, cells);
    add_line(&text, width, cells);
  }
  write_row(&total, &numbers, cells);
  add_line(&text, width, cells);
  const int64_t all = compute_layer_element_count(layer, false);
  if (all > total.parameters)
    text_add(&text, "plus %" PRId64 " non-trainable values\n", all - total.parameters);
  if (!text.failed) return text.data;
  text_release(&text);
  error_set(layer->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
            "not enough memory for the text");
  return NULL;
}

char *compute_layer_summary(compute_layer *layer, compute_dtype dtype, compute_shape input) {
  FLOAT_ENVIRONMENT_DEFAULT;
  if (IS_INHERITED(layer, context)) return NULL;
  static const char operation[] = "compute_layer_summary";
  if (!layer || !layer->context) {
    error_set_native(NULL, layer ? COMPUTE_ERROR_INVALID_ARGUMENT : COMPUTE_ERROR_NULL_POINTER, 0,
                     operation, layer ? "make it part of a network that has weights" : NULL,
                     layer ? "%s: the layer has no weights, so it belongs to no context"
                           : "%s: layer is NULL",
                     operation);
    return NULL;
  }
  compute_graph *graph = compute_graph_create(layer->context);
  if (!graph) return NULL;
  layer_trace trace = {0};
  layer_record record = {.graph = graph, .trace = &trace};
  const compute_node x = compute_input(graph, dtype, input);
  const compute_node y = layer_record_part(&record, layer, NULL, x);
  char *text = NULL;
  if (compute_graph_status(graph) == COMPUTE_OK)
    text = write_table(layer, &trace, compute_node_shape(graph, y), operation);
  layer_record_release(&record);
  trace_release(&trace);
  compute_graph_release(graph);
  return text;
}
