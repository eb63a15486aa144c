/* SPDX-License-Identifier: MIT */
/* Local rewrites that preserve results bit for bit: operations without effect disappear, chains of
 * views become one view, views of uniform constants become constants. Rewrites that could change a
 * bit (x + 0 for x = -0, distributing products, …) are not applied. */
#include <string.h>

#include "plan/capture/ir.h"
#include "type/dtype.h"
#include "type/shape.h"

static bool is_uniform_number(const ir_node *n, double value) {
  return n->op == OP_constant && n->uniform && n->dtype != COMPUTE_BOOL &&
         ir_uniform_value(n) == value;
}

/* A unary candidate with another operand. */
static uint32_t with_input(ir *r, const ir_node *n, uint32_t input) {
  ir_node changed = *n;
  changed.inputs = &input;
  changed.input_count = 1;
  return ir_rewrite(r, &changed);
}

/* x for `x op neutral`, unless that enlarges the shape. */
static uint32_t neutral_operand(const ir *r, const ir_node *n, double neutral, bool commutes) {
  for (uint32_t k = 0; k < 2; k++) {
    const ir_node *x = &r->nodes[n->inputs[k]];
    if (k == 1 && !commutes) break;
    if (is_uniform_number(&r->nodes[n->inputs[1 - k]], neutral) &&
        compute_shape_equal(x->shape, n->shape))
      return n->inputs[k];
  }
  return IR_NONE;
}

static uint32_t rewrite_arithmetic(ir *r, const ir_node *n) {
  switch (n->op) {
  case OP_mul: return neutral_operand(r, n, 1, true);
  case OP_div: return neutral_operand(r, n, 1, false);
  case OP_pow: {
    uint32_t same = neutral_operand(r, n, 1, false);
    if (same != IR_NONE) return same;
    if (is_uniform_number(&r->nodes[n->inputs[1]], 2) &&
        compute_shape_equal(r->nodes[n->inputs[0]].shape, n->shape)) {
      ir_node square = *n;
      square.op = OP_square;
      square.input_count = 1;
      return ir_add(r, &square);
    }
    return IR_NONE;
  }
  case OP_sub: {
    uint32_t x = neutral_operand(r, n, 0, false);
    /* 0 - (-0) and x - (-0) differ from x for some zeros; only +0 is neutral. */
    if (x == IR_NONE ||
        (dtype_is_float(n->dtype) && __builtin_signbit(ir_uniform_value(&r->nodes[n->inputs[1]]))))
      return IR_NONE;
    return x;
  }
  case OP_add: return dtype_is_integer(n->dtype) ? neutral_operand(r, n, 0, true) : IR_NONE;
  case OP_neg:
  case OP_logical_not: {
    const ir_node *x = &r->nodes[n->inputs[0]];
    return x->op == n->op ? x->inputs[0] : IR_NONE;
  }
  default: return IR_NONE;
  }
}

/* A product of integers that were widened for it: products of narrow factors are summed in that
 * type anyway, so the widened copies are unnecessary. */
static uint32_t rewrite_matmul(ir *r, const ir_node *n) {
  uint32_t factors[2];
  for (uint32_t k = 0; k < 2; k++) {
    const ir_node *x = &r->nodes[n->inputs[k]];
    if (x->op != OP_cast) return IR_NONE;
    const compute_dtype from = r->nodes[x->inputs[0]].dtype;
    if (!dtype_is_narrow(from) || dtype_compute_type(from) != n->dtype) return IR_NONE;
    factors[k] = x->inputs[0];
  }
  ir_node changed = *n;
  changed.inputs = factors;
  return ir_add(r, &changed);
}

static uint32_t uniform_view(ir *r, const ir_node *n) {
  ir_node constant = r->nodes[n->inputs[0]];
  constant.shape = n->shape;
  constant.source = n->source;
  constant.folded = 1;
  return ir_add(r, &constant);
}

static uint32_t rewrite_view(ir *r, const ir_node *n) {
  const ir_node *x = &r->nodes[n->inputs[0]];
  if (x->op == OP_constant && x->uniform && shape_count(n->shape) > 0) return uniform_view(r, n);
  bool same = compute_shape_equal(x->shape, n->shape);
  switch (n->op) {
  case OP_transpose: {
    bool identity = true;
    for (int32_t i = 0; i < n->shape.rank; i++) identity &= n->attributes.order[i] == i;
    if (identity) return n->inputs[0];
    if (x->op != OP_transpose) return IR_NONE;
    ir_node merged = *n;
    for (int32_t i = 0; i < n->shape.rank; i++)
      merged.attributes.order[i] = x->attributes.order[n->attributes.order[i]];
    uint32_t input = x->inputs[0];
    return with_input(r, &merged, input);
  }
  case OP_reshape:
    if (same) return n->inputs[0];
    return x->op == OP_reshape ? with_input(r, n, x->inputs[0]) : IR_NONE;
  case OP_slice: return same ? n->inputs[0] : IR_NONE;
  case OP_broadcast:
    if (same) return n->inputs[0];
    return x->op == OP_broadcast ? with_input(r, n, x->inputs[0]) : IR_NONE;
  default: return IR_NONE;
  }
}

/* Whether a kernel may pass the node's value on in a register: for f16 and bf16 in f32. */
static bool may_stay_in_register(const ir_node *n) {
  const plan_rule *rule = ir_rule(n);
  return rule->is_anchor || (rule->is_element && n->op != OP_cast);
}

/* A cast to the operand's own dtype. For 16-bit floats it requests the rounded value. */
static bool is_void_cast(const ir *r, const ir_node *node) {
  if (node->op != OP_cast) return false;
  const ir_node *x = &r->nodes[node->inputs[0]];
  return x->dtype == node->dtype && !(dtype_is_half(x->dtype) && may_stay_in_register(x));
}

uint32_t ir_rewrite(ir *r, const ir_node *node) {
  uint32_t found = IR_NONE;
  if (ir_category(node) == CATEGORY_VIEW)
    found = rewrite_view(r, node);
  else if (is_void_cast(r, node))
    found = node->inputs[0];
  else if (ir_category(node) == CATEGORY_ELEMENTWISE)
    found = rewrite_arithmetic(r, node);
  else if (node->op == OP_matmul)
    found = rewrite_matmul(r, node);
  return found != IR_NONE ? found : ir_add(r, node);
}
