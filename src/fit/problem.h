/* A problem as the public calls of src/fit take it: checked, with its defaults in place. */
#ifndef FIT_PROBLEM_H
#define FIT_PROBLEM_H

#include "compute/device.h"
#include "compute/fit_model.h"

/* COMPUTE_ERROR_INVALID_ARGUMENT names the field; _SHAPE: fewer pixels than free parameters. */
compute_status fit_problem_take(const compute_context *context, const char *operation,
                                const compute_fit_problem *problem, compute_fit_problem *normal);

#endif
