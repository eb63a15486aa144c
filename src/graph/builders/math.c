/* SPDX-License-Identifier: MIT */
/* Elementwise operations composed of others. f16 and bf16 are computed in f32, and rounded once.
 * Selects choose operands before a division, so that gradients are right at equal magnitudes. */
#include <math.h>

#include "compute/graph_array.h"
#include "core/base/float_environment.h"
#include "graph/builders/parts.h"

/* Begins a composition: its checked operands in the dtype of the computation. */
static bool begin(compute_graph *graph, build_composition of, compute_node *x, size_t count,
                  compute_dtype *dtype) {
  uint32_t inputs[2];
  if (!build_composed(graph, of, x, count, inputs)) return false;
  *dtype = build_at(graph, inputs[0])->dtype;
  for (size_t i = 0; i < count; i++) x[i] = part_wide(graph, x[i]);
  return !graph->status;
}

static compute_node zero_like(compute_graph *graph, compute_node x) {
  return part_number(graph, x, 0);
}

/* ---- Logarithms ------------------------------------------------------------------------------ */

/* n + log(x / base^n) / log(base) with the nearest whole n: exact for powers of the base. n is a
 * constant for gradients, because round has none. */
static compute_node log_to_base(compute_graph *graph, build_composition of, compute_node x,
                                double base) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  compute_dtype dtype;
  if (!begin(graph, of, &x, 1, &dtype)) return BUILD_NONE;
  const bool wide = compute_node_dtype(graph, x) == COMPUTE_F64;
  const double most = floor((wide ? 1022 : 126) / log2(base)), scale = 1 / log(base);
  const compute_node rough =
      compute_mul(graph, compute_log(graph, x), part_number(graph, x, scale));
  const compute_node whole = compute_round(graph, compute_clamp(graph, rough, -most, most));
  const compute_node power = compute_pow(graph, part_number(graph, x, base), whole);
  const compute_node rest = compute_log(graph, compute_div(graph, x, power));
  const compute_node y =
      compute_add(graph, whole, compute_mul(graph, rest, part_number(graph, x, scale)));
  return part_cast(graph, y, dtype);
}

compute_node compute_log2(compute_graph *graph, compute_node x) {
  return log_to_base(graph, COMPOSITION_log2, x, 2);
}

compute_node compute_log10(compute_graph *graph, compute_node x) {
  return log_to_base(graph, COMPOSITION_log10, x, 10);
}

/* Begins with the larger operand, so that exp cannot overflow. Equal infinities have no
 * difference. */
compute_node compute_logaddexp(compute_graph *graph, compute_node a, compute_node b) {
  BUILD_ALL_OR_NOTHING(graph);
  compute_dtype dtype;
  compute_node x[2] = {a, b};
  if (!begin(graph, COMPOSITION_logaddexp, x, 2, &dtype)) return BUILD_NONE;
  const compute_node first = compute_greater(graph, x[0], x[1]);
  const compute_node more = compute_select(graph, first, x[0], x[1]);
  const compute_node less = compute_select(graph, first, x[1], x[0]);
  const compute_node endless =
      compute_logical_and(graph, compute_equal(graph, more, less),
                          compute_logical_not(graph, compute_is_finite(graph, more)));
  const compute_node apart =
      compute_select(graph, endless, zero_like(graph, more), compute_sub(graph, less, more));
  return part_cast(graph, compute_add(graph, more, compute_softplus(graph, apart)), dtype);
}

/* ---- Signs ----------------------------------------------------------------------------------- */

/* The reciprocal of -0 is negative. */
static compute_node is_negative(compute_graph *graph, compute_node x) {
  const compute_node zero = zero_like(graph, x);
  const compute_node below = compute_less(graph, compute_reciprocal(graph, x), zero);
  return compute_logical_or(graph, compute_less(graph, x, zero),
                            compute_logical_and(graph, compute_equal(graph, x, zero), below));
}

compute_node compute_signbit(compute_graph *graph, compute_node x) {
  BUILD_ALL_OR_NOTHING(graph);
  uint32_t input;
  if (!build_composed(graph, COMPOSITION_signbit, &x, 1, &input)) return BUILD_NONE;
  return is_negative(graph, x);
}

static compute_node with_sign(compute_graph *graph, compute_node magnitude, compute_node of) {
  return compute_select(graph, is_negative(graph, of), compute_neg(graph, magnitude), magnitude);
}

compute_node compute_copysign(compute_graph *graph, compute_node a, compute_node b) {
  BUILD_ALL_OR_NOTHING(graph);
  uint32_t inputs[2];
  if (!build_composed(graph, COMPOSITION_copysign, (const compute_node[]){a, b}, 2, inputs))
    return BUILD_NONE;
  return with_sign(graph, compute_abs(graph, a), b);
}

/* ---- Angles and lengths ---------------------------------------------------------------------- */

static compute_node is_infinite(compute_graph *graph, compute_node x) {
  return compute_equal(graph, compute_abs(graph, x), part_number(graph, x, (double)INFINITY));
}

/* The quotient of the smaller by the larger operand. Two infinities count as 1, and the divisor 0
 * as 1, with their signs. */
static compute_node slope(compute_graph *graph, compute_node y, compute_node x,
                          compute_node steep) {
  const compute_node endless =
      compute_logical_and(graph, is_infinite(graph, y), is_infinite(graph, x));
  const compute_node one = part_number(graph, x, 1);
  y = compute_select(graph, endless, with_sign(graph, one, y), y);
  x = compute_select(graph, endless, with_sign(graph, one, x), x);
  const compute_node below = compute_select(graph, steep, y, x);
  const compute_node none = compute_equal(graph, below, zero_like(graph, x));
  return compute_div(graph, compute_select(graph, steep, x, y),
                     compute_select(graph, none, one, below));
}

/* atan(b / a) from the side of the nearer axis, so that the quotient is at most 1. */
compute_node compute_atan2(compute_graph *graph, compute_node a, compute_node b) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  static const double pi = 3.14159265358979323846;
  compute_dtype dtype;
  compute_node x[2] = {a, b};
  if (!begin(graph, COMPOSITION_atan2, x, 2, &dtype)) return BUILD_NONE;
  const compute_node steep =
      compute_greater(graph, compute_abs(graph, x[0]), compute_abs(graph, x[1]));
  const compute_node small = compute_atan(graph, slope(graph, x[0], x[1], steep));
  const compute_node quarter = with_sign(graph, part_number(graph, small, pi / 2), x[0]);
  const compute_node half = with_sign(graph, part_number(graph, small, pi), x[0]);
  const compute_node flat =
      compute_select(graph, is_negative(graph, x[1]), compute_add(graph, half, small), small);
  return part_cast(graph, compute_select(graph, steep, compute_sub(graph, quarter, small), flat),
                   dtype);
}

/* The larger magnitude is taken out of the root, unless it is 0 or infinite. */
compute_node compute_hypot(compute_graph *graph, compute_node a, compute_node b) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  compute_dtype dtype;
  compute_node x[2] = {a, b};
  if (!begin(graph, COMPOSITION_hypot, x, 2, &dtype)) return BUILD_NONE;
  const compute_node one = part_number(graph, x[0], 1), zero = zero_like(graph, x[0]);
  const compute_node endless =
      compute_logical_or(graph, is_infinite(graph, x[0]), is_infinite(graph, x[1]));
  const compute_node most =
      compute_maximum(graph, compute_abs(graph, x[0]), compute_abs(graph, x[1]));
  const compute_node plain = compute_logical_or(graph, endless, compute_equal(graph, most, zero));
  const compute_node scale = compute_select(graph, plain, one, most);
  const compute_node sum =
      compute_add(graph, compute_square(graph, compute_div(graph, x[0], scale)),
                  compute_square(graph, compute_div(graph, x[1], scale)));
  const compute_node y = compute_mul(graph, compute_sqrt(graph, sum), scale);
  const compute_node infinity = part_number(graph, y, (double)INFINITY);
  return part_cast(graph, compute_select(graph, endless, infinity, y), dtype);
}
