/* SPDX-License-Identifier: MIT */
#include "support/samples/elementwise.h"

#define DOMAIN_TEXT_FLOAT           "float"
#define DOMAIN_TEXT_NUMBER          "number"
#define DOMAIN_TEXT_ORDERED         "ordered"
#define DOMAIN_TEXT_INTEGER         "integer"
#define DOMAIN_TEXT_ORDERED_INTEGER "ordered integer"
#define DOMAIN_TEXT_LOGIC           "logic"
#define DOMAIN_TEXT_ANY             "any"

#define RESULT_IS_BOOL_SAME false
#define RESULT_IS_BOOL_BOOL true

/* True if ops.def names a gradient rule: the text of the name is not NONE. */
#define HAS_GRADIENT(rule) (sizeof #rule != sizeof "NONE" || #rule[0] != 'N')

static const elementwise_row rows[] = {
#define ELEMENTWISE(operation, operands, instruction, types, result, gradient, from, to, error,    \
                    words)                                                                         \
  {.name = #operation,                                                                             \
   .domain = DOMAIN_TEXT_##types,                                                                  \
   .arity = operands,                                                                              \
   .differentiable = HAS_GRADIENT(gradient),                                                       \
   .result_is_bool = RESULT_IS_BOOL_##result,                                                      \
   .low = from,                                                                                    \
   .high = to,                                                                                     \
   .ulp = error,                                                                                   \
   .call##operands = compute_##operation},
#define SCALED(operation, instruction, gradient, from, to, error, attribute, words)                \
  {.name = #operation,                                                                             \
   .domain = "float",                                                                              \
   .arity = 1,                                                                                     \
   .differentiable = HAS_GRADIENT(gradient),                                                       \
   .low = from,                                                                                    \
   .high = to,                                                                                     \
   .ulp = error,                                                                                   \
   .scalar = 0.3125,                                                                               \
   .scaled = compute_##operation},
#include "graph/ops.def"
};

const elementwise_row *elementwise_at(size_t index) {
  return index < sizeof rows / sizeof *rows ? &rows[index] : NULL;
}

compute_node elementwise_build(compute_graph *graph, const compute_node *operands,
                               const void *user) {
  const elementwise_row *row = user;
  if (row->scaled) return row->scaled(graph, operands[0], row->scalar);
  if (row->arity == 1) return row->call1(graph, operands[0]);
  if (row->arity == 2) return row->call2(graph, operands[0], operands[1]);
  return row->call3(graph, operands[0], operands[1], operands[2]);
}
