/* SPDX-License-Identifier: MIT */
/* A decoded and checked ONNX file: names are resolved and sizes are validated. One arena owns
 * all of it except the weights, which stay in place. */
#ifndef MODEL_ONNX_H
#define MODEL_ONNX_H

#include "compute/model.h"
#include "model/file/arena.h"
#include "model/file/wire.h"

/* TensorProto.DataType */
typedef enum onnx_type {
  ONNX_UNDEFINED = 0,
  ONNX_FLOAT = 1,
  ONNX_UINT8 = 2,
  ONNX_INT8 = 3,
  ONNX_UINT16 = 4,
  ONNX_INT16 = 5,
  ONNX_INT32 = 6,
  ONNX_INT64 = 7,
  ONNX_STRING = 8,
  ONNX_BOOL = 9,
  ONNX_FLOAT16 = 10,
  ONNX_DOUBLE = 11,
  ONNX_UINT32 = 12,
  ONNX_UINT64 = 13,
  ONNX_COMPLEX64 = 14,
  ONNX_COMPLEX128 = 15,
  ONNX_BFLOAT16 = 16,
  ONNX_FLOAT8E4M3FN = 17,
  ONNX_FLOAT8E4M3FNUZ = 18,
  ONNX_FLOAT8E5M2 = 19,
  ONNX_FLOAT8E5M2FNUZ = 20,
  ONNX_UINT4 = 21,
  ONNX_INT4 = 22,
  ONNX_FLOAT4E2M1 = 23,
  ONNX_FLOAT8E8M0 = 24,
  ONNX_UINT2 = 25,
  ONNX_INT2 = 26,
  ONNX_FLOAT6E2M3 = 27,
  ONNX_FLOAT6E3M2 = 28,
  ONNX_LABEL = 256 /* in no file: positions in a list of labels (labels.c) */
} onnx_type;

/* The dtype for computing with values of a type: i8 for int4 and int2, u8 for uint4 and uint2,
 * f32 for floats of 8, 6 and 4 bits (restricted to that type's values). NONE for strings,
 * complex numbers and unknown types. */
compute_dtype onnx_dtype(int32_t type);
int32_t onnx_type_of(compute_dtype dtype); /* ONNX_FLOAT for f32, … */
const char *onnx_type_name(int32_t type);  /* "f16"; "type 99" is "unknown" */

typedef struct onnx_tensor {
  const char *name; /* "" for none */
  int32_t type;
  int32_t rank;        /* −1: more than COMPUTE_MAX_RANK */
  compute_shape shape; /* its product, also times the element's size, fits into 63 bits */
  int64_t count;
  /* At least `count` elements of onnx_dtype(type), dense and little-endian, perhaps unaligned.
   * They are in the file, or in the arena if the file stores another form. NULL for types
   * without a dtype, and if count is 0. */
  const void *data;
  const void *aligned;        /* a copy in the arena made by weight_elements, or NULL */
  bool in_file;               /* data points into this file or an external data file */
  const char *const *strings; /* ONNX_STRING: `count` of them */
} onnx_tensor;

struct onnx_graph;

/* AttributeProto.AttributeType */
typedef enum onnx_attribute_type {
  ONNX_ATTRIBUTE_NONE = 0,
  ONNX_ATTRIBUTE_FLOAT = 1,
  ONNX_ATTRIBUTE_INT = 2,
  ONNX_ATTRIBUTE_STRING = 3,
  ONNX_ATTRIBUTE_TENSOR = 4,
  ONNX_ATTRIBUTE_GRAPH = 5,
  ONNX_ATTRIBUTE_FLOATS = 6,
  ONNX_ATTRIBUTE_INTS = 7,
  ONNX_ATTRIBUTE_STRINGS = 8,
  ONNX_ATTRIBUTE_OTHER = 99 /* types, lists of tensors and graphs */
} onnx_attribute_type;

typedef struct onnx_attribute {
  const char *name;
  const char *reference; /* in functions: the name of the calling node's attribute that supplies
                          * the value, else NULL */
  onnx_attribute_type type;
  int64_t integer;
  float number;
  const char *text; /* zero-terminated; `count` is its length */
  size_t count;     /* of a list */
  const int64_t *integers;
  const float *numbers;
  const char *const *texts;
  const onnx_tensor *tensor; /* a sparse tensor is made dense */
  struct onnx_graph *graph;
} onnx_attribute;

/* Locates a graph's value: `level` 0 is the graph itself, 1 the enclosing one, …; `index` is an
 * index in that graph's onnx_graph.values. −1: omitted (an empty name). */
typedef struct onnx_reference {
  int32_t level, index;
} onnx_reference;

typedef struct onnx_node {
  const char *name, *type, *domain, *overload; /* "" for none; domain "ai.onnx" is "" */
  size_t input_count, output_count, attribute_count;
  const char *const *input_names, *const *output_names;
  const onnx_reference *inputs; /* resolved */
  const int32_t *outputs;       /* indices in this graph's values, −1: omitted */
  const onnx_attribute *attributes;
  const struct onnx_function *function; /* the called function of this model, or NULL */
  int32_t place;                        /* among the nodes of the graph's message */
} onnx_node;

/* A value's type: a tensor, or a sequence or optional of tensors. */
typedef struct onnx_value_info {
  const char *name;
  int32_t value; /* index in onnx_graph.values */
  enum { ONNX_IS_UNKNOWN, ONNX_IS_TENSOR, ONNX_IS_SEQUENCE, ONNX_IS_OPTIONAL, ONNX_IS_OTHER } kind;
  int32_t type; /* of the elements */
  int32_t rank; /* −1: unspecified, or too large (`axes`) */
  size_t axes;
  int64_t size[COMPUTE_MAX_RANK];       /* −1: unspecified */
  const char *symbol[COMPUTE_MAX_RANK]; /* or NULL */
  bool has_default;                     /* an input with an initializer */
  bool sequence;                        /* a sequence, or an optional one */
} onnx_value_info;

typedef struct onnx_graph {
  const char *name;
  const struct onnx_graph *outer; /* the enclosing graph whose values it may use, or NULL */
  size_t node_count, initializer_count, input_count, output_count;
  onnx_node *nodes; /* in topological order */
  onnx_tensor *initializers;
  int32_t *initializer_values; /* their indices in `values` */
  onnx_value_info *inputs, *outputs;
  size_t value_count;
  const char **values; /* names of all values; each is defined once */
} onnx_graph;

typedef struct onnx_opset {
  const char *domain; /* "" is ONNX */
  int64_t version;
} onnx_opset;

/* A function defined by the model: a graph without initializers. It takes the calling node's
 * inputs and outputs as its own. */
typedef struct onnx_function {
  const char *domain, *name, *overload;
  onnx_graph body;
  size_t opset_count, default_count;
  const onnx_opset *opsets;
  const onnx_attribute *defaults; /* for attributes that a node omits */
} onnx_function;

typedef struct text_pair {
  const char *key, *value;
} text_pair;

typedef struct onnx_file {
  model_arena arena;
  int64_t ir_version;
  const char *producer, *description;
  onnx_graph graph;
  size_t opset_count, function_count, metadata_count;
  const onnx_opset *opsets;
  onnx_function *functions;
  const text_pair *metadata;
  uint64_t nodes;                               /* includes sub-graphs and functions */
  uint64_t weights, weight_bytes, mapped_bytes; /* initializers of all graphs */
  struct mapped_file *mapped;                   /* this file and its external data files */
  wire message;                                 /* the whole file */
} onnx_file;

/* Maps or reads the file at `path` and decodes it. Errors name the problem and the path. On
 * failure *file is empty. On success *file must not move, because graphs point to each other. */
compute_status onnx_open(const compute_context *context, const char *operation, const char *path,
                         compute_model_files files, onnx_file *file);

/* The same for `message`, which must not change until onnx_release. `folder` contains external
 * data, or is NULL. Errors use `shown` as the name, such as "the model". */
compute_status onnx_decode(const compute_context *context, const char *operation, const char *shown,
                           wire message, const char *folder, compute_model_files files,
                           onnx_file *file);

/* The same for a single TensorProto. */
compute_status onnx_decode_tensor(const compute_context *context, const char *operation,
                                  const char *shown, wire message, onnx_file *file,
                                  const onnx_tensor **tensor);

void onnx_release(onnx_file *file);

const onnx_attribute *onnx_find_attribute(const onnx_node *node, const char *name);

/* The graph's initializer with this name, or NULL. */
const onnx_tensor *onnx_find_initializer(const onnx_graph *graph, const char *name);

#endif
