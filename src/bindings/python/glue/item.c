/* SPDX-License-Identifier: MIT */
/* Values of a model's ports that need not be one array. In the extension module they are tuples:
 * ("texts", shape, list), ("sequence", list) and ("optional", value or None); the package has other
 * forms for its users. */
#include <string.h>

#include "glue.h"

static int wrong(const char *expected) {
  PyErr_Format(PyExc_TypeError, "expected %s", expected);
  return -1;
}

static int texts_of(PyObject *shape, PyObject *list, scratch *s, compute_model_item **item) {
  compute_shape sizes;
  int64_t elements;
  if (!PyList_Check(list)) return wrong("a list of texts");
  if (to_shape(shape, &sizes)) return -1;
  const Py_ssize_t count = PyList_Size(list);
  const char **texts = scratch_memory(s, ((size_t)count + 1) * sizeof *texts);
  if (!texts) return -1;
  if (compute_shape_count(sizes, &elements) || elements != count)
    return wrong("as many texts as the shape has elements");
  for (Py_ssize_t i = 0; i < count; i++)
    if (to_text(PyList_GetItem(list, i), s, &texts[i])) return -1;
  return compute_model_item_from_texts(sizes, texts, item) ? (fail_last(), -1) : 0;
}

static int plain_of(PyObject *value, scratch *s, compute_model_item **item) {
  if (PyTuple_Check(value) && PyTuple_Size(value) == 3)
    return texts_of(PyTuple_GetItem(value, 1), PyTuple_GetItem(value, 2), s, item);
  compute_tensor *tensor;
  if (to_object(value, KIND_TENSOR, s, (void **)&tensor) || scratch_keep(s, value)) return -1;
  return compute_model_item_from_tensor(tensor, item) ? (fail_last(), -1) : 0;
}

static bool is_tuple(PyObject *value, const char *name) {
  return PyTuple_Check(value) && PyTuple_Size(value) == 2 &&
         PyUnicode_Check(PyTuple_GetItem(value, 0)) &&
         PyUnicode_CompareWithASCIIString(PyTuple_GetItem(value, 0), name) == 0;
}

static int sequence_of(PyObject *value, scratch *s, compute_model_item **item) {
  if (!is_tuple(value, "sequence")) return plain_of(value, s, item);
  PyObject *list = PyTuple_GetItem(value, 1);
  if (!PyList_Check(list)) return wrong("a list of arrays or texts");
  if (compute_model_item_sequence(item)) return fail_last(), -1;
  for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
    compute_model_item *one = NULL;
    const int failed = plain_of(PyList_GetItem(list, i), s, &one);
    const compute_status status = failed ? COMPUTE_OK : compute_model_item_append(*item, one);
    compute_model_item_release(one);
    if (status) fail(status);
    if (failed || status) return -1;
  }
  return 0;
}

int to_item(PyObject *value, scratch *s, compute_model_item **item) {
  if (!is_tuple(value, "optional")) return sequence_of(value, s, item);
  compute_model_item *held = NULL;
  PyObject *inner = PyTuple_GetItem(value, 1);
  int failed = inner == Py_None ? 0 : sequence_of(inner, s, &held);
  if (!failed && compute_model_item_optional(held, item)) fail_last(), failed = -1;
  compute_model_item_release(held);
  return failed;
}

static PyObject *texts_object(const compute_model_item *item) {
  const size_t count = compute_model_item_count(item);
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < count; i++) {
    PyObject *text = PyUnicode_FromString(compute_model_item_text(item, i));
    if (!text || PyList_Append(list, text)) Py_CLEAR(list);
    Py_XDECREF(text);
  }
  PyObject *shape = list ? shape_tuple(compute_model_item_shape(item)) : NULL;
  PyObject *result = shape ? Py_BuildValue("(sOO)", "texts", shape, list) : NULL;
  Py_XDECREF(shape);
  Py_XDECREF(list);
  return result;
}

static PyObject *plain_object(const compute_model_item *item, PyObject *context) {
  compute_tensor *tensor = compute_model_item_tensor(item);
  return tensor ? array_object(compute_tensor_retain(tensor), context) : texts_object(item);
}

static PyObject *sequence_object(const compute_model_item *item, PyObject *context) {
  if (!(compute_model_item_kind(item) & COMPUTE_MODEL_SEQUENCE)) return plain_object(item, context);
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < compute_model_item_count(item); i++) {
    PyObject *one = plain_object(compute_model_item_at(item, i), context);
    if (!one || PyList_Append(list, one)) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list ? Py_BuildValue("(sN)", "sequence", list) : NULL;
}

PyObject *item_object(const compute_model_item *item, PyObject *context) {
  if (!(compute_model_item_kind(item) & COMPUTE_MODEL_OPTIONAL))
    return sequence_object(item, context);
  const compute_model_item *held = compute_model_item_at(item, 0);
  PyObject *value = held ? sequence_object(held, context) : Py_NewRef(Py_None);
  return value ? Py_BuildValue("(sN)", "optional", value) : NULL;
}
