/* SPDX-License-Identifier: MIT */
/* The problem of a fit: its checks, and its normalised form for backends. */
#ifndef KERNEL_FIT_PROBLEM_H
#define KERNEL_FIT_PROBLEM_H

#include "compute/backend.h"

#define FIT_INPUTS 10 /* optional inputs besides the pixels: bits of `inputs` */

/* Of those, in the order of their bits: corners; maps; what single ROIs have; the spline. */
enum { FIT_MAP_FIRST = 1, FIT_SINGLE_FIRST = 5, FIT_SPLINE_INPUT = 9 };

/* Whether a caller's problem can be fitted; if not, `reason` gets a sentence that begins with the
 * field. Sizes are not compared with the data's. */
bool fit_problem_check(const compute_fit_problem *problem, char *reason, size_t reason_bytes);

/* A checked problem with its defaults filled in and all irrelevant fields set to 0 (gain and
 * em_gain: 1), so that equal problems are equal bytes. */
compute_fit_problem fit_problem_normalize(const compute_fit_problem *problem);

/* Whether a problem is as fit_problem_normalize leaves it, as far as backends rely on it. */
bool fit_problem_is_normal(const compute_fit_problem *problem, char *reason, size_t reason_bytes);

/* A parameter's range by default; and the narrower of that and the problem's. */
void fit_problem_usual_bounds(const compute_fit_problem *problem, int32_t parameter, double *lower,
                              double *upper);
void fit_problem_bounds(const compute_fit_problem *problem, int32_t parameter, double *lower,
                        double *upper);

/* Parameters that are not held fixed. */
int32_t fit_problem_free_count(const compute_fit_problem *problem);

/* The index of an input of the problem (one bit) among the kernel's inputs; −1 if absent. */
int32_t fit_input_index(uint32_t inputs, uint32_t bit);

/* The name of input number `number` (0 … FIT_INPUTS − 1, the bit's), and its dtype. */
const char *fit_input_name(int32_t number);
compute_dtype fit_input_dtype(int32_t number);

const char *fit_model_name(compute_fit_model model); /* "XYNB"; NULL for an unknown value */
const char *fit_solver_name(compute_fit_solver solver);
const char *fit_camera_name(compute_fit_camera camera);

#endif
