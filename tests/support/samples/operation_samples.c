/* SPDX-License-Identifier: MIT */
#include "support/samples/operation_samples.h"

#include "support/samples/operation_linalg.h"
#include "support/samples/operation_options.h"

/* ---- Words of operations.def ----------------------------------------------------------------- */

enum {
  BUILT = 0,
  OPERANDS = OPERATION_OPERANDS,
  DERIVATIVE = OPERATION_DERIVATIVE,
  AGAIN = OPERATION_AGAIN,
  SEVERAL = OPERATION_SEVERAL
};

#define WITHIN(low, high, ...)                                                                     \
  { COMPUTE_F32, SHAPE(__VA_ARGS__), FILL_RANGE, low, high, LAYOUT_DENSE }
#define POINT(low, high)                                                                           \
  { COMPUTE_F32, SCALAR, FILL_RANGE, low, high, LAYOUT_DENSE }
#define FLOATS(...) WITHIN(-2, 2, __VA_ARGS__)
#define SHARES(...) WITHIN(0.125, 0.875, __VA_ARGS__)
#define HALVES(...)                                                                                \
  { COMPUTE_F16, SHAPE(__VA_ARGS__), FILL_RANGE, -2, 2, LAYOUT_DENSE }
#define INDICES(count, ...)                                                                        \
  { COMPUTE_I64, SHAPE(__VA_ARGS__), FILL_RANGE, 0, (count)-1, LAYOUT_DENSE }
#define SEED                                                                                       \
  { COMPUTE_I64, SCALAR, FILL_RANGE, 1, 9, LAYOUT_DENSE }
#define BYTES(...)                                                                                 \
  { COMPUTE_I8, SHAPE(__VA_ARGS__), FILL_RANGE, -128, 127, LAYOUT_DENSE }
#define BYTE                                                                                       \
  { COMPUTE_I8, SCALAR, FILL_RANGE, -128, 127, LAYOUT_DENSE }
#define NIBBLES(...)                                                                               \
  { COMPUTE_U8, SHAPE(__VA_ARGS__), FILL_RANGE, 0, 255, LAYOUT_DENSE }
#define NOTHING                                                                                    \
  {                                                                                                \
    { .dtype = COMPUTE_DTYPE_NONE }                                                                \
  }

#define FLOAT_INPUT(...) compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(__VA_ARGS__))
#define LABEL_INPUT(...) compute_input(g, COMPUTE_I64, COMPUTE_SHAPE(__VA_ARGS__))

static const int64_t six[] = {2, 0, -1, 2, 1, 0}, labels[] = {2, 0, 3, 2, 1, 0};

static compute_node indices(compute_graph *g, compute_shape shape, const int64_t *values) {
  return compute_constant(g, COMPUTE_I64, shape, values);
}

/* The gradient of a weighted sum of `y`: each element has a different weight. */
static compute_node gradient_of(compute_graph *g, compute_node y, compute_node of) {
  compute_node gradient = none;
  const compute_shape shape = compute_node_shape(g, y);
  const compute_node weights = compute_index(g, compute_node_dtype(g, y), shape, shape.rank - 1);
  const compute_node loss = compute_sum(g, compute_mul(g, y, weights), (compute_axes){0}, false);
  compute_gradients(g, loss, &of, 1, &gradient);
  return gradient;
}

static compute_node positions_of_top(compute_graph *g, compute_node x) {
  compute_node positions;
  compute_top_k(g, x, 2, 1, false, &positions);
  return positions;
}

/* The result, with outputs for the mean and the variance. */
static compute_node statistics_of(compute_graph *g, const compute_node *x) {
  compute_node mean, variance;
  return compute_batch_norm_training(g, x[0], x[1], x[2], 1e-5, &mean, &variance);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

#define OPERATION(name, operation, uses, expression, ...)                                          \
  static compute_node build_##name(compute_graph *g, const compute_node *x, const void *user) {    \
    (void)user;                                                                                    \
    (void)x;                                                                                       \
    return expression;                                                                             \
  }
#define LARGE(name, expression)                                                                    \
  static compute_node large_##name(compute_graph *g, int64_t size) {                               \
    return expression;                                                                             \
  }
#include "operations.def"

static const operation_sample rows[] = {
#define OPERATION(name, operation, uses, expression, ...)                                          \
  {#name, #operation, uses, build_##name, {__VA_ARGS__}},
#include "operations.def"
};

static const operation_large large[] = {
#define LARGE(name, expression) {#name, large_##name},
#include "operations.def"
};

const operation_sample *operation_sample_at(size_t index) {
  return index < sizeof rows / sizeof *rows ? &rows[index] : NULL;
}

const operation_large *operation_large_at(size_t index) {
  return index < sizeof large / sizeof *large ? &large[index] : NULL;
}

bool operation_sample_case(const operation_sample *row, size_t index, operation_case *sample) {
  *sample = (operation_case){.name = row->name, .build = row->build};
  if (index >= OPERATION_SAMPLES) return false;
  const operation_operand *operands = row->operands[index];
  size_t *count = &sample->operand_count;
  while (*count < OPERATION_MAX_OPERANDS && operands[*count].dtype != COMPUTE_DTYPE_NONE) {
    sample->operand[*count] = operands[*count];
    ++*count;
  }
  return *count > 0 || index == 0;
}

operation_case operation_sample_derivative(const operation_sample *row) {
  operation_case sample;
  operation_sample_case(row, 0, &sample);
  for (size_t i = 0; i < sample.operand_count; i++) {
    operation_operand *o = &sample.operand[i];
    if (o->dtype != COMPUTE_F32) continue;
    o->dtype = COMPUTE_F64;
    o->fill = FILL_DISTINCT;
    o->low += 0.013 * (double)i * (o->high - o->low);
  }
  return sample;
}

void operation_sample_inputs(compute_graph *graph, const operation_case *sample,
                             compute_node inputs[OPERATION_MAX_OPERANDS]) {
  for (size_t i = 0; i < sample->operand_count; i++)
    inputs[i] = compute_input(graph, sample->operand[i].dtype, sample->operand[i].shape);
}
