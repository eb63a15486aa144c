/* SPDX-License-Identifier: MIT */
/* Files of named tensors. */
#include "glue.h"

static PyObject *save_tensors(PyObject *self, PyObject *const *args, Py_ssize_t count,
                              PyObject *names) {
  static const char *const keys[] = {"path", "arrays"};
  static const form f = {"save_tensors", keys, 2, 2, false};
  PyObject *v[2], *key, *value, *result = NULL;
  scratch s = {0};
  const char *path = NULL;
  compute_named_tensor *tensors = NULL;
  (void)self;
  if (form_take(&f, args, count, names, v, NULL) || to_path(v[0], &s, &path)) goto end;
  if (!PyDict_Check(v[1])) {
    PyErr_SetString(PyExc_TypeError, "arrays are a dictionary by name");
    goto end;
  }
  const size_t number = (size_t)PyDict_Size(v[1]);
  if ((tensors = scratch_memory(&s, (number + 1) * sizeof *tensors)) == NULL) goto end;
  Py_ssize_t at = 0;
  for (size_t i = 0; PyDict_Next(v[1], &at, &key, &value); i++) {
    void *tensor = NULL;
    if (to_text(key, &s, &tensors[i].name) || to_object(value, KIND_TENSOR, &s, &tensor) ||
        scratch_keep(&s, value))
      goto end;
    tensors[i].tensor = tensor;
  }
  compute_status status;
  PyThreadState *const unlocked = PyEval_SaveThread();
  status = compute_tensor_file_write(NULL, path, tensors, number);
  PyEval_RestoreThread(unlocked);
  result = status ? fail(status) : Py_NewRef(Py_None);
end:
  scratch_end(&s);
  return result;
}

PyMethodDef file_functions[] = {
    {"save_tensors", (PyCFunction)(void (*)(void))save_tensors, METH_FASTCALL | METH_KEYWORDS,
     "save_tensors(path, arrays)\n--\n\nWrites {name: array} as safetensors or .npz."},
    {NULL, NULL, 0, NULL}};
