/* SPDX-License-Identifier: MIT */
/* Operands of operations: arrays, nodes of a graph, and Python's numbers. */
#include "glue.h"

#include <string.h>

/* ---- Collecting ---------------------------------------------------------------------------- */

static int use_graph(operands *o, PyObject *graph) {
  if (((object *)graph)->busy) {
    PyErr_SetString(PyExc_RuntimeError, "another call is using this graph");
    return -1;
  }
  if (!o->graph_object) {
    o->graph_object = graph;
    o->graph = ((object *)graph)->handle;
    o->context = context_of(graph);
  }
  return 0; /* the library refuses nodes of another graph */
}

static int add_array(operands *o, int at, PyObject *value) {
  o->tensor[at] = ((object *)value)->handle;
  o->array[at] = true;
  if (!o->context) o->context = context_of(value);
  return 0;
}

int operands_add(operands *o, PyObject *value, const char *name) {
  const int at = o->count++;
  if (is_kind(value, KIND_TENSOR)) return add_array(o, at, value);
  if (is_kind(value, KIND_NODE)) {
    o->node[at] = ((node_object *)value)->node;
    return use_graph(o, ((node_object *)value)->graph);
  }
  if (PyFloat_Check(value) || PyLong_Check(value)) {
    o->number[at] = value;
    return 0;
  }
  PyErr_Format(PyExc_TypeError, "%s must be an Array, a Node or a number, not %R", name,
               Py_TYPE(value));
  return -1;
}

int operands_typed(operands *o, PyObject *value, const char *name, compute_dtype dtype) {
  o->typed[o->count] = dtype;
  return operands_add(o, value, name);
}

int operands_maybe(operands *o, PyObject *value) {
  if (value) return operands_add(o, value, "an operand");
  o->count++;
  return 0;
}

int operands_list(operands *o, PyObject *values, scratch *s, const char *name) {
  PyObject *list = PySequence_Tuple(values);
  if (!list) return -1;
  const size_t count = (size_t)PyTuple_Size(list);
  compute_node *nodes = scratch_memory(s, (count + 1) * sizeof *nodes);
  compute_tensor **tensors = scratch_memory(s, (count + 1) * sizeof *tensors);
  int result = nodes && tensors ? scratch_keep(s, list) : -1;
  bool arrays = false;
  for (size_t i = 0; !result && i < count; i++) {
    PyObject *value = PyTuple_GetItem(list, (Py_ssize_t)i);
    if (is_kind(value, KIND_TENSOR)) {
      tensors[i] = ((object *)value)->handle;
      if (!o->context) o->context = context_of(value);
      arrays = true;
    } else if (is_kind(value, KIND_NODE)) {
      nodes[i] = ((node_object *)value)->node;
      result = use_graph(o, ((node_object *)value)->graph);
    } else {
      PyErr_Format(PyExc_TypeError, "%s must be Arrays or Nodes, not %R", name, Py_TYPE(value));
      result = -1;
    }
  }
  Py_DECREF(list);
  if (!result && arrays && o->graph) {
    PyErr_Format(PyExc_TypeError, "%s are Arrays and Nodes: make the arrays parameters", name);
    result = -1;
  }
  o->list[o->lists] = nodes;
  o->tensors[o->lists] = tensors;
  o->list_count[o->lists++] = count;
  return result;
}

/* ---- One dtype ----------------------------------------------------------------------------- */

static bool is_float(compute_dtype d) {
  return d == COMPUTE_F64 || d == COMPUTE_F32 || d == COMPUTE_F16 || d == COMPUTE_BF16;
}

static bool is_unsigned(compute_dtype d) {
  return d == COMPUTE_U8 || d == COMPUTE_U16 || d == COMPUTE_U32 || d == COMPUTE_U64;
}

/* The array API standard's table; COMPUTE_DTYPE_NONE where it has none. */
static compute_dtype promote(compute_dtype a, compute_dtype b) {
  static const compute_dtype with_sign[] = {0, COMPUTE_I8, COMPUTE_I16, 0,          COMPUTE_I32,
                                            0, 0,          0,           COMPUTE_I64};
  if (a == b) return a;
  if (a == COMPUTE_BOOL || b == COMPUTE_BOOL || is_float(a) != is_float(b))
    return COMPUTE_DTYPE_NONE;
  const size_t bytes_a = compute_dtype_size(a), bytes_b = compute_dtype_size(b);
  if (is_float(a)) return bytes_a == bytes_b ? COMPUTE_F32 : bytes_a > bytes_b ? a : b;
  if (is_unsigned(a) == is_unsigned(b)) return bytes_a > bytes_b ? a : b;
  const size_t plain = is_unsigned(a) ? bytes_a : bytes_b; /* of the one without a sign */
  const size_t other = is_unsigned(a) ? bytes_b : bytes_a;
  if (plain == 8) return COMPUTE_DTYPE_NONE;
  return with_sign[2 * plain > other ? 2 * plain : other];
}

static compute_dtype dtype_of(const operands *o, int i) {
  return o->graph ? compute_node_dtype(o->graph, o->node[i]) : compute_tensor_dtype(o->tensor[i]);
}

static bool is_present(const operands *o, int i) {
  return o->graph ? o->node[i].id != 0 : o->tensor[i] != NULL;
}

static int cast_one(operands *o, int i, compute_dtype dtype) {
  if (o->graph) {
    o->node[i] = compute_cast(o->graph, o->node[i], dtype);
    return 0;
  }
  compute_tensor *made = NULL;
  compute_status status;
  PyThreadState *const unlocked = PyEval_SaveThread();
  status = compute_tensor_cast(o->tensor[i], dtype, &made);
  PyEval_RestoreThread(unlocked);
  if (status) {
    fail(status);
    return -1;
  }
  o->tensor[i] = o->made[o->made_count++] = made;
  return 0;
}

static int number_integer(operands *o, int i, compute_dtype dtype, compute_device *device) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(o->number[i], &overflow);
  if (overflow) {
    PyErr_Format(PyExc_OverflowError, "%R is out of range", o->number[i]);
    return -1;
  }
  if (o->graph) {
    o->node[i] = compute_scalar_i64(o->graph, dtype, value);
    return 0;
  }
  compute_tensor *made = NULL;
  const compute_status status =
      compute_tensor_full_i64(device, dtype, COMPUTE_SCALAR, value, &made);
  if (status)
    fail(status);
  else
    o->tensor[i] = o->made[o->made_count++] = made;
  return status ? -1 : 0;
}

/* A number takes the dtype of the other operands, unless its operand has one. */
static int number_one(operands *o, int i, compute_dtype dtype, compute_device *device) {
  if (PyFloat_Check(o->number[i]) && !is_float(dtype)) {
    PyErr_SetString(PyExc_TypeError, "a float with an operand of integers; cast that first");
    return -1;
  }
  if (PyLong_Check(o->number[i]) && !PyBool_Check(o->number[i]) && dtype == COMPUTE_BOOL) {
    PyErr_SetString(PyExc_TypeError, "an integer with an operand of bool; cast that first");
    return -1;
  }
  if (!is_float(dtype)) return number_integer(o, i, dtype, device);
  const double value = PyFloat_AsDouble(o->number[i]);
  if (value == -1.0 && PyErr_Occurred()) return -1;
  if (o->graph) {
    o->node[i] = compute_scalar(o->graph, dtype, value);
    return 0;
  }
  compute_tensor *made = NULL;
  const compute_status status = compute_tensor_full(device, dtype, COMPUTE_SCALAR, value, &made);
  if (status)
    fail(status);
  else
    o->tensor[i] = o->made[o->made_count++] = made;
  return status ? -1 : 0;
}

/* Lists have no numbers, and the library compares the dtypes of their operands. */
int operands_unify(operands *o, unsigned mask) {
  compute_dtype common = COMPUTE_DTYPE_NONE, first = COMPUTE_DTYPE_NONE;
  compute_device *device = NULL;
  bool numbers = false, differ = false;
  for (int i = 0; i < o->count; i++) {
    if (o->graph && o->array[i]) {
      PyErr_SetString(PyExc_TypeError, "an Array and a Node: make the array a parameter");
      return -1;
    }
    if (o->number[i]) {
      numbers = true;
    } else if (is_present(o, i)) {
      const compute_dtype dtype = dtype_of(o, i);
      if (!first) first = dtype;
      if (!device && !o->graph) device = compute_tensor_device(o->tensor[i]);
      if (mask >> i & 1) {
        differ = differ || (common && common != dtype);
        common = common ? promote(common, dtype) : dtype;
        if (!common) return 0; /* the library names both dtypes */
      }
    }
  }
  if (!first && o->count && o->lists == 0) {
    PyErr_SetString(PyExc_TypeError, "one operand must be an Array or a Node");
    return -1;
  }
  for (int i = 0; numbers && i < o->count; i++) {
    const compute_dtype others = mask >> i & 1 && common ? common : first;
    if (o->number[i] && number_one(o, i, o->typed[i] ? o->typed[i] : others, device)) return -1;
  }
  for (int i = 0; differ && i < o->count; i++) {
    if (mask >> i & 1 && !o->number[i] && dtype_of(o, i) != common && cast_one(o, i, common))
      return -1;
  }
  return 0;
}

/* ---- Results ------------------------------------------------------------------------------- */

PyObject *operands_node(operands *o, compute_node made) {
  return node_new(o->graph_object, made);
}

PyObject *operands_nodes(operands *o, compute_node made, int count, const compute_node *more) {
  PyObject *tuple = PyTuple_New(count + 1);
  for (int i = 0; tuple && i <= count; i++) {
    const compute_node node = i ? more[i - 1] : made;
    PyObject *one = i && made.id && !node.id ? Py_NewRef(Py_None) : operands_node(o, node);
    if (!one || PyTuple_SetItem(tuple, i, one)) Py_CLEAR(tuple);
  }
  return tuple;
}

PyObject *operands_tensor(operands *o, compute_status status, compute_tensor *made) {
  return status ? fail(status) : array_object(made, o->context);
}

/* A tuple of the results. Takes over the tensors. */
PyObject *operands_tensors(operands *o, compute_status status, int count, compute_tensor **made) {
  if (status) return fail(status);
  PyObject *tuple = PyTuple_New(count);
  for (int i = 0; i < count; i++) {
    PyObject *one = operands_tensor(o, COMPUTE_OK, made[i]);
    if (!tuple)
      Py_XDECREF(one);
    else if (!one || PyTuple_SetItem(tuple, i, one))
      Py_CLEAR(tuple);
  }
  return tuple;
}

void operands_refuse(const form *f) {
  PyErr_Format(PyExc_TypeError, "%s is an operation of graphs: its operands are Nodes", f->name);
}

void operands_end(operands *o) {
  for (int i = 0; i < o->made_count; i++) compute_tensor_release(o->made[i]);
}

int to_node(PyObject *value, PyObject *graph, compute_node *result) {
  if (!is_kind(value, KIND_NODE)) {
    PyErr_Format(PyExc_TypeError, "a Node is needed, not %R", Py_TYPE(value));
    return -1;
  }
  *result = ((node_object *)value)->node;
  if (!graph || ((node_object *)value)->graph == graph) return 0;
  PyErr_SetString(PyExc_ValueError, "a node of another graph");
  return -1;
}
