/* In which order clusters run. */
#ifndef PLAN_ORDER_H
#define PLAN_ORDER_H

#include "plan/lower/ports.h"

/* Fills in ports->order. `late` marks the clusters that write parameters; those that read what they
 * compute are marked, too. COMPUTE_ERROR_OUT_OF_MEMORY is the only failure. */
compute_status order_clusters(const lowering *l, port_plan *ports, unsigned char *late);

#endif
