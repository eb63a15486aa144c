/* What a plan's runs say of indices outside (device/index_fault.h). */
#ifndef PLAN_CHECK_H
#define PLAN_CHECK_H

#include "plan/fuse/fuse.h"

/* Describes the check of node `node`, a gather or scatter, in the words of the call that recorded
 * it. False if memory is short. */
bool check_describe(const ir *r, const fusion *f, uint32_t node, index_check *row);

/* Whether the call that recorded an indexed node of the graph has a name to report. */
bool check_is_named(const compute_graph *graph, uint32_t node);

#endif
