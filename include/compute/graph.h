/* SPDX-License-Identifier: MIT */
/** @file
 * Graphs: operations recorded once, compiled to a plan (plan.h), run many times.
 *
 * A builder call appends a node and returns its handle. Calls need not be checked individually: the
 * first error stays in the graph with the operation's name and the shapes, every later call returns
 * the invalid node {0}, and compute_compile (or compute_graph_status) reports it. A call that fails
 * leaves the graph as it was; compute_graph_clear_error lets building continue.
 *
 * Operands must have equal dtypes unless stated otherwise; compute_cast converts. Shapes broadcast
 * as in NumPy. A graph under construction belongs to one thread; a finished graph may be compiled
 * from several. dtype.h describes compute and storage dtypes. docs/reference/operations.md is the
 * table of all operations, generated from the library's own table. */
#ifndef COMPUTE_GRAPH_H
#define COMPUTE_GRAPH_H

#include "compute/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct compute_graph compute_graph;

/** A handle, passed by value. {0} is "not a node". */
typedef struct compute_node {
  uint32_t id;    /**< position in its graph, from 1 */
  uint32_t graph; /**< serial number of its graph */
} compute_node;

/** NULL when out of memory or if `context` is NULL (see compute_error_get). Owned by the caller. */
COMPUTE_API compute_graph *compute_graph_create(compute_context *context);

/** Frees the graph and its references to parameters. Plans stay usable. NULL is allowed. */
COMPUTE_API void compute_graph_release(compute_graph *graph);

/** The first error of a builder call, or COMPUTE_OK. Its text is in compute_error_get. */
COMPUTE_API compute_status compute_graph_status(const compute_graph *graph);

/** Clears the graph's error, so that building can continue: to try one form of an operation, and
 * another if it is refused. Does nothing if the graph has no error or is NULL. Works for every
 * error, out of memory included.
 *
 * - The graph is as before the failing call, which has left nothing in it. This holds even if the
 *   call records many nodes (a loss, compute_gradients, an optimizer step, a layer) and failed
 *   half-way. Calls after the failing one have recorded nothing.
 * - Nodes recorded before the failing call stay valid. The {0} that failed calls returned stays
 *   invalid: using it is a new error (COMPUTE_ERROR_WRONG_GRAPH), except where {0} means an omitted
 *   operand. Handles that your own code took from inside a failing compute_layer_apply are invalid
 *   as well.
 * - The thread's last error (compute_error_get) stays.
 *
 * Like every builder call, only for the thread that builds the graph, and not while another
 * compiles it. */
COMPUTE_API void compute_graph_clear_error(compute_graph *graph);

COMPUTE_API compute_context *compute_graph_context(const compute_graph *graph);

/** Shape and dtype of a node; rank 0 and COMPUTE_DTYPE_NONE for an invalid one. */
COMPUTE_API compute_shape compute_node_shape(const compute_graph *graph, compute_node node);
COMPUTE_API compute_dtype compute_node_dtype(const compute_graph *graph, compute_node node);
COMPUTE_API bool compute_node_is_valid(compute_node node);

/** Names a node for messages, compute_explain and saved weights. Returns the node. */
COMPUTE_API compute_node compute_name(compute_graph *graph, compute_node node, const char *name);

/* ---- Sources ------------------------------------------------------------------------------- */

/** A tensor given at every run (compute_binding). No node has 2^55 elements or more, sizes of 0
 * counted as 1: COMPUTE_ERROR_OVERFLOW. */
COMPUTE_API compute_node compute_input(compute_graph *graph, compute_dtype dtype,
                                       compute_shape shape);

/** A tensor given now and used, by reference, at every run. The graph and its plans keep it. */
COMPUTE_API compute_node compute_parameter(compute_graph *graph, compute_tensor *tensor);

/** A copy of dense row-major values. */
COMPUTE_API compute_node compute_constant(compute_graph *graph, compute_dtype dtype,
                                          compute_shape shape, const void *values);

/** compute_scalar is a constant of rank 0. compute_full is a tensor whose every element is `value`;
 * it takes no memory.
 *
 * COMPUTE_ERROR_INVALID_ARGUMENT for a value that the dtype does not hold: for integers a fraction,
 * NaN, an infinity or a value out of range, for bool all but 0 and 1, for floats a finite number
 * that would become infinite (f16: from 65520 on). Floats hold NaN and infinities, and round other
 * values to nearest. A double is exact for integers up to 2^53 only: use the functions below for
 * larger ones. */
COMPUTE_API compute_node compute_scalar(compute_graph *graph, compute_dtype dtype, double value);
COMPUTE_API compute_node compute_full(compute_graph *graph, compute_dtype dtype,
                                      compute_shape shape, double value);

/** The same for an integer that the dtype holds exactly; COMPUTE_ERROR_INVALID_ARGUMENT for any
 * other: out of range, or, in a float dtype, one that would have to be rounded. */
COMPUTE_API compute_node compute_scalar_i64(compute_graph *graph, compute_dtype dtype,
                                            int64_t value);
COMPUTE_API compute_node compute_full_i64(compute_graph *graph, compute_dtype dtype,
                                          compute_shape shape, int64_t value);

/** Each element is its own position along `axis`, from 0 (a number dtype). */
COMPUTE_API compute_node compute_index(compute_graph *graph, compute_dtype dtype,
                                       compute_shape shape, int32_t axis);

/** Uniform in [0, 1): Philox4x32-10 with the i64 scalar node `seed` as key, `stream` and the
 * element's row-major position as counter. The same numbers on every device. compute/random.h has
 * other distributions. */
COMPUTE_API compute_node compute_random_uniform(compute_graph *graph, compute_dtype dtype,
                                                compute_shape shape, compute_node seed,
                                                uint32_t stream);

/* ---- Elementwise, one operand -------------------------------------------------------------- */

COMPUTE_API compute_node compute_neg(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_abs(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_sign(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_square(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_sqrt(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_rsqrt(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_reciprocal(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_exp(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_expm1(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_log(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_log1p(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_sin(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_cos(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_tan(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_asin(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_acos(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_atan(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_sinh(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_cosh(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_tanh(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_asinh(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_acosh(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_atanh(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_erf(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_floor(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_ceil(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_round(compute_graph *graph, compute_node x); /**< ties to even */
COMPUTE_API compute_node compute_trunc(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_is_nan(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_is_finite(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_bit_not(compute_graph *graph, compute_node x); /**< integers */
COMPUTE_API compute_node compute_logical_not(compute_graph *graph, compute_node x);

/** Activations. gelu is the erf form, gelu_tanh its tanh approximation (they differ by up to
 * 4.7e-4). */
COMPUTE_API compute_node compute_relu(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_sigmoid(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_gelu(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_gelu_tanh(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_silu(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_softplus(compute_graph *graph, compute_node x);
/** COMPUTE_ERROR_INVALID_ARGUMENT for a slope or alpha that is not finite, also as f32 (f64 for an
 * x in f64). */
COMPUTE_API compute_node compute_leaky_relu(compute_graph *graph, compute_node x, double slope);
COMPUTE_API compute_node compute_elu(compute_graph *graph, compute_node x, double alpha);

/** Another dtype. dtype.h describes how values convert. */
COMPUTE_API compute_node compute_cast(compute_graph *graph, compute_node x, compute_dtype dtype);

/* ---- Elementwise, several operands --------------------------------------------------------- */

COMPUTE_API compute_node compute_add(compute_graph *graph, compute_node a, compute_node b);
COMPUTE_API compute_node compute_sub(compute_graph *graph, compute_node a, compute_node b);
COMPUTE_API compute_node compute_mul(compute_graph *graph, compute_node a, compute_node b);
COMPUTE_API compute_node compute_div(compute_graph *graph, compute_node a, compute_node b);
COMPUTE_API compute_node compute_mod(compute_graph *graph, compute_node a, compute_node b);
COMPUTE_API compute_node compute_pow(compute_graph *graph, compute_node a, compute_node b);
COMPUTE_API compute_node compute_minimum(compute_graph *graph, compute_node a, compute_node b);
COMPUTE_API compute_node compute_maximum(compute_graph *graph, compute_node a, compute_node b);
COMPUTE_API compute_node compute_equal(compute_graph *graph, compute_node a, compute_node b);
COMPUTE_API compute_node compute_not_equal(compute_graph *graph, compute_node a, compute_node b);
COMPUTE_API compute_node compute_less(compute_graph *graph, compute_node a, compute_node b);
COMPUTE_API compute_node compute_less_equal(compute_graph *graph, compute_node a, compute_node b);
COMPUTE_API compute_node compute_greater(compute_graph *graph, compute_node a, compute_node b);
COMPUTE_API compute_node compute_greater_equal(compute_graph *graph, compute_node a,
                                               compute_node b);
COMPUTE_API compute_node compute_logical_and(compute_graph *graph, compute_node a, compute_node b);
COMPUTE_API compute_node compute_logical_or(compute_graph *graph, compute_node a, compute_node b);
COMPUTE_API compute_node compute_logical_xor(compute_graph *graph, compute_node a, compute_node b);

/** Bits of integers. Shifts move a by b bits; to the right they keep its sign. If b is negative or
 * not less than the width, shift_left gives 0, and shift_right gives the sign of a: 0 or −1. The
 * width is 32 or 64, after the dtype's compute type: 32 also for u8, 64 for u32. shift_right does
 * not take u64. */
COMPUTE_API compute_node compute_bit_and(compute_graph *graph, compute_node a, compute_node b);
COMPUTE_API compute_node compute_bit_or(compute_graph *graph, compute_node a, compute_node b);
COMPUTE_API compute_node compute_bit_xor(compute_graph *graph, compute_node a, compute_node b);
COMPUTE_API compute_node compute_shift_left(compute_graph *graph, compute_node a, compute_node b);
COMPUTE_API compute_node compute_shift_right(compute_graph *graph, compute_node a, compute_node b);

/** a where `condition` (bool) is true, else b. */
COMPUTE_API compute_node compute_select(compute_graph *graph, compute_node condition,
                                        compute_node a, compute_node b);

/** x limited to low … high; for integers, to the whole numbers among them. A limit beyond the
 * dtype's range does not limit: −infinity and infinity never do. COMPUTE_ERROR_INVALID_ARGUMENT if
 * no value of the dtype is in low … high, as when low > high or one is NaN. */
COMPUTE_API compute_node compute_clamp(compute_graph *graph, compute_node x, double low,
                                       double high);

/** The same with i64 limits. A float x must hold both exactly. */
COMPUTE_API compute_node compute_clamp_i64(compute_graph *graph, compute_node x, int64_t low,
                                           int64_t high);

/* ---- Shape --------------------------------------------------------------------------------- */

/** Axes in a new order; an empty list reverses them, COMPUTE_NO_AXES leaves them. Free if the
 * consumer supports strides. */
COMPUTE_API compute_node compute_transpose(compute_graph *graph, compute_node x,
                                           compute_axes order);

/** Another shape with the same number of elements; one size may be −1 and is then inferred. */
COMPUTE_API compute_node compute_reshape(compute_graph *graph, compute_node x, compute_shape shape);

/** Elements start, start + step, … (`count` of them) along `axis`. A negative start counts from the
 * end. Nothing is clipped: start must be in −size … size, and every element inside the axis (so
 * start = size requires count 0), otherwise COMPUTE_ERROR_SHAPE. COMPUTE_ERROR_INVALID_ARGUMENT for
 * count < 0 and step < 1. */
COMPUTE_API compute_node compute_slice(compute_graph *graph, compute_node x, int32_t axis,
                                       int64_t start, int64_t count, int64_t step);

/** Size-1 and missing leading dimensions repeated. */
COMPUTE_API compute_node compute_broadcast(compute_graph *graph, compute_node x,
                                           compute_shape shape);

/** `count` (≥ 1) tensors joined along `axis`. */
COMPUTE_API compute_node compute_concat(compute_graph *graph, const compute_node *parts,
                                        size_t count, int32_t axis);

/** Zeros with `size` elements along `axis`, x written at start, start + step, …: the adjoint of
 * slice, with its rules for start and step and x's own size as count. */
COMPUTE_API compute_node compute_embed(compute_graph *graph, compute_node x, int32_t axis,
                                       int64_t size, int64_t start, int64_t step);

/* ---- Matrix product ------------------------------------------------------------------------ */

/** a[…,m,k] · b[…,k,n] = [...,m,n]; leading axes broadcast. A vector operand counts as a row (a) or
 * a column (b), and that axis is dropped from the result, as in NumPy. f16 and bf16 accumulate in
 * f32. A long sum in f32 is made of parts of some hundred products, so that its error hardly grows
 * with k; convolutions likewise. Transposed operands are free: pass their compute_transpose. */
COMPUTE_API compute_node compute_matmul(compute_graph *graph, compute_node a, compute_node b);

/** (a − a_zero) · (b − b_zero) of 8-bit integers, summed exactly, as i32; shapes as in
 * compute_matmul. a and b are each i8 or u8. Zero points have the dtype of their operand, or are
 * {0} for none. a_zero broadcasts against [..., m, 1] and b_zero against [..., 1, n], so that a
 * scalar serves a whole matrix; a vector operand has a scalar zero point. Products with zero points
 * are subtracted from the plain product, and cost nothing where they and the other operand are
 * constants. COMPUTE_ERROR_OVERFLOW if k is so large that a sum might exceed i32: beyond 131071 for
 * i8 and i8, 65793 for u8 and i8, and 33025 for u8 and u8 or with a zero point. Integers have no
 * gradients. */
COMPUTE_API compute_node compute_matmul_integer(compute_graph *graph, compute_node a,
                                                compute_node b, compute_node a_zero,
                                                compute_node b_zero);

/* ---- Reductions ---------------------------------------------------------------------------- */

/** Along `axes` (empty: all; COMPUTE_NO_AXES: none, which gives x itself); with keep_axes the
 * reduced axes stay with size 1. Without elements, sum is 0, prod 1, mean NaN; max, min, argmax and
 * argmin of none are COMPUTE_ERROR_SHAPE. f16 and bf16 accumulate in f32; narrow integers wrap when
 * they are stored, so cast before summing. */
COMPUTE_API compute_node compute_sum(compute_graph *graph, compute_node x, compute_axes axes,
                                     bool keep_axes);
COMPUTE_API compute_node compute_mean(compute_graph *graph, compute_node x, compute_axes axes,
                                      bool keep_axes);
COMPUTE_API compute_node compute_prod(compute_graph *graph, compute_node x, compute_axes axes,
                                      bool keep_axes);
COMPUTE_API compute_node compute_max(compute_graph *graph, compute_node x, compute_axes axes,
                                     bool keep_axes);
COMPUTE_API compute_node compute_min(compute_graph *graph, compute_node x, compute_axes axes,
                                     bool keep_axes);

/** Position of the first extremum along one axis, i64; a NaN counts as the extremum. */
COMPUTE_API compute_node compute_argmax(compute_graph *graph, compute_node x, int32_t axis,
                                        bool keep_axis);
COMPUTE_API compute_node compute_argmin(compute_graph *graph, compute_node x, int32_t axis,
                                        bool keep_axis);

COMPUTE_API compute_node compute_softmax(compute_graph *graph, compute_node x, int32_t axis);
COMPUTE_API compute_node compute_log_softmax(compute_graph *graph, compute_node x, int32_t axis);

/** (x − mean) / sqrt(variance + epsilon) along the last axis, with the biased variance. In f32 the
 * result is right for numbers up to 1e38, whose squares would be infinite, and, with an epsilon of
 * 0, for tiny ones; the gradient likewise up to 1e38 / n for rows of n.
 * COMPUTE_ERROR_INVALID_ARGUMENT for an epsilon that is negative or not finite, also as f32 (f64
 * for an x in f64); likewise compute_layer_norm. */
COMPUTE_API compute_node compute_normalize(compute_graph *graph, compute_node x, double epsilon);

/** normalize(x) · gain + bias; gain and bias have the last axis's size, or are {0} for none. */
COMPUTE_API compute_node compute_layer_norm(compute_graph *graph, compute_node x, compute_node gain,
                                            compute_node bias, double epsilon);

/* ---- Indexing ------------------------------------------------------------------------------ */

/** x[…, indices[i…], …] along `axis`: the index tensor's axes replace it in the result. Indices are
 * i32 or i64; negative ones count from the end; others outside the axis fail the run with
 * COMPUTE_ERROR_INDEX, whose message has the index, its position and the nodes' names: "gather:
 * index 7 at position [0,2] is outside -5 … 4 (node 'tokens')". */
COMPUTE_API compute_node compute_gather(compute_graph *graph, compute_node x, compute_node indices,
                                        int32_t axis);

/** result[i,j] = x[i, indices[i,j]] for axis 1, and so on: one element for each index. `indices`
 * has x's rank and, off the axis, sizes no larger than x's. Indices as for gather: i32 or i64,
 * negative ones count from the end, others outside the axis fail the run. */
COMPUTE_API compute_node compute_gather_elements(compute_graph *graph, compute_node x,
                                                 compute_node indices, int32_t axis);

/** Zeros with `size` elements along `axis` of the result, x's slices added at `indices`: the
 * adjoint of gather, with the same rules for indices, along the result's axis. x has the index
 * tensor's axes at `axis`. Sums in index order. */
COMPUTE_API compute_node compute_scatter_add(compute_graph *graph, compute_node x,
                                             compute_node indices, int32_t axis, int64_t size);

/** Zeros of `shape`, each x[i,j] added at [i, indices[i,j]] for axis 1, and so on. Indices as for
 * scatter_add. */
COMPUTE_API compute_node compute_scatter_add_elements(compute_graph *graph, compute_node x,
                                                      compute_node indices, int32_t axis,
                                                      compute_shape shape);

/** data, with slices of `updates` combined at `indices` along `axis` by `mode`: the counterpart of
 * gather.
 *
 * - `updates` has data's axes, with the index tensor's axes in place of `axis`. Indices as for
 *   gather, along data's axis.
 * - Several updates of one element all apply, in index order; with SET the last wins.
 * - Both tensors have the result's dtype: a number dtype unless mode is SET, and not u64 for MAX
 *   and MIN.
 * - A plan updates data in place if its memory is free afterwards (plan.h); otherwise it copies
 *   data first. */
COMPUTE_API compute_node compute_scatter(compute_graph *graph, compute_node data,
                                         compute_node updates, compute_node indices, int32_t axis,
                                         compute_scatter_mode mode);

/** data, with each updates[i,j] combined at [i, indices[i,j]] for axis 1, and so on. `indices` and
 * `updates` have the same shape, with data's rank and, off the axis, sizes no larger than data's.
 * As scatter otherwise. */
COMPUTE_API compute_node compute_scatter_elements(compute_graph *graph, compute_node data,
                                                  compute_node updates, compute_node indices,
                                                  int32_t axis, compute_scatter_mode mode);

/** The number of elements of each value 0 … bins − 1 along `axis`, which `bins` replaces in the
 * result, as i64; or with `weights` the sum of their weights, in the weights' dtype.
 *
 * - x: any integer dtype. `weights`: floats of x's shape, or {0} for none.
 * - A value outside 0 … bins − 1, also a negative one, fails the run with COMPUTE_ERROR_INDEX, as
 *   for gather. To ignore such values, give them a separate bin: clamp x to −1 … bins, add 1,
 *   count in bins + 2, and slice.
 * - Sums have a fixed order, in f64, or in f32 with compensation.
 * - An axis without elements gives zeros.
 * - COMPUTE_ERROR_INVALID_ARGUMENT for fewer than 1 bins. */
COMPUTE_API compute_node compute_bincount(compute_graph *graph, compute_node x,
                                          compute_node weights, int64_t bins, int32_t axis);

/* ---- Losses -------------------------------------------------------------------------------- */

/** Mean of −log softmax(logits)[label] over logits [batch,…,classes] and labels [batch,…], i32 or
 * i64: over the batch, and over the tokens of sequences or the pixels of images with classes last.
 * A label outside 0 … classes − 1, negative ones included, fails the run with COMPUTE_ERROR_INDEX:
 * "cross_entropy: label -1 at position 0 is outside 0 … 2". */
COMPUTE_API compute_node compute_cross_entropy(compute_graph *graph, compute_node logits,
                                               compute_node labels);

/** Mean of (a − b)². */
COMPUTE_API compute_node compute_mean_squared_error(compute_graph *graph, compute_node a,
                                                    compute_node b);

/* ---- Gradients and training ---------------------------------------------------------------- */

/** Appends the nodes that compute d(loss)/d(of[i]) and writes their handles to gradients[i], with
 * of[i]'s shape and dtype; {0} on failure. `loss` is a float of one element, of[i] a float. Returns
 * the graph's status.
 *
 * - Where the loss does not depend on of[i], or only through step functions (sign, floor, ceil,
 *   round, trunc), the gradient is zero.
 * - Integers and bool pass no gradient: when every path from of[i] ends in one,
 *   COMPUTE_ERROR_NOT_DIFFERENTIABLE names the operation.
 * - Equal extremes share their gradient evenly.
 * - Gradients have gradients themselves. */
COMPUTE_API compute_status compute_gradients(compute_graph *graph, compute_node loss,
                                             const compute_node *of, size_t count,
                                             compute_node *gradients);

/** `parameter` takes `value` after all other steps of the run have read it. The result is a node
 * without a value: pass it to compute_compile as an output, but do not bind a tensor to it. */
COMPUTE_API compute_node compute_assign(compute_graph *graph, compute_node parameter,
                                        compute_node value);

/** Several assignments, and calls that are there for their effects (call.h), as one output. */
COMPUTE_API compute_node compute_group(compute_graph *graph, const compute_node *nodes,
                                       size_t count);

/** learning_rate_node, a float scalar, takes precedence over learning_rate. Numbers must be finite
 * and not negative, also as f32 unless all parameters are f64, and betas (and RMSprop's alpha)
 * below 1, otherwise COMPUTE_ERROR_INVALID_ARGUMENT. */
typedef struct compute_sgd_options {
  double learning_rate; /**< 0: 0.01 */
  double momentum;
  double weight_decay; /**< added to the gradient times the parameter */
  bool nesterov;
  compute_node learning_rate_node;
  uint64_t reserved[4]; /**< must be zero */
} compute_sgd_options;

typedef struct compute_adam_options {
  double learning_rate; /**< 0: 0.001 */
  double beta1;         /**< 0: 0.9 */
  double beta2;         /**< 0: 0.999 */
  double epsilon;       /**< 0: 1e-8 */
  double weight_decay;
  bool decoupled; /**< decoupled weight decay, as in AdamW */
  compute_node learning_rate_node;
  uint64_t reserved[4]; /**< must be zero */
} compute_adam_options;

/** One optimizer step on `parameters` (float parameter nodes) down the gradient of `loss`, as a
 * group node. State is created as parameters of the graph, zero at first, on each parameter's
 * device, in f64 for f64 and in f32 for other parameters. Named after the parameter's name, or
 * else its number in the list: "weights.momentum"; "weights.adam_m", "weights.adam_v" and one
 * "adam.step". NULL options: defaults. */
COMPUTE_API compute_node compute_sgd_step(compute_graph *graph, compute_node loss,
                                          const compute_node *parameters, size_t count,
                                          const compute_sgd_options *options);
COMPUTE_API compute_node compute_adam_step(compute_graph *graph, compute_node loss,
                                           const compute_node *parameters, size_t count,
                                           const compute_adam_options *options);

/** The tensor of a parameter node, including optimizer state; NULL for other nodes. Not
 * retained. */
COMPUTE_API compute_tensor *compute_parameter_tensor(const compute_graph *graph, compute_node node);

/** The index-th parameter node in order of creation; {0} past the end. */
COMPUTE_API compute_node compute_parameter_at(const compute_graph *graph, size_t index);

/** One row of the operation table. Strings are constant. */
typedef struct compute_operation_info {
  const char *name;     /**< "add" */
  const char *category; /**< "elementwise", "reduction", … */
  const char *domain; /**< dtypes accepted: "float", "number", "integer", "logic", "byte" (i8, u8),
                       "any"; "ordered" and "ordered integer" are number and integer without u64 */
  const char *text;   /**< a description of the result */
  bool differentiable;
  uint64_t reserved[8]; /**< zero */
} compute_operation_info;

/** Fills `info` for the operation at `index`; COMPUTE_ERROR_INVALID_ARGUMENT past the end. */
COMPUTE_API compute_status compute_operation_at(size_t index, compute_operation_info *info);

#ifdef __cplusplus
}
#endif
#endif
