/* SPDX-License-Identifier: MIT */
#include "graph/builders/parts.h"

#include <math.h>

#include "core/base/alloc.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"

compute_node part_cast(compute_graph *graph, compute_node x, compute_dtype dtype) {
  return compute_node_dtype(graph, x) == dtype ? x : compute_cast(graph, x, dtype);
}

compute_dtype part_wide_dtype(compute_dtype dtype) {
  return dtype_is_half(dtype) ? COMPUTE_F32 : dtype;
}

compute_node part_wide(compute_graph *graph, compute_node x) {
  return part_cast(graph, x, part_wide_dtype(compute_node_dtype(graph, x)));
}

/* ---- Constants ------------------------------------------------------------------------------- */

compute_node part_number(compute_graph *graph, compute_node x, double value) {
  return compute_scalar(graph, compute_node_dtype(graph, x), value);
}

compute_node part_integer(compute_graph *graph, int64_t value) {
  return compute_scalar_i64(graph, COMPUTE_I64, value);
}

compute_node part_numbers(compute_graph *graph, compute_dtype dtype, compute_shape shape,
                          const double *values) {
  if (dtype == COMPUTE_F64) return compute_constant(graph, dtype, shape, values);
  const size_t count = (size_t)part_count(shape, 0, shape.rank);
  float *narrow = base_allocate(count, sizeof *narrow);
  if (!narrow) return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, "constant", "out of memory");
  for (size_t i = 0; i < count; i++) narrow[i] = (float)values[i];
  const compute_node result = compute_constant(graph, COMPUTE_F32, shape, narrow);
  base_release(narrow);
  return part_cast(graph, result, dtype);
}

compute_node part_integers(compute_graph *graph, compute_shape shape, const int64_t *values) {
  return compute_constant(graph, COMPUTE_I64, shape, values);
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

int64_t part_count(compute_shape shape, int32_t first, int32_t end) {
  int64_t count = 1;
  for (int32_t i = first; i < end; i++) count *= shape_at(shape, i);
  return count;
}

compute_axes part_axes(int32_t first, int32_t end) {
  compute_axes axes = {.count = 0};
  for (int32_t i = first; i < end; i++) axes.axis[axes.count++] = i;
  return axes.count ? axes : COMPUTE_NO_AXES;
}

/* Repeats along axis `end` − 1 and up to two axes before it, as one view and one copy. The gradient
 * is one sum of neighbours. Returns the number of axes that are left. */
static int32_t repeat_axes(compute_graph *graph, compute_node *x, const int64_t *times, int32_t end,
                           bool blocks) {
  enum { AXES = 3 }; /* 2 · AXES + 1 axes are possible */
  compute_shape shape = compute_node_shape(graph, *x), apart = {.rank = 2 * AXES + 1}, whole;
  int64_t inner = part_count(shape, end, shape.rank);
  int32_t at = 2 * AXES, axis = end;
  for (int32_t i = 0; i <= 2 * AXES; i++) shape_set(&apart, i, 1);
  whole = apart;
  for (int32_t count = 0; axis > 0 && (count < AXES || times[axis - 1] == 1);) {
    const int64_t size = shape_at(shape, --axis);
    if (blocks || times[axis] == 1) inner *= size;
    if (times[axis] == 1) continue;
    shape_set(&apart, at, inner);
    shape_set(&whole, at, inner);
    shape_set(&whole, at - 1, times[axis]);
    at -= 2;
    inner = blocks ? 1 : size;
    count++;
    shape_set(&shape, axis, size * times[axis]);
  }
  shape_set(&apart, at, inner * part_count(shape, 0, axis));
  shape_set(&whole, at, shape_at(apart, at));
  *x = compute_broadcast(graph, compute_reshape(graph, *x, apart), whole);
  *x = compute_reshape(graph, *x, shape);
  return axis;
}

compute_node part_repeat(compute_graph *graph, compute_node x, const int64_t *times, bool blocks) {
  int32_t end = compute_node_shape(graph, x).rank;
  while (!graph->status) {
    while (end > 0 && times[end - 1] == 1) end--;
    if (end == 0) break;
    end = repeat_axes(graph, &x, times, end, blocks);
  }
  return x;
}

compute_node part_move_axis(compute_graph *graph, compute_node x, int32_t from, int32_t to) {
  const int32_t rank = compute_node_shape(graph, x).rank;
  if (from == to) return x;
  compute_axes order = {.count = rank};
  for (int32_t i = 0, next = 0; i < rank; i++) {
    if (next == from) next++;
    order.axis[i] = i == to ? from : next++;
  }
  return compute_transpose(graph, x, order);
}

/* ---- Norms ----------------------------------------------------------------------------------- */

compute_node part_power_of_magnitude(compute_graph *graph, compute_node x, double p) {
  if (p == 2) return compute_square(graph, x);
  x = compute_abs(graph, x);
  return p == 1 ? x : compute_pow(graph, x, part_number(graph, x, p));
}

compute_node part_root(compute_graph *graph, compute_node x, double p) {
  if (p == 1) return x;
  if (p == 2) return compute_sqrt(graph, x);
  return compute_pow(graph, x, part_number(graph, x, 1 / p));
}

/* 1 up to 2^GOOD_EXPONENT/p, then about `size` divided by that. Like floor, it has no gradient. */
static compute_node excess(compute_graph *graph, compute_node size, double most) {
  enum { MOST_EXPONENT = 120 }; /* the inverse is a normal number */
  const compute_node part = compute_mul(graph, size, part_number(graph, size, 1 / most));
  return compute_floor(graph, compute_clamp(graph, part, 1, exp2(MOST_EXPONENT)));
}

/* The result of a norm does not depend on the range, and neither does its gradient. floor gives the
 * range no gradient, so that training does not search for the largest element again. */
compute_node part_range(compute_graph *graph, compute_node x, compute_axes axes, double p,
                        bool tiny, compute_node *scaled) {
  enum { GOOD_EXPONENT = 60 }; /* of a power: a sum of 2^60 such powers is still finite */
  const compute_shape shape = compute_node_shape(graph, x);
  *scaled = x;
  if (compute_node_dtype(graph, x) != COMPUTE_F32 || p <= 1 ||
      part_count(shape, 0, shape.rank) == 0)
    return BUILD_NONE;
  const double most = exp2(GOOD_EXPONENT / p);
  const compute_node peak = compute_max(graph, compute_abs(graph, x), axes, true);
  compute_node range = excess(graph, peak, most);
  if (tiny) range = compute_div(graph, range, excess(graph, compute_reciprocal(graph, peak), most));
  /* Fusion repeats a product in each loop that reads it, but would store a quotient. */
  *scaled = compute_mul(graph, x, compute_reciprocal(graph, range));
  return range;
}

static compute_node range_like(compute_graph *graph, compute_node y, compute_node range) {
  const compute_shape shape = compute_node_shape(graph, y);
  return shape.rank == compute_node_shape(graph, range).rank ? range
                                                             : compute_reshape(graph, range, shape);
}

compute_node part_times_range(compute_graph *graph, compute_node y, compute_node range) {
  return compute_node_is_valid(range) ? compute_mul(graph, y, range_like(graph, y, range)) : y;
}

compute_node part_over_range(compute_graph *graph, compute_node y, compute_node range) {
  return compute_node_is_valid(range) ? compute_div(graph, y, range_like(graph, y, range)) : y;
}

compute_node part_norm(compute_graph *graph, compute_node x, compute_axes axes, double p,
                       bool keep) {
  compute_node scaled;
  const compute_node range = part_range(graph, x, axes, p, true, &scaled);
  const compute_node sum =
      compute_sum(graph, part_power_of_magnitude(graph, scaled, p), axes, keep);
  return part_times_range(graph, part_root(graph, sum, p), range);
}

/* The mean of the squares of x / *range, plus epsilon in that scale. */
compute_node part_inverse_root(compute_graph *graph, compute_node x, compute_axes axes,
                               double epsilon) {
  compute_node scaled;
  const compute_node range = part_range(graph, x, axes, 2, epsilon == 0, &scaled);
  const compute_node mean = compute_mean(graph, compute_square(graph, scaled), axes, true);
  compute_node added = part_number(graph, mean, epsilon);
  if (compute_node_is_valid(range))
    added = part_over_range(graph, compute_div(graph, added, range), range);
  const compute_node root = compute_rsqrt(graph, compute_add(graph, mean, added));
  return part_over_range(graph, root, range);
}

compute_node part_normalize_groups(compute_graph *graph, compute_node x, int64_t groups,
                                   double epsilon) {
  const compute_shape shape = compute_node_shape(graph, x);
  const int64_t channels = groups > 0 ? shape_at(shape, 1) / groups : 0;
  const int64_t size = channels * part_count(shape, 2, shape.rank);
  const compute_node rows =
      compute_reshape(graph, x, COMPUTE_SHAPE(shape_at(shape, 0) * groups, size));
  return compute_reshape(graph, compute_normalize(graph, rows, epsilon), shape);
}

/* Subtracts the largest element first, unless it is infinite, so that exp cannot overflow. */
compute_node part_log_sum_exp(compute_graph *graph, compute_node x, compute_axes axes, bool keep) {
  compute_node most = compute_max(graph, x, axes, true);
  most = compute_select(graph, compute_is_finite(graph, most), most, part_number(graph, x, 0));
  const compute_node rest = compute_exp(graph, compute_sub(graph, x, most));
  const compute_node sum = compute_log(graph, compute_sum(graph, rest, axes, keep));
  if (!keep) most = compute_reshape(graph, most, compute_node_shape(graph, sum));
  return compute_add(graph, sum, most);
}
