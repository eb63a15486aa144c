/* ops.def as a table that can be read at run time. */
#include "graph/graph.h"

#include "base/error.h"

/* FLOWS(gradient) is 0 for the rule called NONE and 1 for every other: GRADIENT_NONE expands to two
 * arguments, which moves the 0 to where the others have the 1. */
#define GRADIENT_NONE          ~, 0
#define PICK_SECOND(a, b, ...) b
#define PICK(...)              PICK_SECOND(__VA_ARGS__)
#define FLOWS(gradient)        PICK(GRADIENT_##gradient, 1, ~)

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
#define STRUCTURAL(op, category_, domain_, gradient, words)                                        \
  [OP_##op] = {.name = #op,                                                                        \
               .category = CATEGORY_##category_,                                                   \
               .domain = DOMAIN_##domain_,                                                         \
               .differentiable = FLOWS(gradient),                                                  \
               .text = words},
#include "graph/ops.def"
};

const graph_op_info *graph_op_describe(graph_op op) {
  return &table[op > OP_NONE && op < OP_COUNT ? op : OP_NONE];
}

size_t graph_block_bytes(graph_op op) {
  if (op == OP_gaussian_fit) return sizeof(compute_fit_problem);
  if (op == OP_find_spots) return sizeof(compute_spots_attributes);
  switch (graph_op_describe(op)->category) {
  case CATEGORY_CONVOLUTION: return sizeof(compute_conv_attributes);
  case CATEGORY_WINDOW: return sizeof(compute_window_attributes);
  case CATEGORY_ATTENTION: return sizeof(compute_attention_attributes);
  default: return 0;
  }
}

compute_status compute_operation_at(size_t index, compute_operation_info *info) {
  static const char *const categories[] = {
      [CATEGORY_ELEMENTWISE] = "elementwise",
      [CATEGORY_SOURCE] = "source",
      [CATEGORY_VIEW] = "view",
      [CATEGORY_CAST] = "cast",
      [CATEGORY_REDUCTION] = "reduction",
      [CATEGORY_ROW] = "row",
      [CATEGORY_MATMUL] = "matmul",
      [CATEGORY_CONVOLUTION] = "convolution",
      [CATEGORY_WINDOW] = "window",
      [CATEGORY_SCAN] = "scan",
      [CATEGORY_ORDER] = "order",
      [CATEGORY_ATTENTION] = "attention",
      [CATEGORY_INDEXED] = "indexed",
      [CATEGORY_JOIN] = "join",
      [CATEGORY_FIT] = "fit",
      [CATEGORY_STATE] = "state",
  };
  static const char *const domains[] = {
      [DOMAIN_FLOAT] = "float", [DOMAIN_NUMBER] = "number", [DOMAIN_INTEGER] = "integer",
      [DOMAIN_LOGIC] = "logic", [DOMAIN_ANY] = "any",
  };
  const char *operation = "compute_operation_at";
  if (!info) {
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "%s: info is NULL", operation);
  }
  const size_t count = OP_COUNT - OP_NONE - 1;
  if (index >= count) {
    return error_set(NULL, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "%s: index %zu, but there are %zu operations", operation, index, count);
  }
  const graph_op_info *row = &table[OP_NONE + 1 + index];
  *info = (compute_operation_info){.name = row->name,
                                   .category = categories[row->category],
                                   .domain = domains[row->domain],
                                   .text = row->text,
                                   .differentiable = row->differentiable};
  return COMPUTE_OK;
}

/* ---- Origins ------------------------------------------------------------------------------- */

static const graph_call own_calls[OP_COUNT] = {
    [OP_gather] = {"gather", "index", "indices", "x"},
    [OP_gather_elements] = {"gather_elements", "index", "indices", "x"},
    [OP_scatter_add] = {"scatter_add", "index", "indices", NULL},
    [OP_scatter_add_elements] = {"scatter_add_elements", "index", "indices", NULL},
};

bool graph_is_indexed(graph_op op) {
  return own_calls[op].operation != NULL;
}

graph_origin graph_origin_of(const compute_graph *graph, size_t index) {
  const graph_node *node = &graph->nodes[index];
  if (node->origin.call) return node->origin;
  return (graph_origin){&own_calls[node->op], (uint32_t)index, node->inputs[1]};
}
