/* SPDX-License-Identifier: MIT */
/* Gradients judged by central differences: f64, step 1e-6, on the plan itself; then the f32
 * gradient by the f64 one. */
#ifndef SUPPORT_GRADIENT_H
#define SUPPORT_GRADIENT_H

#include "support/harness/operation.h"

/* The expression's float operands have dtype `dtype`; layouts and result_layout of the sample are
 * not used. Operands whose dtype is no float (indices, conditions) get no gradient. Values should
 * be distinct and away from kinks: FILL_DISTINCT. */
void gradient_check(compute_context *context, const operation_case *sample);

#endif
