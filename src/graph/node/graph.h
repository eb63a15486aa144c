/* SPDX-License-Identifier: MIT */
/* Internals of a graph: an array of nodes in creation order, which is a topological order. */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include "compute/backend/fit_kinds.h"
#include "compute/backend.h"
#include "compute/call.h"
#include "compute/graph.h"
#include "core/device/device.h"

typedef enum graph_op {
  OP_NONE = 0,
#define ELEMENTWISE(name, ...) OP_##name,
#define SCALED(name, ...)      OP_##name,
#define STRUCTURAL(name, ...)  OP_##name,
#include "graph/ops.def"
  OP_COUNT
} graph_op;

/* The groups of operations that compute_operation_at reports. */
#define GRAPH_CATEGORIES(CATEGORY)                                                                 \
  CATEGORY(ELEMENTWISE, "elementwise")                                                             \
  CATEGORY(SOURCE, "source")                                                                       \
  CATEGORY(VIEW, "view")                                                                           \
  CATEGORY(CAST, "cast")                                                                           \
  CATEGORY(REDUCTION, "reduction")                                                                 \
  CATEGORY(ROW, "row")                                                                             \
  CATEGORY(MATMUL, "matmul")                                                                       \
  CATEGORY(CONVOLUTION, "convolution")                                                             \
  CATEGORY(WINDOW, "window")                                                                       \
  CATEGORY(SCAN, "scan")                                                                           \
  CATEGORY(ORDER, "order")                                                                         \
  CATEGORY(FOURIER, "fourier")                                                                     \
  CATEGORY(LINALG, "linear algebra")                                                               \
  CATEGORY(TREES, "trees")                                                                         \
  CATEGORY(ATTENTION, "attention")                                                                 \
  CATEGORY(RECURRENT, "recurrent")                                                                 \
  CATEGORY(INDEXED, "indexed")                                                                     \
  CATEGORY(JOIN, "join")                                                                           \
  CATEGORY(DRAW, "draw")                                                                           \
  CATEGORY(FIT, "fit")                                                                             \
  CATEGORY(CALL, "call")                                                                           \
  CATEGORY(STATE, "state")

typedef enum graph_category {
#define CATEGORY(name, text) CATEGORY_##name,
  GRAPH_CATEGORIES(CATEGORY)
#undef CATEGORY
} graph_category;

typedef enum graph_domain {
  DOMAIN_FLOAT,
  DOMAIN_NUMBER,
  DOMAIN_ORDERED,
  DOMAIN_INTEGER,
  DOMAIN_ORDERED_INTEGER,
  DOMAIN_LOGIC,
  DOMAIN_BYTE,
  DOMAIN_ANY
} graph_domain;

/* An operation's attributes. Unused fields are zero, so nodes compare as bytes. */
typedef struct graph_attributes {
  double scalar;       /* leaky_relu slope, elu alpha, normalize epsilon */
  int64_t start, step; /* slice, embed */
  int32_t axis;        /* index, slice, embed, concat, argmax, argmin, softmax, gather, scatter,
                        * cumulative_sum, top_k, fourier; call_result: number of the output, from
                        * 1 */
  uint32_t axes_mask;  /* reductions: bit i for axis i */
  int32_t order[COMPUTE_MAX_RANK]; /* transpose: result axis i is operand axis order[i] */
  uint32_t stream;                 /* random_uniform */
  uint8_t distribution;            /* random_draw: a compute_instruction_code */
  bool keep_axes;                  /* reductions */
  bool reverse, exclusive;         /* cumulative_sum */
  bool smallest;                   /* top_k */
  bool descending;                 /* sort, argsort */
  bool from_zero;                  /* gather_elements, scatter_add_elements, bincount: no negative
                                    * indices */
  uint8_t mode;                    /* scatter, scatter_elements: compute_scatter_mode */
  bool dense;                      /* reshape in a plan: the result is in row-major order */
} graph_attributes;

/* Terms for error messages of a call with an index operand, for example "cross_entropy", "label",
 * "labels". `table` is the name of the operand that is read, or NULL. */
typedef struct graph_call {
  const char *operation, *index, *indices, *table;
} graph_call;

/* Origin of the indices of a gather, scatter or bincount, for run-time errors. */
typedef struct graph_origin {
  const graph_call *call; /* static; NULL: the node is the caller's */
  uint32_t result;        /* the node that the call returned … */
  uint32_t indices;       /* … and its operand, with the same elements in the same order */
} graph_origin;

/* The composite formula whose result is this node, if the node's operands are not the formula's.
 * Such a formula has its own gradient, with fewer sums and passes than the gradients of its
 * parts. */
typedef enum graph_whole_kind {
  WHOLE_NONE = 0,
  WHOLE_BATCH_NORM,    /* operands: x, x − mean, 1 / deviation; then gain and bias, or NONE */
  WHOLE_CROSS_ENTROPY, /* operands: logits, their log-softmax, labels [batch, 1], and the values
                        * gathered at the labels */
  WHOLE_CALL,          /* operand: a call with the same value, recorded only for its gradient */
  WHOLE_GATE,          /* operand: a node with the same value, which passes the gradient on */
  WHOLE_PSEUDO_INVERSE /* operand: the matrices */
} graph_whole_kind;

#define GRAPH_WHOLE_OPERANDS 5
#define GRAPH_NO_OPERAND     UINT32_MAX

typedef struct graph_whole {
  graph_whole_kind kind;
  uint32_t operands[GRAPH_WHOLE_OPERANDS]; /* indices of earlier nodes */
} graph_whole;

enum { CALL_NAME_BYTES = 48 };

/* A flag beside COMPUTE_CALL_PURE that only the library sets: the call waits for work that an
 * earlier call has begun. The planner makes such a call as late as possible; its order among calls
 * with side effects does not matter. */
#define GRAPH_CALL_WAITS (UINT32_C(1) << 31)

/* Key for merging pure calls with the same inputs. It is part of the block of `call` and is
 * compared as bytes. */
typedef struct graph_call_key {
  compute_call_function function;
  void *user;
  compute_call_gradient gradient;
  compute_shape shapes[COMPUTE_CALL_MAX_OUTPUTS]; /* normalised */
  compute_dtype dtypes[COMPUTE_CALL_MAX_OUTPUTS];
  uint32_t output_count;
  uint32_t flags;
  int32_t parts; /* ≥ 1, or COMPUTE_CALL_PARTS_AUTOMATIC */
  char name[CALL_NAME_BYTES];
} graph_call_key;

/* The key and the fields that are not compared. Plans keep a reference to it. A call with several
 * outputs is a `call` node for the first output and one `call_result` node for each other output.
 * The operands of a `call_result` are the call's operands, which gradients need, and then the call
 * itself. */
typedef struct graph_host_call {
  graph_call_key key;
  compute_context *context;
  void (*release)(void *user);
  void (*skip)(void *user); /* or NULL; runs in place of a call that a failed run does not reach. A
                             * run that has made such a call is never repeated */
  double rows;              /* its work in rows of a few elements, for predictions */
  uint32_t input_count;
  compute_call_tensor inputs[COMPUTE_CALL_MAX_INPUTS];   /* without data */
  compute_call_tensor outputs[COMPUTE_CALL_MAX_OUTPUTS]; /* without data */
} graph_host_call;

/* constant: a dense row-major block (graph_constant_create). If every element is the same
 * (compute_scalar, compute_full), the block holds one element and `uniform` is set. Other
 * operations store large attributes in such a block; ops.def gives its type. Padding is zeroed, so
 * blocks compare as bytes. gaussian_fit stores the form that fit_problem_normalize returns. */
typedef struct graph_node {
  graph_op op;
  compute_dtype dtype;
  compute_shape shape; /* normalised */
  uint32_t input_count;
  uint32_t *inputs; /* indices into graph->nodes, from 0; owned */
  graph_attributes attributes;
  void *constant; /* OP_constant, and operations with graph_block_bytes > 0; one reference */
  bool uniform;
  compute_tensor *tensor; /* OP_parameter; one reference */
  char *name;             /* or NULL; owned */
  graph_whole whole;      /* only for gradients */
  bool checkpoint;        /* only for gradients: the nodes before it are computed again */
  bool in_pieces;         /* only for gradients: see graph_mark_pieces */
  graph_origin origin;    /* only for errors */
} graph_node;

struct compute_graph {
  compute_context *context;
  uint32_t serial;
  compute_status status; /* first error */
  compute_error error;
  graph_node *nodes;
  size_t count, capacity;
  uint32_t *states; /* nodes that optimizers added for their state, in order */
  size_t state_count, state_capacity;
};

/* One row of ops.def. */
typedef struct graph_op_info {
  const char *name;
  graph_category category;
  graph_domain domain;
  uint8_t arity;       /* elementwise */
  uint8_t instruction; /* elementwise: compute_instruction_code */
  bool result_bool;    /* elementwise */
  bool has_scalar;     /* SCALED */
  bool differentiable;
  uint16_t block_bytes; /* structural */
  const char *text;
  double low, high; /* sample range */
  double ulp;
} graph_op_info;

/* Allocates a constant's memory: zeroed, with one reference. NULL when out of memory. */
void *graph_constant_create(size_t count, size_t size);
void *graph_constant_retain(void *constant); /* NULL is allowed */
void graph_constant_release(void *constant); /* NULL is allowed */

/* Sets the function that cleans up a constant before its memory is released. */
void graph_constant_on_release(void *constant, void (*finish)(void *constant));

const graph_op_info *graph_op_describe(graph_op op);

/* True if an operand of the operation indexes an axis; the number of that operand. */
bool graph_is_indexed(graph_op op);
static inline uint32_t graph_index_operand(graph_op op) {
  return op == OP_bincount ? 0 : 1;
}

/* The origin of such a node; a default if none is recorded. */
graph_origin graph_origin_of(const compute_graph *graph, size_t index);

/* The block of a node `call`. */
static inline const graph_host_call *graph_call_of(const graph_node *node) {
  return (const graph_host_call *)node->constant;
}

/* True if the node is a call, or a further result of a call, that may have side effects. */
bool graph_has_effects(const compute_graph *graph, const graph_node *node);

/* Adds a flag and `skip` to a call that has just been recorded. */
void graph_call_set(compute_graph *graph, compute_node call, uint32_t flag,
                    void (*skip)(void *user));

/* Sets the work of a call that has just been recorded, beside its bytes. */
void graph_call_price(compute_graph *graph, compute_node call, double rows);

/* Makes a call (a graph_host_call). It is the function of compute_call_attributes.run. */
compute_status graph_call_run(const void *call, void *const *operands);

/* Frees everything that a node owns. */
void graph_node_release(graph_node *node);

/* Removes the nodes from number `count` on. */
void graph_truncate(compute_graph *graph, size_t count);

/* Calls `choose` for each parameter. `choose` returns a replacement tensor with the same dtype and
 * shape, or NULL to keep the current one. The graph takes its own reference. The first failure of
 * `choose` ends the loop; earlier replacements remain. Existing plans are unaffected. */
typedef compute_status (*graph_choice)(void *user, compute_tensor *tensor, compute_tensor **other);
compute_status graph_replace_tensors(compute_graph *graph, graph_choice choose, void *user);

/* Adds a parameter to the optimizers' state. Returns false when out of memory. */
bool graph_add_state(compute_graph *graph, compute_node node);

/* Bytes of the block that holds an operation's geometry. 0 if there is none, and for constants,
 * whose block holds elements. */
size_t graph_block_bytes(graph_op op);

/* The node's index from a handle; −1, with the graph's error set, if the handle belongs to another
 * graph. */
int64_t graph_resolve(compute_graph *graph, compute_node node, const char *operation);

/* The conditions and indices of the nodes from `first` on count as constant, as in relu and top_k:
 * they are so almost everywhere. So a function that is linear in pieces has a second derivative of
 * zero. */
static inline void graph_mark_pieces(compute_graph *graph, size_t first) {
  for (size_t n = first; n < graph->count; n++) graph->nodes[n].in_pieces = true;
}

/* The handle of a node. */
compute_node graph_handle(const compute_graph *graph, size_t index);

/* Records the graph's first error; its message is "<operation>: <text>". Returns {0}. */
compute_node graph_fail(compute_graph *graph, compute_status status, const char *operation,
                        const char *format, ...) COMPUTE_PRINTF(4, 5);

/* The same for checks; returns false. */
#define graph_refuse(...) (graph_fail(__VA_ARGS__), false)

/* True if all words of a reserved array are zero; otherwise sets the error of error_if_reserved. */
#define graph_check_reserved(graph, operation, what, reserved)                                     \
  graph_check_words((graph), (operation), (what), (reserved), sizeof(reserved) / sizeof *(reserved))
bool graph_check_words(compute_graph *graph, const char *operation, const char *what,
                       const uint64_t *reserved, size_t count);

#endif
