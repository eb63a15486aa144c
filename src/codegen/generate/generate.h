/* SPDX-License-Identifier: MIT */
/* The kernel generator: from a descriptor, a target and parameters to source text and launches
 * (compute/backend/generator.h). All functions are pure: no state stays between calls. */
#ifndef GENERATE_GENERATE_H
#define GENERATE_GENERATE_H

#include <stddef.h>

#include "compute/backend.h"

/* True if the target can run such a kernel at all. If not, `reason` names the missing feature. */
bool generate_supports(const compute_target *target, const compute_kernel_descriptor *descriptor,
                       char *reason, size_t reason_bytes);

/* Returns COMPUTE_ERROR_UNSUPPORTED with `reason` filled, or COMPUTE_ERROR_OUT_OF_MEMORY. `tuning`
 * may be NULL. The descriptor has passed descriptor_check. */
compute_status generate_kernel(const compute_target *target,
                               const compute_kernel_descriptor *descriptor,
                               const compute_tuning *tuning, const compute_generated **generated,
                               char *reason, size_t reason_bytes);
void generate_release(const compute_generated *generated); /* NULL is allowed */

/* ---- Parameters worth trying --------------------------------------------------------------- */

enum { TUNING_AXES = 6, TUNING_VALUES = 6 };

/* The values of one parameter, a member of compute_tuning. 0 ends the list. */
typedef struct tuning_axis {
  size_t offset;
  uint32_t value[TUNING_VALUES];
} tuning_axis;

typedef enum tuning_for { TUNE_END, TUNE_ANY, TUNE_CPU, TUNE_OTHERS } tuning_for;

/* All combinations of some values, for CPUs, for other targets or for all. Grids are generous: the
 * generator refuses a point that the target cannot run, or makes the same text from it as from
 * another point. */
typedef struct tuning_grid {
  tuning_for target; /* TUNE_END: end of the list */
  tuning_axis axis[TUNING_AXES];
} tuning_grid;

/* The grids of a kind. NULL if it reads no parameters. */
const tuning_grid *generate_grids(compute_kernel_kind kind);

/* The definitions that precede every source of a dialect. */
const char *generate_dialect(compute_dialect dialect);

#endif
