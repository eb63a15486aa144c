/* SPDX-License-Identifier: MIT */
/* Checking a step while it runs; compute/validate.h has the public part.
 *
 * validation_begin takes a copy of the inputs, since a step may overwrite them; validation_end
 * evaluates, compares and reports. Knows nothing of plans but the label's text. */
#ifndef VALIDATE_VALIDATE_H
#define VALIDATE_VALIDATE_H

#include "compute/validate.h"
#include "core/device/device.h"
#include "core/device/kernel_cache.h"

struct validation_state;

/* All zero: not checked. */
typedef struct validation_step {
  struct validation_state *state;
} validation_step;

typedef struct validation_label {
  const char *plan; /* or NULL */
  uint32_t step;
  const char *text, *shape;
} validation_label;

/* Waits for earlier work of the queue. Out of memory, the step is not checked. */
compute_status validation_begin(validation_step *checked, compute_queue *queue,
                                const kernel_entry *kernel, const compute_argument *arguments);

/* `status` is that of submitting the step; it is returned unless the check itself or the policy
 * fails. */
compute_status validation_end(validation_step *checked, compute_status status,
                              const validation_label *label);

/* Starts validating if COMPUTE_VALIDATE asks for it. */
void validation_at_open(compute_context *context);

#endif
