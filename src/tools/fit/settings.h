/* The problem that the command line describes. */
#ifndef TOOLS_FIT_PROBLEM_H
#define TOOLS_FIT_PROBLEM_H

#include "tools/fit/options.h"

/* Fills in model, profile, solver, widths, astigmatism, starts, bounds, outputs and the camera's
 * plain numbers. rows and columns are those of --roi. Returns EXIT_GOOD, or EXIT_USAGE or
 * EXIT_FAILED when it has said what is wrong. */
int problem_from_arguments(const fit_arguments *a, compute_fit_problem *problem);

/* The place of a model's parameter by its name, or −1. "N" and "background" are understood, too. */
int32_t problem_parameter(compute_fit_model model, const char *name);

#endif
