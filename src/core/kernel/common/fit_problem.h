/* SPDX-License-Identifier: MIT */
/* The problem of a fit: its checks, and its normalised form for backends. */
#ifndef KERNEL_FIT_PROBLEM_H
#define KERNEL_FIT_PROBLEM_H

#include "compute/backend.h"
#include "compute/fit_model.h"

#define FIT_INPUTS 10 /* optional inputs besides the pixels: bits of `inputs` */

/* Positions in the order of the bits: corners, maps, inputs of single ROIs, spline. */
enum { FIT_MAP_FIRST = 1, FIT_SINGLE_FIRST = 5, FIT_SPLINE_INPUT = 9 };

/* `true` if the caller's problem can be fitted. Otherwise `reason` gets a sentence that begins with
 * the field. Does not compare sizes with the data. */
bool fit_problem_check(const compute_fit_problem *problem, char *reason, size_t reason_bytes);

/* Returns a checked problem with defaults filled in and irrelevant fields set to 0 (gain and
 * em_gain: 1), so that equal problems have equal bytes. */
compute_fit_problem fit_problem_normalize(const compute_fit_problem *problem);

/* `true` if backends can rely on the problem as on a result of fit_problem_normalize. */
bool fit_problem_is_normal(const compute_fit_problem *problem, char *reason, size_t reason_bytes);

/* The default range of a parameter, and its intersection with the problem's range. */
void fit_problem_usual_bounds(const compute_fit_problem *problem, int32_t parameter, double *lower,
                              double *upper);
void fit_problem_bounds(const compute_fit_problem *problem, int32_t parameter, double *lower,
                        double *upper);

/* The number of parameters that are not fixed. */
int32_t fit_problem_free_count(const compute_fit_problem *problem);

/* The index of a problem input (one bit) among the kernel's inputs; −1 if absent. */
int32_t fit_input_index(uint32_t inputs, uint32_t bit);

/* The name and dtype of the input with bit `number` (0 … FIT_INPUTS − 1). */
const char *fit_input_name(int32_t number);
compute_dtype fit_input_dtype(int32_t number);

const char *fit_model_name(compute_fit_model model); /* "XYNB"; NULL for an unknown value */
const char *fit_solver_name(compute_fit_solver solver);
const char *fit_camera_name(compute_fit_camera camera);

#endif
