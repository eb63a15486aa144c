/* SPDX-License-Identifier: MIT */
/* If, Loop and Scan. Their graphs are recorded in the node's place. A loop body is recorded once
 * per iteration. If the iterations are many, or their number is known only during a run, the
 * body is compiled once (loop.h). If a condition is known only during a run, the plan ends
 * there. */
#include <inttypes.h>
#include <string.h>

#include "core/type/shape.h"
#include "model/loop.h"
#include "model/record.h"

/* Limits on a loop's nodes over all iterations. Up to FEW_NODES the iterations are recorded one
 * by one, because operations of different iterations can then be fused. Above MOST_NODES this is
 * refused. */
enum { FEW_NODES = 1 << 13, MOST_NODES = 1 << 17 };

/* Limit on iterations that are recorded one by one. */
#define MOST_ROUNDS 100000

/* Returns true if `rounds` iterations (−1: no limit) make more nodes than `most`. */
static bool makes_more(const onnx_graph *body, int64_t rounds, int64_t most) {
  return rounds > most / (int64_t)(body->node_count + 1);
}

static compute_status fail_too_many(const model_call *call, int64_t rounds) {
  return call_fail(call, COMPUTE_ERROR_UNSUPPORTED,
                   "its %" PRId64 " iterations cannot be run by one plan, and are too many to be "
                   "recorded one by one",
                   rounds);
}

/* Allocates an array of value pointers for call_record_graph. */
static model_value **pointers(model_call *call, size_t count) {
  return call_allocate(call, count, sizeof(model_value *));
}

static const onnx_graph *graph_attribute(const model_call *call, const char *name) {
  const onnx_attribute *attribute = call_attribute(call, name);
  return attribute ? attribute->graph : NULL;
}

static compute_status pass_outputs(model_call *call, const void *state, model_value *const *outputs,
                                   size_t count) {
  (void)state;
  if (count < call->output_count)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "its graph has %zu outputs, not %zu", count,
                     call->output_count);
  for (size_t i = 0; i < call->output_count; i++) call_output_value(call, i, outputs[i]);
  return COMPUTE_OK;
}

static compute_status if_rule(model_call *call) {
  int64_t condition;
  const compute_status status = call_integer(call, 0, &condition);
  if (status) return status;
  const onnx_graph *branch = graph_attribute(call, condition ? "then_branch" : "else_branch");
  if (!branch) return call_fail(call, COMPUTE_ERROR_FORMAT, "a branch is missing");
  return call_record_graph(call, branch, NULL, 0, pass_outputs, NULL, 0);
}

/* ---- Loop ---------------------------------------------------------------------------------- */

typedef struct loop_state {
  int64_t round, rounds; /* −1: no limit */
  size_t carried, scanned;
} loop_state;

/* A number on the host, in the recording's memory. */
static model_value *host_number(model_call *call, compute_dtype dtype, int64_t number) {
  model_value *value = call_allocate(call, 1, sizeof *value);
  int64_t *wide = call_allocate(call, 1, sizeof *wide);
  if (!value || !wide) return NULL;
  if (dtype == COMPUTE_BOOL)
    *(uint8_t *)wide = number != 0;
  else
    *wide = number;
  *value = (model_value){
      .kind = VALUE_TENSOR, .dtype = dtype, .type = onnx_type_of(dtype), .id = -1, .host = wide};
  return value;
}

/* Stacks values of equal shapes along a new axis. */
static compute_status join(model_call *call, size_t output, model_value *const *values,
                           size_t count, int32_t axis, bool reverse, compute_node *joined) {
  compute_node *parts = call_allocate(call, count, sizeof *parts);
  if (!parts) return call_out_of_memory(call);
  for (size_t i = 0; i < count; i++) {
    model_value *value = values[i];
    compute_shape shape = {.rank = value->shape.rank + 1};
    if (value->type == ONNX_STRING)
      return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "output %zu stacks texts", output);
    if (shape.rank > COMPUTE_MAX_RANK)
      return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "output %zu has too many dimensions",
                       output);
    const int32_t at = axis < 0 ? axis + shape.rank : axis;
    if (at < 0 || at >= shape.rank)
      return call_fail(call, COMPUTE_ERROR_SHAPE, "axis %d of output %zu is out of range", axis,
                       output);
    for (int32_t k = 0; k < shape.rank; k++)
      shape_set(&shape, k, k == at ? 1 : shape_at(value->shape, k - (k > at)));
    parts[reverse ? count - 1 - i : i] =
        compute_reshape(call->graph, call_node(call, value), shape);
    axis = at;
  }
  *joined = compute_concat(call->graph, parts, count, axis);
  return COMPUTE_OK;
}

/* Stacks one scanned output's values of all iterations. The kept values are the last iteration's
 * carried ones, then each iteration's scanned ones. */
static compute_status stack(model_call *call, size_t output, size_t first, size_t step,
                            const onnx_value_info *info, int32_t axis, bool reverse) {
  size_t count = 0;
  for (size_t i = first; i < call_held_count(call); i += step) count++;
  if (count == 0) {
    compute_shape shape = {.rank = info->rank < 0 ? 1 : info->rank + 1};
    if (shape.rank > COMPUTE_MAX_RANK)
      return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "output %zu has too many dimensions",
                       output);
    for (int32_t i = 1; i < shape.rank; i++)
      shape_set(&shape, i, info->size[i - 1] < 0 ? 0 : info->size[i - 1]);
    return call_output(call, output, call_zeros(call, onnx_dtype(info->type), shape));
  }
  model_value **values = pointers(call, count);
  if (!values) return call_out_of_memory(call);
  for (size_t i = 0; i < count; i++) values[i] = call_held(call, first + i * step);
  compute_node joined;
  const compute_status status = join(call, output, values, count, axis, reverse, &joined);
  return status ? status : call_output(call, output, joined);
}

static compute_status end_loop(model_call *call, const loop_state *state, const onnx_graph *body) {
  for (size_t i = 0; i < state->carried && i < call->output_count; i++)
    call_output_value(call, i, call_held(call, i));
  for (size_t k = 0; k < state->scanned; k++) {
    const size_t output = state->carried + k;
    if (output >= call->output_count) break;
    const compute_status status = stack(call, output, state->carried + k, state->scanned,
                                        &body->outputs[1 + output], 0, false);
    if (status) return status;
  }
  return COMPUTE_OK;
}

static compute_status begin_round(model_call *call, const loop_state *state,
                                  const onnx_graph *body);

static compute_status finish_round(model_call *call, const void *from, model_value *const *outputs,
                                   size_t count) {
  loop_state state = *(const loop_state *)from;
  const onnx_graph *body = graph_attribute(call, "body");
  int64_t goes_on;
  const compute_status status = call_value_integer(call, outputs[0], &goes_on);
  if (status) return status;
  for (size_t i = 0; i < state.carried; i++) *call_held(call, i) = *outputs[1 + i];
  for (size_t i = 1 + state.carried; i < count; i++) {
    const compute_status held = call_hold(call, outputs[i]);
    if (held) return held;
  }
  state.round++;
  if (!goes_on || (state.rounds >= 0 && state.round >= state.rounds))
    return end_loop(call, &state, body);
  return begin_round(call, &state, body);
}

static compute_status begin_round(model_call *call, const loop_state *state,
                                  const onnx_graph *body) {
  if (state->round >= MOST_ROUNDS)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "it has more than %d iterations",
                     MOST_ROUNDS);
  model_value **inputs = pointers(call, 2 + state->carried);
  if (!inputs) return call_out_of_memory(call);
  inputs[0] = host_number(call, COMPUTE_I64, state->round);
  inputs[1] = host_number(call, COMPUTE_BOOL, 1);
  if (!inputs[0] || !inputs[1]) return call_out_of_memory(call);
  for (size_t i = 0; i < state->carried; i++) inputs[2 + i] = call_held(call, i);
  return call_record_graph(call, body, inputs, 2 + state->carried, finish_round, state,
                           sizeof *state);
}

/* Compiles the loop if this is better. */
static compute_status take_loop(model_call *call, const onnx_graph *body, const loop_state *state,
                                bool *taken) {
  loop_condition condition = LOOP_COUNTS;
  model_loop loop = {.body = body,
                     .state_count = state->carried,
                     .out_count = state->scanned,
                     .first_input = 2,
                     .counts = true,
                     .trips = state->rounds,
                     .in_axis = call_allocate(call, 0, sizeof(int32_t)),
                     .in_reverse = call_allocate(call, 0, sizeof(bool)),
                     .out_axis = call_allocate(call, state->scanned, sizeof(int32_t)),
                     .out_reverse = call_allocate(call, state->scanned, sizeof(bool))};
  *taken = false;
  if (!loop.in_axis || !loop.in_reverse || !loop.out_axis || !loop.out_reverse)
    return call_out_of_memory(call);
  compute_status status = loop_condition_of(call, &loop, &condition);
  const bool many = makes_more(body, state->rounds, FEW_NODES), tests = condition == LOOP_TESTS;
  if (status || (!tests && !many && state->rounds >= 0)) return status;
  if (condition == LOOP_NEVER_ENDS && (state->rounds < 0 || state->rounds > LOOP_MOST_TRIPS))
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED,
                     "it has no end within %d iterations: its condition is always true",
                     LOOP_MOST_TRIPS);
  if (!tests && many) status = loop_take(call, &loop, taken);
  if (status || *taken) return status;
  loop.tests = true; /* the condition may depend on the iteration's number */
  return loop_take(call, &loop, taken);
}

static compute_status loop_rule(model_call *call) {
  const onnx_graph *body = graph_attribute(call, "body");
  if (!body || body->input_count < 2 || body->output_count < 1)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "its body is missing");
  int64_t rounds = -1, goes_on = 1;
  compute_status status = call_has(call, 0) ? call_integer(call, 0, &rounds) : COMPUTE_OK;
  if (!status && call_has(call, 1)) status = call_integer(call, 1, &goes_on);
  if (status) return status;
  if (call_has(call, 0) && rounds < 0) rounds = 0;
  const size_t carried = call->input_count > 2 ? call->input_count - 2 : 0;
  if (body->input_count != carried + 2 || body->output_count < carried + 1)
    return call_fail(call, COMPUTE_ERROR_FORMAT,
                     "it carries %zu values, its body has %zu inputs and %zu outputs", carried,
                     body->input_count, body->output_count);
  const loop_state state = {0, rounds, carried, body->output_count - 1 - carried};
  bool taken = false;
  if (goes_on && rounds != 0) status = take_loop(call, body, &state, &taken);
  if (status || taken) return status;
  if (goes_on && makes_more(body, rounds, MOST_NODES)) return fail_too_many(call, rounds);
  for (size_t i = 0; !status && i < carried; i++) status = call_hold(call, call->inputs[2 + i]);
  if (status) return status;
  return goes_on && rounds != 0 ? begin_round(call, &state, body) : end_loop(call, &state, body);
}

/* ---- Scan ---------------------------------------------------------------------------------- */

/* State of a Scan. Version 8 scans each batch entry separately; axis 0 of all inputs and outputs
 * is the batch, and `entries` is not 0. The kept values are the carried ones, then for each
 * entry the scanned ones of each iteration and the last carried ones. */
typedef struct scan_state {
  int64_t round, rounds, entry, entries;
  size_t carried, scanned, inputs;
} scan_state;

static model_value *scan_input(const model_call *call, const scan_state *state, size_t i) {
  return call->inputs[i + (state->entries ? 1 : 0)]; /* input 0 has the sequences' lengths */
}

static int64_t list_at(const model_call *call, const char *name, size_t i) {
  size_t count;
  const int64_t *list = call_attribute_ints(call, name, &count);
  return i < count ? list[i] : 0;
}

/* Slices `from` at one index of an axis and removes the axis. `from` keeps its node; `value` may
 * be `from`. */
static compute_status take_slice(model_call *call, model_value *from, int32_t axis, int64_t at,
                                 model_value *value) {
  compute_node node = compute_slice(call->graph, call_node(call, from), axis, at, 1, 1);
  compute_shape shape = {.rank = from->shape.rank - 1};
  for (int32_t k = 0; k < shape.rank; k++)
    shape_set(&shape, k, shape_at(from->shape, k + (k >= axis)));
  node = compute_reshape(call->graph, node, shape);
  *value = *from;
  value->tensor = NULL;
  value->host = NULL;
  value->shape = shape;
  value->node = node;
  return call_new_value(call, value);
}

/* The slice of a scanned input for an iteration. */
static compute_status scan_slice(model_call *call, const scan_state *state, size_t i,
                                 model_value *value) {
  const char *directions = state->entries ? "directions" : "scan_input_directions";
  model_value *from = scan_input(call, state, state->carried + i);
  int32_t axis;
  if (state->entries) {
    const compute_status sliced = take_slice(call, from, 0, state->entry, value);
    if (sliced) return sliced;
    from = value;
  }
  const compute_status status =
      call_axis(call, list_at(call, "scan_input_axes", i), from->shape.rank, &axis);
  if (status) return status;
  const bool reverse = list_at(call, directions, i) != 0;
  const int64_t at = reverse ? state->rounds - 1 - state->round : state->round;
  return take_slice(call, from, axis, at, value);
}

static compute_status begin_scan(model_call *call, const scan_state *state, const onnx_graph *body);

static compute_status end_scan(model_call *call, const scan_state *state, const onnx_graph *body) {
  for (size_t i = 0; i < state->carried && i < call->output_count; i++)
    call_output_value(call, i, call_held(call, i));
  for (size_t k = 0; k < state->scanned && state->carried + k < call->output_count; k++) {
    const size_t output = state->carried + k;
    const compute_status status =
        stack(call, output, output, state->scanned, &body->outputs[output],
              (int32_t)list_at(call, "scan_output_axes", k),
              list_at(call, "scan_output_directions", k) != 0);
    if (status) return status;
  }
  return COMPUTE_OK;
}

/* Stacks `each` values of every entry along a new first axis. In an entry they are `step` apart,
 * beginning at `first`. */
static compute_status join_entries(model_call *call, const scan_state *state, size_t output,
                                   size_t first, size_t step, size_t each, compute_node *joined) {
  const size_t entries = (size_t)state->entries;
  const size_t apart = (size_t)state->rounds * state->scanned + state->carried;
  model_value **values = pointers(call, entries * each);
  if (!values) return call_out_of_memory(call);
  for (size_t i = 0; i < entries * each; i++)
    values[i] = call_held(call, state->carried + i / each * apart + first + i % each * step);
  return join(call, output, values, entries * each, 0, false, joined);
}

/* Stacks all iterations of all entries: [entries, rounds, …]. */
static compute_status join_rounds(model_call *call, const scan_state *state, size_t k) {
  const size_t output = state->carried + k;
  compute_node joined;
  const compute_status status =
      join_entries(call, state, output, k, state->scanned, (size_t)state->rounds, &joined);
  if (status) return status;
  const compute_shape flat = compute_node_shape(call->graph, joined);
  compute_shape shape = {.rank = flat.rank + 1, .size = {state->entries, state->rounds}};
  if (shape.rank > COMPUTE_MAX_RANK)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "output %zu has too many dimensions", output);
  for (int32_t i = 2; i < shape.rank; i++) shape_set(&shape, i, shape_at(flat, i - 1));
  return call_output(call, output, compute_reshape(call->graph, joined, shape));
}

static compute_status end_entries(model_call *call, const scan_state *state) {
  const size_t last = (size_t)state->rounds * state->scanned;
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < state->carried && i < call->output_count; i++) {
    compute_node joined;
    status = join_entries(call, state, i, last + i, 1, 1, &joined);
    if (!status) status = call_output(call, i, joined);
  }
  for (size_t k = 0; !status && k < state->scanned && state->carried + k < call->output_count; k++)
    status = join_rounds(call, state, k);
  return status;
}

/* The initial values of an entry. */
static compute_status begin_entry(model_call *call, const scan_state *state,
                                  const onnx_graph *body) {
  for (size_t i = 0; i < state->carried; i++) {
    model_value value;
    compute_status status = take_slice(call, scan_input(call, state, i), 0, state->entry, &value);
    if (status) return status;
    if (state->entry > 0)
      *call_held(call, i) = value;
    else if ((status = call_hold(call, &value)))
      return status;
  }
  return begin_scan(call, state, body);
}

static compute_status end_entry(model_call *call, scan_state *state, const onnx_graph *body) {
  for (size_t i = 0; i < state->carried; i++) {
    const model_value value = *call_held(call, i);
    const compute_status status = call_hold(call, &value);
    if (status) return status;
  }
  state->round = 0;
  state->entry++;
  return state->entry < state->entries ? begin_entry(call, state, body) : end_entries(call, state);
}

static compute_status finish_scan(model_call *call, const void *from, model_value *const *outputs,
                                  size_t count) {
  scan_state state = *(const scan_state *)from;
  const onnx_graph *body = graph_attribute(call, "body");
  for (size_t i = 0; i < state.carried; i++) *call_held(call, i) = *outputs[i];
  for (size_t i = state.carried; i < count; i++) {
    const compute_status status = call_hold(call, outputs[i]);
    if (status) return status;
  }
  state.round++;
  if (state.round < state.rounds) return begin_scan(call, &state, body);
  return state.entries ? end_entry(call, &state, body) : end_scan(call, &state, body);
}

static compute_status begin_scan(model_call *call, const scan_state *state,
                                 const onnx_graph *body) {
  const size_t count = state->carried + state->inputs;
  model_value **inputs = pointers(call, count);
  model_value *slices = call_allocate(call, state->inputs, sizeof *slices);
  if (!inputs || !slices) return call_out_of_memory(call);
  for (size_t i = 0; i < state->carried; i++) inputs[i] = call_held(call, i);
  for (size_t i = 0; i < state->inputs; i++) {
    const compute_status status = scan_slice(call, state, i, &slices[i]);
    if (status) return status;
    inputs[state->carried + i] = &slices[i];
  }
  return call_record_graph(call, body, inputs, count, finish_scan, state, sizeof *state);
}

/* Compiles the scan if it has many iterations. */
static compute_status take_scan(model_call *call, const onnx_graph *body, const scan_state *state,
                                bool *taken) {
  int32_t *in_axis = call_allocate(call, state->inputs, sizeof *in_axis);
  int32_t *out_axis = call_allocate(call, state->scanned, sizeof *out_axis);
  bool *in_reverse = call_allocate(call, state->inputs, sizeof *in_reverse);
  bool *out_reverse = call_allocate(call, state->scanned, sizeof *out_reverse);
  *taken = false;
  if (!in_axis || !out_axis || !in_reverse || !out_reverse) return call_out_of_memory(call);
  for (size_t i = 0; i < state->inputs; i++) {
    const compute_shape shape = call_shape(call, state->carried + i);
    const compute_status status =
        call_axis(call, list_at(call, "scan_input_axes", i), shape.rank, &in_axis[i]);
    if (status) return status;
    if (shape_at(shape, in_axis[i]) != state->rounds) return COMPUTE_OK;
    in_reverse[i] = list_at(call, "scan_input_directions", i) != 0;
  }
  for (size_t i = 0; i < state->scanned; i++) {
    out_axis[i] = (int32_t)list_at(call, "scan_output_axes", i);
    out_reverse[i] = list_at(call, "scan_output_directions", i) != 0;
  }
  return loop_take(call,
                   &(model_loop){.body = body,
                                 .state_count = state->carried,
                                 .in_count = state->inputs,
                                 .out_count = state->scanned,
                                 .trips = state->rounds,
                                 .in_axis = in_axis,
                                 .in_reverse = in_reverse,
                                 .out_axis = out_axis,
                                 .out_reverse = out_reverse},
                   taken);
}

static compute_status scan_rule(model_call *call) {
  const onnx_graph *body = graph_attribute(call, "body");
  const int64_t scanned = call_attribute_i(call, "num_scan_inputs", 0);
  if (!body || scanned < 1 || (size_t)scanned > call->input_count ||
      body->input_count != call->input_count)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "its body or num_scan_inputs does not fit");
  scan_state state = {.inputs = (size_t)scanned, .carried = call->input_count - (size_t)scanned};
  if (body->output_count < state.carried)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "its body has too few outputs");
  state.scanned = body->output_count - state.carried;
  int32_t axis;
  compute_status status = call_axis(call, list_at(call, "scan_input_axes", 0),
                                    call->inputs[state.carried]->shape.rank, &axis);
  if (status) return status;
  state.rounds = shape_at(call->inputs[state.carried]->shape, axis);
  bool taken = false;
  if (makes_more(body, state.rounds, FEW_NODES)) status = take_scan(call, body, &state, &taken);
  if (status || taken) return status;
  if (makes_more(body, state.rounds, MOST_NODES)) return fail_too_many(call, state.rounds);
  for (size_t i = 0; !status && i < state.carried; i++) status = call_hold(call, call->inputs[i]);
  if (status) return status;
  return state.rounds > 0 ? begin_scan(call, &state, body) : end_scan(call, &state, body);
}

static compute_status scan_batched(model_call *call) {
  const onnx_graph *body = graph_attribute(call, "body");
  const int64_t scanned = call_attribute_i(call, "num_scan_inputs", 0);
  if (!body || call->input_count < 2 || scanned < 1 || (size_t)scanned > call->input_count - 1 ||
      body->input_count != call->input_count - 1)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "its body or num_scan_inputs does not fit");
  if (call_has(call, 0))
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED,
                     "lengths of sequences (sequence_lens) are not supported");
  scan_state state = {.inputs = (size_t)scanned, .carried = body->input_count - (size_t)scanned};
  if (body->output_count < state.carried)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "its body has too few outputs");
  state.scanned = body->output_count - state.carried;
  const compute_shape first = call_shape(call, 1 + state.carried);
  for (size_t i = 0; i < body->input_count; i++) {
    const compute_shape shape = call_shape(call, 1 + i);
    const int32_t least = i < state.carried ? 1 : 2;
    if (shape.rank < least || first.rank < 2 || shape_at(shape, 0) != shape_at(first, 0) ||
        (least == 2 && shape_at(shape, 1) != shape_at(first, 1)))
      return call_fail(call, COMPUTE_ERROR_SHAPE,
                       "its inputs differ in the batch or in the length of the sequence");
  }
  state.entries = shape_at(first, 0);
  state.rounds = shape_at(first, 1);
  if (state.entries < 1 || state.rounds < 1)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "an empty batch or sequence");
  if (state.entries > MOST_NODES / state.rounds ||
      makes_more(body, state.rounds * state.entries, MOST_NODES))
    return fail_too_many(call, state.rounds);
  return begin_entry(call, &state, body);
}

static const operator_row rows[] = {
    {"", "If", 1, if_rule},
    {"", "Loop", 1, loop_rule},
    {"", "Scan", 9, scan_rule},
    {"", "Scan", 8, scan_batched},
};

const operator_family operators_control = OPERATOR_FAMILY(rows);
