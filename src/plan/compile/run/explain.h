/* SPDX-License-Identifier: MIT */
/* The parts of compute_explain's text. Its numbers do not depend on the locale. */
#ifndef PLAN_EXPLAIN_H
#define PLAN_EXPLAIN_H

#include "core/base/text.h"
#include "plan/compile/plan.h"
#include "plan/cost/costs.h"

/* Prints a step in a few lines. The plan may still be under compilation: its ports are known, and
 * slots from plan->slot_count on are values without a place ("value 1" and so on). `number` counts
 * from 0. `costs` has one entry per device; NULL: no times are printed. */
void explain_step(const compute_plan *plan, text_buffer *text, uint32_t number, const plan_step *s,
                  const device_costs *costs);

/* Prints the predicted time of a function of the host, from its work in rows of a few elements. */
void explain_host(const compute_context *context, text_buffer *text, double rows);

/* Prints an operand of a step: "input 1", "parameter 0", "@512". */
void explain_operand(const compute_plan *plan, text_buffer *text, const plan_operand *operand);

#endif
