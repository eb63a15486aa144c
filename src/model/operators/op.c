/* SPDX-License-Identifier: MIT */
#include "core/type/shape.h"
#include "model/operators/op.h"

#include <string.h>

static compute_node cut_off(model_call *call, compute_node x, int32_t axis, int64_t before,
                            int64_t after) {
  const int64_t size = shape_at(compute_node_shape(call->graph, x), axis);
  return before || after ? compute_slice(call->graph, x, axis, before, size - before - after, 1)
                         : x;
}

compute_node op_pad(model_call *call, compute_node x, int32_t axis, int64_t before, int64_t after,
                    double value) {
  if (before > 0 || after > 0)
    x = compute_pad(call->graph, x, axis, before > 0 ? before : 0, after > 0 ? after : 0,
                    COMPUTE_PAD_CONSTANT, value);
  return cut_off(call, x, axis, before < 0 ? -before : 0, after < 0 ? -after : 0);
}

/* max(0, min(1, alpha · x + beta)) */
static compute_node hard_sigmoid(model_call *call, compute_node x, double alpha, double beta) {
  compute_graph *graph = call->graph;
  x = compute_mul(graph, x, call_scalar_like(call, x, alpha));
  return compute_clamp(graph, compute_add(graph, x, call_scalar_like(call, x, beta)), 0, 1);
}

compute_status op_activate(model_call *call, const char *name, const float *parameters,
                           size_t count, compute_node *x) {
  static const struct {
    const char *name;
    compute_node (*record)(compute_graph *graph, compute_node x);
  } plain[] = {{"Relu", compute_relu},         {"Tanh", compute_tanh}, {"Sigmoid", compute_sigmoid},
               {"Softplus", compute_softplus}, {"Gelu", compute_gelu}, {"Swish", compute_silu}};
  compute_graph *graph = call->graph;
  const double first = count > 0 ? (double)parameters[0] : 0;
  const double second = count > 1 ? (double)parameters[1] : 0;
  if (!name[0]) return COMPUTE_OK;
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
    if (strcmp(plain[i].name, name) == 0) {
      *x = plain[i].record(graph, *x);
      return COMPUTE_OK;
    }
  if (strcmp(name, "LeakyRelu") == 0)
    *x = compute_leaky_relu(graph, *x, count > 0 ? first : 0.01);
  else if (strcmp(name, "Elu") == 0)
    *x = compute_elu(graph, *x, count > 0 ? first : 1);
  else if (strcmp(name, "Clip") == 0 && count == 2)
    *x = compute_clamp(graph, *x, first, second);
  else if (strcmp(name, "HardSigmoid") == 0)
    *x = hard_sigmoid(call, *x, count > 0 ? first : 0.2, count > 1 ? second : 0.5);
  else
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "the activation '%s' is not known", name);
  return COMPUTE_OK;
}
