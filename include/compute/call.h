/* SPDX-License-Identifier: MIT */
/** @file
 * Your own C function as an operation of a graph. docs/guide/own-functions.md is the guide;
 * kernel.h has functions that are compiled for the device instead.
 * @code
 *   static compute_status twice(void *user, const compute_call_arguments *a, int32_t part,
 *                               int32_t parts) {
 *     const float *x = a->inputs[0].data;
 *     float *y = a->outputs[0].data;
 *     for (int64_t i = 0; i < a->outputs[0].count; i++) y[i] = 2 * x[i];
 *     return COMPUTE_OK;
 *   }
 *
 *   compute_node y = compute_call(graph, twice, NULL, &x, 1,
 *                                 &(compute_call_output){COMPUTE_F32, COMPUTE_SHAPE(100)}, 1,
 *                                 NULL, NULL);
 * @endcode
 * The function runs on the CPU. In a plan for another device it is a step on the CPU, with copies
 * of its inputs and outputs around it. This does not count as a fallback: strict plans allow it as
 * well. It needs a context with a CPU device. */
#ifndef COMPUTE_CALL_H
#define COMPUTE_CALL_H

#include "compute/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define COMPUTE_CALL_MAX_INPUTS  16
#define COMPUTE_CALL_MAX_OUTPUTS 8

/** A tensor in host memory: dense, row-major, aligned for its dtype. */
typedef struct compute_call_tensor {
  void *data; /**< read-only for inputs. Unspecified for a tensor without elements */
  compute_dtype dtype;
  compute_shape shape;
  int64_t count; /**< elements */
} compute_call_tensor;

/** The function's arguments, valid during the call only. */
typedef struct compute_call_arguments {
  const compute_call_tensor *inputs, *outputs;
  uint32_t input_count, output_count;
  const char *name; /**< as in the options; "" for none */
} compute_call_arguments;

/** The function. Every run calls it once for each part 0 … parts − 1, in any order: several at the
 * same time on threads of the context's pool, or in sequence on any thread. A part must not wait
 * for another. Together the parts write every element of every output, whose contents are undefined
 * before. Inputs never overlap outputs.
 *
 * - Threads: it must be prepared for concurrent calls with the same `user`. Several threads may run
 *   a plan at once; the batch iterator and training with several replicas do.
 * - Allowed calls: functions that need no context (dtype.h, shapes), compute_call_fail, and
 *   everything on another context. It must not run plans, wait for queues, jobs or batches, or make
 *   or release objects of the graph's context.
 * - It must return (compute.h), and is never interrupted: cancelling a run and its time limit take
 *   effect after the step.
 * - Failure: any status but COMPUTE_OK fails the run, which returns it with the message of
 *   compute_call_fail (COMPUTE_ERROR_LAUNCH for a number that is not a status). Parts that have not
 *   begun are skipped. As after every failed run, outputs are undefined, and parameters unchanged.
 *   The failure is not repeated on the CPU, and later runs are not affected. */
typedef compute_status (*compute_call_function)(void *user, const compute_call_arguments *arguments,
                                                int32_t part, int32_t parts);

/** Sets the error message of a failing call, as printf does. Returns `status`, for the function to
 * return: `return compute_call_fail(arguments, COMPUTE_ERROR_FORMAT, "row %d …", …)`. Of several
 * messages of one part the last counts; of several failing parts, the lowest. */
COMPUTE_API compute_status compute_call_fail(const compute_call_arguments *arguments,
                                             compute_status status, const char *format, ...)
    COMPUTE_PRINTF(3, 4);

/** The share of `count` items that is part `part`'s: *first … *end − 1. */
static inline void compute_call_share(int64_t count, int32_t part, int32_t parts, int64_t *first,
                                      int64_t *end) {
  const int64_t each = count / parts, more = count % parts;
  *first = part * each + (part < more ? part : more);
  *end = *first + each + (part < more ? 1 : 0);
}

/** Records the gradient of a call, while compute_gradients does.
 *
 * - input_gradients[i] takes a node for d(loss)/d(inputs[i]), with that input's shape and dtype.
 *   All are initially {0}, which means no gradient for that input; inputs that are not floats stay
 *   so.
 * - output_gradients[k] is d(loss)/d(outputs[k]): zeros where the loss does not depend on it, {0}
 *   for outputs that are not floats.
 *
 * It may use every builder, compute_call included, and must return (compute.h). A status other than
 * COMPUTE_OK fails compute_gradients with it, unless the graph already has an error. */
typedef compute_status (*compute_call_gradient)(void *user, compute_graph *graph,
                                                const compute_node *inputs,
                                                const compute_node *outputs,
                                                const compute_node *output_gradients,
                                                compute_node *input_gradients);

enum {
  /** The outputs depend only on the inputs and `user`, and there are no side effects. Equal calls
   * (of function, user, inputs and options) may become one. A call whose inputs are constants may
   * be made once, while a plan is compiled.
   *
   * Without the flag, the function is called once in each run of a plan that needs one of its
   * outputs, in the order of recording. It is called again for a run that is repeated on the CPU
   * (compute_fallback), and when a trainer looks for numbers that are not finite.
   *
   * With or without it, a plan that needs no output of a call omits the call; compute_group
   * includes one that is there only for its effects. */
  COMPUTE_CALL_PURE = 1 << 0,

  COMPUTE_CALL_PARTS_AUTOMATIC = -1 /**< for `parts`: one for each of the context's threads */
};

typedef struct compute_call_options {
  const char *name; /**< in messages, profiles and compute_explain; up to 47 bytes are kept */
  uint32_t flags;   /**< COMPUTE_CALL_PURE */
  int32_t parts;    /**< 1 … 65536 or COMPUTE_CALL_PARTS_AUTOMATIC; 0: 1 */
  /** Called exactly once for each call of compute_call, also if that fails: when the graph and all
   * plans compiled from it have been released, by the thread that releases the last. It must return
   * (compute.h). */
  void (*release)(void *user);
  compute_call_gradient gradient; /**< NULL: compute_gradients through the call fails */
  uint64_t reserved[4];           /**< must be zero */
} compute_call_options;

typedef struct compute_call_output {
  compute_dtype dtype;
  compute_shape shape;
} compute_call_output;

/** A call of `function` with the values of `inputs` (up to COMPUTE_CALL_MAX_INPUTS, or none). It
 * has 1 … COMPUTE_CALL_MAX_OUTPUTS outputs of these dtypes and shapes. Returns the first output;
 * `results`, if it is not NULL, gets all of them ({0} on failure). NULL options: defaults.
 *
 * - A call whose outputs all have no elements is never made.
 * - Plans with a call are not recorded (cudaGraph), and nothing of a call is stored on disk.
 * - compute_gradients through a call without `gradient` is COMPUTE_ERROR_NOT_DIFFERENTIABLE.
 *
 * Errors: COMPUTE_ERROR_NULL_POINTER (function, inputs, outputs), _INVALID_ARGUMENT (numbers of
 * inputs, outputs, parts, unknown flags, reserved fields), _DTYPE, _SHAPE, _OVERFLOW, _WRONG_GRAPH,
 * _OUT_OF_MEMORY. */
COMPUTE_API compute_node compute_call(compute_graph *graph, compute_call_function function,
                                      void *user, const compute_node *inputs, size_t input_count,
                                      const compute_call_output *outputs, size_t output_count,
                                      const compute_call_options *options, compute_node *results);

#ifdef __cplusplus
}
#endif
#endif
