/* SPDX-License-Identifier: MIT */
/* Formulas that files spell out in several operators, and that the graph has as one operation,
 * which takes fewer roundings and passes. The operation equals the formula for every input, also
 * infinities, NaN and the largest numbers; what does not needs compute_model_options.formulas.
 * Each is found when its last operator is recorded; nodes
 * of its parts that nothing else reads do not reach a plan. */
#ifndef MODEL_OPERATORS_FORMULA_H
#define MODEL_OPERATORS_FORMULA_H

#include "model/record.h"

/* a · b, or the function whose formula that completes: silu, gelu, gelu by tanh. */
compute_node formula_product(model_call *call, compute_node a, compute_node b);

/* a / b, or x normalised along its last axis: of f32, f64 and bf16 only with fast formulas. */
compute_node formula_quotient(model_call *call, compute_node a, compute_node b);

/* The matrix product a b, or attention if a is the softmax of scores that nothing else reads, with
 * weights of 0 in place of NaN if a says so. Not in a graph that is trained. */
compute_node formula_matmul(model_call *call, compute_node a, compute_node b);

#endif
