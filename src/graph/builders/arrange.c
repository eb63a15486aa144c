/* SPDX-License-Identifier: MIT */
/* Joining, splitting, repeating and reordering along axes, and triangles, composed of views, joins
 * and gathers. */
#include <inttypes.h>

#include "compute/graph_array.h"
#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "graph/builders/parts.h"

/* ---- Stack and split ------------------------------------------------------------------------- */

compute_node compute_stack(compute_graph *graph, const compute_node *parts, size_t count,
                           int32_t axis) {
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "stack";
  uint32_t input;
  char text[2][BUILD_TEXT];
  if (!build_start(graph, operation)) return BUILD_NONE;
  if (!parts) return graph_fail(graph, COMPUTE_ERROR_NULL_POINTER, operation, "parts is NULL");
  if (count < 1)
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "needs at least one part");
  if (!build_operands(graph, operation, parts, 1, &input)) return BUILD_NONE;
  const compute_shape shape = build_at(graph, input)->shape;
  compute_shape tall = {.rank = shape.rank + 1};
  compute_shape_text(shape, text[0], sizeof text[0]);
  if (shape.rank == COMPUTE_MAX_RANK)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "%s has %d axes, which leaves none for the new one", text[0], shape.rank);
  const int32_t at = shape_axis(tall.rank, axis);
  if (at < 0)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "axis %d is outside the %d axes of the result", axis, tall.rank);
  for (int32_t i = 0; i < tall.rank; i++)
    shape_set(&tall, i, i == at ? 1 : shape_at(shape, i < at ? i : i - 1));
  compute_node *rows = base_allocate(count, sizeof *rows);
  if (!rows) return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
  for (size_t i = 0; i < count && !graph->status; i++) {
    const compute_shape other = compute_node_shape(graph, parts[i]);
    if (build_operands(graph, operation, &parts[i], 1, &input) &&
        !compute_shape_equal(other, shape))
      graph_fail(graph, COMPUTE_ERROR_SHAPE, operation, "part %zu is %s, but part 0 is %s", i,
                 compute_shape_text(other, text[1], sizeof text[1]), text[0]);
    rows[i] = compute_reshape(graph, parts[i], tall);
  }
  const compute_node result = compute_concat(graph, rows, count, at);
  base_release(rows);
  return result;
}

compute_status compute_split(compute_graph *graph, compute_node x, int32_t axis,
                             const int64_t *sizes, size_t count, compute_node *parts) {
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "split";
  uint32_t input;
  int32_t at;
  int64_t sum = 0;
  for (size_t i = 0; parts && i < count; i++) parts[i] = BUILD_NONE;
  if (!build_operands(graph, operation, &x, 1, &input)) return compute_graph_status(graph);
  const compute_shape shape = build_at(graph, input)->shape;
  if (count && (!sizes || !parts))
    graph_fail(graph, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL",
               sizes ? "parts" : "sizes");
  if (!build_axis(graph, operation, shape, axis, &at)) return graph->status;
  for (size_t i = 0; i < count && !graph->status; i++)
    if (sizes[i] < 0 || !checked_add(sum, sizes[i], &sum))
      graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                 "part %zu has %" PRId64 " elements", i, sizes[i]);
  if (!graph->status && sum != shape_at(shape, at))
    graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
               "the parts have %" PRId64 " elements, but axis %d has %" PRId64, sum, (int)at,
               shape_at(shape, at));
  sum = 0;
  for (size_t i = 0; i < count && !graph->status; i++) {
    parts[i] = compute_slice(graph, x, at, sum, sizes[i], 1);
    sum += sizes[i];
  }
  for (size_t i = 0; graph->status && parts && i < count; i++) parts[i] = BUILD_NONE;
  return graph->status;
}

/* ---- Tile ------------------------------------------------------------------------------------ */

compute_node compute_tile(compute_graph *graph, compute_node x, compute_shape times) {
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "tile";
  uint32_t input;
  char text[BUILD_TEXT];
  if (!build_operands(graph, operation, &x, 1, &input) || !build_shape(graph, operation, times))
    return BUILD_NONE;
  compute_shape old = build_at(graph, input)->shape, aligned = {.rank = old.rank}, all, wide;
  if (times.rank > old.rank) aligned.rank = times.rank;
  compute_shape given = {.rank = aligned.rank};
  for (int32_t i = 0; i < aligned.rank; i++) {
    const int32_t from = i - (aligned.rank - old.rank), by = i - (aligned.rank - times.rank);
    shape_set(&aligned, i, from < 0 ? 1 : shape_at(old, from));
    shape_set(&given, i, by < 0 ? 1 : shape_at(times, by));
  }
  all = wide = aligned;
  for (int32_t i = 0; i < aligned.rank; i++) {
    int64_t size;
    if (!checked_multiply(shape_at(aligned, i), shape_at(given, i), &size))
      return graph_fail(graph, COMPUTE_ERROR_OVERFLOW, operation, "axis %d of %s becomes too large",
                        (int)i, compute_shape_text(old, text, sizeof text));
    shape_set(&all, i, size);
    if (shape_at(aligned, i) == 1) shape_set(&wide, i, size);
  }
  if (!build_size(graph, operation, all)) return BUILD_NONE;
  if (compute_shape_equal(all, old)) return build_same(graph, x);
  if (shape_count(all) == 0) return compute_full(graph, build_at(graph, input)->dtype, all, 0);
  if (aligned.rank > old.rank) x = compute_reshape(graph, x, aligned);
  if (!compute_shape_equal(wide, aligned)) x = compute_broadcast(graph, x, wide);
  int64_t repeats[COMPUTE_MAX_RANK];
  for (int32_t i = 0; i < all.rank; i++)
    repeats[i] = shape_at(aligned, i) == 1 ? 1 : shape_at(given, i);
  return part_repeat(graph, x, repeats, true);
}

/* ---- Orders of elements ---------------------------------------------------------------------- */

/* Gathers of nodes: the graph takes no memory for the positions. */
compute_node compute_flip(compute_graph *graph, compute_node x, compute_axes axes) {
  BUILD_ALL_OR_NOTHING(graph);
  uint32_t input, mask;
  if (!build_operands(graph, "flip", &x, 1, &input)) return BUILD_NONE;
  const compute_shape shape = build_at(graph, input)->shape;
  if (!build_axes(graph, "flip", shape, axes, &mask)) return BUILD_NONE;
  compute_node y = x;
  for (int32_t i = 0; i < shape.rank && shape_count(shape) > 0; i++) {
    if (!(mask >> i & 1u) || shape_at(shape, i) == 1) continue;
    const int64_t size = shape_at(shape, i);
    const compute_node at = compute_index(graph, COMPUTE_I64, COMPUTE_SHAPE(size), 0);
    y = compute_gather(graph, y, compute_sub(graph, part_integer(graph, size - 1), at), i);
  }
  return y.id == x.id ? build_same(graph, x) : y;
}

compute_node compute_roll(compute_graph *graph, compute_node x, int64_t shift, int32_t axis) {
  BUILD_ALL_OR_NOTHING(graph);
  uint32_t input;
  int32_t at;
  if (!build_operands(graph, "roll", &x, 1, &input)) return BUILD_NONE;
  const compute_shape shape = build_at(graph, input)->shape;
  if (!build_axis(graph, "roll", shape, axis, &at)) return BUILD_NONE;
  const int64_t size = shape_at(shape, at);
  int64_t first = size > 0 ? shift % size : 0;
  if (first < 0) first += size;
  if (first == 0) return build_same(graph, x);
  const compute_node parts[2] = {compute_slice(graph, x, at, size - first, first, 1),
                                 compute_slice(graph, x, at, 0, size - first, 1)};
  return compute_concat(graph, parts, 2, at);
}

/* ---- Triangles ------------------------------------------------------------------------------- */

/* k beyond the matrix is the same as at its edge, so that the sum is small. */
void part_diagonal(compute_graph *graph, int64_t rows, int64_t columns, compute_node k,
                   compute_node *column, compute_node *diagonal) {
  const compute_dtype dtype =
      rows < INT32_MAX / 4 && columns < INT32_MAX / 4 ? COMPUTE_I32 : COMPUTE_I64;
  k = compute_minimum(graph, compute_maximum(graph, k, part_integer(graph, -rows)),
                      part_integer(graph, columns));
  *column = compute_index(graph, dtype, COMPUTE_SHAPE(1, columns), 1);
  *diagonal = compute_add(graph, compute_index(graph, COMPUTE_I64, COMPUTE_SHAPE(rows, 1), 0), k);
  *diagonal = part_cast(graph, *diagonal, dtype);
}

compute_node part_triangle(compute_graph *graph, compute_node x, compute_node k, bool upper) {
  const compute_shape shape = compute_node_shape(graph, x);
  compute_node column, diagonal;
  part_diagonal(graph, shape_at(shape, shape.rank - 2), shape_at(shape, shape.rank - 1), k, &column,
                &diagonal);
  const compute_node kept = upper ? compute_greater_equal(graph, column, diagonal)
                                  : compute_less_equal(graph, column, diagonal);
  return compute_select(graph, kept, x, part_number(graph, x, 0));
}

static compute_node triangle(compute_graph *graph, build_composition of, compute_node x,
                             int64_t diagonal) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  uint32_t input;
  char text[BUILD_TEXT];
  if (!build_composed(graph, of, &x, 1, &input)) return BUILD_NONE;
  const compute_shape shape = build_at(graph, input)->shape;
  if (shape.rank < 2)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, build_composition_name(of),
                      "x %s has fewer than two axes", compute_shape_text(shape, text, sizeof text));
  return part_triangle(graph, x, part_integer(graph, diagonal), of == COMPOSITION_triu);
}

compute_node compute_tril(compute_graph *graph, compute_node x, int64_t diagonal) {
  return triangle(graph, COMPOSITION_tril, x, diagonal);
}

compute_node compute_triu(compute_graph *graph, compute_node x, int64_t diagonal) {
  return triangle(graph, COMPOSITION_triu, x, diagonal);
}
