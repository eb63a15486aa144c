/* The walk of compute_gradients. The rules are in gradient_rules.c and gradient_structure.c. */
#include "graph/gradient/gradient.h"

#include "base/alloc.h"
#include "graph/build/build.h"
#include "type/dtype.h"
#include "type/shape.h"

static gradient_rule *const rules[OP_COUNT] = {
#define ELEMENTWISE(name, arity, instruction, domain, result, gradient, ...)                       \
  [OP_##name] = gradient_##gradient,
#define SCALED(name, instruction, gradient, ...)          [OP_##name] = gradient_##gradient,
#define STRUCTURAL(name, category, domain, gradient, ...) [OP_##name] = gradient_##gradient,
#include "graph/ops.def"
};

static gradient_rule *const whole_rules[] = {
    [WHOLE_BATCH_NORM] = gradient_whole_batch_norm,
    [WHOLE_CROSS_ENTROPY] = gradient_whole_cross_entropy,
};

/* One call of compute_gradients: what is known about the nodes 0 … loss. */
typedef struct gradient_walk {
  size_t loss;
  bool *wanted;           /* some of[i] flows into it */
  compute_node *gradient; /* {0} where nothing has arrived yet */
  uint32_t *path;         /* how the loss depends on it; NULL until somebody asks */
} gradient_walk;

static const char *const operation = "gradients";

/* ---- What rules call ----------------------------------------------------------------------- */

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

enum { DEEPEST = 8 /* nodes that a sum is moved through */ };

/* What is summed, and the axes. Axes stay, with size 1, until the sum has its final shape. */
typedef struct summation {
  compute_graph *graph;
  compute_axes axes;
  uint32_t mask; /* the axes as bits */
} summation;

/* What `node`, as an operand in the shape `whole`, is before it is repeated along all of the axes:
 * {0} if it is not, and for a single number, whose products are seldom worth taking apart. */
static compute_node factor_of(const summation *s, uint32_t index, compute_shape whole) {
  const graph_node *node = &s->graph->nodes[index];
  if (node->op == OP_broadcast) {
    index = node->inputs[0];
    node = &s->graph->nodes[index];
  }
  if (shape_count(node->shape) <= 1) return (compute_node){0};
  const int32_t leading = whole.rank - node->shape.rank;
  for (int32_t i = leading; i < whole.rank; i++)
    if ((s->mask >> i & 1) && node->shape.size[i - leading] != 1) return (compute_node){0};
  return graph_handle(s->graph, index);
}

/* x = factor · *rest, where the factor is the same all along the axes; {0} if x is no such product.
 */
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

/* Signs and factors that are the same all along the axes come out of the sum, which then is often
 * one that another gradient needs as well: so a normalisation with statistics of its own needs no
 * further pass over its data. Only in types that have room for it. */
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

/* Whether nothing came out of the sum: then it can have its final shape at once, and an update that
 * follows is part of its kernel. */
static bool is_sum_of(const compute_graph *graph, compute_node sum, compute_node x) {
  if (graph->status) return false;
  const graph_node *node = &graph->nodes[sum.id - 1];
  return node->op == OP_sum && node->inputs[0] == x.id - 1;
}

/* The sum over the axes along which something of `shape` was repeated to become like x. */
static compute_node sum_to_shape(compute_graph *graph, compute_node x, compute_shape shape) {
  const compute_shape from = compute_node_shape(graph, x);
  if (compute_shape_equal(from, shape)) return x;
  const int32_t leading = from.rank - shape.rank;
  summation s = {.graph = graph};
  for (int32_t i = 0; i < from.rank; i++) {
    if (i < leading || (shape.size[i - leading] == 1 && from.size[i] != 1)) {
      s.axes.axis[s.axes.count++] = i;
      s.mask |= UINT32_C(1) << i;
    }
  }
  compute_node sum = s.axes.count > 0 ? sum_apart(&s, x, 0) : x;
  if (is_sum_of(graph, sum, x)) sum = compute_sum(graph, x, s.axes, false);
  if (compute_shape_equal(compute_node_shape(graph, sum), shape)) return sum;
  return compute_reshape(graph, sum, shape);
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

/* ---- The walk ------------------------------------------------------------------------------ */

/* Step functions have a derivative, though it is zero wherever it exists: as in PyTorch, a path
 * through one is a path, and nothing comes out of it. */
static bool is_step_function(graph_op op) {
  return op == OP_sign || op == OP_floor || op == OP_ceil || op == OP_round || op == OP_trunc;
}

/* Marks what the gradient must pass: floats that a wanted operand reaches by a rule. */
static void mark_wanted(const compute_graph *graph, gradient_walk *walk, const uint32_t *of,
                        size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (of[i] <= walk->loss) walk->wanted[of[i]] = true;
  }
  for (size_t n = 0; n <= walk->loss; n++) {
    const graph_node *node = &graph->nodes[n];
    if (!dtype_is_float(node->dtype) || !graph_op_describe(node->op)->differentiable) continue;
    for (uint32_t k = 0; k < node->input_count; k++) {
      if (walk->wanted[node->inputs[k]]) walk->wanted[n] = true;
    }
  }
}

static void walk_back(compute_graph *graph, gradient_walk *walk) {
  const graph_node *loss = &graph->nodes[walk->loss];
  walk->gradient[walk->loss] = compute_full(graph, loss->dtype, loss->shape, 1);
  for (size_t n = walk->loss + 1; n-- > 0 && !graph->status;) {
    if (!walk->wanted[n] || !compute_node_is_valid(walk->gradient[n])) continue;
    gradient_step step = {.graph = graph,
                          .walk = walk,
                          .node = graph->nodes[n],
                          .result = graph_handle(graph, n),
                          .upstream = walk->gradient[n],
                          .work = dtype_compute_type(graph->nodes[n].dtype)};
    if (step.node.whole.kind != WHOLE_NONE) {
      step.node.inputs = step.node.whole.operands; /* of the copy */
      whole_rules[step.node.whole.kind](&step);
    } else if (step.node.input_count > 0) {
      const size_t first = graph->count;
      rules[step.node.op](&step);
      if (graph_is_indexed(step.node.op)) {
        const graph_origin origin = graph_origin_of(graph, n);
        build_origin(graph, first, &origin);
      }
    }
  }
}

/* What is known about the paths from a node to the loss; any other number is 1 + the first node on
 * them that blocks all of them. */
#define PATH_NONE  UINT32_C(0)
#define PATH_FLOWS UINT32_MAX

/* Fills in walk->path, from the loss down to its operands. */
static bool trace_paths(const compute_graph *graph, gradient_walk *walk) {
  uint32_t *path = walk->path = base_allocate(walk->loss + 1, sizeof *path);
  if (!path) return false;
  path[walk->loss] = PATH_FLOWS;
  for (size_t n = walk->loss + 1; n-- > 0;) {
    if (path[n] == PATH_NONE) continue;
    const graph_node *node = &graph->nodes[n];
    const bool passes = dtype_is_float(node->dtype) &&
                        (graph_op_describe(node->op)->differentiable || is_step_function(node->op));
    for (uint32_t k = 0; k < node->input_count; k++) {
      uint32_t *before = &path[node->inputs[k]];
      if (*before != PATH_FLOWS) *before = passes ? path[n] : (uint32_t)n + 1;
    }
  }
  return true;
}

/* Why nothing arrived at of[position]: the loss does not depend on it (true), or every path leads
 * through an operation without a derivative (false, with the error). */
static bool explain_zero(compute_graph *graph, gradient_walk *walk, uint32_t of, size_t position) {
  if (of > walk->loss) return true;
  if (!walk->path && !trace_paths(graph, walk)) {
    graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "no memory");
    return false;
  }
  const uint32_t end = walk->path[of];
  if (end == PATH_FLOWS || end == PATH_NONE) return true;
  const graph_node *blocking = &graph->nodes[end - 1];
  graph_fail(graph, COMPUTE_ERROR_NOT_DIFFERENTIABLE, operation,
             "of[%zu] reaches the loss only through %s with a result in %s (node %u), which has no "
             "derivative",
             position, graph_op_describe(blocking->op)->name, compute_dtype_name(blocking->dtype),
             end);
  return false;
}

/* ---- The call ------------------------------------------------------------------------------ */

/* Whether the loss and the nodes asked for are of a kind that has gradients. */
static bool check_arguments(compute_graph *graph, compute_node loss, const compute_node *of,
                            size_t count, const compute_node *gradients, uint32_t *loss_index,
                            uint32_t *indices) {
  if (count > 0 && (!of || !gradients)) {
    graph_fail(graph, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL", of ? "gradients" : "of");
    return false;
  }
  if (!build_operands(graph, operation, &loss, 1, loss_index) ||
      !build_operands(graph, operation, of, count, indices)) {
    return false;
  }
  const graph_node *node = build_at(graph, *loss_index);
  int64_t elements = 0;
  compute_shape_count(node->shape, &elements);
  if (elements != 1) {
    char text[BUILD_TEXT];
    graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
               "the loss has shape %s; it must be one element",
               compute_shape_text(node->shape, text, sizeof text));
    return false;
  }
  if (!dtype_is_float(node->dtype)) {
    graph_fail(graph, COMPUTE_ERROR_DTYPE, operation, "the loss is %s; it must be a float",
               compute_dtype_name(node->dtype));
    return false;
  }
  for (size_t i = 0; i < count; i++) {
    compute_dtype dtype = build_at(graph, indices[i])->dtype;
    if (dtype_is_float(dtype)) continue;
    graph_fail(graph, COMPUTE_ERROR_DTYPE, operation, "of[%zu] is %s; only floats have a gradient",
               i, compute_dtype_name(dtype));
    return false;
  }
  return true;
}

static void find_gradients(compute_graph *graph, gradient_walk *walk, const uint32_t *of,
                           size_t count, compute_node *gradients) {
  mark_wanted(graph, walk, of, count);
  if (walk->wanted[walk->loss]) walk_back(graph, walk);
  for (size_t i = 0; i < count && !graph->status; i++) {
    compute_node found = of[i] <= walk->loss ? walk->gradient[of[i]] : BUILD_NONE;
    if (!compute_node_is_valid(found) && explain_zero(graph, walk, of[i], i)) {
      const graph_node *node = build_at(graph, of[i]);
      found = compute_full(graph, node->dtype, node->shape, 0);
    }
    gradients[i] = found;
  }
}

compute_status compute_gradients(compute_graph *graph, compute_node loss, const compute_node *of,
                                 size_t count, compute_node *gradients) {
  BUILD_ALL_OR_NOTHING(graph);
  gradient_walk walk = {0};
  uint32_t loss_index = 0;
  if (build_start(graph, operation)) {
    uint32_t *indices = base_allocate(count, sizeof *indices);
    if (!indices) {
      graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "no memory for %zu nodes", count);
    } else if (check_arguments(graph, loss, of, count, gradients, &loss_index, indices)) {
      walk.loss = loss_index;
      walk.wanted = base_allocate(walk.loss + 1, sizeof *walk.wanted);
      walk.gradient = base_allocate(walk.loss + 1, sizeof *walk.gradient);
      if (walk.wanted && walk.gradient) {
        find_gradients(graph, &walk, indices, count, gradients);
      } else {
        graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "no memory");
      }
    }
    base_release(walk.path);
    base_release(walk.gradient);
    base_release(walk.wanted);
    base_release(indices);
  }
  compute_status status = compute_graph_status(graph);
  for (size_t i = 0; status && gradients && i < count; i++) gradients[i] = BUILD_NONE;
  return status;
}
