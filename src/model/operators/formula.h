/* SPDX-License-Identifier: MIT */
/* Replaces formulas that files write as several operators with one graph operation, which needs
 * fewer roundings and passes. The operation equals the formula for every input, including
 * infinities, NaN and the largest numbers. Replacements that do not need
 * compute_model_options.formulas. A formula is recognized when its last operator is recorded;
 * its intermediate nodes do not reach a plan unless another node uses them. */
#ifndef MODEL_OPERATORS_FORMULA_H
#define MODEL_OPERATORS_FORMULA_H

#include "model/record.h"

/* a · b, or the function whose formula it completes: silu, gelu or tanh gelu. */
compute_node formula_product(model_call *call, compute_node a, compute_node b);

/* a / b, or x normalized along its last axis. For f32, f64 and bf16 only with fast formulas. */
compute_node formula_quotient(model_call *call, compute_node a, compute_node b);

/* The matrix product a b. Becomes attention if a is the softmax of scores without other users,
 * and graph is not trained. If a replaces NaN weights with 0, attention does the same. */
compute_node formula_matmul(model_call *call, compute_node a, compute_node b);

#endif
