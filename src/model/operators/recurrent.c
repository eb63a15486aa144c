/* SPDX-License-Identifier: MIT */
/* LSTM, GRU and RNN through compute_lstm and similar functions. Unusual activations are unrolled
 * instead: one product projects the inputs of all steps, and each step adds a product with its
 * state. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "compute/graph_nn.h"
#include "core/base/real.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"
#include "model/operators/integer.h"
#include "model/operators/op.h"
#include "model/operators/operators.h"
#include "model/operators/quantize.h"

enum { MOST_STEPS = 65536, MOST_ACTIVATIONS = 3, MOST_QUANTIZED = 33025 };

typedef struct activation {
  const char *name;
  float parameters[2]; /* alpha, beta */
  size_t count;        /* number of given parameters */
} activation;

struct recurrence;

/* h and c [batch, hidden]; only LSTM has c. */
typedef struct state {
  compute_node h, c;
} state;

typedef compute_node (*layer)(compute_graph *graph, compute_node x, compute_node w, compute_node r,
                              const compute_recurrent_options *options,
                              compute_recurrent_state *last);

/* An operator. `whole` records all steps with the default activations. `step` makes the next
 * state from the projected input [batch, gates · hidden]. */
typedef struct cell {
  size_t gates, activations;
  const char *usual[MOST_ACTIVATIONS];
  layer whole;
  compute_status (*step)(struct recurrence *n, compute_node x, state *s);
} cell;

typedef struct recurrence {
  model_call *call;
  compute_graph *graph;
  const cell *cell;
  int64_t steps, batch, inputs, hidden, directions;
  bool batch_first;
  compute_node x;       /* [steps, batch, inputs] */
  compute_node w, r;    /* [directions, inputs or hidden, gates · hidden] */
  compute_node lengths; /* i32 [batch], or {0} if all steps are valid */
  double clip;          /* 0: none */
  bool quantized;       /* inputs 1, 2 and 8 … 11 are DynamicQuantizeLSTM's, for run_quantized */

  /* Of the direction being recorded: */
  compute_node recurrent;              /* the direction's part of r */
  compute_node input_bias, state_bias; /* [gates · hidden], or {0} */
  compute_node peepholes;              /* [3 · hidden], or {0} */
  compute_node ends;                   /* lengths as [batch, 1] */
  activation activations[MOST_ACTIVATIONS];
} recurrence;

/* ---- Parts ----------------------------------------------------------------------------------- */

/* x[d] */
static compute_node one_of(const recurrence *n, compute_node x, int64_t d) {
  compute_shape shape = compute_node_shape(n->graph, x);
  x = compute_slice(n->graph, x, 0, d, 1, 1);
  for (int32_t i = 1; i < shape.rank; i++) shape_set(&shape, i - 1, shape_at(shape, i));
  shape.rank--;
  return compute_reshape(n->graph, x, shape);
}

/* Slices gates first … first + count − 1 of the last axis. */
static compute_node gates(const recurrence *n, compute_node x, int64_t first, int64_t count) {
  const int32_t rank = compute_node_shape(n->graph, x).rank;
  if (rank > 0 && shape_at(compute_node_shape(n->graph, x), rank - 1) == count * n->hidden)
    return x;
  return compute_slice(n->graph, x, rank - 1, first * n->hidden, count * n->hidden, 1);
}

static compute_node add(const recurrence *n, compute_node a, compute_node b) {
  return compute_node_is_valid(b) ? compute_add(n->graph, a, b) : a;
}

/* a + c · peephole `i`; a without peepholes. */
static compute_node peep(const recurrence *n, compute_node a, compute_node c, int64_t i) {
  if (!compute_node_is_valid(n->peepholes)) return a;
  return compute_add(n->graph, a, compute_mul(n->graph, c, gates(n, n->peepholes, i, 1)));
}

/* ---- Activations ----------------------------------------------------------------------------- */

/* Activations by name, with their number of parameters and the defaults that op_activate lacks. */
static const struct activation_row {
  const char *name;
  size_t parameters;
  float usual[2];
} activation_rows[] = {{"Relu", 0, {0}},
                       {"Tanh", 0, {0}},
                       {"Sigmoid", 0, {0}},
                       {"Softsign", 0, {0}},
                       {"Softplus", 0, {0}},
                       {"Affine", 2, {1, 0}},
                       {"LeakyRelu", 1, {0.01f}},
                       {"ThresholdedRelu", 1, {1}},
                       {"ScaledTanh", 2, {1, 1}},
                       {"HardSigmoid", 2, {0.2f, 0.5f}},
                       {"Elu", 1, {1}}};

static const struct activation_row *find_activation(const char *name) {
  for (size_t i = 0; i < sizeof activation_rows / sizeof *activation_rows; i++)
    if (ascii_equal(activation_rows[i].name, name)) return &activation_rows[i];
  return NULL;
}

static const char *activation_name(const recurrence *n, const onnx_attribute *names, size_t at) {
  return names ? names->texts[at] : n->cell->usual[at % n->cell->activations];
}

/* Parameters come in the order of the functions. There is one for each function, or, in ONNX
 * Runtime's form, one for each function that uses one. */
static compute_status read_activations(recurrence *n, int64_t direction) {
  const size_t count = n->cell->activations, all = count * (size_t)n->directions;
  const onnx_attribute *names = call_attribute(n->call, "activations");
  size_t given[2], used[2] = {0};
  const float *parameters[2] = {call_attribute_floats(n->call, "activation_alpha", &given[0]),
                                call_attribute_floats(n->call, "activation_beta", &given[1])};
  if (names && (names->type != ONNX_ATTRIBUTE_STRINGS || names->count != all))
    return call_fail(n->call, COMPUTE_ERROR_FORMAT, "it needs %zu activations", all);
  for (size_t i = 0; i < count * (size_t)(direction + 1); i++) {
    const char *name = activation_name(n, names, i);
    const struct activation_row *row = find_activation(name);
    if (!row)
      return call_fail(n->call, COMPUTE_ERROR_UNSUPPORTED, "the activation '%s' is not known",
                       name);
    activation *a = &n->activations[i % count];
    *a = (activation){row->name, {row->usual[0], row->usual[1]}, row->parameters};
    for (size_t k = 0; k < row->parameters; k++) {
      const size_t at = given[k] == all ? i : used[k]++;
      if (at < given[k]) a->parameters[k] = parameters[k][at];
    }
  }
  return COMPUTE_OK;
}

/* Inputs of gates are clipped. As in ONNX Runtime, LSTM's cell, the input of activation 2, is
 * not. */
static compute_status activate(recurrence *n, size_t which, compute_node *x) {
  compute_graph *graph = n->graph;
  const activation *a = &n->activations[which];
  if (n->clip > 0 && which < 2) *x = compute_clamp(graph, *x, -n->clip, n->clip);
  const compute_node alpha = call_scalar_like(n->call, *x, (double)a->parameters[0]);
  const compute_node beta = call_scalar_like(n->call, *x, (double)a->parameters[1]);
  if (strcmp(a->name, "Affine") == 0)
    *x = compute_add(graph, compute_mul(graph, *x, alpha), beta);
  else if (strcmp(a->name, "ScaledTanh") == 0)
    *x = compute_mul(graph, compute_tanh(graph, compute_mul(graph, *x, beta)), alpha);
  else if (strcmp(a->name, "ThresholdedRelu") == 0)
    *x = compute_select(graph, compute_greater(graph, *x, alpha), *x,
                        call_scalar_like(n->call, *x, 0));
  else if (strcmp(a->name, "Softsign") == 0)
    *x = compute_div(graph, *x,
                     compute_add(graph, compute_abs(graph, *x), call_scalar_like(n->call, *x, 1)));
  else
    return op_activate(n->call, a->name, a->parameters, a->count, x);
  return COMPUTE_OK;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static compute_status rnn_step(recurrence *n, compute_node x, state *s) {
  s->h = compute_add(n->graph, x, compute_matmul(n->graph, s->h, n->recurrent));
  return activate(n, 0, &s->h);
}

/* Gates: update, reset, hidden. */
static compute_status gru_step(recurrence *n, compute_node x, state *s) {
  compute_graph *graph = n->graph;
  const bool linear_first = call_attribute_i(n->call, "linear_before_reset", 0) != 0;
  const int64_t together = linear_first ? 3 : 2;
  const compute_node sums = compute_matmul(graph, s->h, gates(n, n->recurrent, 0, together));
  compute_node both = compute_add(graph, gates(n, x, 0, 2), gates(n, sums, 0, 2));
  compute_status status = activate(n, 0, &both);
  if (status) return status;
  const compute_node update = gates(n, both, 0, 1), reset = gates(n, both, 1, 1);
  compute_node hidden;
  if (linear_first)
    hidden = compute_mul(graph, reset, add(n, gates(n, sums, 2, 1), n->state_bias));
  else
    hidden = compute_matmul(graph, compute_mul(graph, reset, s->h), gates(n, n->recurrent, 2, 1));
  hidden = compute_add(graph, gates(n, x, 2, 1), hidden);
  status = activate(n, 1, &hidden);
  const compute_node left = compute_sub(graph, call_scalar_like(n->call, update, 1), update);
  s->h = compute_add(graph, compute_mul(graph, left, hidden), compute_mul(graph, update, s->h));
  return status;
}

/* Gates: input, output, forget, cell. */
static compute_status lstm_step(recurrence *n, compute_node x, state *s) {
  compute_graph *graph = n->graph;
  const compute_node sums = compute_add(graph, x, compute_matmul(graph, s->h, n->recurrent));
  compute_node input = peep(n, gates(n, sums, 0, 1), s->c, 0);
  compute_node forget = peep(n, gates(n, sums, 2, 1), s->c, 2);
  compute_node value = gates(n, sums, 3, 1);
  compute_status status = activate(n, 0, &input);
  if (!status) status = activate(n, 0, &forget);
  if (!status) status = activate(n, 1, &value);
  if (status) return status;
  if (call_attribute_i(n->call, "input_forget", 0) != 0)
    forget = compute_sub(graph, call_scalar_like(n->call, input, 1), input);
  s->c = compute_add(graph, compute_mul(graph, forget, s->c), compute_mul(graph, input, value));
  compute_node output = peep(n, gates(n, sums, 1, 1), s->c, 1), shown = s->c;
  status = activate(n, 0, &output);
  if (!status) status = activate(n, 2, &shown);
  s->h = compute_mul(graph, output, shown);
  return status;
}

/* ---- One direction --------------------------------------------------------------------------- */

/* Adds the biases of gates that are plain sums to the projection. */
static void read_bias(recurrence *n, int64_t direction) {
  const int64_t count = (int64_t)n->cell->gates;
  n->input_bias = n->state_bias = (compute_node){0};
  if (!call_has(n->call, 3)) return;
  const compute_node bias = one_of(n, call_input(n->call, 3), direction);
  const compute_node of_input = gates(n, bias, 0, count), of_state = gates(n, bias, count, count);
  n->input_bias = compute_add(n->graph, of_input, of_state);
  if (call_attribute_i(n->call, "linear_before_reset", 0) == 0 || count != 3) return;
  n->state_bias = gates(n, of_state, 2, 1);
  const compute_node parts[2] = {gates(n, n->input_bias, 0, 2), gates(n, of_input, 2, 1)};
  n->input_bias = compute_concat(n->graph, parts, 2, 0);
}

/* Input i, a state [directions, batch, hidden], or zeros if omitted. */
static compute_node initial(const recurrence *n, size_t i, int64_t direction) {
  if (!call_has(n->call, i))
    return call_zeros(n->call, compute_node_dtype(n->graph, n->x),
                      COMPUTE_SHAPE(n->batch, n->hidden));
  compute_node x = call_input(n->call, i);
  if (n->batch_first) x = compute_transpose(n->graph, x, COMPUTE_AXES(1, 0, 2));
  return one_of(n, x, direction);
}

/* Projects all steps' inputs: [steps, batch, gates · hidden]. */
static compute_node project(const recurrence *n, int64_t direction) {
  const compute_node flat = compute_reshape(n->graph, n->x, COMPUTE_SHAPE(-1, n->inputs));
  const compute_node y = compute_matmul(n->graph, flat, one_of(n, n->w, direction));
  return compute_reshape(n->graph, add(n, y, n->input_bias),
                         COMPUTE_SHAPE(n->steps, n->batch, (int64_t)n->cell->gates * n->hidden));
}

/* Sequences that have ended (or, backwards, not begun) keep their state and get zeros in y. */
static void hold_state(const recurrence *n, int64_t t, const state *before, state *s,
                       compute_node *y) {
  compute_graph *graph = n->graph;
  *y = s->h;
  if (!compute_node_is_valid(n->lengths)) return;
  const compute_node active =
      compute_greater(graph, n->ends, compute_scalar_i64(graph, COMPUTE_I32, t));
  *y = compute_select(graph, active, s->h, call_scalar_like(n->call, s->h, 0));
  s->h = compute_select(graph, active, s->h, before->h);
  if (compute_node_is_valid(s->c)) s->c = compute_select(graph, active, s->c, before->c);
}

static bool is_usual(const recurrence *n) {
  for (size_t i = 0; i < n->cell->activations; i++)
    if (!ascii_equal(n->activations[i].name, n->cell->usual[i])) return false;
  return call_attribute_i(n->call, "input_forget", 0) == 0;
}

/* Input i of DynamicQuantizeLSTM, a scale or zero point per direction or per column: the
 * direction's, [columns]. */
static compute_node of_direction(const recurrence *n, size_t i, int64_t direction) {
  const compute_shape shape = call_shape(n->call, i);
  const int64_t each = op_count(shape, 0, shape.rank) / n->directions;
  const compute_node all =
      compute_reshape(n->graph, call_input(n->call, i), COMPUTE_SHAPE(n->directions, each));
  return compute_broadcast(n->graph, one_of(n, all, direction),
                           COMPUTE_SHAPE((int64_t)n->cell->gates * n->hidden));
}

/* u8 less 128, as i8. */
static compute_node signed_bytes(const recurrence *n, compute_node x) {
  if (compute_node_dtype(n->graph, x) == COMPUTE_I8) return x;
  const compute_node half = compute_scalar(n->graph, COMPUTE_U8, 128);
  return compute_cast(n->graph, compute_sub(n->graph, x, half), COMPUTE_I8);
}

/* The inputs with zeros behind the ends of sequences, where they must not change the rounding. */
static compute_node valid_inputs(const recurrence *n) {
  if (!compute_node_is_valid(n->lengths)) return n->x;
  int32_t *steps = call_allocate(n->call, (size_t)n->steps, sizeof *steps);
  if (!steps) return (compute_node){0};
  for (int64_t t = 0; t < n->steps; t++) steps[t] = (int32_t)t;
  const compute_node active = compute_greater(
      n->graph, compute_reshape(n->graph, n->lengths, COMPUTE_SHAPE(1, n->batch, 1)),
      compute_constant(n->graph, COMPUTE_I32, COMPUTE_SHAPE(n->steps, 1, 1), steps));
  return compute_select(n->graph, active, n->x, call_scalar_like(n->call, n->x, 0));
}

/* As project, with all inputs rounded to 8 bits together, as ONNX Runtime does. */
static compute_node project_bytes(const recurrence *n, int64_t direction) {
  model_call *call = n->call;
  compute_graph *graph = n->graph;
  const int64_t columns = (int64_t)n->cell->gates * n->hidden;
  const dynamic_quantization x =
      quantize_dynamic(call, compute_reshape(graph, valid_inputs(n), COMPUTE_SHAPE(-1, n->inputs)));
  const integer_factor left = {.values = x.values, .zero = x.zero};
  integer_factor right = integer_input(call, 1, one_of(n, call_input(call, 1), direction), 9,
                                       of_direction(n, 9, direction));
  if (right.host) right.host = (const unsigned char *)right.host + direction * n->inputs * columns;
  const compute_node sums = op_cast(call, integer_product(call, &left, &right), COMPUTE_F32);
  const compute_node scale = compute_mul(graph, x.scale, of_direction(n, 8, direction));
  return compute_reshape(graph, add(n, compute_mul(graph, sums, scale), n->input_bias),
                         COMPUTE_SHAPE(n->steps, n->batch, columns));
}

/* `true` if the inputs are DynamicQuantizeLSTM's, in types that run_quantized takes. */
static bool takes_bytes(const recurrence *n) {
  const int64_t columns = (int64_t)n->cell->gates * n->hidden;
  bool fits = n->quantized && !call_trains(n->call) && n->steps * n->batch > 0 && n->inputs > 0 &&
              n->inputs <= MOST_QUANTIZED && n->hidden > 0 && n->hidden <= MOST_QUANTIZED &&
              compute_node_dtype(n->graph, n->x) == COMPUTE_F32;
  for (size_t i = 0; fits && i < 2; i++) {
    const compute_dtype dtype = call_dtype(n->call, 1 + i);
    fits = (dtype == COMPUTE_I8 || dtype == COMPUTE_U8) && call_has(n->call, 9 + 2 * i) &&
           call_dtype(n->call, 9 + 2 * i) == dtype && call_dtype(n->call, 8 + 2 * i) == COMPUTE_F32;
    for (size_t k = 8 + 2 * i; fits && k < 10 + 2 * i; k++) {
      const int64_t count = op_count(call_shape(n->call, k), 0, call_shape(n->call, k).rank);
      fits = count == n->directions || count == n->directions * columns;
    }
  }
  return fits;
}

/* Records all steps as one operation. *s becomes the last state, *y [steps, batch, hidden]. */
static compute_status run_whole(recurrence *n, int64_t direction, bool backwards, state *s,
                                compute_node *y) {
  const bool reset_after =
      n->cell->gates == 3 && call_attribute_i(n->call, "linear_before_reset", 0) != 0;
  const compute_recurrent_options options = {
      .bias = n->input_bias,
      .state_bias = n->state_bias,
      .initial_h = s->h,
      .initial_c = s->c,
      .peepholes = n->peepholes,
      .lengths = n->lengths,
      .clip = n->clip > 0 && isfinite(n->clip) ? n->clip : 0,
      .reverse = backwards,
      .reset_after = reset_after,
  };
  compute_recurrent_options plain = options;
  compute_recurrent_state last;
  if (takes_bytes(n)) {
    const network_quantized_weights r = {
        signed_bytes(n, one_of(n, call_input(n->call, 2), direction)),
        of_direction(n, 10, direction), signed_bytes(n, of_direction(n, 11, direction))};
    plain.bias = (compute_node){0};
    *y = network_quantized_lstm(n->graph, project_bytes(n, direction), &r, &plain, &last);
  } else {
    *y = n->cell->whole(n->graph, n->x, one_of(n, n->w, direction), n->recurrent, &options, &last);
  }
  *s = (state){last.h, last.c};
  return COMPUTE_OK;
}

/* The same, step by step. */
static compute_status run_steps(recurrence *n, int64_t direction, bool backwards, state *s,
                                compute_node *y) {
  compute_graph *graph = n->graph;
  if (n->steps > MOST_STEPS)
    return call_fail(n->call, COMPUTE_ERROR_UNSUPPORTED,
                     "it has %" PRId64 " steps with unusual activations, more than %d", n->steps,
                     MOST_STEPS);
  compute_node *parts = call_allocate(n->call, (size_t)n->steps + 1, sizeof *parts);
  if (!parts) return call_out_of_memory(n->call);
  if (compute_node_is_valid(n->lengths))
    n->ends = compute_reshape(graph, n->lengths, COMPUTE_SHAPE(n->batch, 1));
  const compute_node x = project(n, direction);
  const compute_shape shape = COMPUTE_SHAPE(1, n->batch, n->hidden);
  compute_status status = COMPUTE_OK;
  for (int64_t i = 0; !status && i < n->steps; i++) {
    const int64_t t = backwards ? n->steps - 1 - i : i;
    const state before = *s;
    status = n->cell->step(n, one_of(n, x, t), s);
    hold_state(n, t, &before, s, &parts[t]);
    parts[t] = compute_reshape(graph, parts[t], shape);
  }
  *y = n->steps > 0 ? compute_concat(graph, parts, (size_t)n->steps, 0)
                    : call_zeros(n->call, compute_node_dtype(graph, n->x),
                                 COMPUTE_SHAPE(0, n->batch, n->hidden));
  return status;
}

/* *y becomes [steps, 1, batch, hidden]. */
static compute_status run_direction(recurrence *n, int64_t direction, bool backwards, state *s,
                                    compute_node *y) {
  compute_status status = read_activations(n, direction);
  if (status) return status;
  read_bias(n, direction);
  n->recurrent = one_of(n, n->r, direction);
  *s = (state){initial(n, 5, direction), {0}};
  n->peepholes = (compute_node){0};
  if (n->cell->gates == 4) {
    s->c = initial(n, 6, direction);
    if (call_has(n->call, 7)) n->peepholes = one_of(n, call_input(n->call, 7), direction);
  }
  status = is_usual(n) ? run_whole(n, direction, backwards, s, y)
                       : run_steps(n, direction, backwards, s, y);
  if (!status) *y = compute_reshape(n->graph, *y, COMPUTE_SHAPE(n->steps, 1, n->batch, n->hidden));
  return status;
}

/* ---- Whole operator -------------------------------------------------------------------------- */

/* Returns {0} if the lengths are known to cover all steps. */
static compute_node read_lengths(const recurrence *n) {
  if (!call_has(n->call, 4)) return (compute_node){0};
  const model_value *value = n->call->inputs[4];
  const void *data = NULL;
  if (value->dtype == COMPUTE_I32 && value->host && call_host(n->call, 4, &data)) data = NULL;
  const int32_t *known = data;
  bool all = known && value->shape.rank == 1 && shape_at(value->shape, 0) == n->batch;
  for (int64_t i = 0; all && i < n->batch; i++) all = known[i] >= n->steps;
  if (all) return (compute_node){0};
  return op_cast(n->call, call_input(n->call, 4), COMPUTE_I32);
}

static compute_status check_sizes(const recurrence *n, compute_shape x, compute_shape w,
                                  compute_shape r) {
  const int64_t columns = (int64_t)n->cell->gates * n->hidden;
  if (x.rank != 3 || w.rank != 3 || r.rank != 3 || shape_at(w, 0) != n->directions ||
      shape_at(r, 0) != n->directions || shape_at(w, 1) != shape_at(x, 2) ||
      shape_at(w, 2) != columns || shape_at(r, 2) != columns)
    return call_fail(n->call, COMPUTE_ERROR_SHAPE,
                     "x, W and R do not fit each other, or the direction");
  return COMPUTE_OK;
}

/* w and r are [directions, inputs or hidden, gates · hidden]. */
static compute_status begin(model_call *call, const cell *kind, compute_node w, compute_node r,
                            bool both, recurrence *n) {
  const compute_shape given = call_shape(call, 0);
  const compute_shape state_shape = compute_node_shape(call->graph, r);
  *n = (recurrence){.call = call,
                    .graph = call->graph,
                    .cell = kind,
                    .w = w,
                    .r = r,
                    .x = call_input(call, 0),
                    .batch_first = call_attribute_i(call, "layout", 0) != 0,
                    .clip = call_attribute_f(call, "clip", 0),
                    .directions = both ? 2 : 1};
  if (n->batch_first) n->x = compute_transpose(n->graph, n->x, COMPUTE_AXES(1, 0, 2));
  n->steps = shape_at(given, n->batch_first ? 1 : 0);
  n->batch = shape_at(given, n->batch_first ? 0 : 1);
  n->inputs = shape_at(given, 2);
  n->hidden = state_shape.rank == 3 ? shape_at(state_shape, 1) : 0;
  const compute_status status = check_sizes(n, given, compute_node_shape(n->graph, w), state_shape);
  if (!status) n->lengths = read_lengths(n);
  return status;
}

static compute_node join(const recurrence *n, const compute_node *parts, int32_t axis) {
  return n->directions == 1 ? parts[0] : compute_concat(n->graph, parts, 2, axis);
}

static void output_state(const recurrence *n, size_t i, const compute_node *states) {
  compute_node parts[2] = {{0}, {0}};
  for (int64_t d = 0; d < n->directions; d++)
    parts[d] = compute_reshape(n->graph, states[d], COMPUTE_SHAPE(1, n->batch, n->hidden));
  compute_node all = join(n, parts, 0);
  if (n->batch_first) all = compute_transpose(n->graph, all, COMPUTE_AXES(1, 0, 2));
  call_output(n->call, i, all);
}

/* `quantized`: of DynamicQuantizeLSTM. */
static compute_status run(model_call *call, const cell *kind, compute_node w, compute_node r,
                          bool quantized) {
  const char *direction = call_attribute_s(call, "direction", "forward");
  const bool both = strcmp(direction, "bidirectional") == 0;
  const bool reverse = strcmp(direction, "reverse") == 0;
  recurrence n;
  compute_node y[2], h[2], c[2];
  if (!both && !reverse && strcmp(direction, "forward") != 0)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "the direction '%s' is not known", direction);
  compute_status status = begin(call, kind, w, r, both, &n);
  n.quantized = quantized;
  for (int64_t d = 0; !status && d < n.directions; d++) {
    state s;
    status = run_direction(&n, d, reverse || d == 1, &s, &y[d]);
    h[d] = s.h;
    c[d] = s.c;
  }
  if (status) return status;
  compute_node all = join(&n, y, 1);
  if (n.batch_first) all = compute_transpose(n.graph, all, COMPUTE_AXES(2, 0, 1, 3));
  call_output(call, 0, all);
  output_state(&n, 1, h);
  if (kind->gates == 4) output_state(&n, 2, c);
  return COMPUTE_OK;
}

static const cell lstm_cell = {4, 3, {"Sigmoid", "Tanh", "Tanh"}, compute_lstm, lstm_step};
static const cell gru_cell = {3, 2, {"Sigmoid", "Tanh"}, compute_gru, gru_step};
static const cell rnn_cell = {1, 1, {"Tanh"}, compute_rnn, rnn_step};

/* Input i, [directions, gates · hidden, n], transposed. */
static compute_node weights(model_call *call, size_t i) {
  const compute_node x = call_input(call, i);
  return call_shape(call, i).rank == 3 ? compute_transpose(call->graph, x, COMPUTE_AXES(0, 2, 1))
                                       : x;
}

static compute_status lstm(model_call *call) {
  return run(call, &lstm_cell, weights(call, 1), weights(call, 2), false);
}

static compute_status gru(model_call *call) {
  return run(call, &gru_cell, weights(call, 1), weights(call, 2), false);
}

static compute_status rnn(model_call *call) {
  return run(call, &rnn_cell, weights(call, 1), weights(call, 2), false);
}

/* ---- DynamicQuantizeLSTM --------------------------------------------------------------------- */

/* Input i, per direction or per gate column. */
static compute_node of_columns(model_call *call, size_t i) {
  const compute_shape shape = call_shape(call, i);
  const int64_t columns = shape.rank == 2 ? shape_at(shape, 1) : 1;
  return op_cast(call,
                 compute_reshape(call->graph, call_input(call, i),
                                 COMPUTE_SHAPE(shape.rank ? shape_at(shape, 0) : 1, 1, columns)),
                 COMPUTE_F32);
}

static compute_node quantized_weights(model_call *call, size_t i, size_t scale) {
  const compute_node x = op_cast(call, call_input(call, i), COMPUTE_F32);
  return compute_mul(call->graph, compute_sub(call->graph, x, of_columns(call, scale + 1)),
                     of_columns(call, scale));
}

/* Inputs and states are rounded to 8 bits for integer products. The inputs of all sequences have one
 * scale, as in ONNX Runtime, but steps behind their ends do not count. The states of each sequence
 * have one; ONNX Runtime's share one. With unusual activations, and where they would overflow,
 * products are of floats. */
static compute_status dynamic_quantize_lstm(model_call *call) {
  return run(call, &lstm_cell, quantized_weights(call, 1, 8), quantized_weights(call, 2, 10), true);
}

static const operator_row rows[] = {
    {"", "LSTM", 7, lstm},
    {"", "GRU", 7, gru},
    {"", "RNN", 7, rnn},
    {"com.microsoft", "DynamicQuantizeLSTM", 1, dynamic_quantize_lstm},
};

const operator_family operators_recurrent = OPERATOR_FAMILY(rows);
