/* SPDX-License-Identifier: MIT */
/* Errors during graph building: each mistake gives its status and a message with the operation,
 * shapes and dtypes. The first error stays. */
#include "support/harness/test.h"

#include <math.h>
#include <string.h>

#include "graph/node/graph.h"

/* Operands of several kinds for these mistakes. */
typedef struct operands {
  compute_graph *g;
  compute_node x23, x34, x5, x0, scalar; /* f32 */
  compute_node i3, i23, b23, u3, h23;    /* i64, i32, bool, u8, f16 */
  compute_node p, q, p_f64;              /* parameters: f32 [3] twice, f64 [3] */
  compute_node foreign;
} operands;

static const float zeros[8];

static compute_node parameter(compute_graph *g, compute_dtype dtype) {
  const double data[3] = {0};
  compute_tensor *tensor = test_tensor(test_context, dtype, COMPUTE_SHAPE(3), data);
  compute_node node = compute_parameter(g, tensor);
  compute_tensor_release(tensor);
  return node;
}

static operands create_operands(compute_graph *g, compute_graph *other) {
  operands o = {.g = g};
  o.x23 = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(2, 3));
  o.x34 = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(3, 4));
  o.x5 = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(5));
  o.x0 = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(0, 3));
  o.scalar = compute_input(g, COMPUTE_F32, COMPUTE_SCALAR);
  o.i3 = compute_input(g, COMPUTE_I64, COMPUTE_SHAPE(3));
  o.i23 = compute_input(g, COMPUTE_I32, COMPUTE_SHAPE(2, 3));
  o.b23 = compute_input(g, COMPUTE_BOOL, COMPUTE_SHAPE(2, 3));
  o.u3 = compute_input(g, COMPUTE_U8, COMPUTE_SHAPE(3));
  o.h23 = compute_input(g, COMPUTE_F16, COMPUTE_SHAPE(2, 3));
  o.p = parameter(g, COMPUTE_F32);
  o.q = parameter(g, COMPUTE_F32);
  o.p_f64 = parameter(g, COMPUTE_F64);
  o.foreign = compute_input(other, COMPUTE_F32, COMPUTE_SHAPE(2, 3));
  return o;
}

/* The expected error of a mistake. */
typedef struct expectation {
  compute_status status;
  const char *message; /* part of it */
  int line;            /* in this file */
} expectation;

/* In the functions below, mistake number `wanted` is made, and its expected error is recorded. */
#define MISTAKE(status_, message_, ...)                                                            \
  if (number++ == wanted) {                                                                        \
    *e = (expectation){COMPUTE_ERROR_##status_, message_, __LINE__};                               \
    (void)(__VA_ARGS__);                                                                           \
    return true;                                                                                   \
  }

static compute_shape rank(int32_t value) {
  return (compute_shape){.rank = value};
}

static bool mistakes_with_sources(int wanted, const operands *o, expectation *e) {
  int number = 0;
  compute_graph *const g = o->g;
  const compute_shape large = COMPUTE_SHAPE(INT64_C(1) << 40, INT64_C(1) << 40);
  const compute_shape bytes = COMPUTE_SHAPE(INT64_C(1) << 61);
  MISTAKE(DTYPE, "input: invalid dtype 99", compute_input(g, (compute_dtype)99, rank(0)))
  MISTAKE(DTYPE, "input: invalid dtype 0", compute_input(g, COMPUTE_DTYPE_NONE, rank(0)))
  MISTAKE(SHAPE, "input: shape [2,-1] has a negative size",
          compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(2, -1)))
  MISTAKE(SHAPE, "input: rank 9", compute_input(g, COMPUTE_F32, rank(9)))
  MISTAKE(SHAPE, "input: rank -1", compute_input(g, COMPUTE_F32, rank(-1)))
  MISTAKE(OVERFLOW, "input: the number of elements of [1099511627776,1099511627776]",
          compute_input(g, COMPUTE_F32, large))
  MISTAKE(OVERFLOW, "input: [2305843009213693952] has 2^55 elements or more",
          compute_input(g, COMPUTE_F32, bytes))
  MISTAKE(NULL_POINTER, "parameter: tensor is NULL", compute_parameter(g, NULL))
  MISTAKE(NULL_POINTER, "constant: values is NULL",
          compute_constant(g, COMPUTE_F32, COMPUTE_SHAPE(2), NULL))
  MISTAKE(DTYPE, "constant: invalid dtype -3",
          compute_constant(g, (compute_dtype)-3, COMPUTE_SHAPE(2), zeros))
  MISTAKE(OVERFLOW, "constant", compute_constant(g, COMPUTE_F32, large, zeros))
  MISTAKE(OUT_OF_MEMORY,
          "constant: not enough memory for a copy of [1152921504606846976] values in u8",
          compute_constant(g, COMPUTE_U8, COMPUTE_SHAPE(INT64_C(1) << 60), zeros))
  MISTAKE(DTYPE, "scalar: invalid dtype 77", compute_scalar(g, (compute_dtype)77, 1))
  MISTAKE(SHAPE, "full: shape [-2]", compute_full(g, COMPUTE_F32, COMPUTE_SHAPE(-2), 1))
  MISTAKE(OVERFLOW, "full", compute_full(g, COMPUTE_F32, large, 1))
  MISTAKE(DTYPE, "index: needs a number dtype, not bool",
          compute_index(g, COMPUTE_BOOL, COMPUTE_SHAPE(2), 0))
  MISTAKE(SHAPE, "index: axis 1 is outside the 1 axes of [2]",
          compute_index(g, COMPUTE_I32, COMPUTE_SHAPE(2), 1))
  MISTAKE(SHAPE, "index: axis 0 is outside the 0 axes of []",
          compute_index(g, COMPUTE_I32, COMPUTE_SCALAR, 0))
  MISTAKE(SHAPE, "index", compute_index(g, COMPUTE_I32, rank(12), 0))
  MISTAKE(DTYPE, "random_uniform: needs a float dtype, not i32",
          compute_random_uniform(g, COMPUTE_I32, COMPUTE_SHAPE(2), o->scalar, 0))
  MISTAKE(DTYPE, "random_uniform: the seed is f32; it must be i64",
          compute_random_uniform(g, COMPUTE_F32, COMPUTE_SHAPE(2), o->scalar, 0))
  MISTAKE(SHAPE, "random_uniform: the seed has shape [3]",
          compute_random_uniform(g, COMPUTE_F32, COMPUTE_SHAPE(2), o->i3, 0))
  MISTAKE(NULL_POINTER, "compute_name: name is NULL", compute_name(g, o->x23, NULL))
  MISTAKE(WRONG_GRAPH, "compute_name", compute_name(g, o->foreign, "x"))
  return false;
}

static bool mistakes_with_operands(int wanted, const operands *o, expectation *e) {
  int number = 0;
  compute_graph *const g = o->g;
  const compute_node none = {0}, late = {.id = 9999, .graph = o->x23.graph};
  const compute_node a = compute_assign(g, o->p, o->q);
  const compute_node wide = compute_full(g, COMPUTE_F32, COMPUTE_SHAPE(INT64_C(1) << 40, 1), 0);
  const compute_node high = compute_full(g, COMPUTE_F32, COMPUTE_SHAPE(INT64_C(1) << 40), 0);
  MISTAKE(WRONG_GRAPH, "sqrt: node 1 belongs to another graph", compute_sqrt(g, o->foreign))
  MISTAKE(WRONG_GRAPH, "add: operand 1 is {0}, the result of a failed call",
          compute_add(g, o->x23, none))
  MISTAKE(WRONG_GRAPH, "mul: node 9999 does not exist", compute_mul(g, late, o->x23))
  MISTAKE(INVALID_ARGUMENT, "add: operand 1 comes from assign, which has no value",
          compute_add(g, o->x23, a))
  MISTAKE(DTYPE,
          "add: dtypes differ: f32 and i32; convert one with compute_cast or compute_tensor_cast",
          compute_add(g, o->x23, o->i23))
  MISTAKE(SHAPE, "add: shapes [3,4] and [5] do not broadcast", compute_add(g, o->x34, o->x5))
  MISTAKE(SHAPE, "add: shapes [0,3] and [2,3] do not broadcast", compute_add(g, o->x0, o->x23))
  MISTAKE(OVERFLOW, "add: the number of elements of [1099511627776,1099511627776]",
          compute_add(g, wide, high))
  MISTAKE(DTYPE, "sqrt: needs a float dtype, not i64", compute_sqrt(g, o->i3))
  MISTAKE(DTYPE, "neg: needs a number dtype, not bool", compute_neg(g, o->b23))
  MISTAKE(DTYPE, "pow: needs a float dtype, not i64", compute_pow(g, o->i3, o->i3))
  MISTAKE(DTYPE, "logical_and: needs a bool dtype, not f32", compute_logical_and(g, o->x23, o->x23))
  MISTAKE(DTYPE, "logical_not: needs a bool dtype, not u8", compute_logical_not(g, o->u3))
  MISTAKE(DTYPE, "elu: needs a float dtype, not u8", compute_elu(g, o->u3, 1))
  MISTAKE(DTYPE, "select: the condition is f32; it must be bool",
          compute_select(g, o->x23, o->x23, o->x23))
  MISTAKE(DTYPE, "select: dtypes differ: f32 and f16", compute_select(g, o->b23, o->x23, o->h23))
  MISTAKE(SHAPE, "select: shapes [2,3], [5] and [2,3] do not broadcast",
          compute_select(g, o->b23, o->x5, o->x23))
  MISTAKE(DTYPE, "cast: invalid dtype 42", compute_cast(g, o->x23, (compute_dtype)42))
  MISTAKE(WRONG_GRAPH, "cast", compute_cast(g, none, COMPUTE_F32))
  MISTAKE(DTYPE, "clamp: needs a number dtype, not bool", compute_clamp(g, o->b23, 0, 1))
  MISTAKE(INVALID_ARGUMENT, "clamp: no f32 value lies in 2 … 1", compute_clamp(g, o->x23, 2, 1))
  MISTAKE(INVALID_ARGUMENT, "clamp: no i64 value lies in 0.2 … 0.8",
          compute_clamp(g, o->i3, 0.2, 0.8))
  MISTAKE(INVALID_ARGUMENT, "clamp", compute_clamp(g, o->x23, (double)NAN, 1))
  return false;
}

static bool mistakes_with_shapes(int wanted, const operands *o, expectation *e) {
  int number = 0;
  compute_graph *const g = o->g;
  const compute_node parts[] = {o->x23, o->x34}, mixed[] = {o->x23, o->h23};
  const compute_node huge = compute_full(g, COMPUTE_U8, COMPUTE_SHAPE(INT64_MAX >> 8), 0);
  const compute_node twice_huge[] = {huge, huge};
  const compute_axes nine = {.count = 9};
  MISTAKE(SHAPE, "transpose: the order names 1 axes, but [2,3] has 2",
          compute_transpose(g, o->x23, COMPUTE_AXES(0)))
  MISTAKE(SHAPE, "transpose: axis 0 is named twice",
          compute_transpose(g, o->x23, COMPUTE_AXES(0, -2)))
  MISTAKE(SHAPE, "transpose: axis 2 is outside the 2 axes of [2,3]",
          compute_transpose(g, o->x23, COMPUTE_AXES(0, 2)))
  MISTAKE(SHAPE, "transpose: the order names 9 axes", compute_transpose(g, o->x23, nine))
  MISTAKE(SHAPE, "transpose: the order names -1 axes",
          compute_transpose(g, o->x23, (compute_axes){.count = -1}))
  MISTAKE(SHAPE, "reshape: [2,3] has 6 elements, [5] has 5",
          compute_reshape(g, o->x23, COMPUTE_SHAPE(5)))
  MISTAKE(SHAPE, "reshape: only one size may be -1",
          compute_reshape(g, o->x23, COMPUTE_SHAPE(-1, -1)))
  MISTAKE(SHAPE, "reshape: no size for -1 gives [4,-1] as many elements as [2,3]",
          compute_reshape(g, o->x23, COMPUTE_SHAPE(4, -1)))
  MISTAKE(SHAPE, "reshape: no size for -1", compute_reshape(g, o->x0, COMPUTE_SHAPE(0, -1)))
  MISTAKE(SHAPE, "reshape: shape [-2,-3] has a negative size",
          compute_reshape(g, o->x23, COMPUTE_SHAPE(-2, -3)))
  MISTAKE(OVERFLOW, "reshape", compute_reshape(g, o->x23, COMPUTE_SHAPE(INT64_MAX, 2, -1)))
  MISTAKE(SHAPE, "reshape: rank 9", compute_reshape(g, o->x23, rank(9)))
  MISTAKE(SHAPE, "slice: axis -3 is outside the 2 axes of [2,3]",
          compute_slice(g, o->x23, -3, 0, 1, 1))
  MISTAKE(SHAPE, "slice: 2 elements from 1 in steps of 2 do not fit an axis of 3",
          compute_slice(g, o->x23, 1, 1, 2, 2))
  MISTAKE(SHAPE, "slice", compute_slice(g, o->x23, 1, 1, INT64_MAX, INT64_MAX))
  MISTAKE(SHAPE, "slice", compute_slice(g, o->x23, 1, -4, 1, 1))
  MISTAKE(SHAPE, "slice", compute_slice(g, o->x23, 1, 4, 0, 1))
  MISTAKE(SHAPE, "slice", compute_slice(g, o->x23, 1, INT64_MIN, 1, 1))
  MISTAKE(INVALID_ARGUMENT, "slice: count -1 and step 1", compute_slice(g, o->x23, 1, 0, -1, 1))
  MISTAKE(INVALID_ARGUMENT, "slice: count 1 and step 0", compute_slice(g, o->x23, 1, 0, 1, 0))
  MISTAKE(SHAPE, "broadcast: [2,3] does not broadcast to [4,3]",
          compute_broadcast(g, o->x23, COMPUTE_SHAPE(4, 3)))
  MISTAKE(SHAPE, "broadcast: [2,3] does not broadcast to [3]",
          compute_broadcast(g, o->x23, COMPUTE_SHAPE(3)))
  MISTAKE(SHAPE, "broadcast: shape [2,-3]", compute_broadcast(g, o->x23, COMPUTE_SHAPE(2, -3)))
  MISTAKE(NULL_POINTER, "concat: parts is NULL", compute_concat(g, NULL, 2, 0))
  MISTAKE(INVALID_ARGUMENT, "concat: needs at least one part", compute_concat(g, parts, 0, 0))
  MISTAKE(SHAPE, "concat: part 1 has shape [3,4], which differs from [2,3] outside axis 0",
          compute_concat(g, parts, 2, 0))
  MISTAKE(DTYPE, "concat: dtypes differ: f32 and f16", compute_concat(g, mixed, 2, 0))
  MISTAKE(SHAPE, "concat: axis 2 is outside", compute_concat(g, parts, 1, 2))
  MISTAKE(OVERFLOW, "concat: [72057594037927934] has 2^55 elements or more",
          compute_concat(g, twice_huge, 2, 0))
  MISTAKE(SHAPE, "embed: 3 elements from 1 in steps of 1 do not fit an axis of 3",
          compute_embed(g, o->x23, 1, 3, 1, 1))
  MISTAKE(SHAPE, "embed: size -3 is negative", compute_embed(g, o->x23, 1, -3, 0, 1))
  MISTAKE(INVALID_ARGUMENT, "embed: count 3 and step -1", compute_embed(g, o->x23, 1, 9, 0, -1))
  MISTAKE(OVERFLOW, "embed", compute_embed(g, o->x23, 1, INT64_MAX, 0, 1))
  return false;
}

static bool mistakes_with_products_and_reductions(int wanted, const operands *o, expectation *e) {
  int number = 0;
  compute_graph *const g = o->g;
  const compute_node batch2 = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(2, 4, 4));
  const compute_node batch3 = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(3, 4, 4));
  const compute_node images = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(64, 784));
  const compute_node weights = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(512, 10));
  const compute_node bytes = compute_input(g, COMPUTE_I8, COMPUTE_SHAPE(2, 3));
  const compute_node turned = compute_input(g, COMPUTE_I8, COMPUTE_SHAPE(3, 2));
  const compute_node image = compute_input(g, COMPUTE_I8, COMPUTE_SHAPE(1, 1, 3, 3));
  const compute_node two = compute_input(g, COMPUTE_I8, COMPUTE_SHAPE(2)), none = {0};
  const compute_node tall = compute_full(g, COMPUTE_F32, COMPUTE_SHAPE(INT64_C(1) << 40, 1), 0);
  const compute_node flat = compute_full(g, COMPUTE_F32, COMPUTE_SHAPE(1, INT64_C(1) << 40), 0);
  MISTAKE(SHAPE, "matmul: inner sizes differ: [64,784] x [512,10]",
          compute_matmul(g, images, weights))
  MISTAKE(SHAPE, "matmul: inner sizes differ: [5] x [3,4]", compute_matmul(g, o->x5, o->x34))
  MISTAKE(SHAPE, "matmul: inner sizes differ: [5] x [3]", compute_matmul(g, o->x5, o->p))
  MISTAKE(SHAPE, "matmul: batch axes do not broadcast: [2,4,4] x [3,4,4]",
          compute_matmul(g, batch2, batch3))
  MISTAKE(SHAPE, "einsum: a label names axes of 3 and 2 elements",
          compute_einsum(g, "ij,jk", (const compute_node[]){o->x23, o->x23}, 2))
  MISTAKE(SHAPE, "einsum: a label names axes of 2 and 3 elements",
          compute_einsum(g, "ii", &o->x23, 1))
  MISTAKE(SHAPE, "matmul: operands need at least one axis: [] x [5]",
          compute_matmul(g, o->scalar, o->x5))
  MISTAKE(DTYPE, "matmul: dtypes differ: f32 and f16", compute_matmul(g, o->x23, o->h23))
  MISTAKE(DTYPE, "matmul: needs a number dtype, not bool", compute_matmul(g, o->b23, o->b23))
  MISTAKE(DTYPE, "matmul_integer: needs an i8 or u8 dtype, not f32",
          compute_matmul_integer(g, o->x23, o->x23, none, none))
  MISTAKE(SHAPE, "matmul_integer: inner sizes differ: [2,3] x [2,3]",
          compute_matmul_integer(g, bytes, bytes, none, none))
  MISTAKE(SHAPE, "matmul_integer: a_zero has shape [2]; it must broadcast against [..., m, 1]",
          compute_matmul_integer(g, bytes, turned, two, none))
  MISTAKE(SHAPE, "matmul_integer: b_zero has shape [3,2]; it must broadcast against [..., 1, n]",
          compute_matmul_integer(g, bytes, turned, none, turned))
  MISTAKE(OVERFLOW,
          "matmul_integer: sums of 65794 products of u8 and i8 might exceed i32, which is sure to "
          "hold 65793",
          compute_matmul_integer(g, compute_input(g, COMPUTE_U8, COMPUTE_SHAPE(65794)),
                                 compute_input(g, COMPUTE_I8, COMPUTE_SHAPE(65794)), none, none))
  MISTAKE(OVERFLOW, "matmul: the number of elements of", compute_matmul(g, tall, flat))
  MISTAKE(DTYPE, "conv2d_integer: needs an i8 or u8 dtype, not f32",
          compute_conv2d_integer(g, batch2, batch3, none, none, NULL))
  MISTAKE(SHAPE, "conv2d_integer: needs x [batch,channels,height,width] and filter",
          compute_conv2d_integer(g, bytes, turned, none, none, NULL))
  MISTAKE(DTYPE, "conv2d_integer: dtypes differ: i8 and u8",
          compute_conv2d_integer(g, image, image, o->u3, none, NULL))
  MISTAKE(SHAPE, "conv2d_integer: x_zero has shape [2]; it must be one number",
          compute_conv2d_integer(g, image, image, two, none, NULL))
  MISTAKE(SHAPE,
          "conv2d_integer: filter_zero has shape [2,3]; it must be one number, or one for each "
          "filter",
          compute_conv2d_integer(g, image, image, none, bytes, NULL))
  MISTAKE(INVALID_ARGUMENT, "conv2d_integer: padding is -2",
          compute_conv2d_integer(g, image, image, none, none,
                                 &(compute_conv2d_options){.padding = {-2}}))
  MISTAKE(OVERFLOW,
          "conv2d_integer: sums of 131076 products of i8 and i8 might exceed i32, which is sure "
          "to hold 131071",
          compute_conv2d_integer(g, compute_input(g, COMPUTE_I8, COMPUTE_SHAPE(1, 14564, 3, 3)),
                                 compute_input(g, COMPUTE_I8, COMPUTE_SHAPE(1, 14564, 3, 3)), none,
                                 none, NULL))
  MISTAKE(SHAPE, "sum: axis 2 is outside the 2 axes of [2,3]",
          compute_sum(g, o->x23, COMPUTE_AXES(2), false))
  MISTAKE(SHAPE, "sum: axis 1 is named twice", compute_sum(g, o->x23, COMPUTE_AXES(1, -1), false))
  MISTAKE(SHAPE, "sum: a list of 9 axes", compute_sum(g, o->x23, (compute_axes){.count = 9}, false))
  MISTAKE(SHAPE, "sum: a list of -1 axes",
          compute_sum(g, o->x23, (compute_axes){.count = -1}, false))
  MISTAKE(DTYPE, "sum: needs a number dtype, not bool",
          compute_sum(g, o->b23, COMPUTE_ALL_AXES, false))
  MISTAKE(DTYPE, "mean: needs a float dtype, not i64",
          compute_mean(g, o->i3, COMPUTE_ALL_AXES, false))
  MISTAKE(SHAPE, "max: [0,3] has no elements along the reduced axes",
          compute_max(g, o->x0, COMPUTE_AXES(0), false))
  MISTAKE(SHAPE, "min: [0,3]", compute_min(g, o->x0, COMPUTE_ALL_AXES, true))
  MISTAKE(SHAPE, "argmax: [0,3]", compute_argmax(g, o->x0, 0, false))
  MISTAKE(SHAPE, "argmin: axis 0 is outside the 0 axes of []",
          compute_argmin(g, o->scalar, 0, false))
  MISTAKE(SHAPE, "softmax: axis 2 is outside the 2 axes of [2,3]", compute_softmax(g, o->x23, 2))
  MISTAKE(DTYPE, "log_softmax: needs a float dtype, not i64", compute_log_softmax(g, o->i3, 0))
  MISTAKE(SHAPE, "normalize: axis -1 is outside", compute_normalize(g, o->scalar, 0))
  MISTAKE(INVALID_ARGUMENT, "normalize: epsilon is -1", compute_normalize(g, o->x23, -1))
  MISTAKE(INVALID_ARGUMENT, "normalize: epsilon is", compute_normalize(g, o->x23, (double)NAN))
  MISTAKE(SHAPE, "layer_norm: gain [5] does not fit the last axis of [2,3]",
          compute_layer_norm(g, o->x23, o->x5, (compute_node){0}, 0))
  MISTAKE(SHAPE, "layer_norm: bias [2,3] does not fit",
          compute_layer_norm(g, o->x23, o->p, o->x23, 0))
  MISTAKE(DTYPE, "layer_norm: dtypes differ: f32 and f64",
          compute_layer_norm(g, o->x23, o->p_f64, (compute_node){0}, 0))
  MISTAKE(WRONG_GRAPH, "layer_norm", compute_layer_norm(g, o->x23, o->foreign, o->p, 0))
  return false;
}

static bool mistakes_with_indices(int wanted, const operands *o, expectation *e) {
  int number = 0;
  compute_graph *const g = o->g;
  const compute_shape ones = COMPUTE_SHAPE(1, 1, 1, 1, 1, 1, 1, 1);
  const compute_node deep = compute_input(g, COMPUTE_I64, ones);
  MISTAKE(DTYPE, "gather: indices are f32; they must be i32 or i64",
          compute_gather(g, o->x23, o->x5, 0))
  MISTAKE(DTYPE, "gather: indices are u8", compute_gather(g, o->x23, o->u3, 0))
  MISTAKE(SHAPE, "gather: axis 2 is outside", compute_gather(g, o->x23, o->i3, 2))
  MISTAKE(SHAPE, "gather: [2,3] at indices [1,1,1,1,1,1,1,1] would have more than 8 axes",
          compute_gather(g, o->x23, deep, 0))
  MISTAKE(SHAPE, "gather_elements: indices [3] do not match [2,3] outside axis 0",
          compute_gather_elements(g, o->x23, o->i3, 0))
  MISTAKE(SHAPE, "gather_elements: indices [2,3] do not match [0,3] outside axis 1",
          compute_gather_elements(g, o->x0, o->i23, 1))
  MISTAKE(SHAPE, "scatter_add: [2,3] does not have the axes of the indices [3] at axis 0",
          compute_scatter_add(g, o->x23, o->i3, 0, 4))
  MISTAKE(SHAPE, "scatter_add", compute_scatter_add(g, o->x23, o->i3, 2, 4))
  MISTAKE(SHAPE, "scatter_add: shape [2,-1] has a negative size",
          compute_scatter_add(g, o->x23, o->i3, 1, -1))
  MISTAKE(DTYPE, "scatter_add: needs a number dtype, not bool",
          compute_scatter_add(g, o->b23, o->i3, 1, 4))
  MISTAKE(SHAPE, "scatter: updates [5] do not have the axes of [2,3] with those of the indices [3]",
          compute_scatter(g, o->x23, o->x5, o->i3, 1, COMPUTE_SCATTER_SET))
  MISTAKE(SHAPE, "scatter_elements: updates [5] and indices [3] do not match [5] outside axis 0",
          compute_scatter_elements(g, o->x5, o->x5, o->i3, 0, COMPUTE_SCATTER_SET))
  MISTAKE(DTYPE, "scatter: data are f32 and updates bool",
          compute_scatter(g, o->x23, o->b23, o->i3, 1, COMPUTE_SCATTER_SET))
  MISTAKE(DTYPE, "scatter: needs a number dtype, not bool",
          compute_scatter(g, o->b23, o->b23, o->i3, 1, COMPUTE_SCATTER_ADD))
  MISTAKE(INVALID_ARGUMENT, "scatter: invalid mode 9",
          compute_scatter(g, o->x23, o->x23, o->i3, 1, (compute_scatter_mode)9))
  MISTAKE(SHAPE, "scatter_add_elements: [5] and the indices [3] must have the same shape",
          compute_scatter_add_elements(g, o->x5, o->i3, 0, COMPUTE_SHAPE(4)))
  MISTAKE(SHAPE, "scatter_add_elements: [2,3] does not match [9,2] outside axis 0",
          compute_scatter_add_elements(g, o->x23, o->i23, 0, COMPUTE_SHAPE(9, 2)))
  MISTAKE(SHAPE, "scatter_add_elements: shape [-1,3]",
          compute_scatter_add_elements(g, o->x23, o->i23, 0, COMPUTE_SHAPE(-1, 3)))
  MISTAKE(SHAPE,
          "cross_entropy: needs logits [batch,…,classes] and labels [batch,…], not [2,3] and [3]",
          compute_cross_entropy(g, o->x23, o->i3))
  MISTAKE(DTYPE, "cross_entropy: labels are f32", compute_cross_entropy(g, o->x23, o->x5))
  MISTAKE(SHAPE, "mean_squared_error: shapes [2,3] and [3,4] do not broadcast",
          compute_mean_squared_error(g, o->x23, o->x34))
  MISTAKE(DTYPE, "mean_squared_error: needs a float dtype, not i64",
          compute_mean_squared_error(g, o->i3, o->i3))
  return false;
}

static bool mistakes_with_state(int wanted, const operands *o, expectation *e) {
  int number = 0;
  compute_graph *const g = o->g;
  const compute_node a = compute_assign(g, o->p, o->q), b = compute_assign(g, o->p, o->p);
  const compute_node twice[] = {a, b}, same[] = {a, a};
  const compute_node inner = compute_group(g, &a, 1), nested[] = {b, inner};
  const compute_node values[] = {a, o->x23};
  MISTAKE(INVALID_ARGUMENT, "assign: the target is the result of input, not a parameter",
          compute_assign(g, o->x23, o->x23))
  MISTAKE(SHAPE, "assign: a parameter [3] cannot be assigned a value [5]",
          compute_assign(g, o->p, o->x5))
  MISTAKE(DTYPE, "assign: dtypes differ: f32 and f64", compute_assign(g, o->p, o->p_f64))
  MISTAKE(INVALID_ARGUMENT, "assign: operand 1 comes from assign", compute_assign(g, o->p, a))
  MISTAKE(NULL_POINTER, "group: nodes is NULL", compute_group(g, NULL, 1))
  MISTAKE(INVALID_ARGUMENT, "group: needs at least one node", compute_group(g, twice, 0))
  MISTAKE(INVALID_ARGUMENT, "group: node 1 is input; only assign, group and call can be grouped",
          compute_group(g, values, 2))
  MISTAKE(INVALID_ARGUMENT, "group: a parameter would be assigned twice",
          compute_group(g, twice, 2))
  MISTAKE(INVALID_ARGUMENT, "group: a parameter would be assigned twice", compute_group(g, same, 2))
  MISTAKE(INVALID_ARGUMENT, "group: a parameter would be assigned twice",
          compute_group(g, nested, 2))
  MISTAKE(WRONG_GRAPH, "group", compute_group(g, &o->foreign, 1))
  return false;
}

static bool mistakes_with_gradients(int wanted, const operands *o, expectation *e) {
  int number = 0;
  compute_graph *const g = o->g;
  const compute_node loss = compute_sum(g, o->x23, COMPUTE_ALL_AXES, false);
  const compute_node whole = compute_sum(g, o->i3, COMPUTE_ALL_AXES, false);
  const compute_node best = compute_cast(g, compute_argmax(g, o->x5, 0, false), COMPUTE_F32);
  const compute_node more = compute_mul(g, best, loss), of_both[] = {o->x23, o->x5};
  compute_node d[2];
  MISTAKE(WRONG_GRAPH, "gradients", compute_gradients(g, o->foreign, &o->x23, 1, d))
  MISTAKE(WRONG_GRAPH, "gradients", compute_gradients(g, loss, &o->foreign, 1, d))
  MISTAKE(NULL_POINTER, "gradients: of is NULL", compute_gradients(g, loss, NULL, 1, d))
  MISTAKE(NULL_POINTER, "gradients: gradients is NULL",
          compute_gradients(g, loss, &o->x23, 1, NULL))
  MISTAKE(SHAPE, "gradients: the loss has shape [2,3]; it must be one element",
          compute_gradients(g, o->x23, &o->x23, 1, d))
  MISTAKE(DTYPE, "gradients: the loss is i64; it must be a float",
          compute_gradients(g, whole, &o->x23, 1, d))
  MISTAKE(DTYPE, "gradients: of[0] is i64; only floats have a gradient",
          compute_gradients(g, loss, &o->i3, 1, d))
  MISTAKE(NOT_DIFFERENTIABLE, "gradients: of[1] reaches the loss only through argmax",
          compute_gradients(g, more, of_both, 2, d))
  return false;
}

static bool mistakes_with_optimizers(int wanted, const operands *o, expectation *e) {
  int number = 0;
  compute_graph *const g = o->g;
  const compute_node loss = compute_sum(g, o->p, COMPUTE_ALL_AXES, false);
  const compute_node twice[] = {o->p, o->q, o->p};
  compute_sgd_options sgd = {.momentum = 0.9};
  compute_adam_options adam = {0};
  MISTAKE(NULL_POINTER, "sgd_step: parameters is NULL", compute_sgd_step(g, loss, NULL, 1, NULL))
  MISTAKE(INVALID_ARGUMENT, "adam_step: needs at least one parameter",
          compute_adam_step(g, loss, twice, 0, NULL))
  MISTAKE(INVALID_ARGUMENT, "sgd_step: parameters[0] is the result of input, not a parameter",
          compute_sgd_step(g, loss, &o->x23, 1, NULL))
  MISTAKE(INVALID_ARGUMENT, "adam_step: parameters[0] and [2] are the same tensor",
          compute_adam_step(g, loss, twice, 3, NULL))
  MISTAKE(WRONG_GRAPH, "sgd_step", compute_sgd_step(g, loss, &o->foreign, 1, NULL))
  MISTAKE(WRONG_GRAPH, "gradients", compute_sgd_step(g, o->foreign, &o->p, 1, NULL))
  sgd.learning_rate = -1;
  MISTAKE(INVALID_ARGUMENT, "sgd_step: learning_rate is -1",
          compute_sgd_step(g, loss, &o->p, 1, &sgd))
  sgd = (compute_sgd_options){.nesterov = true};
  MISTAKE(INVALID_ARGUMENT, "sgd_step: nesterov needs a momentum",
          compute_sgd_step(g, loss, &o->p, 1, &sgd))
  sgd = (compute_sgd_options){.reserved = {0, 1}};
  MISTAKE(INVALID_ARGUMENT, "sgd_step: options.reserved[1] is not zero",
          compute_sgd_step(g, loss, &o->p, 1, &sgd))
  sgd = (compute_sgd_options){.learning_rate_node = o->x5};
  MISTAKE(SHAPE, "sgd_step: the learning rate node has shape [5]; it must be a scalar",
          compute_sgd_step(g, loss, &o->p, 1, &sgd))
  adam.beta1 = 1;
  MISTAKE(INVALID_ARGUMENT, "adam_step: beta1 is 1", compute_adam_step(g, loss, &o->p, 1, &adam))
  adam = (compute_adam_options){.epsilon = (double)NAN};
  MISTAKE(INVALID_ARGUMENT, "adam_step: epsilon is", compute_adam_step(g, loss, &o->p, 1, &adam))
  adam = (compute_adam_options){.learning_rate_node = o->i3};
  MISTAKE(DTYPE, "adam_step: needs a float dtype, not i64",
          compute_adam_step(g, loss, &o->p, 1, &adam))
  return false;
}

/* ---- Expected errors of every mistake ------------------------------------------------------ */

typedef bool mistakes(int wanted, const operands *o, expectation *e);

static void check_graph(compute_graph *g, const expectation *e) {
  const char *message = compute_error_message(test_context);
  const compute_status status = compute_graph_status(g);
  if (status != e->status) {
    fail_msg("line %d: %s instead of %s: %s", e->line, compute_status_name(status),
             compute_status_name(e->status), message);
  }
  message = compute_error_message(test_context);
  if (!strstr(message, e->message)) {
    fail_msg("line %d: \"%s\" does not say \"%s\"", e->line, message, e->message);
  }
  compute_error error;
  compute_error_get(test_context, &error);
  assert_int_equal(error.status, status);
  assert_true(error.operation[0] != '\0');
  assert_true(!strncmp(error.message, error.operation, strlen(error.operation)));
}

/* Makes every mistake of a list, each in a new graph. Afterwards the first error stays whatever
 * follows, and no node can be added. */
static void check_mistakes(mistakes *list) {
  bool made = true;
  for (int wanted = 0; made; wanted++) {
    compute_graph *g = compute_graph_create(test_context);
    compute_graph *other = compute_graph_create(test_context);
    const operands o = create_operands(g, other);
    expectation e = {COMPUTE_OK, "", 0};
    assert_ok(compute_graph_status(g));
    made = list(wanted, &o, &e);
    if (made) {
      check_graph(g, &e);
      const size_t count = g->count;
      assert_false(compute_node_is_valid(compute_add(g, o.x34, o.x5)));
      assert_false(compute_node_is_valid(compute_neg(g, o.foreign)));
      assert_false(compute_node_is_valid(compute_input(g, COMPUTE_F32, COMPUTE_SCALAR)));
      assert_int_equal(g->count, count);
      check_graph(g, &e);
    } else {
      assert_ok(compute_graph_status(g));
      assert_true(wanted > 0);
    }
    compute_graph_release(g);
    compute_graph_release(other);
  }
}

#define MISTAKE_TEST(list, test)                                                                   \
  static void test(void **state) {                                                                 \
    (void)state;                                                                                   \
    check_mistakes(list);                                                                          \
  }
MISTAKE_TEST(mistakes_with_sources, wrong_sources_are_explained)
MISTAKE_TEST(mistakes_with_operands, wrong_operands_are_explained)
MISTAKE_TEST(mistakes_with_shapes, wrong_shapes_are_explained)
MISTAKE_TEST(mistakes_with_products_and_reductions, wrong_products_and_reductions_are_explained)
MISTAKE_TEST(mistakes_with_indices, wrong_indices_are_explained)
MISTAKE_TEST(mistakes_with_state, wrong_assignments_are_explained)
MISTAKE_TEST(mistakes_with_gradients, wrong_gradients_are_explained)
MISTAKE_TEST(mistakes_with_optimizers, wrong_optimizers_are_explained)

static void a_null_graph_is_an_error_of_the_thread(void **state) {
  (void)state;
  const compute_node x = {1, 1};
  compute_error_clear(NULL);
  assert_false(compute_node_is_valid(compute_add(NULL, x, x)));
  assert_int_equal(compute_graph_status(NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_false(compute_node_is_valid(compute_input(NULL, COMPUTE_F32, COMPUTE_SCALAR)));
  test_check_message(NULL, "input: graph is NULL");
  assert_false(compute_node_is_valid(compute_concat(NULL, &x, 1, 0)));
  assert_false(compute_node_is_valid(compute_name(NULL, x, "x")));
  assert_false(compute_node_is_valid(compute_group(NULL, &x, 1)));
  assert_false(compute_node_is_valid(compute_adam_step(NULL, x, &x, 1, NULL)));
  test_check_message(NULL, "adam_step: graph is NULL");
  compute_node gradient = x;
  assert_fails(compute_gradients(NULL, x, &x, 1, &gradient), COMPUTE_ERROR_NULL_POINTER);
  assert_false(compute_node_is_valid(gradient));
  assert_null(compute_graph_create(NULL));
  test_check_message(NULL, "context is NULL");
  compute_graph_release(NULL);
}

static void a_tensor_of_another_context_is_refused(void **state) {
  (void)state;
  compute_context *other = test_open();
  compute_tensor *tensor = test_tensor(other, COMPUTE_F32, COMPUTE_SHAPE(2), zeros);
  compute_graph *g = compute_graph_create(test_context);
  assert_false(compute_node_is_valid(compute_parameter(g, tensor)));
  assert_int_equal(compute_graph_status(g), COMPUTE_ERROR_WRONG_CONTEXT);
  test_check_message(test_context, "parameter: the tensor belongs to another context");
  compute_graph_release(g);
  compute_tensor_release(tensor);
  test_close(other);
}

static void the_graphs_own_error_is_told_after_others(void **state) {
  (void)state;
  compute_graph *one = compute_graph_create(test_context);
  compute_graph *two = compute_graph_create(test_context);
  compute_input(one, (compute_dtype)99, COMPUTE_SCALAR);
  compute_input(two, COMPUTE_F32, COMPUTE_SHAPE(-1));
  assert_int_equal(compute_graph_status(one), COMPUTE_ERROR_DTYPE);
  test_check_message(test_context, "invalid dtype 99");
  assert_int_equal(compute_graph_status(two), COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "negative size");
  compute_graph_release(one);
  compute_graph_release(two);
}

static void a_read_only_tensor_cannot_be_assigned_to(void **state) {
  (void)state;
  compute_tensor *tensor = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(1), zeros), *view;
  assert_ok(compute_tensor_broadcast_view(tensor, COMPUTE_SHAPE(3), &view));
  compute_graph *g = compute_graph_create(test_context);
  compute_node p = compute_parameter(g, view);
  compute_assign(g, p, p);
  assert_int_equal(compute_graph_status(g), COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "read-only");
  compute_graph_release(g);
  compute_tensor_release(view);
  compute_tensor_release(tensor);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wrong_sources_are_explained),
      cmocka_unit_test(wrong_operands_are_explained),
      cmocka_unit_test(wrong_shapes_are_explained),
      cmocka_unit_test(wrong_products_and_reductions_are_explained),
      cmocka_unit_test(wrong_indices_are_explained),
      cmocka_unit_test(wrong_assignments_are_explained),
      cmocka_unit_test(wrong_gradients_are_explained),
      cmocka_unit_test(wrong_optimizers_are_explained),
      cmocka_unit_test(a_null_graph_is_an_error_of_the_thread),
      cmocka_unit_test(a_tensor_of_another_context_is_refused),
      cmocka_unit_test(the_graphs_own_error_is_told_after_others),
      cmocka_unit_test(a_read_only_tensor_cannot_be_assigned_to),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
