/* SPDX-License-Identifier: MIT */
/* Loops that are run, not unrolled: the graph within a Loop or Scan is compiled once, and a run
 * goes through it as often as it has to. The state is in two sets of tensors by turns; what is
 * scanned is bound as views.
 *
 * Several iterations make one plan where their number is known, so that a run of a plan does not
 * cost more than its work. A second plan has the iterations that are left over. */
#ifndef MODEL_LOOP_H
#define MODEL_LOOP_H

#include "model/model.h"

/* A plan of `trips` iterations in a row. Nodes are {0} for what the plan does not use. */
typedef struct loop_plan {
  int64_t trips;
  compute_plan *plan;
  slot_list captured;           /* values from outside the loop */
  compute_node iteration;       /* the number of the first: an i64 scalar */
  compute_node condition;       /* whether to go on: with trips 1 only */
  compute_node *state_in;       /* before … */
  compute_node *state_out;      /* … and after; {0}: unchanged */
  compute_node *scan_in;        /* [trips, …] */
  compute_node *scan_out;       /* [trips, …] */
  compute_shape *scan_in_shape; /* of one iteration */
} loop_plan;

/* Inputs and outputs of the node: states first, then what is scanned. */
typedef struct model_loop {
  const onnx_graph *body;
  size_t state_count, in_count, out_count;
  size_t first_input; /* the node's input that is the first state */
  bool counts;        /* the body has an iteration number and a condition before its states */
  bool tests;         /* the body computes the condition */
  int64_t trips;      /* −1: as long as the condition holds */
  const int32_t *in_axis, *out_axis;
  const bool *in_reverse, *out_reverse;
  compute_dtype *out_dtype;
  compute_shape *out_shape; /* of one iteration */
  loop_plan main, rest;     /* rest.trips 0: nothing is left over */
} model_loop;

/* Most iterations of a loop, and, in millions of them, minutes. */
enum { LOOP_MOST_TRIPS = 1 << 27 };

/* What is known of the condition that the body computes, before any state is. */
typedef enum loop_condition {
  LOOP_TESTS,     /* only a run knows it */
  LOOP_COUNTS,    /* it is known if the iteration's number is */
  LOOP_NEVER_ENDS /* it is always true */
} loop_condition;

/* Recorders of stages have these; others record iterations one by one. They are called through the
 * recorder, since recording a loop calls the rules, among which are those of loops. */
typedef struct loop_makers {
  compute_status (*condition_of)(model_call *call, const model_loop *loop, loop_condition *result);
  compute_status (*take)(model_call *call, const model_loop *loop, bool *taken);
} loop_makers;

extern const loop_makers loop_makers_of_stages;

/* From a rule: the loop is run if it can be: its graph is one plan, its states keep their dtypes
 * and shapes. *taken becomes true, and the rule returns the status. Otherwise it is false, and the
 * rule records the iterations one by one. `loop` has everything that is known without recording. */
static inline compute_status loop_take(model_call *call, const model_loop *loop, bool *taken) {
  const loop_makers *makers = call->recorder->loops;
  *taken = false;
  return makers ? makers->take(call, loop, taken) : COMPUTE_OK;
}

/* LOOP_COUNTS also where loops are not run. */
static inline compute_status loop_condition_of(model_call *call, const model_loop *loop,
                                               loop_condition *result) {
  const loop_makers *makers = call->recorder->loops;
  *result = LOOP_COUNTS;
  return makers ? makers->condition_of(call, loop, result) : COMPUTE_OK;
}

/* Runs it. `inputs` has a tensor for each input of the node, or NULL; `table` those of the run by
 * id. Makes a tensor for each output of the node, released by the caller, also after a failure. */
compute_status loop_run(const compute_model *model, const char *operation, const model_loop *loop,
                        compute_tensor *const *inputs, compute_tensor *const *table,
                        size_t output_count, compute_tensor **outputs);

uint64_t loop_bytes(const model_loop *loop); /* that it takes, about; of NULL 0 */
void loop_release(model_loop *loop);         /* NULL is allowed; it is in an arena */

#endif
