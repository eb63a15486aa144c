/* SPDX-License-Identifier: MIT */
/* Helpers for gradient rules: operands, and adding a term to an operand's gradient. */
#include "graph/gradient/gradient.h"

#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"

void gradient_NONE(gradient_step *step) {
  (void)step;
}

compute_node gradient_operand(const gradient_step *step, uint32_t index) {
  return graph_handle(step->graph, step->node.inputs[index]);
}

bool gradient_wanted(const gradient_step *step, uint32_t index) {
  return step->walk->wanted[step->node.inputs[index]];
}

compute_node gradient_widen(const gradient_step *step, compute_node x) {
  if (compute_node_dtype(step->graph, x) == step->work) return x;
  return compute_cast(step->graph, x, step->work);
}

compute_node gradient_number(const gradient_step *step, double value) {
  return compute_scalar(step->graph, step->work, value);
}

enum { DEEPEST = 8 /* most nodes through which a sum is moved */ };

/* The axes of a sum. They are kept, with size 1, until the sum has its final shape. */
typedef struct summation {
  compute_graph *graph;
  compute_axes axes;
  uint32_t mask; /* the axes as bits */
} summation;

/* The operand `index` of a node with shape `whole`, before it is repeated along all of the axes.
 * {0} if it is not repeated, and for a single number, whose products are seldom worth factoring. */
static compute_node factor_of(const summation *s, uint32_t index, compute_shape whole) {
  const graph_node *node = &s->graph->nodes[index];
  if (node->op == OP_broadcast) {
    index = node->inputs[0];
    node = &s->graph->nodes[index];
  }
  if (shape_count(node->shape) <= 1) return (compute_node){0};
  const int32_t leading = whole.rank - node->shape.rank;
  for (int32_t i = leading; i < whole.rank; i++)
    if ((s->mask >> i & 1) && shape_at(node->shape, i - leading) != 1) return (compute_node){0};
  return graph_handle(s->graph, index);
}

/* x = factor · *rest, with a factor that is constant along the axes; {0} if x is not such a
 * product. */
static compute_node split_product(const summation *s, uint32_t x, uint32_t *rest) {
  const graph_node *node = &s->graph->nodes[x];
  if (node->op != OP_mul) return (compute_node){0};
  for (uint32_t k = 0; k < 2; k++) {
    *rest = node->inputs[1 - k];
    if (!compute_shape_equal(s->graph->nodes[*rest].shape, node->shape)) continue;
    const compute_node factor = factor_of(s, node->inputs[k], node->shape);
    if (compute_node_is_valid(factor)) return factor;
  }
  return (compute_node){0};
}

/* Moves signs and factors that are constant along the axes out of the sum. Often another gradient
 * then needs the same sum. So a normalisation with its own statistics needs no further pass over
 * its data. Only f32 and f64 have enough precision for this. */
static compute_node sum_apart(const summation *s, compute_node x, int32_t depth) {
  compute_graph *graph = s->graph;
  if (graph->status) return x;
  const uint32_t index = x.id - 1;
  const graph_op op = graph->nodes[index].op;
  const compute_dtype dtype = graph->nodes[index].dtype;
  if (depth < DEEPEST && (dtype == COMPUTE_F32 || dtype == COMPUTE_F64)) {
    uint32_t rest, a, b;
    const compute_node factor = split_product(s, index, &rest);
    if (compute_node_is_valid(factor))
      return compute_mul(graph, sum_apart(s, graph_handle(graph, rest), depth + 1), factor);
    const uint32_t *inputs = graph->nodes[index].inputs;
    if (op == OP_neg)
      return compute_neg(graph, sum_apart(s, graph_handle(graph, inputs[0]), depth + 1));
    if (op == OP_add && inputs[0] == inputs[1]) {
      const compute_node half = sum_apart(s, graph_handle(graph, inputs[0]), depth + 1);
      return compute_add(graph, half, half);
    }
    if (op == OP_add && compute_node_is_valid(split_product(s, inputs[0], &a)) &&
        compute_node_is_valid(split_product(s, inputs[1], &b))) {
      const compute_node right = graph_handle(graph, inputs[1]);
      const compute_node left = sum_apart(s, graph_handle(graph, inputs[0]), depth + 1);
      return compute_add(graph, left, sum_apart(s, right, depth + 1));
    }
  }
  return compute_sum(graph, x, s->axes, true);
}

/* True if nothing was moved out of the sum. Then the sum can have its final shape at once, and a
 * following update is fused into its kernel. */
static bool is_sum_of(const compute_graph *graph, compute_node sum, compute_node x) {
  if (graph->status) return false;
  const graph_node *node = &graph->nodes[sum.id - 1];
  return node->op == OP_sum && node->inputs[0] == x.id - 1;
}

/* The sum over the axes along which an operand of `shape` was broadcast to x. */
static compute_node sum_to_shape(compute_graph *graph, compute_node x, compute_shape shape) {
  const compute_shape from = compute_node_shape(graph, x);
  if (compute_shape_equal(from, shape)) return x;
  const int32_t leading = from.rank - shape.rank;
  summation s = {.graph = graph};
  for (int32_t i = 0; i < from.rank; i++) {
    if (i < leading || (shape_at(shape, i - leading) == 1 && shape_at(from, i) != 1)) {
      s.axes.axis[s.axes.count++] = i;
      s.mask |= UINT32_C(1) << i;
    }
  }
  compute_node sum = s.axes.count > 0 ? sum_apart(&s, x, 0) : x;
  if (is_sum_of(graph, sum, x)) sum = compute_sum(graph, x, s.axes, false);
  if (compute_shape_equal(compute_node_shape(graph, sum), shape)) return sum;
  return compute_reshape(graph, sum, shape);
}

enum { MOST_UNROLLED = 100000 };

bool gradient_may_unroll(const gradient_step *step, int64_t count) {
  const char *operation = graph_op_describe(step->node.op)->name;
  if (step->graph->status) return false;
  if (count <= MOST_UNROLLED) return true;
  return graph_refuse(step->graph, COMPUTE_ERROR_SHAPE, operation,
                      "its gradient takes %lld steps one by one; at most %d are possible",
                      (long long)count, MOST_UNROLLED);
}

void gradient_give(gradient_step *step, uint32_t index, compute_node part) {
  compute_graph *graph = step->graph;
  if (graph->status || !gradient_wanted(step, index)) return;
  const uint32_t input = step->node.inputs[index];
  const compute_dtype dtype = graph->nodes[input].dtype;
  const compute_shape shape = graph->nodes[input].shape;
  part = sum_to_shape(graph, part, shape);
  if (compute_node_dtype(graph, part) != dtype) part = compute_cast(graph, part, dtype);
  compute_node *sum = &step->walk->gradient[input];
  *sum = compute_node_is_valid(*sum) ? compute_add(graph, *sum, part) : part;
}
