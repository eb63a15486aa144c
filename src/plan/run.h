/* One run of a plan, from the bindings to the last step. */
#ifndef PLAN_RUN_H
#define PLAN_RUN_H

#include <stdatomic.h>

#include "plan/plan.h"
#include "plan/record.h"

/* What may end a run before its last step. */
typedef struct run_control {
  const atomic_bool *cancelled; /* or NULL; looked at between steps */
  int64_t deadline;             /* of CLOCK_MONOTONIC in nanoseconds; 0: none */
} run_control;

/* Scratch of a run, kept by the plan and used again. */
typedef struct plan_run {
  struct plan_run *next;
  compute_queue *queue[PLAN_DEVICES]; /* made when first needed */
  compute_tensor **bound;             /* per port, as the caller gave it */
  compute_tensor **stand_in;          /* per port, or NULL */
  const compute_memory **memory;      /* per slot */
  uint64_t *offset;                   /* per slot */
  compute_argument *arguments;
  plan_recording recording;
} plan_run;

/* run_steps.c: submits every step to `queue` (and what runs on the CPU to the run's own).
 * COMPUTE_ERROR_CANCELLED or _TIMEOUT between steps when `control` (or NULL) says so. */
compute_status run_steps(const compute_plan *plan, plan_run *run, compute_queue *queue,
                         const run_control *control);

#endif
