/* SPDX-License-Identifier: MIT */
/* Statistics along axes, and searches in sorted numbers, composed of reductions and gathers. f16
 * and bf16 are computed in f32. */
#include <inttypes.h>
#include <math.h>

#include "compute/graph_array.h"
#include "core/base/alloc.h"
#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "graph/builders/parts.h"

/* ---- Reductions ------------------------------------------------------------------------------ */

typedef struct fold {
  compute_graph *graph;
  const char *operation;
  compute_dtype dtype; /* of the operand */
  compute_node x;      /* in the dtype of the computation */
  compute_shape shape, result;
  compute_axes axes;
  int64_t count; /* elements of each sum */
} fold;

/* Reads and checks the operand and the axes. */
static bool begin_fold(fold *f, compute_graph *graph, build_composition of, compute_node x,
                       compute_axes axes, bool keep) {
  uint32_t input, mask;
  *f = (fold){.graph = graph, .operation = build_composition_name(of), .axes = axes, .count = 1};
  if (!build_composed(graph, of, &x, 1, &input)) return false;
  f->dtype = build_at(graph, input)->dtype;
  f->shape = build_at(graph, input)->shape;
  if (!build_axes(graph, f->operation, f->shape, axes, &mask)) return false;
  for (int32_t i = 0; i < f->shape.rank; i++) {
    const bool along = mask >> i & 1u;
    if (along) f->count *= shape_at(f->shape, i);
    if (keep || !along) {
      const int32_t at = f->result.rank++;
      shape_set(&f->result, at, along ? 1 : shape_at(f->shape, i));
    }
  }
  f->x = part_wide(graph, x);
  return !graph->status;
}

/* The result where nothing is summed, or nothing remains. */
static compute_node full(const fold *f, double value) {
  return compute_full(f->graph, f->dtype, f->result, value);
}

compute_node compute_logsumexp(compute_graph *graph, compute_node x, compute_axes axes,
                               bool keep_axes) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  fold f;
  if (!begin_fold(&f, graph, COMPOSITION_logsumexp, x, axes, keep_axes)) return BUILD_NONE;
  if (f.count == 0 || shape_count(f.result) == 0) return full(&f, -(double)INFINITY);
  return part_cast(graph, part_log_sum_exp(graph, f.x, axes, keep_axes), f.dtype);
}

/* Large numbers are scaled before they are squared, as in normalize. */
static compute_node variance(const fold *f, double correction, bool keep, bool root) {
  compute_graph *graph = f->graph;
  compute_node scaled;
  const double divisor = (double)f->count - correction;
  const compute_node mean = compute_mean(graph, f->x, f->axes, true);
  const compute_node away = compute_sub(graph, f->x, mean);
  const compute_node range = part_range(graph, away, f->axes, 2, root, &scaled);
  compute_node sum = compute_sum(graph, compute_square(graph, scaled), f->axes, keep);
  sum = compute_div(graph, sum, part_number(graph, sum, divisor > 0 ? divisor : 0));
  if (root) return part_times_range(graph, compute_sqrt(graph, sum), range);
  return part_times_range(graph, part_times_range(graph, sum, range), range);
}

static compute_node spread(compute_graph *graph, build_composition of, compute_node x,
                           compute_axes axes, double correction, bool keep) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  fold f;
  if (!begin_fold(&f, graph, of, x, axes, keep) ||
      !build_number(graph, f.operation, "correction", part_wide_dtype(f.dtype), correction))
    return BUILD_NONE;
  if (f.count == 0 || shape_count(f.result) == 0) return full(&f, (double)NAN);
  return part_cast(graph, variance(&f, correction, keep, of == COMPOSITION_std), f.dtype);
}

compute_node compute_var(compute_graph *graph, compute_node x, compute_axes axes, double correction,
                         bool keep_axes) {
  return spread(graph, COMPOSITION_var, x, axes, correction, keep_axes);
}

compute_node compute_std(compute_graph *graph, compute_node x, compute_axes axes, double correction,
                         bool keep_axes) {
  return spread(graph, COMPOSITION_std, x, axes, correction, keep_axes);
}

compute_node compute_norm(compute_graph *graph, compute_node x, double p, compute_axes axes,
                          bool keep_axes) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  fold f;
  if (!begin_fold(&f, graph, COMPOSITION_norm, x, axes, keep_axes)) return BUILD_NONE;
  if (isnan(p) || p == 0)
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, f.operation,
                      "p is %g; it must be a number other than 0", p);
  const compute_dtype work = part_wide_dtype(f.dtype);
  if (!isinf(p) && (!build_number(graph, f.operation, "p", work, p) ||
                    !build_number(graph, f.operation, "1 / p", work, 1 / p)))
    return BUILD_NONE;
  if (f.count == 0 && p < 0)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, f.operation, "a norm with p = %g of no elements",
                      p);
  if (f.count == 0 || shape_count(f.result) == 0) return full(&f, 0);
  compute_node y;
  if (isinf(p)) {
    const compute_node size = compute_abs(graph, f.x);
    y = p > 0 ? compute_max(graph, size, axes, keep_axes)
              : compute_min(graph, size, axes, keep_axes);
  } else {
    y = part_norm(graph, f.x, axes, p, keep_axes);
  }
  return part_cast(graph, y, f.dtype);
}

/* ---- Running products ------------------------------------------------------------------------ */

/* x moved by `distance` elements along an axis, with ones in place of those missing. */
static compute_node moved(compute_graph *graph, compute_node x, int32_t axis, int64_t distance,
                          bool reverse) {
  const int64_t kept = shape_at(compute_node_shape(graph, x), axis) - distance;
  const compute_node rest = compute_slice(graph, x, axis, reverse ? distance : 0, kept, 1);
  return compute_pad(graph, rest, axis, reverse ? 0 : distance, reverse ? distance : 0,
                     COMPUTE_PAD_CONSTANT, 1);
}

/* The products of 1, 2, 4, … neighbours, each from the previous ones. */
compute_node compute_cumulative_product(compute_graph *graph, compute_node x, int32_t axis,
                                        bool exclusive, bool reverse) {
  BUILD_ALL_OR_NOTHING(graph);
  uint32_t input;
  if (!build_composed(graph, COMPOSITION_cumulative_product, &x, 1, &input)) return BUILD_NONE;
  const compute_dtype dtype = build_at(graph, input)->dtype;
  const compute_shape shape = build_at(graph, input)->shape;
  if (!build_axis(graph, "cumulative_product", shape, axis, &axis)) return BUILD_NONE;
  const int64_t size = shape_at(shape, axis);
  compute_node y = part_wide(graph, x);
  if (exclusive && size > 0) y = moved(graph, y, axis, 1, reverse);
  for (int64_t distance = 1; distance < size && !graph->status; distance *= 2)
    y = compute_mul(graph, y, moved(graph, y, axis, distance, reverse));
  y = part_cast(graph, y, dtype);
  return y.id == x.id ? build_same(graph, x) : y;
}

/* ---- Searches -------------------------------------------------------------------------------- */

/* True where a comes before b; NaN comes after all numbers. */
static compute_node precedes(compute_graph *graph, compute_node a, compute_node b) {
  const compute_node before = compute_less(graph, a, b);
  if (!dtype_is_float(compute_node_dtype(graph, a))) return before;
  const compute_node number = compute_logical_not(graph, compute_is_nan(graph, a));
  return compute_logical_or(graph, before,
                            compute_logical_and(graph, compute_is_nan(graph, b), number));
}

/* A binary search: one gather for each doubling of the size. The last gathers of a search that has
 * ended read an element that does not count. */
static compute_node search(compute_graph *graph, compute_node sorted, compute_node values,
                           bool right) {
  const int64_t size = shape_at(compute_node_shape(graph, sorted), 0);
  const compute_shape shape = compute_node_shape(graph, values);
  int64_t step = 1;
  compute_node at = compute_full_i64(graph, COMPUTE_I64, shape, 0);
  while (step <= size / 2) step *= 2;
  for (; step > 0 && size > 0; step /= 2) {
    const compute_node next = compute_add(graph, at, part_integer(graph, step));
    const compute_node last = compute_minimum(graph, next, part_integer(graph, size));
    const compute_node read =
        compute_gather(graph, sorted, compute_sub(graph, last, part_integer(graph, 1)), 0);
    compute_node behind = right ? compute_logical_not(graph, precedes(graph, values, read))
                                : precedes(graph, read, values);
    behind = compute_logical_and(graph, behind,
                                 compute_less_equal(graph, next, part_integer(graph, size)));
    at = compute_select(graph, behind, next, at);
  }
  return at;
}

static bool check_vector(compute_graph *graph, const char *operation, const char *name,
                         compute_shape shape) {
  char text[BUILD_TEXT];
  if (shape.rank == 1) return true;
  return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation, "%s %s must be a vector", name,
                      compute_shape_text(shape, text, sizeof text));
}

compute_node compute_searchsorted(compute_graph *graph, compute_node sorted, compute_node values,
                                  bool right) {
  BUILD_ALL_OR_NOTHING(graph);
  uint32_t inputs[2];
  const compute_node operands[2] = {sorted, values};
  if (!build_composed(graph, COMPOSITION_searchsorted, operands, 2, inputs) ||
      !check_vector(graph, "searchsorted", "sorted", build_at(graph, inputs[0])->shape))
    return BUILD_NONE;
  return search(graph, sorted, values, right);
}

/* The edges of `bins` bins of equal width, the last one exact. */
static compute_node edges_of(compute_graph *graph, compute_dtype dtype, int64_t bins, double low,
                             double high) {
  double *edges = base_allocate((size_t)bins + 1, sizeof *edges);
  if (!edges) return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, "histogram", "out of memory");
  const double width = (high - low) / (double)bins;
  for (int64_t i = 0; i < bins; i++) edges[i] = (double)i * width + low;
  edges[bins] = high;
  const compute_node result = part_numbers(graph, dtype, COMPUTE_SHAPE(bins + 1), edges);
  base_release(edges);
  return result;
}

/* An element's bin is the number of edges up to it. Bins 0 and bins + 1 take elements outside, and
 * the last edge belongs to the last bin. */
compute_node compute_histogram(compute_graph *graph, compute_node x, int64_t bins, double low,
                               double high) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "histogram";
  enum { MOST_BINS = 1 << 24 };
  uint32_t input;
  if (!build_composed(graph, COMPOSITION_histogram, &x, 1, &input)) return BUILD_NONE;
  if (bins < 1 || bins > MOST_BINS)
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                      "%" PRId64 " bins; there must be 1 … %d", bins, MOST_BINS);
  const compute_dtype dtype = build_at(graph, input)->dtype;
  const compute_dtype work = dtype_is_float(dtype) ? part_wide_dtype(dtype) : COMPUTE_F64;
  if (!(low < high) || !isfinite(high - low))
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                      "low is %g and high %g; the range must be finite and not empty", low, high);
  if (!build_number(graph, operation, "low", work, low) ||
      !build_number(graph, operation, "high", work, high))
    return BUILD_NONE;
  x = compute_reshape(graph, part_cast(graph, x, work), COMPUTE_SHAPE(-1));
  compute_node at = search(graph, edges_of(graph, work, bins, low, high), x, true);
  const compute_node end = compute_equal(graph, x, compute_scalar(graph, work, high));
  at = compute_select(graph, end, part_integer(graph, bins), at);
  const compute_node counts = compute_bincount(graph, at, BUILD_NONE, bins + 2, 0);
  return compute_slice(graph, counts, 0, 1, bins, 1);
}

/* ---- Interpolation --------------------------------------------------------------------------- */

/* The points on both sides of each x. */
typedef struct neighbours {
  compute_node x0, x1, f0, f1;
} neighbours;

static neighbours find_neighbours(compute_graph *graph, compute_node x, compute_node xp,
                                  compute_node fp) {
  const int64_t size = shape_at(compute_node_shape(graph, xp), 0);
  const compute_node one = part_integer(graph, 1), last = part_integer(graph, size - 1);
  compute_node right = search(graph, xp, x, true);
  right = compute_maximum(graph, compute_minimum(graph, right, last), one);
  const compute_node left = compute_sub(graph, right, one);
  return (neighbours){.x0 = compute_gather(graph, xp, left, 0),
                      .x1 = compute_gather(graph, xp, right, 0),
                      .f0 = compute_gather(graph, fp, left, 0),
                      .f1 = compute_gather(graph, fp, right, 0)};
}

/* The line through both points, from the left one, or from the right one if the left one is not
 * finite. Where no line counts, its operands are 0 and 1, so that its gradient is 0 and not
 * 0 · infinity. */
static compute_node line_through(compute_graph *graph, compute_node x, const neighbours *p,
                                 compute_node finite, compute_node outside) {
  const compute_node width =
      compute_select(graph, outside, part_number(graph, x, 1), compute_sub(graph, p->x1, p->x0));
  const compute_node origin = compute_select(graph, finite, p->x0, p->x1);
  const compute_node away =
      compute_select(graph, outside, part_number(graph, x, 0), compute_sub(graph, x, origin));
  const compute_node slope = compute_div(graph, compute_sub(graph, p->f1, p->f0), width);
  return compute_add(graph, compute_select(graph, finite, p->f0, p->f1),
                     compute_mul(graph, slope, away));
}

/* Outside of the points, and at a point that is not finite, the value of the point. Where the line
 * is not a number, also the value of a point at x, and the value of two equal neighbours. */
static compute_node on_lines(compute_graph *graph, compute_node x, compute_node xp,
                             compute_node fp) {
  const size_t first = graph->count;
  const neighbours p = find_neighbours(graph, x, xp, fp);
  const compute_node finite =
      compute_logical_and(graph, compute_is_finite(graph, p.x0), compute_is_finite(graph, p.f0));
  const compute_node exact = compute_equal(graph, x, p.x0);
  const compute_node before =
      compute_logical_or(graph, compute_less(graph, x, p.x0),
                         compute_logical_and(graph, exact, compute_logical_not(graph, finite)));
  const compute_node after = compute_greater_equal(graph, x, p.x1);
  const compute_node y =
      line_through(graph, x, &p, finite, compute_logical_or(graph, before, after));
  const compute_node number = compute_logical_not(graph, compute_is_nan(graph, x));
  const compute_node level = compute_logical_and(graph, number, compute_equal(graph, p.f0, p.f1));
  const compute_node instead =
      compute_logical_and(graph, compute_is_nan(graph, y), compute_logical_or(graph, exact, level));
  const compute_node result = compute_select(graph, compute_logical_or(graph, before, instead),
                                             p.f0, compute_select(graph, after, p.f1, y));
  graph_mark_pieces(graph, first);
  return result;
}

compute_node compute_interp(compute_graph *graph, compute_node x, compute_node xp,
                            compute_node fp) {
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "interp";
  uint32_t inputs[3];
  char text[2][BUILD_TEXT];
  if (!build_composed(graph, COMPOSITION_interp, (const compute_node[]){x, xp, fp}, 3, inputs))
    return BUILD_NONE;
  const compute_dtype dtype = build_at(graph, inputs[0])->dtype;
  const compute_shape points = build_at(graph, inputs[1])->shape;
  const compute_shape values = build_at(graph, inputs[2])->shape;
  if (!check_vector(graph, operation, "xp", points)) return BUILD_NONE;
  if (!compute_shape_equal(points, values) || shape_at(points, 0) < 1)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "xp %s and fp %s must have the same shape, and at least one point",
                      compute_shape_text(points, text[0], sizeof text[0]),
                      compute_shape_text(values, text[1], sizeof text[1]));
  x = part_wide(graph, x);
  xp = part_wide(graph, xp);
  fp = part_wide(graph, fp);
  if (shape_at(points, 0) == 1) /* also for NaN, as in NumPy */
    return part_cast(graph,
                     compute_broadcast(graph, compute_reshape(graph, fp, COMPUTE_SCALAR),
                                       compute_node_shape(graph, x)),
                     dtype);
  return part_cast(graph, on_lines(graph, x, xp, fp), dtype);
}
