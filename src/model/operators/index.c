/* SPDX-License-Identifier: MIT */
/* Gather and scatter operators: they read and write elements at positions from another tensor.
 *
 * A tuple of indices becomes one index into flattened rows. */
#include <inttypes.h>
#include <string.h>

#include "core/type/shape.h"
#include "model/operators/index.h"
#include "model/operators/numbers.h"
#include "model/operators/op.h"
#include "model/operators/operators.h"

static compute_status output_like(model_call *call, compute_node node) {
  return call_output_as(call, 0, call_type(call, 0), node);
}

static compute_node indices_input(model_call *call, size_t i) {
  return op_cast(call, call_input(call, i), COMPUTE_I64);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static compute_status gather(model_call *call) {
  int32_t axis;
  const compute_status status =
      call_axis(call, call_attribute_i(call, "axis", 0), call_shape(call, 0).rank, &axis);
  if (status) return status;
  return output_like(call,
                     compute_gather(call->graph, call_input(call, 0), call_input(call, 1), axis));
}

static compute_status gather_elements(model_call *call) {
  int32_t axis;
  const compute_status status =
      call_axis(call, call_attribute_i(call, "axis", 0), call_shape(call, 0).rank, &axis);
  if (status) return status;
  return output_like(
      call, compute_gather_elements(call->graph, call_input(call, 0), call_input(call, 1), axis));
}

/* Gathers columns of the last axis. A vector counts as a matrix with one row. Texts in an
 * initializer are labels: the result has their positions (model/labels.c). */
static compute_status array_feature_extractor(model_call *call) {
  compute_graph *graph = call->graph;
  if (call_is_text(call, 0) && call->inputs[0]->host && call_is_initializer(call, 0) &&
      call_shape(call, 0).rank <= 1)
    return call_output_as(call, 0, ONNX_LABEL,
                          compute_reshape(graph, indices_input(call, 1), COMPUTE_SHAPE(1, -1)));
  compute_node x = call_input(call, 0);
  const compute_shape shape = call_shape(call, 0);
  if (shape.rank < 2)
    x = compute_reshape(graph, x, COMPUTE_SHAPE(1, shape.rank ? shape_at(shape, 0) : 1));
  const compute_node at = compute_reshape(graph, indices_input(call, 1), COMPUTE_SHAPE(-1));
  return output_like(call, compute_gather(graph, x, at, -1));
}

/* Makes negative indices of an axis with `size` elements count from its start. *outside marks the
 * indices out of range. */
static compute_node count_from_start(model_call *call, compute_node at, int64_t size,
                                     compute_node *outside) {
  compute_graph *graph = call->graph;
  const compute_node zero = number_i64(call, 0), end = number_i64(call, size);
  at = compute_select(graph, compute_less(graph, at, zero), compute_add(graph, at, end), at);
  *outside = compute_logical_or(graph, compute_less(graph, at, zero),
                                compute_greater_equal(graph, at, end));
  return at;
}

/* Joins each k-tuple along the last axis of `at` into one index into the data's axes `first` ….
 * An index out of range becomes the number of rows, so that it fails the run. */
static compute_node join_indices(model_call *call, compute_node at, compute_shape shape,
                                 int32_t first, int32_t k) {
  compute_graph *graph = call->graph;
  compute_shape flat = compute_node_shape(graph, at);
  flat.rank--;
  compute_node joined = number_i64(call, 0), bad = compute_scalar(graph, COMPUTE_BOOL, 0);
  for (int32_t i = 0; i < k; i++) {
    compute_node outside, part = compute_slice(graph, at, -1, i, 1, 1);
    part = compute_reshape(graph, part, flat);
    part = count_from_start(call, part, shape_at(shape, first + i), &outside);
    joined = compute_mul(graph, joined, number_i64(call, shape_at(shape, first + i)));
    joined = compute_add(graph, joined, part);
    bad = compute_logical_or(graph, bad, outside);
  }
  const int64_t rows = op_count(shape, first, first + k);
  joined = compute_select(graph, bad, number_i64(call, rows), joined);
  return compute_broadcast(graph, joined, flat);
}

static compute_status check_tuples(model_call *call, int32_t batch, int32_t *k) {
  const compute_shape shape = call_shape(call, 0), at = call_shape(call, 1);
  const int64_t last = at.rank > 0 ? shape_at(at, at.rank - 1) : 0;
  if (at.rank < 1 || batch < 0 || batch >= at.rank || batch > shape.rank ||
      last > shape.rank - batch)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "indices of %" PRId64 " axes into %d", last,
                     (int)shape.rank);
  for (int32_t i = 0; i < batch; i++)
    if (shape_at(shape, i) != shape_at(at, i))
      return call_fail(call, COMPUTE_ERROR_SHAPE, "its batches differ along axis %d", (int)i);
  *k = (int32_t)last;
  return COMPUTE_OK;
}

/* Adds the offset of each batch: its rows follow the rows of the batches before it. */
static compute_node add_batch(model_call *call, compute_node at, int64_t batches, int64_t rows) {
  compute_graph *graph = call->graph;
  const compute_shape shape = compute_node_shape(graph, at);
  int64_t count = 0;
  compute_shape_count(shape, &count);
  const compute_shape apart = COMPUTE_SHAPE(batches, batches ? count / batches : 0);
  const compute_node outside = compute_greater_equal(graph, at, number_i64(call, rows));
  compute_node base = compute_index(graph, COMPUTE_I64, apart, 0);
  base = compute_reshape(graph, compute_mul(graph, base, number_i64(call, rows)), shape);
  return compute_select(graph, outside, number_i64(call, batches * rows),
                        compute_add(graph, at, base));
}

static compute_status gather_nd(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_shape shape = call_shape(call, 0);
  const int32_t batch = (int32_t)call_attribute_i(call, "batch_dims", 0);
  int32_t k = 0;
  const compute_status status = check_tuples(call, batch, &k);
  if (status) return status;
  const int64_t batches = op_count(shape, 0, batch), rows = op_count(shape, batch, batch + k);
  compute_node at = join_indices(call, indices_input(call, 1), shape, batch, k);
  compute_shape result = compute_node_shape(graph, at);
  if (batch) at = add_batch(call, at, batches, rows);
  if (result.rank + shape.rank - batch - k > COMPUTE_MAX_RANK)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "its result has more than %d axes",
                     COMPUTE_MAX_RANK);
  for (int32_t i = batch + k; i < shape.rank; i++)
    shape_set(&result, result.rank++, shape_at(shape, i));
  const int64_t row = op_count(shape, batch + k, shape.rank);
  compute_node x = compute_reshape(graph, call_input(call, 0), COMPUTE_SHAPE(batches * rows, row));
  x = compute_gather(graph, x, at, 0);
  return output_like(call, compute_reshape(graph, x, result));
}

/* ---- Writing --------------------------------------------------------------------------------- */

static compute_status read_mode(model_call *call, compute_scatter_mode *mode) {
  static const char *const names[] = {
      [COMPUTE_SCATTER_ADD] = "add", [COMPUTE_SCATTER_SET] = "none", [COMPUTE_SCATTER_MUL] = "mul",
      [COMPUTE_SCATTER_MAX] = "max", [COMPUTE_SCATTER_MIN] = "min",
  };
  const char *reduction = call_attribute_s(call, "reduction", "none");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(names[i], reduction) != 0) continue;
    *mode = (compute_scatter_mode)i;
    return COMPUTE_OK;
  }
  return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "reduction '%s'", reduction);
}

/* Converts u64 to i64 with the same order. Applied twice, it gives i64 with the original bits. */
static compute_node turn_order(model_call *call, compute_node x) {
  const compute_node sign = number_i64(call, INT64_MIN);
  return compute_bit_xor(call->graph, compute_cast(call->graph, x, COMPUTE_I64), sign);
}

typedef compute_node (*scatter_builder)(compute_graph *graph, compute_node data,
                                        compute_node updates, compute_node indices, int32_t axis,
                                        compute_scatter_mode mode);

/* Graphs do not compare u64, so minimum and maximum of u64 are computed as i64. */
static compute_node scatter_as(model_call *call, scatter_builder build, compute_node data,
                               compute_node updates, compute_node indices, int32_t axis,
                               compute_scatter_mode mode) {
  compute_graph *graph = call->graph;
  const bool orders = mode == COMPUTE_SCATTER_MAX || mode == COMPUTE_SCATTER_MIN;
  if (!orders || compute_node_dtype(graph, data) != COMPUTE_U64)
    return build(graph, data, updates, indices, axis, mode);
  data = turn_order(call, data);
  updates = turn_order(call, updates);
  data = build(graph, data, updates, indices, axis, mode);
  return compute_cast(graph, turn_order(call, data), COMPUTE_U64);
}

static compute_status scatter_nd(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_shape shape = call_shape(call, 0);
  compute_scatter_mode mode = COMPUTE_SCATTER_SET;
  int32_t k = 0;
  compute_status status = check_tuples(call, 0, &k);
  if (!status) status = read_mode(call, &mode);
  if (status) return status;
  const compute_node at = join_indices(call, indices_input(call, 1), shape, 0, k);
  const int64_t rows = op_count(shape, 0, k), row = op_count(shape, k, shape.rank);
  compute_shape expected = compute_node_shape(graph, at);
  int64_t count = 0;
  compute_shape_count(expected, &count);
  for (int32_t i = k; i < shape.rank && expected.rank < COMPUTE_MAX_RANK; i++)
    shape_set(&expected, expected.rank++, shape_at(shape, i));
  if (!compute_shape_equal(expected, call_shape(call, 2)))
    return call_fail(call, COMPUTE_ERROR_SHAPE,
                     "its updates do not have the shape of what is read");
  const compute_node data = compute_reshape(graph, call_input(call, 0), COMPUTE_SHAPE(rows, row));
  const compute_node updates =
      compute_reshape(graph, call_input(call, 2), COMPUTE_SHAPE(count, row));
  const compute_node result = scatter_as(call, compute_scatter, data, updates,
                                         compute_reshape(graph, at, COMPUTE_SHAPE(count)), 0, mode);
  return output_like(call, compute_reshape(graph, result, shape));
}

static compute_status scatter_elements(model_call *call) {
  const compute_shape shape = call_shape(call, 0), from = call_shape(call, 1);
  compute_scatter_mode mode = COMPUTE_SCATTER_SET;
  int32_t axis;
  compute_status status = call_axis(call, call_attribute_i(call, "axis", 0), shape.rank, &axis);
  if (!status) status = read_mode(call, &mode);
  if (status) return status;
  if (from.rank != shape.rank || !compute_shape_equal(from, call_shape(call, 2)))
    return call_fail(call, COMPUTE_ERROR_SHAPE, "its indices and updates do not match");
  for (int32_t i = 0; i < shape.rank; i++)
    if (i != axis && shape_at(from, i) > shape_at(shape, i))
      return call_fail(call, COMPUTE_ERROR_SHAPE, "axis %d of its indices is too long", (int)i);
  return output_like(call, scatter_as(call, compute_scatter_elements, call_input(call, 0),
                                      call_input(call, 2), indices_input(call, 1), axis, mode));
}

/* ---- TensorScatter --------------------------------------------------------------------------- */

/* The shape of a cache, [batch, outer, size, inner], and the number of rows in an update. */
typedef struct cache_axes {
  int64_t batch, outer, size, inner, update;
} cache_axes;

static compute_status read_cache(model_call *call, compute_shape cache, compute_shape update,
                                 int32_t axis, cache_axes *c) {
  bool same =
      axis > 0 && cache.rank == update.rank && shape_at(update, axis) <= shape_at(cache, axis);
  for (int32_t i = 0; same && i < cache.rank; i++)
    same = i == axis || shape_at(cache, i) == shape_at(update, i);
  if (!same) return call_fail(call, COMPUTE_ERROR_SHAPE, "its update does not fit into the cache");
  *c = (cache_axes){shape_at(cache, 0), op_count(cache, 1, axis), shape_at(cache, axis),
                    op_count(cache, axis + 1, cache.rank), shape_at(update, axis)};
  return COMPUTE_OK;
}

/* Positions of the update's rows along the cache's axis, [batch, outer, update]. A position out of
 * range fails the run. */
static compute_node cache_places(model_call *call, const cache_axes *c, compute_node starts,
                                 bool circular) {
  compute_graph *graph = call->graph;
  const compute_shape rows = COMPUTE_SHAPE(c->batch, c->outer, c->update);
  compute_node at = compute_index(graph, COMPUTE_I64, rows, 2);
  if (compute_node_is_valid(starts)) at = compute_add(graph, at, starts);
  if (circular) at = number_modulo(call, at, number_i64(call, c->size));
  const compute_node outside =
      compute_logical_or(graph, compute_less(graph, at, number_i64(call, 0)),
                         compute_greater_equal(graph, at, number_i64(call, c->size)));
  compute_node base =
      compute_mul(graph, compute_index(graph, COMPUTE_I64, rows, 0), number_i64(call, c->outer));
  base = compute_add(graph, base, compute_index(graph, COMPUTE_I64, rows, 1));
  at = compute_add(graph, compute_mul(graph, base, number_i64(call, c->size)), at);
  return compute_select(graph, outside, number_i64(call, c->batch * c->outer * c->size), at);
}

compute_status index_write_rows(model_call *call, compute_node cache, compute_node update,
                                int32_t axis, compute_node starts, bool circular,
                                compute_node *result) {
  compute_graph *graph = call->graph;
  const compute_shape shape = compute_node_shape(graph, cache);
  cache_axes c = {0};
  *result = cache;
  if (compute_graph_status(graph)) return COMPUTE_OK; /* reported after the rule */
  const compute_status status =
      read_cache(call, shape, compute_node_shape(graph, update), axis, &c);
  if (status || c.update == 0) return status;
  cache = compute_reshape(graph, cache, COMPUTE_SHAPE(c.batch * c.outer * c.size, c.inner));
  update = compute_reshape(graph, update, COMPUTE_SHAPE(c.batch, c.outer, c.update, c.inner));
  cache = compute_scatter(graph, cache, update, cache_places(call, &c, starts, circular), 0,
                          COMPUTE_SCATTER_SET);
  *result = compute_reshape(graph, cache, shape);
  return COMPUTE_OK;
}

static compute_status tensor_scatter(model_call *call) {
  const compute_shape shape = call_shape(call, 0);
  const bool circular = strcmp(call_attribute_s(call, "mode", "linear"), "circular") == 0;
  compute_node starts = {0}, y;
  int32_t axis;
  compute_status status = call_axis(call, call_attribute_i(call, "axis", -2), shape.rank, &axis);
  if (status) return status;
  if (call_has(call, 2))
    starts = compute_reshape(call->graph, indices_input(call, 2),
                             COMPUTE_SHAPE(shape_at(shape, 0), 1, 1));
  status =
      index_write_rows(call, call_input(call, 0), call_input(call, 1), axis, starts, circular, &y);
  return status ? status : output_like(call, y);
}

/* ---- The table ------------------------------------------------------------------------------- */

static const operator_row rows[] = {
    {"", "Gather", 1, gather},
    {"", "GatherElements", 11, gather_elements},
    {"", "GatherND", 11, gather_nd},
    {"", "Scatter", 9, scatter_elements},
    {"", "ScatterElements", 11, scatter_elements},
    {"", "ScatterND", 11, scatter_nd},
    {"", "TensorScatter", 24, tensor_scatter},
    {"ai.onnx.ml", "ArrayFeatureExtractor", 1, array_feature_extractor},
    {"com.microsoft", "GatherND", 1, gather_nd},
};

const operator_family operators_index = OPERATOR_FAMILY(rows);
