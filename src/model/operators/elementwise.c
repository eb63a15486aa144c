/* SPDX-License-Identifier: MIT */
/* Elementwise operators. */
#include <math.h>
#include <string.h>

#include "core/type/shape.h"
#include "model/operators/cast.h"
#include "model/operators/formula.h"
#include "model/operators/numbers.h"
#include "model/operators/op.h"
#include "model/operators/operators.h"
#include "model/operators/random.h"
#include "model/operators/text.h"

static compute_node scaled(model_call *call, compute_node x, double factor) {
  return compute_mul(call->graph, x, call_scalar_like(call, x, factor));
}

static compute_node shifted(model_call *call, compute_node x, double offset) {
  return compute_add(call->graph, x, call_scalar_like(call, x, offset));
}

/* ---- One operand ----------------------------------------------------------------------------- */

typedef compute_node (*unary_builder)(compute_graph *graph, compute_node x);

static const struct {
  const char *name;
  unary_builder build;
} unary[] = {{"Acos", compute_acos},
             {"Acosh", compute_acosh},
             {"Asin", compute_asin},
             {"Asinh", compute_asinh},
             {"Atan", compute_atan},
             {"Atanh", compute_atanh},
             {"BitwiseNot", compute_bit_not},
             {"Ceil", compute_ceil},
             {"Cos", compute_cos},
             {"Cosh", compute_cosh},
             {"Erf", compute_erf},
             {"Exp", compute_exp},
             {"Floor", compute_floor},
             {"IsNaN", compute_is_nan},
             {"Log", compute_log},
             {"Neg", compute_neg},
             {"Not", compute_logical_not},
             {"Reciprocal", compute_reciprocal},
             {"Relu", compute_relu},
             {"Round", compute_round},
             {"Sigmoid", compute_sigmoid},
             {"Sin", compute_sin},
             {"Sinh", compute_sinh},
             {"Softplus", compute_softplus},
             {"Sqrt", compute_sqrt},
             {"Tan", compute_tan},
             {"Tanh", compute_tanh}};

static compute_status unary_rule(model_call *call) {
  for (size_t i = 0; i < sizeof unary / sizeof unary[0]; i++)
    if (strcmp(unary[i].name, call->node->type) == 0)
      return call_output(call, 0, unary[i].build(call->graph, call_input(call, 0)));
  return call_fail(call, COMPUTE_ERROR_INTERNAL, "no builder for this operator");
}

static compute_status identity(model_call *call) {
  return call_has(call, 0) ? call_output_value(call, 0, call->inputs[0]) : COMPUTE_OK;
}

static compute_status abs_rule(model_call *call) {
  if (number_is_unsigned(call_dtype(call, 0))) return identity(call);
  return call_output(call, 0, compute_abs(call->graph, call_input(call, 0)));
}

static compute_status sign_rule(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_node x = call_input(call, 0);
  if (call_dtype(call, 0) != COMPUTE_U64) return call_output(call, 0, compute_sign(graph, x));
  const compute_node some = compute_not_equal(graph, x, call_scalar_like(call, x, 0));
  return call_output(call, 0, compute_cast(graph, some, COMPUTE_U64));
}

static compute_status is_inf(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_node x = call_input(call, 0);
  const bool above = call_attribute_i(call, "detect_positive", 1) != 0;
  const bool below = call_attribute_i(call, "detect_negative", 1) != 0;
  const compute_node limit = call_scalar_like(call, x, (double)INFINITY);
  const compute_node lowest = call_scalar_like(call, x, -(double)INFINITY);
  if (above && below)
    return call_output(call, 0, compute_equal(graph, compute_abs(graph, x), limit));
  if (above || below) return call_output(call, 0, compute_equal(graph, x, above ? limit : lowest));
  return call_output(call, 0, call_zeros(call, COMPUTE_BOOL, call_shape(call, 0)));
}

/* ---- Activations ----------------------------------------------------------------------------- */

static compute_status leaky_relu(model_call *call) {
  const double alpha = call_attribute_f(call, "alpha", (double)0.01f);
  return call_output(call, 0, compute_leaky_relu(call->graph, call_input(call, 0), alpha));
}

static compute_status elu(model_call *call) {
  const double alpha = call_attribute_f(call, "alpha", 1);
  return call_output(call, 0, compute_elu(call->graph, call_input(call, 0), alpha));
}

static compute_status selu(model_call *call) {
  const double alpha = call_attribute_f(call, "alpha", 1.67326319217681884765625);
  const double gamma = call_attribute_f(call, "gamma", 1.05070102214813232421875);
  const compute_node y = compute_elu(call->graph, call_input(call, 0), alpha);
  return call_output(call, 0, scaled(call, y, gamma));
}

static compute_status celu(model_call *call) {
  compute_graph *graph = call->graph;
  const double alpha = call_attribute_f(call, "alpha", 1);
  const compute_node x = call_input(call, 0);
  compute_node low = compute_div(graph, x, call_scalar_like(call, x, alpha));
  low = scaled(call, compute_expm1(graph, low), alpha);
  low = compute_minimum(graph, low, call_scalar_like(call, x, 0));
  return call_output(call, 0, compute_add(graph, compute_relu(graph, x), low));
}

static compute_status hard_sigmoid(model_call *call) {
  compute_node x = call_input(call, 0);
  x = scaled(call, x, call_attribute_f(call, "alpha", (double)0.2f));
  x = shifted(call, x, call_attribute_f(call, "beta", 0.5));
  return call_output(call, 0, compute_clamp(call->graph, x, 0, 1));
}

static compute_status hard_swish(model_call *call) {
  const compute_node x = call_input(call, 0);
  const compute_node gate = compute_clamp(call->graph, shifted(call, x, 3), 0, 6);
  return call_output(call, 0, compute_mul(call->graph, x, scaled(call, gate, 1.0 / 6)));
}

static compute_status mish(model_call *call) {
  const compute_node x = call_input(call, 0);
  const compute_node gate = compute_tanh(call->graph, compute_softplus(call->graph, x));
  return call_output(call, 0, compute_mul(call->graph, x, gate));
}

static compute_status softsign(model_call *call) {
  const compute_node x = call_input(call, 0);
  const compute_node divisor = shifted(call, compute_abs(call->graph, x), 1);
  return call_output(call, 0, compute_div(call->graph, x, divisor));
}

static compute_status thresholded_relu(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_node x = call_input(call, 0);
  const compute_node limit = call_scalar_like(call, x, call_attribute_f(call, "alpha", 1));
  return call_output(
      call, 0,
      compute_select(graph, compute_greater(graph, x, limit), x, call_scalar_like(call, x, 0)));
}

static compute_status shrink(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_dtype dtype = call_dtype(call, 0);
  compute_node x = call_input(call, 0);
  if (!op_is_float(dtype)) x = op_cast(call, x, COMPUTE_F64);
  const double lambda = call_attribute_f(call, "lambd", 0.5);
  const double bias = call_attribute_f(call, "bias", 0);
  const compute_node above = compute_greater(graph, x, call_scalar_like(call, x, lambda));
  const compute_node below = compute_less(graph, x, call_scalar_like(call, x, -lambda));
  compute_node y =
      compute_select(graph, above, shifted(call, x, -bias), call_scalar_like(call, x, 0));
  y = compute_select(graph, below, shifted(call, x, bias), y);
  return call_output(call, 0, op_cast(call, y, dtype));
}

static compute_status prelu(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_node x = call_input(call, 0), slope = call_input(call, 1);
  if (number_is_unsigned(call_dtype(call, 0))) return identity(call);
  const compute_node below = compute_less(graph, x, call_scalar_like(call, x, 0));
  return call_output(call, 0, compute_select(graph, below, compute_mul(graph, x, slope), x));
}

/* x · sigmoid(alpha · x) */
static compute_node swish_of(model_call *call, compute_node x, double alpha) {
  if (alpha == 1) return compute_silu(call->graph, x);
  return compute_mul(call->graph, x, compute_sigmoid(call->graph, scaled(call, x, alpha)));
}

static compute_status swish(model_call *call) {
  const double alpha = call_attribute_f(call, "alpha", 1);
  return call_output(call, 0, swish_of(call, call_input(call, 0), alpha));
}

static compute_status quick_gelu(model_call *call) {
  const double alpha = call_attribute_f(call, "alpha", (double)1.702f);
  return call_output(call, 0, swish_of(call, call_input(call, 0), alpha));
}

static compute_status swi_glu(model_call *call) {
  const double alpha = call_attribute_f(call, "alpha", 1);
  const compute_node gate = swish_of(call, call_input(call, 0), alpha);
  return call_output(call, 0, compute_mul(call->graph, gate, call_input(call, 1)));
}

static compute_status gelu(model_call *call) {
  const compute_node x = call_input(call, 0);
  const bool approximate = strcmp(call_attribute_s(call, "approximate", "none"), "tanh") == 0;
  return call_output(
      call, 0, approximate ? compute_gelu_tanh(call->graph, x) : compute_gelu(call->graph, x));
}

/* Input 0, with input 1 added if it is given. */
static compute_node biased(model_call *call) {
  const compute_node x = call_input(call, 0);
  return call_has(call, 1) ? compute_add(call->graph, x, call_input(call, 1)) : x;
}

static compute_status bias_gelu(model_call *call) {
  return call_output(call, 0, compute_gelu(call->graph, biased(call)));
}

static compute_status fast_gelu(model_call *call) {
  return call_output(call, 0, compute_gelu_tanh(call->graph, biased(call)));
}

static compute_status bias_add(model_call *call) {
  return call_output(call, 0, compute_add(call->graph, biased(call), call_input(call, 2)));
}

/* The first half of the last axis times the gelu of the second. */
static compute_status bias_split_gelu(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_node x = biased(call);
  const compute_shape shape = compute_node_shape(graph, x);
  if (shape.rank < 1 || shape_at(shape, shape.rank - 1) % 2 != 0)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "the size of its last axis is odd");
  const int64_t half = shape_at(shape, shape.rank - 1) / 2;
  const compute_node gate = compute_gelu(graph, compute_slice(graph, x, -1, half, half, 1));
  return call_output(call, 0, compute_mul(graph, compute_slice(graph, x, -1, 0, half, 1), gate));
}

/* ---- Limits ---------------------------------------------------------------------------------- */

/* Up to version 10 the limits are attributes. */
static compute_status clip_by_attributes(model_call *call) {
  const double low = call_attribute_f(call, "min", -(double)INFINITY);
  const double high = call_attribute_f(call, "max", (double)INFINITY);
  return call_output(
      call, 0, compute_clamp(call->graph, call_input(call, 0), low < high ? low : high, high));
}

/* The only element of input i, a tensor of any rank. */
static compute_status read_limit(model_call *call, size_t i, const char *name,
                                 compute_node *limit) {
  const compute_shape shape = call_shape(call, i);
  char text[160];
  if (op_count(shape, 0, shape.rank) != 1)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "input %zu '%s' is %s, not a single number", i,
                     name, compute_shape_text(shape, text, sizeof text));
  *limit = compute_reshape(call->graph, call_input(call, i), COMPUTE_SCALAR);
  return COMPUTE_OK;
}

static compute_status clip(model_call *call) {
  compute_node x = call_input(call, 0), limit;
  compute_status status = COMPUTE_OK;
  if (!call_has(call, 1) && !call_has(call, 2)) return identity(call);
  if (call_has(call, 1)) {
    status = read_limit(call, 1, "min", &limit);
    if (!status) x = number_maximum(call, x, limit);
  }
  if (!status && call_has(call, 2)) {
    status = read_limit(call, 2, "max", &limit);
    if (!status) x = number_minimum(call, x, limit);
  }
  return status ? status : call_output(call, 0, x);
}

/* ---- Two operands ---------------------------------------------------------------------------- */

static const struct {
  const char *name;
  binary_builder build;
} binary[] = {{"Add", compute_add},
              {"And", compute_logical_and},
              {"BitwiseAnd", compute_bit_and},
              {"BitwiseOr", compute_bit_or},
              {"BitwiseXor", compute_bit_xor},
              {"Or", compute_logical_or},
              {"Sub", compute_sub},
              {"Xor", compute_logical_xor}},
  comparisons[] = {{"Greater", compute_greater},
                   {"GreaterOrEqual", compute_greater_equal},
                   {"Less", compute_less},
                   {"LessOrEqual", compute_less_equal}};

static compute_status binary_rule(model_call *call) {
  size_t i = 0;
  while (strcmp(binary[i].name, call->node->type) != 0) i++;
  return call_output(call, 0,
                     binary[i].build(call->graph, call_input(call, 0), call_input(call, 1)));
}

static compute_status multiply(model_call *call) {
  return call_output(call, 0, formula_product(call, call_input(call, 0), call_input(call, 1)));
}

static compute_status compare(model_call *call) {
  size_t i = 0;
  while (strcmp(comparisons[i].name, call->node->type) != 0) i++;
  return call_output(
      call, 0,
      number_compare(call, comparisons[i].build, call_input(call, 0), call_input(call, 1)));
}

static compute_status divide(model_call *call) {
  return call_output(call, 0, formula_quotient(call, call_input(call, 0), call_input(call, 1)));
}

static compute_status mod(model_call *call) {
  const compute_node a = call_input(call, 0), b = call_input(call, 1);
  const bool truncate = call_attribute_i(call, "fmod", 0) != 0;
  return call_output(call, 0, truncate ? number_remainder(call, a, b) : number_modulo(call, a, b));
}

static compute_status bit_shift(model_call *call) {
  const compute_node a = call_input(call, 0), b = call_input(call, 1);
  const char *direction = call_attribute_s(call, "direction", "");
  if (strcmp(direction, "LEFT") == 0)
    return call_output(call, 0, compute_shift_left(call->graph, a, b));
  if (strcmp(direction, "RIGHT") == 0) return call_output(call, 0, number_shift_right(call, a, b));
  return call_fail(call, COMPUTE_ERROR_FORMAT,
                   "attribute 'direction' is '%s'; it must be LEFT or RIGHT", direction);
}

/* Returns true if the exponent is a known single number whose rank is not above the base's. */
static bool known_exponent(model_call *call, double *exponent) {
  int64_t count;
  return call_has(call, 1) && call->inputs[1]->host &&
         !compute_shape_count(call_shape(call, 1), &count) && count == 1 &&
         call_shape(call, 1).rank <= call_shape(call, 0).rank &&
         call_number(call, 1, exponent) == COMPUTE_OK;
}

static compute_status power(model_call *call) {
  double exponent;
  const compute_node base = call_input(call, 0);
  if (known_exponent(call, &exponent))
    return call_output(call, 0, number_power_of(call, base, exponent));
  return call_output(call, 0, number_power(call, base, call_input(call, 1)));
}

/* ---- Equal ----------------------------------------------------------------------------------- */

static compute_status equal(model_call *call) {
  if (call_is_text(call, 0) || call_is_text(call, 1)) return text_equal(call);
  return call_output(call, 0, compute_equal(call->graph, call_input(call, 0), call_input(call, 1)));
}

/* ---- Any number of operands ------------------------------------------------------------------ */

static compute_node add_two(model_call *call, compute_node a, compute_node b) {
  return compute_add(call->graph, a, b);
}

static compute_node fold(model_call *call,
                         compute_node (*join)(model_call *call, compute_node a, compute_node b)) {
  compute_node result = call_input(call, 0);
  for (size_t i = 1; i < call->input_count; i++) result = join(call, result, call_input(call, i));
  return result;
}

static compute_status sum(model_call *call) {
  return call_output(call, 0, fold(call, add_two));
}

static compute_status mean(model_call *call) {
  const compute_node total = fold(call, add_two);
  const compute_node count = call_scalar_like(call, total, (double)call->input_count);
  return call_output(call, 0, compute_div(call->graph, total, count));
}

static compute_status max_rule(model_call *call) {
  return call_output(call, 0, fold(call, number_maximum));
}

static compute_status min_rule(model_call *call) {
  return call_output(call, 0, fold(call, number_minimum));
}

static compute_status where(model_call *call) {
  return call_output_as(
      call, 0, call_type(call, 1),
      compute_select(call->graph, call_input(call, 0), call_input(call, 1), call_input(call, 2)));
}

/* ---- The table ------------------------------------------------------------------------------- */

#define MICROSOFT "com.microsoft"

static const operator_row rows[] = {
    {"", "Abs", 6, abs_rule},
    {"", "Acos", 7, unary_rule},
    {"", "Acosh", 9, unary_rule},
    {"", "Add", 7, binary_rule},
    {"", "And", 7, binary_rule},
    {"", "Asin", 7, unary_rule},
    {"", "Asinh", 9, unary_rule},
    {"", "Atan", 7, unary_rule},
    {"", "Atanh", 9, unary_rule},
    {"", "Bernoulli", 15, bernoulli_rule},
    {"", "BitCast", 26, bit_cast_rule},
    {"", "BitShift", 11, bit_shift},
    {"", "BitwiseAnd", 18, binary_rule},
    {"", "BitwiseNot", 18, unary_rule},
    {"", "BitwiseOr", 18, binary_rule},
    {"", "BitwiseXor", 18, binary_rule},
    {"", "Cast", 6, cast_rule},
    {"", "CastLike", 15, cast_like_rule},
    {"", "Ceil", 6, unary_rule},
    {"", "Celu", 12, celu},
    {"", "Clip", 6, clip_by_attributes},
    {"", "Clip", 11, clip},
    {"", "Cos", 7, unary_rule},
    {"", "Cosh", 9, unary_rule},
    {"", "Div", 7, divide},
    {"", "Dropout", 7, dropout_rule},
    {"", "Elu", 6, elu},
    {"", "Equal", 7, equal},
    {"", "Erf", 9, unary_rule},
    {"", "Exp", 6, unary_rule},
    {"", "Floor", 6, unary_rule},
    {"", "Gelu", 20, gelu},
    {"", "Greater", 7, compare},
    {"", "GreaterOrEqual", 12, compare},
    {"", "HardSigmoid", 6, hard_sigmoid},
    {"", "HardSwish", 14, hard_swish},
    {"", "Identity", 1, identity},
    {"", "IsInf", 10, is_inf},
    {"", "IsNaN", 9, unary_rule},
    {"", "LeakyRelu", 6, leaky_relu},
    {"", "Less", 7, compare},
    {"", "LessOrEqual", 12, compare},
    {"", "Log", 6, unary_rule},
    {"", "Max", 6, max_rule},
    {"", "Mean", 6, mean},
    {"", "Min", 6, min_rule},
    {"", "Mish", 18, mish},
    {"", "Mod", 10, mod},
    {"", "Mul", 7, multiply},
    {"", "Multinomial", 7, multinomial_rule},
    {"", "Neg", 6, unary_rule},
    {"", "Not", 1, unary_rule},
    {"", "Or", 7, binary_rule},
    {"", "PRelu", 7, prelu},
    {"", "Pow", 7, power},
    {"", "RandomNormal", 1, random_normal_rule},
    {"", "RandomNormalLike", 1, random_normal_rule},
    {"", "RandomUniform", 1, random_uniform_rule},
    {"", "RandomUniformLike", 1, random_uniform_rule},
    {"", "Reciprocal", 6, unary_rule},
    {"", "Relu", 6, unary_rule},
    {"", "Round", 11, unary_rule},
    {"", "Selu", 6, selu},
    {"", "Shrink", 9, shrink},
    {"", "Sigmoid", 6, unary_rule},
    {"", "Sign", 9, sign_rule},
    {"", "Sin", 7, unary_rule},
    {"", "Sinh", 9, unary_rule},
    {"", "Softplus", 1, unary_rule},
    {"", "Softsign", 1, softsign},
    {"", "Sqrt", 6, unary_rule},
    {"", "Sub", 7, binary_rule},
    {"", "Sum", 6, sum},
    {"", "SwiGLU", 28, swi_glu},
    {"", "Swish", 24, swish},
    {"", "Tan", 7, unary_rule},
    {"", "Tanh", 6, unary_rule},
    {"", "ThresholdedRelu", 10, thresholded_relu},
    {"", "Where", 9, where},
    {"", "Xor", 7, binary_rule},
    {MICROSOFT, "BiasAdd", 1, bias_add},
    {MICROSOFT, "BiasGelu", 1, bias_gelu},
    {MICROSOFT, "BiasSplitGelu", 1, bias_split_gelu},
    {MICROSOFT, "FastGelu", 1, fast_gelu},
    {MICROSOFT, "Gelu", 1, gelu},
    {MICROSOFT, "QuickGelu", 1, quick_gelu},
};

const operator_family operators_elementwise = OPERATOR_FAMILY(rows);
