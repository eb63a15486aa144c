/* SPDX-License-Identifier: MIT */
#include "core/type/shape.h"
#include "model/operators/op.h"

#include <math.h>
#include <string.h>

bool op_is_float(compute_dtype dtype) {
  return dtype == COMPUTE_F64 || dtype == COMPUTE_F32 || dtype == COMPUTE_F16 ||
         dtype == COMPUTE_BF16;
}

compute_node op_cast(model_call *call, compute_node x, compute_dtype dtype) {
  return compute_node_dtype(call->graph, x) == dtype ? x : compute_cast(call->graph, x, dtype);
}

compute_dtype op_wide_dtype(compute_dtype dtype) {
  return dtype == COMPUTE_F16 || dtype == COMPUTE_BF16 ? COMPUTE_F32 : dtype;
}

compute_node op_wide(model_call *call, compute_node x) {
  return op_cast(call, x, op_wide_dtype(compute_node_dtype(call->graph, x)));
}

/* ---- Constants ------------------------------------------------------------------------------- */

compute_node op_numbers(model_call *call, compute_dtype dtype, compute_shape shape,
                        const double *values) {
  if (dtype == COMPUTE_F64) return compute_constant(call->graph, dtype, shape, values);
  const size_t count = (size_t)op_count(shape, 0, shape.rank);
  float *narrow = call_allocate(call, count, sizeof *narrow);
  if (!narrow) {
    call_out_of_memory(call);
    return (compute_node){0};
  }
  for (size_t i = 0; i < count; i++) narrow[i] = (float)values[i];
  return op_cast(call, compute_constant(call->graph, COMPUTE_F32, shape, narrow), dtype);
}

compute_node op_integers(model_call *call, compute_shape shape, const int64_t *values) {
  return compute_constant(call->graph, COMPUTE_I64, shape, values);
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

int64_t op_count(compute_shape shape, int32_t first, int32_t end) {
  int64_t count = 1;
  for (int32_t i = first; i < end; i++) count *= shape_at(shape, i);
  return count;
}

compute_axes op_axes(int32_t first, int32_t end) {
  compute_axes axes = {.count = 0};
  for (int32_t i = first; i < end; i++) axes.axis[axes.count++] = i;
  return axes.count ? axes : COMPUTE_NO_AXES;
}

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

compute_node op_move_axis(model_call *call, compute_node x, int32_t from, int32_t to) {
  const int32_t rank = compute_node_shape(call->graph, x).rank;
  if (from == to) return x;
  compute_axes order = {.count = rank};
  for (int32_t i = 0, next = 0; i < rank; i++) {
    if (next == from) next++;
    order.axis[i] = i == to ? from : next++;
  }
  return compute_transpose(call->graph, x, order);
}

compute_node op_along(model_call *call, compute_node vector, int32_t axis, int32_t rank) {
  compute_shape shape = {.rank = rank};
  for (int32_t i = 0; i < rank; i++) shape_set(&shape, i, i == axis ? -1 : 1);
  return compute_reshape(call->graph, vector, shape);
}

/* ---- Arithmetic ------------------------------------------------------------------------------ */

compute_node op_power_of_magnitude(model_call *call, compute_node x, double p) {
  compute_graph *graph = call->graph;
  if (p == 2) return compute_square(graph, x);
  x = compute_abs(graph, x);
  return p == 1 ? x : compute_pow(graph, x, call_scalar_like(call, x, p));
}

compute_node op_root(model_call *call, compute_node x, double p) {
  if (p == 1) return x;
  if (p == 2) return compute_sqrt(call->graph, x);
  return compute_pow(call->graph, x, call_scalar_like(call, x, 1 / p));
}

static bool has_elements(const compute_shape *shape) {
  for (int32_t i = 0; i < shape->rank; i++)
    if (shape_at(*shape, i) == 0) return false;
  return true;
}

/* 1 up to 2^GOOD_EXPONENT/p, then about `size` divided by that. Like floor, it has no gradient. */
static compute_node excess(model_call *call, compute_node size, double most) {
  enum { MOST_EXPONENT = 120 }; /* the inverse is a normal number */
  const compute_node part = compute_mul(call->graph, size, call_scalar_like(call, size, 1 / most));
  return compute_floor(call->graph, compute_clamp(call->graph, part, 1, exp2(MOST_EXPONENT)));
}

/* The result of a norm does not depend on the range, and neither does its gradient. floor gives the
 * range no gradient, so that training does not search for the largest element again. */
compute_node op_range(model_call *call, compute_node x, compute_axes axes, double p, bool tiny,
                      compute_node *scaled) {
  enum { GOOD_EXPONENT = 60 }; /* of a power: a sum of 2^60 such powers is still finite */
  compute_graph *graph = call->graph;
  const compute_shape shape = compute_node_shape(graph, x);
  *scaled = x;
  if (compute_node_dtype(graph, x) != COMPUTE_F32 || p <= 1 || !has_elements(&shape))
    return (compute_node){0};
  const double most = exp2(GOOD_EXPONENT / p);
  const compute_node peak = compute_max(graph, compute_abs(graph, x), axes, true);
  compute_node range = excess(call, peak, most);
  if (tiny) range = compute_div(graph, range, excess(call, compute_reciprocal(graph, peak), most));
  /* Fusion repeats a product in each loop that reads it, but would store a quotient. */
  *scaled = compute_mul(graph, x, compute_reciprocal(graph, range));
  return range;
}

static compute_node range_like(model_call *call, compute_node y, compute_node range) {
  const compute_shape shape = compute_node_shape(call->graph, y);
  return shape.rank == compute_node_shape(call->graph, range).rank
             ? range
             : compute_reshape(call->graph, range, shape);
}

compute_node op_times_range(model_call *call, compute_node y, compute_node range) {
  return compute_node_is_valid(range) ? compute_mul(call->graph, y, range_like(call, y, range)) : y;
}

compute_node op_over_range(model_call *call, compute_node y, compute_node range) {
  return compute_node_is_valid(range) ? compute_div(call->graph, y, range_like(call, y, range)) : y;
}

compute_node op_norm(model_call *call, compute_node x, compute_axes axes, double p, bool keep) {
  compute_node scaled;
  const compute_node range = op_range(call, x, axes, p, true, &scaled);
  const compute_node sum =
      compute_sum(call->graph, op_power_of_magnitude(call, scaled, p), axes, keep);
  return op_times_range(call, op_root(call, sum, p), range);
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
