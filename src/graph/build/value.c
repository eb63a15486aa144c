/* Numbers among a builder's arguments: what the dtype at hand cannot hold is refused here, by the
 * name of the argument, rather than rounded, wrapped or found out by a later stage. */
#include "graph/build/build.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "type/dtype.h"
#include "type/shape.h"

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
    graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "%s is %s", name,
               dtype_refusal(dtype, value, text, sizeof text));
    return false;
  }
  *element = (build_element){{0}};
  dtype_store(dtype, element->bytes, value);
  return true;
}

bool build_element_of_i64(compute_graph *graph, const char *operation, const char *name,
                          compute_dtype dtype, int64_t value, build_element *element) {
  char text[DTYPE_REFUSAL];
  if (!dtype_holds_integer(dtype, value)) {
    graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "%s is %s", name,
               dtype_refusal_integer(dtype, value, text, sizeof text));
    return false;
  }
  *element = (build_element){{0}};
  dtype_store_integer(dtype, element->bytes, value);
  return true;
}

bool build_number(compute_graph *graph, const char *operation, const char *name,
                  compute_dtype dtype, double value) {
  build_element unused;
  if (isfinite(value)) return build_element_of(graph, operation, name, dtype, value, &unused);
  graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "%s is %g; it must be finite", name,
             value);
  return false;
}

bool build_epsilon(compute_graph *graph, const char *operation, compute_dtype dtype,
                   double epsilon) {
  if (isfinite(epsilon) && epsilon >= 0)
    return build_number(graph, operation, "epsilon", dtype, epsilon);
  graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
             "epsilon is %g; it must be finite and not negative", epsilon);
  return false;
}

/* ---- Constants of one value ---------------------------------------------------------------- */

compute_node build_uniform(compute_graph *graph, const char *operation, compute_dtype dtype,
                           compute_shape shape, const build_element *element) {
  const size_t size = compute_dtype_size(dtype);
  void *copy = graph_constant_create(1, size);
  if (!copy) return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "no memory");
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
  return fill(graph, "scalar", dtype, COMPUTE_SCALAR, value);
}

compute_node compute_scalar_i64(compute_graph *graph, compute_dtype dtype, int64_t value) {
  return fill_i64(graph, "scalar_i64", dtype, COMPUTE_SCALAR, value);
}

compute_node compute_full(compute_graph *graph, compute_dtype dtype, compute_shape shape,
                          double value) {
  return fill(graph, "full", dtype, shape, value);
}

compute_node compute_full_i64(compute_graph *graph, compute_dtype dtype, compute_shape shape,
                              int64_t value) {
  return fill_i64(graph, "full_i64", dtype, shape, value);
}

/* ---- Clamp --------------------------------------------------------------------------------- */

static compute_node fail_limits(compute_graph *graph, compute_dtype dtype, double low,
                                double high) {
  return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, "clamp", "no %s value lies in %g … %g",
                    compute_dtype_name(dtype), low, high);
}

static compute_node clamp_between(compute_graph *graph, compute_node x, compute_dtype dtype,
                                  const build_element *low, const build_element *high) {
  compute_node from = build_uniform(graph, "clamp", dtype, COMPUTE_SCALAR, low);
  compute_node raised = compute_maximum(graph, x, from);
  return compute_minimum(graph, raised, build_uniform(graph, "clamp", dtype, COMPUTE_SCALAR, high));
}

/* Limits outside the dtype's range leave every value as it is. */
static compute_node clamp_integers(compute_graph *graph, compute_node x, compute_dtype dtype,
                                   int64_t low, int64_t high) {
  int64_t least, most;
  dtype_limits(dtype, &least, &most);
  const int64_t from = max_i64(low, least), to = min_i64(high, most);
  if (from > to) {
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, "clamp",
                      "no %s value lies in %" PRId64 " … %" PRId64, compute_dtype_name(dtype), low,
                      high);
  }
  build_element first = {{0}}, last = {{0}};
  dtype_store_integer(dtype, first.bytes, from);
  dtype_store_integer(dtype, last.bytes, to);
  return clamp_between(graph, x, dtype, &first, &last);
}

/* A finite limit may round to an infinite one, which then limits nothing, unless all that the other
 * limit leaves lies beyond the dtype's range. */
static compute_node clamp_floats(compute_graph *graph, compute_node x, compute_dtype dtype,
                                 double low, double high) {
  build_element first = {{0}}, last = {{0}};
  dtype_store(dtype, first.bytes, low);
  dtype_store(dtype, last.bytes, high);
  const bool above = isfinite(high) && dtype_load(dtype, first.bytes) == INFINITY;
  const bool below = isfinite(low) && dtype_load(dtype, last.bytes) == -INFINITY;
  if (!(low <= high) || above || below) return fail_limits(graph, dtype, low, high);
  return clamp_between(graph, x, dtype, &first, &last);
}

static bool clamp_operand(compute_graph *graph, compute_node x, compute_dtype *dtype) {
  uint32_t input;
  if (!build_operands(graph, "clamp", &x, 1, &input)) return false;
  *dtype = build_at(graph, input)->dtype;
  return build_domain(graph, "clamp", DOMAIN_NUMBER, *dtype);
}

compute_node compute_clamp(compute_graph *graph, compute_node x, double low, double high) {
  BUILD_ALL_OR_NOTHING(graph);
  compute_dtype dtype;
  if (!clamp_operand(graph, x, &dtype)) return BUILD_NONE;
  if (dtype_is_float(dtype)) return clamp_floats(graph, x, dtype, low, high);
  const double from = ceil(low), to = floor(high);
  if (!(from <= to) || from >= 0x1p63 || to < -0x1p63) return fail_limits(graph, dtype, low, high);
  return clamp_integers(graph, x, dtype, from < -0x1p63 ? INT64_MIN : (int64_t)from,
                        to >= 0x1p63 ? INT64_MAX : (int64_t)to);
}

compute_node compute_clamp_i64(compute_graph *graph, compute_node x, int64_t low, int64_t high) {
  BUILD_ALL_OR_NOTHING(graph);
  compute_dtype dtype;
  build_element first, last;
  if (!clamp_operand(graph, x, &dtype)) return BUILD_NONE;
  if (!dtype_is_float(dtype)) return clamp_integers(graph, x, dtype, low, high);
  if (!build_element_of_i64(graph, "clamp", "low", dtype, low, &first) ||
      !build_element_of_i64(graph, "clamp", "high", dtype, high, &last)) {
    return BUILD_NONE;
  }
  if (low > high) return fail_limits(graph, dtype, (double)low, (double)high);
  return clamp_between(graph, x, dtype, &first, &last);
}
