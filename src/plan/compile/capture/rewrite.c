/* SPDX-License-Identifier: MIT */
/* Local rewrites that preserve results bit for bit: operations without effect disappear, a chain of
 * views becomes one view, and a view of a uniform constant becomes a constant. Rewrites that could
 * change a bit (x + 0 for x = -0, distributing products, …) are not applied. The one exception
 * is a depthwise convolution as a product, which may give -0 where the sum would give +0.
 *
 * Every rule terminates: its result has earlier operands than the candidate, or it gives up after a
 * fixed number of steps. No rule applies to a node after it was added
 * (tests/plan/passes_twice.c). */
#include <string.h>

#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "plan/compile/capture/ir.h"

static bool is_uniform_number(const ir_node *n, double value) {
  return n->op == OP_constant && n->uniform && n->dtype != COMPUTE_BOOL &&
         ir_uniform_value(n) == value;
}

/* Returns x for `x op neutral`, unless the operation enlarges the shape. */
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

static uint32_t rewrite_arithmetic(const ir *r, const ir_node *n) {
  switch (n->op) {
  case OP_mul: return neutral_operand(r, n, 1, true);
  case OP_div: return neutral_operand(r, n, 1, false);
  case OP_pow: return neutral_operand(r, n, 1, false);
  case OP_sub: {
    uint32_t x = neutral_operand(r, n, 0, false);
    /* 0 - (-0) and x - (-0) differ from x for some zeros, so only +0 is neutral. */
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

/* Drops the casts of widened integer factors. A product of narrow integers accumulates in the wide
 * type anyway. */
static uint32_t rewrite_matmul(ir *r, const ir_node *n) {
  uint32_t factors[2];
  for (uint32_t k = 0; k < 2; k++) {
    const ir_node *x = &r->nodes[n->inputs[k]];
    if (x->op != OP_cast || x->dtype != n->dtype) return IR_NONE;
    const compute_dtype from = r->nodes[x->inputs[0]].dtype;
    if (!dtype_is_narrow(from) || dtype_compute_type(from) != n->dtype) return IR_NONE;
    factors[k] = x->inputs[0];
  }
  ir_node changed = *n;
  changed.inputs = factors;
  return ir_add(r, &changed);
}

/* ---- Depthwise convolutions ------------------------------------------------------------------- */

/* One filter for each channel, without padding. */
static bool is_plain_depthwise(const compute_conv_attributes *a) {
  return a->data_channels == a->groups && a->result_channels == a->groups && a->pool == 0 &&
         a->padding[0] == 0 && a->padding[1] == 0;
}

/* A depthwise convolution with filters of one element is a product, and one with a single position
 * is a sum of products. */
static uint32_t rewrite_conv(ir *r, const ir_node *n) {
  const compute_conv_attributes *a = n->constant;
  /* Without fusion, products of half precision are rounded before their sum. */
  bool element = is_plain_depthwise(a), single = element && !dtype_is_half(n->dtype);
  for (int i = 0; i < 2; i++) {
    element = element && a->filter_size[i] == 1 && a->stride[i] == 1 &&
              a->result_size[i] == a->data_size[i];
    single = single && a->result_size[i] == 1 && a->filter_size[i] == a->data_size[i] &&
             (a->dilation[i] == 1 || a->filter_size[i] == 1);
  }
  if ((!element && !single) || shape_count(n->shape) == 0) return IR_NONE;
  const compute_shape data = r->nodes[n->inputs[0]].shape;
  uint32_t filter = n->inputs[1], factors[2] = {n->inputs[0]};
  const ir_node channels = {
      .op = OP_reshape,
      .dtype = n->dtype,
      .shape = {4, {1, a->groups, a->filter_size[0], a->filter_size[1]}},
      .input_count = 1,
      .inputs = &filter,
      .source = n->source,
  };
  factors[1] = ir_rewrite(r, &channels);
  if (factors[1] == IR_NONE) return IR_NONE;
  const ir_node product = {.op = OP_mul,
                           .dtype = n->dtype,
                           .shape = data,
                           .input_count = 2,
                           .inputs = factors,
                           .source = n->source,
                           .folded = element};
  uint32_t products = ir_rewrite(r, &product);
  if (products == IR_NONE || element) return products;
  const ir_node sum = {.op = OP_sum,
                       .dtype = n->dtype,
                       .shape = n->shape,
                       .input_count = 1,
                       .inputs = &products,
                       .attributes = {.axes_mask = 4 | 8, .keep_axes = true},
                       .source = n->source,
                       .folded = 1};
  return ir_rewrite(r, &sum);
}

/* ---- Views ------------------------------------------------------------------------------------ */

static uint32_t uniform_view(ir *r, const ir_node *n) {
  ir_node constant = r->nodes[n->inputs[0]];
  constant.shape = n->shape;
  constant.source = n->source;
  constant.folded = 1;
  return ir_add(r, &constant);
}

/* True if the view has the same elements as its operand, in the same places. */
static bool is_void_view(const ir_node *n, const ir_node *x) {
  if (n->op == OP_transpose) {
    for (int32_t i = 0; i < n->shape.rank; i++)
      if (n->attributes.order[i] != i) return false;
    return true;
  }
  return (n->op == OP_reshape || n->op == OP_slice || n->op == OP_broadcast) &&
         compute_shape_equal(x->shape, n->shape);
}

/* True if a view of the view x equals one view of x's operand. */
static bool absorbs(const ir_node *n, const ir_node *x) {
  return n->op == x->op && (n->op == OP_transpose || n->op == OP_reshape || n->op == OP_broadcast);
}

/* Each iteration moves the view to an earlier node. */
static uint32_t rewrite_view(ir *r, const ir_node *node) {
  ir_node n = *node;
  uint32_t input = node->inputs[0];
  n.inputs = &input;
  for (;;) {
    const ir_node *x = &r->nodes[input];
    if (x->op == OP_constant && x->uniform && shape_count(n.shape) > 0) return uniform_view(r, &n);
    if (is_void_view(&n, x)) return input;
    if (!absorbs(&n, x)) return ir_add(r, &n);
    if (n.op == OP_transpose)
      for (int32_t i = 0; i < n.shape.rank; i++)
        n.attributes.order[i] = x->attributes.order[n.attributes.order[i]];
    input = x->inputs[0];
  }
}

/* True if a kernel may pass the node's value on in a register. For f16 and bf16, the register is
 * f32. */
static bool may_stay_in_register(const ir_node *n) {
  const plan_rule *rule = ir_rule(n);
  return rule->is_anchor || (rule->is_element && n->op != OP_cast);
}

/* ---- Elementwise operations on views of a product -------------------------------------------- */

enum {
  MOST_VISITED = 64, /* search limit for a product, in nodes */
  MOST_VIEWS = 8,    /* limit on stacked views that an operation moves behind */
  MOST_OPERANDS = 3
};

static bool is_movable_view(const ir_node *n) {
  return n->op == OP_transpose || (n->op == OP_reshape && !n->attributes.dense);
}

/* True if the node is a product, a view of one, or an elementwise result of a product and other
 * operands. The search ends after MOST_VISITED nodes. */
static bool follows_product(const ir *r, uint32_t node, int *visited) {
  const ir_node *n = &r->nodes[node];
  if (n->op == OP_matmul || n->op == OP_matmul_integer) return true;
  if (!ir_rule(n)->is_element && !is_movable_view(n)) return false;
  for (uint32_t k = 0; k < n->input_count && ++*visited < MOST_VISITED; k++)
    if ((is_movable_view(n) || compute_shape_equal(r->nodes[n->inputs[k]].shape, n->shape)) &&
        follows_product(r, n->inputs[k], visited))
      return true;
  return false;
}

/* Maps each axis of `split` to the axis of `joined` that contains it. Returns false unless each
 * axis of `joined` is the product of consecutive axes of `split`. */
static bool find_parts(compute_shape joined, compute_shape split, int32_t *part_of) {
  int32_t at = 0;
  for (int32_t i = 0; i < joined.rank; i++) {
    int64_t size = 1;
    const int32_t first = at;
    while (at < split.rank && (at == first || size < joined.size[i])) {
      size *= split.size[at];
      part_of[at++] = i;
    }
    if (size != joined.size[i] || at == first) return false;
  }
  for (; at < split.rank; at++) {
    if (split.size[at] != 1) return false;
    part_of[at] = joined.rank - 1;
  }
  return joined.rank > 0;
}

/* Converts the shape of an operand that broadcasts to `split` into one that broadcasts to `joined`.
 * Returns false if the operand repeats along only some parts of a joined axis. */
static bool join_operand(compute_shape operand, compute_shape split, const int32_t *part_of,
                         int32_t rank, compute_shape *result) {
  bool one[COMPUTE_MAX_RANK] = {false}, whole[COMPUTE_MAX_RANK] = {false};
  *result = (compute_shape){.rank = rank};
  for (int32_t i = 0; i < rank; i++) result->size[i] = 1;
  for (int32_t i = 0; i < split.rank; i++) {
    const int32_t own = i - (split.rank - operand.rank);
    const int64_t size = own < 0 ? 1 : operand.size[own];
    result->size[part_of[i]] *= size;
    if (split.size[i] != 1) *(size == 1 ? &one[part_of[i]] : &whole[part_of[i]]) = true;
  }
  for (int32_t i = 0; i < rank; i++)
    if (one[i] && whole[i]) return false;
  return true;
}

/* True if operand k is a view of such a product and has the node's whole shape. */
static bool reads_view_of_product(const ir *r, const ir_node *n, uint32_t k) {
  const ir_node *view = &r->nodes[n->inputs[k]];
  int visited = 0;
  return is_movable_view(view) && compute_shape_equal(view->shape, n->shape) &&
         !dtype_is_half(view->dtype) && follows_product(r, view->inputs[0], &visited);
}

/* Counts the stacked views above the first other node; returns at most MOST_VIEWS + 1. */
static uint32_t count_views(const ir *r, uint32_t node) {
  uint32_t count = 0;
  for (; count <= MOST_VIEWS && is_movable_view(&r->nodes[node]); node = r->nodes[node].inputs[0])
    count++;
  return count;
}

static uint32_t add_view(ir *r, const ir_node *like, graph_op op, uint32_t x, compute_shape shape,
                         const int32_t *order) {
  ir_node view = {.op = op,
                  .dtype = r->nodes[x].dtype,
                  .shape = shape,
                  .input_count = 1,
                  .inputs = &x,
                  .source = like->source};
  for (int32_t i = 0; order && i < shape.rank; i++) view.attributes.order[i] = order[i];
  return rewrite_view(r, &view);
}

/* Reshapes the operands from the view's shape to the product's shape. Returns false if an operand
 * does not fit or memory is short. */
static bool join_operands(ir *r, const ir_node *n, compute_shape joined, uint32_t *inputs) {
  int32_t part_of[COMPUTE_MAX_RANK];
  compute_shape shapes[MOST_OPERANDS];
  if (!find_parts(joined, n->shape, part_of)) return false;
  for (uint32_t k = 0; k < n->input_count; k++)
    if (!join_operand(r->nodes[n->inputs[k]].shape, n->shape, part_of, joined.rank, &shapes[k]))
      return false;
  for (uint32_t k = 0; k < n->input_count; k++) {
    inputs[k] = n->inputs[k];
    if (r->nodes[inputs[k]].shape.rank > 0)
      inputs[k] = add_view(r, n, OP_reshape, inputs[k], shapes[k], NULL);
    if (inputs[k] == IR_NONE) return false;
  }
  return true;
}

static bool turn_operands(ir *r, const ir_node *n, const int32_t *order, uint32_t *inputs) {
  const int32_t rank = n->shape.rank;
  int32_t back[COMPUTE_MAX_RANK];
  for (int32_t i = 0; i < rank; i++) back[order[i]] = i;
  for (uint32_t k = 0; k < n->input_count; k++) {
    inputs[k] = n->inputs[k];
    const compute_shape own = r->nodes[inputs[k]].shape;
    if (own.rank == 0) continue;
    compute_shape full = {.rank = rank}, turned = {.rank = rank};
    for (int32_t i = 0; i < rank; i++)
      full.size[i] = i < rank - own.rank ? 1 : own.size[i - (rank - own.rank)];
    for (int32_t i = 0; i < rank; i++) turned.size[i] = full.size[back[i]];
    if (own.rank < rank) inputs[k] = add_view(r, n, OP_reshape, inputs[k], full, NULL);
    if (inputs[k] != IR_NONE) inputs[k] = add_view(r, n, OP_transpose, inputs[k], turned, back);
    if (inputs[k] == IR_NONE) return false;
  }
  return true;
}

/* Removes the view at operand k and adapts all other operands. If another operand would then be a
 * view of a product, it returns false and changes nothing: the operation would move back behind
 * that view. Nothing would be gained, as the other product's kernel can compute the operation in
 * place. */
static bool take_view_off(ir *r, ir_node *n, uint32_t k, const ir_node *view, uint32_t *inputs) {
  const compute_shape shape = r->nodes[view->inputs[0]].shape;
  uint32_t taken[MOST_OPERANDS];
  if (view->op == OP_transpose ? !turn_operands(r, n, view->attributes.order, taken)
                               : !join_operands(r, n, shape, taken))
    return false;
  ir_node inner = *n;
  inner.shape = shape;
  inner.inputs = taken;
  for (uint32_t i = 0; i < n->input_count; i++)
    if (i != k && reads_view_of_product(r, &inner, i)) return false;
  memcpy(inputs, taken, sizeof *inputs * n->input_count);
  n->shape = shape;
  n->inputs = inputs;
  return true;
}

/* Rewrites f(view(product), …) as view(f(product, …)), so that the product's kernel can compute f.
 * Each removed view leaves an earlier node as the operand. */
static uint32_t rewrite_behind_view(ir *r, const ir_node *node) {
  ir_node n = *node, views[MOST_VIEWS];
  uint32_t inputs[MOST_OPERANDS], count = 0, k = 0;
  if (n.input_count > MOST_OPERANDS || shape_count(n.shape) == 0) return IR_NONE;
  while (k < n.input_count && !reads_view_of_product(r, &n, k)) k++;
  if (k == n.input_count || count_views(r, n.inputs[k]) > MOST_VIEWS) return IR_NONE;
  for (; reads_view_of_product(r, &n, k); count++) {
    views[count] = r->nodes[n.inputs[k]];
    if (!take_view_off(r, &n, k, &views[count], inputs)) break;
  }
  if (count == 0) return IR_NONE;
  n.name = NULL;
  uint32_t result = rewrite_arithmetic(r, &n);
  if (result == IR_NONE) result = ir_add(r, &n);
  while (result != IR_NONE && count-- > 0)
    result = add_view(r, node, views[count].op, result, views[count].shape,
                      views[count].op == OP_transpose ? views[count].attributes.order : NULL);
  return result;
}

/* True for a cast to the operand's own dtype. For f16 and bf16, such a cast requests the rounded
 * value, so it stays if the operand may live in a register. */
static bool is_void_cast(const ir *r, const ir_node *node) {
  if (node->op != OP_cast) return false;
  const ir_node *x = &r->nodes[node->inputs[0]];
  return x->dtype == node->dtype && !(dtype_is_half(x->dtype) && may_stay_in_register(x));
}

static bool is_square(const ir *r, const ir_node *n) {
  return n->op == OP_pow && is_uniform_number(&r->nodes[n->inputs[1]], 2) &&
         compute_shape_equal(r->nodes[n->inputs[0]].shape, n->shape);
}

static uint32_t rewrite_elementwise(ir *r, const ir_node *node) {
  ir_node n = *node;
  if (is_square(r, &n)) {
    n.op = OP_square;
    n.input_count = 1;
  }
  uint32_t found = rewrite_arithmetic(r, &n);
  if (found == IR_NONE) found = rewrite_behind_view(r, &n);
  return found != IR_NONE ? found : ir_add(r, &n);
}

uint32_t ir_rewrite(ir *r, const ir_node *node) {
  if (node->attributes.dense) return ir_add(r, node); /* a requested copy: keep it */
  if (ir_category(node) == CATEGORY_VIEW) return rewrite_view(r, node);
  if (is_void_cast(r, node)) return node->inputs[0];
  if (ir_category(node) == CATEGORY_ELEMENTWISE || node->op == OP_cast)
    return rewrite_elementwise(r, node);
  const uint32_t found = node->op == OP_matmul   ? rewrite_matmul(r, node)
                         : node->op == OP_conv2d ? rewrite_conv(r, node)
                         : node->op == OP_gather ? rewrite_gather(r, node)
                                                 : IR_NONE;
  return found != IR_NONE ? found : ir_add(r, node);
}
