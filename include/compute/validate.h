/* SPDX-License-Identifier: MIT */
/** @file
 * Validation: every step of every plan is checked while it runs.
 *
 * Each step that a device has run is evaluated again from the same inputs, element by element in
 * double precision, and the results are compared. The plain code for this shares nothing with any
 * backend. The tolerance of each element follows from the step itself: the evaluation carries a
 * bound on the rounding error along with each value. So cancellations and sums of a thousand terms
 * may have their unavoidable errors, while a wrong element is found. A step's inputs are the
 * device's own earlier results, so an error is reported where it arises, not where it shows.
 *
 * For finding faults, not for production: each step is waited for, its operands are fetched, and
 * the plain evaluation takes up to a thousand times as long as the step. For steps with more work
 * than the options allow, only evenly spaced elements are checked. Steps run one by one even if a
 * device could run them as one recording. Kernels of the caller's own are not checked. */
#ifndef COMPUTE_VALIDATE_H
#define COMPUTE_VALIDATE_H

#include "compute/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum compute_validation_policy {
  COMPUTE_VALIDATION_REPORT = 0,  /**< report, and continue with the device's result */
  COMPUTE_VALIDATION_REPLACE = 1, /**< report, and continue with the plain result */
  COMPUTE_VALIDATION_FAIL = 2     /**< report, and end the run with COMPUTE_ERROR_VALIDATION */
} compute_validation_policy;

typedef enum compute_validation_kind {
  COMPUTE_VALIDATION_DIFFERS = 0,  /**< by more than the tolerance */
  COMPUTE_VALIDATION_NAN = 1,      /**< a NaN where the plain result is a number */
  COMPUTE_VALIDATION_INFINITE = 2, /**< infinite where the plain result is finite */
  /** The device agrees: the operation itself gives a NaN or an infinite value from finite inputs.
   * Only with COMPUTE_VALIDATION_ORIGINS; never replaced, and never ends a run. */
  COMPUTE_VALIDATION_ORIGIN = 3
} compute_validation_kind;

/** One operand of a step. */
typedef struct compute_validation_input {
  compute_dtype dtype;
  double least, most;      /**< of the finite values; 0 if there are none */
  uint64_t count;          /**< elements that the step may read */
  uint64_t nans, infinite; /**< among them */
} compute_validation_input;

/** The finding of one step. Valid only during the callback. */
typedef struct compute_validation_finding {
  compute_validation_kind kind;
  const char *device;
  const char *plan;   /**< its name, or "" */
  uint32_t step;      /**< within the plan, from 0, as compute_explain counts them */
  const char *text;   /**< "map exp(in0)" */
  const char *shape;  /**< of the iteration space */
  uint32_t output;    /**< of the step, from 0 */
  int64_t position;   /**< of the worst element, row-major in the iteration space of the output */
  double actual;      /**< there, on the device */
  double expected;    /**< there, by the plain evaluation */
  double error;       /**< |actual − expected|; infinite if one of them is not finite */
  double tolerance;   /**< that was allowed */
  uint64_t bad_count; /**< elements of this output that are beyond their tolerance */
  uint64_t count;     /**< elements of this output */
  const compute_validation_input *inputs;
  uint32_t input_count;
  const char *message; /**< all of this in a sentence or two, as it is logged */
} compute_validation_finding;

/** Called in the thread that runs the plan; must not call back into the library, and must return
 * (compute.h). */
typedef void (*compute_validation_function)(void *user, const compute_validation_finding *finding);

enum {
  /** Also report steps that produce NaN or infinity although the device is right. */
  COMPUTE_VALIDATION_ORIGINS = 1 << 0
};

typedef struct compute_validation_options {
  compute_validation_policy policy;
  uint32_t flags;                       /**< COMPUTE_VALIDATION_… */
  double tolerance;                     /**< multiplies every tolerance; 0: 1 */
  compute_validation_function function; /**< receives the findings; NULL: they are only logged */
  void *user;
  uint64_t most_operations; /**< a step with more work is checked at evenly spaced elements; 0:
                             * 2^28 */
  uint64_t reserved[6];     /**< must be zero */
} compute_validation_options;

/** Starts validating runs in the context, or changes the options. `options` may be NULL. Findings
 * are logged as warnings. COMPUTE_VALIDATE in the environment (warn, replace, strict) starts it
 * when a context opens. COMPUTE_ERROR_NULL_POINTER, _INVALID_ARGUMENT, _OUT_OF_MEMORY. Thread-safe,
 * as are those below. */
COMPUTE_API compute_status compute_validation_start(compute_context *context,
                                                    const compute_validation_options *options);

/** Stops validating. Steps in progress may still be checked. COMPUTE_ERROR_NULL_POINTER. */
COMPUTE_API compute_status compute_validation_stop(compute_context *context);

/** Counted since the context was opened. */
typedef struct compute_validation_statistics {
  uint64_t steps;    /**< checked */
  uint64_t elements; /**< compared */
  uint64_t vague;    /**< of these, so ill-conditioned that any number would pass */
  uint64_t findings; /**< outputs of steps that were reported */
  uint64_t replaced; /**< outputs replaced by the plain result */
  uint64_t skipped;  /**< steps that ran out of memory, and fits, which are not evaluated again */
  uint64_t reserved[10];
} compute_validation_statistics;

/** COMPUTE_ERROR_NULL_POINTER. */
COMPUTE_API compute_status compute_validation_query(const compute_context *context,
                                                    compute_validation_statistics *statistics);

#ifdef __cplusplus
}
#endif
#endif
