/* SPDX-License-Identifier: MIT */
/* Measures the error of each layer: the model and its quantized form run on the same samples. */
#include "quantize/report.h"

#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "quantize/quantizer.h"

enum { MOST_SAMPLES = 4 };

/* Sums of one value. */
typedef struct error_sum {
  double squares, apart, largest;
  bool measured;
} error_sum;

static void add_error(error_sum *sum, const float *of, const float *made, int64_t count) {
  sum->measured = true;
  for (int64_t i = 0; i < count; i++) {
    const double x = (double)of[i];
    const double apart = of[i] == made[i] ? 0 : fabs((double)made[i] - x);
    if (isfinite(x)) sum->squares += x * x;
    sum->apart += apart * apart;
    if (!(apart <= sum->largest)) sum->largest = apart; /* also NaN */
  }
}

static compute_status compare(const sampled *of, const sampled *made, error_sum *sums) {
  for (size_t i = 0; i < of->output_count; i++) {
    const compute_tensor *a = of->outputs[i].tensor, *b = made->outputs[i].tensor;
    if (!a || !b || !compute_shape_equal(compute_tensor_shape(a), compute_tensor_shape(b)))
      continue;
    compute_status status;
    float *x = sample_floats(a, &status), *y = status ? NULL : sample_floats(b, &status);
    if (!status) add_error(&sums[i], x, y, compute_tensor_count(a));
    base_release(x);
    base_release(y);
    if (status) return status;
  }
  return COMPUTE_OK;
}

/* Measures at most MOST_SAMPLED values. */
static compute_status measure_some(quantizer *q, const wire_buffer *made, const int32_t *values,
                                   size_t count, error_sum *sums) {
  sampled of = {0}, quantized = {0};
  compute_model_binding *inputs = sample_inputs(q);
  bool more = true;
  compute_status status = inputs ? COMPUTE_OK : edit_out_of_memory(&q->e);
  if (!status) status = sampled_open(q, &q->e.source, values, count, &of);
  if (!status) status = sampled_open(q, made, values, count, &quantized);
  for (size_t i = 0; !status && i < MOST_SAMPLES; i++) {
    status = sample_next(q, i, inputs, &more);
    if (status || !more) break;
    status = sampled_run(&of, inputs, q->input_count);
    if (!status) status = sampled_run(&quantized, inputs, q->input_count);
    if (!status) status = compare(&of, &quantized, sums);
    sampled_clear(&of);
    sampled_clear(&quantized);
  }
  sampled_close(&of);
  sampled_close(&quantized);
  return status;
}

static compute_status measure(quantizer *q, const wire_buffer *made, const int32_t *values,
                              size_t count, error_sum *sums) {
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < count; i += MOST_SAMPLED)
    status = measure_some(q, made, values + i, count - i < MOST_SAMPLED ? count - i : MOST_SAMPLED,
                          sums + i);
  return status;
}

enum { NO_PLACE = -1 };

/* True for an output that may be a tensor of numbers. */
static bool is_numeric(const onnx_value_info *output) {
  return output->kind == ONNX_IS_UNKNOWN ||
         (output->kind == ONNX_IS_TENSOR && output->type != ONNX_STRING);
}

/* The values of the layers, each once, and the place of each value among them. */
typedef struct value_list {
  int32_t *values, *places; /* per layer; per value of the graph, −1: not in the list */
  size_t count;
  int32_t *of_layer; /* the place of each layer's value, or NO_PLACE: not measured */
} value_list;

static void add_layer(value_list *list, compute_quantize_report *r, int32_t value,
                      compute_quantize_layer layer, const char *name, const char *type,
                      bool measured) {
  if (measured && list->places[value] < 0) {
    list->places[value] = (int32_t)list->count;
    list->values[list->count++] = value;
  }
  layer.name = arena_text(&r->memory, name, strlen(name));
  layer.operation = arena_text(&r->memory, type, strlen(type));
  list->of_layer[r->count] = measured ? list->places[value] : NO_PLACE;
  r->layers[r->count++] = layer;
}

static bool list_layers(quantizer *q, compute_quantize_report *r, value_list *list) {
  const onnx_graph *graph = q->e.graph;
  for (size_t i = 0; i < graph->value_count; i++) list->places[i] = NO_PLACE;
  for (size_t i = 0; i < graph->node_count; i++) {
    const onnx_node *node = &graph->nodes[i];
    const char *reason = q->reasons[i];
    if ((!q->quantized[i] && !reason) || !node->output_count || node->outputs[0] < 0) continue;
    const compute_quantize_layer layer = {.quantized = q->quantized[i],
                                          .reason = reason ? reason : ""};
    add_layer(list, r, node->outputs[0], layer, node->output_names[0], node->type, true);
  }
  for (size_t i = 0; i < graph->output_count; i++) {
    if (graph->outputs[i].value < 0) continue;
    r->outputs++;
    add_layer(list, r, graph->outputs[i].value, (compute_quantize_layer){.reason = ""},
              graph->outputs[i].name, "output", is_numeric(&graph->outputs[i]));
  }
  for (size_t i = 0; i < r->count; i++)
    if (!r->layers[i].name || !r->layers[i].operation) return false;
  return true;
}

static void set_errors(compute_quantize_report *r, const int32_t *places, const error_sum *sums) {
  const error_sum none = {0};
  for (size_t i = 0; i < r->count; i++) {
    const error_sum *s = places[i] < 0 ? &none : &sums[places[i]];
    r->layers[i].relative_error = !s->measured    ? (double)NAN
                                  : s->apart == 0 ? 0
                                                  : sqrt(s->apart / s->squares);
    r->layers[i].largest_error = s->measured ? s->largest : (double)NAN;
  }
}

compute_status report_make(quantizer *q, const wire_buffer *made,
                           compute_quantize_report **report) {
  model_arena *memory = &q->e.memory;
  const onnx_graph *graph = q->e.graph;
  const size_t most = graph->node_count + graph->output_count;
  compute_quantize_report *r = base_allocate(1, sizeof *r);
  value_list list = {arena_allocate(memory, most, sizeof *list.values),
                     arena_allocate(memory, graph->value_count, sizeof *list.places), 0,
                     arena_allocate(memory, most, sizeof *list.of_layer)};
  error_sum *sums = arena_allocate(memory, most, sizeof *sums);
  compute_status status = COMPUTE_OK;
  if (r) r->layers = arena_allocate(&r->memory, most, sizeof *r->layers);
  if (!r || !r->layers || !list.values || !list.places || !list.of_layer || !sums ||
      !list_layers(q, r, &list))
    status = edit_out_of_memory(&q->e);
  if (!status) {
    r->source_bytes = q->e.source.count;
    r->made_bytes = made->count;
    if (q->o.next || q->o.sample_count) status = measure(q, made, list.values, list.count, sums);
  }
  if (!status) set_errors(r, list.of_layer, sums);
  if (status)
    compute_quantize_report_release(r);
  else
    *report = r;
  return status;
}
