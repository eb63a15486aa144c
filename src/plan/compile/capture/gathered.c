/* SPDX-License-Identifier: MIT */
/* Gathers from computed tables. gather(f(x, …), indices) becomes f(gather(x, indices), …) if it
 * reads fewer elements than the table has, so the run computes f of these only. Dequantized
 * embeddings are such tables. Elementwise operations give the same bits for the same operands. */
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "plan/compile/capture/ir.h"

enum { MOST_OPERATIONS = 8, MOST_OPERANDS = 4 };

/* True if the node is stored, or a view of a stored node. */
static bool is_stored(const ir *r, const ir_node *n) {
  while (ir_category(n) == CATEGORY_VIEW && !n->attributes.dense) n = &r->nodes[n->inputs[0]];
  return n->op == OP_parameter || n->op == OP_input || n->op == OP_constant;
}

/* The operand's axis that broadcasts to `axis` of the table; negative if it has none. */
static int32_t axis_of(const ir_node *table, const ir_node *operand, int32_t axis) {
  return axis - (table->shape.rank - operand->shape.rank);
}

static bool spans(const ir_node *table, const ir_node *operand, int32_t axis) {
  const int32_t own = axis_of(table, operand, axis);
  return own >= 0 && operand->shape.size[own] == table->shape.size[axis];
}

/* True if elementwise operations compute the table, at most MOST_OPERATIONS of them, from stored
 * operands along the axis. A half-precision table would round its elements when it is stored. */
static bool is_computed_table(const ir *r, const ir_node *table, int32_t axis, int *operations) {
  if (!ir_rule(table)->is_element || dtype_is_half(table->dtype) ||
      table->input_count > MOST_OPERANDS || table->shape.size[axis] == 1 ||
      ++*operations > MOST_OPERATIONS)
    return false;
  for (uint32_t k = 0; k < table->input_count; k++) {
    const ir_node *x = &r->nodes[table->inputs[k]];
    if (spans(table, x, axis) && !is_stored(r, x) &&
        !is_computed_table(r, x, axis_of(table, x, axis), operations))
      return false;
  }
  return table->input_count > 0;
}

/* The shape of the operand with `axis` replaced by the axes of the indices. */
static compute_shape replace_axis(compute_shape shape, int32_t axis, compute_shape by) {
  compute_shape result = {.rank = shape.rank - 1 + by.rank};
  for (int32_t i = 0; i < axis; i++) result.size[i] = shape.size[i];
  for (int32_t i = 0; i < by.rank; i++) result.size[axis + i] = by.size[i];
  for (int32_t i = axis + 1; i < shape.rank; i++) result.size[by.rank - 1 + i] = shape.size[i];
  return result;
}

/* The operand's elements that belong to the gathered ones. Returns IR_NONE when out of memory. */
static uint32_t gather_operand(ir *r, const ir_node *gather, const ir_node *table, uint32_t k) {
  const compute_shape indices = r->nodes[gather->inputs[1]].shape;
  const uint32_t operand = table->inputs[k];
  const ir_node *x = &r->nodes[operand];
  const int32_t axis = axis_of(table, x, gather->attributes.axis);
  if (axis < 0) return operand; /* it broadcasts along the axis */
  ir_node n = *gather;
  n.name = NULL;
  n.dtype = x->dtype;
  n.folded = 0;
  if (x->op == OP_constant && x->uniform) {
    ir_node constant = *x;
    constant.shape = replace_axis(x->shape, axis, indices);
    constant.folded = 0;
    return ir_add(r, &constant);
  }
  if (spans(table, x, gather->attributes.axis)) {
    uint32_t inputs[2] = {operand, gather->inputs[1]};
    n.inputs = inputs;
    n.attributes.axis = axis;
    n.shape = replace_axis(x->shape, axis, indices);
    return ir_rewrite(r, &n);
  }
  compute_shape ones = {.rank = indices.rank};
  for (int32_t i = 0; i < ones.rank; i++) ones.size[i] = 1;
  const ir_node view = {.op = OP_reshape,
                        .dtype = x->dtype,
                        .shape = replace_axis(x->shape, axis, ones),
                        .input_count = 1,
                        .inputs = &(uint32_t){operand},
                        .source = gather->source};
  return ir_rewrite(r, &view);
}

uint32_t rewrite_gather(ir *r, const ir_node *node) {
  const ir_node table = r->nodes[node->inputs[0]];
  int operations = 0;
  if (shape_count(node->shape) >= shape_count(table.shape) ||
      !is_computed_table(r, &table, node->attributes.axis, &operations))
    return IR_NONE;
  uint32_t inputs[MOST_OPERANDS];
  for (uint32_t k = 0; k < table.input_count; k++) {
    inputs[k] = gather_operand(r, node, &table, k);
    if (inputs[k] == IR_NONE) return IR_NONE;
  }
  ir_node n = table;
  n.inputs = inputs;
  n.shape = node->shape;
  n.name = node->name;
  n.source = node->source;
  n.folded = node->folded;
  return ir_rewrite(r, &n);
}
