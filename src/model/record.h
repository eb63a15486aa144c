/* SPDX-License-Identifier: MIT */
/* What the rules of operators are written against: one node that is being recorded, its inputs and
 * outputs, and what is known about them.
 *
 * A rule is a function that reads a call's inputs and attributes, appends nodes to call->graph
 * with the public builders, and sets the outputs. Builder calls need no check: when the rule
 * returns COMPUTE_OK and the graph has an error, the recorder reports that with the node's name. A
 * rule that needs the values of an input asks for them (call_integers, call_host): if they are not
 * known yet, the rule returns the status at once, the recorder ends the plan there, and the
 * rule runs again from its beginning when the values have been computed. Shapes and dtypes of all
 * values are always known. */
#ifndef MODEL_RECORD_H
#define MODEL_RECORD_H

#include "compute/graph_nn.h"
#include "compute/model.h"
#include "model/onnx.h"

/* A status for values that the run must compute first: the rule returns it. */
#define CALL_NEEDS_VALUES COMPUTE_ERROR_INVALID_STATE

typedef enum value_kind {
  VALUE_ABSENT = 0,
  VALUE_TENSOR,
  VALUE_STRINGS,  /* host->strings; shape */
  VALUE_SEQUENCE, /* `items` of them */
  VALUE_OPTIONAL  /* one item, or none */
} value_kind;

typedef struct model_value {
  value_kind kind;
  int32_t type;        /* onnx_type: what Cast and quantized operators go by */
  compute_dtype dtype; /* onnx_dtype(type) */
  compute_shape shape;
  int64_t id;       /* in a run's table of tensors; −1 for what is known on the host */
  const void *host; /* elements, dense, of dtype; perhaps not aligned (record_align); NULL if they
                       are known only in a run */
  const onnx_tensor *tensor; /* the tensor of the file that it is, or NULL */
  compute_node node;         /* in the graph that is being recorded; {0} until it is used there */
  const char *name;
  const char *const *strings;
  const struct model_value *items;
  size_t item_count;
  /* Of an integer that a run computes: known_larger is the larger of it and known_least. 0: not
   * known. */
  int64_t known_least, known_larger;
  struct item_room *room; /* around the items of a sequence that was inserted into; or NULL */
  const struct quantized_form *quantized; /* what was dequantized to it, or NULL */
} model_value;

typedef struct model_recorder model_recorder;

struct compute_model_call {
  model_recorder *recorder;
  compute_graph *graph;
  const onnx_node *node;
  int64_t version; /* of the operator set of the node's domain */
  size_t input_count, output_count;
  model_value *const *inputs; /* kind VALUE_ABSENT for one that is left out */
  model_value *outputs;       /* to be filled in */
  struct model_frame *frame;  /* that the node is in */
  struct held_values *held;   /* call_hold */
};
typedef compute_model_call model_call;

/* ---- Inputs -------------------------------------------------------------------------------- */

/* Whether input i is given. */
bool call_has(const model_call *call, size_t i);

/* Its node, shape, dtype; {0} and rank 0 if it is left out. Rank and size count on the shape; a
 * negative axis counts from the end. */
compute_node call_input(model_call *call, size_t i);
compute_shape call_shape(const model_call *call, size_t i);
compute_dtype call_dtype(const model_call *call, size_t i);
int32_t call_type(const model_call *call, size_t i); /* onnx_type */

/* The elements of input i on the host, dense, of its dtype; *data stays as long as the recording.
 * CALL_NEEDS_VALUES if they are not known. */
compute_status call_host(model_call *call, size_t i, const void **data);

/* The same for integers (any integer dtype, or bool), as i64, in memory of the recording. */
compute_status call_integers(model_call *call, size_t i, const int64_t **values, size_t *count);

/* One number, of any dtype: the only element of input i. */
compute_status call_integer(model_call *call, size_t i, int64_t *value);

/* The larger of an integer, input i, and `least` ≥ 1. That is all that becomes known of it: plans
 * are the same for whatever is smaller. */
compute_status call_integer_at_least(model_call *call, size_t i, int64_t least, int64_t *value);
compute_status call_number(model_call *call, size_t i, double *value);

/* Notes that the node draws random numbers, so that no plan of it is repeated within a run. */
void call_draws(model_call *call);

/* What a random operator without a seed of its own draws from, an i64 scalar; *stream differs from
 * draw to draw. */
compute_node call_seed(model_call *call, uint32_t *stream);

/* The same of any value: of sequences, and of what is held. */
compute_node call_node(model_call *call, model_value *value);
compute_status call_value_integer(model_call *call, model_value *value, int64_t *number);

/* ---- Attributes, as compute_model_call_… of model.h ------------------------------------------ */

const onnx_attribute *call_attribute(const model_call *call, const char *name); /* or NULL */

/* One that is there, but of another type, fails the rule. */
int64_t call_attribute_i(const model_call *call, const char *name, int64_t fallback);
double call_attribute_f(const model_call *call, const char *name, double fallback);
const char *call_attribute_s(const model_call *call, const char *name, const char *fallback);
const int64_t *call_attribute_ints(const model_call *call, const char *name, size_t *count);
const float *call_attribute_floats(const model_call *call, const char *name, size_t *count);

/* ---- Outputs ------------------------------------------------------------------------------- */

/* Sets output i, whose type is that of the node's dtype (call_output) or `type` (int4, float8, …,
 * whose onnx_dtype the node must have). An output that the model does not name is passed over.
 * Always COMPUTE_OK: rules end in `return call_output(call, 0, …)`. */
compute_status call_output(model_call *call, size_t i, compute_node node);
compute_status call_output_as(model_call *call, size_t i, int32_t type, compute_node node);

/* Sets output i to values known now: `data` is dense, of dtype, and is copied. */
compute_status call_output_host(model_call *call, size_t i, compute_dtype dtype,
                                compute_shape shape, const void *data);

/* Whether the graph is recorded to be trained: gradients reach the weights. */
bool call_trains(const model_call *call);

/* Whether formulas become operations that equal them only while nothing in between overflows. */
bool call_takes_fast(const model_call *call);

/* Whether nothing else reads the value of input i. */
bool call_is_only_use(const model_call *call, size_t i);

/* Whether anything reads output i. */
bool call_wants(const model_call *call, size_t i);

/* Makes a value of a node of the rule's that is no output: an item of a sequence, or an input of a
 * graph that is recorded. */
compute_status call_new_value(model_call *call, model_value *value);

/* Sets output i to an input, sequence or optional as it is. */
compute_status call_output_value(model_call *call, size_t i, const model_value *value);

/* ---- Rest ---------------------------------------------------------------------------------- */

/* Memory of the recording: zeroed, or NULL when memory is short (then return
 * call_out_of_memory). */
void *call_allocate(model_call *call, size_t count, size_t size);
compute_status call_out_of_memory(model_call *call);

/* Records an error that begins with the node: "node 'conv1' (Conv): …". Returns `status`. */
compute_status call_fail(const model_call *call, compute_status status, const char *format, ...)
    COMPUTE_PRINTF(3, 4);

/* *axis, which may be negative, as 0 … rank − 1; COMPUTE_ERROR_SHAPE outside. */
compute_status call_axis(model_call *call, int64_t axis, int32_t rank, int32_t *result);

/* Nodes that rules often need. */
compute_node call_scalar_like(model_call *call, compute_node x, double value); /* of x's dtype */
compute_node call_zeros(model_call *call, compute_dtype dtype, compute_shape shape);

/* ---- Functions of the host: what makes tensors whose size depends on their inputs' values -----
 */

/* A dense tensor in host memory. */
typedef struct host_tensor {
  void *data;
  compute_dtype dtype;
  compute_shape shape;
} host_tensor;

/* Called in each run with inputs on the host (data NULL for those left out); makes each output with
 * host_make. Errors by host_fail. */
typedef struct host_call host_call;
typedef compute_status (*host_function)(host_call *call, const host_tensor *inputs,
                                        host_tensor *outputs);

compute_status host_make(host_call *call, host_tensor *output, compute_dtype dtype,
                         compute_shape shape);
compute_status host_fail(host_call *call, compute_status status, const char *format, ...)
    COMPUTE_PRINTF(3, 4);
const model_call *host_node(const host_call *call); /* for attributes */

/* From a rule: the outputs come from `function`, called between two plans (at once, if all inputs
 * are known): `return call_on_host(call, function)`. */
compute_status call_on_host(model_call *call, host_function function);

/* ---- Graphs within nodes: If, Loop, Scan ----------------------------------------------------- */

/* Called when a graph has been recorded, with its outputs: sets the node's outputs, or begins the
 * next round by calling call_record_graph again. `state` is a copy of the rule's own. */
typedef compute_status (*frame_finish)(model_call *call, const void *state,
                                       model_value *const *outputs, size_t count);

/* Records `graph`, a graph attribute of this node, in its place. Its inputs are `inputs`, as many
 * as it has. A rule returns what this returns. */
compute_status call_record_graph(model_call *call, const onnx_graph *graph,
                                 model_value *const *inputs, size_t input_count,
                                 frame_finish finish, const void *state, size_t state_bytes);

/* Keeps a copy of `value` until the node is done: what `state` holds must not be values, which
 * change when a plan ends. call_held returns them in the order in which they were added. */
compute_status call_hold(model_call *call, const model_value *value);
model_value *call_held(model_call *call, size_t i);
size_t call_held_count(const model_call *call);

/* ---- The table ------------------------------------------------------------------------------ */

typedef compute_status (*model_rule)(model_call *call);

/* An operator. Of several rows of one name, the one with the largest `first` that is not above the
 * model's version of the domain holds. */
typedef struct operator_row {
  const char *domain; /* "" for ONNX's own */
  const char *name;
  int32_t first; /* version of the domain from which on the rule is right */
  model_rule rule;
} operator_row;

/* The rows of one file of operators/. */
typedef struct operator_family {
  const operator_row *rows;
  size_t count;
} operator_family;

#define OPERATOR_FAMILY(rows)                                                                      \
  { (rows), sizeof(rows) / sizeof *(rows) }

/* The rule for an operator in a version of its domain; NULL if there is none. */
model_rule operator_find(const char *domain, const char *name, int64_t version);

/* The names of the inputs that its nodes must have, as inputs.c lists them; "" if there are none.
 */
const char *operator_inputs(const char *domain, const char *name, int64_t version);

/* COMPUTE_ERROR_FORMAT for a node that lacks one of them. */
compute_status operator_check_inputs(const model_call *call);

/* The row at `index` of all, for documents and tests; NULL past the end. */
const operator_row *operator_at(size_t index);

#endif
