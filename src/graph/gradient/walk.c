/* SPDX-License-Identifier: MIT */
/* The walk of compute_gradients and of other derivatives. Helpers for rules are in step.c. */
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
    [WHOLE_GATE] = gradient_whole_gate,
    [WHOLE_PSEUDO_INVERSE] = gradient_whole_pseudo_inverse,
};

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
    if (of[i] <= walk->last) walk->wanted[of[i]] = true;
  }
  for (size_t n = 0; n <= walk->last; n++) {
    const graph_node *node = &graph->nodes[n];
    if (!dtype_is_float(node->dtype) || !graph_op_describe(node->op)->differentiable) continue;
    for (uint32_t k = 0; k < node->input_count; k++) {
      if (walk->wanted[node->inputs[k]]) walk->wanted[n] = true;
    }
  }
}

void gradient_pass(compute_graph *graph, gradient_walk *walk, size_t index,
                   const graph_node *node) {
  gradient_step step = {.graph = graph,
                        .walk = walk,
                        .node = *node,
                        .result = graph_handle(graph, index),
                        .upstream = walk->gradient[index],
                        .work = dtype_compute_type(node->dtype)};
  if (step.node.whole.kind != WHOLE_NONE) {
    step.node.inputs = step.node.whole.operands; /* of the copy of the node */
    whole_rules[step.node.whole.kind](&step);
  } else if (step.node.input_count > 0) {
    const size_t first = graph->count;
    rules[step.node.op](&step);
    if (graph_is_indexed(step.node.op)) {
      const graph_origin origin = graph_origin_of(graph, index);
      build_origin(graph, first, &origin);
    }
  }
}

/* Gives every output its first gradient. Outputs that do not depend on of[] need none. */
static void start(compute_graph *graph, gradient_walk *walk) {
  for (size_t i = 0; i < walk->seed_count && !graph->status; i++) {
    const uint32_t output = walk->seeds[i].output;
    const graph_node *node = &graph->nodes[output];
    compute_node part = walk->seeds[i].upstream;
    if (!walk->wanted[output]) continue;
    if (!compute_node_is_valid(part)) part = compute_full(graph, node->dtype, node->shape, 1);
    compute_node *sum = &walk->gradient[output];
    *sum = compute_node_is_valid(*sum) ? compute_add(graph, *sum, part) : part;
  }
}

static void walk_back(compute_graph *graph, gradient_walk *walk) {
  start(graph, walk);
  for (size_t n = walk->last + 1; n-- > 0 && !graph->status;) {
    if (!walk->wanted[n] || !compute_node_is_valid(walk->gradient[n])) continue;
    if (!gradient_repeat(graph, walk, n) && !graph->status)
      gradient_pass(graph, walk, n, &graph->nodes[n]);
  }
}

/* State of the paths from a node to the outputs. Any other number is 1 + the first node that blocks
 * all of them. */
#define PATH_NONE  UINT32_C(0)
#define PATH_FLOWS UINT32_MAX

/* Fills in walk->path, from the outputs down to their operands. */
static bool trace_paths(const compute_graph *graph, gradient_walk *walk) {
  uint32_t *path = walk->path = base_allocate(walk->last + 1, sizeof *path);
  if (!path) return false;
  for (size_t i = 0; i < walk->seed_count; i++) path[walk->seeds[i].output] = PATH_FLOWS;
  for (size_t n = walk->last + 1; n-- > 0;) {
    if (path[n] == PATH_NONE) continue;
    const graph_node *node = &graph->nodes[n];
    const bool passes = dtype_is_float(node->dtype) &&
                        (graph_op_describe(node->op)->differentiable || is_step_function(node->op));
    for (uint32_t k = 0; k < node->input_count; k++) {
      if (node->in_pieces && !dtype_is_float(graph->nodes[node->inputs[k]].dtype)) continue;
      uint32_t *before = &path[node->inputs[k]];
      if (*before != PATH_FLOWS) *before = passes ? path[n] : (uint32_t)n + 1;
    }
  }
  return true;
}

/* Finds the reason why of[position] has no gradient. True: the outputs do not depend on it. False,
 * with an error: every path leads through an operation without a derivative. */
static bool explain_zero(compute_graph *graph, const char *operation, gradient_walk *walk,
                         uint32_t of, size_t position) {
  if (of > walk->last) return true;
  if (!walk->path && !trace_paths(graph, walk)) {
    return graph_refuse(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
  }
  const uint32_t end = walk->path[of];
  if (end == PATH_FLOWS || end == PATH_NONE) return true;
  const graph_node *blocking = &graph->nodes[end - 1];
  return graph_refuse(
      graph, COMPUTE_ERROR_NOT_DIFFERENTIABLE, operation,
      "of[%zu] reaches the %s only through %s with a result in %s (node %u), which has no "
      "derivative",
      position, walk->seed_count == 1 ? "loss" : "outputs", graph_op_describe(blocking->op)->name,
      compute_dtype_name(blocking->dtype), end);
}

static void find_gradients(compute_graph *graph, const char *operation, gradient_walk *walk,
                           const uint32_t *of, size_t count, compute_node *gradients) {
  const size_t first = graph->count;
  mark_wanted(graph, walk, of, count);
  walk_back(graph, walk);
  for (size_t i = 0; i < count && !graph->status; i++) {
    compute_node found = of[i] <= walk->last ? walk->gradient[of[i]] : BUILD_NONE;
    if (!compute_node_is_valid(found) && explain_zero(graph, operation, walk, of[i], i)) {
      const graph_node *node = build_at(graph, of[i]);
      found = compute_full(graph, node->dtype, node->shape, 0);
    }
    gradients[i] = found;
  }
  graph_mark_pieces(graph, first);
}

/* Nodes of[i], where a repetition must end. */
static bool mark_requested(const compute_graph *graph, gradient_walk *walk, const uint32_t *of,
                           size_t count) {
  size_t n = 0;
  while (n <= walk->last && !graph->nodes[n].checkpoint) n++;
  if (n > walk->last) return true;
  walk->requested = base_allocate(walk->last + 1, sizeof *walk->requested);
  walk->again = base_allocate(walk->last + 1, sizeof *walk->again);
  if (!walk->requested || !walk->again) return false;
  for (size_t i = 0; i < count; i++)
    if (of[i] <= walk->last) walk->requested[of[i]] = true;
  return true;
}

void gradient_record(compute_graph *graph, const char *operation, const gradient_seed *seeds,
                     size_t seed_count, const uint32_t *of, size_t count, compute_node *gradients) {
  gradient_walk walk = {.seeds = seeds, .seed_count = seed_count};
  for (size_t i = 0; i < seed_count; i++)
    if (seeds[i].output > walk.last) walk.last = seeds[i].output;
  walk.capacity = walk.last + 1;
  walk.wanted = base_allocate(walk.capacity, sizeof *walk.wanted);
  walk.gradient = base_allocate(walk.capacity, sizeof *walk.gradient);
  if (walk.wanted && walk.gradient && mark_requested(graph, &walk, of, count)) {
    find_gradients(graph, operation, &walk, of, count, gradients);
  } else {
    graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
  }
  base_release(walk.path);
  base_release(walk.again);
  base_release(walk.requested);
  base_release(walk.gradient);
  base_release(walk.wanted);
}

/* ---- The call -------------------------------------------------------------------------------- */

static const char *const operation = "gradients";

bool gradient_check_nodes(compute_graph *graph, const char *caller, const char *role,
                          const compute_node *nodes, size_t count, uint32_t *indices) {
  if (!build_operands(graph, caller, nodes, count, indices)) return false;
  for (size_t i = 0; i < count; i++) {
    compute_dtype dtype = build_at(graph, indices[i])->dtype;
    if (dtype_is_float(dtype)) continue;
    return graph_refuse(graph, COMPUTE_ERROR_DTYPE, caller,
                        "%s[%zu] is %s; only floats have a gradient", role, i,
                        compute_dtype_name(dtype));
  }
  return true;
}

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
  if (shape_count(node->shape) != 1) {
    char text[BUILD_TEXT];
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                        "the loss has shape %s; it must be one element",
                        compute_shape_text(node->shape, text, sizeof text));
  }
  if (!dtype_is_float(node->dtype)) {
    return graph_refuse(graph, COMPUTE_ERROR_DTYPE, operation, "the loss is %s; it must be a float",
                        compute_dtype_name(node->dtype));
  }
  return gradient_check_nodes(graph, operation, "of", of, count, indices);
}

compute_status compute_gradients(compute_graph *graph, compute_node loss, const compute_node *of,
                                 size_t count, compute_node *gradients) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(graph, context);
  BUILD_ALL_OR_NOTHING(graph);
  gradient_seed seed = {0};
  if (build_start(graph, operation)) {
    uint32_t *indices = base_allocate(count, sizeof *indices);
    if (!indices) {
      graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "not enough memory for %zu nodes",
                 count);
    } else if (check_arguments(graph, loss, of, count, gradients, &seed.output, indices)) {
      gradient_record(graph, operation, &seed, 1, indices, count, gradients);
    }
    base_release(indices);
  }
  compute_status status = compute_graph_status(graph);
  for (size_t i = 0; status && gradients && i < count; i++) gradients[i] = BUILD_NONE;
  return status;
}
