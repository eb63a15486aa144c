/* SPDX-License-Identifier: MIT */
/* What the builders of src/graph share: checking operands and appending nodes.
 *
 * The pattern of every builder: build_start or build_operands (which fails softly when the graph
 * already has an error), its own rule for shape and dtype, build_node. Functions that return bool
 * have recorded the error when they return false.
 *
 * A call records everything or nothing, so that compute_graph_clear_error has nothing to undo.
 * build_node ensures that itself; a builder of several nodes begins with BUILD_ALL_OR_NOTHING. */
#ifndef GRAPH_BUILD_H
#define GRAPH_BUILD_H

#include "compute/graph_nn.h"
#include "graph/node/graph.h"

#define BUILD_NONE ((compute_node){0})

/* Room for the text of any shape. */
enum { BUILD_TEXT = 192 };

/* Whether building may continue: there is a graph without an error. */
bool build_start(compute_graph *graph, const char *operation);

/* build_start, and the operands' indices; operands must be nodes of this graph with a value. */
bool build_operands(compute_graph *graph, const char *operation, const compute_node *operands,
                    size_t count, uint32_t *indices);

/* Whether `dtype` is valid; whether the operation accepts it. */
bool build_dtype(compute_graph *graph, const char *operation, compute_dtype dtype);
bool build_domain(compute_graph *graph, const char *operation, graph_domain domain,
                  compute_dtype dtype);

/* Whether both operands have the same dtype. */
bool build_same_dtype(compute_graph *graph, const char *operation, compute_dtype a,
                      compute_dtype b);

/* Whether a caller's shape is valid: rank, signs, and a product of sizes that fits. */
bool build_shape(compute_graph *graph, const char *operation, compute_shape shape);

/* build_shape, and whether a node may have that shape: at most SHAPE_MOST_ELEMENTS. build_node
 * checks this, too; builders of several nodes check before the first. */
bool build_size(compute_graph *graph, const char *operation, compute_shape shape);

/* A new node with the value of x. A builder that has nothing to do must not return its operand: the
 * caller may bind both. */
compute_node build_same(compute_graph *graph, compute_node x);

/* The axis counted from 0. `shape` is the one that the axis belongs to. */
bool build_axis(compute_graph *graph, const char *operation, compute_shape shape, int32_t axis,
                int32_t *result);

/* Whether start, start + step, … (count of them) are in 0 … size − 1; *start becomes the position
 * from 0 (shape_range). */
bool build_range(compute_graph *graph, const char *operation, int64_t size, int64_t count,
                 int64_t step, int64_t *start);

/* The product `op` of two checked operands, with a result of `dtype` and the shapes of
 * compute_matmul. */
compute_node build_product(compute_graph *graph, const char *operation, graph_op op,
                           compute_dtype dtype, compute_node a, compute_node b);

/* A value as one element of a dtype. */
typedef struct build_element {
  unsigned char bytes[8];
} build_element;

/* The argument called `name` as an element of `dtype`, which must hold it (dtype_holds,
 * dtype_holds_integer). */
bool build_element_of(compute_graph *graph, const char *operation, const char *name,
                      compute_dtype dtype, double value, build_element *element);
bool build_element_of_i64(compute_graph *graph, const char *operation, const char *name,
                          compute_dtype dtype, int64_t value, build_element *element);

/* Whether the argument called `name` is finite and stays so in `dtype`, the float dtype in which
 * the operation uses it; and, build_epsilon, not negative. */
bool build_number(compute_graph *graph, const char *operation, const char *name,
                  compute_dtype dtype, double value);
bool build_epsilon(compute_graph *graph, const char *operation, compute_dtype dtype,
                   double epsilon);

/* A constant whose elements are all the same. */
compute_node build_uniform(compute_graph *graph, const char *operation, compute_dtype dtype,
                           compute_shape shape, const build_element *element);

/* Appends a node with copies of `inputs`. `node` gives op, dtype, shape and attributes; its
 * constant and tensor are taken over, even on failure. Checks the shape as build_size does. */
compute_node build_node(compute_graph *graph, const char *operation, const graph_node *node,
                        const uint32_t *inputs, size_t count);

/* Records which formula a node is the result of; {0} for omitted operands. */
void build_whole(compute_graph *graph, compute_node result, graph_whole_kind kind,
                 const compute_node *operands, size_t count);

/* gather_elements and scatter_add_elements; with `from_zero` negative indices are outside. */
compute_node build_gather_elements(compute_graph *graph, compute_node x, compute_node indices,
                                   int32_t axis, bool from_zero);
compute_node build_scatter_add_elements(compute_graph *graph, compute_node x, compute_node indices,
                                        int32_t axis, compute_shape shape, bool from_zero);

/* Names the call that the indexed nodes from number `first` on are part of. */
void build_origin(compute_graph *graph, size_t first, const graph_origin *origin);

/* The state of BUILD_ALL_OR_NOTHING. */
typedef struct build_transaction {
  compute_graph *graph; /* or NULL */
  size_t count;         /* of nodes at its beginning */
} build_transaction;

static inline build_transaction build_begin(compute_graph *graph) {
  return (build_transaction){graph, graph ? graph->count : 0};
}

static inline void build_end(const build_transaction *transaction) {
  if (transaction->graph && transaction->graph->status)
    graph_truncate(transaction->graph, transaction->count);
}

/* From here to the end of the block: if the graph has an error then, the nodes appended meanwhile
 * disappear, whichever return is taken. */
#define BUILD_ALL_OR_NOTHING(graph)                                                                \
  const build_transaction transaction __attribute__((cleanup(build_end), unused)) =                \
      build_begin(graph)

/* The elementwise builder: broadcasts 1 to 3 operands. */
compute_node build_elementwise(compute_graph *graph, graph_op op, const compute_node *operands,
                               double scalar);

/* A parameter's tensor, and its number in the caller's list. */
typedef struct build_target {
  const compute_tensor *tensor;
  size_t number;
} build_target;

/* Whether a tensor is in the list twice: then *second is the first number at which one is repeated,
 * and *first where it was before. Reorders the list. */
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

/* A node of a convolution with this geometry, in its direction; a and b are the factors of that
 * direction (compute/kernel_descriptor.h), with matching shapes. */
compute_node network_convolve(compute_graph *graph, const char *operation,
                              const compute_conv_attributes *geometry, compute_node a,
                              compute_node b);

/* A node of pooling; `shape` is that of the result. b may be {0}. */
compute_node network_pool(compute_graph *graph, const char *operation,
                          const compute_window_attributes *geometry, compute_shape shape,
                          compute_node a, compute_node b);

/* The operations along two axes under another's name (volume.c). Convolutions append more than one
 * node. */
compute_node network_conv2d(compute_graph *graph, const char *operation, compute_node x,
                            compute_node filter, compute_node bias,
                            const compute_conv2d_options *options);
compute_node network_conv2d_transpose(compute_graph *graph, const char *operation, compute_node x,
                                      compute_node filter, compute_node bias,
                                      const compute_conv2d_options *options);
/* The sums of the plain products of bytes, i32: one node; and whether it can be recorded, with an
 * error if not. */
bool network_conv2d_integer_fits(compute_graph *graph, const char *operation, compute_node x,
                                 compute_node filter, const compute_conv2d_options *options);
compute_node network_conv2d_integer(compute_graph *graph, const char *operation, compute_node x,
                                    compute_node filter, const compute_conv2d_options *options);
compute_node network_pool2d(compute_graph *graph, const char *operation, compute_node x,
                            compute_window_operation fold, const compute_pool2d_options *options);

/* Whether the caller gave this operand; whether a bias that it gave is a vector of the channels;
 * and the sum with it. */
static inline bool network_given(compute_node operand) {
  return operand.id != 0 || operand.graph != 0;
}
bool network_check_bias(compute_graph *graph, const char *operation, compute_dtype dtype,
                        compute_node bias, int64_t channels);
compute_node network_add_bias(compute_graph *graph, compute_node y, compute_node bias);

/* ---- norm.c ---------------------------------------------------------------------------------- */

/* The sum over processes of a vector that each of them has. */
typedef compute_node build_sum_function(void *user, compute_graph *graph, compute_node x);

/* compute_batch_norm_training over what all processes have together; with `sum` NULL this one
 * alone. *count gets the number of values of a channel, [1]. `mean`, `variance` and `count` may be
 * NULL. */
compute_node build_batch_norm(compute_graph *graph, const char *operation, compute_node x,
                              compute_node gain, compute_node bias, double epsilon,
                              build_sum_function *sum, void *user, compute_node *mean,
                              compute_node *variance, compute_node *count);

/* A vector [n] reshaped to broadcast to `rank` axes, with its own at `axis`. */
compute_node network_along(compute_graph *graph, compute_node vector, int32_t axis, int32_t rank);

#endif
