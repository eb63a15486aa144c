/* SPDX-License-Identifier: MIT */
/* The module and its functions. */
#include "glue.h"

static PyObject *get_context(PyObject *self, PyObject *none) {
  (void)self;
  (void)none;
  return Py_XNewRef(context_default());
}

/* Replaces it; None: it will be opened again when it is needed. */
static PyObject *set_context(PyObject *self, PyObject *context) {
  (void)self;
  if (context != Py_None && !is_kind(context, KIND_CONTEXT))
    return PyErr_Format(PyExc_TypeError, "a Context or None is needed");
  context_replace(context == Py_None ? NULL : context);
  Py_RETURN_NONE;
}

static PyMethodDef module_functions[] = {
    {"context", get_context, METH_NOARGS, "context()\n--\n\nThe default context."},
    {"set_context", set_context, METH_O,
     "set_context(context)\n--\n\nMakes it the default context; None: open one when needed."},
    {"register", registers, METH_O,
     "register(objects)\n--\n\nObjects that the module uses, by name."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "libcompute._core",
                                        "The functions of libcompute.",
                                        -1,
                                        module_functions,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
  PyObject *module = PyModule_Create(&definition);
  if (!module) return NULL;
  if (types_make(module) || PyModule_AddFunctions(module, functions) ||
      PyModule_AddFunctions(module, array_functions) ||
      PyModule_AddFunctions(module, run_functions) ||
      PyModule_AddFunctions(module, layer_functions) ||
      PyModule_AddFunctions(module, batch_functions) ||
      PyModule_AddFunctions(module, batcher_functions) ||
      PyModule_AddFunctions(module, own_functions) ||
      PyModule_AddFunctions(module, file_functions)) {
    Py_DECREF(module);
    return NULL;
  }
  return module;
}
