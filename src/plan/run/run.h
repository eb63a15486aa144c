/* One run of a plan, from the bindings to the last step: bind.c, run_steps.c, run.c; and what
 * happens when it fails: ladder.c. */
#ifndef PLAN_RUN_H
#define PLAN_RUN_H

#include <stdatomic.h>

#include "plan/plan.h"
#include "plan/run/record.h"
#include "plan/run/spans.h"

/* What may end a run before its last step, and where others see how far it is. */
typedef struct run_control {
  const atomic_bool *cancelled; /* or NULL; looked at between steps */
  int64_t deadline;             /* of CLOCK_MONOTONIC in nanoseconds; 0: none */
  atomic_uint *progress;        /* or NULL; gets the number of steps submitted */
  bool timed;                   /* every step is waited for, and its time kept in the plan */
} run_control;

/* A further tensor for an output that the caller named more than once. */
typedef struct plan_repeat {
  uint32_t port;
  compute_tensor *tensor;
} plan_repeat;

/* Scratch of a run, kept by the plan and used again. */
typedef struct plan_run {
  struct plan_run *next;
  compute_queue *queue[PLAN_DEVICES]; /* made when first needed */
  compute_tensor **bound;             /* per port, as the caller gave it */
  compute_tensor **stand_in;          /* per port, or NULL */
  plan_repeat *repeats;               /* outputs to be copied when the run is over */
  uint32_t repeat_count;
  span_list inputs, outputs, parameters; /* what they span; the outputs with repeats */
  const compute_memory **memory;         /* per slot */
  uint64_t *offset;                      /* per slot */
  compute_argument *arguments;
  plan_recording recording;
  uint32_t first_assign; /* step from which on parameters are written; step_count if none is */
  uint32_t submitted;    /* steps of this run so far */
  int64_t deadline;      /* of this run's control; 0: none */
} plan_run;

/* bind.c: checks the bindings and notes them per port. COMPUTE_ERROR_BINDING and its like. */
compute_status bind_all(const compute_plan *plan, plan_run *run, const compute_binding *bindings,
                        size_t count);

/* bind.c: the memory of inputs, outputs and parameters, with stand-ins where tensors cannot be used
 * as they are. */
compute_status bind_ports(const compute_plan *plan, plan_run *run);

/* run_steps.c: submits every step to `queue` (and what runs on the CPU to the run's own).
 * COMPUTE_ERROR_CANCELLED or _TIMEOUT between steps when `control` (or NULL) says so, before the
 * first that writes parameters; COMPUTE_ERROR_TIMEOUT also when a transfer does not end in time. */
compute_status run_steps(const compute_plan *plan, plan_run *run, compute_queue *queue,
                         const run_control *control);

/* What a failed attempt leaves behind. */
typedef struct run_attempt {
  uint32_t steps; /* submitted */
  bool touched;   /* parameters may have been written */
  bool foreign;   /* the caller's queue failed, perhaps with other work */
  bool hung;      /* the device did not end in time */
} run_attempt;

/* run.c: one attempt on the plan's own devices. With a deadline it is finished on return. */
compute_status run_once(const compute_plan *plan, const compute_binding *bindings, size_t count,
                        compute_queue *queue, const run_control *control, run_attempt *attempt);

/* run.c: whether the bindings are right, without running. */
compute_status run_check(const compute_plan *plan, const compute_binding *bindings, size_t count);

/* What a call asks for. */
typedef struct run_request {
  compute_queue *queue;
  compute_run_fallback fallback;
  double time_limit;            /* seconds; 0: none */
  const atomic_bool *cancelled; /* as in run_control */
  atomic_uint *progress;
} run_request;

/* ladder.c: compute_run_with for checked arguments. `report` may be NULL. */
compute_status run_with_ladder(const compute_plan *plan, const compute_binding *bindings,
                               size_t count, const run_request *request,
                               compute_run_report *report);

/* ladder.c: whether a time limit is one, and the time at which it will have passed (0: never). */
bool run_limit_is_valid(double seconds);
int64_t run_deadline(double seconds);

#endif
