/* SPDX-License-Identifier: MIT */
/** @file
 * Graph operations of neural networks: convolution, pooling, normalisation, dropout, attention,
 * recurrent layers. They are parts of a graph, with the rules of graph.h. Images are [batch,
 * channels, height, width]; the planner chooses their layout in memory. */
#ifndef COMPUTE_GRAPH_NN_H
#define COMPUTE_GRAPH_NN_H

#include "compute/graph.h"
#include "compute/sampling.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Convolution --------------------------------------------------------------------------- */

/** Zero means the default. */
typedef struct compute_conv2d_options {
  int64_t stride[2],
      dilation[2];           /**< rows, columns; 0: 1 (stride[1] = 0: as stride[0], likewise) */
  int64_t padding[2];        /**< zeros on both sides; padding[1] = −1: as padding[0] */
  int64_t output_padding[2]; /**< transposed only: additional rows and columns of the result */
  int64_t groups;            /**< 0: 1 */
  /** Zeros after the last row and column only, beyond `padding`; as far as −padding, which leaves
   * none there. */
  int64_t padding_more[2];
  uint64_t reserved[2]; /**< must be zero */
} compute_conv2d_options;

/** x [n, c, h, w] with filter [o, c / groups, r, s] → [n, o, p, q], p = floor((h + 2·padding +
 * padding_more − dilation·(r − 1) − 1) / stride) + 1, q likewise; groups = channels makes it
 * depthwise. `bias` [o] or {0}. f64, f32, f16, bf16. COMPUTE_ERROR_SHAPE for a filter larger than
 * the padded data, and if groups does not divide the channels. `options` may be NULL. */
COMPUTE_API compute_node compute_conv2d(compute_graph *graph, compute_node x, compute_node filter,
                                        compute_node bias, const compute_conv2d_options *options);

/** x − x_zero convolved with filter − filter_zero, of 8-bit integers, summed exactly, as i32;
 * shapes and options as in compute_conv2d. x and filter are each i8 or u8. Zero points have the
 * dtype of their operand, or are {0} for none: x_zero is one number, which padding then repeats,
 * and filter_zero is one number or [o]. An x_zero costs nothing where it and the filter are
 * constants; a filter_zero other than 0 for i8, or 128 for u8, costs the sums of all windows.
 * COMPUTE_ERROR_OVERFLOW where a sum of one product for each element of a filter might exceed i32,
 * with the limits of compute_matmul_integer. Integers have no gradients. */
COMPUTE_API compute_node compute_conv2d_integer(compute_graph *graph, compute_node x,
                                                compute_node filter, compute_node x_zero,
                                                compute_node filter_zero,
                                                const compute_conv2d_options *options);

/** The transposed convolution: x [n, o, p, q] with filter [o, c / groups, r, s] → [n, c, h, w], h =
 * (p − 1)·stride − 2·padding − padding_more + dilation·(r − 1) + output_padding + 1. */
COMPUTE_API compute_node compute_conv2d_transpose(compute_graph *graph, compute_node x,
                                                  compute_node filter, compute_node bias,
                                                  const compute_conv2d_options *options);

/* ---- Pooling ------------------------------------------------------------------------------- */

typedef struct compute_pool2d_options {
  int64_t size[2];         /**< ≥ 1; size[1] = 0: as size[0] */
  int64_t stride[2];       /**< 0: as size */
  int64_t padding[2];      /**< on both sides; padding[1] = −1: as padding[0] */
  int64_t dilation[2];     /**< 0: 1 */
  bool ceil;               /**< include windows that extend past the end, if they begin inside */
  bool exclude_padding;    /**< average: divide by the elements inside the data */
  int64_t padding_more[2]; /**< after the last row and column only, as in convolutions */
  uint64_t reserved[2];    /**< must be zero */
} compute_pool2d_options;

/** x [n, c, h, w] → [n, c, p, q], p = floor((h + 2·padding + padding_more − span) / stride) + 1
 * with span = dilation·(size − 1) + 1, q likewise; with `ceil`, rounded up. On either side padding
 * is less than span; padding is never the largest. Any ordered dtype of numbers. A window without
 * an element of x gives the least number (−infinity). */
COMPUTE_API compute_node compute_max_pool2d(compute_graph *graph, compute_node x,
                                            const compute_pool2d_options *options);
/** Where the maxima of compute_max_pool2d are, as i64 of the same shape: the position in x, counted
 * over all of its elements in row-major order, of each window's first largest; a NaN is larger than
 * all numbers. −1 for a window without an element of x. */
COMPUTE_API compute_node compute_argmax_pool2d(compute_graph *graph, compute_node x,
                                               const compute_pool2d_options *options);
/** x [n, c, h, w] of f64, f32, f16, bf16 → [n, c, p, q] as for compute_max_pool2d. Padding counts
 * as zeros, unless it is excluded; nothing counts beyond it. */
COMPUTE_API compute_node compute_average_pool2d(compute_graph *graph, compute_node x,
                                                const compute_pool2d_options *options);
/** Undoes max pooling: zeros of `shape`, and in them each element of x at its place (of several at
 * one place the last). `places`, i32 or i64 of x's shape, are positions in the result, counted in
 * row-major order like the results of compute_argmax_pool2d. Negative ones count from the end;
 * others outside fail the run. Any dtype and any rank. */
COMPUTE_API compute_node compute_max_unpool(compute_graph *graph, compute_node x,
                                            compute_node places, compute_shape shape);
/** [n, c, h, w] → [n, c]. */
COMPUTE_API compute_node compute_global_average_pool2d(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_global_max_pool2d(compute_graph *graph, compute_node x);

/* ---- Along three axes ---------------------------------------------------------------------- */

/** Zero means the default, as in compute_conv2d_options: depth, rows, columns. */
typedef struct compute_conv3d_options {
  int64_t stride[3], dilation[3]; /**< 0: as the first, which is 1 unless given */
  int64_t padding[3];             /**< zeros on both sides; −1 after the first: as the first */
  int64_t output_padding[3];      /**< transposed only */
  int64_t padding_more[3];        /**< zeros after the last slice, row and column only */
  int64_t groups;                 /**< 0: 1 */
  uint64_t reserved[4];           /**< must be zero */
} compute_conv3d_options;

/** x [n, c, d, h, w] with filter [o, c / groups, t, r, s] → [n, o, m, p, q], each size as in
 * compute_conv2d; `bias` [o] or {0}, `options` may be NULL. It runs as one convolution along two
 * axes, and copies the data t / stride[0] times for it. */
COMPUTE_API compute_node compute_conv3d(compute_graph *graph, compute_node x, compute_node filter,
                                        compute_node bias, const compute_conv3d_options *options);
/** x [n, o, m, p, q] with filter [o, c / groups, t, r, s] → [n, c, d, h, w], each size as in
 * compute_conv2d_transpose. COMPUTE_ERROR_SHAPE for filters of more than 4,096 slices, t. */
COMPUTE_API compute_node compute_conv3d_transpose(compute_graph *graph, compute_node x,
                                                  compute_node filter, compute_node bias,
                                                  const compute_conv3d_options *options);

/** As compute_pool2d_options: depth, rows, columns. */
typedef struct compute_pool3d_options {
  int64_t size[3];         /**< ≥ 1; 0 after the first: as the first */
  int64_t stride[3];       /**< 0: as the first, or as size if the first is 0 */
  int64_t padding[3];      /**< on both sides; −1 after the first: as the first */
  int64_t dilation[3];     /**< 0: as the first, which is 1 unless given */
  bool ceil;               /**< windows that reach over the end count, if they begin inside */
  bool exclude_padding;    /**< average: divide by the elements inside the data */
  int64_t padding_more[3]; /**< after the last slice, row and column only */
  uint64_t reserved[4];    /**< must be zero */
} compute_pool3d_options;

/** x [n, c, d, h, w] → [n, c, m, p, q], as the operations of the same name along two axes. */
COMPUTE_API compute_node compute_max_pool3d(compute_graph *graph, compute_node x,
                                            const compute_pool3d_options *options);
COMPUTE_API compute_node compute_argmax_pool3d(compute_graph *graph, compute_node x,
                                               const compute_pool3d_options *options);
COMPUTE_API compute_node compute_average_pool3d(compute_graph *graph, compute_node x,
                                                const compute_pool3d_options *options);

/* ---- Normalisation, dropout ---------------------------------------------------------------- */

/** With given statistics: (x − mean) / sqrt(variance + epsilon) · gain + bias for each channel
 * (axis 1); x has rank ≥ 2, the others [channels]; gain and bias may be {0}; epsilon as in
 * compute_normalize. After a convolution it is folded into that. */
COMPUTE_API compute_node compute_batch_norm(compute_graph *graph, compute_node x, compute_node mean,
                                            compute_node variance, compute_node gain,
                                            compute_node bias, double epsilon);

/** With the statistics of x itself, which are returned in *mean and *variance (biased; either may
 * be NULL). Where f32 does not hold the variance, from deviations of 1.8e19 on, it is infinite, and
 * the result is `bias`: another search for the largest x would cost one pass more over the data. */
COMPUTE_API compute_node compute_batch_norm_training(compute_graph *graph, compute_node x,
                                                     compute_node gain, compute_node bias,
                                                     double epsilon, compute_node *mean,
                                                     compute_node *variance);

/** Each element is 0 with `probability` (0 ≤ p < 1, and 1 / (1 − p) finite in x's dtype), otherwise
 * divided by 1 − p; with the random numbers of compute_random_uniform, so the same seed and stream
 * drop the same elements on every device. */
COMPUTE_API compute_node compute_dropout(compute_graph *graph, compute_node x, double probability,
                                         compute_node seed, uint32_t stream);

/* ---- Shape --------------------------------------------------------------------------------- */

/** Adds `before` and `after` (≥ 0) elements along `axis`. COMPUTE_PAD_CONSTANT fills them with
 * `value`, which x's dtype must hold as in compute_full (graph.h), for compute_pad_i64 exactly; the
 * other modes ignore it. */
COMPUTE_API compute_node compute_pad(compute_graph *graph, compute_node x, int32_t axis,
                                     int64_t before, int64_t after, compute_pad_mode mode,
                                     double value);
COMPUTE_API compute_node compute_pad_i64(compute_graph *graph, compute_node x, int32_t axis,
                                         int64_t before, int64_t after, compute_pad_mode mode,
                                         int64_t value);

/** [n, c, h, w] → [n, c, height, width]. The plan computes the positions to read; the graph takes
 * no memory for them. */
COMPUTE_API compute_node compute_upsample2d(compute_graph *graph, compute_node x, int64_t height,
                                            int64_t width, compute_upsample_mode mode);

/* ---- Along an axis ------------------------------------------------------------------------- */

COMPUTE_API compute_node compute_cumulative_sum(compute_graph *graph, compute_node x, int32_t axis,
                                                bool exclusive, bool reverse);

/** The k largest (or smallest) along `axis`, in that order, ties by position, NaN as the largest;
 * *positions (may be NULL) are their indices, i64. COMPUTE_ERROR_SHAPE if k exceeds the axis. On
 * the CPU an axis of 32-bit and shorter numbers has at most 2^32. */
COMPUTE_API compute_node compute_top_k(compute_graph *graph, compute_node x, int64_t k,
                                       int32_t axis, bool smallest, compute_node *positions);

/** The elements along `axis` in ascending (or descending) order, and their former positions, i64.
 * The sort is stable; NaNs come last either way. x has any number dtype. On the CPU an axis of
 * 32-bit and shorter numbers has at most 2^32. */
COMPUTE_API compute_node compute_sort(compute_graph *graph, compute_node x, int32_t axis,
                                      bool descending);
COMPUTE_API compute_node compute_argsort(compute_graph *graph, compute_node x, int32_t axis,
                                         bool descending);

/** labels [...] i32 or i64 → [..., classes] of `dtype`: 1 at the label, else 0. A label outside
 * gives zeros. */
COMPUTE_API compute_node compute_one_hot(compute_graph *graph, compute_node labels, int64_t classes,
                                         compute_dtype dtype);

/* ---- Attention ----------------------------------------------------------------------------- */

enum {
  /** Exactly the results of the two products, the softmax and the additions between them,
   * infinities and NaN included: a query whose scores are all minus infinity gives NaN, a weight of
   * 0 multiplies its value, and sums are finite where sums with the softmax's weights are. f16 and
   * bf16 are computed as f32 throughout. Keys that `causal` hides are left out. */
  COMPUTE_ATTENTION_FORMULA = 1 << 0,
  /** With FORMULA: the weights of a query whose scores are all minus infinity are 0. */
  COMPUTE_ATTENTION_ZERO_WEIGHTS = 1 << 1
};

typedef struct compute_attention_options {
  double scale;         /**< 0: 1 / sqrt(width) */
  bool causal;          /**< query i of m sees the keys j ≤ i + keys − m */
  compute_node bias;    /**< [..., m, keys] added to the scores, or {0} */
  uint64_t flags;       /**< COMPUTE_ATTENTION_… */
  uint64_t reserved[3]; /**< must be zero */
} compute_attention_options;

/** softmax(scale · q kᵀ + bias) v along the keys: q [..., m, d], k [..., keys, d], v [..., keys, e]
 * → [..., m, e], leading axes broadcast; the scores are never stored. A query that sees no key
 * gives 0. A NaN or infinity in v may also reach queries that do not see it, as 0 times it; an
 * infinity in v may give NaN. COMPUTE_ATTENTION_FORMULA defines these cases. */
COMPUTE_API compute_node compute_scaled_attention(compute_graph *graph, compute_node q,
                                                  compute_node k, compute_node v,
                                                  const compute_attention_options *options);

/* ---- Recurrent layers ---------------------------------------------------------------------- */

/** Zero means the default; {0} means no such tensor. */
typedef struct compute_recurrent_options {
  compute_node bias;       /**< [gates · hidden] */
  compute_node state_bias; /**< GRU with reset_after: [hidden], b below */
  compute_node initial_h;  /**< [batch, hidden]; {0}: zeros */
  compute_node initial_c;  /**< LSTM: likewise */
  compute_node peepholes;  /**< LSTM: [3 · hidden], of the input, output and forget gate */
  compute_node lengths;    /**< i32 [batch]: steps of each sequence; {0}: all */
  double clip;      /**< arguments of gates' functions are clamped to −clip … clip; 0: not */
  bool reverse;     /**< from the last step to the first */
  bool reset_after; /**< GRU */
  uint64_t reserved[4]; /**< must be zero */
} compute_recurrent_options;

/** The state after the last step, [batch, hidden]. */
typedef struct compute_recurrent_state {
  compute_node h, c; /**< c of LSTM only, else {0} */
} compute_recurrent_state;

/** Recurrent layers: x [steps, batch, inputs], w [inputs, gates · hidden], r [hidden, gates ·
 * hidden] → h after each step, [steps, batch, hidden]. `last`, which may be NULL, gets the state
 * after the last step (with `reverse`, the first). `options` may be NULL. With X = x w + bias, σ
 * the sigmoid, and gates in this order along the columns:
 * @code
 *   rnn   1: h' = tanh(X + h r)
 *   gru   3: update z = σ(X₀ + h r₀), reset s = σ(X₁ + h r₁), new n = tanh(X₂ + (s · h) r₂);
 *         with reset_after n = tanh(X₂ + s · (h r₂ + b)); h' = (1 − z) · n + z · h
 *   lstm  4: input i = σ(X₀ + h r₀ + p₀ · c), output o = σ(X₁ + h r₁ + p₁ · c'),
 *         forget f = σ(X₂ + h r₂ + p₂ · c), cell g = tanh(X₃ + h r₃);
 *         c' = f · c + i · g, h' = o · tanh(c')
 * @endcode
 * The order of the gates is ONNX's. After a sequence's length, its state does not change and its h
 * is 0. All tensors but the lengths have one dtype: f64, f32, f16 or bf16. States between steps are
 * not rounded to f16 and bf16. Both directions take two calls.
 *
 * All steps are one kernel. Gradients compute them again, recorded step by step: a graph for
 * training has some forty nodes for each of at most 100,000 steps.
 *
 * COMPUTE_ERROR_SHAPE for shapes that do not fit, COMPUTE_ERROR_DTYPE for dtypes that differ, and
 * COMPUTE_ERROR_INVALID_ARGUMENT for an option that the layer does not have, or a clip that is
 * negative or not finite. */
COMPUTE_API compute_node compute_rnn(compute_graph *graph, compute_node x, compute_node w,
                                     compute_node r, const compute_recurrent_options *options,
                                     compute_recurrent_state *last);
COMPUTE_API compute_node compute_gru(compute_graph *graph, compute_node x, compute_node w,
                                     compute_node r, const compute_recurrent_options *options,
                                     compute_recurrent_state *last);
COMPUTE_API compute_node compute_lstm(compute_graph *graph, compute_node x, compute_node w,
                                      compute_node r, const compute_recurrent_options *options,
                                      compute_recurrent_state *last);

/* ---- Quantized weights ---------------------------------------------------------------------- */

/** How a matrix of small integers is packed. */
typedef struct compute_quantized_options {
  int32_t bits;         /**< 2, 4 or 8 */
  int64_t block;        /**< numbers that share a scale; ≥ 1; block · bits is a multiple of 8 */
  uint64_t reserved[4]; /**< must be zero */
} compute_quantized_options;

/** A matrix [n, k] of small integers with a scale for each block of a row, in scale's dtype. Each
 * row has ceil(k / block) blocks, whole ones: `packed` is u8 [n, blocks · block · bits / 8], the
 * first number in the lowest bits of a byte. `scale` [n, blocks], of floats; `zero` likewise or in
 * u8, or {0}: 2^(bits − 1). The value of a number q is (q − zero) · scale, computed in f32 (f64 for
 * scales of f64). This is how ONNX Runtime's MatMulNBits lays out its weights, with blocks of zero
 * points unpacked. */
COMPUTE_API compute_node compute_dequantize(compute_graph *graph, compute_node packed,
                                            compute_node scale, compute_node zero, int64_t k,
                                            const compute_quantized_options *options);

/** a [..., m, k] times that matrix transposed → [..., m, n] in a's dtype, f64, f32, f16 or bf16; a
 * vector a counts as a row, as in compute_matmul. Sums and weights are f32 (f64 where a is). On the
 * CPU weights stay packed in memory and are expanded in registers or caches; elsewhere they are
 * expanded at each run. Gradients exist for a, scale and zero.
 *
 * Both: COMPUTE_ERROR_INVALID_ARGUMENT for other numbers of bits, or blocks that are not whole
 * bytes; COMPUTE_ERROR_SHAPE and COMPUTE_ERROR_DTYPE for operands that do not fit. */
COMPUTE_API compute_node compute_quantized_matmul(compute_graph *graph, compute_node a,
                                                  compute_node packed, compute_node scale,
                                                  compute_node zero,
                                                  const compute_quantized_options *options);

/* ---- Losses: the mean over all elements (or samples), a scalar ------------------------------ */

/** −log softmax(logits)[label] with the largest 1 − smoothing + smoothing / classes and the others
 * smoothing / classes. cross_entropy of graph.h has smoothing 0. */
COMPUTE_API compute_node compute_cross_entropy_smoothed(compute_graph *graph, compute_node logits,
                                                        compute_node labels, double smoothing);
/** max(x, 0) − x·t + log(1 + exp(−|x|)) with targets t of x's shape in [0, 1]. */
COMPUTE_API compute_node compute_binary_cross_entropy(compute_graph *graph, compute_node logits,
                                                      compute_node targets);
/** (a − b)² / 2 where |a − b| < delta, else delta · (|a − b| − delta / 2). */
COMPUTE_API compute_node compute_huber(compute_graph *graph, compute_node a, compute_node b,
                                       double delta);

/* ---- Training ------------------------------------------------------------------------------ */

typedef struct compute_rmsprop_options {
  double learning_rate; /**< 0: 0.01 */
  double alpha;         /**< 0: 0.99 */
  double epsilon;       /**< 0: 1e-8 */
  double momentum, weight_decay;
  compute_node learning_rate_node;
  uint64_t reserved[4]; /**< must be zero */
} compute_rmsprop_options;

COMPUTE_API compute_node compute_rmsprop_step(compute_graph *graph, compute_node loss,
                                              const compute_node *parameters, size_t count,
                                              const compute_rmsprop_options *options);

/** The steps of graph.h and this one, with gradients from the caller (clipped, accumulated,
 * unscaled): gradients[i] belongs to parameters[i]. Adam and RMSprop keep a mean of squares. In f32
 * a gradient from 1.8e19 on makes it infinite, and then that element no longer changes, as in
 * PyTorch 2. Clip such gradients before, by their values. */
COMPUTE_API compute_node compute_sgd_apply(compute_graph *graph, const compute_node *parameters,
                                           const compute_node *gradients, size_t count,
                                           const compute_sgd_options *options);
COMPUTE_API compute_node compute_adam_apply(compute_graph *graph, const compute_node *parameters,
                                            const compute_node *gradients, size_t count,
                                            const compute_adam_options *options);
COMPUTE_API compute_node compute_rmsprop_apply(compute_graph *graph, const compute_node *parameters,
                                               const compute_node *gradients, size_t count,
                                               const compute_rmsprop_options *options);

/** Scales all gradients by min(1, limit / norm), where norm is the Euclidean norm of all of them,
 * returned in *norm (may be NULL). Overwrites gradients[i], unless it fails. A norm whose square
 * f32 does not hold, from 1.8e19 on, is infinite, and finite gradients become 0, as in PyTorch
 * 2. */
COMPUTE_API void compute_clip_gradients(compute_graph *graph, compute_node *gradients, size_t count,
                                        double limit, compute_node *norm);

#ifdef __cplusplus
}
#endif
#endif
