/* Gradient clipping by the norm of all gradients together. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "compute/graph_nn.h"
#include "graph/build/build.h"
#include "type/dtype.h"

static const char operation[] = "clip_gradients";

static bool check_gradients(compute_graph *graph, const compute_node *gradients, size_t count,
                            double limit, compute_dtype *work) {
  if (!build_start(graph, operation)) return false;
  if (count == 0 || !gradients) {
    graph_fail(graph, count ? COMPUTE_ERROR_NULL_POINTER : COMPUTE_ERROR_INVALID_ARGUMENT,
               operation, count ? "gradients is NULL" : "needs at least one gradient");
    return false;
  }
  if (!(limit > 0) || isinf(limit)) {
    graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
               "limit is %g; it must be finite and larger than 0", limit);
    return false;
  }
  *work = COMPUTE_F32;
  for (size_t i = 0; i < count; i++) {
    uint32_t index;
    if (!build_operands(graph, operation, &gradients[i], 1, &index)) return false;
    const compute_dtype dtype = build_at(graph, index)->dtype;
    if (!build_domain(graph, operation, DOMAIN_FLOAT, dtype)) return false;
    if (dtype == COMPUTE_F64) *work = COMPUTE_F64;
  }
  return build_number(graph, operation, "limit", *work, limit);
}

static compute_node as_dtype(compute_graph *graph, compute_node x, compute_dtype dtype) {
  return compute_node_dtype(graph, x) == dtype ? x : compute_cast(graph, x, dtype);
}

/* Records the scaled gradients; they are not the caller's before all of them exist. */
static compute_node clip(compute_graph *graph, const compute_node *gradients, size_t count,
                         double limit, compute_dtype work, compute_node *scaled) {
  compute_node sum = BUILD_NONE;
  for (size_t i = 0; i < count; i++) {
    const compute_node square = compute_square(graph, as_dtype(graph, gradients[i], work));
    const compute_node part = compute_sum(graph, square, COMPUTE_ALL_AXES, false);
    sum = i == 0 ? part : compute_add(graph, sum, part);
  }
  const compute_node length = compute_sqrt(graph, sum);
  const compute_node share =
      compute_div(graph, compute_scalar(graph, work, limit), length); /* of norm 0: infinite */
  const compute_node factor = compute_minimum(graph, share, compute_scalar(graph, work, 1));
  for (size_t i = 0; i < count; i++) {
    const compute_dtype dtype = compute_node_dtype(graph, gradients[i]);
    const compute_dtype own = dtype_compute_type(dtype);
    const compute_node product =
        compute_mul(graph, as_dtype(graph, gradients[i], own), as_dtype(graph, factor, own));
    scaled[i] = as_dtype(graph, product, dtype);
  }
  return length;
}

void compute_clip_gradients(compute_graph *graph, compute_node *gradients, size_t count,
                            double limit, compute_node *norm) {
  BUILD_ALL_OR_NOTHING(graph);
  compute_dtype work;
  if (norm) *norm = BUILD_NONE;
  if (!check_gradients(graph, gradients, count, limit, &work)) return;
  compute_node *scaled = base_allocate(count, sizeof *scaled);
  if (!scaled) {
    graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "no memory for %zu gradients", count);
    return;
  }
  const compute_node length = clip(graph, gradients, count, limit, work, scaled);
  if (!graph->status) {
    memcpy(gradients, scaled, count * sizeof *gradients);
    if (norm) *norm = length;
  }
  base_release(scaled);
}
