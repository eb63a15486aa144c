/* SPDX-License-Identifier: MIT */
/** @file
 * Models: networks in ONNX files, loaded, run on any device, trained further, and written back.
 * @code
 *   compute_model *model;
 *   compute_tensor *scores = NULL;
 *   if (compute_model_load(context, "model.onnx", NULL, &model)) …
 *   compute_model_binding in = {"image", image}, out = {"scores", NULL};
 *   if (compute_model_run(model, &in, 1, &out, 1)) …
 *   scores = out.tensor;  // made by the run, yours to release
 * @endcode
 * docs/guide/models.md is the guide, docs/reference/onnx.md the table of operators.
 *
 * Files need not be trusted: sizes, offsets, names and structure are checked before they are used.
 * Supported are operators of the default domain from opset 7 on and some of com.microsoft; others
 * can be added (compute_model_operator). */
#ifndef COMPUTE_MODEL_H
#define COMPUTE_MODEL_H

#include "compute/batch.h"
#include "compute/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct compute_model compute_model;

/* ---- Operators of your own ------------------------------------------------------------------ */

/** One node of a model that is being recorded into a graph. Lives during the call only. */
typedef struct compute_model_call compute_model_call;

/** Your own operator. `record` is called for each node of this domain and name, whenever the model
 * is recorded. It takes the node's inputs and attributes and sets its outputs with the functions
 * below. compute_call (call.h) makes a C function of yours an operation. It overrides an operator
 * of the library with the same domain and name. */
typedef struct compute_model_operator {
  const char *domain; /**< "" for ONNX's own */
  const char *name;
  /** A status other than COMPUTE_OK fails the call that records the model, with the message of
   * compute_model_call_fail or of the graph's error. Called by one thread at a time for each model.
   * It must return (compute.h). */
  compute_status (*record)(void *user, compute_model_call *call);
  void *user;           /**< must live as long as the model */
  uint64_t reserved[4]; /**< must be zero */
} compute_model_operator;

/** The graph to record into. */
COMPUTE_API compute_graph *compute_model_call_graph(const compute_model_call *call);

COMPUTE_API size_t compute_model_call_input_count(const compute_model_call *call);
COMPUTE_API size_t compute_model_call_output_count(const compute_model_call *call);

/** Input `index`; {0} for one that the node omits, or past the last. */
COMPUTE_API compute_node compute_model_call_input(compute_model_call *call, size_t index);

/** Sets output `index`. Each output that the node names must be set. */
COMPUTE_API compute_status compute_model_call_output(compute_model_call *call, size_t index,
                                                     compute_node node);

/** Whole numbers of input `index`, an integer tensor, if its values are known while the model is
 * recorded: constants, and values computed from them and from shapes. *values lives during the
 * call. If they are not known yet, COMPUTE_ERROR_INVALID_STATE: return it unchanged. The model then
 * runs the preceding part, and calls `record` again with the values known. */
COMPUTE_API compute_status compute_model_call_integers(compute_model_call *call, size_t index,
                                                       const int64_t **values, size_t *count);

/** Attributes by name, or `fallback` (NULL, 0) if the node does not have it in this type. Texts and
 * lists live as long as the model. */
COMPUTE_API int64_t compute_model_call_integer(const compute_model_call *call, const char *name,
                                               int64_t fallback);
COMPUTE_API double compute_model_call_number(const compute_model_call *call, const char *name,
                                             double fallback);
COMPUTE_API const char *compute_model_call_text(const compute_model_call *call, const char *name,
                                                const char *fallback);
COMPUTE_API const int64_t *compute_model_call_integer_list(const compute_model_call *call,
                                                           const char *name, size_t *count);
COMPUTE_API const float *compute_model_call_number_list(const compute_model_call *call,
                                                        const char *name, size_t *count);

/** Sets the message of a failing call, as printf does; returns `status`. */
COMPUTE_API compute_status compute_model_call_fail(compute_model_call *call, compute_status status,
                                                   const char *format, ...) COMPUTE_PRINTF(3, 4);

/* ---- Loading -------------------------------------------------------------------------------- */

/** How a model's file and its files of external data are read. A file that is mapped must not
 * change while the model lives. If it becomes shorter, as when `cp` writes over it, the system ends
 * the process with SIGBUS at the next access; no library can prevent that. */
typedef enum compute_model_files {
  COMPUTE_MODEL_MAP = 0, /**< mapped: weights that are used in place take no time and no memory */
  COMPUTE_MODEL_COPY,    /**< read into memory when the model is loaded; they may change then */
  /** Files that another user may write are read into memory; others are mapped. Such a file has an
   * owner other than the user of this process and root, or its group or everybody may write it. */
  COMPUTE_MODEL_COPY_SHARED
} compute_model_files;

/** Formulas that a file spells out in several operators, as exporters do. */
typedef enum compute_model_formulas {
  /** The operators become one operation if it equals them for every input, infinities, NaN and the
   * largest numbers included. */
  COMPUTE_FORMULAS_EXACT = 0,
  /** Also if it equals them only while nothing in between overflows: layer normalisation of f32,
   * f64 and bf16, whose squares may. */
  COMPUTE_FORMULAS_FAST = 1
} compute_model_formulas;

typedef struct compute_model_options {
  compute_device *device; /**< as in compute_plan_options */
  compute_fallback fallback;
  uint32_t flags;                          /**< COMPUTE_PLAN_…, for its plans */
  uint32_t max_plans;                      /**< plans kept for recent input sizes; 0: 32 */
  const compute_model_operator *operators; /**< copied; their names and `user` are not */
  size_t operator_count;
  /** compute_model_load_memory only: the folder of external data; NULL: none allowed */
  const char *folder;
  compute_model_files files;
  compute_model_formulas formulas;
  /** Of random operators whose node has no seed (docs/reference/onnx.md): each run draws the same
   * numbers from it. 0: each run draws others. */
  uint64_t seed;
  uint64_t max_plan_bytes; /**< memory of these plans, without weights; 0: 256 MiB */
  uint64_t reserved[5];    /**< must be zero */
} compute_model_options;

/** Loads a model. `options` may be NULL. Ownership of *model passes to the caller; it keeps the
 * context's objects in use until compute_model_release. Thread-safe.
 *
 * By default weights are mapped, not read: then neither the file nor its files of external data may
 * change while the model lives. For files from elsewhere, or that other programs replace, choose
 * COMPUTE_MODEL_COPY or _COPY_SHARED in options.files. Tensors are copied to the device when a plan
 * first needs them.
 *
 * - COMPUTE_ERROR_FILE with the system's error message.
 * - COMPUTE_ERROR_FORMAT for a file that is damaged, contradicts itself or names files outside its
 *   folder. The message names the node or tensor.
 * - COMPUTE_ERROR_UNSUPPORTED for operators that neither the library nor the options have. The
 *   message and the log list them, up to 100, with versions and counts.
 * - _NULL_POINTER, _INVALID_ARGUMENT, _OUT_OF_MEMORY. */
COMPUTE_API compute_status compute_model_load(compute_context *context, const char *path,
                                              const compute_model_options *options,
                                              compute_model **model);

/** The same from `bytes` bytes of memory, which must not change while the model lives. Weights are
 * copied. */
COMPUTE_API compute_status compute_model_load_memory(compute_context *context, const void *data,
                                                     size_t bytes,
                                                     const compute_model_options *options,
                                                     compute_model **model);

/** NULL is allowed. Not while another thread uses it. */
COMPUTE_API void compute_model_release(compute_model *model);

/** The kind of a port or item: flags, which may be combined. An optional may hold a sequence; a
 * sequence holds tensors of numbers, or of texts. A port of any other type, such as a map or a
 * sequence of sequences, is COMPUTE_MODEL_NUMBERS of rank −1: such an input cannot be bound. */
enum {
  COMPUTE_MODEL_NUMBERS = 0,       /**< a tensor */
  COMPUTE_MODEL_TEXT = 1 << 0,     /**< texts in place of numbers */
  COMPUTE_MODEL_SEQUENCE = 1 << 1, /**< a list of tensors */
  COMPUTE_MODEL_OPTIONAL = 1 << 2  /**< such a value, or nothing */
};

/** An input or output of a model. */
typedef struct compute_model_port {
  const char *name; /**< lives as long as the model */
  /** Of the tensors. COMPUTE_DTYPE_NONE for texts and maps, and where the file has none.
   * COMPUTE_I64 for an output with labels: their positions (compute_model_label_count). */
  compute_dtype dtype;
  int32_t rank;                         /**< −1 if not in the file */
  int64_t size[COMPUTE_MAX_RANK];       /**< −1: any, or named by `symbol` */
  const char *symbol[COMPUTE_MAX_RANK]; /**< the name of such a size, or NULL */
  bool optional;                        /**< an input with a default, which need not be bound */
  uint32_t kind; /**< COMPUTE_MODEL_…; the shape is of its tensors, in a sequence not checked */
  uint64_t reserved[4]; /**< zero */
} compute_model_port;

COMPUTE_API size_t compute_model_input_count(const compute_model *model);
COMPUTE_API size_t compute_model_output_count(const compute_model *model);

/** COMPUTE_ERROR_INVALID_ARGUMENT past the end; _NULL_POINTER. Thread-safe. */
COMPUTE_API compute_status compute_model_input_at(const compute_model *model, size_t index,
                                                  compute_model_port *port);
COMPUTE_API compute_status compute_model_output_at(const compute_model *model, size_t index,
                                                   compute_model_port *port);

/** Labels of classes. In compute_model_run, an output that the file declares as texts and that has
 * labels of classes is an i64 tensor with positions in a list of labels. compute_model_run_items
 * gives the texts. This is the number of labels in the list, and 0 for other outputs. It is also
 * the number of scores in a row of a map of scores (ZipMap), which is a matrix with a column for
 * each label. Thread-safe. */
COMPUTE_API size_t compute_model_label_count(const compute_model *model, size_t output);

/** Label `index` of output number `output`. *text lives as long as the model, and is NULL if the
 * labels are integers. *number is the integer, or `index`. COMPUTE_ERROR_INVALID_ARGUMENT past the
 * end; _NULL_POINTER. Thread-safe. */
COMPUTE_API compute_status compute_model_label_at(const compute_model *model, size_t output,
                                                  size_t index, const char **text, int64_t *number);

typedef struct compute_model_info {
  const char *producer, *graph_name, *description; /**< "" if not in the file */
  int64_t ir_version, opset;                       /**< opset of ONNX's own domain */
  uint64_t nodes;                                  /**< of the file, including sub-graphs */
  uint64_t weights;                                /**< tensors in the file */
  uint64_t weight_bytes;
  uint64_t mapped_bytes; /**< of these, used in place from the file */
  uint64_t plans;        /**< kept now */
  uint64_t plans_made;   /**< since the model was loaded */
  uint64_t plan_hits;    /**< runs that found all their plans in the cache */
  uint64_t runs;
  uint64_t plan_bytes;  /**< memory of the plans kept now, estimated: records and constants */
  uint64_t reserved[7]; /**< zero */
} compute_model_info;

/** COMPUTE_ERROR_NULL_POINTER. Thread-safe. */
COMPUTE_API compute_status compute_model_describe(const compute_model *model,
                                                  compute_model_info *info);

/** The file's metadata, under keys chosen by its author: names of classes, the characters that a
 * network reads, a licence. */
COMPUTE_API size_t compute_model_metadata_count(const compute_model *model);

/** Both live as long as the model, "" if the file omits one. In the order of the file; duplicate
 * keys are kept. COMPUTE_ERROR_INVALID_ARGUMENT past the end; _NULL_POINTER. Thread-safe. */
COMPUTE_API compute_status compute_model_metadata_at(const compute_model *model, size_t index,
                                                     const char **key, const char **value);

/* ---- Running -------------------------------------------------------------------------------- */

typedef struct compute_model_binding {
  const char *name;
  compute_tensor *tensor;
} compute_model_binding;

/** Runs the model and waits for its end.
 * - `inputs`: every input that is not optional, in any order. A tensor may be on any device.
 * - `outputs`: the outputs to compute. If its tensor is NULL, the run creates one on the model's
 *   device, which belongs to the caller. Other tensors receive the values and must have their dtype
 *   and shape. After a failure NULLs stay NULL, and the contents of other outputs are undefined.
 * - One tensor may be an input and an output, such as a decoder's cache. The run then updates it in
 *   place where that is safe, otherwise through a copy (compute_run).
 *
 * The first run with new input sizes compiles plans for them, which takes longer; the plans of
 * recent sizes are kept. Values that determine shapes count like sizes. Several threads may run one
 * model at the same time: one of them at a time compiles plans, and runs whose plans exist do not
 * wait for it.
 *
 * Ports of other kinds than COMPUTE_MODEL_NUMBERS need compute_model_run_items. Here an output with
 * labels is their positions, an optional input takes the tensor that it would hold or stays
 * unbound, an input of texts is COMPUTE_ERROR_DTYPE, and all else COMPUTE_ERROR_UNSUPPORTED.
 *
 * COMPUTE_ERROR_BINDING for a missing, unknown or duplicate name; _DTYPE, _SHAPE for an input that
 * differs from the file's declaration; the errors of compute_compile and compute_run, with the
 * node's name. */
COMPUTE_API compute_status compute_model_run(compute_model *model,
                                             const compute_model_binding *inputs,
                                             size_t input_count, compute_model_binding *outputs,
                                             size_t output_count);

typedef struct compute_model_run_options {
  /** NULL, or a function that answers whether the run continues. It is called between two steps and
   * in long operators on texts, on the calling thread, at most 20 times a second. After `false` the
   * run ends with COMPUTE_ERROR_CANCELLED. It must return (compute.h), and must not call functions
   * of the model. While a plan is compiled, it is not called. */
  bool (*go_on)(void *user);
  void *user;           /**< for `go_on` */
  uint64_t reserved[6]; /**< must be zero */
} compute_model_run_options;

/** compute_model_run with options, which may be NULL. Also COMPUTE_ERROR_CANCELLED, and
 * _INVALID_ARGUMENT for a reserved word that is not zero. */
COMPUTE_API compute_status compute_model_run_with(
    compute_model *model, const compute_model_binding *inputs, size_t input_count,
    compute_model_binding *outputs, size_t output_count, const compute_model_run_options *options);

/* ---- Items: values that need not be one tensor ----------------------------------------------- */

/** A value of a port: a tensor, texts, a sequence, or an optional. Reference-counted: functions
 * that make one give the caller a reference, and an item holds references to its tensor or its
 * items. An item of tensors must be released before its context is closed. Several threads may read
 * an item at the same time, but not while one of them appends to it. */
typedef struct compute_model_item compute_model_item;

/** Makes an item of a tensor, which it retains. COMPUTE_ERROR_NULL_POINTER, _OUT_OF_MEMORY. */
COMPUTE_API compute_status compute_model_item_from_tensor(compute_tensor *tensor,
                                                          compute_model_item **item);

/** Makes an item of texts in row-major order, which it copies. Each ends in a zero and is UTF-8.
 * COMPUTE_ERROR_INVALID_ARGUMENT if one is not, _SHAPE, _NULL_POINTER, _OUT_OF_MEMORY. */
COMPUTE_API compute_status compute_model_item_from_texts(compute_shape shape,
                                                         const char *const *texts,
                                                         compute_model_item **item);

/** Makes an empty sequence. COMPUTE_ERROR_NULL_POINTER, _OUT_OF_MEMORY. */
COMPUTE_API compute_status compute_model_item_sequence(compute_model_item **item);

/** Makes an optional of a tensor, texts or a sequence, which it retains. `held` NULL: it holds
 * nothing. COMPUTE_ERROR_INVALID_ARGUMENT if `held` is an optional, _NULL_POINTER,
 * _OUT_OF_MEMORY. */
COMPUTE_API compute_status compute_model_item_optional(compute_model_item *held,
                                                       compute_model_item **item);

/** Appends a tensor or texts to a sequence, which retains it. A sequence has either tensors or
 * texts. COMPUTE_ERROR_INVALID_ARGUMENT, _NULL_POINTER, _OUT_OF_MEMORY. Not thread-safe. */
COMPUTE_API compute_status compute_model_item_append(compute_model_item *sequence,
                                                     compute_model_item *item);

/** NULL is allowed. Thread-safe. */
COMPUTE_API compute_model_item *compute_model_item_retain(compute_model_item *item);
COMPUTE_API void compute_model_item_release(compute_model_item *item);

/** COMPUTE_MODEL_…: of a sequence or optional with _TEXT if its content is texts. 0 for NULL. */
COMPUTE_API uint32_t compute_model_item_kind(const compute_model_item *item);

/** The number of items in a sequence or optional, and of elements in texts. 0 for a tensor. */
COMPUTE_API size_t compute_model_item_count(const compute_model_item *item);

/** Item `index` of a sequence or optional, which still owns it. NULL past the end, and for other
 * items. */
COMPUTE_API compute_model_item *compute_model_item_at(const compute_model_item *item, size_t index);

/** The tensor of an item, which still owns it. NULL for other items. */
COMPUTE_API compute_tensor *compute_model_item_tensor(const compute_model_item *item);

/** Text `index` of texts, in row-major order. It lives as long as the item. NULL past the end, and
 * for other items. */
COMPUTE_API const char *compute_model_item_text(const compute_model_item *item, size_t index);

/** The shape of a tensor or of texts. A scalar's for other items. */
COMPUTE_API compute_shape compute_model_item_shape(const compute_model_item *item);

typedef struct compute_model_argument {
  const char *name;
  compute_model_item *item;
} compute_model_argument;

/** As compute_model_run_with, for ports of any kind.
 * - `inputs`: the items are the caller's. An optional input may be an optional, or the value that
 *   it would hold. If it is not bound, it is an optional without a value.
 * - `outputs`: the run makes each item, and the caller releases it. An item that is there before is
 *   overwritten. After a failure all are NULL.
 *
 * The lengths of sequences count like sizes: a new length compiles plans. Texts do not: texts of
 * other contents or lengths use the same plans, up to an operator whose output's shape depends on
 * texts (StringSplit, StringNormalizer). Later operators are compiled for each new shape. Operators
 * on texts run on the calling thread, between two plans. All texts of a run, at its inputs and made
 * by operators, may have 2 GiB. More are COMPUTE_ERROR_OUT_OF_MEMORY.
 *
 * Also COMPUTE_ERROR_DTYPE for an item of another kind than the port's, and _FORMAT for an output
 * with texts that are not UTF-8. */
COMPUTE_API compute_status compute_model_run_items(
    compute_model *model, const compute_model_argument *inputs, size_t input_count,
    compute_model_argument *outputs, size_t output_count, const compute_model_run_options *options);

/** The tables of compute_explain for all cached plans. Free it with compute_text_free. */
COMPUTE_API compute_status compute_model_explain(compute_model *model, char **text);

/* ---- Recording ------------------------------------------------------------------------------ */

/** A value of the model in a caller's graph. */
typedef struct compute_model_value {
  const char *name;
  compute_node node;
} compute_model_value;

/** Records into `graph` the part of the model that computes `outputs` from `inputs`, and fills in
 * outputs[i].node. `outputs` are any named values of the model's main graph. `inputs` are nodes
 * that replace the values with these names. On failure the graph is unchanged, with its error
 * cleared.
 *
 * Weights become parameters of the graph, named as in the file. They are the model's own tensors,
 * which can be trained (train.h) and then written with compute_model_save. Runs of the model see
 * their current values.
 *
 * Random operators without a seed draw other numbers in each run of a plan of the graph, unless the
 * model's options have a seed; their seed is then a step on the CPU (call.h).
 *
 * - COMPUTE_ERROR_INVALID_ARGUMENT for a name that the model does not have.
 * - _BINDING if a needed value is missing from `inputs`.
 * - _UNSUPPORTED if a shape depends on values that are known only in a run.
 * - The errors of the builders.
 *
 * Not while another thread uses the graph. */
COMPUTE_API compute_status compute_model_record(compute_model *model, compute_graph *graph,
                                                const compute_model_value *inputs,
                                                size_t input_count, compute_model_value *outputs,
                                                size_t output_count);

/* ---- Batches -------------------------------------------------------------------------------- */

/** Creates an iterator (batch.h) that runs the model on each batch. Its inputs are the model's
 * required inputs, in the file's order; its outputs are all of the model's. The first axis of each
 * counts items. The model must outlive the iterator, and may be run meanwhile. Ownership of *batch
 * passes to the caller. Thread-safe.
 *
 * - `options`, which may be NULL, is as in compute_batch_create without build, step and user; the
 *   default device is the model's. `inputs` is only needed where the file leaves the size of an
 *   item open, and gives that size.
 * - If the file fixes the first axis to 1, items are run one at a time.
 * - Weights are copied to other devices at the start of each run.
 *
 * Errors:
 * - COMPUTE_ERROR_DTYPE or _SHAPE for `inputs` that contradict the file, or where the file does not
 *   define an item.
 * - _UNSUPPORTED for a first axis with another fixed size, more than 32 inputs or outputs, and
 *   where a shape depends on values known only at run time. For such a model, call
 *   compute_model_run in a step.
 * - _INVALID_ARGUMENT; the errors of compute_model_record and compute_batch_create. */
COMPUTE_API compute_status compute_model_batch(compute_model *model,
                                               const compute_batch_options *options,
                                               compute_batch **batch);

/* ---- Writing -------------------------------------------------------------------------------- */

/** Writes the model with its current weights: as ONNX if `path` ends in ".onnx", as safetensors
 * (only weights, under their names) if it ends in ".safetensors". The file appears when it is
 * complete. COMPUTE_ERROR_INVALID_ARGUMENT for another ending, _FILE, _OUT_OF_MEMORY. */
COMPUTE_API compute_status compute_model_save(compute_model *model, const char *path);

/* ---- Graphs as models ----------------------------------------------------------------------- */

/** The operator set of ONNX's own domain that such files use; their IR version is 10. */
#define COMPUTE_MODEL_EXPORT_OPSET 22

typedef struct compute_model_export_options {
  const char *graph_name;  /**< NULL: "graph" */
  const char *description; /**< of the model, or NULL */
  uint64_t reserved[8];    /**< must be zero */
} compute_model_export_options;

/** Writes the part of a graph that computes `outputs` as an ONNX file, for inference. The file
 * appears when it is complete. docs/reference/onnx.md has the form of each operation.
 *
 * - `inputs` are nodes of any kind that become the model's inputs: the nodes that compute them are
 *   omitted. Other input nodes (compute_input) that are needed come after them, in order of
 *   creation. `inputs` may be NULL with `input_count` 0.
 * - For a NULL name, the node's own (compute_name) is used or one is generated, as for other
 *   values.
 * - Parameters become initializers with their current values, on any device, and constants
 *   likewise. Sizes are the graph's.
 * - `options` may be NULL.
 *
 * Errors:
 * - COMPUTE_ERROR_UNSUPPORTED for operations without a form (random numbers, gradients of
 *   convolution and pooling, optimizer steps, the caller's functions, fits), with a message that
 *   names all of them with their first nodes; and for 2 GiB and more, which ONNX files cannot hold.
 * - _INVALID_ARGUMENT for no outputs, a duplicate input, and a name that is duplicate or not UTF-8.
 * - _WRONG_GRAPH; the graph's own error; _FILE; _TRANSFER; _OUT_OF_MEMORY; _NULL_POINTER.
 *
 * Not while another thread extends the graph or changes parameters. */
COMPUTE_API compute_status compute_graph_save_onnx(const compute_graph *graph,
                                                   const compute_model_value *inputs,
                                                   size_t input_count,
                                                   const compute_model_value *outputs,
                                                   size_t output_count, const char *path,
                                                   const compute_model_export_options *options);

#ifdef __cplusplus
}
#endif
#endif
