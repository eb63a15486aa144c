/* SPDX-License-Identifier: MIT */
/* The batch iterator: work recorded by a function of Python, items from arrays, files and functions
 * of Python. */
#include "glue.h"

#include <stdlib.h>

/* ---- The work ------------------------------------------------------------------------------ */

typedef struct work {
  PyObject *build, *context;
  PyObject *inputs; /* a tuple of (dtype, shape of an item) */
  size_t outputs;
  PyObject *ports; /* the same of the outputs; NULL before the first recording */
  watch watch;
} work;

static void work_free(PyObject *capsule) {
  work *w = PyCapsule_GetPointer(capsule, NULL);
  Py_XDECREF(w->build);
  Py_XDECREF(w->context);
  Py_XDECREF(w->inputs);
  Py_XDECREF(w->ports);
  watch_clear(&w->watch);
  free(w);
}

/* The output ports, as the nodes have them after the axis of items. */
static PyObject *ports_of(compute_graph *graph, const compute_node *nodes, size_t count) {
  PyObject *ports = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; ports && i < count; i++) {
    PyObject *whole = shape_tuple(compute_node_shape(graph, nodes[i]));
    PyObject *dtype = dtype_object(compute_node_dtype(graph, nodes[i]));
    PyObject *shape = whole ? PyTuple_GetSlice(whole, 1, PyTuple_Size(whole)) : NULL;
    Py_XDECREF(whole);
    PyObject *port = dtype && shape ? PyTuple_Pack(2, dtype, shape) : NULL;
    Py_XDECREF(dtype);
    Py_XDECREF(shape);
    if (!port || PyTuple_SetItem(ports, (Py_ssize_t)i, port)) Py_CLEAR(ports);
  }
  return ports;
}

/* Calls `build` with the nodes of the inputs. The graph belongs to the iterator: its object serves
 * during the call only. */
static int record_with(work *w, PyObject *graph, compute_graph *handle, PyObject *arguments,
                       compute_node *outputs) {
  PyObject *made = arguments ? PyObject_CallObject(w->build, arguments) : NULL;
  PyObject *list = !made                      ? NULL
                   : is_kind(made, KIND_NODE) ? PyTuple_Pack(1, made)
                                              : PySequence_Tuple(made);
  int result = list ? 0 : -1;
  if (list && (size_t)PyTuple_Size(list) != w->outputs) {
    PyErr_Format(PyExc_ValueError, "the work has %zd outputs, not %zu", PyTuple_Size(list),
                 w->outputs);
    result = -1;
  }
  for (size_t i = 0; !result && i < w->outputs; i++)
    result = to_node(PyTuple_GetItem(list, (Py_ssize_t)i), graph, &outputs[i]);
  if (!result) {
    Py_XDECREF(w->ports);
    w->ports = ports_of(handle, outputs, w->outputs);
    if (!w->ports) result = -1;
  }
  Py_XDECREF(list);
  Py_XDECREF(made);
  return result;
}

static void record(void *user, compute_graph *handle, int64_t items, const compute_node *inputs,
                   compute_node *outputs) {
  work *w = user;
  (void)items;
  const PyGILState_STATE state = PyGILState_Ensure();
  scratch s = {.context = w->context};
  PyObject *graph = object_new(KIND_GRAPH, handle, false, &s);
  PyObject *arguments = graph ? PyTuple_New(PyTuple_Size(w->inputs)) : NULL;
  for (Py_ssize_t i = 0; arguments && i < PyTuple_Size(arguments); i++) {
    PyObject *node = node_new(graph, inputs[i]);
    if (!node || PyTuple_SetItem(arguments, i, node)) Py_CLEAR(arguments);
  }
  if (!graph || record_with(w, graph, handle, arguments, outputs)) {
    for (size_t i = 0; i < w->outputs; i++) outputs[i] = (compute_node){0};
    watch_catch(&w->watch);
  }
  Py_XDECREF(arguments);
  if (graph) ((object *)graph)->handle = NULL;
  Py_XDECREF(graph);
  PyGILState_Release(state);
}

/* ---- Creating ------------------------------------------------------------------------------ */

/* Pairs of a dtype and an item's shape. */
static compute_batch_port *ports_from(PyObject *list, scratch *s) {
  const Py_ssize_t count = PyTuple_Size(list);
  compute_batch_port *ports = scratch_memory(s, ((size_t)count + 1) * sizeof *ports);
  for (Py_ssize_t i = 0; ports && i < count; i++) {
    PyObject *port = PySequence_Tuple(PyTuple_GetItem(list, i));
    const bool pair = port && PyTuple_Size(port) == 2;
    if (port && !pair) PyErr_SetString(PyExc_ValueError, "an input is (dtype, shape of an item)");
    if (!pair || to_dtype(PyTuple_GetItem(port, 0), &ports[i].dtype) ||
        to_shape(PyTuple_GetItem(port, 1), &ports[i].item))
      ports = NULL;
    Py_XDECREF(port);
  }
  return ports;
}

static PyObject *batch_new(PyObject *self, PyObject *const *args, Py_ssize_t count,
                           PyObject *names) {
  static const char *const keys[] = {"build", "inputs", "outputs", "context"};
  static const form f = {"_batch", keys, 4, 3, true};
  PyObject *v[4], *given = NULL, *list = NULL, *capsule = NULL, *result = NULL;
  scratch s = {0};
  compute_context *context = NULL;
  compute_batch_options options = {0};
  compute_batch *batch = NULL;
  compute_batch_port *ports = NULL;
  (void)self;
  if (form_take(&f, args, count, names, v, &given) || to_context(v[3], &s, &context) ||
      to_size(v[2], "outputs", &options.output_count) || (list = PySequence_Tuple(v[1])) == NULL ||
      (ports = ports_from(list, &s)) == NULL ||
      fill(&compute_batch_options_form, given, &options, &s))
    goto end;
  if (PyTuple_Size(list) == 0 || !PyCallable_Check(v[0])) {
    PyErr_SetString(PyExc_TypeError, "a function that records the work, and an input are needed");
    goto end;
  }
  work *w = calloc(1, sizeof *w);
  if (!w || (capsule = PyCapsule_New(w, NULL, work_free)) == NULL) {
    free(w);
    if (!PyErr_Occurred()) PyErr_NoMemory();
    goto end;
  }
  w->build = Py_NewRef(v[0]);
  w->context = Py_NewRef(s.context);
  w->outputs = options.output_count;
  w->inputs = Py_NewRef(list);
  if (scratch_keep(&s, capsule)) goto end;
  options.build = record;
  options.user = w;
  options.inputs = ports;
  options.input_count = (size_t)PyTuple_Size(list);
  compute_status status;
  PyThreadState *const unlocked = PyEval_SaveThread();
  status = compute_batch_create(context, &options, &batch);
  PyEval_RestoreThread(unlocked);
  if (w->watch.failed)
    watch_raise(&w->watch);
  else
    result = status ? fail(status) : object_new(KIND_BATCH, batch, true, &s);
  if (!result && batch) compute_batch_release(batch);
  if (result) ((object *)result)->extra = Py_NewRef(capsule);
end:
  Py_XDECREF(capsule);
  Py_XDECREF(list);
  Py_XDECREF(given);
  scratch_end(&s);
  return result;
}

static work *work_of(PyObject *self) {
  return PyCapsule_GetPointer(((object *)self)->extra, NULL);
}

watch *batch_watch(PyObject *batch) {
  work *w = work_of(batch);
  return w ? &w->watch : NULL;
}

static PyObject *batch_outputs(PyObject *self, void *unused) {
  (void)unused;
  const work *w = work_of(self);
  return w ? Py_NewRef(w->ports ? w->ports : Py_None) : NULL;
}

static PyObject *batch_inputs(PyObject *self, void *unused) {
  (void)unused;
  const work *w = work_of(self);
  return w ? Py_NewRef(w->inputs) : NULL;
}

/* ---- Running ------------------------------------------------------------------------------- */

/* A function of Python as a source or a sink: it gets the first item's number, the number of items
 * and their memory. */
typedef struct stream {
  PyObject *call;   /* borrowed */
  Py_ssize_t bytes; /* of an item */
  watch *watch;
} stream;

static compute_status stream_call(const stream *t, int64_t first, int64_t items, void *data,
                                  int flags, int64_t *number) {
  const PyGILState_STATE state = PyGILState_Ensure();
  PyObject *view = PyMemoryView_FromMemory(data, (Py_ssize_t)items * t->bytes, flags);
  PyObject *answer =
      view ? PyObject_CallFunction(t->call, "LLO", (long long)first, (long long)items, view) : NULL;
  int64_t given = items;
  const bool bad = !answer || (number && to_i64(answer, "the number of items", &given));
  if (bad) watch_catch(t->watch);
  if (number) *number = bad ? 0 : given;
  Py_XDECREF(answer);
  Py_XDECREF(view);
  PyGILState_Release(state);
  return bad ? COMPUTE_ERROR_CANCELLED : COMPUTE_OK;
}

static compute_status stream_read(void *user, int64_t first, int64_t items, void *data,
                                  int64_t *count) {
  return stream_call(user, first, items, data, PyBUF_WRITE, count);
}

static compute_status stream_write(void *user, int64_t first, int64_t items, const void *data) {
  return stream_call(user, first, items, (void *)(uintptr_t)data, PyBUF_READ, NULL);
}

/* One end of a run: a path, a function, or the memory of an array. */
typedef struct end {
  const char *path;
  void *memory;
  stream *stream;
} end;

static int end_of(PyObject *pair, bool writable, watch *w, scratch *s, end *e) {
  PyObject *given = PyTuple_GetItem(pair, 0);
  if (PyUnicode_Check(given) || PyBytes_Check(given)) return to_path(given, s, &e->path);
  if (PyCallable_Check(given)) {
    e->stream = scratch_memory(s, sizeof *e->stream);
    int64_t bytes = 0;
    if (!e->stream || to_i64(PyTuple_GetItem(pair, 1), "bytes", &bytes)) return -1;
    *e->stream = (stream){given, (Py_ssize_t)bytes, w};
    return 0;
  }
  return to_memory(given, writable, s, &e->memory);
}

static PyObject *batch_run(PyObject *self, PyObject *const *args, Py_ssize_t count,
                           PyObject *names) {
  static const char *const keys[] = {"items", "sources", "sinks", "progress"};
  static const form f = {"_run", keys, 4, 3, false};
  PyObject *v[4], *from = NULL, *to = NULL, *result = NULL;
  scratch s = {0};
  compute_batch *batch = NULL;
  compute_batch_run_options options = {0};
  compute_batch_result summary = {0};
  watch w = {0};
  work *recorded = work_of(self);
  if (!recorded || form_take(&f, args, count, names, v, NULL) ||
      to_object(self, KIND_BATCH, &s, (void **)&batch) || to_i64(v[0], "items", &options.items) ||
      (from = PySequence_Tuple(v[1])) == NULL || (to = PySequence_Tuple(v[2])) == NULL)
    goto end;
  const Py_ssize_t inputs = PyTuple_Size(from), outputs = PyTuple_Size(to);
  compute_batch_source *sources = scratch_memory(&s, ((size_t)inputs + 1) * sizeof *sources);
  compute_batch_sink *sinks = scratch_memory(&s, ((size_t)outputs + 1) * sizeof *sinks);
  if (!sources || !sinks) goto end;
  for (Py_ssize_t i = 0; i < inputs; i++) {
    end e = {0};
    if (end_of(PyTuple_GetItem(from, i), false, &w, &s, &e)) goto end;
    sources[i] = (compute_batch_source){.array = e.memory, .path = e.path};
    if (e.stream) sources[i] = (compute_batch_source){.read = stream_read, .user = e.stream};
  }
  for (Py_ssize_t i = 0; i < outputs; i++) {
    end e = {0};
    if (end_of(PyTuple_GetItem(to, i), true, &w, &s, &e)) goto end;
    sinks[i] = (compute_batch_sink){.array = e.memory, .path = e.path};
    if (e.stream) sinks[i] = (compute_batch_sink){.write = stream_write, .user = e.stream};
  }
  w.call = v[3];
  options.sources = sources;
  options.sinks = sinks;
  options.progress = batch_progress;
  options.progress_user = &w;
  compute_status status;
  PyThreadState *const unlocked = PyEval_SaveThread();
  status = compute_batch_run(batch, &options, &summary);
  PyEval_RestoreThread(unlocked);
  if (w.failed) {
    watch_clear(&recorded->watch); /* only one exception can be raised */
    recorded->watch.failed = false;
    result = watch_raise(&w);
  } else if (recorded->watch.failed)
    result = watch_raise(&recorded->watch);
  else
    result = status ? fail(status) : taken(&compute_batch_result_form, &summary, NULL);
end:
  Py_XDECREF(from);
  Py_XDECREF(to);
  scratch_end(&s);
  return result;
}

#define METHOD(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS

PyGetSetDef batch_members[] = {
    {"outputs", batch_outputs, NULL, "the dtype and the item's shape of each output", NULL},
    {"_inputs", batch_inputs, NULL, NULL, NULL},
    {"context", object_context, NULL, "the context", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

PyMethodDef batch_methods[] = {{"_run", METHOD(batch_run), NULL}, {NULL, NULL, 0, NULL}};

PyMethodDef batch_functions[] = {{"_batch", METHOD(batch_new), NULL}, {NULL, NULL, 0, NULL}};
