/* SPDX-License-Identifier: MIT */
/* One run of a plan, from the bindings to the last step (bind.c, steps.c, run.c), and the fallback
 * after a failure (cpu_plan.c, fallback.c). */
#ifndef PLAN_RUN_H
#define PLAN_RUN_H

#include <stdatomic.h>

#include "core/tensor/tensor.h"
#include "plan/compile/plan.h"

/* ---- bind.c: the spans of tensors, and overlaps ---------------------------------------------- */

/* The bytes from a tensor's first element to the end of its last. The span has host addresses if
 * the memory has one, because two wraps of one array are two buffers. Otherwise it has offsets into
 * a buffer. */
typedef struct memory_span {
  const void *space; /* NULL: host memory */
  uint64_t begin, end;
  uint64_t reach; /* in a sorted list: the largest end so far in the same space */
} memory_span;

typedef struct span_list {
  memory_span *at; /* allocated by the caller, with room for all spans */
  uint32_t count;
} span_list;

/* Adds the span of a tensor. A tensor without elements overlaps no other and adds nothing. */
void spans_add(span_list *list, const compute_tensor *tensor);

/* Sorts the list; call it after the last spans_add. */
void spans_sort(span_list *list);

/* True if a tensor overlaps any span of a sorted list. */
bool spans_meet(const span_list *list, const compute_tensor *tensor);

/* True if any two spans of a sorted list overlap. */
bool spans_collide(const span_list *list);

/* ---- One run --------------------------------------------------------------------------------- */

/* A plan's steps as one recording of the device, for backends that can record (backend.h).
 *
 * A hundred small kernels cost a hundred driver calls; a recording costs one. Each scratch has a
 * separate recording, made at its second run. The first run warms the device up, and a plan that
 * runs only once does not repay a recording. */
typedef struct plan_recording {
  void *handle;                /* owned by the backend, or NULL */
  compute_argument *arguments; /* of all steps, contiguous */
  uint32_t count;
  uint32_t runs;          /* runs submitted step by step so far */
  bool given_up;          /* the plan or the device cannot be recorded */
  unsigned char *skipped; /* by step: a copy onto itself, which the recording omits */
} plan_recording;

/* A caller that is asked whether its run continues. Its runs share `ended` as run_control.cancelled. */
typedef struct run_ask {
  bool (*go_on)(void *user);
  void *user;
  int64_t next;      /* it is not asked before this time, in nanoseconds */
  atomic_bool ended; /* the answer was no */
} run_ask;

enum { RUN_ASK_INTERVAL = 50000000 }; /* nanoseconds */

/* The conditions that may end a run before its last step, and its visible progress. */
typedef struct run_control {
  const atomic_bool *cancelled; /* or NULL; checked between steps */
  run_ask *ask;                 /* or NULL; asked between steps, on the calling thread only */
  int64_t deadline;             /* CLOCK_MONOTONIC, in nanoseconds; 0: none */
  atomic_uint *progress;        /* or NULL; receives the number of submitted steps */
  bool timed;                   /* waits for every step and keeps its time in the plan */
} run_control;

/* A further tensor for an output that the caller listed more than once. */
typedef struct plan_repeat {
  uint32_t port;
  compute_tensor *tensor;
} plan_repeat;

/* Scratch memory of a run, kept by the plan for reuse. */
typedef struct plan_run {
  struct plan_run *next;
  compute_queue *queue[PLAN_DEVICES]; /* created when first needed */
  compute_queue **arena_queue; /* by thread, likewise; thread 0 uses the queue of other steps */
  compute_tensor **bound;      /* by port, the caller's tensor */
  compute_tensor **substitute; /* by port, or NULL */
  plan_repeat *repeats;        /* outputs to copy after the run */
  uint32_t repeat_count;
  span_list inputs, outputs, parameters; /* their spans; the outputs include the repeats */
  const compute_memory **memory;         /* by slot */
  uint64_t *offset;                      /* by slot */
  compute_argument *arguments;
  plan_recording recording;
  uint32_t first_assign;    /* the first step that writes parameters; step_count if none */
  uint32_t first_overwrite; /* … or bound inputs */
  uint32_t submitted;       /* steps of this run so far */
  uint32_t done;            /* steps without a failure so far */
  bool refused;             /* a user-defined function has failed */
  int64_t deadline;         /* from this run's control; 0: none */
} plan_run;

/* bind.c: returns the input or output port of a graph node (by index); NULL if there is none. */
const plan_port *plan_find_input(const compute_plan *plan, uint32_t node);
const plan_port *plan_find_output(const compute_plan *plan, uint32_t node);

/* bind.c: checks the bindings and stores them by port. Fails with COMPUTE_ERROR_BINDING and
 * similar. */
compute_status bind_all(const compute_plan *plan, plan_run *run, const compute_binding *bindings,
                        size_t count);

/* bind.c: finds the memory of inputs, outputs and parameters. Creates substitutes for tensors that
 * the steps cannot use directly. */
compute_status bind_ports(const compute_plan *plan, plan_run *run);

/* steps.c: submits every step to `queue`; steps on the CPU go to the run's CPU queue. `control` may
 * be NULL. It can end the run between two steps with COMPUTE_ERROR_CANCELLED or
 * COMPUTE_ERROR_TIMEOUT, but not after the first step that writes parameters. COMPUTE_ERROR_TIMEOUT
 * also means that a transfer did not end in time. */
compute_status run_steps(const compute_plan *plan, plan_run *run, compute_queue *queue,
                         const run_control *control);

/* steps.c: asks the caller if it is time. Returns false if the run must end. `ask` may be NULL. Only
 * on the run's own thread. */
bool run_goes_on(run_ask *ask);

/* steps.c: frees a recording. */
void record_release(const compute_plan *plan, plan_recording *recording);

/* The state after a failed attempt. */
typedef struct run_attempt {
  uint32_t steps;           /* submitted */
  bool touched;             /* parameters, or inputs in place, may have been written */
  bool foreign;             /* the caller's queue failed, perhaps with other work */
  bool hung;                /* the device did not end in time */
  bool refused;             /* a user-defined function failed, not the device */
  bool joined;              /* it made calls that others wait for (graph_host_call.skip), … */
  const compute_plan *plan; /* … from this plan's steps (NULL: no step ran) … */
  uint32_t done;            /* … before this index */
} run_attempt;

/* Called after the last attempt at a run, if it failed. Skips the calls that others wait for and
 * that the run did not make. */
void run_skip_rest(const compute_plan *plan, const run_attempt *attempt);

/* run.c: one attempt on the plan's devices. With a deadline, the attempt is finished on return. */
compute_status run_once(const compute_plan *plan, const compute_binding *bindings, size_t count,
                        compute_queue *queue, const run_control *control, run_attempt *attempt);

/* run.c: checks the bindings without running. */
compute_status run_check(const compute_plan *plan, const compute_binding *bindings, size_t count);

/* The options of a call. */
typedef struct run_request {
  compute_queue *queue;
  compute_fallback fallback;
  double time_limit;            /* seconds; 0: none */
  const atomic_bool *cancelled; /* as in run_control */
  run_ask *ask;                 /* likewise */
  atomic_uint *progress;
} run_request;

/* fallback.c: compute_run_with for checked arguments. `report` may be NULL. */
compute_status run_with_fallback(const compute_plan *plan, const compute_binding *bindings,
                                 size_t count, const run_request *request,
                                 compute_run_report *report);

/* fallback.c: checks a time limit, and returns the time at which it expires (0: never). */
bool run_limit_is_valid(double seconds);
int64_t run_deadline(double seconds);

/* ---- cpu_plan.c ------------------------------------------------------------------------------ */

typedef struct staged_parameter {
  compute_tensor *original, *copy; /* one reference each; copy is NULL until first needed */
  bool assigned;
} staged_parameter;

/* The data that a plan for another device needs to repeat a failed run on the CPU: a copy of the
 * needed part of the graph. It shares the constants with the original graph. The CPU plan is
 * compiled when it is first needed. */
typedef struct cpu_plan {
  pthread_mutex_t mutex;
  compute_graph graph; /* the clone; not counted as an object of the context */
  uint32_t *outputs;
  uint32_t output_count, flags;
  staged_parameter *staged;
  uint32_t staged_count;
  compute_plan *plan; /* NULL until first needed */
} cpu_plan;

/* True if a plan should have a CPU plan: it is not strict, and not for the CPU. */
bool cpu_plan_is_wanted(const compute_plan *plan);

/* Creates it; `outputs` are indices in the graph. */
compute_status cpu_plan_create(const compute_graph *graph, const uint32_t *outputs, uint32_t count,
                               uint32_t flags, cpu_plan **result);
void cpu_plan_release(cpu_plan *cpu);         /* NULL is allowed */
uint64_t cpu_plan_bytes(const cpu_plan *cpu); /* an estimate of its memory; 0 for NULL */

/* Mutex held. Replaces each parameter on another device by a CPU tensor in the copy of the
 * graph. */
compute_status cpu_plan_stage(cpu_plan *cpu);

#endif
