/* SPDX-License-Identifier: MIT */
/* Graphs: their sources, gradients, plans, and files. */
#include "glue.h"

PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  static char *keys[] = {"context", NULL};
  PyObject *given = Py_None;
  scratch s = {0};
  compute_context *context = NULL;
  (void)type;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:Graph", keys, &given) ||
      to_context(given == Py_None ? NULL : given, &s, &context))
    return NULL;
  compute_graph *graph = compute_graph_create(context);
  return graph ? object_new(KIND_GRAPH, graph, true, &s) : fail_last();
}

static compute_graph *graph_of(PyObject *self) {
  if (((object *)self)->busy) {
    PyErr_SetString(PyExc_RuntimeError, "another call is using this graph");
    return NULL;
  }
  return ((object *)self)->handle;
}

/* ---- Sources ------------------------------------------------------------------------------- */

static PyObject *graph_input(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *names) {
  static const char *const keys[] = {"shape", "dtype", "name"};
  static const form f = {"input", keys, 3, 1, false};
  PyObject *v[3], *result = NULL;
  scratch s = {0};
  compute_graph *graph = graph_of(self);
  compute_dtype dtype = COMPUTE_F32;
  compute_shape shape = {0};
  const char *name = NULL;
  if (graph && !form_take(&f, args, count, names, v, NULL) && !to_shape(v[0], &shape) &&
      !(v[1] && to_dtype(v[1], &dtype)) && !(v[2] && to_text(v[2], &s, &name))) {
    compute_node node = compute_input(graph, dtype, shape);
    if (name && node.id) node = compute_name(graph, node, name);
    result = node_new(self, node);
  }
  scratch_end(&s);
  return result;
}

static PyObject *graph_parameter(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                 PyObject *names) {
  static const char *const keys[] = {"array", "name"};
  static const form f = {"parameter", keys, 2, 1, false};
  PyObject *v[2], *result = NULL;
  scratch s = {0};
  compute_graph *graph = graph_of(self);
  compute_tensor *tensor = NULL;
  const char *name = NULL;
  if (graph && !form_take(&f, args, count, names, v, NULL) &&
      !to_object(v[0], KIND_TENSOR, &s, (void **)&tensor) && !(v[1] && to_text(v[1], &s, &name))) {
    compute_node node = compute_parameter(graph, tensor);
    if (name && node.id) node = compute_name(graph, node, name);
    result = node_new(self, node);
  }
  scratch_end(&s);
  return result;
}

/* The values of any dense buffer whose dtype has been found by the package. */
static PyObject *graph_constant(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                PyObject *names) {
  static const char *const keys[] = {"values", "dtype", "shape"};
  static const form f = {"_constant", keys, 3, 3, false};
  PyObject *v[3];
  compute_graph *graph = graph_of(self);
  compute_dtype dtype = COMPUTE_F32;
  compute_shape shape = {0};
  int64_t elements = 0;
  Py_buffer view;
  if (!graph || form_take(&f, args, count, names, v, NULL) || to_dtype(v[1], &dtype) ||
      to_shape(v[2], &shape))
    return NULL;
  const compute_status status = compute_shape_count(shape, &elements);
  if (status) return fail(status);
  if (PyObject_GetBuffer(v[0], &view, PyBUF_C_CONTIGUOUS)) return NULL;
  PyObject *result = NULL;
  if ((size_t)view.len != (size_t)elements * compute_dtype_size(dtype))
    PyErr_SetString(PyExc_ValueError, "the values have another number of bytes");
  else
    result = node_new(self, compute_constant(graph, dtype, shape, view.buf));
  PyBuffer_Release(&view);
  return result;
}

static PyObject *graph_full(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names) {
  static const char *const keys[] = {"shape", "value", "dtype"};
  static const form f = {"full", keys, 3, 2, false};
  PyObject *v[3];
  compute_graph *graph = graph_of(self);
  compute_dtype dtype = COMPUTE_F32;
  compute_shape shape = {0};
  double number = 0;
  int64_t whole = 0;
  if (!graph || form_take(&f, args, count, names, v, NULL) || to_shape(v[0], &shape) ||
      (v[2] && to_dtype(v[2], &dtype)))
    return NULL;
  if (PyLong_Check(v[1]) && dtype > COMPUTE_BF16) {
    if (to_i64(v[1], "value", &whole)) return NULL;
    return node_new(self, compute_full_i64(graph, dtype, shape, whole));
  }
  if (to_f64(v[1], "value", &number)) return NULL;
  return node_new(self, compute_full(graph, dtype, shape, number));
}

static PyObject *graph_index(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *names) {
  static const char *const keys[] = {"shape", "axis", "dtype"};
  static const form f = {"index", keys, 3, 2, false};
  PyObject *v[3];
  compute_graph *graph = graph_of(self);
  compute_dtype dtype = COMPUTE_I64;
  compute_shape shape = {0};
  int32_t axis = 0;
  if (!graph || form_take(&f, args, count, names, v, NULL) || to_shape(v[0], &shape) ||
      to_i32(v[1], "axis", &axis) || (v[2] && to_dtype(v[2], &dtype)))
    return NULL;
  return node_new(self, compute_index(graph, dtype, shape, axis));
}

static PyObject *graph_parameters(PyObject *self, PyObject *none) {
  (void)none;
  compute_graph *graph = graph_of(self);
  PyObject *list = graph ? PyList_New(0) : NULL;
  compute_node node;
  for (size_t i = 0; list && (node = compute_parameter_at(graph, i)).id != 0; i++) {
    PyObject *one = node_new(self, node);
    if (!one || PyList_Append(list, one)) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}

/* The array of a parameter, also of an optimizer's state. */
static PyObject *graph_array(PyObject *self, PyObject *parameter) {
  compute_graph *graph = graph_of(self);
  compute_node node = {0};
  if (!graph || to_node(parameter, self, &node)) return NULL;
  compute_tensor *tensor = compute_parameter_tensor(graph, node);
  if (!tensor) return PyErr_Format(PyExc_ValueError, "the node is not a parameter");
  scratch s = {.context = context_of(self)};
  return object_new(KIND_TENSOR, tensor, false, &s);
}

/* ---- Gradients ----------------------------------------------------------------------------- */

/* The nodes of a sequence in memory of the call. */
static compute_node *nodes_of(PyObject *values, PyObject *graph, scratch *s, size_t *count) {
  PyObject *list = PySequence_Tuple(values);
  if (!list) return NULL;
  *count = (size_t)PyTuple_Size(list);
  compute_node *nodes = scratch_memory(s, (*count + 1) * sizeof *nodes);
  for (size_t i = 0; nodes && i < *count; i++) {
    if (to_node(PyTuple_GetItem(list, (Py_ssize_t)i), graph, &nodes[i])) nodes = NULL;
  }
  Py_DECREF(list);
  return nodes;
}

static PyObject *node_list(PyObject *graph, const compute_node *nodes, size_t count) {
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list && i < count; i++) {
    PyObject *one = node_new(graph, nodes[i]);
    if (!one || PyList_SetItem(list, (Py_ssize_t)i, one)) Py_CLEAR(list);
  }
  return list;
}

static PyObject *raise_graph(compute_graph *graph, compute_status status) {
  fail(status);
  compute_graph_clear_error(graph);
  return NULL;
}

static PyObject *graph_gradients(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                 PyObject *names) {
  static const char *const keys[] = {"loss", "of"};
  static const form f = {"gradients", keys, 2, 2, false};
  PyObject *v[2], *result = NULL;
  scratch s = {0};
  compute_graph *graph = graph_of(self);
  compute_node loss = {0}, *of = NULL, *gradients = NULL;
  size_t number = 0;
  if (graph && !form_take(&f, args, count, names, v, NULL) && !to_node(v[0], self, &loss) &&
      (of = nodes_of(v[1], self, &s, &number)) != NULL &&
      (gradients = scratch_memory(&s, (number + 1) * sizeof *gradients)) != NULL) {
    const compute_status status = compute_gradients(graph, loss, of, number, gradients);
    result = status ? raise_graph(graph, status) : node_list(self, gradients, number);
  }
  scratch_end(&s);
  return result;
}

/* ---- Derivatives --------------------------------------------------------------------------- */

typedef compute_status products(compute_graph *graph, compute_node *const *nodes,
                                const size_t *counts, compute_node *made);

static compute_status record_vjp(compute_graph *graph, compute_node *const *nodes,
                                 const size_t *counts, compute_node *made) {
  return compute_vjp(graph, nodes[0], nodes[1], counts[0], nodes[2], counts[2], made);
}

static compute_status record_jvp(compute_graph *graph, compute_node *const *nodes,
                                 const size_t *counts, compute_node *made) {
  return compute_jvp(graph, nodes[0], counts[0], nodes[1], nodes[2], counts[1], made);
}

static compute_status record_hvp(compute_graph *graph, compute_node *const *nodes,
                                 const size_t *counts, compute_node *made) {
  return compute_hvp(graph, *nodes[0], nodes[1], nodes[2], counts[1], made);
}

static compute_status record_jacobian(compute_graph *graph, compute_node *const *nodes,
                                      const size_t *counts, compute_node *made) {
  return compute_jacobian(graph, *nodes[0], nodes[1], counts[1], made);
}

/* A method whose arguments are nodes or lists of nodes. Lists number `first` and `second` have one
 * length. The results are as many as the nodes in list `like`. */
typedef struct derivative {
  form form;
  products *record;
  bool single; /* the first argument is one node */
  int first, second, like;
} derivative;

static PyObject *derive(const derivative *d, PyObject *self, PyObject *const *args,
                        Py_ssize_t count, PyObject *names) {
  PyObject *v[3], *result = NULL;
  scratch s = {0};
  compute_graph *graph = graph_of(self);
  compute_node one = {0}, *nodes[3] = {&one}, *made = NULL;
  size_t counts[3] = {1};
  if (!graph || form_take(&d->form, args, count, names, v, NULL) ||
      (d->single && to_node(v[0], self, &one)))
    goto end;
  for (int i = d->single; i < d->form.count; i++)
    if ((nodes[i] = nodes_of(v[i], self, &s, &counts[i])) == NULL) goto end;
  if (counts[d->first] != counts[d->second]) {
    PyErr_Format(PyExc_ValueError, "%s and %s differ in length", d->form.keys[d->first],
                 d->form.keys[d->second]);
    goto end;
  }
  made = scratch_memory(&s, (counts[d->like] + 1) * sizeof *made);
  if (!made) goto end;
  const compute_status status = d->record(graph, nodes, counts, made);
  result = status ? raise_graph(graph, status) : node_list(self, made, counts[d->like]);
end:
  scratch_end(&s);
  return result;
}

#define DERIVATIVE(name, count, single, first, second, like, ...)                                  \
  static PyObject *graph_##name(PyObject *self, PyObject *const *args, Py_ssize_t given,           \
                                PyObject *names) {                                                 \
    static const char *const keys[] = {__VA_ARGS__};                                               \
    static const derivative d = {                                                                  \
        {#name, keys, count, count, false}, record_##name, single, first, second, like};           \
    return derive(&d, self, args, given, names);                                                   \
  }

DERIVATIVE(vjp, 3, false, 0, 1, 2, "outputs", "weights", "of")
DERIVATIVE(jvp, 3, false, 1, 2, 0, "outputs", "of", "directions")
DERIVATIVE(hvp, 3, true, 1, 2, 1, "loss", "of", "directions")
DERIVATIVE(jacobian, 2, true, 1, 1, 1, "output", "of")

static PyObject *graph_hessian(PyObject *self, PyObject *const *args, Py_ssize_t count,
                               PyObject *names) {
  static const char *const keys[] = {"loss", "of"};
  static const form f = {"hessian", keys, 2, 2, false};
  PyObject *v[2];
  compute_graph *graph = graph_of(self);
  compute_node loss = {0}, of = {0}, made = {0};
  if (!graph || form_take(&f, args, count, names, v, NULL) || to_node(v[0], self, &loss) ||
      to_node(v[1], self, &of))
    return NULL;
  const compute_status status = compute_hessian(graph, loss, of, &made);
  return status ? raise_graph(graph, status) : node_new(self, made);
}

static PyObject *graph_checkpoint(PyObject *self, PyObject *x) {
  compute_graph *graph = graph_of(self);
  compute_node node = {0};
  if (!graph || to_node(x, self, &node)) return NULL;
  compute_checkpoint(graph, node);
  const compute_status status = compute_graph_status(graph);
  return status ? raise_graph(graph, status) : Py_NewRef(x);
}

static PyObject *graph_clip(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names) {
  static const char *const keys[] = {"gradients", "limit"};
  static const form f = {"clip_gradients", keys, 2, 2, false};
  PyObject *v[2], *result = NULL;
  scratch s = {0};
  compute_graph *graph = graph_of(self);
  compute_node *gradients = NULL, norm = {0};
  size_t number = 0;
  double limit = 0;
  if (graph && !form_take(&f, args, count, names, v, NULL) && !to_f64(v[1], "limit", &limit) &&
      (gradients = nodes_of(v[0], self, &s, &number)) != NULL) {
    compute_clip_gradients(graph, gradients, number, limit, &norm);
    const compute_status status = compute_graph_status(graph);
    PyObject *list = status ? raise_graph(graph, status) : node_list(self, gradients, number);
    PyObject *last = list ? node_new(self, norm) : NULL;
    result = last ? Py_BuildValue("(OO)", list, last) : NULL;
    Py_XDECREF(list);
    Py_XDECREF(last);
  }
  scratch_end(&s);
  return result;
}

/* ---- Plans --------------------------------------------------------------------------------- */

/* Runs of more work than this watch for signals; it takes some milliseconds. */
enum { LENGTHY_OPERATIONS = 20000000 };

static PyObject *plan_new(PyObject *graph, compute_plan *plan, PyObject *outputs, bool single,
                          scratch *s) {
  PyObject *made = object_new(KIND_PLAN, plan, true, s);
  if (!made) return NULL;
  object *o = (object *)made;
  o->extra = PySequence_Tuple(outputs);
  if (!o->extra) {
    Py_DECREF(made);
    return NULL;
  }
  o->single = single;
  compute_plan_info info = {0};
  if (!compute_plan_describe(plan, &info))
    o->lengthy = info.flops + info.bytes_read + info.bytes_written > LENGTHY_OPERATIONS;
  for (Py_ssize_t i = 0; i < PyTuple_Size(o->extra); i++) {
    const node_object *node = (node_object *)PyTuple_GetItem(o->extra, i);
    if (compute_node_dtype(((object *)graph)->handle, node->node) == COMPUTE_DTYPE_NONE)
      o->exclusive = true; /* it assigns to parameters */
  }
  return made;
}

static PyObject *graph_compile(PyObject *self, PyObject *const *args, Py_ssize_t count,
                               PyObject *names) {
  static const char *const keys[] = {"outputs"};
  static const form f = {"compile", keys, 1, 1, true};
  PyObject *v[1], *given = NULL, *list = NULL, *result = NULL;
  scratch s = {0};
  compute_graph *graph = NULL;
  compute_plan *plan = NULL;
  compute_plan_options options = {0};
  compute_node *outputs = NULL;
  size_t number = 0;
  if (form_take(&f, args, count, names, v, &given)) goto end;
  const bool single = is_kind(v[0], KIND_NODE);
  list = single ? PyTuple_Pack(1, v[0]) : PySequence_Tuple(v[0]);
  if (!list || to_object(self, KIND_GRAPH, &s, (void **)&graph) ||
      (outputs = nodes_of(list, self, &s, &number)) == NULL ||
      fill(&compute_plan_options_form, given, &options, &s))
    goto end;
  compute_status status;
  PyThreadState *const unlocked = PyEval_SaveThread();
  status = compute_compile(graph, outputs, number, &options, &plan);
  PyEval_RestoreThread(unlocked);
  if (status)
    fail(status);
  else
    result = plan_new(self, plan, list, single, &s);
end:
  Py_XDECREF(list);
  Py_XDECREF(given);
  scratch_end(&s);
  return result;
}

/* ---- Files --------------------------------------------------------------------------------- */

/* {name: node}, or NULL with 0 of them. */
static compute_model_value *values_of(PyObject *values, PyObject *graph, scratch *s,
                                      size_t *count) {
  *count = values ? (size_t)PyDict_Size(values) : 0;
  compute_model_value *made = scratch_memory(s, (*count + 1) * sizeof *made);
  PyObject *key, *value;
  Py_ssize_t at = 0;
  for (size_t i = 0; made && values && PyDict_Next(values, &at, &key, &value); i++) {
    if (to_text(key, s, &made[i].name) || to_node(value, graph, &made[i].node)) return NULL;
  }
  return made;
}

static PyObject *graph_save_onnx(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                 PyObject *names) {
  static const char *const keys[] = {"path", "outputs", "inputs"};
  static const form f = {"save_onnx", keys, 3, 2, true};
  PyObject *v[3], *given = NULL, *result = NULL;
  scratch s = {0};
  compute_graph *graph = NULL;
  const char *path = NULL;
  compute_model_export_options options = {0};
  compute_model_value *outputs = NULL, *inputs = NULL;
  size_t output_count = 0, input_count = 0;
  if (form_take(&f, args, count, names, v, &given)) goto end;
  if (!PyDict_Check(v[1]) || (v[2] && !PyDict_Check(v[2]))) {
    PyErr_SetString(PyExc_TypeError, "outputs and inputs are dictionaries of nodes by name");
    goto end;
  }
  if (to_object(self, KIND_GRAPH, &s, (void **)&graph) || to_path(v[0], &s, &path) ||
      fill(&compute_model_export_options_form, given, &options, &s) ||
      (outputs = values_of(v[1], self, &s, &output_count)) == NULL ||
      (inputs = values_of(v[2], self, &s, &input_count)) == NULL)
    goto end;
  compute_status status;
  PyThreadState *const unlocked = PyEval_SaveThread();
  status =
      compute_graph_save_onnx(graph, inputs, input_count, outputs, output_count, path, &options);
  PyEval_RestoreThread(unlocked);
  result = status ? fail(status) : Py_NewRef(Py_None);
end:
  Py_XDECREF(given);
  scratch_end(&s);
  return result;
}

#define METHOD(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS

PyMethodDef graph_methods[] = {
    {"input", METHOD(graph_input),
     "input($self, shape, dtype=float32, name=None)\n--\n\nA tensor given at every run."},
    {"_parameter", METHOD(graph_parameter), NULL},
    {"_constant", METHOD(graph_constant), NULL},
    {"full", METHOD(graph_full),
     "full($self, shape, value, dtype=float32)\n--\n\nEvery element is `value`; it takes no "
     "memory."},
    {"index", METHOD(graph_index),
     "index($self, shape, axis, dtype=int64)\n--\n\nEach element is its position along `axis`."},
    {"parameters", graph_parameters, METH_NOARGS,
     "parameters($self)\n--\n\nThe parameter nodes in order of creation."},
    {"array", graph_array, METH_O, "array($self, parameter)\n--\n\nThe array of a parameter node."},
    {"gradients", METHOD(graph_gradients),
     "gradients($self, loss, of)\n--\n\nNodes for d(loss)/d(of[i]), with of[i]'s shape and dtype."},
    {"vjp", METHOD(graph_vjp),
     "vjp($self, outputs, weights, of)\n--\n\nVector-Jacobian products: for each of[i] the sum of "
     "weights[k] times d(outputs[k])/d(of[i])."},
    {"jvp", METHOD(graph_jvp),
     "jvp($self, outputs, of, directions)\n--\n\nJacobian-vector products: the rate of each output "
     "as `of` moves along the directions."},
    {"hvp", METHOD(graph_hvp),
     "hvp($self, loss, of, directions)\n--\n\nThe Hessian of the loss times the directions, for "
     "each of[i]."},
    {"jacobian", METHOD(graph_jacobian),
     "jacobian($self, output, of)\n--\n\nd(output)/d(of[i]), with output's axes followed by "
     "of[i]'s."},
    {"hessian", METHOD(graph_hessian),
     "hessian($self, loss, of)\n--\n\nThe second derivatives of the loss, with the axes of `of` "
     "twice."},
    {"checkpoint", graph_checkpoint, METH_O,
     "checkpoint($self, x, /)\n--\n\nKeeps x for gradients; what x is computed from is computed "
     "again. Returns x."},
    {"clip_gradients", METHOD(graph_clip),
     "clip_gradients($self, gradients, limit)\n--\n\nGradients scaled by min(1, limit / norm), and "
     "the norm of all of them."},
    {"compile", METHOD(graph_compile),
     "compile($self, outputs, **options)\n--\n\nA plan for the nodes `outputs`, or for one node. "
     "Options: device, fallback, flags, name."},
    {"save_onnx", METHOD(graph_save_onnx),
     "save_onnx($self, path, outputs, inputs=None, **options)\n--\n\nWrites what computes "
     "`outputs`, {name: node}, as an ONNX file. Options: graph_name, description."},
    {NULL, NULL, 0, NULL}};
