/* SPDX-License-Identifier: MIT */
/* The double reference: computes the value of any node of any graph, plainly and slowly.
 *
 * It checks the library and therefore uses none of its arithmetic, shapes or kernels. It only reads
 * the nodes of graph.h and the definitions in the public headers. Floats of every dtype are doubles
 * here and are rounded only where the operation rounds (cast). Integers and bool are exact, in
 * int64, and wrap as their dtype does. */
#ifndef SUPPORT_GRAPH_EVALUATE_H
#define SUPPORT_GRAPH_EVALUATE_H

#include <stdbool.h>

#include "compute/compute.h"

/* Dense row-major elements: `real` for float dtypes, `integer` for integer dtypes and bool. */
typedef struct evaluate_value {
  compute_dtype dtype;
  compute_shape shape;
  int64_t count;
  double *real;
  int64_t *integer;
} evaluate_value;

/* Values of an input or parameter node, one per element. For an integer or bool node, either array
 * is accepted; `integer` is preferred. */
typedef struct evaluate_binding {
  compute_node node;
  const double *real;
  const int64_t *integer;
} evaluate_binding;

/* Evaluates `outputs` into `results`, one for each; the caller releases them. Inputs must be bound;
 * an unbound parameter is read from its tensor. The value of an assign node is the value to write.
 * A group has no value and is not a valid output. On failure it returns false, fills `reason` and
 * leaves nothing to release: an index outside its axis, an unbound input, no memory. */
bool graph_evaluate(const compute_graph *graph, const evaluate_binding *bindings,
                    size_t binding_count, const compute_node *outputs, size_t output_count,
                    evaluate_value *results, char *reason, size_t reason_bytes);

void evaluate_release(evaluate_value *value);

/* Returns element `index` of either kind as a double. */
double evaluate_get(const evaluate_value *value, int64_t index);

/* ---- Single elements (graph_evaluate_element.c) -------------------------------------------- */

/* Evaluates an elementwise operation of ops.def, given its graph_op number, on doubles and on
 * integers (wrapped to `dtype`). Comparisons and logic give 0 or 1 in both. */
double evaluate_real(int op, const double *x, double scalar);
int64_t evaluate_integer(int op, compute_dtype dtype, const int64_t *x);

/* Rounds `value` to the nearest number of a float dtype, ties to even. */
double evaluate_round(compute_dtype dtype, long double value);

/* Cuts `value` to the bits of an integer dtype; for bool it returns 1 unless it is 0. */
int64_t evaluate_wrap(compute_dtype dtype, uint64_t value);

/* Converts a float to an integer dtype or bool, by the rules of compute/dtype.h. */
int64_t evaluate_from_real(compute_dtype dtype, double value);

/* Decodes one element in memory: of a float dtype, or of an integer dtype or bool. */
double evaluate_decode_real(compute_dtype dtype, const void *element);
int64_t evaluate_decode_integer(compute_dtype dtype, const void *element);

/* Philox4x32-10, used as in compute/backend.h; `wide` for f64. */
double evaluate_random(uint64_t key, uint64_t counter, uint32_t stream, bool wide);

/* The result of an instruction COMPUTE_I_DRAW_…; unused operands are ignored. */
double evaluate_draw(int code, double u, double b, double c);

#endif
