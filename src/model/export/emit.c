/* SPDX-License-Identifier: MIT */
/* Nodes and constants of the model being written. Lists keep them until their names are known. */
#include "model/export/export.h"

#include <string.h>

#include "core/base/alloc.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "model/onnx.h"

/* Field numbers in NodeProto and AttributeProto, and AttributeProto's types. */
enum { NODE_ATTRIBUTE = 5 };
enum { NAME = 1, NUMBER = 2, INTEGER = 3, TEXT = 4, INTEGERS = 8, TYPE = 20 };
enum { TYPE_NUMBER = 1, TYPE_INTEGER = 2, TYPE_TEXT = 3, TYPE_INTEGERS = 7 };

/* Ensures capacity for one more list element. */
#define GROW(to, list, count, capacity)                                                            \
  (!(to)->failed && !((to)->failed |= base_grow((void **)&(to)->list, &(to)->capacity,             \
                                                (to)->count + 1, sizeof *(to)->list) != 0))

export_value export_new_value(exporter *to) {
  if (!GROW(to, names, value_count, value_capacity)) return 0;
  to->names[to->value_count++] = NULL;
  return (export_value)to->value_count;
}

/* ---- Attributes ------------------------------------------------------------------------------ */

static void put_attribute(exporter *to, wire_buffer *message, int64_t type) {
  wire_put_integer(message, TYPE, type);
  wire_put_message(&to->attributes, NODE_ATTRIBUTE, message);
}

void export_set_integer(exporter *to, const char *name, int64_t value) {
  wire_buffer message = {0};
  wire_put_text(&message, NAME, name);
  wire_put_integer(&message, INTEGER, value);
  put_attribute(to, &message, TYPE_INTEGER);
}

void export_set_number(exporter *to, const char *name, double value) {
  wire_buffer message = {0};
  wire_put_text(&message, NAME, name);
  wire_put_float(&message, NUMBER, (float)value);
  put_attribute(to, &message, TYPE_NUMBER);
}

void export_set_text(exporter *to, const char *name, const char *value) {
  wire_buffer message = {0};
  wire_put_text(&message, NAME, name);
  wire_put_text(&message, TEXT, value);
  put_attribute(to, &message, TYPE_TEXT);
}

void export_set_integers(exporter *to, const char *name, const int64_t *values, size_t count) {
  wire_buffer message = {0};
  wire_put_text(&message, NAME, name);
  for (size_t i = 0; i < count; i++) wire_put_integer(&message, INTEGERS, values[i]);
  put_attribute(to, &message, TYPE_INTEGERS);
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

export_value export_emit(exporter *to, const char *type, const export_value *inputs, size_t count) {
  const export_value output = export_new_value(to);
  if (!GROW(to, steps, step_count, step_capacity)) return 0;
  to->steps[to->step_count++] = (export_step){.type = type,
                                              .first_input = to->input_count,
                                              .input_count = count,
                                              .first_attribute = to->pending,
                                              .attribute_bytes = to->attributes.count - to->pending,
                                              .outputs = {output}};
  to->pending = to->attributes.count;
  for (size_t i = 0; i < count; i++) {
    if (!GROW(to, inputs, input_count, input_capacity)) return 0;
    to->inputs[to->input_count++] = inputs[i];
  }
  return output;
}

export_value export_next_output(exporter *to) {
  const export_value output = export_new_value(to);
  if (to->failed) return 0;
  export_value *outputs = to->steps[to->step_count - 1].outputs;
  outputs[outputs[1] ? 2 : 1] = output;
  return output;
}

export_value export_plain(exporter *to, const export_call *call) {
  return export_emit(to, call->form->text, call->inputs, call->node->input_count);
}

const graph_node *export_operand(const exporter *from, const export_call *call, uint32_t index) {
  return &from->graph->nodes[call->node->inputs[index]];
}

/* ---- Constants ------------------------------------------------------------------------------- */

export_value export_add_tensor(exporter *to, compute_dtype dtype, compute_shape shape,
                               const void *data, const compute_tensor *tensor) {
  const export_value value = export_new_value(to);
  if (!GROW(to, tensors, tensor_count, tensor_capacity)) return 0;
  to->tensors[to->tensor_count++] = (export_tensor){value, dtype, shape, data, tensor};
  return value;
}

static export_value add_copy(exporter *to, compute_dtype dtype, compute_shape shape,
                             const void *data, size_t bytes) {
  void *copy = arena_allocate(&to->arena, bytes, 1);
  if (!copy) {
    to->failed = true;
    return 0;
  }
  if (bytes) memcpy(copy, data, bytes);
  return export_add_tensor(to, dtype, shape, copy, NULL);
}

export_value export_number(exporter *to, compute_dtype dtype, double value) {
  uint64_t element = 0;
  dtype_store(dtype, &element, value);
  return add_copy(to, dtype, COMPUTE_SCALAR, &element, compute_dtype_size(dtype));
}

export_value export_list(exporter *to, const int64_t *values, size_t count) {
  return add_copy(to, COMPUTE_I64, COMPUTE_SHAPE((int64_t)count), values, count * sizeof *values);
}

export_value export_integer(exporter *to, int64_t value) {
  return export_list(to, &value, 1);
}

export_value export_fill(exporter *to, compute_dtype dtype, compute_shape shape,
                         const void *element) {
  const export_value one = add_copy(to, dtype, COMPUTE_SCALAR, element, compute_dtype_size(dtype));
  return shape.rank ? export_expand(to, one, shape) : one;
}

export_value export_zeros(exporter *to, compute_dtype dtype, compute_shape shape) {
  return export_fill(to, dtype, shape, &(uint64_t){0});
}

/* ---- Common nodes ---------------------------------------------------------------------------- */

export_value export_cast(exporter *to, export_value x, compute_dtype dtype) {
  export_set_integer(to, "to", onnx_type_of(dtype));
  return EMIT(to, "Cast", x);
}

export_value export_reshape(exporter *to, export_value x, compute_shape shape) {
  if (shape_count(shape) == 0) export_set_integer(to, "allowzero", 1);
  return EMIT(to, "Reshape", x, export_list(to, shape.size, (size_t)shape.rank));
}

export_value export_permute(exporter *to, export_value x, const int32_t *order, int32_t rank) {
  int64_t list[COMPUTE_MAX_RANK] = {0};
  for (int32_t i = 0; i < rank; i++) list[i] = order[i];
  export_set_integers(to, "perm", list, (size_t)rank);
  return EMIT(to, "Transpose", x);
}

export_value export_expand(exporter *to, export_value x, compute_shape shape) {
  return EMIT(to, "Expand", x, export_list(to, shape.size, (size_t)shape.rank));
}

export_value export_count(exporter *to, int64_t count) {
  return EMIT(to, "Range", export_number(to, COMPUTE_I64, 0),
              export_number(to, COMPUTE_I64, (double)count), export_number(to, COMPUTE_I64, 1));
}

void export_release(exporter *from) {
  base_release(from->names);
  base_release(from->steps);
  base_release(from->inputs);
  base_release(from->tensors);
  wire_buffer_release(&from->attributes);
  arena_release(&from->arena);
}
