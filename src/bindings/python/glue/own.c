/* SPDX-License-Identifier: MIT */
/* Kernels from the caller's source, the corners of spots, and closing groups of processes. */
#include "glue.h"

#include <string.h>

/* ---- Kernels ------------------------------------------------------------------------------- */

/* One to three sizes. */
static int to_sizes(PyObject *values, const char *name, uint32_t result[3]) {
  PyObject *list = PySequence_Tuple(values);
  if (!list) return -1;
  int failed = 0;
  const Py_ssize_t count = PyTuple_Size(list);
  if (count < 1 || count > 3) {
    PyErr_Format(PyExc_ValueError, "%s has 1 to 3 sizes", name);
    failed = -1;
  }
  for (Py_ssize_t i = 0; !failed && i < count; i++)
    failed = to_u32(PyTuple_GetItem(list, i), name, &result[i]);
  Py_DECREF(list);
  return failed;
}

/* An array, the bytes of a value, or a number of bytes of local memory. */
static int to_argument(PyObject *value, scratch *s, compute_kernel_argument *a) {
  if (is_kind(value, KIND_TENSOR)) {
    void *tensor = NULL;
    if (to_object(value, KIND_TENSOR, s, &tensor)) return -1;
    a->tensor = tensor;
    return 0;
  }
  if (PyLong_Check(value)) return to_size(value, "local memory", &a->bytes);
  char *bytes = NULL;
  Py_ssize_t length = 0;
  if (PyBytes_AsStringAndSize(value, &bytes, &length)) return -1;
  a->value = bytes;
  a->bytes = (size_t)length;
  return 0;
}

static PyObject *kernel_launch(PyObject *self, PyObject *const *args, Py_ssize_t count,
                               PyObject *names) {
  static const char *const keys[] = {"groups", "group", "arguments"};
  static const form f = {"_launch", keys, 3, 3, false};
  PyObject *v[3], *list = NULL, *result = NULL;
  scratch s = {0};
  compute_kernel *kernel = NULL;
  compute_launch launch = {0};
  if (form_take(&f, args, count, names, v, NULL) ||
      to_object(self, KIND_KERNEL, &s, (void **)&kernel) ||
      to_sizes(v[0], "groups", launch.groups) || to_sizes(v[1], "group", launch.group) ||
      (list = PySequence_Tuple(v[2])) == NULL)
    goto end;
  const size_t number = (size_t)PyTuple_Size(list);
  compute_kernel_argument *arguments = scratch_memory(&s, (number + 1) * sizeof *arguments);
  if (!arguments) goto end;
  for (size_t i = 0; i < number; i++) {
    if (to_argument(PyTuple_GetItem(list, (Py_ssize_t)i), &s, &arguments[i])) goto end;
  }
  compute_status status;
  PyThreadState *const unlocked = PyEval_SaveThread();
  status = compute_kernel_launch(kernel, &launch, arguments, number, NULL);
  PyEval_RestoreThread(unlocked);
  result = status ? fail(status) : Py_NewRef(Py_None);
end:
  Py_XDECREF(list);
  scratch_end(&s);
  return result;
}

/* ---- Spots --------------------------------------------------------------------------------- */

/* Writes corners to the buffer, as many as it has room for; returns their number. */
static PyObject *spot_corners(PyObject *self, PyObject *const *args, Py_ssize_t count,
                              PyObject *names) {
  static const char *const keys[] = {"spots", "response", "size",    "shape",
                                     "first", "corners",  "capacity"};
  static const form f = {"_spot_corners", keys, 7, 7, true};
  PyObject *v[7], *given = NULL, *result = NULL;
  scratch s = {0};
  compute_context *context = NULL;
  compute_spot_options options = {0};
  compute_shape frames = {0}, roi = {0};
  void *spots = NULL, *response = NULL, *corners = NULL;
  int64_t first = 0, capacity = 0, found = 0;
  (void)self;
  if (form_take(&f, args, count, names, v, &given) || to_context(NULL, &s, &context) ||
      to_memory(v[0], false, &s, &spots) ||
      (v[1] != Py_None && to_memory(v[1], false, &s, &response)) || to_shape(v[2], &frames) ||
      to_shape(v[3], &roi) || to_i64(v[4], "first_frame", &first) ||
      to_memory(v[5], true, &s, &corners) || to_i64(v[6], "capacity", &capacity) ||
      fill(&compute_spot_options_form, given, &options, &s))
    goto end;
  compute_status status;
  PyThreadState *const unlocked = PyEval_SaveThread();
  status = compute_spot_corners(context, &options, spots, response, frames.size[0], frames.size[1],
                                frames.size[2], (int32_t)roi.size[0], (int32_t)roi.size[1], first,
                                corners, capacity, &found);
  PyEval_RestoreThread(unlocked);
  result = status && status != COMPUTE_ERROR_OVERFLOW ? fail(status) : PyLong_FromLongLong(found);
end:
  Py_XDECREF(given);
  scratch_end(&s);
  return result;
}

/* ---- Groups -------------------------------------------------------------------------------- */

static PyObject *group_close(PyObject *self, PyObject *none) {
  (void)none;
  object *o = (object *)self;
  compute_process_group *group = o->handle;
  if (o->users > 0) {
    PyErr_SetString(PyExc_ValueError, "a trainer, plan or other object uses this group");
    return NULL;
  }
  o->handle = NULL;
  PyThreadState *const unlocked = PyEval_SaveThread();
  compute_group_close(group);
  PyEval_RestoreThread(unlocked);
  Py_RETURN_NONE;
}

#define METHOD(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS

PyMethodDef kernel_methods[] = {{"_launch", METHOD(kernel_launch), NULL}, {NULL, NULL, 0, NULL}};

PyMethodDef group_methods[] = {{"close", group_close, METH_NOARGS,
                                "close($self)\n--\n\nCloses the group, when no trainer or plan "
                                "uses it any more. Collective: every "
                                "rank calls it."},
                               {NULL, NULL, 0, NULL}};

PyMethodDef own_functions[] = {{"_spot_corners", METHOD(spot_corners), NULL},
                               {NULL, NULL, 0, NULL}};
