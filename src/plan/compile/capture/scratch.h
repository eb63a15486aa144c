/* SPDX-License-Identifier: MIT */
/* Memory for one compilation. Allocations come from a few chunks that are freed together, so the
 * planner's passes need no clean-up. */
#ifndef PLAN_SCRATCH_H
#define PLAN_SCRATCH_H

#include <stddef.h>

typedef struct scratch {
  struct scratch_chunk *chunks;
  size_t used, size; /* of the newest chunk */
} scratch;

/* Returns zeroed, 16-byte-aligned memory for count * size bytes (at least one), or NULL. */
void *scratch_take(scratch *s, size_t count, size_t size);
void scratch_release(scratch *s);

#endif
