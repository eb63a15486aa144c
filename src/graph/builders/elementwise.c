/* SPDX-License-Identifier: MIT */
/* Builders of sources (build.c has the constants of one value), of all elementwise operations of
 * ops.def, and of cast. */
#include "graph/builders/build.h"

#include <string.h>
#include <inttypes.h>
#include <math.h>

#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "core/base/arithmetic.h"
#include "core/base/float_environment.h"

/* ---- Sources --------------------------------------------------------------------------------- */

compute_node compute_input(compute_graph *graph, compute_dtype dtype, compute_shape shape) {
  static const char operation[] = "input";
  if (!build_start(graph, operation) || !build_dtype(graph, operation, dtype)) return BUILD_NONE;
  graph_node node = {.op = OP_input, .dtype = dtype, .shape = shape};
  return build_node(graph, operation, &node, NULL, 0);
}

compute_node compute_parameter(compute_graph *graph, compute_tensor *tensor) {
  static const char operation[] = "parameter";
  if (!build_start(graph, operation)) return BUILD_NONE;
  if (!tensor) return graph_fail(graph, COMPUTE_ERROR_NULL_POINTER, operation, "tensor is NULL");
  if (compute_device_context(compute_tensor_device(tensor)) != graph->context) {
    return graph_fail(graph, COMPUTE_ERROR_WRONG_CONTEXT, operation,
                      "the tensor belongs to another context than the graph");
  }
  graph_node node = {.op = OP_parameter,
                     .dtype = compute_tensor_dtype(tensor),
                     .shape = compute_tensor_shape(tensor),
                     .tensor = compute_tensor_retain(tensor)};
  return build_node(graph, operation, &node, NULL, 0);
}

/* A bool is 0 or 1 everywhere in the library. The caller's bytes are normalised here, where they
 * enter. */
static void copy_values(compute_dtype dtype, void *to, const void *from, size_t bytes) {
  if (dtype == COMPUTE_BOOL) {
    for (size_t i = 0; i < bytes; i++) ((uint8_t *)to)[i] = ((const uint8_t *)from)[i] != 0;
  } else {
    memcpy(to, from, bytes);
  }
}

compute_node compute_constant(compute_graph *graph, compute_dtype dtype, compute_shape shape,
                              const void *values) {
  static const char operation[] = "constant";
  if (!build_start(graph, operation) || !build_dtype(graph, operation, dtype) ||
      !build_shape(graph, operation, shape)) {
    return BUILD_NONE;
  }
  int64_t count = shape_count(shape);
  if (count > 0 && !values) {
    return graph_fail(graph, COMPUTE_ERROR_NULL_POINTER, operation, "values is NULL");
  }
  void *copy = graph_constant_create((size_t)count, compute_dtype_size(dtype));
  if (!copy) {
    char text[BUILD_TEXT];
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                      "not enough memory for a copy of %s values in %s",
                      compute_shape_text(shape, text, sizeof text), compute_dtype_name(dtype));
  }
  if (count > 0) copy_values(dtype, copy, values, (size_t)count * compute_dtype_size(dtype));
  graph_node node = {
      .op = OP_constant, .dtype = dtype, .shape = shape, .constant = copy, .uniform = count == 1};
  return build_node(graph, operation, &node, NULL, 0);
}

compute_node compute_index(compute_graph *graph, compute_dtype dtype, compute_shape shape,
                           int32_t axis) {
  static const char operation[] = "index";
  graph_node node = {.op = OP_index, .dtype = dtype, .shape = shape};
  if (!build_start(graph, operation) || !build_dtype(graph, operation, dtype) ||
      !build_domain(graph, operation, DOMAIN_NUMBER, dtype) ||
      !build_shape(graph, operation, shape) ||
      !build_axis(graph, operation, shape, axis, &node.attributes.axis)) {
    return BUILD_NONE;
  }
  return build_node(graph, operation, &node, NULL, 0);
}

compute_node compute_random_uniform(compute_graph *graph, compute_dtype dtype, compute_shape shape,
                                    compute_node seed, uint32_t stream) {
  static const char operation[] = "random_uniform";
  uint32_t input;
  if (!build_operands(graph, operation, &seed, 1, &input) ||
      !build_dtype(graph, operation, dtype) ||
      !build_domain(graph, operation, DOMAIN_FLOAT, dtype)) {
    return BUILD_NONE;
  }
  const graph_node *source = build_at(graph, input);
  if (source->dtype != COMPUTE_I64) {
    return graph_fail(graph, COMPUTE_ERROR_DTYPE, operation, "the seed is %s; it must be i64",
                      compute_dtype_name(source->dtype));
  }
  if (source->shape.rank != 0) {
    char text[BUILD_TEXT];
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "the seed has shape %s; it must be a scalar",
                      compute_shape_text(source->shape, text, sizeof text));
  }
  graph_node node = {
      .op = OP_random_uniform, .dtype = dtype, .shape = shape, .attributes.stream = stream};
  return build_node(graph, operation, &node, &input, 1);
}

/* ---- Elementwise ----------------------------------------------------------------------------- */

static compute_node broadcast_failed(compute_graph *graph, const char *operation,
                                     const uint32_t *inputs, uint32_t count) {
  char text[3][BUILD_TEXT];
  for (uint32_t i = 0; i < count; i++) {
    compute_shape_text(build_at(graph, inputs[i])->shape, text[i], sizeof text[i]);
  }
  if (count == 2) {
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation, "shapes %s and %s do not broadcast",
                      text[0], text[1]);
  }
  return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation, "shapes %s, %s and %s do not broadcast",
                    text[0], text[1], text[2]);
}

compute_node build_elementwise(compute_graph *graph, graph_op op, const compute_node *operands,
                               double scalar) {
  const graph_op_info *info = graph_op_describe(op);
  uint32_t inputs[3];
  if (!build_operands(graph, info->name, operands, info->arity, inputs)) return BUILD_NONE;
  if (op == OP_select && build_at(graph, inputs[0])->dtype != COMPUTE_BOOL) {
    return graph_fail(graph, COMPUTE_ERROR_DTYPE, info->name,
                      "the condition is %s; it must be bool",
                      compute_dtype_name(build_at(graph, inputs[0])->dtype));
  }
  const uint32_t first = op == OP_select ? 1 : 0;
  const compute_dtype dtype = build_at(graph, inputs[first])->dtype;
  compute_shape shape = build_at(graph, inputs[0])->shape;
  if (!build_domain(graph, info->name, info->domain, dtype)) return BUILD_NONE;
  for (uint32_t i = first + 1; i < info->arity; i++) {
    if (!build_same_dtype(graph, info->name, dtype, build_at(graph, inputs[i])->dtype)) {
      return BUILD_NONE;
    }
  }
  for (uint32_t i = 1; i < info->arity; i++) {
    if (!shape_broadcast(shape, build_at(graph, inputs[i])->shape, &shape)) {
      return broadcast_failed(graph, info->name, inputs, info->arity);
    }
  }
  graph_node node = {.op = op,
                     .dtype = info->result_bool ? COMPUTE_BOOL : dtype,
                     .shape = shape,
                     .attributes.scalar = scalar};
  return build_node(graph, info->name, &node, inputs, info->arity);
}

/* The attribute must be finite in the dtype of the computation. */
static compute_node scaled(compute_graph *graph, graph_op op, const char *attribute, compute_node x,
                           double value) {
  const graph_op_info *info = graph_op_describe(op);
  uint32_t input;
  if (!build_operands(graph, info->name, &x, 1, &input)) return BUILD_NONE;
  const compute_dtype dtype = build_at(graph, input)->dtype;
  if (!build_domain(graph, info->name, info->domain, dtype) ||
      !build_number(graph, info->name, attribute, dtype_compute_type(dtype), value)) {
    return BUILD_NONE;
  }
  return build_elementwise(graph, op, &x, value);
}

#define BUILDER_1(name)                                                                            \
  compute_node compute_##name(compute_graph *graph, compute_node x) {                              \
    return build_elementwise(graph, OP_##name, &x, 0);                                             \
  }
#define BUILDER_2(name)                                                                            \
  compute_node compute_##name(compute_graph *graph, compute_node a, compute_node b) {              \
    return build_elementwise(graph, OP_##name, (const compute_node[]){a, b}, 0);                   \
  }
#define BUILDER_3(name)                                                                            \
  compute_node compute_##name(compute_graph *graph, compute_node condition, compute_node a,        \
                              compute_node b) {                                                    \
    return build_elementwise(graph, OP_##name, (const compute_node[]){condition, a, b}, 0);        \
  }
#define ELEMENTWISE(name, arity, ...) BUILDER_##arity(name)
#define SCALED(name, instruction, gradient, low, high, ulp, attribute, text)                       \
  compute_node compute_##name(compute_graph *graph, compute_node x, double attribute) {            \
    return scaled(graph, OP_##name, #attribute, x, attribute);                                     \
  }
#include "graph/ops.def"

/* Casting the bits as i64 is correct unless the highest bit is set. Then the value is halved,
 * converted and doubled. The bit that halving loses is or-ed into the last bit, so rounding is
 * unaffected. */
static compute_node cast_u64_to_float(compute_graph *graph, compute_node x, compute_dtype dtype) {
  BUILD_ALL_OR_NOTHING(graph);
  const compute_node bits = compute_cast(graph, x, COMPUTE_I64);
  const compute_node one = compute_scalar_i64(graph, COMPUTE_I64, 1);
  const compute_node upper = compute_bit_and(graph, compute_shift_right(graph, bits, one),
                                             compute_scalar_i64(graph, COMPUTE_I64, INT64_MAX));
  const compute_node half = compute_bit_or(graph, upper, compute_bit_and(graph, bits, one));
  const compute_node rounded = compute_cast(graph, half, dtype);
  const compute_node large = compute_less(graph, bits, compute_scalar_i64(graph, COMPUTE_I64, 0));
  return compute_select(graph, large, compute_add(graph, rounded, rounded),
                        compute_cast(graph, bits, dtype));
}

compute_node compute_cast(compute_graph *graph, compute_node x, compute_dtype dtype) {
  FLOAT_ENVIRONMENT_DEFAULT;
  static const char operation[] = "cast";
  uint32_t input;
  if (!build_operands(graph, operation, &x, 1, &input) || !build_dtype(graph, operation, dtype)) {
    return BUILD_NONE;
  }
  if (build_at(graph, input)->dtype == COMPUTE_U64 && dtype_is_float(dtype))
    return cast_u64_to_float(graph, x, dtype);
  graph_node node = {.op = OP_cast, .dtype = dtype, .shape = build_at(graph, input)->shape};
  return build_node(graph, operation, &node, &input, 1);
}

/* ---- Clamp ----------------------------------------------------------------------------------- */

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

/* A limit outside the dtype's range has no effect. */
static compute_node clamp_integers(compute_graph *graph, compute_node x, compute_dtype dtype,
                                   int64_t low, int64_t high) {
  int64_t least;
  uint64_t most;
  dtype_limits(dtype, &least, &most);
  const int64_t from = max_i64(low, least);
  const int64_t to = high > 0 && (uint64_t)high > most ? (int64_t)most : high;
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

/* A finite limit may round to infinity, and then has no effect. It is an error if the other limit
 * then leaves only values beyond the dtype's range. */
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
  return build_domain(graph, "clamp", DOMAIN_ORDERED, *dtype);
}

compute_node compute_clamp(compute_graph *graph, compute_node x, double low, double high) {
  FLOAT_ENVIRONMENT_DEFAULT;
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
  FLOAT_ENVIRONMENT_DEFAULT;
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
