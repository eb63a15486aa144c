/* SPDX-License-Identifier: MIT */
/* The interface for rules that write graph operations as ONNX nodes. A rule emits nodes one
 * after another and returns the result's value. Rules need no checks: an allocation failure is
 * kept in the exporter and returns the value 0, which later calls accept. */
#ifndef MODEL_EXPORT_EXPORT_H
#define MODEL_EXPORT_EXPORT_H

#include "compute/model.h"
#include "graph/node/graph.h"
#include "model/file/arena.h"
#include "model/file/wire_write.h"

/* A value of the model being written; 0 is an omitted input. */
typedef uint32_t export_value;

typedef struct export_step {
  const char *type; /* the ONNX operator */
  size_t first_input, input_count;
  size_t first_attribute, attribute_bytes; /* already encoded */
  export_value outputs[3];                 /* the last ones may be 0 */
} export_step;

/* An initializer. */
typedef struct export_tensor {
  export_value value;
  compute_dtype dtype;
  compute_shape shape;
  const void *data;             /* dense; NULL: the data of `tensor` */
  const compute_tensor *tensor; /* owned by the graph, not retained */
} export_tensor;

typedef struct exporter {
  const compute_graph *graph;
  model_arena arena;
  const char **names; /* per value, from 1; NULL: not named yet */
  size_t value_count, value_capacity;
  export_step *steps;
  size_t step_count, step_capacity;
  export_value *inputs; /* of steps */
  size_t input_count, input_capacity;
  export_tensor *tensors;
  size_t tensor_count, tensor_capacity;
  wire_buffer attributes;
  size_t pending; /* start of the next step's attributes */
  bool failed;
} exporter;

/* A node of the graph, with its operands as model values. */
typedef struct export_call {
  const struct export_form *form;
  const graph_node *node;
  compute_dtype dtype; /* of the first operand, as passed to the rule */
  const export_value *inputs;
  export_value bias; /* [channels], for a convolution that absorbs it; or 0 */
} export_call;

typedef export_value (*export_rule)(exporter *to, const export_call *call);

/* The ONNX form of an operation, or the reason why it has none. Bit d of `dtypes` is dtype d.
 * Operands of other dtypes are converted to a wider dtype in the set, and the result is
 * converted back. */
typedef struct export_form {
  const char *text; /* the ONNX operators, "Reciprocal, Sqrt"; for export_plain, the operator */
  export_rule rule; /* NULL: no form, `text` is the reason */
  uint32_t dtypes;
} export_form;

#define EXPORT_BIT(dtype)    (1u << COMPUTE_##dtype)
#define EXPORT_WIDE          (EXPORT_BIT(F64) | EXPORT_BIT(F32))
#define EXPORT_FLOATS        (EXPORT_WIDE | EXPORT_BIT(F16) | EXPORT_BIT(BF16))
#define EXPORT_LONG_INTEGERS (EXPORT_BIT(I32) | EXPORT_BIT(I64) | EXPORT_BIT(U32) | EXPORT_BIT(U64))
#define EXPORT_BYTES         (EXPORT_BIT(I8) | EXPORT_BIT(U8))
#define EXPORT_SHORTS        (EXPORT_BIT(I16) | EXPORT_BIT(U16))
#define EXPORT_ALL           UINT32_MAX

/* The row of an operation; NULL if it has none. */
const export_form *export_form_of(graph_op op);

/* Writes the node by its operation's row and returns the result's value. */
export_value export_operation(exporter *to, const export_call *call);

/* ---- Emitting nodes (emit.c) ----------------------------------------------------------------- */

/* Set attributes of the next emitted node. */
void export_set_integer(exporter *to, const char *name, int64_t value);
void export_set_number(exporter *to, const char *name, double value);
void export_set_text(exporter *to, const char *name, const char *value);
void export_set_integers(exporter *to, const char *name, const int64_t *values, size_t count);

export_value export_emit(exporter *to, const char *type, const export_value *inputs, size_t count);
#define EMIT(to, type, ...)                                                                        \
  export_emit((to), (type), (const export_value[]){__VA_ARGS__},                                   \
              sizeof((const export_value[]){__VA_ARGS__}) / sizeof(export_value))

/* Emits one node with the operator in the form's text. */
export_value export_plain(exporter *to, const export_call *call);

/* The graph node of operand number `index`. */
const graph_node *export_operand(const exporter *from, const export_call *call, uint32_t index);

/* Adds an output to the last emitted node. */
export_value export_next_output(exporter *to);

/* Constants: a scalar, and a list of i64. */
export_value export_number(exporter *to, compute_dtype dtype, double value);
export_value export_list(exporter *to, const int64_t *values, size_t count);
export_value export_integer(exporter *to, int64_t value); /* a list of one */

/* `data` or `tensor` must live until the file is written. */
export_value export_add_tensor(exporter *to, compute_dtype dtype, compute_shape shape,
                               const void *data, const compute_tensor *tensor);

/* A tensor filled with the value at `element`. */
export_value export_fill(exporter *to, compute_dtype dtype, compute_shape shape,
                         const void *element);
export_value export_zeros(exporter *to, compute_dtype dtype, compute_shape shape);

export_value export_cast(exporter *to, export_value x, compute_dtype dtype);
export_value export_reshape(exporter *to, export_value x, compute_shape shape);
export_value export_permute(exporter *to, export_value x, const int32_t *order, int32_t rank);
export_value export_expand(exporter *to, export_value x, compute_shape shape);

/* Elements start, start + step, … of an axis, before `end`. A negative step goes down to end + 1. */
export_value export_cut(exporter *to, export_value x, int32_t axis, int64_t start, int64_t end,
                        int64_t step);

/* 0, 1, … count − 1 as i64. */
export_value export_count(exporter *to, int64_t count);

/* A new value without a name; 0 if out of memory. */
export_value export_new_value(exporter *to);

void export_release(exporter *from);

/* ---- Files (file.c) -------------------------------------------------------------------------- */

/* An input or output of the model. */
typedef struct export_port {
  export_value value;
  const graph_node *node;
} export_port;

typedef struct export_ports {
  const export_port *inputs, *outputs;
  size_t input_count, output_count;
} export_ports;

/* Writes the model. All values must have names. */
compute_status export_write(const exporter *from, const export_ports *ports, const char *operation,
                            const char *path, const compute_model_export_options *options);

/* ---- Fused nodes ----------------------------------------------------------------------------- */

/* An addition that becomes the bias of the convolution before it. */
typedef struct export_join {
  uint32_t conv; /* its index + 1; 0: none */
  uint32_t bias; /* a node with one number per channel */
} export_join;

/* The nodes of a graph to write. */
typedef struct export_plan {
  const compute_graph *graph;
  bool *needed, *given, *output; /* given: the node's value is a model input */
  export_join *joined;           /* per addition */
  bool *within;                  /* written as a part of another node */
} export_plan;

static inline bool export_is_written(const export_plan *plan, size_t node) {
  return plan->needed[node] && !plan->given[node];
}

/* Fills in `joined` and `within`. Returns false if out of memory. */
bool export_join_biases(export_plan *plan, model_arena *arena);

/* Returns true if the node's ONNX operator accepts a bias. */
bool export_takes_bias(const graph_node *node);

/* ---- Rules ----------------------------------------------------------------------------------- */

#define EXPORT_RULE(name) export_value export_##name(exporter *to, const export_call *call);
/* elementwise.c */
EXPORT_RULE(neg)
EXPORT_RULE(square)
EXPORT_RULE(rsqrt)
EXPORT_RULE(expm1)
EXPORT_RULE(log1p)
EXPORT_RULE(trunc)
EXPORT_RULE(relu)
EXPORT_RULE(gelu)
EXPORT_RULE(gelu_tanh)
EXPORT_RULE(silu)
EXPORT_RULE(is_finite)
EXPORT_RULE(div)
EXPORT_RULE(mod)
EXPORT_RULE(not_equal)
EXPORT_RULE(shift_left)
EXPORT_RULE(shift_right)
EXPORT_RULE(leaky_relu)
EXPORT_RULE(elu)
EXPORT_RULE(conversion)
/* shape.c */
EXPORT_RULE(parameter)
EXPORT_RULE(constant)
EXPORT_RULE(index)
EXPORT_RULE(transpose)
EXPORT_RULE(shaped)
EXPORT_RULE(slice)
EXPORT_RULE(broadcast)
EXPORT_RULE(along)
EXPORT_RULE(embed)
/* signal.c */
EXPORT_RULE(fourier)
/* fold.c */
EXPORT_RULE(reduction)
EXPORT_RULE(extremum)
EXPORT_RULE(normalize)
EXPORT_RULE(cumulative_sum)
EXPORT_RULE(top_k)
EXPORT_RULE(sort)
/* index.c */
EXPORT_RULE(scatter_add)
EXPORT_RULE(scatter_add_elements)
EXPORT_RULE(scatter)
EXPORT_RULE(scatter_elements)
/* network.c */
EXPORT_RULE(conv)
EXPORT_RULE(conv_transpose)
EXPORT_RULE(pool)
EXPORT_RULE(attention)
EXPORT_RULE(recurrent)
/* forms.c */
EXPORT_RULE(composed)
#undef EXPORT_RULE

#endif
