/* SPDX-License-Identifier: MIT */
/** @file
 * Layers: parts of a network that own their weights, and compositions of them.
 * @code
 *   compute_layer *net = compute_sequential((compute_layer *[]){
 *       compute_conv2d_layer(device, 1, 16, 3, &(compute_conv2d_layer_options){.padding = {1}}),
 *       compute_batch_norm_layer(device, 16, NULL), compute_activation(COMPUTE_RELU),
 *       compute_max_pool(2, NULL), compute_flatten(),
 *       compute_dense(device, 16 * 4 * 4, 10, NULL)}, 6);
 *   if (net == NULL) fprintf(stderr, "%s\n", compute_error_message(context));
 * @endcode
 * A failing constructor returns NULL, with an error (compute_error_get). A composition with a NULL
 * part releases the others and is also NULL: one check at the end is enough. A composition owns its
 * parts; a layer is part of at most one composition, once.
 *
 * Parameters have PyTorch's names for the same layers ("0.weight", "1.running_mean"), so that
 * weights can be exchanged in both directions. A layer belongs to one thread while it is built and
 * while its weights change. */
#ifndef COMPUTE_NN_H
#define COMPUTE_NN_H

#include "compute/distributed.h"
#include "compute/graph_nn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct compute_layer compute_layer;

/* ---- Initial weights ----------------------------------------------------------------------- */

typedef enum compute_initializer {
  /** PyTorch's default for the layer: weights and biases uniform ± 1 / sqrt(fan in), embeddings
   * standard normal. The other schemes set biases to 0. */
  COMPUTE_INIT_DEFAULT = 0,
  COMPUTE_INIT_ZERO = 1,
  COMPUTE_INIT_XAVIER_UNIFORM = 2, /**< ± sqrt(6 / (fan in + fan out)); Glorot and Bengio 2010 */
  COMPUTE_INIT_XAVIER_NORMAL = 3,
  COMPUTE_INIT_KAIMING_UNIFORM = 4, /**< ± sqrt(6 / fan in), for relu; He et al. 2015 */
  COMPUTE_INIT_KAIMING_NORMAL = 5
} compute_initializer;

/** Common to layers with weights; zero means the default. Weights drawn from `seed` are the same
 * on every device; layers with equal seeds and shapes start equal, so give each a different one
 * (compute_layer_initialize does so for a whole network). */
typedef struct compute_weights_options {
  compute_initializer initializer;
  uint64_t seed;
  compute_dtype dtype; /**< 0: COMPUTE_F32 */
  bool no_bias;
  uint64_t reserved[2]; /**< must be zero */
} compute_weights_options;

/* ---- Layers -------------------------------------------------------------------------------- */

/** x [..., inputs] → [..., outputs]: x · weightᵀ + bias; "weight" [outputs, inputs], "bias". */
COMPUTE_API compute_layer *compute_dense(compute_device *device, int64_t inputs, int64_t outputs,
                                         const compute_weights_options *options);

typedef struct compute_conv2d_layer_options {
  compute_weights_options weights;
  int64_t kernel[2]; /**< when not square; 0: as the argument */
  /** As conv2d's, but padding = {1} is 1 on all sides unless `kernel` is given; output_padding
   * likewise. */
  int64_t stride[2], dilation[2], padding[2], output_padding[2], groups, padding_more[2];
  uint64_t reserved[2]; /**< must be zero */
} compute_conv2d_layer_options;

/** "weight" [outputs, inputs / groups, kernel, kernel], "bias" [outputs]. */
COMPUTE_API compute_layer *compute_conv2d_layer(compute_device *device, int64_t inputs,
                                                int64_t outputs, int64_t kernel,
                                                const compute_conv2d_layer_options *options);
/** "weight" [inputs, outputs / groups, kernel, kernel]. */
COMPUTE_API compute_layer *
compute_conv2d_transpose_layer(compute_device *device, int64_t inputs, int64_t outputs,
                               int64_t kernel, const compute_conv2d_layer_options *options);

typedef struct compute_norm_options {
  double epsilon;       /**< 0: 1e-5 */
  double momentum;      /**< batch norm, of the running statistics: 0: 0.1 */
  bool no_affine;       /**< neither gain nor bias */
  compute_dtype dtype;  /**< 0: COMPUTE_F32 */
  uint64_t reserved[4]; /**< must be zero */
} compute_norm_options;

/** "weight", "bias", "running_mean", "running_var" (unbiased), "num_batches_tracked" (i64); the
 * statistics are f32 for weights of f16 and bf16. Training needs more than one value for each
 * channel (COMPUTE_ERROR_SHAPE). */
COMPUTE_API compute_layer *compute_batch_norm_layer(compute_device *device, int64_t channels,
                                                    const compute_norm_options *options);
/** Over the last axis: "weight", "bias". */
COMPUTE_API compute_layer *compute_layer_norm_layer(compute_device *device, int64_t size,
                                                    const compute_norm_options *options);
COMPUTE_API compute_layer *compute_dropout_layer(double probability);
/** options.padding = {1} is 1 on all sides, unless options.size is given, which then overrides
 * `size`. */
COMPUTE_API compute_layer *compute_max_pool(int64_t size, const compute_pool2d_options *options);
COMPUTE_API compute_layer *compute_average_pool(int64_t size,
                                                const compute_pool2d_options *options);
COMPUTE_API compute_layer *compute_global_average_pool(void); /**< → [n, c] */
/** Integer indices [...] → [..., width]: "weight" [count, width]. */
COMPUTE_API compute_layer *compute_embedding(compute_device *device, int64_t count, int64_t width,
                                             const compute_weights_options *options);

typedef enum compute_activation_kind {
  COMPUTE_RELU = 0,
  COMPUTE_GELU,
  COMPUTE_GELU_TANH,
  COMPUTE_SILU,
  COMPUTE_SIGMOID,
  COMPUTE_TANH,
  COMPUTE_SOFTPLUS,
  COMPUTE_LEAKY_RELU, /**< slope 0.01 */
  COMPUTE_ELU,        /**< alpha 1 */
  COMPUTE_SOFTMAX     /**< along the last axis */
} compute_activation_kind;

COMPUTE_API compute_layer *compute_activation(compute_activation_kind kind);
COMPUTE_API compute_layer *compute_flatten(void);  /**< [n, ...] → [n, product] */
COMPUTE_API compute_layer *compute_identity(void); /**< x → x: the plain shortcut */

/* ---- Compositions -------------------------------------------------------------------------- */

/** In sequence; parts are called "0", "1", … Compositions within each other are at most 256 deep:
 * COMPUTE_ERROR_INVALID_ARGUMENT beyond that. */
COMPUTE_API compute_layer *compute_sequential(compute_layer *const *layers, size_t count);

/** body(x) + shortcut(x), which must have the same shape; compute_identity() for body(x) + x.
 * Parts: "body", "shortcut". */
COMPUTE_API compute_layer *compute_residual(compute_layer *body, compute_layer *shortcut);

/** Your own layer. `apply` records it, with the parameters as nodes; it must return (compute.h).
 * The parameters are trainable tensors, retained, under `names`, which are copied.
 * compute_layer_initialize leaves them unchanged. */
typedef compute_node (*compute_layer_function)(void *user, compute_graph *graph, compute_node x,
                                               const compute_node *parameters, bool training);
COMPUTE_API compute_layer *compute_custom_layer(const char *name, compute_layer_function apply,
                                                void *user, compute_tensor *const *parameters,
                                                const char *const *names, size_t count);

/** Names a part ("conv1" instead of "0"), before it is added to a composition. The name is copied;
 * no dots. Returns the layer; on failure the layer is released, unless it already belongs to a
 * composition (COMPUTE_ERROR_INVALID_STATE), and NULL returned. */
COMPUTE_API compute_layer *compute_layer_name(compute_layer *layer, const char *name);

/** Frees a layer with its parts. Graphs and plans keep the weights that they use. NULL is allowed;
 * for a part of a composition this is an error without effect. */
COMPUTE_API void compute_layer_release(compute_layer *layer);

/** Initialises all weights again, each parameter with different numbers from `seed`, and resets
 * statistics. After a failure (memory, a transfer), some may have changed. */
COMPUTE_API compute_status compute_layer_initialize(compute_layer *layer,
                                                    compute_initializer initializer, uint64_t seed);

/* ---- Using a network ----------------------------------------------------------------------- */

/** How a network is recorded. Fill in `training` and, for dropout, `seed` (an i64 scalar node that
 * changes from step to step); apply fills in `updates`.
 *
 * A struct may be used again in one graph, for the same network or another. `updates` then becomes
 * the group of all assignments so far, so that only the last one is an output of the plan. Each
 * dropout draws different numbers. */
typedef struct compute_forward {
  bool training; /**< batch statistics and dropout; otherwise running statistics and none */
  compute_node seed;
  compute_node updates;    /**< assignments of running statistics, a group, or {0}: an output of the
                            * plan of a training step */
  compute_dtype precision; /**< of an embedding's result: COMPUTE_F16, …; 0: as its weights */
  /** With `training`: batch norm uses the statistics of all ranks' shares; or NULL. */
  compute_process_group *group;
  uint64_t reserved[3]; /**< must be zero */
} compute_forward;

/** Records the network. `forward` NULL: inference. A tensor becomes one parameter node of the
 * graph, named by its dotted name, however often it is used; f32 weights are cast for f16 and bf16
 * data. Mismatches become the graph's error, prefixed with the layer's name; then nothing is
 * recorded, and `updates` is unchanged. */
COMPUTE_API compute_node compute_layer_apply(compute_layer *layer, compute_graph *graph,
                                             compute_node x, compute_forward *forward);

/** The network's result for x in inference, in a new tensor on x's device, which belongs to the
 * caller. The layer keeps the plan for further runs with this shape, dtype and device, and reads its
 * weights at each run; release the layer before its context closes. One call at a time for a
 * layer. COMPUTE_ERROR_NULL_POINTER, _WRONG_CONTEXT, the errors of compute_layer_apply and of
 * compute_run; *result is unchanged on failure. */
COMPUTE_API compute_status compute_layer_run(compute_layer *layer, const compute_tensor *x,
                                             compute_tensor **result);

/** One parameter or statistic; strings live as long as the layer. */
typedef struct compute_layer_parameter {
  const char *name;       /**< "0.weight" */
  compute_tensor *tensor; /**< not retained */
  bool trainable;         /**< false for running statistics */
} compute_layer_parameter;

/** The parameter at `index` in PyTorch's order; COMPUTE_ERROR_INVALID_ARGUMENT past the end. A
 * tensor that several custom layers share is one parameter, by its first name. */
COMPUTE_API compute_status compute_layer_parameter_at(const compute_layer *layer, size_t index,
                                                      compute_layer_parameter *parameter);
COMPUTE_API size_t compute_layer_parameter_count(const compute_layer *layer);
COMPUTE_API int64_t compute_layer_element_count(const compute_layer *layer, bool trainable_only);

/** The trainable parameters as nodes of `graph`, in order: at most `capacity` of them are written
 * to `nodes`; the return value is how many there are. */
COMPUTE_API size_t compute_layer_nodes(const compute_layer *layer, compute_graph *graph,
                                       compute_node *nodes, size_t capacity);

/** A table of the parts for an input of this shape: name, kind, shape of the result, trainable
 * parameters, multiply-adds (of products, convolutions, attention and recurrent layers), in
 * inference. Free it with compute_text_free; NULL on failure, and for a layer without any
 * weights. */
COMPUTE_API char *compute_layer_summary(compute_layer *layer, compute_dtype dtype,
                                        compute_shape input);

/* ---- Weights on disk ----------------------------------------------------------------------- */

enum {
  COMPUTE_WEIGHTS_ALLOW_MISSING = 1 << 0, /**< keep values that the file lacks */
  COMPUTE_WEIGHTS_ALLOW_EXTRA = 1 << 1    /**< ignore tensors that the layer lacks */
};

/** By the name's ending: ".safetensors" or ".npz". Appears only when complete. A tensor that
 * several layers share is written under each of its names, as PyTorch's state_dict has it. */
COMPUTE_API compute_status compute_layer_save(const compute_layer *layer, const char *path);

/** Everything is read and checked before any weight changes: COMPUTE_ERROR_FORMAT for a damaged
 * file, _SHAPE, _DTYPE, _INVALID_ARGUMENT (missing or extra names), which name the tensor. For a
 * tensor that several layers share, one name is enough; under several, the values must be equal. */
COMPUTE_API compute_status compute_layer_load(compute_layer *layer, const char *path,
                                              uint32_t flags);

#ifdef __cplusplus
}
#endif
#endif
