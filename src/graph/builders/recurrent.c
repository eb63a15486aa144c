/* SPDX-License-Identifier: MIT */
/* LSTM, GRU and RNN. One product projects the inputs of all steps, and one node runs the steps.
 *
 * The result of that node has one row for each step, then the last states. The caller receives
 * slices. */
#include <inttypes.h>
#include <string.h>

#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"

enum { MOST_INPUTS = 9 };

typedef struct recurrent_call {
  compute_graph *graph;
  const char *operation;
  const compute_recurrent_options *options;
  compute_recurrent_attributes geometry;
  compute_dtype dtype;
  int64_t steps, batch, inputs, hidden, columns; /* columns: gates · hidden */
} recurrent_call;

static bool is_given(compute_node node) {
  return node.id != 0 || node.graph != 0;
}

static bool has_shape(const recurrent_call *call, const char *name, compute_node x,
                      compute_dtype dtype, compute_shape wanted) {
  uint32_t index;
  char have[BUILD_TEXT], want[BUILD_TEXT];
  if (!build_operands(call->graph, call->operation, &x, 1, &index)) return false;
  const graph_node *node = build_at(call->graph, index);
  if (node->dtype != dtype)
    return graph_refuse(call->graph, COMPUTE_ERROR_DTYPE, call->operation,
                        "%s is %s; it must be %s", name, compute_dtype_name(node->dtype),
                        compute_dtype_name(dtype));
  if (compute_shape_equal(node->shape, wanted)) return true;
  return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, call->operation, "%s is %s instead of %s",
                      name, compute_shape_text(node->shape, have, sizeof have),
                      compute_shape_text(wanted, want, sizeof want));
}

static bool check_weights(recurrent_call *call, compute_node x, compute_node w, compute_node r) {
  const compute_node operands[3] = {x, w, r};
  uint32_t indices[3];
  char text[3][BUILD_TEXT];
  compute_shape shape[3];
  if (!build_operands(call->graph, call->operation, operands, 3, indices)) return false;
  call->dtype = build_at(call->graph, indices[0])->dtype;
  if (!build_domain(call->graph, call->operation, DOMAIN_FLOAT, call->dtype)) return false;
  for (int i = 0; i < 3; i++) {
    shape[i] = build_at(call->graph, indices[i])->shape;
    compute_shape_text(shape[i], text[i], sizeof text[i]);
  }
  call->steps = shape[0].size[0];
  call->batch = shape[0].size[1];
  call->inputs = shape[0].size[2];
  call->hidden = shape[2].size[0];
  call->columns = call->hidden * compute_recurrent_gates(call->geometry.cell);
  if (shape[0].rank != 3 || shape[2].rank != 2 || call->columns != shape[2].size[1])
    return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, call->operation,
                        "x %s and r %s must be [steps,batch,inputs] and [hidden,%d hidden]",
                        text[0], text[2], (int)compute_recurrent_gates(call->geometry.cell));
  return has_shape(call, "w", w, call->dtype, COMPUTE_SHAPE(call->inputs, call->columns)) &&
         has_shape(call, "r", r, call->dtype, COMPUTE_SHAPE(call->hidden, call->columns));
}

/* Checks an optional tensor. */
static bool check_tensor(const recurrent_call *call, const char *name, compute_node x,
                         compute_dtype dtype, compute_shape shape, bool known) {
  if (!is_given(x)) return true;
  if (!known)
    return graph_refuse(call->graph, COMPUTE_ERROR_INVALID_ARGUMENT, call->operation,
                        "options.%s is given, which this layer does not have", name);
  return has_shape(call, name, x, dtype, shape);
}

static bool check_options(recurrent_call *call) {
  const compute_recurrent_options *o = call->options;
  const compute_recurrent_attributes *g = &call->geometry;
  const bool lstm = g->cell == COMPUTE_RECURRENT_LSTM, gru = g->cell == COMPUTE_RECURRENT_GRU;
  const compute_shape state = COMPUTE_SHAPE(call->batch, call->hidden);
  if (!graph_check_reserved(call->graph, call->operation, "options", o->reserved)) return false;
  if (o->reset_after && !gru)
    return graph_refuse(call->graph, COMPUTE_ERROR_INVALID_ARGUMENT, call->operation,
                        "only gru has options.reset_after");
  if (o->clip < 0)
    return graph_refuse(call->graph, COMPUTE_ERROR_INVALID_ARGUMENT, call->operation,
                        "clip is %g; it must not be negative", o->clip);
  if (!build_number(call->graph, call->operation, "clip", dtype_compute_type(call->dtype), o->clip))
    return false;
  return check_tensor(call, "bias", o->bias, call->dtype, COMPUTE_SHAPE(call->columns), true) &&
         check_tensor(call, "state_bias", o->state_bias, call->dtype, COMPUTE_SHAPE(call->hidden),
                      g->reset_after) &&
         check_tensor(call, "initial_h", o->initial_h, call->dtype, state, true) &&
         check_tensor(call, "initial_c", o->initial_c, call->dtype, state, lstm) &&
         check_tensor(call, "peepholes", o->peepholes, call->dtype, COMPUTE_SHAPE(3 * call->hidden),
                      lstm) &&
         check_tensor(call, "lengths", o->lengths, COMPUTE_I32, COMPUTE_SHAPE(call->batch), true);
}

static compute_node initial_state(const recurrent_call *call, compute_node given) {
  if (is_given(given)) return given;
  return compute_full(call->graph, call->dtype, COMPUTE_SHAPE(call->batch, call->hidden), 0);
}

/* x w + bias, [steps, batch, columns]. */
static compute_node project(const recurrent_call *call, compute_node x, compute_node w) {
  const compute_node flat =
      compute_reshape(call->graph, x, COMPUTE_SHAPE(call->steps * call->batch, call->inputs));
  compute_node y = compute_matmul(call->graph, flat, w);
  if (is_given(call->options->bias)) y = compute_add(call->graph, y, call->options->bias);
  return compute_reshape(call->graph, y, COMPUTE_SHAPE(call->steps, call->batch, call->columns));
}

/* `quantized` has the scale and the zero point of r, or NULL. */
static compute_node record_steps(const recurrent_call *call, compute_node x, compute_node r,
                                 const compute_node *quantized) {
  const compute_recurrent_options *o = call->options;
  const compute_recurrent_attributes *g = &call->geometry;
  compute_node operands[MOST_INPUTS] = {x, r, initial_state(call, o->initial_h)};
  uint32_t inputs[MOST_INPUTS];
  size_t count = 3;
  if (g->cell == COMPUTE_RECURRENT_LSTM) operands[count++] = initial_state(call, o->initial_c);
  if (g->lengths) operands[count++] = o->lengths;
  if (g->bias) operands[count++] = o->state_bias;
  if (g->peepholes) operands[count++] = o->peepholes;
  for (int i = 0; i < 2 && g->quantized; i++) operands[count++] = quantized[i];
  if (!build_operands(call->graph, call->operation, operands, count, inputs)) return BUILD_NONE;
  graph_node node = {.op = OP_recurrent,
                     .dtype = call->dtype,
                     .shape = COMPUTE_SHAPE(call->steps + compute_recurrent_states(g->cell),
                                            call->batch, call->hidden),
                     .constant = graph_constant_create(1, sizeof *g)};
  if (!node.constant)
    return graph_fail(call->graph, COMPUTE_ERROR_OUT_OF_MEMORY, call->operation,
                      "not enough memory for a node");
  memcpy(node.constant, g, sizeof *g);
  return build_node(call->graph, call->operation, &node, inputs, count);
}

static compute_node state_of(const recurrent_call *call, compute_node all, int64_t row) {
  return compute_reshape(call->graph, compute_slice(call->graph, all, 0, row, 1, 1),
                         COMPUTE_SHAPE(call->batch, call->hidden));
}

static void read_options(recurrent_call *call, compute_recurrent_cell cell) {
  const compute_recurrent_options *o = call->options;
  compute_recurrent_attributes *g = &call->geometry;
  memset(g, 0, sizeof *g); /* compared as bytes */
  g->cell = cell;
  g->reverse = o->reverse;
  g->reset_after = o->reset_after;
  g->lengths = is_given(o->lengths);
  g->bias = is_given(o->state_bias);
  g->peepholes = is_given(o->peepholes);
  g->clip = o->clip;
}

/* Records the steps, and returns h of all. `quantized` as in record_steps. */
static compute_node finish(const recurrent_call *call, compute_node x, compute_node r,
                           const compute_node *quantized, compute_recurrent_state *last) {
  compute_graph *graph = call->graph;
  const compute_node all = record_steps(call, x, r, quantized);
  const compute_node y = compute_slice(graph, all, 0, 0, call->steps, 1);
  compute_recurrent_state state = {BUILD_NONE, BUILD_NONE};
  if (last) {
    state.h = state_of(call, all, call->steps);
    if (call->geometry.cell == COMPUTE_RECURRENT_LSTM)
      state.c = state_of(call, all, call->steps + 1);
  }
  if (graph->status) return BUILD_NONE;
  if (last) *last = state;
  return y;
}

static compute_node record(compute_graph *graph, const char *operation, compute_recurrent_cell cell,
                           compute_node x, compute_node w, compute_node r,
                           const compute_recurrent_options *options,
                           compute_recurrent_state *last) {
  static const compute_recurrent_options usual;
  BUILD_ALL_OR_NOTHING(graph);
  recurrent_call call = {
      .graph = graph, .operation = operation, .options = options ? options : &usual};
  if (last) *last = (compute_recurrent_state){BUILD_NONE, BUILD_NONE};
  read_options(&call, cell);
  if (!check_weights(&call, x, w, r) || !check_options(&call) ||
      !build_size(
          graph, operation,
          COMPUTE_SHAPE(call.steps + compute_recurrent_states(cell), call.batch, call.columns)))
    return BUILD_NONE;
  return finish(&call, project(&call, x, w), r, NULL, last);
}

compute_node network_quantized_lstm(compute_graph *graph, compute_node x,
                                    const network_quantized_weights *r,
                                    const compute_recurrent_options *options,
                                    compute_recurrent_state *last) {
  static const char operation[] = "quantized_lstm";
  const compute_shape shape = compute_node_shape(graph, x);
  const compute_node quantized[2] = {r->scale, r->zero};
  BUILD_ALL_OR_NOTHING(graph);
  recurrent_call call = {.graph = graph,
                         .operation = operation,
                         .options = options,
                         .dtype = COMPUTE_F32,
                         .steps = shape_at(shape, 0),
                         .batch = shape_at(shape, 1),
                         .columns = shape_at(shape, 2),
                         .hidden = shape_at(shape, 2) / 4};
  const compute_shape columns = COMPUTE_SHAPE(call.columns);
  *last = (compute_recurrent_state){BUILD_NONE, BUILD_NONE};
  read_options(&call, COMPUTE_RECURRENT_LSTM);
  call.geometry.quantized = true;
  if (!has_shape(&call, "x", x, COMPUTE_F32, shape) ||
      !has_shape(&call, "r", r->values, COMPUTE_I8, COMPUTE_SHAPE(call.hidden, call.columns)) ||
      !has_shape(&call, "scale", r->scale, COMPUTE_F32, columns) ||
      !has_shape(&call, "zero", r->zero, COMPUTE_I8, columns) || !check_options(&call))
    return BUILD_NONE;
  return finish(&call, x, r->values, quantized, last);
}

compute_node compute_rnn(compute_graph *graph, compute_node x, compute_node w, compute_node r,
                         const compute_recurrent_options *options, compute_recurrent_state *last) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return record(graph, "rnn", COMPUTE_RECURRENT_RNN, x, w, r, options, last);
}

compute_node compute_gru(compute_graph *graph, compute_node x, compute_node w, compute_node r,
                         const compute_recurrent_options *options, compute_recurrent_state *last) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return record(graph, "gru", COMPUTE_RECURRENT_GRU, x, w, r, options, last);
}

compute_node compute_lstm(compute_graph *graph, compute_node x, compute_node w, compute_node r,
                          const compute_recurrent_options *options, compute_recurrent_state *last) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return record(graph, "lstm", COMPUTE_RECURRENT_LSTM, x, w, r, options, last);
}
