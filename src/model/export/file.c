/* SPDX-License-Identifier: MIT */
/* Writes an assembled model to a file. Initializers are written one by one, so that only one is
 * in memory. */
#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/type/shape.h"
#include "io/new_file.h"
#include "model/export/export.h"
#include "model/onnx.h"

enum { IR_VERSION = 10 };

/* Field numbers. */
enum {
  MODEL_IR_VERSION = 1,
  MODEL_PRODUCER = 2,
  MODEL_PRODUCER_VERSION = 3,
  MODEL_DESCRIPTION = 6,
  MODEL_OPSET = 8
};
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum {
  GRAPH_NODE = 1,
  GRAPH_NAME = 2,
  GRAPH_DESCRIPTION = 10,
  GRAPH_INPUT = 11,
  GRAPH_OUTPUT = 12
};
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_TYPE = 4 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIMENSION = 1, DIMENSION_VALUE = 1 };

static const char *name_of(const exporter *from, export_value value) {
  return value ? from->names[value - 1] : "";
}

static void put_step(const exporter *from, wire_buffer *to, const export_step *step) {
  wire_buffer node = {0};
  for (size_t i = 0; i < step->input_count; i++)
    wire_put_text(&node, NODE_INPUT, name_of(from, from->inputs[step->first_input + i]));
  for (int i = 0; i < 3 && step->outputs[i]; i++)
    wire_put_text(&node, NODE_OUTPUT, name_of(from, step->outputs[i]));
  wire_put_text(&node, NODE_NAME, name_of(from, step->outputs[0]));
  wire_put_text(&node, NODE_TYPE, step->type);
  wire_put(&node, from->attributes.data + step->first_attribute, step->attribute_bytes);
  wire_put_message(to, GRAPH_NODE, &node);
}

static void put_port(const exporter *from, wire_buffer *to, uint32_t field,
                     const export_port *port) {
  wire_buffer shape = {0}, tensor = {0}, type = {0}, value = {0};
  for (int32_t i = 0; i < port->node->shape.rank; i++) {
    wire_buffer dimension = {0};
    wire_put_integer(&dimension, DIMENSION_VALUE, shape_at(port->node->shape, i));
    wire_put_message(&shape, SHAPE_DIMENSION, &dimension);
  }
  wire_put_integer(&tensor, TENSOR_ELEMENT, onnx_type_of(port->node->dtype));
  wire_put_message(&tensor, TENSOR_SHAPE, &shape);
  wire_put_message(&type, TYPE_TENSOR, &tensor);
  wire_put_text(&value, VALUE_NAME, name_of(from, port->value));
  wire_put_message(&value, VALUE_TYPE, &type);
  wire_put_message(to, field, &value);
}

/* Writes the GraphProto without its initializers. */
static void put_graph(const exporter *from, const export_ports *ports, wire_buffer *to,
                      const compute_model_export_options *options) {
  for (size_t i = 0; i < from->step_count; i++) put_step(from, to, &from->steps[i]);
  wire_put_text(to, GRAPH_NAME, options->graph_name ? options->graph_name : "graph");
  for (size_t i = 0; i < ports->input_count; i++)
    put_port(from, to, GRAPH_INPUT, &ports->inputs[i]);
  for (size_t i = 0; i < ports->output_count; i++)
    put_port(from, to, GRAPH_OUTPUT, &ports->outputs[i]);
}

/* ---- Initializers ---------------------------------------------------------------------------- */

static uint64_t bytes_of(const export_tensor *tensor) {
  return (uint64_t)shape_count(tensor->shape) * compute_dtype_size(tensor->dtype);
}

/* Writes an initializer up to its elements. */
static void put_head(const exporter *from, wire_buffer *to, const export_tensor *tensor) {
  wire_put_initializer(to, name_of(from, tensor->value), onnx_type_of(tensor->dtype), tensor->shape,
                       bytes_of(tensor));
}

static compute_status write_tensor(const exporter *from, new_file *file,
                                   const export_tensor *tensor) {
  const compute_context *context = from->graph->context;
  const size_t bytes = (size_t)bytes_of(tensor);
  wire_buffer head = {0};
  put_head(from, &head, tensor);
  void *copy = tensor->data ? NULL : base_allocate(bytes, 1);
  compute_status status = COMPUTE_OK;
  if (head.failed || (!tensor->data && !copy))
    status = error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, file->operation, "out of memory");
  if (!status) status = new_file_write(file, head.data, head.count);
  if (!status && copy && bytes) status = compute_tensor_read(tensor->tensor, copy, bytes);
  if (!status) status = new_file_write(file, copy ? copy : tensor->data, bytes);
  base_release(copy);
  wire_buffer_release(&head);
  return status;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Writes the file up to the initializers. */
static bool put_model(const exporter *from, const export_ports *ports, wire_buffer *to,
                      uint64_t *bytes, const compute_model_export_options *options) {
  wire_buffer graph = {0}, heads = {0}, opset = {0};
  uint64_t elements = 0;
  put_graph(from, ports, &graph, options);
  for (size_t i = 0; i < from->tensor_count; i++) {
    put_head(from, &heads, &from->tensors[i]);
    elements += bytes_of(&from->tensors[i]);
  }
  wire_put_integer(to, MODEL_IR_VERSION, IR_VERSION);
  wire_put_text(to, MODEL_PRODUCER, "libcompute");
  wire_put_text(to, MODEL_PRODUCER_VERSION, compute_version_text());
  if (options->description) wire_put_text(to, MODEL_DESCRIPTION, options->description);
  wire_put_text(&opset, OPSET_DOMAIN, "");
  wire_put_integer(&opset, OPSET_VERSION, COMPUTE_MODEL_EXPORT_OPSET);
  wire_put_message(to, MODEL_OPSET, &opset);
  wire_put_length(to, MODEL_GRAPH, graph.count + heads.count + elements);
  wire_put(to, graph.data, graph.count);
  *bytes = to->count + heads.count + elements;
  to->failed |= graph.failed || heads.failed;
  wire_buffer_release(&graph);
  wire_buffer_release(&heads);
  return !to->failed;
}

compute_status export_write(const exporter *from, const export_ports *ports, const char *operation,
                            const char *path, const compute_model_export_options *options) {
  const compute_context *context = from->graph->context;
  wire_buffer model = {0};
  uint64_t bytes;
  char size[32];
  compute_status status = COMPUTE_OK;
  if (!put_model(from, ports, &model, &bytes, options))
    status = error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
  else if (bytes > INT32_MAX)
    status = error_set(context, COMPUTE_ERROR_UNSUPPORTED, operation,
                       "%s: the model takes %s; an ONNX file holds less than 2 GiB", path,
                       bytes_text(bytes, size, sizeof size));
  new_file file;
  if (!status) status = new_file_open(context, operation, path, &file);
  if (!status) {
    status = new_file_write(&file, model.data, model.count);
    for (size_t i = 0; !status && i < from->tensor_count; i++)
      status = write_tensor(from, &file, &from->tensors[i]);
    status = new_file_close(&file, status);
  }
  wire_buffer_release(&model);
  return status;
}
