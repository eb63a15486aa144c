/* SPDX-License-Identifier: MIT */
/* The walk of compute_gradients. Helpers for rules are in step.c. */
#include "graph/gradient/gradient.h"

#include "core/base/alloc.h"
#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"

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
    [WHOLE_CALL] = gradient_whole_call,
};

static const char *const operation = "gradients";

/* ---- The walk -------------------------------------------------------------------------------- */

/* The derivative of a step function is zero wherever it exists. As in PyTorch, a path through one
 * counts and contributes zero. */
static bool is_step_function(graph_op op) {
  return op == OP_sign || op == OP_floor || op == OP_ceil || op == OP_round || op == OP_trunc;
}

/* Marks the nodes that gradients pass: floats that depend on a requested node through rules. */
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
      step.node.inputs = step.node.whole.operands; /* of the copy of the node */
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

/* State of the paths from a node to the loss. Any other number is 1 + the first node that blocks
 * all of them. */
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

/* Finds the reason why of[position] has no gradient. True: the loss does not depend on it. False,
 * with an error: every path leads through an operation without a derivative. */
static bool explain_zero(compute_graph *graph, gradient_walk *walk, uint32_t of, size_t position) {
  if (of > walk->loss) return true;
  if (!walk->path && !trace_paths(graph, walk)) {
    return graph_refuse(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
  }
  const uint32_t end = walk->path[of];
  if (end == PATH_FLOWS || end == PATH_NONE) return true;
  const graph_node *blocking = &graph->nodes[end - 1];
  return graph_refuse(
      graph, COMPUTE_ERROR_NOT_DIFFERENTIABLE, operation,
      "of[%zu] reaches the loss only through %s with a result in %s (node %u), which has no "
      "derivative",
      position, graph_op_describe(blocking->op)->name, compute_dtype_name(blocking->dtype), end);
}

/* ---- The call -------------------------------------------------------------------------------- */

/* True if the loss and the requested nodes can have gradients. */
static bool check_arguments(compute_graph *graph, compute_node loss, const compute_node *of,
                            size_t count, const compute_node *gradients, uint32_t *loss_index,
                            uint32_t *indices) {
  if (count > 0 && (!of || !gradients)) {
    return graph_refuse(graph, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL",
                        of ? "gradients" : "of");
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
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                        "the loss has shape %s; it must be one element",
                        compute_shape_text(node->shape, text, sizeof text));
  }
  if (!dtype_is_float(node->dtype)) {
    return graph_refuse(graph, COMPUTE_ERROR_DTYPE, operation, "the loss is %s; it must be a float",
                        compute_dtype_name(node->dtype));
  }
  for (size_t i = 0; i < count; i++) {
    compute_dtype dtype = build_at(graph, indices[i])->dtype;
    if (dtype_is_float(dtype)) continue;
    return graph_refuse(graph, COMPUTE_ERROR_DTYPE, operation,
                        "of[%zu] is %s; only floats have a gradient", i, compute_dtype_name(dtype));
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
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(graph, context);
  BUILD_ALL_OR_NOTHING(graph);
  gradient_walk walk = {0};
  uint32_t loss_index = 0;
  if (build_start(graph, operation)) {
    uint32_t *indices = base_allocate(count, sizeof *indices);
    if (!indices) {
      graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "not enough memory for %zu nodes",
                 count);
    } else if (check_arguments(graph, loss, of, count, gradients, &loss_index, indices)) {
      walk.loss = loss_index;
      walk.wanted = base_allocate(walk.loss + 1, sizeof *walk.wanted);
      walk.gradient = base_allocate(walk.loss + 1, sizeof *walk.gradient);
      if (walk.wanted && walk.gradient) {
        find_gradients(graph, &walk, indices, count, gradients);
      } else {
        graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
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
