/* SPDX-License-Identifier: MIT */
/* ops.def as a table at run time. */
#include "graph/node/graph.h"

#include "core/base/error.h"

/* FLOWS(gradient) is 0 for the rule NONE and 1 for every other rule. GRADIENT_NONE expands to two
 * arguments, which moves the 0 into the place of the 1. */
#define GRADIENT_NONE          ~, 0
#define PICK_SECOND(a, b, ...) b
#define PICK(...)              PICK_SECOND(__VA_ARGS__)
#define FLOWS(gradient)        PICK(GRADIENT_##gradient, 1, ~)

/* BLOCK(type) is the size of the type, or 0 for NONE, by the same trick. */
#define BLOCK_NONE  ~, 0
#define BLOCK(type) PICK(BLOCK_##type, sizeof(type), ~)

#define RESULT_SAME false
#define RESULT_BOOL true

static const graph_op_info table[OP_COUNT] = {
    [OP_NONE] = {.name = "none", .text = ""},
#define ELEMENTWISE(op, operands, code, domain_, result, gradient, from, to, error, words)         \
  [OP_##op] = {.name = #op,                                                                        \
               .category = CATEGORY_ELEMENTWISE,                                                   \
               .domain = DOMAIN_##domain_,                                                         \
               .arity = operands,                                                                  \
               .instruction = COMPUTE_I_##code,                                                    \
               .result_bool = RESULT_##result,                                                     \
               .differentiable = FLOWS(gradient),                                                  \
               .text = words,                                                                      \
               .low = from,                                                                        \
               .high = to,                                                                         \
               .ulp = error},
#define SCALED(op, code, gradient, from, to, error, attribute, words)                              \
  [OP_##op] = {.name = #op,                                                                        \
               .category = CATEGORY_ELEMENTWISE,                                                   \
               .domain = DOMAIN_FLOAT,                                                             \
               .arity = 1,                                                                         \
               .instruction = COMPUTE_I_##code,                                                    \
               .has_scalar = true,                                                                 \
               .differentiable = FLOWS(gradient),                                                  \
               .text = words,                                                                      \
               .low = from,                                                                        \
               .high = to,                                                                         \
               .ulp = error},
#define STRUCTURAL(op, category_, domain_, gradient, block, rule, words)                           \
  [OP_##op] = {.name = #op,                                                                        \
               .category = CATEGORY_##category_,                                                   \
               .domain = DOMAIN_##domain_,                                                         \
               .differentiable = FLOWS(gradient),                                                  \
               .block_bytes = BLOCK(block),                                                        \
               .text = words},
#include "graph/ops.def"
};

const graph_op_info *graph_op_describe(graph_op op) {
  return &table[op > OP_NONE && op < OP_COUNT ? op : OP_NONE];
}

size_t graph_block_bytes(graph_op op) {
  return graph_op_describe(op)->block_bytes;
}

compute_status compute_operation_at(size_t index, compute_operation_info *info) {
  static const char *const categories[] = {
#define CATEGORY(name, text) [CATEGORY_##name] = text,
      GRAPH_CATEGORIES(CATEGORY)
#undef CATEGORY
  };
  static const char *const domains[] = {
      [DOMAIN_FLOAT] = "float",
      [DOMAIN_NUMBER] = "number",
      [DOMAIN_ORDERED] = "ordered",
      [DOMAIN_INTEGER] = "integer",
      [DOMAIN_ORDERED_INTEGER] = "ordered integer",
      [DOMAIN_LOGIC] = "logic",
      [DOMAIN_BYTE] = "byte",
      [DOMAIN_ANY] = "any",
  };
  static const char operation[] = "compute_operation_at";
  if (!info) {
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "info is NULL");
  }
  const size_t count = OP_COUNT - OP_NONE - 1;
  if (index >= count) {
    return error_set(NULL, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "index %zu, but there are %zu operations", index, count);
  }
  const graph_op_info *row = &table[OP_NONE + 1 + index];
  *info = (compute_operation_info){.name = row->name,
                                   .category = categories[row->category],
                                   .domain = domains[row->domain],
                                   .text = row->text,
                                   .differentiable = row->differentiable};
  return COMPUTE_OK;
}

/* ---- Origins --------------------------------------------------------------------------------- */

static const graph_call own_calls[OP_COUNT] = {
    [OP_gather] = {"gather", "index", "indices", "x"},
    [OP_gather_elements] = {"gather_elements", "index", "indices", "x"},
    [OP_scatter_add] = {"scatter_add", "index", "indices", NULL},
    [OP_scatter_add_elements] = {"scatter_add_elements", "index", "indices", NULL},
    [OP_scatter] = {"scatter", "index", "indices", "data"},
    [OP_scatter_elements] = {"scatter_elements", "index", "indices", "data"},
    [OP_bincount] = {"bincount", "value", "values", NULL},
};

bool graph_is_indexed(graph_op op) {
  return own_calls[op].operation != NULL;
}

graph_origin graph_origin_of(const compute_graph *graph, size_t index) {
  const graph_node *node = &graph->nodes[index];
  if (node->origin.call) return node->origin;
  return (graph_origin){&own_calls[node->op], (uint32_t)index,
                        node->inputs[graph_index_operand(node->op)]};
}
