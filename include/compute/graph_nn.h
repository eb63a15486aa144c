/* SPDX-License-Identifier: MIT */
/** @file
 * Graph operations of neural networks: convolution, pooling, normalisation, dropout, attention.
 * Parts of a graph like those of graph.h, with the same rules. Images are [batch, channels, height,
 * width]; the planner chooses their layout in memory. */
#ifndef COMPUTE_GRAPH_NN_H
#define COMPUTE_GRAPH_NN_H

#include "compute/graph.h"

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
  uint64_t reserved[4];      /**< must be zero */
} compute_conv2d_options;

/** x [n, c, h, w] with filter [o, c / groups, r, s] → [n, o, p, q], p = floor((h + 2·padding −
 * dilation·(r − 1) − 1) / stride) + 1, q likewise; groups = channels makes it depthwise. `bias` [o]
 * or {0}. f64, f32, f16, bf16. COMPUTE_ERROR_SHAPE for a filter larger than the padded data, and if
 * groups does not divide the channels. `options` may be NULL. */
COMPUTE_API compute_node compute_conv2d(compute_graph *graph, compute_node x, compute_node filter,
                                        compute_node bias, const compute_conv2d_options *options);

/** The transposed convolution: x [n, o, p, q] with filter [o, c / groups, r, s] → [n, c, h, w], h =
 * (p − 1)·stride − 2·padding + dilation·(r − 1) + output_padding + 1. */
COMPUTE_API compute_node compute_conv2d_transpose(compute_graph *graph, compute_node x,
                                                  compute_node filter, compute_node bias,
                                                  const compute_conv2d_options *options);

/* ---- Pooling ------------------------------------------------------------------------------- */

typedef struct compute_pool2d_options {
  int64_t size[2];      /**< ≥ 1; size[1] = 0: as size[0] */
  int64_t stride[2];    /**< 0: as size */
  int64_t padding[2];   /**< at most half of size; padding[1] = −1: as padding[0] */
  int64_t dilation[2];  /**< max only; 0: 1 */
  bool ceil;            /**< include windows that extend past the end, if they begin inside */
  bool exclude_padding; /**< average: divide by the elements inside the data */
  uint64_t reserved[4]; /**< must be zero */
} compute_pool2d_options;

COMPUTE_API compute_node compute_max_pool2d(compute_graph *graph, compute_node x,
                                            const compute_pool2d_options *options);
COMPUTE_API compute_node compute_average_pool2d(compute_graph *graph, compute_node x,
                                                const compute_pool2d_options *options);
/** [n, c, h, w] → [n, c]. */
COMPUTE_API compute_node compute_global_average_pool2d(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_global_max_pool2d(compute_graph *graph, compute_node x);

/* ---- Normalisation, dropout ---------------------------------------------------------------- */

/** With given statistics: (x − mean) / sqrt(variance + epsilon) · gain + bias for each channel
 * (axis 1); x has rank ≥ 2, the others [channels]; gain and bias may be {0}; epsilon as in
 * compute_normalize. After a convolution it is folded into that. */
COMPUTE_API compute_node compute_batch_norm(compute_graph *graph, compute_node x, compute_node mean,
                                            compute_node variance, compute_node gain,
                                            compute_node bias, double epsilon);

/** With the statistics of x itself, which are returned in *mean and *variance (biased; either may
 * be NULL).
 */
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

typedef enum compute_pad_mode {
  COMPUTE_PAD_CONSTANT = 0,
  COMPUTE_PAD_EDGE = 1,   /**< the first and last element repeated */
  COMPUTE_PAD_REFLECT = 2 /**< mirrored, the edge itself not repeated; less than the axis's size */
} compute_pad_mode;

/** Adds `before` and `after` (≥ 0) elements along `axis`. COMPUTE_PAD_CONSTANT fills them with
 * `value`, which x's dtype must hold as in compute_full (graph.h), for compute_pad_i64 exactly; the
 * other modes ignore it. */
COMPUTE_API compute_node compute_pad(compute_graph *graph, compute_node x, int32_t axis,
                                     int64_t before, int64_t after, compute_pad_mode mode,
                                     double value);
COMPUTE_API compute_node compute_pad_i64(compute_graph *graph, compute_node x, int32_t axis,
                                         int64_t before, int64_t after, compute_pad_mode mode,
                                         int64_t value);

typedef enum compute_upsample_mode {
  COMPUTE_UPSAMPLE_NEAREST = 0,
  COMPUTE_UPSAMPLE_BILINEAR = 1 /**< aligns pixel areas, not corners */
} compute_upsample_mode;

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

typedef struct compute_attention_options {
  double scale;         /**< 0: 1 / sqrt(width) */
  bool causal;          /**< query i of m sees the keys j ≤ i + keys − m */
  compute_node bias;    /**< [..., m, keys] added to the scores, or {0} */
  uint64_t reserved[4]; /**< must be zero */
} compute_attention_options;

/** softmax(scale · q kᵀ + bias) v along the keys: q [..., m, d], k [..., keys, d], v [..., keys, e]
 * → [..., m, e], leading axes broadcast; the scores are never stored. A query that sees no key
 * gives 0. A NaN or infinity in v may also reach queries that do not see it, as 0 times it. */
COMPUTE_API compute_node compute_scaled_attention(compute_graph *graph, compute_node q,
                                                  compute_node k, compute_node v,
                                                  const compute_attention_options *options);

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
 * unscaled): gradients[i] belongs to parameters[i]. */
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
 * returned in *norm (may be NULL). Overwrites gradients[i], unless it fails. */
COMPUTE_API void compute_clip_gradients(compute_graph *graph, compute_node *gradients, size_t count,
                                        double limit, compute_node *norm);

#ifdef __cplusplus
}
#endif
#endif
