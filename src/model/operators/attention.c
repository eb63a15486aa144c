/* SPDX-License-Identifier: MIT */
/* Attention through compute_scaled_attention, which stores no scores. Composed from other
 * operations if a model needs the scores, or a step between scores and softmax. */
#include "model/operators/attention.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/type/shape.h"
#include "model/operators/op.h"
#include "model/operators/operators.h"

/* ---- Shapes ---------------------------------------------------------------------------------- */

compute_status attention_split(model_call *call, compute_node x, int64_t heads,
                               compute_node *result) {
  const compute_shape shape = compute_node_shape(call->graph, x);
  if (compute_graph_status(call->graph)) return COMPUTE_OK; /* reported after the rule */
  if (shape.rank != 3 || heads < 1 || shape_at(shape, 2) % heads != 0)
    return call_fail(call, COMPUTE_ERROR_SHAPE,
                     "%" PRId64
                     " heads do not share a tensor of rank %d whose last axis has %" PRId64,
                     heads, (int)shape.rank, shape.rank ? shape_at(shape, shape.rank - 1) : 1);
  x = compute_reshape(
      call->graph, x,
      COMPUTE_SHAPE(shape_at(shape, 0), shape_at(shape, 1), heads, shape_at(shape, 2) / heads));
  *result = compute_transpose(call->graph, x, COMPUTE_AXES(0, 2, 1, 3));
  return COMPUTE_OK;
}

compute_node attention_join(model_call *call, compute_node x) {
  const compute_shape shape = compute_node_shape(call->graph, x);
  return compute_reshape(call->graph, compute_transpose(call->graph, x, COMPUTE_AXES(0, 2, 1, 3)),
                         COMPUTE_SHAPE(shape_at(shape, 0), shape_at(shape, 2),
                                       shape_at(shape, 1) * shape_at(shape, 3)));
}

compute_node attention_append(model_call *call, compute_node past, compute_node more) {
  const compute_node parts[2] = {past, more};
  return compute_node_is_valid(past) ? compute_concat(call->graph, parts, 2, 2) : more;
}

/* ---- Masks ----------------------------------------------------------------------------------- */

void attention_hide(model_call *call, attention *a, compute_node condition) {
  a->visible = compute_node_is_valid(a->visible)
                   ? compute_logical_and(call->graph, a->visible, condition)
                   : condition;
}

void attention_add(model_call *call, attention *a, compute_node bias) {
  bias = op_cast(call, bias, compute_node_dtype(call->graph, a->q));
  a->bias = compute_node_is_valid(a->bias) ? compute_add(call->graph, a->bias, bias) : bias;
}

static compute_node of_batch(model_call *call, compute_node x) {
  return compute_reshape(call->graph, op_cast(call, x, COMPUTE_I64), COMPUTE_SHAPE(-1, 1, 1, 1));
}

void attention_window(model_call *call, attention *a, int64_t offset, compute_node offsets,
                      int64_t left, int64_t right) {
  compute_graph *graph = call->graph;
  const int64_t queries = shape_at(compute_node_shape(graph, a->q), 2);
  const int64_t keys = shape_at(compute_node_shape(graph, a->k), 2);
  if (left < 0 && right < 0) return;
  if (left < 0 && right == 0 && !compute_node_is_valid(offsets) && offset == keys - queries) {
    a->causal = true;
    return;
  }
  const compute_shape shape = COMPUTE_SHAPE(queries, keys);
  compute_node ahead = compute_sub(graph, compute_index(graph, COMPUTE_I64, shape, 1),
                                   compute_index(graph, COMPUTE_I64, shape, 0));
  ahead = compute_sub(graph, ahead, compute_scalar_i64(graph, COMPUTE_I64, offset));
  if (compute_node_is_valid(offsets)) ahead = compute_sub(graph, ahead, of_batch(call, offsets));
  if (left >= 0)
    attention_hide(
        call, a,
        compute_greater_equal(graph, ahead, compute_scalar_i64(graph, COMPUTE_I64, -left)));
  if (right >= 0)
    attention_hide(call, a,
                   compute_less_equal(graph, ahead, compute_scalar_i64(graph, COMPUTE_I64, right)));
}

void attention_lengths(model_call *call, attention *a, compute_node lengths) {
  const int64_t keys = shape_at(compute_node_shape(call->graph, a->k), 2);
  const compute_node place = compute_index(call->graph, COMPUTE_I64, COMPUTE_SHAPE(1, keys), 1);
  attention_hide(call, a, compute_less(call->graph, place, of_batch(call, lengths)));
}

/* ---- The operation --------------------------------------------------------------------------- */

/* Reshapes [batch, heads, …] to [batch, kv heads, group, …]. Unchanged if there is one head, or
 * no head axis. */
static compute_node group_heads(model_call *call, compute_node x, int64_t groups) {
  compute_shape shape = compute_node_shape(call->graph, x), apart;
  if (shape.rank < 3 || groups == 1) return x;
  const int32_t axis = shape.rank - 3;
  const int64_t heads = shape_at(shape, axis);
  apart = shape;
  apart.rank++;
  for (int32_t i = shape.rank; i > axis + 1; i--) shape_set(&apart, i, shape_at(shape, i - 1));
  shape_set(&apart, axis, heads == 1 ? 1 : heads / groups);
  shape_set(&apart, axis + 1, heads == 1 ? 1 : groups);
  return compute_reshape(call->graph, x, apart);
}

/* Reshapes [batch, kv heads, …] to [batch, kv heads, 1, …]. */
static compute_node group_shared(model_call *call, compute_node x, int64_t groups) {
  const compute_shape s = compute_node_shape(call->graph, x);
  return groups == 1 ? x
                     : compute_reshape(call->graph, x,
                                       COMPUTE_SHAPE(shape_at(s, 0), shape_at(s, 1), 1,
                                                     shape_at(s, 2), shape_at(s, 3)));
}

/* Combines bias and visible into one addend of at least two axes, or {0}. `frontier`: includes
 * the causal mask. */
static compute_node whole_bias(model_call *call, const attention *a, bool frontier) {
  compute_graph *graph = call->graph;
  attention copy = *a;
  if (frontier && a->causal) {
    const int64_t queries = shape_at(compute_node_shape(graph, a->q), 2);
    const int64_t keys = shape_at(compute_node_shape(graph, a->k), 2);
    const compute_shape shape = COMPUTE_SHAPE(queries, keys);
    const compute_node last = compute_add(graph, compute_index(graph, COMPUTE_I64, shape, 0),
                                          compute_scalar_i64(graph, COMPUTE_I64, keys - queries));
    attention_hide(call, &copy,
                   compute_less_equal(graph, compute_index(graph, COMPUTE_I64, shape, 1), last));
  }
  compute_node bias = copy.bias;
  if (compute_node_is_valid(copy.visible)) {
    if (!compute_node_is_valid(bias)) bias = call_scalar_like(call, a->q, 0);
    bias =
        compute_select(graph, copy.visible, bias, call_scalar_like(call, a->q, -(double)INFINITY));
  }
  compute_shape shape = compute_node_shape(graph, bias);
  if (!compute_node_is_valid(bias) || shape.rank > 1) return bias;
  return compute_reshape(graph, bias, COMPUTE_SHAPE(1, shape.rank ? shape_at(shape, 0) : 1));
}

/* Appends a key of zeros with the sink as its score. */
static void append_sink(model_call *call, attention *a) {
  compute_graph *graph = call->graph;
  const compute_shape k = compute_node_shape(graph, a->k);
  compute_node bias = whole_bias(call, a, true), sink = a->sink;
  if (!compute_node_is_valid(bias))
    bias = compute_full(graph, compute_node_dtype(graph, a->q), COMPUTE_SHAPE(1, 1), 0);
  compute_shape shape = compute_node_shape(graph, bias), wide = {.rank = 4, .size = {1, 1, 1, 1}};
  for (int32_t i = 0; i < shape.rank; i++) shape_set(&wide, 4 - shape.rank + i, shape_at(shape, i));
  if (compute_node_shape(graph, sink).rank == 1) {
    shape_set(&wide, 1, shape_at(compute_node_shape(graph, a->q), 1));
    sink = op_along(call, sink, 1, 4);
  }
  shape_set(&wide, 3, shape_at(k, 2));
  const compute_shape column =
      COMPUTE_SHAPE(shape_at(wide, 0), shape_at(wide, 1), shape_at(wide, 2), 1);
  sink = op_cast(call, sink, compute_node_dtype(graph, bias));
  const compute_node parts[2] = {compute_broadcast(graph, bias, wide),
                                 compute_broadcast(graph, sink, column)};
  a->bias = compute_concat(graph, parts, 2, 3);
  a->visible = (compute_node){0};
  a->causal = false;
  a->k = op_pad(call, a->k, 2, 0, 1, 0);
  a->v = op_pad(call, a->v, 2, 0, 1, 0);
}

static compute_node usual_softmax(model_call *call, compute_node scores, compute_dtype precision) {
  compute_graph *graph = call->graph;
  scores = op_cast(call, scores, precision);
  const compute_node most = compute_max(graph, scores, COMPUTE_AXES(-1), true);
  const compute_node blind =
      compute_equal(graph, most, call_scalar_like(call, most, -(double)INFINITY));
  return compute_select(graph, blind, call_scalar_like(call, most, 0),
                        compute_softmax(graph, scores, -1));
}

/* Composes attention. a's heads are grouped; `bias` includes all masks. */
static compute_node write_out(model_call *call, const attention *a, compute_node bias,
                              compute_node *shown) {
  compute_graph *graph = call->graph;
  const compute_dtype dtype = compute_node_dtype(graph, a->q);
  const int32_t rank = compute_node_shape(graph, a->q).rank;
  const double scale = a->scale != 0
                           ? a->scale
                           : 1 / sqrt((double)shape_at(compute_node_shape(graph, a->q), rank - 1));
  const compute_node q = compute_mul(graph, a->q, call_scalar_like(call, a->q, scale));
  compute_node s = compute_matmul(graph, q, op_move_axis(call, a->k, rank - 1, rank - 2));
  if (a->stage == ATTENTION_PRODUCTS) *shown = s;
  s = op_wide(call, s);
  if (a->softcap > 0) {
    s = compute_tanh(graph, compute_div(graph, s, call_scalar_like(call, s, a->softcap)));
    s = compute_mul(graph, s, call_scalar_like(call, s, a->softcap));
  }
  if (a->stage == ATTENTION_CAPPED) *shown = s;
  if (compute_node_is_valid(bias)) s = compute_add(graph, s, op_wide(call, bias));
  if (a->stage == ATTENTION_BIASED) *shown = s;
  compute_dtype precision = op_wide_dtype(dtype);
  if (a->precision == COMPUTE_F64) precision = COMPUTE_F64;
  s = op_cast(call, usual_softmax(call, s, precision), dtype);
  if (a->stage == ATTENTION_WEIGHTS) *shown = s;
  if (compute_node_is_valid(*shown)) *shown = op_cast(call, *shown, dtype);
  return compute_matmul(graph, s, a->v);
}

static bool needs_scores(const attention *a, compute_dtype dtype) {
  return a->stage != ATTENTION_NOTHING || a->softcap > 0 ||
         (a->precision == COMPUTE_F64 && dtype != COMPUTE_F64);
}

static compute_status check_operands(model_call *call, const attention *a) {
  const compute_shape q = compute_node_shape(call->graph, a->q);
  const compute_shape k = compute_node_shape(call->graph, a->k);
  const compute_shape v = compute_node_shape(call->graph, a->v);
  if (q.rank != 4 || k.rank != 4 || v.rank != 4)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "q, k and v have ranks %d, %d and %d", (int)q.rank,
                     (int)k.rank, (int)v.rank);
  if (shape_at(q, 1) < 1 || shape_at(k, 1) < 1 || shape_at(v, 1) != shape_at(k, 1) ||
      shape_at(q, 1) % shape_at(k, 1) != 0)
    return call_fail(call, COMPUTE_ERROR_SHAPE,
                     "%" PRId64 " heads of q for %" PRId64 " of k and %" PRId64 " of v",
                     shape_at(q, 1), shape_at(k, 1), shape_at(v, 1));
  return COMPUTE_OK;
}

compute_status attention_run(model_call *call, const attention *given, compute_node *y,
                             compute_node *scores) {
  compute_graph *graph = call->graph;
  attention a = *given;
  *y = *scores = (compute_node){0};
  if (compute_graph_status(graph)) return COMPUTE_OK; /* reported after the rule */
  const compute_status status = check_operands(call, &a);
  if (status) return status;
  if (compute_node_is_valid(a.sink)) append_sink(call, &a);
  const compute_shape q = compute_node_shape(graph, a.q), k = compute_node_shape(graph, a.k);
  const compute_dtype dtype = compute_node_dtype(graph, a.q);
  compute_shape result = q, products = q;
  shape_set(&result, 3, shape_at(compute_node_shape(graph, a.v), 3));
  shape_set(&products, 3, shape_at(k, 2));
  if (shape_at(k, 2) == 0) {
    *y = call_zeros(call, dtype, result);
    *scores = call_zeros(call, dtype, products);
    return COMPUTE_OK;
  }
  const bool written = needs_scores(&a, dtype);
  const int64_t groups = shape_at(q, 1) / shape_at(k, 1);
  const compute_node bias = group_heads(call, whole_bias(call, &a, written), groups);
  a.q = group_heads(call, a.q, groups);
  a.k = group_shared(call, a.k, groups);
  a.v = group_shared(call, op_cast(call, a.v, dtype), groups);
  const compute_attention_options options = {.scale = a.scale, .causal = a.causal, .bias = bias};
  *y = written ? write_out(call, &a, bias, scores)
               : compute_scaled_attention(graph, a.q, a.k, a.v, &options);
  *y = compute_reshape(graph, *y, result);
  if (compute_node_is_valid(*scores)) *scores = compute_reshape(graph, *scores, products);
  return COMPUTE_OK;
}

/* ---- ONNX's Attention ------------------------------------------------------------------------ */

static compute_status read_heads(model_call *call, size_t i, const char *heads, compute_node *x) {
  *x = call_input(call, i);
  return call_shape(call, i).rank == 4
             ? COMPUTE_OK
             : attention_split(call, *x, call_attribute_i(call, heads, 0), x);
}

/* Input 3. Keys beyond its last axis are masked. */
static void read_mask(model_call *call, attention *a) {
  compute_graph *graph = call->graph;
  if (!call_has(call, 3)) return;
  compute_node mask = call_input(call, 3);
  const compute_shape shape = call_shape(call, 3);
  const int64_t keys = shape_at(compute_node_shape(graph, a->k), 2);
  const int64_t more = shape.rank ? keys - shape_at(shape, shape.rank - 1) : 0;
  if (call_dtype(call, 3) == COMPUTE_BOOL && more <= 0) {
    attention_hide(call, a, mask);
    return;
  }
  if (call_dtype(call, 3) == COMPUTE_BOOL)
    mask = compute_select(graph, mask, call_scalar_like(call, a->q, 0),
                          call_scalar_like(call, a->q, -(double)INFINITY));
  if (more > 0) mask = op_pad(call, mask, shape.rank - 1, 0, more, -(double)INFINITY);
  attention_add(call, a, mask);
}

static void read_windows(model_call *call, attention *a) {
  const int64_t left = call_attribute_i(call, "left_window_size", -1);
  const int64_t right = call_attribute_i(call, "right_window_size", -1);
  const bool causal = call_attribute_i(call, "is_causal", 0) != 0;
  int64_t offset = call_has(call, 4) ? shape_at(call_shape(call, 4), 2) : 0;
  compute_node lengths = {0};
  if (call_has(call, 6)) {
    lengths = call_input(call, 6);
    offset = -shape_at(compute_node_shape(call->graph, a->q), 2);
    attention_lengths(call, a, lengths);
  }
  attention_window(call, a, offset, lengths, left, right);
  if (causal) attention_window(call, a, offset, lengths, -1, 0);
}

static compute_status read_attention(model_call *call, attention *a) {
  const int64_t stage = call_attribute_i(call, "qk_matmul_output_mode", 0);
  *a = (attention){
      .scale = call_attribute_f(call, "scale", 0),
      .softcap = call_attribute_f(call, "softcap", 0),
      .precision = onnx_dtype((int32_t)call_attribute_i(call, "softmax_precision", ONNX_UNDEFINED)),
      .stage = ATTENTION_NOTHING};
  if (call_wants(call, 3)) {
    if (stage < ATTENTION_PRODUCTS || stage > ATTENTION_WEIGHTS)
      return call_fail(call, COMPUTE_ERROR_FORMAT, "qk_matmul_output_mode is %" PRId64, stage);
    a->stage = (attention_stage)stage;
  }
  compute_status status = read_heads(call, 0, "q_num_heads", &a->q);
  if (!status) status = read_heads(call, 1, "kv_num_heads", &a->k);
  if (!status) status = read_heads(call, 2, "kv_num_heads", &a->v);
  if (status) return status;
  a->k = attention_append(call, call_input(call, 4), a->k);
  a->v = attention_append(call, call_input(call, 5), a->v);
  return COMPUTE_OK;
}

static compute_status attention_rule(model_call *call) {
  attention a;
  compute_node y, scores;
  compute_status status = read_attention(call, &a);
  if (status) return status;
  read_mask(call, &a);
  read_windows(call, &a);
  status = attention_run(call, &a, &y, &scores);
  if (status) return status;
  call_output(call, 0, call_shape(call, 0).rank == 3 ? attention_join(call, y) : y);
  call_output(call, 1, a.k);
  call_output(call, 2, a.v);
  return call_output(call, 3, scores);
}

/* ---- LinearAttention ------------------------------------------------------------------------- */

/* A memory [batch, heads, width, columns] that each step updates and reads. */
typedef struct memory {
  compute_node q, k, v, decay, beta; /* f32 [batch, heads, steps, width]; the last two may be {0} */
  compute_node state;
  int64_t groups;
} memory;

/* Step t of x as [batch, heads, 1, width]. */
static compute_node at_step(model_call *call, compute_node x, int64_t t) {
  return compute_slice(call->graph, x, 2, t, 1, 1);
}

/* Updates the memory with step t and reads it: [batch, heads of q, 1, columns]. */
static compute_node step_memory(model_call *call, memory *m, int64_t t) {
  compute_graph *graph = call->graph;
  const compute_node key = at_step(call, m->k, t);
  const compute_node column = compute_transpose(graph, key, COMPUTE_AXES(0, 1, 3, 2));
  compute_node value = at_step(call, m->v, t);
  if (compute_node_is_valid(m->decay)) {
    const compute_node kept = compute_exp(graph, at_step(call, m->decay, t));
    m->state =
        compute_mul(graph, m->state, compute_transpose(graph, kept, COMPUTE_AXES(0, 1, 3, 2)));
  }
  if (compute_node_is_valid(m->beta)) {
    value = compute_sub(graph, value, compute_matmul(graph, key, m->state));
    value = compute_mul(graph, value, at_step(call, m->beta, t));
  }
  m->state = compute_add(graph, m->state, compute_mul(graph, column, value));
  compute_node q = at_step(call, m->q, t);
  const compute_shape shape = compute_node_shape(graph, q);
  const compute_shape state = compute_node_shape(graph, m->state);
  q = compute_reshape(
      graph, q,
      COMPUTE_SHAPE(shape_at(shape, 0), shape_at(state, 1), m->groups, shape_at(shape, 3)));
  return compute_reshape(
      graph, compute_matmul(graph, q, m->state),
      COMPUTE_SHAPE(shape_at(shape, 0), shape_at(shape, 1), 1, shape_at(state, 3)));
}

/* Input i [batch, steps, …] as f32 with its last axis split into `heads`; {0} if omitted. */
static compute_status read_steps(model_call *call, size_t i, int64_t heads, compute_node *x) {
  *x = (compute_node){0};
  if (!call_has(call, i)) return COMPUTE_OK;
  return attention_split(call, op_cast(call, call_input(call, i), COMPUTE_F32), heads, x);
}

static compute_status read_memory(model_call *call, memory *m) {
  const int64_t heads = call_attribute_i(call, "q_num_heads", 0);
  const int64_t shared = call_attribute_i(call, "kv_num_heads", 0);
  const char *rule = call_attribute_s(call, "update_rule", "gated_delta");
  const bool gated = strncmp(rule, "gated", 5) == 0, delta = strstr(rule, "delta") != NULL;
  const compute_shape beta = call_shape(call, 5);
  if (shared < 1 || heads % shared != 0 || gated != call_has(call, 4) || delta != call_has(call, 5))
    return call_fail(call, COMPUTE_ERROR_FORMAT, "its heads or inputs do not fit the rule '%s'",
                     rule);
  m->groups = heads / shared;
  compute_status status = read_steps(call, 0, heads, &m->q);
  if (!status) status = read_steps(call, 1, shared, &m->k);
  if (!status) status = read_steps(call, 2, shared, &m->v);
  if (!status) status = read_steps(call, 4, shared, &m->decay);
  if (!status)
    status = read_steps(call, 5, beta.rank == 3 && shape_at(beta, 2) == 1 ? 1 : shared, &m->beta);
  if (status) return status;
  const compute_shape k = compute_node_shape(call->graph, m->k);
  m->state = call_has(call, 3)
                 ? op_cast(call, call_input(call, 3), COMPUTE_F32)
                 : call_zeros(call, COMPUTE_F32,
                              COMPUTE_SHAPE(shape_at(k, 0), shape_at(k, 1), shape_at(k, 3),
                                            shape_at(compute_node_shape(call->graph, m->v), 3)));
  return COMPUTE_OK;
}

enum { MOST_STEPS = 65536 };

static compute_status linear_attention(model_call *call) {
  compute_graph *graph = call->graph;
  memory m;
  const compute_status status = read_memory(call, &m);
  if (status) return status;
  const compute_shape q = compute_node_shape(graph, m.q);
  double scale = call_attribute_f(call, "scale", 0);
  if (scale == 0) scale = 1 / sqrt((double)shape_at(q, 3));
  if (shape_at(q, 2) < 1 || shape_at(q, 2) > MOST_STEPS)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "it has %" PRId64 " steps", shape_at(q, 2));
  compute_node *parts = call_allocate(call, (size_t)shape_at(q, 2), sizeof *parts);
  if (!parts) return call_out_of_memory(call);
  for (int64_t t = 0; t < shape_at(q, 2); t++) parts[t] = step_memory(call, &m, t);
  compute_node y = compute_concat(graph, parts, (size_t)shape_at(q, 2), 2);
  y = attention_join(call, compute_mul(graph, y, call_scalar_like(call, y, scale)));
  call_output(call, 0, op_cast(call, y, call_dtype(call, 0)));
  return call_output(call, 1, op_cast(call, m.state, call_dtype(call, call_has(call, 3) ? 3 : 0)));
}

static const operator_row rows[] = {
    {"", "Attention", 23, attention_rule},
    {"", "LinearAttention", 27, linear_attention},
};

const operator_family operators_attention = OPERATOR_FAMILY(rows);
