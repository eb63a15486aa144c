/* SPDX-License-Identifier: MIT */
/* The graph object: nodes in creation order, handles, names, and the first error.
 *
 * A builder call returns no status. A model is dozens of builder calls in a row, and a check after
 * each is tedious. So the graph keeps the first error with its full detail: the thread's last error
 * may have been replaced before the caller queries the graph. */
#include "graph/node/graph.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/tensor/tensor.h"

static object_kind graph_object = {.name = "graph", .plural = "graphs"};

/* Serial numbers are unique in the process, so a node of one graph is never mistaken for a node of
 * another graph. 0 is reserved for "not a node". */
static uint32_t next_serial(void) {
  static _Atomic uint32_t last;
  uint32_t serial;
  do {
    serial = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
  } while (serial == 0);
  return serial;
}

/* A constant's block follows a header of this size, which keeps the block aligned like other
 * memory. */
#define CONSTANT_HEADER 64

typedef struct constant_head {
  _Atomic int32_t references;
  void (*finish)(void *constant); /* or NULL */
} constant_head;

_Static_assert(sizeof(constant_head) <= CONSTANT_HEADER, "a head must leave its block aligned");

void *graph_constant_create(size_t count, size_t size) {
  if (size != 0 && count > (SIZE_MAX - CONSTANT_HEADER) / size) return NULL;
  constant_head *head = base_allocate(1, CONSTANT_HEADER + count * size);
  if (!head) return NULL;
  atomic_init(&head->references, 1);
  return (unsigned char *)head + CONSTANT_HEADER;
}

static constant_head *constant_head_of(void *constant) {
  return (constant_head *)(void *)((unsigned char *)constant - CONSTANT_HEADER);
}

void graph_constant_on_release(void *constant, void (*finish)(void *constant)) {
  constant_head_of(constant)->finish = finish;
}

void *graph_constant_retain(void *constant) {
  if (constant)
    atomic_fetch_add_explicit(&constant_head_of(constant)->references, 1, memory_order_relaxed);
  return constant;
}

void graph_constant_release(void *constant) {
  if (!constant) return;
  constant_head *head = constant_head_of(constant);
  if (atomic_fetch_sub_explicit(&head->references, 1, memory_order_acq_rel) > 1) return;
  if (head->finish) head->finish(constant);
  base_release(head);
}

compute_graph *compute_graph_create(compute_context *context) {
  if (context_is_inherited(context)) return NULL;
  static const char operation[] = "compute_graph_create";
  if (!context) {
    error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "context is NULL");
    return NULL;
  }
  compute_graph *graph = base_allocate(1, sizeof *graph);
  if (!graph) {
    error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
    return NULL;
  }
  graph->context = context;
  graph->serial = next_serial();
  context_object_created(context, &graph_object, graph);
  return graph;
}

void graph_node_release(graph_node *node) {
  base_release(node->inputs);
  graph_constant_release(node->constant);
  base_release(node->name);
  compute_tensor_release(node->tensor);
}

void graph_truncate(compute_graph *graph, size_t count) {
  while (graph->count > count) graph_node_release(&graph->nodes[--graph->count]);
  while (graph->state_count > 0 && graph->states[graph->state_count - 1] >= count)
    graph->state_count--;
}

compute_status graph_replace_tensors(compute_graph *graph, graph_choice choose, void *user) {
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; status == COMPUTE_OK && i < graph->count; i++) {
    graph_node *node = &graph->nodes[i];
    compute_tensor *other = NULL;
    if (node->op != OP_parameter) continue;
    status = choose(user, node->tensor, &other);
    if (status != COMPUTE_OK || !other) continue;
    compute_tensor_retain(other);
    compute_tensor_release(node->tensor);
    node->tensor = other;
  }
  return status;
}

bool graph_add_state(compute_graph *graph, compute_node node) {
  void *states = graph->states;
  if (base_grow(&states, &graph->state_capacity, graph->state_count + 1, sizeof *graph->states))
    return false;
  graph->states = states;
  graph->states[graph->state_count++] = node.id - 1;
  return true;
}

void compute_graph_release(compute_graph *graph) {
  if (IS_INHERITED(graph, context)) return;
  if (!graph) return;
  graph_truncate(graph, 0);
  compute_context *context = graph->context;
  context_object_leaves(context, graph);
  base_release(graph->nodes);
  base_release(graph->states);
  base_release(graph);
  context_object_released(context, &graph_object);
}

compute_status compute_graph_status(const compute_graph *graph) {
  REFUSE_INHERITED(graph, context);
  if (!graph) {
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, "compute_graph_status", "graph is NULL");
  }
  if (graph->status) error_restore(graph->context, &graph->error);
  return graph->status;
}

/* A failed call has already removed its nodes (build.h). */
void compute_graph_clear_error(compute_graph *graph) {
  if (IS_INHERITED(graph, context)) return;
  if (!graph) return;
  graph->status = COMPUTE_OK;
  graph->error = (compute_error){0};
}

compute_context *compute_graph_context(const compute_graph *graph) {
  return graph ? graph->context : NULL;
}

compute_node graph_fail(compute_graph *graph, compute_status status, const char *operation,
                        const char *format, ...) {
  if (graph->status) return (compute_node){0};
  char message[sizeof graph->error.message];
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  graph->status = error_set(graph->context, status, operation, "%s", message);
  compute_error_get(graph->context, &graph->error);
  return (compute_node){0};
}

bool graph_check_words(compute_graph *graph, const char *operation, const char *what,
                       const uint64_t *reserved, size_t count) {
  const size_t index = error_reserved(reserved, count);
  if (index == count) return true;
  return graph_refuse(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, ERROR_RESERVED, what,
                      index);
}

/* The node's index, or −1 if the handle does not belong to this graph. */
static int64_t node_index(const compute_graph *graph, compute_node node) {
  if (!graph || node.graph != graph->serial || node.id == 0 || node.id > graph->count) return -1;
  return (int64_t)node.id - 1;
}

int64_t graph_resolve(compute_graph *graph, compute_node node, const char *operation) {
  int64_t index = node_index(graph, node);
  if (index >= 0) return index;
  if (node.id == 0) {
    graph_fail(graph, COMPUTE_ERROR_WRONG_GRAPH, operation,
               "the node is {0}, the result of a failed call");
  } else if (node.graph != graph->serial) {
    graph_fail(graph, COMPUTE_ERROR_WRONG_GRAPH, operation, "node %u belongs to another graph",
               node.id);
  } else {
    graph_fail(graph, COMPUTE_ERROR_WRONG_GRAPH, operation,
               "node %u does not exist; the graph has %zu nodes", node.id, graph->count);
  }
  return -1;
}

compute_node graph_handle(const compute_graph *graph, size_t index) {
  return (compute_node){.id = (uint32_t)(index + 1), .graph = graph->serial};
}

compute_shape compute_node_shape(const compute_graph *graph, compute_node node) {
  int64_t index = node_index(graph, node);
  return index < 0 ? COMPUTE_SCALAR : graph->nodes[index].shape;
}

compute_dtype compute_node_dtype(const compute_graph *graph, compute_node node) {
  int64_t index = node_index(graph, node);
  return index < 0 ? COMPUTE_DTYPE_NONE : graph->nodes[index].dtype;
}

bool compute_node_is_valid(compute_node node) {
  return node.id != 0 && node.graph != 0;
}

compute_tensor *compute_parameter_tensor(const compute_graph *graph, compute_node node) {
  if (IS_INHERITED(graph, context)) return NULL;
  int64_t index = node_index(graph, node);
  return index < 0 ? NULL : graph->nodes[index].tensor;
}

compute_node compute_parameter_at(const compute_graph *graph, size_t index) {
  if (!graph) return (compute_node){0};
  for (size_t i = 0; i < graph->count; i++) {
    if (graph->nodes[i].op == OP_parameter && index-- == 0) return graph_handle(graph, i);
  }
  return (compute_node){0};
}

compute_node compute_name(compute_graph *graph, compute_node node, const char *name) {
  static const char operation[] = "compute_name";
  if (!graph) {
    error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "graph is NULL");
    return (compute_node){0};
  }
  if (graph->status) return (compute_node){0};
  int64_t index = graph_resolve(graph, node, operation);
  if (index < 0) return (compute_node){0};
  if (!name) return graph_fail(graph, COMPUTE_ERROR_NULL_POINTER, operation, "name is NULL");
  char *copy = base_duplicate(name);
  if (!copy) return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
  base_release(graph->nodes[index].name);
  graph->nodes[index].name = copy;
  return node;
}
