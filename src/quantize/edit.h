/* SPDX-License-Identifier: MIT */
/* A decoded ONNX file, facts about its values, and changes to write: initializers and nodes that
 * are added, inputs that nodes read instead, nodes that are replaced, outputs that are added. */
#ifndef QUANTIZE_EDIT_H
#define QUANTIZE_EDIT_H

#include "model/file/wire_write.h"
#include "model/onnx.h"

typedef struct edited_value {
  int32_t producer;    /* a node, or −1 */
  int32_t initializer; /* or −1 */
  int32_t uses;        /* inputs of nodes of the main graph */
  bool nested;         /* used by a graph in a node */
  bool output;         /* of the model */
  bool input;          /* of the model */
  int32_t kept;        /* inputs that still read it when the file is written */
} edited_value;

typedef struct edited_node {
  const char **inputs, **outputs; /* the names to write, or NULL: unchanged */
  wire_buffer before, after;      /* nodes, encoded as fields of the graph */
  bool replaced;                  /* not written itself */
} edited_node;

typedef struct edit {
  const compute_context *context;
  const char *operation;
  wire_buffer source; /* the file */
  onnx_file file;
  const onnx_graph *graph;
  model_arena memory;
  edited_value *values; /* per value of the graph */
  edited_node *nodes;   /* per node of the graph */
  int64_t opset;        /* of ONNX's own domain */
  const char *tag;      /* of new names: no name of the file contains it */
  wire_buffer first, initializers;
  bool microsoft; /* new nodes use this domain */
  bool failed;    /* out of memory */
} edit;

/* Takes ownership of `source`. edit_close is needed in every case. */
compute_status edit_open(edit *e, const compute_context *context, const char *operation,
                         wire_buffer source);
void edit_close(edit *e);

/* "<name><tag><part>", in the edit's memory. "" if out of memory. */
const char *edit_name(edit *e, const char *name, const char *part);

void edit_set_input(edit *e, size_t node, size_t input, const char *name);
void edit_set_output(edit *e, size_t node, size_t output, const char *name);

/* An attribute of a new node. */
typedef struct edit_attribute {
  const char *name; /* NULL ends a list */
  int64_t integer;
} edit_attribute;

/* Adds a node to `to`. `inputs` ends in NULL; "" is an omitted input. */
void edit_put_node(edit *e, wire_buffer *to, const char *domain, const char *type,
                   const char *const *inputs, const char *output, const edit_attribute *attributes);

/* Adds an initializer with `bytes` bytes of elements. */
void edit_put_tensor(edit *e, const char *name, int32_t type, compute_shape shape, const void *data,
                     uint64_t bytes);

/* The f32 elements of an initializer, in the edit's memory; NULL if out of memory. */
float *edit_floats(edit *e, const onnx_tensor *tensor);

/* Writes the file with all changes. Constants that are no longer used are omitted. */
compute_status edit_write(edit *e, wire_buffer *result);

/* The file `source` with values of its main graph as more outputs. Names that are outputs already
 * must not be among them. */
bool edit_add_outputs(const wire_buffer *source, const char *const *names, size_t count,
                      wire_buffer *result);

static inline const char *edit_value_name(const edit *e, int32_t value) {
  return e->graph->values[value];
}

/* The initializer or tensor of a Constant node that defines a value, or NULL. From IR version 4 on,
 * callers may replace an initializer that is also an input: NULL. */
const onnx_tensor *edit_constant(const edit *e, int32_t value);

/* The constant that input `input` of a node reads, or NULL. */
const onnx_tensor *edit_initializer(const edit *e, const onnx_node *node, size_t input);

/* The index of the main graph's value that a node reads, or −1. */
static inline int32_t edit_input(const onnx_node *node, size_t input) {
  return input < node->input_count ? node->inputs[input].index : -1;
}

compute_status edit_out_of_memory(const edit *e);

#endif
