/* SPDX-License-Identifier: MIT */
/* Error messages for an index in the data that is outside its axis. A message names the call, the
 * index as the caller gave it, and its position in the caller's operand. A backend has only the
 * index and its offset, and may report it long after the submission, when the plan is already gone.
 * Therefore plans store these records separately from their steps, and queues keep the records of
 * work that has not completed yet. */
#ifndef DEVICE_INDEX_FAULT_H
#define DEVICE_INDEX_FAULT_H

#include <stdatomic.h>

#include "compute/backend.h"

/* The index check of one kernel. */
typedef struct index_check {
  uint32_t label;                   /* unique among labels in use; not 0 */
  const char *operation, *word;     /* "cross_entropy" and "label"; static */
  char *names;                      /* " (node 'loss')" or ""; owned */
  compute_shape shape;              /* shape of the caller's operand */
  compute_shape read;               /* shape of the kernel's operand: the same elements in order */
  int64_t stride[COMPUTE_MAX_RANK]; /* layout of the kernel's operand */
  int64_t size;                     /* size of the indexed axis */
  bool from_zero;                   /* negative indices are invalid */
} index_check;

/* The index checks of a plan. */
typedef struct index_checks {
  _Atomic int32_t references;
  uint32_t count;
  index_check *rows;
} index_checks;

/* Returns zeroed rows with one reference, or NULL when out of memory. */
index_checks *index_checks_create(uint32_t count);
index_checks *index_checks_retain(index_checks *checks);
void index_checks_release(index_checks *checks); /* NULL is allowed */

/* Returns a label that no row in use has. */
uint32_t index_label_new(void);

/* Implements the service fail_index: records an error without names, and the data for
 * index_fault_explain. */
compute_status index_fault_record(const compute_context *context, uint32_t label, int64_t index,
                                  int64_t offset);

/* For the service fail: a different error replaces the fault. */
void index_fault_forget(void);

/* The label that the backend reported with the calling thread's last error, or 0. */
uint32_t index_fault_label(void);

/* Rewrites the calling thread's last error, a backend's COMPUTE_ERROR_INDEX, in terms of the
 * caller's operands. If `check` is NULL (unknown call), the error stays unchanged. Returns
 * COMPUTE_ERROR_INDEX. */
compute_status index_fault_explain(const compute_context *context, const index_check *check);

#endif
