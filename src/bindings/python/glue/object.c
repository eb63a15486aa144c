/* SPDX-License-Identifier: MIT */
/* The types of the library's objects, and their lifetime. */
#include "glue.h"

PyTypeObject *types[KIND_COUNT];
static PyObject *default_context; /* or NULL */

bool is_kind(PyObject *o, enum kind kind) {
  return Py_IS_TYPE(o, types[kind]);
}

static enum kind kind_of(PyObject *o) {
  enum kind kind = 0;
  while (kind < KIND_COUNT && !is_kind(o, kind)) kind++;
  return kind;
}

PyObject *context_of(PyObject *o) {
  if (is_kind(o, KIND_NODE)) o = ((node_object *)o)->graph;
  return is_kind(o, KIND_CONTEXT) ? o : ((object *)o)->context;
}

static void release(enum kind kind, void *handle) {
  switch (kind) {
  case KIND_CONTEXT: (void)compute_close(handle); return;
  case KIND_TENSOR: compute_tensor_release(handle); return;
  case KIND_GRAPH: compute_graph_release(handle); return;
  case KIND_PLAN: compute_plan_release(handle); return;
  case KIND_MODEL: compute_model_release(handle); return;
  case KIND_LAYER: compute_layer_release(handle); return;
  case KIND_DATASET: compute_dataset_release(handle); return;
  case KIND_TRAINER: compute_trainer_release(handle); return;
  case KIND_FIT: compute_fit_release(handle); return;
  case KIND_TENSOR_FILE: compute_tensor_file_close(handle); return;
  case KIND_JOB: compute_job_release(handle); return;
  case KIND_BATCH: compute_batch_release(handle); return;
  case KIND_PROCESS_GROUP: compute_group_close(handle); return;
  case KIND_KERNEL: compute_kernel_release(handle); return;
  case KIND_BATCHER: compute_batcher_release(handle); return;
  case KIND_BATCHER_REQUEST: /* its arrays must stay until it has ended */
    (void)compute_batcher_cancel(handle);
    (void)compute_batcher_wait(handle, 0);
    compute_batcher_request_release(handle);
    return;
  case KIND_DEVICE:
  case KIND_NODE:
  case KIND_COUNT: return;
  }
}

static PyObject *allocate(enum kind kind) {
  allocfunc make = (allocfunc)PyType_GetSlot(types[kind], Py_tp_alloc);
  return make(types[kind], 0);
}

/* Counts the users of the groups in a list of kept objects. */
static void count_users(PyObject *keep, int32_t change) {
  const Py_ssize_t count = keep && PyList_Check(keep) ? PyList_Size(keep) : 0;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *one = PyList_GetItem(keep, i);
    if (is_kind(one, KIND_PROCESS_GROUP)) ((object *)one)->users += change;
  }
}

/* The last reference to a tensor may call back into Python from here: the lock is free. */
void object_dealloc(PyObject *self) {
  object *o = (object *)self;
  PyTypeObject *type = Py_TYPE(self);
  if (o->handle && o->owned) {
    const enum kind kind = kind_of(self);
    void *handle = o->handle;
    o->handle = NULL;
    PyThreadState *const unlocked = PyEval_SaveThread();
    release(kind, handle);
    PyEval_RestoreThread(unlocked);
  }
  count_users(o->keep, -1);
  Py_CLEAR(o->keep);
  Py_CLEAR(o->extra);
  Py_CLEAR(o->context);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

void node_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  Py_CLEAR(((node_object *)self)->graph);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyObject *object_new(enum kind kind, void *handle, bool owned, scratch *s) {
  if (kind == KIND_TENSOR && !owned) {
    compute_tensor_retain(handle);
    owned = true;
  }
  object *o = (object *)allocate(kind);
  if (!o) {
    if (owned) release(kind, handle);
    return NULL;
  }
  o->handle = handle;
  o->owned = owned;
  if (kind != KIND_CONTEXT) o->context = Py_XNewRef(s->context);
  if (kind != KIND_TENSOR && kind != KIND_DEVICE) o->keep = Py_XNewRef(s->kept);
  count_users(o->keep, 1);
  return (PyObject *)o;
}

PyObject *array_object(compute_tensor *tensor, PyObject *context) {
  scratch s = {.context = context};
  return object_new(KIND_TENSOR, tensor, true, &s);
}

PyObject *node_new(PyObject *graph, compute_node node) {
  compute_graph *handle = ((object *)graph)->handle;
  if (!node.id) {
    fail(compute_graph_status(handle) ? compute_graph_status(handle) : COMPUTE_ERROR_WRONG_GRAPH);
    compute_graph_clear_error(handle);
    return NULL;
  }
  node_object *o = (node_object *)allocate(KIND_NODE);
  if (!o) return NULL;
  o->node = node;
  o->graph = Py_NewRef(graph);
  return (PyObject *)o;
}

/* ---- The default context ------------------------------------------------------------------- */

PyObject *context_default(void) {
  if (default_context) return default_context;
  compute_context *context = NULL;
  const compute_status status = compute_open(&context, NULL);
  if (status) return fail(status);
  scratch s = {0};
  default_context = object_new(KIND_CONTEXT, context, true, &s);
  scratch_end(&s);
  return default_context;
}

void context_replace(PyObject *context) {
  PyObject *old = default_context;
  default_context = Py_XNewRef(context);
  Py_XDECREF(old);
}

PyObject *object_context(PyObject *self, void *unused) {
  (void)unused;
  PyObject *context = context_of(self);
  return Py_NewRef(context ? context : Py_None);
}
