/* What a step is called in compute_explain, and what it costs. */
#ifndef PLAN_STEP_TEXT_H
#define PLAN_STEP_TEXT_H

#include "plan/lower/lower.h"

/* Fills text, shape, flops and bytes of the step; false when memory is short. */
bool step_describe(lowering *l, const kernel_draft *draft, build_step *s);

#endif
