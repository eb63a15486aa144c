/* Choosing where the clusters of a plan run, by what they and the copies between devices cost. */
#ifndef PLAN_PLACE_H
#define PLAN_PLACE_H

#include "plan/lower/lower.h"

/* Considers `only`, or every device that runs kernels, together with the CPU. Sets the plan's
 * devices, where its ports live, and l->places. Leaves everything as it is where there is no CPU
 * to share the work with. */
compute_status place_clusters(lowering *l, compute_device *only);

#endif
