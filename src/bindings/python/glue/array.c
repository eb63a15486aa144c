/* SPDX-License-Identifier: MIT */
/* Arrays and nodes: their attributes, and the operators that both have. */
#include "exchange.h"

#include <string.h>

static compute_tensor *tensor_of(PyObject *self) {
  return ((object *)self)->handle;
}

/* ---- Attributes of arrays ------------------------------------------------------------------ */

static PyObject *array_shape(PyObject *self, void *unused) {
  (void)unused;
  return shape_tuple(compute_tensor_shape(tensor_of(self)));
}

static PyObject *array_dtype(PyObject *self, void *unused) {
  (void)unused;
  return dtype_object(compute_tensor_dtype(tensor_of(self)));
}

static PyObject *array_ndim(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLong(compute_tensor_shape(tensor_of(self)).rank);
}

static PyObject *array_size(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLongLong(compute_tensor_count(tensor_of(self)));
}

static PyObject *array_device(PyObject *self, void *unused) {
  (void)unused;
  scratch s = {.context = context_of(self)};
  return object_new(KIND_DEVICE, compute_tensor_device(tensor_of(self)), false, &s);
}

static PyObject *array_context(PyObject *self, void *unused) {
  (void)unused;
  return Py_NewRef(context_of(self));
}

static PyGetSetDef array_members[] = {
    {"shape", array_shape, NULL, "sizes of the axes", NULL},
    {"dtype", array_dtype, NULL, "type of the elements", NULL},
    {"ndim", array_ndim, NULL, "number of axes", NULL},
    {"size", array_size, NULL, "number of elements", NULL},
    {"device", array_device, NULL, "where the elements are", NULL},
    {"context", array_context, NULL, "the context", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

/* ---- The value of an array with one element ------------------------------------------------ */

static PyObject *value_of(const void *data, compute_dtype dtype) {
  switch (dtype) {
  case COMPUTE_F64: return PyFloat_FromDouble(*(const double *)data);
  case COMPUTE_F32: return PyFloat_FromDouble((double)*(const float *)data);
  case COMPUTE_I64: return PyLong_FromLongLong(*(const int64_t *)data);
  case COMPUTE_I32: return PyLong_FromLong(*(const int32_t *)data);
  case COMPUTE_I16: return PyLong_FromLong(*(const int16_t *)data);
  case COMPUTE_I8: return PyLong_FromLong(*(const int8_t *)data);
  case COMPUTE_U64: return PyLong_FromUnsignedLongLong(*(const uint64_t *)data);
  case COMPUTE_U32: return PyLong_FromUnsignedLong(*(const uint32_t *)data);
  case COMPUTE_U16: return PyLong_FromLong(*(const uint16_t *)data);
  case COMPUTE_U8: return PyLong_FromLong(*(const uint8_t *)data);
  case COMPUTE_BOOL: return PyBool_FromLong(*(const uint8_t *)data);
  case COMPUTE_F16:
  case COMPUTE_BF16:
  case COMPUTE_DTYPE_NONE: break;
  }
  return PyErr_Format(PyExc_TypeError, "no value of this dtype");
}

static PyObject *array_item(PyObject *self, PyObject *none) {
  (void)none;
  compute_tensor *tensor = tensor_of(self), *wide = NULL;
  if (compute_tensor_count(tensor) != 1)
    return PyErr_Format(PyExc_TypeError, "an array of %lld elements has no single value",
                        (long long)compute_tensor_count(tensor));
  compute_dtype dtype = compute_tensor_dtype(tensor);
  int64_t data[1] = {0};
  compute_status status = COMPUTE_OK;
  PyThreadState *const unlocked = PyEval_SaveThread();
  if (dtype == COMPUTE_F16 || dtype == COMPUTE_BF16) {
    dtype = COMPUTE_F32;
    status = compute_tensor_cast(tensor, dtype, &wide);
  }
  if (!status) status = compute_tensor_read(wide ? wide : tensor, data, compute_dtype_size(dtype));
  compute_tensor_release(wide);
  PyEval_RestoreThread(unlocked);
  return status ? fail(status) : value_of(data, dtype);
}

static PyObject *array_float(PyObject *self) {
  PyObject *value = array_item(self, NULL), *result = value ? PyNumber_Float(value) : NULL;
  Py_XDECREF(value);
  return result;
}

static PyObject *array_int(PyObject *self) {
  PyObject *value = array_item(self, NULL), *result = value ? PyNumber_Long(value) : NULL;
  Py_XDECREF(value);
  return result;
}

static PyObject *array_index(PyObject *self) {
  PyObject *value = array_item(self, NULL);
  if (value && !PyBool_Check(value) && PyLong_Check(value)) return value;
  if (value) PyErr_SetString(PyExc_TypeError, "only an integer is an index");
  Py_XDECREF(value);
  return NULL;
}

static int array_bool(PyObject *self) {
  PyObject *value = array_item(self, NULL);
  const int truth = value ? PyObject_IsTrue(value) : -1;
  Py_XDECREF(value);
  return truth;
}

static Py_ssize_t array_length(PyObject *self) {
  const compute_shape shape = compute_tensor_shape(tensor_of(self));
  if (shape.rank > 0) return (Py_ssize_t)shape.size[0];
  PyErr_SetString(PyExc_TypeError, "an array without axes has no length");
  return -1;
}

static PyMethodDef array_methods[] = {
    {"item", array_item, METH_NOARGS, "item($self)\n--\n\nThe value of an array of one element."},
    {"__dlpack_device__", array_dlpack_device, METH_NOARGS,
     "__dlpack_device__($self)\n--\n\nDLPack's numbers for the device."},
    {"_to_capsule", (PyCFunction)(void (*)(void))array_to_capsule, METH_FASTCALL | METH_KEYWORDS,
     NULL},
    {NULL, NULL, 0, NULL}};

PyMethodDef array_functions[] = {
    {"from_buffer", (PyCFunction)(void (*)(void))array_from_buffer, METH_FASTCALL | METH_KEYWORDS,
     "from_buffer(buffer, context=None)\n--\n\nAn array over the memory of a buffer."},
    {"from_capsule", (PyCFunction)(void (*)(void))array_from_capsule, METH_FASTCALL | METH_KEYWORDS,
     "from_capsule(capsule, context=None)\n--\n\nAn array over the memory of DLPack's capsule."},
    {NULL, NULL, 0, NULL}};

/* ---- Operators ----------------------------------------------------------------------------- */

static bool is_operand(PyObject *o) {
  return is_kind(o, KIND_TENSOR) || is_kind(o, KIND_NODE) || PyFloat_Check(o) || PyLong_Check(o);
}

static PyObject *binary(PyObject *a, PyObject *b, operation call) {
  if (!is_operand(a) || !is_operand(b)) Py_RETURN_NOTIMPLEMENTED;
  return call(NULL, (PyObject *const[]){a, b}, 2, NULL);
}

static PyObject *unary(PyObject *a, operation call) {
  return call(NULL, (PyObject *const[]){a}, 1, NULL);
}

#define BINARY(name, call)                                                                         \
  static PyObject *name(PyObject *a, PyObject *b) {                                                \
    return binary(a, b, call);                                                                     \
  }
#define UNARY(name, call)                                                                          \
  static PyObject *name(PyObject *a) {                                                             \
    return unary(a, call);                                                                         \
  }

BINARY(slot_add, operation_add)
BINARY(slot_subtract, operation_sub)
BINARY(slot_multiply, operation_mul)
BINARY(slot_matmul, operation_matmul)
BINARY(slot_left, operation_shift_left)
UNARY(slot_negative, operation_neg)
UNARY(slot_absolute, operation_abs)

static compute_dtype dtype_of(PyObject *o) {
  if (is_kind(o, KIND_TENSOR)) return compute_tensor_dtype(tensor_of(o));
  if (!is_kind(o, KIND_NODE)) return COMPUTE_DTYPE_NONE;
  node_object *n = (node_object *)o;
  return compute_node_dtype(((object *)n->graph)->handle, n->node);
}

/* bool has operations of logic, integers have bits. */
#define LOGIC(name, logic, bits)                                                                   \
  static PyObject *name(PyObject *a, PyObject *b) {                                                \
    const bool is_logic = dtype_of(a) == COMPUTE_BOOL || dtype_of(b) == COMPUTE_BOOL;              \
    return binary(a, b, is_logic ? logic : bits);                                                  \
  }

LOGIC(slot_and, operation_logical_and, operation_bit_and)
LOGIC(slot_or, operation_logical_or, operation_bit_or)
LOGIC(slot_xor, operation_logical_xor, operation_bit_xor)

static PyObject *slot_invert(PyObject *a) {
  return unary(a, dtype_of(a) == COMPUTE_BOOL ? operation_logical_not : operation_bit_not);
}

static PyObject *slot_positive(PyObject *a) {
  return Py_NewRef(a);
}

static PyObject *slot_power(PyObject *a, PyObject *b, PyObject *modulus) {
  if (modulus != Py_None || !is_operand(a) || !is_operand(b)) Py_RETURN_NOTIMPLEMENTED;
  const compute_dtype dtype = dtype_of(a) ? dtype_of(a) : dtype_of(b);
  if (dtype <= COMPUTE_BF16) return binary(a, b, operation_pow);
  PyObject *power = registered("pow"); /* of integers, from products */
  return power ? PyObject_CallFunctionObjArgs(power, a, b, NULL) : NULL;
}

static PyObject *slot_right(PyObject *a, PyObject *b) {
  if (dtype_of(a) != COMPUTE_U64) return binary(a, b, operation_shift_right);
  PyObject *shift = registered("bitwise_right_shift");
  return shift ? PyObject_CallFunctionObjArgs(shift, a, b, NULL) : NULL;
}

/* Quotients of integers are floats, as the package's function makes them. */
static PyObject *slot_divide(PyObject *a, PyObject *b) {
  if (!is_operand(a) || !is_operand(b)) Py_RETURN_NOTIMPLEMENTED;
  const compute_dtype dtype = dtype_of(a) ? dtype_of(a) : dtype_of(b);
  if (dtype <= COMPUTE_BF16) return binary(a, b, operation_div);
  PyObject *divide = registered("divide");
  return divide ? PyObject_CallFunctionObjArgs(divide, a, b, NULL) : NULL;
}

#define THROUGH(name)                                                                              \
  static PyObject *slot_##name(PyObject *a, PyObject *b) {                                         \
    if (!is_operand(a) || !is_operand(b)) Py_RETURN_NOTIMPLEMENTED;                                \
    PyObject *call = registered(#name);                                                            \
    return call ? PyObject_CallFunctionObjArgs(call, a, b, NULL) : NULL;                           \
  }

THROUGH(floor_divide)
THROUGH(remainder)

static PyObject *array_compare(PyObject *a, PyObject *b, int how) {
  const operation calls[] = {[Py_LT] = operation_less,    [Py_LE] = operation_less_equal,
                             [Py_EQ] = operation_equal,   [Py_NE] = operation_not_equal,
                             [Py_GT] = operation_greater, [Py_GE] = operation_greater_equal};
  static const char *const names[] = {
      [Py_LT] = "less", [Py_LE] = "less_equal", [Py_GT] = "greater", [Py_GE] = "greater_equal"};
  if (how == Py_EQ || how == Py_NE || (dtype_of(a) != COMPUTE_U64 && dtype_of(b) != COMPUTE_U64))
    return binary(a, b, calls[how]);
  if (!is_operand(a) || !is_operand(b)) Py_RETURN_NOTIMPLEMENTED;
  PyObject *call = registered(names[how]); /* u64 is ordered by the package */
  return call ? PyObject_CallFunctionObjArgs(call, a, b, NULL) : NULL;
}

/* Nodes are keys of dictionaries: == asks whether two are the same node. */
static PyObject *node_compare(PyObject *a, PyObject *b, int how) {
  if (how != Py_EQ && how != Py_NE) return array_compare(a, b, how);
  if (!is_kind(b, KIND_NODE)) Py_RETURN_NOTIMPLEMENTED;
  const compute_node x = ((node_object *)a)->node, y = ((node_object *)b)->node;
  return PyBool_FromLong((x.id == y.id && x.graph == y.graph) == (how == Py_EQ));
}

static Py_hash_t node_hash(PyObject *self) {
  const compute_node x = ((node_object *)self)->node;
  return (Py_hash_t)x.graph * 1000003 + x.id;
}

static PyObject *subscript(PyObject *self, PyObject *key) {
  PyObject *call = registered("getitem");
  return call ? PyObject_CallFunctionObjArgs(call, self, key, NULL) : NULL;
}

static int assign_subscript(PyObject *self, PyObject *key, PyObject *value) {
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "elements of arrays cannot be deleted");
    return -1;
  }
  PyObject *call = registered("setitem");
  PyObject *done = call ? PyObject_CallFunctionObjArgs(call, self, key, value, NULL) : NULL;
  Py_XDECREF(done);
  return done ? 0 : -1;
}

static PyObject *array_repr(PyObject *self) {
  PyObject *call = registered("repr");
  return call ? PyObject_CallFunctionObjArgs(call, self, NULL) : NULL;
}

#define OPERATORS                                                                                  \
  {Py_nb_add, slot_add}, {Py_nb_subtract, slot_subtract}, {Py_nb_multiply, slot_multiply},         \
      {Py_nb_matrix_multiply, slot_matmul}, {Py_nb_true_divide, slot_divide},                      \
      {Py_nb_floor_divide, slot_floor_divide}, {Py_nb_remainder, slot_remainder},                  \
      {Py_nb_power, slot_power}, {Py_nb_lshift, slot_left}, {Py_nb_rshift, slot_right},            \
      {Py_nb_and, slot_and}, {Py_nb_or, slot_or}, {Py_nb_xor, slot_xor},                           \
      {Py_nb_negative, slot_negative}, {Py_nb_positive, slot_positive},                            \
      {Py_nb_absolute, slot_absolute}, {Py_nb_invert, slot_invert}, {                              \
    Py_mp_subscript, subscript                                                                     \
  }

PyType_Slot array_slots[] = {OPERATORS,
                             {Py_mp_ass_subscript, assign_subscript},
                             {Py_mp_length, array_length},
                             {Py_nb_float, array_float},
                             {Py_nb_int, array_int},
                             {Py_nb_index, array_index},
                             {Py_nb_bool, array_bool},
                             {Py_tp_richcompare, array_compare},
                             {Py_tp_hash, PyObject_HashNotImplemented},
                             {Py_tp_repr, array_repr},
                             {Py_tp_getset, array_members},
                             {Py_tp_methods, array_methods},
                             {Py_bf_getbuffer, array_get_buffer},
                             {Py_bf_releasebuffer, array_release_buffer},
                             {0, NULL}};

/* ---- Attributes of nodes ------------------------------------------------------------------- */

static compute_graph *graph_of(PyObject *self) {
  return ((object *)((node_object *)self)->graph)->handle;
}

static PyObject *node_shape(PyObject *self, void *unused) {
  (void)unused;
  return shape_tuple(compute_node_shape(graph_of(self), ((node_object *)self)->node));
}

static PyObject *node_dtype(PyObject *self, void *unused) {
  (void)unused;
  return dtype_object(dtype_of(self));
}

static PyObject *node_ndim(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLong(compute_node_shape(graph_of(self), ((node_object *)self)->node).rank);
}

static PyObject *node_graph(PyObject *self, void *unused) {
  (void)unused;
  return Py_NewRef(((node_object *)self)->graph);
}

static PyObject *node_repr(PyObject *self) {
  PyObject *shape = node_shape(self, NULL);
  PyObject *text =
      shape ? PyUnicode_FromFormat("Node(%S, %s)", shape, compute_dtype_name(dtype_of(self)))
            : NULL;
  Py_XDECREF(shape);
  return text;
}

static int node_bool(PyObject *self) {
  (void)self;
  PyErr_SetString(PyExc_TypeError, "a node has no value before a plan runs");
  return -1;
}

static PyObject *node_name(PyObject *self, PyObject *name) {
  scratch s = {0};
  const char *text = NULL;
  const node_object *n = (node_object *)self;
  if (to_text(name, &s, &text)) return NULL;
  const compute_node named = compute_name(graph_of(self), n->node, text);
  PyObject *result = node_new(n->graph, named);
  scratch_end(&s);
  return result;
}

static PyMethodDef node_methods[] = {
    {"named", node_name, METH_O,
     "named($self, name)\n--\n\nNames the node, for messages and saved weights. Returns it."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef node_members[] = {{"shape", node_shape, NULL, "sizes of the axes", NULL},
                                     {"dtype", node_dtype, NULL, "type of the elements", NULL},
                                     {"ndim", node_ndim, NULL, "number of axes", NULL},
                                     {"graph", node_graph, NULL, "its graph", NULL},
                                     {NULL, NULL, NULL, NULL, NULL}};

PyType_Slot node_slots[] = {OPERATORS,
                            {Py_tp_richcompare, node_compare},
                            {Py_tp_hash, node_hash},
                            {Py_nb_bool, node_bool},
                            {Py_tp_repr, node_repr},
                            {Py_tp_getset, node_members},
                            {Py_tp_methods, node_methods},
                            {0, NULL}};
