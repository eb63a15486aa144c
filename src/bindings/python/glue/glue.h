/* SPDX-License-Identifier: MIT */
/* The extension module libcompute._core. The build generates most functions;
 * the files of this folder have types, conversions and what needs more than a conversion. Everything
 * is in the stable ABI of Python 3.11. */
#ifndef GLUE_H
#define GLUE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <compute/compute.h>

/* ---- Objects ------------------------------------------------------------------------------- */

enum kind {
  KIND_CONTEXT,
  KIND_DEVICE,
  KIND_TENSOR,
  KIND_GRAPH,
  KIND_PLAN,
  KIND_MODEL,
  KIND_LAYER,
  KIND_DATASET,
  KIND_TRAINER,
  KIND_FIT,
  KIND_TENSOR_FILE,
  KIND_JOB,
  KIND_BATCH,
  KIND_PROCESS_GROUP,
  KIND_KERNEL,
  KIND_BATCHER,
  KIND_BATCHER_REQUEST,
  KIND_NODE,
  KIND_COUNT
};

extern PyTypeObject *types[KIND_COUNT];

/* An object of the library, with references to its context and to its owner. */
typedef struct object {
  PyObject ob_base;
  void *handle;      /* NULL: released */
  PyObject *context; /* NULL for a context, and for layers without weights */
  PyObject *keep;    /* NULL, an object or a list */
  /* Of a plan: a tuple of its outputs. Of a job or a request: its result. Of a batch: its work. Of
   * a batcher: its batch. */
  PyObject *extra;
  int32_t users;  /* of a group: the objects that need it open */
  bool owned;     /* the handle is released with this object */
  bool busy;      /* a thread works with it, and no other may */
  bool exclusive; /* of a plan: runs must not overlap */
  bool single;    /* of a plan: compiled for one output, not a list */
  bool lengthy;   /* of a plan: a run may take more than a moment */
} object;

typedef struct node_object {
  PyObject ob_base;
  compute_node node;
  PyObject *graph;
} node_object;

/* Memory and references of one call, released by scratch_end. */
typedef struct scratch {
  struct block *blocks;
  PyObject *kept;    /* a list of the objects among the arguments */
  PyObject *context; /* of the arguments; borrowed */
  object *in_use[4]; /* marked as busy */
  int in_use_count;
} scratch;

void *scratch_memory(scratch *s, size_t bytes); /* zeros; NULL with an exception */
int scratch_keep(scratch *s, PyObject *kept);
int scratch_use(scratch *s, object *o);
void scratch_end(scratch *s);

/* Takes over the handle if `owned`, also on failure. A tensor that is not owned is retained. */
PyObject *object_new(enum kind kind, void *handle, bool owned, scratch *s);
PyObject *array_object(compute_tensor *tensor, PyObject *context); /* takes over the tensor */
PyObject *context_of(PyObject *o); /* borrowed; NULL without an exception if there is none */
bool is_kind(PyObject *o, enum kind kind);

/* The context that is used where none is given; opened when it is needed. Borrowed. */
PyObject *context_default(void);
void context_replace(PyObject *context); /* NULL: opened again when it is needed */

/* ---- Failures ------------------------------------------------------------------------------ */

PyObject *fail(compute_status status);  /* raises the thread's last error; NULL */
PyObject *fail_last(void);              /* likewise, after a call that returned NULL */
PyObject *registered(const char *name); /* an object that the package has registered; borrowed */

/* ---- Arguments ----------------------------------------------------------------------------- */

typedef struct form {
  const char *name;
  const char *const *keys;
  int count, required;
  bool options; /* further keywords become a dictionary */
} form;

int form_take(const form *f, PyObject *const *args, Py_ssize_t count, PyObject *names,
              PyObject **values, PyObject **options);

typedef struct enum_name {
  const char *name;
  int value;
} enum_name;

typedef struct enum_form {
  const char *name;
  const enum_name *names;
  int index; /* in ENUMS */
} enum_form;

/* 0, or -1 with an exception. */
int to_i32(PyObject *value, const char *name, int32_t *result);
int to_u32(PyObject *value, const char *name, uint32_t *result);
int to_i64(PyObject *value, const char *name, int64_t *result);
int to_u64(PyObject *value, const char *name, uint64_t *result);
int to_size(PyObject *value, const char *name, size_t *result);
int to_f64(PyObject *value, const char *name, double *result);
int to_bool(PyObject *value, const char *name, bool *result);
int to_dtype(PyObject *value, compute_dtype *result);
int to_shape(PyObject *value, compute_shape *result);
int to_axes(PyObject *value, compute_axes *result);
int to_enum(PyObject *value, const enum_form *f, int *result);
int to_text(PyObject *value, scratch *s, const char **result);
int to_path(PyObject *value, scratch *s, const char **result);
int to_object(PyObject *value, enum kind kind, scratch *s, void **result);
int to_context(PyObject *value, scratch *s, compute_context **result);
int to_device(PyObject *value, scratch *s, compute_device **result);

/* An item of a model, which the caller releases, also on failure; and its tuple (item.c). */
int to_item(PyObject *value, scratch *s, compute_model_item **item);
PyObject *item_object(const compute_model_item *item, PyObject *context);

PyObject *dtype_object(compute_dtype dtype); /* a new reference */
PyObject *shape_tuple(compute_shape shape);
PyObject *text_taken(char *text);               /* frees the text */
PyObject *packed(int count, PyObject **values); /* a tuple; takes over the values, NULL: none */
/* The memory of a dense buffer until the call returns. */
int to_memory(PyObject *value, bool writable, scratch *s, void **result);

/* ---- Structs ------------------------------------------------------------------------------- */

typedef enum field_kind {
  FIELD_I32,
  FIELD_U32,
  FIELD_I64,
  FIELD_U64,
  FIELD_SIZE,
  FIELD_F64,
  FIELD_BOOL,
  FIELD_CHAR,
  FIELD_CHARS,
  FIELD_TEXT,
  FIELD_ENUM,
  FIELD_DTYPE,
  FIELD_SHAPE,
  FIELD_NODE,
  FIELD_OBJECT,
  FIELD_OBJECTS, /* an array; `count` is where its number is */
  FIELD_STRUCT,
  FIELD_MAP,    /* compute_fit_map */
  FIELD_MASK,   /* bytes; `count` is where its rows and columns are */
  FIELD_FLOATS, /* arrays in host memory */
  FIELD_INTS,
  FIELD_BYTES,
  FIELD_BUFFER
} field_kind;

typedef struct field {
  const char *name;
  field_kind kind;
  size_t offset, count;
  const void *extra; /* the form of an enumeration or a struct, or the type of an object */
} field;

typedef struct struct_form {
  const char *name;
  size_t size;
  const field *fields;
  size_t count;
  int index; /* in STRUCTS */
} struct_form;

/* Options from a dictionary, or from a tuple in the order of the fields. NULL: nothing. */
int fill(const struct_form *f, PyObject *values, void *result, scratch *s);
/* A named tuple. `owner` is the graph of nodes. */
PyObject *taken(const struct_form *f, const void *value, PyObject *owner);

/* ---- Operations ---------------------------------------------------------------------------- */

#define OPERANDS 8

typedef struct operands {
  PyObject *graph_object, *context; /* borrowed */
  compute_graph *graph;             /* NULL for arrays */
  int count;
  PyObject *number[OPERANDS];    /* a Python number, until operands_unify */
  compute_dtype typed[OPERANDS]; /* the dtype of a number there; 0: from the other operands */
  bool array[OPERANDS];
  compute_node node[OPERANDS];
  compute_tensor *tensor[OPERANDS];
  compute_tensor *made[OPERANDS];
  compute_node *list[2];
  compute_tensor **tensors[2];
  size_t list_count[2];
  int lists, made_count;
} operands;

int operands_add(operands *o, PyObject *value, const char *name);
int operands_typed(operands *o, PyObject *value, const char *name, compute_dtype dtype);
int operands_maybe(operands *o, PyObject *value); /* None, or missing */
int operands_list(operands *o, PyObject *values, scratch *s, const char *name);
int operands_unify(operands *o, unsigned mask);
PyObject *operands_node(operands *o, compute_node made);
PyObject *operands_nodes(operands *o, compute_node made, int count, const compute_node *more);
PyObject *operands_tensor(operands *o, compute_status status, compute_tensor *made);
PyObject *operands_tensors(operands *o, compute_status status, int count, compute_tensor **made);
void operands_refuse(const form *f);
void operands_end(operands *o);

PyObject *node_new(PyObject *graph, compute_node node); /* raises the graph's error for {0} */
int to_node(PyObject *value, PyObject *graph, compute_node *result);

typedef PyObject *(*operation)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

/* ---- Generated tables -------------------------------------------------------------------------- */

extern PyMethodDef functions[], methods_Context[], methods_Device[], methods_Array[],
    methods_Plan[], methods_Model[], methods_Layer[], methods_Dataset[], methods_Trainer[],
    methods_Fitter[], methods_TensorFile[], methods_Job[], methods_Batch[], methods_Group[],
    methods_Kernel[], methods_Batcher[], methods_Request[];
Py_ssize_t length_dataset(PyObject *self);
Py_ssize_t length_tensor_file(PyObject *self);
extern const operation operation_add, operation_sub, operation_mul, operation_div, operation_pow,
    operation_matmul, operation_neg, operation_abs, operation_bit_and, operation_bit_or,
    operation_bit_xor, operation_bit_not, operation_shift_left, operation_shift_right,
    operation_equal, operation_not_equal, operation_less, operation_less_equal, operation_greater,
    operation_greater_equal, operation_logical_and, operation_logical_or, operation_logical_xor,
    operation_logical_not;
extern const struct_form compute_fit_run_options_form, compute_fit_summary_form,
    compute_training_progress_form, compute_training_score_form, compute_trainer_run_options_form,
    compute_plan_options_form, compute_run_options_form, compute_model_export_options_form,
    compute_batch_options_form, compute_batch_result_form, compute_spot_options_form,
    compute_batcher_options_form;

/* ---- Runs ---------------------------------------------------------------------------------- */

compute_binding *bindings_of(PyObject *plan, PyObject *inputs, PyObject *outputs, scratch *s,
                             size_t *count);
PyObject *outputs_of(PyObject *plan, PyObject *given); /* a list of arrays */
PyObject *plan_result(PyObject *plan, PyObject *list);
PyObject *plan_submit(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);

/* Progress of a run: a function of Python, and the exception that ended the run. */
typedef struct watch {
  PyObject *call; /* or NULL */
  bool failed;    /* an exception is set in `type`, …, or a signal came */
  PyObject *type, *value, *trace;
} watch;

/* Work that can be waited for. */
typedef struct waiting {
  enum kind kind;
  compute_status (*wait)(void *handle, double limit);
  compute_status (*poll)(void *handle, bool *done);
} waiting;

/* The method wait(limit=0), whose result is the object's `extra`. It waits in slices, between which
 * a signal ends the wait. The work continues. */
PyObject *wait_in_slices(const waiting *w, PyObject *self, PyObject *const *args, Py_ssize_t count,
                         PyObject *names);

void watch_catch(watch *w);      /* keeps the exception, unless there is one already */
PyObject *watch_raise(watch *w); /* raises it; NULL */
void watch_clear(watch *w);
watch *batch_watch(PyObject *batch); /* of the function that records its work; or NULL */
bool batch_progress(void *user, const compute_batch_progress *now);

/* ---- Types and functions of this folder ---------------------------------------------------- */

int types_make(PyObject *module);
PyObject *object_context(PyObject *self, void *unused);
void object_dealloc(PyObject *self);
void node_dealloc(PyObject *self);
PyObject *registers(PyObject *self, PyObject *objects);
extern PyType_Slot array_slots[], node_slots[];
extern PyMethodDef run_functions[], layer_functions[], array_functions[], batch_functions[],
    own_functions[], batcher_functions[];
extern PyMethodDef graph_methods[], plan_methods[], model_methods[], trainer_methods[],
    fit_methods[], layer_methods[], job_methods[], batch_methods[], kernel_methods[],
    group_methods[], file_functions[], batcher_methods[], request_methods[];
extern PyGetSetDef plan_members[], batch_members[], batcher_members[];
PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *keywords);

#endif
