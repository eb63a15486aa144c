/* SPDX-License-Identifier: MIT */
/* Objects that the package registers, exceptions, the memory of a call. */
#include "glue.h"

#include <stdlib.h>
#include <string.h>

static PyObject *registry; /* objects of the package by name */

PyObject *registers(PyObject *self, PyObject *objects) {
  (void)self;
  if (!registry && (registry = PyDict_New()) == NULL) return NULL;
  if (PyDict_Update(registry, objects)) return NULL;
  Py_RETURN_NONE;
}

PyObject *registered(const char *name) {
  PyObject *found = registry ? PyDict_GetItemString(registry, name) : NULL;
  if (!found) PyErr_Format(PyExc_RuntimeError, "%s is not registered; import libcompute", name);
  return found;
}

/* ---- Exceptions ---------------------------------------------------------------------------- */

static int set_text(PyObject *o, const char *name, const char *text) {
  PyObject *value = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  const int result = value ? PyObject_SetAttrString(o, name, value) : -1;
  Py_XDECREF(value);
  return result;
}

static int set_number(PyObject *o, const char *name, long long number) {
  PyObject *value = PyLong_FromLongLong(number);
  const int result = value ? PyObject_SetAttrString(o, name, value) : -1;
  Py_XDECREF(value);
  return result;
}

static void raise_error(compute_status status, const compute_error *e) {
  PyObject *table = registered("EXCEPTIONS"), *key = PyLong_FromLong(status), *class = NULL;
  if (table && key) class = PyDict_GetItem(table, key);
  Py_XDECREF(key);
  if (!class) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, compute_status_text(status));
    return;
  }
  const char *text = e->status == status && *e->message ? e->message : compute_status_text(status);
  PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  PyObject *error = message ? PyObject_CallFunctionObjArgs(class, message, NULL) : NULL;
  Py_XDECREF(message);
  if (error && e->status == status &&
      (set_text(error, "operation", e->operation) || set_text(error, "remedy", e->remedy) ||
       set_text(error, "source", e->source) || set_number(error, "native_code", e->native_code)))
    Py_CLEAR(error);
  if (error) PyErr_SetObject(class, error);
  Py_XDECREF(error);
}

PyObject *fail(compute_status status) {
  compute_error e;
  compute_error_get(NULL, &e);
  if (!PyErr_Occurred()) raise_error(status, &e);
  return NULL;
}

PyObject *fail_last(void) {
  compute_error e;
  compute_error_get(NULL, &e);
  if (!PyErr_Occurred()) raise_error(e.status ? e.status : COMPUTE_ERROR_INTERNAL, &e);
  return NULL;
}

/* ---- Memory of a call ---------------------------------------------------------------------- */

struct block {
  struct block *next;
  max_align_t content[];
};

void *scratch_memory(scratch *s, size_t bytes) {
  struct block *made = calloc(1, sizeof *made + bytes);
  if (!made) {
    PyErr_NoMemory();
    return NULL;
  }
  made->next = s->blocks;
  s->blocks = made;
  return made->content;
}

int scratch_keep(scratch *s, PyObject *kept) {
  if (!s->kept && (s->kept = PyList_New(0)) == NULL) return -1;
  return PyList_Append(s->kept, kept);
}

int scratch_use(scratch *s, object *o) {
  if (o->busy || s->in_use_count == sizeof s->in_use / sizeof *s->in_use) {
    PyObject *table = registered("EXCEPTIONS");
    PyObject *key = table ? PyLong_FromLong(COMPUTE_ERROR_INVALID_STATE) : NULL;
    PyObject *class = key ? PyDict_GetItem(table, key) : NULL;
    if (class) PyErr_SetString(class, "another call is using this object");
    Py_XDECREF(key);
    return -1;
  }
  o->busy = true;
  s->in_use[s->in_use_count++] = (object *)Py_NewRef((PyObject *)o);
  return 0;
}

void scratch_end(scratch *s) {
  for (int i = 0; i < s->in_use_count; i++) {
    s->in_use[i]->busy = false;
    Py_DECREF((PyObject *)s->in_use[i]);
  }
  while (s->blocks) {
    struct block *next = s->blocks->next;
    free(s->blocks);
    s->blocks = next;
  }
  Py_CLEAR(s->kept);
}
