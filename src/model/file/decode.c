/* SPDX-License-Identifier: MIT */
/* Decodes an ONNX file's messages. Each message type has a table of its fields and a function
 * that converts them for the rest of src/model. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/platform/names.h"
#include "io/new_file.h"
#include "model/file/message.h"

static const char *text_or_empty(const char *text) {
  return text ? text : "";
}

static const char *domain_text(const char *domain) {
  return domain && strcmp(domain, "ai.onnx") != 0 ? domain : "";
}

/* ---- Tensors ------------------------------------------------------------------------------- */

static const message_field pair_fields[] = {
    {1, FIELD_TEXT, offsetof(text_pair, key), NULL},
    {2, FIELD_TEXT, offsetof(text_pair, value), NULL},
};

static compute_status finish_pair(onnx_decoder *decoder, const void *raw, wire message,
                                  void *result) {
  (void)decoder, (void)message;
  const text_pair *pair = raw;
  *(text_pair *)result = (text_pair){text_or_empty(pair->key), text_or_empty(pair->value)};
  return COMPUTE_OK;
}

static const message_type pair_type =
    MESSAGE_TYPE("StringStringEntryProto", pair_fields, text_pair, text_pair, finish_pair);

static const message_field tensor_fields[] = {
    {1, FIELD_INTEGERS, offsetof(tensor_message, sizes), NULL},
    {2, FIELD_INTEGER, offsetof(tensor_message, type), NULL},
    {3, FIELD_PRESENT, offsetof(tensor_message, segment), NULL},
    {4, FIELD_IN_SET, offsetof(tensor_message, present), NULL},
    {5, FIELD_IN_SET, offsetof(tensor_message, present), NULL},
    {6, FIELD_TEXTS, offsetof(tensor_message, strings), NULL},
    {7, FIELD_IN_SET, offsetof(tensor_message, present), NULL},
    {8, FIELD_TEXT, offsetof(tensor_message, name), NULL},
    {9, FIELD_BYTES, offsetof(tensor_message, raw), NULL},
    {10, FIELD_IN_SET, offsetof(tensor_message, present), NULL},
    {11, FIELD_IN_SET, offsetof(tensor_message, present), NULL},
    {13, FIELD_MESSAGES, offsetof(tensor_message, external), &pair_type},
    {14, FIELD_INTEGER, offsetof(tensor_message, location), NULL},
};

static compute_status finish_tensor(onnx_decoder *decoder, const void *raw, wire message,
                                    void *result) {
  return tensor_take(decoder, raw, message, result);
}

static const message_type tensor_type =
    MESSAGE_TYPE("TensorProto", tensor_fields, tensor_message, onnx_tensor, finish_tensor);

static const message_field sparse_fields[] = {
    {1, FIELD_MESSAGE, offsetof(sparse_message, values), &tensor_type},
    {2, FIELD_MESSAGE, offsetof(sparse_message, indices), &tensor_type},
    {3, FIELD_INTEGERS, offsetof(sparse_message, sizes), NULL},
};

static compute_status finish_sparse(onnx_decoder *decoder, const void *raw, wire message,
                                    void *result) {
  (void)message;
  return tensor_take_sparse(decoder, raw, result);
}

static const message_type sparse_type =
    MESSAGE_TYPE("SparseTensorProto", sparse_fields, sparse_message, onnx_tensor, finish_sparse);

/* ---- Types of values ----------------------------------------------------------------------- */

typedef struct dimension {
  given_integer size;
  const char *symbol;
} dimension;

static const message_field dimension_fields[] = {
    {1, FIELD_GIVEN, offsetof(dimension, size), NULL},
    {2, FIELD_TEXT, offsetof(dimension, symbol), NULL},
};

static compute_status finish_dimension(onnx_decoder *decoder, const void *raw, wire message,
                                       void *result) {
  (void)decoder, (void)message;
  memcpy(result, raw, sizeof(dimension));
  return COMPUTE_OK;
}

static const message_type dimension_type =
    MESSAGE_TYPE("Dimension", dimension_fields, dimension, dimension, finish_dimension);

static const message_field shape_fields[] = {{1, FIELD_MESSAGES, 0, &dimension_type}};

static compute_status finish_shape(onnx_decoder *decoder, const void *raw, wire message,
                                   void *result) {
  (void)decoder, (void)message;
  memcpy(result, raw, sizeof(message_list));
  return COMPUTE_OK;
}

static const message_type shape_type =
    MESSAGE_TYPE("TensorShapeProto", shape_fields, message_list, message_list, finish_shape);

/* TypeProto and its variants become an onnx_value_info without a name. */
static const onnx_value_info unknown_value = {.name = "", .rank = -1};

typedef struct raw_tensor_type {
  int64_t type;
  const message_list *shape;
} raw_tensor_type;

static const message_field tensor_type_fields[] = {
    {1, FIELD_INTEGER, offsetof(raw_tensor_type, type), NULL},
    {2, FIELD_MESSAGE, offsetof(raw_tensor_type, shape), &shape_type},
};

static int32_t narrow_type(int64_t type) {
  return type < 0 || type > INT32_MAX ? INT32_MAX : (int32_t)type;
}

static compute_status finish_tensor_type(onnx_decoder *decoder, const void *raw, wire message,
                                         void *result) {
  (void)decoder, (void)message;
  const raw_tensor_type *given = raw;
  onnx_value_info *info = result;
  *info = unknown_value;
  info->kind = ONNX_IS_TENSOR;
  info->type = narrow_type(given->type);
  if (!given->shape) return COMPUTE_OK;
  info->axes = given->shape->count;
  if (info->axes > COMPUTE_MAX_RANK) return COMPUTE_OK;
  const dimension *dimensions = given->shape->items;
  info->rank = (int32_t)given->shape->count;
  for (int32_t i = 0; i < info->rank; i++) {
    const given_integer size = dimensions[i].size;
    info->size[i] = size.given && size.value >= 0 ? size.value : -1;
    if (dimensions[i].symbol && *dimensions[i].symbol) info->symbol[i] = dimensions[i].symbol;
  }
  return COMPUTE_OK;
}

static const message_type tensor_type_type = MESSAGE_TYPE(
    "TypeProto.Tensor", tensor_type_fields, raw_tensor_type, onnx_value_info, finish_tensor_type);

typedef struct raw_element_type {
  const onnx_value_info *element;
} raw_element_type;

static const message_type value_type_type;

static const message_field element_type_fields[] = {{1, FIELD_MESSAGE, 0, &value_type_type}};

static compute_status finish_sequence_type(onnx_decoder *decoder, const void *raw, wire message,
                                           void *result) {
  (void)decoder, (void)message;
  const onnx_value_info *element = ((const raw_element_type *)raw)->element;
  onnx_value_info *info = result;
  *info = element ? *element : unknown_value;
  info->sequence = true;
  info->kind = info->kind <= ONNX_IS_TENSOR ? ONNX_IS_SEQUENCE : ONNX_IS_OTHER;
  return COMPUTE_OK;
}

static compute_status finish_optional_type(onnx_decoder *decoder, const void *raw, wire message,
                                           void *result) {
  (void)decoder, (void)message;
  const onnx_value_info *element = ((const raw_element_type *)raw)->element;
  onnx_value_info *info = result;
  *info = element ? *element : unknown_value;
  info->kind = info->kind <= ONNX_IS_SEQUENCE ? ONNX_IS_OPTIONAL : ONNX_IS_OTHER;
  return COMPUTE_OK;
}

static const message_type sequence_type_type =
    MESSAGE_TYPE("TypeProto.Sequence", element_type_fields, raw_element_type, onnx_value_info,
                 finish_sequence_type);
static const message_type optional_type_type =
    MESSAGE_TYPE("TypeProto.Optional", element_type_fields, raw_element_type, onnx_value_info,
                 finish_optional_type);

typedef struct raw_value_type {
  const onnx_value_info *tensor, *sequence, *optional;
  bool other;
} raw_value_type;

static const message_field value_type_fields[] = {
    {1, FIELD_MESSAGE, offsetof(raw_value_type, tensor), &tensor_type_type},
    {4, FIELD_MESSAGE, offsetof(raw_value_type, sequence), &sequence_type_type},
    {5, FIELD_PRESENT, offsetof(raw_value_type, other), NULL},
    {7, FIELD_PRESENT, offsetof(raw_value_type, other), NULL},
    {8, FIELD_PRESENT, offsetof(raw_value_type, other), NULL},
    {9, FIELD_MESSAGE, offsetof(raw_value_type, optional), &optional_type_type},
};

static compute_status finish_value_type(onnx_decoder *decoder, const void *raw, wire message,
                                        void *result) {
  (void)decoder, (void)message;
  const raw_value_type *type = raw;
  onnx_value_info *info = result;
  *info = type->tensor     ? *type->tensor
          : type->sequence ? *type->sequence
          : type->optional ? *type->optional
                           : unknown_value;
  if (type->other) info->kind = ONNX_IS_OTHER;
  return COMPUTE_OK;
}

static const message_type value_type_type = MESSAGE_TYPE(
    "TypeProto", value_type_fields, raw_value_type, onnx_value_info, finish_value_type);

typedef struct raw_value_info {
  const char *name;
  const onnx_value_info *type;
} raw_value_info;

static const message_field value_info_fields[] = {
    {1, FIELD_TEXT, offsetof(raw_value_info, name), NULL},
    {2, FIELD_MESSAGE, offsetof(raw_value_info, type), &value_type_type},
};

static compute_status finish_value_info(onnx_decoder *decoder, const void *raw, wire message,
                                        void *result) {
  (void)decoder, (void)message;
  const raw_value_info *given = raw;
  onnx_value_info *info = result;
  *info = given->type ? *given->type : unknown_value;
  info->name = text_or_empty(given->name);
  return COMPUTE_OK;
}

static const message_type value_info_type = MESSAGE_TYPE(
    "ValueInfoProto", value_info_fields, raw_value_info, onnx_value_info, finish_value_info);

/* ---- Attributes, nodes, graphs ------------------------------------------------------------- */

typedef struct raw_attribute {
  const char *name, *reference;
  int64_t type, integer;
  float number;
  wire text;
  const onnx_tensor *tensor, *sparse;
  onnx_graph *graph;
  message_list numbers, integers, texts;
} raw_attribute;

static const message_type graph_type;

static const message_field attribute_fields[] = {
    {1, FIELD_TEXT, offsetof(raw_attribute, name), NULL},
    {2, FIELD_FLOAT, offsetof(raw_attribute, number), NULL},
    {3, FIELD_INTEGER, offsetof(raw_attribute, integer), NULL},
    {4, FIELD_BYTES, offsetof(raw_attribute, text), NULL},
    {5, FIELD_MESSAGE, offsetof(raw_attribute, tensor), &tensor_type},
    {6, FIELD_MESSAGE, offsetof(raw_attribute, graph), &graph_type},
    {7, FIELD_FLOATS, offsetof(raw_attribute, numbers), NULL},
    {8, FIELD_INTEGERS, offsetof(raw_attribute, integers), NULL},
    {9, FIELD_TEXTS, offsetof(raw_attribute, texts), NULL},
    {20, FIELD_INTEGER, offsetof(raw_attribute, type), NULL},
    {21, FIELD_TEXT, offsetof(raw_attribute, reference), NULL},
    {22, FIELD_MESSAGE, offsetof(raw_attribute, sparse), &sparse_type},
};

/* Sets the attribute's value; returns false if it is absent. A file may omit zero numbers and
 * empty texts and lists. */
static bool take_attribute_value(const raw_attribute *raw, onnx_attribute *attribute) {
  enum { SPARSE_TENSOR = 11, LAST_TYPE = 14 };
  attribute->type = raw->type > 0 && raw->type <= ONNX_ATTRIBUTE_STRINGS
                        ? (onnx_attribute_type)raw->type
                        : ONNX_ATTRIBUTE_OTHER;
  switch (raw->type) {
  case ONNX_ATTRIBUTE_FLOAT: attribute->number = raw->number; return true;
  case ONNX_ATTRIBUTE_INT: attribute->integer = raw->integer; return true;
  case ONNX_ATTRIBUTE_STRING: attribute->count = wire_bytes(raw->text); return true;
  case ONNX_ATTRIBUTE_TENSOR: attribute->tensor = raw->tensor; return raw->tensor;
  case ONNX_ATTRIBUTE_GRAPH: attribute->graph = raw->graph; return raw->graph;
  case ONNX_ATTRIBUTE_FLOATS:
    attribute->numbers = raw->numbers.items;
    attribute->count = raw->numbers.count;
    return true;
  case ONNX_ATTRIBUTE_INTS:
    attribute->integers = raw->integers.items;
    attribute->count = raw->integers.count;
    return true;
  case ONNX_ATTRIBUTE_STRINGS:
    attribute->texts = raw->texts.items;
    attribute->count = raw->texts.count;
    return true;
  case SPARSE_TENSOR:
    attribute->type = ONNX_ATTRIBUTE_TENSOR;
    attribute->tensor = raw->sparse;
    return raw->sparse;
  default: return raw->type > 0 && raw->type <= LAST_TYPE;
  }
}

static compute_status finish_attribute(onnx_decoder *decoder, const void *raw, wire message,
                                       void *result) {
  const raw_attribute *given = raw;
  onnx_attribute *attribute = result;
  char name[SHOWN_NAME_BYTES];
  attribute->name = text_or_empty(given->name);
  if (given->reference && *given->reference) attribute->reference = given->reference;
  if (!take_attribute_value(given, attribute) && !attribute->reference)
    return decode_fail(
        decoder, COMPUTE_ERROR_FORMAT, "the attribute '%s' at byte %td has no value or no type",
        file_show_name(attribute->name, name), message.at - decoder->file->message.at);
  if (attribute->type != ONNX_ATTRIBUTE_STRING) return COMPUTE_OK;
  attribute->text = arena_text(&decoder->file->arena, given->text.at, attribute->count);
  return attribute->text ? COMPUTE_OK : decode_out_of_memory(decoder);
}

static const message_type attribute_type = MESSAGE_TYPE(
    "AttributeProto", attribute_fields, raw_attribute, onnx_attribute, finish_attribute);

typedef struct raw_node {
  const char *name, *type, *domain, *overload;
  message_list inputs, outputs, attributes;
} raw_node;

static const message_field node_fields[] = {
    {1, FIELD_TEXTS, offsetof(raw_node, inputs), NULL},
    {2, FIELD_TEXTS, offsetof(raw_node, outputs), NULL},
    {3, FIELD_TEXT, offsetof(raw_node, name), NULL},
    {4, FIELD_TEXT, offsetof(raw_node, type), NULL},
    {5, FIELD_MESSAGES, offsetof(raw_node, attributes), &attribute_type},
    {7, FIELD_TEXT, offsetof(raw_node, domain), NULL},
    {8, FIELD_TEXT, offsetof(raw_node, overload), NULL},
};

static compute_status finish_node(onnx_decoder *decoder, const void *raw, wire message,
                                  void *result) {
  const raw_node *given = raw;
  if (!given->type || !*given->type)
    return decode_fail(decoder, COMPUTE_ERROR_FORMAT, "the node at byte %td names no operator",
                       message.at - decoder->file->message.at);
  *(onnx_node *)result = (onnx_node){.name = text_or_empty(given->name),
                                     .type = given->type,
                                     .domain = domain_text(given->domain),
                                     .overload = text_or_empty(given->overload),
                                     .input_count = given->inputs.count,
                                     .output_count = given->outputs.count,
                                     .attribute_count = given->attributes.count,
                                     .input_names = given->inputs.items,
                                     .output_names = given->outputs.items,
                                     .attributes = given->attributes.items};
  decoder->file->nodes++;
  return COMPUTE_OK;
}

static const message_type node_type =
    MESSAGE_TYPE("NodeProto", node_fields, raw_node, onnx_node, finish_node);

typedef struct raw_graph {
  const char *name;
  message_list nodes, initializers, inputs, outputs;
} raw_graph;

static const message_field graph_fields[] = {
    {1, FIELD_MESSAGES, offsetof(raw_graph, nodes), &node_type},
    {2, FIELD_TEXT, offsetof(raw_graph, name), NULL},
    {5, FIELD_MESSAGES, offsetof(raw_graph, initializers), &tensor_type},
    {11, FIELD_MESSAGES, offsetof(raw_graph, inputs), &value_info_type},
    {12, FIELD_MESSAGES, offsetof(raw_graph, outputs), &value_info_type},
    {15, FIELD_MESSAGES, offsetof(raw_graph, initializers), &sparse_type},
};

static void count_weights(onnx_file *file, const onnx_graph *graph) {
  file->weights += graph->initializer_count;
  for (size_t i = 0; i < graph->initializer_count; i++) {
    const onnx_tensor *tensor = &graph->initializers[i];
    file->weight_bytes += tensor_bytes(tensor);
    if (tensor->in_file && external_place_of(file, tensor->data) != EXTERNAL_COPIED &&
        (uintptr_t)tensor->data % compute_dtype_size(onnx_dtype(tensor->type)) == 0)
      file->mapped_bytes += tensor_bytes(tensor);
  }
}

static compute_status finish_graph(onnx_decoder *decoder, const void *raw, wire message,
                                   void *result) {
  (void)message;
  const raw_graph *given = raw;
  onnx_graph *graph = result;
  *graph = (onnx_graph){.name = text_or_empty(given->name),
                        .node_count = given->nodes.count,
                        .initializer_count = given->initializers.count,
                        .input_count = given->inputs.count,
                        .output_count = given->outputs.count,
                        .nodes = given->nodes.items,
                        .initializers = given->initializers.items,
                        .inputs = given->inputs.items,
                        .outputs = given->outputs.items};
  count_weights(decoder->file, graph);
  return COMPUTE_OK;
}

static const message_type graph_type =
    MESSAGE_TYPE("GraphProto", graph_fields, raw_graph, onnx_graph, finish_graph);

/* ---- Functions and the model --------------------------------------------------------------- */

static const message_field opset_fields[] = {
    {1, FIELD_TEXT, offsetof(onnx_opset, domain), NULL},
    {2, FIELD_INTEGER, offsetof(onnx_opset, version), NULL},
};

static compute_status finish_opset(onnx_decoder *decoder, const void *raw, wire message,
                                   void *result) {
  (void)decoder, (void)message;
  const onnx_opset *given = raw;
  *(onnx_opset *)result = (onnx_opset){domain_text(given->domain), given->version};
  return COMPUTE_OK;
}

static const message_type opset_type =
    MESSAGE_TYPE("OperatorSetIdProto", opset_fields, onnx_opset, onnx_opset, finish_opset);

/* Checks that each domain has one version, and limits the number of domains because the search
 * is linear. */
static compute_status check_opsets(const onnx_decoder *decoder, const message_list *list) {
  enum { MOST_OPSETS = 256 };
  const onnx_opset *opsets = list->items;
  char name[SHOWN_NAME_BYTES];
  if (list->count > MOST_OPSETS)
    return decode_fail(decoder, COMPUTE_ERROR_FORMAT, "more than %d operator sets are imported",
                       MOST_OPSETS);
  for (size_t i = 0; i < list->count; i++) {
    for (size_t k = 0; k < i; k++) {
      if (!strcmp(opsets[i].domain, opsets[k].domain) && opsets[i].version != opsets[k].version)
        return decode_fail(decoder, COMPUTE_ERROR_FORMAT,
                           "versions %" PRId64 " and %" PRId64 " of operator set '%s' are imported",
                           opsets[k].version, opsets[i].version,
                           file_show_name(opsets[i].domain, name));
    }
  }
  return COMPUTE_OK;
}

typedef struct raw_function {
  const char *domain, *name, *overload;
  message_list inputs, outputs, nodes, opsets, defaults;
} raw_function;

static const message_field function_fields[] = {
    {1, FIELD_TEXT, offsetof(raw_function, name), NULL},
    {4, FIELD_TEXTS, offsetof(raw_function, inputs), NULL},
    {5, FIELD_TEXTS, offsetof(raw_function, outputs), NULL},
    {7, FIELD_MESSAGES, offsetof(raw_function, nodes), &node_type},
    {9, FIELD_MESSAGES, offsetof(raw_function, opsets), &opset_type},
    {10, FIELD_TEXT, offsetof(raw_function, domain), NULL},
    {11, FIELD_MESSAGES, offsetof(raw_function, defaults), &attribute_type},
    {13, FIELD_TEXT, offsetof(raw_function, overload), NULL},
};

/* Values with these names and unknown types; NULL if out of memory. */
static onnx_value_info *named_values(onnx_decoder *decoder, const message_list *names) {
  onnx_value_info *values =
      arena_allocate(&decoder->file->arena, names->count, sizeof(onnx_value_info));
  for (size_t i = 0; values && i < names->count; i++) {
    values[i] = unknown_value;
    values[i].name = ((const char *const *)names->items)[i];
  }
  return values;
}

static compute_status finish_function(onnx_decoder *decoder, const void *raw, wire message,
                                      void *result) {
  (void)message;
  const raw_function *given = raw;
  onnx_function *function = result;
  *function = (onnx_function){.domain = domain_text(given->domain),
                              .name = text_or_empty(given->name),
                              .overload = text_or_empty(given->overload),
                              .body = {.name = text_or_empty(given->name),
                                       .node_count = given->nodes.count,
                                       .input_count = given->inputs.count,
                                       .output_count = given->outputs.count,
                                       .nodes = given->nodes.items},
                              .opset_count = given->opsets.count,
                              .opsets = given->opsets.items,
                              .default_count = given->defaults.count,
                              .defaults = given->defaults.items};
  function->body.inputs = named_values(decoder, &given->inputs);
  function->body.outputs = named_values(decoder, &given->outputs);
  if (!function->body.inputs || !function->body.outputs) return decode_out_of_memory(decoder);
  return check_opsets(decoder, &given->opsets);
}

static const message_type function_type =
    MESSAGE_TYPE("FunctionProto", function_fields, raw_function, onnx_function, finish_function);

typedef struct raw_model {
  int64_t ir_version;
  const char *producer, *description;
  const onnx_graph *graph;
  message_list opsets, functions, metadata;
} raw_model;

static const message_field model_fields[] = {
    {1, FIELD_INTEGER, offsetof(raw_model, ir_version), NULL},
    {2, FIELD_TEXT, offsetof(raw_model, producer), NULL},
    {6, FIELD_TEXT, offsetof(raw_model, description), NULL},
    {7, FIELD_MESSAGE, offsetof(raw_model, graph), &graph_type},
    {8, FIELD_MESSAGES, offsetof(raw_model, opsets), &opset_type},
    {14, FIELD_MESSAGES, offsetof(raw_model, metadata), &pair_type},
    {25, FIELD_MESSAGES, offsetof(raw_model, functions), &function_type},
};

static compute_status check_model(const onnx_decoder *decoder, const raw_model *model) {
  enum { FIRST_VERSION = 3, LAST_VERSION = 14 };
  if (model->ir_version <= 0 || !model->graph)
    return decode_fail(decoder, COMPUTE_ERROR_FORMAT, "it has no %s",
                       model->graph ? "version" : "graph");
  if (model->ir_version < FIRST_VERSION || model->ir_version > LAST_VERSION)
    return decode_fail(decoder, COMPUTE_ERROR_UNSUPPORTED,
                       "its format has version %" PRId64 "; %d to %d can be read",
                       model->ir_version, FIRST_VERSION, LAST_VERSION);
  return check_opsets(decoder, &model->opsets);
}

static compute_status finish_model(onnx_decoder *decoder, const void *raw, wire message,
                                   void *result) {
  (void)message;
  const raw_model *given = raw;
  onnx_file *file = result;
  compute_status status = check_model(decoder, given);
  if (status) return status;
  file->ir_version = given->ir_version;
  file->producer = text_or_empty(given->producer);
  file->description = text_or_empty(given->description);
  file->graph = *given->graph;
  file->opsets = given->opsets.items;
  file->opset_count = given->opsets.count;
  file->functions = given->functions.items;
  file->function_count = given->functions.count;
  file->metadata = given->metadata.items;
  file->metadata_count = given->metadata.count;
  return COMPUTE_OK;
}

static const message_type model_type =
    MESSAGE_TYPE("ModelProto", model_fields, raw_model, onnx_file, finish_model);

_Static_assert(sizeof(raw_attribute) <= MOST_RAW_BYTES && sizeof(tensor_message) <= MOST_RAW_BYTES,
               "raw structs fit");

/* ---- Files --------------------------------------------------------------------------------- */

static compute_status decode_whole(onnx_decoder *decoder, const message_type *type, void *result) {
  decoder->raws = base_allocate(MOST_NESTED_MESSAGES, MOST_RAW_BYTES);
  if (!decoder->raws) return decode_out_of_memory(decoder);
  compute_status status = decode_message(decoder, type, decoder->file->message, result);
  base_release(decoder->raws);
  if (decoder->folder >= 0) close(decoder->folder);
  return status;
}

static compute_status decode_file(onnx_decoder *decoder) {
  compute_status status = decode_whole(decoder, &model_type, decoder->file);
  return status ? status : resolve_names(decoder);
}

compute_status onnx_decode(const compute_context *context, const char *operation, const char *shown,
                           wire message, const char *folder, compute_model_files files,
                           onnx_file *file) {
  *file = (onnx_file){.message = message};
  onnx_decoder decoder = {.context = context,
                          .operation = operation,
                          .shown = shown,
                          .file = file,
                          .folder = -1,
                          .folder_path = folder,
                          .files = files};
  compute_status status = decode_file(&decoder);
  if (status) onnx_release(file);
  return status;
}

/* The folder of the file at `path`, allocated in the file's arena. */
static const char *folder_of(onnx_file *file, const char *path) {
  const char *slash = path_last_separator(path);
  if (!slash) return ".";
  return slash == path ? "/" : arena_text(&file->arena, path, (size_t)(slash - path));
}

compute_status onnx_open(const compute_context *context, const char *operation, const char *path,
                         compute_model_files files, onnx_file *file) {
  *file = (onnx_file){0};
  onnx_decoder decoder = {.context = context,
                          .operation = operation,
                          .shown = path,
                          .file = file,
                          .folder = -1,
                          .files = files};
  decoder.folder_path = folder_of(file, path);
  compute_status status =
      decoder.folder_path ? external_map_model(&decoder, path) : decode_out_of_memory(&decoder);
  if (!status) status = decode_file(&decoder);
  if (status) onnx_release(file);
  return status;
}

compute_status onnx_decode_tensor(const compute_context *context, const char *operation,
                                  const char *shown, wire message, onnx_file *file,
                                  const onnx_tensor **tensor) {
  *file = (onnx_file){.message = message};
  onnx_decoder decoder = {
      .context = context, .operation = operation, .shown = shown, .file = file, .folder = -1};
  onnx_tensor *result = arena_allocate(&file->arena, 1, sizeof *result);
  compute_status status =
      result ? decode_whole(&decoder, &tensor_type, result) : decode_out_of_memory(&decoder);
  *tensor = status ? NULL : result;
  if (status) onnx_release(file);
  return status;
}

void onnx_release(onnx_file *file) {
  arena_release(&file->arena);
  external_release(file);
  *file = (onnx_file){0};
}

const onnx_tensor *onnx_find_initializer(const onnx_graph *graph, const char *name) {
  for (size_t i = 0; i < graph->initializer_count; i++)
    if (strcmp(graph->initializers[i].name, name) == 0) return &graph->initializers[i];
  return NULL;
}

const onnx_attribute *onnx_find_attribute(const onnx_node *node, const char *name) {
  for (size_t i = 0; i < node->attribute_count; i++)
    if (!strcmp(node->attributes[i].name, name)) return &node->attributes[i];
  return NULL;
}
