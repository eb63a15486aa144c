/* SPDX-License-Identifier: MIT */
/* Samples of FIT with the data that belong to them: simulated spots as a camera sees them, maps,
 * corners, starts and bounds, and here and there an ROI that cannot be fitted. What a device makes
 * of them is compared with the reference in double precision (fit_reference.h). */
#ifndef SUPPORT_SAMPLE_FITS_H
#define SUPPORT_SAMPLE_FITS_H

#include "support/samples/sample_kernels.h"

/* sample_fits has every model, solver, camera, profile, input, output and way of laying pixels out,
 * in few programs, since each takes compilers long. Here are more, for those whose compiler is
 * quick: all solvers and cameras with all models. */
void sample_fits_in_full(sample_visitor visit, void *user);

/* A sample of a problem of one's own; defaults are put in. */
void sample_fit_visit(const compute_fit_problem *problem, compute_dtype pixels, int64_t n,
                      sample_visitor visit, void *user);

/* The sizes over which an operand's strides run; 1 where it has fewer than three. */
void sample_fit_sizes(const compute_kernel_descriptor *d, uint32_t operand, int64_t size[3]);

/* Fills the inputs, given the addresses of their first elements. */
void sample_fit_fill(const sample_kernel *s, void *const *operands);

/* Whether the records (the first element's address) are what the inputs ask for; if not, `problem`
 * says what is wrong first. */
bool sample_fit_check(const sample_kernel *s, const void *const *operands, const float *records,
                      char *problem, size_t problem_bytes);

#endif
