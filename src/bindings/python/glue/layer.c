/* SPDX-License-Identifier: MIT */
/* Layers: compositions, which own their parts, and networks in graphs. */
#include "glue.h"

/* The layers among the arguments, each marked as in use, in memory of the call. */
static compute_layer **layers_of(PyObject *list, scratch *s) {
  const Py_ssize_t count = PyTuple_Size(list);
  compute_layer **layers = scratch_memory(s, ((size_t)count + 1) * sizeof *layers);
  for (Py_ssize_t i = 0; layers && i < count; i++) {
    PyObject *one = PyTuple_GetItem(list, i);
    const object *o = (object *)one;
    if (!is_kind(one, KIND_LAYER) || !o->handle || !o->owned || o->busy) {
      PyErr_SetString(!is_kind(one, KIND_LAYER) ? PyExc_TypeError : PyExc_ValueError,
                      !is_kind(one, KIND_LAYER) ? "a Layer is needed"
                      : !o->handle              ? "the layer was released by a failed call"
                      : !o->owned               ? "the layer already belongs to a composition"
                                                : "another call is using this layer");
      return NULL;
    }
    for (Py_ssize_t k = 0; k < i; k++) {
      if (PyTuple_GetItem(list, k) == one) {
        PyErr_SetString(PyExc_ValueError, "a layer is part of one composition, once");
        return NULL;
      }
    }
    layers[i] = o->handle;
    if (o->context) s->context = o->context;
  }
  return layers;
}

/* A composition owns its parts from now on; one that failed has released them. */
static PyObject *composed(compute_layer *made, PyObject *list, scratch *s) {
  PyObject *result = made ? object_new(KIND_LAYER, made, true, s) : fail_last();
  for (Py_ssize_t i = 0; i < PyTuple_Size(list); i++) {
    object *part = (object *)PyTuple_GetItem(list, i);
    part->owned = false;
    if (!result)
      part->handle = NULL;
    else
      part->keep = Py_NewRef(result);
  }
  return result;
}

static PyObject *sequential(PyObject *self, PyObject *layers) {
  (void)self;
  scratch s = {0};
  PyObject *list = PySequence_Tuple(layers), *result = NULL;
  compute_layer **parts = list ? layers_of(list, &s) : NULL;
  if (parts) result = composed(compute_sequential(parts, (size_t)PyTuple_Size(list)), list, &s);
  Py_XDECREF(list);
  scratch_end(&s);
  return result;
}

static PyObject *residual(PyObject *self, PyObject *const *args, Py_ssize_t count,
                          PyObject *names) {
  static const char *const keys[] = {"body", "shortcut"};
  static const form f = {"Residual", keys, 2, 2, false};
  PyObject *v[2], *result = NULL;
  (void)self;
  if (form_take(&f, args, count, names, v, NULL)) return NULL;
  scratch s = {0};
  PyObject *list = PyTuple_Pack(2, v[0], v[1]);
  compute_layer **parts = list ? layers_of(list, &s) : NULL;
  if (parts) result = composed(compute_residual(parts[0], parts[1]), list, &s);
  Py_XDECREF(list);
  scratch_end(&s);
  return result;
}

static PyObject *layer_named(PyObject *self, PyObject *name) {
  scratch s = {0};
  object *o = (object *)self;
  compute_layer *layer = NULL;
  const char *text = NULL;
  PyObject *result = NULL;
  if (!to_object(self, KIND_LAYER, &s, (void **)&layer) && !to_text(name, &s, &text)) {
    if (compute_layer_name(layer, text)) {
      result = Py_NewRef(self);
    } else {
      if (o->owned) o->handle = NULL; /* the call has released it */
      fail_last();
    }
  }
  scratch_end(&s);
  return result;
}

/* The network's result; with `training` also the node of its updates, or None. */
static PyObject *layer_apply(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *names) {
  static const char *const keys[] = {"x", "training", "seed", "precision"};
  static const form f = {"apply", keys, 4, 1, false};
  PyObject *v[4], *result = NULL;
  scratch s = {0};
  compute_layer *layer = NULL;
  compute_node x = {0};
  compute_forward forward = {0};
  if (form_take(&f, args, count, names, v, NULL) || to_node(v[0], NULL, &x) ||
      (v[1] && to_bool(v[1], "training", &forward.training)))
    return NULL;
  PyObject *graph = ((node_object *)v[0])->graph;
  if (to_object(self, KIND_LAYER, &s, (void **)&layer) ||
      (v[2] && to_node(v[2], graph, &forward.seed)) || (v[3] && to_dtype(v[3], &forward.precision)))
    goto end;
  const compute_node y = compute_layer_apply(layer, ((object *)graph)->handle, x, &forward);
  PyObject *made = node_new(graph, y);
  if (!made || !forward.training) {
    result = made;
    goto end;
  }
  PyObject *updates = forward.updates.id ? node_new(graph, forward.updates) : Py_NewRef(Py_None);
  if (updates) result = PyTuple_Pack(2, made, updates);
  Py_DECREF(made);
  Py_XDECREF(updates);
end:
  scratch_end(&s);
  return result;
}

/* The trainable parameters as nodes of a graph to which the layer was applied. */
static PyObject *layer_nodes(PyObject *self, PyObject *graph) {
  scratch s = {0};
  compute_layer *layer = NULL;
  compute_graph *handle = NULL;
  PyObject *list = NULL;
  if (!to_object(self, KIND_LAYER, &s, (void **)&layer) &&
      !to_object(graph, KIND_GRAPH, &s, (void **)&handle)) {
    const size_t number = compute_layer_nodes(layer, handle, NULL, 0);
    compute_node *nodes = scratch_memory(&s, (number + 1) * sizeof *nodes);
    list = nodes ? PyList_New(0) : NULL;
    if (list) compute_layer_nodes(layer, handle, nodes, number);
    for (size_t i = 0; list && i < number; i++) {
      PyObject *one = node_new(graph, nodes[i]);
      if (!one || PyList_Append(list, one)) Py_CLEAR(list);
      Py_XDECREF(one);
    }
  }
  scratch_end(&s);
  return list;
}

#define METHOD(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS

PyMethodDef layer_methods[] = {
    {"named", layer_named, METH_O,
     "named($self, name)\n--\n\nNames a part before it is added to a composition. Returns it."},
    {"apply", METHOD(layer_apply),
     "apply($self, x, training=False, seed=None, precision=None)\n--\n\nRecords the network on the "
     "node x. With `training`: a pair of the result and the node of its updates, or None."},
    {"nodes", layer_nodes, METH_O,
     "nodes($self, graph)\n--\n\nThe trainable parameters as nodes of the graph."},
    {NULL, NULL, 0, NULL}};

PyMethodDef layer_functions[] = {
    {"_sequential", sequential, METH_O, NULL},
    {"Residual", METHOD(residual),
     "Residual(body, shortcut)\n--\n\nbody(x) + shortcut(x), which must have the same shape."},
    {NULL, NULL, 0, NULL}};
