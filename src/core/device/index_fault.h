/* SPDX-License-Identifier: MIT */
/* Error messages for an index in the data that is outside its axis: the call, the value as the
 * caller gave it, and its position in the caller's operand. A backend knows only the value and
 * where it read it; devices may report it long after the kernel was submitted, when the plan may be
 * gone. So plans keep these records apart from their steps, and queues keep those of work that has
 * not been waited for. */
#ifndef DEVICE_INDEX_FAULT_H
#define DEVICE_INDEX_FAULT_H

#include "compute/backend.h"

/* For one kernel. */
typedef struct index_check {
  uint32_t label;                   /* unique among those in use; not 0 */
  const char *operation, *word;     /* "cross_entropy", "label"; static */
  char *names;                      /* " (node 'loss')" or ""; owned */
  compute_shape shape;              /* of the caller's operand */
  compute_shape read;               /* of the kernel's: the same elements in the same order … */
  int64_t stride[COMPUTE_MAX_RANK]; /* … and their layout */
  int64_t size;                     /* of the axis */
  bool from_zero;                   /* negative indices are outside */
} index_check;

/* The records of a plan. */
typedef struct index_checks {
  int32_t references; /* atomic */
  uint32_t count;
  index_check *rows;
} index_checks;

/* Zeroed rows, with one reference; NULL when out of memory. */
index_checks *index_checks_create(uint32_t count);
index_checks *index_checks_retain(index_checks *checks);
void index_checks_release(index_checks *checks); /* NULL is allowed */

/* A label that no row in use has. */
uint32_t index_label_new(void);

/* The service fail_index: records an error without a name, and what index_fault_explain needs. */
compute_status index_fault_record(const compute_context *context, uint32_t label, int64_t index,
                                  int64_t offset);

/* The service fail, whose error is another. */
void index_fault_forget(void);

/* The label that the backend has reported with the calling thread's last error, or 0. */
uint32_t index_fault_label(void);

/* Rewrites the calling thread's last error, a COMPUTE_ERROR_INDEX of a backend, in terms of the
 * caller's operands; with NULL, if the call is unknown, leaves it unchanged. Returns the status. */
compute_status index_fault_explain(const compute_context *context, const index_check *check);

#endif
