/* SPDX-License-Identifier: MIT */
/* The table of ONNX forms for all operations. Give each new operation a row with its form, or
 * with the reason why it has none. */
#include "model/export/export.h"

static const char gradient[] = "a gradient: models are written for inference";
static const char fit[] = "ONNX has no fits";

/* clang-format off */
static const export_form forms[OP_COUNT] = {
  [OP_neg] = {"Neg", export_neg, EXPORT_ALL},
  [OP_abs] = {"Abs", export_plain, EXPORT_ALL},
  [OP_sign] = {"Sign", export_plain, EXPORT_ALL},
  [OP_square] = {"Mul", export_square, EXPORT_ALL},
  [OP_sqrt] = {"Sqrt", export_plain, EXPORT_FLOATS},
  [OP_rsqrt] = {"Sqrt, Reciprocal", export_rsqrt, EXPORT_WIDE},
  [OP_reciprocal] = {"Reciprocal", export_plain, EXPORT_FLOATS},
  [OP_exp] = {"Exp", export_plain, EXPORT_FLOATS},
  [OP_expm1] = {"Tanh, Exp", export_expm1, EXPORT_WIDE},
  [OP_log] = {"Log", export_plain, EXPORT_FLOATS},
  [OP_log1p] = {"Log, Where", export_log1p, EXPORT_WIDE},
  [OP_sin] = {"Sin", export_plain, EXPORT_FLOATS},
  [OP_cos] = {"Cos", export_plain, EXPORT_FLOATS},
  [OP_tan] = {"Tan", export_plain, EXPORT_FLOATS},
  [OP_asin] = {"Asin", export_plain, EXPORT_FLOATS},
  [OP_acos] = {"Acos", export_plain, EXPORT_FLOATS},
  [OP_atan] = {"Atan", export_plain, EXPORT_FLOATS},
  [OP_sinh] = {"Sinh", export_plain, EXPORT_FLOATS},
  [OP_cosh] = {"Cosh", export_plain, EXPORT_FLOATS},
  [OP_tanh] = {"Tanh", export_plain, EXPORT_FLOATS},
  [OP_asinh] = {"Asinh", export_plain, EXPORT_FLOATS},
  [OP_acosh] = {"Acosh", export_plain, EXPORT_FLOATS},
  [OP_atanh] = {"Atanh", export_plain, EXPORT_FLOATS},
  [OP_erf] = {"Erf", export_plain, EXPORT_FLOATS},
  [OP_floor] = {"Floor", export_plain, EXPORT_FLOATS},
  [OP_ceil] = {"Ceil", export_plain, EXPORT_FLOATS},
  [OP_round] = {"Round", export_plain, EXPORT_FLOATS},
  [OP_trunc] = {"Sign, Floor, Abs", export_trunc, EXPORT_WIDE},
  [OP_relu] = {"Relu", export_relu, EXPORT_ALL},
  [OP_sigmoid] = {"Sigmoid", export_plain, EXPORT_FLOATS},
  [OP_gelu] = {"Gelu; f64: Erf", export_gelu, EXPORT_WIDE},
  [OP_gelu_tanh] = {"Gelu; f64: Tanh", export_gelu_tanh, EXPORT_WIDE},
  [OP_silu] = {"Sigmoid, Mul", export_silu, EXPORT_WIDE},
  [OP_softplus] = {"Softplus", export_plain, EXPORT_FLOATS},
  [OP_is_nan] = {"IsNaN", export_plain, EXPORT_FLOATS},
  [OP_is_finite] = {"IsInf, IsNaN", export_is_finite, EXPORT_FLOATS},
  [OP_bit_not] = {"BitwiseNot", export_plain, EXPORT_ALL},
  [OP_logical_not] = {"Not", export_plain, EXPORT_ALL},

  [OP_add] = {"Add", export_plain, EXPORT_ALL},
  [OP_sub] = {"Sub", export_plain, EXPORT_ALL},
  [OP_mul] = {"Mul", export_plain, EXPORT_ALL},
  [OP_div] = {"Div; integers: Where", export_div, EXPORT_ALL},
  [OP_mod] = {"Mod; integers: Where", export_mod, EXPORT_ALL},
  [OP_pow] = {"Pow", export_plain, EXPORT_FLOATS},
  [OP_minimum] = {"Min", export_plain, EXPORT_ALL},
  [OP_maximum] = {"Max", export_plain, EXPORT_ALL},
  [OP_equal] = {"Equal", export_plain, EXPORT_ALL},
  [OP_not_equal] = {"Equal, Not", export_not_equal, EXPORT_ALL},
  [OP_less] = {"Less", export_plain, EXPORT_ALL},
  [OP_less_equal] = {"LessOrEqual", export_plain, EXPORT_ALL},
  [OP_greater] = {"Greater", export_plain, EXPORT_ALL},
  [OP_greater_equal] = {"GreaterOrEqual", export_plain, EXPORT_ALL},
  [OP_logical_and] = {"And", export_plain, EXPORT_ALL},
  [OP_logical_or] = {"Or", export_plain, EXPORT_ALL},
  [OP_logical_xor] = {"Xor", export_plain, EXPORT_ALL},
  [OP_bit_and] = {"BitwiseAnd", export_plain, EXPORT_ALL},
  [OP_bit_or] = {"BitwiseOr", export_plain, EXPORT_ALL},
  [OP_bit_xor] = {"BitwiseXor", export_plain, EXPORT_ALL},
  [OP_shift_left] = {"BitShift, Where", export_shift_left, EXPORT_ALL},
  [OP_shift_right] = {"BitShift, BitwiseNot, Where", export_shift_right, EXPORT_ALL},
  [OP_select] = {"Where", export_plain, EXPORT_ALL},
  [OP_leaky_relu] = {"LeakyRelu; f64: Where", export_leaky_relu, EXPORT_FLOATS},
  [OP_elu] = {"Elu; f64: Tanh, Exp, Where", export_elu, EXPORT_FLOATS},

  [OP_input] = {"an input, which the caller names", NULL, 0},
  [OP_parameter] = {"an initializer", export_parameter, EXPORT_ALL},
  [OP_constant] = {"an initializer; of equal elements: Expand", export_constant, EXPORT_ALL},
  [OP_index] = {"Range, Expand", export_index, EXPORT_ALL},
  [OP_random_uniform] = {"its random numbers are the library's own", NULL, 0},
  [OP_random_draw] = {"its random numbers are the library's own", NULL, 0},
  [OP_cast] = {"Cast; floats to integers: Where, Min, Max", export_conversion, EXPORT_ALL},
  [OP_transpose] = {"Transpose", export_transpose, EXPORT_ALL},
  [OP_reshape] = {"Reshape", export_shaped, EXPORT_ALL},
  [OP_slice] = {"Slice", export_slice, EXPORT_ALL},
  [OP_broadcast] = {"Expand", export_broadcast, EXPORT_ALL},
  [OP_concat] = {"Concat", export_along, EXPORT_ALL},
  [OP_embed] = {"Pad", export_embed, EXPORT_ALL & ~EXPORT_SHORTS},
  [OP_matmul] = {"MatMul", export_plain, EXPORT_FLOATS | EXPORT_LONG_INTEGERS},
  [OP_matmul_integer] = {"MatMulInteger", export_plain, EXPORT_BYTES},
  [OP_quantized_matmul] = {"BitShift, BitwiseAnd, Sub, Mul, MatMul", export_composed, EXPORT_ALL},
  [OP_sum] = {"ReduceSum", export_reduction, EXPORT_WIDE | EXPORT_LONG_INTEGERS},
  [OP_mean] = {"ReduceMean", export_reduction, EXPORT_WIDE},
  [OP_prod] = {"ReduceProd", export_reduction, EXPORT_WIDE | EXPORT_LONG_INTEGERS},
  [OP_max] = {"ReduceMax", export_reduction, EXPORT_FLOATS | EXPORT_LONG_INTEGERS | EXPORT_BYTES},
  [OP_min] = {"ReduceMin", export_reduction, EXPORT_FLOATS | EXPORT_LONG_INTEGERS | EXPORT_BYTES},
  [OP_argmax] = {"ArgMax", export_extremum, EXPORT_ALL},
  [OP_argmin] = {"ArgMin", export_extremum, EXPORT_ALL},
  [OP_softmax] = {"Softmax", export_along, EXPORT_WIDE},
  [OP_log_softmax] = {"LogSoftmax", export_along, EXPORT_WIDE},
  [OP_normalize] = {"LayerNormalization; f64: ReduceMean, Sqrt, Div", export_normalize, EXPORT_FLOATS},
  [OP_gather] = {"Gather", export_along, EXPORT_ALL},
  [OP_gather_elements] = {"GatherElements", export_along, EXPORT_ALL},
  [OP_scatter_add] = {"ScatterND", export_scatter_add, EXPORT_WIDE | EXPORT_LONG_INTEGERS},
  [OP_scatter_add_elements] = {"ScatterElements", export_scatter_add_elements, EXPORT_WIDE | EXPORT_LONG_INTEGERS},
  [OP_scatter] = {"ScatterND", export_scatter, EXPORT_WIDE | EXPORT_LONG_INTEGERS},
  [OP_scatter_elements] = {"ScatterElements", export_scatter_elements, EXPORT_WIDE | EXPORT_LONG_INTEGERS},
  [OP_bincount] = {"ONNX has no operator that counts values", NULL, 0},
  [OP_conv2d] = {"Conv", export_conv, EXPORT_FLOATS},
  [OP_conv2d_integer] = {"ConvInteger", export_conv, EXPORT_BYTES},
  [OP_conv2d_by_data] = {"ConvTranspose", export_conv_transpose, EXPORT_FLOATS},
  [OP_conv2d_by_filter] = {gradient, NULL, 0},
  [OP_max_pool2d] = {"MaxPool; i64: Pad, Slice, Max", export_pool, EXPORT_FLOATS | EXPORT_BYTES},
  [OP_max_pool2d_by_data] = {gradient, NULL, 0},
  [OP_argmax_pool2d] = {"MaxPool; i64: Pad, Slice, Where", export_pool, EXPORT_FLOATS | EXPORT_BYTES},
  [OP_average_pool2d] = {"AveragePool", export_pool, EXPORT_FLOATS},
  [OP_average_pool2d_by_data] = {gradient, NULL, 0},
  [OP_cumulative_sum] = {"CumSum", export_cumulative_sum, EXPORT_WIDE | EXPORT_LONG_INTEGERS},
  [OP_top_k] = {"TopK", export_top_k, EXPORT_ALL & ~EXPORT_BIT(BF16)},
  [OP_sort] = {"TopK", export_sort, EXPORT_ALL & ~EXPORT_BIT(BF16)},
  [OP_argsort] = {"TopK", export_sort, EXPORT_ALL & ~EXPORT_BIT(BF16)},
  [OP_fourier] = {"DFT", export_fourier, EXPORT_WIDE},
  [OP_linalg] = {"ONNX has no such operation", NULL, 0},
  [OP_tree_ensemble] = {"the rule is not written yet", NULL, 0},
  [OP_scaled_attention] = {"MatMul, Softmax", export_attention, EXPORT_WIDE},
  [OP_recurrent] = {"LSTM, GRU, RNN", export_recurrent, EXPORT_WIDE},
  [OP_gaussian_fit] = {fit, NULL, 0},
  [OP_find_spots] = {fit, NULL, 0},
  [OP_call] = {"a function of the caller's own", NULL, 0},
  [OP_call_result] = {"a function of the caller's own", NULL, 0},
  [OP_assign] = {"models have no state", NULL, 0},
  [OP_group] = {"models have no state", NULL, 0},
};
/* clang-format on */

const export_form *export_form_of(graph_op op) {
  return op > OP_NONE && op < OP_COUNT && forms[op].text ? &forms[op] : NULL;
}

/* For a node with two forms, its kernel or a composition of other nodes: the last operand is the
 * composition's result. */
export_value export_composed(exporter *to, const export_call *call) {
  (void)to;
  return call->inputs[call->node->input_count - 1];
}

/* The first wider dtype in `dtypes` that represents all values of `dtype`. */
static compute_dtype widened(compute_dtype dtype, uint32_t dtypes) {
  static const compute_dtype floats[] = {COMPUTE_F32, COMPUTE_F64, COMPUTE_DTYPE_NONE};
  static const compute_dtype integers[] = {COMPUTE_I32, COMPUTE_I64, COMPUTE_F64,
                                           COMPUTE_DTYPE_NONE};
  if (dtypes >> dtype & 1) return dtype;
  const bool is_float = EXPORT_FLOATS >> dtype & 1;
  for (const compute_dtype *at = is_float ? floats : integers; *at; at++)
    if ((dtypes >> *at & 1) && compute_dtype_size(*at) > compute_dtype_size(dtype)) return *at;
  return dtype;
}

export_value export_operation(exporter *to, const export_call *call) {
  const graph_node *node = call->node;
  export_call wide = *call;
  const compute_dtype dtype =
      node->input_count ? export_operand(to, call, 0)->dtype : COMPUTE_DTYPE_NONE;
  wide.dtype = dtype ? widened(dtype, call->form->dtypes) : node->dtype;
  if (wide.dtype == dtype || !dtype) return call->form->rule(to, &wide);
  export_value *inputs = arena_allocate(&to->arena, node->input_count, sizeof *inputs);
  if (!inputs) {
    to->failed = true;
    return 0;
  }
  for (uint32_t i = 0; i < node->input_count; i++) {
    inputs[i] = call->inputs[i];
    if (export_operand(to, call, i)->dtype == dtype)
      inputs[i] = export_cast(to, inputs[i], wide.dtype);
  }
  wide.inputs = inputs;
  const export_value result = call->form->rule(to, &wide);
  return node->dtype == dtype ? export_cast(to, result, dtype) : result;
}
