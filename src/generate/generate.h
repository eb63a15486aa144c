/* The kernel generator: from a descriptor, a target and parameters to source text and launches
 * (compute/generator.h). Pure functions of their arguments: nothing is kept between calls. */
#ifndef GENERATE_GENERATE_H
#define GENERATE_GENERATE_H

#include "compute/backend.h"

/* Whether the target can run such a kernel at all; if not, `reason` says what it lacks. */
bool generate_supports(const compute_target *target, const compute_kernel_descriptor *descriptor,
                       char *reason, size_t reason_bytes);

/* COMPUTE_ERROR_UNSUPPORTED with `reason` filled, COMPUTE_ERROR_OUT_OF_MEMORY. `tuning` may be
 * NULL. The descriptor has passed descriptor_check. */
compute_status generate_kernel(const compute_target *target,
                               const compute_kernel_descriptor *descriptor,
                               const compute_tuning *tuning, const compute_generated **generated,
                               char *reason, size_t reason_bytes);
void generate_release(const compute_generated *generated); /* NULL is allowed */

/* The definitions that precede every source of a dialect. */
const char *generate_dialect(compute_dialect dialect);

#endif
