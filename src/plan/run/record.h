/* A plan's steps as one recording of the device, for backends that can record (backend.h).
 *
 * Submitting a hundred small kernels one by one costs a driver call each; a recording is submitted
 * with one. A run's scratch keeps its own recording, made at its second run: the first one warms
 * the device up, and a plan that runs only once is not worth recording. */
#ifndef PLAN_RECORD_H
#define PLAN_RECORD_H

#include "plan/plan.h"

typedef struct plan_recording {
  void *handle;                /* the backend's, or NULL */
  compute_argument *arguments; /* of all steps, one behind the other */
  uint32_t count;
  uint32_t runs; /* submitted step by step so far */
  bool given_up; /* the plan or the device cannot be recorded */
} plan_recording;

/* Submits all steps as a recording, made now if it is time. False when the caller must submit them
 * step by step; else *status says how it went. `memory` and `offset` are those of the slots. */
bool record_run(const compute_plan *plan, plan_recording *recording, compute_queue *queue,
                const compute_memory *const *memory, const uint64_t *offset,
                compute_status *status);

void record_release(const compute_plan *plan, plan_recording *recording);

#endif
