/* What a plan for another device keeps so that a run which fails there can be repeated on the CPU:
 * the part of the graph that it needs. The constants are shared with the graph it was made from;
 * the plan for the CPU is compiled when it is first needed. */
#ifndef PLAN_TWIN_H
#define PLAN_TWIN_H

#include "plan/run/run.h"

typedef struct plan_twin plan_twin;

/* Whether a plan should have one: it is not strict, and not for the CPU. */
bool twin_is_wanted(const compute_plan *plan);

/* `outputs` are indices in the graph. */
compute_status twin_create(const compute_graph *graph, const uint32_t *outputs, uint32_t count,
                           uint32_t flags, plan_twin **twin);
void twin_release(plan_twin *twin); /* NULL is allowed */

/* Runs it to the end with the bindings of the plan; parameters that do not lie on the CPU are
 * copied there first and, where they are assigned to, back afterwards. One run at a time; others
 * wait. The status and the error are those of the CPU's run. */
compute_status twin_run(plan_twin *twin, const compute_binding *bindings, size_t count,
                        const run_control *control, run_attempt *attempt);

#endif
