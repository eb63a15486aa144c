/* SPDX-License-Identifier: MIT */
/* One run of a plan, from the bindings to the last step: bind.c, steps.c, run.c; and the fallback
 * after a failure: cpu_plan.c, fallback.c. */
#ifndef PLAN_RUN_H
#define PLAN_RUN_H

#include <stdatomic.h>

#include "core/tensor/tensor.h"
#include "plan/compile/plan.h"

/* ---- bind.c: which bytes tensors span, and whether any of many overlap ----------------------- */

/* From the first element of a tensor to the end of the last. Host addresses if the memory has one,
 * since two wraps of one array are two buffers; otherwise offsets into a buffer. */
typedef struct memory_span {
  const void *space; /* NULL: the host's memory */
  uint64_t begin, end;
  uint64_t reach; /* in a sorted list: the largest end up to here, of one space */
} memory_span;

typedef struct span_list {
  memory_span *at; /* room for as many as will be added */
  uint32_t count;
} span_list;

/* Adds nothing for a tensor without elements, which overlaps no other one. */
void spans_add(span_list *list, const compute_tensor *tensor);

/* To be called after the last spans_add. */
void spans_sort(span_list *list);

/* Whether a tensor overlaps any of a sorted list. */
bool spans_meet(const span_list *list, const compute_tensor *tensor);

/* Whether any two of a sorted list overlap. */
bool spans_collide(const span_list *list);

/* ---- One run --------------------------------------------------------------------------------- */

/* A plan's steps as one recording of the device, for backends that can record (backend.h).
 *
 * Submitting a hundred small kernels one by one costs a driver call each; a recording is submitted
 * with one. Each scratch has its own recording, made at its second run: the first one warms the
 * device up, and a plan that runs only once is not worth recording. */
typedef struct plan_recording {
  void *handle;                /* the backend's, or NULL */
  compute_argument *arguments; /* of all steps, contiguous */
  uint32_t count;
  uint32_t runs;          /* submitted step by step so far */
  bool given_up;          /* the plan or the device cannot be recorded */
  unsigned char *skipped; /* by step: a copy onto itself, which is not in the recording */
} plan_recording;

/* What may end a run before its last step, and its visible progress. */
typedef struct run_control {
  const atomic_bool *cancelled; /* or NULL; checked between steps */
  int64_t deadline;             /* of CLOCK_MONOTONIC in nanoseconds; 0: none */
  atomic_uint *progress;        /* or NULL; gets the number of steps submitted */
  bool timed;                   /* every step is waited for, and its time kept in the plan */
} run_control;

/* A further tensor for an output that the caller named more than once. */
typedef struct plan_repeat {
  uint32_t port;
  compute_tensor *tensor;
} plan_repeat;

/* Scratch of a run, kept by the plan for reuse. */
typedef struct plan_run {
  struct plan_run *next;
  compute_queue *queue[PLAN_DEVICES]; /* created when first needed */
  compute_queue **lane_queue;  /* by lane, likewise; that of lane 0 is the one of the other steps */
  compute_tensor **bound;      /* per port, as the caller gave it */
  compute_tensor **substitute; /* per port, or NULL */
  plan_repeat *repeats;        /* outputs to copy after the run */
  uint32_t repeat_count;
  span_list inputs, outputs, parameters; /* what they span; the outputs with repeats */
  const compute_memory **memory;         /* per slot */
  uint64_t *offset;                      /* per slot */
  compute_argument *arguments;
  plan_recording recording;
  uint32_t first_assign;    /* step from which on parameters are written; step_count if none is */
  uint32_t first_overwrite; /* or bound inputs */
  uint32_t submitted;       /* steps of this run so far */
  uint32_t done;            /* those that have not failed */
  bool refused;             /* a caller's function has failed */
  int64_t deadline;         /* of this run's control; 0: none */
} plan_run;

/* bind.c: the input or output port for a node of the graph, by its index; NULL if there is none. */
const plan_port *plan_find_input(const compute_plan *plan, uint32_t node);
const plan_port *plan_find_output(const compute_plan *plan, uint32_t node);

/* bind.c: checks the bindings and stores them per port. COMPUTE_ERROR_BINDING and similar. */
compute_status bind_all(const compute_plan *plan, plan_run *run, const compute_binding *bindings,
                        size_t count);

/* bind.c: the memory of inputs, outputs and parameters, with substitutes for tensors that cannot be
 * used directly. */
compute_status bind_ports(const compute_plan *plan, plan_run *run);

/* steps.c: submits every step to `queue` (and what runs on the CPU to the run's own).
 * COMPUTE_ERROR_CANCELLED or _TIMEOUT between steps when `control` (or NULL) says so, before the
 * first that writes parameters; COMPUTE_ERROR_TIMEOUT also when a transfer does not end in time. */
compute_status run_steps(const compute_plan *plan, plan_run *run, compute_queue *queue,
                         const run_control *control);

/* steps.c: frees a recording. */
void record_release(const compute_plan *plan, plan_recording *recording);

/* The state after a failed attempt. */
typedef struct run_attempt {
  uint32_t steps;           /* submitted */
  bool touched;             /* parameters, or inputs in place, may have been written */
  bool foreign;             /* the caller's queue failed, perhaps with other work */
  bool hung;                /* the device did not end in time */
  bool refused;             /* a caller's function failed, not the device */
  bool joined;              /* calls that others wait for (graph_host_call.skip) were made, … */
  const compute_plan *plan; /* … of this plan's steps … */
  uint32_t done;            /* … up to this one; NULL: none of any plan */
} run_attempt;

/* After the last attempt at a run, if that has failed: calls that others wait for and that were not
 * made are skipped. */
void run_skip_rest(const compute_plan *plan, const run_attempt *attempt);

/* run.c: one attempt on the plan's own devices. With a deadline it is finished on return. */
compute_status run_once(const compute_plan *plan, const compute_binding *bindings, size_t count,
                        compute_queue *queue, const run_control *control, run_attempt *attempt);

/* run.c: checks the bindings, without running. */
compute_status run_check(const compute_plan *plan, const compute_binding *bindings, size_t count);

/* The options of a call. */
typedef struct run_request {
  compute_queue *queue;
  compute_fallback fallback;
  double time_limit;            /* seconds; 0: none */
  const atomic_bool *cancelled; /* as in run_control */
  atomic_uint *progress;
} run_request;

/* fallback.c: compute_run_with for checked arguments. `report` may be NULL. */
compute_status run_with_fallback(const compute_plan *plan, const compute_binding *bindings,
                                 size_t count, const run_request *request,
                                 compute_run_report *report);

/* fallback.c: whether a time limit is valid, and the time at which it expires (0: never). */
bool run_limit_is_valid(double seconds);
int64_t run_deadline(double seconds);

/* ---- cpu_plan.c ------------------------------------------------------------------------------ */

typedef struct staged_parameter {
  compute_tensor *original, *copy; /* a reference each; copy NULL until first needed */
  bool assigned;
} staged_parameter;

/* What a plan for another device keeps so that a failed run can be repeated on the CPU: the part of
 * the graph that it needs. The constants are shared with the original graph; the plan for the CPU
 * is compiled when it is first needed. */
typedef struct cpu_plan {
  pthread_mutex_t mutex;
  compute_graph graph; /* the clone; it is not an object of the context */
  uint32_t *outputs;
  uint32_t output_count, flags;
  staged_parameter *staged;
  uint32_t staged_count;
  compute_plan *plan; /* NULL until first needed */
} cpu_plan;

/* Whether a plan should have one: it is not strict, and not for the CPU. */
bool cpu_plan_is_wanted(const compute_plan *plan);

/* `outputs` are indices in the graph. */
compute_status cpu_plan_create(const compute_graph *graph, const uint32_t *outputs, uint32_t count,
                               uint32_t flags, cpu_plan **result);
void cpu_plan_release(cpu_plan *cpu);         /* NULL is allowed */
uint64_t cpu_plan_bytes(const cpu_plan *cpu); /* about what it takes; of NULL 0 */

/* Replaces each parameter on another device by a CPU tensor in the copy of the graph; with the
 * mutex held. */
compute_status cpu_plan_stage(cpu_plan *cpu);

#endif
