/* SPDX-License-Identifier: MIT */
/* Arrays and memory of other libraries. */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "glue.h"

int array_get_buffer(PyObject *self, Py_buffer *view, int flags);
void array_release_buffer(PyObject *self, Py_buffer *view);
PyObject *array_from_buffer(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names);
PyObject *array_to_capsule(PyObject *self, PyObject *const *args, Py_ssize_t count,
                           PyObject *names);
PyObject *array_from_capsule(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *names);
PyObject *array_dlpack_device(PyObject *self, PyObject *none);

#endif
