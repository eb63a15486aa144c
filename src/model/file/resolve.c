/* SPDX-License-Identifier: MIT */
/* Resolves names. Each graph's values get numbers, input names become references to values of
 * this graph or an outer one, and nodes that call a function of the model point to it. Nodes are
 * sorted topologically if needed. Names are sorted and searched instead of hashed: they come
 * from the file and could be chosen to collide. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "io/new_file.h"
#include "model/file/decode.h"

#define refuse(resolver, ...) decode_fail((resolver)->decoder, COMPUTE_ERROR_FORMAT, __VA_ARGS__)

/* `to` needs `from`. */
typedef struct edge {
  int32_t from, to;
} edge;

typedef struct edge_list {
  edge *edges;
  size_t count, capacity;
} edge_list;

typedef struct definition {
  const char *name;
  int32_t order; /* inputs, then initializers, then nodes' outputs */
  int32_t value;
} definition;

/* A graph that is being resolved, linked to its outer graph. */
typedef struct graph_scope {
  struct graph_scope *outer;
  onnx_graph *graph;
  definition *definitions; /* sorted by name */
  size_t definition_count;
  int32_t *producers; /* per value: the node, or −1 */
  size_t node;        /* the node being resolved */
  edge_list needs;    /* dependencies between nodes */
} graph_scope;

typedef struct name_resolver {
  onnx_decoder *decoder;
  const onnx_function **functions; /* sorted by domain, name and overload */
  int32_t function;                /* the function whose body is being resolved, or −1 */
  edge_list calls;                 /* dependencies between functions */
} name_resolver;

/* ---- Order --------------------------------------------------------------------------------- */

static bool add_edge(edge_list *list, int32_t from, int32_t to) {
  void *edges = list->edges;
  if (base_grow(&edges, &list->capacity, list->count + 1, sizeof *list->edges)) return false;
  list->edges = edges;
  list->edges[list->count++] = (edge){from, to};
  return true;
}

/* Returns an item of a cycle. `unmet` has the number of unmet needs per item. */
static int32_t find_cycle(const edge_list *needs, int32_t count, const int32_t *unmet,
                          int32_t *previous) {
  int32_t item = 0;
  for (size_t i = 0; i < needs->count; i++)
    if (unmet[needs->edges[i].from] > 0) previous[needs->edges[i].to] = needs->edges[i].from;
  while (unmet[item] == 0) item++;
  for (int32_t i = 0; i < count; i++) item = previous[item];
  return item;
}

/* Topological sort: writes 0 … count − 1 to `order`, each after its needs. Returns −1, or an
 * item of a cycle. `work` has 3 · count + 1 elements and one for each edge. */
static int32_t sort_items(const edge_list *needs, int32_t count, int32_t *order, int32_t *work) {
  int32_t *unmet = work, *ends = unmet + count, *targets = ends + count + 1, done = 0, ready = 0;
  for (size_t i = 0; i < needs->count; i++) {
    unmet[needs->edges[i].to]++;
    ends[needs->edges[i].from + 1]++;
  }
  for (int32_t i = 0; i < count; i++) {
    ends[i + 1] += ends[i];
    if (unmet[i] == 0) order[ready++] = i;
  }
  for (size_t i = 0; i < needs->count; i++)
    targets[ends[needs->edges[i].from]++] = needs->edges[i].to;
  /* Now ends[i] is the end of i's targets and the start of the next item's targets. */
  for (; done < ready; done++) {
    const int32_t item = order[done];
    for (int32_t k = item ? ends[item - 1] : 0; k < ends[item]; k++)
      if (--unmet[targets[k]] == 0) order[ready++] = targets[k];
  }
  return done == count ? -1 : find_cycle(needs, count, unmet, targets + needs->count);
}

/* Allocates memory and calls sort_items. *cycle is −1, or an item of a cycle. The caller owns
 * *order. */
static compute_status sort_by_needs(const name_resolver *resolver, const edge_list *needs,
                                    size_t count, int32_t **order, int32_t *cycle) {
  *order = NULL;
  if (needs->count > INT32_MAX / 2) return refuse(resolver, "it has too many connections");
  int32_t *work = base_allocate(3 * count + 1 + needs->count, sizeof *work);
  *order = base_allocate(count, sizeof **order);
  compute_status status = COMPUTE_OK;
  if (work && *order)
    *cycle = sort_items(needs, (int32_t)count, *order, work);
  else
    status = decode_out_of_memory(resolver->decoder);
  base_release(work);
  return status;
}

/* ---- Definitions --------------------------------------------------------------------------- */

static int compare_definitions(const void *a, const void *b) {
  const definition *x = a, *y = b;
  const int names = strcmp(x->name, y->name);
  return names ? names : (x->order > y->order) - (x->order < y->order);
}

/* Lists a graph's definitions, numbered by definition.order. */
static compute_status list_definitions(const name_resolver *resolver, graph_scope *scope) {
  const onnx_graph *graph = scope->graph;
  size_t count = graph->input_count + graph->initializer_count;
  for (size_t i = 0; i < graph->node_count; i++) count += graph->nodes[i].output_count;
  if (count > INT32_MAX / 2) return refuse(resolver, "it has too many values");
  definition *list = scope->definitions = base_allocate(count, sizeof *list);
  if (!list) return decode_out_of_memory(resolver->decoder);
  count = 0;
  for (size_t i = 0; i < graph->input_count; i++) list[count++].name = graph->inputs[i].name;
  for (size_t i = 0; i < graph->initializer_count; i++)
    list[count++].name = graph->initializers[i].name;
  for (size_t i = 0; i < count; i++)
    if (!*list[i].name) return refuse(resolver, "an input or initializer has no name");
  for (size_t i = 0; i < graph->node_count; i++) {
    const onnx_node *node = &graph->nodes[i];
    for (size_t k = 0; k < node->output_count; k++)
      if (*node->output_names[k]) list[count++].name = node->output_names[k];
  }
  for (size_t i = 0; i < count; i++) list[i].order = (int32_t)i;
  scope->definition_count = count;
  return COMPUTE_OK;
}

/* Numbers the values in definition order. An initializer with an input's name is that input's
 * default and shares its value. `numbers` has a zeroed element for each definition. */
static compute_status number_values(const name_resolver *resolver, graph_scope *scope,
                                    int32_t *numbers) {
  const int32_t inputs = (int32_t)scope->graph->input_count;
  const int32_t initializers = inputs + (int32_t)scope->graph->initializer_count;
  definition *list = scope->definitions;
  char name[SHOWN_NAME_BYTES];
  for (size_t i = 1; i < scope->definition_count; i++) {
    const int32_t before = list[i - 1].order, order = list[i].order;
    if (strcmp(list[i - 1].name, list[i].name) != 0) continue;
    if (before >= inputs || order < inputs || order >= initializers)
      return refuse(resolver, "the value '%s' is defined twice",
                    file_show_name(list[i].name, name));
    numbers[order] = before + 1;
  }
  int32_t count = 0;
  for (size_t i = 0; i < scope->definition_count; i++)
    numbers[i] = numbers[i] ? numbers[numbers[i] - 1] : count++;
  for (size_t i = 0; i < scope->definition_count; i++) list[i].value = numbers[list[i].order];
  scope->graph->value_count = (size_t)count;
  return COMPUTE_OK;
}

/* Stores the values' numbers in their definitions. */
static compute_status place_values(const name_resolver *resolver, graph_scope *scope,
                                   const int32_t *numbers) {
  onnx_graph *graph = scope->graph;
  model_arena *memory = &resolver->decoder->file->arena;
  graph->values = arena_allocate(memory, graph->value_count, sizeof *graph->values);
  graph->initializer_values = arena_allocate(memory, graph->initializer_count, sizeof(int32_t));
  scope->producers = base_allocate(graph->value_count, sizeof *scope->producers);
  if (!graph->values || !graph->initializer_values || !scope->producers)
    return decode_out_of_memory(resolver->decoder);
  for (size_t i = 0; i < scope->definition_count; i++)
    graph->values[scope->definitions[i].value] = scope->definitions[i].name;
  for (size_t i = 0; i < graph->value_count; i++) scope->producers[i] = -1;
  for (size_t i = 0; i < graph->input_count; i++) graph->inputs[i].value = *numbers++;
  for (size_t i = 0; i < graph->initializer_count; i++) {
    const int32_t value = graph->initializer_values[i] = *numbers++;
    if ((size_t)value < graph->input_count) graph->inputs[value].has_default = true;
  }
  for (size_t i = 0; i < graph->node_count; i++) {
    onnx_node *node = &graph->nodes[i];
    int32_t *outputs = arena_allocate(memory, node->output_count, sizeof *outputs);
    if (!outputs) return decode_out_of_memory(resolver->decoder);
    for (size_t k = 0; k < node->output_count; k++) {
      outputs[k] = *node->output_names[k] ? *numbers++ : -1;
      if (outputs[k] >= 0) scope->producers[outputs[k]] = (int32_t)i;
    }
    node->outputs = outputs;
  }
  return COMPUTE_OK;
}

static compute_status define_values(const name_resolver *resolver, graph_scope *scope) {
  compute_status status = list_definitions(resolver, scope);
  if (status) return status;
  int32_t *numbers = base_allocate(scope->definition_count, sizeof *numbers);
  if (!numbers) return decode_out_of_memory(resolver->decoder);
  if (scope->definition_count > 1)
    qsort(scope->definitions, scope->definition_count, sizeof *scope->definitions,
          compare_definitions);
  status = number_values(resolver, scope, numbers);
  if (!status) status = place_values(resolver, scope, numbers);
  base_release(numbers);
  return status;
}

/* ---- References ---------------------------------------------------------------------------- */

/* The value with this name in this graph only, or −1. */
static int32_t find_value(const graph_scope *scope, const char *name) {
  size_t low = 0, high = scope->definition_count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const int order = strcmp(scope->definitions[middle].name, name);
    if (order == 0) return scope->definitions[middle].value;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return -1;
}

static compute_status refuse_node(const name_resolver *resolver, const onnx_node *node,
                                  const char *format, ...) COMPUTE_PRINTF(3, 4);

static compute_status refuse_node(const name_resolver *resolver, const onnx_node *node,
                                  const char *format, ...) {
  char problem[192], name[SHOWN_NAME_BYTES], type[SHOWN_NAME_BYTES];
  va_list list;
  va_start(list, format);
  vsnprintf(problem, sizeof problem, format, list);
  va_end(list);
  const char *shown = *node->name ? node->name : node->output_count ? node->output_names[0] : "";
  return refuse(resolver, "node '%s' (%s) %s", file_show_name(shown, name),
                file_show_name(node->type, type), problem);
}

/* Finds a name in this graph or an outer one. In the graph that defines the value, adds a
 * dependency: the current node, which uses the value or contains its user, needs the producer. */
static compute_status find_reference(const name_resolver *resolver, graph_scope *from,
                                     const char *name, onnx_reference *result) {
  char shown[SHOWN_NAME_BYTES];
  *result = (onnx_reference){0, -1};
  if (!*name) return COMPUTE_OK;
  int32_t level = 0;
  for (graph_scope *at = from; at; at = at->outer, level++) {
    const int32_t value = find_value(at, name);
    if (value < 0) continue;
    *result = (onnx_reference){level, value};
    const int32_t producer = at->producers[value];
    if (producer < 0 || add_edge(&at->needs, producer, (int32_t)at->node)) return COMPUTE_OK;
    return decode_out_of_memory(resolver->decoder);
  }
  return refuse_node(resolver, &from->graph->nodes[from->node], "uses '%s', which is not defined",
                     file_show_name(name, shown));
}

static compute_status find_inputs(const name_resolver *resolver, graph_scope *scope,
                                  onnx_node *node) {
  onnx_reference *inputs =
      arena_allocate(&resolver->decoder->file->arena, node->input_count, sizeof *inputs);
  if (!inputs) return decode_out_of_memory(resolver->decoder);
  node->inputs = inputs;
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < node->input_count; i++)
    status = find_reference(resolver, scope, node->input_names[i], &inputs[i]);
  return status;
}

static compute_status find_outputs(const name_resolver *resolver, graph_scope *from) {
  onnx_graph *graph = from->graph;
  char name[SHOWN_NAME_BYTES], graph_name[SHOWN_NAME_BYTES];
  for (size_t i = 0; i < graph->output_count; i++) {
    onnx_value_info *output = &graph->outputs[i];
    output->value = find_value(from, output->name);
    if (output->value >= 0) continue;
    graph_scope *outer = from->outer;
    while (outer && find_value(outer, output->name) < 0) outer = outer->outer;
    return refuse(resolver, "the output '%s' of graph '%s' %s", file_show_name(output->name, name),
                  file_show_name(graph->name, graph_name),
                  outer ? "is a value of an enclosing graph; pass it through an Identity node"
                        : "is not defined");
  }
  return COMPUTE_OK;
}

/* ---- Functions ----------------------------------------------------------------------------- */

static int compare_functions(const onnx_function *a, const onnx_function *b) {
  int order = strcmp(a->domain, b->domain);
  if (!order) order = strcmp(a->name, b->name);
  return order ? order : strcmp(a->overload, b->overload);
}

static int compare_function_pointers(const void *a, const void *b) {
  return compare_functions(*(const onnx_function *const *)a, *(const onnx_function *const *)b);
}

static compute_status sort_functions(name_resolver *resolver) {
  const onnx_file *file = resolver->decoder->file;
  const size_t count = file->function_count;
  char name[SHOWN_NAME_BYTES];
  resolver->functions = base_allocate(count, sizeof(const onnx_function *));
  if (!resolver->functions) return decode_out_of_memory(resolver->decoder);
  for (size_t i = 0; i < count; i++) resolver->functions[i] = &file->functions[i];
  if (count > 1)
    qsort(resolver->functions, count, sizeof(const onnx_function *), compare_function_pointers);
  for (size_t i = 1; i < count; i++) {
    if (compare_functions(resolver->functions[i - 1], resolver->functions[i]) == 0)
      return refuse(resolver, "the function '%s' is defined twice",
                    file_show_name(resolver->functions[i]->name, name));
  }
  return COMPUTE_OK;
}

/* Sets node->function and records the call as a dependency. */
static compute_status find_function(name_resolver *resolver, onnx_node *node) {
  const onnx_file *file = resolver->decoder->file;
  const onnx_function wanted = {
      .domain = node->domain, .name = node->type, .overload = node->overload};
  const onnx_function *key = &wanted;
  if (file->function_count == 0) return COMPUTE_OK;
  const onnx_function *const *found =
      bsearch(&key, resolver->functions, file->function_count, sizeof(const onnx_function *),
              compare_function_pointers);
  if (!found) return COMPUTE_OK;
  node->function = *found;
  const onnx_graph *body = &node->function->body;
  if (node->input_count > body->input_count || node->output_count > body->output_count)
    return refuse_node(resolver, node, "has more inputs or outputs than its function");
  if (resolver->function < 0 ||
      add_edge(&resolver->calls, (int32_t)(node->function - file->functions), resolver->function))
    return COMPUTE_OK;
  return decode_out_of_memory(resolver->decoder);
}

static compute_status check_calls(const name_resolver *resolver) {
  const onnx_file *file = resolver->decoder->file;
  char name[SHOWN_NAME_BYTES];
  int32_t *order, cycle = -1;
  compute_status status =
      sort_by_needs(resolver, &resolver->calls, file->function_count, &order, &cycle);
  base_release(order);
  if (status || cycle < 0) return status;
  return refuse(resolver, "the function '%s' calls itself",
                file_show_name(file->functions[cycle].name, name));
}

/* ---- Graphs -------------------------------------------------------------------------------- */

static compute_status resolve_graph(name_resolver *resolver, onnx_graph *graph, graph_scope *outer);

static compute_status resolve_node(name_resolver *resolver, graph_scope *scope, onnx_node *node) {
  char name[SHOWN_NAME_BYTES];
  compute_status status = find_inputs(resolver, scope, node);
  if (!status) status = find_function(resolver, node);
  for (size_t i = 0; !status && i < node->attribute_count; i++) {
    const onnx_attribute *attribute = &node->attributes[i];
    if (attribute->reference && resolver->function < 0)
      status = refuse_node(resolver, node, "takes '%s' from a function, but is not in one",
                           file_show_name(attribute->name, name));
    else if (attribute->graph)
      status = resolve_graph(resolver, attribute->graph, scope);
  }
  return status;
}

/* Sorts nodes topologically unless they are in order. */
static compute_status sort_nodes(const name_resolver *resolver, const graph_scope *scope) {
  onnx_graph *graph = scope->graph;
  size_t forward = 0;
  while (forward < scope->needs.count &&
         scope->needs.edges[forward].from < scope->needs.edges[forward].to)
    forward++;
  if (forward == scope->needs.count) return COMPUTE_OK;
  int32_t *order, cycle = -1;
  compute_status status = sort_by_needs(resolver, &scope->needs, graph->node_count, &order, &cycle);
  onnx_node *sorted = NULL;
  if (!status && cycle >= 0)
    status = refuse_node(resolver, &graph->nodes[cycle], "depends on its own output: a cycle");
  if (!status) {
    sorted = arena_allocate(&resolver->decoder->file->arena, graph->node_count, sizeof *sorted);
    if (!sorted) status = decode_out_of_memory(resolver->decoder);
  }
  if (!status) {
    for (size_t i = 0; i < graph->node_count; i++) sorted[i] = graph->nodes[order[i]];
    graph->nodes = sorted;
  }
  base_release(order);
  return status;
}

static compute_status resolve_graph(name_resolver *resolver, onnx_graph *graph,
                                    graph_scope *outer) {
  graph_scope scope = {.outer = outer, .graph = graph};
  graph->outer = outer ? outer->graph : NULL;
  compute_status status = define_values(resolver, &scope);
  for (; !status && scope.node < graph->node_count; scope.node++) {
    graph->nodes[scope.node].place = (int32_t)scope.node;
    status = resolve_node(resolver, &scope, &graph->nodes[scope.node]);
  }
  if (!status) status = find_outputs(resolver, &scope);
  if (!status) status = sort_nodes(resolver, &scope);
  base_release(scope.definitions);
  base_release(scope.producers);
  base_release(scope.needs.edges);
  return status;
}

static compute_status resolve_all(name_resolver *resolver) {
  onnx_file *file = resolver->decoder->file;
  compute_status status = sort_functions(resolver);
  for (size_t i = 0; !status && i < file->function_count; i++) {
    resolver->function = (int32_t)i;
    status = resolve_graph(resolver, &file->functions[i].body, NULL);
  }
  resolver->function = -1;
  if (!status) status = check_calls(resolver);
  if (!status) status = resolve_graph(resolver, &file->graph, NULL);
  return status;
}

compute_status resolve_names(onnx_decoder *decoder) {
  name_resolver resolver = {.decoder = decoder, .function = -1};
  compute_status status = resolve_all(&resolver);
  base_release(resolver.functions);
  base_release(resolver.calls.edges);
  return status;
}
