/* SPDX-License-Identifier: MIT */
/* Compiled loops: the graph in a Loop or Scan is compiled once, and a run repeats its plan. Two
 * sets of state tensors alternate; scanned tensors are bound as views.
 *
 * If the number of iterations is known, one plan contains several of them, so that the cost of
 * starting a plan stays below the cost of its work. A second plan has the remaining iterations. */
#ifndef MODEL_LOOP_H
#define MODEL_LOOP_H

#include "model/model.h"
#include "plan/compile/run/run.h"

/* A plan of `trips` consecutive iterations. Nodes are {0} if the plan does not use them. */
typedef struct loop_plan {
  int64_t trips;
  compute_plan *plan;
  slot_list captured;           /* values from outside the loop */
  compute_node iteration;       /* the first iteration's number, an i64 scalar */
  compute_node condition;       /* whether to continue; only if trips is 1 */
  compute_node *state_in;       /* before … */
  compute_node *state_out;      /* … and after; {0}: unchanged */
  compute_node *scan_in;        /* [trips, …] */
  compute_node *scan_out;       /* [trips, …] */
  compute_shape *scan_in_shape; /* of one iteration */
} loop_plan;

/* The node's inputs and outputs: states first, then scanned tensors. */
typedef struct model_loop {
  const onnx_graph *body;
  size_t state_count, in_count, out_count;
  size_t first_input; /* the node's input that is the first state */
  bool counts;        /* the body takes an iteration number and a condition before its states */
  bool tests;         /* the body computes the condition */
  int64_t trips;      /* −1: until the condition fails */
  const int32_t *in_axis, *out_axis;
  const bool *in_reverse, *out_reverse;
  compute_dtype *out_dtype;
  compute_shape *out_shape; /* of one iteration */
  loop_plan main, rest;     /* rest.trips 0: no remainder */
} model_loop;

/* Limit on a loop's iterations. Millions of iterations already take minutes. */
enum { LOOP_MOST_TRIPS = 1 << 27 };

/* When the body's condition is known, before any state is. */
typedef enum loop_condition {
  LOOP_TESTS,     /* only during a run */
  LOOP_COUNTS,    /* known if the iteration's number is known */
  LOOP_NEVER_ENDS /* it is always true */
} loop_condition;

/* Recorders of stages have these; others record each iteration. The recorder calls them through
 * pointers because recording a loop calls all rules, including the rules of loops. */
typedef struct loop_makers {
  compute_status (*condition_of)(model_call *call, const model_loop *loop, loop_condition *result);
  compute_status (*take)(model_call *call, const model_loop *loop, bool *taken);
} loop_makers;

extern const loop_makers loop_makers_of_stages;

/* For rules: tries to compile the loop. That needs a body that fits in one plan and states that
 * keep their dtypes and shapes. If *taken becomes true, the rule returns the status. Otherwise
 * the rule records each iteration. `loop` has all properties that are known without recording. */
static inline compute_status loop_take(model_call *call, const model_loop *loop, bool *taken) {
  const loop_makers *makers = call->recorder->loops;
  *taken = false;
  return makers ? makers->take(call, loop, taken) : COMPUTE_OK;
}

/* Returns LOOP_COUNTS also if loops are not compiled. */
static inline compute_status loop_condition_of(model_call *call, const model_loop *loop,
                                               loop_condition *result) {
  const loop_makers *makers = call->recorder->loops;
  *result = LOOP_COUNTS;
  return makers ? makers->condition_of(call, loop, result) : COMPUTE_OK;
}

/* compute_run, which the caller of a model's run may end. `ask` may be NULL. */
compute_status model_run_plan(const compute_plan *plan, const compute_binding *bindings,
                              size_t count, run_ask *ask);

/* Runs the loop. `ask` may be NULL. `inputs` has a tensor or NULL for each input of the node; `table` has the run's
 * tensors by id. Makes a tensor for each output of the node. The caller releases them, also
 * after a failure. */
compute_status loop_run(const compute_model *model, const char *operation, const model_loop *loop,
                        compute_tensor *const *inputs, compute_tensor *const *table, run_ask *ask,
                        size_t output_count, compute_tensor **outputs);

uint64_t loop_bytes(const model_loop *loop); /* approximate memory use; 0 for NULL */
void loop_release(model_loop *loop);         /* accepts NULL; `loop` itself is in an arena */

#endif
