/* SPDX-License-Identifier: MIT */
/* Index checks of a plan: describes each check with the names that an error message prints. */
#include "plan/compile/fuse/fuse.h"

#include <string.h>

#include "core/base/alloc.h"
#include "core/base/text.h"

/* The name of a node. For an operand, the search goes back through casts and reshapes. */
static const char *name_of(const compute_graph *graph, uint32_t index, bool operand) {
  const graph_node *node = &graph->nodes[index];
  while (operand && !node->name && (node->op == OP_cast || node->op == OP_reshape))
    node = &graph->nodes[node->inputs[0]];
  return node->name;
}

typedef struct origin_names {
  const char *result, *indices, *table;
} origin_names;

static origin_names names_of(const compute_graph *graph, uint32_t node,
                             const graph_origin *origin) {
  const bool gathers = origin->call->table != NULL;
  return (origin_names){.result = name_of(graph, origin->result, false),
                        .indices = name_of(graph, origin->indices, true),
                        .table =
                            gathers ? name_of(graph, graph->nodes[node].inputs[0], true) : NULL};
}

bool check_is_named(const compute_graph *graph, uint32_t node) {
  const graph_origin origin = graph_origin_of(graph, node);
  const origin_names names = names_of(graph, node, &origin);
  return names.result || names.indices;
}

/* Returns " (node 'loss', labels 'target')", or "" if nothing has a name. */
static char *print_names(const compute_graph *graph, uint32_t node, const graph_origin *origin) {
  const origin_names names = names_of(graph, node, origin);
  text_buffer text = {0};
  const char *before = " (";
  text_add(&text, "%s", "");
  if (names.result) {
    text_add(&text, "%snode '%.80s'", before, names.result);
    before = ", ";
  }
  if (names.indices) {
    text_add(&text, "%s%s '%.80s'", before, origin->call->indices, names.indices);
    before = ", ";
  }
  if (names.table) {
    text_add(&text, "%s%s '%.80s'", before, origin->call->table, names.table);
    before = ", ";
  }
  if (before[0] == ',') text_add(&text, ")");
  char *copy = text.failed ? NULL : base_duplicate(text.data ? text.data : "");
  text_release(&text);
  return copy;
}

bool check_describe(const ir *r, const fusion *f, uint32_t node, index_check *row) {
  const ir_node *n = &r->nodes[node];
  const uint32_t operand = n->inputs[graph_index_operand(n->op)];
  const bool gathers = n->op == OP_gather || n->op == OP_gather_elements;
  const compute_shape whole = gathers ? r->nodes[n->inputs[0]].shape : n->shape;
  const graph_origin origin = graph_origin_of(r->graph, n->source);
  *row = (index_check){.label = index_label_new(),
                       .operation = origin.call->operation,
                       .word = origin.call->index,
                       .names = print_names(r->graph, n->source, &origin),
                       .shape = r->graph->nodes[origin.indices].shape,
                       .read = r->nodes[operand].shape,
                       .size = whole.size[n->attributes.axis],
                       .from_zero = n->attributes.from_zero};
  memcpy(row->stride, f->layouts[operand].stride, sizeof row->stride);
  return row->names != NULL;
}
