/* SPDX-License-Identifier: MIT */
/* What is said of an index in the data that lies outside its axis: which call it was given to, its
 * value as the caller gave it, and its position in the caller's operand. A backend knows only the
 * value and where it read it; on devices it finds out long after the kernel was submitted, when the
 * plan may be gone. So plans keep these records apart from their steps, and queues hold on to those
 * of work that has not been waited for. */
#ifndef DEVICE_INDEX_FAULT_H
#define DEVICE_INDEX_FAULT_H

#include "compute/backend.h"

/* For one kernel. */
typedef struct index_check {
  uint32_t label;                   /* unique among those that are in use together; not 0 */
  const char *operation, *word;     /* "cross_entropy", "label"; static */
  char *names;                      /* " (node 'loss')" or ""; owned */
  compute_shape shape;              /* of the caller's operand */
  compute_shape read;               /* of the kernel's: the same elements in the same order … */
  int64_t stride[COMPUTE_MAX_RANK]; /* … and where they lie */
  int64_t size;                     /* of the axis */
  bool from_zero;                   /* negative indices lie outside */
} index_check;

/* Those of a plan. */
typedef struct index_checks {
  int32_t references; /* atomic */
  uint32_t count;
  index_check *rows;
} index_checks;

/* Zeroed rows, with one reference; NULL when memory is short. */
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

/* Records the calling thread's last error, a COMPUTE_ERROR_INDEX of a backend, in the caller's
 * words; with NULL, when nobody knows whose index it is, leaves it as it is. Returns the status. */
compute_status index_fault_explain(const compute_context *context, const index_check *check);

#endif
