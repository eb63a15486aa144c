/* SPDX-License-Identifier: MIT */
/* Arguments: from Python's values to C's. */
#include "glue.h"

#include <string.h>

static int key_index(const form *f, PyObject *name) {
  for (int i = 0; i < f->count; i++) {
    if (PyUnicode_CompareWithASCIIString(name, f->keys[i]) == 0) return i;
  }
  return -1;
}

int form_take(const form *f, PyObject *const *args, Py_ssize_t count, PyObject *names,
              PyObject **values, PyObject **options) {
  for (int i = 0; i < f->count; i++) values[i] = NULL;
  if (count > f->count) {
    PyErr_Format(PyExc_TypeError, "%s takes at most %d positional arguments, not %zd", f->name,
                 f->count, count);
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; i++) values[i] = args[i];
  const Py_ssize_t named = names ? PyTuple_Size(names) : 0;
  for (Py_ssize_t i = 0; i < named; i++) {
    PyObject *name = PyTuple_GetItem(names, i);
    const int index = key_index(f, name);
    if (index >= 0 && !values[index]) {
      values[index] = args[count + i];
    } else if (index < 0 && f->options) {
      if (!*options && (*options = PyDict_New()) == NULL) return -1;
      if (PyDict_SetItem(*options, name, args[count + i])) return -1;
    } else {
      PyErr_Format(PyExc_TypeError, index < 0 ? "%s has no argument %R" : "%s: %R is given twice",
                   f->name, name);
      return -1;
    }
  }
  for (int i = 0; i < f->count; i++) {
    if (i < f->required && !values[i]) {
      PyErr_Format(PyExc_TypeError, "%s: the argument %s is missing", f->name, f->keys[i]);
      return -1;
    }
    if (i >= f->required && values[i] == Py_None) values[i] = NULL;
  }
  return 0;
}

/* ---- Numbers and texts --------------------------------------------------------------------- */

static int to_limited(PyObject *value, const char *name, long long least, long long most,
                      long long *result) {
  PyObject *number = PyNumber_Index(value);
  if (!number) {
    PyErr_Format(PyExc_TypeError, "%s must be an integer, not %R", name, Py_TYPE(value));
    return -1;
  }
  int overflow = 0;
  *result = PyLong_AsLongLongAndOverflow(number, &overflow);
  Py_DECREF(number);
  if (!overflow && *result >= least && *result <= most) return 0;
  if (!PyErr_Occurred()) PyErr_Format(PyExc_OverflowError, "%s is out of range: %R", name, value);
  return -1;
}

int to_i32(PyObject *value, const char *name, int32_t *result) {
  long long number = 0;
  if (to_limited(value, name, INT32_MIN, INT32_MAX, &number)) return -1;
  *result = (int32_t)number;
  return 0;
}

int to_u32(PyObject *value, const char *name, uint32_t *result) {
  long long number = 0;
  if (to_limited(value, name, 0, UINT32_MAX, &number)) return -1;
  *result = (uint32_t)number;
  return 0;
}

int to_i64(PyObject *value, const char *name, int64_t *result) {
  long long number = 0;
  if (to_limited(value, name, INT64_MIN, INT64_MAX, &number)) return -1;
  *result = number;
  return 0;
}

int to_u64(PyObject *value, const char *name, uint64_t *result) {
  PyObject *number = PyNumber_Index(value);
  if (!number) {
    PyErr_Format(PyExc_TypeError, "%s must be an integer, not %R", name, Py_TYPE(value));
    return -1;
  }
  *result = PyLong_AsUnsignedLongLong(number);
  Py_DECREF(number);
  return PyErr_Occurred() ? -1 : 0;
}

int to_size(PyObject *value, const char *name, size_t *result) {
  uint64_t number = 0;
  if (to_u64(value, name, &number)) return -1;
  *result = number;
  return 0;
}

int to_f64(PyObject *value, const char *name, double *result) {
  *result = PyFloat_AsDouble(value);
  if (*result != -1.0 || !PyErr_Occurred()) return 0;
  PyErr_Format(PyExc_TypeError, "%s must be a number, not %R", name, Py_TYPE(value));
  return -1;
}

int to_bool(PyObject *value, const char *name, bool *result) {
  (void)name;
  const int truth = PyObject_IsTrue(value);
  *result = truth > 0;
  return truth < 0 ? -1 : 0;
}

int to_text(PyObject *value, scratch *s, const char **result) {
  Py_ssize_t bytes = 0;
  const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, &bytes) : NULL;
  if (text && strlen(text) != (size_t)bytes) {
    PyErr_SetString(PyExc_ValueError, "a text with a zero in it");
    return -1;
  }
  if (!text) {
    if (!PyErr_Occurred())
      PyErr_Format(PyExc_TypeError, "a text is needed, not %R", Py_TYPE(value));
    return -1;
  }
  *result = text;
  return scratch_keep(s, value);
}

int to_path(PyObject *value, scratch *s, const char **result) {
  PyObject *bytes = NULL;
  if (!PyUnicode_FSConverter(value, &bytes)) return -1;
  *result = PyBytes_AsString(bytes);
  const int kept = scratch_keep(s, bytes);
  Py_DECREF(bytes);
  return kept;
}

/* ---- Types, shapes, axes ------------------------------------------------------------------- */

PyObject *dtype_object(compute_dtype dtype) {
  PyObject *list = registered("DTYPES");
  if (!list) return NULL;
  return Py_XNewRef(PyList_GetItem(list, (Py_ssize_t)dtype));
}

int to_dtype(PyObject *value, compute_dtype *result) {
  PyObject *list = registered("DTYPES");
  if (!list) return -1;
  for (Py_ssize_t i = 1; i < COMPUTE_DTYPE_COUNT; i++) {
    if (PyList_GetItem(list, i) == value) {
      *result = (compute_dtype)i;
      return 0;
    }
  }
  PyObject *find = registered("find_dtype");
  PyObject *found = find ? PyObject_CallFunctionObjArgs(find, value, NULL) : NULL;
  if (!found) return -1;
  const Py_ssize_t index = PySequence_Index(list, found);
  Py_DECREF(found);
  if (index < 0) return -1;
  *result = (compute_dtype)index;
  return 0;
}

/* The numbers of a sequence, or a single one. Returns how many, or -1. */
static Py_ssize_t to_numbers(PyObject *value, const char *name, Py_ssize_t most, int64_t *numbers) {
  if (PyIndex_Check(value)) return to_i64(value, name, numbers) ? -1 : 1;
  PyObject *list = PySequence_Tuple(value);
  if (!list) return -1;
  Py_ssize_t count = PyTuple_Size(list);
  if (count > most) {
    PyErr_Format(PyExc_ValueError, "%s has %zd numbers, more than %zd", name, count, most);
    count = -1;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    if (to_i64(PyTuple_GetItem(list, i), name, &numbers[i])) {
      count = -1;
      break;
    }
  }
  Py_DECREF(list);
  return count;
}

int to_shape(PyObject *value, compute_shape *result) {
  const Py_ssize_t rank = to_numbers(value, "shape", COMPUTE_MAX_RANK, result->size);
  if (rank < 0) return -1;
  result->rank = (int32_t)rank;
  return 0;
}

int to_axes(PyObject *value, compute_axes *result) {
  int64_t axes[COMPUTE_MAX_RANK];
  const Py_ssize_t count = to_numbers(value, "axes", COMPUTE_MAX_RANK, axes);
  if (count < 0) return -1;
  if (count == 0)
    *result = COMPUTE_NO_AXES;
  else
    result->count = (int32_t)count;
  for (Py_ssize_t i = 0; i < count; i++) {
    if (axes[i] < INT32_MIN || axes[i] > INT32_MAX) {
      PyErr_SetString(PyExc_OverflowError, "an axis is out of range");
      return -1;
    }
    result->axis[i] = (int32_t)axes[i];
  }
  return 0;
}

PyObject *shape_tuple(compute_shape shape) {
  PyObject *tuple = PyTuple_New(shape.rank);
  for (int32_t i = 0; tuple && i < shape.rank; i++) {
    PyObject *size = PyLong_FromLongLong(shape.size[i]);
    if (!size || PyTuple_SetItem(tuple, i, size)) Py_CLEAR(tuple);
  }
  return tuple;
}

PyObject *text_taken(char *text) {
  PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  compute_text_free(text);
  return result;
}

PyObject *packed(int count, PyObject **values) {
  PyObject *tuple = PyTuple_New(count);
  for (int i = 0; i < count; i++) {
    if (!values[i] || !tuple)
      Py_CLEAR(tuple);
    else if (PyTuple_SetItem(tuple, i, Py_NewRef(values[i])))
      Py_CLEAR(tuple);
    Py_XDECREF(values[i]);
  }
  return tuple;
}

int to_enum(PyObject *value, const enum_form *f, int *result) {
  if (PyUnicode_Check(value)) {
    for (const enum_name *n = f->names; n->name; n++) {
      if (PyUnicode_CompareWithASCIIString(value, n->name) == 0) {
        *result = n->value;
        return 0;
      }
    }
    PyErr_Format(PyExc_ValueError, "%s has no %R", f->name, value);
    return -1;
  }
  int32_t number = 0;
  if (to_i32(value, f->name, &number)) return -1;
  *result = number;
  return 0;
}

/* ---- Objects ------------------------------------------------------------------------------- */

int to_object(PyObject *value, enum kind kind, scratch *s, void **result) {
  if (!is_kind(value, kind)) {
    PyErr_Format(PyExc_TypeError, "%R is needed, not %R", types[kind], Py_TYPE(value));
    return -1;
  }
  object *o = (object *)value;
  if (!o->handle) {
    PyErr_SetString(PyExc_ValueError, "this object is closed, or was released by a failed call");
    return -1;
  }
  if ((kind == KIND_TRAINER || kind == KIND_DATASET || kind == KIND_LAYER || kind == KIND_GRAPH ||
       kind == KIND_FIT) &&
      scratch_use(s, o))
    return -1;
  *result = o->handle;
  PyObject *context = context_of(value);
  if (context) s->context = context;
  return kind == KIND_TENSOR || kind == KIND_DEVICE || kind == KIND_CONTEXT
             ? 0
             : scratch_keep(s, value);
}

int to_context(PyObject *value, scratch *s, compute_context **result) {
  PyObject *context = value ? value : s->context ? s->context : context_default();
  return context ? to_object(context, KIND_CONTEXT, s, (void **)result) : -1;
}

int to_device(PyObject *value, scratch *s, compute_device **result) {
  if (value && is_kind(value, KIND_DEVICE))
    return to_object(value, KIND_DEVICE, s, (void **)result);
  compute_context *context = NULL;
  if (to_context(NULL, s, &context)) return -1;
  if (!value) {
    *result = compute_default_device(context);
    return 0;
  }
  const char *name = NULL;
  if (to_text(value, s, &name)) return -1;
  const compute_status status = compute_device_by_name(context, name, result);
  if (status) fail(status);
  return status ? -1 : 0;
}
