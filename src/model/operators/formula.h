/* SPDX-License-Identifier: MIT */
/* Formulas that files spell out in several operators, and that the graph has as one operation,
 * which takes fewer roundings and passes. Each is found when its last operator is recorded; nodes
 * of its parts that nothing else reads do not reach a plan. */
#ifndef MODEL_OPERATORS_FORMULA_H
#define MODEL_OPERATORS_FORMULA_H

#include "model/record.h"

/* a · b, or the function whose formula that completes: silu, gelu, gelu by tanh. */
compute_node formula_product(model_call *call, compute_node a, compute_node b);

/* a / b, or x normalised along its last axis. */
compute_node formula_quotient(model_call *call, compute_node a, compute_node b);

/* The matrix product a b, or attention if a is the softmax of scores that nothing else reads. It
 * gives 0, not NaN, for a query whose scores are all −infinity. Not in a graph that is trained. */
compute_node formula_matmul(model_call *call, compute_node a, compute_node b);

#endif
