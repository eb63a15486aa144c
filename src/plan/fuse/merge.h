/* Small kernels with nothing to do with each other, as one. */
#ifndef PLAN_MERGE_H
#define PLAN_MERGE_H

#include "plan/fuse/fuse.h"

/* Merges updates of parameters of one small shape, as far as a kernel has room. Memory is the only
 * failure. */
compute_status merge_updates(const ir *r, scratch *memory, fusion *f);

#endif
