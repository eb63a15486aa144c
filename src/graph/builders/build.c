/* SPDX-License-Identifier: MIT */
/* The common part of all builders: checks of operands, and new nodes. */
#include "graph/builders/build.h"

#include <stdlib.h>
#include <string.h>
#include <inttypes.h>
#include <math.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"

bool build_start(compute_graph *graph, const char *operation) {
  if (!graph) {
    error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "graph is NULL");
    return false;
  }
  if (context_is_inherited(graph->context)) {
    context_refuse(graph->context, operation);
    return false;
  }
  return graph->status == COMPUTE_OK;
}

bool build_operands(compute_graph *graph, const char *operation, const compute_node *operands,
                    size_t count, uint32_t *indices) {
  if (!build_start(graph, operation)) return false;
  for (size_t i = 0; i < count; i++) {
    if (operands[i].id == 0) {
      return graph_refuse(graph, COMPUTE_ERROR_WRONG_GRAPH, operation,
                          "operand %zu is {0}, the result of a failed call", i);
    }
    int64_t index = graph_resolve(graph, operands[i], operation);
    if (index < 0) return false;
    graph_op op = graph->nodes[index].op;
    if (op == OP_assign || op == OP_group) {
      return graph_refuse(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                          "operand %zu comes from %s, which has no value", i,
                          graph_op_describe(op)->name);
    }
    indices[i] = (uint32_t)index;
  }
  return true;
}

bool build_dtype(compute_graph *graph, const char *operation, compute_dtype dtype) {
  if (dtype_is_valid(dtype)) return true;
  return graph_refuse(graph, COMPUTE_ERROR_DTYPE, operation, "invalid dtype %d", (int)dtype);
}

bool build_domain(compute_graph *graph, const char *operation, graph_domain domain,
                  compute_dtype dtype) {
  bool is_float = dtype_is_float(dtype), is_integer = dtype_is_integer(dtype);
  bool fits = true;
  const char *wanted = "";
  switch (domain) {
  case DOMAIN_FLOAT: fits = is_float, wanted = "a float"; break;
  case DOMAIN_ORDERED:
  case DOMAIN_NUMBER: fits = is_float || is_integer, wanted = "a number"; break;
  case DOMAIN_ORDERED_INTEGER:
  case DOMAIN_INTEGER: fits = is_integer, wanted = "an integer"; break;
  case DOMAIN_LOGIC: fits = dtype == COMPUTE_BOOL, wanted = "a bool"; break;
  case DOMAIN_BYTE:
    fits = dtype == COMPUTE_I8 || dtype == COMPUTE_U8, wanted = "an i8 or u8";
    break;
  case DOMAIN_ANY: break;
  }
  const bool ordered = domain == DOMAIN_ORDERED || domain == DOMAIN_ORDERED_INTEGER;
  if (ordered && dtype == COMPUTE_U64) {
    return graph_refuse(
        graph, COMPUTE_ERROR_DTYPE, operation,
        "u64 computes as i64, which orders values from 2^63 on differently; cast to i64");
  }
  if (!fits) {
    graph_fail(graph, COMPUTE_ERROR_DTYPE, operation, "needs %s dtype, not %s", wanted,
               compute_dtype_name(dtype));
  }
  return fits;
}

bool build_same_dtype(compute_graph *graph, const char *operation, compute_dtype a,
                      compute_dtype b) {
  if (a == b) return true;
  return graph_refuse(
      graph, COMPUTE_ERROR_DTYPE, operation,
      "dtypes differ: %s and %s; convert one with compute_cast or compute_tensor_cast",
      compute_dtype_name(a), compute_dtype_name(b));
}

bool build_shape(compute_graph *graph, const char *operation, compute_shape shape) {
  if (shape.rank < 0 || shape.rank > COMPUTE_MAX_RANK) {
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation, "rank %d is outside 0 … %d",
                        shape.rank, COMPUTE_MAX_RANK);
  }
  int64_t count;
  const compute_status status = compute_shape_count(shape, &count);
  if (status == COMPUTE_OK) return true;
  char text[BUILD_TEXT];
  compute_shape_text(shape, text, sizeof text);
  if (status == COMPUTE_ERROR_OVERFLOW) {
    graph_fail(graph, status, operation, "the number of elements of %s exceeds 63 bits", text);
  } else {
    graph_fail(graph, status, operation, "shape %s has a negative size", text);
  }
  return false;
}

static const struct {
  const char *name;
  graph_domain domain;
} compositions[] = {
#define COMPOSED(name, form, domain, ...) [COMPOSITION_##name] = {#name, DOMAIN_##domain},
#include "graph/ops.def"
};

const char *build_composition_name(build_composition of) {
  return compositions[of].name;
}

bool build_composed(compute_graph *graph, build_composition of, const compute_node *operands,
                    size_t count, uint32_t *indices) {
  const char *operation = compositions[of].name;
  if (!build_operands(graph, operation, operands, count, indices)) return false;
  for (size_t i = 0; i < count; i++) {
    const compute_dtype dtype = build_at(graph, indices[i])->dtype;
    if (!build_domain(graph, operation, compositions[of].domain, dtype) ||
        !build_same_dtype(graph, operation, build_at(graph, indices[0])->dtype, dtype))
      return false;
  }
  return true;
}

bool build_axis(compute_graph *graph, const char *operation, compute_shape shape, int32_t axis,
                int32_t *result) {
  int32_t from_zero = shape_axis(shape.rank, axis);
  if (from_zero < 0) {
    char text[BUILD_TEXT];
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                        "axis %d is outside the %d axes of %s", axis, shape.rank,
                        compute_shape_text(shape, text, sizeof text));
  }
  *result = from_zero;
  return true;
}

bool build_axes(compute_graph *graph, const char *operation, compute_shape shape, compute_axes axes,
                uint32_t *mask) {
  if (shape_axes_mask(shape.rank, axes, mask)) return true;
  if (axes.count < 0 || axes.count > COMPUTE_MAX_RANK) {
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                        "a list of %d axes; it may have 0 … %d, or be COMPUTE_NO_AXES", axes.count,
                        COMPUTE_MAX_RANK);
  }
  for (int32_t i = 0; i < axes.count; i++) {
    int32_t axis;
    if (!build_axis(graph, operation, shape, axes.axis[i], &axis)) return false;
    for (int32_t j = 0; j < i; j++) {
      if (shape_axis(shape.rank, axes.axis[j]) == axis) {
        return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation, "axis %d is named twice", axis);
      }
    }
  }
  return false;
}

bool build_size(compute_graph *graph, const char *operation, compute_shape shape) {
  if (!build_shape(graph, operation, shape)) return false;
  if (shape_fits_memory(shape)) return true;
  char text[BUILD_TEXT];
  return graph_refuse(graph, COMPUTE_ERROR_OVERFLOW, operation,
                      "%s has 2^55 elements or more, too large for any memory",
                      compute_shape_text(shape, text, sizeof text));
}

/* Allocates everything that a new node needs; only the shape check can still fail. After a failure
 * the graph is unchanged. */
static bool reserve(compute_graph *graph, const uint32_t *inputs, size_t count, uint32_t **copy) {
  void *nodes = graph->nodes;
  if (base_grow(&nodes, &graph->capacity, graph->count + 1, sizeof *graph->nodes)) return false;
  graph->nodes = nodes;
  *copy = NULL;
  if (count == 0) return true;
  *copy = base_allocate(count, sizeof **copy);
  if (!*copy) return false;
  memcpy(*copy, inputs, count * sizeof **copy);
  return true;
}

compute_node build_node(compute_graph *graph, const char *operation, const graph_node *node,
                        const uint32_t *inputs, size_t count) {
  uint32_t *copy;
  if (!build_size(graph, operation, node->shape)) goto failed;
  if (graph->count >= UINT32_MAX - 1 || count > UINT32_MAX) {
    graph_fail(graph, COMPUTE_ERROR_OVERFLOW, operation, "the graph has too many nodes");
    goto failed;
  }
  if (!reserve(graph, inputs, count, &copy)) {
    graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "not enough memory for another node");
    goto failed;
  }
  graph_node *added = &graph->nodes[graph->count];
  *added = *node;
  added->shape = shape_normalize(node->shape);
  added->inputs = copy;
  added->input_count = (uint32_t)count;
  return graph_handle(graph, graph->count++);

failed:
  graph_constant_release(node->constant);
  compute_tensor_release(node->tensor);
  return BUILD_NONE;
}

void build_whole(compute_graph *graph, compute_node result, graph_whole_kind kind,
                 const compute_node *operands, size_t count) {
  if (graph->status) return;
  graph_whole *whole = &graph->nodes[result.id - 1].whole;
  whole->kind = kind;
  for (size_t i = 0; i < GRAPH_WHOLE_OPERANDS; i++)
    whole->operands[i] = i < count && operands[i].id != 0 ? operands[i].id - 1 : GRAPH_NO_OPERAND;
}

void build_origin(compute_graph *graph, size_t first, const graph_origin *origin) {
  for (size_t i = first; i < graph->count; i++)
    if (graph_is_indexed(graph->nodes[i].op)) graph->nodes[i].origin = *origin;
}

static int by_tensor(const void *a, const void *b) {
  const build_target *x = a, *y = b;
  if (x->tensor != y->tensor) return (uintptr_t)x->tensor < (uintptr_t)y->tensor ? -1 : 1;
  return x->number < y->number ? -1 : x->number > y->number;
}

bool build_find_repeated(build_target *targets, size_t count, size_t *first, size_t *second) {
  bool found = false;
  qsort(targets, count, sizeof *targets, by_tensor);
  for (size_t i = 1; i < count; i++) {
    if (targets[i].tensor != targets[i - 1].tensor) continue;
    if (found && targets[i].number > *second) continue;
    *first = targets[i - 1].number;
    *second = targets[i].number;
    found = true;
  }
  return found;
}

/* ---- Numbers among the arguments ------------------------------------------------------------- */

/* Numeric arguments of builders. A value that the dtype cannot represent is refused here, with the
 * argument's name. It is not rounded or wrapped, and no later stage has to detect it. */

bool build_range(compute_graph *graph, const char *operation, int64_t size, int64_t count,
                 int64_t step, int64_t *start) {
  char text[SHAPE_RANGE_TEXT];
  const compute_status status = shape_range(size, count, step, start, text, sizeof text);
  if (status) graph_fail(graph, status, operation, "%s", text);
  return status == COMPUTE_OK;
}

bool build_element_of(compute_graph *graph, const char *operation, const char *name,
                      compute_dtype dtype, double value, build_element *element) {
  char text[DTYPE_REFUSAL];
  if (!dtype_holds(dtype, value)) {
    return graph_refuse(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "%s is %s", name,
                        dtype_refusal(dtype, value, text, sizeof text));
  }
  *element = (build_element){{0}};
  dtype_store(dtype, element->bytes, value);
  return true;
}

bool build_element_of_i64(compute_graph *graph, const char *operation, const char *name,
                          compute_dtype dtype, int64_t value, build_element *element) {
  char text[DTYPE_REFUSAL];
  if (!dtype_holds_integer(dtype, value)) {
    return graph_refuse(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "%s is %s", name,
                        dtype_refusal_integer(dtype, value, text, sizeof text));
  }
  *element = (build_element){{0}};
  dtype_store_integer(dtype, element->bytes, value);
  return true;
}

bool build_number(compute_graph *graph, const char *operation, const char *name,
                  compute_dtype dtype, double value) {
  FLOAT_ENVIRONMENT_DEFAULT;
  build_element unused;
  if (isfinite(value)) return build_element_of(graph, operation, name, dtype, value, &unused);
  return graph_refuse(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                      "%s is %g; it must be finite", name, value);
}

bool build_epsilon(compute_graph *graph, const char *operation, compute_dtype dtype,
                   double epsilon) {
  FLOAT_ENVIRONMENT_DEFAULT;
  if (isfinite(epsilon) && epsilon >= 0)
    return build_number(graph, operation, "epsilon", dtype, epsilon);
  return graph_refuse(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                      "epsilon is %g; it must be finite and not negative", epsilon);
}

/* ---- Constants of one value ------------------------------------------------------------------ */

compute_node build_uniform(compute_graph *graph, const char *operation, compute_dtype dtype,
                           compute_shape shape, const build_element *element) {
  const size_t size = compute_dtype_size(dtype);
  void *copy = graph_constant_create(1, size);
  if (!copy) return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
  memcpy(copy, element->bytes, size);
  graph_node node = {
      .op = OP_constant, .dtype = dtype, .shape = shape, .constant = copy, .uniform = true};
  return build_node(graph, operation, &node, NULL, 0);
}

static compute_node fill(compute_graph *graph, const char *operation, compute_dtype dtype,
                         compute_shape shape, double value) {
  build_element element;
  if (!build_start(graph, operation) || !build_dtype(graph, operation, dtype) ||
      !build_element_of(graph, operation, "value", dtype, value, &element)) {
    return BUILD_NONE;
  }
  return build_uniform(graph, operation, dtype, shape, &element);
}

static compute_node fill_i64(compute_graph *graph, const char *operation, compute_dtype dtype,
                             compute_shape shape, int64_t value) {
  build_element element;
  if (!build_start(graph, operation) || !build_dtype(graph, operation, dtype) ||
      !build_element_of_i64(graph, operation, "value", dtype, value, &element)) {
    return BUILD_NONE;
  }
  return build_uniform(graph, operation, dtype, shape, &element);
}

compute_node compute_scalar(compute_graph *graph, compute_dtype dtype, double value) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return fill(graph, "scalar", dtype, COMPUTE_SCALAR, value);
}

compute_node compute_scalar_i64(compute_graph *graph, compute_dtype dtype, int64_t value) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return fill_i64(graph, "scalar_i64", dtype, COMPUTE_SCALAR, value);
}

compute_node compute_full(compute_graph *graph, compute_dtype dtype, compute_shape shape,
                          double value) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return fill(graph, "full", dtype, shape, value);
}

compute_node compute_full_i64(compute_graph *graph, compute_dtype dtype, compute_shape shape,
                              int64_t value) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return fill_i64(graph, "full_i64", dtype, shape, value);
}

/* ---- Clamp ----------------------------------------------------------------------------------- */
