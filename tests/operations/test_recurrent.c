/* SPDX-License-Identifier: MIT */
/* Recurrent layers: every cell and option compared with the definition in double precision, and
 * derivatives compared with central differences. Threads do not change a bit. */
#include <math.h>
#include <string.h>

#include "support/harness/gradient.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"

static const compute_node none = {0, 0};

enum { RNN, GRU, LSTM };

static const int64_t gates_of[] = {1, 3, 4};

/* The compared results: h of all steps, the states after the last step, or all of them in one
 * tensor. */
typedef enum part { PART_Y, PART_H, PART_C, PART_ALL } part;

typedef struct layer_case {
  const char *name;
  int cell;
  int64_t steps, batch, inputs, hidden;
  part part;
  bool bias, states, peepholes, lengths, reverse, reset_after, state_bias;
  bool turned; /* w and r are transposed in memory, x has the batch first */
  double clip;
} layer_case;

/* `count` elements of the vector from *at on. */
static compute_node take(compute_graph *graph, compute_node vector, int64_t *at,
                         compute_shape shape) {
  int64_t count = 1;
  for (int32_t i = 0; i < shape.rank; i++) count *= shape.size[i];
  const compute_node piece = compute_slice(graph, vector, 0, *at, count, 1);
  *at += count;
  return compute_reshape(graph, piece, shape);
}

/* Lengths before the first step, in the middle and past the last step. */
static compute_node lengths(compute_graph *graph, const layer_case *c) {
  int32_t values[64];
  for (int64_t i = 0; i < c->batch; i++)
    values[i] = (int32_t)(i % 4 == 0   ? c->steps / 2
                          : i % 4 == 1 ? c->steps + 3
                          : i % 4 == 2 ? 0
                                       : c->steps - 1);
  return compute_constant(graph, COMPUTE_I32, COMPUTE_SHAPE(c->batch), values);
}

static compute_node call(compute_graph *graph, const layer_case *c, compute_node x, compute_node w,
                         compute_node r, const compute_recurrent_options *options,
                         compute_recurrent_state *last) {
  if (c->cell == LSTM) return compute_lstm(graph, x, w, r, options, last);
  if (c->cell == GRU) return compute_gru(graph, x, w, r, options, last);
  return compute_rnn(graph, x, w, r, options, last);
}

/* The last operand contains everything optional. */
static compute_node build_layer(compute_graph *graph, const compute_node *operands,
                                const void *user) {
  const layer_case *c = user;
  const compute_shape state = COMPUTE_SHAPE(c->batch, c->hidden);
  compute_node x[3] = {operands[0], operands[1], operands[2]};
  compute_recurrent_options options = {
      .clip = c->clip, .reverse = c->reverse, .reset_after = c->reset_after};
  compute_recurrent_state last;
  int64_t at = 0;
  if (c->turned) {
    x[0] = compute_transpose(graph, x[0], COMPUTE_AXES(1, 0, 2));
    for (int i = 1; i < 3; i++) x[i] = compute_transpose(graph, x[i], COMPUTE_AXES(1, 0));
  }
  if (c->bias)
    options.bias = take(graph, operands[3], &at, COMPUTE_SHAPE(gates_of[c->cell] * c->hidden));
  if (c->state_bias) options.state_bias = take(graph, operands[3], &at, COMPUTE_SHAPE(c->hidden));
  if (c->states) options.initial_h = take(graph, operands[3], &at, state);
  if (c->states && c->cell == LSTM) options.initial_c = take(graph, operands[3], &at, state);
  if (c->peepholes) options.peepholes = take(graph, operands[3], &at, COMPUTE_SHAPE(3 * c->hidden));
  if (c->lengths) options.lengths = lengths(graph, c);
  const compute_node y = call(graph, c, x[0], x[1], x[2], &options, &last);
  if (c->part == PART_Y) return y;
  if (c->part == PART_H) return last.h;
  if (c->part == PART_C) return last.c;
  const compute_shape row = COMPUTE_SHAPE(1, c->batch, c->hidden);
  compute_node parts[3] = {y, compute_reshape(graph, last.h, row), none};
  if (c->cell == LSTM) parts[2] = compute_reshape(graph, last.c, row);
  return compute_concat(graph, parts, c->cell == LSTM ? 3 : 2, 0);
}

static int64_t optional_elements(const layer_case *c) {
  const int64_t state = c->batch * c->hidden;
  return c->bias * gates_of[c->cell] * c->hidden + c->state_bias * c->hidden +
         c->states * state * (c->cell == LSTM ? 2 : 1) + c->peepholes * 3 * c->hidden;
}

static operation_case make_sample(const layer_case *c, compute_dtype dtype, test_fill fill,
                                  double low, double high) {
  const int64_t columns = gates_of[c->cell] * c->hidden, more = optional_elements(c);
  const compute_shape shapes[2][4] = {
      {COMPUTE_SHAPE(c->steps, c->batch, c->inputs), COMPUTE_SHAPE(c->inputs, columns),
       COMPUTE_SHAPE(c->hidden, columns), COMPUTE_SHAPE(more)},
      {COMPUTE_SHAPE(c->batch, c->steps, c->inputs), COMPUTE_SHAPE(columns, c->inputs),
       COMPUTE_SHAPE(columns, c->hidden), COMPUTE_SHAPE(more)}};
  operation_case sample = {
      .name = c->name, .build = build_layer, .user = c, .operand_count = more > 0 ? 4 : 3};
  for (size_t i = 0; i < 4; i++)
    sample.operand[i] = (operation_operand){
        dtype, shapes[c->turned][i], fill, low + 0.037 * (double)i, high, LAYOUT_DENSE};
  return sample;
}

/* ---- Values -------------------------------------------------------------------------------- */

static const layer_case layers[] = {
    {"lstm", LSTM, 7, 3, 5, 9, PART_ALL, .bias = true},
    {"lstm, all options", LSTM, 6, 5, 4, 17, PART_ALL, .bias = true, .states = true,
     .peepholes = true, .lengths = true, .clip = 0.7},
    {"lstm, reverse", LSTM, 6, 5, 4, 17, PART_ALL, .states = true, .lengths = true,
     .reverse = true},
    {"lstm, one unit", LSTM, 9, 1, 1, 1, PART_ALL, .states = true, .peepholes = true},
    {"lstm, turned", LSTM, 5, 4, 3, 33, PART_Y, .bias = true, .turned = true},
    {"lstm, last h", LSTM, 5, 2, 3, 4, PART_H, .reverse = true},
    {"lstm, last c", LSTM, 5, 2, 3, 4, .part = PART_C},
    {"lstm, one step", LSTM, 1, 3, 4, 5, PART_ALL, .states = true},
    {"lstm, no step", LSTM, 0, 3, 4, 5, PART_ALL, .states = true},
    {"lstm, no sequence", LSTM, 4, 0, 4, 5, PART_ALL, .bias = true},
    {"lstm, no input", LSTM, 4, 2, 0, 5, PART_ALL, .bias = true},
    {"lstm, no unit", LSTM, 4, 2, 3, 0, .part = PART_ALL},
    {"lstm, many sequences", LSTM, 4, 37, 3, 20, PART_ALL, .lengths = true},
    {"lstm, many units", LSTM, 3, 2, 8, 150, PART_ALL, .bias = true},
    {"gru", GRU, 7, 3, 5, 9, PART_ALL, .bias = true},
    {"gru, all options", GRU, 6, 5, 4, 17, PART_ALL, .bias = true, .states = true, .lengths = true,
     .reverse = true, .clip = 0.7},
    {"gru, reset after", GRU, 6, 5, 4, 17, PART_ALL, .bias = true, .states = true, .lengths = true,
     .reset_after = true, .state_bias = true, .clip = 0.9},
    {"gru, reset after, no bias", GRU, 6, 2, 4, 35, PART_ALL, .states = true, .reset_after = true,
     .turned = true},
    {"gru, one unit", GRU, 5, 1, 2, 1, PART_ALL, .states = true},
    {"gru, no step", GRU, 0, 3, 4, 5, PART_ALL, .states = true},
    {"gru, many units", GRU, 3, 9, 8, 150, PART_ALL, .bias = true, .states = true},
    {"rnn", RNN, 7, 3, 5, 9, PART_ALL, .bias = true},
    {"rnn, all options", RNN, 6, 5, 4, 17, PART_ALL, .bias = true, .states = true, .lengths = true,
     .reverse = true, .clip = 0.6},
    {"rnn, last h", RNN, 5, 2, 3, 70, PART_H, .turned = true},
};

static double unit_of(compute_dtype dtype) {
  return dtype == COMPUTE_F64   ? 0x1p-52
         : dtype == COMPUTE_F32 ? 0x1p-23
         : dtype == COMPUTE_F16 ? 0x1p-10
                                : 0x1p-7;
}

/* The projected inputs of narrow dtypes are rounded, but states between steps are not. */
static void layers_match(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    for (const compute_dtype *dtype = operation_dtypes("float"); *dtype; dtype++) {
      operation_case sample = make_sample(&layers[i], *dtype, FILL_RANGE, -0.7, 0.7);
      sample.operation = "recurrent";
      sample.name = "recurrent";
      sample.tolerance = (test_tolerance){.ulp = 8, .atol = 64 * unit_of(*dtype)};
      operation_check(test_context, &sample);
    }
  operation_finish();
}

/* ---- Derivatives --------------------------------------------------------------------------- */

static const layer_case derived[] = {
    {"lstm", LSTM, 3, 2, 2, 3, PART_ALL, .bias = true, .states = true, .peepholes = true},
    {"lstm, lengths", LSTM, 3, 4, 1, 2, PART_ALL, .states = true, .lengths = true, .reverse = true},
    {"lstm, last c", LSTM, 2, 1, 2, 2, PART_C, .states = true, .clip = 8},
    {"lstm, h alone", LSTM, 3, 1, 2, 2, .part = PART_Y},
    {"gru", GRU, 3, 2, 2, 3, PART_ALL, .bias = true, .states = true},
    {"gru, lengths", GRU, 3, 4, 1, 2, PART_ALL, .lengths = true, .reverse = true},
    {"gru, reset after", GRU, 3, 2, 2, 2, PART_ALL, .bias = true, .states = true,
     .reset_after = true, .state_bias = true, .clip = 8},
    {"rnn", RNN, 4, 2, 2, 3, PART_ALL, .bias = true, .states = true, .reverse = true},
    {"rnn, no step", RNN, 0, 2, 2, 3, PART_H, .states = true},
};

static void layers_have_their_derivatives(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof derived / sizeof *derived; i++) {
    if (test_samples() > 1 && i % 4 != 0) continue; /* spread runs compile each case */
    const operation_case sample = make_sample(&derived[i], COMPUTE_F64, FILL_DISTINCT, -0.8, 0.9);
    gradient_check(test_context, &sample);
  }
}

/* The gradient of Σ y² by the first operand. */
static compute_node build_second(compute_graph *graph, const compute_node *operands,
                                 const void *user) {
  const compute_node y = build_layer(graph, operands, user);
  const compute_node loss = compute_sum(graph, compute_square(graph, y), COMPUTE_ALL_AXES, false);
  compute_node gradient = none;
  compute_gradients(graph, loss, operands, 1, &gradient);
  return gradient;
}

static void second_derivatives_follow(void **state) {
  (void)state;
  for (int cell = RNN; cell <= LSTM; cell++) {
    const layer_case c = {"second derivative", cell, 2, 2, 2, 2, .part = PART_ALL};
    operation_case sample = make_sample(&c, COMPUTE_F64, FILL_DISTINCT, -0.8, 0.9);
    if (test_samples() > 1 && cell != LSTM) continue;
    sample.build = build_second;
    gradient_check(test_context, &sample);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layers_match),
      cmocka_unit_test(layers_have_their_derivatives),
      cmocka_unit_test(second_derivatives_follow),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
