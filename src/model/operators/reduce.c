/* SPDX-License-Identifier: MIT */
/* Reductions, operators that normalise along an axis by a reduction, running sums and products, the
 * k largest elements, and determinants. */
#include "model/operators/operators.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "compute/graph_array.h"
#include "compute/linalg.h"
#include "core/type/shape.h"
#include "model/operators/op.h"

/* ---- Order in all dtypes --------------------------------------------------------------------- */

/* The library does not order u64 and bool. u64 becomes i64 with the same order, and bool u8. */
static compute_node to_ordered(model_call *call, compute_node x) {
  const compute_dtype dtype = compute_node_dtype(call->graph, x);
  if (dtype == COMPUTE_BOOL) return compute_cast(call->graph, x, COMPUTE_U8);
  if (dtype != COMPUTE_U64) return x;
  return compute_bit_xor(call->graph, compute_cast(call->graph, x, COMPUTE_I64),
                         compute_scalar_i64(call->graph, COMPUTE_I64, INT64_MIN));
}

static compute_node from_ordered(model_call *call, compute_node x, compute_dtype dtype) {
  if (dtype == COMPUTE_U64)
    x = compute_bit_xor(call->graph, x, compute_scalar_i64(call->graph, COMPUTE_I64, INT64_MIN));
  return op_cast(call, x, dtype);
}

/* ---- Reductions ------------------------------------------------------------------------------ */

/* A reduction; `x` has at least one element along `axes`. */
typedef compute_node (*fold_function)(model_call *call, compute_node x, compute_axes axes,
                                      bool keep);

typedef struct reduction {
  compute_shape shape, result;
  compute_axes axes; /* COMPUTE_NO_AXES for none */
  bool keep, empty;  /* empty: no elements, but a result */
} reduction;

static compute_status read_axes(model_call *call, bool by_input, const int64_t **axes,
                                size_t *count) {
  *count = 0;
  if (!by_input) {
    *axes = call_attribute_ints(call, "axes", count);
    return COMPUTE_OK;
  }
  return call_has(call, 1) ? call_integers(call, 1, axes, count) : COMPUTE_OK;
}

static compute_status begin(model_call *call, bool by_input, reduction *r) {
  const int64_t *axes = NULL;
  size_t count;
  bool along[COMPUTE_MAX_RANK] = {false};
  compute_status status = read_axes(call, by_input, &axes, &count);
  *r =
      (reduction){.shape = call_shape(call, 0), .keep = call_attribute_i(call, "keepdims", 1) != 0};
  const bool all = count == 0 && call_attribute_i(call, "noop_with_empty_axes", 0) == 0;
  for (int32_t i = 0; i < r->shape.rank; i++) along[i] = all;
  for (size_t i = 0; i < count && !status; i++) {
    int32_t axis;
    status = call_axis(call, axes[i], r->shape.rank, &axis);
    if (!status) along[axis] = true;
  }
  int64_t results = 1;
  for (int32_t i = 0; i < r->shape.rank; i++) {
    const int64_t size = shape_at(r->shape, i);
    if (along[i]) r->axes.axis[r->axes.count++] = i;
    if (along[i] && size == 0) r->empty = true;
    if (!along[i] && size == 0) results = 0;
    if (!along[i] || r->keep) shape_set(&r->result, r->result.rank++, along[i] ? 1 : size);
  }
  r->empty = r->empty && results != 0;
  if (r->axes.count == 0) r->axes = COMPUTE_NO_AXES;
  return status;
}

static compute_status reduce(model_call *call, bool by_input, fold_function fold,
                             const double *of_nothing) {
  reduction r;
  const compute_status status = begin(call, by_input, &r);
  if (status) return status;
  if (r.empty && of_nothing)
    return call_output(call, 0,
                       compute_full(call->graph, call_dtype(call, 0), r.result, *of_nothing));
  const compute_node y = fold(call, call_input(call, 0), r.axes, r.keep);
  return call_output(call, 0, op_cast(call, y, call_dtype(call, 0)));
}

/* Logarithms and roots of integers are computed in f64. */
static compute_node as_float(model_call *call, compute_node x) {
  const compute_dtype dtype = compute_node_dtype(call->graph, x);
  return op_is_float(dtype) ? op_wide(call, x) : compute_cast(call->graph, x, COMPUTE_F64);
}

static compute_node magnitude(model_call *call, compute_node x) {
  switch (compute_node_dtype(call->graph, x)) {
  case COMPUTE_U8:
  case COMPUTE_U16:
  case COMPUTE_U32:
  case COMPUTE_U64: return x;
  default: return compute_abs(call->graph, x);
  }
}

static compute_node fold_sum(model_call *call, compute_node x, compute_axes axes, bool keep) {
  return compute_sum(call->graph, x, axes, keep);
}

static compute_node fold_product(model_call *call, compute_node x, compute_axes axes, bool keep) {
  return compute_prod(call->graph, x, axes, keep);
}

static compute_node fold_mean(model_call *call, compute_node x, compute_axes axes, bool keep) {
  return compute_mean(call->graph, as_float(call, x), axes, keep);
}

static compute_node fold_l1(model_call *call, compute_node x, compute_axes axes, bool keep) {
  return compute_sum(call->graph, magnitude(call, x), axes, keep);
}

static compute_node fold_squares(model_call *call, compute_node x, compute_axes axes, bool keep) {
  return compute_sum(call->graph, compute_square(call->graph, op_wide(call, x)), axes, keep);
}

/* f64 holds the sum of the squares of any f32, so no pass has to find the largest magnitude. */
static compute_node euclidean_norm(model_call *call, compute_node x, compute_axes axes, bool keep) {
  compute_graph *graph = call->graph;
  if (compute_node_dtype(graph, x) != COMPUTE_F32 || !call_is_on_host(call) || call_trains(call))
    return op_norm(call, x, axes, 2, keep);
  const compute_node squares = compute_square(graph, op_cast(call, x, COMPUTE_F64));
  const compute_node norm = compute_sqrt(graph, compute_sum(graph, squares, axes, keep));
  return op_cast(call, norm, COMPUTE_F32);
}

static compute_node fold_l2(model_call *call, compute_node x, compute_axes axes, bool keep) {
  return euclidean_norm(call, op_wide(call, as_float(call, x)), axes, keep);
}

static compute_node fold_log_sum(model_call *call, compute_node x, compute_axes axes, bool keep) {
  return compute_log(call->graph, compute_sum(call->graph, as_float(call, x), axes, keep));
}

static compute_node fold_log_sum_exp(model_call *call, compute_node x, compute_axes axes,
                                     bool keep) {
  return part_log_sum_exp(call->graph, as_float(call, x), axes, keep);
}

static compute_node fold_max(model_call *call, compute_node x, compute_axes axes, bool keep) {
  const compute_dtype dtype = compute_node_dtype(call->graph, x);
  x = compute_max(call->graph, to_ordered(call, x), axes, keep);
  return from_ordered(call, x, dtype);
}

static compute_node fold_min(model_call *call, compute_node x, compute_axes axes, bool keep) {
  const compute_dtype dtype = compute_node_dtype(call->graph, x);
  x = compute_min(call->graph, to_ordered(call, x), axes, keep);
  return from_ordered(call, x, dtype);
}

/* The largest or smallest value of a dtype. */
static compute_node extreme(model_call *call, compute_dtype dtype, compute_shape shape,
                            bool largest) {
  static const struct {
    compute_dtype dtype;
    int64_t least, most;
  } limits[] = {{COMPUTE_BOOL, 0, 1},
                {COMPUTE_I8, INT8_MIN, INT8_MAX},
                {COMPUTE_I16, INT16_MIN, INT16_MAX},
                {COMPUTE_I32, INT32_MIN, INT32_MAX},
                {COMPUTE_I64, INT64_MIN, INT64_MAX},
                {COMPUTE_U8, 0, UINT8_MAX},
                {COMPUTE_U16, 0, UINT16_MAX},
                {COMPUTE_U32, 0, UINT32_MAX}};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
    if (limits[i].dtype == dtype)
      return compute_full_i64(call->graph, dtype, shape,
                              largest ? limits[i].most : limits[i].least);
  if (dtype == COMPUTE_U64) /* the largest u64 has the bits of −1 */
    return compute_cast(call->graph,
                        compute_full_i64(call->graph, COMPUTE_I64, shape, largest ? -1 : 0), dtype);
  return compute_full(call->graph, dtype, shape, largest ? (double)INFINITY : -(double)INFINITY);
}

static compute_status reduce_order(model_call *call, fold_function fold, bool of_nothing) {
  reduction r;
  const compute_status status = begin(call, call->version >= 18, &r);
  if (status) return status;
  if (r.empty)
    return call_output(call, 0, extreme(call, call_dtype(call, 0), r.result, of_nothing));
  return call_output(call, 0, fold(call, call_input(call, 0), r.axes, r.keep));
}

static compute_status reduce_max(model_call *call) {
  return reduce_order(call, fold_max, false);
}

static compute_status reduce_min(model_call *call) {
  return reduce_order(call, fold_min, true);
}

/* Axes are an input from opset 18 on, for ReduceSum from 13 on. */
static compute_status reduce_sum(model_call *call) {
  return reduce(call, call->version >= 13, fold_sum, NULL);
}

static compute_status reduce_product(model_call *call) {
  return reduce(call, call->version >= 18, fold_product, NULL);
}

static compute_status reduce_mean(model_call *call) {
  return reduce(call, call->version >= 18, fold_mean, NULL);
}

static compute_status reduce_l1(model_call *call) {
  return reduce(call, call->version >= 18, fold_l1, NULL);
}

static compute_status reduce_l2(model_call *call) {
  return reduce(call, call->version >= 18, fold_l2, NULL);
}

static compute_status reduce_squares(model_call *call) {
  return reduce(call, call->version >= 18, fold_squares, NULL);
}

static compute_status reduce_log_sum(model_call *call) {
  return reduce(call, call->version >= 18, fold_log_sum, NULL);
}

static compute_status reduce_log_sum_exp(model_call *call) {
  static const double of_nothing = -(double)INFINITY;
  return reduce(call, call->version >= 18, fold_log_sum_exp,
                op_is_float(call_dtype(call, 0)) ? &of_nothing : NULL);
}

/* ---- Positions of extremes ------------------------------------------------------------------- */

static compute_status arg(model_call *call,
                          compute_node (*find)(compute_graph *, compute_node, int32_t, bool)) {
  int32_t axis;
  const compute_shape shape = call_shape(call, 0);
  const compute_status status =
      call_axis(call, call_attribute_i(call, "axis", 0), shape.rank, &axis);
  if (status) return status;
  const bool keep = call_attribute_i(call, "keepdims", 1) != 0;
  const bool last = call_attribute_i(call, "select_last_index", 0) != 0;
  compute_node x = to_ordered(call, call_input(call, 0));
  if (last) x = compute_flip(call->graph, x, COMPUTE_AXES(axis));
  compute_node at = find(call->graph, x, axis, keep);
  if (last)
    at = compute_sub(call->graph,
                     compute_scalar_i64(call->graph, COMPUTE_I64, shape_at(shape, axis) - 1), at);
  return call_output(call, 0, at);
}

static compute_status arg_max(model_call *call) {
  return arg(call, compute_argmax);
}

static compute_status arg_min(model_call *call) {
  return arg(call, compute_argmin);
}

static compute_status top_k(model_call *call) {
  int64_t k = call_attribute_i(call, "k", 0);
  int32_t axis;
  compute_node positions;
  compute_status status = call->version >= 10 ? call_integer(call, 1, &k) : COMPUTE_OK;
  if (status) return status;
  status = call_axis(call, call_attribute_i(call, "axis", -1), call_shape(call, 0).rank, &axis);
  if (status) return status;
  const bool smallest = call_attribute_i(call, "largest", 1) == 0;
  const compute_node x = to_ordered(call, call_input(call, 0));
  const compute_node y = compute_top_k(call->graph, x, k, axis, smallest, &positions);
  call_output(call, 0, from_ordered(call, y, call_dtype(call, 0)));
  return call_output(call, 1, positions);
}

/* ---- Normalisation along an axis ------------------------------------------------------------- */

static compute_node hard_max(compute_graph *graph, compute_node x, int32_t axis) {
  const compute_shape shape = compute_node_shape(graph, x);
  if (op_count(shape, 0, shape.rank) == 0) return x;
  const compute_node most = compute_argmax(graph, x, axis, true);
  const compute_node ones =
      compute_full(graph, compute_node_dtype(graph, x), compute_node_shape(graph, most), 1);
  return compute_scatter_add_elements(graph, ones, most, axis, shape);
}

/* Before opset 13, the axes from `axis` on count as one. */
static compute_status along_axis(model_call *call,
                                 compute_node (*record)(compute_graph *, compute_node, int32_t)) {
  compute_graph *graph = call->graph;
  const compute_shape shape = call_shape(call, 0);
  const bool flat = call->version < 13;
  const compute_node x = call_input(call, 0);
  int32_t axis;
  if (shape.rank == 0)
    return call_output(
        call, 0,
        compute_reshape(graph, record(graph, compute_reshape(graph, x, COMPUTE_SHAPE(1)), 0),
                        shape));
  int64_t given = call_attribute_i(call, "axis", flat ? 1 : -1);
  if (flat && given == shape.rank) given = -1; /* rank 1 with the default */
  const compute_status status = call_axis(call, given, shape.rank, &axis);
  if (status) return status;
  if (!flat || axis == shape.rank - 1) return call_output(call, 0, record(graph, x, axis));
  const compute_node rows = compute_reshape(
      graph, x, COMPUTE_SHAPE(op_count(shape, 0, axis), op_count(shape, axis, shape.rank)));
  return call_output(call, 0, compute_reshape(graph, record(graph, rows, 1), shape));
}

static compute_status softmax(model_call *call) {
  return along_axis(call, compute_softmax);
}

static compute_status log_softmax(model_call *call) {
  return along_axis(call, compute_log_softmax);
}

static compute_status hardmax(model_call *call) {
  return along_axis(call, hard_max);
}

static compute_status lp_normalization(model_call *call) {
  compute_graph *graph = call->graph;
  const double p = (double)call_attribute_i(call, "p", 2);
  int32_t axis;
  const compute_status status =
      call_axis(call, call_attribute_i(call, "axis", -1), call_shape(call, 0).rank, &axis);
  if (status) return status;
  const compute_node x = op_wide(call, call_input(call, 0));
  compute_node norm = p == 2 ? euclidean_norm(call, x, COMPUTE_AXES(axis), true)
                             : op_norm(call, x, COMPUTE_AXES(axis), p, true);
  const compute_node zero = call_scalar_like(call, norm, 0), one = call_scalar_like(call, norm, 1);
  norm = compute_select(graph, compute_equal(graph, norm, zero), one, norm);
  return call_output(call, 0, op_cast(call, compute_div(graph, x, norm), call_dtype(call, 0)));
}

/* ---- Running sums and products --------------------------------------------------------------- */

typedef struct running {
  int32_t axis;
  bool exclusive, reverse;
} running;

static compute_status read_running(model_call *call, running *r) {
  int64_t axis;
  const compute_status status = call_integer(call, 1, &axis);
  if (status) return status;
  r->exclusive = call_attribute_i(call, "exclusive", 0) != 0;
  r->reverse = call_attribute_i(call, "reverse", 0) != 0;
  return call_axis(call, axis, call_shape(call, 0).rank, &r->axis);
}

static compute_status running_sum(model_call *call) {
  running r;
  const compute_status status = read_running(call, &r);
  if (status) return status;
  return call_output(
      call, 0,
      compute_cumulative_sum(call->graph, call_input(call, 0), r.axis, r.exclusive, r.reverse));
}

static compute_status running_product(model_call *call) {
  running r;
  const compute_status status = read_running(call, &r);
  if (status) return status;
  return call_output(
      call, 0,
      compute_cumulative_product(call->graph, call_input(call, 0), r.axis, r.exclusive, r.reverse));
}

/* ---- Determinants ---------------------------------------------------------------------------- */

/* In f64, because products of f32 pivots overflow early. */
static compute_status det(model_call *call) {
  const compute_shape shape = call_shape(call, 0);
  const int32_t rank = shape.rank;
  if (rank < 2 || shape_at(shape, rank - 1) != shape_at(shape, rank - 2))
    return call_fail(call, COMPUTE_ERROR_SHAPE, "x must be square matrices");
  const compute_node y =
      compute_determinant(call->graph, op_cast(call, call_input(call, 0), COMPUTE_F64));
  return call_output(call, 0, op_cast(call, y, call_dtype(call, 0)));
}

static const operator_row rows[] = {
    {"", "ReduceSum", 1, reduce_sum},
    {"", "ReduceProd", 1, reduce_product},
    {"", "ReduceMean", 1, reduce_mean},
    {"", "ReduceMax", 1, reduce_max},
    {"", "ReduceMin", 1, reduce_min},
    {"", "ReduceL1", 1, reduce_l1},
    {"", "ReduceL2", 1, reduce_l2},
    {"", "ReduceSumSquare", 1, reduce_squares},
    {"", "ReduceLogSum", 1, reduce_log_sum},
    {"", "ReduceLogSumExp", 1, reduce_log_sum_exp},
    {"", "ArgMax", 1, arg_max},
    {"", "ArgMin", 1, arg_min},
    {"", "TopK", 1, top_k},
    {"", "Softmax", 1, softmax},
    {"", "LogSoftmax", 1, log_softmax},
    {"", "Hardmax", 1, hardmax},
    {"", "LpNormalization", 1, lp_normalization},
    {"", "CumSum", 11, running_sum},
    {"", "CumProd", 26, running_product},
    {"", "Det", 11, det},
};

const operator_family operators_reduce = OPERATOR_FAMILY(rows);
