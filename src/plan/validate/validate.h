/* SPDX-License-Identifier: MIT */
/* Checks a step while it runs; compute/validate.h has the public part.
 *
 * validation_begin copies the inputs, because a step may overwrite them. validation_end evaluates,
 * compares and reports. The label's text is the only information about the plan. */
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

/* Waits for earlier work of the queue. If memory is short, the step is not checked. */
compute_status validation_begin(validation_step *checked, compute_queue *queue,
                                const kernel_entry *kernel, const compute_argument *arguments);

/* `status` is the result of the step's submission. It is returned unless the check itself or the
 * policy fails. */
compute_status validation_end(validation_step *checked, compute_status status,
                              const validation_label *label);

/* Starts validation if COMPUTE_VALIDATE requests it. */
void validation_at_open(compute_context *context);

#endif
