/* Which parameters are worth trying for a kernel. */
#ifndef TUNE_SPACE_H
#define TUNE_SPACE_H

#include "compute/backend.h"

enum { SPACE_LIMIT = 160, SPACE_QUICK_LIMIT = 16 };

/* Fills `list`, which has room for SPACE_LIMIT, with sets of parameters that the generator accepts
 * for this target and that make different kernels; returns their number. The first is all 0, the
 * generator's own judgement, and counts even if the generator refuses it: the device's words on it
 * are better. A space that is too large (or the run quick) is thinned out evenly. */
uint32_t space_list(const compute_target *target, const compute_kernel_descriptor *descriptor,
                    bool quick, compute_tuning *list);

#endif
