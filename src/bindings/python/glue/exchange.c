/* SPDX-License-Identifier: MIT */
/* Memory shared with other libraries: Python's buffers and DLPack's capsules. Buffers go through
 * DLPack's structs as well, which keep the memory alive and say whether it is read-only. */
#include "exchange.h"

#include <stdlib.h>
#include <string.h>

/* DLPack's structs, whose layout is fixed for all libraries. */
enum { READ_ONLY = 1, HOST = 1 };
enum { CODE_SIGNED = 0, CODE_UNSIGNED = 1, CODE_FLOAT = 2, CODE_BFLOAT = 4, CODE_BOOL = 6 };

typedef struct dl_tensor {
  void *data;
  int32_t device_type, device_id;
  int32_t rank;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } type;
  int64_t *size, *stride; /* stride NULL: dense */
  uint64_t byte_offset;
} dl_tensor;

struct DLManagedTensor {
  dl_tensor tensor;
  void *owner;
  void (*deleter)(struct DLManagedTensor *self);
};

struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void *owner;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  dl_tensor tensor;
};

typedef struct type_row {
  char format;
  uint8_t code, bytes;
} type_row;

/* The first row of a type is the one for exports. */
static const type_row rows[] = {
    {'d', CODE_FLOAT, 8},    {'f', CODE_FLOAT, 4},    {'e', CODE_FLOAT, 2},
    {'q', CODE_SIGNED, 8},   {'i', CODE_SIGNED, 4},   {'h', CODE_SIGNED, 2},
    {'b', CODE_SIGNED, 1},   {'Q', CODE_UNSIGNED, 8}, {'I', CODE_UNSIGNED, 4},
    {'H', CODE_UNSIGNED, 2}, {'B', CODE_UNSIGNED, 1}, {'?', CODE_BOOL, 1},
    {'l', CODE_SIGNED, 8},   {'L', CODE_UNSIGNED, 8}, {'n', CODE_SIGNED, 8},
    {'N', CODE_UNSIGNED, 8}, {'c', CODE_UNSIGNED, 1}};

static const type_row *row_of_format(const char *format) {
  if (*format == '@' || *format == '=' || *format == '<') format++;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (format[0] == rows[i].format && format[1] == '\0') return &rows[i];
  }
  return NULL;
}

static const type_row *row_of_type(uint8_t code, uint8_t bytes) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (code == rows[i].code && bytes == rows[i].bytes) return &rows[i];
  }
  return NULL;
}

/* ---- Buffers in ---------------------------------------------------------------------------- */

typedef struct import {
  struct DLManagedTensorVersioned managed;
  Py_buffer view;
  int64_t size[COMPUTE_MAX_RANK], stride[COMPUTE_MAX_RANK];
} import;

/* From any thread, when no view and no queue needs the memory. */
static void import_delete(struct DLManagedTensorVersioned *managed) {
  import *i = managed->owner;
  if (!Py_IsInitialized()) return; /* the interpreter is gone, and its memory with it */
  const PyGILState_STATE state = PyGILState_Ensure();
  PyBuffer_Release(&i->view);
  PyGILState_Release(state);
  free(i);
}

/* Fills in the struct; false with an exception if the buffer has no such form. */
static bool import_describe(import *i) {
  const Py_buffer *view = &i->view;
  const type_row *row = row_of_format(view->format ? view->format : "B");
  if (!row || view->itemsize != row->bytes) {
    PyErr_Format(PyExc_TypeError, "elements of type '%s' have no dtype here", view->format);
    return false;
  }
  if (view->ndim > COMPUTE_MAX_RANK) {
    PyErr_Format(PyExc_ValueError, "%d axes are more than %d", view->ndim, COMPUTE_MAX_RANK);
    return false;
  }
  for (int k = 0; k < view->ndim; k++) {
    i->size[k] = view->shape[k];
    i->stride[k] = view->strides[k] / view->itemsize;
    if (view->shape[k] > 1 && (view->strides[k] < 0 || view->strides[k] % view->itemsize != 0)) {
      PyErr_SetString(PyExc_BufferError, "strides that are negative or no multiples of elements");
      return false;
    }
    if (i->stride[k] < 0) i->stride[k] = 0; /* of an axis with at most one element */
  }
  struct DLManagedTensorVersioned *m = &i->managed;
  m->major = 1;
  m->owner = i;
  m->deleter = import_delete;
  m->flags = view->readonly ? READ_ONLY : 0;
  m->tensor.data = view->buf;
  m->tensor.device_type = HOST;
  m->tensor.rank = view->ndim;
  m->tensor.type.code = row->code;
  m->tensor.type.bits = (uint8_t)(8 * row->bytes);
  m->tensor.type.lanes = 1;
  m->tensor.size = i->size;
  m->tensor.stride = i->stride;
  return true;
}

PyObject *array_from_buffer(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names) {
  static const char *const keys[] = {"buffer", "context"};
  static const form f = {"from_buffer", keys, 2, 1, false};
  PyObject *v[2], *result = NULL;
  scratch s = {0};
  compute_context *context = NULL;
  (void)self;
  if (form_take(&f, args, count, names, v, NULL) || to_context(v[1], &s, &context)) return NULL;
  import *made = calloc(1, sizeof *made);
  if (!made) return PyErr_NoMemory();
  if (PyObject_GetBuffer(v[0], &made->view, PyBUF_RECORDS_RO)) {
    free(made);
    return NULL;
  }
  compute_tensor *tensor = NULL;
  const compute_status status =
      import_describe(made) ? compute_tensor_from_dlpack_versioned(context, &made->managed, &tensor)
                            : COMPUTE_ERROR_INVALID_ARGUMENT;
  if (status) {
    PyBuffer_Release(&made->view);
    free(made);
    fail(status);
  } else {
    result = array_object(tensor, s.context);
  }
  scratch_end(&s);
  return result;
}

/* ---- Buffers out --------------------------------------------------------------------------- */

typedef struct export {
  struct DLManagedTensorVersioned *managed;
  Py_ssize_t shape[COMPUTE_MAX_RANK], strides[COMPUTE_MAX_RANK];
  char format[2];
}
export;

static compute_status tensor_export(compute_tensor *tensor, bool copy,
                                    struct DLManagedTensorVersioned **managed) {
  compute_status status;
  PyThreadState *const unlocked = PyEval_SaveThread();
  status =
      compute_tensor_to_dlpack_versioned(tensor, &(compute_dlpack_options){.copy = copy}, managed);
  PyEval_RestoreThread(unlocked);
  return status;
}

static int export_describe(export *e, PyObject *self, Py_buffer *view, int flags) {
  const dl_tensor *t = &e->managed->tensor;
  const type_row *row = row_of_type(t->type.code, (uint8_t)(t->type.bits / 8));
  if (t->device_type != HOST || !row) {
    PyErr_SetString(PyExc_BufferError, !row
                                           ? "bf16 has no type of buffers: cast it to float32"
                                           : "the array is not in host memory: to_device(\"cpu\")");
    return -1;
  }
  const bool read_only = e->managed->flags & READ_ONLY;
  if (read_only && (flags & PyBUF_WRITABLE)) {
    PyErr_SetString(PyExc_BufferError, "the array is read-only");
    return -1;
  }
  Py_ssize_t stride = row->bytes, bytes = row->bytes;
  bool dense = true;
  for (int k = t->rank - 1; k >= 0; k--) {
    e->shape[k] = t->size[k];
    e->strides[k] = t->stride ? t->stride[k] * row->bytes : stride;
    dense = dense && (t->size[k] <= 1 || e->strides[k] == stride);
    stride *= t->size[k];
    bytes *= t->size[k];
  }
  if (!dense && bytes && (flags & PyBUF_STRIDES) != PyBUF_STRIDES) {
    PyErr_SetString(PyExc_BufferError, "the array is not dense");
    return -1;
  }
  e->format[0] = row->format;
  static char none;
  view->buf = t->data ? (char *)t->data + t->byte_offset : &none;
  view->obj = Py_NewRef(self);
  view->len = bytes;
  view->itemsize = row->bytes;
  view->readonly = read_only;
  view->ndim = flags & PyBUF_ND ? t->rank : 1;
  view->format = flags & PyBUF_FORMAT ? e->format : NULL;
  view->shape = flags & PyBUF_ND ? e->shape : NULL;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? e->strides : NULL;
  view->suboffsets = NULL;
  view->internal = e;
  return 0;
}

int array_get_buffer(PyObject *self, Py_buffer *view, int flags) {
  view->obj = NULL;
  export *e = calloc(1, sizeof *e);
  if (!e) {
    PyErr_NoMemory();
    return -1;
  }
  const compute_status status = tensor_export(((object *)self)->handle, false, &e->managed);
  if (status) fail(status);
  if (!status && export_describe(e, self, view, flags) == 0) return 0;
  if (!status && e->managed->deleter) e->managed->deleter(e->managed);
  free(e);
  return -1;
}

void array_release_buffer(PyObject *self, Py_buffer *view) {
  (void)self;
  export *e = view->internal;
  if (e->managed->deleter) e->managed->deleter(e->managed);
  free(e);
}

/* ---- Capsules ------------------------------------------------------------------------------ */

static const char fresh[] = "dltensor", used[] = "used_dltensor";
static const char fresh_versioned[] = "dltensor_versioned",
                  used_versioned[] = "used_dltensor_versioned";

/* Of a capsule that nobody took over. */
static void capsule_delete(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, fresh_versioned)) {
    struct DLManagedTensorVersioned *m = PyCapsule_GetPointer(capsule, fresh_versioned);
    if (m->deleter) m->deleter(m);
  } else if (PyCapsule_IsValid(capsule, fresh)) {
    struct DLManagedTensor *m = PyCapsule_GetPointer(capsule, fresh);
    if (m->deleter) m->deleter(m);
  }
}

PyObject *array_to_capsule(PyObject *self, PyObject *const *args, Py_ssize_t count,
                           PyObject *names) {
  static const char *const keys[] = {"versioned", "copy", "stream"};
  static const form f = {"_to_capsule", keys, 3, 0, false};
  PyObject *v[3];
  bool versioned = false;
  uint64_t stream = 0;
  compute_dlpack_options options = {0};
  if (form_take(&f, args, count, names, v, NULL) ||
      (v[0] && to_bool(v[0], "versioned", &versioned)) ||
      (v[1] && to_bool(v[1], "copy", &options.copy)) || (v[2] && to_u64(v[2], "stream", &stream)))
    return NULL;
  options.stream = (void *)(uintptr_t)stream;
  compute_tensor *tensor = ((object *)self)->handle;
  void *managed = NULL;
  compute_status status;
  PyThreadState *const unlocked = PyEval_SaveThread();
  if (versioned)
    status = compute_tensor_to_dlpack_versioned(
        tensor, &options, (struct DLManagedTensorVersioned **)(void *)&managed);
  else
    status =
        compute_tensor_to_dlpack(tensor, &options, (struct DLManagedTensor **)(void *)&managed);
  PyEval_RestoreThread(unlocked);
  if (status) return fail(status);
  return PyCapsule_New(managed, versioned ? fresh_versioned : fresh, capsule_delete);
}

PyObject *array_from_capsule(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *names) {
  static const char *const keys[] = {"capsule", "context"};
  static const form f = {"from_capsule", keys, 2, 1, false};
  PyObject *v[2], *result = NULL;
  scratch s = {0};
  compute_context *context = NULL;
  (void)self;
  if (form_take(&f, args, count, names, v, NULL) || to_context(v[1], &s, &context)) return NULL;
  const bool versioned = PyCapsule_IsValid(v[0], fresh_versioned);
  void *managed = PyCapsule_GetPointer(v[0], versioned ? fresh_versioned : fresh);
  if (managed) {
    compute_tensor *tensor = NULL;
    const compute_status status =
        versioned ? compute_tensor_from_dlpack_versioned(context, managed, &tensor)
                  : compute_tensor_from_dlpack(context, managed, &tensor);
    if (status)
      fail(status);
    else if (PyCapsule_SetName(v[0], versioned ? used_versioned : used) == 0)
      result = array_object(tensor, s.context);
  }
  scratch_end(&s);
  return result;
}

PyObject *array_dlpack_device(PyObject *self, PyObject *none) {
  (void)none;
  int32_t type = 0, id = 0;
  const compute_status status =
      compute_device_dlpack(compute_tensor_device(((object *)self)->handle), &type, &id);
  return status ? fail(status) : Py_BuildValue("(ii)", (int)type, (int)id);
}
