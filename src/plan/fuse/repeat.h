/* Cheap kernels that are better computed again by whoever reads them. */
#ifndef PLAN_REPEAT_H
#define PLAN_REPEAT_H

#include "plan/fuse/fuse.h"

/* Gives every cluster that reads such a kernel's value a node of its own for it, in a new array of
 * nodes; *changed tells whether there was any, and then the nodes must be fused anew. Memory is the
 * only failure. */
compute_status repeat_cheap(ir *r, const fusion *f, bool *changed);

#endif
