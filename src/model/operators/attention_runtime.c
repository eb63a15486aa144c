/* SPDX-License-Identifier: MIT */
/* ONNX Runtime's attention operators in the domain com.microsoft, which exporters and optimizers
 * write. */
#include <inttypes.h>

#include "core/type/shape.h"
#include "model/operators/attention.h"
#include "model/operators/index.h"
#include "model/operators/op.h"
#include "model/operators/operators.h"
#include "model/operators/quantized_product.h"

/* ---- Past keys and values -------------------------------------------------------------------- */

/* The number of keys before the new ones. */
typedef struct past_keys {
  int64_t keys;        /* if the whole past buffer is valid */
  compute_node length; /* otherwise i64 [batch or 1], or {0} */
} past_keys;

/* Appends the new rows to the past. In a buffer shared with the present, overwrites rows in
 * place. */
static compute_status add_rows(model_call *call, const past_keys *past, compute_node buffer,
                               compute_node *rows) {
  if (!compute_node_is_valid(past->length)) {
    *rows = attention_append(call, buffer, *rows);
    return COMPUTE_OK;
  }
  const compute_node starts = compute_reshape(call->graph, past->length, COMPUTE_SHAPE(-1, 1, 1));
  return index_write_rows(call, buffer, *rows, 2, starts, false, rows);
}

/* Limits the keys that each query attends to. The last `more` keys are new. Without `causal`, a
 * query attends to all past and new keys. With it, to keys up to its position, and at most
 * `left` before that unless `left` is −1. */
static void read_frontier(model_call *call, attention *a, const past_keys *past, int64_t more,
                          bool causal, int64_t left) {
  const bool runs = compute_node_is_valid(past->length);
  if (causal)
    attention_window(call, a, runs ? 0 : past->keys, past->length, left, 0);
  else if (runs)
    attention_lengths(
        call, a,
        compute_add(call->graph, past->length, compute_scalar_i64(call->graph, COMPUTE_I64, more)));
}

/* ---- Masks ----------------------------------------------------------------------------------- */

/* Adds mask_filter_value to the scores where `counts` is false. A row with only such keys keeps
 * its relative scores. */
static void add_filter(model_call *call, attention *a, compute_node counts) {
  const double filter = call_attribute_f(call, "mask_filter_value", -10000);
  attention_add(call, a,
                compute_select(call->graph, counts, call_scalar_like(call, a->q, 0),
                               call_scalar_like(call, a->q, filter)));
}

static compute_node place_before(model_call *call, const attention *a, compute_node ends) {
  const int64_t keys = shape_at(compute_node_shape(call->graph, a->k), 2);
  return compute_less(
      call->graph, compute_index(call->graph, COMPUTE_I64, COMPUTE_SHAPE(1, keys), 1),
      compute_reshape(call->graph, op_cast(call, ends, COMPUTE_I64), COMPUTE_SHAPE(-1, 1, 1, 1)));
}

/* Reads [batch] ends of the keys, or [2 · batch] ends and starts. */
static compute_status read_ends(model_call *call, attention *a, size_t i) {
  compute_graph *graph = call->graph;
  const int64_t batch = shape_at(compute_node_shape(graph, a->q), 0);
  const int64_t count = shape_at(call_shape(call, i), 0);
  const compute_node ends = call_input(call, i);
  if (count == batch) {
    add_filter(call, a, place_before(call, a, ends));
    return COMPUTE_OK;
  }
  if (count != 2 * batch)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED,
                     "a mask of %" PRId64 " numbers for %" PRId64 " sequences", count, batch);
  const compute_node before = place_before(call, a, compute_slice(graph, ends, 0, 0, batch, 1));
  const compute_node early = place_before(call, a, compute_slice(graph, ends, 0, batch, batch, 1));
  add_filter(call, a, compute_logical_and(graph, before, compute_logical_not(graph, early)));
  return COMPUTE_OK;
}

/* Pads the last axis of x with zeros to the number of keys in the buffer. */
static compute_node for_all_keys(model_call *call, const attention *a, compute_node x) {
  const compute_shape shape = compute_node_shape(call->graph, x);
  const int64_t last = shape.rank ? shape_at(shape, shape.rank - 1) : 1;
  const int64_t more = shape_at(compute_node_shape(call->graph, a->k), 2) - last;
  return last > 1 && more > 0 ? op_pad(call, x, shape.rank - 1, 0, more, 0) : x;
}

/* Input i, a mask in one of ONNX Runtime's forms: ends, [batch, keys], [batch, queries, keys],
 * or [batch, 1, most, most]. Of the last form, the last queries and the first keys apply. */
static compute_status read_mask(model_call *call, attention *a, size_t i, const past_keys *past) {
  compute_graph *graph = call->graph;
  const compute_shape shape = call_shape(call, i);
  if (!call_has(call, i)) return COMPUTE_OK;
  if (shape.rank == 1) return read_ends(call, a, i);
  if (shape.rank == 4 && compute_node_is_valid(past->length))
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED,
                     "a mask with four axes and past_sequence_length");
  compute_node mask = for_all_keys(call, a, call_input(call, i));
  if (call_dtype(call, i) != COMPUTE_BOOL)
    mask = compute_not_equal(graph, mask, call_scalar_like(call, mask, 0));
  if (shape.rank == 2)
    mask = compute_reshape(graph, mask, COMPUTE_SHAPE(shape_at(shape, 0), 1, 1, -1));
  if (shape.rank == 3)
    mask =
        compute_reshape(graph, mask, COMPUTE_SHAPE(shape_at(shape, 0), 1, shape_at(shape, 1), -1));
  if (shape.rank == 4) {
    const int64_t queries = shape_at(compute_node_shape(graph, a->q), 2);
    mask = compute_slice(graph, mask, 2, past->keys, queries, 1);
    mask = compute_slice(graph, mask, 3, 0, shape_at(compute_node_shape(graph, a->k), 2), 1);
  }
  add_filter(call, a, mask);
  return COMPUTE_OK;
}

static attention begin(model_call *call) {
  return (attention){.scale = call_attribute_f(call, "scale", 0),
                     .softcap = call_attribute_f(call, "softcap", 0),
                     .stage = ATTENTION_NOTHING};
}

static void read_bias(model_call *call, attention *a, size_t i) {
  if (call_has(call, i)) attention_add(call, a, for_all_keys(call, a, call_input(call, i)));
}

/* Splits the last axis of x into three parts of these sizes. */
static void split_last(model_call *call, compute_node x, const int64_t *sizes,
                       compute_node *const *parts) {
  const int32_t axis = compute_node_shape(call->graph, x).rank - 1;
  for (int64_t i = 0, first = 0; i < 3; first += sizes[i++])
    *parts[i] = compute_slice(call->graph, x, axis, first, sizes[i], 1);
}

static compute_status split_heads(model_call *call, attention *a, int64_t heads, int64_t shared) {
  compute_status status = attention_split(call, a->q, heads, &a->q);
  if (!status) status = attention_split(call, a->k, shared, &a->k);
  return status ? status : attention_split(call, a->v, shared, &a->v);
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* Indices of inputs that Attention and QAttention share. */
typedef struct attention_places {
  size_t mask, past, bias, length; /* SIZE_MAX: none */
} attention_places;

/* Half `i` of [2, batch, heads, keys, width]. */
static compute_node half_of(model_call *call, compute_node both, int64_t i) {
  const compute_shape s = compute_node_shape(call->graph, both);
  const compute_node half = compute_slice(call->graph, both, 0, i, 1, 1);
  return compute_reshape(
      call->graph, half,
      COMPUTE_SHAPE(shape_at(s, 1), shape_at(s, 2), shape_at(s, 3), shape_at(s, 4)));
}

static compute_node both_halves(model_call *call, const attention *a) {
  const compute_shape s = compute_node_shape(call->graph, a->k);
  const compute_shape one =
      COMPUTE_SHAPE(1, shape_at(s, 0), shape_at(s, 1), shape_at(s, 2), shape_at(s, 3));
  const compute_node parts[2] = {compute_reshape(call->graph, a->k, one),
                                 compute_reshape(call->graph, a->v, one)};
  return compute_concat(call->graph, parts, 2, 0);
}

/* Splits the projected input into q, k and v with the same heads. */
static compute_status split_projection(model_call *call, compute_node all, attention *a) {
  const compute_shape weights = call_shape(call, 1);
  const int64_t heads = call_attribute_i(call, "num_heads", 0);
  const int64_t third = weights.rank == 2 ? shape_at(weights, 1) / 3 : 0;
  const int64_t usual[3] = {third, third, third};
  size_t count;
  const int64_t *sizes = call_attribute_ints(call, "qkv_hidden_sizes", &count);
  if (sizes && count != 3)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "it has %zu qkv_hidden_sizes", count);
  for (size_t i = 0; sizes && i < 3; i++)
    if (sizes[i] < 0 || sizes[i] > INT32_MAX)
      return call_fail(call, COMPUTE_ERROR_SHAPE, "a hidden size is %" PRId64, sizes[i]);
  split_last(call, all, sizes ? sizes : usual, (compute_node *const[]){&a->q, &a->k, &a->v});
  return split_heads(call, a, heads, heads);
}

/* Writes new rows into a buffer that past and present share. Only the number of past rows is
 * known. */
static compute_status write_both(model_call *call, const attention_places *at, attention *a,
                                 past_keys *past, compute_node *present) {
  const compute_shape shape = call_shape(call, at->past), k = compute_node_shape(call->graph, a->k);
  if (!call_has(call, at->length))
    return call_fail(call, COMPUTE_ERROR_FORMAT,
                     "past_present_share_buffer needs past_sequence_length");
  past->length = compute_reshape(
      call->graph, op_cast(call, call_input(call, at->length), COMPUTE_I64), COMPUTE_SHAPE(1));
  compute_node rows = compute_reshape(
      call->graph, both_halves(call, a),
      COMPUTE_SHAPE(2 * shape_at(k, 0), shape_at(k, 1), shape_at(k, 2), shape_at(k, 3)));
  const compute_node buffer = compute_reshape(
      call->graph, call_input(call, at->past),
      COMPUTE_SHAPE(2 * shape_at(k, 0), shape_at(k, 1), shape_at(shape, 3), shape_at(k, 3)));
  const compute_status status = add_rows(call, past, buffer, &rows);
  *present = compute_reshape(call->graph, rows, shape);
  return status;
}

/* Joins the past's keys and values with the new ones, and makes the present if it has users. */
static compute_status read_past(model_call *call, const attention_places *at, attention *a,
                                past_keys *past, compute_node *present) {
  const bool shared = call_attribute_i(call, "past_present_share_buffer", 0) != 0;
  const compute_shape shape = call_shape(call, at->past);
  compute_status status = COMPUTE_OK;
  *past = (past_keys){0};
  if (call_has(call, at->past) && shape.rank != 5)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "past has %d axes, not 5", (int)shape.rank);
  if (call_has(call, at->past) && shared) {
    status = write_both(call, at, a, past, present);
    a->k = half_of(call, *present, 0);
    a->v = half_of(call, *present, 1);
    return status;
  }
  if (call_has(call, at->past)) {
    past->keys = shape_at(shape, 3);
    status = add_rows(call, past, half_of(call, call_input(call, at->past), 0), &a->k);
    if (!status) status = add_rows(call, past, half_of(call, call_input(call, at->past), 1), &a->v);
  }
  if (!status && call_wants(call, 1)) *present = both_halves(call, a);
  return status;
}

static compute_status attend(model_call *call, compute_node all, const attention_places *at) {
  attention a = begin(call);
  past_keys past;
  compute_node y, scores, present = {0};
  if (call_attribute_i(call, "do_rotary", 0) != 0)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "do_rotary is not supported");
  compute_status status = split_projection(call, all, &a);
  if (status || compute_graph_status(call->graph)) return status;
  const int64_t more = shape_at(compute_node_shape(call->graph, a.k), 2);
  status = read_past(call, at, &a, &past, &present);
  if (!status) status = read_mask(call, &a, at->mask, &past);
  if (status) return status;
  read_bias(call, &a, at->bias);
  read_frontier(call, &a, &past, more, call_attribute_i(call, "unidirectional", 0) != 0, -1);
  status = attention_run(call, &a, &y, &scores);
  if (status) return status;
  call_output(call, 1, present);
  return call_output(call, 0, attention_join(call, y));
}

static compute_node with_bias(model_call *call, compute_node x) {
  return call_has(call, 2) ? compute_add(call->graph, x, call_input(call, 2)) : x;
}

static compute_status runtime_attention_rule(model_call *call) {
  const compute_node all = compute_matmul(call->graph, call_input(call, 0), call_input(call, 1));
  return attend(call, with_bias(call, all),
                &(attention_places){.mask = 3, .past = 4, .bias = 5, .length = 6});
}

/* QAttention: input and weights are quantized. */
static compute_status quantized_attention_rule(model_call *call) {
  const compute_node scale =
      compute_mul(call->graph, quantized_scale(call, 3, false), quantized_scale(call, 4, false));
  const compute_node sums = op_cast(call, quantized_product(call, 0, 6, 1, 7), COMPUTE_F32);
  return attend(call, with_bias(call, compute_mul(call->graph, sums, scale)),
                &(attention_places){.mask = 5, .past = 8, .bias = SIZE_MAX, .length = SIZE_MAX});
}

/* ---- MultiHeadAttention ---------------------------------------------------------------------- */

/* Part `i` of [batch, length, heads, parts, width] as [batch, heads, length, width]. */
static compute_node packed_part(model_call *call, size_t input, int64_t i) {
  const compute_shape s = call_shape(call, input);
  compute_node x = compute_slice(call->graph, call_input(call, input), 3, i, 1, 1);
  x = compute_reshape(
      call->graph, x,
      COMPUTE_SHAPE(shape_at(s, 0), shape_at(s, 1), shape_at(s, 2), shape_at(s, 4)));
  return compute_transpose(call->graph, x, COMPUTE_AXES(0, 2, 1, 3));
}

/* Splits input i into heads after adding its part of the bias. Passes 4-D inputs through. */
static compute_status unpacked_part(model_call *call, size_t i, int64_t heads, int64_t first,
                                    compute_node *x) {
  *x = call_input(call, i);
  if (call_shape(call, i).rank == 4) return COMPUTE_OK; /* another node's present */
  if (call_has(call, 3) && call_shape(call, i).rank == 3)
    *x = compute_add(call->graph, *x,
                     compute_slice(call->graph, call_input(call, 3), 0, first,
                                   shape_at(call_shape(call, i), 2), 1));
  return attention_split(call, *x, heads, x);
}

static compute_status read_operands(model_call *call, attention *a) {
  const int64_t heads = call_attribute_i(call, "num_heads", 0);
  const compute_shape q = call_shape(call, 0), k = call_shape(call, 1);
  if ((q.rank == 5 || k.rank == 5) && call_has(call, 3))
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "a bias of packed operands");
  if (q.rank == 5) {
    a->q = packed_part(call, 0, 0);
    a->k = packed_part(call, 0, 1);
    a->v = packed_part(call, 0, 2);
    return COMPUTE_OK;
  }
  compute_status status = unpacked_part(call, 0, heads, 0, &a->q);
  if (k.rank == 5) {
    a->k = packed_part(call, 1, 0);
    a->v = packed_part(call, 1, 1);
    return status;
  }
  const compute_shape taken = compute_node_shape(call->graph, call_input(call, 0));
  const int64_t width = taken.rank == 3 ? shape_at(taken, 2) : 0;
  if (!status) status = unpacked_part(call, 1, heads, width, &a->k);
  return status ? status : unpacked_part(call, 2, heads, 2 * width, &a->v);
}

static compute_status multi_head_attention_rule(model_call *call) {
  attention a = begin(call);
  compute_node y, scores;
  if (call_has(call, 9)) /* a shared cache or beam search */
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "cache_indirection is not supported");
  compute_status status = read_operands(call, &a);
  if (status) return status;
  if (compute_graph_status(call->graph)) return COMPUTE_OK; /* reported after the rule */
  const int64_t more = shape_at(compute_node_shape(call->graph, a.k), 2);
  past_keys past = {.keys = call_has(call, 6) ? shape_at(call_shape(call, 6), 2) : 0};
  if (call_has(call, 6) && call_has(call, 8)) /* a buffer shared with the present */
    past.length = compute_reshape(call->graph, op_cast(call, call_input(call, 8), COMPUTE_I64),
                                  COMPUTE_SHAPE(1));
  status = add_rows(call, &past, call_input(call, 6), &a.k);
  if (!status) status = add_rows(call, &past, call_input(call, 7), &a.v);
  if (!status) status = read_mask(call, &a, 4, &past);
  if (status) return status;
  read_bias(call, &a, 5);
  read_frontier(call, &a, &past, more, call_attribute_i(call, "unidirectional", 0) != 0, -1);
  if (call_wants(call, 3)) a.stage = ATTENTION_PRODUCTS;
  status = attention_run(call, &a, &y, &scores);
  if (status) return status;
  call_output(call, 0, attention_join(call, y));
  call_output(call, 1, a.k);
  call_output(call, 2, a.v);
  return call_output(call, 3, scores);
}

/* ---- GroupQueryAttention --------------------------------------------------------------------- */

/* The place of the new keys. */
typedef struct cache {
  int64_t held, more, total; /* keys in the past buffer, new keys, keys in the present buffer */
  past_keys past;
} cache;

/* The present has the size of the past buffer or of the longest sequence, whichever is larger.
 * As long as all sequences fit, one plan serves all lengths. */
static compute_status read_cache(model_call *call, const attention *a, cache *c) {
  compute_graph *graph = call->graph;
  const compute_shape k = compute_node_shape(graph, a->k);
  const int64_t held = call_shape(call, 3).rank == 4 ? shape_at(call_shape(call, 3), 2) : 0;
  *c = (cache){.held = held, .more = shape_at(k, 2), .past.keys = held};
  const compute_status status = call_integer_at_least(call, 6, held > 0 ? held : 1, &c->total);
  if (status) return status;
  if (c->total < c->more || c->total > INT32_MAX)
    return call_fail(call, COMPUTE_ERROR_SHAPE,
                     "total_sequence_length is %" PRId64 ", with %" PRId64 " new keys", c->total,
                     c->more);
  /* The past fills its buffer: a first prompt, or growing buffers. */
  if (c->held + c->more == c->total && (shape_at(k, 0) == 1 || c->held == 0)) return COMPUTE_OK;
  compute_node length = compute_reshape(graph, op_cast(call, call_input(call, 5), COMPUTE_I64),
                                        COMPUTE_SHAPE(shape_at(k, 0)));
  length = compute_sub(graph, length, compute_scalar_i64(graph, COMPUTE_I64, c->more - 1));
  /* Negative if a first prompt is padded. */
  c->past.length = compute_clamp_i64(graph, length, 0, INT32_MAX);
  return COMPUTE_OK;
}

/* Makes a present larger than the past buffer: the valid past, then the new keys, then zeros. */
static compute_node enlarge(model_call *call, const cache *c, compute_node past,
                            compute_node more) {
  compute_graph *graph = call->graph;
  const compute_node all = attention_append(call, past, more);
  const compute_shape shape = compute_node_shape(graph, all);
  const compute_shape wide =
      COMPUTE_SHAPE(shape_at(shape, 0), shape_at(shape, 1), c->total, shape_at(shape, 3));
  const compute_node place = compute_index(graph, COMPUTE_I64, wide, 2);
  const compute_node length = compute_clamp_i64(graph, c->past.length, 0, c->held);
  const compute_node ahead =
      compute_sub(graph, place, compute_reshape(graph, length, COMPUTE_SHAPE(-1, 1, 1, 1)));
  compute_node from = compute_add(graph, ahead, compute_scalar_i64(graph, COMPUTE_I64, c->held));
  from = compute_clamp_i64(graph, from, 0, c->held + c->more - 1);
  const compute_node none = compute_scalar_i64(graph, COMPUTE_I64, 0);
  from = compute_select(graph, compute_less(graph, ahead, none), place, from);
  const compute_node y = compute_gather_elements(graph, all, from, 2);
  const compute_node end = compute_scalar_i64(graph, COMPUTE_I64, c->more);
  return compute_select(graph, compute_less(graph, ahead, end), y, call_scalar_like(call, y, 0));
}

static compute_status store(model_call *call, const cache *c, size_t past, compute_node *rows) {
  if (!compute_node_is_valid(c->past.length) || c->total == c->held)
    return add_rows(call, &c->past, call_input(call, past), rows);
  *rows = enlarge(call, c, call_input(call, past), *rows);
  return COMPUTE_OK;
}

/* Positions [batch or 1, queries] of the new keys. */
static compute_node positions(model_call *call, const cache *c) {
  compute_graph *graph = call->graph;
  if (call_has(call, 9)) return op_cast(call, call_input(call, 9), COMPUTE_I64);
  const compute_node step = compute_index(graph, COMPUTE_I64, COMPUTE_SHAPE(1, c->more), 1);
  const compute_node past = compute_node_is_valid(c->past.length)
                                ? compute_reshape(graph, c->past.length, COMPUTE_SHAPE(-1, 1))
                                : compute_scalar_i64(graph, COMPUTE_I64, c->held);
  return compute_add(graph, step, past);
}

static compute_status turn(model_call *call, attention *a, const cache *c) {
  const bool interleaved = call_attribute_i(call, "rotary_interleaved", 0) != 0;
  if (call_attribute_i(call, "do_rotary", 0) == 0) return COMPUTE_OK;
  if (!call_has(call, 7) || !call_has(call, 8) || call_shape(call, 7).rank != 2 ||
      shape_at(call_shape(call, 7), 1) > INT32_MAX)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "do_rotary needs cosines and sines");
  const int64_t width = 2 * shape_at(call_shape(call, 7), 1);
  const compute_node places = positions(call, c);
  const compute_node cosines = compute_gather(call->graph, call_input(call, 7), places, 0);
  const compute_node sines = compute_gather(call->graph, call_input(call, 8), places, 0);
  const compute_status status = attention_rotate(call, cosines, sines, width, interleaved, &a->q);
  return status ? status : attention_rotate(call, cosines, sines, width, interleaved, &a->k);
}

/* Reads q, k and v: separate inputs, or all packed in the first one. */
static compute_status read_groups(model_call *call, attention *a) {
  const int64_t heads = call_attribute_i(call, "num_heads", 0);
  const int64_t shared = call_attribute_i(call, "kv_num_heads", 0);
  const compute_shape q = call_shape(call, 0);
  a->q = call_input(call, 0);
  a->k = call_input(call, 1);
  a->v = call_input(call, 2);
  if (!call_has(call, 1)) {
    const int64_t all =
        heads > 0 && shared > 0 && shared <= heads && heads < INT32_MAX ? heads + 2 * shared : 0;
    if (q.rank != 3 || all == 0 || shape_at(q, 2) % all != 0)
      return call_fail(call, COMPUTE_ERROR_SHAPE, "its heads do not share the first input");
    const int64_t width = shape_at(q, 2) / all,
                  sizes[3] = {heads * width, shared * width, shared * width};
    split_last(call, a->q, sizes, (compute_node *const[]){&a->q, &a->k, &a->v});
  }
  return split_heads(call, a, heads, shared);
}

static compute_status check_groups(model_call *call) {
  for (size_t i = 12; i < call->input_count; i++)
    if (call_has(call, i))
      return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "input %zu is not supported", i);
  if (call_attribute_i(call, "sliding_window_cache", 0) != 0)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "sliding_window_cache is not supported");
  return COMPUTE_OK;
}

static compute_status group_query_attention_rule(model_call *call) {
  const int64_t window = call_attribute_i(call, "local_window_size", -1);
  attention a = begin(call);
  cache c;
  compute_node y, scores;
  compute_status status = check_groups(call);
  if (!status) status = read_groups(call, &a);
  if (!status) status = read_cache(call, &a, &c);
  if (!status) status = turn(call, &a, &c);
  if (!status) status = store(call, &c, 3, &a.k);
  if (!status) status = store(call, &c, 4, &a.v);
  if (status) return status;
  read_bias(call, &a, 10);
  read_frontier(call, &a, &c.past, c.more, call_attribute_i(call, "causal", 1) != 0,
                window > 0 ? window - 1 : -1);
  if (call_has(call, 11))
    a.sink = call_input(call, 11);
  else if (call_attribute_i(call, "smooth_softmax", 0) > 0)
    a.sink = call_scalar_like(call, a.q, 0);
  status = attention_run(call, &a, &y, &scores);
  if (status) return status;
  call_output(call, 0, attention_join(call, y));
  call_output(call, 1, a.k);
  return call_output(call, 2, a.v);
}

/* ---- EmbedLayerNormalization ----------------------------------------------------------------- */

/* Positions of tokens: given, or 0, 1, 2, … */
static compute_node token_places(model_call *call) {
  if (call_has(call, 8)) return call_input(call, 8);
  return compute_index(call->graph, COMPUTE_I64, call_shape(call, 0), 1);
}

static compute_status embed_layer_norm_rule(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_shape tokens = call_shape(call, 0);
  if (tokens.rank != 2)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "input_ids has %d axes", (int)tokens.rank);
  compute_node sum = compute_gather(graph, call_input(call, 2), call_input(call, 0), 0);
  sum = compute_add(graph, sum, compute_gather(graph, call_input(call, 3), token_places(call), 0));
  if (call_has(call, 4))
    sum =
        compute_add(graph, sum, compute_gather(graph, call_input(call, 4), call_input(call, 1), 0));
  call_output(call, 0,
              compute_layer_norm(graph, sum, call_input(call, 5), call_input(call, 6),
                                 call_attribute_f(call, "epsilon", 1e-12)));
  const compute_node ends =
      call_has(call, 7) ? compute_sum(graph, op_cast(call, call_input(call, 7), COMPUTE_I32),
                                      COMPUTE_AXES(1), false)
                        : call_zeros(call, COMPUTE_I32, COMPUTE_SHAPE(shape_at(tokens, 0)));
  call_output(call, 1, ends);
  return call_output(call, 2, sum);
}

static const operator_row rows[] = {
    {"com.microsoft", "Attention", 1, runtime_attention_rule},
    {"com.microsoft", "EmbedLayerNormalization", 1, embed_layer_norm_rule},
    {"com.microsoft", "GroupQueryAttention", 1, group_query_attention_rule},
    {"com.microsoft", "MultiHeadAttention", 1, multi_head_attention_rule},
    {"com.microsoft", "QAttention", 1, quantized_attention_rule},
};

const operator_family operators_attention_runtime = OPERATOR_FAMILY(rows);
