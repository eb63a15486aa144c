/* SPDX-License-Identifier: MIT */
/* The types of the module. */
#include "glue.h"

typedef struct type_row {
  const char *name, *text;
  PyMethodDef *methods, *more; /* generated, and written by hand */
  lenfunc length;
  PyType_Slot *slots;
} type_row;

/* ---- Devices and contexts ------------------------------------------------------------------ */

static PyObject *device_name(PyObject *self, void *unused) {
  (void)unused;
  compute_device_info info;
  const compute_status status = compute_device_describe(((object *)self)->handle, &info);
  return status ? fail(status) : PyUnicode_FromString(info.name);
}

static PyObject *device_repr(PyObject *self) {
  PyObject *name = device_name(self, NULL);
  PyObject *text = name ? PyUnicode_FromFormat("Device(%R)", name) : NULL;
  Py_XDECREF(name);
  return text;
}

static PyObject *device_compare(PyObject *self, PyObject *other, int how) {
  if (!is_kind(other, KIND_DEVICE) || (how != Py_EQ && how != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  const bool same = ((object *)self)->handle == ((object *)other)->handle;
  return PyBool_FromLong(same == (how == Py_EQ));
}

static Py_hash_t device_hash(PyObject *self) {
  return (Py_hash_t)((uintptr_t)((object *)self)->handle >> 4);
}

static PyGetSetDef device_members[] = {{"name", device_name, NULL, "\"cpu\", \"cuda:0\"", NULL},
                                       {"context", object_context, NULL, "the context", NULL},
                                       {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot device_slots[] = {{Py_tp_getset, device_members},
                                     {Py_tp_repr, device_repr},
                                     {Py_tp_richcompare, device_compare},
                                     {Py_tp_hash, device_hash},
                                     {0, NULL}};

/* Fails while arrays and other objects of the context exist. */
static PyObject *context_close(PyObject *self, PyObject *none) {
  (void)none;
  object *o = (object *)self;
  if (!o->handle) Py_RETURN_NONE;
  const compute_status status = compute_close(o->handle);
  if (status) return fail(status);
  o->handle = NULL;
  Py_RETURN_NONE;
}

static PyObject *context_devices(PyObject *self, PyObject *none) {
  (void)none;
  scratch s = {0};
  compute_context *context = NULL;
  if (to_object(self, KIND_CONTEXT, &s, (void **)&context)) return NULL;
  PyObject *list = PyList_New(0);
  compute_device *device = NULL;
  for (size_t i = 0; list && (device = compute_device_at(context, i)) != NULL; i++) {
    PyObject *one = object_new(KIND_DEVICE, device, false, &s);
    if (!one || PyList_Append(list, one)) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}

static PyObject *context_device(PyObject *self, void *unused) {
  (void)unused;
  scratch s = {.context = self};
  compute_device *device = NULL;
  if (to_device(NULL, &s, &device)) return NULL;
  return object_new(KIND_DEVICE, device, false, &s);
}

static PyMethodDef context_methods[] = {
    {"close", context_close, METH_NOARGS,
     "close($self)\n--\n\nCloses the context. Its objects must have been released before."},
    {"devices", context_devices, METH_NOARGS,
     "devices($self)\n--\n\nAll devices of the context, the best first."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef context_members[] = {
    {"device", context_device, NULL, "the default device", NULL}, {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot context_slots[] = {{Py_tp_getset, context_members}, {0, NULL}};

static PyGetSetDef common_members[] = {
    {"context", object_context, NULL, "the context, or None", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot common_slots[] = {{Py_tp_getset, common_members}, {0, NULL}};
static PyType_Slot graph_slots[] = {
    {Py_tp_getset, common_members}, {Py_tp_new, graph_new}, {0, NULL}};
static PyType_Slot plan_slots[] = {{Py_tp_getset, plan_members}, {0, NULL}};
static PyType_Slot batch_slots[] = {{Py_tp_getset, batch_members}, {0, NULL}};
static PyType_Slot batcher_slots[] = {{Py_tp_getset, batcher_members}, {0, NULL}};

/* ---- Making the types ---------------------------------------------------------------------- */

static int add_methods(PyObject *type, PyMethodDef *methods) {
  for (PyMethodDef *m = methods; m && m->ml_name; m++) {
    PyObject *method = PyDescr_NewMethod((PyTypeObject *)type, m);
    const int result = method ? PyObject_SetAttrString(type, m->ml_name, method) : -1;
    Py_XDECREF(method);
    if (result) return -1;
  }
  return 0;
}

static const type_row rows[KIND_COUNT] = {
    [KIND_CONTEXT] = {"libcompute.Context", "Modules and devices, to which other objects belong.",
                      methods_Context, context_methods, NULL, context_slots},
    [KIND_DEVICE] = {"libcompute.Device", "A device of a context.", methods_Device, NULL, NULL,
                     device_slots},
    [KIND_TENSOR] = {"libcompute.Array", "A typed, strided array on a device.", methods_Array, NULL,
                     NULL, array_slots},
    [KIND_GRAPH] = {"libcompute.Graph", "Operations recorded once, run many times.", NULL,
                    graph_methods, NULL, graph_slots},
    [KIND_PLAN] = {"libcompute.Plan", "A graph compiled for a device.", methods_Plan, plan_methods,
                   NULL, plan_slots},
    [KIND_MODEL] = {"libcompute.Model", "A network from an ONNX file.", methods_Model,
                    model_methods, NULL, common_slots},
    [KIND_LAYER] = {"libcompute.Layer", "A part of a network with its weights.", methods_Layer,
                    layer_methods, NULL, common_slots},
    [KIND_DATASET] = {"libcompute.Dataset", "Pairs of an input and a target.", methods_Dataset,
                      NULL, length_dataset, common_slots},
    [KIND_TRAINER] = {"libcompute.Trainer", "A network, its loss and its optimizer.",
                      methods_Trainer, trainer_methods, NULL, common_slots},
    [KIND_FIT] = {"libcompute.Fitter", "Fits of spots.", methods_Fitter, fit_methods, NULL,
                  common_slots},
    [KIND_TENSOR_FILE] = {"libcompute.TensorFile", "A file of named tensors.", methods_TensorFile,
                          NULL, length_tensor_file, common_slots},
    [KIND_JOB] = {"libcompute.Job", "A run of a plan in the background.", methods_Job, job_methods,
                  NULL, common_slots},
    [KIND_BATCH] = {"libcompute.Batch", "Work on any number of items, a batch of them at a time.",
                    methods_Batch, batch_methods, NULL, batch_slots},
    [KIND_PROCESS_GROUP] = {"libcompute.Group", "The processes of a launcher.", methods_Group,
                            group_methods, NULL, common_slots},
    [KIND_KERNEL] = {"libcompute.Kernel", "A kernel compiled from the caller's source.",
                     methods_Kernel, kernel_methods, NULL, common_slots},
    [KIND_BATCHER] = {"libcompute.Batcher", "Single items of many threads, computed in batches.",
                      methods_Batcher, batcher_methods, NULL, batcher_slots},
    [KIND_BATCHER_REQUEST] = {"libcompute.Request",
                              "An item of a batcher. The last reference to it cancels it.",
                              methods_Request, request_methods, NULL, common_slots},
    [KIND_NODE] = {"libcompute.Node", "A value of a graph.", NULL, NULL, NULL, node_slots},
};

static int type_make(enum kind kind, PyObject *module) {
  const type_row *row = &rows[kind];
  PyType_Slot slots[96] = {
      {Py_tp_doc, (void *)(uintptr_t)row->text},
      {Py_tp_dealloc, kind == KIND_NODE ? (void *)node_dealloc : (void *)object_dealloc}};
  int count = 2;
  if (row->length) slots[count++] = (PyType_Slot){Py_sq_length, (void *)row->length};
  for (PyType_Slot *slot = row->slots; slot->slot; slot++) slots[count++] = *slot;
  PyType_Spec spec = {row->name, (int)(kind == KIND_NODE ? sizeof(node_object) : sizeof(object)), 0,
                      Py_TPFLAGS_DEFAULT, slots};
  if (kind != KIND_GRAPH) spec.flags |= Py_TPFLAGS_DISALLOW_INSTANTIATION;
  PyObject *type = PyType_FromSpec(&spec);
  if (!type) return -1;
  types[kind] = (PyTypeObject *)type;
  if (add_methods(type, row->methods) || add_methods(type, row->more)) return -1;
  return PyModule_AddObjectRef(module, row->name + sizeof "libcompute", type);
}

int types_make(PyObject *module) {
  for (enum kind kind = 0; kind < KIND_COUNT; kind++) {
    if (type_make(kind, module)) return -1;
  }
  return 0;
}
