/* SPDX-License-Identifier: MIT */
/* ONNX files. A decoded model is consistent: references point to values, nodes follow their inputs,
 * and elements can be read. */
#include "model/onnx.h"

#include <string.h>

#include "fuzz.h"

static unsigned sum; /* sum of all elements, so that they are read */

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  return 0;
}

static void check_tensor(const onnx_tensor *tensor) {
  const size_t bytes = (size_t)tensor->count * compute_dtype_size(onnx_dtype(tensor->type));
  FUZZ_CHECK(tensor->count >= 0 && tensor->rank >= -1 && tensor->rank <= COMPUTE_MAX_RANK);
  FUZZ_CHECK((bytes > 0) == (tensor->data != NULL));
  for (size_t i = 0; i < bytes; i++) sum += ((const unsigned char *)tensor->data)[i];
  for (int64_t i = 0; tensor->type == ONNX_STRING && i < tensor->count; i++)
    sum += (unsigned)strlen(tensor->strings[i]);
}

static void check_reference(const onnx_graph *graph, onnx_reference reference, const char *name) {
  for (int32_t i = 0; i < reference.level; i++) graph = graph->outer;
  FUZZ_CHECK((reference.index < 0) == (*name == 0));
  if (reference.index < 0) return;
  FUZZ_CHECK((size_t)reference.index < graph->value_count);
  FUZZ_CHECK(!strcmp(graph->values[reference.index], name));
}

static void check_graph(const onnx_graph *graph);

static void check_attribute(const onnx_attribute *attribute) {
  if (attribute->tensor) check_tensor(attribute->tensor);
  if (attribute->graph) check_graph(attribute->graph);
  for (size_t i = 0; i < attribute->count; i++) {
    if (attribute->text) sum += (unsigned char)attribute->text[i];
    if (attribute->integers) sum += (unsigned)attribute->integers[i];
    if (attribute->texts) sum += (unsigned)strlen(attribute->texts[i]);
  }
}

/* `known` marks the values that are computed before the node. */
static void check_node(const onnx_graph *graph, const onnx_node *node, char *known) {
  for (size_t i = 0; i < node->input_count; i++) {
    const onnx_reference reference = node->inputs[i];
    check_reference(graph, reference, node->input_names[i]);
    FUZZ_CHECK(reference.level > 0 || reference.index < 0 || known[reference.index]);
  }
  for (size_t i = 0; i < node->attribute_count; i++) check_attribute(&node->attributes[i]);
  for (size_t i = 0; i < node->output_count; i++) {
    if (node->outputs[i] < 0) continue;
    FUZZ_CHECK(!known[node->outputs[i]]);
    known[node->outputs[i]] = 1;
  }
}

static void check_graph(const onnx_graph *graph) {
  char *known = calloc(graph->value_count + 1, 1);
  FUZZ_CHECK(known);
  for (size_t i = 0; i < graph->input_count; i++) known[graph->inputs[i].value] = 1;
  for (size_t i = 0; i < graph->initializer_count; i++) {
    check_tensor(&graph->initializers[i]);
    known[graph->initializer_values[i]] = 1;
  }
  for (size_t i = 0; i < graph->node_count; i++) check_node(graph, &graph->nodes[i], known);
  for (size_t i = 0; i < graph->value_count; i++) FUZZ_CHECK(known[i] && graph->values[i]);
  for (size_t i = 0; i < graph->output_count; i++)
    FUZZ_CHECK((size_t)graph->outputs[i].value < graph->value_count);
  free(known);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  onnx_file file;
  if (onnx_decode(NULL, "fuzz", "the model", (wire){data, data + size}, NULL, COMPUTE_MODEL_MAP,
                  &file))
    return 0;
  check_graph(&file.graph);
  for (size_t i = 0; i < file.function_count; i++) check_graph(&file.functions[i].body);
  onnx_release(&file);
  return 0;
}
