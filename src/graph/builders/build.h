/* SPDX-License-Identifier: MIT */
/* Shared by all builders of src/graph: checks of operands, and new nodes.
 *
 * Every builder has three steps: build_start or build_operands (which return false if the graph
 * already has an error), its own rule for shape and dtype, and build_node. A function that returns
 * false has already recorded the error.
 *
 * A call records all its nodes or none, so compute_graph_clear_error has nothing to undo.
 * build_node ensures this for one node; a builder of several nodes begins with
 * BUILD_ALL_OR_NOTHING. */
#ifndef GRAPH_BUILD_H
#define GRAPH_BUILD_H

#include "compute/graph_nn.h"
#include "graph/node/graph.h"

#define BUILD_NONE ((compute_node){0})

/* Size of a buffer that holds the text of any shape. */
enum { BUILD_TEXT = 192 };

/* True if building may continue: the graph exists and has no error. */
bool build_start(compute_graph *graph, const char *operation);

/* build_start, and the operands' indices. Operands must be nodes of this graph with a value. */
bool build_operands(compute_graph *graph, const char *operation, const compute_node *operands,
                    size_t count, uint32_t *indices);

/* True if `dtype` is valid; true if the operation accepts it. */
bool build_dtype(compute_graph *graph, const char *operation, compute_dtype dtype);
bool build_domain(compute_graph *graph, const char *operation, graph_domain domain,
                  compute_dtype dtype);

/* The rows COMPOSED of ops.def. */
typedef enum build_composition {
#define COMPOSED(name, ...) COMPOSITION_##name,
#include "graph/ops.def"
  COMPOSITION_COUNT
} build_composition;

/* Begins a composition: build_operands, and all operands in one dtype of the row's domain. */
bool build_composed(compute_graph *graph, build_composition of, const compute_node *operands,
                    size_t count, uint32_t *indices);
const char *build_composition_name(build_composition of);

/* True if both operands have the same dtype. */
bool build_same_dtype(compute_graph *graph, const char *operation, compute_dtype a,
                      compute_dtype b);

/* True if a caller's shape is valid: its rank, its signs, and the product of its sizes. */
bool build_shape(compute_graph *graph, const char *operation, compute_shape shape);

/* build_shape, and true only if a node may have that shape: at most SHAPE_MOST_ELEMENTS. build_node
 * makes the same check; a builder of several nodes calls this before its first node. */
bool build_size(compute_graph *graph, const char *operation, compute_shape shape);

/* A new node with the value of x. A builder with nothing to do must not return its operand, because
 * the caller may bind both. */
compute_node build_same(compute_graph *graph, compute_node x);

/* The axis counted from 0; `shape` is the shape of its tensor. */
bool build_axis(compute_graph *graph, const char *operation, compute_shape shape, int32_t axis,
                int32_t *result);

/* The axes as a mask (shape_axes_mask); an error names the first invalid axis. */
bool build_axes(compute_graph *graph, const char *operation, compute_shape shape, compute_axes axes,
                uint32_t *mask);

/* True if the `count` positions start, start + step, … are in 0 … size − 1. *start becomes the
 * position from 0 (shape_range). */
bool build_range(compute_graph *graph, const char *operation, int64_t size, int64_t count,
                 int64_t step, int64_t *start);

/* The product `op` of two checked operands. The result has `dtype` and the shape rule of
 * compute_matmul. */
compute_node build_product(compute_graph *graph, const char *operation, graph_op op,
                           compute_dtype dtype, compute_node a, compute_node b);

/* A value as one element of a dtype. */
typedef struct build_element {
  unsigned char bytes[8];
} build_element;

/* Converts the argument `name` to an element of `dtype`, which must represent it (dtype_holds,
 * dtype_holds_integer). */
bool build_element_of(compute_graph *graph, const char *operation, const char *name,
                      compute_dtype dtype, double value, build_element *element);
bool build_element_of_i64(compute_graph *graph, const char *operation, const char *name,
                          compute_dtype dtype, int64_t value, build_element *element);

/* True if the argument `name` is finite, also in `dtype`, the float dtype of the computation.
 * build_epsilon also requires that it is not negative. */
bool build_number(compute_graph *graph, const char *operation, const char *name,
                  compute_dtype dtype, double value);
bool build_epsilon(compute_graph *graph, const char *operation, compute_dtype dtype,
                   double epsilon);

/* A constant whose elements are all the same. */
compute_node build_uniform(compute_graph *graph, const char *operation, compute_dtype dtype,
                           compute_shape shape, const build_element *element);

/* Appends a node with copies of `inputs`. `node` gives op, dtype, shape and attributes. The
 * function takes ownership of its constant and tensor, even on failure. It checks the shape as
 * build_size does. */
compute_node build_node(compute_graph *graph, const char *operation, const graph_node *node,
                        const uint32_t *inputs, size_t count);

/* Records the formula whose result is this node. Omitted operands are {0}. */
void build_whole(compute_graph *graph, compute_node result, graph_whole_kind kind,
                 const compute_node *operands, size_t count);

/* gather_elements and scatter_add_elements. With `from_zero`, negative indices are out of range. */
compute_node build_gather_elements(compute_graph *graph, compute_node x, compute_node indices,
                                   int32_t axis, bool from_zero);
compute_node build_scatter_add_elements(compute_graph *graph, compute_node x, compute_node indices,
                                        int32_t axis, compute_shape shape, bool from_zero);

/* Records the call that the indexed nodes from number `first` on belong to. */
void build_origin(compute_graph *graph, size_t first, const graph_origin *origin);

/* The state of BUILD_ALL_OR_NOTHING. */
typedef struct build_transaction {
  compute_graph *graph; /* or NULL */
  size_t count;         /* number of nodes at the start */
} build_transaction;

static inline build_transaction build_begin(compute_graph *graph) {
  return (build_transaction){graph, graph ? graph->count : 0};
}

static inline void build_end(const build_transaction *transaction) {
  if (transaction->graph && transaction->graph->status)
    graph_truncate(transaction->graph, transaction->count);
}

/* Covers the code from here to the end of the block. If the graph has an error at the end, the
 * nodes appended since are removed, on every return path. */
#define BUILD_ALL_OR_NOTHING(graph)                                                                \
  const build_transaction transaction __attribute__((cleanup(build_end), unused)) =                \
      build_begin(graph)

/* The elementwise builder: broadcasts 1 to 3 operands. */
compute_node build_elementwise(compute_graph *graph, graph_op op, const compute_node *operands,
                               double scalar);

/* A parameter's tensor and its number in the caller's list. */
typedef struct build_target {
  const compute_tensor *tensor;
  size_t number;
} build_target;

/* True if a tensor is in the list twice. Then *second is the first number that repeats an earlier
 * one, and *first is the earlier number. Reorders the list. */
bool build_find_repeated(build_target *targets, size_t count, size_t *first, size_t *second);

static inline const graph_node *build_at(const compute_graph *graph, uint32_t index) {
  return &graph->nodes[index];
}

/* ---- conv.c: convolution and pooling, whose geometry is in their block (graph.h) ------------- */

static inline const compute_conv_attributes *network_convolution(const graph_node *node) {
  return (const compute_conv_attributes *)node->constant;
}

static inline const compute_window_attributes *network_window(const graph_node *node) {
  return (const compute_window_attributes *)node->constant;
}

/* A convolution node with this geometry, in its direction. a and b are the factors of that
 * direction (compute/backend/kernel_descriptor.h), with matching shapes. */
compute_node network_convolve(compute_graph *graph, const char *operation,
                              const compute_conv_attributes *geometry, compute_node a,
                              compute_node b);

/* A pooling node; `shape` is the result's shape. b may be {0}. */
compute_node network_pool(compute_graph *graph, const char *operation,
                          const compute_window_attributes *geometry, compute_shape shape,
                          compute_node a, compute_node b);

/* The operations along two axes, with the caller's operation name in errors (volume.c). A
 * convolution appends more than one node. */
compute_node network_conv2d(compute_graph *graph, const char *operation, compute_node x,
                            compute_node filter, compute_node bias,
                            const compute_conv2d_options *options);
compute_node network_conv2d_transpose(compute_graph *graph, const char *operation, compute_node x,
                                      compute_node filter, compute_node bias,
                                      const compute_conv2d_options *options);
/* The sums of plain byte products in i32, as one node. The first function checks that the node can
 * be recorded, and sets the error if not. */
bool network_conv2d_integer_fits(compute_graph *graph, const char *operation, compute_node x,
                                 compute_node filter, const compute_conv2d_options *options);
compute_node network_conv2d_integer(compute_graph *graph, const char *operation, compute_node x,
                                    compute_node filter, const compute_conv2d_options *options);
/* Weights in 8 bits: i8 values [hidden, columns]; scale f32 and zero point i8 per column. */
typedef struct network_quantized_weights {
  compute_node values, scale, zero;
} network_quantized_weights;

/* compute_lstm whose states are rounded to 8 bits for their products
 * (compute_recurrent_attributes.quantized). x is projected: f32 [steps, batch, 4 · hidden], rank 3,
 * with the bias, which the options must lack. No gradient. */
compute_node network_quantized_lstm(compute_graph *graph, compute_node x,
                                    const network_quantized_weights *r,
                                    const compute_recurrent_options *options,
                                    compute_recurrent_state *last);
compute_node network_pool2d(compute_graph *graph, const char *operation, compute_node x,
                            compute_window_operation fold, const compute_pool2d_options *options);

/* network_given: true if the caller gave this operand. network_check_bias: true if there is no
 * bias, or if it is a vector of the channels. network_add_bias: y with the bias added. */
static inline bool network_given(compute_node operand) {
  return operand.id != 0 || operand.graph != 0;
}
bool network_check_bias(compute_graph *graph, const char *operation, compute_dtype dtype,
                        compute_node bias, int64_t channels);
compute_node network_add_bias(compute_graph *graph, compute_node y, compute_node bias);

/* ---- norm.c ---------------------------------------------------------------------------------- */

/* Sums a vector over all processes. Each process passes its own vector. */
typedef compute_node build_sum_function(void *user, compute_graph *graph, compute_node x);

/* compute_batch_norm_training over the batches of all processes, or over this process's batch if
 * `sum` is NULL. *count receives the number of values per channel, [1]. `mean`, `variance` and
 * `count` may be NULL. */
compute_node build_batch_norm(compute_graph *graph, const char *operation, compute_node x,
                              compute_node gain, compute_node bias, double epsilon,
                              build_sum_function *sum, void *user, compute_node *mean,
                              compute_node *variance, compute_node *count);

/* A vector [n] reshaped to broadcast to `rank` axes, with its axis at `axis`. */
compute_node network_along(compute_graph *graph, compute_node vector, int32_t axis, int32_t rank);

#endif
