/* SPDX-License-Identifier: MIT */
/* Products of quantized numbers and their scales. Operators on quantized numbers use them, and so
 * do ordinary operators whose operands were dequantized. */
#include "model/operators/quantized_product.h"

#include <string.h>

#include "core/type/shape.h"
#include "model/operators/op.h"
#include "model/operators/quantize.h"

/* ---- Scales and zero points ------------------------------------------------------------------ */

compute_node quantized_parameter(model_call *call, size_t i, bool rows) {
  const compute_shape shape = call_shape(call, i);
  const compute_node x = call_input(call, i);
  if (!call_has(call, i)) return x;
  if (shape.rank <= 1 && op_count(shape, 0, shape.rank) == 1)
    return compute_reshape(call->graph, x, COMPUTE_SCALAR);
  return rows && shape.rank == 1 ? op_along(call, x, 0, 2) : x;
}

compute_node quantized_scale(model_call *call, size_t i, bool rows) {
  return op_cast(call, quantized_parameter(call, i, rows), COMPUTE_F32);
}

/* ---- Products of matrices -------------------------------------------------------------------- */

integer_factor quantized_factor(model_call *call, size_t i, size_t zero, bool rows) {
  return integer_input(call, i, call_input(call, i), zero, quantized_parameter(call, zero, rows));
}

compute_node quantized_product(model_call *call, size_t a, size_t a_zero, size_t b, size_t b_zero) {
  const integer_factor left = quantized_factor(call, a, a_zero, true);
  const integer_factor right = quantized_factor(call, b, b_zero, false);
  return integer_product(call, &left, &right);
}

/* ---- Convolutions ---------------------------------------------------------------------------- */

compute_node quantized_of_filters(model_call *call, const integer_sums *sums, compute_node x) {
  return sums && compute_node_shape(call->graph, x).rank == 1
             ? compute_reshape(call->graph, x, sums->channels)
             : x;
}

/* The elements of input i if it is a known f32 tensor, or NULL. */
static const float *known_floats(model_call *call, size_t i, int64_t *count) {
  const void *data;
  *count = op_count(call_shape(call, i), 0, call_shape(call, i).rank);
  if (call_dtype(call, i) != COMPUTE_F32 || !call->inputs[i]->host || call_host(call, i, &data))
    return NULL;
  return data;
}

compute_node quantized_joint_scale(model_call *call, const integer_sums *sums, size_t x, size_t w,
                                   size_t y) {
  compute_graph *graph = call->graph;
  int64_t x_count, w_count, y_count;
  const float *of_x = known_floats(call, x, &x_count), *of_w = known_floats(call, w, &w_count);
  const float *of_y = call_has(call, y) ? known_floats(call, y, &y_count) : &(const float){1};
  if (!call_has(call, y)) y_count = 1;
  if (of_x && of_w && of_y && x_count == 1 && y_count == 1 && w_count > 0) {
    float *joint = call_allocate(call, (size_t)w_count, sizeof *joint);
    const compute_shape shape = w_count == 1 ? COMPUTE_SCALAR : COMPUTE_SHAPE(w_count);
    for (int64_t i = 0; joint && i < w_count; i++) joint[i] = of_x[0] * of_w[i] / of_y[0];
    if (joint)
      return quantized_of_filters(call, sums, compute_constant(graph, COMPUTE_F32, shape, joint));
  }
  const compute_node scale =
      compute_mul(graph, quantized_scale(call, x, false),
                  quantized_of_filters(call, sums, quantized_scale(call, w, false)));
  return call_has(call, y) ? compute_div(graph, scale, quantized_scale(call, y, false)) : scale;
}

/* ---- Dequantized numbers --------------------------------------------------------------------- */

/* The bias (input 2) with `filters` numbers. A bias dequantized from known numbers becomes a
 * constant; otherwise every sum would multiply its factors again. */
static compute_node take_bias(model_call *call, int64_t filters) {
  const quantized_form *form = call->inputs[2]->quantized;
  const compute_node x = call_input(call, 2);
  if (!form || form->values.dtype != COMPUTE_I32 || !integer_is_0(&form->zero)) return x;
  const int64_t count = op_count(form->values.shape, 0, form->values.shape.rank);
  const int64_t scales = op_count(form->scale.shape, 0, form->scale.shape.rank);
  const unsigned char *values = form->values.host, *scale = form->scale.host;
  if (!values || !scale || count != filters || (scales != 1 && scales != filters)) return x;
  float *bias = call_allocate(call, (size_t)filters, sizeof *bias);
  if (!bias) return x;
  for (int64_t i = 0; i < filters; i++) { /* host data may be unaligned */
    int32_t value;
    float factor;
    memcpy(&value, values + 4 * i, sizeof value);
    memcpy(&factor, scale + (scales == 1 ? 0 : 4 * i), sizeof factor);
    bias[i] = (float)value * factor;
  }
  return compute_constant(call->graph, COMPUTE_F32, COMPUTE_SHAPE(filters), bias);
}

compute_status quantized_conv(model_call *call, compute_node *y) {
  compute_graph *graph = call->graph;
  model_call own;
  integer_sums sums;
  *y = (compute_node){0};
  if (!quantized_call(call, 0, 1, 0, &own) || !integer_convolution_fits(&own, 0, 2, 3, 5))
    return COMPUTE_OK;
  const compute_status status = integer_convolution(&own, 0, 2, 3, 5, SIZE_MAX, &sums);
  if (status) return status;
  *y = compute_mul(graph, op_cast(call, sums.values, COMPUTE_F32),
                   quantized_joint_scale(&own, &sums, 1, 4, SIZE_MAX));
  if (call_has(call, 2))
    *y = compute_add(graph, *y,
                     quantized_of_filters(call, &sums, take_bias(call, shape_at(sums.result, 1))));
  *y = integer_result(call, &sums, *y);
  return COMPUTE_OK;
}

compute_node quantized_matmul(model_call *call, bool a_transposed, bool b_transposed) {
  const compute_shape a = call_shape(call, 0), b = call_shape(call, 1);
  model_call own;
  if (a.rank < 2 || b.rank < 2 || a_transposed ||
      !quantized_call(call, 0, 1, b_transposed ? b.rank - 2 : b.rank - 1, &own))
    return (compute_node){0};
  integer_factor left = quantized_factor(&own, 0, 2, false),
                 right = quantized_factor(&own, 3, 5, false);
  if (b_transposed) {
    right.values = op_move_axis(call, right.values, b.rank - 1, b.rank - 2);
    right.host = NULL;
  }
  if (!integer_fits(call, &left, &right)) return (compute_node){0};
  const compute_node sums = op_cast(call, integer_product(call, &left, &right), COMPUTE_F32);
  return compute_mul(call->graph, sums, quantized_joint_scale(&own, NULL, 1, 4, SIZE_MAX));
}
