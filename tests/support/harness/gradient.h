/* SPDX-License-Identifier: MIT */
/* Checks gradients by central differences in f64 with step 1e-6, computed by the plan itself. Then
 * the f64 gradient checks the f32 gradient. */
#ifndef SUPPORT_GRADIENT_H
#define SUPPORT_GRADIENT_H

#include "support/harness/operation.h"

/* The expression's float operands have dtype `dtype`; the sample's layouts and result_layout are
 * not used. Operands of other dtypes (indices, conditions) get no gradient. Values should be
 * distinct and away from kinks: FILL_DISTINCT. */
void gradient_check(compute_context *context, const operation_case *sample);

#endif
