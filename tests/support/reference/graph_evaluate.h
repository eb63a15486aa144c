/* SPDX-License-Identifier: MIT */
/* The double reference: the value of any node of any graph, worked out plainly and slowly.
 *
 * It judges the library and therefore uses none of it: it reads the nodes of graph.h and the
 * definitions in the public headers, and nothing of the library's arithmetic, shapes or kernels.
 * Floats of every dtype are doubles here and never rounded, except where an operation's meaning is
 * to round (cast). Integers and bool are exact, in int64, and wrap as their dtype does. */
#ifndef SUPPORT_GRAPH_EVALUATE_H
#define SUPPORT_GRAPH_EVALUATE_H

#include <stdbool.h>

#include "compute/compute.h"

/* Dense row-major elements: `real` for f64 f32 f16 bf16, `integer` for i64 i32 u8 bool. */
typedef struct evaluate_value {
  compute_dtype dtype;
  compute_shape shape;
  int64_t count;
  double *real;
  int64_t *integer;
} evaluate_value;

/* Values of an input or parameter node, one for each element. For an integer or bool node either
 * list will do; `integer` is taken if it is there. */
typedef struct evaluate_binding {
  compute_node node;
  const double *real;
  const int64_t *integer;
} evaluate_binding;

/* Evaluates `outputs` into `results`, one for each; release them afterwards. Inputs must be bound;
 * a parameter that is not bound is read from its tensor. An assign node has the value that it
 * would write; a group has none and must not be asked for. False, with `reason` filled and nothing
 * to release, if that is not possible: an index outside its axis, an unbound input, no memory. */
bool graph_evaluate(const compute_graph *graph, const evaluate_binding *bindings,
                    size_t binding_count, const compute_node *outputs, size_t output_count,
                    evaluate_value *results, char *reason, size_t reason_bytes);

void evaluate_release(evaluate_value *value);

/* Element `index` as double, of either kind. */
double evaluate_get(const evaluate_value *value, int64_t index);

/* ---- Of single elements (graph_evaluate_element.c) ----------------------------------------- */

/* An elementwise operation of ops.def by its graph_op number, on doubles and on integers (of
 * `dtype`, whose wrapping applies); comparisons and logic give 0 or 1 in both. */
double evaluate_real(int op, const double *x, double scalar);
int64_t evaluate_integer(int op, compute_dtype dtype, const int64_t *x);

/* `value` as the nearest number of a float dtype, ties to even. */
double evaluate_round(compute_dtype dtype, long double value);

/* `value` cut to the bits of an integer dtype; as bool, whether it is not 0. */
int64_t evaluate_wrap(compute_dtype dtype, uint64_t value);

/* A float as an integer dtype or bool, by the rules of compute/dtype.h. */
int64_t evaluate_from_real(compute_dtype dtype, double value);

/* One element in memory as a number: of a float dtype, of another one. */
double evaluate_decode_real(compute_dtype dtype, const void *element);
int64_t evaluate_decode_integer(compute_dtype dtype, const void *element);

/* Philox4x32-10 as compute/backend.h uses it; `wide` for f64. */
double evaluate_random(uint64_t key, uint64_t counter, uint32_t stream, bool wide);

#endif
