/* SPDX-License-Identifier: MIT */
/* Structs: options from dictionaries, results as named tuples. */
#include "glue.h"

#include <string.h>

/* ---- Buffers of the caller ----------------------------------------------------------------- */

typedef struct held_buffer {
  Py_buffer view;
} held_buffer;

static void buffer_release(PyObject *capsule) {
  held_buffer *held = PyCapsule_GetPointer(capsule, NULL);
  PyBuffer_Release(&held->view);
  PyMem_Free(held);
}

/* The memory of a buffer until the call returns. `formats` are the allowed types; NULL: any. */
static Py_buffer *buffer_hold(PyObject *value, const char *name, const char *formats, int flags,
                              scratch *s) {
  held_buffer *held = PyMem_Malloc(sizeof *held);
  if (!held) {
    PyErr_NoMemory();
    return NULL;
  }
  if (PyObject_GetBuffer(value, &held->view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags)) {
    PyMem_Free(held);
    return NULL;
  }
  PyObject *capsule = PyCapsule_New(held, NULL, buffer_release);
  if (!capsule) {
    PyBuffer_Release(&held->view);
    PyMem_Free(held);
    return NULL;
  }
  const int kept = scratch_keep(s, capsule);
  Py_DECREF(capsule);
  if (kept) return NULL;
  const char *format = held->view.format ? held->view.format : "B";
  if (formats && (format[0] == '\0' || format[1] != '\0' || !strchr(formats, format[0]))) {
    PyErr_Format(PyExc_TypeError, "%s has elements of type '%s'; '%s' is needed", name, format,
                 formats);
    return NULL;
  }
  return &held->view;
}

int to_memory(PyObject *value, bool writable, scratch *s, void **result) {
  const Py_buffer *view = buffer_hold(value, "", NULL, writable ? PyBUF_WRITABLE : 0, s);
  if (view) *result = view->buf;
  return view ? 0 : -1;
}

static int fill_map(PyObject *value, const char *name, compute_fit_map *map, scratch *s) {
  const Py_buffer *view = buffer_hold(value, name, "f", 0, s);
  if (!view) return -1;
  if (view->ndim != 2) {
    PyErr_Format(PyExc_ValueError, "%s has %d axes; rows and columns are needed", name, view->ndim);
    return -1;
  }
  *map = (compute_fit_map){view->buf, view->shape[0], view->shape[1]};
  return 0;
}

static int fill_mask(PyObject *value, const field *f, char *at, char *base, scratch *s) {
  const Py_buffer *view = buffer_hold(value, f->name, "B?", 0, s);
  if (!view) return -1;
  if (view->ndim != 2) {
    PyErr_Format(PyExc_ValueError, "%s has %d axes; rows and columns are needed", f->name,
                 view->ndim);
    return -1;
  }
  const int64_t sizes[2] = {view->shape[0], view->shape[1]};
  memcpy(at, &view->buf, sizeof view->buf);
  memcpy(base + f->count, sizes, sizeof sizes);
  return 0;
}

/* ---- One value ----------------------------------------------------------------------------- */

static int fill_object(PyObject *value, const field *f, scratch *s, void **result) {
  const enum kind kind = (enum kind)((PyTypeObject *const *)f->extra - types);
  if (kind == KIND_DEVICE) return to_device(value, s, (compute_device **)result);
  if (to_object(value, kind, s, result)) return -1;
  return scratch_keep(s, value);
}

static int fill_objects(PyObject *value, const field *f, char *at, char *base, scratch *s) {
  PyObject *list = PySequence_Tuple(value);
  if (!list) return -1;
  const Py_ssize_t count = PyTuple_Size(list);
  void **array = scratch_memory(s, (size_t)count * sizeof *array);
  int result = array ? scratch_keep(s, list) : -1;
  for (Py_ssize_t i = 0; !result && i < count; i++)
    result = fill_object(PyTuple_GetItem(list, i), f, s, &array[i]);
  Py_DECREF(list);
  memcpy(at, &array, sizeof array);
  memcpy(base + f->count, &(size_t){(size_t)count}, sizeof(size_t));
  return result;
}

static int fill_character(PyObject *value, const char *name, char *result) {
  Py_ssize_t bytes = 0;
  const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, &bytes) : NULL;
  if (!text || bytes != 1) {
    PyErr_Format(PyExc_ValueError, "%s must be one character of ASCII", name);
    return -1;
  }
  *result = *text;
  return 0;
}

static int fill_one(PyObject *value, const field *f, void *at, scratch *s) {
  int number = 0;
  Py_buffer *view;
  switch (f->kind) {
  case FIELD_I32: return to_i32(value, f->name, at);
  case FIELD_U32: return to_u32(value, f->name, at);
  case FIELD_I64: return to_i64(value, f->name, at);
  case FIELD_U64: return to_u64(value, f->name, at);
  case FIELD_SIZE: return to_size(value, f->name, at);
  case FIELD_F64: return to_f64(value, f->name, at);
  case FIELD_BOOL: return to_bool(value, f->name, at);
  case FIELD_TEXT: return PyUnicode_Check(value) ? to_text(value, s, at) : to_path(value, s, at);
  case FIELD_DTYPE: return to_dtype(value, at);
  case FIELD_SHAPE: return to_shape(value, at);
  case FIELD_NODE: return to_node(value, NULL, at);
  case FIELD_STRUCT: return fill(f->extra, value, at, s);
  case FIELD_OBJECT: return fill_object(value, f, s, at);
  case FIELD_MAP: return fill_map(value, f->name, at, s);
  case FIELD_ENUM:
    if (to_enum(value, f->extra, &number)) return -1;
    memcpy(at, &number, sizeof number);
    return 0;
  case FIELD_FLOATS:
  case FIELD_INTS:
  case FIELD_BYTES:
  case FIELD_BUFFER:
    view = buffer_hold(value, f->name,
                       f->kind == FIELD_FLOATS  ? "f"
                       : f->kind == FIELD_INTS  ? "i"
                       : f->kind == FIELD_BYTES ? "B?"
                                                : NULL,
                       0, s);
    if (!view) return -1;
    memcpy(at, &view->buf, sizeof view->buf);
    return 0;
  case FIELD_CHAR: return fill_character(value, f->name, at);
  case FIELD_CHARS:
  case FIELD_MASK:
  case FIELD_OBJECTS: break;
  }
  PyErr_Format(PyExc_TypeError, "%s cannot be given", f->name);
  return -1;
}

static size_t size_of(const field *f) {
  switch (f->kind) {
  case FIELD_I32:
  case FIELD_U32:
  case FIELD_ENUM:
  case FIELD_DTYPE: return 4;
  case FIELD_BOOL:
  case FIELD_CHAR:
  case FIELD_CHARS: return 1;
  case FIELD_SHAPE: return sizeof(compute_shape);
  case FIELD_STRUCT: return ((const struct_form *)f->extra)->size;
  default: return 8;
  }
}

/* A number for all elements of an array, or a sequence of them. */
static int fill_array(PyObject *value, const field *f, char *at, scratch *s) {
  if (PyNumber_Check(value) && !PySequence_Check(value)) {
    for (size_t i = 0; i < f->count; i++) {
      if (fill_one(value, f, at + i * size_of(f), s)) return -1;
    }
    return 0;
  }
  PyObject *list = PySequence_Tuple(value);
  if (!list) return -1;
  const Py_ssize_t count = PyTuple_Size(list);
  int result = scratch_keep(s, list);
  if (!result && (size_t)count > f->count) {
    PyErr_Format(PyExc_ValueError, "%s has %zu values, not %zd", f->name, f->count, count);
    result = -1;
  }
  for (Py_ssize_t i = 0; !result && i < count; i++)
    result = fill_one(PyTuple_GetItem(list, i), f, at + (size_t)i * size_of(f), s);
  Py_DECREF(list);
  return result;
}

static int fill_field(const field *f, PyObject *value, char *base, scratch *s) {
  if (value == Py_None) return 0;
  if (f->kind == FIELD_OBJECTS) return fill_objects(value, f, base + f->offset, base, s);
  if (f->kind == FIELD_MASK) return fill_mask(value, f, base + f->offset, base, s);
  if (f->count > 1) return fill_array(value, f, base + f->offset, s);
  return fill_one(value, f, base + f->offset, s);
}

static int fill_named(const struct_form *f, PyObject *values, char *base, scratch *s) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(values, &at, &key, &value)) {
    const field *found = NULL;
    for (size_t i = 0; i < f->count && !found; i++) {
      if (PyUnicode_Check(key) && PyUnicode_CompareWithASCIIString(key, f->fields[i].name) == 0)
        found = &f->fields[i];
    }
    if (!found) {
      PyErr_Format(PyExc_TypeError, "%s has no option %R", f->name, key);
      return -1;
    }
    if (fill_field(found, value, base, s)) return -1;
  }
  return 0;
}

int fill(const struct_form *f, PyObject *values, void *result, scratch *s) {
  if (!values) return 0;
  if (PyDict_Check(values)) return fill_named(f, values, result, s);
  PyObject *list = PySequence_Tuple(values);
  if (!list) return -1;
  const Py_ssize_t count = PyTuple_Size(list);
  int status = scratch_keep(s, list);
  if (!status && (size_t)count > f->count) {
    PyErr_Format(PyExc_ValueError, "%s has %zu values, not %zd", f->name, f->count, count);
    status = -1;
  }
  for (Py_ssize_t i = 0; !status && i < count; i++)
    status = fill_field(&f->fields[i], PyTuple_GetItem(list, i), result, s);
  Py_DECREF(list);
  return status;
}

/* ---- Results ------------------------------------------------------------------------------- */

static PyObject *text_or_none(const char *text) {
  if (!text) Py_RETURN_NONE;
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *taken_object(const field *f, const void *at, PyObject *owner) {
  void *handle;
  memcpy(&handle, at, sizeof handle);
  if (!handle) Py_RETURN_NONE;
  scratch s = {.context = owner ? context_of(owner) : NULL};
  return object_new((enum kind)((PyTypeObject *const *)f->extra - types), handle, false, &s);
}

static PyObject *taken_enum(const field *f, int number) {
  const enum_form *e = f->extra;
  PyObject *classes = registered("ENUMS");
  PyObject *class = classes ? PyTuple_GetItem(classes, e->index) : NULL;
  PyObject *value = class ? PyLong_FromLong(number) : NULL;
  PyObject *result = value ? PyObject_CallFunctionObjArgs(class, value, NULL) : NULL;
  if (!result && value && PyErr_ExceptionMatches(PyExc_ValueError)) {
    PyErr_Clear();
    return value; /* a value without a name */
  }
  Py_XDECREF(value);
  return result;
}

#define READ(type) (*(const type *)at)

static PyObject *taken_one(const field *f, const void *at, PyObject *owner) {
  switch (f->kind) {
  case FIELD_I32: return PyLong_FromLong(READ(int32_t));
  case FIELD_U32: return PyLong_FromUnsignedLong(READ(uint32_t));
  case FIELD_I64: return PyLong_FromLongLong(READ(int64_t));
  case FIELD_U64: return PyLong_FromUnsignedLongLong(READ(uint64_t));
  case FIELD_SIZE: return PyLong_FromSize_t(READ(size_t));
  case FIELD_F64: return PyFloat_FromDouble(READ(double));
  case FIELD_BOOL: return PyBool_FromLong(READ(bool));
  case FIELD_TEXT: return text_or_none(READ(char *));
  case FIELD_CHARS: return text_or_none(at);
  case FIELD_DTYPE: return dtype_object(READ(compute_dtype));
  case FIELD_SHAPE: return shape_tuple(READ(compute_shape));
  case FIELD_ENUM: return taken_enum(f, READ(int));
  case FIELD_STRUCT: return taken(f->extra, at, owner);
  case FIELD_OBJECT: return taken_object(f, at, owner);
  case FIELD_NODE:
    if (!READ(compute_node).id) Py_RETURN_NONE;
    return node_new(owner, READ(compute_node));
  default: Py_RETURN_NONE; /* pointers of the caller */
  }
}

static PyObject *taken_field(const field *f, const char *at, PyObject *owner) {
  if (f->count <= 1 || f->kind == FIELD_CHARS || f->kind == FIELD_OBJECTS || f->kind == FIELD_MASK)
    return taken_one(f, at, owner);
  PyObject *tuple = PyTuple_New((Py_ssize_t)f->count);
  for (size_t i = 0; tuple && i < f->count; i++) {
    PyObject *value = taken_one(f, at + i * size_of(f), owner);
    if (!value || PyTuple_SetItem(tuple, (Py_ssize_t)i, value)) Py_CLEAR(tuple);
  }
  return tuple;
}

PyObject *taken(const struct_form *f, const void *value, PyObject *owner) {
  PyObject *classes = registered("STRUCTS");
  PyObject *class = classes ? PyTuple_GetItem(classes, f->index) : NULL;
  PyObject *tuple = class ? PyTuple_New((Py_ssize_t)f->count) : NULL;
  for (size_t i = 0; tuple && i < f->count; i++) {
    PyObject *one = taken_field(&f->fields[i], (const char *)value + f->fields[i].offset, owner);
    if (!one || PyTuple_SetItem(tuple, (Py_ssize_t)i, one)) Py_CLEAR(tuple);
  }
  PyObject *result = tuple ? PyObject_CallObject(class, tuple) : NULL;
  Py_XDECREF(tuple);
  return result;
}
