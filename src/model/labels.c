/* SPDX-License-Identifier: MIT */
/* Labels of classes: the texts or integers that a model's output stands for.
 *
 * Graphs have no texts, so a classifier gives the numbers of its labels. The list is an attribute
 * of the node that gives the output, before operators that only move elements. Other operators
 * refuse such labels (record.c). */
#include <string.h>

#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/process.h"
#include "model/model.h"

/* A list from the file. `more` is a label behind the last, or NULL. */
typedef struct label_list {
  const char *const *texts;
  const int64_t *numbers; /* if texts is NULL */
  size_t count;
  const char *more;
} label_list;

/* Operators whose output has elements of their first input, and nothing else. */
bool labels_pass(const onnx_node *node) {
  static const char *const types[] = {"Expand",   "Flatten",  "Gather",    "GatherElements",
                                      "GatherND", "Identity", "Reshape",   "Slice",
                                      "Squeeze",  "Tile",     "Transpose", "Unsqueeze"};
  if (node->domain[0] || node->function) return false;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(node->type, types[i]) == 0) return true;
  return false;
}

/* Operators with inputs of texts: a bit for each such input, and if the outputs have its elements. */
static const struct {
  const char *domain, *name;
  uint32_t inputs;
  bool moves;
} text_rows[] = {
    {"", "Concat", UINT32_MAX, true},
    {"", "Equal", 3, false},
    {"", "Loop", UINT32_MAX - 3, false},
    {"", "Optional", 1, false},
    {"", "OptionalGetElement", 1, false},
    {"", "OptionalHasElement", 1, false},
    {"", "RegexFullMatch", 1, false},
    {"", "SequenceConstruct", UINT32_MAX, false},
    {"", "SequenceInsert", 2, false},
    {"", "SequenceMap", UINT32_MAX, false},
    {"", "Shape", 1, false},
    {"", "Size", 1, false},
    {"", "Split", 1, true},
    {"", "SplitToSequence", 1, false},
    {"", "StringConcat", 3, false},
    {"", "StringNormalizer", 1, false},
    {"", "StringSplit", 1, false},
    {"", "TfIdfVectorizer", 1, false},
    {"", "Where", 6, true},
    {"ai.onnx.ml", "ArrayFeatureExtractor", 1, false},
    {"ai.onnx.ml", "CategoryMapper", 1, false},
    {"ai.onnx.ml", "LabelEncoder", 1, false},
};

enum { TEXT_ROWS = sizeof text_rows / sizeof *text_rows };

static size_t find_text_row(const onnx_node *node) {
  size_t at = 0;
  while (at < TEXT_ROWS && (strcmp(text_rows[at].name, node->type) != 0 ||
                            strcmp(text_rows[at].domain, node->domain) != 0))
    at++;
  return at;
}

bool texts_pass(const onnx_node *node, size_t i) {
  if (node->function) return true;
  if (labels_pass(node)) return i == 0;
  const size_t row = find_text_row(node);
  return row < TEXT_ROWS && text_rows[row].inputs >> (i < 31 ? i : 31) & 1;
}

bool texts_move(const onnx_node *node) {
  if (node->function) return false;
  const size_t row = find_text_row(node);
  return labels_pass(node) || (row < TEXT_ROWS && text_rows[row].moves);
}

static void take_texts(const onnx_node *node, const char *name, label_list *list) {
  const onnx_attribute *a = onnx_find_attribute(node, name);
  if (!a || list->count > 0) return;
  if (a->type == ONNX_ATTRIBUTE_STRINGS)
    *list = (label_list){.texts = a->texts, .count = a->count};
  else if (a->type == ONNX_ATTRIBUTE_TENSOR && a->tensor && a->tensor->strings)
    *list = (label_list){.texts = a->tensor->strings, .count = (size_t)a->tensor->count};
}

static void take_numbers(const onnx_node *node, const char *name, label_list *list) {
  const onnx_attribute *a = onnx_find_attribute(node, name);
  if (a && list->count == 0 && a->type == ONNX_ATTRIBUTE_INTS)
    *list = (label_list){.numbers = a->integers, .count = a->count};
}

/* Texts of a run have no list. */
static bool encodes_texts(const onnx_node *node) {
  const onnx_attribute *keys = onnx_find_attribute(node, "keys_tensor");
  return onnx_find_attribute(node, "keys_strings") ||
         (keys && keys->type == ONNX_ATTRIBUTE_TENSOR && keys->tensor && keys->tensor->strings);
}

/* The labels that output `output` of a node stands for. */
static label_list labels_of(const onnx_graph *graph, const onnx_node *node, size_t output) {
  label_list list = {0};
  const char *type = node->type;
  if (strcmp(node->domain, "ai.onnx.ml") != 0) return list;
  if (strcmp(type, "ZipMap") == 0) {
    take_texts(node, "classlabels_strings", &list);
    take_numbers(node, "classlabels_int64s", &list);
  } else if (strcmp(type, "ArrayFeatureExtractor") == 0) {
    const onnx_tensor *t =
        node->input_count > 0 ? onnx_find_initializer(graph, node->input_names[0]) : NULL;
    if (t && t->strings && t->shape.rank <= 1)
      list = (label_list){.texts = t->strings, .count = (size_t)t->count};
  } else if (strcmp(type, "LabelEncoder") == 0 || strcmp(type, "CategoryMapper") == 0) {
    if (encodes_texts(node)) return list;
    take_texts(node, "values_strings", &list);
    take_texts(node, "values_tensor", &list);
    if (strcmp(type, "CategoryMapper") == 0) take_texts(node, "cats_strings", &list);
    const onnx_attribute *other = onnx_find_attribute(node, "default_string");
    list.more = other && other->type == ONNX_ATTRIBUTE_STRING ? other->text : "_Unused";
  } else if (output == 0) {
    take_texts(node, "classlabels_strings", &list);
  }
  return list;
}

static label_list find_labels(const compute_model *model, size_t output) {
  const onnx_graph *graph = model_graph(model);
  int32_t value = output < graph->output_count ? graph->outputs[output].value : -1;
  for (size_t at = graph->node_count; at-- > 0 && value >= 0;) { /* nodes are sorted */
    const onnx_node *node = &graph->nodes[at];
    size_t i = 0;
    while (i < node->output_count && node->outputs[i] != value) i++;
    if (i == node->output_count) continue;
    if (!labels_pass(node)) return labels_of(graph, node, i);
    const onnx_reference *from = node->inputs;
    value = node->input_count > 0 && from->level == 0 ? from->index : -1;
  }
  return (label_list){0};
}

static size_t count_labels(const label_list *list) {
  return list->count + (list->count > 0 && list->more);
}

size_t compute_model_label_count(const compute_model *model, size_t output) {
  if (!model || IS_INHERITED(model, context)) return 0;
  const label_list list = find_labels(model, output);
  return count_labels(&list);
}

compute_status compute_model_label_at(const compute_model *model, size_t output, size_t index,
                                      const char **text, int64_t *number) {
  REFUSE_INHERITED(model, context);
  static const char operation[] = "compute_model_label_at";
  const compute_context *context = model ? model->context : NULL;
  compute_status status = error_if_null(context, operation, model, text);
  if (!status) status = error_if_null(context, operation, model, number);
  if (status) return status;
  const label_list list = find_labels(model, output);
  if (index >= count_labels(&list))
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "label %zu of output %zu, which has %zu", index, output, count_labels(&list));
  *number = list.numbers ? list.numbers[index] : (int64_t)index;
  *text = list.numbers ? NULL : index < list.count ? list.texts[index] : list.more;
  return COMPUTE_OK;
}
