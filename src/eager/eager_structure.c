/* The eager calls of the operations that are not elementwise. Each has a builder that takes its
 * attributes from the description of the call, and a function that fills in the description. */
#include "eager/eager.h"

#include "base/error.h"

/* ---- Sources, cast, clamp -------------------------------------------------------------------- */

static compute_node build_index(compute_graph *graph, const compute_node *x,
                                const eager_call *call) {
  (void)x;
  return compute_index(graph, call->dtype, call->shape, call->axis);
}

compute_status compute_tensor_index(compute_device *device, compute_dtype dtype,
                                    compute_shape shape, int32_t axis, compute_tensor **result) {
  const eager_call call = {.operation = "index",
                           .build = build_index,
                           .device = device,
                           .dtype = dtype,
                           .shape = shape,
                           .axis = axis};
  return eager_run(&call, result);
}

static compute_node build_random_uniform(compute_graph *graph, const compute_node *x,
                                         const eager_call *call) {
  return compute_random_uniform(graph, call->dtype, call->shape, x[0], call->stream);
}

compute_status compute_tensor_random_uniform(const compute_tensor *seed, compute_dtype dtype,
                                             compute_shape shape, uint32_t stream,
                                             compute_tensor **result) {
  const eager_call call = {.operation = "random_uniform",
                           .build = build_random_uniform,
                           .operands = &seed,
                           .operand_count = 1,
                           .dtype = dtype,
                           .shape = shape,
                           .stream = stream};
  return eager_run(&call, result);
}

static compute_node build_cast(compute_graph *graph, const compute_node *x,
                               const eager_call *call) {
  return compute_cast(graph, x[0], call->dtype);
}

compute_status compute_tensor_cast(const compute_tensor *x, compute_dtype dtype,
                                   compute_tensor **result) {
  const eager_call call = {
      .operation = "cast", .build = build_cast, .operands = &x, .operand_count = 1, .dtype = dtype};
  return eager_run(&call, result);
}

static compute_node build_clamp(compute_graph *graph, const compute_node *x,
                                const eager_call *call) {
  return compute_clamp(graph, x[0], call->number[0], call->number[1]);
}

compute_status compute_tensor_clamp(const compute_tensor *x, double low, double high,
                                    compute_tensor **result) {
  const eager_call call = {.operation = "clamp",
                           .build = build_clamp,
                           .operands = &x,
                           .operand_count = 1,
                           .number = {low, high}};
  return eager_run(&call, result);
}

static compute_node build_clamp_i64(compute_graph *graph, const compute_node *x,
                                    const eager_call *call) {
  return compute_clamp_i64(graph, x[0], call->integer[0], call->integer[1]);
}

compute_status compute_tensor_clamp_i64(const compute_tensor *x, int64_t low, int64_t high,
                                        compute_tensor **result) {
  const eager_call call = {.operation = "clamp",
                           .build = build_clamp_i64,
                           .operands = &x,
                           .operand_count = 1,
                           .integer = {low, high}};
  return eager_run(&call, result);
}

/* ---- Shape
 * --------------------------------------------------------------------------------------- */

static compute_node build_transpose(compute_graph *graph, const compute_node *x,
                                    const eager_call *call) {
  return compute_transpose(graph, x[0], call->axes);
}

compute_status compute_tensor_transpose(const compute_tensor *x, compute_axes order,
                                        compute_tensor **result) {
  const eager_call call = {.operation = "transpose",
                           .build = build_transpose,
                           .operands = &x,
                           .operand_count = 1,
                           .axes = order};
  return eager_run(&call, result);
}

static compute_node build_reshape(compute_graph *graph, const compute_node *x,
                                  const eager_call *call) {
  return compute_reshape(graph, x[0], call->shape);
}

compute_status compute_tensor_reshape(const compute_tensor *x, compute_shape shape,
                                      compute_tensor **result) {
  const eager_call call = {.operation = "reshape",
                           .build = build_reshape,
                           .operands = &x,
                           .operand_count = 1,
                           .shape = shape};
  return eager_run(&call, result);
}

static compute_node build_slice(compute_graph *graph, const compute_node *x,
                                const eager_call *call) {
  return compute_slice(graph, x[0], call->axis, call->integer[0], call->integer[1],
                       call->integer[2]);
}

compute_status compute_tensor_slice(const compute_tensor *x, int32_t axis, int64_t start,
                                    int64_t count, int64_t step, compute_tensor **result) {
  const eager_call call = {.operation = "slice",
                           .build = build_slice,
                           .operands = &x,
                           .operand_count = 1,
                           .axis = axis,
                           .integer = {start, count, step}};
  return eager_run(&call, result);
}

static compute_node build_broadcast(compute_graph *graph, const compute_node *x,
                                    const eager_call *call) {
  return compute_broadcast(graph, x[0], call->shape);
}

compute_status compute_tensor_broadcast(const compute_tensor *x, compute_shape shape,
                                        compute_tensor **result) {
  const eager_call call = {.operation = "broadcast",
                           .build = build_broadcast,
                           .operands = &x,
                           .operand_count = 1,
                           .shape = shape};
  return eager_run(&call, result);
}

static compute_node build_concat(compute_graph *graph, const compute_node *x,
                                 const eager_call *call) {
  return compute_concat(graph, x, call->operand_count, call->axis);
}

compute_status compute_tensor_concat(compute_tensor *const *parts, size_t count, int32_t axis,
                                     compute_tensor **result) {
  if (!parts || count == 0) {
    return error_set(NULL, parts ? COMPUTE_ERROR_INVALID_ARGUMENT : COMPUTE_ERROR_NULL_POINTER,
                     "concat", "concat: %s", parts ? "needs at least one part" : "parts is NULL");
  }
  const eager_call call = {.operation = "concat",
                           .build = build_concat,
                           .operands = (const compute_tensor *const *)parts,
                           .operand_count = count,
                           .axis = axis};
  return eager_run(&call, result);
}

static compute_node build_embed(compute_graph *graph, const compute_node *x,
                                const eager_call *call) {
  return compute_embed(graph, x[0], call->axis, call->integer[0], call->integer[1],
                       call->integer[2]);
}

compute_status compute_tensor_embed(const compute_tensor *x, int32_t axis, int64_t size,
                                    int64_t start, int64_t step, compute_tensor **result) {
  const eager_call call = {.operation = "embed",
                           .build = build_embed,
                           .operands = &x,
                           .operand_count = 1,
                           .axis = axis,
                           .integer = {size, start, step}};
  return eager_run(&call, result);
}

/* ---- Products, reductions, rows
 * ------------------------------------------------------------------ */

static compute_node build_matmul(compute_graph *graph, const compute_node *x,
                                 const eager_call *call) {
  (void)call;
  return compute_matmul(graph, x[0], x[1]);
}

compute_status compute_tensor_matmul(const compute_tensor *a, const compute_tensor *b,
                                     compute_tensor **result) {
  const compute_tensor *const operands[] = {a, b};
  const eager_call call = {
      .operation = "matmul", .build = build_matmul, .operands = operands, .operand_count = 2};
  return eager_run(&call, result);
}

static compute_node build_sum(compute_graph *graph, const compute_node *x, const eager_call *call) {
  return compute_sum(graph, x[0], call->axes, call->keep_axes);
}

compute_status compute_tensor_sum(const compute_tensor *x, compute_axes axes, bool keep_axes,
                                  compute_tensor **result) {
  const eager_call call = {.operation = "sum",
                           .build = build_sum,
                           .operands = &x,
                           .operand_count = 1,
                           .axes = axes,
                           .keep_axes = keep_axes};
  return eager_run(&call, result);
}

static compute_node build_mean(compute_graph *graph, const compute_node *x,
                               const eager_call *call) {
  return compute_mean(graph, x[0], call->axes, call->keep_axes);
}

compute_status compute_tensor_mean(const compute_tensor *x, compute_axes axes, bool keep_axes,
                                   compute_tensor **result) {
  const eager_call call = {.operation = "mean",
                           .build = build_mean,
                           .operands = &x,
                           .operand_count = 1,
                           .axes = axes,
                           .keep_axes = keep_axes};
  return eager_run(&call, result);
}

static compute_node build_prod(compute_graph *graph, const compute_node *x,
                               const eager_call *call) {
  return compute_prod(graph, x[0], call->axes, call->keep_axes);
}

compute_status compute_tensor_prod(const compute_tensor *x, compute_axes axes, bool keep_axes,
                                   compute_tensor **result) {
  const eager_call call = {.operation = "prod",
                           .build = build_prod,
                           .operands = &x,
                           .operand_count = 1,
                           .axes = axes,
                           .keep_axes = keep_axes};
  return eager_run(&call, result);
}

static compute_node build_max(compute_graph *graph, const compute_node *x, const eager_call *call) {
  return compute_max(graph, x[0], call->axes, call->keep_axes);
}

compute_status compute_tensor_max(const compute_tensor *x, compute_axes axes, bool keep_axes,
                                  compute_tensor **result) {
  const eager_call call = {.operation = "max",
                           .build = build_max,
                           .operands = &x,
                           .operand_count = 1,
                           .axes = axes,
                           .keep_axes = keep_axes};
  return eager_run(&call, result);
}

static compute_node build_min(compute_graph *graph, const compute_node *x, const eager_call *call) {
  return compute_min(graph, x[0], call->axes, call->keep_axes);
}

compute_status compute_tensor_min(const compute_tensor *x, compute_axes axes, bool keep_axes,
                                  compute_tensor **result) {
  const eager_call call = {.operation = "min",
                           .build = build_min,
                           .operands = &x,
                           .operand_count = 1,
                           .axes = axes,
                           .keep_axes = keep_axes};
  return eager_run(&call, result);
}

static compute_node build_argmax(compute_graph *graph, const compute_node *x,
                                 const eager_call *call) {
  return compute_argmax(graph, x[0], call->axis, call->keep_axes);
}

compute_status compute_tensor_argmax(const compute_tensor *x, int32_t axis, bool keep_axis,
                                     compute_tensor **result) {
  const eager_call call = {.operation = "argmax",
                           .build = build_argmax,
                           .operands = &x,
                           .operand_count = 1,
                           .axis = axis,
                           .keep_axes = keep_axis};
  return eager_run(&call, result);
}

static compute_node build_argmin(compute_graph *graph, const compute_node *x,
                                 const eager_call *call) {
  return compute_argmin(graph, x[0], call->axis, call->keep_axes);
}

compute_status compute_tensor_argmin(const compute_tensor *x, int32_t axis, bool keep_axis,
                                     compute_tensor **result) {
  const eager_call call = {.operation = "argmin",
                           .build = build_argmin,
                           .operands = &x,
                           .operand_count = 1,
                           .axis = axis,
                           .keep_axes = keep_axis};
  return eager_run(&call, result);
}

static compute_node build_softmax(compute_graph *graph, const compute_node *x,
                                  const eager_call *call) {
  return compute_softmax(graph, x[0], call->axis);
}

compute_status compute_tensor_softmax(const compute_tensor *x, int32_t axis,
                                      compute_tensor **result) {
  const eager_call call = {.operation = "softmax",
                           .build = build_softmax,
                           .operands = &x,
                           .operand_count = 1,
                           .axis = axis};
  return eager_run(&call, result);
}

static compute_node build_log_softmax(compute_graph *graph, const compute_node *x,
                                      const eager_call *call) {
  return compute_log_softmax(graph, x[0], call->axis);
}

compute_status compute_tensor_log_softmax(const compute_tensor *x, int32_t axis,
                                          compute_tensor **result) {
  const eager_call call = {.operation = "log_softmax",
                           .build = build_log_softmax,
                           .operands = &x,
                           .operand_count = 1,
                           .axis = axis};
  return eager_run(&call, result);
}

static compute_node build_normalize(compute_graph *graph, const compute_node *x,
                                    const eager_call *call) {
  return compute_normalize(graph, x[0], call->number[0]);
}

compute_status compute_tensor_normalize(const compute_tensor *x, double epsilon,
                                        compute_tensor **result) {
  const eager_call call = {.operation = "normalize",
                           .build = build_normalize,
                           .operands = &x,
                           .operand_count = 1,
                           .number = {epsilon}};
  return eager_run(&call, result);
}

static compute_node build_layer_norm(compute_graph *graph, const compute_node *x,
                                     const eager_call *call) {
  return compute_layer_norm(graph, x[0], x[1], x[2], call->number[0]);
}

compute_status compute_tensor_layer_norm(const compute_tensor *x, const compute_tensor *gain,
                                         const compute_tensor *bias, double epsilon,
                                         compute_tensor **result) {
  const compute_tensor *const operands[] = {x, gain, bias};
  const eager_call call = {.operation = "layer_norm",
                           .build = build_layer_norm,
                           .operands = operands,
                           .operand_count = 3,
                           .optional = true,
                           .number = {epsilon}};
  return eager_run(&call, result);
}

/* ---- Indexing and losses
 * ------------------------------------------------------------------------- */

static compute_node build_gather(compute_graph *graph, const compute_node *x,
                                 const eager_call *call) {
  return compute_gather(graph, x[0], x[1], call->axis);
}

compute_status compute_tensor_gather(const compute_tensor *x, const compute_tensor *indices,
                                     int32_t axis, compute_tensor **result) {
  const compute_tensor *const operands[] = {x, indices};
  const eager_call call = {.operation = "gather",
                           .build = build_gather,
                           .operands = operands,
                           .operand_count = 2,
                           .axis = axis};
  return eager_run(&call, result);
}

static compute_node build_gather_elements(compute_graph *graph, const compute_node *x,
                                          const eager_call *call) {
  return compute_gather_elements(graph, x[0], x[1], call->axis);
}

compute_status compute_tensor_gather_elements(const compute_tensor *x,
                                              const compute_tensor *indices, int32_t axis,
                                              compute_tensor **result) {
  const compute_tensor *const operands[] = {x, indices};
  const eager_call call = {.operation = "gather_elements",
                           .build = build_gather_elements,
                           .operands = operands,
                           .operand_count = 2,
                           .axis = axis};
  return eager_run(&call, result);
}

static compute_node build_scatter_add(compute_graph *graph, const compute_node *x,
                                      const eager_call *call) {
  return compute_scatter_add(graph, x[0], x[1], call->axis, call->integer[0]);
}

compute_status compute_tensor_scatter_add(const compute_tensor *x, const compute_tensor *indices,
                                          int32_t axis, int64_t size, compute_tensor **result) {
  const compute_tensor *const operands[] = {x, indices};
  const eager_call call = {.operation = "scatter_add",
                           .build = build_scatter_add,
                           .operands = operands,
                           .operand_count = 2,
                           .axis = axis,
                           .integer = {size}};
  return eager_run(&call, result);
}

static compute_node build_scatter_add_elements(compute_graph *graph, const compute_node *x,
                                               const eager_call *call) {
  return compute_scatter_add_elements(graph, x[0], x[1], call->axis, call->shape);
}

compute_status compute_tensor_scatter_add_elements(const compute_tensor *x,
                                                   const compute_tensor *indices, int32_t axis,
                                                   compute_shape shape, compute_tensor **result) {
  const compute_tensor *const operands[] = {x, indices};
  const eager_call call = {.operation = "scatter_add_elements",
                           .build = build_scatter_add_elements,
                           .operands = operands,
                           .operand_count = 2,
                           .axis = axis,
                           .shape = shape};
  return eager_run(&call, result);
}

static compute_node build_cross_entropy(compute_graph *graph, const compute_node *x,
                                        const eager_call *call) {
  (void)call;
  return compute_cross_entropy(graph, x[0], x[1]);
}

compute_status compute_tensor_cross_entropy(const compute_tensor *logits,
                                            const compute_tensor *labels, compute_tensor **result) {
  const compute_tensor *const operands[] = {logits, labels};
  const eager_call call = {.operation = "cross_entropy",
                           .build = build_cross_entropy,
                           .operands = operands,
                           .operand_count = 2};
  return eager_run(&call, result);
}

static compute_node build_mean_squared_error(compute_graph *graph, const compute_node *x,
                                             const eager_call *call) {
  (void)call;
  return compute_mean_squared_error(graph, x[0], x[1]);
}

compute_status compute_tensor_mean_squared_error(const compute_tensor *a, const compute_tensor *b,
                                                 compute_tensor **result) {
  const compute_tensor *const operands[] = {a, b};
  const eager_call call = {.operation = "mean_squared_error",
                           .build = build_mean_squared_error,
                           .operands = operands,
                           .operand_count = 2};
  return eager_run(&call, result);
}
