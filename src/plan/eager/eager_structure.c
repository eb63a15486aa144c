/* SPDX-License-Identifier: MIT */
/* The eager calls of operations that are not elementwise. Each has a builder that reads its
 * attributes from the description of the call, and a function that fills in the description. */
#include "plan/eager/eager.h"

#include "core/base/error.h"
#include "core/base/float_environment.h"

/* ---- Sources, cast, clamp -------------------------------------------------------------------- */

EAGER_BUILD(index, compute_index(graph, call->dtype, call->shape, call->axis))

compute_status compute_tensor_index(compute_device *device, compute_dtype dtype,
                                    compute_shape shape, int32_t axis, compute_tensor **result) {
  return EAGER_CALL(index, .device = device, .dtype = dtype, .shape = shape, .axis = axis);
}

EAGER_BUILD(random_uniform,
            compute_random_uniform(graph, call->dtype, call->shape, x[0], call->stream))

compute_status compute_tensor_random_uniform(const compute_tensor *seed, compute_dtype dtype,
                                             compute_shape shape, uint32_t stream,
                                             compute_tensor **result) {
  return EAGER_CALL(random_uniform, EAGER_OPERANDS(seed), .dtype = dtype, .shape = shape,
                    .stream = stream);
}

EAGER_BUILD(cast, compute_cast(graph, x[0], call->dtype))

compute_status compute_tensor_cast(const compute_tensor *x, compute_dtype dtype,
                                   compute_tensor **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return EAGER_CALL(cast, EAGER_OPERANDS(x), .dtype = dtype);
}

EAGER_BUILD(clamp, compute_clamp(graph, x[0], call->number[0], call->number[1]))

compute_status compute_tensor_clamp(const compute_tensor *x, double low, double high,
                                    compute_tensor **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return EAGER_CALL(clamp, EAGER_OPERANDS(x), .number = {low, high});
}

EAGER_BUILD(clamp_i64, compute_clamp_i64(graph, x[0], call->integer[0], call->integer[1]))

compute_status compute_tensor_clamp_i64(const compute_tensor *x, int64_t low, int64_t high,
                                        compute_tensor **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return EAGER_CALL_AS("clamp", build_clamp_i64, EAGER_OPERANDS(x), .integer = {low, high});
}

/* ---- Shape ----------------------------------------------------------------------------------- */

EAGER_BUILD(transpose, compute_transpose(graph, x[0], call->axes))

compute_status compute_tensor_transpose(const compute_tensor *x, compute_axes order,
                                        compute_tensor **result) {
  return EAGER_CALL(transpose, EAGER_OPERANDS(x), .axes = order);
}

EAGER_BUILD(reshape, compute_reshape(graph, x[0], call->shape))

compute_status compute_tensor_reshape(const compute_tensor *x, compute_shape shape,
                                      compute_tensor **result) {
  return EAGER_CALL(reshape, EAGER_OPERANDS(x), .shape = shape);
}

EAGER_BUILD(slice, compute_slice(graph, x[0], call->axis, call->integer[0], call->integer[1],
                                 call->integer[2]))

compute_status compute_tensor_slice(const compute_tensor *x, int32_t axis, int64_t start,
                                    int64_t count, int64_t step, compute_tensor **result) {
  return EAGER_CALL(slice, EAGER_OPERANDS(x), .axis = axis, .integer = {start, count, step});
}

EAGER_BUILD(broadcast, compute_broadcast(graph, x[0], call->shape))

compute_status compute_tensor_broadcast(const compute_tensor *x, compute_shape shape,
                                        compute_tensor **result) {
  return EAGER_CALL(broadcast, EAGER_OPERANDS(x), .shape = shape);
}

EAGER_BUILD(concat, compute_concat(graph, x, call->operand_count, call->axis))

compute_status compute_tensor_concat(compute_tensor *const *parts, size_t count, int32_t axis,
                                     compute_tensor **result) {
  if (!parts || count == 0) {
    return error_set(NULL, parts ? COMPUTE_ERROR_INVALID_ARGUMENT : COMPUTE_ERROR_NULL_POINTER,
                     "concat", "%s", parts ? "needs at least one part" : "parts is NULL");
  }
  return EAGER_CALL(concat, .operands = (const compute_tensor *const *)parts,
                    .operand_count = count, .axis = axis);
}

EAGER_BUILD(embed, compute_embed(graph, x[0], call->axis, call->integer[0], call->integer[1],
                                 call->integer[2]))

compute_status compute_tensor_embed(const compute_tensor *x, int32_t axis, int64_t size,
                                    int64_t start, int64_t step, compute_tensor **result) {
  return EAGER_CALL(embed, EAGER_OPERANDS(x), .axis = axis, .integer = {size, start, step});
}

/* ---- Products, reductions, rows -------------------------------------------------------------- */

EAGER_BUILD(matmul, compute_matmul(graph, x[0], x[1]))

compute_status compute_tensor_matmul(const compute_tensor *a, const compute_tensor *b,
                                     compute_tensor **result) {
  return EAGER_CALL(matmul, EAGER_OPERANDS(a, b));
}

EAGER_BUILD(matmul_integer, compute_matmul_integer(graph, x[0], x[1], x[2], x[3]))

compute_status compute_tensor_matmul_integer(const compute_tensor *a, const compute_tensor *b,
                                             const compute_tensor *a_zero,
                                             const compute_tensor *b_zero,
                                             compute_tensor **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return EAGER_CALL(matmul_integer, EAGER_OPERANDS(a, b, a_zero, b_zero), .optional = true);
}

#define FOLD(name)                                                                                 \
  EAGER_BUILD(name, compute_##name(graph, x[0], call->axes, call->keep_axes))                      \
  compute_status compute_tensor_##name(const compute_tensor *x, compute_axes axes, bool keep_axes, \
                                       compute_tensor **result) {                                  \
    return EAGER_CALL(name, EAGER_OPERANDS(x), .axes = axes, .keep_axes = keep_axes);              \
  }

FOLD(sum)
FOLD(mean)
FOLD(prod)
FOLD(max)
FOLD(min)

#define ARG_FOLD(name)                                                                             \
  EAGER_BUILD(name, compute_##name(graph, x[0], call->axis, call->keep_axes))                      \
  compute_status compute_tensor_##name(const compute_tensor *x, int32_t axis, bool keep_axis,      \
                                       compute_tensor **result) {                                  \
    return EAGER_CALL(name, EAGER_OPERANDS(x), .axis = axis, .keep_axes = keep_axis);              \
  }

ARG_FOLD(argmax)
ARG_FOLD(argmin)

EAGER_BUILD(softmax, compute_softmax(graph, x[0], call->axis))

compute_status compute_tensor_softmax(const compute_tensor *x, int32_t axis,
                                      compute_tensor **result) {
  return EAGER_CALL(softmax, EAGER_OPERANDS(x), .axis = axis);
}

EAGER_BUILD(log_softmax, compute_log_softmax(graph, x[0], call->axis))

compute_status compute_tensor_log_softmax(const compute_tensor *x, int32_t axis,
                                          compute_tensor **result) {
  return EAGER_CALL(log_softmax, EAGER_OPERANDS(x), .axis = axis);
}

EAGER_BUILD(normalize, compute_normalize(graph, x[0], call->number[0]))

compute_status compute_tensor_normalize(const compute_tensor *x, double epsilon,
                                        compute_tensor **result) {
  return EAGER_CALL(normalize, EAGER_OPERANDS(x), .number = {epsilon});
}

EAGER_BUILD(layer_norm, compute_layer_norm(graph, x[0], x[1], x[2], call->number[0]))

compute_status compute_tensor_layer_norm(const compute_tensor *x, const compute_tensor *gain,
                                         const compute_tensor *bias, double epsilon,
                                         compute_tensor **result) {
  return EAGER_CALL(layer_norm, EAGER_OPERANDS(x, gain, bias), .optional = true,
                    .number = {epsilon});
}

/* ---- Indexing and losses --------------------------------------------------------------------- */

EAGER_BUILD(gather, compute_gather(graph, x[0], x[1], call->axis))

compute_status compute_tensor_gather(const compute_tensor *x, const compute_tensor *indices,
                                     int32_t axis, compute_tensor **result) {
  return EAGER_CALL(gather, EAGER_OPERANDS(x, indices), .axis = axis);
}

EAGER_BUILD(gather_elements, compute_gather_elements(graph, x[0], x[1], call->axis))

compute_status compute_tensor_gather_elements(const compute_tensor *x,
                                              const compute_tensor *indices, int32_t axis,
                                              compute_tensor **result) {
  return EAGER_CALL(gather_elements, EAGER_OPERANDS(x, indices), .axis = axis);
}

EAGER_BUILD(scatter_add, compute_scatter_add(graph, x[0], x[1], call->axis, call->integer[0]))

compute_status compute_tensor_scatter_add(const compute_tensor *x, const compute_tensor *indices,
                                          int32_t axis, int64_t size, compute_tensor **result) {
  return EAGER_CALL(scatter_add, EAGER_OPERANDS(x, indices), .axis = axis, .integer = {size});
}

EAGER_BUILD(scatter_add_elements,
            compute_scatter_add_elements(graph, x[0], x[1], call->axis, call->shape))

compute_status compute_tensor_scatter_add_elements(const compute_tensor *x,
                                                   const compute_tensor *indices, int32_t axis,
                                                   compute_shape shape, compute_tensor **result) {
  return EAGER_CALL(scatter_add_elements, EAGER_OPERANDS(x, indices), .axis = axis, .shape = shape);
}

EAGER_BUILD(scatter, compute_scatter(graph, x[0], x[1], x[2], call->axis,
                                     (compute_scatter_mode)call->integer[0]))

compute_status compute_tensor_scatter(const compute_tensor *data, const compute_tensor *updates,
                                      const compute_tensor *indices, int32_t axis,
                                      compute_scatter_mode mode, compute_tensor **result) {
  return EAGER_CALL(scatter, EAGER_OPERANDS(data, updates, indices), .axis = axis,
                    .integer = {mode});
}

EAGER_BUILD(scatter_elements, compute_scatter_elements(graph, x[0], x[1], x[2], call->axis,
                                                       (compute_scatter_mode)call->integer[0]))

compute_status compute_tensor_scatter_elements(const compute_tensor *data,
                                               const compute_tensor *updates,
                                               const compute_tensor *indices, int32_t axis,
                                               compute_scatter_mode mode, compute_tensor **result) {
  return EAGER_CALL(scatter_elements, EAGER_OPERANDS(data, updates, indices), .axis = axis,
                    .integer = {mode});
}

EAGER_BUILD(bincount, compute_bincount(graph, x[0], x[1], call->integer[0], call->axis))

compute_status compute_tensor_bincount(const compute_tensor *x, const compute_tensor *weights,
                                       int64_t bins, int32_t axis, compute_tensor **result) {
  return EAGER_CALL(bincount, EAGER_OPERANDS(x, weights), .optional = true, .axis = axis,
                    .integer = {bins});
}

EAGER_BUILD(cross_entropy, compute_cross_entropy(graph, x[0], x[1]))

compute_status compute_tensor_cross_entropy(const compute_tensor *logits,
                                            const compute_tensor *labels, compute_tensor **result) {
  return EAGER_CALL(cross_entropy, EAGER_OPERANDS(logits, labels));
}

EAGER_BUILD(mean_squared_error, compute_mean_squared_error(graph, x[0], x[1]))

compute_status compute_tensor_mean_squared_error(const compute_tensor *a, const compute_tensor *b,
                                                 compute_tensor **result) {
  return EAGER_CALL(mean_squared_error, EAGER_OPERANDS(a, b));
}
