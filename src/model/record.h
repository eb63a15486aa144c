/* SPDX-License-Identifier: MIT */
/* The interface for operator rules: the node being recorded, its inputs and outputs, and their
 * known properties.
 *
 * A rule reads a call's inputs and attributes, appends nodes to call->graph with the public
 * builders, and sets the outputs. It need not check builder calls: if the rule returns
 * COMPUTE_OK and the graph has an error, the recorder reports the error with the node's name. A
 * rule that needs an input's values asks for them (call_integers, call_host). If they are not
 * known yet, the rule returns that status at once and the recorder ends the plan there. When the
 * values have been computed, the rule runs again from its beginning. Shapes and dtypes of all
 * values are always known. */
#ifndef MODEL_RECORD_H
#define MODEL_RECORD_H

#include "compute/graph_nn.h"
#include "compute/model.h"
#include "core/base/thread_pool.h"
#include "model/onnx.h"

/* The run must compute values first; the rule returns this status. */
#define CALL_NEEDS_VALUES COMPUTE_ERROR_INVALID_STATE

typedef enum value_kind {
  VALUE_ABSENT = 0,
  VALUE_TENSOR,
  VALUE_SEQUENCE, /* `item_count` items */
  VALUE_OPTIONAL  /* one item, or none */
} value_kind;

typedef struct model_value {
  value_kind kind;
  int32_t type;        /* onnx_type, the key for Cast and quantized operators */
  compute_dtype dtype; /* onnx_dtype(type); i64 for texts (call/text.h) and labels */
  compute_shape shape;
  int64_t id;       /* in a run's table of tensors; −1 if known on the host */
  const void *host; /* dense elements of dtype, perhaps unaligned (record_align); NULL if known
                     * only during a run */
  const onnx_tensor *tensor; /* the tensor of the file, or NULL */
  compute_node node;         /* in the graph being recorded; {0} until first use there */
  const char *name;
  const struct model_value *items;
  size_t item_count;
  /* For an integer that a run computes: known_larger is the maximum of it and known_least. 0:
   * not known. */
  int64_t known_least, known_larger;
  struct item_room *room; /* spare room around the items of a sequence after an insertion; or
                           * NULL */
  const struct quantized_form *quantized; /* the source of a dequantized value, or NULL */
  const struct convolution *convolution;  /* if a convolution with known filters made it, or NULL */
} model_value;

typedef struct model_recorder model_recorder;

struct compute_model_call {
  model_recorder *recorder;
  compute_graph *graph;
  const onnx_node *node;
  int64_t version; /* of the operator set in the node's domain */
  size_t input_count, output_count;
  model_value *const *inputs; /* kind VALUE_ABSENT if omitted */
  model_value *outputs;       /* set by the rule */
  struct model_frame *frame;  /* the node's frame */
  struct held_values *held;   /* call_hold */
  const void *state;          /* of a host function, in the recording's memory; or NULL */
};
typedef compute_model_call model_call;

/* ---- Inputs -------------------------------------------------------------------------------- */

/* Returns true if input i is present. */
bool call_has(const model_call *call, size_t i);

/* Returns true if the node is in the main graph, and input i is one of its initializers. */
bool call_is_initializer(const model_call *call, size_t i);

/* The node, shape and dtype of input i; {0} and rank 0 if omitted. */
compute_node call_input(model_call *call, size_t i);
compute_shape call_shape(const model_call *call, size_t i);
compute_dtype call_dtype(const model_call *call, size_t i);
int32_t call_type(const model_call *call, size_t i); /* onnx_type */

/* The elements of input i on the host, dense, of its dtype. *data is valid during the recording.
 * CALL_NEEDS_VALUES if they are not known. */
compute_status call_host(model_call *call, size_t i, const void **data);

/* The same for integers (any integer dtype, or bool), converted to i64 in the recording's
 * memory. */
compute_status call_integers(model_call *call, size_t i, const int64_t **values, size_t *count);

/* One number of any dtype: input i must have one element. */
compute_status call_integer(model_call *call, size_t i, int64_t *value);

/* The maximum of integer input i and `least` ≥ 1. The recording learns nothing else about the
 * input, so all smaller values share one plan. */
compute_status call_integer_at_least(model_call *call, size_t i, int64_t least, int64_t *value);
compute_status call_number(model_call *call, size_t i, double *value);

/* Marks the node as random, so that a run never repeats its plan. */
void call_draws(model_call *call);

/* The i64 scalar that seeds random operators without a `seed` attribute. *stream differs for
 * each draw. */
compute_node call_seed(model_call *call, uint32_t *stream);

/* The same for any value, such as a sequence's item or a kept value. */
compute_node call_node(model_call *call, model_value *value);
compute_status call_value_integer(model_call *call, model_value *value, int64_t *number);

/* ---- Attributes, like compute_model_call_… in model.h ---------------------------------------- */

const onnx_attribute *call_attribute(const model_call *call, const char *name); /* or NULL */

/* An attribute of another type fails the rule. */
int64_t call_attribute_i(const model_call *call, const char *name, int64_t fallback);
double call_attribute_f(const model_call *call, const char *name, double fallback);
const char *call_attribute_s(const model_call *call, const char *name, const char *fallback);
const int64_t *call_attribute_ints(const model_call *call, const char *name, size_t *count);
const float *call_attribute_floats(const model_call *call, const char *name, size_t *count);

/* ---- Outputs ------------------------------------------------------------------------------- */

/* Sets output i. Its ONNX type follows the node's dtype (call_output) or is `type` (int4,
 * float8, …; the node must have its onnx_dtype). Ignores an output that the model does not name.
 * Always returns COMPUTE_OK, so that rules can end in `return call_output(call, 0, …)`. */
compute_status call_output(model_call *call, size_t i, compute_node node);
compute_status call_output_as(model_call *call, size_t i, int32_t type, compute_node node);

/* Sets output i to known values. `data` is dense, of `dtype`, and is copied. */
compute_status call_output_host(model_call *call, size_t i, compute_dtype dtype,
                                compute_shape shape, const void *data);

/* Returns true if the graph is recorded for training: gradients reach the weights. */
bool call_trains(const model_call *call);

/* Returns true if operations may replace formulas that equal them only without overflow in
 * between. */
bool call_takes_fast(const model_call *call);

/* Returns true if the CPU computes, where f64 costs little more than f32. */
bool call_is_on_host(const model_call *call);

/* Returns true if the node is the only user of input i's value. */
bool call_is_only_use(const model_call *call, size_t i);

/* Returns true if output i has a user. */
bool call_wants(const model_call *call, size_t i);

/* Makes a value from a node of the rule that is not an output: a sequence's item, or an input of
 * a graph to record. */
compute_status call_new_value(model_call *call, model_value *value);

/* Passes an input, sequence or optional through as output i. */
compute_status call_output_value(model_call *call, size_t i, const model_value *value);

/* ---- Rest ---------------------------------------------------------------------------------- */

/* Zeroed memory of the recording. NULL if out of memory; then return call_out_of_memory. */
void *call_allocate(model_call *call, size_t count, size_t size);
compute_status call_out_of_memory(model_call *call);

/* Records an error with the node as its prefix: "node 'conv1' (Conv): …". Returns `status`. */
compute_status call_fail(const model_call *call, compute_status status, const char *format, ...)
    COMPUTE_PRINTF(3, 4);

/* Converts `axis`, which may be negative, to 0 … rank − 1. COMPUTE_ERROR_SHAPE if out of range. */
compute_status call_axis(model_call *call, int64_t axis, int32_t rank, int32_t *result);

/* Common nodes: */
compute_node call_scalar_like(model_call *call, compute_node x, double value); /* of x's dtype */
compute_node call_zeros(model_call *call, compute_dtype dtype, compute_shape shape);

/* ---- Host functions: they make tensors whose size depends on their inputs' values ---------- */

/* A dense tensor in host memory. */
typedef struct host_tensor {
  void *data;
  compute_dtype dtype;
  compute_shape shape;
  compute_tensor *owner; /* the tensor whose memory `data` is; NULL: `data` is a copy */
  int32_t type;          /* onnx_type of an output; 0: of its dtype */
} host_tensor;

/* Runs once per run with its inputs on the host (data NULL if omitted). Makes each output with
 * host_make and reports errors with host_fail. */
typedef struct host_call host_call;
typedef compute_status (*host_function)(host_call *call, const host_tensor *inputs,
                                        host_tensor *outputs);

compute_status host_make(host_call *call, host_tensor *output, compute_dtype dtype,
                         compute_shape shape);
compute_status host_fail(host_call *call, compute_status status, const char *format, ...)
    COMPUTE_PRINTF(3, 4);
const model_call *host_node(const host_call *call); /* for attributes */

/* COMPUTE_ERROR_CANCELLED if the caller of the run ends it. Long functions ask on the thread that
 * called them. */
compute_status host_continue(host_call *call);

/* Runs the tasks 0 … tasks − 1 on the context's threads. A worker is below host_workers. */
void host_parallel(const host_call *call, int64_t tasks, compute_task task, void *argument);
int32_t host_workers(const host_call *call);

/* For rules: `function` computes the outputs between two plans, or at once if all inputs are
 * known. Use `return call_on_host(call, function, rows)`. `rows` is its work, for predictions:
 * the rows of a few elements that a kernel would process in the same time. */
compute_status call_on_host(model_call *call, host_function function, double rows);

/* ---- Texts (call/text.h) --------------------------------------------------------------------- */

/* Returns true if input i has texts. */
bool call_is_text(const model_call *call, size_t i);

/* The texts of input i if they are constants of the file; *texts is NULL if a run computes them. */
compute_status call_known_texts(model_call *call, size_t i, const char *const **texts);

/* Sets output i to texts of the file. `texts` must live as long as the model. */
compute_status call_output_texts(model_call *call, size_t i, compute_shape shape,
                                 const char *const *texts);

/* As call_on_host, but always runs between two plans: a recording keeps no texts. */
compute_status call_text_on_host(model_call *call, host_function function, double rows);

/* The text with this number. It lives as long as the run. */
const char *host_text(const host_call *call, int64_t number);

/* Adds a text of `length` bytes to the run's list. */
compute_status host_add_text(host_call *call, const char *text, size_t length, int64_t *number);

/* As host_make, for texts: `data` takes i64 numbers. */
compute_status host_make_texts(host_call *call, host_tensor *output, compute_shape shape);

/* ---- Graphs within nodes: If, Loop, Scan ----------------------------------------------------- */

/* Called with a recorded graph's outputs. Sets the node's outputs, or begins the next round with
 * another call_record_graph. `state` is a copy of the rule's state. */
typedef compute_status (*frame_finish)(model_call *call, const void *state,
                                       model_value *const *outputs, size_t count);

/* Records `graph`, a graph attribute of this node, in the node's place. `inputs` has one value
 * for each of the graph's inputs. The rule returns this function's result. */
compute_status call_record_graph(model_call *call, const onnx_graph *graph,
                                 model_value *const *inputs, size_t input_count,
                                 frame_finish finish, const void *state, size_t state_bytes);

/* Keeps a copy of `value` until the node is done. `state` must not contain values, because they
 * change when a plan ends. call_held returns the copies in insertion order. */
compute_status call_hold(model_call *call, const model_value *value);
model_value *call_held(model_call *call, size_t i);
size_t call_held_count(const model_call *call);

/* ---- The table ------------------------------------------------------------------------------ */

typedef compute_status (*model_rule)(model_call *call);

/* An operator. Among rows of one name, the one with the largest `first` not above the model's
 * version of the domain applies. */
typedef struct operator_row {
  const char *domain; /* "" for ONNX */
  const char *name;
  int32_t first; /* the first version of the domain that the rule implements */
  model_rule rule;
} operator_row;

/* The rows of one source file in operators/. */
typedef struct operator_family {
  const operator_row *rows;
  size_t count;
} operator_family;

#define OPERATOR_FAMILY(rows)                                                                      \
  { (rows), sizeof(rows) / sizeof *(rows) }

/* The rule for an operator in a version of its domain; NULL if there is none. */
model_rule operator_find(const char *domain, const char *name, int64_t version);

/* The names of an operator's required inputs, from the table in inputs.c; "" if there are none. */
const char *operator_inputs(const char *domain, const char *name, int64_t version);

/* Returns COMPUTE_ERROR_FORMAT if the node lacks a required input. */
compute_status operator_check_inputs(const model_call *call);

/* The row at `index` in the list of all rows, for documentation and tests; NULL past the end. */
const operator_row *operator_at(size_t index);

#endif
